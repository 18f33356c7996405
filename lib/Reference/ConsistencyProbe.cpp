//===- ConsistencyProbe.cpp - P3: the same weights in both passes ---------===//
//
// Reads the quantized weights of the forward and of the backward out of their
// results: with V[j] = one-hot, O[i][c] l[i] is the weight of key c of a
// window; with dO[i] = one-hot, dV[j][c] over the rounded 1 / l[i] is that of
// query c. A product of two E4M3 significands fits in BF16, so dV is exact; O
// is near enough to one of 8 significands to tell it.
//
//===----------------------------------------------------------------------===//

#include "lib/Reference/ProbeSupport.h"

#include <algorithm>
#include <cmath>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// The E4M3 significand (in eighths, 8..15) nearest to a positive value, -1 if
/// it is off by more than \p tolerance.
int significandOf(double value, double tolerance) {
  int exponent;
  double eighths = std::frexp(value, &exponent) * 16;
  double nearest = std::nearbyint(eighths);
  if (!(std::abs(eighths - nearest) <= tolerance * eighths))
    return -1;
  return nearest == 16 ? 8 : int(nearest);
}

class Consistency {
public:
  Consistency(const AttentionInputs &inputs, const BackwardFunction &backward,
              bool causal, ConsistencyResult &result)
      : shape(inputs.shape), backward(backward), causal(causal), result(result),
        longest(longestDocument(shape)) {
    problem.forward = inputs;
  }

  bool run() {
    int64_t group = shape.heads / shape.kvHeads;
    int64_t windows = (longest + shape.headDim - 1) / shape.headDim;
    forwardWeights.assign(shape.tokens() * shape.heads * longest, 0.0f);
    backwardWeights.assign(forwardWeights.size(), 0.0f);
    for (int64_t member = 0; member < group; ++member)
      for (int64_t window = 0; window < windows; ++window) {
        fillOneHot(problem.forward.v, shape.kvHeads, window, -1);
        problem.dO.assign(span(shape, shape.tokens(), shape.heads), 0);
        fillOneHot(problem.dO, shape.heads, window, member);
        Gradients gradients;
        ++result.runs;
        if (!backward(problem, outputs, gradients, result.detail))
          return false;
        readForward(window);
        readBackward(gradients, window, member);
      }
    compare();
    return true;
  }

private:
  /// Row (token, head) of a [tokens, heads, longest] array.
  int64_t weightRow(int64_t token, int64_t head) const {
    return (token * shape.heads + head) * longest;
  }

  /// Calls \p function(document, token, position, channel) for the positions
  /// of a window.
  template <typename Function>
  void forWindow(int64_t window, Function function) const {
    for (int64_t d = 0; d < shape.documents(); ++d)
      for (int64_t c = 0; c < shape.headDim; ++c) {
        int64_t position = window * shape.headDim + c;
        if (position < shape.length(d))
          function(d, shape.cuSeqlens[d] + position, position, c);
      }
  }

  /// One-hot rows in a window, for all heads or one member of each group.
  void fillOneHot(std::vector<uint16_t> &tensor, int64_t heads, int64_t window,
                  int64_t member) const {
    std::fill(tensor.begin(), tensor.end(), uint16_t(0));
    int64_t group = shape.heads / shape.kvHeads;
    forWindow(window, [&](int64_t, int64_t token, int64_t, int64_t c) {
      for (int64_t head = 0; head < heads; ++head)
        if (member < 0 || head % group == member)
          tensor[(token * heads + head) * shape.headDim + c] = floatToBF16(1);
    });
  }

  void readForward(int64_t window) {
    forWindow(window, [&](int64_t d, int64_t, int64_t key, int64_t c) {
      for (int64_t i = 0; i < shape.length(d); ++i)
        for (int64_t head = 0; head < shape.heads; ++head) {
          int64_t token = shape.cuSeqlens[d] + i;
          int64_t row = token * shape.heads + head;
          forwardWeights[weightRow(token, head) + key] =
              outputs.o[row * shape.headDim + c] * outputs.l[row];
        }
    });
  }

  void readBackward(const Gradients &gradients, int64_t window,
                    int64_t member) {
    int64_t group = shape.heads / shape.kvHeads;
    forWindow(window, [&](int64_t d, int64_t token, int64_t, int64_t c) {
      for (int64_t j = 0; j < shape.length(d); ++j)
        for (int64_t kvHead = 0; kvHead < shape.kvHeads; ++kvHead) {
          int64_t head = kvHead * group + member;
          int64_t key = (shape.cuSeqlens[d] + j) * shape.kvHeads + kvHead;
          backwardWeights[weightRow(token, head) + j] =
              gradients.dv[key * shape.headDim + c] / gradientOf(token, head);
        }
    });
  }

  /// What the one of dO becomes: 1 / l, rounded to E4M3 by its own scale.
  float gradientOf(int64_t token, int64_t head, int *exponent = nullptr) const {
    float r = 1.0f / outputs.l[token * shape.heads + head], value;
    uint8_t payload, byte = quantizeBlockE4M3(&r, 1, &payload);
    dequantizeBlockE4M3(&payload, 1, byte, &value);
    if (exponent)
      *exponent = int(byte) - e8m0One;
    return value;
  }

  void compare() {
    for (int64_t d = 0; d < shape.documents(); ++d)
      for (int64_t head = 0; head < shape.heads; ++head)
        for (int64_t block = 0; block < shape.length(d); block += blockSize)
          for (int64_t j = 0; j < shape.length(d); ++j)
            // Only tiles strictly in the past have E4M3 weights.
            if (!causal || block / tileRows > j / tileRows)
              compareBlock(d, head, block, j);
  }

  /// 32 queries and one key: what shares a dynamic scale in the backward.
  void compareBlock(int64_t d, int64_t head, int64_t block, int64_t j) {
    int64_t end = std::min(block + blockSize, shape.length(d));
    double folded[blockSize] = {}, largest = 0;
    for (int64_t i = block; i < end; ++i) {
      int64_t token = shape.cuSeqlens[d] + i;
      int exponent;
      gradientOf(token, head, &exponent);
      folded[i - block] = std::ldexp(
          double(forwardWeights[weightRow(token, head) + j]), exponent);
      largest = std::max(largest, folded[i - block]);
    }
    for (int64_t i = block; i < end; ++i) {
      int64_t row = weightRow(shape.cuSeqlens[d] + i, head);
      double one = forwardWeights[row + j], other = backwardWeights[row + j];
      // Normal in the forward: 256 P >= 2^-6. In the backward the largest
      // payload is above 224.
      if (!(one >= 0x1.08p-14 && folded[i - block] >= largest * 0x1p-13))
        continue;
      ++result.weightsCompared;
      int a = significandOf(one, 0x1p-7), b = significandOf(other, 0x1p-20);
      if (a == b && a > 0)
        continue;
      bool step = a > 0 && b > 0 && (a - b + 8) % 8 % 6 == 1;
      ++(step ? result.oneStep : result.further);
      if (result.detail.empty())
        result.detail = "document " + std::to_string(d) + ", head " +
                        std::to_string(head) + ", query " + std::to_string(i) +
                        ", key " + std::to_string(j) + ": forward " +
                        std::to_string(one) + ", backward " +
                        std::to_string(other);
    }
  }

  const AttentionShape &shape;
  const BackwardFunction &backward;
  bool causal;
  ConsistencyResult &result;
  int64_t longest;
  BackwardInputs problem;
  ForwardOutputs outputs;
  std::vector<float> forwardWeights, backwardWeights;
};

} // namespace

ConsistencyResult reference::probeConsistency(const AttentionInputs &inputs,
                                              const BackwardFunction &backward,
                                              bool causal) {
  ConsistencyResult result;
  if (!Consistency(inputs, backward, causal, result).run()) {
    result.detail = "backward pass failed: " + result.detail;
    return result;
  }
  result.ok =
      result.weightsCompared > 0 && result.further == 0 &&
      double(result.oneStep) <= 2e-6 * double(result.weightsCompared) + 2;
  if (result.weightsCompared == 0)
    result.detail = "nothing to compare";
  return result;
}
