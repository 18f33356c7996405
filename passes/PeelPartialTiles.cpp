//===- PeelPartialTiles.cpp - Masks only where a tile is partial ----------===//
//
// Rule R6: under a mask a tile is full, partial or empty; partial ones are
// peeled, so that the many full ones carry no mask.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Kernels.h"
#include "passes/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace flamia {
#define GEN_PASS_DEF_PEELPARTIALTILESPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

/// True if, given the fact \p inRest >= 0, every mask directly in the loop
/// keeps everything.
static bool allFull(scf::ForOp loop, IndexAnalysis &indices,
                    const IndexExpr &inRest) {
  IndexAnalysis::Assumption assumption(indices, inRest);
  return llvm::all_of(loop.getBody()->getOps<MaskOp>(), [&](MaskOp op) {
    return !neededConditions(op, indices).any();
  });
}

/// Splits off the iterations at one end of \p loop that hold all its partial
/// tiles, if there are such. Returns true if it did.
static bool peel(scf::ForOp loop) {
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  IndexAnalysis indices;
  bool masked = llvm::any_of(loop.getBody()->getOps<MaskOp>(), [&](MaskOp op) {
    return neededConditions(op, indices).any();
  });
  if (!masked || !step || *step <= 0 || loop.getUnsignedCmp())
    return false;
  IndexExpr iteration = indices.get(loop.getInductionVar());
  // Two tiles straddle a diagonal at most where query and key tiles are
  // shifted.
  constexpr int64_t mostPartial = 2;
  for (int64_t count = 1; count <= mostPartial; ++count)
    for (LoopEnd end : {LoopEnd::First, LoopEnd::Last}) {
      if (end == LoopEnd::Last && *step != 1)
        continue;
      IndexExpr inRest =
          end == LoopEnd::First
              ? iteration - indices.get(loop.getLowerBound()) - *step * count
              : indices.get(loop.getUpperBound()) - count - 1 - iteration;
      if (!allFull(loop, indices, inRest))
        continue;
      splitLoop(loop, end, count, indices);
      return true;
    }
  return false;
}

namespace {
class PeelPartialTilesPass
    : public flamia::impl::PeelPartialTilesPassBase<PeelPartialTilesPass> {
public:
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool changed = false;
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      if (failed(requireSpecialized(kernel)))
        return signalPassFailure();
      SmallVector<scf::ForOp> loops;
      kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
      bool peeled = false;
      for (scf::ForOp loop : loops)
        peeled |= peel(loop);
      if (peeled) {
        IndexAnalysis indices;
        simplifyMasks(kernel, indices);
      }
      changed |= peeled;
    }
    if (!changed)
      return markAllAnalysesPreserved();
    OpPassManager folding(ModuleOp::getOperationName());
    folding.addPass(createCanonicalizerPass());
    folding.addPass(createCSEPass());
    if (failed(runPipeline(folding, module)))
      signalPassFailure();
  }
};
} // namespace
