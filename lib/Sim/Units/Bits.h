//===- Bits.h - Floats as bit patterns --------------------------*- C++ -*-===//

#ifndef FLAMIA_LIB_SIM_UNITS_BITS_H
#define FLAMIA_LIB_SIM_UNITS_BITS_H

#include <cstdint>
#include <cstring>

namespace flamia::sim {

inline float asFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t asBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_BITS_H
