//===- TileMath.h - Arithmetic on tiles in double ---------------*- C++ -*-===//
//
// The inner loops of both references. Results do not depend on the CPU: sums
// run in index order, nothing is contracted to an fma.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_REFERENCE_TILEMATH_H
#define FLAMIA_LIB_REFERENCE_TILEMATH_H

#include "flamia/Numerics/Exp2.h"

#include <cstdint>

namespace flamia::reference {

/// c[rows x columns] = a[rows x depth] b[depth x columns], row-major with the
/// given strides; each element is summed over depth in increasing order,
/// starting from 0. \p rows is a multiple of 4 and \p columns of 8.
void multiplyTiles(const double *a, int64_t strideA, const double *b,
                   int64_t strideB, double *c, int64_t strideC, int64_t rows,
                   int64_t columns, int64_t depth);

/// to[i] = 2^from[i], relative error below 4e-16; -infinity gives 0, values
/// below -1022 flush to 0, values from 1023.5 on give infinity, NaN gives NaN.
void exp2Array(const double *from, double *to, int64_t count);

/// p[i] = 2^x[i] for the 128 elements of a row of a score tile: rounded from a
/// double, or by the polynomial in the blocks of \p share. The row is in row
/// \p block of blocks, and its first element in column \p firstBlock.
void exp2Row(const float *x, float *p, numerics::Exp2Share share, int64_t block,
             int64_t firstBlock);

/// x[i] = fma(s[i], c, b) in float.
void scaleShift(const float *s, float c, float b, float *x, int64_t count);

/// x[i] = fma(s[i], c, b[i]) in float.
void scaleShift(const float *s, float c, const float *b, float *x,
                int64_t count);

/// Sum in the kernels' order: 8 partial sums p_i = x[i] + x[i+8] + ..., then
/// ((p0+p4)+(p2+p6)) + ((p1+p5)+(p3+p7)). \p count is a multiple of 8.
float sumRow(const float *x, int64_t count);

} // namespace flamia::reference

#endif // FLAMIA_LIB_REFERENCE_TILEMATH_H
