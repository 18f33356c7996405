//===- Decoder.cpp - Instructions and their qualifiers --------------------===//
//
// Operands: DecoderOperands.cpp and DecoderNames.cpp. Modules and functions:
// DecoderModule.cpp.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

unsigned bitsOfType(Type t) {
  switch (t) {
  case Type::None:
    return 0;
  case Type::Pred:
    return 1;
  case Type::B8:
  case Type::U8:
  case Type::S8:
    return 8;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
    return 16;
  case Type::B32:
  case Type::U32:
  case Type::S32:
  case Type::U16x2:
  case Type::S16x2:
  case Type::F16x2:
  case Type::BF16x2:
  case Type::F32:
    return 32;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F32x2:
  case Type::F64:
    return 64;
  case Type::B128:
    return 128;
  }
  return 0;
}

bool isSignedType(Type t) {
  return t == Type::S8 || t == Type::S16 || t == Type::S32 || t == Type::S64 ||
         t == Type::S16x2;
}

bool isFloatType(Type t) { return t >= Type::F16; }

Type typeByName(StringRef name) {
  return llvm::StringSwitch<Type>(name)
      .Case("pred", Type::Pred)
      .Case("b8", Type::B8)
      .Case("b16", Type::B16)
      .Case("b32", Type::B32)
      .Case("b64", Type::B64)
      .Case("b128", Type::B128)
      .Case("u8", Type::U8)
      .Case("u16", Type::U16)
      .Case("u32", Type::U32)
      .Case("u64", Type::U64)
      .Case("s8", Type::S8)
      .Case("s16", Type::S16)
      .Case("s32", Type::S32)
      .Case("s64", Type::S64)
      .Case("u16x2", Type::U16x2)
      .Case("s16x2", Type::S16x2)
      .Case("f16", Type::F16)
      .Case("f16x2", Type::F16x2)
      .Case("bf16", Type::BF16)
      .Case("bf16x2", Type::BF16x2)
      .Case("f32", Type::F32)
      .Case("f32x2", Type::F32x2)
      .Case("f64", Type::F64)
      .Default(Type::None);
}

const char *nameOfUnit(Unit u) {
  static const char *const names[] = {"alu",    "fma",    "xu",      "convert",
                                      "memory", "shared", "control", "sync",
                                      "warp",   "copy",   "tensor",  "tmem"};
  return names[unsigned(u)];
}

bool Decoder::fail(const Twine &message) {
  if (errorText.empty()) {
    errorLine = in ? in->line : fn ? fn->line : 0;
    errorText = message.str();
  }
  return false;
}

bool Decoder::failForm() {
  if (quals.empty())
    return fail("unknown form of instruction '" + in->opcode + "'");
  return fail("unknown qualifier '." + quals.front() + "' of instruction '" +
              in->opcode + "'");
}

bool Decoder::take(StringRef qualifier) {
  for (size_t i = 0; i < quals.size(); ++i)
    if (quals[i] == qualifier) {
      quals.erase(quals.begin() + i);
      return true;
    }
  return false;
}

StringRef Decoder::takeAny(ArrayRef<StringRef> names) {
  for (StringRef name : names)
    if (take(name))
      return name;
  return StringRef();
}

StringRef Decoder::takePrefix(StringRef prefix) {
  for (size_t i = 0; i < quals.size(); ++i)
    if (quals[i].starts_with(prefix)) {
      StringRef q = quals[i];
      quals.erase(quals.begin() + i);
      return q;
    }
  return StringRef();
}

Type Decoder::takeType() {
  if (quals.empty())
    return Type::None;
  Type t = typeByName(quals.back());
  if (t != Type::None)
    quals.pop_back();
  return t;
}

bool Decoder::needType(Type &type) {
  type = takeType();
  if (type != Type::None)
    return true;
  return fail("expected a type at the end of '" + in->opcode + "'");
}

bool Decoder::expectOps(size_t low, size_t high) {
  if (numOps() >= low && numOps() <= high)
    return true;
  if (low == high)
    return fail("expected " + Twine(low) + " operands of '" + in->opcode +
                "', but got " + Twine(numOps()));
  return fail("expected " + Twine(low) + " to " + Twine(high) +
              " operands of '" + in->opcode + "', but got " + Twine(numOps()));
}

uint32_t Decoder::opcodeIndex(StringRef name) {
  auto [it, fresh] =
      opcodeIds.try_emplace(name, uint32_t(program.opcodes.size()));
  if (fresh)
    program.opcodes.push_back(name.str());
  return it->second;
}

bool Decoder::decodeInstruction() {
  uses.clear();
  defs.clear();
  quals.assign(in->parts.begin() + 1, in->parts.end());
  out->line = in->line;
  out->loc = in->loc;
  out->opcode = opcodeIndex(in->opcode);
  if (in->guarded) {
    out->guard = regPlace(in->guard);
    out->guardReg = in->guard;
    out->guardNegated = in->guardNegated;
  }
  using Family = bool (*)(Decoder &);
  static const Family families[] = {
      decodeMove,      decodeInteger,       decodeLogic,      decodeFloat,
      decodeHalf,      decodeMath,          decodeCompare,    decodeConvert,
      decodeControl,   decodeCall,          decodeAsyncStore, decodeMemory,
      decodeAtomic,    decodeMatrix,        decodeWarp,       decodeBarrier,
      decodeMbarrier,  decodeCopy,          decodeTensor,     decodeMmaSync,
      decodeTensorMap, decodeLaunchControl, decodeRegisters};
  bool known = false;
  for (Family family : families) {
    known = family(*this);
    if (known || failed())
      break;
  }
  if (failed())
    return false;
  if (!known)
    return fail("unknown instruction '" + in->opcode + "'");
  if (!quals.empty())
    return failForm();
  if (!checkAvailable())
    return false;
  // Arithmetic on something undefined gives something undefined; the use that
  // matters (address, guard, store, operand of another unit) is the error.
  if (out->unit == Unit::Alu || out->unit == Unit::Fma ||
      out->unit == Unit::Xu || out->unit == Unit::Convert)
    out->flags |= flagCopiesUndef;
  out->useBegin = uint32_t(kernel->regLists.size());
  out->useCount = uint32_t(uses.size());
  kernel->regLists.insert(kernel->regLists.end(), uses.begin(), uses.end());
  out->defBegin = uint32_t(kernel->regLists.size());
  out->defCount = uint32_t(defs.size());
  kernel->regLists.insert(kernel->regLists.end(), defs.begin(), defs.end());
  return true;
}

} // namespace sim
} // namespace flamia
