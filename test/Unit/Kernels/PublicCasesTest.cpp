//===- PublicCasesTest.cpp - Hard inputs with known outcomes --------------===//
//
// The forward cases of the public list, on the compiled kernels. Test names
// carry the case numbers.
//
//===----------------------------------------------------------------------===//

#include "LikeModel.h"

#include <algorithm>
#include <cmath>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;

namespace {

/// Bits of the rows [first, last) of all outputs.
std::vector<uint32_t> bitsOfRows(const ForwardOutputs &outputs,
                                 const AttentionShape &shape, int64_t first,
                                 int64_t last) {
  std::vector<uint32_t> bits;
  auto add = [&](const std::vector<float> &values, int64_t row) {
    for (int64_t i = first * row; i < last * row; ++i)
      bits.push_back(numerics::bitsOf(values[i]));
  };
  add(outputs.o, shape.heads * shape.headDim);
  for (const std::vector<float> *values :
       {&outputs.lse, &outputs.m, &outputs.l, &outputs.kappa})
    add(*values, shape.heads);
  return bits;
}

} // namespace

TEST(PublicCases, Leak1FutureValueInTheSameBlock) {
  KernelRunner runner(1, 1, 128);
  auto runWith = [&](int64_t future) {
    AttentionInputs inputs =
        inputsOf({128}, 1, 1, 128, constant(1), constant(1),
                 [&](int64_t t, int64_t, int64_t c) {
                   return c ? 0.0 : t == 0 ? 0x1p-20 : t == future ? 1.0 : 0.0;
                 });
    return std::make_pair(inputs.shape, runner.run(inputs).outputs);
  };
  auto [shape, base] = runWith(-1);
  ASSERT_FALSE(base.o.empty());
  EXPECT_EQ(at(base, shape, 7, 0, 0), 0x1p-23f);
  for (int64_t future : {16, 31, 32}) {
    ForwardOutputs changed = runWith(future).second;
    EXPECT_EQ(at(changed, shape, 7, 0, 0), 0x1p-23f) << future;
    EXPECT_EQ(bitsOfRows(base, shape, 0, future),
              bitsOfRows(changed, shape, 0, future))
        << future;
  }
}

TEST(PublicCases, Leak2ProbeSeesTheLeakyKernelAndClearsTheReal) {
  std::vector<int64_t> cuts = {0,  1,  7,  15, 16, 30,  31, 32,
                               33, 47, 62, 63, 64, 100, 126};
  AttentionInputs inputs =
      makeInputs({{0, 128}, 1, 1, 128}, DataKind::Normal, 3);
  KernelRunner real(1, 1, 128);
  ProbeResult clean = probeCausal(inputs, real.function(), cuts);
  EXPECT_TRUE(clean.ok) << clean.detail;
  EXPECT_EQ(clean.cuts, cuts);
  EXPECT_EQ(clean.maxAbs, 0);

  // Negative control: every cut inside a 32-token block shows, no other.
  RunnerOptions leaky;
  leaky.folder = leakyFolder;
  KernelRunner control(1, 1, 128, leaky);
  ProbeResult found = probeCausal(inputs, control.function(), cuts);
  EXPECT_FALSE(found.ok);
  std::vector<int64_t> inside;
  for (int64_t cut : cuts)
    if ((cut + 1) % 32)
      inside.push_back(cut);
  EXPECT_EQ(found.failedCuts, inside) << found.detail;
}

TEST(PublicCases, Leak4LastValueOnly) {
  for (int64_t dim : {64, 128}) {
    AttentionInputs inputs = inputsOf(
        {64}, 1, 1, dim, constant(0), constant(0),
        [](int64_t t, int64_t, int64_t) { return t == 63 ? 1024 : 0; });
    KernelRunner runner(1, 1, dim);
    ForwardOutputs outputs = runner.run(inputs).outputs;
    ASSERT_FALSE(outputs.o.empty());
    for (int64_t t = 0; t < 64; ++t)
      for (int64_t c = 0; c < dim; ++c)
        ASSERT_EQ(at(outputs, inputs.shape, t, 0, c), t == 63 ? 16.0f : 0.0f)
            << "row " << t;
  }
}

TEST(PublicCases, Qnt9AllZeroOperands) {
  KernelRunner runner(2, 1, 128);
  Random random(9, 0);
  auto normal = [&](int64_t, int64_t, int64_t) { return random.nextNormal(); };
  for (int zero = 0; zero < 4; ++zero) {
    // Q, K, V zero in turn, then one zero block of V between others.
    auto pick = [&](int which) {
      return [&, which](int64_t t, int64_t h, int64_t c) {
        bool block = zero == 3 && which == 2 && t >= 32 && t < 64 && c < 32;
        return which == zero || block ? 0.0 : normal(t, h, c);
      };
    };
    AttentionInputs inputs =
        inputsOf({128}, 2, 1, 128, pick(0), pick(1), pick(2));
    run::DeviceResult result = runner.run(inputs);
    ASSERT_FALSE(result.outputs.o.empty());
    for (float value : result.outputs.o) {
      ASSERT_TRUE(std::isfinite(value));
      if (zero == 2)
        ASSERT_EQ(value, 0.0f);
    }
    for (const std::vector<uint8_t> *scales :
         {&result.q.scales, &result.k.scales, &result.v.scalesAlongRows,
          &result.v.scalesAlongCols})
      for (uint8_t byte : *scales)
        ASSERT_NE(byte, 255);
    if (zero == 0) {
      // Rule of design.md section 2: byte 0 for a zero token.
      EXPECT_EQ(result.q.scales[0], 0);
      EXPECT_EQ(result.q.payload, std::vector<uint8_t>(128 * 2 * 128, 0));
    }
    if (zero == 2)
      EXPECT_EQ(result.v.scalesAlongRows[0], 127);
    expectLikeModel(inputs, result, {});
  }
}

TEST(PublicCases, Qnt11SmallWeightsBesideALargeOne) {
  // Rows of the rotation's inverse: one-hot after the rotation, so that scores
  // are exact. 8 * 8 / 8 = 8 between equal rows, 0 between others.
  auto row = [](int64_t index, int64_t c) {
    std::vector<float> values(64, 0.0f);
    values[index] = 8.0f;
    numerics::unrotateToken(values.data(), 64);
    return values[c];
  };
  for (int64_t large : {0, 1023}) {
    AttentionInputs inputs = inputsOf(
        {1024}, 1, 1, 64,
        [&](int64_t, int64_t, int64_t c) { return row(0, c); },
        [&](int64_t t, int64_t, int64_t c) { return row(t != large, c); },
        [&](int64_t t, int64_t, int64_t) { return t == large ? 0 : 1; });
    KernelRunner runner(1, 1, 64);
    ForwardOutputs outputs = runner.run(inputs).outputs;
    ASSERT_FALSE(outputs.o.empty());
    double expected = 1023 * std::exp(-8.0) / (1 + 1023 * std::exp(-8.0));
    EXPECT_NEAR(at(outputs, inputs.shape, 1023, 0, 0), expected,
                0.01 * expected)
        << large;
  }
}

TEST(PublicCases, Smx4ScaleZero) {
  Random random(4, 0);
  auto normal = [&](int64_t, int64_t, int64_t) { return random.nextNormal(); };
  AttentionInputs inputs =
      inputsOf({8}, 1, 1, 128, normal, normal,
               [](int64_t t, int64_t, int64_t) { return t; });
  RunnerOptions options;
  options.softmaxScale = 0.0f;
  KernelRunner runner(1, 1, 128, options);
  ForwardOutputs outputs = runner.run(inputs).outputs;
  ASSERT_FALSE(outputs.o.empty());
  for (int64_t t = 0; t < 8; ++t) {
    EXPECT_EQ(at(outputs, inputs.shape, t, 0, 5), float(t) / 2) << t;
    EXPECT_NEAR(outputs.lse[t], std::log(t + 1.0), 1e-6) << t;
  }
}

TEST(PublicCases, Var3Var6AwkwardLengths) {
  std::vector<int64_t> lengths = {1,  2,   31,  32,  33,  63,  64,
                                  65, 127, 128, 129, 191, 255, 257};
  AttentionShape shape{numerics::cuSeqlensOf(lengths), 2, 1, 128};
  AttentionInputs inputs = makeInputs(shape, DataKind::Normal, 6);
  for (bool causal : {true, false}) {
    RunnerOptions options;
    options.causal = causal;
    KernelRunner runner(2, 1, 128, options);
    ForwardOptions model = modelOptions(options);
    model.mask.causal = causal;
    expectLikeModel(inputs, runner.run(inputs), model);
    AttentionInputs ones = inputs;
    for (uint16_t &value : ones.v)
      value = 0x3F80;
    // Weights of past tiles (without causality: all) are E4M3, and rows of few
    // keys show their rounding, at most half a unit, 2^-4 (MXFP8 policy of the
    // case list). Rows of the first tile see BF16 weights only: O is exact.
    ForwardOutputs outputs = runner.run(ones).outputs;
    ASSERT_FALSE(outputs.o.empty());
    for (int64_t d = 0; d < shape.documents(); ++d)
      for (int64_t i = 0; i < shape.length(d); ++i)
        for (int64_t h = 0; h < 2; ++h)
          ASSERT_NEAR(at(outputs, shape, shape.cuSeqlens[d] + i, h, 0), 1.0f,
                      !causal   ? 0x1p-4f
                      : i < 128 ? 0x1p-8f
                                : 0x1p-5f)
              << "document of " << lengths[d] << ", row " << i;
  }
}

TEST(PublicCases, Var8DocumentsOfOneToken) {
  AttentionShape shape{numerics::cuSeqlensOf(std::vector<int64_t>(64, 1)), 2, 2,
                       128};
  AttentionInputs inputs = makeInputs(shape, DataKind::Normal, 8);
  KernelRunner runner(2, 2, 128);
  run::DeviceResult result = runner.run(inputs);
  ASSERT_FALSE(result.outputs.o.empty());
  // O = V bitwise: the diagonal tile uses the original V.
  for (size_t i = 0; i < inputs.v.size(); ++i)
    ASSERT_EQ(result.outputs.o[i], numerics::bf16ToFloat(inputs.v[i])) << i;
  ForwardOutputsFp64 exact = attentionFp64(inputs, {});
  for (size_t i = 0; i < exact.lse.size(); ++i)
    EXPECT_NEAR(result.outputs.lse[i], exact.lse[i], 0.1) << i;
  expectLikeModel(inputs, result, {});
}

TEST(PublicCases, Bwd3OrderOfDocumentsForward) {
  // The documents alone and in all six orders: the same bits in all runs.
  const int64_t lengths[] = {100, 37, 256};
  KernelRunner runner(2, 1, 64);
  std::vector<std::vector<uint32_t>> expected;
  std::vector<AttentionInputs> alone;
  for (int64_t d = 0; d < 3; ++d) {
    alone.push_back(makeInputs({{0, lengths[d]}, 2, 1, 64},
                               DataKind::OutlierChannels, uint64_t(d)));
    expected.push_back(bitsOfRows(runner.run(alone[d]).outputs, alone[d].shape,
                                  0, lengths[d]));
    ASSERT_FALSE(expected.back().empty());
  }
  std::vector<int64_t> order = {0, 1, 2};
  do {
    AttentionInputs pack;
    pack.shape = {{0}, 2, 1, 64};
    for (int64_t d : order) {
      pack.shape.cuSeqlens.push_back(pack.shape.tokens() + lengths[d]);
      pack.q.insert(pack.q.end(), alone[d].q.begin(), alone[d].q.end());
      pack.k.insert(pack.k.end(), alone[d].k.begin(), alone[d].k.end());
      pack.v.insert(pack.v.end(), alone[d].v.begin(), alone[d].v.end());
    }
    ForwardOutputs outputs = runner.run(pack).outputs;
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(bitsOfRows(outputs, pack.shape, pack.shape.cuSeqlens[i],
                           pack.shape.cuSeqlens[i + 1]),
                expected[order[i]])
          << "document " << order[i] << " at place " << i;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(PublicCases, Qnt13DocumentsWithoutRows) {
  AttentionInputs whole =
      makeInputs({{0, 128, 128, 384}, 1, 1, 128}, DataKind::Normal, 13);
  KernelRunner runner(1, 1, 128);
  run::DeviceResult packed = runner.run(whole);
  auto part = [&](int64_t begin, int64_t end) {
    AttentionInputs inputs;
    inputs.shape = {{0, end - begin}, 1, 1, 128};
    auto cut = [&](const std::vector<uint16_t> &from) {
      return std::vector<uint16_t>(from.begin() + begin * 128,
                                   from.begin() + end * 128);
    };
    inputs.q = cut(whole.q);
    inputs.k = cut(whole.k);
    inputs.v = cut(whole.v);
    return runner.run(inputs);
  };
  run::DeviceResult first = part(0, 128), second = part(128, 384);
  auto joined = [](std::vector<uint8_t> a, const std::vector<uint8_t> &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  EXPECT_EQ(packed.k.payload, joined(first.k.payload, second.k.payload));
  EXPECT_EQ(packed.k.scales, joined(first.k.scales, second.k.scales));
  EXPECT_EQ(packed.v.payload, joined(first.v.payload, second.v.payload));
  EXPECT_EQ(packed.v.scalesAlongRows,
            joined(first.v.scalesAlongRows, second.v.scalesAlongRows));
  // No rows at all: nothing is launched, and nothing fails.
  AttentionInputs none;
  none.shape = {{0, 0, 0, 0}, 1, 1, 128};
  EXPECT_TRUE(runner.run(none).outputs.o.empty());
}

TEST(PublicCases, Bwd4HeadMapping) {
  for (auto [heads, kvHeads] :
       {std::pair<int64_t, int64_t>{8, 2}, {6, 3}, {12, 4}, {5, 1}}) {
    AttentionInputs inputs =
        inputsOf({33}, heads, kvHeads, 64, constant(0), constant(0),
                 [](int64_t, int64_t g, int64_t) { return g + 1; });
    KernelRunner runner(heads, kvHeads, 64);
    ForwardOutputs outputs = runner.run(inputs).outputs;
    ASSERT_FALSE(outputs.o.empty());
    for (int64_t t = 0; t < 33; ++t)
      for (int64_t h = 0; h < heads; ++h)
        ASSERT_EQ(at(outputs, inputs.shape, t, h, 3),
                  float(h / (heads / kvHeads) + 1))
            << heads << "/" << kvHeads << " head " << h;
  }
}
