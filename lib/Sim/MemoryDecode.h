//===- MemoryDecode.h - Qualifiers shared by memory instructions -*- C++
//-*-===//
#ifndef FLAMIA_LIB_SIM_MEMORYDECODE_H
#define FLAMIA_LIB_SIM_MEMORYDECODE_H

#include "Decoder.h"

namespace flamia {
namespace sim {

/// Takes the state space, generic when none is written.
bool takeSpace(Decoder &d, uint8_t &space);
/// Takes ordering, scope and cache qualifiers, which have no effect on values.
/// `policy` tells whether a cache-policy operand follows.
void takeMemoryHints(Decoder &d, bool &policy);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_MEMORYDECODE_H
