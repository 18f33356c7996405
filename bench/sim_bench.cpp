//===- sim_bench.cpp - Speed of the PTX simulator -------------------------===//
//
// Instructions per second of the executor, and the attention forward, on one
// host thread, with and without rules. The forward needs compiled kernels:
//
//   sim_bench --kernels=build/kernels/sm_100a [Google Benchmark's options]
//
// (bench/sim_units_bench.cpp: the units alone.)
//
//===----------------------------------------------------------------------===//

#include "tools/flamia-run/Execute.h"

#include "flamia/Reference/Data.h"
#include "flamia/Runtime/Attention.h"
#include "flamia/Sim/Simulator.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <benchmark/benchmark.h>

using namespace flamia;

namespace {

sim::SimOptions options(bool checks) {
  sim::SimOptions o;
  o.threads = 1;
  o.checks = checks ? sim::CheckSet::all() : sim::CheckSet::none();
  return o;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Eight warps that execute one instruction 64 times in a loop of 200.
struct Instruction {
  const char *name;
  const char *first, *second; ///< Two independent ones, used in turn.
  double perLane;             ///< Operations of a lane.
};

const Instruction instructions[] = {
    {"integer", "mad.lo.s32 %r0, %r1, %r2, %r0;",
     "mad.lo.s32 %r3, %r1, %r2, %r3;", 2},
    {"fp32", "fma.rn.f32 %r0, %r1, %r2, %r0;", "fma.rn.f32 %r3, %r1, %r2, %r3;",
     2},
    {"f32x2", "fma.rn.f32x2 %d0, %d1, %d2, %d0;",
     "fma.rn.f32x2 %d3, %d1, %d2, %d3;", 4},
    {"ex2", "ex2.approx.ftz.f32 %r0, %r1;", "ex2.approx.ftz.f32 %r3, %r2;", 1},
    {"e4m3", "cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;",
     "cvt.rn.satfinite.e4m3x2.f32 %h1, %r2, %r1;", 2},
    {"shared_load", "ld.shared.b32 %r0, [%r4];", "ld.shared.b32 %r3, [%r4];",
     1},
    {"shared_load_v4", "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r9];",
     "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r9];", 4},
    {"shared_store", "st.shared.b32 [%r4], %r1;", "st.shared.b32 [%r4], %r2;",
     1}};

std::string moduleText(const Instruction &i) {
  std::string text =
      ".version 8.8\n.target sm_100a\n.address_size 64\n"
      ".visible .entry k()\n{\n"
      ".reg .pred %p<2>; .reg .b16 %h<4>; .reg .b32 %r<16>;\n"
      ".reg .b64 %d<4>; .shared .align 16 .b8 s[4096];\n"
      "mov.b32 %r0, 0f3F800000; mov.b32 %r1, 0f3F000000;\n"
      "mov.b32 %r2, 0f3F800001; mov.b32 %r3, 0f40000000;\n"
      "mov.b64 %d0, {%r0, %r1}; mov.b64 %d1, {%r1, %r1};\n"
      "mov.b64 %d2, {%r2, %r2}; mov.b64 %d3, {%r2, %r3};\n"
      "mov.u32 %r10, %tid.x; mov.b32 %r11, s;\n"
      "shl.b32 %r12, %r10, 2; add.u32 %r4, %r11, %r12;\n"
      "shl.b32 %r12, %r10, 4; add.u32 %r9, %r11, %r12;\n"
      "st.shared.v4.b32 [%r9], {%r0, %r1, %r2, %r3}; bar.sync 0;\n"
      "mov.u32 %r13, 200;\nagain:\n";
  for (unsigned k = 0; k < 32; ++k)
    text += std::string(i.first) + "\n" + i.second + "\n";
  return text + "sub.u32 %r13, %r13, 1; setp.ne.u32 %p0, %r13, 0;\n"
                "@%p0 bra again;\nret;\n}\n";
}

void runInstruction(benchmark::State &state, const Instruction &i,
                    bool checks) {
  auto module = sim::Module::parse(moduleText(i), i.name);
  if (!module) {
    state.SkipWithError(llvm::toString(module.takeError()).c_str());
    return;
  }
  sim::LaunchConfig config;
  config.entry = "k";
  config.block = {256, 1, 1};
  double executed = 0, lanes = 0;
  for (auto _ : state) {
    sim::DeviceMemory memory;
    sim::LaunchResult result =
        sim::launch(**module, memory, config, options(checks));
    if (!result.ok()) {
      state.SkipWithError(result.errors.front().render().c_str());
      return;
    }
    executed += double(result.stats.instructions);
    lanes += 200.0 * 64 * 256 * i.perLane;
  }
  state.counters["instructions/s"] =
      benchmark::Counter(executed, benchmark::Counter::kIsRate);
  state.counters["lane ops/s"] =
      benchmark::Counter(lanes, benchmark::Counter::kIsRate);
}

//===----------------------------------------------------------------------===//
// Attention forward
//===----------------------------------------------------------------------===//

/// One causal document, one head of 128 channels; only the attention kernel's
/// time counts.
void runForward(benchmark::State &state, const runtime::KernelLibrary &library,
                bool checks) {
  int64_t tokens = state.range(0), tiles = (tokens + 127) / 128;
  double pairs = double(tiles * (tiles + 1) / 2);
  reference::AttentionShape shape;
  shape.cuSeqlens = {0, tokens};
  shape.heads = shape.kvHeads = 1;
  shape.headDim = 128;
  reference::AttentionInputs inputs =
      reference::makeInputs(shape, reference::DataKind::Normal, 1);
  std::unique_ptr<runtime::Device> device =
      runtime::createSimDevice(options(checks));
  runtime::AttentionConfig config;
  config.heads = config.kvHeads = 1;
  config.headDim = 128;
  auto forward = runtime::AttentionForward::create(*device, library, config);
  if (!forward) {
    state.SkipWithError(llvm::toString(forward.takeError()).c_str());
    return;
  }
  double seconds = 0;
  for (auto _ : state) {
    llvm::Expected<run::DeviceResult> result =
        run::runForward(**forward, inputs);
    if (!result) {
      state.SkipWithError(llvm::toString(result.takeError()).c_str());
      return;
    }
    state.SetIterationTime(result->attentionSeconds);
    seconds += result->attentionSeconds;
  }
  state.SetComplexityN(int64_t(pairs));
  state.counters["tile pairs"] = pairs;
  state.counters["ms/pair"] =
      1e3 * seconds / double(state.iterations()) / pairs;
  // Two products of 128 x 128 x 128 a pair.
  state.counters["MMA FLOP/s"] =
      double(state.iterations()) * pairs * 2 * 2 * 128 * 128 * 128 / seconds;
}

} // namespace

int main(int argc, char **argv) {
  std::string kernels;
  for (int k = 1; k < argc; ++k) {
    llvm::StringRef word = argv[k];
    if (!word.consume_front("--kernels="))
      continue;
    kernels = word.str();
    std::copy(argv + k + 1, argv + argc, argv + k);
    --argc;
    break;
  }
  for (const Instruction &i : instructions)
    for (bool checks : {false, true})
      benchmark::RegisterBenchmark(
          (std::string(i.name) + (checks ? "/checked" : "/unchecked")).c_str(),
          [&i, checks](benchmark::State &s) { runInstruction(s, i, checks); });
  llvm::Expected<runtime::KernelLibrary> library =
      kernels.empty() ? llvm::createStringError("no --kernels=DIR")
                      : runtime::KernelLibrary::open(kernels);
  if (!library) {
    llvm::errs() << "sim_bench: the attention forward is left out: "
                 << llvm::toString(library.takeError()) << "\n";
  } else {
    for (bool checks : {false, true})
      benchmark::RegisterBenchmark(checks ? "forward/checked"
                                          : "forward/unchecked",
                                   [&library, checks](benchmark::State &s) {
                                     runForward(s, *library, checks);
                                   })
          ->Arg(512)
          ->Arg(1024)
          ->Arg(2048)
          ->Arg(4096)
          ->Complexity(benchmark::oN)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
