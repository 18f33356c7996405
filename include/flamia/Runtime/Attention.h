//===- Attention.h - Microscaled attention for callers ----------*- C++ -*-===//
//
// The host API of the attention forward on packed documents: which memory it
// needs (by query), the checks of a call, and launches that neither allocate
// nor synchronize. C callers: flamia/flamia.h.
//
// Tensors are row-major and contiguous: Q and O [tokens, heads, head_dim], K
// and V [tokens, kv_heads, head_dim] in BF16, LSE [tokens, heads] in float32
// (natural logarithm). Query head h reads kv head h / (heads / kv_heads).
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_ATTENTION_H
#define FLAMIA_RUNTIME_ATTENTION_H

#include "flamia/Runtime/Device.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "flamia/Schedule/WorkList.h"

namespace flamia {
namespace runtime {

struct AttentionConfig {
  int64_t heads = 1;
  int64_t kvHeads = 1;
  int64_t headDim = 128;
  bool causal = true;
  /// Absent: 1 / sqrt(headDim).
  std::optional<float> softmaxScale;
  std::string arch; ///< Empty: whatever the kernel library holds.

  float scale() const;
};

/// Head dims (64 and 128), heads (1 to 65535, a multiple of kvHeads) and the
/// softmax scale (finite, not negative). The message names value and limit.
llvm::Error checkConfig(const AttentionConfig &config);

/// A tensor that the library keeps in the caller's workspace.
struct WorkspaceTensor {
  std::string name;
  Element element = Element::I8;
  std::vector<uint64_t> extents;
  uint64_t offset = 0; ///< From the start of the workspace, 256-byte aligned.
  uint64_t bytes = 0;
  /// Needed by the backward: the caller keeps the workspace, or copies this
  /// tensor out of it.
  bool saved = false;
};

struct WorkspaceLayout {
  std::vector<WorkspaceTensor> tensors;
  uint64_t bytes = 0;
  const WorkspaceTensor *find(llvm::StringRef name) const;
};

/// What a forward on documents with these offsets keeps in its workspace: the
/// work list, payloads and scales of Q, K and V, and m, l, kappa [tokens,
/// heads]. Checks the offsets too; their last entry is the token count.
llvm::Expected<WorkspaceLayout> queryWorkspace(const AttentionConfig &config,
                                               llvm::ArrayRef<int64_t> offsets);

/// Names of all tensors that a backward of this forward reads, the caller's own
/// (q, k, v, o and lse among them) and those of the workspace.
std::vector<std::string> savedForBackward();

/// Addresses of a forward's tensors, multiples of 16.
struct ForwardTensors {
  uint64_t q = 0, k = 0, v = 0, o = 0, lse = 0;
  uint64_t workspace = 0;
  uint64_t workspaceBytes = 0;
  /// Instead of one workspace: an address for each tensor of the layout. Lets a
  /// test put guards between them.
  std::vector<uint64_t> pieces;
};

/// A forward with everything checked and bound. Valid as long as its
/// AttentionForward; the addresses must stay valid, their contents may change.
class ForwardPlan {
public:
  /// Enqueues quantization and attention. No allocation, no synchronization.
  llvm::Error launch(void *stream = nullptr);
  /// The two halves of launch().
  llvm::Error launchQuantize(void *stream = nullptr);
  llvm::Error launchAttention(void *stream = nullptr);

  const WorkspaceLayout &workspace() const { return layout; }
  const schedule::WorkList &workList() const { return work; }
  /// Arguments of every kernel launched, in order.
  struct Step {
    std::string name; ///< quantize_q, quantize_k, quantize_v, attention_fwd
    Kernel *kernel = nullptr;
    std::vector<Argument> arguments;
    std::unique_ptr<PreparedLaunch> prepared;
  };
  llvm::ArrayRef<Step> steps() const { return launches; }

private:
  friend class AttentionForward;
  WorkspaceLayout layout;
  schedule::WorkList work;
  std::vector<Step> launches;
};

/// The kernels of one configuration, loaded on a device.
class AttentionForward {
public:
  static llvm::Expected<std::unique_ptr<AttentionForward>>
  create(Device &device, const KernelLibrary &library,
         const AttentionConfig &config);

  /// Checks offsets (int32 or int64 on the host) and memory, builds the work
  /// list, copies it into the workspace and prepares the launches.
  llvm::Expected<std::unique_ptr<ForwardPlan>>
  prepare(llvm::ArrayRef<int64_t> offsets, const ForwardTensors &tensors);

  const AttentionConfig &config() const { return settings; }
  Device &device() const { return target; }

private:
  AttentionForward(Device &device, const AttentionConfig &config)
      : target(device), settings(config) {}

  Device &target;
  AttentionConfig settings;
  std::unique_ptr<Kernel> quantizeLocal, quantizeBlock, attention;
};

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_RUNTIME_ATTENTION_H
