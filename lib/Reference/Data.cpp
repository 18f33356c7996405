//===- Data.cpp - Test data -----------------------------------------------===//
//
// See Data.h.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Data.h"
#include "lib/Numerics/Clones.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

/// A bijective mix of 64 bits: two rounds of multiply and xor-shift.
static uint64_t mix(uint64_t x) {
  for (uint64_t factor : {0xD6E8FEB86659FD93ull, 0xA3B195354A39B70Dull}) {
    x ^= x >> 32;
    x *= factor;
  }
  return x ^ (x >> 32);
}

uint64_t Random::bits(uint64_t n) const {
  uint64_t key = mix(seed * 0x9E3779B97F4A7C15ull + mix(stream + 1));
  return mix(key + mix(n + 0x243F6A8885A308D3ull));
}

double Random::uniform(uint64_t n) const {
  return double(bits(n) >> 11) * 0x1p-53;
}

/// Natural logarithm of x in (0, 1], plain arithmetic only: x = 2^e f with f
/// in [sqrt(1/2), sqrt(2)), then the series of 2 atanh((f-1)/(f+1)).
static double plainLog(double x) {
  FLAMIA_NO_CONTRACT
  uint64_t raw;
  std::memcpy(&raw, &x, sizeof(raw));
  int64_t exponent = int64_t(raw >> 52) - 1023;
  raw = (raw & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  double fraction;
  std::memcpy(&fraction, &raw, sizeof(fraction));
  if (fraction > 1.4142135623730951) {
    fraction *= 0.5;
    ++exponent;
  }
  double t = (fraction - 1) / (fraction + 1), square = t * t, sum = 0;
  for (int k = 21; k >= 1; k -= 2)
    sum = sum * square + 1.0 / k;
  return double(exponent) * 0.6931471805599453 + 2 * t * sum;
}

/// cos(2 pi x) for x in [0, 1), plain arithmetic only.
static double plainCosTurns(double x) {
  FLAMIA_NO_CONTRACT
  // cos has period 1 and is even: fold to [0, 1/2], then to [0, 1/4].
  if (x > 0.5)
    x = 1 - x;
  bool negative = x > 0.25;
  if (negative)
    x = 0.5 - x;
  double angle = x * 6.283185307179586, square = angle * angle;
  double sum = 1;
  for (int k = 20; k >= 2; k -= 2)
    sum = 1 - sum * square / (double(k) * (k - 1));
  return negative ? -sum : sum;
}

double Random::normal(uint64_t n) const {
  FLAMIA_NO_CONTRACT
  double radius = 1 - uniform(2 * n), turn = uniform(2 * n + 1);
  return std::sqrt(-2 * plainLog(radius)) * plainCosTurns(turn);
}

const char *reference::nameOf(DataKind kind) {
  switch (kind) {
  case DataKind::Normal:
    return "normal";
  case DataKind::OutlierChannels:
    return "outlier-channels";
  case DataKind::LlmLike:
    return "llm-like";
  case DataKind::ConstantOffset:
    return "constant-offset";
  }
  return "";
}

namespace {

enum Stream : uint64_t {
  QueryStream,
  KeyStream,
  ValueStream,
  OutlierStream,
  NormStream,
  SinkStream,
  GradientStream,
  LseGradientStream
};

/// Six channels that are (by default 4 to 5.5 times) larger in Q and K, so that
/// their products, 16 to 30 times larger, carry most of a score: the size at
/// which unrotated FP8 scores become useless (docs/numerics.md).
std::vector<double> outlierFactors(uint64_t seed, int64_t headDim,
                                   OutlierSize size) {
  FLAMIA_NO_CONTRACT
  Random random(seed, OutlierStream);
  std::vector<double> factors(headDim, 1.0);
  for (int found = 0; found < 6;) {
    double &factor = factors[random.nextBelow(headDim)];
    if (factor != 1.0)
      continue;
    factor = size.low + (size.high - size.low) * random.nextUniform();
    ++found;
  }
  return factors;
}

/// Fills a tensor with value(token, channel, standard normal).
template <typename Value>
std::vector<uint16_t> fill(const PackedShape &shape, uint64_t seed,
                           Stream stream, Value value) {
  Random random(seed, stream);
  std::vector<uint16_t> tensor(shape.elements());
  uint64_t n = 0;
  for (int64_t token = 0; token < shape.tokens(); ++token)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t c = 0; c < shape.headDim; ++c, ++n)
        tensor[n] = floatToBF16(float(value(token, c, random.normal(n))));
  return tensor;
}

} // namespace

AttentionInputs reference::makeInputs(const AttentionShape &shape,
                                      DataKind kind, uint64_t seed,
                                      OutlierSize size) {
  FLAMIA_NO_CONTRACT
  AttentionInputs inputs;
  inputs.shape = shape;
  int64_t dim = shape.headDim;
  std::vector<double> factors(dim, 1.0);
  if (kind == DataKind::OutlierChannels || kind == DataKind::LlmLike)
    factors = outlierFactors(seed, dim, size);
  double offset = kind == DataKind::ConstantOffset ? 0.7 : 0.0;
  bool llmLike = kind == DataKind::LlmLike;
  double keyNorm = llmLike ? 0.8 : 1.0;

  // llm-like: norms of tokens vary by a factor of up to 2; queries lean to a
  // fixed direction and the first key of each document lies on it, so that it
  // takes a good part of the weight, and has a small V: a sink.
  int64_t tokens = shape.tokens();
  std::vector<double> norms(3 * tokens, 1.0), direction(dim, 0.0);
  std::vector<char> first(tokens, 0);
  if (llmLike) {
    Random normRandom(seed, NormStream), sinkRandom(seed, SinkStream);
    for (double &norm : norms)
      norm = 1.0 + 0.25 * std::clamp(normRandom.nextNormal(), -2.0, 4.0);
    for (double &component : direction)
      component = sinkRandom.nextNormal();
    for (int64_t d = 0; d < shape.documents(); ++d)
      if (shape.length(d) > 0)
        first[shape.cuSeqlens[d]] = 1;
  }

  inputs.q = fill(
      shape.queryShape(), seed, QueryStream,
      [&](int64_t token, int64_t c, double x) {
        return norms[token] * (factors[c] * x + 0.8 * direction[c]) + offset;
      });
  inputs.k =
      fill(shape.keyShape(), seed, KeyStream,
           [&](int64_t token, int64_t c, double x) {
             if (first[token])
               return 2.0 * direction[c];
             return keyNorm * norms[tokens + token] * factors[c] * x + offset;
           });
  inputs.v =
      fill(shape.keyShape(), seed, ValueStream,
           [&](int64_t token, int64_t, double x) {
             return norms[2 * tokens + token] * x * (first[token] ? 0.1 : 1.0);
           });
  return inputs;
}

BackwardInputs reference::makeBackwardInputs(const AttentionShape &shape,
                                             DataKind kind, uint64_t seed,
                                             OutlierSize size) {
  BackwardInputs inputs;
  inputs.forward = makeInputs(shape, kind, seed, size);
  inputs.dO = makeGradient(shape, seed);
  return inputs;
}

std::vector<uint16_t> reference::makeGradient(const AttentionShape &shape,
                                              uint64_t seed) {
  return fill(shape.queryShape(), seed, GradientStream,
              [](int64_t, int64_t, double x) { return x; });
}

std::vector<float> reference::makeGradientOfLse(const AttentionShape &shape,
                                                uint64_t seed) {
  std::vector<float> dLse(size_t(shape.tokens() * shape.heads));
  Random random(seed, LseGradientStream);
  for (float &value : dLse)
    value = float(random.nextNormal());
  return dLse;
}

std::vector<int64_t> reference::randomLengths(Random &random, int64_t documents,
                                              int64_t maxTokens) {
  std::vector<int64_t> lengths;
  int64_t left = maxTokens;
  for (int64_t d = 0; d < documents; ++d) {
    int64_t length = 0;
    switch (random.nextBelow(8)) {
    case 0:
      break;
    case 1:
      length = 1;
      break;
    case 2:
    case 3: // around a multiple of 32
      length = 32 * (1 + random.nextBelow(8)) + random.nextBelow(3) - 1;
      break;
    case 4:
    case 5: // around a multiple of 128
      length = 128 * (1 + random.nextBelow(3)) + random.nextBelow(3) - 1;
      break;
    default:
      length = 1 + random.nextBelow(400);
      break;
    }
    length = std::min(length, left);
    left -= length;
    lengths.push_back(length);
  }
  return lengths;
}
