//===- Ahead.cpp - Products issued before their turn ----------------------===//
//
// Rule R4. The tensor core must not idle while vector code works, so a product
// that needs no vector code is issued as soon as its buffer is free: before
// products of the same iteration that wait for vector code, and one iteration
// ahead.
//
//===----------------------------------------------------------------------===//

#include "passes/Roles/ChannelRun.h"
#include "passes/Roles/Crossings.h"

using namespace mlir;
using namespace flamia;

/// Whether vector code of this block makes one of the product's operands.
static bool waitsForVectorCode(DotOp dot) {
  return llvm::any_of(dot->getOperands().take_front(2), [&](Value operand) {
    Operation *op = lookThroughTransposes(operand).value.getDefiningOp();
    return op && op->getBlock() == dot->getBlock() &&
           unitOf(op) == Unit::Vector;
  });
}

/// The operations that turn what exists before `place` into the product's
/// operands; none if there is something else.
static std::optional<SmallVector<Operation *>>
transposesBehind(DotOp dot, Operation *place) {
  SmallVector<Operation *> moves;
  for (Value operand : dot->getOperands()) {
    Operation *op = operand.getDefiningOp();
    for (;
         op && op->getBlock() == dot->getBlock() && place->isBeforeInBlock(op);
         op = op->getOperand(0).getDefiningOp()) {
      if (!isa<TransposeOp>(op))
        return std::nullopt;
      moves.push_back(op);
    }
  }
  return moves;
}

/// The first product before `dot` in its block that waits for vector code.
static Operation *placeBefore(DotOp dot) {
  if (!isZeroTile(dot.getAcc()) || waitsForVectorCode(dot))
    return nullptr;
  for (DotOp other : dot->getBlock()->getOps<DotOp>()) {
    if (other == dot)
      return nullptr;
    if (waitsForVectorCode(other) && transposesBehind(dot, other))
      return other;
  }
  return nullptr;
}

static bool hasInnerProducts(scf::ForOp loop) {
  return loop.getBody()
      ->walk([&](DotOp dot) {
        return dot->getBlock() == loop.getBody() ? WalkResult::advance()
                                                 : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Moves what a scalar is computed from before `place` in its block, if it can.
static bool hoist(Value value, Operation *place) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != place->getBlock() || op->isBeforeInBlock(place))
    return true;
  if (!value.getType().isIntOrIndex() || op->getNumRegions() != 0 ||
      !isMemoryEffectFree(op) ||
      !llvm::all_of(op->getOperands(),
                    [&](Value operand) { return hoist(operand, place); }))
    return false;
  op->moveBefore(place);
  return true;
}

ProductMoves flamia::moveProductsUp(KernelOp kernel, bool inOuterLoops) {
  ProductMoves moved;
  SmallVector<std::pair<DotOp, Operation *>> moves;
  SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops) {
    bool isOuter = hasInnerProducts(loop);
    if (isOuter && !inOuterLoops)
      continue;
    for (DotOp dot : loop.getBody()->getOps<DotOp>())
      if (Operation *place = placeBefore(dot)) {
        moves.push_back({dot, place});
        (isOuter ? moved.outer : moved.inner) = true;
      }
    // The loop's first products may start before others of its block.
    for (DotOp dot : loop->getBlock()->getOps<DotOp>())
      if (dot->isBeforeInBlock(loop)) {
        hoist(loop.getLowerBound(), dot);
        hoist(loop.getUpperBound(), dot);
        hoist(loop.getStep(), dot);
        break;
      }
  }
  for (auto [dot, place] : moves) {
    SmallVector<Operation *> behind = *transposesBehind(dot, place);
    for (Operation *op : llvm::reverse(behind))
      if (place->isBeforeInBlock(op))
        op->moveBefore(place);
    dot->moveBefore(place);
  }
  return moved;
}

//===----------------------------------------------------------------------===//
// One iteration ahead
//===----------------------------------------------------------------------===//

/// Whether the next iteration's product may take the operand before this
/// iteration ends: it comes from outside the loop, or from a load that this
/// product is the first to use. Where other products use that load too, the
/// slot of its ring must be carried into the next iteration: `carried`.
bool CrossingPlanner::isReady(OpOperand &use, scf::ForOp loop,
                              llvm::SetVector<Value> &carried) {
  auto dot = cast<DotOp>(use.getOwner());
  Value root = lookThroughTransposes(use.get()).value;
  if (!loop->isAncestor(blockOf(root)->getParentOp()))
    return true;
  auto views = loadViews.find(root);
  if (views == loadViews.end() || blockOf(root) != loop.getBody())
    return false;
  // Loads of inner loops come between those of this one: a ring that they share
  // is filled in that order.
  Value channel = loads.find(root)->second.channel;
  if (hasInnerProducts(loop) && llvm::any_of(loads, [&](auto &entry) {
        return entry.second.channel == channel &&
               loadViews.lookup(entry.first) != views->second;
      }))
    return false;
  bool isShared = false;
  for (Value view : *views->second)
    for (OpOperand *other : usesThroughTransposes(view)) {
      auto user = dyn_cast<DotOp>(other->getOwner());
      if (user && (user == dot || (hasSlots && isFreshProduct(user))))
        continue;
      // A ring of one slot holds no tile of the next iteration. Products of
      // inner loops may come between this one and the next iteration, and share
      // its ring.
      if (!user || !issuesAhead || maxStages < 2 || hasInnerProducts(loop))
        return false;
      Operation *at = ancestorIn(loop.getBody(), user);
      if (!at || !dot->isBeforeInBlock(at))
        return false;
      isShared = true;
    }
  if (isShared)
    carried.insert(channel);
  return true;
}

/// Whether the product waits for vector code of its own iteration: results of
/// earlier products pass through the same buffer.
bool CrossingPlanner::takesLaterTurn(DotOp dot) {
  Value channel = freshChannels.lookup(dot);
  return llvm::any_of(freshChannels, [&](auto &entry) {
    Operation *other = entry.first;
    return other != dot && entry.second == channel &&
           other->getBlock() == dot->getBlock() && other->isBeforeInBlock(dot);
  });
}

/// The first use of a product's result by vector code of its block.
static Operation *firstUse(DotOp dot) {
  UseRange range;
  for (Operation *user : dot.getResult().getUsers())
    if (Operation *at = ancestorIn(dot->getBlock(), user))
      range.add(at);
  return range.first;
}

/// What a rotated product follows in the iteration before. Where vector code
/// reads another product between this one and the operand of the iteration's
/// last one, the buffer is free, and the result wanted, before the last one can
/// be issued; else null: the end of the iteration.
Operation *CrossingPlanner::placeOfNext(DotOp dot, scf::ForOp loop,
                                        ArrayRef<DotOp> ahead) {
  DotOp last;
  for (DotOp other : loop.getBody()->getOps<DotOp>())
    if (!llvm::is_contained(ahead, other))
      last = other;
  Operation *read = firstUse(dot);
  if (!last || !read || !waitsForVectorCode(last) || hasInnerProducts(loop))
    return nullptr;
  bool readsMore = false;
  for (DotOp other : loop.getBody()->getOps<DotOp>()) {
    if (other == dot || !isFreshProduct(other))
      continue;
    Operation *next = firstUse(other);
    if (!next)
      return nullptr;
    readsMore |= read->isBeforeInBlock(next) && next->isBeforeInBlock(last);
    // Turns of this buffer come before the next iteration's.
    if (freshChannels.lookup(other) == freshChannels.lookup(dot) &&
        !next->isBeforeInBlock(last))
      return nullptr;
  }
  Operation *place = last->getPrevNode();
  while (place && llvm::is_contained(ahead, dyn_cast<DotOp>(place)))
    place = place->getPrevNode();
  return readsMore ? place : nullptr;
}

/// Before which product of its block the loop's first products can be issued:
/// the last that waits for vector code. What they need must be there, and
/// results that pass through their buffers must come before. Loads that they
/// are the first to use are waited for there: `early`.
Operation *CrossingPlanner::placeOfFirst(scf::ForOp loop, ArrayRef<DotOp> ahead,
                                         llvm::SetVector<Value> &early) {
  Block *block = loop->getBlock();
  Operation *place = nullptr;
  for (Operation &op : llvm::make_range(block->begin(), loop->getIterator())) {
    auto dot = dyn_cast<DotOp>(op);
    if (dot && waitsForVectorCode(dot))
      place = dot;
    else if (dot || op.walk([](DotOp) {
                        return WalkResult::interrupt();
                      }).wasInterrupted())
      place = nullptr;
  }
  auto isThere = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return !op || op->getBlock() != block || op->isBeforeInBlock(place);
  };
  // Waits for a load stand before its first use.
  auto isUsedBefore = [&](ArrayRef<Value> views) {
    return llvm::any_of(views, [&](Value view) {
      return llvm::any_of(usesThroughTransposes(view), [&](OpOperand *use) {
        return comesBefore(use->getOwner(), place);
      });
    });
  };
  auto isWaitedFor = [&](Value operand) {
    Value root = lookThroughTransposes(operand).value;
    auto views = loadViews.find(root);
    bool isInLoop = loop->isAncestor(blockOf(root)->getParentOp());
    if (!isInLoop) {
      if (blockOf(root) != block)
        return true;
      if (views == loadViews.end())
        return false;
      if (isUsedBefore(*views->second))
        return true;
      Value last = views->second->back();
      if (!isThere(last) || !loadUses.contains(last))
        return false;
      early.insert(last);
    }
    // A ring is emptied in the order in which it is filled.
    Value channel = loads.find(root)->second.channel;
    return llvm::all_of(loads, [&](auto &entry) {
      Operation *load = entry.first.getDefiningOp();
      auto others = loadViews.find(entry.first);
      return entry.second.channel != channel || !load ||
             others == loadViews.end() || others->second == views->second ||
             !comesBefore(load, loop) || isUsedBefore(*others->second);
    });
  };
  if (!place || !isThere(loop.getLowerBound()) ||
      !isThere(loop.getUpperBound()) || !isThere(loop.getStep()) ||
      !llvm::all_of(ahead, [&](DotOp dot) {
        return isWaitedFor(dot.getA()) && isWaitedFor(dot.getB());
      }))
    return nullptr;
  return place;
}

/// A product whose operands do not come from vector code of the same iteration
/// need not wait for it. Where buffers of one work item take turns and nothing
/// is tried, the product waits for its turn anyway, and one in front of the
/// loop would keep a buffer from being shared.
void CrossingPlanner::planRotation() {
  if (mmaRole == kVectorRole || (takesTurns && !hasSlots && !issuesAhead))
    return;
  kernel.walk([&](scf::ForOp loop) {
    SmallVector<DotOp> ahead;
    llvm::SetVector<Value> carried;
    for (DotOp dot : loop.getBody()->getOps<DotOp>()) {
      llvm::SetVector<Value> channels = carried;
      if (!isFreshProduct(dot) || (issuesAhead && takesLaterTurn(dot)) ||
          !isReady(dot.getAMutable(), loop, channels) ||
          !isReady(dot.getBMutable(), loop, channels))
        break;
      ahead.push_back(dot);
      carried = std::move(channels);
    }
    if (llvm::all_of(loop.getBody()->getOps<DotOp>(),
                     [&](DotOp dot) { return llvm::is_contained(ahead, dot); }))
      return;
    if (hasSlots)
      return rotate(loop, ahead);
    RoleBuilder &mma = roleNamed(mmaRole);
    for (DotOp dot : ahead) {
      Operation *place = issuesAhead ? placeOfNext(dot, loop, ahead) : nullptr;
      placesAhead |= place != nullptr;
      mma.rotate(loop, dot, place);
    }
    llvm::SetVector<Value> early;
    if (Operation *place = issuesAhead && !ahead.empty()
                               ? placeOfFirst(loop, ahead, early)
                               : nullptr) {
      placesAhead = true;
      SmallVector<Step> first;
      for (Value load : early) {
        *loadUses[load].isEarly = true;
        llvm::append_range(first, loadUses[load].steps);
      }
      mma.startBefore(loop, place, first);
    }
    for (Value channel : carried) {
      placesAhead = true;
      mma.carry(loop, channel);
      channel.getDefiningOp()->setAttr(kMinSlots, builder.getI64IntegerAttr(2));
    }
  });
}
