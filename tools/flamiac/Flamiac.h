//===- Flamiac.h - Parts of flamiac -----------------------------*- C++ -*-===//
//
// Private to tools/flamiac: options, compilation of one kernel, output files.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TOOLS_FLAMIAC_FLAMIAC_H
#define FLAMIA_TOOLS_FLAMIAC_FLAMIAC_H

#include "flamia/Driver/Driver.h"
#include "flamia/Support/Files.h"

#include "dialects/Flamia/Flamia.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir {
class TimingScope;
} // namespace mlir

namespace flamia::flamiac {

/// Where compilation stops. Each stage has text except the last.
enum class Stage { Flamia, Tcgen, Nvvm, Llvm, Ptx, Cubin };

/// File name suffix of a stage: ".ptx".
llvm::StringRef suffixOf(Stage stage);

struct Options {
  const driver::Target *target = nullptr;
  Stage stage = Stage::Cubin;
  unsigned optLevel = 2;
  bool lineInfo = false, verbose = false;
  /// Folder for intermediate files; none: no files.
  std::optional<std::string> saveTemps;
  /// Bindings "name=value".
  std::vector<std::string> definitions;
  /// Share of exponentials by polynomial, if not the architecture's.
  std::optional<std::string> exp2Share;
};

/// One kernel's results: text of the stage that was asked for, and for Cubin
/// all three files.
struct Artifact {
  std::string kernel; ///< symbol
  std::string stem;   ///< file name without suffix
  std::string text;   ///< up to Ptx: the stage's text
  std::string ptx, cubin, record;
  /// Parameters as JSON text, for the index of a library.
  std::vector<std::pair<std::string, std::string>> parameters;
};

/// Compiles the one kernel that `module` holds, in place. Diagnostics of passes
/// go to the context's handler; the error is then empty text.
llvm::Expected<Artifact>
compileKernel(mlir::ModuleOp module, const Options &options,
              const driver::Ptxas *ptxas, llvm::StringRef stem,
              mlir::TimingScope &timing, std::vector<OutputFile> &temps);

/// The kernels of a source file, in order: tile programs (flamia.kernel), and
/// thread programs, LLVM functions that carry what a launch needs in
/// `flamia.launch` (docs/artifact-format.md).
llvm::SmallVector<mlir::Operation *> kernelsOf(mlir::ModuleOp module);
llvm::StringRef nameOf(mlir::Operation *kernel);
/// Compile-time parameters; a thread program has none.
mlir::DictionaryAttr parametersOf(mlir::Operation *kernel);

/// A module that holds only that kernel, and what a thread program refers to.
mlir::OwningOpRef<mlir::ModuleOp> isolate(mlir::Operation *kernel);

/// The definitions that this kernel declares.
std::vector<std::string>
definitionsFor(mlir::Operation *kernel,
               const std::vector<std::string> &definitions);

/// Every kernel of the library's sources with every combination of its
/// parameters.
llvm::Error compileLibrary(mlir::MLIRContext &context, const Options &options,
                           llvm::StringRef sources, llvm::StringRef folder,
                           mlir::TimingScope &timing);

/// Parses a source file and checks it before MLIR does.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
parseSource(llvm::StringRef path, mlir::MLIRContext &context);

} // namespace flamia::flamiac

#endif // FLAMIA_TOOLS_FLAMIAC_FLAMIAC_H
