//===- Report.cpp - What flamia-run finds and prints ----------------------===//
//
// Judges the results and writes them down.
//
//===----------------------------------------------------------------------===//

#include "Report.h"
#include "Difference.h"
#include "Options.h"

#include "flamia/Sim/Npy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::reference;

/// "336", "0.0007324".
static std::string shortNumber(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.4g", value);
  return text;
}

void run::addBlockCounts(const QuantizedInputs &quantized, bool equal,
                         Report &report) {
  for (auto [name, tensor] :
       {std::pair<const char *, const numerics::Nvfp4Tensor *>{
            "Q", &quantized.qScores},
        {"K", &quantized.kScores}}) {
    Line line = {std::string("blocks ") + name,
                 "not counted: the bytes are not those of lib/Numerics"};
    if (equal) {
      const numerics::Nvfp4Counts &counts = tensor->counts;
      double scale = tensor->globalScale;
      report.blocks[name] = counts;
      line.text =
          formatv("{0} of 16 channels, {1} saturated (beyond {2}), {3} "
                  "flushed (up to {4})",
                  counts.blocks, counts.saturated, shortNumber(2688 * scale),
                  counts.flushed, shortNumber(0x6p-10 * scale))
              .str();
    }
    report.lines.push_back(std::move(line));
  }
}

static std::string textOf(const ProbeResult &result) {
  std::string text =
      formatv("max_abs {0}, {1} values in {2} runs", number(result.maxAbs),
              result.valuesCompared, result.runs)
          .str();
  if (!result.cuts.empty())
    text += formatv(", {0} cuts", result.cuts.size()).str();
  if (!result.ok)
    text +=
        formatv(", {0} differ: {1}", result.mismatches, result.detail).str();
  return text;
}

void run::addProbe(StringRef name, const ProbeResult &result, Report &report) {
  report.probes[name.str()] = result;
  report.lines.push_back({("probe " + name).str(), textOf(result), result.ok});
}

void run::addGradientProbe(StringRef name, const ProbeResult &result,
                           Report &report) {
  report.gradientProbes[name.str()] = result;
  report.lines.push_back(
      {("gradient " + name).str(), textOf(result), result.ok});
}

void run::addConsistency(const ConsistencyResult &result, Report &report) {
  report.consistency = result;
  std::string text = formatv("{0} weights in {1} runs, {2} one step apart, {3} "
                             "further",
                             result.weightsCompared, result.runs,
                             result.oneStep, result.further)
                         .str();
  if (!result.detail.empty())
    text += ": " + result.detail;
  report.lines.push_back({"probe consistency", text, result.ok});
}

void run::printTable(const Report &report, raw_ostream &os) {
  for (const Line &line : report.lines)
    os << formatv("{0,-20}{1,-5}{2}\n", line.name, line.ok ? "ok" : "FAIL",
                  line.text);
  os << formatv("{0,-25}", "seconds");
  for (const auto &[name, value] : report.seconds)
    os << formatv("{0} {1:F2}  ", name, value);
  os << "\n";
}

static json::Value jsonNumber(double value) {
  // JSON has no infinity.
  return std::isfinite(value) ? json::Value(value) : json::Value(nullptr);
}

/// A probe over the forward's results, together with the same one over the
/// gradients, whose own numbers are under "gradients".
static json::Object probeJson(const ProbeResult &result,
                              const ProbeResult *gradients) {
  bool ok = result.ok && (!gradients || gradients->ok);
  double maxAbs = result.maxAbs;
  int64_t values = result.valuesCompared, runs = result.runs;
  if (gradients) {
    maxAbs = std::max(maxAbs, gradients->maxAbs);
    values += gradients->valuesCompared;
    runs += gradients->runs;
  }
  json::Object object{{"max_abs", jsonNumber(maxAbs)},
                      {"ok", ok},
                      {"cuts", json::Array(result.cuts)},
                      {"failed_cuts", json::Array(result.failedCuts)},
                      {"values_compared", values},
                      {"runs", runs}};
  if (gradients)
    object["gradients"] = probeJson(*gradients, nullptr);
  return object;
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
  for (const auto &[name, result] : report.probes) {
    auto gradients = report.gradientProbes.find(name);
    probes[name] = probeJson(result, gradients == report.gradientProbes.end()
                                         ? nullptr
                                         : &gradients->second);
  }
  if (report.consistency)
    probes["consistency"] =
        json::Object{{"ok", report.consistency->ok},
                     {"values_compared", report.consistency->weightsCompared},
                     {"one_step", report.consistency->oneStep},
                     {"further", report.consistency->further},
                     {"runs", report.consistency->runs}};
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
                   {"format", runtime::nameOf(options.format)},
                   {"passes", options.hasBackward() ? "fwd-bwd" : "fwd"},
                   {"rel_err", numbers(report.fp64Error)},
                   {"rel_err_model", numbers(report.modelError)},
                   {"probes", std::move(probes)},
                   {"seconds", std::move(seconds)},
                   {"checks", std::move(checks)}};
  json::Object blocks;
  for (const auto &[name, counts] : report.blocks)
    blocks[name] = json::Object{{"blocks", counts.blocks},
                                {"saturated", counts.saturated},
                                {"flushed", counts.flushed}};
  if (!blocks.empty())
    top["blocks"] = std::move(blocks);
  if (report.rowSums)
    top["row_sums"] = jsonNumber(*report.rowSums);
  return {path.str(), formatv("{0:2}\n", json::Value(std::move(top))).str()};
}

void run::addOutputs(const AttentionShape &shape, const ForwardOutputs &outputs,
                     const Gradients *gradients, StringRef folder,
                     OutputSet &set) {
  set.folders.push_back(folder.str());
  uint64_t tokens = uint64_t(shape.tokens()), dim = uint64_t(shape.headDim);
  std::vector<uint64_t> rows = {tokens, uint64_t(shape.heads)};
  std::vector<uint64_t> full = {tokens, uint64_t(shape.heads), dim};
  std::vector<uint64_t> keys = {tokens, uint64_t(shape.kvHeads), dim};
  auto add = [&](StringRef name, const std::vector<float> &values,
                 ArrayRef<uint64_t> extents) {
    SmallString<128> path(folder);
    sys::path::append(path, name);
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(values.data()),
                            values.size() * sizeof(float));
    set.files.push_back(
        {path.str().str(), sim::encodeNpy('f', 4, extents, bytes)});
  };
  add("O.npy", outputs.o, full);
  add("LSE.npy", outputs.lse, rows);
  add("m.npy", outputs.m, rows);
  add("l.npy", outputs.l, rows);
  add("kappa.npy", outputs.kappa, rows);
  if (!gradients)
    return;
  add("dQ.npy", gradients->dq, full);
  add("dK.npy", gradients->dk, keys);
  add("dV.npy", gradients->dv, keys);
}
