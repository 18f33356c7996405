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

  /// Reads all launch records of a folder, in the order of their names. Other
  /// .json files (an index, for instance) are passed over; a folder without
  /// any record, or with a damaged one, is an error.
  static llvm::Expected<KernelLibrary> open(llvm::StringRef directory);

  /// The record of `kernel` for `arch` (empty: any) whose parameters include
  /// all of `parameters`. An error lists what was asked for.
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
