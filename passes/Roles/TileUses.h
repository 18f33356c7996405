//===- TileUses.h - Who makes and who uses a tile ---------------*- C++ -*-===//
//
// Small queries that flamia-assign-roles and flamia-pipeline share: which unit
// works on an operation, what a product's operand really is, and where, in a
// value's own block, its uses begin and end.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_TILEUSES_H
#define FLAMIA_PASSES_ROLES_TILEUSES_H

#include "dialects/Flamia/Flamia.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flamia {

/// The attribute that holds an operation's role.
constexpr llvm::StringLiteral kRoleAttr = "flamia.role";
constexpr llvm::StringLiteral kLoadRole = "load";
constexpr llvm::StringLiteral kMmaRole = "mma";
constexpr llvm::StringLiteral kVectorRole = "vector";

/// The work item of a CTA that an operation belongs to, where there are several
/// (flamia-jam-items): each has a vector role, "vector0", "vector1"...
constexpr llvm::StringLiteral kSlotAttr = "flamia.slot";
std::optional<int64_t> slotOf(mlir::Operation *op);

/// The hardware that executes an operation, whatever role issues it.
enum class Unit {
  None,   ///< scalars and control flow: recomputed in every role
  Tma,    ///< tile loads by tensor map
  Mma,    ///< products
  Vector, ///< tiles in registers, direct global accesses
};

/// Whether the type is a tile: a tensor or a scaled tile.
bool isTile(mlir::Type type);

/// Whether the load can be a bulk copy of a whole row into shared memory, from
/// where threads read it: a column vector that lies where scales loaded beside
/// it lie, in a tensor of the same outer dimensions. A bulk copy must not reach
/// past the tensor, as theirs does not.
bool isLineLoad(mlir::Operation *op);

/// The unit of an operation; transposes, which are descriptors, have none.
Unit unitOf(mlir::Operation *op);

/// The operation's role, empty when it has none.
llvm::StringRef roleOf(mlir::Operation *op);

/// Whether the name is that of a role with vector code.
bool isVectorRole(llvm::StringRef role);

/// The vector role of an operation's work item.
llvm::StringRef vectorRoleOf(mlir::Operation *op);

/// Whether the value is a tile of +0.0.
bool isZeroTile(mlir::Value value);

/// A product's operand below its transposes.
struct OperandRoot {
  mlir::Value value;
  bool transposed = false;
};
OperandRoot lookThroughTransposes(mlir::Value value);

/// All uses of a tile, with those of its transposes in their place.
llvm::SmallVector<mlir::OpOperand *> usesThroughTransposes(mlir::Value value);

/// The block in which a value becomes available.
mlir::Block *blockOf(mlir::Value value);

/// The operation of `block` that is `op` or holds it; null when there is none.
mlir::Operation *ancestorIn(mlir::Block *block, mlir::Operation *op);

/// Whether `first` comes before `second` in program order, neither of them
/// being part of the other.
bool comesBefore(mlir::Operation *first, mlir::Operation *second);

/// The first and the last operation of a value's block that use it, directly
/// or in their regions.
struct UseRange {
  mlir::Operation *first = nullptr, *last = nullptr;
  void add(mlir::Operation *anchor);
};

/// Number of iterations of a loop with constant bounds.
std::optional<int64_t> constantTripCount(mlir::scf::ForOp loop);

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_TILEUSES_H
