//===- TileMath.cpp - Arithmetic on tiles in double -----------------------===//
//
// See TileMath.h.
//
//===----------------------------------------------------------------------===//

#include "lib/Reference/TileMath.h"
#include "flamia/Numerics/Layout.h"
#include "lib/Numerics/Clones.h"

#include <cmath>
#include <cstring>

using namespace flamia;
using namespace flamia::reference;

FLAMIA_CLONES void reference::multiplyTiles(const double *a, int64_t strideA,
                                            const double *b, int64_t strideB,
                                            double *c, int64_t strideC,
                                            int64_t rows, int64_t columns,
                                            int64_t depth) {
  FLAMIA_NO_CONTRACT
  constexpr int64_t blockRows = 4, blockColumns = 8;
  for (int64_t j = 0; j < columns; j += blockColumns)
    for (int64_t i = 0; i < rows; i += blockRows) {
      double sums[blockRows][blockColumns] = {};
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t r = 0; r < blockRows; ++r) {
          double factor = a[(i + r) * strideA + k];
          for (int64_t s = 0; s < blockColumns; ++s)
            sums[r][s] += factor * b[k * strideB + j + s];
        }
      for (int64_t r = 0; r < blockRows; ++r)
        for (int64_t s = 0; s < blockColumns; ++s)
          c[(i + r) * strideC + j + s] = sums[r][s];
    }
}

FLAMIA_CLONES void reference::exp2Array(const double *from, double *to,
                                        int64_t count) {
  FLAMIA_NO_CONTRACT
  // 2^x = 2^n e^(r ln 2), n = nearest integer, |r ln 2| < 0.347: the Taylor
  // series to degree 13 leaves 4e-18.
  constexpr double ln2 = 0.693147180559945309417232;
  constexpr double roundMagic = 6755399441055744.0; // 1.5 * 2^52
  constexpr double inverseFactorials[14] = {1.0,
                                            1.0,
                                            1.0 / 2,
                                            1.0 / 6,
                                            1.0 / 24,
                                            1.0 / 120,
                                            1.0 / 720,
                                            1.0 / 5040,
                                            1.0 / 40320,
                                            1.0 / 362880,
                                            1.0 / 3628800,
                                            1.0 / 39916800,
                                            1.0 / 479001600,
                                            1.0 / 6227020800};
  for (int64_t i = 0; i < count; ++i) {
    double x = from[i];
    double clamped = x < -1022.0 ? -1022.0 : x;
    clamped = clamped > 1024.0 ? 1024.0 : clamped;
    double shifted = clamped + roundMagic;
    double n = shifted - roundMagic;
    double y = (clamped - n) * ln2;
    double sum = inverseFactorials[13];
    for (int k = 12; k >= 0; --k)
      sum = sum * y + inverseFactorials[k];
    int64_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    // The low bits of the shifted value hold n; it becomes an exponent.
    bits = int64_t(uint64_t(bits + 1023) << 52);
    double power;
    std::memcpy(&power, &bits, sizeof(power));
    double result = x < -1022.0 ? 0.0 : sum * power;
    to[i] = x != x ? x : result;
  }
}

void reference::exp2Row(const float *x, float *p, numerics::Exp2Share share,
                        int64_t block, int64_t firstBlock) {
  using numerics::blockSize, numerics::tileRows;
  double wide[tileRows];
  for (int64_t i = 0; i < tileRows; ++i)
    wide[i] = double(x[i]);
  exp2Array(wide, wide, tileRows);
  for (int64_t i = 0; i < tileRows; ++i)
    p[i] = float(wide[i]);
  for (int64_t i = 0; i < tileRows; i += blockSize)
    if (share.contains(block, firstBlock + i / blockSize))
      numerics::exp2Polynomial(x + i, p + i, blockSize);
}

FLAMIA_CLONES void reference::scaleShift(const float *s, float c, float b,
                                         float *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    x[i] = std::fma(s[i], c, b);
}

FLAMIA_CLONES void reference::scaleShift(const float *s, float c,
                                         const float *b, float *x,
                                         int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    x[i] = std::fma(s[i], c, b[i]);
}

float reference::sumRow(const float *x, int64_t count) {
  float p[8];
  for (int i = 0; i < 8; ++i)
    p[i] = x[i];
  for (int64_t k = 8; k < count; k += 8)
    for (int i = 0; i < 8; ++i)
      p[i] += x[k + i];
  return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}
