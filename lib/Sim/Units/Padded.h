//===- Padded.h - Padded 4- and 6-bit elements in shared memory -*- C++ -*-===//
//
// In the 8-bit kinds 16 elements of 4 or 6 bits take a 16-byte unit of shared
// memory, packed from its beginning; tensor memory holds one element a byte
// (facts/tcgen05.md section 3.5).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_PADDED_H
#define FLAMIA_LIB_SIM_UNITS_PADDED_H

#include <cstdint>

namespace flamia::sim {

/// Element i of a unit of 16 packed 4-bit elements.
inline uint8_t padded4(const uint8_t *unit, unsigned i) {
  return (unit[i / 2] >> (4 * (i % 2))) & 0x0f;
}

/// Element i of a unit of 16 packed 6-bit elements.
inline uint8_t padded6(const uint8_t *unit, unsigned i) {
  unsigned bit = 6 * i;
  uint32_t pair = unit[bit / 8];
  if (bit % 8 > 2)
    pair |= uint32_t(unit[bit / 8 + 1]) << 8;
  return (pair >> (bit % 8)) & 0x3f;
}

/// 16 elements into their tensor memory containers: value in bits 2-5.
inline void expandPadded4(const uint8_t *unit, uint8_t *bytes) {
  for (unsigned i = 0; i < 16; ++i)
    bytes[i] = uint8_t(padded4(unit, i) << 2);
}

/// Value in bits 1-6.
inline void expandPadded6(const uint8_t *unit, uint8_t *bytes) {
  for (unsigned i = 0; i < 16; ++i)
    bytes[i] = uint8_t(padded6(unit, i) << 1);
}

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_PADDED_H
