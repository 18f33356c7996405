//===- Pipelines.cpp - The compile pipeline, in one place -----------------===//
//
// flamia-opt, flamiac and the tests all build their pipelines here.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flamia;

namespace {
/// PipelineOptions as options of a named pipeline.
struct PipelineFlags : public PassPipelineOptions<PipelineFlags> {
  Option<std::string> parameters{
      *this, "params", llvm::cl::desc("bindings of compile-time parameters")};
  Option<unsigned> optLevel{*this, "opt-level",
                            llvm::cl::desc("0 or 2 (default)"),
                            llvm::cl::init(2)};
  Option<std::string> arch{*this, "arch", llvm::cl::desc("target architecture"),
                           llvm::cl::init("sm_100a")};
  Option<std::string> exp2Share{
      *this, "exp2-emulation",
      llvm::cl::desc("share of exponentials by polynomial, 1/4 or 0 (default: "
                     "what the kernel says)")};

  PipelineOptions get() const {
    PipelineOptions options;
    options.parameters = parameters;
    options.optLevel = optLevel;
    options.arch = arch;
    if (exp2Share.hasValue())
      options.exp2Share = exp2Share.getValue();
    return options;
  }
};
} // namespace

void flamia::buildFlamiaPipeline(OpPassManager &manager,
                                 const PipelineOptions &options) {
  SpecializePassOptions specialize;
  specialize.params = options.parameters;
  manager.addPass(createSpecializePass(specialize));
  manager.addPass(createInsertSafeguardsPass());
  manager.addPass(createPeelPartialTilesPass());
  manager.addPass(createCheckCausalityPass());
  // What folding makes of the scales is proved again.
  manager.addPass(createFoldScalesPass());
  manager.addPass(createCheckCausalityPass());
  EmulateExp2PassOptions emulate;
  if (options.exp2Share)
    emulate.share = *options.exp2Share;
  emulate.arch = options.arch;
  manager.addPass(createEmulateExp2Pass(emulate));
}

void flamia::registerFlamiaDialects(DialectRegistry &registry) {
  registry.insert<FlamiaDialect, arith::ArithDialect, math::MathDialect,
                  scf::SCFDialect>();
}

void flamia::buildTcgenPipeline(OpPassManager &manager,
                                const PipelineOptions &options) {
  if (options.optLevel > 0)
    manager.addNestedPass<KernelOp>(createJamItemsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  AssignRolesPassOptions assignRoles;
  assignRoles.optLevel = options.optLevel;
  manager.addNestedPass<KernelOp>(createAssignRolesPass(assignRoles));
  manager.addNestedPass<KernelOp>(createPipelinePass());
  buildMemoryPipeline(manager.nest<KernelOp>(), options);
}

void flamia::buildMemoryPipeline(OpPassManager &kernelPasses,
                                 const PipelineOptions &options) {
  kernelPasses.addPass(createCanonicalizerPass());
  kernelPasses.addPass(createCSEPass());
  if (options.optLevel > 0)
    kernelPasses.addPass(createSkipRescalingPass());
  kernelPasses.addPass(createShareColumnsPass());
  kernelPasses.addPass(createSplitColumnsPass());
  if (options.optLevel > 0 && options.arch == "sm_103a")
    kernelPasses.addPass(createReadMaxPass());
  if (options.optLevel > 0)
    kernelPasses.addPass(createCopyOperandsPass());
  kernelPasses.addPass(createAllocateMemoryPass());
}

void flamia::buildLLVMPipeline(OpPassManager &manager,
                               const PipelineOptions &options) {
  ConvertFlamiaToNVVMPassOptions convert;
  convert.arch = options.arch;
  manager.addPass(createConvertFlamiaToNVVMPass(convert));
  if (options.optLevel > 0)
    manager.addNestedPass<LLVM::LLVMFuncOp>(createMergeLoopsPass());
  manager.addPass(arith::createArithExpandOpsPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createConvertNVVMToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void flamia::registerFlamiaPassesAndPipelines() {
  registerFlamiaPasses();
  PassPipelineRegistration<PipelineFlags>(
      "flamia-value-pipeline",
      "binds parameters, inserts safeguards, folds scales and proves causality",
      [](OpPassManager &manager, const PipelineFlags &flags) {
        buildFlamiaPipeline(manager, flags.get());
      });
  PassPipelineRegistration<PipelineFlags>(
      "flamia-tcgen-pipeline",
      "turns tile programs into roles, channels and placed buffers",
      [](OpPassManager &manager, const PipelineFlags &flags) {
        buildTcgenPipeline(manager, flags.get());
      });
  PassPipelineRegistration<PipelineFlags>(
      "flamia-to-llvm", "lowers kernels with roles and memories to LLVM",
      [](OpPassManager &manager, const PipelineFlags &flags) {
        buildLLVMPipeline(manager, flags.get());
      });
}
