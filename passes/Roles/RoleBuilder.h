//===- RoleBuilder.h - Slices a tile program into roles ---------*- C++ -*-===//
//
// Every role runs the same control flow and, of the program's operations, only
// its own. What joins it to other roles (waiting, publishing, reading a tile)
// is a list of steps tied to operations of the original program: "before this
// loop, wait for that channel". Steps are planned first, for all roles; then
// each role's body is written by walking the original once.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_ROLEBUILDER_H
#define FLAMIA_PASSES_ROLES_ROLEBUILDER_H

#include "passes/Roles/TileUses.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <functional>

namespace flamia {

/// What is known while a role's body is written.
struct RoleState {
  /// The role's copies of the program's values.
  mlir::IRMapping values;
  /// The slot that the role holds of a channel, as its producer and consumer.
  llvm::MapVector<mlir::Value, mlir::Value> produced, consumed;
  /// Of channels that are carried (RoleBuilder::carry), the slot that rotated
  /// products of the next iteration hold.
  llvm::MapVector<mlir::Value, mlir::Value> next;
};

/// Writes some operations into a role.
using Step = std::function<void(mlir::OpBuilder &, RoleState &)>;

/// Order of the steps tied to one side of one operation: that of a single
/// thread that would run all roles.
enum class StepOrder {
  MmaSignal,    ///< products are complete
  MmaWait,      ///< a wait for products or loads
  Read,         ///< what was waited for is read into registers
  Write,        ///< registers are written into a buffer
  ThreadSignal, ///< and that is complete
  ThreadWait,   ///< a wait for it
  Acquire,      ///< a producer's wait for space
  Release,      ///< a slot may be filled again
};

class RoleBuilder {
public:
  RoleBuilder(llvm::StringRef name) : name(name.str()) {}

  llvm::StringRef getName() const { return name; }

  /// Adds a step before or after an operation of the original program. `needs`
  /// are the program's values that the step looks up.
  void before(mlir::Operation *anchor, StepOrder order, Step step,
              mlir::ValueRange needs = {});
  void after(mlir::Operation *anchor, StepOrder order, Step step,
             mlir::ValueRange needs = {});

  /// The role executes `op` through `step`, not by a copy of it.
  void execute(mlir::Operation *op, Step step, mlir::ValueRange needs = {});

  /// The role executes a copy of `op`, which has side effects.
  void execute(mlir::Operation *op);

  /// `value` is mapped by a step; where it comes from is another role's matter.
  void supply(mlir::Value value) { supplied.insert(value); }

  /// Issues `op` and its steps one iteration of `loop` ahead: for the first
  /// iteration before the loop, for the next one behind `last`, an operation of
  /// the body that follows it, or, without one, at the end of the body.
  void rotate(mlir::scf::ForOp loop, mlir::Operation *op,
              mlir::Operation *last = nullptr) {
    rotated[loop].push_back({op, last});
    isRotated.insert(op);
  }

  /// Issues the first iteration's rotated products of `loop` before `place`, an
  /// operation before the loop in its block. What they need is known there,
  /// after the steps `first`.
  void startBefore(mlir::scf::ForOp loop, mlir::Operation *place,
                   llvm::SmallVector<Step> first) {
    startPlaces[place].push_back({loop, std::move(first)});
  }

  /// Rotated products of `loop` wait for a slot of `channel` that others of
  /// their iteration use too.
  void carry(mlir::scf::ForOp loop, mlir::Value channel) {
    carried[loop].push_back(channel);
  }

  /// Finds what the role needs of the program. Fails, with an error, when a
  /// needed value can only come from another role.
  mlir::LogicalResult mark();

  /// Writes the role's part of `op` at the builder's place.
  void emitOp(mlir::OpBuilder &builder, mlir::Operation *op, RoleState &state);

  /// Whether the role does anything.
  bool isUsed() const { return !anchors.empty(); }

private:
  struct OrderedStep {
    StepOrder order;
    Step step;
  };
  using StepMap =
      llvm::DenseMap<mlir::Operation *, llvm::SmallVector<OrderedStep>>;

  void add(StepMap &map, mlir::Operation *anchor, StepOrder order, Step step,
           mlir::ValueRange needs);
  void markParents(mlir::Operation *op);
  void markControl(mlir::Operation *op);
  mlir::LogicalResult markValue(mlir::Value value);
  void runSteps(const StepMap &map, mlir::Operation *op,
                mlir::OpBuilder &builder, RoleState &state);
  void emitBlock(mlir::OpBuilder &builder, mlir::Block &block,
                 RoleState &state);
  void emitFor(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
               RoleState &state);
  void emitIf(mlir::OpBuilder &builder, mlir::scf::IfOp branch,
              RoleState &state);
  void emitRotated(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
                   mlir::Value iv, llvm::ArrayRef<mlir::Operation *> ops,
                   bool isLast, RoleState &state);
  void emitApart(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
                 mlir::Value iv, llvm::ArrayRef<mlir::Operation *> ops,
                 bool isLast, RoleState &state);
  void emitNext(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
                mlir::Operation *last, RoleState &state);
  void emitFirst(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
                 RoleState &state);

  std::string name;
  StepMap beforeOp, afterOp;
  llvm::DenseMap<mlir::Operation *, Step> executed;
  llvm::DenseSet<mlir::Operation *> copied, control, isRotated;
  llvm::SetVector<mlir::Operation *> anchors;
  llvm::DenseSet<mlir::Value> needed, supplied;
  struct Rotation {
    mlir::Operation *op, *last;
  };
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<Rotation>> rotated;
  /// Loops whose first rotated products are issued before an operation.
  struct Start {
    mlir::scf::ForOp loop;
    llvm::SmallVector<Step> first;
  };
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Start>> startPlaces;
  llvm::DenseSet<mlir::Operation *> started;
  /// Channels of a loop whose slot passes from one iteration to the next.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> carried;
  llvm::SmallVector<mlir::Value> roots, pending;
};

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_ROLEBUILDER_H
