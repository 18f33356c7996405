//===- BackwardPlain.cpp - The backward in double and in BF16 -------------===//
//
// The textbook backward, tile by tile, with the roundings of a policy: none
// (the fp64 reference), or those of a flash kernel with BF16 operands and fp32
// sums. Query tiles first (m, l, O, D, dQ), then key tiles (dK, dV).
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Backward.h"
#include "lib/Reference/Parallel.h"
#include "lib/Reference/TileMath.h"
#include "lib/Reference/TileOperand.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// No rounding.
struct Exact {
  static double sum(double x) { return x; }
  static double operand(double x) { return x; }
};

/// Sums in fp32, operands of products in BF16.
struct Bf16Flash {
  static double sum(double x) { return double(float(x)); }
  static double operand(double x) { return double(roundToBF16(float(x))); }
};

struct PlainInputs {
  const AttentionShape &shape;
  const std::vector<float> &q, &k, &v, &dO, &dLse;
  MaskOptions mask;
  double softmaxScale;

  /// A score in base 2.
  template <typename Rounding>
  double score(double product) const {
    constexpr double log2e = 1.4426950408889634074;
    return Rounding::sum(Rounding::sum(product) * softmaxScale * log2e);
  }
  RowsOf queries(const WorkItem &item, int64_t tile) const {
    return {item.begin + tile * tileRows, shape.heads, item.head,
            shape.headDim};
  }
  RowsOf keys(const WorkItem &item, int64_t tile) const {
    return {item.begin + tile * tileRows, shape.kvHeads,
            item.head / (shape.heads / shape.kvHeads), shape.headDim};
  }
};

/// Per-query results that key tiles need.
struct RowResults {
  std::vector<double> lse2, d; ///< log2 of the softmax's sum; D
};

/// Tokens of the document in a tile.
int64_t tokensIn(const WorkItem &item, int64_t tile) {
  return std::min(tileRows, item.length - tile * tileRows);
}

/// to[rows x dim] += a[rows x 128] b[128 x dim].
template <typename Rounding>
void addProduct(const std::vector<double> &a, const TileOperand &b,
                int64_t rows, int64_t dim, std::vector<double> &products,
                std::vector<double> &to) {
  multiplyTiles(a.data(), tileRows, b.rows(), dim, products.data(), dim, rows,
                dim, tileRows);
  for (int64_t i = 0; i < rows * dim; ++i)
    to[i] = Rounding::sum(to[i] + products[i]);
}

/// m, l, O, D and dQ of a query tile.
template <typename Rounding>
class QueryTile {
public:
  QueryTile(const PlainInputs &inputs, RowResults &results,
            std::vector<double> &dq)
      : inputs(inputs), results(results), dq(dq), dim(inputs.shape.headDim),
        q(dim), k(dim), v(dim), dO(dim), o(tileRows * dim),
        products(tileRows * dim), gradients(tileRows * dim),
        tileScores(tileRows * tileRows), l(tileRows) {}

  void run(const WorkItem &item) {
    RowsOf rows = inputs.queries(item, item.tile);
    padded = (item.rows() + 3) / 4 * 4;
    q.load(item.rows(), rows.values(inputs.q));
    dO.load(item.rows(), rows.values(inputs.dO));
    tiles = visibleTiles(inputs.mask, item);
    computeScores(item);
    for (int64_t r = 0; r < item.rows(); ++r)
      normalizeRow(r, rows.offset(r) / dim);
    computeO(item, rows);
    computeDq(item, rows);
  }

private:
  /// All scores of the query tile, base 2, -infinity where masked.
  void computeScores(const WorkItem &item) {
    scores.assign(std::max<int64_t>(tiles.end - tiles.begin, 0) * tileRows *
                      tileRows,
                  -infinity);
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
      RowsOf keyRows = inputs.keys(item, t);
      k.load(tokensIn(item, t), keyRows.values(inputs.k));
      multiplyTiles(q.rows(), dim, k.columns(), tileRows, tileScores.data(),
                    tileRows, padded, tileRows, dim);
      for (int64_t r = 0; r < item.rows(); ++r) {
        KeyRange seen =
            visibleKeys(inputs.mask, item.firstRow() + r, item.length)
                .inTile(t);
        for (int64_t j = seen.begin; j < seen.end; ++j)
          score(t, r)[j] = inputs.score<Rounding>(tileScores[r * tileRows + j]);
      }
    }
  }

  /// Scores of a row to weights against the row maximum; l and LSE.
  void normalizeRow(int64_t r, int64_t row) {
    double maximum = -infinity;
    for (int64_t t = tiles.begin; t < tiles.end; ++t)
      for (int64_t j = 0; j < tileRows; ++j)
        maximum = std::fmax(maximum, score(t, r)[j]);
    if (maximum == -infinity) // no visible key
      maximum = 0;
    l[r] = 0;
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
      double *weights = score(t, r), sum = 0;
      for (int64_t j = 0; j < tileRows; ++j)
        weights[j] -= maximum;
      exp2Array(weights, weights, tileRows);
      for (int64_t j = 0; j < tileRows; ++j)
        sum += weights[j];
      l[r] = Rounding::sum(l[r] + sum);
    }
    results.lse2[row] =
        l[r] == 0 ? 0.0 : Rounding::sum(maximum + std::log2(l[r]));
  }

  /// O, and D = rowsum(dO O) - dLSE.
  void computeO(const WorkItem &item, const RowsOf &rows) {
    std::fill(o.begin(), o.end(), 0.0);
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
      RowsOf keyRows = inputs.keys(item, t);
      v.load(tokensIn(item, t), keyRows.values(inputs.v));
      for (int64_t i = 0; i < item.rows() * tileRows; ++i)
        tileScores[i] = Rounding::operand(score(t, 0)[i]);
      addProduct<Rounding>(tileScores, v, padded, dim, products, o);
    }
    for (int64_t r = 0; r < item.rows(); ++r) {
      int64_t row = rows.offset(r) / dim;
      double sum = 0;
      for (int64_t c = 0; c < dim; ++c) {
        double value = o[r * dim + c];
        value = l[r] == 0 ? 0.0 : Rounding::operand(value / l[r]);
        sum += dO.rows()[r * dim + c] * value;
      }
      double dLse = inputs.dLse.empty() ? 0.0 : double(inputs.dLse[row]);
      results.d[row] = Rounding::sum(sum) - dLse;
    }
  }

  void computeDq(const WorkItem &item, const RowsOf &rows) {
    std::fill(gradients.begin(), gradients.end(), 0.0);
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
      RowsOf keyRows = inputs.keys(item, t);
      k.load(tokensIn(item, t), keyRows.values(inputs.k));
      v.load(tokensIn(item, t), keyRows.values(inputs.v));
      multiplyTiles(dO.rows(), dim, v.columns(), tileRows, tileScores.data(),
                    tileRows, padded, tileRows, dim);
      for (int64_t r = 0; r < item.rows(); ++r) {
        double d = results.d[rows.offset(r) / dim];
        for (int64_t j = 0; j < tileRows; ++j) {
          double weight = score(t, r)[j];
          double &value = tileScores[r * tileRows + j];
          // A select: dP of a masked key may be NaN.
          value =
              weight == 0
                  ? 0.0
                  : Rounding::operand(Rounding::sum(weight / l[r]) *
                                      Rounding::sum(Rounding::sum(value) - d));
        }
      }
      addProduct<Rounding>(tileScores, k, padded, dim, products, gradients);
    }
    for (int64_t r = 0; r < item.rows(); ++r)
      for (int64_t c = 0; c < dim; ++c)
        dq[rows.offset(r) + c] =
            Rounding::operand(gradients[r * dim + c] * inputs.softmaxScale);
  }

  /// A row of a key tile's scores, later its weights.
  double *score(int64_t tile, int64_t row) {
    return &scores[((tile - tiles.begin) * tileRows + row) * tileRows];
  }

  const PlainInputs &inputs;
  RowResults &results;
  std::vector<double> &dq;
  int64_t dim;
  TileOperand q, k, v, dO;
  int64_t padded = 0; ///< rows, a multiple of 4
  KeyRange tiles = {0, 0};
  std::vector<double> o, products, gradients, tileScores, scores, l;
};

/// dK and dV of a key tile (an item's head is the first of its kv head).
template <typename Rounding>
class KeyTile {
public:
  KeyTile(const PlainInputs &inputs, const RowResults &results,
          std::vector<double> &dk, std::vector<double> &dv)
      : inputs(inputs), results(results), dk(dk), dv(dv),
        dim(inputs.shape.headDim), q(dim), k(dim), v(dim), dO(dim),
        scores(tileRows * tileRows), dP(tileRows * tileRows),
        products(tileRows * dim), dkSums(tileRows * dim),
        dvSums(tileRows * dim) {}

  void run(WorkItem item) {
    RowsOf keyRows = inputs.keys(item, item.tile);
    int64_t keyTile = item.tile, keys = item.rows(),
            group = inputs.shape.heads / inputs.shape.kvHeads;
    k.load(keys, keyRows.values(inputs.k));
    v.load(keys, keyRows.values(inputs.v));
    std::fill(dkSums.begin(), dkSums.end(), 0.0);
    std::fill(dvSums.begin(), dvSums.end(), 0.0);
    int64_t first = item.head;
    for (item.head = first; item.head < first + group; ++item.head)
      for (item.tile = 0; item.firstRow() < item.length; ++item.tile) {
        KeyRange tiles = visibleTiles(inputs.mask, item);
        if (keyTile >= tiles.begin && keyTile < tiles.end)
          addQueryTile(item, keyTile, (keys + 3) / 4 * 4);
      }
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t c = 0; c < dim; ++c) {
        dk[keyRows.offset(j) + c] =
            Rounding::operand(dkSums[j * dim + c] * inputs.softmaxScale);
        dv[keyRows.offset(j) + c] = Rounding::operand(dvSums[j * dim + c]);
      }
  }

private:
  void addQueryTile(const WorkItem &item, int64_t keyTile, int64_t padded) {
    RowsOf rows = inputs.queries(item, item.tile);
    q.load(item.rows(), rows.values(inputs.q));
    dO.load(item.rows(), rows.values(inputs.dO));
    multiplyTiles(k.rows(), dim, q.columns(), tileRows, scores.data(), tileRows,
                  padded, tileRows, dim);
    multiplyTiles(v.rows(), dim, dO.columns(), tileRows, dP.data(), tileRows,
                  padded, tileRows, dim);
    double lse2[tileRows], d[tileRows];
    KeyRange seen[tileRows];
    for (int64_t i = 0; i < tileRows; ++i) {
      bool inside = i < item.rows();
      int64_t row = inside ? rows.offset(i) / dim : 0;
      lse2[i] = inside ? results.lse2[row] : 0.0;
      d[i] = inside ? results.d[row] : 0.0;
      seen[i] = inside
                    ? visibleKeys(inputs.mask, item.firstRow() + i, item.length)
                          .inTile(keyTile)
                    : KeyRange{0, 0};
    }
    for (int64_t j = 0; j < padded; ++j) {
      double *s = &scores[j * tileRows], *gradient = &dP[j * tileRows];
      for (int64_t i = 0; i < tileRows; ++i)
        s[i] = j >= seen[i].begin && j < seen[i].end
                   ? Rounding::sum(inputs.score<Rounding>(s[i]) - lse2[i])
                   : -infinity;
      exp2Array(s, s, tileRows);
      for (int64_t i = 0; i < tileRows; ++i) {
        double p = Rounding::sum(s[i]);
        gradient[i] =
            j >= seen[i].begin && j < seen[i].end
                ? Rounding::operand(
                      p * Rounding::sum(Rounding::sum(gradient[i]) - d[i]))
                : 0.0;
        s[i] = Rounding::operand(p);
      }
    }
    addProduct<Rounding>(scores, dO, padded, dim, products, dvSums);
    addProduct<Rounding>(dP, q, padded, dim, products, dkSums);
  }

  const PlainInputs &inputs;
  const RowResults &results;
  std::vector<double> &dk, &dv;
  int64_t dim;
  TileOperand q, k, v, dO;
  std::vector<double> scores, dP, products, dkSums, dvSums;
};

template <typename Rounding>
GradientsFp64 plainBackward(const PlainInputs &inputs, unsigned threads) {
  const AttentionShape &shape = inputs.shape;
  GradientsFp64 gradients;
  gradients.dq.resize(shape.tokens() * shape.heads * shape.headDim);
  gradients.dk.resize(shape.tokens() * shape.kvHeads * shape.headDim);
  gradients.dv.resize(gradients.dk.size());
  RowResults results;
  results.lse2.resize(shape.tokens() * shape.heads);
  results.d.resize(shape.tokens() * shape.heads);
  std::vector<WorkItem> queries = workItems(shape);
  parallelItems(int64_t(queries.size()), threads, [&] {
    return [&, tile = QueryTile<Rounding>(inputs, results, gradients.dq)](
               int64_t index) mutable { tile.run(queries[index]); };
  });
  std::vector<WorkItem> keys = keyItems(shape);
  parallelItems(int64_t(keys.size()), threads, [&] {
    return [&, tile = KeyTile<Rounding>(inputs, results, gradients.dk,
                                        gradients.dv)](int64_t index) mutable {
      tile.run(keys[index]);
    };
  });
  return gradients;
}

std::vector<float> widen(const std::vector<uint16_t> &bits) {
  std::vector<float> values(bits.size());
  bf16ToFloat(bits.data(), values.data(), bits.size());
  return values;
}

std::vector<float> narrow(const std::vector<double> &values) {
  return {values.begin(), values.end()};
}

} // namespace

GradientsFp64 reference::attentionBackwardFp64(const AttentionShape &shape,
                                               const std::vector<float> &q,
                                               const std::vector<float> &k,
                                               const std::vector<float> &v,
                                               const std::vector<float> &dO,
                                               const std::vector<float> &dLse,
                                               const ForwardOptions &options) {
  return plainBackward<Exact>({shape, q, k, v, dO, dLse, options.mask,
                               double(softmaxScaleOf(options, shape.headDim))},
                              options.threads);
}

GradientsFp64 reference::attentionBackwardFp64(const BackwardInputs &inputs,
                                               const ForwardOptions &options) {
  const AttentionInputs &forward = inputs.forward;
  return attentionBackwardFp64(forward.shape, widen(forward.q),
                               widen(forward.k), widen(forward.v),
                               widen(inputs.dO), inputs.dLse, options);
}

Gradients reference::flashBackwardBf16(const AttentionShape &shape,
                                       const std::vector<float> &q,
                                       const std::vector<float> &k,
                                       const std::vector<float> &v,
                                       const std::vector<float> &dO,
                                       const std::vector<float> &dLse,
                                       const ForwardOptions &options) {
  GradientsFp64 wide =
      plainBackward<Bf16Flash>({shape, q, k, v, dO, dLse, options.mask,
                                double(softmaxScaleOf(options, shape.headDim))},
                               options.threads);
  return {narrow(wide.dq), narrow(wide.dk), narrow(wide.dv)};
}
