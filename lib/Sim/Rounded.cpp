//===- Rounded.cpp - Arithmetic in a directed rounding mode ---------------===//
//
// Compiled with -frounding-math (see CMakeLists.txt), so that the compiler
// keeps the operations between the two changes of the mode.
//
//===----------------------------------------------------------------------===//

#include "Rounded.h"

#include <cfenv>
#include <cmath>

namespace flamia {
namespace sim {

namespace {
class Mode {
public:
  explicit Mode(Rounding mode) : old(std::fegetround()) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD,
                                FE_UPWARD};
    std::fesetround(modes[unsigned(mode)]);
  }
  ~Mode() { std::fesetround(old); }

private:
  int old;
};

template <typename T>
T run(FloatOp op, Rounding mode, T a, T b, T c) {
  Mode guard(mode);
  volatile T x = a, y = b, z = c, r = 0;
  switch (op) {
  case FloatOp::Add:
    r = x + y;
    break;
  case FloatOp::Sub:
    r = x - y;
    break;
  case FloatOp::Mul:
    r = x * y;
    break;
  case FloatOp::Fma:
    r = std::fma(T(x), T(y), T(z));
    break;
  case FloatOp::Div:
    r = x / y;
    break;
  case FloatOp::Sqrt:
    r = std::sqrt(T(x));
    break;
  }
  return r;
}

template <typename To, typename From>
To convert(Rounding mode, From value) {
  Mode guard(mode);
  volatile From x = value;
  volatile To r = To(x);
  return r;
}
} // namespace

float roundedOp(FloatOp op, Rounding mode, float a, float b, float c) {
  return run<float>(op, mode, a, b, c);
}
double roundedOp(FloatOp op, Rounding mode, double a, double b, double c) {
  return run<double>(op, mode, a, b, c);
}
float roundedFromInt(Rounding mode, int64_t value) {
  return convert<float>(mode, value);
}
float roundedFromUnsigned(Rounding mode, uint64_t value) {
  // The compiler's sequence for unsigned values may round twice; split off the
  // top bit instead.
  if (value >> 63 == 0)
    return convert<float>(mode, int64_t(value));
  return 2.0f * convert<float>(mode, int64_t(value >> 1 | (value & 1)));
}
double roundedDoubleFromInt(Rounding mode, int64_t value) {
  return convert<double>(mode, value);
}
double roundedDoubleFromUnsigned(Rounding mode, uint64_t value) {
  if (value >> 63 == 0)
    return convert<double>(mode, int64_t(value));
  return 2.0 * convert<double>(mode, int64_t(value >> 1 | (value & 1)));
}
float roundedFromDouble(Rounding mode, double value) {
  return convert<float>(mode, value);
}

} // namespace sim
} // namespace flamia
