//===- Attention.cpp - The attention forward for callers ------------------===//
//
// Kernels and launches of the attention forward.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/Attention.h"
#include "lib/Runtime/PlanBuilder.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

Error LaunchPlan::launch(void *stream) {
  for (Step &step : launches)
    if (Error error = step.prepared->launch(stream))
      return error;
  return Error::success();
}

Error ForwardPlan::launchQuantize(void *stream) {
  for (Step &step : MutableArrayRef<Step>(launches).drop_back())
    if (Error error = step.prepared->launch(stream))
      return error;
  return Error::success();
}

Error ForwardPlan::launchAttention(void *stream) {
  return launches.back().prepared->launch(stream);
}

Expected<std::unique_ptr<AttentionForward>>
AttentionForward::create(Device &device, const KernelLibrary &library,
                         const AttentionConfig &config) {
  if (Error error = checkConfig(config))
    return std::move(error);
  std::unique_ptr<AttentionForward> forward(
      new AttentionForward(device, config));
  std::string dim = std::to_string(config.headDim);
  std::string format = nameOf(config.format).str();
  if (Error error = loadKernel(device, library, config, "quantize_qkv",
                               {{"head_dim", dim}, {"format", format}},
                               forward->quantize))
    return std::move(error);
  if (Error error = loadKernel(device, library, config, "attention_fwd",
                               {{"head_dim", dim},
                                {"causal", config.causal ? "true" : "false"},
                                {"format", format}},
                               forward->attention))
    return std::move(error);
  for (auto [name, kernel] : {std::pair<StringRef, std::unique_ptr<Kernel> *>{
                                  "order_documents", &forward->orderDocuments},
                              {"build_work_list", &forward->buildWorkList}}) {
    Expected<const LaunchRecord *> found = library.find(name, config.arch, {});
    if (!found) {
      consumeError(found.takeError());
      continue;
    }
    if (Error error = loadKernel(device, library, config, name, {}, *kernel))
      return std::move(error);
  }
  return forward;
}

Error AttentionForward::setGlobalScales(float q, float k) {
  return changeGlobalScales(settings, q, k);
}

Error AttentionForward::addTensors(PlanBuilder &builder,
                                   const WorkspaceLayout &layout,
                                   const ForwardTensors &tensors) const {
  if (Error error = builder.addWorkspace(
          "the workspace", layout, tensors.workspace, tensors.workspaceBytes,
          tensors.pieces, Access::ReadWrite))
    return error;
  builder.addBf16("q", tensors.q, settings.heads, Access::Read,
                  tensors.qStrides);
  builder.addBf16("k", tensors.k, settings.kvHeads, Access::Read,
                  tensors.kStrides);
  builder.addBf16("v", tensors.v, settings.kvHeads, Access::Read,
                  tensors.vStrides);
  builder.addBf16("o", tensors.o, settings.heads, Access::Write);
  builder.addVector("lse", tensors.lse, Access::Write);
  return builder.checkOverlaps();
}

Error AttentionForward::addSteps(const PlanBuilder &builder,
                                 ForwardPlan &plan) const {
  if (Error error = builder.addStep(plan, "quantize_qkv", *quantize))
    return error;
  return builder.addStep(
      plan, "attention_fwd", *attention,
      {{"v_scale", "v_scale_rows"}, {"v_bf16", "v"}},
      builder.gridChoice(*attention, schedule::Kernel::Forward));
}

Expected<std::unique_ptr<ForwardPlan>>
AttentionForward::prepare(ArrayRef<int64_t> offsets,
                          const ForwardTensors &tensors) {
  Expected<WorkspaceLayout> layout = queryWorkspace(settings, offsets);
  if (!layout)
    return layout.takeError();
  PlanBuilder builder(settings, uint64_t(offsets.back()));
  if (Error error = addTensors(builder, *layout, tensors))
    return std::move(error);

  auto plan = std::make_unique<ForwardPlan>();
  plan->layout = std::move(*layout);
  plan->work = schedule::buildWorkList(offsets, settings.causal,
                                       {target.sms(), settings.kvHeads});
  // An empty pack may come without memory.
  const Argument &work = builder.tensor("work");
  if (work.bytes)
    if (Error error =
            target.upload(work.address, plan->work.items.data(), work.bytes))
      return std::move(error);
  if (Error error = addSteps(builder, *plan))
    return std::move(error);
  return plan;
}

Expected<std::unique_ptr<ForwardPlan>>
AttentionForward::prepareFromDevice(const DeviceOffsets &offsets,
                                    const ForwardTensors &tensors) {
  if (!orderDocuments || !buildWorkList)
    return makeError(ErrorCode::NotFound,
                     "offsets on the device need the kernels order_documents "
                     "and build_work_list, which the library does not have");
  Expected<WorkspaceLayout> layout = queryDeviceWorkspace(settings, offsets);
  if (!layout)
    return layout.takeError();
  PlanBuilder builder(settings, uint64_t(offsets.tokens), target.sms());
  builder.addOffsets(offsets);
  if (Error error = addTensors(builder, *layout, tensors))
    return std::move(error);

  auto plan = std::make_unique<ForwardPlan>();
  plan->layout = std::move(*layout);
  if (Error error = builder.addStep(*plan, "order_documents", *orderDocuments))
    return std::move(error);
  if (Error error = builder.addStep(*plan, "build_work_list", *buildWorkList))
    return std::move(error);
  if (Error error = addSteps(builder, *plan))
    return std::move(error);
  return plan;
}
