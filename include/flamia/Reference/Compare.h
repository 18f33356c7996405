//===- Compare.h - Error measures -------------------------------*- C++ -*-===//
//
// Measures of the difference between a result and a reference.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_REFERENCE_COMPARE_H
#define FLAMIA_REFERENCE_COMPARE_H

#include <cstdint>
#include <vector>

namespace flamia::reference {

/// Difference of two arrays. Equal infinities count as equal; a NaN on either
/// side, or an infinity against something else, makes both measures infinite.
struct ErrorMeasure {
  double relativeFrobenius = 0; ///< |x - reference| / |reference|, 2-norms
  double maxAbs = 0;            ///< largest |x - reference|
  int64_t values = 0;           ///< how many were compared
};

ErrorMeasure measureError(const std::vector<float> &values,
                          const std::vector<double> &reference);
ErrorMeasure measureError(const std::vector<float> &values,
                          const std::vector<float> &reference);

} // namespace flamia::reference

#endif // FLAMIA_REFERENCE_COMPARE_H
