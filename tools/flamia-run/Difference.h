//===- Difference.h - How far two arrays are apart --------------*- C++ -*-===//
//
// Shared by the reports of the forward and of the backward.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_DIFFERENCE_H
#define FLAMIA_TOOLS_FLAMIA_RUN_DIFFERENCE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace flamia {
namespace run {

/// Rows of `size` elements, and what reference::MeaningfulRows says of them.
struct JudgedRows {
  const std::vector<float> &allowed;
  int64_t size;

  float of(size_t element) const { return allowed[element / size_t(size)]; }
  bool has(size_t element) const { return std::isfinite(of(element)); }
};

/// Difference of two arrays over their finite values in the rows that are
/// judged; an element that is NaN or infinite on both sides alike counts as
/// equal, on one side only as `odd`.
struct Difference {
  double relative = 0; ///< Frobenius
  double maxAbs = 0;
  double error = 0, size = 0; ///< Norms of difference and reference.
  /// Squares of the size times what rows are allowed, and times its square.
  double allowedOnce = 0, allowedTwice = 0;
  int64_t odd = 0;
  int64_t judged = 0, left = 0; ///< Elements judged, and left out.

  /// A limit for `relative` with what rows are allowed beside it.
  double limit(double plain) const {
    double squares = size * size;
    if (allowedTwice == 0 || squares == 0)
      return plain;
    return std::sqrt(plain * plain +
                     (2 * plain * allowedOnce + allowedTwice) / squares);
  }
  /// `relative`, or infinity where values that are not finite differ.
  double strict() const { return odd ? HUGE_VAL : relative; }
};

/// Below the smallest normal number steps do not shrink with the number, which
/// counts there as one does that has steps as large: x^2 becomes |x| 2^-126.
/// The share of elements that round the other way has the same limit then as
/// among normal ones; but one of them may always do so.
template <typename Reference>
Difference differenceOf(const std::vector<float> &values,
                        const std::vector<Reference> &expected,
                        const JudgedRows &rows) {
  constexpr double smallestNormal = 0x1p-126, smallestStep = 0x1p-133;
  Difference result;
  double errors = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!rows.has(i)) {
      ++result.left;
      continue;
    }
    ++result.judged;
    double value = values[i], reference = expected[i];
    bool finite = std::isfinite(value),
         expectedFinite = std::isfinite(reference);
    if (!finite || !expectedFinite) {
      bool same =
          std::isnan(value) ? std::isnan(reference) : value == reference;
      result.odd += !same;
      continue;
    }
    double error = value - reference;
    result.maxAbs = std::max(result.maxAbs, std::abs(error));
    errors += error * error;
    double square =
        std::abs(reference) * std::max(std::abs(reference), smallestNormal);
    double allowed = rows.of(i);
    squares += square;
    result.allowedOnce += allowed * square;
    result.allowedTwice += allowed * allowed * square;
  }
  errors = std::max(0.0, errors - smallestStep * smallestStep);
  result.error = std::sqrt(errors);
  result.size = std::sqrt(squares);
  if (errors > 0)
    result.relative = squares > 0 ? std::sqrt(errors / squares) : HUGE_VAL;
  return result;
}

/// "0.03841", "2.31e-04" or "0".
std::string number(double value);

/// ", 3 non-finite values differ", or nothing.
std::string oddText(int64_t odd);

/// Bytes that differ, and where the first one is.
struct ByteDifference {
  int64_t compared = 0, different = 0;
  std::string first;

  void add(llvm::StringRef name, llvm::ArrayRef<uint8_t> found,
           llvm::ArrayRef<uint8_t> expected) {
    addWhere(name, found, expected, [](size_t) { return true; });
  }

  /// Only the elements that `counts`.
  template <typename T, typename Counts>
  void addWhere(llvm::StringRef name, llvm::ArrayRef<T> found,
                llvm::ArrayRef<T> expected, Counts counts) {
    if (found.size() != expected.size()) {
      compared += int64_t(expected.size());
      different += int64_t(expected.size());
      first = llvm::formatv("{0} has {1} elements, expected {2}", name,
                            found.size(), expected.size());
      return;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (!counts(i))
        continue;
      ++compared;
      // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): every bit counts
      if (std::memcmp(&found[i], &expected[i], sizeof(T)) == 0)
        continue;
      if (first.empty())
        first = llvm::formatv("{0}[{1}] is {2}, expected {3}", name, i,
                              +found[i], +expected[i]);
      ++different;
    }
  }
};

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_DIFFERENCE_H
