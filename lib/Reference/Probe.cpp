//===- Probe.cpp - Leak probes --------------------------------------------===//
//
// See Probe.h. Each variant is a separate forward pass, so that a scale shared
// by the whole pack is seen too.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Probe.h"
#include "flamia/Reference/Data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// Counts differences of tokens between two results.
class Comparer {
public:
  Comparer(const AttentionShape &shape, ProbeResult &result)
      : shape(shape), result(result) {}

  /// Compares \p count tokens from \p tokenA of \p a with those from \p tokenB
  /// of \p b; \p what names the variant.
  void compare(const ForwardOutputs &a, int64_t tokenA, const ForwardOutputs &b,
               int64_t tokenB, int64_t count, const std::string &what) {
    int64_t row = shape.heads;
    compareArray("O", a.o, tokenA, b.o, tokenB, count, row * shape.headDim,
                 what);
    compareArray("LSE", a.lse, tokenA, b.lse, tokenB, count, row, what);
    compareArray("m", a.m, tokenA, b.m, tokenB, count, row, what);
    compareArray("l", a.l, tokenA, b.l, tokenB, count, row, what);
    compareArray("kappa", a.kappa, tokenA, b.kappa, tokenB, count, row, what);
  }

private:
  void compareArray(const char *name, const std::vector<float> &a,
                    int64_t tokenA, const std::vector<float> &b, int64_t tokenB,
                    int64_t count, int64_t rowSize, const std::string &what) {
    if (a.empty() && b.empty())
      return; // an output the implementation does not have
    if (int64_t(a.size()) < (tokenA + count) * rowSize ||
        int64_t(b.size()) < (tokenB + count) * rowSize) {
      ++result.mismatches;
      note(std::string(name) + " is too short, " + what);
      return;
    }
    for (int64_t i = 0; i < count * rowSize; ++i) {
      float x = a[tokenA * rowSize + i], y = b[tokenB * rowSize + i];
      ++result.valuesCompared;
      if (bitsOf(x) == bitsOf(y))
        continue;
      ++result.mismatches;
      double difference = std::abs(double(x) - double(y));
      if (std::isnan(difference))
        difference = std::numeric_limits<double>::infinity();
      result.maxAbs = std::max(result.maxAbs, difference);
      note(std::string(name) + " of token " +
           std::to_string(tokenA + i / rowSize) + ", element " +
           std::to_string(i % rowSize) + ": " + std::to_string(x) + " became " +
           std::to_string(y) + ", " + what);
    }
  }

  void note(const std::string &text) {
    if (result.detail.empty())
      result.detail = text;
  }

  const AttentionShape &shape;
  ProbeResult &result;
};

/// Runs a forward pass and counts it; false and detail on failure.
bool runForward(const ForwardFunction &forward, const AttentionInputs &inputs,
                ForwardOutputs &outputs, ProbeResult &result) {
  ++result.runs;
  std::string error;
  if (forward(inputs, outputs, error))
    return true;
  result.detail = "forward pass failed: " + error;
  return false;
}

void finish(ProbeResult &result) {
  result.ok = result.mismatches == 0 && result.valuesCompared > 0;
  if (result.valuesCompared == 0 && result.detail.empty())
    result.detail = "nothing to compare";
}

/// Elements of \p tokens tokens of a tensor with \p heads heads.
int64_t span(const AttentionShape &shape, int64_t tokens, int64_t heads) {
  return tokens * heads * shape.headDim;
}

/// The documents of \p order as a pack of their own.
AttentionInputs packOf(const AttentionInputs &inputs,
                       const std::vector<int64_t> &order) {
  const AttentionShape &shape = inputs.shape;
  AttentionInputs pack;
  pack.shape = shape;
  std::vector<int64_t> lengths;
  for (int64_t d : order) {
    lengths.push_back(shape.length(d));
    auto append = [&](const std::vector<uint16_t> &from,
                      std::vector<uint16_t> &to, int64_t heads) {
      to.insert(to.end(), from.begin() + span(shape, shape.cuSeqlens[d], heads),
                from.begin() + span(shape, shape.cuSeqlens[d + 1], heads));
    };
    append(inputs.q, pack.q, shape.heads);
    append(inputs.k, pack.k, shape.kvHeads);
    append(inputs.v, pack.v, shape.kvHeads);
  }
  pack.shape.cuSeqlens = cuSeqlensOf(lengths);
  return pack;
}

/// Replaces the rows of a document by NaN.
void poison(AttentionInputs &inputs, int64_t document) {
  const AttentionShape &shape = inputs.shape;
  int64_t begin = shape.cuSeqlens[document];
  int64_t end = shape.cuSeqlens[document + 1];
  auto fill = [&](std::vector<uint16_t> &tensor, int64_t heads) {
    std::fill(tensor.begin() + span(shape, begin, heads),
              tensor.begin() + span(shape, end, heads), uint16_t(0x7FC1));
  };
  fill(inputs.q, shape.heads);
  fill(inputs.k, shape.kvHeads);
  fill(inputs.v, shape.kvHeads);
}

/// Gives the tokens after position \p cut of every document another Q, and K
/// and V times 2^20 (limited to what BF16 holds).
void changeFuture(AttentionInputs &inputs, int64_t cut) {
  const AttentionShape &shape = inputs.shape;
  Random random(0x5EED, uint64_t(cut));
  auto enlarge = [](uint16_t bits) {
    return floatToBF16Sat(bf16ToFloat(bits) * 0x1p20f);
  };
  for (int64_t d = 0; d < shape.documents(); ++d) {
    int64_t begin =
        std::min(shape.cuSeqlens[d] + cut + 1, shape.cuSeqlens[d + 1]);
    int64_t end = shape.cuSeqlens[d + 1];
    for (int64_t i = span(shape, begin, shape.heads),
                 e = span(shape, end, shape.heads);
         i < e; ++i)
      inputs.q[i] = floatToBF16(float(random.nextUniform()) * 8 - 4);
    for (int64_t i = span(shape, begin, shape.kvHeads),
                 e = span(shape, end, shape.kvHeads);
         i < e; ++i) {
      inputs.k[i] = enlarge(inputs.k[i]);
      inputs.v[i] = enlarge(inputs.v[i]);
    }
  }
}

int64_t longestDocument(const AttentionShape &shape) {
  int64_t longest = 0;
  for (int64_t d = 0; d < shape.documents(); ++d)
    longest = std::max(longest, shape.length(d));
  return longest;
}

} // namespace

std::vector<int64_t> reference::causalCuts(const AttentionShape &shape) {
  int64_t longest = longestDocument(shape);
  std::vector<int64_t> candidates = {
      0,   1,   7,   15,  16,  30,           31,         32,  33,
      47,  62,  63,  64,  100, 126,          127,        128, 143,
      160, 200, 255, 256, 300, longest - 40, longest - 2};
  std::sort(candidates.begin(), candidates.end());
  std::vector<int64_t> cuts;
  for (int64_t cut : candidates)
    // A cut needs a token after it.
    if (cut >= 0 && cut + 1 < longest && (cuts.empty() || cuts.back() != cut))
      cuts.push_back(cut);
  return cuts;
}

ProbeResult reference::probeCausal(const AttentionInputs &inputs,
                                   const ForwardFunction &forward,
                                   const std::vector<int64_t> &cuts) {
  ProbeResult result;
  const AttentionShape &shape = inputs.shape;
  Comparer comparer(shape, result);
  ForwardOutputs base;
  if (!runForward(forward, inputs, base, result))
    return result;
  for (int64_t cut : cuts) {
    AttentionInputs changed = inputs;
    changeFuture(changed, cut);
    ForwardOutputs outputs;
    if (!runForward(forward, changed, outputs, result))
      return result;
    int64_t before = result.mismatches;
    for (int64_t d = 0; d < shape.documents(); ++d)
      comparer.compare(base, shape.cuSeqlens[d], outputs, shape.cuSeqlens[d],
                       std::min(cut + 1, shape.length(d)),
                       "when tokens after " + std::to_string(cut) +
                           " of each document changed");
    result.cuts.push_back(cut);
    if (result.mismatches != before)
      result.failedCuts.push_back(cut);
  }
  finish(result);
  return result;
}

ProbeResult reference::probeDocuments(const AttentionInputs &inputs,
                                      const ForwardFunction &forward,
                                      int64_t maxAlone) {
  ProbeResult result;
  const AttentionShape &shape = inputs.shape;
  Comparer comparer(shape, result);
  ForwardOutputs base, again;
  if (!runForward(forward, inputs, base, result) ||
      !runForward(forward, inputs, again, result))
    return result;
  comparer.compare(base, 0, again, 0, shape.tokens(), "in a second run");

  // The longest documents first: they have tiles in the past.
  std::vector<int64_t> order(shape.documents());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> byLength = order;
  std::sort(byLength.begin(), byLength.end(), [&](int64_t a, int64_t b) {
    return std::make_pair(-shape.length(a), a) <
           std::make_pair(-shape.length(b), b);
  });
  int64_t alone = 0;
  for (int64_t d : byLength) {
    if (shape.length(d) == 0 || alone == maxAlone)
      break;
    ++alone;
    ForwardOutputs outputs;
    if (!runForward(forward, packOf(inputs, {d}), outputs, result))
      return result;
    comparer.compare(base, shape.cuSeqlens[d], outputs, 0, shape.length(d),
                     "with document " + std::to_string(d) + " alone");
  }

  for (int64_t half = 0; half < 2; ++half) {
    AttentionInputs poisoned = inputs;
    for (int64_t d = half; d < shape.documents(); d += 2)
      poison(poisoned, d);
    ForwardOutputs outputs;
    if (!runForward(forward, poisoned, outputs, result))
      return result;
    for (int64_t d = 1 - half; d < shape.documents(); d += 2)
      comparer.compare(base, shape.cuSeqlens[d], outputs, shape.cuSeqlens[d],
                       shape.length(d), "with NaN in every other document");
  }

  std::vector<int64_t> reversed(order.rbegin(), order.rend());
  AttentionInputs pack = packOf(inputs, reversed);
  ForwardOutputs outputs;
  if (!runForward(forward, pack, outputs, result))
    return result;
  for (int64_t i = 0; i < shape.documents(); ++i)
    comparer.compare(base, shape.cuSeqlens[reversed[i]], outputs,
                     pack.shape.cuSeqlens[i], shape.length(reversed[i]),
                     "with the documents in reverse order");
  finish(result);
  return result;
}

ForwardFunction reference::modelFunction(const ForwardOptions &options) {
  return [options](const AttentionInputs &inputs, ForwardOutputs &outputs,
                   std::string &error) {
    error = checkShape(inputs.shape);
    if (!error.empty())
      return false;
    outputs = attentionForwardModel(inputs, options);
    return true;
  };
}
