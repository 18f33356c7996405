//===- Forms.cpp - Instruction forms and kernels made of them -------------===//

#include "Forms.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace hw {

std::vector<Form> readForms(const std::string &path) {
  std::ifstream in(path);
  if (!in) {
    std::printf("cannot read %s\n", path.c_str());
    std::exit(1);
  }
  std::vector<Form> forms;
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream words(line);
    Form f;
    words >> f.domain >> f.result >> std::ws;
    std::getline(words, f.statement);
    forms.push_back(f);
  }
  return forms;
}

/// True when the statement names the register.
static bool names(const Form &f, const std::string &reg) {
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '.' || c == '%';
  };
  const std::string &s = f.statement;
  for (size_t at = s.find(reg); at != std::string::npos;
       at = s.find(reg, at + 1)) {
    size_t end = at + reg.size();
    if ((at == 0 || !isWord(s[at - 1])) && (end == s.size() || !isWord(s[end])))
      return true;
  }
  return false;
}

static const char *const head =
    ".version 8.6\n.target sm_90a\n.address_size 64\n";
static const char *const registers =
    ".reg .pred p, q, p0; .reg .b16 ha, hb, hc, h, h0, h1;\n"
    ".reg .b32 a, b, c, d, e, t, n, i, hash, d0, d1, d2, d3;\n"
    ".reg .b64 A, B, C, D, x, y, D0, D1;\n";

/// b, c, halves and 64-bit inputs from a.
static std::string inputsFromA(const Form &f) {
  bool wideA = names(f, "A"), wideB = names(f, "B"), wideC = names(f, "C");
  std::string s;
  if (names(f, "b") || names(f, "hb") || wideA || wideB || wideC)
    s += "mul.lo.u32 b, a, 0x9E3779B1;\n";
  if (names(f, "c") || names(f, "hc") || wideB || wideC)
    s += "mul.lo.u32 c, a, 0x85EBCA6B; add.u32 c, c, 0x1234567;\n";
  for (auto [half, word] :
       {std::pair("ha", "a"), std::pair("hb", "b"), std::pair("hc", "c")})
    if (names(f, half))
      s += std::string("cvt.u16.u32 ") + half + ", " + word + ";\n";
  if (wideA)
    s += "mov.b64 A, {a, b};\n";
  if (wideB)
    s += "mov.b64 B, {b, c};\n";
  if (wideC)
    s += "mov.b64 C, {c, a};\n";
  return s;
}

/// The result in d, and in e its upper half or 0.
static std::string resultWords(const Form &f, bool upper) {
  std::string zero = upper ? "mov.b32 e, 0;\n" : "";
  if (f.result == "h")
    return "cvt.u32.u16 d, h;\n" + zero;
  if (f.result == "D")
    return "mov.b64 {d, e}, D;\n";
  if (f.result == "p")
    return "selp.u32 d, 1, 0, p;\n" + zero;
  if (f.result == "dp")
    return "selp.u32 e, 1, 0, p;\n";
  return zero;
}

static const char *const threadIndex =
    "mov.u32 i, %ctaid.x; mov.u32 n, %ntid.x; mov.u32 t, %tid.x;\n"
    "mad.lo.u32 i, i, n, t;\n";

std::string hashKernel(const Form &f) {
  std::string fold = "xor.b32 hash, hash, d; mul.lo.u32 hash, hash, "
                     "0x01000193;\n";
  if (f.result == "D" || f.result == "dp")
    fold += "xor.b32 hash, hash, e; mul.lo.u32 hash, hash, 0x01000193;\n";
  std::string one = "{\n" + inputsFromA(f) + f.statement + "\n" +
                    resultWords(f, false) + fold + "add.u32 a, a, t;\n}\n";
  std::string s = std::string(head) +
                  ".visible .entry k(.param .u64 out, .param .u32 first, "
                  ".param .u32 step, .param .u32 count)\n{\n" +
                  registers + threadIndex +
                  "ld.param.u32 n, [count]; ld.param.u32 a, [first];\n"
                  "ld.param.u32 t, [step];\n"
                  "mad.lo.u32 a, i, n, a; mul.lo.u32 a, a, t;\n"
                  "mov.u32 hash, 0;\n"
                  "again:\n";
  for (unsigned k = 0; k < 8; ++k)
    s += one;
  return s + "sub.u32 n, n, 8; setp.ne.u32 q, n, 0; @q bra again;\n"
             "ld.param.u64 x, [out]; mul.wide.u32 y, i, 4; add.u64 x, x, y;\n"
             "st.global.b32 [x], hash; ret;\n}\n";
}

static const char *const storeWords =
    "ld.param.u64 x, [out]; mul.wide.u32 y, i, 8; add.u64 x, x, y;\n"
    "st.global.v2.b32 [x], {d, e}; ret;\n}\n";

std::string valueKernel(const Form &f) {
  return std::string(head) +
         ".visible .entry k(.param .u64 out, .param .u32 first, "
         ".param .u32 step)\n{\n" +
         registers + threadIndex +
         "ld.param.u32 a, [first]; add.u32 a, a, i;\n"
         "ld.param.u32 n, [step]; mul.lo.u32 a, a, n;\n" +
         inputsFromA(f) + f.statement + "\n" + resultWords(f, true) +
         storeWords;
}

std::string randomKernel(const Form &f) {
  return std::string(head) +
         ".visible .entry k(.param .u64 out, .param .u64 in)\n{\n" + registers +
         threadIndex +
         "ld.param.u64 x, [in]; mul.wide.u32 y, i, 24; add.u64 x, x, y;\n"
         "ld.global.b64 A, [x]; ld.global.b64 B, [x+8];\n"
         "ld.global.b64 C, [x+16];\n"
         "cvt.u32.u64 a, A; cvt.u32.u64 b, B; cvt.u32.u64 c, C;\n"
         "cvt.u16.u32 ha, a; cvt.u16.u32 hb, b; cvt.u16.u32 hc, c;\n" +
         f.statement + "\n" + resultWords(f, true) + storeWords;
}

} // namespace hw
