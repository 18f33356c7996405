//===- DataTest.cpp - Test data -------------------------------------------===//
//
// The generator's distribution, and its independence of everything but seed,
// kind and shape.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <cmath>
#include <set>

using namespace flamia;
using namespace flamia::reference;

namespace {

TEST(RandomTest, NormalNumbersHaveTheRightMoments) {
  Random random(1, 2);
  double sum = 0, squares = 0, fourths = 0, tail = 0;
  constexpr int count = 200000;
  for (int i = 0; i < count; ++i) {
    double x = random.nextNormal();
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    tail += std::abs(x) > 3;
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.015);
  EXPECT_NEAR(fourths / count, 3, 0.1);
  EXPECT_NEAR(tail / count, 0.0027, 0.0005);
}

/// The logarithm and cosine are the generator's own: compare with libm.
TEST(RandomTest, NormalIsBoxMuller) {
  Random random(3, 4);
  for (uint64_t n = 0; n < 10000; ++n) {
    double radius = std::sqrt(-2 * std::log(1 - random.uniform(2 * n)));
    double angle = 6.283185307179586 * random.uniform(2 * n + 1);
    EXPECT_NEAR(random.normal(n), radius * std::cos(angle), 1e-12);
  }
}

TEST(RandomTest, SequentialAndIndexedNumbersAgree) {
  Random a(5, 6), b(5, 6);
  for (uint64_t n = 0; n < 100; ++n)
    EXPECT_EQ(a.nextBits(), b.bits(n));
  std::set<uint64_t> different;
  for (uint64_t seed = 0; seed < 50; ++seed)
    for (uint64_t stream = 0; stream < 50; ++stream)
      different.insert(Random(seed, stream).bits(0));
  EXPECT_EQ(different.size(), 2500u);
}

/// Written down once: a change would change every figure that names a seed.
TEST(DataTest, NumbersAreFixed) {
  AttentionInputs inputs =
      makeInputs(shapeOf({2}, 1, 1, 32), DataKind::Normal, 1);
  uint64_t hash = 0;
  for (const std::vector<uint16_t> *tensor : {&inputs.q, &inputs.k, &inputs.v})
    for (uint16_t bits : *tensor)
      hash = hash * 0x100000001B3ull + bits;
  EXPECT_EQ(hash, 11804328703243989408ull);
}

TEST(DataTest, KindsAreWhatTheyClaim) {
  AttentionShape shape = shapeOf({300, 300}, 2, 1);
  auto powers = [&](const std::vector<uint16_t> &tensor) {
    std::vector<double> power(128, 0.0);
    for (size_t i = 0; i < tensor.size(); ++i) {
      double x = numerics::bf16ToFloat(tensor[i]);
      power[i % 128] += x * x / double(tensor.size() / 128);
    }
    return power;
  };
  AttentionInputs outliers = makeInputs(shape, DataKind::OutlierChannels, 4);
  for (const std::vector<uint16_t> *tensor : {&outliers.q, &outliers.k}) {
    int large = 0;
    for (double power : powers(*tensor))
      large += power > 12;
    EXPECT_EQ(large, 6);
  }
  AttentionInputs offset = makeInputs(shape, DataKind::ConstantOffset, 4);
  double mean = 0;
  for (uint16_t bits : offset.k)
    mean += numerics::bf16ToFloat(bits) / double(offset.k.size());
  EXPECT_NEAR(mean, 0.7, 0.02);

  // llm-like: the first key of each document gets a good part of the weight.
  AttentionInputs llmLike = makeInputs(shape, DataKind::LlmLike, 4);
  std::fill(llmLike.v.begin(), llmLike.v.end(), uint16_t(0));
  for (int64_t d = 0; d < 2; ++d)
    setV(llmLike, shape.cuSeqlens[d], 0, 1);
  ForwardOutputsFp64 exact = attentionFp64(llmLike, {});
  double weight = 0;
  for (int64_t i = 150; i < 300; ++i)
    weight += exact.o[i * 2 * 128] / 150;
  EXPECT_GT(weight, 0.1);
  EXPECT_LT(weight, 0.9);
}

TEST(DataTest, RandomLengthsFitAndVary) {
  Random random(9, 9);
  int64_t empty = 0, single = 0, odd = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<int64_t> lengths = randomLengths(random, 6, 1500);
    int64_t sum = 0;
    EXPECT_EQ(lengths.size(), 6u);
    for (int64_t length : lengths) {
      sum += length;
      empty += length == 0;
      single += length == 1;
      odd += length % 32 != 0;
    }
    EXPECT_LE(sum, 1500);
  }
  EXPECT_GT(empty, 20);
  EXPECT_GT(single, 20);
  EXPECT_GT(odd, 200);
}

} // namespace
