//===- TileWalk.h - Query tiles, key tiles and masks ------------*- C++ -*-===//
//
// What both references iterate over: one work item per query tile and head,
// and for each query the contiguous range of keys it sees.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_TILEWALK_H
#define FLAMIA_LIB_REFERENCE_TILEWALK_H

#include "flamia/Reference/Attention.h"

#include <algorithm>

namespace flamia::reference {

using numerics::tileRows;

/// A query tile of one head. Token indices are on the packed axis, positions
/// inside the document.
struct WorkItem {
  int64_t begin;     ///< document's first token
  int64_t length;    ///< document's tokens
  int64_t tile;      ///< query tile in the document
  int64_t scaleBase; ///< document's first scale tile
  int64_t head;      ///< query head

  int64_t firstRow() const { return tile * tileRows; }
  int64_t rows() const { return std::min(tileRows, length - firstRow()); }
};

/// Positions [begin, end) of the keys that one query sees.
struct KeyRange {
  int64_t begin, end;

  bool empty() const { return begin >= end; }
  /// The part in a key tile, relative to its first key.
  KeyRange inTile(int64_t tile) const {
    int64_t first = tile * tileRows;
    return {std::max<int64_t>(begin - first, 0),
            std::min(end - first, tileRows)};
  }
};

/// A window that ends at the query is causal too.
inline bool isCausal(const MaskOptions &mask) {
  return mask.causal || mask.windowRight == 0;
}

inline KeyRange visibleKeys(const MaskOptions &mask, int64_t query,
                            int64_t length) {
  KeyRange range = {0, length};
  if (mask.causal)
    range.end = query + 1;
  // Comparisons this way round cannot overflow for huge windows.
  if (mask.windowLeft >= 0 && mask.windowLeft < query)
    range.begin = query - mask.windowLeft;
  if (mask.windowRight >= 0 && mask.windowRight < range.end - query)
    range.end = query + mask.windowRight + 1;
  return range;
}

/// Key tiles [first, last) that any query of the item sees.
inline KeyRange visibleTiles(const MaskOptions &mask, const WorkItem &item) {
  KeyRange first = visibleKeys(mask, item.firstRow(), item.length);
  KeyRange last =
      visibleKeys(mask, item.firstRow() + item.rows() - 1, item.length);
  return {first.begin / tileRows, (last.end + tileRows - 1) / tileRows};
}

/// All items, those with the largest tile index first.
std::vector<WorkItem> workItems(const AttentionShape &shape);

/// One item per key tile and kv head, those with most queries first. An item's
/// head is the first query head of the kv head.
std::vector<WorkItem> keyItems(const AttentionShape &shape);

/// The scale of an E8M0 byte (NaN for 255).
inline double scaleOf(uint8_t byte) {
  return double(numerics::e8m0ToFloat(byte));
}

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_TILEWALK_H
