//===- ConvertFlamiaToNVVMRows.cpp - Flamia ops on rows -----------------===//
//
// Constants, sums and maxima of a row, masks, the rotation.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "flamia/Numerics/Quantize.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// The two 16-bit halves of a word, from one 16-bit scalar.
static Value pairWord(Emitter &e, Value scalar) {
  Value half =
      e.op<arith::ExtUIOp>(e.i32(), e.bitcast(scalar, e.b.getIntegerType(16)));
  return e.ori(half, e.shl(half, 16));
}

static Value splatRow(Emitter &e, Value scalar, TileInfo tile) {
  if (tile.cols == 1)
    return scalar;
  if (tile.isPacked())
    return e.op<vector::BroadcastOp>(e.vec(tile.cols / 2, e.i32()),
                                     pairWord(e, scalar));
  return e.op<vector::BroadcastOp>(e.vec(tile.cols, scalar.getType()), scalar);
}

void KernelLowering::lowerFull(FullOp op) {
  Value value = get(op.getValue());
  // A product of products is computed here, where registers are short: LLVM
  // would keep what it is computed from until it is used.
  Operation *made = value.getDefiningOp();
  if (vectorRegisters && made && value.getType().isF32() &&
      llvm::any_of(made->getOperands(), [](Value operand) {
        return operand.getDefiningOp<arith::MulFOp>() != nullptr;
      }))
    value = e.inPlace(value).front();
  set(op.getResult(), splatRow(e, value, tileInfo(op.getType())));
}

LogicalResult KernelLowering::lowerBroadcast(BroadcastOp op) {
  TileInfo from = tileInfo(op.getSource().getType());
  TileInfo to = tileInfo(op.getType());
  if (from.cols != to.cols && from.cols != 1)
    return unsupported(op, "source and result columns differ");
  set(op.getResult(), from.cols == to.cols
                          ? get(op.getSource())
                          : splatRow(e, get(op.getSource()), to));
  return success();
}

/// Adds columns to the eight partial sums of a row sum, which travel as <2 x
/// f32>: sm_100 adds these in one instruction.
void KernelLowering::addToSums(SmallVectorImpl<Value> &pairs,
                               ArrayRef<Value> x) {
  for (size_t i = 0; i < x.size(); i += 2) {
    // -0 is what a sum does not notice.
    Value pair =
        e.vectorOf({x[i], i + 1 < x.size() ? x[i + 1] : e.cF32(-0.0f)});
    if (pairs.size() < 4)
      pairs.push_back(pair);
    else
      pairs[i / 2 % 4] = e.op<arith::AddFOp>(pairs[i / 2 % 4], pair);
  }
}

/// The row sum from its partial sums, as a tree.
Value KernelLowering::finishSum(ArrayRef<Value> pairs) {
  SmallVector<Value> p;
  for (Value pair : pairs)
    p.append(e.elements(pair));
  auto sum = [&](Value a, Value b) { return e.op<arith::AddFOp>(a, b); };
  return sum(sum(sum(p[0], p[4]), sum(p[2], p[6])),
             sum(sum(p[1], p[5]), sum(p[3], p[7])));
}

void KernelLowering::lowerReduce(ReduceOp op) {
  if (Value total = summed.lookup(op.getResult())) {
    set(op.getResult(), total);
    return;
  }
  Value source = get(op.getSource());
  auto type = dyn_cast<VectorType>(source.getType());
  if (op.getKind() == ReduceKind::AbsMax)
    source = e.op<math::AbsFOp>(source);
  if (!type) {
    set(op.getResult(), source);
    return;
  }
  if (op.getKind() != ReduceKind::Sum) {
    set(op.getResult(),
        e.op<vector::ReductionOp>(vector::CombiningKind::MAXNUMF, source));
    return;
  }
  // The order that every part of flamia shares: eight partial sums, then a
  // tree. Fewer than eight columns: left to right.
  SmallVector<Value> x = e.elements(source);
  auto sum = [&](Value a, Value b) { return e.op<arith::AddFOp>(a, b); };
  if (x.size() < 8) {
    Value total = x[0];
    for (Value value : llvm::drop_begin(x))
      total = sum(total, value);
    set(op.getResult(), total);
    return;
  }
  SmallVector<Value> pairs;
  addToSums(pairs, x);
  // LLVM would move the additions behind waits that follow, and all columns
  // would live that long.
  set(op.getResult(), e.inPlace(finishSum(pairs)).front());
}

/// The columns [low, high) that a mask keeps, counted from `first`.
std::pair<Value, Value> KernelLowering::maskBounds(MaskOp op, Value first) {
  // Chunks of one tile follow each other and share their bounds.
  auto isKnown = [&](MaskOp other) {
    return other && bounds.block == e.b.getBlock() && bounds.first == first &&
           other.getRows() == op.getRows() &&
           other.getLimit() == op.getLimit() &&
           other.getWindow() == op.getWindow() &&
           other.getCausal() == op.getCausal() &&
           other.getTransposed() == op.getTransposed();
  };
  if (isKnown(bounds.op))
    return {bounds.low, bounds.high};
  // Clamped in 64 bits, compared in 32.
  Value rowToken = e.add(i64(op.getRows()), e.toI64(row));
  Value start = i64(first);
  // Any large number will do as the most. One of the thread's own keeps ptxas
  // from comparing in uniform registers, of which it runs out.
  Value most = e.addC(e.toI64(row), 1 << 20), zero = e.c64(0);
  auto clamp = [&](Value x) {
    return e.trunc32(e.op<arith::MaxSIOp>(e.op<arith::MinSIOp>(x, most), zero));
  };
  Value high, low;
  auto atMost = [&](Value end) {
    high = high ? e.op<arith::MinSIOp>(high, end) : end;
  };
  bool transposed = op.getTransposed();
  if (op.getCausal()) {
    if (transposed)
      low = e.sub(rowToken, start);
    else
      atMost(e.sub(e.addC(rowToken, 1), start));
  }
  if (op.getLimit())
    atMost(e.sub(i64(op.getLimit()), start));
  if (Value window = op.getWindow()) {
    if (transposed)
      atMost(e.sub(e.add(e.addC(rowToken, 1), i64(window)), start));
    else
      low = e.sub(e.sub(rowToken, i64(window)), start);
  }
  // In place: LLVM would compare all columns with the 64-bit bounds.
  if (high)
    high = e.inPlace(clamp(high)).front();
  if (low)
    low = e.inPlace(clamp(low)).front();
  bounds = {op, e.b.getBlock(), first, low, high};
  return {low, high};
}

void KernelLowering::lowerMask(MaskOp op) {
  Value first = op.getCols();
  int64_t offset = 0;
  if (auto sum = first.getDefiningOp<arith::AddIOp>())
    if (APInt constant; matchPattern(sum.getRhs(), m_ConstantInt(&constant)) &&
                        constant.isNonNegative() && constant.ult(1 << 16)) {
      first = sum.getLhs();
      offset = constant.getZExtValue();
    }
  auto [low, high] = maskBounds(op, first);
  Value masked =
      e.cF32(op.getZero() ? 0.0f : -std::numeric_limits<float>::infinity());
  SmallVector<Value> elements = e.elements(get(op.getSource()));
  // Two bounds of few columns are one word of bits: half the instructions.
  Value bits;
  if (high && low && int64_t(elements.size()) < 32) {
    auto below = [&](Value end) {
      Value here = e.op<arith::MaxSIOp>(e.addC(end, -offset), e.c32(0));
      return e.op<arith::ShLIOp>(
          e.c32(-1),
          e.op<arith::MinSIOp>(here, e.c32(int64_t(elements.size()))));
    };
    bits =
        e.inPlace(e.andi(below(low), e.xori(below(high), e.c32(-1)))).front();
    high = low = Value();
  }
  // ptxas would keep the results of comparisons for the next mask of the same
  // columns, in registers or bit by bit in one. Where registers are short,
  // every mask compares other numbers, or tests other bits.
  int64_t firstBit = 0;
  if (vectorRegisters) {
    differentBound += 1 << 10;
    offset += differentBound;
    if (bits) {
      firstBit = (differentBound >> 10) % (32 - int64_t(elements.size()));
      bits = e.inPlace(e.op<arith::ShLIOp>(bits, e.c32(firstBit))).front();
    }
    if (high)
      high = e.addC(high, differentBound);
    if (low)
      low = e.addC(low, differentBound);
  }
  for (auto [c, x] : llvm::enumerate(elements)) {
    Value index = e.c32(offset + int64_t(c));
    if (bits)
      x = e.select(e.cmp(arith::CmpIPredicate::ne,
                         e.andi(bits, e.c32(int64_t(1) << (firstBit + c))),
                         e.c32(0)),
                   x, masked);
    if (high)
      x = e.select(e.cmp(arith::CmpIPredicate::sgt, high, index), x, masked);
    if (low)
      x = e.select(e.cmp(arith::CmpIPredicate::sle, low, index), x, masked);
  }
  set(op.getResult(), e.fromElements(elements));
}

LogicalResult KernelLowering::lowerHadamard(HadamardOp op) {
  SmallVector<Value> x = e.elements(get(op.getSource()));
  int64_t n = x.size();
  if (!llvm::isPowerOf2_64(n))
    return unsupported(op, "expected a power of two of columns, but got ") << n;
  if (!op.getInverse())
    for (int64_t c = 0; c < n; ++c)
      if (numerics::rotationSign(c) < 0)
        x[c] = e.op<arith::NegFOp>(x[c]);
  // Sums and differences of two neighbours at a time where the hardware has
  // instructions for two; not where registers are bounded for several CTAs to
  // share an SM, because pairs are bound to each other.
  bool inPairs = tmemColumns > 0 && n > 1;
  for (int64_t h = 1; h < n; h *= 2) {
    int64_t width = inPairs && h > 1 ? 2 : 1;
    for (int64_t i = 0; i < n; i += width)
      if (!(i & h)) {
        MutableArrayRef<Value> low(&x[i], width), high(&x[i + h], width);
        Value a = width > 1 ? e.vectorOf(low) : low[0];
        Value b = width > 1 ? e.vectorOf(high) : high[0];
        Value sum = e.op<arith::AddFOp>(a, b);
        Value difference = e.op<arith::SubFOp>(a, b);
        SmallVector<Value> both{sum, difference};
        if (width > 1) {
          both = e.elements(sum);
          llvm::append_range(both, e.elements(difference));
        }
        // In this order: LLVM's own keeps twice as many values.
        both = e.inPlace(both);
        llvm::copy(ArrayRef(both).take_front(width), low.begin());
        llvm::copy(ArrayRef(both).drop_front(width), high.begin());
      }
  }
  float factor = float(1.0 / std::sqrt(double(n)));
  if (Value payload = payloadOfRotatedRow(op)) {
    setScaledRow(op, payload, x, e.cF32(factor));
    return success();
  }
  Value plus = e.cF32(factor), minus = op.getInverse() ? e.cF32(-factor) : plus;
  auto factorOf = [&](int64_t c) {
    return numerics::rotationSign(c) < 0 ? minus : plus;
  };
  if (inPairs) {
    for (int64_t c = 0; c < n; c += 2) {
      Value product =
          e.op<arith::MulFOp>(e.vectorOf(ArrayRef(x).slice(c, 2)),
                              e.vectorOf({factorOf(c), factorOf(c + 1)}));
      llvm::copy(e.elements(product), x.begin() + c);
    }
  } else {
    for (int64_t c = 0; c < n; ++c)
      x[c] = e.op<arith::MulFOp>(x[c], factorOf(c));
  }
  set(op.getResult(), e.fromElements(x));
  return success();
}
