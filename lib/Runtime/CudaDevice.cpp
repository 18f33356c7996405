//===- CudaDevice.cpp - A GPU through the CUDA driver ---------------------===//
//
// Loads the cubin (or, where there is none, the PTX) of a launch record and
// launches it. Runs in the device's primary context, as the CUDA runtime and
// frameworks do, so that their pointers and streams can be passed in.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include "flamia/Runtime/Device.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;
using namespace flamia::runtime::cuda;

namespace {

/// Makes the device's context current for a scope.
class ContextScope {
public:
  ContextScope(const Driver &driver, Context context) : driver(driver) {
    result = driver.cuCtxPushCurrent_v2(context);
  }
  ~ContextScope() {
    Context popped = nullptr;
    if (result == 0)
      driver.cuCtxPopCurrent_v2(&popped);
  }
  Result result;

private:
  const Driver &driver;
};

/// Runs a driver call in the context and turns its result into an error.
#define FLAMIA_CALL(function, ...)                                             \
  [&]() -> Error {                                                             \
    ContextScope scope(driver, context);                                       \
    if (scope.result != 0)                                                     \
      return driver.check(scope.result, "cuCtxPushCurrent");                   \
    return driver.check(driver.function(__VA_ARGS__), #function);              \
  }()

class CudaLaunch : public PreparedLaunch {
public:
  CudaLaunch(const Driver &driver, Context context, Function function)
      : driver(driver), context(context), function(function) {}
  Error launch(void *stream) override {
    if (empty)
      return Error::success();
    config.stream = stream;
    return FLAMIA_CALL(cuLaunchKernelEx, &config, function, pointers.data(),
                       nullptr);
  }

  bool empty = false;
  cuda::LaunchConfig config;
  cuda::LaunchAttribute cluster;
  std::vector<std::vector<uint8_t>> values;
  std::vector<std::unique_ptr<cuda::TensorMap>> maps;
  std::vector<void *> pointers;

private:
  const Driver &driver;
  Context context;
  Function function;
};

class CudaKernel : public Kernel {
public:
  CudaKernel(const Driver &driver, Context context, LaunchRecord record)
      : Kernel(std::move(record)), driver(driver), context(context) {}
  ~CudaKernel() override {
    if (module)
      consumeError(FLAMIA_CALL(cuModuleUnload, module));
  }
  Error load(StringRef image);
  Expected<std::unique_ptr<PreparedLaunch>>
  prepare(ArrayRef<Argument> arguments, const GridChoice &choice) override;

private:
  Expected<std::unique_ptr<cuda::TensorMap>>
  encode(const TensorMapRecipe &recipe);

  const Driver &driver;
  Context context;
  ModuleHandle module = nullptr;
  Function function = nullptr;
};

class CudaDevice : public Device {
public:
  CudaDevice(const Driver &driver, DeviceNumber number, Context context,
             std::string deviceName, std::string arch, int multiprocessors)
      : driver(driver), number(number), context(context),
        deviceName(std::move(deviceName)), arch(std::move(arch)),
        multiprocessors(multiprocessors) {}
  ~CudaDevice() override { driver.cuDevicePrimaryCtxRelease_v2(number); }

  std::string name() const override { return deviceName; }
  int64_t sms() const override { return multiprocessors; }
  Expected<std::unique_ptr<Kernel>> load(const LaunchRecord &record) override;
  Expected<uint64_t> allocate(StringRef name, uint64_t bytes) override {
    Pointer pointer = 0;
    // A size of 0 is an error for the driver.
    if (Error error =
            FLAMIA_CALL(cuMemAlloc_v2, &pointer, size_t(bytes ? bytes : 1)))
      return std::move(error);
    return uint64_t(pointer);
  }
  Error release(uint64_t address) override {
    return FLAMIA_CALL(cuMemFree_v2, Pointer(address));
  }
  Error upload(uint64_t address, const void *data, uint64_t bytes) override {
    return bytes ? FLAMIA_CALL(cuMemcpyHtoD_v2, Pointer(address), data,
                               size_t(bytes))
                 : Error::success();
  }
  Error download(void *data, uint64_t address, uint64_t bytes) override {
    return bytes ? FLAMIA_CALL(cuMemcpyDtoH_v2, data, Pointer(address),
                               size_t(bytes))
                 : Error::success();
  }
  Error poison(uint64_t address, uint8_t byte, uint64_t bytes) override {
    return bytes ? FLAMIA_CALL(cuMemsetD8_v2, Pointer(address), byte,
                               size_t(bytes))
                 : Error::success();
  }
  Error synchronize(void *stream) override {
    return FLAMIA_CALL(cuStreamSynchronize, stream);
  }

private:
  const Driver &driver;
  DeviceNumber number;
  Context context;
  std::string deviceName, arch;
  int multiprocessors;
};

int tensorMapType(Element element) {
  switch (element) {
  case Element::F32:
    return 7;
  case Element::BF16:
    return 9;
  case Element::F16:
    return 6;
  case Element::I32:
    return 3;
  case Element::I64:
    return 5;
  case Element::F8E4M3FN:
  case Element::F8E8M0FNU:
  case Element::F4E2M1FN:
  case Element::I8:
    return 0;
  }
  return 0;
}

/// Whether code for `kernelArch` runs on a device of `deviceArch`. Code for
/// sm_XYa runs on XY alone; other code on all minor versions from its own.
bool runsOn(StringRef kernelArch, StringRef deviceArch) {
  StringRef kernel = kernelArch, device = deviceArch;
  kernel.consume_front("sm_");
  device.consume_front("sm_");
  if (kernel.consume_back("a"))
    return kernel == device;
  unsigned kernelNumber = 0, deviceNumber = 0;
  return !kernel.getAsInteger(10, kernelNumber) &&
         !device.getAsInteger(10, deviceNumber) &&
         kernelNumber / 10 == deviceNumber / 10 && kernelNumber <= deviceNumber;
}

} // namespace

Error CudaKernel::load(StringRef image) {
  if (Error error = FLAMIA_CALL(cuModuleLoadData, &module, image.data()))
    return error;
  if (Error error = FLAMIA_CALL(cuModuleGetFunction, &function, module,
                                record().entry.c_str()))
    return error;
  if (!record().dynamicShared)
    return Error::success();
  return FLAMIA_CALL(cuFuncSetAttribute, function, maxDynamicSharedBytes,
                     int(record().dynamicShared));
}

Expected<std::unique_ptr<cuda::TensorMap>>
CudaKernel::encode(const TensorMapRecipe &recipe) {
  auto map = std::make_unique<cuda::TensorMap>();
  int swizzle = StringSwitch<int>(recipe.swizzle)
                    .Case("32B", 1)
                    .Case("64B", 2)
                    .Case("128B", 3)
                    .Default(0);
  std::vector<uint32_t> elementStrides(recipe.dims.size(), 1);
  if (Error error = FLAMIA_CALL(
          cuTensorMapEncodeTiled, map.get(), tensorMapType(recipe.element),
          uint32_t(recipe.dims.size()), recipe.address, recipe.dims.data(),
          recipe.strides.data(), recipe.box.data(), elementStrides.data(),
          /*interleave=*/0, swizzle, l2Promotion128B,
          /*oobFill=*/0))
    return std::move(error);
  return map;
}

Expected<std::unique_ptr<PreparedLaunch>>
CudaKernel::prepare(ArrayRef<Argument> arguments, const GridChoice &choice) {
  Expected<BoundLaunch> bound = bindArguments(record(), arguments, choice);
  if (!bound)
    return makeError(ErrorCode::InvalidArgument, toString(bound.takeError()));
  auto prepared = std::make_unique<CudaLaunch>(driver, context, function);
  prepared->empty = bound->empty();
  cuda::LaunchConfig &config = prepared->config;
  config.gridX = bound->grid[0];
  config.gridY = bound->grid[1];
  config.gridZ = bound->grid[2];
  config.blockX = record().block[0];
  config.blockY = record().block[1];
  config.blockZ = record().block[2];
  config.sharedBytes = record().dynamicShared;
  const std::array<uint32_t, 3> &cluster = record().cluster;
  if (cluster[0] * cluster[1] * cluster[2] > 1) {
    prepared->cluster.id = clusterDimension;
    for (unsigned i = 0; i < 3; ++i)
      prepared->cluster.value.clusterDim[i] = cluster[i];
    config.attributes = &prepared->cluster;
    config.attributeCount = 1;
  }
  if (prepared->empty)
    return prepared;
  for (BoundParameter &param : bound->params) {
    if (param.tensorMap) {
      Expected<std::unique_ptr<cuda::TensorMap>> map = encode(*param.tensorMap);
      if (!map)
        return map.takeError();
      prepared->maps.push_back(std::move(*map));
      prepared->pointers.push_back(prepared->maps.back().get());
      continue;
    }
    prepared->values.push_back(std::move(param.bytes));
    prepared->pointers.push_back(prepared->values.back().data());
  }
  return prepared;
}

Expected<std::unique_ptr<Kernel>> CudaDevice::load(const LaunchRecord &record) {
  if (!runsOn(record.arch, arch))
    return makeError(ErrorCode::NotSupported,
                     "kernel '" + record.kernel + "' was compiled for " +
                         record.arch + ", but the device is " + arch + " (" +
                         deviceName + ")");
  std::string path =
      record.cubin.empty() ? record.ptxPath() : record.cubinPath();
  ErrorOr<std::unique_ptr<MemoryBuffer>> image = MemoryBuffer::getFile(path);
  if (!image)
    return makeError(ErrorCode::NotFound, "cannot read '" + path + "': " +
                                              image.getError().message());
  auto kernel = std::make_unique<CudaKernel>(driver, context, record);
  // MemoryBuffer ends in a zero byte, which PTX text needs.
  if (Error error = kernel->load((*image)->getBuffer()))
    return std::move(error);
  return kernel;
}

Expected<std::unique_ptr<Device>> runtime::createCudaDevice(int ordinal) {
  Expected<const Driver *> opened = Driver::get();
  if (!opened)
    return opened.takeError();
  const Driver &driver = **opened;
  int count = 0;
  if (Error error =
          driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"))
    return std::move(error);
  if (ordinal < 0 || ordinal >= count)
    return makeError(ErrorCode::NoDevice, "there is no GPU " + Twine(ordinal) +
                                              ", the driver sees " +
                                              Twine(count));
  DeviceNumber number = 0;
  char name[256] = "";
  int major = 0, minor = 0, multiprocessors = 0;
  Context context = nullptr;
  if (Error error =
          driver.check(driver.cuDeviceGet(&number, ordinal), "cuDeviceGet"))
    return std::move(error);
  if (Error error =
          driver.check(driver.cuDeviceGetName(name, sizeof(name), number),
                       "cuDeviceGetName"))
    return std::move(error);
  if (Error error = driver.check(
          driver.cuDeviceGetAttribute(&major, computeCapabilityMajor, number),
          "cuDeviceGetAttribute"))
    return std::move(error);
  if (Error error = driver.check(
          driver.cuDeviceGetAttribute(&minor, computeCapabilityMinor, number),
          "cuDeviceGetAttribute"))
    return std::move(error);
  if (Error error =
          driver.check(driver.cuDeviceGetAttribute(&multiprocessors,
                                                   multiprocessorCount, number),
                       "cuDeviceGetAttribute"))
    return std::move(error);
  if (Error error =
          driver.check(driver.cuDevicePrimaryCtxRetain(&context, number),
                       "cuDevicePrimaryCtxRetain"))
    return std::move(error);
  std::string arch = ("sm_" + Twine(major) + Twine(minor)).str();
  return std::make_unique<CudaDevice>(driver, number, context, name, arch,
                                      multiprocessors);
}
