//===- HazardAccess.cpp - Conflicts between accesses ----------------------===//

#include "Hazard.h"
#include "Hex.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::Twine;

std::string Hazards::name(uint32_t instr) const {
  const Instr &i = cluster.launch.kernel->code[instr];
  llvm::StringRef opcode = cluster.launch.program->opcodes[i.opcode];
  // Enough to recognise it: tcgen05.mma, cp.async.bulk.tensor.
  size_t end = 0;
  unsigned parts = opcode.starts_with("cp.") ? 4 : 2;
  while (parts-- && end != llvm::StringRef::npos)
    end = opcode.find('.', end + 1);
  return "'" + opcode.substr(0, end).str() + "' in line " +
         std::to_string(i.line);
}

bool Hazards::fail(Access &a, const AccessRecord &r, const char *check,
                   const Twine &message) {
  a.x.fail(a.i, a.lane, message, check);
  cluster.errors.back().notes.push_back(
      "earlier access: " + name(r.instr) + ", issued by warp " +
      std::to_string(r.warp % warpsPerCta) + " of CTA " +
      std::to_string(r.warp / warpsPerCta));
  return false;
}

/// True when PTX orders an operation after an earlier one of the same pipe
/// (facts/tcgen05.md 7.4; PTX ISA 9.7.16.6.2).
bool Hazards::promised(const Access &a, const AccessRecord &r) const {
  const PipeOp &now = a.pipe->ops[a.record.epoch - 1];
  const PipeOp &then = a.pipe->ops[r.epoch - 1];
  if (now.kind == AsyncOp::Mma) {
    if (then.kind != AsyncOp::Mma)
      return true;
    return now.d == then.d && now.shape == then.shape;
  }
  return then.kind == AsyncOp::TmemShift ||
         (then.kind == AsyncOp::Mma && now.kind == AsyncOp::TmemShift);
}

/// True when the access comes after the recorded one; else reports.
bool Hazards::ordered(Access &a, const AccessRecord &r, Cta &cta,
                      uint32_t place, bool inTmem) {
  const Clocks &k = a.known;
  bool samePipe = a.pipe && r.agent == a.record.agent;
  if (samePipe && !ptxOrder)
    return true;
  auto what = [&] {
    std::string w = inTmem ? "tensor memory column " +
                                 std::to_string(place & 511) + ", lanes " +
                                 std::to_string(place >> 9 << 5) + " to " +
                                 std::to_string((place >> 9 << 5) + 31) + ","
                           : "shared memory at address " + hex(place);
    if (&cta != &a.x.cta)
      w += " of CTA " + std::to_string(cta.rank);
    return w + (a.record.write ? " is written" : " is read");
  };
  std::string then = r.write ? "writes" : "reads";
  if (samePipe) {
    const Clock &known = state(a.x.warp).now.v;
    if (clockAt(known, r.agent) >= r.epoch || promised(a, r))
      return true;
    if (orderPairs.insert({r.instr, a.record.instr}).second) {
      fail(a, r, "ptx-order",
           what() + ", but only an in-order tensor pipe puts this after " +
               name(r.instr) + ", which " + then + " it");
      orderErrors.push_back(std::move(cluster.errors.back()));
      cluster.errors.pop_back();
    }
    return true;
  }
  auto reduces = [&](uint32_t instr) {
    const Instr &i = cluster.launch.kernel->code[instr];
    return (opcodes[i.opcode] & opReduce) != 0;
  };
  if (r.write && a.record.write && r.kind == AgentKind::Copy &&
      reduces(r.instr) && reduces(a.record.instr))
    return true;
  bool issued = r.warp == a.record.warp || clockAt(k.v, r.warp) >= r.issue;
  bool complete = clockAt(k.v, r.agent) >= r.epoch;
  switch (r.kind) {
  case AgentKind::Generic:
  case AgentKind::Atomic:
    if (!issued) {
      // Compilers let several warps store the same value.
      bool idle = r.write && a.record.write && !cluster.storeChanges &&
                  a.record.kind == AgentKind::Generic && !a.columns;
      if (!races || idle)
        return true;
      return fail(a, r, "race",
                  what() + ", but nothing orders this after " + name(r.instr) +
                      " (warp " + Twine(r.warp % warpsPerCta) + "), which " +
                      then + " it");
    }
    break;
  case AgentKind::Load:
  case AgentKind::Store: {
    bool load = r.kind == AgentKind::Load;
    if (r.agent == a.record.agent)
      return true; // Of the same kind by the same warp.
    if (r.kind == a.record.kind && r.instr == a.record.instr &&
        r.value == a.record.value)
      return true; // Two warps store the same values.
    if (!issued) {
      if (!races)
        return true;
      return fail(a, r, "race",
                  what() + ", but nothing orders this after " + name(r.instr) +
                      " (warp " + Twine(r.warp % warpsPerCta) + "), which " +
                      then + " it");
    }
    if (!complete) {
      if (!waits)
        return true;
      return fail(a, r, "tmem-wait",
                  what() + ", but " + name(r.instr) + ", which " + then +
                      " it, is not followed by tcgen05.wait::" +
                      (load ? "ld" : "st") + " before its warp signals");
    }
    break;
  }
  case AgentKind::LaneCopy:
  case AgentKind::Pipe:
  case AgentKind::Copy:
  case AgentKind::Reduction:
    if (!complete) {
      if (!races)
        return true;
      return fail(a, r, "race",
                  what() + " while " + name(r.instr) + " still " + then +
                      " it: nothing has waited for that");
    }
    break;
  }
  bool mine = r.kind == AgentKind::Generic || r.kind == AgentKind::Atomic;
  // alloc and dealloc are not asynchronous: fence::after is for what is.
  if (inTmem && fences && !mine && (!a.columns || a.release) &&
      clockAt(k.t, r.agent) < r.epoch) {
    bool arrived = clockAt(state(a.x.warp).after, r.agent) >= r.epoch;
    if (arrived && a.release)
      return true;
    return fail(a, r, "tcgen05-fence",
                what() + ", but " +
                    (arrived ? "tcgen05.fence::after_thread_sync is missing "
                               "between the synchronisation and this"
                             : "tcgen05.fence::before_thread_sync is missing "
                               "before the synchronisation") +
                    " that orders it after " + name(r.instr) + ", which " +
                    then + " it");
  }
  // Operands in shared memory: the instruction itself may move up.
  if (!inTmem && fences && a.pipe && r.warp != a.record.warp &&
      clockAt(a.pipe->entered, r.agent) < r.epoch)
    return fail(a, r, "tcgen05-fence",
                what() +
                    ", but tcgen05.fence::after_thread_sync is missing "
                    "between the synchronisation and this that orders it "
                    "after " +
                    name(r.instr) + ", which " + then + " it");
  bool asyncProxy =
      a.record.kind == AgentKind::Pipe || a.record.kind == AgentKind::Copy;
  // Unlike bulk copies, cp.async works in the generic proxy. Triton's mma reads
  // it without a fence.
  bool generic = mine || (r.kind == AgentKind::LaneCopy &&
                          a.record.kind == AgentKind::Copy);
  if (!inTmem && proxies && asyncProxy && !a.record.write && r.write &&
      generic && clockAt(k.a, r.agent) < r.epoch)
    return fail(a, r, "proxy-fence",
                what() +
                    " through the async proxy, but no fence.proxy.async "
                    "lies between this and " +
                    name(r.instr) + " (warp " + Twine(r.warp % warpsPerCta) +
                    "), which writes it");
  return true;
}

uint64_t Hazards::accessId(const Exec &x, const Instr &i) {
  if (!order)
    return 0;
  unsigned w = number(x.warp);
  return order->eventId(w, i.line, warps[w].accesses++);
}

void Hazards::recordAccess(const Access &a, uint64_t place, uint16_t mask,
                           bool inTmem) {
  const AccessRecord &n = a.record;
  OrderRecorder::Access now = {a.id,   n.epoch, n.issue, n.agent,
                               n.warp, mask,    n.write};
  order->access(place, now, a.i.line, [&](const OrderRecorder::Access &r) {
    unsigned known = 0;
    if (a.pipe && r.agent == n.agent)
      known |= 1;
    bool late = place & globalPlace && n.agent != n.warp;
    if ((r.warp == n.warp && !late) || clockAt(a.known.v, r.warp) >= r.issue)
      known |= 2;
    if (clockAt(a.known.v, r.agent) >= r.epoch)
      known |= 4;
    bool async = n.kind == AgentKind::Pipe || n.kind == AgentKind::Copy;
    if ((inTmem || async) &&
        clockAt(inTmem ? a.known.t : a.known.a, r.agent) >= r.epoch)
      known |= 8;
    if (!inTmem && a.pipe && clockAt(a.pipe->entered, r.agent) >= r.epoch)
      known |= 16;
    return known;
  });
}

bool Hazards::touch(Access &a, AccessCell &cell, uint16_t mask, Cta &cta,
                    uint32_t place, bool inTmem) {
  const AccessRecord &n = a.record;
  if (order)
    recordAccess(a,
                 uint64_t(cta.rank) << 33 | uint64_t(inTmem) << 32 |
                     (inTmem ? place : place / 16),
                 mask, inTmem);
  size_t kept = 0;
  bool merged = false;
  for (AccessRecord &r : cell) {
    bool same = r.agent == n.agent && r.write == n.write && r.kind == n.kind;
    if (same && r.epoch == n.epoch) {
      r.mask |= mask;
      r.instr = n.instr;
      merged = true;
    } else if (r.mask & mask) {
      bool conflict = (r.write || n.write) &&
                      !(r.kind == AgentKind::Atomic && n.kind == r.kind);
      if (conflict && !ordered(a, r, cta, place, inTmem))
        return false;
      // What the new access covers need not be kept: who comes after the new
      // one comes after the old one too. A read does not cover a write.
      if (conflict ? n.write : same)
        r.mask &= ~mask;
    }
    if (r.mask)
      cell[kept++] = r;
  }
  cell.resize(kept);
  if (!merged) {
    cell.push_back(n);
    cell.back().mask = mask;
  }
  return true;
}

bool Hazards::range(Access &a, Cta &cta, uint32_t address, uint32_t size,
                    bool write) {
  a.record.write = write;
  std::vector<AccessCell> &cells = ctas[cta.rank].shared;
  if (address < sharedBase)
    return true; // Out of bounds: reported where it is carried out.
  uint32_t at = address - sharedBase, end = at + size;
  while (at < end) {
    uint32_t granule = at / 16, from = at % 16,
             to = std::min(16u, end - granule * 16);
    if (granule >= cells.size())
      return true;
    auto mask = uint16_t(((1u << to) - 1) & ~((1u << from) - 1));
    if (!touch(a, cells[granule], mask, cta, at + sharedBase, false))
      return false;
    at = granule * 16 + to;
  }
  return true;
}

bool Hazards::cells(Access &a, Cta &cta, const TmemRange &r, bool write) {
  a.record.write = write;
  std::vector<AccessCell> &cells = ctas[cta.rank].tmem;
  if (cells.empty())
    return true;
  // Some shapes access 16 lanes: one bit for each half of a quarter.
  unsigned end = std::min(r.lane + r.lanes, 128);
  for (unsigned q = r.lane / 32; q * 32 < end; ++q) {
    uint16_t mask = 0;
    for (unsigned half = 0; half < 2; ++half) {
      unsigned first = q * 32 + half * 16;
      if (r.lane < first + 16 && end > first)
        mask |= 1u << half;
    }
    for (unsigned c = r.column; c < unsigned(r.column + r.columns); ++c)
      if (!touch(a, cells[q << 9 | (c & 511)], mask, cta, q << 9 | (c & 511),
                 true))
        return false;
  }
  return true;
}

bool Hazards::footprint(Access &a, Cta &cta, const Footprint &f) {
  for (const ByteRange &r : f.smemRead)
    if (!range(a, cta, r.begin, r.size, false))
      return false;
  for (const TmemRange &r : f.tmemRead)
    if (!cells(a, cta, r, false))
      return false;
  for (const TmemRange &r : f.tmemWrite)
    if (!cells(a, cta, r, true))
      return false;
  return true;
}

bool Hazards::shared(Exec &x, const Instr &i, Cta &cta, uint32_t address,
                     uint32_t size, bool write, int lane) {
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  bool atomic = opcodes[i.opcode] & opAtomic;
  Clocks *through = nullptr;
  if (atomic) {
    // Strong accesses synchronise through the word that they share.
    through = &atomics[uint64_t(cta.rank) << 32 | address];
    acquire(s, *through);
  }
  Access a = {x,
              i,
              lane,
              {index(i), s.now.v[w], s.now.v[w], uint16_t(w), uint16_t(w), 0,
               atomic ? AgentKind::Atomic : AgentKind::Generic, false, 0},
              s.now};
  a.id = accessId(x, i);
  if (!range(a, cta, address, size, write))
    return false;
  if (atomic && write)
    through->join(release(x.warp));
  return true;
}

bool Hazards::tmemAccess(Exec &x, const Instr &i, const TmemAccess &access,
                         bool load, llvm::ArrayRef<uint32_t> data) {
  IssueList issues;
  std::vector<TmemRange> ranges;
  if (!Tmem::footprint(access, x.warp.index % 4, ranges, issues))
    return true; // Reported by the access itself.
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  uint32_t epoch = load ? ++s.loads : ++s.stores;
  Access a = {x,
              i,
              -1,
              {index(i), epoch, s.now.v[w],
               uint16_t(load ? loadAgent(w) : storeAgent(w)), uint16_t(w), 0,
               load ? AgentKind::Load : AgentKind::Store, false, 0},
              s.now};
  a.id = accessId(x, i);
  a.record.value = uint32_t(llvm::hash_combine_range(data.begin(), data.end()) ^
                            access.address);
  for (const TmemRange &r : ranges)
    if (!cells(a, x.cta, r, !load))
      return false;
  return true;
}

bool Hazards::tmemColumns(Exec &x, const Instr &i, uint32_t address,
                          uint32_t columns, bool release) {
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  Access a = {x,
              i,
              -1,
              {index(i), s.now.v[w], s.now.v[w], uint16_t(w), uint16_t(w), 0,
               AgentKind::Generic, false, 0},
              s.now};
  a.id = accessId(x, i);
  a.columns = true;
  a.release = release;
  return cells(a, x.cta,
               {0, 128, uint16_t(address & 0xFFFF), uint16_t(columns)}, true);
}

bool Hazards::laneCopy(Exec &x, const Instr &i, uint32_t address, uint32_t size,
                       uint64_t source, uint32_t sourceBytes, int lane) {
  WarpState &s = state(x.warp);
  unsigned w = number(x.warp);
  Access a = {x,
              i,
              lane,
              {index(i), ++s.copies, s.now.v[w], uint16_t(copyAgent(w)),
               uint16_t(w), 0, AgentKind::LaneCopy, false, 0},
              s.now};
  a.id = accessId(x, i);
  if (sourceBytes && races) {
    DeviceMemory::Region *r = cluster.lastRegion;
    if (!r || source - r->address >= r->bytes)
      r = cluster.lastRegion = cluster.launch.memory->find(source);
    if (r && r->access != BufferAccess::Read &&
        !globalTouch(a, *r, source, sourceBytes))
      return false;
  }
  return range(a, x.cta, address, size, true);
}

} // namespace sim
} // namespace flamia
