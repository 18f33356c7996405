//===- flamia-lsp-server.cpp - Editor support for flamia's dialects -------===//

#include "dialects/Tcgen/Tcgen.h"
#include "passes/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  flamia::registerFlamiaDialects(registry);
  registry.insert<flamia::tcgen::TcgenDialect>();
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
