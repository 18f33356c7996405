//===- MemoryTest.cpp - Buffers, offsets and parts of the grid ------------===//
//
// VAR-4 (rows after the pack), VAR-3 (workspace contents), IDX-3 (many tokens),
// SCH-2 (parts of the grid), one workspace for everything.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include <cmath>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;
using namespace flamia::runtime;

namespace {

/// A forward through the plain host API: one workspace, tensors with room after
/// the pack, and chosen bytes in all of it.
struct RawForward {
  int64_t extraRows = 0;
  uint16_t tailBits = 0;         ///< What K and V hold after the pack.
  uint8_t workspaceByte = 0xFF;  ///< What outputs and workspace hold before.
  bool definedWorkspace = false; ///< Uploaded, so that reading it is legal.

  ForwardOutputs run(KernelRunner &runner, const AttentionInputs &inputs) {
    Device &device = *runner.device;
    const AttentionShape &shape = inputs.shape;
    WorkspaceLayout layout =
        needed(queryWorkspace(runner.forward->config(), shape.cuSeqlens));
    auto filled = [&](const char *name, std::vector<uint16_t> values,
                      int64_t heads) {
      values.resize(values.size() + size_t(extraRows * heads * shape.headDim),
                    tailBits);
      uint64_t address = needed(device.allocate(name, values.size() * 2));
      needed(device.upload(address, values.data(), values.size() * 2));
      return address;
    };
    auto scratch = [&](const char *name, uint64_t bytes) {
      uint64_t address = needed(device.allocate(name, bytes));
      std::vector<uint8_t> data(bytes, workspaceByte);
      if (definedWorkspace)
        needed(device.upload(address, data.data(), bytes));
      else
        needed(device.poison(address, workspaceByte, bytes));
      return address;
    };
    size_t rows = size_t(shape.tokens() * shape.heads);
    ForwardTensors tensors;
    tensors.q = filled("q", inputs.q, shape.heads);
    tensors.k = filled("k", inputs.k, shape.kvHeads);
    tensors.v = filled("v", inputs.v, shape.kvHeads);
    tensors.o = scratch("o", rows * size_t(shape.headDim) * 2);
    tensors.lse = scratch("lse", rows * 4);
    tensors.workspaceBytes = layout.bytes;
    tensors.workspace = scratch("workspace", layout.bytes);
    std::unique_ptr<ForwardPlan> plan =
        needed(runner.forward->prepare(shape.cuSeqlens, tensors));
    std::string fault = llvm::toString(plan->launch());
    EXPECT_EQ(fault, "");
    ForwardOutputs outputs;
    std::vector<uint16_t> o(rows * size_t(shape.headDim));
    outputs.lse.resize(rows);
    outputs.kappa.resize(rows);
    needed(device.download(o.data(), tensors.o, o.size() * 2));
    needed(device.download(outputs.lse.data(), tensors.lse, rows * 4));
    needed(device.download(outputs.kappa.data(),
                           tensors.workspace + layout.find("kappa")->offset,
                           rows * 4));
    outputs.o.resize(o.size());
    numerics::bf16ToFloat(o.data(), outputs.o.data(), o.size());
    for (uint64_t address : {tensors.q, tensors.k, tensors.v, tensors.o,
                             tensors.lse, tensors.workspace})
      needed(device.release(address));
    return outputs;
  }
};

void expectEqualBits(const ForwardOutputs &a, const ForwardOutputs &b) {
  auto bits = [](const std::vector<float> &values) {
    std::vector<uint32_t> result;
    for (float value : values)
      result.push_back(numerics::bitsOf(value));
    return result;
  };
  EXPECT_EQ(bits(a.o), bits(b.o));
  EXPECT_EQ(bits(a.lse), bits(b.lse));
  EXPECT_EQ(bits(a.kappa), bits(b.kappa));
}

} // namespace

TEST(Memory, Var4RowsAfterThePack) {
  AttentionInputs inputs =
      makeInputs({{0, 200, 350, 397}, 2, 1, 128}, DataKind::Normal, 4);
  KernelRunner runner(2, 1, 128);
  RawForward zero{/*extraRows=*/243, 0};
  ForwardOutputs base = zero.run(runner, inputs);
  for (float value : base.o)
    ASSERT_TRUE(std::isfinite(value));
  for (uint16_t bits : {uint16_t(0x7FC0), uint16_t(0x7F80)}) {
    RawForward tail{243, bits};
    expectEqualBits(base, tail.run(runner, inputs));
  }
}

TEST(Memory, Var3WorkspaceContents) {
  AttentionInputs inputs =
      makeInputs({{0, 5, 135}, 1, 1, 128}, DataKind::Normal, 4);
  KernelRunner runner(1, 1, 128);
  RawForward ones{0, 0, 0xFF, true}, zeros{0, 0, 0x00, true};
  ForwardOutputs base = zeros.run(runner, inputs);
  for (float value : base.o)
    ASSERT_TRUE(std::isfinite(value));
  expectEqualBits(base, ones.run(runner, inputs));
}

TEST(Memory, Sch2GridSizes) {
  // 14 items in launches of 1, 3, 5 and 14 items: the same bits, and a launch
  // of none is no launch.
  AttentionInputs inputs =
      makeInputs({{0, 700, 1100, 1390, 1391}, 1, 1, 64}, DataKind::Normal, 4);
  KernelRunner runner(1, 1, 64);
  Device &device = *runner.device;
  WorkspaceLayout layout =
      needed(queryWorkspace(runner.forward->config(), inputs.shape.cuSeqlens));
  const uint64_t items = 14, rows = 1391, oBytes = rows * 64 * 2;
  ASSERT_EQ(layout.find("work")->extents[0], items);
  auto buffer = [&](const char *name, const void *data, uint64_t bytes) {
    uint64_t address = needed(device.allocate(name, bytes));
    if (data)
      needed(device.upload(address, data, bytes));
    return address;
  };
  ForwardTensors tensors;
  tensors.q = buffer("q", inputs.q.data(), oBytes);
  tensors.k = buffer("k", inputs.k.data(), oBytes);
  tensors.v = buffer("v", inputs.v.data(), oBytes);
  tensors.o = buffer("o", nullptr, oBytes);
  tensors.lse = buffer("lse", nullptr, rows * 4);
  tensors.workspace = buffer("workspace", nullptr, layout.bytes);
  tensors.workspaceBytes = layout.bytes;
  std::unique_ptr<ForwardPlan> plan =
      needed(runner.forward->prepare(inputs.shape.cuSeqlens, tensors));
  ASSERT_EQ(llvm::toString(plan->launchQuantize()), "");
  const ForwardPlan::Step &attention = plan->steps().back();

  std::vector<uint8_t> base;
  for (uint64_t part : {items, uint64_t(1), uint64_t(3), uint64_t(5)}) {
    needed(device.poison(tensors.o, 0xFF, oBytes));
    for (uint64_t first = 0; first <= items; first += part) {
      std::vector<Argument> arguments = attention.arguments;
      for (Argument &argument : arguments)
        if (argument.name == "work") {
          argument.address += first * sizeof(schedule::WorkItem);
          argument.extents[0] = std::min(part, items - first);
        }
      std::unique_ptr<PreparedLaunch> launch =
          needed(attention.kernel->prepare(arguments));
      ASSERT_EQ(llvm::toString(launch->launch()), "");
    }
    std::vector<uint8_t> o(oBytes);
    needed(device.download(o.data(), tensors.o, oBytes));
    if (base.empty())
      base = o;
    EXPECT_EQ(base, o) << "in launches of " << part;
  }
}

namespace {

/// One document of zeros in Q and K and ones in V after `before` tokens of
/// another one; runs the CTA of query tile `tile` of the last document and
/// checks O = 1 and LSE = ln(keys) (IDX-3).
void runOneTile(int64_t before, int64_t length, int64_t tile) {
  std::vector<int64_t> offsets = {0, before, before + length};
  schedule::WorkList work = schedule::buildWorkList(offsets, true);
  uint64_t cta = 0;
  while (work.items[cta].begin != before || work.items[cta].tile != tile ||
         work.items[cta].end == work.items[cta].begin)
    ++cta;
  RunnerOptions options;
  options.sim.ctas = {{cta, cta}};
  KernelRunner runner(1, 1, 128, options);
  Device &device = *runner.device;
  WorkspaceLayout layout =
      needed(queryWorkspace(runner.forward->config(), offsets));

  // Quantized on the host: the point is the attention kernel's addressing.
  AttentionInputs inputs;
  inputs.shape = {offsets, 1, 1, 128};
  size_t elements = size_t(offsets.back()) * 128;
  inputs.q.assign(elements, 0);
  inputs.k.assign(elements, 0);
  inputs.v.assign(elements, 0x3F80);
  QuantizedInputs quantized = quantizeInputs(inputs, {});
  auto uploaded = [&](const char *name, const void *data, uint64_t bytes) {
    uint64_t address = needed(device.allocate(name, bytes));
    needed(device.upload(address, data, bytes));
    return address;
  };
  ForwardTensors tensors;
  tensors.v = uploaded("v", inputs.v.data(), elements * 2);
  tensors.q = tensors.k = tensors.v; // the quantizers do not run
  tensors.o = needed(device.allocate("o", elements * 2));
  tensors.lse = needed(device.allocate("lse", uint64_t(offsets.back()) * 4));
  for (const WorkspaceTensor &tensor : layout.tensors) {
    const void *data = tensor.name == "q_data"    ? quantized.q.payload.data()
                       : tensor.name == "q_scale" ? quantized.q.scales.data()
                       : tensor.name == "k_data"  ? quantized.k.payload.data()
                       : tensor.name == "k_scale" ? quantized.k.scales.data()
                       : tensor.name == "v_data"  ? quantized.v.payload.data()
                       : tensor.name == "v_scale_rows"
                           ? quantized.v.scalesAlongRows.data()
                           : nullptr;
    tensors.pieces.push_back(
        data ? uploaded(tensor.name.c_str(), data, tensor.bytes)
             : needed(device.allocate(tensor.name, tensor.bytes)));
  }
  std::unique_ptr<ForwardPlan> plan =
      needed(runner.forward->prepare(offsets, tensors));
  ASSERT_EQ(llvm::toString(plan->launchAttention()), "");
  int64_t first = before + 128 * tile;
  int64_t rows = std::min<int64_t>(128, offsets.back() - first);
  std::vector<uint16_t> o(size_t(rows) * 128);
  std::vector<float> lse(rows);
  needed(device.download(o.data(), tensors.o + uint64_t(first) * 256,
                         o.size() * 2));
  needed(device.download(lse.data(), tensors.lse + uint64_t(first) * 4,
                         lse.size() * 4));
  for (uint16_t bits : o)
    ASSERT_NEAR(numerics::bf16ToFloat(bits), 1.0f, 0x1p-6f);
  for (int64_t r = 0; r < rows; ++r)
    ASSERT_NEAR(lse[r], std::log(double(128 * tile + r + 1)), 1e-3) << r;
}

} // namespace

TEST(Memory, Idx3LateDocument) { runOneTile(196000, 608, 4); }

TEST(Memory, SlowIdx3LastTileOfALongDocument) { runOneTile(0, 196608, 1535); }
