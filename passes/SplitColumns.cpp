//===- SplitColumns.cpp - Vector code in chunks of columns ----------------===//
//
// Where registers are short, a segment of vector code is written chunk by
// chunk: 32 columns are read from their buffer, and everything up to the row's
// end or a value that needs whole rows is computed of them before the next 32
// are read.
//
//===----------------------------------------------------------------------===//

#include "passes/Columns/Segments.h"
#include "passes/Passes.h"
#include "passes/Roles/ChannelRun.h"
#include "passes/Trial.h"

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

/// Registers for tiles where two roles have vector code, so that a thread has
/// 224, or where a branch works on tiles: ptxas moves nothing over it.
constexpr int64_t kFewRegisters = 160;
/// Where two warpgroups share the columns of one role: 224, and no value waits
/// in tensor memory.
constexpr int64_t kSharedRegisters = 176;
/// Where the kernel only moves and changes tiles, so that the fewer registers,
/// the more CTAs share an SM.
constexpr int64_t kStreamingRegisters = 96;
/// Partial sums of flamia.reduce.
constexpr int64_t kPartialSums = 8;

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
        if (isa<ReadOp>(op) && !isLineRead(op))
          emitWhole(op);
      setPlace(segment.end);
    }
    for (unsigned level = 0; level <= lastLevel; ++level) {
      pieces.clear();
      SmallVector<Operation *> splitOps;
      int64_t cols = 0;
      for (Operation *op : segment.ops) {
        if (levels[op] != level || moved.contains(op) || isRepeated(op))
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

  /// Columns that one copy of the operation works on. What is computed of a
  /// chunk that comes at once comes at once too.
  int64_t widthOf(Operation *op) {
    auto known = widths.find(op);
    if (known != widths.end())
      return known->second;
    bool isWide =
        isa<ReadOp, QuantizeOp, WriteOp, Exp2Op>(op) && !isLineRead(op);
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp();
          source && inSegment.contains(source) && !isa<ReadOp>(source))
        isWide |= columnsOf(operand.getType()) > 1 && widthOf(source) == kChunk;
    return widths[op] = isWide ? kChunk : kStep;
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
        bool inStep =
            (isSplittable(op) || isRepeated(op)) && isChunkwise(source);
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

  /// A broadcast of which every chunk that needs it has a copy; or an extension
  /// of 16-bit values, whose copies need not live from one level or segment to
  /// the next.
  bool isRepeated(Operation *op) {
    if (isa<arith::ExtFOp>(op))
      return isSplittable(op) &&
             llvm::all_of(op->getUsers(), [&](Operation *user) {
               return !inSegment.contains(user) || isSplittable(user);
             });
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
           isSplittable(op) && !isa<ReduceOp>(op) && !isRepeated(op);
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
    if (auto extend = dyn_cast_or_null<arith::ExtFOp>(op);
        extend && (!inSegment.contains(op) || isRepeated(op)))
      return arith::ExtFOp::create(builder, loc, type,
                                   columns(extend.getIn(), first, cols));
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
    } else if (auto exp2 = dyn_cast<Exp2Op>(clone)) {
      exp2.getColsMutable().assign(columnAt(exp2.getCols(), first));
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
      if (isRepeated(op) && !op->use_empty()) {
        // Later segments may repeat it too.
        op->setOperand(0, wholeOf(op->getOperand(0)));
        op->moveBefore(place);
        continue;
      }
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
  llvm::DenseMap<Operation *, int64_t> widths;
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

/// Moves reductions, and extensions that only they need, to right behind what
/// they reduce. In one segment with it they take its chunks in turn.
void hoistReductions(RoleOp role) {
  SmallVector<ReduceOp> reductions;
  role.walk([&](ReduceOp op) { reductions.push_back(op); });
  for (ReduceOp reduce : llvm::reverse(reductions)) {
    Operation *source = reduce.getSource().getDefiningOp();
    if (!source || source->getBlock() != reduce->getBlock())
      continue;
    reduce->moveAfter(source);
    Operation *narrow = isa<arith::ExtFOp>(source)
                            ? source->getOperand(0).getDefiningOp()
                            : nullptr;
    if (narrow && narrow->getBlock() == source->getBlock() &&
        llvm::all_of(source->getUsers(), llvm::IsaPred<ReduceOp>)) {
      source->moveAfter(narrow);
      for (Operation *user : llvm::make_early_inc_range(source->getUsers()))
        user->moveAfter(source);
    }
  }
}

bool usesTmem(KernelOp kernel) {
  return llvm::any_of(kernel.getOps<AllocOp>(), [](AllocOp alloc) {
    return alloc.getType().getSpace() == Space::Tmem;
  });
}

struct SplitColumnsPass
    : public flamia::impl::SplitColumnsPassBase<SplitColumnsPass> {
  using SplitColumnsPassBase::SplitColumnsPassBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    if (maxRegisters < 1) {
      kernel.emitError("flamia-split-columns: expected max-registers >= 1, but "
                       "got ")
          << maxRegisters.getValue();
      return signalPassFailure();
    }
    int64_t vectorRoles =
        llvm::count_if(kernel.getOps<RoleOp>(), [](RoleOp role) {
          return role.getWarps() >= kGroupWarps;
        });
    bool branches =
        kernel.walk([](AnyDiffersOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
    limit = maxRegisters;
    if (llvm::any_of(kernel.getOps<RoleOp>(),
                     [](RoleOp role) { return role.getWarps() > kGroupWarps; }))
      limit = std::min(limit, kSharedRegisters);
    hasTmem = usesTmem(kernel);
    // A rotation needs whole rows anyway.
    bool streams =
        !hasTmem &&
        !kernel.walk([](HadamardOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
    if (streams)
      limit = std::min(limit, kStreamingRegisters);
    if (vectorRoles > 1 || branches) {
      limit = std::min(limit, kFewRegisters);
      for (RoleOp role : kernel.getOps<RoleOp>())
        hoistReductions(role);
    }
    if (llvm::none_of(kernel.getOps<RoleOp>(), [&](RoleOp role) {
          return !planSegments(role, limit, false).empty();
        }))
      return;
    // Early writes keep fewer values. Whether the roles still meet is tried.
    split(kernel, /*writesEarly=*/meetsWithEarlyWrites(kernel));
  }

  bool meetsWithEarlyWrites(KernelOp kernel) {
    Trial trial(kernel);
    split(trial.get(), /*writesEarly=*/true);
    return succeeded(ChannelRun::create(trial.get()));
  }

  void split(KernelOp kernel, bool writesEarly) {
    for (RoleOp role : kernel.getOps<RoleOp>()) {
      if (role.getWarps() < kGroupWarps)
        continue;
      sinkLines(role);
      llvm::SetVector<JoinOp> carried;
      for (Segment &segment : planSegments(role, limit, writesEarly))
        Writer(segment, carried).run();
      for (JoinOp join : carried) {
        // Whole uses need all registers anyway.
        if (!join->use_empty())
          continue;
        // Warpgroups that share a role's tiles have half of them to carry.
        if (hasTmem && role.getWarps() == kGroupWarps)
          carryInTensorMemory(kernel, join);
        join.erase();
      }
      SmallVector<Operation *> extensions;
      role.walk([&](arith::ExtFOp op) { extensions.push_back(op); });
      for (Operation *op : extensions)
        if (op->use_empty())
          op->erase();
    }
  }

  int64_t limit = 0;
  bool hasTmem = false;
};

} // namespace
