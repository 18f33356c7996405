//===- RegisterChecks.h - Which register values are defined -----*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_REGISTERCHECKS_H
#define FLAMIA_LIB_SIM_REGISTERCHECKS_H

#include "Machine.h"

namespace flamia {
namespace sim {

/// Reports that the lanes in `mask` may not read a register; false when the
/// checks that would complain are off.
bool reportUnready(Exec &x, const Instr &i, uint32_t reg, uint32_t mask);
/// Checks the sources of an instruction; false when an error was reported.
bool checkUses(Exec &x, const Instr &i, uint32_t mask);
/// Marks the destinations defined, or as defined as the sources are.
void markDefs(Exec &x, const Instr &i, uint32_t mask);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_REGISTERCHECKS_H
