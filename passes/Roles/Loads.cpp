//===- Loads.cpp - Rings of tile loads ------------------------------------===//
//
// Each tile load gets a ring of its own: several slots inside loops. Where
// shared memory cannot hold even one slot of each, loads of one shape that only
// vector code reads follow each other through one ring.
//
//===----------------------------------------------------------------------===//

#include "passes/Roles/Crossings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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
  if (failed(checkImage(load, value.getType())))
    return failure();
  if (isa<LoadScaledOp>(load))
    for (auto &[name, consumer] : consumersOf(value))
      if (consumer.vector.first)
        return load->emitError("a scaled tile is loaded only for products, but "
                               "this one is used by vector code");
  return success();
}

CrossingPlanner::Ring CrossingPlanner::createRing(Operation *load,
                                                  const Consumers &consumers) {
  Value value = load->getResult(0);
  Location loc = load->getLoc();
  int64_t releases = 0;
  bool sameRole = false;
  for (auto &[name, consumer] : consumers) {
    releases += (consumer.mma.first ? 1 : 0) +
                (consumer.vector.first ? kVectorWarps : 0);
    sameRole |= name == roleOf(load);
  }
  int64_t slots =
      load->getParentOfType<scf::ForOp>() && !sameRole ? maxStages : 1;
  auto [rows, cols] = getTileShape(value.getType());

  Ring ring;
  ring.image.payload =
      createBuffer(loc, tcgen::Space::Smem, tcgen::Layout::Operand, slots, rows,
                   cols, elementOf(value.getType()));
  if (auto scaled = dyn_cast<LoadScaledOp>(load)) {
    bool alongCols = scaled.getAlong() == Axis::Cols;
    int64_t scaleRows = alongCols ? rows : cols;
    int64_t blocks = llvm::divideCeil(alongCols ? cols : rows, kScaleBlock);
    Type scale = scaled.getType().getScaleType();
    ring.smemScales =
        createBuffer(loc, tcgen::Space::Smem, tcgen::Layout::Scales, slots,
                     scaleRows, blocks, scale);
    ring.image.scales =
        createBuffer(loc, tcgen::Space::Tmem, tcgen::Layout::Scales, 1,
                     scaleRows, blocks, scale);
  }
  ring.image.channel = createChannel(loc, slots, 1, releases);
  return ring;
}

bool CrossingPlanner::canShare(const Ring &ring, Operation *load,
                               const Consumers &consumers,
                               ArrayRef<Operation *> laterLoads) {
  Operation *last = ring.load;
  if (last->getBlock() != load->getBlock() || roleOf(last) != roleOf(load) ||
      last->getResult(0).getType() != load->getResult(0).getType())
    return false;
  for (Operation *each : {last, load})
    for (auto &[name, consumer] : consumersOf(each->getResult(0)))
      if (consumer.mma.first)
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
  int64_t bytes = 0;
  for (Operation *load : tileLoads) {
    if (failed(checkLoad(load)))
      return failure();
    Type tile = load->getResult(0).getType();
    auto [rows, cols] = getTileShape(tile);
    bytes += rows * cols * elementOf(tile).getIntOrFloatBitWidth() / 8;
  }
  std::vector<Ring> rings;
  for (auto [index, load] : llvm::enumerate(tileLoads)) {
    Consumers consumers = consumersOf(load->getResult(0));
    if (consumers.empty())
      continue;
    Ring *ring = nullptr;
    if (bytes > kImageBytes)
      for (Ring &other : rings)
        if (canShare(other, load, consumers, tileLoads.drop_front(index + 1)))
          ring = &other;
    if (!ring)
      ring = &rings.emplace_back(createRing(load, consumers));
    ring->load = load;
    ring->firstUse = consumers.front().second.any.first;
    planLoad(load, consumers, *ring);
  }
  return success();
}

void CrossingPlanner::planLoad(Operation *load, const Consumers &consumers,
                               const Ring &ring) {
  Value value = load->getResult(0);
  Location loc = load->getLoc();
  auto scaled = dyn_cast<LoadScaledOp>(load);
  Value channel = ring.image.channel, payload = ring.image.payload;
  Value smemScales = ring.smemScales, tmemScales = ring.image.scales;
  int64_t bytes = cast<BufferType>(payload.getType()).getSlotSize();
  if (smemScales)
    bytes += cast<BufferType>(smemScales.getType()).getSlotSize();
  loads[value] = ring.image;

  Step execute = [=](OpBuilder &b, RoleState &state) mutable {
    auto map = [&](ValueRange values) {
      return llvm::map_to_vector(
          values, [&](Value v) { return state.values.lookup(v); });
    };
    OperandRange indices =
        scaled ? scaled.getIndices() : cast<LoadOp>(load).getIndices();
    Value limit = scaled ? scaled.getLimit() : cast<LoadOp>(load).getLimit();
    if (limit)
      limit = state.values.lookup(limit);
    Value slot = tcgen::AcquireOp::create(b, loc, b.getIndexType(), channel);
    tcgen::ExpectOp::create(b, loc, channel, slot, bytes);
    tcgen::TmaLoadOp::create(b, loc, load->getOperand(0), map(indices), limit,
                             payload, slot, channel);
    if (scaled)
      tcgen::BulkLoadOp::create(b, loc, scaled.getScales(),
                                map(scaled.getScaleIndices()), smemScales, slot,
                                channel);
  };
  roleNamed(roleOf(load)).execute(load, execute, load->getOperands());

  Step copyScales;
  if (scaled)
    copyScales = [=](OpBuilder &b, RoleState &state) {
      tcgen::CopyScalesOp::create(b, loc, smemScales,
                                  state.consumed.lookup(channel), tmemScales,
                                  createZero(b, loc));
    };
  planConsumers(value, consumers, load, roleOf(load), channel, payload,
                copyScales);
}
