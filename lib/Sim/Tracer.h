//===- Tracer.h - Records a cluster's timeline ------------------*- C++ -*-===//
//
// One a cluster while it is traced. An operation lasts from its issue until a
// thread sees its completion (a wait on its mbarrier, wait_group, wait::ld), so
// that the picture does not depend on when --async carries it out.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_TRACER_H
#define FLAMIA_LIB_SIM_TRACER_H

#include "Machine.h"

#include "flamia/Sim/Trace.h"

#include "llvm/ADT/StringMap.h"

namespace flamia {
namespace sim {

class Tracer {
public:
  Tracer(Cluster &cluster, Trace &trace);

  /// A fragment of the warp ran from `begin` to now.
  void ran(Warp &warp, uint64_t begin);
  /// An operation was issued by the instruction being executed; gives it its
  /// number.
  void issue(Exec &x, AsyncOp &op);
  void carriedOut(const AsyncOp &op);
  /// `op` signals this barrier in its current phase.
  void signal(const AsyncOp &op, const Cta &cta, uint32_t barrier);
  void tmemAccess(Exec &x, const Instr &i, bool load);
  void tmemWait(Exec &x, bool loads);
  /// Bulk groups of the thread before `group` are complete.
  void bulkWait(Exec &x, int lane, uint64_t group);

  void barrierInit(Mbarrier &barrier, const Cta &cta);
  void phaseDone(const Mbarrier &barrier);
  /// A warp saw the last completed phase.
  void observed(const Mbarrier &barrier, const Warp &warp);
  /// Ends what is still open.
  void finish();

private:
  struct OpenWait {
    uint32_t mask = 0;
    uint32_t line = 0;
    uint64_t since = 0;
    uint64_t timedOut = 0; ///< When a try_wait came back with false, 0: never.
    Wait wait;
  };
  struct Operation {
    TraceEvent event;
    bool ended = false;
    uint64_t thread = 0; ///< Stores, batches: the issuing thread.
    uint32_t group = 0;  ///< Stores.
  };
  struct Barrier {
    uint64_t phaseBegan = 0;
    /// Operations that signal the phase under way, or one not yet seen.
    std::vector<size_t> current, done;
  };

  static uint64_t keyOf(const Warp &w) {
    return uint64_t(w.cta->rank) << 32 | w.index;
  }
  void endWaits(Warp &warp, uint64_t begin);
  uint64_t now() const { return cluster.clock; }
  bool add(TraceEvent e);
  uint32_t name(llvm::StringRef text);
  std::string waitName(const Wait &wait) const;
  TraceEvent event(TraceEvent::Kind kind, const Cta &cta, uint32_t row,
                   uint32_t line, llvm::StringRef text);
  void addIssue(Exec &x, const Instr &i, llvm::StringRef text, uint64_t id);
  size_t open(TraceEvent e, uint64_t thread, uint32_t group);
  void close(Operation &op, int seenBy, bool seen);
  Barrier &barrierOf(const Mbarrier &b) {
    return barriers[uint64_t(b.rank) << 32 | b.address];
  }

  Cluster &cluster;
  Trace &trace;
  uint32_t firstCta; ///< Of the cluster, in Trace::ctas.
  llvm::StringMap<uint32_t> nameIndex;
  std::map<uint64_t, std::vector<OpenWait>> waits; ///< By warp.
  std::map<uint64_t, size_t> lastRun; ///< By warp: event, to be lengthened.
  std::vector<Operation> operations;  ///< AsyncOp::traceId is index + 1.
  std::map<uint64_t, size_t> batches; ///< Open MMA batch of a thread.
  std::map<uint64_t, std::vector<size_t>> tmem;   ///< By warp: not waited for.
  std::map<uint64_t, std::vector<size_t>> stores; ///< By thread.
  std::map<uint64_t, Barrier> barriers;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_TRACER_H
