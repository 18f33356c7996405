//===- BackwardProblems.h - Hard problems of the backward -------*- C++ -*-===//
//
// LEAK-3 with its twins and attention sinks, for the references' tests and for
// those of the compiled kernels.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_UNIT_REFERENCE_BACKWARDPROBLEMS_H
#define FLAMIA_TEST_UNIT_REFERENCE_BACKWARDPROBLEMS_H

#include "TestInputs.h"

#include <algorithm>
#include <cmath>

namespace flamia::reference {

//===----------------------------------------------------------------------===//
// LEAK-3: an earlier row of dO or Q, or a later key, in one 32-block
//===----------------------------------------------------------------------===//

/// One document and head of D = 128, everything zero: uniform weights.
inline BackwardInputs zeroProblem(int64_t length) {
  BackwardInputs inputs;
  inputs.forward = constantInputs(shapeOf({length}), 0, 0, 0);
  inputs.dO.assign(length * 128, 0);
  return inputs;
}

inline void setAt(std::vector<uint16_t> &tensor, int64_t token, int64_t channel,
                  float value) {
  tensor[token * 128 + channel] = numerics::floatToBF16(value);
}

/// LEAK-3 (softmax scale 1): dV of key 16 is 2^-25 with and without an earlier
/// dO row.
inline BackwardInputs earlierGradientRow(bool earlier) {
  BackwardInputs inputs = zeroProblem(128);
  setAt(inputs.dO, 31, 0, 0x1p-20f);
  if (earlier)
    setAt(inputs.dO, 0, 0, 1);
  return inputs;
}

/// Past tiles: rows 256..286 have gradients of 2^shift, row 287 has 1 and key
/// 31 alone. dV of key 31 is 1 in channel 2.
inline BackwardInputs smallBesideLarge(int shift) {
  BackwardInputs inputs = zeroProblem(384);
  for (int64_t i = 256; i < 287; ++i)
    setAt(inputs.dO, i, 1, std::ldexp(1.0f, shift));
  setAt(inputs.dO, 287, 2, 1.0f);
  setAt(inputs.forward.q, 287, 0, 60.0f);
  setAt(inputs.forward.k, 31, 0, 60.0f);
  return inputs;
}

/// V that leaves dS at about the weights themselves.
inline void setAlternatingV(BackwardInputs &inputs) {
  for (int64_t j = 0; j < inputs.forward.shape.tokens(); ++j)
    setAt(inputs.forward.v, j, 0, j % 2 ? 1.0f : -1.0f);
}

/// The softmax scale of earlierQuery().
inline constexpr float earlierQueryScale = 0x1p-10f;

/// dK of key 16 in channel 3 comes from row 31; Q of token 0 has `size` there.
inline BackwardInputs earlierQuery(float size) {
  BackwardInputs inputs = zeroProblem(128);
  setAlternatingV(inputs);
  setAt(inputs.dO, 31, 0, 0x1p-60f);
  setAt(inputs.forward.q, 31, 3, 0x1p-10f);
  setAt(inputs.forward.q, 0, 3, size);
  return inputs;
}

/// dQ of row 31 in channel 3 comes from keys up to 31; K of token 40 has `size`
/// there.
inline BackwardInputs laterKey(float size) {
  BackwardInputs inputs = zeroProblem(128);
  setAlternatingV(inputs);
  for (int64_t j = 0; j < 128; ++j)
    setAt(inputs.forward.k, j, 3, 0x1p-10f * float(1 + j % 3));
  setAt(inputs.forward.k, 40, 3, size);
  setAt(inputs.dO, 31, 0, 0x1p-60f);
  return inputs;
}

/// Counts tokens from \p first to \p last whose bits differ.
inline int64_t changedTokens(const std::vector<float> &a,
                             const std::vector<float> &b, int64_t first,
                             int64_t last) {
  int64_t changed = 0;
  for (int64_t j = first; j < last; ++j) {
    bool same = true;
    for (int64_t c = 0; c < 128; ++c)
      same &=
          numerics::bitsOf(a[j * 128 + c]) == numerics::bitsOf(b[j * 128 + c]);
    changed += !same;
  }
  return changed;
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

/// 16 heads: the error of the sink's dK is one random number a head (the
/// queries share a direction, so their errors add up along it), and a single
/// one decides nothing.
inline constexpr int64_t sinkHeads = 16, sinkTokens = 512;

/// Normal data with one key per head whose logit is \p logit for every query;
/// the others keep unit-normal logits.
inline BackwardInputs sinkProblem(double logit, int64_t sink) {
  AttentionShape shape = shapeOf({sinkTokens}, sinkHeads, sinkHeads);
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, 61);
  Random random(61, 99);
  double direction[128];
  for (double &x : direction)
    x = (random.nextBits() & 1 ? 1 : -1) / std::sqrt(128.0);
  // Query component and sink length along the direction; other keys have none.
  double component = std::sqrt(logit * std::sqrt(128.0));
  auto setComponent = [&](uint16_t *row, double value) {
    double dot = 0;
    for (int64_t c = 0; c < 128; ++c)
      dot += numerics::bf16ToFloat(row[c]) * direction[c];
    for (int64_t c = 0; c < 128; ++c)
      row[c] = numerics::floatToBF16(
          float(numerics::bf16ToFloat(row[c]) + (value - dot) * direction[c]));
  };
  for (int64_t row = 0; row < sinkTokens * sinkHeads; ++row) {
    setComponent(&inputs.forward.q[row * 128], component);
    setComponent(&inputs.forward.k[row * 128], 0);
    if (row / sinkHeads == sink)
      for (int64_t c = 0; c < 128; ++c)
        inputs.forward.k[row * 128 + c] =
            numerics::floatToBF16(float(component * direction[c]));
  }
  return inputs;
}

/// Errors against fp64 on the dequantized Q and K; dV without the sink's.
struct SinkErrors {
  double dq, dk, ordinaryDv;
};

/// Judges gradients of sinkProblem(logit, sink).
class SinkJudge {
public:
  SinkJudge(const BackwardInputs &inputs, int64_t sink) : sink(sink) {
    const AttentionShape &shape = inputs.forward.shape;
    QuantizedInputs quantized = quantizeInputs(inputs.forward, {});
    std::vector<float> q = dequantize(quantized.q, shape.queryShape());
    std::vector<float> k = dequantize(quantized.k, shape.keyShape());
    std::vector<float> v(inputs.forward.v.size()), dO(inputs.dO.size());
    numerics::bf16ToFloat(inputs.forward.v.data(), v.data(), v.size());
    numerics::bf16ToFloat(inputs.dO.data(), dO.data(), dO.size());
    exact = attentionBackwardFp64(shape, q, k, v, dO, {}, {});
    // Still in the rotated frame, like Q and K.
    flash = errorsOf(flashBackwardBf16(shape, q, k, v, dO, {}, {}));
    for (std::vector<double> *tensor : {&exact.dq, &exact.dk})
      for (size_t row = 0; row < tensor->size(); row += 128) {
        float values[128];
        std::copy_n(&(*tensor)[row], 128, values);
        numerics::unrotateToken(values, 128);
        std::copy_n(values, 128, &(*tensor)[row]);
      }
  }

  SinkErrors errorsOf(const Gradients &gradients) const {
    return {measureError(gradients.dq, exact.dq).relativeFrobenius,
            measureError(gradients.dk, exact.dk).relativeFrobenius,
            measureError(without(gradients.dv), without(exact.dv))
                .relativeFrobenius};
  }

  /// What a BF16 flash kernel has.
  const SinkErrors &flashErrors() const { return flash; }

private:
  /// All tokens but the sink.
  template <typename T>
  std::vector<T> without(const std::vector<T> &tensor) const {
    std::vector<T> rest = tensor;
    auto begin = rest.begin() + sink * sinkHeads * 128;
    rest.erase(begin, begin + sinkHeads * 128);
    return rest;
  }

  int64_t sink;
  GradientsFp64 exact;
  SinkErrors flash;
};

} // namespace flamia::reference

#endif // FLAMIA_TEST_UNIT_REFERENCE_BACKWARDPROBLEMS_H
