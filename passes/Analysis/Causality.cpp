//===- Causality.cpp - Which tokens reach which outputs -------------------===//

#include "passes/Analysis/Causality.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flamia;

using Kind = Dependence::Kind;
using Hidden = MaskState::Hidden;

bool Dependence::operator==(const Dependence &other) const {
  return source == other.source && load == other.load &&
         product == other.product && productOperand == other.productOperand &&
         kind == other.kind && origin == other.origin &&
         extent == other.extent && sharing == other.sharing &&
         sharedByProduct == other.sharedByProduct && above == other.above &&
         below == other.below;
}

bool CausalityAnalysis::State::operator==(const State &other) const {
  if (mask.has_value() != other.mask.has_value())
    return false;
  if (mask &&
      !(mask->sameRegion(*other.mask) && mask->hidden == other.mask->hidden))
    return false;
  return dependences == other.dependences;
}

void CausalityAnalysis::State::add(const Dependence &dependence) {
  if (!llvm::is_contained(dependences, dependence))
    dependences.push_back(dependence);
}

CausalityAnalysis::CausalityAnalysis(KernelOp kernel) : kernel(kernel) {
  // A scalar that was derived from data is shared by everything.
  for (BlockArgument arg : kernel.getBody().getArguments())
    if (auto from = attributesOf(arg).getAs<StringAttr>("flamia.derived_from"))
      if (BlockArgument source = kernel.getArgNamed(from.getValue());
          source && !isa<MemRefType>(arg.getType())) {
        Dependence dependence;
        dependence.source = source;
        dependence.sharing = sharedByPack;
        stateOf(arg).add(dependence);
      }
  visitBlock(kernel.getBody().front());
}

DictionaryAttr CausalityAnalysis::attributesOf(BlockArgument arg) {
  if (kernel.getArgAttrsAttr())
    return cast<DictionaryAttr>(kernel.getArgAttrsAttr()[arg.getArgNumber()]);
  return DictionaryAttr::get(kernel.getContext());
}

BlockArgument CausalityAnalysis::argumentNamedBy(BlockArgument source,
                                                 StringRef attribute) {
  auto name = attributesOf(source).getAs<StringAttr>(attribute);
  return name ? kernel.getArgNamed(name.getValue()) : BlockArgument();
}

BlockArgument CausalityAnalysis::representative(BlockArgument source) {
  // A chain of arguments; its length bounds the search where it has a cycle.
  for (unsigned i = 0, e = kernel.getBody().getNumArguments(); i < e; ++i) {
    BlockArgument next = argumentNamedBy(source, "flamia.derived_from");
    for (BlockArgument arg : kernel.getBody().getArguments())
      if (!next && getOriginal(arg) == source)
        next = arg;
    if (!next)
      break;
    source = next;
  }
  return source;
}

//===----------------------------------------------------------------------===//
// Transfer functions
//===----------------------------------------------------------------------===//

void CausalityAnalysis::visitBlock(Block &block) {
  for (Operation &op : block)
    visitOp(&op);
}

void CausalityAnalysis::visitOp(Operation *op) {
  if (isa<scf::ForOp>(op))
    return visitLoop(op);
  if (isa<scf::IfOp>(op))
    return visitBranch(op);
  if (isa<LoadOp, LoadScaledOp, LoadPayloadOp>(op))
    return visitLoad(op);
  if (auto mask = dyn_cast<MaskOp>(op))
    return visitMask(mask);
  if (auto dot = dyn_cast<DotOp>(op))
    return visitDot(dot);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return visitReduce(reduce);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return visitBroadcast(broadcast);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return visitTranspose(transpose);
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return visitQuantize(quantize);
  if (isa<LoadExponentsOp, ExponentsOp, PayloadOp, Pow2Op>(op))
    return visitExponents(op);
  if (auto reduce = dyn_cast<ReduceRowsOp>(op))
    return visitReduceRows(reduce);
  if (auto round = dyn_cast<RoundLikeOp>(op)) {
    // The grid is a matter of types; no data of `like` enters.
    stateOf(round.getResult()) = State(stateOf(round.getSource()));
    return;
  }
  if (auto hadamard = dyn_cast<HadamardOp>(op)) {
    State state = stateOf(hadamard.getSource());
    state.mask.reset();
    for (Dependence &dependence : state.dependences)
      if (dependence.kind == Kind::Col)
        dependence.kind = Kind::Range;
    stateOf(hadamard.getResult()) = state;
    return;
  }
  if (isa<StoreOp, StorePayloadOp, StoreScalesOp, StoreExponentsOp>(op))
    return checkStore(op);
  if (isa<FullOp, Exp2Op>(op) || OpTrait::hasElementwiseMappableTraits(op))
    return visitElementwise(op);
  if (!isa<scf::YieldOp, ReturnOp, WorkItemOp, DimOp, ProgramIdOp,
           NumProgramsOp>(op))
    visitUnknown(op);
}

void CausalityAnalysis::visitLoop(Operation *op) {
  auto loop = cast<scf::ForOp>(op);
  for (auto [init, arg] :
       llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs()))
    stateOf(arg) = State(stateOf(init));
  Operation *yield = loop.getBody()->getTerminator();
  // Dependences come from a finite set (an earlier iteration is one symbol),
  // so this ends; the bound is a safety net that gives up precision.
  for (unsigned round = 0;; ++round) {
    bool changed = false;
    visitBlock(*loop.getBody());
    for (auto [yielded, arg] :
         llvm::zip(yield->getOperands(), loop.getRegionIterArgs())) {
      State state = stateOf(arg);
      for (Dependence dependence : State(stateOf(yielded)).dependences) {
        auto earlier = [&](IndexExpr &expr) {
          expr = indices.inEarlierIteration(expr, loop);
        };
        earlier(dependence.origin);
        if (dependence.above)
          earlier(*dependence.above);
        if (dependence.below)
          earlier(*dependence.below);
        if (round > 16)
          dependence.kind = Kind::All;
        state.add(dependence);
      }
      // A mask that came in from outside need not hold for later iterations.
      state.mask.reset();
      changed |= !(state == stateOf(arg));
      stateOf(arg) = state;
    }
    if (!changed || round > 32)
      break;
  }
  for (auto [result, yielded, init] :
       llvm::zip(loop.getResults(), yield->getOperands(), loop.getInitArgs())) {
    State state(stateOf(init));
    state.addAll(State(stateOf(yielded)));
    state.mask.reset();
    stateOf(result) = state;
  }
}

void CausalityAnalysis::visitBranch(Operation *op) {
  State condition(stateOf(op->getOperand(0)));
  for (OpResult result : op->getResults())
    stateOf(result) = condition;
  for (Region &region : op->getRegions()) {
    if (region.empty())
      continue;
    visitBlock(region.front());
    for (auto [yielded, result] : llvm::zip(
             region.front().getTerminator()->getOperands(), op->getResults()))
      stateOf(result).addAll(State(stateOf(yielded)));
  }
}

/// Elements that \p mask hides no longer depend on anything.
void CausalityAnalysis::limit(State &state, const MaskState &mask) {
  for (Dependence &dependence : state.dependences) {
    if (dependence.kind != Kind::Col)
      continue;
    std::optional<IndexExpr> &bound =
        mask.transposed ? dependence.below : dependence.above;
    if (bound)
      continue;
    // Row r sees column c if cols + c <= rows + r; c is token - origin.
    bound = mask.transposed ? mask.cols - mask.rows + dependence.origin
                            : mask.rows - mask.cols + dependence.origin;
  }
}

void CausalityAnalysis::visitMask(MaskOp op) {
  State state(stateOf(op.getSource()));
  Hidden hidden = op.getZero() ? Hidden::Zero : Hidden::MinusInf;
  if (op.getCausal()) {
    MaskState mask;
    mask.rows = indices.get(op.getTransposed() ? op.getCols() : op.getRows());
    mask.cols = indices.get(op.getTransposed() ? op.getRows() : op.getCols());
    mask.transposed = op.getTransposed();
    mask.hidden = hidden;
    state.mask = mask;
    limit(state, mask);
  } else if (state.mask && state.mask->hidden != hidden) {
    // Of the elements hidden before some are overwritten.
    state.mask->hidden = Hidden::Constant;
  }
  stateOf(op.getResult()) = state;
}

/// The load that \p operand is, transposed or not.
static LoadScaledOp loadOf(Value operand) {
  while (auto transpose = operand.getDefiningOp<TransposeOp>())
    operand = transpose.getSource();
  return operand.getDefiningOp<LoadScaledOp>();
}

void CausalityAnalysis::visitDot(DotOp op) {
  State result(stateOf(op.getAcc()));
  State a(stateOf(op.getA())), b(stateOf(op.getB()));
  result.mask.reset();
  auto through = [&](Dependence &dependence, unsigned operand) {
    if (!dependence.product) {
      dependence.product = op;
      dependence.productOperand = operand;
    }
    // Token-local scales contracted over tokens exist in programs only. Where
    // there is an original, the product is taken for what hardware can do.
    auto type = dyn_cast<ScaledType>(op->getOperand(operand).getType());
    LoadScaledOp load = loadOf(op->getOperand(operand));
    Kind contracted = operand == 0 ? Kind::Col : Kind::Row;
    if (type && load && load == dependence.load &&
        dependence.kind == contracted && getOriginal(dependence.source) &&
        (operand == 0 ? type.getBlockCols() : type.getBlockRows()) == 1 &&
        dependence.sharing < hardwareBlock) {
      dependence.sharing = hardwareBlock;
      dependence.sharedByProduct = true;
    }
  };
  for (Dependence dependence : a.dependences) {
    through(dependence, 0);
    if (dependence.kind == Kind::Col)
      dependence.kind = Kind::Range;
    result.add(dependence);
  }
  for (Dependence dependence : b.dependences) {
    through(dependence, 1);
    // What a row of b sees says nothing about a row of the result.
    dependence.above.reset();
    dependence.below.reset();
    if (dependence.kind == Kind::Row) {
      dependence.kind = Kind::Range;
      if (a.mask && a.mask->hidden == Hidden::Zero) {
        // A zero weight hides this row of b.
        State single;
        dependence.kind = Kind::Col;
        single.add(dependence);
        limit(single, *a.mask);
        dependence = single.dependences.front();
        dependence.kind = Kind::Range;
      }
    }
    result.add(dependence);
  }
  stateOf(op.getResult()) = result;
}

void CausalityAnalysis::visitReduce(ReduceOp op) {
  State result(stateOf(op.getSource()));
  result.mask.reset();
  for (Dependence &dependence : result.dependences)
    if (dependence.kind == Kind::Col) {
      dependence.kind = Kind::Range;
      if (!dependence.product)
        dependence.product = op;
    }
  stateOf(op.getResult()) = result;
}

void CausalityAnalysis::visitBroadcast(BroadcastOp op) {
  State result(stateOf(op.getSource()));
  result.mask.reset();
  if (getTileShape(op.getSource().getType()).first == 1)
    for (Dependence &dependence : result.dependences) {
      dependence.above.reset();
      dependence.below.reset();
      if (dependence.kind == Kind::Row) {
        dependence.kind = Kind::Range;
        dependence.extent = 1;
      }
    }
  stateOf(op.getResult()) = result;
}

void CausalityAnalysis::visitTranspose(TransposeOp op) {
  State result(stateOf(op.getSource()));
  for (Dependence &dependence : result.dependences) {
    dependence.above.reset();
    dependence.below.reset();
    if (dependence.kind == Kind::Row)
      dependence.kind = Kind::Col;
    else if (dependence.kind == Kind::Col)
      dependence.kind = Kind::Row;
  }
  if (result.mask) {
    result.mask->transposed = !result.mask->transposed;
    limit(result, *result.mask);
  }
  stateOf(op.getResult()) = result;
}

void CausalityAnalysis::visitQuantize(QuantizeOp op) {
  State result(stateOf(op.getSource()));
  for (Value operand : op->getOperands().drop_front())
    result.addAll(State(stateOf(operand)));
  ScaledType type = op.getResult().getType();
  // A static scale shares nothing.
  if (!op.getExponent()) {
    for (Dependence &dependence : result.dependences) {
      if (type.getBlockRows() > 1) {
        dependence.above.reset();
        dependence.below.reset();
        if (dependence.kind == Kind::Row)
          dependence.sharing =
              std::max(dependence.sharing, type.getBlockRows());
      }
      if (type.getBlockCols() > 1 && dependence.kind == Kind::Col) {
        // Hidden elements are constants, so a row's blocks see what it sees.
        if (dependence.above || dependence.below)
          dependence.kind = Kind::Range;
        else
          dependence.sharing =
              std::max(dependence.sharing, type.getBlockCols());
      }
    }
  }
  if (result.mask && result.mask->hidden != Hidden::Zero)
    result.mask->hidden = Hidden::Constant;
  stateOf(op.getResult()) = result;
}

/// Exponents and payloads depend on what the quantized values depend on.
void CausalityAnalysis::visitExponents(Operation *op) {
  Value result = op->getResult(0);
  if (auto load = dyn_cast<LoadExponentsOp>(op)) {
    State state;
    if (auto arg = dyn_cast<BlockArgument>(load.getScales())) {
      Dependence dependence;
      dependence.source = arg;
      dependence.load = op;
      if (std::optional<IndexExpr> start =
              tokensOfTile(load.getIndices().front())) {
        dependence.kind = Kind::Row;
        dependence.origin = *start;
        dependence.extent = getTileShape(result.getType()).first;
      }
      state.add(dependence);
    }
    stateOf(result) = state;
    return;
  }
  State state(stateOf(op->getOperand(0)));
  if (isa<ExponentsOp>(op)) {
    state.mask.reset();
    for (Dependence &dependence : state.dependences)
      if (dependence.kind == Kind::Col)
        dependence.kind = Kind::Range;
  } else if (state.mask && isa<Pow2Op>(op)) {
    state.mask->hidden = Hidden::Constant;
  }
  stateOf(result) = state;
}

void CausalityAnalysis::visitReduceRows(ReduceRowsOp op) {
  State result(stateOf(op.getSource()));
  result.mask.reset();
  for (Dependence &dependence : result.dependences) {
    dependence.above.reset();
    dependence.below.reset();
    if (dependence.kind == Kind::Row)
      dependence.sharing = std::max(dependence.sharing, int64_t(op.getBy()));
  }
  stateOf(op.getResult()) = result;
}

/// True for a value without data: constants, `full` of one.
static bool isPositiveConstant(Value value) {
  if (auto full = value.getDefiningOp<FullOp>())
    value = full.getValue();
  APFloat constant(0.0f);
  return matchPattern(value, m_ConstantFloat(&constant)) &&
         !constant.isNegative() && !constant.isZero() && !constant.isNaN();
}

/// What an elementwise op does to hidden elements.
std::optional<MaskState> CausalityAnalysis::maskOfElementwise(Operation *op) {
  SmallVector<Value> tiles;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      tiles.push_back(operand);
  std::optional<MaskState> mask;
  bool allKnown = true;
  for (Value tile : tiles) {
    const State &state = stateOf(tile);
    if (state.mask && (!mask || mask->sameRegion(*state.mask)))
      mask = state.mask;
    else if (!state.dependences.empty())
      allKnown = false;
  }
  if (!mask)
    return std::nullopt;
  auto hiddenAs = [&](unsigned index, Hidden hidden) {
    const State &state = stateOf(op->getOperand(index));
    return state.mask && state.mask->sameRegion(*mask) &&
           state.mask->hidden == hidden;
  };
  auto result = [&](Hidden hidden) {
    mask->hidden = hidden;
    return mask;
  };
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return mask;
  if (isa<math::Exp2Op, math::ExpOp, Exp2Op>(op) &&
      hiddenAs(0, Hidden::MinusInf))
    return result(Hidden::Zero);
  if (isa<arith::AddFOp>(op) &&
      (hiddenAs(0, Hidden::MinusInf) || hiddenAs(1, Hidden::MinusInf)))
    return result(Hidden::MinusInf);
  if (isa<arith::SubFOp>(op) && hiddenAs(0, Hidden::MinusInf) &&
      !hiddenAs(1, Hidden::MinusInf))
    return result(Hidden::MinusInf);
  if (isa<arith::MulFOp>(op)) {
    if (hiddenAs(0, Hidden::Zero) || hiddenAs(1, Hidden::Zero))
      return result(Hidden::Zero);
    for (unsigned i : {0, 1})
      if (hiddenAs(i, Hidden::MinusInf) &&
          isPositiveConstant(op->getOperand(1 - i)))
        return result(Hidden::MinusInf);
  }
  if (isa<math::FmaOp>(op) && hiddenAs(0, Hidden::MinusInf) &&
      isPositiveConstant(op->getOperand(1)))
    return result(Hidden::MinusInf);
  if (isa<arith::DivFOp>(op) && hiddenAs(0, Hidden::Zero))
    return result(Hidden::Zero);
  if (allKnown)
    return result(Hidden::Constant);
  return std::nullopt;
}

void CausalityAnalysis::visitElementwise(Operation *op) {
  State result;
  std::optional<MaskState> mask = maskOfElementwise(op);
  for (Value operand : op->getOperands()) {
    State state(stateOf(operand));
    bool isTile = isa<RankedTensorType>(operand.getType());
    for (Dependence &dependence : state.dependences)
      if (!isTile)
        dependence.kind = Kind::All;
    result.addAll(state);
  }
  result.mask = mask;
  if (mask)
    limit(result, *mask);
  for (OpResult value : op->getResults())
    stateOf(value) = result;
}

void CausalityAnalysis::visitUnknown(Operation *op) {
  State result;
  for (Value operand : op->getOperands())
    for (Dependence dependence : State(stateOf(operand)).dependences) {
      dependence.kind = Kind::All;
      result.add(dependence);
    }
  for (OpResult value : op->getResults())
    stateOf(value) = result;
}
