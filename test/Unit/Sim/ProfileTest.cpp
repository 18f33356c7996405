//===- ProfileTest.cpp - Counts and ways of warps -------------------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

using Event = Profile::Event;

/// Executions of an opcode by a warp, and passes of shared memory.
struct Count {
  uint64_t executed = 0, passes = 0;
};
Count of(const Profile &p, const char *opcode, unsigned warp) {
  Count c;
  for (size_t pc = 0; pc < p.code.size(); ++pc)
    if (p.code[pc].opcode.rfind(opcode, 0) == 0) {
      c.executed += p.executed[warp][pc];
      c.passes += p.code[pc].sharedPasses;
    }
  return c;
}

std::vector<Event> eventsOf(const Profile &p, unsigned warp) {
  std::vector<Event> events;
  for (const Event &e : p.ctas.at(0).warps.at(warp))
    if (e.kind != Event::Run)
      events.push_back(e);
  return events;
}

TEST(Profile, CountsByWarpAndInstruction) {
  Snippet s;
  s.threads = 64;
  s.options.profile = true;
  Outcome o = s.run(R"(
mov.u32 %r1, 0;
setp.lt.u32 %p1, tid, 32;
selp.u32 %r2, 3, 5, %p1;
L:
add.u32 %r1, %r1, 1;
setp.lt.u32 %p2, %r1, %r2;
@%p2 bra L;
st.global.b32 [at], %r1;)");
  ASSERT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 3u);
  EXPECT_EQ(o.word(63), 5u);
  const Profile &p = o.result.profile;
  ASSERT_EQ(p.executed.size(), 2u);
  EXPECT_EQ(of(p, "add.u32", 0).executed, 3u);
  EXPECT_EQ(of(p, "add.u32", 1).executed, 5u);
  EXPECT_EQ(of(p, "selp", 1).executed, 1u);
  // The ways hold as many instructions as the counts.
  uint64_t counted = 0, onTheWay = 0;
  for (uint64_t n : p.executed[1])
    counted += n;
  for (const Event &e : p.ctas[0].warps[1]) {
    EXPECT_EQ(e.kind, Event::Run);
    onTheWay += e.b - e.a;
  }
  EXPECT_EQ(counted, onTheWay);
}

TEST(Profile, SharedPasses) {
  Snippet s;
  s.moduleText = ".shared .align 16 .b8 buffer[16384];\n";
  s.options.profile = true;
  s.options.checks = CheckSet::none(); // Nothing was written.
  Outcome o;
  auto passes = [&](const char *address, const char *load) {
    o = s.run(std::string("mov.u32 %r1, buffer;\n") + address +
              "\nadd.u32 %r2, %r1, %r2;\n" + load +
              "\nst.global.b32 [at], %r5;");
    EXPECT_EQ(o.errors, "");
    return of(o.result.profile, "ld.shared", 0).passes;
  };
  // A word each, side by side; all the same word; a column of 32 words a row.
  EXPECT_EQ(passes("shl.b32 %r2, tid, 2;", "ld.shared.b32 %r5, [%r2];"), 1u);
  EXPECT_EQ(passes("mov.u32 %r2, 0;", "ld.shared.b32 %r5, [%r2];"), 1u);
  EXPECT_EQ(passes("shl.b32 %r2, tid, 7;", "ld.shared.b32 %r5, [%r2];"), 32u);
  // 16 bytes each: four passes.
  EXPECT_EQ(passes("shl.b32 %r2, tid, 4;",
                   "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r2];"),
            4u);
  // 16 bytes from one address, from one for each pair of lanes, or each second
  // lane: two. One of all lanes disagrees: four again. 8 bytes: one.
  const char *load = "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r2];";
  EXPECT_EQ(passes("mov.u32 %r2, 0;", load), 2u);
  EXPECT_EQ(passes("shr.u32 %r2, tid, 1;\nshl.b32 %r2, %r2, 4;", load), 2u);
  EXPECT_EQ(passes("and.b32 %r2, tid, 1;\nshl.b32 %r2, %r2, 4;", load), 2u);
  // Halves of the warp in two rows: two. The same 128 bytes for every quarter:
  // four, as many as 512 bytes.
  EXPECT_EQ(passes("and.b32 %r2, tid, 16;\nshl.b32 %r2, %r2, 3;", load), 2u);
  EXPECT_EQ(passes("and.b32 %r2, tid, 7;\nshl.b32 %r2, %r2, 4;", load), 4u);
  EXPECT_EQ(passes("setp.eq.u32 %p1, tid, 9;\nselp.u32 %r2, 16, 0, %p1;", load),
            4u);
  EXPECT_EQ(passes("mov.u32 %r2, 0;", "ld.shared.v2.b32 {%r5, %r6}, [%r2];"),
            1u);
  // Stores are not shared: lanes write one after the other.
  o = s.run("mov.u32 %r1, buffer;\nst.shared.v4.b32 [%r1], {%r5, %r5, %r5, "
            "%r5};\nst.global.b32 [at], %r5;");
  EXPECT_EQ(of(o.result.profile, "st.shared", 0).passes, 4u);
}

TEST(Profile, WaitsAndSignals) {
  Snippet s;
  s.threads = 64;
  s.moduleText = ".shared .align 8 .b64 bar;\n";
  s.options.profile = true;
  Outcome o = s.run(R"(
mov.u32 %r1, bar;
setp.eq.u32 %p1, tid, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r1], 32;
bar.sync 0;
setp.lt.u32 %p2, tid, 32;
@!%p2 bra WAIT;
mbarrier.arrive.shared::cta.b64 %d1, [%r1];
bra DONE;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;
@!%p3 bra WAIT;
DONE:
st.global.b32 [at], %r1;)");
  ASSERT_EQ(o.errors, "");
  std::vector<Event> first = eventsOf(o.result.profile, 0),
                     second = eventsOf(o.result.profile, 1);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].kind, Event::NamedArrive);
  EXPECT_EQ(first[1].kind, Event::NamedWait);
  EXPECT_EQ(first[2].kind, Event::Arrive); // 32 lanes are one.
  EXPECT_EQ(first[2].b, 0u);
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(second[2].kind, Event::Wait);
  EXPECT_EQ(second[2].a, first[2].a);
  EXPECT_EQ(second[2].b, 0u);
}

TEST(Profile, NeedsEagerOperations) {
  Snippet s;
  s.options.profile = true;
  s.options.async = AsyncMode::Late;
  Outcome o = s.run("st.global.b32 [at], tid;");
  EXPECT_CONTAINS(o.errors, "a profile needs asynchronous operations to be "
                            "carried out at issue (eager)");
}

} // namespace
