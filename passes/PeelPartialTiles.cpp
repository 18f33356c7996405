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

/// Splits off the iterations at one end of \p loop that hold all its partial
/// tiles, if there are such. Returns true if it did.
static bool peel(scf::ForOp loop) {
  IndexAnalysis indices;
  auto isPartial = [&] {
    return llvm::any_of(loop.getBody()->getOps<MaskOp>(), [&](MaskOp op) {
      return neededConditions(op, indices).any();
    });
  };
  // Two tiles straddle a diagonal at most where query and key tiles are
  // shifted.
  constexpr int64_t mostPartial = 2;
  return isPartial() && splitLoopWhere(loop, mostPartial, indices, [&] {
                          return !isPartial();
                        }).has_value();
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
