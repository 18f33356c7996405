//===- Profile.h - What each warp of a launch did ---------------*- C++ -*-===//
//
// Counts by PTX instruction and warp, and each warp's way through the program:
// the instructions it ran between the places where it waits for others, signals
// them or begins asynchronous work (SimOptions::profile). A cost model can turn
// the counts into cycles by unit and replay the ways with durations of its own
// (docs/model.md); the simulator itself knows none.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_SIM_PROFILE_H
#define FLAMIA_SIM_PROFILE_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace flamia {
namespace sim {

struct Profile {
  struct Instruction {
    unsigned line = 0; ///< PTX line.
    std::string opcode;
    /// Passes of shared memory over all executions: what the busiest bank has
    /// to give, in 4-byte words (lanes that read one word share it), for half a
    /// warp at a time where lanes access 8 bytes and a quarter where 16; twice
    /// as many lanes at a time where neighbours load the same address.
    uint64_t sharedPasses = 0;
  };
  /// The entry's code, functions that it calls behind it.
  std::vector<Instruction> code;
  /// [warp of the CTA][instruction]: executions, summed over CTAs.
  std::vector<std::vector<uint64_t>> executed;

  struct MmaShape {
    std::string kind; ///< f16, mxf8f6f4, ...
    unsigned m = 0, n = 0, k = 0, ctaGroup = 1;
    bool aInTmem = false;
    bool operator==(const MmaShape &o) const {
      return kind == o.kind && m == o.m && n == o.n && k == o.k &&
             ctaGroup == o.ctaGroup && aInTmem == o.aInTmem;
    }
  };
  std::vector<MmaShape> shapes;

  struct Event {
    enum Kind : uint8_t {
      Run,         ///< Instructions a to b - 1, one after the other.
      Wait,        ///< Until phase b of the mbarrier a is complete.
      Arrive,      ///< At mbarrier a, in its phase b.
      Mma,         ///< Shape a.
      TmemCopy,    ///< tcgen05.cp of bytes, or shift.
      Commit,      ///< mbarrier a, phase b, once the MMAs before are done.
      Load,        ///< bytes to shared memory; signals mbarrier a, phase b.
      Store,       ///< bytes out of shared memory.
      TmemLoad,    ///< bytes.
      TmemStore,   ///< bytes.
      TmemWait,    ///< For loads (a = 1) or stores (a = 0) of this warp.
      NamedArrive, ///< At barrier a of the CTA, generation b.
      NamedWait    ///< For barrier a's generation b.
    };
    Kind kind = Run;
    uint32_t a = 0, b = 0;
    uint32_t bytes = 0;
  };
  /// A CTA that was run. mbarriers are named by rank in the cluster << 24 |
  /// shared address.
  struct Cta {
    std::array<uint32_t, 3> id = {0, 0, 0};
    unsigned rank = 0; ///< In its cluster; clusters follow one another.
    std::vector<std::vector<Event>> warps;
  };
  std::vector<Cta> ctas;
  /// Events were left out because there were too many.
  bool truncated = false;

  /// Events kept of a launch.
  static constexpr size_t limit = 8000000;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_SIM_PROFILE_H
