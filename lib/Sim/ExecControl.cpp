//===- ExecControl.cpp - Branches, exit, hints ----------------------------===//
//
// PTX ISA 9.7.12. Divergence: a fragment that branches both ways becomes two,
// which meet again at the branch's immediate post-dominator (Join).
//
//===----------------------------------------------------------------------===//

#include "ExecControl.h"
#include "Decoder.h"
#include "Lanes.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

int32_t freeJoin(Warp &w) {
  size_t slot = 0;
  while (slot < w.joins.size() && w.joins[slot].active)
    ++slot;
  if (slot == w.joins.size())
    w.joins.emplace_back();
  return int32_t(slot);
}

Flow splitFragment(Exec &x, const Instr &i,
                   llvm::ArrayRef<std::pair<uint32_t, uint32_t>> parts) {
  Warp &w = x.warp;
  Fragment f = x.fragment();
  int32_t join = f.join;
  uint32_t joinPc = f.joinPc;
  if (i.reconverge != noIndex && i.reconverge != f.joinPc) {
    uint32_t depth = join < 0 ? 0 : w.joins[join].depth;
    join = freeJoin(w);
    Join &j = w.joins[join];
    j = Join();
    j.pc = j.resume = i.reconverge;
    j.expected = f.mask;
    j.parent = f.join;
    j.active = true;
    j.depth = depth;
    joinPc = i.reconverge;
  }
  w.fragments.erase(w.fragments.begin() + x.fragmentIndex);
  for (auto [pc, mask] : parts) {
    Fragment part;
    part.pc = pc;
    part.mask = mask;
    part.join = join;
    part.joinPc = joinPc;
    w.fragments.push_back(part);
    x.cluster.park(w, w.fragments.size() - 1);
  }
  return Flow::Split;
}

Flow exitThread(Exec &x, const Instr &i, uint32_t mask) {
  Fragment &f = x.fragment();
  int32_t join = f.join;
  if (f.mask == mask) {
    x.warp.fragments.erase(x.warp.fragments.begin() + x.fragmentIndex);
  } else {
    f.mask &= ~mask;
    ++f.pc;
    x.cluster.park(x.warp, x.fragmentIndex);
  }
  x.cluster.exitLanes(x.warp, mask, join);
  ++x.cluster.effects;
  return Flow::Split;
}

namespace {

Flow branch(Exec &x, const Instr &i, uint32_t taken) {
  Fragment &f = x.fragment();
  uint32_t rest = f.mask & ~taken;
  if (rest == 0) {
    f.pc = i.target;
    return Flow::Jump;
  }
  // Deeper code first would starve nobody: all fragments get their turn.
  return splitFragment(x, i, {{i.target, taken}, {f.pc + 1, rest}});
}

Flow branchIndexed(Exec &x, const Instr &i, uint32_t mask) {
  Fragment &f = x.fragment();
  const std::vector<uint32_t> &table = x.kernel.branchTables[i.extra];
  const uint32_t *index = x.lanes<uint32_t>(i.src[0]);
  llvm::SmallVector<std::pair<uint32_t, uint32_t>, 4> parts;
  int bad = -1;
  forLanes(mask, [&](int l) {
    if (index[l] >= table.size()) {
      bad = bad < 0 ? l : bad;
      return;
    }
    uint32_t target = table[index[l]];
    for (auto &p : parts)
      if (p.first == target) {
        p.second |= 1u << l;
        return;
      }
    parts.push_back({target, 1u << l});
  });
  if (bad >= 0)
    return x.fail(i, bad,
                  "branch index " + llvm::Twine(index[bad]) +
                      " is outside the table of " + llvm::Twine(table.size()),
                  "bounds");
  if (uint32_t rest = f.mask & ~mask)
    parts.push_back({f.pc + 1, rest});
  if (parts.size() == 1) {
    f.pc = parts[0].first;
    return Flow::Jump;
  }
  return splitFragment(x, i, parts);
}

Flow trap(Exec &x, const Instr &i, uint32_t mask) {
  return x.fail(i, int(lowestLane(mask)), "trap");
}
Flow nothing(Exec &, const Instr &, uint32_t) { return Flow::Next; }
Flow pause(Exec &, const Instr &, uint32_t) { return Flow::Yield; }

/// The labels of a .branchtargets list, looked up through the scopes.
const std::vector<StringRef> *branchTable(Decoder &d, StringRef name) {
  for (unsigned s = d.in->scope;; s = d.fn->scopes[s].parent) {
    auto it = d.fn->scopes[s].branchTargets.find(name);
    if (it != d.fn->scopes[s].branchTargets.end())
      return &it->second;
    if (s == d.fn->scopes[s].parent)
      return nullptr;
  }
}

} // namespace

bool decodeControl(Decoder &d) {
  StringRef base = d.base();
  Instr &o = *d.out;
  o.unit = Unit::Control;
  if (base == "bra") {
    d.take("uni");
    o.fn = branch;
    o.flags |= flagBranch;
    if (!d.expectOps(1))
      return true;
    if (d.op(0).kind != ptx::Operand::Name) {
      d.fail("expected a label after 'bra'");
      return true;
    }
    d.label(d.op(0).name, o.target);
    return true;
  }
  if (base == "brx") {
    d.take("uni");
    if (!d.take("idx")) {
      d.failForm();
      return true;
    }
    if (!d.expectOps(2) || !d.src(d.op(0), Type::B32, o.src[0]))
      return true;
    const std::vector<StringRef> *names = branchTable(d, d.op(1).name);
    if (d.op(1).kind != ptx::Operand::Name || !names) {
      d.fail("unknown branch table '" + d.op(1).name + "'");
      return true;
    }
    std::vector<uint32_t> targets(names->size());
    for (size_t k = 0; k < targets.size(); ++k)
      if (!d.label((*names)[k], targets[k]))
        return true;
    o.fn = branchIndexed;
    o.flags |= flagBranch;
    o.extra = uint32_t(d.kernel->branchTables.size());
    d.kernel->branchTables.push_back(std::move(targets));
    return true;
  }
  if (base == "ret" || base == "exit") {
    d.take("uni");
    bool frames = base == "ret" && !d.kernel->callees.empty();
    o.fn = frames ? returnThread : exitThread;
    o.aux = 1; // Recognised by the control-flow analysis.
    d.expectOps(0);
    return true;
  }
  if (base == "trap" || base == "brkpt") {
    o.fn = trap;
    d.expectOps(0);
    return true;
  }
  if (base == "nanosleep") {
    d.takeType();
    o.fn = pause;
    if (d.expectOps(1))
      d.src(d.op(0), Type::U32, o.src[0]);
    return true;
  }
  if (base == "griddepcontrol") {
    // The grid runs alone: nothing to wait for, nobody to release.
    if (d.takeAny({"wait", "launch_dependents"}).empty())
      d.failForm();
    o.fn = nothing;
    d.expectOps(0);
    return true;
  }
  if (base == "pmevent") {
    d.take("mask");
    int64_t event;
    o.fn = nothing;
    if (d.expectOps(1))
      d.immediate(d.op(0), event, "the event");
    return true;
  }
  if (base == "prefetch" || base == "prefetchu" || base == "applypriority" ||
      base == "discard") {
    // Hints about caches.
    while (d.qualifierLeft())
      d.take(d.lastQualifier());
    o.unit = Unit::Memory;
    o.fn = nothing;
    bool wide;
    if (d.expectOps(1, 2))
      d.address(d.op(0), o.src[0], wide);
    return true;
  }
  o.unit = Unit::Alu;
  return false;
}

} // namespace sim
} // namespace flamia
