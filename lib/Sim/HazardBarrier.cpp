//===- HazardBarrier.cpp - mbarriers: edges and phases --------------------===//
//
// PTX ISA 9.7.13.15 (facts/tcgen05.md section 8). What an mbarrier passes on
// from arrivals to waits, and the three rules that make every arrival count in
// one phase and every wait see one phase, whatever the schedule.
//
//===----------------------------------------------------------------------===//

#include "Hazard.h"
#include "Hex.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::Twine;

static uint64_t barrierKey(const Cta &cta, uint32_t address) {
  return uint64_t(cta.rank) << 32 | address;
}

static std::string placeOf(uint32_t address) {
  return "mbarrier at shared address " + hex(address);
}

void Hazards::barrierInit(Exec &x, const Instr &i, Cta &cta, uint32_t address) {
  BarrierState b;
  b.warp = number(x.warp);
  b.epoch = state(x.warp).now.v[b.warp];
  b.instr = index(i);
  barriers[barrierKey(cta, address)] = std::move(b);
}

Hazards::BarrierState &Hazards::barrier(const Cta &cta, const Mbarrier &b) {
  BarrierState &s = barriers[barrierKey(cta, b.address)];
  // Called before and after every signal, so that no phase is skipped.
  if (s.phase != b.phase) {
    s.done.join(s.current);
    s.current = Clocks();
    s.secondLast = std::move(s.last);
    s.last = std::move(s.arrivals);
    s.arrivals.clear();
    s.waits.clear();
    s.phase = b.phase;
  }
  return s;
}

bool Hazards::checkInit(Exec &x, const Instr &i, int lane,
                        const BarrierState &b, uint32_t address, bool remote) {
  const WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  if (races && b.warp != w && clockAt(s.now.v, b.warp) < b.epoch) {
    x.fail(i, lane,
           placeOf(address) +
               " is used, but nothing orders this after its "
               "initialisation in line " +
               Twine(cluster.launch.kernel->code[b.instr].line) + " (warp " +
               Twine(b.warp % warpsPerCta) + ")",
           "race");
    return false;
  }
  // bar.sync is enough within a CTA, and is what compilers use there.
  if (proxies && remote && !b.fenced) {
    x.fail(i, lane,
           placeOf(address) +
               " is signalled from another CTA, but its "
               "initialisation in line " +
               Twine(cluster.launch.kernel->code[b.instr].line) +
               " is not followed by fence.mbarrier_init",
           "proxy-fence");
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

void Hazards::addSignal(Signals &list, const Signal &s) {
  // The lanes of a warp arrive one after another.
  for (Signal &k : list)
    if (k.agent == s.agent) {
      if (k.epoch < s.epoch)
        k = s;
      return;
    }
  list.push_back(s);
}

const Hazards::Signal *Hazards::unknownSignal(const Signals &list,
                                              const Clock &known) const {
  for (const Signal &s : list)
    if (clockAt(known, s.agent) < s.epoch)
      return &s;
  return nullptr;
}

bool Hazards::checkArrival(Exec &x, const Instr &i, int lane,
                           const BarrierState &b, const Clock &known,
                           uint32_t address) {
  const Signal *s = races ? unknownSignal(b.last, known) : nullptr;
  if (!s)
    return true;
  x.fail(i, lane,
         placeOf(address) + " is signalled for phase " + Twine(b.phase) +
             ", but nothing orders this after " + name(s->instr) + " (warp " +
             Twine(s->warp % warpsPerCta) + "), which phase " +
             Twine(int(b.phase) - 1) + " waits for: it may count in that phase",
         "race");
  return false;
}

bool Hazards::barrierArrive(Exec &x, const Instr &i, Cta &cta, Mbarrier &b,
                            int lane) {
  BarrierState &s = barrier(cta, b);
  if (!checkInit(x, i, lane, s, b.address, &cta != &x.cta))
    return false;
  WarpState &w = state(x.warp);
  unsigned n = number(x.warp);
  if (order)
    order->phase(cta.rank, b.address, b.phase, order->nextEvent(n, i.line),
                 i.line);
  if (relaxed(i)) {
    // Fences decide what it passes on, not whether it comes after. When it has
    // happened cannot be told from clocks, so the phase's end does not ask.
    Clock known = w.now.v;
    joinClock(known, w.relaxedIn.v);
    if (!checkArrival(x, i, lane, s, known, b.address))
      return false;
  } else {
    if (!checkArrival(x, i, lane, s, w.now.v, b.address))
      return false;
    addSignal(s.arrivals, {n, w.now.v[n], index(i), uint16_t(n)});
  }
  s.current.join(arrival(x.warp, i));
  return true;
}

bool Hazards::barrierWait(Exec &x, const Instr &i, Mbarrier &b, int lane) {
  BarrierState &s = barrier(x.cta, b);
  if (!checkInit(x, i, lane, s, b.address, false))
    return false;
  WarpState &w = state(x.warp);
  unsigned n = number(x.warp);
  Clock known = w.now.v;
  joinClock(known, w.relaxedIn.v);
  if (order)
    order->phase(x.cta.rank, b.address, b.phase, order->nextEvent(n, i.line),
                 i.line);
  // While the phase before was still under way, its parity would have passed
  // for that of the one before it.
  const Signal *early = races ? unknownSignal(s.secondLast, known) : nullptr;
  if (early && (opcodes[i.opcode] & opParity)) {
    x.fail(i, lane,
           "wait for phase " + Twine(int(b.phase) - 1) + " of the " +
               placeOf(b.address) + ", but nothing orders this after " +
               name(early->instr) + " (warp " +
               Twine(early->warp % warpsPerCta) + "), which phase " +
               Twine(b.phase - 2) +
               " waits for: before the end of that one the wait would pass "
               "too early",
           "race");
    return false;
  }
  addSignal(s.waits, {n, w.now.v[n], index(i), uint16_t(n)});
  arrived(x.warp, i, s.done);
  return true;
}

bool Hazards::complete(Exec &x, const AsyncOp &op, Cta &cta, uint32_t address) {
  Mbarrier *b = cta.findMbarrier(address);
  if (!b || !op.clocks)
    return true;
  BarrierState &s = barrier(cta, *b);
  if (!checkArrival(x, *op.instr, op.lane, s, op.clocks->v, address))
    return false;
  if (order)
    order->phase(cta.rank, address, b->phase, op.event, op.instr->line);
  s.current.join(*op.clocks);
  addSignal(s.arrivals,
            {op.agent, op.epoch, index(*op.instr), uint16_t(number(x.warp))});
  return true;
}

bool Hazards::signalled(Exec &x, const Instr &i, Cta &cta, const Mbarrier &b,
                        int lane) {
  BarrierState &s = barriers[barrierKey(cta, b.address)];
  if (s.phase == b.phase)
    return true;
  const Signal *late = races ? unknownSignal(s.waits, s.current.v) : nullptr;
  if (late) {
    x.fail(i, lane,
           placeOf(b.address) + " completes phase " + Twine(s.phase) +
               ", but nothing orders that after " + name(late->instr) +
               " (warp " + Twine(late->warp % warpsPerCta) +
               "), which waits for phase " + Twine(int(s.phase) - 1) +
               ": it may miss it",
           "race");
    return false;
  }
  barrier(cta, b);
  return true;
}

} // namespace sim
} // namespace flamia
