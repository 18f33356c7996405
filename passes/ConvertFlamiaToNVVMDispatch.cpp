//===- ConvertFlamiaToNVVMDispatch.cpp - What lowers an op ----------------===//
//
// Blocks, the checks that hold for all ops, and the table of what lowers which.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block)
    if (failed(lowerOp(&op)))
      return failure();
  return success();
}

/// Tensors are arguments, buffers and channels are declared at the top level.
LogicalResult KernelLowering::checkOperands(Operation *op) {
  for (Value operand : op->getOperands()) {
    Type type = operand.getType();
    auto arg = dyn_cast<BlockArgument>(operand);
    if (isa<BaseMemRefType>(type) && (!isa<MemRefType>(type) || !arg ||
                                      arg.getOwner()->getParentOp() != kernel))
      return unsupported(op, "expected a tensor that is a kernel argument");
    if (isa<tcgen::BufferType>(type) &&
        (!tcgen::allocOf(operand) ||
         tcgen::allocOf(operand)->getParentOp() != kernel))
      return unsupported(op, "expected a buffer of the kernel's top level");
    if (isa<tcgen::ChannelType>(type) && !channels.contains(operand))
      return unsupported(op, "expected a channel of the kernel's top level");
  }
  return checkTiles(op);
}

/// Where the operation makes a part of a tile that is only stored: its store.
static StoreOp storeOfParts(Operation *op) {
  auto onlyUser = [](Operation *of) {
    return of->getNumResults() == 1 && of->hasOneUse() ? *of->user_begin()
                                                       : nullptr;
  };
  auto join = dyn_cast_or_null<tcgen::JoinOp>(onlyUser(op));
  auto store = join ? dyn_cast_or_null<StoreOp>(onlyUser(join)) : StoreOp();
  return store && !store.getIndices().empty() ? store : StoreOp();
}

LogicalResult KernelLowering::lowerOp(Operation *op) {
  if (failed(dispatch(op)))
    return failure();
  // LLVM computes values in the block that uses them, behind the loop that
  // waits; what can be done meanwhile is done in front of it. Where each column
  // is stored in a block of its own, parts are computed one after the other.
  StoreOp store = storeOfParts(op);
  if (livesOverWait(op) ||
      (store && accessWidth(store.getTarget(), store.getIndices(),
                            getTileShape(store.getValue().getType()).second)
                    .second))
    set(op->getResult(0),
        e.fromElements(e.inPlace(e.elements(get(op->getResult(0))))));
  return success();
}

LogicalResult KernelLowering::dispatch(Operation *op) {
  e.loc = op->getLoc();
  if (failed(checkOperands(op)))
    return failure();
  using namespace flamia::tcgen;
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<AllocOp, ChannelOp, PartOp, flamia::ReturnOp>(
          [&](auto) { return success(); })
      .Case([&](GroupOp o) { return lowerGroup(o), success(); })
      .Case([&](FillScalesOp o) {
        if (role) // others are part of the prologue
          emitFillScales(o);
        return success();
      })
      .Case([&](DrainedOp o) { return lowerDrained(o), success(); })
      .Case([&](AcquireOp o) {
        set(o.getSlot(), advance(o, o.getChannel(), /*producer=*/true));
        return success();
      })
      .Case([&](WaitOp o) {
        set(o.getSlot(), advance(o, o.getChannel(), /*producer=*/false));
        return success();
      })
      .Case([&](ExpectOp o) { return lowerExpect(o), success(); })
      .Case([&](PublishOp o) {
        arrive(o,
               barrier(channels[o.getChannel()].fullOffset, get(o.getSlot())),
               o.getAgent());
        return success();
      })
      .Case([&](ReleaseOp o) {
        arrive(o,
               barrier(channels[o.getChannel()].emptyOffset, get(o.getSlot())),
               o.getAgent());
        return success();
      })
      .Case([&](DrainOp) { return lowerDrain(), success(); })
      .Case([&](TmaLoadOp o) { return lowerTmaLoad(o); })
      .Case([&](BulkLoadOp o) { return lowerBulkLoad(o); })
      .Case([&](CopyScalesOp o) { return lowerCopyScales(o), success(); })
      .Case([&](CopyOperandOp o) { return lowerCopyOperand(o), success(); })
      .Case([&](MmaOp o) { return lowerMma(o); })
      .Case([&](ReadOp o) { return lowerRead(o); })
      .Case([&](ReadMaxOp o) { return lowerReadMax(o); })
      .Case([&](AnyDiffersOp o) { return lowerAnyDiffers(o), success(); })
      .Case([&](SliceOp o) { return lowerSlice(o), success(); })
      .Case([&](JoinOp o) { return lowerJoin(o), success(); })
      .Case([&](WriteOp o) { return lowerWrite(o); })
      .Case([&](WriteScalesOp o) { return lowerWriteScales(o); })
      .Case([&](LoadOp o) { return lowerLoad(o); })
      .Case([&](StoreOp o) {
        if (auto line = o.getValue().getDefiningOp<TransposeOp>())
          return lowerStoreLine(o, line);
        TileInfo tile = tileInfo(o.getValue().getType());
        return lowerStore(o, get(o.getValue()), tile.element, tile.rows,
                          tile.cols, o.getTarget(), o.getIndices(),
                          o.getLimit());
      })
      .Case([&](StorePayloadOp o) {
        TileInfo tile = tileInfo(o.getValue().getType());
        return lowerStore(o, get(o.getValue()), tile.element, tile.rows,
                          tile.cols, o.getTarget(), o.getIndices(),
                          o.getLimit());
      })
      .Case([&](StoreScalesOp o) { return lowerStoreScales(o); })
      .Case([&](DimOp o) { return lowerDim(o), success(); })
      .Case([&](ProgramIdOp o) { return lowerProgramId(o), success(); })
      .Case([&](NumProgramsOp o) { return lowerNumPrograms(o), success(); })
      .Case([&](WorkItemOp o) { return lowerWorkItem(o), success(); })
      .Case([&](FullOp o) { return lowerFull(o), success(); })
      .Case([&](BroadcastOp o) { return lowerBroadcast(o); })
      .Case([&](ReduceOp o) { return lowerReduce(o), success(); })
      .Case([&](MaskOp o) { return lowerMask(o), success(); })
      .Case([&](Exp2Op o) { return lowerExp2(o); })
      .Case([&](HadamardOp o) { return lowerHadamard(o); })
      .Case([&](QuantizeOp o) { return lowerQuantize(o); })
      .Case([&](RoundLikeOp o) { return lowerRoundLike(o); })
      .Case([&](ExponentsOp o) { return lowerExponents(o), success(); })
      .Case([&](PayloadOp o) { return lowerPayload(o); })
      .Case([&](Pow2Op o) { return lowerPow2(o), success(); })
      .Case([&](LoadExponentsOp o) { return lowerLoadExponents(o); })
      .Case([&](StoreExponentsOp o) { return lowerStoreExponents(o); })
      .Case([&](ReduceRowsOp o) { return lowerReduceRows(o); })
      .Case([&](arith::ConstantOp o) { return lowerConstant(o); })
      .Case<arith::TruncFOp, arith::ExtFOp>([&](auto o) {
        return isTile(o.getType()) ? lowerCast(o) : lowerElementwise(o);
      })
      .Case([&](scf::ForOp o) { return lowerFor(o); })
      .Case([&](scf::IfOp o) { return lowerIf(o); })
      .Case([&](flamia::ParamOp o) {
        return o.emitOpError("is not bound: run flamia-specialize first");
      })
      .Case([&](TransposeOp o) -> LogicalResult {
        // A row vector along columns is stored, each element by its thread.
        if (isRowVector(o.getSource().getType()) &&
            llvm::all_of(o->getUsers(), llvm::IsaPred<StoreOp>))
          return success();
        return unsupported(o, "flamia-pipeline has to turn it into tcgen "
                              "operations first");
      })
      .Case<DotOp, LoadScaledOp, LoadPayloadOp>([&](auto o) {
        return unsupported(o, "flamia-pipeline has to turn it into tcgen "
                              "operations first");
      })
      .Default([&](Operation *o) -> LogicalResult {
        StringRef dialect = o->getName().getDialectNamespace();
        if (dialect == "math")
          return lowerMath(o);
        if (dialect == "arith")
          return lowerElementwise(o);
        return unsupported(o, "expected an operation of flamia, tcgen, arith, "
                              "math or scf.for, scf.if");
      });
}
