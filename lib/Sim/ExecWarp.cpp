//===- ExecWarp.cpp - shfl, vote, match, redux, elect, activemask ---------===//
//
// PTX ISA 9.7.9.6-7 and 9.7.13.9-14. Instructions that exchange data want all
// members of their mask in the executing fragment; lanes that come on another
// way are waited for, and an error is reported when they meet elsewhere.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <cmath>

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

namespace {

/// The member mask of a .sync instruction; all executing lanes must name the
/// same one and be in it. Reports and returns false otherwise.
bool memberMask(Exec &x, const Instr &i, Src s, uint32_t mask,
                uint32_t &members) {
  const uint32_t *m = x.lanes<uint32_t>(s);
  members = m[lowestLane(mask)];
  bool same = true;
  forLanes(mask, [&](int l) { same &= m[l] == members; });
  if (!same) {
    x.fail(i, int(lowestLane(mask)), "lanes give different member masks",
           "converge");
    return false;
  }
  if (mask & ~members) {
    x.fail(i, int(lowestLane(mask & ~members)),
           "lane is not in its member mask 0x" + llvm::utohexstr(members),
           "converge");
    return false;
  }
  return true;
}

/// Waits until every live member is at this instruction. Next: go on.
Flow gather(Exec &x, const Instr &i, uint32_t mask, uint32_t members) {
  uint32_t want = members & x.warp.live;
  if ((mask & want) == want)
    return Flow::Next;
  Fragment &f = x.fragment();
  if (f.wait.kind == Wait::WarpSync && f.wait.released)
    return x.fail(i, int(lowestLane(mask)),
                  "members 0x" + llvm::utohexstr(members) +
                      " meet in different places, only lanes 0x" +
                      llvm::utohexstr(mask) + " execute this instruction",
                  "converge");
  // Others that already wait at the same place join this fragment.
  for (size_t k = 0; k < x.warp.fragments.size(); ++k) {
    Fragment &g = x.warp.fragments[k];
    if (k != x.fragmentIndex && g.pc == f.pc && g.join == f.join &&
        g.wait.kind == Wait::WarpSync && g.wait.members == members) {
      g.mask |= f.mask;
      g.wait = Wait();
      x.warp.fragments.erase(x.warp.fragments.begin() + x.fragmentIndex);
      return Flow::Split;
    }
  }
  f.wait = Wait();
  f.wait.kind = Wait::WarpSync;
  f.wait.members = members;
  return Flow::Block;
}

enum ShflMode : uint32_t { shUp, shDown, shBfly, shIdx };

Flow shfl(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t members;
  if (!memberMask(x, i, i.src[3], mask, members))
    return Flow::Fail;
  Flow flow = gather(x, i, mask, members);
  if (flow != Flow::Next)
    return flow;
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *c = x.lanes<uint32_t>(i.src[2]);
  alignas(64) uint32_t out[warpLanes];
  uint32_t valid = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    int bval = b[lane] & 31, cval = c[lane] & 31, seg = c[lane] >> 8 & 31;
    int maxLane = (lane & seg) | (cval & ~seg), minLane = lane & seg;
    int j = lane;
    bool p = true;
    switch (i.aux) {
    case shUp:
      j = lane - bval;
      p = j >= maxLane;
      break;
    case shDown:
      j = lane + bval;
      p = j <= maxLane;
      break;
    case shBfly:
      j = lane ^ bval;
      p = j <= maxLane;
      break;
    default:
      j = minLane | (bval & ~seg);
      p = j <= maxLane;
    }
    if (!p)
      j = lane;
    // A source lane that does not take part gives an undefined value.
    if (!(members >> j & 1) || !(x.warp.live >> j & 1))
      return x.fail(i, lane,
                    "reads lane " + Twine(j) + ", which does not take part",
                    "converge");
    valid |= uint32_t(p) << lane;
    out[lane] = a[j];
  }
  uint32_t *d = x.lanes<uint32_t>(i.dst[0]);
  forLanes(mask, [&](int l) { d[l] = out[l]; });
  x.setMask(i.dst[1], valid, mask);
  return Flow::Next;
}

enum VoteMode : uint32_t { voteAll, voteAny, voteUni, voteBallot };

Flow vote(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t members;
  if (!memberMask(x, i, i.src[1], mask, members))
    return Flow::Fail;
  Flow flow = gather(x, i, mask, members);
  if (flow != Flow::Next)
    return flow;
  uint32_t p = x.mask(i.src[0]);
  if (i.imm)
    p = ~p;
  p &= mask;
  if (i.aux == voteBallot)
    return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned) { return p; });
  bool r = i.aux == voteAll   ? p == mask
           : i.aux == voteAny ? p != 0
                              : p == 0 || p == mask;
  x.setMask(i.dst[0], r ? allLanes : 0, mask);
  return Flow::Next;
}

template <typename T>
Flow matchAny(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t members;
  if (!memberMask(x, i, i.src[1], mask, members))
    return Flow::Fail;
  Flow flow = gather(x, i, mask, members);
  if (flow != Flow::Next)
    return flow;
  const T *a = x.lanes<T>(i.src[0]);
  bool all = i.aux;
  uint32_t first = 0;
  forLanes(mask, [&](int l) {
    if (a[l] == a[lowestLane(mask)])
      first |= 1u << l;
  });
  uint32_t out[warpLanes] = {};
  forLanes(mask, [&](int l) {
    if (all) {
      out[l] = first == mask ? mask : 0;
      return;
    }
    forLanes(mask, [&](int k) { out[l] |= uint32_t(a[k] == a[l]) << k; });
  });
  x.setMask(i.dst[1], all && first == mask ? allLanes : 0, mask);
  uint32_t *d = x.lanes<uint32_t>(i.dst[0]);
  forLanes(mask, [&](int l) { d[l] = out[l]; });
  return Flow::Next;
}

enum ReduxOp : uint32_t { rxAdd, rxMin, rxMax, rxAnd, rxOr, rxXor };

Flow redux(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t members;
  if (!memberMask(x, i, i.src[1], mask, members))
    return Flow::Fail;
  Flow flow = gather(x, i, mask, members);
  if (flow != Flow::Next)
    return flow;
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]);
  uint32_t r = a[lowestLane(mask)];
  if (i.type == Type::F32) {
    bool abs = i.imm & 1, nan = i.imm & 2, isMax = i.aux == rxMax;
    bool sawNan = false, any = false;
    float best = NAN;
    forLanes(mask, [&](int l) {
      float v = bitsToFloat(a[l]);
      v = abs ? std::fabs(v) : v;
      if (v != v) {
        sawNan = true;
        return;
      }
      bool take = !any || (isMax ? v > best || (v == best && !std::signbit(v))
                                 : v < best || (v == best && std::signbit(v)));
      best = take ? v : best;
      any = true;
    });
    r = floatToBits(canonical((nan && sawNan) || !any ? NAN : best));
  } else {
    bool isSigned = i.type == Type::S32;
    forLanes(mask & (mask - 1), [&](int l) {
      uint32_t v = a[l];
      switch (i.aux) {
      case rxAdd:
        r += v;
        break;
      case rxMin:
        r = (isSigned ? int32_t(v) < int32_t(r) : v < r) ? v : r;
        break;
      case rxMax:
        r = (isSigned ? int32_t(v) > int32_t(r) : v > r) ? v : r;
        break;
      case rxAnd:
        r &= v;
        break;
      case rxOr:
        r |= v;
        break;
      default:
        r ^= v;
      }
    });
  }
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned) { return r; });
}

Flow elect(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t members;
  if (!memberMask(x, i, i.src[0], mask, members))
    return Flow::Fail;
  Flow flow = gather(x, i, mask, members);
  if (flow != Flow::Next)
    return flow;
  uint32_t leader = lowestLane(mask);
  x.setMask(i.dst[1], 1u << leader, mask);
  return mapLanes<uint32_t>(x, i.dst[0], mask,
                            [&](unsigned) { return leader; });
}

Flow activeMask(Exec &x, const Instr &i, uint32_t mask) {
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned) { return mask; });
}

Flow warpSync(Exec &x, const Instr &i, uint32_t mask) {
  uint32_t members;
  if (!memberMask(x, i, i.src[0], mask, members))
    return Flow::Fail;
  Fragment &f = x.fragment();
  if (f.wait.kind == Wait::WarpSync && f.wait.released)
    return Flow::Next;
  uint32_t want = members & x.warp.live;
  if ((mask & want) == want)
    return Flow::Next;
  f.wait = Wait();
  f.wait.kind = Wait::WarpSync;
  f.wait.members = members;
  return Flow::Block;
}

/// `d` or `d|p`; the predicate goes to dst[1].
bool resultAndPredicate(Decoder &d, unsigned bits) {
  const ptx::Operand &o = d.op(0);
  if (o.kind == ptx::Operand::Pair)
    return d.dst(o.elems[0], bits, d.out->dst[0]) &&
           d.predDst(o.elems[1], d.out->dst[1]);
  d.out->dst[1] = d.scratch(1);
  return d.dst(o, bits, d.out->dst[0]);
}

} // namespace

bool decodeWarp(Decoder &d) {
  StringRef base = d.base();
  Instr &o = *d.out;
  o.unit = Unit::Warp;
  if (base == "shfl") {
    bool sync = d.take("sync");
    StringRef mode = d.takeAny({"up", "down", "bfly", "idx"});
    Type t = d.takeType();
    if (!sync || mode.empty() || t != Type::B32) {
      d.failForm();
      return true;
    }
    o.aux = mode == "up"     ? shUp
            : mode == "down" ? shDown
            : mode == "bfly" ? shBfly
                             : shIdx;
    o.fn = shfl;
    if (d.expectOps(5) && resultAndPredicate(d, 32))
      for (unsigned k = 0; k < 4; ++k)
        if (!d.src(d.op(k + 1), Type::B32, o.src[k]))
          return true;
    return true;
  }
  if (base == "vote") {
    bool sync = d.take("sync");
    StringRef mode = d.takeAny({"all", "any", "uni", "ballot"});
    Type t = d.takeType();
    bool ballot = mode == "ballot";
    if (!sync || mode.empty() || t != (ballot ? Type::B32 : Type::Pred)) {
      d.failForm();
      return true;
    }
    o.aux = mode == "all"   ? voteAll
            : mode == "any" ? voteAny
            : mode == "uni" ? voteUni
                            : voteBallot;
    o.fn = vote;
    bool negated = false;
    if (d.expectOps(3) && d.dst(d.op(0), ballot ? 32 : 1, o.dst[0]) &&
        d.predSrc(d.op(1), o.src[0], &negated))
      d.src(d.op(2), Type::B32, o.src[1]);
    o.imm = negated;
    return true;
  }
  if (base == "match") {
    StringRef mode = d.takeAny({"any", "all"});
    bool sync = d.take("sync");
    Type t = d.takeType();
    if (!sync || mode.empty() || (t != Type::B32 && t != Type::B64)) {
      d.failForm();
      return true;
    }
    o.aux = mode == "all";
    o.fn = t == Type::B32 ? matchAny<uint32_t> : matchAny<uint64_t>;
    if (d.expectOps(3) && resultAndPredicate(d, 32) &&
        d.src(d.op(1), t, o.src[0]))
      d.src(d.op(2), Type::B32, o.src[1]);
    return true;
  }
  if (base == "redux") {
    bool sync = d.take("sync");
    StringRef op = d.takeAny({"add", "min", "max", "and", "or", "xor"});
    o.imm = (d.take("abs") ? 1 : 0) | (d.take("NaN") ? 2 : 0);
    Type t = d.takeType();
    bool bitwise = op == "and" || op == "or" || op == "xor";
    bool minMax = op == "min" || op == "max";
    bool legal = bitwise          ? t == Type::B32
                 : t == Type::F32 ? minMax
                                  : t == Type::U32 || t == Type::S32;
    if (!sync || op.empty() || !legal || (o.imm && t != Type::F32)) {
      d.failForm();
      return true;
    }
    o.aux = op == "add"   ? rxAdd
            : op == "min" ? rxMin
            : op == "max" ? rxMax
            : op == "and" ? rxAnd
            : op == "or"  ? rxOr
                          : rxXor;
    o.type = t;
    o.fn = redux;
    if (d.expectOps(3) && d.dst(d.op(0), 32, o.dst[0]) &&
        d.src(d.op(1), t, o.src[0]))
      d.src(d.op(2), Type::B32, o.src[1]);
    return true;
  }
  if (base == "elect") {
    if (!d.take("sync")) {
      d.failForm();
      return true;
    }
    o.fn = elect;
    if (d.expectOps(2) && resultAndPredicate(d, 32))
      d.src(d.op(1), Type::B32, o.src[0]);
    return true;
  }
  if (base == "activemask") {
    if (d.takeType() != Type::B32) {
      d.failForm();
      return true;
    }
    o.fn = activeMask;
    if (d.expectOps(1))
      d.dst(d.op(0), 32, o.dst[0]);
    return true;
  }
  if (base == "bar" && d.take("warp")) {
    o.unit = Unit::Sync;
    if (!d.take("sync")) {
      d.failForm();
      return true;
    }
    o.fn = warpSync;
    if (d.expectOps(1))
      d.src(d.op(0), Type::B32, o.src[0]);
    return true;
  }
  o.unit = Unit::Alu;
  return false;
}

} // namespace sim
} // namespace flamia
