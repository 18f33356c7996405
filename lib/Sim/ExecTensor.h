//===- ExecTensor.h - Functions of the tcgen05 instructions -----*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_EXECTENSOR_H
#define FLAMIA_LIB_SIM_EXECTENSOR_H

#include "Program.h"

namespace flamia {
namespace sim {

enum class TensorOp {
  Alloc,
  Dealloc,
  Relinquish,
  Access,
  Wait,
  Mma,
  Copy,
  Shift,
  Commit,
  Fence
};
ExecFn tensorFunction(TensorOp op);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_EXECTENSOR_H
