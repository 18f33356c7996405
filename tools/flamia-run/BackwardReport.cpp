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

/// One of the gradients beside its references.
struct Gradient {
  const char *name;
  const std::vector<float> &found, &model;
  const std::vector<double> &exact;
  /// MeaningfulRows.
  const std::vector<float> &judged;
  bool cancels; ///< It is a sum of dS.
  int64_t dim;

  JudgedRows rows() const { return {judged, dim}; }
};

/// Verdicts where dS cancels. The sizes are computed when they are needed: a
/// result that keeps its limit does not ask why.
class Cancellation {
public:
  Cancellation(const BackwardInputs &inputs, const ForwardOptions &options)
      : inputs(inputs), options(options) {}

  /// True if nothing but rounding is left of the gradient: it is below 2^-10 of
  /// what it would be if nothing cancelled.
  bool vanishes(const Gradient &gradient) {
    if (!gradient.cancels)
      return false;
    return differenceOf(gradient.model, gradient.exact, gradient.rows()).size <
           0x1p-10 * sizeOf(gradient);
  }

  /// The verdict on an error in units of that size.
  Line line(const Gradient &gradient, StringRef what, const Difference &error,
            double limit, int64_t odd) {
    double size = sizeOf(gradient);
    return judgedLine(
        gradient.name + what,
        formatv("vanishes, error {0} of |dO| |V| |K| (limit {1}){2}",
                number(size > 0 ? error.error / size : error.error),
                number(limit), oddText(error.odd)),
        error.error <= limit * size && error.odd == odd, error, gradient.dim);
  }

private:
  double sizeOf(const Gradient &gradient) {
    if (!known) {
      sizes = gradientSizes(inputs, options);
      known = true;
    }
    const std::vector<double> &rows =
        std::strcmp(gradient.name, "dQ") == 0 ? sizes.queries : sizes.keys;
    double squares = 0;
    for (size_t row = 0; row < rows.size(); ++row)
      if (std::isfinite(gradient.judged[row]))
        squares += rows[row] * rows[row];
    return std::sqrt(squares);
  }

  const BackwardInputs &inputs;
  const ForwardOptions &options;
  GradientSizes sizes;
  bool known = false;
};

} // namespace

void run::addPrepared(const PreparedDifference &difference, Report &report) {
  report.lines.push_back(
      {"prepare", difference.text(), difference.different() == 0});
}

void run::compareGradients(const BackwardInputs &inputs,
                           const ForwardOptions &options,
                           const Gradients &found, const Gradients &model,
                           const GradientsFp64 &fp64,
                           const MeaningfulRows &rows, bool generated,
                           bool kernels, Report &report) {
  int64_t dim = inputs.forward.shape.headDim;
  const Gradient gradients[] = {
      {"dQ", found.dq, model.dq, fp64.dq, rows.queries, true, dim},
      {"dK", found.dk, model.dk, fp64.dk, rows.keys, true, dim},
      {"dV", found.dv, model.dv, fp64.dv, rows.keys, false, dim}};
  Cancellation cancellation(inputs, options);
  for (const Gradient &gradient : gradients) {
    if (!kernels)
      break;
    Difference difference =
        differenceOf(gradient.found, gradient.model, gradient.rows());
    report.modelError[gradient.name] = difference.strict();
    double limit = difference.limit(gradientModelLimit);
    bool near = difference.strict() <= limit;
    if (!near && cancellation.vanishes(gradient))
      report.lines.push_back(cancellation.line(gradient, " vs model",
                                               difference, vanishedModelLimit,
                                               /*odd=*/0));
    else
      report.lines.push_back(judgedLine(
          Twine(gradient.name) + " vs model",
          formatv("{0} (limit {1}), max_abs {2}{3}",
                  number(difference.relative), number(limit),
                  number(difference.maxAbs), oddText(difference.odd)),
          near, difference, dim));
  }
  for (const Gradient &gradient : gradients) {
    Difference error =
        differenceOf(gradient.found, gradient.exact, gradient.rows());
    Difference own =
        differenceOf(gradient.model, gradient.exact, gradient.rows());
    report.fp64Error[gradient.name] = error.strict();
    Line line = fp64Line(gradient.name, error, own, dim, generated);
    // An error as large as the result: it may be all that is left.
    if ((!line.ok || error.relative > 0.5) && cancellation.vanishes(gradient))
      line = cancellation.line(gradient, " vs fp64", error, vanishedLimit,
                               own.odd);
    report.lines.push_back(std::move(line));
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
