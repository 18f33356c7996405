//===- ConvertFlamiaToNVVMNvfp4.cpp - Quantization to NVFP4 ---------------===//
//
// Rows of f32 to f4E2M1FN by f8E4M3FN, bit for bit as lib/Numerics divides:
// s = ue4m3(amax / 6 / g), code = e2m1(x / (s * g)).
//
// Scales are divided by a product with the reciprocal and one step that adds
// what is missing; elements, by products with both parts of a reciprocal in two
// floats. Where only the rounding of the quotient to E2M1 or UE4M3 counts, both
// are exact for all 2^23 significands of the divisor, and for whatever the
// hardware's approximation of the reciprocal is within its bound of one ulp
// (test/Unit/Numerics/QuotientTest.cpp tries them all).
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"
#include "passes/Staging.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <memory>

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

/// 1 / y rounded down, for y of four significant bits from 2^-100 to 2^100.
static Value reciprocalBelow(Emitter &e, Value y) {
  Value first = e.callIntrinsic("llvm.nvvm.rcp.approx.ftz.f", e.f32(), {y});
  Value rest = e.op<math::FmaOp>(e.op<arith::NegFOp>(first), y, e.cF32(1));
  return e.callIntrinsic("llvm.nvvm.fma.rm.f", e.f32(), {rest, first, first});
}

/// 1 / y as high + low, for y from 2^-48 to 2^48. low is not negative, so that
/// -0 / y is -0.
static std::pair<Value, Value> reciprocalPair(Emitter &e, Value y) {
  auto restOf = [&](Value r) -> Value {
    return e.op<math::FmaOp>(e.op<arith::NegFOp>(r), y, e.cF32(1));
  };
  Value first = e.callIntrinsic("llvm.nvvm.rcp.approx.ftz.f", e.f32(), {y});
  Value high = e.callIntrinsic("llvm.nvvm.fma.rm.f", e.f32(),
                               {restOf(first), first, first});
  Value low = e.op<arith::MulFOp>(restOf(high), high);
  // A significand of ones: 2^-k + 2^-(k+24) + 2^-(k+48), and the last counts.
  Value ones = e.c32(0x7FFFFF);
  Value isOnes = e.cmp(arith::CmpIPredicate::eq,
                       e.andi(e.bitcast(y, e.i32()), ones), ones);
  Value more =
      e.add(e.bitcast(low, e.i32()), e.op<arith::ExtUIOp>(e.i32(), isOnes));
  return {high, e.bitcast(more, e.f32())};
}

/// x / y from r = 1 / y. Neither may be so small or large that a step
/// leaves the range of normal floats, where the quotient's rounding counts.
static Value quotient(Emitter &e, Value x, Value y, Value r) {
  Value first = e.op<arith::MulFOp>(x, r);
  // With these signs -0 / y is -0.
  Value excess = e.op<math::FmaOp>(first, y, e.op<arith::NegFOp>(x));
  return e.op<math::FmaOp>(e.op<arith::NegFOp>(excess), r, first);
}

/// x / y from both parts of 1 / y. Where x is large enough for infinity, that.
static Value quotient(Emitter &e, Value x, std::pair<Value, Value> r) {
  return e.op<math::FmaOp>(x, r.first, e.op<arith::MulFOp>(x, r.second));
}

/// The second-level scale of the row as it is kept.
Value KernelLowering::globalScale(QuantizeOp op) {
  Value g = get(op.getGlobalScale());
  auto rotated = rotatedRows.find(op.getSource());
  return rotated == rotatedRows.end()
             ? g
             : e.op<arith::MulFOp>(g, rotated->second.scale);
}

/// Words of scale bytes, four blocks each; the rest of the last one is 0.
SmallVector<Value> KernelLowering::nvfp4Scales(QuantizeOp op,
                                               ArrayRef<Value> x) {
  ScaledType type = op.getResult().getType();
  int64_t blockCols = type.getBlockCols();
  // In place, or LLVM would keep what follows from it through loops.
  Value g = e.inPlace({globalScale(op)}).front();
  auto rotated = rotatedRows.find(op.getSource());
  Value perG = reciprocal(e, g);
  Value most = e.op<arith::MulFOp>(g, e.cF32(512));
  SmallVector<Value> scales;
  for (int64_t block = 0; block < type.getCols() / blockCols; ++block) {
    Value amax = rotated == rotatedRows.end()
                     ? largestMagnitude(x.slice(block * blockCols, blockCols))
                     : rotated->second.maxima[block];
    // NaN where amax is infinite or NaN, and stays so.
    Value sixth = quotient(e, amax, e.cF32(6), e.cF32(1.0f / 6.0f));
    // Beyond 464 g it saturates, and must not become infinite here.
    scales.push_back(quotient(e, e.op<LLVM::MinimumOp>(sixth, most), g, perG));
  }
  while (scales.size() % 4 != 0)
    scales.push_back(e.cF32(0));
  return e.elements(pack(scales, type.getScaleType()));
}

/// Not 0 where the row has a block whose scale is 0, NaN, saturated or rounded
/// to a subnormal number, from words of scale bytes.
Value KernelLowering::nvfp4Extremes(ArrayRef<Value> scaleWords,
                                    int64_t blocks) {
  Value ordinary;
  for (auto [index, word] : llvm::enumerate(scaleWords)) {
    // Bytes from 0x08 to 0x7D: these sums do not carry into the next byte.
    Value notSmall = e.addC(e.andi(word, e.c32(0x78787878)), 0x78787878);
    Value isLarge = e.addC(word, 0x02020202);
    int64_t used = std::min<int64_t>(blocks - 4 * int64_t(index), 4);
    Value others =
        e.c32(used == 4 ? 0 : int64_t(int32_t(0x80808080u << 8 * used)));
    Value word8 = e.ori(
        e.andi(notSmall, e.xori(isLarge, e.c32(int32_t(0x80808080)))), others);
    ordinary = ordinary ? e.andi(ordinary, word8) : word8;
  }
  Value high = e.c32(int32_t(0x80808080));
  return e.xori(e.andi(ordinary, high), high);
}

/// The words (8 elements each) of block `block`, from its row's elements and
/// its word of scales. Unless `version` is Rare its scale is an ordinary
/// number; where it is Short, the second-level scale is a power of two.
SmallVector<Value> KernelLowering::nvfp4Words(QuantizeOp op, ArrayRef<Value> x,
                                              Value scaleWord, int64_t block,
                                              Version version,
                                              ArrayRef<Value> wordsBeside) {
  ScaledType type = op.getResult().getType();
  int64_t blockCols = type.getBlockCols();
  Value scale = unpack(e.vectorOf(scaleWord), type.getScaleType())[block % 4];
  Value g = globalScale(op), isUsed;
  // Where quotients are wanted times 2^-6.
  if (arch == "sm_90")
    g = e.op<arith::MulFOp>(g, e.cF32(64));
  Value divisor = e.op<arith::MulFOp>(scale, g);
  if (version == Version::Rare) {
    isUsed = e.op<arith::CmpFOp>(arith::CmpFPredicate::OGT, scale,
                                 e.cF32(0)); // neither 0 nor NaN
    divisor = e.select(isUsed, divisor, e.cF32(1));
  }
  ArrayRef<Value> part = x.slice(block * blockCols, blockCols);
  SmallVector<Value> words;
  if (arch == "sm_90") {
    words = nvfp4WordsByAdding(part, divisor, version, wordsBeside);
  } else {
    auto reciprocal = reciprocalPair(e, divisor);
    for (int64_t first = 0; first < blockCols; first += 8) {
      SmallVector<Value> bytes;
      for (int64_t i = first; i < first + 8; i += 2)
        bytes.push_back(e.op<NVVM::ConvertF32x2ToF4x2Op>(
            e.b.getI8Type(), quotient(e, part[i + 1], reciprocal),
            quotient(e, part[i], reciprocal), e.b.getBoolAttr(false),
            TypeAttr::get(e.b.getType<Float4E2M1FNType>())));
      words.push_back(e.op<LLVM::BitcastOp>(e.i32(), e.vectorOf(bytes)));
    }
  }
  if (isUsed)
    for (Value &word : words)
      word = e.select(isUsed, word, e.c32(0));
  return words;
}

/// The words of 64 x / divisor as E2M1 without the instruction.
///
/// Quotients times 2^-6, where E2M1 and E4M3 are subnormal alike, are rounded
/// to E2M1 by adding and subtracting 1.5 * 2^22 times their power of two (ulp:
/// half a power, 2^-7 at least). Then the E4M3 code is 4 times that of E2M1.
/// The sign is that of x, so that -0 stays. Quotients are below 7, unless
/// `version` is Rare. Where it is Short, the divisor has four significant bits:
/// then the magnitude's product with the reciprocal, both rounded to what is
/// away from the other, rounds to the same code as the quotient. `wordsBeside`:
/// x in an 8-bit format, if it is at hand.
SmallVector<Value>
KernelLowering::nvfp4WordsByAdding(ArrayRef<Value> x, Value divisor,
                                   Version version,
                                   ArrayRef<Value> wordsBeside) {
  bool isRare = version == Version::Rare, isShort = version == Version::Short;
  std::pair<Value, Value> reciprocal =
      isShort ? std::pair(reciprocalBelow(e, divisor), Value())
              : reciprocalPair(e, divisor);
  auto round = [&](Value value) -> Value {
    Value q =
        isShort ? e.callIntrinsic("llvm.nvvm.mul.rp.f", e.f32(),
                                  {e.op<math::AbsFOp>(value), reciprocal.first})
                : quotient(e, value, reciprocal);
    Value power =
        e.bitcast(e.andi(e.bitcast(q, e.i32()), e.c32(0x7F800000)), e.f32());
    power = e.op<LLVM::MaxNumOp>(power, e.cF32(0x1p-6f));
    Value sum = e.op<math::FmaOp>(power, e.cF32(0x1.8p22f), q);
    return e.op<math::FmaOp>(power, e.cF32(-0x1.8p22f), sum);
  };
  // Every second element, in one word.
  Type code = e.b.getType<Float8E4M3FNType>();
  auto wordFrom = [&](size_t first, size_t end,
                      llvm::function_ref<Value(Value)> change) {
    SmallVector<Value> part;
    for (size_t i = first; i < end; i += 2)
      part.push_back(change(x[i]));
    return e.elements(pack(part, code))[0];
  };
  auto signsFrom = [&](size_t first, size_t end) -> Value {
    if (isShort && !wordsBeside.empty()) {
      size_t word = first / 8 * 2;
      return e.callIntrinsic("llvm.nvvm.prmt", e.i32(),
                             {wordsBeside[word], wordsBeside[word + 1],
                              e.c32(first % 2 ? 0x7531 : 0x6420)});
    }
    // What versions compute alike LLVM takes in front of the branch between
    // them, and keeps. So some read the opposite signs.
    if (isShort)
      return wordFrom(first, end, [](Value value) { return value; });
    Value word = wordFrom(first, end, [&](Value value) -> Value {
      return e.op<arith::NegFOp>(value);
    });
    return e.xori(word, e.c32(-1));
  };
  auto codesFrom = [&](size_t first, size_t end) -> Value {
    Value word = wordFrom(first, end, round);
    if (!isRare)
      return word;
    // Codes that are too large, that of NaN from infinity too, become that of
    // 6.
    Value isLarge =
        e.andi(e.ori(e.shr(word, 5), e.shr(word, 6)), e.c32(0x01010101));
    return e.ori(word, e.mulC(isLarge, 0x1C));
  };
  auto bits = [&](Value value, int64_t mask) {
    return e.andi(value, e.c32(int64_t(int32_t(mask))));
  };
  SmallVector<Value> words;
  for (size_t first = 0, end = 8; first < x.size(); first = end, end += 8) {
    Value even = codesFrom(first, end), odd = codesFrom(first + 1, end);
    Value evenSign = signsFrom(first, end);
    Value oddSign = signsFrom(first + 1, end);
    Value codes = e.ori(bits(e.shr(even, 2), 0x07070707),
                        bits(e.shl(odd, 2), 0x70707070));
    Value signs =
        e.ori(bits(e.shr(evenSign, 4), 0x08080808), bits(oddSign, 0x80808080));
    words.push_back(e.ori(codes, signs));
  }
  return words;
}

/// Whether the payload `first` goes to memory before `second` does.
static bool isStoredBefore(Value first, Value second) {
  auto storeOf = [](Value payload) -> Operation * {
    Operation *store = nullptr;
    for (Operation *user : payload.getUsers())
      if (isa<StorePayloadOp>(user)) {
        if (store)
          return nullptr;
        store = user;
      }
    return store;
  };
  Operation *one = storeOf(first), *other = storeOf(second);
  return one && other && one->getBlock() == other->getBlock() &&
         one->isBeforeInBlock(other);
}

LogicalResult KernelLowering::lowerQuantizeNvfp4(QuantizeOp op,
                                                 ArrayRef<Value> x) {
  ScaledType type = op.getResult().getType();
  if (type.getBlockRows() != 1)
    return unsupported(op, "expected scale blocks of one row, but got ")
           << type.getBlockRows() << " rows";
  SmallVector<Value> scaleWords = e.inPlace(nvfp4Scales(op, x));
  int64_t blocks = type.getCols() / type.getBlockCols();
  SmallVector<Value> bytes, words;
  for (int64_t block = 0; block < blocks; ++block)
    bytes.push_back(
        e.andi(e.shr(scaleWords[block / 4], 8 * (block % 4)), e.c32(255)));
  Value extremes = nvfp4Extremes(scaleWords, blocks);
  // Where there are none, a block's scale pretends to need the word before it:
  // ptxas would work on more blocks at once than registers hold.
  auto before = std::make_shared<Value>();
  // Another payload of this row, if it is stored later.
  Value beside;
  if (auto rotated = rotatedRows.find(op.getSource());
      rotated != rotatedRows.end() && deferred.count(rotated->second.payload) &&
      isStoredBefore(op.getResult(), rotated->second.payload))
    beside = rotated->second.payload;
  auto wordsBeside = std::make_shared<SmallVector<Value>>();
  auto round = [this, op, row = SmallVector<Value>(x), scaleWords, extremes,
                before, beside, wordsBeside,
                wordsOfBlock = type.getBlockCols() / 4](int64_t block,
                                                        Version version) {
    if (block == 0)
      wordsBeside->clear();
    if (beside)
      for (int64_t word = 0; word < wordsOfBlock; ++word)
        wordsBeside->append(deferred.lookup(beside).round(
            block * wordsOfBlock + word, version));
    Value scaleWord = scaleWords[block / 4];
    if (block > 0 && version == Version::Ordinary)
      scaleWord = e.ori(scaleWord, e.andi(*before, extremes));
    ArrayRef<Value> all = *wordsBeside;
    SmallVector<Value> words =
        nvfp4Words(op, row, scaleWord, block, version,
                   beside ? all.take_back(wordsOfBlock) : ArrayRef<Value>());
    *before = words.front();
    return words;
  };
  if (roundsWhereStored(op)) {
    Value significand =
        e.andi(e.bitcast(get(op.getGlobalScale()), e.i32()), e.c32(0x7FFFFF));
    Value isRare =
        anyOfWarp(e.cmp(arith::CmpIPredicate::ne, extremes, e.c32(0)));
    if (beside)
      isRare = e.ori(isRare, deferred.lookup(beside).isRare);
    Value isShort;
    if (arch == "sm_90")
      isShort = e.cmp(arith::CmpIPredicate::eq, significand, e.c32(0));
    deferred[op.getResult()] = {
        round, type.getBlockCols() / 8, isRare, isShort, beside, wordsBeside};
    values[op.getResult()] = {Value(), e.vectorOf(bytes)};
    return success();
  }
  for (int64_t block = 0; block < blocks; ++block)
    words.append(round(block, Version::Rare));
  values[op.getResult()] = {e.vectorOf(e.inPlace(words)), e.vectorOf(bytes)};
  return success();
}
