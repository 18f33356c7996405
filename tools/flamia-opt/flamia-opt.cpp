//===- flamia-opt.cpp - flamia's mlir-opt ---------------------------------===//
//
// Every flamia pass and pipeline, and the upstream passes they build on.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "dialects/Tcgen/Tcgen.h"
#include "passes/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  flamia::registerFlamiaPassesAndPipelines();
  registry.insert<flamia::FlamiaDialect, flamia::tcgen::TcgenDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "flamia optimizer driver\n", registry));
}
