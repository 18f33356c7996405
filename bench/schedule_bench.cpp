//===- schedule_bench.cpp - Work lists: time to build, modelled makespans -===//
//
// Google Benchmark of buildWorkList on 1M tokens; with --table the modelled
// makespans of bench/schedule.md.
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Schedule/LaunchModel.h"
#include "test/Unit/Schedule/Mixes.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <benchmark/benchmark.h>

using namespace flamia::schedule;
using namespace flamia::test;

namespace {

std::vector<Mix> millionTokens() {
  std::vector<Mix> mixes = lengthMixes(1 << 20);
  Uniform uniform;
  mixes.push_back(fillMix("1M of 1-31", 1 << 20,
                          [&] { return 1 + int64_t(uniform() * 31); }));
  return mixes;
}

void build(benchmark::State &state, const Mix &mix) {
  size_t items = 0;
  for (auto _ : state) {
    WorkList list = buildWorkList(mix.offsets, true, {148, 1});
    items = list.items.size();
    benchmark::DoNotOptimize(list.items.data());
  }
  state.counters["documents"] = double(mix.offsets.size() - 1);
  state.counters["items"] = double(items);
}

struct Row {
  const char *name;
  Kernel kernel;
};

void printTable() {
  const Row rows[] = {{"forward", Kernel::Forward},
                      {"dQ", Kernel::QueryGradients},
                      {"dK, dV", Kernel::KeyGradients}};
  llvm::outs() << "| heads | mix | kernel | CTAs an SM | groups | library, 148 "
                  "SMs | 152 SMs | longest first, 148 | 152 | document order "
                  "| forward's order |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (auto [query, kv] :
       {std::pair<int64_t, int64_t>{64, 8}, {64, 64}, {8, 8}, {8, 1}, {1, 1}})
    for (const Mix &mix : lengthMixes(131072))
      for (const Row &row : rows) {
        Heads heads = {query, kv, 128};
        auto ratio = [&](Order order, int64_t sms) {
          Launch launch = launchOf(row.kernel, heads, mix.offsets, order, sms);
          return makespan(launch.cycles, sms) /
                 lowerBounds(launch.cycles, sms).load;
        };
        Launch launch =
            launchOf(row.kernel, heads, mix.offsets, Order::Library, 148);
        llvm::outs() << llvm::formatv(
            "| {0}/{1} | {2} | {3} | {4:F1} | {5} | {6:F3} | {7:F3} | {8:F3} | "
            "{9:F3} | {10:F3} | {11:F3} |\n",
            query, kv, mix.name, row.name, double(launch.cycles.size()) / 148,
            launch.groups, ratio(Order::Library, 148),
            ratio(Order::Library, 152), ratio(Order::Longest, 148),
            ratio(Order::Longest, 152), ratio(Order::Documents, 148),
            ratio(Order::ForwardsOwn, 148));
      }
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && llvm::StringRef(argv[1]) == "--table") {
    printTable();
    return 0;
  }
  std::vector<Mix> mixes = millionTokens();
  for (const Mix &mix : mixes)
    benchmark::RegisterBenchmark(
        ("build/" + mix.name).c_str(),
        [&mix](benchmark::State &state) { build(state, mix); })
        ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
