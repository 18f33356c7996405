//===- QuantizeInputs.cpp - Quantized operands of the forward -------------===//
//
// flamia's quantization of Q, K, V in both formats, and the faults on purpose
// that serve as negative controls.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Attention.h"

#include <algorithm>
#include <utility>

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

/// A token-local tensor whose scales are shared by groups of tokens from the
/// document's first on: a fault on purpose.
static void shareScales(const uint16_t *tensor, const PackedShape &shape,
                        int64_t group, const ForwardOptions &options,
                        TokenLocalTensor &result) {
  if (group == 1)
    return;
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  std::vector<float> row(shape.headDim);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t i = 0; i < shape.cuSeqlens[d + 1] - shape.cuSeqlens[d]; ++i)
      for (int64_t head = 0; head < shape.heads; ++head) {
        // A token's own byte is as large as its share of the group's needs.
        auto byteAt = [&](int64_t t) -> uint8_t & {
          return result
              .scales[((bases[d] + t / tileRows) * shape.heads + head) *
                          atomBytes +
                      off128x4(t % tileRows, 0)];
        };
        int64_t first = i / group * group, token = shape.cuSeqlens[d] + i;
        int64_t last = std::min(first + group,
                                shape.cuSeqlens[d + 1] - shape.cuSeqlens[d]);
        uint8_t byte = 0;
        for (int64_t t = first; t < last; ++t)
          byte = std::max(byte, byteAt(t));
        int64_t offset = (token * shape.heads + head) * shape.headDim;
        bf16ToFloat(tensor + offset, row.data(), row.size());
        if (options.rotate)
          rotateToken(row.data(), shape.headDim);
        encodeE4M3(row.data(), shape.headDim, byte, &result.payload[offset]);
        for (int64_t j = 0; j < shape.headDim / blockSize; ++j)
          (&byteAt(i))[j] = byte;
      }
}

/// The second-level scale that fits a whole tensor: the largest block scale
/// becomes 448. A fault on purpose.
static float globalScaleOf(const uint16_t *tensor, const PackedShape &shape,
                           bool rotate) {
  std::vector<float> row(shape.headDim);
  float largest = 0;
  for (int64_t offset = 0; offset < shape.elements(); offset += shape.headDim) {
    bf16ToFloat(tensor + offset, row.data(), row.size());
    if (rotate)
      rotateToken(row.data(), shape.headDim);
    largest = std::max(largest, absMax(row.data(), shape.headDim));
  }
  return largest > 0 ? largest / (e4m3Max * e2m1Max) : defaultGlobalScale;
}

/// The tensor minus the mean over each document's tokens, rounded to BF16: a
/// fault on purpose.
static std::vector<uint16_t> withoutMean(std::vector<uint16_t> tensor,
                                         const PackedShape &shape) {
  int64_t row = shape.heads * shape.headDim;
  for (int64_t d = 0; d < shape.documents(); ++d) {
    int64_t begin = shape.cuSeqlens[d], end = shape.cuSeqlens[d + 1];
    for (int64_t i = 0; i < row; ++i) {
      double sum = 0;
      for (int64_t token = begin; token < end; ++token)
        sum += bf16ToFloat(tensor[token * row + i]);
      for (int64_t token = begin; token < end; ++token) {
        uint16_t &value = tensor[token * row + i];
        value =
            floatToBF16(float(bf16ToFloat(value) - sum / double(end - begin)));
      }
    }
  }
  return tensor;
}

/// Quantizes Q or K in the format of \p options: \p e4m3 always, \p scores for
/// nvfp4.
static void quantizeScoreSide(const uint16_t *tensor, const PackedShape &shape,
                              const ForwardOptions &options, float globalScale,
                              TokenLocalTensor &e4m3, Nvfp4Tensor &scores) {
  if (options.format == Format::Mxfp8) {
    e4m3 = quantizeTokenLocal(tensor, shape, options.rotate, options.scaleMode);
    return;
  }
  if (options.dataGlobalScale)
    globalScale = globalScaleOf(tensor, shape, options.rotate);
  MixedTensor mixed = quantizeTokenMixed(tensor, shape, options.rotate,
                                         options.scaleMode, globalScale);
  e4m3 = std::move(mixed.e4m3);
  scores = std::move(mixed.nvfp4);
}

QuantizedInputs reference::quantizeInputs(const AttentionInputs &inputs,
                                          const ForwardOptions &options) {
  const AttentionShape &shape = inputs.shape;
  QuantizedInputs result;
  result.shape = shape;
  result.format = options.format;
  std::vector<uint16_t> centered;
  if (options.subtractKeyMean)
    centered = withoutMean(inputs.k, shape.keyShape());
  const uint16_t *q = inputs.q.data();
  const uint16_t *k =
      options.subtractKeyMean ? centered.data() : inputs.k.data();
  quantizeScoreSide(q, shape.queryShape(), options, options.queryGlobalScale,
                    result.q, result.qScores);
  quantizeScoreSide(k, shape.keyShape(), options, options.keyGlobalScale,
                    result.k, result.kScores);
  shareScales(q, shape.queryShape(), options.queryBlock, options, result.q);
  shareScales(k, shape.keyShape(), options.keyBlock, options, result.k);
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
