//===- Probes.h - Promises checked by re-runs -------------------*- C++ -*-===//
//
// Runs the leak and consistency probes of lib/Reference on a device.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_PROBES_H
#define FLAMIA_TOOLS_FLAMIA_RUN_PROBES_H

#include "Options.h"
#include "Report.h"

namespace flamia {
namespace run {

/// Re-runs the passes on changed inputs, as the options ask for; results must
/// keep every bit. Without a backward `backward` is empty.
void runProbes(const Options &options, const reference::BackwardInputs &inputs,
               const reference::ForwardFunction &forward,
               const reference::BackwardFunction &backward, Report &report);

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_PROBES_H
