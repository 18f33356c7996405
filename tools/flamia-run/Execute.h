//===- Execute.h - Forward and backward passes on a device ------*- C++ -*-===//
//
// Runs the compiled kernels on inputs: fresh, poisoned buffers every time.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TOOLS_FLAMIA_RUN_EXECUTE_H
#define FLAMIA_TOOLS_FLAMIA_RUN_EXECUTE_H

#include "flamia/Reference/Backward.h"
#include "flamia/Runtime/AttentionBackward.h"
#include "flamia/Support/Files.h"

#include <map>
#include <string>

namespace flamia {
namespace run {

/// What the forward's kernels wrote.
struct DeviceResult {
  reference::ForwardOutputs outputs;
  numerics::TokenLocalTensor q, k;
  numerics::TokenBlockTensor v;
  /// In format nvfp4; without counts.
  numerics::Nvfp4Tensor qScores, kScores;
  double quantizeSeconds = 0, attentionSeconds = 0;
};

/// What the backward's kernels wrote.
struct DeviceGradients {
  reference::Gradients gradients;
  /// The preparation's tensors, by their names in the workspace.
  std::map<std::string, std::vector<uint8_t>> prepared;
  double prepareSeconds = 0, gradientSeconds = 0;
};

struct ExecuteOptions {
  /// With `saved`, each launch is added to it as a folder saveFolder/STEP/ in a
  /// form that flamia-sim replays.
  std::string saveFolder;
  OutputSet *saved = nullptr;
  /// Stand in for what the quantize step writes, which is then not launched.
  const reference::QuantizedInputs *operands = nullptr;
};

/// Runs quantization and attention on `inputs`, whose heads and head dim are
/// those of `forward`. Every output and workspace byte is 0xFF before (NaN in
/// all formats), every tensor has a buffer of its own, and all of them are
/// released afterwards.
llvm::Expected<DeviceResult>
runForward(runtime::AttentionForward &forward,
           const reference::AttentionInputs &inputs,
           const ExecuteOptions &options = {});

/// The same and then the backward, whose configuration must be the forward's. A
/// dLSE that is missing where the kernels take one is zero.
llvm::Expected<std::pair<DeviceResult, DeviceGradients>>
runBackward(runtime::AttentionForward &forward,
            runtime::AttentionBackward &backward,
            const reference::BackwardInputs &inputs,
            const ExecuteOptions &options = {});

/// Keeps one launch: the record and its PTX, the tensors before it, those
/// it wrote as expected outputs, and launch.json.
class LaunchSaver {
public:
  LaunchSaver(runtime::Device &device, llvm::StringRef folder, OutputSet &set)
      : device(device), folder(folder), set(set) {}
  /// Call before the launch, then after it.
  llvm::Error before(const runtime::LaunchPlan::Step &step);
  llvm::Error after(const runtime::LaunchPlan::Step &step);

private:
  /// Adds a copy of a device tensor as a .npy file.
  llvm::Error saveTensor(const runtime::Argument &argument,
                         llvm::StringRef path);
  /// Adds a copy of a file under its own name.
  llvm::Error saveFile(llvm::StringRef from, llvm::StringRef target);

  runtime::Device &device;
  std::string folder;
  OutputSet &set;
};

} // namespace run
} // namespace flamia

#endif // FLAMIA_TOOLS_FLAMIA_RUN_EXECUTE_H
