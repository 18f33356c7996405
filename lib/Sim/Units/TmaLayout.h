//===- TmaLayout.h - Sizes of a tensor map's box ----------------*- C++ -*-===//
//
// What the map's rules and the copies have in common.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_TMALAYOUT_H
#define FLAMIA_LIB_SIM_UNITS_TMALAYOUT_H

#include "flamia/Sim/Units/TensorMap.h"

namespace flamia::sim {

/// Bits of an element in global and in shared memory.
struct TmaElement {
  unsigned globalBits;
  unsigned sharedBits;
};
TmaElement tmaElement(TmaType type);

/// Bytes of a swizzle's row, 0 without swizzle.
unsigned swizzleSpan(TmaSwizzle swizzle);

/// Elements that the box really has along dimension \p d.
unsigned boxCount(const TensorMap &map, unsigned d);

/// Bytes of a box row in shared memory without padding.
inline unsigned rowBytes(const TensorMap &map) {
  return map.box[0] * tmaElement(map.type).sharedBits / 8;
}

/// Distance between box rows in shared memory: the swizzle span even when the
/// row is shorter.
inline unsigned rowPitch(const TensorMap &map) {
  unsigned span = swizzleSpan(map.swizzle);
  return span ? span : rowBytes(map);
}

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_TMALAYOUT_H
