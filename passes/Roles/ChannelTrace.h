//===- ChannelTrace.h - What a role does on a small input -------*- C++ -*-===//
//
// Unrolls a role for one small, made-up launch: sizes, work items and program
// ids get values, loops and branches on them are followed. What remains is the
// order in which the role uses channels and buffers. Equal sources have equal
// values in all roles, so the traces of a kernel's roles belong together.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_CHANNELTRACE_H
#define FLAMIA_PASSES_ROLES_CHANNELTRACE_H

#include "dialects/Tcgen/Tcgen.h"

namespace flamia {

/// A made-up launch.
struct Scenario {
  /// Tile index of the work item; extents are multiples of this many tiles, the
  /// first one that is asked for the largest.
  int64_t tiles = 0;
  /// Tiles of the work item's document behind its own.
  int64_t tilesAfter = 0;
  /// Value of conditions that depend on data.
  bool condition = false;
  /// The kernel's integer arguments in their order; empty: `tiles` each.
  llvm::SmallVector<int64_t> scalars = {};
};

/// One use of a channel or buffer: the operation and, of the channel it names,
/// slot and how often this role went round the ring.
struct TraceEvent {
  mlir::Operation *op;
  int64_t slot = 0;
  int64_t round = 0;
  /// Slots of d, a, b and both scales (tcgen.mma), or of source and target
  /// (tcgen.copy_scales); whether a product accumulates.
  llvm::SmallVector<int64_t, 5> operandSlots = {};
  bool accumulates = false;
  /// Columns of each slot that tcgen.read, write and write_scales work on: all,
  /// or those of a part from the first of them on.
  std::optional<int64_t> firstCol = {};
};

/// What one warpgroup of a role does. Warpgroups meet in channels only.
struct RoleTrace {
  tcgen::RoleOp role;
  int64_t group = 0, warps = 1;
  llvm::SmallVector<TraceEvent> events;
  /// Some condition depended on data.
  bool hasDataConditions = false;
};

/// The traces of each role of a kernel, one for each warpgroup. Loops run at
/// most eight times, inner ones less often.
llvm::SmallVector<RoleTrace> traceRoles(KernelOp kernel,
                                        const Scenario &scenario);

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_CHANNELTRACE_H
