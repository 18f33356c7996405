//===- Files.h - Files written only on success ------------------*- C++ -*-===//
//
// Every tool collects what it has to write and writes it in one step at its
// end, so that a failure leaves no file behind. Header only: programs of both
// kinds (static LLVMSupport, shared libLLVM) use it.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SUPPORT_FILES_H
#define FLAMIA_SUPPORT_FILES_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace flamia {

/// A file's path ("-" for standard output) and its whole content.
struct OutputFile {
  std::string path;
  std::string bytes;
};

namespace detail {
inline llvm::Error cannotWrite(const std::string &path,
                               std::error_code failure) {
  return llvm::createStringError("cannot write '" + path +
                                 "': " + failure.message());
}

/// /dev/null and the like: a renamed file would take their place.
inline bool isDevice(const std::string &path) {
  return llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path) &&
         !llvm::sys::fs::is_directory(path);
}

} // namespace detail

/// Writes all files or none: each goes to a temporary file beside its place,
/// and the temporary files are renamed when all are complete. Devices are
/// written in place.
inline llvm::Error writeFiles(const std::vector<OutputFile> &files) {
  std::vector<llvm::sys::fs::TempFile> temporary;
  auto discard = [&](llvm::Error error) {
    for (llvm::sys::fs::TempFile &file : temporary)
      llvm::consumeError(file.discard());
    return error;
  };
  for (const OutputFile &file : files) {
    if (file.path == "-") {
      llvm::outs() << file.bytes;
      llvm::outs().flush();
      continue;
    }
    if (detail::isDevice(file.path)) {
      std::error_code failure;
      llvm::raw_fd_ostream stream(file.path, failure);
      if (failure)
        return discard(detail::cannotWrite(file.path, failure));
      stream << file.bytes;
      stream.close();
      failure = stream.error();
      stream.clear_error();
      if (failure)
        return discard(detail::cannotWrite(file.path, failure));
      continue;
    }
    if (llvm::sys::fs::is_directory(file.path))
      return discard(detail::cannotWrite(
          file.path, std::make_error_code(std::errc::is_a_directory)));
    llvm::Expected<llvm::sys::fs::TempFile> temp =
        llvm::sys::fs::TempFile::create(file.path + ".%%%%%%%%.tmp",
                                        llvm::sys::fs::all_read |
                                            llvm::sys::fs::owner_write);
    if (!temp)
      return discard(detail::cannotWrite(
          file.path, llvm::errorToErrorCode(temp.takeError())));
    llvm::raw_fd_ostream stream(temp->FD, /*shouldClose=*/false);
    stream << file.bytes;
    stream.flush();
    std::error_code failure = stream.error();
    stream.clear_error();
    temporary.push_back(std::move(*temp));
    if (failure)
      return discard(detail::cannotWrite(file.path, failure));
  }
  size_t next = 0;
  for (const OutputFile &file : files) {
    if (file.path == "-" || detail::isDevice(file.path))
      continue;
    if (llvm::Error error = temporary[next++].keep(file.path)) {
      temporary.erase(temporary.begin(), temporary.begin() + next);
      return discard(detail::cannotWrite(
          file.path, llvm::errorToErrorCode(std::move(error))));
    }
  }
  return llvm::Error::success();
}

} // namespace flamia

#endif // FLAMIA_SUPPORT_FILES_H
