//===- FlamiaDialect.cpp - Registration of the Flamia dialect -------------===//

#include "dialects/Flamia/Flamia.h"

using namespace mlir;
using namespace flamia;

#include "dialects/Flamia/FlamiaDialect.cpp.inc"

void FlamiaDialect::initialize() {
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Flamia/FlamiaOps.cpp.inc"
      >();
}

Operation *FlamiaDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}
