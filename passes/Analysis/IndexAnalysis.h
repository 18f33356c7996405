//===- IndexAnalysis.h - Affine facts about index values --------*- C++ -*-===//
//
// Where tiles start, as linear expressions over SSA values, and proofs of
// inequalities between them from what is known of loops, work items and integer
// arithmetic. Everything is proved for all values the symbols can take; what
// cannot be proved is simply "not proved".
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ANALYSIS_INDEXANALYSIS_H
#define FLAMIA_PASSES_ANALYSIS_INDEXANALYSIS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace flamia {

/// constant + sum of coefficient * symbol. Symbols belong to an IndexAnalysis;
/// terms are sorted by symbol and have no zero coefficient.
struct IndexExpr {
  llvm::SmallVector<std::pair<unsigned, int64_t>, 4> terms;
  int64_t constant = 0;

  IndexExpr() = default;
  IndexExpr(int64_t constant) : constant(constant) {}

  bool isConstant() const { return terms.empty(); }
  bool operator==(const IndexExpr &other) const {
    return constant == other.constant && terms == other.terms;
  }
  bool operator!=(const IndexExpr &other) const { return !(*this == other); }
  IndexExpr operator+(const IndexExpr &other) const;
  IndexExpr operator-(const IndexExpr &other) const {
    return *this + other * -1;
  }
  IndexExpr operator*(int64_t factor) const;
};

class IndexAnalysis {
public:
  /// The value as an expression; what is not linear becomes a symbol.
  IndexExpr get(mlir::Value value);

  /// True if \p expr >= 0 follows from the facts known.
  bool isNonNegative(const IndexExpr &expr);
  bool isAtMost(const IndexExpr &a, const IndexExpr &b) {
    return isNonNegative(b - a);
  }
  bool isLess(const IndexExpr &a, const IndexExpr &b) {
    return isNonNegative(b - a - 1);
  }

  /// The same expression in an earlier iteration of \p loop: symbols that
  /// change from iteration to iteration are renamed, so that they do not
  /// cancel against those of the current one.
  IndexExpr inEarlierIteration(const IndexExpr &expr, mlir::Operation *loop);

  /// True if the expression has a symbol for which \p predicate holds.
  bool anySymbol(const IndexExpr &expr,
                 llvm::function_ref<bool(mlir::Value)> predicate) const;

  /// Adds the fact \p expr >= 0 while the object lives.
  class Assumption {
  public:
    Assumption(IndexAnalysis &analysis, const IndexExpr &expr)
        : analysis(analysis) {
      analysis.assumptions.push_back(expr);
    }
    ~Assumption() { analysis.assumptions.pop_back(); }
    Assumption(const Assumption &) = delete;

  private:
    IndexAnalysis &analysis;
  };

  /// "begin + 128 * tile".
  std::string toString(const IndexExpr &expr) const;

private:
  struct Symbol {
    mlir::Value value;
    /// Set for a value of an earlier iteration of this loop.
    mlir::Operation *loop = nullptr;
    /// Expressions known to be >= 0, once computed.
    std::optional<std::vector<IndexExpr>> facts;
  };

  unsigned symbolFor(mlir::Value value, mlir::Operation *loop = nullptr);
  IndexExpr symbolExpr(unsigned symbol) const;
  const std::vector<IndexExpr> &factsOf(unsigned symbol);
  void addFacts(mlir::Value value, const IndexExpr &self,
                std::vector<IndexExpr> &facts);

  std::vector<Symbol> symbols;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Operation *>, unsigned> numbers;
  llvm::DenseMap<mlir::Value, IndexExpr> exprs;
  std::vector<IndexExpr> assumptions;
};

} // namespace flamia

#endif // FLAMIA_PASSES_ANALYSIS_INDEXANALYSIS_H
