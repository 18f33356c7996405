//===- Version.h - What --version says --------------------------*- C++ -*-===//

#ifndef FLAMIA_DRIVER_VERSION_H
#define FLAMIA_DRIVER_VERSION_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace flamia::driver {

/// Prints "TOOL 0.1.0", LLVM's version and ptxas's with its path (or why there
/// is none).
void printVersion(llvm::raw_ostream &stream, llvm::StringRef tool);

} // namespace flamia::driver

#endif // FLAMIA_DRIVER_VERSION_H
