//===- Nvfp4Test.cpp - E2M1 codes with UE4M3 scales -----------------------===//
//
// The public QNT and SFL cases for NVFP4 blocks and tensors.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace flamia::numerics;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Block {
  uint8_t scale;
  std::vector<uint8_t> codes = std::vector<uint8_t>(8, 0xEE);
  std::vector<float> values = std::vector<float>(16); ///< dequantized
};

Block quantize(const std::vector<float> &values, float globalScale = 1) {
  Block block;
  block.scale =
      quantizeBlockNvfp4(values.data(), 16, globalScale, block.codes.data());
  dequantizeBlockNvfp4(block.codes.data(), 16, block.scale, globalScale,
                       block.values.data());
  return block;
}

std::vector<float> oneValue(float value) {
  std::vector<float> values(16, 0.0f);
  values[5] = value;
  return values;
}

std::vector<uint16_t> makeTensor(const PackedShape &shape) {
  std::vector<uint16_t> tensor(shape.elements());
  uint32_t state = 12345;
  for (uint16_t &bits : tensor) {
    state = state * 1664525u + 1013904223u;
    bits = floatToBF16(
        std::ldexp(float(int32_t(state) >> 8) * 0x1p-23f, int(state >> 3 & 7)));
  }
  return tensor;
}

PackedShape shapeOf(std::vector<int64_t> lengths, int64_t heads, int64_t dim) {
  return {cuSeqlensOf(lengths), heads, dim};
}

/// QNT-1: what is too small for the smallest scale is zero, never NaN.
TEST(QNT, QNT1Nvfp4VerySmallInputs) {
  for (float value : {0x1p-121f, 0x1p-133f, 0x1p-136f, 0x1p-149f, -0x1p-149f}) {
    Block block = quantize(std::vector<float>(16, value), 0.125f);
    EXPECT_EQ(block.scale, 0) << value;
    EXPECT_EQ(block.codes, std::vector<uint8_t>(8, 0)) << value;
    EXPECT_EQ(block.values, std::vector<float>(16, 0.0f));
  }
  // Half of the smallest scale ties to zero, the next float does not.
  EXPECT_EQ(quantize(oneValue(6 * 0x1p-10f)).scale, 0);
  EXPECT_EQ(quantize(oneValue(6 * 0x1.01p-10f)).scale, 1);
}

/// QNT-2: scale byte 0 is zero here, 0x01 is 2^-9, 0x7E is 448, 0x7F is NaN.
TEST(QNT, QNT2UE4M3ExtremeScaleBytes) {
  std::vector<uint8_t> ones(8, 0x22);
  std::vector<float> values(16);
  for (auto [byte, value] : {std::pair<uint8_t, float>{0, 0.0f},
                             {1, 0x1p-9f},
                             {8, 0x1p-6f},
                             {0x38, 1.0f},
                             {0x7E, 448.0f}}) {
    dequantizeBlockNvfp4(ones.data(), 16, byte, 1, values.data());
    EXPECT_EQ(values, std::vector<float>(16, value));
  }
  dequantizeBlockNvfp4(ones.data(), 16, 0x7F, 1, values.data());
  for (float x : values)
    EXPECT_TRUE(std::isnan(x));
}

/// QNT-3: a NaN or an infinity at any place makes the block NaN.
TEST(QNT, QNT3Nvfp4NaNAnywhere) {
  for (float special : {floatOf(0x7FC00000u), floatOf(0xFFC00000u),
                        floatOf(0x7F810000u), infinity, -infinity})
    for (int index = 0; index < 16; ++index) {
      std::vector<float> values(16, 1.0f);
      values[index] = special;
      Block block = quantize(values);
      EXPECT_EQ(block.scale, 0x7F);
      EXPECT_EQ(block.codes, std::vector<uint8_t>(8, 0));
      for (float x : block.values)
        EXPECT_TRUE(std::isnan(x));
    }
}

/// QNT-4: the scale comes from the fp32 maximum, not from a copy rounded to
/// BF16: 6.375 ties to the even scale 1, the next float goes up.
TEST(QNT, QNT4Nvfp4ScaleOfTheExactMaximum) {
  for (int k : {-5, 0, 3, 7}) {
    float tie = std::ldexp(6.375f, k);
    EXPECT_EQ(quantize(oneValue(tie)).scale, floatToUE4M3(std::ldexp(1.0f, k)));
    EXPECT_EQ(quantize(oneValue(std::nextafter(tie, infinity))).scale,
              floatToUE4M3(std::ldexp(1.0f, k)) + 1);
  }
}

/// QNT-6: no finite block has a NaN scale, and codes stop at 6.
TEST(QNT, QNT6Nvfp4Saturates) {
  for (float value : {2688.0f, 2784.0f, 2785.0f, 2880.0f, 3000.0f, 1e30f,
                      std::numeric_limits<float>::max()})
    for (float sign : {1.0f, -1.0f}) {
      Block block = quantize(oneValue(sign * value));
      EXPECT_EQ(block.scale, 0x7E) << value;
      EXPECT_EQ(block.values[5], sign * 2688) << value;
      EXPECT_EQ(block.codes[2], sign > 0 ? 0x70 : 0xF0);
    }
  // A small g carries the quotient beyond fp32: still the largest scale.
  EXPECT_EQ(quantize(oneValue(1e38f), 0x1p-32f).scale, 0x7E);
}

/// QNT-9: zeros give codes 0, scale 0, padding 0.
TEST(QNT, QNT9Nvfp4ZeroTiles) {
  PackedShape shape = shapeOf({130}, 1, 128);
  std::vector<uint16_t> zeros(shape.elements(), 0);
  Nvfp4Tensor result = quantizeTokenNvfp4(zeros.data(), shape, true, 0.125f);
  EXPECT_EQ(result.payload, std::vector<uint8_t>(130 * 64, 0));
  EXPECT_EQ(result.scales, std::vector<uint8_t>(2 * 2 * 512, 0));
  EXPECT_EQ(result.counts.blocks, 130 * 8);
  EXPECT_EQ(result.counts.flushed, 0);
  EXPECT_EQ(result.counts.saturated, 0);
}

/// QNT-12: the largest BF16 value becomes the largest there is, 2688 g.
TEST(QNT, QNT12Nvfp4LargestBF16) {
  Block block = quantize(oneValue(bf16ToFloat(0x7F7F)), 0.125f);
  EXPECT_EQ(block.scale, 0x7E);
  EXPECT_EQ(block.values[5], 336.0f);
}

/// QNT-13: empty groups write nothing; the others equal separate calls.
TEST(QNT, QNT13Nvfp4EmptyGroups) {
  PackedShape shape = shapeOf({128, 0, 256}, 1, 128);
  std::vector<uint16_t> tensor = makeTensor(shape);
  Nvfp4Tensor all = quantizeTokenNvfp4(tensor.data(), shape, true, 0.125f);
  Nvfp4Tensor first =
      quantizeTokenNvfp4(tensor.data(), shapeOf({128}, 1, 128), true, 0.125f);
  Nvfp4Tensor last = quantizeTokenNvfp4(tensor.data() + 128 * 128,
                                        shapeOf({256}, 1, 128), true, 0.125f);
  first.payload.insert(first.payload.end(), last.payload.begin(),
                       last.payload.end());
  first.scales.insert(first.scales.end(), last.scales.begin(),
                      last.scales.end());
  EXPECT_EQ(all.payload, first.payload);
  EXPECT_EQ(all.scales, first.scales);
  EXPECT_TRUE(
      quantizeTokenNvfp4(nullptr, shapeOf({0, 0, 0}, 1, 128), true, 0.125f)
          .scales.empty());
}

/// SFL-1: block b of token r lies in atom b / 4 at off128x4(r, b % 4).
TEST(SFL, SFL1Nvfp4ScalesAreInterleaved) {
  PackedShape shape = shapeOf({130}, 2, 128);
  std::vector<uint16_t> tensor = makeTensor(shape);
  Nvfp4Tensor result = quantizeTokenNvfp4(tensor.data(), shape, false, 0.125f);
  ASSERT_EQ(result.scales.size(), size_t(2 * 2 * 2 * 512));
  for (int64_t r = 0; r < 256; ++r)
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t b = 0; b < 8; ++b) {
        float values[16];
        uint8_t codes[8], expected = 0;
        if (r < 130) {
          bf16ToFloat(&tensor[(r * 2 + head) * 128 + b * 16], values, 16);
          expected = quantizeBlockNvfp4(values, 16, 0.125f, codes);
        }
        EXPECT_EQ(result.scales[(((r / 128) * 2 + head) * 2 + b / 4) * 512 +
                                off128x4(r % 128, b % 4)],
                  expected);
      }
}

/// SFL-3: any split between tiles gives the same bytes and counts, and writes
/// nothing else.
TEST(SFL, SFL3Nvfp4TilesDoNotMatter) {
  for (int64_t rows : {128, 384, 640}) {
    PackedShape shape = shapeOf({rows}, 2, 128);
    std::vector<uint16_t> tensor = makeTensor(shape);
    Nvfp4Tensor whole = quantizeTokenNvfp4(tensor.data(), shape, true, 0x1p-8f);
    EXPECT_GT(whole.counts.saturated, 0);
    for (int64_t rowTile : {128, 256, 512}) {
      constexpr int64_t guard = 64;
      std::vector<uint8_t> payload(whole.payload.size() + 2 * guard, 0xAA);
      std::vector<uint8_t> scales(whole.scales.size() + 2 * guard, 0xAA);
      std::vector<uint8_t> expectedPayload = payload, expectedScales = scales;
      Nvfp4Counts counts;
      for (int64_t tile = 0; tile < rows / 128; tile += rowTile / 128)
        quantizeTokenNvfp4Tiles(tensor.data(), shape, true, 0x1p-8f, 0, tile,
                                std::min(tile + rowTile / 128, rows / 128),
                                payload.data() + guard, scales.data() + guard,
                                counts);
      std::copy(whole.payload.begin(), whole.payload.end(),
                expectedPayload.begin() + guard);
      std::copy(whole.scales.begin(), whole.scales.end(),
                expectedScales.begin() + guard);
      EXPECT_EQ(payload, expectedPayload) << rows << " " << rowTile;
      EXPECT_EQ(scales, expectedScales) << rows << " " << rowTile;
      EXPECT_EQ(counts.blocks, whole.counts.blocks);
      EXPECT_EQ(counts.saturated, whole.counts.saturated);
    }
  }
}

/// Both copies of a mixed tensor are those of separate calls.
TEST(Nvfp4Test, MixedTensorHasBothCopies) {
  for (bool rotate : {true, false}) {
    PackedShape shape = shapeOf({5, 0, 130}, 2, 64);
    std::vector<uint16_t> tensor = makeTensor(shape);
    MixedTensor mixed = quantizeTokenMixed(tensor.data(), shape, rotate,
                                           ScaleMode::RoundUp, 0.25f);
    TokenLocalTensor e4m3 = quantizeTokenLocal(tensor.data(), shape, rotate);
    Nvfp4Tensor nvfp4 = quantizeTokenNvfp4(tensor.data(), shape, rotate, 0.25f);
    EXPECT_EQ(mixed.e4m3.payload, e4m3.payload);
    EXPECT_EQ(mixed.e4m3.scales, e4m3.scales);
    EXPECT_EQ(mixed.nvfp4.payload, nvfp4.payload);
    EXPECT_EQ(mixed.nvfp4.scales, nvfp4.scales);
    EXPECT_EQ(mixed.nvfp4.globalScale, 0.25f);
    EXPECT_EQ(mixed.nvfp4.counts.blocks, 135 * 2 * 4);
  }
}

/// What the counts count.
TEST(Nvfp4Test, Counts) {
  PackedShape shape = shapeOf({1}, 1, 128);
  std::vector<uint16_t> tensor(128, 0);
  auto set = [&](int64_t block, float value) {
    tensor[block * 16 + 3] = floatToBF16(value);
  };
  set(0, 336);      // 2688 g: the largest that fits
  set(1, -338);     // beyond
  set(2, 1e30f);    // beyond
  set(3, infinity); // NaN block: neither
  set(4, 0x1p-12f); // below 6 * 2^-10 g = 0x1.8p-11
  set(5, 0x1p-10f); // a scale of 2^-9 g
  Nvfp4Tensor result = quantizeTokenNvfp4(tensor.data(), shape, false, 0.125f);
  EXPECT_EQ(result.counts.blocks, 8);
  EXPECT_EQ(result.counts.saturated, 2);
  EXPECT_EQ(result.counts.flushed, 1);
}

} // namespace
