//===- flamiac.cpp - flamia's compiler ------------------------------------===//
//
// The command line (docs/cli.md, shared/cli.md): kernels in, cubin + launch
// record + PTX out, or the text of any stage in between.
//
//===----------------------------------------------------------------------===//

#include "Flamiac.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/thread.h"

#include <cstdlib>

using namespace mlir;
using namespace flamia;
using namespace flamia::flamiac;
namespace cl = llvm::cl;

static cl::OptionCategory category("flamiac options");

static cl::opt<std::string> inputPath(cl::Positional, cl::desc("FILE.mlir"),
                                      cl::cat(category));
static cl::opt<std::string>
    archName("arch", cl::desc("sm_100a (default), sm_103a, sm_90"),
             cl::value_desc("name"), cl::init("sm_100a"), cl::cat(category));
static cl::list<std::string>
    definitions("D", cl::Prefix, cl::desc("bind a compile-time parameter"),
                cl::value_desc("name=value"), cl::cat(category));
static cl::opt<std::string>
    emit("emit",
         cl::desc("stop at flamia, tcgen, nvvm, llvm, ptx or cubin (default: "
                  "cubin, with launch record and PTX)"),
         cl::value_desc("stage"), cl::init("cubin"), cl::cat(category));
static cl::opt<std::string>
    outputPath("o", cl::desc("output file, folder (DIR/), or - for stdout"),
               cl::value_desc("path"), cl::cat(category));
static cl::opt<unsigned>
    optLevel("O", cl::Prefix,
             cl::desc("0 waits after every step; 1, 2 (default), 3 pipeline"),
             cl::value_desc("level"), cl::init(2), cl::cat(category));
static cl::opt<std::string>
    kernelName("kernel", cl::desc("compile this kernel of the file only"),
               cl::value_desc("name"), cl::cat(category));
static cl::opt<bool> verbose("v",
                             cl::desc("show registers, spills, shared memory"),
                             cl::cat(category));
static cl::opt<std::string>
    saveTemps("save-temps", cl::ValueOptional,
              cl::desc("keep every stage's text (in the folder)"),
              cl::value_desc("dir"), cl::cat(category));
static cl::opt<bool> lineInfo("lineinfo",
                              cl::desc("source lines in PTX and cubin"),
                              cl::cat(category));
static cl::opt<std::string> exp2Emulation(
    "exp2-emulation",
    cl::desc("share of exponentials by polynomial in all kernels, 1/4 or "
             "another N/M, or 0; default: what each kernel says"),
    cl::value_desc("share"), cl::cat(category));
static cl::opt<bool>
    library("library", cl::desc("compile all of flamia's kernels into -o DIR"),
            cl::cat(category));

static cl::opt<bool>
    report("report",
           cl::desc("print counts and modelled cycles of what was compiled"),
           cl::cat(category));

/// Deeply nested input must not run out of stack.
static constexpr unsigned kStackBytes = 1u << 30;

static int fail(const llvm::Twine &message) {
  llvm::errs() << "flamiac: error: " << message << "\n";
  return 1;
}

static int fail(llvm::Error error) {
  // Passes have printed their diagnostics, with locations.
  std::string text = llvm::toString(std::move(error));
  return text.empty() ? 1 : fail(text);
}

static void printVersion(llvm::raw_ostream &stream) {
  stream << "flamiac " << FLAMIA_VERSION << "\nLLVM " << LLVM_VERSION_STRING
         << "\n";
  if (auto ptxas = driver::findPtxas())
    stream << "ptxas " << ptxas->version.getAsString() << " (" << ptxas->path
           << ")\n";
  else
    stream << "ptxas: " << llvm::toString(ptxas.takeError()) << "\n";
}

/// The library's sources: installed beside the program, else the source tree.
static std::string librarySources(const char *program) {
  static int anchor;
  SmallString<128> path(
      llvm::sys::fs::getMainExecutable(program, (void *)&anchor));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, FLAMIA_INSTALLED_KERNELS);
  return llvm::sys::fs::is_directory(path) ? path.str().str()
                                           : FLAMIA_SOURCE_KERNELS;
}

/// Starts flamia-model, which lies beside this program, on launch records.
static llvm::Error runModel(const char *program,
                            const std::vector<std::string> &records) {
  static int anchor;
  SmallString<128> path(
      llvm::sys::fs::getMainExecutable(program, (void *)&anchor));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "flamia-model");
  if (!llvm::sys::fs::can_execute(path))
    return llvm::createStringError("--report needs '" + path +
                                   "', which cannot be executed");
  llvm::outs().flush();
  SmallVector<StringRef> command = {path};
  command.append(records.begin(), records.end());
  std::string reason;
  int code =
      llvm::sys::ExecuteAndWait(path, command, std::nullopt, {}, 0, 0, &reason);
  // It has said what is wrong.
  return code == 0 ? llvm::Error::success()
                   : llvm::createStringError(reason.c_str());
}

/// The launch records of a library's folder.
static llvm::Expected<std::vector<std::string>> recordsOf(StringRef folder) {
  std::vector<std::string> records;
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator it(folder, failure), end;
       it != end && !failure; it.increment(failure)) {
    StringRef name = llvm::sys::path::filename(it->path());
    if (name.ends_with(".json") && name != "index.json")
      records.push_back(it->path());
  }
  if (failure)
    return llvm::createStringError("cannot read '" + folder +
                                   "': " + failure.message());
  llvm::sort(records);
  return records;
}

static bool isFolder(StringRef path) {
  return path.ends_with("/") || llvm::sys::fs::is_directory(path);
}

/// Files of one artifact, under -o's rules.
static void addFiles(const Artifact &artifact, Stage stage,
                     std::vector<OutputFile> &files) {
  std::string out = outputPath;
  bool folder = out.empty() || isFolder(out);
  auto beside = [&](StringRef suffix) {
    SmallString<128> path(folder ? out
                                 : llvm::sys::path::parent_path(out).str());
    llvm::sys::path::append(path, artifact.stem + suffix);
    return path.str().str();
  };
  if (stage != Stage::Cubin) {
    files.push_back({folder ? beside(suffixOf(stage)) : out, artifact.text});
    return;
  }
  if (out == "-") {
    files.push_back({"-", artifact.cubin});
    return;
  }
  files.push_back({folder ? beside(".cubin") : out, artifact.cubin});
  files.push_back({beside(".ptx"), artifact.ptx});
  files.push_back({beside(".json"), artifact.record});
}

/// Definitions are checked against all kernels of the file first: one that no
/// kernel declares is an error even if the kernels disagree about the rest.
static llvm::Error checkDefinitions(ArrayRef<Operation *> kernels) {
  for (const std::string &definition : definitions) {
    auto [name, value] = StringRef(definition).split('=');
    if (name.empty() || !StringRef(definition).contains('='))
      return llvm::createStringError("expected -D name=value, but got '" +
                                     definition + "'");
    if (definition.find(',') != std::string::npos)
      return llvm::createStringError("unexpected comma in -D '" + definition +
                                     "'");
    bool known = llvm::any_of(kernels, [name = name](Operation *kernel) {
      return bool(parametersOf(kernel).get(name));
    });
    if (known)
      continue;
    std::string names;
    llvm::SmallVector<StringRef> seen;
    for (Operation *kernel : kernels)
      for (NamedAttribute parameter : parametersOf(kernel))
        if (!llvm::is_contained(seen, parameter.getName().strref())) {
          seen.push_back(parameter.getName());
          std::string values;
          llvm::raw_string_ostream stream(values);
          parameter.getValue().print(stream, /*elideType=*/true);
          names += (names.empty() ? "" : ", ") + parameter.getName().str() +
                   " " + values;
        }
    return llvm::createStringError(
        "no parameter '" + name + "'; " +
        (names.empty() ? "the file declares none" : "there are: " + names));
  }
  return llvm::Error::success();
}

/// `records` gets the paths of the launch records that were written.
static llvm::Error compileFile(MLIRContext &context, Options &options,
                               TimingScope &timing,
                               std::vector<std::string> &records) {
  auto module = parseSource(inputPath, context);
  if (!module)
    return module.takeError();
  SmallVector<Operation *> kernels;
  std::string names;
  for (Operation *kernel : kernelsOf(**module)) {
    names += (names.empty() ? "" : ", ") + nameOf(kernel).str();
    if (kernelName.empty() || nameOf(kernel) == kernelName)
      kernels.push_back(kernel);
  }
  if (kernels.empty())
    return llvm::createStringError(
        "'" + inputPath + "' holds no flamia.kernel" +
        (kernelName.empty() ? std::string()
                            : " named '" + kernelName + "'; there are: " +
                                  (names.empty() ? "none" : names)));
  bool oneFile = !outputPath.empty() && !isFolder(outputPath);
  if (kernels.size() > 1 && oneFile && outputPath != "-")
    return llvm::createStringError(
        "'" + inputPath + "' holds several kernels (" + names +
        "): give -o a folder, or choose one with --kernel");
  if (kernels.size() > 1 && outputPath == "-" && options.stage == Stage::Cubin)
    return llvm::createStringError("'" + inputPath +
                                   "' holds several kernels (" + names +
                                   "): choose one with --kernel");
  if (llvm::Error error = checkDefinitions(kernels))
    return error;

  driver::Ptxas ptxas;
  if (options.stage == Stage::Cubin) {
    auto found = driver::findPtxas();
    if (!found)
      return found.takeError();
    ptxas = *found;
    if (llvm::Error error = driver::checkPtxas(ptxas, *options.target))
      return error;
  }
  // Stems name the files: with -o PATH the cubin's own name.
  std::vector<OutputFile> files;
  for (Operation *kernel : kernels) {
    OwningOpRef<ModuleOp> single = isolate(kernel);
    Options one = options;
    one.definitions = definitionsFor(kernel, options.definitions);
    // A name that is no identifier is refused by the lowering; texts of the
    // stages before it get a harmless file name.
    std::string stem = nameOf(kernel).str();
    for (char &c : stem)
      if (!llvm::isAlnum(c))
        c = '_';
    if (oneFile && outputPath != "-")
      stem = llvm::sys::path::stem(outputPath).str();
    auto artifact = compileKernel(*single, one, &ptxas, stem, timing, files);
    if (!artifact)
      return artifact.takeError();
    // Several modules on stdout: as --split-input-file wants them.
    if (outputPath == "-" && kernel != kernels.front() &&
        options.stage <= Stage::Nvvm)
      artifact->text.insert(0, "// -----\n");
    addFiles(*artifact, options.stage, files);
    records.push_back(files.back().path);
  }
  for (StringRef folder : {StringRef(outputPath), StringRef(saveTemps)})
    if (folder.ends_with("/") || (!folder.empty() && folder == saveTemps))
      if (std::error_code failure = llvm::sys::fs::create_directories(folder))
        return llvm::createStringError("cannot create '" + folder +
                                       "': " + failure.message());
  return writeFiles(files);
}

static int compile(const char *program) {
  auto target = driver::findTarget(archName);
  if (!target)
    return fail(target.takeError());
  if (optLevel > 3)
    return fail("expected -O0 to -O3, but got -O" + llvm::Twine(optLevel));
  Options options;
  options.target = *target;
  auto stage = llvm::StringSwitch<std::optional<Stage>>(emit)
                   .Case("flamia", Stage::Flamia)
                   .Case("tcgen", Stage::Tcgen)
                   .Case("nvvm", Stage::Nvvm)
                   .Case("llvm", Stage::Llvm)
                   .Case("ptx", Stage::Ptx)
                   .Case("cubin", Stage::Cubin)
                   .Default(std::nullopt);
  if (!stage)
    return fail("expected --emit=flamia, tcgen, nvvm, llvm, ptx or cubin, but "
                "got '" +
                emit + "'");
  options.stage = *stage;
  options.optLevel = optLevel;
  options.lineInfo = lineInfo;
  options.verbose = verbose;
  options.definitions.assign(definitions.begin(), definitions.end());
  if (exp2Emulation.getNumOccurrences())
    options.exp2Share = exp2Emulation;
  if (saveTemps.getNumOccurrences())
    options.saveTemps = saveTemps.empty() ? "." : saveTemps.getValue();

  if (report && (options.stage != Stage::Cubin || outputPath == "-"))
    return fail("--report counts cubins beside their launch records, but got " +
                (outputPath == "-" ? "-o -" : "--emit=" + emit));

  DialectRegistry registry;
  driver::registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();

  if (library) {
    if (!inputPath.empty())
      return fail("--library takes no input file, but got '" + inputPath + "'");
    if (outputPath.empty() || outputPath == "-")
      return fail("--library needs a folder: -o DIR");
    if (!definitions.empty())
      return fail("--library binds all parameters itself, but got -D " +
                  definitions.front());
    if (llvm::Error error = compileLibrary(
            context, options, librarySources(program), outputPath, timing))
      return fail(std::move(error));
    if (!report)
      return 0;
    llvm::Expected<std::vector<std::string>> records = recordsOf(outputPath);
    if (!records)
      return fail(records.takeError());
    if (llvm::Error error = runModel(program, *records))
      return fail(std::move(error));
    return 0;
  }
  if (inputPath.empty())
    return fail("no input file (see --help)");
  std::vector<std::string> records;
  if (llvm::Error error = compileFile(context, options, timing, records))
    return fail(std::move(error));
  if (report)
    if (llvm::Error error = runModel(program, records))
      return fail(std::move(error));
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // LLVM calls this where it sees no way on; the checks before it should have
  // made that impossible, but a message beats an abort.
  llvm::install_fatal_error_handler([](void *, const char *reason, bool) {
    llvm::errs() << "flamiac: error: LLVM gave up: " << reason << "\n";
    std::_Exit(1);
  });
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter(printVersion);
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  if (!cl::ParseCommandLineOptions(
          argc, argv, "compiles kernels of the Flamia dialect\n", &stream)) {
    // "PROGRAM: text.  Try: ...": keep the text. Some options complain on
    // stderr themselves.
    StringRef text = StringRef(complaint).trim().split('\n').first;
    text.consume_front(llvm::sys::path::filename(argv[0]));
    text.consume_front(": ");
    text = text.split(".  Try").first;
    return text.empty() ? 1 : fail(text + " (see --help)");
  }
  int result = 1;
  llvm::thread worker(std::optional<unsigned>(kStackBytes),
                      [&] { result = compile(argv[0]); });
  worker.join();
  return result;
}
