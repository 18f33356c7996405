//===- SassTools.cpp - Running ptxas and nvdisasm -------------------------===//

#include "flamia/Model/Sass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace flamia {
namespace model {

using namespace llvm;

namespace {
/// A temporary folder.
class Folder {
public:
  Error create() {
    if (std::error_code failure =
            sys::fs::createUniqueDirectory("flamia-model", path))
      return createStringError("cannot create a temporary folder: " +
                               failure.message());
    return Error::success();
  }
  ~Folder() {
    if (!path.empty())
      consumeError(errorCodeToError(sys::fs::remove_directories(path)));
  }
  std::string file(const Twine &name) const {
    SmallString<128> result(path);
    sys::path::append(result, name);
    return result.str().str();
  }

private:
  SmallString<128> path;
};
} // namespace

static Expected<std::string> readText(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return createStringError("cannot read '" + path +
                             "': " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

/// Runs a program; its standard output. The error holds what it printed.
static Expected<std::string> run(const Folder &folder,
                                 ArrayRef<std::string> command) {
  SmallVector<StringRef> args(command.begin(), command.end());
  std::string out = folder.file("out"), err = folder.file("err"), reason;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(out),
                                          StringRef(err)};
  // Redirection does not shorten files that exist.
  for (const std::string &path : {out, err})
    consumeError(errorCodeToError(sys::fs::remove(path)));
  int code = sys::ExecuteAndWait(command.front(), args, std::nullopt, redirects,
                                 0, 0, &reason);
  if (code == 0)
    return readText(out);
  Expected<std::string> text = readText(err);
  std::string said = text ? *text : toString(text.takeError());
  return createStringError("'" + command.front() + "' failed (exit code " +
                           std::to_string(code) +
                           "): " + StringRef(said).trim() + StringRef(reason));
}

static Expected<std::string> findProgram(const char *variable, StringRef name,
                                         ArrayRef<StringRef> places) {
  if (const char *given = std::getenv(variable); given && *given) {
    if (!sys::fs::can_execute(given))
      return createStringError(Twine(variable) + " names '" + given +
                               "', which cannot be executed");
    return std::string(given);
  }
  if (ErrorOr<std::string> found = sys::findProgramByName(name))
    return *found;
  for (StringRef place : places)
    if (!place.empty() && sys::fs::can_execute(place))
      return place.str();
  return createStringError("no " + name + " found in $" + variable +
                           " or PATH (scripts/setup.sh installs one)");
}

/// Where scripts/setup.sh puts nvdisasm.
static std::string installedNvdisasm() {
  SmallString<128> path;
  if (!sys::path::home_directory(path))
    return "";
  sys::path::append(path, ".cache", "flamia", "nvdisasm-13.2.78", "nvidia");
  sys::path::append(path, "cu13", "bin", "nvdisasm");
  return path.str().str();
}

Expected<Tools> findTools() {
  Tools tools;
  Expected<std::string> ptxas =
      findProgram("FLAMIA_PTXAS", "ptxas", {"/usr/local/cuda/bin/ptxas"});
  if (!ptxas)
    return ptxas.takeError();
  std::string installed = installedNvdisasm();
  Expected<std::string> nvdisasm =
      findProgram("FLAMIA_NVDISASM", "nvdisasm",
                  {installed, "/usr/local/cuda/bin/nvdisasm"});
  if (!nvdisasm)
    return nvdisasm.takeError();
  tools.ptxas = std::move(*ptxas);
  tools.nvdisasm = std::move(*nvdisasm);
  return tools;
}

static Expected<SassFunction> disassemble(const Tools &tools,
                                          const Folder &folder, StringRef cubin,
                                          StringRef entry) {
  Expected<std::string> text =
      run(folder, {tools.nvdisasm, "-c", "-g", cubin.str()});
  if (!text)
    return text.takeError();
  Expected<std::vector<SassFunction>> functions = parseSass(*text);
  if (!functions)
    return functions.takeError();
  for (SassFunction &f : *functions)
    if (f.name == entry)
      return std::move(f);
  return createStringError("'" + cubin + "' has no function '" + entry + "'");
}

Expected<SassFunction> loadSass(const Tools &tools, StringRef ptxPath,
                                StringRef cubinPath, StringRef entry,
                                StringRef arch) {
  Folder folder;
  if (Error error = folder.create())
    return std::move(error);
  Expected<std::string> ptx = readText(ptxPath);
  if (!ptx)
    return ptx.takeError();
  std::string source = folder.file("kernel.ptx"),
              cubin = folder.file("kernel.cubin");
  {
    std::error_code failure;
    raw_fd_ostream stream(source, failure);
    if (failure)
      return createStringError("cannot write '" + source +
                               "': " + failure.message());
    stream << annotatePtx(*ptx);
  }
  Expected<std::string> log =
      run(folder, {tools.ptxas, "-lineinfo", "-arch=" + arch.str(), source,
                   "-o", cubin});
  if (!log)
    return log.takeError();
  Expected<SassFunction> annotated = disassemble(tools, folder, cubin, entry);
  if (!annotated || cubinPath.empty())
    return annotated;
  Expected<SassFunction> shipped = disassemble(tools, folder, cubinPath, entry);
  if (!shipped)
    return shipped.takeError();
  for (size_t k = 0; k < std::max(annotated->code.size(), shipped->code.size());
       ++k) {
    auto at = [&](const SassFunction &f) {
      return k < f.code.size() ? f.code[k].opcode + " " + f.code[k].operands
                               : std::string("the end");
    };
    if (at(*annotated) != at(*shipped))
      return createStringError("'" + cubinPath +
                               "' is not what ptxas makes of '" + ptxPath +
                               "': instruction " + Twine(k) + " is '" +
                               at(*shipped) + "', expected '" + at(*annotated) +
                               "' (other options or another version?)");
  }
  return annotated;
}

} // namespace model
} // namespace flamia
