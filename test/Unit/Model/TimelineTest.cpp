//===- TimelineTest.cpp - Replays of small CTAs ---------------------------===//

#include "flamia/Model/Timeline.h"

#include "gtest/gtest.h"

using namespace flamia;
using namespace flamia::model;
using Event = sim::Profile::Event;

namespace {

/// Instruction 0 takes 100 cycles of a quarter's MUFU, 1 the same of its FMA
/// units, 2 takes 10 cycles of the SM's shared memory.
std::vector<UnitCycles> costs() {
  std::vector<UnitCycles> c(3);
  c[0][Unit::Mufu] = 25;
  c[1][Unit::Fma] = 25;
  c[2][Unit::Shared] = 10;
  return c;
}

Event run(uint32_t pc) { return {Event::Run, pc, pc + 1, 0}; }

/// A product of 128x128x16.
sim::Profile profileOfProduct() {
  sim::Profile profile;
  sim::Profile::MmaShape shape;
  shape.kind = "f16";
  shape.m = shape.n = 128;
  shape.k = 16;
  profile.shapes = {shape};
  return profile;
}

double cycles(std::vector<std::vector<Event>> warps) {
  sim::Profile profile = profileOfProduct();
  sim::Profile::Cta cta;
  cta.warps = std::move(warps);
  auto result = replay({&cta}, profile, costs(), Machine::b200());
  EXPECT_TRUE(bool(result));
  return result ? result->cycles : 0;
}

TEST(Timeline, QuartersShareTheirUnits) {
  EXPECT_NEAR(cycles({{run(0)}}), 100, 1e-6);
  // One warp a quarter: side by side.
  EXPECT_NEAR(cycles({{run(0)}, {run(0)}, {run(0)}, {run(0)}}), 100, 1e-6);
  // Warps 0 and 4 share a quarter, and its MUFU.
  EXPECT_NEAR(cycles({{run(0)}, {}, {}, {}, {run(0)}}), 200, 1e-6);
  // Different units do not disturb each other.
  EXPECT_NEAR(cycles({{run(0)}, {}, {}, {}, {run(1)}}), 100, 1e-6);
  // Shared memory is one for all quarters.
  EXPECT_NEAR(cycles({{run(2)}, {run(2)}}), 20, 1e-6);
}

TEST(Timeline, WaitsForOtherWarps) {
  Latencies lat;
  // A signal after 100 cycles, then 100 more.
  EXPECT_NEAR(cycles({{run(0), {Event::Arrive, 8, 0, 0}},
                      {{Event::Wait, 8, 0, 0}, run(0)}}),
              200 + lat.arrive + lat.wake, 1e-6);
  // Two arrivals make the phase: the later one counts.
  EXPECT_NEAR(cycles({{run(0), {Event::Arrive, 8, 0, 0}},
                      {{Event::Arrive, 8, 0, 0}},
                      {{Event::Wait, 8, 0, 0}, run(0)}}),
              200 + lat.arrive + lat.wake, 1e-6);
  // A ring of two slots overlaps what a ring of one does not.
  auto producer = [&](unsigned slots) {
    std::vector<Event> e;
    for (uint32_t k = 0; k < 8; ++k) {
      if (k >= slots)
        e.push_back({Event::Wait, 100 + k % slots, (k - slots) / slots, 0});
      e.push_back(run(0));
      e.push_back({Event::Arrive, 200 + k % slots, k / slots, 0});
    }
    return e;
  };
  auto consumer = [&](unsigned slots) {
    std::vector<Event> e;
    for (uint32_t k = 0; k < 8; ++k) {
      e.push_back({Event::Wait, 200 + k % slots, k / slots, 0});
      e.push_back(run(1));
      e.push_back({Event::Arrive, 100 + k % slots, k / slots, 0});
    }
    return e;
  };
  double handOver = lat.arrive + lat.wake;
  EXPECT_NEAR(cycles({producer(1), consumer(1)}),
              8 * (200 + handOver) + 7 * handOver, 1e-6);
  EXPECT_LT(cycles({producer(2), consumer(2)}), 8 * 200.0);
}

TEST(Timeline, TensorPipeIsInOrder) {
  Latencies lat;
  std::vector<Event> mma(4, {Event::Mma, 0, 0, 0});
  mma.push_back({Event::Commit, 8, 0, 0});
  // 4 x 64 cycles, then the commit; the issuing warp does not wait.
  EXPECT_NEAR(cycles({mma, {{Event::Wait, 8, 0, 0}, run(0)}}),
              256 + lat.commit + lat.wake + 100, 1e-6);
}

TEST(Timeline, NamesWaits) {
  sim::Profile profile = profileOfProduct();
  sim::Profile::Cta cta;
  cta.warps = {{{Event::Mma, 0, 0, 0}, {Event::Commit, 8, 0, 0}},
               {{Event::Wait, 8, 0, 0},
                run(0),
                {Event::Arrive, 16, 0, 0},
                {Event::TmemLoad, 0, 0, 512},
                {Event::TmemWait, 1, 0, 0}},
               {run(1), {Event::Wait, 16, 0, 0}}};
  auto result = replay({&cta}, profile, costs(), Machine::b200());
  ASSERT_TRUE(bool(result));
  Latencies lat;
  const auto &first = result->warps[1].waits, &second = result->warps[2].waits;
  // In front of any instruction: the product.
  ASSERT_EQ(first.count(~0u), 1u);
  EXPECT_EQ(first.at(~0u).barrier, 8u);
  EXPECT_EQ(first.at(~0u).signal, Event::Commit);
  EXPECT_EQ(first.at(~0u).signalWarp, 0u);
  EXPECT_NEAR(first.at(~0u).cycles, 64 + lat.commit + lat.wake, 1e-6);
  // Its own load, behind instruction 0.
  ASSERT_EQ(first.count(0), 1u);
  EXPECT_EQ(first.at(0).kind, Event::TmemWait);
  EXPECT_NEAR(first.at(0).cycles, 1 + lat.tmemLoad, 1e-6);
  // The arrival of warp 1, behind instruction 1.
  ASSERT_EQ(second.count(1), 1u);
  EXPECT_EQ(second.at(1).signal, Event::Arrive);
  EXPECT_EQ(second.at(1).signalWarp, 1u);
  EXPECT_NEAR(second.at(1).cycles,
              64 + lat.commit + lat.wake + lat.arrive + lat.wake, 1e-6);
}

TEST(Timeline, StuckIsAnError) {
  sim::Profile profile;
  sim::Profile::Cta cta;
  // The arrival comes after the wait that it would end.
  cta.warps = {{{Event::Wait, 8, 0, 0}, {Event::Arrive, 8, 0, 0}}};
  auto result = replay({&cta}, profile, costs(), Machine::b200());
  ASSERT_FALSE(bool(result));
  EXPECT_EQ(llvm::toString(result.takeError()),
            "the replay is stuck: warps wait for what nothing signals");
}

} // namespace
