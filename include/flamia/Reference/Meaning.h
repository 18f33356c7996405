//===- Meaning.h - Which results a comparison may judge ---------*- C++ -*-===//
//
// Far outside of the usual, results depend on the order of sums: fp32 holds no
// more of a score than its leading digits, sums overflow on the way, and
// differences cancel. What follows says where, from the inputs alone, so that a
// comparison can leave these rows out and stay strict on all others. NaN and
// infinities in the inputs are no such case: what becomes of them is defined.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_MEANING_H
#define FLAMIA_REFERENCE_MEANING_H

#include "flamia/Reference/Backward.h"

namespace flamia::reference {

/// Scores beyond this, in units of log2, have lost their meaning
/// (docs/numerics.md, "Known limits").
inline constexpr double largestScore = 0x1p22;

/// By row, what rounding of large scores in fp32 may change of its results, a
/// share of them: 2^-24 of the largest score that the row may have from 2^10
/// on, else 0. Infinity where nothing can be judged.
struct MeaningfulRows {
  std::vector<float> outputs; ///< O, LSE, m, l, kappa: [tokens, heads]
  std::vector<float> queries; ///< dQ: [tokens, heads]
  std::vector<float> keys;    ///< dK and dV: [tokens, kvHeads]
};

/// Rows of the forward. One is left out if the lengths of its query and of a
/// key that it sees allow a score beyond largestScore, or if the weights that
/// it may have on the values that it sees can exceed fp32.
MeaningfulRows meaningfulRows(const QuantizedInputs &quantized,
                              const ForwardOptions &options);

/// Adds the gradients of \p dO (and \p dLse unless empty) on a forward's
/// results. Queries whose dS can exceed fp32, or that have been left out, are
/// left out together with all keys that they see; a key is allowed what the
/// queries are that see it.
void addMeaningfulGradients(const QuantizedInputs &quantized,
                            const ForwardOutputs &forward,
                            const std::vector<uint16_t> &dO,
                            const std::vector<float> &dLse,
                            const ForwardOptions &options,
                            MeaningfulRows &rows);

/// How large gradients would be if nothing in dS = P (dP - D) cancelled: with
/// |dO_i| |V_j| in the place of dP - D, from lengths of vectors in double. Rows
/// that are not finite count as 0.
struct GradientSizes {
  std::vector<double> queries; ///< of dQ, [tokens, heads]
  std::vector<double> keys;    ///< of dK, [tokens, kvHeads]
};
GradientSizes gradientSizes(const BackwardInputs &inputs,
                            const ForwardOptions &options);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_MEANING_H
