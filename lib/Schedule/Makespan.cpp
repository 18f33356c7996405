//===- Makespan.cpp - When a launch of uneven work items ends -------------===//
//
// Costs, the order of heads, and list scheduling in the order of CTAs.
//
//===----------------------------------------------------------------------===//

#include "flamia/Schedule/Makespan.h"

#include <algorithm>
#include <functional>
#include <queue>

using namespace llvm;
using namespace flamia;
using namespace flamia::schedule;

/// L2 cache that one group may fill: what is left of 126 MB for the other
/// inputs, the outputs and the far half's copies.
static constexpr int64_t groupBytes = int64_t(48) << 20;
/// SMs of a whole die, and items on each that let longest-first end evenly.
static constexpr int64_t mostSms = 160, itemsPerSm = 8;

CostLaw schedule::lawOf(Kernel kernel) {
  switch (kernel) {
  case Kernel::Forward:
    return {1109, 4300};
  case Kernel::QueryGradients:
    return {3565.0 * 768 / 1792, 33000.0 * 768 / 1792};
  case Kernel::KeyGradients:
    return {3565.0 * 1024 / 1792, 33000.0 * 1024 / 1792};
  }
  return {};
}

int64_t schedule::gridHeads(Kernel kernel, const Heads &heads) {
  return kernel == Kernel::Forward ? heads.query : heads.kv;
}

int64_t schedule::headParts(Kernel kernel, const Heads &heads, int64_t items) {
  int64_t group = heads.query / heads.kv;
  if (kernel != Kernel::QueryGradients)
    return 1;
  for (int64_t parts = 1; parts < group; ++parts)
    if (group % parts == 0 && double(items) * double(heads.kv * parts) >=
                                  double(itemsPerSm * mostSms))
      return parts;
  return group;
}

double schedule::cyclesOf(Kernel kernel, const WorkItem &item, bool causal,
                          const Heads &heads, const CostLaw &law,
                          int64_t parts) {
  int64_t headsOfCta = heads.query / heads.kv / parts;
  auto group = double(headsOfCta);
  double tiles = law.perTile * double(costOf(item, causal));
  switch (kernel) {
  case Kernel::Forward:
    return tiles + law.perItem;
  case Kernel::QueryGradients:
    return group * (tiles + law.perItem);
  case Kernel::KeyGradients:
    return group * tiles + law.perItem;
  }
  return 0;
}

int64_t schedule::headGroups(Kernel kernel, const Heads &heads, int64_t tokens,
                             int64_t items) {
  int64_t perKv = gridHeads(kernel, heads) / heads.kv;
  // Two payloads of a byte an element; as doubles, which cannot overflow.
  double bytesPerKv = 2.0 * double(tokens) * double(heads.dim);
  int64_t best = 1;
  for (int64_t groups = 1; groups <= heads.kv; ++groups) {
    if (heads.kv % groups)
      continue;
    int64_t headsOfGroup = heads.kv / groups;
    double kvHeads = double(headsOfGroup);
    bool endsEvenly =
        double(items) * kvHeads * double(perKv) >= double(itemsPerSm * mostSms);
    if (groups > 1 && !endsEvenly)
      break;
    best = groups;
    if (bytesPerKv * kvHeads <= double(groupBytes))
      break;
  }
  return best;
}

double schedule::makespan(ArrayRef<double> cycles, int64_t sms) {
  std::priority_queue<double, std::vector<double>, std::greater<double>> free;
  for (int64_t sm = 0; sm < sms; ++sm)
    free.push(0);
  double end = 0;
  for (double time : cycles) {
    double done = free.top() + time;
    free.pop();
    free.push(done);
    end = std::max(end, done);
  }
  return end;
}

Bounds schedule::lowerBounds(ArrayRef<double> cycles, int64_t sms) {
  std::vector<double> sorted = cycles.vec();
  std::sort(sorted.begin(), sorted.end(), std::greater<double>());
  Bounds bounds;
  // Sums of the longest, to take differences of.
  std::vector<double> sums = {0};
  for (double time : sorted)
    sums.push_back(sums.back() + time);
  bounds.load = sums.back() / double(sms);
  if (!sorted.empty())
    bounds.load = std::max(bounds.load, sorted.front());
  for (int64_t k = 1; k * sms < int64_t(sorted.size()); ++k)
    bounds.whole = std::max(bounds.whole, sums[size_t(k * sms + 1)] -
                                              sums[size_t(k * sms - k)]);
  return bounds;
}

std::vector<double> schedule::launchOrder(ArrayRef<double> itemCycles,
                                          int64_t gridHeads, int64_t groups,
                                          int64_t parts) {
  std::vector<double> order;
  order.reserve(itemCycles.size() * size_t(gridHeads * parts));
  for (int64_t group = 0; group < groups * parts; ++group)
    for (double time : itemCycles)
      order.insert(order.end(), size_t(gridHeads / groups), time);
  return order;
}
