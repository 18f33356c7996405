//===- Compare.cpp - flamia-run's forward beside its references -----------===//
//
// Judges operands, O, LSE and what the forward saves for the backward.
//
//===----------------------------------------------------------------------===//

#include "Difference.h"
#include "Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::reference;

std::string run::number(double value) {
  if (value == 0)
    return "0";
  return std::abs(value) >= 1e-3 && std::abs(value) < 1e6
             ? formatv("{0:F5}", value).str()
             : formatv("{0:E2}", value).str();
}

std::string run::oddText(int64_t odd) {
  return odd ? formatv(", {0} non-finite values differ", odd).str() : "";
}

Line run::judgedLine(const Twine &name, std::string text, bool ok,
                     const Difference &difference, int64_t rowSize) {
  int64_t left = difference.left / rowSize;
  if (left == 0)
    return {name.str(), std::move(text), ok};
  if (difference.judged == 0)
    return {name.str(),
            formatv("not compared: all {0} rows are left out", left).str()};
  return {name.str(),
          formatv("{0}, {1} of {2} rows left out", text, left,
                  left + difference.judged / rowSize)
              .str(),
          ok};
}

bool Report::pass() const {
  return all_of(lines, [](const Line &line) { return line.ok; });
}

bool run::compareQuantized(const DeviceResult &device,
                           const QuantizedInputs &expected, Report &report) {
  ByteDifference bytes;
  bytes.add("q_data", device.q.payload, expected.q.payload);
  bytes.add("q_scale", device.q.scales, expected.q.scales);
  bytes.add("k_data", device.k.payload, expected.k.payload);
  bytes.add("k_scale", device.k.scales, expected.k.scales);
  bytes.add("v_data", device.v.payload, expected.v.payload);
  bytes.add("v_scale_rows", device.v.scalesAlongRows,
            expected.v.scalesAlongRows);
  bytes.add("v_scale_cols", device.v.scalesAlongCols,
            expected.v.scalesAlongCols);
  if (expected.format == Format::Nvfp4) {
    bytes.add("q_fp4", device.qScores.payload, expected.qScores.payload);
    bytes.add("q_fp4_scale", device.qScores.scales, expected.qScores.scales);
    bytes.add("k_fp4", device.kScores.payload, expected.kScores.payload);
    bytes.add("k_fp4_scale", device.kScores.scales, expected.kScores.scales);
  }
  std::string text =
      formatv("payloads and scales of Q, K, V: {0} bytes, {1} differ",
              bytes.compared, bytes.different)
          .str();
  if (bytes.different)
    text += " (" + bytes.first + ")";
  report.lines.push_back({"quantize", text, bytes.different == 0});
  return bytes.different == 0;
}

/// Largest difference of logarithms: of numbers up to 1 the difference itself,
/// of larger ones its share, since fp32 has no more digits; less what the row
/// is allowed.
static double logarithmError(const std::vector<float> &found,
                             const std::vector<float> &expected,
                             const JudgedRows &rows) {
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    double value = found[i], reference = expected[i];
    if (rows.has(i) && std::isfinite(value) && std::isfinite(reference))
      largest = std::max(largest, std::abs(value - reference) /
                                          std::max(1.0, std::abs(reference)) -
                                      double(rows.of(i)));
  }
  return largest;
}

void run::compareWithModel(const ForwardOutputs &outputs,
                           const ForwardOutputs &model,
                           const std::vector<float> &judged, Report &report) {
  int64_t dim = judged.empty() ? 1 : int64_t(outputs.o.size() / judged.size());
  JudgedRows rows = {judged, 1};
  Difference o = differenceOf(outputs.o, model.o, {judged, dim});
  report.modelError["O"] = o.strict();
  report.lines.push_back(judgedLine(
      "O vs model",
      formatv("{0} (limit {1}), max_abs {2}{3}", number(o.relative),
              number(o.limit(modelLimit)), number(o.maxAbs), oddText(o.odd)),
      o.strict() <= o.limit(modelLimit), o, dim));

  Difference lse = differenceOf(outputs.lse, model.lse, rows);
  double lseError = logarithmError(outputs.lse, model.lse, rows);
  report.modelError["LSE"] = lse.strict();
  report.lines.push_back(
      judgedLine("LSE vs model",
                 formatv("{0} (limit {1}, beyond 1 of LSE), max_abs {2}{3}",
                         number(lseError), number(modelLimit),
                         number(lse.maxAbs), oddText(lse.odd)),
                 lseError <= modelLimit && lse.odd == 0, lse, 1));

  // m and l only have meaning together: where a row's maximum is next to an
  // integer, another rounding moves m by one and l by a factor of 2.
  std::vector<float> sum(outputs.l.size()), modelSum(model.l.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = outputs.m[i] + std::log2(outputs.l[i]);
    modelSum[i] = model.m[i] + std::log2(model.l[i]);
  }
  Difference sums = differenceOf(sum, modelSum, rows);
  double sumError = logarithmError(sum, modelSum, rows);
  Difference kappa = differenceOf(outputs.kappa, model.kappa, rows);
  report.lines.push_back(judgedLine(
      "saved vs model",
      formatv("m + log2 l {0}, max_abs {1}, kappa {2}, max_abs {3} (limit "
              "{4}){5}",
              number(sumError), number(sums.maxAbs), number(kappa.relative),
              number(kappa.maxAbs), number(modelLimit),
              oddText(sums.odd + kappa.odd)),
      sumError <= modelLimit && sums.odd == 0 &&
          kappa.strict() <= kappa.limit(modelLimit),
      sums, 1));
}

Line run::fp64Line(StringRef name, const Difference &error,
                   const Difference &own, int64_t rowSize, bool generated) {
  // Too exact is a fault too: such a kernel skips the quantization.
  bool near = std::abs(error.relative - own.relative) <=
                  fp64Slack * own.relative + own.limit(0) &&
              error.odd == own.odd;
  return judgedLine(
      name + " vs fp64",
      formatv("{0}, the model's own {1} ({2}){3}", number(error.relative),
              number(own.relative),
              generated ? "limit +-5%" : "no limit for given data",
              oddText(error.odd)),
      near || !generated, error, rowSize);
}

void run::compareWithFp64(const ForwardOutputs &outputs,
                          const ForwardOutputs &model,
                          const ForwardOutputsFp64 &fp64,
                          const std::vector<float> &judged, bool generated,
                          Report &report) {
  int64_t dim = judged.empty() ? 1 : int64_t(outputs.o.size() / judged.size());
  JudgedRows rows = {judged, dim};
  Difference error = differenceOf(outputs.o, fp64.o, rows);
  report.fp64Error["O"] = error.strict();
  report.fp64Error["LSE"] =
      differenceOf(outputs.lse, fp64.lse, {judged, 1}).strict();
  report.lines.push_back(fp64Line(
      "O", error, differenceOf(model.o, fp64.o, rows), dim, generated));
}
