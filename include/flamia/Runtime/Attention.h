//===- Attention.h - Microscaled attention for callers ----------*- C++ -*-===//
//
// The host API of attention on packed documents, forward here, backward in
// AttentionBackward.h: which memory it needs (by query), the checks of a call,
// and launches that neither allocate nor synchronize. C callers:
// flamia/flamia.h.
//
// Tensors are row-major: Q and O [tokens, heads, head_dim], K and V [tokens,
// kv_heads, head_dim] in BF16, LSE [tokens, heads] in float32 (natural
// logarithm). They are contiguous unless strides are given. Query head h reads
// kv head h / (heads / kv_heads).
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_ATTENTION_H
#define FLAMIA_RUNTIME_ATTENTION_H

#include "flamia/Runtime/Device.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "flamia/Schedule/WorkList.h"

namespace flamia {
namespace runtime {

class PlanBuilder;

/// Number formats (docs/numerics.md). They differ in the operands of the scores
/// Q K^T alone, in the forward and in the backward's recomputation.
enum class Format {
  Mxfp8, ///< Everything E4M3.
  Nvfp4  ///< Scores from E2M1 with UE4M3 scales per 16 channels.
};

/// "mxfp8", "nvfp4", as kernels' parameter `format` has it.
llvm::StringRef nameOf(Format format);
std::optional<Format> parseFormat(llvm::StringRef name);

struct AttentionConfig {
  int64_t heads = 1;
  int64_t kvHeads = 1;
  int64_t headDim = 128;
  bool causal = true;
  /// Absent: 1 / sqrt(headDim).
  std::optional<float> softmaxScale;
  std::string arch; ///< Empty: whatever the kernel library holds.
  Format format = Format::Mxfp8;
  /// Second-level scales g of Q and K in format nvfp4, finite and above 0, from
  /// 2^-32 to 2^32. 2^-3 holds its accuracy for token amax of .01 to 300
  /// (docs/numerics.md, also for what happens outside). They must not come from
  /// the data of the same step: a maximum over the tensor sees later tokens and
  /// other documents. A constant, or a maximum over earlier steps, is safe. The
  /// backward needs the forward's.
  float qGlobalScale = 0.125f, kGlobalScale = 0.125f;

  float scale() const;
};

/// Head dims (64 and 128), heads (1 to 65535, a multiple of kvHeads), the
/// softmax scale (finite, not negative) and, where the format has them, the
/// second-level scales. The message names value and limit.
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
/// heads]. Checks the offsets too; their last entry is the token count. With T
/// tokens and S tiles of 128 tokens (each document has its own), H heads, G kv
/// heads and head dim D, these are
///   T (H (D + 12) + 2 G D) + S (512 H + 1536 G + 16)
/// bytes, beside the padding of each tensor to 256. Format nvfp4 has Q and K a
/// second time, for the scores: q_fp4, k_fp4 [tokens, heads, D] in packed pairs
/// and q_fp4_scale, k_fp4_scale [tiles, heads, D / 64, 512], which are
///   (H + G) D (T / 2 + 8 S)
/// bytes more.
llvm::Expected<WorkspaceLayout> queryWorkspace(const AttentionConfig &config,
                                               llvm::ArrayRef<int64_t> offsets);

/// cu_seqlens in device memory: int32 [documents + 1] at an address that is a
/// multiple of 16. Launches read it, the host never does, so nothing has to
/// wait for it. Its entries are checked on the device: first 0, never
/// decreasing, the last at most `tokens`. If they are not legal, nothing but
/// workspace is written, and entry 3 of the workspace's tensor list_state is 1,
/// else 0.
struct DeviceOffsets {
  uint64_t address = 0;
  int64_t documents = 0;
  /// Rows of the tensors. There may be fewer tokens; rows after the last one
  /// are neither read nor written.
  int64_t tokens = 0;
};

/// The workspace of a forward with such offsets: as if S were the most tiles
/// that the documents can have, (T + 127 min(documents, T)) / 128, and with
/// what the device needs to make the work list, 16 documents + 32 bytes.
llvm::Expected<WorkspaceLayout>
queryDeviceWorkspace(const AttentionConfig &config,
                     const DeviceOffsets &offsets);

/// Names of all tensors that a backward of a forward in this format reads, the
/// caller's own (v and o) and those of the workspace.
std::vector<std::string> savedForBackward(Format format = Format::Mxfp8);

/// Strides of a tensor [tokens, heads, head_dim] in elements, from token to
/// token and from head to head, multiples of 8 below 2^33. Both 0: contiguous.
struct TokenStrides {
  uint64_t token = 0, head = 0;
  bool given() const { return token || head; }
};

/// Addresses of a forward's tensors, multiples of 16. Tensors must not overlap
/// where one of them is written (o, lse, the workspace).
struct ForwardTensors {
  uint64_t q = 0, k = 0, v = 0, o = 0, lse = 0;
  uint64_t workspace = 0;
  uint64_t workspaceBytes = 0;
  /// Instead of one workspace: an address for each tensor of the layout. Lets a
  /// test put guards between them, and a backward find copies of what is saved.
  std::vector<uint64_t> pieces;
  /// q, k and v may lie inside other tensors, [tokens, 3, heads, head_dim] or
  /// rows with padding.
  TokenStrides qStrides, kStrides, vStrides;
};

/// Kernels with everything checked and bound, in the order of their launches.
/// Valid as long as the object that made it; the addresses must stay valid,
/// their contents may change.
class LaunchPlan {
public:
  struct Step {
    std::string name; ///< quantize_qkv, attention_fwd, ...
    Kernel *kernel = nullptr;
    std::vector<Argument> arguments;
    std::unique_ptr<PreparedLaunch> prepared;
  };

  /// Enqueues all steps. No allocation, no synchronization.
  llvm::Error launch(void *stream = nullptr);
  llvm::ArrayRef<Step> steps() const { return launches; }
  const WorkspaceLayout &workspace() const { return layout; }

protected:
  friend class PlanBuilder;
  LaunchPlan() = default;
  WorkspaceLayout layout;
  std::vector<Step> launches;
};

/// A forward: quantize_qkv, attention_fwd; with offsets on the device
/// order_documents and build_work_list before them.
class ForwardPlan : public LaunchPlan {
public:
  /// The two halves of launch().
  llvm::Error launchQuantize(void *stream = nullptr);
  llvm::Error launchAttention(void *stream = nullptr);

  /// Empty with offsets on the device.
  const schedule::WorkList &workList() const { return work; }

private:
  friend class AttentionForward;
  schedule::WorkList work;
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

  /// The same for offsets in device memory: the work list is made there by each
  /// launch, and nothing is copied. Needs a library with order_documents and
  /// build_work_list.
  llvm::Expected<std::unique_ptr<ForwardPlan>>
  prepareFromDevice(const DeviceOffsets &offsets,
                    const ForwardTensors &tensors);

  /// Other second-level scales for plans to come, checked as in checkConfig: a
  /// recipe with maxima over earlier steps needs no kernels anew. A backward
  /// needs those that its forward was prepared with.
  llvm::Error setGlobalScales(float q, float k);

  const AttentionConfig &config() const { return settings; }
  Device &device() const { return target; }
  /// Exponentials that attention_fwd computes by polynomial.
  numerics::Exp2Share exp2Share() const { return attention->record().exp2; }

private:
  AttentionForward(Device &device, const AttentionConfig &config)
      : target(device), settings(config) {}

  llvm::Error addTensors(PlanBuilder &builder, const WorkspaceLayout &layout,
                         const ForwardTensors &tensors) const;
  llvm::Error addSteps(const PlanBuilder &builder, ForwardPlan &plan) const;

  Device &target;
  AttentionConfig settings;
  std::unique_ptr<Kernel> quantize, attention;
  /// Only for offsets on the device; null with a library that lacks them.
  std::unique_ptr<Kernel> orderDocuments, buildWorkList;
};

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_RUNTIME_ATTENTION_H
