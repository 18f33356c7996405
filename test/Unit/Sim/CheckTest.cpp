//===- CheckTest.cpp - Switching rules on and off, messages ---------------===//
//
// The rules themselves are tested one by one in test/Sim.
//
//===----------------------------------------------------------------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

std::string parseError(const char *text) {
  auto set = CheckSet::parse(text);
  return set ? "" : llvm::toString(set.takeError());
}

TEST(Checks, Lists) {
  CheckSet all = llvm::cantFail(CheckSet::parse("all"));
  EXPECT_TRUE(all.has(Check::Uninit));
  EXPECT_FALSE(all.has(Check::PtxOrder));
  CheckSet most = llvm::cantFail(CheckSet::parse("all,-uninit"));
  EXPECT_FALSE(most.has(Check::Uninit));
  EXPECT_TRUE(most.has(Check::TmemWait));
  CheckSet one = llvm::cantFail(CheckSet::parse("barrier"));
  EXPECT_TRUE(one.has(Check::Barrier));
  EXPECT_FALSE(one.has(Check::Uninit));
  EXPECT_FALSE(llvm::cantFail(CheckSet::parse("none")).has(Check::Bounds));
  EXPECT_CONTAINS(parseError("all,nonsense"), "unknown check 'nonsense'");
}

TEST(Checks, CtaRanges) {
  auto ranges = llvm::cantFail(parseCtaRanges("3,5-7"));
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[1].first, 5u);
  EXPECT_EQ(ranges[1].last, 7u);
  for (const char *bad : {"", "a", "7-5", "1-", "-1"}) {
    auto result = parseCtaRanges(bad);
    EXPECT_FALSE(bool(result)) << bad;
    llvm::consumeError(result.takeError());
  }
}

TEST(Checks, AnUninitialisedReadCanBeAllowed) {
  Snippet s;
  std::string body = "add.u32 %r0, %r1, 1; st.global.b32 [at], %r0;";
  EXPECT_CONTAINS(s.run(body).errors, "register '%r0' is computed from '%r1', "
                                      "which is read before it is written");
  EXPECT_CONTAINS(s.run("@%p3 mov.b32 %r0, 1;").errors,
                  "register '%p3' is read before");
  s.options.checks = llvm::cantFail(CheckSet::parse("all,-uninit"));
  EXPECT_EQ(s.run(body).errors, "");
}

TEST(Checks, UndefinedHalvesMayTravel) {
  // LLVM splats one half of a pair and reads back only that one.
  Snippet s;
  EXPECT_EQ(s.run("mov.b32 %r1, 1; mov.b64 %d1, {%r1, %r2};"
                  "add.rn.f32x2 %d2, %d1, %d1; mov.b64 {%r3, _}, %d2;"
                  "st.global.b32 [at], %r3;")
                .errors,
            "");
  EXPECT_CONTAINS(s.run("mov.b32 %r1, 1; mov.b64 %d1, {%r1, %r2};"
                        "mov.b64 {_, %r3}, %d1; st.global.b32 [at], %r3;")
                      .errors,
                  "register '%r3' is read before");
  EXPECT_CONTAINS(s.run("mov.b32 %r1, 1; mov.b64 %d1, {%r1, %r2};"
                        "st.global.b64 [out], %d1;")
                      .errors,
                  "register '%d1' is read before");
}

TEST(Checks, MessagesCarryThePlace) {
  Snippet s;
  s.threads = 64;
  s.grid = 2;
  Outcome o = s.run(".file 1 \"kernel.mlir\"\n.loc 1 12 5\n"
                    "setp.eq.u32 %p1, tid, 37;\n"
                    "@%p1 st.global.b32 [out+100000], tid;");
  EXPECT_CONTAINS(o.errors, "test.ptx:");
  EXPECT_CONTAINS(o.errors, "[cta (0,0,0), warp 1, lane 5] [-bounds]");
  EXPECT_CONTAINS(o.errors, "note: from kernel.mlir:12:5");
}

TEST(Checks, OnlyTheChosenCtasRun) {
  Snippet s;
  s.grid = 8;
  s.options.ctas = llvm::cantFail(parseCtaRanges("2,5-6"));
  Outcome o = s.run("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, tid, 0;"
                    "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, out;"
                    "@%p1 st.global.b32 [%d1], %r1;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.result.stats.ctas, 3u);
  EXPECT_EQ(o.word(5), 5u);
  EXPECT_EQ(o.word(4), 0xDEADBEEFu);
}

TEST(Checks, TheLowestFailingCtaIsReported) {
  Snippet s;
  s.grid = 64;
  s.options.threads = 4;
  for (unsigned k = 0; k < 5; ++k)
    EXPECT_CONTAINS(s.run("mov.u32 %r1, %ctaid.x; setp.gt.u32 %p1, %r1, 9;"
                          "@%p1 trap;")
                        .errors,
                    "trap [cta (10,0,0)");
}

TEST(Checks, WhoWaitsForAFailedCtaStops) {
  // One CTA takes a lock, and fails when the other one is about to want it.
  // Words: the lock (0xDEADBEEF: free), who has begun to wait.
  Snippet s;
  s.grid = s.options.threads = 2;
  for (const char *holder : {"0", "1"})
    for (const char *poll :
         {"atom.global.cas.b32 %r3, [out], 0xDEADBEEF, 2;"
          "setp.ne.u32 %p2, %r3, 0xDEADBEEF;",
          "ld.relaxed.gpu.global.b32 %r3, [out]; setp.eq.u32 %p2, %r3, 1;"}) {
      Outcome o =
          s.run("setp.ne.u32 %p1, tid, 0; @%p1 bra E; mov.u32 %r1, %ctaid.x;"
                "setp.eq.u32 %p1, %r1, " +
                std::string(holder) +
                "; @%p1 bra HOLDER;"
                "BEGUN: ld.relaxed.gpu.global.b32 %r3, [out];"
                "setp.ne.u32 %p2, %r3, 1; @%p2 bra BEGUN;"
                "st.relaxed.gpu.global.b32 [out+4], 1;"
                "WAIT: " +
                poll +
                "@%p2 bra WAIT; bra E;"
                "HOLDER: atom.global.exch.b32 %r3, [out], 1;"
                "HELD: ld.relaxed.gpu.global.b32 %r3, [out+4];"
                "setp.ne.u32 %p2, %r3, 1; @%p2 bra HELD; trap;"
                "E:");
      EXPECT_CONTAINS(o.errors, "trap [cta (" + std::string(holder) + ",0,0)");
      EXPECT_EQ(o.errors.find("no progress"), std::string::npos) << o.errors;
    }
}

} // namespace
