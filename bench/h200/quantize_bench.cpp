//===- quantize_bench.cpp - How fast the quantizers are on a Hopper GPU ---===//
//
// Bytes read and written per second by the quantization of Q, K and V, compiled
// by flamiac for sm_90, beside the device-to-device copy rate of the same run.
// Usage: quantize_bench DIR..., each with the records of one head_dim. Where a
// folder has quantize_qkv it is measured too, on contiguous tensors and on one
// fused [T, 3, H, D] tensor. No results are checked here: quantize_gpu does.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"
#include "flamia/Runtime/Device.h"
#include "flamia/Runtime/KernelLibrary.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <random>

using namespace flamia;
using namespace flamia::runtime;

static void check(llvm::Error error) {
  if (!error)
    return;
  fprintf(stderr, "%s\n", toString(std::move(error)).c_str());
  exit(1);
}
template <typename T>
static T check(llvm::Expected<T> value) {
  check(value.takeError());
  return std::move(*value);
}

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

struct Case {
  uint64_t tokens, heads, dim;
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

  void run(const KernelLibrary &library, Case c, uint64_t kvHeads) {
    uint64_t tiles = (c.tokens + 127) / 128;
    uint64_t rows = c.tokens * (c.heads + 2 * kvHeads);
    // BF16 in, E4M3 out, three scale layouts of 512 bytes a tile and head; V
    // has two.
    double bytes = double(rows * c.dim * 3) +
                   double(tiles * (c.heads + 3 * kvHeads) * 512);
    uint64_t fused = allocate(rows * c.dim * 2);
    fill(fused, rows * c.dim * 2);
    uint64_t half = uint64_t(bytes) / 2 / 256 * 256;
    uint64_t copied = allocate(half);
    int count = int(std::clamp(2e9 / bytes, 2.0, 100.0));
    double copyUs = cuda.time(count, [&] {
      copyBytes(copied, fused, std::min(half, rows * c.dim * 2));
    });
    double copyRate =
        2.0 * double(std::min(half, rows * c.dim * 2)) / copyUs * 1e-6;
    printf("T %6d H %2d G %2d D %3d: %9.1f MB; copy %8.1f us %.3f TB/s\n",
           int(c.tokens), int(c.heads), int(kvHeads), int(c.dim), bytes * 1e-6,
           copyUs, copyRate);

    std::vector<int32_t> items;
    for (uint64_t tile = 0; tile < tiles; ++tile)
      for (int32_t field : {0, int32_t(c.tokens), int32_t(tile), 0})
        items.push_back(field);
    uint64_t work = allocate(items.size() * 4);
    check(device.upload(work, items.data(), items.size() * 4));
    auto input = [&](const char *name, uint64_t offset, uint64_t heads) {
      return Argument::tensor(name, fused + offset * 2, Element::BF16,
                              {c.tokens, heads, c.dim},
                              c.tokens * heads * c.dim * 2);
    };
    auto output = [&](const char *name, uint64_t heads) {
      uint64_t size = c.tokens * heads * c.dim;
      return Argument::tensor(name, allocate(size), Element::F8E4M3FN,
                              {c.tokens, heads, c.dim}, size);
    };
    auto scales = [&](const char *name, uint64_t heads) {
      uint64_t size = tiles * heads * 512;
      return Argument::tensor(name, allocate(size), Element::F8E8M0FNU,
                              {tiles, heads, 512}, size);
    };
    Argument workArgument = Argument::tensor("work", work, Element::I32,
                                             {tiles, 4}, items.size() * 4);
    uint64_t kStart = c.tokens * c.heads * c.dim;
    uint64_t vStart = kStart + c.tokens * kvHeads * c.dim;
    std::vector<Argument> q = {input("x", 0, c.heads), output("data", c.heads),
                               scales("scale", c.heads), workArgument};
    std::vector<Argument> k = {input("x", kStart, kvHeads),
                               output("data", kvHeads),
                               scales("scale", kvHeads), workArgument};
    std::vector<Argument> v = {input("x", vStart, kvHeads),
                               output("data", kvHeads),
                               scales("scale_rows", kvHeads),
                               scales("scale_cols", kvHeads), workArgument};
    auto load = [&](const char *name) -> std::unique_ptr<Kernel> {
      auto record =
          library.find(name, "sm_90", {{"head_dim", std::to_string(c.dim)}});
      if (!record) {
        llvm::consumeError(record.takeError());
        return nullptr;
      }
      return check(device.load(**record));
    };
    auto report = [&](const char *name, double us) {
      double rate = bytes / us * 1e-6;
      printf("  %-22s %9.1f us  %.3f TB/s  %.3f of 1 GiB copy, %.3f of this "
             "copy\n",
             name, us, rate, rate / peak, rate / copyRate);
      fflush(stdout);
    };
    std::unique_ptr<Kernel> local = load("quantize_token_local");
    std::unique_ptr<Kernel> block = load("quantize_token_block");
    if (local && block) {
      auto launchQ = check(local->prepare(q)),
           launchK = check(local->prepare(k));
      auto launchV = check(block->prepare(v));
      report("three launches", cuda.time(count, [&] {
        check(launchQ->launch());
        check(launchK->launch());
        check(launchV->launch());
      }));
      double qBytes =
          double(c.tokens * c.heads * c.dim * 3 + tiles * c.heads * 512);
      double us = cuda.time(count, [&] { check(launchQ->launch()); });
      printf("  %-22s %9.1f us  %.3f TB/s\n", "  Q alone", us,
             qBytes / us * 1e-6);
      us = cuda.time(count, [&] { check(launchV->launch()); });
      printf("  %-22s %9.1f us  %.3f TB/s\n", "  V alone", us,
             double(c.tokens * kvHeads * c.dim * 3 + tiles * kvHeads * 1024) /
                 us * 1e-6);
    }
    if (auto qkv = load("quantize_qkv")) {
      auto renamed = [](Argument argument, const char *name) {
        argument.name = name;
        return argument;
      };
      std::vector<Argument> all = {renamed(q[0], "q"),
                                   renamed(k[0], "k"),
                                   renamed(v[0], "v"),
                                   renamed(q[1], "q_data"),
                                   renamed(q[2], "q_scale"),
                                   renamed(k[1], "k_data"),
                                   renamed(k[2], "k_scale"),
                                   renamed(v[1], "v_data"),
                                   renamed(v[2], "v_scale_rows"),
                                   renamed(v[3], "v_scale_cols"),
                                   workArgument};
      auto launch = check(qkv->prepare(all));
      report("one launch", cuda.time(count, [&] { check(launch->launch()); }));
    }
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
  for (int i = 1; i < argc; ++i) {
    auto library = check(KernelLibrary::open(argv[i]));
    uint64_t dim = uint64_t(
        atoi(library.records().front().parameters.at("head_dim").c_str()));
    printf("%s\n", argv[i]);
    for (uint64_t tokens : {2048, 16384, 131072})
      for (uint64_t heads : {8, 64})
        bench.run(library, {tokens, heads, dim}, heads);
    bench.run(library, {16384, 64, dim}, 8);
  }
  return 0;
}
