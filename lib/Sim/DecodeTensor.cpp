//===- DecodeTensor.cpp - Forms of the tcgen05 instructions ---------------===//

#include "Decoder.h"
#include "ExecTensor.h"
#include "Machine.h"
#include "MemoryDecode.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

namespace {

TensorInfo &newInfo(Decoder &d) {
  d.out->extra = uint32_t(d.kernel->tensor.size());
  d.kernel->tensor.emplace_back();
  return d.kernel->tensor.back();
}

/// A tensor memory address operand [reg + offset]; 32 bits.
bool tmemAddressOperand(Decoder &d, const ptx::Operand &o, Src &s,
                        int64_t &offset) {
  AddressOperand a;
  if (o.kind == ptx::Operand::Address &&
      o.elems.front().kind == ptx::Operand::Int) {
    s = d.constant(o.elems.front().bits, 32);
    offset = 0;
    return true;
  }
  if (!d.address(o, a))
    return false;
  if (a.wide)
    return d.fail("expected a 32-bit tensor memory address in '" +
                  d.in->opcode + "'");
  s = a.base;
  offset = a.offset;
  return true;
}

/// 1 or 2; 0 (no or another group than the kernel's first, reported) is wrong.
unsigned takeCtaGroup(Decoder &d) {
  unsigned group = d.take("cta_group::1") ? 1 : d.take("cta_group::2") ? 2 : 0;
  if (group && d.kernel->ctaGroup && d.kernel->ctaGroup != group) {
    d.fail("'" + d.in->opcode +
           "' in a kernel whose other tcgen05 "
           "instructions have cta_group::" +
           Twine(d.kernel->ctaGroup));
    return 0;
  }
  if (group)
    d.kernel->ctaGroup = group;
  return group;
}

bool takeSyncAligned(Decoder &d) {
  d.out->flags |= flagAligned;
  return d.take("sync") && d.take("aligned");
}

void decodeAlloc(Decoder &d, StringRef what) {
  Instr &o = *d.out;
  unsigned group = takeCtaGroup(d);
  if (!takeSyncAligned(d) || group == 0) {
    d.failForm();
    return;
  }
  o.flags |= flagEffect;
  if (what == "relinquish_alloc_permit") {
    o.fn = tensorFunction(TensorOp::Relinquish);
    d.expectOps(0);
    return;
  }
  if (what == "dealloc") {
    if (!d.take("b32")) {
      d.failForm();
      return;
    }
    o.fn = tensorFunction(TensorOp::Dealloc);
    if (d.expectOps(2) && d.src(d.op(0), Type::B32, o.src[0]))
      d.src(d.op(1), Type::U32, o.src[1]);
    return;
  }
  o.space =
      d.take("shared::cta") || d.take("shared") ? spaceShared : spaceGeneric;
  if (!d.take("b32")) {
    d.failForm();
    return;
  }
  o.fn = tensorFunction(TensorOp::Alloc);
  bool wide = false;
  if (d.expectOps(2) && d.address(d.op(0), o.src[0], wide))
    d.src(d.op(1), Type::U32, o.src[1]);
  o.aux = (wide ? 1u : 0u) | (group == 2 ? 2u : 0u);
}

/// `.min` or `.max`, `.abs`, `.NaN` and the type of tcgen05.ld.red.
bool takeReduction(Decoder &d, TensorInfo &info) {
  if (d.prog().arch != MmaArch::SM103a)
    return d.fail("'" + d.in->opcode + "' needs .target sm_103a");
  StringRef op = d.takeAny({"min", "max"});
  info.reduce = op == "min" ? TensorInfo::Min : TensorInfo::Max;
  info.reduceAbs = d.take("abs");
  info.reduceNaN = d.take("NaN");
  Type t = info.reduceType = d.takeType();
  bool integer = t == Type::U32 || t == Type::S32;
  return !op.empty() && info.access.num > 1 &&
         (t == Type::F32 || (integer && !info.reduceAbs && !info.reduceNaN));
}

void decodeAccess(Decoder &d, bool load) {
  Instr &o = *d.out;
  o.unit = Unit::Tmem;
  TensorInfo &info = newInfo(d);
  bool red = load && d.take("red");
  bool sync = takeSyncAligned(d);
  static const std::pair<const char *, TmemShape> shapes[] = {
      {"32x32b", TmemShape::S32x32b},
      {"16x64b", TmemShape::S16x64b},
      {"16x128b", TmemShape::S16x128b},
      {"16x256b", TmemShape::S16x256b},
      {"16x32bx2", TmemShape::S16x32bx2}};
  bool found = false;
  for (auto [name, shape] : shapes)
    if (!found && d.take(name)) {
      info.access.shape = shape;
      found = true;
    }
  StringRef num =
      d.takeAny({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
  info.access.pack16 = d.take(load ? "pack::16b" : "unpack::16b");
  bool counted =
      !num.empty() && !num.drop_front().getAsInteger(10, info.access.num);
  bool typed = red ? takeReduction(d, info) : d.take("b32");
  if (!sync || !found || !counted || !typed) {
    d.failForm();
    return;
  }
  unsigned registers = info.access.registers();
  if (registers == 0) {
    d.fail("shape and count of '" + d.in->opcode + "' do not go together");
    return;
  }
  bool two = info.access.shape == TmemShape::S16x32bx2;
  o.aux = load;
  o.fn = tensorFunction(TensorOp::Access);
  o.flags |= load ? flagOwnDefs : flagEffect;
  unsigned place = !load ? 0 : red ? 2 : 1;
  if (!d.expectOps((two ? 3 : 2) + red) ||
      !tmemAddressOperand(d, d.op(place), o.src[0], info.offD))
    return;
  if (red) {
    const ptx::Operand &r = d.op(1);
    bool single = r.kind == ptx::Operand::Vector && r.elems.size() == 1;
    if (!d.dst(single ? r.elems[0] : r, 32, o.dst[0]))
      return;
  }
  if (two) {
    int64_t offset;
    if (!d.immediate(d.op(place + 1), offset, "the second half's offset"))
      return;
    info.access.secondHalf = uint32_t(offset);
  }
  const ptx::Operand &value = d.op(load ? 0 : d.numOps() - 1);
  size_t have = value.kind == ptx::Operand::Vector ? value.elems.size() : 1;
  if (have != registers) {
    d.fail("expected " + Twine(registers) + " registers in '" + d.in->opcode +
           "', but got " + Twine(have));
    return;
  }
  if (load)
    d.vectorDst(value, 32);
  else
    d.vectorSrc(value, Type::B32);
}

void decodeCp(Decoder &d) {
  Instr &o = *d.out;
  TensorInfo &info = newInfo(d);
  unsigned group = takeCtaGroup(d);
  info.mma.ctaGroup = group;
  bool ok = group != 0;
  if (d.take("128x256b"))
    info.cpShape = CpShape::S128x256b;
  else if (d.take("128x128b"))
    info.cpShape = CpShape::S128x128b;
  else if (d.take("4x256b"))
    info.cpShape = CpShape::S4x256b;
  else if (d.take("64x128b")) {
    if (d.take("warpx2::02_13"))
      info.cpShape = CpShape::S64x128b_02_13;
    else if (d.take("warpx2::01_23"))
      info.cpShape = CpShape::S64x128b_01_23;
    else
      ok = false;
  } else if (d.take("32x128b") && d.take("warpx4"))
    info.cpShape = CpShape::S32x128b_warpx4;
  else
    ok = false;
  if (d.take("b8x16")) {
    if (d.take("b6x16_p32"))
      info.cpFormat = CpFormat::B6x16P32;
    else if (d.take("b4x16_p64"))
      info.cpFormat = CpFormat::B4x16P64;
    else
      ok = false;
  }
  if (!ok) {
    d.failForm();
    return;
  }
  o.fn = tensorFunction(TensorOp::Copy);
  if (d.expectOps(2) && tmemAddressOperand(d, d.op(0), o.src[0], info.offD))
    d.src(d.op(1), Type::B64, o.src[1]);
}

void decodeCommit(Decoder &d) {
  Instr &o = *d.out;
  bool ok = takeCtaGroup(d) != 0;
  ok &= d.take("mbarrier::arrive::one");
  d.take("shared::cluster");
  bool multicast = d.take("multicast::cluster");
  ok &= d.take("b64");
  if (!ok) {
    d.failForm();
    return;
  }
  o.fn = tensorFunction(TensorOp::Commit);
  bool wide = false;
  if (!d.expectOps(multicast ? 2 : 1) || !d.address(d.op(0), o.src[0], wide))
    return;
  o.aux = (wide ? 1u : 0u) | (multicast ? 2u : 0u);
  if (multicast)
    d.src(d.op(1), Type::U16, o.src[1]);
}

bool takeKind(Decoder &d, MmaInstruction &m) {
  StringRef kind = d.takePrefix("kind::");
  auto k = llvm::StringSwitch<int>(kind)
               .Case("kind::f16", int(MmaKind::F16))
               .Case("kind::tf32", int(MmaKind::TF32))
               .Case("kind::f8f6f4", int(MmaKind::F8F6F4))
               .Case("kind::i8", int(MmaKind::I8))
               .Case("kind::mxf8f6f4", int(MmaKind::MXF8F6F4))
               .Case("kind::mxf4", int(MmaKind::MXF4))
               .Case("kind::mxf4nvf4", int(MmaKind::MXF4NVF4))
               .Default(-1);
  if (k < 0)
    return false;
  m.kind = MmaKind(k);
  bool scaled = isBlockScaled(m.kind);
  if (d.take("block_scale") != scaled)
    return false;
  StringRef vec = d.takeAny({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X",
                             "block16", "block32"});
  if (vec.empty()) {
    // mxf8f6f4 and mxf4 have one size, mxf4nvf4 must say which.
    return m.kind != MmaKind::MXF4NVF4;
  }
  if (!scaled)
    return false;
  m.scaleVec = vec == "scale_vec::1X"        ? ScaleVec::X1
               : vec == "scale_vec::2X"      ? ScaleVec::X2
               : vec == "scale_vec::4X"      ? ScaleVec::X4
               : vec == "block16"            ? ScaleVec::X4
               : m.kind == MmaKind::MXF8F6F4 ? ScaleVec::X1
                                             : ScaleVec::X2;
  bool legal = m.kind == MmaKind::MXF8F6F4 ? m.scaleVec == ScaleVec::X1
               : m.kind == MmaKind::MXF4   ? m.scaleVec == ScaleVec::X2
                                           : m.scaleVec != ScaleVec::X1;
  return legal;
}

void decodeMma(Decoder &d) {
  Instr &o = *d.out;
  TensorInfo &info = newInfo(d);
  MmaInstruction &m = info.mma;
  m.arch = d.prog().arch;
  m.ctaGroup = takeCtaGroup(d);
  if (d.take("ws") || d.take("sp")) {
    d.fail("weight-stationary and sparse forms are not simulated: '" +
           d.in->opcode + "'");
    return;
  }
  bool ok = m.ctaGroup != 0 && takeKind(d, m);
  // The collector only keeps operands in a buffer.
  StringRef collector = d.takePrefix("collector::a");
  if (!collector.empty())
    ok &= collector == "collector::a::fill" ||
          collector == "collector::a::use" ||
          collector == "collector::a::lastuse" ||
          collector == "collector::a::discard";
  m.aShift = d.take("ashift");
  if (m.aShift &&
      (collector.ends_with("::fill") || collector.ends_with("::use"))) {
    d.fail(".ashift does not go with '." + collector + "' in '" + d.in->opcode +
           "'");
    return;
  }
  if (!ok || d.qualifierLeft()) {
    d.failForm();
    return;
  }
  bool scaled = isBlockScaled(m.kind);
  o.fn = tensorFunction(TensorOp::Mma);
  if (!d.expectOps(scaled ? 7 : 5, 7))
    return;
  if (!tmemAddressOperand(d, d.op(0), o.src[0], info.offD))
    return;
  m.aInTmem = d.op(1).kind == ptx::Operand::Address;
  if (m.aShift && !m.aInTmem) {
    d.fail(".ashift needs A in tensor memory in '" + d.in->opcode + "'");
    return;
  }
  if (m.aInTmem ? !tmemAddressOperand(d, d.op(1), info.a, info.offA)
                : !d.src(d.op(1), Type::B64, info.a))
    return;
  if (!d.src(d.op(2), Type::B64, o.src[1]) ||
      !d.src(d.op(3), Type::B32, o.src[2]))
    return;
  size_t next = 4;
  if (scaled) {
    if (!tmemAddressOperand(d, d.op(4), info.sfa, info.offSfa) ||
        !tmemAddressOperand(d, d.op(5), info.sfb, info.offSfb))
      return;
    next = 6;
  } else if (d.op(4).kind == ptx::Operand::Vector) {
    size_t want = m.ctaGroup == 2 ? 8 : 4;
    if (d.op(4).elems.size() != want) {
      d.fail("expected " + Twine(want) +
             " registers of the lane mask, but got " +
             Twine(d.op(4).elems.size()));
      return;
    }
    if (!d.vectorSrc(d.op(4), Type::B32))
      return;
    m.hasLaneMask = true;
    next = 5;
  }
  if (d.numOps() <= next || d.numOps() > next + (scaled ? 1 : 2)) {
    d.fail("unexpected number of operands of '" + d.in->opcode + "'");
    return;
  }
  if (!d.predSrc(d.op(next), o.src[3], &info.enableNegated))
    return;
  if (d.numOps() == next + 2) {
    int64_t scale;
    if (!d.immediate(d.op(next + 1), scale, "scale-input-d"))
      return;
    if (m.kind != MmaKind::F16 && m.kind != MmaKind::TF32) {
      d.fail("only f16 and tf32 take scale-input-d: '" + d.in->opcode + "'");
      return;
    }
    if (scale < 0 || scale > 15) {
      d.fail("scale-input-d " + Twine(scale) + " is out of range 0..15");
      return;
    }
    m.scaleInputD = unsigned(scale);
  }
}

} // namespace

bool decodeTensor(Decoder &d) {
  if (d.base() != "tcgen05")
    return false;
  Instr &o = *d.out;
  o.unit = Unit::Tensor;
  d.kernel->usesTensor = true;
  StringRef what =
      d.takeAny({"alloc", "dealloc", "relinquish_alloc_permit", "ld", "st",
                 "wait::ld", "wait::st", "cp", "shift", "commit", "mma",
                 "fence::before_thread_sync", "fence::after_thread_sync"});
  if (what == "alloc" || what == "dealloc" ||
      what == "relinquish_alloc_permit") {
    decodeAlloc(d, what);
  } else if (what == "ld" || what == "st") {
    decodeAccess(d, what == "ld");
  } else if (what == "wait::ld" || what == "wait::st") {
    o.unit = Unit::Tmem;
    o.aux = what == "wait::ld";
    o.fn = tensorFunction(TensorOp::Wait);
    if (!takeSyncAligned(d))
      d.failForm();
    d.expectOps(0);
  } else if (what == "cp") {
    o.flags |= flagEffect;
    decodeCp(d);
  } else if (what == "shift") {
    o.flags |= flagEffect;
    TensorInfo &info = newInfo(d);
    info.mma.ctaGroup = takeCtaGroup(d);
    if (!info.mma.ctaGroup || !d.take("down"))
      d.failForm();
    o.fn = tensorFunction(TensorOp::Shift);
    if (!d.failed() && d.expectOps(1))
      tmemAddressOperand(d, d.op(0), o.src[0], info.offD);
  } else if (what == "commit") {
    o.flags |= flagEffect;
    decodeCommit(d);
  } else if (what == "mma") {
    o.flags |= flagEffect;
    decodeMma(d);
  } else if (!what.empty()) {
    o.unit = Unit::Sync;
    o.fn = tensorFunction(TensorOp::Fence);
    d.expectOps(0);
  } else {
    d.failForm();
  }
  return true;
}

} // namespace sim
} // namespace flamia
