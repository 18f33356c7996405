//===- Inputs.h - The problem flamia-run works on ---------------*- C++ -*-===//
//
// Reads or makes Q, K, V, dO, dLSE and the document offsets.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_INPUTS_H
#define FLAMIA_TOOLS_FLAMIA_RUN_INPUTS_H

#include "Options.h"

#include "flamia/Reference/Backward.h"

namespace flamia {
namespace run {

/// Reads the files that the options name, or makes tensors. Every rule of the
/// command-line contract about them is checked here. Without a backward there
/// is no dO.
llvm::Expected<reference::BackwardInputs> makeInputs(const Options &options);

/// The offsets in the file of --cu-seqlens, checked.
llvm::Expected<std::vector<int64_t>>
readDocumentOffsets(const Options &options);

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_INPUTS_H
