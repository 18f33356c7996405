//===- sim_units_bench.cpp - Speed of the simulator's units ---------------===//
//
// Host time per simulated multiply-add of tcgen05.mma, and per tile of the
// moves around it. The counter "ns/MAC" is what the simulator's speed on
// attention kernels depends on most.
//
//===----------------------------------------------------------------------===//

#include "flamia/Sim/Units/Convert.h"
#include "flamia/Sim/Units/Mma.h"
#include "flamia/Sim/Units/TensorMap.h"
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <random>
#include <vector>

using namespace flamia::sim;

namespace {

constexpr uint64_t swizzled128 = 0x4000404000010000;

/// One CTA with random operands in place.
struct Machine {
  Machine() : shared(131072) {
    uint32_t address;
    tmem.allocate(512, address, issues);
    std::mt19937 engine(1);
    std::normal_distribution<float> normal(0, 60);
    for (uint8_t &byte : shared) {
      float value = normal(engine);
      uint32_t bits;
      static_assert(sizeof(bits) == sizeof(value), "f32");
      __builtin_memcpy(&bits, &value, sizeof(bits));
      byte = f32ToNarrow(bits, Narrow::E4M3);
    }
    for (unsigned lane = 0; lane < 128; ++lane)
      for (unsigned column = 0; column < 512; ++column)
        tmem.write(lane, column, column < 384 ? 0x3f800000 : 0x78767774);
  }

  Tmem tmem;
  std::vector<uint8_t> shared;
  IssueList issues;
};

/// 128 x 128 x k.
void mma(benchmark::State &state, MmaKind kind, uint32_t idesc, unsigned k,
         ScaleVec scaleVec, MmaNumerics numerics) {
  const double macs = 128.0 * 128 * k;
  Machine machine;
  MmaInstruction instr;
  instr.kind = kind;
  instr.idesc = idesc;
  instr.scaleVec = scaleVec;
  instr.a = swizzled128 | (1024 / 16);
  instr.b = swizzled128 | (65536 / 16);
  instr.sfa = 384;
  instr.sfb = 400;
  instr.enableInputD = true;
  MmaPlan plan;
  if (!planMma(instr, plan, machine.issues)) {
    state.SkipWithError(machine.issues.front().message.c_str());
    return;
  }
  MmaCta cta{&machine.tmem,
             {machine.shared.data(), 0, uint32_t(machine.shared.size())}};
  if (instr.kind == MmaKind::F16)
    // Random bytes would be wild bf16 values; these lie between 2^-8 and 2^8.
    for (size_t i = 1; i < machine.shared.size(); i += 2)
      machine.shared[i] = uint8_t((machine.shared[i] & 0x83) | 0x3c);
  for (auto _ : state)
    if (!runMma(plan, &cta, numerics, machine.issues))
      std::abort();
  state.counters["FLOP/s"] = benchmark::Counter(
      2 * double(state.iterations()) * macs, benchmark::Counter::kIsRate);
  state.counters["ns/MAC"] = benchmark::Counter(
      double(state.iterations()) * macs * 1e-9,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

constexpr MmaNumerics exact = MmaNumerics::BitAccurate;
constexpr ScaleVec none = ScaleVec::None;
BENCHMARK_CAPTURE(mma, mxf8, MmaKind::MXF8F6F4, 0x08A00000, 32, none, exact);
BENCHMARK_CAPTURE(mma, mxf8Plain, MmaKind::MXF8F6F4, 0x08A00000, 32, none,
                  MmaNumerics::Fp32);
BENCHMARK_CAPTURE(mma, f16, MmaKind::F16, 0x08200010, 16, none, exact);
BENCHMARK_CAPTURE(mma, bf16, MmaKind::F16, 0x08200490, 16, none, exact);
BENCHMARK_CAPTURE(mma, tf32, MmaKind::TF32, 0x08200910, 8, none, exact);
BENCHMARK_CAPTURE(mma, f8, MmaKind::F8F6F4, 0x08200010, 32, none, exact);
BENCHMARK_CAPTURE(mma, nvf4, MmaKind::MXF4NVF4, 0x08200480, 64, ScaleVec::X4,
                  exact);

/// Decoding and footprint of an instruction.
void plan(benchmark::State &state) {
  Machine machine;
  MmaInstruction instr;
  instr.kind = MmaKind::MXF8F6F4;
  instr.idesc = 0x08A00000;
  instr.a = swizzled128 | (1024 / 16);
  instr.b = swizzled128 | (65536 / 16);
  MmaPlan plan;
  for (auto _ : state)
    if (!planMma(instr, plan, machine.issues))
      std::abort();
}
BENCHMARK(plan);

/// A warp reads 128 columns.
void tmemLoad(benchmark::State &state) {
  Machine machine;
  std::vector<uint32_t> storage(128 * 32);
  std::vector<uint32_t *> regs;
  for (unsigned i = 0; i < 128; ++i)
    regs.push_back(storage.data() + i * 32);
  TmemAccess access;
  access.num = 128;
  access.address = tmemAddress(32, 0);
  for (auto _ : state)
    if (!machine.tmem.load(access, 1, regs.data(), machine.issues))
      std::abort();
}
BENCHMARK(tmemLoad);

struct FlatSpace : GlobalSpace {
  explicit FlatSpace(size_t size) : bytes(size) {}
  const uint8_t *read(uint64_t address, uint64_t) override {
    return bytes.data() + address;
  }
  uint8_t *write(uint64_t address, uint64_t) override {
    return bytes.data() + address;
  }
  std::vector<uint8_t> bytes;
};

/// A 128 x 128 byte tile through a 128B swizzle.
void tensorLoad(benchmark::State &state) {
  Machine machine;
  FlatSpace space(1 << 20);
  TensorMap map;
  map.rank = 2;
  map.dims = {1024, 1024, 1, 1, 1};
  map.strides = {1024};
  map.box = {128, 128, 1, 1, 1};
  map.swizzle = TmaSwizzle::B128;
  SharedView view{machine.shared.data(), 0, uint32_t(machine.shared.size())};
  const int32_t coords[2] = {128, 256};
  for (auto _ : state)
    if (!tmaLoad(map, coords, 1024, view, space, machine.issues))
      std::abort();
}
BENCHMARK(tensorLoad);

/// A warp converts 32 registers to packed e4m3.
void convertE4M3(benchmark::State &state) {
  std::vector<uint32_t> a(1024, 0x3fc12345), b(1024, 0x40a12345), d(1024);
  for (auto _ : state) {
    f32x2ToNarrowx2(Narrow::E4M3, false, a.data(), b.data(), d.data(), 1024);
    benchmark::DoNotOptimize(d.data());
  }
}
BENCHMARK(convertE4M3);

} // namespace

BENCHMARK_MAIN();
