//===- ExecLaneCopy.cpp - cp.async: 4 to 16 bytes a lane ------------------===//
//
// Decoding and issue of PTX ISA 9.7.9.25.3. The copies themselves are carried
// out by AsyncCopies.cpp.
//
//===----------------------------------------------------------------------===//

#include "DecodeCopy.h"
#include "ExecAsync.h"
#include "ExecMbarrier.h"
#include "Hazard.h"
#include "Hex.h"
#include "Lanes.h"
#include "MemoryDecode.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

namespace {

Flow laneCopy(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  const uint32_t *sourceBytes = x.lanes<uint32_t>(i.src[2]);
  unsigned bytes = i.bytes;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t to = x.addressOf(c.to, l), from = x.addressOf(c.from, l);
    uint32_t n = i.aux & 1 ? sourceBytes[l] : bytes;
    // An ignore-source predicate makes everything zero.
    if (i.aux & 2 && x.mask(i.src[2]) >> l & 1)
      n = 0;
    if (n > bytes)
      return x.fail(i, l,
                    "source size " + Twine(n) + " exceeds the copy's " +
                        Twine(bytes) + " bytes",
                    "bounds");
    if (from & (bytes - 1) && x.check(Check::Alignment))
      return x.fail(i, l,
                    "address " + hex(from) + " is not aligned to the copy of " +
                        Twine(bytes) + " bytes",
                    "alignment");
    uint32_t offset;
    if (!x.resolve(i, spaceShared, to, bytes, Exec::Store, l) ||
        !x.sharedTarget(i, to, offset, l))
      return Flow::Fail;
    if (x.cluster.hazards &&
        !x.cluster.hazards->laneCopy(x, i, offset, bytes, from, n, l))
      return Flow::Fail;
    x.warp.laneCopies.push_back({x.fragment().pc, from, offset, uint8_t(bytes),
                                 uint8_t(n), uint8_t(l), x.warp.laneGroup[l]});
  }
  x.cluster.bytes[unsigned(Bytes::CpAsync)] +=
      uint64_t(bytes) * __builtin_popcount(mask);
  if (runsNow(x.cluster) && !finishLaneCopies(x.cluster, x.warp, warpLanes, 0))
    return Flow::Fail;
  return Flow::Next;
}

Flow laneCommit(Exec &x, const Instr &, uint32_t mask) {
  forLanes(mask, [&](int l) { ++x.warp.laneGroup[l]; });
  if (x.cluster.hazards)
    x.cluster.hazards->laneCopyCommit(x);
  return Flow::Next;
}
Flow laneWait(Exec &x, const Instr &i, uint32_t mask) {
  bool all = i.aux;
  if (x.cluster.hazards)
    x.cluster.hazards->laneCopyWait(x, uint32_t(i.imm), all);
  for (uint32_t m = mask; m; m &= m - 1)
    if (!finishLaneCopies(x.cluster, x.warp, lowestLane(m), uint32_t(i.imm),
                          all))
      return Flow::Fail;
  return Flow::Next;
}

Flow laneArrive(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  bool noIncrement = i.aux;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    Mbarrier *b = mbarrierAt(x, i, x.addressOf(c.barrier, l), l, true);
    if (!b)
      return Flow::Fail;
    if (!noIncrement)
      ++b->pending;
    AsyncOp op;
    op.kind = AsyncOp::LaneArrive;
    op.instr = &i;
    op.cta = x.cta.rank;
    op.warp = x.warp.index;
    op.lane = l;
    op.barrier = {x.cta.rank, b->address};
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

} // namespace

CopyInfo &newCopyInfo(Decoder &d) {
  d.out->extra = uint32_t(d.kernel->copies.size());
  d.kernel->copies.emplace_back();
  return d.kernel->copies.back();
}

bool decodeLaneCopy(Decoder &d) {
  Instr &o = *d.out;
  if (d.take("commit_group")) {
    o.fn = laneCommit;
    d.expectOps(0);
    return true;
  }
  if (d.take("wait_all")) {
    o.fn = laneWait;
    o.aux = 1;
    o.flags |= flagEffect;
    d.expectOps(0);
    return true;
  }
  if (d.take("wait_group")) {
    o.fn = laneWait;
    o.flags |= flagEffect;
    if (d.expectOps(1))
      d.immediate(d.op(0), o.imm, "the group count");
    return true;
  }
  if (d.take("mbarrier")) {
    if (!d.take("arrive")) {
      d.failForm();
      return true;
    }
    o.aux = d.take("noinc");
    uint8_t space;
    takeSpace(d, space);
    if (d.takeType() != Type::B64) {
      d.failForm();
      return true;
    }
    o.fn = laneArrive;
    o.flags |= flagEffect;
    CopyInfo &c = newCopyInfo(d);
    if (d.expectOps(1))
      d.address(d.op(0), c.barrier);
    return true;
  }
  bool ca = d.take("ca"), cg = d.take("cg");
  bool shared = d.take("shared") || d.take("shared::cta");
  bool global = d.take("global");
  bool policy = false;
  for (StringRef h = d.takePrefix("L2::"); !h.empty(); h = d.takePrefix("L2::"))
    policy |= h == "L2::cache_hint";
  if (ca == cg || !shared || !global) {
    d.failForm();
    return true;
  }
  int64_t bytes;
  if (!d.expectOps(3, policy ? 5 : 4) ||
      !d.immediate(d.op(2), bytes, "the copy size"))
    return true;
  if (bytes != 16 && (cg || (bytes != 4 && bytes != 8))) {
    d.fail("illegal copy size " + Twine(bytes) + " of '" + d.in->opcode + "'");
    return true;
  }
  CopyInfo &c = newCopyInfo(d);
  o.bytes = uint8_t(bytes);
  o.fn = laneCopy;
  o.flags |= flagEffect;
  if (!d.address(d.op(0), c.to) || !d.address(d.op(1), c.from))
    return true;
  o.src[2] = d.constant(0, 32);
  size_t extra = d.numOps() - (policy ? 1 : 0);
  if (extra == 4) {
    if (d.regBits(d.op(3)) == 1) {
      o.aux = 2;
      d.predSrc(d.op(3), o.src[2]);
    } else {
      o.aux = 1;
      d.src(d.op(3), Type::U32, o.src[2]);
    }
  }
  return true;
}

} // namespace sim
} // namespace flamia
