//===- FlamiaFolds.cpp - Folds and canonicalizations ----------------------===//

#include "dialects/Flamia/Flamia.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace flamia;

OpFoldResult DimOp::fold(FoldAdaptor adaptor) {
  int64_t extent =
      cast<MemRefType>(getSource().getType()).getDimSize(getDimension());
  if (ShapedType::isDynamic(extent))
    return {};
  return IntegerAttr::get(IndexType::get(getContext()), extent);
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  auto inner = getSource().getDefiningOp<TransposeOp>();
  if (inner && inner.getSource().getType() == getType())
    return inner.getSource();
  return {};
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  return getSource().getType() == getType() ? getSource() : OpFoldResult();
}

OpFoldResult MaskOp::fold(FoldAdaptor adaptor) {
  bool keepsAll = !getCausal() && !getLimit() && !getWindow();
  return keepsAll ? OpFoldResult(getSource()) : OpFoldResult();
}

namespace {
/// A broadcast of a uniform tile is a uniform tile.
struct BroadcastOfFull : public OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    auto full = op.getSource().getDefiningOp<FullOp>();
    if (!full)
      return rewriter.notifyMatchFailure(op, "source is not flamia.full");
    rewriter.replaceOpWithNewOp<FullOp>(op, op.getType(), full.getValue());
    return success();
  }
};
} // namespace

void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<BroadcastOfFull>(context);
}
