//===- Rewrite.cpp - Apply what the solver found --------------------------===//

#include "passes/Folding/Rewrite.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace flamia;

/// -value, negated as a vector where it is one.
static Value negated(OpBuilder &builder, Location loc, Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return arith::NegFOp::create(builder, loc, value);
  Value vector = broadcast.getSource();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(vector);
    vector = arith::NegFOp::create(builder, loc, vector);
  }
  return BroadcastOp::create(builder, loc, value.getType(), vector);
}

namespace {
class Rewriter {
public:
  explicit Rewriter(LeafCatalog &catalog)
      : catalog(catalog), builder(catalog.getKernel().getContext()) {}

  void apply(const LeafChoice &choice);
  void apply(const OpChoice &choice);

private:
  Value argument(unsigned number) {
    return catalog.getKernel().getBody().getArgument(number);
  }
  /// A vector or number of \p place, read beside a scaled load of that place.
  Value load(unsigned number, unsigned place, Operation *user,
             ArrayRef<int64_t> shape);
  Value factor(const OpChoice &choice, Type type);
  Value scaled(const LeafChoice &choice);

  LeafCatalog &catalog;
  OpBuilder builder;
};
} // namespace

Value Rewriter::load(unsigned number, unsigned place, Operation *user,
                     ArrayRef<int64_t> shape) {
  LoadScaledOp anchor = catalog.getAnchor(place, user);
  if (catalog.dominates(anchor, user))
    builder.setInsertionPointAfter(anchor);
  else
    builder.setInsertionPoint(user);
  SmallVector<Value> indices(anchor.getScaleIndices());
  auto source = argument(number);
  if (cast<MemRefType>(source.getType()).getRank() == 3)
    indices.push_back(
        arith::ConstantIndexOp::create(builder, anchor.getLoc(), 0));
  return LoadOp::create(builder, anchor.getLoc(),
                        RankedTensorType::get(shape, builder.getF32Type()),
                        source, indices, Value());
}

/// The column factor of a choice, for tiles of \p type.
Value Rewriter::factor(const OpChoice &choice, Type type) {
  Value vector = load(choice.argument, choice.place, choice.op, {1, 128});
  builder.setInsertionPoint(choice.op);
  return BroadcastOp::create(builder, choice.op->getLoc(), type, vector);
}

/// The scaled load behind \p choice with other scales.
Value Rewriter::scaled(const LeafChoice &choice) {
  bool transposed;
  LoadScaledOp old = getScaledLoad(choice.use->get(), transposed);
  ScaledType type = old.getResult().getType();
  auto [rows, cols] = getTileShape(type);
  builder.setInsertionPointAfter(old);
  // The new type no longer says which tokens were quantized together.
  if (auto payload = dyn_cast<BlockArgument>(old.getSource());
      payload && type.getBlockRows() > 1)
    catalog.getKernel().setArgAttr(
        payload.getArgNumber(), "flamia.token_block",
        builder.getI64IntegerAttr(type.getBlockRows()));
  Value value;
  auto withBlocks = [&, rows = rows, cols = cols](int64_t blockRows,
                                                  int64_t blockCols) {
    return ScaledType::get(type.getContext(), rows, cols, type.getElementType(),
                           type.getScaleType(), blockRows, blockCols);
  };
  if (choice.kind == LeafChoice::Kind::Unit) {
    value = LoadPayloadOp::create(builder, old.getLoc(), withBlocks(rows, cols),
                                  old.getSource(), old.getIndices(),
                                  old.getLimit());
  } else {
    std::optional<FoldedArgument> folded =
        getFoldedArgument(catalog.getKernel(), choice.argument);
    bool alongRows = folded->along == Axis::Rows;
    value = LoadScaledOp::create(
        builder, old.getLoc(),
        withBlocks(alongRows ? 32 : 1, type.getBlockCols()), old.getSource(),
        old.getIndices(), argument(choice.argument), old.getScaleIndices(),
        old.getLimit(), folded->along);
  }
  if (transposed)
    value = TransposeOp::create(builder, old.getLoc(),
                                cast<ScaledType>(value.getType()).transposed(),
                                value);
  return value;
}

void Rewriter::apply(const LeafChoice &choice) {
  Operation *user = choice.use->getOwner();
  Value old = choice.use->get();
  Location loc = old.getLoc();
  switch (choice.kind) {
  case LeafChoice::Kind::Scales:
  case LeafChoice::Kind::Unit:
    choice.use->set(scaled(choice));
    return;
  case LeafChoice::Kind::Vector: {
    Value vector = load(choice.argument, choice.place, user, {1, 128});
    if (choice.negate)
      vector = arith::NegFOp::create(builder, loc, vector);
    builder.setInsertionPoint(user);
    choice.use->set(BroadcastOp::create(builder, loc, old.getType(), vector));
    return;
  }
  case LeafChoice::Kind::Constant: {
    builder.setInsertionPoint(user);
    auto type = cast<RankedTensorType>(old.getType());
    Value number = arith::ConstantOp::create(
        builder, loc,
        builder.getFloatAttr(type.getElementType(),
                             std::ldexp(*getSplat(old), int(choice.power))));
    choice.use->set(FullOp::create(builder, loc, type, number));
    return;
  }
  }
}

void Rewriter::apply(const OpChoice &choice) {
  Operation *op = choice.op;
  Location loc = op->getLoc();
  switch (choice.kind) {
  case OpChoice::Kind::Shift:
    cast<QuantizeOp>(op).getShiftMutable().assign(
        load(choice.argument, choice.place, op, {1, 1}));
    return;
  case OpChoice::Kind::ShiftBy: {
    auto quantize = cast<QuantizeOp>(op);
    int64_t own = int32_t(quantize.getShiftBy().value_or(0));
    if (own + choice.power == 0)
      quantize.removeShiftByAttr();
    else
      quantize.setShiftBy(uint32_t(own + choice.power));
    return;
  }
  case OpChoice::Kind::Multiply: {
    // The op is the user: a mask or a quantization.
    Value value = op->getOperand(0);
    Value factors = factor(choice, value.getType());
    op->setOperand(0, arith::MulFOp::create(builder, loc, value, factors));
    return;
  }
  case OpChoice::Kind::Fuse: {
    Value minuend = op->getOperand(0), vector = op->getOperand(1);
    Value factors = factor(choice, vector.getType());
    if (isa<arith::SubFOp>(op))
      vector = negated(builder, loc, vector);
    op->getResult(0).replaceAllUsesWith(
        math::FmaOp::create(builder, loc, vector, factors, minuend));
    op->erase();
    return;
  }
  case OpChoice::Kind::DropFactor:
    op->getResult(0).replaceAllUsesWith(op->getOperand(1 - choice.argument));
    op->erase();
    return;
  }
}

void flamia::applySolution(LeafCatalog &catalog, const Solution &solution) {
  Rewriter rewriter(catalog);
  // Leaves first: some ops go.
  for (const LeafChoice &choice : solution.leaves)
    rewriter.apply(choice);
  for (const OpChoice &choice : solution.ops)
    rewriter.apply(choice);
}

bool flamia::fuseScaledProducts(KernelOp kernel) {
  SmallVector<arith::SubFOp> sums;
  kernel.walk([&](arith::SubFOp op) {
    auto product = op.getLhs().getDefiningOp<arith::MulFOp>();
    if (product && product->hasOneUse() && isCarrier(op) &&
        product.getLhs().getDefiningOp<DotOp>() &&
        product.getRhs().getDefiningOp<BroadcastOp>() &&
        op.getRhs().getDefiningOp<BroadcastOp>())
      sums.push_back(op);
  });
  for (arith::SubFOp op : sums) {
    auto product = op.getLhs().getDefiningOp<arith::MulFOp>();
    OpBuilder builder(op);
    Value negative = negated(builder, op.getLoc(), op.getRhs());
    op.getResult().replaceAllUsesWith(math::FmaOp::create(
        builder, op.getLoc(), product.getLhs(), product.getRhs(), negative));
    op.erase();
    product.erase();
  }
  return !sums.empty();
}
