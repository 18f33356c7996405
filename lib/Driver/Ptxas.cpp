//===- Ptxas.cpp - Finding and running ptxas ------------------------------===//
//
// ptxas is a separate program of the CUDA toolkit. Its version is checked
// before it is run, because an old one only says "unknown target".
//
//===----------------------------------------------------------------------===//

#include "flamia/Driver/Driver.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace llvm;
using namespace flamia;
using namespace flamia::driver;

namespace {
/// A temporary folder, removed unless kept.
class TemporaryFolder {
public:
  Error create() {
    if (std::error_code failure =
            sys::fs::createUniqueDirectory("flamiac", path))
      return createStringError("cannot create a temporary folder: " +
                               failure.message());
    return Error::success();
  }
  ~TemporaryFolder() {
    if (!path.empty() && !kept)
      consumeError(errorCodeToError(sys::fs::remove_directories(path)));
  }
  std::string file(const Twine &name) const {
    SmallString<128> result(path);
    sys::path::append(result, name);
    return result.str().str();
  }
  void keep() { kept = true; }

private:
  SmallString<128> path;
  bool kept = false;
};
} // namespace

static std::string readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/false,
                            /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

static Error writeFile(StringRef path, StringRef text) {
  std::error_code failure;
  raw_fd_ostream stream(path, failure);
  if (!failure) {
    stream << text;
    stream.close();
    failure = stream.error();
    stream.clear_error();
  }
  if (failure)
    return createStringError("cannot write '" + path +
                             "': " + failure.message());
  return Error::success();
}

/// Runs a program with stdout and stderr in one file; returns the exit code,
/// negative when it could not be started or crashed, and then the reason.
static std::pair<int, std::string> run(ArrayRef<std::string> command,
                                       StringRef logPath) {
  SmallVector<StringRef> args(command.begin(), command.end());
  std::optional<StringRef> redirects[] = {StringRef(""), logPath, logPath};
  std::string reason;
  int code =
      sys::ExecuteAndWait(command.front(), args, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &reason);
  return {code, std::to_string(code) + (reason.empty() ? "" : ", ") + reason};
}

Expected<Ptxas> driver::findPtxas() {
  Ptxas ptxas;
  if (const char *given = std::getenv("FLAMIA_PTXAS"); given && *given) {
    ptxas.path = given;
    if (!sys::fs::can_execute(ptxas.path))
      return createStringError("FLAMIA_PTXAS names '" + ptxas.path +
                               "', which cannot be executed");
  } else if (ErrorOr<std::string> found = sys::findProgramByName("ptxas")) {
    ptxas.path = *found;
  } else {
    ptxas.path = "/usr/local/cuda/bin/ptxas";
    if (!sys::fs::can_execute(ptxas.path))
      return createStringError(
          "no ptxas found in $FLAMIA_PTXAS, PATH or /usr/local/cuda/bin; "
          "--emit=ptx needs none");
  }
  TemporaryFolder folder;
  if (Error error = folder.create())
    return std::move(error);
  std::string log = folder.file("version");
  std::string code = run({ptxas.path, "--version"}, log).second;
  std::string text = readFile(log);
  SmallVector<StringRef> parts;
  if (!Regex("release ([0-9]+)\\.([0-9]+)").match(text, &parts))
    return createStringError("'" + ptxas.path +
                             " --version' does not name a release (exit code " +
                             code + "): " + StringRef(text).trim().str());
  unsigned major = 0, minor = 0;
  parts[1].getAsInteger(10, major);
  parts[2].getAsInteger(10, minor);
  ptxas.version = VersionTuple(major, minor);
  return ptxas;
}

Error driver::checkPtxas(const Ptxas &ptxas, const Target &target) {
  VersionTuple needed(target.ptxasMajor, target.ptxasMinor);
  if (ptxas.version >= needed)
    return Error::success();
  return createStringError(target.name.str() +
                           " needs ptxas >= " + needed.getAsString() +
                           " (PTX " + target.ptxVersion.str() + "), found " +
                           ptxas.version.getAsString() + " at " + ptxas.path);
}

/// Numbers in front of fixed words of `ptxas -v`.
static Resources parseResources(StringRef log) {
  Resources result;
  auto number = [&](const char *pattern, unsigned &value) {
    SmallVector<StringRef> parts;
    if (Regex(pattern).match(log, &parts))
      parts[1].getAsInteger(10, value);
  };
  number("Used ([0-9]+) registers", result.registers);
  number("used ([0-9]+) barriers", result.barriers);
  number("([0-9]+) bytes stack frame", result.stackBytes);
  number("([0-9]+) bytes spill stores", result.spillStoreBytes);
  number("([0-9]+) bytes spill loads", result.spillLoadBytes);
  number("([0-9]+) bytes smem", result.staticSharedBytes);
  return result;
}

Expected<Assembly> driver::assemble(const Ptxas &ptxas, StringRef ptx,
                                    const Target &target, StringRef kernel,
                                    bool lineInfo) {
  if (Error error = checkPtxas(ptxas, target))
    return std::move(error);
  TemporaryFolder folder;
  if (Error error = folder.create())
    return std::move(error);
  // Fixed names: the cubin's bytes must not depend on the folder.
  std::string source = folder.file(kernel + ".ptx");
  std::string cubin = folder.file(kernel + ".cubin");
  std::string log = folder.file("log");
  if (Error error = writeFile(source, ptx))
    return std::move(error);
  std::vector<std::string> command = {ptxas.path, "-v",
                                      "-arch=" + target.name.str()};
  if (lineInfo)
    command.push_back("-lineinfo");
  command.insert(command.end(), {source, "-o", cubin});
  auto [code, reason] = run(command, log);
  Assembly result;
  result.log = readFile(log);
  result.cubin = readFile(cubin);
  if (code != 0 || result.cubin.empty()) {
    folder.keep();
    consumeError(errorCodeToError(sys::fs::remove(log)));
    consumeError(errorCodeToError(sys::fs::remove(cubin)));
    return createStringError("ptxas failed on " + kernel + " (exit code " +
                             reason + "):\n" + StringRef(result.log).trim() +
                             "\nrepeat with: " + join(command, " "));
  }
  result.resources = parseResources(result.log);
  return result;
}
