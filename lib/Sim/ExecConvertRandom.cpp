//===- ExecConvertRandom.cpp - cvt.rs and cvt.pack ------------------------===//
//
// PTX ISA 9.7.9.21 (cvt.rs: which random bits go to which operand) and 9.7.9.22
// (cvt.pack).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "flamia/Sim/Units/Convert.h"

#include <algorithm>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum RandomFlags : uint32_t { rrRelu = 1, rrSatFinite = 2, rrBf16 = 4 };

/// f16x2 and bf16x2: the upper half of the bits goes to a.
Flow randomPair(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]),
                 *bits = x.lanes<uint32_t>(i.src[2]);
  bool relu = i.aux & rrRelu, fin = i.aux & rrSatFinite;
  auto one = i.aux & rrBf16 ? f32ToBf16Stochastic : f32ToF16Stochastic;
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned l) {
    return uint32_t(one(a[l], bits[l] >> 16, relu, fin)) << 16 |
           one(b[l], bits[l] & 0xFFFF, relu, fin);
  });
}

/// Four 8- or 6-bit values: a and b share the upper 16 bits, e and f the lower.
Flow randomBytes(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *in[4];
  for (unsigned k = 0; k < 4; ++k)
    in[k] = x.lanes<uint32_t>(x.vec(i, k));
  const uint32_t *bits = x.lanes<uint32_t>(i.src[0]);
  bool relu = i.aux & rrRelu;
  Narrow format = Narrow(i.imm);
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned l) {
    uint32_t r = 0;
    for (unsigned k = 0; k < 4; ++k)
      r = r << 8 |
          f32ToNarrowStochastic(in[k][l], format,
                                k < 2 ? bits[l] >> 16 : bits[l] & 0xFFFF, relu);
    return r;
  });
}

/// Four 4-bit values: a and b take the upper bytes of both halves, e and f the
/// lower ones.
Flow randomNibbles(Exec &x, const Instr &i, uint32_t mask) {
  const uint32_t *in[4];
  for (unsigned k = 0; k < 4; ++k)
    in[k] = x.lanes<uint32_t>(x.vec(i, k));
  const uint32_t *bits = x.lanes<uint32_t>(i.src[0]);
  bool relu = i.aux & rrRelu;
  return mapLanes<uint16_t>(x, i.dst[0], mask, [&](unsigned l) {
    uint32_t r = 0, v = bits[l];
    uint32_t upper = (v >> 24) << 8 | (v >> 8 & 0xFF);
    uint32_t lower = (v >> 16 & 0xFF) << 8 | (v & 0xFF);
    for (unsigned k = 0; k < 4; ++k)
      r = r << 4 | f32ToNarrowStochastic(in[k][l], Narrow::E2M1,
                                         k < 2 ? upper : lower, relu);
    return uint16_t(r);
  });
}

bool decodeRandom(Decoder &d) {
  Instr &o = *d.out;
  if (d.takeType() != Type::F32)
    return d.failForm();
  StringRef to = d.takeLast();
  bool relu = d.take("relu"), fin = d.take("satfinite");
  o.aux = (relu ? rrRelu : 0u) | (fin ? rrSatFinite : 0u);
  if (to == "f16x2" || to == "bf16x2") {
    o.fn = randomPair;
    o.aux |= to == "bf16x2" ? rrBf16 : 0u;
    return d.expectOps(4) && d.dst(d.op(0), 32, o.dst[0]) &&
           d.src(d.op(1), Type::F32, o.src[0]) &&
           d.src(d.op(2), Type::F32, o.src[1]) &&
           d.src(d.op(3), Type::B32, o.src[2]);
  }
  static const std::pair<const char *, Narrow> formats[] = {
      {"e4m3x4", Narrow::E4M3},
      {"e5m2x4", Narrow::E5M2},
      {"e2m3x4", Narrow::E2M3},
      {"e3m2x4", Narrow::E3M2},
      {"e2m1x4", Narrow::E2M1}};
  for (auto [name, format] : formats) {
    if (to != name)
      continue;
    if (!fin)
      return d.failForm();
    bool nibbles = format == Narrow::E2M1;
    o.fn = nibbles ? randomNibbles : randomBytes;
    o.imm = int64_t(format);
    if (!d.expectOps(3) || !d.dst(d.op(0), nibbles ? 16 : 32, o.dst[0]))
      return false;
    if (d.op(1).kind != ptx::Operand::Vector || d.op(1).elems.size() != 4)
      return d.fail("expected four values in '" + d.in->opcode + "'");
    return d.vectorSrc(d.op(1), Type::F32) &&
           d.src(d.op(2), Type::B32, o.src[0]);
  }
  return d.fail("unknown type '." + to + "' of instruction '" + d.in->opcode +
                "'");
}

enum PackShift : unsigned { pkBits = 0, pkSigned = 8, pkThree = 9 };

int32_t clampTo(int32_t v, unsigned bits, bool isSigned) {
  int32_t hi = int32_t((1u << (bits - (isSigned ? 1 : 0))) - 1);
  return std::clamp(v, isSigned ? -hi - 1 : 0, hi);
}

/// {a, b} saturated to some bits, behind what c holds below.
Flow packIntegers(Exec &x, const Instr &i, uint32_t mask) {
  const int32_t *a = x.lanes<int32_t>(i.src[0]),
                *b = x.lanes<int32_t>(i.src[1]);
  const uint32_t *c = x.lanes<uint32_t>(i.src[2]);
  unsigned bits = i.aux & 0xFF;
  bool isSigned = i.aux >> pkSigned & 1, three = i.aux >> pkThree & 1;
  uint32_t ones = (1u << bits) - 1;
  return mapLanes<uint32_t>(x, i.dst[0], mask, [&](unsigned l) {
    uint32_t hi = uint32_t(clampTo(a[l], bits, isSigned)) & ones,
             lo = uint32_t(clampTo(b[l], bits, isSigned)) & ones;
    uint32_t rest = three ? c[l] << (2 * bits) : 0;
    return rest | hi << bits | lo;
  });
}

bool decodePack(Decoder &d) {
  Instr &o = *d.out;
  bool three = d.lastQualifier() == "b32";
  if (three)
    d.takeLast();
  if (d.takeType() != Type::S32 || !d.take("sat"))
    return d.failForm();
  StringRef to = d.takeLast();
  unsigned bits = 0;
  if (to.empty() || (to[0] != 'u' && to[0] != 's') ||
      to.drop_front().getAsInteger(10, bits))
    return d.failForm();
  bool legal = three ? bits == 2 || bits == 4 || bits == 8 : bits == 16;
  if (!legal)
    return d.failForm();
  o.aux = bits | (to[0] == 's' ? 1u : 0u) << pkSigned |
          (three ? 1u : 0u) << pkThree;
  o.fn = packIntegers;
  if (!d.expectOps(three ? 4 : 3) || !d.dst(d.op(0), 32, o.dst[0]) ||
      !d.src(d.op(1), Type::S32, o.src[0]) ||
      !d.src(d.op(2), Type::S32, o.src[1]))
    return false;
  o.src[2] = o.src[1];
  return !three || d.src(d.op(3), Type::B32, o.src[2]);
}

} // namespace

bool decodeConvertRandom(Decoder &d) {
  if (d.take("rs"))
    decodeRandom(d);
  else if (d.take("pack"))
    decodePack(d);
  else
    return false;
  return true;
}

} // namespace sim
} // namespace flamia
