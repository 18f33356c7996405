//===- Loads.cpp - Rings of tile loads ------------------------------------===//
//
// Each tile load gets a ring of its own: several slots inside loops. Where
// shared memory cannot hold all of them, loads of one shape for products follow
// each other through one ring from one loop to the next; where it cannot hold
// even one slot of each, so do loads that only vector code reads; so do the
// loads of loops that follow each other, in kernels without products.
//
//===----------------------------------------------------------------------===//

#include "passes/Roles/Crossings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using tcgen::BufferType;

/// Shared memory for images, about: flamia-allocate-memory is exact.
constexpr int64_t kImageBytes = 225 * 1024;

Type flamia::elementOf(Type tile) {
  if (auto scaled = dyn_cast<ScaledType>(tile))
    return scaled.getElementType();
  return cast<RankedTensorType>(tile).getElementType();
}

Value flamia::createZero(OpBuilder &builder, Location loc) {
  return arith::ConstantIndexOp::create(builder, loc, 0);
}

LogicalResult flamia::checkImage(Operation *op, Type tile) {
  auto [rows, cols] = getTileShape(tile);
  int64_t bits = cols * elementOf(tile).getIntOrFloatBitWidth();
  if (bits != 256 && bits != 512 && bits % 1024 != 0)
    return op->emitError("a tile in shared memory needs rows of 32, 64 or a "
                         "multiple of 128 bytes, but ")
           << tile << " has " << bits / 8;
  if (rows > 256 || rows % 8 != 0)
    return op->emitError("a tile in shared memory has a multiple of 8, at most "
                         "256, rows, but ")
           << tile << " has " << rows;
  return success();
}

LogicalResult CrossingPlanner::checkLoad(Operation *load) {
  Value value = load->getResult(0);
  if (isLineLoad(load))
    return success();
  if (failed(checkImage(load, value.getType())))
    return failure();
  if (isa<ScaledType>(value.getType()))
    for (auto &[name, consumer] : consumersOf(value))
      if (consumer.vector.first)
        return load->emitError("a scaled tile is loaded only for products, but "
                               "this one is used by vector code");
  return success();
}

/// Slots of a ring that no memory limits.
int64_t CrossingPlanner::slotsOf(const LoadGroup &group) {
  Operation *load = group.loads.back();
  bool sameRole = llvm::any_of(group.consumers, [&](auto &entry) {
    return entry.first == roleOf(load);
  });
  if (!load->getParentOfType<scf::ForOp>() || sameRole)
    return 1;
  // Vector code is done with a line long before the next but one.
  return isLineLoad(load) ? std::min<int64_t>(maxStages, 2) : maxStages;
}

/// The last product that uses a load's slot, where only products do.
Operation *CrossingPlanner::lastProductOf(const Consumers &consumers) {
  if (consumers.size() != 1 || consumers.front().second.vector.first)
    return nullptr;
  return consumers.front().second.any.last;
}

CrossingPlanner::Ring CrossingPlanner::createRing(const LoadGroup &group,
                                                  int64_t slots) {
  Operation *load = group.loads.back();
  Value value = load->getResult(0);
  Location loc = load->getLoc();
  int64_t releases = 0;
  for (auto &[name, consumer] : group.consumers)
    releases += (consumer.mma.first ? 1 : 0) +
                (consumer.vector.first ? kVectorWarps : 0);
  auto [rows, cols] = getTileShape(value.getType());

  Ring ring;
  ring.payload = createBuffer(loc, tcgen::Space::Smem,
                              isLineLoad(load) ? tcgen::Layout::Line
                                               : tcgen::Layout::Operand,
                              slots, rows, cols, elementOf(value.getType()));
  ring.channel = createChannel(loc, slots, 1, releases);
  return ring;
}

/// Whether the load may follow the ring's last one in its slots though control
/// flow lies between them: products are done with the one before they, and the
/// loads, come to the other. Both ends of the channel meet them in this order.
bool CrossingPlanner::areConsecutive(const Ring &ring, const LoadGroup &group) {
  Operation *last = ring.load, *load = group.loads.back();
  Type a = last->getResult(0).getType(), b = load->getResult(0).getType();
  return ring.lastProduct && lastProductOf(group.consumers) &&
         group.consumers.front().first == roleOf(ring.lastProduct) &&
         roleOf(last) == roleOf(load) && last->getBlock() != load->getBlock() &&
         elementOf(a) == elementOf(b) && getTileShape(a) == getTileShape(b) &&
         comesBefore(ring.lastProduct, load);
}

/// Source, indices and limit of a load's payload.
static std::tuple<Value, ValueRange, Value> placeOf(Operation *load) {
  return llvm::TypeSwitch<Operation *, std::tuple<Value, ValueRange, Value>>(
             load)
      .Case<LoadOp, LoadScaledOp, LoadPayloadOp>([](auto op) {
        return std::tuple<Value, ValueRange, Value>(
            op.getSource(), op.getIndices(), op.getLimit());
      });
}

/// Two views of one payload: they differ in their scales only.
static bool haveSamePayload(Operation *a, Operation *b) {
  Type typeA = a->getResult(0).getType(), typeB = b->getResult(0).getType();
  return a->getBlock() == b->getBlock() && roleOf(a) == roleOf(b) &&
         isa<ScaledType>(typeA) && isa<ScaledType>(typeB) &&
         elementOf(typeA) == elementOf(typeB) &&
         getTileShape(typeA) == getTileShape(typeB) && placeOf(a) == placeOf(b);
}

/// Loads of one payload, in program order, all in front of their first use: the
/// last one fetches it, and the scales of each.
CrossingPlanner::LoadGroups
CrossingPlanner::groupLoads(ArrayRef<Operation *> tileLoads) {
  LoadGroups groups;
  for (Operation *load : tileLoads) {
    Consumers own = consumersOf(load->getResult(0));
    if (own.empty())
      continue;
    auto group = llvm::find_if(groups, [&](LoadGroup &other) {
      return haveSamePayload(other.loads.front(), load) &&
             llvm::all_of(other.consumers, [&](auto &entry) {
               return load->isBeforeInBlock(entry.second.any.first);
             });
    });
    if (group == groups.end()) {
      groups.emplace_back();
      group = std::prev(groups.end());
    }
    group->loads.push_back(load);
    for (auto &[name, consumer] : own)
      group->consumers[name].add(consumer);
  }
  return groups;
}

/// Loads of one shape and role that only vector code reads.
bool CrossingPlanner::areAlike(Operation *last, Operation *load) {
  if (roleOf(last) != roleOf(load) ||
      last->getResult(0).getType() != load->getResult(0).getType())
    return false;
  for (Operation *each : {last, load})
    for (auto &[name, consumer] : consumersOf(each->getResult(0)))
      if (consumer.mma.first)
        return false;
  return true;
}

/// Whether control flow holds the ring's last load with all its uses, and only
/// then reaches `load`. Sharing then costs nothing: both ends of the channel
/// meet the loads in program order.
static bool comesAfter(Operation *last, Operation *load) {
  Operation *outer = last->getBlock()->getParentOp();
  Block *block = outer->getBlock();
  Operation *next = block ? ancestorIn(block, load) : nullptr;
  return isa<scf::ForOp>(outer) && next && outer->isBeforeInBlock(next);
}

bool CrossingPlanner::canShare(const Ring &ring, Operation *load,
                               const Consumers &consumers,
                               ArrayRef<Operation *> laterLoads) {
  Operation *last = ring.load;
  if (last->getBlock() != load->getBlock() || !areAlike(last, load))
    return false;
  Operation *firstUse = consumers.front().second.any.first;
  if (firstUse->isBeforeInBlock(ring.firstUse))
    return false;
  // Without a role of its own the load waits before anything that follows it;
  // with one, before all later loads, which must not be needed earlier.
  if (roleOf(load) == kVectorRole)
    return ring.firstUse->isBeforeInBlock(load);
  return llvm::all_of(laterLoads, [&](Operation *later) {
    for (auto &[name, consumer] : consumersOf(later->getResult(0))) {
      Operation *use = ancestorIn(load->getBlock(), consumer.any.first);
      if (!use || use->isBeforeInBlock(ring.firstUse))
        return false;
    }
    return true;
  });
}

LogicalResult CrossingPlanner::planLoads(ArrayRef<Operation *> tileLoads) {
  for (Operation *load : tileLoads)
    if (failed(checkLoad(load)))
      return failure();
  LoadGroups groups = groupLoads(tileLoads);
  // With one slot for each, and with as many as wanted.
  int64_t bytes = 0, allBytes = 0;
  for (LoadGroup &group : groups) {
    Type tile = group.loads[0]->getResult(0).getType();
    auto [rows, cols] = getTileShape(tile);
    int64_t size = rows * cols * elementOf(tile).getIntOrFloatBitWidth() / 8;
    bytes += size;
    allBytes += size * slotsOf(group);
  }
  bool isShort = allBytes > kImageBytes && !hasSlots;
  std::vector<Ring> rings;
  for (auto [index, group] : llvm::enumerate(groups)) {
    Operation *load = group.loads.back();
    Ring *ring = nullptr;
    int64_t slots = slotsOf(group);
    if (isShort) {
      for (Ring &other : rings)
        if (areConsecutive(other, group))
          ring = &other;
      Ring own{{}, {}, load, nullptr, lastProductOf(group.consumers)};
      for (LoadGroup &later : llvm::drop_begin(groups, index + 1))
        if (areConsecutive(own, later))
          slots = std::max(slots, slotsOf(later));
    }
    // Kernels without products live from tiles in flight: their rings are as
    // deep as memory allows, and few.
    if (accumulators.getWebs().empty())
      for (Ring &other : rings)
        if (areAlike(other.load, load) && comesAfter(other.load, load))
          ring = &other;
    if (!ring && bytes > kImageBytes && !isLineLoad(load)) {
      auto later = llvm::find(tileLoads, load);
      for (Ring &other : rings)
        if (canShare(other, load, group.consumers,
                     ArrayRef(std::next(later), tileLoads.end())))
          ring = &other;
    }
    if (!ring)
      ring = &rings.emplace_back(createRing(group, slots));
    ring->load = load;
    ring->firstUse = group.consumers.front().second.any.first;
    ring->lastProduct = lastProductOf(group.consumers);
    planLoad(group, *ring);
  }
  return success();
}

/// The scales of a load in shared memory, for each slot of its ring; in
/// `image.scales` where products read them.
Value CrossingPlanner::planScales(LoadScaledOp load, int64_t slots,
                                  OperandBuffer &image) {
  Location loc = load.getLoc();
  auto [rows, cols] = getTileShape(load.getType());
  bool alongCols = load.getAlong() == Axis::Cols;
  int64_t scaleRows = alongCols ? rows : cols;
  Type scale = load.getType().getScaleType();
  int64_t blocks =
      llvm::divideCeil(alongCols ? cols : rows, getScaleUnit(scale));
  Value smemScales =
      createBuffer(loc, tcgen::Space::Smem, tcgen::Layout::Scales, slots,
                   scaleRows, blocks, scale);
  if (!hasSlots)
    image.scales = createBuffer(loc, tcgen::Space::Tmem, tcgen::Layout::Scales,
                                1, scaleRows, blocks, scale);
  return smemScales;
}

void CrossingPlanner::planLoad(const LoadGroup &group, const Ring &ring) {
  Operation *last = group.loads.back();
  Location loc = last->getLoc();
  Value channel = ring.channel, payload = ring.payload;
  auto type = cast<BufferType>(payload.getType());
  int64_t bytes = type.getSlotSize();
  RoleBuilder &role = roleNamed(roleOf(last));
  SmallVector<Value> needs;
  SmallVector<std::pair<LoadScaledOp, Value>> scales;
  auto values = std::make_shared<SmallVector<Value>>();
  for (Operation *load : group.loads) {
    Value value = load->getResult(0);
    OperandBuffer image{payload, Value(), channel};
    if (auto scaled = dyn_cast<LoadScaledOp>(load)) {
      Value smemScales = planScales(scaled, type.getSlots(), image);
      bytes += cast<BufferType>(smemScales.getType()).getSlotSize();
      scales.push_back({scaled, smemScales});
      loadedScales[value] = smemScales;
    }
    loads[value] = image;
    values->push_back(value);
    loadViews[value] = values;
    llvm::append_range(needs, load->getOperands());
    if (load != last)
      role.execute(load, [](OpBuilder &, RoleState &) {});
  }

  role.execute(
      last,
      [=](OpBuilder &b, RoleState &state) mutable {
        auto map = [&](ValueRange values) {
          return llvm::map_to_vector(
              values, [&](Value v) { return state.values.lookup(v); });
        };
        auto [source, indices, limit] = placeOf(last);
        if (limit)
          limit = state.values.lookup(limit);
        Value slot =
            tcgen::AcquireOp::create(b, loc, b.getIndexType(), channel);
        tcgen::ExpectOp::create(b, loc, channel, slot, bytes);
        if (type.getLayout() == tcgen::Layout::Line)
          tcgen::BulkLoadOp::create(b, loc, source, map(indices.drop_back()),
                                    payload, slot, channel);
        else
          tcgen::TmaLoadOp::create(b, loc, source, map(indices), limit, payload,
                                   slot, channel);
        for (auto [scaled, smemScales] : scales)
          tcgen::BulkLoadOp::create(b, loc, scaled.getScales(),
                                    map(scaled.getScaleIndices()), smemScales,
                                    slot, channel);
      },
      needs);
  planConsumers(last->getResult(0), group.consumers, last, roleOf(last),
                channel, payload);

  // Scales follow right before the first product that needs them, or before
  // each (planScaleCopy).
  if (hasSlots)
    return;
  for (auto [scaled, smemScales] : scales)
    for (auto &[name, consumer] : consumersOf(scaled.getResult())) {
      Value tmemScales = loads[scaled.getResult()].scales;
      Step copy = [=, smemScales = smemScales](OpBuilder &b, RoleState &state) {
        tcgen::CopyScalesOp::create(b, loc, smemScales,
                                    state.consumed.lookup(channel), tmemScales,
                                    createZero(b, loc));
      };
      if (name == mmaRole)
        copy = unlessEarly(last->getResult(0), copy);
      roleNamed(name).before(consumer.mma.first, StepOrder::Acquire, copy);
    }
}
