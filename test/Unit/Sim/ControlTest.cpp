//===- ControlTest.cpp - Branches, divergence, warp operations ------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

const Snippet s;

TEST(Control, BothWaysOfABranchRunAndMeet) {
  Outcome o = s.run("mov.b32 %r0, 0; setp.lt.u32 %p1, tid, 10; @%p1 bra A;"
                    "mov.b32 %r0, 200; bra J; A: mov.b32 %r0, 100;"
                    "J: vote.sync.ballot.b32 %r1, %p1, 0xffffffff;"
                    "add.u32 %r0, %r0, %r1; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 100 + 0x3FFu);
  EXPECT_EQ(o.word(9), 100 + 0x3FFu);
  EXPECT_EQ(o.word(10), 200 + 0x3FFu);
}

TEST(Control, LanesLeaveALoopAtDifferentTimes) {
  // Collatz steps of tid + 1.
  Outcome o = s.run("add.u32 %r1, tid, 1; mov.b32 %r0, 0;"
                    "LOOP: setp.eq.u32 %p1, %r1, 1; @%p1 bra DONE;"
                    "add.u32 %r0, %r0, 1; and.b32 %r2, %r1, 1;"
                    "setp.eq.u32 %p2, %r2, 0; @%p2 bra EVEN;"
                    "mad.lo.u32 %r1, %r1, 3, 1; bra LOOP;"
                    "EVEN: shr.u32 %r1, %r1, 1; bra LOOP;"
                    "DONE: bar.warp.sync 0xffffffff; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  for (unsigned t = 0; t < 32; ++t) {
    unsigned steps = 0;
    for (unsigned n = t + 1; n != 1; n = n & 1 ? 3 * n + 1 : n / 2)
      ++steps;
    EXPECT_EQ(o.word(t), steps) << t;
  }
}

TEST(Control, NestedDivergenceReconvergesInsideOut) {
  Outcome o = s.run("mov.b32 %r0, 0; and.b32 %r1, tid, 1; and.b32 %r2, tid, 2;"
                    "setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r2, 0;"
                    "@!%p1 bra OUT; @!%p2 bra IN; add.u32 %r0, %r0, 1;"
                    "IN: activemask.b32 %r3; popc.b32 %r4, %r3;"
                    "add.u32 %r0, %r0, %r4;"
                    "OUT: activemask.b32 %r3; popc.b32 %r4, %r3;"
                    "mad.lo.u32 %r0, %r4, 100, %r0; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 3200u);
  EXPECT_EQ(o.word(1), 3216u);
  EXPECT_EQ(o.word(3), 3217u);
}

TEST(Control, AnExitedLaneIsNotWaitedFor) {
  Outcome o = s.run("setp.gt.u32 %p1, tid, 15; @%p1 exit; bar.sync 0;"
                    "mov.b32 %r0, 7; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(15), 7u);
  EXPECT_EQ(o.word(16), 0xDEADBEEFu);
}

TEST(Control, IndexedBranch) {
  Outcome o = s.run("and.b32 %r1, tid, 3; T: .branchtargets A, B, C, A;"
                    "brx.idx %r1, T; A: mov.b32 %r0, 1; bra E;"
                    "B: mov.b32 %r0, 2; bra E; C: mov.b32 %r0, 3;"
                    "E: st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 1u);
  EXPECT_EQ(o.word(1), 2u);
  EXPECT_EQ(o.word(2), 3u);
  EXPECT_EQ(o.word(3), 1u);
}

TEST(Control, LanesOfAWarpWaitForEachOther) {
  // One lane waits for another of its own warp that takes the other way.
  Snippet v = s;
  v.moduleText = ".shared .align 8 .b64 bar;";
  Outcome o = v.run("setp.eq.u32 %p1, tid, 0; @!%p1 bra S0;"
                    "mbarrier.init.shared.b64 [bar], 1;"
                    "S0: bar.warp.sync -1; setp.eq.u32 %p2, tid, 5;"
                    "@%p2 bra WAIT; @%p1 mbarrier.arrive.shared.b64 _, [bar];"
                    "bra END;"
                    "WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;"
                    "@!%p3 bra WAIT;"
                    "END: mov.b32 %r0, 1; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(5), 1u);
}

TEST(Warp, Shuffles) {
  Outcome o = s.run("shfl.sync.bfly.b32 %r0, tid, 1, 31, -1;"
                    "shfl.sync.up.b32 %r1|%p1, tid, 4, 0, -1;"
                    "selp.u32 %r2, 1000, 0, %p1; add.u32 %r1, %r1, %r2;"
                    "shfl.sync.idx.b32 %r3, tid, 3, 0x181f, -1;"
                    "st.global.b32 [at], %r0; st.global.b32 [at+128], %r1;"
                    "st.global.b32 [at+256], %r3;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(6), 7u);
  EXPECT_EQ(o.word(32 + 2), 2u);
  EXPECT_EQ(o.word(32 + 9), 1005u);
  EXPECT_EQ(o.word(64 + 13), 11u); // Segments of eight lanes.
}

TEST(Warp, VotesAndReductions) {
  EXPECT_EQ(s.eval32("setp.lt.u32 %p1, tid, 3; vote.sync.any.pred %p2, %p1, -1;"
                     "vote.sync.all.pred %p3, %p1, -1; selp.u32 %r1, 1, 0, %p2;"
                     "selp.u32 %r0, 2, %r1, %p3;"),
            1u);
  EXPECT_EQ(s.eval32("redux.sync.add.u32 %r0, tid, -1;"), 496u);
  EXPECT_EQ(s.eval32("sub.u32 %r1, tid, 40; redux.sync.min.s32 %r0, %r1, -1;"),
            uint32_t(-40));
  EXPECT_EQ(s.evalFloat("cvt.rn.f32.u32 %r1, tid; neg.f32 %r1, %r1;"
                        "redux.sync.max.abs.f32 %r0, %r1, -1;"),
            31.0f);
  EXPECT_EQ(s.eval32("and.b32 %r1, tid, 3; match.any.sync.b32 %r0, %r1, -1;"),
            0x11111111u);
}

TEST(Warp, ElectPicksOneLane) {
  Outcome o = s.run("elect.sync %r1|%p1, -1; selp.u32 %r0, 1, 0, %p1;"
                    "st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  unsigned leaders = 0;
  for (unsigned t = 0; t < 32; ++t)
    leaders += o.word(t);
  EXPECT_EQ(leaders, 1u);
}

TEST(Control, SpecialRegisters) {
  Snippet g;
  g.threads = 96;
  g.grid = 2;
  Outcome o = g.run("mov.u32 %r1, %warpid; mov.u32 %r2, %laneid;"
                    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x;"
                    "shl.b32 %r5, %r3, 9; mad.lo.u32 %r0, %r1, 100, %r2;"
                    "mad.lo.u32 %r0, %r4, 10000, %r0; cvt.u64.u32 %d1, %r5;"
                    "add.u64 %d1, %d1, at; st.global.b32 [%d1], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(128 + 70), 20206u);
}

TEST(Control, AnInstructionLimitStopsALoopThatMakesProgress) {
  Snippet g;
  g.options.instructionLimit = 1000;
  // Every round stores, so the loop never counts as stuck.
  Outcome o = g.run("again: st.global.b32 [at], tid; bra again;");
  EXPECT_NE(o.errors.find("error: stopped after 1000 warp instructions"),
            std::string::npos)
      << o.errors;
  EXPECT_EQ(o.result.stats.instructions, 1000u);
  g.options.instructionLimit = 100;
  EXPECT_EQ(g.run("st.global.b32 [at], tid;").errors, "");
}

} // namespace
