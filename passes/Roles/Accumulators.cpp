//===- Accumulators.cpp - Which products share an accumulator -------------===//

#include "passes/Roles/Accumulators.h"
#include "passes/Roles/Handover.h"

#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace flamia;

bool Web::isFresh() const {
  DotOp first = dots[0];
  return slots.empty() && dots.size() == 1 && isZeroTile(first.getAcc());
}

const CarriedSlot *Web::lazyZero() const {
  for (const CarriedSlot &slot : slots) {
    if (!isZeroTile(slot.init()) || !slot.arg().hasOneUse())
      continue;
    auto dot = dyn_cast<DotOp>(*slot.arg().getUsers().begin());
    if (!dot || dot.getAcc() != slot.arg() || !llvm::is_contained(dots, dot) ||
        dot->getBlock() != slot.getLoop().getBody())
      continue;
    // With other products or loops in between, zeros are simply written.
    if (slots.size() == 1)
      return &slot;
  }
  return nullptr;
}

Accumulators::Accumulators(KernelOp kernel) : kernel(kernel) {
  kernel.walk([&](DotOp dot) { dots.push_back(dot); });
  // Joining is optimistic. A web whose content would be lost falls apart into
  // products that take their accumulator from registers.
  for (bool changed = true; changed;) {
    changed = false;
    findSlots();
    buildWebs();
    for (const Web &web : webs) {
      if (web.isFresh() || succeeded(checkHandovers(*this, web)))
        continue;
      for (DotOp dot : web.dots) {
        changed |= separate.insert(dot).second;
        dot.emitRemark("accumulator passes through registers: its content is "
                       "used after the next product overwrites it");
      }
      for (const CarriedSlot &slot : web.slots)
        changed |= separate.insert(slot.loop).second;
    }
  }
}

const CarriedSlot *Accumulators::slotOf(Value value) const {
  for (const CarriedSlot &slot : slots)
    if (slot.arg() == value || slot.result() == value)
      return &slot;
  return nullptr;
}

/// A carried tile stays in tensor memory when the loop ends with a product that
/// makes it.
void Accumulators::findSlots() {
  slots.clear();
  // Inner loops come first.
  kernel.walk([&](scf::ForOp loop) {
    if (separate.contains(loop))
      return;
    for (unsigned index = 0; index < loop.getNumResults(); ++index) {
      Value yielded = loop.getYieldedValues()[index];
      if (yielded.getParentBlock() != loop.getBody())
        continue;
      auto dot = yielded.getDefiningOp<DotOp>();
      bool isProduct = dot && !isZeroTile(dot.getAcc());
      bool isInner = yielded.getDefiningOp<scf::ForOp>() && slotOf(yielded);
      if (isProduct || isInner)
        slots.push_back({loop, index});
    }
  });
}

void Accumulators::buildWebs() {
  // Elements: products and, behind them, slots.
  llvm::EquivalenceClasses<unsigned> classes;
  llvm::DenseMap<Value, unsigned> owner;
  for (auto [index, dot] : llvm::enumerate(dots)) {
    classes.insert(index);
    owner[dot.getResult()] = index;
  }
  for (auto [index, slot] : llvm::enumerate(slots)) {
    unsigned element = dots.size() + index;
    classes.insert(element);
    owner[slot.arg()] = owner[slot.result()] = element;
  }
  auto join = [&](unsigned element, Value value) {
    auto other = owner.find(value);
    if (other != owner.end())
      classes.unionSets(element, other->second);
  };
  for (auto [index, dot] : llvm::enumerate(dots))
    if (!separate.contains(dot))
      join(index, dot.getAcc());
  for (auto [index, slot] : llvm::enumerate(slots)) {
    join(dots.size() + index, slot.yielded());
    join(dots.size() + index, slot.init());
  }

  webs.clear();
  webIndex.clear();
  llvm::DenseMap<unsigned, unsigned> ofLeader;
  auto webOf = [&](unsigned element) {
    auto [place, isNew] =
        ofLeader.try_emplace(classes.getLeaderValue(element), webs.size());
    if (isNew)
      webs.emplace_back();
    return place->second;
  };
  for (auto [index, dot] : llvm::enumerate(dots)) {
    unsigned web = webOf(index);
    webs[web].dots.push_back(dot);
    webIndex[dot.getResult()] = web;
  }
  for (auto [index, slot] : llvm::enumerate(slots)) {
    unsigned web = webOf(dots.size() + index);
    webs[web].slots.push_back(slot);
    webIndex[slot.arg()] = webIndex[slot.result()] = web;
  }
}

bool Accumulators::isInPlace(OpOperand &use) const {
  auto web = webIndex.find(use.get());
  if (web == webIndex.end())
    return false;
  auto isInWeb = [&](Value value) {
    auto other = webIndex.find(value);
    return other != webIndex.end() && other->second == web->second;
  };
  Operation *user = use.getOwner();
  if (auto dot = dyn_cast<DotOp>(user))
    return &use == &dot.getAccMutable() && !separate.contains(dot) &&
           isInWeb(dot.getResult());
  if (auto loop = dyn_cast<scf::ForOp>(user)) {
    OpResult result = loop.getTiedLoopResult(&use);
    return result && isInWeb(result);
  }
  if (isa<scf::YieldOp>(user))
    if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()))
      return isInWeb(loop.getResult(use.getOperandNumber()));
  return false;
}

SmallVector<OpOperand *> Accumulators::vectorUses(Value value) const {
  SmallVector<OpOperand *> uses;
  for (OpOperand *use : usesThroughTransposes(value))
    if (!isInPlace(*use))
      uses.push_back(use);
  return uses;
}
