//===- ExecAsyncStore.cpp - st.async, red.async, st.bulk ------------------===//
//
// PTX ISA 9.7.9.13 (st.async), 9.7.9.14 (st.bulk), 9.7.13.8 (red.async): stores
// and reductions to shared memory of the cluster that signal an mbarrier beside
// their target when they are complete, and a fill with zeros.
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
using llvm::Twine;

namespace {

Flow asyncStore(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  unsigned size = i.bytes, total = size * i.vecCount;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(c.to, l);
    AsyncOp op;
    op.kind = AsyncOp::RemoteStore;
    op.instr = &i;
    op.cta = x.cta.rank;
    op.warp = x.warp.index;
    op.lane = l;
    op.bytes = total;
    uint32_t offset;
    if (!x.resolve(i, spaceSharedCluster, address, total, Exec::Store, l))
      return Flow::Fail;
    Cta *target = x.sharedTarget(i, address, offset, l);
    if (!target)
      return Flow::Fail;
    op.shared = {target->rank, offset};
    uint64_t barrier = x.addressOf(c.barrier, l);
    Mbarrier *b = mbarrierAt(x, i, barrier, l, false);
    if (!b)
      return Flow::Fail;
    Cta *signalled = x.sharedTarget(i, barrier, offset, l);
    if (signalled != target && x.check(Check::Barrier))
      return x.fail(i, l,
                    "the mbarrier lies in CTA " + Twine(signalled->rank) +
                        " of the cluster, the target in CTA " +
                        Twine(target->rank),
                    "barrier");
    op.barrier = {signalled->rank, b->address};
    op.data.resize(total);
    for (unsigned k = 0; k < i.vecCount; ++k)
      std::memcpy(op.data.data() + k * size,
                  x.at(x.vec(i, k)) + size_t(l) * size, size);
    if (!submit(x, std::move(op)))
      return Flow::Fail;
  }
  return Flow::Next;
}

/// Zeros; the size is a multiple of 8.
Flow bulkFill(Exec &x, const Instr &i, uint32_t mask) {
  const uint64_t *size = x.lanes<uint64_t>(i.src[1]);
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & 1, l);
    if (size[l] % 8 || size[l] > 16777216)
      return x.fail(i, l,
                    "size " + Twine(size[l]) +
                        " is no multiple of 8 up to 16777216",
                    "alignment");
    uint8_t space = spaceShared;
    // A generic address must lie in shared memory, too.
    for (uint64_t k = 0; k < size[l]; k += 8) {
      uint64_t at = address + k;
      if (i.space == spaceGeneric) {
        if (at < sharedWindow || at - sharedWindow >= windowSize)
          return x.fail(i, l,
                        "generic address of st.bulk is not in shared "
                        "memory",
                        "bounds");
        at -= sharedWindow;
      }
      uint8_t *to = x.resolve(i, space, at, 8, Exec::Store, l);
      if (!to || !x.markDefined(i, space, at, 8, l))
        return Flow::Fail;
      std::memset(to, 0, 8);
    }
  }
  return Flow::Next;
}

CopyInfo &newInfo(Decoder &d) {
  d.out->extra = uint32_t(d.kernel->copies.size());
  d.kernel->copies.emplace_back();
  return d.kernel->copies.back();
}

bool reduction(Decoder &d, CopyInfo &c, Type t) {
  static const std::pair<const char *, TmaReduce> ops[] = {
      {"add", TmaReduce::Add}, {"min", TmaReduce::Min}, {"max", TmaReduce::Max},
      {"inc", TmaReduce::Inc}, {"dec", TmaReduce::Dec}, {"and", TmaReduce::And},
      {"or", TmaReduce::Or},   {"xor", TmaReduce::Xor}};
  bool found = false;
  for (auto [name, op] : ops)
    if (!found && d.take(name)) {
      c.op = op;
      found = true;
    }
  c.reduce = true;
  c.type = t == Type::S32                     ? TmaType::S32
           : t == Type::U64 || t == Type::S64 ? TmaType::U64 // Sums only.
                                              : TmaType::U32;
  bool bitwise =
      c.op == TmaReduce::And || c.op == TmaReduce::Or || c.op == TmaReduce::Xor;
  bool counts = c.op == TmaReduce::Inc || c.op == TmaReduce::Dec;
  bool wide = t == Type::U64 || t == Type::S64;
  return found && (bitwise  ? t == Type::B32
                   : counts ? t == Type::U32
                   : wide   ? c.op == TmaReduce::Add
                            : t == Type::U32 || t == Type::S32);
}

bool decodeAsync(Decoder &d, bool isRed) {
  Instr &o = *d.out;
  if (d.take("mmio")) {
    d.fail("stores to memory-mapped devices are not simulated: '" +
           d.in->opcode + "'");
    return true;
  }
  bool form =
      isRed ? d.take("relaxed") && d.take("cluster") : d.take("weak") || true;
  form = form && d.take("shared::cluster") &&
         d.take("mbarrier::complete_tx::bytes");
  StringRef vector = isRed ? StringRef() : d.takeAny({"v2", "v4"});
  unsigned count = vector.empty() ? 1 : unsigned(vector[1] - '0');
  Type t;
  if (!d.needType(t))
    return true;
  CopyInfo &c = newInfo(d);
  unsigned bits = bitsOfType(t);
  form = form && (bits == 32 || bits == 64) && count * bits <= 128 &&
         t != Type::F16x2 && t != Type::BF16x2 && t != Type::F32x2;
  if (!form || (isRed && !reduction(d, c, t))) {
    d.failForm();
    return true;
  }
  o.fn = asyncStore;
  o.flags |= flagEffect;
  o.unit = Unit::Copy;
  o.bytes = uint8_t(bits / 8);
  if (!d.expectOps(3) || !d.address(d.op(0), c.to) ||
      !d.address(d.op(2), c.barrier))
    return true;
  size_t have = d.op(1).kind == ptx::Operand::Vector ? d.op(1).elems.size() : 1;
  if (have != count) {
    d.fail("expected " + Twine(count) + " registers in '" + d.in->opcode +
           "', but got " + Twine(have));
    return true;
  }
  d.vectorSrc(d.op(1), t);
  return true;
}

} // namespace

bool runRemoteStore(Exec &x, AsyncOp &op) {
  const Instr &i = *op.instr;
  const CopyInfo &c = x.kernel.copies[i.extra];
  Cta &cta = *x.cluster.ctas[op.shared.cta];
  uint64_t at = op.shared.address - sharedBase;
  uint8_t *shadow = cta.shadow.data() + at;
  for (uint32_t k = 0; k < op.bytes; ++k) {
    if (shadow[k] & shadowMbarrier && x.check(Check::Barrier)) {
      x.fail(i, op.lane, "the target of the store is an mbarrier", "barrier");
      return false;
    }
    if (c.reduce && !shadow[k] && x.check(Check::Uninit)) {
      x.fail(i, op.lane, "reduction of undefined shared memory", "uninit");
      return false;
    }
    shadow[k] |= shadowDefined;
  }
  if (c.reduce) {
    IssueList issues;
    bool done = reduceElements(c.type, c.op, cta.shared.data() + at,
                               op.data.data(), op.bytes, issues);
    if (x.report(i, op.lane, issues, done))
      return false;
  } else {
    std::memcpy(cta.shared.data() + at, op.data.data(), op.bytes);
  }
  return true;
}

bool decodeAsyncStore(Decoder &d) {
  StringRef base = d.base();
  if (base != "st" && base != "red")
    return false;
  if (d.take("async"))
    return decodeAsync(d, base == "red");
  if (base != "st" || !d.take("bulk"))
    return false;
  Instr &o = *d.out;
  d.take("weak");
  o.space = d.take("shared::cta") ? spaceShared : spaceGeneric;
  o.fn = bulkFill;
  o.flags |= flagEffect;
  o.unit = Unit::Shared;
  bool wide = false;
  int64_t value;
  if (!d.expectOps(3) || !d.address(d.op(0), o.src[0], wide) ||
      !d.src(d.op(1), Type::U64, o.src[1]) ||
      !d.immediate(d.op(2), value, "the initial value"))
    return true;
  o.aux = wide;
  if (value != 0)
    d.fail("expected an initial value of 0 in '" + d.in->opcode +
           "', but got " + Twine(value));
  return true;
}

} // namespace sim
} // namespace flamia
