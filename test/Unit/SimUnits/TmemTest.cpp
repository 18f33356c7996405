//===- TmemTest.cpp - Allocation, ld/st maps, cp, shift -------------------===//

#include "flamia/Sim/Units/Tmem.h"
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace flamia::sim;

namespace {

/// Registers of one warp.
struct Registers {
  explicit Registers(unsigned count) : storage(count * 32) {
    for (unsigned i = 0; i < count; ++i)
      pointers.push_back(storage.data() + i * 32);
  }
  uint32_t &at(unsigned i, unsigned t) { return storage[i * 32 + t]; }
  std::vector<uint32_t> storage;
  std::vector<uint32_t *> pointers;
};

struct TmemFixture : testing::Test {
  void allocateAll() {
    uint32_t address;
    ASSERT_EQ(tmem.allocate(512, address, issues), TmemAllocResult::Done);
    ASSERT_EQ(address, 0u);
  }
  void fillAll() {
    for (unsigned lane = 0; lane < 128; ++lane)
      for (unsigned c = 0; c < 512; ++c)
        tmem.write(lane, c, (lane << 16) | c);
  }
  std::string message() const {
    return issues.empty() ? "" : issues.back().message;
  }
  Tmem tmem;
  IssueList issues;
};
using TmemAllocation = TmemFixture;
using TmemLoadStore = TmemFixture;
using TmemCopy = TmemFixture;

TEST_F(TmemAllocation, FirstFitAndReuse) {
  uint32_t a, b, c, d;
  ASSERT_EQ(tmem.allocate(256, a, issues), TmemAllocResult::Done);
  ASSERT_EQ(tmem.allocate(128, b, issues), TmemAllocResult::Done);
  ASSERT_EQ(tmem.allocate(128, c, issues), TmemAllocResult::Done);
  EXPECT_EQ(a, 0u);
  EXPECT_EQ(b, 256u);
  EXPECT_EQ(c, 384u);
  EXPECT_EQ(tmem.allocate(32, d, issues), TmemAllocResult::Wait);
  tmem.write(5, 260, 1);
  ASSERT_TRUE(tmem.deallocate(b, 128, issues));
  EXPECT_EQ(tmem.allocatedColumns(), 384u);
  EXPECT_FALSE(tmem.isAllocated(256));
  ASSERT_EQ(tmem.allocate(32, d, issues), TmemAllocResult::Done);
  EXPECT_EQ(d, 256u);
  // What an earlier owner wrote is not initialised for the next.
  EXPECT_FALSE(tmem.isInitialised(5, 260));
  EXPECT_TRUE(issues.empty());
}

TEST_F(TmemAllocation, Rejections) {
  uint32_t a;
  for (unsigned size : {0u, 16u, 48u, 1024u}) {
    EXPECT_EQ(tmem.allocate(size, a, issues), TmemAllocResult::Error);
    EXPECT_NE(message().find("but got " + std::to_string(size)),
              std::string::npos);
  }
  ASSERT_EQ(tmem.allocate(64, a, issues), TmemAllocResult::Done);
  EXPECT_EQ(tmem.allocate(128, a, issues), TmemAllocResult::Error);
  EXPECT_NE(message().find("must not grow"), std::string::npos);
  EXPECT_FALSE(tmem.deallocate(32, 32, issues));
  EXPECT_FALSE(tmem.deallocate(0, 32, issues));
  EXPECT_NE(message().find("does not match an allocation"), std::string::npos);
  EXPECT_TRUE(tmem.deallocate(0, 64, issues));
  EXPECT_FALSE(tmem.deallocate(0, 64, issues));
  tmem.relinquish();
  EXPECT_EQ(tmem.allocate(32, a, issues), TmemAllocResult::Error);
  EXPECT_NE(message().find("relinquish"), std::string::npos);
}

struct ShapeCase {
  TmemShape shape;
  unsigned lanes, columnsPerNum, registersPerNum;
};
const ShapeCase shapes[] = {
    {TmemShape::S32x32b, 32, 1, 1},   {TmemShape::S16x64b, 16, 2, 1},
    {TmemShape::S16x128b, 16, 4, 2},  {TmemShape::S16x256b, 16, 8, 4},
    {TmemShape::S16x32bx2, 16, 1, 1},
};

// Each access covers its rectangle exactly once, and st is the inverse of ld.
TEST_F(TmemLoadStore, EveryShapeIsABijection) {
  allocateAll();
  for (const ShapeCase &shape : shapes)
    for (unsigned num = 1; num <= 128; num *= 2)
      for (bool pack : {false, true}) {
        TmemAccess access;
        access.shape = shape.shape;
        access.num = num;
        access.pack16 = pack;
        unsigned expected = shape.registersPerNum * num;
        if (expected > 128) {
          EXPECT_EQ(access.registers(), 0u);
          continue;
        }
        ASSERT_EQ(access.registers(), expected);
        bool halves = shape.shape == TmemShape::S16x32bx2;
        unsigned columns = shape.columnsPerNum * num * (pack ? 2 : 1);
        access.secondHalf = halves ? 256 : 0;
        for (unsigned warp = 0; warp < 4; ++warp) {
          unsigned lane = 32 * warp + (shape.lanes == 16 ? 16 : 0);
          unsigned column = columns <= 128 ? 3 : 0;
          access.address = tmemAddress(lane, column);
          fillAll();
          Registers regs(expected);
          ASSERT_TRUE(tmem.load(access, warp, regs.pointers.data(), issues))
              << message();
          std::map<uint32_t, unsigned> seen;
          for (uint32_t word : regs.storage) {
            if (!pack) {
              ++seen[word];
              continue;
            }
            // Two columns' numbers of one lane; lanes are known by position.
            EXPECT_EQ((word & 0xffff) + 1, word >> 16);
            ++seen[word];
          }
          unsigned copies = pack ? shape.lanes : 1;
          unsigned total = 0;
          for (const auto &entry : seen) {
            EXPECT_EQ(entry.second, copies);
            uint32_t c = entry.first & 0xffff;
            bool inFirst = c >= column && c < column + columns;
            bool inSecond =
                halves && c >= column + 256 && c < column + 256 + columns;
            EXPECT_TRUE(inFirst || inSecond) << c;
            if (!pack) {
              EXPECT_GE(entry.first >> 16, lane);
              EXPECT_LT(entry.first >> 16, lane + shape.lanes);
            }
            total += entry.second;
          }
          EXPECT_EQ(total, expected * 32);

          // st of what ld gave must restore the cells it covers.
          for (unsigned c = 0; c < 512; ++c)
            for (unsigned l = lane; l < lane + shape.lanes; ++l)
              tmem.write(l, c, 0xdead0000);
          ASSERT_TRUE(tmem.store(access, warp, regs.pointers.data(), issues));
          for (unsigned half = 0; half < (halves ? 2u : 1u); ++half)
            for (unsigned c = 0; c < columns; ++c)
              for (unsigned l = 0; l < shape.lanes; ++l) {
                unsigned cell = column + 256 * half + c;
                uint32_t value = ((lane + l) << 16) | cell;
                ASSERT_EQ(tmem.read(lane + l, cell),
                          pack ? value & 0xffff : value);
              }
          if (!halves && column + columns < 512)
            EXPECT_EQ(tmem.read(lane, column + columns), 0xdead0000u);
        }
      }
  EXPECT_TRUE(issues.empty()) << message();
}

// Positions inside the rectangle, by the fragments people know.
TEST_F(TmemLoadStore, Fragments) {
  allocateAll();
  fillAll();
  auto load = [&](TmemShape shape, unsigned num, uint32_t secondHalf = 0) {
    TmemAccess access;
    access.shape = shape;
    access.num = num;
    access.secondHalf = secondHalf;
    Registers regs(access.registers());
    EXPECT_TRUE(tmem.load(access, 0, regs.pointers.data(), issues));
    return regs;
  };
  auto cell = [](unsigned lane, unsigned column) {
    return (lane << 16) | column;
  };
  // 16x256b is the m16n8 accumulator: rows t/4 and t/4+8, columns 2(t%4)+0,1.
  Registers wide = load(TmemShape::S16x256b, 2);
  for (unsigned t = 0; t < 32; ++t)
    for (unsigned block = 0; block < 2; ++block) {
      unsigned c = 8 * block + 2 * (t % 4);
      EXPECT_EQ(wide.at(4 * block + 0, t), cell(t / 4, c));
      EXPECT_EQ(wide.at(4 * block + 1, t), cell(t / 4, c + 1));
      EXPECT_EQ(wide.at(4 * block + 2, t), cell(t / 4 + 8, c));
      EXPECT_EQ(wide.at(4 * block + 3, t), cell(t / 4 + 8, c + 1));
    }
  Registers medium = load(TmemShape::S16x128b, 2);
  EXPECT_EQ(medium.at(0, 5), cell(1, 1));
  EXPECT_EQ(medium.at(1, 5), cell(9, 1));
  EXPECT_EQ(medium.at(2, 5), cell(1, 5));
  // 16x64b: thread bit 0 picks the upper lanes, bit 1 the column.
  Registers narrow = load(TmemShape::S16x64b, 2);
  EXPECT_EQ(narrow.at(0, 4), cell(1, 0));
  EXPECT_EQ(narrow.at(0, 5), cell(9, 0));
  EXPECT_EQ(narrow.at(0, 6), cell(1, 1));
  EXPECT_EQ(narrow.at(0, 7), cell(9, 1));
  EXPECT_EQ(narrow.at(1, 7), cell(9, 3));
  Registers split = load(TmemShape::S16x32bx2, 4, 64);
  EXPECT_EQ(split.at(3, 15), cell(15, 3));
  EXPECT_EQ(split.at(3, 16), cell(0, 67));
  Registers rows = load(TmemShape::S32x32b, 4);
  EXPECT_EQ(rows.at(2, 31), cell(31, 2));
}

TEST_F(TmemLoadStore, Checks) {
  uint32_t address;
  ASSERT_EQ(tmem.allocate(64, address, issues), TmemAllocResult::Done);
  TmemAccess access;
  access.num = 4;
  Registers regs(4);
  auto refused = [&](IssueKind kind, unsigned warp, const char *text) {
    issues.clear();
    EXPECT_FALSE(tmem.load(access, warp, regs.pointers.data(), issues));
    ASSERT_EQ(issues.size(), 1u);
    EXPECT_EQ(issues[0].kind, kind);
    EXPECT_NE(message().find(text), std::string::npos) << message();
    issues.clear();
    EXPECT_FALSE(tmem.store(access, warp, regs.pointers.data(), issues));
  };
  refused(IssueKind::LaneAccess, 1, "lanes 32 to 63, but the address");
  access.address = tmemAddress(16, 0);
  refused(IssueKind::LaneAccess, 0, "begins at lane 16");
  access.address = tmemAddress(0, 62);
  refused(IssueKind::Unallocated, 0, "column 64 is not allocated");
  access.address = tmemAddress(0, 510);
  refused(IssueKind::OutOfBounds, 0, "columns 510 to 513");
  access.address = 0;
  access.num = 3;
  refused(IssueKind::IllegalInstruction, 0, ".x3");
  access.num = 4;
  access.shape = TmemShape::S16x32bx2;
  access.secondHalf = 62;
  refused(IssueKind::Unallocated, 0, "column 64");

  // Uninitialised cells: reported once, or as masks on request.
  access = TmemAccess();
  access.num = 4;
  issues.clear();
  ASSERT_TRUE(tmem.load(access, 0, regs.pointers.data(), issues));
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_EQ(issues[0].kind, IssueKind::Uninitialised);
  for (unsigned t = 0; t < 32; ++t)
    if (t != 9)
      tmem.write(t, 1, 0);
  issues.clear();
  uint32_t valid[4];
  ASSERT_TRUE(tmem.load(access, 0, regs.pointers.data(), issues, valid));
  EXPECT_TRUE(issues.empty());
  EXPECT_EQ(valid[0], 0u);
  EXPECT_EQ(valid[1], ~(1u << 9));
  access.shape = TmemShape::S16x64b;
  access.num = 1;
  ASSERT_TRUE(tmem.load(access, 0, regs.pointers.data(), issues, valid));
  // Column 1 is in the threads with bit 1 set; lane 9 is thread 4*1 + 2 + 1.
  EXPECT_EQ(valid[0], 0xccccccccu & ~(1u << 7));
}

TEST_F(TmemLoadStore, Footprint) {
  TmemAccess access;
  access.shape = TmemShape::S16x32bx2;
  access.num = 8;
  access.pack16 = true;
  access.secondHalf = 32;
  access.address = tmemAddress(80, 4);
  std::vector<TmemRange> ranges;
  ASSERT_TRUE(Tmem::footprint(access, 2, ranges, issues)) << message();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].lane, 80);
  EXPECT_EQ(ranges[0].lanes, 16);
  EXPECT_EQ(ranges[0].columns, 16);
  EXPECT_EQ(ranges[1].column, 36);
  EXPECT_FALSE(Tmem::footprint(access, 1, ranges, issues));
}

//===----------------------------------------------------------------------===//
// cp and shift
//===----------------------------------------------------------------------===//

constexpr uint64_t version = uint64_t(1) << 46;

/// No swizzle: 8-row groups `sbo` apart, 16-byte K chunks `lbo` apart.
uint64_t descriptor(uint32_t start, uint32_t lbo, uint32_t sbo) {
  return version | (uint64_t(sbo / 16) << 32) | (uint64_t(lbo / 16) << 16) |
         (start / 16);
}

// SFL-1: the 128x4 interleave and where the scales arrive.
TEST_F(TmemCopy, SFL1ScaleAtom) {
  allocateAll();
  std::vector<uint8_t> shared(2048, 0xee);
  auto offset = [](unsigned r, unsigned j) {
    return (r % 32) * 16 + (r / 32) * 4 + j;
  };
  EXPECT_EQ(offset(33, 2), 22u);
  EXPECT_EQ(offset(127, 3), 511u);
  for (unsigned r = 0; r < 128; ++r)
    for (unsigned j = 0; j < 4; ++j)
      shared[1024 + offset(r, j)] = uint8_t((4 * r + j) % 251);
  CpPlan plan;
  ASSERT_TRUE(planCp(CpShape::S32x128b_warpx4, CpFormat::None, 128,
                     0x0000400800010000 | (1024 / 16), plan, issues))
      << message();
  ASSERT_EQ(plan.footprint.smemRead.size(), 1u);
  EXPECT_EQ(plan.footprint.smemRead[0].begin, 1024u);
  EXPECT_EQ(plan.footprint.smemRead[0].size, 512u);
  ASSERT_TRUE(runCp(plan, tmem, {shared.data(), 0, 2048}, issues));
  // Section 5.1: row r, block j in lane r%32 + 32p, column r/32, byte j.
  for (unsigned r = 0; r < 128; ++r)
    for (unsigned j = 0; j < 4; ++j)
      for (unsigned p = 0; p < 4; ++p)
        EXPECT_EQ((tmem.read(r % 32 + 32 * p, 128 + r / 32) >> (8 * j)) & 0xff,
                  (4 * r + j) % 251);
}

TEST_F(TmemCopy, EveryShape) {
  allocateAll();
  std::vector<uint8_t> shared(8192);
  for (unsigned i = 0; i < shared.size(); i += 4) {
    uint32_t word = i;
    std::memcpy(shared.data() + i, &word, 4);
  }
  struct {
    CpShape shape;
    unsigned rows, bytes;
    std::vector<unsigned> (*lanes)(unsigned row);
  } cases[] = {
      {CpShape::S128x256b, 128, 32,
       [](unsigned r) { return std::vector<unsigned>{r}; }},
      {CpShape::S128x128b, 128, 16,
       [](unsigned r) { return std::vector<unsigned>{r}; }},
      {CpShape::S64x128b_02_13, 64, 16,
       [](unsigned r) { return std::vector<unsigned>{r, r + 64}; }},
      {CpShape::S64x128b_01_23, 64, 16,
       [](unsigned r) {
         return r < 32 ? std::vector<unsigned>{r, r + 32}
                       : std::vector<unsigned>{r + 32, r + 64};
       }},
      {CpShape::S4x256b, 4, 32,
       [](unsigned r) { return std::vector<unsigned>{31 + 32 * r}; }},
  };
  for (const auto &c : cases) {
    for (unsigned lane = 0; lane < 128; ++lane)
      for (unsigned column = 0; column < 16; ++column)
        tmem.write(lane, column, 0xffffffff);
    CpPlan plan;
    uint32_t address = tmemAddress(c.shape == CpShape::S4x256b ? 31 : 0, 4);
    ASSERT_TRUE(planCp(c.shape, CpFormat::None, address,
                       descriptor(256, 128, 256), plan, issues))
        << message();
    ASSERT_TRUE(runCp(plan, tmem, {shared.data(), 0, 8192}, issues))
        << message();
    std::set<unsigned> written;
    for (unsigned row = 0; row < c.rows; ++row)
      for (unsigned lane : c.lanes(row)) {
        written.insert(lane);
        for (unsigned cell = 0; cell < c.bytes / 4; ++cell)
          ASSERT_EQ(tmem.read(lane, 4 + cell),
                    256 + row / 8 * 256 + row % 8 * 16 + cell / 4 * 128 +
                        cell % 4 * 4);
      }
    for (unsigned lane = 0; lane < 128; ++lane)
      if (!written.count(lane))
        EXPECT_EQ(tmem.read(lane, 4), 0xffffffffu);
    EXPECT_EQ(tmem.read(31, 4 + c.bytes / 4), 0xffffffffu);
  }
}

TEST_F(TmemCopy, Decompression) {
  allocateAll();
  std::vector<uint8_t> shared(4096, 0xff); // padding must not come through
  // Row 0: 4-bit elements 0..15, 6-bit elements 3*i.
  for (unsigned i = 0; i < 8; ++i)
    shared[i] = uint8_t(2 * i | ((2 * i + 1) << 4));
  for (unsigned i = 0; i < 12; ++i)
    shared[2048 + i] = 0;
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned bit = 0; bit < 6; ++bit)
      shared[2048 + (6 * i + bit) / 8] |=
          uint8_t((((3 * i) >> bit) & 1) << ((6 * i + bit) % 8));
  CpPlan plan;
  ASSERT_TRUE(planCp(CpShape::S32x128b_warpx4, CpFormat::B4x16P64, 0,
                     descriptor(0, 16, 128), plan, issues));
  ASSERT_EQ(plan.footprint.smemRead.size(), 32u);
  EXPECT_EQ(plan.footprint.smemRead[1].size, 8u);
  ASSERT_TRUE(runCp(plan, tmem, {shared.data(), 0, 4096}, issues));
  ASSERT_TRUE(planCp(CpShape::S32x128b_warpx4, CpFormat::B6x16P32, 4,
                     descriptor(2048, 16, 128), plan, issues));
  ASSERT_TRUE(runCp(plan, tmem, {shared.data(), 0, 4096}, issues));
  for (unsigned i = 0; i < 16; ++i) {
    EXPECT_EQ((tmem.read(64, i / 4) >> (8 * (i % 4))) & 0xff, i << 2);
    EXPECT_EQ((tmem.read(32, 4 + i / 4) >> (8 * (i % 4))) & 0xff, (3 * i) << 1);
  }
}

TEST_F(TmemCopy, Checks) {
  uint32_t address;
  ASSERT_EQ(tmem.allocate(32, address, issues), TmemAllocResult::Done);
  CpPlan plan;
  std::vector<uint8_t> shared(512);
  EXPECT_FALSE(planCp(CpShape::S128x128b, CpFormat::None, tmemAddress(1, 0),
                      descriptor(0, 16, 128), plan, issues));
  EXPECT_NE(message().find("lane below 1"), std::string::npos);
  EXPECT_FALSE(planCp(CpShape::S128x128b, CpFormat::None, 510,
                      descriptor(0, 16, 128), plan, issues));
  EXPECT_FALSE(planCp(CpShape::S128x128b, CpFormat::None, 0, 0, plan, issues));
  EXPECT_NE(message().find("bits 46-48"), std::string::npos);
  ASSERT_TRUE(planCp(CpShape::S32x128b_warpx4, CpFormat::None, 30,
                     descriptor(0, 16, 128), plan, issues));
  EXPECT_FALSE(runCp(plan, tmem, {shared.data(), 0, 512}, issues));
  EXPECT_NE(message().find("column 32 is not allocated"), std::string::npos);
  ASSERT_TRUE(planCp(CpShape::S32x128b_warpx4, CpFormat::None, 0,
                     descriptor(16, 16, 128), plan, issues));
  EXPECT_FALSE(runCp(plan, tmem, {shared.data(), 0, 512}, issues));
  EXPECT_EQ(issues.back().kind, IssueKind::OutOfBounds);
}

TEST_F(TmemCopy, ShiftMovesCellsAndTheirInitialisation) {
  allocateAll();
  for (unsigned lane = 0; lane < 128; ++lane)
    for (unsigned c = 0; c < 10; ++c)
      if (lane != 40)
        tmem.write(lane, c, lane * 100 + c);
  ASSERT_TRUE(shiftDown(tmemAddress(32, 1), tmem, issues));
  EXPECT_EQ(tmem.read(32, 1), 3301u);
  EXPECT_EQ(tmem.read(62, 8), 6308u);
  EXPECT_EQ(tmem.read(63, 8), 6308u);
  EXPECT_EQ(tmem.read(32, 0), 3200u);
  EXPECT_EQ(tmem.read(32, 9), 3209u);
  EXPECT_EQ(tmem.read(31, 1), 3101u);
  EXPECT_EQ(tmem.read(64, 1), 6401u);
  EXPECT_FALSE(tmem.isInitialised(39, 4));
  EXPECT_TRUE(tmem.isInitialised(40, 4));
  EXPECT_TRUE(tmem.isInitialised(63, 4));
  EXPECT_FALSE(shiftDown(tmemAddress(16, 0), tmem, issues));
}

} // namespace
