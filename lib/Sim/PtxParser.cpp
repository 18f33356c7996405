//===- PtxParser.cpp - Modules, entries, variables ------------------------===//

#include "PtxParser.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <cstring>

namespace flamia {
namespace sim {
namespace ptx {

using llvm::Twine;

unsigned bitsOf(RegClass c) {
  switch (c) {
  case RegClass::Pred:
    return 1;
  case RegClass::B8:
    return 8;
  case RegClass::B16:
    return 16;
  case RegClass::B32:
    return 32;
  case RegClass::B64:
    return 64;
  case RegClass::B128:
    return 128;
  }
  return 0;
}

std::string Register::spelling() const {
  return ranged ? (name + Twine(index)).str() : name.str();
}

llvm::Error ptxError(StringRef file, unsigned line, const Twine &message) {
  return llvm::createStringError(file + ":" + Twine(line) +
                                 ": error: " + message);
}

unsigned bytesOfType(StringRef type) {
  return llvm::StringSwitch<unsigned>(type)
      .Cases({".b8", ".u8", ".s8"}, 1)
      .Cases({".b16", ".u16", ".s16", ".f16", ".bf16"}, 2)
      .Cases({".b32", ".u32", ".s32", ".f32", ".f16x2", ".bf16x2"}, 4)
      .Cases({".b64", ".u64", ".s64", ".f64"}, 8)
      .Case(".b128", 16)
      .Default(0);
}

bool Parser::failAt(unsigned line, const Twine &message) {
  if (errorText.empty()) {
    errorLine = line;
    errorText = message.str();
  }
  return true;
}

bool Parser::expect(char c, const Twine &where) {
  if (lex.accept(c))
    return false;
  return fail("expected '" + Twine(c) + "' " + where + ", but got " +
              lex.near());
}

bool Parser::unsignedInt(uint64_t &out, const Twine &what) {
  Operand number;
  lex.skip();
  if (!lex.number(number) || number.kind != Operand::Int)
    return fail("expected a number for " + what + ", but got " + lex.near());
  out = number.bits;
  return false;
}

llvm::Error Parser::run() {
  bool sawVersion = false;
  while (errorText.empty() && !lex.atEnd()) {
    if (parseTopLevel())
      break;
    sawVersion |= !module.version.empty();
    if (!sawVersion && fail("expected '.version' before anything else"))
      break;
  }
  if (errorText.empty() && module.version.empty())
    fail("expected '.version', but got end of file");
  if (errorText.empty() && module.target.empty())
    fail("expected '.target', but the module has none");
  if (!errorText.empty())
    return ptxError(module.fileName, errorLine, errorText);
  return llvm::Error::success();
}

bool Parser::parseTopLevel() {
  unsigned line = lex.line();
  if (lex.peek() != '.')
    return fail("expected a directive, but got " + lex.near());
  line = lex.line();
  StringRef word = lex.dottedWord();
  bool external = false;
  while (word == ".visible" || word == ".extern" || word == ".weak" ||
         word == ".common") {
    external |= word == ".extern";
    lex.skip();
    line = lex.line();
    word = lex.dottedWord();
  }
  if (word == ".version" || word == ".target" || word == ".address_size")
    return parseVersionHeader(word);
  if (word == ".file")
    return parseFileDirective();
  if (word == ".section") {
    lex.dottedWord();
    return lex.skipBraces() ? false : fail("unterminated '.section'");
  }
  if (word == ".loc") {
    lex.restOfLine();
    return false;
  }
  if (word == ".pragma") {
    StringRef text;
    if (!lex.quoted(text))
      return fail("expected a string after '.pragma'");
    return expect(';', "after '.pragma'");
  }
  if (word == ".entry")
    return parseEntry();
  if (word == ".func")
    return parseDeviceFunction();
  if (word == ".global")
    return parseVariables(Space::Global, external, module.variables);
  if (word == ".const")
    return parseVariables(Space::Const, external, module.variables);
  if (word == ".shared")
    return parseVariables(Space::Shared, external, module.variables);
  return failAt(line, "unknown directive '" + word + "'");
}

bool Parser::parseVersionHeader(StringRef directive) {
  lex.skip();
  if (directive == ".version") {
    StringRef word = lex.dottedWord();
    if (word.empty())
      return fail("expected a version number");
    module.version = word.str();
    return false;
  }
  if (directive == ".address_size") {
    uint64_t size;
    if (unsignedInt(size, "'.address_size'"))
      return true;
    return size == 64
               ? false
               : fail("expected '.address_size 64', but got " + Twine(size));
  }
  do {
    StringRef word = lex.identifier();
    if (word.empty())
      return fail("expected a target name");
    if (word.starts_with("sm_"))
      module.target = word.str();
  } while (lex.accept(','));
  return module.target.empty() ? fail("expected a target of the form sm_NN")
                               : false;
}

bool Parser::parseFileDirective() {
  uint64_t number;
  StringRef name;
  if (unsignedInt(number, "'.file'"))
    return true;
  if (!lex.quoted(name))
    return fail("expected a file name after '.file'");
  module.files.emplace_back(unsigned(number), name.str());
  while (lex.accept(',')) {
    uint64_t ignored;
    if (unsignedInt(ignored, "'.file'"))
      return true;
  }
  return false;
}

bool Parser::parseDims(std::array<uint32_t, 3> &out) {
  out = {1, 1, 1};
  for (unsigned i = 0; i < 3; ++i) {
    uint64_t value;
    if (unsignedInt(value, "a dimension"))
      return true;
    if (value == 0 || value > 0x7FFFFFFF)
      return fail("dimension " + Twine(value) + " is out of range");
    out[i] = uint32_t(value);
    if (!lex.accept(','))
      break;
  }
  return false;
}

bool Parser::parseEntryDirectives(Function &fn) {
  while (lex.peek() == '.') {
    StringRef word = lex.dottedWord();
    uint64_t value = 0;
    if (word == ".reqntid") {
      if (parseDims(fn.reqntid))
        return true;
    } else if (word == ".maxntid") {
      if (parseDims(fn.maxntid))
        return true;
    } else if (word == ".reqnctapercluster") {
      if (parseDims(fn.reqncluster))
        return true;
    } else if (word == ".minnctapersm") {
      if (unsignedInt(value, "'.minnctapersm'"))
        return true;
      fn.minnctapersm = uint32_t(value);
    } else if (word == ".maxnreg") {
      if (unsignedInt(value, "'.maxnreg'"))
        return true;
      fn.maxnreg = uint32_t(value);
    } else if (word == ".maxnctapersm" || word == ".maxclusterrank") {
      if (unsignedInt(value, word))
        return true;
    } else if (word == ".pragma") {
      StringRef text;
      if (!lex.quoted(text) || expect(';', "after '.pragma'"))
        return fail("expected a string after '.pragma'");
    } else if (word != ".explicitcluster" && word != ".blocksareclusters") {
      return fail("unknown entry directive '" + word + "'");
    }
  }
  return false;
}

bool Parser::parseEntry() {
  Function fn;
  lex.skip();
  fn.line = lex.line();
  fn.name = lex.identifier();
  if (fn.name.empty())
    return fail("expected an entry name, but got " + lex.near());
  for (const Function &other : module.functions)
    if (other.name == fn.name)
      return fail("entry '" + fn.name + "' is defined twice");
  if (parseParamList(fn.name, fn.params) || parseEntryDirectives(fn))
    return true;
  for (const Param &p : fn.params)
    if (p.size == 0)
      return fail("parameter '" + p.name + "' of an entry has no size");
  if (lex.accept(';'))
    return false; // A declaration.
  if (parseBody(fn))
    return true;
  module.functions.push_back(std::move(fn));
  return false;
}

bool Parser::parseInitialiserElement(Variable &var, unsigned elementBytes,
                                     uint64_t &at) {
  if (at + elementBytes > var.bytes)
    return fail("too many initialisers for '" + var.name + "'");
  Operand value;
  char c = lex.peek();
  uint64_t bits = 0;
  if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.') {
    if (!lex.number(value))
      return fail("malformed number in the initialiser of '" + var.name + "'");
    bits = value.bits;
    if (value.kind == Operand::Float && elementBytes == 4 && !value.single) {
      double d;
      std::memcpy(&d, &bits, 8);
      float f = float(d);
      uint32_t b;
      std::memcpy(&b, &f, 4);
      bits = b;
    }
  } else {
    StringRef word = lex.identifier();
    bool generic = word == "generic";
    if (generic) {
      if (expect('(', "after 'generic'"))
        return true;
      word = lex.identifier();
    }
    if (word.empty())
      return fail("expected an initialiser, but got " + lex.near());
    if (generic && expect(')', "after 'generic('"))
      return true;
    if (elementBytes != 8)
      return fail("expected an 8-byte element for the address of '" + word +
                  "', but got " + Twine(elementBytes) + " bytes");
    Relocation reloc;
    reloc.at = at;
    reloc.symbol = word;
    if (lex.peek() == '+' || lex.peek() == '-') {
      if (!lex.number(value) || value.kind != Operand::Int)
        return fail("malformed offset in the initialiser of '" + var.name +
                    "'");
      reloc.addend = int64_t(value.bits);
    }
    var.relocations.push_back(reloc);
  }
  std::memcpy(var.init.data() + at, &bits, elementBytes < 8 ? elementBytes : 8);
  at += elementBytes;
  return false;
}

bool Parser::parseInitialiser(Variable &var, unsigned elementBytes,
                              uint64_t &at, unsigned depth) {
  if (!lex.accept('{'))
    return parseInitialiserElement(var, elementBytes, at);
  if (depth > 8)
    return fail("initialiser of '" + var.name + "' is nested too deeply");
  if (lex.accept('}'))
    return false;
  do {
    if (parseInitialiser(var, elementBytes, at, depth + 1))
      return true;
  } while (lex.accept(','));
  return expect('}', "at the end of an initialiser");
}

/// Of all variables together: hostile text must not take all memory.
static constexpr uint64_t maxVariableBytes = 256u << 20;

bool Parser::parseVariables(Space space, bool external,
                            std::vector<Variable> &out) {
  uint64_t align = 0;
  unsigned elementBytes = 0, lanes = 1;
  while (lex.peek() == '.') {
    StringRef word = lex.dottedWord();
    if (word == ".align") {
      if (unsignedInt(align, "'.align'"))
        return true;
      if (!align || align & (align - 1) || align > (1u << 20))
        return fail("alignment " + Twine(align) + " is no power of two");
    } else if (word == ".v2" || word == ".v4") {
      lanes = word == ".v2" ? 2 : 4;
    } else if (word == ".attribute") {
      if (expect('(', "after '.attribute'"))
        return true;
      while (lex.peek() != ')' && !lex.atEnd())
        if (lex.dottedWord().empty() && !lex.accept(',') && !lex.accept('('))
          return fail("malformed '.attribute'");
      if (expect(')', "after '.attribute'"))
        return true;
    } else if (unsigned bytes = bytesOfType(word)) {
      elementBytes = bytes;
    } else {
      return fail("unknown variable attribute '" + word + "'");
    }
  }
  if (!elementBytes)
    return fail("expected a type in a variable declaration");
  do {
    Variable var;
    lex.skip();
    var.line = lex.line();
    var.space = space;
    var.external = external;
    var.align = uint32_t(align ? align : uint64_t(elementBytes) * lanes);
    var.name = lex.identifier();
    if (var.name.empty())
      return fail("expected a variable name, but got " + lex.near());
    uint64_t count = lanes;
    bool unsized = false;
    while (lex.accept('[')) {
      if (lex.accept(']')) {
        unsized = true;
        continue;
      }
      uint64_t extent;
      if (unsignedInt(extent, "an array extent") ||
          expect(']', "after the array extent"))
        return true;
      if (extent == 0 || extent > (1ull << 32) || count > (1ull << 32) / extent)
        return fail("array '" + var.name + "' is empty or too large");
      count *= extent;
    }
    if (unsized && !(space == Space::Shared && external))
      return fail("array '" + var.name + "' has no size");
    var.dynamic = unsized;
    var.bytes = unsized ? 0 : count * elementBytes;
    if (var.bytes > maxVariableBytes)
      return fail("variable '" + var.name + "' of " + Twine(var.bytes) +
                  " bytes exceeds the limit of 256 MiB");
    if (var.bytes > maxVariableBytes - variableBytes)
      return fail("variables of the module exceed the limit of 256 MiB");
    variableBytes += var.bytes;
    if (lex.accept('=')) {
      if (space != Space::Global && space != Space::Const)
        return fail("variable '" + var.name +
                    "' of this space cannot be "
                    "initialised");
      var.init.assign(var.bytes, 0);
      uint64_t at = 0;
      if (parseInitialiser(var, elementBytes, at, 0))
        return true;
    } else if ((space == Space::Global || space == Space::Const) && !external) {
      var.init.assign(var.bytes, 0); // Module variables start as zero.
    }
    for (const Variable &other : out)
      if (other.name == var.name && !external && !other.external &&
          space != Space::Local)
        return failAt(var.line,
                      "variable '" + var.name + "' is declared twice");
    out.push_back(std::move(var));
  } while (lex.accept(','));
  return expect(';', "after a variable declaration");
}

llvm::Error parseModule(ModuleAst &module) { return Parser(module).run(); }

} // namespace ptx
} // namespace sim
} // namespace flamia
