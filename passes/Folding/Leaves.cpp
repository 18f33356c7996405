//===- Leaves.cpp - What folding can read from memory ---------------------===//

#include "passes/Folding/Leaves.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace flamia;

std::optional<double> flamia::getSplat(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    return getSplat(broadcast.getSource());
  if (auto full = value.getDefiningOp<FullOp>())
    value = full.getValue();
  FloatAttr number;
  if (matchPattern(value, m_Constant(&number)))
    return number.getValueAsDouble();
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)) &&
      isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APFloat>().convertToDouble();
  return std::nullopt;
}

std::optional<int64_t> flamia::getPowerOfTwo(double number) {
  int exponent;
  if (!(number > 0) || !std::isfinite(number) ||
      std::frexp(number, &exponent) != 0.5)
    return std::nullopt;
  return exponent - 1;
}

/// \p leaf as it is after the vector op \p op on it, \p operand.
static bool addToLeaf(VectorLeaf &leaf, Operation *op, unsigned operand) {
  if (isa<TransposeOp>(op)) {
    leaf.column = !leaf.column;
    return true;
  }
  auto negate = [&] {
    leaf.negate = !leaf.negate;
    leaf.plus = -leaf.plus;
  };
  if (isa<arith::NegFOp>(op)) {
    negate();
    return true;
  }
  if (op->getNumOperands() != 2)
    return false;
  std::optional<double> number = getSplat(op->getOperand(1 - operand));
  if (!number)
    return false;
  if (isa<arith::SubFOp>(op)) {
    if (operand == 1) {
      negate();
      leaf.plus += *number;
    } else {
      leaf.plus -= *number;
    }
    return true;
  }
  if (isa<arith::AddFOp>(op)) {
    leaf.plus += *number;
    return true;
  }
  std::optional<int64_t> power = getPowerOfTwo(*number);
  if (!isa<arith::MulFOp>(op) || !power || leaf.plus != 0)
    return false;
  leaf.power += *power;
  return true;
}

std::optional<VectorLeaf> flamia::matchVector(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return std::nullopt;
  // Down to the load, then up again.
  SmallVector<std::pair<Operation *, unsigned>> path;
  Value current = broadcast.getSource();
  VectorLeaf leaf;
  for (unsigned depth = 0; depth < 8; ++depth) {
    Operation *op = current.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto load = dyn_cast<LoadOp>(op)) {
      auto arg = dyn_cast<BlockArgument>(load.getSource());
      auto [rows, cols] = getTileShape(load.getType());
      if (!arg || load.getIndices().size() != 2 || cols != 1 || rows == 1 ||
          !load.getType().getElementType().isF32())
        return std::nullopt;
      leaf.load = load;
      leaf.argument = arg.getArgNumber();
      for (auto [step, operand] : llvm::reverse(path))
        if (!addToLeaf(leaf, step, operand))
          return std::nullopt;
      return leaf;
    }
    if (!isa<TransposeOp, arith::NegFOp, arith::SubFOp, arith::AddFOp,
             arith::MulFOp>(op))
      return std::nullopt;
    unsigned operand =
        op->getNumOperands() == 2 && getSplat(op->getOperand(0)) ? 1 : 0;
    path.push_back({op, operand});
    current = op->getOperand(operand);
  }
  return std::nullopt;
}

LoadScaledOp flamia::getScaledLoad(Value operand, bool &transposed) {
  transposed = false;
  while (auto transpose = operand.getDefiningOp<TransposeOp>()) {
    operand = transpose.getSource();
    transposed = !transposed;
  }
  return operand.getDefiningOp<LoadScaledOp>();
}

LeafCatalog::LeafCatalog(KernelOp kernel) : kernel(kernel), dominance(kernel) {
  for (unsigned i = 0, e = kernel.getBody().getNumArguments(); i < e; ++i)
    if (std::optional<FoldedArgument> folded = getFoldedArgument(kernel, i))
      declared.push_back({i, *folded});
  kernel.walk([&](LoadScaledOp load) {
    if (std::optional<unsigned> place = getPlace(load))
      places[*place].loads.push_back(load);
  });
}

unsigned LeafCatalog::getPlace(Value row, Value head) {
  IndexExpr rowExpr = indices.get(row), headExpr = indices.get(head);
  for (auto [number, place] : llvm::enumerate(places))
    if (place.row == rowExpr && place.head == headExpr)
      return number;
  Place place;
  place.row = rowExpr;
  place.head = headExpr;
  places.push_back(std::move(place));
  return places.size() - 1;
}

std::optional<unsigned> LeafCatalog::getPlace(LoadScaledOp load) {
  if (load.getIndices().size() != 3 || load.getScaleIndices().size() != 2)
    return std::nullopt;
  return getPlace(load.getIndices()[0], load.getIndices()[1]);
}

std::optional<unsigned> LeafCatalog::getPlace(LoadOp load) {
  if (load.getIndices().size() != 2)
    return std::nullopt;
  return getPlace(load.getIndices()[0], load.getIndices()[1]);
}

LoadScaledOp LeafCatalog::getAnchor(unsigned place, Operation *user) {
  LoadScaledOp later;
  for (LoadScaledOp load : places[place].loads) {
    if (dominates(load, user))
      return load;
    auto known = [&](Value index) {
      return dominance.properlyDominates(index, user);
    };
    if (!later && llvm::all_of(load.getScaleIndices(), known))
      later = load;
  }
  return later;
}

bool LeafCatalog::dominates(Operation *op, Operation *user) {
  return dominance.properlyDominates(op, user);
}

/// A maximum over all tokens of the tile at \p place may reach every output if
/// each of these tokens may.
bool LeafCatalog::isApart(unsigned place, unsigned payload) {
  auto [known, isNew] = places[place].apart.try_emplace(payload, false);
  if (!isNew)
    return known->second;
  bool apart = true;
  StringRef name = kernel.getArgName(payload);
  IndexExpr first = places[place].row;
  constexpr int64_t tokens = 128;
  kernel.walk([&](Operation *op) {
    if (!isa<StoreOp, StorePayloadOp>(op))
      return;
    auto output = dyn_cast<BlockArgument>(op->getOperand(1));
    auto depends = output && kernel.getArgAttrsAttr()
                       ? cast<DictionaryAttr>(
                             kernel.getArgAttrsAttr()[output.getArgNumber()])
                             .getAs<DictionaryAttr>("flamia.depends")
                       : DictionaryAttr();
    // Nothing is promised of an output without directions.
    if (!depends)
      return;
    auto direction = depends.getAs<StringAttr>(name);
    IndexExpr own = indices.get(op->getOperand(2));
    int64_t rows = getTileShape(op->getOperand(0).getType()).first;
    if (!direction)
      apart = false;
    else if (direction.getValue() == "<=")
      apart &= indices.isLess(first + (tokens - 1), own);
    else if (direction.getValue() == ">=")
      apart &= indices.isAtMost(own + rows, first);
  });
  return places[place].apart[payload] = apart;
}

std::optional<FoldedExponent> LeafCatalog::getExponent(const Declared &argument,
                                                       unsigned place,
                                                       Operation *user) {
  if (!getAnchor(place, user))
    return std::nullopt;
  FoldedExponent exponent = argument.folded.exponent.at(place);
  for (const auto &[symbol, coefficient] : exponent.terms)
    if (symbol.span > 1 && !isApart(place, symbol.argument))
      return std::nullopt;
  return exponent;
}

bool LeafCatalog::hidesPadding(unsigned place, Operation *op) {
  constexpr int64_t tokens = 128;
  const IndexExpr &row = places[place].row;
  SmallVector<IndexExpr, 2> limits;
  for (LoadScaledOp load : places[place].loads)
    if (Value limit = load.getLimit()) {
      IndexExpr end = indices.get(limit);
      if (!indices.isAtMost(row + tokens, end) &&
          !llvm::is_contained(limits, end))
        limits.push_back(end);
    }
  if (limits.empty())
    return true;
  for (unsigned depth = 0; limits.size() == 1 && depth < 8; ++depth) {
    auto mask = dyn_cast<MaskOp>(op);
    if (mask && mask.getLimit() && indices.get(mask.getCols()) == row &&
        indices.get(mask.getLimit()) == limits.front())
      return true;
    if (op->getNumResults() != 1 || !op->hasOneUse())
      return false;
    op = *op->user_begin();
  }
  return false;
}

static constexpr StringLiteral argumentText =
    "an argument with 'flamia.folded' = ";

std::string LeafCatalog::describeMask() {
  return "a mask that hides the columns past the limit";
}

std::string LeafCatalog::describeVector(const VectorLeaf &leaf,
                                        const FoldedExponent &exponent,
                                        bool additive) {
  std::string text = argumentText.str() + "{of = \"" +
                     kernel.getArgName(leaf.argument).str() + "\", ";
  if (additive && leaf.negate)
    text += "negate, ";
  if (additive) {
    llvm::raw_string_ostream stream(text);
    stream << "plus = " << llvm::format("%g", leaf.plus) << ", ";
  }
  return text + "exponent = \"" + exponent.str(kernel) + "\"}";
}

std::string LeafCatalog::describeFactor(const FoldedExponent &exponent) {
  return argumentText.str() + "{exponent = \"" + exponent.str(kernel) +
         "\"} (a factor, one operation per element)";
}

std::string LeafCatalog::describeScales(const FoldedExponent &exponent,
                                        Axis along) {
  return argumentText.str() + "{exponent = \"" + exponent.str(kernel) +
         "\", along = \"" + stringifyAxis(along).str() + "\"}";
}
