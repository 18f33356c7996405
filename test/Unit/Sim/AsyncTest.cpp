//===- AsyncTest.cpp - Asynchronous operations under every schedule -------===//

#include "Snippet.h"

#include <array>

using namespace flamia::sim;

namespace {

/// Every mode that a test is run under.
std::vector<SimOptions> modes() {
  std::vector<SimOptions> list(2);
  list[1].async = AsyncMode::Late;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SimOptions random;
    random.async = AsyncMode::Random;
    random.seed = seed;
    list.push_back(random);
  }
  return list;
}

Snippet snippet(const SimOptions &options) {
  Snippet s;
  s.options = options;
  s.moduleText =
      ".shared .align 8 .b64 bar;\n.shared .align 128 .b8 buf[1024];\n"
      ".shared .b32 slot;\n";
  return s;
}

TEST(Async, BulkLoadAndStore) {
  for (const SimOptions &mode : modes()) {
    Outcome o = snippet(mode).run(
        "setp.eq.u32 %p1, tid, 0; st.global.b32 [at], tid;"
        "@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;"
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;"
        "@%p1 "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[buf], [out], 128, [bar];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;"
        "mov.b32 %r1, buf; shl.b32 %r2, tid, 2; add.u32 %r1, %r1, %r2;"
        "ld.shared.b32 %r3, [%r1]; mul.lo.u32 %r3, %r3, 3;"
        "st.shared.b32 [%r1], %r3; fence.proxy.async.shared::cta; bar.sync 0;"
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [out+256], [buf], "
        "128;"
        "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"
        "bar.sync 0; st.shared.b32 [%r1], 0; bar.sync 0;"
        "@%p1 cp.async.bulk.wait_group 0;");
    EXPECT_EQ(o.errors, "");
    for (unsigned t = 0; t < 32; ++t)
      EXPECT_EQ(o.word(64 + t), 3 * t);
  }
}

TEST(Async, LaneCopiesByGroup) {
  for (const SimOptions &mode : modes()) {
    Outcome o = snippet(mode).run(
        "st.global.b32 [at], tid; bar.sync 0; mov.b32 %r1, buf;"
        "shl.b32 %r2, tid, 2; add.u32 %r1, %r1, %r2;"
        "cp.async.ca.shared.global [%r1], [at], 4; cp.async.commit_group;"
        "cp.async.ca.shared.global [%r1+128], [at], 4, 0; "
        "cp.async.commit_group;"
        "cp.async.wait_group 1; ld.shared.b32 %r3, [%r1];"
        "cp.async.wait_all; ld.shared.b32 %r4, [%r1+128];"
        "st.global.b32 [at+128], %r3; st.global.b32 [at+256], %r4;");
    EXPECT_EQ(o.errors, "");
    EXPECT_EQ(o.word(32 + 7), 7u);
    EXPECT_EQ(o.word(64 + 7), 0u); // Zero fill.
  }
}

TEST(Async, LaneCopiesSignalAnMbarrier) {
  for (const SimOptions &mode : modes()) {
    Outcome o = snippet(mode).run(
        "setp.eq.u32 %p1, tid, 0; @%p1 mbarrier.init.shared.b64 [bar], 32;"
        "st.global.b32 [at], tid; bar.sync 0; mov.b32 %r1, buf;"
        "shl.b32 %r2, tid, 2; add.u32 %r1, %r1, %r2;"
        "cp.async.ca.shared.global [%r1], [at], 4;"
        "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;"
        "ld.shared.b32 %r3, [%r1]; st.global.b32 [at+128], %r3;");
    EXPECT_EQ(o.errors, "");
    EXPECT_EQ(o.word(32 + 31), 31u);
  }
}

TEST(Async, TensorMemoryRoundTrip) {
  for (const SimOptions &mode : modes()) {
    Outcome o = snippet(mode).run(
        "mov.b32 %r1, slot;"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; bar.sync 0;"
        "ld.shared.b32 %r2, [slot]; add.u32 %r3, tid, 100;"
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2], {tid, %r3};"
        "tcgen05.wait::st.sync.aligned;"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2+1];"
        "tcgen05.wait::ld.sync.aligned; st.global.b32 [at], %r4;"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;");
    EXPECT_EQ(o.errors, "");
    EXPECT_EQ(o.word(31), 131u);
  }
}

// As flamia.reduce max: NaN counts for nothing, -0 is below +0; and what .NaN
// and .abs make of that.
TEST(Async, TensorMemoryReduction) {
  struct Case {
    const char *op;
    std::array<uint32_t, 4> from;
    uint32_t expected;
  };
  constexpr uint32_t nan = 0x7FC00001, minusZero = 0x80000000,
                     minusTwo = 0xC0000000, one = 0x3F800000,
                     infinity = 0x7F800000, canonical = 0x7FFFFFFF;
  const Case cases[] = {
      {"max", {nan, minusZero, 0, minusTwo}, 0},
      {"max", {0, minusZero, nan, minusTwo}, 0},
      {"max", {minusZero, nan, minusZero, minusTwo}, minusZero},
      {"max", {minusTwo, one, infinity, nan}, infinity},
      {"max", {nan, nan | minusZero, nan, nan}, canonical},
      {"max.NaN", {one, nan, 0, minusTwo}, canonical},
      {"max.NaN", {minusZero, 0, minusTwo, minusZero}, 0},
      {"max.abs", {nan, minusTwo, one, minusZero}, 0x40000000},
      {"max.abs.NaN", {minusTwo, one, 0, nan}, canonical},
      {"min", {nan, 0, minusZero, one}, minusZero},
      {"min.abs", {one, minusZero, minusTwo, nan}, 0},
  };
  for (const SimOptions &mode : modes())
    for (const Case &c : cases) {
      Snippet s = snippet(mode);
      s.target = "sm_103a";
      std::string values;
      for (unsigned i = 0; i < 4; ++i)
        values += "mov.b32 %r" + std::to_string(4 + i) + ", " +
                  std::to_string(c.from[i]) + ";";
      Outcome o = s.run(
          "mov.b32 %r1, slot;"
          "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"
          "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
          "bar.sync 0; ld.shared.b32 %r2, [slot];" +
          values +
          "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r2], {%r4, %r5, %r6, %r7};"
          "tcgen05.wait::st.sync.aligned;"
          "tcgen05.ld.red.sync.aligned.32x32b.x4." +
          c.op +
          ".f32 {%r8, %r9, %r10, %r11}, %r12, [%r2];"
          "tcgen05.wait::ld.sync.aligned; st.global.b32 [at], %r12;"
          "st.global.b32 [at+128], %r11;"
          "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;");
      EXPECT_EQ(o.errors, "");
      EXPECT_EQ(o.word(31), c.expected) << c.op;
      EXPECT_EQ(o.word(32 + 31), c.from[3]) << c.op;
    }
}

TEST(Async, ALateModeSeesAMissingWait) {
  // The store's source is overwritten without cp.async.bulk.wait_group.read.
  std::string body =
      "setp.eq.u32 %p1, tid, 0; mov.b32 %r1, buf; shl.b32 %r2, tid, 2;"
      "add.u32 %r1, %r1, %r2; st.shared.b32 [%r1], 1;"
      "fence.proxy.async; bar.sync 0;"
      "@%p1 cp.async.bulk.global.shared::cta.bulk_group [out], [buf], 128;"
      "@%p1 cp.async.bulk.commit_group; bar.sync 0; st.shared.b32 [%r1], 2;"
      "bar.sync 0; @%p1 cp.async.bulk.wait_group 0;";
  SimOptions late;
  // Checked, it is an error under every schedule.
  EXPECT_CONTAINS(snippet({}).run(body).errors, "still reads it");
  SimOptions eager;
  eager.checks = late.checks = CheckSet::none();
  late.async = AsyncMode::Late;
  EXPECT_EQ(snippet(eager).run(body).word(0), 1u);
  EXPECT_EQ(snippet(late).run(body).word(0), 2u);
}

} // namespace
