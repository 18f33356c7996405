//===- ExecBarrier.cpp - CTA and cluster barriers, fences -----------------===//
//
// PTX ISA 9.7.13.1-4. Barriers count threads, in whole warps: the last lane of
// a warp to arrive adds 32.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Hazard.h"
#include "Lanes.h"
#include "Profiler.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

namespace {

enum BarrierFlags : uint32_t {
  barSync = 1,
  barArrive = 2,
  barRed = 4,
  barCount = 8,
  redAnd = 16,
  redOr = 32,
  redNegate = 64,
};

/// Threads that a barrier without a count expects: all that still run.
uint32_t liveThreads(const Cta &cta) { return cta.liveWarps * warpLanes; }

/// Adds the fragment's lanes. False after an error.
bool arrive(Exec &x, const Instr &i, NamedBarrier &b, uint32_t id,
            uint32_t mask, uint32_t expected) {
  uint32_t &lanes = b.lanes[x.warp.index];
  if (x.check(Check::Barrier)) {
    if (b.arrived && b.expected && expected && b.expected != expected) {
      x.fail(i, int(lowestLane(mask)),
             "barrier " + Twine(id) + " expects " + Twine(expected) +
                 " threads here, but " + Twine(b.expected) +
                 " where others have arrived",
             "barrier");
      return false;
    }
    if (lanes & mask) {
      x.fail(i, int(lowestLane(mask)),
             "warp arrives at barrier " + Twine(id) +
                 " again before the barrier has completed",
             "barrier");
      return false;
    }
  }
  lanes |= mask;
  if (x.cluster.hazards)
    x.cluster.hazards->namedArrive(x, i, b, id);
  if (expected)
    b.expected = expected;
  if ((lanes & x.warp.live) == x.warp.live)
    b.arrived += warpLanes;
  ++x.cluster.effects;
  return true;
}

void settle(Cta &cta, NamedBarrier &b) {
  uint32_t need = b.expected ? b.expected : liveThreads(cta);
  if (b.arrived < need)
    return;
  ++b.generation;
  b.result[b.generation & 1] = 0;
  b.arrived = b.expected = 0;
  std::fill(b.lanes.begin(), b.lanes.end(), 0);
}

Flow barrier(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t flags = i.aux;
  uint32_t id = x.lanes<uint32_t>(i.src[0])[lowestLane(mask)];
  Fragment &f = x.fragment();
  if (id >= 16)
    return x.fail(i, int(lowestLane(mask)),
                  "barrier number " + Twine(id) + " is out of range 0..15",
                  "barrier");
  NamedBarrier &b = x.cta.barriers[id];
  if (f.wait.kind != Wait::NamedBarrier) {
    uint32_t expected = 0;
    if (flags & barCount) {
      expected = x.lanes<uint32_t>(i.src[1])[lowestLane(mask)];
      if (expected == 0 || expected % warpLanes ||
          expected > x.launch.warpsPerCta * warpLanes)
        return x.fail(i, int(lowestLane(mask)),
                      "barrier count " + Twine(expected) +
                          " is no multiple of 32 up to the CTA's " +
                          Twine(x.launch.warpsPerCta * warpLanes) + " threads",
                      "barrier");
    }
    uint64_t generation = b.generation;
    if (flags & barRed) {
      uint32_t p = x.mask(i.src[2]);
      if (flags & redNegate)
        p = ~p;
      // Of the generation that is being collected.
      uint32_t &r = b.result[generation & 1];
      if (flags & redAnd)
        r += __builtin_popcount(mask & ~p); // Counts lanes that are false.
      else
        r += __builtin_popcount(mask & p);
    }
    if (x.cluster.profiler)
      x.cluster.profiler->named(x.warp, false, id, generation);
    if (!arrive(x, i, b, id, mask, expected))
      return Flow::Fail;
    settle(x.cta, b);
    if (flags & barArrive)
      return Flow::Next;
    f.wait = Wait();
    f.wait.kind = Wait::NamedBarrier;
    f.wait.id = id;
    f.wait.generation = generation;
    if (b.generation == generation)
      return Flow::Block;
  }
  if (x.cluster.profiler)
    x.cluster.profiler->named(x.warp, true, id, f.wait.generation);
  if (x.cluster.hazards)
    x.cluster.hazards->namedLeave(x, id, f.wait.generation);
  if (flags & barRed) {
    uint32_t r = b.result[f.wait.generation & 1];
    if (flags & redAnd)
      x.setMask(i.dst[0], r == 0 ? allLanes : 0, mask);
    else if (flags & redOr)
      x.setMask(i.dst[0], r ? allLanes : 0, mask);
    else
      mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned) { return r; });
  }
  return Flow::Next;
}

Flow clusterArrive(Exec &x, const Instr &i, uint32_t mask) {
  Cluster &c = x.cluster;
  if (c.hazards)
    c.hazards->clusterArrive(x, i, c.clusterGeneration);
  c.clusterArrived += __builtin_popcount(mask);
  ++c.effects;
  x.warp.clusterWait = c.clusterGeneration;
  uint32_t need = 0;
  for (auto &cta : c.ctas)
    for (auto &w : cta->warps)
      need += __builtin_popcount(w->live);
  if (c.clusterArrived >= need) {
    ++c.clusterGeneration;
    c.clusterArrived = 0;
  }
  return Flow::Next;
}
Flow clusterWait(Exec &x, const Instr &i, uint32_t mask) {
  if (x.cluster.clusterGeneration != x.warp.clusterWait) {
    if (x.cluster.hazards)
      x.cluster.hazards->clusterWait(x, x.warp.clusterWait);
    return Flow::Next;
  }
  Fragment &f = x.fragment();
  f.wait = Wait();
  f.wait.kind = Wait::ClusterBarrier;
  f.wait.generation = x.warp.clusterWait;
  return Flow::Block;
}

Flow fence(Exec &x, const Instr &i, uint32_t) {
  if (x.cluster.hazards)
    x.cluster.hazards->fence(x, i);
  return Flow::Next;
}

bool decodeClusterBarrier(Decoder &d) {
  Instr &o = *d.out;
  StringRef what = d.takeAny({"arrive", "wait"});
  bool isArrive = what == "arrive";
  d.takeAny({"release", "relaxed", "acquire"});
  if (d.take("aligned"))
    o.flags |= flagAligned;
  if (what.empty()) {
    d.failForm();
    return true;
  }
  o.fn = isArrive ? clusterArrive : clusterWait;
  d.expectOps(0);
  return true;
}

bool decodeFence(Decoder &d) {
  // One process executes everything in order, so fences matter only to the
  // hazard tracker.
  static const StringRef known[] = {"proxy",
                                    "async",
                                    "async::generic",
                                    "alias",
                                    "tensormap::generic",
                                    "mbarrier_init",
                                    "acquire",
                                    "release",
                                    "acq_rel",
                                    "sc",
                                    "relaxed",
                                    "sync_restrict::shared::cta",
                                    "sync_restrict::shared::cluster",
                                    "shared::cta",
                                    "shared::cluster",
                                    "global",
                                    "cta",
                                    "cluster",
                                    "gpu",
                                    "sys",
                                    "gl"};
  for (StringRef q : known)
    while (d.take(q)) {
    }
  d.out->fn = fence;
  if (d.numOps()) {
    bool wide;
    if (d.expectOps(2) && d.address(d.op(0), d.out->src[0], wide)) {
      int64_t size;
      d.immediate(d.op(1), size, "the size");
    }
  }
  return true;
}

} // namespace

bool decodeBarrier(Decoder &d) {
  StringRef base = d.base();
  Instr &o = *d.out;
  if (base == "fence" || base == "membar") {
    o.unit = Unit::Sync;
    return decodeFence(d);
  }
  if (base != "bar" && base != "barrier")
    return false;
  o.unit = Unit::Sync;
  if (d.take("cluster"))
    return decodeClusterBarrier(d);
  d.take("cta");
  bool aligned = d.take("aligned") || base == "bar";
  StringRef what = d.takeAny({"sync", "arrive", "red"});
  if (what.empty()) {
    d.failForm();
    return true;
  }
  if (aligned)
    o.flags |= flagAligned;
  o.fn = barrier;
  size_t first = 0, last = d.numOps();
  if (what == "red") {
    StringRef op = d.takeAny({"popc", "and", "or"});
    Type t = d.takeType();
    if (op.empty() || t != (op == "popc" ? Type::U32 : Type::Pred)) {
      d.failForm();
      return true;
    }
    o.aux = barSync | barRed | (op == "and" ? redAnd : op == "or" ? redOr : 0u);
    if (!d.expectOps(3, 4) || !d.dst(d.op(0), op == "popc" ? 32 : 1, o.dst[0]))
      return true;
    bool negated = false;
    if (!d.predSrc(d.op(last - 1), o.src[2], &negated))
      return true;
    if (negated)
      o.aux |= redNegate;
    first = 1;
    --last;
  } else {
    o.aux = what == "sync" ? barSync : barArrive;
    if (what == "sync" ? !d.expectOps(1, 2) : !d.expectOps(2))
      return true;
  }
  if (!d.src(d.op(first), Type::U32, o.src[0]))
    return true;
  if (last - first == 2) {
    o.aux |= barCount;
    d.src(d.op(first + 1), Type::U32, o.src[1]);
  }
  return true;
}

} // namespace sim
} // namespace flamia
