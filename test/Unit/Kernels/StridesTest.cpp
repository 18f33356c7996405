//===- StridesTest.cpp - Attention on parts of other tensors --------------===//
//
// The same numbers, once in contiguous tensors and once inside others: Q, K and
// V of a fused projection, dO in padded rows, gradients side by side. Results
// must be the same, and nothing beside them is written.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "test/Unit/Reference/TestInputs.h"

#include <algorithm>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::runtime;
using namespace flamia::test;

namespace {

/// A tensor [tokens, heads, dim] inside a buffer.
struct Part {
  uint64_t first = 0; ///< Its first element.
  TokenStrides strides;
  int64_t heads;
};

/// A buffer of BF16 numbers of which tensors are parts; the rest is poison.
class Buffer {
public:
  Buffer(const AttentionShape &shape, uint64_t elements)
      : shape(shape), values(elements, 0xFFFF) {}

  void set(const Part &part, const std::vector<uint16_t> &tensor) {
    size_t i = 0;
    forEach(part, [&](uint64_t at) { values[at] = tensor[i++]; });
  }
  /// Takes the part out: poison is left where it was.
  std::vector<uint16_t> take(const Part &part) {
    std::vector<uint16_t> tensor;
    forEach(part, [&](uint64_t at) {
      tensor.push_back(values[at]);
      values[at] = 0xFFFF;
    });
    return tensor;
  }
  bool isPoison() const {
    return std::all_of(values.begin(), values.end(),
                       [](uint16_t value) { return value == 0xFFFF; });
  }
  uint64_t bytes() const { return 2 * values.size(); }

  const AttentionShape &shape;
  std::vector<uint16_t> values;

private:
  template <typename Visit>
  void forEach(const Part &part, Visit visit) {
    TokenStrides strides = part.strides;
    if (!strides.given())
      strides = {uint64_t(part.heads * shape.headDim), uint64_t(shape.headDim)};
    for (int64_t t = 0; t < shape.tokens(); ++t)
      for (int64_t h = 0; h < part.heads; ++h)
        for (int64_t c = 0; c < shape.headDim; ++c)
          visit(part.first + t * strides.token + h * strides.head + c);
  }
};

/// Where everything of a forward and a backward lies: q, k and v in one buffer,
/// dq, dk and dv in another, each of `elements`; dO in a third.
struct Places {
  Part q, k, v, dO;
  uint64_t elements, dOElements;
};

struct Results {
  std::vector<uint16_t> o, dq, dk, dv;
};

/// Runs forward and backward on the simulator.
Results runBoth(KernelRunner &runner, const BackwardInputs &inputs,
                const Places &places) {
  const AttentionShape &shape = inputs.forward.shape;
  Device &device = *runner.device;
  auto allocate = [&](const char *name, uint64_t bytes) {
    uint64_t address = needed(device.allocate(name, bytes));
    needed(device.poison(address, 0xFF, bytes));
    return address;
  };
  auto uploaded = [&](const char *name, const Buffer &buffer) {
    uint64_t address = allocate(name, buffer.bytes());
    needed(device.upload(address, buffer.values.data(), buffer.bytes()));
    return address;
  };
  Buffer qkv(shape, places.elements), dO(shape, places.dOElements);
  qkv.set(places.q, inputs.forward.q);
  qkv.set(places.k, inputs.forward.k);
  qkv.set(places.v, inputs.forward.v);
  dO.set(places.dO, inputs.dO);
  uint64_t rows = uint64_t(shape.tokens() * shape.heads);
  BackwardTensors tensors;
  ForwardTensors &forward = tensors.forward;
  uint64_t base = uploaded("qkv", qkv);
  forward.q = base + 2 * places.q.first;
  forward.k = base + 2 * places.k.first;
  forward.v = base + 2 * places.v.first;
  forward.qStrides = tensors.dQStrides = places.q.strides;
  forward.kStrides = tensors.dKStrides = places.k.strides;
  forward.vStrides = tensors.dVStrides = places.v.strides;
  Buffer o(shape, rows * uint64_t(shape.headDim));
  forward.o = uploaded("o", o);
  forward.lse = allocate("lse", 4 * rows);
  const AttentionConfig &config = runner.forward->config();
  forward.workspaceBytes =
      needed(queryWorkspace(config, shape.cuSeqlens)).bytes;
  forward.workspace = allocate("workspace", forward.workspaceBytes);
  tensors.dO = uploaded("do", dO) + 2 * places.dO.first;
  tensors.dOStrides = places.dO.strides;
  Buffer gradients(shape, places.elements);
  uint64_t gradientBase = uploaded("gradients", gradients);
  tensors.dQ = gradientBase + 2 * places.q.first;
  tensors.dK = gradientBase + 2 * places.k.first;
  tensors.dV = gradientBase + 2 * places.v.first;
  tensors.workspaceBytes =
      needed(queryBackwardWorkspace(config, shape.cuSeqlens)).bytes;
  tensors.workspace = allocate("backward workspace", tensors.workspaceBytes);

  Results results;
  llvm::Expected<std::unique_ptr<ForwardPlan>> forwardPlan =
      runner.forward->prepare(shape.cuSeqlens, forward);
  llvm::Expected<std::unique_ptr<BackwardPlan>> plan =
      runner.backward->prepare(shape.cuSeqlens, tensors);
  auto check = [](llvm::Error error) {
    EXPECT_EQ(llvm::toString(std::move(error)), "");
  };
  check(forwardPlan ? (*forwardPlan)->launch() : forwardPlan.takeError());
  check(plan ? (*plan)->launch() : plan.takeError());
  check(device.download(o.values.data(), forward.o, o.bytes()));
  check(device.download(gradients.values.data(), gradientBase,
                        gradients.bytes()));
  results.o = o.values;
  results.dq = gradients.take(places.q);
  results.dk = gradients.take(places.k);
  results.dv = gradients.take(places.v);
  EXPECT_TRUE(gradients.isPoison());
  return results;
}

} // namespace

TEST(Strides, PartsOfOtherTensorsGiveTheSame) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({3, 137}, 2, 1, 64), DataKind::LlmLike, 71);
  const uint64_t tokens = 140, dim = 64;
  const Places places[] = {
      // Each tensor for itself.
      {{0, {}, 2},
       {2 * tokens * dim, {}, 1},
       {3 * tokens * dim, {}, 1},
       {0, {}, 2},
       4 * tokens * dim,
       2 * tokens * dim},
      // [tokens, 2 + 1 + 1, dim] with 8 elements of padding at each row's end,
      // and dO in padded rows.
      {{0, {4 * dim + 8, dim}, 2},
       {2 * dim, {4 * dim + 8, dim}, 1},
       {3 * dim, {4 * dim + 8, dim}, 1},
       {16, {3 * dim, dim + 8}, 2},
       tokens * (4 * dim + 8),
       tokens * 3 * dim + 16},
      // V before the two, Q's heads apart with K between them, dO by heads.
      {{dim, {4 * dim, 2 * dim}, 2},
       {2 * dim, {4 * dim, 2 * dim}, 1},
       {0, {4 * dim, 2 * dim}, 1},
       {0, {dim, tokens * dim}, 2},
       4 * tokens * dim,
       2 * tokens * dim}};
  for (runtime::Format format :
       {runtime::Format::Mxfp8, runtime::Format::Nvfp4}) {
    RunnerOptions options;
    options.format = format;
    Results base;
    for (const Places &place : places) {
      SCOPED_TRACE(runtime::nameOf(format).str() + " layout " +
                   std::to_string(&place - places));
      KernelRunner runner = backwardRunner(inputs, options);
      Results results = runBoth(runner, inputs, place);
      if (base.o.empty())
        base = results;
      EXPECT_TRUE(results.o == base.o);
      EXPECT_TRUE(results.dq == base.dq);
      EXPECT_TRUE(results.dk == base.dk);
      EXPECT_TRUE(results.dv == base.dv);
    }
    // The base is the one that other tests compare with the model.
    KernelRunner runner = backwardRunner(inputs, options);
    auto [forward, backward] = runner.run(inputs);
    for (auto [found, wanted] : {std::pair(&base.o, &forward.outputs.o),
                                 std::pair(&base.dq, &backward.gradients.dq),
                                 std::pair(&base.dk, &backward.gradients.dk),
                                 std::pair(&base.dv, &backward.gradients.dv)}) {
      std::vector<float> values(found->size());
      numerics::bf16ToFloat(found->data(), values.data(), found->size());
      EXPECT_TRUE(values == *wanted);
    }
  }
}

TEST(Strides, RefusesRowsThatAreNotAligned) {
  KernelRunner runner(1, 1, 64);
  ForwardTensors tensors;
  std::vector<int64_t> offsets = {0, 3};
  tensors.workspaceBytes =
      needed(queryWorkspace(runner.forward->config(), offsets)).bytes;
  auto place = [&](uint64_t bytes) {
    return needed(runner.device->allocate("tensor", bytes));
  };
  tensors.workspace = place(tensors.workspaceBytes);
  for (uint64_t *address : {&tensors.q, &tensors.k, &tensors.v, &tensors.o})
    *address = place(3 * 64 * 2);
  tensors.lse = place(12);
  tensors.qStrides = {3 * 64 + 4, 64};
  EXPECT_EQ(
      llvm::toString(runner.forward->prepare(offsets, tensors).takeError()),
      "argument 'q' has stride 196 in dimension 0, which is 392 bytes and "
      "not a multiple of 16");
}
