//===- ExecAtomic.cpp - atom, red -----------------------------------------===//
//
// PTX ISA 9.7.13.5-6. CTAs may run on several host threads, so global memory is
// updated with host atomics.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Hazard.h"
#include "Lanes.h"
#include "MemoryDecode.h"
#include "flamia/Sim/Units/Convert.h"

#include "llvm/ADT/Twine.h"

#include <cmath>
#include <mutex>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum class Op : uint8_t { Add, Min, Max, And, Or, Xor, Inc, Dec, Exch, Cas };

bool isHalfType(Type t) {
  return t == Type::F16 || t == Type::BF16 || t == Type::F16x2 ||
         t == Type::BF16x2;
}

/// Sum, minimum or maximum of two f16 or bf16 numbers. NaN loses.
uint16_t combineHalf(Op op, bool half, uint16_t a, uint16_t b) {
  float x = bitsToFloat(half ? f16ToF32(a) : bf16ToF32(a)),
        y = bitsToFloat(half ? f16ToF32(b) : bf16ToF32(b));
  if (op == Op::Add) {
    uint32_t s = floatToBits(x + y);
    return half ? f32ToF16(s) : f32ToBf16(s);
  }
  if (x != x || y != y)
    return x != x && y != y ? 0x7FFF : x != x ? b : a;
  if (x == y) // -0 is less than +0.
    return (op == Op::Max) == std::signbit(x) ? b : a;
  return (op == Op::Max) == (x > y) ? a : b;
}

/// Floating-point operations on a word of one, two or four elements. f32 sums
/// in global memory treat subnormals as zero (PTX ISA 9.7.13.5): `flushes`.
template <typename T>
T combineFloat(Op op, Type t, T old, T v, bool flushes) {
  if (isHalfType(t)) {
    bool half = t == Type::F16 || t == Type::F16x2;
    uint64_t r = 0;
    for (unsigned k = 0; k < sizeof(T) / 2; ++k)
      r |= uint64_t(combineHalf(op, half, uint16_t(uint64_t(old) >> (16 * k)),
                                uint16_t(uint64_t(v) >> (16 * k))))
           << (16 * k);
    return T(r);
  }
  if (t == Type::F32) {
    float a = bitsToFloat(uint32_t(old)), b = bitsToFloat(uint32_t(v));
    float s = canonical(flushes ? flush(flush(a) + flush(b)) : a + b);
    return T(floatToBits(s));
  }
  double a = bitsToDouble(uint64_t(old)), b = bitsToDouble(uint64_t(v));
  // In global memory a NaN stays as it is, signalling or not (seen on an H200).
  if (flushes && (a != a || b != b))
    return b != b ? v : old;
  return T(doubleToBits(keepNaN(a + b, a, b)));
}

template <typename T>
T combine(Op op, Type t, T old, T v, T c, bool flushes) {
  using S = std::make_signed_t<T>;
  bool isSigned = isSignedType(t);
  if (isFloatType(t))
    return combineFloat(op, t, old, v, flushes);
  switch (op) {
  case Op::Add:
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

/// Applies the operation to one word, which is another thread's, too. Only a
/// change counts as an effect: who tries again and again to take a lock makes
/// no progress.
template <typename T>
T update(Exec &x, T *word, Op op, Type t, T v, T c, bool flushes) {
  T old = __atomic_load_n(word, __ATOMIC_RELAXED), next;
  do {
    next = combine<T>(op, t, old, v, c, flushes);
  } while (!__atomic_compare_exchange_n(word, &old, next, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  x.cluster.effects += next != old;
  return old;
}

Op opOf(const Instr &i) { return Op(i.imm >> 56 & 0xFF); }
uint64_t addressOf(Exec &x, const Instr &i, int lane) {
  Instr plain = i; // The offset without the operation code.
  plain.imm = int64_t(uint64_t(i.imm) << 8) >> 8;
  return x.addressOf(plain, i.src[0], i.aux & 1, lane);
}

/// The bytes that a lane updates, null after an error.
uint8_t *resolveWord(Exec &x, const Instr &i, uint64_t address, unsigned size,
                     int lane) {
  uint8_t *p = x.resolve(i, i.space, address, size, Exec::Update, lane);
  if (!p || !x.requireDefined(i, i.space, address, size, lane) ||
      !x.markDefined(i, i.space, address, size, lane))
    return nullptr;
  return p;
}

bool isGlobal(const Instr &i, uint64_t address) {
  return i.space == spaceGlobal ||
         (i.space == spaceGeneric && address >= moduleBase);
}

void finishAtomic(Exec &x, const Instr &i, unsigned size, uint32_t mask) {
  if (x.cluster.hazards)
    x.cluster.hazards->finishStrong(x, i);
  Bytes counter = i.space == spaceShared || i.space == spaceSharedCluster
                      ? Bytes::AtomicShared
                      : Bytes::AtomicGlobal;
  x.cluster.bytes[unsigned(counter)] += size * __builtin_popcount(mask);
}

template <typename T>
Flow atomic(Exec &x, const Instr &i, uint32_t mask) {
  Op op = opOf(i);
  const T *v = x.lanes<T>(i.src[1]), *c = x.lanes<T>(i.src[2]);
  T *d = i.aux & 2 ? x.lanes<T>(i.dst[0]) : nullptr;
  alignas(64) T result[warpLanes];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = addressOf(x, i, l);
    uint8_t *p = resolveWord(x, i, address, sizeof(T), l);
    if (!p)
      return Flow::Fail;
    result[l] = update(x, reinterpret_cast<T *>(p), op, i.type, v[l], c[l],
                       isGlobal(i, address));
  }
  if (d)
    forLanes(mask, [&](int l) { d[l] = result[l]; });
  finishAtomic(x, i, sizeof(T), mask);
  return Flow::Next;
}

/// Vector forms: each element is an operation of its own, in one access.
/// Kernel::vec holds the results (unless red) and then the values.
template <typename T>
Flow atomicVector(Exec &x, const Instr &i, uint32_t mask) {
  bool hasResult = i.aux & 2;
  unsigned count = hasResult ? i.vecCount / 2 : i.vecCount;
  unsigned first = hasResult ? count : 0;
  Op op = opOf(i);
  alignas(64) T result[8][warpLanes];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint8_t *p = resolveWord(x, i, addressOf(x, i, l), count * sizeof(T), l);
    if (!p)
      return Flow::Fail;
    for (unsigned k = 0; k < count; ++k)
      result[k][l] = update(x, reinterpret_cast<T *>(p) + k, op, i.type,
                            x.lanes<T>(x.vec(i, first + k))[l], T(0), true);
  }
  for (unsigned k = 0; hasResult && k < count; ++k)
    forLanes(mask, [&](int l) { x.lanes<T>(x.vec(i, k))[l] = result[k][l]; });
  finishAtomic(x, i, count * sizeof(T), mask);
  return Flow::Next;
}

struct Quad {
  uint64_t lo, hi;
};

/// exch and cas of 128 bits. One lock: there is no such host atomic everywhere.
Flow atomicQuad(Exec &x, const Instr &i, uint32_t mask) {
  static std::mutex lock;
  Op op = opOf(i);
  const Quad *v = x.lanes<Quad>(i.src[1]), *c = x.lanes<Quad>(i.src[2]);
  Quad result[warpLanes];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint8_t *p = resolveWord(x, i, addressOf(x, i, l), sizeof(Quad), l);
    if (!p)
      return Flow::Fail;
    std::lock_guard<std::mutex> hold(lock);
    std::memcpy(&result[l], p, sizeof(Quad));
    bool same = result[l].lo == v[l].lo && result[l].hi == v[l].hi;
    if (op != Op::Exch && !same)
      continue;
    const Quad &next = op == Op::Exch ? v[l] : c[l];
    x.cluster.effects += std::memcmp(p, &next, sizeof(Quad)) != 0;
    std::memcpy(p, &next, sizeof(Quad));
  }
  Quad *d = x.lanes<Quad>(i.dst[0]);
  forLanes(mask, [&](int l) { d[l] = result[l]; });
  finishAtomic(x, i, sizeof(Quad), mask);
  return Flow::Next;
}

/// Whether PTX has the operation for the type; `vector`: elements, 1 for none.
bool isForm(Op op, Type t, unsigned vector, bool isRed, bool global) {
  unsigned bits = bitsOfType(t);
  bool minMax = op == Op::Min || op == Op::Max;
  if (vector > 1) {
    if (!global)
      return false;
    if (t == Type::F32)
      return op == Op::Add && vector <= 4;
    return isHalfType(t) && (op == Op::Add || minMax) && bits * vector <= 128;
  }
  if (isRed && op >= Op::Exch)
    return false;
  switch (op) {
  case Op::Add:
    return isFloatType(t) ? t != Type::F32x2
                          : t == Type::U32 || t == Type::S32 || t == Type::U64;
  case Op::Min:
  case Op::Max:
    return t == Type::U32 || t == Type::S32 || t == Type::U64 || t == Type::S64;
  case Op::And:
  case Op::Or:
  case Op::Xor:
    return t == Type::B32 || t == Type::B64;
  case Op::Inc:
  case Op::Dec:
    return t == Type::U32;
  case Op::Exch:
    return t == Type::B32 || t == Type::B64 || t == Type::B128;
  case Op::Cas:
    return t == Type::B16 || t == Type::B32 || t == Type::B64 ||
           t == Type::B128;
  }
  return false;
}

} // namespace

bool decodeAtomic(Decoder &d) {
  StringRef base = d.base();
  bool isRed = base == "red";
  if (base != "atom" && !isRed)
    return false;
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
  bool noftz = d.take("noftz");
  StringRef vector = d.takeAny({"v2", "v4", "v8"});
  unsigned count = vector.empty() ? 1 : unsigned(vector[1] - '0');
  Type t = d.takeType();
  // Vector forms may name the type before the operation.
  if (t == Type::None && count > 1)
    t = typeByName(d.takeAny({"f32", "f16", "bf16", "f16x2", "bf16x2"}));
  unsigned bits = bitsOfType(t);
  bool global = o.space == spaceGlobal || o.space == spaceGeneric;
  if (!found || !isForm(op, t, count, isRed, global) ||
      (isHalfType(t) ? !noftz : noftz)) {
    d.failForm();
    return true;
  }
  bool isCas = op == Op::Cas;
  if (!d.expectOps((isRed ? 0 : 1) + 2 + isCas + policy))
    return true;
  Type value = !isHalfType(t) ? t : bits == 16 ? Type::B16 : Type::B32;
  size_t k = isRed ? 0 : 1;
  bool wide = false;
  if (!d.address(d.op(k), o.src[0], wide))
    return true;
  o.aux = (wide ? 1u : 0u) | (isRed ? 0u : 2u);
  o.type = t;
  o.imm =
      int64_t((uint64_t(o.imm) & 0x00FFFFFFFFFFFFFFull) | uint64_t(op) << 56);
  o.unit = o.space == spaceShared ? Unit::Shared : Unit::Memory;
  if (policy && !d.src(d.op(d.numOps() - 1), Type::B64, o.src[3]))
    return true;
  if (count > 1) {
    for (size_t n : {size_t(0), k + 1}) {
      const ptx::Operand &v = d.op(n);
      if (v.kind == ptx::Operand::Address) // red has no result.
        continue;
      if (v.kind != ptx::Operand::Vector || v.elems.size() != count) {
        d.fail("expected " + llvm::Twine(count) + " registers in '" +
               d.in->opcode + "'");
        return true;
      }
      if (n <= k ? !d.vectorDst(v, bits) : !d.vectorSrc(v, value))
        return true;
    }
    o.fn = bits == 16 ? atomicVector<uint16_t> : atomicVector<uint32_t>;
    return true;
  }
  if (!d.src(d.op(k + 1), value, o.src[1]))
    return true;
  o.src[2] = o.src[1];
  if (isCas && !d.src(d.op(k + 2), value, o.src[2]))
    return true;
  if (!isRed && !d.dst(d.op(0), bits, o.dst[0]))
    return true;
  o.fn = bits == 16    ? atomic<uint16_t>
         : bits == 32  ? atomic<uint32_t>
         : bits == 128 ? atomicQuad
                       : atomic<uint64_t>;
  return true;
}

} // namespace sim
} // namespace flamia
