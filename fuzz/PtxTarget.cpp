//===- PtxTarget.cpp - Parses, decodes and runs PTX text ------------------===//

#include "Targets.h"

#include "flamia/Sim/Simulator.h"

using namespace flamia;
using namespace flamia::sim;

/// Values for a parameter of `bytes` bytes: a pointer where it fits one, else
/// a tensor map, else small integers.
static std::vector<uint8_t> parameter(DeviceMemory &memory, uint64_t pointer,
                                      uint32_t bytes) {
  if (bytes == 8)
    return scalarParam(pointer);
  if (bytes == 128) {
    TensorMapSpec spec;
    spec.address = pointer;
    spec.dims = {64, 64};
    spec.strides = {64};
    spec.box = {32, 8};
    llvm::Expected<std::vector<uint8_t>> map = memory.encodeTensorMap(spec);
    if (map)
      return *map;
    llvm::consumeError(map.takeError());
  }
  std::vector<uint8_t> value(bytes);
  if (bytes)
    value[0] = 3;
  return value;
}

void fuzz::runPtx(llvm::StringRef text) {
  llvm::Expected<std::unique_ptr<Module>> module =
      Module::parse(text, "input.ptx");
  if (!module) {
    llvm::consumeError(module.takeError());
    return;
  }
  uint64_t hash = 1469598103934665603ull;
  for (char c : text)
    hash = (hash ^ uint8_t(c)) * 1099511628211ull;
  for (const KernelInfo &kernel : (*module)->kernels()) {
    std::vector<uint8_t> in(1 << 16, 1), out(1 << 16);
    DeviceMemory memory;
    uint64_t pointers[2] = {
        memory.map("in", in.data(), in.size(), BufferAccess::Read),
        memory.map("out", out.data(), out.size(), BufferAccess::ReadWrite)};
    LaunchConfig config;
    config.entry = kernel.name;
    for (unsigned k = 0; k < 3; ++k) {
      config.block[k] = kernel.requiredBlock[0] ? kernel.requiredBlock[k] : 1;
      config.cluster[k] =
          kernel.requiredCluster[0] ? kernel.requiredCluster[k] : 1;
    }
    if (!kernel.requiredBlock[0])
      config.block[0] = hash & 1 ? 32 : 64;
    if (!kernel.requiredCluster[0] && hash & 2)
      config.cluster[0] = 2;
    config.grid = config.cluster;
    uint64_t ctas = 1, threads = 1;
    for (unsigned k = 0; k < 3; ++k) {
      ctas *= config.cluster[k];
      threads *= config.block[k];
    }
    // The checks of a launch refuse these; the rest must not take long.
    if (ctas <= 16 && threads <= 1024 && ctas * threads > 512)
      continue;
    config.dynamicShared = hash & 4 ? 4096 : 0;
    size_t index = 0;
    for (const KernelParamInfo &p : kernel.params)
      config.params.push_back(parameter(memory, pointers[index++ % 2], p.size));
    SimOptions options;
    options.async = AsyncMode(hash / 8 % 3);
    options.seed = hash;
    options.threads = 1;
    options.stats = true;
    options.instructionLimit = 3000;
    LaunchResult result = launch(**module, memory, config, options);
    for (const Diagnostic &d : result.errors)
      (void)d.render();
    // Without the rules, the memory accesses must still stay inside.
    if (hash & 32) {
      options.checks = CheckSet::none();
      launch(**module, memory, config, options);
    }
  }
}
