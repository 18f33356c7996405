//===- AttentionFp64.cpp - Attention in double ----------------------------===//
//
// softmax(softmaxScale Q K^T) V on packed documents, tile by tile with a
// running maximum, everything in double.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Attention.h"
#include "lib/Reference/Parallel.h"
#include "lib/Reference/TileMath.h"
#include "lib/Reference/TileWalk.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::reference;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// One thread's buffers and the work on one query tile.
class Fp64Tile {
public:
  Fp64Tile(const AttentionShape &shape, const float *q, const float *k,
           const float *v, const ForwardOptions &options,
           ForwardOutputsFp64 &outputs)
      : shape(shape), q(q), k(k), v(v), mask(options.mask),
        scale(double(softmaxScaleOf(options, shape.headDim)) *
              1.4426950408889634074),
        outputs(outputs), dim(shape.headDim), queries(tileRows * dim),
        keys(dim * tileRows), values(tileRows * dim),
        scores(tileRows * tileRows), products(tileRows * dim),
        sums(tileRows * dim), maxima(tileRows), norms(tileRows) {}

  void run(const WorkItem &item) {
    std::fill(queries.begin(), queries.end(), 0.0);
    for (int64_t r = 0; r < item.rows(); ++r)
      for (int64_t c = 0; c < dim; ++c)
        queries[r * dim + c] = q[rowOffset(item, r) + c];
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(maxima.begin(), maxima.end(), -infinity);
    std::fill(norms.begin(), norms.end(), 0.0);
    KeyRange tiles = visibleTiles(mask, item);
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile)
      addKeyTile(item, tile);
    store(item);
  }

private:
  int64_t rowOffset(const WorkItem &item, int64_t row) const {
    return ((item.begin + item.firstRow() + row) * shape.heads + item.head) *
           dim;
  }

  void addKeyTile(const WorkItem &item, int64_t tile) {
    int64_t count = std::min(tileRows, item.length - tile * tileRows);
    int64_t kvHead = item.head / (shape.heads / shape.kvHeads);
    for (int64_t j = 0; j < tileRows; ++j) {
      int64_t offset =
          ((item.begin + tile * tileRows + j) * shape.kvHeads + kvHead) * dim;
      for (int64_t c = 0; c < dim; ++c) {
        keys[c * tileRows + j] = j < count ? k[offset + c] : 0.0;
        values[j * dim + c] = j < count ? v[offset + c] : 0.0;
      }
    }
    int64_t rows = (item.rows() + 3) / 4 * 4;
    multiplyTiles(queries.data(), dim, keys.data(), tileRows, scores.data(),
                  tileRows, rows, tileRows, dim);
    for (int64_t r = 0; r < rows; ++r)
      weighRow(item, tile, r);
    multiplyTiles(scores.data(), tileRows, values.data(), dim, products.data(),
                  dim, rows, dim, count);
    for (int64_t i = 0; i < rows * dim; ++i)
      sums[i] += products[i];
  }

  /// Turns a row of scores into weights and rescales the row's sums.
  void weighRow(const WorkItem &item, int64_t tile, int64_t r) {
    double *row = &scores[r * tileRows];
    KeyRange seen = {0, 0};
    if (r < item.rows())
      seen = visibleKeys(mask, item.firstRow() + r, item.length).inTile(tile);
    double maximum = maxima[r];
    for (int64_t j = 0; j < tileRows; ++j) {
      bool visible = j >= seen.begin && j < seen.end;
      row[j] = visible ? row[j] * scale : -infinity;
      maximum = std::fmax(maximum, row[j]);
    }
    if (maximum == -infinity) // no visible key so far, or only NaN scores
      maximum = 0;
    double factor = std::exp2(maxima[r] - maximum);
    maxima[r] = maximum;
    for (int64_t j = 0; j < tileRows; ++j)
      row[j] -= maximum;
    exp2Array(row, row, tileRows);
    double norm = 0;
    for (int64_t j = 0; j < tileRows; ++j)
      norm += row[j];
    norms[r] = norms[r] * factor + norm;
    for (int64_t c = 0; c < dim; ++c)
      sums[r * dim + c] *= factor;
  }

  void store(const WorkItem &item) {
    for (int64_t r = 0; r < item.rows(); ++r) {
      int64_t offset = rowOffset(item, r);
      bool empty = norms[r] == 0;
      for (int64_t c = 0; c < dim; ++c)
        outputs.o[offset + c] = empty ? 0.0 : sums[r * dim + c] / norms[r];
      outputs.lse[offset / dim] =
          empty ? -infinity
                : (maxima[r] + std::log2(norms[r])) * 0.69314718055994530942;
    }
  }

  const AttentionShape &shape;
  const float *q, *k, *v;
  MaskOptions mask;
  double scale;
  ForwardOutputsFp64 &outputs;
  int64_t dim;
  std::vector<double> queries, keys, values, scores, products, sums, maxima,
      norms;
};

} // namespace

ForwardOutputsFp64 reference::attentionFp64(const AttentionShape &shape,
                                            const std::vector<float> &q,
                                            const std::vector<float> &k,
                                            const std::vector<float> &v,
                                            const ForwardOptions &options) {
  ForwardOutputsFp64 outputs;
  outputs.o.resize(shape.tokens() * shape.heads * shape.headDim);
  outputs.lse.resize(shape.tokens() * shape.heads);
  std::vector<WorkItem> items = workItems(shape);
  parallelItems(int64_t(items.size()), options.threads, [&] {
    return [&, tile = Fp64Tile(shape, q.data(), k.data(), v.data(), options,
                               outputs)](int64_t index) mutable {
      tile.run(items[index]);
    };
  });
  return outputs;
}

ForwardOutputsFp64 reference::attentionFp64(const AttentionInputs &inputs,
                                            const ForwardOptions &options) {
  auto widen = [](const std::vector<uint16_t> &bits) {
    std::vector<float> values(bits.size());
    numerics::bf16ToFloat(bits.data(), values.data(), bits.size());
    return values;
  };
  return attentionFp64(inputs.shape, widen(inputs.q), widen(inputs.k),
                       widen(inputs.v), options);
}
