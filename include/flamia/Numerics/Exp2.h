//===- Exp2.h - 2^x in multiplications and additions ------------*- C++ -*-===//
//
// Which exponentials a kernel computes by a polynomial in place of the special
// function unit, and what that polynomial gives, bit for bit (docs/numerics.md,
// "Exponentials by polynomial"). Kernels, evaluator and specification model
// take both from here.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_NUMERICS_EXP2_H
#define FLAMIA_NUMERICS_EXP2_H

#include <cstdint>
#include <string_view>

namespace flamia::numerics {

/// A share of the 32 x 32 blocks of a document's score matrix: `blocks` of
/// every `of`. `of` is a power of two from 1 to 32, `blocks` from 0 to `of`.
struct Exp2Share {
  int64_t blocks = 0;
  int64_t of = 1;

  bool operator==(const Exp2Share &other) const {
    return blocks == other.blocks && of == other.of;
  }
  bool operator!=(const Exp2Share &other) const { return !(*this == other); }
  /// Whether it is one that kernels can have.
  bool isValid() const {
    return of >= 1 && of <= 32 && (of & (of - 1)) == 0 && blocks >= 0 &&
           blocks <= of;
  }
  /// Whether block (i, j) is computed by the polynomial: rows 32 i .. 32 i + 31
  /// and columns 32 j .. 32 j + 31, counted from the document's first token.
  /// Symmetric, so that it does not matter which axis holds the queries. In
  /// every row and in every column of blocks, `blocks` of `of` neighbours are,
  /// spread evenly.
  bool contains(int64_t i, int64_t j) const {
    return ((i + j) * blocks & (of - 1)) < blocks;
  }
};

/// The share of the library's attention_fwd and attention_bwd_dq on an
/// architecture: a quarter on sm_100a, where special functions are scarce, none
/// elsewhere. Issue slots bind attention_bwd_dkdv, which has none anywhere.
/// Kernels say it in their attribute flamia.exp2_emulation.
inline Exp2Share exp2ShareOf(std::string_view arch) {
  return arch == "sm_100a" ? Exp2Share{1, 4} : Exp2Share{};
}

/// Coefficients of f^0, f^1, ... in a polynomial for 2 * 2^f on [-1/2, 1/2];
/// scripts/exp2-polynomial.py finds them.
inline constexpr float exp2Coefficients[] = {2.0f,           0x1.62e42ap+0f,
                                             0x1.ebf9bcp-2f, 0x1.c6b752p-4f,
                                             0x1.3cea88p-6f, 0x1.5bba14p-9f};
/// Smaller exponents give 0.
inline constexpr float exp2Smallest = -126.0f;
/// x plus this has round(x) + 126 in its lowest bits.
inline constexpr float exp2Magic = 12582912.0f + 126.0f;

/// 2^x by the polynomial, up to a relative error of 2^-22.4. Exact for
/// integers; 0 below -125.5 (and for -infinity), infinity from 128 on, NaN for
/// NaN. From 129.5 on the result has no meaning (infinity would cost another
/// operation, and no weight gets there).
float exp2Polynomial(float x);
/// The same for \p count values. The result does not depend on the CPU.
void exp2Polynomial(const float *from, float *to, int64_t count);

} // namespace flamia::numerics

#endif // FLAMIA_NUMERICS_EXP2_H
