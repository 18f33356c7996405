//===- Version.cpp - What --version says ----------------------------------===//

#include "flamia/Driver/Version.h"

#include "flamia/Driver/Driver.h"

#include "llvm/Config/llvm-config.h"

void flamia::driver::printVersion(llvm::raw_ostream &stream,
                                  llvm::StringRef tool) {
  stream << tool << " " << FLAMIA_VERSION << "\nLLVM " << LLVM_VERSION_STRING
         << "\n";
  if (auto ptxas = findPtxas())
    stream << "ptxas " << ptxas->version.getAsString() << " (" << ptxas->path
           << ")\n";
  else
    stream << "ptxas: " << llvm::toString(ptxas.takeError()) << "\n";
}
