//===- AssignRoles.cpp - Give every tile operation a role -----------------===//
//
// Rule R2: tile loads are issued by one warp, products by another, and what
// happens to tiles in between by a warpgroup. Scalars and control flow have no
// role: every role recomputes what it needs of them.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Roles/TileUses.h"

namespace flamia {
#define GEN_PASS_DEF_ASSIGNROLESPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

namespace {

StringRef naturalRoleOf(Operation *op) {
  switch (unitOf(op)) {
  case Unit::None:
    return {};
  case Unit::Tma:
    return kLoadRole;
  case Unit::Mma:
    return kMmaRole;
  case Unit::Vector:
    return vectorRoleOf(op);
  }
  llvm_unreachable("unknown unit");
}

struct AssignRolesPass
    : public flamia::impl::AssignRolesPassBase<AssignRolesPass> {
  using AssignRolesPassBase::AssignRolesPassBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    if (optLevel > 3) {
      kernel.emitError(
          "flamia-assign-roles: expected an opt-level from 0 to 3, but got ")
          << optLevel.getValue();
      return signalPassFailure();
    }
    WalkResult result = kernel.walk([&](Operation *op) {
      if (op == kernel.getOperation())
        return WalkResult::advance();
      return WalkResult(
          success(succeeded(checkOp(op)) && succeeded(assign(op))));
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  /// What no role could do.
  LogicalResult checkOp(Operation *op) {
    if (op->getNumRegions() && !isa<scf::ForOp, scf::IfOp>(op))
      return op->emitError(
                 "expected scf.for or scf.if, but got control flow of "
                 "another kind ('")
             << op->getName() << "')";
    if (isa<TransposeOp>(op))
      for (OpOperand &use : op->getUses()) {
        auto dot = dyn_cast<DotOp>(use.getOwner());
        // Threads store a row vector along columns, each its element.
        bool isLine = isa<StoreOp>(use.getOwner()) &&
                      getTileShape(op->getOperand(0).getType()).second == 1;
        if (!isa<TransposeOp>(use.getOwner()) && !isLine &&
            (!dot || &use == &dot.getAccMutable())) {
          InFlightDiagnostic diagnostic = op->emitError(
              "a transpose is supported only as an operand of flamia.dot, or "
              "of a row vector that is stored");
          diagnostic.attachNote(use.getOwner()->getLoc()) << "used here";
          return diagnostic;
        }
      }
    return success();
  }

  LogicalResult assign(Operation *op) {
    Unit unit = unitOf(op);
    StringRef given = roleOf(op);
    if (unit == Unit::None) {
      if (op->hasAttr(kRoleAttr))
        return op->emitError("operations on scalars, control flow and "
                             "transposes have no role, but got '")
               << given << "'";
      return success();
    }
    StringRef natural = naturalRoleOf(op);
    if (op->hasAttr(kRoleAttr)) {
      if (given != natural && given != kVectorRole)
        return op->emitError("expected role '")
               << natural << "' or 'vector', but got '" << given << "'";
    } else {
      StringRef role = optLevel == 0 ? StringRef(kVectorRole) : natural;
      op->setAttr(kRoleAttr, StringAttr::get(op->getContext(), role));
    }
    return success();
  }
};

} // namespace
