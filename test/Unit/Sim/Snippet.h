//===- Snippet.h - Runs a few PTX instructions in a test --------*- C++ -*-===//
//
// Wraps instructions into an entry whose every thread stores results at
// out[tid], runs it and returns the buffer.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_TEST_UNIT_SIM_SNIPPET_H
#define FLAMIA_TEST_UNIT_SIM_SNIPPET_H

#include "flamia/Sim/Simulator.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace flamia {
namespace sim {

/// What a run gave: the output words, or messages.
struct Outcome {
  std::vector<uint32_t> words;
  std::string errors; ///< Rendered; empty when the run was clean.
  LaunchResult result;

  uint32_t word(size_t k) const { return k < words.size() ? words[k] : 0; }
  float f32(size_t k) const {
    uint32_t w = word(k);
    float f;
    std::memcpy(&f, &w, 4);
    return f;
  }
  uint64_t u64(size_t k) const {
    return word(2 * k) | uint64_t(word(2 * k + 1)) << 32;
  }
};

struct Snippet {
  uint32_t threads = 32;
  uint32_t grid = 1;
  uint32_t dynamicShared = 0;
  size_t words = 1024;
  std::string target = "sm_100a";
  std::string moduleText; ///< Module-level declarations.
  SimOptions options;

  /// A module with one entry `k(.param .u64 out)` whose body is `body`.
  std::string text(const std::string &body) const {
    return ".version 8.8\n.target " + target + "\n.address_size 64\n" +
           moduleText +
           "\n.visible .entry k(.param .u64 result)\n{\n"
           ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>;\n"
           ".reg .b64 %d<32>; .reg .b32 tid; .reg .b64 out, at;\n"
           "ld.param.u64 out, [result];\ncvta.to.global.u64 out, out;\n"
           "mov.u32 tid, %tid.x;\nmul.wide.u32 at, tid, 4;\n"
           "add.u64 at, out, at;\n" +
           body + "\nret;\n}\n";
  }
  Outcome run(const std::string &body) const { return runModule(text(body)); }
  Outcome runModule(const std::string &ptx) const {
    Outcome o;
    auto module = Module::parse(ptx, "test.ptx");
    if (!module) {
      o.errors = llvm::toString(module.takeError());
      return o;
    }
    o.words.assign(words, 0xDEADBEEF);
    DeviceMemory memory;
    LaunchConfig config;
    config.entry = "k";
    config.grid = {grid, 1, 1};
    config.block = {threads, 1, 1};
    config.dynamicShared = dynamicShared;
    config.params.push_back(scalarParam(
        memory.map("out", o.words.data(), words * 4, BufferAccess::ReadWrite)));
    o.result = launch(**module, memory, config, options);
    for (const Diagnostic &d : o.result.errors)
      o.errors += d.render();
    return o;
  }
  /// Runs code that leaves a 32-bit result in %r0; lane 0's value.
  Outcome eval(const std::string &body) const {
    Outcome o = run(body + "\nst.global.b32 [at], %r0;");
    EXPECT_EQ(o.errors, "") << body;
    return o;
  }
  uint32_t eval32(const std::string &body) const { return eval(body).word(0); }
  float evalFloat(const std::string &body) const { return eval(body).f32(0); }
  /// Runs code that leaves a 64-bit result in %d0; lane 0's value.
  uint64_t eval64(const std::string &body) const {
    Outcome o = run(body + "\nsetp.eq.u32 %p15, tid, 0;\n"
                           "@%p15 st.global.b64 [at], %d0;");
    EXPECT_EQ(o.errors, "") << body;
    return o.u64(0);
  }
};

/// 0fXXXXXXXX of a float.
inline std::string hexFloat(float f) {
  uint32_t b;
  std::memcpy(&b, &f, 4);
  char text[16];
  std::snprintf(text, sizeof(text), "0f%08X", b);
  return text;
}

#define EXPECT_CONTAINS(text, part)                                            \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

} // namespace sim
} // namespace flamia

#endif // FLAMIA_TEST_UNIT_SIM_SNIPPET_H
