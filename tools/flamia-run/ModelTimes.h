//===- ModelTimes.h - flamia-run --model ------------------------*- C++ -*-===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_MODELTIMES_H
#define FLAMIA_TOOLS_FLAMIA_RUN_MODELTIMES_H

#include "Options.h"

namespace flamia {
namespace run {

/// Prints (and writes as JSON) the workload's modelled time by kernel on B200
/// and B300; runs no workload. `program` is the path of the running program.
llvm::Error modelTimes(const Options &options, const std::string &program);

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_MODELTIMES_H
