//===- Segments.cpp - Vector code that needs too many registers -----------===//

#include "passes/Columns/Segments.h"
#include "passes/Staging.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

int64_t flamia::columnsOf(Type type) {
  return isTile(type) ? getTileShape(type).second : 0;
}

Type flamia::partOf(Type type, int64_t cols) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return ScaledType::get(type.getContext(), scaled.getRows(), cols,
                           scaled.getElementType(), scaled.getScaleType(),
                           scaled.getBlockRows(), scaled.getBlockCols());
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get({tensor.getDimSize(0), cols},
                               tensor.getElementType());
}

/// The value that registers hold: a broadcast or splat takes none of its own,
/// nor does a row vector along columns, of which each thread stores its
/// element.
static Value heldValue(Value value) {
  for (;;) {
    if (auto broadcast = value.getDefiningOp<BroadcastOp>())
      value = broadcast.getSource();
    else if (auto transpose = value.getDefiningOp<TransposeOp>();
             transpose && columnsOf(transpose.getSource().getType()) == 1)
      value = transpose.getSource();
    else
      return value;
  }
}

static bool isSplat(Value value) {
  DenseElementsAttr elements;
  return value.getDefiningOp<FullOp>() ||
         (matchPattern(value, m_Constant(&elements)) && elements.isSplat());
}

/// Whether no more than a few columns of the value are ever in registers at
/// once: products that are made where they are rounded, and payloads that are
/// unpacked where columns of them are used.
static bool isMadeInParts(Value value) {
  if (value.getDefiningOp<PayloadOp>())
    return llvm::all_of(value.getUsers(), llvm::IsaPred<SliceOp>);
  return value.hasOneUse() &&
         llvm::any_of(value.getUsers(), [](Operation *user) {
           if (auto join = dyn_cast<JoinOp>(user))
             return isMadeInParts(join.getResult());
           auto quantize = dyn_cast<QuantizeOp>(user);
           return quantize && multipliesWhereRounded(quantize);
         });
}

/// 32-bit registers of a thread that the value takes.
static int64_t registersOf(Value value) {
  Type type = value.getType();
  if (!isTile(type) || isSplat(value) || isMadeInParts(value))
    return 0;
  int64_t cols = columnsOf(type);
  if (cols == 1)
    return 1;
  auto scaled = dyn_cast<ScaledType>(type);
  Type element = scaled ? scaled.getElementType()
                        : cast<RankedTensorType>(type).getElementType();
  int64_t bits = element.getIntOrFloatBitWidth();
  int64_t words = bits >= 4 ? cols * bits / 32 : cols;
  if (!scaled)
    return words;
  auto quantize = value.getDefiningOp<QuantizeOp>();
  bool isDeferred = quantize && roundsWhereStored(quantize);
  int64_t scales = cols / scaled.getBlockCols();
  return (isDeferred ? 0 : words) +
         (bits < 8 ? llvm::divideCeil(scales, 4) : scales);
}

Value flamia::splitValue(Operation *op) {
  if (auto write = dyn_cast<WriteOp>(op))
    return write.getValue();
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce ? Value(reduce.getSource()) : op->getResult(0);
}

bool flamia::isSplittable(Operation *op) {
  if (op->getNumResults() != 1 && !isa<WriteOp>(op))
    return false;
  int64_t cols = columnsOf(splitValue(op).getType());
  if (cols <= kChunk || cols % kChunk != 0)
    return false;
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return !roundsWhereStored(quantize) &&
           kChunk % quantize.getType().getBlockCols() == 0;
  if (isa<ReduceOp, WriteOp, ReadOp, LoadOp, MaskOp, Exp2Op>(op))
    return true;
  return OpTrait::hasElementwiseMappableTraits(op) &&
         llvm::all_of(op->getOperandTypes(), [&](Type operand) {
           return !isTile(operand) ||
                  (columnsOf(operand) == cols && isa<TensorType>(operand));
         });
}

//===----------------------------------------------------------------------===//
// Where registers are short
//===----------------------------------------------------------------------===//

/// The first operation of the value's block that needs it in registers.
static Operation *firstUse(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    auto broadcast = dyn_cast<BroadcastOp>(user);
    Operation *at = broadcast ? firstUse(broadcast.getResult()) : user;
    if (at)
      at = value.getParentBlock()->findAncestorOpInBlock(*at);
    if (at && (!first || at->isBeforeInBlock(first)))
      first = at;
  }
  return first;
}

bool flamia::isLineRead(Operation *op) {
  auto read = dyn_cast<ReadOp>(op);
  return read && read.getBuffer().getType().getLayout() == Layout::Line;
}

/// The release of what a line's read reads.
static ReleaseOp releaseOf(ReadOp read) {
  for (Operation *user : read.getSlot().getUsers())
    if (auto release = dyn_cast<ReleaseOp>(user);
        release && release->getBlock() == read->getBlock())
      return release;
  return {};
}

void flamia::sinkLines(RoleOp role) {
  SmallVector<Operation *> lines;
  role.walk([&](Operation *op) {
    if (op->getNumResults() == 1 && op->getNumRegions() == 0 &&
        op->getNumOperands() > 0 && !isa<FullOp>(op) &&
        columnsOf(op->getResult(0).getType()) > kChunk &&
        getTileShape(op->getResult(0).getType()).first == 1 &&
        (isa<LoadOp>(op) || isLineRead(op) || isMemoryEffectFree(op)))
      lines.push_back(op);
  });
  // Users first: what they use follows them.
  for (Operation *op : llvm::reverse(lines)) {
    Operation *use = firstUse(op->getResult(0));
    if (!use)
      continue;
    // What follows a load may store to the same tensor.
    bool stored = false;
    for (Operation *at = op->getNextNode(); at != use; at = at->getNextNode())
      at->walk([&](Operation *inner) {
        stored |= isa<StoreOp, StorePayloadOp, StoreScalesOp, StoreExponentsOp>(
            inner);
      });
    if (stored && isa<LoadOp>(op))
      continue;
    op->moveBefore(use);
    if (isLineRead(op))
      if (ReleaseOp release = releaseOf(cast<ReadOp>(op));
          release && release->isBeforeInBlock(op))
        release->moveAfter(op);
    for (Operation *user : op->getResult(0).getUsers())
      if (isa<BroadcastOp>(user) && user->getBlock() == op->getBlock())
        user->moveAfter(op);
  }
}

namespace {

class Planner {
public:
  Planner(RoleOp role, int64_t limit, bool writesEarly)
      : role(role), limit(limit), writesEarly(writesEarly) {}

  /// The segments that need more registers than there are.
  SmallVector<Segment> plan() {
    SmallVector<Segment> segments;
    role.walk([&](Block *block) { planBlock(*block, segments); });
    return segments;
  }

  /// The most registers that tiles take at any point.
  int64_t most() {
    int64_t registers = 0;
    countsSteps = false;
    role.walk([&](Block *block) {
      countBlock(*block);
      for (Operation &op : *block)
        registers = std::max({registers, before[&op], after[&op]});
    });
    return registers;
  }

private:
  using Live = llvm::DenseSet<Value>;

  static void addUse(Live &live, Value value) {
    if (isTile(value.getType()))
      live.insert(heldValue(value));
    if (auto quantize = value.getDefiningOp<QuantizeOp>();
        quantize && roundsWhereStored(quantize))
      addUse(live, quantize.getSource());
    if (auto payload = value.getDefiningOp<PayloadOp>();
        payload && isMadeInParts(value))
      addUse(live, payload.getSource());
  }

  int64_t countRegisters(const Live &live) {
    int64_t registers = 0;
    for (Value value : live)
      if (countsSteps || columnsOf(value.getType()) == 1 ||
          columnsOf(value.getType()) > kStep)
        registers += registersOf(value);
    return registers;
  }

  /// Tiles from outside the block that live as long as it runs.
  Live liveThrough(Block &block) {
    Live live;
    for (Operation *parent = block.getParentOp(); parent != role;
         parent = parent->getParentOp()) {
      Block *outer = parent->getBlock();
      auto visit = [&](Value value) {
        if (!isTile(value.getType()))
          return;
        for (Operation *user : value.getUsers()) {
          Operation *at = outer->findAncestorOpInBlock(*user);
          bool again =
              at == parent && user != parent && isa<scf::ForOp>(parent);
          if (again || (at && parent->isBeforeInBlock(at)))
            addUse(live, value);
        }
      };
      llvm::for_each(outer->getArguments(), visit);
      for (Operation &op : *outer)
        if (op.isBeforeInBlock(parent))
          llvm::for_each(op.getResults(), visit);
    }
    return live;
  }

  /// Registers before and after each operation of the block.
  void countBlock(Block &block) {
    Live live = liveThrough(block);
    for (Operation &op : llvm::reverse(block)) {
      after[&op] = countRegisters(live);
      for (Value result : op.getResults())
        live.erase(result);
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (!op.isAncestor(operand.getParentBlock()->getParentOp()))
            addUse(live, operand);
      });
      before[&op] = countRegisters(live);
    }
  }

  void planBlock(Block &block, SmallVectorImpl<Segment> &segments) {
    countBlock(block);
    SmallVector<Segment> all(1);
    for (Operation &op : block) {
      Segment &segment = all.back();
      if (canMove(&op)) {
        segment.ops.push_back(&op);
        continue;
      }
      if (auto release = dyn_cast<ReleaseOp>(op);
          release && isReleaseOf(release, segment)) {
        segment.releases.push_back(release);
        continue;
      }
      if (isMemoryEffectFree(&op) && op.getNumRegions() == 0 &&
          !op.hasTrait<OpTrait::IsTerminator>())
        continue; // scalars stay where they are
      segment.end = &op;
      all.emplace_back();
    }
    all.pop_back();

    // What is carried to a segment that must not read all at once is split too.
    llvm::DenseSet<Operation *> carried;
    for (Segment &segment : llvm::reverse(all)) {
      int64_t most = 0, chunks = 0;
      bool isCarried = false;
      for (Operation *op : segment.ops) {
        most = std::max({most, before[op], after[op]});
        if (isa<ReadOp>(op) && !isLineRead(op))
          chunks += registersOf(op->getResult(0));
        else if (isa<ReadOp>(op))
          chunks += kChunk; // two steps of sixteen columns
        else if (isa<LoadOp>(op))
          chunks += 2 * std::min(kChunk, registersOf(op->getResult(0)));
        isCarried |= carried.contains(op);
      }
      if (most <= limit && !isCarried)
        continue;
      segment.isSplit = true;
      segment.readsFirst = before[segment.ops.front()] + chunks <= limit;
      if (!segment.readsFirst)
        for (Operation *op : segment.ops)
          for (Value operand : op->getOperands())
            if (registersOf(operand) > kChunk && operand.getDefiningOp())
              carried.insert(operand.getDefiningOp());
    }
    for (Segment &segment : all) {
      if (!segment.isSplit)
        continue;
      // A wait for nothing but a signal may stand before it.
      auto wait = dyn_cast<WaitOp>(segment.end);
      auto acquire = dyn_cast<AcquireOp>(
          wait && wait->use_empty() ? wait->getNextNode() : segment.end);
      if (acquire && (writesEarly || segment.readsFirst)) {
        Operation *first = segment.end;
        segment.end = addWrites(acquire, segment);
        if (segment.acquire)
          segment.acquire = first;
        else
          segment.end = first;
      }
      segments.push_back(segment);
    }
  }

  /// Adds the writes of the segment's tiles that follow; returns what follows
  /// them.
  static Operation *addWrites(AcquireOp acquire, Segment &segment) {
    Operation *op = acquire->getNextNode();
    for (;; op = op->getNextNode()) {
      auto write = dyn_cast<WriteOp>(op);
      if (!write || write.getSlot() != acquire.getSlot() ||
          !isSplittable(write) ||
          !llvm::is_contained(segment.ops, write.getValue().getDefiningOp()) ||
          !isSplittable(write.getValue().getDefiningOp()))
        break;
      segment.acquire = acquire;
      segment.ops.push_back(write);
    }
    return segment.acquire ? op : acquire.getOperation();
  }

  /// Tile code without effects. Loads read what the kernel never writes.
  static bool canMove(Operation *op) {
    if (isa<ReadOp, LoadOp>(op))
      return true;
    return isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
           !op->hasTrait<OpTrait::IsTerminator>() && op->getNumOperands() > 0 &&
           !isa<FullOp>(op) && llvm::any_of(op->getResultTypes(), isTile);
  }

  static bool isReleaseOf(ReleaseOp release, const Segment &segment) {
    return llvm::any_of(segment.ops, [&](Operation *op) {
      auto read = dyn_cast<ReadOp>(op);
      return read && read.getSlot() == release.getSlot();
    });
  }

  RoleOp role;
  int64_t limit;
  bool writesEarly;
  /// Whether steps of a few columns count. ptxas makes them element by element.
  bool countsSteps = true;
  llvm::DenseMap<Operation *, int64_t> before, after;
};

} // namespace

int64_t flamia::mostTileRegisters(RoleOp role) {
  return Planner(role, 0, false).most();
}

SmallVector<Segment> flamia::planSegments(RoleOp role, int64_t limit,
                                          bool writesEarly) {
  return Planner(role, limit, writesEarly).plan();
}
