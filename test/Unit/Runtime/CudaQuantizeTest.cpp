//===- CudaQuantizeTest.cpp - Compiled quantizers on a real GPU -----------===//
//
// Launches flamia's quantize kernels through the CUDA driver and compares every
// byte with lib/Numerics. Needs a GPU and, in $FLAMIA_CUDA_KERNELS, a folder
// made for it by `flamiac kernels/quantize.mlir -arch=sm_90 -D head_dim=128 -o
// DIR/` (tests run where no compiler is); skipped otherwise. With
// FLAMIA_REQUIRE_GPU set, a missing GPU or folder is a failure.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Quantize.h"
#include "flamia/Runtime/Runtime.h"
#include "test/Unit/Needed.h"

#include "gtest/gtest.h"

#include <chrono>
#include <cstdlib>

using namespace flamia;
using namespace flamia::runtime;
using flamia::test::needed;

namespace {

/// Device buffers of one test.
struct Buffers {
  Device &device;
  std::vector<uint64_t> addresses;

  uint64_t poisoned(const char *name, uint64_t bytes) {
    addresses.push_back(needed(device.allocate(name, bytes)));
    needed(device.poison(addresses.back(), 0xFF, bytes));
    return addresses.back();
  }
  uint64_t filled(const char *name, const void *data, uint64_t bytes) {
    uint64_t address = poisoned(name, bytes);
    needed(device.upload(address, data, bytes));
    return address;
  }
  std::vector<uint8_t> fetch(uint64_t address, size_t bytes) {
    std::vector<uint8_t> data(bytes);
    needed(device.download(data.data(), address, bytes));
    return data;
  }
  ~Buffers() {
    for (uint64_t address : addresses)
      needed(device.release(address));
  }
};

/// Launches a kernel, then prints the time of one of 20 further launches.
void runKernel(Device &device, const KernelLibrary &library,
               llvm::StringRef name,
               const KernelLibrary::Parameters &parameters,
               const std::vector<Argument> &arguments) {
  std::unique_ptr<Kernel> kernel =
      needed(device.load(*needed(library.find(name, "", parameters))));
  std::unique_ptr<PreparedLaunch> launch = needed(kernel->prepare(arguments));
  ASSERT_EQ(llvm::toString(launch->launch()), "");
  ASSERT_EQ(llvm::toString(device.synchronize()), "");
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(llvm::toString(launch->launch()), "");
  ASSERT_EQ(llvm::toString(device.synchronize()), "");
  std::chrono::duration<double, std::micro> time =
      std::chrono::steady_clock::now() - start;
  std::printf("%s: %.1f us a launch\n", name.str().c_str(), time.count() / 20);
}

} // namespace

TEST(CudaDevice, QuantizersMatchNumerics) {
  const char *folder = std::getenv("FLAMIA_CUDA_KERNELS");
  llvm::Expected<std::unique_ptr<Device>> opened = createCudaDevice();
  std::string reason;
  if (!opened)
    reason = llvm::toString(opened.takeError());
  else if (!folder)
    reason = "FLAMIA_CUDA_KERNELS is not set";
  if (!reason.empty()) {
    if (std::getenv("FLAMIA_REQUIRE_GPU"))
      FAIL() << reason;
    GTEST_SKIP() << reason;
  }
  Device &device = **opened;
  KernelLibrary library = needed(KernelLibrary::open(folder));

  numerics::PackedShape shape{
      numerics::cuSeqlensOf({700, 1, 0, 31, 129, 4000, 33, 128}), 3, 128};
  uint64_t tokens = uint64_t(shape.tokens()), heads = 3, dim = 128;
  std::vector<uint16_t> x(tokens * heads * dim);
  uint64_t state = 1;
  for (uint16_t &value : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // All exponents, both signs, some zeros, NaN and infinity among them.
    value = uint16_t(state >> 48);
    if (state >> 20 & 3)
      value = uint16_t(0x3C00 + (value & 0x83FF));
  }
  schedule::WorkList work = schedule::buildWorkList(shape.cuSeqlens, true);
  uint64_t tiles = uint64_t(work.scaleTiles), scaleBytes = tiles * heads * 512;

  Buffers buffers{device, {}};
  uint64_t from = buffers.filled("x", x.data(), x.size() * 2);
  Argument xArgument =
      Argument::tensor("x", from, Element::BF16, {tokens, heads, dim});
  Argument workArgument = Argument::tensor(
      "work", buffers.filled("work", work.items.data(), work.items.size() * 16),
      Element::I32, {work.items.size(), 4});
  uint64_t data = buffers.poisoned("data", x.size());
  Argument dataArgument =
      Argument::tensor("data", data, Element::F8E4M3FN, {tokens, heads, dim});
  uint64_t first = buffers.poisoned("scale", scaleBytes);
  uint64_t second = buffers.poisoned("scale2", scaleBytes);
  auto scales = [&](const char *name, uint64_t address) {
    return Argument::tensor(name, address, Element::F8E8M0FNU,
                            {tiles, heads, 512});
  };

  for (bool rotate : {true, false}) {
    runKernel(device, library, "quantize_token_local",
              {{"head_dim", "128"}, {"rotate", rotate ? "hadamard" : "none"}},
              {xArgument, workArgument, dataArgument, scales("scale", first)});
    numerics::TokenLocalTensor expected =
        numerics::quantizeTokenLocal(x.data(), shape, rotate);
    EXPECT_TRUE(buffers.fetch(data, x.size()) == expected.payload) << rotate;
    EXPECT_TRUE(buffers.fetch(first, scaleBytes) == expected.scales) << rotate;
  }
  runKernel(device, library, "quantize_token_block", {{"head_dim", "128"}},
            {xArgument, workArgument, dataArgument, scales("scale_rows", first),
             scales("scale_cols", second)});
  numerics::TokenBlockTensor expected =
      numerics::quantizeTokenBlock(x.data(), shape);
  EXPECT_TRUE(buffers.fetch(data, x.size()) == expected.payload);
  EXPECT_TRUE(buffers.fetch(first, scaleBytes) == expected.scalesAlongRows);
  EXPECT_TRUE(buffers.fetch(second, scaleBytes) == expected.scalesAlongCols);
}
