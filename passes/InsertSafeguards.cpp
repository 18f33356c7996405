//===- InsertSafeguards.cpp - Original operands where scales would leak ---===//
//
// Works leak by leak: a product in a loop first has its straddling iterations
// split off; one whose iterations are all alike is rewritten where it stands.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Causality.h"
#include "passes/Analysis/Kernels.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace flamia {
#define GEN_PASS_DEF_INSERTSAFEGUARDSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

namespace {
/// One operand of a product, without its transposes: a load whose argument has
/// an original, or values that the kernel quantizes.
struct Factor {
  LoadScaledOp load;
  QuantizeOp quantize;
  BlockArgument original;
  /// One value for each token, by which the original is too small; or null.
  BlockArgument perToken;
  /// Whether there is an odd number of transposes.
  bool turned = false;

  explicit operator bool() const { return load || quantize; }
};
} // namespace

static Factor factorOf(CausalityAnalysis &analysis, Value operand) {
  Factor factor;
  while (auto transpose = operand.getDefiningOp<TransposeOp>()) {
    operand = transpose.getSource();
    factor.turned = !factor.turned;
  }
  factor.quantize = operand.getDefiningOp<QuantizeOp>();
  auto load = operand.getDefiningOp<LoadScaledOp>();
  auto arg = load ? dyn_cast<BlockArgument>(load.getSource()) : BlockArgument();
  if (arg)
    factor.original = analysis.getOriginal(arg);
  if (factor.original) {
    factor.load = load;
    factor.perToken = analysis.getOriginalFactor(arg);
  }
  return factor;
}

static bool isZero(Value tile) {
  auto full = tile.getDefiningOp<FullOp>();
  return full && matchPattern(full.getValue(), m_AnyZeroFloat());
}

/// \p vector, one value a row, as a tile of \p type with a value for each row
/// or each column.
static Value spread(OpBuilder &builder, Location loc, Value vector,
                    RankedTensorType type, bool alongCols) {
  if (alongCols) {
    auto rows = cast<RankedTensorType>(vector.getType());
    vector = TransposeOp::create(
        builder, loc, rows.clone({rows.getDimSize(1), rows.getDimSize(0)}),
        vector);
  }
  return BroadcastOp::create(builder, loc, type, vector);
}

/// -value, of the smaller tile if \p value is a broadcast.
static Value negated(OpBuilder &builder, Location loc, Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return arith::NegFOp::create(builder, loc, value);
  Value inner = arith::NegFOp::create(builder, loc, broadcast.getSource());
  return BroadcastOp::create(builder, loc, broadcast.getType(), inner);
}

/// The mask whose hidden elements are 0 in \p values, or null.
static MaskOp zeroMaskOf(Value values) {
  bool power = false;
  while (Operation *op = values.getDefiningOp()) {
    if (auto mask = dyn_cast<MaskOp>(op)) {
      // 2^-inf is 0 as well.
      if (mask.getZero() != power)
        return mask;
      values = mask.getSource();
    } else if (isa<math::Exp2Op>(op) && !power) {
      power = true;
      values = op->getOperand(0);
    } else if (isa<arith::ExtFOp, arith::TruncFOp>(op) ||
               (isa<arith::MulFOp>(op) && !power)) {
      // Weights are the left factor of what scales them.
      values = op->getOperand(0);
    } else {
      return {};
    }
  }
  return {};
}

namespace {
/// A product of which both operands can be 16-bit values.
class Exchange {
public:
  Exchange(CausalityAnalysis &analysis, DotOp dot)
      : dot(dot), factors{factorOf(analysis, dot.getA()),
                          factorOf(analysis, dot.getB())} {}

  /// True if there are originals of one type and a place for what they lack.
  bool isPossible() const;
  /// Products in the same block that read one of the loads.
  SmallVector<DotOp> productsOfSameLoads();
  /// Replaces the product. Vectors that go with a payload are exchanged in
  /// what is computed from it.
  void run(CausalityAnalysis &analysis);

private:
  /// Whether the operand's tokens are summed over.
  bool isContracted(unsigned operand) const {
    return factors[operand].turned == (operand == 0);
  }
  Value load(LoadScaledOp like, BlockArgument source, bool vector);
  Value roundedValues(const Factor &factor, Value perToken, bool alongCols);
  void exchangeVectors(CausalityAnalysis &analysis);
  Value exchangeVector(CausalityAnalysis &analysis, Value value);
  void replaceResult(Value product, Value perToken, bool alongCols);

  DotOp dot;
  Factor factors[2];
  Type element;
  llvm::DenseMap<Value, Value> exchanged;
};
} // namespace

bool Exchange::isPossible() const {
  if (!factors[0] || !factors[1])
    return false;
  Type element;
  unsigned perToken = 0;
  for (unsigned i : {0, 1}) {
    if (!factors[i].load)
      continue;
    Type own = cast<MemRefType>(factors[i].original.getType()).getElementType();
    if (element && element != own)
      return false;
    element = own;
    if (factors[i].perToken) {
      ++perToken;
      // Where tokens are summed, the other operand takes the factor before it
      // is rounded.
      if (isContracted(i) && !factors[1 - i].quantize)
        return false;
    }
  }
  return element && perToken <= 1;
}

SmallVector<DotOp> Exchange::productsOfSameLoads() {
  SmallVector<DotOp> products;
  for (Factor &factor : factors) {
    if (!factor.load)
      continue;
    SmallVector<Value> values = {factor.load.getResult()};
    while (!values.empty())
      for (Operation *user : values.pop_back_val().getUsers()) {
        if (auto transpose = dyn_cast<TransposeOp>(user))
          values.push_back(transpose.getResult());
        else if (auto product = dyn_cast<DotOp>(user);
                 product && product->getBlock() == dot->getBlock())
          products.push_back(product);
      }
  }
  return products;
}

/// The tile that \p like reads, or its tokens' values, from another tensor.
Value Exchange::load(LoadScaledOp like, BlockArgument source, bool vector) {
  OpBuilder builder(like);
  auto [rows, cols] = getTileShape(like.getResult().getType());
  auto type = RankedTensorType::get(
      {rows, vector ? 1 : cols},
      cast<MemRefType>(source.getType()).getElementType());
  ValueRange indices = like.getIndices();
  return LoadOp::create(builder, like.getLoc(), type, source,
                        vector ? indices.drop_back() : indices,
                        like.getLimit());
}

/// The values that were quantized, in 16 bits. What is summed or reduced beside
/// the product must be what the product uses: reductions see the rounded ones,
/// and so does whatever else looks at a value that `flamia.round_like` rounds
/// like them.
Value Exchange::roundedValues(const Factor &factor, Value perToken,
                              bool alongCols) {
  QuantizeOp quantize = factor.quantize;
  Value values = quantize.getSource();
  Location loc = quantize.getLoc();
  OpBuilder builder(quantize);
  builder.setInsertionPointAfterValue(values);
  auto type = cast<RankedTensorType>(values.getType());
  Type narrow = type.clone(element);
  Value rounded = arith::TruncFOp::create(builder, loc, narrow, values);
  Value seen = arith::ExtFOp::create(builder, loc, type, rounded);
  values.replaceUsesWithIf(
      seen, [](OpOperand &use) { return isa<ReduceOp>(use.getOwner()); });
  SmallVector<RoundLikeOp> likes;
  for (Operation *user : quantize->getUsers())
    if (auto like = dyn_cast<RoundLikeOp>(user))
      likes.push_back(like);
  for (RoundLikeOp like : likes) {
    like.getLikeMutable().assign(rounded);
    Operation *source = like.getSource().getDefiningOp();
    if (!source || isa<ReduceOp>(source) ||
        source->getBlock() != quantize->getBlock())
      continue;
    OpBuilder behind(source->getContext());
    behind.setInsertionPointAfter(source);
    Value value = like.getSource();
    auto valueType = cast<RankedTensorType>(value.getType());
    Value narrowed =
        arith::TruncFOp::create(behind, loc, valueType.clone(element), value);
    Value widened = arith::ExtFOp::create(behind, loc, valueType, narrowed);
    value.replaceAllUsesExcept(widened, narrowed.getDefiningOp());
  }
  if (!perToken)
    return rounded;
  builder.setInsertionPoint(dot);
  Value factors = spread(builder, loc, perToken, type, alongCols);
  Value product = arith::MulFOp::create(builder, loc, seen, factors);
  // What a mask hides stays hidden whatever the factor is: 0 * NaN is NaN.
  if (MaskOp mask = zeroMaskOf(values)) {
    auto again = cast<MaskOp>(builder.clone(*mask));
    again.getSourceMutable().assign(product);
    again.setZero(true);
    product = again.getResult();
  }
  return arith::TruncFOp::create(builder, loc, narrow, product);
}

/// The original of a vector that goes with one of the payloads, through what
/// shapes it; null if \p value is nothing of that kind.
Value Exchange::exchangeVector(CausalityAnalysis &analysis, Value value) {
  auto [place, isNew] = exchanged.try_emplace(value);
  if (!isNew)
    return place->second;
  Operation *op = value.getDefiningOp();
  Value result;
  if (auto load = dyn_cast_or_null<LoadOp>(op)) {
    auto arg = dyn_cast<BlockArgument>(load.getSource());
    BlockArgument with = arg ? analysis.getOriginalWith(arg) : BlockArgument();
    for (Factor &factor : factors)
      if (with && factor.load && factor.load.getSource() == with) {
        OpBuilder builder(load);
        result = LoadOp::create(builder, load.getLoc(), load.getType(),
                                analysis.getOriginal(arg), load.getIndices(),
                                load.getLimit());
      }
  } else if (isa_and_nonnull<TransposeOp, BroadcastOp, arith::NegFOp>(op)) {
    if (Value inner = exchangeVector(analysis, op->getOperand(0))) {
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      Operation *clone = builder.clone(*op);
      clone->setOperand(0, inner);
      result = clone->getResult(0);
    }
  }
  return exchanged[value] = result;
}

void Exchange::exchangeVectors(CausalityAnalysis &analysis) {
  SmallVector<Value> values = {dot.getResult()};
  llvm::DenseSet<Operation *> seen;
  while (!values.empty()) {
    SmallVector<Operation *> users(values.pop_back_val().getUsers());
    for (Operation *user : users) {
      bool follows = OpTrait::hasElementwiseMappableTraits(user) ||
                     isa<MaskOp, BroadcastOp, TransposeOp>(user);
      if (!follows || user->getBlock() != dot->getBlock() ||
          !seen.insert(user).second)
        continue;
      for (OpOperand &operand : user->getOpOperands())
        if (Value other = exchangeVector(analysis, operand.get()))
          operand.set(other);
      llvm::append_range(values, user->getResults());
    }
  }
}

/// Puts \p product, which lacks \p perToken if that is set, in the place of the
/// old result.
void Exchange::replaceResult(Value product, Value perToken, bool alongCols) {
  if (!perToken) {
    dot.getResult().replaceAllUsesWith(product);
    return;
  }
  Location loc = dot.getLoc();
  OpBuilder builder(dot);
  Value factors = spread(builder, loc, perToken, dot.getType(), alongCols);
  // A subtraction takes the multiplication in: one rounding.
  if (isZero(dot.getAcc()))
    for (Operation *user :
         SmallVector<Operation *>(dot.getResult().getUsers())) {
      auto sub = dyn_cast<arith::SubFOp>(user);
      if (!sub || sub.getLhs() != dot.getResult() ||
          sub.getRhs() == dot.getResult())
        continue;
      builder.setInsertionPoint(sub);
      Value fma =
          math::FmaOp::create(builder, sub.getLoc(), product, factors,
                              negated(builder, sub.getLoc(), sub.getRhs()));
      sub.getResult().replaceAllUsesWith(fma);
      sub.erase();
    }
  if (dot.getResult().use_empty())
    return;
  builder.setInsertionPoint(dot);
  Value result =
      isZero(dot.getAcc())
          ? arith::MulFOp::create(builder, loc, product, factors).getResult()
          : math::FmaOp::create(builder, loc, product, factors, dot.getAcc())
                .getResult();
  dot.getResult().replaceAllUsesWith(result);
}

void Exchange::run(CausalityAnalysis &analysis) {
  exchangeVectors(analysis);
  Location loc = dot.getLoc();
  Value operands[2], contracted, outer;
  bool outerCols = false;
  for (unsigned i : {0, 1}) {
    Factor &factor = factors[i];
    if (!factor.load)
      continue;
    element = cast<MemRefType>(factor.original.getType()).getElementType();
    operands[i] = load(factor.load, factor.original, /*vector=*/false);
    if (!factor.perToken)
      continue;
    Value perToken = load(factor.load, factor.perToken, /*vector=*/true);
    if (isContracted(i)) {
      contracted = perToken;
    } else {
      outer = perToken;
      outerCols = i == 1;
    }
  }
  for (unsigned i : {0, 1})
    if (factors[i].quantize)
      operands[i] =
          roundedValues(factors[i], contracted, (i == 0) != factors[i].turned);

  OpBuilder builder(dot);
  for (unsigned i : {0, 1})
    if (factors[i].turned) {
      auto type = cast<RankedTensorType>(operands[i].getType());
      operands[i] = TransposeOp::create(
          builder, loc, type.clone({type.getDimSize(1), type.getDimSize(0)}),
          operands[i]);
    }
  Value acc = dot.getAcc();
  if (outer && !isZero(acc)) {
    Value zero =
        arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0.0f));
    acc = FullOp::create(builder, loc, dot.getType(), zero);
  }
  Value product =
      DotOp::create(builder, loc, dot.getType(), operands[0], operands[1], acc);
  replaceResult(product, outer, outerCols);
  dot.erase();
}

namespace {
class InsertSafeguardsPass
    : public flamia::impl::InsertSafeguardsPassBase<InsertSafeguardsPass> {
public:
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      if (failed(requireSpecialized(kernel)))
        return signalPassFailure();
      alike.clear();
      // Each step settles a loop or a product; the bound is a safety net.
      unsigned steps = 0;
      while (step(kernel) && ++steps < 64)
        ;
      IndexAnalysis indices;
      simplifyMasks(kernel, indices);
    }
    OpPassManager folding(ModuleOp::getOperationName());
    folding.addPass(createCanonicalizerPass());
    folding.addPass(createCSEPass());
    if (failed(runPipeline(folding, module)))
      signalPassFailure();
  }

private:
  /// Removes one leak, or prepares that by splitting a loop.
  bool step(KernelOp kernel);
  bool split(CausalityAnalysis &analysis, const Leak &leak);
  bool rewrite(CausalityAnalysis &analysis, const Leak &leak);

  /// Loops that hold only straddling iterations.
  llvm::DenseSet<Operation *> alike;
};
} // namespace

bool InsertSafeguardsPass::step(KernelOp kernel) {
  CausalityAnalysis analysis(kernel);
  for (const Leak &leak : analysis.getLeaks()) {
    const Dependence &dependence = leak.dependence;
    if (leak.reason != Leak::Reason::SharedScale ||
        dependence.sharing > dependence.extent ||
        dependence.kind == Dependence::Kind::Row ||
        !isa_and_nonnull<DotOp>(dependence.product) ||
        !isa_and_nonnull<LoadScaledOp>(dependence.load) ||
        !analysis.getOriginal(dependence.source))
      continue;
    if (split(analysis, leak) || rewrite(analysis, leak))
      return true;
  }
  return false;
}

/// Splits off the iterations of the product's loop whose tile may straddle the
/// diagonal, if the others are proven not to.
bool InsertSafeguardsPass::split(CausalityAnalysis &analysis,
                                 const Leak &leak) {
  auto loop = dyn_cast<scf::ForOp>(leak.dependence.product->getParentOp());
  if (!loop || alike.contains(loop) || !loop->isAncestor(leak.dependence.load))
    return false;
  IndexAnalysis &indices = analysis.getIndices();
  // The tile of this iteration, not of an earlier one.
  Leak current = leak;
  current.dependence.origin = indices.get(
      cast<LoadScaledOp>(leak.dependence.load).getIndices().front());
  constexpr int64_t mostStraddling = 4;
  std::optional<scf::ForOp> apart =
      splitLoopWhere(loop, mostStraddling, indices,
                     [&] { return analysis.isStrictlyPast(current); });
  if (apart && *apart)
    alike.insert(*apart);
  return apart.has_value();
}

/// Exchanges the leaking product, and with it those of its block that read the
/// same loads: a tile has one kind of each operand.
bool InsertSafeguardsPass::rewrite(CausalityAnalysis &analysis,
                                   const Leak &leak) {
  auto dot = cast<DotOp>(leak.dependence.product);
  Value leaking = dot->getOperand(leak.dependence.productOperand);
  if (factorOf(analysis, leaking).load != leak.dependence.load ||
      !Exchange(analysis, dot).isPossible())
    return false;
  llvm::SetVector<DotOp> products;
  products.insert(dot);
  for (unsigned i = 0; i < products.size(); ++i)
    for (DotOp other : Exchange(analysis, products[i]).productsOfSameLoads())
      if (Exchange(analysis, other).isPossible())
        products.insert(other);
  for (DotOp product : products)
    Exchange(analysis, product).run(analysis);
  return true;
}
