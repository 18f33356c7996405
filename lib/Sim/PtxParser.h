//===- PtxParser.h - Parser of PTX modules ----------------------*- C++ -*-===//
//
// Recursive descent over PTX text. Methods return true on failure, after
// recording the first error (LLVM's parser convention).
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_PTXPARSER_H
#define FLAMIA_LIB_SIM_PTXPARSER_H

#include "PtxLexer.h"

namespace flamia {
namespace sim {
namespace ptx {

class Parser {
public:
  explicit Parser(ModuleAst &module) : module(module), lex(module.text) {}
  llvm::Error run();

private:
  // Module level (PtxParser.cpp).
  bool parseTopLevel();
  bool parseVersionHeader(StringRef directive);
  bool parseFileDirective();
  bool parseEntry();
  bool parseEntryDirectives(Function &fn);
  bool parseVariables(Space space, bool external, std::vector<Variable> &out);
  bool parseInitialiser(Variable &var, unsigned elementBytes, uint64_t &at,
                        unsigned depth);
  bool parseInitialiserElement(Variable &var, unsigned elementBytes,
                               uint64_t &at);
  bool parseDims(std::array<uint32_t, 3> &out);

  // Device functions and calls (PtxParserCall.cpp).
  bool parseParamList(StringRef owner, std::vector<Param> &params);
  bool parseDeviceFunction();
  bool parsePrototype();
  bool parseArgumentList(Function &fn, Operand &out);

  // Function bodies (PtxParserBody.cpp).
  bool parseBody(Function &fn);
  bool parseBodyDirective(Function &fn, StringRef word, unsigned line);
  bool parseRegisters(Function &fn);
  bool parseLoc(Function &fn);
  bool parseStatement(Function &fn);
  bool parseOperand(Function &fn, Operand &out, bool allowPair);
  bool parsePrimary(Function &fn, Operand &out);
  bool parseOffset(Operand &out);
  bool lookupRegister(const Function &fn, StringRef name, uint32_t &reg) const;

  bool expect(char c, const llvm::Twine &where);
  bool fail(const llvm::Twine &message) { return failAt(lex.line(), message); }
  bool failAt(unsigned line, const llvm::Twine &message);
  bool unsignedInt(uint64_t &out, const llvm::Twine &what);

  ModuleAst &module;
  Lexer lex;
  unsigned scope = 0;
  unsigned currentLoc = 0;
  uint64_t variableBytes = 0; ///< Of all variables so far.
  unsigned errorLine = 0;
  std::string errorText;
};

/// Bytes of a PTX type name with its dot (".b32"); 0 when it is not one.
unsigned bytesOfType(StringRef type);

} // namespace ptx
} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_PTXPARSER_H
