//===- Probe.h - Leak probes ------------------------------------*- C++ -*-===//
//
// Tests of the promises P1 (causal safety), P2 (document isolation and
// determinism) and P3 (consistency of forward and backward) that work on any
// implementation, given as a function. P1 and P2 compare bit for bit, over O,
// LSE, m, l and kappa, or over dQ, dK and dV (those of equal size on both
// sides; an implementation without some of them leaves them empty).
//
// A probe is only worth something beside a negative control: the same probe
// must fail on ForwardOptions{safeguard = false} (P1), on ValueBlocks::
// PackAxis or WholePack (P2), and on the faults of BackwardOptions.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_PROBE_H
#define FLAMIA_REFERENCE_PROBE_H

#include "flamia/Reference/Backward.h"

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
  std::vector<std::string> failedOutputs; ///< "O", "dK", ...: those that differ
  int64_t runs = 0;                       ///< passes
  std::string detail;                     ///< first difference, or the error
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

/// One forward and backward pass; returns false and fills the string on
/// failure. The gradient probes read only the gradients, the consistency probe
/// also O and l.
using BackwardFunction =
    std::function<bool(const BackwardInputs &inputs, ForwardOutputs &outputs,
                       Gradients &gradients, std::string &error)>;

/// Cuts for the gradient probe, which is slow: inside a 32-token block of the
/// first, a middle and the last tile of the longest document, as far as it has
/// them.
std::vector<int64_t> gradientCuts(const AttentionShape &shape);

/// P1 for gradients, two runs a cut t. One changes the tokens after position t
/// of every document (other Q; all of Q, K, V, dO, and dLSE if there is one,
/// 2^20 times larger): dQ of tokens 0..t must keep every bit. The other changes
/// Q, dO and dLSE of tokens 0..t: dQ, dK and dV of all tokens after t must keep
/// every bit. Only documents of 384 tokens or more show all faults.
ProbeResult probeGradientCausal(const BackwardInputs &inputs,
                                const BackwardFunction &backward,
                                const std::vector<int64_t> &cuts);

/// P2 for gradients, with the same variants as probeDocuments; NaN fills dO
/// and dLSE of the neighbors too.
ProbeResult probeGradientDocuments(const BackwardInputs &inputs,
                                   const BackwardFunction &backward,
                                   int64_t maxAlone = 64);

/// What P3 found. Weights of tiles on the diagonal are BF16 and not looked at.
struct ConsistencyResult {
  bool ok = false;
  int64_t weightsCompared = 0; ///< weights off the subnormal range
  int64_t oneStep = 0;         ///< those one E4M3 step apart
  int64_t further = 0;         ///< those more than a step apart, or no E4M3
  int64_t runs = 0;
  std::string detail; ///< first difference, or the error
};

/// P3 on Q, K and the shape of \p inputs: V = one-hot rows make O the
/// forward's quantized weights over l, dO = one-hot rows make dV the backward's
/// times the rounded 1 / l. Both must be the same E4M3 numbers up to a power of
/// two; ok allows one step for 2e-6 of them (and two more weights, since a
/// probe sees few).
ConsistencyResult probeConsistency(const AttentionInputs &inputs,
                                   const BackwardFunction &backward,
                                   bool causal = true);

/// The specification model (or a control) as such a function.
BackwardFunction modelBackwardFunction(const BackwardOptions &options);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_PROBE_H
