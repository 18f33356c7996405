//===- CudaDriver.h - The CUDA driver, opened at run time -------*- C++ -*-===//
//
// The few entry points of libcuda.so.1 that flamia calls, found with dlopen so
// that no program links them. Types and numbers are those of cuda.h (CUDA 12.9
// and later), written out here because that header is not everywhere.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_RUNTIME_CUDADRIVER_H
#define FLAMIA_LIB_RUNTIME_CUDADRIVER_H

#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>

namespace flamia {
namespace runtime {
namespace cuda {

using Result = int; // CUresult, 0 = success
using DeviceNumber = int;
using Context = void *;
using ModuleHandle = void *;
using Function = void *;
using Stream = void *;
using Pointer = unsigned long long;

/// CUtensorMap.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

/// CUlaunchAttribute; only the cluster dimension is used.
struct LaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union {
    unsigned clusterDim[3];
    char size[64];
  } value = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX = 1, gridY = 1, gridZ = 1;
  unsigned blockX = 1, blockY = 1, blockZ = 1;
  unsigned sharedBytes = 0;
  Stream stream = nullptr;
  LaunchAttribute *attributes = nullptr;
  unsigned attributeCount = 0;
};
static_assert(offsetof(LaunchConfig, stream) == 32);
static_assert(sizeof(LaunchConfig) == 56);

// Values of enumerations in cuda.h.
inline constexpr int multiprocessorCount = 16;
inline constexpr int computeCapabilityMajor = 75; // CU_DEVICE_ATTRIBUTE_*
inline constexpr int computeCapabilityMinor = 76;
inline constexpr int maxDynamicSharedBytes = 8; // CU_FUNC_ATTRIBUTE_*
inline constexpr int clusterDimension = 4;      // CU_LAUNCH_ATTRIBUTE_*
inline constexpr int l2Promotion128B = 2;       // CU_TENSOR_MAP_L2_PROMOTION_*

/// Name in libcuda, result and parameter types.
#define FLAMIA_CUDA_FUNCTIONS(X)                                               \
  X(cuInit, (unsigned flags))                                                  \
  X(cuDeviceGetCount, (int *count))                                            \
  X(cuDeviceGet, (DeviceNumber * device, int ordinal))                         \
  X(cuDeviceGetName, (char *name, int length, DeviceNumber device))            \
  X(cuDeviceGetAttribute, (int *value, int attribute, DeviceNumber device))    \
  X(cuDevicePrimaryCtxRetain, (Context * context, DeviceNumber device))        \
  X(cuDevicePrimaryCtxRelease_v2, (DeviceNumber device))                       \
  X(cuCtxPushCurrent_v2, (Context context))                                    \
  X(cuCtxPopCurrent_v2, (Context * context))                                   \
  X(cuModuleLoadData, (ModuleHandle * module, const void *image))              \
  X(cuModuleUnload, (ModuleHandle module))                                     \
  X(cuModuleGetFunction,                                                       \
    (Function * function, ModuleHandle module, const char *name))              \
  X(cuFuncSetAttribute, (Function function, int attribute, int value))         \
  X(cuLaunchKernelEx, (const LaunchConfig *config, Function function,          \
                       void **params, void **extra))                           \
  X(cuTensorMapEncodeTiled,                                                    \
    (TensorMap * map, int type, uint32_t rank, Pointer address,                \
     const uint64_t *dims, const uint64_t *strides, const uint32_t *box,       \
     const uint32_t *elementStrides, int interleave, int swizzle,              \
     int l2Promotion, int oobFill))                                            \
  X(cuMemAlloc_v2, (Pointer * pointer, size_t bytes))                          \
  X(cuMemFree_v2, (Pointer pointer))                                           \
  X(cuMemcpyHtoD_v2, (Pointer to, const void *from, size_t bytes))             \
  X(cuMemcpyDtoH_v2, (void *to, Pointer from, size_t bytes))                   \
  X(cuMemsetD8_v2, (Pointer pointer, unsigned char value, size_t count))       \
  X(cuStreamSynchronize, (Stream stream))                                      \
  X(cuGetErrorName, (Result result, const char **text))                        \
  X(cuGetErrorString, (Result result, const char **text))

struct Driver {
// A list of parameters must not stand in parentheses of its own.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define FLAMIA_DECLARE(name, parameters) Result(*name) parameters = nullptr;
  FLAMIA_CUDA_FUNCTIONS(FLAMIA_DECLARE)
#undef FLAMIA_DECLARE

  /// The driver of this process, opened and initialized once.
  static llvm::Expected<const Driver *> get();
  /// Success, or an error "CALL failed: NAME (text)".
  llvm::Error check(Result result, const char *call) const;
};

} // namespace cuda
} // namespace runtime
} // namespace flamia

#endif // FLAMIA_LIB_RUNTIME_CUDADRIVER_H
