//===- PtxLexer.h - Characters to PTX words ---------------------*- C++ -*-===//
//
// A cursor over PTX text. PTX words depend on where they stand (an opcode holds
// dots and double colons, an operand does not), so the parser asks for the kind
// of word that it expects instead of reading a token stream.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_PTXLEXER_H
#define FLAMIA_LIB_SIM_PTXLEXER_H

#include "PtxAst.h"

namespace flamia {
namespace sim {
namespace ptx {

class Lexer {
public:
  explicit Lexer(StringRef text)
      : cur(text.data()), end(text.data() + text.size()) {}

  /// Line of the last thing that was looked at, from 1.
  unsigned line() const { return lineNo; }

  /// Skips blanks and both kinds of comments. An unterminated comment ends the
  /// text.
  void skip();
  bool atEnd() {
    skip();
    return cur == end;
  }
  /// The next character after blanks, 0 at the end.
  char peek() {
    skip();
    return cur == end ? 0 : *cur;
  }
  /// The character after the one peek() returned.
  char peekSecond() const { return cur + 1 < end ? cur[1] : 0; }
  bool accept(char c) {
    if (peek() != c)
      return false;
    ++cur;
    return true;
  }
  /// An identifier: letters, digits, _ $ %; empty when there is none.
  StringRef identifier();
  /// An opcode or directive: identifier characters, dots and "::".
  StringRef dottedWord();
  /// True when the next thing is ':' but not "::"; eats it.
  bool acceptLabelColon();
  /// The rest of the line, without the line end.
  StringRef restOfLine();
  /// A "..." string without its quotes; false when it is not one.
  bool quoted(StringRef &out);
  /// Skips a balanced { ... } block whose '{' is next; false when unterminated.
  bool skipBraces();
  /// An integer or floating-point literal with optional sign. False when it is
  /// malformed.
  bool number(Operand &out);
  /// A short piece of text at the cursor, for messages.
  std::string near();

private:
  const char *cur;
  const char *end;
  unsigned lineNo = 1;
};

} // namespace ptx
} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_PTXLEXER_H
