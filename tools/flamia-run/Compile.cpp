//===- Compile.cpp - Kernels for flamia-run -------------------------------===//
//
// Runs flamiac.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <vector>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;

namespace {

/// One running flamiac.
struct Process {
  std::vector<std::string> command;
  std::string log; ///< File with its output.
  sys::ProcessInfo info;
};

std::string joined(const std::vector<std::string> &command) {
  std::string text;
  for (const std::string &word : command)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

Error start(Process &process) {
  SmallVector<StringRef> words(process.command.begin(), process.command.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(process.log),
                                          StringRef(process.log)};
  std::string fault;
  bool failed = false;
  process.info =
      sys::ExecuteNoWait(process.command.front(), words, std::nullopt,
                         redirects, /*MemoryLimit=*/0, &fault, &failed);
  if (failed)
    return createStringError("cannot start '" + process.command.front() +
                             "': " + fault);
  return Error::success();
}

Error wait(Process &process) {
  std::string fault;
  sys::ProcessInfo result =
      sys::Wait(process.info, /*SecondsToWait=*/std::nullopt, &fault);
  if (result.ReturnCode == 0)
    return Error::success();
  std::string text;
  if (ErrorOr<std::unique_ptr<MemoryBuffer>> log =
          MemoryBuffer::getFile(process.log))
    text = (*log)->getBuffer().rtrim().str();
  return createStringError(
      "flamiac failed (exit code " + Twine(result.ReturnCode) +
      "): " + joined(process.command) + "\n" + text + fault);
}

} // namespace

TemporaryFolder::~TemporaryFolder() {
  if (folder.empty())
    return;
  // Nothing can be done about leftovers.
  std::error_code failure = sys::fs::remove_directories(folder);
  (void)failure;
}

Error TemporaryFolder::create() {
  SmallString<128> created;
  if (std::error_code failure =
          sys::fs::createUniqueDirectory("flamia-run", created))
    return createStringError("cannot create a temporary folder: " +
                             failure.message());
  folder = created.str().str();
  return Error::success();
}

Installation run::findInstallation(const std::string &program) {
  Installation installation;
  static int anchor;
  std::string self = sys::fs::getMainExecutable(program.c_str(), &anchor);
  StringRef bin = sys::path::parent_path(self);

  SmallString<128> flamiac(bin);
  sys::path::append(flamiac, "flamiac");
  const char *override = std::getenv("FLAMIA_FLAMIAC");
  installation.flamiac = override ? override : flamiac.str().str();

  SmallString<128> installed(sys::path::parent_path(bin));
  sys::path::append(installed, "share", "flamia", "kernels");
  const char *sources = std::getenv("FLAMIA_KERNEL_SOURCES");
  if (sources)
    installation.kernels = sources;
  else if (sys::fs::is_directory(installed))
    installation.kernels = installed.str().str();
  else
    installation.kernels = FLAMIA_SOURCE_KERNELS;
  return installation;
}

/// flamiac on one source; the process is not started yet.
static Process processFor(const Installation &installation, StringRef arch,
                          StringRef folder, StringRef source,
                          const std::vector<std::string> &definitions) {
  Process process;
  SmallString<128> path(installation.kernels);
  sys::path::append(path, source);
  process.command = {installation.flamiac, path.str().str(),
                     "-arch=" + arch.str()};
  for (const std::string &definition : definitions) {
    process.command.push_back("-D");
    process.command.push_back(definition);
  }
  process.command.push_back("-o");
  process.command.push_back(folder.str() + "/");
  process.log = folder.str() + "/" + source.str() + ".log";
  return process;
}

/// Runs all processes, `parallel` at a time. After a failure no more are
/// started; the first error is returned when all have ended.
static Error runAll(std::vector<Process> &processes, size_t parallel) {
  Error error = Error::success();
  size_t started = 0, ended = 0;
  auto keep = [&](Error failure) {
    if (error)
      consumeError(std::move(failure));
    else
      error = std::move(failure);
  };
  while (true) {
    bool more = !error && started < processes.size();
    if (more && started - ended < parallel) {
      if (Error failure = start(processes[started]))
        keep(std::move(failure));
      else
        ++started;
      continue;
    }
    if (ended == started)
      return error;
    if (Error failure = wait(processes[ended++]))
      keep(std::move(failure));
  }
}

Error run::compileKernels(const Installation &installation,
                          const KernelChoice &choice, StringRef folder) {
  if (!sys::fs::can_execute(installation.flamiac))
    return createStringError(
        "there is no compiler at '" + installation.flamiac +
        "': set FLAMIA_FLAMIAC, or give compiled kernels with --kernels=DIR");
  std::string dim = "head_dim=" + std::to_string(choice.headDim);
  auto boolean = [](const char *name, bool value) {
    return std::string(name) + (value ? "=true" : "=false");
  };
  std::vector<std::string> attention = {dim, boolean("causal", choice.causal)};
  std::vector<std::string> quantize = {dim};
  // The first choice of the parameter is mxfp8.
  if (choice.format != runtime::Format::Mxfp8)
    for (std::vector<std::string> *definitions : {&attention, &quantize})
      definitions->push_back("format=" + runtime::nameOf(choice.format).str());
  std::vector<Process> processes;
  auto add = [&](StringRef source,
                 const std::vector<std::string> &definitions) {
    processes.push_back(
        processFor(installation, choice.arch, folder, source, definitions));
  };
  // The longest ones first.
  if (choice.backward) {
    add("attention_bwd_dkdv.mlir", attention);
    add("attention_bwd_dq.mlir", attention);
    add("attention_bwd_prep.mlir", {dim, boolean("dlse", choice.dLse)});
  }
  attention.push_back("slots=" + std::to_string(choice.slots));
  add("attention_fwd.mlir", attention);
  add("quantize.mlir", quantize);
  processes.back().command.push_back("--kernel=quantize_qkv");
  return runAll(processes, 2);
}

std::string run::ptxasVersion() {
  const char *given = std::getenv("FLAMIA_PTXAS");
  std::string ptxas = given ? given : "";
  if (ptxas.empty()) {
    ErrorOr<std::string> found = sys::findProgramByName("ptxas");
    ptxas = found ? *found : "/usr/local/cuda/bin/ptxas";
  }
  TemporaryFolder folder;
  if (!sys::fs::can_execute(ptxas))
    return "no ptxas";
  if (Error error = folder.create()) {
    consumeError(std::move(error));
    return "ptxas of unknown version";
  }
  Process process;
  process.command = {ptxas, "--version"};
  process.log = folder.path() + "/version";
  Error error = start(process);
  if (!error)
    error = wait(process);
  consumeError(std::move(error));
  std::string version = "of unknown version";
  if (ErrorOr<std::unique_ptr<MemoryBuffer>> log =
          MemoryBuffer::getFile(process.log)) {
    // "Cuda compilation tools, release 13.0, V13.0.88"
    StringRef text = (*log)->getBuffer();
    StringRef number = text.rsplit(", V").second;
    if (number.size() < text.size() && !number.empty())
      version = number.take_until([](char c) { return c <= ' '; }).str();
  }
  return "ptxas " + version;
}
