//===- BackwardExactTest.cpp - Exact results of the backward --------------===//
//
// What the preparation writes, byte by byte and by its own formulas, and
// gradients of structured inputs whose exact values are known.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

TEST(BackwardExactTest, Preparation) {
  AttentionShape shape = shapeOf({3, 300, 0, 33}, 2, 1, 64);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 81);
  // Sizes that differ by token, and tokens of zeros.
  for (int64_t row = 0; row < shape.tokens() * 2; ++row)
    for (int64_t c = 0; c < 64; ++c) {
      uint16_t &x = inputs.dO[row * 64 + c];
      x = row % 11 == 3
              ? 0
              : floatToBF16(std::ldexp(bf16ToFloat(x), int(row % 13) - 6));
    }
  QuantizedInputs quantized = quantizeInputs(inputs.forward, {});
  ForwardOutputs forward = attentionForwardModel(quantized, {});
  PreparedGradient prepared =
      prepareBackward(quantized, forward, inputs.dO, {}, {});
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < 4; ++d)
    for (int64_t tile = 0; tile < bases[d + 1] - bases[d]; ++tile)
      for (int64_t head = 0; head < 2; ++head) {
        int64_t tileHead = (bases[d] + tile) * 2 + head;
        int64_t atom = tileHead * atomBytes, tileKv = bases[d] + tile;
        int64_t rows = std::min<int64_t>(128, shape.length(d) - tile * 128);
        int largestQ = 0, largestK = 0, blockLargest[4] = {};
        for (int64_t r = 0; r < rows; ++r) {
          auto byte = [&](const std::vector<uint8_t> &atoms, int64_t index) {
            return int(atoms[index * atomBytes + off128x4(r, 0)]);
          };
          largestQ = std::max(largestQ, byte(quantized.q.scales, tileHead));
          largestK = std::max(largestK, byte(quantized.k.scales, tileKv));
          blockLargest[r / 32] = std::max(blockLargest[r / 32],
                                          byte(prepared.dO.scales, tileHead));
        }
        EXPECT_EQ(prepared.queryTileScales[tileHead], largestQ);
        EXPECT_EQ(prepared.keyTileScales[tileKv], largestK);
        for (int64_t r = 0; r < 128; ++r)
          for (int64_t j = 0; j < 4; ++j) {
            int64_t at = atom + off128x4(r, j);
            int64_t atKv = tileKv * atomBytes + off128x4(r, j);
            // Rows are channels here, and blocks of 32 queries.
            bool block = r < 64 && j * 32 < rows;
            EXPECT_EQ(prepared.blockScales[at], block ? blockLargest[j] : 127);
            EXPECT_EQ(prepared.queryBlockScales[at],
                      block ? std::max(blockLargest[j] + largestQ - 135, 0)
                            : 127);
            EXPECT_EQ(prepared.keyBlockScales[atKv],
                      block ? largestK - 8 : 127);
            if (r >= rows || j >= 2) {
              EXPECT_EQ(prepared.dO.scales[at], 127);
              EXPECT_EQ(prepared.foldedScales[at], 127);
              EXPECT_EQ(prepared.foldedValueScales[atKv], 127);
              continue;
            }
            int left = std::min(blockLargest[r / 32] + largestQ - 135, 0);
            EXPECT_EQ(
                prepared.foldedScales[at],
                std::max(127 + quantized.q.scales[at] - largestQ + left, 0));
            EXPECT_EQ(prepared.foldedValueScales[atKv],
                      quantized.v.scalesAlongCols[atKv] +
                          quantized.k.scales[atKv] - largestK);
          }
        for (int64_t r = 0; r < rows; ++r) {
          int64_t token = shape.cuSeqlens[d] + tile * 128 + r;
          int64_t row = token * 2 + head;
          float values[64], reciprocal = 1 / forward.l[row];
          uint8_t payload[64];
          for (int64_t c = 0; c < 64; ++c)
            values[c] = bf16ToFloat(inputs.dO[row * 64 + c]) * reciprocal;
          uint8_t eO = quantizeBlockE4M3(values, 64, payload);
          int eQ = quantized.q.scales[atom + off128x4(r, 0)] - 127;
          int eK =
              quantized.k.scales[tileKv * atomBytes + off128x4(r, 0)] - 127;
          EXPECT_EQ(prepared.dO.scales[atom + off128x4(r, 0)], eO);
          double past = 0, diagonal = 0;
          for (int64_t c = 0; c < 64; ++c) {
            EXPECT_EQ(prepared.dO.payload[row * 64 + c], payload[c]);
            past += double(e4m3ToFloat(payload[c])) * forward.o[row * 64 + c];
            diagonal += double(values[c]) * forward.o[row * 64 + c];
          }
          past = std::ldexp(past * forward.kappa[row], eO - 127);
          diagonal *= forward.kappa[row];
          double tolerance = 1e-5 * std::ldexp(448.0, eO - 127);
          EXPECT_NEAR(prepared.dPast[row], past, tolerance);
          EXPECT_NEAR(prepared.dDiagonal[row], diagonal, tolerance);
          EXPECT_EQ(prepared.dPastHat[row],
                    std::ldexp(prepared.dPast[row],
                               eQ + 127 - largestQ - (eO - 127)));
          EXPECT_EQ(prepared.dDiagonalHat[row],
                    std::ldexp(prepared.dDiagonal[row], eQ));
          EXPECT_EQ(prepared.r[row], reciprocal);
          EXPECT_EQ(prepared.rHat[row], std::ldexp(reciprocal, eQ));
          EXPECT_EQ(prepared.bias[row], 8 - forward.m[row]);
          EXPECT_EQ(prepared.biasHat[row],
                    float(8 + eO - blockLargest[r / 32]) - forward.m[row]);
          EXPECT_EQ(prepared.keyFactors[token],
                    std::ldexp(1.0f, eK + 127 - largestK));
          EXPECT_EQ(prepared.diagonalKeyFactors[token], std::ldexp(1.0f, eK));
          EXPECT_EQ(row % 11 == 3, eO == 0);
        }
      }
}

/// Two tokens: weights 1 and 1/2, 1/2. Head dim 64, where a rotated one-hot
/// row is exact.
TEST(BackwardExactTest, TwoTokens) {
  AttentionShape shape = shapeOf({2}, 1, 1, 64);
  BackwardInputs inputs;
  inputs.forward = constantInputs(shape, 0, 0, 0);
  inputs.dO.assign(2 * 64, 0);
  auto set = [&](std::vector<uint16_t> &tensor, int64_t token, int64_t c,
                 float value) {
    at(tensor, shape, 1, token, 0, c) = floatToBF16(value);
  };
  set(inputs.forward.v, 0, 0, 1);
  set(inputs.forward.v, 1, 0, -1);
  set(inputs.dO, 1, 0, 1);
  // dS of query 1: 1/2 (1 - 0) and 1/2 (-1 - 0).
  BackwardInputs withK = inputs, withQ = inputs;
  set(withK.forward.k, 0, 3, 2);
  set(withQ.forward.q, 1, 5, 2);
  for (const BackwardInputs &problem : {withK, withQ}) {
    Gradients gradients = attentionBackwardModel(problem, {});
    GradientsFp64 exact = attentionBackwardFp64(problem, {});
    bool keys = at(problem.forward.k, shape, 1, 0, 0, 3) != 0;
    for (int64_t token = 0; token < 2; ++token)
      for (int64_t c = 0; c < 64; ++c) {
        float dq = keys && token == 1 && c == 3 ? 0.125f : 0.0f;
        float dk = !keys && c == 5 ? (token ? -0.125f : 0.125f) : 0.0f;
        float dv = c == 0 ? 0.5f : 0.0f;
        EXPECT_EQ(at(gradients.dq, shape, 1, token, 0, c), dq);
        EXPECT_EQ(at(gradients.dk, shape, 1, token, 0, c), dk);
        EXPECT_EQ(at(gradients.dv, shape, 1, token, 0, c), dv);
        EXPECT_NEAR(at(exact.dq, shape, 1, token, 0, c), dq, 1e-12);
        EXPECT_NEAR(at(exact.dk, shape, 1, token, 0, c), dk, 1e-12);
        EXPECT_NEAR(at(exact.dv, shape, 1, token, 0, c), dv, 1e-12);
      }
  }
}

/// 256 equal weights, from a diagonal and a past tile: everything is a power
/// of two, in FP8 as well.
TEST(BackwardExactTest, EqualWeightsOverTwoTiles) {
  for (bool causal : {true, false}) {
    AttentionShape shape = shapeOf({256}, 1, 1, 64);
    BackwardInputs inputs;
    inputs.forward = constantInputs(shape, 0, 0, 0);
    inputs.dO.assign(256 * 64, 0);
    at(inputs.dO, shape, 1, 255, 0, 0) = floatToBF16(1);
    for (int64_t j = 0; j < 256; ++j) {
      float sign = j % 2 ? -1.0f : 1.0f;
      at(inputs.forward.v, shape, 1, j, 0, 0) = floatToBF16(sign);
      at(inputs.forward.k, shape, 1, j, 0, 3) = floatToBF16(sign);
    }
    BackwardOptions options;
    options.forward.mask.causal = causal;
    Gradients gradients = attentionBackwardModel(inputs, options);
    for (int64_t i = 0; i < 256; ++i)
      for (int64_t c = 0; c < 64; ++c) {
        // dS = +-2^-8 against K = +-1: 256 terms of 2^-8, times 1/8.
        ASSERT_EQ(at(gradients.dq, shape, 1, i, 0, c),
                  i == 255 && c == 3 ? 0.125f : 0.0f);
        ASSERT_EQ(at(gradients.dk, shape, 1, i, 0, c), 0.0f);
        ASSERT_EQ(at(gradients.dv, shape, 1, i, 0, c), c == 0 ? 0x1p-8f : 0.0f);
      }
    inputs.forward.q = inputs.forward.k;
    std::fill(inputs.forward.k.begin(), inputs.forward.k.end(), uint16_t(0));
    gradients = attentionBackwardModel(inputs, options);
    for (int64_t i = 0; i < 256; ++i)
      for (int64_t c = 0; c < 64; ++c) {
        // Q of query 255 is -1 in channel 3.
        float expected = i % 2 ? 0x1p-11f : -0x1p-11f;
        ASSERT_EQ(at(gradients.dk, shape, 1, i, 0, c),
                  c == 3 ? expected : 0.0f);
        ASSERT_EQ(at(gradients.dq, shape, 1, i, 0, c), 0.0f);
      }
  }
}

} // namespace
