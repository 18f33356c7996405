//===- QuantizeTest.cpp - The fused quantization on the simulator ---------===//
//
// Every byte of quantize_qkv against lib/Numerics, on contiguous tensors, on
// one fused [tokens, 3, heads, head_dim] tensor and on rows with padding; and
// the forward on such tensors against the forward on contiguous ones.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "flamia/Numerics/Quantize.h"

using namespace flamia;
using namespace flamia::runtime;
using namespace flamia::test;

namespace {

/// BF16 values of all magnitudes, with zeros, NaN and infinity among them.
std::vector<uint16_t> makeValues(size_t count, uint64_t state) {
  std::vector<uint16_t> values(count);
  for (uint16_t &value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = uint16_t(state >> 48);
    if (state >> 20 & 255)
      value = uint16_t(0x3C00 + (value & 0x83FF));
  }
  return values;
}

/// Where a tensor [tokens, heads, dim] lies: strides in elements, and the first
/// element in its buffer. No strides: contiguous.
struct Place {
  std::vector<uint64_t> strides;
  uint64_t first = 0, elements = 0;
};

struct Shape {
  std::vector<int64_t> lengths;
  int64_t heads, kvHeads, dim;
};

/// Quantizes tensors that lie as `places` say. Elements of the buffers between
/// them are undefined: reading one is an error of the simulator.
void expectBytes(const Shape &shape, const std::vector<Place> &places) {
  numerics::PackedShape packed{numerics::cuSeqlensOf(shape.lengths),
                               shape.heads, shape.dim};
  numerics::PackedShape kvPacked = packed;
  kvPacked.heads = shape.kvHeads;
  schedule::WorkList work = schedule::buildWorkList(packed.cuSeqlens, true);
  uint64_t tokens = uint64_t(packed.tokens()), dim = uint64_t(shape.dim);
  uint64_t tiles = uint64_t(work.scaleTiles);

  sim::SimOptions options;
  std::unique_ptr<Device> device = createSimDevice(options);
  std::vector<Argument> arguments;
  auto allocate = [&](const char *name, uint64_t bytes) {
    uint64_t address = llvm::cantFail(device->allocate(name, bytes));
    llvm::cantFail(device->poison(address, 0xFF, bytes));
    return address;
  };
  std::vector<std::vector<uint16_t>> inputs;
  for (size_t i = 0; i < 3; ++i) {
    const char *name = i == 0 ? "q" : i == 1 ? "k" : "v";
    uint64_t heads = uint64_t(i == 0 ? shape.heads : shape.kvHeads);
    inputs.push_back(makeValues(tokens * heads * dim, i + 1));
    Place place = places[i];
    if (place.strides.empty())
      place = {{heads * dim, dim, 1}, 0, tokens * heads * dim};
    uint64_t buffer = allocate(name, place.elements * 2);
    for (uint64_t t = 0; t < tokens; ++t)
      for (uint64_t h = 0; h < heads; ++h)
        llvm::cantFail(
            device->upload(buffer + 2 * (place.first + t * place.strides[0] +
                                         h * place.strides[1]),
                           &inputs.back()[(t * heads + h) * dim], dim * 2));
    arguments.push_back(Argument::tensor(name, buffer + 2 * place.first,
                                         Element::BF16, {tokens, heads, dim},
                                         2 * (place.elements - place.first)));
    arguments.back().strides = places[i].strides;
  }
  uint64_t list = allocate("work", work.items.size() * 16);
  llvm::cantFail(
      device->upload(list, work.items.data(), work.items.size() * 16));
  arguments.push_back(
      Argument::tensor("work", list, Element::I32, {work.items.size(), 4}));

  auto q = numerics::quantizeTokenLocal(inputs[0].data(), packed, true);
  auto k = numerics::quantizeTokenLocal(inputs[1].data(), kvPacked, true);
  auto v = numerics::quantizeTokenBlock(inputs[2].data(), kvPacked);
  struct Output {
    const char *name;
    const std::vector<uint8_t> &expected;
    int64_t heads;
    bool isPayload;
    uint64_t address;
  };
  std::vector<Output> outputs = {
      {"q_data", q.payload, shape.heads, true, 0},
      {"q_scale", q.scales, shape.heads, false, 0},
      {"k_data", k.payload, shape.kvHeads, true, 0},
      {"k_scale", k.scales, shape.kvHeads, false, 0},
      {"v_data", v.payload, shape.kvHeads, true, 0},
      {"v_scale_rows", v.scalesAlongRows, shape.kvHeads, false, 0},
      {"v_scale_cols", v.scalesAlongCols, shape.kvHeads, false, 0}};
  for (Output &output : outputs) {
    output.address = allocate(output.name, output.expected.size());
    std::vector<uint64_t> extents = {output.isPayload ? tokens : tiles,
                                     uint64_t(output.heads),
                                     output.isPayload ? dim : 512};
    arguments.push_back(Argument::tensor(output.name, output.address,
                                         output.isPayload ? Element::F8E4M3FN
                                                          : Element::F8E8M0FNU,
                                         extents, output.expected.size()));
  }
  KernelLibrary library = llvm::cantFail(KernelLibrary::open(kernelFolder));
  std::unique_ptr<Kernel> kernel = llvm::cantFail(device->load(*llvm::cantFail(
      library.find("quantize_qkv", "", {{"head_dim", std::to_string(dim)}}))));
  llvm::Expected<std::unique_ptr<PreparedLaunch>> launch =
      kernel->prepare(arguments);
  ASSERT_TRUE(bool(launch)) << llvm::toString(launch.takeError());
  ASSERT_EQ(llvm::toString((*launch)->launch()), "");
  for (const Output &output : outputs) {
    std::vector<uint8_t> bytes(output.expected.size());
    llvm::cantFail(
        device->download(bytes.data(), output.address, bytes.size()));
    EXPECT_TRUE(bytes == output.expected) << output.name;
  }
}

const Shape equalHeads{{33, 0, 1, 130}, 2, 2, 64};
const Shape sharedHeads{{129, 31}, 3, 1, 128};
constexpr uint64_t equalTokens = 164, sharedTokens = 160;

} // namespace

TEST(Quantize, FusedMatchesNumerics) {
  expectBytes(equalHeads, {{}, {}, {}});
  expectBytes(sharedHeads, {{}, {}, {}});
}

TEST(Quantize, FusedQkvTensor) {
  // [tokens, 3, 2, 64].
  uint64_t elements = equalTokens * 384;
  expectBytes(equalHeads, {{{384, 64, 1}, 0, elements},
                           {{384, 64, 1}, 128, elements},
                           {{384, 64, 1}, 256, elements}});
}

TEST(Quantize, PaddedRowsAndHeadsOutside) {
  // Rows with 8 elements between them; [heads, tokens, 128]; one head with rows
  // as far apart as those of three.
  expectBytes(sharedHeads,
              {{{392, 128, 1}, 0, sharedTokens * 392},
               {{128, sharedTokens * 128, 1}, 0, sharedTokens * 128},
               {{384, 128, 1}, 256, sharedTokens * 384}});
}

TEST(Quantize, ForwardOnOneTensor) {
  // The same numbers, once as three tensors and once inside one.
  KernelRunner runner(1, 1, 64);
  Device &device = *runner.device;
  std::vector<int64_t> offsets = {0, 3, 140};
  constexpr uint64_t tokens = 140, dim = 64, size = tokens * dim;
  std::vector<uint16_t> values = makeValues(3 * size, 7), fused(3 * size);
  for (uint16_t &value : values)
    value = uint16_t((value & 0x80FF) | 0x3F00);
  for (uint64_t i = 0; i < 3 * size; ++i)
    fused[i % size / dim * 3 * dim + i / size * dim + i % dim] = values[i];
  WorkspaceLayout layout =
      llvm::cantFail(queryWorkspace(runner.forward->config(), offsets));
  std::vector<std::vector<uint16_t>> results;
  for (bool isFused : {false, true}) {
    uint64_t base = llvm::cantFail(device.allocate("qkv", 6 * size));
    llvm::cantFail(
        device.upload(base, isFused ? fused.data() : values.data(), 6 * size));
    ForwardTensors tensors;
    uint64_t step = isFused ? 2 * dim : 2 * size;
    tensors.q = base;
    tensors.k = base + step;
    tensors.v = base + 2 * step;
    if (isFused)
      tensors.qStrides = tensors.kStrides = tensors.vStrides = {3 * dim, dim};
    tensors.o = llvm::cantFail(device.allocate("o", 2 * size));
    tensors.lse = llvm::cantFail(device.allocate("lse", 4 * tokens));
    tensors.workspace =
        llvm::cantFail(device.allocate("workspace", layout.bytes));
    tensors.workspaceBytes = layout.bytes;
    std::unique_ptr<ForwardPlan> plan =
        llvm::cantFail(runner.forward->prepare(offsets, tensors));
    ASSERT_EQ(llvm::toString(plan->launch()), "");
    results.emplace_back(size);
    llvm::cantFail(device.download(results.back().data(), tensors.o, 2 * size));
    if (!isFused)
      continue;
    tensors.qStrides = {3 * dim + 4, dim};
    EXPECT_EQ(
        llvm::toString(runner.forward->prepare(offsets, tensors).takeError()),
        "argument 'q' has stride 196 in dimension 0, which is 392 bytes and "
        "not a multiple of 16");
  }
  EXPECT_TRUE(results[0] == results[1]);
}
