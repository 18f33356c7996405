//===- OrderTest.cpp - Results do not depend on the order of CTAs ---------===//
//
// The kernels of forward and backward with other work lists and other groups
// of heads: every byte that they write is the same. Surplus entries do nothing.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;
using namespace flamia::runtime;

namespace {

/// Everything that a forward and a backward write, by step and argument.
using Written = std::map<std::string, std::vector<uint8_t>>;

/// Memory and plans of one problem, to be launched in several ways.
class Problem {
public:
  Problem(KernelRunner &runner, const BackwardInputs &inputs)
      : device(*runner.device) {
    const AttentionShape &shape = inputs.forward.shape;
    uint64_t tokens = uint64_t(shape.tokens());
    uint64_t row = uint64_t(shape.headDim) * 2;
    BackwardTensors tensors;
    ForwardTensors &forward = tensors.forward;
    forward.q = filled("q", inputs.forward.q);
    forward.k = filled("k", inputs.forward.k);
    forward.v = filled("v", inputs.forward.v);
    forward.o = room("o", tokens * uint64_t(shape.heads) * row);
    forward.lse = room("lse", tokens * uint64_t(shape.heads) * 4);
    WorkspaceLayout layout =
        needed(queryWorkspace(runner.forward->config(), shape.cuSeqlens));
    for (const WorkspaceTensor &tensor : layout.tensors)
      forward.pieces.push_back(room(tensor.name, tensor.bytes));
    tensors.dO = filled("do", inputs.dO);
    tensors.dQ = room("dq", tokens * uint64_t(shape.heads) * row);
    tensors.dK = room("dk", tokens * uint64_t(shape.kvHeads) * row);
    tensors.dV = room("dv", tokens * uint64_t(shape.kvHeads) * row);
    WorkspaceLayout own = needed(
        queryBackwardWorkspace(runner.backward->config(), shape.cuSeqlens));
    for (const WorkspaceTensor &tensor : own.tensors)
      tensors.pieces.push_back(room(tensor.name, tensor.bytes));
    forwardPlan = needed(runner.forward->prepare(shape.cuSeqlens, forward));
    plan = needed(runner.backward->prepare(shape.cuSeqlens, tensors));
  }

  const schedule::WorkList &workList() const { return forwardPlan->workList(); }

  /// All steps with this work list. Groups of heads: as many as `groupsOf`
  /// says of an extent of the grid's y axis; without it as the library
  /// launches. `parts` CTAs share a kv head's query heads where they can.
  Written run(const std::vector<schedule::WorkItem> &items,
              std::function<uint32_t(uint64_t)> groupsOf = nullptr,
              uint32_t parts = 1) {
    uint64_t bytes = items.size() * sizeof(schedule::WorkItem);
    uint64_t list = room("list", bytes);
    needed(device.upload(list, items.data(), bytes));
    Written written;
    for (LaunchPlan *half : {static_cast<LaunchPlan *>(forwardPlan.get()),
                             static_cast<LaunchPlan *>(plan.get())})
      for (const LaunchPlan::Step &step : half->steps()) {
        const LaunchRecord &record = step.kernel->record();
        std::vector<Argument> arguments = step.arguments;
        for (Argument &argument : arguments) {
          if (argument.name == "work") {
            argument.address = list;
            argument.extents[0] = items.size();
            argument.bytes = bytes;
          } else if (isWritten(record, argument)) {
            needed(device.poison(argument.address, 0xFF, argument.bytes));
          }
        }
        GridChoice choice;
        if (record.grid[2].isAny)
          choice.z = parts;
        if (groupsOf && record.groupsY) {
          const GridExtent &y = record.grid[1];
          choice.yGroups = groupsOf(llvm::divideCeil(
              step.arguments[y.argument].extents[y.dim], y.tile));
        }
        std::unique_ptr<PreparedLaunch> launch;
        if (groupsOf)
          launch = needed(step.kernel->prepare(arguments, choice));
        EXPECT_EQ(
            llvm::toString(launch ? launch->launch() : step.prepared->launch()),
            "");
        for (const Argument &argument : arguments) {
          if (!isWritten(record, argument))
            continue;
          std::vector<uint8_t> &data = written[step.name + " " + argument.name];
          data.resize(argument.bytes);
          needed(device.download(data.data(), argument.address, data.size()));
        }
      }
    return written;
  }

private:
  static bool isWritten(const LaunchRecord &record, const Argument &argument) {
    return argument.isTensor &&
           record.arguments[record.findArgument(argument.name)].access !=
               Access::Read;
  }
  uint64_t room(llvm::StringRef name, uint64_t bytes) {
    uint64_t address = needed(device.allocate(name, bytes));
    needed(device.poison(address, 0xFF, bytes));
    return address;
  }
  uint64_t filled(llvm::StringRef name, const std::vector<uint16_t> &values) {
    uint64_t address = room(name, values.size() * 2);
    needed(device.upload(address, values.data(), values.size() * 2));
    return address;
  }

  Device &device;
  std::unique_ptr<ForwardPlan> forwardPlan;
  std::unique_ptr<BackwardPlan> plan;
};

void expectSame(const Written &base, const Written &other) {
  ASSERT_EQ(base.size(), other.size());
  for (const auto &[name, data] : base)
    EXPECT_TRUE(data == other.at(name)) << name;
}

void checkOrders(const AttentionShape &shape, bool causal, unsigned seed) {
  BackwardInputs inputs = makeBackwardInputs(shape, DataKind::Normal, seed);
  RunnerOptions options;
  options.causal = causal;
  KernelRunner runner = backwardRunner(inputs, options);
  Problem problem(runner, inputs);
  std::vector<schedule::WorkItem> items = problem.workList().items;
  Written base = problem.run(items);
  ASSERT_GE(base.size(), 20u);

  std::mt19937 random(seed);
  std::shuffle(items.begin(), items.end(), random);
  auto each = [](uint64_t heads) { return uint32_t(heads); };
  auto all = [](uint64_t) { return 1u; };
  expectSame(base, problem.run(items, each));
  std::reverse(items.begin(), items.end());
  // Entries without a token: none at all, and past the end of a document.
  items.insert(items.begin(), {{0, 0, 0, 0}, {5, 5, 0, 0}});
  items.insert(items.begin() + 3, {0, 128, 1, 0});
  items.insert(items.end(), 3, {0, 0, 0, 0});
  expectSame(base, problem.run(items, all));
  auto two = [](uint64_t heads) { return heads % 2 ? 1u : 2u; };
  expectSame(base, problem.run(items, two));
  // As many parts as heads, parts of unequal size, and parts without a head.
  for (uint32_t parts : {2, 3, 4, 7})
    expectSame(base, problem.run(items, all, parts));
}

} // namespace

TEST(Order, CausalResultsAreTheSame) {
  checkOrders({{0, 300, 300, 429, 446}, 8, 2, 64}, true, 1);
}

TEST(Order, ResultsWithoutCausalityAreTheSame) {
  checkOrders({{0, 257, 300}, 2, 1, 64}, false, 2);
}
