//===- Report.h - Places in reports -----------------------------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_REPORT_H
#define FLAMIA_LIB_SIM_REPORT_H

#include "Machine.h"

namespace flamia {
namespace sim {

/// "FILE:LINE:COLUMN" of the .loc in force at an instruction, or "".
std::string sourceOf(const LaunchState &launch, const Instr &i);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_REPORT_H
