//===- Trace.h - What happened when in a launch -----------------*- C++ -*-===//
//
// A timeline of a launch (SimOptions::trace). Its unit of time is one warp
// instruction of the cluster, or one asynchronous operation carried out while
// every warp waits: the simulator knows an order, no durations.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_SIM_TRACE_H
#define FLAMIA_SIM_TRACE_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace flamia {
namespace sim {

struct TraceEvent {
  enum Kind : uint8_t {
    Run,        ///< A warp executes.
    Wait,       ///< Lanes of a warp are blocked.
    Issue,      ///< A warp begins an asynchronous operation.
    Mma,        ///< One tcgen05.mma, cp or shift, as issued.
    MmaBatch,   ///< MMAs up to a tcgen05.commit.
    Load,       ///< TMA or bulk copy that an mbarrier counts.
    Store,      ///< TMA or bulk copy out of shared memory.
    TmemAccess, ///< tcgen05.ld or st.
    Phase       ///< Of an mbarrier.
  };
  Kind kind = Run;
  /// The end was not seen: lanes still blocked, completion never waited for,
  /// phase incomplete.
  bool open = false;
  uint32_t cta = 0;  ///< Index into Trace::ctas.
  uint32_t row = 0;  ///< Warp of the CTA; Phase: shared address.
  uint32_t line = 0; ///< PTX line, 0: none.
  uint32_t name = 0; ///< Index into Trace::names.
  uint64_t begin = 0, end = 0;
  uint64_t id = 0;     ///< Joins Issue to its operation; 0: none.
  uint64_t done = 0;   ///< Operations: when it was carried out, 0: never.
  int32_t seenBy = -1; ///< Operations: warp that waited for it.
  uint32_t count = 0;  ///< MmaBatch: MMAs; Wait, Phase: number of the phase.
};

struct Trace {
  struct Cta {
    std::array<uint32_t, 3> id = {0, 0, 0};
    unsigned warps = 0;
  };
  std::vector<Cta> ctas;
  std::vector<TraceEvent> events;
  std::vector<std::string> names;
  /// Events were left out because there were too many.
  bool truncated = false;

  /// Events kept of a launch.
  static constexpr size_t limit = 500000;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_SIM_TRACE_H
