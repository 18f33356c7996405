//===- quantize_bench.cpp - How fast the quantizers are on a Hopper GPU ---===//
//
// Bytes read and written per second by the quantization of Q, K and V and by
// the backward's preparation, compiled by flamiac for sm_90, beside the
// device-to-device copy rate of the same run. Usage: quantize_bench DIR...:
// every quantize_qkv and attention_bwd_prep there, the former also on one fused
// [T, 3, H, D] tensor; with --goal in front, of 16384 tokens and 64 heads only,
// with --fused the latter alone. No results are checked here: quantize_gpu
// does.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/Device.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <random>

using namespace flamia;
using namespace flamia::runtime;

static llvm::ExitOnError check;

/// Entry points of libcuda that the runtime does not need.
struct Cuda {
  int (*copy)(unsigned long long, unsigned long long, size_t, void *);
  int (*createEvent)(void **, unsigned);
  int (*record)(void *, void *);
  int (*wait)(void *);
  int (*elapsed)(float *, void *, void *);
  int (*retain)(void **, int);
  int (*setContext)(void *);
  void *start = nullptr, *stop = nullptr;

  Cuda() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto find = [&](auto &function, const char *name) {
      void *symbol = library ? dlsym(library, name) : nullptr;
      if (!symbol)
        fail(name, -1);
      std::memcpy(&function, &symbol, sizeof(symbol));
    };
    find(copy, "cuMemcpyDtoDAsync_v2");
    find(createEvent, "cuEventCreate");
    find(record, "cuEventRecord");
    find(wait, "cuEventSynchronize");
    find(elapsed, "cuEventElapsedTime");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(setContext, "cuCtxSetCurrent");
    void *context = nullptr;
    expect("cuDevicePrimaryCtxRetain", retain(&context, 0));
    expect("cuCtxSetCurrent", setContext(context));
    expect("cuEventCreate", createEvent(&start, 0));
    expect("cuEventCreate", createEvent(&stop, 0));
  }
  static void fail(const char *what, int result) {
    fprintf(stderr, "%s failed: %d\n", what, result);
    exit(1);
  }
  static void expect(const char *what, int result) {
    if (result)
      fail(what, result);
  }

  /// Microseconds of one call: the median of 7 measurements of `count` calls.
  double time(int count, const std::function<void()> &work) {
    std::vector<float> times;
    work();
    for (int repeat = 0; repeat < 7; ++repeat) {
      expect("cuEventRecord", record(start, nullptr));
      for (int i = 0; i < count; ++i)
        work();
      expect("cuEventRecord", record(stop, nullptr));
      expect("cuEventSynchronize", wait(stop));
      float ms = 0;
      expect("cuEventElapsedTime", elapsed(&ms, start, stop));
      times.push_back(ms * 1000 / float(count));
    }
    std::sort(times.begin(), times.end());
    return times[3];
  }
};

class Bench {
public:
  Bench(Device &device, Cuda &cuda) : device(device), cuda(cuda) {
    std::mt19937 random(1);
    pattern.resize(1 << 22);
    for (uint16_t &value : pattern)
      value = uint16_t((random() & 0x8000) | (120 + random() % 12) << 7 |
                       random() % 128);
    // 1 GiB read and 1 GiB written.
    uint64_t bytes = uint64_t(1) << 30;
    uint64_t from = allocate(bytes), to = allocate(bytes);
    double us = cuda.time(4, [&] { copyBytes(to, from, bytes); });
    peak = 2.0 * double(bytes) / us * 1e-6;
    printf("copy of 1 GiB: %.3f TB/s (read + written)\n", peak);
    releaseAll();
  }

  /// Launches a kernel on one document of `tokens` tokens, with as many heads
  /// of keys as kvHeads. Bytes: every tensor of the record once, but for the
  /// work list and what the kernel was compiled not to read.
  void run(const LaunchRecord &record, uint64_t tokens, uint64_t heads,
           uint64_t kvHeads, bool isFused, double globalScale = 0.125) {
    uint64_t tiles = (tokens + 127) / 128;
    uint64_t dim = uint64_t(atoi(record.parameters.at("head_dim").c_str()));
    std::map<std::string, uint64_t> extentOf = {
        {"tokens", tokens}, {"heads", heads},   {"kv_heads", kvHeads},
        {"head_dim", dim},  {"tiles", tiles},   {"scale_tiles", tiles},
        {"atom", 512},      {"tile_rows", 128}, {"fp4_atoms", dim / 64}};
    std::vector<int32_t> items;
    for (uint64_t tile = 0; tile < tiles; ++tile)
      for (int32_t field : {0, int32_t(tokens), int32_t(tile), 0})
        items.push_back(field);
    std::vector<Argument> arguments;
    uint64_t read = 0, written = 0, fused = 0;
    for (const RecordArgument &declared : record.arguments) {
      const char *name = declared.name.c_str();
      if (!declared.isTensor) {
        arguments.push_back(Argument::number(name, globalScale));
        continue;
      }
      std::vector<uint64_t> extents;
      for (size_t d = 0; d < declared.dims.size(); ++d)
        extents.push_back(declared.dims[d] ? *declared.dims[d]
                          : declared.name == "work"
                              ? tiles
                              : extentOf.at(declared.dimNames[d]));
      uint64_t bytes = bytesOf(declared.element, extents);
      bool isInput = declared.access == Access::Read;
      // Q, K and V side by side: [tokens, 3, heads, head_dim].
      bool isPart = isFused && isInput && declared.name != "work";
      if (isPart && !fused) {
        fused = allocate(3 * bytes);
        fill(fused, 3 * bytes);
      }
      uint64_t part = declared.name == "k" ? 1 : declared.name == "v" ? 2 : 0;
      uint64_t address =
          isPart ? fused + 2 * part * heads * dim : allocate(bytes);
      arguments.push_back(Argument::tensor(
          name, address, declared.element, extents,
          isPart ? 3 * bytes - 2 * part * heads * dim : bytes));
      if (isPart)
        arguments.back().strides = {3 * heads * dim, dim, 1};
      if (declared.name == "work") {
        check(device.upload(address, items.data(), items.size() * 4));
        continue;
      }
      if (isInput && !isPart)
        fill(address, bytes);
      if (declared.name != "dlse")
        (isInput ? read : written) += bytes;
    }
    double bytes = double(read + written);
    int count = int(std::clamp(2e9 / bytes, 2.0, 100.0));
    // A copy of as many bytes.
    uint64_t half = uint64_t(bytes) / 2 / 256 * 256;
    uint64_t from = allocate(half), to = allocate(half);
    double copyRate = 2.0 * double(half) / cuda.time(count, [&] {
      copyBytes(to, from, half);
    }) * 1e-6;
    std::unique_ptr<Kernel> kernel = check(device.load(record));
    auto launch = check(kernel->prepare(arguments));
    double us = cuda.time(count, [&] { check(launch->launch()); });
    double rate = bytes / us * 1e-6;
    auto format = record.parameters.find("format");
    printf("%-18s %-6s T %6d H %2d G %2d D %3d %s %8.1f MB %8.1f us %.3f TB/s "
           "%.3f of 1 GiB copy, %.3f of this copy%s\n",
           record.kernel.c_str(),
           format == record.parameters.end() ? "" : format->second.c_str(),
           int(tokens), int(heads), int(kvHeads), int(dim),
           isFused ? "fused" : "     ", bytes * 1e-6, us, rate, rate / peak,
           rate / copyRate,
           globalScale == 0.125 ? "" : " (another global scale)");
    fflush(stdout);
    releaseAll();
  }

private:
  uint64_t allocate(uint64_t bytes) {
    buffers.push_back(check(device.allocate("buffer", bytes)));
    return buffers.back();
  }
  void releaseAll() {
    check(device.synchronize());
    for (uint64_t buffer : buffers)
      check(device.release(buffer));
    buffers.clear();
  }
  void copyBytes(uint64_t to, uint64_t from, uint64_t bytes) {
    Cuda::expect("cuMemcpyDtoDAsync", cuda.copy(to, from, bytes, nullptr));
  }
  void fill(uint64_t address, uint64_t bytes) {
    uint64_t chunk = std::min<uint64_t>(bytes, pattern.size() * 2);
    check(device.upload(address, pattern.data(), chunk));
    for (uint64_t done = chunk; done < bytes; done += chunk)
      copyBytes(address + done, address, std::min(chunk, bytes - done));
    check(device.synchronize());
  }

  Device &device;
  Cuda &cuda;
  double peak = 0;
  std::vector<uint16_t> pattern;
  std::vector<uint64_t> buffers;
};

int main(int argc, char **argv) {
  auto device = check(createCudaDevice());
  printf("device: %s\n", device->name().c_str());
  Cuda cuda;
  Bench bench(*device, cuda);
  std::string only = argc > 1 && argv[1][0] == '-' ? argv[1] : "";
  for (int i = only.empty() ? 1 : 2; i < argc; ++i) {
    printf("%s\n", argv[i]);
    auto library = check(KernelLibrary::open(argv[i]));
    for (const LaunchRecord &record : library.records()) {
      bool isPrep = record.kernel == "attention_bwd_prep";
      if (record.kernel != "quantize_qkv" && !isPrep)
        continue;
      for (uint64_t tokens : {2048, 16384, 131072})
        for (uint64_t heads : {8, 64})
          if (only.empty() ||
              (only == "--goal" && tokens == 16384 && heads == 64))
            bench.run(record, tokens, heads, heads, false);
      if (isPrep)
        continue;
      if (only.empty())
        bench.run(record, 16384, 64, 8, false);
      // Quotients take longer where this is no power of two.
      auto format = record.parameters.find("format");
      if (only != "--fused" && format != record.parameters.end() &&
          format->second == "nvfp4")
        bench.run(record, 16384, 64, 64, false, 0.3);
      bench.run(record, 16384, 64, 64, true);
    }
  }
  return 0;
}
