//===- ExecMbarrier.h - mbarriers as other instructions use them -*- C++
//-*-===//
#ifndef FLAMIA_LIB_SIM_EXECMBARRIER_H
#define FLAMIA_LIB_SIM_EXECMBARRIER_H

#include "Machine.h"

namespace flamia {
namespace sim {

/// The live mbarrier at a shared address; null after reporting. `local`: it
/// must be the executing CTA's own.
Mbarrier *mbarrierAt(Exec &x, const Instr &i, uint64_t address, int lane,
                     bool local);
/// A thread saw the barrier's phase complete: what it signals is no longer in
/// flight (statistics).
void observe(Cluster &cluster, Mbarrier &barrier);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_EXECMBARRIER_H
