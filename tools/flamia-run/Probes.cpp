//===- Probes.cpp - Promises checked by re-runs ---------------------------===//
//
// Which probes run, and on how much.
//
//===----------------------------------------------------------------------===//

#include "Probes.h"
#include "Stopwatch.h"

using namespace flamia;
using namespace flamia::run;
using namespace flamia::reference;

/// P1. Without causality there is nothing to promise.
static void probeCausality(const BackwardInputs &inputs,
                           const ForwardFunction &forward,
                           const BackwardFunction &backward, Report &report) {
  std::vector<int64_t> cuts = causalCuts(inputs.forward.shape);
  if (cuts.empty()) {
    report.lines.push_back(
        {"probe causal", "skipped: no document has a token to change"});
    return;
  }
  addProbe("causal", probeCausal(inputs.forward, forward, cuts), report);
  if (backward)
    addGradientProbe("causal",
                     probeGradientCausal(inputs, backward,
                                         gradientCuts(inputs.forward.shape)),
                     report);
}

/// P3. A window of head_dim keys is a run of its own, so one document is taken:
/// the longest, cut to three tiles.
static void probeWeights(const Options &options, const AttentionInputs &inputs,
                         const BackwardFunction &backward, Report &report) {
  constexpr int64_t tokens = 384;
  const AttentionShape &shape = inputs.shape;
  int64_t longest = 0;
  for (int64_t d = 1; d < shape.documents(); ++d)
    if (shape.length(d) > shape.length(longest))
      longest = d;
  int64_t length =
      shape.documents() ? std::min(shape.length(longest), tokens) : 0;
  if (length <= (options.causal ? numerics::tileRows : 0)) {
    report.lines.push_back(
        {"probe consistency", "skipped: no weight of a past tile"});
    return;
  }
  AttentionInputs part;
  part.shape = {{0, length}, shape.heads, shape.kvHeads, shape.headDim};
  auto cut = [&](const std::vector<uint16_t> &from, int64_t heads) {
    auto begin =
        from.begin() + shape.cuSeqlens[longest] * heads * shape.headDim;
    return std::vector<uint16_t>(begin, begin + length * heads * shape.headDim);
  };
  part.q = cut(inputs.q, shape.heads);
  part.k = cut(inputs.k, shape.kvHeads);
  part.v = cut(inputs.v, shape.kvHeads);
  addConsistency(probeConsistency(part, backward, options.causal), report);
}

void run::runProbes(const Options &options, const BackwardInputs &inputs,
                    const ForwardFunction &forward,
                    const BackwardFunction &backward, Report &report) {
  Stopwatch watch;
  bool consistency = backward && options.probeConsistency.value_or(true);
  if (options.probeCausal && options.causal)
    probeCausality(inputs, forward, backward, report);
  if (options.probeDocuments && inputs.forward.shape.tokens() == 0) {
    report.lines.push_back({"probe documents", "skipped: there are no rows"});
  } else if (options.probeDocuments) {
    addProbe("documents", probeDocuments(inputs.forward, forward, 4), report);
    if (backward)
      addGradientProbe("documents", probeGradientDocuments(inputs, backward, 2),
                       report);
  }
  if (consistency)
    probeWeights(options, inputs.forward, backward, report);
  if (options.probeCausal || options.probeDocuments || consistency)
    report.seconds.push_back({"probes", watch.seconds()});
}
