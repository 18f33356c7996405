//===- Data.h - Test data ---------------------------------------*- C++ -*-===//
//
// Seeded inputs for tests and flamia-run. The numbers depend only on (kind,
// seed, shape): the generator is counter based and uses no library functions
// whose rounding differs between platforms.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_DATA_H
#define FLAMIA_REFERENCE_DATA_H

#include "flamia/Reference/Backward.h"

namespace flamia::reference {

/// Counter-based random numbers: the n-th number of a stream depends on
/// nothing but (seed, stream, n).
class Random {
public:
  Random(uint64_t seed, uint64_t stream) : seed(seed), stream(stream) {}
  uint64_t bits(uint64_t n) const;
  /// In [0, 1), 53 bits.
  double uniform(uint64_t n) const;
  /// Standard normal.
  double normal(uint64_t n) const;
  /// Next numbers of the stream, for sequential use.
  uint64_t nextBits() { return bits(next++); }
  double nextUniform() { return uniform(next++); }
  double nextNormal() { return normal(next++); }
  /// In [0, bound).
  int64_t nextBelow(int64_t bound) { return int64_t(nextBits() % bound); }

private:
  uint64_t seed, stream, next = 0;
};

enum class DataKind {
  Normal,          ///< independent standard normal Q, K, V
  OutlierChannels, ///< six channels of Q and K are 4 to 5.5 times larger
  LlmLike,         ///< outlier channels, an attention sink, token norms
  ConstantOffset   ///< normal plus the same constant in every channel
};

/// How much larger the outlier channels are.
struct OutlierSize {
  double low = 4, high = 5.5;
};
/// The size at which MXFP8 without rotation has the errors that design.md
/// (section 2.4) states for its data (docs/numerics.md, "Accuracy").
inline constexpr OutlierSize designOutliers = {4.5, 6.2};

/// "normal", "outlier-channels", "llm-like", "constant-offset".
const char *nameOf(DataKind kind);

/// Q, K, V of the given kind, rounded to BF16.
AttentionInputs makeInputs(const AttentionShape &shape, DataKind kind,
                           uint64_t seed, OutlierSize size = {});

/// The same and a standard normal dO (no dLSE).
BackwardInputs makeBackwardInputs(const AttentionShape &shape, DataKind kind,
                                  uint64_t seed, OutlierSize size = {});

/// Its dO, and a standard normal dLSE.
std::vector<uint16_t> makeGradient(const AttentionShape &shape, uint64_t seed);
std::vector<float> makeGradientOfLse(const AttentionShape &shape,
                                     uint64_t seed);

/// Random document lengths that sum to at most \p maxTokens: a mix of empty
/// documents, single tokens, lengths around multiples of 32 and 128 and
/// arbitrary ones.
std::vector<int64_t> randomLengths(Random &random, int64_t documents,
                                   int64_t maxTokens);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_DATA_H
