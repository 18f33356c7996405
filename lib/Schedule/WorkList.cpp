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

int64_t schedule::mostItems(int64_t documents, int64_t tokens) {
  // A document's last tile holds at least one token.
  return (tokens + (tileRows - 1) * std::min(documents, tokens)) / tileRows;
}

WorkList schedule::buildWorkList(ArrayRef<int64_t> offsets, bool causal) {
  WorkList list;
  auto tilesOfDocument = [&](size_t d) {
    return tilesOf(offsets[d + 1] - offsets[d]);
  };
  size_t documents = 0;
  int64_t longest = 0;
  for (size_t d = 0; d + 1 < offsets.size(); ++d) {
    int64_t tiles = tilesOfDocument(d);
    documents += tiles != 0;
    longest = std::max(longest, tiles);
    list.scaleTiles += tiles;
  }

  // Longest documents first; a counting sort, so that equal ones keep order.
  std::vector<uint32_t> place(size_t(longest) + 2, 0);
  for (size_t d = 0; d + 1 < offsets.size(); ++d)
    ++place[longest - tilesOfDocument(d) + 1];
  for (size_t i = 1; i < place.size(); ++i)
    place[i] += place[i - 1];
  // The sorted documents lie where the list will end, in entries whose `tile`
  // is their number of tiles: the list needs no memory beside its own.
  list.items.resize(list.scaleTiles);
  WorkItem *next = list.items.data();
  WorkItem *sorted = next + (list.items.size() - documents);
  int64_t base = 0;
  for (size_t d = 0; d + 1 < offsets.size(); ++d) {
    int64_t tiles = tilesOfDocument(d);
    if (tiles)
      sorted[place[longest - tiles]++] = {int32_t(offsets[d]),
                                          int32_t(offsets[d + 1]),
                                          int32_t(tiles), int32_t(base)};
    base += tiles;
  }

  auto entry = [](const WorkItem &document, int32_t tile) {
    return WorkItem{document.begin, document.end, tile, document.scaleBase};
  };
  if (!causal) {
    // Behind a document's entries there is room for those that follow, so the
    // last one is at most where the document lies.
    for (size_t d = 0; d < documents; ++d) {
      WorkItem document = sorted[d];
      for (int32_t tile = 0; tile < document.tile; ++tile)
        *next++ = entry(document, tile);
    }
    return list;
  }
  // Tile n costs n + 1, and the documents that have one are the first. Tile 0
  // takes the place of the documents.
  size_t reaching = 0;
  for (auto tile = int32_t(longest - 1); tile >= 0; --tile) {
    while (reaching < documents && sorted[reaching].tile > tile)
      ++reaching;
    for (size_t d = 0; d < reaching; ++d)
      *next++ = entry(sorted[d], tile);
  }
  return list;
}
