//===- Passes.h - flamia's passes and pipelines -----------------*- C++ -*-===//
//
// Passes.td says what each pass does, in the order in which they run.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_PASSES_H
#define FLAMIA_PASSES_PASSES_H

#include "dialects/Tcgen/Tcgen.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>

namespace flamia {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// What the compile pipeline may be asked for.
struct PipelineOptions {
  /// Bindings of compile-time parameters, "name=value,name=value".
  std::string parameters;
  /// 0: one vector warpgroup, a wait after every step. 2: roles and rings.
  unsigned optLevel = 2;
  /// Target architecture, sm_100a, sm_103a or sm_90.
  std::string arch = "sm_100a";
  /// Share of exponentials by polynomial, "1/4" or "0"; by default what each
  /// kernel says for the architecture.
  std::optional<std::string> exp2Share;
};

/// The value-level part of the pipeline: binds parameters, inserts safeguards
/// and proves causality. What comes out is still the Flamia dialect.
void buildFlamiaPipeline(mlir::OpPassManager &manager,
                         const PipelineOptions &options);

/// Adds the dialects that kernels are written in: Flamia, arith, math, scf.
void registerFlamiaDialects(mlir::DialectRegistry &registry);

/// The middle part: kernels of the Flamia dialect in, roles, channels and
/// placed buffers of the Tcgen dialect out.
void buildTcgenPipeline(mlir::OpPassManager &manager,
                        const PipelineOptions &options);

/// Its end, on kernels that flamia-pipeline has turned into roles: up to
/// placed buffers. flamia-pipeline itself tries it on a copy.
void buildMemoryPipeline(mlir::OpPassManager &kernelPasses,
                         const PipelineOptions &options);

/// The last part: Tcgen with memories allocated (or a Flamia kernel without
/// products) to the LLVM dialect, ready for translation.
void buildLLVMPipeline(mlir::OpPassManager &manager,
                       const PipelineOptions &options);

/// Registers all passes and pipelines (`flamia-value-pipeline`,
/// `flamia-tcgen-pipeline`, `flamia-to-llvm`) by name.
void registerFlamiaPassesAndPipelines();

} // namespace flamia

#endif // FLAMIA_PASSES_PASSES_H
