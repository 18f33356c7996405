//===- CopyOperands.cpp - Operands of many products in tensor memory -----===//
//
// A product whose a lies in tensor memory reads half as much of shared memory.
// Operands that many products read, as the queries of a row of tiles, are
// copied there once, where columns are free.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Roles/ChannelRun.h"
#include "passes/Trial.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

namespace flamia {
#define GEN_PASS_DEF_COPYOPERANDSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace {

/// What one wait for a load lets products read as their a. Those right behind
/// the wait come too early to wait for a copy, too.
struct Operand {
  WaitOp wait;
  Value buffer;
  SmallVector<MmaOp> products; ///< in loops and branches behind the wait
  /// Whether one of them is in a loop.
  bool isRepeated = false;
};

/// Whether the product can have its a in tensor memory, and has it not.
bool canMove(MmaOp mma) {
  BufferType a = mma.getA().getType();
  return mma.getAScales() && a.getSpace() == Space::Smem &&
         a.getElementType().getIntOrFloatBitWidth() == 8 &&
         mma.getAMajor() == Major::K && mma.getA().getDefiningOp<AllocOp>() &&
         mma.getASlot().getDefiningOp<WaitOp>();
}

/// Operands that products in a loop read over and over, in program order.
SmallVector<Operand> findOperands(KernelOp kernel) {
  llvm::MapVector<std::pair<Value, Value>, Operand> operands;
  kernel.walk([&](MmaOp mma) {
    if (!canMove(mma))
      return;
    auto wait = mma.getASlot().getDefiningOp<WaitOp>();
    if (mma->getBlock() == wait->getBlock())
      return;
    Operand &operand = operands[{mma.getA(), mma.getASlot()}];
    operand.wait = wait;
    operand.buffer = mma.getA();
    operand.products.push_back(mma);
    auto loop = mma->getParentOfType<scf::ForOp>();
    operand.isRepeated |= loop && !loop->isAncestor(wait);
  });
  SmallVector<Operand> found;
  for (auto &entry : operands)
    if (entry.second.isRepeated)
      found.push_back(std::move(entry.second));
  return found;
}

/// Lets products read a copy of the operand.
void copy(const Operand &operand) {
  auto type = cast<BufferType>(operand.buffer.getType());
  Location loc = operand.buffer.getLoc();
  OpBuilder builder(operand.buffer.getContext());
  builder.setInsertionPointAfterValue(operand.buffer);
  Value rows = AllocOp::create(
      builder, loc,
      BufferType::get(type.getContext(), Space::Tmem, Layout::Lanes,
                      /*slots=*/1, type.getRows(), type.getCols(),
                      type.getElementType()),
      /*offset=*/IntegerAttr());
  WaitOp wait = operand.wait;
  Operation *first = operand.products.front();
  builder.setInsertionPoint(wait->getBlock()->findAncestorOpInBlock(*first));
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  CopyOperandOp::create(builder, loc, operand.buffer, wait.getSlot(), rows,
                        zero);
  for (MmaOp mma : operand.products) {
    mma.getAMutable().assign(rows);
    mma.getASlotMutable().assign(zero);
  }
}

/// Copies the first so many operands.
void copyFirst(KernelOp kernel, size_t count) {
  SmallVector<Operand> operands = findOperands(kernel);
  llvm::for_each(ArrayRef(operands).take_front(count), copy);
}

struct CopyOperandsPass
    : public flamia::impl::CopyOperandsPassBase<CopyOperandsPass> {
  using CopyOperandsPassBase::CopyOperandsPassBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    size_t count = findOperands(kernel).size();
    if (count == 0)
      return;
    // No more of a kernel may lean on the order of the tensor pipe than before.
    std::optional<bool> before = allocate(kernel, 0);
    for (; count > 0; --count) {
      std::optional<bool> after = allocate(kernel, count);
      if (after && (!*after || (before && *before)))
        return copyFirst(kernel, count);
    }
  }

  /// Whether the kernel needs the order of the tensor pipe with so many copies;
  /// none where memory is too small.
  static std::optional<bool> allocate(KernelOp kernel, size_t count) {
    Trial trial(kernel);
    copyFirst(trial.get(), count);
    if (failed(trial.run([](OpPassManager &rest) {
          rest.addPass(createAllocateMemoryPass());
        })))
      return std::nullopt;
    return trial.get()->hasAttr(kNeedsPipeOrder);
  }
};

} // namespace
