//===- KernelLibrary.cpp - A folder of compiled kernels -------------------===//
//
// Reads the launch records of a folder.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/KernelLibrary.h"

#include "flamia/Runtime/Device.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

Expected<KernelLibrary> KernelLibrary::open(StringRef directory) {
  KernelLibrary library;
  library.path = directory.str();
  std::vector<std::string> files;
  std::error_code failure;
  for (sys::fs::directory_iterator it(directory, failure), end;
       !failure && it != end; it.increment(failure))
    if (sys::path::extension(it->path()) == ".json")
      files.push_back(it->path());
  if (failure)
    return makeError(ErrorCode::NotFound, "cannot read kernel folder '" +
                                              directory +
                                              "': " + failure.message());
  llvm::sort(files);
  for (const std::string &file : files) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(file);
    if (!buffer)
      return makeError(ErrorCode::NotFound,
                       "cannot read '" + Twine(file) +
                           "': " + buffer.getError().message());
    if (!(*buffer)->getBuffer().contains("\"flamia_launch_record\""))
      continue;
    Expected<LaunchRecord> record =
        LaunchRecord::parse((*buffer)->getBuffer(), file);
    if (!record)
      return makeError(ErrorCode::InvalidArgument,
                       toString(record.takeError()));
    library.launchRecords.push_back(std::move(*record));
  }
  if (library.launchRecords.empty())
    return makeError(ErrorCode::NotFound, "kernel folder '" + directory +
                                              "' holds no launch record");
  return library;
}

Expected<const LaunchRecord *>
KernelLibrary::find(StringRef kernel, StringRef arch,
                    const Parameters &parameters) const {
  for (const LaunchRecord &record : launchRecords) {
    if (record.kernel != kernel || (!arch.empty() && record.arch != arch))
      continue;
    bool matches = all_of(parameters, [&](const auto &wanted) {
      auto it = record.parameters.find(wanted.first);
      return it != record.parameters.end() && it->second == wanted.second;
    });
    if (matches)
      return &record;
  }
  std::string wanted;
  for (const auto &[name, value] : parameters)
    wanted += " " + name + "=" + value;
  return makeError(ErrorCode::NotFound,
                   "kernel folder '" + Twine(path) + "' has no kernel '" +
                       kernel + "'" + (wanted.empty() ? "" : " with") + wanted +
                       (arch.empty() ? "" : " for ") + arch);
}
