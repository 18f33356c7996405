//===- AsyncQueue.cpp - When asynchronous operations are carried out ------===//
//
// Issue, choice of the next operation, and what tcgen05 operations and arrivals
// do. Copies: AsyncCopies.cpp.
//
//===----------------------------------------------------------------------===//

#include "AsyncRun.h"
#include "ExecAsync.h"
#include "Hazard.h"
#include "Hex.h"
#include "Machine.h"
#include "Profiler.h"
#include "Tracer.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::Twine;

namespace {
bool runMmaOp(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  Cluster &c = x.cluster;
  unsigned group = op.mma->instr.ctaGroup;
  MmaCta ctas[2];
  unsigned first = group == 2 ? op.cta & ~1u : op.cta;
  for (unsigned k = 0; k < group; ++k) {
    Cta &cta = *c.ctas[first + k];
    if (!checkFootprint(x, i, op.lane, cta, op.mma->footprint[k],
                        "tcgen05.mma"))
      return false;
    ctas[k].tmem = &cta.tensorMemory();
    ctas[k].smem = cta.view();
  }
  IssueList issues;
  bool done =
      runMma(*op.mma, ctas,
             x.launch.options->plainAccumulation ? MmaNumerics::Fp32
                                                 : MmaNumerics::BitAccurate,
             issues);
  return !x.report(i, op.lane, issues, done);
}

bool runCommit(Exec &x, AsyncOp &op) {
  for (Cta *cta : targets(x.cluster, op)) {
    if (x.cluster.tracer)
      x.cluster.tracer->signal(op, *cta, op.shared.address);
    Hazards *hazards = x.cluster.hazards.get();
    if (hazards && !hazards->complete(x, op, *cta, op.shared.address))
      return false;
    Mbarrier *b = cta->findMbarrier(op.shared.address);
    if (!b) {
      x.fail(*op.instr, op.lane,
             "no initialised mbarrier at shared address " +
                 hex(op.shared.address),
             "barrier");
      return false;
    }
    if (x.cluster.profiler)
      x.cluster.profiler->signal(op, *b, *cta, 0);
    std::string error;
    if (!b->arrive(1, 0, false, error)) {
      x.fail(*op.instr, op.lane,
             error + " of the mbarrier at shared address " + hex(b->address),
             "barrier");
      return false;
    }
    if (hazards && !hazards->signalled(x, *op.instr, *cta, *b, op.lane))
      return false;
  }
  return true;
}

/// The CTAs in which a cp or shift works: one, or the pair of cta_group::2.
llvm::SmallVector<Cta *, 2> tensorGroup(Exec &x, const AsyncOp &op) {
  if (x.kernel.tensor[op.instr->extra].mma.ctaGroup != 2)
    return {&x.cta};
  uint32_t first = op.cta & ~1u;
  return {x.cluster.ctas[first].get(), x.cluster.ctas[first + 1].get()};
}

bool runCopyToTmem(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  for (Cta *cta : tensorGroup(x, op)) {
    if (!checkFootprint(x, i, op.lane, *cta, op.cp->footprint, "tcgen05.cp"))
      return false;
    IssueList issues;
    bool done = runCp(*op.cp, cta->tensorMemory(), cta->view(), issues);
    for (const ByteRange &r : op.cp->footprint.smemRead)
      x.cluster.bytes[unsigned(Bytes::TmemCopy)] += r.size;
    if (x.report(i, op.lane, issues, done))
      return false;
  }
  return true;
}

bool runShift(Exec &x, AsyncOp &op) {
  for (Cta *cta : tensorGroup(x, op)) {
    IssueList issues;
    bool done = shiftDown(op.address, cta->tensorMemory(), issues);
    if (x.report(*op.instr, op.lane, issues, done))
      return false;
  }
  return true;
}

bool runLaneArrive(Exec &x, AsyncOp &op) {
  if (!finishLaneCopies(x.cluster, x.warp, unsigned(op.lane), 0))
    return false;
  Hazards *hazards = x.cluster.hazards.get();
  if (hazards && !hazards->complete(x, op, x.cta, op.barrier.address))
    return false;
  Mbarrier *b = x.cta.findMbarrier(op.barrier.address);
  std::string error;
  if (b && b->arrive(1, 0, false, error))
    return !hazards || hazards->signalled(x, *op.instr, x.cta, *b, op.lane);
  x.fail(*op.instr, op.lane,
         b ? error : "the mbarrier was invalidated before the copies completed",
         "barrier");
  return false;
}

} // namespace
bool runAsync(Cluster &cluster, AsyncOp &op) {
  Exec x(cluster, *cluster.ctas[op.cta]->warps[op.warp], 0);
  ++cluster.effects;
  if (cluster.tracer)
    cluster.tracer->carriedOut(op);
  switch (op.kind) {
  case AsyncOp::TensorLoad:
    return runTensorLoad(x, op);
  case AsyncOp::TensorStore:
    return runTensorStore(x, op);
  case AsyncOp::BulkLoad:
  case AsyncOp::BulkShared:
    return runBulkLoad(x, op);
  case AsyncOp::BulkStore:
    return runBulkStore(x, op);
  case AsyncOp::RemoteStore:
    return runRemoteStore(x, op) &&
           completeBytes(x, op, *cluster.ctas[op.barrier.cta], op.bytes);
  case AsyncOp::Mma:
    return runMmaOp(x, op);
  case AsyncOp::TmemCopy:
    return runCopyToTmem(x, op);
  case AsyncOp::TmemShift:
    return runShift(x, op);
  case AsyncOp::Commit:
    return runCommit(x, op);
  case AsyncOp::LaneArrive:
    return runLaneArrive(x, op);
  case AsyncOp::Cancel:
    return runCancel(cluster, op);
  }
  return true;
}

bool runsNow(Cluster &cluster) {
  switch (cluster.launch.options->async) {
  case AsyncMode::Eager:
    return true;
  case AsyncMode::Late:
    return false;
  case AsyncMode::Random:
    return cluster.random() & 1;
  }
  return true;
}

bool submit(Exec &x, AsyncOp op) {
  AsyncQueue &q = x.cluster.async;
  bool inPipe = op.kind == AsyncOp::Mma || op.kind == AsyncOp::TmemCopy ||
                op.kind == AsyncOp::TmemShift || op.kind == AsyncOp::Commit;
  if (x.cluster.hazards && !x.cluster.hazards->issue(x, op))
    return false;
  if (x.cluster.tracer)
    x.cluster.tracer->issue(x, op);
  if (x.cluster.profiler)
    x.cluster.profiler->issue(op);
  bool now = runsNow(x.cluster);
  if (inPipe) {
    std::deque<AsyncOp> &pipe =
        q.pipes[AsyncQueue::thread(op.cta, op.warp, op.lane)];
    if (now && pipe.empty())
      return runAsync(x.cluster, op);
    pipe.push_back(std::move(op));
    return true;
  }
  if (now)
    return runAsync(x.cluster, op);
  q.copies.push_back(std::move(op));
  return true;
}

bool stepAsync(Cluster &cluster, const Cta *only, AsyncPick pick) {
  AsyncQueue &q = cluster.async;
  // Candidates: every copy, and the head of every pipe.
  std::vector<std::deque<AsyncOp> *> pipes;
  for (auto &p : q.pipes)
    if (!p.second.empty() && (!only || p.second.front().cta == only->rank))
      pipes.push_back(&p.second);
  size_t copies = 0;
  for (const AsyncOp &op : q.copies)
    copies += !only || op.cta == only->rank;
  size_t total = copies + pipes.size();
  if (total == 0)
    return false;
  size_t k = pick == AsyncPick::Random ? cluster.random() % total : 0;
  if (k < copies) {
    for (size_t n = 0; n < q.copies.size(); ++n) {
      if (only && q.copies[n].cta != only->rank)
        continue;
      if (k-- == 0) {
        AsyncOp op = std::move(q.copies[n]);
        q.copies.erase(q.copies.begin() + n);
        runAsync(cluster, op);
        return true;
      }
    }
  }
  std::deque<AsyncOp> &pipe = *pipes[k - copies];
  AsyncOp op = std::move(pipe.front());
  pipe.pop_front();
  runAsync(cluster, op);
  return true;
}

} // namespace sim
} // namespace flamia
