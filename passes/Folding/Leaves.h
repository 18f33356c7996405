//===- Leaves.h - What folding can read from memory -------------*- C++ -*-===//
//
// Places of tiles, arguments with `flamia.folded`, and the forms in which
// per-token vectors and constants appear in a program.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_FOLDING_LEAVES_H
#define FLAMIA_PASSES_FOLDING_LEAVES_H

#include "passes/Analysis/IndexAnalysis.h"
#include "passes/Folding/Gauge.h"

#include "mlir/IR/Dominance.h"

namespace flamia {

/// (negate ? -x : x) * 2^power + plus of a per-token argument x, seen as a
/// value for each row or, transposed, for each column.
struct VectorLeaf {
  LoadOp load;
  /// The argument that is loaded.
  unsigned argument = 0;
  bool negate = false;
  int64_t power = 0;
  double plus = 0;
  bool column = false;
};

/// An argument with `flamia.folded`.
struct Declared {
  unsigned argument = 0;
  FoldedArgument folded;
};

/// The number in every element of \p value, if it is known.
std::optional<double> getSplat(mlir::Value value);
/// k if \p number is 2^k.
std::optional<int64_t> getPowerOfTwo(double number);
/// The vector that \p broadcast repeats, if it has the form of a VectorLeaf.
std::optional<VectorLeaf> matchVector(mlir::Value broadcast);
/// The load of a scaled operand behind transposes, or null.
LoadScaledOp getScaledLoad(mlir::Value operand, bool &transposed);

class LeafCatalog {
public:
  explicit LeafCatalog(KernelOp kernel);

  KernelOp getKernel() const { return kernel; }
  llvm::ArrayRef<Declared> getDeclared() const { return declared; }

  /// Number of the tokens and head that a load reads; nothing if the load's
  /// form does not say.
  std::optional<unsigned> getPlace(LoadScaledOp load);
  std::optional<unsigned> getPlace(LoadOp load);
  /// A scaled load at \p place whose scale indices \p user may use, or null;
  /// one that comes before \p user if there is any.
  LoadScaledOp getAnchor(unsigned place, mlir::Operation *user);
  bool dominates(mlir::Operation *op, mlir::Operation *user);

  /// The exponent that \p argument holds at \p place, if it may be used for
  /// \p user: its array can be indexed there, and its maxima are over tokens
  /// that the outputs may depend on.
  std::optional<FoldedExponent>
  getExponent(const Declared &argument, unsigned place, mlir::Operation *user);

  /// True if columns of padding, tokens of \p place past the document's end, do
  /// not exist, or a mask hides them after \p op and nothing else sees them.
  bool hidesPadding(unsigned place, mlir::Operation *op);

  /// "an argument with 'flamia.folded' = {...}": what would be needed.
  std::string describeVector(const VectorLeaf &leaf,
                             const FoldedExponent &exponent, bool additive);
  std::string describeMask();
  std::string describeFactor(const FoldedExponent &exponent);
  std::string describeScales(const FoldedExponent &exponent, Axis along);

private:
  struct Place {
    IndexExpr row, head;
    llvm::SmallVector<LoadScaledOp, 2> loads;
    /// Payloads of which all tokens of this tile may reach the outputs.
    llvm::DenseMap<unsigned, bool> apart;
  };

  unsigned getPlace(mlir::Value row, mlir::Value head);
  bool isApart(unsigned place, unsigned payload);

  KernelOp kernel;
  IndexAnalysis indices;
  mlir::DominanceInfo dominance;
  std::vector<Declared> declared;
  std::vector<Place> places;
};

} // namespace flamia

#endif // FLAMIA_PASSES_FOLDING_LEAVES_H
