//===- GradientProbe.cpp - Leak probes of the backward --------------------===//
//
// P1 and P2 for gradients. See Probe.h.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Data.h"
#include "lib/Reference/ProbeSupport.h"

#include <algorithm>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

bool runBackward(const BackwardFunction &backward, const BackwardInputs &inputs,
                 Gradients &gradients, ProbeResult &result) {
  ++result.runs;
  std::string error;
  ForwardOutputs outputs;
  if (backward(inputs, outputs, gradients, error))
    return true;
  result.detail = "backward pass failed: " + error;
  return false;
}

/// The gradients of a range of tokens.
void compareGradients(Comparer &comparer, const Gradients &a, int64_t tokenA,
                      const Gradients &b, int64_t tokenB, int64_t count,
                      const std::string &what) {
  const AttentionShape &shape = comparer.shape;
  int64_t query = span(shape, 1, shape.heads);
  int64_t key = span(shape, 1, shape.kvHeads);
  comparer.compare("dQ", a.dq, tokenA, b.dq, tokenB, count, query, what);
  comparer.compare("dK", a.dk, tokenA, b.dk, tokenB, count, key, what);
  comparer.compare("dV", a.dv, tokenA, b.dv, tokenB, count, key, what);
}

/// Other Q, huge like dO and dLSE, and if \p keysToo K and V, for positions
/// [first, last) of every document.
void change(BackwardInputs &inputs, int64_t first, int64_t last, bool keysToo) {
  const AttentionShape &shape = inputs.forward.shape;
  Random random(0x5EED, uint64_t(first * 2 + keysToo));
  for (int64_t d = 0; d < shape.documents(); ++d) {
    int64_t begin = shape.cuSeqlens[d] + std::min(first, shape.length(d));
    int64_t end = shape.cuSeqlens[d] + std::min(last, shape.length(d));
    for (int64_t i = span(shape, begin, shape.heads),
                 e = span(shape, end, shape.heads);
         i < e; ++i)
      inputs.forward.q[i] = floatToBF16(float(random.nextUniform()) * 8 - 4);
    enlarge(shape, inputs.forward.q, shape.heads, begin, end);
    enlarge(shape, inputs.dO, shape.heads, begin, end);
    if (!inputs.dLse.empty())
      for (int64_t i = begin * shape.heads; i < end * shape.heads; ++i)
        inputs.dLse[i] = inputs.dLse[i] * 0x1p20f + 1;
    if (!keysToo)
      continue;
    enlarge(shape, inputs.forward.k, shape.kvHeads, begin, end);
    enlarge(shape, inputs.forward.v, shape.kvHeads, begin, end);
  }
}

BackwardInputs backwardPackOf(const BackwardInputs &inputs,
                              const std::vector<int64_t> &order) {
  const AttentionShape &shape = inputs.forward.shape;
  BackwardInputs pack;
  pack.forward = packOf(inputs.forward, order);
  for (int64_t d : order) {
    int64_t begin = shape.cuSeqlens[d], end = shape.cuSeqlens[d + 1];
    appendTokens(inputs.dO, begin, end, span(shape, 1, shape.heads), pack.dO);
    if (!inputs.dLse.empty())
      appendTokens(inputs.dLse, begin, end, shape.heads, pack.dLse);
  }
  return pack;
}

/// Replaces the rows of a document by NaN, dO and dLSE too.
void poisonAll(BackwardInputs &inputs, int64_t document) {
  const AttentionShape &shape = inputs.forward.shape;
  int64_t begin = shape.cuSeqlens[document];
  int64_t end = shape.cuSeqlens[document + 1];
  poison(inputs.forward, document);
  std::fill(inputs.dO.begin() + span(shape, begin, shape.heads),
            inputs.dO.begin() + span(shape, end, shape.heads),
            uint16_t(0x7FC1));
  if (!inputs.dLse.empty())
    std::fill(inputs.dLse.begin() + begin * shape.heads,
              inputs.dLse.begin() + end * shape.heads, floatOf(0x7FC00001u));
}

} // namespace

std::vector<int64_t> reference::gradientCuts(const AttentionShape &shape) {
  int64_t longest = longestDocument(shape);
  int64_t lastTile = (longest - 1) / tileRows * tileRows;
  std::vector<int64_t> cuts;
  // 256 + 15: with 384 tokens and more, tiles lie past its own on both sides.
  for (int64_t cut : {int64_t(7), std::min(lastTile, 2 * tileRows) + 15,
                      lastTile + (longest - lastTile) / 2})
    // A cut needs a token after it.
    if (cut + 1 < longest && (cuts.empty() || cut > cuts.back()))
      cuts.push_back(cut);
  return cuts;
}

ProbeResult reference::probeGradientCausal(const BackwardInputs &inputs,
                                           const BackwardFunction &backward,
                                           const std::vector<int64_t> &cuts) {
  ProbeResult result;
  const AttentionShape &shape = inputs.forward.shape;
  int64_t query = span(shape, 1, shape.heads);
  Comparer comparer{shape, result};
  Gradients base;
  if (!runBackward(backward, inputs, base, result))
    return result;
  for (int64_t cut : cuts) {
    BackwardInputs changed = inputs;
    change(changed, cut + 1, std::numeric_limits<int64_t>::max(), true);
    Gradients future, past;
    if (!runBackward(backward, changed, future, result))
      return result;
    changed = inputs;
    change(changed, 0, cut + 1, false);
    if (!runBackward(backward, changed, past, result))
      return result;
    int64_t before = result.mismatches;
    std::string place = std::to_string(cut) + " of each document changed";
    for (int64_t d = 0; d < shape.documents(); ++d) {
      int64_t begin = shape.cuSeqlens[d];
      int64_t first = std::min(cut + 1, shape.length(d));
      comparer.compare("dQ", base.dq, begin, future.dq, begin, first, query,
                       "when tokens after " + place);
      compareGradients(comparer, base, begin + first, past, begin + first,
                       shape.length(d) - first,
                       "when Q and dO of tokens up to " + place);
    }
    result.cuts.push_back(cut);
    if (result.mismatches != before)
      result.failedCuts.push_back(cut);
  }
  finish(result);
  return result;
}

ProbeResult reference::probeGradientDocuments(const BackwardInputs &inputs,
                                              const BackwardFunction &backward,
                                              int64_t maxAlone) {
  ProbeResult result;
  const AttentionShape &shape = inputs.forward.shape;
  Comparer comparer{shape, result};
  bool ran = probeDocumentVariants<Gradients>(
      inputs, shape, maxAlone,
      [&](const BackwardInputs &pack, Gradients &gradients) {
        return runBackward(backward, pack, gradients, result);
      },
      [&](const std::vector<int64_t> &order) {
        return backwardPackOf(inputs, order);
      },
      poisonAll,
      [&](const Gradients &a, int64_t tokenA, const Gradients &b,
          int64_t tokenB, int64_t count, const std::string &what) {
        compareGradients(comparer, a, tokenA, b, tokenB, count, what);
      });
  if (ran)
    finish(result);
  return result;
}

BackwardFunction
reference::modelBackwardFunction(const BackwardOptions &options) {
  return [options](const BackwardInputs &inputs, ForwardOutputs &outputs,
                   Gradients &gradients, std::string &error) {
    error = checkProblem(inputs.forward.shape, options.forward);
    if (!error.empty())
      return false;
    QuantizedInputs quantized = quantizeInputs(inputs.forward, options.forward);
    outputs = attentionForwardModel(quantized, options.forward);
    gradients = attentionBackwardModel(quantized, outputs, inputs.dO,
                                       inputs.dLse, options);
    return true;
  };
}
