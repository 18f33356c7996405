//===- CalibrationTest.cpp - The model against published kernels ----------===//
//
// The gate of facts/blackwell-throughput.md section 7: fitted on half of the
// points, the others are met within 15% on average, variants come in the right
// order, and the unit that is said to bind is the one that binds.
//
//===----------------------------------------------------------------------===//

#include "flamia/Model/Published.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace flamia::model;

namespace {

TEST(Calibration, HeldOutPointsAreMet) {
  std::vector<PublishedPoint> fitting = fittingHalf(), held = heldOutHalf();
  ASSERT_EQ(fitting.size() + held.size(), publishedPoints().size());
  ASSERT_GE(held.size(), 12u);
  Law law = fit(fitting);
  EXPECT_LE(meanError(law, held), 0.15);
  // The other way round, so that the split did not decide it.
  EXPECT_LE(meanError(fit(held), fitting), 0.15);
  EXPECT_LE(meanError(calibratedLaw(), publishedPoints()), 0.12);
}

TEST(Calibration, HeldOutGpuIsMet) {
  std::vector<PublishedPoint> first, second;
  for (const PublishedPoint &point : publishedPoints())
    (point.machine->arch == "sm_100a" ? first : second).push_back(point);
  EXPECT_LE(meanError(fit(first), second), 0.15);
  EXPECT_LE(meanError(fit(second), first), 0.15);
}

/// Pairs of points of one GPU, direction and head dim at rows of similar
/// length, the first measured faster by more than `gap`, in another order in
/// the model.
unsigned misordered(const Law &law, llvm::ArrayRef<PublishedPoint> points,
                    double gap, unsigned &pairs) {
  unsigned wrong = 0;
  for (const PublishedPoint &a : points)
    for (const PublishedPoint &b : points) {
      if (a.machine != b.machine || a.variant.backward != b.variant.backward ||
          a.variant.headDim != b.variant.headDim ||
          a.cycles * (1 + gap) > b.cycles ||
          std::abs(std::log2(a.tilesPerRow / b.tilesPerRow)) > 1.1)
        continue;
      ++pairs;
      if (law.predict(a) < law.predict(b))
        continue;
      ++wrong;
      ADD_FAILURE() << a.name << " is modelled slower than " << b.name;
    }
  return wrong;
}

TEST(Calibration, OrderOfVariants) {
  Law law = fit(fittingHalf());
  // Facts section 7: all that were measured 5% apart.
  unsigned pairs = 0;
  llvm::ArrayRef<PublishedPoint> points = publishedPoints();
  EXPECT_EQ(misordered(law, points.take_front(19), 0.05, pairs), 0u);
  EXPECT_GE(pairs, 12u);
  // With the points at 2K: the MXFP8 and BF16 backwards there are 5 and 7%
  // apart and come out the other way round, nothing else does.
  pairs = 0;
  EXPECT_EQ(misordered(law, points, 0.07, pairs), 0u);
  EXPECT_GE(pairs, 24u);
}

TEST(Calibration, NamedBottleneck) {
  for (const PublishedPoint &point : publishedPoints()) {
    UnitCycles units = tileCycles(point.variant, *point.machine);
    std::vector<Unit> binds = units.bottlenecks(0.95);
    EXPECT_TRUE(llvm::is_contained(point.bottleneck, units.bottleneck()))
        << point.name << ": " << nameOf(units.bottleneck()).str();
    for (Unit u : point.bottleneck)
      if (point.variant.emulated == 0 || u != Unit::Mufu ||
          point.bottleneck.size() == 1)
        EXPECT_TRUE(llvm::is_contained(binds, u))
            << point.name << ": " << nameOf(u).str();
  }
}

// The limits that issue 6 and facts section 5 name.
TEST(Formulas, Limits) {
  Variant v;
  v.operandBytes = v.valueBytes = 1;
  EXPECT_EQ(tileCycles(v, Machine::b200()).bound(), 1024);
  EXPECT_EQ(tileCycles(v, Machine::b200()).bottleneck(), Unit::Mufu);
  EXPECT_EQ(tileCycles(v, Machine::b300()).bound(), 512);
  v.emulated = 0.36;
  EXPECT_NEAR(tileCycles(v, Machine::b200()).bound(), 660, 1);
  v.operandBytes = 0.5;
  v.emulated = 0;
  EXPECT_EQ(tileCycles(v, Machine::b300())[Unit::Tensor], 384);
  Variant b;
  b.backward = true;
  EXPECT_EQ(tileCycles(b, Machine::b200())[Unit::Shared], 3328);
  b.twoCta = true;
  EXPECT_EQ(tileCycles(b, Machine::b200())[Unit::Shared], 2688);
  b.operandBytes = 1;
  b.encodings = 1;
  EXPECT_EQ(tileCycles(b, Machine::b200())[Unit::Shared], 1600);
  b.encodings = 2;
  EXPECT_EQ(tileCycles(b, Machine::b200())[Unit::Shared], 1824);
}

TEST(Machine, MmaCycles) {
  const Machine &b200 = Machine::b200(), &b300 = Machine::b300();
  EXPECT_EQ(mmaCycles(128, 128, false, 1, b200), 64);
  EXPECT_EQ(mmaCycles(128, 64, false, 1, b200), 48);
  EXPECT_EQ(mmaCycles(128, 64, true, 1, b200), 32);
  EXPECT_EQ(mmaCycles(128, 256, false, 1, b200), 128);
  EXPECT_EQ(mmaCycles(64, 128, true, 1, b200), 64);
  EXPECT_EQ(mmaCycles(128, 64, false, 1, b300), 44);
  EXPECT_NEAR(mmaCycles(256, 64, false, 2, b200), 43, 0.5);
  EXPECT_EQ(mmaCycles(256, 128, false, 2, b200), 64);
  EXPECT_EQ(mmaCycles(128, 128, false, 2, b200), 32);
}

// docs/model.md shows what the code computes.
TEST(Calibration, DocumentedTable) {
  auto text = llvm::MemoryBuffer::getFile(FLAMIA_SOURCE_DIR "/docs/model.md");
  ASSERT_TRUE(bool(text));
  std::string table = calibrationTable();
  EXPECT_NE((*text)->getBuffer().find(table), llvm::StringRef::npos)
      << "docs/model.md should hold:\n"
      << table;
}

} // namespace
