//===- LaunchFile.h - launch.json -------------------------------*- C++ -*-===//
//
// Reads both forms of launch.json (docs/simulator.md) into a simulator launch,
// writes outputs and compares them with what is expected.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_SIM_LAUNCHFILE_H
#define FLAMIA_TOOLS_SIM_LAUNCHFILE_H

#include "flamia/Sim/Npy.h"
#include "flamia/Sim/Simulator.h"
#include "flamia/Support/Files.h"

#include "llvm/Support/JSON.h"

#include <deque>
#include <optional>

namespace flamia {
namespace simtool {

/// One .npy file that the kernel reads or writes.
struct Buffer {
  std::string file; ///< As named in launch.json.
  sim::NpyArray array;
  bool bf16 = false; ///< 16-bit patterns stand for BF16 values.
  sim::BufferAccess access = sim::BufferAccess::Read;
  std::string output; ///< Written after the run, may be empty.
  uint64_t address = 0;
};

enum class Rule { RelativeFrobenius, MaxAbs, Bitwise };

struct Expectation {
  std::string output, expected;
  Rule rule = Rule::Bitwise;
  double limit = 0;
};

/// Result of one comparison.
struct Comparison {
  std::string output;
  std::string rule;
  double value = 0, limit = 0;
  bool ok = false;
  std::string message; ///< Why it failed.
};

class LaunchFile {
public:
  /// Reads and checks `path`; loads the module and all buffers.
  llvm::Error load(llvm::StringRef path);
  /// Writes the outputs beside launch.json.
  std::vector<OutputFile> outputFiles() const;
  /// Compares the outputs; an error only when a file cannot be read.
  llvm::Expected<std::vector<Comparison>> compare() const;

  const sim::Module &module() const { return *ptx; }
  sim::DeviceMemory &memory() { return device; }
  const sim::LaunchConfig &config() const { return launch; }
  /// The grid has no CTA: there is nothing to run.
  bool empty() const { return nothingToRun; }

private:
  llvm::Error loadPtxForm(const llvm::json::Object &root);
  llvm::Error loadRecordForm(const llvm::json::Object &root);
  llvm::Error loadExpectations(const llvm::json::Object &root);
  llvm::Error parseParam(const llvm::json::Object &param, size_t index);
  llvm::Error parseTensorMap(const llvm::json::Object &map,
                             const llvm::Twine &where);
  /// Reads a buffer, or finds it when the same file was named before.
  llvm::Expected<Buffer *> buffer(llvm::StringRef file,
                                  const llvm::json::Object &spec,
                                  const llvm::Twine &where);
  void mapBuffer(Buffer &buffer);
  llvm::Error fail(const llvm::Twine &message) const;
  std::string pathOf(llvm::StringRef file) const;
  const Buffer *findOutput(llvm::StringRef name) const;

  std::string path, folder;
  std::unique_ptr<sim::Module> ptx;
  sim::DeviceMemory device;
  sim::LaunchConfig launch;
  std::deque<Buffer> buffers;
  std::vector<Expectation> expectations;
  bool nothingToRun = false;
};

} // namespace simtool
} // namespace flamia

#endif // FLAMIA_TOOLS_SIM_LAUNCHFILE_H
