//===- ArithmeticTest.cpp - Values of scalar instructions -----------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

const Snippet s;

TEST(Integer, AddWrapsAndSaturates) {
  EXPECT_EQ(s.eval32("add.s32 %r0, 0x7FFFFFFF, 1;"), 0x80000000u);
  EXPECT_EQ(s.eval32("add.sat.s32 %r0, 0x7FFFFFFF, 1;"), 0x7FFFFFFFu);
  EXPECT_EQ(s.eval32("sub.sat.s32 %r0, 0x80000000, 1;"), 0x80000000u);
}

TEST(Integer, CarryChainsOverTwoWords) {
  EXPECT_EQ(s.eval32("add.cc.u32 %r1, 0xFFFFFFFF, 2; addc.u32 %r0, 5, 6;"),
            12u);
  EXPECT_EQ(s.eval32("sub.cc.u32 %r1, 1, 2; subc.u32 %r0, 10, 3;"), 6u);
  EXPECT_EQ(s.eval32("mad.lo.cc.u32 %r1, 0x10000, 0x10000, 7;"
                     "madc.hi.u32 %r0, 0x10000, 0x10000, 0;"),
            1u);
}

TEST(Integer, ProductsAndHighHalves) {
  EXPECT_EQ(s.eval32("mul.lo.u32 %r0, 0x10001, 0x10001;"), 0x00020001u);
  EXPECT_EQ(s.eval32("mul.hi.u32 %r0, 0xFFFFFFFF, 0xFFFFFFFF;"), 0xFFFFFFFEu);
  EXPECT_EQ(s.eval32("mul.hi.s32 %r0, -1, 5;"), 0xFFFFFFFFu);
  EXPECT_EQ(s.eval64("mul.wide.s32 %d0, -3, 5;"), uint64_t(-15));
  EXPECT_EQ(s.eval64("mul.wide.u32 %d0, 0xFFFFFFFF, 2;"), 0x1FFFFFFFEull);
  EXPECT_EQ(s.eval64("mul.hi.u64 %d0, 0xFFFFFFFFFFFFFFFF, 4;"), 3u);
  EXPECT_EQ(s.eval64("mad.wide.s32 %d0, -2, 3, 100;"), 94u);
}

TEST(Integer, DivisionNeverTraps) {
  EXPECT_EQ(s.eval32("div.s32 %r0, -7, 2;"), uint32_t(-3));
  EXPECT_EQ(s.eval32("rem.s32 %r0, -7, 2;"), uint32_t(-1));
  EXPECT_EQ(s.eval32("mov.b32 %r1, 0x80000000; div.s32 %r0, %r1, -1;"),
            0x80000000u);
  EXPECT_EQ(s.eval32("div.u32 %r0, 5, 0;"), 0xFFFFFFFFu);
}

TEST(Integer, FieldsClipAtTheTop) {
  // SIM-2: a position behind the last bit gives 0.
  EXPECT_EQ(s.eval32("bfe.u32 %r0, 0xFFFFFFFF, 32, 8;"), 0u);
  EXPECT_EQ(s.eval32("bfe.u32 %r0, 0xABCD1234, 28, 8;"), 0xAu);
  EXPECT_EQ(s.eval32("bfe.s32 %r0, 0x00000080, 4, 4;"), 0xFFFFFFF8u);
  EXPECT_EQ(s.eval32("bfe.s32 %r0, 0x80000000, 28, 16;"), 0xFFFFFFF8u);
  EXPECT_EQ(s.eval32("bfi.b32 %r0, 0xFF, 0, 8, 4;"), 0xF00u);
  EXPECT_EQ(s.eval64("bfe.u64 %d0, 0x123456789ABCDEF0, 32, 16;"), 0x5678u);
}

TEST(Integer, ShiftsClampTheirAmount) {
  EXPECT_EQ(s.eval32("shl.b32 %r0, 1, 32;"), 0u);
  EXPECT_EQ(s.eval32("shr.u32 %r0, 0x80000000, 40;"), 0u);
  EXPECT_EQ(s.eval32("shr.s32 %r0, 0x80000000, 40;"), 0xFFFFFFFFu);
  EXPECT_EQ(s.eval32("shf.l.wrap.b32 %r0, 0x80000000, 1, 33;"), 3u);
  EXPECT_EQ(s.eval32("shf.r.clamp.b32 %r0, 1, 2, 40;"), 2u);
}

TEST(Integer, BitCounts) {
  EXPECT_EQ(s.eval32("popc.b32 %r0, 0xF0F0;"), 8u);
  EXPECT_EQ(s.eval32("clz.b32 %r0, 0;"), 32u);
  EXPECT_EQ(s.eval32("clz.b64 %r0, 1;"), 63u);
  EXPECT_EQ(s.eval32("bfind.u32 %r0, 0x00010000;"), 16u);
  EXPECT_EQ(s.eval32("bfind.shiftamt.u32 %r0, 0x00010000;"), 15u);
  EXPECT_EQ(s.eval32("bfind.s32 %r0, -1;"), 0xFFFFFFFFu);
  EXPECT_EQ(s.eval32("brev.b32 %r0, 1;"), 0x80000000u);
}

TEST(Integer, LogicTablesAndPermutes) {
  EXPECT_EQ(s.eval32("lop3.b32 %r0, 0xF0F0, 0xCCCC, 0xAAAA, 0x80;"), 0x8080u);
  EXPECT_EQ(s.eval32("lop3.b32 %r0, 0xFF00, 0x0FF0, 0x3C3C, 0x96;"),
            0xFF00u ^ 0x0FF0u ^ 0x3C3Cu);
  EXPECT_EQ(s.eval32("prmt.b32 %r0, 0x03020100, 0x07060504, 0x7531;"),
            0x07050301u);
  // Bit 3 of a selector copies the byte's sign.
  EXPECT_EQ(s.eval32("prmt.b32 %r0, 0x00008000, 0, 0x0009;"), 0x000000FFu);
}

TEST(Float, NanIsCanonical) {
  EXPECT_EQ(s.eval32("mul.f32 %r0, 0f7F800000, 0f00000000;"), 0x7FFFFFFFu);
  EXPECT_EQ(s.eval32("add.f32 %r0, 0fFFC00001, 0f3F800000;"), 0x7FFFFFFFu);
}

TEST(Float, FusedMultiplyAddRoundsOnce) {
  EXPECT_EQ(s.evalFloat("fma.rn.f32 %r0, " + hexFloat(1 + 0x1p-12f) + ", " +
                        hexFloat(1 - 0x1p-12f) + ", " + hexFloat(-1) + ";"),
            -0x1p-24f);
}

TEST(Float, DirectedRounding) {
  std::string operands = hexFloat(1) + ", " + hexFloat(0x1p-30f) + ";";
  EXPECT_EQ(s.evalFloat("add.rn.f32 %r0, " + operands), 1.0f);
  EXPECT_EQ(s.evalFloat("add.rp.f32 %r0, " + operands), 1 + 0x1p-23f);
  EXPECT_EQ(s.evalFloat("add.rz.f32 %r0, " + operands), 1.0f);
  EXPECT_EQ(s.evalFloat("sub.rz.f32 %r0, " + operands), 1 - 0x1p-24f);
}

TEST(Float, FlushAndSaturate) {
  EXPECT_EQ(s.eval32("add.ftz.f32 %r0, 0f00400000, 0f00400000;"), 0u);
  EXPECT_EQ(s.eval32("add.f32 %r0, 0f00400000, 0f00400000;"), 0x00800000u);
  EXPECT_EQ(s.evalFloat("mul.sat.f32 %r0, 0f40000000, 0f40000000;"), 1.0f);
  EXPECT_EQ(s.eval32("add.sat.f32 %r0, 0f7FC00000, 0f3F800000;"), 0u);
}

TEST(Float, MinMaxLoseNansAndOrderZeros) {
  EXPECT_EQ(s.evalFloat("max.f32 %r0, 0f7FC00000, 0f3F800000;"), 1.0f);
  EXPECT_EQ(s.eval32("max.NaN.f32 %r0, 0f7FC00000, 0f3F800000;"), 0x7FFFFFFFu);
  EXPECT_EQ(s.eval32("max.f32 %r0, 0f80000000, 0f00000000;"), 0u);
  EXPECT_EQ(s.eval32("min.f32 %r0, 0f00000000, 0f80000000;"), 0x80000000u);
  EXPECT_EQ(s.evalFloat("max.f32 %r0, 0f3F800000, 0f40400000, 0f40000000;"),
            3.f);
  EXPECT_EQ(s.evalFloat("min.abs.f32 %r0, 0fC0400000, 0f40800000, 0fC0A00000;"),
            3.f);
}

TEST(Float, PackedPairsAreIndependent) {
  std::string load = "mov.b32 %r1, " + hexFloat(1.5f) + "; mov.b32 %r2, " +
                     hexFloat(-2) + "; mov.b64 %d1, {%r1, %r2};";
  uint64_t r = s.eval64(load + "fma.rn.f32x2 %d0, %d1, %d1, %d1;");
  float lo, hi;
  uint32_t l = uint32_t(r), h = uint32_t(r >> 32);
  std::memcpy(&lo, &l, 4);
  std::memcpy(&hi, &h, 4);
  EXPECT_EQ(lo, 1.5f * 1.5f + 1.5f);
  EXPECT_EQ(hi, 2.0f);
}

TEST(Float, SpecialValuesOfTheFunctions) {
  EXPECT_EQ(s.evalFloat("ex2.approx.ftz.f32 %r0, 0fFF800000;"), 0.0f);
  EXPECT_EQ(s.evalFloat("ex2.approx.ftz.f32 %r0, 0f40400000;"), 8.0f);
  EXPECT_EQ(s.eval32("ex2.approx.ftz.f32 %r0, " + hexFloat(-127) + ";"), 0u);
  EXPECT_EQ(s.eval32("ex2.approx.f32 %r0, " + hexFloat(-149) + ";"), 1u);
  EXPECT_EQ(s.eval32("lg2.approx.f32 %r0, 0f00000000;"), 0xFF800000u);
  EXPECT_EQ(s.eval32("rcp.approx.f32 %r0, 0f00000000;"), 0x7F800000u);
  EXPECT_EQ(s.eval32("sqrt.rn.f32 %r0, 0fBF800000;"), 0x7FFFFFFFu);
  EXPECT_EQ(s.evalFloat("div.rn.f32 %r0, 0f3F800000, 0f40400000;"), 1.0f / 3);
  EXPECT_EQ(s.evalFloat("div.full.f32 %r0, 0f40C00000, 0f40000000;"), 3.0f);
}

TEST(Float, DoublePrecision) {
  EXPECT_EQ(s.eval64("div.rn.f64 %d0, 0d3FF0000000000000, 0d4008000000000000;"),
            0x3FD5555555555555ull);
  EXPECT_EQ(s.eval64("fma.rn.f64 %d0, 0d4000000000000000, 0d4000000000000000, "
                     "0d3FF0000000000000;"),
            0x4014000000000000ull);
}

TEST(Compare, NanAndUnorderedForms) {
  // SIM-2: a comparison with NaN is false.
  EXPECT_EQ(s.eval32("setp.lt.f32 %p1, 0f7FC00000, 0f3F800000;"
                     "not.pred %p2, %p1; selp.u32 %r0, 7, 9, %p2;"),
            7u);
  EXPECT_EQ(s.eval32("setp.ltu.f32 %p1, 0f7FC00000, 0f3F800000;"
                     "selp.u32 %r0, 7, 9, %p1;"),
            7u);
  EXPECT_EQ(s.eval32("setp.ne.f32 %p1, 0f7FC00000, 0f3F800000;"
                     "selp.u32 %r0, 7, 9, %p1;"),
            9u);
  EXPECT_EQ(s.eval32("setp.neu.f32 %p1, 0f7FC00000, 0f3F800000;"
                     "selp.u32 %r0, 7, 9, %p1;"),
            7u);
}

TEST(Compare, BooleanCombinationAndSecondResult) {
  EXPECT_EQ(s.eval32("setp.eq.u32 %p1, 1, 1; setp.lt.and.s32 %p2|%p3, -1, 1, "
                     "!%p1; selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3;"
                     "or.b32 %r0, %r1, %r2;"),
            0u);
  EXPECT_EQ(s.eval32("setp.lt.s32 %p2|%p3, 1, -1; selp.u32 %r1, 1, 0, %p2;"
                     "selp.u32 %r2, 2, 0, %p3; or.b32 %r0, %r1, %r2;"),
            2u);
  EXPECT_EQ(
      s.eval32("setp.lo.u32 %p1, 1, 0xFFFFFFFF; selp.u32 %r0, 1, 0, %p1;"), 1u);
}

TEST(Half, ArithmeticRoundsToNearestEven) {
  // 2048 + 1 is a tie in f16: to even, 2048.
  EXPECT_EQ(s.eval32("mov.b16 %h1, 0x6800; mov.b16 %h2, 0x3C00;"
                     "add.f16 %h0, %h1, %h2; cvt.u32.u16 %r0, %h0;"),
            0x6800u);
  EXPECT_EQ(
      s.eval32("mov.b32 %r1, 0x3C004000; fma.rn.f16x2 %r0, %r1, %r1, %r1;"),
      0x40004600u);
  EXPECT_EQ(s.eval32("mov.b32 %r1, 0x3F804000; add.bf16x2 %r0, %r1, %r1;"),
            0x40004080u);
}

// All values of these tests are what an H200 gives (test/Sim/Hardware).

/// The word that a statement leaves in %r0.
uint32_t resultOf(const std::string &statement) {
  Outcome o = Snippet().run(statement + " st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  return o.word(0);
}

TEST(Arithmetic, FlushesWhatIsSmallAfterRoundingToAllDigits) {
  auto two = [&](const char *op, const char *a, const char *b) {
    return resultOf(std::string("mov.b32 %r1, ") + a + "; mov.b32 %r2, " + b +
                    "; " + op + " %r0, %r1, %r2;");
  };
  // 2^-126 (1 - 2^-26): rounds to 2^-126 or to what lies below.
  EXPECT_EQ(two("mul.rn.ftz.f32", "0x3f7ff800", "0x00800400"), 0x00800000u);
  EXPECT_EQ(two("mul.rz.ftz.f32", "0x3f7ff800", "0x00800400"), 0u);
  EXPECT_EQ(two("mul.rm.ftz.f32", "0x3f7ff800", "0x00800400"), 0u);
  EXPECT_EQ(two("mul.rp.ftz.f32", "0x3f7ff800", "0x00800400"), 0x00800000u);
  EXPECT_EQ(two("mul.rm.ftz.f32", "0x3f7ff800", "0x80800400"), 0x80800000u);
  EXPECT_EQ(two("mul.rp.ftz.f32", "0x3f7ff800", "0x80800400"), 0x80000000u);
  // 2^-126 / (1 + 2^-23): its subnormal neighbour above is 2^-126.
  EXPECT_EQ(two("div.rp.ftz.f32", "0x00800000", "0x3f800001"), 0u);
  EXPECT_EQ(two("div.rp.f32", "0x00800000", "0x3f800001"), 0x00800000u);
  auto fma = [&](const char *op, const char *a) {
    return resultOf(std::string("mov.b32 %r1, ") + a +
                    "; mov.b32 %r2, 0x00800000; " + op +
                    " %r0, %r1, %r2, %r2;");
  };
  EXPECT_EQ(fma("fma.rn.ftz.f32", "0xa7000000"), 0x00800000u);
  EXPECT_EQ(fma("fma.rz.ftz.f32", "0xa7000000"), 0u);
  EXPECT_EQ(fma("fma.rp.ftz.f32", "0xb3ee4f80"), 0u);
  auto half = [&](const char *a) {
    return resultOf(std::string("mov.b16 %h1, ") + a +
                    "; mov.b16 %h2, 0x0400; fma.rn.ftz.f16 %h0, %h1, %h2, "
                    "%h2; cvt.u32.u16 %r0, %h0;");
  };
  EXPECT_EQ(half("0x8c00"), 0x0400u);
  EXPECT_EQ(half("0x9000"), 0u);
}

TEST(Arithmetic, ZeroIsANormalNumber) {
  for (const char *zero : {"0", "0x80000000", "0x00800000"})
    EXPECT_EQ(resultOf(std::string("mov.b32 %r1, ") + zero +
                       "; testp.normal.f32 %p0, %r1; selp.u32 %r0, 1, 0, "
                       "%p0;"),
              1u);
  EXPECT_EQ(resultOf("mov.b32 %r1, 1; testp.normal.f32 %p0, %r1; "
                     "selp.u32 %r0, 1, 0, %p0;"),
            0u);
}

TEST(Arithmetic, GlobalSumsFlushAndSharedOnesDoNot) {
  // 2^-126 + 2^-127, with a subnormal addend.
  const char *global = "mov.b32 %r1, 0x00800000; mov.b32 %r2, 0x00400000;"
                       "st.global.b32 [at], %r1;"
                       "atom.global.add.f32 %r3, [at], %r2;"
                       "ld.global.b32 %r0, [at];";
  EXPECT_EQ(resultOf(global), 0x00800000u);
  const char *shared = ".shared .align 4 .b8 word[128];"
                       "mov.b32 %r1, 0x00800000; mov.b32 %r2, 0x00400000;"
                       "mov.b32 %r4, word; shl.b32 %r5, tid, 2;"
                       "add.u32 %r4, %r4, %r5; st.shared.b32 [%r4], %r1;"
                       "atom.shared.add.f32 %r3, [%r4], %r2;"
                       "ld.shared.b32 %r0, [%r4];";
  EXPECT_EQ(resultOf(shared), 0x00c00000u);
}

TEST(Arithmetic, ConversionsThatKeepNan) {
  EXPECT_EQ(resultOf("mov.b16 %h1, 0x7f81; cvt.f32.bf16 %r0, %h1;"),
            0x7f810000u);
  EXPECT_EQ(resultOf("mov.b16 %h1, 0x7c01; cvt.f64.f16 %d1, %h1;"
                     "mov.b64 {%r1, %r0}, %d1;"),
            0x7ff80400u);
  EXPECT_EQ(resultOf("mov.b64 %d1, 0xfff2ca5d00000001; "
                     "cvt.rn.f32.f64 %r0, %d1;"),
            0xffd652e8u);
  EXPECT_EQ(resultOf("mov.b64 %d1, 0xfff2ca5d00000001; "
                     "cvt.rn.f16.f64 %h0, %d1; cvt.u32.u16 %r0, %h0;"),
            0xfeb2u);
  // f16 to f32 has the one NaN.
  EXPECT_EQ(resultOf("mov.b16 %h1, 0x7c01; cvt.f32.f16 %r0, %h1;"),
            0x7fffffffu);
}

} // namespace
