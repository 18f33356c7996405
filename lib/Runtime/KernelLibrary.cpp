//===- KernelLibrary.cpp - A folder of compiled kernels -------------------===//
//
// Reads the launch records of a folder.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/KernelLibrary.h"

#include "flamia/Runtime/Device.h"

#include "flamia/Support/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

namespace {

Expected<std::unique_ptr<MemoryBuffer>> read(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return makeError(ErrorCode::NotFound, "cannot read '" + path + "': " +
                                              buffer.getError().message());
  return std::move(*buffer);
}

/// The records that index.json lists, of a folder made by flamiac --library.
Expected<std::vector<std::string>> readIndex(StringRef directory,
                                             StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> buffer = read(path);
  if (!buffer)
    return buffer.takeError();
  auto damaged = [&](const Twine &what) {
    return makeError(ErrorCode::InvalidArgument, path + ": " + what);
  };
  Expected<json::Value> value = parseJson((*buffer)->getBuffer());
  if (!value)
    return damaged(toString(value.takeError()));
  const json::Object *index = value->getAsObject();
  if (!index || index->getInteger("flamia_kernel_index") != 1)
    return damaged("not a kernel index of version 1");
  const json::Array *kernels = index->getArray("kernels");
  if (!kernels)
    return damaged("missing array 'kernels'");
  std::vector<std::string> files;
  for (const json::Value &kernel : *kernels) {
    const json::Object *entry = kernel.getAsObject();
    std::optional<StringRef> record =
        entry ? entry->getString("record") : std::nullopt;
    if (!record)
      return damaged("a kernel without member 'record'");
    SmallString<128> file(directory);
    sys::path::append(file, *record);
    files.push_back(file.str().str());
  }
  return files;
}

/// Paths of the launch records in a folder.
Expected<std::vector<std::string>> recordsOf(StringRef directory) {
  SmallString<128> index(directory);
  sys::path::append(index, "index.json");
  if (sys::fs::exists(index))
    return readIndex(directory, index);
  std::vector<std::string> files, records;
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
    Expected<std::unique_ptr<MemoryBuffer>> buffer = read(file);
    if (!buffer)
      return buffer.takeError();
    if ((*buffer)->getBuffer().contains("\"flamia_launch_record\""))
      records.push_back(file);
  }
  return records;
}

} // namespace

Expected<KernelLibrary> KernelLibrary::open(StringRef directory) {
  KernelLibrary library;
  library.path = directory.str();
  Expected<std::vector<std::string>> files = recordsOf(directory);
  if (!files)
    return files.takeError();
  for (const std::string &file : *files) {
    Expected<LaunchRecord> record = LaunchRecord::load(file);
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
      if (it == record.parameters.end())
        return wanted.first == "format" && wanted.second == "mxfp8";
      return it->second == wanted.second;
    });
    if (matches)
      return &record;
  }
  std::string wanted;
  for (const auto &[name, value] : parameters)
    wanted.append(" ").append(name).append("=").append(value);
  return makeError(ErrorCode::NotFound,
                   "kernel folder '" + Twine(path) + "' has no kernel '" +
                       kernel + "'" + (wanted.empty() ? "" : " with") + wanted +
                       (arch.empty() ? "" : " for ") + arch);
}
