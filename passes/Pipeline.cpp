//===- Pipeline.cpp - Turn a tile program into roles joined by channels ---===//
//
// Accumulators.h decides which products share a buffer, Handover.h how it
// changes hands, Crossings.h plans buffers and channels of all other values,
// RoleBuilder.h writes the roles.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Roles/Crossings.h"
#include "passes/Trial.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace flamia {
#define GEN_PASS_DEF_PIPELINEPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

namespace {

struct PipelinePass : public flamia::impl::PipelinePassBase<PipelinePass> {
  using PipelinePassBase::PipelinePassBase;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

  LogicalResult run(KernelOp kernel) {
    if (!kernel.getOps<tcgen::RoleOp>().empty())
      return kernel.emitError("expected a tile program, but the kernel has "
                              "roles already");
    if (maxStages < 1 || maxStages > 64)
      return kernel.emitError(
                 "flamia-pipeline: expected max-stages from 1 to 64, but got ")
             << maxStages.getValue();
    eraseDeadCode(kernel);
    if (failed(checkStores(kernel)))
      return failure();
    // From the one that keeps the tensor core busiest to the one that needs
    // least. What is computed for a product that now comes later is kept
    // meanwhile.
    SmallVector<Order> orders;
    if (hasSlots(kernel))
      orders = {Order::ScoresFirst};
    else if (mayIssueAhead(kernel))
      orders = {{Order::Ahead, /*inOuterLoops=*/true},
                {Order::AheadInTurns, /*inOuterLoops=*/true},
                Order::Ahead,
                Order::AheadInPlaces,
                Order::AheadInTurns};
    // Early products need more memory. Whether there is enough, and whether the
    // roles still meet, is tried.
    std::string reason;
    for (Order order : orders) {
      switch (tryAhead(kernel, order, reason)) {
      case Outcome::Same:
        return plan(kernel, Order::Program).first;
      case Outcome::Fits:
        if (order.kind != Order::ScoresFirst)
          moveProductsUp(kernel, order.inOuterLoops);
        return plan(kernel, order).first;
      case Outcome::Fails:
        break;
      }
    }
    if (!orders.empty())
      kernel.emitRemark("products are issued in program order, not as early as "
                        "possible: that ")
          << reason;
    return plan(kernel, Order::Program).first;
  }

  /// How products follow each other: as early as possible, each result with
  /// columns of its own, or those of the result in its place in another block,
  /// or all in turns in the same; of several work items, each item's next
  /// scores before its weights are used; or in program order.
  struct Order {
    enum Kind { Ahead, AheadInPlaces, AheadInTurns, ScoresFirst, Program };
    Order(Kind kind, bool inOuterLoops = false)
        : kind(kind), inOuterLoops(inOuterLoops) {}

    Kind kind;
    /// Of kinds that move products up: not in innermost loops only.
    bool inOuterLoops;
  };

  static bool hasSlots(KernelOp kernel) {
    return kernel
        .walk([](Operation *op) {
          return slotOf(op) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// Products have a role of their own, which serves one work item.
  static bool mayIssueAhead(KernelOp kernel) {
    bool found = false;
    kernel.walk([&](DotOp dot) { found |= roleOf(dot) == kMmaRole; });
    return found && !hasSlots(kernel);
  }

  enum class Outcome { Same, Fits, Fails };
  Outcome tryAhead(KernelOp kernel, Order order, std::string &reason) {
    Trial trial(kernel);
    ProductMoves moved;
    if (order.kind != Order::ScoresFirst)
      moved = moveProductsUp(trial.get(), order.inOuterLoops);
    if (order.inOuterLoops && !moved.outer)
      return Outcome::Fails;
    auto [planned, differs] = plan(trial.get(), order);
    // What cannot be planned at all is reported in program order.
    if (failed(planned) || (!moved.inner && !moved.outer && !differs))
      return order.inOuterLoops ? Outcome::Fails : Outcome::Same;
    // What the architecture changes there leaves buffers and channels alone.
    LogicalResult fits =
        trial.run([](OpPassManager &rest) { buildMemoryPipeline(rest, {}); });
    reason = trial.getReason().str();
    return succeeded(fits) ? Outcome::Fits : Outcome::Fails;
  }

  /// Turns the program into roles. Also returns whether issuing products early
  /// made a difference.
  std::pair<LogicalResult, bool> plan(KernelOp kernel, Order order) {
    Block &body = kernel.getBody().front();
    SmallVector<Operation *> original;
    for (Operation &op : body.without_terminator())
      original.push_back(&op);

    Accumulators accumulators(kernel);
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    CrossingPlanner planner(kernel, accumulators, builder, maxStages);
    if (order.kind == Order::ScoresFirst)
      planner.issueScoresFirst();
    else if (order.kind != Order::Program)
      planner.issueAhead(order.kind == Order::AheadInTurns    ? Turns::OfAll
                         : order.kind == Order::AheadInPlaces ? Turns::OfPlaces
                                                              : Turns::None);
    if (failed(planner.plan()))
      return {failure(), false};
    for (auto &[name, role] : planner.getRoles())
      if (failed(role.mark()))
        return {failure(), false};

    builder.setInsertionPoint(body.getTerminator());
    for (auto &[name, role] : planner.getRoles())
      if (role.isUsed())
        writeRole(builder, kernel, role, original);
    return {eraseOriginal(original), planner.isAhead()};
  }

  static void eraseDeadCode(KernelOp kernel) {
    SmallVector<Operation *> ops;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
    // Users follow what they use.
    for (Operation *op : llvm::reverse(ops))
      if (op != kernel.getOperation() && isOpTriviallyDead(op))
        op->erase();
  }

  /// Loads run ahead of stores, so none may depend on one.
  LogicalResult checkStores(KernelOp kernel) {
    llvm::DenseMap<Value, Operation *> stored;
    auto targetOf = [](Operation *op) -> Value {
      return TypeSwitch<Operation *, Value>(op)
          .Case<StoreOp, StorePayloadOp, StoreScalesOp, StoreExponentsOp>(
              [](auto store) { return store.getTarget(); })
          .Default(Value());
    };
    auto visit = [&](Operation *op) -> LogicalResult {
      if (Value target = targetOf(op))
        stored.try_emplace(target, op);
      if (!isa<LoadOp, LoadScaledOp, LoadPayloadOp, LoadExponentsOp>(op))
        return success();
      for (Value source : op->getOperands())
        if (Operation *store = stored.lookup(source)) {
          InFlightDiagnostic diagnostic = op->emitError(
              "loads run ahead of stores: this one reads a tensor that the "
              "kernel may have written before");
          diagnostic.attachNote(store->getLoc()) << "the store";
          return diagnostic;
        }
      return success();
    };
    // What a loop stores, its next iteration may load.
    WalkResult result = kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<scf::ForOp>(op))
        op->walk([&](Operation *inner) {
          if (Value target = targetOf(inner))
            stored.try_emplace(target, inner);
        });
      return WalkResult(visit(op));
    });
    return failure(result.wasInterrupted());
  }

  void writeRole(OpBuilder &builder, KernelOp kernel, RoleBuilder &role,
                 ArrayRef<Operation *> original) {
    int64_t warps = isVectorRole(role.getName()) ? 4 : 1;
    auto op =
        tcgen::RoleOp::create(builder, kernel.getLoc(), role.getName(), warps);
    OpBuilder inner = OpBuilder::atBlockBegin(&op.getBody().emplaceBlock());
    RoleState state;
    for (BlockArgument arg : kernel.getBody().getArguments())
      state.values.map(arg, arg);
    for (Operation *each : original)
      role.emitOp(inner, each, state);
    WalkResult issues =
        op.walk([](tcgen::MmaOp) { return WalkResult::interrupt(); });
    if (issues.wasInterrupted())
      tcgen::DrainOp::create(inner, kernel.getLoc());
  }

  LogicalResult eraseOriginal(ArrayRef<Operation *> original) {
    for (Operation *op : llvm::reverse(original)) {
      if (!op->use_empty())
        return op->emitError("flamia-pipeline: a role still uses this value");
      op->erase();
    }
    return success();
  }
};

} // namespace
