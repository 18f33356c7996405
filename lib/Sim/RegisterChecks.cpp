//===- RegisterChecks.cpp - Which register values are defined -------------===//
//
// Every register has a mask of the lanes in which it is defined (two for 64-bit
// registers, one a half), and a mask of lanes with a tcgen05.ld under way.
//
//===----------------------------------------------------------------------===//

#include "RegisterChecks.h"
#include "ExecAsync.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

/// A register operand that may not be read, as an error.
bool reportUnready(Exec &x, const Instr &i, uint32_t reg, uint32_t mask) {
  const std::string &name = x.kernel.regNames[reg];
  uint32_t pending = x.warp.pending[reg] & mask;
  if (pending && x.check(Check::TmemWait)) {
    x.fail(
        i, int(lowestLane(pending)),
        "register '" + name +
            "' is used before tcgen05.wait::ld of the tcgen05.ld that loads it",
        "tmem-wait");
    return true;
  }
  uint32_t undefined = mask & ~readyLanes(x.warp, reg);
  if (undefined && x.check(Check::Uninit)) {
    auto from = x.warp.undefinedFrom.find(reg);
    x.fail(i, int(lowestLane(undefined)),
           from == x.warp.undefinedFrom.end()
               ? "register '" + name + "' is read before it is written"
               : "register '" + name + "' is computed from '" +
                     x.kernel.regNames[from->second] +
                     "', which is read before it is written",
           "uninit");
    return true;
  }
  return false;
}

/// Checks the sources of an instruction; false when an error was reported.
bool checkUses(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *list = x.kernel.regLists.data() + i.useBegin;
  Warp &w = x.warp;
  bool copies = i.flags & flagCopiesUndef;
  for (uint32_t k = 0; k < i.useCount; ++k) {
    uint32_t reg = list[k];
    uint32_t bad = copies ? w.pending[reg] & mask
                          : mask & (~readyLanes(w, reg) | w.pending[reg]);
    if (!bad)
      continue;
    if (reportUnready(x, i, reg, bad))
      return false;
    // Unchecked, hardware waits for the register.
    if (w.pending[reg] & mask && !finishTmemOps(x.cluster, w, true, false))
      return false;
  }
  if (!w.anyPending)
    return true;
  // A register that a load under way will overwrite must not be written.
  const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
  for (uint32_t k = 0; k < i.defCount; ++k)
    if (uint32_t bad = w.pending[defs[k]] & mask)
      if (x.check(Check::TmemWait)) {
        x.fail(
            i, int(lowestLane(bad)),
            "register '" + x.kernel.regNames[defs[k]] +
                "' is written before tcgen05.wait::ld of the tcgen05.ld that "
                "loads it",
            "tmem-wait");
        return false;
      }
  return true;
}

/// Passes definedness on from the sources of a copy.
static void copyDefs(Exec &x, const Instr &i, uint32_t mask) {
  Warp &w = x.warp;
  const uint32_t *uses = x.kernel.regLists.data() + i.useBegin;
  const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
  auto set = [&](uint32_t reg, unsigned half, uint32_t defined) {
    uint32_t &r = w.ready[2 * reg + half];
    r = (r & ~mask) | (defined & mask);
  };
  auto get = [&](uint32_t reg) {
    return reg == noIndex ? allLanes : w.ready[2 * reg];
  };
  switch (i.copies) {
  case Copies::PackPair: {
    uint32_t lo = get(i.target), hi = get(i.reconverge);
    if (i.defCount) {
      set(defs[0], 0, lo);
      set(defs[0], 1, hi);
    }
    return;
  }
  case Copies::UnpackPair: {
    uint32_t lo = i.useCount ? w.ready[2 * uses[0]] : allLanes;
    uint32_t hi = i.useCount ? w.ready[2 * uses[0] + 1] : allLanes;
    if (i.target != noIndex)
      set(i.target, 0, lo);
    if (i.reconverge != noIndex)
      set(i.reconverge, 0, hi);
    return;
  }
  case Copies::Halves: {
    uint32_t lo = allLanes, hi = allLanes;
    for (uint32_t k = 0; k < i.useCount; ++k) {
      lo &= w.ready[2 * uses[k]];
      hi &= w.ready[2 * uses[k] + 1];
    }
    if (i.defCount) {
      set(defs[0], 0, lo);
      set(defs[0], 1, hi);
    }
    return;
  }
  case Copies::All: {
    uint32_t all = allLanes;
    for (uint32_t k = 0; k < i.useCount; ++k)
      all &= readyLanes(w, uses[k]);
    for (uint32_t k = 0; k < i.defCount; ++k) {
      set(defs[k], 0, all);
      if (!x.kernel.initialReady[2 * defs[k] + 1])
        set(defs[k], 1, all);
      // For the message, remember where it began.
      if (mask & ~all)
        for (uint32_t u = 0; u < i.useCount; ++u)
          if (mask & ~readyLanes(w, uses[u])) {
            auto from = w.undefinedFrom.find(uses[u]);
            w.undefinedFrom[defs[k]] =
                from == w.undefinedFrom.end() ? uses[u] : from->second;
          }
    }
    return;
  }
  case Copies::Any: {
    uint32_t any = i.useCount ? 0 : allLanes;
    for (uint32_t k = 0; k < i.useCount; ++k)
      any |= readyLanes(w, uses[k]);
    for (uint32_t k = 0; k < i.defCount; ++k) {
      set(defs[k], 0, any);
      if (!x.kernel.initialReady[2 * defs[k] + 1])
        set(defs[k], 1, any);
    }
    return;
  }
  }
}

/// Marks the destinations defined.
void markDefs(Exec &x, const Instr &i, uint32_t mask) {
  if (i.flags & flagCopiesUndef)
    return copyDefs(x, i, mask);
  const uint32_t *defs = x.kernel.regLists.data() + i.defBegin;
  for (uint32_t k = 0; k < i.defCount; ++k) {
    x.warp.ready[2 * defs[k]] |= mask;
    x.warp.ready[2 * defs[k] + 1] |= mask;
  }
}

} // namespace sim
} // namespace flamia
