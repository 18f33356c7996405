//===- TraceReport.h - A timeline as Chrome trace JSON ----------*- C++ -*-===//
#ifndef FLAMIA_TOOLS_SIM_TRACEREPORT_H
#define FLAMIA_TOOLS_SIM_TRACEREPORT_H

#include "flamia/Sim/Trace.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace flamia {
namespace simtool {

/// The trace in Chrome's trace event format (JSON object form), for Perfetto
/// and chrome://tracing: a process a CTA, a thread a row. One unit of time is
/// written as one microsecond.
std::string chromeTrace(const sim::Trace &trace, llvm::StringRef ptxFile);

} // namespace simtool
} // namespace flamia

#endif // FLAMIA_TOOLS_SIM_TRACEREPORT_H
