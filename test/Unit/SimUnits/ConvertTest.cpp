//===- ConvertTest.cpp - cvt against rounding on explicit grids -----------===//
//
// The reference decodes every code of a format from its definition into long
// double and searches the grid: slow, and unlike what the units do.
//
//===----------------------------------------------------------------------===//

#include "flamia/Sim/Units/Convert.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace flamia::sim;

namespace {

float asFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// All non-negative finite values of a format, by code, and the value that
/// would follow the largest one.
struct Grid {
  std::vector<long double> values;
  long double next;

  Grid(int mantissa, int bias, uint32_t maxCode) {
    for (uint32_t code = 0; code <= maxCode + 1; ++code) {
      uint32_t field = code >> mantissa;
      long double fraction = std::ldexp(
          static_cast<long double>(code & ((1u << mantissa) - 1)), -mantissa);
      values.push_back(field == 0
                           ? std::ldexp(fraction, 1 - bias)
                           : std::ldexp(1 + fraction, int(field) - bias));
    }
    next = values.back();
    values.pop_back();
  }

  /// Code of a magnitude; values.size() when it rounds past the largest value.
  uint32_t round(long double x, Round mode, bool negative) const {
    if (std::isinf(x))
      return uint32_t(values.size());
    size_t low = size_t(std::upper_bound(values.begin(), values.end(), x) -
                        values.begin()) -
                 1;
    long double below = values[low];
    if (x >= next)
      return uint32_t(values.size());
    long double above = low + 1 < values.size() ? values[low + 1] : next;
    bool up = false;
    switch (mode) {
    case Round::Rn:
      up = x - below > above - x || (x - below == above - x && low % 2 == 1);
      break;
    case Round::Rna:
      up = x - below >= above - x;
      break;
    case Round::Rz:
      break;
    case Round::Rp:
      up = x != below && !negative;
      break;
    case Round::Rm:
      up = x != below && negative;
      break;
    }
    return uint32_t(low + (up ? 1 : 0));
  }
};

struct NarrowCase {
  Narrow format;
  const char *name;
  int mantissa, bias;
  uint32_t maxCode, signBit, nanCode;
};
const NarrowCase narrowCases[] = {
    {Narrow::E4M3, "e4m3", 3, 7, 0x7e, 0x80, 0x7f},
    {Narrow::E5M2, "e5m2", 2, 15, 0x7b, 0x80, 0x7f},
    {Narrow::E2M3, "e2m3", 3, 1, 0x1f, 0x20, 0x1f},
    {Narrow::E3M2, "e3m2", 2, 3, 0x1f, 0x20, 0x1f},
    {Narrow::E2M1, "e2m1", 1, 1, 0x07, 0x08, 0x07},
};

uint8_t reference(const NarrowCase &c, const Grid &grid, long double x,
                  bool relu) {
  if (std::isnan(x))
    return uint8_t(c.nanCode);
  bool negative = std::signbit(x);
  if (negative && relu)
    return 0;
  uint32_t code =
      std::min(grid.round(std::fabs(x), Round::Rn, negative), c.maxCode);
  return uint8_t(code | (negative ? c.signBit : 0));
}

// The upper 16 bits of an f32 with all interesting lower halves: the formats
// have at most 3 mantissa bits, so the rest only matters as zero or not.
const uint32_t lowHalves[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

TEST(Convert, F32ToNarrow) {
  for (const NarrowCase &c : narrowCases) {
    Grid grid(c.mantissa, c.bias, c.maxCode);
    for (uint32_t high = 0; high < 0x10000; ++high)
      for (uint32_t low : lowHalves) {
        uint32_t bits = (high << 16) | low;
        long double x = asFloat(bits);
        for (bool relu : {false, true})
          ASSERT_EQ(f32ToNarrow(bits, c.format, relu),
                    reference(c, grid, x, relu))
              << c.name << " of 0x" << std::hex << bits;
      }
  }
}

// Neighbours of every rounding boundary, which the sweep above may miss.
TEST(Convert, F32ToNarrowAtEveryBoundary) {
  for (const NarrowCase &c : narrowCases) {
    Grid grid(c.mantissa, c.bias, c.maxCode);
    for (size_t i = 0; i < grid.values.size(); ++i) {
      long double above =
          i + 1 < grid.values.size() ? grid.values[i + 1] : grid.next;
      for (long double point : {grid.values[i], (grid.values[i] + above) / 2})
        for (int step : {-1, 0, 1})
          for (int sign : {1, -1}) {
            float x = float(point);
            if (step != 0)
              x = std::nextafter(x, step > 0 ? INFINITY : -INFINITY);
            x = float(sign) * x;
            uint32_t bits;
            std::memcpy(&bits, &x, 4);
            ASSERT_EQ(f32ToNarrow(bits, c.format), reference(c, grid, x, false))
                << c.name << " of " << x;
          }
    }
  }
}

TEST(Convert, F16ToNarrowExhaustive) {
  Grid half(10, 15, 0x7bff);
  for (const NarrowCase &c : narrowCases) {
    Grid grid(c.mantissa, c.bias, c.maxCode);
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      uint32_t magnitude = bits & 0x7fff;
      long double x = magnitude > 0x7c00    ? NAN
                      : magnitude == 0x7c00 ? INFINITY
                                            : half.values[magnitude];
      if (bits & 0x8000)
        x = -x;
      for (bool relu : {false, true})
        ASSERT_EQ(f16ToNarrow(uint16_t(bits), c.format, relu),
                  reference(c, grid, x, relu))
            << c.name << " of 0x" << std::hex << bits;
    }
  }
}

TEST(Convert, NarrowToF16AndF32) {
  Grid half(10, 15, 0x7bff);
  for (const NarrowCase &c : narrowCases) {
    Grid grid(c.mantissa, c.bias, c.maxCode);
    for (uint32_t code = 0; code < 2 * c.signBit; ++code) {
      uint32_t magnitude = code & (c.signBit - 1);
      bool negative = code & c.signBit;
      uint16_t h = narrowToF16(uint8_t(code), c.format);
      uint32_t f = narrowToF32(uint8_t(code), c.format);
      if (magnitude <= c.maxCode) {
        long double value = grid.values[magnitude];
        EXPECT_EQ(half.values[h & 0x7fff], value) << c.name << code;
        EXPECT_EQ(bool(h & 0x8000), negative);
        EXPECT_EQ(std::fabs(asFloat(f)), value);
        EXPECT_EQ(bool(f >> 31), negative);
      } else if (c.format == Narrow::E5M2 && magnitude == 0x7c) {
        EXPECT_EQ(h, negative ? 0xfc00 : 0x7c00);
        EXPECT_EQ(f, negative ? 0xff800000 : 0x7f800000);
      } else {
        EXPECT_EQ(h, 0x7fff);
        EXPECT_EQ(f, 0x7fffffffu);
      }
      uint16_t relu = narrowToF16(uint8_t(code), c.format, true);
      EXPECT_EQ(relu, h == 0x7fff ? h : negative ? 0 : h);
    }
  }
}

struct WideCase {
  const char *name;
  int mantissa, bias;
  uint32_t maxCode;
};

/// Compares one conversion from f32 with all modifiers on the sweep.
template <typename Convert>
void checkWide(const WideCase &c, uint32_t infinity, uint32_t nan,
               uint32_t signBit, int codeShift, std::vector<Round> rounds,
               Convert convert) {
  Grid grid(c.mantissa, c.bias, c.maxCode);
  for (Round round : rounds)
    for (bool relu : {false, true})
      for (bool satfinite : {false, true})
        for (uint32_t high = 0; high < 0x10000; high += 1)
          for (uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x2000u,
                               0x7fffu, 0x8000u, 0x8001u}) {
            // All exponents with sampled mantissas keep this bounded.
            if (high % 128 > 3 && high % 128 < 125 && high % 7 != 0)
              continue;
            uint32_t bits = (high << 16) | low;
            float x = asFloat(bits);
            uint32_t expected;
            if (std::isnan(x)) {
              expected = nan;
            } else if (std::signbit(x) && relu) {
              expected = 0;
            } else {
              bool negative = std::signbit(x);
              uint32_t code = grid.round(std::fabs(x), round, negative);
              if (code > c.maxCode) {
                bool staysFinite =
                    !std::isinf(x) &&
                    (round == Round::Rz || (round == Round::Rp && negative) ||
                     (round == Round::Rm && !negative));
                code = satfinite || staysFinite ? c.maxCode
                                                : infinity >> codeShift;
              }
              expected = (code << codeShift) | (negative ? signBit : 0);
            }
            ASSERT_EQ(convert(bits, round, relu, satfinite), expected)
                << c.name << " of 0x" << std::hex << bits << " mode "
                << int(round) << relu << satfinite;
          }
}

TEST(Convert, F32ToF16) {
  checkWide({"f16", 10, 15, 0x7bff}, 0x7c00, 0x7fff, 0x8000, 0,
            {Round::Rn, Round::Rz, Round::Rp, Round::Rm},
            [](uint32_t b, Round r, bool relu, bool sat) {
              return uint32_t(f32ToF16(b, r, relu, sat));
            });
}

TEST(Convert, F32ToBf16) {
  checkWide({"bf16", 7, 127, 0x7f7f}, 0x7f80, 0x7fff, 0x8000, 0,
            {Round::Rn, Round::Rz, Round::Rp, Round::Rm},
            [](uint32_t b, Round r, bool relu, bool sat) {
              return uint32_t(f32ToBf16(b, r, relu, sat));
            });
}

TEST(Convert, F32ToTf32) {
  auto convert = [](uint32_t b, Round r, bool relu, bool sat) {
    return f32ToTf32(b, r, relu, sat);
  };
  checkWide({"tf32", 10, 127, 0x3fbff}, 0x7f800000, 0x7fffe000, 0x80000000, 13,
            {Round::Rn, Round::Rz}, convert);
  // rna treats NaN as any other pattern: see below.
  checkWide({"tf32", 10, 127, 0x3fbff}, 0x7f800000, 0, 0x80000000, 13,
            {Round::Rna}, [&](uint32_t b, Round r, bool relu, bool sat) {
              return std::isnan(asFloat(b)) ? 0 : convert(b, r, relu, sat);
            });
  // What an H200 gives for NaN.
  EXPECT_EQ(f32ToTf32(0x7fae1000), 0x7fae0000u);
  EXPECT_EQ(f32ToTf32(0x7fc00fff), 0x7fc00000u);
  EXPECT_EQ(f32ToTf32(0x7f800001), 0x7f800000u);
  EXPECT_EQ(f32ToTf32(0x7f800001, Round::Rna, false, true), 0x7f7fe000u);
  EXPECT_EQ(f32ToTf32(0x7f8e0fff, Round::Rna, false, true), 0x7f8de000u);
}

TEST(Convert, HalfToF32) {
  Grid half(10, 15, 0x7bff);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    uint32_t magnitude = bits & 0x7fff;
    uint32_t f = f16ToF32(uint16_t(bits));
    if (magnitude > 0x7c00) {
      EXPECT_EQ(f, 0x7fffffffu);
      continue;
    }
    float expected =
        magnitude == 0x7c00 ? INFINITY : float(half.values[magnitude]);
    EXPECT_EQ(asFloat(f & 0x7fffffff), expected);
    EXPECT_EQ(f >> 31, bits >> 15);
    EXPECT_EQ(bf16ToF32(uint16_t(bits)), bits << 16);
  }
}

TEST(Convert, Ue8m0) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    // All exponents; of the mantissa only zero or not matters.
    if (high % 128 > 2 && high % 128 < 126 && high % 128 != 64)
      continue;
    for (uint32_t low : lowHalves) {
      uint32_t bits = (high << 16) | low;
      long double x = std::fabs(static_cast<long double>(asFloat(bits)));
      for (Round round : {Round::Rz, Round::Rp})
        for (bool satfinite : {false, true}) {
          uint32_t expected;
          if (std::isnan(x)) {
            expected = 0xff;
          } else {
            // Smallest code at or above, or largest at or below, 2^(c-127).
            int code = 0;
            if (round == Round::Rp)
              while (code < 255 && std::ldexp(1.0L, code - 127) < x)
                ++code;
            else
              while (code < 255 && std::ldexp(1.0L, code + 1 - 127) <= x)
                ++code;
            expected = code == 255 && satfinite ? 254 : uint32_t(code);
          }
          ASSERT_EQ(f32ToUe8m0(bits, round, satfinite), expected)
              << std::hex << bits << " " << int(round) << satfinite;
          if (low == 0)
            ASSERT_EQ(bf16ToUe8m0(uint16_t(high), round, satfinite), expected);
        }
    }
  }
  for (uint32_t code = 0; code < 255; ++code)
    EXPECT_EQ(asFloat(uint32_t(ue8m0ToBf16(uint8_t(code))) << 16),
              std::ldexp(1.0f, int(code) - 127));
  EXPECT_EQ(ue8m0ToBf16(255), 0x7fff);
}

// The first source goes to the upper half.
TEST(Convert, PackedOrder) {
  const uint32_t a[2] = {0x3f800000, 0xc0000000}; // 1, -2
  const uint32_t b[2] = {0x40800000, 0x7fc00000}; // 4, NaN
  uint32_t d[2];
  f32x2ToNarrowx2(Narrow::E4M3, false, a, b, d, 2);
  EXPECT_EQ(d[0], 0x3848u);
  EXPECT_EQ(d[1], 0xc07fu);
  uint32_t h[2];
  narrowx2ToF16x2(Narrow::E4M3, false, d, h, 2);
  EXPECT_EQ(h[0], 0x3c004400u);
  EXPECT_EQ(h[1], 0xc0007fffu);
  f16x2ToNarrowx2(Narrow::E4M3, false, h, d, 2);
  EXPECT_EQ(d[0], 0x3848u);
  EXPECT_EQ(d[1], 0xc07fu);
  f32x2ToNarrowx2(Narrow::E2M1, true, a, b, d, 2);
  EXPECT_EQ(d[0], 0x26u);
  EXPECT_EQ(d[1], 0x07u);
  narrowx2ToF16x2(Narrow::E2M1, false, d, h, 2);
  EXPECT_EQ(h[0], 0x3c004400u);
  f32x2ToUe8m0x2(Round::Rp, true, a, b, d, 2);
  EXPECT_EQ(d[0], 0x7f81u);
  EXPECT_EQ(d[1], 0x80ffu);
  ue8m0x2ToBf16x2(d, h, 2);
  EXPECT_EQ(h[0], 0x3f804080u);
  bf16x2ToUe8m0x2(Round::Rz, true, h, d, 2);
  EXPECT_EQ(d[0], 0x7f81u);
  f32x2ToF16x2(Round::Rn, false, false, a, b, d, 2);
  EXPECT_EQ(d[1], 0xc0007fffu);
  f32x2ToBf16x2(Round::Rn, false, false, a, b, d, 2);
  EXPECT_EQ(d[0], 0x3f804080u);
}

// QNT-6: nothing finite becomes NaN.
TEST(ConvertPublicCases, QNT6Saturation) {
  for (float x : {449.0f, 464.0f, 465.0f, 479.9f, 480.0f, 508.0f, 1e30f}) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    EXPECT_EQ(f32ToNarrow(bits, Narrow::E4M3), 0x7e) << x;
    EXPECT_EQ(f32ToNarrow(bits | 0x80000000, Narrow::E4M3), 0xfe) << x;
  }
}

// QNT-8: subnormal codes and all e2m1 codes.
TEST(ConvertPublicCases, QNT8Decode) {
  auto e4m3 = [](uint8_t code) {
    return asFloat(narrowToF32(code, Narrow::E4M3));
  };
  EXPECT_EQ(e4m3(0x01), 0.001953125f);
  EXPECT_EQ(e4m3(0x07), 0.013671875f);
  EXPECT_EQ(e4m3(0x08), 0.015625f);
  EXPECT_EQ(e4m3(0x38), 1.0f);
  EXPECT_EQ(e4m3(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(e4m3(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3(0xff)));
  EXPECT_EQ(narrowToF32(0x80, Narrow::E4M3), 0x80000000u);
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (unsigned code = 0; code < 16; ++code) {
    float x = asFloat(narrowToF32(uint8_t(code), Narrow::E2M1));
    EXPECT_EQ(std::fabs(x), values[code % 8]);
    EXPECT_EQ(std::signbit(x), code >= 8);
  }
}

} // namespace
