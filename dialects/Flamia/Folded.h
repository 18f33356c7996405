//===- Folded.h - Arguments that hold powers of two -------------*- C++ -*-===//
//
// The argument attribute `flamia.folded` and its symbolic exponents; grammar
// and meaning: docs/fold-scales.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_DIALECTS_FLAMIA_FOLDED_H
#define FLAMIA_DIALECTS_FLAMIA_FOLDED_H

#include "dialects/Flamia/Flamia.h"

namespace flamia {

/// e(x) is the exponent (scale byte - 127) with which an element of the payload
/// argument x was quantized; max32 and max128 are the largest of the document's
/// tokens in a block of 32 or a tile of 128.
struct ExponentSymbol {
  /// Number of the payload argument.
  unsigned argument = 0;
  /// 1 for e(x), 32 for max32(e(x)), 128 for max128(e(x)).
  unsigned span = 1;
  /// Which tokens; 0 where there is only one tile to speak of. Numbers are the
  /// user's business.
  unsigned place = 0;

  bool operator==(const ExponentSymbol &other) const {
    return argument == other.argument && span == other.span &&
           place == other.place;
  }
  bool operator<(const ExponentSymbol &other) const {
    return std::tie(place, argument, span) <
           std::tie(other.place, other.argument, other.span);
  }
};

/// constant + sum of coefficient * symbol: terms sorted by symbol, none zero.
struct FoldedExponent {
  llvm::SmallVector<std::pair<ExponentSymbol, int64_t>, 4> terms;
  int64_t constant = 0;

  FoldedExponent() = default;
  FoldedExponent(int64_t constant) : constant(constant) {}
  FoldedExponent(ExponentSymbol symbol) : terms({{symbol, 1}}) {}

  bool isConstant() const { return terms.empty(); }
  bool isZero() const { return terms.empty() && constant == 0; }
  bool operator==(const FoldedExponent &other) const {
    return constant == other.constant && terms == other.terms;
  }
  bool operator!=(const FoldedExponent &other) const {
    return !(*this == other);
  }
  bool operator<(const FoldedExponent &other) const {
    return std::tie(terms, constant) < std::tie(other.terms, other.constant);
  }
  FoldedExponent operator+(const FoldedExponent &other) const;
  FoldedExponent operator-() const;
  FoldedExponent operator-(const FoldedExponent &other) const {
    return *this + -other;
  }
  /// The terms for which \p predicate holds, without the constant.
  FoldedExponent
  filter(llvm::function_ref<bool(const ExponentSymbol &)> predicate) const;
  /// The same with every symbol at \p place.
  FoldedExponent at(unsigned place) const;

  /// "e(q_data) - max128(e(q_data)) + 8", with the argument names of \p kernel.
  std::string str(KernelOp kernel) const;
  /// Reads what `str` writes. On failure \p error says what was expected and
  /// found.
  static mlir::FailureOr<FoldedExponent>
  parse(llvm::StringRef text, KernelOp kernel, std::string &error);
};

/// What `flamia.folded` says of an argument.
struct FoldedArgument {
  enum class Form {
    ScaleBytes, ///< E8M0 bytes whose whole exponent is `exponent`
    Scalar,     ///< f32 [tiles, heads]: the exponent, a number
    Factor,     ///< f32 [tiles, heads, 128]: 2^exponent of each token
    Vector,     ///< f32 [tiles, heads, 128]: of * 2^exponent
    Bias        ///< f32 [tiles, heads, 128]: (-)of + plus + exponent
  };
  Form form = Form::Scalar;
  FoldedExponent exponent;
  /// ScaleBytes: the axis along which scales of an atom row run.
  Axis along = Axis::Cols;
  /// Vector, Bias: the argument [tokens, heads] whose values are held.
  mlir::BlockArgument of;
  /// Bias.
  bool negate = false;
  double plus = 0;
};

/// Reads the attribute of argument \p index of a verified kernel; nothing if
/// there is none.
std::optional<FoldedArgument> getFoldedArgument(KernelOp kernel,
                                                unsigned index);

/// Part of the kernel's verifier: the attribute of one argument, if any.
mlir::LogicalResult verifyFolded(KernelOp kernel, unsigned index);

} // namespace flamia

#endif // FLAMIA_DIALECTS_FLAMIA_FOLDED_H
