//===- WorkList.cpp - From document offsets to work items -----------------===//
//
// Validation of cu_seqlens and the order of work items.
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

/// With more waves than this the last one's differences are small: longest
/// first is 1 / waves^2 above the mean load at most.
constexpr int64_t mostWaves = 32;
/// Differences below this, in tiles, are no more than an entry's start and end
/// cost: then it matters most which SMs get one entry more.
constexpr int64_t leastMissing = 16;

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

int64_t SecondWave::source(int64_t i) const {
  if (block < 2 || i < first || i >= end)
    return i;
  int64_t within = (i - first) % block, start = i - within;
  int64_t half = std::min(block, end - start) / 2;
  // The shorter half's first: the SM that is free first gets it.
  return start + within / 2 + (within % 2 ? 0 : half);
}

SecondWave schedule::dealSecondWave(ArrayRef<WorkItem> items,
                                    const LaunchSize &size) {
  auto count = int64_t(items.size());
  SecondWave deal = {size.wave(1), size.wave(2), 0};
  if (count <= deal.end || count > size.wave(mostWaves))
    return deal;
  // A wave's first and last entry differ by d(w) = x(w) - x(w + 1) tiles. Ends
  // that are apart by r after a wave are apart by |d - r| after the next one.
  // Even ends need r = d(2) - d(3) + d(4) - ... after the second wave (no
  // causal list's d grow), and longest first leaves d(0) - d(1).
  auto tileOf = [&](int64_t wave) {
    int64_t entry = size.wave(wave);
    return entry < count ? int64_t(items[size_t(entry)].tile) : 0;
  };
  int64_t missing = 2 * tileOf(1) - tileOf(0);
  for (int64_t wave = 3; wave < mostWaves; ++wave)
    missing += wave % 2 ? -2 * tileOf(wave) : 2 * tileOf(wave);
  int64_t width = deal.end - deal.first;
  int64_t difference = tileOf(1) - tileOf(2);
  if (missing > leastMissing && difference > 0)
    deal.block = std::min(width, width * missing / difference);
  return deal;
}

WorkList schedule::buildWorkList(ArrayRef<int64_t> offsets, bool causal,
                                 const LaunchSize &size) {
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

  SecondWave deal = dealSecondWave(list.items, size);
  if (deal.block < 2)
    return list;
  std::vector<WorkItem> wave(list.items.begin() + deal.first,
                             list.items.begin() + deal.end);
  for (int64_t i = deal.first; i < deal.end; ++i)
    list.items[size_t(i)] = wave[size_t(deal.source(i) - deal.first)];
  return list;
}
