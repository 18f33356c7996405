//===- Machine.cpp - Control flow and dispatch of the evaluator -----------===//

#include "Machine.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::evaluator;

Machine::Machine(KernelOp kernel, Arguments &arguments) : kernel(kernel) {
  for (BlockArgument arg : kernel.getBody().getArguments()) {
    Argument &argument = arguments[kernel.getArgName(arg.getArgNumber())];
    Slot slot;
    if (argument.isScalar) {
      slot.number = float(argument.scalar);
      slot.integer = int64_t(argument.scalar);
    } else {
      slot.buffer = &argument.buffer;
    }
    set(arg, slot);
  }
}

LogicalResult Machine::runWorkItem(std::array<int64_t, 3> id) {
  program = id;
  isSurplus = false;
  LogicalResult result = runBlock(kernel.getBody().front());
  return success(isSurplus || succeeded(result));
}

LogicalResult Machine::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(run(&op)))
      return failure();
  return success();
}

LogicalResult Machine::runFor(scf::ForOp op) {
  bool isUnsigned = op.getUnsignedCmp();
  Type type = op.getInductionVar().getType();
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  auto bits = [&](Value value) {
    uint64_t all = uint64_t(integer(value));
    return isUnsigned ? all & llvm::maskTrailingOnes<uint64_t>(width) : all;
  };
  uint64_t lower = bits(op.getLowerBound()), upper = bits(op.getUpperBound()),
           step = bits(op.getStep());
  if (step == 0 || (!isUnsigned && int64_t(step) < 0))
    return emitError(op.getLoc(), "expected a positive loop step, but got ")
           << int64_t(step);
  bool runs = isUnsigned ? lower < upper : int64_t(lower) < int64_t(upper);
  uint64_t distance = runs ? upper - lower : 0;
  SmallVector<Slot> carried;
  for (Value init : op.getInitArgs())
    carried.push_back(slot(init));
  for (uint64_t at = 0; at < distance; at += step) {
    setInteger(op.getInductionVar(), isUnsigned
                                         ? llvm::SignExtend64(lower + at, width)
                                         : int64_t(lower + at));
    for (auto [arg, value] : llvm::zip(op.getRegionIterArgs(), carried))
      set(arg, value);
    if (failed(runBlock(*op.getBody())))
      return failure();
    for (auto [value, yielded] :
         llvm::zip(carried, op.getBody()->getTerminator()->getOperands()))
      value = slot(yielded);
  }
  for (auto [result, value] : llvm::zip(op.getResults(), carried))
    set(result, value);
  return success();
}

LogicalResult Machine::runIf(scf::IfOp op) {
  Region &region =
      integer(op.getCondition()) ? op.getThenRegion() : op.getElseRegion();
  if (region.empty())
    return success();
  if (failed(runBlock(region.front())))
    return failure();
  for (auto [result, yielded] : llvm::zip(
           op.getResults(), region.front().getTerminator()->getOperands()))
    set(result, slot(yielded));
  return success();
}

LogicalResult Machine::runWorkItemOp(WorkItemOp op) {
  const Buffer &work = *slot(op.getWork()).buffer;
  if (program[0] >= work.shape[0])
    return emitError(op.getLoc(), "work list has ")
           << work.shape[0] << " items, but this is item " << program[0];
  int32_t entry[4];
  std::memcpy(entry, work.bytes.data() + program[0] * sizeof(entry),
              sizeof(entry));
  for (unsigned i = 0; i < 4; ++i)
    setInteger(op->getResult(i), entry[i]);
  int64_t begin = entry[0], end = entry[1], tile = entry[2];
  if (begin < 0 || tile < 0 || entry[3] < 0)
    return emitError(op.getLoc(), "work item ")
           << program[0] << " is negative: begin " << begin << ", end " << end
           << ", tile " << tile << ", scale base " << entry[3];
  // A surplus entry: the program ends here.
  isSurplus = begin + 128 * tile >= end;
  if (isSurplus)
    return failure();
  if (op.getFromEnd())
    setInteger(op.getTile(), (end - begin + 127) / 128 - 1 - tile);
  return success();
}

LogicalResult Machine::run(Operation *op) {
  if (auto id = dyn_cast<ProgramIdOp>(op)) {
    setInteger(id, program[unsigned(id.getAxis())]);
    return success();
  }
  // Results do not depend on it: evaluator::gridOf has one, too.
  if (auto programs = dyn_cast<NumProgramsOp>(op)) {
    setInteger(programs, 1);
    return success();
  }
  if (auto dim = dyn_cast<DimOp>(op)) {
    setInteger(dim, slot(dim.getSource()).buffer->shape[dim.getDimension()]);
    return success();
  }
  if (isa<ParamOp>(op))
    return emitError(op->getLoc(),
                     "expected a specialized kernel: run flamia-specialize");
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp o) { return runFor(o); })
      .Case([&](scf::IfOp o) { return runIf(o); })
      .Case([&](WorkItemOp o) { return runWorkItemOp(o); })
      .Case([&](LoadOp o) { return runLoad(o); })
      .Case([&](LoadScaledOp o) { return runLoadScaled(o); })
      .Case([&](LoadPayloadOp o) { return runLoadPayload(o); })
      .Case([&](StoreOp o) { return runStore(o); })
      .Case([&](StorePayloadOp o) { return runStorePayload(o); })
      .Case([&](StoreScalesOp o) { return runStoreScales(o); })
      .Case([&](LoadExponentsOp o) { return runLoadExponents(o); })
      .Case([&](StoreExponentsOp o) { return runStoreExponents(o); })
      .Case([&](TransposeOp o) { return runTranspose(o); })
      .Case([&](DotOp o) { return runDot(o); })
      .Case([&](QuantizeOp o) { return runQuantize(o); })
      .Case([&](RoundLikeOp o) { return runRoundLike(o); })
      .Case([&](HadamardOp o) { return runHadamard(o); })
      .Case([&](BroadcastOp o) { return runBroadcast(o); })
      .Case([&](ReduceOp o) { return runReduce(o); })
      .Case([&](MaskOp o) { return runMask(o); })
      .Case([&](Exp2Op o) { return runExp2(o); })
      .Case([&](ExponentsOp o) { return runExponents(o); })
      .Case([&](PayloadOp o) { return runPayload(o); })
      .Case([&](Pow2Op o) { return runPow2(o); })
      .Case([&](ReduceRowsOp o) { return runReduceRows(o); })
      .Case([&](FullOp o) { return runFull(o); })
      .Case([&](arith::ConstantOp o) { return runConstant(o); })
      .Default([&](Operation *o) { return runElementwise(o); });
}
