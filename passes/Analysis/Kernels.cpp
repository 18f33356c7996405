//===- Kernels.cpp - Helpers that several passes share --------------------===//

#include "passes/Analysis/Kernels.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace flamia;

LogicalResult flamia::requireSpecialized(KernelOp kernel) {
  auto isOpen = [](Type type) {
    if (auto scaled = dyn_cast<ScaledType>(type))
      return !scaled.hasStaticShape();
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !tensor.hasStaticShape();
  };
  WalkResult result = kernel.getBody().walk([&](Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      emitError(op->getLoc(), "parameter '")
          << param.getName() << "' is not bound: run flamia-specialize first";
      return WalkResult::interrupt();
    }
    for (Type type : op->getResultTypes())
      if (isOpen(type)) {
        emitError(op->getLoc(), "extents of ")
            << type << " are not bound: run flamia-specialize first";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

NeededConditions flamia::neededConditions(MaskOp op, IndexAnalysis &indices) {
  auto [numRows, numCols] = getTileShape(op.getType());
  IndexExpr rows = indices.get(op.getRows());
  IndexExpr cols = indices.get(op.getCols());
  bool turned = op.getTransposed();
  IndexExpr query = turned ? cols : rows, key = turned ? rows : cols;
  int64_t queries = turned ? numCols : numRows;
  int64_t keys = turned ? numRows : numCols;
  NeededConditions needed;
  // `k <= q` holds where the last key comes no later than the first query, or
  // where a limit of the keys alone says so.
  needed.causal = op.getCausal() &&
                  !indices.isAtMost(key + (keys - 1), query) &&
                  !(op.getLimit() && !turned &&
                    indices.isAtMost(indices.get(op.getLimit()), query + 1));
  needed.limit = op.getLimit() &&
                 !indices.isAtMost(cols + numCols, indices.get(op.getLimit()));
  needed.window =
      op.getWindow() && !indices.isAtMost(query + (queries - 1) - key,
                                          indices.get(op.getWindow()));
  return needed;
}

void flamia::simplifyMasks(KernelOp kernel, IndexAnalysis &indices) {
  SmallVector<MaskOp> masks;
  kernel.walk([&](MaskOp op) { masks.push_back(op); });
  for (MaskOp op : masks) {
    NeededConditions needed = neededConditions(op, indices);
    if (!needed.any()) {
      op.getResult().replaceAllUsesWith(op.getSource());
      op.erase();
      continue;
    }
    op.setCausal(needed.causal);
    if (op.getLimit() && !needed.limit)
      op.getLimitMutable().clear();
    if (op.getWindow() && !needed.window)
      op.getWindowMutable().clear();
  }
}

/// Clones the body of \p loop at \p builder for one value of its induction
/// variable; \p carried holds the iteration arguments and becomes the results.
static void cloneIteration(OpBuilder &builder, scf::ForOp loop, Value iteration,
                           SmallVectorImpl<Value> &carried) {
  IRMapping map;
  map.map(loop.getInductionVar(), iteration);
  map.map(loop.getRegionIterArgs(), ValueRange(carried));
  for (Operation &op : loop.getBody()->without_terminator())
    builder.clone(op, map);
  for (auto [value, yielded] :
       llvm::zip(carried, loop.getBody()->getTerminator()->getOperands()))
    value = map.lookupOrDefault(yielded);
}

scf::ForOp flamia::splitLoop(scf::ForOp loop, LoopEnd end, int64_t count,
                             IndexAnalysis &indices) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
  Value step = loop.getStep();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  // Iterations of a fixed number exist if the last of them does.
  std::optional<int64_t> stepBy = getConstantIntValue(step);
  bool certain =
      stepBy && indices.isLess(indices.get(lower) + *stepBy * (count - 1),
                               indices.get(upper));

  if (end == LoopEnd::First) {
    Value length = arith::MulIOp::create(builder, loc, step, constant(count));
    Value point = arith::AddIOp::create(builder, loc, lower, length);
    SmallVector<Value> carried(loop.getInitArgs());
    scf::ForOp apart;
    if (certain) {
      for (int64_t i = 0; i < count; ++i) {
        Value offset = arith::MulIOp::create(builder, loc, step, constant(i));
        cloneIteration(builder, loop,
                       arith::AddIOp::create(builder, loc, lower, offset),
                       carried);
      }
    } else {
      IRMapping map;
      apart = cast<scf::ForOp>(builder.clone(*loop, map));
      OpBuilder before(apart);
      apart.setUpperBound(arith::MinSIOp::create(before, loc, upper, point));
      carried.assign(apart.getResults().begin(), apart.getResults().end());
    }
    loop.setLowerBound(point);
    loop.getInitArgsMutable().assign(carried);
    return apart;
  }

  // Below the lower bound the loop simply has no iteration; a maximum there
  // would hide from later proofs where it ends.
  Value point = arith::SubIOp::create(builder, loc, upper, constant(count));
  loop.setUpperBound(point);
  builder.setInsertionPointAfter(loop);
  SmallVector<Value> carried(loop.getResults());
  Block *block = loop->getBlock();
  Operation *next = loop->getNextNode();
  scf::ForOp apart;
  if (certain) {
    for (int64_t i = 0; i < count; ++i)
      cloneIteration(builder, loop,
                     arith::AddIOp::create(builder, loc, point, constant(i)),
                     carried);
  } else {
    IRMapping map;
    apart = cast<scf::ForOp>(builder.clone(*loop, map));
    OpBuilder before(apart);
    apart.setLowerBound(arith::MaxSIOp::create(before, loc, point, lower));
    apart.setUpperBound(upper);
    apart.getInitArgsMutable().assign(loop.getResults());
    carried.assign(apart.getResults().begin(), apart.getResults().end());
  }
  // Everything after the new code sees its results.
  llvm::SmallPtrSet<Operation *, 16> inserted;
  for (auto it = std::next(Block::iterator(loop));
       it != block->end() && &*it != next; ++it)
    inserted.insert(&*it);
  for (auto [result, value] : llvm::zip(loop.getResults(), carried))
    result.replaceUsesWithIf(value, [&](OpOperand &use) {
      Operation *user = block->findAncestorOpInBlock(*use.getOwner());
      return !inserted.contains(user);
    });
  return apart;
}

std::optional<scf::ForOp>
flamia::splitLoopWhere(scf::ForOp loop, int64_t most, IndexAnalysis &indices,
                       llvm::function_ref<bool()> holds) {
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  if (!step || *step <= 0 || loop.getUnsignedCmp())
    return std::nullopt;
  IndexExpr iteration = indices.get(loop.getInductionVar());
  for (int64_t count = 1; count <= most; ++count)
    for (LoopEnd end : {LoopEnd::First, LoopEnd::Last}) {
      if (end == LoopEnd::Last && *step != 1)
        continue;
      IndexExpr inRest =
          end == LoopEnd::First
              ? iteration - indices.get(loop.getLowerBound()) - *step * count
              : indices.get(loop.getUpperBound()) - count - 1 - iteration;
      bool proven;
      {
        IndexAnalysis::Assumption assumption(indices, inRest);
        proven = holds();
      }
      if (proven)
        return splitLoop(loop, end, count, indices);
    }
  return std::nullopt;
}
