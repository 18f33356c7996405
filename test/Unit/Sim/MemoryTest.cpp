//===- MemoryTest.cpp - ld, st, atom, matrices, local memory --------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

Snippet withShared() {
  Snippet s;
  s.moduleText = ".shared .align 16 .b8 buf[4096];\n";
  return s;
}

TEST(Memory, LoadsExtendToTheRegister) {
  Outcome o = withShared().run(
      "st.shared.b32 [buf], 0x8180FF7F; ld.shared.s8 %r0, [buf+1];"
      "st.global.b32 [out], %r0; ld.shared.u8 %r0, [buf+1];"
      "st.global.b32 [out+4], %r0; ld.shared.s16 %r0, [buf+2];"
      "st.global.b32 [out+8], %r0; ld.shared.v2.u16 {%r0, %r1}, [buf];"
      "st.global.v2.b32 [out+16], {%r0, %r1}; st.shared.u8 [buf+3], 0;"
      "ld.shared.b32 %r2, [buf]; st.global.b32 [out+12], %r2;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 0xFFFFFFFFu);
  EXPECT_EQ(o.word(1), 0xFFu);
  EXPECT_EQ(o.word(2), 0xFFFF8180u);
  EXPECT_EQ(o.word(3), 0x0080FF7Fu);
  EXPECT_EQ(o.word(4), 0xFF7Fu);
  EXPECT_EQ(o.word(5), 0x8180u);
}

TEST(Memory, VectorsOfEight) {
  Outcome o = withShared().run(
      "mov.b32 %r1, 1; mov.b32 %r2, 2; setp.eq.u32 %p1, tid, 0;"
      "@%p1 st.global.v8.b32 [out], {%r1, %r2, %r1, %r2, %r1, %r2, %r1, %r2};"
      "@%p1 ld.global.v8.f32 {%r3, %r4, %r5, %r6, %r7, %r8, %r9, _}, [out];"
      "@%p1 st.global.b32 [out+64], %r8;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(7), 2u);
  EXPECT_EQ(o.word(16), 2u);
}

TEST(Memory, GenericAddressesReachEverySpace) {
  Outcome o = withShared().run(
      ".local .align 4 .b8 depot[8]; mov.b32 %r1, 11; mov.b64 %d1, depot;"
      "cvta.local.u64 %d2, %d1; st.b32 [%d2], %r1; ld.local.b32 %r2, [depot];"
      "mov.b64 %d3, buf; cvta.shared.u64 %d4, %d3; st.b32 [%d4+4], 12;"
      "ld.shared.b32 %r3, [buf+4]; isspacep.shared %p1, %d4;"
      "isspacep.global %p2, %d4; mov.b64 %d5, out; mov.b64 %d6, %d5;"
      "selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2, 0, %p2; or.b32 %r4, %r4, %r5;"
      "st.global.v4.b32 [out], {%r2, %r3, %r4, 0};");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 11u);
  EXPECT_EQ(o.word(1), 12u);
  EXPECT_EQ(o.word(2), 1u);
}

TEST(Memory, LocalMemoryIsEachThreadsOwn) {
  Outcome o = withShared().run(
      ".local .align 4 .b8 depot[8]; st.local.b32 [depot+4], tid;"
      "bar.sync 0; ld.local.b32 %r0, [depot+4]; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  for (unsigned t = 0; t < 32; ++t)
    EXPECT_EQ(o.word(t), t);
}

TEST(Memory, Atomics) {
  Outcome o = withShared().run(
      "setp.eq.u32 %p1, tid, 0; @%p1 st.shared.b32 [buf], 0; bar.sync 0;"
      "atom.shared.add.u32 %r0, [buf], 3; red.shared.max.u32 [buf], 5;"
      "bar.sync 0; ld.shared.b32 %r1, [buf]; @%p1 st.global.b32 [out], %r1;"
      "@%p1 st.shared.b32 [buf], 7;"
      "@%p1 atom.shared.cas.b32 %r2, [buf], 7, 9; @%p1 st.global.b32 [out+4], "
      "%r2;"
      "@%p1 atom.shared.exch.b32 %r3, [buf], 1; @%p1 st.global.b32 [out+8], "
      "%r3;"
      "@%p1 atom.shared.inc.u32 %r4, [buf], 1;"
      "@%p1 atom.shared.add.f32 %r5, [buf], 0f40000000;"
      "@%p1 ld.shared.b32 %r6, [buf]; @%p1 st.global.b32 [out+12], %r6;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 96u);
  EXPECT_EQ(o.word(1), 7u);
  EXPECT_EQ(o.word(2), 9u);
  EXPECT_EQ(o.f32(3), 2.0f);
}

TEST(Memory, GlobalAtomicsOfManyCtas) {
  Snippet s;
  s.grid = 64;
  s.options.threads = 4;
  Outcome o = s.run("setp.eq.u32 %p1, tid, 0; red.global.add.u32 [out], 1;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 0xDEADBEEFu + 64 * 32);
}

TEST(Memory, MatrixLoadsAndStores) {
  // Thread t writes word t of a 8x8 b16 matrix; ldmatrix gives it back, .trans
  // transposes.
  Outcome o = withShared().run(
      "mov.b32 %r1, buf; shl.b32 %r2, tid, 2; add.u32 %r2, %r1, %r2;"
      "shl.b32 %r3, tid, 1; or.b32 %r4, %r3, 1; shl.b32 %r4, %r4, 16;"
      "or.b32 %r4, %r4, %r3; st.shared.b32 [%r2], %r4; bar.sync 0;"
      "and.b32 %r5, tid, 7; shl.b32 %r5, %r5, 4; add.u32 %r5, %r1, %r5;"
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];"
      "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r7}, [%r5];"
      "st.global.b32 [at], %r6; st.global.b32 [at+128], %r7;"
      "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r5], {%r7}; bar.sync 0;"
      "ld.shared.b32 %r8, [%r2]; st.global.b32 [at+256], %r8;");
  EXPECT_EQ(o.errors, "");
  for (unsigned t = 0; t < 32; ++t) {
    unsigned row = t / 4, col = 2 * (t % 4);
    EXPECT_EQ(o.word(t), (2 * t + 1) << 16 | 2 * t);
    EXPECT_EQ(o.word(32 + t), ((col + 1) * 8 + row) << 16 | (col * 8 + row));
    EXPECT_EQ(o.word(64 + t), (2 * t + 1) << 16 | 2 * t);
  }
}

TEST(Memory, DynamicSharedStartsBehindStatic) {
  Snippet s;
  s.moduleText = ".extern .shared .align 1024 .b8 dyn[];\n.shared .b32 a[3];\n";
  s.dynamicShared = 64;
  Outcome o = s.run("mov.b32 %r0, dyn; st.shared.b32 [a], 1;"
                    "st.shared.b32 [dyn+60], 2; st.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 2048u);
  EXPECT_CONTAINS(
      s.run("st.shared.b32 [dyn+64], 2; st.shared.b32 [a], 1;").errors,
      "outside shared memory");
}

} // namespace
