//===- SolverProducts.cpp - Folding rules of quantize and dot -------------===//

#include "passes/Folding/Costs.h"
#include "passes/Folding/Solver.h"

using namespace mlir;
using namespace flamia;

/// The axis of a scaled load along which \p dot contracts operand \p index.
static Axis contractedAxis(unsigned index, bool transposed) {
  return (index == 0) != transposed ? Axis::Cols : Axis::Rows;
}

bool flamia::isContractedTokenLocal(DotOp dot, unsigned index) {
  auto type = dyn_cast<ScaledType>(dot->getOperand(index).getType());
  return type && (index == 0 ? type.getBlockCols() : type.getBlockRows()) == 1;
}

//===----------------------------------------------------------------------===//
// quantize
//===----------------------------------------------------------------------===//

/// The mask below which a factor is applied, so that what a mask hides stays
/// hidden whatever the factor is (0 * NaN is NaN).
static OpOperand &factorPoint(QuantizeOp op) {
  OpOperand *use = &op.getSourceMutable();
  while (auto mask = use->get().getDefiningOp<MaskOp>()) {
    if (!mask.getZero() || !mask->hasOneUse())
      break;
    use = &mask.getSourceMutable();
  }
  return *use;
}

void Solver::expandQuantize(State state, QuantizeOp op, const Gauge &gauge) {
  // UE4M3 scales are no powers of two and end at 448: nothing moves through.
  if (op.getGlobalScale()) {
    if (!(gauge == Gauge()))
      return;
    state.demand(op.getSourceMutable(), Gauge());
    return expand(std::move(state));
  }
  // The part of the whole tile may be applied after rounding, to the scale
  // bytes: a number that an argument holds, and a constant.
  std::vector<std::pair<Gauge, std::optional<OpChoice>>> shifts;
  shifts.push_back({Gauge(), std::nullopt});
  if (!op.getShift())
    for (unsigned place : getPlaces(gauge))
      for (const Declared &argument : catalog.getDeclared())
        if (argument.folded.form == FoldedArgument::Form::Scalar)
          if (std::optional<FoldedExponent> exponent =
                  catalog.getExponent(argument, place, op))
            shifts.push_back(
                {Gauge({}, {}, *exponent), OpChoice{OpChoice::Kind::Shift, op,
                                                    argument.argument, place}});

  OpOperand &point = factorPoint(op);
  Gauges sources = getPossible(op.getSource(), false);
  const Assigned *known = state.find(op.getSource());
  for (const auto &[shift, choice] : shifts) {
    Gauge rest = gauge - shift;
    SmallVector<int64_t, 8> constants;
    auto add = [&](int64_t constant) {
      int64_t own = int32_t(op.getShiftBy().value_or(0));
      if (std::abs(constant + own) <= 255 &&
          !llvm::is_contained(constants, constant))
        constants.push_back(constant);
    };
    if (known)
      add(rest.common.constant - known->gauge.common.constant);
    for (const Gauge &source : sources)
      add(rest.common.constant - source.common.constant);
    add(0);
    add(rest.common.constant);
    for (const Declared &argument : catalog.getDeclared())
      if (argument.folded.form == FoldedArgument::Form::Factor)
        add(rest.common.constant - argument.folded.exponent.constant);
    for (int64_t constant : constants) {
      Gauge source = rest - Gauge::ofConstant(constant);
      // A static scale does not follow its values.
      if (op.getExponent() && !source.isZero())
        continue;
      State branch(state);
      if (choice) {
        branch.solution.ops.push_back(*choice);
        branch.solution.cost += costs::leaf;
      }
      if (constant != 0) {
        OpChoice by{OpChoice::Kind::ShiftBy, op};
        by.power = constant;
        branch.solution.ops.push_back(by);
        branch.solution.cost += costs::leaf;
      }
      // Or a factor that an argument holds, at one operation per element.
      bool apart = point.get() == op.getSource();
      if (!source.col.isZero() && (apart || !known) && !isLeaf(point.get()) &&
          hasLineWidth(point.get()))
        for (unsigned place : getPlaces(source)) {
          if (!catalog.hidesPadding(place, point.getOwner()))
            continue;
          for (const Declared &argument : catalog.getDeclared()) {
            if (argument.folded.form != FoldedArgument::Form::Factor)
              continue;
            std::optional<FoldedExponent> exponent =
                catalog.getExponent(argument, place, op);
            if (!exponent)
              continue;
            State multiplied(branch);
            // Masks between have the gauge of what is quantized.
            for (Value value = op.getSource(); value != point.get();
                 value = value.getDefiningOp()->getOperand(0))
              multiplied.assigned.push_back({value, source, false});
            multiplied.demand(point, source - Gauge::ofCols(*exponent));
            OpChoice factor{OpChoice::Kind::Multiply, point.getOwner(),
                            argument.argument, place};
            multiplied.solution.ops.push_back(factor);
            multiplied.solution.cost += costs::perElement;
            expand(std::move(multiplied));
          }
        }
      State missing(branch);
      branch.demand(op.getSourceMutable(), source);
      expand(std::move(branch));
      if (!source.row.isZero() || source.col.isZero() || !apart ||
          !addMissing(missing, catalog.describeFactor(source.col)))
        continue;
      missing.solution.cost += costs::perElement;
      missing.demand(point, source - Gauge::ofCols(source.col));
      expand(std::move(missing));
    }
  }
}

//===----------------------------------------------------------------------===//
// dot
//===----------------------------------------------------------------------===//

std::vector<Solver::OperandOption> Solver::getOptions(DotOp dot,
                                                      unsigned index) {
  OpOperand &use = dot->getOpOperand(index);
  std::vector<OperandOption> options;
  options.push_back(
      {Gauge(), std::nullopt, isContractedTokenLocal(dot, index)});
  bool transposed = false;
  LoadScaledOp load = getScaledLoad(use.get(), transposed);
  auto payload =
      load ? dyn_cast<BlockArgument>(load.getSource()) : BlockArgument();
  std::optional<unsigned> place =
      payload ? catalog.getPlace(load) : std::nullopt;
  ScaledType type = load ? load.getResult().getType() : ScaledType();
  if (!place || !isa<Float8E8M0FNUType>(type.getScaleType()))
    return options;
  Axis along = contractedAxis(index, transposed);
  FoldedExponent own(ExponentSymbol{payload.getArgNumber(), 1, *place});
  auto add = [&](const FoldedExponent &exponent, LeafChoice choice) {
    Gauge gauge = Gauge::ofRows(exponent - own);
    options.push_back({transposed ? gauge.transposed() : gauge, choice, false});
  };
  for (const Declared &argument : catalog.getDeclared()) {
    const FoldedArgument &folded = argument.folded;
    if (folded.form != FoldedArgument::Form::ScaleBytes ||
        folded.along != along ||
        (along == Axis::Rows && type.getRows() % 32 != 0))
      continue;
    std::optional<FoldedExponent> exponent =
        catalog.getExponent(argument, *place, dot);
    // Scales of token blocks vary along channels too: only what the array says
    // of the same payload is such an exponent.
    if (!exponent || (type.getBlockRows() != 1 &&
                      (*exponent - own).terms.size() >= exponent->terms.size()))
      continue;
    add(*exponent, {LeafChoice::Kind::Scales, &use, argument.argument, *place});
  }
  if (type.getBlockRows() == 1)
    add(0, {LeafChoice::Kind::Unit, &use});
  return options;
}

void Solver::expandDot(State state, DotOp op, const Gauge &gauge) {
  // The accumulator has the result's gauge. Zeros have any.
  std::optional<double> start = getSplat(op.getAcc());
  if (!gauge.isZero() && !(start && *start == 0))
    return;

  OpOperand &a = op->getOpOperand(0), &b = op->getOpOperand(1);
  auto take = [&](State &branch, const OperandOption &option) {
    if (option.choice) {
      branch.solution.leaves.push_back(*option.choice);
      branch.solution.cost += costs::leaf;
    }
    if (option.leftAlone) {
      branch.solution.leftAlone.push_back(op);
      branch.solution.cost += costs::leftAlone;
    }
  };
  // a[m, k] holds 2^(row m + x k), b[k, n] holds 2^(-x k + col n).
  auto needsOfA = [&](const Gauge &ofB) {
    return Gauge(gauge.row, -ofB.row, gauge.common - ofB.common);
  };
  auto needsOfB = [&](const Gauge &ofA) {
    return Gauge(-ofA.col, gauge.col, gauge.common - ofA.common);
  };
  bool leafA = isLeaf(a.get()), leafB = isLeaf(b.get());
  auto describe = [&](OpOperand &use, Gauge needed) {
    bool transposed = false;
    LoadScaledOp load = getScaledLoad(use.get(), transposed);
    std::optional<unsigned> place =
        load ? catalog.getPlace(load) : std::nullopt;
    if (transposed)
      needed = needed.transposed();
    if (!place || !needed.col.isZero())
      return std::string();
    unsigned payload = cast<BlockArgument>(load.getSource()).getArgNumber();
    return catalog.describeScales(
        needed.row + needed.common +
            FoldedExponent(ExponentSymbol{payload, 1, *place}),
        contractedAxis(use.getOperandNumber(), transposed));
  };
  if (leafA && leafB) {
    for (const OperandOption &ofB : getOptions(op, 1)) {
      if (!(ofB.gauge.col == gauge.col))
        continue;
      for (const OperandOption &ofA : getOptions(op, 0)) {
        if (!(ofA.gauge == needsOfA(ofB.gauge)))
          continue;
        State branch(state);
        take(branch, ofA);
        take(branch, ofB);
        expand(std::move(branch));
      }
    }
    // One operand as it is, the other from an argument that is not there.
    for (OpOperand *use : {&b, &a}) {
      Gauge needed = use == &b ? needsOfB(Gauge()) : needsOfA(Gauge());
      bool fits = use == &b ? gauge.row.isZero() : gauge.col.isZero();
      std::string text = describe(*use, needed);
      State missing(state);
      if (fits && !needed.isZero() && !text.empty() &&
          addMissing(missing, text))
        expand(std::move(missing));
    }
    return;
  }
  if (leafA) {
    for (const OperandOption &ofA : getOptions(op, 0)) {
      if (!(ofA.gauge.row == gauge.row))
        continue;
      State branch(state);
      take(branch, ofA);
      branch.demand(b, needsOfB(ofA.gauge));
      expand(std::move(branch));
    }
    return;
  }
  OperandOption none{Gauge({}, gauge.col, {}), std::nullopt, false};
  std::vector<OperandOption> options;
  if (leafB)
    options = getOptions(op, 1);
  else
    options.push_back(none);
  for (const OperandOption &ofB : options) {
    if (!(ofB.gauge.col == gauge.col))
      continue;
    State branch(state);
    take(branch, ofB);
    if (!leafB)
      branch.demand(b, ofB.gauge);
    branch.demand(a, needsOfA(ofB.gauge));
    expand(std::move(branch));
  }
}
