//===- ExecFloat.cpp - f32, f32x2 and f64 arithmetic ----------------------===//
//
// PTX ISA 9.7.3: add, sub, mul, fma, mad, min, max, abs, neg, copysign, testp.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Rounded.h"

#include <cmath>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum Flags : uint32_t { ftz = 1, sat = 2, roundShift = 4 };

/// N = 32 for f32, 64 for the two halves of f32x2 side by side.
template <unsigned N, typename F>
Flow mapFloats(Exec &x, Src dst, uint32_t mask, F f) {
  alignas(64) float out[N];
  for (unsigned l = 0; l < N; ++l)
    out[l] = f(l);
  float *d = x.lanes<float>(dst);
  if (mask == allLanes) {
    std::memcpy(d, out, sizeof(out));
    return Flow::Next;
  }
  for (unsigned l = 0; l < N; ++l)
    if (mask >> (N == 64 ? l / 2 : l) & 1)
      d[l] = out[l];
  return Flow::Next;
}

template <bool Ftz>
float in(float f) {
  return Ftz ? flush(f) : f;
}
template <bool Ftz, bool Sat>
float done(float f) {
  float r = canonical(f);
  if (Ftz)
    r = flush(r);
  return Sat ? saturate(r) : r;
}

struct AddF {
  template <typename T>
  static T run(T a, T b, T) {
    return a + b;
  }
  static constexpr FloatOp op = FloatOp::Add;
};
struct SubF {
  template <typename T>
  static T run(T a, T b, T) {
    return a - b;
  }
  static constexpr FloatOp op = FloatOp::Sub;
};
struct MulF {
  template <typename T>
  static T run(T a, T b, T) {
    return a * b;
  }
  static constexpr FloatOp op = FloatOp::Mul;
};
struct FmaF {
  template <typename T>
  static T run(T a, T b, T c) {
    return std::fma(a, b, c);
  }
  static constexpr FloatOp op = FloatOp::Fma;
};

/// .ftz flushes what lies below 2^-126 when rounded without a lower bound for
/// the exponent, even if it is 2^-126 in f32 (seen on an H200).
template <typename Op>
float flushExact(Rounding mode, float r, float a, float b, float c) {
  if ((floatToBits(r) & 0x7FFFFFFF) != smallestNormal)
    return r;
  (std::fabs(a) < std::fabs(b) ? a : b) *= 0x1p64f;
  float scaled = roundedOp(Op::op, mode, a, b, c * 0x1p64f);
  return std::fabs(scaled) < 0x1p-62f ? std::copysign(0.0f, r) : r;
}

template <typename Op, unsigned N, bool Sat>
Flow arithFlushed(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]),
              *c = x.lanes<float>(i.src[2]);
  alignas(64) float out[N];
  uint32_t edge = 0;
  for (unsigned l = 0; l < N; ++l) {
    out[l] = Op::run(flush(a[l]), flush(b[l]), flush(c[l]));
    edge |= uint32_t((floatToBits(out[l]) & 0x7FFFFFFF) == smallestNormal);
  }
  for (unsigned l = 0; edge && l < N; ++l)
    out[l] = flushExact<Op>(Rounding::Near, out[l], flush(a[l]), flush(b[l]),
                            flush(c[l]));
  return mapFloats<N>(x, i.dst[0], m,
                      [&](unsigned l) { return done<true, Sat>(out[l]); });
}

template <typename Op, unsigned N, bool Ftz, bool Sat>
Flow arith(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]),
              *c = x.lanes<float>(i.src[2]);
  return mapFloats<N>(x, i.dst[0], m, [&](unsigned l) {
    return done<Ftz, Sat>(Op::run(in<Ftz>(a[l]), in<Ftz>(b[l]), in<Ftz>(c[l])));
  });
}

template <typename Op, unsigned N>
Flow arithRounded(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]),
              *c = x.lanes<float>(i.src[2]);
  Rounding mode = Rounding(i.aux / roundShift);
  bool f = i.aux & ftz, s = i.aux & sat;
  return mapFloats<N>(x, i.dst[0], m, [&](unsigned l) {
    float p = f ? flush(a[l]) : a[l], q = f ? flush(b[l]) : b[l],
          s3 = f ? flush(c[l]) : c[l];
    float r = roundedOp(Op::op, mode, p, q, s3);
    constexpr bool multiplies =
        Op::op == FloatOp::Mul || Op::op == FloatOp::Fma;
    r = canonical(f && multiplies ? flushExact<Op>(mode, r, p, q, s3) : r);
    r = f ? flush(r) : r;
    return s ? saturate(r) : r;
  });
}

template <typename Op>
Flow arithDouble(Exec &x, const Instr &i, uint32_t m) {
  const double *a = x.lanes<double>(i.src[0]), *b = x.lanes<double>(i.src[1]),
               *c = x.lanes<double>(i.src[2]);
  Rounding mode = Rounding(i.aux / roundShift);
  return mapLanes<double>(x, i.dst[0], m, [&](unsigned l) {
    double r = mode == Rounding::Near
                   ? Op::run(a[l], b[l], c[l])
                   : roundedOp(Op::op, mode, a[l], b[l], c[l]);
    // Of several NaN, b's goes before c's, and that before a's.
    bool fused = Op::op == FloatOp::Fma;
    return keepNaN(r, a[l], fused ? c[l] : 0, b[l]);
  });
}

template <typename Op, unsigned N>
ExecFn pickFlags(uint32_t aux) {
  if (aux >= roundShift)
    return arithRounded<Op, N>;
  // Sums below 2^-126 are exact.
  constexpr bool multiplies = Op::op == FloatOp::Mul || Op::op == FloatOp::Fma;
  switch (aux) {
  case 0:
    return arith<Op, N, false, false>;
  case ftz:
    return multiplies ? arithFlushed<Op, N, false> : arith<Op, N, true, false>;
  case sat:
    return arith<Op, N, false, true>;
  default:
    return multiplies ? arithFlushed<Op, N, true> : arith<Op, N, true, true>;
  }
}

enum MinMaxFlags : uint32_t {
  mmFtz = 1,
  mmNan = 2,
  mmAbs = 4,
  mmXorSign = 8,
  mmThree = 16
};

/// NaN loses unless .NaN; -0 is less than +0.
template <bool Max, typename T>
T pickMinMax(T a, T b, bool nan) {
  if (a != a || b != b) {
    if (nan || (a != a && b != b))
      return sizeof(T) == 4 ? T(canonical(float(NAN)))
                            : T(keepNaN(double(NAN), double(a), double(b)));
    return a != a ? b : a;
  }
  if (a == b)
    return Max ? (std::signbit(a) ? b : a) : (std::signbit(a) ? a : b);
  return (a < b) != Max ? a : b;
}

template <bool Max>
Flow minMax(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]),
              *c = x.lanes<float>(i.src[2]);
  uint32_t f = i.aux;
  auto load = [&](float v) {
    v = f & mmFtz ? flush(v) : v;
    return f & mmAbs ? std::fabs(v) : v;
  };
  bool nan = f & mmNan;
  return mapLanes<float>(x, i.dst[0], m, [&](unsigned l) {
    float r = pickMinMax<Max>(load(a[l]), load(b[l]), nan);
    if (f & mmThree)
      r = pickMinMax<Max>(r, load(c[l]), nan);
    if (f & mmXorSign && r == r) {
      uint32_t sign = (floatToBits(a[l]) ^ floatToBits(b[l])) & 0x80000000;
      r = bitsToFloat((floatToBits(r) & 0x7FFFFFFF) | sign);
    }
    return r;
  });
}
/// The common form, which vectorizes.
template <bool Max>
Flow minMaxPlain(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]);
  return mapLanes<float>(x, i.dst[0], m, [&](unsigned l) {
    return pickMinMax<Max>(a[l], b[l], false);
  });
}
template <bool Max>
Flow minMaxDouble(Exec &x, const Instr &i, uint32_t m) {
  const double *a = x.lanes<double>(i.src[0]), *b = x.lanes<double>(i.src[1]);
  return mapLanes<double>(x, i.dst[0], m, [&](unsigned l) {
    return pickMinMax<Max>(a[l], b[l], false);
  });
}

template <bool Negate>
Flow signOp(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]);
  bool f = i.aux & ftz;
  return mapLanes<float>(x, i.dst[0], m, [&](unsigned l) {
    uint32_t b = floatToBits(f ? flush(a[l]) : a[l]);
    if (a[l] != a[l])
      return canonical(a[l]);
    return bitsToFloat(Negate ? b ^ 0x80000000 : b & 0x7FFFFFFF);
  });
}
template <bool Negate>
Flow signOpDouble(Exec &x, const Instr &i, uint32_t m) {
  const uint64_t *a = x.lanes<uint64_t>(i.src[0]);
  return mapLanes<uint64_t>(x, i.dst[0], m, [&](unsigned l) {
    double v = bitsToDouble(a[l]);
    if (v != v)
      return uint64_t(doubleToBits(keepNaN(v, v)));
    return uint64_t(Negate ? a[l] ^ (1ull << 63) : a[l] & ~(1ull << 63));
  });
}

/// copysign d, a, b: the sign of a with the magnitude of b.
template <typename T>
Flow copySign(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  constexpr T sign = T(1) << (8 * sizeof(T) - 1);
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    return T((a[l] & sign) | (b[l] & ~sign));
  });
}

enum class Testp { Finite, Infinite, Number, NotANumber, Normal, Subnormal };
template <typename T>
Flow testp(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  Testp what = Testp(i.aux);
  uint32_t r = lanesWhere([&](unsigned l) {
    int cls = std::fpclassify(a[l]);
    switch (what) {
    case Testp::Finite:
      return cls != FP_NAN && cls != FP_INFINITE;
    case Testp::Infinite:
      return cls == FP_INFINITE;
    case Testp::Number:
      return cls != FP_NAN;
    case Testp::NotANumber:
      return cls == FP_NAN;
    case Testp::Normal:
      return cls == FP_NORMAL || cls == FP_ZERO;
    case Testp::Subnormal:
      return cls == FP_SUBNORMAL;
    }
    return false;
  });
  x.setMask(i.dst[0], r, m);
  return Flow::Next;
}

bool operands(Decoder &d, Type t, unsigned count) {
  if (!d.expectOps(count + 1) || !d.dst(d.op(0), bitsOfType(t), d.out->dst[0]))
    return true;
  for (unsigned k = 0; k < count; ++k)
    if (!d.src(d.op(k + 1), t, d.out->src[k]))
      return true;
  for (unsigned k = count; k < 3; ++k)
    d.out->src[k] = d.out->src[0];
  return true;
}

uint32_t takeRounding(Decoder &d) {
  StringRef r = d.takeAny({"rn", "rz", "rm", "rp"});
  if (r.empty() && (d.base() == "fma" || d.base() == "mad"))
    d.fail("expected a rounding modifier in '" + d.in->opcode + "'");
  Rounding mode = r == "rz"   ? Rounding::Zero
                  : r == "rm" ? Rounding::Down
                  : r == "rp" ? Rounding::Up
                              : Rounding::Near;
  return uint32_t(mode) * roundShift;
}

template <typename Op>
bool decodeArith(Decoder &d, Type t, unsigned count) {
  d.out->unit = Unit::Fma;
  uint32_t aux = takeRounding(d);
  if (d.take("ftz"))
    aux |= ftz;
  if (d.take("sat"))
    aux |= sat;
  d.out->aux = aux;
  if (t == Type::F64) {
    if (aux & (ftz | sat)) {
      d.failForm();
      return true;
    }
    d.out->fn = arithDouble<Op>;
  } else if (t == Type::F32x2) {
    if (aux & sat) {
      d.failForm();
      return true;
    }
    d.out->fn = pickFlags<Op, 64>(aux);
    // The halves are independent, and compilers may leave one undefined.
    d.out->copies = Copies::Halves;
  } else {
    d.out->fn = pickFlags<Op, 32>(aux);
  }
  return operands(d, t, count);
}

bool decodeMinMax(Decoder &d, Type t, bool isMax) {
  uint32_t f = 0;
  f |= d.take("ftz") ? mmFtz : 0u;
  f |= d.take("NaN") ? mmNan : 0u;
  if (d.take("xorsign")) {
    if (!d.take("abs")) {
      d.failForm();
      return true;
    }
    f |= mmXorSign | mmAbs;
  } else if (d.take("abs")) {
    f |= mmAbs;
  }
  if (t == Type::F64) {
    if (f) {
      d.failForm();
      return true;
    }
    d.out->fn = isMax ? minMaxDouble<true> : minMaxDouble<false>;
    return operands(d, t, 2);
  }
  bool three = d.numOps() == 4;
  if (t != Type::F32 || (three && f & mmXorSign) ||
      (!three && f & mmAbs && !(f & mmXorSign))) {
    d.failForm();
    return true;
  }
  d.out->aux = f | (three ? mmThree : 0u);
  if (d.out->aux == 0)
    d.out->fn = isMax ? minMaxPlain<true> : minMaxPlain<false>;
  else
    d.out->fn = isMax ? minMax<true> : minMax<false>;
  return operands(d, t, three ? 3 : 2);
}

} // namespace

bool decodeFloat(Decoder &d) {
  StringRef base = d.base();
  Type t = typeByName(d.lastQualifier());
  // f32 results of 16-bit operands (add.f32.bf16) are in the half family.
  bool mixed = (t == Type::F16 || t == Type::BF16);
  if (mixed || (t != Type::F32 && t != Type::F64 && t != Type::F32x2)) {
    if (base != "copysign" && base != "testp")
      return false;
  }
  if (base == "add" || base == "sub" || base == "mul" || base == "fma" ||
      base == "mad") {
    d.takeType();
    if (base == "add")
      return decodeArith<AddF>(d, t, 2);
    if (base == "sub")
      return decodeArith<SubF>(d, t, 2);
    if (base == "mul")
      return decodeArith<MulF>(d, t, 2);
    return decodeArith<FmaF>(d, t, 3);
  }
  if (base == "min" || base == "max") {
    d.takeType();
    return decodeMinMax(d, t, base == "max");
  }
  if (base == "abs" || base == "neg") {
    d.takeType();
    bool negate = base == "neg";
    if (t == Type::F64) {
      d.out->fn = negate ? signOpDouble<true> : signOpDouble<false>;
    } else if (t == Type::F32) {
      d.out->aux = d.take("ftz") ? ftz : 0u;
      d.out->fn = negate ? signOp<true> : signOp<false>;
    } else {
      d.failForm();
      return true;
    }
    return operands(d, t, 1);
  }
  if (base == "copysign") {
    d.takeType();
    if (t != Type::F32 && t != Type::F64) {
      d.failForm();
      return true;
    }
    d.out->fn = t == Type::F32 ? copySign<uint32_t> : copySign<uint64_t>;
    return operands(d, t, 2);
  }
  if (base == "testp") {
    d.takeType();
    static const StringRef names[] = {"finite",     "infinite", "number",
                                      "notanumber", "normal",   "subnormal"};
    StringRef what = d.takeAny(names);
    if (what.empty() || (t != Type::F32 && t != Type::F64)) {
      d.failForm();
      return true;
    }
    for (unsigned k = 0; k < 6; ++k)
      if (names[k] == what)
        d.out->aux = k;
    d.out->fn = t == Type::F32 ? testp<float> : testp<double>;
    if (d.expectOps(2) && d.predDst(d.op(0), d.out->dst[0]))
      d.src(d.op(1), t, d.out->src[0]);
    return true;
  }
  return false;
}

} // namespace sim
} // namespace flamia
