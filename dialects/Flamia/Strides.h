//===- Strides.h - Global tensors with strides of their own -----*- C++ -*-===//
//
// Which layouts of a memref a kernel may have as argument.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_DIALECTS_FLAMIA_STRIDES_H
#define FLAMIA_DIALECTS_FLAMIA_STRIDES_H

#include "mlir/IR/BuiltinTypes.h"

namespace flamia {

/// Whether elements of the last dimension lie side by side: a row-major tensor,
/// or one with strides, `strided<[?, ..., 1]>`, whose others the launch gives.
bool hasAdjacentColumns(mlir::MemRefType type);

/// Whether the tensor has strides of its own, in elements (dynamic or not).
bool isStrided(mlir::MemRefType type);

} // namespace flamia

#endif // FLAMIA_DIALECTS_FLAMIA_STRIDES_H
