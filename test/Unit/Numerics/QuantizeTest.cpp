//===- QuantizeTest.cpp - Scale choice, one block, the rotation -----------===//
//
// Cases QNT-1 to QNT-7 and QNT-12 of the public list, and the rotation.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <vector>

using namespace flamia::numerics;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Block {
  uint8_t scale;
  std::vector<uint8_t> payload;
  std::vector<float> values; ///< dequantized
};

Block quantize(const std::vector<float> &values,
               ScaleMode mode = ScaleMode::RoundUp, uint8_t zeroByte = 0) {
  int64_t count = int64_t(values.size());
  Block block;
  block.payload.resize(values.size());
  block.values.resize(values.size());
  block.scale = quantizeBlockE4M3(values.data(), count, block.payload.data(),
                                  mode, zeroByte);
  dequantizeBlockE4M3(block.payload.data(), count, block.scale,
                      block.values.data());
  return block;
}

std::vector<float> oneValue(float value) {
  std::vector<float> values(32, 0.0f);
  values[5] = value;
  return values;
}

/// QNT-1: very small inputs, down to the smallest subnormal float.
TEST(QNT, QNT1VerySmallInputs) {
  struct {
    float value;
    uint8_t code;
    float back;
  } cases[] = {{0x1p-121f, 0x68, 0x1p-121f},
               {0x1p-133f, 0x08, 0x1p-133f},
               {0x1p-136f, 0x01, 0x1p-136f},
               {0x1p-149f, 0x00, 0.0f}};
  for (auto [value, code, back] : cases) {
    Block block = quantize(std::vector<float>(32, value));
    EXPECT_EQ(block.scale, 0) << value;
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(block.payload[i], code) << value;
      EXPECT_EQ(block.values[i], back) << value;
    }
  }
  std::vector<float> mixed(32, 0.0f);
  for (int i = 0; i < 32; i += 3)
    mixed[i] = 0x1p-121f;
  Block block = quantize(mixed);
  EXPECT_EQ(block.scale, 0);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(block.payload[i], i % 3 == 0 ? 0x68 : 0x00);
  EXPECT_EQ(block.values, mixed);
}

/// QNT-2: byte 0 is 2^-127, byte 255 is NaN.
TEST(QNT, QNT2ExtremeScaleBytes) {
  std::vector<uint8_t> ones(32, 0x38);
  std::vector<float> values(32);
  struct {
    uint8_t byte;
    float value;
  } cases[] = {{0, 0x1p-127f}, {1, 0x1p-126f}, {127, 1.0f}, {254, 0x1p127f}};
  for (auto [byte, value] : cases) {
    dequantizeBlockE4M3(ones.data(), 32, byte, values.data());
    for (float x : values)
      EXPECT_EQ(x, value) << int(byte);
  }
  dequantizeBlockE4M3(ones.data(), 32, 255, values.data());
  for (float x : values)
    EXPECT_TRUE(std::isnan(x));
}

/// QNT-3: a NaN anywhere makes the whole block NaN; so does an infinity.
TEST(QNT, QNT3NaNMakesTheBlockNaN) {
  for (float special : {floatOf(0x7FC00000u), floatOf(0xFFC00000u),
                        floatOf(0x7F810000u), infinity, -infinity})
    for (int index : {0, 1, 17, 31}) {
      std::vector<float> values(32, 1.0f);
      values[index] = special;
      Block block = quantize(values);
      EXPECT_EQ(block.scale, 255);
      EXPECT_EQ(block.payload, std::vector<uint8_t>(32, 0)) << index;
      for (float x : block.values)
        EXPECT_TRUE(std::isnan(x));
    }
}

/// QNT-4: the exponent comes from the float, not from a rounded copy.
TEST(QNT, QNT4ExponentOfTheExactMaximum) {
  EXPECT_EQ(quantize(oneValue(floatOf(0x3FFFFFFFu)), ScaleMode::Floor).scale,
            119);
  EXPECT_EQ(quantize(oneValue(2.0f), ScaleMode::Floor).scale, 120);
  for (int k : {-100, -8, 0, 8, 100})
    EXPECT_EQ(quantize(oneValue(std::ldexp(floatOf(0x3FFFFFFFu), k)),
                       ScaleMode::Floor)
                  .scale,
              k + 119);
}

/// QNT-5: the four scale modes on the same block.
TEST(QNT, QNT5ScaleModes) {
  constexpr ScaleMode modes[4] = {ScaleMode::Floor, ScaleMode::RoundUp,
                                  ScaleMode::Ceil, ScaleMode::Even};
  struct {
    float value;
    int bytes[4];
    float back[4];
  } cases[] = {{500, {127, 128, 128, 128}, {448, 512, 512, 512}},
               {490, {127, 128, 128, 127}, {448, 480, 480, 448}},
               {448, {127, 127, 128, 127}, {448, 448, 448, 448}},
               {449, {127, 128, 128, 127}, {448, 448, 448, 448}},
               {960, {128, 129, 129, 128}, {896, 960, 960, 896}},
               {1.0f, {119, 119, 119, 119}, {1, 1, 1, 1}}};
  for (const auto &test : cases)
    for (int mode = 0; mode < 4; ++mode) {
      Block block = quantize(oneValue(test.value), modes[mode]);
      EXPECT_EQ(block.scale, test.bytes[mode]) << test.value << " " << mode;
      EXPECT_EQ(block.values[5], test.back[mode]) << test.value << " " << mode;
    }
}

/// The round-up scale by its definition, at every exponent and around the
/// step at 1.75.
TEST(QNT, RoundUpScaleIsTheSmallestThatHolds) {
  for (int exponent = -149; exponent < 128; ++exponent)
    for (float significand : {1.0f, 1.5f, 1.75f, 1.7500001f, 1.9999999f}) {
      float amax = std::ldexp(significand, exponent);
      if (!std::isfinite(amax) || amax == 0)
        continue;
      int smallest = -127;
      while (std::ldexp(448.0, smallest) < double(amax))
        ++smallest;
      EXPECT_EQ(e8m0ScaleByte(amax), smallest + 127) << amax;
    }
}

/// QNT-7: NVFP4 with and without a global scale.
TEST(QNT, QNT7Nvfp4GlobalScale) {
  std::vector<float> large(16, 5376.0f), back(16);
  std::vector<uint8_t> codes(8);
  EXPECT_EQ(quantizeBlockNvfp4(large.data(), 16, 2.0f, codes.data()), 0x7E);
  EXPECT_EQ(codes, std::vector<uint8_t>(8, 0x77));
  dequantizeBlockNvfp4(codes.data(), 16, 0x7E, 2.0f, back.data());
  EXPECT_EQ(back, large);
  EXPECT_EQ(quantizeBlockNvfp4(large.data(), 16, 1.0f, codes.data()), 0x7E);
  dequantizeBlockNvfp4(codes.data(), 16, 0x7E, 1.0f, back.data());
  EXPECT_EQ(back, std::vector<float>(16, 2688.0f));

  std::vector<float> six(16, 6.0f);
  EXPECT_EQ(quantizeBlockNvfp4(six.data(), 16, 2.0f, codes.data()), 0x30);
  dequantizeBlockNvfp4(codes.data(), 16, 0x30, 2.0f, back.data());
  EXPECT_EQ(back, six);
}

TEST(QNT, Nvfp4SpecialBlocks) {
  std::vector<float> values(16, 0.0f), back(16);
  std::vector<uint8_t> codes(8, 0xEE);
  EXPECT_EQ(quantizeBlockNvfp4(values.data(), 16, 0.125f, codes.data()), 0);
  EXPECT_EQ(codes, std::vector<uint8_t>(8, 0));
  for (float special : {infinity, -infinity, std::nanf("")}) {
    values[9] = special;
    EXPECT_EQ(quantizeBlockNvfp4(values.data(), 16, 0.125f, codes.data()),
              0x7F);
    EXPECT_EQ(codes, std::vector<uint8_t>(8, 0));
    dequantizeBlockNvfp4(codes.data(), 16, 0x7F, 0.125f, back.data());
    for (float x : back)
      EXPECT_TRUE(std::isnan(x));
  }
  // Too small for a scale: a zero block, not a division by zero.
  values.assign(16, 1e-6f);
  EXPECT_EQ(quantizeBlockNvfp4(values.data(), 16, 0.125f, codes.data()), 0);
  EXPECT_EQ(codes, std::vector<uint8_t>(8, 0));
  // Nearest even, in each half of the byte.
  std::vector<float> mixed(16, 6.0f);
  mixed[0] = 2.5f;  // ties to 2
  mixed[1] = -3.5f; // ties to -4
  EXPECT_EQ(quantizeBlockNvfp4(mixed.data(), 16, 1.0f, codes.data()), 0x38);
  EXPECT_EQ(codes[0], 0x4 | 0xE << 4);
}

/// QNT-9, one block: zeros give payload 0 and the byte the caller names.
TEST(QNT, QNT9ZeroBlock) {
  std::vector<float> zeros(32, 0.0f);
  zeros[3] = -0.0f;
  Block local = quantize(zeros);
  EXPECT_EQ(local.scale, 0);
  Block shared = quantize(zeros, ScaleMode::RoundUp, e8m0One);
  EXPECT_EQ(shared.scale, 127);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(local.payload[i] & 0x7F, 0);
    EXPECT_EQ(local.values[i], 0.0f);
    EXPECT_EQ(shared.values[i], 0.0f);
  }
}

/// QNT-12: the largest BF16 value. Rounded up, payload times scale is 2^128:
/// infinity as a float, finite in the tensor core's wider product.
TEST(QNT, QNT12LargestBF16) {
  float largest = bf16ToFloat(0x7F7F);
  EXPECT_EQ(largest, 3.3895314e38f);
  Block floor = quantize(oneValue(largest), ScaleMode::Floor);
  EXPECT_EQ(floor.scale, 246);
  EXPECT_EQ(floor.payload[5], 0x7E);
  EXPECT_EQ(floor.values[5], 2.9774707e38f);
  for (ScaleMode mode :
       {ScaleMode::RoundUp, ScaleMode::Ceil, ScaleMode::Even}) {
    Block block = quantize(oneValue(largest), mode);
    EXPECT_EQ(block.scale, 247);
    EXPECT_EQ(block.payload[5], 0x78);
    EXPECT_EQ(block.values[5], infinity);
  }
}

TEST(RotationTest, SignsFollowTheFormula) {
  for (int64_t c = 0; c < 128; ++c) {
    int64_t bit[6];
    for (int i = 0; i < 6; ++i)
      bit[i] = c >> i & 1;
    int64_t power = bit[0] * bit[1] + bit[2] * bit[3] + bit[4] * bit[5];
    EXPECT_EQ(rotationSign(c), power % 2 ? -1.0f : 1.0f) << c;
  }
}

/// A unit vector becomes a signed row of the Walsh-Hadamard matrix, a
/// constant the row sums of the signs.
TEST(RotationTest, StructuredInputs) {
  for (int64_t dim : {32, 64, 128}) {
    float factor = float(1.0 / std::sqrt(double(dim)));
    for (int64_t unit : {int64_t(0), int64_t(1), int64_t(15), dim - 1}) {
      std::vector<float> x(dim, 0.0f);
      x[unit] = 1.0f;
      rotateToken(x.data(), dim);
      for (int64_t i = 0; i < dim; ++i) {
        float sign = __builtin_parityll(uint64_t(i & unit)) ? -1.0f : 1.0f;
        EXPECT_EQ(x[i], sign * rotationSign(unit) * factor) << unit << " " << i;
      }
      unrotateToken(x.data(), dim);
      for (int64_t i = 0; i < dim; ++i)
        EXPECT_NEAR(x[i], i == unit ? 1.0f : 0.0f, 1e-6f);
    }
  }
  // With the signs a constant token spreads out evenly (a bent function);
  // without them it would be a single channel of sqrt(dim).
  std::vector<float> constant(64, 1.0f);
  rotateToken(constant.data(), 64);
  for (float x : constant)
    EXPECT_EQ(std::abs(x), 1.0f);
}

TEST(RotationTest, DotProductsAreKept) {
  for (int64_t dim : {32, 64, 128}) {
    std::vector<float> x(dim), y(dim);
    double before = 0, after = 0;
    for (int64_t i = 0; i < dim; ++i) {
      x[i] = float((i * 37 % 101) - 50);
      y[i] = float((i * 53 % 89) - 40);
      before += double(x[i]) * y[i];
    }
    rotateToken(x.data(), dim);
    rotateToken(y.data(), dim);
    for (int64_t i = 0; i < dim; ++i)
      after += double(x[i]) * y[i];
    EXPECT_NEAR(after, before, 1e-5 * 50 * 40 * double(dim));
  }
}

} // namespace
