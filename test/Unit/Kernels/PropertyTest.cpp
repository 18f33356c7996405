//===- PropertyTest.cpp - P1 and P2 over random document mixes ------------===//
//
// Causal safety and document isolation of the compiled kernels, bit for bit,
// with negative controls that must fail the same probes.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;

namespace {

/// One random problem: lengths, heads, head dim and data from the seed.
AttentionInputs randomInputs(uint64_t seed, int64_t maxTokens) {
  Random random(seed, 77);
  const std::pair<int64_t, int64_t> headCounts[] = {
      {1, 1}, {2, 1}, {2, 2}, {3, 1}};
  auto [heads, kvHeads] = headCounts[random.nextBelow(4)];
  int64_t dim = random.nextBelow(2) ? 64 : 128;
  std::vector<int64_t> lengths =
      randomLengths(random, 2 + random.nextBelow(6), maxTokens);
  DataKind kind = DataKind(random.nextBelow(4));
  return makeInputs({numerics::cuSeqlensOf(lengths), heads, kvHeads, dim}, kind,
                    seed);
}

std::string describe(const AttentionInputs &inputs) {
  std::string text = "heads " + std::to_string(inputs.shape.heads) + "/" +
                     std::to_string(inputs.shape.kvHeads) + " dim " +
                     std::to_string(inputs.shape.headDim) + " documents";
  for (int64_t d = 0; d < inputs.shape.documents(); ++d)
    text += " " + std::to_string(inputs.shape.length(d));
  return text;
}

void probeMixes(uint64_t firstSeed, uint64_t count, int64_t maxTokens,
                size_t cutsEach,
                runtime::Format format = runtime::Format::Mxfp8) {
  int64_t compared = 0;
  for (uint64_t seed = firstSeed; seed < firstSeed + count; ++seed) {
    AttentionInputs inputs = randomInputs(seed, maxTokens);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + describe(inputs));
    if (inputs.shape.tokens() == 0)
      continue;
    RunnerOptions options;
    options.format = format;
    KernelRunner runner(inputs.shape.heads, inputs.shape.kvHeads,
                        inputs.shape.headDim, options);
    ProbeResult documents = probeDocuments(inputs, runner.function(), 2);
    EXPECT_TRUE(documents.ok) << documents.detail;
    std::vector<int64_t> cuts = causalCuts(inputs.shape);
    Random random(seed, 78);
    while (cuts.size() > cutsEach)
      cuts.erase(cuts.begin() + random.nextBelow(int64_t(cuts.size())));
    if (cuts.empty())
      continue;
    ProbeResult causal = probeCausal(inputs, runner.function(), cuts);
    EXPECT_TRUE(causal.ok) << causal.detail;
    compared += documents.valuesCompared + causal.valuesCompared;
  }
  EXPECT_GT(compared, int64_t(count) * 10000);
}

} // namespace

TEST(Properties, RandomMixes) { probeMixes(1, 6, 400, 3); }

TEST(Properties, Nvfp4RandomMixes) {
  probeMixes(11, 4, 400, 3, runtime::Format::Nvfp4);
}

TEST(Properties, SlowRandomMixes) {
  probeMixes(1000, 40, 900, 8);
  probeMixes(2000, 40, 900, 8, runtime::Format::Nvfp4);
}

TEST(Properties, LeakyKernelFailsTheCausalProbe) {
  // 32-token V scales without the safeguard, at a length with past tiles.
  AttentionInputs inputs =
      makeInputs({{0, 7, 300}, 1, 1, 128}, DataKind::Normal, 5);
  RunnerOptions options;
  options.folder = leakyFolder;
  KernelRunner runner(1, 1, 128, options);
  ProbeResult probe = probeCausal(inputs, runner.function(), {200});
  EXPECT_FALSE(probe.ok);
  EXPECT_GT(probe.mismatches, 0) << probe.detail;
  EXPECT_GT(probe.valuesCompared, 0);
}

TEST(Properties, FullAttentionFailsTheCausalProbe) {
  AttentionInputs inputs = makeInputs({{0, 40}, 1, 1, 64}, DataKind::Normal, 5);
  RunnerOptions options;
  options.causal = false;
  KernelRunner runner(1, 1, 64, options);
  ProbeResult probe = probeCausal(inputs, runner.function(), {20});
  EXPECT_FALSE(probe.ok);
  EXPECT_GT(probe.mismatches, 0);
}

TEST(Properties, MergedDocumentsFailTheDocumentProbe) {
  // The kernels are told of one document where the caller has several.
  AttentionInputs inputs =
      makeInputs({{0, 50, 90}, 1, 1, 64}, DataKind::Normal, 5);
  KernelRunner runner(1, 1, 64);
  ForwardFunction forward = runner.function();
  ProbeResult probe =
      probeDocuments(inputs, [&](const AttentionInputs &given,
                                 ForwardOutputs &outputs, std::string &error) {
        AttentionInputs merged = given;
        merged.shape.cuSeqlens = {0, given.shape.tokens()};
        return forward(merged, outputs, error);
      });
  EXPECT_FALSE(probe.ok);
  EXPECT_GT(probe.mismatches, 0);
}

TEST(Properties, AsyncSchedulesAgree) {
  // When asynchronous work completes decides no bit.
  AttentionInputs inputs =
      makeInputs({{0, 290, 291}, 1, 1, 128}, DataKind::LlmLike, 11);
  ForwardOutputs base = KernelRunner(1, 1, 128).run(inputs).outputs;
  for (auto [mode, seed] :
       {std::pair<sim::AsyncMode, uint64_t>{sim::AsyncMode::Late, 0},
        {sim::AsyncMode::Random, 1},
        {sim::AsyncMode::Random, 2}}) {
    RunnerOptions options;
    options.sim.async = mode;
    options.sim.seed = seed;
    ForwardOutputs other = KernelRunner(1, 1, 128, options).run(inputs).outputs;
    EXPECT_EQ(base.o, other.o);
    EXPECT_EQ(base.lse, other.lse);
    EXPECT_EQ(base.kappa, other.kappa);
  }
}
