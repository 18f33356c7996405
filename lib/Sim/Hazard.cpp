//===- Hazard.cpp - Happens-before edges ----------------------------------===//
//
// PTX ISA 8 (memory consistency model), 9.7.13.15 (mbarrier), 9.7.16.6 (tcgen05
// memory model); docs/simulator-races.md lists the rules.
//
//===----------------------------------------------------------------------===//

#include "Hazard.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

/// Stands for the cluster's barrier among addresses and numbers of barriers.
static constexpr uint32_t clusterBarrier = 0xFFFFFFFF;

Hazards::Hazards(Cluster &cluster)
    : cluster(cluster), warpsPerCta(cluster.launch.warpsPerCta),
      warpCount(warpsPerCta * unsigned(cluster.ctas.size())),
      agents(4 * warpCount) {
  const CheckSet &checks = cluster.launch.options->checks;
  const std::array<uint32_t, 3> &grid = cluster.launch.config->grid,
                                &first = cluster.ctas[0]->id;
  clusterNumber = first[0] + grid[0] * (first[1] + grid[1] * first[2]);
  races = checks.has(Check::Race);
  proxies = checks.has(Check::ProxyFence);
  fences = checks.has(Check::TensorFence);
  waits = checks.has(Check::TmemWait);
  ptxOrder = checks.has(Check::PtxOrder);
  for (const std::string &opcode : cluster.launch.program->opcodes) {
    StringRef o = opcode;
    uint16_t flags = 0;
    if (o.starts_with("fence.proxy.async") && !o.ends_with(".global"))
      flags |= opProxyFence | opInitFence;
    if (o.starts_with("fence.mbarrier_init") ||
        (o.starts_with("fence.") && o.ends_with("cluster")))
      flags |= opInitFence;
    if (o.starts_with("membar.") || o.starts_with("fence.mbarrier_init") ||
        (o.starts_with("fence.") && !o.starts_with("fence.proxy")))
      flags |= opFence;
    if (o.starts_with("tcgen05.fence"))
      flags |= o.contains("before") ? opBefore : opAfter;
    bool strong = false;
    for (const char *q :
         {".volatile", ".relaxed", ".acquire", ".release", ".mmio"})
      strong |= o.contains(q);
    bool plain = o.starts_with("ld.") || o.starts_with("st.");
    if (o.starts_with("atom.") || o.starts_with("red.") || (plain && strong))
      flags |= opAtomic;
    if (o.starts_with("red.async") || o.starts_with("cp.reduce"))
      flags |= opReduce;
    if (!plain && o.contains(".relaxed"))
      flags |= opRelaxed;
    if (o.contains("_wait.parity"))
      flags |= opParity;
    opcodes.push_back(flags);
    uint8_t words = 0;
    if (!o.starts_with("red.") && !o.starts_with("st."))
      words |= globalReads;
    if (!o.starts_with("ld."))
      words |= globalWrites;
    bool both = o.contains(".acq_rel") || o.contains(".sc");
    if (both || o.contains(".acquire"))
      words |= globalAcquire;
    if (both || o.contains(".release"))
      words |= globalRelease;
    globalFlags.push_back(words);
  }
  warps.resize(warpCount);
  for (unsigned w = 0; w < warpCount; ++w) {
    warps[w].now.v.resize(agents, 0);
    warps[w].now.v[w] = 1;
  }
  if (cluster.launch.options->orderDigest)
    order = std::make_unique<OrderRecorder>(cluster.ctas[0]->id);
  ctas.resize(cluster.ctas.size());
  for (size_t k = 0; k < ctas.size(); ++k) {
    ctas[k].shared.resize(cluster.ctas[k]->shared.size() / 16 + 1);
    if (cluster.launch.kernel->usesTensor)
      ctas[k].tmem.resize(4 * 512);
  }
}

uint32_t Hazards::index(const Instr &i) const {
  // atom copies its Instr; the line still tells.
  const std::vector<Instr> &code = cluster.launch.kernel->code;
  return &i >= code.data() && &i < code.data() + code.size()
             ? uint32_t(&i - code.data())
             : 0;
}

//===----------------------------------------------------------------------===//
// Release and acquire
//===----------------------------------------------------------------------===//

Clocks Hazards::release(const Warp &w) {
  WarpState &s = state(w);
  Clocks c = s.now;
  // Tensor-memory accesses are passed on as of the last fence::before, what
  // came from others without an own fence as it came.
  c.t = s.before;
  joinClock(c.t, s.after);
  ++s.now.v[number(w)];
  return c;
}

void Hazards::acquire(WarpState &s, const Clocks &c) {
  joinClock(s.now.v, c.v);
  joinClock(s.now.a, c.a);
  joinClock(s.after, c.t);
  s.now.g.join(c.g);
}

Clocks Hazards::arrival(const Warp &w, const Instr &i) {
  return relaxed(i) ? state(w).relaxedOut : release(w);
}

void Hazards::arrived(const Warp &w, const Instr &i, const Clocks &c) {
  if (relaxed(i))
    state(w).relaxedIn.join(c);
  else
    acquire(state(w), c);
}

void Hazards::fence(Exec &x, const Instr &i) {
  WarpState &s = state(x.warp);
  uint16_t flags = opcodes[i.opcode];
  unsigned w = number(x.warp);
  if (flags & opProxyFence) {
    s.now.a = s.now.v;
    ++s.now.v[w];
  }
  if (flags & opInitFence)
    for (auto &b : barriers)
      if (b.second.warp == w)
        b.second.fenced = true;
  if (flags & opFence) {
    s.relaxedOut = release(x.warp);
    acquire(s, s.relaxedIn);
  }
  if (flags & opBefore)
    joinClock(s.before, s.now.t);
  if (flags & opAfter) {
    joinClock(s.now.t, s.after);
    s.entered = s.now.v;
  }
}

void Hazards::tmemWait(Exec &x, bool loads) {
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  uint32_t agent = loads ? loadAgent(w) : storeAgent(w);
  uint32_t count = loads ? s.loads : s.stores;
  raiseClock(s.now.v, agent, count);
  raiseClock(s.now.t, agent, count);
}

//===----------------------------------------------------------------------===//
// CTA and cluster barriers
//===----------------------------------------------------------------------===//

void Hazards::namedArrive(Exec &x, const Instr &i, const NamedBarrier &b,
                          uint32_t id) {
  if (order)
    order->meet(x.cta.rank, id, b.generation,
                order->nextEvent(number(x.warp), i.line), i.line);
  Clocks &g = ctas[x.cta.rank].named[id].generation[b.generation & 1];
  // The first to arrive begins a generation.
  if (b.arrived == 0)
    g = Clocks();
  g.join(release(x.warp));
}
void Hazards::namedLeave(Exec &x, uint32_t id, uint64_t generation) {
  acquire(state(x.warp), ctas[x.cta.rank].named[id].generation[generation & 1]);
}
void Hazards::clusterArrive(Exec &x, const Instr &i, uint64_t generation) {
  if (order)
    order->meet(0, clusterBarrier, generation,
                order->nextEvent(number(x.warp), i.line), i.line);
  Clocks &g = clusterGroup.generation[generation & 1];
  if (cluster.clusterArrived == 0)
    g = Clocks();
  g.join(arrival(x.warp, i));
}
void Hazards::clusterWait(Exec &x, uint64_t generation) {
  acquire(state(x.warp), clusterGroup.generation[generation & 1]);
}

//===----------------------------------------------------------------------===//
// Groups of copies
//===----------------------------------------------------------------------===//

void Hazards::laneCopyCommit(Exec &x) {
  WarpState &s = state(x.warp);
  s.copyGroups.push_back(s.copies);
}
void Hazards::laneCopyWait(Exec &x, uint32_t keep, bool all) {
  WarpState &s = state(x.warp);
  size_t groups = s.copyGroups.size();
  uint32_t done = all             ? s.copies
                  : groups > keep ? s.copyGroups[groups - keep - 1]
                                  : 0;
  raiseClock(s.now.v, copyAgent(number(x.warp)), done);
}

void Hazards::bulkWait(Exec &x, int lane, uint64_t below, bool read) {
  uint64_t thread = AsyncQueue::thread(x.cta.rank, x.warp.index, lane);
  WarpState &s = state(x.warp);
  size_t kept = 0;
  for (const BulkStore &b : bulkStores) {
    if (b.thread != thread || b.group >= below) {
      bulkStores[kept++] = b;
      continue;
    }
    raiseClock(s.now.v, b.agent, b.epoch);
    if (read)
      bulkStores[kept++] = b;
    else
      raiseClock(s.now.v, b.writer, b.written);
  }
  bulkStores.resize(kept);
}

//===----------------------------------------------------------------------===//
// Issue of asynchronous operations
//===----------------------------------------------------------------------===//

bool Hazards::issue(Exec &x, AsyncOp &op) {
  if (order)
    op.event = order->nextEvent(number(x.warp), op.instr->line);
  switch (op.kind) {
  case AsyncOp::Mma:
  case AsyncOp::TmemCopy:
  case AsyncOp::TmemShift:
  case AsyncOp::Commit:
    return issueInPipe(x, op);
  case AsyncOp::LaneArrive: {
    Clocks c = release(x.warp);
    unsigned w = number(x.warp);
    op.agent = copyAgent(w);
    op.epoch = ++state(x.warp).copies;
    raiseClock(c.v, op.agent, op.epoch);
    op.clocks = std::make_shared<Clocks>(std::move(c));
    return true;
  }
  default:
    return issueCopy(x, op);
  }
}

bool Hazards::issueInPipe(Exec &x, AsyncOp &op) {
  Pipe &p = pipes[AsyncQueue::thread(op.cta, op.warp, op.lane)];
  if (!p.agent)
    p.agent = agents++;
  WarpState &s = state(x.warp);
  p.now.join(s.now);
  joinClock(p.entered, s.entered);
  if (op.kind == AsyncOp::Commit) {
    // An operation of the pipe too: that it is done tells more than that those
    // before it are.
    op.agent = p.agent;
    op.epoch = ++p.count;
    if (ptxOrder)
      p.ops.push_back({op.kind, 0, 0});
    raiseClock(p.now.v, p.agent, p.count);
    raiseClock(p.now.t, p.agent, p.count);
    Clocks c = release(x.warp);
    c.join(p.now); // Implies fence::before_thread_sync.
    op.clocks = std::make_shared<Clocks>(std::move(c));
    for (size_t k = 0; k < cluster.ctas.size(); ++k) {
      bool target = op.multicast ? op.multicast >> k & 1 : k == op.shared.cta;
      Mbarrier *b =
          target ? cluster.ctas[k]->findMbarrier(op.shared.address) : nullptr;
      if (b && !checkInit(x, *op.instr, op.lane, barrier(*cluster.ctas[k], *b),
                          b->address, op.multicast || k != op.cta))
        return false;
    }
    return true;
  }
  unsigned w = number(x.warp);
  Access a = {x,
              *op.instr,
              op.lane,
              {index(*op.instr), ++p.count, s.now.v[w], uint16_t(p.agent),
               uint16_t(w), 0, AgentKind::Pipe, false, 0},
              p.now,
              &p};
  a.id = accessId(x, *op.instr);
  if (ptxOrder) {
    PipeOp o = {op.kind, 0, 0};
    if (op.mma) {
      o.d = op.mma->instr.d;
      o.shape = op.mma->idesc.m << 16 | op.mma->idesc.n;
    }
    p.ops.push_back(o);
  }
  bool ok = true;
  if (op.kind == AsyncOp::Mma) {
    unsigned group = op.mma->instr.ctaGroup;
    unsigned first = group == 2 ? op.cta & ~1u : op.cta;
    for (unsigned k = 0; k < group && ok; ++k)
      ok = footprint(a, *cluster.ctas[first + k], op.mma->footprint[k]);
  } else if (op.kind == AsyncOp::TmemCopy) {
    ok = footprint(a, x.cta, op.cp->footprint);
  } else {
    uint16_t lane = op.address >> 16, column = op.address & 0xFFFF;
    ok = cells(a, x.cta, {lane, 32, column, 8}, true);
  }
  raiseClock(p.now.v, p.agent, p.count);
  raiseClock(p.now.t, p.agent, p.count);
  return ok;
}

bool Hazards::issueCopy(Exec &x, AsyncOp &op) {
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  // A slot whose last copy this warp knows to be complete, or a new one.
  Slot *slot = nullptr;
  for (Slot &k : slots)
    if (clockAt(s.now.v, k.agent) >= k.epoch) {
      slot = &k;
      break;
    }
  if (!slot) {
    slots.emplace_back();
    slot = &slots.back();
    slot->agent = agents++;
  }
  ++slot->epoch;
  slot->instr = index(*op.instr);
  slot->warp = uint16_t(w);
  slot->ctas = op.multicast ? op.multicast : 1u << op.shared.cta;
  if (op.kind == AsyncOp::BulkShared)
    slot->ctas |= 1u << op.source.cta;
  Access a = {x,
              *op.instr,
              op.lane,
              {slot->instr, slot->epoch, s.now.v[w], uint16_t(slot->agent),
               uint16_t(w), 0, AgentKind::Copy, false, 0},
              s.now};
  a.id = accessId(x, *op.instr);
  bool tensor =
      op.kind == AsyncOp::TensorLoad || op.kind == AsyncOp::TensorStore;
  uint32_t size = tensor ? op.map.imageBytes() : op.bytes;
  if (op.kind == AsyncOp::TensorLoad &&
      cluster.launch.kernel->copies[op.instr->extra].gather)
    size *= 4;
  if (op.isStore()) {
    uint64_t thread = AsyncQueue::thread(op.cta, op.warp, op.lane);
    Writer &writer = writers[thread];
    if (!writer.agent)
      writer.agent = agents++;
    op.agent = writer.agent;
    op.epoch = ++writer.count;
    op.issue = s.now.v[w];
    op.clocks = std::make_shared<Clocks>(s.now);
    ++s.now.v[w]; // What the warp does from here on comes later.
    bulkStores.push_back(
        {thread, slot->agent, slot->epoch, op.group, op.agent, op.epoch});
    return range(a, *cluster.ctas[op.shared.cta], op.shared.address, size,
                 false);
  }
  if (op.kind == AsyncOp::BulkShared &&
      !range(a, *cluster.ctas[op.source.cta], op.source.address, size, false))
    return false;
  for (size_t k = 0; k < cluster.ctas.size(); ++k) {
    bool target = op.multicast ? op.multicast >> k & 1 : k == op.shared.cta;
    if (!target)
      continue;
    if (!range(a, *cluster.ctas[k], op.shared.address, size, true))
      return false;
    Cta &signalled = *cluster.ctas[op.multicast ? k : op.barrier.cta];
    Mbarrier *b = signalled.findMbarrier(op.barrier.address);
    if (b && !checkInit(x, *op.instr, op.lane, barrier(signalled, *b),
                        b->address, op.multicast || &signalled != &x.cta))
      return false;
  }
  op.issue = s.now.v[w];
  Clocks c = release(x.warp);
  op.agent = slot->agent;
  op.epoch = slot->epoch;
  raiseClock(c.v, slot->agent, slot->epoch);
  op.clocks = std::make_shared<Clocks>(std::move(c));
  return true;
}

//===----------------------------------------------------------------------===//
// Exit
//===----------------------------------------------------------------------===//

void Hazards::exitWarp(Warp &warp) {
  joinClock(ctas[warp.cta->rank].exit, state(warp).now.v);
}

bool Hazards::exitCta(Cta &cta) {
  if (!races)
    return true;
  const Clock &known = ctas[cta.rank].exit;
  auto report = [&](uint32_t instr, unsigned warp) {
    Warp &w = *cluster.ctas[warp / warpsPerCta]->warps[warp % warpsPerCta];
    Exec x(cluster, w, 0);
    const Instr &i = cluster.launch.kernel->code[instr];
    x.fail(i, -1,
           "the CTA exits while " + llvm::Twine(name(instr)) +
               " may still be under way: no thread has waited for it",
           "race");
    return false;
  };
  for (const Slot &s : slots)
    if (s.ctas >> cta.rank & 1 && clockAt(known, s.agent) < s.epoch)
      return report(s.instr, s.warp);
  return true;
}

void Hazards::flush() {
  for (Diagnostic &d : orderErrors)
    cluster.errors.push_back(std::move(d));
  orderErrors.clear();
}

} // namespace sim
} // namespace flamia
