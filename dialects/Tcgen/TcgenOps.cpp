//===- TcgenOps.cpp - Verifiers of the Tcgen dialect ----------------------===//

#include "dialects/Tcgen/Tcgen.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace flamia::tcgen;

#define GET_OP_CLASSES
#include "dialects/Tcgen/TcgenOps.cpp.inc"

LogicalResult AllocOp::verify() { return success(); }
LogicalResult FillScalesOp::verify() { return success(); }
LogicalResult ChannelOp::verify() { return success(); }
LogicalResult RoleOp::verify() { return success(); }
LogicalResult TmaLoadOp::verify() { return success(); }
LogicalResult BulkLoadOp::verify() { return success(); }
LogicalResult CopyScalesOp::verify() { return success(); }
LogicalResult MmaOp::verify() { return success(); }
LogicalResult ReadOp::verify() { return success(); }
LogicalResult WriteOp::verify() { return success(); }
LogicalResult WriteScalesOp::verify() { return success(); }
