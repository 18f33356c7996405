//===- OnBoth.h - One PTX module on the simulator and on a GPU --*- C++ -*-===//
//
// Runs the same text with the same bytes on lib/Sim and through libcuda. With
// no GPU asked for, only the simulator runs: the texts can be tried anywhere.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_SIM_HARDWARE_ONBOTH_H
#define FLAMIA_TEST_SIM_HARDWARE_ONBOTH_H

#include "Driver.h"
#include "flamia/Sim/Simulator.h"

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace hw {

/// A kernel of (u64 pointers..., u32 numbers...) and its launch.
struct Program {
  std::string text, entry = "k";
  unsigned grid = 1, block = 32, cluster = 1, dynamicShared = 0;
  std::vector<uint32_t> numbers;
};

class OnBoth {
public:
  /// `driver` may be null: only the simulator.
  OnBoth(Driver *driver, unsigned threads) : driver(driver), threads(threads) {}

  bool hasGpu() const { return driver != nullptr; }

  /// Runs on the simulator; `arrays` are read and written. An empty string, or
  /// what went wrong.
  std::string
  simulate(const Program &p, std::vector<std::vector<uint32_t>> &arrays,
           flamia::sim::AsyncMode mode = flamia::sim::AsyncMode::Eager,
           uint64_t seed = 0, bool checks = true) {
    using namespace flamia::sim;
    llvm::Expected<std::unique_ptr<Module>> module =
        Module::parse(p.text, "program.ptx");
    if (!module)
      return llvm::toString(module.takeError());
    DeviceMemory memory;
    LaunchConfig config;
    config.entry = p.entry;
    config.grid = {p.grid, 1, 1};
    config.block = {p.block, 1, 1};
    config.cluster = {p.cluster, 1, 1};
    config.dynamicShared = p.dynamicShared;
    for (size_t k = 0; k < arrays.size(); ++k)
      config.params.push_back(scalarParam(
          memory.map("array" + std::to_string(k), arrays[k].data(),
                     4 * arrays[k].size(), BufferAccess::ReadWrite)));
    for (uint32_t n : p.numbers)
      config.params.push_back(scalarParam(n));
    SimOptions options;
    options.threads = threads;
    options.async = mode;
    options.seed = seed;
    if (!checks)
      options.checks = CheckSet::none();
    LaunchResult result = launch(**module, memory, config, options);
    std::string errors;
    for (const Diagnostic &d : result.errors)
      errors += d.render();
    return errors;
  }

  /// The same on the GPU.
  std::string onGpu(const Program &p,
                    std::vector<std::vector<uint32_t>> &arrays) {
    auto known = loaded.find(p.text);
    if (known == loaded.end())
      known =
          loaded.emplace(p.text, driver->load(p.text, p.entry.c_str())).first;
    Handle function = known->second;
    if (!function)
      return "the driver refuses the text";
    std::vector<DevicePtr> places;
    for (const auto &a : arrays) {
      places.push_back(driver->allocate(4 * a.size()));
      driver->upload(places.back(), a.data(), 4 * a.size());
    }
    std::vector<uint32_t> numbers = p.numbers;
    std::vector<void *> params;
    for (DevicePtr &place : places)
      params.push_back(&place);
    for (uint32_t &n : numbers)
      params.push_back(&n);
    driver->launch(function, p.grid, p.block, params.data(), p.cluster,
                   p.dynamicShared);
    for (size_t k = 0; k < arrays.size(); ++k) {
      driver->download(arrays[k].data(), places[k], 4 * arrays[k].size());
      driver->release(places[k]);
    }
    return "";
  }

private:
  Driver *driver;
  unsigned threads;
  std::map<std::string, Handle> loaded; ///< By text; null: refused.
};

} // namespace hw

#endif // FLAMIA_TEST_SIM_HARDWARE_ONBOTH_H
