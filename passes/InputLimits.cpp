//===- InputLimits.cpp - Limits on input text -----------------------------===//

#include "passes/InputLimits.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace {
/// A scan over tokens, as far as brackets and operators need it.
class Scanner {
public:
  explicit Scanner(StringRef text) : text(text) {}
  Error run();

private:
  void skipString();
  void skipComment();
  void readWord();
  Error fault(const Twine &what) {
    return createStringError(inconvertibleErrorCode(),
                             "line " + Twine(line) + ": " + what);
  }

  StringRef text;
  size_t at = 0;
  unsigned line = 1, depth = 0;
  /// Inside affine_map<...> or affine_set<...>: the depth around it.
  bool inAffine = false;
  unsigned affineDepth = 0, operators = 0;
};
} // namespace

void Scanner::skipString() {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    if (text[at] == '\\')
      ++at;
}

void Scanner::skipComment() {
  while (at < text.size() && text[at] != '\n')
    ++at;
  // The newline itself is counted by the caller's loop.
  --at;
}

void Scanner::readWord() {
  size_t start = at;
  while (at < text.size() && (isAlnum(text[at]) || text[at] == '_'))
    ++at;
  StringRef word = text.slice(start, at);
  --at;
  if (word == "affine_map" || word == "affine_set") {
    inAffine = true;
    affineDepth = depth;
    operators = 0;
  } else if (word == "mod" || word == "floordiv" || word == "ceildiv") {
    ++operators;
  }
}

Error Scanner::run() {
  for (; at < text.size(); ++at) {
    char c = text[at];
    char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (c == '\n') {
      ++line;
    } else if (c == '"') {
      skipString();
    } else if (c == '/' && next == '/') {
      skipComment();
    } else if (isAlpha(c)) {
      readWord();
    } else if ((c == '-' && next == '>') ||
               ((c == '<' || c == '>' || c == '=') && next == '=')) {
      ++at;
    } else if (StringRef("([{<").contains(c)) {
      if (++depth > flamia::maxNesting)
        return fault("nested deeper than " + Twine(flamia::maxNesting) +
                     " levels");
    } else if (StringRef(")]}>").contains(c)) {
      depth -= depth != 0;
      if (inAffine && depth <= affineDepth)
        inAffine = false;
    } else if (StringRef("+-*").contains(c)) {
      ++operators;
    }
    if (inAffine && operators > flamia::maxAffineOperators)
      return fault("more than " + Twine(flamia::maxAffineOperators) +
                   " operators in an affine expression");
  }
  return Error::success();
}

Error flamia::checkInputLimits(StringRef text) {
  if (text.starts_with("ML\xefR"))
    return Error::success();
  return Scanner(text).run();
}
