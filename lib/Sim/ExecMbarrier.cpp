//===- ExecMbarrier.cpp - mbarrier instructions ---------------------------===//
//
// facts/tcgen05.md section 8 (PTX ISA 9.7.13.15).
//
//===----------------------------------------------------------------------===//

#include "ExecMbarrier.h"
#include "Decoder.h"
#include "Hazard.h"
#include "Hex.h"
#include "Lanes.h"
#include "MemoryDecode.h"
#include "Profiler.h"
#include "Tracer.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

Mbarrier *mbarrierAt(Exec &x, const Instr &i, uint64_t address, int lane,
                     bool local) {
  uint32_t offset;
  Cta *target = x.sharedTarget(i, address, offset, lane);
  if (!target)
    return nullptr;
  if (local && target != &x.cta) {
    x.fail(i, lane, "waiting on the mbarrier of another CTA is not possible",
           "barrier");
    return nullptr;
  }
  if (offset & 7) {
    x.fail(i, lane, "mbarrier address " + hex(offset) + " is not aligned to 8",
           "alignment");
    return nullptr;
  }
  Mbarrier *b = target->findMbarrier(offset);
  if (!b)
    x.fail(i, lane, "no initialised mbarrier at shared address " + hex(offset),
           "barrier");
  return b;
}

void observe(Cluster &c, Mbarrier &b) {
  c.mmaInFlight -= b.doneMma;
  c.tmaInFlight -= b.doneTma;
  if (b.doneTma)
    --c.stagesInFlight;
  b.doneMma = b.doneTma = 0;
}

namespace {

enum MbarFlags : uint32_t {
  mbWide = 1,
  mbParity = 2,
  mbTry = 4,
  mbDrop = 8,
  mbExpect = 16,
  mbNoComplete = 32,
  mbState = 64, ///< arrive: returns the state
};

Flow init(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *count = x.lanes<uint32_t>(i.src[1]);
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & mbWide, l);
    uint32_t offset;
    if (!x.resolve(i, spaceSharedCluster, address, 8, Exec::Store, l))
      return Flow::Fail;
    Cta *target = x.sharedTarget(i, address, offset, l);
    if (!target)
      return Flow::Fail;
    if (count[l] == 0 || count[l] > Mbarrier::maxCount)
      return x.fail(i, l,
                    "mbarrier count " + Twine(count[l]) +
                        " is out of range 1.." + Twine(Mbarrier::maxCount),
                    "barrier");
    int32_t &slot = target->mbarrierAt[(offset - sharedBase) / 8];
    if (slot >= 0 && target->mbarriers[slot].live && x.check(Check::Barrier))
      return x.fail(i, l,
                    "mbarrier at shared address " + hex(offset) +
                        " is initialised again without mbarrier.inval",
                    "barrier");
    if (slot < 0) {
      slot = int32_t(target->mbarriers.size());
      target->mbarriers.emplace_back();
    }
    target->mbarriers[slot].init(offset, count[l]);
    if (x.cluster.tracer)
      x.cluster.tracer->barrierInit(target->mbarriers[slot], *target);
    std::memset(target->shadow.data() + (offset - sharedBase),
                shadowDefined | shadowMbarrier, 8);
    if (x.cluster.hazards)
      x.cluster.hazards->barrierInit(x, i, *target, offset);
  }
  return Flow::Next;
}

Flow inval(Exec &x, const Instr &i, uint32_t mask) {
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & mbWide, l);
    Mbarrier *b = mbarrierAt(x, i, address, l, true);
    if (!b)
      return Flow::Fail;
    b->live = false;
    std::memset(x.cta.shadow.data() + (b->address - sharedBase), 0, 8);
  }
  return Flow::Next;
}

/// Tells the hazard tracker of an arrival or a change of the transaction count,
/// before it and after it.
bool signal(Exec &x, const Instr &i, uint64_t address, Mbarrier &b, int lane,
            bool done) {
  if (!x.cluster.hazards)
    return true;
  uint32_t offset;
  Cta *target = x.sharedTarget(i, address, offset, lane);
  return done ? x.cluster.hazards->signalled(x, i, *target, b, lane)
              : x.cluster.hazards->barrierArrive(x, i, *target, b, lane);
}

Flow arrive(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *count = x.lanes<uint32_t>(i.src[1]),
                 *bytes = x.lanes<uint32_t>(i.src[2]);
  uint64_t *state = i.aux & mbState ? x.lanes<uint64_t>(i.dst[0]) : nullptr;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & mbWide, l);
    Mbarrier *b = mbarrierAt(x, i, address, l, false);
    if (!b)
      return Flow::Fail;
    if (!signal(x, i, address, *b, l, false))
      return Flow::Fail;
    if (state)
      state[l] = b->token();
    if (i.aux & mbNoComplete && count[l] >= b->pending && b->tx == 0)
      return x.fail(i, l, "arrive.noComplete would complete the phase",
                    "barrier");
    if (x.cluster.profiler) {
      uint32_t offset;
      if (Cta *target = x.sharedTarget(i, address, offset, l))
        x.cluster.profiler->arrive(x.warp, *b, *target);
    }
    std::string error;
    if (!b->arrive(count[l], i.aux & mbExpect ? bytes[l] : 0, i.aux & mbDrop,
                   error))
      return x.fail(
          i, l, error + " of the mbarrier at shared address " + hex(b->address),
          "barrier");
    if (!signal(x, i, address, *b, l, true))
      return Flow::Fail;
  }
  return Flow::Next;
}

/// expect_tx and complete_tx: imm2 in type decides the sign.
template <int Sign>
Flow changeTx(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *bytes = x.lanes<uint32_t>(i.src[1]);
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & mbWide, l);
    Mbarrier *b = mbarrierAt(x, i, address, l, false);
    if (!b)
      return Flow::Fail;
    if (!signal(x, i, address, *b, l, false))
      return Flow::Fail;
    std::string error;
    if (!b->changeTx(Sign * int64_t(bytes[l]), error))
      return x.fail(
          i, l, error + " of the mbarrier at shared address " + hex(b->address),
          "barrier");
    if (!signal(x, i, address, *b, l, true))
      return Flow::Fail;
  }
  return Flow::Next;
}

Flow wait(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *parity = x.lanes<uint32_t>(i.src[1]);
  const uint64_t *state = x.lanes<uint64_t>(i.src[1]);
  uint32_t done = 0;
  Mbarrier *open = nullptr, *seen = nullptr;
  int openLane = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & mbWide, l);
    Mbarrier *b = mbarrierAt(x, i, address, l, true);
    if (!b)
      return Flow::Fail;
    bool complete;
    if (i.aux & mbParity) {
      if (parity[l] > 1 && x.check(Check::Barrier))
        return x.fail(i, l,
                      "wait parity " + Twine(parity[l]) + " is not 0 or 1",
                      "barrier");
      complete = b->completed(parity[l]);
    } else {
      complete = b->phase != uint32_t(state[l] >> 32);
    }
    if (complete) {
      // Lanes usually look at one barrier.
      if (x.cluster.hazards && b != seen &&
          !x.cluster.hazards->barrierWait(x, i, *b, l))
        return Flow::Fail;
      seen = b;
      done |= 1u << l;
      observe(x.cluster, *b);
      if (x.cluster.tracer)
        x.cluster.tracer->observed(*b, x.warp);
      if (x.cluster.profiler)
        x.cluster.profiler->waited(x.warp, *b);
    } else if (!open) {
      open = b;
      openLane = l;
    }
  }
  Fragment &f = x.fragment();
  bool retry = f.wait.kind == Wait::TryWait && f.wait.timedOut;
  if (open && i.aux & mbTry && !retry) {
    f.wait = Wait();
    f.wait.kind = Wait::TryWait;
    f.wait.id = open->address;
    f.wait.parity = i.aux & mbParity ? parity[openLane]
                                     : uint32_t(state[openLane] >> 32) & 1;
    f.wait.generation = open->phase;
    return Flow::Block;
  }
  x.setMask(i.dst[0], done, mask);
  // A failed test gives others a chance to make it true.
  return open ? Flow::Yield : Flow::Next;
}

Flow pendingCount(Exec &x, const Instr &i, uint32_t mask) {
  const uint64_t *state = x.lanes<uint64_t>(i.src[0]);
  return mapLanes<uint32_t>(x, i.dst[0], mask,
                            [&](unsigned l) { return uint32_t(state[l]); });
}

bool decodeArrive(Decoder &d, bool drop) {
  Instr &o = *d.out;
  bool expect = d.take("expect_tx"), noComplete = d.take("noComplete");
  bool policy;
  uint8_t space;
  takeSpace(d, space);
  takeMemoryHints(d, policy);
  if (d.takeType() != Type::B64) {
    d.failForm();
    return true;
  }
  // The result may be left out for remote barriers.
  size_t at = d.op(0).kind == ptx::Operand::Address ? 0 : 1;
  bool wide = false;
  if (!d.expectOps(at + 1, at + 2) || !d.address(d.op(at), o.src[0], wide))
    return true;
  o.src[1] = d.constant(1, 32);
  o.src[2] = d.constant(0, 32);
  bool hasValue = d.numOps() == at + 2;
  if (expect && !hasValue) {
    d.fail("expected the byte count of '" + d.in->opcode + "'");
    return true;
  }
  if (hasValue && !d.src(d.op(at + 1), Type::U32, o.src[expect ? 2 : 1]))
    return true;
  bool state = at == 1 && d.op(0).isReg();
  if (at == 1 && !d.dst(d.op(0), 64, o.dst[0]))
    return true;
  o.aux = (wide ? mbWide : 0u) | (drop ? mbDrop : 0u) |
          (expect ? mbExpect : 0u) | (noComplete ? mbNoComplete : 0u) |
          (state ? mbState : 0u);
  o.flags |= flagEffect;
  o.fn = arrive;
  return true;
}

} // namespace

bool decodeMbarrier(Decoder &d) {
  if (d.base() != "mbarrier")
    return false;
  Instr &o = *d.out;
  o.unit = Unit::Sync;
  StringRef what = d.takeAny({"init", "inval", "arrive", "arrive_drop",
                              "test_wait", "try_wait", "pending_count"});
  if (what == "arrive" || what == "arrive_drop") {
    if (!d.expectOps(1, 3))
      return true;
    return decodeArrive(d, what == "arrive_drop");
  }
  bool expect = false, complete = false;
  if (what.empty()) {
    expect = d.take("expect_tx");
    complete = !expect && d.take("complete_tx");
    if (!expect && !complete) {
      d.failForm();
      return true;
    }
  }
  bool parity = d.take("parity"), policy;
  uint8_t space;
  takeSpace(d, space);
  takeMemoryHints(d, policy);
  if (d.takeType() != Type::B64) {
    d.failForm();
    return true;
  }
  bool wide = false;
  if (what == "init" || expect || complete) {
    if (!d.expectOps(2) || !d.address(d.op(0), o.src[0], wide))
      return true;
    d.src(d.op(1), Type::U32, o.src[1]);
    o.fn = what == "init" ? init : expect ? changeTx<1> : changeTx<-1>;
    o.flags |= flagEffect;
  } else if (what == "inval") {
    if (d.expectOps(1))
      d.address(d.op(0), o.src[0], wide);
    o.fn = inval;
    o.flags |= flagEffect;
  } else if (what == "pending_count") {
    if (d.expectOps(2) && d.dst(d.op(0), 32, o.dst[0]))
      d.src(d.op(1), Type::B64, o.src[0]);
    o.fn = pendingCount;
  } else {
    bool isTry = what == "try_wait";
    if (!d.expectOps(3, isTry ? 4 : 3) || !d.predDst(d.op(0), o.dst[0]) ||
        !d.address(d.op(1), o.src[0], wide) ||
        !d.src(d.op(2), parity ? Type::U32 : Type::B64, o.src[1]))
      return true;
    if (d.numOps() == 4 && !d.src(d.op(3), Type::U32, o.src[2]))
      return true;
    o.fn = wait;
    o.aux = (parity ? mbParity : 0u) | (isTry ? mbTry : 0u);
  }
  o.aux |= wide ? mbWide : 0u;
  return true;
}

} // namespace sim
} // namespace flamia
