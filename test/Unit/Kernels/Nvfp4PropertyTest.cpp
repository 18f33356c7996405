//===- Nvfp4PropertyTest.cpp - P1, P2, P3 in format nvfp4, and controls ---===//
//
// The negative controls of format nvfp4 on the compiled kernels: operands with
// second-level scales from the data, K without its mean over tokens, scales
// that 32 tokens share, a forward without its safeguard, and a backward that
// recomputes other scores. The same probes pass on flamia's own quantization.
// Random mixes are in PropertyTest.cpp and BackwardPropertyTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "test/Unit/Reference/TestInputs.h"

#include <algorithm>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;

namespace {

RunnerOptions nvfp4() {
  RunnerOptions options;
  options.format = runtime::Format::Nvfp4;
  return options;
}

/// Recipes that leak.
ForwardOptions dataScale() {
  ForwardOptions fault = modelOptions(nvfp4());
  fault.dataGlobalScale = true;
  return fault;
}
ForwardOptions keyMean() {
  ForwardOptions fault = modelOptions(nvfp4());
  fault.subtractKeyMean = true;
  return fault;
}
ForwardOptions sharedScales() {
  ForwardOptions fault = modelOptions(nvfp4());
  fault.queryBlock = fault.keyBlock = 32;
  return fault;
}

bool failed(const ProbeResult &result, const char *output) {
  return !result.ok && std::count(result.failedOutputs.begin(),
                                  result.failedOutputs.end(), output) > 0;
}

} // namespace

TEST(Nvfp4Properties, LeakyRecipesFailTheCausalProbe) {
  AttentionInputs inputs =
      makeInputs(shapeOf({37, 300}, 2, 1), DataKind::Normal, 51);
  KernelRunner runner(2, 1, 128, nvfp4());
  std::vector<int64_t> cuts = {7, 143, 280};
  // The way the controls go, without a fault: the difference is the recipe.
  ProbeResult clean =
      probeCausal(inputs, runner.function(modelOptions(nvfp4())), cuts);
  EXPECT_TRUE(clean.ok) << clean.detail;
  EXPECT_EQ(clean.maxAbs, 0);
  // O itself must show the fault, not only LSE, which the mean shifts.
  for (const ForwardOptions &fault : {dataScale(), keyMean()}) {
    ProbeResult leaky = probeCausal(inputs, runner.function(fault), cuts);
    EXPECT_TRUE(failed(leaky, "O")) << leaky.detail;
    EXPECT_EQ(leaky.failedCuts, cuts);
  }
}

TEST(Nvfp4Properties, LeakyRecipesFailTheGradientProbe) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({400}), DataKind::Normal, 52);
  KernelRunner runner = backwardRunner(inputs, nvfp4());
  auto probe = [&](const ForwardOptions &options) {
    return probeGradientCausal(inputs, runner.backwardFunction(options), {143});
  };
  ProbeResult clean = probe(modelOptions(nvfp4()));
  EXPECT_TRUE(clean.ok) << clean.detail;
  // g of Q sees earlier tokens too, g and the mean of K later ones.
  ProbeResult scale = probe(dataScale());
  for (const char *output : {"dQ", "dK", "dV"})
    EXPECT_TRUE(failed(scale, output)) << output;
  EXPECT_TRUE(failed(probe(keyMean()), "dQ"));
  // The E4M3 copies alone: scores do not see their scales.
  ProbeResult shared = probe(sharedScales());
  EXPECT_TRUE(failed(shared, "dQ") || failed(shared, "dK")) << shared.detail;
}

TEST(Nvfp4Properties, DataDerivedScaleFailsTheDocumentProbe) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({20, 90, 1, 0, 40, 150}, 2, 1, 64),
                         DataKind::OutlierChannels, 53);
  KernelRunner runner = backwardRunner(inputs, nvfp4());
  ProbeResult clean = probeGradientDocuments(
      inputs, runner.backwardFunction(modelOptions(nvfp4())), 1);
  EXPECT_TRUE(clean.ok) << clean.detail;
  EXPECT_TRUE(failed(
      probeDocuments(inputs.forward, runner.function(dataScale()), 1), "O"));
  EXPECT_FALSE(
      probeGradientDocuments(inputs, runner.backwardFunction(dataScale()), 1)
          .ok);
}

TEST(Nvfp4Properties, LeakyKernelFailsTheCausalProbe) {
  // 32-token V scales without the safeguard: every cut inside a block shows, no
  // other.
  AttentionInputs inputs = makeInputs(shapeOf({128}), DataKind::Normal, 54);
  RunnerOptions leaky = nvfp4();
  leaky.folder = leakyNvfp4Folder;
  KernelRunner control(1, 1, 128, leaky), real(1, 1, 128, nvfp4());
  std::vector<int64_t> cuts = {0, 15, 30, 31, 62, 63, 100, 126};
  ProbeResult clean = probeCausal(inputs, real.function(), cuts);
  EXPECT_TRUE(clean.ok) << clean.detail;
  ProbeResult found = probeCausal(inputs, control.function(), cuts);
  EXPECT_FALSE(found.ok);
  std::vector<int64_t> inside;
  for (int64_t cut : cuts)
    if ((cut + 1) % 32)
      inside.push_back(cut);
  EXPECT_EQ(found.failedCuts, inside) << found.detail;
}

TEST(Nvfp4Properties, Consistency) {
  for (bool causal : {true, false}) {
    AttentionInputs inputs =
        makeInputs(shapeOf({300}, 2, 1), DataKind::Normal, 55);
    RunnerOptions options = nvfp4();
    options.causal = causal;
    options.backward = true;
    KernelRunner runner(2, 1, 128, options);
    ConsistencyResult result =
        probeConsistency(inputs, runner.backwardFunction(), causal);
    EXPECT_TRUE(result.ok) << result.detail;
    EXPECT_GT(result.weightsCompared, 50000);
  }
}

TEST(Nvfp4Properties, ScoresOfTheOtherCopyFailTheConsistencyProbe) {
  // Forward and backward on the device; in the control the kernel of dK and dV
  // recomputes the scores from the E4M3 copies.
  AttentionInputs inputs =
      makeInputs(shapeOf({200}, 1, 1, 64), DataKind::Normal, 56);
  RunnerOptions options = nvfp4();
  options.backward = true;
  KernelRunner real(1, 1, 64, options);
  ConsistencyResult clean = probeConsistency(inputs, real.backwardFunction());
  EXPECT_TRUE(clean.ok) << clean.detail;
  options.folder = crossedNvfp4Folder;
  KernelRunner crossed(1, 1, 64, options);
  ConsistencyResult control =
      probeConsistency(inputs, crossed.backwardFunction());
  EXPECT_FALSE(control.ok);
  EXPECT_EQ(control.weightsCompared, clean.weightsCompared);
  EXPECT_GT(control.oneStep + control.further, control.weightsCompared / 4)
      << control.detail;
}
