//===- KernelLibrary.h - A folder of compiled kernels -----------*- C++ -*-===//
//
// Finds launch records by kernel name and compile-time parameters in a folder
// that flamiac wrote.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_KERNELLIBRARY_H
#define FLAMIA_RUNTIME_KERNELLIBRARY_H

#include "flamia/Runtime/LaunchRecord.h"

namespace flamia {
namespace runtime {

class KernelLibrary {
public:
  /// Parameters asked for, as written in records ("128", "true").
  using Parameters = std::vector<std::pair<std::string, std::string>>;

  /// Reads the launch records that the folder's index.json lists (flamiac
  /// --library), or without an index all of the folder in the order of their
  /// names. No record at all, or a damaged one, is an error.
  static llvm::Expected<KernelLibrary> open(llvm::StringRef directory);

  /// The record of `kernel` for `arch` (empty: any) whose parameters include
  /// all of `parameters`. A kernel without a parameter `format` serves format
  /// mxfp8. An error lists what was asked for.
  llvm::Expected<const LaunchRecord *> find(llvm::StringRef kernel,
                                            llvm::StringRef arch,
                                            const Parameters &parameters) const;

  llvm::ArrayRef<LaunchRecord> records() const { return launchRecords; }
  const std::string &directory() const { return path; }

private:
  std::string path;
  std::vector<LaunchRecord> launchRecords;
};

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_RUNTIME_KERNELLIBRARY_H
