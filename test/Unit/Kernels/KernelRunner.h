//===- KernelRunner.h - The compiled kernels on the simulator ---*- C++ -*-===//
//
// Shared by the tests of the kernels: loads what the build compiled and runs it
// on inputs.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_KERNELS_KERNELRUNNER_H
#define FLAMIA_TEST_UNIT_KERNELS_KERNELRUNNER_H

#include "flamia/Reference/Data.h"
#include "flamia/Reference/Probe.h"
#include "flamia/Runtime/Runtime.h"
#include "flamia/Sim/Simulator.h"
#include "test/Unit/Needed.h"
#include "tools/flamia-run/Execute.h"

#include "gtest/gtest.h"

namespace flamia::test {

/// Folders of the build with kernels of the library, and with an attention_fwd
/// that makes no promise, so that the compiler leaves the safeguard out; and,
/// for head dim 64, with an attention_bwd_dkdv whose nvfp4 scores are mxfp8's.
inline const char *const kernelFolder = FLAMIA_BINARY_DIR "/kernels/sm_100a";
inline const char *const leakyFolder = FLAMIA_BINARY_DIR "/kernels/leaky";
inline const char *const leakyNvfp4Folder =
    FLAMIA_BINARY_DIR "/kernels/leaky-nvfp4";
inline const char *const crossedNvfp4Folder =
    FLAMIA_BINARY_DIR "/kernels/crossed-nvfp4";

struct RunnerOptions {
  std::string folder = kernelFolder;
  bool causal = true;
  bool backward = false; ///< Loads the backward's kernels too.
  bool dLse = false;     ///< The backward takes one.
  std::optional<float> softmaxScale;
  runtime::Format format = runtime::Format::Mxfp8;
  float qGlobalScale = numerics::defaultGlobalScale;
  float kGlobalScale = numerics::defaultGlobalScale;
  sim::SimOptions sim;
};

/// The specification model's options for such a runner.
inline reference::ForwardOptions modelOptions(const RunnerOptions &options) {
  reference::ForwardOptions result;
  result.exp2 = numerics::exp2ShareOf("sm_100a");
  result.mask.causal = options.causal;
  if (options.softmaxScale)
    result.softmaxScale = *options.softmaxScale;
  if (options.format == runtime::Format::Nvfp4)
    result.format = reference::Format::Nvfp4;
  result.queryGlobalScale = options.qGlobalScale;
  result.keyGlobalScale = options.kGlobalScale;
  return result;
}

/// One configuration of the kernels on a simulator.
class KernelRunner {
public:
  KernelRunner(int64_t heads, int64_t kvHeads, int64_t headDim,
               const RunnerOptions &options = {})
      : device(runtime::createSimDevice(options.sim)) {
    runtime::AttentionConfig config;
    config.heads = heads;
    config.kvHeads = kvHeads;
    config.headDim = headDim;
    config.causal = options.causal;
    config.softmaxScale = options.softmaxScale;
    config.format = options.format;
    config.qGlobalScale = options.qGlobalScale;
    config.kGlobalScale = options.kGlobalScale;
    runtime::KernelLibrary library =
        needed(runtime::KernelLibrary::open(options.folder));
    forward =
        needed(runtime::AttentionForward::create(*device, library, config));
    if (options.backward)
      backward = needed(runtime::AttentionBackward::create(
          *device, library, config, options.dLse));
  }

  /// Quantization and attention with poisoned buffers; a failed run fails the
  /// test and returns empty outputs. With `operands` they stand in for what the
  /// quantizer writes.
  run::DeviceResult run(const reference::AttentionInputs &inputs,
                        const reference::QuantizedInputs *operands = nullptr) {
    run::ExecuteOptions options;
    options.operands = operands;
    llvm::Expected<run::DeviceResult> result =
        run::runForward(*forward, inputs, options);
    if (result)
      return std::move(*result);
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }

  /// As the probes take it. With `fault` a negative control: the kernels run on
  /// operands that lib/Reference quantized with these options, and with the
  /// second-level scales that it chose.
  reference::ForwardFunction
  function(std::optional<reference::ForwardOptions> fault = std::nullopt) {
    return
        [this, fault](const reference::AttentionInputs &inputs,
                      reference::ForwardOutputs &outputs, std::string &error) {
          reference::QuantizedInputs operands;
          run::ExecuteOptions options = executeOptions(inputs, fault, operands);
          llvm::Expected<run::DeviceResult> result =
              run::runForward(*forward, inputs, options);
          if (!result) {
            error = llvm::toString(result.takeError());
            return false;
          }
          outputs = std::move(result->outputs);
          return true;
        };
  }

  /// Forward and backward.
  std::pair<run::DeviceResult, run::DeviceGradients>
  run(const reference::BackwardInputs &inputs) {
    auto result = run::runBackward(*forward, *backward, inputs);
    if (result)
      return std::move(*result);
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }

  reference::BackwardFunction backwardFunction(
      std::optional<reference::ForwardOptions> fault = std::nullopt) {
    return [this, fault](const reference::BackwardInputs &inputs,
                         reference::ForwardOutputs &outputs,
                         reference::Gradients &gradients, std::string &error) {
      reference::QuantizedInputs operands;
      run::ExecuteOptions options =
          executeOptions(inputs.forward, fault, operands);
      auto result = run::runBackward(*forward, *backward, inputs, options);
      if (!result) {
        error = llvm::toString(result.takeError());
        return false;
      }
      outputs = std::move(result->first.outputs);
      gradients = std::move(result->second.gradients);
      return true;
    };
  }

  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::AttentionForward> forward;
  std::unique_ptr<runtime::AttentionBackward> backward;

private:
  run::ExecuteOptions
  executeOptions(const reference::AttentionInputs &inputs,
                 const std::optional<reference::ForwardOptions> &fault,
                 reference::QuantizedInputs &operands) {
    run::ExecuteOptions options;
    if (!fault)
      return options;
    operands = reference::quantizeInputs(inputs, *fault);
    options.operands = &operands;
    if (operands.format == reference::Format::Nvfp4) {
      float q = operands.qScores.globalScale, k = operands.kScores.globalScale;
      needed(forward->setGlobalScales(q, k));
      if (backward)
        needed(backward->setGlobalScales(q, k));
    }
    return options;
  }
};

/// A runner of forward and backward for the shape of these inputs.
inline KernelRunner backwardRunner(const reference::BackwardInputs &inputs,
                                   RunnerOptions options = {}) {
  options.backward = true;
  options.dLse = !inputs.dLse.empty();
  const reference::AttentionShape &shape = inputs.forward.shape;
  return KernelRunner(shape.heads, shape.kvHeads, shape.headDim, options);
}

/// Inputs whose elements are `q(token, head, channel)` and so on.
template <typename Q, typename K, typename V>
reference::AttentionInputs inputsOf(std::vector<int64_t> lengths, int64_t heads,
                                    int64_t kvHeads, int64_t headDim, Q q, K k,
                                    V v) {
  reference::AttentionInputs inputs;
  inputs.shape = {numerics::cuSeqlensOf(lengths), heads, kvHeads, headDim};
  auto fill = [&](std::vector<uint16_t> &tensor, int64_t tensorHeads,
                  auto value) {
    for (int64_t t = 0; t < inputs.shape.tokens(); ++t)
      for (int64_t h = 0; h < tensorHeads; ++h)
        for (int64_t c = 0; c < headDim; ++c)
          tensor.push_back(numerics::floatToBF16(float(value(t, h, c))));
  };
  fill(inputs.q, heads, q);
  fill(inputs.k, kvHeads, k);
  fill(inputs.v, kvHeads, v);
  return inputs;
}

/// A function of (token, head, channel) with the same value everywhere.
inline auto constant(float value) {
  return [value](int64_t, int64_t, int64_t) { return value; };
}

/// O of one token, head and channel.
inline float at(const reference::ForwardOutputs &outputs,
                const reference::AttentionShape &shape, int64_t token,
                int64_t head, int64_t channel) {
  return outputs.o[(token * shape.heads + head) * shape.headDim + channel];
}

} // namespace flamia::test

#endif // FLAMIA_TEST_UNIT_KERNELS_KERNELRUNNER_H
