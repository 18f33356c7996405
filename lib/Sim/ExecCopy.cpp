//===- ExecCopy.cpp - Bulk and tensor copies ------------------------------===//
//
// Decoding and issue of PTX ISA 9.7.9.25-27 (facts/tcgen05.md section 9). The
// copies themselves are carried out by AsyncCopies.cpp.
//
//===----------------------------------------------------------------------===//

#include "DecodeCopy.h"
#include "ExecAsync.h"
#include "ExecMbarrier.h"
#include "Hazard.h"
#include "Hex.h"
#include "Lanes.h"
#include "MemoryDecode.h"
#include "Tracer.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

namespace {

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// A shared operand of a bulk copy.
bool sharedPlace(Exec &x, const Instr &i, const AddressOperand &a, int lane,
                 SharedPlace &place) {
  uint32_t offset;
  Cta *target = x.sharedTarget(i, x.addressOf(a, lane), offset, lane);
  if (!target)
    return false;
  place = {target->rank, offset};
  return true;
}

/// The mbarrier operand: it must be initialised when the copy is issued.
bool barrierPlace(Exec &x, const Instr &i, const AddressOperand &a, int lane,
                  SharedPlace &place) {
  if (!sharedPlace(x, i, a, lane, place))
    return false;
  if (x.cluster.ctas[place.cta]->findMbarrier(place.address))
    return true;
  x.fail(i, lane,
         "no initialised mbarrier at shared address " + hex(place.address),
         "barrier");
  return false;
}

AsyncOp newOp(Exec &x, const Instr &i, int lane, AsyncOp::Kind kind) {
  AsyncOp op;
  op.kind = kind;
  op.instr = &i;
  op.cta = x.cta.rank;
  op.warp = x.warp.index;
  op.lane = lane;
  auto it =
      x.cluster.async.committed.find(AsyncQueue::thread(op.cta, op.warp, lane));
  op.group = it == x.cluster.async.committed.end() ? 0 : it->second;
  return op;
}

/// Counts a load against its barrier for the in-flight statistics.
void countLoad(Exec &x, const SharedPlace &place) {
  Cluster &c = x.cluster;
  Mbarrier *b = c.ctas[place.cta]->findMbarrier(place.address);
  if (b->curTma == 0 && b->doneTma == 0)
    c.maxStages = std::max(c.maxStages, ++c.stagesInFlight);
  ++b->curTma;
  c.maxTma = std::max(c.maxTma, ++c.tmaInFlight);
}

Flow tensorCopy(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  bool isLoad = i.aux == AsyncOp::TensorLoad;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    AsyncOp op = newOp(x, i, l, AsyncOp::Kind(i.aux));
    uint64_t mapAddress = x.addressOf(isLoad ? c.from : c.to, l);
    const uint8_t *bytes =
        x.resolve(i, spaceGeneric, mapAddress, 64, Exec::Load, l);
    if (!bytes ||
        !x.resolve(i, spaceGeneric, mapAddress + 64, 64, Exec::Load, l))
      return Flow::Fail;
    std::string error;
    if (!TensorMap::fromBytes(bytes, op.map, error))
      return x.fail(i, l,
                    "invalid tensor map at " + hex(mapAddress) + ": " + error,
                    "descriptor");
    unsigned want = c.gather ? 5 : op.map.rank;
    if (i.vecCount != want || (c.gather && op.map.rank != 2))
      return x.fail(i, l,
                    "tensor map has rank " + Twine(op.map.rank) +
                        ", but the instruction gives " + Twine(i.vecCount) +
                        " coordinates",
                    "descriptor");
    for (unsigned k = 0; k < i.vecCount; ++k)
      op.coords[k] = x.lanes<int32_t>(x.vec(i, k))[l];
    if (!sharedPlace(x, i, isLoad ? c.to : c.from, l, op.shared))
      return Flow::Fail;
    if (isLoad) {
      if (!barrierPlace(x, i, c.barrier, l, op.barrier))
        return Flow::Fail;
      uint32_t away = op.barrier.cta ^ op.shared.cta;
      if (away > unsigned(c.pair))
        return x.fail(i, l,
                      "the mbarrier of CTA " + Twine(op.barrier.cta) +
                          " cannot be signalled for a destination in CTA " +
                          Twine(op.shared.cta) +
                          (c.pair ? ", which is not of its pair"
                                  : " without .cta_group::2"),
                      "barrier");
      if (c.multicast && !multicastMask(x, i, c.multicastMask, l, op.multicast))
        return Flow::Fail;
      countLoad(x, op.barrier);
    }
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow bulkCopy(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  auto kind = AsyncOp::Kind(i.aux);
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    AsyncOp op = newOp(x, i, l, kind);
    op.bytes = x.lanes<uint32_t>(c.bytes)[l];
    bool toShared = kind != AsyncOp::BulkStore;
    if (!sharedPlace(x, i, toShared ? c.to : c.from, l, op.shared))
      return Flow::Fail;
    if (kind == AsyncOp::BulkShared) {
      if (!sharedPlace(x, i, c.from, l, op.source))
        return Flow::Fail;
    } else {
      op.global = x.addressOf(toShared ? c.from : c.to, l);
    }
    uint64_t bits =
        op.bytes | op.shared.address | op.global | op.source.address;
    if (bits & 15 && x.check(Check::Alignment))
      return x.fail(
          i, l,
          "bulk copy of " + Twine(op.bytes) + " bytes between shared address " +
              hex(op.shared.address) + " and " +
              hex(kind == AsyncOp::BulkShared ? op.source.address : op.global) +
              ": size and addresses must be multiples of 16",
          "alignment");
    if (toShared) {
      if (!barrierPlace(x, i, c.barrier, l, op.barrier))
        return Flow::Fail;
      if (c.multicast && !multicastMask(x, i, c.multicastMask, l, op.multicast))
        return Flow::Fail;
      countLoad(x, op.barrier);
    } else if (c.masked) {
      op.byteMask = x.lanes<uint16_t>(c.multicastMask)[l];
    }
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow bulkCommit(Exec &x, const Instr &, uint32_t mask) {
  forLanes(mask, [&](int l) {
    ++x.cluster.async
          .committed[AsyncQueue::thread(x.cta.rank, x.warp.index, l)];
  });
  return Flow::Next;
}

/// Carries out what the wait is for; `read` asks only for the sources.
Flow bulkWait(Exec &x, const Instr &i, uint32_t mask) {
  AsyncQueue &q = x.cluster.async;
  bool readOnly = i.aux;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t thread = AsyncQueue::thread(x.cta.rank, x.warp.index, l);
    auto it = q.committed.find(thread);
    uint64_t committed = it == q.committed.end() ? 0 : it->second;
    if (x.cluster.hazards)
      x.cluster.hazards->bulkWait(
          x, l, committed - std::min<uint64_t>(committed, uint64_t(i.imm)),
          readOnly);
    if (x.cluster.tracer && !readOnly)
      x.cluster.tracer->bulkWait(
          x, l, committed - std::min<uint64_t>(committed, uint64_t(i.imm)));
    for (size_t k = 0; k < q.copies.size();) {
      AsyncOp &op = q.copies[k];
      bool mine = AsyncQueue::thread(op.cta, op.warp, op.lane) == thread;
      if (!mine || !op.isStore() || op.group + uint64_t(i.imm) >= committed) {
        ++k;
        continue;
      }
      if (readOnly) {
        if (!captureStore(x.cluster, op))
          return Flow::Fail;
        ++k;
        continue;
      }
      AsyncOp run = std::move(op);
      q.copies.erase(q.copies.begin() + k);
      if (!runAsync(x.cluster, run))
        return Flow::Fail;
    }
  }
  return Flow::Next;
}

Flow nothing(Exec &, const Instr &, uint32_t) { return Flow::Next; }

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

bool reduceKind(Decoder &d, CopyInfo &c) {
  static const std::pair<const char *, TmaReduce> ops[] = {
      {"add", TmaReduce::Add}, {"min", TmaReduce::Min}, {"max", TmaReduce::Max},
      {"inc", TmaReduce::Inc}, {"dec", TmaReduce::Dec}, {"and", TmaReduce::And},
      {"or", TmaReduce::Or},   {"xor", TmaReduce::Xor}};
  for (auto [name, op] : ops)
    if (d.take(name)) {
      c.op = op;
      return true;
    }
  return false;
}

bool tensorMapAddress(Decoder &d, const ptx::Operand &o, AddressOperand &a) {
  if (o.kind != ptx::Operand::Address || o.elems.size() != 2 ||
      o.elems[1].kind != ptx::Operand::Vector)
    return d.fail("expected [tensor map, {coordinates}] in '" + d.in->opcode +
                  "'");
  return d.address(o, a) && d.vectorSrc(o.elems[1], Type::S32);
}

bool decodeTensorCopy(Decoder &d) {
  Instr &o = *d.out;
  bool prefetch = d.take("prefetch");
  StringRef dims = d.takeAny({"1d", "2d", "3d", "4d", "5d"});
  bool gather = d.take("tile::gather4"), scatter = d.take("tile::scatter4");
  d.take("tile");
  CopyInfo &c = newCopyInfo(d);
  c.reduce = d.base() == "cp" && d.take("reduce");
  bool reduce = c.reduce;
  bool toShared = d.take("shared::cluster");
  bool cta = !toShared && d.take("shared::cta");
  bool global = d.take("global");
  bool complete = d.take("mbarrier::complete_tx::bytes");
  bool group = d.take("bulk_group");
  c.multicast = d.take("multicast::cluster");
  c.pair = d.take("cta_group::2");
  if (!c.pair)
    d.take("cta_group::1");
  bool policy = d.take("L2::cache_hint");
  if (dims.empty()) {
    d.failForm();
    return true;
  }
  if (prefetch) {
    d.take("L2");
    o.fn = nothing;
    if (d.expectOps(1, policy ? 2 : 1))
      tensorMapAddress(d, d.op(0), c.from);
    return true;
  }
  unsigned rank = unsigned(dims[0] - '0');
  unsigned coords = gather || scatter ? 5 : rank;
  o.fn = tensorCopy;
  o.flags |= flagEffect;
  bool ok;
  if (complete) {
    if (reduce || group || scatter || !global || !(toShared || cta)) {
      d.failForm();
      return true;
    }
    o.aux = AsyncOp::TensorLoad;
    c.gather = gather;
    size_t want = 3 + c.multicast + policy;
    ok = d.expectOps(want) && d.address(d.op(0), c.to) &&
         tensorMapAddress(d, d.op(1), c.from) && d.address(d.op(2), c.barrier);
    if (ok && c.multicast)
      ok = d.src(d.op(3), Type::U16, c.multicastMask);
  } else {
    if (reduce && !reduceKind(d, c)) {
      d.failForm();
      return true;
    }
    if (!group || !global || !cta || gather || (scatter && reduce)) {
      d.failForm();
      return true;
    }
    c.gather = scatter;
    o.aux = AsyncOp::TensorStore;
    ok = d.expectOps(2 + policy) && tensorMapAddress(d, d.op(0), c.to) &&
         d.address(d.op(1), c.from);
  }
  if (ok && o.vecCount != coords)
    d.fail("expected " + Twine(coords) + " coordinates in '" + d.in->opcode +
           "', but got " + Twine(o.vecCount));
  return true;
}

bool decodeBulk(Decoder &d) {
  Instr &o = *d.out;
  if (d.take("commit_group")) {
    o.fn = bulkCommit;
    d.expectOps(0);
    return true;
  }
  if (d.take("wait_group")) {
    o.aux = d.take("read");
    o.fn = bulkWait;
    o.flags |= flagEffect;
    if (d.expectOps(1))
      d.immediate(d.op(0), o.imm, "the group count");
    return true;
  }
  if (d.take("tensor"))
    return decodeTensorCopy(d);
  if (d.take("prefetch")) {
    d.take("L2");
    d.take("global");
    bool policy = d.take("L2::cache_hint");
    o.fn = nothing;
    CopyInfo &c = newCopyInfo(d);
    if (d.expectOps(2, policy ? 3 : 2) && d.address(d.op(0), c.from))
      d.src(d.op(1), Type::U32, c.bytes);
    return true;
  }
  CopyInfo &c = newCopyInfo(d);
  c.reduce = d.take("reduce");
  // Destination first, then source, as the qualifiers stand.
  llvm::SmallVector<StringRef, 2> spaces;
  for (StringRef part : d.in->parts)
    if (part == "global" || part == "shared::cta" || part == "shared::cluster")
      spaces.push_back(part);
  for (StringRef s : spaces)
    d.take(s);
  bool complete = d.take("mbarrier::complete_tx::bytes");
  bool group = d.take("bulk_group");
  c.multicast = d.take("multicast::cluster");
  c.masked = d.take("cp_mask");
  bool policy = d.take("L2::cache_hint");
  if (spaces.size() != 2) {
    d.failForm();
    return true;
  }
  o.fn = bulkCopy;
  o.flags |= flagEffect;
  bool store = spaces[0] == "global";
  if (c.reduce) {
    if (!reduceKind(d, c)) {
      d.failForm();
      return true;
    }
    d.take("noftz");
    StringRef t = d.lastQualifier();
    auto type = llvm::StringSwitch<int>(t)
                    .Case("u32", int(TmaType::U32))
                    .Case("s32", int(TmaType::S32))
                    .Case("u64", int(TmaType::U64))
                    .Case("s64", int(TmaType::S64))
                    .Case("f16", int(TmaType::F16))
                    .Case("bf16", int(TmaType::BF16))
                    .Case("f32", int(TmaType::F32))
                    .Case("f64", int(TmaType::F64))
                    .Case("b32", int(TmaType::U32))
                    .Case("b64", int(TmaType::U64))
                    .Default(-1);
    bool remote = !store && complete && spaces[1] == "shared::cta";
    bool counts = c.op == TmaReduce::Inc || c.op == TmaReduce::Dec;
    bool bitwise = c.op == TmaReduce::And || c.op == TmaReduce::Or ||
                   c.op == TmaReduce::Xor;
    bool orders = c.op == TmaReduce::Min || c.op == TmaReduce::Max;
    bool floating = t == "f16" || t == "bf16" || t == "f32" || t == "f64";
    bool legal = bitwise  ? t == "b32" || (t == "b64" && store)
                 : counts ? t == "u32"
                 : orders ? (floating ? store && t.ends_with("f16")
                                      : t == "u32" || t == "s32" ||
                                            (store && t != "b32" && t != "b64"))
                          : t != "b32" && t != "b64" && t != "s64" &&
                                (store || !floating);
    if (type < 0 || !(store || remote) || !legal) {
      d.failForm();
      return true;
    }
    c.type = TmaType(type);
    d.take(t);
  }
  if (store) {
    if (!group || complete || spaces[1] == "global") {
      d.failForm();
      return true;
    }
    o.aux = AsyncOp::BulkStore;
    if (!d.expectOps(3 + policy + c.masked) || !d.address(d.op(0), c.to) ||
        !d.address(d.op(1), c.from) || !d.src(d.op(2), Type::U32, c.bytes))
      return true;
    if (c.masked)
      d.src(d.op(3 + policy), Type::U16, c.multicastMask);
    return true;
  }
  if (!complete || group) {
    d.failForm();
    return true;
  }
  o.aux = spaces[1] == "global" ? AsyncOp::BulkLoad : AsyncOp::BulkShared;
  if (!d.expectOps(4 + policy + c.multicast) || !d.address(d.op(0), c.to) ||
      !d.address(d.op(1), c.from) || !d.src(d.op(2), Type::U32, c.bytes) ||
      !d.address(d.op(3), c.barrier))
    return true;
  if (c.multicast)
    d.src(d.op(4), Type::U16, c.multicastMask);
  return true;
}

} // namespace

bool decodeCopy(Decoder &d) {
  StringRef base = d.base();
  if (base == "createpolicy") {
    // Cache policies are hints: any value will do.
    while (d.qualifierLeft())
      d.take(d.lastQualifier());
    d.out->fn = [](Exec &x, const Instr &i, uint32_t mask) {
      return mapLanes<uint64_t>(x, i.dst[0], mask, [](unsigned) {
        return uint64_t(0x1000000000000000ull);
      });
    };
    if (d.expectOps(1, 5))
      d.dst(d.op(0), 64, d.out->dst[0]);
    return true;
  }
  if (base != "cp")
    return false;
  d.out->unit = Unit::Copy;
  // cp.reduce.async.bulk: "reduce" is looked for by the bulk forms.
  if (!d.take("async")) {
    d.failForm();
    return true;
  }
  if (d.take("bulk"))
    return decodeBulk(d);
  return decodeLaneCopy(d);
}

} // namespace sim
} // namespace flamia
