//===- Exp2.cpp - 2^x in multiplications and additions --------------------===//

#include "flamia/Numerics/Exp2.h"
#include "lib/Numerics/Clones.h"

#include <cmath>
#include <cstring>

using namespace flamia;
using namespace flamia::numerics;

FLAMIA_CLONES void numerics::exp2Polynomial(const float *from, float *to,
                                            int64_t count) {
  FLAMIA_NO_CONTRACT
  for (int64_t i = 0; i < count; ++i) {
    // NaN stays NaN.
    float x = from[i] < exp2Smallest ? exp2Smallest : from[i];
    float shifted = x + exp2Magic;
    float nearest = shifted - exp2Magic;
    float f = x - nearest;
    float sum = exp2Coefficients[5];
    for (int k = 4; k >= 0; --k)
      sum = std::fma(sum, f, exp2Coefficients[k]);
    // The exponent field of 2^(nearest - 1); 0 for -126.
    uint32_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    bits <<= 23;
    float power;
    std::memcpy(&power, &bits, sizeof(power));
    to[i] = sum * power;
  }
}

float numerics::exp2Polynomial(float x) {
  float result;
  exp2Polynomial(&x, &result, 1);
  return result;
}
