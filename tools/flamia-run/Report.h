//===- Report.h - What flamia-run finds and prints --------------*- C++ -*-===//
//
// Comparisons with the references, the table of results, JSON and .npy files.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_REPORT_H
#define FLAMIA_TOOLS_FLAMIA_RUN_REPORT_H

#include "Options.h"
#include "Prepared.h"

#include "flamia/Reference/Probe.h"
#include "flamia/Support/Files.h"

#include <map>
#include <optional>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace flamia {
namespace run {

/// Largest relative Frobenius error of O against the specification model: the
/// tensor core's accumulation alone gives 2.3e-4 (design.md section 5).
inline constexpr double modelLimit = 5e-4;
/// The same for gradients, where it alone gives 4.4e-4.
inline constexpr double gradientModelLimit = 1e-3;
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

/// Compares payloads and scales byte for byte with lib/Numerics, and says
/// whether none differs.
bool compareQuantized(const DeviceResult &device,
                      const reference::QuantizedInputs &expected,
                      Report &report);

/// What became of the NVFP4 blocks of Q and K; `equal` says that a device made
/// the bytes that were counted.
void addBlockCounts(const reference::QuantizedInputs &quantized, bool equal,
                    Report &report);

/// Compares a device's outputs with the specification model.
void compareWithModel(const reference::ForwardOutputs &outputs,
                      const reference::ForwardOutputs &model, Report &report);

/// The verdict on an error against fp64 beside the specification model's own.
Line fp64Line(llvm::StringRef name, const Difference &error,
              const Difference &own, bool generated);

/// Compares outputs with fp64. The limit, how near the error must be to the
/// model's own, counts only when `generated`: data of a user may have any
/// error.
void compareWithFp64(const reference::ForwardOutputs &outputs,
                     const reference::ForwardOutputs &model,
                     const reference::ForwardOutputsFp64 &fp64, bool generated,
                     Report &report);

/// Adds what comparePrepared found.
void addPrepared(const PreparedDifference &difference, Report &report);

/// Compares gradients with the specification model (where `kernels` made them)
/// and, as compareWithFp64 does, with fp64.
void compareGradients(const reference::BackwardInputs &inputs,
                      float softmaxScale, const reference::Gradients &gradients,
                      const reference::Gradients &model,
                      const reference::GradientsFp64 &fp64, bool generated,
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
