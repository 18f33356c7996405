//===- CoverageTest.cpp - Stochastic rounding, async stores, calls --------===//
//
// What neither the H200's recorded results nor LLVM's programs reach: sm_100
// instructions, clusters' stores, and the errors of calls. Expected values
// follow from PTX's text by hand.
//
//===----------------------------------------------------------------------===//

#include "Snippet.h"

namespace flamia {
namespace sim {
namespace {

std::string hex(uint32_t v) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", v);
  return text;
}

/// One cvt.rs with f32 inputs in %r1.., random bits in %r5, result in %r0.
uint32_t stochastic(const std::string &opcode, std::vector<float> in,
                    uint32_t random, bool vector, bool half = false) {
  std::string body, list;
  for (size_t k = 0; k < in.size(); ++k) {
    std::string r = "%r" + std::to_string(k + 1);
    body += "mov.b32 " + r + ", " + hexFloat(in[k]) + ";\n";
    list += (k ? ", " : "") + r;
  }
  if (vector)
    list = "{" + list + "}";
  body += "mov.b32 %r5, " + hex(random) + ";\n" + opcode +
          (half ? " %h0, " : " %r0, ") + list + ", %r5;";
  if (half)
    body += "\ncvt.u32.u16 %r0, %h0;";
  return Snippet().eval32(body);
}

TEST(Stochastic, HalvesTakeTheirOwnBits) {
  // Halfway between 1 and the next f16: 4096 of 8192 rounds up.
  float x = 1 + 0x1p-11f;
  auto f16 = [&](uint32_t bits) {
    return stochastic("cvt.rs.f16x2.f32", {x, x}, bits, false);
  };
  EXPECT_EQ(f16(0x10000fff), 0x3c013c00u);
  EXPECT_EQ(f16(0x0fff1000), 0x3c003c01u);
  EXPECT_EQ(f16(0xe000f000), 0x3c003c01u); // The upper three bits are not used.
  float y = -(1 + 0x1p-8f);                // Halfway in bf16.
  auto bf16 = [&](uint32_t bits) {
    return stochastic("cvt.rs.bf16x2.f32", {y, y}, bits, false);
  };
  EXPECT_EQ(bf16(0x80007fff), 0xbf81bf80u);
  EXPECT_EQ(bf16(0x7fffffff), 0xbf80bf81u);
  EXPECT_EQ(stochastic("cvt.rs.relu.f16x2.f32", {-1, 2}, 0, false),
            0x00004000u);
  EXPECT_EQ(stochastic("cvt.rs.f16x2.f32", {65535, NAN}, 0x1fff1fff, false),
            0x7c007fffu);
  EXPECT_EQ(
      stochastic("cvt.rs.satfinite.f16x2.f32", {65535, -INFINITY}, ~0u, false),
      0x7bfffbffu);
  // Exact values and subnormal ones: a quarter of the smallest f16.
  EXPECT_EQ(stochastic("cvt.rs.f16x2.f32", {1.5f, 0x1p-26f}, 0x1fff17ff, false),
            0x3e000000u);
  EXPECT_EQ(stochastic("cvt.rs.f16x2.f32", {1.5f, 0x1p-26f}, 0x1fff1800, false),
            0x3e000001u);
}

TEST(Stochastic, FourValuesShareTheBits) {
  // 1.0625 lies halfway between two e4m3 numbers, 1.125 between two e5m2.
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e4m3x4.f32",
                       {1.0625f, 1, 1.0625f, -1.0625f}, 0x80007fff, true),
            0x393838b8u);
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e4m3x4.f32",
                       {1.0625f, 1, 1.0625f, -1.0625f}, 0x7fff8000, true),
            0x383839b9u);
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e5m2x4.f32", {1.125f, 1e9f, NAN, 0},
                       0x80000000, true),
            0x3d7b7f00u);
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e2m3x4.f32", {1.0625f, 9, -9, 0.0625f},
                       0x80008000, true),
            0x091f3f01u);
  EXPECT_EQ(stochastic("cvt.rs.relu.satfinite.e3m2x4.f32",
                       {1.125f, -3, 99, 0.03125f}, 0x7fff8000, true),
            0x0c001f01u);
  // e2m1: the upper bytes of both halves are a's and b's.
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e2m1x4.f32", {1.25f, -1.25f, 1.25f, 7},
                       0x80ff00ff, true, true),
            0x3b37u);
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e2m1x4.f32", {1.25f, -1.25f, 1.25f, 5},
                       0x7f80ffff, true, true),
            0x2a37u);
  EXPECT_EQ(stochastic("cvt.rs.satfinite.e2m1x4.f32",
                       {1.25f, 1.25f, 1.25f, 1.25f}, 0xff7fff7f, true, true),
            0x3322u);
}

/// An mbarrier at `bar` that lane 0 arrives at with an expected byte count, and
/// a wait by every lane behind `issue`.
std::string withBarrier(unsigned bytes, const std::string &before,
                        const std::string &issue) {
  return ".shared .align 16 .b8 data[256];\n.shared .align 8 .b64 bar;\n"
         ".reg .b32 b, a;\nmov.u32 b, bar;\nmov.u32 a, data;\n"
         "setp.eq.u32 %p1, tid, 0;\n"
         "@%p1 mbarrier.init.shared::cta.b64 [b], 1;\n"
         "@%p1 fence.mbarrier_init.release.cluster;\n" +
         before +
         "barrier.cluster.arrive.release.aligned;\n"
         "barrier.cluster.wait.acquire.aligned;\n"
         "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], " +
         std::to_string(bytes) + ";\nbar.warp.sync 0xffffffff;\n" + issue +
         "\nwait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 "
         "%p2, "
         "[b], 0;\n@!%p2 bra wait;\n";
}

TEST(AsyncStore, WritesAndSignals) {
  std::string body =
      withBarrier(
          32 * 8, "",
          "shl.b32 %r1, tid, 3;\nadd.u32 %r1, %r1, a;\n"
          "mul.lo.u32 %r2, tid, 7;\n"
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 "
          "[%r1], {%r2, tid}, [b];") +
      "xor.b32 %r3, tid, 5;\nshl.b32 %r3, %r3, 3;\nadd.u32 %r3, %r3, a;\n"
      "ld.shared.v2.b32 {%r4, %r5}, [%r3];\nmad.lo.u32 %r0, %r5, 1000, %r4;\n"
      "st.global.b32 [at], %r0;";
  for (AsyncMode mode :
       {AsyncMode::Eager, AsyncMode::Late, AsyncMode::Random}) {
    Snippet s;
    s.options.async = mode;
    Outcome o = s.run(body);
    EXPECT_EQ(o.errors, "");
    for (unsigned l = 0; l < 32; ++l)
      EXPECT_EQ(o.word(l), (l ^ 5) * 1007);
  }
}

TEST(AsyncStore, ReducesInAnyOrder) {
  std::string body =
      withBarrier(32 * 12,
                  "@%p1 st.shared.v4.b32 [a], {10, 0xffffffff, 0, 0};\n",
                  "red.async.relaxed.cluster.shared::cluster.mbarrier::"
                  "complete_tx::bytes.add.u32 [a], tid, [b];\n"
                  "red.async.relaxed.cluster.shared::cluster.mbarrier::"
                  "complete_tx::bytes.min.s32 [a+4], tid, [b];\n"
                  "red.async.relaxed.cluster.shared::cluster.mbarrier::"
                  "complete_tx::bytes.inc.u32 [a+8], 20, [b];") +
      "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [a];\n"
      "st.global.v4.b32 [out], {%r1, %r2, %r3, %r4};";
  for (AsyncMode mode :
       {AsyncMode::Eager, AsyncMode::Late, AsyncMode::Random}) {
    Snippet s;
    s.options.async = mode;
    Outcome o = s.run(body);
    EXPECT_EQ(o.errors, "");
    EXPECT_EQ(o.word(0), 10u + 31 * 16);
    EXPECT_EQ(o.word(1), 0xffffffffu);
    EXPECT_EQ(o.word(2), 32u % 21); // Counts 0..20.
  }
}

TEST(AsyncStore, TellsWhatIsWrong) {
  Snippet s;
  std::string early =
      withBarrier(8, "",
                  "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes."
                  "b64 [a], %d1, [b];\n@%p1 ld.shared.b32 %r1, [a];");
  EXPECT_CONTAINS(s.run("mov.b64 %d1, 1;\n" + early).errors,
                  "while 'st.async' in line");
  std::string undefined =
      withBarrier(4, "",
                  "@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::"
                  "complete_tx::bytes.add.u32 [a], 1, [b];");
  EXPECT_CONTAINS(s.run(undefined).errors,
                  "reduction of undefined shared memory");
  EXPECT_CONTAINS(
      s.run("st.async.mmio.release.gpu.global.b32 [out], %r1;").errors,
      "memory-mapped");
}

TEST(AsyncStore, BulkReductionBetweenSharedArrays) {
  std::string body =
      withBarrier(
          64,
          "shl.b32 %r1, tid, 2;\nadd.u32 %r1, %r1, a;\n"
          "st.shared.b32 [%r1], tid;\nfence.proxy.async.shared::cta;\n",
          "@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta."
          "mbarrier::complete_tx::bytes.add.u32 [a], [a+64], 64, [b];") +
      "ld.shared.b32 %r0, [%r1];\nst.global.b32 [at], %r0;";
  Outcome o = Snippet().run(body);
  EXPECT_EQ(o.errors, "");
  for (unsigned l = 0; l < 32; ++l)
    EXPECT_EQ(o.word(l), l < 16 ? 2 * l + 16 : l);
}

TEST(BulkFill, WritesZeros) {
  Snippet s;
  std::string head = ".shared .align 16 .b8 data[128];\n.reg .b32 a;\n"
                     "mov.u32 a, data;\nshl.b32 %r1, tid, 2;\n"
                     "add.u32 %r1, %r1, a;\nst.shared.b32 [%r1], 7;\n"
                     "bar.sync 0;\nsetp.eq.u32 %p1, tid, 0;\n";
  Outcome o = s.run(head + "@%p1 st.bulk.weak.shared::cta [a+16], 24, 0;\n"
                           "bar.sync 0;\nld.shared.b32 %r0, [%r1];\n"
                           "st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  for (unsigned l = 0; l < 32; ++l)
    EXPECT_EQ(o.word(l), l >= 4 && l < 10 ? 0u : 7u);
  EXPECT_CONTAINS(
      s.run(head + "@%p1 st.bulk.weak.shared::cta [a], 12, 0;").errors,
      "size 12 is no multiple of 8");
  EXPECT_CONTAINS(
      s.run(head + "@%p1 st.bulk.weak.shared::cta [a], 16, 1;").errors,
      "expected an initial value of 0");
}

TEST(Vector, LoadsAndStoresOf256Bits) {
  Snippet s;
  Outcome o = s.run(
      "shl.b32 %r1, tid, 5;\ncvt.u64.u32 %d1, %r1;\nadd.u64 %d1, out, %d1;\n"
      "add.u32 %r2, tid, 100;\n"
      "st.global.v8.b32 [%d1], {tid, 1, 2, %r2, 4, 5, 6, tid};\n"
      "ld.global.v4.b64 {%d2, %d3, %d4, %d5}, [%d1];\n"
      "st.global.v4.b64 [%d1], {%d5, %d4, %d3, %d2};");
  EXPECT_EQ(o.errors, "");
  for (unsigned l = 0; l < 32; ++l) {
    EXPECT_EQ(o.word(8 * l), 6u);
    EXPECT_EQ(o.word(8 * l + 1), l);
    EXPECT_EQ(o.word(8 * l + 5), l + 100);
    EXPECT_EQ(o.word(8 * l + 6), l);
  }
}

//===----------------------------------------------------------------------===//
// mbarrier forms
//===----------------------------------------------------------------------===//

/// Lane 0 works on an mbarrier `b` of four arrivals; the rest of the warp is
/// gone.
std::string alone(const std::string &body) {
  return ".shared .align 8 .b64 bar;\n.reg .b32 b;\nmov.u32 b, bar;\n"
         "setp.ne.u32 %p1, tid, 0;\n@%p1 exit;\n"
         "mbarrier.init.shared::cta.b64 [b], 4;\n" +
         body;
}

TEST(MbarrierForms, StatesTellPhaseAndPendingCount) {
  Snippet s;
  // The count that is still missing, as of before each arrival.
  Outcome p = s.run(
      alone("mbarrier.arrive.shared::cta.b64 %d1, [b];\n"
            "mbarrier.arrive.release.cta.shared::cta.b64 %d2, [b], 2;\n"
            "mbarrier.pending_count.b64 %r1, %d1;\n"
            "mbarrier.pending_count.b64 %r2, %d2;\n"
            "mbarrier.test_wait.shared::cta.b64 %p2, [b], %d2;\n"
            "selp.u32 %r3, 1, 0, %p2;\n"
            "mbarrier.arrive.shared::cta.b64 %d4, [b];\n"
            "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p2, [b], %d2;\n"
            "selp.u32 %r4, 1, 0, %p2;\n"
            "mbarrier.try_wait.shared::cta.b64 %p3, [b], %d4, 1000;\n"
            "selp.u32 %r5, 1, 0, %p3;\n"
            "st.global.v4.b32 [out], {%r1, %r2, %r3, %r4};\n"
            "st.global.b32 [out+16], %r5;"));
  EXPECT_EQ(p.errors, "");
  EXPECT_EQ(p.word(0), 4u);
  EXPECT_EQ(p.word(1), 3u);
  EXPECT_EQ(p.word(2), 0u);
  EXPECT_EQ(p.word(3), 1u);
  EXPECT_EQ(p.word(4), 1u);
}

TEST(MbarrierForms, DroppingAndTransactions) {
  Snippet s;
  Outcome o =
      s.run(alone("mbarrier.arrive_drop.shared::cta.b64 %d1, [b];\n"
                  "mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [b], 24;\n"
                  "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 8;\n"
                  "mbarrier.arrive.shared::cta.b64 _, [b], 2;\n"
                  "mbarrier.test_wait.parity.shared::cta.b64 %p2, [b], 0;\n"
                  "selp.u32 %r1, 1, 0, %p2;\n"
                  "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 30;\n"
                  "mbarrier.test_wait.parity.shared::cta.b64 %p2, [b], 0;\n"
                  "selp.u32 %r2, 1, 0, %p2;\n"
                  "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 2;\n"
                  "mbarrier.test_wait.parity.shared::cta.b64 %p2, [b], 0;\n"
                  "selp.u32 %r3, 1, 0, %p2;\n"
                  // Two of four are left for the next phase.
                  "mbarrier.arrive.shared::cta.b64 %d2, [b], 2;\n"
                  "mbarrier.pending_count.b64 %r4, %d2;\n"
                  "mbarrier.test_wait.parity.shared::cta.b64 %p2, [b], 1;\n"
                  "selp.u32 %r5, 1, 0, %p2;\n"
                  "mbarrier.inval.shared::cta.b64 [b];\n"
                  "mbarrier.init.shared::cta.b64 [b], 1;\n"
                  "st.global.v4.b32 [out], {%r1, %r2, %r3, %r4};\n"
                  "st.global.b32 [out+16], %r5;"));
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 0u);
  EXPECT_EQ(o.word(1), 0u);
  EXPECT_EQ(o.word(2), 1u);
  EXPECT_EQ(o.word(3), 2u);
  EXPECT_EQ(o.word(4), 1u);
}

TEST(MbarrierForms, NoCompleteMustNotComplete) {
  Snippet s;
  EXPECT_CONTAINS(
      s.run(alone("mbarrier.arrive.noComplete.shared::cta.b64 %d1, [b], 4;"))
          .errors,
      "arrive.noComplete would complete the phase");
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

TEST(Call, ErrorsNameTheFunction) {
  Snippet s;
  s.moduleText = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param "
                 ".b64 a);\n.func (.param .b32 r) twice (.param .b32 p)\n{\n"
                 ".reg .b32 %v<3>;\nld.param.b32 %v1, [p];\n"
                 "add.u32 %v2, %v1, %v1;\nst.param.b32 [r], %v2;\nret;\n}\n";
  EXPECT_CONTAINS(s.run(".param .b64 f; .param .b64 a; .param .b32 r;\n"
                        "call.uni (r), vprintf, (f, a);")
                      .errors,
                  "call of 'vprintf', which has no body in this module, is not "
                  "simulated");
  EXPECT_CONTAINS(s.run(".param .b64 f; .param .b32 r;\n"
                        "call.uni (r), twice, (f);")
                      .errors,
                  "parameters of 'twice' differ");
  EXPECT_CONTAINS(s.run("call.uni missing;").errors,
                  "unknown function 'missing'");
  EXPECT_CONTAINS(
      s.run(".param .b32 a; .param .b32 r;\ncall.uni (r), twice, (a);").errors,
      "read of undefined local memory");
  EXPECT_CONTAINS(
      s.run(".param .b32 a; .param .b32 r; mov.b64 %d1, 64;\n"
            "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
            "st.param.b32 [a], 1;\ncall (r), %d1, (a), proto;")
          .errors,
      "0x40 is not the address of a device function");
  Outcome o = s.run(".param .b32 a; .param .b32 r;\nst.param.b32 [a], tid;\n"
                    "setp.lt.u32 %p1, tid, 9;\nmov.b32 %r0, 5;\n"
                    "@!%p1 bra over;\n{\ncall.uni (r), twice, (a);\n"
                    "ld.param.b32 %r0, [r];\n}\n"
                    "over: st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(8), 16u);
  EXPECT_EQ(o.word(9), 5u);
}

TEST(Call, RecursionIsBounded) {
  Snippet s;
  s.moduleText =
      ".func down (.param .b32 p)\n{\n.reg .b32 %v<3>; .param .b32 q;\n"
      "ld.param.b32 %v1, [p];\nadd.u32 %v2, %v1, 1;\n"
      "st.param.b32 [q], %v2;\ncall.uni down, (q);\nret;\n}\n";
  EXPECT_CONTAINS(s.run(".param .b32 a;\nst.param.b32 [a], tid;\n"
                        "call.uni down, (a);")
                      .errors,
                  "calls are nested more than 1000 deep");
  s.moduleText = ".func loop ()\n{\n.local .b32 x;\nst.local.b32 [x], 1;\n"
                 "call.uni loop;\nret;\n}\n";
  EXPECT_CONTAINS(s.run("call.uni loop;").errors,
                  "'x', a local variable of a recursive function");
  s.moduleText = ".func loop ()\n{\n.local .b8 x[64]; .reg .b64 %a;\n"
                 "mov.b64 %a, x;\nst.local.b32 [%a], 1;\n"
                 "call.uni loop;\nret;\n}\n";
  EXPECT_CONTAINS(s.run("call.uni loop;").errors,
                  "frame of 64 bytes exceeds the stack of 16384 bytes");
}

TEST(Stack, AllocaIsBoundedAndChecked) {
  Snippet s;
  EXPECT_CONTAINS(s.run("alloca.u64 %d1, 99999, 16;").errors,
                  "exceeds the stack of 16384 bytes");
  EXPECT_CONTAINS(
      s.run("alloca.u64 %d1, 16, 16;\nld.local.b32 %r1, [%d1];").errors,
      "read of undefined local memory");
  Outcome o = s.run("stacksave.u64 %d3;\nalloca.u64 %d1, 16, 16;\n"
                    "alloca.u64 %d2, 8;\nst.local.b32 [%d1+12], tid;\n"
                    "st.local.b32 [%d2], 3;\nld.local.b32 %r1, [%d1+12];\n"
                    "stackrestore.u64 %d3;\nalloca.u64 %d4, 16, 16;\n"
                    "sub.u64 %d5, %d4, %d1;\ncvt.u32.u64 %r2, %d5;\n"
                    "add.u32 %r0, %r1, %r2;\nst.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(31), 31u);
}

} // namespace
} // namespace sim
} // namespace flamia
