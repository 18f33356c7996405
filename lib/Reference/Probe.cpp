//===- Probe.cpp - Leak probes --------------------------------------------===//
//
// See Probe.h. Each variant is a separate forward pass, so that a scale shared
// by the whole pack is seen too.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Probe.h"
#include "flamia/Reference/Data.h"
#include "lib/Reference/ProbeSupport.h"

#include <algorithm>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// The arrays of a forward's results.
void compareOutputs(Comparer &comparer, const ForwardOutputs &a, int64_t tokenA,
                    const ForwardOutputs &b, int64_t tokenB, int64_t count,
                    const std::string &what) {
  int64_t row = comparer.shape.heads, element = row * comparer.shape.headDim;
  comparer.compare("O", a.o, tokenA, b.o, tokenB, count, element, what);
  comparer.compare("LSE", a.lse, tokenA, b.lse, tokenB, count, row, what);
  comparer.compare("m", a.m, tokenA, b.m, tokenB, count, row, what);
  comparer.compare("l", a.l, tokenA, b.l, tokenB, count, row, what);
  comparer.compare("kappa", a.kappa, tokenA, b.kappa, tokenB, count, row, what);
}

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

/// Gives the tokens after position \p cut of every document another Q, and huge
/// K and V.
void changeFuture(AttentionInputs &inputs, int64_t cut) {
  const AttentionShape &shape = inputs.shape;
  Random random(0x5EED, uint64_t(cut));
  for (int64_t d = 0; d < shape.documents(); ++d) {
    int64_t begin =
        std::min(shape.cuSeqlens[d] + cut + 1, shape.cuSeqlens[d + 1]);
    int64_t end = shape.cuSeqlens[d + 1];
    for (int64_t i = span(shape, begin, shape.heads),
                 e = span(shape, end, shape.heads);
         i < e; ++i)
      inputs.q[i] = floatToBF16(float(random.nextUniform()) * 8 - 4);
    enlarge(shape, inputs.k, shape.kvHeads, begin, end);
    enlarge(shape, inputs.v, shape.kvHeads, begin, end);
  }
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
  Comparer comparer{shape, result};
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
      compareOutputs(comparer, base, shape.cuSeqlens[d], outputs,
                     shape.cuSeqlens[d], std::min(cut + 1, shape.length(d)),
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
  Comparer comparer{shape, result};
  bool ran = probeDocumentVariants<ForwardOutputs>(
      inputs, shape, maxAlone,
      [&](const AttentionInputs &pack, ForwardOutputs &outputs) {
        return runForward(forward, pack, outputs, result);
      },
      [&](const std::vector<int64_t> &order) { return packOf(inputs, order); },
      poison,
      [&](const ForwardOutputs &a, int64_t tokenA, const ForwardOutputs &b,
          int64_t tokenB, int64_t count, const std::string &what) {
        compareOutputs(comparer, a, tokenA, b, tokenB, count, what);
      });
  if (ran)
    finish(result);
  return result;
}

ForwardFunction reference::modelFunction(const ForwardOptions &options) {
  return [options](const AttentionInputs &inputs, ForwardOutputs &outputs,
                   std::string &error) {
    error = checkProblem(inputs.shape, options);
    if (!error.empty())
      return false;
    outputs = attentionForwardModel(inputs, options);
    return true;
  };
}
