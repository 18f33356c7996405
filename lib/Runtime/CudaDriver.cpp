//===- CudaDriver.cpp - Opens libcuda.so.1 --------------------------------===//
//
// Finds the driver's entry points once per process.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include "flamia/Runtime/Device.h"

#include "llvm/ADT/Twine.h"

#include <cstdlib>
#include <dlfcn.h>
#include <string>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;
using namespace flamia::runtime::cuda;

namespace {

struct OpenedDriver {
  Driver driver;
  std::string fault; // empty when the driver can be used
};

OpenedDriver openDriver() {
  OpenedDriver opened;
  // Tests name a file that does not exist to see the message.
  const char *path = std::getenv("FLAMIA_LIBCUDA");
  path = path ? path : "libcuda.so.1";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    opened.fault = ("cannot open the CUDA driver " + Twine(path) +
                    ": this machine has no NVIDIA driver")
                       .str();
    return opened;
  }
  Driver &driver = opened.driver;
// NOLINTBEGIN(bugprone-macro-parentheses)
#define FLAMIA_RESOLVE(name, parameters)                                       \
  driver.name = reinterpret_cast<Result(*) parameters>(dlsym(library, #name)); \
  if (!driver.name && opened.fault.empty())                                    \
    opened.fault =                                                             \
        "the CUDA driver has no " #name ": it is older than CUDA 12.3";
  FLAMIA_CUDA_FUNCTIONS(FLAMIA_RESOLVE)
#undef FLAMIA_RESOLVE
  // NOLINTEND(bugprone-macro-parentheses)
  if (opened.fault.empty())
    if (Error error = driver.check(driver.cuInit(0), "cuInit"))
      opened.fault = toString(std::move(error));
  return opened;
}

} // namespace

Expected<const Driver *> Driver::get() {
  static const OpenedDriver opened = openDriver();
  if (!opened.fault.empty())
    return makeError(ErrorCode::NoDevice, opened.fault);
  return &opened.driver;
}

Error Driver::check(Result result, const char *call) const {
  if (result == 0)
    return Error::success();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return makeError(ErrorCode::LaunchFailed,
                   Twine(call) +
                       " failed: " + (name ? Twine(name) : Twine(result)) +
                       " (" + (text ? text : "no description") + ")");
}
