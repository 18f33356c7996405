//===- WorkList.h - From document offsets to work items ---------*- C++ -*-===//
//
// The host side of packed documents: validation of cu_seqlens and the list of
// work items that the kernels read, one CTA per (item, head).
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_SCHEDULE_WORKLIST_H
#define FLAMIA_SCHEDULE_WORKLIST_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace flamia {
namespace schedule {

/// Rows of a query, key or scale tile.
inline constexpr int64_t tileRows = 128;
/// Work items hold token numbers as int32.
inline constexpr int64_t maxTokens = INT32_MAX;

/// Checks document offsets: at least one entry, first 0, never decreasing, last
/// equal to `tokens`, at most maxTokens, no document longer than `maxLength`.
/// The message names the rule and the offending values. Document d is the
/// tokens [offsets[d], offsets[d + 1]); empty documents are legal, and so is
/// [0] with no tokens at all.
llvm::Error validateOffsets(llvm::ArrayRef<int64_t> offsets, int64_t tokens,
                            std::optional<int64_t> maxLength = std::nullopt);
llvm::Error validateOffsets(llvm::ArrayRef<int32_t> offsets, int64_t tokens,
                            std::optional<int64_t> maxLength = std::nullopt);

/// One row of the work list, as kernels read it (int32[4]).
struct WorkItem {
  int32_t begin = 0;     ///< the document's first token
  int32_t end = 0;       ///< one past its last token
  int32_t tile = 0;      ///< 128-row tile inside the document
  int32_t scaleBase = 0; ///< the document's first scale tile
};
static_assert(sizeof(WorkItem) == 16, "kernels read int32[4]");

struct WorkList {
  std::vector<WorkItem> items;
  int64_t scaleTiles = 0; ///< sum over documents of ceil(length / 128)
};

/// How many key tiles an item's queries read: its cost in the forward and in
/// the kernel of dQ. The kernel of dK and dV counts tiles from the document's
/// end (flamia.work_item from_end), so that its costs fall in the same order:
/// the keys of entry {.., tile, ..} are read by tile + 1 query tiles of a head.
int64_t costOf(const WorkItem &item, bool causal);

/// Number of items (= scale tiles), without building the list.
int64_t countItems(llvm::ArrayRef<int64_t> offsets);

/// The most items that this many documents of this many tokens can have.
int64_t mostItems(int64_t documents, int64_t tokens);

/// The launch that a list is ordered for: SMs, at most 1024, and the heads of
/// the kernel with the fewest CTAs for an entry, the kv heads. A wave is the
/// entries that start together, one CTA on each SM.
struct LaunchSize {
  int64_t sms = 0; ///< 0: longest first, without an exception
  int64_t kvHeads = 1;
  /// The first entry of a wave.
  int64_t wave(int64_t number) const { return number * sms / kvHeads; }
};

/// Which entries do not start longest first: of a list's second wave, each
/// `block` entries are dealt from their two halves in turn. The entry at
/// position i of the list is the `source(i)`th longest.
struct SecondWave {
  int64_t first = 0, end = 0;
  int64_t block = 0; ///< below 2: all start longest first
  int64_t source(int64_t i) const;
};

/// Longest first ends unevenly where SMs have few entries: the second wave's
/// long ones go to the SMs that were free first, so that it cancels the first,
/// the fourth cancels the third, and of an odd number of waves the last one's
/// differences stay. They need SMs that are free as far apart in time; dealing
/// from halves spreads them by what a block's entries differ in. How far apart
/// follows from the differences of all waves in tiles, so the kernels' cycles
/// are not needed. \p items are those of a causal list, longest first.
SecondWave dealSecondWave(llvm::ArrayRef<WorkItem> items,
                          const LaunchSize &size);

/// All (document, tile) pairs once each, most expensive first, so that the
/// cheap ones fill the gaps at the end of a launch; with causality the second
/// wave is dealt. Of equal costs the one of the longer document (in tiles)
/// comes first, then the one of the earlier document; without causality a
/// document's tiles follow each other. `offsets` must be valid. Time grows
/// linearly. kernels/work_list.mlir makes the same list on the device.
WorkList buildWorkList(llvm::ArrayRef<int64_t> offsets, bool causal,
                       const LaunchSize &size = {});

} // namespace schedule
} // namespace flamia

#endif // FLAMIA_SCHEDULE_WORKLIST_H
