//===- Json.h - JSON from untrusted files -----------------------*- C++ -*-===//
//
// llvm::json::parse recurses without a limit; a file of 50000 brackets
// overflows an 8 MB stack. Header only, as Files.h.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SUPPORT_JSON_H
#define FLAMIA_SUPPORT_JSON_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <algorithm>

namespace flamia {

/// Nesting that parseJson accepts; flamia's own files nest 6 deep.
inline constexpr unsigned kMaxJsonNesting = 64;

/// The deepest nesting of brackets and braces outside strings.
inline unsigned jsonNesting(llvm::StringRef text) {
  unsigned depth = 0, deepest = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth) {
      --depth;
    }
  }
  return deepest;
}

/// Parses JSON text; an error for malformed or too deeply nested text.
inline llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text) {
  if (unsigned depth = jsonNesting(text); depth > kMaxJsonNesting)
    return llvm::createStringError("JSON is nested " + llvm::Twine(depth) +
                                   " deep, expected at most " +
                                   llvm::Twine(kMaxJsonNesting));
  return llvm::json::parse(text);
}

} // namespace flamia

#endif // FLAMIA_SUPPORT_JSON_H
