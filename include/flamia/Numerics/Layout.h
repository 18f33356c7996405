//===- Layout.h - Packed documents and scale-factor layouts -----*- C++ -*-===//
//
// Where things lie: documents on the packed token axis, 128-row scale tiles of
// each document, and the bytes of one 128x4 scale atom.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_NUMERICS_LAYOUT_H
#define FLAMIA_NUMERICS_LAYOUT_H

#include <cstdint>
#include <string>
#include <vector>

namespace flamia::numerics {

/// Rows of a scale tile, and of a query or key tile.
inline constexpr int64_t tileRows = 128;
/// Tokens (and channels) of a token block, and elements of an MX scale.
inline constexpr int64_t blockSize = 32;
/// Bytes of one 128x4 scale atom.
inline constexpr int64_t atomBytes = 512;

/// Shape of a packed tensor [tokens, heads, headDim], row-major, whose token
/// axis holds documents one after another: document d is the tokens
/// [cuSeqlens[d], cuSeqlens[d + 1]).
struct PackedShape {
  std::vector<int64_t> cuSeqlens; ///< documents + 1 entries, first 0
  int64_t heads = 1;
  int64_t headDim = 128;

  int64_t documents() const {
    return cuSeqlens.empty() ? 0 : int64_t(cuSeqlens.size()) - 1;
  }
  int64_t tokens() const { return cuSeqlens.empty() ? 0 : cuSeqlens.back(); }
  int64_t elements() const { return tokens() * heads * headDim; }
};

/// Offsets of documents with the given lengths: [5, 3] gives [0, 5, 8].
std::vector<int64_t> cuSeqlensOf(const std::vector<int64_t> &lengths);

/// Empty when \p shape is well formed, else what is wrong (VAR-7): offsets
/// must start at 0 and never decrease, heads must be positive, headDim a
/// power of two from 32 to 128.
std::string checkShape(const PackedShape &shape);

/// First scale tile of every document, and the number of tiles in the end:
/// documents + 1 entries. A document of n tokens has ceil(n / 128) tiles.
std::vector<int64_t> scaleTileBases(const std::vector<int64_t> &cuSeqlens);

/// Byte offset of (operand row, 32-element block of K) in a 128x4 atom: rows
/// r, r+32, r+64, r+96 lie side by side, 4 bytes each, 16 bytes a row r < 32
/// (PTX, "scale factor layout", scale_vec::4X and ::1X in the same bytes).
inline int64_t off128x4(int64_t row, int64_t block) {
  return (row % 32) * 16 + (row / 32) * 4 + block;
}

/// Byte offset in the array of a whole rows x columns scale matrix, in the
/// order cuBLAS expects: atoms of 128x4 in row-major order.
inline int64_t offScaleMatrix(int64_t row, int64_t column, int64_t columns) {
  int64_t atomsPerRow = (columns + 3) / 4;
  return ((row / tileRows) * atomsPerRow + column / 4) * atomBytes +
         off128x4(row % tileRows, column % 4);
}

/// Bytes of that array: rows are padded to 128, columns to 4.
inline int64_t scaleMatrixBytes(int64_t rows, int64_t columns) {
  return (rows + tileRows - 1) / tileRows * ((columns + 3) / 4) * atomBytes;
}

/// Copies a row-major tile of \p rows (<= 128) x \p columns (<= 4) scale bytes
/// with row stride \p stride into an atom; the other bytes become \p padding.
void packScaleAtom(const uint8_t *scales, int64_t rows, int64_t columns,
                   int64_t stride, uint8_t padding, uint8_t *atom);

/// The inverse: reads rows x columns bytes out of an atom.
void unpackScaleAtom(const uint8_t *atom, int64_t rows, int64_t columns,
                     int64_t stride, uint8_t *scales);

/// Packs a row-major rows x columns scale matrix in cuBLAS order.
std::vector<uint8_t> packScaleMatrix(const std::vector<uint8_t> &scales,
                                     int64_t rows, int64_t columns,
                                     uint8_t padding);
std::vector<uint8_t> unpackScaleMatrix(const std::vector<uint8_t> &packed,
                                       int64_t rows, int64_t columns);

/// Four scales as one little-endian word, each rounded up to a power of two:
/// the mantissa never reaches the bytes (QNT-10).
uint32_t packE8M0x4(const float scales[4]);

} // namespace flamia::numerics

#endif // FLAMIA_NUMERICS_LAYOUT_H
