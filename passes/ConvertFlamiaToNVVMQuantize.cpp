//===- ConvertFlamiaToNVVMQuantize.cpp - Formats and quantization ---------===//
//
// Packing of 16- and 8-bit elements into words, and the quantizers. The scale
// rule is that of lib/Numerics, computed on the bits of the largest magnitude.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"
#include "passes/Staging.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// Two f32 to two 8-bit floats in an i16, `low` in the low byte.
static Value packF8Pair(Emitter &e, Value low, Value high, Type element) {
  return e.op<NVVM::ConvertF32x2ToF8x2Op>(
      e.i16(), high, low, NVVM::FPRoundingMode::RN,
      NVVM::SaturationMode::SATFINITE, /*relu=*/false, element);
}

/// The two f32 of two 8-bit floats in an i16.
static std::pair<Value, Value> unpackF8Pair(Emitter &e, Value pair,
                                            Type element) {
  Value bytes = e.op<LLVM::BitcastOp>(e.vec(2, e.b.getI8Type()), pair);
  Value halves = e.op<NVVM::ConvertF8x2ToF16x2Op>(
      e.vec(2, e.b.getF16Type()), bytes, /*relu=*/false, element);
  return {e.op<arith::ExtFOp>(e.f32(), e.extract(halves, 0)),
          e.op<arith::ExtFOp>(e.f32(), e.extract(halves, 1))};
}

Value KernelLowering::pack(ArrayRef<Value> elements, Type element) {
  SmallVector<Value> words;
  if (element.getIntOrFloatBitWidth() == 8) {
    // Two i16 in a vector: LLVM turns it into one mov.b32, shifts stay shifts.
    for (size_t i = 0; i < elements.size(); i += 4) {
      Value low = packF8Pair(e, elements[i], elements[i + 1], element);
      Value high = packF8Pair(e, elements[i + 2], elements[i + 3], element);
      words.push_back(e.op<LLVM::BitcastOp>(e.i32(), e.vectorOf({low, high})));
    }
    return e.vectorOf(words);
  }
  Type pairType = e.vec(2, element);
  for (size_t i = 0; i < elements.size(); i += 2) {
    Value low = elements[i], high = elements[i + 1], pair;
    if (element.isBF16())
      pair = e.op<NVVM::ConvertF32x2ToBF16x2Op>(pairType, high, low, Value(),
                                                NVVM::FPRoundingMode::RN);
    else
      pair = e.op<NVVM::ConvertF32x2ToF16x2Op>(pairType, high, low, Value(),
                                               NVVM::FPRoundingMode::RN);
    words.push_back(e.op<LLVM::BitcastOp>(e.i32(), pair));
  }
  return e.vectorOf(words);
}

SmallVector<Value> KernelLowering::unpack(Value words, Type element) {
  SmallVector<Value> result;
  for (Value word : e.elements(words)) {
    if (element.isBF16()) {
      result.push_back(e.bitcast(e.shl(word, 16), e.f32()));
      result.push_back(
          e.bitcast(e.andi(word, e.c32(int64_t(0xFFFF0000))), e.f32()));
    } else if (element.isF16()) {
      Value pair = e.op<LLVM::BitcastOp>(e.vec(2, element), word);
      for (int64_t i : {0, 1})
        result.push_back(e.op<arith::ExtFOp>(e.f32(), e.extract(pair, i)));
    } else {
      Value pairs = e.op<LLVM::BitcastOp>(e.vec(2, e.i16()), word);
      for (int64_t i : {0, 1}) {
        auto [low, high] = unpackF8Pair(e, e.extract(pairs, i), element);
        result.append({low, high});
      }
    }
  }
  return result;
}

/// 2^(byte - 127); NaN for 255.
Value KernelLowering::scaleOfByte(Value byte) {
  Value bits = e.shl(byte, 23);
  auto is = [&](int64_t value) {
    return e.cmp(arith::CmpIPredicate::eq, byte, e.c32(value));
  };
  bits = e.select(is(0), e.c32(0x00400000), bits);
  bits = e.select(is(255), e.c32(0x7FC00000), bits);
  return e.bitcast(bits, e.f32());
}

/// 2^(127 - byte) for bytes 0..254.
Value KernelLowering::inverseScaleOfByte(Value byte) {
  return scaleOfByte(e.sub(e.c32(254), byte));
}

/// The largest finite value is 1.75 * 2^exponent in both 8-bit formats.
static int64_t maxExponent(Type element) {
  return isa<Float8E5M2Type>(element) ? 15 : 8;
}

/// Whether nothing but products with the scales sees the payload: that of a
/// block whose scale is NaN is of no account.
static bool isOnlyMultiplied(Value scaled) {
  return llvm::all_of(scaled.getUsers(), [](Operation *user) {
    if (isa<tcgen::JoinOp>(user))
      return isOnlyMultiplied(user->getResult(0));
    auto write = dyn_cast<tcgen::WriteOp>(user);
    return isa<tcgen::WriteScalesOp>(user) ||
           (write && llvm::none_of(tcgen::usersOf(write.getBuffer()),
                                   llvm::IsaPred<tcgen::ReadOp>));
  });
}

/// Whether scale bytes are only written, those of a row side by side.
static bool writesRowsOfScales(Value scaled) {
  return llvm::all_of(scaled.getUsers(), [](Operation *user) {
    if (isa<tcgen::JoinOp>(user))
      return writesRowsOfScales(user->getResult(0));
    auto write = dyn_cast<tcgen::WriteScalesOp>(user);
    return write ? write.getAlong() == Axis::Cols : isa<tcgen::WriteOp>(user);
  });
}

/// The largest magnitude, NaN if any element is NaN. In kernels without
/// products by way of those of 16 elements, which a quantizer to NVFP4 of the
/// same row needs too.
Value KernelLowering::largestMagnitude(ArrayRef<Value> x, Value including) {
  size_t group = tmemColumns > 0 ? x.size() : 16;
  auto larger = [&](Value a, Value b) {
    return a ? e.op<LLVM::MaximumOp>(a, b) : b;
  };
  Value all;
  for (size_t first = 0; first < x.size(); first += group) {
    Value largest;
    for (Value value : x.slice(first, std::min(group, x.size() - first)))
      largest = larger(largest, e.op<math::AbsFOp>(value));
    all = larger(all, largest);
  }
  return including ? larger(all, e.op<math::AbsFOp>(including)) : all;
}

/// The parts of a tile that was joined, or the tile.
static SmallVector<Value> partsOf(Value tile) {
  if (auto join = tile.getDefiningOp<tcgen::JoinOp>())
    return llvm::to_vector(join.getSources());
  return {tile};
}

/// The largest magnitude of 16-bit values times a row vector, from that of the
/// former: rounding keeps the order. Where the products are infinite or NaN,
/// this is so too, not necessarily as they are.
Value KernelLowering::largestOfProducts(Value tile) {
  Value all, factor;
  for (Value part : partsOf(tile)) {
    auto product = part.getDefiningOp<arith::MulFOp>();
    factor = get(product.getRhs().getDefiningOp<BroadcastOp>().getSource());
    Value narrow = product.getLhs().getDefiningOp<arith::ExtFOp>().getIn();
    Type pair = e.vec(2, tileInfo(narrow.getType()).element);
    for (Value word : e.elements(get(narrow))) {
      Value two = e.op<math::AbsFOp>(e.op<LLVM::BitcastOp>(pair, word));
      all = all ? e.op<LLVM::MaximumOp>(all, two) : two;
    }
  }
  SmallVector<Value> two;
  for (int64_t i : {0, 1})
    two.push_back(e.op<arith::ExtFOp>(e.f32(), e.extract(all, i)));
  return e.op<arith::MulFOp>(e.op<LLVM::MaximumOp>(two[0], two[1]),
                             e.op<math::AbsFOp>(factor));
}

/// Scale bytes of the first four blocks, 127 where there are fewer.
Value KernelLowering::packScaleBytes(ArrayRef<Value> units) {
  SmallVector<Value, 4> four(units.take_front(4));
  four.resize(4, e.cF32(1));
  auto pair = [&](size_t first) {
    return e.op<arith::ExtUIOp>(
        e.i32(), e.callIntrinsic("llvm.nvvm.ff.to.ue8m0x2.rp", e.i16(),
                                 {four[first + 1], four[first]}));
  };
  Value low = pair(0);
  return e.ori(low, e.shl(pair(2), 16));
}

KernelLowering::RowScale KernelLowering::rowScale(Value amax, Type element) {
  // Adding 2^21 - 1 carries into the exponent above a significand of 1.75.
  Value exponent = e.shr(e.addC(amax, 0x1FFFFF), 23);
  int64_t most = maxExponent(element);
  Value least = e.op<arith::MaxSIOp>(exponent, e.c32(most));
  // byte = least - most <= 247, so 2^(127 - byte) is a normal number.
  Value factor = e.bitcast(e.shl(e.sub(e.c32(254 + most), least), 23), e.f32());
  Value isFinite = e.cmp(arith::CmpIPredicate::ult, amax, e.c32(0x7F800000));
  return {exponent, least, factor, isFinite};
}

/// Takes a scale for a whole row, and nothing else.
static bool isOfWholeRow(QuantizeOp op) {
  ScaledType type = op.getType();
  return !op.getGlobalScale() && !op.getExponent() && !op.getShift() &&
         !op.getShiftBy() && !op.getIncluding() && type.getBlockRows() == 1 &&
         type.getBlockCols() == type.getCols();
}

/// The payload with a scale for the whole row, of a row that only quantizers
/// use (`Rotated`); null for others.
Value KernelLowering::payloadOfRotatedRow(HadamardOp op) {
  Value payload;
  if (tmemColumns > 0 || op.getInverse())
    return {};
  for (Operation *user : op->getUsers()) {
    auto quantize = dyn_cast<QuantizeOp>(user);
    if (!quantize || quantize.getRows() || !roundsWhereStored(quantize))
      return {};
    if (isOfWholeRow(quantize)) {
      if (payload)
        return {};
      payload = quantize.getResult();
    } else if (!quantize.getGlobalScale() ||
               quantize.getType().getBlockRows() != 1 ||
               quantize.getType().getBlockCols() != 16) {
      return {};
    }
  }
  return payload;
}

/// Elements beside a largest magnitude from 2^-24 to 2^24: where any of the
/// products becomes subnormal, every format rounds it to zero.
void KernelLowering::setScaledRow(HadamardOp op, Value payload,
                                  ArrayRef<Value> x, Value factor) {
  Rotated rotated;
  rotated.payload = payload;
  Type element = cast<ScaledType>(payload.getType()).getElementType();
  for (size_t first = 0; first < x.size(); first += 16)
    rotated.maxima.push_back(largestMagnitude(x.slice(first, 16)));
  Value all = rotated.maxima.front();
  for (Value largest : llvm::drop_begin(rotated.maxima))
    all = e.op<LLVM::MaximumOp>(all, largest);
  // Rounding keeps the order.
  rotated.amax = e.bitcast(e.op<arith::MulFOp>(all, factor), e.i32());
  constexpr int64_t kLeast = (127 - 24) << 23, kMost = (127 + 24) << 23;
  rotated.isRare =
      anyOfWarp(e.cmp(arith::CmpIPredicate::ugt, e.addC(rotated.amax, -kLeast),
                      e.c32(kMost - kLeast)));
  rotated.scale = e.select(rotated.isRare, e.cF32(1),
                           rowScale(rotated.amax, element).factor);
  Value both = e.op<arith::MulFOp>(rotated.scale, factor);
  for (Value &largest : rotated.maxima)
    largest = e.op<arith::MulFOp>(largest, both);
  SmallVector<Value> row;
  for (Value value : x)
    row.push_back(e.op<arith::MulFOp>(value, both));
  set(op.getResult(), e.fromElements(row));
  rotatedRows[op.getResult()] = std::move(rotated);
}

LogicalResult KernelLowering::lowerQuantize(QuantizeOp op) {
  auto type = cast<ScaledType>(op.getType());
  int64_t blockRows = type.getBlockRows(), blockCols = type.getBlockCols();
  int64_t blocks = type.getCols() / blockCols;
  if (blockCols % 4 != 0)
    return unsupported(op, "expected scale blocks of a multiple of 4 columns, "
                           "but got ")
           << blockCols;
  SmallVector<Value> x = e.elements(get(op.getSource()));
  Value including = op.getIncluding() ? get(op.getIncluding()) : Value();
  if (op.getRows()) {
    Value counts =
        e.cmp(arith::CmpIPredicate::slt, e.toI64(row), i64(op.getRows()));
    Value zero = e.cF32(0);
    for (Value &value : x)
      value = e.select(counts, value, zero);
    if (including)
      including = e.select(counts, including, zero);
  }
  if (op.getGlobalScale())
    return lowerQuantizeNvfp4(op, x);
  Value shift = op.getShift() ? get(op.getShift()) : Value();
  int64_t shiftBy = int32_t(op.getShiftBy().value_or(0));

  if (op.getExponent()) {
    int64_t exponent = int32_t(*op.getExponent());
    if (exponent < -127 || exponent > 127)
      return unsupported(op, "expected an exponent in -127..127, but got ")
             << exponent;
    if (exponent != 0) {
      Value factor = e.cF32(std::ldexp(1.0f, -exponent));
      for (Value &value : x)
        value = e.op<arith::MulFOp>(value, factor);
    }
    SmallVector<Value> bytes(
        blocks, shiftByte(e.c32(0), exponent + 127, Value(), shift, shiftBy));
    Value words = converted.lookup(op.getResult());
    // Converted before the wait for the buffer that they go to, where LLVM
    // would move everything behind that.
    if (!words)
      words = e.vectorOf(e.inPlace(e.elements(pack(x, type.getElementType()))));
    values[op.getResult()] = {words, e.vectorOf(bytes)};
    return success();
  }

  if (32 % blockRows != 0)
    return unsupported(op, "expected scale blocks that one warp's 32 rows "
                           "hold, but got ")
           << blockRows << " rows";
  SmallVector<Value> words, bytes, factors, finite;
  bool keepsPayload = isOnlyMultiplied(op.getResult());
  auto roundWord = [this, type, keepsPayload](ArrayRef<Value> row, Value factor,
                                              Value isFinite, int64_t word) {
    SmallVector<Value> part(row.slice(4 * word, 4));
    // As a vector, for LLVM to multiply pairs; not where registers are bounded
    // for several CTAs to share an SM, because pairs are bound to each other.
    if (tmemColumns > 0) {
      Value scaled =
          e.op<arith::MulFOp>(e.vectorOf(part), e.splatOf(factor, 4));
      llvm::copy(e.elements(scaled), part.begin());
    } else if (factor) {
      for (Value &value : part)
        value = e.op<arith::MulFOp>(value, factor);
    }
    Value packed = e.elements(pack(part, type.getElementType()))[0];
    return keepsPayload || !isFinite ? packed
                                     : e.select(isFinite, packed, e.c32(0));
  };
  bool isDeferred = roundsWhereStored(op);
  bool isLate = multipliesWhereRounded(op);
  auto rotated = rotatedRows.find(op.getSource());
  bool isRotated = rotated != rotatedRows.end();
  int64_t zeroByte = blockRows == 1 ? 0 : 127;
  // Hardware makes two bytes of two f32, NaN and infinity included, where they
  // are written. Of magnitudes below 2^-100 the product may be a step too low.
  SmallVector<Value> units;
  bool inPairs = keepsPayload && writesRowsOfScales(op.getResult()) &&
                 tmemColumns > 0 && blockRows == 1 && !shift && !isDeferred &&
                 !isLate && shiftBy <= 0 && shiftBy > -16;
  for (int64_t block = 0; block < blocks; ++block) {
    ArrayRef<Value> part(&x[block * blockCols], blockCols);
    // The larger magnitude and NaN before all, in one instruction. Magnitudes
    // order like their bits, NaN above infinity above all others.
    Value largest =
        isRotated ? rotated->second.amax
        : isLate
            ? largestMagnitude(largestOfProducts(op.getSource()), including)
            : largestMagnitude(part, including);
    Value amax = e.bitcast(largest, e.i32());
    if (blockRows == 32)
      amax =
          e.op<NVVM::ReduxOp>(e.i32(), amax, NVVM::ReduxKind::UMAX, e.c32(-1));
    else
      for (int64_t distance = 1; distance < blockRows; distance *= 2)
        amax = e.op<arith::MaxUIOp>(
            amax,
            e.op<NVVM::ShflOp>(e.i32(), e.c32(-1), amax, e.c32(distance),
                               e.c32(31), NVVM::ShflKind::bfly, UnitAttr()));
    int64_t most = maxExponent(type.getElementType());
    if (inPairs) {
      // As below; what is left of the exponent's complement is 254 - byte.
      Value carried = e.op<arith::MaxSIOp>(
          e.addC(amax, 0x1FFFFF - ((most - 1) << 23)), e.c32(int64_t(1) << 23));
      Value factor = e.bitcast(
          e.andi(e.xori(carried, e.c32(-1)), e.c32(0x7F800000)), e.f32());
      for (int64_t col = 0; col < blockCols; col += 4)
        words.push_back(
            roundWord(x, factor, Value(), (block * blockCols + col) / 4));
      units.push_back(e.op<arith::MulFOp>(
          largest, e.cF32(std::ldexp(1 / 1.75f, int(shiftBy - most)))));
      bytes.push_back(e.c32(0)); // nobody looks at it
      continue;
    }
    auto [exponent, least, factor, isFinite] =
        rowScale(amax, type.getElementType());
    factors.push_back(factor);
    finite.push_back(isFinite);
    if (!isDeferred && !isLate)
      for (int64_t col = 0; col < blockCols; col += 4)
        words.push_back(
            roundWord(x, factor, isFinite, (block * blockCols + col) / 4));
    Value byte = least;
    int64_t offset = -most;
    if (zeroByte != 0) {
      byte = e.select(e.cmp(arith::CmpIPredicate::eq, amax, e.c32(0)),
                      e.c32(zeroByte), e.addC(least, -most));
      offset = 0;
    } else if (!shift && shiftBy < 0) {
      byte = exponent; // a smaller one gives 0 in either way
    }
    bytes.push_back(shiftByte(byte, offset, isFinite, shift, shiftBy));
  }
  if (isDeferred) {
    if (isRotated)
      factors[0] = e.select(rotated->second.isRare, factors[0], e.cF32(1));
    auto round = [=](int64_t word, Version version) {
      int64_t block = 4 * word / blockCols;
      bool isRare = version == Version::Rare;
      return SmallVector<Value>{
          roundWord(x, isRare || !isRotated ? factors[block] : Value(),
                    isRare ? finite[block] : Value(), word)};
    };
    Value allFinite = finite.front();
    for (Value isFinite : llvm::drop_begin(finite))
      allFinite = e.andi(allFinite, isFinite);
    Value one = e.op<arith::ConstantOp>(e.b.getBoolAttr(true));
    deferred[op.getResult()] = {round, /*wordsOfBlock=*/1,
                                isRotated ? rotated->second.isRare
                                          : anyOfWarp(e.xori(allFinite, one))};
    values[op.getResult()] = {Value(), e.vectorOf(bytes)};
    return success();
  }
  if (isLate) {
    for (Value part : partsOf(op.getSource())) {
      // Here, not where they stand: the first ones have no use.
      auto product = part.getDefiningOp<arith::MulFOp>();
      if (failed(lowerOp(product.getLhs().getDefiningOp())) ||
          failed(lowerOp(product)))
        return failure();
      SmallVector<Value> row = e.elements(get(part)), made;
      for (size_t word = 0; 4 * word < row.size(); ++word)
        made.push_back(roundWord(row, factors[0], finite[0], int64_t(word)));
      words.append(e.inPlace(made));
    }
  }
  // Quantized now, not where the words are written: the f32 values take four
  // times their registers.
  if (inPairs) {
    magnitudes[op.getResult()] = e.inPlace(units);
    values[op.getResult()] = {e.vectorOf(e.inPlace(words)), e.vectorOf(bytes)};
    return success();
  }
  values[op.getResult()] = {e.vectorOf(isLate ? words : e.inPlace(words)),
                            e.vectorOf(e.inPlace(bytes))};
  return success();
}

LogicalResult KernelLowering::lowerRoundLike(RoundLikeOp op) {
  SmallVector<Value> x = e.elements(get(op.getSource()));
  Type element = tileInfo(op.getLike().getType()).element;
  if (isa<Float4E2M1FNType>(element))
    return unsupported(op, "expected 'like' to have a static exponent, but "
                           "got ")
           << op.getLike().getType();
  if (isa<ScaledType>(op.getLike().getType())) {
    // A static exponent: every block has the same byte.
    Value byte = e.extract(values.lookup(op.getLike())[1], 0);
    Value factor = inverseScaleOfByte(byte), scale = scaleOfByte(byte);
    for (Value &value : x) {
      Value scaled = e.op<arith::MulFOp>(value, factor);
      Value rounded =
          unpackF8Pair(e, packF8Pair(e, scaled, scaled, element), element)
              .first;
      value = e.op<arith::MulFOp>(rounded, scale);
    }
  } else if (!element.isF32()) {
    for (Value &value : x)
      value =
          e.op<arith::ExtFOp>(e.f32(), e.op<arith::TruncFOp>(element, value));
  }
  set(op.getResult(), e.fromElements(x));
  return success();
}
