//===- Options.h - Command line of flamia-run -------------------*- C++ -*-===//
//
// What the user asked for, before any file is read.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_OPTIONS_H
#define FLAMIA_TOOLS_FLAMIA_RUN_OPTIONS_H

#include "flamia/Runtime/Attention.h"
#include "flamia/Sim/Simulator.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flamia {
namespace run {

enum class DeviceKind { Sim, Model, Cuda };
enum class Pass { Forward, ForwardBackward };

struct Options {
  bool help = false, version = false;
  bool model = false; ///< Modelled times instead of a run.
  Pass pass = Pass::ForwardBackward;
  bool causal = true;
  std::optional<std::vector<int64_t>> docs; ///< Lengths.
  std::string cuSeqlens;                    ///< Path.
  std::optional<int64_t> heads, kvHeads, headDim;
  std::optional<float> softmaxScale;
  runtime::Format format = runtime::Format::Mxfp8;
  std::optional<float> qGlobalScale, kGlobalScale; ///< Of nvfp4.
  DeviceKind device = DeviceKind::Sim;
  std::string arch = "sm_100a";
  uint64_t seed = 1;
  std::optional<std::string> data; ///< normal, outliers, llm, offset.
  std::string q, k, v;             ///< Paths.
  std::string dO, dLse; ///< Paths; "normal" in dLse is generated, "" none.
  std::string out, json, kernels, saveLaunch;
  bool probeCausal = true, probeDocuments = true;
  /// Absent: with a backward.
  std::optional<bool> probeConsistency;
  std::string async = "eager"; ///< eager, late, random:SEED (validated).
  sim::CheckSet checks = sim::CheckSet::all();

  bool hasFiles() const { return !q.empty(); }
  bool hasBackward() const { return pass == Pass::ForwardBackward; }
};

/// "sim", "model", "cuda".
llvm::StringRef nameOf(DeviceKind device);

/// Parses the arguments after the program's name. Errors name the option, its
/// value and what was expected.
llvm::Expected<Options> parseOptions(llvm::ArrayRef<llvm::StringRef> arguments);

/// The text of --help.
llvm::StringRef helpText();

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_OPTIONS_H
