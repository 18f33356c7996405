//===- Driver.h - libcuda, opened at run time -------------------*- C++ -*-===//
//
// The few driver calls that the hardware comparison needs.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_TEST_SIM_HARDWARE_DRIVER_H
#define FLAMIA_TEST_SIM_HARDWARE_DRIVER_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace hw {

using DevicePtr = unsigned long long;
using Handle = void *;

/// Exits with 77 (test skipped) when there is no driver or device.
class Driver {
public:
  Driver() {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library || call<unsigned>("cuInit", 0u) != 0) {
      std::puts("skipped: no CUDA device");
      std::exit(77);
    }
    int device = 0;
    check("cuDeviceGet", call<int *, int>("cuDeviceGet", &device, 0));
    Handle context = nullptr;
    check("cuDevicePrimaryCtxRetain",
          call<Handle *, int>("cuDevicePrimaryCtxRetain", &context, device));
    check("cuCtxSetCurrent", call<Handle>("cuCtxSetCurrent", context));
  }

  template <typename... Args>
  int call(const char *name, Args... args) {
    void *symbol = dlsym(library, name);
    if (!symbol) {
      std::printf("libcuda has no %s\n", name);
      std::exit(1);
    }
    return reinterpret_cast<int (*)(Args...)>(symbol)(args...);
  }

  void check(const char *what, int result) {
    if (result == 0)
      return;
    std::printf("%s: CUDA error %d\n", what, result);
    std::exit(1);
  }

  /// Null when the driver refuses the text.
  Handle load(const std::string &ptx, const char *entry) {
    Handle module = nullptr, function = nullptr;
    if (call<Handle *, const void *>("cuModuleLoadData", &module,
                                     ptx.c_str()) != 0)
      return nullptr;
    check("cuModuleGetFunction",
          call<Handle *, Handle, const char *>("cuModuleGetFunction", &function,
                                               module, entry));
    return function;
  }

  DevicePtr allocate(size_t size) {
    DevicePtr pointer = 0;
    check("cuMemAlloc",
          call<DevicePtr *, size_t>("cuMemAlloc_v2", &pointer, size));
    return pointer;
  }
  void upload(DevicePtr to, const void *from, size_t size) {
    check("cuMemcpyHtoD", call<DevicePtr, const void *, size_t>(
                              "cuMemcpyHtoD_v2", to, from, size));
  }
  void download(void *to, DevicePtr from, size_t size) {
    check("cuMemcpyDtoH",
          call<void *, DevicePtr, size_t>("cuMemcpyDtoH_v2", to, from, size));
  }
  void release(DevicePtr pointer) {
    check("cuMemFree", call<DevicePtr>("cuMemFree_v2", pointer));
  }
  /// The head of CUlaunchConfig and one CUlaunchAttribute.
  struct LaunchAttribute {
    unsigned id;
    unsigned pad;
    unsigned value[16];
  };
  struct LaunchConfig {
    unsigned grid[3], block[3];
    unsigned sharedBytes;
    Handle stream;
    LaunchAttribute *attributes;
    unsigned count;
  };
  void launch(Handle function, unsigned blocks, unsigned threads, void **params,
              unsigned cluster = 1, unsigned shared = 0) {
    // 8: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
    if (shared)
      check("cuFuncSetAttribute",
            call<Handle, int, int>("cuFuncSetAttribute", function, 8,
                                   int(shared)));
    // 4: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION.
    LaunchAttribute attribute = {4, 0, {cluster, 1, 1}};
    LaunchConfig config = {{blocks, 1, 1}, {threads, 1, 1}, shared,
                           nullptr,        &attribute,      cluster > 1};
    check("cuLaunchKernelEx",
          call<LaunchConfig *, Handle, void **, void **>(
              "cuLaunchKernelEx", &config, function, params, nullptr));
    check("cuCtxSynchronize", call<>("cuCtxSynchronize"));
  }

private:
  void *library = nullptr;
};

} // namespace hw

#endif // FLAMIA_TEST_SIM_HARDWARE_DRIVER_H
