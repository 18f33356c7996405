//===- ExecLogic.cpp - Bits: logic, shifts, fields ------------------------===//
//
// PTX ISA 9.7.1 (bit fields) and 9.7.8 (logic and shift).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

struct And {
  template <typename T>
  static T run(T a, T b) {
    return T(a & b);
  }
};
struct Or {
  template <typename T>
  static T run(T a, T b) {
    return T(a | b);
  }
};
struct Xor {
  template <typename T>
  static T run(T a, T b) {
    return T(a ^ b);
  }
};
struct Not {
  template <typename T>
  static T run(T a) {
    return T(~a);
  }
};
struct Cnot {
  template <typename T>
  static T run(T a) {
    return T(a == 0);
  }
};

template <typename Op>
Flow predBinary(Exec &x, const Instr &i, uint32_t m) {
  uint32_t a = x.mask(i.src[0]), b = x.mask(i.src[1]);
  x.setMask(i.dst[0], Op::template run<uint32_t>(a, b), m);
  return Flow::Next;
}
Flow predNot(Exec &x, const Instr &i, uint32_t m) {
  x.setMask(i.dst[0], ~x.mask(i.src[0]), m);
  return Flow::Next;
}

template <typename Op>
ExecFn pickLogic(Type t) {
  switch (t) {
  case Type::Pred:
    return predBinary<Op>;
  case Type::B16:
    return binary<uint16_t, Op>;
  case Type::B32:
    return binary<uint32_t, Op>;
  case Type::B64:
    return binary<uint64_t, Op>;
  default:
    return nullptr;
  }
}

/// Shift amounts beyond the width clamp.
template <typename T, bool Left>
Flow shift(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  const uint32_t *n = x.lanes<uint32_t>(i.src[1]);
  constexpr unsigned bits = 8 * sizeof(T);
  constexpr bool isSigned = std::is_signed_v<T>;
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    unsigned s = n[l] < bits ? n[l] : bits - 1;
    bool over = n[l] >= bits;
    if (Left)
      return T(over ? 0 : std::make_unsigned_t<T>(a[l]) << s);
    T r = T(a[l] >> s);
    return isSigned ? r : over ? T(0) : r;
  });
}

template <bool Left, bool Clamp>
Flow funnel(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    unsigned n = Clamp ? (c[l] < 32 ? c[l] : 32) : c[l] & 31;
    uint64_t v = uint64_t(b[l]) << 32 | a[l];
    return Left ? uint32_t((v << n) >> 32) : uint32_t(v >> n);
  });
}

enum class LopPredicate : uint32_t { None, And, Or };
constexpr unsigned lopShift = 8;

Flow lop3(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  uint32_t table = i.aux & 0xFF, nonzero = 0;
  auto predicate = LopPredicate(i.aux >> lopShift);
  uint32_t q = predicate == LopPredicate::None ? 0 : x.mask(i.src[3]);
  mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; ++k) {
      uint32_t term = (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) &
                      (k & 1 ? c[l] : ~c[l]);
      r |= table >> k & 1 ? term : 0;
    }
    nonzero |= uint32_t(r != 0) << l;
    return r;
  });
  if (predicate != LopPredicate::None)
    x.setMask(i.dst[1],
              predicate == LopPredicate::And ? nonzero & q : nonzero | q, m);
  return Flow::Next;
}

/// The n-th set bit from `base` on, upwards or downwards.
Flow fns(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *bits = x.lanes<uint32_t>(i.src[0]),
                 *base = x.lanes<uint32_t>(i.src[1]);
  const int32_t *offset = x.lanes<int32_t>(i.src[2]);
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    int64_t n = offset[l], step = n < 0 ? -1 : 1;
    // Offset 0 asks for the bit at `base` itself.
    int64_t left = n == 0 ? 0 : (n < 0 ? -n : n) - 1;
    for (int64_t at = base[l]; at >= 0 && at < 32; at += step) {
      if (bits[l] >> at & 1 && left-- == 0)
        return uint32_t(at);
      if (n == 0)
        break;
    }
    return ~0u;
  });
}

/// Field extraction; position and length are 8 bits, the field is clipped at
/// the most significant bit and sign extended from its last bit.
template <typename T>
Flow bfe(Exec &x, const Instr &i, uint32_t m) {
  using U = std::make_unsigned_t<T>;
  constexpr unsigned bits = 8 * sizeof(T);
  const T *a = x.lanes<T>(i.src[0]);
  const uint32_t *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    unsigned pos = b[l] & 0xFF, len = c[l] & 0xFF;
    if (len == 0)
      return T(0);
    U field = pos < bits ? U(U(a[l]) >> pos) : U(0);
    if (len < bits)
      field &= (U(1) << len) - 1;
    if (!std::is_signed_v<T>)
      return T(field);
    unsigned last = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
    bool negative = U(a[l]) >> last & 1;
    if (negative && len < bits)
      field |= ~((U(1) << len) - 1);
    // Bits clipped at the top also take the sign.
    if (negative) {
      unsigned got = pos < bits ? (len < bits - pos ? len : bits - pos) : 0;
      if (got < bits)
        field |= got == 0 ? ~U(0) : ~((U(1) << got) - 1);
    }
    return T(field);
  });
}

template <typename T>
Flow bfi(Exec &x, const Instr &i, uint32_t m) {
  constexpr unsigned bits = 8 * sizeof(T);
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  const uint32_t *c = x.lanes<uint32_t>(i.src[2]),
                 *d = x.lanes<uint32_t>(i.src[3]);
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    unsigned pos = c[l] & 0xFF, len = d[l] & 0xFF;
    if (len == 0 || pos >= bits)
      return b[l];
    T ones = len < bits ? T((T(1) << len) - 1) : T(~T(0));
    T field = T(ones << pos);
    return T((b[l] & ~field) | ((a[l] << pos) & field));
  });
}

struct ByteSelect {
  static uint32_t pick(uint64_t v, uint32_t sel) {
    uint32_t byte = uint32_t(v >> (8 * (sel & 7))) & 0xFF;
    return sel & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
  }
};

enum PrmtMode {
  prmtIndex,
  prmtF4e,
  prmtB4e,
  prmtRc8,
  prmtEcl,
  prmtEcr,
  prmtRc16
};

Flow prmt(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  unsigned mode = i.aux;
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    uint64_t v = uint64_t(b[l]) << 32 | a[l];
    uint32_t r = 0, s = c[l] & 3;
    for (unsigned k = 0; k < 4; ++k) {
      uint32_t sel;
      switch (mode) {
      case prmtIndex:
        sel = c[l] >> (4 * k) & 15;
        break;
      case prmtF4e:
        sel = s + k;
        break;
      case prmtB4e:
        sel = (s - k) & 7;
        break;
      case prmtRc8:
        sel = s;
        break;
      case prmtEcl:
        sel = k < s ? s : k;
        break;
      case prmtEcr:
        sel = k < s ? k : s;
        break;
      default:
        sel = (s & 1) * 2 + (k & 1);
      }
      r |= ByteSelect::pick(v, sel) << (8 * k);
    }
    return r;
  });
}

template <typename T>
Flow popc(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    return uint32_t(__builtin_popcountll(a[l]));
  });
}
template <typename T>
Flow clz(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  constexpr unsigned bits = 8 * sizeof(T);
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    return uint32_t(a[l] ? __builtin_clzll(a[l]) - (64 - int(bits)) : bits);
  });
}
/// Position of the highest bit that differs from the sign.
template <typename T>
Flow bfind(Exec &x, const Instr &i, uint32_t m) {
  using U = std::make_unsigned_t<T>;
  constexpr unsigned bits = 8 * sizeof(T);
  const T *a = x.lanes<T>(i.src[0]);
  bool shiftAmount = i.aux;
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    U v = std::is_signed_v<T> && a[l] < 0 ? U(~a[l]) : U(a[l]);
    if (v == 0)
      return ~0u;
    uint32_t pos = 63 - __builtin_clzll(uint64_t(v));
    return shiftAmount ? bits - 1 - pos : pos;
  });
}
struct Brev {
  template <typename T>
  static T run(T a) {
    T r = 0;
    for (unsigned k = 0; k < 8 * sizeof(T); ++k)
      r |= T((a >> k & 1) << (8 * sizeof(T) - 1 - k));
    return r;
  }
};

template <bool Wrap>
Flow bmsk(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]);
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    uint64_t pos = Wrap ? a[l] & 31 : a[l], len = Wrap ? b[l] & 31 : b[l];
    if (pos >= 32 || len == 0)
      return 0u;
    uint64_t ones = len >= 32 ? 0xFFFFFFFFull : (1ull << len) - 1;
    return uint32_t(ones << pos);
  });
}
template <bool Signed, bool Wrap>
Flow szext(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]);
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    uint32_t n = Wrap ? b[l] & 31 : b[l];
    if (n >= 32)
      return a[l];
    if (n == 0)
      return 0u;
    uint32_t v = a[l] << (32 - n);
    return Signed ? uint32_t(int32_t(v) >> (32 - n)) : v >> (32 - n);
  });
}

bool simple(Decoder &d, Type t, unsigned count, ExecFn fn) {
  if (!fn) {
    d.failForm();
    return true;
  }
  d.out->fn = fn;
  if (!d.expectOps(count + 1) || !d.dst(d.op(0), bitsOfType(t), d.out->dst[0]))
    return true;
  for (unsigned k = 0; k < count; ++k)
    if (t == Type::Pred ? !d.predSrc(d.op(k + 1), d.out->src[k])
                        : !d.src(d.op(k + 1), t, d.out->src[k]))
      return true;
  return true;
}

/// Destination of `dstBits`, first source of type t, `extra` 32-bit sources.
bool field(Decoder &d, Type t, unsigned dstBits, unsigned first, unsigned extra,
           ExecFn fn) {
  if (!fn) {
    d.failForm();
    return true;
  }
  d.out->fn = fn;
  if (!d.expectOps(1 + first + extra) ||
      !d.dst(d.op(0), dstBits, d.out->dst[0]))
    return true;
  for (unsigned k = 0; k < first + extra; ++k)
    if (!d.src(d.op(k + 1), k < first ? t : Type::B32, d.out->src[k]))
      return true;
  return true;
}

bool decodeShift(Decoder &d, bool left) {
  Type t;
  if (!d.needType(t))
    return true;
  ExecFn fn = nullptr;
  switch (bitsOfType(t)) {
  case 16:
    fn = left              ? shift<uint16_t, true>
         : isSignedType(t) ? shift<int16_t, false>
                           : shift<uint16_t, false>;
    break;
  case 32:
    fn = left              ? shift<uint32_t, true>
         : isSignedType(t) ? shift<int32_t, false>
                           : shift<uint32_t, false>;
    break;
  case 64:
    fn = left              ? shift<uint64_t, true>
         : isSignedType(t) ? shift<int64_t, false>
                           : shift<uint64_t, false>;
    break;
  default:
    break;
  }
  if (t == Type::Pred || isFloatType(t))
    fn = nullptr;
  return field(d, t, bitsOfType(t), 1, 1, fn);
}

} // namespace

bool decodeLogic(Decoder &d) {
  StringRef base = d.base();
  Type t = Type::None;
  if (base == "and" || base == "or" || base == "xor") {
    if (!d.needType(t))
      return true;
    return simple(d, t, 2,
                  base == "and"  ? pickLogic<And>(t)
                  : base == "or" ? pickLogic<Or>(t)
                                 : pickLogic<Xor>(t));
  }
  if (base == "not" || base == "cnot") {
    if (!d.needType(t))
      return true;
    bool isNot = base == "not";
    ExecFn fn =
        t == Type::Pred ? (isNot ? predNot : nullptr)
        : t == Type::B16
            ? (isNot ? ExecFn(unary<uint16_t, Not>) : unary<uint16_t, Cnot>)
        : t == Type::B32
            ? (isNot ? ExecFn(unary<uint32_t, Not>) : unary<uint32_t, Cnot>)
        : t == Type::B64
            ? (isNot ? ExecFn(unary<uint64_t, Not>) : unary<uint64_t, Cnot>)
            : nullptr;
    return simple(d, t, 1, fn);
  }
  if (base == "shl" || base == "shr")
    return decodeShift(d, base == "shl");
  if (base == "shf") {
    StringRef dir = d.takeAny({"l", "r"}), mode = d.takeAny({"clamp", "wrap"});
    t = d.takeType();
    bool left = dir == "l", clamp = mode == "clamp";
    if (t != Type::B32 || dir.empty() || mode.empty()) {
      d.failForm();
      return true;
    }
    return field(d, t, 32, 2, 1,
                 left ? (clamp ? funnel<true, true> : funnel<true, false>)
                      : (clamp ? funnel<false, true> : funnel<false, false>));
  }
  if (base == "lop3") {
    t = d.takeType();
    int64_t table;
    StringRef with = d.takeAny({"and", "or"});
    if (t != Type::B32) {
      d.failForm();
      return true;
    }
    if (!d.expectOps(with.empty() ? 5 : 6) ||
        !d.immediate(d.op(4), table, "the table"))
      return true;
    if (table < 0 || table > 255) {
      d.fail("lop3 table " + llvm::Twine(table) + " is out of range 0..255");
      return true;
    }
    d.out->fn = lop3;
    auto predicate = with.empty()    ? LopPredicate::None
                     : with == "and" ? LopPredicate::And
                                     : LopPredicate::Or;
    d.out->aux = uint32_t(table) | uint32_t(predicate) << lopShift;
    const ptx::Operand *result = &d.op(0);
    if (!with.empty()) {
      if (result->kind != ptx::Operand::Pair) {
        d.fail("expected 'd|p' as destination of '" + d.in->opcode + "'");
        return true;
      }
      if (!d.predDst(result->elems[1], d.out->dst[1]) ||
          !d.predSrc(d.op(5), d.out->src[3]))
        return true;
      result = &result->elems[0];
    }
    if (d.dst(*result, 32, d.out->dst[0]))
      for (unsigned k = 0; k < 3; ++k)
        if (!d.src(d.op(k + 1), t, d.out->src[k]))
          return true;
    return true;
  }
  if (base == "bfe") {
    if (!d.needType(t))
      return true;
    return field(d, t, bitsOfType(t), 1, 2,
                 t == Type::U32   ? bfe<uint32_t>
                 : t == Type::S32 ? bfe<int32_t>
                 : t == Type::U64 ? bfe<uint64_t>
                 : t == Type::S64 ? bfe<int64_t>
                                  : nullptr);
  }
  if (base == "bfi") {
    if (!d.needType(t))
      return true;
    return field(d, t, bitsOfType(t), 2, 2,
                 t == Type::B32   ? bfi<uint32_t>
                 : t == Type::B64 ? bfi<uint64_t>
                                  : nullptr);
  }
  if (base == "prmt") {
    static const StringRef modes[] = {"f4e", "b4e", "rc8",
                                      "ecl", "ecr", "rc16"};
    StringRef mode;
    for (StringRef m : modes)
      if (d.lastQualifier() == m)
        mode = d.takeLast();
    t = d.takeType();
    d.out->aux = mode.empty()    ? prmtIndex
                 : mode == "f4e" ? prmtF4e
                 : mode == "b4e" ? prmtB4e
                 : mode == "rc8" ? prmtRc8
                 : mode == "ecl" ? prmtEcl
                 : mode == "ecr" ? prmtEcr
                                 : prmtRc16;
    // Bytes that the selector leaves out need not be defined.
    d.out->copies = Copies::Any;
    return field(d, Type::B32, 32, 3, 0, t == Type::B32 ? prmt : nullptr);
  }
  if (base == "fns") {
    t = d.takeType();
    return field(d, Type::B32, 32, 3, 0, t == Type::B32 ? fns : nullptr);
  }
  if (base == "popc" || base == "clz") {
    if (!d.needType(t))
      return true;
    bool isPopc = base == "popc";
    return field(d, t, 32, 1, 0,
                 t == Type::B32   ? (isPopc ? popc<uint32_t> : clz<uint32_t>)
                 : t == Type::B64 ? (isPopc ? popc<uint64_t> : clz<uint64_t>)
                                  : nullptr);
  }
  if (base == "bfind") {
    d.out->aux = d.take("shiftamt");
    if (!d.needType(t))
      return true;
    return field(d, t, 32, 1, 0,
                 t == Type::U32   ? bfind<uint32_t>
                 : t == Type::S32 ? bfind<int32_t>
                 : t == Type::U64 ? bfind<uint64_t>
                 : t == Type::S64 ? bfind<int64_t>
                                  : nullptr);
  }
  if (base == "brev") {
    if (!d.needType(t))
      return true;
    return simple(d, t, 1,
                  t == Type::B32   ? ExecFn(unary<uint32_t, Brev>)
                  : t == Type::B64 ? unary<uint64_t, Brev>
                                   : nullptr);
  }
  if (base == "bmsk") {
    StringRef mode = d.takeAny({"clamp", "wrap"});
    t = d.takeType();
    return field(d, Type::B32, 32, 2, 0,
                 t != Type::B32 || mode.empty() ? nullptr
                 : mode == "wrap"               ? bmsk<true>
                                                : bmsk<false>);
  }
  if (base == "szext") {
    StringRef mode = d.takeAny({"clamp", "wrap"});
    t = d.takeType();
    bool wrap = mode == "wrap";
    ExecFn fn =
        mode.empty()     ? nullptr
        : t == Type::S32 ? (wrap ? szext<true, true> : szext<true, false>)
        : t == Type::U32 ? (wrap ? szext<false, true> : szext<false, false>)
                         : nullptr;
    return field(d, Type::B32, 32, 2, 0, fn);
  }
  return false;
}

} // namespace sim
} // namespace flamia
