//===- LayoutTest.cpp - Scale layouts and packed shapes -------------------===//
//
// Offsets of the 128x4 interleave, padding, and document offsets.
//
//===----------------------------------------------------------------------===//

#include "flamia/Numerics/Layout.h"
#include "flamia/Numerics/Quantize.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>

using namespace flamia::numerics;

namespace {

/// SFL-1: the interleave, and its inverse.
TEST(SFL, SFL1TileIsInterleaved) {
  EXPECT_EQ(off128x4(0, 0), 0);
  EXPECT_EQ(off128x4(0, 3), 3);
  EXPECT_EQ(off128x4(1, 0), 16);
  EXPECT_EQ(off128x4(31, 3), 499);
  EXPECT_EQ(off128x4(32, 0), 4);
  EXPECT_EQ(off128x4(33, 2), 22);
  EXPECT_EQ(off128x4(64, 1), 9);
  EXPECT_EQ(off128x4(96, 3), 15);
  EXPECT_EQ(off128x4(127, 3), 511);

  std::vector<uint8_t> tile(512), atom(512), back(512);
  for (int64_t r = 0; r < 128; ++r)
    for (int64_t c = 0; c < 4; ++c)
      tile[r * 4 + c] = uint8_t((4 * r + c) % 251);
  packScaleAtom(tile.data(), 128, 4, 4, 0xEE, atom.data());
  EXPECT_EQ(atom[4], tile[32 * 4]);
  EXPECT_EQ(atom[22], tile[33 * 4 + 2]);
  unpackScaleAtom(atom.data(), 128, 4, 4, back.data());
  EXPECT_EQ(tile, back);
}

/// SFL-2: what the padding holds does not matter, and a packed matrix has
/// whole atoms: 2880 x 90 scales become 2944 x 92.
TEST(SFL, SFL2PaddingIsNotRead) {
  EXPECT_EQ(scaleMatrixBytes(2880, 90), 2944 * 92);
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>{130, 96}, {2880, 2880}}) {
    std::vector<float> matrix(rows * columns);
    for (size_t i = 0; i < matrix.size(); ++i)
      matrix[i] = std::ldexp(float(i * 7919 % 257) - 128, int(i / 32 % 9));
    RowBlockMatrix packed = quantizeRows32(matrix.data(), rows, columns);
    std::vector<float> values = dequantizeRows32(packed, rows, columns);

    std::vector<uint8_t> bytes =
        unpackScaleMatrix(packed.scales, rows, columns / 32);
    RowBlockMatrix faulty = packed;
    faulty.scales = packScaleMatrix(bytes, rows, columns / 32, 255);
    EXPECT_EQ(std::count(faulty.scales.begin(), faulty.scales.end(), 255),
              scaleMatrixBytes(rows, columns / 32) - rows * columns / 32);
    EXPECT_EQ(dequantizeRows32(faulty, rows, columns), values);
    EXPECT_TRUE(std::all_of(values.begin(), values.end(),
                            [](float x) { return std::isfinite(x); }));
    // The quantizer itself pads with 127.
    EXPECT_EQ(packScaleMatrix(bytes, rows, columns / 32, 127), packed.scales);
  }
}

TEST(LayoutTest, MatrixOffsetsAreAtomsInRowMajorOrder) {
  // 5 scale columns take 2 atoms across.
  EXPECT_EQ(offScaleMatrix(0, 4, 5), 512);
  EXPECT_EQ(offScaleMatrix(128, 0, 5), 1024);
  EXPECT_EQ(offScaleMatrix(129, 4, 5), 1536 + 16);
}

TEST(LayoutTest, ScaleTilesRestartAtEveryDocument) {
  std::vector<int64_t> offsets = cuSeqlensOf({0, 1, 128, 129, 0, 300});
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 0, 1, 129, 258, 258, 558}));
  EXPECT_EQ(scaleTileBases(offsets),
            (std::vector<int64_t>{0, 0, 1, 2, 4, 4, 7}));
  EXPECT_EQ(scaleTileBases({0}), (std::vector<int64_t>{0}));
}

/// VAR-7, the part about offsets.
TEST(LayoutTest, VAR7MalformedOffsetsAreNamed) {
  auto check = [](std::vector<int64_t> offsets) {
    return checkShape(PackedShape{std::move(offsets), 1, 128});
  };
  EXPECT_EQ(check({1, 5, 10}),
            "expected cu_seqlens to start with 0, but found 1");
  EXPECT_EQ(check({0, 6, 4, 10}),
            "expected cu_seqlens never to decrease, but entry 2 is 4 after 6");
  EXPECT_EQ(check({}), "expected at least one entry in cu_seqlens, but found "
                       "none");
  EXPECT_EQ(check({0}), "");
  EXPECT_EQ(check({0, 0, 3}), "");
  EXPECT_EQ(checkShape(PackedShape{{0, 1}, 0, 128}),
            "expected a positive number of heads, but found 0");
  EXPECT_EQ(checkShape(PackedShape{{0, 1}, 1, 80}),
            "expected a head dimension of 32, 64 or 128, but found 80");
}

/// QNT-10: scales that are no powers of two are rounded up.
TEST(QNT, QNT10PackedScalesHaveNoMantissa) {
  const float scales[4] = {1.5f, 3.0f, 0.75f, 1.0f};
  EXPECT_EQ(packE8M0x4(scales), 0x7F7F8180u);
}

} // namespace
