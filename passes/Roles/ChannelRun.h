//===- ChannelRun.h - Runs the channels of a kernel on paper ----*- C++ -*-===//
//
// Executes the traces of all roles for several small launches: finds cyclic
// waits, signals that come before an earlier one was waited for, and the order
// in which buffers are used. "Before" means by signals and waits, whatever the
// speed of the roles and of a role's warps, one of which issues. Products and
// copies of one role complete in the order of their issue (facts:
// docs/dialect-tcgen.md); whether that orders buffers is the caller's choice.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_CHANNELRUN_H
#define FLAMIA_PASSES_ROLES_CHANNELRUN_H

#include "dialects/Tcgen/Tcgen.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

#include <map>

namespace flamia {

/// Attribute of a channel: its ring must have so many slots, because products
/// hold one while they wait for the next.
constexpr llvm::StringLiteral kMinSlots = "tcgen.min_slots";

/// Attribute of a kernel whose buffers share columns of tensor memory in an
/// order that only the tensor pipe keeps.
constexpr llvm::StringLiteral kNeedsPipeOrder = "tcgen.needs_pipe_order";

class ChannelRun {
public:
  /// Runs a kernel of roles. A cyclic wait, a lost signal or a wrong number of
  /// arrivals or bytes is an error that names the channels.
  static mlir::FailureOr<ChannelRun> create(KernelOp kernel);

  /// Parts that a buffer's columns have where a role has as many warpgroups:
  /// each of them uses its part in its own time.
  int64_t getParts() const { return parts; }

  /// Whether parts of two buffers may share space: of any two contents of
  /// theirs, all uses of one come before all uses of the other. \p inPipe: the
  /// tensor pipe's order counts, which PTX promises for few pairs of
  /// instructions (docs/simulator-races.md).
  bool areOrdered(tcgen::AllocOp a, int64_t partOfA, tcgen::AllocOp b,
                  int64_t partOfB, bool inPipe) const;

private:
  friend class Execution;

  /// Uses of a slot from one writing that replaces its content to the next.
  struct Life {
    llvm::SmallVector<unsigned> uses;
    /// When those of the tensor core were issued.
    llvm::SmallVector<unsigned> issues;
  };
  /// What one launch leaves behind.
  struct Record {
    /// Events that come before each event.
    std::vector<llvm::BitVector> before;
    /// By buffer and part, and slot.
    llvm::DenseMap<std::pair<mlir::Operation *, int64_t>,
                   std::map<int64_t, std::vector<Life>>>
        lives;
  };
  using Part = std::pair<mlir::Operation *, int64_t>;
  bool areOrdered(const Record &record, Part a, Part b, bool inPipe) const;

  int64_t parts = 1;
  std::vector<Record> records;
};

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_CHANNELRUN_H
