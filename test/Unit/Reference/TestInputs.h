//===- TestInputs.h - Inputs built by hand ----------------------*- C++ -*-===//
//
// Helpers of the reference tests.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_UNIT_REFERENCE_TESTINPUTS_H
#define FLAMIA_TEST_UNIT_REFERENCE_TESTINPUTS_H

#include "flamia/Reference/Attention.h"
#include "flamia/Reference/Compare.h"
#include "flamia/Reference/Data.h"

#include <algorithm>

namespace flamia::reference {

inline AttentionShape shapeOf(const std::vector<int64_t> &lengths,
                              int64_t heads = 1, int64_t kvHeads = 1,
                              int64_t headDim = 128) {
  return {numerics::cuSeqlensOf(lengths), heads, kvHeads, headDim};
}

/// All values of Q, K and V the same.
inline AttentionInputs constantInputs(const AttentionShape &shape, float q,
                                      float k, float v) {
  AttentionInputs inputs;
  inputs.shape = shape;
  int64_t queryElements = shape.tokens() * shape.heads * shape.headDim;
  int64_t keyElements = shape.tokens() * shape.kvHeads * shape.headDim;
  inputs.q.assign(queryElements, numerics::floatToBF16(q));
  inputs.k.assign(keyElements, numerics::floatToBF16(k));
  inputs.v.assign(keyElements, numerics::floatToBF16(v));
  return inputs;
}

/// 1024 tokens of normal data, D = 128, with six channels of Q and K that are
/// 5.1 to 6.9 times larger.
inline AttentionInputs largeChannelInputs(uint64_t seed) {
  AttentionInputs inputs = makeInputs(shapeOf({1024}), DataKind::Normal, seed);
  Random random(seed, 77);
  double factors[128];
  std::fill_n(factors, 128, 1.0);
  for (int found = 0; found < 6;) {
    double &factor = factors[random.nextBelow(128)];
    if (factor != 1)
      continue;
    factor = 6 * (0.85 + 0.3 * random.nextUniform());
    ++found;
  }
  for (std::vector<uint16_t> *tensor : {&inputs.q, &inputs.k})
    for (size_t i = 0; i < tensor->size(); ++i)
      (*tensor)[i] = numerics::floatToBF16(
          float(numerics::bf16ToFloat((*tensor)[i]) * factors[i % 128]));
  return inputs;
}

/// Element (token, head, channel) of a tensor with \p heads heads.
template <typename Tensor>
auto &at(Tensor &tensor, const AttentionShape &shape, int64_t heads,
         int64_t token, int64_t head, int64_t channel) {
  return tensor[(token * heads + head) * shape.headDim + channel];
}

/// Sets V of kv head 0.
inline void setV(AttentionInputs &inputs, int64_t token, int64_t channel,
                 float value) {
  at(inputs.v, inputs.shape, inputs.shape.kvHeads, token, 0, channel) =
      numerics::floatToBF16(value);
}

/// O of query head 0.
inline float outputAt(const AttentionInputs &inputs,
                      const ForwardOutputs &outputs, int64_t token,
                      int64_t channel) {
  return at(outputs.o, inputs.shape, inputs.shape.heads, token, 0, channel);
}

} // namespace flamia::reference

#endif // FLAMIA_TEST_UNIT_REFERENCE_TESTINPUTS_H
