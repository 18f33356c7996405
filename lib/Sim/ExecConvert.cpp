//===- ExecConvert.cpp - cvt ----------------------------------------------===//
//
// PTX ISA 9.7.9.21. Bit patterns of the narrow formats come from
// flamia/Sim/Units/Convert.h.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Rounded.h"
#include "flamia/Sim/Units/Convert.h"

#include <cmath>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

// aux of plain conversions: rounding, flags and register widths.
enum RoundCode : uint32_t {
  rNone,
  rRn,
  rRz,
  rRm,
  rRp,
  rRni,
  rRzi,
  rRmi,
  rRpi,
  rRna
};
constexpr uint32_t cvtFtz = 1 << 4, cvtSat = 1 << 5, cvtRelu = 1 << 6,
                   cvtSatFinite = 1 << 7;
constexpr unsigned srcShift = 8, dstShift = 16; ///< Register bits.

inline uint32_t roundOf(const Instr &i) { return i.aux & 15; }
inline unsigned srcBits(const Instr &i) { return i.aux >> srcShift & 0xFF; }
inline unsigned dstBits(const Instr &i) { return i.aux >> dstShift & 0xFF; }

Round unitRound(uint32_t r) {
  switch (r) {
  case rRz:
    return Round::Rz;
  case rRm:
    return Round::Rm;
  case rRp:
    return Round::Rp;
  case rRna:
    return Round::Rna;
  default:
    return Round::Rn;
  }
}
Rounding hostRound(uint32_t r) {
  return r == rRz   ? Rounding::Zero
         : r == rRm ? Rounding::Down
         : r == rRp ? Rounding::Up
                    : Rounding::Near;
}

/// The register's lanes as integers of the source type.
void loadInts(Exec &x, Src s, unsigned regBits, Type type, int64_t *out) {
  unsigned drop = 64 - bitsOfType(type);
  bool isSigned = isSignedType(type);
  auto convert = [&](auto *p) {
    for (unsigned l = 0; l < warpLanes; ++l) {
      uint64_t v = uint64_t(p[l]) << drop;
      out[l] = isSigned ? int64_t(v) >> drop : int64_t(v >> drop);
    }
  };
  if (regBits <= 16)
    convert(x.lanes<uint16_t>(s));
  else if (regBits == 32)
    convert(x.lanes<uint32_t>(s));
  else
    convert(x.lanes<uint64_t>(s));
}

/// Writes integers of the destination type, extended to the register.
void storeInts(Exec &x, const Instr &i, uint32_t mask, const int64_t *in) {
  unsigned drop = 64 - bitsOfType(i.type);
  bool isSigned = isSignedType(i.type);
  auto extend = [&](int64_t v) {
    uint64_t u = uint64_t(v) << drop;
    return isSigned ? uint64_t(int64_t(u) >> drop) : u >> drop;
  };
  unsigned bits = dstBits(i);
  if (bits <= 16)
    mapLanes<uint16_t>(x, i.dst[0], mask,
                       [&](unsigned l) { return uint16_t(extend(in[l])); });
  else if (bits == 32)
    mapLanes<uint32_t>(x, i.dst[0], mask,
                       [&](unsigned l) { return uint32_t(extend(in[l])); });
  else
    mapLanes<uint64_t>(x, i.dst[0], mask,
                       [&](unsigned l) { return extend(in[l]); });
}

Flow intToInt(Exec &x, const Instr &i, uint32_t mask) {
  int64_t v[warpLanes];
  loadInts(x, i.src[0], srcBits(i), i.type2, v);
  if (i.aux & cvtSat) {
    unsigned bits = bitsOfType(i.type);
    bool fromSigned = isSignedType(i.type2), toSigned = isSignedType(i.type);
    for (int64_t &e : v) {
      if (toSigned) {
        int64_t hi = int64_t(~0ull >> (65 - bits)), lo = -hi - 1;
        if (!fromSigned && e < 0)
          e = hi; // An unsigned 64-bit value beyond the range.
        else
          e = e > hi ? hi : e < lo ? lo : e;
      } else {
        uint64_t hi = ~0ull >> (64 - bits);
        if (fromSigned && e < 0)
          e = 0;
        else if (uint64_t(e) > hi)
          e = int64_t(hi);
      }
    }
  }
  storeInts(x, i, mask, v);
  return Flow::Next;
}

/// The source as a double, which holds every value of the smaller formats.
double loadFloat(Exec &x, const Instr &i, unsigned l) {
  bool wide = srcBits(i) == 32;
  auto half = [&] {
    return wide ? uint16_t(x.lanes<uint32_t>(i.src[0])[l])
                : x.lanes<uint16_t>(i.src[0])[l];
  };
  switch (i.type2) {
  case Type::F16:
    return bitsToFloat(f16ToF32(half()));
  case Type::BF16:
    return bitsToFloat(bf16ToF32(half()));
  case Type::F32: {
    float f = x.lanes<float>(i.src[0])[l];
    // .ftz has no effect on conversions to 16 bits (seen on an H200).
    return i.aux & cvtFtz && i.type != Type::F16 ? flush(f) : f;
  }
  default:
    return x.lanes<double>(i.src[0])[l];
  }
}

double roundToInteger(double v, uint32_t mode) {
  switch (mode) {
  case rRni:
    return std::nearbyint(v);
  case rRzi:
    return std::trunc(v);
  case rRmi:
    return std::floor(v);
  case rRpi:
    return std::ceil(v);
  default:
    return v;
  }
}

Flow floatToInt(Exec &x, const Instr &i, uint32_t mask) {
  int64_t v[warpLanes] = {};
  unsigned bits = bitsOfType(i.type);
  bool toSigned = isSignedType(i.type);
  // PTX: NaN gives 0, or the top bit alone when 64-bit types are involved.
  bool topBit = i.type2 == Type::F64 || bits == 64;
  forLanes(mask, [&](int l) {
    double d = roundToInteger(loadFloat(x, i, l), roundOf(i));
    if (d != d) {
      v[l] = topBit ? int64_t(1ull << (bits - 1)) : 0;
      return;
    }
    double limit = std::ldexp(1.0, int(bits) - (toSigned ? 1 : 0));
    if (d >= limit)
      v[l] = toSigned ? int64_t(~0ull >> (65 - bits))
                      : int64_t(~0ull >> (64 - bits));
    else if (toSigned)
      v[l] = d <= -limit ? -int64_t(~0ull >> (65 - bits)) - 1 : int64_t(d);
    else
      v[l] = d <= 0 ? 0 : int64_t(uint64_t(d));
  });
  storeInts(x, i, mask, v);
  return Flow::Next;
}

/// A double rounded to f32 so that another rounding to 16 bits is right.
float roundToOdd(double d) {
  float f = roundedFromDouble(Rounding::Zero, d);
  return double(f) == d || f != f ? f : bitsToFloat(floatToBits(f) | 1);
}

void storeFloat(Exec &x, const Instr &i, unsigned l, double v, bool fromF32) {
  uint32_t mode = roundOf(i);
  bool relu = i.aux & cvtRelu, fin = i.aux & cvtSatFinite;
  if (i.aux & cvtSat)
    v = v > 0 ? (v < 1 ? v : 1) : 0;
  auto storeHalf = [&](uint16_t h) {
    if (dstBits(i) == 32)
      x.lanes<uint32_t>(i.dst[0])[l] = h;
    else
      x.lanes<uint16_t>(i.dst[0])[l] = h;
  };
  switch (i.type) {
  case Type::F16:
  case Type::BF16: {
    float f = fromF32 ? float(v) : roundToOdd(v);
    Round r = unitRound(mode);
    storeHalf(i.type == Type::F16 ? f32ToF16(floatToBits(f), r, relu, fin)
                                  : f32ToBf16(floatToBits(f), r, relu, fin));
    return;
  }
  case Type::F32: {
    float f = canonical(mode == rRn || mode == rNone
                            ? float(v)
                            : roundedFromDouble(hostRound(mode), v));
    x.lanes<float>(i.dst[0])[l] = i.aux & cvtFtz ? flush(f) : f;
    return;
  }
  default:
    x.lanes<double>(i.dst[0])[l] = v;
  }
}

/// NaN between formats. f64 keeps sign and payload, the smaller formats have
/// one NaN, except where nothing is converted (seen on an H200).
void storeNaN(Exec &x, const Instr &i, unsigned l) {
  auto storeHalf = [&](uint16_t h) {
    if (dstBits(i) == 32)
      x.lanes<uint32_t>(i.dst[0])[l] = h;
    else
      x.lanes<uint16_t>(i.dst[0])[l] = h;
  };
  bool saturates = i.aux & cvtSat;
  // Left-aligned sign and payload of the source.
  uint64_t bits;
  unsigned mantissa;
  switch (i.type2) {
  case Type::F64:
    bits = x.lanes<uint64_t>(i.src[0])[l];
    mantissa = 52;
    break;
  case Type::F32:
    bits = x.lanes<uint32_t>(i.src[0])[l];
    mantissa = 23;
    if (i.aux & cvtFtz)
      bits = 0x7FFFFFFF;
    break;
  default:
    bits = srcBits(i) == 32 ? x.lanes<uint32_t>(i.src[0])[l] & 0xFFFF
                            : x.lanes<uint16_t>(i.src[0])[l];
    mantissa = i.type2 == Type::F16 ? 10 : 7;
  }
  bool negative = bits >> (bitsOfType(i.type2) - 1) & 1;
  uint64_t payload =
      (bits & ((1ull << mantissa) - 1)) << (52 - mantissa) | 1ull << 51;
  switch (i.type) {
  case Type::F64:
    x.lanes<uint64_t>(i.dst[0])[l] =
        uint64_t(negative) << 63 | 0x7FFull << 52 | payload;
    return;
  case Type::F32: {
    bool plain = (i.aux & 0xFF) == rNone;
    uint32_t v = 0x7FFFFFFF;
    if (i.type2 == Type::F64)
      v = uint32_t(negative) << 31 | 0x7F800000 | uint32_t(payload >> 29);
    else if (i.type2 == Type::BF16 && plain)
      v = uint32_t(bits) << 16; // Not made quiet.
    else if (i.type2 == Type::F32 && plain)
      v = uint32_t(bits);
    x.lanes<uint32_t>(i.dst[0])[l] = saturates ? 0 : v;
    return;
  }
  default: {
    bool half = i.type == Type::F16;
    uint16_t v = 0x7FFF;
    if (i.type2 == Type::F64)
      v = uint16_t(uint32_t(negative) << 15 | (half ? 0x7C00 : 0x7F80) |
                   uint32_t(payload >> (half ? 42 : 45)));
    storeHalf(saturates ? 0 : v);
  }
  }
}

Flow floatToFloat(Exec &x, const Instr &i, uint32_t mask) {
  bool fromF32 = i.type2 != Type::F64;
  uint32_t mode = roundOf(i);
  forLanes(mask, [&](int l) {
    double v = loadFloat(x, i, l);
    if (v != v)
      storeNaN(x, i, l);
    else
      storeFloat(x, i, l, roundToInteger(v, mode), fromF32);
  });
  return Flow::Next;
}

Flow intToFloat(Exec &x, const Instr &i, uint32_t mask) {
  int64_t v[warpLanes];
  loadInts(x, i.src[0], srcBits(i), i.type2, v);
  bool isSigned = isSignedType(i.type2);
  Rounding mode = hostRound(roundOf(i));
  forLanes(mask, [&](int l) {
    if (i.type == Type::F32) {
      float f = isSigned ? roundedFromInt(mode, v[l])
                         : roundedFromUnsigned(mode, uint64_t(v[l]));
      x.lanes<float>(i.dst[0])[l] = i.aux & cvtSat ? saturate(f) : f;
    } else if (i.type == Type::F64) {
      x.lanes<double>(i.dst[0])[l] =
          isSigned ? roundedDoubleFromInt(mode, v[l])
                   : roundedDoubleFromUnsigned(mode, uint64_t(v[l]));
    } else {
      // Sticky rounding to f32 first, then to the 16-bit format.
      float f = isSigned ? roundedFromInt(Rounding::Zero, v[l])
                         : roundedFromUnsigned(Rounding::Zero, uint64_t(v[l]));
      bool exact = std::fabs(f) < 0x1p24f;
      if (!exact && !(std::fabs(f) >= 0x1p62f))
        exact = int64_t(f) == v[l];
      if (!exact)
        f = bitsToFloat(floatToBits(f) | 1);
      storeFloat(x, i, l, f, true);
    }
  });
  return Flow::Next;
}

// ---- Packed and narrow forms: aux holds the code below and flags.
enum class Packed : uint8_t {
  F32ToHalf2,
  F32ToBf2,
  F32ToNarrow,
  Half2ToNarrow,
  NarrowToHalf2,
  F32ToUe8,
  Bf2ToUe8,
  Ue8ToBf2,
  F32ToTf32
};
constexpr unsigned packedShift = 24;

/// A packed 8- or 16-bit value per lane in 16-bit storage.
void widen(Exec &x, Src s, uint32_t *out) {
  const uint16_t *p = x.lanes<uint16_t>(s);
  for (unsigned l = 0; l < warpLanes; ++l)
    out[l] = p[l];
}

Flow packed(Exec &x, const Instr &i, uint32_t mask) {
  alignas(64) uint32_t out[warpLanes], wide[warpLanes];
  const uint32_t *a = x.lanes<uint32_t>(i.src[0]),
                 *b = x.lanes<uint32_t>(i.src[1]);
  Packed form = Packed(i.aux >> packedShift);
  Round r = unitRound(roundOf(i));
  bool relu = i.aux & cvtRelu, fin = i.aux & cvtSatFinite;
  Narrow format = Narrow(i.imm);
  bool narrowResult = false;
  switch (form) {
  case Packed::F32ToHalf2:
    f32x2ToF16x2(r, relu, fin, a, b, out, warpLanes);
    break;
  case Packed::F32ToBf2:
    f32x2ToBf16x2(r, relu, fin, a, b, out, warpLanes);
    break;
  case Packed::F32ToNarrow:
    f32x2ToNarrowx2(format, relu, a, b, out, warpLanes);
    narrowResult = true;
    break;
  case Packed::Half2ToNarrow:
    f16x2ToNarrowx2(format, relu, a, out, warpLanes);
    narrowResult = true;
    break;
  case Packed::NarrowToHalf2:
    widen(x, i.src[0], wide);
    narrowx2ToF16x2(format, relu, wide, out, warpLanes);
    break;
  case Packed::F32ToUe8:
    f32x2ToUe8m0x2(r, fin, a, b, out, warpLanes);
    narrowResult = true;
    break;
  case Packed::Bf2ToUe8:
    bf16x2ToUe8m0x2(r, fin, a, out, warpLanes);
    narrowResult = true;
    break;
  case Packed::Ue8ToBf2:
    widen(x, i.src[0], wide);
    ue8m0x2ToBf16x2(wide, out, warpLanes);
    break;
  case Packed::F32ToTf32:
    for (unsigned l = 0; l < warpLanes; ++l)
      out[l] = f32ToTf32(a[l], r, relu, fin);
    break;
  }
  if (narrowResult)
    return mapLanes<uint16_t>(x, i.dst[0], mask,
                              [&](unsigned l) { return uint16_t(out[l]); });
  return mapLanes<uint32_t>(x, i.dst[0], mask,
                            [&](unsigned l) { return out[l]; });
}

uint32_t takeRound(Decoder &d) {
  static const std::pair<const char *, uint32_t> table[] = {
      {"rn", rRn},   {"rz", rRz},   {"rm", rRm},   {"rp", rRp},  {"rni", rRni},
      {"rzi", rRzi}, {"rmi", rRmi}, {"rpi", rRpi}, {"rna", rRna}};
  for (auto [name, code] : table)
    if (d.take(name))
      return code;
  return rNone;
}

bool narrowByName(StringRef name, Narrow &format, bool &isFp4) {
  static const std::pair<const char *, Narrow> table[] = {
      {"e4m3x2", Narrow::E4M3},
      {"e5m2x2", Narrow::E5M2},
      {"e2m3x2", Narrow::E2M3},
      {"e3m2x2", Narrow::E3M2},
      {"e2m1x2", Narrow::E2M1}};
  for (auto [n, f] : table)
    if (name == n) {
      format = f;
      isFp4 = f == Narrow::E2M1;
      return true;
    }
  return false;
}

/// Decodes the forms with a packed or narrow type. False when it is a plain
/// one.
bool decodePacked(Decoder &d) {
  StringRef from = d.lastQualifier();
  size_t n = d.in->parts.size();
  StringRef to = n >= 3 ? d.in->parts[n - 2] : StringRef();
  Narrow format = Narrow::E4M3;
  bool fp4 = false;
  Packed form;
  unsigned resultBits = 32, operands = 1;
  Type source = Type::B32;
  if ((to == "f16x2" || to == "bf16x2") && from == "f32") {
    form = to == "f16x2" ? Packed::F32ToHalf2 : Packed::F32ToBf2;
    source = Type::F32;
    operands = 2;
  } else if (narrowByName(to, format, fp4) && from == "f32") {
    form = Packed::F32ToNarrow;
    resultBits = fp4 ? 8 : 16;
    source = Type::F32;
    operands = 2;
  } else if (narrowByName(to, format, fp4) && from == "f16x2") {
    form = Packed::Half2ToNarrow;
    resultBits = fp4 ? 8 : 16;
  } else if (to == "f16x2" && narrowByName(from, format, fp4)) {
    form = Packed::NarrowToHalf2;
    source = fp4 ? Type::B8 : Type::B16;
  } else if (to == "ue8m0x2" && from == "f32") {
    form = Packed::F32ToUe8;
    resultBits = 16;
    source = Type::F32;
    operands = 2;
  } else if (to == "ue8m0x2" && from == "bf16x2") {
    form = Packed::Bf2ToUe8;
    resultBits = 16;
  } else if (to == "bf16x2" && from == "ue8m0x2") {
    form = Packed::Ue8ToBf2;
    source = Type::B16;
  } else if (to == "tf32" && from == "f32") {
    form = Packed::F32ToTf32;
    source = Type::F32;
  } else {
    return false;
  }
  d.take(to);
  d.take(from);
  uint32_t r = takeRound(d);
  bool fin = d.take("satfinite"), relu = d.take("relu");
  // What ptxas takes (facts/tcgen05.md 10.1).
  bool legal;
  switch (form) {
  case Packed::F32ToHalf2:
  case Packed::F32ToBf2:
    legal = r == rRn || r == rRz;
    break;
  case Packed::F32ToNarrow:
  case Packed::Half2ToNarrow:
    legal = r == rRn && fin &&
            (form == Packed::F32ToNarrow ||
             (format != Narrow::E2M3 && format != Narrow::E3M2));
    break;
  case Packed::NarrowToHalf2:
    legal = r == rRn && !fin;
    break;
  case Packed::F32ToUe8:
  case Packed::Bf2ToUe8:
    legal = (r == rRz || r == rRp) && !relu;
    break;
  case Packed::Ue8ToBf2:
    legal = r == rRn && !fin && !relu;
    break;
  default:
    legal = r == rRna || r == rRn || r == rRz;
    break;
  }
  if (!legal) {
    d.fail("illegal rounding or saturation in '" + d.in->opcode + "'");
    return true;
  }
  d.out->aux = r | (fin ? cvtSatFinite : 0u) | (relu ? cvtRelu : 0u) |
               uint32_t(form) << packedShift;
  d.out->imm = int64_t(format);
  d.out->fn = packed;
  if (!d.expectOps(operands + 1) ||
      !d.dst(d.op(0), resultBits, d.out->dst[0]) ||
      !d.src(d.op(1), source, d.out->src[0]))
    return true;
  d.out->src[1] = d.out->src[0];
  if (operands == 2)
    d.src(d.op(2), source, d.out->src[1]);
  return true;
}

} // namespace

bool decodeConvert(Decoder &d) {
  if (d.base() != "cvt")
    return false;
  d.out->unit = Unit::Convert;
  if (decodeConvertRandom(d) || decodePacked(d))
    return true;
  Type from = d.takeType(), to = d.takeType();
  if (from == Type::None || to == Type::None || from == Type::Pred ||
      to == Type::Pred) {
    d.failForm();
    return true;
  }
  auto scalar = [](Type t) {
    return (t >= Type::U8 && t <= Type::S64) || t == Type::F16 ||
           t == Type::BF16 || t == Type::F32 || t == Type::F64;
  };
  if (!scalar(from) || !scalar(to)) {
    d.failForm();
    return true;
  }
  uint32_t aux = takeRound(d);
  aux |= d.take("ftz") ? cvtFtz : 0u;
  aux |= d.take("sat") ? cvtSat : 0u;
  aux |= d.take("relu") ? cvtRelu : 0u;
  aux |= d.take("satfinite") ? cvtSatFinite : 0u;
  bool fromFloat = isFloatType(from), toFloat = isFloatType(to);
  uint32_t r = aux & 15;
  bool integerRound = r >= rRni && r <= rRpi;
  if ((!fromFloat && !toFloat && r != rNone) ||
      (fromFloat && !toFloat && !integerRound) ||
      (!fromFloat && toFloat && (integerRound || r == rNone))) {
    d.fail("illegal rounding modifier in '" + d.in->opcode + "'");
    return true;
  }
  if (aux & cvtSat && from == Type::BF16) {
    d.fail("illegal saturation in '" + d.in->opcode + "'");
    return true;
  }
  d.out->type = to;
  d.out->type2 = from;
  if (!d.expectOps(2))
    return true;
  bool wide = !fromFloat || bitsOfType(from) == 16;
  unsigned have = d.regBits(d.op(1));
  Type literal = from == Type::F16 || from == Type::BF16 ? Type::B16 : from;
  if (!d.src(d.op(1), literal, d.out->src[0], wide) ||
      !d.dst(d.op(0), bitsOfType(to), d.out->dst[0],
             !toFloat || bitsOfType(to) == 16))
    return true;
  unsigned dest = d.regBits(d.op(0));
  if (!have)
    have = bitsOfType(from);
  if (!dest)
    dest = bitsOfType(to);
  d.out->aux = aux | have << srcShift | dest << dstShift;
  d.out->fn = fromFloat ? (toFloat ? floatToFloat : floatToInt)
                        : (toFloat ? intToFloat : intToInt);
  return true;
}

} // namespace sim
} // namespace flamia
