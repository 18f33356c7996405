//===- ExecAtomic.cpp - atom, red -----------------------------------------===//
//
// PTX ISA 9.7.13.5-6. CTAs may run on several host threads, so global memory is
// updated with host atomics.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "MemoryDecode.h"
#include "flamia/Sim/Units/Convert.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum class Op : uint8_t { Add, Min, Max, And, Or, Xor, Inc, Dec, Exch, Cas };

float addFloat(float a, float b) { return canonical(a + b); }

template <typename T>
T combine(Op op, Type t, T old, T v, T c) {
  using S = std::make_signed_t<T>;
  bool isSigned = isSignedType(t);
  switch (op) {
  case Op::Add:
    if (t == Type::F32)
      return T(floatToBits(
          addFloat(bitsToFloat(uint32_t(old)), bitsToFloat(uint32_t(v)))));
    if (t == Type::F64)
      return T(doubleToBits(
          canonical(bitsToDouble(uint64_t(old)) + bitsToDouble(uint64_t(v)))));
    if (t == Type::F16 || t == Type::BF16 || t == Type::F16x2 ||
        t == Type::BF16x2) {
      bool half = t == Type::F16 || t == Type::F16x2;
      uint64_t r = 0;
      for (unsigned k = 0; k < sizeof(T) / 2; ++k) {
        uint16_t a = uint16_t(uint64_t(old) >> (16 * k)),
                 b = uint16_t(uint64_t(v) >> (16 * k));
        float s = half ? bitsToFloat(f16ToF32(a)) + bitsToFloat(f16ToF32(b))
                       : bitsToFloat(bf16ToF32(a)) + bitsToFloat(bf16ToF32(b));
        uint16_t h =
            half ? f32ToF16(floatToBits(s)) : f32ToBf16(floatToBits(s));
        r |= uint64_t(h) << (16 * k);
      }
      return T(r);
    }
    return T(old + v);
  case Op::Min:
    return isSigned ? (S(v) < S(old) ? v : old) : (v < old ? v : old);
  case Op::Max:
    return isSigned ? (S(v) > S(old) ? v : old) : (v > old ? v : old);
  case Op::And:
    return old & v;
  case Op::Or:
    return old | v;
  case Op::Xor:
    return old ^ v;
  case Op::Inc:
    return old >= v ? T(0) : T(old + 1);
  case Op::Dec:
    return old == 0 || old > v ? v : T(old - 1);
  case Op::Exch:
    return v;
  case Op::Cas:
    return old == v ? c : old;
  }
  return old;
}

template <typename T>
Flow atomic(Exec &x, const Instr &i, uint32_t mask) {
  Op op = Op(i.imm >> 56 & 0xFF);
  bool wide = i.aux & 1, hasResult = i.aux & 2;
  Instr plain = i; // The offset without the operation code.
  plain.imm = int64_t(uint64_t(i.imm) << 8) >> 8;
  const T *v = x.lanes<T>(i.src[1]), *c = x.lanes<T>(i.src[2]);
  T *d = hasResult ? x.lanes<T>(i.dst[0]) : nullptr;
  alignas(64) T result[warpLanes];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(plain, i.src[0], wide, l);
    uint8_t *p = x.resolve(i, i.space, address, sizeof(T), Exec::Update, l);
    if (!p || !x.requireDefined(i, i.space, address, sizeof(T), l) ||
        !x.markDefined(i, i.space, address, sizeof(T), l))
      return Flow::Fail;
    T *word = reinterpret_cast<T *>(p);
    T old = __atomic_load_n(word, __ATOMIC_RELAXED), next;
    do {
      next = combine<T>(op, i.type, old, v[l], c[l]);
    } while (!__atomic_compare_exchange_n(word, &old, next, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    result[l] = old;
  }
  if (d)
    forLanes(mask, [&](int l) { d[l] = result[l]; });
  Bytes counter = i.space == spaceShared || i.space == spaceSharedCluster
                      ? Bytes::AtomicShared
                      : Bytes::AtomicGlobal;
  x.cluster.bytes[unsigned(counter)] += sizeof(T) * __builtin_popcount(mask);
  return Flow::Next;
}

} // namespace

bool decodeAtomic(Decoder &d) {
  StringRef base = d.base();
  bool isRed = base == "red";
  if (base != "atom" && !isRed)
    return false;
  if (d.take("async")) {
    d.fail("unknown instruction '" + d.in->opcode + "'");
    return true;
  }
  Instr &o = *d.out;
  static const std::pair<const char *, Op> table[] = {
      {"add", Op::Add},   {"min", Op::Min}, {"max", Op::Max}, {"and", Op::And},
      {"or", Op::Or},     {"xor", Op::Xor}, {"inc", Op::Inc}, {"dec", Op::Dec},
      {"exch", Op::Exch}, {"cas", Op::Cas}};
  Op op = Op::Add;
  bool found = false;
  for (auto [name, code] : table)
    if (!found && d.take(name)) {
      op = code;
      found = true;
    }
  takeSpace(d, o.space);
  bool policy;
  takeMemoryHints(d, policy);
  d.take("noftz");
  Type t;
  if (!d.needType(t))
    return true;
  bool floating = isFloatType(t);
  unsigned bits = bitsOfType(t);
  bool ok = found && !policy && t != Type::F32x2 &&
            (bits == 32 || bits == 64 || (bits == 16 && op == Op::Cas) ||
             (bits == 16 && floating)) &&
            (!floating || op == Op::Add) && !(isRed && op >= Op::Exch);
  if (!ok) {
    d.failForm();
    return true;
  }
  bool isCas = op == Op::Cas;
  size_t count = (isRed ? 0 : 1) + 2 + (isCas ? 1 : 0);
  if (!d.expectOps(count))
    return true;
  Type value = floating && bits == 16                  ? Type::B16
               : t == Type::F16x2 || t == Type::BF16x2 ? Type::B32
                                                       : t;
  size_t k = isRed ? 0 : 1;
  bool wide = false;
  if (!d.address(d.op(k), o.src[0], wide) ||
      !d.src(d.op(k + 1), value, o.src[1]))
    return true;
  o.src[2] = o.src[1];
  if (isCas && !d.src(d.op(k + 2), value, o.src[2]))
    return true;
  o.aux = (wide ? 1u : 0u) | (isRed ? 0u : 2u);
  if (!isRed && !d.dst(d.op(0), bits, o.dst[0]))
    return true;
  o.type = t;
  o.imm =
      int64_t((uint64_t(o.imm) & 0x00FFFFFFFFFFFFFFull) | uint64_t(op) << 56);
  o.fn = bits == 16   ? atomic<uint16_t>
         : bits == 32 ? atomic<uint32_t>
                      : atomic<uint64_t>;
  o.flags |= flagEffect;
  o.unit = o.space == spaceShared ? Unit::Shared : Unit::Memory;
  return true;
}

} // namespace sim
} // namespace flamia
