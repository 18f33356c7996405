//===- ExecInteger.cpp - Integer arithmetic -------------------------------===//
//
// PTX ISA 9.7.1 and 9.7.2 (extended precision).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"

#include "llvm/ADT/Twine.h"

#include <type_traits>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

template <typename T>
using Uns = std::make_unsigned_t<T>;

/// Twice as wide, for products.
template <typename T>
struct Wider;
template <>
struct Wider<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wider<int16_t> {
  using type = int32_t;
};
template <>
struct Wider<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wider<int32_t> {
  using type = int64_t;
};
template <>
struct Wider<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct Wider<int64_t> {
  using type = __int128;
};

struct Add {
  template <typename T>
  static T run(T a, T b) {
    return T(Uns<T>(a) + Uns<T>(b));
  }
};
struct AddSat {
  template <typename T>
  static T run(T a, T b) {
    int64_t s = int64_t(a) + int64_t(b);
    return T(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s);
  }
};
struct Sub {
  template <typename T>
  static T run(T a, T b) {
    return T(Uns<T>(a) - Uns<T>(b));
  }
};
struct SubSat {
  template <typename T>
  static T run(T a, T b) {
    int64_t s = int64_t(a) - int64_t(b);
    return T(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s);
  }
};
struct MulLo {
  template <typename T>
  static T run(T a, T b) {
    using W = std::conditional_t<(sizeof(T) < 4), uint32_t, Uns<T>>;
    return T(W(a) * W(b));
  }
};
struct MulHi {
  template <typename T>
  static T run(T a, T b) {
    using W = typename Wider<T>::type;
    return T((W(a) * W(b)) >> (8 * sizeof(T)));
  }
};
struct Mul24 {
  template <typename T>
  static T run(T a, T b) {
    return T(uint64_t(extend(a)) * uint64_t(extend(b)));
  }
  template <typename T>
  static int64_t extend(T a) {
    uint32_t u = uint32_t(a) & 0xFFFFFF;
    return std::is_signed_v<T> ? int64_t(int32_t(u << 8) >> 8) : int64_t(u);
  }
};
/// Bits 16 to 47 of the product of 24-bit numbers.
struct Mul24Hi {
  template <typename T>
  static T run(T a, T b) {
    return T(uint64_t(Mul24::extend(a) * Mul24::extend(b)) >> 16);
  }
};
template <typename Product, typename Sum = Add>
struct Mad {
  template <typename T>
  static T run(T a, T b, T c) {
    return Sum::template run<T>(Product::template run<T>(a, b), c);
  }
};
struct Div {
  // Division by zero gives all ones, as on hardware; no lane may trap.
  template <typename T>
  static T run(T a, T b) {
    if (b == 0)
      return T(-1);
    if (std::is_signed_v<T> && b == T(-1))
      return T(0 - Uns<T>(a));
    return T(a / b);
  }
};
struct Rem {
  template <typename T>
  static T run(T a, T b) {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == T(-1))
      return 0;
    return T(a % b);
  }
};
struct Min {
  template <typename T>
  static T run(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T run(T a, T b) {
    return b > a ? b : a;
  }
};
struct MinRelu {
  template <typename T>
  static T run(T a, T b) {
    return Max::run<T>(Min::run<T>(a, b), 0);
  }
};
struct MaxRelu {
  template <typename T>
  static T run(T a, T b) {
    return Max::run<T>(Max::run<T>(a, b), 0);
  }
};
struct Abs {
  template <typename T>
  static T run(T a) {
    return a < 0 ? T(0 - Uns<T>(a)) : a;
  }
};
struct Neg {
  template <typename T>
  static T run(T a) {
    return T(0 - Uns<T>(a));
  }
};
struct Sad {
  template <typename T>
  static T run(T a, T b, T c) {
    return T(Uns<T>(c) +
             (a < b ? Uns<T>(b) - Uns<T>(a) : Uns<T>(a) - Uns<T>(b)));
  }
};

template <typename T>
Flow mulWide(Exec &x, const Instr &i, uint32_t m) {
  using W = typename Wider<T>::type;
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  return mapLanes<W>(x, i.dst[0], m,
                     [&](unsigned l) { return W(a[l]) * W(b[l]); });
}
template <typename T>
Flow madWide(Exec &x, const Instr &i, uint32_t m) {
  using W = typename Wider<T>::type;
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  const W *c = x.lanes<W>(i.src[2]);
  return mapLanes<W>(x, i.dst[0], m, [&](unsigned l) {
    return W(Uns<W>(W(a[l]) * W(b[l])) + Uns<W>(c[l]));
  });
}

enum CarryFlags {
  carryIn = 1,
  carryOut = 2,
  subtract = 4,
  product = 8,
  high = 16,
  signedProduct = 32
};

/// add/sub/mad with carry: aux holds CarryFlags.
template <typename T>
Flow carryOp(Exec &x, const Instr &i, uint32_t m) {
  using W = unsigned __int128;
  uint32_t carry = x.warp.carry, next = 0;
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  const T *c = x.lanes<T>(i.src[2]);
  uint32_t flags = i.aux;
  mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    W cin = flags & carryIn ? carry >> l & 1 : 0;
    W left = a[l], right = b[l];
    if (flags & product) {
      using S = std::make_signed_t<T>;
      W p = flags & signedProduct ? W(__int128(S(a[l])) * __int128(S(b[l])))
                                  : W(a[l]) * W(b[l]);
      left = T(flags & high ? p >> (8 * sizeof(T)) : p);
      right = c[l];
    }
    W sum;
    if (flags & subtract)
      sum = left - right - cin; // The borrow is bit 8*sizeof(T).
    else
      sum = left + right + cin;
    next |= uint32_t(sum >> (8 * sizeof(T)) & 1) << l;
    return T(sum);
  });
  if (flags & carryOut)
    x.warp.carry = (carry & ~m) | (next & m);
  return Flow::Next;
}

Flow dp4a(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  bool sa = i.aux & 1, sb = i.aux & 2;
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    uint32_t sum = c[l];
    for (unsigned k = 0; k < 32; k += 8) {
      int av = sa ? int8_t(a[l] >> k) : uint8_t(a[l] >> k);
      int bv = sb ? int8_t(b[l] >> k) : uint8_t(b[l] >> k);
      sum += uint32_t(av * bv);
    }
    return sum;
  });
}

/// Two 16-bit numbers times the lower or upper two bytes.
Flow dp2a(Exec &x, const Instr &i, uint32_t m) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  bool sa = i.aux & 1, sb = i.aux & 2;
  unsigned shift = i.aux & 4 ? 16 : 0;
  return mapLanes<uint32_t>(x, i.dst[0], m, [&](unsigned l) {
    uint32_t sum = c[l];
    for (unsigned k = 0; k < 2; ++k) {
      uint32_t half = a[l] >> (16 * k), byte = b[l] >> (shift + 8 * k);
      int av = sa ? int16_t(half) : uint16_t(half);
      int bv = sb ? int8_t(byte) : uint8_t(byte);
      sum += uint32_t(av * bv);
    }
    return sum;
  });
}

template <typename Op>
ExecFn pickBinary(Type t) {
  switch (t) {
  case Type::U16:
  case Type::B16:
    return binary<uint16_t, Op>;
  case Type::S16:
    return binary<int16_t, Op>;
  case Type::U32:
  case Type::B32:
    return binary<uint32_t, Op>;
  case Type::S32:
    return binary<int32_t, Op>;
  case Type::U64:
  case Type::B64:
    return binary<uint64_t, Op>;
  case Type::S64:
    return binary<int64_t, Op>;
  default:
    return nullptr;
  }
}
template <typename Op>
ExecFn pickTernary(Type t) {
  switch (t) {
  case Type::U16:
    return ternary<uint16_t, Op>;
  case Type::S16:
    return ternary<int16_t, Op>;
  case Type::U32:
    return ternary<uint32_t, Op>;
  case Type::S32:
    return ternary<int32_t, Op>;
  case Type::U64:
    return ternary<uint64_t, Op>;
  case Type::S64:
    return ternary<int64_t, Op>;
  default:
    return nullptr;
  }
}
template <typename Op>
ExecFn pickSigned(Type t) {
  switch (t) {
  case Type::S16:
    return unary<int16_t, Op>;
  case Type::S32:
    return unary<int32_t, Op>;
  case Type::S64:
    return unary<int64_t, Op>;
  default:
    return nullptr;
  }
}

bool operands(Decoder &d, Type t, unsigned count) {
  if (!d.expectOps(count + 1) || !d.dst(d.op(0), bitsOfType(t), d.out->dst[0]))
    return true;
  for (unsigned k = 0; k < count; ++k)
    if (!d.src(d.op(k + 1), t, d.out->src[k]))
      return true;
  return true;
}

bool finish(Decoder &d, Type t, unsigned count, ExecFn fn) {
  if (!fn) {
    d.failForm();
    return true;
  }
  d.out->fn = fn;
  return operands(d, t, count);
}

bool decodeAddSub(Decoder &d, bool sub) {
  bool cc = d.take("cc"), sat = d.take("sat");
  StringRef base = d.base();
  Type t;
  if (!d.needType(t))
    return true;
  if (cc || base == "addc" || base == "subc") {
    d.out->aux = (cc ? carryOut : 0u) | (base.ends_with("c") ? carryIn : 0u) |
                 (sub ? subtract : 0u);
    ExecFn fn =
        t == Type::U32 || t == Type::S32 || t == Type::B32   ? carryOp<uint32_t>
        : t == Type::U64 || t == Type::S64 || t == Type::B64 ? carryOp<uint64_t>
                                                             : nullptr;
    finish(d, t, 2, fn);
    d.out->src[2] = d.out->src[0];
    return true;
  }
  if (sat)
    return finish(d, t, 2,
                  t != Type::S32 ? nullptr
                  : sub          ? binary<int32_t, SubSat>
                                 : binary<int32_t, AddSat>);
  if (t == Type::U16x2 || t == Type::S16x2)
    return finish(d, t, 2,
                  sub ? binaryPair<uint16_t, Sub> : binaryPair<uint16_t, Add>);
  return finish(d, t, 2, sub ? pickBinary<Sub>(t) : pickBinary<Add>(t));
}

bool decodeMul(Decoder &d, bool mad) {
  StringRef part = d.takeAny({"lo", "hi", "wide"});
  bool cc = d.take("cc");
  bool sat = mad && part == "hi" && d.take("sat");
  Type t;
  if (!d.needType(t))
    return true;
  if (sat)
    return finish(d, t, 3,
                  t == Type::S32 && !cc ? ternary<int32_t, Mad<MulHi, AddSat>>
                                        : nullptr);
  if (cc || d.base() == "madc") {
    if (part != "lo" && part != "hi") {
      d.failForm();
      return true;
    }
    d.out->aux = product | (part == "hi" ? high : 0u) | (cc ? carryOut : 0u) |
                 (d.base() == "madc" ? carryIn : 0u) |
                 (isSignedType(t) ? signedProduct : 0u);
    ExecFn fn = t == Type::U32 || t == Type::S32   ? carryOp<uint32_t>
                : t == Type::U64 || t == Type::S64 ? carryOp<uint64_t>
                                                   : nullptr;
    return finish(d, t, 3, fn);
  }
  if (part == "lo")
    return mad ? finish(d, t, 3, pickTernary<Mad<MulLo>>(t))
               : finish(d, t, 2, pickBinary<MulLo>(t));
  if (part == "hi")
    return mad ? finish(d, t, 3, pickTernary<Mad<MulHi>>(t))
               : finish(d, t, 2, pickBinary<MulHi>(t));
  if (part != "wide") {
    d.failForm();
    return true;
  }
  Type wide;
  ExecFn mulFn, madFn;
  switch (t) {
  case Type::U16:
    wide = Type::U32, mulFn = mulWide<uint16_t>, madFn = madWide<uint16_t>;
    break;
  case Type::S16:
    wide = Type::S32, mulFn = mulWide<int16_t>, madFn = madWide<int16_t>;
    break;
  case Type::U32:
    wide = Type::U64, mulFn = mulWide<uint32_t>, madFn = madWide<uint32_t>;
    break;
  case Type::S32:
    wide = Type::S64, mulFn = mulWide<int32_t>, madFn = madWide<int32_t>;
    break;
  default:
    d.failForm();
    return true;
  }
  d.out->fn = mad ? madFn : mulFn;
  if (!d.expectOps(mad ? 4 : 3) ||
      !d.dst(d.op(0), bitsOfType(wide), d.out->dst[0]) ||
      !d.src(d.op(1), t, d.out->src[0]) || !d.src(d.op(2), t, d.out->src[1]))
    return true;
  if (mad)
    d.src(d.op(3), wide, d.out->src[2]);
  return true;
}

} // namespace

bool decodeInteger(Decoder &d) {
  StringRef base = d.base();
  StringRef last = d.lastQualifier();
  // Floating-point forms of the shared names belong to other families.
  if (isFloatType(typeByName(last)))
    return false;
  if (base == "add" || base == "addc")
    return decodeAddSub(d, false);
  if (base == "sub" || base == "subc")
    return decodeAddSub(d, true);
  if (base == "mul")
    return decodeMul(d, false);
  if (base == "mad" || base == "madc")
    return decodeMul(d, true);
  Type t;
  if (base == "mul24" || base == "mad24") {
    StringRef part = d.takeAny({"lo", "hi"});
    bool mad = base == "mad24", high = part == "hi";
    bool sat = mad && high && d.take("sat");
    if (part.empty() || !d.needType(t)) {
      d.failForm();
      return true;
    }
    ExecFn fn = nullptr;
    if (sat)
      fn = t == Type::S32 ? ternary<int32_t, Mad<Mul24Hi, AddSat>> : nullptr;
    else if (t == Type::U32)
      fn = mad ? (high ? ternary<uint32_t, Mad<Mul24Hi>>
                       : ternary<uint32_t, Mad<Mul24>>)
               : (high ? binary<uint32_t, Mul24Hi> : binary<uint32_t, Mul24>);
    else if (t == Type::S32)
      fn = mad ? (high ? ternary<int32_t, Mad<Mul24Hi>>
                       : ternary<int32_t, Mad<Mul24>>)
               : (high ? binary<int32_t, Mul24Hi> : binary<int32_t, Mul24>);
    return finish(d, t, mad ? 3 : 2, fn);
  }
  if (base == "div" || base == "rem") {
    if (!d.needType(t))
      return true;
    return finish(d, t, 2,
                  base == "div" ? pickBinary<Div>(t) : pickBinary<Rem>(t));
  }
  if (base == "min" || base == "max") {
    bool relu = d.take("relu"), isMin = base == "min";
    if (!d.needType(t))
      return true;
    if (t == Type::U16x2)
      return finish(d, t, 2,
                    relu    ? nullptr
                    : isMin ? binaryPair<uint16_t, Min>
                            : binaryPair<uint16_t, Max>);
    if (t == Type::S16x2)
      return finish(
          d, t, 2,
          relu ? (isMin ? binaryPair<int16_t, MinRelu>
                        : binaryPair<int16_t, MaxRelu>)
               : (isMin ? binaryPair<int16_t, Min> : binaryPair<int16_t, Max>));
    if (relu)
      return finish(d, t, 2,
                    t != Type::S32 ? nullptr
                    : isMin        ? binary<int32_t, MinRelu>
                                   : binary<int32_t, MaxRelu>);
    return finish(d, t, 2, isMin ? pickBinary<Min>(t) : pickBinary<Max>(t));
  }
  if (base == "abs" || base == "neg") {
    if (!d.needType(t))
      return true;
    return finish(d, t, 1,
                  base == "abs" ? pickSigned<Abs>(t) : pickSigned<Neg>(t));
  }
  if (base == "sad") {
    if (!d.needType(t))
      return true;
    return finish(d, t, 3, pickTernary<Sad>(t));
  }
  if (base == "dp4a" || base == "dp2a") {
    bool two = base == "dp2a";
    StringRef part = two ? d.takeAny({"lo", "hi"}) : StringRef("lo");
    Type second = d.takeType(), first = d.takeType();
    auto ok = [](Type k) { return k == Type::U32 || k == Type::S32; };
    if (!ok(first) || !ok(second) || part.empty()) {
      d.failForm();
      return true;
    }
    d.out->aux = (first == Type::S32 ? 1u : 0u) |
                 (second == Type::S32 ? 2u : 0u) | (part == "hi" ? 4u : 0u);
    return finish(d, Type::B32, 3, two ? dp2a : dp4a);
  }
  return false;
}

} // namespace sim
} // namespace flamia
