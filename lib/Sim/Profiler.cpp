//===- Profiler.cpp - Records what the warps of a cluster do --------------===//

#include "Profiler.h"

#include "flamia/Sim/Units/Mma.h"

#include "llvm/ADT/SmallVector.h"

namespace flamia {
namespace sim {

using Event = Profile::Event;

Profiler::Profiler(const Cluster &cluster, Profile &profile)
    : profile(profile), firstCta(profile.ctas.size()) {
  const Kernel &kernel = *cluster.launch.kernel;
  if (profile.code.empty()) {
    for (const Instr &i : kernel.code)
      profile.code.push_back(
          {i.line, cluster.launch.program->opcodes[i.opcode], 0});
    profile.executed.assign(cluster.launch.warpsPerCta,
                            std::vector<uint64_t>(kernel.code.size(), 0));
  }
  for (const auto &cta : cluster.ctas) {
    Profile::Cta record;
    record.id = cta->id;
    record.rank = cta->rank;
    record.warps.resize(cta->warps.size());
    profile.ctas.push_back(std::move(record));
  }
  for (size_t k = 0; k < profile.ctas.size(); ++k) {
    std::vector<Path> warps;
    for (auto &events : profile.ctas[k].warps) {
      warps.push_back({&events, false});
      count += events.size();
    }
    if (k >= firstCta)
      paths.push_back(std::move(warps));
  }
}

void Profiler::add(Path &path, const Event &event) {
  path.running = false;
  if (count >= Profile::limit) {
    profile.truncated = true;
    // The last event stays what it is, so that runs still find an end.
    if (path.events->empty())
      path.events->push_back(event);
    return;
  }
  ++count;
  path.events->push_back(event);
}

/// Whether neighbours (lanes l and l ^ 1, or else l and l ^ 2) all read the
/// same address, so that the memory serves two groups of lanes at a time.
/// Measured on an H200 (bench/h200/README.md): broadcasts of 4, 8 and 16 bytes
/// take 1, 1 and 2 cycles a warp, as do 16 bytes read by pairs of lanes or by
/// quarters of a warp; products that read shared memory lose as many.
static bool neighboursAgree(const uint64_t *address, uint32_t mask) {
  for (int distance : {1, 2}) {
    bool agree = true;
    forLanes(mask, [&](int l) {
      agree &=
          mask >> (l ^ distance) & 1 && address[l] == address[l ^ distance];
    });
    if (agree)
      return true;
  }
  return false;
}

void Profiler::shared(const Warp &warp, const Instr &i, const uint64_t *address,
                      uint32_t mask, unsigned bytes, bool isLoad) {
  const Kernel &kernel = *warp.cta->cluster->launch.kernel;
  uint64_t &passes = profile.code[size_t(&i - kernel.code.data())].sharedPasses;
  // 8 bytes a lane are fetched for half a warp at a time, 16 for a quarter.
  int lanes = bytes >= 16 ? 8 : bytes >= 8 ? 16 : 32;
  if (lanes < 32 && isLoad && neighboursAgree(address, mask))
    lanes *= 2;
  for (int first = 0; first < 32; first += lanes) {
    llvm::SmallVector<uint32_t, 128> words;
    forLanes(mask & uint32_t(((uint64_t(1) << lanes) - 1) << first),
             [&](int l) {
               uint32_t word = uint32_t(address[l]) & ~3u;
               for (; word < uint32_t(address[l]) + bytes; word += 4)
                 words.push_back(word);
             });
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    uint32_t banks[32] = {};
    for (uint32_t w : words)
      ++banks[w / 4 % 32];
    passes += *std::max_element(banks, banks + 32);
  }
}

void Profiler::arrive(const Warp &warp, const Mbarrier &b, const Cta &cta) {
  Event event = {Event::Arrive, name(b, cta.rank), b.phase, 0};
  // Lanes of one instruction arrive together.
  Path &path = paths[warp.cta->rank][warp.index];
  if (!path.events->empty()) {
    const Event &last = path.events->back();
    if (last.kind == Event::Arrive && last.a == event.a && last.b == event.b)
      return;
  }
  add(path, event);
}

void Profiler::waited(const Warp &warp, const Mbarrier &b) {
  // A wait for the phase before the first is over at once.
  if (b.phase == 0)
    return;
  Event event = {Event::Wait, name(b, warp.cta->rank), b.phase - 1, 0};
  Path &path = paths[warp.cta->rank][warp.index];
  if (!path.events->empty()) {
    const Event &last = path.events->back();
    if (last.kind == Event::Wait && last.a == event.a && last.b == event.b)
      return;
  }
  add(path, event);
}

void Profiler::issue(const AsyncOp &op) {
  Path &path = paths[op.cta][op.warp];
  if (op.kind == AsyncOp::Mma) {
    const InstrDescriptor &d = op.mma->idesc;
    Profile::MmaShape shape;
    shape.kind = toString(d.kind);
    shape.m = d.m;
    shape.n = d.n;
    shape.k = d.k;
    shape.ctaGroup = op.mma->instr.ctaGroup;
    shape.aInTmem = op.mma->instr.aInTmem;
    auto it = std::find(profile.shapes.begin(), profile.shapes.end(), shape);
    uint32_t at = uint32_t(it - profile.shapes.begin());
    if (it == profile.shapes.end())
      profile.shapes.push_back(shape);
    add(path, {Event::Mma, at, 0, 0});
  } else if (op.kind == AsyncOp::TmemCopy || op.kind == AsyncOp::TmemShift) {
    uint32_t bytes = 0;
    if (op.cp)
      for (const ByteRange &r : op.cp->footprint.smemRead)
        bytes += r.size;
    add(path, {Event::TmemCopy, 0, 0, bytes});
  } else if (op.isStore()) {
    add(path, {Event::Store, 0, 0, op.bytes});
  }
}

void Profiler::signal(const AsyncOp &op, const Mbarrier &b, const Cta &cta,
                      uint32_t bytes) {
  add(paths[op.cta][op.warp],
      {op.kind == AsyncOp::Commit ? Event::Commit : Event::Load,
       name(b, cta.rank), b.phase, bytes});
}

void Profiler::tmemAccess(const Warp &warp, bool load, unsigned registers) {
  add(warp, {load ? Event::TmemLoad : Event::TmemStore, 0, 0, registers * 128});
}

void Profiler::tmemWait(const Warp &warp, bool loads) {
  add(warp, {Event::TmemWait, loads, 0, 0});
}

void Profiler::named(const Warp &warp, bool wait, uint32_t id,
                     uint64_t generation) {
  add(warp, {wait ? Event::NamedWait : Event::NamedArrive, id,
             uint32_t(generation), 0});
}

} // namespace sim
} // namespace flamia
