//===- Output.cpp - Files written only on success -------------------------===//

#include "Flamiac.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::flamiac;

static Error cannotWrite(const std::string &path, std::error_code failure) {
  return createStringError("cannot write '" + path + "': " + failure.message());
}

/// /dev/null and the like: a renamed file would take their place.
static bool isDevice(const std::string &path) {
  return sys::fs::exists(path) && !sys::fs::is_regular_file(path) &&
         !sys::fs::is_directory(path);
}

Error flamiac::writeFiles(const std::vector<OutputFile> &files) {
  std::vector<sys::fs::TempFile> temporary;
  auto discard = [&](Error error) {
    for (sys::fs::TempFile &file : temporary)
      consumeError(file.discard());
    return error;
  };
  for (const OutputFile &file : files) {
    if (file.path == "-") {
      outs() << file.bytes;
      outs().flush();
      continue;
    }
    if (isDevice(file.path)) {
      std::error_code failure;
      raw_fd_ostream stream(file.path, failure);
      if (failure)
        return discard(cannotWrite(file.path, failure));
      stream << file.bytes;
      stream.close();
      failure = stream.error();
      stream.clear_error();
      if (failure)
        return discard(cannotWrite(file.path, failure));
      continue;
    }
    if (sys::fs::is_directory(file.path))
      return discard(cannotWrite(
          file.path, std::make_error_code(std::errc::is_a_directory)));
    Expected<sys::fs::TempFile> temp = sys::fs::TempFile::create(
        file.path + ".%%%%%%%%.tmp", sys::fs::all_read | sys::fs::owner_write);
    if (!temp)
      return discard(
          cannotWrite(file.path, errorToErrorCode(temp.takeError())));
    raw_fd_ostream stream(temp->FD, /*shouldClose=*/false);
    stream << file.bytes;
    stream.flush();
    std::error_code failure = stream.error();
    stream.clear_error();
    temporary.push_back(std::move(*temp));
    if (failure)
      return discard(cannotWrite(file.path, failure));
  }
  size_t next = 0;
  for (const OutputFile &file : files) {
    if (file.path == "-" || isDevice(file.path))
      continue;
    if (Error error = temporary[next++].keep(file.path)) {
      temporary.erase(temporary.begin(), temporary.begin() + next);
      return discard(
          cannotWrite(file.path, errorToErrorCode(std::move(error))));
    }
  }
  return Error::success();
}
