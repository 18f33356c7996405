//===- AttentionTest.cpp - Configurations, workspaces and plans -----------===//
//
// The host API of forward and backward as far as it goes without compiled
// kernels: the kernels here have the library's arguments and do nothing, so
// that what is bound to them can be looked at. test/Unit/Kernels runs the real
// ones.
//
//===----------------------------------------------------------------------===//

#include "KernelFolder.h"

#include "flamia/Sim/Simulator.h"

using namespace flamia;
using namespace flamia::test;
using namespace flamia::runtime;
using llvm::StringRef;

namespace {

std::string textOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

template <typename T>
std::string errorOf(llvm::Expected<T> value) {
  return value ? "" : textOf(value.takeError());
}

const Declaration declarations[] = {
    {"attention_bwd_prep", R"("head_dim": 64, "dlse": DLSE)",
     "q_scale:f8E8M0FNU:S,H,512 o:bf16:T,H,64 do:bf16:T,H,64~ m:f32:T,H "
     "l:f32:T,H kappa:f32:T,H dlse:f32:T,H work:i32:?,4 "
     "do_data!:f8E4M3FN:T,H,64 do_scale!:f8E8M0FNU:S,H,512 "
     "do_scale_hat!:f8E8M0FNU:S,H,512 do_block_scale!:f8E8M0FNU:S,H,512 "
     "q_block_scale!:f8E8M0FNU:S,H,512 r!:f32:T,H d_past!:f32:T,H "
     "d_diagonal!:f32:T,H "
     "bias!:f32:S,H,128 bias_hat!:f32:S,H,128 d_past_hat!:f32:S,H,128 "
     "d_diagonal_hat!:f32:S,H,128 r_hat!:f32:S,H,128 r_unit!:f32:S,H,128"},
    {"attention_bwd_prep_keys", R"("head_dim": 64)",
     "k_scale:f8E8M0FNU:S,G,512 v_scale:f8E8M0FNU:S,G,512 work:i32:?,4 "
     "v_scale_hat!:f8E8M0FNU:S,G,512 k_block_scale!:f8E8M0FNU:S,G,512 "
     "k_factor!:f32:S,G,128 k_factor_diagonal!:f32:S,G,128"},
    {"attention_bwd_dkdv", R"("head_dim": 64, "causal": true)",
     "q_data:f8E4M3FN:T,H,64 q_scale:f8E8M0FNU:S,H,512 k_data:f8E4M3FN:T,G,64 "
     "k_scale:f8E8M0FNU:S,G,512 v_data:f8E4M3FN:T,G,64 "
     "v_scale:f8E8M0FNU:S,G,512 v_bf16:bf16:T,G,64~ do_data:f8E4M3FN:T,H,64 "
     "do_scale:f8E8M0FNU:S,H,512 do:bf16:T,H,64~ r:f32:T,H m:f32:T,H "
     "d_past:f32:T,H d_diagonal:f32:T,H do_scale_hat:f8E8M0FNU:S,H,512 "
     "do_block_scale:f8E8M0FNU:S,H,512 q_block_scale:f8E8M0FNU:S,H,512 "
     "bias:f32:S,H,128 "
     "bias_hat:f32:S,H,128 d_past_hat:f32:S,H,128 d_diagonal_hat:f32:S,H,128 "
     "r_hat:f32:S,H,128 r_unit:f32:S,H,128 work:i32:?,4 softmax_scale:f32 "
     "dk!:bf16:T,G,64~ dv!:bf16:T,G,64~"},
    {"attention_bwd_dq", R"("head_dim": 64, "causal": true)",
     "q_data:f8E4M3FN:T,H,64 q_scale:f8E8M0FNU:S,H,512 k_data:f8E4M3FN:T,G,64 "
     "k_scale:f8E8M0FNU:S,G,512 v_data:f8E4M3FN:T,G,64 "
     "v_scale:f8E8M0FNU:S,G,512 v_bf16:bf16:T,G,64~ do_data:f8E4M3FN:T,H,64 "
     "do_scale:f8E8M0FNU:S,H,512 do:bf16:T,H,64~ r:f32:T,H m:f32:T,H "
     "d_past:f32:T,H d_diagonal:f32:T,H v_scale_hat:f8E8M0FNU:S,G,512 "
     "k_factor:f32:S,G,128 k_factor_diagonal:f32:S,G,128 "
     "k_block_scale:f8E8M0FNU:S,G,512 "
     "work:i32:?,4 softmax_scale:f32 dq!:bf16:T,H,64~"}};

AttentionConfig smallConfig() {
  AttentionConfig config;
  config.heads = 4;
  config.kvHeads = 2;
  config.headDim = 64;
  return config;
}

const std::vector<int64_t> documents = {0, 200, 200, 301};

/// Made-up addresses, far from each other.
struct Addresses {
  BackwardTensors tensors;
  WorkspaceLayout forward, backward;

  explicit Addresses(const AttentionConfig &config = smallConfig())
      : forward(needed(queryWorkspace(config, documents))),
        backward(needed(queryBackwardWorkspace(config, documents))) {
    tensors.forward.v = 0x10000000;
    tensors.forward.o = 0x20000000;
    tensors.forward.workspace = 0x30000000;
    tensors.forward.workspaceBytes = forward.bytes;
    tensors.dO = 0x40000000;
    tensors.dQ = 0x50000000;
    tensors.dK = 0x60000000;
    tensors.dV = 0x70000000;
    tensors.workspace = 0x80000000;
    tensors.workspaceBytes = backward.bytes;
  }
};

std::unique_ptr<AttentionBackward>
makeBackward(Device &device, KernelFolder &folder, bool withDLse = false) {
  return needed(AttentionBackward::create(device, folder.open(), smallConfig(),
                                          withDLse));
}

} // namespace

TEST(Attention, ChecksConfigurations) {
  AttentionConfig config;
  EXPECT_EQ(textOf(checkConfig(config)), "");
  for (int64_t dim : {0, 32, 80, 96, 100, 160, 192, 256, 320}) {
    config.headDim = dim;
    EXPECT_EQ(textOf(checkConfig(config)),
              "head_dim " + std::to_string(dim) +
                  " is not supported, expected 64 or 128");
  }
  config.headDim = 64;
  config.heads = 65536;
  EXPECT_EQ(textOf(checkConfig(config)), "heads is 65536, expected 1 to 65535");
}

TEST(Attention, WorkspaceIsSixtyFourBit) {
  // 2^31 - 1 tokens of 64 heads: offsets far beyond 32 bits, none overlapping.
  AttentionConfig config;
  config.heads = config.kvHeads = 64;
  WorkspaceLayout forward = needed(queryWorkspace(config, {0, INT32_MAX}));
  WorkspaceLayout backward =
      needed(queryBackwardWorkspace(config, {0, INT32_MAX}));
  for (const WorkspaceLayout *layout : {&forward, &backward}) {
    uint64_t end = 0;
    for (const WorkspaceTensor &tensor : layout->tensors) {
      EXPECT_GE(tensor.offset, end) << tensor.name;
      end = tensor.offset + tensor.bytes;
    }
    EXPECT_GE(layout->bytes, end);
  }
  EXPECT_EQ(forward.find("q_data")->bytes, uint64_t(INT32_MAX) * 64 * 128);
  EXPECT_EQ(backward.find("do_data")->bytes, uint64_t(INT32_MAX) * 64 * 128);
}

TEST(Attention, WorkspaceIsWhatTheHeadersSay) {
  // The formulas of Attention.h and AttentionBackward.h: linear in tokens and
  // tiles, and for long documents about as many bytes a token as there are in
  // 2.5 BF16 copies of Q, K and V. A score matrix or fp32 gradients would show.
  for (int64_t dim : {64, 128})
    for (auto [heads, kvHeads] :
         {std::pair<int64_t, int64_t>{1, 1}, {8, 2}, {64, 8}})
      for (std::vector<int64_t> offsets :
           {std::vector<int64_t>{0}, {0, 1, 1, 130}, {0, 4096}, {0, 1048576}}) {
        AttentionConfig config;
        config.heads = heads;
        config.kvHeads = kvHeads;
        config.headDim = dim;
        int64_t tokens = offsets.back();
        int64_t tiles = schedule::countItems(offsets);
        auto expectSum = [&](const WorkspaceLayout &layout, int64_t expected) {
          int64_t sum = 0;
          for (const WorkspaceTensor &tensor : layout.tensors)
            sum += int64_t(tensor.bytes);
          EXPECT_EQ(sum, expected);
          EXPECT_LE(sum, int64_t(layout.bytes));
          EXPECT_LT(int64_t(layout.bytes) - sum,
                    256 * int64_t(layout.tensors.size()));
        };
        expectSum(needed(queryWorkspace(config, offsets)),
                  tokens * (heads * (dim + 12) + 2 * kvHeads * dim) +
                      tiles * (512 * heads + 1536 * kvHeads + 16));
        expectSum(needed(queryBackwardWorkspace(config, offsets)),
                  tokens * heads * (dim + 12) +
                      tiles * (5120 * heads + 2048 * kvHeads));
      }
}

TEST(Backward, BindsEveryArgument) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  std::unique_ptr<AttentionBackward> backward = makeBackward(*device, folder);
  Addresses addresses;
  std::unique_ptr<BackwardPlan> plan =
      needed(backward->prepare(documents, addresses.tensors));
  EXPECT_EQ(textOf(plan->launch()), "");

  std::map<std::string, uint64_t> expected = {
      {"v_bf16", 0x10000000}, {"o", 0x20000000},  {"do", 0x40000000},
      {"dq", 0x50000000},     {"dk", 0x60000000}, {"dv", 0x70000000}};
  for (const WorkspaceTensor &tensor : addresses.forward.tensors)
    if (tensor.saved)
      expected[tensor.name] = 0x30000000 + tensor.offset;
  for (const WorkspaceTensor &tensor : addresses.backward.tensors)
    expected[tensor.name] = 0x80000000 + tensor.offset;
  expected["v_scale"] = expected["v_scale_cols"];
  expected["dlse"] = expected["l"];
  ASSERT_EQ(plan->steps().size(), 4u);
  std::map<std::string, std::string> writers;
  for (size_t i = 0; i < 4; ++i) {
    const LaunchPlan::Step &step = plan->steps()[i];
    EXPECT_EQ(step.name, declarations[i].kernel);
    EXPECT_EQ(step.kernel->record().kernel, declarations[i].kernel);
    ASSERT_EQ(step.arguments.size(), step.kernel->record().arguments.size());
    for (const Argument &argument : step.arguments) {
      if (!argument.isTensor) {
        EXPECT_EQ(argument.scalar, 0.125);
        continue;
      }
      ASSERT_TRUE(expected.count(argument.name)) << argument.name;
      EXPECT_EQ(argument.address, expected[argument.name]) << argument.name;
      // Nothing of the workspace is read before it is written.
      const RecordArgument &declared =
          step.kernel->record()
              .arguments[step.kernel->record().findArgument(argument.name)];
      if (declared.access == Access::Write)
        EXPECT_TRUE(writers.insert({argument.name, step.name}).second)
            << argument.name;
      else if (addresses.backward.find(argument.name))
        EXPECT_TRUE(writers.count(argument.name)) << argument.name;
    }
  }
  // Every tensor of the workspace and every gradient has its writer.
  EXPECT_EQ(writers.size(), addresses.backward.tensors.size() + 3);
}

TEST(Backward, SavedTensorsAreThoseItReads) {
  std::vector<std::string> expected = savedForBackward(), found;
  std::map<std::string, bool> read;
  for (const Declaration &declaration : declarations) {
    llvm::SmallVector<StringRef> arguments;
    StringRef(declaration.arguments).split(arguments, ' ');
    for (StringRef argument : arguments) {
      StringRef name = argument.split(':').first;
      name = name == "v_bf16" ? "v" : name == "v_scale" ? "v_scale_cols" : name;
      read[name.str()] = true;
    }
  }
  for (const std::string &name : expected)
    EXPECT_TRUE(read.count(name)) << name;
  Addresses addresses;
  for (const WorkspaceTensor &tensor : addresses.forward.tensors)
    EXPECT_EQ(tensor.saved, read.count(tensor.name) == 1) << tensor.name;
}

TEST(Backward, GradientOfLse) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  std::unique_ptr<AttentionBackward> with = makeBackward(*device, folder, true),
                                     without = makeBackward(*device, folder);
  EXPECT_TRUE(with->hasDLse());
  Addresses addresses;
  EXPECT_EQ(errorOf(with->prepare(documents, addresses.tensors)),
            "argument 'dlse' is a null pointer");
  addresses.tensors.dLse = 0x90000000;
  std::unique_ptr<BackwardPlan> plan =
      needed(with->prepare(documents, addresses.tensors));
  const LaunchPlan::Step &step = plan->steps()[0];
  EXPECT_EQ(step.kernel->record().parameters.at("dlse"), "true");
  EXPECT_EQ(step.arguments[6].name, "dlse");
  EXPECT_EQ(step.arguments[6].address, 0x90000000u);
  EXPECT_EQ(errorOf(without->prepare(documents, addresses.tensors)),
            "a dLSE is given, but this backward was created without");
}

TEST(Backward, EmptyPacks) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  std::unique_ptr<AttentionBackward> backward = makeBackward(*device, folder);
  for (std::vector<int64_t> offsets :
       {std::vector<int64_t>{0}, {0, 0}, {0, 0, 0}}) {
    std::unique_ptr<BackwardPlan> plan = needed(backward->prepare(offsets, {}));
    EXPECT_EQ(plan->workspace().bytes, 0u);
    EXPECT_EQ(textOf(plan->launch()), "");
  }
}

/// Why good tensors are refused after a change; empty if they are not.
static std::string
errorWith(AttentionBackward &backward,
          llvm::function_ref<void(BackwardTensors &)> change) {
  Addresses addresses;
  change(addresses.tensors);
  return errorOf(backward.prepare(documents, addresses.tensors));
}

TEST(Backward, Refusals) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  std::unique_ptr<AttentionBackward> backward = makeBackward(*device, folder);
  const Addresses good;
  EXPECT_EQ(errorWith(*backward, [](BackwardTensors &) {}), "");
  EXPECT_EQ(errorOf(backward->prepare({0, 6, 4}, good.tensors)),
            "cu_seqlens must never decrease, found 6 followed by 4 at index 2");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { --t.workspaceBytes; }),
      "the backward's workspace has " +
          std::to_string(good.backward.bytes - 1) + " bytes, expected " +
          std::to_string(good.backward.bytes));
  EXPECT_EQ(errorWith(*backward,
                      [](BackwardTensors &t) { t.forward.workspaceBytes = 5; }),
            "the forward's workspace has 5 bytes, expected " +
                std::to_string(good.forward.bytes));
  EXPECT_EQ(errorWith(*backward, [](BackwardTensors &t) { t.workspace += 16; }),
            "the backward's workspace is at address 0x80000010, which is not a "
            "multiple of 256");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.pieces.assign(3, 0); }),
      "the backward's workspace has 3 addresses, expected 18");
  EXPECT_EQ(errorWith(*backward, [](BackwardTensors &t) { t.dO = 0; }),
            "argument 'do' is a null pointer");
  EXPECT_EQ(errorWith(*backward, [](BackwardTensors &t) { t.dV += 8; }),
            "argument 'dv' is at address 0x70000008, which is not a multiple "
            "of 16");

  // 301 tokens, 4 heads, 64 channels in BF16: 154112 bytes.
  EXPECT_EQ(errorWith(*backward, [](BackwardTensors &t) { t.dQ = t.dO; }),
            "'dq' (154112 bytes at 0x40000000) overlaps 'do' (154112 bytes at "
            "0x40000000)");
  EXPECT_EQ(errorWith(*backward, [](BackwardTensors &t) { t.dK = t.dV + 16; }),
            "'dv' (77056 bytes at 0x70000000) overlaps 'dk' (77056 bytes at "
            "0x70000010)");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.dQ = t.dK - 154112; }),
      "");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.dQ = t.dK - 154096; }),
      "'dk' (77056 bytes at 0x60000000) overlaps 'dq' (154112 bytes at "
      "0x5ffda610)");
  EXPECT_NE(
      errorWith(*backward,
                [](BackwardTensors &t) { t.workspace = t.forward.workspace; })
          .find("overlaps 'work'"),
      std::string::npos);
  // Inputs may share memory.
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.dO = t.forward.o; }), "");

  AttentionConfig other = smallConfig();
  other.headDim = 128;
  EXPECT_EQ(errorOf(AttentionBackward::create(*device, folder.open(), other)),
            "kernel folder '" + folder.path().str() +
                "' has no kernel 'attention_bwd_prep' with head_dim=128 "
                "dlse=false");
  folder.remove("attention_bwd_dq.json");
  EXPECT_EQ(
      errorOf(AttentionBackward::create(*device, folder.open(), smallConfig())),
      "kernel folder '" + folder.path().str() +
          "' has no kernel 'attention_bwd_dq' with head_dim=64 "
          "causal=true format=mxfp8");
}

TEST(Backward, Strides) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  std::unique_ptr<AttentionBackward> backward = makeBackward(*device, folder);
  // V inside [tokens, 4 + 2 + 2, 64], dO by heads.
  EXPECT_EQ(errorWith(*backward,
                      [](BackwardTensors &t) {
                        t.forward.vStrides = {512, 64};
                        t.dOStrides = {64, 301 * 64};
                      }),
            "");
  EXPECT_EQ(
      errorWith(*backward,
                [](BackwardTensors &t) { t.forward.vStrides = {516, 64}; }),
      "argument 'v' has stride 516 in dimension 0, which is 1032 bytes "
      "and not a multiple of 16");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.dOStrides = {256, 68}; }),
      "argument 'do' has stride 68 in dimension 1, which is 136 bytes "
      "and not a multiple of 16");
  EXPECT_EQ(errorWith(*backward,
                      [](BackwardTensors &t) {
                        t.dQ = uint64_t(1) << 50;
                        t.dQStrides = {uint64_t(1) << 33, 64};
                      }),
            "argument 'dq' has stride 8589934592 in dimension 0, the limit is "
            "8589934584 elements (2^34 - 16 bytes)");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.dQStrides = {248, 64}; }),
      "argument 'dq' has stride 248 in dimension 0, expected at least "
      "256 because the kernel writes it");
  EXPECT_EQ(
      errorWith(*backward, [](BackwardTensors &t) { t.dKStrides = {128, 56}; }),
      "argument 'dk' has stride 56 in dimension 1, expected at least 64 "
      "because the kernel writes it");

  // Gradients side by side in the rows of one tensor.
  auto sideBySide = [&](uint64_t dk, uint64_t dv, uint64_t stride = 512) {
    return errorWith(*backward, [=](BackwardTensors &t) {
      t.dQStrides = t.dKStrides = t.dVStrides = {stride, 64};
      t.dK = t.dQ + dk;
      t.dV = t.dQ + dv;
    });
  };
  EXPECT_EQ(sideBySide(512, 768), "");
  EXPECT_EQ(sideBySide(768, 512), "");
  EXPECT_EQ(sideBySide(512, 768, 520), "");
  EXPECT_EQ(sideBySide(uint64_t(-256), uint64_t(-512)), "");
  // In another row.
  EXPECT_EQ(sideBySide(3 * 1024 + 512, 768), "");
  EXPECT_EQ(sideBySide(496, 768),
            "'dk' (307456 bytes at 0x500001f0) overlaps 'dq' (307712 bytes at "
            "0x50000000)");
  EXPECT_EQ(sideBySide(512, 752),
            "'dv' (307456 bytes at 0x500002f0) overlaps 'dk' (307456 bytes at "
            "0x50000200)");
  // The last head reaches into the next row's first.
  EXPECT_EQ(sideBySide(512, 784),
            "'dv' (307456 bytes at 0x50000310) overlaps 'dq' (307712 bytes at "
            "0x50000000)");
  EXPECT_EQ(sideBySide(uint64_t(-240), uint64_t(-512)),
            "'dk' (307456 bytes at 0x4fffff10) overlaps 'dq' (307712 bytes at "
            "0x50000000)");
  // Other rows: dK's come to lie on dQ's.
  EXPECT_EQ(errorWith(*backward,
                      [](BackwardTensors &t) {
                        t.dQStrides = {512, 64};
                        t.dKStrides = {520, 64};
                        t.dK = t.dQ + 512;
                      }),
            "'dk' (312256 bytes at 0x50000200) overlaps 'dq' (307712 bytes at "
            "0x50000000)");
  // Side by side head by head, [tokens, 2, 2, 64].
  auto byHeads = [&](uint64_t dv, uint64_t token) {
    return errorWith(*backward, [=](BackwardTensors &t) {
      t.dKStrides = t.dVStrides = {token, 128};
      t.dV = t.dK + dv;
    });
  };
  EXPECT_EQ(byHeads(128, 256), "");
  EXPECT_NE(byHeads(112, 256).find("overlaps 'dk'"), std::string::npos);
  EXPECT_NE(byHeads(144, 256).find("overlaps 'dk'"), std::string::npos);
  EXPECT_EQ(byHeads(128, 264), "");
  EXPECT_NE(byHeads(256, 264).find("overlaps 'dk'"), std::string::npos);
  // dV's second head is in the next row: beside dK's first, and upon it.
  EXPECT_EQ(byHeads(384, 256), "");
  EXPECT_NE(byHeads(384, 264).find("overlaps 'dk'"), std::string::npos);
}

TEST(Backward, KernelsWithPolynomialsMustHaveTheSame) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  auto create = [&] {
    return errorOf(
        AttentionBackward::create(*device, folder.open(), smallConfig()));
  };
  EXPECT_EQ(create(), "");
  Declaration keys = declarations[2], queries = declarations[3];
  queries.more = R"("exp2_emulation": [1, 4], )";
  folder.write(queries);
  EXPECT_EQ(create(), ""); // dK,dV has none
  keys.more = R"("exp2_emulation": [1, 8], )";
  folder.write(keys);
  EXPECT_EQ(create(),
            "kernel 'attention_bwd_dkdv' computes 1 of 8 blocks of "
            "exponentials by polynomial, but 'attention_bwd_dq' computes 1 of "
            "4; compile them with the same --exp2-emulation");
  keys.more = queries.more;
  folder.write(keys);
  EXPECT_EQ(create(), "");
  // The same blocks by another name.
  for (auto [share, same] : {std::pair(R"("exp2_emulation": [2, 8], )", true),
                             {R"("exp2_emulation": [8, 32], )", true},
                             {R"("exp2_emulation": [2, 16], )", false}}) {
    Declaration other = keys;
    other.more = share;
    folder.write(other);
    EXPECT_EQ(create().empty(), same) << share;
  }
  folder.write(keys);
  // A forward of the same folder too.
  Declaration forward = {"attention_fwd", keys.parameters,
                         "q_data:f8E4M3FN:T,H,64 work:i32:?,4",
                         R"("exp2_emulation": [3, 8], )"};
  folder.write(forward);
  EXPECT_EQ(create(),
            "kernel 'attention_bwd_dkdv' computes 1 of 4 blocks of "
            "exponentials by polynomial, but 'attention_fwd' computes 3 of 8; "
            "compile them with the same --exp2-emulation");
  Declaration plainKeys = keys;
  plainKeys.more = "";
  folder.write(plainKeys);
  EXPECT_EQ(create(),
            "kernel 'attention_bwd_dq' computes 1 of 4 blocks of "
            "exponentials by polynomial, but 'attention_fwd' computes 3 of 8; "
            "compile them with the same --exp2-emulation");
  folder.write(keys);
  forward.more = "";
  folder.write(forward);
  EXPECT_EQ(create(), "");
  forward.more = keys.more;
  folder.write(forward);
  EXPECT_EQ(create(), "");
  folder.remove("attention_fwd.json");

  // Of several forwards the one that these heads run.
  Declaration one = forward, two = forward;
  one.parameters = R"("head_dim": 64, "causal": true, "slots": 1)";
  two.parameters = R"("head_dim": 64, "causal": true, "slots": 2)";
  auto createWith = [&](const char *ofOne, const char *ofTwo, int64_t heads) {
    one.more = ofOne;
    two.more = ofTwo;
    folder.write(one, "false", "_1");
    folder.write(two, "false", "_2");
    AttentionConfig config = smallConfig();
    config.heads = heads;
    return errorOf(AttentionBackward::create(*device, folder.open(), config));
  };
  const char *good = keys.more, *bad = R"("exp2_emulation": [3, 8], )";
  const std::string message =
      "kernel 'attention_bwd_dkdv' computes 1 of 4 blocks of exponentials by "
      "polynomial, but 'attention_fwd' computes 3 of 8; compile them with the "
      "same --exp2-emulation";
  EXPECT_EQ(createWith(good, good, 4), "");
  EXPECT_EQ(createWith(good, bad, 4), message);
  EXPECT_EQ(createWith(bad, good, 4), "");
  EXPECT_EQ(createWith(good, bad, 2), "");
  EXPECT_EQ(createWith(bad, good, 2), message);
}

TEST(Backward, KernelsOfAnotherVersion) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  auto errorWith = [&](const char *arguments) {
    Declaration changed = declarations[3];
    changed.arguments = arguments;
    folder.write(changed);
    std::unique_ptr<AttentionBackward> backward = makeBackward(*device, folder);
    return errorOf(backward->prepare(documents, Addresses().tensors));
  };
  EXPECT_EQ(errorWith("q_data:f8E4M3FN:T,H,64 fancy:f32:T,H work:i32:?,4"),
            "kernel 'attention_bwd_dq' has an argument 'fancy', which this "
            "version does not know");
  EXPECT_EQ(errorWith("q_data!:f8E4M3FN:T,H,64 work:i32:?,4"),
            "kernel 'attention_bwd_dq' writes its argument 'q_data', which is "
            "an input");
  EXPECT_EQ(errorWith("r:f32:T,H@ work:i32:?,4"), "");
  EXPECT_EQ(errorWith("do:f32:T,H@ work:i32:?,4"),
            "kernel 'attention_bwd_dq' has its argument 'do' in the workspace, "
            "which is a tensor of the caller in this version");
  EXPECT_EQ(errorWith("q_data:bf16:T,H,64 work:i32:?,4"),
            "argument 'q_data' holds f8E4M3FN, expected bf16");
}
