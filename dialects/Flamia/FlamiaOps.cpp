//===- FlamiaOps.cpp - Verifiers of the Flamia dialect --------------------===//
//
// Each verifier looks at its own op only. An extent `?` fits any other: it is
// checked again once flamia-specialize has bound it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "dialects/Flamia/Strides.h"
#include "flamia/Numerics/Exp2.h"
#include "flamia/Numerics/Layout.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;

#include "dialects/Flamia/FlamiaEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Flamia/FlamiaOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

static bool fits(int64_t a, int64_t b) {
  return ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || a == b;
}

static bool sameShape(Type a, Type b) {
  auto [rowsA, colsA] = getTileShape(a);
  auto [rowsB, colsB] = getTileShape(b);
  return fits(rowsA, rowsB) && fits(colsA, colsB);
}

static Type elementTypeOf(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return scaled.getElementType();
  return cast<ShapedType>(type).getElementType();
}

bool flamia::isStrided(MemRefType type) {
  return !type.getLayout().isIdentity();
}

bool flamia::hasAdjacentColumns(MemRefType type) {
  if (!isStrided(type))
    return true;
  auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout());
  return layout && layout.getOffset() == 0 && type.getRank() > 1 &&
         layout.getStrides().back() == 1;
}

/// A tile that could never be held: caught here, before any pass spends time.
static LogicalResult verifyExtents(Operation *op, StringRef name, Type type) {
  auto [rows, cols] = getTileShape(type);
  for (int64_t extent : {rows, cols})
    if (!ShapedType::isDynamic(extent) &&
        (extent < 1 || extent > maxTileExtent))
      return op->emitOpError("expected extents of '")
             << name << "' to be 1 to " << maxTileExtent << ", but got " << type
             << "; a tile must fit 512 columns of tensor memory and 227 KB of "
                "shared memory";
  return success();
}

/// One index for each dimension of a global tensor, which has at least one.
static LogicalResult verifyPlace(Operation *op, StringRef name, Value global,
                                 OperandRange indices, int64_t rows,
                                 Value limit) {
  auto memref = cast<MemRefType>(global.getType());
  if (memref.getRank() == 0)
    return op->emitOpError("expected '")
           << name << "' to have rank 1 or more, but got " << memref;
  if (!hasAdjacentColumns(memref))
    return op->emitOpError("expected '")
           << name
           << "' to be row-major or strided with last stride 1, but got "
           << memref;
  if (int64_t(indices.size()) != memref.getRank())
    return op->emitOpError("expected ")
           << memref.getRank() << " indices for '" << name << "', but got "
           << indices.size();
  if (memref.getRank() == 1 && !fits(rows, 1))
    return op->emitOpError("expected 1 row for '")
           << name << "' of rank 1, but got " << rows;
  if (memref.getRank() == 1 && limit)
    return op->emitOpError("expected no limit of rows for '")
           << name << "' of rank 1";
  return success();
}

static LogicalResult verifyElement(Operation *op, StringRef nameA, Type a,
                                   StringRef nameB, Type b) {
  if (elementTypeOf(a) == elementTypeOf(b))
    return success();
  return op->emitOpError("expected elements of '")
         << nameA << "' and '" << nameB << "' to be alike, but got "
         << elementTypeOf(a) << " and " << elementTypeOf(b);
}

/// Plain tiles in global memory hold f32, bf16 or f16.
static LogicalResult verifyPlainElement(Operation *op, StringRef name,
                                        Type type) {
  Type element = elementTypeOf(type);
  if (element.isF32() || element.isBF16() || element.isF16())
    return success();
  return op->emitOpError("expected elements of '")
         << name << "' to be f32, bf16 or f16, but got " << element;
}

/// A block must be constant over whole scale units along \p along.
static LogicalResult verifyBlockAlong(Operation *op, StringRef name,
                                      ScaledType type, Axis along) {
  int64_t block =
      along == Axis::Rows ? type.getBlockRows() : type.getBlockCols();
  int64_t unit = getScaleUnit(type.getScaleType());
  if (ShapedType::isDynamic(block) || block % unit == 0)
    return success();
  return op->emitOpError("expected scale block of '")
         << name << "' to be a multiple of " << unit << " elements along "
         << stringifyAxis(along) << ", but got " << block;
}

/// `scales` is [tiles, heads, 512] of \p scaleType, or of f8E4M3FN
/// [tiles, heads, atoms, 512], with two indices.
static LogicalResult verifyAtom(Operation *op, StringRef name, Value scales,
                                OperandRange indices, Type scaleType,
                                int64_t atoms = ShapedType::kDynamic) {
  auto memref = cast<MemRefType>(scales.getType());
  bool isNvfp4 = isa<Float8E4M3FNType>(scaleType);
  if (memref.getRank() != (isNvfp4 ? 4 : 3) ||
      memref.getShape().back() != 512 ||
      (isNvfp4 && !fits(memref.getDimSize(2), atoms))) {
    InFlightDiagnostic diagnostic = op->emitOpError("expected '")
                                    << name << "' to be [tiles, heads, ";
    if (isNvfp4 && ShapedType::isDynamic(atoms))
      diagnostic << "atoms, ";
    else if (isNvfp4)
      diagnostic << atoms << ", ";
    return diagnostic << "512], but got " << memref;
  }
  if (memref.getElementType() != scaleType)
    return op->emitOpError("expected elements of '")
           << name << "' to be " << scaleType << ", but got "
           << memref.getElementType();
  if (indices.size() != 2)
    return op->emitOpError("expected 2 indices for '")
           << name << "', but got " << indices.size();
  return success();
}

static LogicalResult verifyScales(Operation *op, StringRef name, Value scales,
                                  OperandRange indices, ScaledType type,
                                  Axis along) {
  int64_t extent = along == Axis::Rows ? type.getRows() : type.getCols();
  int64_t atoms =
      ShapedType::isDynamic(extent)
          ? extent
          : llvm::divideCeil(extent, 4 * getScaleUnit(type.getScaleType()));
  if (failed(verifyAtom(op, name, scales, indices, type.getScaleType(), atoms)))
    return failure();
  return verifyBlockAlong(op, "the tile", type, along);
}

//===----------------------------------------------------------------------===//
// Launch geometry
//===----------------------------------------------------------------------===//

LogicalResult NumProgramsOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  auto axis = static_cast<unsigned>(getAxis());
  if (kernel && (axis >= kernel.getGrid().size() ||
                 !isa<UnitAttr>(kernel.getGrid()[axis])))
    return emitOpError("expected the kernel's grid to say any along axis ")
           << stringifyGridAxis(getAxis());
  return success();
}

LogicalResult DimOp::verify() {
  auto memref = cast<MemRefType>(getSource().getType());
  if (int64_t(getDimension()) < 0 ||
      int64_t(getDimension()) >= memref.getRank())
    return emitOpError("expected a dimension of ")
           << memref << ", but got " << int64_t(getDimension());
  return success();
}

LogicalResult WorkItemOp::verify() {
  auto memref = cast<MemRefType>(getWork().getType());
  if (memref.getDimSize(1) != 4)
    return emitOpError("expected a work list [items, 4], but got ") << memref;
  return success();
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  Type type = getResult().getType();
  if (failed(verifyExtents(*this, "result", type)) ||
      failed(verifyPlace(*this, "source", getSource(), getIndices(),
                         getTileShape(type).first, getLimit())) ||
      failed(verifyPlainElement(*this, "result", type)))
    return failure();
  return verifyElement(*this, "source", getSource().getType(), "result", type);
}

LogicalResult LoadScaledOp::verify() {
  ScaledType type = getResult().getType();
  if (failed(verifyPlace(*this, "source", getSource(), getIndices(),
                         type.getRows(), getLimit())) ||
      failed(verifyElement(*this, "source", getSource().getType(), "result",
                           type)))
    return failure();
  return verifyScales(*this, "scales", getScales(), getScaleIndices(), type,
                      getAlong());
}

LogicalResult LoadPayloadOp::verify() {
  ScaledType type = getResult().getType();
  if (failed(verifyPlace(*this, "source", getSource(), getIndices(),
                         type.getRows(), getLimit())) ||
      failed(verifyElement(*this, "source", getSource().getType(), "result",
                           type)))
    return failure();
  if (!isa<Float8E8M0FNUType>(type.getScaleType()))
    return emitOpError("expected scale type f8E8M0FNU, but got ")
           << type.getScaleType();
  if (!fits(type.getBlockRows(), type.getRows()) ||
      !fits(type.getBlockCols(), type.getCols()))
    return emitOpError("expected one scale block for the whole tile, but got ")
           << type;
  return success();
}

LogicalResult StoreOp::verify() {
  Type type = getValue().getType();
  if (failed(verifyExtents(*this, "value", type)) ||
      failed(verifyPlace(*this, "target", getTarget(), getIndices(),
                         getTileShape(type).first, getLimit())) ||
      failed(verifyPlainElement(*this, "value", type)))
    return failure();
  return verifyElement(*this, "value", type, "target", getTarget().getType());
}

LogicalResult StorePayloadOp::verify() {
  ScaledType type = getValue().getType();
  if (failed(verifyPlace(*this, "target", getTarget(), getIndices(),
                         type.getRows(), getLimit())))
    return failure();
  return verifyElement(*this, "value", type, "target", getTarget().getType());
}

LogicalResult StoreScalesOp::verify() {
  return verifyScales(*this, "target", getTarget(), getIndices(),
                      getValue().getType(), getAlong());
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  Type from = getSource().getType(), to = getResult().getType();
  auto [rows, cols] = getTileShape(from);
  auto [toRows, toCols] = getTileShape(to);
  auto scaledFrom = dyn_cast<ScaledType>(from);
  auto scaledTo = dyn_cast<ScaledType>(to);
  bool ok = fits(rows, toCols) && fits(cols, toRows) &&
            elementTypeOf(from) == elementTypeOf(to) &&
            bool(scaledFrom) == bool(scaledTo);
  if (ok && scaledFrom)
    ok = scaledFrom.getScaleType() == scaledTo.getScaleType() &&
         fits(scaledFrom.getBlockRows(), scaledTo.getBlockCols()) &&
         fits(scaledFrom.getBlockCols(), scaledTo.getBlockRows());
  if (!ok)
    return emitOpError("expected the result to be the transpose of ")
           << from << ", but got " << to;
  return verifyExtents(*this, "source", from);
}

LogicalResult DotOp::verify() {
  Type a = getA().getType(), b = getB().getType(), acc = getAcc().getType();
  for (auto [name, type] :
       {std::pair<StringRef, Type>("a", a), std::pair<StringRef, Type>("b", b),
        std::pair<StringRef, Type>("acc", acc)})
    if (failed(verifyExtents(*this, name, type)))
      return failure();
  auto [m, k] = getTileShape(a);
  auto [kB, n] = getTileShape(b);
  auto [mAcc, nAcc] = getTileShape(acc);
  if (!fits(k, kB))
    return emitOpError("expected columns of 'a' to equal rows of 'b', but got ")
           << a << " and " << b;
  if (!fits(m, mAcc) || !fits(n, nAcc))
    return emitOpError("expected 'acc' to have the rows of 'a' and the columns "
                       "of 'b', but got ")
           << acc << " for " << a << " and " << b;
  auto scaledA = dyn_cast<ScaledType>(a), scaledB = dyn_cast<ScaledType>(b);
  if (bool(scaledA) != bool(scaledB))
    return emitOpError("expected both operands or none to be scaled, but got ")
           << a << " and " << b;
  if (scaledA) {
    if (scaledA.getScaleType() != scaledB.getScaleType())
      return emitOpError("expected one scale type, but got ")
             << scaledA.getScaleType() << " and " << scaledB.getScaleType();
    // Scales of single elements have a meaning, though no hardware multiplies
    // them: flamia-fold-scales moves them away.
    if (scaledA.getBlockCols() != 1 &&
        failed(verifyBlockAlong(*this, "a", scaledA, Axis::Cols)))
      return failure();
    if (scaledB.getBlockRows() == 1)
      return success();
    return verifyBlockAlong(*this, "b", scaledB, Axis::Rows);
  }
  Type elementA = elementTypeOf(a), elementB = elementTypeOf(b);
  if (elementA != elementB || !(elementA.isBF16() || elementA.isF16()))
    return emitOpError("expected tensors of one 16-bit type, but got ")
           << elementA << " and " << elementB;
  if (!ShapedType::isDynamic(k) && k % 16 != 0)
    return emitOpError("expected a multiple of 16 columns in 'a', but got ")
           << k;
  return success();
}

//===----------------------------------------------------------------------===//
// Quantization and rounding
//===----------------------------------------------------------------------===//

/// A row vector for the rows of \p tile.
static LogicalResult verifyRowVector(Operation *op, StringRef name, Type vector,
                                     StringRef tileName, Type tile) {
  auto [rows, cols] = getTileShape(vector);
  if (fits(rows, getTileShape(tile).first) && cols == 1)
    return success();
  return op->emitOpError("expected '")
         << name << "' to have one value for each row of '" << tileName
         << "', but got " << vector << " for " << tile;
}

LogicalResult QuantizeOp::verify() {
  ScaledType type = getResult().getType();
  if (failed(verifyExtents(*this, "source", getSource().getType())))
    return failure();
  if (getIncluding()) {
    if (getExponent())
      return emitOpError("expected no 'including' with a given exponent");
    if (failed(verifyRowVector(*this, "including", getIncluding().getType(),
                               "source", getSource().getType())))
      return failure();
  }
  if (!sameShape(getSource().getType(), type))
    return emitOpError("expected the result to have the extents of ")
           << getSource().getType() << ", but got " << type;
  bool isNvfp4 = isa<Float8E4M3FNType>(type.getScaleType());
  if (isNvfp4 != bool(getGlobalScale()))
    return emitOpError(isNvfp4 ? "expected a 'global_scale' for scale type "
                               : "expected no 'global_scale' for scale type ")
           << type.getScaleType();
  if (isNvfp4 &&
      (getIncluding() || getExponent() || getShift() || getShiftBy()))
    return emitOpError("expected no 'including', 'exponent', 'shift' or "
                       "'shift_by' for scale type ")
           << type.getScaleType();
  if (std::optional<uint32_t> exponent = getExponent();
      exponent && (int32_t(*exponent) < -127 || int32_t(*exponent) > 127))
    return emitOpError("expected an exponent from -127 to 127, but got ")
           << int32_t(*exponent);
  // 255 takes any byte to either end.
  if (std::optional<uint32_t> shift = getShiftBy();
      shift && (int32_t(*shift) < -255 || int32_t(*shift) > 255))
    return emitOpError("expected a shift from -255 to 255, but got ")
           << int32_t(*shift);
  if (!getShift())
    return success();
  auto [shiftRows, shiftCols] = getTileShape(getShift().getType());
  if (shiftCols != 1 || (shiftRows != 1 && !fits(shiftRows, type.getRows())))
    return emitOpError("expected one shift, or one for each row of ")
           << type << ", but got " << getShift().getType();
  if (shiftRows != 1 && !fits(type.getBlockRows(), 1))
    return emitOpError("expected blocks of one row for a shift for each row, "
                       "but got ")
           << type;
  return success();
}

LogicalResult RoundLikeOp::verify() {
  Type like = getLike().getType();
  Type element = elementTypeOf(like);
  if (!isa<ScaledType>(like) && !element.isBF16() && !element.isF16())
    return emitOpError("expected 'like' to be a scaled tile or a tensor of a "
                       "16-bit type, but got ")
           << like;
  return verifyExtents(*this, "source", getSource().getType());
}

LogicalResult HadamardOp::verify() {
  int64_t channels = getTileShape(getSource().getType()).second;
  if (!ShapedType::isDynamic(channels) && !llvm::isPowerOf2_64(channels))
    return emitOpError("expected a power of two columns, but got ") << channels;
  return verifyExtents(*this, "source", getSource().getType());
}

//===----------------------------------------------------------------------===//
// Elementwise helpers, masks, reductions
//===----------------------------------------------------------------------===//

LogicalResult FullOp::verify() {
  return verifyExtents(*this, "result", getResult().getType());
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getSource().getType(), to = getResult().getType();
  auto stretches = [](int64_t a, int64_t b) { return a == 1 || fits(a, b); };
  if (from.getElementType() != to.getElementType() ||
      !stretches(from.getDimSize(0), to.getDimSize(0)) ||
      !stretches(from.getDimSize(1), to.getDimSize(1)))
    return emitOpError("expected extents of 1 where ")
           << from << " and " << to << " differ, and equal element types";
  return verifyExtents(*this, "result", to);
}

LogicalResult ReduceOp::verify() {
  RankedTensorType from = getSource().getType(), to = getResult().getType();
  if (!fits(from.getDimSize(0), to.getDimSize(0)) || to.getDimSize(1) != 1)
    return emitOpError("expected one value for each row of ")
           << from << ", but got " << to;
  return verifyExtents(*this, "source", from);
}

LogicalResult MaskOp::verify() {
  return verifyExtents(*this, "source", getSource().getType());
}

LogicalResult Exp2Op::verify() {
  if (failed(verifyExtents(*this, "source", getSource().getType())))
    return failure();
  auto [rows, cols] = getTileShape(getType());
  for (int64_t extent : {rows, cols})
    if (!ShapedType::isDynamic(extent) && extent % numerics::blockSize != 0)
      return emitOpError("expected rows and columns in multiples of ")
             << numerics::blockSize << ", but got " << getType();
  numerics::Exp2Share share{int64_t(getBlocks()), int64_t(getOf())};
  if (!share.isValid())
    return emitOpError("expected 'polynomial N of M' with M a power of two up "
                       "to 32 and N from 0 to M, but got ")
           << share.blocks << " of " << share.of;
  return success();
}

//===----------------------------------------------------------------------===//
// Scales as numbers
//===----------------------------------------------------------------------===//

/// Exponents of an atom: 128 operand rows, one block or all four.
static LogicalResult verifyExponents(Operation *op, StringRef name, Type type) {
  auto [rows, cols] = getTileShape(type);
  if (rows == 128 && (cols == 1 || cols == 4))
    return success();
  return op->emitOpError("expected '")
         << name << "' to be 128x1 or 128x4, but got " << type;
}

LogicalResult LoadExponentsOp::verify() {
  if (failed(verifyExponents(*this, "result", getResult().getType())))
    return failure();
  return verifyAtom(*this, "scales", getScales(), getIndices(),
                    Float8E8M0FNUType::get(getContext()));
}

LogicalResult StoreExponentsOp::verify() {
  RankedTensorType type = getValue().getType();
  if (failed(verifyExponents(*this, "value", type)))
    return failure();
  if (getAlong() == Axis::Rows && type.getDimSize(1) != 1)
    return emitOpError("expected one column along rows, but got ") << type;
  return verifyAtom(*this, "target", getTarget(), getIndices(),
                    Float8E8M0FNUType::get(getContext()));
}

LogicalResult ExponentsOp::verify() {
  ScaledType type = getSource().getType();
  if (!isa<Float8E8M0FNUType>(type.getScaleType()))
    return emitOpError("expected scale type f8E8M0FNU, but got ")
           << type.getScaleType();
  if (type.getBlockRows() != 1 || !fits(type.getBlockCols(), type.getCols()))
    return emitOpError("expected one scale for each row, but got ") << type;
  return verifyRowVector(*this, "result", getResult().getType(), "source",
                         type);
}

LogicalResult PayloadOp::verify() {
  if (!sameShape(getSource().getType(), getResult().getType()))
    return emitOpError("expected the result to have the extents of ")
           << getSource().getType() << ", but got " << getResult().getType();
  return verifyExtents(*this, "source", getSource().getType());
}

LogicalResult Pow2Op::verify() {
  return verifyExtents(*this, "source", getSource().getType());
}

LogicalResult ReduceRowsOp::verify() {
  if (getKind() != ReduceKind::Max)
    return emitOpError("expected kind max, but got ")
           << stringifyReduceKind(getKind());
  int64_t rows = getSource().getType().getDimSize(0), by = getBy();
  if (by < 1 || (!ShapedType::isDynamic(rows) && rows % by != 0))
    return emitOpError("expected blocks that divide the rows of ")
           << getSource().getType() << ", but got " << by;
  return verifyExtents(*this, "source", getSource().getType());
}
