//===- Handover.h - An accumulator changes hands ----------------*- C++ -*-===//
//
// At any point of the program an accumulator belongs to the vector role or to
// the role that issues products. Where the next user is the other one, the
// owner signals and the other waits, at the same point of both roles' control
// flow, so that signals and waits always match. Two states more describe a
// signal that was given but not yet waited for: they let a loop's end and its
// next iteration's first use overlap.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_HANDOVER_H
#define FLAMIA_PASSES_ROLES_HANDOVER_H

#include "passes/Roles/Accumulators.h"

namespace flamia {

/// Whether each use of the web's values finds the content it means.
mlir::LogicalResult checkHandovers(const Accumulators &accumulators,
                                   const Web &web);

/// Where a web lives and how its roles meet.
struct HandoverPlan {
  mlir::Value buffer;
  /// Channels of one slot without space accounting: the dependence itself keeps
  /// the two sides in step.
  mlir::Value toVector, toMma;
  RoleBuilder *vector, *mma;
};

/// Adds the reads, writes, signals and waits of a web that is not fresh.
void planHandovers(const Accumulators &accumulators, const Web &web,
                   const HandoverPlan &plan);

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_HANDOVER_H
