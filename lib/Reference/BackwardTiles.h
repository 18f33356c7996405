//===- BackwardTiles.h - Pieces of the backward's model ---------*- C++ -*-===//
//
// What the preparation and both gradient kernels of the specification model
// share: arithmetic on scale bytes, dynamic scales, the epilogue.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_BACKWARDTILES_H
#define FLAMIA_LIB_REFERENCE_BACKWARDTILES_H

#include "flamia/Reference/Backward.h"
#include "lib/Reference/ScoreOperand.h"

namespace flamia::reference {

/// Scale byte plus an exponent: saturates to 0..254, a NaN byte stays one.
inline uint8_t addToByte(uint8_t byte, int exponent) {
  if (byte == numerics::e8m0NaN)
    return byte;
  return uint8_t(std::clamp(int(byte) + exponent, 0, 254));
}

/// What the gradient kernels of the model read.
struct BackwardOperands {
  const QuantizedInputs &quantized;
  const ForwardOutputs &forward;
  const std::vector<uint16_t> &dO;
  const PreparedGradient &prepared;
  const BackwardOptions &options;

  const AttentionShape &shape() const { return quantized.shape; }
  /// Whether dP and dV of a tile are BF16 products.
  bool inBf16(int64_t queryTile, int64_t keyTile) const {
    const ForwardOptions &forward = options.forward;
    return forward.bf16PvEverywhere ||
           (forward.safeguard && isCausal(forward.mask) &&
            queryTile == keyTile);
  }
};

/// One row of a tile of P or dS, in blocks of 32 along the contraction.
struct DynamicRow {
  uint8_t bytes[tileRows / numerics::blockSize]; ///< scale of each block
};

/// Dynamic scale bytes of a row of 128: round-up, a block of zeros gets byte 0.
DynamicRow dynamicScales(const float *values);

/// payload[i] = values[i] * 2^(127-byte) rounded to E4M3, as a double; 0 where
/// the byte is NaN.
void dynamicPayload(const float *values, const DynamicRow &row,
                    double *payload);

/// Rotates a row of an accumulator back, applies the softmax scale and rounds
/// to BF16.
void storeGradient(const float *sums, int64_t dim,
                   const ForwardOptions &options, float *to);

/// dQ of one query tile: a worker for parallelItems.
class DqTile {
public:
  DqTile(const BackwardOperands &operands, std::vector<float> &dq,
         BackwardDiagnostics *diagnostics);
  void run(const WorkItem &item);

private:
  void addKeyTile(const WorkItem &item, int64_t tile);
  void gradientRow(const WorkItem &item, int64_t tile, int64_t r);

  const BackwardOperands &operands;
  const AttentionShape &shape;
  std::vector<float> &dq;
  BackwardDiagnostics *diagnostics;
  int64_t dim;
  float c; ///< from S to base-2 scores
  int64_t kvHead = 0, padded = 0;
  TileOperand qScores, kScores, k, v, dO, dOBf16;
  std::vector<double> scores, dP, products, queryScales, keyScales;
  std::vector<float> sums;
};

/// dK and dV of one key tile (an item of keyItems): a worker for
/// parallelItems.
class DkdvTile {
public:
  DkdvTile(const BackwardOperands &operands, std::vector<float> &dk,
           std::vector<float> &dv);
  void run(WorkItem item);

private:
  /// What a query of the tile at hand brings along.
  struct Query {
    KeyRange seen;        ///< in the key tile
    double gradientScale; ///< of dO' in dP
    float r, rHat, d;     ///< d: the D' of this kind of tile
  };

  void loadQueryTile(const WorkItem &item, int64_t keyTile, bool bf16);
  void addQueryTile(const WorkItem &item, int64_t keyTile);
  void gradientRow(int64_t j, int64_t keyTile, int64_t queryTile,
                   int64_t queryCount, uint8_t tileByte, bool bf16);

  const BackwardOperands &operands;
  const AttentionShape &shape;
  std::vector<float> &dk, &dv;
  int64_t dim;
  float c;
  int64_t kvHead = 0, padded = 0;
  TileOperand q, kScores, v, vBf16, dO;
  std::vector<double> scores, dP, products, queryScales, keyScales;
  std::vector<float> dkSums, dvSums;
  std::vector<Query> queries;
  std::vector<float> shifts; ///< bias or biasHat of each query
};

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_BACKWARDTILES_H
