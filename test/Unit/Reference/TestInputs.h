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

/// 1024 tokens of one head, D = 128, with outlier channels of the design's
/// size.
inline AttentionInputs designOutlierInputs(uint64_t seed) {
  return makeInputs(shapeOf({1024}), DataKind::OutlierChannels, seed,
                    designOutliers);
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
