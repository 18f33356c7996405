//===- ConvertFlamiaToNVVMExponents.cpp - Scale bytes as numbers ----------===//
//
// Exponents of E8M0 scales as f32 and back, their powers of two, maxima over
// rows, and shifts of scale bytes. NaN stands for the byte 255 throughout.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include <limits>

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// The barrier that the four warps of vector code meet at.
static constexpr int64_t kVectorBarrier = 1;

static Value isNaN(Emitter &e, Value x) {
  return e.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x);
}

/// byte - 127 as f32.
Value KernelLowering::exponentOfByte(Value byte) {
  Value exponent = e.op<arith::SIToFPOp>(e.f32(), e.addC(byte, -127));
  Value isByteNaN = e.cmp(arith::CmpIPredicate::eq, byte, e.c32(255));
  return e.select(isByteNaN, e.cF32(std::numeric_limits<float>::quiet_NaN()),
                  exponent);
}

/// The byte `start + offset`, 0 to 247 or constant, after a shift: 0 to 254,
/// and 255 for a NaN shift or where `isNumber` is there and false.
Value KernelLowering::shiftByte(Value start, int64_t offset, Value isNumber,
                                Value shift, int64_t shiftBy) {
  Value sum;
  if (shift) {
    // Beyond 512 either way every byte is at an end.
    Value clamped = e.op<arith::MinNumFOp>(
        e.op<arith::MaxNumFOp>(shift, e.cF32(-512.0f)), e.cF32(512.0f));
    sum = e.add(start, e.addC(e.op<arith::FPToSIOp>(e.i32(), clamped),
                              offset + shiftBy));
    Value isShift =
        e.op<arith::CmpFOp>(arith::CmpFPredicate::ORD, shift, shift);
    isNumber = isNumber ? e.andi(isNumber, isShift) : isShift;
  } else {
    sum = e.addC(start, offset + shiftBy);
  }
  if (shift || shiftBy < 0)
    sum = e.op<arith::MaxSIOp>(sum, e.c32(0));
  if (shift || shiftBy > 0)
    sum = e.op<arith::MinSIOp>(sum, e.c32(254));
  return isNumber ? e.select(isNumber, sum, e.c32(255)) : sum;
}

void KernelLowering::lowerExponents(ExponentsOp op) {
  Value byte = e.extract(values.lookup(op.getSource())[1], 0);
  set(op.getResult(), exponentOfByte(byte));
}

LogicalResult KernelLowering::lowerPayload(PayloadOp op) {
  TileInfo tile = tileInfo(op.getSource().getType());
  if (isa<Float4E2M1FNType>(tile.element))
    return unsupported(op, "expected payloads of 8-bit elements, but got ")
           << op.getSource().getType();
  Value words = values.lookup(op.getSource())[0];
  // Columns of it are unpacked where they are used.
  bool inParts = llvm::all_of(op->getUsers(), llvm::IsaPred<tcgen::SliceOp>);
  set(op.getResult(),
      inParts ? words : e.fromElements(unpack(words, tile.element)));
  return success();
}

/// 2^x as the product of two normal powers: exact where it is representable,
/// subnormals included.
void KernelLowering::lowerPow2(Pow2Op op) {
  SmallVector<Value> elements = e.elements(get(op.getSource()));
  for (Value &x : elements) {
    Value clamped = e.op<arith::MinNumFOp>(
        e.op<arith::MaxNumFOp>(x, e.cF32(-252.0f)), e.cF32(254.0f));
    Value exponent = e.op<arith::FPToSIOp>(e.i32(), clamped);
    Value half = e.op<arith::ShRSIOp>(exponent, e.c32(1));
    auto power = [&](Value y) {
      return e.bitcast(e.shl(e.addC(y, 127), 23), e.f32());
    };
    Value result =
        e.op<arith::MulFOp>(power(half), power(e.sub(exponent, half)));
    x = e.select(isNaN(e, x), e.cF32(std::numeric_limits<float>::quiet_NaN()),
                 result);
  }
  set(op.getResult(), e.fromElements(elements));
}

//===----------------------------------------------------------------------===//
// Scale atoms
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerLoadExponents(LoadExponentsOp op) {
  params[cast<BlockArgument>(op.getScales()).getArgNumber()].read = true;
  // The four bytes of the thread's row.
  Value offset = e.add(e.shl(lane, 4), e.shl(e.andi(warp, e.c32(3)), 2));
  Value word = e.op<LLVM::LoadOp>(
      e.i32(),
      globalPointer(op.getScales(), {i64(op.getIndices()[0]),
                                     i64(op.getIndices()[1]), e.toI64(offset)}),
      4);
  SmallVector<Value> exponents;
  for (int64_t block = 0; block < tileInfo(op.getType()).cols; ++block)
    exponents.push_back(
        exponentOfByte(e.andi(e.shr(word, 8 * block), e.c32(255))));
  set(op.getResult(), e.fromElements(exponents));
  return success();
}

LogicalResult KernelLowering::lowerStoreExponents(StoreExponentsOp op) {
  Value target = op.getTarget();
  params[cast<BlockArgument>(target).getArgNumber()].written = true;
  SmallVector<Value> bytes;
  for (Value exponent : e.elements(get(op.getValue()))) {
    Value clamped = e.op<arith::MinNumFOp>(
        e.op<arith::MaxNumFOp>(exponent, e.cF32(-127.0f)), e.cF32(127.0f));
    Value byte = e.addC(e.op<arith::FPToSIOp>(e.i32(), clamped), 127);
    bytes.push_back(e.select(isNaN(e, exponent), e.c32(255), byte));
  }
  auto byteOf = [&](int64_t block) {
    return bytes.size() == 1 ? bytes.front() : bytes[block];
  };
  Value rows = i64(op.getRows()), cols = i64(op.getCols());
  Value group = e.andi(warp, e.c32(3)), laneOffset = e.shl(lane, 4);
  auto isBelow = [&](Value x, Value end) {
    return e.cmp(arith::CmpIPredicate::slt, e.toI64(x), end);
  };
  auto store = [&](Value offset, Value value, int64_t align) {
    Value pointer =
        globalPointer(target, {i64(op.getIndices()[0]), i64(op.getIndices()[1]),
                               e.toI64(offset)});
    LLVM::StoreOp::create(e.b, e.loc, value, pointer, align);
  };
  if (op.getAlong() == Axis::Cols) {
    // One word: the thread's row, four blocks of 32 columns.
    Value word;
    for (int64_t block = 0; block < 4; ++block) {
      Value byte =
          e.select(isBelow(e.c32(32 * block), cols), byteOf(block), e.c32(127));
      Value part = e.shl(byte, 8 * block);
      word = word ? e.ori(word, part) : part;
    }
    word = e.select(isBelow(row, rows), word, e.c32(0x7F7F7F7F));
    store(e.add(laneOffset, e.shl(group, 2)), word, 4);
    return success();
  }
  // The warp's 32 rows are one block, of which the first row's byte counts; the
  // thread writes it for columns lane, lane + 32, ... of the tile.
  for (int64_t part = 0; part < 4; ++part) {
    Value byte = e.op<NVVM::ShflOp>(e.i32(), e.c32(-1), byteOf(part), e.c32(0),
                                    e.c32(31), NVVM::ShflKind::idx, UnitAttr());
    Value counts = e.andi(isBelow(e.shl(group, 5), rows),
                          isBelow(e.addC(lane, 32 * part), cols));
    byte = e.select(counts, byte, e.c32(127));
    store(e.add(e.addC(laneOffset, 4 * part), group),
          e.op<arith::TruncIOp>(e.b.getI8Type(), byte), 1);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Maxima over rows
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerReduceRows(ReduceRowsOp op) {
  int64_t by = op.getBy();
  if (by != 128 && (by > 32 || 32 % by != 0))
    return unsupported(op, "expected blocks of 128 rows, or a power of two up "
                           "to 32, but got ")
           << by;
  SmallVector<Value> elements = e.elements(get(op.getSource()));
  Value low = e.cF32(-std::numeric_limits<float>::infinity()), end;
  if (op.getRows())
    end = i64(op.getRows());
  auto isBelow = [&](Value index) {
    return e.cmp(arith::CmpIPredicate::slt, e.toI64(index), end);
  };
  auto larger = [&](Value x, Value y) { return e.op<arith::MaximumFOp>(x, y); };
  for (auto [index, x] : llvm::enumerate(elements)) {
    if (end)
      x = e.select(isBelow(row), x, low);
    for (int64_t distance = 1; distance < std::min<int64_t>(by, 32);
         distance *= 2) {
      Value bits = e.op<NVVM::ShflOp>(e.i32(), e.c32(-1), e.bitcast(x, e.i32()),
                                      e.c32(distance), e.c32(31),
                                      NVVM::ShflKind::bfly, UnitAttr());
      x = larger(x, e.bitcast(bits, e.f32()));
    }
    if (by == 128) {
      // The warps exchange their maxima in shared memory.
      Value base = e.addC(smemBase, bufferBytes + barrierBytes + 16);
      auto meet = [&] {
        NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), e.c32(kVectorBarrier),
                                e.c32(128), NVVM::BarrierReductionAttr(),
                                Value());
      };
      Value mine = e.add(base, e.shl(e.andi(warp, e.c32(3)), 2));
      e.ifThen(e.cmp(arith::CmpIPredicate::eq, lane, e.c32(0)), [&, x = x] {
        LLVM::StoreOp::create(e.b, e.loc, x, e.intToPtr(mine, Shared), 4);
      });
      meet();
      SmallVector<Value> all = e.elements(
          e.op<LLVM::LoadOp>(e.vec(4, e.f32()), e.intToPtr(base, Shared), 16));
      x = larger(larger(all[0], all[1]), larger(all[2], all[3]));
      // All have read before the next exchange writes.
      meet();
    }
    if (end) {
      Value first = e.andi(row, e.c32(-by));
      x = e.select(isBelow(first), x, e.cF32(0));
    }
  }
  set(op.getResult(), e.fromElements(elements));
  return success();
}
