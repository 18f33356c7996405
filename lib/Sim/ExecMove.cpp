//===- ExecMove.cpp - mov, packing and address-space conversion -----------===//
//
// PTX ISA 9.7.9.2 (mov), cvta, isspacep, mapa, getctarank. Moves copy
// definedness: a register that was never written may be moved, but not used.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "ExecControl.h"
#include "Lanes.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

template <typename T>
Flow move(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  T *d = x.lanes<T>(i.dst[0]);
  if (m == allLanes) {
    std::memmove(d, a, sizeof(T) * warpLanes);
    return Flow::Next;
  }
  for (unsigned l = 0; l < warpLanes; ++l)
    d[l] = m >> l & 1 ? a[l] : d[l];
  return Flow::Next;
}
struct Quad {
  uint64_t lo, hi;
};
Flow movePred(Exec &x, const Instr &i, uint32_t m) {
  x.setMask(i.dst[0], x.mask(i.src[0]), m);
  return Flow::Next;
}

/// %is_explicit_cluster: the launch gave a cluster size.
Flow explicitCluster(Exec &x, const Instr &i, uint32_t m) {
  const auto &c = x.launch.config->cluster;
  x.setMask(i.dst[0], c[0] * c[1] * c[2] > 1 ? allLanes : 0, m);
  return Flow::Next;
}

/// Bytes of one lane in a register of so many bits.
unsigned laneBytes(unsigned bits) { return bits <= 16 ? 2 : bits / 8; }

/// dst (aux bits) = concatenation of the elements (imm bits each).
Flow pack(Exec &x, const Instr &i, uint32_t m) {
  unsigned total = laneBytes(i.aux), part = unsigned(i.imm) / 8,
           stride = laneBytes(unsigned(i.imm));
  // The destination may be one of the sources.
  alignas(64) uint8_t out[warpLanes * 16];
  for (unsigned k = 0; k < i.vecCount; ++k) {
    const uint8_t *s = x.at(x.vec(i, k));
    for (unsigned l = 0; l < warpLanes; ++l)
      std::memcpy(out + l * total + k * part, s + l * stride, part);
  }
  uint8_t *d = x.at(i.dst[0]);
  forLanes(m,
           [&](int l) { std::memcpy(d + l * total, out + l * total, total); });
  return Flow::Next;
}
Flow unpack(Exec &x, const Instr &i, uint32_t m) {
  unsigned total = laneBytes(i.aux), part = unsigned(i.imm) / 8,
           stride = laneBytes(unsigned(i.imm));
  alignas(64) uint8_t in[warpLanes * 16];
  std::memcpy(in, x.at(i.src[0]), size_t(total) * warpLanes);
  for (unsigned k = 0; k < i.vecCount; ++k) {
    uint8_t *d = x.at(x.vec(i, k));
    forLanes(m, [&](int l) {
      uint16_t v = 0;
      if (part == 1) {
        v = in[l * total + k];
        std::memcpy(d + l * 2, &v, 2);
      } else {
        std::memcpy(d + l * stride, in + l * total + k * part, part);
      }
    });
  }
  return Flow::Next;
}

/// %clock and the like: a value that grows.
template <typename T>
Flow readClock(Exec &x, const Instr &i, uint32_t m) {
  uint64_t now = 0;
  for (uint64_t n : x.cluster.executed)
    now += n;
  now >>= i.aux;
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned) { return T(now); });
}

/// cvta between a state space and generic addresses: the windows differ by a
/// constant.
template <typename T, bool To>
Flow cvta(Exec &x, const Instr &i, uint32_t m) {
  uint64_t window = uint64_t(i.imm);
  const T *a = x.lanes<T>(i.src[0]);
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    return T(To ? a[l] - window : a[l] + window);
  });
}

bool isConstant(const Program &program, uint64_t address) {
  for (const ModuleVariable &v : program.variables)
    if (v.constant && address >= v.address && address - v.address < v.bytes)
      return true;
  return false;
}

Flow isspacep(Exec &x, const Instr &i, uint32_t m) {
  const uint64_t *a = x.lanes<uint64_t>(i.src[0]);
  uint64_t lo = uint64_t(i.imm);
  const Program &p = *x.launch.program;
  bool global = i.space == spaceGlobal, constant = i.space == spaceConst;
  // shared::cta: only the thread's own part of the cluster's window.
  if (i.space == spaceShared && i.aux)
    lo += uint64_t(x.cta.rank) << 24;
  uint64_t size = i.space == spaceShared && i.aux ? 1u << 24 : windowSize;
  x.setMask(i.dst[0], lanesWhere([&](unsigned l) {
              if (global)
                return a[l] >= moduleBase && !isConstant(p, a[l]);
              if (constant)
                return isConstant(p, a[l]);
              return a[l] >= lo && a[l] < lo + size;
            }),
            m);
  return Flow::Next;
}

/// The shared::cluster address of the same variable in another CTA.
template <typename T>
Flow mapa(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  const uint32_t *rank = x.lanes<uint32_t>(i.src[1]);
  uint32_t bad = m & lanesWhere([&](unsigned l) {
                   return rank[l] >= x.cluster.ctas.size();
                 });
  if (bad)
    return x.fail(i, int(lowestLane(bad)),
                  "rank " + llvm::Twine(rank[lowestLane(bad)]) +
                      " is outside the cluster of " +
                      llvm::Twine(x.cluster.ctas.size()),
                  "bounds");
  return mapLanes<T>(x, i.dst[0], m, [&](unsigned l) {
    return T((a[l] & ~T(0xFF000000)) | T(rank[l]) << 24);
  });
}
template <typename T>
Flow getCtaRank(Exec &x, const Instr &i, uint32_t m) {
  const T *a = x.lanes<T>(i.src[0]);
  return mapLanes<uint32_t>(
      x, i.dst[0], m, [&](unsigned l) { return uint32_t(a[l] >> 24 & 0xFF); });
}

bool decodeVectorMove(Decoder &d, unsigned bits, bool unpacking) {
  const ptx::Operand &vector = d.op(unpacking ? 0 : 1);
  size_t n = vector.elems.size();
  if (bits % n || (n != 2 && n != 4 && n != 8) || bits / n < 8) {
    d.fail("cannot split " + llvm::Twine(bits) + " bits into " +
           llvm::Twine(n) + " elements");
    return true;
  }
  unsigned part = unsigned(bits / n);
  Type whole = bits == 16   ? Type::B16
               : bits == 32 ? Type::B32
               : bits == 64 ? Type::B64
                            : Type::B128;
  Type element = part == 8    ? Type::B8
                 : part == 16 ? Type::B16
                 : part == 32 ? Type::B32
                              : Type::B64;
  d.out->aux = bits;
  d.out->imm = part;
  d.out->copies = Copies::Any;
  if (bits == 64 && part == 32) {
    auto reg = [](const ptx::Operand &o) {
      return o.isReg() ? o.reg : noIndex;
    };
    d.out->copies = unpacking ? Copies::UnpackPair : Copies::PackPair;
    d.out->target = reg(vector.elems[0]);
    d.out->reconverge = reg(vector.elems[1]);
  }
  if (unpacking) {
    d.out->fn = unpack;
    if (d.src(d.op(1), whole, d.out->src[0]))
      d.vectorDst(vector, part);
  } else {
    d.out->fn = pack;
    if (d.dst(d.op(0), bits, d.out->dst[0]))
      d.vectorSrc(vector, element);
  }
  return true;
}

bool decodeMov(Decoder &d) {
  Type t;
  if (!d.needType(t) || !d.expectOps(2))
    return true;
  if (t == Type::Pred) {
    d.out->fn = movePred;
    if (d.op(1).kind == ptx::Operand::Name &&
        d.op(1).name == "%is_explicit_cluster") {
      d.out->fn = explicitCluster;
      d.predDst(d.op(0), d.out->dst[0]);
      return true;
    }
    if (d.predDst(d.op(0), d.out->dst[0]))
      d.predSrc(d.op(1), d.out->src[0]);
    return true;
  }
  unsigned bits = bitsOfType(t);
  if (d.op(0).kind == ptx::Operand::Vector ||
      d.op(1).kind == ptx::Operand::Vector)
    return decodeVectorMove(d, bits, d.op(0).kind == ptx::Operand::Vector);
  if (!d.dst(d.op(0), bits, d.out->dst[0]))
    return true;
  if (d.op(1).kind == ptx::Operand::Name) {
    StringRef n = d.op(1).name;
    uint32_t variable = frameVariable(d, n);
    if (variable != noIndex && bits == 64)
      return decodeFrameAddress(d, variable);
    bool clock32 = n == "%clock" || n == "%globaltimer_lo";
    bool high = n == "%clock_hi" || n == "%globaltimer_hi";
    bool clock64 = n == "%clock64" || n == "%globaltimer";
    if ((clock32 || high) && bits == 32) {
      d.out->aux = high ? 32 : 0;
      d.out->fn = readClock<uint32_t>;
      return true;
    }
    if (clock64 && bits == 64) {
      d.out->fn = readClock<uint64_t>;
      return true;
    }
  }
  if (isFloatType(t) && t != Type::F32 && t != Type::F64)
    return d.failForm() || true;
  Type literal = t;
  // mov.b32 may take any literal of its size, as may mov.f32.
  if (!d.src(d.op(1), literal, d.out->src[0]))
    return true;
  if (bits == 64 && d.op(1).isReg())
    d.out->copies = Copies::Halves;
  d.out->fn = bits <= 16   ? move<uint16_t>
              : bits == 32 ? move<uint32_t>
              : bits == 64 ? move<uint64_t>
                           : move<Quad>;
  return true;
}

bool decodeCvta(Decoder &d) {
  bool to = d.take("to");
  Type t = d.takeType();
  uint64_t window = 0;
  if (d.take("shared") || d.take("shared::cta") || d.take("shared::cluster"))
    window = sharedWindow;
  else if (d.take("local"))
    window = localWindow;
  else if (d.take("param"))
    window = paramWindow;
  else if (!d.take("global") && !d.take("const")) {
    d.failForm();
    return true;
  }
  if (t != Type::U64 && t != Type::S64 && t != Type::B64) {
    d.fail("expected a 64-bit type in '" + d.in->opcode + "'");
    return true;
  }
  d.out->imm = int64_t(window);
  d.out->fn = to ? cvta<uint64_t, true> : cvta<uint64_t, false>;
  if (d.expectOps(2) && d.dst(d.op(0), 64, d.out->dst[0]))
    d.src(d.op(1), Type::B64, d.out->src[0]);
  return true;
}

} // namespace

bool decodeMove(Decoder &d) {
  StringRef base = d.base();
  if (base == "mov")
    return decodeMov(d);
  if (base == "cvta")
    return decodeCvta(d);
  if (base == "isspacep") {
    d.out->space = spaceShared;
    if (d.take("global")) {
      d.out->space = spaceGlobal;
    } else if (d.take("const")) {
      d.out->space = spaceConst;
    } else if (d.take("shared") || d.take("shared::cta")) {
      d.out->imm = int64_t(sharedWindow);
      d.out->aux = 1;
    } else if (d.take("shared::cluster")) {
      d.out->imm = int64_t(sharedWindow);
    } else if (d.take("local")) {
      d.out->space = spaceLocal;
      d.out->imm = int64_t(localWindow);
    } else if (d.take("param") || d.take("param::entry")) {
      d.out->space = spaceParam;
      d.out->imm = int64_t(paramWindow);
    } else {
      d.failForm();
      return true;
    }
    d.out->fn = isspacep;
    if (d.expectOps(2) && d.predDst(d.op(0), d.out->dst[0]))
      d.src(d.op(1), Type::B64, d.out->src[0]);
    return true;
  }
  if (base == "mapa" || base == "getctarank") {
    d.take("shared::cluster");
    Type t = d.takeType();
    bool isMapa = base == "mapa";
    if (t != Type::U32 && t != Type::U64) {
      d.failForm();
      return true;
    }
    bool wide = t == Type::U64;
    d.out->fn = isMapa ? (wide ? mapa<uint64_t> : mapa<uint32_t>)
                       : (wide ? getCtaRank<uint64_t> : getCtaRank<uint32_t>);
    if (d.expectOps(isMapa ? 3 : 2) &&
        d.dst(d.op(0), isMapa ? bitsOfType(t) : 32, d.out->dst[0]) &&
        d.src(d.op(1), t, d.out->src[0]) && isMapa)
      d.src(d.op(2), Type::B32, d.out->src[1]);
    return true;
  }
  return false;
}

} // namespace sim
} // namespace flamia
