//===- Driver.h - From the LLVM dialect to a cubin --------------*- C++ -*-===//
//
// What flamiac does after the passes: LLVM IR, PTX, ptxas, launch record.
// Errors are values; nothing here prints or exits.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_DRIVER_DRIVER_H
#define FLAMIA_DRIVER_DRIVER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/VersionTuple.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm
namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace flamia::driver {

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

/// An architecture that flamia compiles for.
struct Target {
  llvm::StringLiteral name;        ///< "sm_100a"
  llvm::StringLiteral ptxFeature;  ///< LLVM's feature, "+ptx88"
  llvm::StringLiteral ptxVersion;  ///< "8.8"
  unsigned ptxasMajor, ptxasMinor; ///< first ptxas that takes this PTX
  bool hasTensorMemory;
};

/// The target of that name. An error names the supported ones.
llvm::Expected<const Target *> findTarget(llvm::StringRef name);

//===----------------------------------------------------------------------===//
// Code generation
//===----------------------------------------------------------------------===//

/// Dialects and translations that the compiler needs.
void registerDialects(mlir::DialectRegistry &registry);

/// Translates a module of the LLVM and NVVM dialects. Fails with the text of
/// the translation's complaint; optimize() verifies what it made.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLLVM(mlir::ModuleOp module, llvm::LLVMContext &context);

/// Optimizes at `level` (1 to 3; the lowering needs at least 1, because channel
/// counters start as memory) and attaches the target's data layout.
llvm::Error optimize(llvm::Module &module, const Target &target,
                     unsigned level);

/// PTX text.
llvm::Expected<std::string> emitPtx(llvm::Module &module, const Target &target,
                                    unsigned level);

//===----------------------------------------------------------------------===//
// ptxas
//===----------------------------------------------------------------------===//

struct Ptxas {
  std::string path;
  llvm::VersionTuple version;
};

/// $FLAMIA_PTXAS, else PATH, else /usr/local/cuda/bin; asks it for its version.
llvm::Expected<Ptxas> findPtxas();

/// Whether that ptxas knows the target.
llvm::Error checkPtxas(const Ptxas &ptxas, const Target &target);

/// What ptxas -v says about one kernel.
struct Resources {
  unsigned registers = 0, barriers = 0;
  unsigned stackBytes = 0, spillStoreBytes = 0, spillLoadBytes = 0;
  unsigned staticSharedBytes = 0;
};

struct Assembly {
  std::string cubin;
  std::string log; ///< ptxas's own text
  Resources resources;
};

/// Assembles PTX. When ptxas fails, the error holds its text and the command to
/// repeat, and the PTX that the command names stays in the temporary folder.
llvm::Expected<Assembly> assemble(const Ptxas &ptxas, llvm::StringRef ptx,
                                  const Target &target, llvm::StringRef kernel,
                                  bool lineInfo);

//===----------------------------------------------------------------------===//
// Launch record
//===----------------------------------------------------------------------===//

/// Whether `flamia.launch` of a kernel has all that a record is written from;
/// the message names the first member that is missing or of another kind.
llvm::Error checkLaunch(mlir::Attribute launch);

/// JSON text of a kernel's launch record (docs/launch-record.md), from the
/// attribute `flamia.launch` that convert-flamia-to-nvvm left.
std::string launchRecord(mlir::DictionaryAttr launch, llvm::StringRef kernel,
                         const Target &target, unsigned optLevel,
                         llvm::StringRef ptxFile, llvm::StringRef cubinFile);

} // namespace flamia::driver

#endif // FLAMIA_DRIVER_DRIVER_H
