//===- Decoder.cpp - Instructions and operands ----------------------------===//

#include "Decoder.h"
#include "ExecControl.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <cstring>

namespace flamia {
namespace sim {

using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;
using ptx::Operand;

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

unsigned Decoder::regBits(const Operand &o) const {
  return o.isReg() ? ptx::bitsOf(fn->registers[o.reg].cls) : 0;
}

uint32_t Decoder::allocRegister(unsigned bits) {
  // 8-bit registers live in 16-bit lanes. Everything but predicates starts on a
  // cache line.
  unsigned bytes = bits == 1 ? 4 : bits <= 16 ? 64 : bits / 8 * warpLanes;
  unsigned align = bits == 1 ? 4 : 64;
  uint32_t off = (kernel->registerBytes + align - 1) & ~(align - 1);
  kernel->registerBytes = off + bytes;
  return off;
}

Src Decoder::scratch(unsigned bits) {
  auto it = scratchPlaces.find(bits);
  if (it == scratchPlaces.end())
    it = scratchPlaces.emplace(bits, allocRegister(bits)).first;
  return {0, it->second};
}

Src Decoder::constant(uint64_t value, unsigned bits, bool sharedAddress) {
  auto key = std::make_pair(value, bits | (sharedAddress ? 256u : 0u));
  auto it = constantPool.find(key);
  if (it != constantPool.end())
    return it->second;
  std::vector<uint8_t> &pool = kernel->constants;
  unsigned laneBytes = bits <= 16 ? 2 : bits / 8;
  unsigned copies = bits == 1 ? 1 : warpLanes;
  if (bits == 1)
    laneBytes = 4;
  unsigned align = bits == 1 ? 4 : 64;
  pool.resize((pool.size() + align - 1) & ~size_t(align - 1));
  Src s = {1, uint32_t(pool.size())};
  pool.resize(pool.size() + copies * laneBytes);
  for (unsigned i = 0; i < copies; ++i)
    std::memcpy(pool.data() + s.off + i * laneBytes, &value,
                laneBytes < 8 ? laneBytes : 8);
  if (sharedAddress)
    kernel->sharedConstants.emplace_back(uint32_t(s.off), uint8_t(laneBytes));
  constantPool.emplace(key, s);
  return s;
}

uint64_t Decoder::immediateBits(const Operand &o, Type type, bool &ok) {
  unsigned bits = bitsOfType(type);
  ok = true;
  if (o.kind == Operand::Float) {
    if (o.single)
      ok = bits == 32 && type != Type::U32 && type != Type::S32;
    if (ok && o.single)
      return o.bits;
    double d;
    std::memcpy(&d, &o.bits, 8);
    if (type == Type::F32) {
      float f = float(d);
      uint32_t b;
      std::memcpy(&b, &f, 4);
      return b;
    }
    ok = ok && (type == Type::F64 || type == Type::B64);
    if (!ok)
      fail("floating-point literal does not fit the type of '" + in->opcode +
           "'");
    return o.bits;
  }
  if (type == Type::F32 || type == Type::F64) {
    // ptxas takes integers only where bits are meant.
    ok = false;
    fail("expected a floating-point literal in '" + in->opcode + "'");
    return 0;
  }
  if (bits < 64) {
    int64_t s = int64_t(o.bits);
    if (s < -(int64_t(1) << (bits - 1)) || s >= (int64_t(1) << bits)) {
      ok = false;
      fail("literal " + Twine(s) + " does not fit " + Twine(bits) +
           " bits in '" + in->opcode + "'");
    }
    return o.bits & ((uint64_t(1) << bits) - 1);
  }
  return o.bits;
}

bool Decoder::dst(const Operand &o, unsigned bits, Src &s, bool wider) {
  if (o.kind == Operand::Sink) {
    s = scratch(bits);
    return true;
  }
  if (!o.isReg())
    return fail("expected a register as destination of '" + in->opcode + "'");
  unsigned have = regBits(o);
  if (have != bits && !(wider && have > bits))
    return fail("destination '" + fn->registers[o.reg].spelling() + "' of '" +
                in->opcode + "' has " + Twine(have) + " bits, expected " +
                Twine(bits));
  s = regPlace(o.reg);
  def(o.reg);
  return true;
}

bool Decoder::src(const Operand &o, Type type, Src &s, bool wider) {
  unsigned bits = bitsOfType(type);
  switch (o.kind) {
  case Operand::Reg: {
    unsigned have = regBits(o);
    if (o.negated)
      return fail("unexpected '!' in '" + in->opcode + "'");
    if (have != bits && !(wider && have > bits && bits > 1))
      return fail("operand '" + fn->registers[o.reg].spelling() + "' of '" +
                  in->opcode + "' has " + Twine(have) + " bits, expected " +
                  Twine(bits));
    s = regPlace(o.reg);
    use(o.reg);
    return true;
  }
  case Operand::Int:
  case Operand::Float: {
    bool ok;
    uint64_t value = immediateBits(o, type, ok);
    if (ok)
      s = constant(value, bits);
    return ok;
  }
  case Operand::Name: {
    if (specialRegister(o.name, bits, s))
      return true;
    if (failed())
      return false;
    uint64_t value;
    ptx::Space space;
    if (!nameValue(o.name, in->scope, value, space))
      return fail("unknown name '" + o.name + "' in '" + in->opcode + "'");
    if (frameVariable(*this, o.name) != noIndex)
      return fail("unexpected use of '" + o.name +
                  "', a local variable of a recursive function, in '" +
                  in->opcode + "': only mov is simulated");
    if (bits < 32)
      return fail("address of '" + o.name + "' does not fit " + Twine(bits) +
                  " bits");
    s = constant(value + uint64_t(o.offset), bits, space == ptx::Space::Shared);
    return true;
  }
  default:
    return fail("unexpected operand of '" + in->opcode + "'");
  }
}

bool Decoder::predDst(const Operand &o, Src &s) { return dst(o, 1, s); }

bool Decoder::predSrc(const Operand &o, Src &s, bool *negated) {
  if (o.kind == Operand::Int) {
    s = predConstant(o.bits != 0);
    if (negated)
      *negated = false;
    return true;
  }
  if (!o.isReg() || regBits(o) != 1)
    return fail("expected a predicate operand of '" + in->opcode + "'");
  if (o.negated && !negated)
    return fail("unexpected '!' in '" + in->opcode + "'");
  if (negated)
    *negated = o.negated;
  s = regPlace(o.reg);
  use(o.reg);
  return true;
}

bool Decoder::immediate(const Operand &o, int64_t &value, const char *what) {
  if (o.kind != Operand::Int)
    return fail(Twine("expected an integer literal for ") + what + " of '" +
                in->opcode + "'");
  value = int64_t(o.bits);
  return true;
}

bool Decoder::address(const Operand &o, Src &s, bool &bits64) {
  if (o.kind != Operand::Address)
    return fail("expected an address operand of '" + in->opcode + "'");
  if (o.elems.size() > 1 && base() != "cp")
    return fail("unexpected coordinates in an address of '" + in->opcode + "'");
  const Operand &b = o.elems.front();
  out->imm = o.offset;
  localAddress = false;
  if (b.isReg()) {
    unsigned bits = regBits(b);
    if (bits != 32 && bits != 64)
      return fail("address register '" + fn->registers[b.reg].spelling() +
                  "' has " + Twine(bits) + " bits, expected 32 or 64");
    bits64 = bits == 64;
    s = regPlace(b.reg);
    use(b.reg);
    return true;
  }
  if (b.kind == Operand::Int) {
    bits64 = true;
    s = constant(b.bits, 64);
    return true;
  }
  if (b.kind == Operand::Name) {
    bits64 = true;
    out->imm = 0; // The name's constant includes the offset.
    uint64_t value;
    ptx::Space space;
    localAddress = nameValue(b.name, in->scope, value, space) &&
                   space == ptx::Space::Local;
    return src(b, Type::B64, s);
  }
  return fail("malformed address operand of '" + in->opcode + "'");
}

bool Decoder::vectorDst(const Operand &o, unsigned bits, bool wider) {
  if (out->vecCount == 0)
    out->vecBegin = uint32_t(kernel->vec.size());
  auto one = [&](const Operand &e) {
    Src s;
    if (!dst(e, bits, s, wider))
      return false;
    kernel->vec.push_back(s);
    ++out->vecCount;
    return true;
  };
  if (o.kind != Operand::Vector)
    return one(o);
  for (const Operand &e : o.elems)
    if (!one(e))
      return false;
  return true;
}

bool Decoder::vectorSrc(const Operand &o, Type type, bool wider) {
  if (out->vecCount == 0)
    out->vecBegin = uint32_t(kernel->vec.size());
  auto one = [&](const Operand &e) {
    Src s;
    if (!src(e, type, s, wider))
      return false;
    kernel->vec.push_back(s);
    ++out->vecCount;
    return true;
  };
  if (o.kind != Operand::Vector)
    return one(o);
  for (const Operand &e : o.elems)
    if (!one(e))
      return false;
  return true;
}

bool Decoder::label(StringRef name, uint32_t &target) {
  for (unsigned s = in->scope;; s = fn->scopes[s].parent) {
    auto it = fn->scopes[s].labels.find(name);
    if (it != fn->scopes[s].labels.end()) {
      target = it->second;
      return true;
    }
    if (s == fn->scopes[s].parent)
      return fail("unknown label '" + name + "'");
  }
}

bool Decoder::nameValue(StringRef name, unsigned scope, uint64_t &value,
                        ptx::Space &space) {
  for (unsigned s = scope;; s = fn->scopes[s].parent) {
    auto it = fn->scopes[s].variables.find(name);
    if (it != fn->scopes[s].variables.end()) {
      value = bodyOffsets[it->second];
      space = fn->variables[it->second].space;
      return true;
    }
    if (s == fn->scopes[s].parent)
      break;
  }
  for (const ptx::Param &p : fn->params)
    if (p.name == name) {
      value = p.offset;
      space = ptx::Space::Param;
      return true;
    }
  auto shared = sharedOffsets.find(name);
  if (shared != sharedOffsets.end()) {
    value = shared->second;
    space = ptx::Space::Shared;
    return true;
  }
  auto global = moduleAddresses.find(name);
  if (global != moduleAddresses.end()) {
    value = global->second;
    space = ptx::Space::Global;
    return true;
  }
  auto code = ast.deviceFunctions.find(name);
  if (code != ast.deviceFunctions.end() &&
      code->second != ptx::ModuleAst::noBody) {
    value = codeBase + code->second * codeStep;
    space = ptx::Space::Global;
    return true;
  }
  return false;
}

bool Decoder::callVariable(const Operand &o, LocalRange &range) {
  for (unsigned s = in->scope; o.kind == Operand::Name;
       s = fn->scopes[s].parent) {
    auto it = fn->scopes[s].variables.find(o.name);
    if (it != fn->scopes[s].variables.end() &&
        fn->variables[it->second].parameter) {
      range = {uint32_t(bodyOffsets[it->second]),
               uint32_t(fn->variables[it->second].bytes)};
      return true;
    }
    if (s == fn->scopes[s].parent)
      break;
  }
  return fail("expected a '.param' variable in '" + in->opcode + "'");
}

bool Decoder::specialRegister(StringRef name, unsigned bits, Src &s) {
  if (!name.starts_with("%"))
    return false;
  auto what = llvm::StringSwitch<int>(name)
                  .Case("%tid.x", int(Special::TidX))
                  .Case("%tid.y", int(Special::TidY))
                  .Case("%tid.z", int(Special::TidZ))
                  .Case("%ntid.x", int(Special::NtidX))
                  .Case("%ntid.y", int(Special::NtidY))
                  .Case("%ntid.z", int(Special::NtidZ))
                  .Case("%ctaid.x", int(Special::CtaidX))
                  .Case("%ctaid.y", int(Special::CtaidY))
                  .Case("%ctaid.z", int(Special::CtaidZ))
                  .Case("%nctaid.x", int(Special::NctaidX))
                  .Case("%nctaid.y", int(Special::NctaidY))
                  .Case("%nctaid.z", int(Special::NctaidZ))
                  .Case("%laneid", int(Special::LaneId))
                  .Case("%warpid", int(Special::WarpId))
                  .Case("%nwarpid", int(Special::NwarpId))
                  .Case("%smid", int(Special::SmId))
                  .Case("%nsmid", int(Special::NsmId))
                  .Case("%gridid", int(Special::GridId))
                  .Case("%clusterid.x", int(Special::ClusterIdX))
                  .Case("%clusterid.y", int(Special::ClusterIdY))
                  .Case("%clusterid.z", int(Special::ClusterIdZ))
                  .Case("%nclusterid.x", int(Special::NclusterIdX))
                  .Case("%nclusterid.y", int(Special::NclusterIdY))
                  .Case("%nclusterid.z", int(Special::NclusterIdZ))
                  .Case("%cluster_ctaid.x", int(Special::ClusterCtaIdX))
                  .Case("%cluster_ctaid.y", int(Special::ClusterCtaIdY))
                  .Case("%cluster_ctaid.z", int(Special::ClusterCtaIdZ))
                  .Case("%cluster_nctaid.x", int(Special::ClusterNctaIdX))
                  .Case("%cluster_nctaid.y", int(Special::ClusterNctaIdY))
                  .Case("%cluster_nctaid.z", int(Special::ClusterNctaIdZ))
                  .Case("%cluster_ctarank", int(Special::ClusterCtaRank))
                  .Case("%cluster_nctarank", int(Special::ClusterNctaRank))
                  .Case("%lanemask_eq", int(Special::LanemaskEq))
                  .Case("%lanemask_le", int(Special::LanemaskLe))
                  .Case("%lanemask_lt", int(Special::LanemaskLt))
                  .Case("%lanemask_ge", int(Special::LanemaskGe))
                  .Case("%lanemask_gt", int(Special::LanemaskGt))
                  .Case("%dynamic_smem_size", int(Special::DynamicSmemSize))
                  .Case("%total_smem_size", int(Special::TotalSmemSize))
                  .Case("%aggr_smem_size", int(Special::AggrSmemSize))
                  .Case("%reserved_smem_offset_begin", int(Special::Zero))
                  .Case("%reserved_smem_offset_end", int(Special::ReservedEnd))
                  .Case("%reserved_smem_offset_cap", int(Special::ReservedEnd))
                  .Case("%current_graph_exec", int(Special::Zero))
                  .Default(-1);
  if (what < 0)
    return false;
  bool wide = what == int(Special::GridId) || name == "%current_graph_exec";
  // %tid.x and the like may also be read as 16 bits.
  if (bits != 32 && bits != 16 && !(wide && bits == 64)) {
    fail("special register '" + name + "' cannot be read as " + Twine(bits) +
         " bits");
    return false;
  }
  std::string key = (name + Twine('/') + Twine(bits)).str();
  auto it = specialPlaces.find(key);
  if (it == specialPlaces.end()) {
    uint32_t off = allocRegister(bits);
    kernel->specials.push_back({Special(what), off, uint8_t(bits / 8)});
    it = specialPlaces.try_emplace(key, Src{0, off}).first;
  }
  s = it->second;
  return true;
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
