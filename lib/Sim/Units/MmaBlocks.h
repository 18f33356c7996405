//===- MmaBlocks.h - Parts of a tcgen05.mma in one CTA ----------*- C++ -*-===//
//
// Where the rows and columns of D lie (facts/tcgen05.md section 4.3).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_MMABLOCKS_H
#define FLAMIA_LIB_SIM_UNITS_MMABLOCKS_H

#include "flamia/Sim/Units/Mma.h"
#include <vector>

namespace flamia::sim {

/// A rectangle of D in one CTA: its A rows 0..rows-1 against `columns` rows of
/// B from `firstN` on, at columns base.. of tensor memory.
struct MmaBlock {
  unsigned rows;
  unsigned firstLane;
  bool scattered; ///< layout F: 16 lanes of each 32-lane group
  unsigned firstN;
  unsigned columns;

  unsigned lane(unsigned row) const {
    return scattered ? firstLane + 32 * (row / 16) + row % 16 : firstLane + row;
  }
};

std::vector<MmaBlock> mmaBlocks(const InstrDescriptor &idesc, uint32_t d);

/// Scale factors per row and instruction; 0 for the plain kinds.
unsigned scalesPerRow(const InstrDescriptor &idesc);

/// Tensor memory columns that D takes in one CTA.
unsigned dColumns(const InstrDescriptor &idesc);

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_MMABLOCKS_H
