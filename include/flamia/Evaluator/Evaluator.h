//===- Evaluator.h - What a tile program means ------------------*- C++ -*-===//
//
// Runs specialized Flamia kernels on the CPU, values only: no roles, no memory
// spaces, one work item after another. It is the meaning that compiled kernels
// are tested against. All arithmetic is fp32 in the order that the dialect's
// documentation gives; a dot adds in fp64 and rounds once.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_EVALUATOR_EVALUATOR_H
#define FLAMIA_EVALUATOR_EVALUATOR_H

#include "dialects/Flamia/Flamia.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace flamia::evaluator {

/// A global tensor: row-major elements of the kernel argument's type. Elements
/// take half a byte (f4, even columns in the low four bits; the last extent is
/// even), 1 byte (f8), 2 (bf16, f16) or 4 (f32, i32).
struct Buffer {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

/// A launch argument: a buffer, or a number for f32, i32 and index scalars.
struct Argument {
  bool isScalar = false;
  double scalar = 0;
  Buffer buffer;
};

using Arguments = llvm::StringMap<Argument>;

/// Runs all work items of \p kernel's grid on \p arguments, whose buffers are
/// written in place. Errors: an argument that is missing or has another rank,
/// extent or size than the kernel says, named dimensions that disagree, a read
/// outside a tensor where the dialect allows none, an op without a meaning
/// here.
llvm::Error evaluate(KernelOp kernel, Arguments &arguments);

/// The grid of a launch with these arguments: three extents, 1 where the kernel
/// gives none.
llvm::Expected<std::vector<int64_t>> gridOf(KernelOp kernel,
                                            const Arguments &arguments);

} // namespace flamia::evaluator

#endif // FLAMIA_EVALUATOR_EVALUATOR_H
