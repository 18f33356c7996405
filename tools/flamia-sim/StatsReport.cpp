//===- StatsReport.cpp - Statistics as text and JSON ----------------------===//

#include "StatsReport.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace llvm;
using namespace flamia;
using namespace flamia::simtool;

/// Entries by falling count, then by name.
static std::vector<std::pair<std::string, uint64_t>>
sorted(const std::map<std::string, uint64_t> &map) {
  std::vector<std::pair<std::string, uint64_t>> list(map.begin(), map.end());
  std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return list;
}

void flamia::simtool::printStats(raw_ostream &os, const sim::SimStats &stats) {
  os << formatv("ctas: {0}\nwarp instructions: {1}\n", stats.ctas,
                stats.instructions);
  os << formatv(
      "time: {0:f3} s ({1:f1} M warp instructions/s)\n", stats.seconds,
      stats.seconds > 0 ? double(stats.instructions) / stats.seconds * 1e-6
                        : 0.0);
  os << "instructions by unit:\n";
  for (const auto &[name, count] : sorted(stats.byUnit))
    os << formatv("  {0,-10} {1,12}\n", name, count);
  os << "instructions by warp of a cta:\n";
  for (size_t w = 0; w < stats.byWarp.size(); ++w) {
    os << formatv("  {0,2}", w);
    const char *comma = " ";
    for (const auto &[name, count] : sorted(stats.byWarp[w])) {
      os << comma << name << " " << count;
      comma = ", ";
    }
    os << "\n";
  }
  os << "bytes:\n";
  for (const auto &[name, count] : sorted(stats.bytes))
    os << formatv("  {0,-14} {1,14}\n", name, count);
  if (!stats.mma.empty()) {
    os << "mma:\n";
    for (const auto &[name, count] : sorted(stats.mma))
      os << formatv("  {0,-24} {1,10}\n", name, count);
    os << formatv("  multiply-adds: {0}\n", stats.macs);
  }
  os << formatv("in flight at most: {0} mma, {1} tma loads in {2} stages\n",
                stats.maxMmaInFlight, stats.maxTmaLoadsInFlight,
                stats.maxTmaStagesInFlight);
  if (!stats.mmaOrder.empty()) {
    os << "mma order of the first cta:\n";
    for (const sim::MmaRecord &r : stats.mmaOrder)
      os << formatv("  line {0}: {1} {2}x{3}x{4} d={5} a={6}{7}\n", r.line,
                    r.kind, r.m, r.n, r.k, r.dColumn,
                    r.aFromTmem ? "tmem" : "smem",
                    r.accumulate ? " accumulate" : "");
  }
  os << "instructions by opcode:\n";
  for (const auto &[name, count] : sorted(stats.byOpcode))
    os << formatv("  {0,12} {1}\n", count, name);
}

static json::Object counts(const std::map<std::string, uint64_t> &map) {
  json::Object object;
  for (const auto &[name, count] : map)
    object[name] = int64_t(count);
  return object;
}

json::Object flamia::simtool::resultJson(const sim::LaunchResult &result,
                                         ArrayRef<Comparison> comparisons,
                                         bool pass) {
  json::Array errors, compared, order, warps;
  for (const auto &warp : result.stats.byWarp)
    warps.push_back(counts(warp));
  for (const sim::Diagnostic &d : result.errors) {
    json::Array notes;
    for (const std::string &note : d.notes)
      notes.push_back(note);
    json::Object error{{"file", d.file},       {"line", int64_t(d.line)},
                       {"message", d.message}, {"check", d.check},
                       {"source", d.source},   {"notes", std::move(notes)}};
    if (d.hasCta)
      error["cta"] =
          json::Array{int64_t(d.cta[0]), int64_t(d.cta[1]), int64_t(d.cta[2])};
    if (d.warp >= 0)
      error["warp"] = d.warp;
    if (d.lane >= 0)
      error["lane"] = d.lane;
    errors.push_back(std::move(error));
  }
  for (const Comparison &c : comparisons)
    compared.push_back(json::Object{{"output", c.output},
                                    {"rule", c.rule},
                                    {"value", c.value},
                                    {"limit", c.limit},
                                    {"ok", c.ok}});
  const sim::SimStats &s = result.stats;
  for (const sim::MmaRecord &r : s.mmaOrder)
    order.push_back(json::Object{{"line", int64_t(r.line)},
                                 {"kind", r.kind},
                                 {"m", int64_t(r.m)},
                                 {"n", int64_t(r.n)},
                                 {"k", int64_t(r.k)},
                                 {"d", int64_t(r.dColumn)},
                                 {"a_tmem", r.aFromTmem},
                                 {"accumulate", r.accumulate}});
  json::Object stats{
      {"ctas", int64_t(s.ctas)},
      {"instructions", int64_t(s.instructions)},
      {"by_opcode", counts(s.byOpcode)},
      {"by_unit", counts(s.byUnit)},
      {"by_warp", std::move(warps)},
      {"bytes", counts(s.bytes)},
      {"mma", counts(s.mma)},
      {"macs", int64_t(s.macs)},
      {"mma_order", std::move(order)},
      {"max_mma_in_flight", int64_t(s.maxMmaInFlight)},
      {"max_tma_loads_in_flight", int64_t(s.maxTmaLoadsInFlight)},
      {"max_tma_stages_in_flight", int64_t(s.maxTmaStagesInFlight)},
      {"seconds", s.seconds}};
  return json::Object{{"pass", pass},
                      {"errors", std::move(errors)},
                      {"comparisons", std::move(compared)},
                      {"stats", std::move(stats)}};
}
