//===- Nvfp4Test.cpp - Format nvfp4: accuracy, range of g, exact scores ---===//
//
// Errors of the specification model in format nvfp4 from both sides, what the
// second-level scale holds, and structured inputs with exact scores.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

#define EXPECT_BETWEEN(value, low, high)                                       \
  do {                                                                         \
    double measured = value;                                                   \
    EXPECT_GE(measured, low);                                                  \
    EXPECT_LE(measured, high);                                                 \
  } while (false)

ForwardOptions nvfp4(bool rotate = true) {
  ForwardOptions options;
  options.format = Format::Nvfp4;
  options.rotate = rotate;
  return options;
}

double errorOfO(const AttentionInputs &inputs, const ForwardOptions &options) {
  return measureError(attentionForwardModel(inputs, options).o,
                      attentionFp64(inputs, options).o)
      .relativeFrobenius;
}

struct Errors {
  double o, dq, dk, dv;
};

Errors errorsOf(DataKind kind, bool rotate) {
  BackwardInputs inputs = makeBackwardInputs(shapeOf({1024}, 2, 2), kind, 1);
  BackwardOptions options;
  options.forward = nvfp4(rotate);
  Gradients gradients = attentionBackwardModel(inputs, options);
  GradientsFp64 exact = attentionBackwardFp64(inputs, options.forward);
  return {errorOfO(inputs.forward, options.forward),
          measureError(gradients.dq, exact.dq).relativeFrobenius,
          measureError(gradients.dk, exact.dk).relativeFrobenius,
          measureError(gradients.dv, exact.dv).relativeFrobenius};
}

/// Bounds around the means of docs/numerics.md, "Accuracy".
TEST(Nvfp4Test, Accuracy) {
  struct {
    DataKind kind;
    bool rotate;
    double o, dq, dk, dv;
  } rows[] = {{DataKind::Normal, true, .1196, .1317, .1317, .1200},
              {DataKind::OutlierChannels, true, .1520, .2222, .2222, .1526},
              {DataKind::OutlierChannels, false, .2043, .2928, .3036, .2045}};
  for (const auto &row : rows) {
    Errors errors = errorsOf(row.kind, row.rotate);
    double margin = row.rotate ? 0.07 : 0.25; // few blocks decide without
    SCOPED_TRACE(nameOf(row.kind));
    EXPECT_BETWEEN(errors.o, row.o * (1 - margin), row.o * (1 + margin));
    EXPECT_BETWEEN(errors.dq, row.dq * (1 - margin), row.dq * (1 + margin));
    EXPECT_BETWEEN(errors.dk, row.dk * (1 - margin), row.dk * (1 + margin));
    EXPECT_BETWEEN(errors.dv, row.dv * (1 - margin), row.dv * (1 + margin));
  }
}

/// Outlier channels of the design's size, in 8 sets of 8 draws: the rotation
/// takes a quarter off O's error at least, in the mean. A set's mean, which
/// issue 5 speaks of, depends on how many blocks of 16 channels the six fall
/// into: not every set reaches a quarter (docs/numerics.md).
TEST(Nvfp4Test, RotationCutsTheErrorOfOutlierChannels) {
  double rotated = 0, plain = 0, least = 1, most = 0;
  int reached = 0;
  for (uint64_t set = 0; set < 8; ++set) {
    double rotatedOfSet = 0, plainOfSet = 0;
    for (uint64_t seed = 8 * set + 1; seed <= 8 * set + 8; ++seed) {
      AttentionInputs inputs = designOutlierInputs(seed);
      std::vector<double> exact = attentionFp64(inputs, {}).o;
      auto error = [&](bool rotate) {
        return measureError(attentionForwardModel(inputs, nvfp4(rotate)).o,
                            exact)
            .relativeFrobenius;
      };
      rotatedOfSet += error(true);
      plainOfSet += error(false);
    }
    double cut = 1 - rotatedOfSet / plainOfSet;
    least = std::min(least, cut);
    most = std::max(most, cut);
    reached += cut >= 0.25;
    rotated += rotatedOfSet / 64;
    plain += plainOfSet / 64;
  }
  RecordProperty("rotated", std::to_string(rotated));
  RecordProperty("plain", std::to_string(plain));
  RecordProperty("least", std::to_string(least));
  RecordProperty("most", std::to_string(most));
  RecordProperty("sets_of_a_quarter", reached);
  EXPECT_LE(rotated, 0.75 * plain);
  EXPECT_GE(least, 0.18);
  EXPECT_LE(most, 0.38);
}

/// The data is the design's: MXFP8 without rotation has its errors.
TEST(Nvfp4Test, OutliersOfTheDesignsSize) {
  double rotated = 0, plain = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    AttentionInputs inputs = designOutlierInputs(seed);
    ForwardOptions unrotated;
    unrotated.rotate = false;
    rotated += errorOfO(inputs, {}) / 16;
    plain += errorOfO(inputs, unrotated) / 16;
  }
  EXPECT_BETWEEN(plain, 0.143 * 0.95, 0.143 * 1.05);
  EXPECT_BETWEEN(rotated, 0.051 * 0.93, 0.051 * 1.10);
}

//===----------------------------------------------------------------------===//
// The second-level scale
//===----------------------------------------------------------------------===//

struct RangeResult {
  double error, saturated, flushed; ///< shares of Q's blocks
};

/// Normal data whose mean token amax is \p amax in Q and K, scores unchanged.
RangeResult atAmax(double amax, float globalScale) {
  AttentionInputs inputs = makeInputs(shapeOf({512}), DataKind::Normal, 3);
  ForwardOptions options = nvfp4();
  options.queryGlobalScale = options.keyGlobalScale = globalScale;
  double softmaxScale = 1 / std::sqrt(128.0);
  for (std::vector<uint16_t> *tensor : {&inputs.q, &inputs.k}) {
    double mean = 0;
    for (size_t row = 0; row < tensor->size(); row += 128) {
      float values[128];
      bf16ToFloat(&(*tensor)[row], values, 128);
      mean += absMax(values, 128) / 512;
    }
    for (uint16_t &x : *tensor)
      x = floatToBF16(float(bf16ToFloat(x) * amax / mean));
    softmaxScale *= mean / amax;
  }
  options.softmaxScale = float(softmaxScale);
  Nvfp4Counts counts = quantizeInputs(inputs, options).qScores.counts;
  EXPECT_EQ(counts.blocks, 512 * 8);
  return {errorOfO(inputs, options),
          double(counts.saturated) / double(counts.blocks),
          double(counts.flushed) / double(counts.blocks)};
}

/// One massive channel, of which the rotation makes amax / sqrt(128) in every
/// channel: 0.5 to 1 times \p amax with either sign, in Q and K or in K alone,
/// the others standard normal; scores of unit size.
RangeResult withMassiveChannel(double amax, bool inBoth, float globalScale) {
  AttentionInputs inputs = makeInputs(shapeOf({512}), DataKind::Normal, 3);
  Random random(3, 99);
  for (std::vector<uint16_t> *tensor : {&inputs.q, &inputs.k})
    if (inBoth || tensor == &inputs.k)
      for (size_t i = 37; i < tensor->size(); i += 128) {
        double sign = random.nextUniform() < 0.5 ? -1 : 1;
        (*tensor)[i] = floatToBF16(
            float(sign * amax * (0.5 + 0.5 * random.nextUniform())));
      }
  ForwardOptions options = nvfp4();
  options.queryGlobalScale = options.keyGlobalScale = globalScale;
  double square = 7.0 / 12 * amax * amax;
  options.softmaxScale =
      float(1 / std::sqrt((inBoth ? square * square : square) + 127));
  Nvfp4Counts counts = quantizeInputs(inputs, options).kScores.counts;
  return {errorOfO(inputs, options),
          double(counts.saturated) / double(counts.blocks),
          double(counts.flushed) / double(counts.blocks)};
}

/// One massive channel of up to 3000 costs nothing at g = 2^-3: no block
/// saturates, and O's error is that of g = 1. At 8000 all do.
TEST(Nvfp4Test, OneMassiveChannel) {
  for (bool inBoth : {true, false}) {
    for (double amax : {100.0, 500.0, 1000.0, 2000.0, 3000.0}) {
      SCOPED_TRACE(amax);
      RangeResult inside = withMassiveChannel(amax, inBoth, defaultGlobalScale);
      double unit = withMassiveChannel(amax, inBoth, 1.0f).error;
      EXPECT_EQ(inside.saturated, 0);
      EXPECT_EQ(inside.flushed, 0);
      EXPECT_BETWEEN(inside.error, 0.98 * unit, 1.02 * unit);
      EXPECT_LE(inside.error, 0.13);
    }
    RangeResult outside = withMassiveChannel(8000, inBoth, defaultGlobalScale);
    EXPECT_GE(outside.saturated, 0.99);
    EXPECT_GE(outside.error, 3 * withMassiveChannel(8000, inBoth, 1.0f).error);
  }
}

/// A known limit: the same large value in one channel of all keys drowns the
/// other channels once the rotation has spread it, in both formats.
TEST(Nvfp4Test, ConstantMassiveChannelIsNotForTheRotation) {
  AttentionInputs inputs = makeInputs(shapeOf({512}), DataKind::Normal, 3);
  for (size_t i = 37; i < inputs.k.size(); i += 128)
    inputs.k[i] = floatToBF16(100);
  ForwardOptions plain;
  plain.rotate = false;
  EXPECT_LE(errorOfO(inputs, plain), 0.05);
  EXPECT_GE(errorOfO(inputs, {}), 0.15);
  EXPECT_GE(errorOfO(inputs, nvfp4()), 0.5);
}

/// g = 2^-3 holds its accuracy for token amax from 0.03 to 200, g = 1 from 0.3
/// to 1600, and beyond the counts say why not.
TEST(Nvfp4Test, RangeOfTheSecondLevelScale) {
  double base = atAmax(3, defaultGlobalScale).error;
  EXPECT_BETWEEN(base, 0.11, 0.13);
  for (auto [globalScale, unit] :
       {std::pair<float, double>{defaultGlobalScale, 1}, {1.0f, 8}}) {
    for (double amax : {0.03, 0.1, 1.0, 30.0, 200.0}) {
      RangeResult inside = atAmax(unit * amax, globalScale);
      EXPECT_LE(inside.error, 1.06 * base) << globalScale << " " << amax;
      EXPECT_EQ(inside.flushed, 0) << amax;
      EXPECT_LE(inside.saturated, 0.01) << amax;
    }
    RangeResult large = atAmax(unit * 1000, globalScale);
    EXPECT_GE(large.error, 3 * base);
    EXPECT_GE(large.saturated, 0.99);
    RangeResult small = atAmax(unit * 0.0005, globalScale);
    EXPECT_GE(small.error, 2 * base);
    EXPECT_GE(small.flushed, 0.5);
  }
}

/// Any g serves, also one that is no power of two, and each tensor has its own.
TEST(Nvfp4Test, SecondLevelScalesMoveIntoTheSoftmaxScale) {
  AttentionInputs inputs = makeInputs(shapeOf({200}), DataKind::Normal, 4);
  ForwardOptions options = nvfp4();
  ForwardOutputs base = attentionForwardModel(inputs, options);
  options.queryGlobalScale = 0x1p-5f;
  options.keyGlobalScale = 0x1p-1f;
  QuantizedInputs other = quantizeInputs(inputs, options);
  EXPECT_EQ(other.qScores.globalScale, 0x1p-5f);
  EXPECT_EQ(other.kScores.globalScale, 0x1p-1f);
  // Powers of two change nothing while scales stay normal.
  EXPECT_EQ(attentionForwardModel(other, options).o, base.o);
  options.queryGlobalScale = 0.1f;
  options.keyGlobalScale = 0.3f;
  other = quantizeInputs(inputs, options);
  float c = softmaxScaleOf(options, 128) * 1.44269504f;
  EXPECT_EQ(scoreFactorOf(other, options), (c * 0.1f) * 0.3f);
  EXPECT_BETWEEN(errorOfO(inputs, options), 0.10, 0.13);
  EXPECT_EQ(scoreFactorOf(quantizeInputs(inputs, {}), {}), c);
}

TEST(Nvfp4Test, SecondLevelScaleIsChecked) {
  ForwardOptions options = nvfp4();
  AttentionShape shape = shapeOf({3});
  EXPECT_TRUE(checkProblem(shape, options).empty());
  for (float bad : {0.0f, -1.0f, 0x1p-33f, 0x1p33f, INFINITY, NAN}) {
    options.keyGlobalScale = bad;
    EXPECT_NE(checkProblem(shape, options).find("second-level scale"),
              std::string::npos)
        << bad;
    ForwardOptions mxfp8 = options; // which has none
    mxfp8.format = Format::Mxfp8;
    EXPECT_TRUE(checkProblem(shape, mxfp8).empty());
  }
}

//===----------------------------------------------------------------------===//
// Exact scores
//===----------------------------------------------------------------------===//

/// SFL-4: every 16 channels of either operand with a scale of their own, over
/// both K = 64 slices: products from the wrong slice would show. One token, so
/// LSE is the score.
TEST(SFL, SFL4Nvfp4BlocksUseTheirOwnScales) {
  for (int64_t dim : {64, 128}) {
    AttentionInputs inputs = constantInputs(shapeOf({1}, 1, 1, dim), 0, 0, 1);
    double sum = 0;
    for (int64_t c = 0; c < dim; ++c) {
      // Codes 6: block scales are the values over 6 g.
      float q = std::ldexp(6.0f, int(c / 16) - 5);
      float k = c / 16 % 3 == 1 ? 12.0f : 6.0f;
      inputs.q[c] = floatToBF16(q);
      inputs.k[c] = floatToBF16(c % 5 == 0 ? -k : k);
      sum += double(q) * (c % 5 == 0 ? -k : k);
    }
    ForwardOptions options = nvfp4(false);
    options.softmaxScale = 0x1p-9f;
    QuantizedInputs quantized = quantizeInputs(inputs, options);
    for (int64_t b = 0; b < dim / 16; ++b)
      EXPECT_EQ(
          quantized.qScores.scales[b / 4 * atomBytes + off128x4(0, b % 4)],
          floatToUE4M3(std::ldexp(8.0f, int(b) - 5)));
    ForwardOutputs outputs = attentionForwardModel(quantized, options);
    EXPECT_NEAR(outputs.lse[0], sum * 0x1p-9, 0x1p-8); // p is a BF16 number
    EXPECT_GT(std::abs(sum), 100);
  }
}

/// A NaN token spoils its own row (Q) or the rows that see it (K), and the
/// gradients follow the E4M3 copies.
TEST(Nvfp4Test, NonFiniteTokens) {
  for (bool rotate : {true, false}) {
    AttentionInputs inputs = makeInputs(shapeOf({200}), DataKind::Normal, 6);
    ForwardOutputs clean = attentionForwardModel(inputs, nvfp4(rotate));
    AttentionInputs faultyQ = inputs, faultyK = inputs;
    at(faultyQ.q, inputs.shape, 1, 140, 0, 3) = 0x7FC0;
    at(faultyK.k, inputs.shape, 1, 140, 0, 3) = 0xFF80;
    ForwardOutputs q = attentionForwardModel(faultyQ, nvfp4(rotate));
    ForwardOutputs k = attentionForwardModel(faultyK, nvfp4(rotate));
    for (int64_t i = 0; i < 200; ++i) {
      EXPECT_EQ(std::isnan(outputAt(inputs, q, i, 7)), i == 140) << i;
      EXPECT_EQ(std::isnan(outputAt(inputs, k, i, 7)), i >= 140) << i;
      if (i < 140)
        EXPECT_EQ(outputAt(inputs, k, i, 7), outputAt(inputs, clean, i, 7));
    }
  }
}

/// SFL-2: padding of the UE4M3 arrays set to NaN changes no bit.
TEST(SFL, SFL2Nvfp4PaddingIsNotRead) {
  AttentionShape shape = shapeOf({5, 130}, 2, 1, 64);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 7);
  BackwardOptions options;
  options.forward = nvfp4();
  QuantizedInputs quantized = quantizeInputs(inputs.forward, options.forward);
  QuantizedInputs faulty = quantized;
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < 2; ++d)
    for (int64_t r = shape.length(d); r < (bases[d + 1] - bases[d]) * 128; ++r)
      for (int64_t j = 0; j < 4; ++j) {
        int64_t tile = bases[d] + r / 128;
        for (int64_t head = 0; head < 2; ++head)
          faulty.qScores
              .scales[(tile * 2 + head) * 512 + off128x4(r % 128, j)] =
              ue4m3NaN;
        faulty.kScores.scales[tile * 512 + off128x4(r % 128, j)] = ue4m3NaN;
      }
  EXPECT_NE(faulty.kScores.scales, quantized.kScores.scales);
  ForwardOutputs a = attentionForwardModel(quantized, options.forward);
  ForwardOutputs b = attentionForwardModel(faulty, options.forward);
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.lse, b.lse);
  Gradients ga = attentionBackwardModel(quantized, a, inputs.dO, {}, options);
  Gradients gb = attentionBackwardModel(faulty, b, inputs.dO, {}, options);
  EXPECT_EQ(ga.dq, gb.dq);
  EXPECT_EQ(ga.dk, gb.dk);
  EXPECT_EQ(ga.dv, gb.dv);
}

} // namespace
