//===- Slots.cpp - Several work items in one CTA --------------------------===//
//
// What flamia-jam-items asks of the planning: a vector role for each item, and
// tensor memory for all of them. Two query tiles at D = 128 fill it with their
// scores and outputs, so the scales of a product lie in the scores of the other
// item, between their reading and the next product that overwrites them.
//
//===----------------------------------------------------------------------===//

#include "passes/Roles/Crossings.h"

using namespace mlir;
using namespace flamia;

constexpr int64_t kTmemColumns = 512;

/// The vector role in which a value is used: that of the user or, where control
/// flow uses it, of the work item that it belongs to.
StringRef CrossingPlanner::vectorRoleOfUse(OpOperand &use, Value value) {
  StringRef role = roleOf(use.getOwner());
  if (isVectorRole(role))
    return role;
  Operation *op = value.getDefiningOp();
  return op ? vectorRoleOf(op) : StringRef(kVectorRole);
}

/// Copies the scales right before this product: their columns are free again
/// behind it.
void CrossingPlanner::planScaleCopy(DotOp dot, LoadScaledOp load,
                                    OperandBuffer &image) {
  Location loc = load.getLoc();
  Value source = loadedScales.lookup(load.getResult()), channel = image.channel;
  auto type = cast<tcgen::BufferType>(source.getType());
  Value target =
      createBuffer(loc, tcgen::Space::Tmem, tcgen::Layout::Scales, 1,
                   type.getRows(), type.getCols(), type.getElementType());
  image.scales = target;
  roleNamed(mmaRole).before(
      dot, StepOrder::Acquire, [=](OpBuilder &b, RoleState &state) {
        tcgen::CopyScalesOp::create(b, loc, source,
                                    state.consumed.lookup(channel), target,
                                    createZero(b, loc));
      });
}

/// Where no column is free for scales.
bool CrossingPlanner::areColumnsShort() {
  int64_t results = 0, scales = 0;
  for (tcgen::AllocOp alloc : kernel.getOps<tcgen::AllocOp>()) {
    tcgen::BufferType type = alloc.getType();
    int64_t columns = type.getSlots() * type.getSlotSize();
    if (type.getSpace() != tcgen::Space::Tmem)
      continue;
    if (type.getLayout() == tcgen::Layout::Scales)
      scales += columns;
    else if (type.getElementType().isF32())
      results += columns;
  }
  return results + scales > kTmemColumns;
}

/// In a loop, the scales of a product of loads lie in the results of the other
/// items' products: these must have been read.
void CrossingPlanner::planDrainedWaits(DotOp dot) {
  if (!dot->getParentOfType<scf::ForOp>())
    return;
  StringRef own = vectorRoleOf(dot);
  Location loc = dot.getLoc();
  roleNamed(mmaRole).before(dot, StepOrder::ThreadWait,
                            [=](OpBuilder &b, RoleState &) {
                              if (!areColumnsShort())
                                return;
                              for (auto &[channel, role] : resultChannels)
                                if (role != own)
                                  tcgen::DrainedOp::create(b, loc, channel);
                            });
}

/// Whether scores and outputs take all columns, each with a buffer of its own.
bool CrossingPlanner::doResultsFillColumns() {
  int64_t columns = 0;
  llvm::DenseSet<std::pair<StringRef, Type>> fresh;
  for (const Web &web : accumulators.getWebs()) {
    DotOp dot = web.dots[0];
    if (!web.isFresh() ||
        fresh.insert({vectorRoleOf(dot), dot.getType()}).second)
      columns += getTileShape(dot.getType()).second;
  }
  return columns >= kTmemColumns;
}

/// Weights of one item lie in the scores of another one where nothing else is
/// free. Before each product with them the mma role waits until those scores
/// were read and says so; the vector role waits for that before it writes. Null
/// where columns are free.
Value CrossingPlanner::planGrant(StringRef vectorName, Operation *product) {
  if (!scoresFirst || !doResultsFillColumns())
    return {};
  Location loc = product->getLoc();
  Value grant = createChannel(loc, 1, 1, 1);
  roleNamed(mmaRole).before(
      product, StepOrder::MmaSignal, [=](OpBuilder &b, RoleState &) {
        for (auto &[channel, role] : resultChannels)
          if (role != vectorName)
            tcgen::DrainedOp::create(b, loc, channel);
        tcgen::PublishOp::create(b, loc, grant, createZero(b, loc),
                                 tcgen::Agent::Threads);
      });
  return grant;
}

/// Issues the products one iteration ahead. Where there are several work items,
/// each follows its own item's last product, not that of the slowest item; or,
/// with scores first, stands before it. Then only the reading of the scores
/// before lies between one item's scores and its next ones, and its weights
/// must lie elsewhere.
void CrossingPlanner::rotate(scf::ForOp loop, ArrayRef<DotOp> ahead) {
  auto isAhead = [&](Operation *op) {
    return llvm::is_contained(ahead, dyn_cast<DotOp>(op));
  };
  for (DotOp dot : ahead) {
    Operation *last = nullptr;
    if (std::optional<int64_t> slot = slotOf(dot))
      for (DotOp other : loop.getBody()->getOps<DotOp>())
        if (slotOf(other) == slot && !isAhead(other))
          last = other;
    if (scoresFirst && last) {
      do
        last = last->getPrevNode();
      while (last && isAhead(last));
      placesAhead |= last != nullptr;
    }
    roleNamed(mmaRole).rotate(loop, dot, last);
  }
}
