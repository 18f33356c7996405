//===- QuantizeTensor.cpp - Whole packed tensors --------------------------===//
//
// Quantization of packed BF16 tensors with their scale arrays, document by
// document and tile by tile.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"

#include <algorithm>
#include <cstring>

using namespace flamia;
using namespace flamia::numerics;

namespace {

/// Position of one 128-row tile of one head: its rows in the packed tensor
/// and its atom in a scale array.
struct Tile {
  int64_t firstToken; ///< on the packed axis
  int64_t rows;       ///< the document's own rows, 1..128
  int64_t scaleTile;  ///< index on the scale-tile axis
};

Tile tileOf(const PackedShape &shape, const std::vector<int64_t> &bases,
            int64_t document, int64_t tile) {
  int64_t first = shape.cuSeqlens[document] + tile * tileRows;
  return {first, std::min(tileRows, shape.cuSeqlens[document + 1] - first),
          bases[document] + tile};
}

/// Calls \p function(tile, head) for all tiles and heads.
template <typename Function>
void forEachTile(const PackedShape &shape, Function function) {
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t t = 0; t < bases[d + 1] - bases[d]; ++t)
      for (int64_t head = 0; head < shape.heads; ++head)
        function(tileOf(shape, bases, d, t), head);
}

int64_t scaleBytes(const PackedShape &shape) {
  return scaleTileBases(shape.cuSeqlens).back() * shape.heads * atomBytes;
}

/// One token row of one head as float.
void loadRow(const uint16_t *tensor, const PackedShape &shape, int64_t token,
             int64_t head, float *row) {
  bf16ToFloat(tensor + (token * shape.heads + head) * shape.headDim, row,
              size_t(shape.headDim));
}

/// Where the results of one token and head go.
struct Place {
  int64_t row;  ///< token * heads + head
  int64_t atom; ///< scale tile * heads + head
  int64_t r;    ///< the token's row in its tile
};

/// Calls \p function(values, place) for every token and head of the tiles
/// [firstTile, lastTile) of a document, with the token as float, rotated if
/// asked: whatever a token becomes, it is read and rotated once.
template <typename Function>
void forEachRow(const uint16_t *tensor, const PackedShape &shape, bool rotate,
                int64_t document, int64_t firstTile, int64_t lastTile,
                Function function) {
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  std::vector<float> row(shape.headDim);
  for (int64_t t = firstTile; t < lastTile; ++t) {
    Tile tile = tileOf(shape, bases, document, t);
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t r = 0; r < tile.rows; ++r) {
        int64_t token = tile.firstToken + r;
        loadRow(tensor, shape, token, head, row.data());
        if (rotate)
          rotateToken(row.data(), shape.headDim);
        function(row.data(), Place{token * shape.heads + head,
                                   tile.scaleTile * shape.heads + head, r});
      }
  }
}

/// The same for all documents.
template <typename Function>
void forEachRow(const uint16_t *tensor, const PackedShape &shape, bool rotate,
                Function function) {
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < shape.documents(); ++d)
    forEachRow(tensor, shape, rotate, d, 0, bases[d + 1] - bases[d], function);
}

/// One token to E4M3 with one scale. The first row of a tile brings the atom's
/// padding.
void storeTokenLocal(const float *values, const Place &place, int64_t dim,
                     ScaleMode mode, uint8_t *payload, uint8_t *scales) {
  uint8_t *atom = scales + place.atom * atomBytes;
  if (place.r == 0)
    std::memset(atom, e8m0One, atomBytes);
  uint8_t byte =
      quantizeBlockE4M3(values, dim, payload + place.row * dim, mode);
  for (int64_t j = 0; j < dim / blockSize; ++j)
    atom[off128x4(place.r, j)] = byte;
}

/// One token to E2M1 with a scale per 16 channels.
void storeNvfp4(const float *values, const Place &place, int64_t dim,
                float globalScale, uint8_t *payload, uint8_t *scales,
                Nvfp4Counts &counts) {
  int64_t bytes = nvfp4Atoms(dim) * atomBytes;
  uint8_t *atoms = scales + place.atom * bytes;
  if (place.r == 0)
    std::memset(atoms, 0, bytes);
  for (int64_t b = 0; b < dim / nvfp4Block; ++b) {
    const float *block = values + b * nvfp4Block;
    uint8_t byte =
        quantizeBlockNvfp4(block, nvfp4Block, globalScale,
                           payload + (place.row * dim + b * nvfp4Block) / 2);
    atoms[b / 4 * atomBytes + off128x4(place.r, b % 4)] = byte;
    float amax = absMax(block, nvfp4Block);
    ++counts.blocks;
    counts.saturated +=
        byte != ue4m3NaN && amax > e2m1Max * e4m3Max * globalScale;
    counts.flushed += byte == 0 && amax > 0;
  }
}

} // namespace

void numerics::quantizeTokenLocalTiles(const uint16_t *tensor,
                                       const PackedShape &shape, bool rotate,
                                       ScaleMode mode, int64_t document,
                                       int64_t firstTile, int64_t lastTile,
                                       uint8_t *payload, uint8_t *scales) {
  forEachRow(tensor, shape, rotate, document, firstTile, lastTile,
             [&](const float *values, const Place &place) {
               storeTokenLocal(values, place, shape.headDim, mode, payload,
                               scales);
             });
}

void numerics::quantizeTokenNvfp4Tiles(const uint16_t *tensor,
                                       const PackedShape &shape, bool rotate,
                                       float globalScale, int64_t document,
                                       int64_t firstTile, int64_t lastTile,
                                       uint8_t *payload, uint8_t *scales,
                                       Nvfp4Counts &counts) {
  forEachRow(tensor, shape, rotate, document, firstTile, lastTile,
             [&](const float *values, const Place &place) {
               storeNvfp4(values, place, shape.headDim, globalScale, payload,
                          scales, counts);
             });
}

void numerics::quantizeTokenBlockTiles(const uint16_t *tensor,
                                       const PackedShape &shape, ScaleMode mode,
                                       int64_t document, int64_t firstTile,
                                       int64_t lastTile, uint8_t *payload,
                                       uint8_t *scalesAlongRows,
                                       uint8_t *scalesAlongCols) {
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  int64_t dim = shape.headDim;
  std::vector<float> rows(blockSize * dim);
  for (int64_t t = firstTile; t < lastTile; ++t) {
    Tile tile = tileOf(shape, bases, document, t);
    for (int64_t head = 0; head < shape.heads; ++head) {
      int64_t atomOffset = (tile.scaleTile * shape.heads + head) * atomBytes;
      uint8_t *alongRows = scalesAlongRows + atomOffset;
      uint8_t *alongCols = scalesAlongCols + atomOffset;
      std::memset(alongRows, e8m0One, atomBytes);
      std::memset(alongCols, e8m0One, atomBytes);
      for (int64_t first = 0; first < tile.rows; first += blockSize) {
        int64_t count = std::min(blockSize, tile.rows - first);
        for (int64_t r = 0; r < count; ++r)
          loadRow(tensor, shape, tile.firstToken + first + r, head,
                  &rows[r * dim]);
        for (int64_t c = 0; c < dim; c += blockSize) {
          // absMax of the rows' maxima: a NaN survives both steps.
          float maxima[blockSize];
          for (int64_t r = 0; r < count; ++r)
            maxima[r] = absMax(&rows[r * dim + c], blockSize);
          uint8_t byte = e8m0ScaleByte(absMax(maxima, count), mode, e8m0One);
          for (int64_t r = 0; r < count; ++r) {
            int64_t token = tile.firstToken + first + r;
            encodeE4M3(&rows[r * dim + c], blockSize, byte,
                       payload + (token * shape.heads + head) * dim + c);
            alongCols[off128x4(first + r, c / blockSize)] = byte;
          }
          for (int64_t i = 0; i < blockSize; ++i)
            alongRows[off128x4(c + i, first / blockSize)] = byte;
        }
      }
    }
  }
}

static TokenLocalTensor emptyTokenLocal(const PackedShape &shape) {
  TokenLocalTensor result;
  result.payload.resize(shape.elements());
  result.scales.resize(scaleBytes(shape));
  return result;
}

static Nvfp4Tensor emptyNvfp4(const PackedShape &shape, float globalScale) {
  Nvfp4Tensor result;
  result.globalScale = globalScale;
  result.payload.resize(shape.elements() / 2);
  result.scales.resize(scaleBytes(shape) * nvfp4Atoms(shape.headDim));
  return result;
}

TokenLocalTensor numerics::quantizeTokenLocal(const uint16_t *tensor,
                                              const PackedShape &shape,
                                              bool rotate, ScaleMode mode) {
  TokenLocalTensor result = emptyTokenLocal(shape);
  forEachRow(tensor, shape, rotate,
             [&](const float *values, const Place &place) {
               storeTokenLocal(values, place, shape.headDim, mode,
                               result.payload.data(), result.scales.data());
             });
  return result;
}

Nvfp4Tensor numerics::quantizeTokenNvfp4(const uint16_t *tensor,
                                         const PackedShape &shape, bool rotate,
                                         float globalScale) {
  Nvfp4Tensor result = emptyNvfp4(shape, globalScale);
  forEachRow(
      tensor, shape, rotate, [&](const float *values, const Place &place) {
        storeNvfp4(values, place, shape.headDim, globalScale,
                   result.payload.data(), result.scales.data(), result.counts);
      });
  return result;
}

MixedTensor numerics::quantizeTokenMixed(const uint16_t *tensor,
                                         const PackedShape &shape, bool rotate,
                                         ScaleMode mode, float globalScale) {
  MixedTensor result = {emptyTokenLocal(shape), emptyNvfp4(shape, globalScale)};
  forEachRow(
      tensor, shape, rotate, [&](const float *values, const Place &place) {
        storeTokenLocal(values, place, shape.headDim, mode,
                        result.e4m3.payload.data(), result.e4m3.scales.data());
        storeNvfp4(values, place, shape.headDim, globalScale,
                   result.nvfp4.payload.data(), result.nvfp4.scales.data(),
                   result.nvfp4.counts);
      });
  return result;
}

TokenBlockTensor numerics::quantizeTokenBlock(const uint16_t *tensor,
                                              const PackedShape &shape,
                                              ScaleMode mode) {
  TokenBlockTensor result;
  result.payload.resize(shape.elements());
  result.scalesAlongRows.resize(scaleBytes(shape));
  result.scalesAlongCols.resize(scaleBytes(shape));
  std::vector<int64_t> bases = scaleTileBases(shape.cuSeqlens);
  for (int64_t d = 0; d < shape.documents(); ++d)
    quantizeTokenBlockTiles(tensor, shape, mode, d, 0, bases[d + 1] - bases[d],
                            result.payload.data(),
                            result.scalesAlongRows.data(),
                            result.scalesAlongCols.data());
  return result;
}

std::vector<float> numerics::dequantize(const TokenLocalTensor &tensor,
                                        const PackedShape &shape) {
  std::vector<float> values(shape.elements());
  forEachTile(shape, [&](Tile tile, int64_t head) {
    const uint8_t *atom =
        &tensor.scales[(tile.scaleTile * shape.heads + head) * atomBytes];
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < shape.headDim; c += blockSize) {
        int64_t offset =
            ((tile.firstToken + r) * shape.heads + head) * shape.headDim + c;
        dequantizeBlockE4M3(&tensor.payload[offset], blockSize,
                            atom[off128x4(r, c / blockSize)], &values[offset]);
      }
  });
  return values;
}

std::vector<float> numerics::dequantize(const TokenBlockTensor &tensor,
                                        const PackedShape &shape) {
  // The orientation of PV; tests compare it with the other one.
  std::vector<float> values(shape.elements());
  forEachTile(shape, [&](Tile tile, int64_t head) {
    const uint8_t *atom =
        &tensor.scalesAlongRows[(tile.scaleTile * shape.heads + head) *
                                atomBytes];
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < shape.headDim; ++c) {
        int64_t offset =
            ((tile.firstToken + r) * shape.heads + head) * shape.headDim + c;
        values[offset] = e4m3ToFloat(tensor.payload[offset]) *
                         e8m0ToFloat(atom[off128x4(c, r / blockSize)]);
      }
  });
  return values;
}

std::vector<float> numerics::dequantize(const Nvfp4Tensor &tensor,
                                        const PackedShape &shape) {
  int64_t atoms = nvfp4Atoms(shape.headDim);
  std::vector<float> values(shape.elements());
  forEachTile(shape, [&](Tile tile, int64_t head) {
    const uint8_t *atom =
        &tensor
             .scales[(tile.scaleTile * shape.heads + head) * atoms * atomBytes];
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t b = 0; b < shape.headDim / nvfp4Block; ++b) {
        int64_t offset =
            ((tile.firstToken + r) * shape.heads + head) * shape.headDim +
            b * nvfp4Block;
        dequantizeBlockNvfp4(&tensor.payload[offset / 2], nvfp4Block,
                             atom[b / 4 * atomBytes + off128x4(r, b % 4)],
                             tensor.globalScale, &values[offset]);
      }
  });
  return values;
}

RowBlockMatrix numerics::quantizeRows32(const float *matrix, int64_t rows,
                                        int64_t columns, ScaleMode mode) {
  RowBlockMatrix result;
  int64_t blocks = columns / blockSize;
  result.payload.resize(rows * columns);
  result.scales.assign(scaleMatrixBytes(rows, blocks), e8m0One);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t offset = r * columns + b * blockSize;
      result.scales[offScaleMatrix(r, b, blocks)] = quantizeBlockE4M3(
          matrix + offset, blockSize, &result.payload[offset], mode);
    }
  return result;
}

std::vector<float> numerics::dequantizeRows32(const RowBlockMatrix &matrix,
                                              int64_t rows, int64_t columns) {
  int64_t blocks = columns / blockSize;
  std::vector<float> values(rows * columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t offset = r * columns + b * blockSize;
      dequantizeBlockE4M3(&matrix.payload[offset], blockSize,
                          matrix.scales[offScaleMatrix(r, b, blocks)],
                          &values[offset]);
    }
  return values;
}
