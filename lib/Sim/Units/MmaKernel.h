//===- MmaKernel.h - Vector kernels of tcgen05.mma --------------*- C++ -*-===//
//
// The inner loops of the bit accurate mode, for finite operands. One call does
// a block of rows against all columns; rows are vector lanes, because D lies
// column by column in tensor memory.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_MMAKERNEL_H
#define FLAMIA_LIB_SIM_UNITS_MMAKERNEL_H

#include <cstdint>

namespace flamia::sim {

/// Distance between K rows of a decoded A and between columns of D.
constexpr unsigned rowStride = 128;
/// Exponent of a zero operand: no sum with a real exponent reaches -1000.
constexpr int16_t zeroExponent = -2000;
/// Section 11's exponent of a zero term, also the smallest of a normal f32.
constexpr int minExponent = -126;

/// kinds f16, tf32, f8f6f4 and mxf8f6f4: every product is a term of its own.
struct AlignedBlock {
  const float *a;        ///< [K][rowStride] values
  const int16_t *aExp;   ///< [K][rowStride] exponents (subnormals unscaled)
  const float *b;        ///< [n][K]
  const int16_t *bExp;   ///< [n][K]
  const int32_t *aScale; ///< [rows] exponents of the A scales
  const int32_t *bScale; ///< [lane group][bScaleStride] of the B scales
  unsigned bScaleStride; ///< 0: one set for all lane groups
  unsigned firstGroup;   ///< lane group of row 0
  unsigned rows;         ///< a multiple of 32
  unsigned columns;      ///< n
  unsigned k;            ///< 8, 16 or 32
  const uint32_t *c;     ///< [n][rowStride] f32 bits, null for no accumulator
  uint32_t *d;           ///< [n][rowStride] f32 bits
  bool wide;             ///< operands beyond 2^+-48: products need fp64
};

/// kinds mxf4 and mxf4nvf4: four terms, each an exact sum of 16 products.
struct GroupedBlock {
  const float *a;           ///< [64][rowStride]
  const float *b;           ///< [n][64]
  const float *aScale;      ///< [4][rowStride] significands of the A scales
  const int32_t *aScaleExp; ///< [4][rowStride]
  const float *bScale;      ///< [lane group][n][4]
  const int32_t *bScaleExp; ///< [lane group][n][4]
  unsigned firstGroup;
  unsigned rows;
  unsigned columns;
  const uint32_t *c;
  uint32_t *d;
};

/// Plain arithmetic, for any kind: `groups` scale blocks of k / groups
/// products.
struct PlainBlock {
  const float *a;           ///< [k][rowStride]
  const float *b;           ///< [n][k]
  const float *aScale;      ///< [groups][rowStride]
  const int32_t *aScaleExp; ///< [groups][rowStride]
  const float *bScale;      ///< [lane group][n][groups]
  const int32_t *bScaleExp; ///< [lane group][n][groups]
  unsigned firstGroup;
  unsigned rows;
  unsigned columns;
  unsigned k;
  unsigned groups;
  const uint32_t *c;
  uint32_t *d;
  bool fp64;
};

/// Instruction sets that the kernels are compiled for.
enum class KernelIsa { Base, V3, V4 };

/// Chooses the kernels of one instruction set, for tests; false (and no change)
/// when the host lacks it. The default is the best one that the host has.
bool selectKernelIsa(KernelIsa isa);

void runPlain(const PlainBlock &block);
void runAligned(const AlignedBlock &block);
void runGrouped(const GroupedBlock &block);

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_MMAKERNEL_H
