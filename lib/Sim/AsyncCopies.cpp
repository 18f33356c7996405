//===- AsyncCopies.cpp - Asynchronous copies carried out ------------------===//
//
// What TMA, bulk and cp.async copies do to memory, with the checks of bounds,
// definedness and order. When they do it: AsyncQueue.cpp.
//
//===----------------------------------------------------------------------===//

#include "AsyncRun.h"
#include "ExecAsync.h"
#include "Hazard.h"
#include "Hex.h"
#include "Profiler.h"
#include "Tracer.h"

#include "llvm/ADT/Twine.h"

#include <cstring>

namespace flamia {
namespace sim {

using llvm::Twine;

namespace {

/// Global memory as the TMA unit sees it: bounds, read-only buffers and
/// definedness are checked.
class CheckedGlobal : public GlobalSpace {
public:
  /// For `op`, or for what has told the hazard tracker already.
  CheckedGlobal(Exec &x, bool update, const AsyncOp *op = nullptr)
      : x(x), update(update), op(op) {}

  const uint8_t *read(uint64_t address, uint64_t size) override {
    DeviceMemory::Region *r = region(address, size);
    if (!r)
      return nullptr;
    needDefined(*r, address, size);
    return inOrder(*r, address, size, false) ? r->host + (address - r->address)
                                             : nullptr;
  }
  uint8_t *write(uint64_t address, uint64_t size) override {
    DeviceMemory::Region *r = region(address, size);
    if (!r)
      return nullptr;
    if (r->access == BufferAccess::Read && x.check(Check::Readonly)) {
      setError("write to global address " + hex(address) + " of '" + r->name +
                   "', which the kernel may only read",
               "readonly");
      return nullptr;
    }
    if (update)
      needDefined(*r, address, size);
    if (r->written)
      std::memset(r->written.get() + (address - r->address), 1, size);
    return inOrder(*r, address, size, true) ? r->host + (address - r->address)
                                            : nullptr;
  }
  /// Reports what was found; true when there was something.
  bool report(const Instr &i, int lane) {
    if (error.empty())
      return reported;
    x.fail(i, lane, error, check);
    return true;
  }

private:
  bool inOrder(DeviceMemory::Region &r, uint64_t address, uint64_t size,
               bool writing) {
    if (!op || !x.cluster.hazards || r.access == BufferAccess::Read ||
        !error.empty())
      return true;
    reported = reported || !x.cluster.hazards->globalCopy(
                               x, *op, r, address, size, writing, update);
    return !reported;
  }
  DeviceMemory::Region *region(uint64_t address, uint64_t size) {
    DeviceMemory::Region *r = last;
    if (!r || address - r->address >= r->bytes)
      r = x.launch.memory->find(address);
    if (!r || address - r->address + size > r->bytes) {
      setError(r ? "global address " + hex(address) + " passes the end of '" +
                       r->name + "'"
                 : x.launch.memory->describe(address),
               "bounds");
      return nullptr;
    }
    last = r;
    return r;
  }
  void needDefined(DeviceMemory::Region &r, uint64_t address, uint64_t size) {
    if (!r.written || !x.check(Check::Uninit))
      return;
    if (std::memchr(r.written.get() + (address - r.address), 0, size))
      setError("read of global address " + hex(address) + " of output '" +
                   r.name + "', which nothing has written",
               "uninit");
  }
  void setError(std::string text, const char *checkName) {
    if (!error.empty())
      return;
    error = std::move(text);
    check = checkName;
  }

  Exec &x;
  bool update;
  const AsyncOp *op;
  bool reported = false; ///< The hazard tracker has complained.
  DeviceMemory::Region *last = nullptr;
  std::string error;
  const char *check = "";
};

/// Takes what a store would write and keeps it: run over the shadow of shared
/// memory it tells which bytes the store really uses.
class ShadowSink : public GlobalSpace {
public:
  const uint8_t *read(uint64_t, uint64_t) override { return nullptr; }
  uint8_t *write(uint64_t, uint64_t size) override {
    chunks.emplace_back(size);
    return chunks.back().data();
  }
  /// The first shadow state that fails a test, 0 for "undefined".
  bool allDefined(bool &touchesBarrier) const {
    bool ok = true;
    for (const auto &chunk : chunks)
      for (uint8_t s : chunk) {
        ok &= s != 0;
        touchesBarrier |= (s & shadowMbarrier) != 0;
      }
    return ok;
  }

private:
  std::deque<std::vector<uint8_t>> chunks;
};

} // namespace

/// Checks shadow states of [address, address + size) in a CTA; false after an
/// error. `reading`: the bytes must be defined.
static bool checkShared(Exec &x, const Instr &i, int lane, Cta &cta,
                        uint32_t address, uint64_t size, bool reading,
                        const char *what) {
  uint64_t at = uint64_t(address) - sharedBase;
  if (address < sharedBase || at + size > cta.shared.size()) {
    x.fail(i, lane,
           Twine(what) + " of " + Twine(size) + " bytes at shared address " +
               hex(address) + " is outside shared memory",
           "bounds");
    return false;
  }
  const uint8_t *s = cta.shadow.data() + at;
  for (uint64_t k = 0; k < size; ++k) {
    if (s[k] & shadowMbarrier && x.check(Check::Barrier)) {
      x.fail(i, lane,
             Twine(what) + " touches the mbarrier at shared address " +
                 hex((address + k) & ~7ull),
             "barrier");
      return false;
    }
    if (reading && !s[k] && x.check(Check::Uninit)) {
      x.fail(i, lane,
             Twine(what) + " reads undefined shared memory at address " +
                 hex(address + k),
             "uninit");
      return false;
    }
  }
  return true;
}

bool checkFootprint(Exec &x, const Instr &i, int lane, Cta &cta,
                    const Footprint &footprint, const char *what) {
  for (const ByteRange &r : footprint.smemRead)
    if (!checkShared(x, i, lane, cta, r.begin, r.size, true, what))
      return false;
  return true;
}

llvm::SmallVector<Cta *, 4> targets(Cluster &c, const AsyncOp &op) {
  llvm::SmallVector<Cta *, 4> list;
  if (op.multicast == 0) {
    list.push_back(c.ctas[op.shared.cta].get());
    return list;
  }
  for (size_t k = 0; k < c.ctas.size(); ++k)
    if (op.multicast >> k & 1)
      list.push_back(c.ctas[k].get());
  return list;
}

bool completeBytes(Exec &x, const AsyncOp &op, Cta &cta, uint32_t bytes) {
  if (x.cluster.tracer)
    x.cluster.tracer->signal(op, cta, op.barrier.address);
  Hazards *hazards = x.cluster.hazards.get();
  if (hazards && !hazards->complete(x, op, cta, op.barrier.address))
    return false;
  Mbarrier *b = cta.findMbarrier(op.barrier.address);
  if (!b) {
    x.fail(*op.instr, op.lane,
           "the mbarrier at shared address " + hex(op.barrier.address) +
               " was invalidated while a copy that signals it was under way",
           "barrier");
    return false;
  }
  if (x.cluster.profiler)
    x.cluster.profiler->signal(op, *b, cta, bytes);
  std::string error;
  if (b->changeTx(-int64_t(bytes), error))
    return !hazards || hazards->signalled(x, *op.instr, cta, *b, op.lane);
  x.fail(*op.instr, op.lane,
         error + " of the mbarrier at shared address " + hex(b->address),
         "barrier");
  return false;
}

bool runTensorLoad(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  bool gather = x.kernel.copies[i.extra].gather;
  bool pair = x.kernel.copies[i.extra].pair;
  uint32_t image = gather ? op.map.imageBytes() * 4 : op.map.imageBytes();
  uint32_t bytes =
      gather ? op.map.transactionBytes() * 4 : op.map.transactionBytes();
  for (Cta *cta : targets(x.cluster, op)) {
    if (!checkShared(x, i, op.lane, *cta, op.shared.address, image, false,
                     "tensor copy"))
      return false;
    IssueList issues;
    CheckedGlobal global(x, false, &op);
    bool done = gather ? tmaGather4(op.map, op.coords, op.shared.address,
                                    cta->view(), global, issues)
                       : tmaLoad(op.map, op.coords, op.shared.address,
                                 cta->view(), global, issues);
    if (global.report(i, op.lane) || x.report(i, op.lane, issues, done))
      return false;
    std::memset(cta->shadow.data() + (op.shared.address - sharedBase),
                shadowDefined, image);
    x.cluster.bytes[unsigned(Bytes::TmaLoad)] += bytes;
    // With .cta_group::2 the barrier tells which CTA of each pair is signalled.
    uint32_t signals = !op.multicast ? op.barrier.cta
                       : pair        ? (cta->rank & ~1u) | (op.barrier.cta & 1)
                                     : cta->rank;
    Cta &signalled = *x.cluster.ctas[signals];
    if (!completeBytes(x, op, signalled, bytes))
      return false;
  }
  return true;
}

/// A tile, or the four rows of scatter4.
static bool storeTile(const AsyncOp &op, const CopyInfo &c,
                      const SharedView &view, GlobalSpace &global,
                      IssueList &issues) {
  return c.gather ? tmaScatter4(op.map, op.coords, op.shared.address, view,
                                global, issues)
                  : tmaStore(op.map, op.coords, op.shared.address, view, global,
                             issues);
}

bool runTensorStore(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  if (!captureStore(x.cluster, op))
    return false;
  const CopyInfo &c = x.kernel.copies[i.extra];
  SharedView view = {op.data.data(), op.shared.address,
                     uint32_t(op.data.size())};
  IssueList issues;
  CheckedGlobal global(x, c.reduce, &op);
  bool done = c.reduce ? tmaReduce(op.map, op.coords, op.shared.address, c.op,
                                   view, global, issues)
                       : storeTile(op, c, view, global, issues);
  if (global.report(i, op.lane) || x.report(i, op.lane, issues, done))
    return false;
  x.cluster.bytes[unsigned(Bytes::TmaStore)] +=
      op.map.transactionBytes() * (c.gather ? 4 : 1);
  return true;
}

bool runBulkLoad(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  CheckedGlobal global(x, false, &op);
  const uint8_t *from = nullptr;
  if (op.kind == AsyncOp::BulkShared) {
    Cta &source = *x.cluster.ctas[op.source.cta];
    if (!checkShared(x, i, op.lane, source, op.source.address, op.bytes, true,
                     "bulk copy"))
      return false;
    from = source.shared.data() + (op.source.address - sharedBase);
  } else if (op.bytes) {
    from = global.read(op.global, op.bytes);
    if (global.report(i, op.lane))
      return false;
  }
  const CopyInfo &c = x.kernel.copies[i.extra];
  for (Cta *cta : targets(x.cluster, op)) {
    if (!checkShared(x, i, op.lane, *cta, op.shared.address, op.bytes, c.reduce,
                     "bulk copy"))
      return false;
    uint64_t at = op.shared.address - sharedBase;
    if (c.reduce) {
      IssueList issues;
      bool done = reduceElements(c.type, c.op, cta->shared.data() + at, from,
                                 op.bytes, issues);
      if (x.report(i, op.lane, issues, done))
        return false;
    } else if (op.bytes) {
      std::memmove(cta->shared.data() + at, from, op.bytes);
      std::memset(cta->shadow.data() + at, shadowDefined, op.bytes);
    }
    x.cluster.bytes[unsigned(Bytes::BulkLoad)] += op.bytes;
    Cta &signalled = op.multicast ? *cta : *x.cluster.ctas[op.barrier.cta];
    if (!completeBytes(x, op, signalled, op.bytes))
      return false;
  }
  return true;
}

bool runBulkStore(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  if (!captureStore(x.cluster, op))
    return false;
  if (op.bytes == 0)
    return true;
  const CopyInfo &c = x.kernel.copies[i.extra];
  CheckedGlobal global(x, c.reduce, &op);
  if (c.masked) {
    // Bit k of the mask stands for byte k of every 16.
    for (uint32_t k = 0; k < op.bytes; ++k)
      if (op.byteMask >> (k & 15) & 1)
        if (uint8_t *p = global.write(op.global + k, 1))
          *p = op.data[k];
    if (global.report(i, op.lane))
      return false;
  } else {
    uint8_t *to = global.write(op.global, op.bytes);
    if (global.report(i, op.lane))
      return false;
    if (c.reduce) {
      IssueList issues;
      bool done =
          reduceElements(c.type, c.op, to, op.data.data(), op.bytes, issues);
      if (x.report(i, op.lane, issues, done))
        return false;
    } else {
      std::memcpy(to, op.data.data(), op.bytes);
    }
  }
  x.cluster.bytes[unsigned(Bytes::BulkStore)] += op.bytes;
  return true;
}

bool captureStore(Cluster &cluster, AsyncOp &op) {
  if (op.captured)
    return true;
  op.captured = true;
  Warp &warp = *cluster.ctas[op.cta]->warps[op.warp];
  Exec x(cluster, warp, 0);
  const Instr &i = *op.instr;
  Cta &cta = *cluster.ctas[op.shared.cta];
  bool tensor = op.kind == AsyncOp::TensorStore;
  uint32_t size = op.bytes;
  if (tensor)
    size = op.map.imageBytes() *
           (cluster.launch.kernel->copies[i.extra].gather ? 4 : 1);
  if (!checkShared(x, i, op.lane, cta, op.shared.address, size, !tensor,
                   tensor ? "tensor copy" : "bulk copy"))
    return false;
  const uint8_t *from = cta.shared.data() + (op.shared.address - sharedBase);
  if (tensor && x.check(Check::Uninit)) {
    ShadowSink sink;
    IssueList ignored;
    SharedView shadow = {cta.shadow.data() + (op.shared.address - sharedBase),
                         op.shared.address, size};
    bool barrier = false;
    // Only bytes that go to elements inside the tensor count.
    bool stored = storeTile(op, cluster.launch.kernel->copies[i.extra], shadow,
                            sink, ignored);
    if (stored && !sink.allDefined(barrier)) {
      x.fail(i, op.lane, "tensor store reads undefined shared memory",
             "uninit");
      return false;
    }
  }
  op.data.assign(from, from + size);
  return true;
}

bool finishLaneCopies(Cluster &cluster, Warp &warp, unsigned lane,
                      uint32_t keep, bool everything) {
  if (warp.laneCopies.empty())
    return true;
  Exec x(cluster, warp, 0);
  size_t kept = 0;
  std::vector<LaneCopy> &list = warp.laneCopies;
  for (size_t k = 0; k < list.size(); ++k) {
    const LaneCopy c = list[k];
    bool mine = lane >= warpLanes || c.lane == lane;
    bool due = everything || uint64_t(c.group) + keep < warp.laneGroup[c.lane];
    if (!mine || !due) {
      list[kept++] = c;
      continue;
    }
    const Instr &i = x.kernel.code[c.pc];
    uint8_t buffer[16] = {};
    if (c.sourceBytes) {
      CheckedGlobal global(x, false);
      const uint8_t *from = global.read(c.source, c.sourceBytes);
      if (global.report(i, c.lane))
        return false;
      std::memcpy(buffer, from, c.sourceBytes);
    }
    if (!checkShared(x, i, c.lane, *warp.cta, c.dest, c.bytes, false,
                     "cp.async"))
      return false;
    size_t at = c.dest - sharedBase;
    std::memcpy(warp.cta->shared.data() + at, buffer, c.bytes);
    std::memset(warp.cta->shadow.data() + at, shadowDefined, c.bytes);
    ++cluster.effects;
  }
  list.resize(kept);
  return true;
}

} // namespace sim
} // namespace flamia
