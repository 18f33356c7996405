//===- ScoreOperand.cpp - Operands of S = Q K^T ---------------------------===//
//
// See ScoreOperand.h.
//
//===----------------------------------------------------------------------===//

#include "lib/Reference/ScoreOperand.h"

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

void reference::loadScoreRows(const QuantizedInputs &inputs, ScoreSide side,
                              const RowsOf &rows, int64_t scaleTile,
                              int64_t count, TileOperand &operand,
                              std::vector<double> &scales) {
  std::fill(scales.begin(), scales.end(), 1.0);
  bool keys = side == ScoreSide::Keys;
  if (inputs.format == Format::Mxfp8) {
    const TokenLocalTensor &tensor = keys ? inputs.k : inputs.q;
    const uint8_t *atom =
        atomOf(tensor.scales, scaleTile, rows.heads, rows.head);
    operand.load(count, rows.payload(tensor.payload));
    for (int64_t r = 0; r < count; ++r)
      scales[r] = scaleOf(atom[off128x4(r, 0)]);
    return;
  }
  const Nvfp4Tensor &tensor = keys ? inputs.kScores : inputs.qScores;
  int64_t atoms = nvfp4Atoms(rows.dim);
  const uint8_t *atom =
      atomOf(tensor.scales, scaleTile * atoms, rows.heads, rows.head * atoms);
  operand.load(count, [&](int64_t r, double *row) {
    float codes[tileRows];
    e2m1PackedToFloat(&tensor.payload[rows.offset(r) / 2], codes,
                      size_t(rows.dim));
    for (int64_t c = 0; c < rows.dim; ++c) {
      int64_t block = c / nvfp4Block;
      uint8_t byte = atom[block / 4 * atomBytes + off128x4(r, block % 4)];
      row[c] = double(codes[c]) * ue4m3ToFloat(byte);
    }
  });
}
