//===- TensorMapTest.cpp - Tensor map rules and box copies ----------------===//

#include "flamia/Sim/Units/TensorMap.h"
#include "flamia/Sim/Units/Convert.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

using namespace flamia::sim;

namespace {

constexpr uint64_t base = 0x7f0000001000;

/// One allocation at `base`.
struct Space : GlobalSpace {
  explicit Space(size_t size) : bytes(size) {
    for (size_t i = 0; i < size; ++i)
      bytes[i] = uint8_t(i * 7 + i / 251);
  }
  uint8_t *find(uint64_t address, uint64_t size) {
    if (address < base || address - base + size > bytes.size())
      return nullptr;
    return bytes.data() + (address - base);
  }
  const uint8_t *read(uint64_t address, uint64_t size) override {
    ++accesses;
    return find(address, size);
  }
  uint8_t *write(uint64_t address, uint64_t size) override {
    ++accesses;
    return find(address, size);
  }
  std::vector<uint8_t> bytes;
  unsigned accesses = 0;
};

struct TensorMapFixture : testing::Test {
  TensorMapFixture() : shared(65536, 0xaa), space(1 << 16) {
    map.type = TmaType::U8;
    map.rank = 2;
    map.address = base;
    map.dims = {256, 100, 1, 1, 1};
    map.strides = {256};
    map.box = {128, 16, 1, 1, 1};
    map.swizzle = TmaSwizzle::B128;
  }
  SharedView view() { return {shared.data(), 0, uint32_t(shared.size())}; }
  std::string error() {
    std::string text;
    bool valid = map.validate(text);
    EXPECT_EQ(valid, text.empty());
    return text;
  }
  std::string message() const {
    return issues.empty() ? "" : issues.back().message;
  }
  TensorMap map;
  std::vector<uint8_t> shared;
  Space space;
  IssueList issues;
};
using TensorMapRules = TensorMapFixture;
using TensorMapCopy = TensorMapFixture;

//===----------------------------------------------------------------------===//
// Rules of the encoder
//===----------------------------------------------------------------------===//

TEST_F(TensorMapRules, EveryRuleNamesItsArgument) {
  EXPECT_EQ(error(), "");
  const TensorMap good = map;
  auto refused = [&](const char *text, auto change) {
    map = good;
    change(map);
    EXPECT_NE(error().find(text), std::string::npos)
        << "expected '" << text << "' in '" << error() << "'";
  };
  refused("data type 16", [](TensorMap &m) { m.type = TmaType(16); });
  refused("rank of 1 to 5, but got 0", [](TensorMap &m) { m.rank = 0; });
  refused("rank of 1 to 5, but got 6", [](TensorMap &m) { m.rank = 6; });
  refused("globalAddress to be a multiple of 16, but got 0x7f0000001008",
          [](TensorMap &m) { m.address += 8; });
  refused("globalDim[1] to be 1 to 2^32, but got 0",
          [](TensorMap &m) { m.dims[1] = 0; });
  refused("globalDim[0]", [](TensorMap &m) { m.dims[0] = 0x100000001; });
  refused("globalStrides[0] to be a multiple of 16, but got 264",
          [](TensorMap &m) { m.strides[0] = 264; });
  refused("globalStrides[0] to be less than 2^40",
          [](TensorMap &m) { m.strides[0] = uint64_t(1) << 40; });
  refused("boxDim[1] to be 1 to 256, but got 257",
          [](TensorMap &m) { m.box[1] = 257; });
  refused("boxDim[0] to be 1 to 256, but got 0",
          [](TensorMap &m) { m.box[0] = 0; });
  refused("a multiple of 16 bytes", [](TensorMap &m) { m.box[0] = 24; });
  refused("at most 128 bytes for its swizzle, but got 256",
          [](TensorMap &m) { m.box[0] = 256; });
  refused("at most 64 bytes",
          [](TensorMap &m) { m.swizzle = TmaSwizzle::B64; });
  refused("at most 32 bytes",
          [](TensorMap &m) { m.swizzle = TmaSwizzle::B32; });
  refused("a box of at most 233472 bytes, but got 233600", [](TensorMap &m) {
    m.rank = 3;
    m.box = {64, 73, 50, 1, 1};
  });
  refused("elementStrides[1] to be 1 to 8, but got 9",
          [](TensorMap &m) { m.elementStrides[1] = 9; });
  refused("elementStrides[0] to be 1 to 8, but got 0",
          [](TensorMap &m) { m.elementStrides[0] = 0; });
  refused("rank of at least 3 with interleave",
          [](TensorMap &m) { m.interleave = TmaInterleave::B16; });
  refused("interleave 32B needs swizzle 32B", [](TensorMap &m) {
    m.rank = 3;
    m.interleave = TmaInterleave::B32;
  });
  refused("interleave 3",
          [](TensorMap &m) { m.interleave = TmaInterleave(3); });
  refused("swizzle 7", [](TensorMap &m) { m.swizzle = TmaSwizzle(7); });
  refused("L2 promotion 4", [](TensorMap &m) { m.l2Promotion = 4; });
  refused("fill mode 2", [](TensorMap &m) { m.fill = TmaFill(2); });
  refused("NaN fill needs a float type",
          [](TensorMap &m) { m.fill = TmaFill::NaN; });
  refused("globalAddress to be a multiple of 32", [](TensorMap &m) {
    m.type = TmaType::U4x16Align16B;
    m.address += 16;
  });
  refused("globalDim[0] to be a multiple of 128", [](TensorMap &m) {
    m.type = TmaType::U4x16Align16B;
    m.dims[0] = 64;
  });
  refused("boxDim[0] to be 128 for a padded type", [](TensorMap &m) {
    m.type = TmaType::U6x16Align16B;
    m.box[0] = 64;
  });
  refused("a padded type needs swizzle", [](TensorMap &m) {
    m.type = TmaType::U6x16Align16B;
    m.swizzle = TmaSwizzle::B64;
  });
  refused("a multiple of 2 for a 4-bit type", [](TensorMap &m) {
    m.type = TmaType::U4x16Align8B;
    m.dims[0] = 255;
  });
}

TEST_F(TensorMapRules, BytesRoundTrip) {
  map.rank = 5;
  map.type = TmaType::BF16;
  map.dims = {64, uint64_t(1) << 32, 3, uint64_t(1) << 31, 7};
  map.strides = {128, 4096, 48, (uint64_t(1) << 34) - 128};
  map.box = {64, 256, 1, 2, 3};
  map.elementStrides = {1, 2, 3, 4, 8};
  map.fill = TmaFill::NaN;
  map.l2Promotion = 2;
  ASSERT_EQ(error(), "");
  std::array<uint8_t, 128> bytes = map.toBytes();
  TensorMap read;
  std::string text;
  ASSERT_TRUE(TensorMap::fromBytes(bytes.data(), read, text)) << text;
  EXPECT_EQ(read.dims, map.dims);
  EXPECT_EQ(read.strides, map.strides);
  EXPECT_EQ(read.box, map.box);
  EXPECT_EQ(read.elementStrides, map.elementStrides);
  EXPECT_EQ(read.type, map.type);
  EXPECT_EQ(read.fill, map.fill);
  EXPECT_EQ(read.swizzle, map.swizzle);
  EXPECT_EQ(read.address, map.address);
  EXPECT_EQ(read.toBytes(), bytes);
  // A flipped bit anywhere is not a map.
  for (unsigned i = 0; i < 128; ++i) {
    bytes[i] ^= 4;
    EXPECT_FALSE(TensorMap::fromBytes(bytes.data(), read, text)) << i;
    bytes[i] ^= 4;
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The image by single bytes: every element on its own, straight from 9.3.
std::vector<uint8_t> imageByElement(const TensorMap &map, const int32_t *coords,
                                    uint32_t dst, std::vector<uint8_t> image,
                                    Space &space, bool &outside) {
  unsigned es = tmaElementBytes(map.type);
  unsigned span = map.swizzle == TmaSwizzle::B32    ? 32
                  : map.swizzle == TmaSwizzle::B64  ? 64
                  : map.swizzle == TmaSwizzle::None ? map.box[0] * es
                                                    : 128;
  unsigned counts[5];
  unsigned total = 1;
  for (unsigned d = 0; d < 5; ++d) {
    unsigned stride = d == 0 ? 1 : map.elementStrides[d];
    counts[d] = d < map.rank ? (map.box[d] + stride - 1) / stride : 1;
    total *= counts[d];
  }
  outside = false;
  for (unsigned e = 0; e < total; ++e) {
    unsigned rest = e, index[5];
    for (unsigned d = 0; d < 5; ++d) {
      index[d] = rest % counts[d];
      rest /= counts[d];
    }
    uint64_t address = map.address;
    bool inside = true;
    for (unsigned d = 0; d < map.rank; ++d) {
      int64_t at = int64_t(coords[d]) +
                   int64_t(index[d]) * (d == 0 ? 1 : map.elementStrides[d]);
      inside &= at >= 0 && at < int64_t(map.dims[d]);
      address += uint64_t(at) * (d == 0 ? es : map.strides[d - 1]);
    }
    unsigned row =
        index[1] +
        counts[1] * (index[2] + counts[2] * (index[3] + counts[3] * index[4]));
    for (unsigned byte = 0; byte < es; ++byte) {
      uint32_t a = dst + index[0] * es + span * row + byte;
      switch (map.swizzle) {
      case TmaSwizzle::B32:
        a ^= (a >> 3) & 0x10;
        break;
      case TmaSwizzle::B64:
        a ^= (a >> 3) & 0x30;
        break;
      case TmaSwizzle::B128:
        a ^= (a >> 3) & 0x70;
        break;
      case TmaSwizzle::B128Atom32B:
        a ^= (a >> 2) & 0x60;
        break;
      case TmaSwizzle::B128Atom64B:
        a ^= (a >> 1) & 0x40;
        break;
      default:
        break;
      }
      uint8_t value = map.fill == TmaFill::NaN ? (byte % 2 ? 0x7f : 0xf7) : 0;
      if (inside) {
        const uint8_t *from = space.find(address + byte, 1);
        outside |= !from;
        value = from ? *from : 0;
      }
      image[a] = value;
    }
  }
  return image;
}

TEST_F(TensorMapCopy, RandomLoadsMatchTheElementModel) {
  std::mt19937 engine(3);
  auto below = [&](unsigned n) { return unsigned(engine() % n); };
  const TmaType types[] = {TmaType::U8, TmaType::BF16, TmaType::F32,
                           TmaType::F64, TmaType::F16};
  unsigned checked = 0, partly = 0;
  while (checked < 2000) {
    map = TensorMap();
    map.type = types[below(5)];
    unsigned es = tmaElementBytes(map.type);
    map.rank = 1 + below(5);
    map.address = base + 16 * below(64);
    map.swizzle = TmaSwizzle(below(7));
    if (map.swizzle == TmaSwizzle::B128Atom32BFlip8B)
      continue;
    if (map.type != TmaType::U8 && below(2))
      map.fill = TmaFill::NaN;
    unsigned span = map.swizzle == TmaSwizzle::B32   ? 32
                    : map.swizzle == TmaSwizzle::B64 ? 64
                                                     : 128;
    map.box[0] = 16 / es * (1 + below(span / 16));
    uint64_t pitch = 0;
    for (unsigned d = 0; d < map.rank; ++d) {
      map.dims[d] = 1 + below(d == 0 ? 200 / es : 9);
      if (d > 0)
        map.box[d] = 1 + below(5);
      map.elementStrides[d] = 1 + below(3);
      if (d > 0)
        map.strides[d - 1] = 16 * below(40);
      pitch += d > 0 ? map.strides[d - 1] * map.dims[d] : map.dims[d] * es;
    }
    ASSERT_EQ(error(), "");
    ASSERT_LT(pitch, space.bytes.size() - 1024);
    int32_t coords[5];
    for (unsigned d = 0; d < map.rank; ++d)
      coords[d] = int32_t(below(12)) - 4;
    coords[0] = int32_t(16 / es) * (int32_t(below(8)) - 3);
    uint32_t dst = 128 * below(9);

    bool outside;
    std::vector<uint8_t> expected =
        imageByElement(map, coords, dst, shared, space, outside);
    ASSERT_FALSE(outside);
    ASSERT_TRUE(tmaLoad(map, coords, dst, view(), space, issues)) << message();
    ASSERT_EQ(shared, expected);
    uint32_t bytes = es;
    for (unsigned d = 0; d < map.rank; ++d)
      bytes *= d == 0 ? map.box[0]
                      : (map.box[d] + map.elementStrides[d] - 1) /
                            map.elementStrides[d];
    EXPECT_EQ(map.transactionBytes(), bytes);
    partly += coords[0] < 0;
    ++checked;
  }
  EXPECT_GT(partly, 100u);
}

// A store of what was loaded changes nothing; a store elsewhere moves exactly
// the elements inside the map.
TEST_F(TensorMapCopy, StoreIsTheInverse) {
  map.dims = {200, 10, 1, 1, 1};
  for (TmaSwizzle swizzle :
       {TmaSwizzle::None, TmaSwizzle::B128, TmaSwizzle::B128Atom32B,
        TmaSwizzle::B128Atom64B}) {
    map.swizzle = swizzle;
    const int32_t coords[2] = {128, 4};
    std::vector<uint8_t> before = space.bytes, expected = before;
    // The load fills columns 200 and on with zero, and the store writes the
    // 16-byte unit 192..207 whole.
    for (unsigned row = 4; row < 10; ++row)
      for (unsigned column = 200; column < 208; ++column)
        expected[row * 256 + column] = 0;
    ASSERT_TRUE(tmaLoad(map, coords, 1024, view(), space, issues));
    ASSERT_TRUE(tmaStore(map, coords, 1024, view(), space, issues));
    EXPECT_TRUE(space.bytes == expected);
    for (size_t i = 1024; i < 1024 + map.imageBytes(); ++i)
      shared[i] ^= 0xff;
    ASSERT_TRUE(tmaStore(map, coords, 1024, view(), space, issues));
    // Columns 128..207 of rows 4..9 flipped, nothing else.
    for (size_t i = 0; i < before.size(); ++i) {
      size_t row = i / 256, column = i % 256;
      bool inside = row >= 4 && row < 10 && column >= 128 && column < 208;
      ASSERT_EQ(space.bytes[i], inside ? uint8_t(~expected[i]) : before[i])
          << i;
    }
    space.bytes = before;
  }
}

TEST_F(TensorMapCopy, CoordinateRules) {
  const int32_t negative[2] = {-16, 0};
  EXPECT_TRUE(tmaLoad(map, negative, 0, view(), space, issues)) << message();
  EXPECT_FALSE(tmaStore(map, negative, 0, view(), space, issues));
  EXPECT_NE(message().find("coordinate 0 is negative (-16)"),
            std::string::npos);
  const int32_t negativeRow[2] = {0, -1};
  EXPECT_FALSE(tmaStore(map, negativeRow, 0, view(), space, issues));
  EXPECT_FALSE(
      tmaReduce(map, negativeRow, 0, TmaReduce::Add, view(), space, issues));
  const int32_t odd[2] = {8, 0};
  EXPECT_FALSE(tmaLoad(map, odd, 0, view(), space, issues));
  EXPECT_NE(message().find("multiple of 16 bytes, but got 8 elements"),
            std::string::npos);
  const int32_t good[2] = {16, 0};
  EXPECT_FALSE(tmaLoad(map, good, 64, view(), space, issues));
  EXPECT_NE(message().find("multiple of 128, but got 0x40"), std::string::npos);
  EXPECT_FALSE(tmaLoad(map, good, 65536 - 1024, view(), space, issues));
  EXPECT_EQ(issues.back().kind, IssueKind::OutOfBounds);
  // Tensor larger than its allocation.
  map.dims[1] = 1000;
  const int32_t far[2] = {0, 300};
  EXPECT_FALSE(tmaLoad(map, far, 0, view(), space, issues));
  EXPECT_NE(message().find("belong to no allocation"), std::string::npos);
  // A box completely outside reads nothing, fills, and still counts.
  map.dims[1] = 100;
  space.accesses = 0;
  EXPECT_TRUE(tmaLoad(map, far, 0, view(), space, issues));
  EXPECT_EQ(space.accesses, 0u);
  EXPECT_EQ(std::vector<uint8_t>(shared.begin(), shared.begin() + 2048),
            std::vector<uint8_t>(2048, 0));
  EXPECT_EQ(map.transactionBytes(), 2048u);
}

// The smaller box keeps the swizzle's row distance, the tx count does not.
TEST_F(TensorMapCopy, NarrowBoxInAWideSwizzle) {
  map.box = {64, 4, 1, 1, 1};
  EXPECT_EQ(map.transactionBytes(), 256u);
  EXPECT_EQ(map.imageBytes(), 512u);
  const int32_t coords[2] = {0, 1};
  ASSERT_TRUE(tmaLoad(map, coords, 1024, view(), space, issues));
  // Row 2, byte 16: chunk 1 ^ 2 = 3 of line 2.
  EXPECT_EQ(shared[1024 + 2 * 128 + 3 * 16], space.bytes[3 * 256 + 16]);
}

//===----------------------------------------------------------------------===//
// Document-clipped maps (plan.md)
//===----------------------------------------------------------------------===//

/// The ragged map and coordinates of the plan, written from its text.
struct Ragged {
  TensorMap map;
  Ragged(uint64_t address, unsigned cols, unsigned heads, unsigned es,
         TmaType type, unsigned boxRows) {
    uint64_t s = uint64_t(cols) * heads * es;
    unsigned span = std::min(128u, cols * es);
    map.type = type;
    map.rank = 5;
    map.address = address;
    map.dims = {cols, heads, uint64_t(1) << 30, uint64_t(1) << 31,
                uint64_t(1) << 31};
    map.strides = {uint64_t(cols) * es, s, s, (uint64_t(1) << 34) - s};
    map.box = {span / es, 1, boxRows, 1, 1};
    map.swizzle = span == 128  ? TmaSwizzle::B128
                  : span == 64 ? TmaSwizzle::B64
                               : TmaSwizzle::B32;
  }
  std::array<int32_t, 5> coords(int col, int head, int64_t row,
                                int64_t limit) const {
    int64_t n = std::min<int64_t>(limit - row, 256);
    return {col, head, int32_t((int64_t(1) << 30) - n), int32_t(row + n),
            1 << 30};
  }
};

TEST_F(TensorMapCopy, DocumentClippedLoad) {
  // [rows, heads, cols] = [40, 3, 128] bytes.
  Ragged ragged(base, 128, 3, 1, TmaType::U8, 16);
  std::string text;
  ASSERT_TRUE(ragged.map.validate(text)) << text;
  struct {
    int64_t row, limit;
  } cases[] = {{0, 40}, {3, 40}, {5, 9}, {30, 40}, {7, 7}, {20, 11}, {24, 40}};
  for (const auto &c : cases)
    for (int head = 0; head < 3; ++head) {
      auto coords = ragged.coords(0, head, c.row, c.limit);
      std::fill(shared.begin(), shared.end(), 0xaa);
      ASSERT_TRUE(
          tmaLoad(ragged.map, coords.data(), 2048, view(), space, issues))
          << message();
      for (int r = 0; r < 16; ++r)
        for (unsigned byte = 0; byte < 128; ++byte) {
          unsigned phys = 2048 + unsigned(r) * 128 +
                          ((byte / 16) ^ (unsigned(r) % 8)) * 16 + byte % 16;
          bool inside = c.row + r < c.limit;
          uint8_t expected =
              inside
                  ? space.bytes[size_t((c.row + r) * 384 + head * 128) + byte]
                  : 0;
          ASSERT_EQ(shared[phys], expected)
              << "row " << c.row << "+" << r << " limit " << c.limit;
        }
    }
  // Negative control: a limit beyond the data must not go unnoticed.
  auto beyond = ragged.coords(0, 0, 168, 180);
  EXPECT_FALSE(tmaLoad(ragged.map, beyond.data(), 2048, view(), space, issues));
  // Negative control: with the unclipped row the next document would be read.
  auto wrong = ragged.coords(0, 0, 5, 40);
  ASSERT_TRUE(tmaLoad(ragged.map, wrong.data(), 2048, view(), space, issues));
  EXPECT_NE(shared[2048 + 4 * 128 + (0 ^ 4) * 16], 0);
}

TEST_F(TensorMapCopy, DocumentClippedStore) {
  Ragged ragged(base, 64, 2, 2, TmaType::BF16, 32);
  std::string text;
  ASSERT_TRUE(ragged.map.validate(text)) << text;
  std::vector<uint8_t> before = space.bytes;
  for (unsigned i = 0; i < 4096; ++i)
    shared[i] = 0x5a;
  auto coords = ragged.coords(0, 1, 10, 23);
  ASSERT_TRUE(tmaStore(ragged.map, coords.data(), 0, view(), space, issues))
      << message();
  for (size_t i = 0; i < before.size(); ++i) {
    size_t row = i / 256, head = i % 256 / 128;
    bool inside = head == 1 && row >= 10 && row < 23;
    ASSERT_EQ(space.bytes[i], inside ? 0x5a : before[i]) << i;
  }
}

//===----------------------------------------------------------------------===//
// Reductions, gather, 4- and 6-bit types
//===----------------------------------------------------------------------===//

TEST_F(TensorMapCopy, ReduceAddF32KeepsSubnormals) {
  map.type = TmaType::F32;
  map.dims = {32, 4, 1, 1, 1};
  map.strides = {128};
  map.box = {32, 2, 1, 1, 1};
  auto setGlobal = [&](size_t i, uint32_t v) {
    std::memcpy(space.bytes.data() + 4 * i, &v, 4);
  };
  auto setShared = [&](size_t i, uint32_t v) {
    std::memcpy(shared.data() + 4 * i, &v, 4);
  };
  std::fill(space.bytes.begin(), space.bytes.end(), 0);
  std::fill(shared.begin(), shared.end(), 0);
  setGlobal(0, 5);
  setShared(0, 3);
  setGlobal(1, 0x00400000);
  setShared(1, 0x00400000);
  const int32_t coords[2] = {0, 0};
  ASSERT_TRUE(tmaReduce(map, coords, 0, TmaReduce::Add, view(), space, issues));
  uint32_t word;
  std::memcpy(&word, space.bytes.data(), 4);
  EXPECT_EQ(word, 8u);
  std::memcpy(&word, space.bytes.data() + 4, 4);
  EXPECT_EQ(word, 0x00800000u);
  EXPECT_FALSE(
      tmaReduce(map, coords, 0, TmaReduce::Min, view(), space, issues));
  EXPECT_NE(message().find(".min does not exist"), std::string::npos);
}

TEST_F(TensorMapCopy, Gather4) {
  map.box = {128, 1, 1, 1, 1};
  const int32_t coords[5] = {128, 3, 99, 100, 0};
  ASSERT_TRUE(tmaGather4(map, coords, 0, view(), space, issues)) << message();
  for (unsigned byte = 0; byte < 128; ++byte) {
    auto at = [&](unsigned row) {
      return shared[row * 128 + ((byte / 16) ^ row) * 16 + byte % 16];
    };
    EXPECT_EQ(at(0), space.bytes[3 * 256 + 128 + byte]);
    EXPECT_EQ(at(1), space.bytes[99 * 256 + 128 + byte]);
    EXPECT_EQ(at(2), 0);
    EXPECT_EQ(at(3), space.bytes[128 + byte]);
  }
  map.box[1] = 2;
  EXPECT_FALSE(tmaGather4(map, coords, 0, view(), space, issues));
}

TEST_F(TensorMapCopy, Scatter4) {
  map.box = {128, 1, 1, 1, 1};
  std::vector<uint8_t> before = space.bytes;
  for (unsigned i = 0; i < 512; ++i)
    shared[i] = uint8_t(0x80 + i / 128);
  const int32_t coords[5] = {0, 5, 2, 100, 7};
  ASSERT_TRUE(tmaScatter4(map, coords, 0, view(), space, issues)) << message();
  for (size_t i = 0; i < before.size(); ++i) {
    size_t row = i / 256;
    uint8_t expected = before[i];
    if (i % 256 < 128)
      expected = row == 5 ? 0x80 : row == 2 ? 0x81 : row == 7 ? 0x83 : expected;
    ASSERT_EQ(space.bytes[i], expected) << i;
  }
  const int32_t negative[5] = {0, 5, -2, 1, 7};
  EXPECT_FALSE(tmaScatter4(map, negative, 0, view(), space, issues));
}

TEST_F(TensorMapCopy, FourAndSixBitTypes) {
  map.type = TmaType::U4x16Align16B;
  map.dims = {256, 4, 1, 1, 1};
  map.box = {128, 4, 1, 1, 1};
  ASSERT_EQ(error(), "");
  // The padding is not counted.
  EXPECT_EQ(map.transactionBytes(), 256u);
  EXPECT_EQ(map.imageBytes(), 512u);
  const int32_t coords[2] = {128, 0};
  ASSERT_TRUE(tmaLoad(map, coords, 0, view(), space, issues)) << message();
  for (unsigned row = 0; row < 4; ++row)
    for (unsigned unit = 0; unit < 8; ++unit)
      for (unsigned byte = 0; byte < 16; ++byte)
        EXPECT_EQ(shared[row * 128 + (unit ^ row) * 16 + byte],
                  byte < 8 ? space.bytes[row * 256 + 64 + unit * 8 + byte]
                           : 0xff);
  const int32_t odd[2] = {64, 0};
  EXPECT_FALSE(tmaLoad(map, odd, 0, view(), space, issues));
  EXPECT_FALSE(tmaStore(map, coords, 0, view(), space, issues));

  map.type = TmaType::U6x16Align16B;
  EXPECT_EQ(map.transactionBytes(), 384u);
  ASSERT_TRUE(tmaLoad(map, coords, 0, view(), space, issues)) << message();
  EXPECT_EQ(shared[16 + 11], space.bytes[96 + 12 + 11]);
  EXPECT_EQ(shared[16 + 12], 0xff);

  map.type = TmaType::U4x16Align8B;
  map.box[0] = 256;
  ASSERT_EQ(error(), "");
  EXPECT_EQ(map.transactionBytes(), 512u);
  const int32_t start[2] = {0, 1};
  ASSERT_TRUE(tmaLoad(map, start, 0, view(), space, issues)) << message();
  EXPECT_EQ(shared[127], space.bytes[256 + 127]);
}

TEST_F(TensorMapCopy, NotModelledIsAnError) {
  const int32_t coords[3] = {0, 0, 0};
  map.swizzle = TmaSwizzle::B128Atom32BFlip8B;
  EXPECT_FALSE(tmaLoad(map, coords, 0, view(), space, issues));
  map.swizzle = TmaSwizzle::None;
  map.type = TmaType::TF32;
  map.box[0] = 32;
  EXPECT_FALSE(tmaLoad(map, coords, 0, view(), space, issues));
  map.type = TmaType::U8;
  map.rank = 3;
  map.interleave = TmaInterleave::B16;
  EXPECT_FALSE(tmaLoad(map, coords, 0, view(), space, issues));
  EXPECT_EQ(issues.size(), 3u);
}

} // namespace
