//===- Report.cpp - What flamia-run finds and prints ----------------------===//
//
// Judges the results and writes them down.
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "flamia/Sim/Npy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::reference;

namespace {

template <typename Reference>
Difference differenceOf(const std::vector<float> &values,
                        const std::vector<Reference> &expected) {
  Difference result;
  double errors = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
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
    squares += reference * reference;
  }
  if (errors > 0)
    result.relative = squares > 0 ? std::sqrt(errors / squares) : HUGE_VAL;
  return result;
}

/// "0.03841", "2.31e-04" or "0".
std::string number(double value) {
  if (value == 0)
    return "0";
  return std::abs(value) >= 1e-3 && std::abs(value) < 1e6
             ? formatv("{0:F5}", value).str()
             : formatv("{0:E2}", value).str();
}

json::Value jsonNumber(double value) {
  // JSON has no infinity.
  return std::isfinite(value) ? json::Value(value) : json::Value(nullptr);
}

std::string oddText(int64_t odd) {
  return odd ? formatv(", {0} non-finite values differ", odd).str() : "";
}

/// Bytes that differ, and where the first one is.
struct ByteDifference {
  int64_t compared = 0, different = 0;
  std::string first;

  void add(StringRef name, ArrayRef<uint8_t> found,
           ArrayRef<uint8_t> expected) {
    compared += int64_t(expected.size());
    if (found.size() != expected.size()) {
      different += int64_t(expected.size());
      first = formatv("{0} has {1} bytes, expected {2}", name, found.size(),
                      expected.size());
      return;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] == expected[i])
        continue;
      if (first.empty())
        first = formatv("{0}[{1}] is {2}, expected {3}", name, i,
                        unsigned(found[i]), unsigned(expected[i]));
      ++different;
    }
  }
};

} // namespace

bool Report::pass() const {
  return all_of(lines, [](const Line &line) { return line.ok; });
}

void run::compareQuantized(const DeviceResult &device,
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
  std::string text =
      formatv("payloads and scales of Q, K, V: {0} bytes, {1} differ",
              bytes.compared, bytes.different)
          .str();
  if (bytes.different)
    text += " (" + bytes.first + ")";
  report.lines.push_back({"quantize", text, bytes.different == 0});
}

void run::compareWithModel(const ForwardOutputs &outputs,
                           const ForwardOutputs &model, Report &report) {
  Difference o = differenceOf(outputs.o, model.o);
  report.modelError["O"] = o.odd ? HUGE_VAL : o.relative;
  report.lines.push_back(
      {"O vs model",
       formatv("{0} (limit {1}), max_abs {2}{3}", number(o.relative),
               number(modelLimit), number(o.maxAbs), oddText(o.odd))
           .str(),
       o.relative <= modelLimit && o.odd == 0});

  Difference lse = differenceOf(outputs.lse, model.lse);
  report.modelError["LSE"] = lse.odd ? HUGE_VAL : lse.relative;
  // LSE is a logarithm: near 0 only its absolute error means something.
  report.lines.push_back(
      {"LSE vs model",
       formatv("{0}, max_abs {1} (limit {2} of either){3}",
               number(lse.relative), number(lse.maxAbs), number(modelLimit),
               oddText(lse.odd))
           .str(),
       std::min(lse.relative, lse.maxAbs) <= modelLimit && lse.odd == 0});

  // m and l only have meaning together: where a row's maximum is next to an
  // integer, another rounding moves m by one and l by a factor of 2.
  std::vector<float> sum(outputs.l.size()), modelSum(model.l.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = outputs.m[i] + std::log2(outputs.l[i]);
    modelSum[i] = model.m[i] + std::log2(model.l[i]);
  }
  Difference sums = differenceOf(sum, modelSum);
  Difference kappa = differenceOf(outputs.kappa, model.kappa);
  report.lines.push_back(
      {"saved vs model",
       formatv("m + log2 l max_abs {0}, kappa {1}, max_abs {2} (limit {3}){4}",
               number(sums.maxAbs), number(kappa.relative),
               number(kappa.maxAbs), number(modelLimit),
               oddText(sums.odd + kappa.odd))
           .str(),
       std::min(sums.relative, sums.maxAbs) <= modelLimit && sums.odd == 0 &&
           kappa.relative <= modelLimit && kappa.odd == 0});
}

void run::compareWithFp64(const ForwardOutputs &outputs,
                          const ForwardOutputs &model,
                          const ForwardOutputsFp64 &fp64, bool generated,
                          Report &report) {
  Difference error = differenceOf(outputs.o, fp64.o);
  Difference own = differenceOf(model.o, fp64.o);
  report.fp64Error["O"] = error.odd ? HUGE_VAL : error.relative;
  Difference lse = differenceOf(outputs.lse, fp64.lse);
  report.fp64Error["LSE"] = lse.odd ? HUGE_VAL : lse.relative;
  // Too exact is a fault too: such a kernel skips the quantization.
  bool near =
      std::abs(error.relative - own.relative) <= fp64Slack * own.relative &&
      error.odd == own.odd;
  report.lines.push_back(
      {"O vs fp64",
       formatv("{0}, the model's own {1} ({2}){3}", number(error.relative),
               number(own.relative),
               generated ? "limit +-5%" : "no limit for given data",
               oddText(error.odd))
           .str(),
       near || !generated});
}

void run::addProbe(StringRef name, const ProbeResult &result, Report &report) {
  std::string text =
      formatv("max_abs {0}, {1} values in {2} runs", number(result.maxAbs),
              result.valuesCompared, result.runs)
          .str();
  if (!result.cuts.empty())
    text += formatv(", {0} cuts", result.cuts.size()).str();
  if (!result.ok)
    text +=
        formatv(", {0} differ: {1}", result.mismatches, result.detail).str();
  report.probes[name.str()] = result;
  report.lines.push_back({("probe " + name).str(), text, result.ok});
}

void run::printTable(const Report &report, raw_ostream &os) {
  for (const Line &line : report.lines)
    os << formatv("{0,-16}{1,-5}{2}\n", line.name, line.ok ? "ok" : "FAIL",
                  line.text);
  os << formatv("{0,-21}", "seconds");
  for (const auto &[name, value] : report.seconds)
    os << formatv("{0} {1:F2}  ", name, value);
  os << "\n";
}

OutputFile run::jsonFile(const Options &options, const Report &report,
                         StringRef path) {
  auto numbers = [](const std::map<std::string, double> &values) {
    json::Object object;
    for (const auto &[name, value] : values)
      object[name] = jsonNumber(value);
    return object;
  };
  json::Object probes;
  for (const auto &[name, result] : report.probes)
    probes[name] = json::Object{{"max_abs", jsonNumber(result.maxAbs)},
                                {"ok", result.ok},
                                {"cuts", json::Array(result.cuts)},
                                {"failed_cuts", json::Array(result.failedCuts)},
                                {"values_compared", result.valuesCompared},
                                {"runs", result.runs}};
  json::Object seconds;
  for (const auto &[name, value] : report.seconds)
    seconds[name] = value;
  json::Array checks;
  for (const Line &line : report.lines)
    checks.push_back(json::Object{
        {"name", line.name}, {"ok", line.ok}, {"text", line.text}});
  json::Object top{{"pass", report.pass()},
                   {"device", nameOf(options.device)},
                   {"arch", options.arch},
                   {"format", "mxfp8"},
                   {"rel_err", numbers(report.fp64Error)},
                   {"rel_err_model", numbers(report.modelError)},
                   {"probes", std::move(probes)},
                   {"seconds", std::move(seconds)},
                   {"checks", std::move(checks)}};
  return {path.str(), formatv("{0:2}\n", json::Value(std::move(top))).str()};
}

void run::addOutputs(const AttentionShape &shape, const ForwardOutputs &outputs,
                     StringRef folder, OutputSet &set) {
  set.folders.push_back(folder.str());
  uint64_t tokens = uint64_t(shape.tokens()), heads = uint64_t(shape.heads);
  std::vector<uint64_t> rows = {tokens, heads};
  std::vector<uint64_t> full = {tokens, heads, uint64_t(shape.headDim)};
  struct File {
    const char *name;
    const std::vector<float> *values;
    const std::vector<uint64_t> *extents;
  };
  for (const File &file :
       {File{"O.npy", &outputs.o, &full}, File{"LSE.npy", &outputs.lse, &rows},
        File{"m.npy", &outputs.m, &rows}, File{"l.npy", &outputs.l, &rows},
        File{"kappa.npy", &outputs.kappa, &rows}}) {
    SmallString<128> path(folder);
    sys::path::append(path, file.name);
    ArrayRef<uint8_t> bytes(
        reinterpret_cast<const uint8_t *>(file.values->data()),
        file.values->size() * sizeof(float));
    set.files.push_back(
        {path.str().str(), sim::encodeNpy('f', 4, *file.extents, bytes)});
  }
}
