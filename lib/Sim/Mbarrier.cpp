//===- Mbarrier.cpp - The mbarrier state machine --------------------------===//

#include "Mbarrier.h"

namespace flamia {
namespace sim {

void Mbarrier::settle() {
  if (pending != 0 || tx != 0)
    return;
  ++phase;
  pending = expected;
  doneTma += curTma;
  doneMma += curMma;
  curTma = curMma = 0;
  if (tracer)
    tracePhase();
}

bool Mbarrier::changeTx(int64_t bytes, std::string &error) {
  if (tx + bytes > maxTx || tx + bytes < -maxTx) {
    error = "transaction count " + std::to_string(tx + bytes) +
            " passes the limit of " + std::to_string(maxTx);
    return false;
  }
  tx += bytes;
  settle();
  return true;
}

bool Mbarrier::arrive(uint32_t count, int64_t bytes, bool drop,
                      std::string &error) {
  if (count > pending) {
    error = "arrival of count " + std::to_string(count) +
            " exceeds the pending count " + std::to_string(pending);
    return false;
  }
  if (tx + bytes > maxTx) {
    error = "transaction count " + std::to_string(tx + bytes) +
            " passes the limit of " + std::to_string(maxTx);
    return false;
  }
  // The expectation counts before the arrival, so that a phase whose bytes
  // are still to come cannot complete in between.
  tx += bytes;
  pending -= count;
  if (drop)
    expected -= count;
  settle();
  return true;
}

std::string Mbarrier::describe() const {
  return "phase " + std::to_string(phase) + ", pending arrivals " +
         std::to_string(pending) + " of " + std::to_string(expected) +
         ", pending bytes " + std::to_string(tx);
}

} // namespace sim
} // namespace flamia
