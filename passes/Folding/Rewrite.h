//===- Rewrite.h - Apply what the solver found ------------------*- C++ -*-===//

#ifndef FLAMIA_PASSES_FOLDING_REWRITE_H
#define FLAMIA_PASSES_FOLDING_REWRITE_H

#include "passes/Folding/Solver.h"

namespace flamia {

/// Rewrites the group that \p solution was found for.
void applySolution(LeafCatalog &catalog, const Solution &solution);

/// A product scaled by a vector, minus a vector, becomes one fma, which rounds
/// once (docs/numerics.md). Returns whether anything changed.
bool fuseScaledProducts(KernelOp kernel);

} // namespace flamia

#endif // FLAMIA_PASSES_FOLDING_REWRITE_H
