//===- BackwardModel.cpp - The specification model of the backward --------===//
//
// What attention_bwd_dq and attention_bwd_dkdv compute, step by step
// (docs/numerics.md). Products of payloads are summed in double; scale bytes
// enter the way the tensor core applies them.
//
//===----------------------------------------------------------------------===//

#include "lib/Reference/BackwardTiles.h"
#include "lib/Reference/Parallel.h"
#include "lib/Reference/TileMath.h"

#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
/// Weights are computed as 2^(s - m + 8), as in the forward.
constexpr float weightShift = 8.0f;
constexpr float weightUnit = 0x1p-8f;

/// acc[i] += products[i], rounded to float once.
void accumulate(std::vector<float> &acc, const std::vector<double> &products,
                int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    acc[i] = float(double(acc[i]) + products[i]);
}

/// p[i] = 2^x[i] where counted[i], else 0; \p row is the row's position in the
/// document, \p tile the tile that its columns are.
void weightsOf(float *x, const bool *counted, Exp2Share share,
               const BackwardOptions &options, int64_t row, int64_t tile,
               float *p) {
  for (int64_t i = 0; i < tileRows; ++i)
    x[i] = counted[i] ? x[i] : -infinity;
  exp2Row(x, p, share, row / blockSize,
          tile * tileRows / blockSize + options.exp2Offset);
}

/// values[i] = 0 where not seen[i]: a select, whatever the value is.
void mask(const bool *seen, float *values) {
  for (int64_t i = 0; i < tileRows; ++i)
    values[i] = seen[i] ? values[i] : 0.0f;
}

} // namespace

DynamicRow reference::dynamicScales(const float *values) {
  DynamicRow row;
  for (int64_t block = 0; block < tileRows / blockSize; ++block)
    row.bytes[block] = e8m0ScaleByte(
        absMax(values + block * blockSize, blockSize), ScaleMode::RoundUp, 0);
  return row;
}

void reference::dynamicPayload(const float *values, const DynamicRow &row,
                               double *payload) {
  uint8_t codes[tileRows];
  float rounded[tileRows];
  for (int64_t block = 0; block < tileRows / blockSize; ++block)
    encodeE4M3(values + block * blockSize, blockSize, row.bytes[block],
               codes + block * blockSize);
  e4m3ToFloat(codes, rounded, tileRows);
  std::copy_n(rounded, tileRows, payload);
}

/// payload[i] *= 2^(byte - 127) of its block.
static void applyScales(const DynamicRow &row, double *payload) {
  for (int64_t i = 0; i < tileRows; ++i)
    payload[i] *= scaleOf(row.bytes[i / blockSize]);
}

void reference::storeGradient(const float *sums, int64_t dim,
                              const ForwardOptions &options, float *to) {
  float row[tileRows];
  std::copy_n(sums, dim, row);
  if (options.rotate)
    unrotateToken(row, dim);
  float scale = softmaxScaleOf(options, dim);
  for (int64_t i = 0; i < dim; ++i)
    to[i] = roundToBF16(row[i] * scale);
}

//===----------------------------------------------------------------------===//
// dQ: queries are rows, the loop runs over key tiles
//===----------------------------------------------------------------------===//

DqTile::DqTile(const BackwardOperands &operands, std::vector<float> &dq,
               BackwardDiagnostics *diagnostics)
    : operands(operands), shape(operands.shape()), dq(dq),
      diagnostics(diagnostics), dim(shape.headDim),
      c(scoreFactorOf(operands.quantized, operands.options.forward)),
      qScores(dim), kScores(dim), k(dim), v(dim), dO(dim), dOBf16(dim),
      scores(tileRows * tileRows), dP(tileRows * tileRows),
      products(tileRows * dim), queryScales(tileRows), keyScales(tileRows),
      sums(tileRows * dim) {}

void DqTile::run(const WorkItem &item) {
  RowsOf rows = {item.begin + item.firstRow(), shape.heads, item.head, dim};
  kvHead = item.head / (shape.heads / shape.kvHeads);
  padded = (item.rows() + 3) / 4 * 4;
  loadScoreRows(operands.quantized, ScoreSide::Queries, rows,
                item.scaleBase + item.tile, item.rows(), qScores, queryScales);
  dO.load(item.rows(), rows.payload(operands.prepared.dO.payload));
  dOBf16.load(item.rows(), rows.bf16(operands.dO));
  std::fill(sums.begin(), sums.end(), 0.0f);
  KeyRange tiles = visibleTiles(operands.options.forward.mask, item);
  for (int64_t tile = tiles.end - 1; tile >= tiles.begin; --tile)
    addKeyTile(item, tile);
  for (int64_t r = 0; r < item.rows(); ++r)
    storeGradient(&sums[r * dim], dim, operands.options.forward,
                  &dq[rows.offset(r)]);
}

void DqTile::addKeyTile(const WorkItem &item, int64_t tile) {
  RowsOf keys = {item.begin + tile * tileRows, shape.kvHeads, kvHead, dim};
  int64_t count = std::min(tileRows, item.length - tile * tileRows);
  bool bf16 = operands.inBf16(item.tile, tile);
  loadScoreRows(operands.quantized, ScoreSide::Keys, keys,
                item.scaleBase + tile, count, kScores, keyScales);
  k.load(count, keys.payload(operands.quantized.k.payload));
  if (bf16)
    v.load(count, keys.bf16(operands.quantized.vBf16));
  else
    v.load(count,
           keys.scaled(operands.quantized.v.payload,
                       atomOf(operands.prepared.foldedValueScales,
                              item.scaleBase + tile, shape.kvHeads, kvHead)));
  multiplyTiles(qScores.rows(), dim, kScores.columns(), tileRows, scores.data(),
                tileRows, padded, tileRows, dim);
  multiplyTiles(bf16 ? dOBf16.rows() : dO.rows(), dim, v.columns(), tileRows,
                dP.data(), tileRows, padded, tileRows, dim);
  for (int64_t r = 0; r < padded; ++r)
    if (r < item.rows())
      gradientRow(item, tile, r);
    else
      std::fill_n(&dP[r * tileRows], tileRows, 0.0);
  multiplyTiles(dP.data(), tileRows, k.rows(), dim, products.data(), dim,
                padded, dim, tileRows);
  accumulate(sums, products, padded * dim);
}

/// Turns a row of dP into dS, quantized and scaled.
void DqTile::gradientRow(const WorkItem &item, int64_t tile, int64_t r) {
  const PreparedGradient &prepared = operands.prepared;
  const BackwardOptions &options = operands.options;
  bool bf16 = operands.inBf16(item.tile, tile);
  int64_t scaleTile = item.scaleBase + item.tile;
  int64_t row = (item.begin + item.firstRow() + r) * shape.heads + item.head;
  int64_t keyScaleTile = item.scaleBase + tile;
  uint8_t keyTileByte =
      prepared.keyTileScales[keyScaleTile * shape.kvHeads + kvHead];
  double gradientScale =
      bf16 ? 1.0
           : scaleOf(atomOf(prepared.dO.scales, scaleTile, shape.heads,
                            item.head)[off128x4(r, 0)]);
  int64_t count = std::min(tileRows, item.length - tile * tileRows);
  KeyRange range =
      visibleKeys(options.forward.mask, item.firstRow() + r, item.length)
          .inTile(tile);

  float s[tileRows] = {}, x[tileRows], p[tileRows], ds[tileRows] = {};
  bool seen[tileRows], inside[tileRows];
  for (int64_t j = 0; j < tileRows; ++j) {
    inside[j] = j < count;
    seen[j] = j >= range.begin && j < range.end;
  }
  for (int64_t j = 0; j < count; ++j)
    s[j] = float(scores[r * tileRows + j] * queryScales[r] * keyScales[j]);
  scaleShift(s, c, prepared.bias[row], x, tileRows);
  weightsOf(x, options.maskBeforeScale ? seen : inside,
            options.queryGradientExp2.value_or(options.forward.exp2), options,
            item.firstRow() + r, tile, p);
  int64_t firstKey = item.begin + tile * tileRows;
  bool absolute = bf16 && !options.tileRelativeDiagonal;
  const std::vector<float> &factors =
      absolute ? prepared.diagonalKeyFactors : prepared.keyFactors;
  double rowSum = 0, rowAbsSum = 0;
  for (int64_t j = 0; j < count; ++j) {
    float factor = factors[(firstKey + j) * shape.kvHeads + kvHead];
    float product = float(dP[r * tileRows + j] * gradientScale);
    if (bf16) {
      float t = std::fma(product, prepared.r[row], -prepared.dDiagonal[row]);
      ds[j] = p[j] * t * factor;
    } else {
      ds[j] = p[j] * std::fma(-prepared.dPast[row], factor, product);
    }
    if (seen[j] && factor != 0) {
      double gradient = double(ds[j]) * weightUnit / factor;
      rowSum += gradient;
      rowAbsSum += std::abs(gradient);
    }
  }
  if (diagnostics) {
    diagnostics->rowSums[row] += rowSum;
    diagnostics->rowAbsSums[row] += rowAbsSum;
  }
  if (options.maskBeforeScale)
    mask(seen, ds);
  DynamicRow scales = dynamicScales(ds);
  mask(seen, ds);
  double *weights = &dP[r * tileRows];
  dynamicPayload(ds, scales, weights);
  if (bf16) {
    int shift = absolute ? 0 : int(keyTileByte) - e8m0One;
    for (uint8_t &byte : scales.bytes)
      byte = addToByte(byte, shift - int(weightShift));
    applyScales(scales, weights);
    return;
  }
  // K carries EK - 8.
  applyScales(scales, weights);
  const uint8_t *keyAtom =
      atomOf(prepared.keyBlockScales, keyScaleTile, shape.kvHeads, kvHead);
  for (int64_t j = 0; j < count; ++j)
    weights[j] *= scaleOf(keyAtom[off128x4(0, j / blockSize)]);
}

//===----------------------------------------------------------------------===//
// dK, dV: keys are rows, the loop runs over query tiles
//===----------------------------------------------------------------------===//

DkdvTile::DkdvTile(const BackwardOperands &operands, std::vector<float> &dk,
                   std::vector<float> &dv)
    : operands(operands), shape(operands.shape()), dk(dk), dv(dv),
      dim(shape.headDim),
      c(scoreFactorOf(operands.quantized, operands.options.forward)), q(dim),
      kScores(dim), v(dim), vBf16(dim), dO(dim), scores(tileRows * tileRows),
      dP(tileRows * tileRows), products(tileRows * dim), queryScales(tileRows),
      keyScales(tileRows), dkSums(tileRows * dim), dvSums(tileRows * dim),
      queries(tileRows), shifts(tileRows) {}

void DkdvTile::run(WorkItem item) {
  int64_t keyTile = item.tile, count = item.rows();
  int64_t scaleTile = item.scaleBase + keyTile;
  int64_t group = shape.heads / shape.kvHeads;
  kvHead = item.head / group;
  padded = (count + 3) / 4 * 4;
  RowsOf keys = {item.begin + item.firstRow(), shape.kvHeads, kvHead, dim};
  loadScoreRows(operands.quantized, ScoreSide::Keys, keys, scaleTile, count,
                kScores, keyScales);
  v.load(count, keys.scaled(operands.quantized.v.payload,
                            atomOf(operands.quantized.v.scalesAlongCols,
                                   scaleTile, shape.kvHeads, kvHead)));
  vBf16.load(count, keys.bf16(operands.quantized.vBf16));
  std::fill(dkSums.begin(), dkSums.end(), 0.0f);
  std::fill(dvSums.begin(), dvSums.end(), 0.0f);

  int64_t firstHead = item.head;
  for (item.head = firstHead; item.head < firstHead + group; ++item.head)
    for (item.tile = 0; item.firstRow() < item.length; ++item.tile) {
      KeyRange tiles = visibleTiles(operands.options.forward.mask, item);
      if (keyTile >= tiles.begin && keyTile < tiles.end)
        addQueryTile(item, keyTile);
    }
  for (int64_t j = 0; j < count; ++j) {
    storeGradient(&dkSums[j * dim], dim, operands.options.forward,
                  &dk[keys.offset(j)]);
    for (int64_t i = 0; i < dim; ++i)
      dv[keys.offset(j) + i] = roundToBF16(dvSums[j * dim + i]);
  }
}

/// Per-query values of a query tile.
void DkdvTile::loadQueryTile(const WorkItem &item, int64_t keyTile, bool bf16) {
  const PreparedGradient &prepared = operands.prepared;
  int64_t scaleTile = item.scaleBase + item.tile;
  const uint8_t *foldedAtom =
      atomOf(prepared.foldedScales, scaleTile, shape.heads, item.head);
  for (int64_t i = 0; i < tileRows; ++i) {
    queries[i] = {{0, 0}, 1.0, 0, 0, 0};
    shifts[i] = 0;
    if (i >= item.rows())
      continue;
    int64_t position = item.firstRow() + i;
    int64_t row = (item.begin + position) * shape.heads + item.head;
    queries[i] = {
        visibleKeys(operands.options.forward.mask, position, item.length)
            .inTile(keyTile),
        bf16 ? 1.0 : scaleOf(foldedAtom[off128x4(i, 0)]), prepared.r[row],
        prepared.rHat[row],
        bf16 ? prepared.dDiagonalHat[row] : prepared.dPastHat[row]};
    shifts[i] = bf16 ? prepared.bias[row] : prepared.biasHat[row];
  }
}

void DkdvTile::addQueryTile(const WorkItem &item, int64_t keyTile) {
  const PreparedGradient &prepared = operands.prepared;
  bool bf16 = operands.inBf16(item.tile, keyTile);
  RowsOf rows = {item.begin + item.firstRow(), shape.heads, item.head, dim};
  int64_t scaleTile = item.scaleBase + item.tile;
  loadQueryTile(item, keyTile, bf16);

  loadScoreRows(operands.quantized, ScoreSide::Queries, rows, scaleTile,
                item.rows(), q, queryScales);
  multiplyTiles(kScores.rows(), dim, q.columns(), tileRows, scores.data(),
                tileRows, padded, tileRows, dim);
  if (bf16)
    dO.load(item.rows(), rows.bf16(operands.dO));
  else
    dO.load(item.rows(), rows.payload(prepared.dO.payload));
  multiplyTiles(bf16 ? vBf16.rows() : v.rows(), dim, dO.columns(), tileRows,
                dP.data(), tileRows, padded, tileRows, dim);
  uint8_t tileByte =
      prepared.queryTileScales[scaleTile * shape.heads + item.head];
  for (int64_t j = 0; j < padded; ++j)
    gradientRow(j, keyTile, item.tile, item.rows(), tileByte, bf16);

  if (bf16) {
    q.load(item.rows(), rows.payload(operands.quantized.q.payload));
  } else {
    // Scale bytes of the B operands: E_b + EQ - 8 in dK, E_b in dV.
    auto withBlockScale = [&](const std::vector<uint8_t> &payload,
                              const std::vector<uint8_t> &scales) {
      const uint8_t *atom = atomOf(scales, scaleTile, shape.heads, item.head);
      return [=, load = rows.payload(payload)](int64_t i, double *row) {
        load(i, row);
        for (int64_t x = 0; x < dim; ++x)
          row[x] *= scaleOf(atom[off128x4(x, i / blockSize)]);
      };
    };
    q.load(item.rows(), withBlockScale(operands.quantized.q.payload,
                                       prepared.queryBlockScales));
    dO.load(item.rows(),
            withBlockScale(prepared.dO.payload, prepared.blockScales));
  }
  multiplyTiles(scores.data(), tileRows, dO.rows(), dim, products.data(), dim,
                padded, dim, tileRows);
  accumulate(dvSums, products, padded * dim);
  multiplyTiles(dP.data(), tileRows, q.rows(), dim, products.data(), dim,
                padded, dim, tileRows);
  accumulate(dkSums, products, padded * dim);
}

/// Turns row j of the scores into P and of dP into dS, quantized and scaled.
void DkdvTile::gradientRow(int64_t j, int64_t keyTile, int64_t queryTile,
                           int64_t queryCount, uint8_t tileByte, bool bf16) {
  const BackwardOptions &options = operands.options;
  double *scoreRow = &scores[j * tileRows], *gradientRow = &dP[j * tileRows];
  float s[tileRows], x[tileRows], p[tileRows], ds[tileRows] = {};
  bool seen[tileRows], inside[tileRows];
  for (int64_t i = 0; i < tileRows; ++i) {
    const Query &query = queries[i];
    s[i] = float(scoreRow[i] * queryScales[i] * keyScales[j]);
    inside[i] = i < queryCount;
    seen[i] = j >= query.seen.begin && j < query.seen.end;
  }
  scaleShift(s, c, shifts.data(), x, tileRows);
  weightsOf(x, options.maskBeforeScale ? seen : inside, options.keyGradientExp2,
            options, keyTile * tileRows + j, queryTile, p);

  DynamicRow weightScales;
  std::fill_n(weightScales.bytes, tileRows / blockSize, e8m0One);
  if (!bf16 && options.dynamicWeights)
    weightScales = dynamicScales(p);
  for (int64_t i = 0; i < queryCount; ++i) {
    const Query &query = queries[i];
    float product = float(gradientRow[i] * query.gradientScale);
    ds[i] = p[i] * (bf16 ? std::fma(product, query.rHat, -query.d)
                         : product - query.d);
  }
  if (options.maskBeforeScale)
    mask(seen, ds);
  DynamicRow scales = dynamicScales(ds);
  mask(seen, ds);
  mask(seen, p);
  dynamicPayload(ds, scales, gradientRow);

  if (bf16) {
    // dV sees the weights that the forward's PV saw. A select: r may be NaN.
    for (int64_t i = 0; i < tileRows; ++i)
      scoreRow[i] =
          seen[i] ? roundToBF16(roundToBF16(p[i]) * (queries[i].r * weightUnit))
                  : 0.0f;
    int shift = options.tileRelativeDiagonal ? int(tileByte) - e8m0One : 0;
    for (uint8_t &byte : scales.bytes)
      byte = addToByte(byte, shift - int(weightShift));
  } else {
    dynamicPayload(p, weightScales, scoreRow);
    for (uint8_t &byte : weightScales.bytes)
      byte = addToByte(byte, -int(weightShift));
    applyScales(weightScales, scoreRow);
  }
  applyScales(scales, gradientRow);
}

//===----------------------------------------------------------------------===//

Gradients reference::attentionBackwardModel(const QuantizedInputs &quantized,
                                            const ForwardOutputs &forward,
                                            const std::vector<uint16_t> &dO,
                                            const std::vector<float> &dLse,
                                            const BackwardOptions &options,
                                            BackwardDiagnostics *diagnostics) {
  const AttentionShape &shape = quantized.shape;
  PreparedGradient prepared =
      prepareBackward(quantized, forward, dO, dLse, options);
  BackwardOperands operands = {quantized, forward, dO, prepared, options};
  Gradients gradients;
  gradients.dq.resize(shape.tokens() * shape.heads * shape.headDim);
  gradients.dk.resize(shape.tokens() * shape.kvHeads * shape.headDim);
  gradients.dv.resize(gradients.dk.size());
  if (diagnostics) {
    diagnostics->rowSums.assign(shape.tokens() * shape.heads, 0.0);
    diagnostics->rowAbsSums.assign(shape.tokens() * shape.heads, 0.0);
  }
  std::vector<WorkItem> queries = workItems(shape), keys = keyItems(shape);
  parallelItems(int64_t(queries.size()), options.forward.threads, [&] {
    return [&, tile = DqTile(operands, gradients.dq, diagnostics)](
               int64_t index) mutable { tile.run(queries[index]); };
  });
  parallelItems(int64_t(keys.size()), options.forward.threads, [&] {
    return [&, tile = DkdvTile(operands, gradients.dk, gradients.dv)](
               int64_t index) mutable { tile.run(keys[index]); };
  });
  return gradients;
}

Gradients reference::attentionBackwardModel(const BackwardInputs &inputs,
                                            const BackwardOptions &options,
                                            BackwardDiagnostics *diagnostics) {
  QuantizedInputs quantized = quantizeInputs(inputs.forward, options.forward);
  ForwardOutputs forward = attentionForwardModel(quantized, options.forward);
  return attentionBackwardModel(quantized, forward, inputs.dO, inputs.dLse,
                                options, diagnostics);
}
