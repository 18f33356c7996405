//===- Sass.h - The machine code of a cubin ---------------------*- C++ -*-===//
//
// SASS through nvdisasm, with the PTX line of every instruction. ptxas keeps
// lines only where the PTX has .loc directives, so the PTX is assembled once
// more with a .loc in front of every instruction that names its own line; the
// result must be, instruction by instruction, the cubin that ships, or it is
// refused.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_SASS_H
#define FLAMIA_MODEL_SASS_H

#include "flamia/Model/Machine.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace flamia {
namespace model {

struct SassInstruction {
  std::string opcode; ///< With its suffixes: MUFU.EX2, LDTM.x32.
  std::string operands;
  unsigned line = 0;  ///< Of the annotated PTX's source, 0: none.
  unsigned block = 0; ///< Basic block.
};

struct SassFunction {
  std::string name;
  std::vector<SassInstruction> code;
  unsigned blocks = 0;
};

/// Parses what `nvdisasm -c [-g]` prints. An error when there is no code.
llvm::Expected<std::vector<SassFunction>> parseSass(llvm::StringRef text);

/// PTX with a `.loc 1 LINE 0` in front of every instruction, for its own line;
/// other line information and debug sections are taken out. Lines keep their
/// numbers in the directives, not in the text.
std::string annotatePtx(llvm::StringRef ptx);

/// External programs.
struct Tools {
  std::string ptxas, nvdisasm;
};
/// $FLAMIA_PTXAS and $FLAMIA_NVDISASM, PATH, the CUDA toolkit's usual place;
/// nvdisasm also where scripts/setup.sh puts it. The error says what is
/// missing.
llvm::Expected<Tools> findTools();

/// The code of `entry` with PTX lines. `cubin` may be empty: then the PTX is
/// assembled without further comparison.
llvm::Expected<SassFunction>
loadSass(const Tools &tools, llvm::StringRef ptxPath, llvm::StringRef cubinPath,
         llvm::StringRef entry, llvm::StringRef arch);

/// What one execution of an instruction by a warp takes of each unit, in cycles
/// of the whole SM at full rate (Issue: a warp instruction is 1/4 cycle).
/// Shared memory, tensor memory and tensor cores are left out: how much an
/// instruction takes of those is known at run time only.
UnitCycles costOf(const SassInstruction &instruction, const Machine &machine);

/// For tables: mufu, fma, alu, convert, shared, tmem, mma, sync, other.
llvm::StringRef classOf(const SassInstruction &instruction);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_SASS_H
