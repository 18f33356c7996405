//===- Costs.h - What folding weighs ----------------------------*- C++ -*-===//
//
// Each cost outweighs any number of smaller ones that a tile program has.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_FOLDING_COSTS_H
#define FLAMIA_PASSES_FOLDING_COSTS_H

#include <cstdint>

namespace flamia {
namespace costs {
/// Reading another argument, shifting a scale byte: the fewest changes win.
inline constexpr int64_t leaf = 1;
/// One more operation for each element of a tile.
inline constexpr int64_t perElement = 1000;
/// An argument that is not declared.
inline constexpr int64_t missing = 1000 * 1000;
/// A product or a vector that cannot be lowered.
inline constexpr int64_t leftAlone = 1000 * 1000 * 1000;
} // namespace costs
} // namespace flamia

#endif // FLAMIA_PASSES_FOLDING_COSTS_H
