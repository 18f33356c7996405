//===- MmaOperands.cpp - Decoded operands of tcgen05.mma ------------------===//

#include "MmaOperands.h"
#include "Bits.h"
#include "Message.h"
#include "MmaKernel.h"
#include "Padded.h"
#include "flamia/Sim/Units/Convert.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace flamia::sim {

namespace {

/// What a bit pattern decodes to.
struct Element {
  float value;
  int16_t exponent; ///< zeroExponent for zero
  uint8_t flag;     ///< RowFlag
};

/// Splits f32 bits of a format whose smallest normal exponent is `minExponent`.
Element split(uint32_t bits, int minExponent) {
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return {0.0f, zeroExponent, rowHasNaN};
  if (magnitude == 0x7f800000)
    return {0.0f, zeroExponent, rowHasInf};
  if (magnitude == 0)
    return {asFloat(bits), zeroExponent, 0};
  int exponent = std::max(int(magnitude >> 23), 1) - 127;
  return {asFloat(bits), int16_t(std::max(exponent, minExponent)), 0};
}

/// All codes of a byte container.
struct ByteTable {
  Element entries[256];

  ByteTable(Narrow format, int minExponent, unsigned shift, uint8_t mask) {
    for (unsigned byte = 0; byte < 256; ++byte)
      entries[byte] = split(narrowToF32(uint8_t(byte >> shift) & mask, format),
                            minExponent);
  }
};

const Element *byteTable(OperandType type) {
  static const ByteTable e4m3(Narrow::E4M3, -6, 0, 0xff);
  static const ByteTable e5m2(Narrow::E5M2, -14, 0, 0xff);
  static const ByteTable e2m3(Narrow::E2M3, 0, 1, 0x3f);
  static const ByteTable e3m2(Narrow::E3M2, -2, 1, 0x3f);
  static const ByteTable e2m1(Narrow::E2M1, 0, 2, 0x0f);
  switch (type) {
  case OperandType::E4M3:
    return e4m3.entries;
  case OperandType::E5M2:
    return e5m2.entries;
  case OperandType::E2M3:
    return e2m3.entries;
  case OperandType::E3M2:
    return e3m2.entries;
  default:
    return e2m1.entries;
  }
}

const Element *nibbleTable() {
  static const ByteTable table(Narrow::E2M1, 0, 0, 0x0f);
  return table.entries;
}

/// Element `index` of a row of 32 bytes holding `k` elements.
Element elementAt(OperandType type, unsigned k, const uint8_t *row,
                  unsigned index) {
  switch (type) {
  case OperandType::F16: {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * index, 2);
    return split(f16ToF32(bits), -14);
  }
  case OperandType::BF16: {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * index, 2);
    return split(bf16ToF32(bits), minExponent);
  }
  case OperandType::TF32: {
    uint32_t bits;
    std::memcpy(&bits, row + 4 * index, 4);
    return split(bits & ~0x1fffu, minExponent);
  }
  case OperandType::U8:
    return {float(row[index]), 0, 0};
  case OperandType::S8:
    return {float(int8_t(row[index])), 0, 0};
  case OperandType::E2M1:
    if (k == 64)
      return nibbleTable()[(row[index / 2] >> (4 * (index % 2))) & 0x0f];
    return byteTable(type)[row[index]];
  default:
    return byteTable(type)[row[index]];
  }
}

/// The table for types of one code a byte or nibble, null for the others.
const Element *codeTable(OperandType type, unsigned k) {
  if (k == 64)
    return nibbleTable();
  if (k != 32 || type == OperandType::U8 || type == OperandType::S8)
    return nullptr;
  return byteTable(type);
}

} // namespace

void DecodedRows::decode() {
  // Rows may be closer together in memory than K steps, or the other way round.
  size_t size = std::max(size_t(rows) * rowStep, size_t(k) * kStep);
  value.resize(size);
  exponent.resize(size);
  flags.assign(rows, 0);
  anyFlag = 0;
  const Element *table = codeTable(type, k);
  int smallest = 0, largest = 0;
  for (unsigned r = 0; r < rows; ++r) {
    const uint8_t *row = raw.data() + r * 32;
    uint8_t nibbles[64];
    const uint8_t *codes = row;
    if (k == 64) {
      for (unsigned i = 0; i < 32; ++i) {
        nibbles[2 * i] = row[i] & 0x0f;
        nibbles[2 * i + 1] = row[i] >> 4;
      }
      codes = nibbles;
    }
    uint8_t flag = 0;
    for (unsigned i = 0; i < k; ++i) {
      Element e = table ? table[codes[i]] : elementAt(type, k, row, i);
      value[r * rowStep + i * kStep] = negate ? -e.value : e.value;
      exponent[r * rowStep + i * kStep] = e.exponent;
      flag |= e.flag;
      if (e.exponent != zeroExponent) {
        smallest = std::min(smallest, int(e.exponent));
        largest = std::max(largest, int(e.exponent));
      }
    }
    flags[r] = flag;
    anyFlag |= flag;
  }
  // Subnormals of f32 and bf16 (exponent -126) are caught as well.
  wide = smallest < -48 || largest > 46;
}

double DecodedRows::element(unsigned row, unsigned index) const {
  Element e = elementAt(type, k, raw.data() + row * 32, index);
  double result = e.value;
  if (e.flag == rowHasNaN)
    return std::numeric_limits<double>::quiet_NaN();
  if (e.flag == rowHasInf) {
    // Only the sign is needed: of e5m2, f16, bf16 and tf32.
    unsigned bytes = 32 / k;
    bool negative = raw[row * 32 + (index + 1) * bytes - 1] & 0x80;
    result = negative ? -std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::infinity();
  }
  return negate ? -result : result;
}

void expandPaddedRows(OperandType type, uint8_t *raw, unsigned rows) {
  bool four = type == OperandType::E2M1;
  if (!four && type != OperandType::E2M3 && type != OperandType::E3M2)
    return;
  for (unsigned unit = 0; unit < 2 * rows; ++unit) {
    uint8_t expanded[16];
    if (four)
      expandPadded4(raw + unit * 16, expanded);
    else
      expandPadded6(raw + unit * 16, expanded);
    std::memcpy(raw + unit * 16, expanded, 16);
  }
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

float DecodedScales::significand(uint8_t c) const {
  if (isNaN(c))
    return 0.0f;
  if (type == ScaleType::UE8M0)
    return 1.0f;
  unsigned field = (c >> 3) & 0x0f;
  return float((c & 7) + (field ? 8 : 0)) / 8.0f;
}

int DecodedScales::exponent(uint8_t c) const {
  if (type == ScaleType::UE8M0)
    return int(c) - 127;
  return std::max(int((c >> 3) & 0x0f), 1) - 7;
}

void DecodedScales::read(const Tmem &tmem, uint32_t address, unsigned id,
                         unsigned numRows, unsigned count, ScaleType scaleType,
                         unsigned replicas, const char *what,
                         IssueList &issues) {
  rows = numRows;
  perRow = count;
  type = scaleType;
  codes.resize(4 * rows * perRow);
  anyNaN = false;
  bool reportedCell = false, reportedReplica = false;
  uint32_t usedBytes = (perRow == 4 ? 0xffffffffu : (1u << (8 * perRow)) - 1)
                       << (8 * id);
  for (unsigned row = 0; row < rows; ++row) {
    unsigned column = tmemColumn(address) + row / 32;
    for (unsigned group = 0; group < 4; ++group) {
      unsigned lane = row % 32 + 32 * group;
      uint32_t word = tmem.read(lane, column);
      unsigned first = row % 32 + 32 * (group - group % replicas);
      uint32_t reference = tmem.read(first, column);
      for (unsigned j = 0; j < perRow; ++j) {
        uint8_t c = uint8_t(word >> (8 * (id + j)));
        codes[(group * rows + row) * perRow + j] = c;
        anyNaN |= isNaN(c);
      }
      if (!tmem.isInitialised(lane, column) && !reportedCell) {
        reportedCell = true;
        complain(issues, IssueKind::Uninitialised,
                 "tcgen05.mma reads the %s scale of row %u in tensor memory "
                 "lane %u, column %u, which was never written",
                 what, row, lane, column);
      }
      if (((word ^ reference) & usedBytes) && !reportedReplica) {
        reportedReplica = true;
        complain(issues, IssueKind::ReplicaMismatch,
                 "tcgen05.mma: %s scale of row %u is 0x%08x in lane %u but "
                 "0x%08x in lane %u of tensor memory column %u (bytes from %u "
                 "on are used)",
                 what, row, reference, first, word, lane, column, id);
      }
    }
  }
}

} // namespace flamia::sim
