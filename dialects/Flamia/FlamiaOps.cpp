//===- FlamiaOps.cpp - Verifiers of the Flamia dialect --------------------===//

#include "dialects/Flamia/Flamia.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flamia;

#include "dialects/Flamia/FlamiaEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Flamia/FlamiaOps.cpp.inc"

LogicalResult DimOp::verify() { return success(); }
LogicalResult WorkItemOp::verify() { return success(); }
LogicalResult LoadOp::verify() { return success(); }
LogicalResult LoadScaledOp::verify() { return success(); }
LogicalResult StoreOp::verify() { return success(); }
LogicalResult StorePayloadOp::verify() { return success(); }
LogicalResult StoreScalesOp::verify() { return success(); }
LogicalResult TransposeOp::verify() { return success(); }
LogicalResult DotOp::verify() { return success(); }
LogicalResult QuantizeOp::verify() { return success(); }
LogicalResult RoundLikeOp::verify() { return success(); }
LogicalResult HadamardOp::verify() { return success(); }
LogicalResult FullOp::verify() { return success(); }
LogicalResult BroadcastOp::verify() { return success(); }
LogicalResult ReduceOp::verify() { return success(); }
LogicalResult MaskOp::verify() { return success(); }
