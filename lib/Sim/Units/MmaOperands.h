//===- MmaOperands.h - Decoded operands of tcgen05.mma ----------*- C++ -*-===//
//
// Rows of 32 bytes become values and exponents; bytes of tensor memory become
// scale factors.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_MMAOPERANDS_H
#define FLAMIA_LIB_SIM_UNITS_MMAOPERANDS_H

#include "flamia/Sim/Units/Mma.h"
#include <cstdint>
#include <vector>

namespace flamia::sim {

/// Bits of a row's flags.
enum RowFlag : uint8_t { rowHasNaN = 1, rowHasInf = 2 };

/// A decoded operand. Element (r, k) is at r * rowStep + k * kStep of `value`
/// and `exponent`. NaN and Inf are stored as zero and flagged.
struct DecodedRows {
  unsigned rows = 0;
  unsigned k = 0;
  unsigned rowStep = 0;
  unsigned kStep = 0;
  OperandType type = OperandType::E4M3;
  bool negate = false;
  std::vector<uint8_t> raw; ///< rows x 32 bytes, containers of section 3.5
  std::vector<float> value;
  std::vector<int16_t> exponent;
  std::vector<uint8_t> flags;
  uint8_t anyFlag = 0;
  bool wide = false; ///< a finite non-zero value beyond 2^+-48

  /// Decodes `raw`, which the caller has filled.
  void decode();
  /// The value of an element with NaN and Inf in place.
  double element(unsigned row, unsigned index) const;
};

/// Turns padded 4- and 6-bit units of shared memory rows into containers.
void expandPaddedRows(OperandType type, uint8_t *raw, unsigned rows);

/// Scale factors of one operand for one instruction, `perRow` (1, 2 or 4) each,
/// as the four lane groups see them: entry (group, row, j).
struct DecodedScales {
  unsigned rows = 0;
  unsigned perRow = 0;
  ScaleType type = ScaleType::UE8M0;
  std::vector<uint8_t> codes;

  uint8_t code(unsigned group, unsigned row, unsigned j) const {
    return codes[(group * rows + row) * perRow + j];
  }
  bool isNaN(uint8_t c) const {
    return type == ScaleType::UE8M0 ? c == 0xff : (c & 0x7f) == 0x7f;
  }
  /// Section 11's significand and exponent; NaN decodes as 0.
  float significand(uint8_t c) const;
  int exponent(uint8_t c) const;
  bool anyNaN = false;

  /// Reads them at \p address from \p tmem, bytes from \p id on. Reports
  /// uninitialised cells and replicas that differ: all \p replicas = 4 lane
  /// groups are to agree, or each half of them (2).
  void read(const Tmem &tmem, uint32_t address, unsigned id, unsigned rows,
            unsigned perRow, ScaleType type, unsigned replicas,
            const char *what, IssueList &issues);
};

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_MMAOPERANDS_H
