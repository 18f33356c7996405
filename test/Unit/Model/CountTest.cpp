//===- CountTest.cpp - Machine code and counts ----------------------------===//

#include "flamia/Model/Count.h"

#include "gtest/gtest.h"

using namespace flamia;
using namespace flamia::model;

namespace {

SassInstruction sass(const char *opcode, unsigned line = 0,
                     unsigned block = 0) {
  SassInstruction i;
  i.opcode = opcode;
  i.line = line;
  i.block = block;
  return i;
}

TEST(Sass, ParsesWhatNvdisasmPrints) {
  auto functions = parseSass(R"(	.target	sm_100a
//--------------------- .text.k       --------------------------
	.section	.text.k,"ax",@progbits
        .size           k,(.L_x_1 - k)
k:
.text.k:
	//## File "kernel.ptx", line 12
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
	//## File "kernel.ptx", line 13 inlined at "kernel.ptx", line 9
        /*0010*/              @!P0 BRA `(.L_x_0) ;
        /*0020*/                   MUFU.EX2 R2, R3 ;
.L_x_0:
        /*0030*/              @P1  EXIT ;
        /*0040*/                   BRA `(.L_x_0) ;
.L_x_1:
)");
  ASSERT_TRUE(bool(functions));
  ASSERT_EQ(functions->size(), 1u);
  const SassFunction &f = functions->front();
  EXPECT_EQ(f.name, "k");
  ASSERT_EQ(f.code.size(), 5u);
  EXPECT_EQ(f.blocks, 4u);
  EXPECT_EQ(f.code[0].line, 12u);
  EXPECT_EQ(f.code[1].opcode, "BRA");
  EXPECT_EQ(f.code[2].opcode, "MUFU.EX2");
  EXPECT_EQ(f.code[2].operands, "R2, R3");
  EXPECT_EQ(f.code[2].line, 13u);
  EXPECT_EQ(f.code[2].block, 1u);
  EXPECT_EQ(f.code[3].opcode, "EXIT");
  EXPECT_EQ(f.code[4].block, 3u);
}

TEST(Sass, NoCodeIsAnError) {
  auto functions = parseSass("nothing here");
  ASSERT_FALSE(bool(functions));
  EXPECT_EQ(llvm::toString(functions.takeError()),
            "no machine code in what nvdisasm printed");
}

TEST(Sass, AnnotatesInstructionsOnly) {
  EXPECT_EQ(annotatePtx(".version 8.8\n"
                        ".visible .entry k(\n"
                        "  .param .u64 p\n"
                        ")\n"
                        "{\n"
                        "  .reg .b32 %r<3>;\n"
                        "$L0:\n"
                        "  .loc 1 7 0\n"
                        "  mov.u32 %r1,\n"
                        "    %tid.x;\n"
                        "  @%p bra $L0; // back\n"
                        "  { .reg .b32 t; add.u32 t, %r1, 1; }\n"
                        "}\n"
                        ".file 1 \"x.py\"\n"
                        ".section .debug_abbrev\n"
                        "{\n"
                        ".b8 1\n"
                        "}"),
            ".version 8.8\n"
            ".visible .entry k(\n"
            "  .param .u64 p\n"
            ")\n"
            "{\n"
            "  .reg .b32 %r<3>;\n"
            "$L0:\n"
            ".loc 1 9 0\n"
            "  mov.u32 %r1,\n"
            "    %tid.x;\n"
            ".loc 1 11 0\n"
            "  @%p bra $L0; // back\n"
            ".loc 1 12 0\n"
            "  { .reg .b32 t; add.u32 t, %r1, 1; }\n"
            "}\n"
            ".file 1 \"kernel.ptx\"\n");
}

TEST(Sass, Costs) {
  const Machine &b200 = Machine::b200(), &b300 = Machine::b300();
  EXPECT_EQ(costOf(sass("MUFU.EX2"), b200)[Unit::Mufu], 2);
  EXPECT_EQ(costOf(sass("MUFU.EX2"), b300)[Unit::Mufu], 1);
  EXPECT_EQ(costOf(sass("MUFU.RCP"), b300)[Unit::Mufu], 2);
  EXPECT_EQ(costOf(sass("FFMA"), b200)[Unit::Fma], 0.25);
  EXPECT_EQ(costOf(sass("FFMA2"), b200)[Unit::Fma], 0.5);
  EXPECT_EQ(costOf(sass("FMNMX3"), b200)[Unit::Alu], 0.5);
  // Shuffles pass where shared memory is read, not in an arithmetic unit.
  EXPECT_EQ(costOf(sass("SHFL.BFLY"), b200)[Unit::Shared], 1);
  EXPECT_EQ(costOf(sass("SHFL.BFLY"), b200)[Unit::Alu], 0);
  EXPECT_EQ(costOf(sass("REDUX.MAX"), b200)[Unit::Alu], 1);
  EXPECT_EQ(
      costOf(sass("F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C"), b200)[Unit::Alu],
      1);
  EXPECT_EQ(costOf(sass("F2FP.BF16.F32.PACK_AB"), b200)[Unit::Alu], 0.5);
  EXPECT_EQ(costOf(sass("UTCQMMA"), b200).bound(), 0.25); // An issue slot.
  EXPECT_EQ(classOf(sass("UTCQMMA.2CTA")), "mma");
  EXPECT_EQ(classOf(sass("LDTM.x32")), "tmem");
  EXPECT_EQ(classOf(sass("UIADD3.X")), "uniform");
}

TEST(Count, TensorMemoryBytes) {
  EXPECT_EQ(tmemBytes("tcgen05.ld.sync.aligned.32x32b.x32.b32"), 4096);
  EXPECT_EQ(tmemBytes("tcgen05.st.sync.aligned.16x256b.x2.b32"), 1024);
  EXPECT_EQ(tmemBytes("tcgen05.wait::ld.sync.aligned"), 0);
}

/// A loop of two lines (10, 11) that runs n times after line 5.
sim::Profile loopProfile(uint64_t n) {
  sim::Profile p;
  p.code = {{5, "mov.u32", 0}, {10, "ex2.approx.ftz.f32", 0}, {11, "bra", 0}};
  p.executed = {{1, n, n}};
  p.ctas.resize(1);
  p.ctas[0].warps.resize(1);
  return p;
}

SassFunction loopCode() {
  SassFunction f;
  f.name = "k";
  f.blocks = 2;
  // An instruction of the loop was hoisted; the anchor decides for the loop.
  f.code = {sass("MOV", 5, 0),       sass("LOP3", 10, 0), sass("IADD3", 5, 0),
            sass("MUFU.EX2", 10, 1), sass("IADD3", 5, 1), sass("LEA", 5, 1),
            sass("BRA", 11, 1)};
  return f;
}

TEST(Count, BlocksRunAsOftenAsTheirAnchors) {
  SassFunction code = loopCode();
  BlockCounts blocks(code, loopProfile(7));
  EXPECT_EQ(blocks.of(code.code[0], 0), 1);
  EXPECT_EQ(blocks.of(code.code[1], 0), 1);
  for (unsigned k = 3; k < 7; ++k)
    EXPECT_EQ(blocks.of(code.code[k], 0), 7);
}

TEST(Count, SeparatesTilesFromRows) {
  SassFunction code = loopCode();
  // Rows of 3 and 5 tiles; every tile runs the loop twice, every row once more.
  ProfiledLaunch small, large;
  small.profile = loopProfile(2 * 6 + 3);
  small.tiles = 6;
  small.rows = 3;
  large.profile = loopProfile(2 * 15 + 5);
  large.tiles = 15;
  large.rows = 5;
  small.profile.executed[0][0] = 3;
  large.profile.executed[0][0] = 5;
  auto counts = count(code, small, large, Machine::b200());
  ASSERT_TRUE(bool(counts));
  ASSERT_EQ(counts->tile.roles.size(), 1u);
  EXPECT_NEAR(counts->tile.units()[Unit::Mufu], 2 * 2, 1e-9);
  EXPECT_NEAR(counts->row.units()[Unit::Mufu], 2, 1e-9);
  EXPECT_NEAR(counts->tile.roles[0].instructions, 2 * 4, 1e-9);
  EXPECT_NEAR(counts->row.roles[0].instructions, 3 + 4, 1e-9);
  ASSERT_EQ(counts->agreement.size(), 1u);
  EXPECT_EQ(counts->agreement[0].ptx, counts->agreement[0].sass);

  large.tiles = 10; // In proportion to the rows.
  auto refused = count(code, small, large, Machine::b200());
  ASSERT_FALSE(bool(refused));
  EXPECT_EQ(llvm::toString(refused.takeError()),
            "launches of 6 tiles in 3 rows and 10 tiles in 5 rows do not tell "
            "tiles from rows");
}

} // namespace
