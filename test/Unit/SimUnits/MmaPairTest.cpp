//===- MmaPairTest.cpp - tcgen05.mma with cta_group::2, i8 ----------------===//
//
// Operand and result split of sections 3.6, 4.3 and 5.3.
//
//===----------------------------------------------------------------------===//

#include "MmaHarness.h"
#include <gtest/gtest.h>

using namespace flamia::sim;
using namespace flamia::sim::test;

namespace {

/// Rows [first, first + count) of row-major codes.
template <typename T>
std::vector<T> rowsOf(const std::vector<T> &codes, unsigned first,
                      unsigned count, unsigned width) {
  return std::vector<T>(codes.begin() + first * width,
                        codes.begin() + (first + count) * width);
}

void fillRandom(MmaCase &mma, uint32_t seed) {
  std::mt19937 engine(seed);
  mma.resize();
  for (uint32_t &x : mma.a)
    x = mma.k == 16 ? 0x3f00 + engine() % 256 : engine() % 0x7f;
  for (uint32_t &x : mma.b)
    x = mma.k == 16 ? 0xbf00 + engine() % 256 : 0x80 + engine() % 0x7f;
  for (uint8_t &x : mma.sfa)
    x = uint8_t(120 + engine() % 14);
  for (uint8_t &x : mma.sfb)
    x = uint8_t(120 + engine() % 14);
  for (uint32_t &x : mma.c)
    x = asBits(float(int(engine() % 2000) - 1000));
}

/// One CTA of the pair gets its part of the operands.
MmaInstruction loadPart(MmaMachine &machine, const MmaCase &mma, unsigned cta,
                        bool aInTmem) {
  unsigned aRows = mma.m / 2, bRows = mma.n / 2;
  MmaCase part = mma;
  part.m = aRows;
  part.n = bRows;
  part.a = rowsOf(mma.a, cta * aRows, aRows, mma.k);
  part.b = rowsOf(mma.b, cta * bRows, bRows, mma.k);
  if (mma.perRow()) {
    part.sfa = rowsOf(mma.sfa, cta * aRows, aRows, mma.perRow());
    part.sfb = rowsOf(mma.sfb, cta * bRows, bRows, mma.perRow());
  }
  part.accumulate = false;
  Placement placement;
  MmaInstruction instr = machine.load(part, placement);
  instr.idesc = (instr.idesc & ~((0x3fu << 17) | (0x1fu << 24))) |
                ((mma.n / 8) << 17) | ((mma.m / 16) << 24);
  instr.ctaGroup = 2;
  instr.enableInputD = true;
  bool layoutB = mma.m == 128;
  if (aInTmem) {
    instr.aInTmem = true;
    instr.a = MmaMachine::aColumn;
    auto bytes = MmaMachine::packRows(part.a, aRows, mma.k, mma.aType, true);
    for (unsigned lane = 0; lane < 128; ++lane)
      for (unsigned c = 0; c < 8; ++c) {
        uint32_t word;
        std::memcpy(&word, bytes.data() + lane % aRows * 32 + c * 4, 4);
        machine.tmem.write(lane, MmaMachine::aColumn + c, word);
      }
  }
  // Scale B: all of N in M = 256, half of N in each half of the lanes else.
  if (mma.perRow())
    for (unsigned lane = 0; lane < 128; ++lane)
      for (unsigned n = 0; n < (layoutB ? bRows : mma.n); ++n)
        if (n % 32 == lane % 32) {
          unsigned row = layoutB && lane >= 64 ? n + bRows : n;
          machine.tmem.write(lane, MmaMachine::sfbColumn + n / 32,
                             mma.sfb[row]);
        }
  for (unsigned m = 0; m < aRows; ++m)
    for (unsigned n = 0; n < mma.n; ++n) {
      unsigned lane = layoutB ? m + (n >= bRows ? 64 : 0) : m;
      unsigned column = layoutB ? n % bRows : n;
      machine.tmem.write(lane, column, mma.c[(cta * aRows + m) * mma.n + n]);
    }
  return instr;
}

void checkPair(const MmaCase &mma, bool aInTmem, const char *label) {
  MmaMachine machines[2];
  MmaInstruction instr = loadPart(machines[0], mma, 0, aInTmem);
  loadPart(machines[1], mma, 1, aInTmem);
  MmaPlan plan;
  IssueList issues;
  ASSERT_TRUE(planMma(instr, plan, issues))
      << label << ": " << firstMessage(issues);
  MmaCta ctas[2] = {{&machines[0].tmem, machines[0].view()},
                    {&machines[1].tmem, machines[1].view()}};
  ASSERT_TRUE(runMma(plan, ctas, MmaNumerics::BitAccurate, issues))
      << label << ": " << firstMessage(issues);
  EXPECT_TRUE(issues.empty()) << label << ": " << firstMessage(issues);
  for (unsigned m = 0; m < mma.m; ++m)
    for (unsigned n = 0; n < mma.n; ++n) {
      unsigned cta = m / (mma.m / 2), row = m % (mma.m / 2);
      bool upper = mma.m == 128 && n >= mma.n / 2;
      unsigned column = upper ? n - mma.n / 2 : n;
      ASSERT_EQ(machines[cta].tmem.read(row + (upper ? 64 : 0), column),
                literalElement(mma, m, n))
          << label << " at (" << m << ", " << n << ")";
    }
}

TEST(MmaPair, BothShapesAndSources) {
  for (unsigned m : {256u, 128u})
    for (bool aInTmem : {false, true}) {
      MmaCase scaled;
      scaled.m = m;
      scaled.n = 64;
      fillRandom(scaled, m + aInTmem);
      checkPair(scaled, aInTmem, "mxf8f6f4");
      MmaCase half;
      half.kind = MmaKind::F16;
      half.scaleVec = ScaleVec::None;
      half.aType = half.bType = OperandType::BF16;
      half.m = m;
      half.n = 48;
      half.k = 16;
      fillRandom(half, m + 7 + aInTmem);
      checkPair(half, aInTmem, "bf16");
    }
}

// Bits 128 to 255 of the mask belong to the odd CTA.
TEST(MmaPair, LaneMaskOfTheOddCta) {
  MmaCase mma;
  mma.kind = MmaKind::F8F6F4;
  mma.scaleVec = ScaleVec::None;
  mma.m = 256;
  mma.n = 32;
  fillRandom(mma, 5);
  MmaMachine machines[2];
  MmaInstruction instr = loadPart(machines[0], mma, 0, false);
  loadPart(machines[1], mma, 1, false);
  instr.hasLaneMask = true;
  instr.disableLanes[4] = 1;
  MmaPlan plan;
  IssueList issues;
  ASSERT_TRUE(planMma(instr, plan, issues)) << firstMessage(issues);
  MmaCta ctas[2] = {{&machines[0].tmem, machines[0].view()},
                    {&machines[1].tmem, machines[1].view()}};
  ASSERT_TRUE(runMma(plan, ctas, MmaNumerics::BitAccurate, issues));
  EXPECT_EQ(machines[1].tmem.read(0, 3), mma.c[128 * 32 + 3]);
  EXPECT_EQ(machines[1].tmem.read(1, 3), literalElement(mma, 129, 3));
  EXPECT_EQ(machines[0].tmem.read(0, 3), literalElement(mma, 0, 3));
}

TEST(MmaInteger, I8) {
  std::mt19937 engine(9);
  for (bool isSigned : {false, true})
    for (bool saturate : {false, true}) {
      MmaMachine machine;
      std::vector<uint8_t> a(128 * 32), b(16 * 32);
      for (uint8_t &x : a)
        x = uint8_t(engine());
      for (uint8_t &x : b)
        x = uint8_t(engine());
      MmaInstruction instr;
      instr.kind = MmaKind::I8;
      instr.enableInputD = true;
      instr.idesc = (2u << 4) |
                    (uint32_t(isSigned) * ((1u << 7) | (1u << 10))) |
                    (uint32_t(saturate) << 3) | (2u << 17) | (8u << 24);
      instr.a = machine.place(a, 128, 32, 1024, 2, false);
      instr.b = machine.place(b, 16, 32, 65536, 2, false);
      for (unsigned m = 0; m < 128; ++m)
        for (unsigned n = 0; n < 16; ++n)
          machine.tmem.write(m, n, m % 2 ? 0x7fffff00 : 0x80000100);
      MmaPlan plan;
      ASSERT_TRUE(planMma(instr, plan, machine.issues))
          << firstMessage(machine.issues);
      MmaCta cta{&machine.tmem, machine.view()};
      ASSERT_TRUE(runMma(plan, &cta, MmaNumerics::BitAccurate, machine.issues));
      for (unsigned m = 0; m < 128; ++m)
        for (unsigned n = 0; n < 16; ++n) {
          int64_t sum = int32_t(m % 2 ? 0x7fffff00 : 0x80000100);
          for (unsigned k = 0; k < 32; ++k) {
            uint8_t x = a[m * 32 + k], y = b[n * 32 + k];
            sum += isSigned ? int(int8_t(x)) * int(int8_t(y)) : int(x) * int(y);
          }
          if (saturate)
            sum =
                std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
          ASSERT_EQ(machine.tmem.read(m, n), uint32_t(sum));
        }
    }
}

} // namespace
