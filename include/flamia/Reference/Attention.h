//===- Attention.h - fp64 attention and the specification model -*- C++ -*-===//
//
// Two CPU references of the attention forward on packed documents:
//
// - attentionFp64: the mathematical result, in double.
// - attentionForwardModel: the specification model, what flamia's kernels
//   must compute, quantization, order of operations and roundings included
//   (docs/numerics.md). S and each tile's PV product are summed in double and
//   rounded to float once, where the tensor core rounds more often.
//
// Both use threads; results do not depend on their number.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_ATTENTION_H
#define FLAMIA_REFERENCE_ATTENTION_H

#include "flamia/Numerics/Exp2.h"
#include "flamia/Numerics/Quantize.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flamia::reference {

/// Shape of one attention problem. Q and O are [tokens, heads, headDim], K and
/// V [tokens, kvHeads, headDim]; query head h reads kv head
/// h / (heads / kvHeads).
struct AttentionShape {
  std::vector<int64_t> cuSeqlens; ///< documents + 1 entries, first 0
  int64_t heads = 1;
  int64_t kvHeads = 1;
  int64_t headDim = 128;

  int64_t documents() const {
    return cuSeqlens.empty() ? 0 : int64_t(cuSeqlens.size()) - 1;
  }
  int64_t tokens() const { return cuSeqlens.empty() ? 0 : cuSeqlens.back(); }
  int64_t length(int64_t document) const {
    return cuSeqlens[document + 1] - cuSeqlens[document];
  }
  numerics::PackedShape queryShape() const {
    return {cuSeqlens, heads, headDim};
  }
  numerics::PackedShape keyShape() const {
    return {cuSeqlens, kvHeads, headDim};
  }
};

/// Empty when \p shape is well formed, else what is wrong.
std::string checkShape(const AttentionShape &shape);

struct ForwardOptions;
/// The same, and the second-level scales where the format has them.
std::string checkProblem(const AttentionShape &shape,
                         const ForwardOptions &options);

/// Original tensors, BF16 bits.
struct AttentionInputs {
  AttentionShape shape;
  std::vector<uint16_t> q, k, v;
};

/// Formats of the passes. They differ in the operands of S = Q K^T alone, in
/// the forward and in the backward's recomputation.
enum class Format {
  Mxfp8, ///< everything E4M3
  Nvfp4  ///< S from E2M1 with UE4M3 scales per 16 channels, the rest E4M3
};

/// "mxfp8", "nvfp4".
const char *nameOf(Format format);

/// What the kernels get: quantized Q, K, V and the original V.
struct QuantizedInputs {
  AttentionShape shape;
  /// What S is made of; the models look here, not at ForwardOptions.
  Format format = Format::Mxfp8;
  /// E4M3 copies: S (mxfp8), dQ and dK.
  numerics::TokenLocalTensor q, k;
  numerics::TokenBlockTensor v;
  std::vector<uint16_t> vBf16;
  /// Negative controls only: when not empty, the values products on E4M3 V
  /// see instead of v's, [tokens, kvHeads, headDim].
  std::vector<float> vOverride;
  /// Operands of S in format nvfp4, else empty. Each knows its second-level
  /// scale, and how many of its blocks saturated or were flushed.
  numerics::Nvfp4Tensor qScores, kScores;
};

/// Results of a forward pass. A row that sees no key has O = 0, LSE = -inf.
struct ForwardOutputs {
  std::vector<float> o;     ///< [tokens, heads, headDim], BF16 values
  std::vector<float> lse;   ///< [tokens, heads], natural logarithm
  std::vector<float> m;     ///< integer reference, base 2
  std::vector<float> l;     ///< sum of 2^(s - m)
  std::vector<float> kappa; ///< correction of rounding the largest weights
};

/// Results in double.
struct ForwardOutputsFp64 {
  std::vector<double> o;   ///< [tokens, heads, headDim]
  std::vector<double> lse; ///< [tokens, heads], natural logarithm
};

/// Which keys a query sees. Positions are inside the document; query i sees
/// key j when (not causal or j <= i) and (windowLeft < 0 or j >= i -
/// windowLeft) and (windowRight < 0 or j <= i + windowRight).
struct MaskOptions {
  bool causal = true;
  int64_t windowLeft = -1;  ///< -1 means unlimited
  int64_t windowRight = -1; ///< -1 means unlimited
};

/// How V shares scales over tokens. Only Document is flamia; the others are
/// faults on purpose, negative controls of the probes.
enum class ValueBlocks {
  Document, ///< blocks of 32 tokens from the document's first token
  PackAxis, ///< blocks of 32 tokens of the packed axis: documents share scales
  WholePack ///< one scale per pack: every document depends on all others
};

struct ForwardOptions {
  Format format = Format::Mxfp8;
  /// Second-level scales g of Q and K in format nvfp4: launch parameters, never
  /// from the data of the same step.
  float queryGlobalScale = numerics::defaultGlobalScale;
  float keyGlobalScale = numerics::defaultGlobalScale;
  MaskOptions mask;
  /// Negative: 1/sqrt(headDim), rounded to float.
  float softmaxScale = -1.0f;
  bool rotate = true;
  /// Blocks of the score matrix whose weights come from exp2Polynomial; in all
  /// others 2^x is a double rounded to float. A quarter in kernels for sm_100a,
  /// none for sm_103a. BackwardOptions has the backward's.
  numerics::Exp2Share exp2;
  /// Tiles that straddle the diagonal use BF16 P and V (causal only). Without
  /// it the 32-token V scales leak: a negative control.
  bool safeguard = true;
  /// All tiles use BF16 P and V (for comparisons of accuracy).
  bool bf16PvEverywhere = false;
  ValueBlocks valueBlocks = ValueBlocks::Document;
  /// Tokens of a document that share a scale of Q or K. Anything but 1 leaks:
  /// negative controls.
  int64_t queryBlock = 1, keyBlock = 1;
  /// Second-level scales from the tensors' own largest magnitudes, as common
  /// NVFP4 recipes have it. Leaks: a negative control.
  bool dataGlobalScale = false;
  /// K minus its mean over the document's tokens: scores change by the same
  /// number for all keys, so O does not, but the payloads see the future. A
  /// negative control.
  bool subtractKeyMean = false;
  numerics::ScaleMode scaleMode = numerics::ScaleMode::RoundUp;
  /// 0: one per processor.
  unsigned threads = 0;
};

/// The softmax scale \p options stand for.
float softmaxScaleOf(const ForwardOptions &options, int64_t headDim);

/// Factor from S to base-2 scores in the models and kernels: c =
/// fp32(softmax scale * log2 e), in format nvfp4 (c * gQ) * gK.
float scoreFactorOf(const QuantizedInputs &inputs,
                    const ForwardOptions &options);

/// Attention in double on BF16 inputs.
ForwardOutputsFp64 attentionFp64(const AttentionInputs &inputs,
                                 const ForwardOptions &options);
/// The same on float values (for instance dequantized Q and K).
ForwardOutputsFp64 attentionFp64(const AttentionShape &shape,
                                 const std::vector<float> &q,
                                 const std::vector<float> &k,
                                 const std::vector<float> &v,
                                 const ForwardOptions &options);

/// Quantizes as the quantize kernel does, all payloads and scale arrays of the
/// chosen format, or with one of the faults of ForwardOptions.
QuantizedInputs quantizeInputs(const AttentionInputs &inputs,
                               const ForwardOptions &options);

/// The specification model of the forward kernel on quantized operands.
ForwardOutputs attentionForwardModel(const QuantizedInputs &inputs,
                                     const ForwardOptions &options);
/// Quantization and forward.
ForwardOutputs attentionForwardModel(const AttentionInputs &inputs,
                                     const ForwardOptions &options);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_ATTENTION_H
