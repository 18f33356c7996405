//===- Tiles.cpp - Flamia's tile ops in the evaluator ---------------------===//

#include "Machine.h"
#include "flamia/Numerics/Exp2.h"
#include "flamia/Numerics/Formats.h"
#include "flamia/Numerics/Layout.h"
#include "flamia/Numerics/Quantize.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace flamia;
using namespace flamia::evaluator;

uint8_t evaluator::encodePayload(float value, Type element) {
  if (isa<Float8E4M3FNType>(element))
    return numerics::floatToE4M3(value);
  if (isa<Float8E5M2Type>(element))
    return numerics::floatToE5M2(value);
  return numerics::floatToE2M1(value);
}

float evaluator::decodePayload(uint8_t byte, Type element) {
  if (isa<Float8E4M3FNType>(element))
    return numerics::e4m3ToFloat(byte);
  if (isa<Float8E5M2Type>(element))
    return numerics::e5m2ToFloat(byte);
  return numerics::e2m1ToFloat(byte);
}

static double scaleOf(uint8_t byte, Type scaleType) {
  return isa<Float8E8M0FNUType>(scaleType) ? numerics::e8m0ToFloat(byte)
                                           : numerics::ue4m3ToFloat(byte);
}

float evaluator::exponentOf(uint8_t byte) {
  return byte == numerics::e8m0NaN ? std::numeric_limits<float>::quiet_NaN()
                                   : float(int(byte) - 127);
}

double ScaledTile::at(int64_t row, int64_t col) const {
  uint8_t byte = payload[size_t(row * type.getCols() + col)];
  return double(decodePayload(byte, type.getElementType())) *
         scaleOf(scales[scaleIndex(row, col)], type.getScaleType());
}

LogicalResult Machine::runTranspose(TransposeOp op) {
  if (!slot(op.getSource()).scaled) {
    const Tile &from = tile(op.getSource());
    Tile to(from.cols, from.rows);
    for (int64_t r = 0; r < from.rows; ++r)
      for (int64_t c = 0; c < from.cols; ++c)
        to.at(c, r) = from.at(r, c);
    setTile(op.getResult(), std::move(to));
    return success();
  }
  const ScaledTile &from = *slot(op.getSource()).scaled;
  ScaledTile to(cast<ScaledType>(op.getResult().getType()));
  int64_t rows = from.type.getRows(), cols = from.type.getCols();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      to.payload[size_t(c * rows + r)] = from.payload[size_t(r * cols + c)];
      to.scales[to.scaleIndex(c, r)] = from.scales[from.scaleIndex(r, c)];
    }
  setScaled(op.getResult(), std::move(to));
  return success();
}

/// Logical values of an operand, row-major.
static std::vector<double> logicalValues(const Slot &slot) {
  if (slot.tile)
    return std::vector<double>(slot.tile->data.begin(), slot.tile->data.end());
  const ScaledTile &scaled = *slot.scaled;
  int64_t rows = scaled.type.getRows(), cols = scaled.type.getCols();
  float table[256];
  for (unsigned byte = 0; byte < 256; ++byte)
    table[byte] = decodePayload(uint8_t(byte), scaled.type.getElementType());
  std::vector<double> values(size_t(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += scaled.type.getBlockCols()) {
      double scale = scaleOf(scaled.scales[scaled.scaleIndex(r, c)],
                             scaled.type.getScaleType());
      for (int64_t i = 0; i < scaled.type.getBlockCols(); ++i)
        values[size_t(r * cols + c + i)] =
            table[scaled.payload[size_t(r * cols + c + i)]] * scale;
    }
  return values;
}

LogicalResult Machine::runDot(DotOp op) {
  auto [rows, inner] = getTileShape(op.getA().getType());
  int64_t cols = getTileShape(op.getB().getType()).second;
  std::vector<double> a = logicalValues(slot(op.getA()));
  std::vector<double> b = logicalValues(slot(op.getB()));
  const Tile &acc = tile(op.getAcc());
  Tile result(rows, cols);
  std::vector<double> sums(cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c)
      sums[c] = acc.at(r, c);
    for (int64_t k = 0; k < inner; ++k) {
      double weight = a[size_t(r * inner + k)];
      const double *row = &b[size_t(k * cols)];
      for (int64_t c = 0; c < cols; ++c)
        sums[c] += weight * row[c];
    }
    for (int64_t c = 0; c < cols; ++c)
      result.at(r, c) = float(sums[c]);
  }
  setTile(op.getResult(), std::move(result));
  return success();
}

/// Largest finite value of a payload format.
static float largestOf(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return numerics::e4m3Max;
  return isa<Float8E5M2Type>(element) ? numerics::e5m2Max : numerics::e2m1Max;
}

/// Byte of the smallest power of two s with amax / s <= largest, within 0..254.
static uint8_t scaleByteFor(float amax, float largest) {
  int exponent;
  // amax / largest = fraction * 2^exponent with fraction in [1/2, 1).
  double fraction = std::frexp(double(amax) / largest, &exponent);
  return uint8_t(std::clamp(exponent - (fraction == 0.5) + 127, 0, 254));
}

/// The byte after `shift` and `shift_by`; NaN, in the byte or the shift, stays.
static uint8_t shifted(uint8_t byte, float shift, int64_t shiftBy) {
  if (byte == numerics::e8m0NaN || std::isnan(shift))
    return numerics::e8m0NaN;
  // Beyond 512 either way every byte is at an end.
  auto whole = int64_t(std::clamp(shift, -512.0f, 512.0f));
  return uint8_t(std::clamp<int64_t>(byte + whole + shiftBy, 0, 254));
}

/// NVFP4. Division by division, as lib/Numerics has it.
LogicalResult Machine::runQuantizeNvfp4(QuantizeOp op) {
  const Tile &from = tile(op.getSource());
  ScaledType type = op.getResult().getType();
  ScaledTile to(type);
  float global = slot(op.getGlobalScale()).number;
  if (std::string error = numerics::checkGlobalScale(global); !error.empty())
    return emitError(op.getLoc(), error);
  int64_t own = op.getRows() ? integer(op.getRows()) : from.rows;
  own = std::clamp<int64_t>(own, 0, from.rows);
  for (int64_t r0 = 0; r0 < from.rows; r0 += type.getBlockRows())
    for (int64_t c0 = 0; c0 < from.cols; c0 += type.getBlockCols()) {
      int64_t rowEnd = std::min(r0 + type.getBlockRows(), own);
      int64_t colEnd = c0 + type.getBlockCols();
      float amax = 0;
      bool finite = true;
      for (int64_t r = r0; r < rowEnd; ++r)
        for (int64_t c = c0; c < colEnd; ++c) {
          finite &= std::isfinite(from.at(r, c));
          amax = std::max(amax, std::fabs(from.at(r, c)));
        }
      uint8_t &byte = to.scales[to.scaleIndex(r0, c0)];
      byte = finite ? numerics::floatToUE4M3(amax / numerics::e2m1Max / global)
                    : numerics::ue4m3NaN;
      float scale = numerics::ue4m3ToFloat(byte) * global;
      for (int64_t r = r0; finite && scale != 0 && r < rowEnd; ++r)
        for (int64_t c = c0; c < colEnd; ++c)
          to.payload[size_t(r * from.cols + c)] =
              numerics::floatToE2M1(from.at(r, c) / scale);
    }
  setScaled(op.getResult(), std::move(to));
  return success();
}

LogicalResult Machine::runQuantize(QuantizeOp op) {
  if (op.getGlobalScale())
    return runQuantizeNvfp4(op);
  const Tile &from = tile(op.getSource());
  ScaledType type = op.getResult().getType();
  ScaledTile to(type);
  int64_t own = op.getRows() ? integer(op.getRows()) : from.rows;
  own = std::clamp<int64_t>(own, 0, from.rows);
  float largest = largestOf(type.getElementType());
  for (int64_t r0 = 0; r0 < from.rows; r0 += type.getBlockRows())
    for (int64_t c0 = 0; c0 < from.cols; c0 += type.getBlockCols()) {
      int64_t end = std::min(r0 + type.getBlockRows(), own);
      uint8_t byte;
      bool finite = true;
      if (std::optional<uint32_t> exponent = op.getExponent()) {
        byte = uint8_t(int32_t(*exponent) + 127);
      } else {
        float amax = 0;
        for (int64_t r = r0; r < end; ++r)
          for (int64_t c = c0; c < c0 + type.getBlockCols(); ++c) {
            float magnitude = std::fabs(from.at(r, c));
            finite &= std::isfinite(magnitude);
            amax = std::max(amax, magnitude);
          }
        for (int64_t r = r0; op.getIncluding() && r < end; ++r) {
          float magnitude = std::fabs(tile(op.getIncluding()).at(r, 0));
          finite &= std::isfinite(magnitude);
          amax = std::max(amax, magnitude);
        }
        if (!finite)
          byte = numerics::e8m0NaN;
        else if (amax == 0)
          byte = type.getBlockRows() == 1 ? 0 : numerics::e8m0One;
        else
          byte = scaleByteFor(amax, largest);
      }
      float shift = 0;
      if (op.getShift()) {
        const Tile &shifts = tile(op.getShift());
        shift = shifts.at(shifts.rows == 1 ? 0 : r0, 0);
      }
      to.scales[to.scaleIndex(r0, c0)] =
          shifted(byte, shift, int32_t(op.getShiftBy().value_or(0)));
      if (!finite)
        continue;
      for (int64_t r = r0; r < end; ++r)
        for (int64_t c = c0; c < c0 + type.getBlockCols(); ++c)
          to.payload[size_t(r * from.cols + c)] = encodePayload(
              float(std::ldexp(double(from.at(r, c)), 127 - int(byte))),
              type.getElementType());
    }
  setScaled(op.getResult(), std::move(to));
  return success();
}

LogicalResult Machine::runRoundLike(RoundLikeOp op) {
  const Tile &from = tile(op.getSource());
  Tile to(from.rows, from.cols);
  if (auto like = dyn_cast<RankedTensorType>(op.getLike().getType())) {
    for (size_t i = 0; i < from.data.size(); ++i)
      to.data[i] = roundToElement(from.data[i], like.getElementType());
  } else {
    const ScaledTile &scaled = *slot(op.getLike()).scaled;
    uint8_t byte = scaled.scales.front();
    if (!llvm::all_equal(scaled.scales))
      return emitError(op.getLoc(), "expected 'like' to be quantized with a "
                                    "static exponent, but its scales differ");
    Type element = scaled.type.getElementType();
    for (size_t i = 0; i < from.data.size(); ++i) {
      float payload = float(std::ldexp(double(from.data[i]), 127 - int(byte)));
      to.data[i] = float(std::ldexp(
          double(decodePayload(encodePayload(payload, element), element)),
          int(byte) - 127));
    }
  }
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runHadamard(HadamardOp op) {
  Tile to = tile(op.getSource());
  for (int64_t r = 0; r < to.rows; ++r) {
    if (op.getInverse())
      numerics::unrotateToken(&to.at(r, 0), to.cols);
    else
      numerics::rotateToken(&to.at(r, 0), to.cols);
  }
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runBroadcast(BroadcastOp op) {
  const Tile &from = tile(op.getSource());
  auto [rows, cols] = getTileShape(op.getType());
  Tile to(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      to.at(r, c) = from.at(from.rows == 1 ? 0 : r, from.cols == 1 ? 0 : c);
  setTile(op, std::move(to));
  return success();
}

/// The sum of a row in the documented order.
static float sumRow(const float *row, int64_t cols) {
  if (cols < 8) {
    float sum = row[0];
    for (int64_t c = 1; c < cols; ++c)
      sum += row[c];
    return sum;
  }
  float part[8];
  for (int64_t i = 0; i < 8; ++i) {
    part[i] = row[i];
    for (int64_t c = i + 8; c < cols; c += 8)
      part[i] += row[c];
  }
  return ((part[0] + part[4]) + (part[2] + part[6])) +
         ((part[1] + part[5]) + (part[3] + part[7]));
}

LogicalResult Machine::runReduce(ReduceOp op) {
  const Tile &from = tile(op.getSource());
  Tile to(from.rows, 1);
  for (int64_t r = 0; r < from.rows; ++r) {
    const float *row = &from.data[size_t(r * from.cols)];
    if (op.getKind() == ReduceKind::Sum) {
      to.at(r, 0) = sumRow(row, from.cols);
      continue;
    }
    float result = std::numeric_limits<float>::quiet_NaN();
    for (int64_t c = 0; c < from.cols; ++c) {
      float value =
          op.getKind() == ReduceKind::AbsMax ? std::fabs(row[c]) : row[c];
      result = std::fmax(result, value);
    }
    to.at(r, 0) = result;
  }
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runMask(MaskOp op) {
  Tile to = tile(op.getSource());
  int64_t rows = integer(op.getRows()), cols = integer(op.getCols());
  float hidden = op.getZero() ? 0.0f : -std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < to.rows; ++r)
    for (int64_t c = 0; c < to.cols; ++c) {
      int64_t query = op.getTransposed() ? cols + c : rows + r;
      int64_t key = op.getTransposed() ? rows + r : cols + c;
      bool keep = (!op.getCausal() || key <= query) &&
                  (!op.getLimit() || cols + c < integer(op.getLimit())) &&
                  (!op.getWindow() || query - key <= integer(op.getWindow()));
      if (!keep)
        to.at(r, c) = hidden;
    }
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runExp2(Exp2Op op) {
  Tile to = tile(op.getSource());
  numerics::Exp2Share share{int64_t(op.getBlocks()), int64_t(op.getOf())};
  int64_t rows = integer(op.getRows()), cols = integer(op.getCols());
  if (rows < 0 || cols < 0 || rows % numerics::blockSize != 0 ||
      cols % numerics::blockSize != 0)
    return emitError(op.getLoc(), "expected rows and cols to be multiples of ")
           << numerics::blockSize << ", but got " << rows << " and " << cols;
  for (int64_t r = 0; r < to.rows; ++r)
    for (int64_t c = 0; c < to.cols; ++c) {
      float &x = to.at(r, c);
      x = share.contains((rows + r) / numerics::blockSize,
                         (cols + c) / numerics::blockSize)
              ? numerics::exp2Polynomial(x)
              : std::exp2(x);
    }
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runExponents(ExponentsOp op) {
  const ScaledTile &from = *slot(op.getSource()).scaled;
  Tile to(from.type.getRows(), 1);
  for (int64_t r = 0; r < to.rows; ++r)
    to.at(r, 0) = exponentOf(from.scales[from.scaleIndex(r, 0)]);
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runPayload(PayloadOp op) {
  const ScaledTile &from = *slot(op.getSource()).scaled;
  Tile to(from.type.getRows(), from.type.getCols());
  for (size_t i = 0; i < to.data.size(); ++i)
    to.data[i] = decodePayload(from.payload[i], from.type.getElementType());
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runPow2(Pow2Op op) {
  Tile to = tile(op.getSource());
  for (float &value : to.data)
    value = float(std::exp2(double(value)));
  setTile(op, std::move(to));
  return success();
}

LogicalResult Machine::runReduceRows(ReduceRowsOp op) {
  const Tile &from = tile(op.getSource());
  Tile to(from.rows, from.cols);
  int64_t own = op.getRows() ? integer(op.getRows()) : from.rows;
  int64_t by = op.getBy();
  for (int64_t c = 0; c < from.cols; ++c)
    for (int64_t first = 0; first < from.rows; first += by) {
      float largest = 0;
      for (int64_t r = first; r < std::min(first + by, own); ++r)
        if (r == first || std::isnan(from.at(r, c)) || from.at(r, c) > largest)
          largest = from.at(r, c);
      for (int64_t r = first; r < first + by; ++r)
        to.at(r, c) = largest;
    }
  setTile(op, std::move(to));
  return success();
}
