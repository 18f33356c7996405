//===- Target.cpp - Architectures -----------------------------------------===//
//
// What each supported architecture needs. PTX 8.8 is the lowest version that
// knows sm_103a and the portable spelling of block scales.
//
//===----------------------------------------------------------------------===//

#include "flamia/Driver/Driver.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::driver;

static const Target kTargets[] = {
    {"sm_100a", "+ptx88", "8.8", 12, 9, true},
    {"sm_103a", "+ptx88", "8.8", 12, 9, true},
    {"sm_90", "+ptx86", "8.6", 12, 7, false},
};

Expected<const Target *> driver::findTarget(StringRef name) {
  for (const Target &target : kTargets)
    if (target.name == name)
      return &target;
  std::string names;
  for (const Target &target : kTargets)
    names += (names.empty() ? "" : ", ") + target.name.str() +
             (target.hasTensorMemory ? "" : " (kernels without tensor memory)");
  // Consumer Blackwell looks like a natural choice and is not one.
  StringRef reason = name.starts_with("sm_12")
                         ? "tensor memory not available on "
                         : "unknown architecture ";
  return createStringError(reason + name + "; supported: " + names);
}
