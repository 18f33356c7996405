//===- PtxLexer.cpp - Characters to PTX words -----------------------------===//

#include "PtxLexer.h"

#include <cstdlib>
#include <cstring>

namespace flamia {
namespace sim {
namespace ptx {

static bool isIdent(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

static bool isDigit(char c) { return c >= '0' && c <= '9'; }

void Lexer::skip() {
  while (cur != end) {
    char c = *cur;
    if (c == '\n') {
      ++lineNo;
      ++cur;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++cur;
    } else if (c == '/' && cur + 1 != end && cur[1] == '/') {
      while (cur != end && *cur != '\n')
        ++cur;
    } else if (c == '/' && cur + 1 != end && cur[1] == '*') {
      cur += 2;
      while (cur != end && !(*cur == '*' && cur + 1 != end && cur[1] == '/')) {
        lineNo += *cur == '\n';
        ++cur;
      }
      cur = cur == end ? end : cur + 2;
    } else {
      return;
    }
  }
}

StringRef Lexer::identifier() {
  skip();
  const char *begin = cur;
  while (cur != end && isIdent(*cur))
    ++cur;
  return StringRef(begin, cur - begin);
}

StringRef Lexer::dottedWord() {
  skip();
  const char *begin = cur;
  while (cur != end) {
    if (isIdent(*cur) || *cur == '.')
      ++cur;
    else if (*cur == ':' && cur + 1 != end && cur[1] == ':')
      cur += 2;
    else
      break;
  }
  return StringRef(begin, cur - begin);
}

bool Lexer::acceptLabelColon() {
  if (peek() != ':' || peekSecond() == ':')
    return false;
  ++cur;
  return true;
}

StringRef Lexer::restOfLine() {
  const char *begin = cur;
  while (cur != end && *cur != '\n')
    ++cur;
  return StringRef(begin, cur - begin);
}

bool Lexer::quoted(StringRef &out) {
  if (!accept('"'))
    return false;
  const char *begin = cur;
  while (cur != end && *cur != '"' && *cur != '\n')
    ++cur;
  if (cur == end || *cur != '"')
    return false;
  out = StringRef(begin, cur - begin);
  ++cur;
  return true;
}

bool Lexer::skipBraces() {
  unsigned depth = 0;
  while (!atEnd()) {
    char c = *cur;
    if (c == '"') {
      StringRef ignored;
      if (!quoted(ignored))
        return false;
      continue;
    }
    ++cur;
    if (c == '{')
      ++depth;
    else if (c == '}' && --depth == 0)
      return true;
    else if (depth == 0)
      return false;
  }
  return false;
}

/// Reads `digits` hexadecimal digits; false when there are not that many.
static bool hexDigits(const char *&cur, const char *end, unsigned digits,
                      uint64_t &value) {
  value = 0;
  for (unsigned i = 0; i < digits; ++i, ++cur) {
    if (cur == end)
      return false;
    unsigned d;
    if (isDigit(*cur))
      d = *cur - '0';
    else if (*cur >= 'a' && *cur <= 'f')
      d = *cur - 'a' + 10;
    else if (*cur >= 'A' && *cur <= 'F')
      d = *cur - 'A' + 10;
    else
      return false;
    value = value << 4 | d;
  }
  return true;
}

bool Lexer::number(Operand &out) {
  bool negative = false;
  while (peek() == '-' || peek() == '+') {
    negative ^= *cur == '-';
    ++cur;
  }
  if (cur == end || !(isDigit(*cur) || *cur == '.'))
    return false;
  char second = cur + 1 < end ? cur[1] : 0;
  if (*cur == '0' &&
      (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    out.single = second == 'f' || second == 'F';
    cur += 2;
    uint64_t bits;
    if (!hexDigits(cur, end, out.single ? 8 : 16, bits) ||
        (cur != end && isIdent(*cur)))
      return false;
    out.kind = Operand::Float;
    out.bits = negative ? bits ^ (out.single ? 1ull << 31 : 1ull << 63) : bits;
    return true;
  }
  // A decimal point or an exponent makes a double.
  const char *scan = cur;
  bool hex = *cur == '0' && (second == 'x' || second == 'X');
  bool floating = false;
  if (!hex) {
    while (scan != end && isDigit(*scan))
      ++scan;
    floating = scan != end && (*scan == '.' || *scan == 'e' || *scan == 'E');
  }
  if (floating) {
    std::string digits;
    while (cur != end &&
           (isDigit(*cur) || *cur == '.' || *cur == 'e' || *cur == 'E' ||
            ((*cur == '-' || *cur == '+') && !digits.empty() &&
             (digits.back() == 'e' || digits.back() == 'E'))))
      digits.push_back(*cur++);
    char *stop = nullptr;
    double value = std::strtod(digits.c_str(), &stop);
    if (*stop || (cur != end && isIdent(*cur)))
      return false;
    value = negative ? -value : value;
    out.kind = Operand::Float;
    std::memcpy(&out.bits, &value, 8);
    return true;
  }
  unsigned base = 10;
  if (hex) {
    base = 16;
    cur += 2;
  } else if (*cur == '0' && (second == 'b' || second == 'B')) {
    base = 2;
    cur += 2;
  } else if (*cur == '0' && isDigit(second)) {
    base = 8;
  }
  const char *begin = cur;
  while (cur != end && isIdent(*cur))
    ++cur;
  StringRef digits(begin, cur - begin);
  digits.consume_back("U");
  uint64_t value;
  if (digits.empty() || digits.getAsInteger(base, value))
    return false;
  out.kind = Operand::Int;
  out.bits = negative ? 0 - value : value;
  return true;
}

std::string Lexer::near() {
  skip();
  if (cur == end)
    return "end of file";
  const char *stop = cur;
  while (stop != end && *stop != '\n' && *stop != '\r' && stop - cur < 24)
    ++stop;
  return "'" + std::string(cur, stop) + "'";
}

} // namespace ptx
} // namespace sim
} // namespace flamia
