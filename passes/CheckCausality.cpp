//===- CheckCausality.cpp - Prove causality or name the leak --------------===//

#include "passes/Analysis/Causality.h"
#include "passes/Analysis/Kernels.h"
#include "passes/Passes.h"

namespace flamia {
#define GEN_PASS_DEF_CHECKCAUSALITYPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

static std::string describeSharing(const Dependence &dependence) {
  if (dependence.sharing == sharedByPack)
    return "all tokens of the pack";
  if (dependence.sharing == sharedByDocument)
    return "all tokens of the document";
  return std::to_string(dependence.sharing) + " tokens";
}

/// "(scale block 32x32)", where the source was loaded with the scales meant.
static std::string describeBlock(const Dependence &dependence) {
  auto load = dyn_cast_or_null<LoadScaledOp>(dependence.load);
  if (!load)
    return "";
  ScaledType type = load.getResult().getType();
  if (dependence.sharing < sharedByDocument &&
      dependence.sharing != type.getBlockRows())
    return "";
  return " (scale block " + std::to_string(type.getBlockRows()) + "x" +
         std::to_string(type.getBlockCols()) + ")";
}

static std::string describeTokens(IndexAnalysis &indices,
                                  const IndexExpr &origin, int64_t extent) {
  return "tokens " + indices.toString(origin) + " to " +
         indices.toString(origin + (extent - 1));
}

static void report(KernelOp kernel, CausalityAnalysis &analysis,
                   const Leak &leak) {
  const Dependence &dependence = leak.dependence;
  IndexAnalysis &indices = analysis.getIndices();
  auto nameOf = [&](BlockArgument arg) {
    return "'" + kernel.getArgName(arg.getArgNumber()).str() + "'";
  };
  std::string source = nameOf(dependence.source);
  Operation *at = dependence.product ? dependence.product
                  : dependence.load  ? dependence.load
                                     : leak.store;

  InFlightDiagnostic error = emitError(at->getLoc());
  error << (leak.outputs.size() > 1 ? "outputs " : "output ");
  llvm::interleaveComma(leak.outputs, error,
                        [&](BlockArgument arg) { error << nameOf(arg); });
  error << " may depend on tokens of " << source << " "
        << (leak.later ? "before" : "after") << " their own: ";
  if (isa_and_nonnull<DotOp>(dependence.product))
    error << "operand '" << (dependence.productOperand ? "b" : "a")
          << "' of this product ";
  else
    error << "it ";
  switch (leak.reason) {
  case Leak::Reason::SharedScale:
    if (dependence.sharedByProduct)
      error << "is summed over its tokens, " << hardwareBlock
            << " of which share a scale then";
    else
      error << "shares a scale over " << describeSharing(dependence)
            << describeBlock(dependence);
    if (dependence.sharing < sharedByDocument) {
      if (dependence.kind == Dependence::Kind::Row)
        error << " along the output's own rows";
      else
        error << " and its tile is not proven strictly "
              << (leak.later ? "later" : "past");
    }
    break;
  case Leak::Reason::NoMask:
    error << "is not masked before tokens are summed, and its tile is not "
             "proven strictly "
          << (leak.later ? "later" : "past");
    break;
  case Leak::Reason::OtherRow:
    error << "holds other tokens in its rows than the output";
    break;
  case Leak::Reason::NoDirection:
    error << "has no direction in 'flamia.depends'";
    break;
  }
  if (dependence.load) {
    Diagnostic &note = error.attachNote(dependence.load->getLoc());
    auto loaded = dyn_cast<BlockArgument>(dependence.load->getOperand(0));
    if (loaded && loaded != dependence.source)
      note << nameOf(loaded) << ", which holds exponents of " << source << ",";
    else
      note << source;
    note << " is loaded here";
    if (dependence.kind != Dependence::Kind::All)
      note << ": "
           << describeTokens(indices, dependence.origin, dependence.extent);
  }
  error.attachNote(leak.store->getLoc())
      << nameOf(leak.outputs.front()) << " is stored here: "
      << describeTokens(indices, leak.outputOrigin, leak.outputRows);
  if (leak.reason == Leak::Reason::SharedScale)
    if (BlockArgument original = analysis.getOriginal(dependence.source))
      error.attachNote(kernel.getLoc())
          << nameOf(original)
          << " holds the unquantized values: flamia-insert-safeguards can use "
             "it on the diagonal";
}

/// A proof takes the tokens that share a scale from the type of the load. So
/// all loads from one array of scales must read it for the same payload and in
/// the same way: otherwise some of the types are wrong.
static LogicalResult checkScalePairs(KernelOp kernel) {
  auto isProved = [](DictionaryAttr attributes) {
    return attributes.contains("flamia.depends");
  };
  if (!kernel.getArgAttrsAttr() ||
      llvm::none_of(kernel.getArgAttrsAttr().getAsRange<DictionaryAttr>(),
                    isProved))
    return success();
  auto nameOf = [&](Value value) -> std::string {
    auto arg = dyn_cast<BlockArgument>(value);
    if (!arg || arg.getOwner() != &kernel.getBody().front())
      return "a tensor that is no argument";
    return "'" + kernel.getArgName(arg.getArgNumber()).str() + "'";
  };
  auto describe = [](LoadScaledOp load) {
    return std::to_string(load.getResult().getType().getBlockRows()) +
           " rows a scale along " + stringifyAxis(load.getAlong()).str();
  };
  llvm::MapVector<Value, LoadScaledOp> firstOf;
  bool ok = true;
  kernel.walk([&](LoadScaledOp load) {
    // Folded scales declare what they hold, for whatever payload.
    auto arg = dyn_cast<BlockArgument>(load.getScales());
    std::optional<FoldedArgument> folded;
    if (arg && arg.getOwner() == &kernel.getBody().front())
      folded = getFoldedArgument(kernel, arg.getArgNumber());
    if (folded) {
      if (folded->along == load.getAlong())
        return;
      load.emitError("scales ")
          << nameOf(arg) << " are declared along "
          << stringifyAxis(folded->along) << ", but read along "
          << stringifyAxis(load.getAlong());
      ok = false;
      return;
    }
    LoadScaledOp first = firstOf.insert({load.getScales(), load}).first->second;
    std::string fault;
    if (first.getSource() != load.getSource())
      fault = " are read for " + nameOf(load.getSource()) + " here and for " +
              nameOf(first.getSource()) +
              " elsewhere: expected one payload for each array of scales";
    else if (describe(first) != describe(load))
      fault = " of " + nameOf(load.getSource()) + " are read as " +
              describe(load) + " here and as " + describe(first) + " elsewhere";
    else
      return;
    InFlightDiagnostic error = load.emitError("scales ");
    error << nameOf(load.getScales()) << fault;
    error.attachNote(first.getLoc()) << "the other load is here";
    ok = false;
  });
  return success(ok);
}

namespace {
class CheckCausalityPass
    : public flamia::impl::CheckCausalityPassBase<CheckCausalityPass> {
public:
  void runOnOperation() override {
    getOperation().walk([&](KernelOp kernel) {
      if (failed(requireSpecialized(kernel)))
        return signalPassFailure();
      if (failed(checkScalePairs(kernel)))
        return signalPassFailure();
      CausalityAnalysis analysis(kernel);
      for (const Leak &leak : analysis.getLeaks())
        report(kernel, analysis, leak);
      if (!analysis.getLeaks().empty())
        signalPassFailure();
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
