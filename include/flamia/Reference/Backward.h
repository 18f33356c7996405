//===- Backward.h - The backward: fp64, BF16 and the model ------*- C++ -*-===//
//
// Three CPU references of the attention backward on packed documents:
//
// - attentionBackwardFp64: the mathematical result, in double.
// - flashBackwardBf16: what a flash kernel with BF16 operands and fp32 sums
//   computes, to compare errors with (attention sinks).
// - attentionBackwardModel: the specification model, what flamia's kernels
//   must compute (docs/numerics.md, "The backward, step by step"):
//   prepareBackward is attention_bwd_prep, the rest attention_bwd_dkdv and
//   attention_bwd_dq.
//
// All use threads; results do not depend on their number.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_BACKWARD_H
#define FLAMIA_REFERENCE_BACKWARD_H

#include "flamia/Reference/Attention.h"

#include <optional>

namespace flamia::reference {

/// A backward problem: the forward's inputs and the gradients that come in.
struct BackwardInputs {
  AttentionInputs forward;
  std::vector<uint16_t> dO; ///< BF16 [tokens, heads, headDim]
  /// Gradient of LSE (natural logarithm), [tokens, heads]; empty for none.
  std::vector<float> dLse;
};

/// Gradients, BF16 values: dq [tokens, heads, headDim], dk and dv [tokens,
/// kvHeads, headDim].
struct Gradients {
  std::vector<float> dq, dk, dv;
};
struct GradientsFp64 {
  std::vector<double> dq, dk, dv;
};

struct BackwardOptions {
  /// Mask, scale, rotation, safeguard (here: BF16 dP and dV on the diagonal),
  /// bf16PvEverywhere (here: BF16 dP and dV in all tiles), threads.
  ForwardOptions forward;
  /// False: kappa = 1 and D' from the unrounded dO' everywhere, as kernels
  /// without flamia's correction have it (for comparisons at sinks).
  bool correctedD = true;
  /// Blocks whose weights are computed by polynomial in dK,dV (the library's
  /// kernels: none) and in dQ (empty: the forward's, forward.exp2).
  numerics::Exp2Share keyGradientExp2;
  std::optional<numerics::Exp2Share> queryGradientExp2;

  // Faults on purpose, negative controls of the probes.

  /// Tokens that share one scale of dO'.
  int64_t gradientBlock = 1;
  /// False: P^ in dV keeps its static scale.
  bool dynamicWeights = true;
  /// False: dynamic scales count masked elements too.
  bool maskBeforeScale = true;
  /// True: exponents folded on diagonal tiles are relative to the tile's
  /// largest, as on other tiles. Leaks where tokens differ by 2^100.
  bool tileRelativeDiagonal = false;
  /// Blocks by which the backward's choice of polynomials is shifted.
  int64_t exp2Offset = 0;
};

/// Results of attention_bwd_prep. e_i is the exponent of a scale byte, byte -
/// 127; "E of a tile" is the largest byte of the document's tokens in it.
struct PreparedGradient {
  /// dO' = dO / l: payload, and byte eO of each token in atoms.
  numerics::TokenLocalTensor dO;
  /// Atoms [scaleTiles, heads, 512] like dO.scales: eQ - EQ + R, the scale of
  /// dO' in the dP of dK,dV.
  std::vector<uint8_t> foldedScales;
  /// Atoms [scaleTiles, heads, 512], operand row = channel, K block = 32
  /// queries of the tile: E_b, the block's largest eO. B scale of dV.
  std::vector<uint8_t> blockScales;
  /// The same shape: E_b + EQ - 8, the B scale of dK. R, by block, is what a
  /// byte cannot hold of it.
  std::vector<uint8_t> queryBlockScales;
  /// Atoms [scaleTiles, kvHeads, 512] like V's scalesAlongCols: eV + eK - EK +
  /// R, the scale of V in the dP of dQ.
  std::vector<uint8_t> foldedValueScales;
  /// Atoms [scaleTiles, kvHeads, 512], operand row = channel, K block = 32 keys
  /// of the tile: EK - 8, the B scale of dQ; R is what a byte cannot hold of
  /// it.
  std::vector<uint8_t> keyBlockScales;
  std::vector<uint8_t> queryTileScales; ///< EQ, [scaleTiles, heads]
  std::vector<uint8_t> keyTileScales;   ///< EK, [scaleTiles, kvHeads]

  // Per query, [tokens, heads].
  std::vector<float> r;            ///< 1 / l, 0 where l = 0
  std::vector<float> bias;         ///< 8 - m, -infinity where l = 0
  std::vector<float> biasHat;      ///< 8 - m + eO - E_b, likewise
  std::vector<float> dPast;        ///< D' of past tiles
  std::vector<float> dPastHat;     ///< dPast * 2^(eQ - EQ - eO + R)
  std::vector<float> dDiagonal;    ///< D' of diagonal tiles
  std::vector<float> dDiagonalHat; ///< dDiagonal * 2^eQ
  std::vector<float> rHat;         ///< r * 2^eQ

  // Per key, [tokens, kvHeads].
  std::vector<float> keyFactors;         ///< 2^(eK - EK + R)
  std::vector<float> diagonalKeyFactors; ///< 2^eK
};

/// What tests want to see of dS = P~ (dP' - D') before it is quantized, per
/// query [tokens, heads], in the dQ kernel.
struct BackwardDiagnostics {
  std::vector<double> rowSums, rowAbsSums;
};

/// The backward in double.
GradientsFp64 attentionBackwardFp64(const BackwardInputs &inputs,
                                    const ForwardOptions &options);
/// The same on float values (for instance dequantized Q and K); \p dLse may be
/// empty.
GradientsFp64 attentionBackwardFp64(const AttentionShape &shape,
                                    const std::vector<float> &q,
                                    const std::vector<float> &k,
                                    const std::vector<float> &v,
                                    const std::vector<float> &dO,
                                    const std::vector<float> &dLse,
                                    const ForwardOptions &options);

/// A BF16 flash kernel: operands and O rounded to BF16, P and dS too before
/// their products, sums in fp32. The values must be BF16 values.
Gradients
flashBackwardBf16(const AttentionShape &shape, const std::vector<float> &q,
                  const std::vector<float> &k, const std::vector<float> &v,
                  const std::vector<float> &dO, const std::vector<float> &dLse,
                  const ForwardOptions &options);

/// The specification model of attention_bwd_prep. \p forward holds o, m, l and
/// kappa of the same inputs.
PreparedGradient prepareBackward(const QuantizedInputs &quantized,
                                 const ForwardOutputs &forward,
                                 const std::vector<uint16_t> &dO,
                                 const std::vector<float> &dLse,
                                 const BackwardOptions &options);

/// The specification model of the whole backward on a forward's results.
Gradients attentionBackwardModel(const QuantizedInputs &quantized,
                                 const ForwardOutputs &forward,
                                 const std::vector<uint16_t> &dO,
                                 const std::vector<float> &dLse,
                                 const BackwardOptions &options,
                                 BackwardDiagnostics *diagnostics = nullptr);
/// Quantization, forward and backward.
Gradients attentionBackwardModel(const BackwardInputs &inputs,
                                 const BackwardOptions &options,
                                 BackwardDiagnostics *diagnostics = nullptr);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_BACKWARD_H
