//===- TensorMapReplaceTest.cpp - tensormap.replace, reductions -----------===//

#include "flamia/Sim/Units/TensorMap.h"
#include <gtest/gtest.h>
#include <string>

using namespace flamia::sim;

namespace {

// What Triton emits for a device-made map: 128 zero bytes, then the fields.
TEST(TensorMapReplace, FromZeroBytes) {
  uint8_t bytes[128] = {};
  IssueList issues;
  auto set = [&](TensorMapField field, unsigned ordinal, uint64_t value) {
    EXPECT_TRUE(replaceTensorMapField(bytes, field, ordinal, value, issues));
  };
  set(TensorMapField::GlobalAddress, 0, 0x7000);
  set(TensorMapField::Rank, 0, 1);
  set(TensorMapField::BoxDim, 0, 64);
  set(TensorMapField::BoxDim, 1, 32);
  set(TensorMapField::GlobalDim, 0, 200);
  set(TensorMapField::GlobalDim, 1, 77);
  set(TensorMapField::GlobalStride, 0, 512);
  set(TensorMapField::ElementStride, 0, 1);
  set(TensorMapField::ElementStride, 1, 1);
  set(TensorMapField::ElemType, 0, 6);
  set(TensorMapField::SwizzleMode, 0, 3);
  TensorMap map;
  std::string error;
  ASSERT_TRUE(TensorMap::fromBytes(bytes, map, error)) << error;
  EXPECT_EQ(map.rank, 2u);
  EXPECT_EQ(map.address, 0x7000u);
  EXPECT_EQ(map.type, TmaType::F16);
  EXPECT_EQ(map.dims[0], 200u);
  EXPECT_EQ(map.dims[1], 77u);
  EXPECT_EQ(map.strides[0], 512u);
  EXPECT_EQ(map.box[1], 32u);
  EXPECT_EQ(map.swizzle, TmaSwizzle::B128);

  // PTX counts the types differently from the driver from 8 on.
  set(TensorMapField::ElemType, 0, 10);
  set(TensorMapField::SwizzleAtomicity, 0, 1);
  set(TensorMapField::FillMode, 0, 1);
  ASSERT_TRUE(TensorMap::fromBytes(bytes, map, error)) << error;
  EXPECT_EQ(map.type, TmaType::BF16);
  EXPECT_EQ(map.swizzle, TmaSwizzle::B128Atom32B);
  EXPECT_EQ(map.fill, TmaFill::NaN);

  // A broken rule is found when the map is used.
  set(TensorMapField::GlobalStride, 0, 520);
  EXPECT_FALSE(TensorMap::fromBytes(bytes, map, error));
  EXPECT_NE(error.find("globalStrides[0]"), std::string::npos);
}

TEST(TensorMapReplace, Rejections) {
  uint8_t bytes[128] = {};
  IssueList issues;
  auto refused = [&](TensorMapField field, unsigned ordinal, uint64_t value,
                     const char *text) {
    EXPECT_FALSE(replaceTensorMapField(bytes, field, ordinal, value, issues));
    ASSERT_FALSE(issues.empty());
    EXPECT_NE(issues.back().message.find(text), std::string::npos)
        << issues.back().message;
  };
  refused(TensorMapField::BoxDim, 5, 1, "ordinal below 5, but got 5");
  refused(TensorMapField::GlobalStride, 4, 16, "ordinal below 4");
  refused(TensorMapField::ElemType, 0, 16, "elemtype has no value 16");
  refused(TensorMapField::SwizzleMode, 0, 4, "swizzle_mode has no value 4");
  refused(TensorMapField::InterleaveLayout, 0, 3, "interleave_layout");
  refused(TensorMapField::FillMode, 0, 2, "fill_mode");
  refused(TensorMapField::SwizzleAtomicity, 0, 1, "swizzle_mode 3");
  bytes[17] = 1;
  refused(TensorMapField::Rank, 0, 1, "not a tensor map");
}

TEST(TensorMapReduce, Operations) {
  IssueList issues;
  auto reduce = [&](TmaType type, TmaReduce op, auto x, auto y) {
    decltype(x) result = x;
    EXPECT_TRUE(reduceElements(type, op, reinterpret_cast<uint8_t *>(&result),
                               reinterpret_cast<const uint8_t *>(&y), sizeof(x),
                               issues))
        << issues.back().message;
    return result;
  };
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::Add, 0xffffffffu, 2u), 1u);
  EXPECT_EQ(reduce(TmaType::S32, TmaReduce::Min, -3, 2), -3);
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::Max, 0xfffffff0u, 2u), 0xfffffff0u);
  EXPECT_EQ(reduce(TmaType::U64, TmaReduce::Xor, uint64_t(5), uint64_t(6)), 3u);
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::Inc, 7u, 7u), 0u);
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::Inc, 6u, 7u), 7u);
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::Dec, 0u, 7u), 7u);
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::And, 12u, 10u), 8u);
  EXPECT_EQ(reduce(TmaType::U32, TmaReduce::Or, 12u, 10u), 14u);
  EXPECT_EQ(
      reduce(TmaType::BF16, TmaReduce::Add, uint16_t(0x3f80), uint16_t(0x3f81)),
      0x4000); // 2 + 2^-7 ties to even
  EXPECT_EQ(
      reduce(TmaType::F16, TmaReduce::Add, uint16_t(0x3c00), uint16_t(0x1000)),
      0x3c00); // 1 + 2^-11 ties to even
  EXPECT_EQ(
      reduce(TmaType::F16, TmaReduce::Max, uint16_t(0xbc00), uint16_t(0x8000)),
      0x8000);
  EXPECT_EQ(reduce(TmaType::F64, TmaReduce::Add, 0.5, 0.25), 0.75);
  uint8_t byte = 0;
  EXPECT_FALSE(
      reduceElements(TmaType::U8, TmaReduce::Add, &byte, &byte, 1, issues));
}

} // namespace
