//===- Convert.h - Bit exact cvt of the narrow formats ----------*- C++ -*-===//
//
// The PTX conversions between f32, f16, bf16, tf32 and the 4-, 6- and 8-bit
// formats, as functions on bit patterns (facts/tcgen05.md section 10.1). They
// share no code with lib/Numerics on purpose: each checks the other.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SIM_UNITS_CONVERT_H
#define FLAMIA_SIM_UNITS_CONVERT_H

#include <cstdint>

namespace flamia::sim {

/// Element formats of at most 8 bits. Codes sit in the low bits of a byte.
enum class Narrow { E4M3, E5M2, E2M3, E3M2, E2M1 };

/// Rounding of a cvt: nearest even, nearest ties away (tf32 rna), toward zero,
/// up, down.
enum class Round { Rn, Rna, Rz, Rp, Rm };

//===----------------------------------------------------------------------===//
// One value
//===----------------------------------------------------------------------===//

/// cvt.rn.satfinite{.relu}.<format>.f32 of the f32 with these bits. NaN gives
/// 0x7f (e4m3, e5m2) or the positive maximum (formats without NaN).
uint8_t f32ToNarrow(uint32_t bits, Narrow format, bool relu = false);

/// cvt.rn.satfinite{.relu}.<format>.f16.
uint8_t f16ToNarrow(uint16_t bits, Narrow format, bool relu = false);

/// cvt.rn{.relu}.f16.<format>, always exact. NaN gives 0x7fff.
uint16_t narrowToF16(uint8_t code, Narrow format, bool relu = false);

/// The value of a code as f32 bits, exact; NaN gives 0x7fffffff.
uint32_t narrowToF32(uint8_t code, Narrow format);

/// cvt.{rz,rp}{.satfinite}.ue8m0.f32; \p round is Rz or Rp.
uint8_t f32ToUe8m0(uint32_t bits, Round round, bool satfinite);

/// cvt.{rz,rp}{.satfinite}.ue8m0.bf16; \p round is Rz or Rp.
uint8_t bf16ToUe8m0(uint16_t bits, Round round, bool satfinite);

/// cvt.rn.bf16.ue8m0.
uint16_t ue8m0ToBf16(uint8_t code);

/// cvt{.rn,.rz,.rp,.rm}{.relu}{.satfinite}.f16.f32. NaN gives 0x7fff.
uint16_t f32ToF16(uint32_t bits, Round round = Round::Rn, bool relu = false,
                  bool satfinite = false);

/// cvt{.rn,.rz,.rp,.rm}{.relu}{.satfinite}.bf16.f32. NaN gives 0x7fff.
uint16_t f32ToBf16(uint32_t bits, Round round = Round::Rn, bool relu = false,
                   bool satfinite = false);

/// cvt.f32.f16: exact. NaN gives 0x7fffffff.
uint32_t f16ToF32(uint16_t bits);

/// cvt.f32.bf16: exact, a shift (a NaN keeps its payload).
uint32_t bf16ToF32(uint16_t bits);

/// cvt.{rna,rn,rz}{.relu}{.satfinite}.tf32.f32: f32 bits whose low 13 mantissa
/// bits are zero. NaN gives 0x7fffe000 (rn, rz); rna only drops the low bits,
/// so that a NaN may become Inf, or a finite value with satfinite (seen on an
/// H200).
uint32_t f32ToTf32(uint32_t bits, Round round = Round::Rna, bool relu = false,
                   bool satfinite = false);

/// cvt.rs{.relu}{.satfinite}.f16.f32 with 13 random bits, and .bf16.f32 with
/// 16: the magnitude is rounded up when the part that is cut off, as a fraction
/// of a unit in the last place, and random / 2^bits add up to 1.
uint16_t f32ToF16Stochastic(uint32_t bits, uint32_t random, bool relu,
                            bool satfinite);
uint16_t f32ToBf16Stochastic(uint32_t bits, uint32_t random, bool relu,
                             bool satfinite);

/// cvt.rs{.relu}.satfinite.<format>.f32 with 16 random bits.
uint8_t f32ToNarrowStochastic(uint32_t bits, Narrow format, uint32_t random,
                              bool relu);

//===----------------------------------------------------------------------===//
// Whole warps: `count` independent packed conversions
//===----------------------------------------------------------------------===//

/// cvt...<format>x2.f32 d, a, b: a goes to the upper half. For the 8- and 6-bit
/// formats d is 16 bits; for e2m1x2 it is 8 bits (a in the upper nibble).
void f32x2ToNarrowx2(Narrow format, bool relu, const uint32_t *a,
                     const uint32_t *b, uint32_t *d, unsigned count);

/// cvt...<format>x2.f16x2 d, a.
void f16x2ToNarrowx2(Narrow format, bool relu, const uint32_t *a, uint32_t *d,
                     unsigned count);

/// cvt...f16x2.<format>x2 d, a. Only the low 16 (e2m1x2: 8) bits of a count.
void narrowx2ToF16x2(Narrow format, bool relu, const uint32_t *a, uint32_t *d,
                     unsigned count);

/// cvt...ue8m0x2.f32 d, a, b.
void f32x2ToUe8m0x2(Round round, bool satfinite, const uint32_t *a,
                    const uint32_t *b, uint32_t *d, unsigned count);

/// cvt...ue8m0x2.bf16x2 d, a.
void bf16x2ToUe8m0x2(Round round, bool satfinite, const uint32_t *a,
                     uint32_t *d, unsigned count);

/// cvt.rn.bf16x2.ue8m0x2 d, a.
void ue8m0x2ToBf16x2(const uint32_t *a, uint32_t *d, unsigned count);

/// cvt...f16x2.f32 and bf16x2.f32 d, a, b: a goes to the upper half.
void f32x2ToF16x2(Round round, bool relu, bool satfinite, const uint32_t *a,
                  const uint32_t *b, uint32_t *d, unsigned count);
void f32x2ToBf16x2(Round round, bool relu, bool satfinite, const uint32_t *a,
                   const uint32_t *b, uint32_t *d, unsigned count);

} // namespace flamia::sim

#endif // FLAMIA_SIM_UNITS_CONVERT_H
