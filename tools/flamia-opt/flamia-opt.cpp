//===- flamia-opt.cpp - flamia's mlir-opt ---------------------------------===//
//
// Every flamia pass and pipeline, and the upstream passes they build on.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "dialects/Tcgen/Tcgen.h"
#include "flamia/Driver/Version.h"
#include "passes/InputLimits.h"
#include "passes/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "flamia-opt") << message << "\n";
  return 1;
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  flamia::registerFlamiaPassesAndPipelines();
  registry.insert<flamia::FlamiaDialect, flamia::tcgen::TcgenDialect>();

  llvm::InitLLVM init(argc, argv);
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &stream) {
    flamia::driver::printVersion(stream, "flamia-opt");
  });
  auto [inputName, outputName] = mlir::registerAndParseCLIOptions(
      argc, argv, "flamia optimizer driver\n", registry);
  mlir::MlirOptMainConfig config =
      mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, inputName, outputName, registry));
  std::string message;
  auto input = mlir::openInputFile(inputName, &message);
  if (!input)
    return fail(message);
  // MLIR's parser would overflow the stack on text made to nest.
  if (llvm::Error fault = flamia::checkInputLimits(input->getBuffer()))
    return fail(inputName + ": " + llvm::toString(std::move(fault)));
  auto output = mlir::openOutputFile(outputName, &message);
  if (!output)
    return fail(message);
  if (failed(
          mlir::MlirOptMain(output->os(), std::move(input), registry, config)))
    return 1;
  output->keep();
  return 0;
}
