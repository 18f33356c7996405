//===- Tmem.cpp - Tensor memory: allocation, ld, st -----------------------===//
//
// facts/tcgen05.md sections 4.1, 4.2 and 6.
//
//===----------------------------------------------------------------------===//

#include "flamia/Sim/Units/Tmem.h"
#include "Message.h"
#include <cstring>

namespace flamia::sim {

namespace {
constexpr uint16_t firstFlag = 0x8000;
constexpr uint16_t sizeMask = 0x7fff;
} // namespace

Tmem::Tmem()
    : cells(new uint32_t[numColumns * numLanes]()), written(numColumns) {}

//===----------------------------------------------------------------------===//
// Allocation
//===----------------------------------------------------------------------===//

TmemAllocResult Tmem::allocate(unsigned columns, uint32_t &address,
                               IssueList &issues) {
  bool powerOfTwo =
      columns >= 32 && columns <= numColumns && (columns & (columns - 1)) == 0;
  if (!powerOfTwo) {
    complain(issues, IssueKind::Allocation,
             "tcgen05.alloc: expected a power of two of 32 to 512 columns, but "
             "got %u",
             columns);
    return TmemAllocResult::Error;
  }
  if (relinquished) {
    complain(issues, IssueKind::Allocation,
             "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    return TmemAllocResult::Error;
  }
  if (columns > lastSize) {
    complain(issues, IssueKind::Allocation,
             "tcgen05.alloc of %u columns after one of %u: sizes must not grow",
             columns, lastSize);
    return TmemAllocResult::Error;
  }
  for (unsigned base = 0; base + columns <= numColumns; base += 32) {
    bool isFree = true;
    for (unsigned c = base; c < base + columns; c += 32)
      isFree &= owner[c] == 0;
    if (!isFree)
      continue;
    for (unsigned c = base; c < base + columns; ++c) {
      owner[c] = uint16_t(columns);
      written[c] = {0, 0};
    }
    owner[base] |= firstFlag;
    lastSize = columns;
    address = tmemAddress(0, base);
    return TmemAllocResult::Done;
  }
  return TmemAllocResult::Wait;
}

bool Tmem::deallocate(uint32_t address, unsigned columns, IssueList &issues) {
  unsigned base = tmemColumn(address);
  bool matches = tmemLane(address) == 0 && base < numColumns &&
                 (owner[base] & firstFlag) &&
                 (owner[base] & sizeMask) == columns;
  if (!matches)
    return complain(issues, IssueKind::Allocation,
                    "tcgen05.dealloc of %u columns at 0x%08x does not match an "
                    "allocation",
                    columns, address);
  for (unsigned c = base; c < base + columns; ++c)
    owner[c] = 0;
  return true;
}

unsigned Tmem::allocatedColumns() const {
  unsigned count = 0;
  for (uint16_t entry : owner)
    count += entry != 0;
  return count;
}

bool Tmem::checkColumns(unsigned first, unsigned count, const char *what,
                        IssueList &issues) const {
  if (first + count > numColumns)
    return complain(issues, IssueKind::OutOfBounds,
                    "%s: columns %u to %u exceed the %u of tensor memory", what,
                    first, first + count - 1, numColumns);
  for (unsigned c = first; c < first + count; ++c)
    if (owner[c] == 0)
      return complain(issues, IssueKind::Unallocated,
                      "%s: tensor memory column %u is not allocated", what, c);
  return true;
}

//===----------------------------------------------------------------------===//
// ld and st
//===----------------------------------------------------------------------===//

unsigned TmemAccess::registers() const {
  if (num == 0 || num > 128 || (num & (num - 1)) != 0)
    return 0;
  unsigned base = shape == TmemShape::S16x128b   ? 2
                  : shape == TmemShape::S16x256b ? 4
                                                 : 1;
  return base * num <= 128 ? base * num : 0;
}

namespace {

/// Offset of a cell from an access's address.
struct Cell {
  unsigned lane;
  unsigned column;
};

/// The cell of register `i` of thread `t`; with pack::16b the first of two
/// neighbouring ones.
Cell cellOf(const TmemAccess &access, unsigned i, unsigned t) {
  unsigned scale = access.pack16 ? 2 : 1;
  switch (access.shape) {
  case TmemShape::S32x32b:
    return {t, i * scale};
  case TmemShape::S16x64b:
    return {t / 4 + 8 * (t & 1), (((t >> 1) & 1) + 2 * i) * scale};
  case TmemShape::S16x128b:
    return {t / 4 + 8 * (i & 1), (t % 4 + 4 * (i >> 1)) * scale};
  case TmemShape::S16x256b:
    return {t / 4 + 8 * ((i >> 1) & 1),
            (2 * (t % 4) + (i & 1) + 8 * (i >> 2)) * scale};
  case TmemShape::S16x32bx2:
    return {t % 16, i * scale + (t < 16 ? 0 : access.secondHalf)};
  }
  return {0, 0};
}

/// Columns from the address on that one half of the access covers.
unsigned columnsOf(const TmemAccess &access) {
  unsigned perNum = access.shape == TmemShape::S16x64b    ? 2
                    : access.shape == TmemShape::S16x128b ? 4
                    : access.shape == TmemShape::S16x256b ? 8
                                                          : 1;
  return perNum * access.num * (access.pack16 ? 2 : 1);
}

bool checkAccess(const TmemAccess &access, unsigned warp, const char *what,
                 IssueList &issues) {
  if (access.registers() == 0)
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s: shape does not exist with .x%u", what, access.num);
  unsigned lane = tmemLane(access.address);
  bool fullWarp = access.shape == TmemShape::S32x32b;
  if (lane != 32 * warp && (fullWarp || lane != 32 * warp + 16))
    return complain(issues, IssueKind::LaneAccess,
                    "%s: warp %u of its warpgroup may access lanes %u to %u, "
                    "but the address 0x%08x begins at lane %u",
                    what, warp, 32 * warp, 32 * warp + 31, access.address,
                    lane);
  return true;
}

bool checkAccessColumns(const Tmem &tmem, const TmemAccess &access,
                        const char *what, IssueList &issues) {
  unsigned first = tmemColumn(access.address);
  unsigned count = columnsOf(access);
  if (!tmem.checkColumns(first, count, what, issues))
    return false;
  return access.shape != TmemShape::S16x32bx2 ||
         tmem.checkColumns(first + access.secondHalf, count, what, issues);
}

} // namespace

bool Tmem::footprint(const TmemAccess &access, unsigned warp,
                     std::vector<TmemRange> &ranges, IssueList &issues) {
  if (!checkAccess(access, warp, "tensor memory access", issues))
    return false;
  uint16_t lane = uint16_t(tmemLane(access.address));
  uint16_t lanes = access.shape == TmemShape::S32x32b ? 32 : 16;
  uint16_t column = uint16_t(tmemColumn(access.address));
  uint16_t columns = uint16_t(columnsOf(access));
  ranges.push_back({lane, lanes, column, columns});
  if (access.shape == TmemShape::S16x32bx2)
    ranges.push_back(
        {lane, lanes, uint16_t(column + access.secondHalf), columns});
  return true;
}

bool Tmem::load(const TmemAccess &access, unsigned warp, uint32_t *const *regs,
                IssueList &issues, uint32_t *valid) const {
  const char *what = "tcgen05.ld";
  if (!checkAccess(access, warp, what, issues) ||
      !checkAccessColumns(*this, access, what, issues))
    return false;
  unsigned lane = tmemLane(access.address);
  unsigned first = tmemColumn(access.address);
  unsigned count = access.registers();
  bool direct = access.shape == TmemShape::S32x32b && !access.pack16;
  bool reported = valid != nullptr;

  for (unsigned i = 0; i < count; ++i) {
    uint32_t mask = 0;
    if (direct) {
      std::memcpy(regs[i], column(first + i) + lane, 32 * sizeof(uint32_t));
      mask = uint32_t(written[first + i][lane / 64] >> (lane % 64));
    } else {
      for (unsigned t = 0; t < 32; ++t) {
        Cell cell = cellOf(access, i, t);
        unsigned l = lane + cell.lane, c = first + cell.column;
        uint32_t value = read(l, c);
        bool isValid = isInitialised(l, c);
        if (access.pack16) {
          value = (value & 0xffff) | (read(l, c + 1) << 16);
          isValid &= isInitialised(l, c + 1);
        }
        regs[i][t] = value;
        mask |= uint32_t(isValid) << t;
      }
    }
    if (valid)
      valid[i] = mask;
    if (mask == 0xffffffff || reported)
      continue;
    unsigned t = unsigned(__builtin_ctz(~mask));
    Cell cell = cellOf(access, i, t);
    complain(issues, IssueKind::Uninitialised,
             "%s reads tensor memory lane %u, column %u, which was never "
             "written (register %u of thread %u)",
             what, lane + cell.lane, first + cell.column, i, t);
    reported = true;
  }
  return true;
}

bool Tmem::store(const TmemAccess &access, unsigned warp,
                 const uint32_t *const *regs, IssueList &issues) {
  const char *what = "tcgen05.st";
  if (!checkAccess(access, warp, what, issues) ||
      !checkAccessColumns(*this, access, what, issues))
    return false;
  unsigned lane = tmemLane(access.address);
  unsigned first = tmemColumn(access.address);
  unsigned count = access.registers();

  if (access.shape == TmemShape::S32x32b && !access.pack16) {
    uint64_t mask = uint64_t(0xffffffff) << (lane % 64);
    for (unsigned i = 0; i < count; ++i) {
      std::memcpy(column(first + i) + lane, regs[i], 32 * sizeof(uint32_t));
      written[first + i][lane / 64] |= mask;
    }
    return true;
  }
  for (unsigned i = 0; i < count; ++i)
    for (unsigned t = 0; t < 32; ++t) {
      Cell cell = cellOf(access, i, t);
      unsigned l = lane + cell.lane, c = first + cell.column;
      if (access.pack16) {
        write(l, c, regs[i][t] & 0xffff);
        write(l, c + 1, regs[i][t] >> 16);
      } else {
        write(l, c, regs[i][t]);
      }
    }
  return true;
}

} // namespace flamia::sim
