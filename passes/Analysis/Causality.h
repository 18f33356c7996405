//===- Causality.h - Which tokens reach which outputs -----------*- C++ -*-===//
//
// A forward dataflow analysis over one specialized kernel. For each tile value
// it keeps the sources it depends on, and how an element's place relates to the
// tokens it depends on: through its row, its column, or a whole range of tokens
// (after a product or reduction over them), with how many tokens share a scale
// and how a mask limits what a row sees. At each store to an output with
// `flamia.depends` these are compared with the output's own tokens.
//
// Only finite inputs are considered (promise P1): 0 * x counts as 0.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ANALYSIS_CAUSALITY_H
#define FLAMIA_PASSES_ANALYSIS_CAUSALITY_H

#include "dialects/Flamia/Flamia.h"
#include "dialects/Flamia/Folded.h"
#include "passes/Analysis/IndexAnalysis.h"

#include "llvm/ADT/MapVector.h"

namespace flamia {

/// Elements along a contraction that share a scale in hardware.
inline constexpr int64_t hardwareBlock = 32;

/// How many tokens share a scale, beyond a number of them.
inline constexpr int64_t sharedByDocument = int64_t(1) << 60;
inline constexpr int64_t sharedByPack = int64_t(1) << 61;

/// One way in which a tile depends on a source.
struct Dependence {
  enum class Kind {
    Row,   ///< row r on token origin + r
    Col,   ///< column c on token origin + c
    Range, ///< every element on tokens origin .. origin + extent - 1
    All    ///< every element on any token
  };

  mlir::BlockArgument source;
  /// The op that read it.
  mlir::Operation *load = nullptr;
  /// The first product or reduction it went through, and as which operand.
  mlir::Operation *product = nullptr;
  unsigned productOperand = 0;
  Kind kind = Kind::All;
  IndexExpr origin;
  int64_t extent = 0;
  /// Tokens that share a scale.
  int64_t sharing = 1;
  /// True if they do because a product sums over them.
  bool sharedByProduct = false;
  /// If set, row r depends only on tokens <= above + r (>= below + r).
  std::optional<IndexExpr> above, below;

  bool operator==(const Dependence &other) const;
};

/// Elements that a mask hides hold a value that depends on no data: those with
/// cols + c > rows + r (transposed: cols + r > rows + c).
struct MaskState {
  enum class Hidden { MinusInf, Zero, Constant };
  IndexExpr rows, cols;
  bool transposed = false;
  Hidden hidden = Hidden::MinusInf;

  bool sameRegion(const MaskState &other) const {
    return rows == other.rows && cols == other.cols &&
           transposed == other.transposed;
  }
};

/// A dependence that an output must not have.
struct Leak {
  enum class Reason {
    SharedScale, ///< a scale shared over tokens, in a tile not strictly past
    NoMask,      ///< tokens that no mask hides
    OtherRow,    ///< row r holds another token than the output's row r
    NoDirection  ///< `flamia.depends` does not name the source
  };
  Reason reason = Reason::NoMask;
  Dependence dependence;
  /// ">=" if the output may see only tokens after its own.
  bool later = false;
  /// Outputs reached, with the op that stores the first of them.
  llvm::SmallVector<mlir::BlockArgument, 4> outputs;
  mlir::Operation *store = nullptr;
  IndexExpr outputOrigin;
  int64_t outputRows = 0;
};

class CausalityAnalysis {
public:
  /// Analyses \p kernel, which must be specialized.
  explicit CausalityAnalysis(KernelOp kernel);

  llvm::ArrayRef<Leak> getLeaks() const { return leaks; }
  IndexAnalysis &getIndices() { return indices; }
  /// The argument that holds the unquantized values of \p source, or null.
  mlir::BlockArgument getOriginal(mlir::BlockArgument source) {
    return argumentNamedBy(source, "flamia.original");
  }
  /// The argument by whose values, one for each token, the original of \p
  /// source is too small, or null.
  mlir::BlockArgument getOriginalFactor(mlir::BlockArgument source) {
    return argumentNamedBy(source, "flamia.original_factor");
  }
  /// The payload with which the vector \p source is exchanged, or null.
  mlir::BlockArgument getOriginalWith(mlir::BlockArgument source) {
    return argumentNamedBy(source, "flamia.original_with");
  }
  /// True if all of the dependence's tokens come strictly before the output
  /// rows of \p leak (strictly after, for ">=").
  bool isStrictlyPast(const Leak &leak);

private:
  struct State {
    llvm::SmallVector<Dependence, 4> dependences;
    std::optional<MaskState> mask;

    bool operator==(const State &other) const;
    void add(const Dependence &dependence);
    void addAll(const State &other) {
      for (const Dependence &dependence : other.dependences)
        add(dependence);
    }
  };

  State &stateOf(mlir::Value value) { return states[value]; }
  void visitBlock(mlir::Block &block);
  void visitOp(mlir::Operation *op);
  void visitLoop(mlir::Operation *op);
  void visitBranch(mlir::Operation *op);
  void visitLoad(mlir::Operation *op);
  void visitMask(MaskOp op);
  void visitDot(DotOp op);
  void visitReduce(ReduceOp op);
  void visitBroadcast(BroadcastOp op);
  void visitTranspose(TransposeOp op);
  void visitQuantize(QuantizeOp op);
  void visitExponents(mlir::Operation *op);
  void visitReduceRows(ReduceRowsOp op);
  void visitElementwise(mlir::Operation *op);
  void visitUnknown(mlir::Operation *op);
  std::optional<MaskState> maskOfElementwise(mlir::Operation *op);
  void limit(State &state, const MaskState &mask);
  int64_t sharingOf(LoadScaledOp op);
  int64_t payloadSharing(mlir::BlockArgument arg);
  std::optional<IndexExpr> tokensOfTile(mlir::Value tile);
  bool startsTile(const IndexExpr &row);
  std::optional<FoldedArgument> foldedOf(mlir::Value value);
  void addFolded(State &state, const FoldedArgument &folded, Dependence place);
  void checkStore(mlir::Operation *op);
  void checkDependence(mlir::Operation *store, mlir::BlockArgument output,
                       const Dependence &dependence, const IndexExpr &origin,
                       int64_t rows, llvm::StringRef direction);
  mlir::DictionaryAttr attributesOf(mlir::BlockArgument arg);
  mlir::BlockArgument argumentNamedBy(mlir::BlockArgument source,
                                      llvm::StringRef attribute);
  /// The argument under whose name `flamia.depends` lists \p source.
  mlir::BlockArgument representative(mlir::BlockArgument source);

  KernelOp kernel;
  IndexAnalysis indices;
  llvm::DenseMap<mlir::Value, State> states;
  std::vector<Leak> leaks;
};

} // namespace flamia

#endif // FLAMIA_PASSES_ANALYSIS_CAUSALITY_H
