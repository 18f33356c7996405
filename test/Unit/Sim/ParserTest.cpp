//===- ParserTest.cpp - PTX text, good and bad ----------------------------===//

#include "Snippet.h"

using namespace flamia::sim;

namespace {

const Snippet s;

/// Runs the same result through another spelling.
void same(const std::string &body) {
  Outcome o = s.run(body + "\nst.global.b32 [at], %r0;");
  EXPECT_EQ(o.errors, "") << body;
  EXPECT_EQ(o.word(0), 1u) << body;
}

TEST(Parser, LegalSpellings) { // SIM-3
  same("bar.sync 0; mov.b32 %r0, 1;");
  same("barrier.sync 0; mov.b32 %r0, 1;");
  same("barrier.cta.sync 0, 32; mov.b32 %r0, 1;");
  same("barrier.cta.sync.aligned 1; mov.b32 %r0, 1;");
  same("bra $L__1; $L__1: mov.b32 %r0, 1;");
  same(".reg .b32 $x, %y, _z; mov.b32 $x, 1; mov.b32 %y, $x; mov.b32 _z, %y;"
       "mov.b32 %r0, _z;");
  same("mov.b32 %r1, 0f3F800000; mov.b64 %d1, 0d3FF0000000000000;"
       "cvt.rzi.s32.f32 %r0, %r1;");
  same("mov.f32 %r1, 1.0; mov.f32 %r2, 1e0; cvt.rzi.s32.f32 %r0, %r1;");
  same("/* a\n comment */ mov.b32 %r0, // another\n 1; /**/");
  same("mov.b32 %r0,\r\n 1;\r\n");
  same("mov.b32 %r0, 0x1U; mov.b32 %r1, 0b11; mov.b32 %r2, 017;");
  same("{ .reg .b32 %r<4>; mov.b32 %r3, 5; L: mov.b32 %r1, %r3; }"
       "{ L: mov.b32 %r0, 1; }");
  same("mov.b32 %r0, 1; ;");
  same("mov.b32 %r0, WARP_SZ; sub.u32 %r0, %r0, 31;");
  same(".loc 1 23 0\n.pragma \"nounroll\"; mov.b32 %r0, 1;");
}

TEST(Parser, RegisterPrefixMayEndInDigits) {
  same(".reg .b32 %ra1<3>, %ra<13>; mov.b32 %ra12, 1; mov.b32 %ra9, 0;"
       "mov.b32 %r0, %ra12;");
}

TEST(Parser, UnknownInstructionIsNamedWithItsLine) {
  Outcome o =
      s.runModule(".version 8.8\n.target sm_100a\n.address_size 64\n"
                  ".entry k(.param .u64 out)\n{\n\n  frobnicate.b32 %r1;\n"
                  "}\n");
  EXPECT_CONTAINS(o.errors, "error");
  Outcome p = s.run(".loc 1 1 1\n\nfrob.b32 %r0, %r1;");
  EXPECT_CONTAINS(p.errors, "unknown instruction 'frob.b32'");
  EXPECT_CONTAINS(p.errors, "test.ptx:");
  EXPECT_CONTAINS(s.run("add.s32.rn %r0, %r1, %r2;").errors, "add.s32.rn");
  EXPECT_CONTAINS(s.run("add.foo.s32 %r0, %r1, %r2;").errors,
                  "unknown qualifier '.foo' of instruction 'add.foo.s32'");
}

TEST(Parser, BadOperandsAreRefused) {
  EXPECT_CONTAINS(s.run("add.s32 %r0, %r1;").errors, "expected 3 operands");
  EXPECT_CONTAINS(s.run("add.s32 %r0, %d1, %r1;").errors,
                  "'%d1' of 'add.s32' has 64 bits, expected 32");
  EXPECT_CONTAINS(s.run("mov.b16 %h0, 70000;").errors, "does not fit 16 bits");
  EXPECT_CONTAINS(s.run("bra nowhere;").errors, "unknown label 'nowhere'");
  EXPECT_CONTAINS(s.run("mov.b32 %r0, nowhere;").errors,
                  "unknown name 'nowhere'");
  EXPECT_CONTAINS(s.run("mov.b32 %r99, 1;").errors, "expected a register");
  EXPECT_CONTAINS(s.run("L: L: mov.b32 %r0, 1;").errors, "defined twice");
  EXPECT_CONTAINS(s.run(".reg .b32 %r<4>;").errors, "declared twice");
  EXPECT_CONTAINS(s.run("call (%r0), f, (%r1);").errors,
                  "expected a '.param' variable in 'call'");
}

TEST(Parser, MalformedTextNeverCrashes) {
  const char *texts[] = {
      "",
      ".version",
      ".version 8.8",
      ".version 8.8\n.target",
      "{",
      "}",
      ".version 8.8\n.target sm_100a\n.entry",
      "/*",
      "\"",
      ".version 8.8\n.target sm_100a\n.entry k(",
      ".version 8.8\n.target sm_100a\n.entry k(){",
      ".version 8.8\n.target sm_100a\n.entry k(){mov.b32 {{{{",
      ".version 8.8\n.target sm_100a\n.entry k(){.reg .b32 %r<99999999999>;}",
      ".version 8.8\n.target sm_100a\n.entry k(){mov.b32 %r, 0x;}",
      ".version 8.8\n.target sm_100a\n.global .b8 x[4294967296] = {1};",
      ".version 8.8\n.target sm_100a\n.shared .align 3 .b8 x[4];",
      ".version 8.8\n.target sm_100a\n.global .b32 x = y;",
      ".version 8.8\n.target sm_zzz\n.entry k(){ret;}",
      ".version 8.8\n.target sm_100a\n.entry k(){@%p bra L;}"};
  for (const char *text : texts)
    EXPECT_NE(s.runModule(text).errors, "") << text;
}

TEST(Parser, ModuleVariablesAreInitialised) {
  Snippet m;
  m.moduleText = ".global .align 4 .u32 table[4] = {3, 5, {7}};\n"
                 ".const .align 8 .b8 bytes[8] = {1, 2, 0xFF};\n"
                 ".global .align 8 .u64 pointer = generic(table)+4;\n"
                 ".global .f32 real = 1.5;\n";
  Outcome o =
      m.run("ld.global.b32 %r0, [table+8]; st.global.b32 [out], %r0;"
            "ld.const.u8 %r1, [bytes+2]; st.global.b32 [out+4], %r1;"
            "ld.global.b64 %d1, [pointer]; ld.b32 %r2, [%d1];"
            "st.global.b32 [out+8], %r2;"
            "ld.global.f32 %r3, [real]; st.global.b32 [out+12], %r3;"
            "ld.global.b32 %r4, [table+12]; st.global.b32 [out+16], %r4;");
  EXPECT_EQ(o.errors, "");
  EXPECT_EQ(o.word(0), 7u);
  EXPECT_EQ(o.word(1), 0xFFu);
  EXPECT_EQ(o.word(2), 5u);
  EXPECT_EQ(o.f32(3), 1.5f);
  EXPECT_EQ(o.word(4), 0u);
}

TEST(Launch, BadConfigurationsAreErrors) {
  auto module = llvm::cantFail(Module::parse(
      ".version 8.8\n.target sm_100a\n"
      ".entry k(.param .u64 a, .param .u32 b) .reqntid 64\n{ret;}",
      "t.ptx"));
  DeviceMemory memory;
  LaunchConfig good;
  good.entry = "k";
  good.block = {64, 1, 1};
  good.params = {scalarParam<uint64_t>(0), scalarParam<uint32_t>(0)};
  EXPECT_TRUE(launch(*module, memory, good, {}).ok());
  auto error = [&](auto change) {
    LaunchConfig c = good;
    change(c);
    LaunchResult r = launch(*module, memory, c, {});
    return r.ok() ? std::string() : r.errors.front().render();
  };
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.entry = "x"; }),
                  "no entry 'x', the module has: k");
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.block[0] = 32; }), ".reqntid");
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.grid[1] = 0; }), "grid y is 0");
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.params.pop_back(); }),
                  "has 2 parameters, but 1 were given");
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.params[1].resize(8); }),
                  "parameter 1 ('b') has 4 bytes, but 8 were given");
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.dynamicShared = 232449; }),
                  "exceeds the limit of 232448");
  EXPECT_CONTAINS(error([](LaunchConfig &c) { c.cluster[0] = 2; }),
                  "no multiple of the cluster");
}

} // namespace
