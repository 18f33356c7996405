//===- InputLimits.h - Limits on input text ---------------------*- C++ -*-===//
//
// MLIR's parser and passes recurse over nested regions, types and affine
// expressions, and a file made for that purpose overflows the stack. Every tool
// calls this on its input before it parses.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_INPUTLIMITS_H
#define FLAMIA_PASSES_INPUTLIMITS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace flamia {

/// Deepest nesting of brackets of any kind, and most operators in one affine
/// map or set.
inline constexpr unsigned maxNesting = 256;
inline constexpr unsigned maxAffineOperators = 1000;

/// An error with the line if \p text exceeds a limit. Strings and comments do
/// not count. MLIR bytecode passes: it is not text.
llvm::Error checkInputLimits(llvm::StringRef text);

} // namespace flamia

#endif // FLAMIA_PASSES_INPUTLIMITS_H
