//===- SimDevice.cpp - The PTX simulator as a device ----------------------===//
//
// Runs the PTX of a launch record in lib/Sim. Every allocation is a mapping of
// its own with unmapped guards around it, and keeps track of the bytes that
// were written, so that a kernel that reads poison is an error.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/Device.h"
#include "flamia/Sim/Simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

namespace {

class SimDevice;

/// A tensor argument and what the kernel may do with it.
struct SimTensor {
  uint64_t address = 0;
  uint64_t bytes = 0;
  Access access = Access::Read;
};

class SimLaunch : public PreparedLaunch {
public:
  SimLaunch(SimDevice &device, const sim::Module &module, bool empty)
      : device(device), module(module), empty(empty) {}
  Error launch(void *stream) override;

  sim::LaunchConfig config;
  std::vector<SimTensor> tensors;

private:
  SimDevice &device;
  const sim::Module &module;
  bool empty;
};

class SimKernel : public Kernel {
public:
  SimKernel(SimDevice &device, LaunchRecord record,
            std::unique_ptr<sim::Module> module)
      : Kernel(std::move(record)), device(device), module(std::move(module)) {}
  Expected<std::unique_ptr<PreparedLaunch>>
  prepare(ArrayRef<Argument> arguments, const GridChoice &choice) override;

private:
  SimDevice &device;
  std::unique_ptr<sim::Module> module;
};

class SimDevice : public Device {
public:
  explicit SimDevice(const sim::SimOptions &options) : options(options) {}
  std::string name() const override { return "simulator"; }
  int64_t sms() const override { return 148; }
  Expected<std::unique_ptr<Kernel>> load(const LaunchRecord &record) override;
  Expected<uint64_t> allocate(StringRef name, uint64_t bytes) override;
  Error release(uint64_t address) override;
  Error upload(uint64_t address, const void *data, uint64_t bytes) override;
  Error download(void *data, uint64_t address, uint64_t bytes) override;
  Error poison(uint64_t address, uint8_t byte, uint64_t bytes) override;
  Error synchronize(void *stream) override { return Error::success(); }

  sim::SimOptions options;
  sim::DeviceMemory memory;

private:
  Expected<sim::DeviceMemory::Region *> regionOf(uint64_t address,
                                                 uint64_t bytes);
  std::map<uint64_t, std::unique_ptr<uint8_t[]>> allocations;
};

sim::BufferAccess toSim(Access access) {
  switch (access) {
  case Access::Read:
    return sim::BufferAccess::Read;
  case Access::Write:
    return sim::BufferAccess::Write;
  case Access::ReadWrite:
    return sim::BufferAccess::ReadWrite;
  }
  return sim::BufferAccess::ReadWrite;
}

const char *tensorMapType(Element element) {
  switch (element) {
  case Element::F32:
    return "f32";
  case Element::BF16:
    return "bf16";
  case Element::F16:
    return "f16";
  case Element::I32:
    return "s32";
  case Element::I64:
    return "s64";
  case Element::F8E4M3FN:
  case Element::F8E8M0FNU:
  case Element::F4E2M1FN:
  case Element::I8:
    return "u8";
  }
  return "u8";
}

Expected<std::vector<uint8_t>> encode(sim::DeviceMemory &memory,
                                      const TensorMapRecipe &recipe) {
  sim::TensorMapSpec spec;
  spec.type = tensorMapType(recipe.element);
  spec.address = recipe.address;
  spec.dims = recipe.dims;
  spec.strides = recipe.strides;
  spec.box = recipe.box;
  spec.swizzle = recipe.swizzle;
  return memory.encodeTensorMap(spec);
}

/// For the time of one launch, a region that is exactly one argument may only
/// be used as the record says.
class AccessGuard {
public:
  AccessGuard(sim::DeviceMemory &memory, ArrayRef<SimTensor> tensors) {
    for (const SimTensor &tensor : tensors) {
      sim::DeviceMemory::Region *region = memory.find(tensor.address);
      if (!region || region->address != tensor.address ||
          region->bytes != tensor.bytes || tensor.access != Access::Read)
        continue;
      saved.push_back({region, region->access});
      region->access = toSim(tensor.access);
    }
  }
  ~AccessGuard() {
    // Backwards: two arguments may be the same tensor.
    for (auto &[region, access] : llvm::reverse(saved))
      region->access = access;
  }

private:
  std::vector<std::pair<sim::DeviceMemory::Region *, sim::BufferAccess>> saved;
};

} // namespace

Error SimLaunch::launch(void *stream) {
  if (empty)
    return Error::success();
  AccessGuard guard(device.memory, tensors);
  sim::LaunchResult result =
      sim::launch(module, device.memory, config, device.options);
  if (result.ok())
    return Error::success();
  std::string text = StringRef(result.errors.front().render()).rtrim().str();
  if (result.errors.size() > 1)
    text += formatv("\n({0} further errors)", result.errors.size() - 1).str();
  return makeError(ErrorCode::LaunchFailed,
                   "kernel '" + config.entry + "' failed: " + text);
}

Expected<std::unique_ptr<PreparedLaunch>>
SimKernel::prepare(ArrayRef<Argument> arguments, const GridChoice &choice) {
  Expected<BoundLaunch> bound = bindArguments(record(), arguments, choice);
  if (!bound)
    return makeError(ErrorCode::InvalidArgument, toString(bound.takeError()));
  auto prepared = std::make_unique<SimLaunch>(device, *module, bound->empty());
  sim::LaunchConfig &config = prepared->config;
  config.entry = record().entry;
  config.grid = bound->grid;
  config.block = record().block;
  config.cluster = record().cluster;
  config.dynamicShared = record().dynamicShared;
  for (BoundParameter &param : bound->params) {
    if (param.tensorMap && !bound->empty()) {
      Expected<std::vector<uint8_t>> bytes =
          encode(device.memory, *param.tensorMap);
      if (!bytes)
        return makeError(ErrorCode::InvalidArgument,
                         toString(bytes.takeError()));
      param.bytes = std::move(*bytes);
    }
    config.params.push_back(std::move(param.bytes));
  }
  for (const Argument &argument : arguments) {
    if (!argument.isTensor)
      continue;
    SimTensor tensor;
    tensor.address = argument.address;
    tensor.bytes = bytesOf(argument.element, argument.extents);
    tensor.access =
        record().arguments[record().findArgument(argument.name)].access;
    prepared->tensors.push_back(tensor);
  }
  return prepared;
}

Expected<std::unique_ptr<Kernel>> SimDevice::load(const LaunchRecord &record) {
  Expected<std::unique_ptr<sim::Module>> module =
      sim::Module::load(record.ptxPath());
  if (!module)
    return makeError(ErrorCode::NotFound, toString(module.takeError()));
  if (!(*module)->findKernel(record.entry))
    return makeError(ErrorCode::NotFound, "'" + record.ptxPath() +
                                              "' has no entry '" +
                                              record.entry + "'");
  return std::make_unique<SimKernel>(*this, record, std::move(*module));
}

Expected<uint64_t> SimDevice::allocate(StringRef name, uint64_t bytes) {
  std::unique_ptr<uint8_t[]> host(new (std::nothrow) uint8_t[bytes + 1]);
  if (!host)
    return makeError(ErrorCode::InvalidArgument,
                     "cannot allocate " + Twine(bytes) + " bytes for '" + name +
                         "'");
  uint64_t address =
      memory.map(name, host.get(), bytes, sim::BufferAccess::Write);
  allocations[address] = std::move(host);
  return address;
}

Error SimDevice::release(uint64_t address) {
  if (!allocations.erase(address))
    return makeError(ErrorCode::InvalidArgument,
                     formatv("no allocation at address {0:x}", address).str());
  memory.unmap(address);
  return Error::success();
}

Expected<sim::DeviceMemory::Region *> SimDevice::regionOf(uint64_t address,
                                                          uint64_t bytes) {
  sim::DeviceMemory::Region *region = memory.nearestBelow(address);
  if (region && address - region->address <= region->bytes &&
      bytes <= region->bytes - (address - region->address))
    return region;
  return makeError(
      ErrorCode::InvalidArgument,
      formatv("no allocation holds {0} bytes at address {1:x}", bytes, address)
          .str());
}

Error SimDevice::upload(uint64_t address, const void *data, uint64_t bytes) {
  Expected<sim::DeviceMemory::Region *> region = regionOf(address, bytes);
  if (!region)
    return region.takeError();
  uint64_t offset = address - (*region)->address;
  if (bytes)
    std::memcpy((*region)->host + offset, data, bytes);
  if ((*region)->written && bytes)
    std::memset((*region)->written.get() + offset, 1, bytes);
  return Error::success();
}

Error SimDevice::download(void *data, uint64_t address, uint64_t bytes) {
  Expected<sim::DeviceMemory::Region *> region = regionOf(address, bytes);
  if (!region)
    return region.takeError();
  if (bytes)
    std::memcpy(data, (*region)->host + (address - (*region)->address), bytes);
  return Error::success();
}

Error SimDevice::poison(uint64_t address, uint8_t byte, uint64_t bytes) {
  Expected<sim::DeviceMemory::Region *> region = regionOf(address, bytes);
  if (!region)
    return region.takeError();
  uint64_t offset = address - (*region)->address;
  if (bytes)
    std::memset((*region)->host + offset, byte, bytes);
  if ((*region)->written && bytes)
    std::memset((*region)->written.get() + offset, 0, bytes);
  return Error::success();
}

std::unique_ptr<Device>
runtime::createSimDevice(const sim::SimOptions &options) {
  return std::make_unique<SimDevice>(options);
}
