//===- ProbeTest.cpp - Promises P1 and P2 on the model --------------------===//
//
// The leak probes pass on the specification model over random document mixes,
// and fail on every fault they are made for.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Probe.h"
#include "TestInputs.h"

#include "gtest/gtest.h"

#include <limits>

using namespace flamia;
using namespace flamia::reference;

namespace {

ForwardOptions leakyOptions() {
  ForwardOptions options;
  options.safeguard = false;
  return options;
}

ForwardOptions sharedScales(ValueBlocks blocks) {
  ForwardOptions options;
  options.valueBlocks = blocks;
  return options;
}

/// LEAK-2: the cuts of the list; the leaky control must fail exactly where a
/// 32-token block is cut.
TEST(LEAK, LEAK2CutsInsideABlock) {
  AttentionInputs inputs = makeInputs(shapeOf({128}), DataKind::Normal, 21);
  std::vector<int64_t> cuts = {0,  1,  7,  15, 16, 30,  31, 32,
                               33, 47, 62, 63, 64, 100, 126};
  ProbeResult real = probeCausal(inputs, modelFunction({}), cuts);
  EXPECT_TRUE(real.ok) << real.detail;
  EXPECT_EQ(real.maxAbs, 0);
  EXPECT_EQ(real.cuts, cuts);
  EXPECT_EQ(real.runs, 16);
  int64_t tokens = 0;
  for (int64_t cut : cuts)
    tokens += cut + 1;
  EXPECT_EQ(real.valuesCompared, tokens * (128 + 4));

  ProbeResult leaky = probeCausal(inputs, modelFunction(leakyOptions()), cuts);
  EXPECT_FALSE(leaky.ok);
  EXPECT_GT(leaky.maxAbs, 0.1);
  EXPECT_FALSE(leaky.detail.empty());
  std::vector<int64_t> inside;
  for (int64_t cut : cuts)
    if ((cut + 1) % 32 != 0)
      inside.push_back(cut);
  EXPECT_EQ(leaky.failedCuts, inside);
}

/// P1 and P2 over random mixes, with the controls on each of them.
TEST(ProbeTest, RandomMixes) {
  Random random(22, 1);
  for (int mix = 0; mix < 12; ++mix) {
    // A document that starts off the 32-token grid and has tiles in the past
    // is in every mix: without one there is nothing to leak.
    std::vector<int64_t> lengths = {1 + random.nextBelow(31),
                                    140 + random.nextBelow(200)};
    for (int64_t length : randomLengths(random, 4, 600))
      lengths.push_back(length);
    int64_t kvHeads = 1 + random.nextBelow(2);
    AttentionShape shape = shapeOf(lengths, kvHeads * (1 + random.nextBelow(3)),
                                   kvHeads, random.nextBelow(2) ? 128 : 64);
    auto kind = DataKind(mix % 4);
    AttentionInputs inputs = makeInputs(shape, kind, uint64_t(mix));
    std::vector<int64_t> cuts;
    for (int64_t cut : causalCuts(shape))
      if (random.nextBelow(3) == 0 || cut == 7)
        cuts.push_back(cut);

    ProbeResult causal = probeCausal(inputs, modelFunction({}), cuts);
    EXPECT_TRUE(causal.ok) << "mix " << mix << ": " << causal.detail;
    ProbeResult leaky =
        probeCausal(inputs, modelFunction(leakyOptions()), cuts);
    EXPECT_FALSE(leaky.ok) << "mix " << mix;

    ProbeResult documents = probeDocuments(inputs, modelFunction({}), 3);
    EXPECT_TRUE(documents.ok) << "mix " << mix << ": " << documents.detail;
    EXPECT_EQ(documents.maxAbs, 0);
    EXPECT_GT(documents.valuesCompared, 0);
    for (ValueBlocks blocks : {ValueBlocks::PackAxis, ValueBlocks::WholePack})
      EXPECT_FALSE(
          probeDocuments(inputs, modelFunction(sharedScales(blocks)), 3).ok)
          << "mix " << mix;
  }
}

/// A non-causal forward is no causal one.
TEST(ProbeTest, CausalProbeSeesAMissingMask) {
  AttentionInputs inputs = makeInputs(shapeOf({40}), DataKind::Normal, 23);
  ForwardOptions options;
  options.mask.causal = false;
  ProbeResult result = probeCausal(inputs, modelFunction(options), {7, 31});
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failedCuts, (std::vector<int64_t>{7, 31}));
}

/// Documents that see each other.
TEST(ProbeTest, DocumentProbeSeesAMissingMask) {
  AttentionInputs inputs =
      makeInputs(shapeOf({20, 30, 10}), DataKind::Normal, 24);
  ForwardFunction merged = [](const AttentionInputs &inputs,
                              ForwardOutputs &outputs, std::string &) {
    AttentionInputs one = inputs;
    one.shape.cuSeqlens = {0, inputs.shape.tokens()};
    outputs = attentionForwardModel(one, {});
    return true;
  };
  ProbeResult result = probeDocuments(inputs, merged);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.maxAbs, std::numeric_limits<double>::infinity());
  EXPECT_EQ(result.runs, 2 + 3 + 2 + 1);
}

/// Results that change from run to run, by one bit.
TEST(ProbeTest, DocumentProbeSeesNondeterminism) {
  AttentionInputs inputs = makeInputs(shapeOf({20}), DataKind::Normal, 25);
  int runs = 0;
  ForwardFunction unstable = [&](const AttentionInputs &inputs,
                                 ForwardOutputs &outputs, std::string &) {
    outputs = attentionForwardModel(inputs, {});
    if (++runs == 2)
      outputs.lse[19] =
          numerics::floatOf(numerics::bitsOf(outputs.lse[19]) ^ 1);
    return true;
  };
  ProbeResult result = probeDocuments(inputs, unstable);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_GT(result.maxAbs, 0);
  EXPECT_LT(result.maxAbs, 1e-5);
}

TEST(ProbeTest, FailuresAndEmptyProbesAreNotOk) {
  AttentionInputs inputs = makeInputs(shapeOf({20}), DataKind::Normal, 26);
  ForwardFunction failing = [](const AttentionInputs &, ForwardOutputs &,
                               std::string &error) {
    error = "out of tape";
    return false;
  };
  ProbeResult failed = probeCausal(inputs, failing, {3});
  EXPECT_FALSE(failed.ok);
  EXPECT_EQ(failed.detail, "forward pass failed: out of tape");
  EXPECT_FALSE(probeCausal(inputs, modelFunction({}), {}).ok);
  ForwardFunction shorter = [](const AttentionInputs &inputs,
                               ForwardOutputs &outputs, std::string &) {
    outputs = attentionForwardModel(inputs, {});
    outputs.o.resize(5);
    return true;
  };
  EXPECT_FALSE(probeCausal(inputs, shorter, {3}).ok);
  ForwardFunction onlyO = [](const AttentionInputs &inputs,
                             ForwardOutputs &outputs, std::string &) {
    outputs.o = attentionForwardModel(inputs, {}).o;
    return true;
  };
  EXPECT_TRUE(probeCausal(inputs, onlyO, {3}).ok);
}

TEST(ProbeTest, CutsLieInsideTheLongestDocument) {
  EXPECT_TRUE(causalCuts(shapeOf({1, 0})).empty());
  EXPECT_EQ(causalCuts(shapeOf({2, 1})), (std::vector<int64_t>{0}));
  std::vector<int64_t> cuts = causalCuts(shapeOf({128, 5}));
  EXPECT_EQ(cuts, (std::vector<int64_t>{0, 1, 7, 15, 16, 30, 31, 32, 33, 47, 62,
                                        63, 64, 88, 100, 126}));
  EXPECT_EQ(causalCuts(shapeOf({1000})).back(), 998);
}

} // namespace
