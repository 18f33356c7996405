//===- MmaTest.cpp - tcgen05.mma against section 11, literally ------------===//

#include "MmaHarness.h"
#include "lib/Sim/Units/MmaKernel.h"
#include <gtest/gtest.h>

using namespace flamia::sim;
using namespace flamia::sim::test;

namespace {

/// What the operands of a random case look like.
enum class Data { Uniform, Moderate, Sparse, Cancelling, Extreme, Edge };

class RandomCase {
public:
  explicit RandomCase(uint64_t seed) : engine(seed) {}

  uint32_t below(uint32_t limit) {
    return std::uniform_int_distribution<uint32_t>(0, limit - 1)(engine);
  }

  /// A finite code of the type.
  uint32_t code(OperandType type, Data data) {
    FormatSpec f = specOf(type);
    unsigned bits = 1 + f.exponentBits + f.mantissaBits;
    if (data == Data::Sparse && below(8) != 0)
      return below(2) << (bits - 1);
    for (;;) {
      uint32_t value = bits == 32 ? uint32_t(engine()) : below(1u << bits);
      if (data == Data::Moderate || data == Data::Cancelling) {
        // Exponents around one, as in real tensors.
        int range = std::min(f.bias, 6);
        uint32_t exponent = uint32_t(f.bias + int(below(2 * range)) - range);
        value = (value & ~(((1u << f.exponentBits) - 1) << f.mantissaBits)) |
                (exponent << f.mantissaBits);
      }
      if (data == Data::Edge && f.exponentBits == 8) {
        // Around the exponents where the kernels change from f32 to f64
        // products, or far beyond them.
        int exponent = edgeShift == 0   ? int(below(98)) - 49
                       : edgeShift == 1 ? int(below(95)) - 48
                                        : int(below(170)) - 85;
        uint32_t field = uint32_t(f.bias + exponent);
        value =
            (value & ~(0xffu << f.mantissaBits)) | (field << f.mantissaBits);
      }
      Split s = splitCode(value, type);
      if (std::isfinite(s.s))
        return value;
    }
  }

  void fill(MmaCase &mma, Data data) {
    mma.resize();
    edgeShift = below(3);
    for (uint32_t &x : mma.a)
      x = code(mma.aType, data);
    for (uint32_t &x : mma.b)
      x = code(mma.bType, data);
    auto scale = [&]() -> uint8_t {
      if (mma.scaleType == ScaleType::UE4M3)
        return uint8_t(below(0x7f) | (below(2) << 7));
      if (data == Data::Extreme || data == Data::Uniform)
        return uint8_t(below(255));
      return uint8_t(120 + below(14));
    };
    for (uint8_t &x : mma.sfa)
      x = scale();
    for (uint8_t &x : mma.sfb)
      x = scale();
    for (unsigned m = 0; m < mma.m; ++m)
      for (unsigned n = 0; n < mma.n; ++n)
        mma.c[m * mma.n + n] = accumulator(mma, m, n, data);
  }

private:
  uint32_t accumulator(const MmaCase &mma, unsigned m, unsigned n, Data data) {
    if (mma.f16Result)
      return below(0x7c00) | (below(2) << 15);
    if (data == Data::Sparse)
      return below(3) == 0 ? below(2) << 31 : below(0x7f800000);
    if (data == Data::Cancelling) {
      // The negated product: what is left are the truncated parts.
      MmaCase alone = mma;
      alone.accumulate = false;
      return literalElement(alone, m, n) ^ 0x80000000;
    }
    if (data == Data::Moderate)
      return asBits(std::ldexp(float(int(below(1u << 24)) - (1 << 23)),
                               int(below(30)) - 30));
    return below(0x7f800000) | (below(2) << 31);
  }

  std::mt19937_64 engine;
  unsigned edgeShift = 0;
};

std::vector<uint32_t> literalResult(const MmaCase &mma) {
  std::vector<uint32_t> result;
  for (unsigned m = 0; m < mma.m; ++m)
    for (unsigned n = 0; n < mma.n; ++n)
      result.push_back(literalElement(mma, m, n));
  return result;
}

/// Runs the case on the units and compares every element with section 11.
void checkCase(const MmaCase &mma, const Placement &placement,
               const std::string &label,
               const std::vector<uint32_t> &expectedResult) {
  MmaMachine machine;
  MmaInstruction instr = machine.load(mma, placement);
  MmaPlan plan;
  ASSERT_TRUE(planMma(instr, plan, machine.issues))
      << label << ": " << firstMessage(machine.issues);
  MmaCta cta{&machine.tmem, machine.view()};
  ASSERT_TRUE(runMma(plan, &cta, MmaNumerics::BitAccurate, machine.issues))
      << label << ": " << firstMessage(machine.issues);
  ASSERT_TRUE(machine.issues.empty()) << firstMessage(machine.issues);
  for (unsigned m = 0; m < mma.m; ++m)
    for (unsigned n = 0; n < mma.n; ++n) {
      uint32_t expected = expectedResult[m * mma.n + n];
      uint32_t found = machine.tmem.read(machine.dLane(mma, m), n);
      ASSERT_EQ(found, expected)
          << label << ": element (" << m << ", " << n << "): " << asFloat(found)
          << " instead of " << asFloat(expected);
    }
}

void checkCase(const MmaCase &mma, const Placement &placement,
               const std::string &label) {
  checkCase(mma, placement, label, literalResult(mma));
}

struct KindCase {
  const char *name;
  MmaKind kind;
  ScaleVec vec;
  ScaleType scaleType;
  OperandType a, b;
  unsigned m, n, k;
  bool f16Result = false;
};

const KindCase kindCases[] = {
    {"f16", MmaKind::F16, ScaleVec::None, ScaleType::UE8M0, OperandType::F16,
     OperandType::F16, 128, 16, 16},
    {"f16 m64", MmaKind::F16, ScaleVec::None, ScaleType::UE8M0,
     OperandType::F16, OperandType::F16, 64, 24, 16},
    {"f16 to f16", MmaKind::F16, ScaleVec::None, ScaleType::UE8M0,
     OperandType::F16, OperandType::F16, 64, 16, 16, true},
    {"bf16", MmaKind::F16, ScaleVec::None, ScaleType::UE8M0, OperandType::BF16,
     OperandType::BF16, 128, 16, 16},
    {"tf32", MmaKind::TF32, ScaleVec::None, ScaleType::UE8M0, OperandType::TF32,
     OperandType::TF32, 128, 16, 8},
    {"f8f6f4 e4m3", MmaKind::F8F6F4, ScaleVec::None, ScaleType::UE8M0,
     OperandType::E4M3, OperandType::E4M3, 64, 16, 32},
    {"f8f6f4 e5m2 x e2m3", MmaKind::F8F6F4, ScaleVec::None, ScaleType::UE8M0,
     OperandType::E5M2, OperandType::E2M3, 128, 16, 32},
    {"f8f6f4 to f16", MmaKind::F8F6F4, ScaleVec::None, ScaleType::UE8M0,
     OperandType::E4M3, OperandType::E4M3, 64, 16, 32, true},
    {"mxf8f6f4 e4m3", MmaKind::MXF8F6F4, ScaleVec::X1, ScaleType::UE8M0,
     OperandType::E4M3, OperandType::E4M3, 128, 40, 32},
    {"mxf8f6f4 e5m2", MmaKind::MXF8F6F4, ScaleVec::X1, ScaleType::UE8M0,
     OperandType::E5M2, OperandType::E5M2, 128, 16, 32},
    {"mxf8f6f4 e3m2 x e2m1", MmaKind::MXF8F6F4, ScaleVec::X1, ScaleType::UE8M0,
     OperandType::E3M2, OperandType::E2M1, 128, 16, 32},
    {"mxf4", MmaKind::MXF4, ScaleVec::X2, ScaleType::UE8M0, OperandType::E2M1,
     OperandType::E2M1, 128, 40, 64},
    {"mxf4nvf4 2x", MmaKind::MXF4NVF4, ScaleVec::X2, ScaleType::UE8M0,
     OperandType::E2M1, OperandType::E2M1, 128, 16, 64},
    {"mxf4nvf4 4x ue8m0", MmaKind::MXF4NVF4, ScaleVec::X4, ScaleType::UE8M0,
     OperandType::E2M1, OperandType::E2M1, 128, 16, 64},
    {"mxf4nvf4 4x ue4m3", MmaKind::MXF4NVF4, ScaleVec::X4, ScaleType::UE4M3,
     OperandType::E2M1, OperandType::E2M1, 128, 40, 64},
};

MmaCase makeCase(const KindCase &kind) {
  MmaCase mma;
  mma.kind = kind.kind;
  mma.scaleVec = kind.vec;
  mma.scaleType = kind.scaleType;
  mma.aType = kind.a;
  mma.bType = kind.b;
  mma.m = kind.m;
  mma.n = kind.n;
  mma.k = kind.k;
  mma.f16Result = kind.f16Result;
  return mma;
}

// Every kind, every sort of data, bit for bit.
TEST(Mma, MatchesLiteralSection11) {
  uint64_t seed = 1;
  for (const KindCase &kind : kindCases)
    for (Data data : {Data::Uniform, Data::Moderate, Data::Sparse,
                      Data::Cancelling, Data::Extreme, Data::Edge})
      for (bool accumulate : {true, false}) {
        if (data == Data::Cancelling && (kind.f16Result || !accumulate))
          continue;
        if (data == Data::Edge && specOf(kind.a).exponentBits != 8)
          continue;
        MmaCase mma = makeCase(kind);
        mma.accumulate = accumulate;
        if (mma.n > 16)
          mma.n = 24;
        RandomCase random(seed++);
        random.fill(mma, data);
        mma.negateA = random.below(2);
        mma.negateB = random.below(2);
        checkCase(mma, Placement(),
                  std::string(kind.name) + ", data " +
                      std::to_string(int(data)));
        if (HasFatalFailure())
          return;
      }
}

// The kernels of every instruction set give the same bits.
TEST(Mma, EveryInstructionSet) {
  uint64_t seed = 500;
  for (const KindCase &kind : kindCases)
    for (Data data : {Data::Uniform, Data::Moderate}) {
      MmaCase mma = makeCase(kind);
      RandomCase(seed++).fill(mma, data);
      std::vector<uint32_t> expected = literalResult(mma);
      for (KernelIsa isa : {KernelIsa::Base, KernelIsa::V3, KernelIsa::V4})
        if (selectKernelIsa(isa))
          checkCase(mma, Placement(), kind.name, expected);
    }
}

// Layouts do not change results: every swizzle, major-ness and A source.
TEST(Mma, EveryOperandLayoutGivesTheSame) {
  uint64_t seed = 1000;
  for (const KindCase &kind : kindCases) {
    if (kind.f16Result)
      continue;
    MmaCase mma = makeCase(kind);
    mma.n = 48;
    RandomCase(seed++).fill(mma, Data::Moderate);
    std::vector<uint32_t> expected = literalResult(mma);
    bool padded = mma.aType == OperandType::E3M2 ||
                  mma.bType == OperandType::E2M1 ||
                  mma.bType == OperandType::E2M3;
    bool mnAllowed = mma.k == 16 || (mma.k == 32 && !padded);
    for (unsigned swizzle : {0u, 6u, 4u, 2u})
      for (unsigned variant = 0; variant < 8; ++variant) {
        Placement placement;
        placement.swizzle = swizzle;
        placement.aInTmem = variant & 1;
        placement.aMnMajor = variant & 2;
        placement.bMnMajor = variant & 4;
        if (((variant & 6) && !mnAllowed) || (variant & 3) == 3)
          continue;
        checkCase(mma, placement,
                  std::string(kind.name) + ", swizzle " +
                      std::to_string(swizzle) + ", variant " +
                      std::to_string(variant),
                  expected);
        if (HasFatalFailure())
          return;
      }
  }
}

// The error bound of section 11.4 against exact sums.
TEST(Mma, StaysWithinTheErrorBound) {
  uint64_t seed = 2000;
  for (const KindCase &kind : kindCases) {
    if (kind.f16Result)
      continue;
    MmaCase mma = makeCase(kind);
    RandomCase(seed++).fill(mma, Data::Moderate);
    MmaMachine machine;
    MmaInstruction instr = machine.load(mma, Placement());
    MmaPlan plan;
    ASSERT_TRUE(planMma(instr, plan, machine.issues));
    MmaCta cta{&machine.tmem, machine.view()};
    ASSERT_TRUE(runMma(plan, &cta, MmaNumerics::BitAccurate, machine.issues));
    MmaMachine plain;
    plain.load(mma, Placement());
    MmaCta plainCta{&plain.tmem, plain.view()};
    ASSERT_TRUE(runMma(plan, &plainCta, MmaNumerics::Fp64, plain.issues));
    unsigned different = 0;
    for (unsigned m = 0; m < mma.m; ++m)
      for (unsigned n = 0; n < mma.n; ++n) {
        long double exact, bound;
        literalElement(mma, m, n, &exact, &bound);
        unsigned lane = machine.dLane(mma, m);
        float found = asFloat(machine.tmem.read(lane, n));
        float ulp =
            std::nextafter(std::fabs(found), INFINITY) - std::fabs(found);
        ASSERT_LE(std::fabs(found - exact), bound + ulp) << kind.name;
        float nearest = asFloat(plain.tmem.read(lane, n));
        ASSERT_LE(std::fabs(nearest - exact), ulp) << kind.name;
        different += found != nearest;
      }
    // The accurate mode must not secretly be the plain one.
    EXPECT_GT(different, 0u) << kind.name;
  }
}

// SF_ID picks the byte; every id sees its own scales.
TEST(Mma, ScaleFactorIdPicksTheByte) {
  for (unsigned id = 0; id < 4; ++id) {
    MmaCase mma;
    mma.n = 32;
    RandomCase(3000 + id).fill(mma, Data::Moderate);
    Placement placement;
    placement.sfId = id;
    checkCase(mma, placement, "sf id " + std::to_string(id));
  }
  MmaCase mma = makeCase(kindCases[11]);
  RandomCase(3010).fill(mma, Data::Moderate);
  Placement placement;
  placement.sfId = 2;
  checkCase(mma, placement, "mxf4 sf id 2");
}

// M=128, N=128 and 256: the shapes that kernels use, sampled data.
TEST(Mma, LargeShapes) {
  for (unsigned n : {128u, 256u}) {
    MmaCase mma;
    mma.n = n;
    RandomCase(4000 + n).fill(mma, Data::Moderate);
    checkCase(mma, Placement(), "mxf8f6f4 n " + std::to_string(n));
    MmaCase half = makeCase(kindCases[3]);
    half.n = n;
    RandomCase(4001 + n).fill(half, Data::Moderate);
    Placement placement;
    placement.bMnMajor = true;
    checkCase(half, placement, "bf16 n " + std::to_string(n));
  }
}

} // namespace
