//===- TraceReport.cpp - A timeline as Chrome trace JSON ------------------===//
//
// Events of a row must nest. Rows whose spans may overlap (operations in
// flight, parts of a diverged warp) are split into as many as are needed.
//
//===----------------------------------------------------------------------===//

#include "TraceReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <array>
#include <map>

using namespace llvm;
using namespace flamia;
using sim::TraceEvent;

namespace {

/// Rows of a CTA from top to bottom.
enum Group : unsigned { Warps, Pipes, Batches, Loads, Stores, Tmem, Barriers };

Group groupOf(TraceEvent::Kind kind) {
  switch (kind) {
  case TraceEvent::Run:
  case TraceEvent::Wait:
  case TraceEvent::Issue:
    return Warps;
  case TraceEvent::Mma:
    return Pipes;
  case TraceEvent::MmaBatch:
    return Batches;
  case TraceEvent::Load:
    return Loads;
  case TraceEvent::Store:
    return Stores;
  case TraceEvent::TmemAccess:
    return Tmem;
  case TraceEvent::Phase:
    return Barriers;
  }
  return Warps;
}

const char *categoryOf(TraceEvent::Kind kind) {
  static const char *const names[] = {"run",  "wait",  "issue", "mma",  "batch",
                                      "load", "store", "tmem",  "phase"};
  return names[unsigned(kind)];
}

/// CTA, group, warp or barrier (0 for rows that a CTA has once), part.
using RowKey = std::array<uint64_t, 4>;

class Writer {
public:
  explicit Writer(const sim::Trace &trace) : trace(trace) {}

  std::string run(StringRef ptxFile) {
    placeEvents();
    nameRoles();
    os.object([&] {
      os.attributeArray("traceEvents", [&] {
        writeNames();
        for (size_t k = 0; k < trace.events.size(); ++k)
          writeEvent(k);
      });
      os.attribute("displayTimeUnit", "ms");
      os.attributeObject("otherData", [&] {
        os.attribute("ptx", ptxFile);
        os.attribute("time_unit",
                     "one warp instruction of the cluster, or one asynchronous "
                     "operation carried out while every warp waits, is shown "
                     "as 1 us; every cluster starts at 0");
        os.attribute("truncated", trace.truncated);
      });
    });
    text << "\n";
    return std::move(stream);
  }

private:
  RowKey keyOf(const TraceEvent &e, uint64_t part) const {
    Group group = groupOf(e.kind);
    bool own =
        group == Warps || group == Pipes || group == Tmem || group == Barriers;
    return {e.cta, group, own ? e.row : 0, part};
  }

  /// Finds a row for every event: the first part that is free.
  void placeEvents() {
    std::vector<uint32_t> order(trace.events.size());
    for (uint32_t k = 0; k < order.size(); ++k)
      order[k] = k;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      uint64_t left = trace.events[a].begin, right = trace.events[b].begin;
      return left != right ? left < right : a < b;
    });
    parts.assign(order.size(), 0);
    std::map<RowKey, std::vector<uint64_t>> freeAt;
    // A run by the warp, for the issues inside it.
    std::map<RowKey, uint32_t> lastRun;
    for (uint32_t k : order) {
      const TraceEvent &e = trace.events[k];
      if (e.kind == TraceEvent::Issue)
        continue;
      std::vector<uint64_t> &slots = freeAt[keyOf(e, 0)];
      uint32_t part = 0;
      while (part < slots.size() && slots[part] > e.begin)
        ++part;
      if (part == slots.size())
        slots.push_back(0);
      slots[part] = e.end;
      parts[k] = part;
      tids.try_emplace(keyOf(e, part), 0);
    }
    for (uint32_t k : order) {
      const TraceEvent &e = trace.events[k];
      if (e.kind == TraceEvent::Run)
        lastRun[keyOf(e, 0)] = parts[k];
      if (e.kind == TraceEvent::Issue) {
        parts[k] = lastRun[keyOf(e, 0)];
        tids.try_emplace(keyOf(e, parts[k]), 0);
      }
    }
    int64_t next = 0;
    for (auto &row : tids)
      row.second = ++next;
  }

  /// What a warp is for, by what it issues.
  void nameRoles() {
    for (const TraceEvent &e : trace.events)
      if (e.kind == TraceEvent::Mma)
        roles[{e.cta, e.row}] |= 1;
      else if (e.kind == TraceEvent::Load)
        roles[{e.cta, e.row}] |= 2;
      else if (e.kind == TraceEvent::TmemAccess)
        roles[{e.cta, e.row}] |= 4;
  }

  std::string rowName(const RowKey &key) const {
    auto [cta, group, row, part] = key;
    std::string name;
    switch (Group(group)) {
    case Warps: {
      name = "warp " + std::to_string(row);
      auto role = roles.find({cta, row});
      const char *glue = ": ";
      for (auto [bit, text] : {std::pair(2u, "load"), std::pair(1u, "mma"),
                               std::pair(4u, "vector")})
        if (role != roles.end() && role->second & bit) {
          name += glue + std::string(text);
          glue = " + ";
        }
      break;
    }
    case Pipes:
      name = "tensor pipe of warp " + std::to_string(row);
      break;
    case Batches:
      name = "mma batches";
      break;
    case Loads:
      name = "loads";
      break;
    case Stores:
      name = "stores";
      break;
    case Tmem:
      name = "tmem access of warp " + std::to_string(row);
      break;
    case Barriers:
      name = "mbarrier 0x" + utohexstr(row, /*LowerCase=*/true);
      break;
    }
    return part ? name + " (" + std::to_string(part + 1) + ")" : name;
  }

  void writeNames() {
    for (size_t k = 0; k < trace.ctas.size(); ++k)
      metadata("process_name", int64_t(k) + 1, 0, [&] {
        const auto &id = trace.ctas[k].id;
        os.attribute("name", "cta (" + std::to_string(id[0]) + "," +
                                 std::to_string(id[1]) + "," +
                                 std::to_string(id[2]) + ")");
      });
    for (const auto &row : tids) {
      int64_t pid = int64_t(row.first[0]) + 1, tid = row.second;
      metadata("thread_name", pid, tid,
               [&] { os.attribute("name", rowName(row.first)); });
      metadata("thread_sort_index", pid, tid,
               [&] { os.attribute("sort_index", tid); });
    }
  }

  void metadata(StringRef what, int64_t pid, int64_t tid,
                function_ref<void()> args) {
    os.object([&] {
      os.attribute("ph", "M");
      os.attribute("name", what);
      os.attribute("pid", pid);
      os.attribute("tid", tid);
      os.attributeObject("args", args);
    });
  }

  void writeEvent(size_t k) {
    const TraceEvent &e = trace.events[k];
    int64_t pid = int64_t(e.cta) + 1, tid = tids[keyOf(e, parts[k])];
    bool operation = e.id && e.kind != TraceEvent::Issue;
    os.object([&] {
      os.attribute("ph", "X");
      os.attribute("cat", categoryOf(e.kind));
      os.attribute("name", e.kind == TraceEvent::Phase
                               ? "phase " + std::to_string(e.count)
                               : trace.names[e.name]);
      os.attribute("pid", pid);
      os.attribute("tid", tid);
      os.attribute("ts", int64_t(e.begin));
      os.attribute("dur", int64_t(e.end - e.begin));
      os.attributeObject("args", [&] {
        if (e.line)
          os.attribute("line", int64_t(e.line));
        if (e.kind == TraceEvent::Wait)
          os.attribute("phase", int64_t(e.count));
        if (e.kind == TraceEvent::MmaBatch)
          os.attribute("mmas", int64_t(e.count));
        if (operation)
          os.attribute("warp", int64_t(e.row));
        if (operation && e.done)
          os.attribute("carried_out", int64_t(e.done));
        if (e.open)
          os.attribute("open", true);
      });
    });
    if (!e.id)
      return;
    if (e.kind == TraceEvent::Issue) {
      flow("s", e.id, pid, tid, double(e.begin));
      return;
    }
    // From its issue to the operation, and on to the warp that waited for it.
    double last = double(e.end) - 0.5;
    flow(e.seenBy < 0 ? "f" : "t", e.id, pid, tid, last);
    if (e.seenBy < 0)
      return;
    auto waiter = tids.find({e.cta, uint64_t(Warps), uint64_t(e.seenBy), 0});
    if (waiter != tids.end())
      flow("f", e.id, pid, waiter->second, last);
  }

  void flow(StringRef phase, uint64_t id, int64_t pid, int64_t tid, double ts) {
    os.object([&] {
      os.attribute("ph", phase);
      os.attribute("cat", "flow");
      os.attribute("name", "completes");
      os.attribute("id", int64_t(id));
      os.attribute("pid", pid);
      os.attribute("tid", tid);
      os.attribute("ts", ts);
      if (phase == "f")
        os.attribute("bp", "e");
    });
  }

  const sim::Trace &trace;
  std::string stream;
  raw_string_ostream text{stream};
  json::OStream os{text};
  std::vector<uint32_t> parts; ///< By event.
  std::map<RowKey, int64_t> tids;
  std::map<std::array<uint64_t, 2>, unsigned> roles;
};

} // namespace

std::string simtool::chromeTrace(const sim::Trace &trace, StringRef ptxFile) {
  return Writer(trace).run(ptxFile);
}
