//===- MmaKernel.cpp - Vector kernels of tcgen05.mma ----------------------===//
//
// Section 11 of facts/tcgen05.md on vectors of rows. Why this is exact:
//
// * A term's value p = a*b is exact in f32 (at most 22 significant bits; the
//   operands lie within 2^+-48, or the fp64 variant runs). p * 2^(F-E) is exact
//   as well unless it underflows, and then it is below 1 and truncates to 0
//   either way. The float-to-int conversion truncates toward zero, so q_i is
//   section 11's integer.
// * |s_i| < 4 and e_i <= E, hence |q_i| < 2^27 and 16 of them fit 32 bits.
// * The accumulator's q is below 2^26; the sum of all 33 integers is below
//   2^33, exact in fp64, and so is its product with 2^(E-F), since -126 <= E
//   (the accumulator is always a term, and e = -126 when it is zero).
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include <algorithm>
#include <cstring>

#define FLAMIA_INLINE inline __attribute__((always_inline))

namespace flamia::sim {
namespace {

constexpr unsigned width = 32; ///< rows in one step

using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Shorts = int16_t __attribute__((vector_size(64)));
static_assert(sizeof(Shorts) / sizeof(int16_t) == width, "one vector a step");

template <typename Vector, typename T>
FLAMIA_INLINE void load(Vector &vector, const T *from) {
  std::memcpy(&vector, from, sizeof(Vector));
}

FLAMIA_INLINE float asFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
FLAMIA_INLINE uint32_t asBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
FLAMIA_INLINE float pow2f(int exponent) {
  return asFloat(uint32_t(exponent + 127) << 23);
}
FLAMIA_INLINE double pow2(int exponent) {
  uint64_t bits = uint64_t(exponent + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Section 11's exponent of an f32: subnormals and zero count as -126.
FLAMIA_INLINE int exponentOf(float value) {
  int field = int((asBits(value) >> 23) & 0xff);
  return std::max(field, 1) - 127;
}

/// Rounds toward zero, to infinity from 2^128 on.
FLAMIA_INLINE uint32_t roundTowardZero(double value) {
  float nearest = float(value);
  double magnitude = __builtin_fabs(value);
  bool tooBig = __builtin_fabs(double(nearest)) > magnitude;
  // One step down also turns infinity into the largest finite value.
  return asBits(nearest) - uint32_t(tooBig & (magnitude < 0x1p128));
}

/// Largest ea + eb over K for each of `width` rows.
template <unsigned K>
FLAMIA_INLINE void maxExponents(const int16_t *aExp, const int16_t *bExp,
                                int16_t *result) {
  Shorts best = Shorts{} - int16_t(8000);
  for (unsigned k = 0; k < K; ++k) {
    Shorts a;
    load(a, aExp + k * rowStride);
    Shorts sum = a + bExp[k];
    best = sum > best ? sum : best;
  }
  std::memcpy(result, &best, sizeof(best));
}

/// Sums of the truncated products of `width` rows; scale[i] = 2^(F-E).
template <unsigned K>
FLAMIA_INLINE void sumNarrow(const float *a, const float *b, const float *scale,
                             double *sums) {
  constexpr unsigned half = K > 16 ? 16 : K;
  Floats scale0, scale1;
  load(scale0, scale);
  load(scale1, scale + 16);
  for (unsigned i = 0; i < width; ++i)
    sums[i] = 0;
  for (unsigned k0 = 0; k0 < K; k0 += half) {
    Ints sum0{}, sum1{};
    for (unsigned k = k0; k < k0 + half; ++k) {
      Floats a0, a1;
      load(a0, a + k * rowStride);
      load(a1, a + k * rowStride + 16);
      sum0 += __builtin_convertvector(a0 * b[k] * scale0, Ints);
      sum1 += __builtin_convertvector(a1 * b[k] * scale1, Ints);
    }
    for (unsigned i = 0; i < 16; ++i) {
      sums[i] += sum0[i];
      sums[i + 16] += sum1[i];
    }
  }
}

/// The same in fp64, for operands of any f32 exponent.
template <unsigned K>
FLAMIA_INLINE void sumWide(const float *a, const float *b, const double *scale,
                           double *sums) {
  for (unsigned i = 0; i < width; ++i)
    sums[i] = 0;
  for (unsigned k = 0; k < K; ++k)
    for (unsigned i = 0; i < width; ++i)
      sums[i] += __builtin_trunc(double(a[k * rowStride + i]) * double(b[k]) *
                                 scale[i]);
}

template <unsigned K, bool Wide>
FLAMIA_INLINE void alignedStep(const AlignedBlock &block, unsigned n,
                               unsigned row) {
  constexpr int fraction = 25;
  const float *b = block.b + n * K;
  unsigned group = block.firstGroup + row / 32;
  int bScale = block.bScale[group * block.bScaleStride + n];
  const int32_t *aScale = block.aScale + row;
  const uint32_t *c = block.c ? block.c + n * rowStride + row : nullptr;
  uint32_t *d = block.d + n * rowStride + row;

  int16_t best[width];
  maxExponents<K>(block.aExp + row, block.bExp + n * K, best);

  float addend[width];
  for (unsigned i = 0; i < width; ++i)
    addend[i] = c ? asFloat(c[i]) : 0.0f;
  int32_t top[width]; // E
  double sums[width];
  if constexpr (Wide) {
    double scale[width];
    for (unsigned i = 0; i < width; ++i) {
      int term = best[i] + aScale[i] + bScale;
      term = best[i] < -1000 ? minExponent : term;
      top[i] = std::max(term, exponentOf(addend[i]));
      scale[i] = pow2(fraction - top[i] + aScale[i] + bScale);
    }
    sumWide<K>(block.a + row, b, scale, sums);
  } else {
    float scale[width];
    for (unsigned i = 0; i < width; ++i) {
      int scales = aScale[i] + bScale;
      int term = best[i] + scales;
      term = best[i] < -1000 ? minExponent : term;
      top[i] = std::max(term, exponentOf(addend[i]));
      // Terms scaled by less than 2^-100 truncate to 0 anyway (|p| < 2^98).
      int shift = fraction - top[i] + scales;
      scale[i] = pow2f(std::min(std::max(shift, -100), 126));
    }
    sumNarrow<K>(block.a + row, b, scale, sums);
  }
  for (unsigned i = 0; i < width; ++i) {
    double aligned = double(addend[i]) * pow2(fraction - top[i]);
    double total = sums[i] + __builtin_trunc(aligned);
    d[i] = roundTowardZero(total * pow2(top[i] - fraction));
  }
}

template <unsigned K, bool Wide>
FLAMIA_INLINE void alignedLoop(const AlignedBlock &block) {
  for (unsigned n = 0; n < block.columns; ++n)
    for (unsigned row = 0; row < block.rows; row += width)
      alignedStep<K, Wide>(block, n, row);
}

FLAMIA_INLINE void alignedBody(const AlignedBlock &block) {
  if (block.wide)
    return block.k == 16 ? alignedLoop<16, true>(block)
                         : alignedLoop<8, true>(block);
  if (block.k == 32)
    return alignedLoop<32, false>(block);
  return block.k == 16 ? alignedLoop<16, false>(block)
                       : alignedLoop<8, false>(block);
}

/// Exact sums of 16 products of `width` rows: multiples of 1/4 below 2^10.
FLAMIA_INLINE void groupSums(const float *a, const float *b, float *sums) {
  Floats sum0{}, sum1{};
  for (unsigned k = 0; k < 16; ++k) {
    Floats a0, a1;
    load(a0, a + k * rowStride);
    load(a1, a + k * rowStride + 16);
    sum0 += a0 * b[k];
    sum1 += a1 * b[k];
  }
  std::memcpy(sums, &sum0, sizeof(sum0));
  std::memcpy(sums + 16, &sum1, sizeof(sum1));
}

FLAMIA_INLINE void groupedStep(const GroupedBlock &block, unsigned n,
                               unsigned row) {
  constexpr int fraction = 35;
  unsigned group = block.firstGroup + row / 32;
  const float *bScale = block.bScale + (group * block.columns + n) * 4;
  const int32_t *bScaleExp = block.bScaleExp + (group * block.columns + n) * 4;
  const uint32_t *c = block.c ? block.c + n * rowStride + row : nullptr;
  uint32_t *d = block.d + n * rowStride + row;

  // s_g has at most 12 + 8 significant bits: exact in f32.
  float terms[4][width];
  int32_t exponents[4][width];
  float addend[width];
  int32_t top[width];
  for (unsigned i = 0; i < width; ++i) {
    addend[i] = c ? asFloat(c[i]) : 0.0f;
    top[i] = exponentOf(addend[i]);
  }
  for (unsigned g = 0; g < 4; ++g) {
    groupSums(block.a + g * 16 * rowStride + row, block.b + n * 64 + g * 16,
              terms[g]);
    // Copies, so that the loop below loads without a condition.
    float aScale[width];
    int32_t aScaleExp[width];
    std::memcpy(aScale, block.aScale + g * rowStride + row, sizeof(aScale));
    std::memcpy(aScaleExp, block.aScaleExp + g * rowStride + row,
                sizeof(aScaleExp));
    for (unsigned i = 0; i < width; ++i) {
      float term = terms[g][i] * aScale[i] * bScale[g];
      int exponent = aScaleExp[i] + bScaleExp[g];
      exponent = term == 0 ? minExponent : exponent;
      terms[g][i] = term;
      exponents[g][i] = exponent;
      top[i] = std::max(top[i], exponent);
    }
  }
  double total[width];
  for (unsigned i = 0; i < width; ++i)
    total[i] = __builtin_trunc(double(addend[i]) * pow2(fraction - top[i]));
  for (unsigned g = 0; g < 4; ++g)
    for (unsigned i = 0; i < width; ++i)
      total[i] += __builtin_trunc(double(terms[g][i]) *
                                  pow2(exponents[g][i] - top[i] + fraction));
  for (unsigned i = 0; i < width; ++i)
    d[i] = roundTowardZero(total[i] * pow2(top[i] - fraction));
}

FLAMIA_INLINE void groupedBody(const GroupedBlock &block) {
  for (unsigned n = 0; n < block.columns; ++n)
    for (unsigned row = 0; row < block.rows; row += width)
      groupedStep(block, n, row);
}

/// A block's sum in T, scaled, added to the total in T. The accumulator comes
/// first in fp32, last in fp64.
template <typename T>
FLAMIA_INLINE void plainStep(const PlainBlock &block, unsigned n,
                             unsigned row) {
  unsigned group = block.firstGroup + row / 32;
  unsigned perGroup = block.k / block.groups;
  const float *b = block.b + n * block.k;
  size_t scaleIndex = (size_t(group) * block.columns + n) * block.groups;
  const uint32_t *c = block.c ? block.c + n * rowStride + row : nullptr;
  uint32_t *d = block.d + n * rowStride + row;
  T total[width];
  bool first = sizeof(T) == sizeof(float) && c;
  for (unsigned i = 0; i < width; ++i)
    total[i] = first ? T(asFloat(c[i])) : T(0);
  for (unsigned g = 0; g < block.groups; ++g) {
    T sum[width] = {};
    for (unsigned k = g * perGroup; k < (g + 1) * perGroup; ++k)
      for (unsigned i = 0; i < width; ++i)
        sum[i] += T(block.a[k * rowStride + row + i]) * T(b[k]);
    for (unsigned i = 0; i < width; ++i) {
      unsigned index = g * rowStride + row + i;
      double scale =
          double(block.aScale[index] * block.bScale[scaleIndex + g]) *
          pow2(block.aScaleExp[index] + block.bScaleExp[scaleIndex + g]);
      total[i] += T(double(sum[i]) * scale);
    }
  }
  bool last = sizeof(T) == sizeof(double) && c;
  for (unsigned i = 0; i < width; ++i)
    d[i] = asBits(float(last ? total[i] + T(asFloat(c[i])) : total[i]));
}

FLAMIA_INLINE void plainBody(const PlainBlock &block) {
  for (unsigned n = 0; n < block.columns; ++n)
    for (unsigned row = 0; row < block.rows; row += width) {
      if (block.fp64)
        plainStep<double>(block, n, row);
      else
        plainStep<float>(block, n, row);
    }
}

// One copy of the loops per instruction set, chosen at run time: the build
// itself stays portable.
void alignedBase(const AlignedBlock &block) { alignedBody(block); }
void groupedBase(const GroupedBlock &block) { groupedBody(block); }
void plainBase(const PlainBlock &block) { plainBody(block); }
#if defined(__x86_64__)
__attribute__((target("arch=x86-64-v3"))) void
alignedV3(const AlignedBlock &block) {
  alignedBody(block);
}
__attribute__((target("arch=x86-64-v3"))) void
groupedV3(const GroupedBlock &block) {
  groupedBody(block);
}
__attribute__((target("arch=x86-64-v3"))) void
plainV3(const PlainBlock &block) {
  plainBody(block);
}
__attribute__((target("arch=x86-64-v4"))) void
alignedV4(const AlignedBlock &block) {
  alignedBody(block);
}
__attribute__((target("arch=x86-64-v4"))) void
groupedV4(const GroupedBlock &block) {
  groupedBody(block);
}
__attribute__((target("arch=x86-64-v4"))) void
plainV4(const PlainBlock &block) {
  plainBody(block);
}
#endif

struct Kernels {
  void (*aligned)(const AlignedBlock &) = alignedBase;
  void (*grouped)(const GroupedBlock &) = groupedBase;
  void (*plain)(const PlainBlock &) = plainBase;

  Kernels() { select(KernelIsa::V4) || select(KernelIsa::V3); }

  bool select(KernelIsa isa) {
    switch (isa) {
    case KernelIsa::Base:
      aligned = alignedBase;
      grouped = groupedBase;
      plain = plainBase;
      return true;
#if defined(__x86_64__)
    case KernelIsa::V3:
      if (!__builtin_cpu_supports("x86-64-v3"))
        return false;
      aligned = alignedV3;
      grouped = groupedV3;
      plain = plainV3;
      return true;
    case KernelIsa::V4:
      if (!__builtin_cpu_supports("x86-64-v4"))
        return false;
      aligned = alignedV4;
      grouped = groupedV4;
      plain = plainV4;
      return true;
#else
    default:
      return false;
#endif
    }
    return false;
  }
};

Kernels &kernels() {
  static Kernels chosen;
  return chosen;
}

} // namespace

bool selectKernelIsa(KernelIsa isa) { return kernels().select(isa); }

void runAligned(const AlignedBlock &block) { kernels().aligned(block); }
void runGrouped(const GroupedBlock &block) { kernels().grouped(block); }
void runPlain(const PlainBlock &block) { kernels().plain(block); }

} // namespace flamia::sim
