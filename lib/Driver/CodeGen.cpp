//===- CodeGen.cpp - LLVM dialect to PTX ----------------------------------===//
//
// The module stays a plain module with LLVM's own target: inside a gpu.module
// NVVM's checks refuse tcgen05 on sm_103a.
//
//===----------------------------------------------------------------------===//

#include "flamia/Driver/Driver.h"

#include "dialects/Flamia/Flamia.h"
#include "dialects/Tcgen/Tcgen.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace llvm;
using namespace flamia;
using namespace flamia::driver;

static constexpr StringLiteral kTriple = "nvptx64-nvidia-cuda";

void driver::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<FlamiaDialect, tcgen::TcgenDialect, mlir::arith::ArithDialect,
                  mlir::cf::ControlFlowDialect, mlir::LLVM::LLVMDialect,
                  mlir::math::MathDialect, mlir::NVVM::NVVMDialect,
                  mlir::scf::SCFDialect, mlir::tensor::TensorDialect,
                  mlir::vector::VectorDialect>();
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
}

namespace {
/// Turns LLVM's errors (an operation that the target lacks, for instance) into
/// text instead of a message and exit.
struct CollectErrors : public DiagnosticHandler {
  explicit CollectErrors(std::string &text) : text(text) {}
  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getSeverity() != DS_Error)
      return true;
    raw_string_ostream stream(text);
    DiagnosticPrinterRawOStream printer(stream);
    if (!text.empty())
      stream << '\n';
    info.print(printer);
    return true;
  }
  std::string &text;
};
} // namespace

/// Shared memory addresses of 32 bits. The flag exists only as a command line
/// option of LLVM.
static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    auto &options = cl::getRegisteredOptions();
    auto it = options.find("nvptx-short-ptr");
    if (it != options.end())
      it->second->addOccurrence(1, "nvptx-short-ptr", "true");
  });
}

static Expected<std::unique_ptr<TargetMachine>>
createMachine(const driver::Target &target, unsigned level) {
  initializeTarget();
  Triple triple(kTriple);
  std::string error;
  const llvm::Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return createStringError("LLVM has no NVPTX back end: " + error);
  TargetOptions options;
  // Only what the kernel's author wrote as fma is fused.
  options.AllowFPOpFusion = FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(backend->createTargetMachine(
      triple, target.name, target.ptxFeature, options, Reloc::PIC_,
      std::nullopt,
      level >= 3 ? CodeGenOptLevel::Aggressive : CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM cannot generate code for " + target.name);
  return machine;
}

Expected<std::unique_ptr<Module>>
driver::translateToLLVM(mlir::ModuleOp module, LLVMContext &context) {
  std::string text;
  std::unique_ptr<Module> result;
  {
    mlir::ScopedDiagnosticHandler handler(
        module.getContext(), [&](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            text += (text.empty() ? "" : "\n") + diagnostic.str();
          return mlir::success();
        });
    // optimize() verifies.
    result = mlir::translateModuleToLLVMIR(module, context, "flamia",
                                           /*disableVerification=*/true);
  }
  if (!result)
    return createStringError("cannot translate to LLVM IR: " + text);
  return result;
}

/// The constant with 0 in place of undefined elements.
static Constant *defined(Constant *constant) {
  if (isa<UndefValue>(constant))
    return Constant::getNullValue(constant->getType());
  SmallVector<Constant *> elements;
  auto *type = cast<FixedVectorType>(constant->getType());
  for (unsigned i = 0; i < type->getNumElements(); ++i) {
    Constant *element = constant->getAggregateElement(i);
    elements.push_back(isa<UndefValue>(element)
                           ? Constant::getNullValue(element->getType())
                           : element);
  }
  return ConstantVector::get(elements);
}

/// Gives undefined vector lanes a value. The optimizer leaves lanes that nobody
/// needs undefined, and half of a pair of floats is computed with the other:
/// PTX would read registers that were never written. That is harmless, but it
/// hides mistakes from the simulator's check for such reads. Costs nothing,
/// because lanes that are needed are overwritten.
static void defineLanes(Module &module) {
  for (Function &function : module)
    for (BasicBlock &block : function)
      for (Instruction &instruction : block) {
        if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&instruction)) {
          SmallVector<int> mask(shuffle->getShuffleMask());
          for (int &lane : mask)
            lane = std::max(lane, 0);
          shuffle->setShuffleMask(mask);
        }
        for (Use &use : instruction.operands())
          if (auto *constant = dyn_cast<Constant>(use.get()))
            if (constant->getType()->isVectorTy() &&
                constant->containsUndefOrPoisonElement())
              use.set(defined(constant));
      }
}

Error driver::optimize(Module &module, const driver::Target &target,
                       unsigned level) {
  Expected<std::unique_ptr<TargetMachine>> machine =
      createMachine(target, level);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple(Triple(kTriple));
  module.setDataLayout((*machine)->createDataLayout());
  std::string fault;
  raw_string_ostream stream(fault);
  if (verifyModule(module, &stream))
    return createStringError("the lowering made invalid LLVM IR: " + fault);

  // Tiles are unrolled already; more unrolling or vectorizing only costs
  // registers and instruction cache.
  PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  PassBuilder builder(machine->get(), tuning);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  OptimizationLevel optimization = level >= 3   ? OptimizationLevel::O3
                                   : level == 2 ? OptimizationLevel::O2
                                                : OptimizationLevel::O1;
  builder.buildPerModuleDefaultPipeline(optimization).run(module, modules);
  defineLanes(module);
  return Error::success();
}

Expected<std::string>
driver::emitPtx(Module &module, const driver::Target &target, unsigned level) {
  Expected<std::unique_ptr<TargetMachine>> machine =
      createMachine(target, level);
  if (!machine)
    return machine.takeError();
  std::string errors;
  module.getContext().setDiagnosticHandler(
      std::make_unique<CollectErrors>(errors));
  SmallString<0> ptx;
  raw_svector_ostream stream(ptx);
  legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr,
                                      CodeGenFileType::AssemblyFile))
    return createStringError("LLVM cannot write PTX");
  passes.run(module);
  if (!errors.empty())
    return createStringError(errors);
  return ptx.str().str();
}
