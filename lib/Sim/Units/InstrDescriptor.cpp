//===- InstrDescriptor.cpp - 32-bit instruction descriptor ----------------===//
//
// facts/tcgen05.md sections 1.3 and 2.
//
//===----------------------------------------------------------------------===//

#include "Message.h"
#include "flamia/Sim/Units/Descriptor.h"

namespace flamia::sim {

const char *toString(MmaKind kind) {
  switch (kind) {
  case MmaKind::F16:
    return "f16";
  case MmaKind::TF32:
    return "tf32";
  case MmaKind::F8F6F4:
    return "f8f6f4";
  case MmaKind::I8:
    return "i8";
  case MmaKind::MXF8F6F4:
    return "mxf8f6f4";
  case MmaKind::MXF4:
    return "mxf4";
  case MmaKind::MXF4NVF4:
    return "mxf4nvf4";
  }
  return "?";
}

const char *toString(OperandType type) {
  switch (type) {
  case OperandType::F16:
    return "f16";
  case OperandType::BF16:
    return "bf16";
  case OperandType::TF32:
    return "tf32";
  case OperandType::E4M3:
    return "e4m3";
  case OperandType::E5M2:
    return "e5m2";
  case OperandType::E2M3:
    return "e2m3";
  case OperandType::E3M2:
    return "e3m2";
  case OperandType::E2M1:
    return "e2m1";
  case OperandType::U8:
    return "u8";
  case OperandType::S8:
    return "s8";
  }
  return "?";
}

bool checkMmaShape(MmaKind kind, unsigned ctaGroup, unsigned m, unsigned n,
                   IssueList &issues) {
  bool mLegal = ctaGroup == 2 ? m == 128 || m == 256
                              : m == 128 || (m == 64 && !isBlockScaled(kind));
  const char *legalM = ctaGroup == 2         ? "128 or 256"
                       : isBlockScaled(kind) ? "128"
                                             : "64 or 128";
  if (!mLegal)
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::%s with cta_group::%u: expected M to be %s, but "
                    "got %u",
                    toString(kind), ctaGroup, legalM, m);

  unsigned step = ctaGroup == 2 ? 16 : 8;
  const char *legalN = ctaGroup == 2 ? "a multiple of 16 from 16 to 256"
                                     : "a multiple of 8 from 8 to 256";
  if (kind == MmaKind::I8) {
    step = ctaGroup == 2 ? 32 : n <= 32 ? 8 : 16;
    legalN = ctaGroup == 2 ? "a multiple of 32 from 32 to 256"
                           : "8, 16, 24, 32 or a multiple of 16 up to 256";
  }
  if (n == 0 || n > 256 || n % step != 0)
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::%s with cta_group::%u: expected N to be %s, but "
                    "got %u",
                    toString(kind), ctaGroup, legalN, n);
  return true;
}

namespace {

/// The descriptor's bits under decoding, for messages.
class Decoder {
public:
  Decoder(uint32_t bits, MmaKind kind, IssueList &issues)
      : bits(bits), kind(kind), issues(issues) {}

  uint32_t field(unsigned first, unsigned last) const {
    return (bits >> first) & ((1u << (last - first + 1)) - 1);
  }

  bool reserved(unsigned first, unsigned last) const {
    uint32_t value = field(first, last);
    if (value == 0)
      return true;
    return complain(issues, IssueKind::IllegalInstruction,
                    "instruction descriptor 0x%08x, kind::%s: expected "
                    "reserved bits %u-%u to be 0, but got %u",
                    bits, toString(kind), first, last, value);
  }

  bool bad(const char *name, uint32_t value, const char *expected) const {
    return complain(issues, IssueKind::IllegalInstruction,
                    "instruction descriptor 0x%08x, kind::%s: expected %s to "
                    "be %s, but got %u",
                    bits, toString(kind), name, expected, value);
  }

  bool operandType(const char *name, uint32_t code, OperandType &type) const;

private:
  uint32_t bits;
  MmaKind kind;
  IssueList &issues;
};

bool Decoder::operandType(const char *name, uint32_t code,
                          OperandType &type) const {
  switch (kind) {
  case MmaKind::F16:
    if (code > 1)
      return bad(name, code, "0 (f16) or 1 (bf16)");
    type = code == 0 ? OperandType::F16 : OperandType::BF16;
    return true;
  case MmaKind::TF32:
    if (code != 2)
      return bad(name, code, "2 (tf32)");
    type = OperandType::TF32;
    return true;
  case MmaKind::I8:
    if (code > 1)
      return bad(name, code, "0 (u8) or 1 (s8)");
    type = code == 0 ? OperandType::U8 : OperandType::S8;
    return true;
  case MmaKind::F8F6F4:
  case MmaKind::MXF8F6F4:
    switch (code) {
    case 0:
      type = OperandType::E4M3;
      return true;
    case 1:
      type = OperandType::E5M2;
      return true;
    case 3:
      type = OperandType::E2M3;
      return true;
    case 4:
      type = OperandType::E3M2;
      return true;
    case 5:
      type = OperandType::E2M1;
      return true;
    default:
      return bad(name, code,
                 "0 (e4m3), 1 (e5m2), 3 (e2m3), 4 (e3m2) or 5 (e2m1)");
    }
  case MmaKind::MXF4:
  case MmaKind::MXF4NVF4:
    if (code != 1)
      return bad(name, code, "1 (e2m1; 5 is its code in mxf8f6f4)");
    type = OperandType::E2M1;
    return true;
  }
  return false;
}

bool decodePlain(const Decoder &decoder, InstrDescriptor &desc) {
  if (!decoder.reserved(0, 1) || !decoder.reserved(6, 6) ||
      !decoder.reserved(23, 23) || !decoder.reserved(29, 29))
    return false;
  if (decoder.field(2, 2))
    return decoder.bad("the sparsity flag (bit 2)", 1, "0 (not modelled)");
  desc.saturate = decoder.field(3, 3);
  if (desc.saturate && desc.kind != MmaKind::I8)
    return decoder.bad("integer saturate (bit 3)", 1, "0");
  if (!decoder.operandType("the A type (bits 7-9)", decoder.field(7, 9),
                           desc.aType) ||
      !decoder.operandType("the B type (bits 10-12)", decoder.field(10, 12),
                           desc.bType))
    return false;
  if (desc.kind == MmaKind::F16 && desc.aType != desc.bType)
    return decoder.bad("the B type (bits 10-12)", decoder.field(10, 12),
                       "the A type");
  uint32_t accum = decoder.field(4, 5);
  bool f16Allowed =
      desc.kind == MmaKind::F8F6F4 ||
      (desc.kind == MmaKind::F16 && desc.aType == OperandType::F16);
  if (desc.kind == MmaKind::I8) {
    if (accum != 2)
      return decoder.bad("the D type (bits 4-5)", accum, "2 (s32)");
    desc.accum = AccumType::S32;
    if (decoder.field(13, 14))
      return decoder.bad("negate (bits 13-14)", decoder.field(13, 14), "0");
  } else {
    if (accum != 1 && !(accum == 0 && f16Allowed))
      return decoder.bad("the D type (bits 4-5)", accum,
                         f16Allowed ? "0 (f16) or 1 (f32)" : "1 (f32)");
    desc.accum = accum == 1 ? AccumType::F32 : AccumType::F16;
  }
  if (decoder.field(30, 31))
    return decoder.bad("the B reuse shift (bits 30-31)", decoder.field(30, 31),
                       "0 (only .ws has one)");
  desc.m = decoder.field(24, 28) << 4;
  return true;
}

bool decodeBlockScaled(const Decoder &decoder, InstrDescriptor &desc,
                       MmaArch arch) {
  bool fourBit = desc.kind != MmaKind::MXF8F6F4;
  if (!decoder.reserved(0, 1) || !decoder.reserved(3, 3) ||
      !decoder.reserved(6, 6) || !decoder.reserved(24, 26) ||
      (fourBit && !decoder.reserved(12, 12)))
    return false;
  if (decoder.field(2, 2))
    return decoder.bad("the sparsity flag (bit 2)", 1, "0 (not modelled)");
  uint32_t bType = fourBit ? decoder.field(10, 11) : decoder.field(10, 12);
  if (!decoder.operandType("the A type (bits 7-9)", decoder.field(7, 9),
                           desc.aType) ||
      !decoder.operandType("the B type (bits 10-12)", bType, desc.bType))
    return false;
  desc.m = decoder.field(27, 28) << 7;

  if (fourBit && decoder.field(31, 31))
    return decoder.bad("K (bit 31)", 1,
                       arch == MmaArch::SM103a
                           ? "0 (K = 64; K = 96 is not modelled)"
                           : "0 (K = 64; K = 96 needs sm_103a)");
  if (!fourBit && !decoder.reserved(31, 31))
    return false;
  if (fourBit && decoder.field(15, 16))
    return decoder.bad("the major-ness of A and B (bits 15-16)",
                       decoder.field(15, 16), "0 (K-major)");

  bool ue4m3Allowed =
      desc.kind == MmaKind::MXF4NVF4 && desc.scaleVec == ScaleVec::X4;
  uint32_t scaleType = decoder.field(23, 23);
  if (scaleType == 0 && !ue4m3Allowed)
    return decoder.bad("the scale type (bit 23)", scaleType, "1 (ue8m0)");
  desc.scaleType = scaleType ? ScaleType::UE8M0 : ScaleType::UE4M3;

  desc.sfaId = decoder.field(29, 30);
  desc.sfbId = decoder.field(4, 5);
  const char *legal = desc.scaleVec == ScaleVec::X2   ? "0 or 2"
                      : desc.scaleVec == ScaleVec::X4 ? "0"
                                                      : "0 to 3";
  unsigned mask = desc.scaleVec == ScaleVec::X2   ? 1
                  : desc.scaleVec == ScaleVec::X4 ? 3
                                                  : 0;
  if (desc.sfaId & mask)
    return decoder.bad("SFA_ID (bits 29-30)", desc.sfaId, legal);
  if (desc.sfbId & mask)
    return decoder.bad("SFB_ID (bits 4-5)", desc.sfbId, legal);
  return true;
}

unsigned kOf(MmaKind kind) {
  switch (kind) {
  case MmaKind::F16:
    return 16;
  case MmaKind::TF32:
    return 8;
  case MmaKind::MXF4:
  case MmaKind::MXF4NVF4:
    return 64;
  default:
    return 32;
  }
}

/// The scale vector the kind really has; complains about an illegal one.
bool resolveScaleVec(MmaKind kind, ScaleVec given, ScaleVec &resolved,
                     IssueList &issues) {
  resolved = given;
  switch (kind) {
  case MmaKind::MXF8F6F4:
    resolved = ScaleVec::X1;
    if (given == ScaleVec::None || given == ScaleVec::X1)
      return true;
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::mxf8f6f4: expected scale vector size 1X (block32)");
  case MmaKind::MXF4:
    resolved = ScaleVec::X2;
    if (given == ScaleVec::None || given == ScaleVec::X2)
      return true;
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::mxf4: expected scale vector size 2X (block32)");
  case MmaKind::MXF4NVF4:
    if (given == ScaleVec::X2 || given == ScaleVec::X4)
      return true;
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::mxf4nvf4: expected scale vector size 2X (block32) "
                    "or 4X (block16)");
  default:
    if (given == ScaleVec::None)
      return true;
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::%s takes no scale vector", toString(kind));
  }
}

} // namespace

bool decodeInstrDescriptor(uint32_t bits, MmaKind kind, ScaleVec scaleVec,
                           unsigned ctaGroup, InstrDescriptor &desc,
                           IssueList &issues, MmaArch arch) {
  desc = InstrDescriptor();
  desc.kind = kind;
  desc.ctaGroup = ctaGroup;
  desc.k = kOf(kind);
  if (kind == MmaKind::I8 && arch == MmaArch::SM103a)
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::i8 does not exist on sm_103a");
  if (!resolveScaleVec(kind, scaleVec, desc.scaleVec, issues))
    return false;

  Decoder decoder(bits, kind, issues);
  desc.negateA = decoder.field(13, 13);
  desc.negateB = decoder.field(14, 14);
  desc.aMnMajor = decoder.field(15, 15);
  desc.bMnMajor = decoder.field(16, 16);
  desc.n = decoder.field(17, 22) << 3;
  bool decoded = isBlockScaled(kind) ? decodeBlockScaled(decoder, desc, arch)
                                     : decodePlain(decoder, desc);
  if (!decoded || !checkMmaShape(kind, ctaGroup, desc.m, desc.n, issues))
    return false;

  bool eightBit = kind == MmaKind::F8F6F4 || kind == MmaKind::MXF8F6F4 ||
                  kind == MmaKind::I8;
  if (desc.bMnMajor && eightBit && desc.n % (16 * ctaGroup) != 0)
    return complain(issues, IssueKind::IllegalInstruction,
                    "kind::%s with MN-major B and cta_group::%u: expected N to "
                    "be a multiple of %u, but got %u",
                    toString(kind), ctaGroup, 16 * ctaGroup, desc.n);
  return true;
}

} // namespace flamia::sim
