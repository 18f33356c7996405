//===- ConvertFlamiaToNVVMProducts.cpp - tcgen05 products and moves -------===//
//
// Descriptors and instruction words of tcgen05.mma and cp, rows between
// registers and tensor memory or swizzled shared memory. Bit layouts:
// PTX ISA 9.7.16.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;
using tcgen::BufferType;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

/// A shared memory descriptor without its start address: swizzle by `span`
/// bytes (16: none), and the byte offsets of the leading and stride dimension.
static int64_t descriptorBits(int64_t span, int64_t leading, int64_t stride) {
  uint64_t swizzle = span == 128 ? 2 : span == 64 ? 4 : span == 32 ? 6 : 0;
  auto encode = [](int64_t bytes) { return uint64_t(bytes & 0x3FFFF) >> 4; };
  return int64_t(swizzle << 61 | uint64_t(1) << 46 | encode(stride) << 32 |
                 encode(leading) << 16);
}

/// The descriptor of the operand `offset` bytes past the shared address whose
/// sixteenth is `start` (i32). Shared memory ends below 2^18, so the sum stays
/// in the start field; one 32-bit addition is all that ptxas has to see.
static Value descriptor(Emitter &e, Value start, int64_t offset, int64_t bits) {
  int64_t low = bits & 0xFFFFFFFF;
  return e.ori(e.toI64(e.addC(start, low + offset / 16)), e.c64(bits - low));
}

/// Byte offset of a K step inside a K-major image: slabs of `span` bytes.
static int64_t kMajorOffset(BufferType type, int64_t step) {
  int64_t span = type.getSpanBytes();
  return 32 * step / span * type.getRows() * span + 32 * step % span;
}

static int64_t kMajorBits(BufferType type) {
  int64_t span = type.getSpanBytes();
  return descriptorBits(span, 16, 8 * span);
}

/// Element code in the instruction word, by kind (PTX ISA, tables of the
/// instruction descriptor: E2M1 is 1 in kind::mxf4nvf4).
static std::optional<uint32_t> elementCode(Type type) {
  if (isa<Float8E4M3FNType>(type) || type.isF16())
    return 0;
  if (isa<Float8E5M2Type, Float4E2M1FNType>(type) || type.isBF16())
    return 1;
  return std::nullopt;
}

LogicalResult KernelLowering::lowerMma(tcgen::MmaOp op) {
  auto d = cast<BufferType>(op.getD().getType());
  auto a = cast<BufferType>(op.getA().getType());
  auto b = cast<BufferType>(op.getB().getType());
  bool scaled = bool(op.getAScales());
  bool mnMajor = op.getMajor() == tcgen::Major::MN;
  bool aMnMajor = op.getAMajor() == tcgen::Major::MN;
  int64_t bits = a.getElementType().getIntOrFloatBitWidth();
  int64_t n = mnMajor ? b.getCols() : b.getRows();
  int64_t k = mnMajor ? b.getRows() : b.getCols();
  int64_t stepK = 256 / bits; // 32 bytes

  auto codeA = elementCode(a.getElementType());
  auto codeB = elementCode(b.getElementType());
  bool isNvfp4 = bits == 4;
  if (!codeA || !codeB ||
      bits != int64_t(b.getElementType().getIntOrFloatBitWidth()) ||
      (scaled ? bits > 8 : bits != 16) ||
      (!scaled && a.getElementType() != b.getElementType()))
    return unsupported(op, "expected 8-bit or f4E2M1FN elements with scales, "
                           "or equal 16-bit elements without, but got ")
           << a.getElementType() << " and " << b.getElementType();
  int64_t m = aMnMajor ? a.getCols() : a.getRows();
  if (m != 128 || d.getRows() != 128 || d.getCols() != n ||
      (aMnMajor ? a.getRows() : a.getCols()) != k || k % stepK != 0)
    return unsupported(op, "expected 128 rows and matching extents, but got ")
           << d.getRows() << "x" << d.getCols() << ", " << a.getRows() << "x"
           << a.getCols() << " and " << n << "x" << k;
  if (n % 16 != 0 || n < 16 || n > 256)
    return unsupported(op, "expected 16 to 256 columns in steps of 16, but "
                           "got ")
           << n;

  bool aInTmem = a.getSpace() == tcgen::Space::Tmem;
  Value aAddress = aInTmem ? tmemAddress(op.getA(), get(op.getASlot()))
                           : smemAddress(op.getA(), get(op.getASlot()));
  Value aStart = aInTmem ? Value() : e.shr(aAddress, 4);
  Value bStart = e.shr(smemAddress(op.getB(), get(op.getBSlot())), 4);
  Value dAddress =
      e.intToPtr(tmemAddress(op.getD(), get(op.getDSlot())), Tensor);
  Value aScales, bScales;
  if (scaled) {
    aScales = tmemAddress(op.getAScales(), get(op.getAScalesSlot()));
    bScales = tmemAddress(op.getBScales(), get(op.getBScalesSlot()));
  }
  Value accumulate = get(op.getAccumulate());

  uint32_t word = *codeA << 7 | *codeB << 10 | uint32_t(mnMajor) << 16 |
                  uint32_t(aMnMajor) << 15 | uint32_t(n / 8) << 17 |
                  uint32_t(128 / 16) << 24;
  // Type of D, or that of the scales: UE8M0 or (NVFP4, 0) UE4M3.
  if (!isNvfp4)
    word |= scaled ? uint32_t(1) << 23 : uint32_t(1) << 4;

  auto mnMajorOffset = [&](BufferType type, int64_t step) {
    return step * stepK * type.getSpanBytes();
  };
  auto mnMajorBits = [](BufferType type) {
    int64_t span = type.getSpanBytes();
    return descriptorBits(span, type.getRows() * span, 8 * span);
  };
  int64_t aBits = aMnMajor ? mnMajorBits(a) : kMajorBits(a);
  int64_t bBits = mnMajor ? mnMajorBits(b) : kMajorBits(b);
  int64_t bScaleColumns = 4 * llvm::divideCeil(n, 128);

  issue([&] {
    Value always = e.op<arith::ConstantOp>(e.b.getBoolAttr(true));
    for (int64_t step = 0; step < k / stepK; ++step) {
      int64_t aOffset =
          aMnMajor ? mnMajorOffset(a, step) : kMajorOffset(a, step);
      Value aOperand = aInTmem ? e.intToPtr(e.addC(aAddress, 8 * step), Tensor)
                               : descriptor(e, aStart, aOffset, aBits);
      int64_t bOffset =
          mnMajor ? mnMajorOffset(b, step) : kMajorOffset(b, step);
      Value bOperand = descriptor(e, bStart, bOffset, bBits);
      Value input = step == 0 ? accumulate : always;
      if (!scaled) {
        NVVM::Tcgen05MMAOp::create(
            e.b, e.loc, NVVM::Tcgen05MMAKind::F16, NVVM::CTAGroupKind::CTA_1,
            NVVM::Tcgen05MMACollectorOp::DISCARD, /*aShift=*/false, dAddress,
            aOperand, bOperand, e.c32(word), input, Value(), Value());
        continue;
      }
      // MXFP8: one scale a step, four steps share a word of scales and choose
      // their byte by the ids. NVFP4: a step takes a word of four scales.
      int64_t atom = isNvfp4 ? step : step / 4;
      uint32_t id = isNvfp4 ? 0 : step % 4;
      NVVM::Tcgen05MMABlockScaleOp::create(
          e.b, e.loc,
          isNvfp4 ? NVVM::MMABlockScaleKind::MXF4NVF4
                  : NVVM::MMABlockScaleKind::MXF8F6F4,
          NVVM::CTAGroupKind::CTA_1,
          isNvfp4 ? NVVM::Tcgen05MMABlockScale::BLOCK16
                  : NVVM::Tcgen05MMABlockScale::BLOCK32,
          NVVM::Tcgen05MMACollectorOp::DISCARD, dAddress, aOperand, bOperand,
          e.c32(word | id << 4 | id << 29), input,
          e.intToPtr(e.addC(aScales, 4 * atom), Tensor),
          e.intToPtr(e.addC(bScales, bScaleColumns * atom), Tensor));
    }
  });
  return success();
}

void KernelLowering::lowerCopyScales(tcgen::CopyScalesOp op) {
  auto type = cast<BufferType>(op.getSource().getType());
  Value from = e.shr(smemAddress(op.getSource(), get(op.getSourceSlot())), 4);
  Value to = tmemAddress(op.getTarget(), get(op.getTargetSlot()));
  issue([&] {
    for (int64_t atom = 0; atom < type.getNumAtoms(); ++atom)
      NVVM::Tcgen05CpOp::create(
          e.b, e.loc, NVVM::Tcgen05CpShape::SHAPE_32x128b,
          NVVM::CTAGroupKind::CTA_1, NVVM::Tcgen05CpMulticast::WARPX4,
          NVVM::Tcgen05CpSrcFormatAttr(),
          e.intToPtr(e.addC(to, 4 * atom), Tensor),
          descriptor(e, from, 512 * atom, descriptorBits(16, 16, 128)));
  });
}

void KernelLowering::lowerCopyOperand(tcgen::CopyOperandOp op) {
  auto type = cast<BufferType>(op.getSource().getType());
  Value from = e.shr(smemAddress(op.getSource(), get(op.getSourceSlot())), 4);
  Value to = tmemAddress(op.getTarget(), get(op.getTargetSlot()));
  int64_t steps =
      type.getCols() * type.getElementType().getIntOrFloatBitWidth() / 256;
  issue([&] {
    for (int64_t step = 0; step < steps; ++step)
      NVVM::Tcgen05CpOp::create(
          e.b, e.loc, NVVM::Tcgen05CpShape::SHAPE_128x256b,
          NVVM::CTAGroupKind::CTA_1, NVVM::Tcgen05CpMulticast::NONE,
          NVVM::Tcgen05CpSrcFormatAttr(),
          e.intToPtr(e.addC(to, 8 * step), Tensor),
          descriptor(e, from, kMajorOffset(type, step), kMajorBits(type)));
  });
}

//===----------------------------------------------------------------------===//
// Tensor memory rows
//===----------------------------------------------------------------------===//

Value KernelLowering::laneAddress(Value taddr) {
  return e.add(taddr, e.shl(e.andi(warp, e.c32(3)), 21));
}

/// Largest register count of a 32x32b access.
static int64_t chunkColumns(int64_t left) {
  return std::min<int64_t>(32, int64_t(1) << llvm::Log2_64(left));
}

void KernelLowering::storeTmem(Value taddr, ArrayRef<Value> words) {
  Value address = laneAddress(taddr);
  for (size_t first = 0; first < words.size();) {
    int64_t count = chunkColumns(words.size() - first);
    NVVM::Tcgen05StOp::create(
        e.b, e.loc, /*unpack=*/false, NVVM::Tcgen05LdStShape::SHAPE_32X32B,
        e.intToPtr(e.addC(address, first), Tensor),
        e.fromElements(words.slice(first, count)), Value());
    first += count;
  }
}

SmallVector<Value> KernelLowering::loadTmem(Value taddr, int64_t columns) {
  Value address = laneAddress(taddr);
  SmallVector<Value> chunks;
  for (int64_t first = 0; first < columns;) {
    int64_t count = chunkColumns(columns - first);
    Type type = count == 1 ? e.i32() : Type(e.vec(count, e.i32()));
    chunks.push_back(e.op<NVVM::Tcgen05LdOp>(
        type, /*pack=*/false, NVVM::Tcgen05LdStShape::SHAPE_32X32B,
        e.intToPtr(e.addC(address, first), Tensor), Value()));
    first += count;
  }
  NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::LOAD);
  // LLVM sees no dependence between the load and the wait, and would move uses
  // of the registers in front of the wait.
  SmallVector<Value> words;
  for (Value chunk : chunks)
    words.append(e.inPlace(e.elements(chunk)));
  return words;
}

void KernelLowering::emitFillScales(tcgen::FillScalesOp op) {
  auto type = cast<BufferType>(op.getBuffer().getType());
  Value word = e.c32(int64_t(op.getByte() & 0xFF) * 0x01010101);
  for (int64_t slot = 0; slot < type.getSlots(); ++slot)
    storeTmem(tmemAddress(op.getBuffer(), e.cIndex(slot)),
              SmallVector<Value>(type.getSlotSize(), word));
}

std::pair<Value, Value> KernelLowering::swizzledRow(BufferType type,
                                                    Value base) {
  // Slots start at multiples of the swizzle atom, so the bits that the swizzle
  // takes from the address are those of the row.
  int64_t span = type.getSpanBytes();
  Value address = e.add(base, e.mulC(row, span));
  Value flip = e.andi(e.shr(address, 3), e.c32(span - 16));
  return {address, flip};
}

/// A read may follow a write of the same role without a channel between.
void KernelLowering::waitForOwnWrites(Value buffer) {
  if (role && llvm::any_of(tcgen::usersOf(buffer), [&](Operation *user) {
        return isa<tcgen::WriteOp>(user) && role->op->isAncestor(user);
      }))
    NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::STORE);
}

/// Four words from a shared address that is a multiple of 16.
SmallVector<Value> KernelLowering::loadShared(Value address) {
  return e.elements(
      e.op<LLVM::LoadOp>(e.vec(4, e.i32()), e.intToPtr(address, Shared), 16));
}

/// The row of a tile from its words.
void KernelLowering::setRow(Value tile, MutableArrayRef<Value> words) {
  TileInfo info = tileInfo(tile.getType());
  if (!info.isPacked())
    for (Value &word : words)
      word = e.bitcast(word, info.element);
  set(tile, e.fromElements(words));
}

/// All threads read the same words.
LogicalResult KernelLowering::lowerReadLine(tcgen::ReadOp op) {
  TileInfo tile = tileInfo(op.getType());
  // ptxas hoists loads from shared memory over everything but this.
  if (tmemColumns > 0)
    NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::LOAD);
  int64_t bytes = tile.element.getIntOrFloatBitWidth() / 8;
  Value address = smemAddress(op.getBuffer(), get(op.getSlot()));
  SmallVector<Value> words;
  for (int64_t byte = 0; byte < tile.cols * bytes; byte += 16) {
    words.append(
        loadShared(e.addC(address, int64_t(op.getCol()) * bytes + byte)));
  }
  setRow(op.getResult(), words);
  return success();
}

LogicalResult KernelLowering::lowerRead(tcgen::ReadOp op) {
  auto type = cast<BufferType>(op.getBuffer().getType());
  if (type.getLayout() == tcgen::Layout::Line)
    return lowerReadLine(op);
  TileInfo tile = tileInfo(op.getType());
  if (type.getRows() != 128 || type.getRows() != tile.rows ||
      type.getElementType() != tile.element ||
      type.getLayout() == tcgen::Layout::Scales)
    return unsupported(op, "expected a buffer of 128 rows that holds the "
                           "tile, but got ")
           << type;
  SmallVector<Value> words;
  int64_t bits = tile.element.getIntOrFloatBitWidth();
  int64_t firstByte = int64_t(op.getCol()) * bits / 8;
  int64_t endByte = firstByte + tile.cols * bits / 8;
  if (type.getSpace() == tcgen::Space::Tmem) {
    waitForOwnWrites(op.getBuffer());
    words = loadTmem(
        e.addC(tmemAddress(op.getBuffer(), get(op.getSlot())), firstByte / 4),
        (endByte - firstByte) / 4);
  } else {
    auto [address, flip] =
        swizzledRow(type, smemAddress(op.getBuffer(), get(op.getSlot())));
    int64_t span = type.getSpanBytes();
    for (int64_t byte = firstByte; byte < endByte; byte += 16) {
      Value at = e.add(e.addC(address, byte / span * type.getRows() * span),
                       e.xori(e.c32(byte % span), flip));
      words.append(loadShared(at));
    }
  }
  setRow(op.getResult(), words);
  return success();
}

LogicalResult KernelLowering::lowerWrite(tcgen::WriteOp op) {
  auto type = cast<BufferType>(op.getBuffer().getType());
  TileInfo tile = tileInfo(op.getValue().getType());
  if (type.getRows() != 128 || type.getRows() != tile.rows ||
      type.getElementType() != tile.element ||
      type.getLayout() == tcgen::Layout::Scales)
    return unsupported(op, "expected a buffer of 128 rows that holds the "
                           "tile, but got ")
           << type;
  SmallVector<Value> words = e.elements(get(op.getValue()));
  for (Value &word : words)
    word = e.bitcast(word, e.i32());
  int64_t bits = tile.element.getIntOrFloatBitWidth();
  int64_t firstByte = int64_t(op.getCol()) * bits / 8;
  if (type.getSpace() == tcgen::Space::Tmem) {
    storeTmem(
        e.addC(tmemAddress(op.getBuffer(), get(op.getSlot())), firstByte / 4),
        words);
    return success();
  }
  auto [address, flip] =
      swizzledRow(type, smemAddress(op.getBuffer(), get(op.getSlot())));
  int64_t span = type.getSpanBytes();
  for (size_t next = 0; next < words.size(); next += 4) {
    int64_t byte = firstByte + 4 * int64_t(next);
    Value at = e.add(e.addC(address, byte / span * type.getRows() * span),
                     e.xori(e.c32(byte % span), flip));
    LLVM::StoreOp::create(e.b, e.loc,
                          e.vectorOf(ArrayRef(words).slice(next, 4)),
                          e.intToPtr(at, Shared), 16);
  }
  return success();
}

LogicalResult KernelLowering::lowerWriteScales(tcgen::WriteScalesOp op) {
  auto type = cast<ScaledType>(op.getValue().getType());
  auto buffer = cast<BufferType>(op.getBuffer().getType());
  if (failed(checkAtomBlocks(op, type, op.getAlong())))
    return failure();
  bool cols = op.getAlong() == Axis::Cols;
  int64_t rows = cols ? type.getRows() : type.getCols();
  int64_t blocks = (cols ? type.getCols() : type.getRows()) / 32;
  if (buffer.getSpace() != tcgen::Space::Smem ||
      buffer.getLayout() != tcgen::Layout::Scales || buffer.getRows() != rows ||
      buffer.getCols() != blocks)
    return unsupported(op, "expected a shared memory scales buffer of ")
           << rows << "x" << blocks << ", but got " << buffer;
  Value base = smemAddress(op.getBuffer(), get(op.getSlot()));
  int64_t rowGroups = llvm::divideCeil(rows, 128);
  forEachAtomPart(
      type, values.lookup(op.getValue())[1], op.getAlong(), Value(),
      [&](int64_t rowGroup, int64_t blockGroup, Value offset, Value value) {
        int64_t atom = blockGroup * rowGroups + rowGroup;
        if (auto units = magnitudes.find(op.getValue());
            units != magnitudes.end())
          value = packScaleBytes(
              ArrayRef(units->second).drop_front(size_t(4 * blockGroup)));
        // A part has its bytes of the word.
        if (op.getBuffer().getDefiningOp<tcgen::PartOp>())
          value = e.op<arith::TruncIOp>(e.b.getIntegerType(8 * blocks), value);
        LLVM::StoreOp::create(
            e.b, e.loc, value,
            e.intToPtr(e.add(e.addC(base, 512 * atom), offset), Shared),
            value.getType().getIntOrFloatBitWidth() / 8);
      });
  return success();
}

/// Payload words (or elements) and scale bytes of the columns.
void KernelLowering::lowerSlice(tcgen::SliceOp op) {
  Type whole = op.getSource().getType(), part = op.getResult().getType();
  Values from = values.lookup(op.getSource()), result;
  SmallVector<Type> types;
  (void)lowerTypes(op, part, types);
  int64_t cols = tileInfo(whole).cols;
  if (auto payload = op.getSource().getDefiningOp<PayloadOp>();
      payload &&
      cast<VectorType>(from[0].getType()).getElementType().isInteger(32)) {
    // Still packed (lowerPayload).
    Type element = tileInfo(payload.getSource().getType()).element;
    SmallVector<Value> words = e.elements(from[0]);
    size_t count = tileInfo(part).cols / 4, first = op.getCol() / 4;
    set(op.getResult(),
        e.fromElements(
            unpack(e.vectorOf(e.inPlace(ArrayRef(words).slice(first, count))),
                   element)));
    return;
  }
  for (auto [value, type] : llvm::zip(from, types)) {
    SmallVector<Value> all = e.elements(value);
    auto vector = dyn_cast<VectorType>(type);
    size_t count = vector ? vector.getNumElements() : 1;
    size_t first = int64_t(op.getCol()) * int64_t(all.size()) / cols;
    ArrayRef<Value> kept = ArrayRef(all).slice(first, count);
    result.push_back(vector ? e.vectorOf(kept) : kept.front());
  }
  values[op.getResult()] = result;
}

void KernelLowering::lowerJoin(tcgen::JoinOp op) {
  SmallVector<SmallVector<Value>, 2> parts(
      isa<ScaledType>(op.getResult().getType()) ? 2 : 1);
  for (Value source : op.getSources())
    for (auto [part, value] : llvm::zip(parts, values.lookup(source)))
      part.append(e.elements(value));
  Values result;
  for (ArrayRef<Value> part : parts)
    result.push_back(e.vectorOf(part));
  values[op.getResult()] = result;
  SmallVector<Value> units;
  for (Value source : op.getSources())
    llvm::append_range(units, magnitudes.lookup(source));
  if (!units.empty()) {
    assert(units.size() == parts.back().size() && "all or none");
    magnitudes[op.getResult()] = units;
  }
}
