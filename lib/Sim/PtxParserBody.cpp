//===- PtxParserBody.cpp - Function bodies --------------------------------===//

#include "PtxParser.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <optional>

namespace flamia {
namespace sim {
namespace ptx {

using llvm::Twine;

/// A bound that keeps hostile input from taking all memory; ptxas' own limit is
/// far below.
static constexpr uint32_t maxRegisters = 1u << 18;

static std::optional<RegClass> registerClass(StringRef type) {
  return llvm::StringSwitch<std::optional<RegClass>>(type)
      .Case(".pred", RegClass::Pred)
      .Cases({".b8", ".u8", ".s8"}, RegClass::B8)
      .Cases({".b16", ".u16", ".s16", ".f16", ".bf16"}, RegClass::B16)
      .Cases({".b32", ".u32", ".s32", ".f32", ".f16x2", ".bf16x2"},
             RegClass::B32)
      .Cases({".b64", ".u64", ".s64", ".f64"}, RegClass::B64)
      .Case(".b128", RegClass::B128)
      .Default(std::nullopt);
}

bool Parser::parseRegisters(Function &fn) {
  StringRef type = lex.dottedWord();
  std::optional<RegClass> cls = registerClass(type);
  if (!cls)
    return fail("unknown register type '" + type + "'");
  do {
    StringRef name = lex.identifier();
    if (name.empty())
      return fail("expected a register name, but got " + lex.near());
    uint64_t count = 1;
    bool ranged = lex.accept('<');
    if (ranged) {
      if (unsignedInt(count, "the number of registers") ||
          expect('>', "after the number of registers"))
        return true;
    }
    if (count > maxRegisters - fn.registers.size())
      return fail("more than " + Twine(maxRegisters) + " registers");
    uint32_t first = uint32_t(fn.registers.size());
    for (uint32_t i = 0; i < count; ++i)
      fn.registers.push_back({name, i, ranged, *cls});
    Scope &s = fn.scopes[scope];
    bool fresh = ranged
                     ? s.ranges.try_emplace(name, first, uint32_t(count)).second
                     : s.registers.try_emplace(name, first).second;
    if (!fresh)
      return fail("register '" + name + "' is declared twice");
  } while (lex.accept(','));
  return expect(';', "after '.reg'");
}

bool Parser::lookupRegister(const Function &fn, StringRef name,
                            uint32_t &reg) const {
  size_t digits = 0;
  while (digits < name.size() && name[name.size() - 1 - digits] >= '0' &&
         name[name.size() - 1 - digits] <= '9')
    ++digits;
  for (unsigned s = scope;; s = fn.scopes[s].parent) {
    const Scope &sc = fn.scopes[s];
    auto exact = sc.registers.find(name);
    if (exact != sc.registers.end()) {
      reg = exact->second;
      return true;
    }
    // A prefix may itself end in digits: try every split.
    for (size_t n = digits; n > 0; --n) {
      StringRef suffix = name.take_back(n);
      if (n > 1 && suffix.front() == '0')
        continue;
      auto range = sc.ranges.find(name.drop_back(n));
      uint32_t index;
      if (range != sc.ranges.end() && !suffix.getAsInteger(10, index) &&
          index < range->second.second) {
        reg = range->second.first + index;
        return true;
      }
    }
    if (s == sc.parent)
      return false;
  }
}

bool Parser::parseOffset(Operand &out) {
  char c = lex.peek();
  if (c != '+' && c != '-')
    return false;
  Operand number;
  if (!lex.number(number) || number.kind != Operand::Int)
    return fail("expected an integer offset, but got " + lex.near());
  out.offset += int64_t(number.bits);
  return false;
}

/// A register, a name with its offset, a number or '_'.
bool Parser::parsePrimary(Function &fn, Operand &out) {
  char c = lex.peek();
  if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.') {
    if (!lex.number(out))
      return fail("malformed number near " + lex.near());
    return false;
  }
  StringRef word = lex.identifier();
  if (word.empty())
    return fail("expected an operand, but got " + lex.near());
  if (word == "_") {
    out.kind = Operand::Sink;
    return false;
  }
  if (word == "WARP_SZ") {
    out.kind = Operand::Int;
    out.bits = 32;
    return false;
  }
  if (lookupRegister(fn, word, out.reg)) {
    out.kind = Operand::Reg;
    return false;
  }
  out.kind = Operand::Name;
  out.name = word;
  // The component of a special register: keep "%tid.x" as one name.
  if (lex.peek() == '.') {
    StringRef component = lex.dottedWord();
    if (component.size() != 2)
      return fail("unexpected '" + component + "' after '" + word + "'");
    // Both words lie in the source text, so one range covers them.
    // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage)
    out.name = StringRef(word.data(), component.end() - word.data());
    if (out.name.size() != word.size() + 2)
      return fail("unexpected blank in '" + word + component + "'");
  }
  return false;
}

bool Parser::parseOperand(Function &fn, Operand &out, bool allowPair) {
  char c = lex.peek();
  if (c == '!') {
    lex.accept('!');
    if (parsePrimary(fn, out))
      return true;
    if (!out.isReg())
      return fail("expected a predicate register after '!'");
    out.negated = true;
    return false;
  }
  if (c == '{') {
    lex.accept('{');
    out.kind = Operand::Vector;
    do {
      Operand elem;
      if (parseOperand(fn, elem, false))
        return true;
      if (elem.kind == Operand::Vector || elem.kind == Operand::Address)
        return fail("unexpected nesting in a vector operand");
      out.elems.push_back(std::move(elem));
    } while (lex.accept(','));
    if (out.elems.size() > 128)
      return fail("vector operand of " + Twine(out.elems.size()) +
                  " elements, the limit is 128");
    return expect('}', "after a vector operand");
  }
  if (c == '[') {
    lex.accept('[');
    out.kind = Operand::Address;
    Operand base;
    if (parsePrimary(fn, base) || parseOffset(base))
      return true;
    out.offset = base.offset;
    out.elems.push_back(std::move(base));
    while (lex.accept(',')) {
      Operand more;
      if (lex.peek() == '[')
        return fail("unexpected '[' inside an address");
      if (parseOperand(fn, more, false))
        return true;
      out.elems.push_back(std::move(more));
    }
    return expect(']', "after an address");
  }
  if (parsePrimary(fn, out))
    return true;
  if (out.kind == Operand::Name && parseOffset(out))
    return true;
  if (allowPair && lex.peek() == '|') {
    lex.accept('|');
    Operand second;
    if (parsePrimary(fn, second))
      return true;
    Operand first = std::move(out);
    out = Operand();
    out.kind = Operand::Pair;
    out.elems.push_back(std::move(first));
    out.elems.push_back(std::move(second));
  }
  return false;
}

/// `.loc file line column [, function_name ..., inlined_at ...]`
bool Parser::parseLoc(Function &fn) {
  StringRef rest = lex.restOfLine();
  SourceLoc loc;
  unsigned *fields[3] = {&loc.file, &loc.line, &loc.column};
  for (unsigned *field : fields) {
    rest = rest.ltrim();
    if (rest.consumeInteger(10, *field))
      return fail("malformed '.loc'");
  }
  // Line 0 means "no line": keep the last one.
  if (loc.line) {
    currentLoc = unsigned(fn.locs.size());
    fn.locs.push_back(loc);
  }
  return false;
}

bool Parser::parseBodyDirective(Function &fn, StringRef word, unsigned line) {
  if (word == ".reg") {
    lex.skip();
    return parseRegisters(fn);
  }
  if (word == ".loc")
    return parseLoc(fn);
  if (word == ".file")
    return parseFileDirective();
  if (word == ".pragma") {
    StringRef text;
    if (!lex.quoted(text))
      return fail("expected a string after '.pragma'");
    return expect(';', "after '.pragma'");
  }
  if (word == ".section") {
    lex.dottedWord();
    return lex.skipBraces() ? false : fail("unterminated '.section'");
  }
  if (word == ".local" || word == ".shared" || word == ".extern" ||
      word == ".param") {
    bool external = word == ".extern";
    if (external) {
      lex.skip();
      word = lex.dottedWord();
      if (word != ".shared")
        return failAt(line, "expected '.shared' after '.extern' in a body");
    }
    size_t before = fn.variables.size();
    if (parseVariables(word == ".shared" ? Space::Shared : Space::Local,
                       external, fn.variables))
      return true;
    for (size_t i = before; i < fn.variables.size(); ++i)
      fn.variables[i].parameter = word == ".param";
    for (size_t i = before; i < fn.variables.size(); ++i)
      if (!fn.scopes[scope]
               .variables.try_emplace(fn.variables[i].name, uint32_t(i))
               .second)
        return failAt(line, "variable '" + fn.variables[i].name +
                                "' is declared twice");
    return false;
  }
  return failAt(line, "unknown directive '" + word + "' in a function body");
}

bool Parser::parseStatement(Function &fn) {
  Instruction instr;
  lex.skip();
  instr.line = lex.line();
  instr.loc = currentLoc;
  instr.scope = scope;
  if (lex.accept('@')) {
    instr.guarded = true;
    instr.guardNegated = lex.accept('!');
    StringRef name = lex.identifier();
    if (!lookupRegister(fn, name, instr.guard))
      return fail("unknown guard predicate '" + name + "'");
    if (fn.registers[instr.guard].cls != RegClass::Pred)
      return fail("guard '" + name + "' is no predicate register");
    lex.skip();
    instr.line = lex.line();
  }
  instr.opcode = lex.dottedWord();
  if (instr.opcode.empty())
    return fail("expected an instruction, but got " + lex.near());
  if (!instr.guarded && !instr.opcode.contains('.') && lex.acceptLabelColon()) {
    StringRef name = instr.opcode;
    if (!fn.scopes[scope]
             .labels.try_emplace(name, uint32_t(fn.instructions.size()))
             .second)
      return failAt(instr.line, "label '" + name + "' is defined twice");
    if (lex.peek() != '.')
      return false;
    StringRef word = lex.dottedWord();
    if (word == ".branchtargets") {
      std::vector<StringRef> targets;
      do {
        targets.push_back(lex.identifier());
        if (targets.back().empty())
          return fail("expected a label in '.branchtargets'");
      } while (lex.accept(','));
      fn.scopes[scope].branchTargets[name] = std::move(targets);
      return expect(';', "after '.branchtargets'");
    }
    if (word == ".callprototype")
      return parsePrototype();
    if (word == ".calltargets") {
      do {
        if (lex.identifier().empty())
          return fail("expected a function in '.calltargets'");
      } while (lex.accept(','));
      return expect(';', "after '.calltargets'");
    }
    return parseBodyDirective(fn, word, instr.line);
  }
  instr.opcode.split(instr.parts, '.');
  if (lex.accept(';')) {
    fn.instructions.push_back(std::move(instr));
    return false;
  }
  bool first = true;
  do {
    Operand operand;
    bool list = lex.peek() == '(' && instr.parts.front() == "call";
    if (list ? parseArgumentList(fn, operand)
             : parseOperand(fn, operand, first))
      return true;
    first = false;
    instr.operands.push_back(std::move(operand));
  } while (lex.accept(','));
  if (lex.peek() != ';')
    return failAt(instr.line, "expected ';' after '" + instr.opcode +
                                  "', but got " + lex.near());
  lex.accept(';');
  fn.instructions.push_back(std::move(instr));
  return false;
}

bool Parser::parseBody(Function &fn) {
  if (expect('{', "before the body of '" + fn.name + "'"))
    return true;
  fn.scopes.emplace_back();
  fn.locs.push_back({});
  scope = 0;
  currentLoc = 0;
  while (true) {
    switch (lex.peek()) {
    case 0:
      return fail("unterminated body of '" + fn.name + "'");
    case '{': {
      lex.accept('{');
      if (fn.scopes.size() >= 65536)
        return fail("more than 65536 scopes");
      fn.scopes.emplace_back();
      fn.scopes.back().parent = scope;
      scope = unsigned(fn.scopes.size() - 1);
      break;
    }
    case '}':
      lex.accept('}');
      if (scope == 0)
        return false;
      scope = fn.scopes[scope].parent;
      break;
    case '.': {
      unsigned line = lex.line();
      StringRef word = lex.dottedWord();
      if (parseBodyDirective(fn, word, line))
        return true;
      break;
    }
    case ';': // An empty statement.
      lex.accept(';');
      break;
    default:
      if (parseStatement(fn))
        return true;
    }
  }
}

} // namespace ptx
} // namespace sim
} // namespace flamia
