//===- TileUses.cpp - Who makes and who uses a tile -----------------------===//

#include "passes/Roles/TileUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace flamia;

bool flamia::isTile(Type type) {
  return isa<RankedTensorType, ScaledType>(type);
}

/// Row and column vectors are loaded by the threads that hold them.
static bool isVectorShape(Type type) {
  auto [rows, cols] = getTileShape(type);
  return rows == 1 || cols == 1;
}

/// A divisor of the value that is known at compile time; 0 for zero itself.
static int64_t knownDivisor(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  if (auto mul = value.getDefiningOp<arith::MulIOp>())
    return knownDivisor(mul.getLhs()) * knownDivisor(mul.getRhs());
  if (auto cast = value.getDefiningOp<arith::IndexCastOp>())
    return knownDivisor(cast.getIn());
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(value.getDefiningOp()))
    return std::gcd(knownDivisor(value.getDefiningOp()->getOperand(0)),
                    knownDivisor(value.getDefiningOp()->getOperand(1)));
  if (auto select = value.getDefiningOp<arith::SelectOp>())
    return std::gcd(knownDivisor(select.getTrueValue()),
                    knownDivisor(select.getFalseValue()));
  if (auto arg = dyn_cast<BlockArgument>(value))
    if (auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp()))
      if (arg == loop.getInductionVar())
        return std::gcd(knownDivisor(loop.getLowerBound()),
                        knownDivisor(loop.getStep()));
  return 1;
}

/// What a tensor map can load (facts of cuTensorMapEncodeTiled): rank 2 or 3,
/// strides and column offsets of whole 16 bytes, rows of a swizzle span or
/// several. Strides that only the launch knows are checked there.
static bool fitsTensorMap(LoadOp load) {
  auto source = cast<MemRefType>(load.getSource().getType());
  auto [rows, cols] = getTileShape(load.getType());
  int64_t bits = source.getElementTypeBitWidth();
  int64_t rowBytes = cols * bits / 8, extent = source.getShape().back();
  if (bits < 8 || source.getRank() < 2 || source.getRank() > 3 || rows > 256 ||
      (rowBytes != 32 && rowBytes != 64 && rowBytes % 128 != 0))
    return false;
  if (!ShapedType::isDynamic(extent) && extent * bits % 128 != 0)
    return false;
  return knownDivisor(load.getIndices().back()) * bits % 128 == 0;
}

bool flamia::isLineLoad(Operation *op) {
  auto load = dyn_cast<LoadOp>(op);
  if (!load || load.getLimit())
    return false;
  auto source = cast<MemRefType>(load.getSource().getType());
  auto [rows, cols] = getTileShape(load.getType());
  int64_t rank = source.getRank();
  if (rows != 1 || cols == 1 || rank < 2 ||
      source.getDimSize(rank - 1) != cols ||
      cols * source.getElementTypeBitWidth() % 128 != 0 ||
      !matchPattern(load.getIndices().back(), m_Zero()))
    return false;
  auto kernel = op->getParentOfType<KernelOp>();
  // Names of an argument's outer dimensions.
  auto outerDims = [&](Value memref) -> ArrayRef<Attribute> {
    auto arg = dyn_cast<BlockArgument>(memref);
    auto names = arg && arg.getOwner()->getParentOp() == kernel
                     ? kernel.getArgAttrOfType<ArrayAttr>(arg.getArgNumber(),
                                                          "flamia.dims")
                     : ArrayAttr();
    return names ? names.getValue().drop_back() : ArrayRef<Attribute>();
  };
  ArrayRef<Attribute> dims = outerDims(load.getSource());
  return !dims.empty() &&
         llvm::any_of(op->getBlock()->getOps<LoadScaledOp>(),
                      [&](LoadScaledOp other) {
                        return outerDims(other.getScales()) == dims &&
                               llvm::equal(other.getScaleIndices(),
                                           load.getIndices().drop_back());
                      });
}

Unit flamia::unitOf(Operation *op) {
  if (isLineLoad(op))
    return Unit::Tma;
  if (isa<LoadOp, LoadScaledOp, LoadPayloadOp>(op)) {
    auto load = dyn_cast<LoadOp>(op);
    return isVectorShape(op->getResult(0).getType()) ||
                   (load && !fitsTensorMap(load))
               ? Unit::Vector
               : Unit::Tma;
  }
  if (isa<DotOp>(op))
    return Unit::Mma;
  if (isa<scf::ForOp, scf::IfOp, scf::YieldOp, TransposeOp>(op))
    return Unit::None;
  if (llvm::any_of(op->getOperandTypes(), isTile) ||
      llvm::any_of(op->getResultTypes(), isTile))
    return Unit::Vector;
  return Unit::None;
}

StringRef flamia::roleOf(Operation *op) {
  auto role = op->getAttrOfType<StringAttr>(kRoleAttr);
  return role ? role.getValue() : StringRef();
}

std::optional<int64_t> flamia::slotOf(Operation *op) {
  auto slot = op->getAttrOfType<IntegerAttr>(kSlotAttr);
  return slot ? std::optional(slot.getInt()) : std::nullopt;
}

bool flamia::isVectorRole(StringRef role) {
  return role.starts_with(kVectorRole);
}

StringRef flamia::vectorRoleOf(Operation *op) {
  std::optional<int64_t> slot = slotOf(op);
  if (!slot)
    return kVectorRole;
  // Attributes keep the name.
  return StringAttr::get(op->getContext(), kVectorRole + Twine(*slot))
      .getValue();
}

bool flamia::isZeroTile(Value value) {
  auto isPositiveZero = [](const APFloat &number) {
    return number.isZero() && !number.isNegative();
  };
  if (auto full = value.getDefiningOp<FullOp>()) {
    FloatAttr scalar;
    return matchPattern(full.getValue(), m_Constant(&scalar)) &&
           isPositiveZero(scalar.getValue());
  }
  DenseFPElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         isPositiveZero(elements.getSplatValue<APFloat>());
}

OperandRoot flamia::lookThroughTransposes(Value value) {
  OperandRoot root{value};
  while (auto transpose = root.value.getDefiningOp<TransposeOp>()) {
    root.value = transpose.getSource();
    root.transposed = !root.transposed;
  }
  return root;
}

SmallVector<OpOperand *> flamia::usesThroughTransposes(Value value) {
  SmallVector<OpOperand *> uses;
  SmallVector<Value> pending{value};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (auto transpose = dyn_cast<TransposeOp>(use.getOwner()))
        pending.push_back(transpose.getResult());
      else
        uses.push_back(&use);
    }
  return uses;
}

Block *flamia::blockOf(Value value) { return value.getParentBlock(); }

Operation *flamia::ancestorIn(Block *block, Operation *op) {
  return block->findAncestorOpInBlock(*op);
}

bool flamia::comesBefore(Operation *first, Operation *second) {
  for (Block *block = second->getBlock(); block;) {
    Operation *inside = ancestorIn(block, first);
    if (inside) {
      Operation *other = ancestorIn(block, second);
      return inside != other && inside->isBeforeInBlock(other);
    }
    Operation *parent = block->getParentOp();
    block = isa<KernelOp>(parent) ? nullptr : parent->getBlock();
  }
  return false;
}

void UseRange::add(Operation *anchor) {
  if (!first || anchor->isBeforeInBlock(first))
    first = anchor;
  if (!last || last->isBeforeInBlock(anchor))
    last = anchor;
}

std::optional<int64_t> flamia::constantTripCount(scf::ForOp loop) {
  std::optional<APInt> count = loop.getStaticTripCount();
  if (!count)
    return std::nullopt;
  return count->getSExtValue();
}
