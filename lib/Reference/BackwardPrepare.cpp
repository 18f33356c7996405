//===- BackwardPrepare.cpp - The specification model of the preparation ---===//
//
// What attention_bwd_prep computes (docs/numerics.md): dO' = dO / l quantized
// token by token, both D' vectors, and every vector and scale byte that the
// folding of token-local exponents needs.
//
//===----------------------------------------------------------------------===//

#include "lib/Reference/BackwardTiles.h"
#include "lib/Reference/TileMath.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// dLSE counts in a token's scale only where it is 2^40 times larger than
/// dO': then D' * 2^-eO stays in range, and otherwise dV keeps its precision.
constexpr float gradientShare = 0x1p-40f;
constexpr float infinity = std::numeric_limits<float>::infinity();
/// Weights are computed as 2^(s - m + 8), as in the forward.
constexpr float weightShift = 8.0f;

class Preparation {
public:
  Preparation(const QuantizedInputs &quantized, const ForwardOutputs &forward,
              const std::vector<uint16_t> &dO, const std::vector<float> &dLse,
              const BackwardOptions &options, PreparedGradient &result)
      : quantized(quantized), shape(quantized.shape), forward(forward), dO(dO),
        dLse(dLse), options(options), result(result), dim(shape.headDim) {}

  void allocate() {
    int64_t tiles = scaleTileBases(shape.cuSeqlens).back();
    int64_t queries = shape.tokens() * shape.heads;
    int64_t keys = shape.tokens() * shape.kvHeads;
    result.dO.payload.resize(queries * dim);
    for (auto *atoms : {&result.dO.scales, &result.foldedScales,
                        &result.blockScales, &result.queryBlockScales})
      atoms->assign(tiles * shape.heads * atomBytes, e8m0One);
    for (auto *atoms : {&result.foldedValueScales, &result.keyBlockScales})
      atoms->assign(tiles * shape.kvHeads * atomBytes, e8m0One);
    result.queryTileScales.resize(tiles * shape.heads);
    result.keyTileScales.resize(tiles * shape.kvHeads);
    for (auto *vector : {&result.r, &result.bias, &result.biasHat,
                         &result.dPast, &result.dPastHat, &result.dDiagonal,
                         &result.dDiagonalHat, &result.rHat})
      vector->resize(queries);
    result.keyFactors.resize(keys);
    result.diagonalKeyFactors.resize(keys);
  }

  /// The queries of one tile and head.
  void prepareQueries(const WorkItem &item) {
    RowsOf rows = {item.begin + item.firstRow(), shape.heads, item.head, dim};
    int64_t scaleTile = item.scaleBase + item.tile, count = item.rows();
    const uint8_t *queryAtom =
        atomOf(quantized.q.scales, scaleTile, shape.heads, item.head);
    int64_t atom = (scaleTile * shape.heads + item.head) * atomBytes;

    uint8_t tileByte = largestByte(queryAtom, 0, count);
    result.queryTileScales[scaleTile * shape.heads + item.head] = tileByte;
    quantizeGradient(item, rows, &result.dO.scales[atom]);
    for (int64_t block = 0; block * blockSize < count; ++block) {
      int64_t end = std::min(count, (block + 1) * blockSize);
      uint8_t blockByte =
          largestByte(&result.dO.scales[atom], block * blockSize, end);
      BlockScale both = blockScale(int(blockByte) + tileByte - e8m0One,
                                   blockByte == e8m0NaN || tileByte == e8m0NaN);
      for (int64_t c = 0; c < dim; ++c) {
        result.blockScales[atom + off128x4(c, block)] = blockByte;
        result.queryBlockScales[atom + off128x4(c, block)] = both.byte;
      }
      for (int64_t r = block * blockSize; r < end; ++r) {
        uint8_t eO = result.dO.scales[atom + off128x4(r, 0)];
        uint8_t eQ = queryAtom[off128x4(r, 0)];
        uint8_t folded = both.byte == e8m0NaN
                             ? e8m0NaN
                             : addToByte(eQ, e8m0One - tileByte + both.left);
        for (int64_t j = 0; j < dim / blockSize; ++j)
          result.foldedScales[atom + off128x4(r, j)] = folded;
        finishQuery(rows.offset(r) / dim, rows.offset(r), eO, eQ, tileByte,
                    both);
        int64_t row = rows.offset(r) / dim;
        // A row whose weights all vanished has none in the backward either.
        bool none = forward.l[row] == 0;
        result.bias[row] = none ? -infinity : weightShift - forward.m[row];
        float shift = blockByte == e8m0NaN ? floatOf(0x7FC00000u)
                                           : float(8 + eO - blockByte);
        result.biasHat[row] = none ? -infinity : shift - forward.m[row];
      }
    }
  }

  /// The keys of one tile and kv head.
  void prepareKeys(int64_t begin, int64_t scaleTile, int64_t count,
                   int64_t kvHead) {
    const uint8_t *keyAtom =
        atomOf(quantized.k.scales, scaleTile, shape.kvHeads, kvHead);
    const uint8_t *valueAtom =
        atomOf(quantized.v.scalesAlongCols, scaleTile, shape.kvHeads, kvHead);
    uint8_t *foldedAtom = const_cast<uint8_t *>(
        atomOf(result.foldedValueScales, scaleTile, shape.kvHeads, kvHead));
    uint8_t tileByte = largestByte(keyAtom, 0, count);
    result.keyTileScales[scaleTile * shape.kvHeads + kvHead] = tileByte;
    BlockScale scale = blockScale(tileByte, tileByte == e8m0NaN);
    uint8_t *blockAtom = const_cast<uint8_t *>(
        atomOf(result.keyBlockScales, scaleTile, shape.kvHeads, kvHead));
    for (int64_t block = 0; block * blockSize < count; ++block)
      for (int64_t c = 0; c < dim; ++c)
        blockAtom[off128x4(c, block)] = scale.byte;
    for (int64_t j = 0; j < count; ++j) {
      uint8_t eK = keyAtom[off128x4(j, 0)];
      bool isNaN = tileByte == e8m0NaN;
      for (int64_t c = 0; c < dim / blockSize; ++c)
        foldedAtom[off128x4(j, c)] =
            isNaN ? e8m0NaN
                  : addToByte(valueAtom[off128x4(j, c)],
                              eK - tileByte + scale.left);
      int64_t row = (begin + j) * shape.kvHeads + kvHead;
      result.keyFactors[row] =
          isNaN ? floatOf(0x7FC00000u)
                : std::ldexp(1.0f, int(eK) - tileByte + scale.left);
      result.diagonalKeyFactors[row] = e8m0ToFloat(eK);
    }
  }

private:
  /// A scale byte that takes the 2^-8 of the weights, and what it cannot hold.
  struct BlockScale {
    uint8_t byte;
    int left;
  };
  static BlockScale blockScale(int biased, bool isNaN) {
    int all = biased - 8, byte = std::clamp(all, 0, 254);
    return isNaN ? BlockScale{e8m0NaN, 0}
                 : BlockScale{uint8_t(byte), all - byte};
  }

  /// The largest byte of rows [begin, end); 255 if any is.
  static uint8_t largestByte(const uint8_t *atom, int64_t begin, int64_t end) {
    uint8_t largest = 0;
    for (int64_t r = begin; r < end; ++r)
      largest = std::max(largest, atom[off128x4(r, 0)]);
    return largest;
  }

  /// dO' = dO * r in fp32, its scale bytes and payload.
  void quantizeGradient(const WorkItem &item, const RowsOf &rows,
                        uint8_t *atom) {
    int64_t count = item.rows();
    std::vector<float> scaled(count * dim), maxima(count);
    for (int64_t i = 0; i < count; ++i) {
      int64_t row = rows.offset(i) / dim;
      float r = forward.l[row] == 0 ? 0.0f : 1.0f / forward.l[row];
      result.r[row] = r;
      bf16ToFloat(&dO[rows.offset(i)], &scaled[i * dim], size_t(dim));
      for (int64_t c = 0; c < dim; ++c)
        scaled[i * dim + c] *= r;
      maxima[i] = absMax(&scaled[i * dim], dim);
      if (!dLse.empty()) {
        float both[] = {maxima[i], dLse[row] * r * gradientShare};
        maxima[i] = absMax(both, 2);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      int64_t first = i / options.gradientBlock * options.gradientBlock;
      uint8_t byte =
          e8m0ScaleByte(absMax(&maxima[first],
                               std::min(options.gradientBlock, count - first)),
                        options.forward.scaleMode, 0);
      encodeE4M3(&scaled[i * dim], dim, byte,
                 &result.dO.payload[rows.offset(i)]);
      for (int64_t j = 0; j < dim / blockSize; ++j)
        atom[off128x4(i, j)] = byte;
    }
  }

  /// D' and what is folded into it.
  void finishQuery(int64_t row, int64_t offset, uint8_t eO, uint8_t eQ,
                   uint8_t tileByte, const BlockScale &block) {
    float payload[tileRows], gradient[tileRows];
    e4m3ToFloat(&result.dO.payload[offset], payload, size_t(dim));
    bf16ToFloat(&dO[offset], gradient, size_t(dim));
    // Products of a payload or a BF16 value with a BF16 value are exact.
    for (int64_t c = 0; c < dim; ++c) {
      payload[c] *= forward.o[offset + c];
      gradient[c] *= forward.o[offset + c];
    }
    float r = result.r[row];
    float kappa = options.correctedD ? forward.kappa[row] : 1.0f;
    float ofLse = dLse.empty() ? 0.0f : dLse[row] * r;
    float scale = e8m0ToFloat(eO), perScale = e8m0ToFloat(uint8_t(254 - eO));
    bool isNaN = block.byte == e8m0NaN;
    float past = kappa * sumRow(payload, dim) - ofLse * perScale;
    float diagonal = kappa * (sumRow(gradient, dim) * r) - ofLse;
    if (!options.correctedD)
      past = diagonal * perScale;
    result.dPast[row] = past * scale;
    result.dPastHat[row] =
        isNaN ? floatOf(0x7FC00000u)
              : past * std::ldexp(1.0f, int(eQ) - tileByte + block.left);
    float queryScale = e8m0ToFloat(eQ);
    if (options.tileRelativeDiagonal)
      queryScale = std::ldexp(1.0f, int(eQ) - tileByte);
    result.dDiagonal[row] = diagonal;
    result.dDiagonalHat[row] = diagonal * queryScale;
    result.rHat[row] = r * queryScale;
  }

  const QuantizedInputs &quantized;
  const AttentionShape &shape;
  const ForwardOutputs &forward;
  const std::vector<uint16_t> &dO;
  const std::vector<float> &dLse;
  const BackwardOptions &options;
  PreparedGradient &result;
  int64_t dim;
};

} // namespace

PreparedGradient reference::prepareBackward(const QuantizedInputs &quantized,
                                            const ForwardOutputs &forward,
                                            const std::vector<uint16_t> &dO,
                                            const std::vector<float> &dLse,
                                            const BackwardOptions &options) {
  PreparedGradient result;
  Preparation preparation(quantized, forward, dO, dLse, options, result);
  preparation.allocate();
  const AttentionShape &shape = quantized.shape;
  for (const WorkItem &item : workItems(shape))
    preparation.prepareQueries(item);
  for (const WorkItem &item : keyItems(shape))
    preparation.prepareKeys(item.begin + item.firstRow(),
                            item.scaleBase + item.tile, item.rows(),
                            item.head / (shape.heads / shape.kvHeads));
  return result;
}
