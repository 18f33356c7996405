//===- ConvertFlamiaToNVVMChannels.cpp - Barriers and copies --------------===//
//
// Channel ends, arrivals and waits, TMA and bulk loads. Every warp of a role
// waits with all its lanes, but for channels between issuing threads alone; one
// elected lane of the role's first warp issues.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

/// A 32-bit variable that mem2reg turns into loop values.
static Value makeVariable(Emitter &e, Operation *front, int64_t initial) {
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(front);
  Value variable = e.op<LLVM::AllocaOp>(e.ptr(Generic), e.i32(), e.c32(1), 4);
  LLVM::StoreOp::create(e.b, e.loc, e.c32(initial), variable, 4);
  return variable;
}

/// The variables of each role and end of a channel it uses. A role may be
/// producer and consumer of the same channel. A role's parities share registers
/// of 32.
KernelLowering::End &KernelLowering::end(Value channel, bool producer) {
  unsigned roleIndex = role ? role - roles.begin() + 1 : 0;
  End &result = ends[{channel, 2 * roleIndex + producer}];
  if (result.parities)
    return result;
  Parities &parities = roleParities[roleIndex];
  if (!parities.variable || parities.count == 32) {
    parities = {makeVariable(e, entryMark, 0), 0};
    parities.initial = cast<LLVM::StoreOp>(entryMark->getPrevNode())
                           .getValue()
                           .getDefiningOp<arith::ConstantOp>();
  }
  result.parities = parities.variable;
  result.bit = parities.count++;
  // Parity 1 of a fresh barrier counts as complete: the first pass of the
  // producer over the ring does not wait.
  uint32_t bits = cast<IntegerAttr>(parities.initial.getValue()).getInt();
  bits |= uint32_t(producer) << result.bit;
  parities.initial.setValueAttr(
      IntegerAttr::get(e.i32(), static_cast<int32_t>(bits)));
  if (channels[channel].slots > 1)
    result.slot = makeVariable(e, entryMark, 0);
  return result;
}

/// The base of a memory. LLVM would hoist all addresses and descriptors of a
/// loop out of it, and a thread has not so many registers: each use computes
/// them anew.
Value KernelLowering::base(Value memory) { return e.inPlace(memory).front(); }

Value KernelLowering::barrier(int64_t offset, Value slot) {
  Value index = e.trunc32(e.toI64(slot));
  return e.intToPtr(
      e.add(e.addC(base(smemBase), bufferBytes + offset), e.shl(index, 3)),
      Shared);
}

bool lowering::writesTo(Operation *op, tcgen::Space space) {
  if (auto write = dyn_cast<tcgen::WriteOp>(op))
    return write.getBuffer().getType().getSpace() == space;
  return isa<tcgen::WriteScalesOp>(op)  ? space == tcgen::Space::Smem
         : isa<tcgen::FillScalesOp>(op) ? space == tcgen::Space::Tmem
                                        : false;
}

/// Whether threads arrive at a barrier here.
static bool byThreads(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<tcgen::PublishOp, tcgen::ReleaseOp>([](auto signal) {
        return signal.getAgent() == tcgen::Agent::Threads;
      })
      .Default(false);
}

/// Whether threads, or engines they start, may access tensor memory or operands
/// of products here, so that tcgen05.fence has a purpose.
static bool usesTensorCore(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool uses =
            isa<tcgen::MmaOp, tcgen::CopyScalesOp, tcgen::CopyOperandOp,
                tcgen::DrainOp, tcgen::ReadMaxOp, tcgen::FillScalesOp>(inner);
        if (auto read = dyn_cast<tcgen::ReadOp>(inner))
          uses = read.getBuffer().getType().getSpace() == tcgen::Space::Tmem;
        return uses || writesTo(inner, tcgen::Space::Tmem)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Signals of threads and of what they issued.
static bool signals(Operation *op) {
  return isa<tcgen::PublishOp, tcgen::ReleaseOp, tcgen::ExpectOp>(op);
}

static bool waits(Operation *op) {
  return isa<tcgen::WaitOp, tcgen::AcquireOp, tcgen::DrainedOp>(op);
}

/// Whether all threads wait again before anything that the fence behind a wait
/// is for. The fence of the later wait then does for both.
bool KernelLowering::waitsAgain(Operation *wait) {
  for (Operation *op = wait->getNextNode(); op; op = op->getNextNode()) {
    if (waits(op))
      return !channels[op->getOperand(0)].ofIssuers ||
             isa<tcgen::DrainedOp>(op) || (role && role->warps == 1);
    if (op->getNumRegions() > 0 || signals(op) || usesTensorCore(op))
      return false;
  }
  return false;
}

/// Whether threads arrived at a barrier and have neither waited nor accessed
/// tensor memory since: then nothing is left for a fence in front of `arrival`.
static bool followsArrival(Operation *arrival) {
  for (Operation *op = arrival->getPrevNode(); op; op = op->getPrevNode()) {
    if (byThreads(op))
      return true;
    if (op->getNumRegions() > 0 || waits(op) || usesTensorCore(op))
      return false;
  }
  return false;
}

void KernelLowering::waitBarrier(Value barrier, Value parity, Operation *wait) {
  // A loop in the control flow graph: nvvm.mbarrier.try_wait.parity would be
  // opaque assembly.
  auto loop = scf::WhileOp::create(e.b, e.loc, TypeRange{}, ValueRange{});
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.createBlock(&loop.getBefore());
    Value done =
        e.op<NVVM::MBarrierTryWaitOp>(e.i1(), barrier, parity, Value());
    Value again = e.xori(done, e.op<arith::ConstantOp>(e.b.getBoolAttr(true)));
    scf::ConditionOp::create(e.b, e.loc, again, ValueRange{});
    e.b.createBlock(&loop.getAfter());
    scf::YieldOp::create(e.b, e.loc);
  }
  if (tmemColumns > 0 && !(wait && waitsAgain(wait)))
    NVVM::Tcgen05FenceOp::create(e.b, e.loc,
                                 NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
}

/// Waits for the next slot of this end and returns it as an index.
Value KernelLowering::advance(Operation *op, Value channel, bool producer) {
  const Channel &info = channels[channel];
  End &state = end(channel, producer);
  Value parities = e.op<LLVM::LoadOp>(e.i32(), state.parities, 4);
  Value parity = e.andi(e.shr(parities, state.bit), e.c32(1));
  Value slot, index = e.cIndex(0);
  if (state.slot) {
    slot = e.op<LLVM::LoadOp>(e.i32(), state.slot, 4);
    index = e.toIndex(e.toI64(slot));
  }
  auto wait = [&] {
    waitBarrier(barrier(producer ? info.emptyOffset : info.fullOffset, index),
                parity, op);
  };
  if (info.ofIssuers && (!role || role->warps > 1))
    e.ifThen(isFirstWarp(), wait);
  else
    wait();
  Value flip = e.c32(int64_t(1) << state.bit);
  if (state.slot) {
    Value next = e.addC(slot, 1);
    Value wraps = e.cmp(arith::CmpIPredicate::eq, next, e.c32(info.slots));
    LLVM::StoreOp::create(e.b, e.loc, e.select(wraps, e.c32(0), next),
                          state.slot, 4);
    flip = e.select(wraps, flip, e.c32(0));
  }
  LLVM::StoreOp::create(e.b, e.loc, e.xori(parities, flip), state.parities, 4);
  return index;
}

/// As a producer's advance, which stays where it is.
void KernelLowering::lowerDrained(tcgen::DrainedOp op) {
  const Channel &info = channels[op.getChannel()];
  End &state = end(op.getChannel(), /*producer=*/true);
  Value parities = e.op<LLVM::LoadOp>(e.i32(), state.parities, 4);
  Value parity = e.andi(e.shr(parities, state.bit), e.c32(1));
  Value index = e.cIndex(0);
  if (state.slot)
    index = e.toIndex(e.toI64(e.op<LLVM::LoadOp>(e.i32(), state.slot, 4)));
  waitBarrier(barrier(info.emptyOffset, index), parity, op);
}

/// Whether this is the warp that issues for its role.
Value KernelLowering::isFirstWarp() {
  return e.cmp(arith::CmpIPredicate::eq, warp,
               e.c32(role ? role->firstWarp : 0));
}

/// Whether the operation only computes; Emitter::inPlace does not count.
static bool isArithmetic(Operation &op) {
  auto assembly = dyn_cast<LLVM::InlineAsmOp>(op);
  return assembly ? assembly.getAsmString().empty() : isMemoryEffectFree(&op);
}

void KernelLowering::issue(function_ref<void()> body) {
  auto elected = [&] {
    e.ifThen(e.op<NVVM::ElectSyncOp>(e.i1(), Value()), body);
  };
  if (!role || role->warps > 1)
    return e.ifThen(isFirstWarp(), elected);
  // One election for all that is issued without a wait between.
  Block *block = e.b.getInsertionBlock();
  Block::iterator here = e.b.getInsertionPoint();
  if (lastIssue && lastIssue->getBlock() == block &&
      (here == block->end() || lastIssue->isBeforeInBlock(&*here)) &&
      llvm::all_of(llvm::make_range(std::next(lastIssue->getIterator()), here),
                   isArithmetic)) {
    lastIssue->moveBefore(block, here);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPoint(lastIssue.thenYield());
    return body();
  }
  elected();
  lastIssue = cast<scf::IfOp>(*std::prev(here));
}

/// Looks back from `end`, or from the block's end, for what came last: true for
/// a write to `space`, false for threads that arrived at a barrier, none for
/// neither.
static std::optional<bool> lastWasWrite(Block *block, Operation *end,
                                        tcgen::Space space) {
  for (Operation *op = end ? end->getPrevNode() : &block->back(); op;
       op = op->getPrevNode()) {
    if (byThreads(op))
      return false;
    if (writesTo(op, space))
      return true;
    // May not run: if it does not end in a write, what is before it counts.
    for (Region &region : op->getRegions())
      for (Block &inner : region)
        if (lastWasWrite(&inner, /*end=*/nullptr, space).value_or(false))
          return true;
  }
  return std::nullopt;
}

/// Whether threads may have written to `space` since they last arrived at a
/// barrier, in this iteration of the loops around `arrival` or the one before.
static bool writesSinceArrival(Operation *arrival, tcgen::Space space) {
  for (Operation *op = arrival;; op = op->getParentOp()) {
    if (auto known = lastWasWrite(op->getBlock(), op, space))
      return *known;
    // Waiting for tensor memory costs nothing where nothing is written, and
    // ptxas moves no loads over it: without, two kernels spill.
    if (space == tcgen::Space::Tmem)
      return true;
    Operation *parent = op->getParentOp();
    if (isa<scf::ForOp>(parent)) {
      if (lastWasWrite(op->getBlock(), /*end=*/nullptr, space).value_or(false))
        return true;
    } else if (!isa<scf::IfOp>(parent)) {
      return true;
    }
  }
}

void KernelLowering::arrive(Operation *op, Value barrier, tcgen::Agent agent) {
  if (agent == tcgen::Agent::Mma) {
    issue([&] {
      NVVM::Tcgen05CommitOp::create(e.b, e.loc, barrier, Value(),
                                    NVVM::CTAGroupKind::CTA_1);
    });
    return;
  }
  if (role && role->writesTmem && writesSinceArrival(op, tcgen::Space::Tmem))
    NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::STORE);
  if (role && role->writesSmem && writesSinceArrival(op, tcgen::Space::Smem))
    NVVM::FenceProxyOp::create(
        e.b, e.loc, NVVM::ProxyKind::async_shared,
        NVVM::SharedSpaceAttr::get(e.b.getContext(),
                                   NVVM::SharedSpace::shared_cta));
  if (tmemColumns > 0 && !followsArrival(op))
    NVVM::Tcgen05FenceOp::create(e.b, e.loc,
                                 NVVM::Tcgen05FenceKind::BEFORE_THREAD_SYNC);
  // One arrival a warp, after all its lanes. An election would be made anew
  // each time; what issues tcgen05 and TMA needs one, an arrival does not.
  NVVM::SyncWarpOp::create(e.b, e.loc, e.c32(-1));
  e.ifThen(e.cmp(arith::CmpIPredicate::eq, lane, e.c32(0)), [&] {
    NVVM::MBarrierArriveOp::create(e.b, e.loc, Type(e.i64()), barrier, Value());
  });
}

void KernelLowering::lowerExpect(tcgen::ExpectOp op) {
  Value full = barrier(channels[op.getChannel()].fullOffset, get(op.getSlot()));
  issue([&] {
    NVVM::MBarrierArriveExpectTxOp::create(e.b, e.loc, TypeRange{}, full,
                                           e.c32(op.getBytes()),
                                           NVVM::MemScopeKind::CTA,
                                           /*relaxed=*/false, Value());
  });
}

void KernelLowering::lowerDrain() {
  Value drain = barrier(barrierBytes, e.cIndex(0));
  issue([&] {
    NVVM::Tcgen05CommitOp::create(e.b, e.loc, drain, Value(),
                                  NVVM::CTAGroupKind::CTA_1);
  });
  if (!drainParity)
    drainParity = makeVariable(e, entryMark, 0);
  Value parity = e.op<LLVM::LoadOp>(e.i32(), drainParity, 4);
  waitBarrier(drain, parity);
  LLVM::StoreOp::create(e.b, e.loc, e.xori(parity, e.c32(1)), drainParity, 4);
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

/// The slot's address in the memory at `base`, from the first column of a part
/// on. Scales of a row lie side by side in a word.
Value KernelLowering::slotAddress(Value base, Value buffer, Value slot,
                                  int64_t unitBits) {
  tcgen::AllocOp alloc = tcgen::allocOf(buffer);
  tcgen::BufferType type = alloc.getType();
  Value address = e.add(e.addC(base, *alloc.getOffset()),
                        e.mulC(e.trunc32(e.toI64(slot)), type.getSlotSize()));
  auto part = buffer.getDefiningOp<tcgen::PartOp>();
  if (!part)
    return address;
  int64_t bits = type.getElementType().getIntOrFloatBitWidth();
  Value first = e.trunc32(i64(part.getFirst()));
  return e.add(address, bits >= unitBits
                            ? e.mulC(first, bits / unitBits)
                            : e.shr(first, llvm::Log2_64(unitBits / bits)));
}

Value KernelLowering::smemAddress(Value buffer, Value slot) {
  return slotAddress(base(smemBase), buffer, slot, 8);
}

Value KernelLowering::tmemAddress(Value buffer, Value slot) {
  return slotAddress(base(tmemBase), buffer, slot, 32);
}

LogicalResult KernelLowering::lowerTmaLoad(tcgen::TmaLoadOp op) {
  auto type = cast<tcgen::BufferType>(op.getBuffer().getType());
  Value source = op.getSource();
  auto memref = cast<MemRefType>(source.getType());
  int64_t rank = memref.getRank();
  if (failed(checkAccess(op, source, type.getElementType(), op.getIndices())))
    return failure();
  if (rank != 2 && rank != 3)
    return unsupported(op, "expected a tensor of rank 2 or 3, but got ")
           << memref;
  if (type.getRows() > kMaxBoxRows)
    return unsupported(op, "expected tiles of at most ")
           << kMaxBoxRows << " rows, but got " << type.getRows();
  if (APInt column;
      matchPattern(op.getIndices().back(), m_ConstantInt(&column)) &&
      column.getSExtValue() * memref.getElementTypeBitWidth() / 8 % 16 != 0)
    return unsupported(op, "expected tiles for TMA to start at a multiple of "
                           "16 bytes in the row, but got column ")
           << column.getSExtValue() << " of " << memref;
  params[cast<BlockArgument>(source).getArgNumber()].read = true;

  int64_t span = type.getSpanBytes();
  Value map = tensorMapParam(source, {type.getRows(), span});
  // Rows are clipped at `limit` by two extra dimensions: x runs to 2^30, and
  // y and a bring the address back (modulo 2^64). See design of the ragged
  // tensor map in docs/artifact-format.md.
  Value firstRow = i64(op.getIndices().front());
  Value limit = dimParam(source, 0);
  if (op.getLimit())
    limit = e.op<arith::MinSIOp>(i64(op.getLimit()), limit);
  Value rows = e.op<arith::MinSIOp>(e.sub(limit, firstRow), e.c64(256));
  rows = e.op<arith::MaxSIOp>(rows, e.c64(0));
  Value x = e.trunc32(e.sub(e.c64(int64_t(1) << 30), rows));
  Value y = e.trunc32(e.add(firstRow, rows));
  // The map of packed elements has bytes for columns.
  int64_t bits = type.getElementType().getIntOrFloatBitWidth();
  int64_t perColumn = std::max<int64_t>(1, 8 / bits);
  Value column = e.trunc32(i64(op.getIndices().back()));
  if (perColumn > 1)
    column = e.shr(column, llvm::Log2_64(perColumn));
  Value full = barrier(channels[op.getChannel()].fullOffset, get(op.getSlot()));
  Value target = smemAddress(op.getBuffer(), get(op.getSlot()));

  Value head;
  if (rank == 3)
    head = e.trunc32(i64(op.getIndices()[1]));
  issue([&] {
    for (int64_t slab = 0; slab < type.getNumSlabs(); ++slab) {
      SmallVector<Value> coordinates{
          e.addC(column, 8 * slab * span / (bits * perColumn))};
      if (head)
        coordinates.push_back(head);
      coordinates.append({x, y, e.c32(1 << 30)});
      NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
          e.b, e.loc,
          e.intToPtr(e.addC(target, slab * type.getRows() * span), Shared), map,
          coordinates, full, ValueRange{}, Value(), Value(),
          NVVM::TMALoadModeAttr::get(e.b.getContext(), NVVM::TMALoadMode::TILE),
          e.b.getBoolAttr(true), NVVM::CTAGroupKindAttr(), Value());
    }
  });
  return success();
}

/// A row that lies in shared memory as in global memory.
LogicalResult KernelLowering::lowerLineLoad(tcgen::BulkLoadOp op) {
  auto type = cast<tcgen::BufferType>(op.getBuffer().getType());
  Value source = op.getSource();
  auto memref = cast<MemRefType>(source.getType());
  if (!isa<BlockArgument>(source) || !memref.getLayout().isIdentity())
    return unsupported(op, "expected a row-major kernel argument, but got ")
           << memref;
  params[cast<BlockArgument>(source).getArgNumber()].read = true;
  SmallVector<Value> indices;
  for (Value index : op.getIndices())
    indices.push_back(i64(index));
  indices.push_back(e.c64(0));
  Value full = barrier(channels[op.getChannel()].fullOffset, get(op.getSlot()));
  Value target = smemAddress(op.getBuffer(), get(op.getSlot()));
  issue([&] {
    NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
        e.b, e.loc, e.intToPtr(target, Shared), globalPointer(source, indices),
        full, e.c32(type.getSlotSize()), Value(), Value());
  });
  return success();
}

LogicalResult KernelLowering::lowerBulkLoad(tcgen::BulkLoadOp op) {
  auto type = cast<tcgen::BufferType>(op.getBuffer().getType());
  if (type.getLayout() == tcgen::Layout::Line)
    return lowerLineLoad(op);
  Value source = op.getSource();
  auto memref = cast<MemRefType>(source.getType());
  bool hasAtoms = isa<Float8E4M3FNType>(memref.getElementType());
  if (!isa<BlockArgument>(source) || memref.getRank() != (hasAtoms ? 4 : 3) ||
      memref.getShape().back() != 512 || op.getIndices().size() != 2 ||
      memref.getElementTypeBitWidth() != 8)
    return unsupported(op, "expected a kernel argument [tiles, heads, 512] of "
                           "bytes, or [tiles, heads, atoms, 512] of f8E4M3FN, "
                           "at [tile, head], but got ")
           << memref;
  params[cast<BlockArgument>(source).getArgNumber()].read = true;
  Value tile = i64(op.getIndices()[0]), head = i64(op.getIndices()[1]);
  Value full = barrier(channels[op.getChannel()].fullOffset, get(op.getSlot()));
  Value target = smemAddress(op.getBuffer(), get(op.getSlot()));
  int64_t rowGroups = llvm::divideCeil(type.getRows(), 128);
  issue([&] {
    for (int64_t atom = 0; atom < type.getNumAtoms(); ++atom) {
      int64_t rowGroup = atom % rowGroups, blockGroup = atom / rowGroups;
      Value from =
          hasAtoms
              ? globalPointer(source, {e.addC(tile, rowGroup), head,
                                       e.c64(blockGroup), e.c64(0)})
              : globalPointer(source, {e.addC(tile, rowGroup),
                                       e.addC(head, blockGroup), e.c64(0)});
      NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
          e.b, e.loc, e.intToPtr(e.addC(target, 512 * atom), Shared), from,
          full, e.c32(512), Value(), Value());
    }
  });
  return success();
}
