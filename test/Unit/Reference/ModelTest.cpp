//===- ModelTest.cpp - The specification model, step by step --------------===//
//
// The model against a second, plain implementation of docs/numerics.md that
// works row by row on the arrays the kernels get, and exact results on
// structured inputs.
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

constexpr float infinity = std::numeric_limits<float>::infinity();

float kernelRowSum(const std::vector<float> &x) {
  float p[8] = {};
  for (int i = 0; i < 8; ++i)
    for (size_t k = size_t(i); k < x.size(); k += 8)
      p[i] = k < 8 ? x[k] : p[i] + x[k];
  return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

/// One row of one head, as docs/numerics.md has it.
struct PlainRow {
  std::vector<float> o;
  float lse, m, l, kappa;
};

PlainRow plainRow(const QuantizedInputs &inputs, const ForwardOptions &options,
                  int64_t document, int64_t i, int64_t head) {
  const AttentionShape &shape = inputs.shape;
  int64_t dim = shape.headDim, begin = shape.cuSeqlens[document];
  int64_t length = shape.length(document);
  int64_t kvHead = head * shape.kvHeads / shape.heads;
  std::vector<float> q = dequantize(inputs.q, shape.queryShape());
  std::vector<float> k = dequantize(inputs.k, shape.keyShape());
  std::vector<float> v = dequantize(inputs.v, shape.keyShape());
  if (inputs.format == Format::Nvfp4) {
    q = dequantize(inputs.qScores, shape.queryShape());
    k = dequantize(inputs.kScores, shape.keyShape());
  }

  float c = softmaxScaleOf(options, dim) * 1.44269504f;
  float m = -infinity, l = 0, d = 0;
  std::vector<float> acc(dim, 0.0f);
  bool causal = options.mask.causal;
  int64_t lastTile = causal ? i / 128 : (length - 1) / 128;
  for (int64_t tile = lastTile; tile >= 0; --tile) {
    bool diagonal = causal && tile == i / 128;
    std::vector<float> s(128, 0.0f), p(128, 0.0f), weight(128, 0.0f);
    std::vector<bool> seen(128, false);
    float rowMax = -infinity;
    for (int64_t t = 0; t < 128; ++t) {
      int64_t j = tile * 128 + t;
      seen[t] = j < length && (!causal || j <= i);
      if (!seen[t])
        continue;
      double sum = 0;
      for (int64_t e = 0; e < dim; ++e)
        sum += double(q[((begin + i) * shape.heads + head) * dim + e]) *
               k[((begin + j) * shape.kvHeads + kvHead) * dim + e];
      s[t] = float(sum);
      rowMax = std::max(rowMax, s[t]);
    }
    float mNew = std::max(m, std::ceil(rowMax * c));
    float alpha = std::exp2(m - mNew);
    float pMax = 0;
    for (int64_t t = 0; t < 128; ++t) {
      if (!seen[t])
        continue;
      p[t] = float(std::exp2(double(std::fma(s[t], c, 8 - mNew))));
      if (diagonal)
        p[t] = roundToBF16(p[t]);
      weight[t] = diagonal ? p[t] : e4m3ToFloat(floatToE4M3(p[t]));
      pMax = std::max(pMax, p[t]);
    }
    float rounded = diagonal ? pMax : e4m3ToFloat(floatToE4M3(pMax));
    l = std::fma(l, alpha, kernelRowSum(p));
    d = std::fma(d, alpha, rounded - pMax);
    m = mNew;
    for (int64_t e = 0; e < dim; ++e) {
      double sum = 0;
      for (int64_t t = 0; t < 128 && tile * 128 + t < length; ++t) {
        int64_t offset =
            ((begin + tile * 128 + t) * shape.kvHeads + kvHead) * dim + e;
        sum += double(weight[t]) *
               (diagonal ? bf16ToFloat(inputs.vBf16[offset]) : v[offset]);
      }
      acc[e] = float(double(acc[e] * alpha) + sum);
    }
  }
  PlainRow row;
  for (int64_t e = 0; e < dim; ++e)
    row.o.push_back(roundToBF16(acc[e] * (1 / l)));
  row.m = m;
  row.l = l / 256;
  row.kappa = l / (l + d);
  row.lse = (m + float(std::log2(double(l / 256)))) * 0.693147182f;
  return row;
}

/// Both formats; the second-level scale is a power of two here, so that it does
/// not matter whether S or c carries it.
TEST(ModelTest, EqualsThePlainImplementation) {
  for (auto [format, causal] : {std::pair<Format, bool>{Format::Mxfp8, true},
                                {Format::Mxfp8, false},
                                {Format::Nvfp4, true},
                                {Format::Nvfp4, false}})
    for (int64_t headDim : {64, 128})
      for (DataKind kind : {DataKind::Normal, DataKind::LlmLike}) {
        AttentionShape shape = shapeOf({3, 300, 1, 160}, 2, 1, headDim);
        AttentionInputs inputs = makeInputs(shape, kind, 5);
        ForwardOptions options;
        options.format = format;
        options.mask.causal = causal;
        QuantizedInputs quantized = quantizeInputs(inputs, options);
        ForwardOutputs outputs = attentionForwardModel(quantized, options);
        for (auto [document, i] : {std::pair<int64_t, int64_t>{0, 0},
                                   {0, 2},
                                   {1, 0},
                                   {1, 31},
                                   {1, 127},
                                   {1, 128},
                                   {1, 257},
                                   {1, 299},
                                   {2, 0},
                                   {3, 140}}) {
          PlainRow row = plainRow(quantized, options, document, i, 1);
          int64_t index = (shape.cuSeqlens[document] + i) * 2 + 1;
          EXPECT_EQ(outputs.m[index], row.m) << document << " " << i;
          EXPECT_EQ(outputs.l[index], row.l) << document << " " << i;
          EXPECT_EQ(outputs.kappa[index], row.kappa) << document << " " << i;
          EXPECT_EQ(outputs.lse[index], row.lse) << document << " " << i;
          for (int64_t c = 0; c < headDim; ++c)
            EXPECT_EQ(outputs.o[index * headDim + c], row.o[c])
                << document << " " << i << " " << c;
        }
      }
}

TEST(ModelTest, ThreadsDoNotMatter) {
  AttentionInputs inputs =
      makeInputs(shapeOf({5, 130, 400}, 4, 2), DataKind::Normal, 11);
  ForwardOptions one, three;
  one.threads = 1;
  three.threads = 3;
  ForwardOutputs a = attentionForwardModel(inputs, one);
  ForwardOutputs b = attentionForwardModel(inputs, three);
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.lse, b.lse);
  EXPECT_EQ(a.kappa, b.kappa);
}

/// Equal scores and V = identity: row i holds i+1 weights, all the same.
TEST(ModelTest, IdentityVShowsTheWeights) {
  AttentionInputs inputs = constantInputs(shapeOf({128}), 1, 1, 0);
  for (int64_t j = 0; j < 128; ++j)
    setV(inputs, j, j, 1);
  ForwardOptions options;
  ForwardOutputs outputs = attentionForwardModel(inputs, options);
  for (int64_t i = 0; i < 128; ++i) {
    float expected = roundToBF16(1.0f / float(i + 1));
    for (int64_t j = 0; j < 128; ++j)
      EXPECT_EQ(outputAt(inputs, outputs, i, j), j <= i ? expected : 0.0f)
          << i << " " << j;
  }
}

/// A query that hits one key of a past tile by a weight of 2^64 against the
/// others: O is that key's dequantized V, exactly, whatever V its block holds.
TEST(ModelTest, OneHotQueryPicksOneKey) {
  AttentionShape shape = shapeOf({256}, 1, 1, 64);
  AttentionInputs inputs = constantInputs(shape, 0, 0, 0);
  // Powers of two: exact in E4M3 beside others of their block.
  for (int64_t j = 0; j < 256; ++j)
    for (int64_t c = 0; c < 64; ++c)
      setV(inputs, j, c, std::ldexp(1.0f, int(j + c) % 8));
  int64_t chosen = 77;
  at(inputs.k, shape, 1, chosen, 0, 5) = floatToBF16(64);
  for (int64_t i = 128; i < 256; ++i)
    at(inputs.q, shape, 1, i, 0, 5) = floatToBF16(1);
  ForwardOptions options;
  options.softmaxScale = 0.693147181f; // one unit of score is one power of two
  for (bool rotate : {true, false}) {
    options.rotate = rotate;
    ForwardOutputs outputs = attentionForwardModel(inputs, options);
    for (int64_t i = 128; i < 256; ++i) {
      for (int64_t c = 0; c < 64; ++c)
        EXPECT_EQ(outputAt(inputs, outputs, i, c),
                  std::ldexp(1.0f, int(chosen + c) % 8));
      EXPECT_FLOAT_EQ(outputs.lse[i], 64 * 0.693147181f);
      EXPECT_EQ(outputs.m[i], 64.0f);
      EXPECT_EQ(outputs.l[i], 1.0f);
      EXPECT_EQ(outputs.kappa[i], 1.0f);
    }
  }
}

/// Rows with a single dominant weight in a past tile: kappa undoes its
/// rounding, O times kappa is nearer to V than O.
TEST(ModelTest, KappaUndoesTheRoundingOfTheLargestWeight) {
  AttentionShape shape = shapeOf({256}, 1, 1, 64);
  AttentionInputs inputs = constantInputs(shape, 0, 0, 1);
  at(inputs.k, shape, 1, 0, 0, 5) = floatToBF16(64);
  at(inputs.q, shape, 1, 200, 0, 5) = floatToBF16(8);
  ForwardOptions options;
  ForwardOutputs outputs = attentionForwardModel(inputs, options);
  // The weight is 2^(64 log2 e - 93 + 8) = 2^(7.33..), payload nearest.
  float weight = float(std::exp2(64 * 1.4426950408889634 - 85));
  float rounded = e4m3ToFloat(floatToE4M3(weight));
  EXPECT_NE(weight, rounded);
  EXPECT_NEAR(outputs.kappa[200], weight / rounded, 1e-5);
  EXPECT_EQ(outputAt(inputs, outputs, 200, 0), roundToBF16(rounded / weight));
  // On diagonal tiles every use of P sees the rounded values.
  for (int64_t i = 0; i < 128; ++i)
    EXPECT_EQ(outputs.kappa[i], 1.0f);
}

/// A window of the query alone gives V back.
TEST(ModelTest, WindowOfOneKey) {
  AttentionInputs inputs = makeInputs(shapeOf({130}), DataKind::Normal, 3);
  ForwardOptions options;
  options.mask = {false, 0, 0};
  ForwardOutputs outputs = attentionForwardModel(inputs, options);
  for (int64_t i = 0; i < 130 * 128; ++i)
    EXPECT_EQ(outputs.o[i], bf16ToFloat(inputs.v[i]));
}

/// NaN and Inf: a token's Q spoils its own row, a token's K the rows that see
/// it, and no other row changes a bit.
TEST(ModelTest, NonFiniteTokensSpoilOnlyTheRowsThatSeeThem) {
  AttentionShape shape = shapeOf({300});
  AttentionInputs inputs = makeInputs(shape, DataKind::Normal, 2);
  ForwardOptions options;
  ForwardOutputs clean = attentionForwardModel(inputs, options);
  for (uint16_t special : {0x7F80, 0x7FC0}) {
    AttentionInputs faultyQ = inputs, faultyK = inputs;
    at(faultyQ.q, shape, 1, 140, 0, 3) = special;
    at(faultyK.k, shape, 1, 140, 0, 3) = special;
    ForwardOutputs q = attentionForwardModel(faultyQ, options);
    ForwardOutputs k = attentionForwardModel(faultyK, options);
    for (int64_t i = 0; i < 300; ++i)
      for (int64_t c : {0, 77}) {
        float expected = outputAt(inputs, clean, i, c);
        if (i == 140)
          EXPECT_TRUE(std::isnan(outputAt(inputs, q, i, c)));
        else
          EXPECT_EQ(outputAt(inputs, q, i, c), expected);
        if (i >= 140)
          EXPECT_TRUE(std::isnan(outputAt(inputs, k, i, c))) << i;
        else
          EXPECT_EQ(outputAt(inputs, k, i, c), expected) << i;
      }
  }
}

} // namespace
