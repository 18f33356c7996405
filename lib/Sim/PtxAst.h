//===- PtxAst.h - PTX text as parsed ----------------------------*- C++ -*-===//
//
// The parser's output: statements with resolved registers and unresolved names,
// before any instruction is understood. Strings point into the module's text.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_PTXAST_H
#define FLAMIA_LIB_SIM_PTXAST_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace flamia {
namespace sim {
namespace ptx {

using llvm::StringRef;

/// Width class of a virtual register; predicates are their own.
enum class RegClass : uint8_t { Pred, B8, B16, B32, B64, B128 };

/// Bits of a register class (1 for predicates).
unsigned bitsOf(RegClass c);

struct Operand {
  enum Kind : uint8_t {
    Reg,     ///< `reg`
    Int,     ///< `bits`
    Float,   ///< `bits`, a double, or a float when `single`
    Name,    ///< `name` + `offset`: variable, label or special register
    Vector,  ///< {elems...}
    Pair,    ///< elems[0] | elems[1]
    Address, ///< [elems[0] + offset, elems[1...]]
    List,    ///< (elems...) of a call
    Sink     ///< _
  } kind = Sink;
  bool negated = false; ///< !p
  bool single = false;  ///< Float given as 0fXXXXXXXX
  uint32_t reg = 0;
  uint64_t bits = 0;
  int64_t offset = 0;
  StringRef name;
  std::vector<Operand> elems;

  bool isReg() const { return kind == Reg; }
};

struct Instruction {
  unsigned line = 0;
  unsigned loc = 0;   ///< Index into Function::locs.
  unsigned scope = 0; ///< Index into Function::scopes.
  bool guarded = false, guardNegated = false;
  uint32_t guard = 0;
  StringRef opcode;                      ///< As written.
  llvm::SmallVector<StringRef, 6> parts; ///< opcode split at dots.
  std::vector<Operand> operands;
};

enum class Space : uint8_t { Global, Const, Shared, Local, Param };

/// A pointer inside an initialiser: `value` bytes at `at` hold the address of
/// `symbol` + `addend`.
struct Relocation {
  uint64_t at = 0;
  unsigned bytes = 8;
  StringRef symbol;
  int64_t addend = 0;
};

struct Variable {
  StringRef name;
  Space space = Space::Global;
  uint32_t align = 1;
  uint64_t bytes = 0;
  bool dynamic = false; ///< .extern .shared x[]
  bool external = false;
  bool parameter = false; ///< .param of a body: space Local, one a thread.
  unsigned line = 0;
  std::vector<uint8_t> init; ///< Empty, or `bytes` bytes.
  std::vector<Relocation> relocations;
};

struct Register {
  StringRef name;
  uint32_t index = 0; ///< Number after `name` when it comes from name<N>.
  bool ranged = false;
  RegClass cls = RegClass::B32;
  std::string spelling() const;
};

struct Param {
  StringRef name;
  uint32_t offset = 0, size = 0, align = 1;
};

struct Scope {
  unsigned parent = 0; ///< The outermost scope is its own parent.
  llvm::StringMap<std::pair<uint32_t, uint32_t>>
      ranges; ///< prefix: first, count
  llvm::StringMap<uint32_t> registers;
  llvm::StringMap<uint32_t> labels;    ///< Instruction index.
  llvm::StringMap<uint32_t> variables; ///< Index into Function::variables.
  /// name: .branchtargets lists.
  llvm::StringMap<std::vector<StringRef>> branchTargets;
};

struct SourceLoc {
  unsigned file = 0, line = 0, column = 0;
};

/// A device function that was linked into an entry (PtxLink.cpp).
struct Callee {
  StringRef name;
  uint32_t entry = 0; ///< Instruction index.
  uint32_t firstRegister = 0, registerCount = 0;
  uint32_t firstVariable = 0, variableCount = 0;
  std::vector<uint32_t> params, returns; ///< Indices into variables.
  bool recursive = false;
};

struct Function {
  StringRef name;
  unsigned line = 0;
  bool isEntry = true;
  std::vector<Param> params;
  std::vector<Param> returns; ///< Of device functions.
  std::array<uint32_t, 3> reqntid = {0, 0, 0}, maxntid = {0, 0, 0};
  std::array<uint32_t, 3> reqncluster = {0, 0, 0};
  uint32_t minnctapersm = 0, maxnreg = 0;
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
  std::vector<Scope> scopes;
  std::vector<Variable> variables; ///< .local and .shared of the body.
  std::vector<SourceLoc> locs;
  std::vector<Callee> callees; ///< Of a linked entry.
};

struct ModuleAst {
  std::string fileName;
  std::string text;
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Function> functions; ///< Entries and device functions.
  /// Device functions: index into `functions`, or noBody when only declared.
  llvm::StringMap<uint32_t> deviceFunctions;
  static constexpr uint32_t noBody = ~0u;
  std::vector<std::pair<unsigned, std::string>> files; ///< .file numbers.
};

/// Parses `text` (kept in the result). Errors: "file:LINE: error: message".
llvm::Error parseModule(ModuleAst &module);

/// The device functions that an entry reaches, copied behind its own code with
/// registers, variables and scopes of their own. Returns `entry` itself when it
/// reaches none. Null after an error, which goes to `line` and `error`.
const Function *linkCallees(const ModuleAst &module, const Function &entry,
                            Function &storage, unsigned &line,
                            std::string &error);

/// Makes an error of the form that all messages about PTX text have.
llvm::Error ptxError(StringRef file, unsigned line, const llvm::Twine &message);

} // namespace ptx
} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_PTXAST_H
