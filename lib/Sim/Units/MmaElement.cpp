//===- MmaElement.cpp - One element of D, exactly -------------------------===//

#include "MmaElement.h"
#include "Bits.h"
#include "MmaKernel.h"
#include "flamia/Sim/Units/Convert.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace flamia::sim {

namespace {

/// A term of the sum: `value` is exact, `exponent` what section 11 aligns by.
struct Term {
  double value;
  int exponent;
};

/// f32 toward zero; f16 to nearest even. From 2^128 (65520) on infinity.
uint32_t roundResult(double value, AccumType accum) {
  if (accum == AccumType::F32) {
    float nearest = float(value);
    double magnitude = std::fabs(value);
    if (std::fabs(double(nearest)) > magnitude && magnitude < 0x1p128)
      nearest = std::nextafter(nearest, 0.0f);
    return asBits(nearest);
  }
  // At most 33 significant bits; round them to the f16 grid in one step.
  if (value == 0 || std::isinf(value))
    return f32ToF16(asBits(float(value)));
  int exponent = std::max(std::ilogb(value), -14);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, 10 - exponent)),
                              exponent - 10);
  return f32ToF16(asBits(float(rounded)));
}

uint32_t nan(AccumType accum) {
  return accum == AccumType::F16 ? 0x7fff : 0x7fffffff;
}

/// The accumulator, scaled by scale-input-d. That its exponent keeps the floor
/// of -126 under the scaling is an assumption; it matters below 2^-110 only.
Term accumulator(const MmaContext &context, uint32_t c) {
  bool isF16 = context.idesc->accum == AccumType::F16;
  double value = asFloat(isF16 ? f16ToF32(uint16_t(c)) : c);
  if (value == 0 || !std::isfinite(value))
    return {value, minExponent};
  int exponent = std::max(std::ilogb(value), isF16 ? -14 : minExponent) -
                 int(context.scaleInputD);
  return {std::ldexp(value, -int(context.scaleInputD)),
          std::max(exponent, minExponent)};
}

/// Terms truncated toward zero at 2^(E - fraction) and summed.
double alignedSum(const Term *terms, unsigned count, int fraction) {
  int top = minExponent;
  for (unsigned i = 0; i < count; ++i)
    if (terms[i].value != 0)
      top = std::max(top, terms[i].exponent);
  double sum = 0;
  bool allNegativeZero = true;
  for (unsigned i = 0; i < count; ++i) {
    sum += std::trunc(std::ldexp(terms[i].value, fraction - top));
    allNegativeZero &= terms[i].value == 0 && std::signbit(terms[i].value);
  }
  if (sum == 0)
    return allNegativeZero ? -0.0 : 0.0;
  return std::ldexp(sum, top - fraction);
}

double plainSum(const MmaContext &context, const Term *terms, unsigned count) {
  // terms[0] is the accumulator.
  if (context.numerics == MmaNumerics::Fp64) {
    double sum = 0;
    for (unsigned i = 1; i < count; ++i)
      sum += terms[i].value;
    return float(sum + terms[0].value);
  }
  float sum = 0;
  for (unsigned i = 1; i < count; ++i)
    sum += float(terms[i].value);
  return sum + float(terms[0].value);
}

/// NaN, or an infinity that decides the result; 0 when neither.
double specialResult(const MmaContext &context, unsigned group, unsigned m,
                     unsigned n, unsigned sfbRow, double c) {
  double poison = 0;
  for (unsigned j = 0; context.sfa && j < context.sfa->perRow; ++j)
    if (context.sfa->isNaN(context.sfa->code(group, m, j)) ||
        context.sfb->isNaN(context.sfb->code(group, sfbRow, j)))
      return std::nan("");
  if (!std::isfinite(c))
    poison += c;
  if ((context.a->flags[m] | context.b->flags[n]) != 0)
    for (unsigned k = 0; k < context.a->k; ++k) {
      double product = context.a->element(m, k) * context.b->element(n, k);
      if (!std::isfinite(product))
        poison += product;
    }
  return poison;
}

unsigned gatherTerms(const MmaContext &context, unsigned group, unsigned m,
                     unsigned n, unsigned sfbRow, Term *terms) {
  const DecodedRows &a = *context.a;
  const DecodedRows &b = *context.b;
  auto product = [&](unsigned k) {
    return double(a.value[m * a.rowStep + k * a.kStep]) *
           double(b.value[n * b.rowStep + k * b.kStep]);
  };
  if (a.k != 64) {
    int scale = 0;
    if (context.sfa)
      scale = context.sfa->exponent(context.sfa->code(group, m, 0)) +
              context.sfb->exponent(context.sfb->code(group, sfbRow, 0));
    for (unsigned k = 0; k < a.k; ++k)
      terms[k] = {std::ldexp(product(k), scale),
                  a.exponent[m * a.rowStep + k * a.kStep] +
                      b.exponent[n * b.rowStep + k * b.kStep] + scale};
    return a.k;
  }
  for (unsigned g = 0; g < 4; ++g) {
    double sum = 0;
    for (unsigned k = 16 * g; k < 16 * g + 16; ++k)
      sum += product(k);
    unsigned j = g * context.sfa->perRow / 4;
    uint8_t codeA = context.sfa->code(group, m, j);
    uint8_t codeB = context.sfb->code(group, sfbRow, j);
    int exponent = context.sfa->exponent(codeA) + context.sfb->exponent(codeB);
    double significand = double(context.sfa->significand(codeA)) *
                         double(context.sfb->significand(codeB));
    terms[g] = {std::ldexp(sum * significand, exponent), exponent};
  }
  return 4;
}

} // namespace

uint32_t mmaElement(const MmaContext &context, unsigned group, unsigned m,
                    unsigned n, unsigned sfbRow, uint32_t c) {
  AccumType accum = context.idesc->accum;
  Term terms[33];
  terms[0] = accumulator(context, c);
  double special = specialResult(context, group, m, n, sfbRow, terms[0].value);
  if (std::isnan(special))
    return nan(accum);
  if (special != 0)
    return roundResult(special, accum);

  unsigned count = 1 + gatherTerms(context, group, m, n, sfbRow, terms + 1);
  if (context.numerics != MmaNumerics::BitAccurate) {
    uint32_t bits = asBits(float(plainSum(context, terms, count)));
    return accum == AccumType::F16 ? f32ToF16(bits) : bits;
  }
  int fraction = context.a->k == 64 ? 35 : 25;
  return roundResult(alignedSum(terms, count, fraction), accum);
}

} // namespace flamia::sim
