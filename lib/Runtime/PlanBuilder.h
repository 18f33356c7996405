//===- PlanBuilder.h - From named tensors to launches -----------*- C++ -*-===//
//
// What the forward and the backward share: loading kernels, a table of tensors
// by name, and steps whose arguments are looked up in it.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_RUNTIME_PLANBUILDER_H
#define FLAMIA_LIB_RUNTIME_PLANBUILDER_H

#include "flamia/Runtime/Attention.h"
#include "flamia/Schedule/Makespan.h"

namespace flamia {
namespace runtime {

llvm::Error invalidArgument(const llvm::Twine &message);

/// Changes the second-level scales of a configuration if they are good ones.
llvm::Error changeGlobalScales(AttentionConfig &config, float q, float k);

/// The kernel that a launch of the configuration runs. Some kernels can work on
/// two query heads of a kv head at a time: the fastest one that suits the
/// heads.
llvm::Expected<const LaunchRecord *>
findKernel(const KernelLibrary &library, const AttentionConfig &config,
           llvm::StringRef name, const KernelLibrary::Parameters &parameters);

/// Finds it and loads it.
llvm::Error loadKernel(Device &device, const KernelLibrary &library,
                       const AttentionConfig &config, llvm::StringRef name,
                       const KernelLibrary::Parameters &parameters,
                       std::unique_ptr<Kernel> &kernel);

/// Collects tensors, then steps.
class PlanBuilder {
public:
  /// \p sms: for kernels that order the work list.
  PlanBuilder(const AttentionConfig &config, uint64_t tokens, int64_t sms = 0)
      : config(config), tokens(tokens), sms(sms) {}

  /// [tokens, heads, head_dim] in BF16, and [tokens, heads] in float32.
  void addBf16(llvm::StringRef name, uint64_t address, int64_t heads,
               Access access, TokenStrides strides = {});
  void addVector(llvm::StringRef name, uint64_t address, Access access);
  void addOffsets(const DeviceOffsets &offsets);

  /// The tensors of a workspace; those that are only read are the saved ones.
  /// `what` ("the workspace") starts the messages.
  llvm::Error addWorkspace(const llvm::Twine &what,
                           const WorkspaceLayout &layout, uint64_t address,
                           uint64_t bytes, llvm::ArrayRef<uint64_t> pieces,
                           Access access);

  /// Address and size of a tensor that was added.
  const Argument &tensor(llvm::StringRef name) const;

  /// What the launch of a kernel with a work list chooses, where its record
  /// leaves it open: groups of heads, and parts of a kv head's query heads
  /// (Schedule/Makespan.h). Needs the tensor `work`.
  GridChoice gridChoice(const Kernel &kernel, schedule::Kernel kind) const;

  /// Refuses tensors that overlap where one of them is written.
  llvm::Error checkOverlaps() const;

  /// Appends a launch: every argument of the kernel is the tensor (or the
  /// number of the configuration: softmax_scale, q_global_scale,
  /// k_global_scale) of the same name, or of the name that `renamed` gives for
  /// it. \p choice: see bindArguments.
  using Renamed = std::vector<std::pair<llvm::StringRef, llvm::StringRef>>;
  llvm::Error addStep(LaunchPlan &plan, llvm::StringRef name, Kernel &kernel,
                      const Renamed &renamed = {},
                      const GridChoice &choice = {}) const;

private:
  struct Entry {
    Argument argument;
    Access access;
    bool inWorkspace;
  };
  void add(Argument argument, Access access, bool inWorkspace = false);
  const Entry *find(llvm::StringRef name) const;
  std::optional<double> number(llvm::StringRef name) const;

  const AttentionConfig &config;
  uint64_t tokens;
  int64_t sms;
  std::vector<Entry> entries;
};

} // namespace runtime
} // namespace flamia

#endif // FLAMIA_LIB_RUNTIME_PLANBUILDER_H
