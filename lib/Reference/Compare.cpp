//===- Compare.cpp - Error measures ---------------------------------------===//
//
// See Compare.h.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace flamia;
using namespace flamia::reference;

template <typename Reference>
static ErrorMeasure measure(const std::vector<float> &values,
                            const std::vector<Reference> &reference) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ErrorMeasure result;
  if (values.size() != reference.size())
    return {infinity, infinity, 0};
  double errorSquares = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double value = values[i], expected = reference[i];
    if (std::isinf(value) && value == expected)
      continue;
    double error = std::abs(value - expected);
    if (!std::isfinite(error))
      error = infinity;
    result.maxAbs = std::max(result.maxAbs, error);
    errorSquares += error * error;
    squares += expected * expected;
  }
  result.values = int64_t(values.size());
  if (result.maxAbs == infinity)
    result.relativeFrobenius = infinity;
  else if (errorSquares > 0)
    result.relativeFrobenius =
        squares > 0 ? std::sqrt(errorSquares / squares) : infinity;
  return result;
}

ErrorMeasure reference::measureError(const std::vector<float> &values,
                                     const std::vector<double> &reference) {
  return measure(values, reference);
}

ErrorMeasure reference::measureError(const std::vector<float> &values,
                                     const std::vector<float> &reference) {
  return measure(values, reference);
}
