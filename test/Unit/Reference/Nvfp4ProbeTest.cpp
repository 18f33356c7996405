//===- Nvfp4ProbeTest.cpp - P1, P2 and P3 in format nvfp4 -----------------===//
//
// The probes pass on the specification model in format nvfp4, and fail on the
// faults that are NVFP4's own: second-level scales from the data, K without its
// mean over tokens, and a backward that recomputes scores from the E4M3 copies.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"
#include "flamia/Reference/Probe.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace flamia;
using namespace flamia::reference;

namespace {

BackwardOptions nvfp4() {
  BackwardOptions options;
  options.forward.format = Format::Nvfp4;
  return options;
}

BackwardOptions dataScale() {
  BackwardOptions options = nvfp4();
  options.forward.dataGlobalScale = true;
  return options;
}

BackwardOptions keyMean() {
  BackwardOptions options = nvfp4();
  options.forward.subtractKeyMean = true;
  return options;
}

bool failed(const ProbeResult &result, const char *output) {
  return !result.ok && std::count(result.failedOutputs.begin(),
                                  result.failedOutputs.end(), output) > 0;
}

TEST(Nvfp4ProbeTest, CausalForward) {
  for (DataKind kind : {DataKind::Normal, DataKind::LlmLike}) {
    AttentionInputs inputs = makeInputs(shapeOf({37, 300}, 2, 1), kind, 51);
    std::vector<int64_t> cuts = {7, 30, 100, 143, 255, 280};
    ProbeResult real =
        probeCausal(inputs, modelFunction(nvfp4().forward), cuts);
    EXPECT_TRUE(real.ok) << real.detail;
    EXPECT_EQ(real.maxAbs, 0);
    // O itself must show the fault, not only LSE, which the mean shifts.
    for (const BackwardOptions &fault : {dataScale(), keyMean()}) {
      ProbeResult leaky =
          probeCausal(inputs, modelFunction(fault.forward), cuts);
      EXPECT_TRUE(failed(leaky, "O")) << leaky.detail;
      EXPECT_EQ(leaky.failedCuts, cuts);
    }
    ForwardOptions sharedV = nvfp4().forward;
    sharedV.safeguard = false;
    EXPECT_TRUE(failed(probeCausal(inputs, modelFunction(sharedV), cuts), "O"));
  }
}

TEST(Nvfp4ProbeTest, CausalBackward) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({400}), DataKind::Normal, 52);
  ProbeResult real = probeGradientCausal(inputs, modelBackwardFunction(nvfp4()),
                                         {7, 143, 255, 300});
  EXPECT_TRUE(real.ok) << real.detail;
  EXPECT_EQ(real.maxAbs, 0);
  // g of Q sees earlier tokens too, g and the mean of K later ones.
  ProbeResult scale =
      probeGradientCausal(inputs, modelBackwardFunction(dataScale()), {143});
  for (const char *output : {"dQ", "dK", "dV"})
    EXPECT_TRUE(failed(scale, output)) << output;
  EXPECT_TRUE(failed(
      probeGradientCausal(inputs, modelBackwardFunction(keyMean()), {143}),
      "dQ"));
}

TEST(Nvfp4ProbeTest, Documents) {
  BackwardInputs inputs = makeBackwardInputs(
      shapeOf({20, 0, 150, 1, 290}, 2, 1), DataKind::OutlierChannels, 53);
  ProbeResult forward =
      probeDocuments(inputs.forward, modelFunction(nvfp4().forward), 2);
  EXPECT_TRUE(forward.ok) << forward.detail;
  ProbeResult backward =
      probeGradientDocuments(inputs, modelBackwardFunction(nvfp4()), 2);
  EXPECT_TRUE(backward.ok) << backward.detail;
  EXPECT_TRUE(failed(
      probeDocuments(inputs.forward, modelFunction(dataScale().forward), 2),
      "O"));
  EXPECT_FALSE(
      probeGradientDocuments(inputs, modelBackwardFunction(dataScale()), 2).ok);
}

TEST(Nvfp4ProbeTest, Consistency) {
  AttentionInputs inputs =
      makeInputs(shapeOf({300}, 2, 2, 64), DataKind::Normal, 54);
  ConsistencyResult real =
      probeConsistency(inputs, modelBackwardFunction(nvfp4()));
  EXPECT_TRUE(real.ok) << real.detail;
  EXPECT_GT(real.weightsCompared, 30000);
  // Scores of the backward from the E4M3 copies.
  BackwardFunction mixed = [](const BackwardInputs &inputs,
                              ForwardOutputs &outputs, Gradients &gradients,
                              std::string &) {
    BackwardOptions options = nvfp4();
    QuantizedInputs quantized = quantizeInputs(inputs.forward, options.forward);
    outputs = attentionForwardModel(quantized, options.forward);
    quantized.format = Format::Mxfp8;
    gradients = attentionBackwardModel(quantized, outputs, inputs.dO,
                                       inputs.dLse, options);
    return true;
  };
  ConsistencyResult control = probeConsistency(inputs, mixed);
  EXPECT_FALSE(control.ok);
  EXPECT_GT(control.oneStep + control.further, control.weightsCompared / 4);
}

/// The faults do what they are meant to, and nothing more: accuracy is fine.
TEST(Nvfp4ProbeTest, ControlsAreGoodRecipesOtherwise) {
  AttentionInputs inputs = makeInputs(shapeOf({300}), DataKind::Normal, 55);
  ForwardOutputsFp64 exact = attentionFp64(inputs, {});
  for (const BackwardOptions &options : {nvfp4(), dataScale(), keyMean()})
    EXPECT_LE(
        measureError(attentionForwardModel(inputs, options.forward).o, exact.o)
            .relativeFrobenius,
        0.14);
}

} // namespace
