//===- MergeLoops.cpp - One loop for two that do the same -----------------===//
//
// Vector code of a row of 128 elements is straight-line code of tens of
// kilobytes. Two loops of it that differ in nothing but what they read and
// write (Q, then K) would take twice the room in the instruction cache.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace flamia {
#define GEN_PASS_DEF_MERGELOOPSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

namespace {

/// Whether two loops have the same body, and in which values from outside they
/// differ.
class Comparison {
public:
  Comparison(scf::ForOp first, scf::ForOp second)
      : first(first), second(second) {}

  bool run() {
    // Both trip counts together must fit the type.
    Type type = first.getInductionVar().getType();
    return first.getNumResults() == 0 && second.getNumResults() == 0 &&
           (type.isIndex() || type.isInteger(64)) &&
           second.getInductionVar().getType() == type &&
           !first.getUnsignedCmp() &&
           first->getAttrDictionary() == second->getAttrDictionary() &&
           matchPattern(first.getStep(), m_One()) &&
           matchPattern(second.getStep(), m_One()) &&
           sameRegions(first.getRegion(), second.getRegion());
  }

  /// Pairs of values that the loops use in the same places.
  llvm::MapVector<std::pair<Value, Value>, SmallVector<OpOperand *>> differing;

private:
  bool sameValues(OpOperand &operand, Value other) {
    Value value = operand.get();
    if (Value inside = mapping.lookupOrNull(other))
      return inside == value;
    if (value == other)
      return true;
    Region &body = first.getRegion(), &otherBody = second.getRegion();
    if (body.isAncestor(value.getParentRegion()) ||
        otherBody.isAncestor(other.getParentRegion()) ||
        value.getType() != other.getType())
      return false;
    Attribute constant, otherConstant;
    matchPattern(value, m_Constant(&constant));
    matchPattern(other, m_Constant(&otherConstant));
    if (constant && constant == otherConstant)
      return true;
    // A tensor map's address is that of a parameter, an immediate is a
    // constant.
    if (isByValue(value) || isByValue(other) ||
        ((constant || otherConstant) &&
         isa<LLVM::InlineAsmOp, LLVM::CallIntrinsicOp>(operand.getOwner())))
      return false;
    differing[{value, other}].push_back(&operand);
    return true;
  }

  static bool isByValue(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto func =
        argument
            ? dyn_cast<LLVM::LLVMFuncOp>(argument.getOwner()->getParentOp())
            : LLVM::LLVMFuncOp();
    return func && func.getArgAttr(argument.getArgNumber(),
                                   LLVM::LLVMDialect::getByValAttrName());
  }

  bool sameOps(Operation &op, Operation &other) {
    if (op.getName() != other.getName() ||
        op.getAttrDictionary() != other.getAttrDictionary() ||
        op.getResultTypes() != other.getResultTypes() ||
        op.getNumOperands() != other.getNumOperands() ||
        op.getNumRegions() != other.getNumRegions() ||
        op.getNumSuccessors() != 0 || other.getNumSuccessors() != 0)
      return false;
    for (OpOperand &operand : op.getOpOperands())
      if (!sameValues(operand, other.getOperand(operand.getOperandNumber())))
        return false;
    for (auto [region, otherRegion] :
         llvm::zip(op.getRegions(), other.getRegions()))
      if (!sameRegions(region, otherRegion))
        return false;
    mapping.map(other.getResults(), op.getResults());
    return true;
  }

  bool sameRegions(Region &region, Region &other) {
    if (region.empty() || other.empty())
      return region.empty() && other.empty();
    if (!region.hasOneBlock() || !other.hasOneBlock() ||
        region.getArgumentTypes() != other.getArgumentTypes() ||
        region.front().getOperations().size() !=
            other.front().getOperations().size())
      return false;
    mapping.map(other.getArguments(), region.getArguments());
    return llvm::all_of(llvm::zip(region.front(), other.front()),
                        [&](auto ops) {
                          auto &[op, otherOp] = ops;
                          return sameOps(op, otherOp);
                        });
  }

  scf::ForOp first, second;
  /// From values of the second body to those of the first.
  IRMapping mapping;
};

/// The loop that follows with nothing between but what may come before.
scf::ForOp followingLoop(scf::ForOp loop) {
  for (Operation *op = loop->getNextNode(); op; op = op->getNextNode()) {
    if (auto next = dyn_cast<scf::ForOp>(op))
      return next;
    if (!isPure(op))
      return {};
  }
  return {};
}

/// first: i from a to b, second: i from c to d. One loop: the first b - a
/// iterations are the first's.
void merge(scf::ForOp first, scf::ForOp second, Comparison &comparison) {
  for (Operation &op : llvm::make_early_inc_range(llvm::make_range(
           std::next(first->getIterator()), second->getIterator())))
    op.moveBefore(first);
  OpBuilder builder(first);
  Location loc = first.getLoc();
  Type type = first.getInductionVar().getType();
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, 0));
  auto count = [&](scf::ForOp loop) -> Value {
    Value difference = arith::SubIOp::create(builder, loc, loop.getUpperBound(),
                                             loop.getLowerBound());
    Value runs =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                              loop.getLowerBound(), loop.getUpperBound());
    return arith::SelectOp::create(builder, loc, runs, difference, zero);
  };
  Value firstCount = count(first), secondCount = count(second);
  Value total = arith::AddIOp::create(builder, loc, firstCount, secondCount);
  Value low = first.getLowerBound(), secondLow = second.getLowerBound();
  first.setLowerBound(zero);
  first.setUpperBound(total);

  builder.setInsertionPointToStart(first.getBody());
  Value index = first.getInductionVar();
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                        index, firstCount);
  Value start = arith::SelectOp::create(
      builder, loc, isFirst, low,
      arith::SubIOp::create(builder, loc, secondLow, firstCount));
  auto place = arith::AddIOp::create(builder, loc, start, index);
  index.replaceUsesWithIf(place, [&](OpOperand &use) {
    return use.getOwner() != place && use.getOwner() != isFirst.getDefiningOp();
  });
  for (auto &[values, uses] : comparison.differing) {
    Value either = arith::SelectOp::create(builder, loc, isFirst, values.first,
                                           values.second);
    for (OpOperand *use : uses)
      use->set(either);
  }
  second->erase();
}

struct MergeLoopsPass
    : public flamia::impl::MergeLoopsPassBase<MergeLoopsPass> {
  using MergeLoopsPassBase::MergeLoopsPassBase;

  void runOnOperation() override {
    if (minOperations < 1) {
      getOperation().emitError("flamia-merge-loops: expected min-operations >= "
                               "1, but got ")
          << minOperations.getValue();
      return signalPassFailure();
    }
    SmallVector<scf::ForOp> loops;
    getOperation()->walk<WalkOrder::PreOrder>(
        [&](scf::ForOp loop) { loops.push_back(loop); });
    llvm::DenseSet<Operation *> merged;
    for (scf::ForOp loop : loops) {
      if (merged.contains(loop))
        continue;
      int64_t size = 0;
      loop.getRegion().walk([&](Operation *) { ++size; });
      scf::ForOp next = followingLoop(loop);
      if (size < minOperations || !next)
        continue;
      Comparison comparison(loop, next);
      if (!comparison.run())
        continue;
      next->walk([&](scf::ForOp gone) { merged.insert(gone); });
      merge(loop, next, comparison);
    }
  }
};

} // namespace
