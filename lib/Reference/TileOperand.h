//===- TileOperand.h - Operands of the backward's products ------*- C++ -*-===//
//
// 128 rows of a tensor in double, as rows and transposed, and the loaders of
// single rows.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_TILEOPERAND_H
#define FLAMIA_LIB_REFERENCE_TILEOPERAND_H

#include "lib/Reference/TileWalk.h"

namespace flamia::reference {

/// A tile operand: rows [128 x dim] and its transpose [dim x 128], for
/// multiplyTiles. Rows beyond those loaded are zero.
class TileOperand {
public:
  explicit TileOperand(int64_t dim)
      : dim(dim), rowMajor(tileRows * dim), columnMajor(tileRows * dim) {}

  /// \p loadRow(r, double *row) gives row r, for r in [0, count).
  template <typename LoadRow>
  void load(int64_t count, LoadRow loadRow) {
    for (int64_t r = 0; r < count; ++r) {
      double *row = &rowMajor[r * dim];
      loadRow(r, row);
      for (int64_t c = 0; c < dim; ++c)
        columnMajor[c * tileRows + r] = row[c];
    }
    std::fill(rowMajor.begin() + count * dim, rowMajor.end(), 0.0);
    for (int64_t c = 0; c < dim; ++c)
      std::fill(&columnMajor[c * tileRows + count],
                &columnMajor[c * tileRows] + tileRows, 0.0);
  }

  const double *rows() const { return rowMajor.data(); }
  const double *columns() const { return columnMajor.data(); }

private:
  int64_t dim;
  std::vector<double> rowMajor, columnMajor;
};

/// Where the rows of one head of a tile lie in a [tokens, heads, dim] tensor.
struct RowsOf {
  int64_t firstToken, heads, head, dim;

  int64_t offset(int64_t r) const {
    return ((firstToken + r) * heads + head) * dim;
  }
  auto payload(const std::vector<uint8_t> &tensor) const {
    return [this, &tensor](int64_t r, double *row) {
      float values[tileRows];
      numerics::e4m3ToFloat(&tensor[offset(r)], values, size_t(dim));
      std::copy_n(values, dim, row);
    };
  }
  auto bf16(const std::vector<uint16_t> &tensor) const {
    return [this, &tensor](int64_t r, double *row) {
      float values[tileRows];
      numerics::bf16ToFloat(&tensor[offset(r)], values, size_t(dim));
      std::copy_n(values, dim, row);
    };
  }
  auto values(const std::vector<float> &tensor) const {
    return [this, &tensor](int64_t r, double *row) {
      std::copy_n(&tensor[offset(r)], dim, row);
    };
  }
  /// Payload times the scales of an atom along columns.
  auto scaled(const std::vector<uint8_t> &tensor, const uint8_t *atom) const {
    return [this, &tensor, atom](int64_t r, double *row) {
      payload(tensor)(r, row);
      for (int64_t c = 0; c < dim; ++c)
        row[c] *= scaleOf(atom[numerics::off128x4(r, c / numerics::blockSize)]);
    };
  }
};

/// Where scale tile \p tile of one head lies in an array of atoms.
inline const uint8_t *atomOf(const std::vector<uint8_t> &atoms, int64_t tile,
                             int64_t heads, int64_t head) {
  return &atoms[(tile * heads + head) * numerics::atomBytes];
}

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_TILEOPERAND_H
