//===- ExtremeTest.cpp - Compiled kernels on inputs far outside -----------===//
//
// NaN, infinities, zeros and magnitudes that no format holds: flamia-run's
// comparisons with the specification model, and the promises.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "test/Unit/Reference/ExtremeInputs.h"
#include "test/Unit/Reference/TestInputs.h"
#include "tools/flamia-run/Report.h"

#include <cmath>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;
using namespace flamia::runtime;

namespace {

/// Lines of flamia-run's table that fail, and of the gradients' keys how many
/// were judged.
struct Verdict {
  std::string failures;
  MeaningfulRows rows;
};

Verdict judge(KernelRunner &runner, const BackwardInputs &inputs,
              const RunnerOptions &options) {
  auto [forward, backward] = runner.run(inputs);
  BackwardOptions specification;
  specification.forward = modelOptions(options);
  QuantizedInputs quantized =
      quantizeInputs(inputs.forward, specification.forward);
  ForwardOutputs model =
      attentionForwardModel(quantized, specification.forward);
  Gradients gradients = attentionBackwardModel(
      quantized, forward.outputs, inputs.dO, inputs.dLse, specification);
  Verdict verdict;
  verdict.rows = meaningfulRows(quantized, specification.forward);
  addMeaningfulGradients(quantized, forward.outputs, inputs.dO, inputs.dLse,
                         specification.forward, verdict.rows);
  run::Report report;
  run::compareQuantized(forward, quantized, report);
  run::compareWithModel(forward.outputs, model, verdict.rows.outputs, report);
  run::addPrepared(run::comparePrepared(
                       backward,
                       prepareBackward(quantized, forward.outputs, inputs.dO,
                                       inputs.dLse, specification),
                       inputs.forward.shape),
                   report);
  run::compareGradients(
      inputs, specification.forward, backward.gradients, gradients,
      attentionBackwardFp64(inputs, specification.forward), verdict.rows,
      /*generated=*/false, /*kernels=*/true, report);
  for (const run::Line &line : report.lines)
    if (!line.ok)
      verdict.failures += line.name + ": " + line.text + "\n";
  return verdict;
}

void judgeAll(runtime::Format format, int64_t headDim, bool causal) {
  AttentionShape shape = shapeOf({33, 1, 150}, 2, 1, headDim);
  RunnerOptions options;
  options.format = format;
  options.causal = causal;
  KernelRunner runner =
      backwardRunner(extremeInputs(shape, Extreme::ZeroTokens, 1), options);
  for (auto [kind, name] : allExtremes) {
    SCOPED_TRACE(name);
    BackwardInputs inputs = extremeInputs(shape, kind, 7);
    EXPECT_EQ(judge(runner, inputs, options).failures, "");
  }
}

} // namespace

TEST(Extremes, Mxfp8) { judgeAll(runtime::Format::Mxfp8, 128, true); }
TEST(Extremes, Mxfp8Full) { judgeAll(runtime::Format::Mxfp8, 64, false); }
TEST(Extremes, Nvfp4) { judgeAll(runtime::Format::Nvfp4, 128, true); }

/// P1 where Q overflows: the query's own row is NaN, and nothing else that it
/// must not touch. (dV of later keys of its tile was NaN before masks came
/// behind the factor 1 / l.)
TEST(Extremes, AnOverflowStaysInItsRow) {
  AttentionShape shape = shapeOf({200}, 2, 1, 64);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 4);
  for (runtime::Format format :
       {runtime::Format::Mxfp8, runtime::Format::Nvfp4}) {
    RunnerOptions options;
    options.format = format;
    KernelRunner runner = backwardRunner(inputs, options);
    auto [forward, before] = runner.run(inputs);
    BackwardInputs changed = inputs;
    constexpr int64_t query = 140;
    for (int64_t i = query * 128; i < (query + 1) * 128; ++i)
      changed.forward.q[size_t(i)] =
          numerics::floatToBF16(i % 2 ? 3e38f : -3e38f);
    auto [outputs, after] = runner.run(changed);
    EXPECT_TRUE(std::isnan(outputs.outputs.l[query * 2]));
    int64_t finite = 0;
    for (int64_t token = 0; token < 200; ++token)
      for (int64_t c = 0; c < 64; ++c) {
        size_t key = size_t(token * 64 + c);
        for (size_t head : {0, 1})
          if (size_t row = size_t(token) * 128 + head * 64 + size_t(c);
              token != query)
            EXPECT_EQ(before.gradients.dq[row], after.gradients.dq[row]);
        if (token <= query)
          continue;
        EXPECT_EQ(before.gradients.dv[key], after.gradients.dv[key]) << token;
        EXPECT_EQ(before.gradients.dk[key], after.gradients.dk[key]) << token;
        finite += std::isfinite(after.gradients.dv[key]);
      }
    EXPECT_EQ(finite, 59 * 64);
    // What the query may touch: the keys that it sees.
    EXPECT_TRUE(std::isnan(after.gradients.dv[0]));
    EXPECT_TRUE(std::isnan(after.gradients.dk[query * 64]));
  }
}

/// A row whose weights all round to 0 gives O = 0 and adds nothing to any
/// gradient.
TEST(Extremes, VanishedWeightsAddNothing) {
  AttentionShape shape = shapeOf({33, 200}, 2, 1, 64);
  RunnerOptions options;
  int64_t rows = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    BackwardInputs inputs =
        extremeInputs(shape, Extreme::VanishedWeights, seed);
    KernelRunner runner = backwardRunner(inputs, options);
    auto [forward, backward] = runner.run(inputs);
    BackwardInputs without = inputs;
    for (size_t row = 0; row < forward.outputs.l.size(); ++row) {
      if (forward.outputs.l[row] != 0)
        continue;
      ++rows;
      EXPECT_EQ(forward.outputs.kappa[row], 1);
      EXPECT_EQ(forward.outputs.lse[row], -HUGE_VALF);
      for (size_t i = row * 64; i < (row + 1) * 64; ++i) {
        EXPECT_EQ(forward.outputs.o[i], 0);
        EXPECT_EQ(backward.gradients.dq[i], 0);
        // Other gradients of these rows, of which nothing may depend.
        without.dO[i] = numerics::floatToBF16(float(i % 5) - 2);
      }
    }
    auto [same, other] = runner.run(without);
    auto equal = [](const std::vector<float> &a, const std::vector<float> &b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
    };
    EXPECT_TRUE(equal(backward.gradients.dq, other.gradients.dq));
    EXPECT_TRUE(equal(backward.gradients.dk, other.gradients.dk));
    EXPECT_TRUE(equal(backward.gradients.dv, other.gradients.dv));
  }
  EXPECT_GT(rows, 20);
}

/// P1 and P2 on all of these inputs (P1 where they are finite).
TEST(Extremes, PromisesHold) {
  AttentionShape shape = shapeOf({20, 1, 140}, 1, 1, 64);
  RunnerOptions options;
  KernelRunner runner =
      backwardRunner(extremeInputs(shape, Extreme::ZeroTokens, 1), options);
  // Mixtures hold the other kinds.
  for (Extreme kind : {Extreme::NaNs, Extreme::HugeScores, Extreme::MixedScores,
                       Extreme::MixedTokens}) {
    SCOPED_TRACE(int(kind));
    BackwardInputs inputs = extremeInputs(shape, kind, 5);
    ProbeResult documents =
        probeGradientDocuments(inputs, runner.backwardFunction(), 1);
    EXPECT_TRUE(documents.ok) << documents.detail;
    if (kind == Extreme::NaNs)
      continue;
    ProbeResult causal =
        probeGradientCausal(inputs, runner.backwardFunction(), {130});
    EXPECT_TRUE(causal.ok) << causal.detail;
  }
}
