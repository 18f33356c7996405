//===- RoleBuilder.cpp - Slices a tile program into roles -----------------===//

#include "passes/Roles/RoleBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flamia;

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

void RoleBuilder::add(StepMap &map, Operation *anchor, StepOrder order,
                      Step step, ValueRange needs) {
  SmallVector<OrderedStep> &steps = map[anchor];
  auto place = llvm::find_if(
      steps, [&](const OrderedStep &other) { return other.order > order; });
  steps.insert(place, {order, std::move(step)});
  anchors.insert(anchor);
  llvm::append_range(roots, needs);
}

void RoleBuilder::before(Operation *anchor, StepOrder order, Step step,
                         ValueRange needs) {
  add(beforeOp, anchor, order, std::move(step), needs);
}

void RoleBuilder::after(Operation *anchor, StepOrder order, Step step,
                        ValueRange needs) {
  add(afterOp, anchor, order, std::move(step), needs);
}

void RoleBuilder::execute(Operation *op, Step step, ValueRange needs) {
  executed[op] = std::move(step);
  anchors.insert(op);
  llvm::append_range(roots, needs);
}

void RoleBuilder::execute(Operation *op) {
  copied.insert(op);
  anchors.insert(op);
  llvm::append_range(roots, op->getOperands());
}

//===----------------------------------------------------------------------===//
// Marking
//===----------------------------------------------------------------------===//

void RoleBuilder::markControl(Operation *op) {
  if (!control.insert(op).second)
    return;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    pending.append(
        {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
  else if (auto branch = dyn_cast<scf::IfOp>(op))
    pending.push_back(branch.getCondition());
}

void RoleBuilder::markParents(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent && !isa<KernelOp>(parent);
       parent = parent->getParentOp())
    markControl(parent);
}

/// The value is needed in this role: so is whatever it is computed from.
LogicalResult RoleBuilder::markValue(Value value) {
  if (supplied.contains(value) || !needed.insert(value).second)
    return success();

  if (auto arg = dyn_cast<BlockArgument>(value)) {
    Operation *owner = arg.getOwner()->getParentOp();
    if (isa<KernelOp>(owner))
      return success();
    auto loop = cast<scf::ForOp>(owner);
    markControl(loop);
    markParents(loop);
    if (value == loop.getInductionVar())
      return success();
    pending.push_back(loop.getTiedLoopInit(arg)->get());
    pending.push_back(loop.getTiedLoopYieldedValue(arg)->get());
    return success();
  }

  Operation *op = value.getDefiningOp();
  markParents(op);
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    markControl(loop);
    pending.push_back(loop.getRegionIterArg(index));
    return success();
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    markControl(branch);
    pending.push_back(branch.thenYield().getOperand(index));
    pending.push_back(branch.elseYield().getOperand(index));
    return success();
  }
  StringRef owner = roleOf(op);
  bool isConstant = op->hasTrait<OpTrait::ConstantLike>();
  if ((!owner.empty() && owner != name && !isConstant) || executed.contains(op))
    return op->emitError("role '")
           << name << "' needs this value, which role '" << owner
           << "' makes, in a place where flamia-pipeline cannot hand it over";
  copied.insert(op);
  llvm::append_range(pending, op->getOperands());
  return success();
}

LogicalResult RoleBuilder::mark() {
  for (Operation *anchor : anchors)
    markParents(anchor);
  llvm::append_range(pending, roots);
  for (auto &[loop, ops] : rotated)
    markControl(loop);
  while (!pending.empty())
    if (failed(markValue(pending.pop_back_val())))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

void RoleBuilder::runSteps(const StepMap &map, Operation *op,
                           OpBuilder &builder, RoleState &state) {
  auto steps = map.find(op);
  if (steps == map.end())
    return;
  for (const OrderedStep &ordered : steps->second)
    ordered.step(builder, state);
}

void RoleBuilder::emitOp(OpBuilder &builder, Operation *op, RoleState &state) {
  for (const Start &start : startPlaces.lookup(op)) {
    for (const Step &step : start.first)
      step(builder, state);
    emitFirst(builder, start.loop, state);
    started.insert(start.loop);
  }
  runSteps(beforeOp, op, builder, state);
  auto step = executed.find(op);
  if (step != executed.end()) {
    step->second(builder, state);
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (control.contains(op))
      emitFor(builder, loop, state);
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (control.contains(op))
      emitIf(builder, branch, state);
  } else if (copied.contains(op)) {
    builder.clone(*op, state.values)->removeAttr(kRoleAttr);
  }
  runSteps(afterOp, op, builder, state);
}

void RoleBuilder::emitBlock(OpBuilder &builder, Block &block,
                            RoleState &state) {
  auto loop = dyn_cast<scf::ForOp>(block.getParentOp());
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      runSteps(beforeOp, &op, builder, state);
    } else if (!isRotated.contains(&op)) {
      emitOp(builder, &op, state);
      if (loop)
        emitNext(builder, loop, &op, state);
    }
  }
}

/// Values that the steps in `guard` leave behind, as results of a branch with
/// the same content: later steps of the iteration use them, under the same
/// condition.
static void yieldSlots(scf::IfOp guard, RoleState &state) {
  SmallVector<Value *> slots;
  for (auto *map : {&state.produced, &state.consumed})
    for (auto &[channel, slot] : *map)
      if (slot && slot.getParentBlock() == guard.thenBlock())
        slots.push_back(&slot);
  if (slots.empty())
    return;
  OpBuilder builder(guard);
  Location loc = guard.getLoc();
  SmallVector<Type> types(slots.size(), builder.getIndexType());
  auto copy = scf::IfOp::create(builder, loc, types, guard.getCondition(),
                                /*addThenBlock=*/true, /*addElseBlock=*/true);
  Block *from = guard.thenBlock(), *to = copy.thenBlock();
  to->getOperations().splice(to->end(), from->getOperations(), from->begin(),
                             std::prev(from->end()));
  builder.setInsertionPointToEnd(to);
  scf::YieldOp::create(
      builder, loc,
      llvm::map_to_vector(slots, [](Value *slot) { return *slot; }));
  builder.setInsertionPointToEnd(copy.elseBlock());
  Value none = arith::ConstantIndexOp::create(builder, loc, 0);
  scf::YieldOp::create(builder, loc, SmallVector<Value>(slots.size(), none));
  for (auto [slot, result] : llvm::zip(slots, copy.getResults()))
    *slot = result;
  guard.erase();
}

/// Rotated products of the iteration `iv`. Others of that iteration follow
/// unless these are the last.
void RoleBuilder::emitRotated(OpBuilder &builder, scf::ForOp loop, Value iv,
                              ArrayRef<Operation *> ops, bool isLast,
                              RoleState &state) {
  Location loc = loop.getLoc();
  auto predicate = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult
                                         : arith::CmpIPredicate::slt;
  Value upper = state.values.lookup(loop.getUpperBound());
  Value exists = arith::CmpIOp::create(builder, loc, predicate, iv, upper);
  auto guard =
      scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
  OpBuilder inner = guard.getThenBodyBuilder();
  Value current = state.values.lookupOrNull(loop.getInductionVar());
  state.values.map(loop.getInductionVar(), iv);
  for (Operation *op : ops)
    emitOp(inner, op, state);
  if (current)
    state.values.map(loop.getInductionVar(), current);
  if (!isLast)
    yieldSlots(guard, state);
}

/// The next iteration's products that follow `last` (null: all others).
void RoleBuilder::emitNext(OpBuilder &builder, scf::ForOp loop, Operation *last,
                           RoleState &state) {
  auto rotations = rotated.find(loop);
  if (rotations == rotated.end())
    return;
  SmallVector<Operation *> ops;
  for (const Rotation &rotation : rotations->second)
    if (rotation.last == last)
      ops.push_back(rotation.op);
  if (ops.empty())
    return;
  Value next = arith::AddIOp::create(
      builder, loop.getLoc(), state.values.lookup(loop.getInductionVar()),
      state.values.lookup(loop.getStep()));
  bool isLast = rotations->second.back().op == ops.back();
  emitApart(builder, loop, next, ops, isLast, state);
}

/// Rotated products of a later iteration, while operations of an earlier one,
/// or before the loop, still use what they hold of carried channels.
void RoleBuilder::emitApart(OpBuilder &builder, scf::ForOp loop, Value iv,
                            ArrayRef<Operation *> ops, bool isLast,
                            RoleState &state) {
  SmallVector<Value> channels = carried.lookup(loop), current;
  for (Value channel : channels) {
    current.push_back(state.consumed.lookup(channel));
    state.consumed[channel] = state.next.lookup(channel);
  }
  emitRotated(builder, loop, iv, ops, isLast && channels.empty(), state);
  for (auto [channel, slot] : llvm::zip(channels, current)) {
    state.next[channel] = state.consumed.lookup(channel);
    state.consumed[channel] = slot;
  }
}

/// The first iteration's rotated products, before others that come before the
/// loop.
void RoleBuilder::emitFirst(OpBuilder &builder, scf::ForOp loop,
                            RoleState &state) {
  SmallVector<Operation *> ops;
  for (const Rotation &rotation : rotated.find(loop)->second)
    ops.push_back(rotation.op);
  emitApart(builder, loop, state.values.lookup(loop.getLowerBound()), ops,
            /*isLast=*/true, state);
}

void RoleBuilder::emitFor(OpBuilder &builder, scf::ForOp loop,
                          RoleState &state) {
  auto lookup = [&](Value value) { return state.values.lookup(value); };
  SmallVector<unsigned> indices;
  SmallVector<Value> inits;
  for (BlockArgument arg : loop.getRegionIterArgs())
    if (needed.contains(arg)) {
      indices.push_back(arg.getArgNumber() - 1);
      inits.push_back(lookup(loop.getTiedLoopInit(arg)->get()));
    }
  Value lower = lookup(loop.getLowerBound()),
        upper = lookup(loop.getUpperBound());
  Value step = lookup(loop.getStep());

  if (rotated.contains(loop) && !started.contains(loop))
    emitFirst(builder, loop, state);
  SmallVector<Value> channels = carried.lookup(loop);
  for (Value channel : channels) {
    inits.push_back(state.next.lookup(channel));
    state.next.erase(channel);
  }
  auto copy = scf::ForOp::create(
      builder, loop.getLoc(), lower, upper, step, inits,
      [&](OpBuilder &inner, Location loc, Value iv, ValueRange args) {
        state.values.map(loop.getInductionVar(), iv);
        for (auto [index, arg] : llvm::zip(indices, args))
          state.values.map(loop.getRegionIterArg(index), arg);
        for (auto [channel, arg] :
             llvm::zip(channels, args.take_back(channels.size())))
          state.consumed[channel] = arg;
        emitBlock(inner, *loop.getBody(), state);
        SmallVector<Value> yields;
        for (unsigned index : indices)
          yields.push_back(lookup(loop.getYieldedValues()[index]));
        emitNext(inner, loop, nullptr, state);
        for (Value channel : channels) {
          yields.push_back(state.next.lookup(channel));
          state.next.erase(channel);
        }
        scf::YieldOp::create(inner, loc, yields);
      });
  copy.setUnsignedCmp(loop.getUnsignedCmp());
  for (auto [index, result] : llvm::zip(indices, copy.getResults()))
    state.values.map(loop.getResult(index), result);
}

void RoleBuilder::emitIf(OpBuilder &builder, scf::IfOp branch,
                         RoleState &state) {
  SmallVector<unsigned> results;
  SmallVector<Type> types;
  for (OpResult result : branch.getResults())
    if (needed.contains(result)) {
      results.push_back(result.getResultNumber());
      types.push_back(result.getType());
    }
  bool hasElse = branch.elseBlock() != nullptr;
  auto copy =
      scf::IfOp::create(builder, branch.getLoc(), types,
                        state.values.lookup(branch.getCondition()),
                        /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  auto fill = [&](Block *from, Block *to) {
    OpBuilder inner = OpBuilder::atBlockEnd(to);
    emitBlock(inner, *from, state);
    SmallVector<Value> yields;
    for (unsigned index : results)
      yields.push_back(
          state.values.lookup(from->getTerminator()->getOperand(index)));
    scf::YieldOp::create(inner, branch.getLoc(), yields);
  };
  fill(branch.thenBlock(), copy.thenBlock());
  if (hasElse)
    fill(branch.elseBlock(), copy.elseBlock());
  for (auto [index, result] : llvm::zip(results, copy.getResults()))
    state.values.map(branch.getResult(index), result);
}
