//===- Tracer.cpp - Records a cluster's timeline --------------------------===//

#include "Tracer.h"
#include "Hex.h"

#include "llvm/ADT/STLExtras.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

Tracer::Tracer(Cluster &cluster, Trace &trace)
    : cluster(cluster), trace(trace), firstCta(uint32_t(trace.ctas.size())) {
  for (uint32_t k = 0; k < trace.names.size(); ++k)
    nameIndex[trace.names[k]] = k;
  for (const auto &cta : cluster.ctas)
    trace.ctas.push_back({cta->id, unsigned(cta->warps.size())});
}

uint32_t Tracer::name(StringRef text) {
  auto [it, fresh] = nameIndex.try_emplace(text, uint32_t(trace.names.size()));
  if (fresh)
    trace.names.push_back(text.str());
  return it->second;
}

bool Tracer::add(TraceEvent e) {
  if (trace.events.size() >= Trace::limit) {
    trace.truncated = true;
    return false;
  }
  trace.events.push_back(e);
  return true;
}

TraceEvent Tracer::event(TraceEvent::Kind kind, const Cta &cta, uint32_t row,
                         uint32_t line, StringRef text) {
  TraceEvent e;
  e.kind = kind;
  e.cta = firstCta + cta.rank;
  e.row = row;
  e.line = line;
  e.name = name(text);
  e.begin = e.end = now();
  return e;
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

std::string Tracer::waitName(const Wait &wait) const {
  switch (wait.kind) {
  case Wait::None:
    break;
  case Wait::NamedBarrier:
    return "wait barrier " + std::to_string(wait.id);
  case Wait::TryWait:
    return "wait mbarrier " + hex(wait.id);
  case Wait::WarpSync:
    return "wait lanes " + hex(wait.members);
  case Wait::ClusterBarrier:
    return "wait cluster barrier";
  case Wait::TmemAlloc:
    return "wait tensor memory";
  case Wait::PairAlloc:
    return "wait pair";
  case Wait::Registers:
    return "wait registers";
  }
  return "wait";
}

/// The same wait, also when a timed-out try_wait was repeated.
static bool sameWait(const Wait &a, const Wait &b) {
  return a.kind == b.kind && a.id == b.id && a.members == b.members &&
         a.generation == b.generation;
}

void Tracer::endWaits(Warp &warp, uint64_t begin) {
  std::vector<OpenWait> &open = waits[keyOf(warp)];
  for (size_t k = 0; k < open.size();) {
    OpenWait &w = open[k];
    if (llvm::any_of(warp.fragments, [&](const Fragment &f) {
          return sameWait(f.wait, w.wait) && (f.mask & w.mask) == w.mask;
        })) {
      w.timedOut = 0;
      ++k;
      continue;
    }
    // A try_wait that came back with false is normally repeated at once: that
    // is one wait.
    const Mbarrier *barrier = w.wait.kind == Wait::TryWait
                                  ? warp.cta->findMbarrier(w.wait.id)
                                  : nullptr;
    uint64_t end = begin;
    if (barrier && barrier->phase == w.wait.generation && warp.live) {
      w.timedOut = w.timedOut ? w.timedOut : begin;
      if (now() - w.timedOut < 64) {
        ++k;
        continue;
      }
      end = w.timedOut;
    }
    TraceEvent e = event(TraceEvent::Wait, *warp.cta, warp.index, w.line,
                         waitName(w.wait));
    e.begin = w.since;
    e.end = end;
    e.count = uint32_t(w.wait.generation);
    if (e.end > e.begin)
      add(e);
    open.erase(open.begin() + k);
  }
}

void Tracer::ran(Warp &warp, uint64_t begin) {
  endWaits(warp, begin);
  std::vector<OpenWait> &open = waits[keyOf(warp)];
  uint32_t waiting = 0;
  for (const OpenWait &w : open)
    waiting |= w.mask;
  for (const Fragment &f : warp.fragments)
    if (f.wait.kind != Wait::None &&
        llvm::none_of(open, [&](const OpenWait &w) {
          return sameWait(f.wait, w.wait) && (f.mask & w.mask) == w.mask;
        }))
      open.push_back(
          {f.mask, cluster.launch.kernel->code[f.pc].line, now(), 0, f.wait});
  // A look at a barrier that is still closed is part of the wait.
  if (begin == now() || (warp.live && !(warp.live & ~waiting)))
    return;
  auto last = lastRun.find(keyOf(warp));
  if (last != lastRun.end() && trace.events[last->second].end == begin) {
    trace.events[last->second].end = now();
    return;
  }
  TraceEvent e = event(TraceEvent::Run, *warp.cta, warp.index, 0, "run");
  e.begin = begin;
  if (add(e))
    lastRun[keyOf(warp)] = trace.events.size() - 1;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

size_t Tracer::open(TraceEvent e, uint64_t thread, uint32_t group) {
  Operation op;
  // Issue and operation begin with the instruction, whose tick has passed.
  e.begin = now() - 1;
  e.id = uint64_t(firstCta + 1) << 32 | (operations.size() + 1);
  op.event = e;
  op.thread = thread;
  op.group = group;
  operations.push_back(op);
  return operations.size() - 1;
}

void Tracer::close(Operation &op, int seenBy, bool seen) {
  if (op.ended)
    return;
  op.ended = true;
  op.event.end = std::max(now(), op.event.begin + 1);
  op.event.seenBy = seenBy;
  op.event.open = !seen;
  add(op.event);
}

void Tracer::addIssue(Exec &x, const Instr &i, StringRef text, uint64_t id) {
  TraceEvent e = event(TraceEvent::Issue, x.cta, x.warp.index, i.line, text);
  e.begin = now() - 1;
  e.id = id;
  add(e);
}

void Tracer::issue(Exec &x, AsyncOp &op) {
  if (trace.truncated)
    return;
  const Instr &i = *op.instr;
  uint64_t thread = AsyncQueue::thread(op.cta, op.warp, op.lane);
  auto begin = [&](TraceEvent::Kind kind, StringRef text) {
    size_t at =
        open(event(kind, x.cta, x.warp.index, i.line, text), thread, op.group);
    op.traceId = at + 1;
    addIssue(x, i, text, operations[at].event.id);
    return at;
  };
  auto inPipe = [&](const std::string &text) {
    auto batch = batches.find(thread);
    if (batch == batches.end()) {
      size_t at = begin(TraceEvent::MmaBatch, "mma batch");
      batch = batches.emplace(thread, at).first;
    }
    op.traceId = 0;
    ++operations[batch->second].event.count;
    TraceEvent e = event(TraceEvent::Mma, x.cta, x.warp.index, i.line, text);
    e.begin = now() - 1;
    add(e);
  };
  switch (op.kind) {
  case AsyncOp::TensorLoad:
    begin(TraceEvent::Load, "tma load");
    return;
  case AsyncOp::BulkLoad:
  case AsyncOp::BulkShared:
    begin(TraceEvent::Load, "bulk load");
    return;
  case AsyncOp::RemoteStore:
    begin(TraceEvent::Store, "remote store");
    return;
  case AsyncOp::TensorStore:
    stores[thread].push_back(begin(TraceEvent::Store, "tma store"));
    return;
  case AsyncOp::BulkStore:
    stores[thread].push_back(begin(TraceEvent::Store, "bulk store"));
    return;
  case AsyncOp::Mma: {
    const InstrDescriptor &d = op.mma->idesc;
    inPipe(std::string("mma ") + toString(d.kind) + " " + std::to_string(d.m) +
           "x" + std::to_string(d.n) + "x" + std::to_string(d.k));
    return;
  }
  case AsyncOp::TmemCopy:
    inPipe("tcgen05.cp");
    return;
  case AsyncOp::TmemShift:
    inPipe("tcgen05.shift");
    return;
  case AsyncOp::Commit: {
    // A commit ends the batch; one that follows another has none of its own.
    auto batch = batches.find(thread);
    if (batch == batches.end()) {
      begin(TraceEvent::MmaBatch, "commit");
      return;
    }
    op.traceId = batch->second + 1;
    batches.erase(batch);
    return;
  }
  case AsyncOp::LaneArrive:
  case AsyncOp::Cancel:
    return;
  }
}

void Tracer::carriedOut(const AsyncOp &op) {
  if (op.traceId)
    operations[op.traceId - 1].event.done = now();
}

void Tracer::signal(const AsyncOp &op, const Cta &cta, uint32_t barrier) {
  if (op.traceId)
    barriers[uint64_t(cta.rank) << 32 | barrier].current.push_back(op.traceId -
                                                                   1);
}

void Tracer::tmemAccess(Exec &x, const Instr &i, bool load) {
  if (trace.truncated)
    return;
  StringRef text = load ? "tcgen05.ld" : "tcgen05.st";
  size_t at =
      open(event(TraceEvent::TmemAccess, x.cta, x.warp.index, i.line, text),
           load, 0);
  addIssue(x, i, text, operations[at].event.id);
  tmem[keyOf(x.warp)].push_back(at);
}

void Tracer::tmemWait(Exec &x, bool loads) {
  std::vector<size_t> rest;
  for (size_t at : tmem[keyOf(x.warp)]) {
    if (bool(operations[at].thread) == loads)
      close(operations[at], int(x.warp.index), true);
    else
      rest.push_back(at);
  }
  tmem[keyOf(x.warp)] = std::move(rest);
}

void Tracer::bulkWait(Exec &x, int lane, uint64_t group) {
  std::vector<size_t> &list =
      stores[AsyncQueue::thread(x.cta.rank, x.warp.index, lane)];
  std::vector<size_t> rest;
  for (size_t at : list) {
    if (operations[at].group < group)
      close(operations[at], int(x.warp.index), true);
    else
      rest.push_back(at);
  }
  list = std::move(rest);
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

void Tracer::barrierInit(Mbarrier &barrier, const Cta &cta) {
  barrier.tracer = this;
  barrier.rank = cta.rank;
  Barrier &b = barrierOf(barrier);
  b = Barrier();
  b.phaseBegan = now();
}

void Tracer::phaseDone(const Mbarrier &barrier) {
  Barrier &b = barrierOf(barrier);
  TraceEvent e = event(TraceEvent::Phase, *cluster.ctas[barrier.rank],
                       barrier.address, 0, "phase");
  e.begin = b.phaseBegan;
  e.count = barrier.phase - 1;
  if (e.end > e.begin)
    add(e);
  b.phaseBegan = now();
  b.done.insert(b.done.end(), b.current.begin(), b.current.end());
  b.current.clear();
}

void Tracer::observed(const Mbarrier &barrier, const Warp &warp) {
  Barrier &b = barrierOf(barrier);
  for (size_t at : b.done)
    close(operations[at], int(warp.index), true);
  b.done.clear();
}

void Tracer::finish() {
  for (auto &[key, open] : waits)
    for (const OpenWait &w : open) {
      const auto &warp = cluster.ctas[key >> 32]->warps[uint32_t(key)];
      TraceEvent e = event(TraceEvent::Wait, *warp->cta, warp->index, w.line,
                           waitName(w.wait));
      e.begin = w.since;
      e.count = uint32_t(w.wait.generation);
      e.end = std::max(e.end, e.begin + 1);
      e.open = true;
      add(e);
    }
  for (Operation &op : operations)
    close(op, -1, false);
  for (const auto &cta : cluster.ctas)
    for (const Mbarrier &barrier : cta->mbarriers) {
      if (!barrier.live ||
          (barrier.pending == barrier.expected && barrier.tx == 0))
        continue;
      TraceEvent e =
          event(TraceEvent::Phase, *cta, barrier.address, 0, "phase");
      e.begin = barrierOf(barrier).phaseBegan;
      e.count = barrier.phase;
      e.end = std::max(e.end, e.begin + 1);
      e.open = true;
      add(e);
    }
}

void Mbarrier::tracePhase() const { tracer->phaseDone(*this); }

} // namespace sim
} // namespace flamia
