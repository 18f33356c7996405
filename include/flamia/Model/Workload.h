//===- Workload.h - Modelled times of packed documents ----------*- C++ -*-===//
//
// From kernels' cycles per tile and row to the time of a forward and backward
// on packed documents, and what the best published BF16 kernels need for the
// same.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_WORKLOAD_H
#define FLAMIA_MODEL_WORKLOAD_H

#include "flamia/Model/Kernel.h"

#include <map>

namespace flamia {
namespace model {

struct Workload {
  std::vector<int64_t> lengths; ///< Documents, tokens.
  int64_t heads = 64, kvHeads = 8, headDim = 128;
  bool causal = true, backward = true;
  int64_t tokens() const;
};

struct KernelTime {
  std::string kernel;
  double seconds = 0;
  double tiles = 0;      ///< Score tiles of all heads, 0: none.
  double tileCycles = 0; ///< Of one, in a long row.
  double imbalance = 1;  ///< Time over the mean load of the SMs.
  std::string limit;     ///< Unit, "serial chain" or "memory".
  /// The same if the kernel overlapped as well as published ones do.
  double secondsOverlapped = 0;
};

struct WorkloadTime {
  std::vector<KernelTime> kernels; ///< In the order of their launches.
  double seconds = 0, secondsOverlapped = 0;
  /// Best published BF16 kernels, perfectly spread over the SMs.
  double bf16Seconds = 0;
  /// The kernel that takes longest.
  const KernelTime &slowest() const;
};

/// A kernel of the library with all that a workload needs to know of it.
struct WorkloadKernel {
  runtime::LaunchRecord record;
  KernelModel model;
  /// Of the model's cycles beside tiles: those of a CTA's own start and end,
  /// whatever rows it works on. Only for kernels whose heads CTAs may share.
  double ctaCycles = 0;
};

/// The kernels that a forward (and a backward) launches, in their order, of the
/// record's folder; models each. `heads / kvHeads` is part of the model of
/// kernels that loop over a group's query heads.
llvm::Expected<std::vector<WorkloadKernel>>
loadKernels(llvm::ArrayRef<runtime::LaunchRecord> records, bool backward,
            int64_t group, const Tools &tools, const Machine &machine);

WorkloadTime predict(const Workload &workload,
                     llvm::ArrayRef<WorkloadKernel> kernels,
                     const Machine &machine);

/// Seconds of the best published BF16 kernels (bestBf16) on the documents.
double bf16Seconds(const Workload &workload, const Machine &machine);

/// A table for people; every line says that it is modelled.
std::string table(const Workload &workload, const WorkloadTime &time,
                  const Machine &machine);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_WORKLOAD_H
