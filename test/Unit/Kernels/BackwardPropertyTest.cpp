//===- BackwardPropertyTest.cpp - P1, P2 and P3 of the backward -----------===//
//
// Causal safety, document isolation and consistency of the compiled backward,
// bit for bit, with negative controls that must fail the same probes; what
// workspaces and memory around tensors hold.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "test/Unit/Reference/Exp2Problems.h"
#include "test/Unit/Reference/TestInputs.h"

#include <cmath>
#include <map>

using namespace flamia;
using namespace flamia::reference;
using namespace flamia::test;
using namespace flamia::runtime;

namespace {

/// One random problem with past tiles.
BackwardInputs randomInputs(uint64_t seed, int64_t maxTokens) {
  Random random(seed, 79);
  const std::pair<int64_t, int64_t> headCounts[] = {{1, 1}, {2, 1}, {2, 2}};
  auto [heads, kvHeads] = headCounts[random.nextBelow(3)];
  std::vector<int64_t> lengths =
      randomLengths(random, 1 + random.nextBelow(4), maxTokens - 440);
  lengths.insert(lengths.begin() +
                     random.nextBelow(int64_t(lengths.size() + 1)),
                 384 + random.nextBelow(56));
  AttentionShape shape =
      shapeOf(lengths, heads, kvHeads, random.nextBelow(2) ? 64 : 128);
  BackwardInputs inputs =
      makeBackwardInputs(shape, DataKind(random.nextBelow(4)), seed);
  if (random.nextBelow(2))
    inputs.dLse = makeGradientOfLse(shape, seed);
  return inputs;
}

void probeMixes(uint64_t firstSeed, uint64_t count, int64_t maxTokens,
                size_t cutsEach,
                runtime::Format format = runtime::Format::Mxfp8) {
  for (uint64_t seed = firstSeed; seed < firstSeed + count; ++seed) {
    BackwardInputs inputs = randomInputs(seed, maxTokens);
    std::string text = "seed " + std::to_string(seed) + " head_dim " +
                       std::to_string(inputs.forward.shape.headDim) +
                       " documents";
    for (int64_t d = 0; d < inputs.forward.shape.documents(); ++d)
      text += " " + std::to_string(inputs.forward.shape.length(d));
    SCOPED_TRACE(text);
    RunnerOptions options;
    options.format = format;
    KernelRunner runner = backwardRunner(inputs, options);
    std::vector<int64_t> cuts = gradientCuts(inputs.forward.shape);
    Random random(seed, 80);
    while (cuts.size() > cutsEach)
      cuts.erase(cuts.begin() + random.nextBelow(int64_t(cuts.size())));
    ProbeResult causal =
        probeGradientCausal(inputs, runner.backwardFunction(), cuts);
    EXPECT_TRUE(causal.ok) << causal.detail;
    ProbeResult documents =
        probeGradientDocuments(inputs, runner.backwardFunction(), 1);
    EXPECT_TRUE(documents.ok) << documents.detail;
    EXPECT_GT(causal.valuesCompared, 50000);
    EXPECT_GT(documents.valuesCompared, 100000);
  }
}

} // namespace

TEST(BackwardProperties, RandomMixes) { probeMixes(1, 2, 600, 1); }

TEST(BackwardProperties, Nvfp4RandomMixes) {
  probeMixes(11, 1, 600, 1, runtime::Format::Nvfp4);
}

TEST(BackwardProperties, SlowRandomMixes) {
  probeMixes(1000, 20, 1000, 3);
  probeMixes(2000, 20, 1000, 3, runtime::Format::Nvfp4);
}

TEST(BackwardProperties, FullAttentionFailsTheCausalProbe) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({40}, 1, 1, 64), DataKind::Normal, 5);
  RunnerOptions options;
  options.causal = false;
  KernelRunner runner = backwardRunner(inputs, options);
  ProbeResult probe =
      probeGradientCausal(inputs, runner.backwardFunction(), {20});
  EXPECT_FALSE(probe.ok);
  EXPECT_EQ(probe.failedOutputs, (std::vector<std::string>{"dQ", "dK", "dV"}));
}

TEST(BackwardProperties, MergedDocumentsFailTheDocumentProbe) {
  // The kernels are told of one document where the caller has several.
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({50, 40}, 1, 1, 64), DataKind::Normal, 5);
  KernelRunner runner = backwardRunner(inputs);
  BackwardFunction backward = runner.backwardFunction();
  ProbeResult probe = probeGradientDocuments(
      inputs, [&](const BackwardInputs &given, ForwardOutputs &outputs,
                  Gradients &gradients, std::string &error) {
        BackwardInputs merged = given;
        merged.forward.shape.cuSeqlens = {0, given.forward.shape.tokens()};
        return backward(merged, outputs, gradients, error);
      });
  EXPECT_FALSE(probe.ok);
  EXPECT_EQ(probe.failedOutputs.size(), 3u);
}

TEST(BackwardProperties, Consistency) {
  for (bool causal : {true, false}) {
    AttentionInputs inputs =
        makeInputs(shapeOf({300}, 2, 1), DataKind::Normal, 36);
    RunnerOptions options;
    options.causal = causal;
    options.backward = true;
    KernelRunner runner(2, 1, 128, options);
    ConsistencyResult result =
        probeConsistency(inputs, runner.backwardFunction(), causal);
    EXPECT_TRUE(result.ok) << result.detail;
    EXPECT_GT(result.weightsCompared, 50000);
  }
}

TEST(BackwardProperties, KernelsComputeTheBlocksTheySayByPolynomial) {
  RunnerOptions options;
  options.backward = options.dLse = true;
  options.softmaxScale = edgeScale;
  KernelRunner runner(1, 1, 64, options);
  numerics::Exp2Share share = runner.forward->exp2Share();
  EXPECT_EQ(share, numerics::exp2ShareOf("sm_100a"));
  EXPECT_EQ(runner.backward->queryGradientExp2(), share);
  EXPECT_EQ(runner.backward->keyGradientExp2(), numerics::Exp2Share());
  EdgeObservation seen = observeEdge(runner.backwardFunction());
  EXPECT_EQ(seen.error, "");
  EXPECT_EQ(seen.forward, expectedEdge(share));
  EXPECT_EQ(seen.keyGradients, expectedEdge({}));
  EXPECT_EQ(seen.queryGradients, expectedEdge(share));
}

/// The limit of P3 (docs/numerics.md): on data made for it the weights that the
/// forward computes by polynomial, and dK, dV does not, are one step apart.
TEST(BackwardProperties, WeightsOnTheEdgeAreAStepApart) {
  AttentionInputs inputs = edgeProblem({37, 300}).forward;
  RunnerOptions options;
  options.backward = true;
  options.softmaxScale = edgeScale;
  KernelRunner runner(1, 1, 64, options);
  ConsistencyResult result =
      probeConsistency(inputs, runner.backwardFunction());
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.further, 0) << result.detail;
  EXPECT_GT(result.weightsCompared, 20000);
  BackwardOptions other;
  other.forward.exp2 = runner.forward->exp2Share();
  other.forward.softmaxScale = edgeScale;
  ConsistencyResult model =
      probeConsistency(inputs, modelBackwardFunction(other));
  EXPECT_EQ(result.oneStep, model.oneStep);
  EXPECT_EQ(result.weightsCompared, model.weightsCompared);

  // The kernels' forward and a backward that chooses other blocks.
  other.keyGradientExp2 = other.forward.exp2;
  other.exp2Offset = 1;
  auto shifted = [&](const BackwardInputs &given, ForwardOutputs &outputs,
                     Gradients &gradients, std::string &error) {
    if (!runner.function()(given.forward, outputs, error))
      return false;
    gradients =
        attentionBackwardModel(quantizeInputs(given.forward, other.forward),
                               outputs, given.dO, {}, other);
    return true;
  };
  ConsistencyResult control = probeConsistency(inputs, shifted);
  EXPECT_FALSE(control.ok);
  EXPECT_GT(control.oneStep, control.weightsCompared / 5);
}

TEST(BackwardProperties, NormalizedWeightsFailTheConsistencyProbe) {
  // The kernels' forward, and a backward that quantizes normalized weights.
  AttentionInputs inputs =
      makeInputs(shapeOf({200}, 1, 1, 64), DataKind::Normal, 37);
  KernelRunner runner(1, 1, 64);
  BackwardFunction normalized = [&](const BackwardInputs &given,
                                    ForwardOutputs &outputs,
                                    Gradients &gradients, std::string &) {
    outputs = runner.run(given.forward).outputs;
    ForwardOutputs other = outputs;
    for (size_t i = 0; i < other.m.size(); ++i)
      other.m[i] +=
          std::log2(outputs.l[i]) - std::floor(std::log2(outputs.l[i]));
    gradients = attentionBackwardModel(quantizeInputs(given.forward, {}), other,
                                       given.dO, {}, {});
    return true;
  };
  ConsistencyResult control = probeConsistency(inputs, normalized);
  EXPECT_FALSE(control.ok);
  EXPECT_GT(control.oneStep + control.further, control.weightsCompared / 3);
}

namespace {

/// A backward through the plain host API: one workspace each for forward and
/// backward, tensors with room after the pack, chosen bytes in all of it.
struct RawBackward {
  int64_t extraRows = 0;
  uint16_t tailBits = 0;        ///< What inputs hold after the pack.
  uint8_t workspaceByte = 0xFF; ///< What outputs and workspaces hold before.

  /// Launches `times` times on the same memory.
  Gradients run(KernelRunner &runner, const BackwardInputs &inputs, int times) {
    Device &device = *runner.device;
    const AttentionShape &shape = inputs.forward.shape;
    std::vector<uint64_t> addresses;
    auto allocated = [&](const char *name, const void *data, uint64_t bytes) {
      addresses.push_back(needed(device.allocate(name, bytes)));
      needed(device.upload(addresses.back(), data, bytes));
      return addresses.back();
    };
    auto filled = [&](const char *name, std::vector<uint16_t> values,
                      int64_t heads) {
      values.resize(values.size() + size_t(extraRows * heads * shape.headDim),
                    tailBits);
      return allocated(name, values.data(), values.size() * 2);
    };
    auto scratch = [&](const char *name, uint64_t bytes) {
      std::vector<uint8_t> data(bytes, workspaceByte);
      return allocated(name, data.data(), bytes);
    };
    uint64_t queries = uint64_t(shape.tokens() * shape.heads * shape.headDim);
    uint64_t keys = uint64_t(shape.tokens() * shape.kvHeads * shape.headDim);
    BackwardTensors tensors;
    ForwardTensors &forward = tensors.forward;
    forward.q = filled("q", inputs.forward.q, shape.heads);
    forward.k = filled("k", inputs.forward.k, shape.kvHeads);
    forward.v = filled("v", inputs.forward.v, shape.kvHeads);
    forward.o = scratch("o", queries * 2);
    forward.lse = scratch("lse", uint64_t(shape.tokens() * shape.heads) * 4);
    forward.workspaceBytes =
        needed(queryWorkspace(runner.forward->config(), shape.cuSeqlens)).bytes;
    forward.workspace = scratch("workspace", forward.workspaceBytes);
    tensors.dO = filled("do", inputs.dO, shape.heads);
    tensors.dQ = scratch("dq", queries * 2);
    tensors.dK = scratch("dk", keys * 2);
    tensors.dV = scratch("dv", keys * 2);
    tensors.workspaceBytes =
        needed(
            queryBackwardWorkspace(runner.forward->config(), shape.cuSeqlens))
            .bytes;
    tensors.workspace = scratch("backward workspace", tensors.workspaceBytes);
    std::unique_ptr<ForwardPlan> forwardPlan =
        needed(runner.forward->prepare(shape.cuSeqlens, forward));
    std::unique_ptr<BackwardPlan> plan =
        needed(runner.backward->prepare(shape.cuSeqlens, tensors));
    EXPECT_EQ(llvm::toString(forwardPlan->launch()), "");
    for (int i = 0; i < times; ++i)
      EXPECT_EQ(llvm::toString(plan->launch()), "");
    Gradients gradients;
    auto fetch = [&](uint64_t address, uint64_t count,
                     std::vector<float> &values) {
      std::vector<uint16_t> bits(count);
      needed(device.download(bits.data(), address, count * 2));
      values.resize(count);
      numerics::bf16ToFloat(bits.data(), values.data(), count);
    };
    fetch(tensors.dQ, queries, gradients.dq);
    fetch(tensors.dK, keys, gradients.dk);
    fetch(tensors.dV, keys, gradients.dv);
    for (uint64_t address : addresses)
      needed(device.release(address));
    return gradients;
  }
};

void expectEqualBits(const Gradients &a, const Gradients &b) {
  for (auto [one, other] :
       {std::pair<const std::vector<float> *, const std::vector<float> *>{
            &a.dq, &b.dq},
        {&a.dk, &b.dk},
        {&a.dv, &b.dv}}) {
    ASSERT_EQ(one->size(), other->size());
    size_t different = 0;
    for (size_t i = 0; i < one->size(); ++i)
      different += numerics::bitsOf((*one)[i]) != numerics::bitsOf((*other)[i]);
    EXPECT_EQ(different, 0u);
  }
}

} // namespace

TEST(BackwardMemory, Bwd2Var3WorkspaceContents) {
  // Twice on the same memory without clearing it, and on other old contents.
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({300, 77, 5}, 4, 1), DataKind::Normal, 72);
  KernelRunner runner = backwardRunner(inputs);
  Gradients base = RawBackward{0, 0, 0x00}.run(runner, inputs, 1);
  for (float value : base.dq)
    ASSERT_TRUE(std::isfinite(value));
  expectEqualBits(base, RawBackward{0, 0, 0xFF}.run(runner, inputs, 2));
}

TEST(BackwardMemory, Var4RowsAfterThePack) {
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({200, 47}, 2, 1), DataKind::Normal, 4);
  KernelRunner runner = backwardRunner(inputs);
  Gradients base = RawBackward{243, 0}.run(runner, inputs, 1);
  for (uint16_t bits : {uint16_t(0x7FC0), uint16_t(0x7F80)})
    expectEqualBits(base, RawBackward{243, bits}.run(runner, inputs, 1));
}

namespace {

void expectRecordsStateTheWorkspace(const RunnerOptions &options) {
  // What the records of one configuration say that they write into the
  // workspace is all of it but the work list, tensor by tensor.
  BackwardInputs inputs =
      makeBackwardInputs(shapeOf({300, 77, 5}, 4, 2, 64), DataKind::Normal, 7);
  const AttentionShape &shape = inputs.forward.shape;
  KernelRunner runner = backwardRunner(inputs, options);
  std::map<std::string, uint64_t> stated;
  auto add = [&](const LaunchPlan::Step &step) {
    const LaunchRecord &record = step.kernel->record();
    for (const Argument &argument : step.arguments) {
      const RecordArgument &declared =
          record.arguments[record.findArgument(argument.name)];
      if (!declared.inWorkspace)
        continue;
      EXPECT_NE(declared.access, Access::Read) << argument.name;
      uint64_t bytes = bytesOf(argument.element, argument.extents);
      EXPECT_TRUE(stated.insert({argument.name, bytes}).second)
          << argument.name;
    }
  };
  // Addresses that are never used: nothing is launched.
  AttentionConfig config = runner.forward->config();
  WorkspaceLayout layouts[] = {
      needed(queryWorkspace(config, shape.cuSeqlens)),
      needed(queryBackwardWorkspace(config, shape.cuSeqlens))};
  BackwardTensors tensors;
  ForwardTensors &forward = tensors.forward;
  uint64_t next = uint64_t(1) << 32;
  for (uint64_t *address :
       {&forward.q, &forward.k, &forward.v, &forward.o, &forward.lse,
        &tensors.dO, &tensors.dQ, &tensors.dK, &tensors.dV, &tensors.workspace})
    *address = next += uint64_t(1) << 32;
  // The work list is uploaded.
  forward.workspace =
      needed(runner.device->allocate("workspace", layouts[0].bytes));
  forward.workspaceBytes = layouts[0].bytes;
  tensors.workspaceBytes = layouts[1].bytes;
  std::unique_ptr<ForwardPlan> forwardPlan =
      needed(runner.forward->prepare(shape.cuSeqlens, forward));
  std::unique_ptr<BackwardPlan> plan =
      needed(runner.backward->prepare(shape.cuSeqlens, tensors));
  for (const LaunchPlan::Step &step : forwardPlan->steps())
    add(step);
  for (const LaunchPlan::Step &step : plan->steps())
    add(step);
  size_t expected = 0;
  for (const WorkspaceLayout &layout : layouts)
    for (const WorkspaceTensor &tensor : layout.tensors) {
      if (tensor.name == "work")
        continue;
      ++expected;
      EXPECT_EQ(stated[tensor.name], tensor.bytes) << tensor.name;
    }
  EXPECT_EQ(stated.size(), expected);
}

} // namespace

TEST(BackwardMemory, RecordsStateTheWorkspace) {
  RunnerOptions options;
  expectRecordsStateTheWorkspace(options);
  options.format = runtime::Format::Nvfp4;
  expectRecordsStateTheWorkspace(options);
}
