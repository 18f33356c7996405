//===- ExecLaunchControl.cpp - clusterlaunchcontrol -----------------------===//
//
// PTX ISA 9.7.13.17: a running cluster takes over the place of one that has not
// been launched. The 16 bytes of the answer are opaque in PTX; here they are
// {1 when cancelled, x, y, z of the cancelled cluster's first CTA}.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "ExecAsync.h"
#include "ExecMbarrier.h"
#include "Hazard.h"
#include "Lanes.h"
#include "MemoryDecode.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

constexpr unsigned answerBytes = 16;

Flow tryCancel(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(c.to, l);
    if (!x.resolve(i, spaceSharedCluster, address, answerBytes, Exec::Store, l))
      return Flow::Fail;
    AsyncOp op;
    op.kind = AsyncOp::Cancel;
    op.instr = &i;
    op.cta = x.cta.rank;
    op.warp = x.warp.index;
    op.lane = l;
    uint32_t offset;
    Cta *target = x.sharedTarget(i, address, offset, l);
    if (!target)
      return Flow::Fail;
    op.shared = {target->rank, offset};
    op.bytes = answerBytes;
    Mbarrier *b = mbarrierAt(x, i, x.addressOf(c.barrier, l), l, false);
    if (!b)
      return Flow::Fail;
    op.barrier = {target->rank, b->address};
    if (c.multicast)
      op.multicast = (1u << x.cluster.ctas.size()) - 1;
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

const uint32_t *answer(Exec &x, const Instr &i, unsigned lane) {
  return x.lanes<uint32_t>(i.src[0]) + 4 * lane;
}

Flow isCanceled(Exec &x, const Instr &i, uint32_t mask) {
  x.setMask(i.dst[0],
            lanesWhere([&](unsigned l) { return answer(x, i, l)[0] == 1; }),
            mask);
  return Flow::Next;
}

/// One coordinate (aux), or all of them.
Flow firstCta(Exec &x, const Instr &i, uint32_t mask) {
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    if (answer(x, i, l)[0] != 1 && x.check(Check::Uninit))
      return x.fail(i, l,
                    "the request was not granted, so there is no first CTA",
                    "uninit");
    for (unsigned k = 0; k < i.vecCount; ++k)
      x.lanes<uint32_t>(x.vec(i, k))[l] =
          k < 3 ? answer(x, i, l)[1 + i.aux + k] : 0;
  }
  return Flow::Next;
}

bool decodeTryCancel(Decoder &d) {
  Instr &o = *d.out;
  bool form = d.take("async");
  d.take("shared::cta");
  form = form && d.take("mbarrier::complete_tx::bytes");
  bool multicast = d.take("multicast::cluster::all");
  if (!form || d.takeType() != Type::B128)
    return d.failForm();
  o.fn = tryCancel;
  o.flags |= flagEffect;
  o.extra = uint32_t(d.kernel->copies.size());
  d.kernel->copies.emplace_back();
  CopyInfo &c = d.kernel->copies.back();
  c.multicast = multicast;
  return d.expectOps(2) && d.address(d.op(0), c.to) &&
         d.address(d.op(1), c.barrier);
}

bool decodeQuery(Decoder &d) {
  Instr &o = *d.out;
  if (d.takeType() != Type::B128 || !d.expectOps(2) ||
      !d.src(d.op(1), Type::B128, o.src[0]))
    return d.failForm();
  if (d.take("is_canceled")) {
    o.fn = isCanceled;
    return d.take("pred") ? d.predDst(d.op(0), o.dst[0]) : d.failForm();
  }
  o.fn = firstCta;
  if (d.take("get_first_ctaid"))
    return d.take("v4") && d.take("b32") ? d.vectorDst(d.op(0), 32)
                                         : d.failForm();
  StringRef axis = d.takePrefix("get_first_ctaid::");
  if (axis.empty() || !d.take("b32"))
    return d.failForm();
  char name = axis.back();
  if (name < 'x' || name > 'z')
    return d.failForm();
  o.aux = uint32_t(name - 'x');
  return d.vectorDst(d.op(0), 32);
}

} // namespace

bool runCancel(Cluster &cluster, AsyncOp &op) {
  uint32_t words[4] = {};
  std::array<uint32_t, 3> first;
  if (cluster.launch.takeCluster && cluster.launch.takeCluster(first)) {
    words[0] = 1;
    std::copy(first.begin(), first.end(), words + 1);
  }
  Exec x(cluster, *cluster.ctas[op.cta]->warps[op.warp], 0);
  for (const std::unique_ptr<Cta> &cta : cluster.ctas) {
    bool here = op.multicast ? op.multicast >> cta->rank & 1
                             : cta->rank == op.shared.cta;
    if (!here)
      continue;
    uint64_t at = op.shared.address - sharedBase;
    std::memcpy(cta->shared.data() + at, words, answerBytes);
    std::memset(cta->shadow.data() + at, shadowDefined, answerBytes);
    Hazards *hazards = cluster.hazards.get();
    if (hazards && !hazards->complete(x, op, *cta, op.barrier.address))
      return false;
    Mbarrier *b = cta->findMbarrier(op.barrier.address);
    std::string error = "no initialised mbarrier";
    if (!b || !b->changeTx(-int64_t(answerBytes), error)) {
      x.fail(*op.instr, op.lane, error + " for the answer", "barrier");
      return false;
    }
    if (hazards && !hazards->signalled(x, *op.instr, *cta, *b, op.lane))
      return false;
  }
  return true;
}

bool decodeLaunchControl(Decoder &d) {
  if (d.base() != "clusterlaunchcontrol")
    return false;
  d.out->unit = Unit::Sync;
  StringRef what = d.takeAny({"try_cancel", "query_cancel"});
  if (what == "try_cancel")
    decodeTryCancel(d);
  else if (what == "query_cancel")
    decodeQuery(d);
  else
    d.failForm();
  return true;
}

} // namespace sim
} // namespace flamia
