//===- Compile.cpp - Source file to artifact ------------------------------===//
//
// Parses a source file and runs one kernel through the stages.
//
//===----------------------------------------------------------------------===//

#include "Flamiac.h"

#include "passes/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::flamiac;

/// What a launch needs, on a function at the stage nvvm.
static constexpr StringLiteral kLaunchAttr = "flamia.launch";

/// MLIR's parser recurses, and takes time that grows with the square of the
/// depth: some seconds at 10000 brackets.
static constexpr unsigned kMaxNesting = 1000;

StringRef flamiac::suffixOf(Stage stage) {
  switch (stage) {
  case Stage::Flamia:
    return ".flamia.mlir";
  case Stage::Tcgen:
    return ".tcgen.mlir";
  case Stage::Nvvm:
    return ".nvvm.mlir";
  case Stage::Llvm:
    return ".ll";
  case Stage::Ptx:
    return ".ptx";
  case Stage::Cubin:
    return ".cubin";
  }
  llvm_unreachable("unknown stage");
}

//===----------------------------------------------------------------------===//
// Source files
//===----------------------------------------------------------------------===//

/// The deepest nesting of brackets outside strings and comments.
static unsigned nestingDepth(StringRef text) {
  unsigned depth = 0, deepest = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        if (text[i] == '\\')
          ++i;
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      while (i < text.size() && text[i] != '\n')
        ++i;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ')' || c == ']' || c == '}' ||
               (c == '>' && (i == 0 || text[i - 1] != '-'))) {
      depth -= depth > 0;
    }
  }
  return deepest;
}

llvm::Expected<OwningOpRef<ModuleOp>>
flamiac::parseSource(StringRef path, MLIRContext &context) {
  if (path != "-" && llvm::sys::fs::is_directory(path))
    return llvm::createStringError("cannot read '" + path +
                                   "': it is a directory");
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer)
    return llvm::createStringError("cannot read '" + path +
                                   "': " + buffer.getError().message());
  StringRef text = (*buffer)->getBuffer();
  if (text.contains('\0'))
    return llvm::createStringError("'" + path +
                                   "' is not text: it holds a zero byte");
  if (unsigned depth = nestingDepth(text); depth > kMaxNesting)
    return llvm::createStringError("'" + path + "' nests brackets " +
                                   llvm::Twine(depth) + " deep, at most " +
                                   llvm::Twine(kMaxNesting) + " are supported");
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(*sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return llvm::createStringError("");
  return module;
}

SmallVector<Operation *> flamiac::kernelsOf(ModuleOp module) {
  SmallVector<Operation *> kernels;
  for (Operation &op : *module.getBody())
    if (isa<KernelOp>(op) ||
        (isa<LLVM::LLVMFuncOp>(op) && op.hasAttr(kLaunchAttr)))
      kernels.push_back(&op);
  return kernels;
}

StringRef flamiac::nameOf(Operation *kernel) {
  return SymbolTable::getSymbolName(kernel).getValue();
}

DictionaryAttr flamiac::parametersOf(Operation *kernel) {
  if (auto tiles = dyn_cast<KernelOp>(kernel))
    return tiles.getParameters();
  return DictionaryAttr::get(kernel->getContext());
}

OwningOpRef<ModuleOp> flamiac::isolate(Operation *kernel) {
  if (isa<KernelOp>(kernel)) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(kernel->getLoc());
    OpBuilder builder(module->getBodyRegion());
    builder.clone(*kernel);
    return module;
  }
  OwningOpRef<ModuleOp> module(kernel->getParentOfType<ModuleOp>().clone());
  for (Operation *other : kernelsOf(*module))
    if (nameOf(other) != nameOf(kernel))
      other->erase();
  return module;
}

std::vector<std::string>
flamiac::definitionsFor(Operation *kernel,
                        const std::vector<std::string> &definitions) {
  std::vector<std::string> result;
  for (const std::string &definition : definitions)
    if (parametersOf(kernel).get(StringRef(definition).split('=').first))
      result.push_back(definition);
  return result;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

static std::string printed(ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  module.print(stream, flags);
  return text + "\n";
}

static std::string printed(const llvm::Module &module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

static std::string jsonOf(Attribute value) {
  if (auto boolean = dyn_cast<BoolAttr>(value))
    return boolean.getValue() ? "true" : "false";
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return std::to_string(integer.getInt());
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::json::Value(cast<StringAttr>(value).getValue());
  return text;
}

/// `NAME: 168 registers, 0 bytes spilled, ...`, and what ptxas warns about.
static void report(StringRef kernel, const Options &options,
                   const driver::Assembly &assembly, int64_t dynamicShared,
                   int64_t tmemColumns) {
  const driver::Resources &r = assembly.resources;
  llvm::errs() << kernel << " (" << options.target->name << "): " << r.registers
               << " registers, " << r.spillStoreBytes << " bytes spill stores, "
               << r.spillLoadBytes << " bytes spill loads, " << r.stackBytes
               << " bytes stack, " << r.staticSharedBytes + dynamicShared
               << " bytes shared memory, " << tmemColumns
               << " tensor memory columns, " << r.barriers << " barriers\n";
  SmallVector<StringRef> lines;
  StringRef(assembly.log).split(lines, '\n');
  for (StringRef line : lines)
    if (line.contains("warning") || line.contains("(C7"))
      llvm::errs() << kernel << ": " << line << "\n";
}

llvm::Expected<Artifact>
flamiac::compileKernel(ModuleOp module, const Options &options,
                       const driver::Ptxas *ptxas, StringRef stem,
                       TimingScope &timing, std::vector<OutputFile> &temps) {
  Artifact artifact;
  artifact.stem = stem.str();
  Operation *source = kernelsOf(module).front();
  bool isThreadProgram = !isa<KernelOp>(source);
  artifact.kernel = nameOf(source).str();
  PipelineOptions pipeline;
  pipeline.parameters = llvm::join(options.definitions, ",");
  pipeline.optLevel = options.optLevel == 0 ? 0 : 2;
  pipeline.arch = options.target->name.str();
  pipeline.exp2Share = options.exp2Share;

  auto runPasses =
      [&](StringRef name, bool verifyEach,
          llvm::function_ref<void(OpPassManager &)> build) -> llvm::Error {
    PassManager manager(module.getContext());
    if (failed(applyPassManagerCLOptions(manager)))
      return llvm::createStringError("");
    TimingScope scope = timing.nest(name);
    manager.enableTiming(scope);
    manager.enableVerifier(verifyEach);
    build(manager);
    if (failed(manager.run(module)) || (!verifyEach && failed(verify(module))))
      return llvm::createStringError("");
    return llvm::Error::success();
  };
  // Text is made only where it is wanted: printing a kernel takes as long as
  // some passes do.
  auto done = [&](Stage stage, llvm::function_ref<std::string()> print) {
    bool last = options.stage == stage;
    if (!last && !options.saveTemps)
      return false;
    std::string text = print();
    if (options.saveTemps) {
      SmallString<128> path(*options.saveTemps);
      llvm::sys::path::append(path, stem + suffixOf(stage));
      temps.push_back({path.str().str(), text});
    }
    if (last)
      artifact.text = std::move(text);
    return last;
  };

  // Passes before the stage nvvm have nothing to do with a thread program.
  if (isThreadProgram)
    if (llvm::Error error = driver::checkLaunch(source->getAttr(kLaunchAttr)))
      return llvm::createStringError("kernel '" + artifact.kernel +
                                     "': " + llvm::toString(std::move(error)));
  if (!isThreadProgram)
    if (llvm::Error error = runPasses("Flamia", /*verifyEach=*/true,
                                      [&](OpPassManager &manager) {
                                        buildFlamiaPipeline(manager, pipeline);
                                      }))
      return std::move(error);
  for (NamedAttribute parameter : parametersOf(kernelsOf(module).front()))
    artifact.parameters.push_back(
        {parameter.getName().str(), jsonOf(parameter.getValue())});
  if (done(Stage::Flamia, [&] { return printed(module, false); }))
    return artifact;
  if (!isThreadProgram)
    if (llvm::Error error = runPasses("Tcgen", /*verifyEach=*/true,
                                      [&](OpPassManager &manager) {
                                        buildTcgenPipeline(manager, pipeline);
                                      }))
      return std::move(error);
  if (done(Stage::Tcgen, [&] { return printed(module, false); }))
    return artifact;
  // Threads' code is long: verifying it after each pass took more than half of
  // these passes' time (flamia-opt does it), so the result is verified once.
  if (llvm::Error error =
          runPasses("NVVM", /*verifyEach=*/false, [&](OpPassManager &manager) {
            buildLLVMPipeline(manager, pipeline);
            if (options.lineInfo) {
              LLVM::DIScopeForLLVMFuncOpPassOptions scopes;
              scopes.emissionKind = LLVM::DIEmissionKind::DebugDirectivesOnly;
              manager.addPass(LLVM::createDIScopeForLLVMFuncOpPass(scopes));
            }
          }))
    return std::move(error);
  if (done(Stage::Nvvm, [&] { return printed(module, options.lineInfo); }))
    return artifact;

  Operation *function = kernelsOf(module).front();
  auto launch = function->getAttrOfType<DictionaryAttr>(kLaunchAttr);
  function->removeAttr(kLaunchAttr);
  unsigned level = std::max(1u, options.optLevel == 0 ? 2u : options.optLevel);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule;
  {
    TimingScope scope = timing.nest("LLVM");
    auto translated = driver::translateToLLVM(module, llvmContext);
    if (!translated)
      return translated.takeError();
    llvmModule = std::move(*translated);
    if (llvm::Error error =
            driver::optimize(*llvmModule, *options.target, level))
      return std::move(error);
  }
  if (done(Stage::Llvm, [&] { return printed(*llvmModule); }))
    return artifact;
  {
    TimingScope scope = timing.nest("PTX");
    auto ptx = driver::emitPtx(*llvmModule, *options.target, level);
    if (!ptx)
      return ptx.takeError();
    artifact.ptx = std::move(*ptx);
  }
  if (done(Stage::Ptx, [&] { return artifact.ptx; }))
    return artifact;
  TimingScope scope = timing.nest("ptxas");
  auto assembly = driver::assemble(*ptxas, artifact.ptx, *options.target,
                                   artifact.kernel, options.lineInfo);
  if (!assembly)
    return assembly.takeError();
  artifact.cubin = std::move(assembly->cubin);
  artifact.record = driver::launchRecord(
      launch, artifact.kernel, *options.target, options.optLevel,
      artifact.stem + ".ptx", artifact.stem + ".cubin");
  if (options.verbose)
    report(artifact.stem, options, *assembly,
           launch.getAs<IntegerAttr>("dynamic_smem").getInt(),
           launch.getAs<IntegerAttr>("tmem_columns").getInt());
  return artifact;
}
