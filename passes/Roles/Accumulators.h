//===- Accumulators.h - Which products share an accumulator -----*- C++ -*-===//
//
// A product adds to its accumulator in place. Products and loop-carried values
// that follow each other through `acc`, iteration arguments and results form a
// web: one buffer in tensor memory with one content at a time (rule R3). Vector
// code may read and overwrite the content between products; then the buffer
// changes hands (Handover.h).
//
// A web of one product that starts from zero is an ordinary channel and is left
// to flamia-pipeline.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_ACCUMULATORS_H
#define FLAMIA_PASSES_ROLES_ACCUMULATORS_H

#include "dialects/Tcgen/Tcgen.h"
#include "passes/Roles/RoleBuilder.h"

namespace flamia {

/// An iteration argument that stays in tensor memory.
struct CarriedSlot {
  mlir::scf::ForOp loop;
  unsigned index;
  /// Operations are handles; their accessors are not const.
  mlir::scf::ForOp getLoop() const { return loop; }
  mlir::Value init() const { return getLoop().getInitArgs()[index]; }
  mlir::Value arg() const { return getLoop().getRegionIterArg(index); }
  mlir::Value yielded() const { return getLoop().getYieldedValues()[index]; }
  mlir::Value result() const { return getLoop().getResult(index); }
};

/// One accumulator buffer.
struct Web {
  llvm::SmallVector<DotOp> dots;
  llvm::SmallVector<CarriedSlot> slots;
  /// A single product that starts from zero and is carried nowhere.
  bool isFresh() const;
  /// The slot whose first product overwrites instead of adding to zeros; its
  /// buffer is never initialized.
  const CarriedSlot *lazyZero() const;
};

class Accumulators {
public:
  explicit Accumulators(KernelOp kernel);

  llvm::ArrayRef<Web> getWebs() const { return webs; }

  /// Whether a use of an accumulator needs no copy in registers: the next
  /// product of its web, or a loop that carries it in tensor memory.
  bool isInPlace(mlir::OpOperand &use) const;

  /// Uses of a product's or carried value's content by vector code.
  llvm::SmallVector<mlir::OpOperand *> vectorUses(mlir::Value value) const;

private:
  void findSlots();
  void buildWebs();
  const CarriedSlot *slotOf(mlir::Value value) const;

  KernelOp kernel;
  llvm::SmallVector<DotOp> dots;
  llvm::SmallVector<CarriedSlot> slots;
  /// Products and loops that must not be joined to what precedes them, because
  /// the content would be overwritten before its last use.
  llvm::DenseSet<mlir::Operation *> separate;
  llvm::SmallVector<Web> webs;
  /// Index of the web that holds a value.
  llvm::DenseMap<mlir::Value, unsigned> webIndex;
};

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_ACCUMULATORS_H
