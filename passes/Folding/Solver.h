//===- Solver.h - Which powers of two go where ------------------*- C++ -*-===//
//
// Finds gauges (Gauge.h) for the tile values of one group of connected ops, so
// that every op's rule holds, every leaf can be read, values that leave the
// group keep gauge 0, and the cost is least. A bounded search: demands go from
// results to operands, choices are tried in a fixed order.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_FOLDING_SOLVER_H
#define FLAMIA_PASSES_FOLDING_SOLVER_H

#include "passes/Folding/Leaves.h"

#include "llvm/ADT/SetVector.h"

namespace flamia {

/// What an operand that is read from memory, or a constant, becomes.
struct LeafChoice {
  enum class Kind {
    Scales,  ///< the scaled load takes its bytes from `argument`
    Unit,    ///< the scaled load has unit scales
    Vector,  ///< `argument`'s tile vector, negated if `negate`
    Constant ///< the constant times 2^power
  };
  Kind kind;
  mlir::OpOperand *use;
  unsigned argument = 0, place = 0;
  int64_t power = 0;
  bool negate = false;
};

/// What an op becomes.
struct OpChoice {
  enum class Kind {
    Shift,      ///< quantize: shift by the number in `argument`
    ShiftBy,    ///< quantize: shift by `power`
    Multiply,   ///< the op's result is multiplied by the factor `argument`
    Fuse,       ///< a - b becomes fma(-b, factor, a)
    DropFactor, ///< a multiplication by 1
  };
  Kind kind;
  mlir::Operation *op;
  unsigned argument = 0, place = 0;
  int64_t power = 0;
};

struct Solution {
  std::vector<LeafChoice> leaves;
  std::vector<OpChoice> ops;
  /// Products that keep scales no hardware can apply.
  std::vector<mlir::Operation *> leftAlone;
  /// Per-column vectors that no argument holds.
  std::vector<mlir::OpOperand *> leftVectors;
  /// What arguments would have to be declared.
  std::vector<std::string> missing;
  int64_t cost = 0;
  bool changes() const { return !leaves.empty() || !ops.empty(); }
};

/// Ops through which folding moves powers of two.
bool isCarrier(mlir::Operation *op);
/// True if operand \p index of \p dot has scales of single elements along the
/// contraction.
bool isContractedTokenLocal(DotOp dot, unsigned index);
/// True for a tile whose columns are the tokens of one scale tile: what
/// declared vectors have one value for.
bool hasLineWidth(mlir::Value value);
/// A vector for columns that was loaded for rows: only an argument with
/// `flamia.folded` can be read that way.
bool isTurnedVector(mlir::Value value);

class Solver {
public:
  /// \p group: carriers of one block in their order.
  Solver(LeafCatalog &catalog, llvm::ArrayRef<mlir::Operation *> group)
      : catalog(catalog), group(group.begin(), group.end()) {}

  /// Ops of the largest group that is worth a search.
  static constexpr size_t mostOps = 96;
  /// With \p assumeMissing arguments that are not declared count as read, at a
  /// high cost. Null only if the search was cut off before any solution.
  std::optional<Solution> solve(bool assumeMissing);

  /// True if the last search did not see all placements.
  bool wasCutOff() const { return steps > mostSteps; }

private:
  static constexpr unsigned mostSteps = 40000;
  // The search recurses; its frames should be small.
  using Gauges = std::vector<Gauge>;
  struct Demand {
    mlir::OpOperand *use;
    mlir::Value value;
    Gauge gauge;
    bool additive;
  };
  struct Assigned {
    mlir::Value value;
    Gauge gauge;
    bool additive;
  };
  struct State {
    Solution solution;
    std::vector<Assigned> assigned;
    std::vector<Demand> agenda;

    void demand(mlir::OpOperand &use, Gauge gauge, bool additive = false) {
      agenda.push_back({&use, use.get(), std::move(gauge), additive});
    }
    const Assigned *find(mlir::Value value) const;
  };
  /// One way to read a scaled operand; the gauge is that of the operand as the
  /// product sees it.
  struct OperandOption {
    Gauge gauge;
    std::optional<LeafChoice> choice;
    bool leftAlone = false;
  };

  void expand(State state);
  void expandLeaf(State state, const Demand &demand);
  void expandVector(State state, const Demand &demand, const VectorLeaf &leaf);
  void expandOp(State state, mlir::Operation *op, const Gauge &gauge,
                bool additive);
  void expandProduct(State state, mlir::Operation *op, const Gauge &gauge);
  void expandSum(State state, mlir::Operation *op, const Gauge &gauge,
                 bool additive);
  void expandQuantize(State state, QuantizeOp op, const Gauge &gauge);
  void expandDot(State state, DotOp op, const Gauge &gauge);

  bool isLeaf(mlir::Value value) const;
  bool addMissing(State &state, std::string text) const;
  std::vector<OperandOption> getOptions(DotOp dot, unsigned index);
  llvm::SmallVector<unsigned, 2> getPlaces(const Gauge &gauge) const;
  /// Gauges that \p value can have without regard to its other users:
  /// candidates, not a proof.
  Gauges getPossible(mlir::Value value, bool additive);
  Gauges getPossibleOfLeaf(mlir::Value value, bool additive);
  Gauges getPossibleOfOp(mlir::Operation *op, bool additive);
  Gauges getCandidates(const State &state, mlir::Operation *op,
                       const Gauge &gauge);

  LeafCatalog &catalog;
  llvm::SmallSetVector<mlir::Operation *, 16> group;
  bool assumeMissing = false;
  unsigned steps = 0;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, Gauges> possible;
  std::optional<Solution> best;
};

} // namespace flamia

#endif // FLAMIA_PASSES_FOLDING_SOLVER_H
