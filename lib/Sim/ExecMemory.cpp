//===- ExecMemory.cpp - ld, st --------------------------------------------===//
//
// PTX ISA 9.7.9.8-12. All lanes' accesses happen in lane order; caches, cache
// hints and memory ordering have no effect on values here.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Hazard.h"
#include "Lanes.h"
#include "MemoryDecode.h"
#include "Profiler.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

bool takeSpace(Decoder &d, uint8_t &space) {
  static const std::pair<const char *, AddrSpace> table[] = {
      {"global", spaceGlobal},
      {"const", spaceConst},
      {"shared", spaceShared},
      {"shared::cta", spaceShared},
      {"shared::cluster", spaceSharedCluster},
      {"local", spaceLocal},
      {"param", spaceParam},
      {"param::entry", spaceParam},
      {"param::func", spaceParam}};
  space = spaceGeneric;
  for (auto [name, s] : table)
    if (d.take(name)) {
      space = s;
      return true;
    }
  return false;
}

void takeMemoryHints(Decoder &d, bool &policy) {
  policy = false;
  bool more = true;
  while (more) {
    more = false;
    for (const char *name :
         {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel",
          "sc",   "mmio",     "cta",     "cluster", "gpu",     "sys",
          "ca",   "cg",       "cs",      "lu",      "cv",      "wb",
          "wt",   "nc",       "unified"})
      more |= d.take(name);
    StringRef hint = d.takePrefix("L1::");
    if (hint.empty())
      hint = d.takePrefix("L2::");
    if (!hint.empty()) {
      more = true;
      policy |= hint == "L2::cache_hint";
    }
  }
}

namespace {

Bytes loadCounter(uint8_t space) {
  switch (space) {
  case spaceShared:
  case spaceSharedCluster:
    return Bytes::SharedLoad;
  case spaceLocal:
    return Bytes::LocalLoad;
  case spaceParam:
  case spaceConst:
    return Bytes::ParamLoad;
  default:
    return Bytes::GlobalLoad;
  }
}

/// Memory element to register: E bytes, extended to the register's R.
template <typename E, typename R>
Flow load(Exec &x, const Instr &i, uint32_t mask) {
  unsigned count = i.vecCount, total = count * sizeof(E);
  const Src base = i.src[0];
  bool wide = i.aux & 1;
  uint64_t address[warpLanes];
  const uint8_t *from[warpLanes];
  // Addresses first: a destination may be the address register.
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    address[l] = x.addressOf(i, base, wide, l);
    from[l] = x.resolve(i, i.space, address[l], total, Exec::Load, l);
    if (!from[l] || !x.requireDefined(i, i.space, address[l], total, l))
      return Flow::Fail;
  }
  for (unsigned k = 0; k < count; ++k) {
    R *d = x.lanes<R>(x.vec(i, k));
    for (uint32_t m = mask; m; m &= m - 1) {
      int l = __builtin_ctz(m);
      E v;
      std::memcpy(&v, from[l] + k * sizeof(E), sizeof(E));
      // ld.s8 extends the sign: the conversion that the check warns of.
      d[l] = R(v); // NOLINT(bugprone-signed-char-misuse)
    }
  }
  if (x.cluster.hazards)
    x.cluster.hazards->finishStrong(x, i);
  if (x.cluster.profiler && loadCounter(i.space) == Bytes::SharedLoad)
    x.cluster.profiler->shared(x.warp, i, address, mask, total, true);
  x.cluster.bytes[unsigned(loadCounter(i.space))] +=
      uint64_t(total) * __builtin_popcount(mask);
  return Flow::Next;
}

template <typename E, typename R>
Flow store(Exec &x, const Instr &i, uint32_t mask) {
  unsigned count = i.vecCount, total = count * sizeof(E);
  bool wide = i.aux & 1;
  uint64_t addresses[warpLanes];
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = addresses[l] = x.addressOf(i, i.src[0], wide, l);
    uint8_t *to = x.resolve(i, i.space, address, total, Exec::Store, l);
    if (!to)
      return Flow::Fail;
    E v[8];
    for (unsigned k = 0; k < count; ++k)
      v[k] = E(x.lanes<R>(x.vec(i, k))[l]);
    x.cluster.storeChanges = std::memcmp(to, v, total) != 0;
    bool ok = x.markDefined(i, i.space, address, total, l);
    x.cluster.storeChanges = true;
    if (!ok)
      return Flow::Fail;
    std::memcpy(to, v, total);
  }
  Bytes counter = i.space == spaceShared || i.space == spaceSharedCluster
                      ? Bytes::SharedStore
                  : i.space == spaceLocal ? Bytes::LocalStore
                                          : Bytes::GlobalStore;
  if (x.cluster.profiler && counter == Bytes::SharedStore)
    x.cluster.profiler->shared(x.warp, i, addresses, mask, total, false);
  x.cluster.bytes[unsigned(counter)] +=
      uint64_t(total) * __builtin_popcount(mask);
  return Flow::Next;
}

struct Wide {
  uint64_t lo, hi;
};

template <typename E>
ExecFn pickLoad(unsigned regBits) {
  return regBits <= 16   ? load<E, uint16_t>
         : regBits == 32 ? load<E, uint32_t>
                         : load<E, uint64_t>;
}
template <typename E>
ExecFn pickStore(unsigned regBits) {
  return regBits <= 16   ? store<E, uint16_t>
         : regBits == 32 ? store<E, uint32_t>
                         : store<E, uint64_t>;
}

ExecFn pick(bool isLoad, Type t, unsigned regBits) {
  switch (t) {
  case Type::U8:
  case Type::B8:
    return isLoad ? pickLoad<uint8_t>(regBits) : pickStore<uint8_t>(regBits);
  case Type::S8:
    return isLoad ? pickLoad<int8_t>(regBits) : pickStore<uint8_t>(regBits);
  case Type::S16:
    return isLoad ? pickLoad<int16_t>(regBits) : pickStore<uint16_t>(regBits);
  case Type::U16:
  case Type::B16:
  case Type::F16:
  case Type::BF16:
    return isLoad ? pickLoad<uint16_t>(regBits) : pickStore<uint16_t>(regBits);
  case Type::S32:
    return isLoad ? pickLoad<int32_t>(regBits) : pickStore<uint32_t>(regBits);
  case Type::U32:
  case Type::B32:
  case Type::F32:
  case Type::F16x2:
  case Type::BF16x2:
    return isLoad ? pickLoad<uint32_t>(regBits) : pickStore<uint32_t>(regBits);
  case Type::U64:
  case Type::S64:
  case Type::B64:
  case Type::F64:
    return isLoad ? pickLoad<uint64_t>(regBits) : pickStore<uint64_t>(regBits);
  case Type::B128:
    return isLoad ? load<Wide, Wide> : store<Wide, Wide>;
  default:
    return nullptr;
  }
}

/// The width of the registers of a vector operand, which must agree.
bool elementBits(Decoder &d, const ptx::Operand &o, unsigned typeBits,
                 unsigned &bits) {
  bits = 0;
  auto one = [&](const ptx::Operand &e) {
    unsigned have = d.regBits(e);
    if (!have)
      return true;
    if (bits && bits != have)
      return d.fail("registers of different widths in '" + d.in->opcode + "'");
    bits = have;
    return true;
  };
  if (o.kind == ptx::Operand::Vector) {
    for (const ptx::Operand &e : o.elems)
      if (!one(e))
        return false;
  } else if (!one(o)) {
    return false;
  }
  if (!bits)
    bits = typeBits;
  return true;
}

} // namespace

bool decodeMemory(Decoder &d) {
  StringRef base = d.base();
  bool isLoad = base == "ld" || base == "ldu";
  if (!isLoad && base != "st")
    return false;
  Instr &o = *d.out;
  bool policy;
  takeSpace(d, o.space);
  takeMemoryHints(d, policy);
  StringRef vector = d.takeAny({"v2", "v4", "v8"});
  Type t;
  if (!d.needType(t))
    return true;
  unsigned count = vector.empty() ? 1 : unsigned(vector[1] - '0');
  unsigned typeBits = bitsOfType(t);
  bool halfType = isFloatType(t) && t != Type::F32 && t != Type::F64;
  // 256 bits go to global memory only.
  if (count * typeBits > 256 || typeBits < 8 || halfType ||
      (count == 8 && typeBits != 32) || (count > 1 && t == Type::B128) ||
      (count * typeBits == 256 && o.space != spaceGlobal &&
       o.space != spaceGeneric)) {
    d.failForm();
    return true;
  }
  bool shared = o.space == spaceShared || o.space == spaceSharedCluster;
  o.unit = shared ? Unit::Shared : Unit::Memory;
  o.bytes = uint8_t(typeBits / 8);
  if (!d.expectOps(policy ? 3 : 2))
    return true;
  const ptx::Operand &value = d.op(isLoad ? 0 : 1);
  const ptx::Operand &where = d.op(isLoad ? 1 : 0);
  size_t have = value.kind == ptx::Operand::Vector ? value.elems.size() : 1;
  if (have != count) {
    d.fail("expected " + llvm::Twine(count) + " registers in '" + d.in->opcode +
           "', but got " + llvm::Twine(have));
    return true;
  }
  unsigned regBits;
  bool wide = false;
  if (!elementBits(d, value, typeBits, regBits) ||
      !d.address(where, o.src[0], wide))
    return true;
  o.aux = wide;
  // Parameters of calls are a thread's own.
  if (o.space == spaceParam && d.localAddress)
    o.space = spaceLocal;
  if (!isLoad && (o.space == spaceConst || o.space == spaceParam)) {
    d.fail("store to the read-only space of '" + d.in->opcode + "'");
    return true;
  }
  if (policy && d.numOps() == 3 && !d.src(d.op(2), Type::B64, o.src[1]))
    return true;
  o.fn = pick(isLoad, t, regBits);
  if (!o.fn) {
    d.failForm();
    return true;
  }
  if (isLoad) {
    // A sink takes the same width as its neighbours.
    if (value.kind == ptx::Operand::Vector)
      o.vecBegin = uint32_t(d.kernel->vec.size());
    d.vectorDst(value, regBits);
  } else {
    o.flags |= flagEffect;
    Type literal = t;
    if (regBits != typeBits)
      literal = regBits == 16   ? Type::B16
                : regBits == 32 ? Type::B32
                                : Type::B64;
    d.vectorSrc(value, literal);
  }
  return true;
}

} // namespace sim
} // namespace flamia
