//===- Workloads.h - Tables of many workloads -------------------*- C++ -*-===//
#ifndef FLAMIA_TOOLS_FLAMIA_MODEL_WORKLOADS_H
#define FLAMIA_TOOLS_FLAMIA_MODEL_WORKLOADS_H

#include "flamia/Model/Sass.h"

namespace flamia {
namespace model {

/// Reads workloads and models each on B200 and B300 with the kernels of a
/// folder (both architectures in it or in its subfolders sm_100a and sm_103a).
/// Returns a Markdown table. The file: [{"name": "...", "docs": [len, ...],
/// "heads": 64, "kv_heads": 8, "head_dim": 128, "causal": true}, ...].
llvm::Expected<std::string> workloadTable(llvm::StringRef file,
                                          llvm::StringRef kernels,
                                          const Tools &tools);

} // namespace model
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_MODEL_WORKLOADS_H
