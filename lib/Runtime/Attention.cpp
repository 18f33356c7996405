//===- Attention.cpp - Microscaled attention for callers ------------------===//
//
// Workspace layout, checks and launches of the attention forward.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/Attention.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

namespace {

constexpr uint64_t pieceAlignment = 256;
constexpr uint64_t scaleAtomBytes = 512;

Error invalid(const Twine &message) {
  return makeError(ErrorCode::InvalidArgument, message);
}

} // namespace

float AttentionConfig::scale() const {
  return softmaxScale ? *softmaxScale : float(1.0 / std::sqrt(double(headDim)));
}

Error runtime::checkConfig(const AttentionConfig &config) {
  if (config.headDim != 64 && config.headDim != 128)
    return makeError(ErrorCode::NotSupported,
                     "head_dim " + Twine(config.headDim) +
                         " is not supported, expected 64 or 128");
  if (config.heads < 1 || config.heads > 65535)
    return invalid("heads is " + Twine(config.heads) + ", expected 1 to 65535");
  if (config.kvHeads < 1 || config.heads % config.kvHeads)
    return invalid("heads is " + Twine(config.heads) +
                   ", expected a multiple of kv_heads, which is " +
                   Twine(config.kvHeads));
  if (config.softmaxScale &&
      !(std::isfinite(*config.softmaxScale) && *config.softmaxScale >= 0))
    return invalid(formatv("softmax_scale is {0}, expected a finite number "
                           ">= 0",
                           *config.softmaxScale)
                       .str());
  return Error::success();
}

const WorkspaceTensor *WorkspaceLayout::find(StringRef name) const {
  for (const WorkspaceTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

Expected<WorkspaceLayout> runtime::queryWorkspace(const AttentionConfig &config,
                                                  ArrayRef<int64_t> offsets) {
  if (Error error = checkConfig(config))
    return std::move(error);
  if (Error error = schedule::validateOffsets(
          offsets, offsets.empty() ? 0 : offsets.back()))
    return invalid(toString(std::move(error)));
  uint64_t tokens = uint64_t(offsets.back());
  uint64_t tiles = uint64_t(schedule::countItems(offsets));
  uint64_t heads = uint64_t(config.heads), kvHeads = uint64_t(config.kvHeads);
  uint64_t dim = uint64_t(config.headDim);

  WorkspaceLayout layout;
  auto add = [&](StringRef name, Element element, std::vector<uint64_t> extents,
                 bool saved) {
    WorkspaceTensor tensor;
    tensor.name = name.str();
    tensor.element = element;
    tensor.bytes = bytesOf(element);
    for (uint64_t extent : extents)
      tensor.bytes *= extent;
    tensor.extents = std::move(extents);
    tensor.saved = saved;
    tensor.offset = layout.bytes;
    // 2^31 tokens x 2^16 heads x 128 x 4 bytes stays below 2^56.
    layout.bytes = alignTo(tensor.offset + tensor.bytes, pieceAlignment);
    layout.tensors.push_back(std::move(tensor));
  };
  add("work", Element::I32, {tiles, 4}, true);
  add("q_data", Element::F8E4M3FN, {tokens, heads, dim}, true);
  add("q_scale", Element::F8E8M0FNU, {tiles, heads, scaleAtomBytes}, true);
  add("k_data", Element::F8E4M3FN, {tokens, kvHeads, dim}, true);
  add("k_scale", Element::F8E8M0FNU, {tiles, kvHeads, scaleAtomBytes}, true);
  add("v_data", Element::F8E4M3FN, {tokens, kvHeads, dim}, true);
  // The forward multiplies along tokens, the backward along channels.
  add("v_scale_rows", Element::F8E8M0FNU, {tiles, kvHeads, scaleAtomBytes},
      false);
  add("v_scale_cols", Element::F8E8M0FNU, {tiles, kvHeads, scaleAtomBytes},
      true);
  for (StringRef name : {"m", "l", "kappa"})
    add(name, Element::F32, {tokens, heads}, true);
  return layout;
}

std::vector<std::string> runtime::savedForBackward() {
  std::vector<std::string> names = {"q", "k", "v", "o", "lse"};
  WorkspaceLayout layout = cantFail(queryWorkspace({}, {0}));
  for (const WorkspaceTensor &tensor : layout.tensors)
    if (tensor.saved)
      names.push_back(tensor.name);
  return names;
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

Error ForwardPlan::launch(void *stream) {
  if (Error error = launchQuantize(stream))
    return error;
  return launchAttention(stream);
}

Expected<std::unique_ptr<AttentionForward>>
AttentionForward::create(Device &device, const KernelLibrary &library,
                         const AttentionConfig &config) {
  if (Error error = checkConfig(config))
    return std::move(error);
  std::unique_ptr<AttentionForward> forward(
      new AttentionForward(device, config));
  std::string dim = std::to_string(config.headDim);
  auto load = [&](StringRef kernel, const KernelLibrary::Parameters &parameters,
                  std::unique_ptr<Kernel> &loaded) -> Error {
    Expected<const LaunchRecord *> record =
        library.find(kernel, config.arch, parameters);
    if (!record)
      return record.takeError();
    Expected<std::unique_ptr<Kernel>> result = device.load(**record);
    if (!result)
      return result.takeError();
    loaded = std::move(*result);
    return Error::success();
  };
  if (Error error = load("quantize_token_local",
                         {{"head_dim", dim}, {"rotate", "hadamard"}},
                         forward->quantizeLocal))
    return std::move(error);
  if (Error error = load("quantize_token_block", {{"head_dim", dim}},
                         forward->quantizeBlock))
    return std::move(error);
  if (Error error = load(
          "attention_fwd",
          {{"head_dim", dim}, {"causal", config.causal ? "true" : "false"}},
          forward->attention))
    return std::move(error);
  return forward;
}

Expected<std::unique_ptr<ForwardPlan>>
AttentionForward::prepare(ArrayRef<int64_t> offsets,
                          const ForwardTensors &tensors) {
  Expected<WorkspaceLayout> layout = queryWorkspace(settings, offsets);
  if (!layout)
    return layout.takeError();
  bool separate = !tensors.pieces.empty();
  if (separate && tensors.pieces.size() != layout->tensors.size())
    return invalid("expected " + Twine(layout->tensors.size()) +
                   " workspace addresses, found " +
                   Twine(tensors.pieces.size()));
  if (!separate && tensors.workspaceBytes < layout->bytes)
    return invalid("the workspace has " + Twine(tensors.workspaceBytes) +
                   " bytes, expected " + Twine(layout->bytes));
  if (!separate && tensors.workspace % pieceAlignment)
    return invalid(formatv("the workspace is at address {0:x}, which is not a "
                           "multiple of {1}",
                           tensors.workspace, pieceAlignment)
                       .str());

  auto plan = std::make_unique<ForwardPlan>();
  plan->layout = std::move(*layout);
  plan->work = schedule::buildWorkList(offsets, settings.causal);

  // A workspace tensor under the name that a kernel gives it.
  auto piece = [&](StringRef name, StringRef argument) {
    const WorkspaceTensor *tensor = plan->layout.find(name);
    uint64_t address =
        separate ? tensors.pieces[tensor - plan->layout.tensors.data()]
                 : tensors.workspace + tensor->offset;
    return Argument::tensor(argument, address, tensor->element, tensor->extents,
                            tensor->bytes);
  };
  uint64_t tokens = uint64_t(offsets.back());
  auto original = [&](StringRef name, uint64_t address, int64_t heads) {
    return Argument::tensor(
        name, address, Element::BF16,
        {tokens, uint64_t(heads), uint64_t(settings.headDim)});
  };
  auto same = [&](StringRef name) { return piece(name, name); };

  Argument work = same("work");
  if (Error error =
          target.upload(work.address, plan->work.items.data(), work.bytes))
    return std::move(error);

  auto add = [&](StringRef name, Kernel &kernel,
                 std::vector<Argument> arguments) -> Error {
    Expected<std::unique_ptr<PreparedLaunch>> prepared =
        kernel.prepare(arguments);
    if (!prepared)
      return prepared.takeError();
    ForwardPlan::Step step;
    step.name = name.str();
    step.kernel = &kernel;
    step.arguments = std::move(arguments);
    step.prepared = std::move(*prepared);
    plan->launches.push_back(std::move(step));
    return Error::success();
  };
  if (Error error = add("quantize_q", *quantizeLocal,
                        {original("x", tensors.q, settings.heads), work,
                         piece("q_data", "data"), piece("q_scale", "scale")}))
    return std::move(error);
  if (Error error = add("quantize_k", *quantizeLocal,
                        {original("x", tensors.k, settings.kvHeads), work,
                         piece("k_data", "data"), piece("k_scale", "scale")}))
    return std::move(error);
  if (Error error =
          add("quantize_v", *quantizeBlock,
              {original("x", tensors.v, settings.kvHeads), work,
               piece("v_data", "data"), piece("v_scale_rows", "scale_rows"),
               piece("v_scale_cols", "scale_cols")}))
    return std::move(error);
  if (Error error =
          add("attention_fwd", *attention,
              {same("q_data"), same("q_scale"), same("k_data"), same("k_scale"),
               same("v_data"), piece("v_scale_rows", "v_scale"),
               original("v_bf16", tensors.v, settings.kvHeads), work,
               Argument::number("softmax_scale", settings.scale()),
               original("o", tensors.o, settings.heads),
               Argument::tensor("lse", tensors.lse, Element::F32,
                                {tokens, uint64_t(settings.heads)}),
               same("m"), same("l"), same("kappa")}))
    return std::move(error);
  return plan;
}
