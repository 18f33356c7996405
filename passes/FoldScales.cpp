//===- FoldScales.cpp - Move token-local powers of two --------------------===//
//
// Groups ops that powers of two may move through, lets the solver find the
// cheapest places (passes/Folding), and says what had to stay.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Kernels.h"
#include "passes/Folding/Rewrite.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/Passes.h"

namespace flamia {
#define GEN_PASS_DEF_FOLDSCALESPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

/// Ops that ask for folding: scales that no hardware can apply, vectors that
/// only a declared argument can give, powers of two that cost an operation.
static bool asksForFolding(Operation *op) {
  if (!isCarrier(op))
    return false;
  if (auto dot = dyn_cast<DotOp>(op))
    return isContractedTokenLocal(dot, 0) || isContractedTokenLocal(dot, 1);
  bool turned = llvm::any_of(op->getOperands(), isTurnedVector);
  bool powerOfTwo =
      isa<arith::MulFOp>(op) && llvm::any_of(op->getOperands(), [](Value v) {
        std::optional<double> splat = getSplat(v);
        return splat && getPowerOfTwo(*splat);
      });
  return turned || powerOfTwo;
}

/// All carriers of the block that are connected with \p seed, in their order.
static SmallVector<Operation *> groupOf(Operation *seed) {
  llvm::SmallSetVector<Operation *, 16> found;
  SmallVector<Operation *> open = {seed};
  auto visit = [&](Operation *op) {
    if (op && op->getBlock() == seed->getBlock() && isCarrier(op) &&
        found.insert(op))
      open.push_back(op);
  };
  visit(seed);
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    for (OpOperand &operand : op->getOpOperands())
      // An accumulator keeps its value: products of other tiles are no
      // neighbours.
      if (!isa<DotOp>(op) || operand.getOperandNumber() != 2)
        visit(operand.get().getDefiningOp());
    for (OpOperand &use : op->getUses())
      if (!isa<DotOp>(use.getOwner()) || use.getOperandNumber() != 2)
        visit(use.getOwner());
  }
  SmallVector<Operation *> group(found.begin(), found.end());
  llvm::sort(group,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return group;
}

/// Scales of f8E4M3FN are no powers of two and stay where they are: a product
/// over tokens whose scales are their own has no lowering and no cure.
static LogicalResult refuseNvfp4(KernelOp kernel) {
  bool ok = true;
  kernel.walk([&](DotOp dot) {
    for (unsigned index : {0u, 1u}) {
      Type type = dot->getOperand(index).getType();
      if (!isContractedTokenLocal(dot, index) ||
          !isa<Float8E4M3FNType>(cast<ScaledType>(type).getScaleType()))
        continue;
      dot.emitError("operand '")
          << (index ? "b" : "a")
          << "' is summed over tokens with scales of their own, which cannot "
             "be folded: f8E4M3FN scales are no powers of two; got "
          << type;
      ok = false;
    }
  });
  return success(ok);
}

namespace {
class FoldScalesPass : public flamia::impl::FoldScalesPassBase<FoldScalesPass> {
public:
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool changed = false;
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      if (failed(requireSpecialized(kernel)))
        return signalPassFailure();
      if (failed(refuseNvfp4(kernel)))
        return signalPassFailure();
      changed |= foldKernel(kernel);
      changed |= fuseScaledProducts(kernel);
    }
    if (!changed)
      return markAllAnalysesPreserved();
    OpPassManager folding(ModuleOp::getOperationName());
    folding.addPass(createCanonicalizerPass());
    folding.addPass(createCSEPass());
    if (failed(runPipeline(folding, module)))
      signalPassFailure();
  }

private:
  bool foldKernel(KernelOp kernel);
  bool foldGroup(LeafCatalog &catalog, ArrayRef<Operation *> group);
  void remarkMissing(const Solution &kept, const Solution *wished, bool cutOff);
  void remarkMultiply(KernelOp kernel, const OpChoice &choice);
};
} // namespace

bool FoldScalesPass::foldKernel(KernelOp kernel) {
  LeafCatalog catalog(kernel);
  llvm::SmallPtrSet<Operation *, 32> done;
  SmallVector<SmallVector<Operation *>> groups;
  kernel.walk([&](Operation *op) {
    if (!asksForFolding(op) || done.contains(op))
      return;
    groups.push_back(groupOf(op));
    done.insert(groups.back().begin(), groups.back().end());
  });
  bool changed = false;
  for (ArrayRef<Operation *> group : groups)
    changed |= foldGroup(catalog, group);
  return changed;
}

bool FoldScalesPass::foldGroup(LeafCatalog &catalog,
                               ArrayRef<Operation *> group) {
  Solver solver(catalog, group);
  std::optional<Solution> solution;
  if (group.size() <= Solver::mostOps)
    solution = solver.solve(/*assumeMissing=*/false);
  if (!solution) {
    emitRemark(group.front()->getLoc(),
               "powers of two are left alone: no placement was "
               "found within the bounds of the search");
    return false;
  }
  if (!solution->leftAlone.empty() || !solution->leftVectors.empty()) {
    std::optional<Solution> wished = solver.solve(/*assumeMissing=*/true);
    remarkMissing(*solution, wished ? &*wished : nullptr, solver.wasCutOff());
  }
  for (const OpChoice &choice : solution->ops)
    if (choice.kind == OpChoice::Kind::Multiply)
      remarkMultiply(catalog.getKernel(), choice);
  if (!solution->changes())
    return false;
  applySolution(catalog, *solution);
  return true;
}

void FoldScalesPass::remarkMissing(const Solution &kept, const Solution *wished,
                                   bool cutOff) {
  auto advise = [&](Operation *op, StringRef what) {
    InFlightDiagnostic remark = emitRemark(op->getLoc(), what);
    if (wished && !wished->missing.empty() &&
        wished->leftAlone.size() + wished->leftVectors.size() <
            kept.leftAlone.size() + kept.leftVectors.size()) {
      remark << "; needed: ";
      llvm::interleave(
          wished->missing, [&](StringRef text) { remark << text; },
          [&] { remark << " and "; });
    } else if (cutOff) {
      remark << "; the search for a better place was cut off";
    } else {
      remark << "; no operation that it could be folded into for nothing is "
                "connected with it";
    }
  };
  for (Operation *op : kept.leftAlone)
    advise(op, "token-local scales stay in a product over tokens, which no "
               "hardware can apply");
  for (OpOperand *use : kept.leftVectors)
    advise(use->getOwner(), "a value of each token along columns stays a "
                            "transpose, which has no lowering");
}

void FoldScalesPass::remarkMultiply(KernelOp kernel, const OpChoice &choice) {
  std::optional<FoldedArgument> folded =
      getFoldedArgument(kernel, choice.argument);
  emitRemark(choice.op->getLoc(), "a factor 2^(")
      << folded->exponent.str(kernel)
      << ") costs one operation per element: no operation before takes it for "
         "nothing; '"
      << kernel.getArgName(choice.argument) << "' is multiplied";
}
