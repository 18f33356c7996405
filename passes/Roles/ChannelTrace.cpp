//===- ChannelTrace.cpp - What a role does on a small input ---------------===//

#include "passes/Roles/ChannelTrace.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace {

/// Iterations of a loop that has loops around it: nests stay small.
int64_t maxIterations(unsigned depth) {
  return depth == 0 ? 8 : depth == 1 ? 4 : 2;
}

class Tracer {
public:
  Tracer(const Scenario &scenario) : scenario(scenario) {}

  RoleTrace trace(KernelOp kernel, RoleOp role, int64_t group) {
    result.role = role;
    result.group = group;
    result.warps = std::min<int64_t>(role.getWarps(), kGroupWarps);
    size_t scalar = 0;
    for (BlockArgument argument : kernel.getBody().getArguments())
      if (argument.getType().isIntOrIndex() && scalar < scenario.scalars.size())
        known[argument] = scenario.scalars[scalar++];
    kernel.walk([&](DimOp dim) { addExtent(dim); });
    for (Operation &op : kernel.getBody().front())
      if (!isa<RoleOp>(op))
        evaluate(&op);
    runBlock(role.getBody().front());
    return std::move(result);
  }

private:
  void runBlock(Block &block) {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<scf::ForOp>(op))
        runFor(loop);
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        runIf(branch);
      else if (isa<TcgenDialect>(op.getDialect()))
        record(&op);
      else
        evaluate(&op);
    }
  }

  void copyValues(ValueRange from, ValueRange to) {
    SmallVector<std::optional<int64_t>> values =
        llvm::map_to_vector(from, [&](Value value) { return lookup(value); });
    for (auto [value, target] : llvm::zip(values, to)) {
      if (value)
        known[target] = *value;
      else
        known.erase(target);
    }
  }

  void runFor(scf::ForOp loop) {
    int64_t lower = get(loop.getLowerBound());
    int64_t step = std::max<int64_t>(1, get(loop.getStep()));
    int64_t upper = get(loop.getUpperBound());
    int64_t most = lower + maxIterations(depth) * step;
    std::optional<int64_t> given = lookup(loop.getUpperBound());
    if (upper > most) {
      // Guards against the end of the loop name the same value.
      upper = most;
      known[loop.getUpperBound()] = upper;
    }
    copyValues(loop.getInitArgs(), loop.getRegionIterArgs());
    ++depth;
    for (int64_t iv = lower; iv < upper; iv += step) {
      known[loop.getInductionVar()] = iv;
      runBlock(*loop.getBody());
      copyValues(loop.getYieldedValues(), loop.getRegionIterArgs());
    }
    --depth;
    if (given)
      known[loop.getUpperBound()] = *given;
    copyValues(loop.getRegionIterArgs(), loop.getResults());
  }

  void runIf(scf::IfOp branch) {
    Block *block =
        get(branch.getCondition()) ? branch.thenBlock() : branch.elseBlock();
    if (!block)
      return;
    runBlock(*block);
    copyValues(block->getTerminator()->getOperands(), branch.getResults());
  }

  //===--------------------------------------------------------------------===//
  // Events
  //===--------------------------------------------------------------------===//

  void record(Operation *op) {
    if (auto number = dyn_cast<GroupOp>(op))
      return void(known[number.getResult()] = result.group);
    if (auto part = dyn_cast<PartOp>(op))
      return void(known[part.getResult()] = get(part.getFirst()));
    TraceEvent event{op};
    auto take = [&](Value channel, Value slot, DenseMap<Value, int64_t> &uses) {
      int64_t slots = channel.getDefiningOp<ChannelOp>().getSlots();
      int64_t use = uses[channel]++;
      event.slot = use % slots;
      event.round = use / slots;
      known[slot] = event.slot;
    };
    TypeSwitch<Operation *>(op)
        .Case([&](AcquireOp acquire) {
          take(acquire.getChannel(), acquire.getSlot(), produced);
        })
        .Case([&](DrainedOp drained) {
          Value channel = drained.getChannel();
          int64_t slots = channel.getDefiningOp<ChannelOp>().getSlots();
          event.slot = produced[channel] % slots;
          event.round = produced[channel] / slots;
        })
        .Case([&](WaitOp wait) {
          take(wait.getChannel(), wait.getSlot(), consumed);
        })
        .Case<ExpectOp, PublishOp, ReleaseOp, TmaLoadOp, BulkLoadOp>(
            [&](auto user) { event.slot = get(user.getSlot()); })
        .Case<ReadOp, ReadMaxOp, WriteOp, WriteScalesOp>([&](auto user) {
          event.slot = get(user.getSlot());
          event.firstCol = lookup(user.getBuffer());
        })
        .Case<CopyScalesOp, CopyOperandOp>([&](auto copy) {
          event.operandSlots = {get(copy.getSourceSlot()),
                                get(copy.getTargetSlot())};
        })
        .Case([&](MmaOp mma) {
          event.operandSlots = {get(mma.getDSlot()), get(mma.getASlot()),
                                get(mma.getBSlot())};
          if (mma.getAScales()) {
            event.operandSlots.push_back(get(mma.getAScalesSlot()));
            event.operandSlots.push_back(get(mma.getBScalesSlot()));
          }
          event.accumulates = get(mma.getAccumulate());
        });
    result.events.push_back(std::move(event));
  }

  //===--------------------------------------------------------------------===//
  // Scalars
  //===--------------------------------------------------------------------===//

  std::optional<int64_t> lookup(Value value) const {
    auto place = known.find(value);
    if (place == known.end())
      return std::nullopt;
    return place->second;
  }

  int64_t get(Value value) {
    if (std::optional<int64_t> found = lookup(value))
      return *found;
    if (value.getType().isInteger(1)) {
      result.hasDataConditions = true;
      return scenario.condition;
    }
    return scenario.tiles;
  }

  /// Extents of different dimensions differ, so that their quotients (query
  /// heads of a kv head, for instance) take several values.
  using ExtentKey = std::pair<Value, int64_t>;
  static ExtentKey keyOf(DimOp dim) {
    return {dim.getSource(), dim.getDimension()};
  }
  void addExtent(DimOp dim) {
    if (!llvm::is_contained(extents, keyOf(dim)))
      extents.push_back(keyOf(dim));
  }

  /// Sets the values of sources and of what is computed from them.
  void evaluate(Operation *op) {
    if (auto item = dyn_cast<WorkItemOp>(op)) {
      known[item.getBegin()] = 0;
      known[item.getEnd()] = 128 * (scenario.tiles + scenario.tilesAfter) + 100;
      known[item.getTile()] = scenario.tiles;
      known[item.getScaleBase()] = 0;
      return;
    }
    if (auto dim = dyn_cast<DimOp>(op)) {
      auto place = llvm::find(extents, keyOf(dim));
      known[dim] = 128 * scenario.tiles * (extents.end() - place);
      return;
    }
    if (isa<ProgramIdOp, NumProgramsOp>(op)) {
      known[op->getResult(0)] = isa<NumProgramsOp>(op);
      return;
    }
    if (op->getNumResults() != 1 || !op->getResult(0).getType().isIntOrIndex())
      return;
    if (std::optional<int64_t> value = compute(op))
      known[op->getResult(0)] = *value;
  }

  std::optional<int64_t> compute(Operation *op) {
    IntegerAttr constant;
    if (matchPattern(op, m_Constant(&constant)))
      return constant.getType().isInteger(1)
                 ? static_cast<int64_t>(!constant.getValue().isZero())
                 : constant.getValue().getSExtValue();
    if (auto select = dyn_cast<arith::SelectOp>(op))
      return get(select.getCondition()) ? get(select.getTrueValue())
                                        : get(select.getFalseValue());
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp,
            arith::ExtSIOp, arith::TruncIOp>(op))
      return get(op->getOperand(0));
    if (op->getNumOperands() != 2 ||
        !op->getOperand(0).getType().isIntOrIndex())
      return std::nullopt;
    int64_t a = get(op->getOperand(0)), b = get(op->getOperand(1));
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      return arith::applyCmpPredicate(compare.getPredicate(),
                                      APInt(64, a, true), APInt(64, b, true));
    int64_t divisor = b == 0 ? 1 : b;
    return TypeSwitch<Operation *, std::optional<int64_t>>(op)
        .Case([&](arith::AddIOp) { return a + b; })
        .Case([&](arith::SubIOp) { return a - b; })
        .Case([&](arith::MulIOp) { return a * b; })
        .Case<arith::DivUIOp, arith::DivSIOp>([&](auto) { return a / divisor; })
        .Case<arith::RemUIOp, arith::RemSIOp>([&](auto) { return a % divisor; })
        .Case<arith::CeilDivUIOp, arith::CeilDivSIOp>(
            [&](auto) { return llvm::divideCeilSigned(a, divisor); })
        .Case([&](arith::FloorDivSIOp) {
          return llvm::divideFloorSigned(a, divisor);
        })
        .Case<arith::MinUIOp, arith::MinSIOp>(
            [&](auto) { return std::min(a, b); })
        .Case<arith::MaxUIOp, arith::MaxSIOp>(
            [&](auto) { return std::max(a, b); })
        .Case([&](arith::AndIOp) { return a & b; })
        .Case([&](arith::OrIOp) { return a | b; })
        .Case([&](arith::XOrIOp) { return a ^ b; })
        .Case([&](arith::ShLIOp) { return a << (b & 63); })
        .Case<arith::ShRUIOp, arith::ShRSIOp>(
            [&](auto) { return a >> (b & 63); })
        .Default(std::nullopt);
  }

  const Scenario &scenario;
  RoleTrace result;
  unsigned depth = 0;
  SmallVector<ExtentKey> extents;
  DenseMap<Value, int64_t> known, produced, consumed;
};

} // namespace

SmallVector<RoleTrace> flamia::traceRoles(KernelOp kernel,
                                          const Scenario &scenario) {
  SmallVector<RoleTrace> traces;
  for (RoleOp role : kernel.getOps<RoleOp>())
    for (int64_t warp = 0; warp < int64_t(role.getWarps()); warp += kGroupWarps)
      traces.push_back(
          Tracer(scenario).trace(kernel, role, warp / kGroupWarps));
  return traces;
}
