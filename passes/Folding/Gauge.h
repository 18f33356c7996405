//===- Gauge.h - The power of two in which a tile is held -------*- C++ -*-===//
//
// Folding holds a tile value v as v * 2^g, where g has one part for each row,
// one for each column and one for the whole tile. Rules for each op say how the
// gauges of operands and results are related.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_FOLDING_GAUGE_H
#define FLAMIA_PASSES_FOLDING_GAUGE_H

#include "dialects/Flamia/Folded.h"

namespace flamia {

struct Gauge {
  /// Exponents that differ between rows, between columns, and neither. Only
  /// `common` has a constant and symbols that are maxima over whole tiles.
  FoldedExponent row, col, common;

  Gauge() = default;
  Gauge(FoldedExponent row, FoldedExponent col, FoldedExponent common)
      : row(std::move(row)), col(std::move(col)), common(std::move(common)) {}
  /// An exponent that belongs to the tokens along rows (columns).
  static Gauge ofRows(const FoldedExponent &exponent) {
    FoldedExponent own = exponent.filter(
        [](const ExponentSymbol &symbol) { return symbol.span < 128; });
    return {own, {}, exponent - own};
  }
  static Gauge ofCols(const FoldedExponent &exponent) {
    return ofRows(exponent).transposed();
  }
  static Gauge ofConstant(int64_t exponent) { return {{}, {}, exponent}; }

  Gauge transposed() const { return {col, row, common}; }
  bool isZero() const {
    return row.isZero() && col.isZero() && common.isZero();
  }
  /// True for a number that is known at compile time.
  bool isConstant() const {
    return row.isZero() && col.isZero() && common.isConstant();
  }
  bool operator==(const Gauge &other) const {
    return row == other.row && col == other.col && common == other.common;
  }
  Gauge operator+(const Gauge &other) const {
    return {row + other.row, col + other.col, common + other.common};
  }
  Gauge operator-() const { return {-row, -col, -common}; }
  Gauge operator-(const Gauge &other) const { return *this + -other; }
};

} // namespace flamia

#endif // FLAMIA_PASSES_FOLDING_GAUGE_H
