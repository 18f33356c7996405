//===- CompareTest.cpp - What flamia-run's comparisons let pass -----------===//
//
// The model stands in for the kernels, on inputs far outside of the usual and
// on plain ones: its own results pass, and every change that a wrong kernel
// could make fails, wherever results mean something.
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Reference/ExtremeInputs.h"
#include "test/Unit/Reference/TestInputs.h"
#include "tools/flamia-run/Report.h"

#include "gtest/gtest.h"

#include <functional>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::run;

namespace {

const float notANumber = std::numeric_limits<float>::quiet_NaN();
const float infinity = std::numeric_limits<float>::infinity();

bool isJudged(float allowed) { return std::isfinite(allowed); }

/// Results of the model, and the verdict on what a kernel may give instead.
struct Problem {
  explicit Problem(BackwardInputs problem) : inputs(std::move(problem)) {
    quantized = quantizeInputs(inputs.forward, options.forward);
    forward = attentionForwardModel(quantized, options.forward);
    gradients = attentionBackwardModel(quantized, forward, inputs.dO,
                                       inputs.dLse, options);
    fp64 = attentionFp64(inputs.forward, options.forward);
    fp64Gradients = attentionBackwardFp64(inputs, options.forward);
    rows = meaningfulRows(quantized, options.forward);
    addMeaningfulGradients(quantized, forward, inputs.dO, inputs.dLse,
                           options.forward, rows);
  }

  /// Names of the lines that fail, in one string.
  std::string failures(const ForwardOutputs &found,
                       const Gradients &foundGradients) const {
    Report report;
    compareWithModel(found, forward, rows.outputs, report);
    compareWithFp64(found, forward, fp64, rows.outputs, /*generated=*/true,
                    report);
    compareGradients(inputs, options.forward, foundGradients, gradients,
                     fp64Gradients, rows, /*generated=*/true, /*kernels=*/true,
                     report);
    std::string names;
    for (const Line &line : report.lines)
      if (!line.ok)
        names += line.name + "; ";
    return names;
  }
  std::string
  failures(const std::function<void(ForwardOutputs &)> &change) const {
    ForwardOutputs found = forward;
    change(found);
    return failures(found, gradients);
  }
  std::string failures(const std::function<void(Gradients &)> &change) const {
    Gradients found = gradients;
    change(found);
    return failures(forward, found);
  }
  int64_t judged(const std::vector<float> &which) const {
    return std::count_if(which.begin(), which.end(), isJudged);
  }

  BackwardInputs inputs;
  BackwardOptions options;
  QuantizedInputs quantized;
  ForwardOutputs forward;
  Gradients gradients;
  ForwardOutputsFp64 fp64;
  GradientsFp64 fp64Gradients;
  MeaningfulRows rows;
};

Problem extremeProblem(Extreme kind) {
  return Problem(extremeInputs(shapeOf({20, 1, 160, 40}, 2, 1, 64), kind, 3));
}

/// Index of the first row that is judged in full, or not at all.
size_t rowWith(const std::vector<float> &rows, bool judged) {
  auto found = std::find_if(rows.begin(), rows.end(), [&](float allowed) {
    return judged ? allowed == 0 : !isJudged(allowed);
  });
  return size_t(found - rows.begin());
}

} // namespace

TEST(Compare, TheModelPassesEverywhere) {
  for (auto [kind, name] : allExtremes) {
    SCOPED_TRACE(name);
    Problem problem = extremeProblem(kind);
    EXPECT_EQ(problem.failures(problem.forward, problem.gradients), "");
  }
}

TEST(Compare, OnlyMeaninglessRowsAreLeftOut) {
  // In all of these no score and no sum is out of range.
  for (Extreme kind : {Extreme::NaNs, Extreme::Infinities, Extreme::ZeroTokens,
                       Extreme::Subnormal, Extreme::Tiny, Extreme::HugeValues,
                       Extreme::MixedTokens, Extreme::MixedChannels}) {
    SCOPED_TRACE(int(kind));
    Problem problem = extremeProblem(kind);
    for (const std::vector<float> *rows :
         {&problem.rows.outputs, &problem.rows.queries, &problem.rows.keys})
      EXPECT_EQ(problem.judged(*rows), int64_t(rows->size()));
  }
  // Every third query is zero here, and so are its scores; every key but the
  // last ones is seen by another.
  Problem huge = extremeProblem(Extreme::HugeScores);
  for (size_t row = 0; row < huge.rows.outputs.size(); ++row)
    EXPECT_EQ(isJudged(huge.rows.outputs[row]), (row / 2) % 3 == 0) << row;
  EXPECT_EQ(huge.rows.queries, huge.rows.outputs);
  const std::vector<int64_t> &cu = huge.inputs.forward.shape.cuSeqlens;
  for (size_t d = 0; d + 1 < cu.size(); ++d)
    for (int64_t j = cu[d]; j < cu[d + 1]; ++j)
      EXPECT_EQ(isJudged(huge.rows.keys[size_t(j)]),
                j == cu[d + 1] - 1 && j % 3 == 0)
          << j;
}

TEST(Compare, LimitOfScores) {
  // Scores up to |q| |k| c with one element each: exactly at the limit, and
  // one step of BF16 beyond.
  for (bool beyond : {false, true}) {
    BackwardInputs inputs;
    inputs.forward = constantInputs(shapeOf({8}), 0, 0, 1);
    inputs.dO.assign(inputs.forward.q.size(), numerics::floatToBF16(1));
    BackwardOptions options;
    options.forward.rotate = false;
    options.forward.softmaxScale = 0.5;
    for (int64_t i = 0; i < 8; ++i) {
      inputs.forward.q[size_t(i * 128)] = numerics::floatToBF16(2048);
      inputs.forward.k[size_t(i * 128)] =
          numerics::floatToBF16(beyond && i == 3 ? 3072 : 2560);
    }
    QuantizedInputs quantized = quantizeInputs(inputs.forward, options.forward);
    MeaningfulRows rows = meaningfulRows(quantized, options.forward);
    // 2048 * 2560 * 0.5 * log2(e) is 3.78 million, with 3072 4.54 million; 2^22
    // is 4.19 million.
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(isJudged(rows.outputs[i]), !(beyond && i >= 3)) << i;
    EXPECT_NEAR(rows.outputs[0], 3.78e6 * 0x1p-24, 0.01);
  }
}

TEST(Compare, SumsThatOverflowAreLeftOut) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({6, 5}, 1, 1, 64), DataKind::Normal, 5);
  std::fill_n(inputs.forward.v.begin() + 2 * 64, 64,
              numerics::floatToBF16(3e38f));
  std::fill_n(inputs.dO.begin() + 8 * 64, 64, numerics::floatToBF16(3e38f));
  Problem problem(inputs);
  for (size_t i = 0; i < 11; ++i) {
    EXPECT_EQ(isJudged(problem.rows.outputs[i]), i < 2 || i > 5) << i;
    EXPECT_EQ(isJudged(problem.rows.queries[i]), i < 2 || (i > 5 && i != 8))
        << i;
    EXPECT_EQ(isJudged(problem.rows.keys[i]), i > 8) << i;
  }
}

/// The negative controls: one wrong row among those that mean something fails,
/// whatever the others hold, and one that means nothing does not.
TEST(Compare, OneWrongRowFails) {
  for (Extreme kind :
       {Extreme::HugeScores, Extreme::VanishedWeights, Extreme::MixedScores}) {
    SCOPED_TRACE(int(kind));
    Problem problem = extremeProblem(kind);
    size_t good = rowWith(problem.rows.outputs, true),
           bad = rowWith(problem.rows.outputs, false);
    ASSERT_LT(good, problem.rows.outputs.size());
    ASSERT_LT(bad, problem.rows.outputs.size());
    auto spoil = [](size_t row) {
      return [row](ForwardOutputs &found) {
        found.o[row * 64 + 3] = notANumber;
        found.lse[row] += 1;
        found.l[row] *= 3;
        found.kappa[row] = 4;
      };
    };
    EXPECT_EQ(problem.failures(spoil(bad)), "");
    EXPECT_EQ(problem.failures(spoil(good)),
              "O vs model; LSE vs model; saved vs model; O vs fp64; ");
    size_t query = rowWith(problem.rows.queries, true),
           key = rowWith(problem.rows.keys, true);
    if (kind != Extreme::HugeScores)
      continue; // Every key is seen by such a query.
    ASSERT_LT(key, problem.rows.keys.size());
    auto wrong = [&](Gradients &found) {
      found.dq[query * 64 + 5] = notANumber;
      found.dk[key * 64 + 6] = infinity;
      found.dv[key * 64 + 7] = -infinity;
    };
    EXPECT_EQ(problem.failures(wrong),
              "dQ vs model; dK vs model; dV vs model; dQ vs fp64; dK vs fp64; "
              "dV vs fp64; ");
  }
}

TEST(Compare, NotFiniteMustBeAlike) {
  Problem problem = extremeProblem(Extreme::NaNs);
  size_t place = 0;
  while (!std::isnan(problem.forward.o[place]))
    ++place;
  EXPECT_NE(
      problem.failures([&](ForwardOutputs &found) { found.o[place] = 0; }), "");
  // A kernel that ignores NaN altogether.
  EXPECT_NE(problem.failures([&](Gradients &found) {
    for (float &value : found.dv)
      value = std::isnan(value) ? 0 : value;
  }),
            "");
  // The fault that left dV of later keys NaN.
  EXPECT_NE(problem.failures([&](Gradients &found) {
    std::fill(found.dv.end() - 64, found.dv.end(), notANumber);
  }),
            "");
}

TEST(Compare, BelowTheSmallestNormalNumber) {
  Problem problem = extremeProblem(Extreme::Subnormal);
  ASSERT_LT(std::abs(problem.forward.o[0]), 0x1p-126f);
  // One element on the other side of a tie is rounding.
  EXPECT_EQ(problem.failures(
                [](ForwardOutputs &found) { found.o[1000] += 0x1p-133f; }),
            "");
  // Flushed, or all a step too large.
  EXPECT_EQ(problem.failures([](ForwardOutputs &found) {
    std::fill(found.o.begin(), found.o.end(), 0.0f);
  }),
            "O vs model; O vs fp64; ");
  EXPECT_EQ(problem.failures([](ForwardOutputs &found) {
    for (float &value : found.o)
      value += 0x1p-133f;
  }),
            "O vs model; O vs fp64; ");
  EXPECT_NE(problem.failures([](Gradients &found) {
    std::fill(found.dv.begin(), found.dv.end(), 0.0f);
  }),
            "");
}

TEST(Compare, WhatCancelsMustStaySmall) {
  // Documents of one token: dQ and dK are 0 but for rounding.
  Problem problem(
      makeBackwardInputs(shapeOf({1, 1, 1, 1}, 2, 1, 64), DataKind::Normal, 9));
  EXPECT_EQ(problem.failures(problem.forward, problem.gradients), "");
  GradientSizes sizes = gradientSizes(problem.inputs, problem.options.forward);
  // A kernel's last bits, and more than that.
  auto wrongBy = [&](double share) {
    return problem.failures([&](Gradients &found) {
      for (size_t i = 0; i < found.dq.size(); ++i)
        found.dq[i] += float(share * sizes.queries[i / 64] / 8);
    });
  };
  EXPECT_EQ(wrongBy(0x1p-20), "");
  EXPECT_EQ(wrongBy(0x1p-12), "dQ vs model; ");
  EXPECT_EQ(wrongBy(0x1p-2), "dQ vs model; dQ vs fp64; ");
  EXPECT_NE(
      problem.failures([](Gradients &found) { found.dk[3] = notANumber; }), "");
  EXPECT_NE(problem.failures([](Gradients &found) { found.dq[9] = infinity; }),
            "");
}

TEST(Compare, PlainDataIsJudgedInFull) {
  Problem problem(
      makeBackwardInputs(shapeOf({150, 31}, 2, 1, 64), DataKind::Normal, 2));
  for (const std::vector<float> *rows :
       {&problem.rows.outputs, &problem.rows.queries, &problem.rows.keys})
    for (float allowed : *rows)
      EXPECT_EQ(allowed, 0);
  EXPECT_EQ(problem.failures(problem.forward, problem.gradients), "");
  // A tenth of a percent too large.
  EXPECT_EQ(problem.failures([](ForwardOutputs &found) {
    for (float &value : found.o)
      value *= 1.001f;
  }),
            "O vs model; ");
  EXPECT_EQ(problem.failures([](Gradients &found) {
    for (float &value : found.dq)
      value *= 1.002f;
  }),
            "dQ vs model; ");
  EXPECT_EQ(problem.failures([](ForwardOutputs &found) {
    for (float &value : found.lse)
      value += 0.01f;
  }),
            "LSE vs model; ");
}
