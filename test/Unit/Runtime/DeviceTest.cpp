//===- DeviceTest.cpp - Loading, preparing and launching ------------------===//
//
// A small hand-written kernel (Inputs/ragged_copy.ptx) on the simulator and,
// where there is a Hopper or newer GPU, through the CUDA driver. With
// FLAMIA_REQUIRE_GPU set, a missing GPU is a failure and not a skip.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/Runtime.h"
#include "flamia/Sim/Simulator.h"
#include "test/Unit/Needed.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <cstdlib>

using namespace flamia;
using namespace flamia::runtime;
using flamia::test::needed;

namespace {

const std::string inputs =
    std::string(FLAMIA_SOURCE_DIR) + "/test/Unit/Runtime/Inputs";

LaunchRecord recordOf(const std::string &name) {
  return needed(LaunchRecord::load(inputs + "/" + name + ".json"));
}

std::unique_ptr<Device> simulator() { return createSimDevice({}); }

std::string textOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

template <typename T>
std::vector<T> fetch(Device &device, uint64_t address, size_t count) {
  std::vector<T> values(count);
  needed(device.download(values.data(), address, count * sizeof(T)));
  return values;
}

/// Runs ragged_copy on tiles of [50 rows, 3 heads] and compares every byte.
void runRaggedCopy(Device &device) {
  constexpr size_t rows = 300, heads = 3, cols = 64;
  std::vector<uint8_t> x(rows * heads * cols);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = uint8_t(1 + i * 2654435761u % 251);
  // Inside a document, at its end, past its end, at the tensor's end.
  const std::vector<int32_t> work = {0,   300, 5,   77, 100, 101,
                                     128, 128, 130, 40, 299, 300};
  size_t items = work.size() / 2;
  size_t outBytes = items * heads * 128 * cols;
  auto make = [&](const char *name, const void *data, uint64_t bytes) {
    uint64_t address = needed(device.allocate(name, bytes));
    EXPECT_EQ(address % 256, 0u);
    needed(device.poison(address, 0xFF, bytes));
    if (data)
      needed(device.upload(address, data, bytes));
    return address;
  };
  uint64_t xAddress = make("x", x.data(), x.size());
  uint64_t workAddress = make("work", work.data(), work.size() * 4);
  uint64_t outAddress = make("out", nullptr, outBytes);
  uint64_t scales = make("scales", nullptr, items * 4);

  std::unique_ptr<Kernel> kernel = needed(device.load(recordOf("ragged_copy")));
  std::unique_ptr<PreparedLaunch> launch = needed(kernel->prepare(
      {Argument::tensor("x", xAddress, Element::I8, {rows, heads, cols}),
       Argument::tensor("work", workAddress, Element::I32, {items, 2}),
       Argument::number("scale", 0.1),
       Argument::tensor("out", outAddress, Element::I8,
                        {items, heads, 128, cols}),
       Argument::tensor("scales", scales, Element::F32, {items})}));
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(textOf(launch->launch()), "");
    ASSERT_EQ(textOf(device.synchronize()), "");
    std::vector<uint8_t> out = fetch<uint8_t>(device, outAddress, outBytes);
    size_t wrong = 0;
    for (size_t item = 0; item < items; ++item)
      for (size_t head = 0; head < heads; ++head)
        for (size_t r = 0; r < 128; ++r)
          for (size_t c = 0; c < cols; ++c) {
            size_t row = work[2 * item] + r;
            uint8_t expected = row < size_t(work[2 * item + 1])
                                   ? x[(row * heads + head) * cols + c]
                                   : 0;
            wrong +=
                out[((item * heads + head) * 128 + r) * cols + c] != expected;
          }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(fetch<float>(device, scales, items),
              std::vector<float>(items, 0.1f));
    // The memory behind the addresses may change between launches.
    for (uint8_t &byte : x)
      byte ^= 0x55;
    needed(device.upload(xAddress, x.data(), x.size()));
  }
  for (uint64_t address : {xAddress, workAddress, outAddress, scales})
    EXPECT_EQ(textOf(device.release(address)), "");
}

} // namespace

TEST(SimDevice, RaggedCopy) { runRaggedCopy(*simulator()); }

TEST(CudaDevice, RaggedCopy) {
  llvm::Expected<std::unique_ptr<Device>> device = createCudaDevice();
  if (!device) {
    std::string reason = textOf(device.takeError());
    if (std::getenv("FLAMIA_REQUIRE_GPU"))
      FAIL() << reason;
    GTEST_SKIP() << reason;
  }
  std::printf("device: %s\n", (*device)->name().c_str());
  runRaggedCopy(**device);
  // Code for another architecture is refused by name.
  LaunchRecord record = recordOf("ragged_copy");
  record.arch = "sm_20a";
  llvm::Expected<std::unique_ptr<Kernel>> kernel = (*device)->load(record);
  ASSERT_FALSE(bool(kernel));
  EXPECT_NE(textOf(kernel.takeError())
                .find("kernel 'ragged_copy' was compiled for sm_20a, but the "
                      "device is sm_"),
            std::string::npos);
}

TEST(SimDevice, EmptyGridIsNoLaunch) {
  std::unique_ptr<Device> device = simulator();
  std::unique_ptr<Kernel> kernel =
      needed(device->load(recordOf("ragged_copy")));
  std::unique_ptr<PreparedLaunch> launch = needed(
      kernel->prepare({Argument::tensor("x", 0, Element::I8, {0, 3, 64}),
                       Argument::tensor("work", 0, Element::I32, {0, 2}),
                       Argument::number("scale", 0.1),
                       Argument::tensor("out", 0, Element::I8, {0, 3, 128, 64}),
                       Argument::tensor("scales", 0, Element::F32, {0})}));
  EXPECT_EQ(textOf(launch->launch()), "");
}

TEST(SimDevice, ReadingPoisonIsAnError) {
  std::unique_ptr<Device> device = simulator();
  uint64_t from = needed(device->allocate("from", 64));
  uint64_t to = needed(device->allocate("to", 64));
  std::unique_ptr<Kernel> kernel = needed(device->load(recordOf("read_first")));
  auto prepare = [&](uint64_t source, uint64_t target) {
    return needed(
        kernel->prepare({Argument::tensor("from", source, Element::I32, {16}),
                         Argument::tensor("to", target, Element::I32, {16})}));
  };
  // What was uploaded may be read ...
  std::vector<uint32_t> words(16, 7);
  needed(device->upload(from, words.data(), 64));
  EXPECT_EQ(textOf(prepare(from, to)->launch()), "");
  EXPECT_EQ(fetch<uint32_t>(*device, to, 1)[0], 7u);
  // ... and so may what a kernel wrote, but not the rest.
  EXPECT_EQ(textOf(prepare(to, from)->launch()), "");
  needed(device->poison(from, 0xFF, 64));
  std::string message = textOf(prepare(from, to)->launch());
  EXPECT_NE(message.find("kernel 'read_first' failed"), std::string::npos)
      << message;
  EXPECT_NE(message.find("ragged_copy.ptx:"), std::string::npos) << message;
}

TEST(SimDevice, RefusesBadArguments) {
  std::unique_ptr<Device> device = simulator();
  std::unique_ptr<Kernel> kernel = needed(device->load(recordOf("read_first")));
  llvm::Expected<std::unique_ptr<PreparedLaunch>> launch =
      kernel->prepare({Argument::tensor("from", 16, Element::F32, {16})});
  ASSERT_FALSE(bool(launch));
  EXPECT_EQ(textOf(launch.takeError()),
            "argument 'from' holds f32, expected i32");
  LaunchRecord record = recordOf("read_first");
  record.entry = "other";
  llvm::Expected<std::unique_ptr<Kernel>> missing = device->load(record);
  ASSERT_FALSE(bool(missing));
  EXPECT_NE(textOf(missing.takeError()).find("has no entry 'other'"),
            std::string::npos);
}

TEST(KernelLibrary, FindsByParameters) {
  KernelLibrary library = needed(KernelLibrary::open(inputs));
  EXPECT_EQ(library.records().size(), 2u);
  const LaunchRecord *record =
      needed(library.find("read_first", "sm_90", {{"cols", "64"}}));
  EXPECT_EQ(record->entry, "read_first");
  llvm::Expected<const LaunchRecord *> missing =
      library.find("read_first", "sm_100a", {{"cols", "64"}});
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(textOf(missing.takeError()),
            "kernel folder '" + inputs +
                "' has no kernel 'read_first' with cols=64 for sm_100a");
  missing = library.find("read_first", "", {{"cols", "32"}});
  ASSERT_FALSE(bool(missing));
  llvm::consumeError(missing.takeError());
}

TEST(KernelLibrary, ReadsTheIndex) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("flamia-index", folder));
  auto write = [&](llvm::StringRef name, llvm::StringRef text) {
    std::error_code failure;
    llvm::raw_fd_ostream stream((folder + "/" + name).str(), failure);
    ASSERT_FALSE(failure);
    stream << text;
  };
  auto openError = [&] {
    llvm::Expected<KernelLibrary> library = KernelLibrary::open(folder);
    std::string text = library ? "" : textOf(library.takeError());
    return llvm::StringRef(text).rsplit(folder.str()).second.str();
  };
  EXPECT_EQ(openError(), "' holds no launch record");
  ASSERT_FALSE(llvm::sys::fs::copy_file(inputs + "/read_first.json",
                                        folder + "/a.json"));
  ASSERT_FALSE(llvm::sys::fs::copy_file(inputs + "/ragged_copy.json",
                                        folder + "/b.json"));
  EXPECT_EQ(needed(KernelLibrary::open(folder)).records().size(), 2u);
  // Only what the index lists, in its order.
  write("index.json", R"({"flamia_kernel_index": 1, "kernels": [
    {"kernel": "ragged_copy", "record": "b.json"}]})");
  KernelLibrary library = needed(KernelLibrary::open(folder));
  ASSERT_EQ(library.records().size(), 1u);
  EXPECT_EQ(library.records()[0].kernel, "ragged_copy");
  EXPECT_EQ(library.records()[0].ptxPath(),
            (folder + "/ragged_copy.ptx").str());
  for (auto [text, message] :
       {std::pair<const char *, const char *>{
            "{", "/index.json: [1:1, byte=1]: Expected object key"},
        {"{}", "/index.json: not a kernel index of version 1"},
        {R"({"flamia_kernel_index": 2})",
         "/index.json: not a kernel index of version 1"},
        {R"({"flamia_kernel_index": 1})",
         "/index.json: missing array 'kernels'"},
        {R"({"flamia_kernel_index": 1, "kernels": [7]})",
         "/index.json: a kernel without member 'record'"},
        {R"({"flamia_kernel_index": 1, "kernels": [{"record": "c.json"}]})",
         "/c.json': No such file or directory"}}) {
    write("index.json", text);
    EXPECT_EQ(openError(), message);
  }
  llvm::sys::fs::remove_directories(folder);
}
