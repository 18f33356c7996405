//===- QuotientTest.cpp - Divisions as the kernels make them --------------===//
//
// The kernels divide scales by a product with the reciprocal and one step, and
// elements by products with both parts of a reciprocal in two floats
// (passes/ConvertFlamiaToNVVMNvfp4.cpp), where only the rounding of the
// quotient to UE4M3 or E2M1 counts, and on sm_90 round to E2M1 by additions.
// Tried here for every significand of the divisor, at every place where the
// rounding changes, from every start that the approximate reciprocal may give;
// and for every quotient.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Formats.h"
#include "flamia/Numerics/Quantize.h"

#include "gtest/gtest.h"

#include <cfenv>
#include <cmath>

using namespace flamia::numerics;

namespace {

/// The reciprocal from an approximation that is `ulps` off the rounded one.
float reciprocal(float y, int ulps, bool mendsOnes = true) {
  float first = floatOf(bitsOf(1.0f / y) + uint32_t(ulps));
  float result = std::fma(std::fma(-first, y, 1.0f), first, first);
  bool isOnes = (bitsOf(y) & 0x7FFFFF) == 0x7FFFFF;
  return isOnes && mendsOnes ? floatOf(0x7F000000u - bitsOf(y)) : result;
}

float quotient(float x, float y, float r) {
  float first = x * r;
  return std::fma(-std::fma(first, y, -x), r, first);
}

/// a * b + c rounded down.
float fmaDown(float a, float b, float c) {
  // Not to be computed before or after.
  volatile float x = a, y = b, z = c;
  std::fesetround(FE_DOWNWARD);
  volatile float result = std::fma(float(x), float(y), float(z));
  std::fesetround(FE_TONEAREST);
  return result;
}

/// The reciprocal as a float not above it and the rest, from an approximation
/// that is `ulps` off the rounded one.
std::pair<float, float> reciprocalPair(float y, int ulps,
                                       bool mendsOnes = true) {
  float first = floatOf(bitsOf(1.0f / y) + uint32_t(ulps));
  auto restOf = [=](float r) { return std::fma(-r, y, 1.0f); };
  float high = fmaDown(restOf(first), first, first);
  bool isOnes = (bitsOf(y) & 0x7FFFFF) == 0x7FFFFF;
  float low = restOf(high) * high;
  return {high, floatOf(bitsOf(low) + (isOnes && mendsOnes))};
}

float quotient(float x, std::pair<float, float> r) {
  return std::fma(x, r.first, x * r.second);
}

/// Quotients on the wrong side of a threshold, among the dividends beside
/// threshold * y, for all y in [1, 2). Off these, quotient's error (below two
/// ulps) cannot matter. Thresholds in [1, 2): both formats' are these times
/// powers of two.
template <typename Divide>
uint64_t countWrong(int firstSixteenth, int step, Divide divide) {
  uint64_t wrong = 0;
  for (uint32_t m = 0; m < 1u << 23; ++m) {
    float y = floatOf(0x3F800000u | m);
    auto divideBy = divide(y);
    for (int sixteenth = firstSixteenth; sixteenth < 32; sixteenth += step) {
      float threshold = float(sixteenth) / 16;
      uint32_t middle = bitsOf(threshold * y);
      for (uint32_t bits = middle - 2; bits <= middle + 2; ++bits) {
        float x = floatOf(bits), exact = x / y, got = divideBy(x);
        wrong += (exact > threshold) != (got > threshold) ||
                 (exact >= threshold) != (got >= threshold);
      }
    }
  }
  return wrong;
}

} // namespace

TEST(Quotient, RoundsToE2M1AsADivision) {
  // 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5: significands of 16, 20, 24, 28 / 16.
  // rcp.approx is within one ulp.
  for (int ulps : {-1, 0, 1})
    EXPECT_EQ(countWrong(16, 4,
                         [=](float y) {
                           auto r = reciprocalPair(y, ulps);
                           return [=](float x) { return quotient(x, r); };
                         }),
              0u)
        << ulps;
  // The control: without the exception for a significand of ones.
  EXPECT_GT(countWrong(16, 4,
                       [](float y) {
                         auto r = reciprocalPair(y, 0, false);
                         return [=](float x) { return quotient(x, r); };
                       }),
            0u);
}

TEST(Quotient, RoundsUpToE2M1WhereTheDivisorIsShort) {
  // A UE4M3 scale times a power of two: four significant bits. The magnitude's
  // product is rounded up, the reciprocal down.
  const float thresholds[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  auto productUp = [](float a, float b) {
    volatile float x = a, y = b; // not to be computed before or after
    std::fesetround(FE_UPWARD);
    volatile float result = x * y;
    std::fesetround(FE_TONEAREST);
    return float(result);
  };
  uint64_t wrong = 0, wrongNearest = 0, wrongLong = 0;
  auto count = [&](float y, int ulps, uint64_t &up, uint64_t &nearest) {
    float first = floatOf(bitsOf(1.0f / y) + uint32_t(ulps));
    float r = fmaDown(std::fma(-first, y, 1.0f), first, first);
    for (float threshold : thresholds) {
      uint32_t middle = bitsOf(threshold * y);
      for (uint32_t bits = middle - 64; bits <= middle + 64; ++bits) {
        float x = floatOf(bits);
        uint8_t code = floatToE2M1(x / y);
        up += floatToE2M1(productUp(x, r)) != code;
        nearest += floatToE2M1(x * (1.0f / y)) != code;
      }
    }
  };
  for (int eighths = 8; eighths < 16; ++eighths)
    for (float power : {1.0f, 0x1p-60f, 0x1p60f})
      for (int ulps : {-1, 0, 1})
        count(float(eighths) / 8 * power, ulps, wrong, wrongNearest);
  EXPECT_EQ(wrong, 0u);
  // The controls: rounding to nearest, and longer divisors.
  EXPECT_GT(wrongNearest, 0u);
  for (uint32_t m = 1; m < 1u << 23; m += 65537)
    count(floatOf(0x3F800000u | m), 0, wrongLong, wrongNearest);
  EXPECT_GT(wrongLong, 0u);
}

TEST(Quotient, TheRestIsNeverNegative) {
  // So that the quotient of -0 is -0.
  uint64_t wrong = 0;
  for (uint32_t m = 0; m < 1u << 23; ++m)
    for (int ulps : {-1, 0, 1}) {
      float y = floatOf(0x3F800000u | m);
      auto r = reciprocalPair(y, ulps);
      wrong += !(r.second >= 0) || bitsOf(quotient(-0.0f, r)) != 0x80000000u ||
               bitsOf(quotient(0.0f, r)) != 0;
    }
  EXPECT_EQ(wrong, 0u);
}

TEST(Quotient, IsInfiniteAtMost) {
  // Not NaN: what saturates follows.
  for (float y : {0x1p-41f, 0x1.fffffep-41f, 0x1.8p-20f, 3.0f}) {
    auto r = reciprocalPair(y, 0);
    for (float x : {0x1.fffffep127f, 0x1p127f, 0x1p100f})
      for (float value : {x, -x}) {
        float exact = value / y, got = quotient(value, r);
        EXPECT_TRUE(got == exact ||
                    (std::fabs(exact) > 7.0f && std::fabs(got) > 7.0f &&
                     std::signbit(got) == std::signbit(exact)))
            << value << " / " << y << ": " << got;
      }
  }
}

TEST(Quotient, RoundsToUE4M3AsADivision) {
  // Between normal codes odd sixteenths, between subnormal ones all.
  EXPECT_EQ(countWrong(16, 1,
                       [](float y) {
                         float r = reciprocal(y, 0);
                         return [=](float x) { return quotient(x, y, r); };
                       }),
            0u);
}

TEST(Quotient, AnyApproximationWillDo) {
  // rcp.approx is within one ulp; most starts give the same reciprocal.
  uint64_t others = 0, wrong = 0, wrongOnes = 0;
  for (uint32_t m = 0; m < 1u << 23; ++m) {
    float y = floatOf(0x3F800000u | m);
    for (int ulps : {-1, 0, 1}) {
      float r = reciprocal(y, ulps), plain = reciprocal(y, ulps, false);
      if (r == 1.0f / y && plain == r)
        continue;
      ++others;
      for (int sixteenth = 16; sixteenth < 32; ++sixteenth) {
        float threshold = float(sixteenth) / 16;
        uint32_t middle = bitsOf(threshold * y);
        for (uint32_t bits = middle - 2; bits <= middle + 2; ++bits) {
          float x = floatOf(bits), exact = x / y;
          auto differs = [&](float got) {
            return (exact > threshold) != (got > threshold) ||
                   (exact >= threshold) != (got >= threshold);
          };
          wrong += differs(quotient(x, y, r));
          wrongOnes += differs(quotient(x, y, plain));
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(others, 0u);
  // The control: without the exception for a significand of ones.
  EXPECT_GT(wrongOnes, 0u);
}

TEST(Quotient, KeepsTheSignOfZero) {
  EXPECT_EQ(bitsOf(quotient(-0.0f, 3.0f, reciprocal(3.0f, 0))), 0x80000000u);
  EXPECT_EQ(bitsOf(quotient(0.0f, 3.0f, reciprocal(3.0f, 0))), 0u);
}

TEST(Quotient, TheProductAloneIsWrong) {
  EXPECT_GT(countWrong(16, 4,
                       [](float y) {
                         float r = 1.0f / y;
                         return [=](float x) { return x * r; };
                       }),
            0u);
}

TEST(Quotient, SixthIsExact) {
  float sixth = 1.0f / 6.0f;
  for (uint32_t exponent : {127u, 128u, 129u})
    for (uint32_t m = 0; m < 1u << 23; ++m) {
      float x = floatOf(exponent << 23 | m);
      ASSERT_EQ(quotient(x, 6.0f, sixth), x / 6.0f) << x;
    }
}

TEST(Quotient, AdditionsRoundToE2M1) {
  // Every float up to 64, from where the code may not be 0, and many above. The
  // kernel's quotient is 2^-6 of it, which moves every exponent alike.
  auto check = [](float value) {
    float q = value * 0x1p-6f;
    float power = std::fmax(floatOf(bitsOf(q) & 0x7F800000u), 0x1p-6f);
    float rounded = std::fma(power, -0x1.8p22f, std::fma(power, 0x1.8p22f, q));
    uint8_t byte = floatToE4M3(rounded);
    // Codes that are too large become that of 6.
    uint8_t isLarge = (byte >> 5 | byte >> 6) & 1;
    byte = uint8_t(byte | isLarge * 0x1C);
    return uint8_t((byte >> 2 & 7) | (isLarge ? 0 : (byte & 3) << 6));
  };
  for (uint32_t bits = bitsOf(0x1p-3f); bits < bitsOf(64.0f); ++bits)
    ASSERT_EQ(check(floatOf(bits)), floatToE2M1(floatOf(bits)) & 7)
        << floatOf(bits);
  for (uint32_t bits = bitsOf(64.0f); bits <= bitsOf(INFINITY); bits += 4099)
    ASSERT_EQ(check(floatOf(bits)), 7) << floatOf(bits);
  EXPECT_EQ(check(INFINITY), 7);
  for (float small : {0.0f, 0x1p-149f, 0x1p-60f, 0x1p-4f})
    EXPECT_EQ(check(small), 0);
}
