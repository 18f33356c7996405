//===- ExecHalf.cpp - f16 and bf16 arithmetic -----------------------------===//
//
// PTX ISA 9.7.4 and the mixed-precision forms of 9.7.5. Sums and products are
// formed in f32, which rounds innocuously (24 >= 2 * 11 + 2 bits); fused
// multiply-adds through round-to-odd.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Rounded.h"
#include "flamia/Sim/Units/Convert.h"

#include <cmath>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum Flags : uint32_t {
  ftz = 1,
  sat = 2,
  relu = 4,
  nan = 8,
  xorSign = 16,
  outOfBounds = 32, ///< fma.oob
  roundShift = 64
};

struct F16 {
  static float load(uint16_t h) { return bitsToFloat(f16ToF32(h)); }
  static uint16_t store(float f) { return f32ToF16(floatToBits(f)); }
  static constexpr uint16_t exponent = 0x7C00;
};
struct BF16 {
  static float load(uint16_t h) { return bitsToFloat(bf16ToF32(h)); }
  static uint16_t store(float f) { return f32ToBf16(floatToBits(f)); }
  static constexpr uint16_t exponent = 0x7F80;
};

template <typename H>
uint16_t flushHalf(uint16_t h) {
  return h & H::exponent ? h : h & 0x8000;
}

/// a * b + c rounded to odd at f32's precision.
float fmaOdd(float a, float b, float c) {
  double p = double(a) * double(b), q = c;
  double s = p + q;
  if (std::isfinite(s)) {
    // TwoSum: the exact error of the addition.
    double bb = s - p, err = (p - (s - bb)) + (q - bb);
    uint64_t bits = doubleToBits(s);
    if (err != 0 && !(bits & 1)) {
      bool away = (err > 0) == (s > 0);
      bits = away ? bits + 1 : bits - 1;
      s = bitsToDouble(bits);
    }
  }
  float f = float(s);
  if (!std::isfinite(f) || double(f) == s)
    return f;
  uint32_t fb = floatToBits(f);
  if (std::fabs(double(f)) > std::fabs(s))
    --fb; // Truncate.
  return bitsToFloat(fb | 1);
}

struct AddH {
  static float run(float a, float b, float) { return a + b; }
};
struct SubH {
  static float run(float a, float b, float) { return a - b; }
};
struct MulH {
  static float run(float a, float b, float) { return a * b; }
};
/// What TMA fills elements outside a tensor with, when asked for NaN.
constexpr uint16_t oobNaN = 0x7FF7;
struct FmaH {
  static float run(float a, float b, float c) { return fmaOdd(a, b, c); }
};

/// Loops over the 32 (or 64 with Pair) 16-bit values.
template <bool Pair, typename F>
Flow mapHalves(Exec &x, const Instr &i, uint32_t mask, F f) {
  constexpr unsigned n = Pair ? 64 : 32;
  const uint16_t *a = x.lanes<uint16_t>(i.src[0]),
                 *b = x.lanes<uint16_t>(i.src[1]),
                 *c = x.lanes<uint16_t>(i.src[2]);
  alignas(64) uint16_t out[n];
  for (unsigned l = 0; l < n; ++l)
    out[l] = f(a[l], b[l], c[l]);
  uint16_t *d = x.lanes<uint16_t>(i.dst[0]);
  for (unsigned l = 0; l < n; ++l)
    if (mask >> (Pair ? l / 2 : l) & 1)
      d[l] = out[l];
  return Flow::Next;
}

template <typename H, typename Op, bool Pair>
Flow arith(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t f = i.aux;
  return mapHalves<Pair>(x, i, mask, [&](uint16_t a, uint16_t b, uint16_t c) {
    if (f & ftz) {
      a = flushHalf<H>(a);
      b = flushHalf<H>(b);
      c = flushHalf<H>(c);
    }
    if (f & outOfBounds && ((a & 0x7FFF) == oobNaN || (b & 0x7FFF) == oobNaN))
      return uint16_t(0);
    float r = Op::run(H::load(a), H::load(b), H::load(c));
    // What is below the smallest normal number when rounded to 11 digits is
    // zero, even where its subnormal grid would round it up (as an H200 does).
    if (f & ftz && std::fabs(r) < 0x1p-14f * (1 - 0x1p-12f))
      r = std::copysign(0.0f, r);
    if (f & sat)
      r = saturate(r);
    if (f & relu && r <= 0)
      r = 0;
    uint16_t h = H::store(r);
    return f & ftz ? flushHalf<H>(h) : h;
  });
}

template <typename H, bool Max, bool Pair>
Flow minMax(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t f = i.aux;
  auto pick = [&](float a, float b) {
    if (a != a || b != b)
      return f & nan || (a != a && b != b) ? NAN : a != a ? b : a;
    if (a == b)
      return std::signbit(a) == Max ? b : a;
    return (a < b) != Max ? a : b;
  };
  return mapHalves<Pair>(x, i, mask, [&](uint16_t a, uint16_t b, uint16_t) {
    uint16_t sign = (a ^ b) & 0x8000;
    if (f & xorSign) {
      a &= 0x7FFF;
      b &= 0x7FFF;
    }
    if (f & ftz) {
      a = flushHalf<H>(a);
      b = flushHalf<H>(b);
    }
    float r = pick(H::load(a), H::load(b));
    uint16_t h = H::store(r);
    if (f & xorSign && r == r)
      h = (h & 0x7FFF) | sign;
    return h;
  });
}

template <typename H, bool Negate, bool Pair>
Flow signOp(Exec &x, const Instr &i, uint32_t mask) {
  return mapHalves<Pair>(x, i, mask, [&](uint16_t a, uint16_t, uint16_t) {
    if (i.aux & ftz)
      a = flushHalf<H>(a);
    if ((a & 0x7FFF) > H::exponent)
      return uint16_t(0x7FFF);
    return uint16_t(Negate ? a ^ 0x8000 : a & 0x7FFF);
  });
}

template <typename H, bool Tanh, bool Pair>
Flow function(Exec &x, const Instr &i, uint32_t mask) {
  return mapHalves<Pair>(x, i, mask, [&](uint16_t a, uint16_t, uint16_t) {
    if (i.aux & ftz)
      a = flushHalf<H>(a);
    double v = H::load(a);
    uint16_t h = H::store(float(Tanh ? std::tanh(v) : std::exp2(v)));
    return i.aux & ftz ? flushHalf<H>(h) : h;
  });
}

/// add/sub/fma.f32.{f16,bf16}: the last operand and the result are f32.
template <typename H, FloatOp Op>
Flow mixed(Exec &x, const Instr &i, uint32_t mask) {
  const uint16_t *a = x.lanes<uint16_t>(i.src[0]),
                 *b = x.lanes<uint16_t>(i.src[1]);
  const float *c = x.lanes<float>(i.src[2]);
  bool s = i.aux & sat;
  Rounding mode = Rounding(i.aux / roundShift);
  return mapLanes<float>(x, i.dst[0], mask, [&](unsigned l) {
    float p = H::load(a[l]), q = H::load(b[l]), r = c[l];
    float v;
    if (mode == Rounding::Near)
      v = Op == FloatOp::Add   ? p + r
          : Op == FloatOp::Sub ? p - r
                               : std::fma(p, q, r);
    else if (Op == FloatOp::Fma)
      v = roundedOp(Op, mode, p, q, r);
    else
      v = roundedOp(Op, mode, p, r, 0.0f);
    v = canonical(v);
    return s ? saturate(v) : v;
  });
}

template <typename Op>
ExecFn pickArith(Type t) {
  switch (t) {
  case Type::F16:
    return arith<F16, Op, false>;
  case Type::F16x2:
    return arith<F16, Op, true>;
  case Type::BF16:
    return arith<BF16, Op, false>;
  default:
    return arith<BF16, Op, true>;
  }
}
template <bool Max>
ExecFn pickMinMax(Type t) {
  switch (t) {
  case Type::F16:
    return minMax<F16, Max, false>;
  case Type::F16x2:
    return minMax<F16, Max, true>;
  case Type::BF16:
    return minMax<BF16, Max, false>;
  default:
    return minMax<BF16, Max, true>;
  }
}
template <bool Negate>
ExecFn pickSign(Type t) {
  switch (t) {
  case Type::F16:
    return signOp<F16, Negate, false>;
  case Type::F16x2:
    return signOp<F16, Negate, true>;
  case Type::BF16:
    return signOp<BF16, Negate, false>;
  default:
    return signOp<BF16, Negate, true>;
  }
}
template <bool Tanh>
ExecFn pickFunction(Type t) {
  switch (t) {
  case Type::F16:
    return function<F16, Tanh, false>;
  case Type::F16x2:
    return function<F16, Tanh, true>;
  case Type::BF16:
    return function<BF16, Tanh, false>;
  default:
    return function<BF16, Tanh, true>;
  }
}

/// The same operand bits, whatever the 16-bit format.
Type bitsType(Type t) { return bitsOfType(t) == 16 ? Type::B16 : Type::B32; }

bool operands(Decoder &d, Type t, unsigned count) {
  if (!d.expectOps(count + 1) || !d.dst(d.op(0), bitsOfType(t), d.out->dst[0]))
    return true;
  for (unsigned k = 0; k < count; ++k)
    if (!d.src(d.op(k + 1), bitsType(t), d.out->src[k]))
      return true;
  for (unsigned k = count; k < 3; ++k)
    d.out->src[k] = d.out->src[0];
  return true;
}

bool decodeMixed(Decoder &d, Type t) {
  StringRef base = d.base();
  bool isFma = base == "fma";
  d.takeType();
  d.takeType(); // f32
  StringRef r = d.takeAny({"rn", "rz", "rm", "rp"});
  Rounding mode = r == "rz"   ? Rounding::Zero
                  : r == "rm" ? Rounding::Down
                  : r == "rp" ? Rounding::Up
                              : Rounding::Near;
  if (isFma && r.empty()) {
    d.failForm();
    return true;
  }
  d.out->aux = (d.take("sat") ? sat : 0u) | uint32_t(mode) * roundShift;
  d.out->unit = Unit::Fma;
  bool half = t == Type::F16;
  if (base == "add")
    d.out->fn = half ? mixed<F16, FloatOp::Add> : mixed<BF16, FloatOp::Add>;
  else if (base == "sub")
    d.out->fn = half ? mixed<F16, FloatOp::Sub> : mixed<BF16, FloatOp::Sub>;
  else
    d.out->fn = half ? mixed<F16, FloatOp::Fma> : mixed<BF16, FloatOp::Fma>;
  if (!d.expectOps(isFma ? 4 : 3) || !d.dst(d.op(0), 32, d.out->dst[0]) ||
      !d.src(d.op(1), Type::B16, d.out->src[0]))
    return true;
  d.out->src[1] = d.out->src[0];
  if (isFma && !d.src(d.op(2), Type::B16, d.out->src[1]))
    return true;
  d.src(d.op(isFma ? 3 : 2), Type::F32, d.out->src[2]);
  return true;
}

} // namespace

bool decodeHalf(Decoder &d) {
  StringRef base = d.base();
  Type t = typeByName(d.lastQualifier());
  if (t != Type::F16 && t != Type::F16x2 && t != Type::BF16 &&
      t != Type::BF16x2)
    return false;
  bool isArith =
      base == "add" || base == "sub" || base == "mul" || base == "fma";
  if (isArith && base != "mul" && d.in->parts.size() >= 3 &&
      d.in->parts[d.in->parts.size() - 2] == "f32")
    return decodeMixed(d, t);
  bool isMinMax = base == "min" || base == "max";
  bool isSign = base == "neg" || base == "abs";
  bool isFunction = base == "ex2" || base == "tanh";
  if (!isArith && !isMinMax && !isSign && !isFunction)
    return false;
  d.takeType();
  uint32_t f = d.take("ftz") ? ftz : 0u;
  bool isBf = t == Type::BF16 || t == Type::BF16x2;
  if (isArith) {
    d.out->unit = Unit::Fma;
    bool rounds = d.take("rn");
    f |= d.take("sat") ? sat : 0u;
    if (base == "fma") {
      f |= d.take("relu") ? relu : 0u;
      f |= d.take("oob") ? outOfBounds : 0u;
    }
    bool bad = (isBf && f & (ftz | sat)) || (base == "fma" && !rounds) ||
               (f & sat && f & relu) || (f & outOfBounds && f & (ftz | sat));
    if (bad) {
      d.failForm();
      return true;
    }
    d.out->aux = f;
    d.out->fn = base == "add"   ? pickArith<AddH>(t)
                : base == "sub" ? pickArith<SubH>(t)
                : base == "mul" ? pickArith<MulH>(t)
                                : pickArith<FmaH>(t);
    return operands(d, t, base == "fma" ? 3 : 2);
  }
  if (isMinMax) {
    f |= d.take("NaN") ? nan : 0u;
    if (d.take("xorsign")) {
      if (!d.take("abs")) {
        d.failForm();
        return true;
      }
      f |= xorSign;
    }
    if (isBf && f & ftz) {
      d.failForm();
      return true;
    }
    d.out->aux = f;
    d.out->fn = base == "max" ? pickMinMax<true>(t) : pickMinMax<false>(t);
    return operands(d, t, 2);
  }
  d.out->aux = f;
  // ex2 of bf16 always flushes, that of f16 and tanh never.
  bool flushes = !isSign && isBf && base == "ex2";
  if ((isSign && isBf && f) || (!isSign && (f != 0) != flushes)) {
    d.failForm();
    return true;
  }
  if (isSign) {
    d.out->fn = base == "neg" ? pickSign<true>(t) : pickSign<false>(t);
    return operands(d, t, 1);
  }
  if (!d.take("approx")) {
    d.failForm();
    return true;
  }
  d.out->unit = Unit::Xu;
  d.out->fn = base == "tanh" ? pickFunction<true>(t) : pickFunction<false>(t);
  return operands(d, t, 1);
}

} // namespace sim
} // namespace flamia
