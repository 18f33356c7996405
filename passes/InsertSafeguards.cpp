//===- InsertSafeguards.cpp - Original operands where scales would leak ---===//
//
// Works leak by leak: a product in a loop first has its straddling iterations
// split off; one whose iterations are all alike is rewritten where it stands.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Causality.h"
#include "passes/Analysis/Kernels.h"
#include "passes/Passes.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace flamia {
#define GEN_PASS_DEF_INSERTSAFEGUARDSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

/// Follows \p value through transposes and counts them.
static Value skipTransposes(Value value, unsigned &count) {
  count = 0;
  while (auto transpose = value.getDefiningOp<TransposeOp>()) {
    value = transpose.getSource();
    ++count;
  }
  return value;
}

/// Puts back an odd number of transposes.
static Value transposed(OpBuilder &builder, Location loc, Value value,
                        unsigned count) {
  if (count % 2 == 0)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  return TransposeOp::create(
      builder, loc,
      RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)},
                            type.getElementType()),
      value);
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
  Value original(OpBuilder &builder, LoadScaledOp load, BlockArgument source);

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

/// The tile that \p load reads, from the unquantized tensor.
Value InsertSafeguardsPass::original(OpBuilder &builder, LoadScaledOp load,
                                     BlockArgument source) {
  auto [rows, cols] = getTileShape(load.getResult().getType());
  auto type = RankedTensorType::get(
      {rows, cols}, cast<MemRefType>(source.getType()).getElementType());
  return LoadOp::create(builder, load.getLoc(), type, source, load.getIndices(),
                        load.getLimit());
}

bool InsertSafeguardsPass::rewrite(CausalityAnalysis &analysis,
                                   const Leak &leak) {
  auto dot = cast<DotOp>(leak.dependence.product);
  unsigned leaking = leak.dependence.productOperand;
  unsigned turns = 0, otherTurns = 0;
  Value operand = skipTransposes(dot->getOperand(leaking), turns);
  Value other = skipTransposes(dot->getOperand(1 - leaking), otherTurns);
  auto load = operand.getDefiningOp<LoadScaledOp>();
  if (!load || load != leak.dependence.load)
    return false;
  BlockArgument source = analysis.getOriginal(leak.dependence.source);
  Type element = cast<MemRefType>(source.getType()).getElementType();
  if (!isa<BFloat16Type, Float16Type>(element))
    return false;

  OpBuilder builder(load);
  Location loc = dot.getLoc();
  if (auto quantize = other.getDefiningOp<QuantizeOp>()) {
    // All uses of the values that were quantized see the rounded ones.
    Value values = quantize.getSource();
    builder.setInsertionPointAfterValue(values);
    auto type = cast<RankedTensorType>(values.getType());
    Value rounded = arith::TruncFOp::create(builder, quantize.getLoc(),
                                            type.clone(element), values);
    Value seen =
        arith::ExtFOp::create(builder, quantize.getLoc(), type, rounded);
    values.replaceAllUsesExcept(seen, rounded.getDefiningOp());
    quantize.getResult().replaceUsesWithIf(rounded, [](OpOperand &use) {
      return isa<RoundLikeOp>(use.getOwner());
    });
    other = rounded;
  } else if (auto otherLoad = other.getDefiningOp<LoadScaledOp>()) {
    auto arg = dyn_cast<BlockArgument>(otherLoad.getSource());
    BlockArgument otherSource =
        arg ? analysis.getOriginal(arg) : BlockArgument();
    if (!otherSource ||
        cast<MemRefType>(otherSource.getType()).getElementType() != element)
      return false;
    builder.setInsertionPoint(otherLoad);
    other = original(builder, otherLoad, otherSource);
  } else {
    return false;
  }

  builder.setInsertionPoint(load);
  Value safe = original(builder, load, source);
  builder.setInsertionPoint(dot);
  Value operands[2];
  operands[leaking] = transposed(builder, loc, safe, turns);
  operands[1 - leaking] = transposed(builder, loc, other, otherTurns);
  Value product = DotOp::create(builder, loc, dot.getType(), operands[0],
                                operands[1], dot.getAcc());
  dot.getResult().replaceAllUsesWith(product);
  dot.erase();
  return true;
}
