//===- Extents.h - Extents of a kernel's values by unification --*- C++ -*-===//
//
// A step of flamia-specialize: every `?` of a type is a variable, ops say which
// variables are equal, and named dimensions and static types give values.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_EXTENTS_H
#define FLAMIA_PASSES_EXTENTS_H

#include "dialects/Flamia/Flamia.h"

namespace flamia {

/// Finds the extents of all values of \p kernel, whose parameters are bound,
/// and writes them into the types. Extents that contradict each other, or that
/// nothing determines, are errors.
mlir::LogicalResult bindExtents(KernelOp kernel);

} // namespace flamia

#endif // FLAMIA_PASSES_EXTENTS_H
