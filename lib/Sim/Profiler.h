//===- Profiler.h - Records what the warps of a cluster do ------*- C++ -*-===//
//
// One a cluster while it is profiled. Operations are carried out at issue then
// (AsyncMode::Eager), so that every signal is recorded by the warp that begins
// it, with the phase it counts in.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_PROFILER_H
#define FLAMIA_LIB_SIM_PROFILER_H

#include "Machine.h"

#include "flamia/Sim/Profile.h"

namespace flamia {
namespace sim {

class Profiler {
public:
  Profiler(const Cluster &cluster, Profile &profile);

  /// `warp` executes the instruction at `pc`.
  void step(const Warp &warp, uint32_t pc) {
    ++profile.executed[warp.index][pc];
    Path &path = paths[warp.cta->rank][warp.index];
    if (path.running && path.events->back().b == pc) {
      ++path.events->back().b;
      return;
    }
    add(path, {Profile::Event::Run, pc, pc + 1, 0});
    path.running = true;
  }
  /// Lanes access these words of shared memory (as addresses).
  void shared(const Warp &warp, const Instr &i, const uint64_t *address,
              uint32_t mask, unsigned bytes, bool isLoad);
  void arrive(const Warp &warp, const Mbarrier &b, const Cta &cta);
  void waited(const Warp &warp, const Mbarrier &b);
  void issue(const AsyncOp &op);
  /// A load or commit is about to signal.
  void signal(const AsyncOp &op, const Mbarrier &b, const Cta &cta,
              uint32_t bytes);
  void tmemAccess(const Warp &warp, bool load, unsigned registers);
  void tmemWait(const Warp &warp, bool loads);
  void named(const Warp &warp, bool wait, uint32_t id, uint64_t generation);

private:
  struct Path {
    std::vector<Profile::Event> *events = nullptr;
    bool running = false; ///< The last event is a Run that may go on.
  };
  void add(Path &path, const Profile::Event &event);
  void add(const Warp &warp, const Profile::Event &event) {
    add(paths[warp.cta->rank][warp.index], event);
  }
  static uint32_t name(const Mbarrier &b, unsigned rank) {
    return rank << 24 | b.address;
  }

  Profile &profile;
  size_t count = 0;
  size_t firstCta;
  std::vector<std::vector<Path>> paths; ///< By rank and warp.
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_PROFILER_H
