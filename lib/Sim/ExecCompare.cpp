//===- ExecCompare.cpp - setp, set, selp, slct ----------------------------===//
//
// PTX ISA 9.7.6. A comparison with NaN is false, except for the unordered forms
// (equ, neu, ltu, leu, gtu, geu, nan).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "flamia/Sim/Units/Convert.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum class Cmp : uint8_t {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan
};
enum class Bool : uint8_t { None, And, Or, Xor };

constexpr uint32_t flagFtz = 1 << 16;
constexpr uint32_t flagNegate = 1 << 17; ///< !c
inline Cmp cmpOf(const Instr &i) { return Cmp(i.aux & 0xFF); }
inline Bool boolOf(const Instr &i) { return Bool(i.aux >> 8 & 0xFF); }

template <typename T, typename Load>
uint32_t compareLanes(Cmp cmp, Load load) {
  auto each = [&](auto f) {
    return lanesWhere([&](unsigned l) {
      auto [a, b] = load(l);
      return f(a, b);
    });
  };
  switch (cmp) {
  case Cmp::Eq:
    return each([](T a, T b) { return a == b; });
  case Cmp::Ne: // Ordered: false with a NaN.
    return each([](T a, T b) { return a < b || a > b; });
  case Cmp::Lt:
    return each([](T a, T b) { return a < b; });
  case Cmp::Le:
    return each([](T a, T b) { return a <= b; });
  case Cmp::Gt:
    return each([](T a, T b) { return a > b; });
  case Cmp::Ge:
    return each([](T a, T b) { return a >= b; });
  case Cmp::Equ:
    return each([](T a, T b) { return !(a < b || a > b); });
  case Cmp::Neu:
    return each([](T a, T b) { return !(a == b); });
  case Cmp::Ltu:
    return each([](T a, T b) { return !(a >= b); });
  case Cmp::Leu:
    return each([](T a, T b) { return !(a > b); });
  case Cmp::Gtu:
    return each([](T a, T b) { return !(a <= b); });
  case Cmp::Geu:
    return each([](T a, T b) { return !(a < b); });
  case Cmp::Num:
    return each([](T a, T b) { return a == a && b == b; });
  case Cmp::Nan:
    return each([](T a, T b) { return a != a || b != b; });
  }
  return 0;
}

uint32_t combine(Exec &x, const Instr &i, uint32_t r) {
  Bool op = boolOf(i);
  if (op == Bool::None)
    return r;
  uint32_t c = x.mask(i.src[2]);
  if (i.aux & flagNegate)
    c = ~c;
  return op == Bool::And ? r & c : op == Bool::Or ? r | c : r ^ c;
}

template <typename T>
uint32_t compare(Exec &x, const Instr &i) {
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  if constexpr (std::is_same_v<T, float>) {
    if (i.aux & flagFtz)
      return compareLanes<T>(cmpOf(i), [&](unsigned l) {
        return std::make_pair(flush(a[l]), flush(b[l]));
      });
  }
  return compareLanes<T>(
      cmpOf(i), [&](unsigned l) { return std::make_pair(a[l], b[l]); });
}

/// Halves: which = 0 low (or only) values, 1 the upper ones of a pair.
template <bool Bf>
uint32_t compareHalf(Exec &x, const Instr &i, unsigned which, bool pair) {
  const uint16_t *a = x.lanes<uint16_t>(i.src[0]),
                 *b = x.lanes<uint16_t>(i.src[1]);
  unsigned step = pair ? 2 : 1;
  auto load = [&](uint16_t h) {
    float f = bitsToFloat(Bf ? bf16ToF32(h) : f16ToF32(h));
    bool subnormal = (h & (Bf ? 0x7F80 : 0x7C00)) == 0;
    return i.aux & flagFtz && subnormal ? f * 0.0f : f;
  };
  return compareLanes<float>(cmpOf(i), [&](unsigned l) {
    return std::make_pair(load(a[l * step + which]), load(b[l * step + which]));
  });
}

template <typename T>
Flow setp(Exec &x, const Instr &i, uint32_t m) {
  uint32_t r = compare<T>(x, i);
  uint32_t p = combine(x, i, r);
  uint32_t q = boolOf(i) == Bool::None ? ~r : combine(x, i, ~r);
  x.setMask(i.dst[1], q, m);
  x.setMask(i.dst[0], p, m);
  return Flow::Next;
}
template <bool Bf>
Flow setpHalf(Exec &x, const Instr &i, uint32_t m) {
  uint32_t r = compareHalf<Bf>(x, i, 0, false);
  uint32_t q = boolOf(i) == Bool::None ? ~r : combine(x, i, ~r);
  x.setMask(i.dst[1], q, m);
  x.setMask(i.dst[0], combine(x, i, r), m);
  return Flow::Next;
}
/// setp.f16x2 p|q: p from the low halves, q from the upper ones.
template <bool Bf>
Flow setpPair(Exec &x, const Instr &i, uint32_t m) {
  uint32_t p = combine(x, i, compareHalf<Bf>(x, i, 0, true));
  uint32_t q = combine(x, i, compareHalf<Bf>(x, i, 1, true));
  x.setMask(i.dst[0], p, m);
  x.setMask(i.dst[1], q, m);
  return Flow::Next;
}
/// Writes `one` (Instr::imm) where the comparison holds, else 0.
template <typename T>
Flow writeSet(Exec &x, const Instr &i, uint32_t m, uint32_t r) {
  T one = T(i.imm);
  return mapLanes<T>(x, i.dst[0], m,
                     [&](unsigned l) { return r >> l & 1 ? one : T(0); });
}
template <typename T>
Flow setValue(Exec &x, const Instr &i, uint32_t m) {
  uint32_t r = combine(x, i, compare<T>(x, i));
  return i.bytes == 2 ? writeSet<uint16_t>(x, i, m, r)
                      : writeSet<uint32_t>(x, i, m, r);
}
template <bool Bf>
Flow setHalf(Exec &x, const Instr &i, uint32_t m) {
  uint32_t r = combine(x, i, compareHalf<Bf>(x, i, 0, false));
  return i.bytes == 2 ? writeSet<uint16_t>(x, i, m, r)
                      : writeSet<uint32_t>(x, i, m, r);
}
/// Each half on its own.
template <bool Bf>
Flow setPair(Exec &x, const Instr &i, uint32_t m) {
  uint32_t lo = combine(x, i, compareHalf<Bf>(x, i, 0, true));
  uint32_t hi = combine(x, i, compareHalf<Bf>(x, i, 1, true));
  uint32_t one = uint32_t(i.imm) & 0xFFFF;
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    return (lo >> l & 1 ? one : 0) | (hi >> l & 1 ? one << 16 : 0);
  });
}

template <typename T>
Flow selp(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  uint32_t p = x.mask(i.src[2]);
  if (i.aux & flagNegate)
    p = ~p;
  return mapLanes<T>(x, i.dst[0], m,
                     [&](unsigned l) { return p >> l & 1 ? a[l] : b[l]; });
}
template <typename T, bool Float>
Flow slct(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  const int32_t *c = x.lanes<int32_t>(i.src[2]);
  bool f = i.aux & flagFtz;
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    if (!Float)
      return c[l] >= 0 ? a[l] : b[l];
    float v = bitsToFloat(uint32_t(c[l]));
    return (f ? flush(v) : v) >= 0 ? a[l] : b[l];
  });
}

bool comparison(Decoder &d, bool isFloat, Type t, uint32_t &aux) {
  static const std::pair<const char *, Cmp> table[] = {
      {"eq", Cmp::Eq},   {"ne", Cmp::Ne},   {"lt", Cmp::Lt},
      {"le", Cmp::Le},   {"gt", Cmp::Gt},   {"ge", Cmp::Ge},
      {"lo", Cmp::Lt},   {"ls", Cmp::Le},   {"hi", Cmp::Gt},
      {"hs", Cmp::Ge},   {"equ", Cmp::Equ}, {"neu", Cmp::Neu},
      {"ltu", Cmp::Ltu}, {"leu", Cmp::Leu}, {"gtu", Cmp::Gtu},
      {"geu", Cmp::Geu}, {"num", Cmp::Num}, {"nan", Cmp::Nan}};
  for (auto [name, cmp] : table)
    if (d.take(name)) {
      StringRef n(name);
      bool unordered = cmp >= Cmp::Equ;
      bool unsignedOnly = n == "lo" || n == "ls" || n == "hi" || n == "hs";
      if ((unordered && !isFloat) ||
          (unsignedOnly && (isFloat || isSignedType(t))))
        return d.failForm();
      bool bitType = t == Type::B16 || t == Type::B32 || t == Type::B64;
      if (bitType && cmp != Cmp::Eq && cmp != Cmp::Ne)
        return d.failForm();
      aux = uint32_t(cmp);
      StringRef op = d.takeAny({"and", "or", "xor"});
      Bool b = op == "and"   ? Bool::And
               : op == "or"  ? Bool::Or
               : op == "xor" ? Bool::Xor
                             : Bool::None;
      aux |= uint32_t(b) << 8;
      if (d.take("ftz"))
        aux |= flagFtz;
      return true;
    }
  return d.failForm();
}

ExecFn pickSetp(Type t) {
  switch (t) {
  case Type::B16:
  case Type::U16:
    return setp<uint16_t>;
  case Type::S16:
    return setp<int16_t>;
  case Type::B32:
  case Type::U32:
    return setp<uint32_t>;
  case Type::S32:
    return setp<int32_t>;
  case Type::B64:
  case Type::U64:
    return setp<uint64_t>;
  case Type::S64:
    return setp<int64_t>;
  case Type::F32:
    return setp<float>;
  case Type::F64:
    return setp<double>;
  case Type::F16:
    return setpHalf<false>;
  case Type::BF16:
    return setpHalf<true>;
  case Type::F16x2:
    return setpPair<false>;
  case Type::BF16x2:
    return setpPair<true>;
  default:
    return nullptr;
  }
}
ExecFn pickSet(Type t) {
  switch (t) {
  case Type::B16:
  case Type::U16:
    return setValue<uint16_t>;
  case Type::S16:
    return setValue<int16_t>;
  case Type::F16:
    return setHalf<false>;
  case Type::BF16:
    return setHalf<true>;
  case Type::F16x2:
    return setPair<false>;
  case Type::BF16x2:
    return setPair<true>;
  case Type::B32:
  case Type::U32:
    return setValue<uint32_t>;
  case Type::S32:
    return setValue<int32_t>;
  case Type::B64:
  case Type::U64:
    return setValue<uint64_t>;
  case Type::S64:
    return setValue<int64_t>;
  case Type::F32:
    return setValue<float>;
  case Type::F64:
    return setValue<double>;
  default:
    return nullptr;
  }
}

/// Sources of a comparison: two values and, with a Boolean operation, a
/// predicate.
bool sources(Decoder &d, Type t, size_t first) {
  Type bits = bitsOfType(t) == 16 && isFloatType(t)   ? Type::B16
              : t == Type::F16x2 || t == Type::BF16x2 ? Type::B32
                                                      : t;
  bool withPred = boolOf(*d.out) != Bool::None;
  if (!d.expectOps(first + 2 + withPred) ||
      !d.src(d.op(first), bits, d.out->src[0]) ||
      !d.src(d.op(first + 1), bits, d.out->src[1]))
    return false;
  if (withPred) {
    bool negated = false;
    if (!d.predSrc(d.op(first + 2), d.out->src[2], &negated))
      return false;
    if (negated)
      d.out->aux |= flagNegate;
  }
  return true;
}

bool decodeSetp(Decoder &d) {
  Type t;
  if (!d.needType(t) || !comparison(d, isFloatType(t), t, d.out->aux))
    return true;
  d.out->fn = pickSetp(t);
  if (!d.out->fn) {
    d.failForm();
    return true;
  }
  if (!d.expectOps(3, 4))
    return true;
  const ptx::Operand &o = d.op(0);
  if (o.kind == ptx::Operand::Pair) {
    if (!d.predDst(o.elems[0], d.out->dst[0]) ||
        !d.predDst(o.elems[1], d.out->dst[1]))
      return true;
  } else {
    if (!d.predDst(o, d.out->dst[0]))
      return true;
    d.out->dst[1] = d.scratch(1);
  }
  sources(d, t, 1);
  return true;
}

} // namespace

bool decodeCompare(Decoder &d) {
  StringRef base = d.base();
  Type t;
  if (base == "setp")
    return decodeSetp(d);
  if (base == "set") {
    if (!d.needType(t))
      return true;
    Type result = d.takeType();
    bool whole = result == Type::U32 || result == Type::S32;
    bool legal;
    switch (t) {
    case Type::F16:
    case Type::BF16:
      legal =
          whole || result == t || result == Type::U16 || result == Type::S16;
      break;
    case Type::F16x2:
    case Type::BF16x2:
      legal = whole || result == t;
      break;
    default:
      legal = whole || result == Type::F32;
    }
    if (!legal || !comparison(d, isFloatType(t), t, d.out->aux)) {
      d.failForm();
      return true;
    }
    d.out->imm = result == Type::F32                              ? 0x3F800000
                 : result == Type::F16 || result == Type::F16x2   ? 0x3C00
                 : result == Type::BF16 || result == Type::BF16x2 ? 0x3F80
                                                                  : 0xFFFFFFFF;
    d.out->bytes = uint8_t(bitsOfType(result) / 8);
    d.out->fn = pickSet(t);
    if (!d.out->fn) {
      d.failForm();
      return true;
    }
    if (d.expectOps(3, 4) && d.dst(d.op(0), bitsOfType(result), d.out->dst[0]))
      sources(d, t, 1);
    return true;
  }
  if (base == "selp") {
    if (!d.needType(t))
      return true;
    if (t == Type::F16 || t == Type::BF16) {
      d.failForm();
      return true;
    }
    unsigned bits = bitsOfType(t);
    d.out->fn = bits == 16   ? selp<uint16_t>
                : bits == 32 ? selp<uint32_t>
                : bits == 64 ? selp<uint64_t>
                             : nullptr;
    if (!d.out->fn) {
      d.failForm();
      return true;
    }
    bool negated = false;
    Type literal = t == Type::F16 || t == Type::BF16 ? Type::B16 : t;
    if (d.expectOps(4) && d.dst(d.op(0), bits, d.out->dst[0]) &&
        d.src(d.op(1), literal, d.out->src[0]) &&
        d.src(d.op(2), literal, d.out->src[1]) &&
        d.predSrc(d.op(3), d.out->src[2], &negated) && negated)
      d.out->aux = flagNegate;
    return true;
  }
  if (base == "slct") {
    Type control = d.takeType();
    if (d.take("ftz"))
      d.out->aux = flagFtz;
    if (!d.needType(t))
      return true;
    unsigned bits = bitsOfType(t);
    bool f = control == Type::F32;
    d.out->fn =
        bits == 16   ? (f ? slct<uint16_t, true> : slct<uint16_t, false>)
        : bits == 32 ? (f ? slct<uint32_t, true> : slct<uint32_t, false>)
        : bits == 64 ? (f ? slct<uint64_t, true> : slct<uint64_t, false>)
                     : nullptr;
    if (!d.out->fn || (!f && control != Type::S32)) {
      d.failForm();
      return true;
    }
    if (d.expectOps(4) && d.dst(d.op(0), bits, d.out->dst[0]) &&
        d.src(d.op(1), t, d.out->src[0]) && d.src(d.op(2), t, d.out->src[1]))
      d.src(d.op(3), control, d.out->src[2]);
    return true;
  }
  return false;
}

} // namespace sim
} // namespace flamia
