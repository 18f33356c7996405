//===- TileUses.cpp - Who makes and who uses a tile -----------------------===//

#include "passes/Roles/TileUses.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flamia;

bool flamia::isTile(Type type) {
  return isa<RankedTensorType, ScaledType>(type);
}

/// Row and column vectors are loaded by the threads that hold them.
static bool isVectorShape(Type type) {
  auto [rows, cols] = getTileShape(type);
  return rows == 1 || cols == 1;
}

Unit flamia::unitOf(Operation *op) {
  if (isa<LoadOp, LoadScaledOp>(op))
    return isVectorShape(op->getResult(0).getType()) ? Unit::Vector : Unit::Tma;
  if (isa<DotOp>(op))
    return Unit::Mma;
  if (isa<scf::ForOp, scf::IfOp, scf::YieldOp, TransposeOp>(op))
    return Unit::None;
  if (llvm::any_of(op->getOperandTypes(), isTile) ||
      llvm::any_of(op->getResultTypes(), isTile))
    return Unit::Vector;
  return Unit::None;
}

StringRef flamia::roleOf(Operation *op) {
  auto role = op->getAttrOfType<StringAttr>(kRoleAttr);
  return role ? role.getValue() : StringRef();
}

bool flamia::isZeroTile(Value value) {
  auto isPositiveZero = [](const APFloat &number) {
    return number.isZero() && !number.isNegative();
  };
  if (auto full = value.getDefiningOp<FullOp>()) {
    FloatAttr scalar;
    return matchPattern(full.getValue(), m_Constant(&scalar)) &&
           isPositiveZero(scalar.getValue());
  }
  DenseFPElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         isPositiveZero(elements.getSplatValue<APFloat>());
}

OperandRoot flamia::lookThroughTransposes(Value value) {
  OperandRoot root{value};
  while (auto transpose = root.value.getDefiningOp<TransposeOp>()) {
    root.value = transpose.getSource();
    root.transposed = !root.transposed;
  }
  return root;
}

SmallVector<OpOperand *> flamia::usesThroughTransposes(Value value) {
  SmallVector<OpOperand *> uses;
  SmallVector<Value> pending{value};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (auto transpose = dyn_cast<TransposeOp>(use.getOwner()))
        pending.push_back(transpose.getResult());
      else
        uses.push_back(&use);
    }
  return uses;
}

Block *flamia::blockOf(Value value) { return value.getParentBlock(); }

Operation *flamia::ancestorIn(Block *block, Operation *op) {
  return block->findAncestorOpInBlock(*op);
}

void UseRange::add(Operation *anchor) {
  if (!first || anchor->isBeforeInBlock(first))
    first = anchor;
  if (!last || last->isBeforeInBlock(anchor))
    last = anchor;
}

std::optional<int64_t> flamia::constantTripCount(scf::ForOp loop) {
  std::optional<APInt> count = loop.getStaticTripCount();
  if (!count)
    return std::nullopt;
  return count->getSExtValue();
}
