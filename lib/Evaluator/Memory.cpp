//===- Memory.cpp - Global tensors in the evaluator -----------------------===//

#include "Machine.h"
#include "flamia/Numerics/Formats.h"
#include "flamia/Numerics/Layout.h"

#include <cmath>

using namespace mlir;
using namespace flamia;
using namespace flamia::evaluator;

namespace {
/// A tile's place in a row-major tensor. Rows run along the outermost
/// dimension, columns along the innermost; a rank-1 tensor is a single row.
struct Window {
  int64_t offset = 0;    ///< of element (0, 0), in elements
  int64_t rowStride = 0; ///< in elements
  int64_t rows = 0;      ///< rows and columns inside the tensor and the limit
  int64_t cols = 0;
};
} // namespace

/// The part of a tile that exists. Indices between the outermost and innermost
/// dimension must be inside, and no index negative.
static FailureOr<Window> windowOf(Operation *op, const Buffer &buffer,
                                  ArrayRef<int64_t> indices,
                                  std::optional<int64_t> limit, int64_t rows,
                                  int64_t cols) {
  size_t rank = buffer.shape.size();
  Window window;
  for (auto [dim, index] : llvm::enumerate(indices)) {
    bool inside = dim == 0 || dim + 1 == rank || index < buffer.shape[dim];
    if (index < 0 || !inside)
      return emitError(op->getLoc(), "index ")
             << index << " of dimension " << dim << " is outside [0, "
             << buffer.shape[dim] << ")";
    window.offset = window.offset * buffer.shape[dim] + index;
  }
  int64_t last = rank == 1 ? 0 : indices.front();
  int64_t extent = rank == 1 ? 1 : buffer.shape.front();
  if (limit)
    extent = std::min(extent, *limit);
  window.rows = std::clamp<int64_t>(extent - last, 0, rows);
  window.cols =
      std::clamp<int64_t>(buffer.shape.back() - indices.back(), 0, cols);
  window.rowStride = 1;
  for (int64_t dim : ArrayRef<int64_t>(buffer.shape).drop_front())
    window.rowStride *= dim;
  return window;
}

static float readElement(const uint8_t *from, Type element) {
  if (element.isF32()) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return element.isBF16() ? numerics::bf16ToFloat(bits)
                          : numerics::f16ToFloat(bits);
}

static void writeElement(uint8_t *to, float value, Type element) {
  if (element.isF32()) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  uint16_t bits = element.isBF16() ? numerics::floatToBF16(value)
                                   : numerics::floatToF16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

LogicalResult Machine::runLoad(LoadOp op) {
  const Buffer &buffer = *slot(op.getSource()).buffer;
  SmallVector<int64_t> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  auto [rows, cols] = getTileShape(op.getType());
  std::optional<int64_t> limit;
  if (op.getLimit())
    limit = integer(op.getLimit());
  FailureOr<Window> window = windowOf(op, buffer, indices, limit, rows, cols);
  if (failed(window))
    return failure();
  Type element = op.getType().getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  Tile result(rows, cols);
  for (int64_t r = 0; r < window->rows; ++r)
    for (int64_t c = 0; c < window->cols; ++c)
      result.at(r, c) =
          readElement(buffer.bytes.data() +
                          (window->offset + r * window->rowStride + c) * bytes,
                      element);
  setTile(op, std::move(result));
  return success();
}

/// Element \p index of packed f4E2M1FN as a code, and back.
static uint8_t readCode(const Buffer &buffer, int64_t index) {
  return buffer.bytes[size_t(index / 2)] >> (index % 2 * 4) & 15;
}

static void writeCode(Buffer &buffer, int64_t index, uint8_t code) {
  uint8_t &byte = buffer.bytes[size_t(index / 2)];
  int shift = index % 2 * 4;
  byte = uint8_t((byte & ~(15 << shift)) | code << shift);
}

/// Calls \p visit(row, column, byte of the array) for all blocks of a scaled
/// tile of \p rows x \p cols: one step of rows and columns apart. \p unit
/// elements along the contraction share a byte; arrays of rank 4 have the atoms
/// of a tile in the third dimension.
static LogicalResult
forEachAtomByte(Operation *op, Buffer &scales, ArrayRef<int64_t> indices,
                Axis along, int64_t unit, int64_t rows, int64_t cols,
                int64_t rowStep, int64_t colStep,
                llvm::function_ref<void(int64_t, int64_t, uint8_t &)> visit) {
  for (int64_t r = 0; r < rows; r += rowStep)
    for (int64_t c = 0; c < cols; c += colStep) {
      int64_t operandRow = along == Axis::Cols ? r : c;
      int64_t block = (along == Axis::Cols ? c : r) / unit;
      int64_t place[] = {indices[0] + operandRow / 128, indices[1], block / 4};
      bool hasAtoms = scales.shape.size() == 4;
      if (!hasAtoms)
        place[1] += block / 4;
      for (size_t d = 0; d < (hasAtoms ? 3 : 2); ++d)
        if ((d < 2 && indices[d] < 0) || place[d] >= scales.shape[d])
          return emitError(op->getLoc(), "scale atom [")
                 << place[0] << ", " << place[1] << "] is outside an array of "
                 << scales.shape[0] << " x " << scales.shape[1] << " atoms";
      int64_t atom = place[0] * scales.shape[1] + place[1];
      if (hasAtoms)
        atom = atom * scales.shape[2] + place[2];
      visit(r, c,
            scales.bytes[size_t(
                atom * 512 + numerics::off128x4(operandRow % 128, block % 4))]);
    }
  return success();
}

template <typename LoadLike>
FailureOr<ScaledTile> Machine::loadPayload(LoadLike op) {
  const Buffer &buffer = *slot(op.getSource()).buffer;
  SmallVector<int64_t> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  ScaledType type = op.getResult().getType();
  std::optional<int64_t> limit;
  if (op.getLimit())
    limit = integer(op.getLimit());
  FailureOr<Window> window =
      windowOf(op, buffer, indices, limit, type.getRows(), type.getCols());
  if (failed(window))
    return failure();
  ScaledTile result(type);
  bool isPacked = isa<Float4E2M1FNType>(type.getElementType());
  for (int64_t r = 0; r < window->rows; ++r) {
    uint8_t *to = &result.payload[size_t(r * type.getCols())];
    int64_t from = window->offset + r * window->rowStride;
    if (!isPacked)
      std::memcpy(to, buffer.bytes.data() + from, size_t(window->cols));
    for (int64_t c = 0; isPacked && c < window->cols; ++c)
      to[c] = readCode(buffer, from + c);
  }
  return result;
}

LogicalResult Machine::runLoadScaled(LoadScaledOp op) {
  SmallVector<int64_t> scaleIndices;
  for (Value index : op.getScaleIndices())
    scaleIndices.push_back(integer(index));
  FailureOr<ScaledTile> result = loadPayload(op);
  if (failed(result))
    return failure();
  ScaledType type = op.getResult().getType();
  if (failed(forEachAtomByte(op, *slot(op.getScales()).buffer, scaleIndices,
                             op.getAlong(), getScaleUnit(type.getScaleType()),
                             type.getRows(), type.getCols(),
                             type.getBlockRows(), type.getBlockCols(),
                             [&](int64_t r, int64_t c, uint8_t &byte) {
                               result->scales[result->scaleIndex(r, c)] = byte;
                             })))
    return failure();
  setScaled(op.getResult(), std::move(*result));
  return success();
}

LogicalResult Machine::runLoadPayload(LoadPayloadOp op) {
  FailureOr<ScaledTile> result = loadPayload(op);
  if (failed(result))
    return failure();
  result->scales.assign(result->scales.size(), numerics::e8m0One);
  setScaled(op.getResult(), std::move(*result));
  return success();
}

LogicalResult Machine::runStore(StoreOp op) {
  Buffer &buffer = *slot(op.getTarget()).buffer;
  SmallVector<int64_t> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  const Tile &value = tile(op.getValue());
  std::optional<int64_t> limit;
  if (op.getLimit())
    limit = integer(op.getLimit());
  FailureOr<Window> window =
      windowOf(op, buffer, indices, limit, value.rows, value.cols);
  if (failed(window))
    return failure();
  Type element = op.getValue().getType().getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  for (int64_t r = 0; r < window->rows; ++r)
    for (int64_t c = 0; c < window->cols; ++c)
      writeElement(buffer.bytes.data() +
                       (window->offset + r * window->rowStride + c) * bytes,
                   value.at(r, c), element);
  return success();
}

LogicalResult Machine::runStorePayload(StorePayloadOp op) {
  Buffer &buffer = *slot(op.getTarget()).buffer;
  SmallVector<int64_t> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  const ScaledTile &value = *slot(op.getValue()).scaled;
  std::optional<int64_t> limit;
  if (op.getLimit())
    limit = integer(op.getLimit());
  FailureOr<Window> window = windowOf(
      op, buffer, indices, limit, value.type.getRows(), value.type.getCols());
  if (failed(window))
    return failure();
  bool isPacked = isa<Float4E2M1FNType>(value.type.getElementType());
  for (int64_t r = 0; r < window->rows; ++r) {
    const uint8_t *from = &value.payload[size_t(r * value.type.getCols())];
    int64_t to = window->offset + r * window->rowStride;
    if (!isPacked)
      std::memcpy(buffer.bytes.data() + to, from, size_t(window->cols));
    for (int64_t c = 0; isPacked && c < window->cols; ++c)
      writeCode(buffer, to + c, from[c]);
  }
  return success();
}

LogicalResult Machine::runStoreScales(StoreScalesOp op) {
  SmallVector<int64_t> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  const ScaledTile &value = *slot(op.getValue()).scaled;
  Buffer &target = *slot(op.getTarget()).buffer;
  bool alongCols = op.getAlong() == Axis::Cols;
  int64_t rows = value.type.getRows(), cols = value.type.getCols();
  int64_t unit = getScaleUnit(value.type.getScaleType());
  uint8_t padding = unit == 32 ? numerics::e8m0One : 0;
  // The whole of every atom is written: extents are rounded up to 128 operand
  // rows and four blocks.
  int64_t allRows = llvm::alignTo(rows, alongCols ? 128 : 4 * unit);
  int64_t allCols = llvm::alignTo(cols, alongCols ? 4 * unit : 128);
  int64_t own = integer(op.getRows());
  return forEachAtomByte(op, target, indices, op.getAlong(), unit, allRows,
                         allCols, alongCols ? 1 : unit, alongCols ? unit : 1,
                         [&](int64_t r, int64_t c, uint8_t &byte) {
                           bool exists = r < rows && c < cols && r < own;
                           byte = exists ? value.scales[value.scaleIndex(r, c)]
                                         : padding;
                         });
}

LogicalResult Machine::runLoadExponents(LoadExponentsOp op) {
  int64_t indices[] = {integer(op.getIndices()[0]),
                       integer(op.getIndices()[1])};
  auto [rows, cols] = getTileShape(op.getType());
  Tile to(rows, cols);
  if (failed(forEachAtomByte(op, *slot(op.getScales()).buffer, indices,
                             Axis::Cols, 32, rows, cols * 32, 1, 32,
                             [&](int64_t r, int64_t c, uint8_t &byte) {
                               to.at(r, c / 32) = exponentOf(byte);
                             })))
    return failure();
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runStoreExponents(StoreExponentsOp op) {
  int64_t indices[] = {integer(op.getIndices()[0]),
                       integer(op.getIndices()[1])};
  const Tile &value = tile(op.getValue());
  bool alongCols = op.getAlong() == Axis::Cols;
  int64_t rows = integer(op.getRows()), cols = integer(op.getCols());
  return forEachAtomByte(
      op, *slot(op.getTarget()).buffer, indices, op.getAlong(), 32, 128, 128,
      alongCols ? 1 : 32, alongCols ? 32 : 1,
      [&](int64_t r, int64_t c, uint8_t &byte) {
        byte = numerics::e8m0One;
        if (r >= rows || c >= cols)
          return;
        float exponent = value.at(r, value.cols == 1 ? 0 : c / 32);
        byte = std::isnan(exponent)
                   ? numerics::e8m0NaN
                   : uint8_t(std::clamp(exponent + 127.0f, 0.0f, 254.0f));
      });
}
