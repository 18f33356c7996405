//===- BackwardTest.cpp - The backward's kernels, evaluated ---------------===//
//
// attention_bwd_prep, attention_bwd_dq and attention_bwd_dkdv, run by the
// evaluator, against prepareBackward and attentionBackwardModel.
//
//===----------------------------------------------------------------------===//

#include "KernelEvaluation.h"

#include "flamia/Numerics/Formats.h"
#include "flamia/Numerics/Quantize.h"
#include "flamia/Reference/Backward.h"
#include "flamia/Reference/Compare.h"
#include "flamia/Reference/Data.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace flamia;
using namespace flamia::test;
using namespace flamia::reference;

namespace {

std::vector<uint16_t> narrow(const std::vector<float> &values) {
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = numerics::floatToBF16(values[i]);
  return bits;
}

std::vector<float> widen(const std::vector<uint16_t> &bits) {
  std::vector<float> values(bits.size());
  numerics::bf16ToFloat(bits.data(), values.data(), bits.size());
  return values;
}

/// One problem: the forward's results by the model, and all arguments by name.
class Problem {
public:
  Problem(const BackwardInputs &inputs, const BackwardOptions &options)
      : options(options), dO(inputs.dO), dLse(inputs.dLse),
        quantized(quantizeInputs(inputs.forward, options.forward)),
        forward(attentionForwardModel(quantized, options.forward)),
        shape(quantized.shape),
        tiles(numerics::scaleTileBases(shape.cuSeqlens).back()) {}

  /// Runs both preparation kernels; every output holds NaN patterns before.
  void prepare() {
    set("q_scale", tensor({tiles, shape.heads, 512}, quantized.q.scales));
    set("k_scale", tensor({tiles, shape.kvHeads, 512}, quantized.k.scales));
    set("o", queries(narrow(forward.o)));
    set("do", queries(dO));
    set("m", perQuery(forward.m));
    set("l", perQuery(forward.l));
    set("kappa", perQuery(forward.kappa));
    set("dlse", dLse.empty() ? filled({shape.tokens(), shape.heads}, 4)
                             : perQuery(dLse));
    set("work", workListOf(shape.cuSeqlens));
    set("do_data", filled({shape.tokens(), shape.heads, shape.headDim}, 1));
    for (const char *name :
         {"do_scale", "do_scale_hat", "do_block_scale", "q_block_scale"})
      set(name, filled({tiles, shape.heads, 512}, 1));
    for (const char *name : {"r", "d_past", "d_diagonal"})
      set(name, filled({shape.tokens(), shape.heads}, 4));
    for (const char *name : {"bias", "bias_hat", "d_past_hat", "d_diagonal_hat",
                             "r_hat", "r_unit"})
      set(name, filled({tiles, shape.heads, 128}, 4));
    for (const char *name : {"v_scale_hat", "k_block_scale"})
      set(name, filled({tiles, shape.kvHeads, 512}, 1));
    for (const char *name : {"k_factor", "k_factor_diagonal"})
      set(name, filled({tiles, shape.kvHeads, 128}, 4));
    // The only array of scales of V that the preparation reads.
    set("v_scale",
        tensor({tiles, shape.kvHeads, 512}, quantized.v.scalesAlongCols));
    CompiledKernel kernels("attention_bwd_prep.mlir",
                           "head_dim=" + std::to_string(shape.headDim) +
                               (dLse.empty() ? "" : ",dlse=true"));
    run(kernels, "attention_bwd_prep");
    run(kernels, "attention_bwd_prep_keys");
  }

  /// Runs both gradient kernels on what prepare() left.
  Gradients gradients(bool safeguards = true) {
    set("q_data", queries(quantized.q.payload));
    set("k_data", keys(quantized.k.payload));
    set("v_data", keys(quantized.v.payload));
    set("v_bf16", keys(quantized.vBf16));
    set("softmax_scale",
        number(softmaxScaleOf(options.forward, shape.headDim)));
    set("dq", filled({shape.tokens(), shape.heads, shape.headDim}, 2));
    for (const char *name : {"dk", "dv"})
      set(name, filled({shape.tokens(), shape.kvHeads, shape.headDim}, 2));
    std::string parameters =
        "head_dim=" + std::to_string(shape.headDim) +
        ",causal=" + (options.forward.mask.causal ? "true" : "false");
    for (const char *name : {"dq", "dkdv"}) {
      std::string kernel = std::string("attention_bwd_") + name;
      CompiledKernel kernels(kernel + ".mlir", parameters, safeguards);
      run(kernels, kernel);
    }
    return {widen(get<uint16_t>("dq")), widen(get<uint16_t>("dk")),
            widen(get<uint16_t>("dv"))};
  }

  template <typename T>
  std::vector<T> get(const char *name) const {
    return valuesOf<T>(arguments, name);
  }

  BackwardOptions options;
  std::vector<uint16_t> dO;
  std::vector<float> dLse;
  QuantizedInputs quantized;
  ForwardOutputs forward;
  const AttentionShape &shape;
  int64_t tiles;

private:
  void set(const char *name, Argument argument) {
    arguments[name] = std::move(argument);
  }
  template <typename T>
  Argument queries(const std::vector<T> &values) const {
    return tensor({shape.tokens(), shape.heads, shape.headDim}, values);
  }
  template <typename T>
  Argument keys(const std::vector<T> &values) const {
    return tensor({shape.tokens(), shape.kvHeads, shape.headDim}, values);
  }
  Argument perQuery(const std::vector<float> &values) const {
    return tensor({shape.tokens(), shape.heads}, values);
  }
  void run(CompiledKernel &kernels, const std::string &name) {
    ASSERT_TRUE(kernels.get(name)) << name;
    llvm::Error error = evaluate(kernels.get(name), arguments);
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  }

  Arguments arguments;
};

BackwardInputs inputsOf(const AttentionShape &shape, DataKind kind,
                        bool withDLse) {
  BackwardInputs inputs = makeBackwardInputs(shape, kind, 11);
  // Tokens whose gradients differ in size, some without any.
  for (int64_t row = 0; row < shape.tokens() * shape.heads; ++row)
    for (int64_t c = 0; c < shape.headDim; ++c) {
      uint16_t &bits = inputs.dO[size_t(row * shape.headDim + c)];
      float factor = row % 7 == 3 ? 0.0f : std::ldexp(1.0f, int(row % 5) - 2);
      bits = numerics::floatToBF16(numerics::bf16ToFloat(bits) * factor);
    }
  if (withDLse)
    for (int64_t row = 0; row < shape.tokens() * shape.heads; ++row)
      inputs.dLse.push_back(float(row % 3) - 1.0f);
  return inputs;
}

/// Compares values of the document's tokens in a tile vector with the model's
/// [tokens, heads], after \p expected.
template <typename Function>
void expectTileVector(const Problem &problem, const char *name, int64_t heads,
                      Function expected) {
  std::vector<float> actual = problem.get<float>(name);
  const AttentionShape &shape = problem.shape;
  std::vector<int64_t> bases = numerics::scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t t = 0; t < shape.length(d); ++t)
      for (int64_t h = 0; h < heads; ++h) {
        int64_t place = ((bases[d] + t / 128) * heads + h) * 128 + t % 128;
        ASSERT_EQ(actual[size_t(place)],
                  expected((shape.cuSeqlens[d] + t) * heads + h))
            << name << " document " << d << " token " << t << " head " << h;
      }
}

class BackwardKernels
    : public testing::TestWithParam<std::tuple<int, bool, bool>> {};

TEST_P(BackwardKernels, PreparationGivesTheModelsBits) {
  auto [dim, causal, withDLse] = GetParam();
  AttentionShape shape{numerics::cuSeqlensOf({1, 33, 0, 128, 200}), 4, 2, dim};
  BackwardOptions options;
  options.forward.mask.causal = causal;
  Problem problem(inputsOf(shape, DataKind::OutlierChannels, withDLse),
                  options);
  problem.prepare();
  PreparedGradient expected = prepareBackward(
      problem.quantized, problem.forward, problem.dO, problem.dLse, options);
  EXPECT_EQ(problem.get<uint8_t>("do_data"), expected.dO.payload);
  EXPECT_EQ(problem.get<uint8_t>("do_scale"), expected.dO.scales);
  EXPECT_EQ(problem.get<uint8_t>("do_scale_hat"), expected.foldedScales);
  EXPECT_EQ(problem.get<uint8_t>("do_block_scale"), expected.blockScales);
  EXPECT_EQ(problem.get<uint8_t>("v_scale_hat"), expected.foldedValueScales);
  EXPECT_EQ(problem.get<float>("r"), expected.r);
  EXPECT_EQ(problem.get<float>("d_past"), expected.dPast);
  EXPECT_EQ(problem.get<float>("d_diagonal"), expected.dDiagonal);
  EXPECT_EQ(problem.get<uint8_t>("q_block_scale"), expected.queryBlockScales);
  EXPECT_EQ(problem.get<uint8_t>("k_block_scale"), expected.keyBlockScales);
  auto expectQueries = [&](const char *name, auto function) {
    expectTileVector(problem, name, shape.heads, function);
  };
  expectQueries("bias", [&](int64_t row) { return expected.bias[row]; });
  expectQueries("bias_hat", [&](int64_t row) { return expected.biasHat[row]; });
  expectQueries("d_past_hat",
                [&](int64_t row) { return expected.dPastHat[row]; });
  expectQueries("d_diagonal_hat",
                [&](int64_t row) { return expected.dDiagonalHat[row]; });
  expectQueries("r_hat", [&](int64_t row) { return expected.rHat[row]; });
  expectQueries("r_unit", [&](int64_t row) { return expected.r[row] / 256; });
  expectTileVector(problem, "k_factor", shape.kvHeads,
                   [&](int64_t row) { return expected.keyFactors[row]; });
  expectTileVector(
      problem, "k_factor_diagonal", shape.kvHeads,
      [&](int64_t row) { return expected.diagonalKeyFactors[row]; });
}

TEST_P(BackwardKernels, GradientsAgreeWithTheSpecificationModel) {
  auto [dim, causal, withDLse] = GetParam();
  AttentionShape shape{numerics::cuSeqlensOf({1, 33, 128, 200, 400}), 2, 1,
                       dim};
  BackwardOptions options;
  options.forward.mask.causal = causal;
  options.forward.exp2 = numerics::exp2ShareOf("sm_100a");
  Problem problem(inputsOf(shape, DataKind::Normal, withDLse), options);
  problem.prepare();
  Gradients actual = problem.gradients();
  Gradients expected = attentionBackwardModel(
      problem.quantized, problem.forward, problem.dO, problem.dLse, options);
  auto check = [](const char *name, const std::vector<float> &values,
                  const std::vector<float> &reference) {
    double error = measureError(values, reference).relativeFrobenius;
    testing::Test::RecordProperty(name, std::to_string(error * 1e6) + "e-6");
    // Both sum in double and round once.
    EXPECT_LE(error, 1e-5) << name;
  };
  check("dq", actual.dq, expected.dq);
  check("dk", actual.dk, expected.dk);
  check("dv", actual.dv, expected.dv);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BackwardKernels,
                         testing::Values(std::tuple(64, true, false),
                                         std::tuple(64, false, true),
                                         std::tuple(128, true, true),
                                         std::tuple(128, false, false)));

/// NaN where the model has NaN, else equal to \p tolerance of the largest.
void expectSame(const char *name, const std::vector<float> &values,
                const std::vector<float> &reference, double tolerance) {
  ASSERT_EQ(values.size(), reference.size());
  std::vector<float> finite, expected;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), std::isnan(reference[i])) << name << i;
    if (std::isnan(values[i]))
      continue;
    finite.push_back(values[i]);
    expected.push_back(reference[i]);
  }
  EXPECT_LE(measureError(finite, expected).relativeFrobenius, tolerance)
      << name;
}

/// Tokens whose Q, K, V and dO differ by many powers of two, so that exponents
/// relative to a tile's largest leave the range, and NaN in one document.
TEST(BackwardKernel, FollowsTheModelToTheEndsOfTheRange) {
  AttentionShape shape{numerics::cuSeqlensOf({300, 140}), 1, 1, 64};
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 13);
  auto scale = [&](std::vector<uint16_t> &bits, int64_t step, int span,
                   int largest) {
    for (size_t i = 0; i < bits.size(); ++i) {
      int exponent = largest - int(int64_t(i) / 64 * step % (span + 1));
      bits[i] = numerics::floatToBF16(
          std::ldexp(numerics::bf16ToFloat(bits[i]), exponent));
    }
  };
  // Scores stay below the limit that docs/numerics.md names.
  scale(inputs.forward.q, 7, 110, 2);
  scale(inputs.forward.k, 11, 110, 2);
  scale(inputs.forward.v, 3, 60, 30);
  scale(inputs.dO, 5, 90, 30);
  inputs.dO[size_t(400 * 64 + 5)] = 0x7FC0; // NaN in the second document
  for (bool causal : {true, false}) {
    BackwardOptions options;
    options.forward.mask.causal = causal;
    Problem problem(inputs, options);
    problem.prepare();
    PreparedGradient prepared = prepareBackward(
        problem.quantized, problem.forward, problem.dO, {}, options);
    EXPECT_EQ(problem.get<uint8_t>("do_data"), prepared.dO.payload);
    EXPECT_EQ(problem.get<uint8_t>("do_scale_hat"), prepared.foldedScales);
    EXPECT_EQ(problem.get<uint8_t>("do_block_scale"), prepared.blockScales);
    EXPECT_EQ(problem.get<uint8_t>("v_scale_hat"), prepared.foldedValueScales);
    expectSame("d_past", problem.get<float>("d_past"), prepared.dPast, 0);
    Gradients actual = problem.gradients();
    Gradients expected = attentionBackwardModel(
        problem.quantized, problem.forward, problem.dO, {}, options);
    expectSame("dq", actual.dq, expected.dq, 1e-5);
    expectSame("dk", actual.dk, expected.dk, 1e-5);
    expectSame("dv", actual.dv, expected.dv, 1e-5);
  }
}

/// P1 in the evaluator. Later V reach no dQ, and earlier Q and dO no dK or dV;
/// without safeguards V's scales do.
TEST(BackwardCausality, OtherTokensReachNoGradientOnlyWithSafeguards) {
  AttentionShape shape{numerics::cuSeqlensOf({200}), 1, 1, 64};
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 5);
  int64_t cut = 140; // inside a block of 32 and inside a tile
  size_t split = size_t(cut * 64);
  auto grow = [](std::vector<uint16_t> &bits, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      bits[i] = numerics::floatToBF16(numerics::bf16ToFloat(bits[i]) * 0x1p20f);
  };
  BackwardInputs laterV = inputs, earlierQ = inputs;
  grow(laterV.forward.v, split, laterV.forward.v.size());
  grow(earlierQ.forward.q, 0, split);
  grow(earlierQ.dO, 0, split);
  auto gradientsOf = [](const BackwardInputs &at, bool safeguards) {
    Problem problem(at, BackwardOptions());
    problem.prepare();
    return problem.gradients(safeguards);
  };
  for (bool safeguards : {true, false}) {
    Gradients a = gradientsOf(inputs, safeguards);
    Gradients b = gradientsOf(laterV, safeguards);
    EXPECT_EQ(std::equal(a.dq.begin(), a.dq.begin() + split, b.dq.begin()),
              safeguards);
    EXPECT_FALSE(
        std::equal(a.dq.begin() + split, a.dq.end(), b.dq.begin() + split));
  }
  Gradients a = gradientsOf(inputs, true), c = gradientsOf(earlierQ, true);
  for (auto member : {&Gradients::dk, &Gradients::dv}) {
    EXPECT_TRUE(std::equal((a.*member).begin() + split, (a.*member).end(),
                           (c.*member).begin() + split));
    EXPECT_FALSE(std::equal((a.*member).begin(), (a.*member).begin() + split,
                            (c.*member).begin()));
  }
}

} // namespace
