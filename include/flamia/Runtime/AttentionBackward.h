//===- AttentionBackward.h - The backward for callers -----------*- C++ -*-===//
//
// The host API of the attention backward: its workspace, the checks of a call,
// and launches that neither allocate nor synchronize. It follows a forward of
// the same configuration and documents (Attention.h).
//
// dO, dQ [tokens, heads, head_dim] and dK, dV [tokens, kv_heads, head_dim] are
// BF16; dLSE, the gradient of the natural-log LSE, is float32 [tokens, heads].
// Gradients are written, not added to. Results depend on nothing but the
// inputs: there are no atomics.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_RUNTIME_ATTENTIONBACKWARD_H
#define FLAMIA_RUNTIME_ATTENTIONBACKWARD_H

#include "flamia/Runtime/Attention.h"

namespace flamia {
namespace runtime {

/// What a backward keeps in its own workspace, beside the forward's: dO' = dO /
/// l (payload and scales), D' and 1 / l of each query, and the scale bytes and
/// vectors that hold folded exponents (kernels/README.md). Nothing of it
/// outlives the backward. With the letters of queryWorkspace these are
///   T H (D + 12) + S (5120 H + 2048 G)
/// bytes, beside the padding of each tensor to 256.
llvm::Expected<WorkspaceLayout>
queryBackwardWorkspace(const AttentionConfig &config,
                       llvm::ArrayRef<int64_t> offsets);

/// The same after a forward with offsets on the device.
llvm::Expected<WorkspaceLayout>
queryDeviceBackwardWorkspace(const AttentionConfig &config,
                             const DeviceOffsets &offsets);

/// Addresses of a backward's tensors, multiples of 16. Tensors must not overlap
/// where one of them is written (dQ, dK, dV, the backward's workspace).
struct BackwardTensors {
  /// The forward's. Read are v (with its strides), o, and what is saved of the
  /// workspace; with `pieces` the others may be null.
  ForwardTensors forward;
  uint64_t dO = 0;
  uint64_t dLse = 0; ///< Only for a backward that was created with it.
  uint64_t dQ = 0, dK = 0, dV = 0;
  uint64_t workspace = 0;
  uint64_t workspaceBytes = 0;
  /// Instead of one workspace, as in ForwardTensors.
  std::vector<uint64_t> pieces;
  /// These may lie inside other tensors too: the gradients of a fused QKV in
  /// one [tokens, 3, heads, head_dim]. In what is written a token's heads lie
  /// before the next token's.
  TokenStrides dOStrides, dQStrides, dKStrides, dVStrides;
};

/// A backward: attention_bwd_prep, attention_bwd_prep_keys, attention_bwd_dkdv,
/// attention_bwd_dq.
class BackwardPlan : public LaunchPlan {
private:
  friend class AttentionBackward;
};

/// The backward's kernels of one configuration, loaded on a device.
class AttentionBackward {
public:
  /// \p withDLse: the LSE has a gradient too.
  static llvm::Expected<std::unique_ptr<AttentionBackward>>
  create(Device &device, const KernelLibrary &library,
         const AttentionConfig &config, bool withDLse = false);

  /// Checks offsets and memory and prepares the launches. Copies nothing: the
  /// work list is the forward's.
  llvm::Expected<std::unique_ptr<BackwardPlan>>
  prepare(llvm::ArrayRef<int64_t> offsets, const BackwardTensors &tensors);

  /// After a forward with these offsets on the device. They are not read again:
  /// the work list is the forward's.
  llvm::Expected<std::unique_ptr<BackwardPlan>>
  prepareFromDevice(const DeviceOffsets &offsets,
                    const BackwardTensors &tensors);

  /// As AttentionForward::setGlobalScales.
  llvm::Error setGlobalScales(float q, float k);

  const AttentionConfig &config() const { return settings; }
  Device &device() const { return target; }
  bool hasDLse() const { return withDLse; }
  /// What the kernels compute by polynomial.
  numerics::Exp2Share keyGradientExp2() const {
    return keyGradients->record().exp2;
  }
  numerics::Exp2Share queryGradientExp2() const {
    return queryGradients->record().exp2;
  }

private:
  AttentionBackward(Device &device, const AttentionConfig &config,
                    bool withDLse)
      : target(device), settings(config), withDLse(withDLse) {}

  llvm::Expected<std::unique_ptr<BackwardPlan>>
  prepare(int64_t tokens, const WorkspaceLayout &saved, WorkspaceLayout layout,
          const BackwardTensors &tensors);

  Device &target;
  AttentionConfig settings;
  bool withDLse;
  std::unique_ptr<Kernel> queries, keys, keyGradients, queryGradients;
};

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_RUNTIME_ATTENTIONBACKWARD_H
