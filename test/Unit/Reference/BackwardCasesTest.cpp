//===- BackwardCasesTest.cpp - Public cases of the backward ---------------===//
//
// The backward's side of the public list, on the references; the test's name
// holds the case's id.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"
#include "flamia/Reference/Probe.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// Tokens of one document of a tensor with \p heads heads.
std::vector<float> documentOf(const std::vector<float> &tensor,
                              const AttentionShape &shape, int64_t heads,
                              int64_t document) {
  int64_t row = heads * shape.headDim;
  return {tensor.begin() + shape.cuSeqlens[document] * row,
          tensor.begin() + shape.cuSeqlens[document + 1] * row};
}

double cosine(const std::vector<float> &a, const std::vector<double> &b) {
  double product = 0, squaresA = 0, squaresB = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double(a[i]) * b[i];
    squaresA += double(a[i]) * a[i];
    squaresB += b[i] * b[i];
  }
  return product / std::sqrt(squaresA * squaresB);
}

/// BWD-1 as cases/README.md item 9 has it, at head dim 128.
TEST(BWD, BWD1ConstantKeys) {
  AttentionShape shape = shapeOf({256, 256}, 16, 2);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 71);
  auto shift = [](std::vector<uint16_t> &tensor, float mean, float deviation) {
    for (uint16_t &x : tensor)
      x = floatToBF16(mean + deviation * bf16ToFloat(x));
  };
  shift(inputs.forward.k, 8, 0.01f);
  shift(inputs.forward.q, 4, 0.1f);
  shift(inputs.forward.v, 3, 1);
  ProbeResult alone =
      probeGradientDocuments(inputs, modelBackwardFunction({}), 2);
  EXPECT_TRUE(alone.ok) << alone.detail;
  ForwardOutputs forward = attentionForwardModel(inputs.forward, {});
  Gradients gradients = attentionBackwardModel(inputs, {});
  GradientsFp64 exact = attentionBackwardFp64(inputs, {});
  EXPECT_GT(cosine(forward.o, attentionFp64(inputs.forward, {}).o), 0.99);
  EXPECT_GT(cosine(gradients.dk, exact.dk), 0.99);
  EXPECT_GT(cosine(gradients.dv, exact.dv), 0.99);
  // K is 8 almost everywhere, so that dQ is what is left of row sums of dS.
  for (float x : gradients.dq)
    ASSERT_TRUE(std::isfinite(x));
}

/// BWD-2 and VAR-3: nothing is kept from an earlier call.
TEST(BWD, BWD2RunsAreIndependent) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({300, 77}, 8, 2), DataKind::Normal, 72);
  Gradients first = attentionBackwardModel(inputs, {});
  attentionBackwardModel(
      makeBackwardInputs(shapeOf({77, 300}, 8, 2), DataKind::LlmLike, 73), {});
  Gradients second = attentionBackwardModel(inputs, {});
  EXPECT_EQ(first.dq, second.dq);
  EXPECT_EQ(first.dk, second.dk);
  EXPECT_EQ(first.dv, second.dv);
}

TEST(BWD, BWD3OrderOfDocuments) {
  const std::vector<int64_t> lengths = {100, 37, 256};
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf(lengths, 2, 1), DataKind::Normal, 74);
  const AttentionShape &shape = inputs.forward.shape;
  Gradients base = attentionBackwardModel(inputs, {});
  std::vector<std::vector<int64_t>> orders = {
      {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0}, {1}, {2}};
  for (const std::vector<int64_t> &order : orders) {
    BackwardInputs pack;
    std::vector<int64_t> packLengths;
    auto append = [&](const std::vector<uint16_t> &from,
                      std::vector<uint16_t> &to, int64_t heads, int64_t d) {
      int64_t row = heads * 128;
      to.insert(to.end(), from.begin() + shape.cuSeqlens[d] * row,
                from.begin() + shape.cuSeqlens[d + 1] * row);
    };
    for (int64_t d : order) {
      packLengths.push_back(lengths[d]);
      append(inputs.forward.q, pack.forward.q, 2, d);
      append(inputs.forward.k, pack.forward.k, 1, d);
      append(inputs.forward.v, pack.forward.v, 1, d);
      append(inputs.dO, pack.dO, 2, d);
    }
    pack.forward.shape = shapeOf(packLengths, 2, 1);
    Gradients other = attentionBackwardModel(pack, {});
    for (size_t i = 0; i < order.size(); ++i) {
      int64_t place = int64_t(i);
      EXPECT_EQ(documentOf(other.dq, pack.forward.shape, 2, place),
                documentOf(base.dq, shape, 2, order[i]));
      EXPECT_EQ(documentOf(other.dk, pack.forward.shape, 1, place),
                documentOf(base.dk, shape, 1, order[i]));
      EXPECT_EQ(documentOf(other.dv, pack.forward.shape, 1, place),
                documentOf(base.dv, shape, 1, order[i]));
    }
  }
}

/// BWD-4, backward part: a kv head gets the gradients of its query heads.
TEST(BWD, BWD4HeadMapping) {
  for (auto [heads, kvHeads] :
       {std::pair<int64_t, int64_t>{8, 2}, {6, 3}, {12, 4}, {5, 1}}) {
    AttentionShape shape = shapeOf({1}, heads, kvHeads);
    BackwardInputs inputs;
    inputs.forward = constantInputs(shape, 0, 0, 0);
    for (int64_t g = 0; g < kvHeads; ++g)
      for (int64_t c = 0; c < 128; ++c)
        at(inputs.forward.v, shape, kvHeads, 0, g, c) =
            floatToBF16(float(g + 1));
    inputs.dO.assign(heads * 128, floatToBF16(1));
    for (bool causal : {true, false}) {
      BackwardOptions options;
      options.forward.mask.causal = causal;
      for (float x : attentionBackwardModel(inputs, options).dv)
        EXPECT_EQ(x, float(heads / kvHeads));
      for (double x : attentionBackwardFp64(inputs, options.forward).dv)
        EXPECT_EQ(x, double(heads / kvHeads));
    }
    // And which heads: only head 1 has a gradient.
    std::fill(inputs.dO.begin(), inputs.dO.end(), uint16_t(0));
    for (int64_t c = 0; c < 128; ++c)
      inputs.dO[(heads - 1) * 128 + c] = floatToBF16(2);
    Gradients gradients = attentionBackwardModel(inputs, {});
    for (int64_t g = 0; g < kvHeads; ++g)
      EXPECT_EQ(at(gradients.dv, shape, kvHeads, 0, g, 9),
                g == kvHeads - 1 ? 2.0f : 0.0f);
  }
}

TEST(BWD, BWD5HeadDims) {
  for (int64_t headDim : {32, 64, 128})
    for (bool causal : {true, false}) {
      BackwardInputs inputs = makeBackwardInputs(shapeOf({97}, 2, 1, headDim),
                                                 DataKind::Normal, 75);
      BackwardOptions options;
      options.forward.mask.causal = causal;
      Gradients gradients = attentionBackwardModel(inputs, options);
      GradientsFp64 exact = attentionBackwardFp64(inputs, options.forward);
      EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.07);
      EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.08);
      EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.06);
      auto widen = [](const std::vector<uint16_t> &bits) {
        std::vector<float> values(bits.size());
        bf16ToFloat(bits.data(), values.data(), bits.size());
        return values;
      };
      Gradients flash =
          flashBackwardBf16(inputs.forward.shape, widen(inputs.forward.q),
                            widen(inputs.forward.k), widen(inputs.forward.v),
                            widen(inputs.dO), {}, options.forward);
      EXPECT_LE(measureError(flash.dq, exact.dq).relativeFrobenius, 0.005);
      EXPECT_LE(measureError(flash.dk, exact.dk).relativeFrobenius, 0.005);
      EXPECT_LE(measureError(flash.dv, exact.dv).relativeFrobenius, 0.005);
    }
  for (int64_t headDim : {80, 100, 160, 192, 256, 320}) {
    BackwardInputs inputs;
    inputs.forward.shape = shapeOf({97}, 1, 1, headDim);
    ProbeResult result =
        probeGradientCausal(inputs, modelBackwardFunction({}), {3});
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.detail.find(std::to_string(headDim)), std::string::npos)
        << result.detail;
  }
}

/// VAR-6 and SYN-4, backward: lengths around every block and tile size, and
/// packs that start at odd rows.
TEST(VAR, VAR6BackwardLengths) {
  std::vector<std::vector<int64_t>> packs = {{3, 250}, {1, 1, 252}};
  for (int64_t length : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 249,
                         250, 251, 252, 253, 255, 257})
    packs.push_back({length});
  for (const std::vector<int64_t> &lengths : packs)
    for (bool causal : {true, false}) {
      BackwardInputs inputs =
          makeBackwardInputs(shapeOf(lengths, 2, 2), DataKind::Normal, 76);
      BackwardOptions options;
      options.forward.mask.causal = causal;
      Gradients gradients = attentionBackwardModel(inputs, options);
      GradientsFp64 exact = attentionBackwardFp64(inputs, options.forward);
      EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.06)
          << lengths[0];
      if (lengths[0] == 1 && lengths.size() == 1)
        continue; // dQ = dK = 0
      EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.09)
          << lengths[0];
      EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.09)
          << lengths[0];
    }
}

/// VAR-8, backward: dV = dO bit for bit; dQ and dK are nearly 0.
TEST(VAR, VAR8BackwardOfOneToken) {
  AttentionShape shape = shapeOf(std::vector<int64_t>(64, 1));
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 77);
  Gradients gradients = attentionBackwardModel(inputs, {});
  for (int64_t i = 0; i < 64; ++i) {
    auto norm = [&](auto value) {
      double squares = 0;
      for (int64_t c = 0; c < 128; ++c)
        squares += double(value(i * 128 + c)) * value(i * 128 + c);
      return std::sqrt(squares);
    };
    auto bf16 = [](const std::vector<uint16_t> &tensor) {
      return [&](int64_t at) { return bf16ToFloat(tensor[at]); };
    };
    auto plain = [](const std::vector<float> &tensor) {
      return [&](int64_t at) { return tensor[at]; };
    };
    for (int64_t c = 0; c < 128; ++c)
      EXPECT_EQ(bitsOf(gradients.dv[i * 128 + c]),
                bitsOf(bf16ToFloat(inputs.dO[i * 128 + c])));
    double bound = 0x1p-4 / std::sqrt(128.0) * norm(bf16(inputs.dO)) *
                   norm(bf16(inputs.forward.v));
    EXPECT_LE(norm(plain(gradients.dq)), bound * norm(bf16(inputs.forward.k)));
    EXPECT_LE(norm(plain(gradients.dk)), bound * norm(bf16(inputs.forward.q)));
  }
}

/// QNT-9, backward: zero dO gives zeros, zero V leaves dV.
TEST(QNT, QNT9BackwardOfZeros) {
  for (bool causal : {true, false}) {
    BackwardInputs inputs =
        makeBackwardInputs(shapeOf({200, 5}), DataKind::Normal, 78);
    BackwardOptions options;
    options.forward.mask.causal = causal;
    BackwardInputs zeroGradient = inputs, zeroV = inputs, zeroBlock = inputs;
    std::fill(zeroGradient.dO.begin(), zeroGradient.dO.end(), uint16_t(0));
    Gradients gradients = attentionBackwardModel(zeroGradient, options);
    for (const std::vector<float> *tensor :
         {&gradients.dq, &gradients.dk, &gradients.dv})
      for (float x : *tensor)
        ASSERT_EQ(x, 0.0f);
    std::fill(zeroV.forward.v.begin(), zeroV.forward.v.end(), uint16_t(0));
    gradients = attentionBackwardModel(zeroV, options);
    for (const std::vector<float> *tensor : {&gradients.dq, &gradients.dk})
      for (float x : *tensor)
        ASSERT_EQ(x, 0.0f);
    GradientsFp64 exact = attentionBackwardFp64(zeroV, options.forward);
    EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.06);
    // 32 zero rows of dO, and single ones, between others.
    for (int64_t i = 0; i < 200; ++i)
      if ((i >= 64 && i < 96) || i % 9 == 4)
        std::fill_n(zeroBlock.dO.begin() + i * 128, 128, uint16_t(0));
    gradients = attentionBackwardModel(zeroBlock, options);
    exact = attentionBackwardFp64(zeroBlock, options.forward);
    EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.07);
    EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.07);
    EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.06);
    for (int64_t c = 0; c < 128; ++c)
      EXPECT_EQ(gradients.dq[70 * 128 + c], 0.0f);
  }
}

/// SMX-4, backward: a softmax scale of 0.
TEST(SMX, SMX4BackwardOfScaleZero) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({8, 300}), DataKind::Normal, 79);
  BackwardOptions options;
  options.forward.softmaxScale = 0;
  Gradients gradients = attentionBackwardModel(inputs, options);
  GradientsFp64 exact = attentionBackwardFp64(inputs, options.forward);
  for (const std::vector<float> *tensor : {&gradients.dq, &gradients.dk})
    for (float x : *tensor)
      ASSERT_EQ(x, 0.0f);
  EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.06);
}

} // namespace
