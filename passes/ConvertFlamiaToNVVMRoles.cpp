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
  int64_t vectorGroups = llvm::count_if(
      roles, [](Role &entry) { return isVectorRole(entry.op.getName()); });
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
  set(op.getResult(), e.op<NVVM::VoteSyncOp>(e.i1(), e.c32(-1), differs,
                                             NVVM::VoteSyncKind::any));
}
