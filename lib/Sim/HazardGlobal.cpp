//===- HazardGlobal.cpp - Conflicts in global memory ----------------------===//
//
// PTX ISA 8 (memory consistency model). Buffers that the kernel may only read
// are left out. Clusters run one after another or on several host threads; only
// releases and acquires through global memory order them.
//
//===----------------------------------------------------------------------===//

#include "GlobalOrder.h"
#include "Hex.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::Twine;

/// Reads of a granule by different agents that are remembered.
static constexpr size_t maxRecords = 16;

void Foreign::join(const Foreign &o) {
  if (o.known.empty())
    return;
  std::vector<std::pair<uint64_t, uint32_t>> all;
  auto a = known.begin();
  auto b = o.known.begin();
  while (a != known.end() || b != o.known.end()) {
    if (b == o.known.end() || (a != known.end() && a->first < b->first)) {
      all.push_back(*a++);
    } else if (a == known.end() || b->first < a->first) {
      all.push_back(*b++);
    } else {
      all.emplace_back(a->first, std::max(a->second, b->second));
      ++a;
      ++b;
    }
  }
  known = std::move(all);
}

uint32_t Foreign::at(uint64_t key) const {
  auto it = std::lower_bound(known.begin(), known.end(), key,
                             [](const std::pair<uint64_t, uint32_t> &e,
                                uint64_t k) { return e.first < k; });
  return it != known.end() && it->first == key ? it->second : 0;
}

static uint64_t foreignKey(uint32_t cluster, uint32_t agent) {
  return uint64_t(cluster) << 32 | agent;
}

static bool isAtomic(AgentKind kind) {
  return kind == AgentKind::Atomic || kind == AgentKind::Reduction;
}

/// What this cluster learns from another cluster's clocks.
Clocks Hazards::import(const Clocks &c, uint32_t from) const {
  Clocks mine;
  for (uint32_t agent = 0; agent < c.v.size(); ++agent)
    if (c.v[agent])
      mine.g.known.emplace_back(foreignKey(from, agent), c.v[agent]);
  for (auto [key, epoch] : c.g.known)
    if (key >> 32 == clusterNumber)
      raiseClock(mine.v, uint32_t(key), epoch);
  mine.g.join(c.g);
  return mine;
}

// Other host threads run other clusters: what they release is in the word
// before the value is in memory, and is looked for after the value was read.
void Hazards::acquireGlobal(Exec &x, const Instr &i) {
  Clocks c;
  for (uint64_t address : acquires)
    cluster.launch.global->word(address, [&](GlobalOrder::Word &w) {
      for (auto &[from, clocks] : w)
        c.join(from == clusterNumber ? clocks : import(clocks, from));
    });
  acquires.clear();
  if (globalFlags[i.opcode] & globalAcquire)
    acquire(state(x.warp), c);
  else
    state(x.warp).relaxedIn.join(c);
}

void Hazards::releaseGlobal(Exec &x, const Instr &i, uint64_t address) {
  Clocks c = globalFlags[i.opcode] & globalRelease ? release(x.warp)
                                                   : state(x.warp).relaxedOut;
  if (c.v.empty())
    return; // Relaxed, and no fence so far.
  cluster.launch.global->word(address, [&](GlobalOrder::Word &w) {
    for (auto &[from, clocks] : w)
      if (from == clusterNumber)
        return clocks.join(c);
    w.emplace_back(clusterNumber, c);
  });
}

/// The CTA of a warp of some cluster, in words.
std::string Hazards::nameCta(uint32_t number, unsigned warp) const {
  const LaunchConfig &c = *cluster.launch.config;
  uint32_t rank = warp / warpsPerCta;
  uint32_t at[3] = {number % c.grid[0], number / c.grid[0] % c.grid[1],
                    number / c.grid[0] / c.grid[1]};
  uint32_t in[3] = {rank % c.cluster[0], rank / c.cluster[0] % c.cluster[1],
                    rank / c.cluster[0] / c.cluster[1]};
  std::string text = "cta (";
  for (unsigned k = 0; k < 3; ++k)
    text += (k ? "," : "") + std::to_string(at[k] + in[k]);
  return text + "), warp " + std::to_string(warp % warpsPerCta);
}

/// True when the access comes after the recorded one.
bool Hazards::globalOrdered(const Access &a, const AccessRecord &r,
                            uint32_t from) const {
  bool generic = r.kind == AgentKind::Generic || r.kind == AgentKind::Atomic;
  uint32_t need = generic ? r.issue : r.epoch;
  if (from != clusterNumber)
    return a.known.g.at(foreignKey(from, r.agent)) >= need;
  // Copies are recorded when they are carried out: what their warp did in
  // between is no earlier access.
  bool mine =
      a.record.kind == AgentKind::Generic || a.record.kind == AgentKind::Atomic;
  if (generic && mine && r.warp == a.record.warp)
    return true;
  if (clockAt(a.known.v, r.agent) >= need)
    return true;
  // Compilers let several warps of a CTA store the same value.
  return generic && r.write && a.record.write && !cluster.storeChanges &&
         a.record.kind == AgentKind::Generic &&
         r.warp / warpsPerCta == a.record.warp / warpsPerCta;
}

bool Hazards::globalTouch(Access &a, const DeviceMemory::Region &region,
                          uint64_t address, uint64_t size) {
  const AccessRecord &n = a.record;
  bool ok = true;
  for (uint64_t at = address, end = address + size; at < end && ok;) {
    uint64_t granule = at / 16, from = at % 16,
             to = std::min<uint64_t>(16, end - granule * 16);
    auto mask = uint16_t(((1u << to) - 1) & ~((1u << from) - 1));
    if (order)
      recordAccess(a, globalPlace | granule, mask, false);
    cluster.launch.global->cell(granule, [&](GlobalOrder::Cell &cell) {
      size_t kept = 0;
      bool merged = false;
      for (GlobalOrder::Record &g : cell) {
        AccessRecord &r = g.access;
        bool same = g.cluster == clusterNumber && r.agent == n.agent &&
                    r.write == n.write && r.kind == n.kind;
        if (same && r.epoch == n.epoch) {
          r.mask |= mask;
          r.instr = n.instr;
          merged = true;
        } else if (r.mask & mask) {
          bool conflict =
              (r.write || n.write) && !(isAtomic(r.kind) && isAtomic(n.kind));
          if (conflict && ok && !globalOrdered(a, r, g.cluster)) {
            ok = false;
            globalFail(a, r, g.cluster, region, at);
          }
          // As in touch().
          if (conflict ? n.write : same)
            r.mask &= ~mask;
        }
        if (r.mask)
          cell[kept++] = g;
      }
      cell.resize(kept);
      if (merged)
        return;
      if (kept >= maxRecords)
        cell.erase(cell.begin());
      cell.push_back({n, clusterNumber});
      cell.back().access.mask = mask;
    });
    at = granule * 16 + to;
  }
  return ok;
}

void Hazards::globalFail(Access &a, const AccessRecord &r, uint32_t from,
                         const DeviceMemory::Region &region, uint64_t address) {
  bool under = r.kind != AgentKind::Generic && r.kind != AgentKind::Atomic;
  std::string then = r.write ? "writes" : "reads";
  std::string where = nameCta(from, r.warp);
  a.x.fail(a.i, a.lane,
           "global memory at address " + hex(address) + " of '" + region.name +
               "' is " + (a.record.write ? "written" : "read") +
               (under && from == clusterNumber
                    ? " while " + name(r.instr) + " still " + then +
                          " it: nothing has waited for that"
                    : ", but nothing orders this after " + name(r.instr) +
                          " (" + where + "), which " + then + " it"),
           "race");
}

bool Hazards::global(Exec &x, const Instr &i,
                     const DeviceMemory::Region &region, uint64_t address,
                     uint32_t size, bool write, int lane) {
  if (!races)
    return true;
  bool atomic = opcodes[i.opcode] & opAtomic;
  uint8_t flags = atomic ? globalFlags[i.opcode] : 0;
  if (!write && flags & globalReads)
    acquires.push_back(address);
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  Access a = {x,
              i,
              lane,
              {index(i), s.now.v[w], s.now.v[w], uint16_t(w), uint16_t(w), 0,
               atomic ? AgentKind::Atomic : AgentKind::Generic, write, 0},
              s.now};
  a.id = accessId(x, i);
  if (!globalTouch(a, region, address, size))
    return false;
  if (write && flags & globalWrites)
    releaseGlobal(x, i, address);
  return true;
}

bool Hazards::globalCopy(Exec &x, const AsyncOp &op,
                         const DeviceMemory::Region &region, uint64_t address,
                         uint64_t size, bool write, bool reduce) {
  if (!races || !op.clocks)
    return true;
  unsigned w = number(x.warp);
  Access a = {x,
              *op.instr,
              op.lane,
              {index(*op.instr), op.epoch, op.issue, uint16_t(op.agent),
               uint16_t(w), 0, AgentKind::Copy, write, 0},
              *op.clocks};
  // Reductions commute, but one that is under way is not complete.
  if (reduce)
    a.record.kind = AgentKind::Reduction;
  a.id = op.event;
  return globalTouch(a, region, address, size);
}

} // namespace sim
} // namespace flamia
