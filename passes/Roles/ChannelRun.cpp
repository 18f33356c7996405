//===- ChannelRun.cpp - Runs the channels of a kernel on paper ------------===//

#include "passes/Roles/ChannelRun.h"
#include "passes/Roles/ChannelTrace.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace flamia {

/// One mbarrier.
struct Barrier {
  int64_t expected = 0, pending = 0;
  SmallVector<unsigned> arrivals;
  /// Events whose arrivals completed each phase.
  SmallVector<SmallVector<unsigned>> phases;
};

/// The slots of a channel.
struct ChannelState {
  SmallVector<Barrier> full, empty;
  /// Bytes announced and loaded, and the loads, by slot.
  SmallVector<int64_t> announced, loaded;
  SmallVector<SmallVector<unsigned>> loads;
  /// For each waiting trace and slot, the event of its last wait.
  llvm::MapVector<const RoleTrace *, SmallVector<SmallVector<unsigned>>> waits;
};

/// One launch in execution.
class Execution {
public:
  Execution(KernelOp kernel, ArrayRef<RoleTrace> traces, int64_t parts)
      : kernel(kernel), traces(traces), parts(parts) {}

  FailureOr<ChannelRun::Record> run() {
    start = addEvent({});
    for (ChannelOp channel : kernel.getOps<ChannelOp>()) {
      ChannelState &state = channels[channel];
      state.full.resize(channel.getSlots());
      state.empty.resize(channel.getSlots());
      for (Barrier &barrier : state.full)
        barrier.expected = barrier.pending = channel.getFull();
      for (Barrier &barrier : state.empty)
        barrier.expected = barrier.pending = channel.getEmpty();
      state.announced.resize(channel.getSlots());
      state.loaded.resize(channel.getSlots());
      state.loads.resize(channel.getSlots());
    }
    for (FillScalesOp fill : kernel.getOps<FillScalesOp>())
      for (int64_t slot = 0; slot < slotsOf(fill.getBuffer()); ++slot)
        use(fill.getBuffer(), slot, start, /*replaces=*/true);
    for (const RoleTrace &trace : traces) {
      roles.push_back({&trace, 0, start, start, start});
      for (const TraceEvent &event : trace.events)
        if (auto wait = dyn_cast<WaitOp>(event.op))
          channels[wait.getChannel().getDefiningOp()].waits[&trace].resize(
              channelOf(wait.getChannel()).getSlots());
    }

    for (bool moved = true; moved;) {
      moved = false;
      for (Role &role : roles)
        while (role.next < role.trace->events.size()) {
          FailureOr<bool> done = step(role, role.trace->events[role.next]);
          if (failed(done))
            return failure();
          if (!*done)
            break;
          ++role.next;
          moved = true;
        }
    }
    if (llvm::any_of(roles, [](const Role &role) {
          return role.next < role.trace->events.size();
        }))
      return reportDeadlock();
    if (failed(checkComplete()))
      return failure();
    return std::move(record);
  }

private:
  struct Role {
    const RoleTrace *trace;
    size_t next;
    /// Last event of all the role's threads, of the one that issues, and of the
    /// products it issued. Of several warps the issuing one knows only what
    /// barriers tell it of the others, and they of it.
    unsigned last, lastIssue, lastProduct;
  };

  static int64_t slotsOf(Value buffer) {
    return cast<BufferType>(buffer.getType()).getSlots();
  }
  static ChannelOp channelOf(Value value) {
    return value.getDefiningOp<ChannelOp>();
  }
  ChannelState &stateOf(Value channel) {
    return channels[channel.getDefiningOp()];
  }

  //===--------------------------------------------------------------------===//
  // Events and uses of buffers
  //===--------------------------------------------------------------------===//

  unsigned addEvent(ArrayRef<unsigned> after) {
    unsigned event = record.before.size();
    llvm::BitVector before(event + 1);
    for (unsigned other : after) {
      before |= record.before[other];
      before.set(other);
    }
    record.before.push_back(std::move(before));
    return event;
  }

  unsigned threadEvent(Role &role, ArrayRef<unsigned> alsoAfter = {}) {
    SmallVector<unsigned> after(alsoAfter);
    after.push_back(role.last);
    return role.last = addEvent(after);
  }

  unsigned issueEvent(Role &role, ArrayRef<unsigned> alsoAfter = {}) {
    if (role.trace->warps == 1)
      return threadEvent(role, alsoAfter);
    SmallVector<unsigned> after(alsoAfter);
    after.push_back(role.lastIssue);
    return role.lastIssue = addEvent(after);
  }

  /// All of them, or the one that issues, wait for a channel.
  unsigned waitEvent(Role &role, Value channel, ArrayRef<unsigned> after) {
    if (role.trace->warps == 1)
      return threadEvent(role, after);
    unsigned issuer = issueEvent(role, after);
    return isOfIssuers(channelOf(channel)) ? issuer : threadEvent(role, after);
  }

  /// Something that the tensor core does in its own time, in order.
  unsigned productEvent(Role &role) {
    return role.lastProduct = addEvent({issueEvent(role), role.lastProduct});
  }

  /// Of all columns, or of those of a part of the buffer. `issue`: of uses by
  /// the tensor core.
  void use(Value buffer, int64_t slot, unsigned event, bool replaces,
           std::optional<int64_t> firstCol = {},
           std::optional<unsigned> issue = {}) {
    AllocOp alloc = allocOf(buffer);
    int64_t cols = alloc.getType().getCols(), first = firstCol.value_or(0);
    int64_t end =
        firstCol ? first + cast<BufferType>(buffer.getType()).getCols() : cols;
    for (int64_t part = first * parts / cols;
         part < llvm::divideCeilSigned(end * parts, cols); ++part) {
      std::vector<ChannelRun::Life> &lives = record.lives[{alloc, part}][slot];
      if (lives.empty() || replaces)
        lives.emplace_back();
      lives.back().uses.push_back(event);
      if (issue)
        lives.back().issues.push_back(*issue);
    }
  }

  /// By the tensor core, for what was issued last.
  void useInPipe(const Role &role, Value buffer, int64_t slot, bool replaces) {
    use(buffer, slot, role.lastProduct, replaces, /*firstCol=*/{},
        role.trace->warps == 1 ? role.last : role.lastIssue);
  }

  //===--------------------------------------------------------------------===//
  // Barriers
  //===--------------------------------------------------------------------===//

  LogicalResult arrive(Barrier &barrier, Operation *op, int64_t count,
                       unsigned event) {
    if (count > barrier.pending)
      return op->emitError("channel receives more arrivals than the ")
             << barrier.expected << " it was declared for";
    barrier.pending -= count;
    barrier.arrivals.push_back(event);
    if (barrier.pending == 0) {
      barrier.pending = barrier.expected;
      barrier.phases.push_back(std::move(barrier.arrivals));
      barrier.arrivals.clear();
    }
    return success();
  }

  /// A full barrier completed another phase: every role that waits must have
  /// seen the phase before.
  LogicalResult checkSeen(ChannelState &state, int64_t slot, Operation *op) {
    Barrier &barrier = state.full[slot];
    int64_t before = static_cast<int64_t>(barrier.phases.size()) - 2;
    if (before < 0 || !barrier.arrivals.empty())
      return success();
    for (auto &entry : state.waits) {
      auto &waits = entry.second;
      bool seen = static_cast<int64_t>(waits[slot].size()) > before &&
                  llvm::any_of(barrier.phases.back(), [&](unsigned arrival) {
                    const llvm::BitVector &order = record.before[arrival];
                    unsigned wait = waits[slot][before];
                    return wait < order.size() && order.test(wait);
                  });
      if (seen)
        continue;
      InFlightDiagnostic diagnostic =
          op->emitError("channel is signalled again before role '")
          << RoleOp(entry.first->role).getName()
          << "' has waited for the last signal";
      return diagnostic;
    }
    return success();
  }

  LogicalResult arriveFull(Value channel, int64_t slot, Operation *op,
                           int64_t count, unsigned event) {
    ChannelState &state = stateOf(channel);
    if (failed(arrive(state.full[slot], op, count, event)))
      return failure();
    return checkSeen(state, slot, op);
  }

  int64_t arrivalsOf(Role &role, Agent agent) {
    return agent == Agent::Threads ? role.trace->warps : 1;
  }

  unsigned signalEvent(Role &role, Agent agent) {
    return agent == Agent::Threads ? threadEvent(role) : productEvent(role);
  }

  /// Bytes of a load arrived; with the last ones the slot is full.
  LogicalResult load(Role &role, Operation *op, Value channel, Value buffer,
                     int64_t slot) {
    unsigned event = addEvent({issueEvent(role)});
    use(buffer, slot, event, /*replaces=*/true);
    ChannelState &state = stateOf(channel);
    state.loads[slot].push_back(event);
    state.loaded[slot] += cast<BufferType>(buffer.getType()).getSlotSize();
    if (state.loaded[slot] > state.announced[slot])
      return op->emitError("expected ")
             << state.announced[slot] << " bytes for the slot, but its loads "
             << "bring " << state.loaded[slot];
    if (state.loaded[slot] < state.announced[slot])
      return success();
    unsigned full = addEvent(state.loads[slot]);
    state.announced[slot] = state.loaded[slot] = 0;
    state.loads[slot].clear();
    return arriveFull(channel, slot, op, 1, full);
  }

  //===--------------------------------------------------------------------===//
  // One step of one role
  //===--------------------------------------------------------------------===//

  /// Returns false when the role has to wait.
  FailureOr<bool> step(Role &role, const TraceEvent &event) {
    if (isa<AcquireOp, DrainedOp>(event.op)) {
      Barrier &empty = stateOf(event.op->getOperand(0)).empty[event.slot];
      int64_t phases = empty.phases.size();
      if (phases < event.round)
        return false;
      waitEvent(role, event.op->getOperand(0),
                event.round == 0 ? ArrayRef<unsigned>()
                                 : ArrayRef(empty.phases[event.round - 1]));
      return true;
    }
    if (auto wait = dyn_cast<WaitOp>(event.op)) {
      ChannelState &state = stateOf(wait.getChannel());
      Barrier &full = state.full[event.slot];
      int64_t phases = full.phases.size();
      if (phases <= event.round)
        return false;
      unsigned waited =
          waitEvent(role, wait.getChannel(), full.phases[event.round]);
      state.waits[role.trace][event.slot].push_back(waited);
      return true;
    }
    if (failed(act(role, event)))
      return failure();
    return true;
  }

  LogicalResult act(Role &role, const TraceEvent &event) {
    return TypeSwitch<Operation *, LogicalResult>(event.op)
        .Case([&](ExpectOp expect) {
          issueEvent(role);
          stateOf(expect.getChannel()).announced[event.slot] +=
              expect.getBytes();
          return success();
        })
        .Case<TmaLoadOp, BulkLoadOp>([&](auto op) {
          return load(role, op, op.getChannel(), op.getBuffer(), event.slot);
        })
        .Case([&](PublishOp publish) {
          unsigned signal = signalEvent(role, publish.getAgent());
          return arriveFull(publish.getChannel(), event.slot, publish,
                            arrivalsOf(role, publish.getAgent()), signal);
        })
        .Case([&](ReleaseOp release) {
          unsigned signal = signalEvent(role, release.getAgent());
          Barrier &empty = stateOf(release.getChannel()).empty[event.slot];
          return arrive(empty, release, arrivalsOf(role, release.getAgent()),
                        signal);
        })
        .Case([&](FillScalesOp fill) {
          unsigned filled = threadEvent(role);
          for (int64_t slot = 0; slot < slotsOf(fill.getBuffer()); ++slot)
            use(fill.getBuffer(), slot, filled, /*replaces=*/true);
          return success();
        })
        .Case<ReadOp, ReadMaxOp>([&](auto read) {
          use(read.getBuffer(), event.slot, threadEvent(role),
              /*replaces=*/false, event.firstCol);
          return success();
        })
        .Case([&](WriteOp write) {
          // Columns are written from the first on.
          use(write.getBuffer(), event.slot, threadEvent(role),
              /*replaces=*/write.getCol() == 0, event.firstCol);
          return success();
        })
        .Case([&](WriteScalesOp write) {
          use(write.getBuffer(), event.slot, threadEvent(role),
              /*replaces=*/true, event.firstCol);
          return success();
        })
        .Case<CopyScalesOp, CopyOperandOp>([&](auto copy) {
          productEvent(role);
          useInPipe(role, copy.getSource(), event.operandSlots[0],
                    /*replaces=*/false);
          useInPipe(role, copy.getTarget(), event.operandSlots[1],
                    /*replaces=*/true);
          return success();
        })
        .Case([&](MmaOp mma) {
          productEvent(role);
          Value buffers[] = {mma.getD(), mma.getA(), mma.getB(),
                             mma.getAScales(), mma.getBScales()};
          for (size_t i = 1; i < event.operandSlots.size(); ++i)
            useInPipe(role, buffers[i], event.operandSlots[i],
                      /*replaces=*/false);
          useInPipe(role, buffers[0], event.operandSlots[0],
                    /*replaces=*/!event.accumulates);
          return success();
        })
        .Case([&](DrainOp) {
          if (role.trace->warps > 1)
            issueEvent(role, role.lastProduct);
          threadEvent(role, role.lastProduct);
          return success();
        })
        .Default(success());
  }

  /// Nothing is left half done: a slot that is used once may have a wrong
  /// number of arrivals or bytes that no later wait would miss.
  LogicalResult checkComplete() {
    auto check = [](ChannelOp channel, ArrayRef<Barrier> barriers,
                    StringRef name) -> LogicalResult {
      for (const Barrier &barrier : barriers)
        if (barrier.pending != barrier.expected)
          return channel.emitError("a slot is left with ")
                 << barrier.expected - barrier.pending << " of its "
                 << barrier.expected << " '" << name << "' arrivals";
      return success();
    };
    for (ChannelOp channel : kernel.getOps<ChannelOp>()) {
      const ChannelState &state = channels[channel];
      if (failed(check(channel, state.full, "full")) ||
          failed(check(channel, state.empty, "empty")))
        return failure();
      for (auto [announced, loaded] : llvm::zip(state.announced, state.loaded))
        if (announced != loaded)
          return channel.emitError("expected ")
                 << announced << " bytes for a slot, but its loads bring "
                 << loaded;
    }
    return success();
  }

  LogicalResult reportDeadlock() {
    InFlightDiagnostic diagnostic =
        kernel.emitError("roles wait for each other for ever");
    llvm::SetVector<Operation *> waitedFor;
    for (Role &role : roles) {
      if (role.next >= role.trace->events.size())
        continue;
      Operation *op = role.trace->events[role.next].op;
      bool acquires = isa<AcquireOp, DrainedOp>(op);
      RoleOp roleOp = role.trace->role;
      Operation *channel = op->getOperand(0).getDefiningOp();
      diagnostic.attachNote(op->getLoc())
          << "role '" << roleOp.getName() << "' waits "
          << (acquires ? "for a free slot" : "for a full slot")
          << " of channel " << indexOf(channel);
      waitedFor.insert(channel);
    }
    for (Operation *channel : waitedFor)
      diagnostic.attachNote(channel->getLoc())
          << "channel " << indexOf(channel);
    return diagnostic;
  }

  /// Channels are numbered in the order of their declaration.
  int64_t indexOf(Operation *channel) {
    int64_t index = 0;
    for (ChannelOp other : kernel.getOps<ChannelOp>()) {
      if (other == channel)
        break;
      ++index;
    }
    return index;
  }

  KernelOp kernel;
  ArrayRef<RoleTrace> traces;
  int64_t parts;
  ChannelRun::Record record;
  DenseMap<Operation *, ChannelState> channels;
  SmallVector<Role> roles;
  unsigned start = 0;
};

} // namespace flamia

FailureOr<ChannelRun> ChannelRun::create(KernelOp kernel) {
  ChannelRun run;
  for (RoleOp role : kernel.getOps<RoleOp>())
    run.parts = std::max<int64_t>(
        run.parts, llvm::divideCeil(role.getWarps(), kGroupWarps));
  SmallVector<Scenario> scenarios;
  // Tiles behind the work item's own matter only where there are work items.
  bool hasItems =
      kernel.walk([](WorkItemOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  for (int64_t tiles = 0; tiles <= 3; ++tiles)
    for (int64_t after : {0, 1, 3})
      if (after == 0 || hasItems)
        scenarios.push_back({tiles, after});
  // Scalars that differ: each of the kernel's against all the others.
  unsigned scalars =
      llvm::count_if(kernel.getBody().getArgumentTypes(),
                     [](Type type) { return type.isIntOrIndex(); });
  for (unsigned one = 0; scalars > 1 && one < scalars; ++one)
    for (int64_t own : {0, 1, 3})
      for (int64_t others : {0, 1, 3})
        if (own != others) {
          Scenario scenario{others};
          scenario.scalars.assign(scalars, others);
          scenario.scalars[one] = own;
          scenarios.push_back(std::move(scenario));
        }
  for (Scenario &scenario : scenarios)
    for (bool condition : {false, true}) {
      scenario.condition = condition;
      SmallVector<RoleTrace> traces = traceRoles(kernel, scenario);
      FailureOr<Record> record = Execution(kernel, traces, run.parts).run();
      if (failed(record))
        return failure();
      run.records.push_back(std::move(*record));
      if (llvm::none_of(traces, [](const RoleTrace &trace) {
            return trace.hasDataConditions;
          }))
        break;
    }
  return run;
}

bool ChannelRun::areOrdered(const Record &record, Part a, Part b,
                            bool inPipe) const {
  auto slotsOfA = record.lives.find(a), slotsOfB = record.lives.find(b);
  if (slotsOfA == record.lives.end() || slotsOfB == record.lives.end())
    return true;
  auto precedes = [&](const Life &first, const Life &second) {
    return llvm::all_of(first.uses, [&](unsigned early) {
      auto isBefore = [&](unsigned late) {
        const llvm::BitVector &before = record.before[late];
        return early < before.size() && before.test(early);
      };
      return llvm::all_of(second.uses, isBefore) &&
             (inPipe || llvm::all_of(second.issues, isBefore));
    });
  };
  for (auto &[slotOfA, livesOfA] : slotsOfA->second)
    for (auto &[slotOfB, livesOfB] : slotsOfB->second)
      for (const Life &x : livesOfA)
        for (const Life &y : livesOfB)
          if (!precedes(x, y) && !precedes(y, x))
            return false;
  return true;
}

bool ChannelRun::areOrdered(AllocOp a, int64_t partOfA, AllocOp b,
                            int64_t partOfB, bool inPipe) const {
  return llvm::all_of(records, [&](const Record &record) {
    return areOrdered(record, {a, partOfA}, {b, partOfB}, inPipe);
  });
}
