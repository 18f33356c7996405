//===- Mixes.h - Document lengths to schedule -------------------*- C++ -*-===//
//
// The length mixes of issue 6 as cu_seqlens, for tests and benchmarks of
// schedules. The same on every machine: no library distributions.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_SCHEDULE_MIXES_H
#define FLAMIA_TEST_UNIT_SCHEDULE_MIXES_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace flamia::test {

struct Mix {
  std::string name;
  std::vector<int64_t> offsets = {0};
  void add(int64_t length) { offsets.push_back(offsets.back() + length); }
  int64_t tokens() const { return offsets.back(); }
};

/// Uniform numbers in (0, 1).
class Uniform {
public:
  double operator()() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double(state >> 11) + 0.5) / double(uint64_t(1) << 53);
  }

private:
  uint64_t state = 42;
};

/// Documents from `length` until there are `tokens` tokens; the last is cut.
template <typename Length>
Mix fillMix(const char *name, int64_t tokens, Length length) {
  Mix mix;
  mix.name = name;
  while (mix.tokens() < tokens)
    mix.add(std::min<int64_t>(length(), tokens - mix.tokens()));
  return mix;
}

/// The mixes of about `tokens` tokens; that of one long document has
/// `tokens` / 2 in it and the rest in documents of 64.
inline std::vector<Mix> lengthMixes(int64_t tokens) {
  std::vector<Mix> mixes;
  Uniform uniform;
  mixes.push_back(fillMix("all 512", tokens, [] { return 512; }));
  mixes.push_back(fillMix("all 32768", tokens, [] { return 32768; }));
  // Mean 2048: the median is smaller by exp(sigma^2 / 2). Box and Muller.
  mixes.push_back(fillMix("log-normal, mean 2k", tokens, [&] {
    double radius = std::sqrt(-2 * std::log(uniform()));
    double normal = radius * std::cos(6.283185307179586 * uniform());
    return std::max<int64_t>(1, std::llround(2048 * std::exp(normal - 0.5)));
  }));
  bool longFirst = true;
  for (const char *name : {"1 x 64k + 1000 x 64", "1000 x 64 + 1 x 64k"}) {
    Mix mix;
    mix.name = name;
    if (longFirst)
      mix.add(tokens / 2);
    for (int d = 0; d < 1000; ++d)
      mix.add(64);
    if (!longFirst)
      mix.add(tokens / 2);
    longFirst = false;
    mixes.push_back(mix);
  }
  // Probability of a length in proportion to 1 / length, up to 64k.
  mixes.push_back(fillMix("Zipf", tokens, [&] {
    return std::max<int64_t>(1,
                             int64_t(std::exp(uniform() * std::log(65536.0))));
  }));
  Mix brief;
  brief.name = "5000 of 1-31";
  for (int d = 0; d < 5000; ++d)
    brief.add(1 + int64_t(uniform() * 31));
  mixes.push_back(brief);
  return mixes;
}

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_SCHEDULE_MIXES_H
