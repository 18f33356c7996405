//===- DecoderOperands.cpp - Registers, constants, addresses --------------===//
//
// Places of an instruction's operands, and the checks of their kinds and sizes.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "ExecControl.h"

#include "llvm/ADT/Twine.h"

#include <cstring>

namespace flamia {
namespace sim {

using llvm::Twine;
using ptx::Operand;

unsigned Decoder::regBits(const Operand &o) const {
  return o.isReg() ? ptx::bitsOf(fn->registers[o.reg].cls) : 0;
}

uint32_t Decoder::allocRegister(unsigned bits) {
  // 8-bit registers live in 16-bit lanes. Everything but predicates starts on a
  // cache line.
  unsigned bytes = bits == 1 ? 4 : bits <= 16 ? 64 : bits / 8 * warpLanes;
  unsigned align = bits == 1 ? 4 : 64;
  uint32_t off = (kernel->registerBytes + align - 1) & ~(align - 1);
  kernel->registerBytes = off + bytes;
  return off;
}

Src Decoder::scratch(unsigned bits) {
  auto it = scratchPlaces.find(bits);
  if (it == scratchPlaces.end())
    it = scratchPlaces.emplace(bits, allocRegister(bits)).first;
  return {0, it->second};
}

Src Decoder::constant(uint64_t value, unsigned bits, bool sharedAddress) {
  auto key = std::make_pair(value, bits | (sharedAddress ? 256u : 0u));
  auto it = constantPool.find(key);
  if (it != constantPool.end())
    return it->second;
  std::vector<uint8_t> &pool = kernel->constants;
  unsigned laneBytes = bits <= 16 ? 2 : bits / 8;
  unsigned copies = bits == 1 ? 1 : warpLanes;
  if (bits == 1)
    laneBytes = 4;
  unsigned align = bits == 1 ? 4 : 64;
  pool.resize((pool.size() + align - 1) & ~size_t(align - 1));
  Src s = {1, uint32_t(pool.size())};
  pool.resize(pool.size() + copies * laneBytes);
  for (unsigned i = 0; i < copies; ++i)
    std::memcpy(pool.data() + s.off + i * laneBytes, &value,
                laneBytes < 8 ? laneBytes : 8);
  if (sharedAddress)
    kernel->sharedConstants.emplace_back(uint32_t(s.off), uint8_t(laneBytes));
  constantPool.emplace(key, s);
  return s;
}

uint64_t Decoder::immediateBits(const Operand &o, Type type, bool &ok) {
  unsigned bits = bitsOfType(type);
  ok = true;
  if (o.kind == Operand::Float) {
    if (o.single)
      ok = bits == 32 && type != Type::U32 && type != Type::S32;
    if (ok && o.single)
      return o.bits;
    double d;
    std::memcpy(&d, &o.bits, 8);
    if (type == Type::F32) {
      float f = float(d);
      uint32_t b;
      std::memcpy(&b, &f, 4);
      return b;
    }
    ok = ok && (type == Type::F64 || type == Type::B64);
    if (!ok)
      fail("floating-point literal does not fit the type of '" + in->opcode +
           "'");
    return o.bits;
  }
  if (type == Type::F32 || type == Type::F64) {
    // ptxas takes integers only where bits are meant.
    ok = false;
    fail("expected a floating-point literal in '" + in->opcode + "'");
    return 0;
  }
  if (bits < 64) {
    int64_t s = int64_t(o.bits);
    if (s < -(int64_t(1) << (bits - 1)) || s >= (int64_t(1) << bits)) {
      ok = false;
      fail("literal " + Twine(s) + " does not fit " + Twine(bits) +
           " bits in '" + in->opcode + "'");
    }
    return o.bits & ((uint64_t(1) << bits) - 1);
  }
  return o.bits;
}

bool Decoder::dst(const Operand &o, unsigned bits, Src &s, bool wider) {
  if (o.kind == Operand::Sink) {
    s = scratch(bits);
    return true;
  }
  if (!o.isReg())
    return fail("expected a register as destination of '" + in->opcode + "'");
  unsigned have = regBits(o);
  if (have != bits && !(wider && have > bits))
    return fail("destination '" + fn->registers[o.reg].spelling() + "' of '" +
                in->opcode + "' has " + Twine(have) + " bits, expected " +
                Twine(bits));
  s = regPlace(o.reg);
  def(o.reg);
  return true;
}

bool Decoder::src(const Operand &o, Type type, Src &s, bool wider) {
  unsigned bits = bitsOfType(type);
  switch (o.kind) {
  case Operand::Reg: {
    unsigned have = regBits(o);
    if (o.negated)
      return fail("unexpected '!' in '" + in->opcode + "'");
    if (have != bits && !(wider && have > bits && bits > 1))
      return fail("operand '" + fn->registers[o.reg].spelling() + "' of '" +
                  in->opcode + "' has " + Twine(have) + " bits, expected " +
                  Twine(bits));
    s = regPlace(o.reg);
    use(o.reg);
    return true;
  }
  case Operand::Int:
  case Operand::Float: {
    bool ok;
    uint64_t value = immediateBits(o, type, ok);
    if (ok)
      s = constant(value, bits);
    return ok;
  }
  case Operand::Name: {
    if (specialRegister(o.name, bits, s))
      return true;
    if (failed())
      return false;
    uint64_t value;
    ptx::Space space;
    if (!nameValue(o.name, in->scope, value, space))
      return fail("unknown name '" + o.name + "' in '" + in->opcode + "'");
    if (frameVariable(*this, o.name) != noIndex)
      return fail("unexpected use of '" + o.name +
                  "', a local variable of a recursive function, in '" +
                  in->opcode + "': only mov is simulated");
    if (bits < 32)
      return fail("address of '" + o.name + "' does not fit " + Twine(bits) +
                  " bits");
    s = constant(value + uint64_t(o.offset), bits, space == ptx::Space::Shared);
    return true;
  }
  default:
    return fail("unexpected operand of '" + in->opcode + "'");
  }
}

bool Decoder::predDst(const Operand &o, Src &s) { return dst(o, 1, s); }

bool Decoder::predSrc(const Operand &o, Src &s, bool *negated) {
  if (o.kind == Operand::Int) {
    s = predConstant(o.bits != 0);
    if (negated)
      *negated = false;
    return true;
  }
  if (!o.isReg() || regBits(o) != 1)
    return fail("expected a predicate operand of '" + in->opcode + "'");
  if (o.negated && !negated)
    return fail("unexpected '!' in '" + in->opcode + "'");
  if (negated)
    *negated = o.negated;
  s = regPlace(o.reg);
  use(o.reg);
  return true;
}

bool Decoder::immediate(const Operand &o, int64_t &value, const char *what) {
  if (o.kind != Operand::Int)
    return fail(Twine("expected an integer literal for ") + what + " of '" +
                in->opcode + "'");
  value = int64_t(o.bits);
  return true;
}

bool Decoder::address(const Operand &o, Src &s, bool &bits64) {
  if (o.kind != Operand::Address)
    return fail("expected an address operand of '" + in->opcode + "'");
  if (o.elems.size() > 1 && base() != "cp")
    return fail("unexpected coordinates in an address of '" + in->opcode + "'");
  const Operand &b = o.elems.front();
  out->imm = o.offset;
  localAddress = false;
  if (b.isReg()) {
    unsigned bits = regBits(b);
    if (bits != 32 && bits != 64)
      return fail("address register '" + fn->registers[b.reg].spelling() +
                  "' has " + Twine(bits) + " bits, expected 32 or 64");
    bits64 = bits == 64;
    s = regPlace(b.reg);
    use(b.reg);
    return true;
  }
  if (b.kind == Operand::Int) {
    bits64 = true;
    s = constant(b.bits, 64);
    return true;
  }
  if (b.kind == Operand::Name) {
    bits64 = true;
    out->imm = 0; // The name's constant includes the offset.
    uint64_t value;
    ptx::Space space;
    localAddress = nameValue(b.name, in->scope, value, space) &&
                   space == ptx::Space::Local;
    return src(b, Type::B64, s);
  }
  return fail("malformed address operand of '" + in->opcode + "'");
}

bool Decoder::vectorOf(const Operand &o,
                       llvm::function_ref<bool(const Operand &, Src &)> one) {
  if (out->vecCount == 0)
    out->vecBegin = uint32_t(kernel->vec.size());
  llvm::ArrayRef<Operand> elements = o.kind == Operand::Vector
                                         ? llvm::ArrayRef<Operand>(o.elems)
                                         : llvm::ArrayRef<Operand>(o);
  for (const Operand &e : elements) {
    Src s;
    if (!one(e, s))
      return false;
    kernel->vec.push_back(s);
    ++out->vecCount;
  }
  return true;
}

bool Decoder::vectorDst(const Operand &o, unsigned bits, bool wider) {
  return vectorOf(
      o, [&](const Operand &e, Src &s) { return dst(e, bits, s, wider); });
}

bool Decoder::vectorSrc(const Operand &o, Type type, bool wider) {
  return vectorOf(
      o, [&](const Operand &e, Src &s) { return src(e, type, s, wider); });
}

} // namespace sim
} // namespace flamia
