//===- LikeModel.h - Kernels against the specification model ----*- C++ -*-===//
//
// Comparisons of what the compiled kernels give with the specification model,
// with flamia-run's limits.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_KERNELS_LIKEMODEL_H
#define FLAMIA_TEST_UNIT_KERNELS_LIKEMODEL_H

#include "KernelRunner.h"

#include "flamia/Reference/Compare.h"
#include "test/Unit/Reference/TestInputs.h"
#include "tools/flamia-run/Prepared.h"

namespace flamia::test {

/// Every byte of the operands, O to 5e-4 and LSE to 1e-3.
inline void expectLikeModel(const reference::AttentionInputs &inputs,
                            const run::DeviceResult &result,
                            const reference::ForwardOptions &options) {
  reference::QuantizedInputs quantized =
      reference::quantizeInputs(inputs, options);
  EXPECT_EQ(result.q.payload, quantized.q.payload);
  EXPECT_EQ(result.q.scales, quantized.q.scales);
  EXPECT_EQ(result.k.payload, quantized.k.payload);
  EXPECT_EQ(result.k.scales, quantized.k.scales);
  EXPECT_EQ(result.v.payload, quantized.v.payload);
  EXPECT_EQ(result.v.scalesAlongRows, quantized.v.scalesAlongRows);
  EXPECT_EQ(result.v.scalesAlongCols, quantized.v.scalesAlongCols);
  // Empty in format mxfp8.
  EXPECT_EQ(result.qScores.payload, quantized.qScores.payload);
  EXPECT_EQ(result.qScores.scales, quantized.qScores.scales);
  EXPECT_EQ(result.kScores.payload, quantized.kScores.payload);
  EXPECT_EQ(result.kScores.scales, quantized.kScores.scales);
  reference::ForwardOutputs model =
      reference::attentionForwardModel(quantized, options);
  EXPECT_LE(
      reference::measureError(result.outputs.o, model.o).relativeFrobenius,
      5e-4);
  EXPECT_LE(reference::measureError(result.outputs.lse, model.lse).maxAbs,
            1e-3);
}

/// Runs forward and backward and compares as flamia-run does, on the same
/// forward results: the preparation bit for bit, gradients to 1e-3.
inline reference::Gradients
expectGradientsLikeModel(const reference::BackwardInputs &inputs,
                         const RunnerOptions &options = {}) {
  KernelRunner runner = backwardRunner(inputs, options);
  auto [forward, backward] = runner.run(inputs);
  reference::BackwardOptions model;
  model.forward = modelOptions(options);
  expectLikeModel(inputs.forward, forward, model.forward);
  reference::QuantizedInputs quantized =
      reference::quantizeInputs(inputs.forward, model.forward);
  run::PreparedDifference prepared = run::comparePrepared(
      backward,
      reference::prepareBackward(quantized, forward.outputs, inputs.dO,
                                 inputs.dLse, model),
      inputs.forward.shape);
  EXPECT_EQ(prepared.different(), 0) << prepared.text();
  EXPECT_GT(prepared.bytes.compared, 0);
  reference::Gradients expected = reference::attentionBackwardModel(
      quantized, forward.outputs, inputs.dO, inputs.dLse, model);
  const std::tuple<const char *, const std::vector<float> *,
                   const std::vector<float> *>
      pairs[] = {{"dQ", &backward.gradients.dq, &expected.dq},
                 {"dK", &backward.gradients.dk, &expected.dk},
                 {"dV", &backward.gradients.dv, &expected.dv}};
  for (auto [name, found, wanted] : pairs)
    EXPECT_LE(reference::measureError(*found, *wanted).relativeFrobenius, 1e-3)
        << name;
  return std::move(backward.gradients);
}

/// The same on documents of awkward lengths, shared and own heads, both head
/// dims, causal and not, with and without a dLSE, on all kinds of data.
inline void expectGradientsLikeModel(runtime::Format format, uint64_t seed) {
  struct Problem {
    std::vector<int64_t> lengths;
    int64_t heads, kvHeads, headDim;
    bool causal, dLse;
    reference::DataKind kind;
  };
  using reference::DataKind;
  const Problem problems[] = {
      {{391, 1, 0, 33}, 2, 1, 128, true, false, DataKind::Normal},
      {{140, 0, 290}, 4, 2, 64, true, true, DataKind::LlmLike},
      {{150, 31}, 3, 1, 128, false, true, DataKind::OutlierChannels},
      {{1, 257}, 1, 1, 64, false, false, DataKind::ConstantOffset},
      {{1, 2, 31, 32, 33, 63, 65, 127, 129},
       1,
       1,
       64,
       true,
       false,
       DataKind::Normal}};
  for (const Problem &problem : problems) {
    SCOPED_TRACE("head_dim " + std::to_string(problem.headDim) +
                 (problem.causal ? " causal " : " full ") +
                 reference::nameOf(problem.kind));
    reference::AttentionShape shape = reference::shapeOf(
        problem.lengths, problem.heads, problem.kvHeads, problem.headDim);
    reference::BackwardInputs inputs =
        reference::makeBackwardInputs(shape, problem.kind, seed);
    if (problem.dLse)
      inputs.dLse = reference::makeGradientOfLse(shape, seed);
    RunnerOptions options;
    options.causal = problem.causal;
    options.format = format;
    expectGradientsLikeModel(inputs, options);
  }
}

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_KERNELS_LIKEMODEL_H
