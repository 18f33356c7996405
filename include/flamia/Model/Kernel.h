//===- Kernel.h - The model of one compiled kernel --------------*- C++ -*-===//
//
// From a launch record (and its PTX and cubin) to cycles: two launches on
// made-up inputs in the simulator, counts, the replay of a long CTA, and the
// law.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_KERNEL_H
#define FLAMIA_MODEL_KERNEL_H

#include "flamia/Model/Count.h"
#include "flamia/Model/Timeline.h"
#include "flamia/Runtime/LaunchRecord.h"

namespace flamia {
namespace model {

struct KernelModel {
  KernelCounts counts;
  /// Cycles of a tile when its units are as well overlapped as in the published
  /// kernels (the law), and with the order that the code's channels enforce.
  double overlapped = 0, chain = 0;
  /// The same of a row: cycles of the row's own work, and the replay's.
  double rowUnits = 0, rowChain = 0;
  /// In the replay, cycles per score tile of a role's first warp.
  struct RoleTime {
    std::string role;
    double busy = 0;    ///< executing
    double waiting = 0; ///< for other roles or asynchronous operations
    /// Where it waits, the longest first.
    struct Wait {
      double cycles = 0;
      unsigned line = 0; ///< PTX line in front of the wait
      std::string what;  ///< what for, for people
    };
    std::vector<Wait> waits;
  };
  std::vector<RoleTime> roleTimes;
  /// The same of a row, beside its tiles.
  std::vector<RoleTime> rowRoleTimes;
  double tensorBusy = 0; ///< of the tensor pipe, per score tile
  /// Rows of tiles that a CTA works on, one after the other or side by side.
  double rowsPerCta = 1;
  bool hasTiles() const { return !counts.tile.roles.empty(); }
  /// What is modelled: the larger one.
  double tileCycles() const { return std::max(overlapped, chain); }
  double rowCycles() const { return std::max(rowUnits, rowChain); }
  /// "mufu", or "serial chain" where the order takes longer than the units.
  std::string bottleneck() const;
};

/// Does a CTA work for a kv head, and so for all query heads of its group?
bool isOverKvHeads(const runtime::LaunchRecord &record);

/// Is a row of tiles that of 128 keys, over all query heads of the group? Such
/// kernels are over kv heads and write nothing for query heads.
bool hasRowsOfKeys(const runtime::LaunchRecord &record);

/// Runs the kernel on one document of `tiles` tiles of 128 tokens, one kv head
/// and `heads` query heads: the arguments follow from the record's names and
/// shapes (tensors of small random values, a work list for what looks like
/// one). Rows are those of the query heads, or of keys (hasRowsOfKeys).
llvm::Expected<ProfiledLaunch>
profileRecord(const runtime::LaunchRecord &record, unsigned tiles,
              unsigned heads = 1);

/// Models a kernel of the record's architecture. `group`: query heads that one
/// CTA works for, in kernels that loop over them.
llvm::Expected<KernelModel> modelRecord(const runtime::LaunchRecord &record,
                                        const Tools &tools,
                                        const Machine &machine,
                                        unsigned group = 1);

/// From launches that were profiled already.
llvm::Expected<KernelModel> modelLaunches(const SassFunction &code,
                                          const ProfiledLaunch &small,
                                          const ProfiledLaunch &large,
                                          const Machine &machine);

/// The B200 or B300 that an architecture is modelled as.
llvm::Expected<const Machine *> machineOf(llvm::StringRef arch);

/// Counts and cycles by role and unit, for people, and the `waits` longest
/// waits of every role.
std::string report(const KernelModel &model, const Machine &machine,
                   unsigned waits = 0);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_KERNEL_H
