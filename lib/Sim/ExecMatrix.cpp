//===- ExecMatrix.cpp - ldmatrix, stmatrix, movmatrix ---------------------===//
//
// facts/tcgen05.md section 10.4 (PTX ISA 9.7.14.5.15-17), b16 8x8 matrices, the
// transposing b8 forms and those that expand padded 4- and 6-bit elements to
// bytes. The expanded elements lie in the low bits of their byte: CUTLASS
// shifts 4-bit ones itself behind these loads.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "MemoryDecode.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum MatrixFlags : uint32_t { mxWide = 1, mxTrans = 2, mxBits = 4 };

/// The 16 elements of a row as bytes; `bits` 0: they are bytes already.
void expandRow(const uint8_t *row, unsigned bits, uint8_t *bytes) {
  if (bits == 0) {
    std::memcpy(bytes, row, 16);
    return;
  }
  for (unsigned k = 0; k < 16; ++k) {
    unsigned at = k * bits, low = row[at / 8] | row[at / 8 + 1] << 8;
    bytes[k] = uint8_t(low >> (at % 8) & ((1u << bits) - 1));
  }
}

/// Host pointer to the 16-byte row whose address thread `lane` gives.
uint8_t *row(Exec &x, const Instr &i, unsigned lane, bool isStore) {
  uint64_t address = x.addressOf(i, i.src[0], i.aux & mxWide, int(lane));
  uint8_t *p = x.resolve(i, i.space, address, 16,
                         isStore ? Exec::Store : Exec::Load, int(lane));
  if (!p)
    return nullptr;
  bool ok = isStore ? x.markDefined(i, i.space, address, 16, int(lane))
                    : x.requireDefined(i, i.space, address, 16, int(lane));
  return ok ? p : nullptr;
}

/// m8n8.b16: row p of matrix k comes from thread 8k+p.
Flow loadMatrix(Exec &x, const Instr &i, uint32_t mask) {
  unsigned count = i.vecCount;
  uint16_t cells[4][8][8];
  for (unsigned k = 0; k < count; ++k)
    for (unsigned p = 0; p < 8; ++p) {
      const uint8_t *r = row(x, i, 8 * k + p, false);
      if (!r)
        return Flow::Fail;
      std::memcpy(cells[k][p], r, 16);
    }
  bool trans = i.aux & mxTrans;
  for (unsigned k = 0; k < count; ++k) {
    uint32_t *d = x.lanes<uint32_t>(x.vec(i, k));
    for (unsigned t = 0; t < warpLanes; ++t) {
      unsigned a = t / 4, b = 2 * (t % 4);
      uint16_t lo = trans ? cells[k][b][a] : cells[k][a][b];
      uint16_t hi = trans ? cells[k][b + 1][a] : cells[k][a][b + 1];
      d[t] = uint32_t(hi) << 16 | lo;
    }
  }
  x.cluster.bytes[unsigned(Bytes::SharedLoad)] += 128 * count;
  return Flow::Next;
}
Flow storeMatrix(Exec &x, const Instr &i, uint32_t mask) {
  unsigned count = i.vecCount;
  bool trans = i.aux & mxTrans;
  for (unsigned k = 0; k < count; ++k) {
    uint16_t cells[8][8];
    const uint32_t *s = x.lanes<uint32_t>(x.vec(i, k));
    for (unsigned t = 0; t < warpLanes; ++t) {
      unsigned a = t / 4, b = 2 * (t % 4);
      (trans ? cells[b][a] : cells[a][b]) = uint16_t(s[t]);
      (trans ? cells[b + 1][a] : cells[a][b + 1]) = uint16_t(s[t] >> 16);
    }
    for (unsigned p = 0; p < 8; ++p) {
      uint8_t *r = row(x, i, 8 * k + p, true);
      if (!r)
        return Flow::Fail;
      std::memcpy(r, cells[p], 16);
    }
  }
  x.cluster.bytes[unsigned(Bytes::SharedStore)] += 128 * count;
  return Flow::Next;
}

/// stmatrix m16n8.trans.b8: register k byte j of thread t is byte
/// t/4 + 8*(j/2) of the row of thread 8k + 2*(t%4) + j%2.
Flow storeMatrixBytes(Exec &x, const Instr &i, uint32_t mask) {
  for (unsigned k = 0; k < i.vecCount; ++k) {
    uint8_t *rows[8];
    for (unsigned p = 0; p < 8; ++p) {
      rows[p] = row(x, i, 8 * k + p, true);
      if (!rows[p])
        return Flow::Fail;
    }
    const uint32_t *s = x.lanes<uint32_t>(x.vec(i, k));
    for (unsigned t = 0; t < warpLanes; ++t)
      for (unsigned j = 0; j < 4; ++j)
        rows[2 * (t % 4) + (j & 1)][t / 4 + 8 * (j >> 1)] =
            uint8_t(s[t] >> (8 * j));
  }
  x.cluster.bytes[unsigned(Bytes::SharedStore)] += 128 * i.vecCount;
  return Flow::Next;
}
/// ldmatrix m16n16.trans.b8: two registers a matrix, 16 rows each.
Flow loadMatrixBytes(Exec &x, const Instr &i, uint32_t mask) {
  unsigned matrices = i.vecCount / 2;
  uint8_t cells[2][16][16];
  for (unsigned k = 0; k < matrices; ++k)
    for (unsigned p = 0; p < 16; ++p) {
      const uint8_t *r = row(x, i, 16 * k + p, false);
      if (!r)
        return Flow::Fail;
      expandRow(r, i.aux / mxBits, cells[k][p]);
    }
  for (unsigned k = 0; k < i.vecCount; ++k) {
    uint32_t *d = x.lanes<uint32_t>(x.vec(i, k));
    unsigned reg = k & 1;
    for (unsigned t = 0; t < warpLanes; ++t) {
      uint32_t v = 0;
      for (unsigned j = 0; j < 4; ++j)
        v |= uint32_t(cells[k / 2][4 * (t % 4) + j][t / 4 + 8 * reg])
             << (8 * j);
      d[t] = v;
    }
  }
  x.cluster.bytes[unsigned(Bytes::SharedLoad)] += 256 * matrices;
  return Flow::Next;
}

/// ldmatrix m8n16: thread t gets elements 4*(t%4) and up of row t/4.
Flow loadExpanded(Exec &x, const Instr &i, uint32_t mask) {
  uint8_t cells[4][8][16];
  for (unsigned k = 0; k < i.vecCount; ++k)
    for (unsigned p = 0; p < 8; ++p) {
      const uint8_t *r = row(x, i, 8 * k + p, false);
      if (!r)
        return Flow::Fail;
      expandRow(r, i.aux / mxBits, cells[k][p]);
    }
  for (unsigned k = 0; k < i.vecCount; ++k) {
    uint32_t *d = x.lanes<uint32_t>(x.vec(i, k));
    for (unsigned t = 0; t < warpLanes; ++t)
      std::memcpy(&d[t], &cells[k][t / 4][4 * (t % 4)], 4);
  }
  x.cluster.bytes[unsigned(Bytes::SharedLoad)] += 128 * i.vecCount;
  return Flow::Next;
}

/// movmatrix: an 8x8 matrix of b16 held by the warp is transposed.
Flow moveMatrix(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *s = x.lanes<uint32_t>(i.src[0]);
  uint16_t cells[8][8];
  for (unsigned t = 0; t < warpLanes; ++t) {
    cells[t / 4][2 * (t % 4)] = uint16_t(s[t]);
    cells[t / 4][2 * (t % 4) + 1] = uint16_t(s[t] >> 16);
  }
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned t) {
    return uint32_t(cells[2 * (t % 4) + 1][t / 4]) << 16 |
           cells[2 * (t % 4)][t / 4];
  });
}

bool decodeMovMatrix(Decoder &d) {
  Instr &o = *d.out;
  for (const char *q : {"sync", "aligned", "m8n8", "trans", "b16"})
    if (!d.take(q)) {
      d.failForm();
      return true;
    }
  o.flags |= flagAligned;
  o.unit = Unit::Warp;
  o.fn = moveMatrix;
  if (d.expectOps(2) && d.dst(d.op(0), 32, o.dst[0]))
    d.src(d.op(1), Type::B32, o.src[0]);
  return true;
}

} // namespace

bool decodeMatrix(Decoder &d) {
  StringRef base = d.base();
  if (base == "movmatrix")
    return decodeMovMatrix(d);
  bool isLoad = base == "ldmatrix";
  if (!isLoad && base != "stmatrix")
    return false;
  Instr &o = *d.out;
  bool sync = d.take("sync"), aligned = d.take("aligned");
  StringRef shape = d.takeAny({"m8n8", "m16n8", "m16n16", "m8n16"});
  StringRef num = d.takeAny({"x1", "x2", "x4"});
  bool trans = d.take("trans");
  if (!takeSpace(d, o.space))
    o.space = spaceGeneric;
  StringRef packed = d.takeAny({"b6x16_p32", "b4x16_p64"});
  bool expands = isLoad && !packed.empty() && d.take("b8x16");
  Type t = expands ? Type::B8 : d.takeType();
  unsigned count = num.empty() ? 0 : unsigned(num[1] - '0');
  bool words = shape == "m8n8" && t == Type::B16;
  bool bytes = t == Type::B8 && trans &&
               (isLoad ? shape == "m16n16" && count <= 2 : shape == "m16n8");
  bool rows = expands && !trans && shape == "m8n16";
  if (!sync || !aligned || !count || (!words && !bytes && !rows)) {
    d.failForm();
    return true;
  }
  o.flags |= flagAligned | (isLoad ? 0 : flagEffect);
  o.unit = Unit::Shared;
  o.fn = rows     ? loadExpanded
         : isLoad ? (words ? loadMatrix : loadMatrixBytes)
                  : (words ? storeMatrix : storeMatrixBytes);
  bool wide = false;
  if (!d.expectOps(2) || !d.address(d.op(isLoad ? 1 : 0), o.src[0], wide))
    return true;
  o.aux = (wide ? mxWide : 0u) | (trans ? mxTrans : 0u);
  if (expands)
    o.aux |= (packed == "b6x16_p32" ? 6 : 4) * mxBits;
  const ptx::Operand &value = d.op(isLoad ? 0 : 1);
  unsigned registers = bytes && isLoad ? 2 * count : count;
  size_t have = value.kind == ptx::Operand::Vector ? value.elems.size() : 1;
  if (have != registers) {
    d.fail("expected " + llvm::Twine(registers) + " registers in '" +
           d.in->opcode + "', but got " + llvm::Twine(have));
    return true;
  }
  if (isLoad)
    d.vectorDst(value, 32);
  else
    d.vectorSrc(value, Type::B32);
  return true;
}

} // namespace sim
} // namespace flamia
