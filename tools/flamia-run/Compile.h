//===- Compile.h - Kernels for flamia-run -----------------------*- C++ -*-===//
//
// Starts flamiac as a process, so that flamia-run links no MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_COMPILE_H
#define FLAMIA_TOOLS_FLAMIA_RUN_COMPILE_H

#include "flamia/Runtime/Attention.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace flamia {
namespace run {

/// A temporary folder that is removed with its contents.
class TemporaryFolder {
public:
  TemporaryFolder() = default;
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  llvm::Error create();
  const std::string &path() const { return folder; }

private:
  std::string folder;
};

/// Where flamia's own programs and kernel sources lie.
struct Installation {
  std::string flamiac; ///< $FLAMIA_FLAMIAC, or beside the running program.
  std::string kernels; ///< $FLAMIA_KERNEL_SOURCES, installed, or the source.
};
/// `program` is the path of the running program.
Installation findInstallation(const std::string &program);

/// One configuration of the kernels.
struct KernelChoice {
  std::string arch;
  int64_t headDim = 128;
  bool causal = true;
  runtime::Format format = runtime::Format::Mxfp8;
  bool backward = false;
  bool dLse = false; ///< The backward takes one.
  /// Query heads that a CTA of the forward works on; they share a kv head.
  int64_t slots = 1;
};

/// Compiles the kernels of one configuration into `folder`, two flamiac
/// processes at a time. The error holds what flamiac printed.
llvm::Error compileKernels(const Installation &installation,
                           const KernelChoice &choice, llvm::StringRef folder);

/// "ptxas 13.0.88", or that there is none.
std::string ptxasVersion();

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_COMPILE_H
