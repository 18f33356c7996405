//===- Workload.cpp - Modelled times of packed documents ------------------===//

#include "flamia/Model/Workload.h"

#include "flamia/Model/Published.h"
#include "flamia/Schedule/Makespan.h"
#include "flamia/Schedule/WorkList.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

namespace flamia {
namespace model {

using llvm::StringRef;
using schedule::tileRows;

int64_t Workload::tokens() const {
  int64_t sum = 0;
  for (int64_t n : lengths)
    sum += n;
  return sum;
}

static int64_t tilesOf(int64_t length) {
  return (length + tileRows - 1) / tileRows;
}

static double scaleTiles(const Workload &w) {
  double sum = 0;
  for (int64_t n : w.lengths)
    sum += double(tilesOf(n));
  return sum;
}

double bf16Seconds(const Workload &w, const Machine &machine) {
  double cycles = 0;
  for (unsigned pass = 0; pass < (w.backward ? 2u : 1u); ++pass) {
    MeasuredLaw law = bestBf16(pass == 1, unsigned(w.headDim), machine);
    for (int64_t length : w.lengths) {
      double n = double(tilesOf(length));
      double tiles = w.causal ? n * (n + 1) / 2 : n * n;
      cycles += double(w.heads) * (tiles * law.a + n * law.h);
    }
  }
  return cycles / machine.sms / (machine.clockGHz * 1e9);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<WorkloadKernel>>
loadKernels(llvm::ArrayRef<runtime::LaunchRecord> records, bool backward,
            int64_t group, const Tools &tools, const Machine &machine) {
  static const char *const order[] = {
      "quantize_qkv",       "attention_fwd",
      "attention_bwd_prep", "attention_bwd_prep_keys",
      "attention_bwd_dkdv", "attention_bwd_dq"};
  std::vector<WorkloadKernel> kernels;
  for (const char *name : order) {
    if (!backward && StringRef(name).contains("_bwd_"))
      continue;
    // As the runtime does: of several, the one that takes the most for granted
    // of what holds here.
    const runtime::LaunchRecord *found = nullptr;
    auto assumed = [](const runtime::LaunchRecord &record) {
      uint64_t times = 1;
      for (const runtime::RecordCondition &c : record.conditions)
        times = std::max(times, c.times);
      return times;
    };
    for (const runtime::LaunchRecord &record : records) {
      auto dlse = record.parameters.find("dlse");
      if (record.kernel != name || record.arch != machine.arch ||
          (dlse != record.parameters.end() && dlse->second != "false") ||
          uint64_t(group) % assumed(record))
        continue;
      if (!found || assumed(record) > assumed(*found))
        found = &record;
    }
    if (!found)
      return llvm::createStringError("no kernel '" + llvm::Twine(name) +
                                     "' for " + machine.arch);
    bool grouped =
        isOverKvHeads(*found) && StringRef(name) != "attention_bwd_prep_keys";
    llvm::Expected<KernelModel> model =
        modelRecord(*found, tools, machine, grouped ? unsigned(group) : 1);
    if (!model)
      return llvm::createStringError(llvm::Twine(name) + ": " +
                                     llvm::toString(model.takeError()));
    WorkloadKernel kernel{*found, std::move(*model)};
    if (grouped && group > 1 && found->grid[2].isAny) {
      // A row of one head: r1 = cta + row. Of a group's: rg = cta / g + row.
      llvm::Expected<KernelModel> one = modelRecord(*found, tools, machine);
      if (!one)
        return one.takeError();
      double g = kernel.model.rowsPerCta;
      kernel.ctaCycles = std::max(
          0.0, (one->rowCycles() - kernel.model.rowCycles()) * g / (g - 1));
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

/// Bytes of all of a kernel's tensors in a workload: each is read or written
/// once.
static double argumentBytes(const runtime::LaunchRecord &record,
                            const Workload &w) {
  double sum = 0;
  for (const runtime::RecordArgument &a : record.arguments) {
    if (!a.isTensor)
      continue;
    double count = runtime::bitsOf(a.element) / 8.0;
    for (unsigned d = 0; d < a.dims.size(); ++d) {
      StringRef name;
      if (d < a.dimNames.size())
        name = a.dimNames[d];
      count *= a.dims[d]            ? double(*a.dims[d])
               : name == "kv_heads" ? double(w.kvHeads)
               : name == "heads"    ? double(w.heads)
               : name == "tokens"   ? double(w.tokens())
                                    : scaleTiles(w);
    }
    sum += count * (a.access == runtime::Access::ReadWrite ? 2 : 1);
  }
  return sum;
}

/// Quantizers and the backward's preparation.
static KernelTime streamingTime(const WorkloadKernel &k, const Workload &w,
                                const Machine &machine) {
  KernelTime time;
  time.kernel = k.record.kernel;
  // Counted with one query head and one kv head: a row of quantize_qkv is then
  // a tile of Q, one of K and one of V, however they are spread over CTAs.
  double heads = k.record.kernel == "quantize_qkv"
                     ? double(w.heads + 2 * w.kvHeads) / 3
                 : isOverKvHeads(k.record) ? double(w.kvHeads)
                                           : double(w.heads);
  double rows = scaleTiles(w) * heads;
  double clock = machine.clockGHz * 1e9;
  // As many CTAs an SM as shared memory and threads allow, at most 8.
  unsigned threads = k.record.block[0] * k.record.block[1] * k.record.block[2];
  double resident =
      std::min({8.0, 228.0 * 1024 / (k.record.dynamicShared + 1024.0),
                2048.0 / threads});
  resident = std::max(1.0, std::floor(resident));
  double units = rows * k.model.rowUnits / machine.sms / clock;
  double chain = rows * k.model.rowChain / resident / machine.sms / clock;
  double memory = argumentBytes(k.record, w) / Machine::streamingBytesPerSecond;
  time.seconds = std::max({units, chain, memory});
  time.secondsOverlapped = std::max(units, memory);
  time.limit = memory >= std::max(units, chain) ? "memory"
               : units >= chain                 ? k.model.bottleneck()
                                                : "serial chain";
  return time;
}

static KernelTime attentionTime(const WorkloadKernel &k, const Workload &w,
                                const Machine &machine) {
  KernelTime time;
  time.kernel = k.record.kernel;
  time.limit = k.model.bottleneck();
  time.tileCycles = k.model.tileCycles();
  bool keys = hasRowsOfKeys(k.record);
  // The work list's order: longest first; all items of a head, then the next.
  std::vector<int64_t> offsets = {0};
  for (int64_t n : w.lengths)
    offsets.push_back(offsets.back() + n);
  schedule::WorkList list = schedule::buildWorkList(
      offsets, w.causal, {int64_t(machine.sms), w.kvHeads});
  // What an item takes of CTAs, and a CTA of query heads and rows.
  bool isGrouped = isOverKvHeads(k.record);
  auto rows = double(std::max(1LL, std::llround(k.model.rowsPerCta)));
  int64_t ctaHeads =
      isGrouped ? w.kvHeads : int64_t(std::ceil(double(w.heads) / rows));
  double heads = isGrouped ? double(w.heads) / double(w.kvHeads) : rows;
  double inCta = rows;
  if (k.record.grid[2].isAny) {
    int64_t parts = schedule::headParts(schedule::Kernel::QueryGradients,
                                        {w.heads, w.kvHeads, w.headDim},
                                        int64_t(list.items.size()));
    ctaHeads *= parts;
    heads /= double(parts);
    inCta = heads;
  }
  // A row costs at least what it does in the published forwards.
  double floor = calibratedLaw().rowForward;
  double row =
      inCta * std::max(k.model.rowCycles() - k.ctaCycles / rows, floor) +
      k.ctaCycles;
  double rowOverlapped = inCta * std::max(k.model.rowUnits, floor);
  std::vector<double> ctas, overlapped;
  double tiles = 0;
  for (int64_t head = 0; head < ctaHeads; ++head)
    for (const schedule::WorkItem &item : list.items) {
      int64_t all = tilesOf(item.end - item.begin);
      double n = heads * double(!w.causal ? all
                                : keys    ? all - item.tile
                                          : item.tile + 1);
      tiles += n;
      ctas.push_back(n * time.tileCycles + row);
      overlapped.push_back(n * k.model.overlapped + rowOverlapped);
    }
  time.tiles = tiles;
  double clock = machine.clockGHz * 1e9;
  double mean = 0;
  for (double c : ctas)
    mean += c / machine.sms;
  double longest = schedule::makespan(ctas, machine.sms);
  time.seconds = longest / clock;
  time.imbalance = mean > 0 ? longest / mean : 1;
  time.secondsOverlapped = schedule::makespan(overlapped, machine.sms) / clock;
  return time;
}

WorkloadTime predict(const Workload &w, llvm::ArrayRef<WorkloadKernel> kernels,
                     const Machine &machine) {
  WorkloadTime result;
  for (const WorkloadKernel &k : kernels) {
    if (!w.backward && StringRef(k.record.kernel).contains("_bwd_"))
      continue;
    result.kernels.push_back(k.model.hasTiles() ? attentionTime(k, w, machine)
                                                : streamingTime(k, w, machine));
    result.seconds += result.kernels.back().seconds;
    result.secondsOverlapped += result.kernels.back().secondsOverlapped;
  }
  result.bf16Seconds = bf16Seconds(w, machine);
  return result;
}

const KernelTime &WorkloadTime::slowest() const {
  return *std::max_element(kernels.begin(), kernels.end(),
                           [](const KernelTime &a, const KernelTime &b) {
                             return a.seconds < b.seconds;
                           });
}

std::string table(const Workload &w, const WorkloadTime &time,
                  const Machine &machine) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::formatv(
      "{0} ({1}, {2} SMs, {3} GHz): modelled, not measured (docs/model.md)\n",
      machine.name, machine.arch, machine.sms, machine.clockGHz);
  os << llvm::formatv("  {0,-24} {1,10} {2,12} {3,12} {4,10}  {5}\n", "kernel",
                      "us", "cycles/tile", "us if overl.", "imbalance",
                      "limited by");
  for (const KernelTime &k : time.kernels) {
    os << llvm::formatv("  {0,-24} {1,10:f1} ", k.kernel, 1e6 * k.seconds);
    if (k.tiles > 0)
      os << llvm::formatv("{0,12:f0}", k.tileCycles);
    else
      os << llvm::formatv("{0,12}", "-");
    os << llvm::formatv(" {0,12:f1} ", 1e6 * k.secondsOverlapped);
    if (k.tiles > 0)
      os << llvm::formatv("{0,10:f3}", k.imbalance);
    else
      os << llvm::formatv("{0,10}", "-");
    os << "  " << k.limit << "\n";
  }
  os << llvm::formatv("  {0,-24} {1,10:f1} {2,12} {3,12:f1}\n", "total",
                      1e6 * time.seconds, "", 1e6 * time.secondsOverlapped);
  os << llvm::formatv(
      "  {0,-24} {1,10:f1}   modelled speed-up {2:f2}, {3:f2} if overlapped as "
      "published kernels are\n",
      "best published BF16", 1e6 * time.bf16Seconds,
      time.bf16Seconds / time.seconds,
      time.bf16Seconds / time.secondsOverlapped);
  return text;
}

} // namespace model
} // namespace flamia
