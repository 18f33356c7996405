//===- ExecTensor.cpp - tcgen05 -------------------------------------------===//
//
// Decoding and issue of PTX ISA 9.7.16 (facts/tcgen05.md sections 1, 4, 6, 7).
// The arithmetic and the layouts are in lib/Sim/Units.
//
//===----------------------------------------------------------------------===//

#include "ExecTensor.h"
#include "Decoder.h"
#include "ExecAsync.h"
#include "ExecMbarrier.h"
#include "Hazard.h"
#include "Hex.h"
#include "Lanes.h"
#include "Profiler.h"
#include "Tracer.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

namespace flamia {
namespace sim {

namespace {

AsyncOp newOp(Exec &x, const Instr &i, int lane, AsyncOp::Kind kind) {
  AsyncOp op;
  op.kind = kind;
  op.instr = &i;
  op.cta = x.cta.rank;
  op.warp = x.warp.index;
  op.lane = lane;
  return op;
}

//===----------------------------------------------------------------------===//
// alloc, dealloc, relinquish
//===----------------------------------------------------------------------===//

/// cta_group::2 allocates in both CTAs of a pair, and one warp of each must
/// ask: false (with the wait set) until the peer has.
bool peerAllocates(Exec &x) {
  Wait &wait = x.fragment().wait;
  if (wait.kind != Wait::PairAlloc && wait.kind != Wait::TmemAlloc) {
    ++x.cta.pairAllocs;
    ++x.cluster.effects;
    wait = Wait();
    wait.kind = Wait::PairAlloc;
    wait.generation = x.cta.pairAllocs;
  }
  return wait.kind == Wait::TmemAlloc ||
         x.cluster.ctas[x.cta.rank ^ 1]->pairAllocs >= wait.generation;
}

Flow alloc(Exec &x, const Instr &i, uint32_t mask) {
  int lane = int(lowestLane(mask));
  if (i.aux & 2) {
    if (x.cluster.ctas.size() % 2)
      return x.fail(i, lane, "cta_group::2 needs a cluster of CTA pairs",
                    "tmem-alloc");
    if (!peerAllocates(x))
      return Flow::Block;
  }
  uint32_t columns = x.lanes<uint32_t>(i.src[1])[lane], address;
  Tmem &tmem = x.cta.tensorMemory();
  IssueList issues;
  TmemAllocResult result = tmem.allocate(columns, address, issues);
  Fragment &f = x.fragment();
  if (result == TmemAllocResult::Wait) {
    f.wait = Wait();
    f.wait.kind = Wait::TmemAlloc;
    f.wait.id = columns;
    f.wait.generation = tmem.allocatedColumns();
    return Flow::Block;
  }
  if (x.report(i, lane, issues, result == TmemAllocResult::Done))
    return Flow::Fail;
  uint64_t to = x.addressOf(i, i.src[0], i.aux & 1, lane);
  uint8_t *p = x.resolve(i, i.space, to, 4, Exec::Store, lane);
  if (!p || !x.markDefined(i, i.space, to, 4, lane))
    return Flow::Fail;
  std::memcpy(p, &address, 4);
  if (x.cluster.hazards &&
      !x.cluster.hazards->tmemColumns(x, i, address, columns, false))
    return Flow::Fail;
  return Flow::Next;
}
Flow dealloc(Exec &x, const Instr &i, uint32_t mask) {
  int lane = int(lowestLane(mask));
  IssueList issues;
  bool done = x.cta.tensorMemory().deallocate(x.lanes<uint32_t>(i.src[0])[lane],
                                              x.lanes<uint32_t>(i.src[1])[lane],
                                              issues);
  if (x.report(i, lane, issues, done))
    return Flow::Fail;
  if (x.cluster.hazards &&
      !x.cluster.hazards->tmemColumns(x, i, x.lanes<uint32_t>(i.src[0])[lane],
                                      x.lanes<uint32_t>(i.src[1])[lane], true))
    return Flow::Fail;
  return Flow::Next;
}
Flow relinquish(Exec &x, const Instr &, uint32_t) {
  x.cta.tensorMemory().relinquish();
  return Flow::Next;
}

//===----------------------------------------------------------------------===//
// ld, st, wait
//===----------------------------------------------------------------------===//

/// tcgen05.ld.red: combines the registers of every thread into one more.
void reduceLoaded(Exec &x, const Instr &i, const TensorInfo &info) {
  bool least = info.reduce == TensorInfo::Min;
  mapLanes<uint32_t>(x, i.dst[0], allLanes, [&](unsigned l) {
    auto bits = [&](unsigned k) { return x.lanes<uint32_t>(x.vec(i, k))[l]; };
    if (info.reduceType != Type::F32) {
      // Signed order is unsigned order with the sign bit flipped.
      uint32_t flip = info.reduceType == Type::S32 ? 0x80000000u : 0;
      uint32_t best = bits(0) ^ flip;
      for (unsigned k = 1; k < i.vecCount; ++k)
        best = least ? std::min(best, bits(k) ^ flip)
                     : std::max(best, bits(k) ^ flip);
      return best ^ flip;
    }
    uint32_t keep = info.reduceAbs ? 0x7FFFFFFFu : ~0u;
    float best = bitsToFloat(bits(0) & keep);
    for (unsigned k = 1; k < i.vecCount; ++k) {
      float v = bitsToFloat(bits(k) & keep);
      if (v != v || best != best) {
        if (info.reduceNaN || (v != v && best != best))
          best = bitsToFloat(0x7FFFFFFF);
        else
          best = v != v ? best : v;
      } else if (v == best) {
        // Zeros are ordered by sign.
        best = std::signbit(v) == least ? v : best;
      } else {
        best = (v < best) == least ? v : best;
      }
    }
    return floatToBits(canonical(best));
  });
}

/// Does a tcgen05.ld or st of the warp; `data` holds a st's register values.
bool runTmemOp(Exec &x, const Instr &i, const TmemAccess &access, bool load,
               uint32_t *data) {
  uint32_t *regs[128];
  unsigned count = i.vecCount;
  for (unsigned k = 0; k < count; ++k)
    regs[k] = load ? x.lanes<uint32_t>(x.vec(i, k)) : data + k * warpLanes;
  IssueList issues;
  Tmem &tmem = x.cta.tensorMemory();
  unsigned quarter = x.warp.index % 4;
  bool done = load ? tmem.load(access, quarter, regs, issues)
                   : tmem.store(access, quarter, regs, issues);
  x.cluster.bytes[unsigned(load ? Bytes::TmemLoad : Bytes::TmemStore)] +=
      uint64_t(count) * 128;
  if (x.report(i, -1, issues, done))
    return false;
  const TensorInfo &info = x.kernel.tensor[i.extra];
  if (load && info.reduce != TensorInfo::NoReduce)
    reduceLoaded(x, i, info);
  return true;
}

Flow tmemAccess(Exec &x, const Instr &i, uint32_t mask) {
  const TensorInfo &info = x.kernel.tensor[i.extra];
  bool load = i.aux;
  TmemAccess access = info.access;
  const uint32_t *address = x.lanes<uint32_t>(i.src[0]);
  uint32_t first = address[lowestLane(mask)];
  uint32_t differ = 0;
  forLanes(mask, [&](int l) { differ |= uint32_t(address[l] != first) << l; });
  if (differ)
    return x.fail(i, int(lowestLane(differ)),
                  "tensor memory address " + hex(address[lowestLane(differ)]) +
                      " differs from " + hex(first) +
                      " of the warp's first lane",
                  "converge");
  access.address = first + uint32_t(info.offD);
  std::vector<uint32_t> data;
  if (!load) {
    data.resize(size_t(i.vecCount) * warpLanes);
    for (unsigned k = 0; k < i.vecCount; ++k)
      std::memcpy(data.data() + k * warpLanes, x.lanes<uint32_t>(x.vec(i, k)),
                  4 * warpLanes);
  }
  if (x.cluster.hazards &&
      !x.cluster.hazards->tmemAccess(x, i, access, load, data))
    return Flow::Fail;
  if (x.cluster.tracer)
    x.cluster.tracer->tmemAccess(x, i, load);
  if (x.cluster.profiler)
    x.cluster.profiler->tmemAccess(x.warp, load, i.vecCount);
  if (load) {
    const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
    for (uint32_t k = 0; k < i.defCount; ++k) {
      x.warp.ready[2 * defs[k]] |= mask;
      x.warp.pending[defs[k]] |= mask;
      x.warp.pendingList.push_back(defs[k]);
    }
    x.warp.anyPending = true;
  }
  if (runsNow(x.cluster))
    return runTmemOp(x, i, access, load, data.data()) ? Flow::Next : Flow::Fail;
  // Even when it takes effect late, an illegal access is reported at once.
  IssueList issues;
  std::vector<TmemRange> ranges;
  if (!Tmem::footprint(access, x.warp.index % 4, ranges, issues)) {
    x.report(i, -1, issues, false);
    return Flow::Fail;
  }
  TmemOp op;
  op.instr = &i;
  op.load = load;
  op.access = access;
  op.data = std::move(data);
  x.warp.tmemOps.push_back(std::move(op));
  return Flow::Next;
}

Flow tmemWait(Exec &x, const Instr &i, uint32_t mask) {
  bool loads = i.aux;
  if (x.cluster.hazards)
    x.cluster.hazards->tmemWait(x, loads);
  if (x.cluster.tracer)
    x.cluster.tracer->tmemWait(x, loads);
  if (x.cluster.profiler)
    x.cluster.profiler->tmemWait(x.warp, loads);
  if (!finishTmemOps(x.cluster, x.warp, loads, !loads))
    return Flow::Fail;
  if (loads) {
    for (uint32_t reg : x.warp.pendingList)
      x.warp.pending[reg] = 0;
    x.warp.pendingList.clear();
    x.warp.anyPending = false;
  }
  return Flow::Next;
}

//===----------------------------------------------------------------------===//
// mma, cp, shift, commit
//===----------------------------------------------------------------------===//

void recordMma(Exec &x, const Instr &i, const MmaPlan &plan, int lane) {
  Cluster &c = x.cluster;
  const InstrDescriptor &d = plan.idesc;
  c.macs += uint64_t(d.m) * d.n * d.k;
  c.maxMma = std::max(c.maxMma, ++c.mmaInFlight);
  ++c.async.uncommittedMma[AsyncQueue::thread(x.cta.rank, x.warp.index, lane)];
  if (!x.launch.options->stats)
    return;
  ++c.mmaCounts[std::string(toString(d.kind)) + " " + std::to_string(d.m) +
                "x" + std::to_string(d.n) + "x" + std::to_string(d.k)];
  if (!c.recordOrder || c.mmaOrder.size() >= 4096)
    return;
  MmaRecord r;
  r.line = i.line;
  r.kind = toString(d.kind);
  r.m = d.m;
  r.n = d.n;
  r.k = d.k;
  r.dColumn = tmemColumn(plan.instr.d);
  r.aFromTmem = plan.instr.aInTmem;
  r.accumulate = plan.instr.enableInputD;
  c.mmaOrder.push_back(r);
}

Flow mma(Exec &x, const Instr &i, uint32_t mask) {
  const TensorInfo &info = x.kernel.tensor[i.extra];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    MmaInstruction instr = info.mma;
    instr.d = x.lanes<uint32_t>(i.src[0])[l] + uint32_t(info.offD);
    instr.a = instr.aInTmem ? x.lanes<uint32_t>(info.a)[l] + uint32_t(info.offA)
                            : x.lanes<uint64_t>(info.a)[l];
    instr.b = x.lanes<uint64_t>(i.src[1])[l];
    instr.idesc = x.lanes<uint32_t>(i.src[2])[l];
    bool enable = x.mask(i.src[3]) >> l & 1;
    instr.enableInputD = enable != info.enableNegated;
    if (isBlockScaled(instr.kind)) {
      instr.sfa = x.lanes<uint32_t>(info.sfa)[l] + uint32_t(info.offSfa);
      instr.sfb = x.lanes<uint32_t>(info.sfb)[l] + uint32_t(info.offSfb);
    }
    for (unsigned k = 0; k < i.vecCount; ++k)
      instr.disableLanes[k] = x.lanes<uint32_t>(x.vec(i, k))[l];
    if (instr.ctaGroup == 2 && x.cluster.ctas.size() < 2)
      return x.fail(i, l, "cta_group::2 needs a cluster of at least two CTAs",
                    "descriptor");
    auto plan = std::make_unique<MmaPlan>();
    IssueList issues;
    if (!planMma(instr, *plan, issues)) {
      x.report(i, l, issues, false);
      return Flow::Fail;
    }
    recordMma(x, i, *plan, l);
    AsyncOp op = newOp(x, i, l, AsyncOp::Mma);
    op.mma = std::move(plan);
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow copyToTmem(Exec &x, const Instr &i, uint32_t mask) {
  const TensorInfo &info = x.kernel.tensor[i.extra];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    AsyncOp op = newOp(x, i, l, AsyncOp::TmemCopy);
    op.cp = std::make_unique<CpPlan>();
    IssueList issues;
    if (!planCp(info.cpShape, info.cpFormat,
                x.lanes<uint32_t>(i.src[0])[l] + uint32_t(info.offD),
                x.lanes<uint64_t>(i.src[1])[l], *op.cp, issues)) {
      x.report(i, l, issues, false);
      return Flow::Fail;
    }
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow shift(Exec &x, const Instr &i, uint32_t mask) {
  const TensorInfo &info = x.kernel.tensor[i.extra];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    AsyncOp op = newOp(x, i, l, AsyncOp::TmemShift);
    op.address = x.lanes<uint32_t>(i.src[0])[l] + uint32_t(info.offD);
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow commit(Exec &x, const Instr &i, uint32_t mask) {
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    // Without a space the address is generic, but compilers also pass a
    // zero-extended shared address, which the hardware takes.
    Mbarrier *b =
        mbarrierAt(x, i, x.addressOf(i, i.src[0], i.aux & 1, l), l, false);
    if (!b)
      return Flow::Fail;
    uint32_t offset;
    Cta *target =
        x.sharedTarget(i, x.addressOf(i, i.src[0], i.aux & 1, l), offset, l);
    AsyncOp op = newOp(x, i, l, AsyncOp::Commit);
    op.shared = {target->rank, offset};
    if (i.aux & 2 && !multicastMask(x, i, i.src[1], l, op.multicast))
      return Flow::Fail;
    uint32_t &count =
        x.cluster.async
            .uncommittedMma[AsyncQueue::thread(x.cta.rank, x.warp.index, l)];
    b->curMma += count;
    count = 0;
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow fence(Exec &x, const Instr &i, uint32_t) {
  if (x.cluster.hazards)
    x.cluster.hazards->fence(x, i);
  return Flow::Next;
}

} // namespace

ExecFn tensorFunction(TensorOp op) {
  switch (op) {
  case TensorOp::Alloc:
    return alloc;
  case TensorOp::Dealloc:
    return dealloc;
  case TensorOp::Relinquish:
    return relinquish;
  case TensorOp::Access:
    return tmemAccess;
  case TensorOp::Wait:
    return tmemWait;
  case TensorOp::Mma:
    return mma;
  case TensorOp::Copy:
    return copyToTmem;
  case TensorOp::Shift:
    return shift;
  case TensorOp::Commit:
    return commit;
  case TensorOp::Fence:
    return fence;
  }
  return nullptr;
}

bool finishTmemOps(Cluster &cluster, Warp &warp, bool loads, bool stores) {
  if (warp.tmemOps.empty())
    return true;
  Exec x(cluster, warp, 0);
  std::vector<TmemOp> rest;
  for (TmemOp &op : warp.tmemOps) {
    if (!(op.load ? loads : stores)) {
      rest.push_back(std::move(op));
      continue;
    }
    if (!runTmemOp(x, *op.instr, op.access, op.load, op.data.data()))
      return false;
  }
  warp.tmemOps = std::move(rest);
  return true;
}

} // namespace sim
} // namespace flamia
