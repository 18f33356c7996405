//===- EvaluatorTest.cpp - The kernels, evaluated, against the references -===//
//
// The library's kernels, run by the evaluator, must give the bytes of
// lib/Numerics and the values of the specification model, which were written
// from docs/numerics.md and share no code with the kernels.
//
//===----------------------------------------------------------------------===//

#include "KernelEvaluation.h"

#include "flamia/Numerics/Formats.h"
#include "flamia/Numerics/Quantize.h"
#include "flamia/Reference/Attention.h"
#include "flamia/Reference/Compare.h"
#include "flamia/Reference/Data.h"
#include "test/Unit/Reference/Exp2Problems.h"

#include "gtest/gtest.h"

#include <cmath>

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
                const reference::QuantizedInputs &inputs,
                const reference::ForwardOptions &options = {}) {
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
  arguments["softmax_scale"] = number(reference::softmaxScaleOf(options, dim));
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
  options.exp2 = numerics::exp2ShareOf("sm_100a");
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

/// Weights on the edge of two E4M3 numbers show which exponentials are computed
/// by polynomial.
TEST(AttentionExponentials, AreThoseOfTheSpecificationModel) {
  reference::AttentionInputs inputs = reference::edgeProblem({37, 300}).forward;
  for (size_t i = 0; i < inputs.v.size(); ++i)
    inputs.v[i] = numerics::floatToBF16(float(i * 7919 % 251) - 125.0f);
  reference::ForwardOptions options;
  options.softmaxScale = reference::edgeScale;
  options.exp2 = numerics::exp2ShareOf("sm_100a");
  reference::QuantizedInputs quantized = quantizeInputs(inputs, options);
  CompiledKernel kernel("attention_fwd.mlir", "head_dim=64");
  ASSERT_TRUE(kernel.get("attention_fwd"));
  reference::ForwardOutputs actual =
      evaluateForward(kernel, quantized, options);
  auto errorWith = [&](numerics::Exp2Share share) {
    options.exp2 = share;
    return reference::measureError(actual.o,
                                   attentionForwardModel(quantized, options).o)
        .relativeFrobenius;
  };
  EXPECT_LE(errorWith({1, 4}), 1e-4);
  EXPECT_GT(errorWith({}), 1e-3);
  EXPECT_GT(errorWith({2, 4}), 1e-3);
}

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

/// Exponents in and out of scale bytes, with what happens at both ends and to
/// NaN.
TEST(Evaluator, ExponentsAreExact) {
  CompiledKernel kernel(R"(
flamia.kernel @exponents(%in: memref<?x?x512xf8E8M0FNU>, %x: memref<?x64xf32>, %u: memref<?x1xf32>,
    %cols: memref<?x?x512xf8E8M0FNU>, %rows: memref<?x?x512xf8E8M0FNU>, %e: memref<?x1xf32>, %f: memref<?x1xf32>,
    %largest: memref<?x1xf32>, %payload: memref<?x64xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %c64 = arith.constant 64 : index
  %step = arith.constant dense<200.0> : tensor<128x4xf32>
  %e4 = flamia.load_exponents %in[%c1, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x4xf32>
  %e1 = flamia.load_exponents %in[%c1, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x1xf32>
  %up = arith.addf %e4, %step : tensor<128x4xf32>
  flamia.store_exponents %up, %cols[%c0, %c0] rows %c40 cols %c64 along cols : tensor<128x4xf32>, memref<?x?x512xf8E8M0FNU>
  %max = flamia.reduce_rows max %e1 by 32 rows %c40 : tensor<128x1xf32>
  flamia.store_exponents %max, %rows[%c0, %c0] rows %c40 cols %c64 along rows : tensor<128x1xf32>, memref<?x?x512xf8E8M0FNU>
  flamia.store %max, %largest[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  %power = flamia.pow2 %e1 : tensor<128x1xf32>
  flamia.store %power, %f[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  %v = flamia.load %u[%c0, %c0] : memref<?x1xf32> -> tensor<128x1xf32>
  %q = flamia.quantize %t including(%v : tensor<128x1xf32>) : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
  %eq = flamia.exponents %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64> -> tensor<128x1xf32>
  flamia.store %eq, %e[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  %p = flamia.payload %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64> -> tensor<128x64xf32>
  flamia.store %p, %payload[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
})");
  ASSERT_TRUE(kernel.get("exponents"));
  // Bytes of the second atom: 2 r + j, and NaN in row 33.
  std::vector<uint8_t> in(1024, 7);
  auto byteOf = [](int r, int j) { return r == 33 ? 255 : 2 * r % 250 + j; };
  for (int r = 0; r < 128; ++r)
    for (int j = 0; j < 4; ++j)
      in[size_t(512 + numerics::off128x4(r, j))] = uint8_t(byteOf(r, j));
  std::vector<float> x(128 * 64), u(128);
  x[0] = 3.0f, u[0] = 1.0f;                 // the tile's own value decides
  x[64] = 3.0f, u[1] = 448.0f * 1024;       // the other one
  x[2 * 64] = 3.0f, u[2] = std::nanf("");   // NaN
  x[3 * 64] = 0.0f, u[3] = -448.0f * 0.25f; // only the other one
  Arguments arguments;
  arguments["in"] = tensor({2, 1, 512}, in);
  arguments["x"] = tensor({128, 64}, x);
  arguments["u"] = tensor({128, 1}, u);
  for (const char *name : {"cols", "rows"})
    arguments[name] = filled({1, 1, 512}, 1);
  for (const char *name : {"e", "f", "largest"})
    arguments[name] = filled({128, 1}, 4);
  arguments["payload"] = filled({128, 64}, 4);
  llvm::Error error = evaluate(kernel.get("exponents"), arguments);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));

  auto cols = valuesOf<uint8_t>(arguments, "cols");
  auto rows = valuesOf<uint8_t>(arguments, "rows");
  for (int r = 0; r < 128; ++r)
    for (int j = 0; j < 4; ++j) {
      int expected = r >= 40 || j >= 2 ? 127
                     : r == 33         ? 255
                                       : std::min(byteOf(r, j) + 200, 254);
      EXPECT_EQ(cols[size_t(numerics::off128x4(r, j))], expected) << r << j;
      // Row r is a column of the tile here, block j its rows from 32 j on.
      expected = r >= 64 || j >= 2 ? 127 : j == 0 ? byteOf(31, 0) : 255;
      EXPECT_EQ(rows[size_t(numerics::off128x4(r, j))], expected) << r << j;
    }
  auto largest = valuesOf<float>(arguments, "largest");
  auto power = valuesOf<float>(arguments, "f");
  for (int r = 0; r < 128; ++r) {
    if (r / 32 == 1)
      EXPECT_TRUE(std::isnan(largest[size_t(r)]));
    else
      EXPECT_EQ(largest[size_t(r)], r < 32 ? 62 - 127 : 0);
    if (r == 33)
      EXPECT_TRUE(std::isnan(power[size_t(r)]));
    else
      EXPECT_EQ(power[size_t(r)], std::ldexp(1.0f, byteOf(r, 0) - 127));
  }
  auto e = valuesOf<float>(arguments, "e");
  auto payload = valuesOf<float>(arguments, "payload");
  EXPECT_EQ(e[0], -7); // 3 <= 448 / 128
  EXPECT_EQ(payload[0], 384);
  EXPECT_EQ(e[1], 10);
  EXPECT_EQ(payload[64],
            numerics::e4m3ToFloat(numerics::floatToE4M3(3.0f / 1024)));
  EXPECT_TRUE(std::isnan(e[2]));
  EXPECT_EQ(payload[2 * 64], 0);
  EXPECT_EQ(e[3], -2);
  EXPECT_EQ(e[4], -127);
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
