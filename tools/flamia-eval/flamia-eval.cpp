//===- flamia-eval.cpp - Runs a tile program on the CPU -------------------===//
//
// flamia-eval KERNEL.mlir --launch launch.json [-D name=value ...]
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "flamia/Driver/Version.h"
#include "flamia/Evaluator/Launch.h"
#include "passes/InputLimits.h"
#include "passes/Passes.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace llvm;
using namespace flamia;

static cl::OptionCategory category("flamia-eval options");
static cl::opt<std::string> input(cl::Positional, cl::Required,
                                  cl::desc("KERNEL.mlir"), cl::cat(category));
static cl::opt<std::string> launchPath(
    "launch",
    cl::desc("launch.json: arguments by name (docs/launch-record.md)"),
    cl::value_desc("file"), cl::Required, cl::cat(category));
static cl::list<std::string> defines("D", cl::Prefix,
                                     cl::desc("bind a compile-time parameter"),
                                     cl::value_desc("name=value"),
                                     cl::cat(category));
static cl::opt<std::string>
    kernelName("kernel", cl::desc("kernel to run, if the file has several"),
               cl::value_desc("name"), cl::cat(category));
static cl::opt<std::string> exp2Emulation(
    "exp2-emulation",
    cl::desc("share of exponentials by polynomial: 1/4 or another N/M, or 0; "
             "default: what the kernel says for sm_100a"),
    cl::value_desc("share"), cl::cat(category));
static cl::opt<bool> asWritten(
    "as-written",
    cl::desc("bind parameters only: no safeguards, no causality check"),
    cl::cat(category));

static int fail(const Twine &message) {
  WithColor::error(errs(), "flamia-eval") << message << "\n";
  return 1;
}

static Expected<KernelOp> findKernel(mlir::ModuleOp module) {
  std::string names;
  KernelOp only;
  unsigned count = 0;
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    if (kernel.getSymName() == kernelName)
      return kernel;
    names += (count++ ? ", " : "") + kernel.getSymName().str();
    only = kernel;
  }
  if (count == 1 && kernelName.empty())
    return only;
  std::string message =
      !kernelName.empty() ? input + " has no kernel '" + kernelName + "'; "
      : count ? input + " has several kernels: choose with --kernel; "
              : std::string();
  return createStringError(inconvertibleErrorCode(),
                           count ? message + "there are: " + names
                                 : input + " holds no kernel");
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter(
      [](raw_ostream &stream) { driver::printVersion(stream, "flamia-eval"); });
  cl::ParseCommandLineOptions(
      argc, argv, "Evaluates a Flamia tile program on the CPU, values only\n");

  mlir::DialectRegistry registry;
  registerFlamiaDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  std::string message;
  auto file = mlir::openInputFile(input, &message);
  if (!file)
    return fail(message);
  if (Error fault = checkInputLimits(file->getBuffer()))
    return fail(input + ": " + toString(std::move(fault)));
  SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), SMLoc());
  mlir::SourceMgrDiagnosticHandler diagnostics(sources, &context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return fail("cannot parse " + input);

  PipelineOptions options;
  options.parameters = join(defines, ",");
  if (exp2Emulation.getNumOccurrences())
    options.exp2Share = exp2Emulation;
  mlir::PassManager passes(&context);
  if (asWritten)
    passes.addPass(
        createSpecializePass(SpecializePassOptions{options.parameters}));
  else
    buildFlamiaPipeline(passes, options);
  if (failed(passes.run(*module)))
    return fail("cannot bind or prove " + input + " (see above)");

  Expected<KernelOp> kernel = findKernel(*module);
  if (!kernel)
    return fail(toString(kernel.takeError()));
  Expected<evaluator::Launch> launch =
      evaluator::readLaunch(launchPath, *kernel);
  if (!launch)
    return fail(toString(launch.takeError()));
  if (Error fault = evaluator::evaluate(*kernel, launch->arguments))
    return fail(toString(std::move(fault)));
  if (Error fault = evaluator::writeOutputs(*kernel, *launch))
    return fail(toString(std::move(fault)));
  Expected<bool> fits = evaluator::checkExpectations(*kernel, *launch, outs());
  if (!fits)
    return fail(toString(fits.takeError()));
  return *fits ? 0 : fail("an output differs from what is expected");
}
