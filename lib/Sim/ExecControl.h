//===- ExecControl.h - Splitting and ending fragments -----------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_EXECCONTROL_H
#define FLAMIA_LIB_SIM_EXECCONTROL_H

#include "Decoder.h"
#include "Machine.h"

namespace flamia {
namespace sim {

/// A join that is not in use; its fields are still those of its last use.
int32_t freeJoin(Warp &w);
/// Gives the fragment's lanes to `parts` (pc, mask), with a join at the
/// instruction's reconvergence point unless the fragment already heads for it.
Flow splitFragment(Exec &x, const Instr &i,
                   llvm::ArrayRef<std::pair<uint32_t, uint32_t>> parts);
/// `exit`, and `ret` outside device functions.
Flow exitThread(Exec &x, const Instr &i, uint32_t mask);
/// `ret` in a kernel with device functions.
Flow returnThread(Exec &x, const Instr &i, uint32_t mask);

/// The index of a `.local` variable of a recursive function, noIndex for any
/// other name: such a variable lies on the stack of each activation.
uint32_t frameVariable(const Decoder &d, llvm::StringRef name);
/// mov of such a variable's address.
bool decodeFrameAddress(Decoder &d, uint32_t variable);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_EXECCONTROL_H
