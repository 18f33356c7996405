//===- Nvfp4Test.cpp - Format nvfp4 in the host API -----------------------===//
//
// Configurations, workspaces, the choice of kernels and what is bound to them
// in format nvfp4, on kernels that do nothing.
//
//===----------------------------------------------------------------------===//

#include "KernelFolder.h"

#include "flamia/Sim/Simulator.h"

#include <cmath>

using namespace flamia;
using namespace flamia::test;
using namespace flamia::runtime;
using llvm::StringRef;

namespace {

const Declaration declarations[] = {
    {"quantize_qkv", R"("head_dim": 64, "format": "nvfp4")",
     "q:bf16:T,H,64 k:bf16:T,G,64 v:bf16:T,G,64 work:i32:?,4 "
     "q_global_scale:f32 k_global_scale:f32 q_data!:f8E4M3FN:T,H,64 "
     "q_scale!:f8E8M0FNU:S,H,512 q_fp4!:f4E2M1FN:T,H,64 "
     "q_fp4_scale!:f8E4M3FN:S,H,1,512 k_data!:f8E4M3FN:T,G,64 "
     "k_scale!:f8E8M0FNU:S,G,512 k_fp4!:f4E2M1FN:T,G,64 "
     "k_fp4_scale!:f8E4M3FN:S,G,1,512 v_data!:f8E4M3FN:T,G,64 "
     "v_scale_rows!:f8E8M0FNU:S,G,512 v_scale_cols!:f8E8M0FNU:S,G,512"},
    {"attention_fwd", R"("head_dim": 64, "causal": true, "format": "nvfp4")",
     "q_fp4:f4E2M1FN:T,H,64 q_fp4_scale:f8E4M3FN:S,H,1,512 "
     "k_fp4:f4E2M1FN:T,G,64 k_fp4_scale:f8E4M3FN:S,G,1,512 "
     "v_data:f8E4M3FN:T,G,64 v_scale:f8E8M0FNU:S,G,512 v_bf16:bf16:T,G,64 "
     "work:i32:?,4 softmax_scale:f32 q_global_scale:f32 k_global_scale:f32 "
     "o!:bf16:T,H,64 lse!:f32:T,H m!:f32:T,H l!:f32:T,H kappa!:f32:T,H"},
    {"attention_bwd_prep", R"("head_dim": 64, "dlse": false)",
     "q_scale:f8E8M0FNU:S,H,512 o:bf16:T,H,64 do:bf16:T,H,64 work:i32:?,4 "
     "r!:f32:T,H"},
    {"attention_bwd_prep_keys", R"("head_dim": 64)",
     "k_scale:f8E8M0FNU:S,G,512 work:i32:?,4 k_block_scale!:f8E8M0FNU:S,G,512"},
    {"attention_bwd_dkdv",
     R"("head_dim": 64, "causal": true, "format": "nvfp4")",
     "q_data:f8E4M3FN:T,H,64 q_fp4:f4E2M1FN:T,H,64 "
     "q_fp4_scale:f8E4M3FN:S,H,1,512 k_fp4:f4E2M1FN:T,G,64 "
     "k_fp4_scale:f8E4M3FN:S,G,1,512 work:i32:?,4 softmax_scale:f32 "
     "q_global_scale:f32 k_global_scale:f32 dk!:bf16:T,G,64 dv!:bf16:T,G,64"},
    {"attention_bwd_dq", R"("head_dim": 64, "causal": true, "format": "nvfp4")",
     "k_data:f8E4M3FN:T,G,64 q_fp4:f4E2M1FN:T,H,64 "
     "q_fp4_scale:f8E4M3FN:S,H,1,512 k_fp4:f4E2M1FN:T,G,64 "
     "k_fp4_scale:f8E4M3FN:S,G,1,512 work:i32:?,4 softmax_scale:f32 "
     "q_global_scale:f32 k_global_scale:f32 dq!:bf16:T,H,64"}};

AttentionConfig nvfp4Config() {
  AttentionConfig config;
  config.heads = 4;
  config.kvHeads = 2;
  config.headDim = 64;
  config.format = Format::Nvfp4;
  config.qGlobalScale = 0.25f;
  config.kGlobalScale = 3.0f;
  return config;
}

const std::vector<int64_t> documents = {0, 200, 200, 301};

/// Checks addresses and numbers of a plan's steps; `expected` has the addresses
/// by name.
void expectBound(const LaunchPlan &plan,
                 const std::map<std::string, uint64_t> &expected) {
  for (const LaunchPlan::Step &step : plan.steps())
    for (const Argument &argument : step.arguments) {
      SCOPED_TRACE(step.name + " " + argument.name);
      if (argument.isTensor) {
        ASSERT_TRUE(expected.count(argument.name));
        EXPECT_EQ(argument.address, expected.at(argument.name));
        continue;
      }
      EXPECT_EQ(argument.scalar, argument.name == "softmax_scale"    ? 0.125
                                 : argument.name == "q_global_scale" ? 0.25
                                                                     : 3.0);
    }
}

} // namespace

TEST(Nvfp4, ChecksConfigurations) {
  EXPECT_EQ(nameOf(Format::Nvfp4), "nvfp4");
  EXPECT_EQ(parseFormat("mxfp8"), Format::Mxfp8);
  EXPECT_EQ(parseFormat("nvfp4"), Format::Nvfp4);
  EXPECT_EQ(parseFormat("fp4"), std::nullopt);

  AttentionConfig config = nvfp4Config();
  EXPECT_EQ(llvm::toString(checkConfig(config)), "");
  for (float good : {0x1p-32f, 0x1p32f, 0.3f}) {
    config.qGlobalScale = good;
    EXPECT_EQ(llvm::toString(checkConfig(config)), "");
  }
  const std::pair<float, const char *> faults[] = {{0.0f, "0"},
                                                   {-0.125f, "-0.125"},
                                                   {NAN, "nan"},
                                                   {INFINITY, "inf"},
                                                   {0x1p-33f, "1.16415322e-10"},
                                                   {0x1p33f, "8.58993459e+09"}};
  for (auto [value, text] : faults) {
    AttentionConfig q = nvfp4Config(), k = nvfp4Config();
    q.qGlobalScale = value;
    k.kGlobalScale = value;
    EXPECT_EQ(llvm::toString(checkConfig(q)),
              "q_global_scale is " + std::string(text) +
                  ", expected a number from 2^-32 to 2^32");
    EXPECT_EQ(llvm::toString(checkConfig(k)),
              "k_global_scale is " + std::string(text) +
                  ", expected a number from 2^-32 to 2^32");
    // Mxfp8 has none.
    q.format = Format::Mxfp8;
    EXPECT_EQ(llvm::toString(checkConfig(q)), "");
  }
}

TEST(Nvfp4, Workspace) {
  // What format mxfp8 has comes first, where it lies there.
  for (int64_t dim : {64, 128}) {
    AttentionConfig config = nvfp4Config();
    config.headDim = dim;
    WorkspaceLayout layout = needed(queryWorkspace(config, documents));
    config.format = Format::Mxfp8;
    WorkspaceLayout mxfp8 = needed(queryWorkspace(config, documents));
    ASSERT_EQ(layout.tensors.size(), mxfp8.tensors.size() + 4);
    for (size_t i = 0; i < mxfp8.tensors.size(); ++i) {
      EXPECT_EQ(layout.tensors[i].name, mxfp8.tensors[i].name);
      EXPECT_EQ(layout.tensors[i].offset, mxfp8.tensors[i].offset);
    }
    uint64_t more = 0;
    for (size_t i = mxfp8.tensors.size(); i < layout.tensors.size(); ++i) {
      EXPECT_TRUE(layout.tensors[i].saved);
      more += layout.tensors[i].bytes;
    }
    // The formula of Attention.h: 301 tokens, 3 tiles, 6 heads in all.
    EXPECT_EQ(2 * more, uint64_t(6 * dim * (301 + 16 * 3)));
    const WorkspaceTensor *codes = layout.find("k_fp4"),
                          *scales = layout.find("q_fp4_scale");
    ASSERT_TRUE(codes && scales);
    EXPECT_EQ(codes->element, Element::F4E2M1FN);
    EXPECT_EQ(codes->extents, (std::vector<uint64_t>{301, 2, uint64_t(dim)}));
    EXPECT_EQ(codes->bytes, uint64_t(301 * dim));
    EXPECT_EQ(scales->element, Element::F8E4M3FN);
    EXPECT_EQ(scales->extents,
              (std::vector<uint64_t>{3, 4, uint64_t(dim) / 64, 512}));
  }
  std::vector<std::string> saved = savedForBackward(Format::Nvfp4),
                           expected = savedForBackward();
  for (const char *name : {"q_fp4", "q_fp4_scale", "k_fp4", "k_fp4_scale"})
    expected.push_back(name);
  EXPECT_EQ(saved, expected);
  // The backward's own workspace knows no format.
  AttentionConfig config = nvfp4Config();
  uint64_t bytes = needed(queryBackwardWorkspace(config, documents)).bytes;
  config.format = Format::Mxfp8;
  EXPECT_EQ(needed(queryBackwardWorkspace(config, documents)).bytes, bytes);
}

TEST(Nvfp4, BindsEveryArgument) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  AttentionConfig config = nvfp4Config();
  std::unique_ptr<AttentionForward> forward =
      needed(AttentionForward::create(*device, folder.open(), config));
  std::unique_ptr<AttentionBackward> backward =
      needed(AttentionBackward::create(*device, folder.open(), config));
  WorkspaceLayout layout = needed(queryWorkspace(config, documents)),
                  scratch = needed(queryBackwardWorkspace(config, documents));
  BackwardTensors tensors;
  // The work list is uploaded, so this must exist.
  tensors.forward.workspace =
      needed(device->allocate("workspace", layout.bytes));
  tensors.forward.workspaceBytes = layout.bytes;
  tensors.workspaceBytes = scratch.bytes;
  std::map<std::string, uint64_t> expected;
  uint64_t next = uint64_t(1) << 40;
  const std::pair<const char *, uint64_t *> own[] = {
      {"q", &tensors.forward.q},     {"k", &tensors.forward.k},
      {"v", &tensors.forward.v},     {"o", &tensors.forward.o},
      {"lse", &tensors.forward.lse}, {"do", &tensors.dO},
      {"dq", &tensors.dQ},           {"dk", &tensors.dK},
      {"dv", &tensors.dV},           {"scratch", &tensors.workspace}};
  for (auto [name, address] : own)
    expected[name] = *address = next += uint64_t(1) << 32;
  for (const WorkspaceTensor &tensor : layout.tensors)
    expected[tensor.name] = tensors.forward.workspace + tensor.offset;
  for (const WorkspaceTensor &tensor : scratch.tensors)
    expected[tensor.name] = tensors.workspace + tensor.offset;
  expected["v_bf16"] = expected["v"];

  std::unique_ptr<ForwardPlan> plan =
      needed(forward->prepare(documents, tensors.forward));
  ASSERT_EQ(plan->steps().size(), 2u);
  expected["v_scale"] = expected["v_scale_rows"];
  expectBound(*plan, expected);
  EXPECT_EQ(llvm::toString(plan->launch()), "");
  std::unique_ptr<BackwardPlan> gradients =
      needed(backward->prepare(documents, tensors));
  ASSERT_EQ(gradients->steps().size(), 4u);
  expectBound(*gradients, expected);
  EXPECT_EQ(llvm::toString(gradients->launch()), "");

  // Scales of another step, on the same kernels.
  auto scalesOf = [](const LaunchPlan::Step &step) {
    std::vector<double> scales;
    for (const Argument &argument : step.arguments)
      if (StringRef(argument.name).ends_with("global_scale"))
        scales.push_back(argument.scalar);
    return scales;
  };
  EXPECT_EQ(llvm::toString(forward->setGlobalScales(0.5f, 0.0f)),
            "k_global_scale is 0, expected a number from 2^-32 to 2^32");
  EXPECT_EQ(forward->config().qGlobalScale, 0.25f);
  EXPECT_EQ(llvm::toString(forward->setGlobalScales(0.5f, 7.0f)), "");
  EXPECT_EQ(llvm::toString(backward->setGlobalScales(0.5f, 7.0f)), "");
  plan = needed(forward->prepare(documents, tensors.forward));
  gradients = needed(backward->prepare(documents, tensors));
  for (const LaunchPlan::Step *step :
       {&plan->steps()[0], &plan->steps()[1], &gradients->steps()[2],
        &gradients->steps()[3]})
    EXPECT_EQ(scalesOf(*step), (std::vector<double>{0.5, 7.0})) << step->name;
}

TEST(Nvfp4, ChoiceOfKernels) {
  KernelFolder folder(declarations);
  std::unique_ptr<Device> device = createSimDevice({});
  AttentionConfig config = nvfp4Config();
  // A folder without the format.
  config.format = Format::Mxfp8;
  EXPECT_EQ(
      llvm::toString(
          AttentionForward::create(*device, folder.open(), config).takeError()),
      "kernel folder '" + folder.path().str() +
          "' has no kernel 'quantize_qkv' with head_dim=64 format=mxfp8");
  EXPECT_EQ(
      llvm::toString(AttentionBackward::create(*device, folder.open(), config)
                         .takeError()),
      "kernel folder '" + folder.path().str() +
          "' has no kernel 'attention_bwd_dkdv' with head_dim=64 causal=true "
          "format=mxfp8");
  // Both formats side by side; a kernel without the parameter serves mxfp8.
  folder.write({"quantize_qkv", R"("head_dim": 64)", "work:i32:?,4"});
  folder.write({"attention_fwd",
                R"("head_dim": 64, "causal": true, "format": "mxfp8")",
                "work:i32:?,4"});
  for (Format format : {Format::Mxfp8, Format::Nvfp4}) {
    config.format = format;
    std::unique_ptr<AttentionForward> forward =
        needed(AttentionForward::create(*device, folder.open(), config));
    ForwardTensors tensors;
    std::unique_ptr<ForwardPlan> plan = needed(forward->prepare({0}, tensors));
    bool isNvfp4 = format == Format::Nvfp4;
    EXPECT_EQ(plan->steps()[0].kernel->record().parameters.count("format"),
              size_t(isNvfp4));
    EXPECT_EQ(plan->steps()[1].kernel->record().parameters.at("format"),
              nameOf(format));
  }
  folder.remove("attention_fwd_nvfp4.json");
  EXPECT_EQ(
      llvm::toString(
          AttentionForward::create(*device, folder.open(), config).takeError()),
      "kernel folder '" + folder.path().str() +
          "' has no kernel 'attention_fwd' with head_dim=64 causal=true "
          "format=nvfp4");
}

TEST(Nvfp4, Mxfp8HasNoSecondLevelScale) {
  // A kernel that takes one cannot be used without.
  const Declaration odd[] = {
      {"quantize_qkv", R"("head_dim": 64)", "work:i32:?,4"},
      {"attention_fwd", R"("head_dim": 64, "causal": true)",
       "work:i32:?,4 q_global_scale:f32"}};
  KernelFolder folder(odd);
  std::unique_ptr<Device> device = createSimDevice({});
  AttentionConfig config = nvfp4Config();
  config.format = Format::Mxfp8;
  std::unique_ptr<AttentionForward> forward =
      needed(AttentionForward::create(*device, folder.open(), config));
  EXPECT_EQ(llvm::toString(forward->prepare({0}, {}).takeError()),
            "kernel 'attention_fwd' has an argument 'q_global_scale', which "
            "this version does not know");
  EXPECT_EQ(llvm::toString(forward->setGlobalScales(1, 1)),
            "format mxfp8 has no second-level scales");
}
