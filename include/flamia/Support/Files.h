//===- Files.h - Files written only on success ------------------*- C++ -*-===//
//
// Every tool collects what it has to write and writes it in one step at its
// end, so that a failure leaves no file behind. Header only: programs of both
// kinds (static LLVMSupport, shared libLLVM) use it.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SUPPORT_FILES_H
#define FLAMIA_SUPPORT_FILES_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <set>
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

/// /dev/null and the like, and links (/dev/stdout is one, to a file when
/// standard output is redirected): a renamed file would take their place.
inline bool isWrittenInPlace(const std::string &path) {
  return llvm::sys::fs::is_symlink_file(path) ||
         (llvm::sys::fs::exists(path) &&
          !llvm::sys::fs::is_regular_file(path) &&
          !llvm::sys::fs::is_directory(path));
}

} // namespace detail

/// Refuses two files of one path: one of them would be lost.
inline llvm::Error checkDistinct(const std::vector<OutputFile> &files) {
  std::set<std::string> seen;
  for (const OutputFile &file : files) {
    llvm::SmallString<128> full(file.path);
    if (std::error_code failure = llvm::sys::fs::make_absolute(full))
      return llvm::createStringError("cannot write '" + file.path +
                                     "': " + failure.message());
    llvm::sys::path::remove_dots(full, /*remove_dot_dot=*/true);
    bool shared = file.path == "-" || detail::isWrittenInPlace(file.path);
    if (!shared && !seen.insert(full.str().str()).second)
      return llvm::createStringError("cannot write '" + file.path +
                                     "': two outputs have this path");
  }
  return llvm::Error::success();
}

/// Writes all files or none: each goes to a temporary file beside its place,
/// and the temporary files are renamed when all are complete. Devices and
/// links are written in place.
inline llvm::Error writeFiles(const std::vector<OutputFile> &files) {
  if (llvm::Error error = checkDistinct(files))
    return error;
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
    if (detail::isWrittenInPlace(file.path)) {
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
    if (file.path == "-" || detail::isWrittenInPlace(file.path))
      continue;
    if (llvm::Error error = temporary[next++].keep(file.path)) {
      temporary.erase(temporary.begin(), temporary.begin() + next);
      return discard(detail::cannotWrite(
          file.path, llvm::errorToErrorCode(std::move(error))));
    }
  }
  return llvm::Error::success();
}

/// Files and the folders they need.
struct OutputSet {
  std::vector<std::string> folders;
  std::vector<OutputFile> files;
};

/// Makes the folders and writes all files, or leaves nothing new behind.
inline llvm::Error writeOutputSet(const OutputSet &set) {
  std::vector<std::string> made;
  llvm::Error error = llvm::Error::success();
  for (const std::string &folder : set.folders) {
    // The folders above that are missing too, outermost last.
    for (llvm::StringRef path = folder;
         !path.empty() && !llvm::sys::fs::exists(path);
         path = llvm::sys::path::parent_path(path))
      made.push_back(path.str());
    if (std::error_code failure = llvm::sys::fs::create_directories(folder)) {
      error = llvm::createStringError("cannot create folder '" + folder +
                                      "': " + failure.message());
      break;
    }
  }
  if (!error)
    error = writeFiles(set.files);
  if (error) {
    // Deepest first; a folder that holds something stays.
    std::sort(made.begin(), made.end(),
              [](const std::string &a, const std::string &b) {
                return a.size() > b.size();
              });
    for (const std::string &folder : made) {
      std::error_code kept = llvm::sys::fs::remove(folder);
      (void)kept;
    }
  }
  return error;
}

} // namespace flamia

#endif // FLAMIA_SUPPORT_FILES_H
