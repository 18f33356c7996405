//===- AccuracyTest.cpp - Errors against fp64, and speed ------------------===//
//
// The errors design and docs/numerics.md state, measured. A bound on both
// sides: less error than the formats allow would mean that something was not
// quantized.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <chrono>
#include <cmath>

using namespace flamia;
using namespace flamia::reference;

namespace {

AttentionInputs inputsOf(DataKind kind) {
  return makeInputs(shapeOf({1024}, 4, 4), kind, 1);
}

double errorOf(const AttentionInputs &inputs, const ForwardOptions &options) {
  ForwardOutputsFp64 exact = attentionFp64(inputs, options);
  double error = measureError(attentionForwardModel(inputs, options).o, exact.o)
                     .relativeFrobenius;
  ::testing::Test::RecordProperty("error", std::to_string(error));
  return error;
}

#define EXPECT_BETWEEN(value, low, high)                                       \
  do {                                                                         \
    double measured = value;                                                   \
    EXPECT_GE(measured, low);                                                  \
    EXPECT_LE(measured, high);                                                 \
  } while (false)

TEST(AccuracyTest, NormalData) {
  AttentionInputs inputs = inputsOf(DataKind::Normal);
  ForwardOptions options;
  EXPECT_BETWEEN(errorOf(inputs, options), 0.036, 0.040);
  ForwardOptions bf16;
  bf16.bf16PvEverywhere = true;
  EXPECT_BETWEEN(errorOf(inputs, bf16), 0.030, 0.034);
  ForwardOptions leaky;
  leaky.safeguard = false;
  EXPECT_BETWEEN(errorOf(inputs, leaky), 0.046, 0.052);
}

TEST(AccuracyTest, RotationCutsTheErrorOfOutlierChannels) {
  ForwardOptions plain;
  plain.rotate = false;
  AttentionInputs outliers = inputsOf(DataKind::OutlierChannels);
  EXPECT_BETWEEN(errorOf(outliers, {}), 0.045, 0.057);
  EXPECT_BETWEEN(errorOf(outliers, plain), 0.11, 0.16);
  AttentionInputs llmLike = inputsOf(DataKind::LlmLike);
  EXPECT_BETWEEN(errorOf(llmLike, {}), 0.048, 0.064);
  EXPECT_BETWEEN(errorOf(llmLike, plain), 0.11, 0.17);
}

/// With the signs a constant in every channel spreads out; without them the
/// rotation gathers it in one channel. Signs on the inputs cancel the
/// rotation's own, which leaves the unsigned Hadamard matrix.
TEST(AccuracyTest, SignsSpreadAConstantOffset) {
  AttentionInputs inputs = inputsOf(DataKind::ConstantOffset);
  EXPECT_BETWEEN(errorOf(inputs, {}), 0.048, 0.060);
  for (std::vector<uint16_t> *tensor : {&inputs.q, &inputs.k})
    for (size_t i = 0; i < tensor->size(); ++i)
      if (numerics::rotationSign(int64_t(i) % 128) < 0)
        (*tensor)[i] ^= 0x8000;
  EXPECT_BETWEEN(errorOf(inputs, {}), 0.12, 0.19);
}

/// Round-up scales against floor-type ones, which saturate.
TEST(AccuracyTest, FloorScalesAreWorse) {
  AttentionInputs inputs = inputsOf(DataKind::Normal);
  ForwardOptions floor;
  floor.scaleMode = numerics::ScaleMode::Floor;
  EXPECT_GT(errorOf(inputs, floor), errorOf(inputs, {}));
}

/// Sinks are judged on the dequantized Q and K: what is left is P and V.
TEST(AccuracyTest, DequantizedScoresLeaveTheErrorOfPV) {
  for (DataKind kind : {DataKind::Normal, DataKind::LlmLike}) {
    AttentionInputs inputs = inputsOf(kind);
    ForwardOptions options;
    QuantizedInputs quantized = quantizeInputs(inputs, options);
    std::vector<float> v(inputs.v.size());
    numerics::bf16ToFloat(inputs.v.data(), v.data(), v.size());
    ForwardOutputsFp64 exact = attentionFp64(
        inputs.shape, dequantize(quantized.q, inputs.shape.queryShape()),
        dequantize(quantized.k, inputs.shape.keyShape()), v, options);
    ForwardOutputs outputs = attentionForwardModel(quantized, options);
    EXPECT_BETWEEN(measureError(outputs.o, exact.o).relativeFrobenius, 0.015,
                   0.045);
    EXPECT_LE(measureError(outputs.lse, exact.lse).maxAbs, 0x1p-7);
  }
}

/// 4096 tokens, one head: the limit is 5 s on two cores.
TEST(AccuracyTest, SpeedOf4096Tokens) {
  AttentionInputs inputs = makeInputs(shapeOf({4096}), DataKind::Normal, 2);
  auto start = std::chrono::steady_clock::now();
  ForwardOutputs outputs = attentionForwardModel(inputs, {});
  std::chrono::duration<double> model =
      std::chrono::steady_clock::now() - start;
  ForwardOutputsFp64 exact = attentionFp64(inputs, {});
  std::chrono::duration<double> both = std::chrono::steady_clock::now() - start;
  RecordProperty("model_seconds", std::to_string(model.count()));
  EXPECT_LE(model.count(), 5);
  EXPECT_LE((both - model).count(), 5);
  EXPECT_BETWEEN(measureError(outputs.o, exact.o).relativeFrobenius, 0.035,
                 0.045);
}

} // namespace
