//===- ScoreOperand.h - Operands of S = Q K^T -------------------*- C++ -*-===//
//
// Q and K as the product S sees them, in either format: the only place where
// the formats differ in the passes.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_SCOREOPERAND_H
#define FLAMIA_LIB_REFERENCE_SCOREOPERAND_H

#include "lib/Reference/TileOperand.h"

namespace flamia::reference {

enum class ScoreSide { Queries, Keys };

/// Loads \p count rows of Q or K into \p operand, and into \p scales what the
/// sums of a row are multiplied by (1 for rows beyond count). Sums of products
/// of rows are exact in double: E4M3 payloads, scaled by the token's power of
/// two afterwards, or E2M1 codes times their UE4M3 scales, at most 6 bits wide
/// in steps of 2^-10 (a sum of 128 products takes 50 bits).
void loadScoreRows(const QuantizedInputs &inputs, ScoreSide side,
                   const RowsOf &rows, int64_t scaleTile, int64_t count,
                   TileOperand &operand, std::vector<double> &scales);

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_SCOREOPERAND_H
