//===- Cluster.cpp - Warps, fragments and their scheduling ----------------===//

#include "ExecAsync.h"
#include "Machine.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

/// Instructions a fragment may run before others get a turn.
static constexpr unsigned quantum = 4096;
/// Rounds of timed-out waits without any visible change that mean a deadlock.
static constexpr unsigned maxIdleRounds = 64;
/// Instructions without visible effect after which a pending operation is
/// carried out although some thread still runs.
static constexpr uint64_t pollPatience = 100000;

AlignedBytes allocateAligned(size_t bytes) {
  size_t rounded = (bytes + 63) & ~size_t(63);
  auto *p =
      static_cast<uint8_t *>(std::aligned_alloc(64, rounded ? rounded : 64));
  if (!p)
    std::abort();
  std::memset(p, 0, rounded);
  return AlignedBytes(p);
}

Exec::Exec(Cluster &cluster, Warp &warp, size_t fragment)
    : cluster(cluster), cta(*warp.cta), warp(warp), fragmentIndex(fragment),
      bank{warp.registers.get(), warp.cta->constants.data()},
      kernel(*cluster.launch.kernel), launch(cluster.launch) {}

Tmem &Cta::tensorMemory() {
  if (!tmem)
    tmem = std::make_unique<Tmem>();
  return *tmem;
}

Mbarrier *Cta::findMbarrier(uint32_t address) {
  if (address < sharedBase || address & 7)
    return nullptr;
  size_t slot = (address - sharedBase) / 8;
  if (slot >= mbarrierAt.size() || mbarrierAt[slot] < 0)
    return nullptr;
  Mbarrier &b = mbarriers[mbarrierAt[slot]];
  return b.live ? &b : nullptr;
}

//===----------------------------------------------------------------------===//
// Start
//===----------------------------------------------------------------------===//

namespace {
/// Fills the lanes of one special register.
class SpecialFiller {
public:
  SpecialFiller(const LaunchState &launch, const Cta &cta, const Warp &warp)
      : launch(launch), cta(cta), warp(warp) {}

  uint64_t value(Special s, unsigned lane) const {
    const LaunchConfig &c = *launch.config;
    uint32_t thread = warp.index * warpLanes + lane;
    uint32_t bx = c.block[0], by = c.block[1];
    std::array<uint32_t, 3> inCluster;
    for (unsigned k = 0; k < 3; ++k)
      inCluster[k] = cta.id[k] % c.cluster[k];
    switch (s) {
    case Special::TidX:
      return thread % bx;
    case Special::TidY:
      return thread / bx % by;
    case Special::TidZ:
      return thread / bx / by;
    case Special::NtidX:
    case Special::NtidY:
    case Special::NtidZ:
      return c.block[unsigned(s) - unsigned(Special::NtidX)];
    case Special::CtaidX:
    case Special::CtaidY:
    case Special::CtaidZ:
      return cta.id[unsigned(s) - unsigned(Special::CtaidX)];
    case Special::NctaidX:
    case Special::NctaidY:
    case Special::NctaidZ:
      return c.grid[unsigned(s) - unsigned(Special::NctaidX)];
    case Special::LaneId:
      return lane;
    case Special::WarpId:
      return warp.index;
    case Special::NwarpId:
      return launch.warpsPerCta;
    case Special::SmId:
      return (cta.id[0] +
              c.grid[0] * (cta.id[1] + uint64_t(c.grid[1]) * cta.id[2])) %
             148;
    case Special::NsmId:
      return 148;
    case Special::ClusterIdX:
    case Special::ClusterIdY:
    case Special::ClusterIdZ: {
      unsigned k = unsigned(s) - unsigned(Special::ClusterIdX);
      return cta.id[k] / c.cluster[k];
    }
    case Special::NclusterIdX:
    case Special::NclusterIdY:
    case Special::NclusterIdZ: {
      unsigned k = unsigned(s) - unsigned(Special::NclusterIdX);
      return c.grid[k] / c.cluster[k];
    }
    case Special::ClusterCtaIdX:
    case Special::ClusterCtaIdY:
    case Special::ClusterCtaIdZ:
      return inCluster[unsigned(s) - unsigned(Special::ClusterCtaIdX)];
    case Special::ClusterNctaIdX:
    case Special::ClusterNctaIdY:
    case Special::ClusterNctaIdZ:
      return c.cluster[unsigned(s) - unsigned(Special::ClusterNctaIdX)];
    case Special::ClusterCtaRank:
      return cta.rank;
    case Special::ClusterNctaRank:
      return uint64_t(c.cluster[0]) * c.cluster[1] * c.cluster[2];
    case Special::LanemaskEq:
      return 1u << lane;
    case Special::LanemaskLe:
      return (2ull << lane) - 1;
    case Special::LanemaskLt:
      return (1u << lane) - 1;
    case Special::LanemaskGe:
      return ~((1u << lane) - 1);
    case Special::LanemaskGt:
      return uint32_t(~((2ull << lane) - 1));
    case Special::DynamicSmemSize:
      return c.dynamicShared;
    case Special::TotalSmemSize:
    case Special::AggrSmemSize:
      return cta.shared.size();
    default:
      return 0;
    }
  }

private:
  const LaunchState &launch;
  const Cta &cta;
  const Warp &warp;
};
} // namespace

static void startWarp(const LaunchState &launch, Cta &cta, Warp &warp) {
  const Kernel &kernel = *launch.kernel;
  unsigned first = warp.index * warpLanes;
  unsigned lanes = std::min(launch.threadsPerCta - first, warpLanes);
  warp.present = lanes == 32 ? allLanes : (1u << lanes) - 1;
  warp.live = warp.present;
  warp.registers = allocateAligned(kernel.registerBytes);
  warp.ready = kernel.initialReady;
  warp.pending.assign(kernel.regNames.size(), 0);
  warp.local.assign(size_t(kernel.localBytes) * warpLanes, 0);
  warp.localDefined.assign(warp.local.size(), 0);
  SpecialFiller filler(launch, cta, warp);
  for (const SpecialInit &s : kernel.specials)
    for (unsigned l = 0; l < warpLanes; ++l) {
      uint64_t v = filler.value(s.what, l);
      std::memcpy(warp.registers.get() + s.off + l * s.bytes, &v, s.bytes);
    }
  Fragment f;
  f.mask = warp.live;
  warp.fragments.push_back(f);
}

void Cluster::start(uint64_t clusterIndex, uint64_t seed) {
  const Kernel &kernel = *launch.kernel;
  const LaunchConfig &c = *launch.config;
  random.seed(seed * 0x9E3779B97F4A7C15ull + clusterIndex);
  executed.assign(kernel.code.size(), 0);
  unsigned perCluster = c.cluster[0] * c.cluster[1] * c.cluster[2];
  std::array<uint64_t, 3> clusters;
  for (unsigned k = 0; k < 3; ++k)
    clusters[k] = c.grid[k] / c.cluster[k];
  std::array<uint64_t, 3> at = {clusterIndex % clusters[0],
                                clusterIndex / clusters[0] % clusters[1],
                                clusterIndex / clusters[0] / clusters[1]};
  uint32_t dynamicStart =
      (sharedBase + kernel.sharedBytes + kernel.dynamicAlign - 1) /
      kernel.dynamicAlign * kernel.dynamicAlign;
  uint32_t sharedSize = c.dynamicShared
                            ? dynamicStart + c.dynamicShared - sharedBase
                            : kernel.sharedBytes;
  for (unsigned r = 0; r < perCluster; ++r) {
    auto cta = std::make_unique<Cta>();
    cta->cluster = this;
    cta->rank = r;
    std::array<uint32_t, 3> in = {r % c.cluster[0],
                                  r / c.cluster[0] % c.cluster[1],
                                  r / c.cluster[0] / c.cluster[1]};
    for (unsigned k = 0; k < 3; ++k)
      cta->id[k] = uint32_t(at[k] * c.cluster[k] + in[k]);
    cta->shared.assign(sharedSize, 0);
    cta->shadow.assign(sharedSize, 0);
    cta->mbarrierAt.assign(sharedSize / 8 + 1, -1);
    cta->constants = kernel.constants;
    for (auto [off, bytes] : kernel.sharedConstants)
      for (unsigned l = 0; l < warpLanes && r; ++l) {
        uint64_t v = 0;
        std::memcpy(&v, cta->constants.data() + off + l * bytes, bytes);
        v |= uint64_t(r) << 24;
        std::memcpy(cta->constants.data() + off + l * bytes, &v, bytes);
      }
    for (unsigned w = 0; w < launch.warpsPerCta; ++w) {
      cta->warps.push_back(std::make_unique<Warp>());
      cta->warps.back()->cta = cta.get();
      cta->warps.back()->index = w;
      startWarp(launch, *cta, *cta->warps.back());
    }
    for (NamedBarrier &b : cta->barriers)
      b.lanes.assign(launch.warpsPerCta, 0);
    cta->liveWarps = launch.warpsPerCta;
    ctas.push_back(std::move(cta));
  }
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

/// Lets the lanes that met at a join go on, when all are there.
static void releaseJoin(Cluster &cluster, Warp &warp, int32_t index) {
  Join &join = warp.joins[index];
  if (!join.active || join.arrived != join.expected)
    return;
  join.active = false;
  if (join.arrived == 0)
    return;
  Fragment f;
  f.pc = join.pc;
  f.mask = join.arrived;
  f.join = join.parent;
  f.joinPc = join.parent < 0 ? noIndex : warp.joins[join.parent].pc;
  warp.fragments.push_back(f);
  cluster.park(warp, warp.fragments.size() - 1);
}

bool Cluster::park(Warp &warp, size_t index) {
  Fragment &f = warp.fragments[index];
  if (f.pc != f.joinPc)
    return false;
  int32_t join = f.join;
  warp.joins[join].arrived |= f.mask;
  warp.fragments.erase(warp.fragments.begin() + index);
  releaseJoin(*this, warp, join);
  return true;
}

void Cluster::exitLanes(Warp &warp, uint32_t lanes, int32_t join) {
  warp.live &= ~lanes;
  // Every enclosing join stops expecting the lanes, innermost first.
  for (int32_t j = join; j >= 0;) {
    int32_t parent = warp.joins[j].parent;
    warp.joins[j].expected &= ~lanes;
    releaseJoin(*this, warp, j);
    j = parent;
  }
  if (warp.live == 0)
    finishWarp(warp);
}

bool Cluster::releaseWarpSync(Warp &warp) {
  bool any = false;
  for (Fragment &f : warp.fragments) {
    if (f.wait.kind != Wait::WarpSync || f.wait.released)
      continue;
    uint32_t here = 0;
    for (const Fragment &g : warp.fragments)
      if (g.wait.kind == Wait::WarpSync && !g.wait.released &&
          g.wait.members == f.wait.members)
        here |= g.mask;
    uint32_t members = f.wait.members;
    if (members & warp.live & ~here)
      continue;
    for (Fragment &g : warp.fragments)
      if (g.wait.kind == Wait::WarpSync && g.wait.members == members)
        g.wait.released = true;
    any = true;
  }
  return any;
}

bool Cluster::waitOver(Warp &warp, const Fragment &f) {
  Cta &cta = *warp.cta;
  switch (f.wait.kind) {
  case Wait::None:
    return true;
  case Wait::NamedBarrier:
    return cta.barriers[f.wait.id].generation != f.wait.generation;
  case Wait::TryWait: {
    if (f.wait.timedOut)
      return true;
    Mbarrier *b = cta.findMbarrier(f.wait.id);
    return !b || b->phase != f.wait.generation;
  }
  case Wait::WarpSync:
    return f.wait.released;
  case Wait::ClusterBarrier:
    return clusterGeneration != f.wait.generation;
  case Wait::PairAlloc:
    return ctas[cta.rank ^ 1]->pairAllocs >= f.wait.generation;
  case Wait::TmemAlloc:
    return cta.tensorMemory().allocatedColumns() != f.wait.generation;
  }
  return true;
}

/// A register operand that may not be read, as an error.
static bool reportUnready(Exec &x, const Instr &i, uint32_t reg,
                          uint32_t mask) {
  const std::string &name = x.kernel.regNames[reg];
  uint32_t pending = x.warp.pending[reg] & mask;
  if (pending && x.check(Check::TmemWait)) {
    x.fail(
        i, int(lowestLane(pending)),
        "register '" + name +
            "' is used before tcgen05.wait::ld of the tcgen05.ld that loads it",
        "tmem-wait");
    return true;
  }
  uint32_t undefined = mask & ~readyLanes(x.warp, reg);
  if (undefined && x.check(Check::Uninit)) {
    auto from = x.warp.undefinedFrom.find(reg);
    x.fail(i, int(lowestLane(undefined)),
           from == x.warp.undefinedFrom.end()
               ? "register '" + name + "' is read before it is written"
               : "register '" + name + "' is computed from '" +
                     x.kernel.regNames[from->second] +
                     "', which is read before it is written",
           "uninit");
    return true;
  }
  return false;
}

/// Checks the sources of an instruction; false when an error was reported.
static bool checkUses(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *list = x.kernel.regLists.data() + i.useBegin;
  Warp &w = x.warp;
  bool copies = i.flags & flagCopiesUndef;
  for (uint32_t k = 0; k < i.useCount; ++k) {
    uint32_t reg = list[k];
    uint32_t bad = copies ? w.pending[reg] & mask
                          : mask & (~readyLanes(w, reg) | w.pending[reg]);
    if (!bad)
      continue;
    if (reportUnready(x, i, reg, bad))
      return false;
    // Unchecked, hardware waits for the register.
    if (w.pending[reg] & mask && !finishTmemOps(x.cluster, w, true, false))
      return false;
  }
  if (!w.anyPending)
    return true;
  // A register that a load under way will overwrite must not be written.
  const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
  for (uint32_t k = 0; k < i.defCount; ++k)
    if (uint32_t bad = w.pending[defs[k]] & mask)
      if (x.check(Check::TmemWait)) {
        x.fail(
            i, int(lowestLane(bad)),
            "register '" + x.kernel.regNames[defs[k]] +
                "' is written before tcgen05.wait::ld of the tcgen05.ld that "
                "loads it",
            "tmem-wait");
        return false;
      }
  return true;
}

/// Passes definedness on from the sources of a copy.
static void copyDefs(Exec &x, const Instr &i, uint32_t mask) {
  Warp &w = x.warp;
  const uint32_t *uses = x.kernel.regLists.data() + i.useBegin;
  const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
  auto set = [&](uint32_t reg, unsigned half, uint32_t defined) {
    uint32_t &r = w.ready[2 * reg + half];
    r = (r & ~mask) | (defined & mask);
  };
  auto get = [&](uint32_t reg) {
    return reg == noIndex ? allLanes : w.ready[2 * reg];
  };
  switch (i.copies) {
  case Copies::PackPair: {
    uint32_t lo = get(i.target), hi = get(i.reconverge);
    if (i.defCount) {
      set(defs[0], 0, lo);
      set(defs[0], 1, hi);
    }
    return;
  }
  case Copies::UnpackPair: {
    uint32_t lo = i.useCount ? w.ready[2 * uses[0]] : allLanes;
    uint32_t hi = i.useCount ? w.ready[2 * uses[0] + 1] : allLanes;
    if (i.target != noIndex)
      set(i.target, 0, lo);
    if (i.reconverge != noIndex)
      set(i.reconverge, 0, hi);
    return;
  }
  case Copies::Halves: {
    uint32_t lo = allLanes, hi = allLanes;
    for (uint32_t k = 0; k < i.useCount; ++k) {
      lo &= w.ready[2 * uses[k]];
      hi &= w.ready[2 * uses[k] + 1];
    }
    if (i.defCount) {
      set(defs[0], 0, lo);
      set(defs[0], 1, hi);
    }
    return;
  }
  case Copies::All: {
    uint32_t all = allLanes;
    for (uint32_t k = 0; k < i.useCount; ++k)
      all &= readyLanes(w, uses[k]);
    for (uint32_t k = 0; k < i.defCount; ++k) {
      set(defs[k], 0, all);
      if (!x.kernel.initialReady[2 * defs[k] + 1])
        set(defs[k], 1, all);
      // For the message, remember where it began.
      if (mask & ~all)
        for (uint32_t u = 0; u < i.useCount; ++u)
          if (mask & ~readyLanes(w, uses[u])) {
            auto from = w.undefinedFrom.find(uses[u]);
            w.undefinedFrom[defs[k]] =
                from == w.undefinedFrom.end() ? uses[u] : from->second;
          }
    }
    return;
  }
  case Copies::Any: {
    uint32_t any = i.useCount ? 0 : allLanes;
    for (uint32_t k = 0; k < i.useCount; ++k)
      any |= readyLanes(w, uses[k]);
    for (uint32_t k = 0; k < i.defCount; ++k) {
      set(defs[k], 0, any);
      if (!x.kernel.initialReady[2 * defs[k] + 1])
        set(defs[k], 1, any);
    }
    return;
  }
  }
}

/// Marks the destinations defined.
static void markDefs(Exec &x, const Instr &i, uint32_t mask) {
  if (i.flags & flagCopiesUndef)
    return copyDefs(x, i, mask);
  const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
  for (uint32_t k = 0; k < i.defCount; ++k) {
    x.warp.ready[2 * defs[k]] |= mask;
    x.warp.ready[2 * defs[k] + 1] |= mask;
  }
}

bool Cluster::runFragment(Warp &warp, size_t index, unsigned limit) {
  Exec x(*this, warp, index);
  const std::vector<Instr> &code = x.kernel.code;
  bool checkRegisters = x.check(Check::Uninit) || x.check(Check::TmemWait);
  for (unsigned n = 0; n < limit; ++n) {
    Fragment &f = warp.fragments[index];
    const Instr &i = code[f.pc];
    uint32_t mask = f.mask;
    if (i.guardReg != noIndex) {
      if (checkRegisters && (mask & ~readyLanes(warp, i.guardReg)) &&
          reportUnready(x, i, i.guardReg, mask))
        return false;
      uint32_t p = x.mask(i.guard);
      mask &= i.guardNegated ? ~p : p;
    }
    bool resumed = f.wait.kind != Wait::None;
    if (!resumed) {
      ++executed[f.pc];
      ++warp.byUnit[unsigned(i.unit)];
      ++quietInstructions;
    }
    if (mask == 0) {
      if (++f.pc == f.joinPc && park(warp, index))
        return true;
      continue;
    }
    if (!resumed) {
      if ((checkRegisters || warp.anyPending) && !checkUses(x, i, mask))
        return false;
      if (i.flags & flagAligned && mask != warp.live &&
          x.check(Check::Converge)) {
        x.fail(i, int(lowestLane(mask)),
               "'" + launch.program->opcodes[i.opcode] +
                   "' is executed by lanes 0x" + llvm::Twine::utohexstr(mask) +
                   " of a warp whose live lanes are 0x" +
                   llvm::Twine::utohexstr(warp.live),
               "converge");
        return false;
      }
    }
    Flow flow = i.fn(x, i, mask);
    if (flow == Flow::Next || flow == Flow::Yield) {
      if (i.defCount && !(i.flags & flagOwnDefs))
        markDefs(x, i, mask);
      if (i.flags & flagEffect)
        ++effects;
      Fragment &g = warp.fragments[index];
      g.wait = Wait();
      if (++g.pc == g.joinPc && park(warp, index))
        return true;
      if (flow == Flow::Yield)
        return true;
      continue;
    }
    if (flow == Flow::Jump) {
      if (f.pc == f.joinPc && park(warp, index))
        return true;
      continue;
    }
    return flow != Flow::Fail;
  }
  return true;
}

bool Cluster::runWarp(Warp &warp) {
  // The fragment that is furthest behind goes first; it may make room for the
  // others to reconverge.
  bool ran = false;
  for (unsigned turn = 0; turn < 64; ++turn) {
    releaseWarpSync(warp);
    size_t best = warp.fragments.size();
    for (size_t k = 0; k < warp.fragments.size(); ++k) {
      const Fragment &f = warp.fragments[k];
      if (!waitOver(warp, f))
        continue;
      if (best == warp.fragments.size() || f.pc < warp.fragments[best].pc)
        best = k;
    }
    if (best == warp.fragments.size())
      return ran;
    ran = true;
    size_t count = warp.fragments.size();
    // With several fragments, one that spins must not keep the rest waiting.
    unsigned limit = count > 1 ? 256 : quantum;
    if (!runFragment(warp, best, limit))
      return ran;
    if (count > 1 && warp.fragments.size() > best)
      std::rotate(warp.fragments.begin() + best,
                  warp.fragments.begin() + best + 1, warp.fragments.end());
    if (count == 1 && warp.fragments.size() == 1)
      return true;
  }
  return ran;
}

void Cluster::finishWarp(Warp &warp) {
  Cta &cta = *warp.cta;
  ++effects;
  finishTmemOps(*this, warp);
  finishLaneCopies(*this, warp, warpLanes, 0);
  if (--cta.liveWarps == 0)
    finishCta(cta);
}

void Cluster::finishCta(Cta &cta) {
  if (failed())
    return;
  while (stepAsync(*this, &cta, AsyncPick::Oldest))
    if (failed())
      return;
  if (cta.tmem && cta.tmem->allocatedColumns() &&
      launch.options->checks.has(Check::TmemAlloc)) {
    Diagnostic d;
    d.file = launch.program->fileName;
    d.line = launch.kernel->code.back().line;
    d.message = std::to_string(cta.tmem->allocatedColumns()) +
                " columns of tensor memory are still allocated when the CTA "
                "exits";
    d.check = "tmem-alloc";
    d.cta = cta.id;
    d.hasCta = true;
    errors.push_back(std::move(d));
  }
}

//===----------------------------------------------------------------------===//
// The main loop
//===----------------------------------------------------------------------===//

/// Lets all suspended try_waits return false; false when there are none.
bool Cluster::giveUpWaits() {
  bool any = false;
  for (auto &cta : ctas)
    for (auto &warp : cta->warps)
      for (Fragment &f : warp->fragments)
        if (f.wait.kind == Wait::TryWait) {
          f.wait.timedOut = true;
          any = true;
        }
  return any;
}

void Cluster::run() {
  std::vector<Warp *> warps;
  for (auto &cta : ctas)
    for (auto &warp : cta->warps)
      warps.push_back(warp.get());
  AsyncMode mode = launch.options->async;
  uint64_t lastEffects = effects, timeoutEffects = ~0ull;
  unsigned idleRounds = 0;
  while (!failed()) {
    bool ran = false, alive = false;
    if (mode == AsyncMode::Random)
      std::shuffle(warps.begin(), warps.end(), random);
    for (Warp *w : warps) {
      if (w->live == 0)
        continue;
      alive = true;
      ran |= runWarp(*w);
      if (failed())
        return;
      if (mode == AsyncMode::Random)
        while (!failed() && random() % 4 == 0 &&
               stepAsync(*this, nullptr, AsyncPick::Random)) {
        }
    }
    if (!alive)
      return;
    if (effects != lastEffects) {
      lastEffects = effects;
      quietInstructions = 0;
    }
    if (ran) {
      // Threads that poll without blocking also see operations complete.
      if (quietInstructions > pollPatience &&
          stepAsync(*this, nullptr, AsyncPick::Oldest)) {
        quietInstructions = 0;
        continue;
      }
      if (quietInstructions > launch.options->progressLimit)
        return reportDeadlock("no instruction with a visible effect was "
                              "executed for too long");
      continue;
    }
    if (stepAsync(*this, nullptr,
                  mode == AsyncMode::Random ? AsyncPick::Random
                                            : AsyncPick::Oldest))
      continue;
    if (failed())
      return;
    // Everything waits. Suspended try_waits come back with false; when that
    // changes nothing again and again, nothing ever will.
    idleRounds = effects == timeoutEffects ? idleRounds + 1 : 0;
    timeoutEffects = effects;
    if (idleRounds > maxIdleRounds || !giveUpWaits())
      return reportDeadlock("every warp is blocked");
  }
}

} // namespace sim
} // namespace flamia
