//===- ConvertFlamiaToNVVMRoles.cpp - Roles and their registers -----------===//
//
// Roles become branches on the warp. Where several roles have vector code the
// registers of an SM are too few for all threads to have equally many: then
// warpgroups of vector code take some of those of the others (setmaxnreg, which
// works on whole warpgroups; idle warps fill the last one).
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"
#include "passes/Roles/TileUses.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// Registers of one lane in a quarter of an SM; a warpgroup has a warp in each.
constexpr int64_t kLaneRegisters = 512;
constexpr int64_t kMostRegisters = 255;
/// What a warp that issues loads or products needs.
constexpr int64_t kIssuerRegisters = 56;

void KernelLowering::planRegisters() {
  int64_t vectorGroups = 0;
  for (Role &entry : roles)
    if (isVectorRole(entry.op.getName()))
      vectorGroups += entry.warps / tcgen::kGroupWarps;
  int64_t groups = llvm::divideCeil(threads, 128);
  if (vectorGroups < 2 || vectorGroups == groups ||
      kLaneRegisters / groups >= kMostRegisters)
    return;
  threads = 128 * groups;
  int64_t all = groups * llvm::alignDown(kLaneRegisters / groups, 8);
  otherRegisters = kIssuerRegisters;
  vectorRegisters = llvm::alignDown(
      (all - otherRegisters * (groups - vectorGroups)) / vectorGroups, 8);
}

LogicalResult KernelLowering::emitRole(tcgen::RoleOp op) {
  role = llvm::find_if(roles, [&](Role &each) { return each.op == op; });
  e.loc = op.getLoc();
  Value mine = e.cmp(arith::CmpIPredicate::ult,
                     e.sub(warp, e.c32(role->firstWarp)), e.c32(role->warps));
  LogicalResult result = success();
  e.ifThen(mine, [&] {
    if (vectorRegisters && isVectorRole(op.getName()))
      NVVM::SetMaxRegisterOp::create(e.b, e.loc, vectorRegisters,
                                     NVVM::SetMaxRegisterAction::increase);
    result = lowerBlock(op.getBody().front());
  });
  role = nullptr;
  return result;
}

void KernelLowering::lowerGroup(tcgen::GroupOp op) {
  Value number = e.shr(e.sub(warp, e.c32(role->firstWarp)), 2);
  set(op.getResult(), e.toIndex(e.toI64(number)));
}

LogicalResult KernelLowering::emitBody() {
  if (hasTokens) {
    // A surplus entry of a work list: nothing but prologue and epilogue.
    LogicalResult result = success();
    Value condition = std::exchange(hasTokens, Value());
    e.ifThen(condition, [&] { result = emitBody(); });
    return result;
  }
  SmallVector<tcgen::RoleOp> issuers;
  for (Operation &op : kernel.getBody().front()) {
    auto roleOp = dyn_cast<tcgen::RoleOp>(op);
    if (roleOp && vectorRegisters && !isVectorRole(roleOp.getName()))
      issuers.push_back(roleOp);
    else if (failed(roleOp ? emitRole(roleOp) : lowerOp(&op)))
      return failure();
  }
  if (issuers.empty())
    return success();
  // All warps of the last warpgroups give registers up before they part.
  int64_t first = llvm::find_if(roles, [&](Role &each) {
                    return each.op == issuers.front();
                  })->firstWarp;
  LogicalResult result = success();
  e.ifThen(e.cmp(arith::CmpIPredicate::uge, warp, e.c32(first)), [&] {
    NVVM::SetMaxRegisterOp::create(e.b, e.loc, otherRegisters,
                                   NVVM::SetMaxRegisterAction::decrease);
    for (tcgen::RoleOp issuer : issuers)
      if (succeeded(result))
        result = emitRole(issuer);
  });
  return result;
}

void KernelLowering::lowerAnyDiffers(tcgen::AnyDiffersOp op) {
  Value constant = e.op<arith::ConstantOp>(op.getValueAttr());
  Value differs = e.op<arith::CmpFOp>(arith::CmpFPredicate::UNE,
                                      get(op.getRow()), constant);
  set(op.getResult(), anyOfWarp(differs));
}

Value KernelLowering::anyOfWarp(Value condition) {
  return e.op<NVVM::VoteSyncOp>(e.i1(), e.c32(-1), condition,
                                NVVM::VoteSyncKind::any);
}

/// LLVM 22 has no intrinsic for tcgen05.ld.red.
LogicalResult KernelLowering::lowerReadMax(tcgen::ReadMaxOp op) {
  if (arch != "sm_103a")
    return unsupported(op, "tcgen05.ld.red is not available on ")
           << arch << " (available on sm_103a)";
  waitForOwnWrites(op.getBuffer());
  constexpr int64_t kColumns = 32;
  std::string text = "tcgen05.ld.red.sync.aligned.32x32b.x32.max.f32 {$0";
  std::string constraints = "=f";
  for (int64_t i = 1; i < kColumns; ++i) {
    text += ", $" + std::to_string(i);
    constraints += ",=f";
  }
  text += "}, $32, [$33];";
  constraints += ",=f,r";
  Type result = LLVM::LLVMStructType::getLiteral(
      e.b.getContext(), SmallVector<Type>(kColumns + 1, e.f32()));
  Value address = laneAddress(tmemAddress(op.getBuffer(), get(op.getSlot())));
  int64_t cols = cast<tcgen::BufferType>(op.getBuffer().getType()).getCols();
  SmallVector<Value> loads;
  for (int64_t first = 0; first < cols; first += kColumns)
    loads.push_back(e.op<LLVM::InlineAsmOp>(
        result, ValueRange{e.addC(address, first)}, text, constraints,
        /*has_side_effects=*/true, /*is_align_stack=*/false,
        LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr()));
  NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::LOAD);
  SmallVector<Value> elements;
  Value max;
  for (Value load : loads) {
    SmallVector<Value> parts;
    for (int64_t i = 0; i <= kColumns; ++i)
      parts.push_back(e.op<LLVM::ExtractValueOp>(load, ArrayRef<int64_t>{i}));
    parts = e.inPlace(parts);
    Value top = parts.pop_back_val();
    max = max ? Value(e.op<LLVM::MaxNumOp>(max, top)) : top;
    elements.append(parts);
  }
  set(op.getResult(), e.fromElements(elements));
  set(op.getMax(), max);
  return success();
}

bool lowering::livesOverWait(Operation *op) {
  if (!isMemoryEffectFree(op) || op->getNumResults() != 1 ||
      op->getNumRegions() > 0 || op->hasTrait<OpTrait::ConstantLike>() ||
      isa<tcgen::SliceOp, tcgen::JoinOp, tcgen::PartOp, FullOp, BroadcastOp>(
          op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || type.getRank() != 2 || type.getDimSize(1) < 2 ||
      !type.getElementType().isF32())
    return false;
  // Through values that only name its columns.
  Operation *last = op;
  SmallVector<Operation *> pending(op->getUsers());
  while (!pending.empty()) {
    Operation *user = pending.pop_back_val();
    Operation *at = op->getBlock()->findAncestorOpInBlock(*user);
    if (!at)
      continue;
    if (last->isBeforeInBlock(at))
      last = at;
    if (isa<tcgen::SliceOp, tcgen::JoinOp>(user))
      llvm::append_range(pending, user->getUsers());
  }
  for (; op != last; op = op->getNextNode())
    if (isa<tcgen::WaitOp>(op))
      return true;
  return false;
}
