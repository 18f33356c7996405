//===- AttentionBackward.cpp - The attention backward for callers ---------===//
//
// Kernels and launches of the attention backward.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/AttentionBackward.h"
#include "lib/Runtime/PlanBuilder.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

/// Kernels that compute blocks of weights by polynomial must compute the same
/// ones. One without polynomials goes with all others: fewer than 2e-6 of the
/// quantized weights differ (docs/numerics.md).
static Error checkExp2(ArrayRef<const LaunchRecord *> records) {
  auto share = [](const LaunchRecord &of) {
    return (Twine(of.exp2.blocks) + " of " + Twine(of.exp2.of)).str();
  };
  const LaunchRecord *first = nullptr;
  for (const LaunchRecord *record : records) {
    if (record->exp2.blocks == 0)
      continue;
    // 2 of 8 blocks are those of 1 of 4.
    if (first && record->exp2.blocks * first->exp2.of !=
                     first->exp2.blocks * record->exp2.of)
      return invalidArgument("kernel '" + first->kernel + "' computes " +
                             share(*first) +
                             " blocks of exponentials by polynomial, but '" +
                             record->kernel + "' computes " + share(*record) +
                             "; compile them with the same --exp2-emulation");
    if (!first)
      first = record;
  }
  return Error::success();
}

Expected<std::unique_ptr<AttentionBackward>>
AttentionBackward::create(Device &device, const KernelLibrary &library,
                          const AttentionConfig &config, bool withDLse) {
  if (Error error = checkConfig(config))
    return std::move(error);
  std::unique_ptr<AttentionBackward> backward(
      new AttentionBackward(device, config, withDLse));
  std::string dim = std::to_string(config.headDim);
  KernelLibrary::Parameters gradients = {
      {"head_dim", dim},
      {"causal", config.causal ? "true" : "false"},
      {"format", nameOf(config.format).str()}};
  if (Error error =
          loadKernel(device, library, config, "attention_bwd_prep",
                     {{"head_dim", dim}, {"dlse", withDLse ? "true" : "false"}},
                     backward->queries))
    return std::move(error);
  if (Error error =
          loadKernel(device, library, config, "attention_bwd_prep_keys",
                     {{"head_dim", dim}}, backward->keys))
    return std::move(error);
  if (Error error = loadKernel(device, library, config, "attention_bwd_dkdv",
                               gradients, backward->keyGradients))
    return std::move(error);
  if (Error error = loadKernel(device, library, config, "attention_bwd_dq",
                               gradients, backward->queryGradients))
    return std::move(error);
  std::vector<const LaunchRecord *> records = {
      &backward->keyGradients->record(), &backward->queryGradients->record()};
  if (Expected<const LaunchRecord *> forward =
          findKernel(library, config, "attention_fwd", gradients))
    records.push_back(*forward);
  else
    consumeError(forward.takeError());
  if (Error error = checkExp2(records))
    return std::move(error);
  return backward;
}

Error AttentionBackward::setGlobalScales(float q, float k) {
  return changeGlobalScales(settings, q, k);
}

Expected<std::unique_ptr<BackwardPlan>>
AttentionBackward::prepare(ArrayRef<int64_t> offsets,
                           const BackwardTensors &tensors) {
  Expected<WorkspaceLayout> saved = queryWorkspace(settings, offsets);
  if (!saved)
    return saved.takeError();
  Expected<WorkspaceLayout> layout = queryBackwardWorkspace(settings, offsets);
  if (!layout)
    return layout.takeError();
  return prepare(offsets.back(), *saved, std::move(*layout), tensors);
}

Expected<std::unique_ptr<BackwardPlan>>
AttentionBackward::prepareFromDevice(const DeviceOffsets &offsets,
                                     const BackwardTensors &tensors) {
  Expected<WorkspaceLayout> saved = queryDeviceWorkspace(settings, offsets);
  if (!saved)
    return saved.takeError();
  Expected<WorkspaceLayout> layout =
      queryDeviceBackwardWorkspace(settings, offsets);
  if (!layout)
    return layout.takeError();
  return prepare(offsets.tokens, *saved, std::move(*layout), tensors);
}

Expected<std::unique_ptr<BackwardPlan>>
AttentionBackward::prepare(int64_t tokens, const WorkspaceLayout &saved,
                           WorkspaceLayout layout,
                           const BackwardTensors &tensors) {
  if (tensors.dLse && !withDLse)
    return invalidArgument("a dLSE is given, but this backward was created "
                           "without");
  PlanBuilder builder(settings, uint64_t(tokens));
  const ForwardTensors &forward = tensors.forward;
  if (Error error = builder.addWorkspace(
          "the forward's workspace", saved, forward.workspace,
          forward.workspaceBytes, forward.pieces, Access::Read))
    return std::move(error);
  if (Error error = builder.addWorkspace(
          "the backward's workspace", layout, tensors.workspace,
          tensors.workspaceBytes, tensors.pieces, Access::ReadWrite))
    return std::move(error);
  builder.addBf16("v", forward.v, settings.kvHeads, Access::Read,
                  forward.vStrides);
  builder.addBf16("o", forward.o, settings.heads, Access::Read);
  builder.addBf16("do", tensors.dO, settings.heads, Access::Read,
                  tensors.dOStrides);
  if (withDLse)
    builder.addVector("dlse", tensors.dLse, Access::Read);
  builder.addBf16("dq", tensors.dQ, settings.heads, Access::Write,
                  tensors.dQStrides);
  builder.addBf16("dk", tensors.dK, settings.kvHeads, Access::Write,
                  tensors.dKStrides);
  builder.addBf16("dv", tensors.dV, settings.kvHeads, Access::Write,
                  tensors.dVStrides);
  if (Error error = builder.checkOverlaps())
    return std::move(error);

  auto plan = std::make_unique<BackwardPlan>();
  plan->layout = std::move(layout);
  // A preparation without dLSE has the argument all the same, and does not read
  // it.
  PlanBuilder::Renamed queryNames;
  if (!withDLse)
    queryNames.push_back({"dlse", "l"});
  if (Error error =
          builder.addStep(*plan, "attention_bwd_prep", *queries, queryNames))
    return std::move(error);
  PlanBuilder::Renamed valueNames = {{"v_scale", "v_scale_cols"},
                                     {"v_bf16", "v"}};
  if (Error error =
          builder.addStep(*plan, "attention_bwd_prep_keys", *keys, valueNames))
    return std::move(error);
  if (Error error = builder.addStep(
          *plan, "attention_bwd_dkdv", *keyGradients, valueNames,
          builder.gridChoice(*keyGradients, schedule::Kernel::KeyGradients)))
    return std::move(error);
  if (Error error = builder.addStep(
          *plan, "attention_bwd_dq", *queryGradients, valueNames,
          builder.gridChoice(*queryGradients,
                             schedule::Kernel::QueryGradients)))
    return std::move(error);
  return plan;
}
