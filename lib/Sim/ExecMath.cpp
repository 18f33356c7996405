//===- ExecMath.cpp - Division, roots and transcendental functions --------===//
//
// PTX ISA 9.7.3. The .approx functions are computed in double precision and
// rounded once: within the manual's error bounds, but not the bits of any
// hardware table (facts/tcgen05.md 10.2). They share no code with
// lib/Reference on purpose.
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

enum Flags : uint32_t { ftz = 1, approx = 2, roundShift = 4 };

struct Ex2 {
  static double run(double a) { return std::exp2(a); }
};
struct Lg2 {
  static double run(double a) { return std::log2(a); }
};
struct Rcp {
  static double run(double a) { return 1.0 / a; }
};
struct Rsqrt {
  static double run(double a) { return 1.0 / std::sqrt(a); }
};
struct Sqrt {
  static double run(double a) { return std::sqrt(a); }
};
struct Sin {
  static double run(double a) { return std::sin(a); }
};
struct Cos {
  static double run(double a) { return std::cos(a); }
};
struct Tanh {
  static double run(double a) { return std::tanh(a); }
};

template <typename Op>
Flow function(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]);
  bool f = i.aux & ftz;
  float *d = x.lanes<float>(i.dst[0]);
  forLanes(m, [&](int l) {
    float v = f ? flush(a[l]) : a[l];
    float r = canonical(float(Op::run(double(v))));
    d[l] = f ? flush(r) : r;
  });
  return Flow::Next;
}

template <typename Op>
Flow functionDouble(Exec &x, const Instr &i, uint32_t m) {
  const double *a = x.lanes<double>(i.src[0]);
  double *d = x.lanes<double>(i.dst[0]);
  bool f = i.aux & ftz;
  forLanes(m, [&](int l) {
    auto flushDouble = [](double v) {
      return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0, v) : v;
    };
    // The .ftz forms read and compute the upper half only.
    double v =
        f ? flushDouble(bitsToDouble(doubleToBits(a[l]) & ~0xFFFFFFFFull))
          : a[l];
    double r = keepNaN(Op::run(v), v);
    d[l] = f ? bitsToDouble(doubleToBits(flushDouble(r)) & ~0xFFFFFFFFull) : r;
  });
  return Flow::Next;
}

/// As flushExact of ExecFloat.cpp.
float flushQuotient(Rounding mode, float r, float a, float b) {
  if ((floatToBits(r) & 0x7FFFFFFF) != smallestNormal)
    return flush(r);
  float scaled = roundedOp(FloatOp::Div, mode, a * 0x1p64f, b, 0.0f);
  return std::fabs(scaled) < 0x1p-62f ? std::copysign(0.0f, r) : r;
}

Flow rounded(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]);
  FloatOp op = FloatOp(i.extra);
  Rounding mode = Rounding(i.aux / roundShift);
  bool f = i.aux & ftz;
  float *d = x.lanes<float>(i.dst[0]);
  forLanes(m, [&](int l) {
    float p = f ? flush(a[l]) : a[l], q = f ? flush(b[l]) : b[l];
    float r = canonical(roundedOp(op, mode, p, q, 0.0f));
    d[l] = !f                   ? r
           : op == FloatOp::Div ? flushQuotient(mode, r, p, q)
                                : flush(r);
  });
  return Flow::Next;
}
Flow roundedDouble(Exec &x, const Instr &i, uint32_t m) {
  const double *a = x.lanes<double>(i.src[0]), *b = x.lanes<double>(i.src[1]);
  FloatOp op = FloatOp(i.extra);
  Rounding mode = Rounding(i.aux / roundShift);
  double *d = x.lanes<double>(i.dst[0]);
  forLanes(m, [&](int l) {
    // Of two NaN, the dividend's.
    d[l] = keepNaN(roundedOp(op, mode, a[l], b[l], 0.0),
                   op == FloatOp::Div ? b[l] : 0, a[l]);
  });
  return Flow::Next;
}

/// div.approx gives 0 for divisors beyond 2^126 (NaN for an infinite dividend).
Flow divApprox(Exec &x, const Instr &i, uint32_t m) {
  const float *a = x.lanes<float>(i.src[0]), *b = x.lanes<float>(i.src[1]);
  bool f = i.aux & ftz;
  float *d = x.lanes<float>(i.dst[0]);
  forLanes(m, [&](int l) {
    float p = f ? flush(a[l]) : a[l], q = f ? flush(b[l]) : b[l];
    float r = p / q;
    if (i.aux & approx && std::fabs(q) > 0x1p126f && !std::isinf(q) && r == r)
      r = std::isinf(p) ? NAN : std::copysign(0.0f, r);
    r = canonical(r);
    d[l] = f ? flushQuotient(Rounding::Near, r, p, q) : r;
  });
  return Flow::Next;
}

bool operands(Decoder &d, Type t, unsigned count) {
  d.out->unit = Unit::Xu;
  if (!d.expectOps(count + 1) || !d.dst(d.op(0), bitsOfType(t), d.out->dst[0]))
    return true;
  for (unsigned k = 0; k < count; ++k)
    if (!d.src(d.op(k + 1), t, d.out->src[k]))
      return true;
  if (count == 1)
    d.out->src[1] = d.out->src[0];
  return true;
}

bool form(Decoder &d, ExecFn fn, Type t, unsigned count) {
  if (!fn) {
    d.failForm();
    return true;
  }
  d.out->fn = fn;
  return operands(d, t, count);
}

/// Takes the rounding; true when one was given.
bool takeRounding(Decoder &d, Rounding &mode) {
  StringRef r = d.takeAny({"rn", "rz", "rm", "rp"});
  mode = r == "rz"   ? Rounding::Zero
         : r == "rm" ? Rounding::Down
         : r == "rp" ? Rounding::Up
                     : Rounding::Near;
  return !r.empty();
}

} // namespace

bool decodeMath(Decoder &d) {
  StringRef base = d.base();
  bool isDiv = base == "div", isRcp = base == "rcp", isSqrt = base == "sqrt";
  bool other = base == "ex2" || base == "lg2" || base == "rsqrt" ||
               base == "sin" || base == "cos" || base == "tanh";
  if (!isDiv && !isRcp && !isSqrt && !other)
    return false;
  Type t = typeByName(d.lastQualifier());
  if (t != Type::F32 && t != Type::F64)
    return false;
  d.takeType();
  bool f = d.take("ftz");
  bool isApprox = d.take("approx"), full = d.take("full");
  Rounding mode;
  bool isRounded = takeRounding(d, mode);
  if (isApprox + full + isRounded != 1 || (full && !isDiv)) {
    d.failForm();
    return true;
  }
  d.out->aux =
      (f ? ftz : 0u) | (isApprox ? approx : 0u) | uint32_t(mode) * roundShift;
  if (t == Type::F64) {
    if (isRounded && !f) {
      if (isDiv) {
        d.out->extra = uint32_t(FloatOp::Div);
        return form(d, roundedDouble, t, 2);
      }
      if (isSqrt) {
        d.out->extra = uint32_t(FloatOp::Sqrt);
        return form(d, roundedDouble, t, 1);
      }
      if (isRcp) {
        d.out->extra = uint32_t(FloatOp::Div);
        if (!operands(d, t, 1))
          return true;
        d.out->src[1] = d.out->src[0];
        d.out->src[0] = d.constant(doubleToBits(1.0), 64);
        d.out->fn = roundedDouble;
        return true;
      }
    }
    // rcp.approx.ftz.f64 and rsqrt.approx{.ftz}.f64; more exact here.
    if (isApprox && isRcp)
      return form(d, functionDouble<Rcp>, t, 1);
    if (isApprox && base == "rsqrt")
      return form(d, functionDouble<Rsqrt>, t, 1);
    d.failForm();
    return true;
  }
  if (isDiv) {
    if (!isRounded)
      return form(d, divApprox, t, 2);
    d.out->extra = uint32_t(FloatOp::Div);
    return form(d, rounded, t, 2);
  }
  if (isRounded) {
    if (isSqrt) {
      d.out->extra = uint32_t(FloatOp::Sqrt);
      return form(d, rounded, t, 1);
    }
    if (isRcp) {
      d.out->extra = uint32_t(FloatOp::Div);
      operands(d, t, 1);
      d.out->src[1] = d.out->src[0];
      d.out->src[0] = d.constant(floatToBits(1.0f), 32);
      d.out->fn = rounded;
      return true;
    }
    d.failForm();
    return true;
  }
  ExecFn fn = isRcp            ? function<Rcp>
              : isSqrt         ? function<Sqrt>
              : base == "ex2"  ? function<Ex2>
              : base == "lg2"  ? function<Lg2>
              : base == "sin"  ? function<Sin>
              : base == "cos"  ? function<Cos>
              : base == "tanh" ? function<Tanh>
                               : function<Rsqrt>;
  return form(d, fn, t, 1);
}

} // namespace sim
} // namespace flamia
