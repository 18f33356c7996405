//===- LaunchModel.h - Launches to compare by their makespan ----*- C++ -*-===//
//
// The library's order of CTAs, and what it is compared with. Shared by tests
// and the benchmark's table.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_SCHEDULE_LAUNCHMODEL_H
#define FLAMIA_TEST_UNIT_SCHEDULE_LAUNCHMODEL_H

#include "flamia/Schedule/Makespan.h"

#include <algorithm>
#include <tuple>

namespace flamia::test {

enum class Order {
  Library,     ///< longest first, the second wave dealt, heads in groups
  Longest,     ///< longest first without an exception
  Documents,   ///< tiles in the documents' order, one head after the other
  ForwardsOwn, ///< longest first for the forward, whatever the kernel
};

struct Launch {
  std::vector<double> cycles; ///< of CTAs, in the order of their start
  int64_t groups = 1;
};

inline Launch launchOf(schedule::Kernel kernel, const schedule::Heads &heads,
                       llvm::ArrayRef<int64_t> offsets, Order order,
                       int64_t sms, bool causal = true,
                       std::optional<schedule::CostLaw> given = std::nullopt) {
  using namespace schedule;
  bool dealt = order == Order::Library;
  WorkList list = buildWorkList(
      offsets, causal, dealt ? LaunchSize{sms, heads.kv} : LaunchSize());
  if (order == Order::Documents)
    std::sort(list.items.begin(), list.items.end(),
              [](const WorkItem &a, const WorkItem &b) {
                return std::tie(a.begin, a.tile) < std::tie(b.begin, b.tile);
              });
  CostLaw law = given ? *given : lawOf(kernel);
  bool isLibrarys = order == Order::Library || order == Order::Longest;
  int64_t parts = headParts(kernel, heads, int64_t(list.items.size()));
  std::vector<double> cycles;
  for (WorkItem item : list.items) {
    // Without from_end an entry's tile is the tile of keys itself.
    if (!isLibrarys && kernel == schedule::Kernel::KeyGradients)
      item.tile = (item.end - item.begin - 1) / 128 - item.tile;
    cycles.push_back(cyclesOf(kernel, item, causal, heads, law, parts));
  }
  int64_t y = gridHeads(kernel, heads);
  int64_t groups = isLibrarys ? headGroups(kernel, heads, offsets.back(),
                                           int64_t(list.items.size()))
                              : y;
  return {launchOrder(cycles, y, groups, parts), groups};
}

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_SCHEDULE_LAUNCHMODEL_H
