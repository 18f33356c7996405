//===- Liveness.h - Registers that live values need -------------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_LIVENESS_H
#define FLAMIA_LIB_SIM_LIVENESS_H

#include "Program.h"

namespace flamia {
namespace sim {

/// Basic blocks of a kernel: first instructions and successors, the number of
/// blocks standing for the exit.
struct BlockGraph {
  std::vector<uint32_t> first;
  std::vector<std::vector<uint32_t>> successors;
};

/// Fills kernel.pressure: for each instruction a lower bound of the 32-bit
/// registers that the values alive at it take, for the order of instructions
/// given. `widths` are the bits of every register, 1 for predicates. Leaves it
/// empty when the kernel is too large to analyse.
void computePressure(const Program &program, Kernel &kernel,
                     const BlockGraph &graph,
                     const std::vector<uint8_t> &widths);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_LIVENESS_H
