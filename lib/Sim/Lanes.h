//===- Lanes.h - Lane-wise execution helpers --------------------*- C++ -*-===//
//
// Instruction functions compute all 32 lanes into a local array, which the
// compiler vectorizes, and then copy the active ones. So the operation must be
// defined for any operand bits, garbage of inactive lanes included.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_LANES_H
#define FLAMIA_LIB_SIM_LANES_H

#include "Machine.h"

#include <cstring>

namespace flamia {
namespace sim {

template <typename T, typename F>
inline Flow mapLanes(Exec &x, Src dst, uint32_t mask, F f) {
  alignas(64) T out[warpLanes];
  for (unsigned l = 0; l < warpLanes; ++l)
    out[l] = f(l);
  T *d = x.lanes<T>(dst);
  if (mask == allLanes) {
    std::memcpy(d, out, sizeof(out));
    return Flow::Next;
  }
  for (unsigned l = 0; l < warpLanes; ++l)
    d[l] = mask >> l & 1 ? out[l] : d[l];
  return Flow::Next;
}

/// Lanes whose predicate function is true.
template <typename F>
inline uint32_t lanesWhere(F f) {
  uint32_t m = 0;
  for (unsigned l = 0; l < warpLanes; ++l)
    m |= uint32_t(bool(f(l))) << l;
  return m;
}

template <typename T, typename Op>
Flow unary(Exec &x, const Instr &i, uint32_t mask) {
  const T *a = x.lanes<T>(i.src[0]);
  return mapLanes<T>(x, i.dst[0], mask,
                     [&](unsigned l) { return Op::template run<T>(a[l]); });
}
template <typename T, typename Op>
Flow binary(Exec &x, const Instr &i, uint32_t mask) {
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]);
  return mapLanes<T>(x, i.dst[0], mask, [&](unsigned l) {
    return Op::template run<T>(a[l], b[l]);
  });
}
template <typename T, typename Op>
Flow ternary(Exec &x, const Instr &i, uint32_t mask) {
  const T *a = x.lanes<T>(i.src[0]), *b = x.lanes<T>(i.src[1]),
          *c = x.lanes<T>(i.src[2]);
  return mapLanes<T>(x, i.dst[0], mask, [&](unsigned l) {
    return Op::template run<T>(a[l], b[l], c[l]);
  });
}
/// Two 16-bit values in 32 bits.
template <typename T, typename Op>
Flow binaryPair(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]);
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned l) {
    uint16_t lo = uint16_t(Op::template run<T>(T(a[l]), T(b[l])));
    uint16_t hi = uint16_t(Op::template run<T>(T(a[l] >> 16), T(b[l] >> 16)));
    return uint32_t(hi) << 16 | lo;
  });
}

inline float bitsToFloat(uint32_t b) {
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}
inline uint32_t floatToBits(float f) {
  uint32_t b;
  std::memcpy(&b, &f, 4);
  return b;
}
inline double bitsToDouble(uint64_t b) {
  double d;
  std::memcpy(&d, &b, 8);
  return d;
}
inline uint64_t doubleToBits(double d) {
  uint64_t b;
  std::memcpy(&b, &d, 8);
  return b;
}
/// Arithmetic results have one NaN (facts/tcgen05.md 10.2).
inline float canonical(float f) { return f != f ? bitsToFloat(0x7FFFFFFF) : f; }
/// f64 arithmetic hands on the last NaN among its operands, made quiet; one of
/// its own is 0xfff8... (seen on an H200).
inline double keepNaN(double r, double a, double b = 0, double c = 0) {
  if (r == r)
    return r;
  for (double v : {c, b, a})
    if (v != v)
      return bitsToDouble(doubleToBits(v) | 1ull << 51);
  return bitsToDouble(0xFFF8000000000000ull);
}
constexpr uint32_t smallestNormal = 0x00800000;
/// Subnormals become zero of the same sign (.ftz).
inline float flush(float f) {
  uint32_t b = floatToBits(f);
  return (b & 0x7F800000) == 0 ? bitsToFloat(b & 0x80000000) : f;
}
/// Clamps to [0, 1]; NaN becomes 0 (.sat).
inline float saturate(float f) { return f > 0 ? (f < 1 ? f : 1.0f) : 0.0f; }

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_LANES_H
