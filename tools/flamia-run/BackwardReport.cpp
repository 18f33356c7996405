//===- BackwardReport.cpp - What flamia-run finds about the backward ------===//
//
// Judges the preparation and the gradients.
//
//===----------------------------------------------------------------------===//

#include "Difference.h"
#include "Report.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::reference;

namespace {

double normOf(const std::vector<double> &values) {
  double squares = 0;
  for (double value : values)
    squares += value * value;
  return std::sqrt(squares);
}

double normOf(const std::vector<uint16_t> &bits) {
  double squares = 0;
  for (uint16_t value : bits)
    squares += double(numerics::bf16ToFloat(value)) *
               double(numerics::bf16ToFloat(value));
  return std::sqrt(squares);
}

/// Norms of rows, of the whole tensor over the root of its number of rows.
double rowNorm(const std::vector<uint16_t> &bits, int64_t dim) {
  int64_t rows = int64_t(bits.size()) / dim;
  return rows ? normOf(bits) / std::sqrt(double(rows)) : 0;
}

double errorNorm(const std::vector<float> &found,
                 const std::vector<float> &expected) {
  std::vector<double> errors;
  errors.reserve(found.size());
  for (size_t i = 0; i < found.size(); ++i)
    errors.push_back(double(found[i]) - expected[i]);
  return normOf(errors);
}

/// dQ or dK where they vanish: of documents with one token nothing is left
/// but rounding. True if the limit of VAR-8 is kept, 2^-4 of `size`.
Line vanishingLine(StringRef name, StringRef what, double error, double size) {
  constexpr double limit = 0x1p-4;
  return {(name + what).str(),
          formatv("vanishes, error {0} of |dO| |V| |K| (limit {1})",
                  number(error / size), number(limit))
              .str(),
          error <= limit * size};
}

} // namespace

void run::addPrepared(const PreparedDifference &difference, Report &report) {
  report.lines.push_back(
      {"prepare", difference.text(), difference.different() == 0});
}

void run::compareGradients(const BackwardInputs &inputs, float softmaxScale,
                           const Gradients &found, const Gradients &model,
                           const GradientsFp64 &fp64, bool generated,
                           bool kernels, Report &report) {
  const AttentionInputs &forward = inputs.forward;
  int64_t dim = forward.shape.headDim;
  // What dS of size |dO| |V| would give.
  double size = softmaxScale * normOf(inputs.dO) * rowNorm(forward.v, dim);
  struct Gradient {
    const char *name;
    const std::vector<float> &found, &model;
    const std::vector<double> &exact;
    double size; ///< 0: never vanishes.
  };
  const Gradient gradients[] = {
      {"dQ", found.dq, model.dq, fp64.dq, size * rowNorm(forward.k, dim)},
      {"dK", found.dk, model.dk, fp64.dk, size * rowNorm(forward.q, dim)},
      {"dV", found.dv, model.dv, fp64.dv, 0}};
  auto vanishes = [](const Gradient &gradient) {
    return normOf(gradient.exact) < 0x1p-10 * gradient.size;
  };
  for (const Gradient &gradient : gradients) {
    if (!kernels)
      break;
    Difference difference = differenceOf(gradient.found, gradient.model);
    report.modelError[gradient.name] = difference.strict();
    if (vanishes(gradient))
      report.lines.push_back(vanishingLine(
          gradient.name, " vs model", errorNorm(gradient.found, gradient.model),
          gradient.size));
    else
      report.lines.push_back(
          {std::string(gradient.name) + " vs model",
           formatv("{0} (limit {1}), max_abs {2}{3}",
                   number(difference.relative), number(gradientModelLimit),
                   number(difference.maxAbs), oddText(difference.odd))
               .str(),
           difference.strict() <= gradientModelLimit});
  }
  for (const Gradient &gradient : gradients) {
    Difference error = differenceOf(gradient.found, gradient.exact);
    report.fp64Error[gradient.name] = error.strict();
    std::vector<float> exact(gradient.exact.begin(), gradient.exact.end());
    report.lines.push_back(
        vanishes(gradient)
            ? vanishingLine(gradient.name, " vs fp64",
                            errorNorm(gradient.found, exact), gradient.size)
            : fp64Line(gradient.name, error,
                       differenceOf(gradient.model, gradient.exact),
                       generated));
  }
}

void run::addRowSums(const BackwardDiagnostics &diagnostics, Report &report) {
  double sums = 0, absSums = 0;
  for (double sum : diagnostics.rowSums)
    sums += std::abs(sum);
  for (double sum : diagnostics.rowAbsSums)
    absSums += sum;
  report.rowSums = absSums > 0 ? sums / absSums : 0;
  report.lines.push_back(
      {"dS row sums", formatv("{0} of the rows' absolute sums, in the model",
                              number(*report.rowSums))
                          .str()});
}
