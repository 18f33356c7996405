//===- OrderRecorder.h - Digest of what orders accesses ---------*- C++ -*-===//
//
// Records, for every pair of accesses to the same bytes of which one writes,
// how the later one is known to come after the earlier one, and for every
// signal and wait the phase of its barrier that it belongs to. Two runs with
// the same digest order the same accesses in the same way, whichever rules look
// at them: the proof of docs/simulator-races.md that a removed instruction was
// redundant.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_ORDERRECORDER_H
#define FLAMIA_LIB_SIM_ORDERRECORDER_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace flamia {
namespace sim {

class OrderRecorder {
public:
  /// Of a cluster with this first CTA.
  explicit OrderRecorder(const std::array<uint32_t, 3> &cluster);

  /// An access as Hazard.h's AccessRecord has it, with a name that does not
  /// depend on the schedule.
  struct Access {
    uint64_t id;
    uint32_t epoch, issue;
    uint16_t agent, warp, mask;
    bool write;
  };
  /// A name for the n-th event of a warp, which is in a PTX line.
  uint64_t eventId(unsigned warp, unsigned line, uint64_t n) const;
  /// The same, counting the events of each warp and line.
  uint64_t nextEvent(unsigned warp, unsigned line);

  /// An access to a granule. `known` tells how the access comes after an
  /// earlier one, 0 when nothing orders the two.
  void access(uint64_t place, const Access &now, unsigned line,
              llvm::function_ref<unsigned(const Access &)> known);
  /// A signal or wait that belongs to a phase of an mbarrier.
  void phase(unsigned cta, uint32_t barrier, uint32_t phase, uint64_t event,
             unsigned line);
  /// An arrival at a CTA's or the cluster's barrier. Those have no parity, so
  /// that only who meets whom counts, not how often they met before.
  void meet(unsigned cta, uint32_t barrier, uint64_t generation, uint64_t event,
            unsigned line);

  /// By PTX line; meetings of several lines are under line 0.
  std::map<unsigned, uint64_t> digests() const;

private:
  uint64_t cluster;
  llvm::DenseMap<uint64_t, std::vector<Access>> history;
  llvm::DenseMap<uint64_t, uint64_t> counts; ///< By warp and line.
  std::map<unsigned, uint64_t> lines;
  struct Meeting {
    uint64_t events = 0;
    unsigned line = 0;
    bool mixed = false;
  };
  std::map<std::array<uint64_t, 3>, Meeting> meetings;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_ORDERRECORDER_H
