//===- Published.h - Formulas and published points --------------*- C++ -*-===//
//
// Attention kernels of others as unit formulas, what was measured of them, and
// the overhead law fitted to that:
//
//   cycles per 128 x 128 tile = c * (sum over units of u^p)^(1/p) + s + h / t
//
// u are the cycles by unit, t the score tiles of a row of tiles. p says how
// badly units that are busy at the same time get into each other's way (p
// large: not at all), c what synchronization costs, h what a row costs beside
// its tiles (start, first loads, epilogue), one for forward and one for
// backward kernels.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_PUBLISHED_H
#define FLAMIA_MODEL_PUBLISHED_H

#include "flamia/Model/Machine.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace flamia {
namespace model {

/// A kernel's structure, as far as the formulas of facts section 5 need it.
struct Variant {
  bool backward = false;
  unsigned headDim = 128;
  double operandBytes = 2; ///< of Q, K (and everything in the backward)
  double valueBytes = 2;   ///< of P and V in the forward
  /// Share of exp2 done by polynomials.
  double emulated = 0;
  bool twoCta = false; ///< Pairs of CTAs (or of query tiles) share operands.
  /// Backward: encodings of dS that are made, 0 for BF16.
  unsigned encodings = 0;
  bool blockScaled = false; ///< Scale factors in tensor memory (MXFP8, NVFP4).
};

/// Cycles by unit and 128 x 128 tile of a CTA, facts section 5.
UnitCycles tileCycles(const Variant &variant, const Machine &machine);

struct PublishedPoint {
  std::string name;
  Variant variant;
  const Machine *machine = nullptr;
  double tilesPerRow = 0;
  double cycles = 0; ///< per tile, from the published rate
  /// What its authors (or facts) say binds it; several where they are equal.
  std::vector<Unit> bottleneck;
  std::string source;
};

/// The points of facts section 7, and section 6's law of cuDNN at rows of 16
/// tiles (2048 tokens), which tells h from a.
const std::vector<PublishedPoint> &publishedPoints();

struct Law {
  double p = 0, c = 0;
  double scaled = 0; ///< s, cycles.
  /// h, cycles: forward, backward in BF16, backward in 8 bits.
  double rowForward = 0, rowBackward = 0, rowBackward8 = 0;

  /// Cycles of a tile in the middle of a long row.
  double steady(const UnitCycles &units, bool blockScaled) const;
  double row(const Variant &variant) const;
  double predict(const PublishedPoint &point) const;
};

/// Least squares of the relative errors; p is searched in steps of 0.1.
Law fit(llvm::ArrayRef<PublishedPoint> points);
/// Fitted to all points.
const Law &calibratedLaw();

/// Mean of |predicted / measured - 1|.
double meanError(const Law &law, llvm::ArrayRef<PublishedPoint> points);

/// The half of the points that the gate is fitted on: every second one. Both
/// GPUs, directions, lengths and formats are in it.
std::vector<PublishedPoint> fittingHalf();
/// The others.
std::vector<PublishedPoint> heldOutHalf();

/// Predicted beside measured cycles of all points as a Markdown table: fitted
/// on half (the held-out points are marked), and on all. docs/model.md holds
/// it.
std::string calibrationTable();

/// A kernel's measured cycles a tile as `a + h / t`, facts section 6.
struct MeasuredLaw {
  double a = 0, h = 0;
};
/// The fastest published BF16 kernels (cuDNN 9.22; GB300's numbers for B300).
MeasuredLaw bestBf16(bool backward, unsigned headDim, const Machine &machine);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_PUBLISHED_H
