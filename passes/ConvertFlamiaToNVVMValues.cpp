//===- ConvertFlamiaToNVVMValues.cpp - Tile values and control flow -------===//
//
// Lowered types, arith and math on tiles, scf, and the program's place in the
// grid.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// Longest row of a tile in registers: beyond it a thread would spill.
static constexpr int64_t kMaxCols = 512;

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
  loop.setUnsignedCmp(op.getUnsignedCmp());
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
// Extents and the grid
//===----------------------------------------------------------------------===//

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
  groupsY = terms.size() >= 2 && isa<ArrayAttr>(terms[1]);
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

void KernelLowering::lowerNumPrograms(NumProgramsOp op) {
  // Only the extent along z can be left to the launch.
  set(op.getResult(), e.toIndex(e.toI64(e.op<NVVM::GridDimZOp>(e.i32()))));
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
