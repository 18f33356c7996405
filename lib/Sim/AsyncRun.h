//===- AsyncRun.h - Parts of carrying out an operation ----------*- C++ -*-===//
//
// Between AsyncQueue.cpp and AsyncCopies.cpp. All functions that return a bool
// return false after an error, which is recorded in the cluster.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_ASYNCRUN_H
#define FLAMIA_LIB_SIM_ASYNCRUN_H

#include "Machine.h"

namespace flamia {
namespace sim {

/// CTAs that an operation writes to.
llvm::SmallVector<Cta *, 4> targets(Cluster &c, const AsyncOp &op);

/// Checks the shadow states of what an operation reads of a CTA's shared
/// memory: the bytes must be defined, and no mbarrier's. `what` starts the
/// messages.
bool checkFootprint(Exec &x, const Instr &i, int lane, Cta &cta,
                    const Footprint &footprint, const char *what);

/// Signals the operation's mbarrier in a CTA that `bytes` have come.
bool completeBytes(Exec &x, const AsyncOp &op, Cta &cta, uint32_t bytes);

bool runTensorLoad(Exec &x, AsyncOp &op);
/// Also reductions and scatter.
bool runTensorStore(Exec &x, AsyncOp &op);
/// From global memory or another CTA's shared memory.
bool runBulkLoad(Exec &x, AsyncOp &op);
bool runBulkStore(Exec &x, AsyncOp &op);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_ASYNCRUN_H
