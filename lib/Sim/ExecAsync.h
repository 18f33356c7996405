//===- ExecAsync.h - Carrying out asynchronous operations -------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_EXECASYNC_H
#define FLAMIA_LIB_SIM_EXECASYNC_H

#include "Machine.h"

namespace flamia {
namespace sim {

enum class AsyncPick { Oldest, Random };

/// Carries out one pending operation (of one CTA, when given); false when there
/// is none. Errors are recorded in the cluster.
bool stepAsync(Cluster &cluster, const Cta *only, AsyncPick pick);

/// Hands an operation to the queue: carried out now or later, by the mode.
/// False after an error.
bool submit(Exec &x, AsyncOp op);
/// Executes one operation; false after an error.
bool runAsync(Cluster &cluster, AsyncOp &op);
/// Reads a multicast mask: false (reported) when it names no CTA, or one that
/// the cluster does not have.
bool multicastMask(Exec &x, const Instr &i, Src from, int lane, uint32_t &mask);
/// Reads the shared memory that a store will write; false after an error.
bool captureStore(Cluster &cluster, AsyncOp &op);

/// Answers clusterlaunchcontrol.try_cancel; false after an error.
bool runCancel(Cluster &cluster, AsyncOp &op);

/// Writes what st.async or red.async brings; false after an error.
bool runRemoteStore(Exec &x, AsyncOp &op);

/// Completes the tcgen05.ld and st of a warp (loads or stores only, when
/// asked).
bool finishTmemOps(Cluster &cluster, Warp &warp, bool loads = true,
                   bool stores = true);
/// Carries out cp.async copies of `lane` (32: all lanes) in groups before the
/// open one minus `keep`.
bool finishLaneCopies(Cluster &cluster, Warp &warp, unsigned lane,
                      uint32_t keep, bool everything = true);

/// True with the chance of the launch's mode that an operation runs at issue.
bool runsNow(Cluster &cluster);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_EXECASYNC_H
