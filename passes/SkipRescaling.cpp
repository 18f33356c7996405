//===- SkipRescaling.cpp - Leave accumulators alone that a factor 1 scales ===//
//
// An online softmax multiplies its output by 2^(old - new) of the row's
// reference, which changes in few tiles. Where all rows of a warp have the
// factor 1, its accumulators need not be read, multiplied and written.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flamia {
#define GEN_PASS_DEF_SKIPRESCALINGPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace {

/// A row's factor that multiplies what was read.
BroadcastOp factorOf(arith::MulFOp product, ReadOp read) {
  Value other = product.getLhs() == read.getResult() ? product.getRhs()
                                                     : product.getLhs();
  auto factor = other.getDefiningOp<BroadcastOp>();
  auto type = factor ? dyn_cast<RankedTensorType>(factor.getSource().getType())
                     : RankedTensorType();
  bool isRow = type && type.getShape() == ArrayRef<int64_t>({128, 1}) &&
               type.getElementType().isF32();
  return isRow ? factor : BroadcastOp();
}

struct SkipRescalingPass
    : public flamia::impl::SkipRescalingPassBase<SkipRescalingPass> {
  using SkipRescalingPassBase::SkipRescalingPassBase;

  void runOnOperation() override {
    SmallVector<ReadOp> reads;
    getOperation().walk([&](ReadOp read) { reads.push_back(read); });
    for (ReadOp read : reads)
      skip(read);
  }

  /// read, multiply, write back: nothing else may see the product, or come in
  /// between.
  void skip(ReadOp read) {
    if (!read->hasOneUse() || !read->getParentOfType<scf::ForOp>())
      return;
    auto product = dyn_cast<arith::MulFOp>(*read->user_begin());
    if (!product || !product->hasOneUse() ||
        product.getLhs() == product.getRhs())
      return;
    auto write = dyn_cast<WriteOp>(*product->user_begin());
    if (!write || write.getBuffer() != read.getBuffer() ||
        write.getSlot() != read.getSlot() || write.getCol() != read.getCol() ||
        write->getBlock() != read->getBlock() ||
        product->getBlock() != read->getBlock())
      return;
    for (Operation *op = read->getNextNode(); op != write;
         op = op->getNextNode())
      if (!isMemoryEffectFree(op))
        return;
    BroadcastOp factor = factorOf(product, read);
    if (!factor)
      return;
    OpBuilder builder(write);
    Location loc = product.getLoc();
    Value differs =
        AnyDiffersOp::create(builder, loc, builder.getI1Type(),
                             factor.getSource(), builder.getF32FloatAttr(1.0f));
    auto branch = scf::IfOp::create(builder, loc, differs,
                                    /*withElseRegion=*/false);
    Operation *end = branch.thenBlock()->getTerminator();
    for (Operation *op :
         {read.getOperation(), product.getOperation(), write.getOperation()})
      op->moveBefore(end);
    if (factor->hasOneUse())
      factor->moveBefore(read);
  }
};

} // namespace
