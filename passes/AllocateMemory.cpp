//===- AllocateMemory.cpp - Place buffers in shared and tensor memory -----===//
//
// First fit by alignment. Given offsets are kept. Buffers share space only
// where it is needed, or asked for by offsets, and where a run of the channels
// shows that one's uses all precede the other's (rule R8).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Roles/ChannelRun.h"
#include "passes/Roles/TileUses.h"
#include "passes/Staging.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

namespace flamia {
#define GEN_PASS_DEF_ALLOCATEMEMORYPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

int64_t flamia::stagedSpan(Type tile) {
  auto [rows, cols] = getTileShape(tile);
  Type element = isa<ScaledType>(tile)
                     ? cast<ScaledType>(tile).getElementType()
                     : cast<RankedTensorType>(tile).getElementType();
  int64_t bytes = cols * element.getIntOrFloatBitWidth() / 8;
  if (rows != 128)
    return 0;
  if (bytes % 128 == 0)
    return 128;
  return bytes == 64 || bytes == 32 ? bytes : 0;
}

int64_t flamia::widestSpan(KernelOp kernel) {
  int64_t bytes = 0;
  kernel.walk([&](Operation *op) {
    if (isa<StoreOp, StorePayloadOp>(op))
      bytes = std::max(bytes, stagedSpan(op->getOperand(0).getType()));
  });
  return bytes;
}

bool flamia::roundsWhereStored(QuantizeOp op) {
  return (op.getGlobalScale() || !op.getSource().hasOneUse()) &&
         !op.getExponent() &&
         llvm::all_of(op->getUsers(), [&](Operation *user) {
           return isa<StorePayloadOp, StoreScalesOp>(user) &&
                  user->getBlock() == op->getBlock();
         });
}

bool flamia::multipliesWhereRounded(QuantizeOp op) {
  auto isProduct = [](Value tile) {
    auto product = tile.getDefiningOp<arith::MulFOp>();
    return product && product->hasOneUse() &&
           product.getLhs().getDefiningOp<arith::ExtFOp>() &&
           product.getRhs().getDefiningOp<BroadcastOp>() &&
           getTileShape(product.getRhs()
                            .getDefiningOp<BroadcastOp>()
                            .getSource()
                            .getType())
                   .second == 1;
  };
  ScaledType type = op.getType();
  if (roundsWhereStored(op) || op.getExponent() || op.getGlobalScale() ||
      op.getRows() || type.getBlockRows() != 1 ||
      type.getBlockCols() != type.getCols() || !op.getSource().hasOneUse())
    return false;
  if (auto join = op.getSource().getDefiningOp<JoinOp>())
    return llvm::all_of(join.getSources(), isProduct);
  return isProduct(op.getSource());
}

namespace {

constexpr int64_t kSmemLimit = 232448;
/// Half of an SM's, without the 1 KB that the system takes for each CTA.
constexpr int64_t kSmemOfHalf = 228 * 1024 / 2 - 1024;
constexpr int64_t kTmemColumns = 512;
/// Dynamic shared memory is aligned at run time.
constexpr int64_t kAlignmentBytes = 1024;

/// Room behind the buffers for all mbarriers, a last one for tcgen.drain, and
/// the tensor memory address.
int64_t barrierBytes(KernelOp kernel) {
  int64_t bytes = 16;
  for (ChannelOp channel : kernel.getOps<ChannelOp>())
    bytes += 16 * static_cast<int64_t>(channel.getSlots());
  return std::max<int64_t>(1024, llvm::alignTo(bytes, 128));
}

int64_t alignmentOf(BufferType type) {
  if (type.getSpace() == Space::Tmem)
    return type.getLayout() == Layout::Scales ? 4 : 32;
  return type.getLayout() == Layout::Operand ? 1024 : 128;
}

int64_t sizeOf(AllocOp alloc) {
  BufferType type = alloc.getType();
  return type.getSlots() * type.getSlotSize();
}

/// Buffers of one memory and their places.
class Memory {
public:
  Memory(Space space, const ChannelRun &run)
      : unit(space == Space::Smem ? "bytes of shared memory"
                                  : "tensor memory columns"),
        run(run) {}

  void add(AllocOp alloc) { allocs.push_back(alloc); }
  bool empty() const { return allocs.empty(); }

  /// Keeps the given offsets, places all others behind or between them.
  /// Returns the end of the last buffer.
  FailureOr<int64_t> place() {
    return placeInOrder(inOrderOfAlignment(), std::nullopt);
  }

  /// The same for buffers that share space where it is ordered who uses it.
  /// First fit depends on the sequence: a buffer that ends beyond `limit` comes
  /// first in the next try. Returns the end of the best try, whose places stay.
  /// \p inPipe: the order of the tensor pipe counts.
  FailureOr<int64_t> placeShared(int64_t limit, bool inPipe) {
    countsPipe = inPipe;
    ordered.clear();
    constexpr int kTries = 64;
    std::vector<AllocOp> order = inOrderOfAlignment(), best;
    int64_t bestEnd = std::numeric_limits<int64_t>::max();
    for (int attempt = 0; attempt < kTries && bestEnd > limit; ++attempt) {
      FailureOr<int64_t> reached = placeInOrder(order, limit);
      if (failed(reached))
        return failure();
      if (*reached < bestEnd) {
        bestEnd = *reached;
        best = order;
      }
      auto tooFar = llvm::find_if(order, [&](AllocOp alloc) {
        return !alloc.getOffset() && places.find(alloc)->second.second > limit;
      });
      if (tooFar == order.end())
        break;
      std::rotate(order.begin(), tooFar, std::next(tooFar));
    }
    return placeInOrder(best, limit);
  }

  void writeOffsets() {
    for (auto &[op, range] : places)
      cast<AllocOp>(op).setOffset(range.first);
  }

  /// Adds one note for each buffer with its size.
  void describe(InFlightDiagnostic &diagnostic) {
    for (AllocOp alloc : allocs)
      diagnostic.attachNote(alloc.getLoc())
          << sizeOf(alloc) << " " << unit << " for " << alloc.getType();
  }

private:
  using Range = std::pair<int64_t, int64_t>;

  static bool overlap(Range a, Range b) {
    return a.first < b.second && b.first < a.second;
  }

  /// Large alignments first leave no gaps.
  std::vector<AllocOp> inOrderOfAlignment() {
    std::vector<AllocOp> order;
    for (int64_t alignment : {1024, 128, 32, 4})
      llvm::copy_if(allocs, std::back_inserter(order), [&](AllocOp alloc) {
        return alignmentOf(alloc.getType()) == alignment;
      });
    return order;
  }

  /// With a limit, buffers share space.
  FailureOr<int64_t> placeInOrder(ArrayRef<AllocOp> order,
                                  std::optional<int64_t> limit) {
    places.clear();
    end = 0;
    for (AllocOp alloc : allocs)
      if (alloc.getOffset() && failed(placeAt(alloc, *alloc.getOffset())))
        return failure();
    for (AllocOp alloc : order)
      if (!alloc.getOffset())
        record(alloc, placeOf(alloc, limit));
    return end;
  }

  /// Where a part of the buffer lies: in tensor memory its columns, elsewhere
  /// no less than all of it.
  Range rangeOf(AllocOp alloc, Range whole, int64_t part) {
    BufferType type = alloc.getType();
    int64_t size = whole.second - whole.first, parts = run.getParts();
    if (type.getLayout() != Layout::Lanes || type.getSlots() > 1 ||
        size % parts != 0)
      return whole;
    int64_t first = whole.first + part * size / parts;
    return {first, first + size / parts};
  }

  /// Whether the buffers may lie there: apart, or in an order.
  bool mayLie(AllocOp a, Range rangeOfA, AllocOp b, Range rangeOfB) {
    if (!overlap(rangeOfA, rangeOfB))
      return true;
    for (int64_t i = 0; i < run.getParts(); ++i)
      for (int64_t j = 0; j < run.getParts(); ++j)
        if (overlap(rangeOf(a, rangeOfA, i), rangeOf(b, rangeOfB, j)) &&
            !areOrdered(a, i, b, j))
          return false;
    return true;
  }

  bool areOrdered(AllocOp a, int64_t partOfA, AllocOp b, int64_t partOfB) {
    auto [known, isNew] = ordered.try_emplace({{a, partOfA}, {b, partOfB}});
    if (isNew)
      known->second = run.areOrdered(a, partOfA, b, partOfB, countsPipe);
    return known->second;
  }

  void record(AllocOp alloc, int64_t offset) {
    places.insert({alloc, {offset, offset + sizeOf(alloc)}});
    end = std::max(end, offset + sizeOf(alloc));
  }

  LogicalResult placeAt(AllocOp alloc, int64_t offset) {
    int64_t alignment = alignmentOf(alloc.getType());
    if (offset < 0 || offset % alignment != 0)
      return alloc.emitError("expected an offset that is a multiple of ")
             << alignment << ", but got " << offset;
    Range range{offset, offset + sizeOf(alloc)};
    for (auto &[op, other] : places) {
      if (mayLie(alloc, range, cast<AllocOp>(op), other))
        continue;
      InFlightDiagnostic diagnostic =
          alloc.emitError("buffer at ")
          << range.first << ".." << range.second - 1
          << " shares space with another one, but their uses are not ordered";
      diagnostic.attachNote(op->getLoc())
          << "the other buffer, at " << other.first << ".." << other.second - 1;
      return diagnostic;
    }
    record(alloc, offset);
    return success();
  }

  int64_t placeOf(AllocOp alloc, std::optional<int64_t> limit) {
    // Scales are small: where columns are free, they need share none. The fewer
    // do, the less depends on the order in which products are executed.
    if (limit && alloc.getType().getLayout() == Layout::Scales)
      if (int64_t offset = firstFit(alloc, /*share=*/false);
          offset + sizeOf(alloc) <= *limit)
        return offset;
    return firstFit(alloc, limit.has_value());
  }

  int64_t firstFit(AllocOp alloc, bool share) {
    int64_t size = sizeOf(alloc), alignment = alignmentOf(alloc.getType());
    // Where parts have an order that the whole has not, a buffer may begin in
    // the midst of another one.
    bool hasParts = share && run.getParts() > 1 &&
                    alloc.getType().getLayout() == Layout::Lanes;
    int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto &[op, other] : places) {
        Range range{offset, offset + size};
        if (!overlap(range, other) ||
            (share && mayLie(alloc, range, cast<AllocOp>(op), other)))
          continue;
        offset = hasParts ? offset + alignment
                          : llvm::alignTo(other.second, alignment);
        moved = true;
      }
    }
    return offset;
  }

  StringRef unit;
  const ChannelRun &run;
  SmallVector<AllocOp> allocs;
  llvm::MapVector<Operation *, Range> places;
  using Part = std::pair<Operation *, int64_t>;
  llvm::DenseMap<std::pair<Part, Part>, bool> ordered;
  int64_t end = 0;
  bool countsPipe = true;
};

struct AllocateMemoryPass
    : public flamia::impl::AllocateMemoryPassBase<AllocateMemoryPass> {
  using AllocateMemoryPassBase::AllocateMemoryPassBase;

  void runOnOperation() override {
    if (failed(allocate(getOperation())))
      signalPassFailure();
  }

  LogicalResult allocate(KernelOp kernel) {
    FailureOr<ChannelRun> run = ChannelRun::create(kernel);
    if (failed(run))
      return failure();
    Memory smem(Space::Smem, *run), tmem(Space::Tmem, *run);
    for (AllocOp alloc : kernel.getOps<AllocOp>())
      (alloc.getType().getSpace() == Space::Smem ? smem : tmem).add(alloc);

    Builder builder(&getContext());
    int64_t staging = stagingBytes(kernel);
    FailureOr<int64_t> bytes = placeSmem(kernel, smem, staging);
    if (failed(bytes))
      return failure();
    if (staging) {
      kernel->setAttr(kStagingOffset, builder.getI64IntegerAttr(*bytes));
      *bytes += staging;
    }
    FailureOr<int64_t> columns = placeTmem(kernel, tmem);
    if (failed(columns))
      return failure();
    smem.writeOffsets();
    tmem.writeOffsets();

    int64_t warps = 0;
    for (RoleOp role : kernel.getOps<RoleOp>())
      warps += role.getWarps();
    kernel->setAttr("tcgen.barrier_offset", builder.getI64IntegerAttr(*bytes));
    kernel->setAttr("tcgen.smem_bytes",
                    builder.getI64IntegerAttr(*bytes + barrierBytes(kernel)));
    kernel->setAttr("tcgen.tmem_columns", builder.getI64IntegerAttr(*columns));
    kernel->setAttr("tcgen.threads", builder.getI64IntegerAttr(32 * warps));
    return success();
  }

  /// Whether the kernel only moves and changes tiles: two of its CTAs should
  /// share an SM, so that one computes while the other waits.
  static bool isStreaming(KernelOp kernel) {
    return !kernel
                .walk([](Operation *op) {
                  return isa<MmaOp>(op) ? WalkResult::interrupt()
                                        : WalkResult::advance();
                })
                .wasInterrupted();
  }

  /// Room in which each warp turns 32 rows into whole lines on their way to
  /// global memory (ConvertFlamiaToNVVMMemory.cpp). Kernels with products have
  /// no room to spare, and are not bound by what they store.
  static int64_t stagingBytes(KernelOp kernel) {
    if (!isStreaming(kernel) || kernel.getOps<RoleOp>().empty())
      return 0;
    return 128 * widestSpan(kernel);
  }

  /// Bytes of all buffers, rounded up for the barriers behind them.
  FailureOr<int64_t> placeSmem(KernelOp kernel, Memory &smem, int64_t staging) {
    bool streams = staging > 0;
    for (;;) {
      int64_t others = barrierBytes(kernel) + kAlignmentBytes + staging;
      int64_t limit = kSmemLimit - others;
      FailureOr<int64_t> end = smem.place();
      if (failed(end))
        return failure();
      bool isFull = *end > limit;
      bool tooWide = streams && *end + others > kSmemOfHalf;
      if ((isFull || tooWide) && shortenRing(kernel, isFull))
        continue;
      if (!isFull)
        return llvm::alignTo(*end, 128);
      end = smem.placeShared(limit, /*inPipe=*/true);
      if (failed(end))
        return failure();
      if (*end <= limit)
        return llvm::alignTo(*end, 128);
      InFlightDiagnostic diagnostic =
          kernel.emitError("needs ")
          << *end + others << " bytes of shared memory, of which " << others
          << " are for barriers and alignment; the limit is " << kSmemLimit;
      smem.describe(diagnostic);
      return diagnostic;
    }
  }

  FailureOr<int64_t> placeTmem(KernelOp kernel, Memory &tmem) {
    if (tmem.empty())
      return 0;
    FailureOr<int64_t> end = tmem.place();
    if (succeeded(end) && *end > kTmemColumns)
      end = tmem.placeShared(kTmemColumns, /*inPipe=*/false);
    if (succeeded(end) && *end > kTmemColumns) {
      end = tmem.placeShared(kTmemColumns, /*inPipe=*/true);
      kernel->setAttr(kNeedsPipeOrder, UnitAttr::get(&getContext()));
    }
    if (failed(end))
      return failure();
    if (*end > kTmemColumns) {
      InFlightDiagnostic diagnostic =
          kernel.emitError("needs ")
          << *end << " columns of tensor memory; the limit is " << kTmemColumns;
      tmem.describe(diagnostic);
      return diagnostic;
    }
    return std::max<int64_t>(32, llvm::PowerOf2Ceil(*end));
  }

  /// Takes a slot from the ring that spends most on more than two slots, or,
  /// when there is none and memory is full, on two. Offsets that were given fix
  /// their ring.
  bool shortenRing(KernelOp kernel, bool isFull) {
    llvm::MapVector<Operation *, SmallVector<AllocOp>> rings;
    auto addBuffer = [&](Value channel, Value buffer) {
      SmallVector<AllocOp> &buffers = rings[channel.getDefiningOp()];
      auto alloc = buffer.getDefiningOp<AllocOp>();
      if (!llvm::is_contained(buffers, alloc))
        buffers.push_back(alloc);
    };
    kernel.walk([&](Operation *op) {
      if (auto load = dyn_cast<TmaLoadOp>(op))
        addBuffer(load.getChannel(), load.getBuffer());
      else if (auto load = dyn_cast<BulkLoadOp>(op))
        addBuffer(load.getChannel(), load.getBuffer());
    });
    ChannelOp best;
    std::pair<bool, int64_t> bestCost;
    for (auto &[op, buffers] : rings) {
      auto channel = cast<ChannelOp>(op);
      int64_t slots = channel.getSlots(), bytes = 0;
      auto least = channel->getAttrOfType<IntegerAttr>(kMinSlots);
      if (slots < (isFull ? 2 : 3) || (least && slots <= least.getInt()) ||
          llvm::any_of(
              buffers,
              [](AllocOp alloc) { return alloc.getOffset().has_value(); }))
        continue;
      for (AllocOp alloc : buffers)
        bytes += sizeOf(alloc);
      std::pair<bool, int64_t> cost{slots > 2, bytes};
      if (!best || cost > bestCost) {
        best = channel;
        bestCost = cost;
      }
    }
    if (!best)
      return false;
    int64_t slots = best.getSlots() - 1;
    best.setSlots(slots);
    auto shorten = [&](Value buffer) {
      auto type = cast<BufferType>(buffer.getType());
      buffer.setType(BufferType::get(type.getContext(), type.getSpace(),
                                     type.getLayout(), slots, type.getRows(),
                                     type.getCols(), type.getElementType()));
    };
    for (AllocOp alloc : rings[best]) {
      shorten(alloc.getResult());
      for (Operation *user : alloc->getUsers())
        if (auto part = dyn_cast<PartOp>(user))
          shorten(part.getResult());
    }
    if (isFull)
      best.emitRemark("ring shortened to ")
          << slots << " slots: shared memory is full";
    return true;
  }
};

} // namespace
