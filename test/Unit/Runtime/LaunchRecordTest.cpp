//===- LaunchRecordTest.cpp - Records and argument binding ----------------===//
//
// Parsing of NAME.json, refusals that name the member, and the binding of
// arguments to a grid and PTX parameters.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/LaunchRecord.h"
#include "test/Unit/Needed.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace flamia::runtime;
using flamia::test::needed;

namespace {

const char *const sample = R"({
  "flamia_launch_record": 1, "kernel": "scale", "entry": "scale_entry",
  "arch": "sm_100a", "numerics": 1, "opt_level": 2, "ptx": "scale.ptx",
  "cubin": "scale.cubin", "parameters": {"head_dim": 128, "mode": "fast"},
  "block": [192, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 65536,
  "tmem_columns": 512,
  "grid": [{"arg": "x", "dim": 0, "tile": 128}, {"arg": "x", "dim": 1, "tile": 1}, 1],
  "args": [
    {"name": "x", "kind": "tensor", "element": "f8E4M3FN",
     "dims": [null, null, 128], "dim_names": ["tokens", "heads", ""], "access": "read",
     "workspace": {"bytes": 128, "per": ["tokens", "heads"]}},
    {"name": "y", "kind": "tensor", "element": "f32", "dims": [null, null],
     "dim_names": ["tokens", "heads"], "access": "write"},
    {"name": "factor", "kind": "scalar", "element": "f32"},
    {"name": "count", "kind": "scalar", "element": "i32"}],
  "params": [{"pointer": "x"}, {"dim": ["x", 1]},
    {"tensormap": "x", "box_rows": 128, "span_bytes": 128, "swizzle": "128B"},
    {"scalar": "factor"}, {"scalar": "count"}, {"pointer": "y"}]
})";

/// The sample with one piece of text replaced.
std::string with(const std::string &from, const std::string &to) {
  std::string text = sample;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string parseError(const std::string &text) {
  llvm::Expected<LaunchRecord> record = LaunchRecord::parse(text, "r.json");
  if (record)
    return "";
  return llvm::toString(record.takeError());
}

LaunchRecord sampleRecord() {
  return needed(LaunchRecord::parse(sample, "dir/r.json"));
}

std::vector<Argument> sampleArguments() {
  return {Argument::tensor("x", 0x10000, Element::F8E4M3FN, {300, 2, 128}),
          Argument::tensor("y", 0x20000, Element::F32, {300, 2}),
          Argument::number("factor", 0.5), Argument::number("count", -3)};
}

std::string bindError(const std::vector<Argument> &arguments) {
  llvm::Expected<BoundLaunch> bound = bindArguments(sampleRecord(), arguments);
  if (bound)
    return "";
  return llvm::toString(bound.takeError());
}

template <typename T>
T valueOf(const BoundParameter &param) {
  T value{};
  EXPECT_EQ(param.bytes.size(), sizeof(T));
  if (param.bytes.size() == sizeof(T))
    std::memcpy(&value, param.bytes.data(), sizeof(T));
  return value;
}

} // namespace

TEST(LaunchRecord, ReadsAllMembers) {
  LaunchRecord record = sampleRecord();
  EXPECT_EQ(record.kernel, "scale");
  EXPECT_EQ(record.entry, "scale_entry");
  EXPECT_EQ(record.arch, "sm_100a");
  EXPECT_EQ(record.numerics, 1);
  EXPECT_EQ(record.optLevel, 2);
  EXPECT_EQ(record.exp2, flamia::numerics::Exp2Share());
  EXPECT_EQ(record.ptxPath(), "dir/scale.ptx");
  EXPECT_EQ(record.cubinPath(), "dir/scale.cubin");
  EXPECT_EQ(record.parameters.at("head_dim"), "128");
  EXPECT_EQ(record.parameters.at("mode"), "fast");
  EXPECT_EQ(record.block[0], 192u);
  EXPECT_EQ(record.dynamicShared, 65536u);
  EXPECT_EQ(record.tmemColumns, 512u);
  ASSERT_EQ(record.arguments.size(), 4u);
  EXPECT_EQ(record.arguments[0].element, Element::F8E4M3FN);
  EXPECT_FALSE(record.arguments[0].dims[0].has_value());
  EXPECT_EQ(record.arguments[0].dims[2], 128u);
  EXPECT_TRUE(record.arguments[0].inWorkspace);
  EXPECT_FALSE(record.arguments[1].inWorkspace);
  EXPECT_EQ(record.arguments[1].access, Access::Write);
  EXPECT_FALSE(record.arguments[2].isTensor);
  ASSERT_EQ(record.params.size(), 6u);
  EXPECT_EQ(record.params[2].kind, RecordParameter::Kind::TensorMap);
  EXPECT_EQ(record.params[2].boxRows, 128u);
}

TEST(LaunchRecord, RefusesDamagedRecords) {
  EXPECT_EQ(parseError("[]"),
            "r.json: not a launch record: expected a JSON object");
  EXPECT_EQ(parseError("{}"), "r.json: not a launch record: missing member "
                              "'flamia_launch_record'");
  EXPECT_NE(parseError("{"), "");
  const std::string exp2 = "\"opt_level\": 2, \"exp2_emulation\": ";
  EXPECT_EQ(parseError(with("\"opt_level\": 2, ", exp2 + "[1, 4], ")), "");
  EXPECT_EQ(parseError(with("\"opt_level\": 2, ", exp2 + "[1], ")),
            "r.json: expected 'exp2_emulation' to hold 2 integers, found 1");
  EXPECT_EQ(parseError(with("\"opt_level\": 2, ", exp2 + "[1, 64], ")),
            "r.json: expected 'exp2_emulation'[1] to be an integer from 1 to "
            "32, found 64");
  EXPECT_EQ(parseError(with("\"opt_level\": 2, ", exp2 + "[3, 6], ")),
            "r.json: expected 'exp2_emulation' to be [N, M] with M a power of "
            "two and N at most M, found [3, 6]");
  EXPECT_EQ(parseError(with("record\": 1", "record\": 2")),
            "r.json: launch record version 2 is not supported, expected 1");
  EXPECT_EQ(parseError(with("\"entry\": \"scale_entry\",", "")),
            "r.json: missing member 'entry'");
  EXPECT_EQ(parseError(with("[192, 1, 1]", "[192, 1]")),
            "r.json: expected 'block' to hold 3 integers, found 2");
  EXPECT_EQ(parseError(with("[192, 1, 1]", "[192, 0, 1]")),
            "r.json: expected 'block'[1] to be an integer from 1 to 65535, "
            "found 0");
  EXPECT_EQ(parseError(with("[192, 1, 1]", "[192, 8, 1]")),
            "r.json: 'block' has 1536 threads, the limit is 1024");
  EXPECT_EQ(parseError(with("65536", "300000")),
            "r.json: expected 'dynamic_smem' to be an integer from 0 to "
            "232448, found 300000");
  EXPECT_EQ(parseError(with("\"f8E4M3FN\"", "\"f7\"")),
            "r.json: unknown element type 'f7' of args[0]");
  EXPECT_EQ(parseError(with("\"write\"", "\"append\"")),
            "r.json: expected 'access' of args[1] to be 'read', 'write' or "
            "'read_write', found 'append'");
  EXPECT_EQ(parseError(with("{\"pointer\": \"y\"}", "{\"pointer\": \"z\"}")),
            "r.json: 'z' of params[5] is not a tensor argument");
  EXPECT_EQ(parseError(with("{\"dim\": [\"x\", 1]}", "{\"dim\": [\"x\", 3]}")),
            "r.json: dimension 3 of params[1] does not exist in its tensor");
  EXPECT_EQ(parseError(with("{\"scalar\": \"factor\"}", "{\"scalar\": \"x\"}")),
            "r.json: 'x' of params[3] is not a scalar argument");
  EXPECT_EQ(parseError(with("{\"pointer\": \"y\"}", "{\"address\": \"y\"}")),
            "r.json: expected params[5] to have a member 'pointer', 'dim', "
            "'stride', 'tensormap' or 'scalar'");
  EXPECT_EQ(parseError(with("{\"pointer\": \"y\"}", "7")),
            "r.json: expected params[5] to be an object");
  EXPECT_EQ(parseError(with("\"128B\"", "\"64B\"")),
            "r.json: 'span_bytes' of params[2] is 128, swizzle 64B allows at "
            "most 64");
  EXPECT_EQ(parseError(with("\"name\": \"y\"", "\"name\": \"x\"")),
            "r.json: argument 'x' is listed twice");
  EXPECT_EQ(parseError(with("\"dim_names\": [\"tokens\", \"heads\"]",
                            "\"dim_names\": [\"tokens\"]")),
            "r.json: expected 'dim_names' of args[1] to hold 2 names, found 1");
  EXPECT_NE(parseError(with("\"args\": [", "\"args\": [7, ")), "");
  for (auto [from, to] : {std::pair<const char *, const char *>{
                              "\"bytes\": 128", "\"bytes\": 64"},
                          {"[\"tokens\", \"heads\"]}}", "[\"tokens\"]}}"}})
    EXPECT_EQ(parseError(with(from, to)),
              "r.json: argument 'x' has another size in 'workspace' than in "
              "'dims'");
  EXPECT_EQ(parseError(with("\"bytes\": 128", "\"bytes\": 0")),
            "r.json: expected 'bytes' of the workspace of 'x' to be an integer "
            "from 1 to 9223372036854775807, found 0");
  EXPECT_EQ(parseError(with("{\"bytes\": 128, \"per\": [\"tokens\", "
                            "\"heads\"]}",
                            "7")),
            "r.json: missing member 'bytes' of the workspace of 'x'");
}

TEST(LaunchRecord, GroupsAreABoolean) {
  EXPECT_EQ(parseError(with("\"args\": [", "\"groups_y\": 1, \"args\": [")),
            "r.json: expected 'groups_y' to be true or false");
}

TEST(LaunchRecord, EveryTruncationIsRefused) {
  std::string text = sample;
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(parseError(text.substr(0, length)), "") << length;
}

TEST(LaunchRecord, MissingFile) {
  llvm::Expected<LaunchRecord> record = LaunchRecord::load("/nonexistent.json");
  ASSERT_FALSE(bool(record));
  EXPECT_EQ(llvm::toString(record.takeError()),
            "cannot read launch record '/nonexistent.json': No such file or "
            "directory");
}

TEST(BindArguments, GridAndParameters) {
  BoundLaunch bound = needed(bindArguments(sampleRecord(), sampleArguments()));
  EXPECT_EQ(bound.grid, (std::array<uint32_t, 3>{3, 2, 1}));
  EXPECT_FALSE(bound.empty());
  ASSERT_EQ(bound.params.size(), 6u);
  EXPECT_EQ(valueOf<uint64_t>(bound.params[0]), 0x10000u);
  EXPECT_EQ(valueOf<int64_t>(bound.params[1]), 2);
  EXPECT_EQ(valueOf<float>(bound.params[3]), 0.5f);
  EXPECT_EQ(valueOf<int32_t>(bound.params[4]), -3);
  EXPECT_EQ(valueOf<uint64_t>(bound.params[5]), 0x20000u);
}

TEST(BindArguments, ConditionsOfExtents) {
  auto errorOf = [](int64_t times) {
    std::string text = with("\"params\": [",
                            "\"requires\": [{\"dim\": [\"y\", 0], \"times\": " +
                                std::to_string(times) +
                                ", \"multiple_of\": [\"x\", 1]}], "
                                "\"params\": [");
    LaunchRecord record = needed(LaunchRecord::parse(text, "r.json"));
    llvm::Expected<BoundLaunch> bound =
        bindArguments(record, sampleArguments());
    return bound ? "" : llvm::toString(bound.takeError());
  };
  EXPECT_EQ(errorOf(75), "");
  EXPECT_EQ(errorOf(4), "kernel 'scale' needs dimension 0 of 'y' to be a "
                        "multiple of 4 times that of dimension 1 of 'x', but "
                        "they are 300 and 2");
  EXPECT_EQ(parseError(with("\"params\": [", "\"requires\": [{\"dim\": "
                                             "[\"y\", 2], \"times\": 2}], "
                                             "\"params\": [")),
            "r.json: dimension 2 of requires[0] does not exist in its tensor");
}

TEST(BindArguments, GroupsOfTheYAxis) {
  EXPECT_FALSE(sampleRecord().groupsY);
  LaunchRecord record = needed(LaunchRecord::parse(
      with("\"args\": [", "\"groups_y\": true, \"args\": ["), "r.json"));
  EXPECT_TRUE(record.groupsY);
  auto gridOf = [&](uint32_t groups) {
    return needed(bindArguments(record, sampleArguments(), {1, groups})).grid;
  };
  EXPECT_EQ(gridOf(0), (std::array<uint32_t, 3>{6, 1, 1}));
  EXPECT_EQ(gridOf(2), (std::array<uint32_t, 3>{3, 2, 1}));
  EXPECT_EQ(gridOf(1), (std::array<uint32_t, 3>{6, 1, 1}));
  auto errorOf = [&](const LaunchRecord &record, uint32_t groups) {
    return llvm::toString(
        bindArguments(record, sampleArguments(), {1, groups}).takeError());
  };
  EXPECT_EQ(errorOf(record, 3),
            "grid dimension y is 2, which 3 groups do not divide");
  EXPECT_EQ(errorOf(sampleRecord(), 1),
            "kernel 'scale' does not take its y axis in groups");
  // More heads than the y axis has room for are legal in groups.
  std::vector<Argument> arguments = sampleArguments();
  arguments[0].extents[1] = arguments[1].extents[1] = 131072;
  EXPECT_EQ(needed(bindArguments(record, arguments, {1, 4})).grid,
            (std::array<uint32_t, 3>{3 * 32768, 4, 1}));
  arguments[0].extents[0] = arguments[1].extents[0] = uint64_t(1) << 31;
  llvm::Expected<BoundLaunch> refused =
      bindArguments(record, arguments, {1, 1});
  EXPECT_EQ(llvm::toString(refused.takeError()),
            "grid dimension x is 2199023255552, the limit is 2147483647");
}

TEST(BindArguments, LaunchChoosesZ) {
  LaunchRecord record = needed(LaunchRecord::parse(
      with("\"tile\": 1}, 1]", "\"tile\": 1}, \"any\"]"), "r.json"));
  EXPECT_TRUE(record.grid[2].isAny);
  auto gridOf = [&](uint32_t z) {
    return needed(bindArguments(record, sampleArguments(), {z})).grid;
  };
  EXPECT_EQ(needed(bindArguments(record, sampleArguments())).grid,
            (std::array<uint32_t, 3>{3, 2, 1}));
  EXPECT_EQ(gridOf(8), (std::array<uint32_t, 3>{3, 2, 8}));
  auto errorOf = [&](const LaunchRecord &record, uint32_t z) {
    return llvm::toString(
        bindArguments(record, sampleArguments(), {z}).takeError());
  };
  EXPECT_EQ(errorOf(record, 0),
            "kernel 'scale' cannot have grid dimension z of 0");
  EXPECT_EQ(errorOf(record, 65536),
            "grid dimension z is 65536, the limit is 65535");
  EXPECT_EQ(errorOf(sampleRecord(), 2),
            "kernel 'scale' cannot have grid dimension z of 2");
  // Only z can be left open.
  EXPECT_EQ(parseError(with("\"grid\": [{\"arg\": \"x\", \"dim\": 0, "
                            "\"tile\": 128}, ",
                            "\"grid\": [\"any\", ")),
            "r.json: expected 'grid[0]' to be an integer from 0 to 2147483647, "
            "found no integer");
}

TEST(BindArguments, RaggedMapAddressesRows) {
  BoundLaunch bound = needed(bindArguments(sampleRecord(), sampleArguments()));
  ASSERT_TRUE(bound.params[2].tensorMap.has_value());
  const TensorMapRecipe &map = *bound.params[2].tensorMap;
  EXPECT_EQ(map.dims, (std::vector<uint64_t>{128, 2, 1u << 30, 1u << 31,
                                             uint64_t(1) << 31}));
  EXPECT_EQ(map.strides,
            (std::vector<uint64_t>{128, 256, 256, (uint64_t(1) << 34) - 256}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{128, 1, 128, 1, 1}));
  // The address of a load of rows row.. that ends at limit is that of the row,
  // and the last row in bounds is limit - 1.
  for (uint64_t row : {uint64_t(0), uint64_t(5), uint64_t(2147483000)})
    for (int64_t left : {1, 77, 128, 256}) {
      uint64_t x = (uint64_t(1) << 30) - left, y = row + left;
      uint64_t a = uint64_t(1) << 30;
      EXPECT_EQ(a * map.strides[3] + y * map.strides[2] + x * map.strides[1],
                row * 256);
      EXPECT_EQ(map.dims[2] - x, uint64_t(left));
      EXPECT_LT(y, map.dims[3]);
    }
}

TEST(BindArguments, Idx1OffsetsBeyond32Bits) {
  // Row 225304 of stride 9728 is at 2191757312, not at -2103209984.
  Argument tensor =
      Argument::tensor("x", 0x10000, Element::I8, {300000, 76, 128});
  TensorMapRecipe map = needed(raggedTensorMap(tensor, 128, 128, "128B"));
  uint64_t row = 225304, x = (uint64_t(1) << 30) - 128, y = row + 128;
  EXPECT_EQ((uint64_t(1) << 30) * map.strides[3] + y * map.strides[2] +
                x * map.strides[1],
            uint64_t(2191757312));
  // The largest row stride that fits, and the first that does not.
  tensor.extents = {4, (uint64_t(1) << 27) - 1, 128};
  EXPECT_EQ(needed(raggedTensorMap(tensor, 128, 128, "128B")).strides[3], 128u);
  tensor.extents[1] += 1;
  llvm::Expected<TensorMapRecipe> refused =
      raggedTensorMap(tensor, 128, 128, "128B");
  ASSERT_FALSE(bool(refused));
  EXPECT_EQ(llvm::toString(refused.takeError()),
            "tensor map of 'x': a token's row has 17179869184 bytes, the limit "
            "is 2^34 - 16");
}

namespace {

/// The sample with strides of "x", which its token stride is a parameter of.
std::string stridedSample() {
  std::string text =
      with("\"dims\": [null, null, 128],", "\"dims\": [null, null, 128], "
                                           "\"strides\": [null, null, 1],");
  size_t at = text.find("{\"dim\": [\"x\", 1]}");
  return text.replace(at, 17, "{\"stride\": [\"x\", 0]}");
}

llvm::Expected<BoundLaunch> bindStrided(std::vector<uint64_t> strides,
                                        uint64_t bytes = UINT64_MAX) {
  std::vector<Argument> arguments = sampleArguments();
  arguments[0].strides = std::move(strides);
  arguments[0].bytes = bytes;
  return bindArguments(needed(LaunchRecord::parse(stridedSample(), "r.json")),
                       arguments);
}

std::string strideError(std::vector<uint64_t> strides,
                        uint64_t bytes = UINT64_MAX) {
  llvm::Expected<BoundLaunch> bound = bindStrided(std::move(strides), bytes);
  return bound ? "" : llvm::toString(bound.takeError());
}

} // namespace

TEST(BindArguments, Strides) {
  // Two heads of 128 out of [tokens, 3, 2, 128].
  BoundLaunch bound = needed(bindStrided({768, 128, 1}));
  EXPECT_EQ(valueOf<uint64_t>(bound.params[1]), 768u);
  const TensorMapRecipe &map = *bound.params[2].tensorMap;
  EXPECT_EQ(map.strides,
            (std::vector<uint64_t>{128, 768, 768, (uint64_t(1) << 34) - 768}));
  // Heads outside tokens, and one head for all.
  EXPECT_EQ(
      needed(bindStrided({128, 38400, 1})).params[2].tensorMap->strides[0],
      38400u);
  EXPECT_EQ(strideError({128, 0, 1}), "");
  EXPECT_EQ(
      strideError({0, 128, 1}),
      "tensor map of 'x': expected rows that lie apart, but their stride is "
      "0");
  // Without strides the tensor is contiguous.
  bound = needed(bindStrided({}));
  EXPECT_EQ(valueOf<uint64_t>(bound.params[1]), 256u);
  EXPECT_EQ(bound.params[2].tensorMap->strides[1], 256u);
  // The last element is the last byte needed.
  uint64_t bytes = 299 * 768 + 128 + 128;
  EXPECT_EQ(strideError({768, 128, 1}, bytes), "");
  EXPECT_EQ(strideError({768, 128, 1}, bytes - 1),
            "argument 'x' needs 229888 bytes, its buffer has 229887");
}

TEST(BindArguments, RefusesStrides) {
  EXPECT_EQ(strideError({760, 128, 1}),
            "argument 'x' has stride 760 in dimension 0, which is 760 bytes "
            "and not a multiple of 16");
  EXPECT_EQ(strideError({768, 8, 1}),
            "argument 'x' has stride 8 in dimension 1, which is 8 bytes and "
            "not a multiple of 16");
  EXPECT_EQ(strideError({768, 128, 2}),
            "argument 'x' has stride 2 in dimension 2, expected 1");
  EXPECT_EQ(strideError({768, 1}), "argument 'x' has 2 strides, expected 3");
  EXPECT_EQ(strideError({(uint64_t(1) << 34) - 16, 128, 1}), "");
  EXPECT_EQ(strideError({uint64_t(1) << 34, 128, 1}),
            "argument 'x' has stride 17179869184 in dimension 0, the limit is "
            "17179869168 elements (2^34 - 16 bytes)");
  // "y" has none: its strides must be those of a contiguous tensor.
  std::vector<Argument> arguments = sampleArguments();
  arguments[1].strides = {2, 1};
  EXPECT_EQ(bindError(arguments), "");
  arguments[1].strides = {4, 1};
  EXPECT_EQ(bindError(arguments),
            "argument 'y' has stride 4 in dimension 0, expected 2: the kernel "
            "takes it contiguous");
  // Rows that are written must lie apart.
  std::string text = stridedSample();
  size_t at = text.find("\"read\"");
  text.replace(at, 6, "\"write\"");
  LaunchRecord record = needed(LaunchRecord::parse(text, "r.json"));
  arguments = sampleArguments();
  arguments[0].strides = {128, 128, 1};
  EXPECT_EQ(llvm::toString(bindArguments(record, arguments).takeError()),
            "argument 'x' has stride 128 in dimension 0, expected at least 256 "
            "because the kernel writes it");
}

TEST(LaunchRecord, RefusesStrides) {
  std::string text = stridedSample();
  size_t at = text.find("[null, null, 1]");
  EXPECT_EQ(parseError(std::string(text).replace(at, 15, "[null, null, 2]")),
            "r.json: expected 'strides' of args[0] to hold 3 strides, the last "
            "1");
  EXPECT_EQ(parseError(std::string(text).replace(at, 15, "[null, 1]")),
            "r.json: expected 'strides' of args[0] to hold 3 strides, the last "
            "1");
  EXPECT_EQ(
      parseError(with("{\"dim\": [\"x\", 1]}", "{\"stride\": [\"x\", 1]}")),
      "r.json: 'stride' of params[1] names an argument without strides");
}

TEST(BindArguments, EmptyGrid) {
  std::vector<Argument> arguments = sampleArguments();
  arguments[0].extents[0] = arguments[1].extents[0] = 0;
  BoundLaunch bound = needed(bindArguments(sampleRecord(), arguments));
  EXPECT_TRUE(bound.empty());
}

TEST(BindArguments, RefusesByName) {
  auto changed = [](auto change) {
    std::vector<Argument> arguments = sampleArguments();
    change(arguments);
    return bindError(arguments);
  };
  using Arguments = std::vector<Argument>;
  EXPECT_EQ(changed([](Arguments &a) { a.pop_back(); }),
            "kernel 'scale' needs argument 'count'");
  EXPECT_EQ(changed([](Arguments &a) { a[3].name = "z"; }),
            "kernel 'scale' has no argument 'z', its arguments are x, y, "
            "factor, count");
  EXPECT_EQ(changed([](Arguments &a) { a.push_back(a[0]); }),
            "argument 'x' is given twice");
  EXPECT_EQ(changed([](Arguments &a) { a[2].isTensor = true; }),
            "argument 'factor' is a tensor, expected a scalar");
  EXPECT_EQ(changed([](Arguments &a) { a[0].element = Element::BF16; }),
            "argument 'x' holds bf16, expected f8E4M3FN");
  EXPECT_EQ(changed([](Arguments &a) { a[0].extents = {300, 256}; }),
            "argument 'x' has rank 2, expected 3 for [?, ?, 128]");
  EXPECT_EQ(changed([](Arguments &a) { a[0].extents[2] = 64; }),
            "argument 'x' has extent 64 in dimension 2, expected 128");
  EXPECT_EQ(changed([](Arguments &a) { a[1].extents[0] = 299; }),
            "argument 'y' has 299 tokens, but argument 'x' has 300");
  EXPECT_EQ(changed([](Arguments &a) { a[0].address = 0; }),
            "argument 'x' is a null pointer");
  EXPECT_EQ(changed([](Arguments &a) { a[0].address = 0x10008; }),
            "argument 'x' is at address 0x10008, which is not a multiple of "
            "16");
  EXPECT_EQ(changed([](Arguments &a) { a[1].bytes = 2399; }),
            "argument 'y' needs 2400 bytes, its buffer has 2399");
  EXPECT_EQ(changed([](Arguments &a) {
              a[0].extents[0] = a[1].extents[0] = uint64_t(1) << 60;
            }),
            "argument 'x' is larger than 2^62 bytes");
  EXPECT_EQ(
      changed([](Arguments &a) { a[0].extents[1] = a[1].extents[1] = 65536; }),
      "grid dimension y is 65536, the limit is 65535");
  EXPECT_EQ(changed([](Arguments &a) { a[3].scalar = 0.5; }),
            "argument 'count' is 0.50, expected an integer that fits i32");
  EXPECT_EQ(changed([](Arguments &a) { a[3].scalar = 4e9; }),
            "argument 'count' is 4000000000.00, expected an integer that fits "
            "i32");
}

TEST(PackedElements, SizesAndShapes) {
  EXPECT_EQ(bitsOf(Element::F4E2M1FN), 4u);
  EXPECT_EQ(bytesOf(Element::F4E2M1FN, {300, 2, 128}), 300u * 2 * 64);
  EXPECT_EQ(bytesOf(Element::F32, {3, 5}), 60u);
  EXPECT_EQ(bytesOf(Element::F8E4M3FN, {}), 1u);
  EXPECT_EQ(bytesOf(Element::I64, {uint64_t(1) << 62, 8}), UINT64_MAX);
  EXPECT_EQ(numpyTypeOf(Element::F4E2M1FN), std::pair('u', 1u));
  using Shape = std::vector<uint64_t>;
  EXPECT_EQ(numpyShapeOf(Element::F4E2M1FN, {300, 2, 128}),
            (Shape{300, 2, 64}));
  EXPECT_EQ(extentsOfNumpy(Element::F4E2M1FN, {300, 2, 64}),
            (Shape{300, 2, 128}));
  EXPECT_EQ(numpyShapeOf(Element::BF16, {300, 128}), (Shape{300, 128}));
  EXPECT_EQ(extentsOfNumpy(Element::I8, {7}), (Shape{7}));
}

TEST(PackedElements, Records) {
  auto packed = [](const std::string &dims, const std::string &bytes) {
    std::string text = with("\"f8E4M3FN\"", "\"f4E2M1FN\"");
    text.replace(text.find("null, null, 128"), 15, "null, null, " + dims);
    return text.replace(text.find("\"bytes\": 128"), 12, "\"bytes\": " + bytes);
  };
  LaunchRecord record =
      needed(LaunchRecord::parse(packed("128", "64"), "r.json"));
  EXPECT_EQ(record.arguments[0].element, Element::F4E2M1FN);
  EXPECT_EQ(parseError(packed("128", "128")),
            "r.json: argument 'x' has another size in 'workspace' than in "
            "'dims'");
  EXPECT_EQ(parseError(packed("127", "64")),
            "r.json: expected an even last extent of f4E2M1FN of args[0]");

  // A map of bytes: 64 for the 128 elements of a row and head.
  std::vector<Argument> arguments = sampleArguments();
  arguments[0].element = Element::F4E2M1FN;
  arguments[0].bytes = 300 * 2 * 64;
  Argument tensor = arguments[0];
  TensorMapRecipe map = needed(raggedTensorMap(tensor, 128, 64, "64B"));
  EXPECT_EQ(map.element, Element::I8);
  EXPECT_EQ(map.dims, (std::vector<uint64_t>{64, 2, 1u << 30, 1u << 31,
                                             uint64_t(1) << 31}));
  EXPECT_EQ(map.strides,
            (std::vector<uint64_t>{64, 128, 128, (uint64_t(1) << 34) - 128}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 1, 128, 1, 1}));

  EXPECT_TRUE(bool(bindArguments(record, arguments)));
  arguments[0].bytes -= 1;
  llvm::Expected<BoundLaunch> bound = bindArguments(record, arguments);
  ASSERT_FALSE(bool(bound));
  EXPECT_EQ(llvm::toString(bound.takeError()),
            "argument 'x' needs 38400 bytes, its buffer has 38399");
}

TEST(PackedElements, OddRowsAreRefused) {
  std::string text = with("\"f8E4M3FN\"", "\"f4E2M1FN\"");
  text.replace(text.find("null, null, 128"), 15, "null, null, null");
  text.replace(text.find("\"bytes\": 128"), 12, "\"bytes\": 1");
  text.replace(text.find("[\"tokens\", \"heads\"]}}"), 21,
               "[\"tokens\", \"heads\", \"\"]}}");
  LaunchRecord record = needed(LaunchRecord::parse(text, "r.json"));
  std::vector<Argument> arguments = sampleArguments();
  arguments[0].element = Element::F4E2M1FN;
  arguments[0].extents[2] = 127;
  llvm::Expected<BoundLaunch> bound = bindArguments(record, arguments);
  ASSERT_FALSE(bool(bound));
  EXPECT_EQ(llvm::toString(bound.takeError()),
            "argument 'x' has rows of 127 f4E2M1FN, expected an even number");
}
