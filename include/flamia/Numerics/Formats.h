//===- Formats.h - Small floating-point formats -----------------*- C++ -*-===//
//
// Conversions between float and the element and scale formats of flamia:
//
//   E4M3   1-4-3, bias 7, finite only: largest 448 = 0x7E, NaN 0x7F/0xFF
//   E5M2   1-5-2, bias 15, with infinities: largest 57344 = 0x7B
//   E2M1   1-2-1, bias 1: 0, 0.5, 1, 1.5, 2, 3, 4, 6; no NaN, no infinity
//   E8M0   an unsigned exponent: byte b = 2^(b-127), 255 = NaN; no zero
//   UE4M3  E4M3 without a sign, used as a scale: 0..448, NaN 0x7F
//   BF16   1-8-7, F16 1-5-10: as in IEEE 754
//
// All conversions from float round to nearest, ties to even, and never flush
// subnormals. Two forms exist: the saturating one (what the quantizers and
// PTX `cvt.rn.satfinite` do: finite values and infinities beyond the range
// become the largest finite value) and the `Ieee` one (overflow becomes
// infinity, or NaN in a format without infinities). A NaN becomes the
// canonical positive NaN of the format; in E2M1, which has none, it becomes
// the largest value (as in PTX).
//
// The scalar forms are inline and free of branches on the common path; the
// array forms are compiled for several instruction sets.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_NUMERICS_FORMATS_H
#define FLAMIA_NUMERICS_FORMATS_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flamia::numerics {

/// The bits of \p value.
inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The float whose bits are \p bits.
inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline constexpr float e4m3Max = 448.0f;
inline constexpr float e5m2Max = 57344.0f;
inline constexpr float e2m1Max = 6.0f;
inline constexpr uint8_t e4m3NaN = 0x7F;
inline constexpr uint8_t e8m0NaN = 0xFF;
inline constexpr uint8_t ue4m3NaN = 0x7F;
/// The E8M0 byte of scale 1, also the padding byte of every E8M0 array.
inline constexpr uint8_t e8m0One = 127;

/// Byte to float, exact. E4M3 NaN keeps its sign bit.
float e4m3ToFloat(uint8_t byte);
float e5m2ToFloat(uint8_t byte);
/// The low four bits are the code; the others are ignored.
float e2m1ToFloat(uint8_t code);
/// 2^(byte-127); byte 0 is the subnormal float 2^-127, byte 255 a NaN.
inline float e8m0ToFloat(uint8_t byte) {
  if (byte == e8m0NaN)
    return floatOf(0x7FC00000u);
  return floatOf(byte == 0 ? 0x00400000u : uint32_t(byte) << 23);
}
/// The sign bit is ignored.
inline float ue4m3ToFloat(uint8_t byte) { return e4m3ToFloat(byte & 0x7F); }
inline float bf16ToFloat(uint16_t bits) {
  return floatOf(uint32_t(bits) << 16);
}
float f16ToFloat(uint16_t bits);

namespace detail {
/// Rounds the magnitude of \p value to a format with \p mantissaBits bits and
/// exponent bias \p bias; the result may exceed the format's largest code.
/// \p bits must be that of a non-negative finite float small enough for the
/// addition of the rounding constant not to overflow.
template <int mantissaBits, int bias>
inline uint32_t roundMagnitude(uint32_t bits) {
  constexpr int shift = 23 - mantissaBits;
  // Normal results: round the fraction and rebias the exponent.
  uint32_t normal = bits + ((1u << (shift - 1)) - 1) + ((bits >> shift) & 1);
  normal = (normal >> shift) - (uint32_t(127 - bias) << mantissaBits);
  // Subnormal results: adding 2^(24 - mantissaBits - bias) makes the float
  // adder round at the right place, to nearest even.
  constexpr uint32_t magicBits = uint32_t(127 + 24 - mantissaBits - bias) << 23;
  uint32_t subnormal = bitsOf(floatOf(bits) + floatOf(magicBits)) - magicBits;
  constexpr uint32_t smallestNormal = uint32_t(127 + 1 - bias) << 23;
  return bits < smallestNormal ? subnormal : normal;
}
} // namespace detail

/// Float to byte, nearest even, saturating at 448; NaN becomes 0x7F.
inline uint8_t floatToE4M3(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t clamped = magnitude < 0x43E00000u ? magnitude : 0x43E00000u;
  uint32_t code = detail::roundMagnitude<3, 7>(clamped) | ((bits >> 24) & 0x80);
  return uint8_t(magnitude > 0x7F800000u ? e4m3NaN : code);
}
/// As above, but values that round beyond 448 (from 464 on) become NaN with
/// the value's sign, 0x7F or 0xFF.
uint8_t floatToE4M3Ieee(float value);

/// Float to byte, nearest even, saturating at 57344; NaN becomes 0x7F.
inline uint8_t floatToE5M2(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t clamped = magnitude < 0x47600000u ? magnitude : 0x47600000u;
  uint32_t code =
      detail::roundMagnitude<2, 15>(clamped) | ((bits >> 24) & 0x80);
  return uint8_t(magnitude > 0x7F800000u ? 0x7F : code);
}
/// As above, but values that round beyond 57344 become infinity (0x7C, 0xFC).
uint8_t floatToE5M2Ieee(float value);

/// Float to a 4-bit code, nearest even, saturating at 6; NaN becomes 0x7 (6).
inline uint8_t floatToE2M1(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t clamped = magnitude < 0x40C00000u ? magnitude : 0x40C00000u;
  uint32_t code = detail::roundMagnitude<1, 1>(clamped) | ((bits >> 28) & 0x8);
  return uint8_t(magnitude > 0x7F800000u ? 0x7 : code);
}

/// Float to a scale byte, nearest even, saturating at 448; a negative value
/// and -0 become 0, NaN becomes 0x7F.
inline uint8_t floatToUE4M3(float value) {
  uint8_t byte = floatToE4M3(value);
  return byte & 0x80 ? 0 : byte;
}

/// How a float that is not a power of two becomes an E8M0 byte.
enum class E8M0Rounding {
  Up,     ///< toward +infinity (PTX cvt.rp.satfinite.ue8m0x2)
  Down,   ///< toward zero (PTX cvt.rz.satfinite.ue8m0x2)
  Nearest ///< to the nearest value, ties away from zero (LLVM's APFloat)
};

/// Float to E8M0. Values outside [2^-127, 2^127] saturate to bytes 0 and 254
/// (so does zero, to 0); a NaN becomes 255. The sign is ignored.
uint8_t floatToE8M0(float value, E8M0Rounding rounding);

/// Float to BF16 bits, nearest even; overflow becomes infinity, NaN 0x7FFF.
inline uint16_t floatToBF16(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
  return uint16_t((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFu : rounded);
}
/// Float to BF16 bits; overflow and infinity become the largest finite value.
uint16_t floatToBF16Sat(float value);
/// \p value rounded to BF16, as a float.
inline float roundToBF16(float value) {
  return bf16ToFloat(floatToBF16(value));
}

/// Float to F16 bits, nearest even; overflow becomes infinity, NaN 0x7FFF.
uint16_t floatToF16(float value);
/// Float to F16 bits; overflow and infinity become 65504 with the sign.
uint16_t floatToF16Sat(float value);

/// Array forms of the saturating conversions (BF16 and F16: the IEEE ones).
void floatToE4M3(const float *from, uint8_t *to, size_t count);
void floatToE5M2(const float *from, uint8_t *to, size_t count);
void floatToBF16(const float *from, uint16_t *to, size_t count);
void floatToF16(const float *from, uint16_t *to, size_t count);
/// Two codes a byte, the element of even index in the low half; \p count is
/// even.
void floatToE2M1Packed(const float *from, uint8_t *to, size_t count);
/// Array forms of the conversions to float.
void e4m3ToFloat(const uint8_t *from, float *to, size_t count);
void e5m2ToFloat(const uint8_t *from, float *to, size_t count);
void e2m1PackedToFloat(const uint8_t *from, float *to, size_t count);
void bf16ToFloat(const uint16_t *from, float *to, size_t count);
void f16ToFloat(const uint16_t *from, float *to, size_t count);

} // namespace flamia::numerics

#endif // FLAMIA_NUMERICS_FORMATS_H
