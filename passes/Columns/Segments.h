//===- Segments.h - Vector code that needs too many registers ---*- C++ -*-===//
//
// One thread holds one row of every tile. Segments are straight-line tile code
// between two steps of channels; the planner finds those in which tiles that
// are live at once take more registers than there are, and the writer
// (SplitColumns.cpp) writes them chunk by chunk.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_COLUMNS_SEGMENTS_H
#define FLAMIA_PASSES_COLUMNS_SEGMENTS_H

#include "dialects/Tcgen/Tcgen.h"
#include "passes/Roles/TileUses.h"

namespace flamia {

/// Columns of a chunk: a scale block of operands, and one tensor memory load.
constexpr int64_t kChunk = 32;
/// Columns that arithmetic between reads and writes takes at a time.
constexpr int64_t kStep = 16;

/// Columns of a tile type; 0 for other types.
int64_t columnsOf(mlir::Type type);

/// The type of so many columns of a tile.
mlir::Type partOf(mlir::Type tile, int64_t cols);

/// The tile whose columns are split: what is made, reduced or written.
mlir::Value splitValue(mlir::Operation *op);

/// Whether each chunk of the result needs the same chunk of the operands only,
/// or the operation is a reduction that takes chunks in turn.
bool isSplittable(mlir::Operation *op);

/// Straight-line tile code between two steps of channels.
struct Segment {
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<tcgen::ReleaseOp> releases;
  /// Writes what is computed, chunk by chunk, into a slot acquired before: the
  /// operation that acquires it, or a wait right in front of that.
  mlir::Operation *acquire = nullptr;
  /// What follows it.
  mlir::Operation *end = nullptr;
  bool isSplit = false;
  /// All reads fit into registers at once; what they read is released early.
  bool readsFirst = false;
};

/// Whether the operation reads a column vector from shared memory. It is read
/// where its columns are needed, as those in global memory are loaded.
bool isLineRead(mlir::Operation *op);

/// Moves loads and reads of column vectors, and arithmetic on them, to where
/// they are used.
void sinkLines(tcgen::RoleOp role);

/// The most 32-bit registers of a thread that tiles take at any point.
int64_t mostTileRegisters(tcgen::RoleOp role);

/// The segments of a role in which tiles take more than `limit` registers.
/// `writesEarly`: a slot may be acquired for what is computed before what it is
/// computed from is released.
llvm::SmallVector<Segment> planSegments(tcgen::RoleOp role, int64_t limit,
                                        bool writesEarly);

} // namespace flamia

#endif // FLAMIA_PASSES_COLUMNS_SEGMENTS_H
