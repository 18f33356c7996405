//===- Sass.cpp - Parsing and classifying machine code --------------------===//

#include "flamia/Model/Sass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

namespace flamia {
namespace model {

using llvm::StringRef;

//===----------------------------------------------------------------------===//
// nvdisasm's text
//===----------------------------------------------------------------------===//

static bool endsBlock(StringRef opcode) {
  StringRef base = opcode.split('.').first;
  return llvm::is_contained({"BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "CALL",
                             "BRXU", "JMXU", "KILL", "BREAK"},
                            base);
}

llvm::Expected<std::vector<SassFunction>> parseSass(StringRef text) {
  std::vector<SassFunction> functions;
  unsigned line = 0;
  bool leader = true;
  llvm::SmallVector<StringRef, 0> lines;
  text.split(lines, '\n');
  for (StringRef row : lines) {
    StringRef s = row.trim();
    if (s.consume_front(".section")) {
      // .section .text.NAME,"ax",@progbits
      s = s.ltrim();
      if (s.consume_front(".text.")) {
        functions.emplace_back();
        functions.back().name = s.split(',').first.trim().str();
        line = 0;
        leader = true;
      }
      continue;
    }
    if (s.consume_front("//## File")) {
      StringRef number = s.split(" line ").second;
      if (number.consumeInteger(10, line))
        line = 0;
      continue;
    }
    if (s.ends_with(":") && !s.starts_with("/*")) {
      leader = true;
      continue;
    }
    if (!s.consume_front("/*") || functions.empty())
      continue;
    auto [address, body] = s.split("*/");
    unsigned value;
    body = body.trim();
    if (address.getAsInteger(16, value) || body.empty() || !body.contains(';'))
      continue;
    body = body.split(';').first.trim();
    if (body.starts_with("@"))
      body = body.split(' ').second.ltrim();
    SassFunction &f = functions.back();
    SassInstruction i;
    auto [opcode, operands] = body.split(' ');
    i.opcode = opcode.str();
    i.operands = operands.trim().str();
    i.line = line;
    if (leader)
      ++f.blocks;
    i.block = f.blocks - 1;
    leader = endsBlock(opcode);
    f.code.push_back(std::move(i));
  }
  llvm::erase_if(functions,
                 [](const SassFunction &f) { return f.code.empty(); });
  if (functions.empty())
    return llvm::createStringError("no machine code in what nvdisasm printed");
  return functions;
}

//===----------------------------------------------------------------------===//
// PTX with its own lines
//===----------------------------------------------------------------------===//

std::string annotatePtx(StringRef ptx) {
  std::string result;
  llvm::SmallVector<StringRef, 0> lines;
  ptx.split(lines, '\n');
  unsigned depth = 0, parens = 0, number = 0;
  bool statementEnded = true, skipping = false;
  for (StringRef row : lines) {
    ++number;
    StringRef s = row.split("//").first.trim();
    // Debug sections hold nothing but data in braces.
    if (!skipping && s.starts_with(".section"))
      skipping = true;
    if (skipping) {
      skipping = !s.contains('}');
      continue;
    }
    if (s.starts_with(".file") || s.starts_with(".loc"))
      continue;
    bool instruction =
        depth && !parens && statementEnded && !s.empty() &&
        (llvm::isAlpha(s[0]) || s[0] == '@' || (s[0] == '{' && s.size() > 1)) &&
        !s.ends_with(":");
    if (instruction)
      result += ".loc 1 " + std::to_string(number) + " 0\n";
    result += row.str() + '\n';
    for (char c : s) {
      depth += c == '{' ? 1 : c == '}' && depth ? -1 : 0;
      parens += c == '(' ? 1 : c == ')' && parens ? -1 : 0;
    }
    if (!s.empty())
      statementEnded = s.ends_with(";") || s.ends_with("{") ||
                       s.ends_with("}") || s.ends_with(":") || s.ends_with(")");
  }
  return result + ".file 1 \"kernel.ptx\"\n";
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

namespace {
enum class Class {
  Mufu,
  Exp2,
  ScalarConvert,
  Fma,
  FmaPacked,
  IntegerMad,
  Alu,
  Convert8,
  Convert16,
  Redux,
  Shuffle,
  Shared,
  Global,
  Tmem,
  Mma,
  Sync,
  Uniform,
  Other
};
} // namespace

static Class classify(StringRef opcode) {
  auto [base, suffix] = opcode.split('.');
  if (base == "MUFU")
    return suffix.starts_with("EX2") ? Class::Exp2 : Class::Mufu;
  if (base == "F2FP")
    // SATFINITE.E4M3.F32..., E2M1, UE8M0: to 8 and 4 bits; E4M3.UNPACK_B from.
    return suffix.contains("UNPACK") || suffix.starts_with("BF16") ||
                   suffix.starts_with("F16") || suffix.starts_with("RELU")
               ? Class::Convert16
               : Class::Convert8;
  if (base.starts_with("UTC") && base.contains("MMA"))
    return Class::Mma;
  return llvm::StringSwitch<Class>(base)
      .Cases({"F2F", "F2I", "I2F", "FRND", "POPC", "FLO", "BREV"},
             Class::ScalarConvert)
      .Cases({"FFMA", "FADD", "FMUL", "FFMA32I", "FADD32I", "FMUL32I", "FHADD",
              "FHFMA"},
             Class::Fma)
      .Cases({"HFMA2", "HADD2", "HMUL2", "HFMA2_32I", "HADD2_32I"}, Class::Fma)
      .Cases({"FFMA2", "FADD2", "FMUL2"}, Class::FmaPacked)
      .Cases({"IMAD", "IMAD32I", "XMAD", "IDP"}, Class::IntegerMad)
      .Cases({"FMNMX", "FMNMX3", "VIMNMX", "VIMNMX3", "IMNMX", "VIADDMNMX"},
             Class::Alu)
      .Cases({"LOP3", "LOP", "PRMT", "SHF", "SHL", "SHR", "SEL", "FSEL"},
             Class::Alu)
      .Cases({"ISETP", "FSETP", "FSET", "IADD3", "IADD", "VIADD", "LEA"},
             Class::Alu)
      .Cases({"MOV", "MOV32I", "PLOP3", "P2R", "R2P", "SGXT", "BMSK"},
             Class::Alu)
      .Cases({"HSETP2", "HSET2", "HMNMX2", "IABS", "I2FP", "FCHK", "CS2R"},
             Class::Alu)
      .Cases({"REDUX", "MATCH"}, Class::Redux)
      .Case("SHFL", Class::Shuffle)
      .Cases({"LDS", "STS", "ATOMS", "LDSM", "STSM"}, Class::Shared)
      .Cases({"LDG", "STG", "LD", "ST", "ATOMG", "ATOM"}, Class::Global)
      .Cases({"RED", "REDG", "LDL", "STL", "LDGSTS", "LDC"}, Class::Global)
      .Cases({"LDTM", "STTM"}, Class::Tmem)
      .Cases({"UTCBAR", "SYNCS", "BAR", "FENCE", "MEMBAR", "DEPBAR"},
             Class::Sync)
      .Cases({"WARPSYNC", "BSYNC", "BSSY", "UTMACMDFLUSH", "ERRBAR"},
             Class::Sync)
      .Default(base.starts_with("U") && !base.starts_with("UTM") &&
                       !base.starts_with("UTC") && !base.starts_with("UBLK")
                   ? Class::Uniform
                   : Class::Other);
}

llvm::StringRef classOf(const SassInstruction &instruction) {
  switch (classify(instruction.opcode)) {
  case Class::Mufu:
  case Class::Exp2:
  case Class::ScalarConvert:
    return "mufu";
  case Class::Fma:
  case Class::FmaPacked:
  case Class::IntegerMad:
    return "fma";
  case Class::Alu:
  case Class::Redux:
    return "alu";
  case Class::Convert8:
  case Class::Convert16:
    return "convert";
  case Class::Shuffle:
  case Class::Shared:
  case Class::Global:
    return "memory";
  case Class::Tmem:
    return "tmem";
  case Class::Mma:
    return "mma";
  case Class::Sync:
    return "sync";
  case Class::Uniform:
    return "uniform";
  case Class::Other:
    return "other";
  }
  return "other";
}

UnitCycles costOf(const SassInstruction &instruction, const Machine &machine) {
  const double lanes = 32;
  UnitCycles u;
  u[Unit::Issue] = lanes / Machine::issue;
  switch (classify(instruction.opcode)) {
  case Class::Exp2:
    u[Unit::Mufu] = lanes / machine.ex2;
    break;
  case Class::Mufu:
    u[Unit::Mufu] = lanes / Machine::mufu;
    break;
  case Class::ScalarConvert:
    u[Unit::Mufu] = lanes / Machine::scalarConvert;
    break;
  case Class::Fma:
    u[Unit::Fma] = lanes / Machine::fma;
    break;
  case Class::FmaPacked:
    u[Unit::Fma] = lanes / Machine::fmaPacked;
    break;
  case Class::IntegerMad:
    u[Unit::Fma] = lanes / Machine::integerMad;
    break;
  case Class::Alu:
    u[Unit::Alu] = lanes / Machine::alu;
    break;
  case Class::Convert8:
    u[Unit::Alu] = lanes / Machine::convert8;
    break;
  case Class::Convert16:
    u[Unit::Alu] = lanes / Machine::convert16;
    break;
  case Class::Redux:
    u[Unit::Alu] = lanes / Machine::redux;
    break;
  case Class::Shuffle:
    u[Unit::Shared] = lanes / Machine::shuffle;
    break;
  case Class::Shared:
  case Class::Global:
  case Class::Tmem:
  case Class::Mma:
  case Class::Sync:
  case Class::Uniform:
  case Class::Other:
    break;
  }
  return u;
}

} // namespace model
} // namespace flamia
