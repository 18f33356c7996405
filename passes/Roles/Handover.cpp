//===- Handover.cpp - An accumulator changes hands ------------------------===//

#include "passes/Roles/Handover.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flamia;

namespace {

enum class Owner {
  None,     ///< nobody has used the buffer yet
  Vector,   ///< the vector role
  Mma,      ///< the role that issues products
  ToVector, ///< the mma role has signalled, the vector role has yet to wait
  ToMma,    ///< the other way round
};

/// Walks the program in order and hands the buffer over where needed. Without a
/// plan it only checks that each use finds its content.
class Walker {
public:
  Walker(const Accumulators &accumulators, const Web &web,
         const HandoverPlan *plan)
      : accumulators(accumulators), web(web), plan(plan),
        lazyZero(web.lazyZero()) {}

  LogicalResult run(KernelOp kernel) {
    findEvents();
    walkBlock(kernel.getBody().front());
    return success(!contentLost);
  }

private:
  //===--------------------------------------------------------------------===//
  // Events
  //===--------------------------------------------------------------------===//

  /// Ties each value's read to the first operation that uses it.
  void findEvents() {
    auto addValue = [&](Value value) {
      UseRange range;
      for (OpOperand *use : accumulators.vectorUses(value))
        range.add(ancestorIn(blockOf(value), use->getOwner()));
      if (!range.first)
        return;
      reads[range.first].push_back(value);
      touch(range.first);
    };
    for (DotOp dot : web.dots) {
      addValue(dot.getResult());
      touch(dot);
    }
    for (const CarriedSlot &slot : web.slots) {
      addValue(slot.arg());
      addValue(slot.result());
      touch(slot.loop);
    }
  }

  void touch(Operation *op) {
    for (; op && !isa<KernelOp>(op); op = op->getParentOp())
      touched.insert(op);
  }

  const CarriedSlot *slotOf(Operation *loop) const {
    for (const CarriedSlot &slot : web.slots)
      if (slot.loop == loop)
        return &slot;
    return nullptr;
  }

  /// The registers that a product adds to, when its accumulator is not a
  /// content of this buffer.
  bool takesRegisters(DotOp dot) const {
    return !isZeroTile(dot.getAcc()) &&
           !accumulators.isInPlace(dot.getAccMutable());
  }

  /// Who uses the buffer inside an operation, and who is first.
  struct Summary {
    bool vector = false, mma = false, vectorFirst = false;
    void addVector() {
      if (!mma && !vector)
        vectorFirst = true;
      vector = true;
    }
  };

  void summarize(Block &block, Summary &summary) const {
    for (Operation &op : block) {
      if (!touched.contains(&op))
        continue;
      if (reads.contains(&op))
        summary.addVector();
      if (auto dot = dyn_cast<DotOp>(op)) {
        if (!llvm::is_contained(web.dots, dot))
          continue;
        if (takesRegisters(dot))
          summary.addVector();
        summary.mma = true;
        continue;
      }
      if (const CarriedSlot *slot = slotOf(&op); slot && writesInit(*slot))
        summary.addVector();
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          summarize(inner, summary);
    }
  }

  bool writesInit(const CarriedSlot &slot) const {
    return lazyZero != &slot &&
           !accumulators.isInPlace(
               slot.getLoop().getInitArgsMutable()[slot.index]);
  }

  //===--------------------------------------------------------------------===//
  // The walk
  //===--------------------------------------------------------------------===//

  void walkBlock(Block &block) {
    for (Operation &op : block) {
      if (!touched.contains(&op))
        continue;
      if (auto values = reads.find(&op); values != reads.end())
        for (Value value : values->second)
          read(&op, value);
      if (auto dot = dyn_cast<DotOp>(op)) {
        if (llvm::is_contained(web.dots, dot))
          product(dot);
      } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
        walkLoop(loop);
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        walkIf(branch);
      }
    }
  }

  void product(DotOp dot) {
    if (takesRegisters(dot))
      write(dot, dot.getAcc());
    else if (!isZeroTile(dot.getAcc()))
      expect(dot.getAcc());
    toMma(dot);
    content = dot.getResult();
    lastMma = dot;
  }

  void walkLoop(scf::ForOp loop) {
    Summary summary;
    summarize(*loop.getBody(), summary);
    const CarriedSlot *slot = slotOf(loop);
    if (slot) {
      if (writesInit(*slot))
        write(loop, slot->init());
      else if (lazyZero != slot)
        expect(slot->init());
    }

    // The owner at the head of every iteration.
    Owner head = owner;
    if (summary.vector && summary.mma)
      head = summary.vectorFirst ? Owner::ToVector : Owner::ToMma;
    else if (summary.mma)
      head = Owner::Mma;
    else if (summary.vector)
      head = Owner::Vector;
    handTo(head, loop);
    content = slot ? slot->arg() : Value();
    Operation *end = loop.getBody()->getTerminator();
    lastMma = nullptr;
    walkBlock(*loop.getBody());
    if (slot)
      expect(slot->yielded());
    handTo(head, end);
    content = slot ? slot->result() : Value();
    lastMma = owner == Owner::Mma ? loop.getOperation() : nullptr;
  }

  /// A branch leaves the buffer in the hands in which it found it.
  void walkIf(scf::IfOp branch) {
    Summary summary;
    summarize(*branch.thenBlock(), summary);
    if (Block *block = branch.elseBlock())
      summarize(*block, summary);
    if (owner == Owner::None)
      owner = summary.vectorFirst ? Owner::Vector : Owner::Mma;
    Owner before = owner;
    bool wasOpen = open;
    Value contentBefore = content;
    bool changed = false;
    for (Region &region : branch->getRegions()) {
      if (region.empty())
        continue;
      content = contentBefore;
      owner = before;
      open = wasOpen;
      lastMma = nullptr;
      walkBlock(region.front());
      handTo(before, region.front().getTerminator());
      changed |= content != contentBefore;
    }
    content = changed ? Value() : contentBefore;
    // A branch that was not taken acknowledges nothing.
    open = true;
    lastMma = owner == Owner::Mma ? branch.getOperation() : nullptr;
  }

  void expect(Value value) { contentLost |= content != value; }

  //===--------------------------------------------------------------------===//
  // Hands
  //===--------------------------------------------------------------------===//

  void handTo(Owner target, Operation *at) {
    switch (target) {
    case Owner::None:
      return;
    case Owner::Vector:
      return toVector(at);
    case Owner::Mma:
      return toMma(at);
    case Owner::ToVector:
      if (owner == Owner::ToVector)
        return;
      // A second signal before the first was waited for would be lost.
      if (owner == Owner::ToMma || (owner == Owner::Vector && open))
        toMma(at);
      return signalMma(at);
    case Owner::ToMma:
      if (owner == Owner::ToMma)
        return;
      if (owner == Owner::ToVector || (owner == Owner::Mma && open))
        toVector(at);
      return signalThreads(at);
    }
  }

  void toVector(Operation *at) {
    if (owner == Owner::ToMma)
      toMma(at);
    if (owner == Owner::Mma)
      signalMma(at);
    if (owner == Owner::ToVector) {
      if (plan)
        step(*plan->vector, at, StepOrder::MmaWait,
             [channel = plan->toVector](OpBuilder &builder, RoleState &) {
               tcgen::WaitOp::create(builder, channel.getLoc(),
                                     builder.getIndexType(), channel);
             });
      open = true;
    }
    owner = Owner::Vector;
  }

  void toMma(Operation *at) {
    if (owner == Owner::ToVector)
      toVector(at);
    if (owner == Owner::Vector)
      signalThreads(at);
    if (owner == Owner::ToMma) {
      if (plan)
        step(*plan->mma, at, StepOrder::ThreadWait,
             [channel = plan->toMma](OpBuilder &builder, RoleState &) {
               tcgen::WaitOp::create(builder, channel.getLoc(),
                                     builder.getIndexType(), channel);
             });
      open = true;
      lastMma = nullptr;
    }
    owner = Owner::Mma;
  }

  void signalMma(Operation *at) {
    if (plan) {
      Step publish = [channel = plan->toVector](OpBuilder &builder,
                                                RoleState &) {
        Location loc = channel.getLoc();
        Value slot = arith::ConstantIndexOp::create(builder, loc, 0);
        tcgen::PublishOp::create(builder, loc, channel, slot,
                                 tcgen::Agent::Mma);
      };
      // As early as possible: later products would delay the signal.
      if (owner == Owner::Mma && lastMma &&
          lastMma->getBlock() == at->getBlock())
        plan->mma->after(lastMma, StepOrder::MmaSignal, publish);
      else
        step(*plan->mma, at, StepOrder::MmaSignal, publish);
    }
    owner = Owner::ToVector;
  }

  void signalThreads(Operation *at) {
    if (plan)
      step(*plan->vector, at, StepOrder::ThreadSignal,
           [channel = plan->toMma](OpBuilder &builder, RoleState &) {
             Location loc = channel.getLoc();
             Value slot = arith::ConstantIndexOp::create(builder, loc, 0);
             tcgen::PublishOp::create(builder, loc, channel, slot,
                                      tcgen::Agent::Threads);
           });
    owner = Owner::ToMma;
  }

  void read(Operation *at, Value value) {
    expect(value);
    toVector(at);
    if (!plan)
      return;
    plan->vector->supply(value);
    const CarriedSlot *slot =
        lazyZero && lazyZero->result() == value ? lazyZero : nullptr;
    auto readBuffer = [buffer = plan->buffer, value](OpBuilder &builder) {
      Location loc = value.getLoc();
      Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
      return tcgen::ReadOp::create(builder, loc, value.getType(), buffer, zero)
          .getResult();
    };
    if (!slot || constantTripCount(slot->loop).value_or(0) > 0) {
      step(*plan->vector, at, StepOrder::Read,
           [=](OpBuilder &builder, RoleState &state) {
             state.values.map(value, readBuffer(builder));
           });
      return;
    }
    // Without an iteration nothing was written.
    scf::ForOp loop = slot->loop;
    Value init = slot->init();
    step(*plan->vector, at, StepOrder::Read,
         [=](OpBuilder &builder, RoleState &state) mutable {
           Location loc = value.getLoc();
           auto predicate = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult
                                                  : arith::CmpIPredicate::slt;
           Value runs =
               arith::CmpIOp::create(builder, loc, predicate,
                                     state.values.lookup(loop.getLowerBound()),
                                     state.values.lookup(loop.getUpperBound()));
           auto choice = scf::IfOp::create(
               builder, loc, runs,
               [&](OpBuilder &inner, Location) {
                 scf::YieldOp::create(inner, loc, readBuffer(inner));
               },
               [&](OpBuilder &inner, Location) {
                 scf::YieldOp::create(inner, loc, state.values.lookup(init));
               });
           state.values.map(value, choice.getResult(0));
         },
         {loop.getLowerBound(), loop.getUpperBound(), init});
  }

  void write(Operation *at, Value value) {
    toVector(at);
    content = value;
    if (plan)
      step(
          *plan->vector, at, StepOrder::Write,
          [=, buffer = plan->buffer](OpBuilder &builder, RoleState &state) {
            Location loc = value.getLoc();
            Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
            tcgen::WriteOp::create(builder, loc, state.values.lookup(value),
                                   buffer, zero);
          },
          value);
  }

  /// Adds a step before `at`, behind all earlier steps of this web there.
  void step(RoleBuilder &role, Operation *at, StepOrder order, Step step,
            ValueRange needs = {}) {
    StepOrder &last = lastOrder[at];
    last = std::max(last, order);
    role.before(at, last, std::move(step), needs);
  }

  const Accumulators &accumulators;
  const Web &web;
  const HandoverPlan *plan;
  const CarriedSlot *lazyZero;
  llvm::DenseMap<Operation *, SmallVector<Value>> reads;
  llvm::DenseSet<Operation *> touched;
  llvm::DenseMap<Operation *, StepOrder> lastOrder;

  Owner owner = Owner::None;
  /// The owner does not know whether its own last signal was waited for.
  bool open = false;
  Value content;
  Operation *lastMma = nullptr;
  bool contentLost = false;
};

} // namespace

LogicalResult flamia::checkHandovers(const Accumulators &accumulators,
                                     const Web &web) {
  Walker walker(accumulators, web, nullptr);
  return walker.run(web.dots[0]->getParentOfType<KernelOp>());
}

void flamia::planHandovers(const Accumulators &accumulators, const Web &web,
                           const HandoverPlan &plan) {
  Walker walker(accumulators, web, &plan);
  (void)walker.run(web.dots[0]->getParentOfType<KernelOp>());
}
