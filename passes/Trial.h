//===- Trial.h - Passes on a copy of a kernel -------------------*- C++ -*-===//
//
// Some decisions are made by trying: a copy of the kernel goes through what
// follows, and whether that succeeds is the answer.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_TRIAL_H
#define FLAMIA_PASSES_TRIAL_H

#include "dialects/Flamia/Flamia.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace flamia {

/// A copy of a kernel to try something on. While it lives, no diagnostic of the
/// context reaches the user.
class Trial {
public:
  explicit Trial(KernelOp kernel)
      : copy(kernel.clone()),
        handler(kernel.getContext(), [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
              reason.empty())
            reason = diagnostic.str();
          return mlir::success();
        }) {}

  KernelOp get() { return *copy; }

  /// Runs passes on the copy, without verifying it between them.
  mlir::LogicalResult
  run(llvm::function_ref<void(mlir::OpPassManager &)> addPasses) {
    mlir::PassManager passes(copy->getContext(), KernelOp::getOperationName());
    passes.enableVerifier(false);
    addPasses(passes);
    return passes.run(*copy);
  }

  /// The first error's text; empty if there was none.
  llvm::StringRef getReason() const { return reason; }

private:
  mlir::OwningOpRef<KernelOp> copy;
  std::string reason;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace flamia

#endif // FLAMIA_PASSES_TRIAL_H
