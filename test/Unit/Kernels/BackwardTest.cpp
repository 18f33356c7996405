//===- BackwardTest.cpp - The compiled backward on hard inputs ------------===//
//
// Gradients of the compiled kernels against the specification model, and the
// backward's cases of the public list. Test names carry the case numbers.
//
//===----------------------------------------------------------------------===//

#include "LikeModel.h"

#include "test/Unit/Reference/BackwardProblems.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;

namespace {

std::vector<uint32_t> bitsOf(const std::vector<float> &values) {
  std::vector<uint32_t> bits;
  for (float value : values)
    bits.push_back(numerics::bitsOf(value));
  return bits;
}

/// Bits of all gradients of the tokens of one document.
std::vector<uint32_t> documentBits(const Gradients &gradients,
                                   const AttentionShape &shape,
                                   int64_t document) {
  std::vector<uint32_t> bits;
  auto add = [&](const std::vector<float> &values, int64_t heads) {
    int64_t row = heads * shape.headDim;
    for (int64_t i = shape.cuSeqlens[document] * row,
                 end = shape.cuSeqlens[document + 1] * row;
         i < end; ++i)
      bits.push_back(numerics::bitsOf(values[i]));
  };
  add(gradients.dq, shape.heads);
  add(gradients.dk, shape.kvHeads);
  add(gradients.dv, shape.kvHeads);
  return bits;
}

} // namespace

TEST(Backward, FollowsTheModel) {
  expectGradientsLikeModel(runtime::Format::Mxfp8, 21);
}

TEST(Backward, AsyncSchedulesAgree) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({290, 1}, 2, 1), DataKind::LlmLike, 22);
  Gradients base = backwardRunner(inputs).run(inputs).second.gradients;
  ASSERT_FALSE(base.dq.empty());
  for (auto [mode, seed] :
       {std::pair<sim::AsyncMode, uint64_t>{sim::AsyncMode::Late, 0},
        {sim::AsyncMode::Random, 1},
        {sim::AsyncMode::Random, 2}}) {
    RunnerOptions options;
    options.sim.async = mode;
    options.sim.seed = seed;
    Gradients other =
        backwardRunner(inputs, options).run(inputs).second.gradients;
    EXPECT_EQ(bitsOf(base.dq), bitsOf(other.dq));
    EXPECT_EQ(bitsOf(base.dk), bitsOf(other.dk));
    EXPECT_EQ(bitsOf(base.dv), bitsOf(other.dv));
  }
}

/// Scale bytes of Q in dK above and below their range, of K in dQ below.
TEST(Backward, BlockScalesOutOfRange) {
  using Sizes = std::array<int, 4>;
  for (Sizes sizes :
       {Sizes{100, -100, -80, 60}, {-60, 60, 90, -80}, {115, -115, 60, -60}}) {
    BackwardInputs inputs =
        makeBackwardInputs(shapeOf({300}, 1, 1, 64), DataKind::Normal, 28);
    std::vector<uint16_t> *tensors[] = {&inputs.forward.q, &inputs.forward.k,
                                        &inputs.forward.v, &inputs.dO};
    for (size_t i = 0; i < 4; ++i)
      for (uint16_t &x : *tensors[i])
        x = numerics::floatToBF16(
            std::ldexp(numerics::bf16ToFloat(x), sizes[i]));
    expectGradientsLikeModel(inputs);
  }
}

TEST(Backward, Leak3EarlierGradientRow) {
  RunnerOptions options;
  options.softmaxScale = 1.0f;
  auto run = [&](bool earlier) {
    BackwardInputs inputs = earlierGradientRow(earlier);
    return backwardRunner(inputs, options).run(inputs).second.gradients.dv;
  };
  std::vector<float> a = run(false), b = run(true);
  ASSERT_FALSE(a.empty());
  EXPECT_EQ(a[16 * 128], 0x1p-25f);
  EXPECT_EQ(b[16 * 128], 0x1p-25f);
  EXPECT_EQ(changedTokens(a, b, 1, 128), 0);
  EXPECT_EQ(a[0], 0x1p-25f);
  EXPECT_EQ(b[0], 1.0f); // 1 + 2^-25 in BF16
}

TEST(Backward, Leak3TwinSmallGradientsBesideLargeOnes) {
  for (int shift : {0, 20}) {
    BackwardInputs inputs = smallBesideLarge(shift);
    Gradients gradients = backwardRunner(inputs).run(inputs).second.gradients;
    ASSERT_FALSE(gradients.dv.empty());
    GradientsFp64 exact = attentionBackwardFp64(inputs, {});
    EXPECT_NEAR(gradients.dv[31 * 128 + 2], 1, 0.0625) << shift;
    EXPECT_NEAR(gradients.dv[31 * 128 + 1] / exact.dv[31 * 128 + 1], 1, 0.0625)
        << shift;
  }
}

TEST(Backward, Leak3TwinEarlierQuery) {
  RunnerOptions options;
  options.softmaxScale = earlierQueryScale;
  auto run = [&](float size) {
    BackwardInputs inputs = earlierQuery(size);
    return backwardRunner(inputs, options).run(inputs).second.gradients.dk;
  };
  std::vector<float> base = run(1);
  ASSERT_FALSE(base.empty());
  EXPECT_NE(base[16 * 128 + 3], 0);
  for (float size : {0x1p20f, 0x1p110f})
    EXPECT_EQ(changedTokens(base, run(size), 1, 128), 0) << size;
}

TEST(Backward, Leak3TwinLaterKey) {
  auto run = [&](float size) {
    BackwardInputs inputs = laterKey(size);
    return backwardRunner(inputs).run(inputs).second.gradients.dq;
  };
  std::vector<float> base = run(1);
  ASSERT_FALSE(base.empty());
  EXPECT_NE(base[31 * 128 + 3], 0);
  for (float size : {0x1p20f, 0x1p110f})
    EXPECT_EQ(changedTokens(base, run(size), 0, 40), 0) << size;
}

TEST(Backward, Bwd1ConstantKeys) {
  // As in cases/README.md item 9, with a quarter of the heads.
  AttentionShape shape = shapeOf({256, 256}, 4, 1);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 71);
  auto shift = [](std::vector<uint16_t> &tensor, float mean, float deviation) {
    for (uint16_t &x : tensor)
      x = numerics::floatToBF16(mean + deviation * numerics::bf16ToFloat(x));
  };
  shift(inputs.forward.k, 8, 0.01f);
  shift(inputs.forward.q, 4, 0.1f);
  shift(inputs.forward.v, 3, 1);
  KernelRunner runner = backwardRunner(inputs);
  ProbeResult alone =
      probeGradientDocuments(inputs, runner.backwardFunction(), 2);
  EXPECT_TRUE(alone.ok) << alone.detail;
  Gradients gradients = runner.run(inputs).second.gradients;
  ASSERT_FALSE(gradients.dk.empty());
  GradientsFp64 exact = attentionBackwardFp64(inputs, {});
  auto cosine = [](const std::vector<float> &a, const std::vector<double> &b) {
    double product = 0, squaresA = 0, squaresB = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      product += double(a[i]) * b[i];
      squaresA += double(a[i]) * a[i];
      squaresB += b[i] * b[i];
    }
    return product / std::sqrt(squaresA * squaresB);
  };
  EXPECT_GT(cosine(gradients.dk, exact.dk), 0.99);
  EXPECT_GT(cosine(gradients.dv, exact.dv), 0.99);
  // K is 8 almost everywhere, so that dQ is what is left of row sums of dS.
  for (float x : gradients.dq)
    ASSERT_TRUE(std::isfinite(x));
}

TEST(Backward, Bwd3OrderOfDocuments) {
  const int64_t lengths[] = {100, 37, 256};
  std::vector<std::vector<uint32_t>> expected;
  std::vector<BackwardInputs> alone;
  for (int64_t d = 0; d < 3; ++d)
    alone.push_back(makeBackwardInputs(shapeOf({lengths[d]}, 2, 1, 64),
                                       DataKind::OutlierChannels, uint64_t(d)));
  KernelRunner runner = backwardRunner(alone[0]);
  for (const BackwardInputs &inputs : alone) {
    expected.push_back(documentBits(runner.run(inputs).second.gradients,
                                    inputs.forward.shape, 0));
    ASSERT_FALSE(expected.back().empty());
  }
  std::vector<int64_t> order = {0, 1, 2};
  do {
    BackwardInputs pack;
    AttentionShape &shape = pack.forward.shape;
    shape = {{0}, 2, 1, 64};
    auto append = [](std::vector<uint16_t> &to,
                     const std::vector<uint16_t> &from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (int64_t d : order) {
      shape.cuSeqlens.push_back(shape.tokens() + lengths[d]);
      append(pack.forward.q, alone[d].forward.q);
      append(pack.forward.k, alone[d].forward.k);
      append(pack.forward.v, alone[d].forward.v);
      append(pack.dO, alone[d].dO);
    }
    Gradients gradients = runner.run(pack).second.gradients;
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(documentBits(gradients, shape, i), expected[order[i]])
          << "document " << order[i] << " at place " << i;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Backward, Bwd4HeadMapping) {
  for (auto [heads, kvHeads] :
       {std::pair<int64_t, int64_t>{8, 2}, {6, 3}, {12, 4}, {5, 1}}) {
    AttentionShape shape = shapeOf({1}, heads, kvHeads, 64);
    BackwardInputs inputs;
    inputs.forward = constantInputs(shape, 0, 0, 0);
    for (int64_t g = 0; g < kvHeads; ++g)
      for (int64_t c = 0; c < 64; ++c)
        reference::at(inputs.forward.v, shape, kvHeads, 0, g, c) =
            numerics::floatToBF16(float(g + 1));
    inputs.dO.assign(heads * 64, numerics::floatToBF16(1));
    KernelRunner runner = backwardRunner(inputs);
    Gradients gradients = runner.run(inputs).second.gradients;
    ASSERT_FALSE(gradients.dv.empty());
    for (float x : gradients.dv)
      EXPECT_EQ(x, float(heads / kvHeads));
    // And which heads: only the last one has a gradient.
    std::fill(inputs.dO.begin(), inputs.dO.end(), uint16_t(0));
    for (int64_t c = 0; c < 64; ++c)
      inputs.dO[(heads - 1) * 64 + c] = numerics::floatToBF16(2);
    gradients = runner.run(inputs).second.gradients;
    for (int64_t g = 0; g < kvHeads; ++g)
      EXPECT_EQ(reference::at(gradients.dv, shape, kvHeads, 0, g, 9),
                g == kvHeads - 1 ? 2.0f : 0.0f);
  }
}

TEST(Backward, Var6Syn4AwkwardLengths) {
  // BWD-6's length and head counts are here too.
  for (std::vector<int64_t> lengths : {std::vector<int64_t>{3, 250, 1, 1, 252},
                                       {1, 2, 31, 32, 33, 63, 64, 65, 127, 128,
                                        129, 191, 249, 251, 253, 255, 257}})
    for (bool causal : {true, false}) {
      bool many = lengths.size() > 5;
      BackwardInputs inputs = makeBackwardInputs(
          shapeOf(lengths, many ? 1 : 4, many ? 1 : 2, many ? 64 : 128),
          DataKind::Normal, 76);
      RunnerOptions options;
      options.causal = causal;
      expectGradientsLikeModel(inputs, options);
    }
}

TEST(Backward, Var8DocumentsOfOneToken) {
  BackwardInputs inputs = makeBackwardInputs(
      shapeOf(std::vector<int64_t>(64, 1)), DataKind::Normal, 77);
  Gradients gradients = backwardRunner(inputs).run(inputs).second.gradients;
  ASSERT_FALSE(gradients.dv.empty());
  auto norm = [](auto value) {
    double squares = 0;
    for (int64_t c = 0; c < 128; ++c)
      squares += double(value(c)) * value(c);
    return std::sqrt(squares);
  };
  for (int64_t i = 0; i < 64; ++i) {
    auto bf16 = [i](const std::vector<uint16_t> &tensor) {
      return [&tensor, i](int64_t c) {
        return numerics::bf16ToFloat(tensor[i * 128 + c]);
      };
    };
    auto plain = [i](const std::vector<float> &tensor) {
      return [&tensor, i](int64_t c) { return tensor[i * 128 + c]; };
    };
    for (int64_t c = 0; c < 128; ++c)
      EXPECT_EQ(gradients.dv[i * 128 + c], bf16(inputs.dO)(c));
    double bound = 0x1p-4 / std::sqrt(128.0) * norm(bf16(inputs.dO)) *
                   norm(bf16(inputs.forward.v));
    EXPECT_LE(norm(plain(gradients.dq)), bound * norm(bf16(inputs.forward.k)));
    EXPECT_LE(norm(plain(gradients.dk)), bound * norm(bf16(inputs.forward.q)));
  }
}

TEST(Backward, Qnt9Zeros) {
  for (bool causal : {true, false}) {
    RunnerOptions options;
    options.causal = causal;
    BackwardInputs inputs =
        makeBackwardInputs(shapeOf({200, 5}), DataKind::Normal, 78);
    BackwardInputs zeroGradient = inputs, zeroV = inputs, zeroBlock = inputs;
    KernelRunner runner = backwardRunner(inputs, options);
    std::fill(zeroGradient.dO.begin(), zeroGradient.dO.end(), uint16_t(0));
    Gradients gradients = runner.run(zeroGradient).second.gradients;
    for (const std::vector<float> *tensor :
         {&gradients.dq, &gradients.dk, &gradients.dv})
      for (float x : *tensor)
        ASSERT_EQ(x, 0.0f);
    std::fill(zeroV.forward.v.begin(), zeroV.forward.v.end(), uint16_t(0));
    gradients = runner.run(zeroV).second.gradients;
    for (const std::vector<float> *tensor : {&gradients.dq, &gradients.dk})
      for (float x : *tensor)
        ASSERT_EQ(x, 0.0f);
    // 32 zero rows of dO, and single ones, between others.
    for (int64_t i = 0; i < 200; ++i)
      if ((i >= 64 && i < 96) || i % 9 == 4)
        std::fill_n(zeroBlock.dO.begin() + i * 128, 128, uint16_t(0));
    gradients = expectGradientsLikeModel(zeroBlock, options);
    for (int64_t c = 0; c < 128; ++c)
      EXPECT_EQ(gradients.dq[70 * 128 + c], 0.0f);
  }
}

TEST(Backward, Smx4ScaleZero) {
  RunnerOptions options;
  options.softmaxScale = 0.0f;
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({8, 300}, 1, 1, 64), DataKind::Normal, 79);
  Gradients gradients = expectGradientsLikeModel(inputs, options);
  for (const std::vector<float> *tensor : {&gradients.dq, &gradients.dk})
    for (float x : *tensor)
      ASSERT_EQ(x, 0.0f);
}

namespace {

/// The kernels on a sink, by the rule of the issue and by the model's errors.
void judgeSink(double logit) {
  BackwardInputs inputs = sinkProblem(logit, 0);
  SinkJudge judge(inputs, 0);
  Gradients gradients = backwardRunner(inputs).run(inputs).second.gradients;
  ASSERT_FALSE(gradients.dq.empty());
  SinkErrors errors = judge.errorsOf(gradients), flash = judge.flashErrors();
  SinkErrors model = judge.errorsOf(attentionBackwardModel(inputs, {}));
  EXPECT_LE(errors.dq, std::max(0.1, 1.3 * flash.dq));
  EXPECT_LE(errors.dk, std::max(0.1, 1.3 * flash.dk));
  EXPECT_LE(errors.ordinaryDv, 0.08);
  EXPECT_NEAR(errors.dq, model.dq, 0.05 * model.dq);
  EXPECT_NEAR(errors.dk, model.dk, 0.05 * model.dk);
  EXPECT_NEAR(errors.ordinaryDv, model.ordinaryDv, 0.05 * model.ordinaryDv);
  ::testing::Test::RecordProperty("dq", std::to_string(errors.dq));
  ::testing::Test::RecordProperty("dk", std::to_string(errors.dk));
}

} // namespace

TEST(Backward, SinkOfLogit8) { judgeSink(8); }
TEST(Backward, SinkOfLogit10) { judgeSink(10); }
TEST(Backward, SinkOfLogit12) { judgeSink(12); }
