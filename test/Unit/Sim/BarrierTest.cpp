//===- BarrierTest.cpp - CTA barriers and mbarriers -----------------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

Snippet withBarrier(uint32_t threads = 32) {
  Snippet s;
  s.threads = threads;
  s.moduleText =
      ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 buf[8192];\n"
      ".shared .b32 word;\n";
  return s;
}

/// Initialises `bar` in thread 0 and lets everyone see it.
std::string init(unsigned count) {
  return "setp.eq.u32 %p1, tid, 0; @%p1 mbarrier.init.shared::cta.b64 [bar], " +
         std::to_string(count) + "; bar.sync 0;\n";
}

TEST(Mbarrier, TryWaitReturnsFalseWhenNothingElseCanRun) { // SIM-1
  Outcome o = withBarrier(1).run(
      init(1) + "mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;"
                "selp.u32 %r0, 1, 0, %p2; st.global.b32 [out], %r0;"
                "mbarrier.arrive.shared.b64 _, [bar];"
                "mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;"
                "selp.u32 %r0, 1, 0, %p2; st.global.b32 [out+4], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 0u);
  EXPECT_EQ(o.word(1), 1u);
}

TEST(Mbarrier, FreshBarrierCompletesParityOne) {
  Outcome o = withBarrier(1).run(
      init(1) + "mbarrier.test_wait.parity.shared.b64 %p2, [bar], 1;"
                "mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;"
                "selp.u32 %r0, 2, 0, %p2; selp.u32 %r1, 1, 0, %p3;"
                "or.b32 %r0, %r0, %r1; st.global.b32 [out], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 2u);
}

TEST(Mbarrier, PhasesAlternate) { // SYN-3: parities 0,1,0,1,0,1
  Outcome o = withBarrier(1).run(
      init(1) +
      "mov.b32 %r1, 0; mov.b32 %r0, 0;"
      "L: mbarrier.arrive.shared.b64 %d1, [bar]; and.b32 %r2, %r1, 1;"
      "mbarrier.test_wait.parity.shared.b64 %p2, [bar], %r2;"
      "mbarrier.test_wait.shared.b64 %p3, [bar], %d1;"
      "xor.b32 %r3, %r2, 1; mbarrier.test_wait.parity.shared.b64 %p4, [bar], "
      "%r3;"
      "and.pred %p2, %p2, %p3; not.pred %p4, %p4; and.pred %p2, %p2, %p4;"
      "@%p2 add.u32 %r0, %r0, 1; add.u32 %r1, %r1, 1; setp.lt.u32 %p5, %r1, 6;"
      "@%p5 bra L; st.global.b32 [out], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 6u);
}

TEST(Mbarrier, TransactionsHoldAPhaseOpen) {
  Outcome o = withBarrier(1).run(
      init(1) + "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;"
                "mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;"
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;"
                "mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;"
                "selp.u32 %r0, 2, 0, %p2; selp.u32 %r1, 1, 0, %p3;"
                "or.b32 %r0, %r0, %r1; st.global.b32 [out], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 1u);
}

TEST(Mbarrier, DroppedArrivalsLowerTheCount) {
  Outcome o = withBarrier(1).run(
      init(2) + "mbarrier.arrive_drop.shared.b64 %d1, [bar];"
                "mbarrier.arrive.shared.b64 %d1, [bar];"
                "mbarrier.arrive.shared.b64 %d1, [bar];"
                "mbarrier.test_wait.parity.shared.b64 %p2, [bar], 1;"
                "selp.u32 %r0, 1, 0, %p2; st.global.b32 [out], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 1u);
}

TEST(Mbarrier, StuckWaitsAreReported) { // SYN-6
  Snippet s = withBarrier(128);
  Outcome first = s.run(
      init(128) +
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4096;"
      "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
      "[buf],"
      "[out], 4096, [bar];"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;");
  EXPECT_CONTAINS(first.errors, "no progress");
  EXPECT_CONTAINS(first.errors, "mbarrier at shared address 0x400");
  EXPECT_CONTAINS(first.errors, "pending arrivals 127 of 128");
  EXPECT_CONTAINS(first.errors, "warp 3 lanes");
  Outcome second = s.run(
      init(1) +
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4096;"
      "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
      "[buf],"
      "[out], 2048, [bar];"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;");
  EXPECT_CONTAINS(second.errors, "no progress");
  EXPECT_CONTAINS(second.errors, "pending bytes 2048");
}

TEST(Mbarrier, ASpinWithoutEndIsReported) {
  Snippet s = withBarrier(64);
  s.options.progressLimit = 100000;
  Outcome o = s.run("setp.lt.u32 %p1, tid, 32; @%p1 st.shared.b32 [word], 0;"
                    "bar.sync 0;"
                    "W: ld.volatile.shared.b32 %r1, [word];"
                    "setp.eq.u32 %p2, %r1, 0; @%p2 bra W;");
  EXPECT_CONTAINS(o.errors, "no progress");
}

TEST(Barrier, ALockThatNobodyUnlocksIsReported) {
  Snippet s;
  s.options.progressLimit = 100000;
  for (const char *attempt :
       {"atom.global.cas.b32 %r1, [out], 0, 1; setp.ne.u32 %p2, %r1, 0;",
        "atom.global.exch.b32 %r1, [out], 1; setp.eq.u32 %p2, %r1, 1;",
        "atom.global.or.b32 %r1, [out], 1; and.b32 %r1, %r1, 1;"
        "setp.eq.u32 %p2, %r1, 1;"}) {
    Outcome o = s.run("setp.ne.u32 %p1, tid, 0; @%p1 bra E;"
                      "st.relaxed.gpu.global.b32 [out], 1; W: " +
                      std::string(attempt) + "@%p2 bra W; E:");
    EXPECT_CONTAINS(o.errors, "no progress");
  }
}

TEST(Barrier, NamedBarriersCountThreads) {
  // Warps 0 and 1 meet at barrier 1; warp 2 only arrives at barrier 2.
  Snippet s = withBarrier(96);
  Outcome o = s.run("mov.u32 %r1, %warpid; setp.eq.u32 %p1, %r1, 2;"
                    "@%p1 bra TWO; setp.eq.u32 %p2, tid, 40;"
                    "@%p2 st.shared.b32 [word], 5; bar.sync 1, 64;"
                    "ld.shared.b32 %r0, [word]; bar.sync 2, 96; bra E;"
                    "TWO: mov.b32 %r0, 9; bar.arrive 2, 96;"
                    "E: st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 5u);
  EXPECT_EQ(o.word(95), 9u);
}

TEST(Barrier, Reductions) {
  Snippet s = withBarrier(64);
  Outcome o = s.run("setp.lt.u32 %p1, tid, 40; bar.red.popc.u32 %r0, 0, %p1;"
                    "barrier.cta.red.and.pred %p2, 0, %p1;"
                    "bar.red.or.pred %p3, 0, !%p1; selp.u32 %r1, 1000, 0, %p2;"
                    "selp.u32 %r2, 100, 0, %p3; add.u32 %r0, %r0, %r1;"
                    "add.u32 %r0, %r0, %r2; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(63), 140u);
}

TEST(Barrier, DeadlockNamesEveryWarp) {
  Snippet s = withBarrier(96);
  Outcome o = s.run("mov.u32 %r1, %warpid; setp.eq.u32 %p1, %r1, 2;"
                    "@%p1 bra TWO; bar.sync 1, 96; bra E;"
                    "TWO: bar.sync 3, 64; E: mov.b32 %r0, 0;");
  EXPECT_CONTAINS(o.errors, "no progress");
  EXPECT_CONTAINS(o.errors,
                  "waits at barrier 1: 64 of 96 threads have arrived");
  EXPECT_CONTAINS(o.errors,
                  "waits at barrier 3: 32 of 64 threads have arrived");
}

} // namespace
