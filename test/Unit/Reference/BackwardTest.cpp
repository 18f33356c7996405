//===- BackwardTest.cpp - The backward's references, step by step ---------===//
//
// The fp64 backward against finite differences; the model against a plain
// implementation of docs/numerics.md that folds no exponents, bit for bit
// (which is what "folding is exact" means); invariances under powers of two.
//
//===----------------------------------------------------------------------===//

#include "TestInputs.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

std::vector<float> widen(const std::vector<uint16_t> &bits) {
  std::vector<float> values(bits.size());
  bf16ToFloat(bits.data(), values.data(), bits.size());
  return values;
}

std::vector<float> randomDLse(const AttentionShape &shape) {
  std::vector<float> dLse(shape.tokens() * shape.heads);
  Random random(5, 17);
  for (float &value : dLse)
    value = float(random.nextNormal());
  return dLse;
}

//===----------------------------------------------------------------------===//
// fp64 against finite differences
//===----------------------------------------------------------------------===//

/// sum dO O + sum dLSE LSE, in double.
double lossFp64(const AttentionShape &shape,
                const std::vector<float> tensors[3],
                const std::vector<float> &dO, const std::vector<float> &dLse,
                const ForwardOptions &options) {
  ForwardOutputsFp64 outputs =
      attentionFp64(shape, tensors[0], tensors[1], tensors[2], options);
  double loss = 0;
  for (size_t i = 0; i < dO.size(); ++i)
    loss += double(dO[i]) * outputs.o[i];
  for (size_t i = 0; i < dLse.size(); ++i)
    loss += double(dLse[i]) * outputs.lse[i];
  return loss;
}

TEST(BackwardTest, Fp64EqualsFiniteDifferences) {
  for (bool causal : {true, false}) {
    AttentionShape shape = shapeOf({5, 1, 3}, 2, 1, 32);
    BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 41);
    inputs.dLse = randomDLse(shape);
    ForwardOptions options;
    options.mask.causal = causal;
    options.threads = 1;
    GradientsFp64 gradients = attentionBackwardFp64(inputs, options);
    const std::vector<double> *results[] = {&gradients.dq, &gradients.dk,
                                            &gradients.dv};
    std::vector<float> tensors[] = {widen(inputs.forward.q),
                                    widen(inputs.forward.k),
                                    widen(inputs.forward.v)};
    std::vector<float> dO = widen(inputs.dO);
    for (int t = 0; t < 3; ++t)
      for (size_t i = 0; i < tensors[t].size(); i += 3) {
        float value = tensors[t][i], step = 0x1p-10f;
        tensors[t][i] = value + step;
        double above = lossFp64(shape, tensors, dO, inputs.dLse, options);
        tensors[t][i] = value - step;
        double below = lossFp64(shape, tensors, dO, inputs.dLse, options);
        tensors[t][i] = value;
        double upper = double(value + step), lower = double(value - step);
        ASSERT_NEAR((*results[t])[i], (above - below) / (upper - lower), 2e-6)
            << t << " " << i;
      }
  }
}

/// The same through the specification model, whose O is a step function: along
/// the gradient the loss must change by about what the gradient says.
TEST(BackwardTest, ModelFollowsFiniteDifferences) {
  AttentionShape shape = shapeOf({40, 9}, 2, 1, 32);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 42);
  Gradients gradients = attentionBackwardModel(inputs, {});
  std::vector<float> dO = widen(inputs.dO);
  auto loss = [&](const AttentionInputs &at) {
    ForwardOutputs outputs = attentionForwardModel(at, {});
    double sum = 0;
    for (size_t i = 0; i < dO.size(); ++i)
      sum += double(dO[i]) * outputs.o[i];
    return sum;
  };
  const std::vector<float> *results[] = {&gradients.dq, &gradients.dk,
                                         &gradients.dv};
  for (int t = 0; t < 3; ++t) {
    AttentionInputs above = inputs.forward, below = inputs.forward;
    auto tensorOf = [&](AttentionInputs &at) -> std::vector<uint16_t> & {
      return t == 0 ? at.q : t == 1 ? at.k : at.v;
    };
    double squares = 0;
    for (float x : *results[t])
      squares += double(x) * x;
    // A step of a tenth of the tensor's norm: larger than the rounding.
    double step = 0.1 * std::sqrt(double(results[t]->size()) / squares);
    double expected = 0;
    for (size_t i = 0; i < results[t]->size(); ++i) {
      uint16_t &a = tensorOf(above)[i], &b = tensorOf(below)[i];
      float x = bf16ToFloat(a);
      a = floatToBF16(float(x + step * (*results[t])[i]));
      b = floatToBF16(float(x - step * (*results[t])[i]));
      expected += double(bf16ToFloat(a) - bf16ToFloat(b)) * (*results[t])[i];
    }
    double measured = loss(above) - loss(below);
    RecordProperty("ratio", std::to_string(measured / expected));
    EXPECT_NEAR(measured / expected, 1, 0.06) << t;
  }
}

//===----------------------------------------------------------------------===//
// The model against a plain implementation without folding
//===----------------------------------------------------------------------===//

/// Rounds blocks of 32 to E4M3 with round-up power-of-two scales, true values
/// in and out.
void roundBlocks(std::vector<double> &values) {
  for (size_t first = 0; first < values.size(); first += 32) {
    double largest = 0;
    for (size_t i = first; i < first + 32; ++i)
      largest = std::max(largest, std::abs(values[i]));
    if (largest == 0)
      continue;
    int exponent = int(std::ceil(std::log2(largest / 448)));
    for (size_t i = first; i < first + 32; ++i)
      values[i] = std::ldexp(double(e4m3ToFloat(floatToE4M3(
                                 float(std::ldexp(values[i], -exponent))))),
                             exponent);
  }
}

/// dQ, dK and dV of a problem, straight from section "The backward, step by
/// step", in true units: no exponent moves anywhere. Only the argument of exp2
/// uses biasHat, since its fp32 rounding depends on it.
class PlainBackward {
public:
  PlainBackward(const QuantizedInputs &inputs, const ForwardOutputs &forward,
                const std::vector<uint16_t> &dO, const std::vector<float> &dLse,
                const BackwardOptions &options)
      : inputs(inputs), shape(inputs.shape), forward(forward),
        causal(options.forward.mask.causal), dim(shape.headDim),
        scale(softmaxScaleOf(options.forward, dim)), c(scale * 1.44269504f),
        q(dequantize(inputs.q, shape.queryShape())),
        k(dequantize(inputs.k, shape.keyShape())), scoreQ(q), scoreK(k),
        v(dequantize(inputs.v, shape.keyShape())), vBf16(widen(inputs.vBf16)),
        dO(widen(dO)),
        prepared(prepareBackward(inputs, forward, dO, dLse, options)),
        gradient(dequantize(prepared.dO, shape.queryShape())), dLse(dLse) {
    if (inputs.format != Format::Nvfp4)
      return;
    scoreQ = dequantize(inputs.qScores, shape.queryShape());
    scoreK = dequantize(inputs.kScores, shape.keyShape());
  }

  std::vector<float> dq(int64_t document, int64_t i, int64_t head) {
    std::vector<float> acc(dim, 0.0f);
    int64_t kvHead = head / (shape.heads / shape.kvHeads);
    int64_t begin = shape.cuSeqlens[document], length = shape.length(document);
    int64_t query = (begin + i) * shape.heads + head;
    int64_t last = causal ? i / 128 : (length - 1) / 128;
    for (int64_t tile = last; tile >= 0; --tile) {
      bool bf16 = causal && tile == i / 128;
      std::vector<double> ds(128, 0.0);
      for (int64_t t = 0; t < 128; ++t) {
        int64_t j = tile * 128 + t, key = (begin + j) * shape.kvHeads + kvHead;
        if (j >= length || (causal && j > i))
          continue;
        float p = weight(query, key, forward.m[query] - 8) / 256;
        ds[t] = double(gradientOf(p, query, key, bf16)) *
                tokenScale(inputs.k.payload, k, key);
      }
      roundBlocks(ds);
      for (int64_t e = 0; e < dim; ++e) {
        double sum = 0;
        for (int64_t t = 0; t < 128; ++t) {
          int64_t key = (begin + tile * 128 + t) * shape.kvHeads + kvHead;
          if (tile * 128 + t < length)
            sum += ds[t] * e4m3ToFloat(inputs.k.payload[key * dim + e]);
        }
        acc[e] = float(double(acc[e]) + sum);
      }
    }
    return finished(acc);
  }

  /// dK and dV of a key.
  std::pair<std::vector<float>, std::vector<float>>
  dkdv(int64_t document, int64_t j, int64_t kvHead) {
    std::vector<float> dkAcc(dim, 0.0f), dvAcc(dim, 0.0f);
    int64_t group = shape.heads / shape.kvHeads;
    int64_t begin = shape.cuSeqlens[document], length = shape.length(document);
    int64_t key = (begin + j) * shape.kvHeads + kvHead;
    for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
      for (int64_t tile = causal ? j / 128 : 0; tile * 128 < length; ++tile) {
        bool bf16 = causal && tile == j / 128;
        std::vector<double> w(128, 0.0), ds(128, 0.0);
        for (int64_t t = 0; t < 128; ++t) {
          int64_t i = tile * 128 + t;
          int64_t query = (begin + i) * shape.heads + head;
          if (i >= length || (causal && j > i))
            continue;
          float reference =
              bf16 ? forward.m[query] - 8 : -prepared.biasHat[query];
          float p = std::ldexp(weight(query, key, reference),
                               int(reference - forward.m[query]));
          ds[t] = double(gradientOf(p, query, key, bf16)) *
                  tokenScale(inputs.q.payload, q, query);
          w[t] = bf16 ? double(roundToBF16(roundToBF16(p) * prepared.r[query]))
                      : p * tokenScale(prepared.dO.payload, gradient, query);
        }
        roundBlocks(ds);
        if (!bf16)
          roundBlocks(w);
        for (int64_t e = 0; e < dim; ++e) {
          double dkSum = 0, dvSum = 0;
          for (int64_t t = 0; t < 128 && tile * 128 + t < length; ++t) {
            int64_t query = (begin + tile * 128 + t) * shape.heads + head;
            dkSum += ds[t] * e4m3ToFloat(inputs.q.payload[query * dim + e]);
            dvSum += w[t] *
                     (bf16 ? dO[query * dim + e]
                           : e4m3ToFloat(prepared.dO.payload[query * dim + e]));
          }
          dkAcc[e] = float(double(dkAcc[e]) + dkSum);
          dvAcc[e] = float(double(dvAcc[e]) + dvSum);
        }
      }
    for (float &x : dvAcc)
      x = roundToBF16(x);
    return {finished(dkAcc), dvAcc};
  }

private:
  /// The scale of a token: value over payload.
  double tokenScale(const std::vector<uint8_t> &payload,
                    const std::vector<float> &values, int64_t row) const {
    for (int64_t e = 0; e < dim; ++e)
      if (float x = e4m3ToFloat(payload[row * dim + e]))
        return values[row * dim + e] / x;
    return 0;
  }

  float weight(int64_t query, int64_t key, float reference) const {
    double sum = 0;
    for (int64_t e = 0; e < dim; ++e)
      sum += double(scoreQ[query * dim + e]) * scoreK[key * dim + e];
    return float(std::exp2(double(std::fma(float(sum), c, -reference))));
  }

  float gradientOf(float p, int64_t query, int64_t key, bool bf16) const {
    double sum = 0;
    float parts[8] = {}, total;
    for (int64_t e = 0; e < dim; ++e) {
      int64_t a = query * dim + e, b = key * dim + e;
      sum += bf16 ? double(dO[a]) * vBf16[b] : double(gradient[a]) * v[b];
      float term = (bf16 ? dO[a] : gradient[a]) * forward.o[a];
      parts[e % 8] = e < 8 ? term : parts[e % 8] + term;
    }
    total = ((parts[0] + parts[4]) + (parts[2] + parts[6])) +
            ((parts[1] + parts[5]) + (parts[3] + parts[7]));
    float r = 1 / forward.l[query];
    float ofLse = dLse.empty() ? 0.0f : dLse[query] * r;
    float kappa = forward.kappa[query];
    float d = (bf16 ? kappa * (total * r) : kappa * total) - ofLse;
    float t = bf16 ? std::fma(float(sum), r, -d) : float(sum) - d;
    return p * t;
  }

  std::vector<float> finished(std::vector<float> acc) const {
    unrotateToken(acc.data(), dim);
    for (float &x : acc)
      x = roundToBF16(x * scale);
    return acc;
  }

  const QuantizedInputs &inputs;
  const AttentionShape &shape;
  const ForwardOutputs &forward;
  bool causal;
  int64_t dim;
  float scale, c;
  std::vector<float> q, k, scoreQ, scoreK, v, vBf16, dO;
  PreparedGradient prepared;
  std::vector<float> gradient;
  const std::vector<float> &dLse;
};

/// Both formats; g is a power of two, which moves through c as well.
TEST(BackwardTest, FoldingIsExact) {
  for (auto [format, causal] : {std::pair<Format, bool>{Format::Mxfp8, true},
                                {Format::Mxfp8, false},
                                {Format::Nvfp4, true},
                                {Format::Nvfp4, false}})
    for (int64_t headDim : {64, 128})
      for (DataKind kind : {DataKind::Normal, DataKind::LlmLike}) {
        AttentionShape shape = shapeOf({3, 300, 1, 140}, 2, 1, headDim);
        BackwardInputs inputs = makeBackwardInputs(shape, kind, 43);
        // Gradients of very different size, per token.
        Random random(43, 9);
        for (int64_t row = 0; row < shape.tokens() * 2; ++row) {
          float factor = std::ldexp(1.0f, int(random.nextBelow(24)) - 12);
          for (int64_t e = 0; e < headDim; ++e) {
            uint16_t &x = inputs.dO[row * headDim + e];
            x = floatToBF16(bf16ToFloat(x) * factor);
          }
        }
        if (kind == DataKind::LlmLike)
          inputs.dLse = randomDLse(shape);
        BackwardOptions options;
        options.forward.format = format;
        options.forward.mask.causal = causal;
        QuantizedInputs quantized =
            quantizeInputs(inputs.forward, options.forward);
        ForwardOutputs forward =
            attentionForwardModel(quantized, options.forward);
        Gradients model = attentionBackwardModel(quantized, forward, inputs.dO,
                                                 inputs.dLse, options);
        PlainBackward plain(quantized, forward, inputs.dO, inputs.dLse,
                            options);
        for (auto [document, token] : {std::pair<int64_t, int64_t>{0, 2},
                                       {1, 0},
                                       {1, 31},
                                       {1, 127},
                                       {1, 128},
                                       {1, 257},
                                       {1, 299},
                                       {2, 0},
                                       {3, 5},
                                       {3, 139}}) {
          int64_t row = shape.cuSeqlens[document] + token;
          std::vector<float> dq = plain.dq(document, token, 1);
          auto [dk, dv] = plain.dkdv(document, token, 0);
          for (int64_t e = 0; e < headDim; ++e) {
            ASSERT_EQ(model.dq[(row * 2 + 1) * headDim + e], dq[e])
                << document << " " << token << " " << e;
            ASSERT_EQ(model.dk[row * headDim + e], dk[e])
                << document << " " << token << " " << e;
            ASSERT_EQ(model.dv[row * headDim + e], dv[e])
                << document << " " << token << " " << e;
          }
        }
      }
}

//===----------------------------------------------------------------------===//
// Invariances
//===----------------------------------------------------------------------===//

void scaleBy(std::vector<uint16_t> &tensor, int exponent) {
  for (uint16_t &x : tensor)
    x = floatToBF16(std::ldexp(bf16ToFloat(x), exponent));
}

/// Whether a is b * 2^exponent, bit for bit.
::testing::AssertionResult isScaled(const std::vector<float> &a,
                                    const std::vector<float> &b, int exponent) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != std::ldexp(b[i], exponent))
      return ::testing::AssertionFailure()
             << "element " << i << ": " << a[i] << " against " << b[i]
             << " * 2^" << exponent;
  return ::testing::AssertionSuccess();
}

TEST(BackwardTest, PowersOfTwoMoveThrough) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({300}, 2, 1), DataKind::Normal, 44);
  Gradients base = attentionBackwardModel(inputs, {});
  for (int exponent : {-60, 60, 90}) {
    BackwardInputs ofGradient = inputs, ofValues = inputs, ofScores = inputs;
    scaleBy(ofGradient.dO, exponent);
    Gradients scaled = attentionBackwardModel(ofGradient, {});
    EXPECT_TRUE(isScaled(scaled.dq, base.dq, exponent));
    EXPECT_TRUE(isScaled(scaled.dk, base.dk, exponent));
    EXPECT_TRUE(isScaled(scaled.dv, base.dv, exponent));
    scaleBy(ofValues.forward.v, exponent);
    scaled = attentionBackwardModel(ofValues, {});
    EXPECT_TRUE(isScaled(scaled.dq, base.dq, exponent));
    EXPECT_TRUE(isScaled(scaled.dk, base.dk, exponent));
    EXPECT_TRUE(isScaled(scaled.dv, base.dv, 0));
    scaleBy(ofScores.forward.k, exponent);
    scaleBy(ofScores.forward.q, -exponent);
    scaled = attentionBackwardModel(ofScores, {});
    EXPECT_TRUE(isScaled(scaled.dq, base.dq, exponent));
    EXPECT_TRUE(isScaled(scaled.dk, base.dk, -exponent));
    EXPECT_TRUE(isScaled(scaled.dv, base.dv, 0));
  }
}

/// Scales of dO are token-local: a row's size moves its own dQ only.
TEST(BackwardTest, GradientScalesAreTokenLocal) {
  AttentionShape shape = shapeOf({300});
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 45);
  Gradients base = attentionBackwardModel(inputs, {});
  BackwardInputs changed = inputs;
  for (int64_t i = 0; i < 300; ++i)
    for (int64_t c = 0; c < 128; ++c) {
      uint16_t &x = at(changed.dO, shape, 1, i, 0, c);
      x = floatToBF16(std::ldexp(bf16ToFloat(x), int(i * 7 % 41) - 20));
    }
  Gradients scaled = attentionBackwardModel(changed, {});
  for (int64_t i = 0; i < 300; ++i)
    for (int64_t c = 0; c < 128; ++c)
      ASSERT_EQ(
          at(scaled.dq, shape, 1, i, 0, c),
          std::ldexp(at(base.dq, shape, 1, i, 0, c), int(i * 7 % 41) - 20));
}

/// Nothing saturates where Q and dO are extreme but the gradients are not.
TEST(BackwardTest, ExtremeMagnitudes) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({300}), DataKind::Normal, 46);
  scaleBy(inputs.forward.q, 100);
  scaleBy(inputs.forward.k, -100);
  scaleBy(inputs.forward.v, 15);
  scaleBy(inputs.dO, -115);
  Gradients gradients = attentionBackwardModel(inputs, {});
  GradientsFp64 exact = attentionBackwardFp64(inputs, {});
  EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.065);
  EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.045);
}

/// E_b + EQ - 8 and EK - 8, the scale bytes of Q in dK and of K in dQ, above
/// and below what a byte holds: the remainder is in dS.
TEST(BackwardTest, BlockScalesOutOfRange) {
  struct Case {
    int q, k, v, dO;
    int queryByte, keyByte; ///< -1: inside
  };
  for (Case sizes : {Case{100, -100, -60, 70, 254, -1},
                     {-60, 60, 90, -80, 0, -1},
                     {115, -115, 60, -20, -1, 0}}) {
    BackwardInputs inputs =
        makeBackwardInputs(shapeOf({300}), DataKind::Normal, 52);
    scaleBy(inputs.forward.q, sizes.q);
    scaleBy(inputs.forward.k, sizes.k);
    scaleBy(inputs.forward.v, sizes.v);
    scaleBy(inputs.dO, sizes.dO);
    QuantizedInputs quantized = quantizeInputs(inputs.forward, {});
    ForwardOutputs forward = attentionForwardModel(quantized, {});
    PreparedGradient prepared =
        prepareBackward(quantized, forward, inputs.dO, {}, {});
    for (auto [atoms, byte] :
         {std::pair(&prepared.queryBlockScales, sizes.queryByte),
          {&prepared.keyBlockScales, sizes.keyByte}})
      if (byte >= 0)
        EXPECT_EQ((*atoms)[0], byte);
      else
        EXPECT_TRUE((*atoms)[0] > 0 && (*atoms)[0] < 254) << int((*atoms)[0]);
    Gradients gradients =
        attentionBackwardModel(quantized, forward, inputs.dO, {}, {});
    GradientsFp64 exact = attentionBackwardFp64(inputs, {});
    EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.065);
    if (sizes.q + sizes.v + sizes.dO < 120) // else dK is infinite
      EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.065);
  }
}

/// E_b of very small gradients: the design's byte E_b - 8 would saturate.
TEST(BackwardTest, TinyGradients) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({300}), DataKind::Normal, 47);
  BackwardOptions options;
  options.forward.safeguard = false;
  Gradients base = attentionBackwardModel(inputs, options);
  scaleBy(inputs.dO, -112);
  Gradients tiny = attentionBackwardModel(inputs, options);
  std::vector<double> expected;
  for (float x : base.dv)
    expected.push_back(std::ldexp(double(x), -112));
  EXPECT_LE(measureError(tiny.dv, expected).relativeFrobenius, 0.01);
}

TEST(BackwardTest, ThreadsDoNotMatter) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({5, 130, 400}, 4, 2), DataKind::Normal, 48);
  BackwardOptions one, three;
  one.forward.threads = 1;
  three.forward.threads = 3;
  Gradients a = attentionBackwardModel(inputs, one);
  Gradients b = attentionBackwardModel(inputs, three);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

/// dLSE alone: dS = P dLSE; its error is that of P and dS.
TEST(BackwardTest, GradientOfLse) {
  AttentionShape shape = shapeOf({400});
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 49);
  inputs.dLse = randomDLse(shape);
  Gradients gradients = attentionBackwardModel(inputs, {});
  GradientsFp64 exact = attentionBackwardFp64(inputs, {});
  EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.065);
  EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.065);
  std::fill(inputs.dO.begin(), inputs.dO.end(), uint16_t(0));
  gradients = attentionBackwardModel(inputs, {});
  exact = attentionBackwardFp64(inputs, {});
  EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.1);
  EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.1);
  for (float x : gradients.dv)
    EXPECT_EQ(x, 0);
  // Beside a row of large gradients, a row with dLSE only keeps its size.
  at(inputs.dO, shape, 1, 300, 0, 3) = floatToBF16(0x1p20f);
  gradients = attentionBackwardModel(inputs, {});
  exact = attentionBackwardFp64(inputs, {});
  EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.1);
}

/// Windows: rows that see no key get and give no gradient.
TEST(BackwardTest, Windows) {
  AttentionShape shape = shapeOf({300});
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 50);
  for (MaskOptions mask :
       {MaskOptions{true, 50, -1}, MaskOptions{false, 20, 40},
        MaskOptions{false, 255, 0}}) {
    BackwardOptions options;
    options.forward.mask = mask;
    Gradients gradients = attentionBackwardModel(inputs, options);
    GradientsFp64 exact = attentionBackwardFp64(inputs, options.forward);
    EXPECT_LE(measureError(gradients.dq, exact.dq).relativeFrobenius, 0.08);
    EXPECT_LE(measureError(gradients.dk, exact.dk).relativeFrobenius, 0.08);
    EXPECT_LE(measureError(gradients.dv, exact.dv).relativeFrobenius, 0.06);
  }
}

/// NaN and infinity in a token's dO: its own dQ, and dK and dV of the keys it
/// sees; nothing beyond its 128-row tile otherwise.
TEST(BackwardTest, NonFiniteGradients) {
  AttentionShape shape = shapeOf({400});
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 51);
  Gradients clean = attentionBackwardModel(inputs, {});
  for (uint16_t special : {0x7F80, 0x7FC0}) {
    BackwardInputs faulty = inputs;
    at(faulty.dO, shape, 1, 140, 0, 3) = special;
    Gradients gradients = attentionBackwardModel(faulty, {});
    for (int64_t i = 0; i < 400; ++i) {
      float dq = at(gradients.dq, shape, 1, i, 0, 5);
      float dk = at(gradients.dk, shape, 1, i, 0, 5);
      float dv = at(gradients.dv, shape, 1, i, 0, 3);
      EXPECT_EQ(std::isnan(dq), i == 140) << i;
      if (i != 140)
        EXPECT_EQ(dq, at(clean.dq, shape, 1, i, 0, 5)) << i;
      EXPECT_EQ(std::isnan(dk), i <= 140) << i;
      EXPECT_EQ(std::isfinite(dv), i >= 256) << i;
      if (i >= 256)
        EXPECT_EQ(dv, at(clean.dv, shape, 1, i, 0, 3)) << i;
    }
  }
}

} // namespace
