//===- Staging.h - Stores that pass through shared memory -------*- C++ -*-===//
//
// A thread holds a row of a tile, a line of global memory is part of one row:
// storing rows from registers touches 32 lines with every access of a warp.
// Where shared memory has room, each warp writes its 32 rows there and stores
// whole lines. flamia-allocate-memory makes the room (kStagingOffset),
// convert-flamia-to-nvvm uses it.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_STAGING_H
#define FLAMIA_PASSES_STAGING_H

#include "dialects/Flamia/Flamia.h"

namespace flamia {

/// Attribute of a kernel: where the room starts, in bytes from the buffers'
/// start.
constexpr llvm::StringLiteral kStagingOffset = "tcgen.staging_offset";

/// Bytes of a tile's rows that are staged at a time: 128, 64 or 32, or 0 for
/// tiles that go to global memory directly.
int64_t stagedSpan(mlir::Type tile);

/// The widest span of a kernel's stores: each warp has room for 32 rows of it,
/// whatever span it stores, so that warps never share any.
int64_t widestSpan(KernelOp kernel);

/// Whether the payload is rounded on its way to global memory: only the scales
/// wait in registers beside the elements, where other code needs these too, and
/// in NVFP4, whose rounding is long.
bool roundsWhereStored(QuantizeOp op);

/// Whether f32 values of a whole row never wait for its scale: they are 16-bit
/// values times a row vector. The largest magnitude is that of the 16-bit
/// values, times the vector, and each product is made where it is rounded.
bool multipliesWhereRounded(QuantizeOp op);

} // namespace flamia

#endif // FLAMIA_PASSES_STAGING_H
