//===- Launch.cpp - Running a grid ----------------------------------------===//

#include "ExecRegisters.h"
#include "GlobalOrder.h"
#include "Machine.h"
#include "Profiler.h"
#include "Tracer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace flamia {
namespace sim {

using llvm::Twine;

/// Shared memory of a CTA on sm_90 and sm_100 (227 KiB).
static constexpr uint32_t maxShared = 232448;

namespace {

/// Checks a launch and prepares what its clusters share.
class LaunchBuilder {
public:
  LaunchBuilder(const Module &module, DeviceMemory &memory,
                const LaunchConfig &config, const SimOptions &options) {
    state.program = &module.program();
    state.memory = &memory;
    state.config = &config;
    state.options = &options;
    ok = checkOptions() && findKernel() && checkGeometry() && placeParams() &&
         mapVariables();
  }
  ~LaunchBuilder() {
    for (uint64_t address : mapped)
      state.memory->unmap(address);
  }

  LaunchState state;
  bool ok = false;
  std::string error;

private:
  bool fail(const Twine &message) {
    error = message.str();
    return false;
  }
  bool checkOptions() {
    const SimOptions &o = *state.options;
    return !o.profile || o.async == AsyncMode::Eager ||
           fail("a profile needs asynchronous operations to be carried out at "
                "issue (eager)");
  }
  bool findKernel() {
    const LaunchConfig &c = *state.config;
    std::string names;
    for (const Kernel &k : state.program->kernels) {
      if (k.name == c.entry)
        state.kernel = &k;
      names += (names.empty() ? "" : ", ") + k.name;
    }
    if (state.kernel)
      return true;
    return fail("no entry '" + c.entry +
                "', the module has: " + (names.empty() ? "none" : names));
  }
  bool checkGeometry() {
    const LaunchConfig &c = *state.config;
    const KernelInfo &info = state.kernel->info;
    static const uint32_t gridLimit[3] = {0x7FFFFFFF, 65535, 65535};
    static const uint32_t blockLimit[3] = {1024, 1024, 64};
    static const char axis[3] = {'x', 'y', 'z'};
    for (unsigned k = 0; k < 3; ++k) {
      if (c.grid[k] == 0 || c.grid[k] > gridLimit[k])
        return fail(Twine("grid ") + Twine(axis[k]) + " is " +
                    Twine(c.grid[k]) + ", expected 1.." + Twine(gridLimit[k]));
      if (c.block[k] == 0 || c.block[k] > blockLimit[k])
        return fail(Twine("block ") + Twine(axis[k]) + " is " +
                    Twine(c.block[k]) + ", expected 1.." +
                    Twine(blockLimit[k]));
      if (c.cluster[k] == 0 || c.grid[k] % c.cluster[k])
        return fail(Twine("grid ") + Twine(axis[k]) + " of " +
                    Twine(c.grid[k]) + " is no multiple of the cluster's " +
                    Twine(c.cluster[k]));
      if (info.requiredBlock[0] && info.requiredBlock[k] != c.block[k])
        return fail(Twine("block ") + Twine(axis[k]) + " is " +
                    Twine(c.block[k]) + ", but .reqntid says " +
                    Twine(info.requiredBlock[k]));
      if (info.requiredCluster[0] && info.requiredCluster[k] != c.cluster[k])
        return fail(Twine("cluster ") + Twine(axis[k]) + " is " +
                    Twine(c.cluster[k]) + ", but .reqnctapercluster says " +
                    Twine(info.requiredCluster[k]));
    }
    uint64_t threads = uint64_t(c.block[0]) * c.block[1] * c.block[2];
    if (threads > 1024)
      return fail("block of " + Twine(threads) +
                  " threads exceeds the limit of 1024");
    uint64_t most =
        uint64_t(info.maxBlock[0]) * info.maxBlock[1] * info.maxBlock[2];
    if (most && threads > most)
      return fail("block of " + Twine(threads) +
                  " threads, but .maxntid allows " + Twine(most));
    uint64_t ctas = uint64_t(c.cluster[0]) * c.cluster[1] * c.cluster[2];
    if (ctas > 16)
      return fail("cluster of " + Twine(ctas) +
                  " CTAs exceeds the limit of 16");
    uint64_t shared = uint64_t(info.staticSharedBytes) + c.dynamicShared;
    if (shared > maxShared)
      return fail("shared memory of " + Twine(shared) +
                  " bytes exceeds the limit of " + Twine(maxShared));
    if (state.kernel->setsRegisters) {
      uint64_t registers = (threads + 127) / 128 * 128 * entryRegisters(info);
      if (registers > 65536)
        return fail("block of " + Twine(threads) + " threads with " +
                    Twine(entryRegisters(info)) +
                    " registers each exceeds the 65536 of an SM");
    }
    // Hostile text must not take all memory of the host.
    uint64_t warps = (threads + warpLanes - 1) / warpLanes * ctas;
    uint64_t host =
        warps * (uint64_t(state.kernel->registerBytes) +
                 2 * warpLanes * uint64_t(state.kernel->localBytes));
    if (host > (4ull << 30))
      return fail("registers and local memory of a cluster take " +
                  Twine(host >> 20) + " MiB of host memory, the limit is 4096");
    state.threadsPerCta = unsigned(threads);
    state.warpsPerCta = unsigned((threads + warpLanes - 1) / warpLanes);
    return true;
  }
  bool placeParams() {
    const LaunchConfig &c = *state.config;
    const std::vector<KernelParamInfo> &params = state.kernel->info.params;
    if (c.params.size() != params.size())
      return fail("entry '" + c.entry + "' has " + Twine(params.size()) +
                  " parameters, but " + Twine(c.params.size()) + " were given");
    state.params.assign(state.kernel->paramBytes, 0);
    for (size_t k = 0; k < params.size(); ++k) {
      if (c.params[k].size() != params[k].size)
        return fail("parameter " + Twine(k) + " ('" + params[k].name +
                    "') has " + Twine(params[k].size) + " bytes, but " +
                    Twine(c.params[k].size()) + " were given");
      std::copy(c.params[k].begin(), c.params[k].end(),
                state.params.begin() + params[k].offset);
    }
    return true;
  }
  bool mapVariables() {
    for (const ModuleVariable &v : state.program->variables) {
      storage.push_back(v.init);
      storage.back().resize(v.bytes);
      state.memory->mapAt(v.name, v.address, storage.back().data(), v.bytes,
                          v.constant ? BufferAccess::Read
                                     : BufferAccess::ReadWrite);
      mapped.push_back(v.address);
    }
    return true;
  }

  std::deque<std::vector<uint8_t>> storage;
  std::vector<uint64_t> mapped;
};

/// The clusters to run, in order.
class ClusterList {
public:
  ClusterList(const LaunchConfig &c, const SimOptions &options) {
    for (unsigned k = 0; k < 3; ++k)
      clusters[k] = c.grid[k] / c.cluster[k];
    total = clusters[0] * clusters[1] * clusters[2];
    if (options.ctas.empty())
      return;
    selected = true;
    uint64_t ctas = uint64_t(c.grid[0]) * c.grid[1] * c.grid[2];
    for (CtaRange range : options.ctas)
      for (uint64_t id = range.first; id <= range.last && id < ctas; ++id) {
        uint64_t x = id % c.grid[0], y = id / c.grid[0] % c.grid[1],
                 z = id / c.grid[0] / c.grid[1];
        list.push_back(x / c.cluster[0] +
                       clusters[0] * (y / c.cluster[1] +
                                      clusters[1] * (z / c.cluster[2])));
      }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  uint64_t size() const { return selected ? list.size() : total; }
  uint64_t operator[](uint64_t k) const { return selected ? list[k] : k; }

private:
  uint64_t clusters[3], total;
  bool selected = false;
  std::vector<uint64_t> list;
};

} // namespace

LaunchResult launch(const Module &module, DeviceMemory &memory,
                    const LaunchConfig &config, const SimOptions &options) {
  auto begin = std::chrono::steady_clock::now();
  LaunchResult result;
  LaunchBuilder builder(module, memory, config, options);
  if (!builder.ok) {
    Diagnostic d;
    d.file = module.program().fileName;
    d.message = builder.error;
    result.errors.push_back(std::move(d));
    return result;
  }
  GlobalOrder global;
  builder.state.global = &global;
  ClusterList clusters(config, options);
  uint64_t count = clusters.size();
  std::atomic<uint64_t> next{0};
  std::mutex lock;
  std::atomic<uint64_t> &firstFailure = builder.state.firstFailure;
  if (options.ctas.empty())
    builder.state.takeCluster = [&](std::array<uint32_t, 3> &first) {
      uint64_t k = next++;
      if (k >= count)
        return false;
      for (unsigned axis = 0; axis < 3; ++axis) {
        uint64_t extent = config.grid[axis] / config.cluster[axis];
        first[axis] = uint32_t(k % extent) * config.cluster[axis];
        k /= extent;
      }
      return true;
    };
  auto work = [&] {
    SimStats local;
    while (firstFailure == LaunchState::noFailure) {
      uint64_t k = next++;
      if (k >= count)
        break;
      Cluster cluster(builder.state);
      cluster.place = k;
      cluster.recordOrder = options.stats && k == 0;
      cluster.start(clusters[k], options.seed);
      if (options.trace)
        cluster.tracer = std::make_unique<Tracer>(cluster, result.trace);
      if (options.profile)
        cluster.profiler = std::make_unique<Profiler>(cluster, result.profile);
      cluster.run();
      if (cluster.abandoned)
        break;
      if (cluster.tracer)
        cluster.tracer->finish();
      if (cluster.hazards)
        cluster.hazards->flush();
      if (cluster.hazards && cluster.hazards->recorder()) {
        std::lock_guard<std::mutex> guard(lock);
        for (auto [line, digest] : cluster.hazards->recorder()->digests())
          result.orderDigest[line] += digest;
      }
      cluster.addStats(local);
      if (!cluster.failed())
        continue;
      // Lower clusters were all begun earlier, so the lowest failing one is
      // always found.
      std::lock_guard<std::mutex> guard(lock);
      if (k < firstFailure) {
        firstFailure = k;
        result.errors = std::move(cluster.errors);
      }
    }
    std::lock_guard<std::mutex> guard(lock);
    result.stats.add(local);
  };
  unsigned threads = options.threads
                         ? options.threads
                         : std::max(1u, std::thread::hardware_concurrency());
  // One timeline, in the order of the clusters.
  if (options.trace || options.profile)
    threads = 1;
  threads = unsigned(std::min<uint64_t>(threads, count));
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < threads; ++t)
    pool.emplace_back(work);
  work();
  for (std::thread &t : pool)
    t.join();
  result.stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return result;
}

} // namespace sim
} // namespace flamia
