//===- FormatsTest.cpp - Conversions against LLVM's APFloat ---------------===//
//
// Every code of every format, and every float that matters, against APFloat.
// A conversion from float is a step function: it is right everywhere when it
// is right on both sides of each step and never decreases in between. The
// first is checked against APFloat, the second on all positive floats.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Formats.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace flamia::numerics;
using llvm::APFloat;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

uint32_t bitsOfAPFloat(const llvm::fltSemantics &semantics, float value) {
  APFloat number(value);
  bool losesInfo = false;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return uint32_t(number.bitcastToAPInt().getZExtValue());
}

float floatOfAPFloat(const llvm::fltSemantics &semantics, unsigned bits,
                     uint32_t code) {
  APFloat number(semantics, llvm::APInt(bits, code));
  // LLVM 22 converts the NaN of E8M0, which has no payload, to infinity.
  if (number.isNaN())
    return std::numeric_limits<float>::quiet_NaN();
  bool losesInfo = false;
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  EXPECT_FALSE(losesInfo);
  return number.convertToFloat();
}

void expectSameFloat(float value, float expected, uint32_t code) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(value)) << "code " << code;
  else
    EXPECT_EQ(bitsOf(value), bitsOf(expected)) << "code " << code;
}

/// Floats on both sides of every step of a format with the given values, and
/// a sweep over all upper halves of a float with telling lower halves.
std::vector<float> tellingFloats(const std::vector<float> &values) {
  std::vector<float> floats;
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    float middle = float((double(values[i]) + double(values[i + 1])) / 2);
    for (float x : {values[i], middle})
      for (float y :
           {std::nextafter(x, -infinity), x, std::nextafter(x, infinity)}) {
        floats.push_back(y);
        floats.push_back(-y);
      }
  }
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (uint32_t lower :
         {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      floats.push_back(floatOf(upper << 16 | lower));
  return floats;
}

/// Non-negative finite values of a format, in order.
template <typename Decode>
std::vector<float> finiteValues(uint32_t codes, Decode decode) {
  std::vector<float> values;
  for (uint32_t code = 0; code < codes; ++code)
    if (std::isfinite(decode(code)))
      values.push_back(decode(code));
  return values;
}

/// Encodes all non-negative floats in order.
template <typename Encode>
void expectMonotonic(Encode encode) {
  constexpr size_t chunk = 4096;
  std::vector<float> from(chunk);
  std::vector<uint8_t> to(chunk);
  uint8_t last = 0;
  bool monotonic = true;
  for (uint32_t bits = 0; bits <= 0x7F800000u; bits += chunk) {
    for (size_t i = 0; i < chunk; ++i)
      from[i] = floatOf(std::min<uint32_t>(bits + uint32_t(i), 0x7F800000u));
    encode(from.data(), to.data(), chunk);
    for (size_t i = 0; i < chunk; ++i) {
      monotonic &= to[i] >= last;
      last = to[i];
    }
  }
  EXPECT_TRUE(monotonic);
}

TEST(FormatsTest, DecodesAllCodesAsAPFloat) {
  for (uint32_t code = 0; code < 256; ++code) {
    expectSameFloat(e4m3ToFloat(uint8_t(code)),
                    floatOfAPFloat(APFloat::Float8E4M3FN(), 8, code), code);
    expectSameFloat(e5m2ToFloat(uint8_t(code)),
                    floatOfAPFloat(APFloat::Float8E5M2(), 8, code), code);
    expectSameFloat(e8m0ToFloat(uint8_t(code)),
                    floatOfAPFloat(APFloat::Float8E8M0FNU(), 8, code), code);
    expectSameFloat(ue4m3ToFloat(uint8_t(code)),
                    floatOfAPFloat(APFloat::Float8E4M3FN(), 8, code & 0x7F),
                    code);
  }
  for (uint32_t code = 0; code < 16; ++code)
    expectSameFloat(e2m1ToFloat(uint8_t(code)),
                    floatOfAPFloat(APFloat::Float4E2M1FN(), 4, code), code);
  for (uint32_t code = 0; code < 65536; ++code) {
    expectSameFloat(f16ToFloat(uint16_t(code)),
                    floatOfAPFloat(APFloat::IEEEhalf(), 16, code), code);
    expectSameFloat(bf16ToFloat(uint16_t(code)),
                    floatOfAPFloat(APFloat::BFloat(), 16, code), code);
  }
}

TEST(FormatsTest, E4M3FromFloat) {
  auto decode = [](uint32_t code) { return e4m3ToFloat(uint8_t(code)); };
  for (float x : tellingFloats(finiteValues(128, decode))) {
    uint32_t expected = bitsOfAPFloat(APFloat::Float8E4M3FN(), x);
    if (std::isnan(x)) {
      EXPECT_EQ(floatToE4M3(x), 0x7F);
      EXPECT_EQ(floatToE4M3Ieee(x), 0x7F);
      continue;
    }
    EXPECT_EQ(floatToE4M3Ieee(x), expected) << x;
    // Saturating: what would become NaN is the largest value instead.
    uint32_t saturated =
        (expected & 0x7F) == 0x7F ? (expected & 0x80) | 0x7E : expected;
    EXPECT_EQ(floatToE4M3(x), saturated) << x;
    EXPECT_EQ(floatToUE4M3(x), std::signbit(x) ? 0 : saturated) << x;
  }
}

TEST(FormatsTest, E5M2FromFloat) {
  auto decode = [](uint32_t code) { return e5m2ToFloat(uint8_t(code)); };
  for (float x : tellingFloats(finiteValues(128, decode))) {
    uint32_t expected = bitsOfAPFloat(APFloat::Float8E5M2(), x);
    if (std::isnan(x)) {
      EXPECT_EQ(floatToE5M2(x), 0x7F);
      EXPECT_EQ(floatToE5M2Ieee(x), 0x7F);
      continue;
    }
    EXPECT_EQ(floatToE5M2Ieee(x), expected) << x;
    uint32_t saturated =
        (expected & 0x7F) == 0x7C ? (expected & 0x80) | 0x7B : expected;
    EXPECT_EQ(floatToE5M2(x), saturated) << x;
  }
}

TEST(FormatsTest, E2M1FromFloat) {
  auto decode = [](uint32_t code) { return e2m1ToFloat(uint8_t(code)); };
  for (float x : tellingFloats(finiteValues(8, decode))) {
    if (std::isnan(x)) {
      EXPECT_EQ(floatToE2M1(x), 0x7);
      continue;
    }
    // APFloat also saturates this format: it has nothing else to give.
    uint32_t expected = std::isinf(x)
                            ? (x < 0 ? 0xFu : 0x7u)
                            : bitsOfAPFloat(APFloat::Float4E2M1FN(), x);
    EXPECT_EQ(floatToE2M1(x), expected) << x;
  }
}

TEST(FormatsTest, HalfAndBFloatFromFloat) {
  auto decodeF16 = [](uint32_t code) { return f16ToFloat(uint16_t(code)); };
  auto decodeBF16 = [](uint32_t code) { return bf16ToFloat(uint16_t(code)); };
  std::vector<float> floats = tellingFloats(finiteValues(32768, decodeF16));
  std::vector<float> more = tellingFloats(finiteValues(32768, decodeBF16));
  floats.insert(floats.end(), more.begin(), more.end());
  for (float x : floats) {
    if (std::isnan(x)) {
      EXPECT_EQ(floatToF16(x), 0x7FFF);
      EXPECT_EQ(floatToBF16(x), 0x7FFF);
      EXPECT_EQ(floatToBF16Sat(x), 0x7FFF);
      continue;
    }
    uint32_t f16 = bitsOfAPFloat(APFloat::IEEEhalf(), x);
    uint32_t bf16 = bitsOfAPFloat(APFloat::BFloat(), x);
    ASSERT_EQ(floatToF16(x), f16) << x;
    ASSERT_EQ(floatToBF16(x), bf16) << x;
    ASSERT_EQ(floatToF16Sat(x), (f16 & 0x7FFF) == 0x7C00 ? f16 - 1 : f16) << x;
    ASSERT_EQ(floatToBF16Sat(x), (bf16 & 0x7FFF) == 0x7F80 ? bf16 - 1 : bf16)
        << x;
  }
}

TEST(FormatsTest, E8M0FromFloat) {
  auto decode = [](uint32_t code) { return e8m0ToFloat(uint8_t(code)); };
  for (float x : tellingFloats(finiteValues(255, decode))) {
    if (std::isnan(x)) {
      for (E8M0Rounding rounding :
           {E8M0Rounding::Up, E8M0Rounding::Down, E8M0Rounding::Nearest})
        EXPECT_EQ(floatToE8M0(x, rounding), 255);
      continue;
    }
    // By definition, in double.
    double magnitude = std::abs(double(x));
    uint32_t up = 0, down = 0;
    for (uint32_t byte = 0; byte < 255; ++byte) {
      double value = std::ldexp(1.0, int(byte) - 127);
      if (value < magnitude)
        up = std::min(byte + 1, 254u);
      if (value <= magnitude)
        down = byte;
    }
    EXPECT_EQ(floatToE8M0(x, E8M0Rounding::Up), up) << x;
    EXPECT_EQ(floatToE8M0(x, E8M0Rounding::Down), down) << x;
    // APFloat has no zero, sign or infinity here: compare where it is defined.
    if (x > 0x1p-127f && x < 0x1p127f)
      EXPECT_EQ(floatToE8M0(x, E8M0Rounding::Nearest),
                bitsOfAPFloat(APFloat::Float8E8M0FNU(), x))
          << x;
  }
}

TEST(FormatsTest, StepFunctionsNeverDecrease) {
  expectMonotonic([](const float *from, uint8_t *to, size_t count) {
    floatToE4M3(from, to, count);
  });
  expectMonotonic([](const float *from, uint8_t *to, size_t count) {
    floatToE5M2(from, to, count);
  });
}

/// The array forms are compiled separately: every telling value once more.
TEST(FormatsTest, ArrayFormsEqualScalarForms) {
  std::vector<float> floats = tellingFloats({});
  size_t count = floats.size() / 2 * 2;
  std::vector<uint8_t> bytes(count), pairs(count / 2);
  std::vector<uint16_t> words(count);
  floatToE4M3(floats.data(), bytes.data(), count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(bytes[i], floatToE4M3(floats[i])) << floats[i];
  floatToE5M2(floats.data(), bytes.data(), count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(bytes[i], floatToE5M2(floats[i])) << floats[i];
  floatToBF16(floats.data(), words.data(), count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(words[i], floatToBF16(floats[i])) << floats[i];
  floatToF16(floats.data(), words.data(), count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(words[i], floatToF16(floats[i])) << floats[i];
  floatToE2M1Packed(floats.data(), pairs.data(), count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(pairs[i / 2] >> (i % 2 * 4) & 15, floatToE2M1(floats[i]))
        << floats[i];

  std::vector<uint16_t> codes(65536);
  std::vector<uint8_t> codeBytes(256);
  for (uint32_t code = 0; code < 65536; ++code)
    codes[code] = uint16_t(code);
  for (uint32_t code = 0; code < 256; ++code)
    codeBytes[code] = uint8_t(code);
  std::vector<float> values(65536);
  f16ToFloat(codes.data(), values.data(), 65536);
  for (uint32_t code = 0; code < 65536; ++code)
    ASSERT_EQ(bitsOf(values[code]), bitsOf(f16ToFloat(uint16_t(code)))) << code;
  bf16ToFloat(codes.data(), values.data(), 65536);
  for (uint32_t code = 0; code < 65536; ++code)
    ASSERT_EQ(bitsOf(values[code]), bitsOf(bf16ToFloat(uint16_t(code))))
        << code;
  e4m3ToFloat(codeBytes.data(), values.data(), 256);
  for (uint32_t code = 0; code < 256; ++code)
    ASSERT_EQ(bitsOf(values[code]), bitsOf(e4m3ToFloat(uint8_t(code)))) << code;
  e5m2ToFloat(codeBytes.data(), values.data(), 256);
  for (uint32_t code = 0; code < 256; ++code)
    ASSERT_EQ(bitsOf(values[code]), bitsOf(e5m2ToFloat(uint8_t(code)))) << code;
  e2m1PackedToFloat(codeBytes.data(), values.data(), 512);
  for (uint32_t code = 0; code < 256; ++code) {
    ASSERT_EQ(values[2 * code], e2m1ToFloat(code & 15));
    ASSERT_EQ(values[2 * code + 1], e2m1ToFloat(uint8_t(code >> 4)));
  }
}

/// QNT-6: finite input never becomes NaN.
TEST(QNT, QNT6ValuesAboveTheMaximumSaturate) {
  for (float x : {449.0f, 464.0f, 465.0f, 479.9f, 480.0f, 508.0f, 1e30f}) {
    EXPECT_EQ(floatToE4M3(x), 0x7E) << x;
    EXPECT_EQ(floatToE4M3(-x), 0xFE) << -x;
  }
}

/// QNT-8: subnormal codes use the subnormal formula.
TEST(QNT, QNT8AllCodesDecode) {
  EXPECT_EQ(e4m3ToFloat(0x01), 0.001953125f);
  EXPECT_EQ(e4m3ToFloat(0x07), 0.013671875f);
  EXPECT_EQ(e4m3ToFloat(0x08), 0.015625f);
  EXPECT_EQ(e4m3ToFloat(0x38), 1.0f);
  EXPECT_EQ(e4m3ToFloat(0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(e4m3ToFloat(0x7F)));
  EXPECT_TRUE(std::isnan(e4m3ToFloat(0xFF)));
  EXPECT_EQ(bitsOf(e4m3ToFloat(0x80)), 0x80000000u);
  for (uint32_t code = 0; code < 256; ++code) {
    uint32_t exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 0x7F) == 0x7F)
      continue;
    double value = exponent == 0
                       ? mantissa / 512.0
                       : std::ldexp(8.0 + mantissa, int(exponent) - 10);
    EXPECT_EQ(double(e4m3ToFloat(uint8_t(code))), code & 0x80 ? -value : value);
  }
  const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1ToFloat(code), e2m1[code]);
    EXPECT_EQ(bitsOf(e2m1ToFloat(code | 8)), bitsOf(-e2m1[code]));
  }
}

} // namespace
