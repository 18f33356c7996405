//===- Meaning.cpp - Which results a comparison may judge -----------------===//
//
// See Meaning.h. Lengths of vectors bound every sum of products.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Meaning.h"
#include "lib/Reference/ScoreOperand.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

/// From here on a sum, or what is computed from it on the way, may be infinite.
/// Weights are carried as 256 P.
constexpr double largestValue = 0x1p126, weightUnit = 0x1p8;
/// Half a step of a score changes a weight by about this share of it. From
/// smallestLargeScore on that counts beside the limits of comparisons.
constexpr double scoreStep = 0x1p-24, smallestLargeScore = 0x1p10;
constexpr float leftOut = std::numeric_limits<float>::infinity();

/// Euclidean length; 0 if an element is NaN or infinite.
double lengthOf(const double *row, int64_t dim) {
  double squares = 0;
  for (int64_t c = 0; c < dim; ++c)
    squares += row[c] * row[c];
  return std::isfinite(squares) ? std::sqrt(squares) : 0;
}

/// Lengths of the rows of a BF16 tensor, [rows].
std::vector<double> lengthsOf(const std::vector<uint16_t> &tensor,
                              int64_t dim) {
  std::vector<double> lengths(tensor.size() / size_t(dim));
  std::vector<float> row(static_cast<size_t>(dim));
  for (size_t i = 0; i < lengths.size(); ++i) {
    bf16ToFloat(&tensor[i * size_t(dim)], row.data(), size_t(dim));
    std::vector<double> wide(row.begin(), row.end());
    lengths[i] = lengthOf(wide.data(), dim);
  }
  return lengths;
}

/// Lengths of one operand of S, [tokens, heads of the operand].
std::vector<double> scoreLengths(const QuantizedInputs &inputs,
                                 ScoreSide side) {
  const AttentionShape &shape = inputs.shape;
  int64_t dim = shape.headDim;
  int64_t heads = side == ScoreSide::Keys ? shape.kvHeads : shape.heads;
  std::vector<double> lengths(size_t(shape.tokens() * heads));
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  TileOperand operand(dim);
  std::vector<double> scales(tileRows);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t first = 0; first < shape.length(d); first += tileRows)
      for (int64_t head = 0; head < heads; ++head) {
        int64_t count = std::min(tileRows, shape.length(d) - first);
        RowsOf rows = {shape.cuSeqlens[d] + first, heads, head, dim};
        loadScoreRows(inputs, side, rows, bases[d] + first / tileRows, count,
                      operand, scales);
        for (int64_t r = 0; r < count; ++r) {
          double length =
              lengthOf(operand.rows() + r * dim, dim) * std::abs(scales[r]);
          lengths[size_t(rows.offset(r) / dim)] =
              std::isfinite(length) ? length : 0;
        }
      }
  return lengths;
}

/// What the scales of Q or K, times the largest payload, contribute to dS:
/// [tokens, heads].
std::vector<double> largestOperands(const TokenLocalTensor &tensor,
                                    const AttentionShape &shape,
                                    int64_t heads) {
  std::vector<double> largest(size_t(shape.tokens() * heads));
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t i = 0; i < shape.length(d); ++i)
      for (int64_t head = 0; head < heads; ++head) {
        const uint8_t *atom =
            atomOf(tensor.scales, bases[d] + i / tileRows, heads, head);
        double scale = scaleOf(atom[off128x4(i % tileRows, 0)]);
        largest[size_t((shape.cuSeqlens[d] + i) * heads + head)] =
            std::isnan(scale) ? 0 : 448 * scale;
      }
  return largest;
}

/// Largest of one head's keys in any range of a document.
class LargestKey {
public:
  LargestKey(const std::vector<double> &keys, const AttentionShape &shape,
             int64_t document, int64_t kvHead) {
    for (int64_t j = 0; j < shape.length(document); ++j) {
      own.push_back(keys[size_t(
          (shape.cuSeqlens[document] + j) * shape.kvHeads + kvHead)]);
      upTo.push_back(std::max(j ? upTo.back() : 0.0, own.back()));
    }
  }

  double in(KeyRange range) const {
    if (range.empty())
      return 0;
    if (range.begin == 0)
      return upTo[size_t(range.end - 1)];
    return *std::max_element(own.begin() + range.begin,
                             own.begin() + range.end);
  }

private:
  std::vector<double> own, upTo;
};

/// Calls \p body(query row, keys that it sees, document, kv head) for every
/// query, head by head.
template <typename Body>
void forEachQuery(const AttentionShape &shape, const MaskOptions &mask,
                  int64_t document, int64_t kvHead, Body body) {
  int64_t group = shape.heads / shape.kvHeads;
  for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
    for (int64_t i = 0; i < shape.length(document); ++i)
      body(size_t((shape.cuSeqlens[document] + i) * shape.heads + head),
           visibleKeys(mask, i, shape.length(document)));
}

} // namespace

MeaningfulRows reference::meaningfulRows(const QuantizedInputs &quantized,
                                         const ForwardOptions &options) {
  const AttentionShape &shape = quantized.shape;
  MeaningfulRows rows;
  rows.outputs.assign(size_t(shape.tokens() * shape.heads), 0.0f);
  double c = scoreFactorOf(quantized, options);
  std::vector<double> queries = scoreLengths(quantized, ScoreSide::Queries);
  std::vector<double> keys = scoreLengths(quantized, ScoreSide::Keys);
  std::vector<double> values = lengthsOf(quantized.vBf16, shape.headDim);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t kvHead = 0; kvHead < shape.kvHeads; ++kvHead) {
      LargestKey key(keys, shape, d, kvHead), value(values, shape, d, kvHead);
      forEachQuery(shape, options.mask, d, kvHead,
                   [&](size_t row, KeyRange seen) {
                     double count = double(seen.end - seen.begin);
                     double score = queries[row] * key.in(seen)*c;
                     if (score > largestScore ||
                         weightUnit * count * value.in(seen) > largestValue)
                       rows.outputs[row] = leftOut;
                     else if (score > smallestLargeScore)
                       rows.outputs[row] = float(score * scoreStep);
                   });
    }
  return rows;
}

void reference::addMeaningfulGradients(const QuantizedInputs &quantized,
                                       const ForwardOutputs &forward,
                                       const std::vector<uint16_t> &dO,
                                       const std::vector<float> &dLse,
                                       const ForwardOptions &options,
                                       MeaningfulRows &rows) {
  const AttentionShape &shape = quantized.shape;
  rows.queries = rows.outputs;
  rows.keys.assign(size_t(shape.tokens() * shape.kvHeads), 0.0f);
  std::vector<double> gradients = lengthsOf(dO, shape.headDim);
  std::vector<double> values = lengthsOf(quantized.vBf16, shape.headDim);
  // Exponents of Q and K are folded into dS.
  std::vector<double> queries =
      largestOperands(quantized.q, shape, shape.heads);
  std::vector<double> keys = largestOperands(quantized.k, shape, shape.kvHeads);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t kvHead = 0; kvHead < shape.kvHeads; ++kvHead) {
      LargestKey key(keys, shape, d, kvHead), value(values, shape, d, kvHead);
      forEachQuery(
          shape, options.mask, d, kvHead, [&](size_t row, KeyRange seen) {
            double r = forward.l[row] == 0 ? 0 : 1.0 / forward.l[row];
            double upstream = gradients[row] * r;
            double dS = upstream * value.in(seen);
            if (!dLse.empty())
              dS += std::abs(double(dLse[row])) * r;
            double folded = std::max({1.0, queries[row], key.in(seen)});
            double count = double(shape.length(d));
            // Comparisons this way round leave NaN, which is defined, in.
            if (weightUnit * count * std::max(dS * folded, upstream) >
                largestValue)
              rows.queries[row] = leftOut;
            for (int64_t j = seen.begin; rows.queries[row] > 0 && j < seen.end;
                 ++j) {
              float &allowed = rows.keys[size_t(
                  (shape.cuSeqlens[d] + j) * shape.kvHeads + kvHead)];
              allowed = std::max(allowed, rows.queries[row]);
            }
          });
    }
}

GradientSizes reference::gradientSizes(const BackwardInputs &inputs,
                                       const ForwardOptions &options) {
  const AttentionShape &shape = inputs.forward.shape;
  int64_t dim = shape.headDim;
  std::vector<double> gradients = lengthsOf(inputs.dO, dim),
                      queries = lengthsOf(inputs.forward.q, dim),
                      keys = lengthsOf(inputs.forward.k, dim),
                      values = lengthsOf(inputs.forward.v, dim);
  double scale = softmaxScaleOf(options, dim);
  std::vector<float> q(inputs.forward.q.size()), k(inputs.forward.k.size());
  bf16ToFloat(inputs.forward.q.data(), q.data(), q.size());
  bf16ToFloat(inputs.forward.k.data(), k.data(), k.size());
  GradientSizes sizes;
  sizes.queries.assign(queries.size(), 0.0);
  sizes.keys.assign(keys.size(), 0.0);
  std::vector<double> weights;
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t kvHead = 0; kvHead < shape.kvHeads; ++kvHead)
      forEachQuery(
          shape, options.mask, d, kvHead, [&](size_t row, KeyRange seen) {
            auto keyRow = [&](int64_t j) {
              return size_t((shape.cuSeqlens[d] + j) * shape.kvHeads + kvHead);
            };
            double largest = -std::numeric_limits<double>::infinity(), sum = 0;
            weights.clear();
            for (int64_t j = seen.begin; j < seen.end; ++j) {
              double s = 0;
              for (int64_t c = 0; c < dim; ++c)
                s += double(q[row * size_t(dim) + size_t(c)]) *
                     double(k[keyRow(j) * size_t(dim) + size_t(c)]);
              weights.push_back(s * scale);
              largest = std::fmax(largest, s * scale);
            }
            for (double &weight : weights)
              sum += weight = std::exp(weight - largest);
            if (!(sum >= 1) || !std::isfinite(sum))
              return;
            for (int64_t j = seen.begin; j < seen.end; ++j) {
              double dS = weights[size_t(j - seen.begin)] / sum * scale *
                          gradients[row] * values[keyRow(j)];
              sizes.queries[row] += dS * keys[keyRow(j)];
              sizes.keys[keyRow(j)] += dS * queries[row];
            }
          });
  return sizes;
}
