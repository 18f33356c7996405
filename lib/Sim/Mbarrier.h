//===- Mbarrier.h - The mbarrier state machine ------------------*- C++ -*-===//
//
// facts/tcgen05.md section 8 (PTX ISA 9.7.13.15). Kept beside shared memory
// because the 64-bit object is opaque to programs.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_MBARRIER_H
#define FLAMIA_LIB_SIM_MBARRIER_H

#include <cstdint>
#include <string>

namespace flamia {
namespace sim {

class Tracer;

struct Mbarrier {
  uint32_t address = 0;
  uint32_t phase = 0; ///< Number of completed phases.
  uint32_t expected = 0, pending = 0;
  int64_t tx = 0;
  bool live = false;
  // Operations whose completion this barrier signals, for the statistics: in
  // the current phase, and in phases completed but not yet seen by a waiter.
  uint32_t curTma = 0, curMma = 0, doneTma = 0, doneMma = 0;
  Tracer *tracer = nullptr; ///< Told of completed phases; null: none.
  uint32_t rank = 0;        ///< CTA in the cluster, for the tracer.

  static constexpr int64_t maxTx = (1 << 20) - 1;
  static constexpr uint32_t maxCount = (1 << 20) - 1;

  void init(uint32_t where, uint32_t count) {
    *this = Mbarrier();
    address = where;
    expected = pending = count;
    live = true;
  }
  /// Arrives `count` times after adding `bytes` to the transaction count; false
  /// with a message when a limit is passed.
  bool arrive(uint32_t count, int64_t bytes, bool drop, std::string &error);
  bool changeTx(int64_t bytes, std::string &error);
  /// True when the phase with this parity has completed.
  bool completed(uint32_t parity) const { return (phase & 1) != (parity & 1); }
  /// The opaque state that mbarrier.arrive returns.
  uint64_t token() const { return uint64_t(phase) << 32 | pending; }
  std::string describe() const;

private:
  void settle();
  void tracePhase() const;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_MBARRIER_H
