//===- Tmem.h - Tensor memory, its allocation, ld, st, cp, shift -*- C++
//-*-===//
//
// 128 lanes x 512 columns of 32-bit cells (facts/tcgen05.md sections 4, 6, 7).
// A cell remembers whether it was written since its allocation.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SIM_UNITS_TMEM_H
#define FLAMIA_SIM_UNITS_TMEM_H

#include "flamia/Sim/Units/Descriptor.h"
#include "flamia/Sim/Units/Issue.h"
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace flamia::sim {

/// A tensor memory address: lane in bits 31-16, column in bits 15-0.
inline uint32_t tmemAddress(unsigned lane, unsigned column) {
  return (lane << 16) | column;
}
inline unsigned tmemLane(uint32_t address) { return address >> 16; }
inline unsigned tmemColumn(uint32_t address) { return address & 0xffff; }

enum class TmemShape { S32x32b, S16x64b, S16x128b, S16x256b, S16x32bx2 };

/// A tcgen05.ld or tcgen05.st.
struct TmemAccess {
  TmemShape shape = TmemShape::S32x32b;
  unsigned num = 1;        ///< N of .xN
  bool pack16 = false;     ///< .pack::16b (ld) or .unpack::16b (st)
  uint32_t address = 0;    ///< warp-uniform
  uint32_t secondHalf = 0; ///< immediate of 16x32bx2, in columns

  /// Registers per thread; 0 when shape and num do not exist together.
  unsigned registers() const;
};

/// Whether an allocation succeeded, has to wait, or is an error.
enum class TmemAllocResult { Done, Wait, Error };

/// Tensor memory of one SM as one CTA sees it. About 270 KiB.
class Tmem {
public:
  static constexpr unsigned numLanes = 128;
  static constexpr unsigned numColumns = 512;

  Tmem();

  //===--- Allocation -----------------------------------------------------===//

  /// tcgen05.alloc: a power of two of 32..512 columns, first fit from
  /// column 0. New columns are uninitialised. Wait: not enough free columns.
  TmemAllocResult allocate(unsigned columns, uint32_t &address,
                           IssueList &issues);
  /// tcgen05.dealloc of exactly what an alloc returned.
  bool deallocate(uint32_t address, unsigned columns, IssueList &issues);
  /// tcgen05.relinquish_alloc_permit: later allocs are errors.
  void relinquish() { relinquished = true; }
  /// Columns still allocated (must be 0 when the CTA exits).
  unsigned allocatedColumns() const;
  bool isAllocated(unsigned column) const { return owner[column] != 0; }

  //===--- Cells ----------------------------------------------------------===//

  /// The 128 lanes of a column, contiguous.
  uint32_t *column(unsigned c) { return cells.get() + c * numLanes; }
  const uint32_t *column(unsigned c) const {
    return cells.get() + c * numLanes;
  }
  /// Initialised bits of a column: bit l%64 of word l/64 is lane l.
  uint64_t *initialised(unsigned c) { return written[c].data(); }
  const uint64_t *initialised(unsigned c) const { return written[c].data(); }
  bool isInitialised(unsigned lane, unsigned c) const {
    return (written[c][lane / 64] >> (lane % 64)) & 1;
  }
  /// One cell, for tests and debuggers; write marks it initialised.
  uint32_t read(unsigned lane, unsigned c) const { return column(c)[lane]; }
  void write(unsigned lane, unsigned c, uint32_t value) {
    column(c)[lane] = value;
    written[c][lane / 64] |= uint64_t(1) << (lane % 64);
  }

  /// Checks that columns [first, first + count) exist and are allocated.
  bool checkColumns(unsigned first, unsigned count, const char *what,
                    IssueList &issues) const;

  //===--- ld, st (one warp) ----------------------------------------------===//

  /// tcgen05.ld by warp \p warp (index in the warpgroup, 0..3):
  /// regs[i][t] is register i of thread t. \p valid, when given, receives one
  /// mask per register: bit t set when every cell behind it was initialised;
  /// then uninitialised cells are reported there only. Reads of uninitialised
  /// cells append one Uninitialised issue otherwise.
  bool load(const TmemAccess &access, unsigned warp, uint32_t *const *regs,
            IssueList &issues, uint32_t *valid = nullptr) const;

  /// tcgen05.st. With unpack::16b the upper half of a cell becomes zero (what
  /// hardware leaves there is not known).
  bool store(const TmemAccess &access, unsigned warp,
             const uint32_t *const *regs, IssueList &issues);

  /// The cells that \p access touches, for hazard checks; false when illegal.
  static bool footprint(const TmemAccess &access, unsigned warp,
                        std::vector<TmemRange> &ranges, IssueList &issues);

private:
  std::unique_ptr<uint32_t[]> cells;
  std::vector<std::array<uint64_t, 2>> written;
  /// Size of the allocation that holds a column, 0 = free; the top bit marks
  /// its first column.
  std::array<uint16_t, numColumns> owner{};
  unsigned lastSize = 512;
  bool relinquished = false;
};

//===----------------------------------------------------------------------===//
// tcgen05.cp and shift
//===----------------------------------------------------------------------===//

enum class CpShape {
  S128x256b,
  S128x128b,
  S64x128b_02_13,
  S64x128b_01_23,
  S32x128b_warpx4,
  S4x256b
};
/// Decompression: none, .b8x16.b6x16_p32, .b8x16.b4x16_p64.
enum class CpFormat { None, B6x16P32, B4x16P64 };

/// A tcgen05.cp, validated; what one CTA does.
struct CpPlan {
  CpShape shape = CpShape::S128x256b;
  CpFormat format = CpFormat::None;
  uint32_t address = 0;
  SmemDescriptor source;
  Footprint footprint;
};

bool planCp(CpShape shape, CpFormat format, uint32_t tmemAddr,
            uint64_t descriptor, CpPlan &plan, IssueList &issues);
bool runCp(const CpPlan &plan, Tmem &tmem, const SharedView &smem,
           IssueList &issues);

/// tcgen05.shift.down: in the 32 lanes from the lane field and 8 columns, lane
/// l takes lane l+1, the last one stays.
bool shiftDown(uint32_t tmemAddr, Tmem &tmem, IssueList &issues);

} // namespace flamia::sim

#endif // FLAMIA_SIM_UNITS_TMEM_H
