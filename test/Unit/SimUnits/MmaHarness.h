//===- MmaHarness.h - Building and checking one tcgen05.mma -----*- C++ -*-===//
//
// Lays operands out in shared and tensor memory, and a literal, slow
// transcription of facts/tcgen05.md section 11 to compare with. It shares no
// code with the units: formats are decoded from their definitions.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_UNIT_SIMUNITS_MMAHARNESS_H
#define FLAMIA_TEST_UNIT_SIMUNITS_MMAHARNESS_H

#include "flamia/Sim/Units/Mma.h"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace flamia::sim::test {

/// A format by its definition: exponent and mantissa bits, bias.
struct FormatSpec {
  int exponentBits;
  int mantissaBits;
  int bias;
  enum { Ieee, E4M3Like, Finite } specials;
};

inline FormatSpec specOf(OperandType type) {
  switch (type) {
  case OperandType::F16:
    return {5, 10, 15, FormatSpec::Ieee};
  case OperandType::BF16:
    return {8, 7, 127, FormatSpec::Ieee};
  case OperandType::TF32:
    return {8, 23, 127, FormatSpec::Ieee};
  case OperandType::E4M3:
    return {4, 3, 7, FormatSpec::E4M3Like};
  case OperandType::E5M2:
    return {5, 2, 15, FormatSpec::Ieee};
  case OperandType::E2M3:
    return {2, 3, 1, FormatSpec::Finite};
  case OperandType::E3M2:
    return {3, 2, 3, FormatSpec::Finite};
  default:
    return {2, 1, 1, FormatSpec::Finite};
  }
}

/// x = s * 2^e of section 11: 1 <= |s| < 2, or a subnormal with the format's
/// smallest exponent. NaN and Inf sit in s.
struct Split {
  double s;
  int e;
};

inline Split splitCode(uint32_t code, OperandType type) {
  FormatSpec f = specOf(type);
  if (type == OperandType::TF32)
    code &= ~0x1fffu;
  uint32_t mantissa = code & ((1u << f.mantissaBits) - 1);
  int exponent = int(code >> f.mantissaBits) & ((1 << f.exponentBits) - 1);
  double sign = (code >> (f.mantissaBits + f.exponentBits)) & 1 ? -1 : 1;
  int top = (1 << f.exponentBits) - 1;
  if (f.specials == FormatSpec::Ieee && exponent == top)
    return {mantissa ? std::nan("") : sign * INFINITY, top - f.bias};
  if (f.specials == FormatSpec::E4M3Like && exponent == top && mantissa == 7)
    return {std::nan(""), 8};
  double fraction = std::ldexp(double(mantissa), -f.mantissaBits);
  if (exponent == 0)
    return {sign * fraction, 1 - f.bias};
  return {sign * (1 + fraction), exponent - f.bias};
}

/// An instruction's operands by element.
struct MmaCase {
  MmaKind kind = MmaKind::MXF8F6F4;
  ScaleVec scaleVec = ScaleVec::X1;
  OperandType aType = OperandType::E4M3;
  OperandType bType = OperandType::E4M3;
  ScaleType scaleType = ScaleType::UE8M0;
  unsigned m = 128, n = 128, k = 32;
  bool negateA = false, negateB = false;
  bool f16Result = false;
  bool accumulate = true;
  std::vector<uint32_t> a, b;    ///< codes, [row][k]
  std::vector<uint8_t> sfa, sfb; ///< [row][perRow]
  std::vector<uint32_t> c;       ///< f32 (f16) bits, [m][n]

  unsigned perRow() const {
    return scaleVec == ScaleVec::None ? 0
           : scaleVec == ScaleVec::X1 ? 1
           : scaleVec == ScaleVec::X2 ? 2
                                      : 4;
  }

  void resize() {
    a.assign(m * k, 0);
    b.assign(n * k, 0);
    sfa.assign(m * perRow(), 127);
    sfb.assign(n * perRow(), 127);
    c.assign(m * n, 0);
  }
};

inline float asFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t asBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

/// Scale factor as significand and exponent.
inline Split splitScale(uint8_t code, ScaleType type) {
  if (type == ScaleType::UE8M0)
    return {code == 255 ? std::nan("") : 1.0, int(code) - 127};
  return splitCode(code & 0x7f, OperandType::E4M3);
}

/// A result rounded toward zero to f32, by bisection over bit patterns.
inline uint32_t roundDownToF32(long double value) {
  bool negative = std::signbit(value);
  long double magnitude = std::fabs(value);
  if (magnitude >= 0x1p128L)
    return negative ? 0xff800000 : 0x7f800000;
  uint32_t low = 0, high = 0x7f7fffff;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (static_cast<long double>(asFloat(middle)) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  return (negative ? 0x80000000 : 0) | low;
}

/// Nearest even in f16, by bisection as well.
inline uint32_t roundToF16(long double value) {
  bool negative = std::signbit(value);
  long double magnitude = std::fabs(value);
  auto decode = [](uint32_t code) -> long double {
    Split s = splitCode(code, OperandType::F16);
    return std::ldexp(static_cast<long double>(s.s), s.e);
  };
  uint32_t code = 0;
  if (magnitude >= 65520.0L) {
    code = 0x7c00;
  } else {
    uint32_t low = 0, high = 0x7bff;
    while (low < high) {
      uint32_t middle = low + (high - low + 1) / 2;
      if (decode(middle) <= magnitude)
        low = middle;
      else
        high = middle - 1;
    }
    code = low;
    long double next = low == 0x7bff ? 65536.0L : decode(low + 1);
    long double below = magnitude - decode(low), above = next - magnitude;
    if (above < below || (above == below && (low & 1)))
      ++code;
  }
  return (negative ? 0x8000 : 0) | code;
}

/// Section 11, literally, for element (m, n). \p exact receives the sum without
/// any truncation (finite inputs) and \p bound the sheet's error bound without
/// the final unit in the last place.
inline uint32_t literalElement(const MmaCase &mma, unsigned m, unsigned n,
                               long double *exact = nullptr,
                               long double *bound = nullptr) {
  struct Term {
    long double s;
    int e;
  };
  std::vector<Term> terms;
  bool grouped = mma.k == 64;
  int fraction = grouped ? 35 : 25;
  long double special = 0;
  bool isNaN = false;
  auto scaleOf = [&](unsigned j) -> Term {
    if (mma.perRow() == 0)
      return {1.0L, 0};
    Split x = splitScale(mma.sfa[m * mma.perRow() + j], mma.scaleType);
    Split y = splitScale(mma.sfb[n * mma.perRow() + j], mma.scaleType);
    return {static_cast<long double>(x.s) * y.s, x.e + y.e};
  };
  for (unsigned j = 0; j < mma.perRow(); ++j)
    isNaN |= std::isnan(scaleOf(j).s);
  auto product = [&](unsigned k) -> Term {
    Split x = splitCode(mma.a[m * mma.k + k], mma.aType);
    Split y = splitCode(mma.b[n * mma.k + k], mma.bType);
    long double s = static_cast<long double>(x.s) * y.s;
    if (mma.negateA != mma.negateB)
      s = -s;
    return {s, x.e + y.e};
  };
  if (!grouped) {
    Term scale = scaleOf(0);
    for (unsigned k = 0; k < mma.k; ++k) {
      Term p = product(k);
      terms.push_back({p.s * (mma.perRow() ? 1.0L : 1.0L), p.e + scale.e});
    }
  } else {
    for (unsigned g = 0; g < 4; ++g) {
      long double sum = 0;
      for (unsigned k = 16 * g; k < 16 * g + 16; ++k) {
        Term p = product(k);
        sum += std::ldexp(p.s, p.e);
      }
      Term scale = scaleOf(mma.perRow() == 4 ? g : g / 2);
      terms.push_back({sum * scale.s, scale.e});
    }
  }
  Split c{0, -126};
  if (mma.accumulate)
    c = mma.f16Result
            ? splitCode(mma.c[m * mma.n + n] & 0xffff, OperandType::F16)
            : [&] {
                // f32: 8 exponent bits, all 23 mantissa bits.
                uint32_t bits = mma.c[m * mma.n + n];
                int exponent = int((bits >> 23) & 0xff);
                double sign = bits >> 31 ? -1 : 1;
                double f = std::ldexp(double(bits & 0x7fffff), -23);
                if (exponent == 255)
                  return Split{f != 0 ? std::nan("") : sign * INFINITY, 128};
                if (exponent == 0)
                  return Split{sign * f, -126};
                return Split{sign * (1 + f), exponent - 127};
              }();
  terms.push_back({static_cast<long double>(c.s), c.e});

  for (const Term &t : terms) {
    isNaN |= std::isnan(t.s);
    if (std::isinf(t.s))
      special += t.s;
  }
  if (isNaN || std::isnan(special))
    return mma.f16Result ? 0x7fff : 0x7fffffff;
  if (special != 0)
    return (special < 0 ? (mma.f16Result ? 0x8000u : 0x80000000u) : 0u) |
           (mma.f16Result ? 0x7c00u : 0x7f800000u);

  int top = -1000000;
  bool allNegativeZero = true;
  for (Term &t : terms) {
    if (t.s == 0)
      t.e = -126;
    allNegativeZero &= t.s == 0 && std::signbit(t.s);
    top = std::max(top, t.e);
  }
  long double sum = 0, full = 0;
  for (const Term &t : terms) {
    // In long double every q fits; what underflows truncates to 0.
    sum += std::trunc(std::ldexp(t.s, t.e - top + fraction));
    full += std::ldexp(t.s, t.e);
  }
  if (exact)
    *exact = full;
  if (bound)
    *bound = std::ldexp(static_cast<long double>(terms.size()), top - fraction);
  if (sum == 0)
    return allNegativeZero ? (mma.f16Result ? 0x8000u : 0x80000000u) : 0;
  long double result = std::ldexp(sum, top - fraction);
  return mma.f16Result ? roundToF16(result) : roundDownToF32(result);
}

/// Where the operands of a case go.
struct Placement {
  unsigned swizzle = 2; ///< descriptor code: 0, 2, 4, 6
  bool aInTmem = false;
  bool aMnMajor = false;
  bool bMnMajor = false;
  unsigned sfId = 0; ///< both SFA_ID and SFB_ID
};

/// Machine state of one CTA for one instruction.
class MmaMachine {
public:
  static constexpr unsigned dColumn = 0, aColumn = 256, sfaColumn = 288,
                            sfbColumn = 292;

  MmaMachine() : shared(131072, 0xcd) {
    uint32_t address;
    tmem.allocate(512, address, issues);
  }

  SharedView view() { return {shared.data(), 0, uint32_t(shared.size())}; }

  /// Bytes of the 32-byte rows that hold `codes`.
  static std::vector<uint8_t> packRows(const std::vector<uint32_t> &codes,
                                       unsigned rows, unsigned k,
                                       OperandType type, bool inTmem);

  /// Puts row-packed bytes at shared address `start` and returns the
  /// descriptor.
  uint64_t place(const std::vector<uint8_t> &rows, unsigned count, unsigned k,
                 uint32_t start, unsigned swizzle, bool mnMajor);

  /// Writes all operands and returns the instruction.
  MmaInstruction load(const MmaCase &mma, const Placement &placement);

  unsigned dLane(const MmaCase &mma, unsigned m) const {
    return mma.m == 64 ? 32 * (m / 16) + m % 16 : m;
  }

  Tmem tmem;
  std::vector<uint8_t> shared;
  IssueList issues;
};

inline std::string firstMessage(const IssueList &issues) {
  return issues.empty() ? std::string() : issues.front().message;
}

} // namespace flamia::sim::test

#endif // FLAMIA_TEST_UNIT_SIMUNITS_MMAHARNESS_H
