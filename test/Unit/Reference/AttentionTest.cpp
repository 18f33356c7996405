//===- AttentionTest.cpp - fp64 attention ---------------------------------===//
//
// The fp64 reference against a plain three-loop softmax, and the error
// measures.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::reference;

namespace {

bool isVisible(const MaskOptions &mask, int64_t i, int64_t j) {
  return (!mask.causal || j <= i) &&
         (mask.windowLeft < 0 || j >= i - mask.windowLeft) &&
         (mask.windowRight < 0 || j <= i + mask.windowRight);
}

/// The definition, without tiles.
ForwardOutputsFp64 plainAttention(const AttentionInputs &inputs,
                                  const ForwardOptions &options) {
  const AttentionShape &shape = inputs.shape;
  ForwardOutputsFp64 outputs;
  outputs.o.resize(shape.tokens() * shape.heads * shape.headDim);
  outputs.lse.resize(shape.tokens() * shape.heads);
  double scale = softmaxScaleOf(options, shape.headDim);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t i = 0; i < shape.length(d); ++i)
      for (int64_t head = 0; head < shape.heads; ++head) {
        int64_t kvHead = head * shape.kvHeads / shape.heads;
        int64_t begin = shape.cuSeqlens[d];
        std::vector<double> scores(shape.length(d),
                                   -std::numeric_limits<double>::infinity());
        double maximum = -std::numeric_limits<double>::infinity();
        for (int64_t j = 0; j < shape.length(d); ++j) {
          if (!isVisible(options.mask, i, j))
            continue;
          double dot = 0;
          for (int64_t c = 0; c < shape.headDim; ++c)
            dot += double(numerics::bf16ToFloat(
                       at(inputs.q, shape, shape.heads, begin + i, head, c))) *
                   numerics::bf16ToFloat(at(inputs.k, shape, shape.kvHeads,
                                            begin + j, kvHead, c));
          scores[j] = dot * scale;
          maximum = std::max(maximum, scores[j]);
        }
        double norm = 0;
        for (double score : scores)
          norm += std::exp(score - maximum);
        for (int64_t c = 0; c < shape.headDim; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < shape.length(d); ++j)
            sum += std::exp(scores[j] - maximum) *
                   numerics::bf16ToFloat(at(inputs.v, shape, shape.kvHeads,
                                            begin + j, kvHead, c));
          at(outputs.o, shape, shape.heads, begin + i, head, c) = sum / norm;
        }
        outputs.lse[(begin + i) * shape.heads + head] =
            maximum + std::log(norm);
      }
  return outputs;
}

void expectNear(const std::vector<double> &values,
                const std::vector<double> &expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(values[i] - expected[i]));
  EXPECT_LE(worst, tolerance);
}

TEST(AttentionFp64Test, EqualsTheDefinition) {
  std::vector<MaskOptions> masks(5);
  masks[1].causal = false;
  masks[2].windowLeft = 40;
  masks[3] = {false, 20, 150};
  masks[4] = {false, 200, 0};
  for (const MaskOptions &mask : masks)
    for (int64_t headDim : {32, 64, 128}) {
      AttentionInputs inputs =
          makeInputs(shapeOf({1, 0, 150, 33, 128}, 4, 2, headDim),
                     DataKind::OutlierChannels, 7);
      ForwardOptions options;
      options.mask = mask;
      ForwardOutputsFp64 outputs = attentionFp64(inputs, options);
      ForwardOutputsFp64 expected = plainAttention(inputs, options);
      expectNear(outputs.o, expected.o, 1e-11);
      expectNear(outputs.lse, expected.lse, 1e-11);
    }
}

TEST(AttentionFp64Test, ThreadsDoNotMatter) {
  AttentionInputs inputs =
      makeInputs(shapeOf({300, 17, 129}, 2, 1, 64), DataKind::LlmLike, 3);
  ForwardOptions one, three;
  one.threads = 1;
  three.threads = 3;
  ForwardOutputsFp64 a = attentionFp64(inputs, one);
  ForwardOutputsFp64 b = attentionFp64(inputs, three);
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.lse, b.lse);
}

TEST(ShapeTest, ErrorsNameTheValues) {
  EXPECT_EQ(checkShape(shapeOf({5}, 4, 2)), "");
  EXPECT_EQ(checkShape(shapeOf({5}, 4, 3)),
            "expected the number of heads to be a multiple of the 3 kv heads, "
            "but found 4");
  EXPECT_EQ(checkShape(shapeOf({5}, 4, 0)),
            "expected a positive number of kv heads, but found 0");
  EXPECT_EQ(checkShape(shapeOf({5}, 4, 4, 96)),
            "expected a head dimension of 32, 64 or 128, but found 96");
}

TEST(CompareTest, Measures) {
  using Floats = std::vector<float>;
  ErrorMeasure same = measureError(Floats{1, 2, 3}, Floats{1, 2, 3});
  EXPECT_EQ(same.relativeFrobenius, 0);
  EXPECT_EQ(same.maxAbs, 0);
  EXPECT_EQ(same.values, 3);
  ErrorMeasure error = measureError(Floats{3, 4.5f}, Floats{3, 4});
  EXPECT_DOUBLE_EQ(error.relativeFrobenius, 0.1);
  EXPECT_EQ(error.maxAbs, 0.5);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(measureError(Floats{-infinity}, Floats{-infinity}).maxAbs, 0);
  EXPECT_EQ(measureError(Floats{infinity}, Floats{-infinity}).maxAbs, infinity);
  // Wrong in every way a check could overlook.
  EXPECT_EQ(measureError(Floats{std::nanf("")}, Floats{1}).relativeFrobenius,
            infinity);
  EXPECT_EQ(measureError(Floats{1}, Floats{std::nanf("")}).maxAbs, infinity);
  EXPECT_EQ(measureError(Floats{1}, Floats{1, 2}).maxAbs, infinity);
  EXPECT_EQ(measureError(Floats{1}, Floats{0}).relativeFrobenius, infinity);
}

} // namespace
