//===- Issue.h - What a simulated unit can complain about -------*- C++ -*-===//
//
// The arithmetic and layout units do not print or stop: they append to an
// IssueList and the executor adds the PTX line and decides what to do.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SIM_UNITS_ISSUE_H
#define FLAMIA_SIM_UNITS_ISSUE_H

#include <cstdint>
#include <string>
#include <vector>

namespace flamia::sim {

enum class IssueKind {
  IllegalInstruction, ///< reserved bits, shapes or combinations not allowed
  Misaligned,         ///< an address that the unit requires to be aligned
  OutOfBounds,        ///< shared, global or tensor memory address out of range
  LaneAccess,         ///< tensor memory lanes that the warp may not touch
  Unallocated,        ///< tensor memory column that is not allocated
  Uninitialised,      ///< tensor memory cell read before it was written
  ReplicaMismatch,    ///< scale factor replicas of the lane groups differ
  Allocation,         ///< alloc/dealloc used against its rules
};

/// One complaint. Messages are lower case, without a full stop, and name the
/// field and the value.
struct Issue {
  IssueKind kind;
  std::string message;
};

/// Rule shared by all units: a function that returns false did nothing and has
/// appended the reason; one that returns true has done its work, and anything
/// it appended is a check that hardware would not make (for instance a read of
/// an uninitialised cell). One call appends at most one issue of each kind for
/// data checks, the first it met.
using IssueList = std::vector<Issue>;

/// Bytes [begin, begin + size) of a CTA's shared memory window.
struct ByteRange {
  uint32_t begin;
  uint32_t size;
};

/// Cells of tensor memory: lanes [lane, lane + lanes) of columns
/// [column, column + columns).
struct TmemRange {
  uint16_t lane;
  uint16_t lanes;
  uint16_t column;
  uint16_t columns;
};

/// What one asynchronous instruction touches in one CTA, for hazard checks.
/// Adjacent shared memory bytes are merged into one range.
struct Footprint {
  std::vector<ByteRange> smemRead;
  std::vector<TmemRange> tmemRead;
  std::vector<TmemRange> tmemWrite;
};

/// A CTA's shared memory: `data[i]` is the byte at shared address `base + i`.
/// Swizzles work on shared address bits, so `base` matters.
struct SharedView {
  uint8_t *data = nullptr;
  uint32_t base = 0;
  uint32_t size = 0;

  /// Pointer to `count` bytes at shared address `address`, null when any of
  /// them is outside.
  uint8_t *at(uint32_t address, uint32_t count) const {
    uint64_t offset = uint64_t(address) - base;
    if (address < base || offset + count > size)
      return nullptr;
    return data + offset;
  }
};

} // namespace flamia::sim

#endif // FLAMIA_SIM_UNITS_ISSUE_H
