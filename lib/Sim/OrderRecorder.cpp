//===- OrderRecorder.cpp - Digest of what orders accesses -----------------===//

#include "OrderRecorder.h"

namespace flamia {
namespace sim {

/// Mixes a word into a hash.
static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

OrderRecorder::OrderRecorder(const std::array<uint32_t, 3> &first)
    : cluster(mix(mix(mix(1, first[0]), first[1]), first[2])) {}

uint64_t OrderRecorder::eventId(unsigned warp, unsigned line,
                                uint64_t n) const {
  return mix(mix(mix(cluster, warp), line), n);
}

uint64_t OrderRecorder::nextEvent(unsigned warp, unsigned line) {
  return eventId(warp, line, counts[uint64_t(warp) << 32 | line]++);
}

void OrderRecorder::access(uint64_t place, const Access &now, unsigned line,
                           llvm::function_ref<unsigned(const Access &)> known) {
  std::vector<Access> &earlier = history[place];
  uint64_t sum = 0;
  for (const Access &r : earlier) {
    // Pieces of one access may share a granule.
    if (!(r.mask & now.mask) || !(r.write || now.write) || r.id == now.id)
      continue;
    // A sum: in which order the pairs turn up depends on the schedule. Pairs
    // that nothing orders may even turn up the other way round.
    if (unsigned how = known(r))
      sum += mix(mix(mix(place, r.id), now.id), how);
  }
  lines[line] += sum;
  earlier.push_back(now);
}

void OrderRecorder::phase(unsigned cta, uint32_t barrier, uint32_t phase,
                          uint64_t event, unsigned line) {
  lines[line] += mix(mix(mix(event, cta), barrier), phase);
}

void OrderRecorder::meet(unsigned cta, uint32_t barrier, uint64_t generation,
                         uint64_t event, unsigned line) {
  Meeting &m = meetings[{cta, barrier, generation}];
  m.mixed |= m.line && m.line != line;
  m.line = line;
  m.events += mix(event, barrier);
}

std::map<unsigned, uint64_t> OrderRecorder::digests() const {
  std::map<unsigned, uint64_t> all = lines;
  for (const auto &[where, m] : meetings)
    all[m.mixed ? 0 : m.line] += mix(m.events, where[0]);
  return all;
}

} // namespace sim
} // namespace flamia
