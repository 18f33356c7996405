//===- Device.cpp - Parts common to all back ends -------------------------===//
//
// Errors with codes, and the anchors of the interfaces.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/Device.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

char RuntimeError::ID = 0;

void RuntimeError::log(raw_ostream &os) const { os << text; }

std::error_code RuntimeError::convertToErrorCode() const {
  return inconvertibleErrorCode();
}

Error runtime::makeError(ErrorCode code, const Twine &message) {
  return make_error<RuntimeError>(code, message.str());
}

PreparedLaunch::~PreparedLaunch() = default;
Kernel::~Kernel() = default;
Device::~Device() = default;
