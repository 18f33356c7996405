//===- ConvertFlamiaToNVVMMemory.cpp - Loads and stores of global tensors -===//
//
// Each thread reads or writes its own row, in accesses of up to 16 bytes under
// one predicate a row; columns are checked one by one only where the tile may
// reach past the extent.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Strides.h"
#include "passes/ConvertFlamiaToNVVM.h"
#include "passes/Staging.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

LogicalResult KernelLowering::checkAccess(Operation *op, Value memref,
                                          Type element, OperandRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  if (!isa<BlockArgument>(memref) || type.getRank() < 1 ||
      type.getRank() != int64_t(indices.size()))
    return unsupported(op, "expected a kernel argument with one index a "
                           "dimension, but got ")
           << indices.size() << " indices for " << type;
  if (!hasAdjacentColumns(type))
    return unsupported(op, "expected a row-major tensor or one with last "
                           "stride 1, but got ")
           << type;
  if (type.getElementType() != element)
    return unsupported(op, "tile and tensor elements differ: ")
           << element << " and " << type.getElementType();
  // TMA and payload stores move packed elements as bytes.
  if (element.getIntOrFloatBitWidth() < 8 &&
      !isa<tcgen::TmaLoadOp, StorePayloadOp>(op))
    return unsupported(op, "expected elements of whole bytes, but got ")
           << element;
  // The launch knows extents only, so what is wrong for all of them is found
  // here or not at all.
  for (Value index : indices)
    if (APInt constant;
        matchPattern(index, m_ConstantInt(&constant)) && constant.isNegative())
      return unsupported(op, "expected indices that are not negative, but got ")
             << constant.getSExtValue();
  return success();
}

Value KernelLowering::globalOffset(Value memref, ArrayRef<Value> indices) {
  auto type = cast<MemRefType>(memref.getType());
  Value offset = indices.front();
  if (isStrided(type)) {
    offset = indices.back();
    for (size_t d = 0; d + 1 < indices.size(); ++d)
      offset = e.add(e.mul(indices[d], strideParam(memref, d)), offset);
  } else {
    // Horner's rule: ((i0 * d1 + i1) * d2 + i2) * element bytes.
    for (size_t d = 1; d < indices.size(); ++d)
      offset = e.add(e.mul(offset, dimParam(memref, d)), indices[d]);
  }
  // Two packed elements are a byte; an access starts at a whole one.
  int64_t bits = type.getElementTypeBitWidth();
  return bits < 8 ? e.shr(offset, llvm::Log2_64(8 / bits))
                  : e.mulC(offset, bits / 8);
}

Value KernelLowering::globalPointer(Value memref, ArrayRef<Value> indices) {
  Value offset = globalOffset(memref, indices);
  return e.gep(pointerParam(memref), offset);
}

Value KernelLowering::rowPointer(Value memref, OperandRange indices,
                                 int64_t rows) {
  SmallVector<Value> lowered;
  for (Value index : indices)
    lowered.push_back(i64(index));
  if (rows > 1)
    lowered.front() = e.add(lowered.front(), e.toI64(row));
  return globalPointer(memref, lowered);
}

/// What is known of a column: a divisor, and the largest it can be. Constant,
/// or that of a warpgroup's part.
static std::optional<std::pair<int64_t, int64_t>> knownColumn(Value column) {
  if (APInt constant; matchPattern(column, m_ConstantInt(&constant)))
    return std::pair(constant.getSExtValue(), constant.getSExtValue());
  if (auto group = column.getDefiningOp<tcgen::GroupOp>())
    return std::pair<int64_t, int64_t>(
        1, group->getParentOfType<tcgen::RoleOp>().getWarps() /
                   tcgen::kGroupWarps -
               1);
  Operation *op = column.getDefiningOp();
  if (!isa_and_nonnull<arith::AddIOp, arith::MulIOp>(op))
    return std::nullopt;
  auto a = knownColumn(op->getOperand(0)), b = knownColumn(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  if (isa<arith::MulIOp>(op))
    return std::pair(a->first * b->first, a->second * b->second);
  return std::pair(std::gcd(a->first, b->first), a->second + b->second);
}

std::pair<int64_t, bool>
KernelLowering::accessWidth(Value memref, OperandRange indices, int64_t cols) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t bits = type.getElementTypeBitWidth();
  int64_t bytes = std::max<int64_t>(1, bits / 8);
  int64_t extent = type.getShape().back();
  auto column = knownColumn(indices.back());
  if (!column || ShapedType::isDynamic(extent) ||
      column->second + cols > extent)
    return {bytes, true};
  int64_t width = std::gcd<int64_t>(16 * 8, cols * bits);
  width = std::gcd(width, column->first * bits);
  // A launch refuses strides that are not multiples of 16 bytes.
  if (type.getRank() > 1 && !isStrided(type))
    width = std::gcd(width, extent * bits);
  return {width / 8, false};
}

Value KernelLowering::rowInRange(Value memref, OperandRange indices,
                                 int64_t rows, Value limit) {
  if (cast<MemRefType>(memref.getType()).getRank() == 1)
    return rows == 1 ? Value()
                     : e.cmp(arith::CmpIPredicate::slt, e.toI64(row), e.c64(1));
  Value index = i64(indices.front());
  if (rows > 1)
    index = e.add(index, e.toI64(row));
  // A limit past the extent must not reach past the tensor.
  Value end = dimParam(memref, 0);
  if (limit)
    end = e.op<arith::MinSIOp>(i64(limit), end);
  return e.cmp(arith::CmpIPredicate::slt, index, end);
}

Value KernelLowering::columnInRange(Value memref, OperandRange indices,
                                    int64_t col) {
  int64_t last = cast<MemRefType>(memref.getType()).getRank() - 1;
  return e.cmp(arith::CmpIPredicate::slt, e.addC(i64(indices.back()), col),
               dimParam(memref, last));
}

LogicalResult KernelLowering::lowerLoad(LoadOp op) {
  Value memref = op.getSource();
  TileInfo tile = tileInfo(op.getType());
  if (failed(checkAccess(op, memref, tile.element, op.getIndices())))
    return failure();
  params[cast<BlockArgument>(memref).getArgNumber()].read = true;
  SmallVector<Type> types;
  (void)lowerTypes(op, op.getType(), types);
  auto [width, check] = accessWidth(memref, op.getIndices(), tile.cols);
  int64_t bytes = tile.element.getIntOrFloatBitWidth() / 8;
  Value pointer = rowPointer(memref, op.getIndices(), tile.rows);

  auto loadOne = [&](Type type, int64_t offset, int64_t align) -> Value {
    return e.op<LLVM::LoadOp>(type, e.gep(pointer, offset), align);
  };
  auto loadColumn = [&, check = check](int64_t col, Type type) -> Value {
    auto load = [&]() -> Values { return {loadOne(type, col * bytes, bytes)}; };
    if (!check)
      return load().front();
    return e
        .ifElse(
            columnInRange(memref, op.getIndices(), col), load,
            [&]() -> Values { return {e.splat(type, e.b.getZeroAttr(type))}; })
        .front();
  };
  auto loadRow = [&, width = width, check = check]() -> Values {
    if (tile.cols == 1)
      return {loadColumn(0, tile.element)};
    SmallVector<Value> words; // 32-bit words, or single elements
    if (width >= 4 && !check) {
      for (int64_t offset = 0; offset < tile.cols * bytes; offset += width) {
        Type type = width == 4 ? e.i32() : Type(e.vec(width / 4, e.i32()));
        words.append(e.elements(loadOne(type, offset, width)));
      }
    } else if (!tile.isPacked()) {
      for (int64_t col = 0; col < tile.cols; ++col)
        words.push_back(loadColumn(col, e.i32()));
    } else {
      Type narrow = e.b.getIntegerType(8 * bytes);
      for (int64_t col = 0; col < tile.cols; col += 4 / bytes) {
        Value word;
        for (int64_t i = 0; i < 4 / bytes; ++i) {
          Value part =
              e.shl(e.op<arith::ExtUIOp>(e.i32(), loadColumn(col + i, narrow)),
                    8 * bytes * i);
          word = word ? e.ori(word, part) : part;
        }
        words.push_back(word);
      }
    }
    if (!tile.isPacked() && !tile.element.isInteger(32))
      for (Value &word : words)
        word = e.bitcast(word, tile.element);
    return {e.vectorOf(words)};
  };
  if (tile.rows == 1 && tile.cols > 1 && tmemColumns > 0)
    NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::LOAD);
  Value inRange = rowInRange(memref, op.getIndices(), tile.rows, op.getLimit());
  if (!inRange)
    set(op.getResult(), loadRow().front());
  else
    set(op.getResult(), e.ifElse(inRange, loadRow, [&]() -> Values {
                           Type type = types.front();
                           Type element = type;
                           if (auto vector = dyn_cast<VectorType>(type))
                             element = vector.getElementType();
                           return {e.splat(type, e.b.getZeroAttr(element))};
                         }).front());
  return success();
}

LogicalResult KernelLowering::lowerStore(Operation *op, Value value,
                                         Type element, int64_t rows,
                                         int64_t cols, Value target,
                                         OperandRange indices, Value limit) {
  int64_t span = stagedSpan(op->getOperand(0).getType());
  if (failed(checkAccess(op, target, element, indices)))
    return failure();
  params[cast<BlockArgument>(target).getArgNumber()].written = true;
  auto [width, check] = accessWidth(target, indices, cols);
  int64_t bits = element.getIntOrFloatBitWidth(), bytes = bits / 8;
  if (bits < 8 && (check || width < 4))
    return unsupported(op, "expected rows of packed elements that lie inside "
                           "the tensor and are a multiple of 4 bytes, but "
                           "got ")
           << cols << " columns";
  Value pointer = rowPointer(target, indices, rows);
  // Words of a payload that is rounded here are made in order, once each.
  auto late = deferred.find(op->getOperand(0));
  Version version = Version::Ordinary;
  SmallVector<Value> made;
  auto wordsOf = [&](int64_t first, int64_t count) {
    if (late == deferred.end() && made.empty())
      for (Value word : e.elements(value))
        made.push_back(e.bitcast(word, e.i32()));
    while (int64_t(made.size()) < first + count)
      made.append(late->second.round(
          int64_t(made.size()) / late->second.wordsOfBlock, version));
    return SmallVector<Value>(ArrayRef(made).slice(first, count));
  };
  auto storeOne = [&](Value stored, int64_t offset, int64_t align) {
    LLVM::StoreOp::create(e.b, e.loc, stored, e.gep(pointer, offset), align);
  };
  auto storeColumn = [&, check = check](int64_t col, Value stored) {
    if (!check)
      return storeOne(stored, col * bytes, bytes);
    e.ifThen(columnInRange(target, indices, col),
             [&] { storeOne(stored, col * bytes, bytes); });
  };
  auto storeRow = [&, width = width, check = check] {
    if (cols == 1)
      return storeColumn(0, value);
    if (width >= 4 && !check) {
      int64_t step = width / 4;
      for (int64_t i = 0; 32 * i < cols * bits; i += step)
        storeOne(e.fromElements(wordsOf(i, step)), 4 * i, width);
      return;
    }
    SmallVector<Value> words = e.elements(value);
    if (bytes == 4) {
      for (auto [col, word] : llvm::enumerate(words))
        storeColumn(col, e.bitcast(word, e.i32()));
      return;
    }
    Type narrow = e.b.getIntegerType(8 * bytes);
    for (int64_t col = 0; col < cols; ++col) {
      int64_t perWord = 4 / bytes;
      Value part = e.shr(words[col / perWord], 8 * bytes * (col % perWord));
      storeColumn(col, e.op<arith::TruncIOp>(narrow, part));
    }
  };
  bool isStaged = span && !check && width == 16 && stagingOffset >= 0;
  auto storeTile = [&] {
    if (isStaged)
      return storeStaged(target, indices, wordsOf, cols * bits / 8, span,
                         limit);
    Value inRange = rowInRange(target, indices, rows, limit);
    if (rows == 1) { // the same in all threads: one of them writes
      Value first = e.cmp(arith::CmpIPredicate::eq, row, e.c32(0));
      inRange = inRange ? e.andi(inRange, first) : first;
    }
    e.ifThen(inRange, storeRow);
  };
  if (late == deferred.end()) {
    storeTile();
    return success();
  }
  // Not where only threads whose row exists make words.
  bool hasBeside = late->second.beside && isStaged;
  auto storeIf = [&](Version chosen) {
    return [&, chosen]() -> Values {
      version = chosen;
      made.clear();
      storeTile();
      return hasBeside ? Values(llvm::ArrayRef(*late->second.wordsBeside))
                       : Values();
    };
  };
  auto isExpected = [&](Value condition, bool value) {
    return e.op<LLVM::ExpectOp>(
        condition, e.op<arith::ConstantOp>(e.b.getBoolAttr(value)));
  };
  auto storeOthers = [&]() -> Values {
    if (!late->second.isShort)
      return storeIf(Version::Ordinary)();
    return e.ifElse(isExpected(late->second.isShort, true),
                    storeIf(Version::Short), storeIf(Version::Ordinary));
  };
  Values beside = e.ifElse(isExpected(late->second.isRare, false),
                           storeIf(Version::Rare), storeOthers);
  if (hasBeside) {
    values[late->second.beside][0] = e.vectorOf(beside);
    deferred.erase(late->second.beside);
  }
  return success();
}

LogicalResult KernelLowering::lowerStoreLine(StoreOp op, TransposeOp line) {
  Value target = op.getTarget(), source = line.getSource();
  TileInfo tile = tileInfo(source.getType());
  if (!isRowVector(source.getType()))
    return unsupported(op, "expected a row vector along columns, but got ")
           << source.getType();
  if (failed(checkAccess(op, target, tile.element, op.getIndices())))
    return failure();
  params[cast<BlockArgument>(target).getArgNumber()].written = true;
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return i64(index); });
  Value column = indices.back() = e.add(indices.back(), e.toI64(row));
  int64_t last = cast<MemRefType>(target.getType()).getRank() - 1;
  Value inRange =
      e.cmp(arith::CmpIPredicate::slt, column, dimParam(target, last));
  if (Value rowExists =
          rowInRange(target, op.getIndices(), /*rows=*/1, op.getLimit()))
    inRange = e.andi(inRange, rowExists);
  e.ifThen(inRange, [&] {
    LLVM::StoreOp::create(e.b, e.loc, get(source),
                          globalPointer(target, indices),
                          tile.element.getIntOrFloatBitWidth() / 8);
  });
  return success();
}

/// Stores the rows that a warp's threads hold through shared memory, `span`
/// bytes of each at a time. Rows are swizzled as in operand images, so that
/// neither the writes by rows nor the reads by lines meet a bank twice.
void KernelLowering::storeStaged(Value target, OperandRange indices,
                                 RowWords words, int64_t rowBytes, int64_t span,
                                 Value limit) {
  int64_t chunks = span / 16, rowsAtOnce = 32 / chunks;
  Value group = e.andi(warp, e.c32(3));
  Value room = e.add(e.addC(base(smemBase), stagingOffset),
                     e.mulC(group, 32 * stagingSpan));
  // Row r of the warp lies at r * span, its 16-byte chunks exchanged by an
  // exclusive or with this; alignment to 1024 bytes makes a row's bits those of
  // its address. flip(r + s) = flip(r) ^ flip(s) where r and s share no bit.
  auto flip = [&](int64_t row) { return row * span / 8 & (span - 16); };
  auto flipOf = [&](Value row) {
    return e.andi(e.shr(e.mulC(row, span), 3), e.c32(span - 16));
  };
  auto at = [&](Value address, int64_t bits, int64_t offset) {
    Value place = e.addC(e.xori(address, e.c32(bits)), offset);
    return e.intToPtr(place, Shared);
  };

  // What this thread stores: a chunk of every rowsAtOnce-th row.
  Value myRow = e.shr(lane, llvm::Log2_64(chunks));
  Value myColumn = e.shl(e.andi(lane, e.c32(chunks - 1)), 4);
  Value from =
      e.add(e.add(room, e.mulC(myRow, span)), e.xori(myColumn, flipOf(myRow)));
  Value to = e.add(e.add(room, e.mulC(lane, span)), flipOf(lane));
  // In place, or LLVM would keep an address for each access through loops.
  SmallVector<Value> places = e.inPlace({to, from});
  SmallVector<Value> lowered;
  for (Value index : indices)
    lowered.push_back(i64(index));
  lowered.front() =
      e.add(lowered.front(), e.toI64(e.add(e.shl(group, 5), myRow)));
  Value end = dimParam(target, 0);
  if (limit)
    end = e.op<arith::MinSIOp>(i64(limit), end);
  Value left = e.sub(end, lowered.front());
  left = e.trunc32(
      e.op<arith::MaxSIOp>(e.op<arith::MinSIOp>(left, e.c64(32)), e.c64(0)));
  Value pointer = e.gep(globalPointer(target, lowered), e.toI64(myColumn));
  SmallVector<Value> next = lowered;
  next.front() = e.c64(rowsAtOnce);
  for (Value &index : llvm::drop_begin(next))
    index = e.c64(0);
  Value step = globalOffset(target, next);

  for (int64_t slab = 0; slab < rowBytes; slab += span) {
    // Earlier reads of the room come first.
    NVVM::SyncWarpOp::create(e.b, e.loc, e.c32(-1));
    for (int64_t byte = 0; byte < span; byte += 16)
      LLVM::StoreOp::create(e.b, e.loc, e.vectorOf(words((slab + byte) / 4, 4)),
                            at(places[0], byte, 0), 16);
    NVVM::SyncWarpOp::create(e.b, e.loc, e.c32(-1));
    Value line = e.gep(pointer, slab);
    for (int64_t first = 0; first < 32; first += rowsAtOnce) {
      Value chunk = e.op<LLVM::LoadOp>(
          e.vec(4, e.i32()), at(places[1], flip(first), first * span), 16);
      e.ifThen(e.cmp(arith::CmpIPredicate::sgt, left, e.c32(first)),
               [&] { LLVM::StoreOp::create(e.b, e.loc, chunk, line, 16); });
      line = e.gep(line, step);
    }
  }
}

//===----------------------------------------------------------------------===//
// Scale atoms
//===----------------------------------------------------------------------===//

/// An atom holds one byte for 32 elements along the contraction, or 16 of
/// NVFP4: blocks must not be finer.
LogicalResult KernelLowering::checkAtomBlocks(Operation *op, ScaledType type,
                                              Axis along) {
  int64_t block =
      along == Axis::Cols ? type.getBlockCols() : type.getBlockRows();
  int64_t unit = getScaleUnit(type.getScaleType());
  // Along rows a thread writes the bytes of 32 columns with one block each.
  if (block % unit != 0 ||
      (along == Axis::Rows && (unit != 32 || type.getBlockCols() % 32 != 0)))
    return unsupported(op, "expected scale blocks of a multiple of ")
           << unit << " elements along " << stringifyAxis(along) << ", but got "
           << type;
  return success();
}

Value KernelLowering::scaleByte(ScaledType type, Value scales, int64_t block) {
  int64_t unit = getScaleUnit(type.getScaleType());
  if (unit * block >= type.getCols())
    return e.c32(unit == 32 ? 127 : 0);
  return e.extract(scales, unit * block / type.getBlockCols());
}

/// Calls `store` with the parts of the atoms that this thread writes: row
/// group, block group, byte offset in the atom (i32), value. Along columns that
/// is a 32-bit word of its row's bytes, along rows the bytes of one column
/// each.
void KernelLowering::forEachAtomPart(
    ScaledType type, Value scales, Axis along, Value rowLimit,
    function_ref<void(int64_t, int64_t, Value, Value)> store) {
  Value laneOffset = e.shl(lane, 4), group = e.andi(warp, e.c32(3));
  auto counts = [&](Value first) {
    return e.cmp(arith::CmpIPredicate::slt, e.toI64(first), rowLimit);
  };
  if (along == Axis::Cols) {
    Value offset = e.add(laneOffset, e.shl(group, 2));
    int64_t unit = getScaleUnit(type.getScaleType());
    for (int64_t first = 0; unit * first < type.getCols(); first += 4) {
      Value word = scaleByte(type, scales, first);
      for (int64_t i = 1; i < 4; ++i)
        word = e.ori(word, e.shl(scaleByte(type, scales, first + i), 8 * i));
      if (rowLimit)
        word = e.select(counts(row), word, e.c32(unit == 32 ? 0x7F7F7F7F : 0));
      store(0, first / 4, offset, word);
    }
    return;
  }
  for (int64_t block = 0; 128 * (block / 4) < type.getCols(); ++block) {
    Value byte = scaleByte(type, scales, block);
    if (rowLimit)
      byte = e.select(counts(e.shl(group, 5)), byte, e.c32(127));
    store(block / 4, 0, e.add(e.addC(laneOffset, 4 * (block % 4)), group),
          e.op<arith::TruncIOp>(e.b.getI8Type(), byte));
  }
}

LogicalResult KernelLowering::lowerStoreScales(StoreScalesOp op) {
  auto type = cast<ScaledType>(op.getValue().getType());
  Value target = op.getTarget();
  auto memref = cast<MemRefType>(target.getType());
  bool hasAtoms = isa<Float8E4M3FNType>(type.getScaleType());
  if (!isa<BlockArgument>(target) || memref.getRank() != (hasAtoms ? 4 : 3) ||
      memref.getShape().back() != 512 || op.getIndices().size() != 2 ||
      memref.getElementType() != type.getScaleType())
    return unsupported(op, "expected a kernel argument [tiles, heads, ")
           << (hasAtoms ? "atoms, " : "") << "512] of " << type.getScaleType()
           << " at [tile, head], but got " << memref;
  if (failed(checkAtomBlocks(op, type, op.getAlong())))
    return failure();
  params[cast<BlockArgument>(target).getArgNumber()].written = true;
  Value tile = i64(op.getIndices()[0]), head = i64(op.getIndices()[1]);
  forEachAtomPart(
      type, values.lookup(op.getValue())[1], op.getAlong(), i64(op.getRows()),
      [&](int64_t rowGroup, int64_t blockGroup, Value offset, Value value) {
        SmallVector<Value> place = {e.addC(tile, rowGroup), head};
        if (hasAtoms)
          place.push_back(e.c64(blockGroup));
        else
          place.back() = e.addC(head, blockGroup);
        place.push_back(e.toI64(offset));
        LLVM::StoreOp::create(e.b, e.loc, value, globalPointer(target, place),
                              value.getType().getIntOrFloatBitWidth() / 8);
      });
  return success();
}
