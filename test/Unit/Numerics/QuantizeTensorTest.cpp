//===- QuantizeTensorTest.cpp - Whole packed tensors ----------------------===//
//
// Scale arrays, document-local partial blocks, and independence of tiling.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace flamia::numerics;

namespace {

/// Numbers with many magnitudes, different in every element.
std::vector<uint16_t> makeTensor(const PackedShape &shape, uint32_t seed = 1) {
  std::vector<uint16_t> tensor(shape.elements());
  uint32_t state = seed * 2654435761u + 1;
  for (uint16_t &bits : tensor) {
    state = state * 1664525u + 1013904223u;
    float value = float(int32_t(state) >> 8) * 0x1p-23f;
    bits = floatToBF16(std::ldexp(value, int(state >> 3 & 7)));
  }
  return tensor;
}

PackedShape shapeOf(std::vector<int64_t> lengths, int64_t heads, int64_t dim) {
  return {cuSeqlensOf(lengths), heads, dim};
}

/// The rows of one document of a [tokens, heads, dim] array.
template <typename Element>
std::vector<Element> rowsOf(const std::vector<Element> &array,
                            const PackedShape &shape, int64_t document) {
  int64_t row = shape.heads * shape.headDim;
  return {array.begin() + shape.cuSeqlens[document] * row,
          array.begin() + shape.cuSeqlens[document + 1] * row};
}

/// The scale atoms of one document.
std::vector<uint8_t> atomsOf(const std::vector<uint8_t> &scales,
                             const PackedShape &shape, int64_t document) {
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  return {scales.begin() + bases[document] * shape.heads * atomBytes,
          scales.begin() + bases[document + 1] * shape.heads * atomBytes};
}

TEST(QuantizeTensorTest, TokenLocalScalesAreWhereTheyBelong) {
  for (int64_t dim : {64, 128}) {
    PackedShape shape = shapeOf({5, 0, 130, 1}, 2, dim);
    std::vector<uint16_t> tensor = makeTensor(shape);
    TokenLocalTensor result = quantizeTokenLocal(tensor.data(), shape, false);
    ASSERT_EQ(result.scales.size(), size_t(4 * 2 * 512));
    std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
    size_t padding = 0;
    for (int64_t d = 0; d < shape.documents(); ++d) {
      int64_t length = shape.cuSeqlens[d + 1] - shape.cuSeqlens[d];
      for (int64_t i = 0; i < length; ++i)
        for (int64_t head = 0; head < 2; ++head) {
          int64_t offset = ((shape.cuSeqlens[d] + i) * 2 + head) * dim;
          float amax = 0;
          for (int64_t c = 0; c < dim; ++c)
            amax = std::max(amax, std::abs(bf16ToFloat(tensor[offset + c])));
          const uint8_t *atom =
              &result.scales[((bases[d] + i / 128) * 2 + head) * 512];
          for (int64_t j = 0; j < 4; ++j)
            EXPECT_EQ(atom[off128x4(i % 128, j)],
                      j < dim / 32 ? e8m0ScaleByte(amax) : 127);
        }
      padding += size_t((bases[d + 1] - bases[d]) * 128 - length);
    }
    EXPECT_GE(std::count(result.scales.begin(), result.scales.end(), 127),
              int64_t(padding * 2 * 4));
  }
}

/// Both orientations of V hold the same bytes; partial blocks count only the
/// document's own tokens.
TEST(QuantizeTensorTest, TokenBlockScalesInBothOrientations) {
  for (int64_t dim : {64, 128}) {
    PackedShape shape = shapeOf({33, 1, 0, 200}, 2, dim);
    std::vector<uint16_t> tensor = makeTensor(shape);
    TokenBlockTensor result = quantizeTokenBlock(tensor.data(), shape);
    std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
    for (int64_t d = 0; d < shape.documents(); ++d) {
      int64_t length = shape.cuSeqlens[d + 1] - shape.cuSeqlens[d];
      int64_t tiles = bases[d + 1] - bases[d];
      for (int64_t block = 0; block < tiles * 4; ++block)
        for (int64_t head = 0; head < 2; ++head)
          for (int64_t c = 0; c < dim; c += 32) {
            float amax = 0;
            int64_t last = std::min(length, block * 32 + 32);
            for (int64_t i = block * 32; i < last; ++i)
              for (int64_t k = 0; k < 32; ++k)
                amax = std::max(
                    amax,
                    std::abs(bf16ToFloat(
                        tensor[((shape.cuSeqlens[d] + i) * 2 + head) * dim + c +
                               k])));
            int64_t atom = ((bases[d] + block / 4) * 2 + head) * 512;
            uint8_t expected =
                last > block * 32 ? e8m0ScaleByte(amax, ScaleMode::RoundUp, 127)
                                  : 127;
            for (int64_t k = 0; k < 32; ++k)
              EXPECT_EQ(
                  result.scalesAlongRows[atom + off128x4(c + k, block % 4)],
                  expected);
            for (int64_t i = block * 32; i < block * 32 + 32; ++i)
              EXPECT_EQ(
                  result.scalesAlongCols[atom + off128x4(i % 128, c / 32)],
                  i < length ? expected : 127);
          }
    }
    // No payload of finite input is a NaN.
    for (uint8_t byte : result.payload)
      EXPECT_NE(byte & 0x7F, 0x7F);
  }
}

/// A document's bytes do not depend on its neighbours or its place.
TEST(QuantizeTensorTest, DocumentsAreIndependent) {
  PackedShape pack = shapeOf({7, 130, 1, 64, 33}, 2, 128);
  std::vector<uint16_t> tensor = makeTensor(pack);
  TokenLocalTensor local = quantizeTokenLocal(tensor.data(), pack, true);
  TokenBlockTensor block = quantizeTokenBlock(tensor.data(), pack);
  Nvfp4Tensor nvfp4 = quantizeTokenNvfp4(tensor.data(), pack, true, 0.125f);
  for (int64_t d = 0; d < pack.documents(); ++d) {
    PackedShape alone =
        shapeOf({pack.cuSeqlens[d + 1] - pack.cuSeqlens[d]}, 2, 128);
    std::vector<uint16_t> own = rowsOf(tensor, pack, d);
    TokenLocalTensor ownLocal = quantizeTokenLocal(own.data(), alone, true);
    EXPECT_EQ(rowsOf(local.payload, pack, d), ownLocal.payload);
    EXPECT_EQ(atomsOf(local.scales, pack, d), ownLocal.scales);
    TokenBlockTensor ownBlock = quantizeTokenBlock(own.data(), alone);
    EXPECT_EQ(rowsOf(block.payload, pack, d), ownBlock.payload);
    EXPECT_EQ(atomsOf(block.scalesAlongRows, pack, d),
              ownBlock.scalesAlongRows);
    EXPECT_EQ(atomsOf(block.scalesAlongCols, pack, d),
              ownBlock.scalesAlongCols);
    Nvfp4Tensor ownNvfp4 = quantizeTokenNvfp4(own.data(), alone, true, 0.125f);
    std::vector<float> values = dequantize(nvfp4, pack);
    EXPECT_EQ(rowsOf(values, pack, d), dequantize(ownNvfp4, alone));
  }
}

/// Quantization errors are those of the formats: half a unit in the last
/// place of the largest binade at most, relative to the block maximum.
TEST(QuantizeTensorTest, ErrorsAreWithinTheFormat) {
  PackedShape shape = shapeOf({70, 129}, 2, 128);
  std::vector<uint16_t> tensor = makeTensor(shape);
  std::vector<float> exact(tensor.size());
  bf16ToFloat(tensor.data(), exact.data(), tensor.size());
  std::vector<float> local =
      dequantize(quantizeTokenLocal(tensor.data(), shape, false), shape);
  std::vector<float> block =
      dequantize(quantizeTokenBlock(tensor.data(), shape), shape);
  std::vector<float> nvfp4 = dequantize(
      quantizeTokenNvfp4(tensor.data(), shape, false, 0.125f), shape);
  for (size_t row = 0; row < exact.size(); row += 128) {
    float amax = absMax(&exact[row], 128);
    for (size_t i = row; i < row + 128; ++i) {
      // 4 bits of significand, or half of 2^-9 times the scale below that.
      float limit = std::max(std::abs(exact[i]) / 16, amax / 224 * 0x1p-9f);
      EXPECT_LE(std::abs(local[i] - exact[i]), limit);
      EXPECT_LE(std::abs(block[i] - exact[i]),
                std::max(std::abs(exact[i]) / 16, 128.0f / 224 * 0x1p-9f));
      float own = absMax(&exact[i / 16 * 16], 16);
      EXPECT_LE(std::abs(nvfp4[i] - exact[i]), own / 6 * 1.1f);
    }
  }
}

/// SFL-3: the split of the work changes no byte, and nothing else is written.
TEST(SFL, SFL3TilingDoesNotMatter) {
  for (int64_t rows : {128, 384, 640}) {
    PackedShape shape = shapeOf({rows}, 1, 128);
    std::vector<uint16_t> tensor = makeTensor(shape);
    TokenLocalTensor local = quantizeTokenLocal(tensor.data(), shape, true);
    TokenBlockTensor block = quantizeTokenBlock(tensor.data(), shape);
    for (int64_t rowTile : {128, 256, 512}) {
      constexpr size_t guard = 64;
      auto guarded = [&](size_t size) {
        return std::vector<uint8_t>(size + 2 * guard, 0xAA);
      };
      std::vector<uint8_t> payload = guarded(local.payload.size());
      std::vector<uint8_t> scales = guarded(local.scales.size());
      std::vector<uint8_t> blockPayload = payload, alongRows = scales,
                           alongCols = scales;
      for (int64_t tile = 0; tile < rows / 128; tile += rowTile / 128) {
        int64_t last = std::min(tile + rowTile / 128, rows / 128);
        quantizeTokenLocalTiles(tensor.data(), shape, true, ScaleMode::RoundUp,
                                0, tile, last, payload.data() + guard,
                                scales.data() + guard);
        quantizeTokenBlockTiles(tensor.data(), shape, ScaleMode::RoundUp, 0,
                                tile, last, blockPayload.data() + guard,
                                alongRows.data() + guard,
                                alongCols.data() + guard);
      }
      auto expectInside = [&](const std::vector<uint8_t> &array,
                              const std::vector<uint8_t> &expected) {
        std::vector<uint8_t> whole = guarded(expected.size());
        std::copy(expected.begin(), expected.end(), whole.begin() + guard);
        EXPECT_EQ(array, whole) << rows << " rows, row tile " << rowTile;
      };
      expectInside(payload, local.payload);
      expectInside(scales, local.scales);
      expectInside(blockPayload, block.payload);
      expectInside(alongRows, block.scalesAlongRows);
      expectInside(alongCols, block.scalesAlongCols);
    }
  }
}

/// QNT-9, tensors: zeros anywhere.
TEST(QNT, QNT9ZeroTiles) {
  PackedShape shape = shapeOf({128}, 1, 128);
  std::vector<uint16_t> zeros(shape.elements(), 0);
  TokenLocalTensor local = quantizeTokenLocal(zeros.data(), shape, true);
  TokenBlockTensor block = quantizeTokenBlock(zeros.data(), shape);
  EXPECT_EQ(local.payload, std::vector<uint8_t>(zeros.size(), 0));
  EXPECT_EQ(local.scales, std::vector<uint8_t>(512, 0));
  EXPECT_EQ(block.payload, std::vector<uint8_t>(zeros.size(), 0));
  EXPECT_EQ(block.scalesAlongRows, std::vector<uint8_t>(512, 127));

  // One zero block between others.
  std::vector<uint16_t> tensor = makeTensor(shape);
  for (int64_t i = 32; i < 64; ++i)
    for (int64_t c = 64; c < 96; ++c)
      tensor[i * 128 + c] = 0;
  std::vector<float> values =
      dequantize(quantizeTokenBlock(tensor.data(), shape), shape);
  for (int64_t i = 32; i < 64; ++i)
    for (int64_t c = 64; c < 96; ++c)
      EXPECT_EQ(values[i * 128 + c], 0.0f);
}

/// QNT-13: empty groups write nothing; the others equal separate calls.
TEST(QNT, QNT13EmptyGroups) {
  PackedShape shape = shapeOf({128, 0, 256}, 1, 128);
  std::vector<uint16_t> tensor = makeTensor(shape);
  TokenBlockTensor all = quantizeTokenBlock(tensor.data(), shape);
  EXPECT_EQ(all.scalesAlongRows.size(), size_t(3 * 512));
  EXPECT_TRUE(atomsOf(all.scalesAlongRows, shape, 1).empty());
  for (int64_t d : {0, 2}) {
    std::vector<uint16_t> own = rowsOf(tensor, shape, d);
    TokenBlockTensor alone =
        quantizeTokenBlock(own.data(), shapeOf({d == 0 ? 128 : 256}, 1, 128));
    EXPECT_EQ(rowsOf(all.payload, shape, d), alone.payload);
    EXPECT_EQ(atomsOf(all.scalesAlongRows, shape, d), alone.scalesAlongRows);
    EXPECT_EQ(atomsOf(all.scalesAlongCols, shape, d), alone.scalesAlongCols);
  }
  PackedShape empty = shapeOf({0, 0, 0}, 1, 128);
  EXPECT_TRUE(quantizeTokenLocal(nullptr, empty, true).payload.empty());
  EXPECT_TRUE(quantizeTokenBlock(nullptr, empty).scalesAlongRows.empty());
}

/// Inf and NaN tokens: byte 255 for the token (or the block), payload 0, and
/// nothing else is touched.
TEST(QuantizeTensorTest, NonFiniteTokens) {
  PackedShape shape = shapeOf({64}, 1, 128);
  std::vector<uint16_t> tensor = makeTensor(shape);
  TokenLocalTensor before = quantizeTokenLocal(tensor.data(), shape, true);
  TokenBlockTensor blockBefore = quantizeTokenBlock(tensor.data(), shape);
  for (uint16_t special : {0x7F80, 0xFF80, 0x7FC0, 0x7F81}) {
    std::vector<uint16_t> faulty = tensor;
    faulty[3 * 128 + 40] = special;
    TokenLocalTensor local = quantizeTokenLocal(faulty.data(), shape, true);
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(local.scales[off128x4(3, j)], 255);
    for (int64_t i = 0; i < 64 * 128; ++i)
      EXPECT_EQ(local.payload[i], i / 128 == 3 ? 0 : before.payload[i]);
    TokenBlockTensor block = quantizeTokenBlock(faulty.data(), shape);
    for (int64_t i = 0; i < 64 * 128; ++i) {
      bool inBlock = i / 128 < 32 && i % 128 >= 32 && i % 128 < 64;
      EXPECT_EQ(block.payload[i], inBlock ? 0 : blockBefore.payload[i]);
    }
    for (int64_t c = 0; c < 128; ++c)
      EXPECT_EQ(block.scalesAlongRows[off128x4(c, 0)],
                c >= 32 && c < 64
                    ? 255
                    : blockBefore.scalesAlongRows[off128x4(c, 0)]);
  }
}

} // namespace
