//===- TcgenDialect.cpp - Registration of the Tcgen dialect ---------------===//

#include "dialects/Tcgen/Tcgen.h"

using namespace mlir;
using namespace flamia::tcgen;

#include "dialects/Tcgen/TcgenDialect.cpp.inc"

void TcgenDialect::initialize() {
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Tcgen/TcgenOps.cpp.inc"
      >();
}
