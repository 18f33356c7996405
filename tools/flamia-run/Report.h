//===- Report.h - What flamia-run finds and prints --------------*- C++ -*-===//
//
// Comparisons with the references, the table of results, JSON and .npy files.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_REPORT_H
#define FLAMIA_TOOLS_FLAMIA_RUN_REPORT_H

#include "Difference.h"
#include "Prepared.h"

#include "flamia/Reference/Meaning.h"
#include "flamia/Reference/Probe.h"
#include "flamia/Support/Files.h"

#include <map>
#include <optional>

namespace llvm {
class Twine;
class raw_ostream;
} // namespace llvm

namespace flamia {
namespace run {

struct Options;

/// Largest relative Frobenius error of O against the specification model: the
/// tensor core's accumulation alone gives 2.3e-4 (design.md section 5).
inline constexpr double modelLimit = 5e-4;
/// The same for gradients, where it alone gives 4.4e-4.
inline constexpr double gradientModelLimit = 1e-3;
/// Where dS cancels, errors of dQ and dK in units of GradientSizes: against
/// fp64 (VAR-8), and against the model, which rounds alike.
inline constexpr double vanishedLimit = 0x1p-4;
inline constexpr double vanishedModelLimit = 0x1p-16;
/// How far the error against fp64 may be from the specification model's own.
inline constexpr double fp64Slack = 0.05;

/// One line of the table.
struct Line {
  std::string name, text;
  bool ok = true;
};

struct Report {
  std::vector<Line> lines;
  /// Against fp64 and against the specification model, by output.
  std::map<std::string, double> fp64Error, modelError;
  /// By promise: over the forward's results, and over the gradients.
  std::map<std::string, reference::ProbeResult> probes, gradientProbes;
  std::optional<reference::ConsistencyResult> consistency;
  /// In format nvfp4, by tensor: "Q", "K".
  std::map<std::string, numerics::Nvfp4Counts> blocks;
  /// mean |row sum of dS| / mean row sum of |dS| in the specification model.
  std::optional<double> rowSums;
  std::vector<std::pair<std::string, double>> seconds;
  bool pass() const;
};

/// A verdict on `difference`, with how many of its rows were left out; if none
/// was judged, that alone.
Line judgedLine(const llvm::Twine &name, std::string text, bool ok,
                const Difference &difference, int64_t rowSize);

/// Compares payloads and scales byte for byte with lib/Numerics, and says
/// whether none differs.
bool compareQuantized(const DeviceResult &device,
                      const reference::QuantizedInputs &expected,
                      Report &report);

/// What became of the NVFP4 blocks of Q and K; `equal` says that a device made
/// the bytes that were counted.
void addBlockCounts(const reference::QuantizedInputs &quantized, bool equal,
                    Report &report);

/// Compares a device's outputs with the specification model, in the rows that
/// are `judged` (MeaningfulRows::outputs), to what they are allowed.
void compareWithModel(const reference::ForwardOutputs &outputs,
                      const reference::ForwardOutputs &model,
                      const std::vector<float> &judged, Report &report);

/// The verdict on an error against fp64 beside the specification model's own.
Line fp64Line(llvm::StringRef name, const Difference &error,
              const Difference &own, int64_t rowSize, bool generated);

/// Compares outputs with fp64. The limit, how near the error must be to the
/// model's own, counts only when `generated`: data of a user may have any
/// error.
void compareWithFp64(const reference::ForwardOutputs &outputs,
                     const reference::ForwardOutputs &model,
                     const reference::ForwardOutputsFp64 &fp64,
                     const std::vector<float> &judged, bool generated,
                     Report &report);

/// Adds what comparePrepared found.
void addPrepared(const PreparedDifference &difference, Report &report);

/// Compares gradients with the specification model (where `kernels` made them)
/// and, as compareWithFp64 does, with fp64, in the rows that are judged.
/// `options` are the model's.
void compareGradients(const reference::BackwardInputs &inputs,
                      const reference::ForwardOptions &options,
                      const reference::Gradients &gradients,
                      const reference::Gradients &model,
                      const reference::GradientsFp64 &fp64,
                      const reference::MeaningfulRows &rows, bool generated,
                      bool kernels, Report &report);

/// Notes the model's row sums of dS.
void addRowSums(const reference::BackwardDiagnostics &diagnostics,
                Report &report);

/// Adds a probe under its name ("causal", "documents").
void addProbe(llvm::StringRef name, const reference::ProbeResult &result,
              Report &report);
void addGradientProbe(llvm::StringRef name,
                      const reference::ProbeResult &result, Report &report);
void addConsistency(const reference::ConsistencyResult &result, Report &report);

void printTable(const Report &report, llvm::raw_ostream &os);

/// The machine-readable results, for the file `path`.
OutputFile jsonFile(const Options &options, const Report &report,
                    llvm::StringRef path);

/// Adds O, LSE, m, l and kappa, and dQ, dK and dV unless null, as float32 .npy
/// files of a folder.
void addOutputs(const reference::AttentionShape &shape,
                const reference::ForwardOutputs &outputs,
                const reference::Gradients *gradients, llvm::StringRef folder,
                OutputSet &set);

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_REPORT_H
