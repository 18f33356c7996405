//===- StatsReport.h - Statistics as text and JSON --------------*- C++ -*-===//
#ifndef FLAMIA_TOOLS_SIM_STATSREPORT_H
#define FLAMIA_TOOLS_SIM_STATSREPORT_H

#include "LaunchFile.h"

#include "llvm/Support/raw_ostream.h"

namespace flamia {
namespace simtool {

void printStats(llvm::raw_ostream &os, const sim::SimStats &stats);
llvm::json::Object resultJson(const sim::LaunchResult &result,
                              llvm::ArrayRef<Comparison> comparisons,
                              bool pass);

} // namespace simtool
} // namespace flamia

#endif // FLAMIA_TOOLS_SIM_STATSREPORT_H
