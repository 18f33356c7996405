//===- Timeline.h - Replaying a CTA with durations --------------*- C++ -*-===//
//
// What of a kernel's work overlaps follows from its channels: who waits for
// whom, how many slots a ring has. The replay takes every warp's way from a
// profile (instructions, waits, signals, asynchronous operations in their
// order) and gives each piece the time that the rates of Machine.h say, so that
// a kernel whose roles wait for one another is as slow as they make it.
//
// Instructions between two such places take as long as the busiest unit of
// their quarter of the SM needs for them; warps that share a quarter share its
// units. Dependences inside a piece, instruction fetch and bank conflicts
// between warps cost nothing here: the figure is a lower bound for this order
// of events.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_TIMELINE_H
#define FLAMIA_MODEL_TIMELINE_H

#include "flamia/Model/Machine.h"
#include "flamia/Sim/Profile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <vector>

namespace flamia {
namespace model {

/// Durations in cycles beside the rates, facts sections 2 and 4.
struct Latencies {
  double commit = 100; ///< Last MMA's end to its mbarrier: 104 to 136 with wake
  double wake = 20;    ///< Completed phase to the waiting warp: try_wait 6 to 8
  double arrive = 40;  ///< mbarrier.arrive to the phase: round trip 54 to 123
  double load = 400;   ///< TMA, L2 hit, beside its bytes: 16 KB in 530
  double tmemLoad = 100; ///< 128x64 fp32 takes 179
  double tmemStore = 40;
  double named = 25;     ///< bar.sync: 22 + 2 a warp
  double scaleCopy = 18; ///< tcgen05.cp in the pipe: MXFP8 costs 75 a tile over
                         ///< FP8, for four copies
};

struct Timeline {
  double cycles = 0;
  double tensorBusy = 0;
  /// The waits at one place of the program.
  struct Wait {
    sim::Profile::Event::Kind kind = sim::Profile::Event::Wait;
    uint32_t barrier = 0; ///< that was waited for last (Wait, NamedWait)
    /// What completed it last: an arrival, a commit or a load, and whose.
    sim::Profile::Event::Kind signal = sim::Profile::Event::Arrive;
    unsigned signalWarp = 0;
    double cycles = 0;
  };
  /// By warp of the first CTA.
  struct WarpTime {
    double busy = 0;    ///< executing
    double waiting = 0; ///< for other warps or operations
    /// By the profile's instruction in front of the wait; those of instruction
    /// ~0 stand at the start.
    std::map<uint32_t, Wait> waits;
  };
  std::vector<WarpTime> warps;
};

/// CTAs that share an SM (each alone in its cluster), from start to end.
/// `costs` are those of one execution by one warp
/// (BlockCounts::instructionCosts).
llvm::Expected<Timeline> replay(llvm::ArrayRef<const sim::Profile::Cta *> ctas,
                                const sim::Profile &profile,
                                llvm::ArrayRef<UnitCycles> costs,
                                const Machine &machine,
                                const Latencies &latencies = {});

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_TIMELINE_H
