//===- DeviceListTest.cpp - cu_seqlens that only the device knows ---------===//
//
// The work list that the device makes is the host's, bit for bit; a forward and
// a backward with it give the same results; illegal entries touch nothing.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include <random>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;
using namespace flamia::runtime;

namespace {

/// Tensors of a forward and a backward with offsets on the device; everything
/// has its own allocation, so that the simulator sees any access past an end.
class Problem {
public:
  Problem(KernelRunner &runner, const std::vector<int32_t> &cuSeqlens,
          int64_t tokens, bool backward = false)
      : runner(runner), device(*runner.device) {
    const AttentionConfig &config = runner.forward->config();
    offsets.documents = int64_t(cuSeqlens.size()) - 1;
    offsets.tokens = tokens;
    offsets.address = room("cu_seqlens", cuSeqlens.size() * 4);
    needed(
        device.upload(offsets.address, cuSeqlens.data(), cuSeqlens.size() * 4));
    layout = needed(queryDeviceWorkspace(config, offsets));
    uint64_t query = uint64_t(tokens * config.heads * config.headDim * 2);
    uint64_t key = uint64_t(tokens * config.kvHeads * config.headDim * 2);
    ForwardTensors &forward = tensors.forward;
    forward.q = room("q", query);
    forward.k = room("k", key);
    forward.v = room("v", key);
    forward.o = room("o", query);
    forward.lse = room("lse", uint64_t(tokens * config.heads) * 4);
    for (const WorkspaceTensor &tensor : layout.tensors)
      forward.pieces.push_back(room(tensor.name, tensor.bytes));
    plan = needed(runner.forward->prepareFromDevice(offsets, forward));
    if (!backward)
      return;
    tensors.dO = room("do", query);
    tensors.dQ = room("dq", query);
    tensors.dK = room("dk", key);
    tensors.dV = room("dv", key);
    WorkspaceLayout own = needed(queryDeviceBackwardWorkspace(config, offsets));
    for (const WorkspaceTensor &tensor : own.tensors)
      tensors.pieces.push_back(room(tensor.name, tensor.bytes));
    backwardPlan = needed(runner.backward->prepareFromDevice(offsets, tensors));
  }
  ~Problem() {
    for (uint64_t address : addresses)
      needed(device.release(address));
  }

  /// Launches the steps that make the list.
  void makeList() {
    ASSERT_EQ(plan->steps()[0].name, "order_documents");
    ASSERT_EQ(plan->steps()[1].name, "build_work_list");
    for (int step = 0; step < 2; ++step)
      ASSERT_EQ(llvm::toString(plan->steps()[step].prepared->launch()), "");
  }

  template <typename T>
  std::vector<T> read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    needed(device.download(values.data(), address, count * sizeof(T)));
    return values;
  }
  std::vector<int32_t> piece(llvm::StringRef name) {
    const WorkspaceTensor *tensor = layout.find(name);
    return read<int32_t>(tensors.forward.pieces[tensor - layout.tensors.data()],
                         tensor->bytes / 4);
  }

  KernelRunner &runner;
  Device &device;
  DeviceOffsets offsets;
  WorkspaceLayout layout;
  BackwardTensors tensors;
  std::unique_ptr<ForwardPlan> plan;
  std::unique_ptr<BackwardPlan> backwardPlan;

private:
  uint64_t room(llvm::StringRef name, uint64_t bytes) {
    addresses.push_back(needed(device.allocate(name, bytes)));
    needed(device.poison(addresses.back(), 0xFF, bytes));
    return addresses.back();
  }
  std::vector<uint64_t> addresses;
};

KernelRunner listRunner(bool causal, int64_t heads = 1) {
  RunnerOptions options;
  options.causal = causal;
  return KernelRunner(heads, heads, 64, options);
}

/// True if the list's second wave is dealt.
bool checkList(KernelRunner &runner, const std::vector<int32_t> &cuSeqlens,
               int64_t tokens) {
  Problem problem(runner, cuSeqlens, tokens);
  problem.makeList();
  std::vector<int64_t> wide(cuSeqlens.begin(), cuSeqlens.end());
  const AttentionConfig &config = runner.forward->config();
  schedule::LaunchSize size = {runner.device->sms(), config.kvHeads};
  schedule::WorkList expected =
      schedule::buildWorkList(wide, config.causal, size);
  std::vector<int32_t> flat;
  for (const schedule::WorkItem &item : expected.items)
    flat.insert(flat.end(), {item.begin, item.end, item.tile, item.scaleBase});
  std::vector<int32_t> work = problem.piece("work");
  EXPECT_GE(work.size(), flat.size());
  flat.resize(work.size(), 0);
  EXPECT_EQ(work, flat);
  std::vector<int32_t> state = problem.piece("list_state");
  EXPECT_EQ(state[0], int32_t(expected.items.size()));
  EXPECT_EQ(state[3], 0);
  schedule::WorkList longest = schedule::buildWorkList(wide, config.causal);
  schedule::SecondWave deal = schedule::dealSecondWave(longest.items, size);
  bool isDealt = config.causal && deal.block > 1;
  if (isDealt) {
    EXPECT_EQ(std::vector<int32_t>(state.begin() + 4, state.end()),
              (std::vector<int32_t>{int32_t(deal.first), int32_t(deal.end),
                                    int32_t(deal.block), 0}));
  }
  return isDealt;
}

void expectIllegal(KernelRunner &runner, const std::vector<int32_t> &cuSeqlens,
                   int64_t tokens) {
  Problem problem(runner, cuSeqlens, tokens);
  problem.makeList();
  std::vector<int32_t> work = problem.piece("work");
  EXPECT_EQ(work, std::vector<int32_t>(work.size(), 0));
  std::vector<int32_t> state = problem.piece("list_state");
  EXPECT_EQ(state[0], 0);
  EXPECT_EQ(state[3], 1);
}

std::vector<int32_t> offsetsOf(const std::vector<int32_t> &lengths) {
  std::vector<int32_t> offsets = {0};
  for (int32_t length : lengths)
    offsets.push_back(offsets.back() + length);
  return offsets;
}

} // namespace

TEST(DeviceList, IsTheHosts) {
  for (bool causal : {true, false}) {
    KernelRunner runner = listRunner(causal);
    for (const std::vector<int32_t> &lengths :
         {std::vector<int32_t>{},
          {0},
          {0, 0, 0},
          {1},
          {128},
          {129},
          {300, 0, 1, 256},
          {512, 512, 512},
          // More tiles than one digit of the sort holds.
          {5, 128 * 257, 0, 128 * 256, 128 * 255, 1}})
      checkList(runner, offsetsOf(lengths),
                std::max(1, offsetsOf(lengths).back()));
    std::mt19937 random(7);
    for (auto [count, most] : {std::pair<size_t, uint32_t>{1500, 32},
                               {1100, 20},
                               {90, 700},
                               {33, 3000},
                               {12, 9000}}) {
      std::vector<int32_t> lengths(count);
      for (int32_t &length : lengths)
        length = int32_t(random() % most);
      std::vector<int32_t> offsets = offsetsOf(lengths);
      // There may be room for more tokens.
      checkList(runner, offsets, offsets.back() + int(count) % 2 * 100);
    }
  }
}

TEST(DeviceList, DealsTheSameSecondWave) {
  std::vector<int32_t> mixed = {900, 58000, 0, 100};
  mixed.insert(mixed.end(), 300, 64);
  std::unique_ptr<KernelRunner> runner;
  for (auto [heads, lengths, isDealt] :
       {std::tuple<int64_t, std::vector<int32_t>, bool>{1, {65536}, true},
        {1, {16384, 16384, 0, 16384, 16384}, true},
        {1, {16384, 16384, 16384, 16384}, true},
        {1, mixed, true},
        {1, {60000, 5, 2001}, true},
        {1, {296 * 128}, false},
        {1, std::vector<int32_t>(256, 512), false},
        {3, {20000, 1}, true},
        {17, {33 * 1117}, false}}) {
    if (!runner || runner->forward->config().kvHeads != heads)
      runner = std::make_unique<KernelRunner>(listRunner(true, heads));
    std::vector<int32_t> offsets = offsetsOf(lengths);
    EXPECT_EQ(checkList(*runner, offsets, offsets.back()), isDealt)
        << heads << " heads, " << offsets.back() << " tokens";
  }
  KernelRunner notCausal = listRunner(false);
  EXPECT_FALSE(checkList(notCausal, {0, 65536}, 65536));
}

TEST(DeviceList, IllegalOffsetsTouchNothing) {
  KernelRunner runner = listRunner(true);
  expectIllegal(runner, {0, 5, 3, 9}, 9);
  expectIllegal(runner, {0, -5, 9}, 9);
  expectIllegal(runner, {1, 9}, 9);
  expectIllegal(runner, {-1, 9}, 9);
  expectIllegal(runner, {0, 5, 10}, 9);
  expectIllegal(runner, {5}, 9);
  expectIllegal(runner, {0, INT32_MAX, INT32_MIN}, 9);
  expectIllegal(runner, {INT32_MIN, INT32_MAX}, 9);
  std::mt19937 random(8);
  for (size_t count : {2, 40, 3000}) {
    std::vector<int32_t> noise(count);
    for (int32_t &value : noise)
      value = int32_t(random());
    noise[0] = 0;
    noise[1] = -1;
    expectIllegal(runner, noise, 5000);
  }
}

TEST(DeviceList, IllegalOffsetsLeaveOutputsAlone) {
  KernelRunner runner(2, 1, 64);
  Problem problem(runner, {0, 200, 100, 300}, 300);
  ASSERT_EQ(llvm::toString(problem.plan->launch()), "");
  std::vector<uint8_t> o =
      problem.read<uint8_t>(problem.tensors.forward.o, 300 * 2 * 64 * 2);
  EXPECT_EQ(o, std::vector<uint8_t>(o.size(), 0xFF));
}

TEST(DeviceList, ForwardAndBackwardAreTheSame) {
  // Rows after the last token and empty documents behind the last one: what a
  // caller with buffers of fixed size has.
  BackwardInputs inputs = makeBackwardInputs(
      {{0, 300, 300, 429, 446}, 4, 2, 64}, DataKind::Normal, 5);
  const AttentionShape &shape = inputs.forward.shape;
  KernelRunner runner = backwardRunner(inputs);
  auto [forward, gradients] = runner.run(inputs);
  Problem problem(runner, {0, 300, 300, 429, 446, 446, 446}, 500, true);
  auto upload = [&](uint64_t address, const std::vector<uint16_t> &values) {
    needed(runner.device->upload(address, values.data(), values.size() * 2));
  };
  const ForwardTensors &to = problem.tensors.forward;
  upload(to.q, inputs.forward.q);
  upload(to.k, inputs.forward.k);
  upload(to.v, inputs.forward.v);
  upload(problem.tensors.dO, inputs.dO);
  // Twice: nothing of a launch may stay behind for the next.
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(llvm::toString(problem.plan->launch()), "");
    ASSERT_EQ(llvm::toString(problem.backwardPlan->launch()), "");
  }
  auto expectSame = [&](uint64_t address, const std::vector<float> &expected) {
    std::vector<uint16_t> bits =
        problem.read<uint16_t>(address, expected.size());
    std::vector<float> values(bits.size());
    numerics::bf16ToFloat(bits.data(), values.data(), bits.size());
    size_t different = 0;
    for (size_t i = 0; i < values.size(); ++i)
      different += numerics::bitsOf(values[i]) != numerics::bitsOf(expected[i]);
    EXPECT_EQ(different, 0u);
  };
  expectSame(to.o, forward.outputs.o);
  expectSame(problem.tensors.dQ, gradients.gradients.dq);
  expectSame(problem.tensors.dK, gradients.gradients.dk);
  expectSame(problem.tensors.dV, gradients.gradients.dv);
  std::vector<float> lse =
      problem.read<float>(to.lse, size_t(shape.tokens() * shape.heads));
  EXPECT_EQ(lse, forward.outputs.lse);
  // Nothing was written behind the last token.
  uint64_t row = uint64_t(shape.heads * shape.headDim) * 2;
  std::vector<uint8_t> rest = problem.read<uint8_t>(
      to.o + uint64_t(shape.tokens()) * row, size_t(54 * row));
  EXPECT_EQ(rest, std::vector<uint8_t>(rest.size(), 0xFF));
}

TEST(DeviceList, WorkspaceByBounds) {
  AttentionConfig config;
  config.heads = 4;
  config.kvHeads = 2;
  auto errorOf = [&](DeviceOffsets offsets) {
    llvm::Expected<WorkspaceLayout> layout =
        queryDeviceWorkspace(config, offsets);
    return layout ? "" : llvm::toString(layout.takeError());
  };
  // 3 documents of 300 tokens have at most 5 tiles: 298, 1, 1.
  WorkspaceLayout layout = needed(queryDeviceWorkspace(config, {16, 3, 300}));
  EXPECT_EQ(layout.find("work")->extents[0], 5u);
  EXPECT_EQ(layout.find("document_order")->bytes, 24u);
  EXPECT_EQ(layout.find("list_state")->bytes, 32u);
  for (const char *name : {"document_order", "document_scale_base",
                           "document_steps", "list_state"})
    EXPECT_FALSE(layout.find(name)->saved) << name;
  // Host offsets of the same documents need no more.
  EXPECT_LE(needed(queryWorkspace(config, {0, 298, 299, 300})).bytes,
            layout.bytes);
  EXPECT_EQ(errorOf({16, -1, 300}),
            "documents is -1, expected 0 to 2147483646");
  EXPECT_EQ(errorOf({16, 1, -1}), "tokens is -1, expected 0 to 2147483647");
  EXPECT_EQ(errorOf({16, 1, int64_t(1) << 31}),
            "tokens is 2147483648, expected 0 to 2147483647");
}
