//===- Makespan.h - When a launch of uneven work items ends -----*- C++ -*-===//
//
// A model of one launch: the GPU starts CTAs in their order, each on the SM
// that is free first, one on an SM at a time. With it the order of CTAs is
// chosen and tested. Nothing here was measured on a Blackwell GPU.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_SCHEDULE_MAKESPAN_H
#define FLAMIA_SCHEDULE_MAKESPAN_H

#include "flamia/Schedule/WorkList.h"

namespace flamia {
namespace schedule {

/// The kernels whose items differ in cost.
enum class Kernel { Forward, QueryGradients, KeyGradients };

/// Query heads, kv heads and the size of a head.
struct Heads {
  int64_t query = 1, kv = 1, dim = 128;
};

/// Cycles of an item that works on n pairs of tiles: perTile * n + perItem.
struct CostLaw {
  double perTile = 0, perItem = 0;
};

/// Laws fitted to published MXFP8 kernels at head dim 128 on GB200
/// (blackwell-throughput.md, section 6): forward 1109 and 4300. The published
/// backward is one kernel of 3565 and 33000; here both are split between the
/// kernels in proportion to their bounds, 768 for dQ and 1024 for dK and dV.
CostLaw lawOf(Kernel kernel);

/// Heads along the grid's y axis: query heads, in the backward kv heads.
int64_t gridHeads(Kernel kernel, const Heads &heads);

/// How many CTAs share the query heads of a kv head, a divisor of their number:
/// in dQ's kernel as few as leave 8 items an SM, since a CTA makes a head under
/// the end of the one before. Elsewhere 1: dK and dV are sums over these heads.
/// \p items may be an upper bound.
int64_t headParts(Kernel kernel, const Heads &heads, int64_t items);

/// Cycles of a CTA for an entry of a work list. In the backward it runs over
/// the query heads of a kv head, or one of \p parts of them.
double cyclesOf(Kernel kernel, const WorkItem &item, bool causal,
                const Heads &heads, const CostLaw &law, int64_t parts = 1);

/// In how many groups the grid's y axis is launched (docs/launch-record.md), a
/// divisor of the kv heads: the heads of a group run side by side, longest
/// items first, and groups one after the other. As few groups as possible,
/// with these limits: what the loops of a group read (K and V, for dK and dV a
/// query head's Q and dO) stays in the L2 cache, 48 MiB of it; and a group has
/// 8 items an SM, so that the last one ends evenly. The second goes before the
/// first. \p tokens and \p items may be upper bounds.
int64_t headGroups(Kernel kernel, const Heads &heads, int64_t tokens,
                   int64_t items);

/// Time from the first CTA's start to the last one's end, for CTAs in the order
/// of their start.
double makespan(llvm::ArrayRef<double> cycles, int64_t sms);

/// Times that no order can beat.
struct Bounds {
  /// The mean load of an SM or the longest CTA, whichever is more.
  double load = 0;
  /// CTAs are whole: of the k * sms + 1 longest some SM has k + 1, so no less
  /// than the k + 1 shortest of them; the most over all k.
  double whole = 0;
  double most() const { return load > whole ? load : whole; }
};
Bounds lowerBounds(llvm::ArrayRef<double> cycles, int64_t sms);

/// Cycles of the CTAs of a launch in the order of their start: parts, then
/// groups, then entries of the list, then heads of a group.
std::vector<double> launchOrder(llvm::ArrayRef<double> itemCycles,
                                int64_t gridHeads, int64_t groups,
                                int64_t parts = 1);

} // namespace schedule
} // namespace flamia

#endif // FLAMIA_SCHEDULE_MAKESPAN_H
