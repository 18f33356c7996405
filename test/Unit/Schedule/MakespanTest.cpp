//===- MakespanTest.cpp - Launches end evenly -----------------------------===//
//
// The model of launches, and with it the goals of issue 6: at most 1.03 times
// the lower bound where an SM has 4 items, never worse than document order.
// Negative controls: the two orders that the library does not use miss the
// goal, and longest first without a dealt second wave does where waves are few.
// All of it is modelled.
//
//===----------------------------------------------------------------------===//

#include "LaunchModel.h"
#include "Mixes.h"

#include "gtest/gtest.h"

#include <map>

using namespace flamia::schedule;
using namespace flamia::test;

namespace {

constexpr Kernel kernels[] = {Kernel::Forward, Kernel::QueryGradients,
                              Kernel::KeyGradients};
const char *nameOf(Kernel kernel) {
  return kernel == Kernel::Forward          ? "forward"
         : kernel == Kernel::QueryGradients ? "dQ"
                                            : "dK, dV";
}

/// All launches of the mixes with 4 items an SM or more.
template <typename Check>
void forEachLaunch(Check check) {
  std::vector<Mix> mixes = lengthMixes(131072);
  for (auto [query, kv] : {std::pair<int64_t, int64_t>{64, 8},
                           {64, 64},
                           {32, 8},
                           {16, 2},
                           {8, 8},
                           {7, 7},
                           {8, 1},
                           {2, 1},
                           {1, 1}})
    for (int64_t dim : {64, 128})
      for (const Mix &mix : mixes)
        for (Kernel kernel : kernels) {
          Heads heads = {query, kv, dim};
          for (int64_t sms : {148, 152}) {
            Launch launch =
                launchOf(kernel, heads, mix.offsets, Order::Library, sms);
            if (int64_t(launch.cycles.size()) < 4 * sms)
              continue;
            SCOPED_TRACE(mix.name + ", " + nameOf(kernel) + ", heads " +
                         std::to_string(query) + "/" + std::to_string(kv) +
                         ", head dim " + std::to_string(dim) + ", " +
                         std::to_string(sms) + " SMs");
            check(mix, kernel, heads, launch, sms);
          }
        }
}

} // namespace

TEST(Makespan, KnownLaunches) {
  EXPECT_EQ(makespan({}, 4), 0);
  EXPECT_EQ(makespan({}, 2), 0);
  EXPECT_EQ(lowerBounds({}, 4).most(), 0);
  EXPECT_EQ(makespan({5}, 4), 5);
  EXPECT_EQ(makespan({3, 3, 2, 2, 2}, 2), 7);
  EXPECT_EQ(makespan({2, 2, 2, 3, 3}, 2), 7);
  EXPECT_EQ(makespan({1, 1, 1, 1, 4}, 2), 6);
  EXPECT_EQ(makespan({5, 4, 3, 3}, 2), 8); // 5 + 3, 4 + 3
  EXPECT_EQ(makespan({3, 3, 4, 5}, 2), 8); // 3 + 4, 3 + 5
  EXPECT_EQ(makespan({10, 1, 1}, 2), 10);
  EXPECT_EQ(makespan({4, 1, 1, 1, 1}, 2), 4);
  EXPECT_EQ(lowerBounds({4, 1, 1, 1, 1}, 2).load, 4);
  EXPECT_EQ(lowerBounds({3, 3, 2, 2, 2}, 2).load, 6);
  // Some SM has two of the three longest; some SM has three of the five.
  EXPECT_EQ(lowerBounds({3, 2, 3}, 2).whole, 5);
  EXPECT_EQ(lowerBounds({3, 3, 2, 2, 2}, 2).whole, 6);
  EXPECT_EQ(lowerBounds({3, 3, 3}, 2).most(), 6);
  // Groups of heads, entries, heads.
  EXPECT_EQ(launchOrder({5, 1}, 4, 2),
            (std::vector<double>{5, 5, 1, 1, 5, 5, 1, 1}));
  EXPECT_EQ(launchOrder({5, 1}, 2, 2), (std::vector<double>{5, 1, 5, 1}));
}

TEST(Makespan, CostsOfKernels) {
  // Entry 2 of a document of 5 tiles: 3 key tiles for the forward; for dK and
  // dV the keys of tile 5 - 1 - 2, which 3 query tiles of each head read.
  WorkItem item = {0, 640, 2, 0};
  Heads heads = {8, 2, 128};
  CostLaw law = {10, 1};
  EXPECT_EQ(cyclesOf(Kernel::Forward, item, true, heads, law), 31);
  // dQ: a row of each of the 4 query heads, or of a part of them.
  EXPECT_EQ(cyclesOf(Kernel::QueryGradients, item, true, heads, law), 124);
  EXPECT_EQ(cyclesOf(Kernel::QueryGradients, item, true, heads, law, 2), 62);
  EXPECT_EQ(cyclesOf(Kernel::KeyGradients, item, true, heads, law), 121);
  EXPECT_EQ(cyclesOf(Kernel::Forward, item, false, heads, law), 51);
  EXPECT_EQ(gridHeads(Kernel::Forward, heads), 8);
  EXPECT_EQ(gridHeads(Kernel::QueryGradients, heads), 2);
  EXPECT_EQ(gridHeads(Kernel::KeyGradients, heads), 2);
}

TEST(Makespan, PartsOfHeads) {
  Kernel dq = Kernel::QueryGradients;
  // 8 items an SM are 1280.
  EXPECT_EQ(headParts(dq, {64, 8, 128}, 160), 1);
  EXPECT_EQ(headParts(dq, {64, 8, 128}, 159), 2);
  EXPECT_EQ(headParts(dq, {64, 8, 128}, 20), 8);
  EXPECT_EQ(headParts(dq, {64, 8, 128}, 1), 8);
  EXPECT_EQ(headParts(dq, {8, 1, 128}, 1280), 1);
  EXPECT_EQ(headParts(dq, {8, 1, 128}, 512), 4);
  EXPECT_EQ(headParts(dq, {6, 1, 128}, 400), 6);
  EXPECT_EQ(headParts(dq, {8, 8, 128}, 1), 1);
  for (Kernel kernel : {Kernel::Forward, Kernel::KeyGradients})
    EXPECT_EQ(headParts(kernel, {64, 8, 128}, 1), 1);
  EXPECT_EQ(launchOrder({5, 1}, 2, 1, 2),
            (std::vector<double>{5, 5, 1, 1, 5, 5, 1, 1}));
}

TEST(Makespan, GroupsOfHeads) {
  // What fits in the cache at once is one group: 16384 tokens of 8 kv heads
  // are 32 MiB.
  EXPECT_EQ(headGroups(Kernel::Forward, {64, 8, 128}, 16384, 128), 1);
  EXPECT_EQ(headGroups(Kernel::Forward, {64, 8, 128}, 32768, 256), 2);
  EXPECT_EQ(headGroups(Kernel::Forward, {64, 8, 64}, 32768, 256), 1);
  EXPECT_EQ(headGroups(Kernel::Forward, {64, 8, 128}, 1 << 20, 8192), 8);
  // 256 items of one kv head are too few for 160 SMs.
  EXPECT_EQ(headGroups(Kernel::KeyGradients, {64, 8, 128}, 1 << 20, 256), 1);
  EXPECT_EQ(headGroups(Kernel::KeyGradients, {64, 8, 128}, 1 << 20, 512), 2);
  EXPECT_EQ(headGroups(Kernel::Forward, {7, 7, 128}, 1 << 20, 8192), 7);
  EXPECT_EQ(headGroups(Kernel::Forward, {1, 1, 128}, INT32_MAX, 1 << 24), 1);
  EXPECT_EQ(headGroups(Kernel::Forward, {65535, 65535, 128}, 0, 0), 1);
  for (int64_t kv = 1; kv <= 48; ++kv)
    for (int64_t tokens = 1; tokens < 1 << 22; tokens *= 3)
      for (Kernel kernel : kernels)
        EXPECT_EQ(
            kv % headGroups(kernel, {4 * kv, kv, 128}, tokens, tokens / 100),
            0);
}

TEST(Makespan, LibraryMeetsTheGoal) {
  int launches = 0, beyondLoad = 0, missed = 0;
  double worst = 1;
  forEachLaunch([&](const Mix &mix, Kernel kernel, const Heads &heads,
                    const Launch &launch, int64_t sms) {
    Bounds bounds = lowerBounds(launch.cycles, sms);
    double ratio = makespan(launch.cycles, sms) / bounds.most();
    EXPECT_GE(ratio, 1 - 1e-9);
    // With one or two heads along the grid and short documents the last CTAs,
    // little more than a start and an end, are a large part of an SM's load.
    double last = *std::min_element(launch.cycles.begin(), launch.cycles.end());
    bool isCoarse = gridHeads(kernel, heads) <= 2 && last > 0.04 * bounds.load;
    EXPECT_LE(ratio, isCoarse ? 1.04 : 1.03);
    missed += ratio > 1.03;
    worst = std::max(worst, ratio);
    beyondLoad += bounds.most() > 1.03 * bounds.load;
    ++launches;
  });
  EXPECT_GT(launches, 500);
  EXPECT_LE(missed, 20);
  EXPECT_GT(worst, 1.0);
  // The mean load and the longest item can rarely be missed by 3% by any order.
  EXPECT_LT(beyondLoad, launches / 50) << launches;
}

TEST(Makespan, NeverWorseThanDocumentOrder) {
  // Both may end within a short item of the bound; then either may be first.
  int better = 0, launches = 0;
  forEachLaunch([&](const Mix &mix, Kernel kernel, const Heads &heads,
                    const Launch &launch, int64_t sms) {
    Launch other = launchOf(kernel, heads, mix.offsets, Order::Documents, sms);
    double mine = makespan(launch.cycles, sms);
    double theirs = makespan(other.cycles, sms);
    EXPECT_LE(mine, 1.002 * theirs);
    better += mine < theirs;
    ++launches;
  });
  EXPECT_GT(better, launches * 8 / 10) << launches;
}

TEST(Makespan, NegativeControls) {
  std::map<Order, double> worst;
  std::vector<Mix> mixes = lengthMixes(131072);
  for (Order order : {Order::Documents, Order::ForwardsOwn})
    for (const Mix &mix : mixes)
      for (Kernel kernel : kernels) {
        Launch launch = launchOf(kernel, {8, 8, 128}, mix.offsets, order, 148);
        worst[order] =
            std::max(worst[order], makespan(launch.cycles, 148) /
                                       lowerBounds(launch.cycles, 148).most());
      }
  EXPECT_GT(worst[Order::Documents], 1.03);
  EXPECT_GT(worst[Order::ForwardsOwn], 1.03);
}

TEST(Makespan, WithoutCausality) {
  // Items of a document cost the same, so documents are sorted by length.
  for (const Mix &mix : lengthMixes(131072))
    for (Kernel kernel : kernels) {
      Launch launch = launchOf(kernel, {64, 8, 128}, mix.offsets,
                               Order::Library, 148, /*causal=*/false);
      EXPECT_LE(makespan(launch.cycles, 148),
                1.03 * lowerBounds(launch.cycles, 148).most())
          << mix.name << ", " << nameOf(kernel);
    }
}

TEST(Makespan, DealtSecondWave) {
  // Longest first misses the goal where one head's long items are 3 to 6 waves
  // and an odd number of them is nearly whole.
  double worst = 1, worstLongest = 1;
  for (int64_t tiles : {450, 512, 600, 700, 768, 850})
    for (int64_t sms : {148, 152})
      for (bool withShort : {false, true})
        for (Kernel kernel : kernels) {
          Mix mix;
          mix.add(tiles * 128);
          for (int d = 0; withShort && d < 1000; ++d)
            mix.add(64);
          auto ratioOf = [&](Order order) {
            Launch launch =
                launchOf(kernel, {8, 1, 128}, mix.offsets, order, sms);
            return makespan(launch.cycles, sms) /
                   lowerBounds(launch.cycles, sms).most();
          };
          double mine = ratioOf(Order::Library);
          EXPECT_LE(mine, 1.03) << tiles << " tiles, " << sms << " SMs, "
                                << nameOf(kernel) << ", " << withShort;
          worst = std::max(worst, mine);
          worstLongest = std::max(worstLongest, ratioOf(Order::Longest));
        }
  EXPECT_GT(worstLongest, 1.08);
  EXPECT_LT(worst - 1, (worstLongest - 1) / 3);
}

TEST(Makespan, OtherLaws) {
  // The laws are fitted: 30% more or less for a row's start and end must not
  // make the dealt wave worse than longest first or document order.
  int dealt = 0, better = 0;
  for (int64_t tokens : {98304, 131072, 163840, 262144})
    for (const Mix &mix : lengthMixes(tokens))
      for (Heads heads : {Heads{8, 1, 128}, {1, 1, 128}, {16, 2, 128}})
        for (int64_t sms : {148, 152}) {
          LaunchSize size = {sms, heads.kv};
          WorkList longest = buildWorkList(mix.offsets, true);
          if (dealSecondWave(longest.items, size).block < 2 ||
              int64_t(longest.items.size()) < size.wave(4))
            continue;
          for (Kernel kernel : kernels)
            for (double factor : {0.7, 1.0, 1.3}) {
              CostLaw law = lawOf(kernel);
              law.perItem *= factor;
              auto cyclesOf = [&](Order order) {
                return launchOf(kernel, heads, mix.offsets, order, sms, true,
                                law)
                    .cycles;
              };
              auto timeOf = [&](Order order) {
                return makespan(cyclesOf(order), sms);
              };
              double mine = timeOf(Order::Library);
              double longestFirst = timeOf(Order::Longest);
              double other = std::min(longestFirst, timeOf(Order::Documents));
              // Near-ties, both within a short item of the bound, apart.
              if (mine >
                  1.012 * lowerBounds(cyclesOf(Order::Library), sms).most())
                EXPECT_LE(mine, 1.002 * other)
                    << mix.name << ", " << tokens << " tokens, "
                    << nameOf(kernel) << ", start and end times " << factor;
              better += mine < 0.998 * longestFirst;
              ++dealt;
            }
        }
  EXPECT_GT(dealt, 100);
  EXPECT_GT(better, dealt / 4) << dealt;
}
