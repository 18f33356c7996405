//===- SplitColumns.cpp - Vector code in chunks of columns ----------------===//
//
// One thread holds one row of every tile, so two tiles of 128 columns that are
// live at once fill its registers. Where they would, straight-line vector code
// between two steps of a channel is written chunk by chunk: 32 columns are read
// from their buffer, and everything up to the row's end or a value that needs
// whole rows is computed of them before the next 32 are read.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tcgen/Tcgen.h"
#include "passes/Passes.h"
#include "passes/Roles/ChannelRun.h"
#include "passes/Roles/TileUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

#include <map>

namespace flamia {
#define GEN_PASS_DEF_SPLITCOLUMNSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace {

/// Columns of a chunk: a scale block of operands, and one tensor memory load.
constexpr int64_t kChunk = 32;
/// Columns that arithmetic between reads and writes takes at a time.
constexpr int64_t kStep = 16;
/// Partial sums of flamia.reduce.
constexpr int64_t kPartialSums = 8;

int64_t columnsOf(Type type) {
  return isTile(type) ? getTileShape(type).second : 0;
}

/// The value that registers hold: a broadcast or splat takes none of its own.
Value heldValue(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getSource();
  return value;
}

bool isSplat(Value value) {
  DenseElementsAttr elements;
  return value.getDefiningOp<FullOp>() ||
         (matchPattern(value, m_Constant(&elements)) && elements.isSplat());
}

/// 32-bit registers of a thread that the value takes.
int64_t registersOf(Value value) {
  Type type = value.getType();
  if (!isTile(type) || isSplat(value))
    return 0;
  int64_t cols = columnsOf(type);
  if (cols == 1)
    return 1;
  auto scaled = dyn_cast<ScaledType>(type);
  Type element = scaled ? scaled.getElementType()
                        : cast<RankedTensorType>(type).getElementType();
  int64_t bits = element.getIntOrFloatBitWidth();
  int64_t words = bits >= 8 ? cols * bits / 32 : cols;
  return scaled ? words + cols / scaled.getBlockCols() : words;
}

/// The type of some columns of a tile.
Type partOf(Type type, int64_t cols) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return ScaledType::get(type.getContext(), scaled.getRows(), cols,
                           scaled.getElementType(), scaled.getScaleType(),
                           scaled.getBlockRows(), scaled.getBlockCols());
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get({tensor.getDimSize(0), cols},
                               tensor.getElementType());
}

/// The tile whose columns are split: what is made, reduced or written.
Value splitValue(Operation *op) {
  if (auto write = dyn_cast<WriteOp>(op))
    return write.getValue();
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce ? Value(reduce.getSource()) : op->getResult(0);
}

/// Whether each chunk of the result needs the same chunk of the operands only,
/// or the operation is a reduction that takes chunks in turn.
bool isSplittable(Operation *op) {
  if (op->getNumResults() != 1 && !isa<WriteOp>(op))
    return false;
  int64_t cols = columnsOf(splitValue(op).getType());
  if (cols <= kChunk || cols % kChunk != 0)
    return false;
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return kChunk % quantize.getType().getBlockCols() == 0;
  if (isa<ReduceOp, WriteOp, ReadOp, LoadOp, MaskOp>(op))
    return true;
  return OpTrait::hasElementwiseMappableTraits(op) &&
         llvm::all_of(op->getOperandTypes(), [&](Type operand) {
           return !isTile(operand) ||
                  (columnsOf(operand) == cols && isa<TensorType>(operand));
         });
}

/// Straight-line tile code between two steps of channels.
struct Segment {
  SmallVector<Operation *> ops;
  SmallVector<ReleaseOp> releases;
  /// Writes what is computed, chunk by chunk, into a slot acquired before.
  AcquireOp acquire;
  /// What follows it.
  Operation *end = nullptr;
  bool isSplit = false;
  /// All reads fit into registers at once; what they read is released early.
  bool readsFirst = false;
};

//===----------------------------------------------------------------------===//
// Where registers are short
//===----------------------------------------------------------------------===//

/// The first operation of the value's block that needs it in registers.
Operation *firstUse(Value value) {
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

/// Moves loads of column vectors to where they are used.
void sinkLoads(RoleOp role) {
  SmallVector<LoadOp> loads;
  role.walk([&](LoadOp load) {
    if (columnsOf(load.getType()) > kChunk)
      loads.push_back(load);
  });
  for (LoadOp load : loads) {
    Operation *use = firstUse(load.getResult());
    if (!use)
      continue;
    // What follows may store to the same tensor.
    bool stored = false;
    for (Operation *op = load->getNextNode(); op != use; op = op->getNextNode())
      op->walk([&](Operation *inner) {
        stored |= isa<StoreOp, StorePayloadOp, StoreScalesOp>(inner);
      });
    if (stored)
      continue;
    load->moveBefore(use);
    for (Operation *user : load->getUsers())
      if (isa<BroadcastOp>(user) && user->getBlock() == load->getBlock())
        user->moveAfter(load);
  }
}

class Planner {
public:
  /// `writesEarly`: a slot may be acquired for what is computed before what it
  /// is computed from is released.
  Planner(RoleOp role, int64_t limit, bool writesEarly)
      : role(role), limit(limit), writesEarly(writesEarly) {}

  /// The segments that need more registers than there are.
  SmallVector<Segment> plan() {
    SmallVector<Segment> segments;
    role.walk([&](Block *block) { planBlock(*block, segments); });
    return segments;
  }

private:
  using Live = llvm::DenseSet<Value>;

  static void addUse(Live &live, Value value) {
    if (isTile(value.getType()))
      live.insert(heldValue(value));
  }

  int64_t countRegisters(const Live &live) {
    int64_t registers = 0;
    for (Value value : live)
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

  void planBlock(Block &block, SmallVectorImpl<Segment> &segments) {
    // Registers before and after each operation.
    Live live = liveThrough(block);
    llvm::DenseMap<Operation *, int64_t> before, after;
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
        if (isa<ReadOp>(op))
          chunks += registersOf(op->getResult(0));
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
      if (auto acquire = dyn_cast<AcquireOp>(segment.end);
          acquire && (writesEarly || segment.readsFirst))
        segment.end = addWrites(acquire, segment);
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
};

//===----------------------------------------------------------------------===//
// Writing a segment chunk by chunk
//===----------------------------------------------------------------------===//

class Writer {
public:
  /// Adds to `carried` the tiles in parts that earlier segments leave in
  /// registers while this one reads what the registers cannot hold besides.
  Writer(Segment &segment, llvm::SetVector<JoinOp> &carried)
      : segment(segment), carried(carried), place(segment.end), builder(place),
        loc(place->getLoc()) {
    inSegment.insert(segment.ops.begin(), segment.ops.end());
  }

  void run() {
    findLevels();
    if (segment.readsFirst) {
      if (segment.acquire)
        setPlace(segment.acquire);
      for (Operation *op : segment.ops)
        if (isa<ReadOp>(op))
          emitWhole(op);
      setPlace(segment.end);
    }
    for (unsigned level = 0; level <= lastLevel; ++level) {
      SmallVector<Operation *> splitOps;
      int64_t cols = 0;
      for (Operation *op : segment.ops) {
        if (levels[op] != level || moved.contains(op))
          continue;
        if (isSplittable(op)) {
          splitOps.push_back(op);
          cols = std::max(cols, columnsOf(splitValue(op).getType()));
        } else {
          emitWhole(op);
        }
      }
      for (int64_t first = 0; first < cols; first += kStep)
        for (Operation *op : splitOps)
          emitStep(op, first);
      for (Operation *op : splitOps)
        if (auto reduce = dyn_cast<ReduceOp>(op))
          finishReduction(reduce);
    }
    eraseOriginals();
  }

private:
  void setPlace(Operation *op) {
    place = op;
    builder.setInsertionPoint(op);
  }

  /// Columns that one copy of the operation works on.
  static int64_t widthOf(Operation *op) {
    return isa<ReadOp, QuantizeOp, WriteOp>(op) ? kChunk : kStep;
  }

  /// Chunks of one level need nothing but chunks of that level and what was
  /// completed before.
  void findLevels() {
    for (Operation *op : segment.ops) {
      unsigned level = 0;
      for (Value operand : op->getOperands()) {
        Operation *source = operand.getDefiningOp();
        auto known = levels.find(source);
        if (known == levels.end())
          continue;
        bool inStep = isChunkwise(op) && isChunkwise(source);
        bool isWhole = !isSplittable(source) && !isChunkwise(source);
        level = std::max(level, known->second + !(inStep || isWhole));
      }
      levels[op] = level;
      lastLevel = std::max(lastLevel, level);
    }
  }

  /// Whether chunks of the operation can be made as those of its operands are.
  bool isChunkwise(Operation *op) {
    return (isSplittable(op) && !isa<ReduceOp>(op)) || isRepeated(op);
  }

  /// A broadcast of which every chunk that needs it has a copy.
  bool isRepeated(Operation *op) {
    return isa<BroadcastOp>(op) &&
           llvm::all_of(op->getUsers(), [&](Operation *user) {
             return inSegment.contains(user) && isSplittable(user);
           });
  }

  //===--------------------------------------------------------------------===//
  // Chunks
  //===--------------------------------------------------------------------===//

  /// Whether the value is made in parts here.
  bool isSplit(Value value) {
    Operation *op = value.getDefiningOp();
    return op && inSegment.contains(op) && !moved.contains(op) &&
           isSplittable(op) && !isa<ReduceOp>(op);
  }

  Value columns(Value value, int64_t first, int64_t cols) {
    Value &known = pieces[{value.getAsOpaquePointer(), first, cols}];
    if (!known) {
      // The map may grow meanwhile.
      Value made = makeColumns(value, first, cols);
      pieces[{value.getAsOpaquePointer(), first, cols}] = made;
      return made;
    }
    return known;
  }

  Value makeColumns(Value value, int64_t first, int64_t cols) {
    Type type = partOf(value.getType(), cols);
    Operation *op = value.getDefiningOp();
    if (isSplit(value))
      return fromParts(parts[value], type, first);
    if (auto join = dyn_cast_or_null<JoinOp>(op)) {
      if (!segment.readsFirst)
        carried.insert(join);
      return fromParts(llvm::to_vector(join.getSources()), type, first);
    }
    if (auto full = dyn_cast_or_null<FullOp>(op))
      return FullOp::create(builder, loc, type, full.getValue());
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
      Value source = broadcast.getSource();
      if (columnsOf(source.getType()) == columnsOf(value.getType()))
        source = columns(source, first, cols);
      return BroadcastOp::create(builder, loc, type, source);
    }
    if (DenseElementsAttr splat;
        matchPattern(value, m_Constant(&splat)) && splat.isSplat())
      return arith::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(cast<ShapedType>(type),
                                 splat.getSplatValue<Attribute>()));
    return slice(value, type, first);
  }

  Value slice(Value value, Type type, int64_t first) {
    if (value.getType() == type)
      return value;
    return SliceOp::create(builder, loc, type, value,
                           builder.getI64IntegerAttr(first));
  }

  /// Columns from parts of equal width, which divides `first` or is a multiple
  /// of the columns.
  Value fromParts(ArrayRef<Value> all, Type type, int64_t first) {
    int64_t width = columnsOf(all.front().getType()), cols = columnsOf(type);
    if (cols <= width)
      return slice(all[first / width], type, first % width);
    return JoinOp::create(builder, loc, type,
                          ValueRange(all.slice(first / width, cols / width)));
  }

  Value columnAt(Value first, int64_t offset) {
    Value value = arith::ConstantIndexOp::create(builder, loc, offset);
    return builder.createOrFold<arith::AddIOp>(loc, first, value);
  }

  /// What can be made of the operation when all comes `first + kStep` columns
  /// far. Reads come before those columns, all else behind them.
  void emitStep(Operation *op, int64_t first) {
    int64_t width = widthOf(op);
    if (first >= columnsOf(splitValue(op).getType()))
      return;
    if (isa<ReadOp>(op)) {
      if (first % width == 0)
        emitPart(op, first, width);
    } else if ((first + kStep) % width == 0) {
      emitPart(op, first + kStep - width, width);
    }
  }

  void emitPart(Operation *op, int64_t first, int64_t width) {
    loc = op->getLoc();
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return emitReduction(reduce, first, width);
    int64_t cols = columnsOf(splitValue(op).getType());
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (columnsOf(operand.getType()) == cols)
        mapping.map(operand, columns(operand, first, width));
    Operation *clone = builder.clone(*op, mapping);
    if (auto write = dyn_cast<WriteOp>(clone)) {
      write.setCol(first);
      return;
    }
    clone->getResult(0).setType(partOf(op->getResult(0).getType(), width));
    builder.setInsertionPoint(clone);
    if (auto read = dyn_cast<ReadOp>(clone)) {
      read.setCol(first);
    } else if (auto load = dyn_cast<LoadOp>(clone)) {
      OpOperand &last = load.getIndicesMutable()[load.getIndices().size() - 1];
      last.set(columnAt(last.get(), first));
    } else if (auto mask = dyn_cast<MaskOp>(clone)) {
      mask.getColsMutable().assign(columnAt(mask.getCols(), first));
    }
    builder.setInsertionPoint(place);
    parts[op->getResult(0)].push_back(clone->getResult(0));
    if (isa<ReadOp>(op) && first + width == cols)
      emitReleases();
  }

  /// Behind the last read of what they release.
  void emitReleases() {
    for (ReleaseOp &release : segment.releases)
      if (release && llvm::none_of(segment.ops, [&](Operation *op) {
            auto read = dyn_cast<ReadOp>(op);
            return read && read.getSlot() == release.getSlot() && !isRead(read);
          })) {
        release->moveBefore(place);
        release = {};
      }
  }

  bool isRead(ReadOp read) {
    int64_t cols = columnsOf(read.getType());
    return moved.contains(read) ||
           int64_t(parts[read.getResult()].size()) * widthOf(read) == cols;
  }

  //===--------------------------------------------------------------------===//
  // Reductions
  //===--------------------------------------------------------------------===//

  /// Maxima part by part; sums in eight columns as flamia.reduce adds them.
  void emitReduction(ReduceOp op, int64_t first, int64_t width) {
    Value part = columns(op.getSource(), first, width);
    Value &total = totals[op];
    if (op.getKind() != ReduceKind::Sum) {
      Value top =
          ReduceOp::create(builder, loc, op.getType(), op.getKind(), part);
      total = total ? arith::MaxNumFOp::create(builder, loc, total, top) : top;
      return;
    }
    Type type = partOf(part.getType(), kPartialSums);
    for (int64_t col = 0; col < width; col += kPartialSums) {
      Value next = slice(part, type, col);
      total = total ? arith::AddFOp::create(builder, loc, total, next) : next;
    }
  }

  void finishReduction(ReduceOp op) {
    loc = op.getLoc();
    Value total = totals[op];
    if (op.getKind() == ReduceKind::Sum)
      total =
          ReduceOp::create(builder, loc, op.getType(), ReduceKind::Sum, total);
    op.getResult().replaceAllUsesWith(total);
  }

  //===--------------------------------------------------------------------===//
  // Whole rows
  //===--------------------------------------------------------------------===//

  Value wholeOf(Value value) {
    return isSplit(value) ? columns(value, 0, columnsOf(value.getType()))
                          : value;
  }

  void emitWhole(Operation *op) {
    loc = op->getLoc();
    if (isRepeated(op))
      return;
    for (OpOperand &operand : op->getOpOperands())
      operand.set(wholeOf(operand.get()));
    op->moveBefore(place);
    moved.insert(op);
    if (isa<ReadOp>(op))
      emitReleases();
  }

  /// Later code finds the chunks joined.
  void eraseOriginals() {
    for (Operation *op : llvm::reverse(segment.ops)) {
      if (moved.contains(op))
        continue;
      for (Value value : op->getResults())
        if (!value.use_empty())
          value.replaceAllUsesWith(wholeOf(value));
      op->erase();
    }
  }

  Segment &segment;
  llvm::SetVector<JoinOp> &carried;
  /// Where code is written.
  Operation *place;
  OpBuilder builder;
  Location loc;
  llvm::DenseMap<Operation *, unsigned> levels;
  unsigned lastLevel = 0;
  llvm::DenseMap<Value, SmallVector<Value>> parts;
  /// By value, first column and columns.
  std::map<std::tuple<void *, int64_t, int64_t>, Value> pieces;
  llvm::DenseMap<Operation *, Value> totals;
  llvm::DenseSet<Operation *> inSegment, moved;
};

//===----------------------------------------------------------------------===//
// Tiles carried in tensor memory
//===----------------------------------------------------------------------===//

/// Keeps the last quarter of a carried tile's columns in tensor memory between
/// its making and the later code that uses it: one tile of 128 columns of f32
/// and the chunks that are read beside it are more than registers hold.
void carryInTensorMemory(KernelOp kernel, JoinOp join) {
  auto type = cast<RankedTensorType>(join.getResult().getType());
  int64_t width = columnsOf(join.getSources().front().getType());
  OperandRange parts =
      join.getSources().drop_front(join.getNumOperands() / 4 * 3);
  if (type.getDimSize(0) != 128 || parts.empty() ||
      width * type.getElementTypeBitWidth() % 32 != 0)
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Location loc = join.getLoc();
  auto buffer = AllocOp::create(
      builder, loc,
      BufferType::get(builder.getContext(), Space::Tmem, Layout::Lanes, 1, 128,
                      width * static_cast<int64_t>(parts.size()),
                      type.getElementType()),
      IntegerAttr());
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  for (auto [index, part] : llvm::enumerate(llvm::to_vector(parts))) {
    int64_t col = width * static_cast<int64_t>(index);
    // Uses behind the join are those of later segments.
    Operation *first = nullptr;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : part.getUses()) {
      Operation *at = join->getBlock()->findAncestorOpInBlock(*use.getOwner());
      if (!at || !join->isBeforeInBlock(at))
        continue;
      uses.push_back(&use);
      if (!first || at->isBeforeInBlock(first))
        first = at;
    }
    if (!first)
      continue;
    builder.setInsertionPointAfterValue(part);
    WriteOp::create(builder, loc, part, buffer, zero, col);
    builder.setInsertionPoint(first);
    Value back =
        ReadOp::create(builder, loc, part.getType(), buffer, zero, col);
    for (OpOperand *use : uses)
      use->set(back);
  }
}

struct SplitColumnsPass
    : public flamia::impl::SplitColumnsPassBase<SplitColumnsPass> {
  using SplitColumnsPassBase::SplitColumnsPassBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    if (llvm::none_of(kernel.getOps<RoleOp>(), [&](RoleOp role) {
          return !Planner(role, maxRegisters, false).plan().empty();
        }))
      return;
    // Early writes keep fewer values. Whether the roles still meet is tried.
    OwningOpRef<KernelOp> trial = kernel.clone();
    split(*trial, /*writesEarly=*/true);
    ScopedDiagnosticHandler handler(&getContext(),
                                    [](Diagnostic &) { return success(); });
    bool meets = succeeded(ChannelRun::create(*trial));
    split(kernel, meets);
  }

  void split(KernelOp kernel, bool writesEarly) {
    for (RoleOp role : kernel.getOps<RoleOp>()) {
      if (role.getWarps() != 4)
        continue;
      sinkLoads(role);
      llvm::SetVector<JoinOp> carried;
      for (Segment &segment : Planner(role, maxRegisters, writesEarly).plan())
        Writer(segment, carried).run();
      for (JoinOp join : carried) {
        // Whole uses need all registers anyway.
        if (join->use_empty()) {
          carryInTensorMemory(kernel, join);
          join.erase();
        }
      }
    }
  }
};

} // namespace
