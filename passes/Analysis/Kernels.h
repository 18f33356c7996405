//===- Kernels.h - Helpers that several passes share ------------*- C++ -*-===//

#ifndef FLAMIA_PASSES_ANALYSIS_KERNELS_H
#define FLAMIA_PASSES_ANALYSIS_KERNELS_H

#include "dialects/Flamia/Flamia.h"
#include "passes/Analysis/IndexAnalysis.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flamia {

/// Fails with an error if \p kernel still has parameters or extents to bind.
mlir::LogicalResult requireSpecialized(KernelOp kernel);

/// Conditions of a mask that are not proven to keep every element.
struct NeededConditions {
  bool causal = false, limit = false, window = false;
  bool any() const { return causal || limit || window; }
};
NeededConditions neededConditions(MaskOp op, IndexAnalysis &indices);

/// Removes conditions of `flamia.mask` ops that keep every element, and the
/// ops when none is left.
void simplifyMasks(KernelOp kernel, IndexAnalysis &indices);

/// One side of a loop that is run apart from the rest.
enum class LoopEnd { First, Last };

/// Runs the first or last \p count iterations of \p loop apart from the others.
/// Straight-line code if it is certain that there are as many, else a loop of
/// its own, which is returned (null otherwise). \p loop keeps the rest. The
/// last iterations can be split off only from a loop of step 1.
mlir::scf::ForOp splitLoop(mlir::scf::ForOp loop, LoopEnd end, int64_t count,
                           IndexAnalysis &indices);

/// Splits off, at one end of \p loop, the fewest iterations (at most \p most)
/// without which \p holds, which is asked for under the assumption that the
/// iteration is one of the rest. Returns what splitLoop did, or nothing if no
/// split helps. A loop whose step is no positive constant, or that compares
/// unsigned, is left alone.
std::optional<mlir::scf::ForOp>
splitLoopWhere(mlir::scf::ForOp loop, int64_t most, IndexAnalysis &indices,
               llvm::function_ref<bool()> holds);

} // namespace flamia

#endif // FLAMIA_PASSES_ANALYSIS_KERNELS_H
