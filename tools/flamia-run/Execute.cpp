//===- Execute.cpp - Forward passes on a device ---------------------------===//
//
// Allocation, poisoning, launches and the way back.
//
//===----------------------------------------------------------------------===//

#include "Execute.h"

#include <chrono>
#include <optional>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::runtime;

namespace {

constexpr uint8_t poisonByte = 0xFF;

/// Allocations of one run, released at its end.
class Buffers {
public:
  explicit Buffers(Device &device) : device(device) {}
  ~Buffers() {
    for (uint64_t address : addresses)
      consumeError(device.release(address));
  }
  Expected<uint64_t> poisoned(StringRef name, uint64_t bytes) {
    Expected<uint64_t> address = device.allocate(name, bytes);
    if (!address)
      return address;
    addresses.push_back(*address);
    if (Error error = device.poison(*address, poisonByte, bytes))
      return std::move(error);
    return address;
  }
  Expected<uint64_t> filled(StringRef name, ArrayRef<uint16_t> values) {
    Expected<uint64_t> address = poisoned(name, values.size() * 2);
    if (!address)
      return address;
    if (Error error = device.upload(*address, values.data(), values.size() * 2))
      return std::move(error);
    return address;
  }

private:
  Device &device;
  std::vector<uint64_t> addresses;
};

/// Collects the first error of many steps.
class Steps {
public:
  template <typename T>
  T operator()(Expected<T> value) {
    if (value)
      return std::move(*value);
    add(value.takeError());
    return T();
  }
  void add(Error error) {
    if (failure)
      consumeError(std::move(error));
    else
      failure = std::move(error);
  }
  Error take() { return std::move(failure); }
  bool failed() { return bool(failure); }

private:
  Error failure = Error::success();
};

template <typename T>
Error fetch(Device &device, uint64_t address, std::vector<T> &values,
            uint64_t count) {
  values.resize(count);
  return device.download(values.data(), address, count * sizeof(T));
}

} // namespace

Expected<DeviceResult> run::runForward(AttentionForward &forward,
                                       const reference::AttentionInputs &inputs,
                                       StringRef saveFolder, OutputSet *saved) {
  Device &device = forward.device();
  const std::vector<int64_t> &offsets = inputs.shape.cuSeqlens;
  Expected<WorkspaceLayout> layout = queryWorkspace(forward.config(), offsets);
  if (!layout)
    return layout.takeError();

  Buffers buffers(device);
  Steps steps;
  ForwardTensors tensors;
  uint64_t rows = uint64_t(inputs.shape.tokens() * inputs.shape.heads);
  uint64_t outputs = rows * uint64_t(inputs.shape.headDim);
  tensors.q = steps(buffers.filled("q", inputs.q));
  tensors.k = steps(buffers.filled("k", inputs.k));
  tensors.v = steps(buffers.filled("v", inputs.v));
  tensors.o = steps(buffers.poisoned("o", outputs * 2));
  tensors.lse = steps(buffers.poisoned("lse", rows * 4));
  for (const WorkspaceTensor &tensor : layout->tensors)
    tensors.pieces.push_back(
        steps(buffers.poisoned(tensor.name, tensor.bytes)));
  if (steps.failed())
    return steps.take();
  Expected<std::unique_ptr<ForwardPlan>> plan =
      forward.prepare(offsets, tensors);
  if (!plan)
    return plan.takeError();

  DeviceResult result;
  std::optional<LaunchSaver> saver;
  if (saved)
    saver.emplace(device, saveFolder, *saved);
  for (const ForwardPlan::Step &step : (*plan)->steps()) {
    if (saver)
      if (Error error = saver->before(step))
        return std::move(error);
    auto start = std::chrono::steady_clock::now();
    if (Error error = step.prepared->launch())
      return std::move(error);
    if (Error error = device.synchronize())
      return std::move(error);
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    (step.name == "attention_fwd" ? result.attentionSeconds
                                  : result.quantizeSeconds) += time.count();
    if (saver)
      if (Error error = saver->after(step))
        return std::move(error);
  }

  auto fetchPiece = [&](StringRef name, auto &values) {
    const WorkspaceTensor *tensor = layout->find(name);
    uint64_t address = tensors.pieces[tensor - layout->tensors.data()];
    steps.add(
        fetch(device, address, values, tensor->bytes / sizeof(values[0])));
  };
  fetchPiece("q_data", result.q.payload);
  fetchPiece("q_scale", result.q.scales);
  fetchPiece("k_data", result.k.payload);
  fetchPiece("k_scale", result.k.scales);
  fetchPiece("v_data", result.v.payload);
  fetchPiece("v_scale_rows", result.v.scalesAlongRows);
  fetchPiece("v_scale_cols", result.v.scalesAlongCols);
  fetchPiece("m", result.outputs.m);
  fetchPiece("l", result.outputs.l);
  fetchPiece("kappa", result.outputs.kappa);
  steps.add(fetch(device, tensors.lse, result.outputs.lse, rows));
  std::vector<uint16_t> o;
  steps.add(fetch(device, tensors.o, o, outputs));
  if (steps.failed())
    return steps.take();
  result.outputs.o.resize(o.size());
  numerics::bf16ToFloat(o.data(), result.outputs.o.data(), o.size());
  return result;
}
