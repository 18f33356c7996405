//===- IndexAnalysis.cpp - Affine facts about index values ----------------===//

#include "passes/Analysis/IndexAnalysis.h"

#include "dialects/Flamia/Flamia.h"
#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/Analysis/Presburger/Simplex.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flamia;

IndexExpr IndexExpr::operator+(const IndexExpr &other) const {
  IndexExpr sum(constant + other.constant);
  auto a = terms.begin(), b = other.terms.begin();
  while (a != terms.end() || b != other.terms.end()) {
    if (b == other.terms.end() || (a != terms.end() && a->first < b->first)) {
      sum.terms.push_back(*a++);
    } else if (a == terms.end() || b->first < a->first) {
      sum.terms.push_back(*b++);
    } else {
      if (int64_t coefficient = a->second + b->second)
        sum.terms.push_back({a->first, coefficient});
      ++a, ++b;
    }
  }
  return sum;
}

IndexExpr IndexExpr::operator*(int64_t factor) const {
  if (factor == 0)
    return IndexExpr();
  IndexExpr product = *this;
  product.constant *= factor;
  for (auto &term : product.terms)
    term.second *= factor;
  return product;
}

/// Larger constants are left opaque, so that sums stay far from overflow.
static constexpr int64_t largestConstant = int64_t(1) << 40;

static std::optional<int64_t> constantOf(Value value) {
  APInt constant;
  if (!matchPattern(value, m_ConstantInt(&constant)) ||
      constant.getSignificantBits() > 63)
    return std::nullopt;
  int64_t number = constant.getSExtValue();
  if (number > largestConstant || number < -largestConstant)
    return std::nullopt;
  return number;
}

unsigned IndexAnalysis::symbolFor(Value value, Operation *loop) {
  auto [place, isNew] = numbers.try_emplace({value, loop}, symbols.size());
  if (isNew)
    symbols.push_back({value, loop, std::nullopt});
  return place->second;
}

IndexExpr IndexAnalysis::symbolExpr(unsigned symbol) const {
  IndexExpr expr;
  expr.terms.push_back({symbol, 1});
  return expr;
}

IndexExpr IndexAnalysis::get(Value value) {
  auto known = exprs.find(value);
  if (known != exprs.end())
    return known->second;
  IndexExpr expr;
  Operation *op = value.getDefiningOp();
  std::optional<int64_t> lhs, rhs;
  if (op && op->getNumOperands() == 2) {
    lhs = constantOf(op->getOperand(0));
    rhs = constantOf(op->getOperand(1));
  }
  if (std::optional<int64_t> constant = constantOf(value))
    expr = IndexExpr(*constant);
  else if (isa_and_nonnull<arith::AddIOp>(op))
    expr = get(op->getOperand(0)) + get(op->getOperand(1));
  else if (isa_and_nonnull<arith::SubIOp>(op))
    expr = get(op->getOperand(0)) - get(op->getOperand(1));
  else if (isa_and_nonnull<arith::MulIOp>(op) && rhs &&
           std::abs(*rhs) < (1 << 24))
    expr = get(op->getOperand(0)) * *rhs;
  else if (isa_and_nonnull<arith::MulIOp>(op) && lhs &&
           std::abs(*lhs) < (1 << 24))
    expr = get(op->getOperand(1)) * *lhs;
  else
    expr = symbolExpr(symbolFor(value));
  exprs[value] = expr;
  return expr;
}

void IndexAnalysis::addFacts(Value value, const IndexExpr &self,
                             std::vector<IndexExpr> &facts) {
  auto atMost = [&](const IndexExpr &a, const IndexExpr &b) {
    facts.push_back(b - a);
  };
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast_or_null<scf::ForOp>(arg.getOwner()->getParentOp());
    if (!loop || loop.getInductionVar() != value)
      return;
    std::optional<int64_t> step = constantOf(loop.getStep());
    if (!step || *step <= 0)
      return;
    atMost(get(loop.getLowerBound()), self);
    atMost(self + 1, get(loop.getUpperBound()));
    return;
  }
  Operation *op = value.getDefiningOp();
  auto nonNegative = [&](Value operand) { return isNonNegative(get(operand)); };
  llvm::TypeSwitch<Operation *>(op)
      .Case<ProgramIdOp, NumProgramsOp, DimOp, arith::IndexCastUIOp>(
          [&](auto) { atMost(0, self); })
      .Case([&](WorkItemOp item) {
        atMost(0, self);
        IndexExpr begin = get(item.getBegin()), tile = get(item.getTile());
        atMost(begin + tile * 128 + 1, get(item.getEnd()));
      })
      .Case<arith::DivUIOp, arith::CeilDivUIOp, arith::FloorDivSIOp,
            arith::CeilDivSIOp, arith::DivSIOp>([&](Operation *division) {
        std::optional<int64_t> by = constantOf(division->getOperand(1));
        Value operand = division->getOperand(0);
        // Only a non-negative dividend: others wrap or round differently.
        if (!nonNegative(operand))
          return;
        atMost(0, self);
        if (!by || *by <= 0 || *by > (1 << 24))
          return;
        IndexExpr product = self * *by, dividend = get(operand);
        bool up = isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(division);
        atMost(up ? dividend : product, up ? product : dividend);
        atMost(up ? product : dividend, (up ? dividend : product) + (*by - 1));
      })
      .Case<arith::RemUIOp>([&](Operation *remainder) {
        atMost(0, self);
        if (std::optional<int64_t> by = constantOf(remainder->getOperand(1));
            by && *by > 0)
          atMost(self, *by - 1);
      })
      .Case<arith::MinUIOp, arith::MinSIOp, arith::MaxUIOp, arith::MaxSIOp>(
          [&](Operation *extremum) {
            Value a = extremum->getOperand(0), b = extremum->getOperand(1);
            bool bothNonNegative = nonNegative(a) && nonNegative(b);
            if (isa<arith::MinUIOp, arith::MaxUIOp>(op) && !bothNonNegative)
              return;
            if (bothNonNegative)
              atMost(0, self);
            // Loops that are not empty are the common case of a minimum.
            if (isNonNegative(get(a) - 1) && isNonNegative(get(b) - 1))
              atMost(1, self);
            bool isMin = isa<arith::MinUIOp, arith::MinSIOp>(op);
            for (Value operand : {a, b})
              atMost(isMin ? self : get(operand), isMin ? get(operand) : self);
          });
}

/// True if the value may differ between iterations of \p loop: it is computed
/// inside, and not only from what comes from outside.
static bool changesInLoop(Value value, Operation *loop) {
  llvm::SetVector<Value> needed;
  needed.insert(value);
  for (unsigned i = 0; i < needed.size(); ++i) {
    if (auto arg = dyn_cast<BlockArgument>(needed[i])) {
      if (loop->isAncestor(arg.getOwner()->getParentOp()))
        return true;
      continue;
    }
    Operation *op = needed[i].getDefiningOp();
    if (!loop->isProperAncestor(op))
      continue;
    if (!isPure(op) || op->getNumRegions() != 0)
      return true;
    needed.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

const std::vector<IndexExpr> &IndexAnalysis::factsOf(unsigned symbol) {
  if (!symbols[symbol].facts) {
    // Guards against a cycle; there is none in SSA but through loops.
    symbols[symbol].facts.emplace();
    std::vector<IndexExpr> facts;
    Value value = symbols[symbol].value;
    Operation *loop = symbols[symbol].loop;
    auto arg = dyn_cast<BlockArgument>(value);
    if (!loop) {
      addFacts(value, symbolExpr(symbol), facts);
    } else if (arg && isa<scf::ForOp>(arg.getOwner()->getParentOp())) {
      // An earlier induction variable lies in its loop's range, as far as that
      // is the same in every iteration of `loop`.
      addFacts(value, symbolExpr(symbol), facts);
      llvm::erase_if(facts, [&](const IndexExpr &fact) {
        return llvm::any_of(fact.terms, [&](auto term) {
          return term.first != symbol &&
                 changesInLoop(symbols[term.first].value, loop);
        });
      });
    }
    symbols[symbol].facts = std::move(facts);
  }
  return *symbols[symbol].facts;
}

bool IndexAnalysis::isNonNegative(const IndexExpr &expr) {
  if (expr.isConstant())
    return expr.constant >= 0;
  // All facts about symbols reachable from the expression.
  llvm::SetVector<unsigned> reached;
  std::vector<IndexExpr> facts(assumptions);
  auto reach = [&](const IndexExpr &from) {
    for (auto [symbol, coefficient] : from.terms)
      reached.insert(symbol);
  };
  reach(expr);
  for (const IndexExpr &fact : assumptions)
    reach(fact);
  for (unsigned i = 0; i < reached.size(); ++i) {
    std::vector<IndexExpr> more = factsOf(reached[i]);
    for (const IndexExpr &fact : more) {
      reach(fact);
      facts.push_back(fact);
    }
  }

  llvm::DenseMap<unsigned, unsigned> column;
  for (auto [index, symbol] : llvm::enumerate(reached))
    column[symbol] = index;
  auto row = [&](const IndexExpr &from) {
    SmallVector<int64_t> coefficients(reached.size() + 1, 0);
    for (auto [symbol, coefficient] : from.terms)
      coefficients[column[symbol]] = coefficient;
    coefficients.back() = from.constant;
    return coefficients;
  };
  presburger::IntegerPolyhedron counterexamples(
      presburger::PresburgerSpace::getSetSpace(reached.size()));
  for (const IndexExpr &fact : facts)
    counterexamples.addInequality(row(fact));
  counterexamples.addInequality(row(expr * -1 - 1));
  return presburger::Simplex(counterexamples).isEmpty();
}

IndexExpr IndexAnalysis::inEarlierIteration(const IndexExpr &expr,
                                            Operation *loop) {
  IndexExpr result(expr.constant);
  for (auto [symbol, coefficient] : expr.terms) {
    // An inner loop's "earlier" is as far away seen from the outer loop.
    Value value = symbols[symbol].value;
    unsigned renamed =
        changesInLoop(value, loop) ? symbolFor(value, loop) : symbol;
    result = result + symbolExpr(renamed) * coefficient;
  }
  return result;
}

bool IndexAnalysis::anySymbol(const IndexExpr &expr,
                              llvm::function_ref<bool(Value)> predicate) const {
  return llvm::any_of(expr.terms, [&](auto term) {
    return predicate(symbols[term.first].value);
  });
}

/// A word for a value that has no name in SSA.
static std::string nameOf(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    if (isa<scf::ForOp>(arg.getOwner()->getParentOp()))
      return "iteration";
    if (auto kernel = dyn_cast<KernelOp>(arg.getOwner()->getParentOp()))
      return kernel.getArgName(arg.getArgNumber()).str();
    return "argument";
  }
  Operation *op = value.getDefiningOp();
  if (isa<WorkItemOp>(op)) {
    static constexpr const char *names[] = {"begin", "end", "tile",
                                            "scale_base"};
    return names[cast<OpResult>(value).getResultNumber()];
  }
  if (auto id = dyn_cast<ProgramIdOp>(op))
    return ("program_id." + stringifyGridAxis(id.getAxis())).str();
  if (auto programs = dyn_cast<NumProgramsOp>(op))
    return ("num_programs." + stringifyGridAxis(programs.getAxis())).str();
  if (auto dim = dyn_cast<DimOp>(op))
    return nameOf(dim.getSource()) + "[" + std::to_string(dim.getDimension()) +
           "]";
  return ("(" + op->getName().getStringRef() + ")").str();
}

std::string IndexAnalysis::toString(const IndexExpr &expr) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool first = true;
  auto sign = [&](int64_t number) {
    if (first)
      stream << (number < 0 ? "-" : "");
    else
      stream << (number < 0 ? " - " : " + ");
    first = false;
  };
  for (auto [symbol, coefficient] : expr.terms) {
    sign(coefficient);
    if (std::abs(coefficient) != 1)
      stream << std::abs(coefficient) << " * ";
    stream << nameOf(symbols[symbol].value);
  }
  if (expr.constant || first) {
    sign(expr.constant);
    stream << std::abs(expr.constant);
  }
  return text;
}
