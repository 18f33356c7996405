//===- Formats.cpp - Small floating-point formats -------------------------===//
//
// The conversions of Formats.h that are not inline.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Formats.h"
#include "lib/Numerics/Clones.h"

#include <array>

using namespace flamia;
using namespace flamia::numerics;

namespace {

/// Value of a code with the given split; the caller handles NaN and infinity.
constexpr float decode(unsigned exponent, unsigned mantissa, int mantissaBits,
                       int bias) {
  float value = float(mantissa);
  int shift = -mantissaBits + 1 - bias;
  if (exponent != 0) {
    value += float(1u << mantissaBits);
    shift += int(exponent) - 1;
  }
  for (; shift > 0; --shift)
    value *= 2.0f;
  for (; shift < 0; ++shift)
    value *= 0.5f;
  return value;
}

constexpr std::array<float, 256> makeE4M3Table() {
  std::array<float, 256> table{};
  for (unsigned i = 0; i < 256; ++i) {
    float value = decode((i >> 3) & 15, i & 7, 3, 7);
    table[i] = i & 0x80 ? -value : value;
  }
  return table;
}

constexpr std::array<float, 256> makeE5M2Table() {
  std::array<float, 256> table{};
  for (unsigned i = 0; i < 256; ++i) {
    float value = decode((i >> 2) & 31, i & 3, 2, 15);
    table[i] = i & 0x80 ? -value : value;
  }
  return table;
}

constexpr std::array<float, 16> makeE2M1Table() {
  std::array<float, 16> table{};
  for (unsigned i = 0; i < 16; ++i) {
    float value = decode((i >> 1) & 3, i & 1, 1, 1);
    table[i] = i & 8 ? -value : value;
  }
  return table;
}

constexpr std::array<float, 256> e4m3Table = makeE4M3Table();
constexpr std::array<float, 256> e5m2Table = makeE5M2Table();
constexpr std::array<float, 16> e2m1Table = makeE2M1Table();

/// float to F16 bits with the magnitude limited to \p limitBits first.
inline uint16_t encodeF16(float value, uint32_t limitBits) {
  uint32_t bits = bitsOf(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t clamped = magnitude < limitBits ? magnitude : limitBits;
  uint32_t code =
      detail::roundMagnitude<10, 15>(clamped) | ((bits >> 16) & 0x8000);
  return uint16_t(magnitude > 0x7F800000u ? 0x7FFFu : code);
}

} // namespace

float numerics::e4m3ToFloat(uint8_t byte) {
  if ((byte & 0x7F) == e4m3NaN)
    return floatOf(0x7FC00000u | uint32_t(byte & 0x80) << 24);
  return e4m3Table[byte];
}

float numerics::e5m2ToFloat(uint8_t byte) {
  uint32_t sign = uint32_t(byte & 0x80) << 24;
  uint32_t magnitude = byte & 0x7F;
  if (magnitude > 0x7C)
    return floatOf(sign | 0x7FC00000u | (magnitude & 3) << 21);
  if (magnitude == 0x7C)
    return floatOf(sign | 0x7F800000u);
  return e5m2Table[byte];
}

float numerics::e2m1ToFloat(uint8_t code) { return e2m1Table[code & 15]; }

float numerics::f16ToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t magnitude = bits & 0x7FFF;
  if (magnitude >= 0x7C00) {
    uint32_t quiet = magnitude > 0x7C00 ? 0x00400000u : 0;
    return floatOf(sign | 0x7F800000u | quiet | (magnitude & 0x3FF) << 13);
  }
  // The float with exponent 2^-112 times 2^112 puts subnormals right too.
  float value = floatOf(magnitude << 13) * floatOf(0x77800000u);
  return floatOf(sign | bitsOf(value));
}

uint8_t numerics::floatToE4M3Ieee(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return e4m3NaN;
  // 480 is the first value whose code would be that of NaN.
  uint32_t clamped = magnitude < 0x43F00000u ? magnitude : 0x43F00000u;
  return uint8_t(detail::roundMagnitude<3, 7>(clamped) | ((bits >> 24) & 0x80));
}

uint8_t numerics::floatToE5M2Ieee(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return 0x7F;
  // 65536 is the first value whose code would be that of infinity.
  uint32_t clamped = magnitude < 0x47800000u ? magnitude : 0x47800000u;
  return uint8_t(detail::roundMagnitude<2, 15>(clamped) |
                 ((bits >> 24) & 0x80));
}

uint8_t numerics::floatToE8M0(float value, E8M0Rounding rounding) {
  uint32_t magnitude = bitsOf(value) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return e8m0NaN;
  // 2^-127 is the subnormal 0x00400000: below it everything is byte 0, and a
  // subnormal above it lies between bytes 0 and 1.
  uint32_t exponent = magnitude >> 23;
  uint32_t fraction = magnitude & 0x007FFFFFu;
  uint32_t half = 0x00400000u;
  if (exponent == 0) {
    if (fraction <= 0x00400000u)
      return 0;
    fraction = (fraction - 0x00400000u) << 1;
  }
  bool up = (rounding == E8M0Rounding::Up && fraction != 0) ||
            (rounding == E8M0Rounding::Nearest && fraction >= half);
  uint32_t byte = exponent + (up ? 1 : 0);
  return uint8_t(byte < 254 ? byte : 254);
}

uint16_t numerics::floatToBF16Sat(float value) {
  uint16_t bits = floatToBF16(value);
  return (bits & 0x7FFF) == 0x7F80 ? uint16_t(bits - 1) : bits;
}

uint16_t numerics::floatToF16(float value) {
  return encodeF16(value, 0x47800000u);
}

uint16_t numerics::floatToF16Sat(float value) {
  return encodeF16(value, 0x477FE000u);
}

FLAMIA_CLONES void numerics::floatToE4M3(const float *from, uint8_t *to,
                                         size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = floatToE4M3(from[i]);
}

FLAMIA_CLONES void numerics::floatToE5M2(const float *from, uint8_t *to,
                                         size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = floatToE5M2(from[i]);
}

FLAMIA_CLONES void numerics::floatToBF16(const float *from, uint16_t *to,
                                         size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = floatToBF16(from[i]);
}

FLAMIA_CLONES void numerics::floatToF16(const float *from, uint16_t *to,
                                        size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = encodeF16(from[i], 0x47800000u);
}

FLAMIA_CLONES void numerics::floatToE2M1Packed(const float *from, uint8_t *to,
                                               size_t count) {
  for (size_t i = 0; i < count / 2; ++i)
    to[i] =
        uint8_t(floatToE2M1(from[2 * i]) | floatToE2M1(from[2 * i + 1]) << 4);
}

FLAMIA_CLONES void numerics::e4m3ToFloat(const uint8_t *from, float *to,
                                         size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t byte = from[i];
    uint32_t sign = (byte & 0x80) << 24;
    uint32_t magnitude = byte & 0x7F;
    // Placed as a float with bias 127, the code lacks a factor 2^(127-7).
    float value = floatOf(magnitude << 20) * floatOf(0x7B800000u);
    uint32_t bits = magnitude == e4m3NaN ? 0x7FC00000u : bitsOf(value);
    to[i] = floatOf(sign | bits);
  }
}

FLAMIA_CLONES void numerics::e5m2ToFloat(const uint8_t *from, float *to,
                                         size_t count) {
  // E5M2 is the upper half of F16.
  for (size_t i = 0; i < count; ++i) {
    uint32_t sign = uint32_t(from[i] & 0x80) << 24;
    uint32_t magnitude = from[i] & 0x7F;
    float value = floatOf(magnitude << 21) * floatOf(0x77800000u);
    uint32_t special = 0x7F800000u | (magnitude > 0x7C ? 0x00400000u : 0) |
                       (magnitude & 3) << 21;
    to[i] = floatOf(sign | (magnitude >= 0x7C ? special : bitsOf(value)));
  }
}

void numerics::e2m1PackedToFloat(const uint8_t *from, float *to, size_t count) {
  for (size_t i = 0; i < count / 2; ++i) {
    to[2 * i] = e2m1Table[from[i] & 15];
    to[2 * i + 1] = e2m1Table[from[i] >> 4];
  }
}

FLAMIA_CLONES void numerics::bf16ToFloat(const uint16_t *from, float *to,
                                         size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = bf16ToFloat(from[i]);
}

FLAMIA_CLONES void numerics::f16ToFloat(const uint16_t *from, float *to,
                                        size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t sign = uint32_t(from[i] & 0x8000) << 16;
    uint32_t magnitude = from[i] & 0x7FFF;
    float value = floatOf(magnitude << 13) * floatOf(0x77800000u);
    uint32_t special = 0x7F800000u | (magnitude > 0x7C00 ? 0x00400000u : 0) |
                       (magnitude & 0x3FF) << 13;
    to[i] = floatOf(sign | (magnitude >= 0x7C00 ? special : bitsOf(value)));
  }
}
