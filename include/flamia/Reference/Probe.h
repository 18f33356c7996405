//===- Probe.h - Leak probes ------------------------------------*- C++ -*-===//
//
// Tests of the promises P1 (causal safety) and P2 (document isolation and
// determinism) that work on any implementation of the forward, given as a
// function. Comparisons are bit for bit, over O, LSE, m, l and kappa (those
// of equal size on both sides; an implementation without some of them leaves
// them empty).
//
// A probe is only worth something beside a negative control: the same probe
// must fail on ForwardOptions{safeguard = false} (P1) and on ValueBlocks::
// PackAxis or WholePack (P2).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_PROBE_H
#define FLAMIA_REFERENCE_PROBE_H

#include "flamia/Reference/Attention.h"

#include <functional>
#include <string>

namespace flamia::reference {

/// One forward pass; returns false and fills the string on failure.
using ForwardFunction =
    std::function<bool(const AttentionInputs &inputs, ForwardOutputs &outputs,
                       std::string &error)>;

struct ProbeResult {
  bool ok = false;                 ///< ran, compared something, all bits equal
  double maxAbs = 0;               ///< largest difference; infinite for NaNs
  int64_t valuesCompared = 0;      ///< how many numbers were compared
  int64_t mismatches = 0;          ///< how many differ in any bit
  std::vector<int64_t> cuts;       ///< causal probe: the cuts tried
  std::vector<int64_t> failedCuts; ///< those with a difference
  int64_t runs = 0;                ///< forward passes
  std::string detail;              ///< first difference, or the error
};

/// The cuts of LEAK-2 that are inside the longest document, and cuts around
/// 128-row tiles and near its end: most of them inside a 32-token block.
std::vector<int64_t> causalCuts(const AttentionShape &shape);

/// P1: for each cut t, the tokens after position t of every document get
/// other Q, and K and V times 2^20; results of tokens 0..t must keep every
/// bit. One run for the reference and one a cut.
ProbeResult probeCausal(const AttentionInputs &inputs,
                        const ForwardFunction &forward,
                        const std::vector<int64_t> &cuts);

/// P2: runs the pack twice (determinism); each document alone, as a pack of
/// its own, up to \p maxAlone of them (the longest ones and some others); the
/// pack with every other document filled with NaN, both halves; and the pack
/// with the documents in reverse order. Results of the untouched documents
/// must keep every bit.
ProbeResult probeDocuments(const AttentionInputs &inputs,
                           const ForwardFunction &forward,
                           int64_t maxAlone = 64);

/// The specification model (or a control, by its options) as such a function.
ForwardFunction modelFunction(const ForwardOptions &options);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_PROBE_H
