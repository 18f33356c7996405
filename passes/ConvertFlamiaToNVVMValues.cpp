//===- ConvertFlamiaToNVVMValues.cpp - Tile values and control flow -------===//
//
// Emitter, lowered types, and the ops that compute on rows in registers:
// constants, arith and math on tiles, masks, reductions, the rotation, scf.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "mlir/IR/Matchers.h"

#include "flamia/Numerics/Quantize.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// Longest row of a tile in registers: beyond it a thread would spill.
static constexpr int64_t kMaxCols = 512;

//===----------------------------------------------------------------------===//
// Emitter
//===----------------------------------------------------------------------===//

Value Emitter::c32(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, i32(), int64_t(int32_t(value)));
}
Value Emitter::c64(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, i64(), value);
}
Value Emitter::cIndex(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}
Value Emitter::cF32(float value) {
  return op<arith::ConstantOp>(b.getF32FloatAttr(value));
}
Value Emitter::splat(Type type, Attribute element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return op<arith::ConstantOp>(
        cast<TypedAttr>(DenseElementsAttr::get(vector, element)));
  return op<arith::ConstantOp>(cast<TypedAttr>(element));
}
Value Emitter::shl(Value x, int64_t bits) {
  Value amount = x.getType().isInteger(64) ? c64(bits) : c32(bits);
  return op<arith::ShLIOp>(x, amount);
}
Value Emitter::shr(Value x, int64_t bits) {
  Value amount = x.getType().isInteger(64) ? c64(bits) : c32(bits);
  return op<arith::ShRUIOp>(x, amount);
}
Value Emitter::addC(Value x, int64_t y) {
  if (y == 0)
    return x;
  return add(x, x.getType().isInteger(64) ? c64(y) : c32(y));
}
Value Emitter::mulC(Value x, int64_t y) {
  if (y == 1)
    return x;
  return mul(x, x.getType().isInteger(64) ? c64(y) : c32(y));
}
Value Emitter::toI64(Value x) {
  if (x.getType().isIndex())
    return op<arith::IndexCastOp>(i64(), x);
  return x.getType().isInteger(64) ? x : op<arith::ExtUIOp>(i64(), x);
}
Value Emitter::toIndex(Value x) {
  return op<arith::IndexCastOp>(b.getIndexType(), x);
}
SmallVector<Value> Emitter::elements(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return {value};
  SmallVector<Value> result;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    result.push_back(extract(value, i));
  return result;
}
Value Emitter::fromElements(ArrayRef<Value> elements) {
  return elements.size() == 1 ? elements.front() : vectorOf(elements);
}
Value Emitter::vectorOf(ArrayRef<Value> elements) {
  return op<vector::FromElementsOp>(
      vec(elements.size(), elements.front().getType()), elements);
}
Value Emitter::callIntrinsic(StringRef name, Type result,
                             ArrayRef<Value> args) {
  return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name),
                                       args)
      .getResult(0);
}
void Emitter::callVoidIntrinsic(StringRef name, ArrayRef<Value> args) {
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(name), args);
}
SmallVector<Value> Emitter::inPlace(ArrayRef<Value> values) {
  std::string constraints;
  for (Value value : values)
    constraints += value.getType().isF32() ? "=f," : "=r,";
  for (size_t i = 0; i < values.size(); ++i)
    constraints += std::to_string(i) + ",";
  constraints.pop_back();
  SmallVector<Type> types(ValueRange(values).getTypes());
  Type result = types.size() == 1
                    ? types.front()
                    : LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  Value tie = op<LLVM::InlineAsmOp>(
      result, values, /*asm_string=*/"", constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  if (types.size() == 1)
    return {tie};
  SmallVector<Value> results;
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back(
        op<LLVM::ExtractValueOp>(tie, ArrayRef<int64_t>{int64_t(i)}));
  return results;
}
void Emitter::ifThen(Value condition, function_ref<void()> body) {
  auto op = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  body();
}
Values Emitter::ifElse(Value condition, function_ref<Values()> thenBody,
                       function_ref<Values()> elseBody) {
  auto emit = [&](function_ref<Values()> body) {
    return [&, body](OpBuilder &builder, Location location) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(builder.getInsertionBlock(),
                          builder.getInsertionPoint());
      scf::YieldOp::create(b, location, body());
    };
  };
  auto op =
      scf::IfOp::create(b, loc, condition, emit(thenBody), emit(elseBody));
  return Values(op.getResults());
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

bool lowering::isTile(Type type) {
  return isa<RankedTensorType, ScaledType>(type);
}

TileInfo lowering::tileInfo(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return {scaled.getRows(), scaled.getCols(), scaled.getElementType(), true};
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.getRank() != 2)
    return {-1, -1, tensor.getElementType(), false};
  return {tensor.getDimSize(0), tensor.getDimSize(1), tensor.getElementType(),
          false};
}

/// Refuses tiles that one row a thread cannot hold.
LogicalResult KernelLowering::checkTiles(Operation *op) {
  auto check = [&](Type type) -> LogicalResult {
    if (!isTile(type))
      return success();
    TileInfo tile = tileInfo(type);
    if (tile.rows < 0 || tile.cols < 1)
      return unsupported(op, "expected a two-dimensional tile of static "
                             "extents, but got ")
             << type;
    if (tile.rows != 128 && (tile.rows != 1 || tile.isScaled))
      return unsupported(op, "expected tiles of 128 rows (one a thread) or "
                             "column vectors, but got ")
             << type;
    if (tile.cols > kMaxCols)
      return unsupported(op, "expected rows of at most ")
             << kMaxCols << " columns, but got " << type;
    if (!isa<Float32Type, BFloat16Type, Float16Type, Float8E4M3FNType,
             Float8E5M2Type, Float4E2M1FNType>(tile.element) &&
        !tile.element.isInteger(1) && !tile.element.isInteger(32))
      return unsupported(op, "expected elements of type f32, bf16, f16, "
                             "f8E4M3FN, f8E5M2, f4E2M1FN, i1 or i32, but got ")
             << type;
    int64_t bits = tile.element.getIntOrFloatBitWidth();
    if ((tile.isPacked() && tile.cols * bits % 32 != 0) ||
        (tile.cols == 1 && bits == 8))
      return unsupported(op, "expected rows of whole 32-bit words, but got ")
             << type;
    return success();
  };
  for (Type type :
       llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                                SmallVector<Type>(op->getResultTypes())))
    if (failed(check(type)))
      return failure();
  return success();
}

LogicalResult KernelLowering::lowerTypes(Operation *op, Type type,
                                         SmallVectorImpl<Type> &types) {
  if (!isTile(type)) {
    types.push_back(type);
    return success();
  }
  TileInfo tile = tileInfo(type);
  if (tile.isPacked())
    types.push_back(
        e.vec(tile.cols * tile.element.getIntOrFloatBitWidth() / 32, e.i32()));
  else if (tile.cols == 1)
    types.push_back(tile.element);
  else
    types.push_back(e.vec(tile.cols, tile.element));
  if (auto scaled = dyn_cast<ScaledType>(type))
    types.push_back(e.vec(scaled.getCols() / scaled.getBlockCols(), e.i32()));
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerConstant(arith::ConstantOp op) {
  if (!isTile(op.getType())) {
    set(op.getResult(), e.b.clone(*op)->getResult(0));
    return success();
  }
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  TileInfo tile = tileInfo(op.getType());
  SmallVector<Type> types;
  (void)lowerTypes(op, op.getType(), types);
  if (dense && dense.isSplat()) {
    Attribute element = dense.getSplatValue<Attribute>();
    if (tile.isPacked()) {
      APInt bits = cast<FloatAttr>(element).getValue().bitcastToAPInt();
      element = e.b.getIntegerAttr(e.i32(), APInt::getSplat(32, bits));
    }
    set(op.getResult(), e.splat(types.front(), element));
    return success();
  }
  if (dense && tile.rows == 1 && !tile.isPacked()) {
    set(op.getResult(), e.op<arith::ConstantOp>(cast<TypedAttr>(
                            dense.reshape(cast<VectorType>(types.front())))));
    return success();
  }
  return unsupported(op, "expected a tile constant with equal elements, or a "
                         "column vector of f32");
}

/// Clones `op` on lowered operands. Packed operands are widened to f32 first
/// and the result rounded back: exact for single operations, because f32 has
/// more than twice the significand of both 16-bit types.
LogicalResult KernelLowering::lowerElementwise(Operation *op) {
  if (!isa<arith::SelectOp>(op) &&
      llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ScaledType>))
    return unsupported(op, "arithmetic on a scaled tile");
  if (op->getNumRegions() || op->getNumSuccessors())
    return unsupported(op, "unexpected region");
  // A scalar condition selects whole words, and the scales with them.
  if (auto select = dyn_cast<arith::SelectOp>(op))
    if (!isTile(select.getCondition().getType())) {
      Values result;
      for (auto [x, y] : llvm::zip(values.lookup(select.getTrueValue()),
                                   values.lookup(select.getFalseValue())))
        result.push_back(e.select(get(select.getCondition()), x, y));
      values[select.getResult()] = result;
      return success();
    }
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value lowered = get(operand);
    if (isTile(operand.getType()) && tileInfo(operand.getType()).isPacked())
      lowered =
          e.vectorOf(unpack(lowered, tileInfo(operand.getType()).element));
    mapping.map(operand, lowered);
  }
  // One max.f32; arith-expand would write comparisons for NaN.
  Operation *clone = isa<arith::MaxNumFOp>(op)
                         ? LLVM::MaxNumOp::create(
                               e.b, e.loc, mapping.lookup(op->getOperand(0)),
                               mapping.lookup(op->getOperand(1)))
                         : e.b.clone(*op, mapping);
  for (auto [old, result] : llvm::zip(op->getResults(), clone->getResults())) {
    SmallVector<Type> types;
    if (failed(lowerTypes(op, old.getType(), types)))
      return failure();
    if (isTile(old.getType()) && tileInfo(old.getType()).isPacked()) {
      result.setType(e.vec(tileInfo(old.getType()).cols, e.f32()));
      set(old, pack(e.elements(result), tileInfo(old.getType()).element));
      continue;
    }
    result.setType(types.front());
    set(old, result);
  }
  return success();
}

/// truncf and extf of tiles.
LogicalResult KernelLowering::lowerCast(Operation *op) {
  TileInfo from = tileInfo(op->getOperand(0).getType());
  TileInfo to = tileInfo(op->getResult(0).getType());
  Value source = get(op->getOperand(0));
  if (from.cols == 1)
    return lowerElementwise(op);
  // In place, or LLVM would keep what flamia-split-columns makes twice.
  SmallVector<Value> elements =
      from.isPacked()
          ? unpack(e.vectorOf(e.inPlace(e.elements(source))), from.element)
          : e.elements(source);
  set(op->getResult(0),
      to.isPacked() ? pack(elements, to.element) : e.fromElements(elements));
  return success();
}

/// exp2 and log2 are the hardware's approximations; sqrt, ceil, floor, fma and
/// abs are exact.
LogicalResult KernelLowering::lowerMath(Operation *op) {
  StringRef intrinsic;
  if (isa<math::Exp2Op>(op))
    intrinsic = "llvm.nvvm.ex2.approx.ftz.f32";
  else if (isa<math::Log2Op>(op))
    intrinsic = "llvm.nvvm.lg2.approx.f";
  else if (isa<math::RsqrtOp>(op))
    intrinsic = "llvm.nvvm.rsqrt.approx.f";
  else if (isa<math::CeilOp, math::FloorOp, math::FmaOp, math::AbsFOp,
               math::SqrtOp>(op))
    return lowerElementwise(op);
  else
    return unsupported(op, "expected math.exp2, log2, ceil, floor, fma, absf, "
                           "sqrt or rsqrt");
  Value source = op->getOperand(0);
  bool packed =
      isTile(source.getType()) && tileInfo(source.getType()).isPacked();
  Type element = isTile(source.getType()) ? tileInfo(source.getType()).element
                                          : source.getType();
  if (!element.isF32() && !packed)
    return unsupported(op, "expected elements of type f32, but got ")
           << element;
  SmallVector<Value> elements =
      packed ? unpack(get(source), element) : e.elements(get(source));
  for (Value &x : elements)
    x = e.callIntrinsic(intrinsic, e.f32(), x);
  set(op->getResult(0),
      packed ? pack(elements, element) : e.fromElements(elements));
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  SmallVector<Value> inits;
  SmallVector<size_t> counts;
  for (Value init : op.getInitArgs()) {
    Values lowered = values.lookup(init);
    counts.push_back(lowered.size());
    llvm::append_range(inits, lowered);
  }
  LogicalResult result = success();
  auto loop = scf::ForOp::create(
      e.b, e.loc, get(op.getLowerBound()), get(op.getUpperBound()),
      get(op.getStep()), inits,
      [&](OpBuilder &builder, Location location, Value iv, ValueRange args) {
        OpBuilder::InsertionGuard guard(e.b);
        e.b.setInsertionPoint(builder.getInsertionBlock(),
                              builder.getInsertionPoint());
        set(op.getInductionVar(), iv);
        size_t next = 0;
        for (auto [arg, count] : llvm::zip(op.getRegionIterArgs(), counts)) {
          values[arg] = Values(args.slice(next, count));
          next += count;
        }
        for (Operation &inner : op.getBody()->without_terminator())
          if (failed(lowerOp(&inner))) {
            result = failure();
            break;
          }
        SmallVector<Value> yields;
        if (succeeded(result))
          for (Value value : op.getBody()->getTerminator()->getOperands())
            llvm::append_range(yields, values.lookup(value));
        else
          yields.assign(args.begin(), args.end());
        scf::YieldOp::create(e.b, location, yields);
      });
  size_t next = 0;
  for (auto [value, count] : llvm::zip(op.getResults(), counts)) {
    values[value] = Values(loop.getResults().slice(next, count));
    next += count;
  }
  return result;
}

LogicalResult KernelLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> types;
  SmallVector<size_t> counts;
  for (Type type : op.getResultTypes()) {
    size_t before = types.size();
    if (failed(lowerTypes(op, type, types)))
      return failure();
    counts.push_back(types.size() - before);
  }
  bool withElse = !op.getElseRegion().empty();
  auto lowered =
      scf::IfOp::create(e.b, e.loc, types, get(op.getCondition()), withElse);
  auto emit = [&](Block *from, Block *to) -> LogicalResult {
    OpBuilder::InsertionGuard guard(e.b);
    if (!to->empty())
      to->getTerminator()->erase();
    e.b.setInsertionPointToEnd(to);
    for (Operation &inner : from->without_terminator())
      if (failed(lowerOp(&inner)))
        return failure();
    SmallVector<Value> yields;
    for (Value value : from->getTerminator()->getOperands())
      llvm::append_range(yields, values.lookup(value));
    scf::YieldOp::create(e.b, e.loc, yields);
    return success();
  };
  if (failed(emit(op.thenBlock(), lowered.thenBlock())) ||
      (withElse && failed(emit(op.elseBlock(), lowered.elseBlock()))))
    return failure();
  size_t next = 0;
  for (auto [value, count] : llvm::zip(op.getResults(), counts)) {
    values[value] = Values(lowered.getResults().slice(next, count));
    next += count;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Flamia ops on values
//===----------------------------------------------------------------------===//

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
  // columns, in registers. Where these are short, every mask compares other
  // numbers.
  if (vectorRegisters) {
    differentBound += 1 << 10;
    offset += differentBound;
    if (high)
      high = e.addC(high, differentBound);
    if (low)
      low = e.addC(low, differentBound);
  }
  for (auto [c, x] : llvm::enumerate(elements)) {
    Value index = e.c32(offset + int64_t(c));
    if (bits)
      x = e.select(e.cmp(arith::CmpIPredicate::ne,
                         e.andi(bits, e.c32(int64_t(1) << c)), e.c32(0)),
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
  auto flipSigns = [&] {
    for (int64_t c = 0; c < n; ++c)
      if (numerics::rotationSign(c) < 0)
        x[c] = e.op<arith::NegFOp>(x[c]);
  };
  if (!op.getInverse())
    flipSigns();
  for (int64_t h = 1; h < n; h *= 2)
    for (int64_t i = 0; i < n; ++i)
      if (!(i & h)) {
        Value a = x[i], b = x[i + h];
        // In this order: LLVM's own keeps twice as many values.
        SmallVector<Value> pair =
            e.inPlace({e.op<arith::AddFOp>(a, b), e.op<arith::SubFOp>(a, b)});
        x[i] = pair[0];
        x[i + h] = pair[1];
      }
  Value factor = e.cF32(float(1.0 / std::sqrt(double(n))));
  for (Value &value : x)
    value = e.op<arith::MulFOp>(value, factor);
  if (op.getInverse())
    flipSigns();
  set(op.getResult(), e.fromElements(x));
  return success();
}

void KernelLowering::lowerDim(DimOp op) {
  set(op.getResult(), e.toIndex(dimParam(op.getSource(), op.getDimension())));
}

/// Index of the document's last tile, -1 without tokens.
Value KernelLowering::lastTile(ArrayRef<Value> workItem) {
  Value tokens = e.sub(workItem[1], workItem[0]);
  return e.op<arith::ShRSIOp>(e.addC(tokens, -1), e.c32(7));
}

/// CTAs start in the order of their x, then y. With y in n groups the grid is
/// (X * Y / n, n), and CTAs that follow each other differ in the program's y
/// first, as long as they are of one group.
void KernelLowering::emitProgram() {
  if (workItems.empty())
    return;
  Value item = programId(GridAxis::X);
  auto terms = kernel.getGrid();
  groupsY = terms.size() == 2 && isa<ArrayAttr>(terms[1]);
  if (groupsY) {
    auto term = cast<ArrayAttr>(terms[1]);
    Value extent = e.trunc32(
        dimParam(kernel.getArgNamed(cast<StringAttr>(term[0]).getValue()),
                 cast<IntegerAttr>(term[1]).getInt()));
    if (int64_t tile = cast<IntegerAttr>(term[2]).getInt(); tile != 1)
      extent = e.op<arith::DivUIOp>(e.addC(extent, tile - 1), e.c32(tile));
    Value size = e.op<arith::DivUIOp>(extent, e.op<NVVM::GridDimYOp>(e.i32()));
    programX = e.op<arith::DivUIOp>(item, size);
    programY = e.add(e.mul(e.op<NVVM::BlockIdYOp>(e.i32()), size),
                     e.sub(item, e.mul(programX, size)));
    item = programX;
  }
  for (auto &[work, fields] : workItems) {
    params[cast<BlockArgument>(work).getArgNumber()].read = true;
    Value address = e.gep(pointerParam(work), e.shl(e.toI64(item), 4));
    Value entry = e.op<LLVM::LoadOp>(e.vec(4, e.i32()), address, 16);
    for (int64_t i = 0; i < 4; ++i)
      fields.push_back(e.extract(entry, i));
    Value some = e.cmp(arith::CmpIPredicate::sle, fields[2], lastTile(fields));
    hasTokens = hasTokens ? e.andi(hasTokens, some) : some;
  }
}

void KernelLowering::lowerProgramId(ProgramIdOp op) {
  set(op.getResult(), e.toIndex(e.toI64(programId(op.getAxis()))));
}

Value KernelLowering::programId(GridAxis axis) {
  if (axis == GridAxis::Z)
    return e.op<NVVM::BlockIdZOp>(e.i32());
  if (groupsY)
    return axis == GridAxis::X ? programX : programY;
  return (axis == GridAxis::X) != swapsGrid ? e.op<NVVM::BlockIdXOp>(e.i32())
                                            : e.op<NVVM::BlockIdYOp>(e.i32());
}

void KernelLowering::lowerWorkItem(WorkItemOp op) {
  SmallVector<Value> fields = workItems[op.getWork()];
  if (op.getFromEnd())
    fields[2] = e.sub(lastTile(fields), fields[2]);
  for (auto [field, result] : llvm::zip(fields, op.getResults()))
    set(result, e.toIndex(e.toI64(field)));
}
