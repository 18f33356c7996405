//===- WorkList.cpp - From document offsets to work items -----------------===//
//
// Validation of cu_seqlens and the longest-first work list.
//
//===----------------------------------------------------------------------===//

#include "flamia/Schedule/WorkList.h"

#include "llvm/ADT/Twine.h"

#include <algorithm>

using namespace llvm;
using namespace flamia;
using namespace flamia::schedule;

namespace {

template <typename T>
Error validate(ArrayRef<T> offsets, int64_t tokens,
               std::optional<int64_t> maxLength) {
  auto fault = [](const Twine &message) {
    return createStringError("cu_seqlens " + message);
  };
  if (offsets.empty())
    return fault("is empty, expected documents + 1 entries");
  if (offsets[0] != 0)
    return fault("must start at 0, found " + Twine(offsets[0]));
  for (size_t i = 1; i < offsets.size(); ++i) {
    int64_t previous = offsets[i - 1], current = offsets[i];
    if (current < previous)
      return fault("must never decrease, found " + Twine(previous) +
                   " followed by " + Twine(current) + " at index " + Twine(i));
    // previous >= 0 here, so that the difference cannot overflow.
    if (maxLength && current - previous > *maxLength)
      return fault("has a document of " + Twine(current - previous) +
                   " tokens at index " + Twine(i - 1) +
                   ", the given maximum is " + Twine(*maxLength));
  }
  int64_t last = offsets.back();
  if (last != tokens)
    return fault("must end at the number of tokens, found " + Twine(last) +
                 ", expected " + Twine(tokens));
  if (last > maxTokens)
    return fault("ends at " + Twine(last) + ", the limit is " +
                 Twine(maxTokens) + " tokens");
  return Error::success();
}

int64_t tilesOf(int64_t tokens) { return (tokens + tileRows - 1) / tileRows; }

} // namespace

Error schedule::validateOffsets(ArrayRef<int64_t> offsets, int64_t tokens,
                                std::optional<int64_t> maxLength) {
  return validate(offsets, tokens, maxLength);
}

Error schedule::validateOffsets(ArrayRef<int32_t> offsets, int64_t tokens,
                                std::optional<int64_t> maxLength) {
  return validate(offsets, tokens, maxLength);
}

int64_t schedule::costOf(const WorkItem &item, bool causal) {
  return causal ? int64_t(item.tile) + 1
                : tilesOf(int64_t(item.end) - item.begin);
}

int64_t schedule::countItems(ArrayRef<int64_t> offsets) {
  int64_t items = 0;
  for (size_t d = 0; d + 1 < offsets.size(); ++d)
    items += tilesOf(offsets[d + 1] - offsets[d]);
  return items;
}

WorkList schedule::buildWorkList(ArrayRef<int64_t> offsets, bool causal) {
  WorkList list;
  std::vector<WorkItem> inOrder;
  inOrder.reserve(countItems(offsets));
  for (size_t d = 0; d + 1 < offsets.size(); ++d) {
    int64_t tiles = tilesOf(offsets[d + 1] - offsets[d]);
    for (int64_t tile = 0; tile < tiles; ++tile)
      inOrder.push_back({int32_t(offsets[d]), int32_t(offsets[d + 1]),
                         int32_t(tile), int32_t(list.scaleTiles)});
    list.scaleTiles += tiles;
  }

  // Counting sort: costs are at most the number of items, and ties keep order.
  int64_t highest = 0;
  for (const WorkItem &item : inOrder)
    highest = std::max(highest, costOf(item, causal));
  std::vector<int64_t> place(highest + 2, 0);
  for (const WorkItem &item : inOrder)
    ++place[highest - costOf(item, causal) + 1];
  for (size_t i = 1; i < place.size(); ++i)
    place[i] += place[i - 1];
  list.items.resize(inOrder.size());
  for (const WorkItem &item : inOrder)
    list.items[place[highest - costOf(item, causal)]++] = item;
  return list;
}
