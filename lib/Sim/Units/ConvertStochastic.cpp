//===- ConvertStochastic.cpp - cvt.rs -------------------------------------===//
//
// Stochastic rounding: with q = |x| / ulp and n random bits r, the magnitude is
// rounded up when frac(q) + r / 2^n reaches 1. For normal f16 and bf16 results
// that is the addition of the bits to those that are cut off (PTX ISA
// 9.7.9.21); the alignment for 8-, 6- and 4-bit results and for subnormal ones
// is chosen in the same way.
//
//===----------------------------------------------------------------------===//

#include "Bits.h"
#include "flamia/Sim/Units/Convert.h"

#include <cmath>

namespace flamia::sim {
namespace {

struct Target {
  int mantissa, minExponent;
  uint32_t maxCode, signBit, nanCode;
};

/// The code of a finite, positive magnitude; may lie one beyond maxCode.
uint32_t roundMagnitude(float magnitude, const Target &t, uint32_t random,
                        int bits) {
  if (magnitude == 0)
    return 0;
  int exponent = std::ilogb(magnitude);
  if (exponent < t.minExponent)
    exponent = t.minExponent;
  double q = std::ldexp(double(magnitude), t.mantissa - exponent);
  double whole = std::floor(q);
  bool up = q - whole >= 1.0 - std::ldexp(double(random), -bits);
  uint32_t code =
      (uint32_t(exponent - t.minExponent) << t.mantissa) + uint32_t(whole) + up;
  return code > t.maxCode ? t.maxCode + 1 : code;
}

uint32_t convert(uint32_t x, const Target &t, uint32_t random, int bits,
                 bool relu, bool satfinite) {
  uint32_t magnitude = x & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return t.nanCode;
  bool negative = x >> 31;
  if (negative && relu)
    return 0;
  uint32_t code = magnitude == 0x7f800000
                      ? t.maxCode + 1
                      : roundMagnitude(asFloat(magnitude), t, random, bits);
  if (satfinite && code > t.maxCode)
    code = t.maxCode;
  return code | (negative ? t.signBit : 0);
}

} // namespace

uint16_t f32ToF16Stochastic(uint32_t bits, uint32_t random, bool relu,
                            bool satfinite) {
  static const Target f16 = {10, -14, 0x7bff, 0x8000, 0x7fff};
  return uint16_t(convert(bits, f16, random & 0x1fff, 13, relu, satfinite));
}

uint16_t f32ToBf16Stochastic(uint32_t bits, uint32_t random, bool relu,
                             bool satfinite) {
  static const Target bf16 = {7, -126, 0x7f7f, 0x8000, 0x7fff};
  return uint16_t(convert(bits, bf16, random & 0xffff, 16, relu, satfinite));
}

uint8_t f32ToNarrowStochastic(uint32_t bits, Narrow format, uint32_t random,
                              bool relu) {
  static const Target targets[] = {{3, -6, 0x7e, 0x80, 0x7f},
                                   {2, -14, 0x7b, 0x80, 0x7f},
                                   {3, 0, 0x1f, 0x20, 0x1f},
                                   {2, -2, 0x1f, 0x20, 0x1f},
                                   {1, 0, 0x07, 0x08, 0x07}};
  return uint8_t(
      convert(bits, targets[int(format)], random & 0xffff, 16, relu, true));
}

} // namespace flamia::sim
