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

/// Original tensors, BF16 bits.
struct AttentionInputs {
  AttentionShape shape;
  std::vector<uint16_t> q, k, v;
};

/// What the kernels get: quantized Q, K, V and the original V.
struct QuantizedInputs {
  AttentionShape shape;
  numerics::TokenLocalTensor q, k;
  numerics::TokenBlockTensor v;
  std::vector<uint16_t> vBf16;
  /// Negative controls only: when not empty, the values products on E4M3 V
  /// see instead of v's, [tokens, kvHeads, headDim].
  std::vector<float> vOverride;
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
  MaskOptions mask;
  /// Negative: 1/sqrt(headDim), rounded to float.
  float softmaxScale = -1.0f;
  bool rotate = true;
  /// Tiles that straddle the diagonal use BF16 P and V (causal only). Without
  /// it the 32-token V scales leak: a negative control.
  bool safeguard = true;
  /// All tiles use BF16 P and V (for comparisons of accuracy).
  bool bf16PvEverywhere = false;
  ValueBlocks valueBlocks = ValueBlocks::Document;
  /// Tokens of a document that share a scale of Q or K. Anything but 1 leaks:
  /// negative controls.
  int64_t queryBlock = 1, keyBlock = 1;
  numerics::ScaleMode scaleMode = numerics::ScaleMode::RoundUp;
  /// 0: one per processor.
  unsigned threads = 0;
};

/// The softmax scale \p options stand for.
float softmaxScaleOf(const ForwardOptions &options, int64_t headDim);

/// Attention in double on BF16 inputs.
ForwardOutputsFp64 attentionFp64(const AttentionInputs &inputs,
                                 const ForwardOptions &options);
/// The same on float values (for instance dequantized Q and K).
ForwardOutputsFp64 attentionFp64(const AttentionShape &shape,
                                 const std::vector<float> &q,
                                 const std::vector<float> &k,
                                 const std::vector<float> &v,
                                 const ForwardOptions &options);

/// Quantizes as the quantize kernel does (valueBlocks = Document), or with a
/// faulty sharing of V's scales.
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
