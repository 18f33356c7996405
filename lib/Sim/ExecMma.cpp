//===- ExecMma.cpp - mma.sync ---------------------------------------------===//
//
// PTX ISA 9.7.14.5: m16n8 products of f16, bf16, tf32, e4m3, e5m2 and 8-bit
// integers, and m8n8k16 of the latter, which has the upper half of A and C.
// Fragments: with p elements in a 32-bit register, g = lane / 4 and t = lane %
// 4, register r of A holds row g + 8 * (r % 2), columns p * t + 4 * p * (r / 2)
// and up; register r of B holds column g, rows p * t + 4 * p * r and up; C and
// D hold columns 2 * t, 2 * t + 1 of row g and then of row g + 8 (two halves in
// a register for f16).
//
// Sums follow facts/tcgen05.md section 11.1: one fused sum of all K products
// and the accumulator, aligned to the largest exponent with 25 fraction bits.
// That this holds for mma.sync is not documented; on the cases of
// test/Sim/Inputs/peer every type agrees bit for bit with an H200.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"

#include "flamia/Sim/Units/Convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum class Element : uint8_t { F16, BF16, TF32, E4M3, E5M2, S8, U8 };

constexpr unsigned rowCount = 16, columnCount = 8, maxDepth = 32;
enum MmaSyncFlags : uint32_t {
  msDepthMask = 0xff,
  msShiftA = 8, ///< Element of A
  msShiftB = 12,
  msHalf = 1 << 16,     ///< f16 accumulators
  msSaturate = 1 << 17, ///< .satfinite of integers
  msEightRows = 1 << 18,
};

unsigned bitsOf(Element e) {
  switch (e) {
  case Element::F16:
  case Element::BF16:
    return 16;
  case Element::TF32:
    return 32;
  default:
    return 8;
  }
}

/// A value and its exponent in the sense of section 11: subnormals keep the
/// smallest exponent of the format.
struct Term {
  double value = 0;
  int exponent = 0;
};
Term termOf(double value, int smallest) {
  return {value, value == 0 || !std::isfinite(value)
                     ? smallest
                     : std::max(std::ilogb(value), smallest)};
}
Term decode(uint32_t bits, Element e) {
  switch (e) {
  case Element::F16:
    return termOf(bitsToFloat(f16ToF32(uint16_t(bits))), -14);
  case Element::BF16:
    return termOf(bitsToFloat(bits << 16), -126);
  case Element::TF32:
    return termOf(bitsToFloat(bits & 0xFFFFE000), -126);
  case Element::E4M3:
    return termOf(bitsToFloat(narrowToF32(uint8_t(bits), Narrow::E4M3)), -6);
  case Element::E5M2:
    return termOf(bitsToFloat(narrowToF32(uint8_t(bits), Narrow::E5M2)), -14);
  case Element::S8:
    return {double(int8_t(bits)), 0};
  case Element::U8:
    return {double(uint8_t(bits)), 0};
  }
  return {};
}

struct Fragments {
  Term a[rowCount][maxDepth], b[columnCount][maxDepth];
};

/// Reads the registers of A (from `first` on) and of B behind them.
void readFragments(Exec &x, const Instr &i, unsigned first, Fragments &f) {
  auto ea = Element(i.aux >> msShiftA & 15),
       eb = Element(i.aux >> msShiftB & 15);
  unsigned depth = i.aux & msDepthMask, bits = bitsOf(ea), p = 32 / bits;
  uint32_t elementMask = bits == 32 ? ~0u : (1u << bits) - 1;
  unsigned step = i.aux & msEightRows ? 2 : 1; // Register 2r+1 is not there.
  unsigned regsA = depth / (2 * p) / step, regsB = depth / (4 * p);
  for (unsigned r = 0; r < regsA + regsB; ++r) {
    bool isA = r < regsA;
    const uint32_t *s = x.lanes<uint32_t>(x.vec(i, first + r));
    for (unsigned lane = 0; lane < warpLanes; ++lane)
      for (unsigned j = 0; j < p; ++j) {
        uint32_t code = s[lane] >> (j * bits % 32) & elementMask;
        unsigned g = lane / 4, k = p * (lane % 4) + j;
        if (isA)
          f.a[g + 8 * (r * step % 2)][k + 4 * p * (r * step / 2)] =
              decode(code, ea);
        else
          f.b[g][k + 4 * p * (r - regsA)] = decode(code, eb);
      }
  }
}

/// The exact sum of section 11.1, before the final rounding.
double fusedSum(const Term *a, const Term *b, unsigned depth, float c) {
  constexpr int fraction = 25, smallest = -126;
  double products[maxDepth], special = c;
  Term accumulator = termOf(c, smallest);
  int top = accumulator.exponent;
  bool finite = std::isfinite(c);
  for (unsigned k = 0; k < depth; ++k) {
    products[k] = a[k].value * b[k].value;
    top = std::max(top,
                   products[k] == 0 ? smallest : a[k].exponent + b[k].exponent);
    finite &= std::isfinite(products[k]);
    special += products[k];
  }
  if (!finite)
    return special; // infinite or NaN, by the rules of fp64
  double scale = std::ldexp(1.0, fraction - top);
  double sum = std::trunc(accumulator.value * scale);
  bool negative = std::signbit(c);
  for (unsigned k = 0; k < depth; ++k) {
    sum += std::trunc(products[k] * scale);
    negative &= std::signbit(products[k]);
  }
  if (sum == 0)
    return negative ? -0.0 : 0.0;
  return sum * std::ldexp(1.0, top - fraction);
}

/// Toward zero, to infinity from 2^128 on.
uint32_t roundToF32(double value) {
  if (value != value)
    return 0x7FFFFFFF;
  float nearest = float(value);
  if (std::fabs(double(nearest)) > std::fabs(value) &&
      std::fabs(value) < 0x1p128)
    nearest = std::nextafter(nearest, 0.0f);
  return floatToBits(nearest);
}
/// To nearest even: through an f32 whose last bit is sticky.
uint16_t roundToF16(double value) {
  uint32_t bits = roundToF32(value);
  if (std::isfinite(value) && double(bitsToFloat(bits)) != value)
    bits |= 1;
  return f32ToF16(bits);
}

/// Row and column of accumulator element `j` of a lane.
unsigned rowOf(unsigned lane, unsigned j) { return lane / 4 + 8 * (j / 2); }
unsigned columnOf(unsigned lane, unsigned j) { return 2 * (lane % 4) + j % 2; }

Flow mmaFloat(Exec &x, const Instr &i, uint32_t mask) {
  bool half = i.aux & msHalf;
  unsigned regs = half ? 2 : 4, depth = i.aux & msDepthMask;
  Fragments f;
  readFragments(x, i, regs, f);
  uint32_t out[4][warpLanes] = {};
  for (unsigned lane = 0; lane < warpLanes; ++lane)
    for (unsigned j = 0; j < 4; ++j) {
      unsigned place = half ? j / 2 : j, shift = half ? 16 * (j % 2) : 0;
      uint32_t c = x.lanes<uint32_t>(x.vec(i, i.vecCount - regs + place))[lane];
      float addend =
          half ? bitsToFloat(f16ToF32(uint16_t(c >> shift))) : bitsToFloat(c);
      double sum =
          fusedSum(f.a[rowOf(lane, j)], f.b[columnOf(lane, j)], depth, addend);
      out[place][lane] |=
          half ? uint32_t(roundToF16(sum)) << shift : roundToF32(sum);
    }
  for (unsigned r = 0; r < regs; ++r)
    std::memcpy(x.lanes<uint32_t>(x.vec(i, r)), out[r], sizeof(out[r]));
  return Flow::Next;
}

Flow mmaInteger(Exec &x, const Instr &i, uint32_t mask) {
  unsigned depth = i.aux & msDepthMask, regs = i.aux & msEightRows ? 2 : 4;
  Fragments f;
  readFragments(x, i, regs, f);
  uint32_t out[4][warpLanes];
  for (unsigned j = 0; j < regs; ++j) {
    const uint32_t *c = x.lanes<uint32_t>(x.vec(i, i.vecCount - regs + j));
    for (unsigned lane = 0; lane < warpLanes; ++lane) {
      const Term *a = f.a[rowOf(lane, j)], *b = f.b[columnOf(lane, j)];
      int64_t sum = int32_t(c[lane]);
      for (unsigned k = 0; k < depth; ++k)
        sum += int64_t(a[k].value * b[k].value);
      if (i.aux & msSaturate)
        sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int32_t>::max());
      out[j][lane] = uint32_t(sum);
    }
  }
  for (unsigned r = 0; r < regs; ++r)
    std::memcpy(x.lanes<uint32_t>(x.vec(i, r)), out[r], sizeof(out[r]));
  return Flow::Next;
}

bool elementByName(StringRef name, Element &e) {
  static const std::pair<StringRef, Element> names[] = {
      {"f16", Element::F16},   {"bf16", Element::BF16}, {"tf32", Element::TF32},
      {"e4m3", Element::E4M3}, {"e5m2", Element::E5M2}, {"s8", Element::S8},
      {"u8", Element::U8}};
  for (const auto &[known, element] : names)
    if (name == known) {
      e = element;
      return true;
    }
  return false;
}

/// Whether PTX has a product of these types with this K.
bool isForm(Element a, Element b, unsigned k, bool half) {
  switch (a) {
  case Element::F16:
    return b == a && (k == 8 || k == 16);
  case Element::BF16:
    return b == a && (k == 8 || k == 16) && !half;
  case Element::TF32:
    return b == a && (k == 4 || k == 8) && !half;
  case Element::E4M3:
  case Element::E5M2:
    return (b == Element::E4M3 || b == Element::E5M2) && (k == 16 || k == 32);
  case Element::S8:
  case Element::U8:
    return (b == Element::S8 || b == Element::U8) && (k == 16 || k == 32) &&
           !half;
  }
  return false;
}

} // namespace

bool decodeMmaSync(Decoder &d) {
  if (d.base() != "mma")
    return false;
  Instr &o = *d.out;
  bool form = d.take("sync") && d.take("aligned");
  StringRef shape =
      d.takeAny({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k16"});
  bool eight = shape == "m8n8k16";
  form = form && !shape.empty() && d.take("row") && d.take("col");
  bool saturate = d.take("satfinite");
  // What is left: .dtype.atype.btype.ctype.
  Element a = Element::F16, b = Element::F16;
  StringRef sumName = d.takeLast();
  form = form && elementByName(d.takeLast(), b) &&
         elementByName(d.takeLast(), a) && d.takeLast() == sumName;
  Type c = typeByName(sumName);
  form = form && (c == Type::F32 || c == Type::F16 || c == Type::S32);
  unsigned depth = 0;
  form = form && !shape.drop_front(eight ? 5 : 6).getAsInteger(10, depth) &&
         isForm(a, b, depth, c == Type::F16);
  bool integer = a == Element::S8 || a == Element::U8;
  if (!form || (eight && !integer) || integer != (c == Type::S32) ||
      (saturate && !integer)) {
    d.failForm();
    return true;
  }
  o.flags |= flagAligned;
  o.unit = Unit::Tensor;
  o.fn = integer ? mmaInteger : mmaFloat;
  o.aux = depth | uint32_t(a) << msShiftA | uint32_t(b) << msShiftB |
          (c == Type::F16 ? msHalf : 0u) | (saturate ? msSaturate : 0u) |
          (eight ? msEightRows : 0u);
  unsigned perRegister = 32 / bitsOf(a);
  unsigned accumulators = c == Type::F16 || eight ? 2 : 4;
  const unsigned counts[4] = {accumulators,
                              depth / (2 * perRegister) / (eight ? 2 : 1),
                              depth / (4 * perRegister), accumulators};
  if (!d.expectOps(4))
    return true;
  for (unsigned n = 0; n < 4; ++n) {
    const ptx::Operand &v = d.op(n);
    size_t have = v.kind == ptx::Operand::Vector ? v.elems.size() : 1;
    if (have != counts[n]) {
      d.fail("expected " + llvm::Twine(counts[n]) + " registers in operand " +
             llvm::Twine(n + 1) + " of '" + d.in->opcode + "', but got " +
             llvm::Twine(have));
      return true;
    }
    if (n == 0
            ? !d.vectorDst(v, 32)
            : !d.vectorSrc(v, n == 3 && !integer && c == Type::F32 ? Type::F32
                                                                   : Type::B32))
      return true;
  }
  return true;
}

} // namespace sim
} // namespace flamia
