//===- Solver.cpp - Which powers of two go where --------------------------===//
//
// The rules of the ops; those of quantize and dot are in SolverProducts.cpp.
//
//===----------------------------------------------------------------------===//

#include "passes/Folding/Solver.h"
#include "passes/Folding/Costs.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace flamia;

bool flamia::isCarrier(Operation *op) {
  if (!isa<arith::MulFOp, arith::AddFOp, arith::SubFOp, arith::NegFOp,
           arith::ExtFOp, arith::TruncFOp, math::FmaOp, math::Exp2Op, MaskOp,
           QuantizeOp, DotOp>(op))
    return false;
  // Vectors are leaves, taken as a whole.
  Type type = op->getResult(0).getType();
  if (!isa<RankedTensorType, ScaledType>(type))
    return false;
  auto [rows, cols] = getTileShape(type);
  return rows > 1 && cols > 1;
}

bool flamia::hasLineWidth(Value value) {
  return getTileShape(value.getType()).second == 128;
}

bool flamia::isTurnedVector(Value value) {
  std::optional<VectorLeaf> leaf = matchVector(value);
  return leaf && leaf->column;
}

const Solver::Assigned *Solver::State::find(Value value) const {
  for (const Assigned &known : assigned)
    if (known.value == value)
      return &known;
  return nullptr;
}

bool Solver::isLeaf(Value value) const {
  Operation *op = value.getDefiningOp();
  return !op || !group.contains(op);
}

bool Solver::addMissing(State &state, std::string text) const {
  if (!assumeMissing)
    return false;
  if (!llvm::is_contained(state.solution.missing, text))
    state.solution.missing.push_back(std::move(text));
  state.solution.cost += costs::missing;
  return true;
}

SmallVector<unsigned, 2> Solver::getPlaces(const Gauge &gauge) const {
  SmallVector<unsigned, 2> places;
  for (const FoldedExponent *part : {&gauge.row, &gauge.col, &gauge.common})
    for (const auto &term : part->terms)
      if (!llvm::is_contained(places, term.first.place))
        places.push_back(term.first.place);
  return places;
}

std::optional<Solution> Solver::solve(bool assume) {
  assumeMissing = assume;
  best.reset();
  steps = 0;
  // What leaves the group keeps its value.
  State state;
  for (Operation *op : llvm::reverse(group)) {
    auto leaves = [&](OpOperand &use) {
      auto dot = dyn_cast<DotOp>(use.getOwner());
      return !group.contains(use.getOwner()) ||
             (dot && use.getOperandNumber() == 2);
    };
    Value result = op->getResult(0);
    if (result.use_empty() || llvm::any_of(result.getUses(), leaves))
      state.agenda.push_back({nullptr, result, Gauge(), false});
  }
  expand(std::move(state));
  return best;
}

void Solver::expand(State state) {
  if (wasCutOff() || ++steps > mostSteps ||
      (best && state.solution.cost >= best->cost))
    return;
  if (state.agenda.empty()) {
    best = std::move(state.solution);
    return;
  }
  Demand demand = std::move(state.agenda.back());
  state.agenda.pop_back();
  // Adding 0 and multiplying by 2^0 are the same demand.
  if (demand.gauge.isZero())
    demand.additive = false;
  if (isLeaf(demand.value))
    return expandLeaf(std::move(state), demand);
  if (const Assigned *known = state.find(demand.value)) {
    if (known->gauge == demand.gauge && known->additive == demand.additive)
      expand(std::move(state));
    return;
  }
  state.assigned.push_back({demand.value, demand.gauge, demand.additive});
  expandOp(std::move(state), demand.value.getDefiningOp(), demand.gauge,
           demand.additive);
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

void Solver::expandLeaf(State state, const Demand &demand) {
  Operation *user = demand.use ? demand.use->getOwner() : nullptr;
  if (std::optional<VectorLeaf> leaf = matchVector(demand.value); leaf && user)
    return expandVector(std::move(state), demand, *leaf);
  std::optional<double> splat = getSplat(demand.value);
  bool multiplies = isa_and_nonnull<arith::MulFOp>(user);
  if (demand.gauge.isZero()) {
    // A multiplication by a power of two that could go elsewhere.
    if (splat && multiplies && getPowerOfTwo(*splat))
      state.solution.cost += costs::perElement;
    return expand(std::move(state));
  }
  if (!splat || demand.additive || !user)
    return;
  if (*splat == 0)
    return expand(std::move(state));
  if (!demand.gauge.isConstant())
    return;
  int64_t power = demand.gauge.common.constant;
  std::optional<int64_t> own = getPowerOfTwo(*splat);
  if (multiplies && own && *own + power == 0) {
    state.solution.ops.push_back(
        {OpChoice::Kind::DropFactor, user, demand.use->getOperandNumber()});
    return expand(std::move(state));
  }
  // The constant must stay exact.
  if (std::abs(power) > 100 || !(std::abs(*splat) < 0x1p20) ||
      !(std::abs(*splat) > 0x1p-20))
    return;
  if (multiplies && own)
    state.solution.cost += costs::perElement;
  state.solution.cost += costs::leaf;
  LeafChoice choice{LeafChoice::Kind::Constant, demand.use};
  choice.power = power;
  state.solution.leaves.push_back(choice);
  expand(std::move(state));
}

void Solver::expandVector(State state, const Demand &demand,
                          const VectorLeaf &leaf) {
  const Gauge &gauge = demand.gauge;
  if (gauge.isZero() && !leaf.column)
    return expand(std::move(state));
  if (!gauge.row.isZero() || !leaf.column)
    return;
  Operation *user = demand.use->getOwner();
  std::optional<unsigned> place = catalog.getPlace(leaf.load);
  FoldedExponent total = gauge.col + gauge.common;
  // What is added to the vector cannot be multiplied with it, and vice versa.
  bool additive = demand.additive || leaf.plus != 0;
  bool fits =
      place && hasLineWidth(demand.value) &&
      (!additive || ((demand.additive || gauge.isZero()) && leaf.power == 0));
  FoldedExponent needed = additive ? total : total + leaf.power;
  // Past the document's end 8 - m is 8, but declared vectors hold 0.
  bool hidden = !fits || !additive || catalog.hidesPadding(*place, user);
  if (fits && hidden)
    for (const Declared &argument : catalog.getDeclared()) {
      const FoldedArgument &folded = argument.folded;
      bool isBias = folded.form == FoldedArgument::Form::Bias;
      if (!folded.of || folded.of.getArgNumber() != leaf.argument ||
          isBias != additive ||
          (isBias &&
           (folded.negate != leaf.negate || folded.plus != leaf.plus)))
        continue;
      std::optional<FoldedExponent> exponent =
          catalog.getExponent(argument, *place, user);
      if (!exponent || *exponent != needed)
        continue;
      LeafChoice choice{LeafChoice::Kind::Vector, demand.use, argument.argument,
                        *place};
      choice.negate = !isBias && leaf.negate;
      state.solution.leaves.push_back(choice);
      state.solution.cost += costs::leaf;
      return expand(std::move(state));
    }
  State missing(state);
  if (fits && addMissing(missing,
                         hidden ? catalog.describeVector(leaf, needed, additive)
                                : catalog.describeMask()))
    expand(std::move(missing));
  if (gauge.isZero()) {
    state.solution.leftVectors.push_back(demand.use);
    state.solution.cost += costs::leftAlone;
    expand(std::move(state));
  }
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

static void addOnce(std::vector<Gauge> &gauges, const Gauge &gauge) {
  constexpr size_t most = 24;
  if (gauges.size() < most && !llvm::is_contained(gauges, gauge))
    gauges.push_back(gauge);
}

Solver::Gauges Solver::getPossible(Value value, bool additive) {
  auto key = std::pair(value, unsigned(additive));
  if (auto known = possible.find(key); known != possible.end())
    return known->second;
  Gauges gauges = {Gauge()};
  for (const Gauge &gauge :
       isLeaf(value) ? getPossibleOfLeaf(value, additive)
                     : getPossibleOfOp(value.getDefiningOp(), additive))
    addOnce(gauges, gauge);
  return possible[key] = gauges;
}

Solver::Gauges Solver::getPossibleOfLeaf(Value value, bool additive) {
  Gauges gauges;
  if (std::optional<VectorLeaf> leaf = matchVector(value)) {
    std::optional<unsigned> place = catalog.getPlace(leaf->load);
    for (const Declared &argument : catalog.getDeclared()) {
      const FoldedArgument &folded = argument.folded;
      bool isBias = folded.form == FoldedArgument::Form::Bias;
      if (!place || !leaf->column || !folded.of || isBias != additive ||
          folded.of.getArgNumber() != leaf->argument)
        continue;
      if (std::optional<FoldedExponent> exponent =
              catalog.getExponent(argument, *place, value.getDefiningOp()))
        addOnce(gauges,
                Gauge::ofCols(additive ? *exponent : *exponent - leaf->power));
    }
    return gauges;
  }
  std::optional<double> splat = getSplat(value);
  if (splat && !additive)
    if (std::optional<int64_t> power = getPowerOfTwo(*splat))
      gauges.push_back(Gauge::ofConstant(-*power));
  return gauges;
}

Solver::Gauges Solver::getPossibleOfOp(Operation *op, bool additive) {
  Gauges gauges;
  auto addAll = [&](Value value, bool negated = false) {
    for (const Gauge &gauge : getPossible(value, additive))
      addOnce(gauges, negated ? -gauge : gauge);
  };
  if (isa<math::Exp2Op>(op) && !additive)
    return getPossible(op->getOperand(0), /*additive=*/true);
  if (isa<arith::ExtFOp, arith::TruncFOp, MaskOp, arith::NegFOp>(op)) {
    addAll(op->getOperand(0), additive && isa<arith::NegFOp>(op));
  } else if (isa<arith::AddFOp, arith::SubFOp>(op)) {
    addAll(op->getOperand(0));
    addAll(op->getOperand(1), additive && isa<arith::SubFOp>(op));
  } else if (isa<math::FmaOp>(op) && additive) {
    addAll(op->getOperand(2));
  } else if (isa<arith::MulFOp, math::FmaOp>(op) && !additive) {
    for (const Gauge &a : getPossible(op->getOperand(0), false))
      for (const Gauge &b : getPossible(op->getOperand(1), false))
        addOnce(gauges, a + b);
  } else if (auto dot = dyn_cast<DotOp>(op); dot && !additive) {
    for (unsigned operand : {0u, 1u})
      for (const OperandOption &option : getOptions(dot, operand))
        if (!option.leftAlone)
          addOnce(gauges,
                  operand == 0
                      ? Gauge(option.gauge.row, {}, option.gauge.common)
                      : Gauge({}, option.gauge.col, option.gauge.common));
  }
  return gauges;
}

/// Gauges of the first factor of a product that shall have \p gauge.
Solver::Gauges Solver::getCandidates(const State &state, Operation *op,
                                     const Gauge &gauge) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  Gauges candidates;
  if (const Assigned *known = state.find(a)) {
    candidates.push_back(known->gauge);
    return candidates;
  }
  if (const Assigned *known = state.find(b)) {
    candidates.push_back(gauge - known->gauge);
    return candidates;
  }
  for (const Gauge &possible : getPossible(b, false))
    addOnce(candidates, gauge - possible);
  for (const Gauge &possible : getPossible(a, false))
    addOnce(candidates, possible);
  return candidates;
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

void Solver::expandOp(State state, Operation *op, const Gauge &gauge,
                      bool additive) {
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return additive ? void()
                    : expandQuantize(std::move(state), quantize, gauge);
  if (auto dot = dyn_cast<DotOp>(op))
    return additive ? void() : expandDot(std::move(state), dot, gauge);
  if (isa<arith::AddFOp, arith::SubFOp>(op))
    return expandSum(std::move(state), op, gauge, additive);
  if (isa<arith::MulFOp>(op))
    return additive ? void() : expandProduct(std::move(state), op, gauge);
  if (isa<math::FmaOp>(op)) {
    state.demand(op->getOpOperand(2), gauge, additive);
    if (!additive)
      return expandProduct(std::move(state), op, gauge);
    state.demand(op->getOpOperand(0), Gauge());
    state.demand(op->getOpOperand(1), Gauge());
    return expand(std::move(state));
  }
  if (isa<math::Exp2Op>(op)) {
    // 2^x * 2^g = 2^(x + g).
    if (additive)
      return;
    state.demand(op->getOpOperand(0), gauge, /*additive=*/true);
    return expand(std::move(state));
  }
  if (isa<arith::NegFOp>(op)) {
    state.demand(op->getOpOperand(0), additive ? -gauge : gauge, additive);
    return expand(std::move(state));
  }
  // Rounding to 16 bits commutes with powers of two off the subnormal range.
  if (isa<arith::ExtFOp, arith::TruncFOp>(op) && additive)
    return;
  // 0 takes any factor, -inf any factor or summand.
  if (auto mask = dyn_cast<MaskOp>(op); mask && additive && mask.getZero())
    return;
  state.demand(op->getOpOperand(0), gauge, additive);
  expand(std::move(state));
}

void Solver::expandProduct(State state, Operation *op, const Gauge &gauge) {
  for (const Gauge &first : getCandidates(state, op, gauge)) {
    State branch(state);
    branch.demand(op->getOpOperand(0), first);
    branch.demand(op->getOpOperand(1), gauge - first);
    expand(std::move(branch));
  }
}

void Solver::expandSum(State state, Operation *op, const Gauge &gauge,
                       bool additive) {
  OpOperand &a = op->getOpOperand(0), &b = op->getOpOperand(1);
  if (additive) {
    bool subtracts = isa<arith::SubFOp>(op);
    State second(state);
    state.demand(a, gauge, true);
    state.demand(b, Gauge());
    expand(std::move(state));
    second.demand(a, Gauge());
    second.demand(b, subtracts ? -gauge : gauge, true);
    return expand(std::move(second));
  }
  // A vector of rows that is added can take a factor for columns: the sum
  // becomes an fma, which rounds as before since the product is exact.
  if (!gauge.col.isZero() && isLeaf(b.get()) && hasLineWidth(b.get()) &&
      b.get().getDefiningOp<BroadcastOp>())
    for (unsigned place : getPlaces(gauge)) {
      // A factor of padding is 0.
      if (!catalog.hidesPadding(place, op))
        continue;
      for (const Declared &argument : catalog.getDeclared()) {
        if (argument.folded.form != FoldedArgument::Form::Factor)
          continue;
        std::optional<FoldedExponent> exponent =
            catalog.getExponent(argument, place, op);
        if (!exponent)
          continue;
        State branch(state);
        branch.demand(a, gauge);
        branch.demand(b, gauge - Gauge::ofCols(*exponent));
        branch.solution.ops.push_back(
            {OpChoice::Kind::Fuse, op, argument.argument, place});
        branch.solution.cost += costs::leaf;
        expand(std::move(branch));
      }
    }
  state.demand(a, gauge);
  state.demand(b, gauge);
  expand(std::move(state));
}
