//===- DecodeCopy.h - Decoding of asynchronous copies -----------*- C++ -*-===//
//
// Between ExecCopy.cpp and ExecLaneCopy.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_DECODECOPY_H
#define FLAMIA_LIB_SIM_DECODECOPY_H

#include "Decoder.h"

namespace flamia {
namespace sim {

/// Adds a CopyInfo for the instruction being decoded.
CopyInfo &newCopyInfo(Decoder &d);

/// cp.async without .bulk, behind these two parts of the opcode.
bool decodeLaneCopy(Decoder &d);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_DECODECOPY_H
