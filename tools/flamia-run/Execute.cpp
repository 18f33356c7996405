//===- Execute.cpp - Forward and backward passes on a device --------------===//
//
// Allocation, poisoning, launches and the way back.
//
//===----------------------------------------------------------------------===//

#include "Execute.h"

#include "llvm/ADT/Twine.h"

#include <chrono>
#include <optional>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::runtime;

namespace {

constexpr uint8_t poisonByte = 0xFF;

/// Buffers and launches of one run. Steps after a failed one do nothing; the
/// first error is kept. Buffers are released at the end.
class Execution {
public:
  Execution(Device &device, const ExecuteOptions &options)
      : device(device), operands(options.operands) {
    if (options.saved)
      saver.emplace(device, options.saveFolder, *options.saved);
  }
  ~Execution() {
    for (uint64_t address : addresses)
      consumeError(device.release(address));
  }

  Error takeError() { return std::move(failure); }

  uint64_t poisoned(StringRef name, uint64_t bytes) {
    if (failure)
      return 0;
    Expected<uint64_t> address = device.allocate(name, bytes);
    if (!address) {
      failure = address.takeError();
      return 0;
    }
    addresses.push_back(*address);
    failure = device.poison(*address, poisonByte, bytes);
    return *address;
  }

  template <typename T>
  uint64_t filled(StringRef name, const std::vector<T> &values) {
    uint64_t bytes = values.size() * sizeof(T);
    uint64_t address = poisoned(name, bytes);
    if (!failure)
      failure = device.upload(address, values.data(), bytes);
    return address;
  }

  std::vector<uint64_t> workspace(const WorkspaceLayout &layout) {
    std::vector<uint64_t> pieces;
    pieces.reserve(layout.tensors.size());
    for (const WorkspaceTensor &tensor : layout.tensors)
      pieces.push_back(poisoned(tensor.name, tensor.bytes));
    return pieces;
  }

  template <typename T>
  void fetch(uint64_t address, uint64_t count, std::vector<T> &values) {
    values.resize(count);
    if (!failure)
      failure = device.download(values.data(), address, count * sizeof(T));
  }

  /// A BF16 tensor as floats.
  void fetchBf16(uint64_t address, uint64_t count, std::vector<float> &values) {
    std::vector<uint16_t> bits;
    fetch(address, count, bits);
    values.resize(count);
    numerics::bf16ToFloat(bits.data(), values.data(), count);
  }

  template <typename T>
  void fetchPiece(const WorkspaceLayout &layout,
                  const std::vector<uint64_t> &pieces, StringRef name,
                  std::vector<T> &values) {
    const WorkspaceTensor *tensor = layout.find(name);
    fetch(pieces[tensor - layout.tensors.data()], tensor->bytes / sizeof(T),
          values);
  }

  /// Uploads the operands that stand in for the quantize step's.
  void storeOperands(const WorkspaceLayout &layout,
                     const std::vector<uint64_t> &pieces);

  /// Launches all steps and adds their time to `secondsOf(step name)`.
  template <typename SecondsOf>
  void launch(LaunchPlan &plan, SecondsOf secondsOf) {
    for (const LaunchPlan::Step &step : plan.steps()) {
      if (operands && step.name == "quantize_qkv")
        continue;
      if (!failure && saver)
        failure = saver->before(step);
      auto start = std::chrono::steady_clock::now();
      if (!failure)
        failure = step.prepared->launch();
      if (!failure)
        failure = device.synchronize();
      std::chrono::duration<double> time =
          std::chrono::steady_clock::now() - start;
      secondsOf(step.name) += time.count();
      if (!failure && saver)
        failure = saver->after(step);
    }
  }

  /// Quantization and attention; returns the tensors for a backward.
  ForwardTensors forward(AttentionForward &kernels,
                         const reference::AttentionInputs &inputs,
                         DeviceResult &result);
  /// After forward().
  void backward(AttentionBackward &kernels,
                const reference::BackwardInputs &inputs,
                const ForwardTensors &forward, DeviceGradients &result);

private:
  Device &device;
  const reference::QuantizedInputs *operands;
  std::optional<LaunchSaver> saver;
  std::vector<uint64_t> addresses;
  Error failure = Error::success();
};

} // namespace

void Execution::storeOperands(const WorkspaceLayout &layout,
                              const std::vector<uint64_t> &pieces) {
  const std::pair<const char *, const std::vector<uint8_t> *> stored[] = {
      {"q_data", &operands->q.payload},
      {"q_scale", &operands->q.scales},
      {"k_data", &operands->k.payload},
      {"k_scale", &operands->k.scales},
      {"v_data", &operands->v.payload},
      {"v_scale_rows", &operands->v.scalesAlongRows},
      {"v_scale_cols", &operands->v.scalesAlongCols},
      {"q_fp4", &operands->qScores.payload},
      {"q_fp4_scale", &operands->qScores.scales},
      {"k_fp4", &operands->kScores.payload},
      {"k_fp4_scale", &operands->kScores.scales}};
  for (auto [name, bytes] : stored) {
    const WorkspaceTensor *tensor = layout.find(name);
    if (!tensor || failure)
      continue;
    if (tensor->bytes != bytes->size()) {
      failure = createStringError("operand '" + Twine(name) + "' has " +
                                  Twine(bytes->size()) + " bytes, expected " +
                                  Twine(tensor->bytes));
      return;
    }
    failure = device.upload(pieces[tensor - layout.tensors.data()],
                            bytes->data(), bytes->size());
  }
}

ForwardTensors Execution::forward(AttentionForward &kernels,
                                  const reference::AttentionInputs &inputs,
                                  DeviceResult &result) {
  const std::vector<int64_t> &offsets = inputs.shape.cuSeqlens;
  ForwardTensors tensors;
  Expected<WorkspaceLayout> layout = queryWorkspace(kernels.config(), offsets);
  if (!layout) {
    failure = layout.takeError();
    return tensors;
  }
  uint64_t rows = uint64_t(inputs.shape.tokens() * inputs.shape.heads);
  uint64_t outputs = rows * uint64_t(inputs.shape.headDim);
  tensors.q = filled("q", inputs.q);
  tensors.k = filled("k", inputs.k);
  tensors.v = filled("v", inputs.v);
  tensors.o = poisoned("o", outputs * 2);
  tensors.lse = poisoned("lse", rows * 4);
  tensors.pieces = workspace(*layout);
  if (failure)
    return tensors;
  Expected<std::unique_ptr<ForwardPlan>> plan =
      kernels.prepare(offsets, tensors);
  if (!plan) {
    failure = plan.takeError();
    return tensors;
  }
  if (operands)
    storeOperands(*layout, tensors.pieces);
  launch(**plan, [&](StringRef step) -> double & {
    return step == "attention_fwd" ? result.attentionSeconds
                                   : result.quantizeSeconds;
  });

  auto piece = [&](StringRef name, auto &values) {
    fetchPiece(*layout, tensors.pieces, name, values);
  };
  piece("q_data", result.q.payload);
  piece("q_scale", result.q.scales);
  piece("k_data", result.k.payload);
  piece("k_scale", result.k.scales);
  piece("v_data", result.v.payload);
  piece("v_scale_rows", result.v.scalesAlongRows);
  piece("v_scale_cols", result.v.scalesAlongCols);
  if (kernels.config().format == Format::Nvfp4) {
    piece("q_fp4", result.qScores.payload);
    piece("q_fp4_scale", result.qScores.scales);
    piece("k_fp4", result.kScores.payload);
    piece("k_fp4_scale", result.kScores.scales);
  }
  piece("m", result.outputs.m);
  piece("l", result.outputs.l);
  piece("kappa", result.outputs.kappa);
  fetch(tensors.lse, rows, result.outputs.lse);
  fetchBf16(tensors.o, outputs, result.outputs.o);
  return tensors;
}

void Execution::backward(AttentionBackward &kernels,
                         const reference::BackwardInputs &inputs,
                         const ForwardTensors &forward,
                         DeviceGradients &result) {
  if (failure)
    return;
  const reference::AttentionShape &shape = inputs.forward.shape;
  Expected<WorkspaceLayout> layout =
      queryBackwardWorkspace(kernels.config(), shape.cuSeqlens);
  if (!layout) {
    failure = layout.takeError();
    return;
  }
  uint64_t rows = uint64_t(shape.tokens() * shape.heads);
  uint64_t queries = rows * uint64_t(shape.headDim);
  uint64_t keys = uint64_t(shape.tokens() * shape.kvHeads * shape.headDim);
  BackwardTensors tensors;
  tensors.forward = forward;
  tensors.dO = filled("do", inputs.dO);
  if (kernels.hasDLse())
    tensors.dLse =
        filled("dlse", inputs.dLse.empty() ? std::vector<float>(rows, 0.0f)
                                           : inputs.dLse);
  tensors.dQ = poisoned("dq", queries * 2);
  tensors.dK = poisoned("dk", keys * 2);
  tensors.dV = poisoned("dv", keys * 2);
  tensors.pieces = workspace(*layout);
  if (failure)
    return;
  Expected<std::unique_ptr<BackwardPlan>> plan =
      kernels.prepare(shape.cuSeqlens, tensors);
  if (!plan) {
    failure = plan.takeError();
    return;
  }
  launch(**plan, [&](StringRef step) -> double & {
    return step.starts_with("attention_bwd_prep") ? result.prepareSeconds
                                                  : result.gradientSeconds;
  });
  for (const WorkspaceTensor &tensor : layout->tensors)
    fetchPiece(*layout, tensors.pieces, tensor.name,
               result.prepared[tensor.name]);
  fetchBf16(tensors.dQ, queries, result.gradients.dq);
  fetchBf16(tensors.dK, keys, result.gradients.dk);
  fetchBf16(tensors.dV, keys, result.gradients.dv);
}

Expected<DeviceResult> run::runForward(AttentionForward &forward,
                                       const reference::AttentionInputs &inputs,
                                       const ExecuteOptions &options) {
  Execution execution(forward.device(), options);
  DeviceResult result;
  execution.forward(forward, inputs, result);
  if (Error error = execution.takeError())
    return std::move(error);
  return result;
}

Expected<std::pair<DeviceResult, DeviceGradients>>
run::runBackward(AttentionForward &forward, AttentionBackward &backward,
                 const reference::BackwardInputs &inputs,
                 const ExecuteOptions &options) {
  Execution execution(forward.device(), options);
  std::pair<DeviceResult, DeviceGradients> result;
  ForwardTensors tensors =
      execution.forward(forward, inputs.forward, result.first);
  execution.backward(backward, inputs, tensors, result.second);
  if (Error error = execution.takeError())
    return std::move(error);
  return result;
}
