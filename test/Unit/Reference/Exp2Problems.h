//===- Exp2Problems.h - Weights that show who computed them -----*- C++ -*-===//
//
// The polynomial and the special function unit differ by a few 2^-24, which no
// result shows, unless a weight lies on the edge between two E4M3 numbers: with
// S = -1 and the softmax scale below, 256 P is 216.00003 or 215.99998, which
// rounds to 224 or 208. Exponents are multiples of 2^-20 and stay exact
// whatever integer is added, so forward and backward compute the same ones.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_UNIT_REFERENCE_EXP2PROBLEMS_H
#define FLAMIA_TEST_UNIT_REFERENCE_EXP2PROBLEMS_H

#include "flamia/Reference/Probe.h"

#include <array>
#include <cmath>
#include <string>

namespace flamia::reference {

/// c = fp32(scale * log2 e) = 8 - log2(216) up to 2^-21.
inline constexpr float edgeScale = 0x1.5bf4p-3f;
inline constexpr float edgeExponent = 0x1.f05014p+2f;

/// Q and K of D = 64 with S = -1 for odd keys and 0 for even ones. \p block
/// limits the odd ones to a block of 32 keys of the last document.
inline BackwardInputs edgeProblem(std::vector<int64_t> lengths,
                                  int64_t block = -1) {
  BackwardInputs inputs;
  AttentionInputs &forward = inputs.forward;
  forward.shape = {numerics::cuSeqlensOf(lengths), 1, 1, 64};
  int64_t tokens = forward.shape.tokens();
  for (std::vector<uint16_t> *tensor :
       {&forward.q, &forward.k, &forward.v, &inputs.dO})
    tensor->assign(tokens * 64, 0);
  int64_t first = forward.shape.cuSeqlens[lengths.size() - 1];
  for (size_t d = 0; d < lengths.size(); ++d)
    for (int64_t i = 0; i < lengths[d]; ++i) {
      int64_t token = forward.shape.cuSeqlens[d] + i;
      forward.q[token * 64] = numerics::floatToBF16(1);
      if (i % 2 && (block < 0 || (token >= first && i / 32 == block)))
        forward.k[token * 64] = numerics::floatToBF16(-1);
    }
  return inputs;
}

/// Who computed the weights of block (4 + q, b) of a document's score matrix:
/// 'p' the polynomial, 'u' the unit, '?' both or neither.
using EdgeBlocks = std::array<std::array<char, 4>, 4>;
struct EdgeObservation {
  EdgeBlocks forward, keyGradients, queryGradients;
  std::string error;
};

/// 224 or 208, or not the same as before.
inline void noteWeight(char &seen, double weight) {
  char now = weight > 220 && weight < 228   ? 'u'
             : weight > 204 && weight < 212 ? 'p'
                                            : '?';
  seen = seen == 0 || seen == now ? now : '?';
}

/// What an implementation whose backward takes a dLSE does, in a document of
/// two tiles behind one of 37 tokens. The weights appear
/// - in O: V is one-hot in the block of keys;
/// - in dV: dO is one-hot in one query of every block;
/// - in dQ: another query of every block has dO = 0 and a dLSE for which dS is
///   the weight itself, to be quantized in the same way.
inline EdgeObservation observeEdge(const BackwardFunction &backward) {
  constexpr int64_t first = 37, tile = 128;
  uint16_t one = numerics::floatToBF16(1);
  EdgeObservation seen = {};
  for (int64_t b = 0; b < 4; ++b) {
    BackwardInputs inputs = edgeProblem({first, 2 * tile}, b);
    inputs.dLse.assign(inputs.forward.shape.tokens(), 0.0f);
    for (int64_t c = 0; c < 32; ++c)
      inputs.forward.v[(first + 32 * b + c) * 64 + c] = one;
    for (int64_t q = 0; q < 4; ++q)
      inputs.dO[(first + tile + 32 * q) * 64 + q] = one;
    ForwardOutputs outputs;
    Gradients gradients;
    if (!backward(inputs, outputs, gradients, seen.error))
      return seen;
    // dLSE * fp32(1 / l) = 1.
    for (int64_t q = 0; q < 4; ++q) {
      int64_t row = first + tile + 32 * q + 1;
      float l = outputs.l[row], r = 1.0f / l;
      for (float value : {l, std::nextafter(l, 0.0f), std::nextafter(l, 1e9f)})
        if (value * r == 1)
          inputs.dLse[row] = value;
    }
    if (!backward(inputs, outputs, gradients, seen.error))
      return seen;
    for (int64_t q = 0; q < 4; ++q) {
      for (int64_t i = 32 * q; i < 32 * q + 32; ++i)
        for (int64_t c = 1; c < 32; c += 2) {
          int64_t row = first + tile + i;
          noteWeight(seen.forward[q][b],
                     256.0 * outputs.o[row * 64 + c] * outputs.l[row]);
        }
      for (int64_t c = 1; c < 32; c += 2) {
        int64_t key = first + 32 * b + c;
        noteWeight(seen.keyGradients[q][b],
                   256.0 * gradients.dv[key * 64 + q] /
                       gradients.dv[(key - 1) * 64 + q]);
      }
      noteWeight(seen.queryGradients[q][b],
                 -256.0 * gradients.dq[(first + tile + 32 * q + 1) * 64] /
                     (16 * edgeScale));
    }
  }
  return seen;
}

/// What a share asks for.
inline EdgeBlocks expectedEdge(numerics::Exp2Share share) {
  EdgeBlocks blocks;
  for (int64_t q = 0; q < 4; ++q)
    for (int64_t b = 0; b < 4; ++b)
      blocks[q][b] = share.contains(4 + q, b) ? 'p' : 'u';
  return blocks;
}

} // namespace flamia::reference

#endif // FLAMIA_TEST_UNIT_REFERENCE_EXP2PROBLEMS_H
