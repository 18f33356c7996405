//===- ConvertFlamiaToNVVMNvfp4.cpp - Quantization to NVFP4 ---------------===//
//
// Rows of f32 to f4E2M1FN by f8E4M3FN, bit for bit as lib/Numerics divides:
// s = ue4m3(amax / 6 / g), code = e2m1(x / (s * g)).
//
// Divisions are a product with the reciprocal and one step that adds what is
// missing. Where only the rounding of the quotient to E2M1 or UE4M3 counts,
// that is exact for all 2^23 significands of the divisor, and for whatever the
// hardware's approximation of the reciprocal is within its bound of one ulp
// (test/Unit/Numerics/QuotientTest.cpp tries them all).
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"
#include "passes/Staging.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// 1 / y, for y from 2^-42 to 2^42. The step does not round the reciprocal of a
/// significand of ones to nearest, as the quotients need it: 2^-k + 2^-(k+23).
static Value reciprocal(Emitter &e, Value y) {
  Value first = e.callIntrinsic("llvm.nvvm.rcp.approx.ftz.f", e.f32(), {y});
  Value rest = e.op<math::FmaOp>(e.op<arith::NegFOp>(first), y, e.cF32(1));
  Value result = e.op<math::FmaOp>(rest, first, first);
  Value bits = e.bitcast(y, e.i32());
  Value isOnes = e.cmp(arith::CmpIPredicate::eq, e.andi(bits, e.c32(0x7FFFFF)),
                       e.c32(0x7FFFFF));
  return e.select(isOnes, e.bitcast(e.sub(e.c32(0x7F000000), bits), e.f32()),
                  result);
}

/// x / y from r = 1 / y. Neither may be so small or large that a step
/// leaves the range of normal floats, where the quotient's rounding counts.
static Value quotient(Emitter &e, Value x, Value y, Value r) {
  Value first = e.op<arith::MulFOp>(x, r);
  // With these signs -0 / y is -0.
  Value excess = e.op<math::FmaOp>(first, y, e.op<arith::NegFOp>(x));
  return e.op<math::FmaOp>(e.op<arith::NegFOp>(excess), r, first);
}

/// Words of scale bytes, four blocks each; the rest of the last one is 0.
SmallVector<Value> KernelLowering::nvfp4Scales(QuantizeOp op,
                                               ArrayRef<Value> x) {
  ScaledType type = op.getResult().getType();
  int64_t blockCols = type.getBlockCols();
  // In place, or LLVM would keep what follows from it through loops.
  Value g = e.inPlace({get(op.getGlobalScale())}).front();
  Value perG = reciprocal(e, g);
  Value most = e.op<arith::MulFOp>(g, e.cF32(512));
  SmallVector<Value> scales;
  for (int64_t block = 0; block < type.getCols() / blockCols; ++block) {
    Value amax;
    for (Value value : x.slice(block * blockCols, blockCols)) {
      Value magnitude = e.op<math::AbsFOp>(value);
      amax = amax ? e.op<LLVM::MaximumOp>(amax, magnitude) : magnitude;
    }
    Value sixth = quotient(e, amax, e.cF32(6), e.cF32(1.0f / 6.0f));
    // Beyond 464 g it saturates, and must not become infinite here.
    Value scale = quotient(e, e.op<arith::MinNumFOp>(sixth, most), g, perG);
    // False for NaN and infinity, whose byte is that of NaN.
    Value isFinite =
        e.op<arith::CmpFOp>(arith::CmpFPredicate::OLE, amax,
                            e.cF32(std::numeric_limits<float>::max()));
    scales.push_back(e.select(isFinite, scale,
                              e.cF32(std::numeric_limits<float>::quiet_NaN())));
  }
  while (scales.size() % 4 != 0)
    scales.push_back(e.cF32(0));
  return e.elements(pack(scales, type.getScaleType()));
}

/// The words (8 elements each) of block `block`, from its row's elements and
/// words of scales.
SmallVector<Value> KernelLowering::nvfp4Words(QuantizeOp op, ArrayRef<Value> x,
                                              ArrayRef<Value> scaleWords,
                                              int64_t block) {
  ScaledType type = op.getResult().getType();
  int64_t blockCols = type.getBlockCols();
  Value scale = unpack(scaleWords[block / 4], type.getScaleType())[block % 4];
  Value isUsed = e.op<arith::CmpFOp>(arith::CmpFPredicate::OGT, scale,
                                     e.cF32(0)); // neither 0 nor NaN
  Value divisor = e.select(
      isUsed, e.op<arith::MulFOp>(scale, get(op.getGlobalScale())), e.cF32(1));
  Value perDivisor = reciprocal(e, divisor);

  // Magnitudes beyond 6 saturate. They are below 7 where the scale is rounded
  // to a normal number and not saturated, and the conversions need no help.
  SmallVector<Value> part(x.slice(block * blockCols, blockCols));
  auto compare = [&](arith::CmpFPredicate predicate, float bound) {
    return e.op<arith::CmpFOp>(predicate, scale, e.cF32(bound));
  };
  Value isCoarse = e.ori(compare(arith::CmpFPredicate::OGE, 448),
                         compare(arith::CmpFPredicate::OLT, 0x1p-6f));
  Values clamped = e.ifElse(
      isCoarse,
      [&] {
        Value high = e.op<arith::MulFOp>(divisor, e.cF32(6));
        Value low = e.op<arith::NegFOp>(high);
        Values result;
        for (Value value : part)
          result.push_back(
              e.op<arith::MaxNumFOp>(e.op<arith::MinNumFOp>(value, high), low));
        return result;
      },
      [&] { return Values(part.begin(), part.end()); });

  SmallVector<Value> words;
  for (size_t first = 0; first < clamped.size(); first += 8)
    words.push_back(e.select(
        isUsed,
        nvfp4Word(ArrayRef(clamped).slice(first, 8), divisor, perDivisor),
        e.c32(0)));
  return words;
}

/// Eight quotients x / divisor below 7 as E2M1.
Value KernelLowering::nvfp4Word(ArrayRef<Value> x, Value divisor,
                                Value perDivisor) {
  if (arch != "sm_90") {
    SmallVector<Value> bytes;
    for (size_t i = 0; i < 8; i += 2)
      bytes.push_back(e.op<NVVM::ConvertF32x2ToF4x2Op>(
          e.b.getI8Type(), quotient(e, x[i + 1], divisor, perDivisor),
          quotient(e, x[i], divisor, perDivisor), e.b.getBoolAttr(false),
          TypeAttr::get(e.b.getType<Float4E2M1FNType>())));
    return e.op<LLVM::BitcastOp>(e.i32(), e.vectorOf(bytes));
  }
  // Without an instruction: quotients times 2^-6, where E2M1 and E4M3 are
  // subnormal alike, rounded to E2M1 by adding and subtracting 1.5 * 2^22 times
  // their power of two (ulp: half a power, 2^-7 at least). Then the E4M3 code
  // is 4 times that of E2M1. The sign is that of x, so that -0 stays.
  Value large = e.op<arith::MulFOp>(divisor, e.cF32(64));
  Value perLarge = e.op<arith::MulFOp>(perDivisor, e.cF32(0x1p-6f));
  Type code = e.b.getType<Float8E4M3FNType>();
  auto roundToE2M1 = [&](Value value) {
    Value q = quotient(e, value, large, perLarge);
    Value power =
        e.bitcast(e.andi(e.bitcast(q, e.i32()), e.c32(0x7F800000)), e.f32());
    power = e.op<arith::MaxNumFOp>(power, e.cF32(0x1p-6f));
    Value sum = e.op<math::FmaOp>(power, e.cF32(0x1.8p22f), q);
    return e.op<math::FmaOp>(power, e.cF32(-0x1.8p22f), sum);
  };
  // Every second element, in one word.
  auto wordFrom = [&](size_t first, bool isRounded) {
    SmallVector<Value> part;
    for (size_t i = first; i < 8; i += 2)
      part.push_back(isRounded ? roundToE2M1(x[i]) : x[i]);
    return e.elements(pack(part, code))[0];
  };
  auto bits = [&](Value value, int64_t mask) {
    return e.andi(value, e.c32(int64_t(int32_t(mask))));
  };
  Value even = wordFrom(0, true), odd = wordFrom(1, true);
  Value evenSign = wordFrom(0, false), oddSign = wordFrom(1, false);
  Value codes =
      e.ori(bits(e.shr(even, 2), 0x07070707), bits(e.shl(odd, 2), 0x70707070));
  Value signs =
      e.ori(bits(e.shr(evenSign, 4), 0x08080808), bits(oddSign, 0x80808080));
  return e.ori(codes, signs);
}

LogicalResult KernelLowering::lowerQuantizeNvfp4(QuantizeOp op,
                                                 ArrayRef<Value> x) {
  ScaledType type = op.getResult().getType();
  if (type.getBlockRows() != 1)
    return unsupported(op, "expected scale blocks of one row, but got ")
           << type.getBlockRows() << " rows";
  SmallVector<Value> scaleWords = e.inPlace(nvfp4Scales(op, x));
  SmallVector<Value> bytes, words;
  for (int64_t block = 0; block < type.getCols() / type.getBlockCols(); ++block)
    bytes.push_back(
        e.andi(e.shr(scaleWords[block / 4], 8 * (block % 4)), e.c32(255)));
  auto round = [this, op, row = SmallVector<Value>(x),
                scaleWords](int64_t block) {
    return nvfp4Words(op, row, scaleWords, block);
  };
  if (roundsWhereStored(op)) {
    deferred[op.getResult()] = {round, type.getBlockCols() / 8};
    values[op.getResult()] = {Value(), e.vectorOf(bytes)};
    return success();
  }
  for (size_t block = 0; block < bytes.size(); ++block)
    words.append(round(int64_t(block)));
  values[op.getResult()] = {e.vectorOf(e.inPlace(words)), e.vectorOf(bytes)};
  return success();
}
