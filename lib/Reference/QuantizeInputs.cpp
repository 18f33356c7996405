//===- QuantizeInputs.cpp - Quantized operands of the forward -------------===//
//
// flamia's quantization of Q, K, V, and the faulty sharings of V's scales that
// serve as negative controls.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Attention.h"

#include <algorithm>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

/// V as float after quantization in groups of \p group tokens of the packed
/// axis x 32 channels, whatever documents a group crosses.
static std::vector<float> roundAcrossDocuments(const uint16_t *tensor,
                                               const PackedShape &shape,
                                               int64_t group, ScaleMode mode) {
  std::vector<float> values(shape.elements());
  bf16ToFloat(tensor, values.data(), values.size());
  uint8_t payload[blockSize];
  for (int64_t first = 0; first < shape.tokens(); first += group)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t c = 0; c < shape.headDim; c += blockSize) {
        int64_t last = std::min(first + group, shape.tokens());
        auto blockOf = [&](int64_t token) {
          return &values[(token * shape.heads + head) * shape.headDim + c];
        };
        std::vector<float> maxima;
        for (int64_t token = first; token < last; ++token)
          maxima.push_back(absMax(blockOf(token), blockSize));
        uint8_t byte = e8m0ScaleByte(
            absMax(maxima.data(), int64_t(maxima.size())), mode, e8m0One);
        for (int64_t token = first; token < last; ++token) {
          encodeE4M3(blockOf(token), blockSize, byte, payload);
          dequantizeBlockE4M3(payload, blockSize, byte, blockOf(token));
        }
      }
  return values;
}

QuantizedInputs reference::quantizeInputs(const AttentionInputs &inputs,
                                          const ForwardOptions &options) {
  const AttentionShape &shape = inputs.shape;
  QuantizedInputs result;
  result.shape = shape;
  result.q = quantizeTokenLocal(inputs.q.data(), shape.queryShape(),
                                options.rotate, options.scaleMode);
  result.k = quantizeTokenLocal(inputs.k.data(), shape.keyShape(),
                                options.rotate, options.scaleMode);
  result.v =
      quantizeTokenBlock(inputs.v.data(), shape.keyShape(), options.scaleMode);
  result.vBf16 = inputs.v;
  if (options.valueBlocks != ValueBlocks::Document) {
    bool blocks = options.valueBlocks == ValueBlocks::PackAxis;
    result.vOverride = roundAcrossDocuments(
        inputs.v.data(), shape.keyShape(),
        blocks ? blockSize : std::max<int64_t>(shape.tokens(), 1),
        options.scaleMode);
  }
  return result;
}
