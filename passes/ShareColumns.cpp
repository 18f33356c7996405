//===- ShareColumns.cpp - Two warpgroups share the columns of tiles -------===//
//
// A scheduler of an SM has one warp of each warpgroup, and one warp cannot use
// the units for exponentials, for additions and for tensor memory at a time.
// Where vector code needs no whole rows, two warpgroups do it, each for its
// half of the columns.
//
//===----------------------------------------------------------------------===//

#include "passes/Columns/Segments.h"
#include "passes/Passes.h"
#include "passes/Trial.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

namespace flamia {
#define GEN_PASS_DEF_SHARECOLUMNSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace {

constexpr int64_t kGroups = 2;

bool isWide(Value value) { return columnsOf(value.getType()) > 1; }

/// Equal columns, made anew for each use.
bool isRepeatable(Operation *op) {
  DenseElementsAttr elements;
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
    return !isWide(broadcast.getSource());
  return op && (isa<FullOp>(op) || (matchPattern(op, m_Constant(&elements)) &&
                                    elements.isSplat()));
}

/// Tile operations that must be shared alike: the columns of one come from the
/// same columns of the other.
struct Component {
  SmallVector<Operation *> ops;
  /// An operation that needs whole rows.
  Operation *whole = nullptr;
  /// The warpgroup that does all of it.
  int64_t group = 0;
};

class Sharing {
public:
  explicit Sharing(RoleOp role) : role(role), builder(role.getContext()) {}

  /// Finds out what the warpgroups can share. Fails, and leaves the reason and
  /// its place, when that is not everything in loops.
  LogicalResult plan() {
    collect();
    bool sharesLoop = false;
    int64_t work[kGroups] = {};
    for (Component &component : components) {
      bool inLoop = llvm::any_of(component.ops, isInInnermostLoop);
      if (!component.whole) {
        sharesLoop |= inLoop;
        continue;
      }
      if (inLoop)
        return refuse(component.whole, "needs whole rows in a loop");
      if (!standsAlone(component))
        return refuse(component.whole, "has other steps in between");
      int64_t *least = std::min_element(work, work + kGroups);
      component.group = least - work;
      *least += costOf(component);
    }
    if (!sharesLoop)
      return failure();
    return success();
  }

  void apply() {
    role.setWarps(kGroups * kGroupWarps);
    builder.setInsertionPointToStart(&role.getBody().front());
    number = GroupOp::create(builder, role.getLoc(), builder.getIndexType());
    for (Component &component : components) {
      if (component.whole)
        giveTo(component);
      else
        llvm::for_each(component.ops, [&](Operation *op) { halve(op); });
    }
    for (Operation *op : repeated)
      if (op->use_empty())
        op->erase();
    countArrivals();
  }

  /// Why sharing was refused; empty where there is nothing to share.
  StringRef getReason() const { return reason; }
  Operation *getPlace() const { return place; }

private:
  //===--------------------------------------------------------------------===//
  // What can be shared
  //===--------------------------------------------------------------------===//

  /// Whether the operation runs as often as anything: loops around other loops
  /// are run through seldom.
  static bool isInInnermostLoop(Operation *op) {
    auto loop = op->getParentOfType<scf::ForOp>();
    return loop &&
           !loop.getBody()
                ->walk([](scf::ForOp) { return WalkResult::interrupt(); })
                .wasInterrupted();
  }

  /// Whether a warpgroup can do the operation on its columns alone.
  static bool canHalve(Operation *op) {
    int64_t cols = 0;
    auto take = [&](Value value) {
      cols = std::max(cols, columnsOf(value.getType()));
    };
    llvm::for_each(op->getOperands(), take);
    llvm::for_each(op->getResults(), take);
    if (cols % (kGroups * kChunk) != 0)
      return false;
    auto isRow = [](BufferType type) {
      return type.getLayout() == Layout::Lanes ||
             type.getLayout() == Layout::Line;
    };
    if (auto read = dyn_cast<ReadOp>(op))
      return read.getCol() == 0 && isRow(read.getBuffer().getType());
    if (auto write = dyn_cast<WriteOp>(op))
      return write.getCol() == 0 && isRow(write.getBuffer().getType());
    if (auto write = dyn_cast<WriteScalesOp>(op))
      return write.getAlong() == Axis::Cols &&
             write.getBuffer().getType().getCols() == 4;
    if (auto quantize = dyn_cast<QuantizeOp>(op))
      return kChunk % quantize.getType().getBlockCols() == 0 &&
             quantize.getType().getBlockRows() == 1;
    return isa<LoadOp, MaskOp, Exp2Op, BroadcastOp>(op) ||
           OpTrait::hasElementwiseMappableTraits(op);
  }

  void collect() {
    llvm::EquivalenceClasses<Operation *> classes;
    SmallVector<Operation *> ops;
    role.walk([&](Operation *op) {
      // What is written of a row vector must be written once.
      bool acts = isa<StoreOp, StorePayloadOp, StoreScalesOp, StoreExponentsOp,
                      WriteOp, ReduceRowsOp>(op);
      if (op->getNumRegions() > 0 || isRepeatable(op) ||
          (!acts && llvm::none_of(op->getOperands(), isWide) &&
           llvm::none_of(op->getResults(), isWide)))
        return;
      ops.push_back(op);
      classes.insert(op);
      for (Value operand : op->getOperands())
        if (Operation *source = operand.getDefiningOp();
            source && isWide(operand) && !isRepeatable(source) &&
            source->getNumRegions() == 0)
          classes.unionSets(op, source);
    });
    llvm::DenseMap<Operation *, size_t> numbers;
    for (Operation *op : ops) {
      auto [known, isNew] =
          numbers.try_emplace(classes.getLeaderValue(op), components.size());
      if (isNew)
        components.emplace_back();
      Component &component = components[known->second];
      component.ops.push_back(op);
      if (!component.whole && !(canHalve(op) && isStraight(op)))
        component.whole = op;
    }
  }

  /// No loop or branch hands on its tiles.
  static bool isStraight(Operation *op) {
    return !op->hasTrait<OpTrait::IsTerminator>() &&
           llvm::none_of(op->getOperands(), [](Value operand) {
             Operation *source = operand.getDefiningOp();
             return isWide(operand) && (!source || source->getNumRegions() > 0);
           });
  }

  /// One piece of code without steps of others, whose values nothing else uses.
  static bool standsAlone(const Component &component) {
    Operation *first = component.ops.front(), *last = component.ops.back();
    llvm::DenseSet<Operation *> own(component.ops.begin(), component.ops.end());
    for (Operation *op : component.ops)
      if (op->getBlock() != first->getBlock() ||
          op->hasTrait<OpTrait::IsTerminator>() ||
          llvm::any_of(op->getUsers(),
                       [&](Operation *user) { return !own.contains(user); }))
        return false;
    for (Operation *op = first; op != last; op = op->getNextNode())
      if (!own.contains(op) && (!isMemoryEffectFree(op) || op->getNumRegions()))
        return false;
    return true;
  }

  static int64_t costOf(const Component &component) {
    int64_t cost = 0;
    for (Operation *op : component.ops)
      for (Value result : op->getResults()) {
        int64_t cols = columnsOf(result.getType());
        cost += cols * (isa<HadamardOp>(op) ? 1 + llvm::Log2_64(cols) : 1);
      }
    return cost;
  }

  LogicalResult refuse(Operation *op, StringRef why) {
    reason = why;
    place = op;
    return failure();
  }

  //===--------------------------------------------------------------------===//
  // Halves
  //===--------------------------------------------------------------------===//

  /// The first of so many columns that are the warpgroup's.
  Value firstOf(int64_t cols) {
    Value &first = firsts[cols];
    if (!first) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(number);
      Location loc = role.getLoc();
      Value factor = arith::ConstantIndexOp::create(builder, loc, cols);
      first = arith::MulIOp::create(builder, loc, number, factor);
    }
    return first;
  }

  Value partOfBuffer(Value buffer) {
    Value &part = parts[buffer];
    if (!part) {
      auto type = cast<BufferType>(buffer.getType());
      int64_t cols = type.getCols() / kGroups;
      Value first = firstOf(cols);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(first);
      part = PartOp::create(builder, buffer.getLoc(),
                            BufferType::get(type.getContext(), type.getSpace(),
                                            type.getLayout(), type.getSlots(),
                                            type.getRows(), cols,
                                            type.getElementType()),
                            buffer, first);
    }
    return part;
  }

  void halve(Operation *op) {
    builder.setInsertionPoint(op);
    int64_t half = 0;
    for (OpOperand &operand : op->getOpOperands())
      if (Operation *source = operand.get().getDefiningOp();
          source && isWide(operand.get()) && isRepeatable(source)) {
        repeated.insert(source);
        half = columnsOf(operand.get().getType()) / kGroups;
        operand.set(repeat(source, half));
      }
    for (Value result : op->getResults()) {
      half = columnsOf(result.getType()) / kGroups;
      result.setType(partOf(result.getType(), half));
    }
    if (auto read = dyn_cast<ReadOp>(op))
      read.getBufferMutable().set(partOfBuffer(read.getBuffer()));
    else if (auto write = dyn_cast<WriteOp>(op))
      write.getBufferMutable().set(partOfBuffer(write.getBuffer()));
    else if (auto write = dyn_cast<WriteScalesOp>(op))
      write.getBufferMutable().set(partOfBuffer(write.getBuffer()));
    else if (auto load = dyn_cast<LoadOp>(op)) {
      OpOperand &last = load.getIndicesMutable()[load.getIndices().size() - 1];
      last.set(shifted(last.get(), half));
    } else if (auto mask = dyn_cast<MaskOp>(op))
      mask.getColsMutable().set(shifted(mask.getCols(), half));
    else if (auto exp2 = dyn_cast<Exp2Op>(op))
      exp2.getColsMutable().set(shifted(exp2.getCols(), half));
  }

  Value shifted(Value cols, int64_t half) {
    return builder.createOrFold<arith::AddIOp>(role.getLoc(), cols,
                                               firstOf(half));
  }

  /// Fewer of the equal columns.
  Value repeat(Operation *source, int64_t cols) {
    Type type = partOf(source->getResult(0).getType(), cols);
    if (auto full = dyn_cast<FullOp>(source))
      return FullOp::create(builder, source->getLoc(), type, full.getValue());
    if (auto broadcast = dyn_cast<BroadcastOp>(source))
      return BroadcastOp::create(builder, source->getLoc(), type,
                                 broadcast.getSource());
    DenseElementsAttr splat;
    matchPattern(source, m_Constant(&splat));
    return arith::ConstantOp::create(
        builder, source->getLoc(),
        DenseElementsAttr::get(cast<ShapedType>(type),
                               splat.getSplatValue<Attribute>()));
  }

  /// Lets one warpgroup do all of the component.
  void giveTo(Component &component) {
    Operation *last = component.ops.back();
    Location loc = last->getLoc();
    builder.setInsertionPointAfter(last);
    Value mine = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, number,
        arith::ConstantIndexOp::create(builder, loc, component.group));
    auto branch =
        scf::IfOp::create(builder, loc, mine, /*withElseRegion=*/false);
    for (Operation *op : component.ops)
      op->moveBefore(branch.thenYield());
  }

  /// Twice as many warps signal.
  void countArrivals() {
    llvm::SetVector<Operation *> published, released;
    role.walk([&](Operation *op) {
      if (auto publish = dyn_cast<PublishOp>(op))
        published.insert(publish.getChannel().getDefiningOp());
      else if (auto release = dyn_cast<ReleaseOp>(op))
        released.insert(release.getChannel().getDefiningOp());
    });
    int64_t more = (kGroups - 1) * kGroupWarps;
    for (Operation *op : published)
      cast<ChannelOp>(op).setFull(cast<ChannelOp>(op).getFull() + more);
    for (Operation *op : released)
      cast<ChannelOp>(op).setEmpty(cast<ChannelOp>(op).getEmpty() + more);
  }

  RoleOp role;
  OpBuilder builder;
  std::vector<Component> components;
  StringRef reason;
  Operation *place = nullptr;
  Value number;
  llvm::DenseMap<int64_t, Value> firsts;
  llvm::DenseMap<Value, Value> parts;
  llvm::SetVector<Operation *> repeated;
};

struct ShareColumnsPass
    : public flamia::impl::ShareColumnsPassBase<ShareColumnsPass> {
  using ShareColumnsPassBase::ShareColumnsPassBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    RoleOp role = vectorRole(kernel);
    if (!role)
      return;
    Sharing sharing(role);
    if (failed(sharing.plan())) {
      if (!sharing.getReason().empty())
        sharing.getPlace()->emitRemark("one warpgroup does all vector code: '")
            << sharing.getPlace()->getName() << "' " << sharing.getReason();
      return;
    }
    std::string reason;
    if (!fits(kernel, reason)) {
      kernel.emitRemark("one warpgroup does all vector code: with two, the "
                        "kernel ")
          << reason;
      return;
    }
    sharing.apply();
  }

  /// The only role with vector code, if products are another's.
  static RoleOp vectorRole(KernelOp kernel) {
    RoleOp found;
    bool hasProducts = false;
    for (RoleOp role : kernel.getOps<RoleOp>()) {
      bool issues = role.walk([](MmaOp) { return WalkResult::interrupt(); })
                        .wasInterrupted();
      hasProducts |= issues;
      if (role.getWarps() < kGroupWarps)
        continue;
      if (found || issues || role.getWarps() > kGroupWarps)
        return {};
      found = role;
    }
    return hasProducts ? found : RoleOp();
  }

  /// Warpgroups run apart, so fewer buffers can share space.
  bool fits(KernelOp kernel, std::string &reason) {
    Trial trial(kernel);
    Sharing sharing(vectorRole(trial.get()));
    if (failed(sharing.plan()))
      return false;
    sharing.apply();
    LogicalResult fits = trial.run([](OpPassManager &rest) {
      rest.addPass(createSplitColumnsPass());
      rest.addPass(createAllocateMemoryPass());
    });
    reason = trial.getReason().str();
    return succeeded(fits);
  }
};

} // namespace
