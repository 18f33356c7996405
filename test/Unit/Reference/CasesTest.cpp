//===- CasesTest.cpp - Public cases of the forward ------------------------===//
//
// Cases of the public list that the references can run; the test's name holds
// the case's id.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// LEAK-1: a future V value in the same 32-row scale block.
TEST(LEAK, LEAK1FutureValueInTheSameBlock) {
  auto run = [](int64_t future, bool safeguard,
                ScaleMode mode = ScaleMode::RoundUp) {
    AttentionInputs inputs = constantInputs(shapeOf({128}), 1, 1, 0);
    setV(inputs, 0, 0, 0x1p-20f);
    if (future >= 0)
      setV(inputs, future, 0, 1.0f);
    ForwardOptions options;
    options.safeguard = safeguard;
    options.scaleMode = mode;
    return attentionForwardModel(inputs, options).o;
  };
  std::vector<float> a = run(-1, true);
  EXPECT_EQ(a[7 * 128], 0x1p-23f);
  for (int64_t future : {16, 31, 32}) {
    std::vector<float> o = run(future, true);
    EXPECT_EQ(o[7 * 128], 0x1p-23f) << future;
    for (int64_t i = 0; i < future * 128; ++i)
      ASSERT_EQ(bitsOf(o[i]), bitsOf(a[i])) << future;
  }
  // The faulty design, to see that the test can fail. Its P is FP8, so row 7
  // is 2^-23 only to 3 bits.
  for (ScaleMode mode : {ScaleMode::RoundUp, ScaleMode::Floor, ScaleMode::Ceil,
                         ScaleMode::Even}) {
    float clean = run(-1, false, mode)[7 * 128];
    EXPECT_NEAR(clean, 0x1p-23f, 0x1p-27f);
    EXPECT_EQ(run(16, false, mode)[7 * 128], 0.0f);
    EXPECT_EQ(run(31, false, mode)[7 * 128], 0.0f);
    EXPECT_EQ(run(32, false, mode)[7 * 128], clean);
  }
}

/// LEAK-4: causal on every path.
TEST(LEAK, LEAK4CausalOnEveryPath) {
  for (int64_t headDim : {32, 64, 128})
    for (int path = 0; path < 3; ++path) {
      AttentionInputs inputs =
          constantInputs(shapeOf({64}, 1, 1, headDim), 0, 0, 0);
      for (int64_t c = 0; c < headDim; ++c)
        setV(inputs, 63, c, 1024);
      ForwardOptions options;
      options.bf16PvEverywhere = path == 1;
      options.safeguard = path != 2;
      ForwardOutputs outputs = attentionForwardModel(inputs, options);
      ForwardOutputsFp64 exact = attentionFp64(inputs, options);
      for (int64_t i = 0; i < 64 * headDim; ++i) {
        float expected = i / headDim == 63 ? 16.0f : 0.0f;
        ASSERT_EQ(outputs.o[i], expected);
        ASSERT_EQ(exact.o[i], expected);
      }
    }
}

/// QNT-9, forward: zero tiles.
TEST(QNT, QNT9ZeroTensors) {
  AttentionInputs inputs = makeInputs(shapeOf({200}), DataKind::Normal, 1);
  AttentionInputs zeroV = inputs, zeroQ = inputs;
  std::fill(zeroV.v.begin(), zeroV.v.end(), uint16_t(0));
  std::fill(zeroQ.q.begin(), zeroQ.q.end(), uint16_t(0));
  for (float x : attentionForwardModel(zeroV, {}).o)
    EXPECT_EQ(x, 0.0f);
  ForwardOutputs equal = attentionForwardModel(zeroQ, {});
  for (int64_t i = 0; i < 200; ++i)
    EXPECT_NEAR(equal.lse[i], std::log(double(i + 1)), 1e-6 * (i + 1));
}

/// QNT-11: small weights survive the cast of P to FP8, whichever way the key
/// tiles run.
TEST(QNT, QNT11SmallProbabilitiesSurvive) {
  for (int64_t large : {int64_t(0), int64_t(1023)})
    for (bool causal : {true, false}) {
      AttentionShape shape = shapeOf({1024}, 1, 1, 64);
      AttentionInputs inputs = constantInputs(shape, 0, 0, 1);
      // Only channel 5 counts: rotation by 64 channels is exact.
      for (int64_t i = 0; i < 1024; ++i)
        at(inputs.q, shape, 1, i, 0, 5) = floatToBF16(8);
      at(inputs.k, shape, 1, large, 0, 5) = floatToBF16(8);
      for (int64_t c = 0; c < 64; ++c)
        setV(inputs, large, c, 0);
      ForwardOptions options;
      options.mask.causal = causal;
      ForwardOutputs outputs = attentionForwardModel(inputs, options);
      double expected = 1023 * std::exp(-8.0) / (1 + 1023 * std::exp(-8.0));
      EXPECT_NEAR(expected, 0.255497, 1e-6);
      for (int64_t c = 0; c < 64; ++c)
        EXPECT_NEAR(outputAt(inputs, outputs, 1023, c), expected,
                    0.01 * expected)
            << "0 is the fault; large key " << large;
    }
}

/// VAR-3: results do not depend on what was in memory before: nothing is
/// accumulated into outputs.
TEST(VAR, VAR3RunsAreIndependent) {
  AttentionInputs inputs = makeInputs(shapeOf({5, 130}), DataKind::Normal, 4);
  ForwardOutputs first = attentionForwardModel(inputs, {});
  AttentionInputs other = makeInputs(shapeOf({130, 5}), DataKind::Normal, 9);
  attentionForwardModel(other, {});
  ForwardOutputs second = attentionForwardModel(inputs, {});
  EXPECT_EQ(first.o, second.o);
  EXPECT_EQ(first.l, second.l);
  for (float x : first.o)
    EXPECT_TRUE(std::isfinite(x));
}

/// VAR-4 and SFL-2: what lies behind the pack, and in the padding of scale
/// arrays, does not matter.
TEST(VAR, VAR4RowsAfterThePackDoNotMatter) {
  AttentionShape shape = shapeOf({200, 150, 47}, 8, 8);
  AttentionInputs inputs = makeInputs(shape, DataKind::Normal, 6);
  ForwardOptions options;
  ForwardOutputs expected = attentionForwardModel(inputs, options);
  for (uint16_t fill : {0x7FC0, 0x7F80, 0x0000}) {
    AttentionInputs longer = inputs;
    longer.k.resize(640 * 8 * 128, fill);
    longer.v.resize(640 * 8 * 128, fill);
    ForwardOutputs outputs = attentionForwardModel(longer, options);
    EXPECT_EQ(outputs.o, expected.o);
    EXPECT_EQ(outputs.lse, expected.lse);
  }
  QuantizedInputs quantized = quantizeInputs(inputs, options);
  for (auto *payload : {&quantized.k.payload, &quantized.v.payload})
    payload->resize(640 * 8 * 128, 0x7F);
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < 3; ++d)
    for (int64_t i = shape.length(d); i < (bases[d + 1] - bases[d]) * 128; ++i)
      for (int64_t head = 0; head < 8; ++head) {
        int64_t atom = ((bases[d] + i / 128) * 8 + head) * atomBytes;
        for (int64_t j = 0; j < 4; ++j) {
          quantized.q.scales[atom + off128x4(i % 128, j)] = 255;
          quantized.k.scales[atom + off128x4(i % 128, j)] = 255;
        }
        if (i % 32 == 0)
          for (int64_t c = 0; c < 128; ++c)
            quantized.v.scalesAlongRows[atom + off128x4(c, i % 128 / 32)] = 255;
      }
  ForwardOutputs outputs = attentionForwardModel(quantized, options);
  EXPECT_EQ(outputs.o, expected.o);
  EXPECT_EQ(outputs.lse, expected.lse);
}

/// VAR-6: lengths around every block and tile size.
TEST(VAR, VAR6LengthsThatAreNoMultiples) {
  for (int64_t length :
       {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 255, 257})
    for (bool causal : {true, false}) {
      AttentionInputs inputs =
          makeInputs(shapeOf({length}, 4, 4), DataKind::Normal, 8);
      ForwardOptions options;
      options.mask.causal = causal;
      ForwardOutputs outputs = attentionForwardModel(inputs, options);
      ForwardOutputsFp64 exact = attentionFp64(inputs, options);
      EXPECT_LE(measureError(outputs.o, exact.o).relativeFrobenius, 0.06)
          << length;
      EXPECT_LE(measureError(outputs.lse, exact.lse).maxAbs, 0.2) << length;
      std::fill(inputs.v.begin(), inputs.v.end(), floatToBF16(1));
      ForwardOutputs ones = attentionForwardModel(inputs, options);
      for (size_t i = 0; i < ones.o.size(); ++i) {
        // Tiles on the diagonal are as exact as BF16. Elsewhere P is rounded
        // to E4M3 and l is not: a row may miss 1 by the rounding of a single
        // weight, 2^-4 at most.
        bool bf16 = causal && int64_t(i) / (4 * 128) < 128;
        ASSERT_NEAR(ones.o[i], 1.0f, bf16 ? 0x1p-8f : 0x1p-4f) << length;
      }
    }
}

/// VAR-8: documents of one token give V back, bit for bit.
TEST(VAR, VAR8DocumentsOfOneToken) {
  AttentionInputs inputs =
      makeInputs(shapeOf(std::vector<int64_t>(64, 1)), DataKind::Normal, 10);
  ForwardOptions options;
  ForwardOutputs outputs = attentionForwardModel(inputs, options);
  QuantizedInputs quantized = quantizeInputs(inputs, options);
  std::vector<float> q = dequantize(quantized.q, inputs.shape.queryShape());
  std::vector<float> k = dequantize(quantized.k, inputs.shape.keyShape());
  for (int64_t i = 0; i < 64; ++i) {
    double dot = 0;
    for (int64_t c = 0; c < 128; ++c) {
      EXPECT_EQ(bitsOf(outputAt(inputs, outputs, i, c)),
                bitsOf(bf16ToFloat(inputs.v[i * 128 + c])));
      dot += double(q[i * 128 + c]) * k[i * 128 + c];
    }
    // One key: its weight is rounded to BF16 before the logarithm.
    EXPECT_NEAR(outputs.lse[i], dot / std::sqrt(128.0), 0x1p-8);
    EXPECT_EQ(outputs.kappa[i], 1.0f);
  }
}

/// SMX-3: windows that cover everything are the causal mask.
TEST(SMX, SMX3WindowsThatCoverEverything) {
  for (int64_t length : {256, 129}) {
    AttentionInputs inputs =
        makeInputs(shapeOf({length}), DataKind::Normal, 12);
    AttentionInputs oneHot = inputs;
    std::fill(oneHot.v.begin(), oneHot.v.end(), uint16_t(0));
    for (int64_t j = 0; j < length; ++j)
      setV(oneHot, j, j % 128, 1);
    ForwardOptions causal;
    ForwardOutputs expected = attentionForwardModel(inputs, causal);
    ForwardOutputs expectedOneHot = attentionForwardModel(oneHot, causal);
    for (int64_t left : {int64_t(-1), int64_t(256), int64_t(255)}) {
      ForwardOptions window;
      window.mask = {false, left, 0};
      EXPECT_EQ(attentionForwardModel(inputs, window).o, expected.o);
      EXPECT_EQ(attentionForwardModel(oneHot, window).o, expectedOneHot.o);
      EXPECT_EQ(attentionFp64(inputs, window).o,
                attentionFp64(inputs, causal).o);
    }
    // And one that does not, to see that windows count.
    ForwardOptions narrow;
    narrow.mask.windowLeft = 100;
    ForwardOutputs outputs = attentionForwardModel(inputs, narrow);
    EXPECT_NE(outputs.o, expected.o);
    EXPECT_LE(measureError(outputs.o, attentionFp64(inputs, narrow).o)
                  .relativeFrobenius,
              0.05);
  }
}

/// SMX-4: a softmax scale of 0 gives the mean of the visible rows.
TEST(SMX, SMX4SoftmaxScaleZero) {
  AttentionInputs inputs = makeInputs(shapeOf({8}), DataKind::Normal, 13);
  for (int64_t j = 0; j < 8; ++j)
    for (int64_t c = 0; c < 128; ++c)
      setV(inputs, j, c, float(j));
  ForwardOptions options;
  options.softmaxScale = 0;
  ForwardOutputs outputs = attentionForwardModel(inputs, options);
  ForwardOutputsFp64 exact = attentionFp64(inputs, options);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(outputAt(inputs, outputs, i, 5), float(i) / 2);
    EXPECT_DOUBLE_EQ(exact.o[i * 128 + 5], double(i) / 2);
    EXPECT_NEAR(outputs.lse[i], std::log(i + 1.0), 1e-6);
  }
}

/// BWD-4, forward part: query head h reads kv head h / (H / G).
TEST(BWD, BWD4HeadMapping) {
  for (auto [heads, kvHeads] :
       {std::pair<int64_t, int64_t>{8, 2}, {6, 3}, {12, 4}, {5, 1}}) {
    AttentionShape shape = shapeOf({1, 140}, heads, kvHeads);
    AttentionInputs inputs = constantInputs(shape, 0, 0, 0);
    for (int64_t i = 0; i < shape.tokens(); ++i)
      for (int64_t g = 0; g < kvHeads; ++g)
        for (int64_t c = 0; c < 128; ++c)
          at(inputs.v, shape, kvHeads, i, g, c) = floatToBF16(float(g + 1));
    ForwardOutputs outputs = attentionForwardModel(inputs, {});
    ForwardOutputsFp64 exact = attentionFp64(inputs, {});
    for (int64_t i = 0; i < shape.tokens(); ++i)
      for (int64_t h = 0; h < heads; ++h) {
        float expected = float(h / (heads / kvHeads) + 1);
        EXPECT_EQ(at(outputs.o, shape, heads, i, h, 17), expected);
        EXPECT_NEAR(at(exact.o, shape, heads, i, h, 17), expected, 1e-12);
      }
  }
}

/// IDX-3 in small: a long document of equal scores.
TEST(IDX, IDX3LongDocument) {
  AttentionInputs inputs = constantInputs(shapeOf({3072}), 0, 0, 1);
  ForwardOutputs outputs = attentionForwardModel(inputs, {});
  for (int64_t i = 0; i < 3072; ++i) {
    EXPECT_EQ(outputAt(inputs, outputs, i, 3), 1.0f);
    EXPECT_NEAR(outputs.lse[i], std::log(double(i + 1)), 1e-6 * 10);
  }
  std::fill(inputs.v.begin(), inputs.v.end(), uint16_t(0));
  for (int64_t j = 0; j < 3072; ++j)
    setV(inputs, j, j / 1024, 1);
  outputs = attentionForwardModel(inputs, {});
  for (int64_t block = 0; block < 3; ++block)
    EXPECT_NEAR(outputAt(inputs, outputs, 3071, block), 1.0 / 3, 0x1p-9);
}

} // namespace
