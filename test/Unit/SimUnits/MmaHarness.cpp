//===- MmaHarness.cpp - Operand placement for the mma tests ---------------===//

#include "MmaHarness.h"
#include <gtest/gtest.h>

namespace flamia::sim::test {

std::vector<uint8_t> MmaMachine::packRows(const std::vector<uint32_t> &codes,
                                          unsigned rows, unsigned k,
                                          OperandType type, bool inTmem) {
  std::vector<uint8_t> bytes(rows * 32, 0);
  for (unsigned r = 0; r < rows; ++r) {
    uint8_t *row = bytes.data() + r * 32;
    for (unsigned i = 0; i < k; ++i) {
      uint32_t code = codes[r * k + i];
      if (k == 64) {
        row[i / 2] |= uint8_t((code & 15) << (4 * (i % 2)));
      } else if (type == OperandType::E2M1 && inTmem) {
        row[i] = uint8_t(code << 2);
      } else if (type == OperandType::E2M1) {
        row[i / 16 * 16 + i % 16 / 2] |= uint8_t((code & 15) << (4 * (i % 2)));
      } else if (type == OperandType::E2M3 || type == OperandType::E3M2) {
        if (inTmem) {
          row[i] = uint8_t(code << 1);
          continue;
        }
        for (unsigned bit = 0; bit < 6; ++bit) {
          unsigned position = 6 * (i % 16) + bit;
          row[i / 16 * 16 + position / 8] |=
              uint8_t(((code >> bit) & 1) << (position % 8));
        }
      } else {
        std::memcpy(row + i * (32 / k), &code, 32 / k);
      }
    }
  }
  return bytes;
}

uint64_t MmaMachine::place(const std::vector<uint8_t> &rows, unsigned count,
                           unsigned k, uint32_t start, unsigned swizzle,
                           bool mnMajor) {
  // Addresses by walking the tile as TMA would write it, not by the units'
  // own functions.
  unsigned span = swizzle == 2 ? 128 : swizzle == 4 ? 64 : 32;
  auto put = [&](uint32_t linear, uint8_t byte) {
    uint32_t line = linear / 128; // 128-byte line of the address space
    uint32_t chunk = (linear % 128) / 16;
    if (swizzle == 2)
      chunk ^= line % 8;
    else if (swizzle == 4)
      chunk ^= (line % 4);
    else if (swizzle == 6)
      chunk ^= line % 2;
    shared.at(line * 128 + chunk * 16 + linear % 16) = byte;
  };
  uint64_t lbo, sbo;
  unsigned elementBytes = 32 / k;
  unsigned mnBytes = count * elementBytes;
  if (!mnMajor && swizzle == 0) {
    // Core matrices of 8 rows x 16 bytes; the two K chunks are 128 apart.
    lbo = 128;
    sbo = 256;
    for (unsigned r = 0; r < count; ++r)
      for (unsigned byte = 0; byte < 32; ++byte)
        put(start + r / 8 * 256 + byte / 16 * 128 + r % 8 * 16 + byte % 16,
            rows[r * 32 + byte]);
  } else if (!mnMajor) {
    lbo = 16;
    sbo = 8 * span;
    for (unsigned r = 0; r < count; ++r)
      for (unsigned byte = 0; byte < 32; ++byte)
        put(start + r * span + byte, rows[r * 32 + byte]);
  } else if (swizzle == 0) {
    sbo = 128 * ((k + 7) / 8);
    lbo = 128;
    for (unsigned i = 0; i < k; ++i)
      for (unsigned byte = 0; byte < mnBytes; ++byte)
        put(start + byte / 16 * uint32_t(sbo) + i / 8 * 128 + i % 8 * 16 +
                byte % 16,
            rows[byte / elementBytes * 32 + i * elementBytes +
                 byte % elementBytes]);
  } else {
    // Slabs of `span` bytes along M/N, k rows each.
    sbo = 8 * span;
    lbo = uint64_t(k) * span;
    for (unsigned i = 0; i < k; ++i)
      for (unsigned byte = 0; byte < mnBytes; ++byte)
        put(start + byte / span * uint32_t(lbo) + i * span + byte % span,
            rows[byte / elementBytes * 32 + i * elementBytes +
                 byte % elementBytes]);
  }
  return (uint64_t(swizzle) << 61) | (uint64_t(1) << 46) | ((sbo / 16) << 32) |
         ((lbo / 16) << 16) | (start / 16);
}

MmaInstruction MmaMachine::load(const MmaCase &mma,
                                const Placement &placement) {
  MmaInstruction instr;
  instr.kind = mma.kind;
  instr.scaleVec = mma.scaleVec;
  instr.d = dColumn;
  instr.enableInputD = mma.accumulate;
  auto typeCode = [&](OperandType type) -> uint32_t {
    switch (type) {
    case OperandType::BF16:
    case OperandType::E5M2:
      return 1;
    case OperandType::TF32:
      return 2;
    case OperandType::E2M3:
      return 3;
    case OperandType::E3M2:
      return 4;
    case OperandType::E2M1:
      return mma.k == 64 ? 1 : 5;
    default:
      return 0;
    }
  };
  bool scaled = mma.perRow() != 0;
  instr.idesc = (typeCode(mma.aType) << 7) | (typeCode(mma.bType) << 10) |
                (uint32_t(mma.negateA) << 13) | (uint32_t(mma.negateB) << 14) |
                (uint32_t(placement.aMnMajor) << 15) |
                (uint32_t(placement.bMnMajor) << 16) | ((mma.n / 8) << 17) |
                ((mma.m / 16) << 24);
  if (scaled)
    instr.idesc |= (placement.sfId << 4) | (placement.sfId << 29) |
                   (uint32_t(mma.scaleType == ScaleType::UE8M0) << 23);
  else
    instr.idesc |= mma.f16Result ? 0 : 1u << 4;

  auto aBytes = packRows(mma.a, mma.m, mma.k, mma.aType, placement.aInTmem);
  auto bBytes = packRows(mma.b, mma.n, mma.k, mma.bType, false);
  instr.aInTmem = placement.aInTmem;
  if (placement.aInTmem) {
    instr.a = aColumn;
    for (unsigned m = 0; m < mma.m; ++m)
      for (unsigned c = 0; c < 8; ++c) {
        uint32_t word;
        std::memcpy(&word, aBytes.data() + m * 32 + c * 4, 4);
        tmem.write(dLane(mma, m), aColumn + c, word);
      }
  } else {
    instr.a = place(aBytes, mma.m, mma.k, 1024, placement.swizzle,
                    placement.aMnMajor);
  }
  instr.b =
      place(bBytes, mma.n, mma.k, 65536, placement.swizzle, placement.bMnMajor);
  if (scaled) {
    instr.sfa = sfaColumn;
    instr.sfb = sfbColumn;
    auto writeScales = [&](const std::vector<uint8_t> &scales, unsigned rows,
                           unsigned column) {
      for (unsigned r = 0; r < rows; ++r) {
        uint32_t word = 0xabababab;
        for (unsigned j = 0; j < mma.perRow(); ++j) {
          unsigned shift = 8 * (placement.sfId + j);
          word = (word & ~(0xffu << shift)) |
                 (uint32_t(scales[r * mma.perRow() + j]) << shift);
        }
        for (unsigned group = 0; group < 4; ++group)
          tmem.write(r % 32 + 32 * group, column + r / 32, word);
      }
    };
    writeScales(mma.sfa, mma.m, sfaColumn);
    writeScales(mma.sfb, mma.n, sfbColumn);
  }
  if (mma.accumulate)
    for (unsigned m = 0; m < mma.m; ++m)
      for (unsigned n = 0; n < mma.n; ++n)
        tmem.write(dLane(mma, m), dColumn + n, mma.c[m * mma.n + n]);
  return instr;
}

} // namespace flamia::sim::test
