//===- ExtremeInputs.h - Inputs far outside of the usual --------*- C++ -*-===//
//
// Each kind takes inputs of usual size and spoils them. Shared by the tests of
// the models and of the kernels.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_UNIT_REFERENCE_EXTREMEINPUTS_H
#define FLAMIA_TEST_UNIT_REFERENCE_EXTREMEINPUTS_H

#include "flamia/Reference/Backward.h"
#include "flamia/Reference/Data.h"

#include <cmath>
#include <limits>

namespace flamia::reference {

enum class Extreme {
  NaNs,            ///< one element each of Q, K, V and dO, in own documents
  Infinities,      ///< likewise
  ZeroTokens,      ///< some tokens of each tensor, and a document
  Subnormal,       ///< everything about 1e-40
  Tiny,            ///< about 1e-30
  HugeValues,      ///< V and dO about 1e15
  HugeScores,      ///< Q about 1e30, some of it zero
  VanishedWeights, ///< scores near 2^31, whose weights all round to 0
  MixedTokens,     ///< each token another magnitude, 1e-40 to 1
  MixedScores,     ///< Q and K likewise, 1e-40 to 1e30
  MixedChannels,   ///< each channel, 1e-40 to 1
};

inline const std::pair<Extreme, const char *> allExtremes[] = {
    {Extreme::NaNs, "NaNs"},
    {Extreme::Infinities, "Infinities"},
    {Extreme::ZeroTokens, "ZeroTokens"},
    {Extreme::Subnormal, "Subnormal"},
    {Extreme::Tiny, "Tiny"},
    {Extreme::HugeValues, "HugeValues"},
    {Extreme::HugeScores, "HugeScores"},
    {Extreme::VanishedWeights, "VanishedWeights"},
    {Extreme::MixedTokens, "MixedTokens"},
    {Extreme::MixedScores, "MixedScores"},
    {Extreme::MixedChannels, "MixedChannels"}};

/// Normal data on \p shape made extreme.
inline BackwardInputs extremeInputs(const AttentionShape &shape, Extreme kind,
                                    uint64_t seed) {
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, seed);
  struct Tensor {
    std::vector<uint16_t> &bits;
    int64_t heads;
  };
  Tensor q = {inputs.forward.q, shape.heads},
         k = {inputs.forward.k, shape.kvHeads},
         v = {inputs.forward.v, shape.kvHeads}, dO = {inputs.dO, shape.heads};
  Random random(seed, 91);
  int64_t dim = shape.headDim;
  auto element = [&](Tensor tensor, int64_t token, int64_t i) -> uint16_t & {
    return tensor.bits[size_t(token * tensor.heads * dim + i)];
  };
  auto scale = [&](Tensor tensor, auto factor) {
    for (int64_t token = 0; token < shape.tokens(); ++token)
      for (int64_t i = 0; i < tensor.heads * dim; ++i) {
        uint16_t &bits = element(tensor, token, i);
        bits = numerics::floatToBF16Sat(
            float(double(numerics::bf16ToFloat(bits)) * factor(token, i)));
      }
  };
  auto all = [&](double value) {
    return [=](int64_t, int64_t) { return value; };
  };
  auto magnitudes = [&](int64_t count, double low, double high) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(
          std::pow(10.0, low + (high - low) * random.nextUniform()));
    return values;
  };
  auto byToken = [&](Tensor tensor, double low, double high) {
    std::vector<double> values = magnitudes(shape.tokens(), low, high);
    scale(tensor,
          [&](int64_t token, int64_t) { return values[size_t(token)]; });
  };

  switch (kind) {
  case Extreme::NaNs:
  case Extreme::Infinities: {
    float value = kind == Extreme::NaNs
                      ? std::numeric_limits<float>::quiet_NaN()
                      : -std::numeric_limits<float>::infinity();
    int64_t d = 0;
    for (Tensor tensor : {q, k, v, dO}) {
      d %= shape.documents();
      int64_t token = shape.cuSeqlens[d] + shape.length(d) / 2;
      element(tensor, token, 7) = numerics::floatToBF16(value);
      ++d;
    }
    break;
  }
  case Extreme::ZeroTokens:
    for (Tensor tensor : {q, k, v, dO})
      scale(tensor, [&, first = random.nextBelow(7)](int64_t token, int64_t) {
        return token < shape.cuSeqlens[1] || token % 7 == first ? 0.0 : 1.0;
      });
    break;
  case Extreme::Subnormal:
  case Extreme::Tiny:
    for (Tensor tensor : {q, k, v, dO})
      scale(tensor, all(kind == Extreme::Tiny ? 1e-30 : 1e-40));
    break;
  case Extreme::HugeValues:
    for (Tensor tensor : {v, dO})
      scale(tensor, all(1e15));
    break;
  case Extreme::HugeScores:
    scale(q, [&](int64_t token, int64_t) { return token % 3 ? 1e30 : 0.0; });
    break;
  case Extreme::VanishedWeights:
    scale(q, [&](int64_t token, int64_t) { return token % 3 ? 1e5 : 1.0; });
    scale(k, [&](int64_t token, int64_t) { return token % 2 ? 1e5 : 1e-3; });
    break;
  case Extreme::MixedTokens:
    for (Tensor tensor : {q, k, v, dO})
      byToken(tensor, -40, 0);
    break;
  case Extreme::MixedScores:
    for (Tensor tensor : {q, k})
      byToken(tensor, -40, 30);
    break;
  case Extreme::MixedChannels:
    for (Tensor tensor : {q, k, v, dO}) {
      std::vector<double> values = magnitudes(dim, -40, 0);
      scale(tensor,
            [&](int64_t, int64_t i) { return values[size_t(i % dim)]; });
    }
    break;
  }
  return inputs;
}

} // namespace flamia::reference

#endif // FLAMIA_TEST_UNIT_REFERENCE_EXTREMEINPUTS_H
