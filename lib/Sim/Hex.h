//===- Hex.h - Addresses in messages ----------------------------*- C++ -*-===//
#ifndef FLAMIA_LIB_SIM_HEX_H
#define FLAMIA_LIB_SIM_HEX_H

#include "llvm/ADT/StringExtras.h"

#include <cstdint>
#include <string>

namespace flamia {
namespace sim {

inline std::string hex(uint64_t v) {
  return "0x" + llvm::utohexstr(v, /*LowerCase=*/true);
}

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_HEX_H
