//===- Layout.cpp - Packed documents and scale-factor layouts -------------===//
//
// See Layout.h.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Layout.h"
#include "flamia/Numerics/Formats.h"

#include <algorithm>
#include <cstring>

using namespace flamia;
using namespace flamia::numerics;

std::vector<int64_t>
numerics::cuSeqlensOf(const std::vector<int64_t> &lengths) {
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths)
    offsets.push_back(offsets.back() + length);
  return offsets;
}

std::string numerics::checkShape(const PackedShape &shape) {
  const std::vector<int64_t> &offsets = shape.cuSeqlens;
  if (offsets.empty())
    return "expected at least one entry in cu_seqlens, but found none";
  if (offsets.front() != 0)
    return "expected cu_seqlens to start with 0, but found " +
           std::to_string(offsets.front());
  for (size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      return "expected cu_seqlens never to decrease, but entry " +
             std::to_string(i) + " is " + std::to_string(offsets[i]) +
             " after " + std::to_string(offsets[i - 1]);
  if (shape.heads <= 0)
    return "expected a positive number of heads, but found " +
           std::to_string(shape.heads);
  if (shape.headDim != 32 && shape.headDim != 64 && shape.headDim != 128)
    return "expected a head dimension of 32, 64 or 128, but found " +
           std::to_string(shape.headDim);
  return {};
}

std::vector<int64_t>
numerics::scaleTileBases(const std::vector<int64_t> &cuSeqlens) {
  std::vector<int64_t> bases = {0};
  for (size_t d = 0; d + 1 < cuSeqlens.size(); ++d) {
    int64_t length = cuSeqlens[d + 1] - cuSeqlens[d];
    bases.push_back(bases.back() + (length + tileRows - 1) / tileRows);
  }
  return bases;
}

void numerics::packScaleAtom(const uint8_t *scales, int64_t rows,
                             int64_t columns, int64_t stride, uint8_t padding,
                             uint8_t *atom) {
  std::memset(atom, padding, atomBytes);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      atom[off128x4(row, column)] = scales[row * stride + column];
}

void numerics::unpackScaleAtom(const uint8_t *atom, int64_t rows,
                               int64_t columns, int64_t stride,
                               uint8_t *scales) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      scales[row * stride + column] = atom[off128x4(row, column)];
}

std::vector<uint8_t>
numerics::packScaleMatrix(const std::vector<uint8_t> &scales, int64_t rows,
                          int64_t columns, uint8_t padding) {
  std::vector<uint8_t> packed(scaleMatrixBytes(rows, columns), padding);
  for (int64_t row = 0; row < rows; row += tileRows)
    for (int64_t column = 0; column < columns; column += 4)
      packScaleAtom(&scales[row * columns + column],
                    std::min(tileRows, rows - row),
                    std::min<int64_t>(4, columns - column), columns, padding,
                    &packed[offScaleMatrix(row, column, columns)]);
  return packed;
}

std::vector<uint8_t>
numerics::unpackScaleMatrix(const std::vector<uint8_t> &packed, int64_t rows,
                            int64_t columns) {
  std::vector<uint8_t> scales(rows * columns);
  for (int64_t row = 0; row < rows; row += tileRows)
    for (int64_t column = 0; column < columns; column += 4)
      unpackScaleAtom(&packed[offScaleMatrix(row, column, columns)],
                      std::min(tileRows, rows - row),
                      std::min<int64_t>(4, columns - column), columns,
                      &scales[row * columns + column]);
  return scales;
}

uint32_t numerics::packE8M0x4(const float scales[4]) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word |= uint32_t(floatToE8M0(scales[i], E8M0Rounding::Up)) << (8 * i);
  return word;
}
