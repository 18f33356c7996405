//===- QuantizeTest.cpp - The fused quantization on the simulator ---------===//
//
// Every byte of quantize_qkv against lib/Numerics, in both formats, on
// contiguous tensors, on one fused [tokens, 3, heads, head_dim] tensor and on
// rows with padding; the banks of its accesses to shared memory; and the
// forward on such tensors against the forward on contiguous ones.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "flamia/Model/Kernel.h"
#include "flamia/Numerics/Quantize.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace flamia;
using namespace flamia::runtime;
using namespace flamia::test;

namespace {

/// BF16 values of all magnitudes, with zeros, NaN and infinity among them.
std::vector<uint16_t> makeValues(size_t count, uint64_t state) {
  std::vector<uint16_t> values(count);
  for (uint16_t &value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = uint16_t(state >> 48);
    if (state >> 20 & 255)
      value = uint16_t(0x3C00 + (value & 0x83FF));
  }
  return values;
}

/// Which values Q, K and V have.
enum class Data {
  Any,       ///< all magnitudes, with zeros, NaN and infinity
  Normal,    ///< around 1
  Tiny,      ///< BF16 subnormals and zeros
  Huge,      ///< up to the largest BF16: rotated tokens may overflow
  Small,     ///< around 6 * 2^-9 g: subnormal scales, flushed blocks
  Structured ///< constant rows, powers of two, one-hot rows, zero rows
};

std::vector<uint16_t> makeData(Data data, size_t count, uint64_t state) {
  std::vector<uint16_t> values = makeValues(count, state);
  for (size_t i = 0; i < count; ++i) {
    uint16_t &value = values[i];
    uint16_t sign = value & 0x8000, low = value & 0x7F;
    size_t row = i / 64;
    switch (data) {
    case Data::Any:
      break;
    case Data::Normal:
      value = uint16_t(sign | (0x3F00 + (value & 0xFF)));
      break;
    case Data::Tiny:
      value = uint16_t(sign | (i % 3 ? low : 0));
      break;
    case Data::Huge:
      value = uint16_t(sign | (0x7E80 + (value & 0xFF)));
      if ((value & 0x7FFF) > 0x7F7F)
        value = uint16_t(sign | 0x7F7F);
      break;
    case Data::Small: // 2^-14 .. 2^-10
      value = uint16_t(sign | (0x3880 + (value & 0x1FF)));
      break;
    case Data::Structured:
      value = row % 5 == 0   ? uint16_t(0x4040) // 3
              : row % 5 == 1 ? uint16_t(sign | (0x3F80 - (row % 17 << 7)))
              : row % 5 == 2 ? uint16_t(i % 64 == row % 64 ? 0x42C8 : 0)
              : row % 5 == 3 ? uint16_t(0x8000)
                             : uint16_t(0x3F80 | (i & 3) << 5);
      break;
    }
  }
  return values;
}

/// What is quantized; the second-level scales choose format nvfp4.
struct Options {
  Data data = Data::Any;
  float qScale = 0, kScale = 0;
  bool isNvfp4() const { return qScale != 0; }
};

/// Where a tensor [tokens, heads, dim] lies: strides in elements, and the first
/// element in its buffer. No strides: contiguous.
struct Place {
  std::vector<uint64_t> strides;
  uint64_t first = 0, elements = 0;
};

struct Shape {
  std::vector<int64_t> lengths;
  int64_t heads, kvHeads, dim;
};

/// Quantizes tensors that lie as `places` say. Elements of the buffers between
/// them are undefined: reading one is an error of the simulator.
void expectBytes(const Shape &shape, const std::vector<Place> &places,
                 const Options &options = {}) {
  SCOPED_TRACE("data " + std::to_string(int(options.data)) + ", scales " +
               std::to_string(options.qScale) + " and " +
               std::to_string(options.kScale));
  numerics::PackedShape packed{numerics::cuSeqlensOf(shape.lengths),
                               shape.heads, shape.dim};
  numerics::PackedShape kvPacked = packed;
  kvPacked.heads = shape.kvHeads;
  schedule::WorkList work = schedule::buildWorkList(packed.cuSeqlens, true);
  uint64_t tokens = uint64_t(packed.tokens()), dim = uint64_t(shape.dim);
  uint64_t tiles = uint64_t(work.scaleTiles);

  std::unique_ptr<Device> device = createSimDevice({});
  std::vector<Argument> arguments;
  auto allocate = [&](const char *name, uint64_t bytes) {
    uint64_t address = needed(device->allocate(name, bytes));
    needed(device->poison(address, 0xFF, bytes));
    return address;
  };
  std::vector<std::vector<uint16_t>> inputs;
  for (size_t i = 0; i < 3; ++i) {
    const char *name = i == 0 ? "q" : i == 1 ? "k" : "v";
    uint64_t heads = uint64_t(i == 0 ? shape.heads : shape.kvHeads);
    inputs.push_back(makeData(options.data, tokens * heads * dim, i + 1));
    Place place = places[i];
    if (place.strides.empty())
      place = {{heads * dim, dim, 1}, 0, tokens * heads * dim};
    uint64_t buffer = allocate(name, place.elements * 2);
    for (uint64_t t = 0; t < tokens; ++t)
      for (uint64_t h = 0; h < heads; ++h)
        needed(device->upload(buffer + 2 * (place.first + t * place.strides[0] +
                                            h * place.strides[1]),
                              &inputs.back()[(t * heads + h) * dim], dim * 2));
    arguments.push_back(Argument::tensor(name, buffer + 2 * place.first,
                                         Element::BF16, {tokens, heads, dim},
                                         2 * (place.elements - place.first)));
    arguments.back().strides = places[i].strides;
  }
  uint64_t list = allocate("work", work.items.size() * 16);
  needed(device->upload(list, work.items.data(), work.items.size() * 16));
  arguments.push_back(
      Argument::tensor("work", list, Element::I32, {work.items.size(), 4}));

  numerics::MixedTensor q = numerics::quantizeTokenMixed(
      inputs[0].data(), packed, true, numerics::ScaleMode::RoundUp,
      options.isNvfp4() ? options.qScale : 1);
  numerics::MixedTensor k = numerics::quantizeTokenMixed(
      inputs[1].data(), kvPacked, true, numerics::ScaleMode::RoundUp,
      options.isNvfp4() ? options.kScale : 1);
  auto v = numerics::quantizeTokenBlock(inputs[2].data(), kvPacked);
  struct Output {
    const char *name;
    const std::vector<uint8_t> &expected;
    int64_t heads;
    Element element;
    uint64_t address = 0;
  };
  constexpr Element payload = Element::F8E4M3FN, codes = Element::F4E2M1FN,
                    scale = Element::F8E8M0FNU;
  std::vector<Output> outputs = {
      {"q_data", q.e4m3.payload, shape.heads, payload},
      {"q_scale", q.e4m3.scales, shape.heads, scale},
      {"k_data", k.e4m3.payload, shape.kvHeads, payload},
      {"k_scale", k.e4m3.scales, shape.kvHeads, scale},
      {"v_data", v.payload, shape.kvHeads, payload},
      {"v_scale_rows", v.scalesAlongRows, shape.kvHeads, scale},
      {"v_scale_cols", v.scalesAlongCols, shape.kvHeads, scale}};
  if (options.isNvfp4()) {
    outputs.push_back({"q_fp4", q.nvfp4.payload, shape.heads, codes});
    outputs.push_back({"k_fp4", k.nvfp4.payload, shape.kvHeads, codes});
    outputs.push_back({"q_fp4_scale", q.nvfp4.scales, shape.heads, payload});
    outputs.push_back({"k_fp4_scale", k.nvfp4.scales, shape.kvHeads, payload});
    arguments.push_back(Argument::number("q_global_scale", options.qScale));
    arguments.push_back(Argument::number("k_global_scale", options.kScale));
  }
  for (Output &output : outputs) {
    output.address = allocate(output.name, output.expected.size());
    uint64_t heads = uint64_t(output.heads);
    std::vector<uint64_t> extents = {tokens, heads, dim};
    if (output.element == scale)
      extents = {tiles, heads, 512};
    else if (llvm::StringRef(output.name).ends_with("fp4_scale"))
      extents = {tiles, heads, dim / 64, 512};
    arguments.push_back(Argument::tensor(output.name, output.address,
                                         output.element, extents,
                                         output.expected.size()));
  }
  KernelLibrary library = needed(KernelLibrary::open(kernelFolder));
  std::unique_ptr<Kernel> kernel = needed(device->load(*needed(
      library.find("quantize_qkv", "",
                   {{"head_dim", std::to_string(dim)},
                    {"format", options.isNvfp4() ? "nvfp4" : "mxfp8"}}))));
  llvm::Expected<std::unique_ptr<PreparedLaunch>> launch =
      kernel->prepare(arguments);
  ASSERT_TRUE(bool(launch)) << llvm::toString(launch.takeError());
  ASSERT_EQ(llvm::toString((*launch)->launch()), "");
  for (const Output &output : outputs) {
    std::vector<uint8_t> bytes(output.expected.size());
    needed(device->download(bytes.data(), output.address, bytes.size()));
    EXPECT_TRUE(bytes == output.expected) << output.name;
  }
}

const Shape equalHeads{{33, 0, 1, 130}, 2, 2, 64};
const Shape sharedHeads{{129, 31}, 3, 1, 128};
constexpr uint64_t equalTokens = 164, sharedTokens = 160;

} // namespace

TEST(Quantize, FusedMatchesNumerics) {
  expectBytes(equalHeads, {{}, {}, {}});
  expectBytes(sharedHeads, {{}, {}, {}});
}

TEST(Quantize, FusedQkvTensor) {
  // [tokens, 3, 2, 64].
  uint64_t elements = equalTokens * 384;
  expectBytes(equalHeads, {{{384, 64, 1}, 0, elements},
                           {{384, 64, 1}, 128, elements},
                           {{384, 64, 1}, 256, elements}});
}

TEST(Quantize, PaddedRowsAndHeadsOutside) {
  // Rows with 8 elements between them; [heads, tokens, 128]; one head with rows
  // as far apart as those of three.
  expectBytes(sharedHeads,
              {{{392, 128, 1}, 0, sharedTokens * 392},
               {{128, sharedTokens * 128, 1}, 0, sharedTokens * 128},
               {{384, 128, 1}, 256, sharedTokens * 384}});
}

TEST(Quantize, Nvfp4MatchesNumerics) {
  for (Data data : {Data::Any, Data::Normal, Data::Tiny, Data::Huge,
                    Data::Small, Data::Structured}) {
    expectBytes(equalHeads, {{}, {}, {}}, {data, 0.125f, 1});
    expectBytes(sharedHeads, {{}, {}, {}}, {data, 0.3f, 0x1.fffffep-4f});
  }
  expectBytes(equalHeads, {{}, {}, {}}, {Data::Any, 0x1p-32f, 0x1p32f});
  expectBytes(equalHeads, {{}, {}, {}}, {Data::Normal, 0x1p-32f, 0x1p32f});
  expectBytes(sharedHeads, {{}, {}, {}}, {Data::Huge, 0x1p-32f, 0x1p32f});
}

TEST(Quantize, Nvfp4OfManyDocuments) {
  std::vector<int64_t> lengths;
  for (int64_t length : {1, 2, 31, 0, 32, 33, 127, 128, 129, 0, 16, 255})
    lengths.push_back(length);
  expectBytes({lengths, 1, 1, 64}, {{}, {}, {}}, {Data::Normal, 0.125f, 0.5f});
}

TEST(Quantize, Nvfp4OfStridedTensors) {
  uint64_t elements = equalTokens * 384;
  expectBytes(equalHeads,
              {{{384, 64, 1}, 0, elements},
               {{384, 64, 1}, 128, elements},
               {{384, 64, 1}, 256, elements}},
              {Data::Normal, 0.125f, 0.125f});
  expectBytes(sharedHeads,
              {{{392, 128, 1}, 0, sharedTokens * 392},
               {{128, sharedTokens * 128, 1}, 0, sharedTokens * 128},
               {{384, 128, 1}, 256, sharedTokens * 384}},
              {Data::Normal, 0.125f, 0.125f});
}

namespace {

/// Instructions that access shared memory with 16 bytes a lane, and how many of
/// them meet a bank more often than their words ask for.
struct Banks {
  unsigned loads = 0, stores = 0, conflicts = 0;
};

Banks banksOf(const LaunchRecord &record) {
  model::ProfiledLaunch launch = needed(model::profileRecord(record, 1));
  Banks banks;
  const sim::Profile &profile = launch.profile;
  for (size_t pc = 0; pc < profile.code.size(); ++pc) {
    llvm::StringRef opcode = profile.code[pc].opcode;
    bool isLoad = opcode.starts_with("ld.shared");
    if (!isLoad && !opcode.starts_with("st.shared"))
      continue;
    uint64_t executed = 0;
    for (const std::vector<uint64_t> &warp : profile.executed)
      executed += warp[pc];
    EXPECT_TRUE(opcode.ends_with(".v4.b32") || opcode.ends_with(".v2.b64"))
        << opcode.str();
    if (!executed)
      continue;
    ++(isLoad ? banks.loads : banks.stores);
    // 512 bytes of a warp are four times all banks.
    banks.conflicts += profile.code[pc].sharedPasses != 4 * executed;
  }
  return banks;
}

} // namespace

TEST(Quantize, NoBankConflicts) {
  KernelLibrary library = needed(KernelLibrary::open(kernelFolder));
  for (const char *dim : {"64", "128"})
    for (const char *format : {"mxfp8", "nvfp4"}) {
      const LaunchRecord *record = needed(library.find(
          "quantize_qkv", "", {{"head_dim", dim}, {"format", format}}));
      Banks banks = banksOf(*record);
      EXPECT_GE(banks.loads, 20u) << dim << format;
      EXPECT_GE(banks.stores, 8u) << dim << format;
      EXPECT_EQ(banks.conflicts, 0u) << dim << format;
    }
}

TEST(Quantize, BankConflictsWithoutTheSwizzle) {
  // The control: the same code with the masks of the swizzle cleared.
  KernelLibrary library = needed(KernelLibrary::open(kernelFolder));
  LaunchRecord record = *needed(library.find(
      "quantize_qkv", "", {{"head_dim", "128"}, {"format", "mxfp8"}}));
  std::string text = needed(llvm::errorOrToExpected(
                                llvm::MemoryBuffer::getFile(record.ptxPath())))
                         ->getBuffer()
                         .str();
  size_t cleared = 0;
  for (size_t at = 0; (at = text.find(", 112;", at)) != std::string::npos;
       ++cleared)
    text.replace(at, 6, ", 0;");
  ASSERT_GT(cleared, 0u);
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("flamia-banks", folder));
  record.path = (folder + "/record.json").str();
  {
    std::error_code error;
    llvm::raw_fd_ostream file(record.ptxPath(), error);
    ASSERT_FALSE(error);
    file << text;
  }
  EXPECT_GT(banksOf(record).conflicts, 12u);
  llvm::sys::fs::remove_directories(folder);
}
