//===- Cluster.cpp - Warps, fragments and their scheduling ----------------===//

#include "ExecAsync.h"
#include "ExecRegisters.h"
#include "Hazard.h"
#include "Machine.h"
#include "Profiler.h"
#include "RegisterChecks.h"
#include "Tracer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace flamia {
namespace sim {

using llvm::Twine;

/// Instructions a fragment may run before others get a turn.
static constexpr unsigned quantum = 4096;
/// Rounds of timed-out waits without any visible change that mean a deadlock.
static constexpr unsigned maxIdleRounds = 64;
/// Instructions without visible effect after which a pending operation is
/// carried out although some thread still runs.
static constexpr uint64_t pollPatience = 100000;

// The generator is seeded when a random schedule starts.
// NOLINTNEXTLINE(bugprone-random-generator-seed)
Cluster::Cluster(const LaunchState &launch) : launch(launch) {}
Cluster::~Cluster() = default;

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
// Fragments
//===----------------------------------------------------------------------===//

/// Lets the lanes that met at a join go on, when all are there.
static void releaseJoin(Cluster &cluster, Warp &warp, int32_t index) {
  Join &join = warp.joins[index];
  if (!join.active || join.arrived != join.expected)
    return;
  join.active = false;
  join.saved.reset();
  if (join.arrived == 0)
    return;
  Fragment f;
  f.pc = join.resume;
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
  case Wait::Registers:
    return cta.registerPool >= f.wait.id;
  case Wait::TmemAlloc:
    return cta.tensorMemory().allocatedColumns() != f.wait.generation;
  }
  return true;
}

bool Cluster::runFragment(Warp &warp, size_t index, unsigned limit) {
  Exec x(*this, warp, index);
  const std::vector<Instr> &code = x.kernel.code;
  bool checkRegisters = x.check(Check::Uninit) || x.check(Check::TmemWait);
  bool checkPressure = x.check(Check::SetMaxNReg) && !x.kernel.pressure.empty();
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
      if (profiler)
        profiler->step(warp, f.pc);
      ++clock;
    }
    if (mask == 0) {
      if (++f.pc == f.joinPc && park(warp, index))
        return true;
      continue;
    }
    if (!resumed) {
      if (checkPressure && !warp.registerChanges.empty() &&
          x.kernel.pressure[f.pc] > warp.ownedRegisters) {
        reportPressure(x, i);
        return false;
      }
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
    uint64_t before = clock;
    bool good = runFragment(
        warp, best, unsigned(std::min<uint64_t>(limit, lastTick - clock)));
    if (!good)
      return ran;
    if (tracer)
      tracer->ran(warp, before);
    if (clock >= lastTick) {
      reportLimit();
      return ran;
    }
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
  if (hazards)
    hazards->exitWarp(warp);
  if (!failed())
    exitRegisters(*this, warp);
  if (--cta.liveWarps == 0)
    finishCta(cta);
}

void Cluster::finishCta(Cta &cta) {
  if (failed() || (hazards && !hazards->exitCta(cta)))
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

/// Whether another cluster's failure makes this one pointless. The earliest
/// failure is the one that is reported, so earlier clusters go on, unless they
/// poll: what they wait for may be what the failed one would have done, an
/// unlocked lock.
bool Cluster::shouldAbandon() const {
  uint64_t failure = launch.firstFailure.load(std::memory_order_relaxed);
  return failure < place || (failure != LaunchState::noFailure &&
                             clock - quietSince > pollPatience);
}

void Cluster::run() {
  std::vector<Warp *> warps;
  for (auto &cta : ctas)
    for (auto &warp : cta->warps)
      warps.push_back(warp.get());
  AsyncMode mode = launch.options->async;
  if (launch.options->instructionLimit)
    lastTick = launch.options->instructionLimit;
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
      quietSince = clock;
    }
    if (ran) {
      // Threads that poll without blocking also see operations complete.
      if (clock - quietSince > pollPatience &&
          stepAsync(*this, nullptr, AsyncPick::Oldest)) {
        quietSince = clock;
        continue;
      }
      if ((abandoned = shouldAbandon()))
        return;
      if (clock - quietSince > launch.options->progressLimit)
        return reportDeadlock("no instruction with a visible effect was "
                              "executed for too long");
      continue;
    }
    ++clock; // Something other than an instruction happens.
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
