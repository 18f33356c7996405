//===- Convert.cpp - Bit exact cvt of the narrow formats ------------------===//

#include "flamia/Sim/Units/Convert.h"
#include "Bits.h"
#include <cstring>

namespace flamia::sim {
namespace {

/// A format of `mantissa` stored bits and exponent bias `bias`. `maxCode` is
/// the code of the largest finite value, `nanCode` what a cvt makes of NaN.
template <int Mantissa, int Bias, uint32_t MaxCode, uint32_t SignBit,
          uint32_t NaNCode>
struct Format {
  static constexpr int mantissa = Mantissa;
  static constexpr int bias = Bias;
  static constexpr uint32_t maxCode = MaxCode;
  static constexpr uint32_t signBit = SignBit;
  static constexpr uint32_t nanCode = NaNCode;
};
using E4M3 = Format<3, 7, 0x7e, 0x80, 0x7f>;
using E5M2 = Format<2, 15, 0x7b, 0x80, 0x7f>;
using E2M3 = Format<3, 1, 0x1f, 0x20, 0x1f>;
using E3M2 = Format<2, 3, 0x1f, 0x20, 0x1f>;
using E2M1 = Format<1, 1, 0x07, 0x08, 0x07>;

/// Round to nearest even and saturate. Branch free, so that the array versions
/// vectorise.
template <typename F>
inline uint32_t encode(uint32_t bits, bool relu) {
  constexpr int shift = 23 - F::mantissa;
  constexpr uint32_t rebias = uint32_t(127 - F::bias) << F::mantissa;
  constexpr uint32_t minNormal = uint32_t(128 - F::bias) << 23;
  constexpr uint32_t maxFinite = (F::maxCode + rebias) << shift;
  // Adding 2^k leaves a float whose unit in the last place is the format's
  // smallest subnormal: the host's addition does the rounding.
  constexpr uint32_t magic = uint32_t(127 + 24 - F::bias - F::mantissa) << 23;

  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t clamped = magnitude < maxFinite ? magnitude : maxFinite;
  uint32_t normal =
      ((clamped + ((1u << (shift - 1)) - 1) + ((clamped >> shift) & 1)) >>
       shift) -
      rebias;
  uint32_t subnormal = asBits(asFloat(clamped) + asFloat(magic)) - magic;
  uint32_t code = clamped < minNormal ? subnormal : normal;
  bool negative = bits >> 31;
  code = negative ? (relu ? 0 : code | F::signBit) : code;
  return magnitude > 0x7f800000 ? F::nanCode : code;
}

template <typename F>
inline uint32_t decode(uint32_t code) {
  constexpr uint32_t magnitudeMask = F::signBit - 1;
  uint32_t sign = code & F::signBit ? 0x80000000u : 0;
  uint32_t magnitude = code & magnitudeMask;
  uint32_t mantissa = magnitude & ((1u << F::mantissa) - 1);
  uint32_t exponent = magnitude >> F::mantissa;
  if (magnitude > F::maxCode) {
    // Only e4m3 and e5m2 have codes beyond the largest finite value.
    bool infinite = F::mantissa == 2 && mantissa == 0;
    return infinite ? sign | 0x7f800000 : 0x7fffffff;
  }
  if (exponent == 0) {
    float ulp = asFloat(uint32_t(128 - F::bias - F::mantissa) << 23);
    return sign | asBits(float(mantissa) * ulp);
  }
  return sign | ((exponent + 127 - F::bias) << 23) |
         (mantissa << (23 - F::mantissa));
}

/// Calls \p body with the Format type of \p format.
template <typename Body>
inline auto dispatch(Narrow format, Body body) {
  switch (format) {
  case Narrow::E4M3:
    return body(E4M3());
  case Narrow::E5M2:
    return body(E5M2());
  case Narrow::E2M3:
    return body(E2M3());
  case Narrow::E3M2:
    return body(E3M2());
  case Narrow::E2M1:
    break;
  }
  return body(E2M1());
}

/// Whether dropping `rest` (out of `half` = half a unit) rounds the magnitude
/// up.
bool roundsUp(Round round, bool negative, bool odd, uint32_t rest,
              uint32_t half) {
  switch (round) {
  case Round::Rn:
    return rest > half || (rest == half && odd);
  case Round::Rna:
    return rest >= half;
  case Round::Rz:
    return false;
  case Round::Rp:
    return rest != 0 && !negative;
  case Round::Rm:
    return rest != 0 && negative;
  }
  return false;
}

/// Drops the low `drop` bits of a finite f32 magnitude in the chosen direction.
uint32_t dropBits(uint32_t magnitude, int drop, Round round, bool negative) {
  uint32_t unit = 1u << drop;
  uint32_t kept = magnitude >> drop;
  if (roundsUp(round, negative, kept & 1, magnitude & (unit - 1), unit >> 1))
    ++kept;
  return kept;
}

uint8_t ue8m0(uint32_t magnitude, Round round, bool satfinite) {
  if (magnitude > 0x7f800000)
    return 0xff;
  uint32_t code = magnitude >> 23;
  uint32_t mantissa = magnitude & 0x7fffff;
  if (round == Round::Rp) {
    // Code 0 is 2^-127, the f32 subnormal 0x00400000.
    if (code == 0)
      code = magnitude > 0x00400000 ? 1 : 0;
    else if (mantissa != 0)
      ++code;
  }
  return code >= 0xff && satfinite ? 0xfe : uint8_t(code > 0xff ? 0xff : code);
}

} // namespace

//===----------------------------------------------------------------------===//
// One value
//===----------------------------------------------------------------------===//

uint8_t f32ToNarrow(uint32_t bits, Narrow format, bool relu) {
  return dispatch(
      format, [&](auto f) { return uint8_t(encode<decltype(f)>(bits, relu)); });
}

uint8_t f16ToNarrow(uint16_t bits, Narrow format, bool relu) {
  return f32ToNarrow(f16ToF32(bits), format, relu);
}

uint32_t narrowToF32(uint8_t code, Narrow format) {
  return dispatch(format, [&](auto f) { return decode<decltype(f)>(code); });
}

uint16_t narrowToF16(uint8_t code, Narrow format, bool relu) {
  // Every narrow value is an f16 value, so the rounding mode does not matter.
  return f32ToF16(narrowToF32(code, format), Round::Rn, relu);
}

uint8_t f32ToUe8m0(uint32_t bits, Round round, bool satfinite) {
  return ue8m0(bits & 0x7fffffff, round, satfinite);
}

uint8_t bf16ToUe8m0(uint16_t bits, Round round, bool satfinite) {
  return f32ToUe8m0(uint32_t(bits) << 16, round, satfinite);
}

uint16_t ue8m0ToBf16(uint8_t code) {
  if (code == 0)
    return 0x0040;
  return code == 0xff ? 0x7fff : uint16_t(code << 7);
}

uint16_t f32ToF16(uint32_t bits, Round round, bool relu, bool satfinite) {
  uint32_t magnitude = bits & 0x7fffffff;
  bool negative = bits >> 31;
  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (negative && relu)
    return 0;
  uint16_t sign = negative ? 0x8000 : 0;
  if (magnitude == 0x7f800000)
    return sign | (satfinite ? 0x7bff : 0x7c00);

  uint32_t code;
  int exponent = int(magnitude >> 23) - 127;
  if (exponent >= 16) {
    code = 0x7c00;
    if (round == Round::Rz || (round == Round::Rp && negative) ||
        (round == Round::Rm && !negative))
      code = 0x7bff;
  } else if (exponent >= -14) {
    code = dropBits(magnitude - (112u << 23), 13, round, negative);
  } else {
    // Below the normal range one more bit is lost with each step. From 2^-26
    // down everything is a remainder smaller than half a unit.
    int drop = exponent >= -25 ? -1 - exponent : 25;
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    if (exponent < -25)
      significand = magnitude != 0 ? 1 : 0;
    code = dropBits(significand, drop, round, negative);
  }
  if (satfinite && code > 0x7bff)
    code = 0x7bff;
  return uint16_t(sign | code);
}

uint16_t f32ToBf16(uint32_t bits, Round round, bool relu, bool satfinite) {
  uint32_t magnitude = bits & 0x7fffffff;
  bool negative = bits >> 31;
  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (negative && relu)
    return 0;
  uint32_t code = dropBits(magnitude, 16, round, negative);
  if (satfinite && code > 0x7f7f)
    code = 0x7f7f;
  return uint16_t((negative ? 0x8000u : 0u) | code);
}

uint32_t f16ToF32(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t magnitude = bits & 0x7fff;
  if (magnitude > 0x7c00)
    return 0x7fffffff;
  if (magnitude == 0x7c00)
    return sign | 0x7f800000;
  if (magnitude < 0x0400)
    return sign | asBits(float(magnitude) * 0x1p-24f);
  return sign | ((magnitude << 13) + (112u << 23));
}

uint32_t bf16ToF32(uint16_t bits) { return uint32_t(bits) << 16; }

uint32_t f32ToTf32(uint32_t bits, Round round, bool relu, bool satfinite) {
  uint32_t magnitude = bits & 0x7fffffff;
  bool negative = bits >> 31;
  if (magnitude > 0x7f800000) {
    if (round != Round::Rna)
      return 0x7fffe000;
    // rna has no special case for NaN: it drops the low bits, and satfinite
    // steps one unit down, as an H200 shows.
    uint32_t truncated = bits & ~0x1fffu;
    return satfinite ? truncated - 0x2000 : truncated;
  }
  if (negative && relu)
    return 0;
  uint32_t code = dropBits(magnitude, 13, round, negative) << 13;
  if (satfinite && code >= 0x7f800000)
    code = 0x7f7fe000;
  return (negative ? 0x80000000u : 0u) | code;
}

//===----------------------------------------------------------------------===//
// Whole warps
//===----------------------------------------------------------------------===//

namespace {
/// Distance between the two codes of a packed pair.
constexpr int pairShift(Narrow format) {
  return format == Narrow::E2M1 ? 4 : 8;
}
} // namespace

void f32x2ToNarrowx2(Narrow format, bool relu, const uint32_t *a,
                     const uint32_t *b, uint32_t *d, unsigned count) {
  dispatch(format, [&](auto f) {
    int shift = pairShift(format);
    for (unsigned i = 0; i < count; ++i)
      d[i] = (encode<decltype(f)>(a[i], relu) << shift) |
             encode<decltype(f)>(b[i], relu);
  });
}

void f16x2ToNarrowx2(Narrow format, bool relu, const uint32_t *a, uint32_t *d,
                     unsigned count) {
  dispatch(format, [&](auto f) {
    int shift = pairShift(format);
    for (unsigned i = 0; i < count; ++i) {
      uint32_t high = f16ToF32(uint16_t(a[i] >> 16));
      uint32_t low = f16ToF32(uint16_t(a[i]));
      d[i] = (encode<decltype(f)>(high, relu) << shift) |
             encode<decltype(f)>(low, relu);
    }
  });
}

void narrowx2ToF16x2(Narrow format, bool relu, const uint32_t *a, uint32_t *d,
                     unsigned count) {
  int shift = pairShift(format);
  uint8_t mask = format == Narrow::E2M1 ? 0x0f : 0xff;
  for (unsigned i = 0; i < count; ++i) {
    uint32_t high = narrowToF16(uint8_t(a[i] >> shift) & mask, format, relu);
    uint32_t low = narrowToF16(uint8_t(a[i]) & mask, format, relu);
    d[i] = (high << 16) | low;
  }
}

void f32x2ToUe8m0x2(Round round, bool satfinite, const uint32_t *a,
                    const uint32_t *b, uint32_t *d, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    d[i] = (uint32_t(f32ToUe8m0(a[i], round, satfinite)) << 8) |
           f32ToUe8m0(b[i], round, satfinite);
}

void bf16x2ToUe8m0x2(Round round, bool satfinite, const uint32_t *a,
                     uint32_t *d, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    d[i] =
        (uint32_t(bf16ToUe8m0(uint16_t(a[i] >> 16), round, satfinite)) << 8) |
        bf16ToUe8m0(uint16_t(a[i]), round, satfinite);
}

void ue8m0x2ToBf16x2(const uint32_t *a, uint32_t *d, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    d[i] = (uint32_t(ue8m0ToBf16(uint8_t(a[i] >> 8))) << 16) |
           ue8m0ToBf16(uint8_t(a[i]));
}

void f32x2ToF16x2(Round round, bool relu, bool satfinite, const uint32_t *a,
                  const uint32_t *b, uint32_t *d, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    d[i] = (uint32_t(f32ToF16(a[i], round, relu, satfinite)) << 16) |
           f32ToF16(b[i], round, relu, satfinite);
}

void f32x2ToBf16x2(Round round, bool relu, bool satfinite, const uint32_t *a,
                   const uint32_t *b, uint32_t *d, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    d[i] = (uint32_t(f32ToBf16(a[i], round, relu, satfinite)) << 16) |
           f32ToBf16(b[i], round, relu, satfinite);
}

} // namespace flamia::sim
