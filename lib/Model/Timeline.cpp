//===- Timeline.cpp - Replaying a CTA with durations ----------------------===//

#include "flamia/Model/Timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace flamia {
namespace model {

using sim::Profile;
using Event = Profile::Event;

namespace {

constexpr double never = HUGE_VAL;
constexpr unsigned quarters = 4;

/// A phase of an mbarrier, or a generation of a named barrier.
struct Phase {
  unsigned missing = 0;               ///< Arrivals that have not been issued.
  double complete = 0;                ///< When the last of the others counts.
  Event::Kind signal = Event::Arrive; ///< The last one, and its warp.
  unsigned signalWarp = 0;
  double time() const { return missing ? never : complete; }
};

struct Runner {
  unsigned cta = 0, warp = 0, quarter = 0;
  const std::vector<Event> *events = nullptr;
  size_t next = 0;
  // A piece of instructions under way.
  bool running = false;
  double left = 0; ///< Share of it.
  UnitCycles demand;
  double rate = 0;
  // Waiting.
  Phase *waitsFor = nullptr;
  double wakeDelay = 0;
  double wake = 0; ///< Known time, or never.
  double since = 0;
  uint32_t place = ~0u;                 ///< Instruction that was executed last.
  const Event *wait = nullptr;          ///< What is waited for.
  double loadsDone = 0, storesDone = 0; ///< tcgen05.ld and st.
  bool done = false;
  Timeline::WarpTime time;
};

class Replay {
public:
  Replay(llvm::ArrayRef<const Profile::Cta *> ctas, const Profile &profile,
         llvm::ArrayRef<UnitCycles> costs, const Machine &machine,
         const Latencies &latencies)
      : profile(profile), costs(costs), machine(machine), lat(latencies) {
    unsigned number = 0;
    for (const Profile::Cta *cta : ctas) {
      for (unsigned w = 0; w < cta->warps.size(); ++w) {
        Runner r;
        r.cta = number;
        r.warp = w;
        r.quarter = w % quarters;
        r.events = &cta->warps[w];
        runners.push_back(r);
        for (const Event &e : cta->warps[w])
          if (Phase *p = signalled(number, e))
            ++p->missing;
      }
      ++number;
    }
  }

  llvm::Expected<Timeline> run() {
    while (true) {
      for (Runner &r : runners)
        if (!r.done && !r.running && ready(r))
          advance(r);
      // Signals of later warps may have woken earlier ones at this time.
      bool again = false, alive = false;
      for (Runner &r : runners) {
        alive |= !r.done;
        again |= !r.done && !r.running && ready(r);
      }
      if (again)
        continue;
      if (!alive)
        break;
      setRates();
      double next = never;
      for (const Runner &r : runners) {
        if (r.done)
          continue;
        next = std::min(next, r.running ? now + r.left / r.rate : wakeTime(r));
      }
      if (next == never)
        return llvm::createStringError(
            "the replay is stuck: warps wait for what nothing signals");
      for (Runner &r : runners) {
        if (!r.running)
          continue;
        r.left -= (next - now) * r.rate;
        if (r.left < 1e-9) {
          r.running = false;
          r.time.busy += next - r.since;
          r.since = next;
        }
      }
      now = next;
    }
    Timeline result;
    result.cycles = now;
    result.tensorBusy = tensorBusy;
    for (const Runner &r : runners)
      if (r.cta == 0)
        result.warps.push_back(r.time);
    return result;
  }

private:
  /// The phase that an event's completion counts for, or null.
  Phase *signalled(unsigned cta, const Event &e) {
    switch (e.kind) {
    case Event::Arrive:
    case Event::Commit:
    case Event::Load:
      return &phases[{cta, e.a, e.b}];
    case Event::NamedArrive:
      return &named[{cta, e.a, e.b}];
    default:
      return nullptr;
    }
  }

  double wakeTime(const Runner &r) const {
    return r.waitsFor ? r.waitsFor->time() + r.wakeDelay : r.wake;
  }
  bool ready(const Runner &r) const { return wakeTime(r) <= now; }

  void signal(Runner &r, const Event &e, double when) {
    Phase *p = signalled(r.cta, e);
    --p->missing;
    if (when >= p->complete) {
      p->complete = when;
      p->signal = e.kind;
      p->signalWarp = r.warp;
    }
  }

  void noteWait(Runner &r) {
    double cycles = now - r.since;
    r.time.waiting += cycles;
    if (!r.wait)
      return;
    Timeline::Wait &wait = r.time.waits[r.place];
    wait.kind = r.wait->kind;
    wait.cycles += cycles;
    if (r.waitsFor) {
      wait.barrier = r.wait->a;
      wait.signal = r.waitsFor->signal;
      wait.signalWarp = r.waitsFor->signalWarp;
    }
  }

  /// Works off events that take no time of the warp, up to a piece of
  /// instructions or a wait that is not over.
  void advance(Runner &r) {
    if (r.waitsFor || r.wake > r.since) {
      noteWait(r);
      r.since = now;
    }
    r.waitsFor = nullptr;
    r.wake = now;
    while (r.next < r.events->size()) {
      const Event &e = (*r.events)[r.next++];
      switch (e.kind) {
      case Event::Run:
        start(r, e);
        if (r.running)
          return;
        break;
      case Event::Wait:
      case Event::NamedWait: {
        auto &table = e.kind == Event::Wait ? phases : named;
        auto it = table.find({r.cta, e.a, e.b});
        if (it == table.end())
          break;
        r.waitsFor = &it->second;
        r.wakeDelay = e.kind == Event::Wait ? lat.wake : 0;
        r.wait = &e;
        if (wakeTime(r) > now)
          return;
        r.waitsFor = nullptr;
        break;
      }
      case Event::Arrive:
        signal(r, e, now + lat.arrive);
        break;
      case Event::NamedArrive:
        signal(r, e, now + lat.named);
        break;
      case Event::Mma: {
        const Profile::MmaShape &s = profile.shapes[e.a];
        double cycles = mmaCycles(s.m, s.n, s.aInTmem, s.ctaGroup, machine);
        occupy(tensorFree, cycles);
        tensorBusy += cycles;
        break;
      }
      case Event::TmemCopy:
        occupy(tensorFree,
               std::max(lat.scaleCopy, e.bytes / Machine::sharedBytes));
        break;
      case Event::Commit:
        signal(r, e, std::max(now, tensorFree) + lat.commit);
        break;
      case Event::Load:
        signal(r, e,
               occupy(loadFree, e.bytes / Machine::l2ReadBytes) + lat.load);
        break;
      case Event::Store:
        break;
      case Event::TmemLoad:
        r.loadsDone = occupy(tmemLoadFree, e.bytes / Machine::tmemLoadBytes) +
                      lat.tmemLoad;
        break;
      case Event::TmemStore:
        r.storesDone =
            occupy(tmemStoreFree, e.bytes / Machine::tmemStoreBytes) +
            lat.tmemStore;
        break;
      case Event::TmemWait:
        r.wake = std::max(now, e.a ? r.loadsDone : r.storesDone);
        r.wait = &e;
        if (r.wake > now)
          return;
        break;
      }
    }
    r.done = true;
  }

  /// Adds work to a unit that takes it in order; when it will be done.
  double occupy(double &free, double cycles) {
    free = std::max(free, now) + cycles;
    return free;
  }

  /// Begins the piece of instructions that starts with `first`.
  void start(Runner &r, const Event &first) {
    r.demand = UnitCycles();
    auto add = [&](const Event &e) {
      r.place = e.b - 1;
      for (uint32_t pc = e.a; pc < e.b; ++pc)
        r.demand += costs[pc];
    };
    add(first);
    while (r.next < r.events->size() && (*r.events)[r.next].kind == Event::Run)
      add((*r.events)[r.next++]);
    // A quarter of the SM has a quarter of its lanes; shared memory is the
    // SM's.
    for (Unit u : quarterUnits)
      r.demand[u] *= quarters;
    r.running = r.demand.bound() > 0;
    r.left = 1;
  }

  /// Every piece goes as fast as its busiest unit, unless units are wanted by
  /// several: then all that want one are slowed down alike.
  void setRates() {
    for (Runner &r : runners)
      if (r.running)
        r.rate = 1 / r.demand.bound();
    for (unsigned round = 0; round < 4; ++round) {
      double shared = 0;
      for (const Runner &r : runners)
        if (r.running)
          shared += r.rate * r.demand[Unit::Shared];
      for (unsigned q = 0; q < quarters; ++q)
        for (Unit u : quarterUnits) {
          double load = 0;
          for (const Runner &r : runners)
            if (r.running && r.quarter == q)
              load += r.rate * r.demand[u];
          for (Runner &r : runners)
            if (load > 1 && r.running && r.quarter == q && r.demand[u] > 0)
              r.rate /= load;
        }
      for (Runner &r : runners)
        if (shared > 1 && r.running && r.demand[Unit::Shared] > 0)
          r.rate /= shared;
    }
  }

  static constexpr Unit quarterUnits[] = {Unit::Mufu, Unit::Fma, Unit::Alu,
                                          Unit::Issue};
  const Profile &profile;
  llvm::ArrayRef<UnitCycles> costs;
  const Machine &machine;
  const Latencies &lat;
  std::vector<Runner> runners;
  using Key = std::tuple<unsigned, uint32_t, uint32_t>;
  std::map<Key, Phase> phases, named;
  double now = 0, tensorBusy = 0;
  double tensorFree = 0, loadFree = 0, tmemLoadFree = 0, tmemStoreFree = 0;
};

} // namespace

llvm::Expected<Timeline> replay(llvm::ArrayRef<const Profile::Cta *> ctas,
                                const Profile &profile,
                                llvm::ArrayRef<UnitCycles> costs,
                                const Machine &machine,
                                const Latencies &latencies) {
  if (profile.truncated)
    return llvm::createStringError("the profile is not complete");
  return Replay(ctas, profile, costs, machine, latencies).run();
}

} // namespace model
} // namespace flamia
