//===- Quantize.cpp - One block, and the rotation -------------------------===//
//
// Scale choice, encoding of one block, and the Walsh-Hadamard rotation.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"
#include "lib/Numerics/Clones.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::numerics;

uint8_t numerics::e8m0ScaleByte(float amax, ScaleMode mode, uint8_t zeroByte) {
  uint32_t bits = bitsOf(amax) & 0x7FFFFFFFu;
  if (bits >= 0x7F800000u)
    return e8m0NaN;
  if (bits == 0)
    return zeroByte;
  // Subnormal magnitudes are below 2^-126: every mode clamps them to byte 0.
  int exponent = int(bits >> 23) - 127;
  uint32_t fraction = bits & 0x007FFFFFu;
  if (exponent == -127)
    return 0;
  switch (mode) {
  case ScaleMode::RoundUp: // 448 = 1.75 * 2^8
    exponent += fraction > 0x00600000u;
    break;
  case ScaleMode::Floor:
    break;
  case ScaleMode::Ceil:
    exponent += fraction != 0;
    break;
  case ScaleMode::Even:
    exponent += fraction >= 0x00780000u; // 1.9375 rounds to 2
    break;
  }
  return uint8_t(std::clamp(exponent - 8 + 127, 0, 254));
}

FLAMIA_CLONES float numerics::absMax(const float *values, int64_t count) {
  // Magnitudes of non-negative floats order like their bits, NaN above all.
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, bitsOf(values[i]) & 0x7FFFFFFFu);
  return largest > 0x7F800000u ? floatOf(0x7FC00000u) : floatOf(largest);
}

/// 2^(127 - byte) for bytes 0..254: at most 2^127, at least the subnormal
/// 2^-127.
static float inverseScale(uint8_t byte) {
  return e8m0ToFloat(uint8_t(254 - byte));
}

FLAMIA_CLONES void numerics::encodeE4M3(const float *values, int64_t count,
                                        uint8_t scaleByte, uint8_t *payload) {
  if (scaleByte == e8m0NaN) {
    for (int64_t i = 0; i < count; ++i)
      payload[i] = 0;
    return;
  }
  float factor = inverseScale(scaleByte);
  for (int64_t i = 0; i < count; ++i)
    payload[i] = floatToE4M3(values[i] * factor);
}

uint8_t numerics::quantizeBlockE4M3(const float *values, int64_t count,
                                    uint8_t *payload, ScaleMode mode,
                                    uint8_t zeroByte) {
  uint8_t byte = e8m0ScaleByte(absMax(values, count), mode, zeroByte);
  encodeE4M3(values, count, byte, payload);
  return byte;
}

void numerics::dequantizeBlockE4M3(const uint8_t *payload, int64_t count,
                                   uint8_t scaleByte, float *values) {
  float scale = e8m0ToFloat(scaleByte);
  e4m3ToFloat(payload, values, size_t(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] *= scale;
}

uint8_t numerics::quantizeBlockNvfp4(const float *values, int64_t count,
                                     float globalScale, uint8_t *packedCodes) {
  float amax = absMax(values, count);
  std::fill(packedCodes, packedCodes + count / 2, uint8_t(0));
  if (!(amax <= std::numeric_limits<float>::max()))
    return ue4m3NaN;
  uint8_t byte = floatToUE4M3(amax / e2m1Max / globalScale);
  float scale = ue4m3ToFloat(byte) * globalScale;
  if (scale == 0)
    return byte;
  for (int64_t i = 0; i < count; i += 2)
    packedCodes[i / 2] = uint8_t(floatToE2M1(values[i] / scale) |
                                 floatToE2M1(values[i + 1] / scale) << 4);
  return byte;
}

std::string numerics::checkGlobalScale(float globalScale) {
  if (globalScale >= 0x1p-32f && globalScale <= 0x1p32f)
    return {};
  return "expected a second-level scale from 2^-32 to 2^32, but found " +
         std::to_string(globalScale);
}

void numerics::dequantizeBlockNvfp4(const uint8_t *packedCodes, int64_t count,
                                    uint8_t scaleByte, float globalScale,
                                    float *values) {
  float scale = ue4m3ToFloat(scaleByte) * globalScale;
  e2m1PackedToFloat(packedCodes, values, size_t(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] *= scale;
}

/// In-place Walsh-Hadamard butterflies at distance 1, 2, 4, ...
static void butterflies(float *values, int64_t headDim) {
  for (int64_t distance = 1; distance < headDim; distance *= 2)
    for (int64_t start = 0; start < headDim; start += 2 * distance)
      for (int64_t i = start; i < start + distance; ++i) {
        float a = values[i], b = values[i + distance];
        values[i] = a + b;
        values[i + distance] = a - b;
      }
}

static float rotationFactor(int64_t headDim) {
  return float(1.0 / std::sqrt(double(headDim)));
}

void numerics::rotateToken(float *values, int64_t headDim) {
  for (int64_t c = 0; c < headDim; ++c)
    values[c] *= rotationSign(c);
  butterflies(values, headDim);
  float factor = rotationFactor(headDim);
  for (int64_t c = 0; c < headDim; ++c)
    values[c] *= factor;
}

void numerics::unrotateToken(float *values, int64_t headDim) {
  butterflies(values, headDim);
  float factor = rotationFactor(headDim);
  for (int64_t c = 0; c < headDim; ++c)
    values[c] = values[c] * factor * rotationSign(c);
}
