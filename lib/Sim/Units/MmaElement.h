//===- MmaElement.h - One element of D, exactly -----------------*- C++ -*-===//
//
// Section 11 of facts/tcgen05.md for a single element, special values
// included. Used where the vector kernels do not apply.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_SIM_UNITS_MMAELEMENT_H
#define FLAMIA_LIB_SIM_UNITS_MMAELEMENT_H

#include "MmaOperands.h"
#include <cstdint>

namespace flamia::sim {

/// The inputs of an instruction that are common to all elements.
struct MmaContext {
  const InstrDescriptor *idesc;
  const DecodedRows *a;
  const DecodedRows *b;
  const DecodedScales *sfa; ///< null for the plain kinds
  const DecodedScales *sfb;
  unsigned scaleInputD;
  MmaNumerics numerics;
};

/// Element of A row \p m and B row \p n as lane group \p group sees the scales;
/// \p sfbRow is the row of the B scales. \p c are the bits of the accumulator
/// cell (0 when there is none). Returns the bits of the result.
uint32_t mmaElement(const MmaContext &context, unsigned group, unsigned m,
                    unsigned n, unsigned sfbRow, uint32_t c);

} // namespace flamia::sim

#endif // FLAMIA_LIB_SIM_UNITS_MMAELEMENT_H
