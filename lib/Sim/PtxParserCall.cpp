//===- PtxParserCall.cpp - Device functions, parameters, calls ------------===//

#include "PtxParser.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {
namespace ptx {

using llvm::Twine;

/// `(.param .b32 a, ...)`; nothing when there is no list. `owner` is its
/// function's name.
bool Parser::parseParamList(StringRef owner, std::vector<Param> &params) {
  if (!lex.accept('('))
    return false;
  if (lex.accept(')'))
    return false;
  uint64_t offset = 0;
  do {
    lex.skip();
    StringRef kind = lex.dottedWord();
    if (kind == ".reg")
      return fail("register parameters of device functions are not simulated: "
                  "'" +
                  owner + "'");
    if (kind != ".param")
      return fail("expected '.param' in the parameter list of '" + owner + "'");
    Param param;
    uint64_t align = 0;
    unsigned elementBytes = 0;
    while (lex.peek() == '.') {
      StringRef word = lex.dottedWord();
      if (word == ".align") {
        // `.ptr .global .align 1` describes the pointee, not the parameter.
        if (unsignedInt(align, "'.align'"))
          return true;
        if (elementBytes)
          align = 0;
      } else if (word == ".ptr" || word == ".global" || word == ".const" ||
                 word == ".shared" || word == ".local") {
        continue;
      } else if (unsigned bytes = bytesOfType(word)) {
        elementBytes = bytes;
      } else {
        return fail("unknown parameter attribute '" + word + "'");
      }
    }
    if (!elementBytes)
      return fail("expected a type for a parameter of '" + owner + "'");
    param.name = lex.identifier();
    if (param.name.empty())
      return fail("expected a parameter name, but got " + lex.near());
    uint64_t count = 1;
    if (lex.accept('[')) {
      // An empty bound stands for the arguments of a variadic function.
      if (lex.peek() == ']')
        count = 0;
      else if (unsignedInt(count, "the parameter's size"))
        return true;
      if (expect(']', "after the parameter's size"))
        return true;
    }
    if (count > 65536)
      return fail("parameter '" + param.name + "' has " + Twine(count) +
                  " elements, the limit is 65536");
    if (!align)
      align = elementBytes;
    if (align & (align - 1) || align > 4096)
      return fail("alignment " + Twine(align) +
                  " is no power of two up to 4096");
    offset = (offset + align - 1) & ~(align - 1);
    param.offset = uint32_t(offset);
    param.size = uint32_t(count * elementBytes);
    param.align = uint32_t(align);
    offset += param.size;
    if (offset > 65536)
      return fail("parameters of '" + owner + "' exceed 65536 bytes");
    params.push_back(param);
  } while (lex.accept(','));
  return expect(')', "after the parameters");
}

/// `.func (returns) name (params) directives ; or { body }`.
bool Parser::parseDeviceFunction() {
  Function fn;
  fn.isEntry = false;
  lex.skip();
  fn.line = lex.line();
  if (parseParamList("a device function", fn.returns))
    return true;
  fn.name = lex.identifier();
  if (fn.name.empty())
    return fail("expected a function name, but got " + lex.near());
  if (fn.returns.size() > 1)
    return failAt(fn.line, "expected at most one return value of '" + fn.name +
                               "', but got " + Twine(fn.returns.size()));
  if (parseParamList(fn.name, fn.params))
    return true;
  while (lex.peek() == '.') {
    StringRef word = lex.dottedWord();
    uint64_t ignored;
    StringRef text;
    if (word == ".noreturn")
      continue;
    if (word == ".pragma") {
      if (!lex.quoted(text) || expect(';', "after '.pragma'"))
        return fail("expected a string after '.pragma'");
    } else if (word == ".abi_preserve" || word == ".abi_preserve_control") {
      if (unsignedInt(ignored, word))
        return true;
    } else {
      return fail("unknown function directive '" + word + "'");
    }
  }
  auto known =
      module.deviceFunctions.try_emplace(fn.name, ModuleAst::noBody).first;
  if (lex.accept(';'))
    return false; // A declaration.
  if (known->second != ModuleAst::noBody)
    return failAt(fn.line, "function '" + fn.name + "' is defined twice");
  if (parseBody(fn))
    return true;
  known->second = uint32_t(module.functions.size());
  module.functions.push_back(std::move(fn));
  return false;
}

/// `.callprototype (returns) _ (params) .noreturn;`: an indirect call finds its
/// function's own parameters at run time.
bool Parser::parsePrototype() {
  std::vector<Param> ignored;
  if (parseParamList("a prototype", ignored))
    return true;
  if (lex.identifier() != "_")
    return fail("expected '_' in '.callprototype', but got " + lex.near());
  if (parseParamList("a prototype", ignored))
    return true;
  while (lex.peek() == '.') {
    StringRef word = lex.dottedWord();
    if (word != ".noreturn")
      return fail("unknown directive '" + word + "' of '.callprototype'");
  }
  return expect(';', "after '.callprototype'");
}

/// `(a, b)`: return value or arguments of a call.
bool Parser::parseArgumentList(Function &fn, Operand &out) {
  lex.accept('(');
  out.kind = Operand::List;
  if (lex.accept(')'))
    return false;
  do {
    Operand elem;
    if (parsePrimary(fn, elem))
      return true;
    out.elems.push_back(std::move(elem));
  } while (lex.accept(','));
  return expect(')', "after the arguments of a call");
}

} // namespace ptx
} // namespace sim
} // namespace flamia
