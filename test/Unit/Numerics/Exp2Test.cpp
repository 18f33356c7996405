//===- Exp2Test.cpp - Exponentials by polynomial --------------------------===//
//
// Every float that matters against 2^x in double, and the choice of blocks.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Exp2.h"
#include "flamia/Numerics/Formats.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace flamia::numerics;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// All floats with one sign and exponent field, and what they give.
struct Octave {
  std::vector<float> x = std::vector<float>(1 << 23), y = x;

  void fill(bool negative, uint32_t exponent) {
    for (uint32_t i = 0; i < x.size(); ++i)
      x[i] = floatOf(uint32_t(negative) << 31 | exponent << 23 | i);
    exp2Polynomial(x.data(), y.data(), int64_t(x.size()));
  }
};

TEST(Exp2Polynomial, EveryFloatFromMinus125ToInfinity) {
  // Below 2^-27 every result is 1.
  double worst = 0, drop = 0;
  int64_t tested = 0;
  Octave octave;
  for (bool negative : {false, true})
    for (uint32_t exponent = 127 - 27; exponent <= 127 + 6; ++exponent) {
      octave.fill(negative, exponent);
      for (size_t i = 0; i < octave.x.size(); ++i) {
        float x = octave.x[i], y = octave.y[i];
        if (x <= -125.5f)
          continue;
        worst =
            std::max(worst, std::fabs(double(y) * std::exp2(-double(x)) - 1));
        // Away from zero a negative x falls.
        if (i > 0)
          drop = std::max(drop, negative ? double(y) / octave.y[i - 1] - 1
                                         : double(octave.y[i - 1]) / y - 1);
        ++tested;
      }
    }
  EXPECT_GT(tested, 560000000);
  EXPECT_LT(worst, 0x1p-22 * 0.75); // 2^-22.4
  EXPECT_GT(worst, 0x1p-23);        // it is no exact function in disguise
  // Where the nearest integer changes, and anywhere else, a larger exponent
  // gives less by one step of a float at most.
  EXPECT_LE(drop, 0x1p-23);
}

TEST(Exp2Polynomial, TinyExponentsGiveOne) {
  for (bool negative : {false, true})
    for (uint32_t exponent = 0; exponent < 127 - 27; ++exponent)
      for (uint32_t fraction : {0u, 1u, 0x2AAAAAu, 0x7FFFFFu}) {
        float x = floatOf(uint32_t(negative) << 31 | exponent << 23 | fraction);
        EXPECT_EQ(exp2Polynomial(x), 1.0f) << x;
      }
}

TEST(Exp2Polynomial, IntegersAreExact) {
  for (int n = -125; n < 128; ++n)
    EXPECT_EQ(exp2Polynomial(float(n)), std::ldexp(1.0f, n)) << n;
}

TEST(Exp2Polynomial, Ends) {
  for (float x : {-infinity, -std::numeric_limits<float>::max(), -1e10f,
                  -150.0f, -127.0f, -126.5f, -126.0f, -125.75f, -125.5f})
    EXPECT_EQ(bitsOf(exp2Polynomial(x)), 0u) << x; // and no -0
  // Above, there are no subnormal results to flush.
  float above = std::nextafter(-125.5f, 0.0f);
  EXPECT_GT(exp2Polynomial(above), std::numeric_limits<float>::min());
  EXPECT_LT(exp2Polynomial(std::nextafter(128.0f, 0.0f)), infinity);
  for (float x : {128.0f, 128.25f, 128.5f, 129.0f, 129.5f - 0x1p-16f})
    EXPECT_EQ(exp2Polynomial(x), infinity) << x;
  for (uint32_t nan :
       {0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0x7F800001u, 0xFFFFFFFFu})
    EXPECT_TRUE(std::isnan(exp2Polynomial(floatOf(nan)))) << nan;
}

TEST(Exp2Polynomial, AnyNumberOfValuesGivesTheSame) {
  std::vector<float> x, y;
  for (int i = 0; i < 4099; ++i)
    x.push_back(std::ldexp(float((i * 7919) % 65521) - 32000.0f, -8));
  x[17] = -infinity;
  x[18] = std::numeric_limits<float>::quiet_NaN();
  y.resize(x.size());
  exp2Polynomial(x.data(), y.data(), int64_t(x.size()));
  for (size_t i = 0; i < x.size(); ++i)
    if (i != 18)
      EXPECT_EQ(bitsOf(y[i]), bitsOf(exp2Polynomial(x[i]))) << x[i];
  EXPECT_TRUE(std::isnan(y[18]));
}

TEST(Exp2Share, EveryRowAndColumnHasTheShare) {
  for (int64_t of = 1; of <= 32; of *= 2)
    for (int64_t blocks = 0; blocks <= of; ++blocks) {
      Exp2Share share{blocks, of};
      ASSERT_TRUE(share.isValid());
      for (int64_t i = 0; i < 2 * of; ++i)
        for (int64_t first : {int64_t(0), int64_t(5), of}) {
          int64_t row = 0, column = 0;
          for (int64_t j = first; j < first + of; ++j) {
            row += share.contains(i, j);
            column += share.contains(j, i);
            EXPECT_EQ(share.contains(i, j), share.contains(j, i));
          }
          EXPECT_EQ(row, blocks) << blocks << "/" << of;
          EXPECT_EQ(column, blocks) << blocks << "/" << of;
        }
    }
}

TEST(Exp2Share, FractionsOfOneValueChooseTheSameBlocks) {
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < 64; ++j) {
      EXPECT_EQ((Exp2Share{2, 8}.contains(i, j)),
                (Exp2Share{1, 4}.contains(i, j)));
      EXPECT_EQ((Exp2Share{12, 32}.contains(i, j)),
                (Exp2Share{3, 8}.contains(i, j)));
    }
}

TEST(Exp2Share, IsSpreadEvenly) {
  // Any run of neighbours has its share, give or take one: no tile of 4 x 4
  // blocks and no warp is far from the others.
  for (Exp2Share share : {Exp2Share{1, 4}, {3, 8}, {5, 16}, {11, 32}})
    for (int64_t length = 1; length <= 2 * share.of; ++length)
      for (int64_t first = 0; first < share.of; ++first) {
        int64_t count = 0;
        for (int64_t j = first; j < first + length; ++j)
          count += share.contains(3, j);
        EXPECT_LE(std::abs(count * share.of - length * share.blocks), share.of);
      }
}

TEST(Exp2Share, Arguments) {
  EXPECT_EQ(exp2ShareOf("sm_100a"), (Exp2Share{1, 4}));
  EXPECT_EQ(exp2ShareOf("sm_103a"), Exp2Share());
  EXPECT_EQ(exp2ShareOf("sm_90"), Exp2Share());
  for (Exp2Share bad : {Exp2Share{1, 3}, {-1, 4}, {5, 4}, {1, 64}, {0, 0}})
    EXPECT_FALSE(bad.isValid()) << bad.blocks << "/" << bad.of;
}

} // namespace
