//===- TcgenOps.cpp - Verifiers of the Tcgen dialect ----------------------===//

#include "dialects/Tcgen/Tcgen.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia::tcgen;

#define GET_OP_CLASSES
#include "dialects/Tcgen/TcgenOps.cpp.inc"

//===----------------------------------------------------------------------===//
// What several verifiers check
//===----------------------------------------------------------------------===//

/// The named buffer operand is of the wanted kind.
static LogicalResult checkKind(Operation *op, StringRef name, BufferType type,
                               ArrayRef<std::pair<Space, Layout>> kinds) {
  for (auto [space, layout] : kinds)
    if (type.getSpace() == space && type.getLayout() == layout)
      return success();
  InFlightDiagnostic diagnostic = op->emitOpError("expected ")
                                  << name << " to be a ";
  llvm::interleave(
      kinds, diagnostic,
      [&](std::pair<Space, Layout> kind) {
        diagnostic << "<" << stringifySpace(kind.first) << ", "
                   << stringifyLayout(kind.second) << ">";
      },
      " or ");
  return diagnostic << " buffer, but got " << type;
}

/// The named buffer's slots hold ROWSxCOLSxELEMENT.
static LogicalResult checkTile(Operation *op, StringRef name, BufferType type,
                               int64_t rows, int64_t cols, Type element) {
  if (type.getRows() == rows && type.getCols() == cols &&
      type.getElementType() == element)
    return success();
  return op->emitOpError("expected ")
         << name << " to hold " << rows << "x" << cols << "x" << element
         << ", but got " << type;
}

static Type elementOf(Type tile) {
  if (auto scaled = dyn_cast<flamia::ScaledType>(tile))
    return scaled.getElementType();
  return cast<RankedTensorType>(tile).getElementType();
}

/// The tile is all columns of the buffer's slots, or some from `first` on:
/// whole words in tensor memory, whole swizzle units in shared memory.
static LogicalResult checkColumns(Operation *op, BufferType buffer, Type tile,
                                  int64_t first) {
  auto [rows, cols] = flamia::getTileShape(tile);
  if (first == 0 && cols == buffer.getCols())
    return checkTile(op, "buffer", buffer, rows, cols, elementOf(tile));
  int64_t bits = buffer.getElementType().getIntOrFloatBitWidth();
  int64_t unit = buffer.getSpace() == Space::Tmem ? 32 : 128;
  if (rows != buffer.getRows() || elementOf(tile) != buffer.getElementType() ||
      first < 0 || cols < 1 || first + cols > buffer.getCols())
    return op->emitOpError("expected columns ")
           << first << " to " << first + cols - 1 << " of " << buffer
           << ", but got " << tile;
  if (first * bits % unit != 0 || cols * bits % unit != 0)
    return op->emitOpError("expected whole groups of ")
           << unit / 8 << " bytes, but got columns " << first << " to "
           << first + cols - 1 << " of " << buffer;
  return success();
}

/// Scales of \p elements along the contraction.
static int64_t countScales(int64_t elements, Type scaleType) {
  return llvm::divideCeil(elements, flamia::getScaleUnit(scaleType));
}

//===----------------------------------------------------------------------===//
// Memory and channels
//===----------------------------------------------------------------------===//

LogicalResult AllocOp::verify() {
  if (getOffset() && static_cast<int64_t>(*getOffset()) < 0)
    return emitOpError("expected an offset of at least 0, but got ")
           << static_cast<int64_t>(*getOffset());
  return success();
}

/// Parts are for code of threads: what an engine uses is traced by buffers.
static LogicalResult checkWhole(Operation *op) {
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp<PartOp>())
      return op->emitOpError("expected a buffer, but got a tcgen.part");
  return success();
}

LogicalResult FillScalesOp::verify() {
  if (failed(checkWhole(*this)))
    return failure();
  int64_t byte = getByte();
  if (byte < 0 || byte > 255)
    return emitOpError("expected a byte from 0 to 255, but got ") << byte;
  if (auto role = (*this)->getParentOfType<RoleOp>();
      role && role.getWarps() != 4)
    return emitOpError("expected a role of 4 warps, but got ")
           << role.getWarps();
  return checkKind(*this, "buffer", getBuffer().getType(),
                   {{Space::Tmem, Layout::Scales}});
}

LogicalResult ReadMaxOp::verify() {
  auto buffer = cast<BufferType>(getBuffer().getType());
  auto tile = cast<RankedTensorType>(getResult().getType());
  if (failed(
          checkKind(*this, "buffer", buffer, {{Space::Tmem, Layout::Lanes}})))
    return failure();
  if (!buffer.getElementType().isF32() || buffer.getCols() % 32 != 0)
    return emitOpError("expected a buffer of f32 with a multiple of 32 "
                       "columns, but got ")
           << buffer;
  if (tile.getShape() !=
          ArrayRef<int64_t>({buffer.getRows(), buffer.getCols()}) ||
      tile.getElementType() != buffer.getElementType() ||
      getMax().getType() !=
          RankedTensorType::get({buffer.getRows(), 1}, tile.getElementType()))
    return emitOpError("expected the buffer's tile and a row vector, but got ")
           << tile << " and " << getMax().getType();
  return success();
}

LogicalResult AnyDiffersOp::verify() {
  auto type = cast<RankedTensorType>(getRow().getType());
  if (type.getShape() == ArrayRef<int64_t>({128, 1}) &&
      type.getElementType().isF32())
    return success();
  return emitOpError("expected a row vector tensor<128x1xf32>, but got ")
         << type;
}

LogicalResult ChannelOp::verify() {
  auto check = [&](StringRef name, int64_t value,
                   int64_t limit) -> LogicalResult {
    if (value < 1)
      return emitOpError("expected '")
             << name << "' of at least 1, but got " << value;
    if (value > limit)
      return emitOpError("expected '")
             << name << "' of at most " << limit << ", but got " << value;
    return success();
  };
  // A slot has two barriers of 8 bytes in shared memory; all warps of a CTA
  // can arrive, and an engine for each of them.
  constexpr int64_t maxSlots = 8192, maxArrivals = 64;
  return failure(failed(check("slots", getSlots(), maxSlots)) ||
                 failed(check("full", getFull(), maxArrivals)) ||
                 failed(check("empty", getEmpty(), maxArrivals)));
}

AllocOp flamia::tcgen::allocOf(Value buffer) {
  if (auto part = buffer.getDefiningOp<PartOp>())
    buffer = part.getBuffer();
  return buffer.getDefiningOp<AllocOp>();
}

SmallVector<Operation *> flamia::tcgen::usersOf(Value buffer) {
  AllocOp alloc = allocOf(buffer);
  SmallVector<Operation *> users;
  for (Operation *user : (alloc ? alloc.getResult() : buffer).getUsers()) {
    if (auto part = dyn_cast<PartOp>(user))
      llvm::append_range(users, part.getResult().getUsers());
    else
      users.push_back(user);
  }
  return users;
}

bool flamia::tcgen::isOfIssuers(ChannelOp channel) {
  bool released = false;
  for (Operation *user : channel->getUsers()) {
    std::optional<Agent> agent;
    if (auto publish = dyn_cast<PublishOp>(user))
      agent = publish.getAgent();
    else if (auto release = dyn_cast<ReleaseOp>(user))
      agent = release.getAgent(), released = true;
    if (agent && *agent != Agent::Mma)
      return false;
  }
  return released;
}

/// Thread t of warp w holds row 32 w + t of a tile: of 4 warps, the first of
/// which has a number that is a multiple of 4.
static bool isVectorCode(Operation *op) {
  auto isTile = [](Type type) {
    return isa<RankedTensorType, flamia::ScaledType>(type);
  };
  return isa<GroupOp, PartOp, ReadOp, ReadMaxOp, WriteOp, WriteScalesOp,
             FillScalesOp, AnyDiffersOp>(op) ||
         llvm::any_of(op->getOperandTypes(), isTile) ||
         llvm::any_of(op->getResultTypes(), isTile);
}

LogicalResult RoleOp::verify() {
  int64_t warps = getWarps();
  if (warps < 1 || warps > 32)
    return emitOpError("expected 1 to 32 warps, but got ") << warps;
  if (warps > kGroupWarps && warps % kGroupWarps != 0)
    return emitOpError("expected whole warpgroups of 4, but got ")
           << warps << " warps";
  int64_t first = 0;
  for (Operation *op = (*this)->getPrevNode(); op; op = op->getPrevNode())
    if (auto before = dyn_cast<RoleOp>(op))
      first += before.getWarps();
  WalkResult result = walk([&](Operation *op) {
    if (warps > kGroupWarps &&
        isa<ExpectOp, TmaLoadOp, BulkLoadOp, CopyScalesOp, CopyOperandOp, MmaOp,
            DrainOp>(op))
      op->emitOpError("expected in a role of one warpgroup, but '")
          << getName() << "' has " << warps << " warps";
    else if (isVectorCode(op) && warps % kGroupWarps != 0)
      op->emitOpError("works on tile rows and is expected in a role of 4 "
                      "warps or a multiple, but '")
          << getName() << "' has " << warps;
    else if (isVectorCode(op) && first % kGroupWarps != 0)
      op->emitOpError("works on tile rows, but warps of the role '")
          << getName() << "' are numbered from " << first
          << " on, which is no multiple of 4";
    else
      return WalkResult::advance();
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult GroupOp::verify() {
  if ((*this)->getParentOfType<RoleOp>())
    return success();
  return emitOpError("expected in a tcgen.role");
}

LogicalResult PartOp::verify() {
  BufferType whole = getBuffer().getType(), part = getResult().getType();
  if (!getBuffer().getDefiningOp<AllocOp>())
    return emitOpError("expected a part of a tcgen.alloc");
  if (failed(checkKind(*this, "the buffer", whole,
                       {{Space::Tmem, Layout::Lanes},
                        {Space::Smem, Layout::Line},
                        {Space::Smem, Layout::Scales}})))
    return failure();
  if (part.getSpace() != whole.getSpace() ||
      part.getLayout() != whole.getLayout() ||
      part.getSlots() != whole.getSlots() ||
      part.getRows() != whole.getRows() ||
      part.getElementType() != whole.getElementType() ||
      whole.getCols() % part.getCols() != 0)
    return emitOpError("expected an equal share of the columns of ")
           << whole << ", but got " << part;
  // Bytes of one word of an atom.
  if (whole.getLayout() == Layout::Scales &&
      (whole.getCols() != 4 || part.getCols() > 2 || whole.getRows() > 128))
    return emitOpError("expected one or two of the four blocks of an atom, "
                       "but got ")
           << part << " of " << whole;
  int64_t cols = part.getCols();
  if (APInt first; matchPattern(getFirst(), m_ConstantInt(&first)) &&
                   (first.isNegative() || first.urem(cols) != 0 ||
                    first.uge(whole.getCols())))
    return emitOpError("expected the first column to be a multiple of ")
           << cols << " below " << whole.getCols() << ", but got "
           << first.getSExtValue();
  return success();
}

LogicalResult ExpectOp::verify() {
  // The pending count of an mbarrier's transactions has 20 bits.
  int64_t bytes = getBytes(), limit = (1 << 20) - 1;
  if (bytes < 1 || bytes > limit)
    return emitOpError("expected 1 to ")
           << limit << " bytes, but got " << bytes;
  return success();
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

LogicalResult TmaLoadOp::verify() {
  if (failed(checkWhole(*this)))
    return failure();
  auto source = cast<MemRefType>(getSource().getType());
  if (failed(checkKind(*this, "buffer", getBuffer().getType(),
                       {{Space::Smem, Layout::Operand}})))
    return failure();
  if (source.getRank() < 2 || source.getRank() > 3)
    return emitOpError("expected a source of rank 2 or 3, but got ") << source;
  if (static_cast<int64_t>(getIndices().size()) != source.getRank())
    return emitOpError("expected ")
           << source.getRank() << " indices, but got " << getIndices().size();
  if (source.getElementType() != getBuffer().getType().getElementType())
    return emitOpError("expected a buffer of ")
           << source.getElementType() << ", but got " << getBuffer().getType();
  return success();
}

LogicalResult BulkLoadOp::verify() {
  if (failed(checkWhole(*this)))
    return failure();
  auto source = cast<MemRefType>(getSource().getType());
  BufferType buffer = getBuffer().getType();
  if (failed(checkKind(
          *this, "buffer", buffer,
          {{Space::Smem, Layout::Scales}, {Space::Smem, Layout::Line}})))
    return failure();
  bool isLine = buffer.getLayout() == Layout::Line;
  if (isLine &&
      (source.getRank() < 2 || source.getShape().back() != buffer.getCols()))
    return emitOpError("expected a source of rows of ")
           << buffer.getCols() << " elements, but got " << source;
  // NVFP4: all atoms of a row group's tile follow each other.
  bool isNvfp4 = !isLine && isa<Float8E4M3FNType>(buffer.getElementType());
  int64_t atoms = llvm::divideCeil(buffer.getCols(), 4);
  if (!isLine && (source.getRank() != (isNvfp4 ? 4 : 3) ||
                  source.getShape().back() != 512 ||
                  (isNvfp4 && source.getDimSize(2) != atoms)))
    return emitOpError("expected a source of atoms, ?x?x")
           << (isNvfp4 ? std::to_string(atoms) + "x" : "") << "512, but got "
           << source;
  int64_t indices = isNvfp4 ? 2 : source.getRank() - 1;
  if (static_cast<int64_t>(getIndices().size()) != indices)
    return emitOpError("expected ")
           << indices << " indices, but got " << getIndices().size();
  if (source.getElementType() != buffer.getElementType())
    return emitOpError("expected a buffer of ")
           << source.getElementType() << ", but got " << buffer;
  return success();
}

/// A copy from shared to tensor memory keeps the shape.
template <typename CopyOp>
static LogicalResult verifyCopy(CopyOp op, Layout from, Layout to) {
  if (failed(checkWhole(op)))
    return failure();
  BufferType source = op.getSource().getType(),
             target = op.getTarget().getType();
  if (failed(checkKind(op, "source", source, {{Space::Smem, from}})) ||
      failed(checkKind(op, "target", target, {{Space::Tmem, to}})))
    return failure();
  return checkTile(op, "target", target, source.getRows(), source.getCols(),
                   source.getElementType());
}

LogicalResult CopyScalesOp::verify() {
  return verifyCopy(*this, Layout::Scales, Layout::Scales);
}

LogicalResult CopyOperandOp::verify() {
  if (getSource().getType().getRows() != 128)
    return emitOpError("expected source to have 128 rows, but got ")
           << getSource().getType();
  return verifyCopy(*this, Layout::Operand, Layout::Lanes);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult MmaOp::verify() {
  if (failed(checkWhole(*this)))
    return failure();
  BufferType d = getD().getType(), a = getA().getType(), b = getB().getType();
  if (failed(checkKind(*this, "d", d, {{Space::Tmem, Layout::Lanes}})) ||
      failed(checkKind(
          *this, "a", a,
          {{Space::Smem, Layout::Operand}, {Space::Tmem, Layout::Lanes}})) ||
      failed(checkKind(*this, "b", b, {{Space::Smem, Layout::Operand}})))
    return failure();

  bool aAlongCols = getAMajor() == Major::K;
  int64_t m = d.getRows(), n = d.getCols();
  int64_t k = aAlongCols ? a.getCols() : a.getRows();
  if (!aAlongCols && a.getSpace() != Space::Smem)
    return emitOpError("expected a in shared memory for 'a_major mn', but got ")
           << a;
  if (m != 128)
    return emitOpError("expected d to have 128 rows, but got ") << d;
  if (n % 16 != 0 || n > 256)
    return emitOpError("expected d to have a multiple of 16, at most 256, "
                       "columns, but got ")
           << d;
  if (!d.getElementType().isF32())
    return emitOpError("expected d to hold f32, but got ") << d;
  Type element = a.getElementType();
  if (failed(checkTile(*this, "a", a, aAlongCols ? m : k, aAlongCols ? k : m,
                       element)))
    return failure();
  bool alongCols = getMajor() == Major::K;
  if (failed(checkTile(*this, "b", b, alongCols ? n : k, alongCols ? k : n,
                       b.getElementType())))
    return failure();
  int64_t bits = element.getIntOrFloatBitWidth();
  if (k * bits % 256 != 0)
    return emitOpError("expected a contraction over a multiple of 32 bytes, "
                       "but got ")
           << k << " of " << element;

  if (!getAScales() != !getBScales())
    return emitOpError("expected scales of both operands or of none");
  if (!getAScales()) {
    if (bits != 16 || b.getElementType() != element)
      return emitOpError("without scales, expected operands of one 16-bit "
                         "type, but got ")
             << element << " and " << b.getElementType();
    return success();
  }
  bool isNvfp4 = isa<Float4E2M1FNType>(element);
  if ((isNvfp4 && b.getElementType() != element) ||
      (!isNvfp4 &&
       (bits != 8 || b.getElementType().getIntOrFloatBitWidth() != 8)))
    return emitOpError("with scales, expected operands of 8 bits or of "
                       "f4E2M1FN, but got ")
           << element << " and " << b.getElementType();
  if (isNvfp4 && (!aAlongCols || !alongCols || a.getSpace() != Space::Smem))
    return emitOpError("expected operands of f4E2M1FN in shared memory and "
                       "'major k', but got ")
           << a << " with major " << stringifyMajor(getAMajor()) << " and "
           << stringifyMajor(getMajor());
  Type scale = isNvfp4 ? Type(Float8E4M3FNType::get(getContext()))
                       : Type(Float8E8M0FNUType::get(getContext()));
  auto checkScales = [&](StringRef name, BufferType type,
                         int64_t rows) -> LogicalResult {
    return failure(
        failed(checkKind(*this, name, type, {{Space::Tmem, Layout::Scales}})) ||
        failed(
            checkTile(*this, name, type, rows, countScales(k, scale), scale)));
  };
  return failure(failed(checkScales("a_scales", getAScales().getType(), m)) ||
                 failed(checkScales("b_scales", getBScales().getType(), n)));
}

//===----------------------------------------------------------------------===//
// Vector side
//===----------------------------------------------------------------------===//

LogicalResult ReadOp::verify() {
  BufferType buffer = getBuffer().getType();
  auto tile = cast<RankedTensorType>(getResult().getType());
  if (failed(checkKind(*this, "buffer", buffer,
                       {{Space::Tmem, Layout::Lanes},
                        {Space::Smem, Layout::Operand},
                        {Space::Smem, Layout::Line}})))
    return failure();
  return checkColumns(*this, buffer, tile, getCol());
}

/// Whether `part` can be columns of `whole`: same rows, elements and scales.
static bool isPartOf(Type part, Type whole) {
  if (flamia::getTileShape(part).first != flamia::getTileShape(whole).first ||
      elementOf(part) != elementOf(whole))
    return false;
  auto scaledPart = dyn_cast<flamia::ScaledType>(part);
  auto scaledWhole = dyn_cast<flamia::ScaledType>(whole);
  if (!scaledPart || !scaledWhole)
    return !scaledPart && !scaledWhole;
  return scaledPart.getScaleType() == scaledWhole.getScaleType() &&
         scaledPart.getBlockRows() == scaledWhole.getBlockRows() &&
         scaledPart.getBlockCols() == scaledWhole.getBlockCols();
}

/// Parts of a row begin at whole words and scale blocks.
static LogicalResult checkColumn(Operation *op, Type whole, int64_t column) {
  int64_t bits = elementOf(whole).getIntOrFloatBitWidth();
  auto scaled = dyn_cast<flamia::ScaledType>(whole);
  if ((bits >= 8 && column * bits % 32 != 0) ||
      (scaled && column % scaled.getBlockCols() != 0))
    return op->emitOpError("expected parts of whole 32-bit words and scale "
                           "blocks, but got column ")
           << column << " of " << whole;
  return success();
}

LogicalResult SliceOp::verify() {
  Type whole = getSource().getType(), part = getResult().getType();
  int64_t first = getCol(), end = first + flamia::getTileShape(part).second;
  if (!isPartOf(part, whole) || first < 0 ||
      end > flamia::getTileShape(whole).second)
    return emitOpError("expected the result to be columns ")
           << first << " to " << end - 1 << " of " << whole << ", but got "
           << part;
  return failure(failed(checkColumn(*this, whole, first)) ||
                 failed(checkColumn(*this, whole, end)));
}

LogicalResult JoinOp::verify() {
  Type whole = getResult().getType();
  int64_t cols = 0;
  for (Type part : getSources().getTypes()) {
    if (!isPartOf(part, whole))
      return emitOpError("expected sources with the rows and elements of ")
             << whole << ", but got " << part;
    cols += flamia::getTileShape(part).second;
    if (failed(checkColumn(*this, whole, cols)))
      return failure();
  }
  if (cols != flamia::getTileShape(whole).second)
    return emitOpError("expected the sources' columns to add up to those of ")
           << whole << ", but got " << cols;
  return success();
}

LogicalResult WriteOp::verify() {
  BufferType buffer = getBuffer().getType();
  if (failed(checkKind(
          *this, "buffer", buffer,
          {{Space::Tmem, Layout::Lanes}, {Space::Smem, Layout::Operand}})))
    return failure();
  return checkColumns(*this, buffer, getValue().getType(), getCol());
}

LogicalResult WriteScalesOp::verify() {
  auto value = cast<flamia::ScaledType>(getValue().getType());
  BufferType buffer = getBuffer().getType();
  if (failed(
          checkKind(*this, "buffer", buffer, {{Space::Smem, Layout::Scales}})))
    return failure();
  bool alongCols = getAlong() == flamia::Axis::Cols;
  if (!alongCols && getBuffer().getDefiningOp<PartOp>())
    return emitOpError("expected a part to be written along cols, but got "
                       "along rows");
  int64_t rows = value.getRows(), cols = value.getCols();
  return checkTile(*this, "buffer", buffer, alongCols ? rows : cols,
                   countScales(alongCols ? cols : rows, value.getScaleType()),
                   value.getScaleType());
}
