//===- MmaSpecialTest.cpp - Special values, masks, checks, public cases ---===//

#include "MmaHarness.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace flamia::sim;
using namespace flamia::sim::test;

namespace {

/// One instruction on a prepared machine.
bool execute(MmaMachine &machine, const MmaInstruction &instr,
             MmaNumerics numerics = MmaNumerics::BitAccurate) {
  MmaPlan plan;
  if (!planMma(instr, plan, machine.issues))
    return false;
  MmaCta cta{&machine.tmem, machine.view()};
  return runMma(plan, &cta, numerics, machine.issues);
}

void expectLiteral(const MmaCase &mma, MmaMachine &machine,
                   const std::string &label) {
  for (unsigned m = 0; m < mma.m; ++m)
    for (unsigned n = 0; n < mma.n; ++n)
      ASSERT_EQ(machine.tmem.read(machine.dLane(mma, m), n),
                literalElement(mma, m, n))
          << label << " at (" << m << ", " << n << ")";
}

MmaCase constantCase(unsigned n = 16) {
  MmaCase mma;
  mma.n = n;
  mma.accumulate = false;
  mma.resize();
  for (uint32_t &x : mma.a)
    x = 0x38;
  for (uint32_t &x : mma.b)
    x = 0x38;
  return mma;
}

TEST(MmaSpecial, NaNAndInfinity) {
  std::mt19937 engine(7);
  for (OperandType type :
       {OperandType::F16, OperandType::BF16, OperandType::E5M2,
        OperandType::E4M3, OperandType::TF32}) {
    MmaCase mma;
    bool isByte = type == OperandType::E5M2 || type == OperandType::E4M3;
    mma.kind = isByte                      ? MmaKind::MXF8F6F4
               : type == OperandType::TF32 ? MmaKind::TF32
                                           : MmaKind::F16;
    mma.scaleVec = isByte ? ScaleVec::X1 : ScaleVec::None;
    mma.aType = mma.bType = type;
    mma.k = isByte ? 32 : type == OperandType::TF32 ? 8 : 16;
    mma.n = 16;
    mma.resize();
    FormatSpec f = specOf(type);
    uint32_t sign = 1u << (f.exponentBits + f.mantissaBits);
    uint32_t top = ((1u << f.exponentBits) - 1) << f.mantissaBits;
    uint32_t one = uint32_t(f.bias) << f.mantissaBits;
    // The upper mantissa bit keeps a tf32 NaN a NaN after truncation.
    uint32_t nan = f.specials == FormatSpec::E4M3Like
                       ? 0x7f
                       : top | (1u << (f.mantissaBits - 1));
    auto pick = [&]() -> uint32_t {
      switch (engine() % 60) {
      case 0:
        return nan;
      case 1:
        return type == OperandType::E4M3 ? 0x7e : top;
      case 2:
        return type == OperandType::E4M3 ? 0xfe : top | sign;
      case 3:
        return 0;
      case 4:
        return sign;
      default:
        return one | (engine() & 1 ? sign : 0);
      }
    };
    for (uint32_t &x : mma.a)
      x = pick();
    for (uint32_t &x : mma.b)
      x = pick();
    for (uint8_t &x : mma.sfa)
      x = engine() % 20 == 0 ? 255 : 127;
    for (uint8_t &x : mma.sfb)
      x = engine() % 20 == 0 ? 255 : 127;
    for (uint32_t &x : mma.c)
      switch (engine() % 40) {
      case 0:
        x = 0x7fc00000;
        break;
      case 1:
        x = 0xff800000;
        break;
      case 2:
        x = 0x7f800000;
        break;
      case 3:
        x = 0x80000000;
        break;
      default:
        x = asBits(float(engine() % 100));
      }
    MmaMachine machine;
    ASSERT_TRUE(execute(machine, machine.load(mma, Placement())))
        << firstMessage(machine.issues);
    expectLiteral(mma, machine, toString(type));
  }
}

TEST(MmaSpecial, NaNScalePoisonsZeroData) {
  for (ScaleType type : {ScaleType::UE8M0, ScaleType::UE4M3}) {
    MmaCase mma;
    mma.kind = MmaKind::MXF4NVF4;
    mma.scaleVec = ScaleVec::X4;
    mma.scaleType = type;
    mma.aType = mma.bType = OperandType::E2M1;
    mma.k = 64;
    mma.n = 16;
    mma.accumulate = false;
    mma.resize();
    uint8_t nan = type == ScaleType::UE8M0 ? 0xff : 0x7f;
    if (type == ScaleType::UE4M3) { // 127 would be NaN
      mma.sfa.assign(mma.sfa.size(), 0x38);
      mma.sfb.assign(mma.sfb.size(), 0x38);
    }
    mma.sfa[5 * 4 + 2] = nan;
    mma.sfb[9 * 4 + 1] = type == ScaleType::UE8M0 ? nan : 0xff;
    MmaMachine machine;
    ASSERT_TRUE(execute(machine, machine.load(mma, Placement())));
    EXPECT_EQ(machine.tmem.read(5, 0), 0x7fffffffu);
    EXPECT_EQ(machine.tmem.read(0, 9), 0x7fffffffu);
    EXPECT_EQ(machine.tmem.read(0, 0), 0u);
    expectLiteral(mma, machine, "nan scale");
  }
}

TEST(MmaSpecial, OverflowBecomesInfinityOnlyFrom2To128) {
  MmaCase mma = constantCase();
  mma.accumulate = true;
  for (uint8_t &x : mma.sfa)
    x = 127 + 61;
  for (uint8_t &x : mma.sfb)
    x = 127 + 61;
  // 32 * 2^122 = 2^127 plus the accumulator.
  for (uint32_t &c : mma.c)
    c = 0x7f000000; // 2^127
  mma.c[0] = 0x7effffff;
  MmaMachine machine;
  ASSERT_TRUE(execute(machine, machine.load(mma, Placement())));
  EXPECT_EQ(machine.tmem.read(1, 0), 0x7f800000u);
  EXPECT_EQ(machine.tmem.read(0, 0), 0x7f7fffffu);
  expectLiteral(mma, machine, "overflow");
}

TEST(MmaSpecial, TruncatesTowardZero) {
  // 1 + 2^-24 (from 2^-12 * 2^-12) is exact in 25 fraction bits but not in
  // f32: the sum must fall to 1, and to -1 with the signs turned.
  for (bool negative : {false, true}) {
    MmaCase mma;
    mma.kind = MmaKind::F16;
    mma.scaleVec = ScaleVec::None;
    mma.aType = mma.bType = OperandType::F16;
    mma.k = 16;
    mma.n = 8;
    mma.negateA = negative;
    mma.resize();
    for (unsigned m = 0; m < 128; ++m)
      mma.a[m * 16] = 0x0c00; // 2^-12
    for (unsigned n = 0; n < 8; ++n)
      mma.b[n * 16] = 0x0fff; // a little below 2^-11
    for (uint32_t &c : mma.c)
      c = negative ? 0xbf800000 : 0x3f800000;
    MmaMachine machine;
    ASSERT_TRUE(execute(machine, machine.load(mma, Placement())));
    EXPECT_EQ(machine.tmem.read(0, 0), negative ? 0xbf800000u : 0x3f800000u);
    expectLiteral(mma, machine, "rz");
    // Rounding to nearest gives the neighbour: the modes really differ.
    MmaMachine plain;
    ASSERT_TRUE(
        execute(plain, plain.load(mma, Placement()), MmaNumerics::Fp64));
    EXPECT_EQ(plain.tmem.read(0, 0), negative ? 0xbf800001u : 0x3f800001u);
  }
}

TEST(MmaSpecial, LaneMaskKeepsLanes) {
  MmaCase mma = constantCase();
  mma.kind = MmaKind::F8F6F4;
  mma.scaleVec = ScaleVec::None;
  mma.sfa.clear();
  mma.sfb.clear();
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  machine.tmem.write(33, 0, 0x12345678);
  instr.hasLaneMask = true;
  instr.disableLanes = {0, 2, 0, 0x80000000, 0, 0, 0, 0};
  ASSERT_TRUE(execute(machine, instr)) << firstMessage(machine.issues);
  EXPECT_EQ(machine.tmem.read(33, 0), 0x12345678u);
  EXPECT_EQ(machine.tmem.read(32, 0), asBits(32.0f));
  EXPECT_EQ(machine.tmem.read(34, 0), asBits(32.0f));
  EXPECT_FALSE(machine.tmem.isInitialised(127, 3));
  EXPECT_TRUE(machine.tmem.isInitialised(126, 3));
}

TEST(MmaSpecial, ScaleInputD) {
  MmaCase mma;
  mma.kind = MmaKind::F16;
  mma.scaleVec = ScaleVec::None;
  mma.aType = mma.bType = OperandType::BF16;
  mma.k = 16;
  mma.n = 8;
  mma.resize();
  for (uint32_t &x : mma.a)
    x = 0x3f80;
  for (uint32_t &x : mma.b)
    x = 0x3f80;
  for (uint32_t &c : mma.c)
    c = asBits(80.0f);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  instr.scaleInputD = 3;
  ASSERT_TRUE(execute(machine, instr));
  EXPECT_EQ(machine.tmem.read(17, 5), asBits(26.0f));
}

TEST(MmaSpecial, AShiftTakesTheNextRowInsideALaneGroup) {
  MmaCase mma = constantCase(8);
  mma.kind = MmaKind::F8F6F4;
  mma.scaleVec = ScaleVec::None;
  for (unsigned m = 0; m < 128; ++m)
    for (unsigned k = 0; k < 32; ++k)
      mma.a[m * 32 + k] = k == 0 ? m % 120 : 0; // codes 0..119 are finite
  Placement placement;
  placement.aInTmem = true;
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, placement);
  instr.aShift = true;
  ASSERT_TRUE(execute(machine, instr)) << firstMessage(machine.issues);
  for (unsigned m = 0; m < 128; ++m) {
    unsigned from = m % 32 == 31 ? m : m + 1;
    EXPECT_EQ(machine.tmem.read(m, 0), literalElement(mma, from, 0)) << m;
  }
}

//===----------------------------------------------------------------------===//
// Checks stricter than hardware
//===----------------------------------------------------------------------===//

bool has(const IssueList &issues, IssueKind kind, const char *text) {
  for (const Issue &issue : issues)
    if (issue.kind == kind && issue.message.find(text) != std::string::npos)
      return true;
  return false;
}

TEST(MmaChecks, MissingReplica) {
  MmaCase mma = constantCase(32);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  // Scale B of row 7 in lane group 2 only: the outputs of lanes 64-95 change.
  machine.tmem.write(7 + 64, MmaMachine::sfbColumn, 0x80808080);
  ASSERT_TRUE(execute(machine, instr));
  EXPECT_TRUE(
      has(machine.issues, IssueKind::ReplicaMismatch, "B scale of row 7"))
      << firstMessage(machine.issues);
  EXPECT_EQ(asFloat(machine.tmem.read(64, 7)), 64.0f);
  EXPECT_EQ(asFloat(machine.tmem.read(63, 7)), 32.0f);
}

TEST(MmaChecks, UninitialisedOperands) {
  MmaCase mma = constantCase(32);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  MmaInstruction bad = instr;
  bad.sfa = 300;
  ASSERT_TRUE(execute(machine, bad));
  EXPECT_TRUE(
      has(machine.issues, IssueKind::Uninitialised, "A scale of row 0"));
  machine.issues.clear();
  bad = instr;
  bad.d = 400;
  bad.enableInputD = true;
  ASSERT_TRUE(execute(machine, bad));
  EXPECT_TRUE(has(machine.issues, IssueKind::Uninitialised,
                  "accumulator D in tensor memory lane 0, column 400"));
  machine.issues.clear();
  bad = instr;
  bad.aInTmem = true;
  bad.a = 320;
  ASSERT_TRUE(execute(machine, bad));
  EXPECT_TRUE(has(machine.issues, IssueKind::Uninitialised,
                  "operand A in tensor memory lane 0, column 320"));
}

TEST(MmaChecks, OutOfBoundsAndUnallocated) {
  MmaCase mma = constantCase(32);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  MmaInstruction bad = instr;
  bad.b = (instr.b & ~uint64_t(0x3fff)) | ((131072 - 1024) / 16);
  EXPECT_FALSE(execute(machine, bad));
  EXPECT_TRUE(has(machine.issues, IssueKind::OutOfBounds, "operand B"));
  machine.issues.clear();
  bad = instr;
  bad.d = 496;
  EXPECT_FALSE(execute(machine, bad));
  EXPECT_TRUE(
      has(machine.issues, IssueKind::OutOfBounds, "columns 496 to 527"));
  machine.issues.clear();
  machine.tmem.deallocate(0, 512, machine.issues);
  EXPECT_FALSE(execute(machine, instr));
  EXPECT_TRUE(has(machine.issues, IssueKind::Unallocated, "column 0"));
}

TEST(MmaChecks, IllegalQualifiers) {
  MmaCase mma = constantCase(32);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  auto refused = [&](MmaInstruction bad, const char *text) {
    machine.issues.clear();
    MmaPlan plan;
    EXPECT_FALSE(planMma(bad, plan, machine.issues)) << text;
    EXPECT_NE(firstMessage(machine.issues).find(text), std::string::npos)
        << firstMessage(machine.issues);
  };
  MmaInstruction bad = instr;
  bad.hasLaneMask = true;
  refused(bad, "no disable-output-lane");
  bad = instr;
  bad.scaleInputD = 1;
  refused(bad, "scale-input-d");
  bad = instr;
  bad.aShift = true;
  refused(bad, ".ashift");
  bad = instr;
  bad.aInTmem = true;
  bad.a = 256;
  bad.idesc |= 1 << 15;
  refused(bad, "may not be MN-major");
  bad = instr;
  bad.sfa = tmemAddress(32, 288);
  refused(bad, "expected lane 0 in the scale A address");
  bad = instr;
  bad.sfb = 291;
  refused(bad, "even scale factor columns");
  bad = instr;
  bad.d = tmemAddress(16, 0);
  refused(bad, "expected lane 0 in the D address");
}

TEST(MmaChecks, Footprint) {
  MmaCase mma = constantCase(40);
  mma.accumulate = true;
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  MmaPlan plan;
  ASSERT_TRUE(planMma(instr, plan, machine.issues));
  const Footprint &footprint = plan.footprint[0];
  // SW128: 32 bytes of each 128-byte row; swizzled neighbours may be merged.
  std::vector<unsigned> perRow(131072 / 128, 0);
  uint32_t end = 0;
  for (const ByteRange &range : footprint.smemRead) {
    EXPECT_TRUE(end == 0 || range.begin > end);
    end = range.begin + range.size;
    for (uint32_t byte = range.begin; byte < end; ++byte)
      ++perRow[byte / 128];
  }
  for (unsigned line = 0; line < perRow.size(); ++line) {
    bool isA = line >= 8 && line < 136, isB = line >= 512 && line < 552;
    EXPECT_EQ(perRow[line], isA || isB ? 32u : 0u) << line;
  }
  ASSERT_EQ(footprint.tmemWrite.size(), 1u);
  EXPECT_EQ(footprint.tmemWrite[0].columns, 40);
  EXPECT_EQ(footprint.tmemWrite[0].lanes, 128);
  ASSERT_EQ(footprint.tmemRead.size(), 3u);
  EXPECT_EQ(footprint.tmemRead[1].column, MmaMachine::sfaColumn);
  EXPECT_EQ(footprint.tmemRead[1].columns, 4);
  EXPECT_EQ(footprint.tmemRead[2].columns, 2);
}

// The padding of 4- and 6-bit elements is not read.
TEST(MmaChecks, FootprintLeavesPaddingOut) {
  MmaCase mma = constantCase(8);
  mma.aType = OperandType::E2M1;
  mma.bType = OperandType::E3M2;
  for (uint32_t &x : mma.a)
    x = 2;
  for (uint32_t &x : mma.b)
    x = 12;
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  MmaPlan plan;
  ASSERT_TRUE(planMma(instr, plan, machine.issues));
  uint32_t aBytes = 0, bBytes = 0;
  std::vector<uint8_t> poisoned(machine.shared.size(), 0xff);
  for (const ByteRange &range : plan.footprint[0].smemRead) {
    (range.begin < 65536 ? aBytes : bBytes) += range.size;
    std::copy_n(machine.shared.begin() + range.begin, range.size,
                poisoned.begin() + range.begin);
  }
  EXPECT_EQ(aBytes, 128u * 16);
  EXPECT_EQ(bBytes, 8u * 24);
  // Only what the footprint names decides the result.
  machine.shared = poisoned;
  ASSERT_TRUE(execute(machine, instr)) << firstMessage(machine.issues);
  expectLiteral(mma, machine, "padding");
}

//===----------------------------------------------------------------------===//
// Public cases
//===----------------------------------------------------------------------===//

// SFL-4: four K slices in one scale word. 512 would be the fault.
TEST(MmaPublicCases, SFL4EachMmaTakesItsOwnScaleSlice) {
  MmaCase mma = constantCase(128);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  for (unsigned lane = 0; lane < 128; ++lane)
    for (unsigned c = 0; c < 4; ++c) {
      machine.tmem.write(lane, MmaMachine::sfaColumn + c, 0x8281807f);
      machine.tmem.write(lane, MmaMachine::sfbColumn + c, 0x7f7f7f7f);
    }
  // K = 512 is four groups of four instructions; slice j has scale 2^j.
  for (unsigned slice = 0; slice < 4; ++slice)
    for (unsigned step = 0; step < 4; ++step) {
      MmaInstruction part = instr;
      part.idesc += slice * 0x20000010;
      part.enableInputD = slice + step > 0;
      ASSERT_TRUE(execute(machine, part)) << firstMessage(machine.issues);
    }
  for (unsigned m = 0; m < 128; ++m)
    for (unsigned n = 0; n < 128; ++n)
      ASSERT_EQ(asFloat(machine.tmem.read(m, n)), 1920.0f);
}

// SFL-5: K steps of 256, any N.
TEST(MmaPublicCases, SFL5AnyNumberOfKSteps) {
  for (unsigned n : {16u, 32u, 64u, 128u}) {
    MmaCase mma = constantCase(n);
    MmaMachine machine;
    MmaInstruction instr = machine.load(mma, Placement());
    for (unsigned step = 1; step <= 4; ++step) {
      for (unsigned i = 0; i < 8; ++i) {
        instr.enableInputD = step > 1 || i > 0;
        ASSERT_TRUE(execute(machine, instr)) << firstMessage(machine.issues);
      }
      EXPECT_EQ(asFloat(machine.tmem.read(127, n - 1)), 256.0f * step);
      EXPECT_EQ(asFloat(machine.tmem.read(0, 0)), 256.0f * step);
    }
  }
}

// QNT-2 at the product: scale bytes 0, 1, 127, 254, 255 against 1.0.
TEST(MmaPublicCases, QNT2ScaleBytes) {
  MmaCase mma = constantCase(8);
  for (uint32_t &x : mma.b)
    x = 0;
  for (unsigned n = 0; n < 8; ++n)
    mma.b[n * 32] = 0x38; // one product only: the dequantized value itself
  const uint8_t bytes[] = {0, 1, 127, 254, 255};
  for (unsigned i = 0; i < 5; ++i)
    mma.sfa[i] = bytes[i];
  MmaMachine machine;
  ASSERT_TRUE(execute(machine, machine.load(mma, Placement())));
  EXPECT_EQ(machine.tmem.read(0, 0), 0x00400000u); // 2^-127
  EXPECT_EQ(machine.tmem.read(1, 0), 0x00800000u); // 2^-126
  EXPECT_EQ(machine.tmem.read(2, 0), 0x3f800000u);
  EXPECT_EQ(machine.tmem.read(3, 0), 0x7f000000u); // 2^127
  EXPECT_EQ(machine.tmem.read(4, 0), 0x7fffffffu);
}

// DSC-4: a small scaled product, A scale 2^row.
TEST(MmaPublicCases, DSC4RowScales) {
  MmaCase mma = constantCase(8);
  for (unsigned m = 4; m < 128; ++m)
    for (unsigned k = 0; k < 32; ++k)
      mma.a[m * 32 + k] = 0;
  for (unsigned m = 0; m < 4; ++m)
    mma.sfa[m] = uint8_t(127 + m);
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, Placement());
  ASSERT_TRUE(execute(machine, instr));
  instr.enableInputD = true; // K = 64 is two instructions
  ASSERT_TRUE(execute(machine, instr));
  for (unsigned m = 0; m < 4; ++m)
    for (unsigned n = 0; n < 4; ++n)
      EXPECT_EQ(asFloat(machine.tmem.read(m, n)), 64.0f * float(1 << m));
  EXPECT_EQ(machine.tmem.read(4, 0), 0u);
}

// DSC-2: a bf16 operand that is rows 0..63 of a 128 x 128 buffer in two panels
// of 64 columns. The panel stride is 128 * 64 elements, whatever the slice.
TEST(MmaPublicCases, DSC2PanelStrideOfASlice) {
  std::mt19937 engine(11);
  std::vector<uint32_t> full(128 * 128), other(8 * 128);
  for (uint32_t &x : full)
    x = 0x3f80 + engine() % 64;
  for (uint32_t &x : other)
    x = 0x3f00 + engine() % 64;
  auto product = [&](unsigned firstRow, unsigned rows,
                     std::vector<uint32_t> &result) {
    MmaMachine machine;
    // Both panels of A at 1024, B alongside, K in steps of 16.
    for (unsigned step = 0; step < 8; ++step) {
      unsigned panel = step / 4, inside = step % 4;
      MmaCase mma;
      mma.kind = MmaKind::F16;
      mma.scaleVec = ScaleVec::None;
      mma.aType = mma.bType = OperandType::BF16;
      mma.m = rows;
      mma.n = 8;
      mma.k = 16;
      mma.accumulate = false;
      mma.resize();
      for (unsigned n = 0; n < 8; ++n)
        for (unsigned k = 0; k < 16; ++k)
          mma.b[n * 16 + k] = other[n * 128 + 16 * step + k];
      MmaInstruction instr = machine.load(mma, Placement());
      // Overwrite A: the whole panel, swizzled on absolute addresses.
      for (unsigned r = 0; r < 128; ++r)
        for (unsigned c = 0; c < 64; ++c) {
          uint32_t linear = 1024 + panel * 16384 + r * 128 + 2 * c;
          uint32_t phys = swizzleAddress(linear, Swizzle::B128);
          uint16_t value = uint16_t(full[r * 128 + 64 * panel + c]);
          std::memcpy(machine.shared.data() + phys, &value, 2);
        }
      uint32_t start = 1024 + panel * 16384 + firstRow * 128 + inside * 32;
      instr.a = (instr.a & ~uint64_t(0x3fff)) | (start / 16);
      instr.enableInputD = step > 0;
      ASSERT_TRUE(execute(machine, instr)) << firstMessage(machine.issues);
    }
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned n = 0; n < 8; ++n)
        result.push_back(
            machine.tmem.read(rows == 64 ? 32 * (r / 16) + r % 16 : r, n));
  };
  std::vector<uint32_t> whole, low, high;
  product(0, 128, whole);
  product(0, 64, low);
  product(64, 64, high);
  low.insert(low.end(), high.begin(), high.end());
  EXPECT_EQ(low, whole);
}

} // namespace
