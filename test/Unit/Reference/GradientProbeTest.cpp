//===- GradientProbeTest.cpp - P1, P2 and P3 on the backward's model ------===//
//
// The gradient probes pass on the specification model, and fail on every
// fault they are made for. LEAK-3 and its twins.
//
//===----------------------------------------------------------------------===//

#include "BackwardProblems.h"
#include "flamia/Reference/Probe.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

using Names = std::vector<std::string>;

bool contains(const Names &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<float> randomDLse(const AttentionShape &shape) {
  std::vector<float> dLse(shape.tokens() * shape.heads);
  Random random(5, 17);
  for (float &value : dLse)
    value = float(random.nextNormal());
  return dLse;
}

/// Faults that P1 must find, and an output that shows each.
struct Fault {
  const char *name;
  BackwardOptions options;
  const char *output;
};

std::vector<Fault> faults() {
  std::vector<Fault> list = {{"dO' scale over 32 tokens", {}, "dQ"},
                             {"Q scale over 32 tokens", {}, "dQ"},
                             {"Q scale over 32 tokens", {}, "dK"},
                             {"Q scale over 32 tokens", {}, "dV"},
                             {"K scale over 32 tokens", {}, "dQ"},
                             {"V in FP8 on the diagonal", {}, "dQ"},
                             {"scales of masked dS", {}, "dQ"},
                             {"scales of masked dS", {}, "dK"},
                             {"static P on the diagonal", {}, "dV"}};
  list[0].options.gradientBlock = 32;
  for (int i : {1, 2, 3})
    list[i].options.forward.queryBlock = 32;
  list[4].options.forward.keyBlock = 32;
  list[5].options.forward.safeguard = false;
  for (int i : {6, 7})
    list[i].options.maskBeforeScale = false;
  list[8].options.forward.safeguard = false;
  list[8].options.dynamicWeights = false;
  return list;
}

TEST(GradientProbeTest, CausalWithControls) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({400}), DataKind::Normal, 31);
  // Cuts inside a tile and a 32-token block, in the first, a middle and the
  // last tile; 255 lies between two tiles.
  std::vector<int64_t> cuts = {7, 100, 143, 255, 300, 398};
  for (bool withLse : {false, true}) {
    inputs.dLse =
        withLse ? randomDLse(inputs.forward.shape) : std::vector<float>();
    ProbeResult real =
        probeGradientCausal(inputs, modelBackwardFunction({}), cuts);
    EXPECT_TRUE(real.ok) << real.detail;
    EXPECT_EQ(real.maxAbs, 0);
    EXPECT_EQ(real.runs, 1 + 2 * 6);
    int64_t values = 0;
    for (int64_t cut : cuts)
      values += (cut + 1) * 128 + (399 - cut) * 3 * 128;
    EXPECT_EQ(real.valuesCompared, values);
  }
  inputs.dLse.clear();
  for (const Fault &fault : faults()) {
    ProbeResult leaky = probeGradientCausal(
        inputs, modelBackwardFunction(fault.options), {7, 143, 300});
    EXPECT_FALSE(leaky.ok) << fault.name;
    EXPECT_TRUE(contains(leaky.failedOutputs, fault.output))
        << fault.name << ": " << fault.output;
    EXPECT_GT(leaky.maxAbs, 0) << fault.name;
    EXPECT_TRUE(contains({leaky.failedOutputs[0]}, "dQ") ||
                contains({leaky.failedOutputs[0]}, "dK") ||
                contains({leaky.failedOutputs[0]}, "dV"));
  }
}

/// A dO' scale shared over tokens shows in tiles strictly in the past only: a
/// probe on one tile is blind to it.
TEST(GradientProbeTest, SharedGradientScalesNeedPastTiles) {
  BackwardOptions shared;
  shared.gradientBlock = 32;
  ProbeResult small = probeGradientCausal(
      makeBackwardInputs(shapeOf({128}), DataKind::Normal, 32),
      modelBackwardFunction(shared), {7, 40, 100});
  EXPECT_TRUE(small.ok) << small.detail;
  ProbeResult large = probeGradientCausal(
      makeBackwardInputs(shapeOf({384}), DataKind::Normal, 32),
      modelBackwardFunction(shared), {263});
  EXPECT_EQ(large.failedOutputs, Names{"dQ"});
  EXPECT_EQ(large.failedCuts, std::vector<int64_t>{263});
}

/// P1 and P2 over random mixes, with a control on each.
TEST(GradientProbeTest, RandomMixes) {
  Random random(33, 1);
  for (int mix = 0; mix < 6; ++mix) {
    std::vector<int64_t> lengths = {1 + random.nextBelow(31),
                                    384 + random.nextBelow(60)};
    for (int64_t length : randomLengths(random, 3, 300))
      lengths.push_back(length);
    int64_t kvHeads = 1 + random.nextBelow(2);
    AttentionShape shape = shapeOf(lengths, kvHeads * (1 + random.nextBelow(2)),
                                   kvHeads, random.nextBelow(2) ? 128 : 64);
    BackwardInputs inputs =
        makeBackwardInputs(shape, DataKind(mix % 4), uint64_t(mix));
    if (mix % 2)
      inputs.dLse = randomDLse(shape);
    std::vector<int64_t> cuts = {random.nextBelow(128),
                                 128 + random.nextBelow(128),
                                 256 + random.nextBelow(126)};
    ProbeResult causal =
        probeGradientCausal(inputs, modelBackwardFunction({}), cuts);
    EXPECT_TRUE(causal.ok) << "mix " << mix << ": " << causal.detail;
    BackwardOptions leaky;
    leaky.gradientBlock = 32;
    EXPECT_FALSE(
        probeGradientCausal(inputs, modelBackwardFunction(leaky), {265}).ok)
        << "mix " << mix;

    ProbeResult documents =
        probeGradientDocuments(inputs, modelBackwardFunction({}), 2);
    EXPECT_TRUE(documents.ok) << "mix " << mix << ": " << documents.detail;
    EXPECT_EQ(documents.maxAbs, 0);
  }
}

/// Documents that see each other, and results that change from run to run.
TEST(GradientProbeTest, DocumentControls) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({20, 150, 33}), DataKind::Normal, 34);
  BackwardFunction merged = [](const BackwardInputs &inputs, ForwardOutputs &,
                               Gradients &gradients, std::string &) {
    BackwardInputs one = inputs;
    one.forward.shape.cuSeqlens = {0, inputs.forward.shape.tokens()};
    gradients = attentionBackwardModel(one, {});
    return true;
  };
  ProbeResult result = probeGradientDocuments(inputs, merged);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failedOutputs.size(), 3u);
  EXPECT_EQ(result.runs, 2 + 3 + 2 + 1);
  // V's scales shared by all of the pack reach dQ through dP.
  for (ValueBlocks blocks : {ValueBlocks::PackAxis, ValueBlocks::WholePack}) {
    BackwardOptions shared;
    shared.forward.valueBlocks = blocks;
    EXPECT_FALSE(
        probeGradientDocuments(inputs, modelBackwardFunction(shared)).ok);
  }
  int runs = 0;
  BackwardFunction unstable = [&](const BackwardInputs &inputs,
                                  ForwardOutputs &, Gradients &gradients,
                                  std::string &) {
    gradients = attentionBackwardModel(inputs, {});
    if (++runs == 2)
      gradients.dk[700] = floatOf(bitsOf(gradients.dk[700]) ^ 0x10000);
    return true;
  };
  result = probeGradientDocuments(inputs, unstable);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_EQ(result.failedOutputs, Names{"dK"});
}

TEST(GradientProbeTest, FailuresAreNotOk) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({20}), DataKind::Normal, 35);
  BackwardFunction failing = [](const BackwardInputs &, ForwardOutputs &,
                                Gradients &, std::string &error) {
    error = "out of tape";
    return false;
  };
  EXPECT_EQ(probeGradientCausal(inputs, failing, {3}).detail,
            "backward pass failed: out of tape");
  EXPECT_EQ(probeGradientDocuments(inputs, failing).detail,
            "backward pass failed: out of tape");
  ConsistencyResult consistency = probeConsistency(inputs.forward, failing);
  EXPECT_FALSE(consistency.ok);
  EXPECT_EQ(consistency.detail, "backward pass failed: out of tape");
  // One tile: nothing strictly in the past.
  EXPECT_FALSE(probeConsistency(inputs.forward, modelBackwardFunction({})).ok);
  BackwardInputs malformed = inputs;
  malformed.forward.shape.headDim = 80;
  EXPECT_NE(probeGradientCausal(malformed, modelBackwardFunction({}), {3})
                .detail.find("80"),
            std::string::npos);
}

/// P3, and a backward that quantizes normalized weights, as kernels that save
/// only LSE do.
TEST(GradientProbeTest, Consistency) {
  for (DataKind kind : {DataKind::Normal, DataKind::LlmLike}) {
    AttentionInputs inputs = makeInputs(shapeOf({7, 900}, 2, 1), kind, 36);
    ConsistencyResult result =
        probeConsistency(inputs, modelBackwardFunction({}));
    EXPECT_TRUE(result.ok) << result.detail;
    RecordProperty("one_step", std::to_string(result.oneStep));
    RecordProperty("compared", std::to_string(result.weightsCompared));
    EXPECT_GT(result.weightsCompared,
              kind == DataKind::Normal ? 500000 : 40000);
    EXPECT_EQ(result.runs, 2 * 8);
  }
  AttentionInputs inputs =
      makeInputs(shapeOf({300}, 2, 2, 64), DataKind::Normal, 37);
  BackwardOptions options;
  options.forward.mask.causal = false;
  ConsistencyResult open =
      probeConsistency(inputs, modelBackwardFunction(options), false);
  EXPECT_TRUE(open.ok) << open.detail;
  EXPECT_GT(open.weightsCompared, 100000);

  BackwardFunction normalized = [](const BackwardInputs &inputs,
                                   ForwardOutputs &outputs,
                                   Gradients &gradients, std::string &) {
    QuantizedInputs quantized = quantizeInputs(inputs.forward, {});
    outputs = attentionForwardModel(quantized, {});
    ForwardOutputs other = outputs;
    // The same softmax with l = 1, up to one power of two that the probe's 1/l
    // wants to see.
    for (size_t i = 0; i < other.m.size(); ++i)
      other.m[i] +=
          std::log2(outputs.l[i]) - std::floor(std::log2(outputs.l[i]));
    gradients =
        attentionBackwardModel(quantized, other, inputs.dO, inputs.dLse, {});
    return true;
  };
  ConsistencyResult control = probeConsistency(inputs, normalized);
  EXPECT_FALSE(control.ok);
  EXPECT_GT(control.oneStep + control.further, control.weightsCompared / 3);
}

/// The cuts that flamia-run takes lie inside 32-token blocks and have a token
/// after them.
TEST(GradientProbeTest, Cuts) {
  using Cuts = std::vector<int64_t>;
  EXPECT_EQ(gradientCuts(shapeOf({517, 1, 300})), (Cuts{7, 271, 514}));
  EXPECT_EQ(gradientCuts(shapeOf({3, 400})), (Cuts{7, 271, 392}));
  EXPECT_EQ(gradientCuts(shapeOf({200})), (Cuts{7, 143, 164}));
  EXPECT_EQ(gradientCuts(shapeOf({40})), (Cuts{7, 15, 20}));
  EXPECT_EQ(gradientCuts(shapeOf({2})), Cuts{});
  EXPECT_EQ(gradientCuts(shapeOf({})), Cuts{});
}

//===----------------------------------------------------------------------===//
// LEAK-3 and its twins
//===----------------------------------------------------------------------===//

TEST(LEAK, LEAK3EarlierGradientRow) {
  auto run = [](bool earlier, BackwardOptions options) {
    options.forward.softmaxScale = 1;
    return attentionBackwardModel(earlierGradientRow(earlier), options).dv;
  };
  std::vector<float> a = run(false, {}), b = run(true, {});
  EXPECT_EQ(a[16 * 128], 0x1p-25f);
  EXPECT_EQ(b[16 * 128], 0x1p-25f);
  EXPECT_EQ(changedTokens(a, b, 1, 128), 0);
  EXPECT_EQ(a[0], 0x1p-25f);
  EXPECT_EQ(b[0], 1.0f); // 1 + 2^-25 in BF16
  // Static scale of P: the later row is flushed.
  BackwardOptions leaky;
  leaky.forward.safeguard = false;
  leaky.dynamicWeights = false;
  EXPECT_EQ(run(false, leaky)[16 * 128], 0x1p-25f);
  EXPECT_EQ(run(true, leaky)[16 * 128], 0.0f);
}

/// The twin in the past: a row with small gradients beside rows of the same 32
/// queries with large ones keeps its contribution up to a ratio of 2^20 (all
/// are visible, so this is about accuracy).
TEST(LEAK, LEAK3TwinSmallGradientsBesideLargeOnes) {
  for (int shift : {0, 10, 20}) {
    BackwardInputs inputs = smallBesideLarge(shift);
    Gradients gradients = attentionBackwardModel(inputs, {});
    GradientsFp64 exact = attentionBackwardFp64(inputs, {});
    EXPECT_NEAR(exact.dv[31 * 128 + 2], 1, 1e-6);
    EXPECT_NEAR(gradients.dv[31 * 128 + 2], 1, 0.0625) << shift;
    EXPECT_NEAR(gradients.dv[31 * 128 + 1] / exact.dv[31 * 128 + 1], 1, 0.0625)
        << shift;
  }
}

/// The twin of dK: an earlier token's huge Q must not flush a later one's
/// contribution, at any size. Exponents relative to the tile's largest would.
TEST(LEAK, LEAK3TwinEarlierQuery) {
  auto run = [](float size, BackwardOptions options) {
    options.forward.softmaxScale = earlierQueryScale;
    return attentionBackwardModel(earlierQuery(size), options).dk;
  };
  BackwardOptions relative;
  relative.tileRelativeDiagonal = true;
  std::vector<float> base = run(1, {});
  EXPECT_NE(base[16 * 128 + 3], 0);
  for (float size : {0x1p20f, 0x1p60f, 0x1p110f}) {
    EXPECT_EQ(changedTokens(base, run(size, {}), 1, 128), 0) << size;
    EXPECT_EQ(changedTokens(base, run(size, relative), 1, 128) > 0,
              size > 0x1p100f)
        << size;
  }
}

/// The twin of dQ: a later token's huge K, in the query's own tile.
TEST(LEAK, LEAK3TwinLaterKey) {
  auto run = [](float size, BackwardOptions options) {
    return attentionBackwardModel(laterKey(size), options).dq;
  };
  BackwardOptions relative;
  relative.tileRelativeDiagonal = true;
  std::vector<float> base = run(1, {});
  EXPECT_NE(base[31 * 128 + 3], 0);
  for (float size : {0x1p20f, 0x1p60f, 0x1p110f}) {
    EXPECT_EQ(changedTokens(base, run(size, {}), 0, 40), 0) << size;
    EXPECT_EQ(changedTokens(base, run(size, relative), 0, 40) > 0,
              size > 0x1p100f)
        << size;
  }
}

} // namespace
