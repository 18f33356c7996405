//===- quantize_gpu.cpp - The quantizers on a Hopper GPU ------------------===//
//
// Runs quantize_token_local, quantize_token_block and quantize_qkv in both
// formats, compiled by flamiac for sm_90, on a real GPU and compares every byte
// with lib/Numerics: TMA through ragged tensor maps, mbarriers, warp reductions
// and conversions of the code that convert-flamia-to-nvvm makes. Usage:
// quantize_gpu DIR..., each with the records of one head_dim. Exit code 1 on
// any difference.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"
#include "flamia/Runtime/Device.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "flamia/Sim/Simulator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace flamia;
using namespace flamia::runtime;

static llvm::ExitOnError check;

/// BF16 values over many magnitudes, some zero, some subnormal, few NaN, Inf;
/// tokens of all magnitudes among them, whose NVFP4 scales saturate or vanish;
/// with `isOrdinary` none of these, as warps without them take other code.
static std::vector<uint16_t> makeInput(int64_t count, unsigned seed,
                                       bool isOrdinary = false) {
  std::mt19937 random(seed);
  std::vector<uint16_t> data(static_cast<size_t>(count));
  uint32_t exponent = 120;
  for (auto [index, value] : llvm::enumerate(data)) {
    if (index % 128 == 0 && !isOrdinary)
      exponent = random() % 8 ? 120 : 1 + random() % 240;
    uint32_t kind = random() % 4096 | (isOrdinary ? 64 : 0);
    if (kind == 0)
      value = uint16_t(random()); // anything
    else if (kind < 64)
      value = uint16_t(random() % 128 | (random() & 0x8000)); // subnormal
    else if (kind < 128)
      value = uint16_t(random() & 0x8000); // zero
    else
      value = uint16_t((random() & 0x8000) | (exponent + random() % 12) << 7 |
                       random() % 128);
  }
  return data;
}

struct DeviceBuffer {
  uint64_t address;
  uint64_t bytes;
};

static DeviceBuffer put(Device &device, const void *data, uint64_t bytes) {
  DeviceBuffer buffer{check(device.allocate("buffer", bytes)), bytes};
  check(device.upload(buffer.address, data, bytes));
  return buffer;
}
static DeviceBuffer poisoned(Device &device, uint64_t bytes) {
  std::vector<uint8_t> data(bytes, 0xAA);
  return put(device, data.data(), bytes);
}
static bool same(Device &device, const char *what, DeviceBuffer buffer,
                 const std::vector<uint8_t> &expected) {
  std::vector<uint8_t> got(buffer.bytes);
  check(device.download(got.data(), buffer.address, buffer.bytes));
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i] && wrong++ == 0)
      first = i;
  if (wrong)
    printf("  %s: %zu of %zu bytes differ, first at %zu: %02x, expected %02x\n",
           what, wrong, got.size(), first, got[first], expected[first]);
  else
    printf("  %s: %zu bytes equal\n", what, got.size());
  return wrong == 0;
}

/// quantize_qkv in one format, with one key and value head to three query heads
/// and as many, contiguous and inside tensors [tokens, 3, heads, head_dim].
static bool runFused(Device &device, const KernelLibrary &library,
                     numerics::PackedShape shape, uint64_t tiles,
                     uint64_t items, uint64_t work, bool isNvfp4,
                     bool isOrdinary) {
  uint64_t tokens = uint64_t(shape.tokens()), dim = uint64_t(shape.headDim);
  bool ok = true;
  for (int64_t kvHeads : {int64_t(1), shape.heads}) {
    numerics::PackedShape kvShape = shape;
    kvShape.heads = kvHeads;
    uint64_t heads = uint64_t(shape.heads), kv = uint64_t(kvHeads);
    bool isFused = kvHeads == shape.heads;
    std::vector<uint16_t> q = makeInput(shape.elements(), 11, isOrdinary);
    std::vector<uint16_t> k = makeInput(kvShape.elements(), 12, isOrdinary);
    std::vector<uint16_t> v = makeInput(kvShape.elements(), 13, isOrdinary);
    float qScale = 0.125f, kScale = 0.3f;
    auto wantQ = numerics::quantizeTokenMixed(
        q.data(), shape, true, numerics::ScaleMode::RoundUp, qScale);
    auto wantK = numerics::quantizeTokenMixed(
        k.data(), kvShape, true, numerics::ScaleMode::RoundUp, kScale);
    auto wantV = numerics::quantizeTokenBlock(v.data(), kvShape);
    std::vector<Argument> arguments = {
        Argument::tensor("work", work, Element::I32, {items, 4}, items * 16)};
    std::vector<uint16_t> fused(isFused ? 3 * q.size() : 0);
    auto input = [&](const char *name, const std::vector<uint16_t> &data,
                     uint64_t heads) {
      DeviceBuffer buffer = put(device, data.data(), data.size() * 2);
      arguments.push_back(Argument::tensor(name, buffer.address, Element::BF16,
                                           {tokens, heads, dim}, buffer.bytes));
    };
    input("q", q, heads);
    input("k", k, kv);
    input("v", v, kv);
    if (isFused) {
      uint64_t row = heads * dim;
      for (uint64_t i = 0; i < q.size(); ++i) {
        uint64_t at = i / row * 3 * row + i % row;
        fused[at] = q[i];
        fused[at + row] = k[i];
        fused[at + 2 * row] = v[i];
      }
      DeviceBuffer buffer = put(device, fused.data(), fused.size() * 2);
      for (uint64_t part = 0; part < 3; ++part) {
        Argument &argument = arguments[1 + part];
        argument.address = buffer.address + 2 * part * row;
        argument.bytes = buffer.bytes - 2 * part * row;
        argument.strides = {3 * row, dim, 1};
      }
    }
    struct Output {
      const char *name;
      const std::vector<uint8_t> &expected;
      Element element;
      std::vector<uint64_t> extents;
    };
    constexpr Element data = Element::F8E4M3FN, scale = Element::F8E8M0FNU;
    std::vector<Output> outputs = {
        {"q_data", wantQ.e4m3.payload, data, {tokens, heads, dim}},
        {"q_scale", wantQ.e4m3.scales, scale, {tiles, heads, 512}},
        {"k_data", wantK.e4m3.payload, data, {tokens, kv, dim}},
        {"k_scale", wantK.e4m3.scales, scale, {tiles, kv, 512}},
        {"v_data", wantV.payload, data, {tokens, kv, dim}},
        {"v_scale_rows", wantV.scalesAlongRows, scale, {tiles, kv, 512}},
        {"v_scale_cols", wantV.scalesAlongCols, scale, {tiles, kv, 512}}};
    if (isNvfp4) {
      outputs.push_back({"q_fp4",
                         wantQ.nvfp4.payload,
                         Element::F4E2M1FN,
                         {tokens, heads, dim}});
      outputs.push_back({"q_fp4_scale",
                         wantQ.nvfp4.scales,
                         data,
                         {tiles, heads, dim / 64, 512}});
      outputs.push_back(
          {"k_fp4", wantK.nvfp4.payload, Element::F4E2M1FN, {tokens, kv, dim}});
      outputs.push_back({"k_fp4_scale",
                         wantK.nvfp4.scales,
                         data,
                         {tiles, kv, dim / 64, 512}});
      arguments.push_back(Argument::number("q_global_scale", qScale));
      arguments.push_back(Argument::number("k_global_scale", kScale));
    }
    std::vector<DeviceBuffer> buffers;
    for (Output &output : outputs) {
      buffers.push_back(poisoned(device, output.expected.size()));
      arguments.push_back(Argument::tensor(output.name, buffers.back().address,
                                           output.element, output.extents,
                                           buffers.back().bytes));
    }
    auto *record =
        check(library.find("quantize_qkv", "sm_90",
                           {{"head_dim", std::to_string(dim)},
                            {"format", isNvfp4 ? "nvfp4" : "mxfp8"}}));
    auto kernel = check(device.load(*record));
    auto prepared = check(kernel->prepare(arguments));
    check(prepared->launch());
    check(device.synchronize());
    for (size_t i = 0; i < outputs.size(); ++i)
      ok &= same(device, outputs[i].name, buffers[i], outputs[i].expected);
  }
  return ok;
}

static bool run(Device &device, const KernelLibrary &library, int64_t headDim,
                std::vector<int64_t> lengths, unsigned seed) {
  numerics::PackedShape shape;
  shape.cuSeqlens = numerics::cuSeqlensOf(lengths);
  shape.heads = 3;
  shape.headDim = headDim;
  std::vector<int64_t> bases = numerics::scaleTileBases(shape.cuSeqlens);
  std::vector<int32_t> work;
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t tile = 0; tile < bases[d + 1] - bases[d]; ++tile)
      for (int64_t field :
           {shape.cuSeqlens[d], shape.cuSeqlens[d + 1], tile, bases[d]})
        work.push_back(int32_t(field));
  uint64_t items = work.size() / 4, tokens = uint64_t(shape.tokens());
  uint64_t heads = uint64_t(shape.heads), dim = uint64_t(headDim);
  uint64_t tiles = uint64_t(bases.back());
  std::vector<uint16_t> x = makeInput(shape.elements(), seed);
  DeviceBuffer dx = put(device, x.data(), x.size() * 2);
  DeviceBuffer dwork = put(device, work.data(), work.size() * 4);
  auto tensor = [&](const char *name, DeviceBuffer buffer, Element element,
                    std::vector<uint64_t> extents) {
    return Argument::tensor(name, buffer.address, element, extents,
                            buffer.bytes);
  };
  auto launch = [&](const char *name, std::vector<Argument> outputs) {
    outputs.push_back(tensor("x", dx, Element::BF16, {tokens, heads, dim}));
    outputs.push_back(tensor("work", dwork, Element::I32, {items, 4}));
    auto *record = check(
        library.find(name, "sm_90", {{"head_dim", std::to_string(headDim)}}));
    auto kernel = check(device.load(*record));
    auto prepared = check(kernel->prepare(outputs));
    check(prepared->launch());
    check(device.synchronize());
  };
  bool ok = true;
  {
    auto expected = numerics::quantizeTokenLocal(x.data(), shape, true);
    DeviceBuffer data = poisoned(device, expected.payload.size());
    DeviceBuffer scale = poisoned(device, expected.scales.size());
    launch("quantize_token_local",
           {tensor("data", data, Element::F8E4M3FN, {tokens, heads, dim}),
            tensor("scale", scale, Element::F8E8M0FNU, {tiles, heads, 512})});
    ok &= same(device, "token_local payload", data, expected.payload);
    ok &= same(device, "token_local scales", scale, expected.scales);
  }
  {
    auto expected = numerics::quantizeTokenBlock(x.data(), shape);
    DeviceBuffer data = poisoned(device, expected.payload.size());
    DeviceBuffer rows = poisoned(device, expected.scalesAlongRows.size());
    DeviceBuffer cols = poisoned(device, expected.scalesAlongCols.size());
    launch(
        "quantize_token_block",
        {tensor("data", data, Element::F8E4M3FN, {tokens, heads, dim}),
         tensor("scale_rows", rows, Element::F8E8M0FNU, {tiles, heads, 512}),
         tensor("scale_cols", cols, Element::F8E8M0FNU, {tiles, heads, 512})});
    ok &= same(device, "token_block payload", data, expected.payload);
    ok &=
        same(device, "token_block scales rows", rows, expected.scalesAlongRows);
    ok &=
        same(device, "token_block scales cols", cols, expected.scalesAlongCols);
  }
  for (bool isNvfp4 : {false, true})
    for (bool isOrdinary : {false, true})
      ok &= runFused(device, library, shape, tiles, work.size() / 4,
                     dwork.address, isNvfp4, isOrdinary);
  return ok;
}

int main(int argc, char **argv) {
  bool simulated = argc > 1 && !strcmp(argv[1], "--sim");
  sim::SimOptions options;
  auto device =
      simulated ? createSimDevice(options) : check(createCudaDevice());
  printf("device: %s\n", device->name().c_str());
  bool ok = true;
  for (int i = simulated ? 2 : 1; i < argc; ++i) {
    auto library = check(KernelLibrary::open(argv[i]));
    int64_t headDim =
        atoi(library.records().front().parameters.at("head_dim").c_str());
    unsigned seed = 1;
    for (std::vector<int64_t> lengths : {std::vector<int64_t>{1},
                                         {128},
                                         {31, 0, 1, 33, 129, 500},
                                         {4096, 100, 17}}) {
      if (simulated && lengths[0] > 1000)
        continue;
      printf("head_dim %d, %zu documents\n", int(headDim), lengths.size());
      ok &= run(*device, library, headDim, lengths, seed++);
    }
  }
  printf(ok ? "PASS\n" : "FAIL\n");
  return ok ? 0 : 1;
}
