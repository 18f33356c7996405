//===- ConvertTest.cpp - cvt ----------------------------------------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

const Snippet s;

TEST(Convert, IntegerToFloatRounds) {
  // SIM-2: 16777219 needs 25 bits.
  EXPECT_EQ(s.evalFloat("mov.u32 %r1, 16777219; cvt.rz.f32.s32 %r0, %r1;"),
            16777218.0f);
  EXPECT_EQ(s.evalFloat("mov.u32 %r1, 16777219; cvt.rn.f32.s32 %r0, %r1;"),
            16777220.0f);
  EXPECT_EQ(s.evalFloat("mov.b64 %d1, 0xFFFFFFFFFFFFFFFF;"
                        "cvt.rn.f32.u64 %r0, %d1;"),
            18446744073709551616.0f);
  EXPECT_EQ(s.evalFloat("mov.b64 %d1, 0xFFFFFFFFFFFFFFFF;"
                        "cvt.rn.f32.s64 %r0, %d1;"),
            -1.0f);
}

TEST(Convert, FloatToIntegerClamps) {
  EXPECT_EQ(s.eval32("cvt.rni.s32.f32 %r0, 0f40200000;"), 2u);
  EXPECT_EQ(s.eval32("cvt.rpi.s32.f32 %r0, 0f40200000;"), 3u);
  EXPECT_EQ(s.eval32("cvt.rzi.u32.f32 %r0, 0fBF800000;"), 0u);
  EXPECT_EQ(s.eval32("cvt.rzi.s32.f32 %r0, 0f7F800000;"), 0x7FFFFFFFu);
  EXPECT_EQ(s.eval32("cvt.rzi.s32.f32 %r0, 0f7FC00000;"), 0u);
  EXPECT_EQ(s.eval64("cvt.rzi.s64.f32 %d0, 0f7FC00000;"), 1ull << 63);
}

TEST(Convert, IntegersExtendAndSaturate) {
  EXPECT_EQ(s.eval32("mov.b32 %r1, 0x180; cvt.s32.s8 %r0, %r1;"), 0xFFFFFF80u);
  EXPECT_EQ(s.eval32("mov.b32 %r1, 0x180; cvt.u32.u8 %r0, %r1;"), 0x80u);
  EXPECT_EQ(s.eval32("mov.b32 %r1, -5; cvt.sat.u8.s32 %r0, %r1;"), 0u);
  EXPECT_EQ(s.eval32("mov.b32 %r1, 300; cvt.sat.s8.s32 %r0, %r1;"), 127u);
  EXPECT_EQ(s.eval64("mov.b32 %r1, -5; cvt.s64.s32 %d0, %r1;"), uint64_t(-5));
}

TEST(Convert, FloatFormats) {
  EXPECT_EQ(s.eval64("cvt.f64.f32 %d0, 0f3FC00000;"), 0x3FF8000000000000ull);
  EXPECT_EQ(s.evalFloat("mov.b64 %d1, 0d3FF0000010000000;"
                        "cvt.rp.f32.f64 %r0, %d1;"),
            1 + 0x1p-23f);
  EXPECT_EQ(s.eval32("cvt.rn.f16.f32 %h0, 0f3F800000; cvt.u32.u16 %r0, %h0;"),
            0x3C00u);
  EXPECT_EQ(s.evalFloat("mov.b16 %h1, 0xC000; cvt.f32.f16 %r0, %h1;"), -2.0f);
  EXPECT_EQ(s.eval32("cvt.rn.bf16x2.f32 %r0, 0f40000000, 0f3F800000;"),
            0x40003F80u);
  EXPECT_EQ(s.evalFloat("cvt.rni.f32.f32 %r0, 0f40200000;"), 2.0f);
  EXPECT_EQ(s.eval32("cvt.rna.tf32.f32 %r0, 0f3F801000;"), 0x3F802000u);
}

TEST(Convert, NarrowFormatsPutTheFirstSourceOnTop) {
  EXPECT_EQ(s.eval32("cvt.rn.satfinite.e4m3x2.f32 %h0, 0f43E10000, 0f3F800000;"
                     "cvt.u32.u16 %r0, %h0;"),
            0x7E38u);
  EXPECT_EQ(s.eval32("cvt.rp.satfinite.ue8m0x2.f32 %h0, 0f3F800001, 0f3F800000;"
                     "cvt.u32.u16 %r0, %h0;"),
            0x807Fu);
  EXPECT_EQ(s.eval32("mov.b16 %h1, 0x387E; cvt.rn.f16x2.e4m3x2 %r0, %h1;"),
            0x3C005F00u);
  EXPECT_EQ(
      s.eval32(".reg .b8 b, z; cvt.rn.satfinite.e2m1x2.f32 b, 0f40C00000, "
               "0fBF000000; mov.b32 %r1, 0; mov.b32 {z, _, _, _}, %r1;"
               "mov.b32 %r0, {b, z, z, z};"),
      0x79u);
}

TEST(Convert, IllegalFormsAreRefused) {
  EXPECT_CONTAINS(s.run("cvt.f32.s32 %r0, 1;").errors, "illegal rounding");
  EXPECT_CONTAINS(
      s.run("cvt.rn.e4m3x2.f32 %h0, 0f00000000, 0f00000000;").errors,
      "illegal rounding or saturation");
  EXPECT_CONTAINS(s.run("cvt.rn.satfinite.ue8m0x2.f32 %h0, 0f00000000, "
                        "0f00000000;")
                      .errors,
                  "illegal rounding or saturation");
}

} // namespace
