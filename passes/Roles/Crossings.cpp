//===- Crossings.cpp - Buffers and channels of values that cross ----------===//

#include "passes/Roles/Crossings.h"
#include "passes/Roles/Handover.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using tcgen::Agent;

static bool isConstant(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>();
}

CrossingPlanner::CrossingPlanner(KernelOp kernel,
                                 const Accumulators &accumulators,
                                 OpBuilder &builder, int64_t maxStages)
    : kernel(kernel), accumulators(accumulators), builder(builder),
      maxStages(maxStages) {
  // Vector roles come first: their warps own the lanes of tensor memory.
  SmallVector<StringRef> names;
  kernel.walk([&](Operation *op) {
    hasSlots |= slotOf(op).has_value();
    if (isVectorRole(roleOf(op)) && !isConstant(op) &&
        !llvm::is_contained(names, roleOf(op)))
      names.push_back(roleOf(op));
  });
  llvm::sort(names);
  names.append({kLoadRole, kMmaRole});
  for (StringRef name : names)
    roles.insert({name, RoleBuilder(name)});
}

//===----------------------------------------------------------------------===//
// Buffers and channels
//===----------------------------------------------------------------------===//

Value CrossingPlanner::createBuffer(Location loc, tcgen::Space space,
                                    tcgen::Layout layout, int64_t slots,
                                    int64_t rows, int64_t cols, Type element) {
  auto type = tcgen::BufferType::get(builder.getContext(), space, layout, slots,
                                     rows, cols, element);
  return tcgen::AllocOp::create(builder, loc, type, IntegerAttr());
}

Value CrossingPlanner::createChannel(Location loc, int64_t slots, int64_t full,
                                     int64_t empty) {
  return tcgen::ChannelOp::create(builder, loc,
                                  tcgen::ChannelType::get(builder.getContext()),
                                  slots, full, empty);
}

Value CrossingPlanner::createConstantScales(Location loc, int64_t byte,
                                            int64_t rows, int64_t cols) {
  Value &scales = constantScales[{byte, rows, cols}];
  if (!scales) {
    scales = createBuffer(loc, tcgen::Space::Tmem, tcgen::Layout::Scales, 1,
                          rows, cols, Float8E8M0FNUType::get(loc.getContext()));
    tcgen::FillScalesOp::create(builder, loc, scales, byte);
  }
  return scales;
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

/// Columns that accumulators and left operands take when each has its own.
int64_t CrossingPlanner::countColumns() {
  int64_t columns = 0;
  llvm::DenseSet<Value> operands;
  for (const Web &web : accumulators.getWebs()) {
    DotOp first = web.dots[0];
    columns += getTileShape(first.getType()).second;
    for (DotOp dot : web.dots) {
      OperandRoot root = lookThroughTransposes(dot.getA());
      Type type = root.value.getType();
      // Atoms of both operands' scales: 4 columns each.
      if (auto scaled = dyn_cast<ScaledType>(type))
        columns +=
            8 * llvm::divideCeil(getTileShape(dot.getA().getType()).second,
                                 4 * getScaleUnit(scaled.getScaleType()));
      if (!loads.contains(root.value) && !root.transposed &&
          operands.insert(root.value).second)
        columns += getTileShape(type).second *
                   elementOf(type).getIntOrFloatBitWidth() / 32;
    }
  }
  return columns;
}

/// How many products of the block that start from zero come before the product.
static int64_t placeInBlock(Operation *op) {
  if (!isa_and_nonnull<DotOp>(op))
    return 0;
  return llvm::count_if(op->getBlock()->getOps<DotOp>(), [&](DotOp dot) {
    return isZeroTile(dot.getAcc()) && dot->isBeforeInBlock(op);
  });
}

/// A buffer of that type whose last user comes before `next` does. Program
/// order is an order in which the roles can run, so waiting for it ends.
CrossingPlanner::Turn *CrossingPlanner::findTurn(tcgen::BufferType type,
                                                 StringRef role,
                                                 Operation *next) {
  if (!takesTurns || !next)
    return nullptr;
  for (Turn &turn : turns)
    if (turn.buffer.getType() == type && turn.role == role &&
        (hasSlots || issuesAhead ||
         turn.lastUse->getBlock() == next->getBlock()) &&
        comesBefore(turn.lastUse, next) &&
        (mayTakeTurns == Turns::OfAll || turn.place == placeInBlock(next)))
      return &turn;
  return nullptr;
}

void CrossingPlanner::takeTurn(Turn *turn, Value buffer, Value channel,
                               StringRef role, Operation *lastUse,
                               int64_t place) {
  if (turn)
    turn->lastUse = lastUse;
  else
    turns.push_back({buffer, channel, lastUse, role, place});
}

//===----------------------------------------------------------------------===//
// Consumers
//===----------------------------------------------------------------------===//

void CrossingPlanner::Consumer::add(const Consumer &other) {
  auto join = [](UseRange &range, const UseRange &more) {
    if (more.first) {
      range.add(more.first);
      range.add(more.last);
    }
  };
  join(mma, other.mma);
  join(vector, other.vector);
  join(any, other.any);
}

CrossingPlanner::Consumers CrossingPlanner::consumersOf(Value value) {
  Consumers consumers;
  Block *block = blockOf(value);
  for (OpOperand *use : accumulators.vectorUses(value)) {
    auto dot = dyn_cast<DotOp>(use->getOwner());
    bool isOperand = dot && use != &dot.getAccMutable();
    Operation *anchor = ancestorIn(block, use->getOwner());
    Consumer &consumer =
        consumers[isOperand ? roleOf(dot) : vectorRoleOfUse(*use, value)];
    (isOperand ? consumer.mma : consumer.vector).add(anchor);
    consumer.any.add(anchor);
  }
  return consumers;
}

/// The step where it is planned, unless the first products of a loop use the
/// load earlier (placeOfFirst).
Step CrossingPlanner::unlessEarly(Value load, Step step) {
  LoadUse &use = loadUses[load];
  use.steps.push_back(step);
  return [step = std::move(step), isEarly = use.isEarly](OpBuilder &b,
                                                         RoleState &state) {
    if (!*isEarly)
      step(b, state);
  };
}

/// Waits where each role first uses the value and releases it after the last
/// use. A role that is also the producer waits at once.
void CrossingPlanner::planConsumers(Value value, const Consumers &consumers,
                                    Operation *producer, StringRef producerRole,
                                    Value channel, Value buffer) {
  for (auto &[name, consumer] : consumers) {
    RoleBuilder &role = roleNamed(name);
    Location loc = value.getLoc();
    bool forMma = consumer.mma.first != nullptr;
    // Vector code alone waits where it reads: a ring that several loads share
    // is then free again for the next one.
    bool waitsWhereRead = !forMma && name != producerRole;
    Step wait = [=](OpBuilder &b, RoleState &state) {
      state.consumed[channel] =
          tcgen::WaitOp::create(b, loc, b.getIndexType(), channel);
    };
    if (name == mmaRole && unitOf(producer) == Unit::Tma)
      wait = unlessEarly(value, wait);
    if (name == producerRole)
      role.after(producer, StepOrder::MmaWait, wait);
    else if (!waitsWhereRead)
      role.before(consumer.any.first, StepOrder::MmaWait, wait);

    if (consumer.vector.first) {
      role.supply(value);
      Step read = [=](OpBuilder &b, RoleState &state) {
        if (waitsWhereRead)
          wait(b, state);
        Value slot = state.consumed.lookup(channel);
        Value tile =
            tcgen::ReadOp::create(b, loc, value.getType(), buffer, slot);
        state.values.map(value, tile);
        tcgen::ReleaseOp::create(b, loc, channel, slot, Agent::Threads);
      };
      // Waiting for a line in the midst of vector code would part it.
      if (waitsWhereRead && isLineLoad(producer))
        role.after(producer, StepOrder::Read, read);
      else
        role.before(consumer.vector.first, StepOrder::Read, read);
    }
    if (forMma)
      role.after(consumer.mma.last, StepOrder::Release,
                 [=](OpBuilder &b, RoleState &state) {
                   tcgen::ReleaseOp::create(b, loc, channel,
                                            state.consumed.lookup(channel),
                                            Agent::Mma);
                 });
  }
}

//===----------------------------------------------------------------------===//
// Operands from registers
//===----------------------------------------------------------------------===//

/// Adds a step where a vector value has just been made.
static void whereMade(RoleBuilder &role, Value value, StepOrder order,
                      Step step, ValueRange needs = {}) {
  if (Operation *op = value.getDefiningOp())
    role.after(op, order, std::move(step), needs);
  else
    role.before(&value.getParentBlock()->front(), order, std::move(step),
                needs);
}

CrossingPlanner::OperandShape CrossingPlanner::shapeOf(OpOperand &use) {
  bool isA = &use == &cast<DotOp>(use.getOwner()).getAMutable();
  return {isA, isA != lookThroughTransposes(use.get()).transposed};
}

FailureOr<OperandBuffer>
CrossingPlanner::planVectorOperand(DotOp dot, Value value,
                                   OperandShape wanted) {
  bool isA = wanted.isA, alongCols = wanted.alongCols;
  OperandBuffer &image =
      vectorOperands[{value.getAsOpaquePointer(), isA, alongCols}];
  if (image.payload)
    return image;
  Location loc = value.getLoc();
  Type element = elementOf(value.getType());
  auto [rows, cols] = getTileShape(value.getType());
  Operation *user = *value.getUsers().begin();
  if (rows != 128)
    return user->emitError("vector code works on tiles of 128 rows, but the "
                           "operand is ")
           << value.getType();
  // Tensor memory holds rows of a left operand, and only those.
  bool inTmem = isA && alongCols;
  if (!inTmem && failed(checkImage(user, value.getType())))
    return failure();

  auto type = tcgen::BufferType::get(
      builder.getContext(), inTmem ? tcgen::Space::Tmem : tcgen::Space::Smem,
      inTmem ? tcgen::Layout::Lanes : tcgen::Layout::Operand, 1, rows, cols,
      element);
  auto quantize = value.getDefiningOp<QuantizeOp>();
  bool isStatic = quantize && quantize.getExponent() && !quantize.getShift();
  bool isDynamic = isa<ScaledType>(value.getType()) && !isStatic;
  // Dynamic scales have buffers of their own; they do not take turns.
  StringRef vectorName = vectorRoleOf(dot);
  Turn *turn = inTmem && !isDynamic
                   ? findTurn(type, vectorName, value.getDefiningOp())
                   : nullptr;
  if (turn) {
    image.payload = turn->buffer;
    image.channel = turn->channel;
  } else {
    image.payload = tcgen::AllocOp::create(builder, loc, type, IntegerAttr());
    image.channel = createChannel(loc, 1, kVectorWarps, 1);
  }
  Value smemScales;
  std::optional<int64_t> filled;
  if (auto type = dyn_cast<ScaledType>(value.getType())) {
    int64_t scaleRows = alongCols ? rows : cols;
    int64_t blocks = llvm::divideCeil(alongCols ? cols : rows, kScaleBlock);
    if (isStatic) {
      int64_t byte = 127 + static_cast<int32_t>(*quantize.getExponent());
      if (std::optional<uint32_t> shift = quantize.getShiftBy())
        byte = std::clamp<int64_t>(byte + static_cast<int32_t>(*shift), 0, 254);
      if (hasSlots) {
        filled = byte;
        image.scales =
            createBuffer(loc, tcgen::Space::Tmem, tcgen::Layout::Scales, 1,
                         scaleRows, blocks, type.getScaleType());
      } else {
        image.scales = createConstantScales(loc, byte, scaleRows, blocks);
      }
    } else {
      smemScales = createBuffer(loc, tcgen::Space::Smem, tcgen::Layout::Scales,
                                1, scaleRows, blocks, type.getScaleType());
      image.scales =
          createBuffer(loc, tcgen::Space::Tmem, tcgen::Layout::Scales, 1,
                       scaleRows, blocks, type.getScaleType());
    }
  }

  UseRange range;
  for (OpOperand *use : usesThroughTransposes(value)) {
    auto dot = dyn_cast<DotOp>(use->getOwner());
    if (!dot || use == &dot.getAccMutable())
      continue;
    OperandShape shape = shapeOf(*use);
    if (shape.isA == isA && shape.alongCols == alongCols)
      range.add(ancestorIn(blockOf(value), dot));
  }
  RoleBuilder &vector = roleNamed(vectorName);
  Value channel = image.channel, payload = image.payload;
  Value filledScales = filled ? image.scales : Value();
  Value grant =
      inTmem && hasSlots ? planGrant(vectorName, range.first) : Value();
  Step write = [=](OpBuilder &b, RoleState &state) {
    if (grant)
      tcgen::WaitOp::create(b, loc, b.getIndexType(), grant);
    Value slot = tcgen::AcquireOp::create(b, loc, b.getIndexType(), channel);
    Value tile = state.values.lookup(value);
    tcgen::WriteOp::create(b, loc, tile, payload, slot);
    if (filledScales)
      tcgen::FillScalesOp::create(b, loc, filledScales, *filled);
    if (smemScales)
      tcgen::WriteScalesOp::create(b, loc, tile, smemScales, slot,
                                   alongCols ? Axis::Cols : Axis::Rows);
    tcgen::PublishOp::create(b, loc, channel, slot, Agent::Threads);
  };
  // With a grant to wait for, behind all that the product waits for besides.
  if (grant && range.first->getParentOfType<scf::ForOp>() &&
      blockOf(value) == range.first->getBlock())
    vector.before(range.first, StepOrder::ThreadSignal, write, value);
  else
    whereMade(vector, value, StepOrder::Write, write, value);
  if (inTmem && !isDynamic)
    takeTurn(turn, payload, channel, vectorName, range.last, /*place=*/0);
  RoleBuilder &mma = roleNamed(mmaRole);
  Value tmemScales = image.scales;
  Step wait = [=](OpBuilder &b, RoleState &state) {
    Value slot = tcgen::WaitOp::create(b, loc, b.getIndexType(), channel);
    state.consumed[channel] = slot;
    if (smemScales)
      tcgen::CopyScalesOp::create(b, loc, smemScales, slot, tmemScales,
                                  createZero(b, loc));
  };
  if (mmaRole == kVectorRole)
    whereMade(mma, value, StepOrder::ThreadWait, wait);
  else
    mma.before(range.first, StepOrder::ThreadWait, wait);
  mma.after(range.last, StepOrder::Release,
            [=](OpBuilder &b, RoleState &state) {
              tcgen::ReleaseOp::create(
                  b, loc, channel, state.consumed.lookup(channel), Agent::Mma);
            });
  return image;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// What the tensor core can multiply, of what flamia.dot allows.
static LogicalResult checkShape(DotOp dot) {
  int64_t m = getTileShape(dot.getA().getType()).first;
  int64_t n = getTileShape(dot.getB().getType()).second;
  if (m != 128)
    return dot.emitError("expected a left operand of 128 rows, but got ") << m;
  if (n % 16 != 0)
    return dot.emitError("expected the right operand to have a multiple of 16 "
                         "columns, but got ")
           << n;
  return success();
}

/// Packed operands come from memory, with the contraction along their rows'
/// bytes: kind::mxf4nvf4 has no transposed operands, and no pass writes them.
LogicalResult CrossingPlanner::checkPacked(DotOp dot) {
  for (OpOperand *use : {&dot.getAMutable(), &dot.getBMutable()}) {
    auto type = dyn_cast<ScaledType>(use->get().getType());
    if (!type || !isa<Float4E2M1FNType>(type.getElementType()))
      continue;
    StringRef name = shapeOf(*use).isA ? "a" : "b";
    Value root = lookThroughTransposes(use->get()).value;
    if (!root.getDefiningOp<LoadScaledOp>())
      return dot.emitError("expected operand '")
             << name
             << "' of f4E2M1FN to be loaded by flamia.load_scaled: no "
                "other value becomes packed in shared memory";
    if (!shapeOf(*use).alongCols)
      return dot.emitError("expected operand '")
             << name
             << "' of f4E2M1FN to be contracted along the columns of its tile "
                "in memory (K-major), but it is contracted along the rows of "
             << root.getType();
  }
  return success();
}

FailureOr<OperandBuffer> CrossingPlanner::operandOf(OpOperand &use) {
  OperandShape shape = shapeOf(use);
  Value root = lookThroughTransposes(use.get()).value;
  auto dot = cast<DotOp>(use.getOwner());
  auto load = loads.find(root);
  if (load == loads.end())
    return planVectorOperand(dot, root, shape);
  auto scaled = root.getDefiningOp<LoadScaledOp>();
  if (scaled && (scaled.getAlong() == Axis::Cols) != shape.alongCols) {
    InFlightDiagnostic diagnostic =
        scaled.emitError("expected scales along ")
        << stringifyAxis(shape.alongCols ? Axis::Cols : Axis::Rows)
        << ", the axis that a product contracts, but got "
        << stringifyAxis(scaled.getAlong());
    diagnostic.attachNote(dot.getLoc()) << "the product";
    return diagnostic;
  }
  OperandBuffer image = load->second;
  if (scaled && hasSlots)
    planScaleCopy(dot, scaled, image);
  if (root.getDefiningOp<LoadPayloadOp>()) {
    auto [rows, cols] = getTileShape(root.getType());
    image.scales = createConstantScales(
        root.getLoc(), 127, shape.alongCols ? rows : cols,
        llvm::divideCeil(shape.alongCols ? cols : rows, kScaleBlock));
  }
  return image;
}

/// Plans a product into `buffer`. `channel` is null when the buffer does not
/// follow the ordinary order of acquire, product, publish.
LogicalResult CrossingPlanner::planDot(DotOp dot, const Web &web, Value buffer,
                                       Value channel) {
  FailureOr<OperandBuffer> a = operandOf(dot.getAMutable());
  FailureOr<OperandBuffer> b = failed(a) ? a : operandOf(dot.getBMutable());
  if (failed(a) || failed(b))
    return failure();
  auto majorOf = [](OpOperand &use) {
    return shapeOf(use).alongCols ? tcgen::Major::K : tcgen::Major::MN;
  };
  tcgen::Major major = majorOf(dot.getBMutable());
  tcgen::Major aMajor = majorOf(dot.getAMutable());
  // The first product of a loop overwrites what the buffer holds.
  scf::ForOp first;
  if (const CarriedSlot *lazy = web.lazyZero();
      lazy && dot.getAcc() == lazy->arg())
    first = lazy->loop;
  bool accumulates = !isZeroTile(dot.getAcc());
  SmallVector<Value> needs;
  if (first)
    needs = {first.getInductionVar(), first.getLowerBound()};

  RoleBuilder &mma = roleNamed(mmaRole);
  mma.execute(
      dot,
      [=, a = *a, b = *b](OpBuilder &builder, RoleState &state) mutable {
        Location loc = dot.getLoc();
        Value zero = createZero(builder, loc);
        Value accumulate;
        if (first)
          accumulate = arith::CmpIOp::create(
              builder, loc, arith::CmpIPredicate::ne,
              state.values.lookup(first.getInductionVar()),
              state.values.lookup(first.getLowerBound()));
        else
          accumulate = arith::ConstantOp::create(
              builder, loc, builder.getBoolAttr(accumulates));
        tcgen::MmaOp::create(builder, loc, buffer,
                             channel ? state.produced.lookup(channel) : zero,
                             a.payload, state.consumed.lookup(a.channel),
                             b.payload, state.consumed.lookup(b.channel),
                             a.scales, a.scales ? zero : Value(), b.scales,
                             b.scales ? zero : Value(), accumulate, major,
                             aMajor);
      },
      needs);
  return success();
}

LogicalResult CrossingPlanner::planWeb(const Web &web) {
  DotOp dot = web.dots[0];
  auto [rows, cols] = getTileShape(dot.getType());
  Location loc = dot.getLoc();
  auto type = tcgen::BufferType::get(builder.getContext(), tcgen::Space::Tmem,
                                     tcgen::Layout::Lanes, 1, rows, cols,
                                     builder.getF32Type());
  StringRef vectorName = mmaRole == kVectorRole ? mmaRole : vectorRoleOf(dot);
  Turn *turn = web.isFresh() ? findTurn(type, vectorName, dot) : nullptr;
  Value buffer =
      turn ? turn->buffer
           : tcgen::AllocOp::create(builder, loc, type, IntegerAttr());
  RoleBuilder &vector = roleNamed(vectorName), &mma = roleNamed(mmaRole);
  if (!web.isFresh()) {
    for (DotOp each : web.dots)
      if (failed(planDot(each, web, buffer, {})))
        return failure();
    // Without space accounting the empty barriers have no use.
    HandoverPlan plan{buffer, createChannel(loc, 1, 1, 1),
                      createChannel(loc, 1, kVectorWarps, 1), &vector, &mma};
    planHandovers(accumulators, web, plan);
    return success();
  }
  Value channel = turn ? turn->channel : createChannel(loc, 1, 1, kVectorWarps);
  freshChannels[dot] = channel;
  Consumers consumers = consumersOf(dot.getResult());
  if (!consumers.empty())
    takeTurn(turn, buffer, channel, vectorName,
             consumers.front().second.any.first, placeInBlock(dot));
  if (hasSlots) {
    resultChannels.insert({channel, vectorName});
    planDrainedWaits(dot);
  }
  if (failed(planDot(dot, web, buffer, channel)))
    return failure();
  mma.before(dot, StepOrder::Acquire, [=](OpBuilder &b, RoleState &state) {
    state.produced[channel] =
        tcgen::AcquireOp::create(b, loc, b.getIndexType(), channel);
  });
  mma.after(dot, StepOrder::MmaSignal, [=](OpBuilder &b, RoleState &state) {
    tcgen::PublishOp::create(b, loc, channel, state.produced.lookup(channel),
                             Agent::Mma);
  });
  planConsumers(dot.getResult(), consumers, dot, mmaRole, channel, buffer);
  return success();
}

//===----------------------------------------------------------------------===//
// The whole kernel
//===----------------------------------------------------------------------===//

LogicalResult CrossingPlanner::plan() {
  SmallVector<Operation *> tileLoads;
  DotOp firstDot;
  WalkResult result = kernel.walk([&](Operation *op) {
    Unit unit = unitOf(op);
    if (op == kernel.getOperation() || unit == Unit::None)
      return WalkResult::advance();
    if (roleOf(op).empty()) {
      op->emitError("expected a role on every tile operation: run "
                    "flamia-assign-roles first");
      return WalkResult::interrupt();
    }
    if (unit == Unit::Tma)
      tileLoads.push_back(op);
    else if (unit == Unit::Vector && !isMemoryEffectFree(op))
      roleNamed(roleOf(op)).execute(op);
    if (auto dot = dyn_cast<DotOp>(op)) {
      if (failed(checkShape(dot)) || failed(checkPacked(dot)))
        return WalkResult::interrupt();
      if (!firstDot)
        firstDot = dot;
      if (roleOf(dot) != roleOf(firstDot)) {
        dot.emitError("expected all products in one role, but got '")
            << roleOf(dot) << "' and '" << roleOf(firstDot) << "'";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (firstDot)
    mmaRole = roleOf(firstDot);
  if (failed(planLoads(tileLoads)))
    return failure();
  takesTurns = mayTakeTurns != Turns::None && countColumns() > 512;
  for (const Web &web : accumulators.getWebs())
    if (failed(planWeb(web)))
      return failure();
  planRotation();
  return success();
}
