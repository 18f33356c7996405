//===- AttentionModel.cpp - The specification model of the forward --------===//
//
// What the forward kernel computes, step by step in the kernel's order
// (docs/numerics.md): one work item is a query tile of 128 rows of one head,
// its key tiles run downwards from the diagonal (or from the document's end).
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Attention.h"
#include "lib/Reference/Parallel.h"
#include "lib/Reference/ScoreOperand.h"
#include "lib/Reference/TileMath.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float ln2 = 0.6931471805599453f;
/// Weights are computed as 2^(s - m + 8), so that their E4M3 payload is they.
constexpr float weightShift = 8.0f;

/// One thread's buffers and the work on one query tile.
class ModelTile {
public:
  ModelTile(const QuantizedInputs &inputs, const ForwardOptions &options,
            ForwardOutputs &outputs)
      : inputs(inputs), shape(inputs.shape), options(options), outputs(outputs),
        dim(shape.headDim), c(scoreFactorOf(inputs, options)), queries(dim),
        keys(dim), values(tileRows * dim), scores(tileRows * tileRows),
        weights(tileRows * tileRows), products(tileRows * dim),
        queryScales(tileRows), keyScales(tileRows), acc(tileRows * dim),
        m(tileRows), l(tileRows), d(tileRows), alpha(tileRows) {}

  void run(const WorkItem &item) {
    rows = (item.rows() + 3) / 4 * 4;
    kvHead = item.head / (shape.heads / shape.kvHeads);
    RowsOf queryRows = {item.begin + item.firstRow(), shape.heads, item.head,
                        dim};
    loadScoreRows(inputs, ScoreSide::Queries, queryRows,
                  item.scaleBase + item.tile, item.rows(), queries,
                  queryScales);
    std::fill(acc.begin(), acc.end(), 0.0f);
    std::fill(m.begin(), m.end(), -infinity);
    std::fill(l.begin(), l.end(), 0.0f);
    std::fill(d.begin(), d.end(), 0.0f);
    KeyRange tiles = visibleTiles(options.mask, item);
    for (int64_t tile = tiles.end - 1; tile >= tiles.begin; --tile)
      addKeyTile(item, tile);
    store(item);
  }

private:
  void addKeyTile(const WorkItem &item, int64_t tile) {
    RowsOf keyRows = {item.begin + tile * tileRows, shape.kvHeads, kvHead, dim};
    int64_t count = std::min(tileRows, item.length - tile * tileRows);
    int64_t atomOffset =
        ((item.scaleBase + tile) * shape.kvHeads + kvHead) * atomBytes;
    bool diagonal = isCausal(options.mask) && tile == item.tile;
    bool inBf16 = options.bf16PvEverywhere || (diagonal && options.safeguard);

    // S = Q K^T: the sum of payload products is exact in double.
    loadScoreRows(inputs, ScoreSide::Keys, keyRows, item.scaleBase + tile,
                  count, keys, keyScales);
    multiplyTiles(queries.rows(), dim, keys.columns(), tileRows, scores.data(),
                  tileRows, rows, tileRows, dim);

    for (int64_t r = 0; r < rows; ++r) {
      KeyRange seen = {0, 0};
      if (r < item.rows())
        seen = visibleKeys(options.mask, item.firstRow() + r, item.length)
                   .inTile(tile);
      // Blocks count from the document's first token.
      weighRow(r, count, seen, inBf16, (item.firstRow() + r) / blockSize,
               tile * tileRows / blockSize);
    }

    if (inBf16)
      loadRows(keyRows.bf16(inputs.vBf16), count);
    else
      loadScaledValues(keyRows, count, atomOffset);
    multiplyTiles(weights.data(), tileRows, values.data(), dim, products.data(),
                  dim, rows, dim, count);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = r * dim; i < (r + 1) * dim; ++i)
        acc[i] = float(double(acc[i] * alpha[r]) + products[i]);
  }

  /// Softmax on one row of a tile: scores to weights, and the row's m, l, d
  /// and alpha. Sums use what PV uses on BF16 tiles, the unrounded weights on
  /// E4M3 tiles.
  void weighRow(int64_t r, int64_t count, KeyRange seen, bool inBf16,
                int64_t block, int64_t firstBlock) {
    float s[tileRows], x[tileRows] = {}, p[tileRows];
    for (int64_t j = 0; j < count; ++j)
      s[j] = float(scores[r * tileRows + j] * queryScales[r] * keyScales[j]);
    float rowMax = -infinity;
    for (int64_t j = seen.begin; j < seen.end; ++j)
      rowMax = std::fmax(rowMax, s[j]);
    float mOld = m[r];
    float mNew = std::fmax(mOld, std::ceil(rowMax * c));
    // A row that has seen no key keeps its zeros.
    alpha[r] = mNew == -infinity ? 1.0f : float(std::exp2(mOld - mNew));
    scaleShift(s, c, weightShift - mNew, x, count);
    for (int64_t j = 0; j < tileRows; ++j)
      x[j] = j >= seen.begin && j < seen.end ? x[j] : -infinity;
    exp2Row(x, p, options.exp2, block, firstBlock);

    float rounding = 0;
    if (inBf16) {
      // Every use of p in this tile sees the rounded value, so the term of
      // kappa is zero.
      for (float &value : p)
        value = roundToBF16(value);
      for (int64_t j = 0; j < tileRows; ++j)
        weights[r * tileRows + j] = p[j];
    } else {
      uint8_t payload[tileRows];
      float rounded[tileRows];
      floatToE4M3(p, payload, tileRows);
      e4m3ToFloat(payload, rounded, tileRows);
      for (int64_t j = 0; j < tileRows; ++j)
        weights[r * tileRows + j] = rounded[j];
      // The largest weight is that of the largest score.
      float pMax = 0;
      if (rowMax != -infinity)
        pMax =
            float(std::exp2(double(std::fma(rowMax, c, weightShift - mNew))));
      rounding = e4m3ToFloat(floatToE4M3(pMax)) - pMax;
    }
    m[r] = mNew;
    l[r] = std::fma(l[r], alpha[r], sumRow(p, tileRows));
    d[r] = std::fma(d[r], alpha[r], rounding);
  }

  /// V: \p loadRow(j, double *row) gives row j.
  template <typename LoadRow>
  void loadRows(LoadRow loadRow, int64_t count) {
    for (int64_t j = 0; j < count; ++j)
      loadRow(j, &values[j * dim]);
  }

  void loadScaledValues(const RowsOf &keyRows, int64_t count,
                        int64_t atomOffset) {
    if (!inputs.vOverride.empty())
      return loadRows(keyRows.values(inputs.vOverride), count);
    loadRows(keyRows.payload(inputs.v.payload), count);
    const uint8_t *atom = &inputs.v.scalesAlongRows[atomOffset];
    double scales[tileRows];
    for (int64_t block = 0; block * blockSize < count; ++block) {
      for (int64_t i = 0; i < dim; ++i)
        scales[i] = scaleOf(atom[off128x4(i, block)]);
      int64_t end = std::min(count, (block + 1) * blockSize);
      for (int64_t j = block * blockSize; j < end; ++j)
        for (int64_t i = 0; i < dim; ++i)
          values[j * dim + i] *= scales[i];
    }
  }

  void store(const WorkItem &item) {
    for (int64_t r = 0; r < item.rows(); ++r) {
      int64_t row =
          (item.begin + item.firstRow() + r) * shape.heads + item.head;
      bool empty = l[r] == 0;
      float inverse = 1.0f / l[r];
      for (int64_t i = 0; i < dim; ++i)
        outputs.o[row * dim + i] =
            empty ? 0.0f : roundToBF16(acc[r * dim + i] * inverse);
      float sum = l[r] * 0x1p-8f;
      float logSum = float(std::log2(double(sum)));
      outputs.m[row] = m[r];
      outputs.l[row] = sum;
      outputs.kappa[row] = empty ? 1.0f : l[r] / (l[r] + d[r]);
      outputs.lse[row] = empty ? -infinity : (m[r] + logSum) * ln2;
    }
  }

  const QuantizedInputs &inputs;
  const AttentionShape &shape;
  const ForwardOptions &options;
  ForwardOutputs &outputs;
  int64_t dim;
  float c; ///< from S to base-2 scores
  int64_t rows = 0, kvHead = 0;
  TileOperand queries, keys;
  std::vector<double> values, scores, weights, products;
  std::vector<double> queryScales, keyScales;
  std::vector<float> acc, m, l, d, alpha;
};

} // namespace

ForwardOutputs reference::attentionForwardModel(const QuantizedInputs &inputs,
                                                const ForwardOptions &options) {
  const AttentionShape &shape = inputs.shape;
  int64_t rows = shape.tokens() * shape.heads;
  ForwardOutputs outputs;
  outputs.o.resize(rows * shape.headDim);
  for (std::vector<float> *array :
       {&outputs.lse, &outputs.m, &outputs.l, &outputs.kappa})
    array->resize(rows);
  std::vector<WorkItem> items = workItems(shape);
  parallelItems(int64_t(items.size()), options.threads, [&] {
    return [&, tile = ModelTile(inputs, options, outputs)](
               int64_t index) mutable { tile.run(items[index]); };
  });
  return outputs;
}

ForwardOutputs reference::attentionForwardModel(const AttentionInputs &inputs,
                                                const ForwardOptions &options) {
  return attentionForwardModel(quantizeInputs(inputs, options), options);
}
