//===- EvaluatorTest.cpp - The kernels, evaluated, against the references -===//
//
// The library's kernels, run by the evaluator, must give the bytes of
// lib/Numerics and the values of the specification model, which were written
// from docs/numerics.md and share no code with the kernels.
//
//===----------------------------------------------------------------------===//

#include "KernelEvaluation.h"

#include "flamia/Numerics/Quantize.h"
#include "flamia/Reference/Attention.h"
#include "flamia/Reference/Compare.h"
#include "flamia/Reference/Data.h"

#include "gtest/gtest.h"

using namespace flamia;
using namespace flamia::test;
using evaluator::Arguments;

namespace {

class QuantizeKernel : public testing::TestWithParam<int> {};

TEST_P(QuantizeKernel, TokenLocalGivesTheBytesOfNumerics) {
  int dim = GetParam();
  reference::AttentionShape shape{numerics::cuSeqlensOf({1, 130, 0, 33}), 2, 2,
                                  dim};
  reference::AttentionInputs inputs =
      makeInputs(shape, reference::DataKind::OutlierChannels, 7);
  std::fill_n(inputs.q.begin() + 5 * 2 * dim, dim, 0); // a zero token
  inputs.q[9 * 2 * dim + 3] = 0x7FC0;                  // a NaN
  int64_t tokens = shape.tokens();
  int64_t tiles = numerics::scaleTileBases(shape.cuSeqlens).back();
  for (bool rotate : {true, false}) {
    CompiledKernel kernel("quantize.mlir", "head_dim=" + std::to_string(dim) +
                                               (rotate ? "" : ",rotate=none"));
    ASSERT_TRUE(kernel.get("quantize_token_local"));
    Arguments arguments;
    arguments["x"] = tensor({tokens, 2, dim}, inputs.q);
    arguments["work"] = workListOf(shape.cuSeqlens);
    arguments["data"] = filled({tokens, 2, dim}, 1);
    arguments["scale"] = filled({tiles, 2, 512}, 1);
    llvm::Error error = evaluate(kernel.get("quantize_token_local"), arguments);
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    numerics::TokenLocalTensor expected = numerics::quantizeTokenLocal(
        inputs.q.data(), shape.queryShape(), rotate);
    EXPECT_EQ(valuesOf<uint8_t>(arguments, "data"), expected.payload);
    EXPECT_EQ(valuesOf<uint8_t>(arguments, "scale"), expected.scales);
  }
}

TEST_P(QuantizeKernel, TokenBlockGivesTheBytesOfNumerics) {
  int dim = GetParam();
  reference::AttentionShape shape{numerics::cuSeqlensOf({5, 127, 200}), 3, 3,
                                  dim};
  reference::AttentionInputs inputs =
      makeInputs(shape, reference::DataKind::LlmLike, 8);
  inputs.v[150 * 3 * dim + 3] = 0x7F80; // an infinity
  int64_t tokens = shape.tokens();
  int64_t tiles = numerics::scaleTileBases(shape.cuSeqlens).back();
  CompiledKernel kernel("quantize.mlir", "head_dim=" + std::to_string(dim));
  ASSERT_TRUE(kernel.get("quantize_token_block"));
  Arguments arguments;
  arguments["x"] = tensor({tokens, 3, dim}, inputs.v);
  arguments["work"] = workListOf(shape.cuSeqlens);
  arguments["data"] = filled({tokens, 3, dim}, 1);
  arguments["scale_rows"] = filled({tiles, 3, 512}, 1);
  arguments["scale_cols"] = filled({tiles, 3, 512}, 1);
  llvm::Error error = evaluate(kernel.get("quantize_token_block"), arguments);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  numerics::TokenBlockTensor expected =
      numerics::quantizeTokenBlock(inputs.v.data(), shape.keyShape());
  EXPECT_EQ(valuesOf<uint8_t>(arguments, "data"), expected.payload);
  EXPECT_EQ(valuesOf<uint8_t>(arguments, "scale_rows"),
            expected.scalesAlongRows);
  EXPECT_EQ(valuesOf<uint8_t>(arguments, "scale_cols"),
            expected.scalesAlongCols);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, QuantizeKernel, testing::Values(64, 128));

/// Runs attention_fwd on quantized inputs.
reference::ForwardOutputs
evaluateForward(CompiledKernel &kernel,
                const reference::QuantizedInputs &inputs) {
  const reference::AttentionShape &shape = inputs.shape;
  int64_t tokens = shape.tokens(), dim = shape.headDim;
  int64_t tiles = numerics::scaleTileBases(shape.cuSeqlens).back();
  Arguments arguments;
  arguments["q_data"] = tensor({tokens, shape.heads, dim}, inputs.q.payload);
  arguments["q_scale"] = tensor({tiles, shape.heads, 512}, inputs.q.scales);
  arguments["k_data"] = tensor({tokens, shape.kvHeads, dim}, inputs.k.payload);
  arguments["k_scale"] = tensor({tiles, shape.kvHeads, 512}, inputs.k.scales);
  arguments["v_data"] = tensor({tokens, shape.kvHeads, dim}, inputs.v.payload);
  arguments["v_scale"] =
      tensor({tiles, shape.kvHeads, 512}, inputs.v.scalesAlongRows);
  arguments["v_bf16"] = tensor({tokens, shape.kvHeads, dim}, inputs.vBf16);
  arguments["work"] = workListOf(shape.cuSeqlens);
  arguments["softmax_scale"] =
      number(reference::softmaxScaleOf(reference::ForwardOptions(), dim));
  arguments["o"] = filled({tokens, shape.heads, dim}, 2);
  for (const char *name : {"lse", "m", "l", "kappa"})
    arguments[name] = filled({tokens, shape.heads}, 4);
  llvm::Error error = evaluate(kernel.get("attention_fwd"), arguments);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  reference::ForwardOutputs outputs;
  for (uint16_t bits : valuesOf<uint16_t>(arguments, "o"))
    outputs.o.push_back(numerics::bf16ToFloat(bits));
  outputs.lse = valuesOf<float>(arguments, "lse");
  outputs.m = valuesOf<float>(arguments, "m");
  outputs.l = valuesOf<float>(arguments, "l");
  outputs.kappa = valuesOf<float>(arguments, "kappa");
  return outputs;
}

class AttentionKernel : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(AttentionKernel, AgreesWithTheSpecificationModel) {
  auto [dim, causal] = GetParam();
  reference::AttentionShape shape{numerics::cuSeqlensOf({1, 0, 300, 128, 31}),
                                  2, 1, dim};
  reference::AttentionInputs inputs =
      makeInputs(shape, reference::DataKind::Normal, 3);
  reference::ForwardOptions options;
  options.mask.causal = causal;
  reference::QuantizedInputs quantized = quantizeInputs(inputs, options);
  CompiledKernel kernel("attention_fwd.mlir",
                        "head_dim=" + std::to_string(dim) +
                            ",causal=" + (causal ? "true" : "false"));
  ASSERT_TRUE(kernel.get("attention_fwd"));
  reference::ForwardOutputs actual = evaluateForward(kernel, quantized);
  reference::ForwardOutputs expected =
      attentionForwardModel(quantized, options);
  // The only freedom is the order of fp32 sums, which BF16 hides in O.
  EXPECT_LE(reference::measureError(actual.o, expected.o).relativeFrobenius,
            1e-4);
  EXPECT_LE(reference::measureError(actual.lse, expected.lse).maxAbs, 1e-5);
  EXPECT_EQ(reference::measureError(actual.m, expected.m).maxAbs, 0);
  EXPECT_LE(reference::measureError(actual.l, expected.l).relativeFrobenius,
            1e-6);
  EXPECT_LE(
      reference::measureError(actual.kappa, expected.kappa).relativeFrobenius,
      1e-6);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionKernel,
                         testing::Combine(testing::Values(64, 128),
                                          testing::Bool()));

/// P1 in the evaluator, and its negative control: later tokens of V change,
/// earlier rows of O must not, and without safeguards some do.
TEST(AttentionCausality, LaterTokensReachNoRowOnlyWithSafeguards) {
  reference::AttentionShape shape{numerics::cuSeqlensOf({200}), 1, 1, 64};
  reference::AttentionInputs inputs =
      makeInputs(shape, reference::DataKind::Normal, 5);
  reference::ForwardOptions options;
  int64_t cut = 140; // inside a block of 32 and inside a tile
  reference::AttentionInputs changed = inputs;
  for (size_t i = size_t((cut + 1) * 64); i < changed.v.size(); ++i)
    changed.v[i] =
        numerics::floatToBF16(numerics::bf16ToFloat(changed.v[i]) * 1048576.0f);
  for (bool safeguards : {true, false}) {
    CompiledKernel kernel("attention_fwd.mlir", "head_dim=64", safeguards);
    reference::ForwardOutputs a =
        evaluateForward(kernel, quantizeInputs(inputs, options));
    reference::ForwardOutputs b =
        evaluateForward(kernel, quantizeInputs(changed, options));
    size_t rows = size_t((cut + 1) * 64);
    bool equal = std::equal(a.o.begin(), a.o.begin() + rows, b.o.begin());
    EXPECT_EQ(equal, safeguards);
  }
}

TEST(Evaluator, RefusesWhatDoesNotFit) {
  CompiledKernel kernel("quantize.mlir", "head_dim=64");
  KernelOp op = kernel.get("quantize_token_local");
  auto run = [&](Arguments arguments) {
    return llvm::toString(evaluate(op, arguments));
  };
  Arguments arguments;
  arguments["x"] = filled({3, 1, 64}, 2, 0);
  arguments["work"] = workListOf({0, 3});
  arguments["data"] = filled({3, 1, 64}, 1);
  EXPECT_EQ(run(arguments), "argument 'scale' is missing");
  arguments["scale"] = filled({1, 1, 512}, 1);
  EXPECT_EQ(run(arguments), "");
  Arguments wrong = arguments;
  wrong["data"] = filled({4, 1, 64}, 1);
  EXPECT_EQ(run(wrong), "dimension 'tokens' is 3 in argument 'x', but 4 in "
                        "'data'");
  wrong = arguments;
  wrong["x"] = filled({3, 1, 32}, 2);
  EXPECT_EQ(run(wrong),
            "argument 'x': expected extent 64 in dimension 2, but got 32");
  wrong = arguments;
  wrong["x"] = number(1);
  EXPECT_EQ(run(wrong), "argument 'x': expected a tensor, but got a number");
  wrong = arguments;
  wrong["scale"] = filled({0, 1, 512}, 1);
  EXPECT_NE(run(wrong).find("scale atom [0, 0] is outside"), std::string::npos);
}

} // namespace
