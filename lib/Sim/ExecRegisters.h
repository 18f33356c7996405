//===- ExecRegisters.h - Registers owned by a warp --------------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_EXECREGISTERS_H
#define FLAMIA_LIB_SIM_EXECREGISTERS_H

#include "Machine.h"

namespace flamia {
namespace sim {

/// Registers a thread that a kernel with setmaxnreg starts with, as ptxas
/// chooses them: .maxnreg, or what .minnctapersm leaves of an SM's 65536 with
/// .maxntid or .reqntid. 0 when the directives do not say: ptxas then ignores
/// setmaxnreg.
unsigned entryRegisters(const KernelInfo &info);

/// Reports that `i` needs more registers than the warp owns.
void reportPressure(Exec &x, const Instr &i);

/// Called when a warp has exited: the rest of its warpgroup must have executed
/// the same setmaxnreg instructions.
void exitRegisters(Cluster &cluster, Warp &warp);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_EXECREGISTERS_H
