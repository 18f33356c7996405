//===- Report.cpp - Deadlock reports and statistics -----------------------===//

#include "Report.h"
#include "Hex.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

std::string sourceOf(const LaunchState &launch, const Instr &i) {
  const std::vector<ptx::SourceLoc> &locs = launch.kernel->locs;
  if (i.loc >= locs.size() || !locs[i.loc].line)
    return "";
  const ptx::SourceLoc &loc = locs[i.loc];
  std::string file = "file " + std::to_string(loc.file);
  for (const auto &f : launch.program->files)
    if (f.first == loc.file)
      file = f.second;
  return file + ":" + std::to_string(loc.line) + ":" +
         std::to_string(loc.column);
}

/// What a fragment waits for, in words.
static std::string describeWait(Cta &cta, const Fragment &f) {
  switch (f.wait.kind) {
  case Wait::None:
    return "";
  case Wait::NamedBarrier: {
    const NamedBarrier &b = cta.barriers[f.wait.id];
    uint32_t need = b.expected ? b.expected : cta.liveWarps * warpLanes;
    return "waits at barrier " + std::to_string(f.wait.id) + ": " +
           std::to_string(b.arrived) + " of " + std::to_string(need) +
           " threads have arrived";
  }
  case Wait::TryWait: {
    std::string text = "waits for parity " + std::to_string(f.wait.parity) +
                       " of the mbarrier at shared address " + hex(f.wait.id);
    if (Mbarrier *b = cta.findMbarrier(f.wait.id))
      text += ": " + b->describe();
    return text;
  }
  case Wait::WarpSync:
    return "waits for lanes " + hex(f.wait.members) + " of its warp";
  case Wait::ClusterBarrier:
    return "waits at the cluster barrier";
  case Wait::PairAlloc:
    return "waits for the other CTA of the pair to allocate tensor memory";
  case Wait::Registers:
    return "waits for " + std::to_string(f.wait.id) +
           " more registers a thread, the CTA's pool holds " +
           std::to_string(cta.registerPool) + " of one warp";
  case Wait::TmemAlloc:
    return "waits for " + std::to_string(f.wait.id) +
           " free columns of tensor memory, " +
           std::to_string(f.wait.generation) + " are allocated";
  }
  return "";
}

void Cluster::reportDeadlock(const char *why) {
  Diagnostic d;
  d.file = launch.program->fileName;
  d.message = std::string("no progress: ") + why;
  d.check = "deadlock";
  d.cta = ctas.front()->id;
  d.hasCta = true;
  const Kernel &kernel = *launch.kernel;
  for (auto &cta : ctas)
    for (auto &warp : cta->warps) {
      std::string where = "warp " + std::to_string(warp->index);
      if (ctas.size() > 1)
        where.insert(0, "cta rank " + std::to_string(cta->rank) + " ");
      for (const Fragment &f : warp->fragments) {
        const Instr &i = kernel.code[f.pc];
        if (!d.line) {
          d.line = i.line;
          d.warp = int(warp->index);
          d.lane = int(lowestLane(f.mask));
        }
        std::string note = where + " lanes " + hex(f.mask) + " at " + d.file +
                           ":" + std::to_string(i.line) + ": '" +
                           launch.program->opcodes[i.opcode] + "'";
        std::string source = sourceOf(launch, i);
        if (!source.empty())
          note += " (from " + source + ")";
        std::string wait = describeWait(*cta, f);
        if (!wait.empty())
          note += " " + wait;
        d.notes.push_back(std::move(note));
      }
      for (const Join &j : warp->joins)
        if (j.active && j.arrived)
          d.notes.push_back(where + " lanes " + hex(j.arrived) +
                            " wait for the rest of the warp before line " +
                            std::to_string(kernel.code[j.resume].line));
    }
  errors.push_back(std::move(d));
}

void Cluster::reportLimit() {
  Diagnostic d;
  d.file = launch.program->fileName;
  d.message = "stopped after " +
              std::to_string(launch.options->instructionLimit) +
              " warp instructions";
  d.cta = ctas.front()->id;
  d.hasCta = true;
  errors.push_back(std::move(d));
}

static const char *const byteNames[] = {
    "global.load",   "global.store", "shared.load", "shared.store",
    "local.load",    "local.store",  "param.load",  "global.atomic",
    "shared.atomic", "cp_async",     "bulk.load",   "bulk.store",
    "tma.load",      "tma.store",    "tmem.load",   "tmem.store",
    "tmem.copy"};

void Cluster::addStats(SimStats &stats) const {
  const Kernel &kernel = *launch.kernel;
  stats.ctas += ctas.size();
  stats.macs += macs;
  for (size_t k = 0; k < executed.size(); ++k)
    stats.instructions += executed[k];
  stats.maxMmaInFlight = std::max(stats.maxMmaInFlight, maxMma);
  stats.maxTmaLoadsInFlight = std::max(stats.maxTmaLoadsInFlight, maxTma);
  stats.maxTmaStagesInFlight = std::max(stats.maxTmaStagesInFlight, maxStages);
  if (!launch.options->stats)
    return;
  std::map<uint32_t, uint64_t> opcodes;
  for (size_t k = 0; k < executed.size(); ++k) {
    if (!executed[k])
      continue;
    opcodes[kernel.code[k].opcode] += executed[k];
    stats.byUnit[nameOfUnit(kernel.code[k].unit)] += executed[k];
  }
  for (auto [opcode, n] : opcodes)
    stats.byOpcode[launch.program->opcodes[opcode]] += n;
  stats.byWarp.resize(
      std::max<size_t>(stats.byWarp.size(), launch.warpsPerCta));
  for (const auto &cta : ctas)
    for (const auto &warp : cta->warps)
      for (unsigned u = 0; u <= unsigned(Unit::Tmem); ++u)
        if (warp->byUnit[u])
          stats.byWarp[warp->index][nameOfUnit(Unit(u))] += warp->byUnit[u];
  for (unsigned k = 0; k < unsigned(Bytes::Count); ++k)
    if (bytes[k])
      stats.bytes[byteNames[k]] += bytes[k];
  for (const auto &m : mmaCounts)
    stats.mma[m.first] += m.second;
  if (stats.mmaOrder.empty())
    stats.mmaOrder = mmaOrder;
}

void SimStats::add(const SimStats &other) {
  ctas += other.ctas;
  instructions += other.instructions;
  macs += other.macs;
  for (const auto &e : other.byOpcode)
    byOpcode[e.first] += e.second;
  for (const auto &e : other.byUnit)
    byUnit[e.first] += e.second;
  byWarp.resize(std::max(byWarp.size(), other.byWarp.size()));
  for (size_t w = 0; w < other.byWarp.size(); ++w)
    for (const auto &e : other.byWarp[w])
      byWarp[w][e.first] += e.second;
  for (const auto &e : other.bytes)
    bytes[e.first] += e.second;
  for (const auto &e : other.mma)
    mma[e.first] += e.second;
  if (mmaOrder.empty())
    mmaOrder = other.mmaOrder;
  maxMmaInFlight = std::max(maxMmaInFlight, other.maxMmaInFlight);
  maxTmaLoadsInFlight =
      std::max(maxTmaLoadsInFlight, other.maxTmaLoadsInFlight);
  maxTmaStagesInFlight =
      std::max(maxTmaStagesInFlight, other.maxTmaStagesInFlight);
  seconds += other.seconds;
}

} // namespace sim
} // namespace flamia
