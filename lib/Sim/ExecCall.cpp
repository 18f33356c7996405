//===- ExecCall.cpp - Device functions and the stack ----------------------===//
//
// PTX ISA 9.7.12.5 (call), 9.7.12.6 (ret), 9.7.15 (stack). Device functions lie
// behind the kernel's code (PtxLink.cpp). A call parks its lanes at a join that
// only `ret` reaches; parameters are copied between variables in local memory.
// Registers are static, so a recursive function's are saved while it runs
// again; its local variables lie on the stack.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "ExecControl.h"
#include "Hex.h"
#include "Lanes.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

namespace {

constexpr uint32_t maxDepth = 1000;

/// Copies local memory of some lanes, with what is known of its definedness.
void copyLocal(Exec &x, uint32_t mask, LocalRange to, LocalRange from) {
  size_t stride = x.kernel.localBytes;
  forLanes(mask, [&](int l) {
    size_t base = size_t(l) * stride;
    for (std::vector<uint8_t> *m : {&x.warp.local, &x.warp.localDefined})
      std::memmove(m->data() + base + to.offset, m->data() + base + from.offset,
                   std::min(to.bytes, from.bytes));
  });
}

/// Bytes of one lane in a register place, 0 for predicates.
unsigned laneBytes(uint32_t placeBytes) {
  return placeBytes == 4 ? 0 : placeBytes / warpLanes;
}

void saveFrame(Exec &x, const CalleeInfo &c, SavedFrame &s) {
  Warp &w = x.warp;
  if (!c.recursive)
    return;
  for (auto [offset, bytes] : c.registers)
    s.registers.insert(s.registers.end(), w.registers.get() + offset,
                       w.registers.get() + offset + bytes);
  s.ready.assign(w.ready.begin() + 2 * c.firstRegister,
                 w.ready.begin() + 2 * (c.firstRegister + c.registerCount));
  for (unsigned l = 0; l < warpLanes; ++l)
    for (LocalRange r : c.variables) {
      size_t at = size_t(l) * x.kernel.localBytes + r.offset;
      s.local.insert(s.local.end(), w.local.data() + at,
                     w.local.data() + at + r.bytes);
      s.localDefined.insert(s.localDefined.end(), w.localDefined.data() + at,
                            w.localDefined.data() + at + r.bytes);
    }
}

void restoreFrame(Exec &x, const CalleeInfo &c, const SavedFrame &s,
                  uint32_t mask) {
  Warp &w = x.warp;
  if (!c.recursive)
    return;
  size_t at = 0;
  for (auto [offset, bytes] : c.registers) {
    uint8_t *to = w.registers.get() + offset;
    const uint8_t *from = s.registers.data() + at;
    if (unsigned n = laneBytes(bytes)) {
      forLanes(mask, [&](int l) { std::memcpy(to + l * n, from + l * n, n); });
    } else {
      uint32_t now, then;
      std::memcpy(&now, to, 4);
      std::memcpy(&then, from, 4);
      now = (now & ~mask) | (then & mask);
      std::memcpy(to, &now, 4);
    }
    at += bytes;
  }
  for (size_t k = 0; k < s.ready.size(); ++k) {
    uint32_t &r = w.ready[2 * c.firstRegister + k];
    r = (r & ~mask) | (s.ready[k] & mask);
  }
  at = 0;
  for (unsigned l = 0; l < warpLanes; ++l)
    for (LocalRange r : c.variables) {
      size_t to = size_t(l) * x.kernel.localBytes + r.offset;
      if (mask >> l & 1) {
        std::memcpy(w.local.data() + to, s.local.data() + at, r.bytes);
        std::memcpy(w.localDefined.data() + to, s.localDefined.data() + at,
                    r.bytes);
      }
      at += r.bytes;
    }
}

/// A recursive function's local memory as it would lie outside a frame; frames
/// have the same layout. The beginning is aligned to 16.
LocalRange frameOf(const CalleeInfo &c) {
  uint32_t begin = ~0u, end = 0;
  for (LocalRange r : c.variables) {
    begin = std::min(begin, r.offset & ~15u);
    end = std::max(end, r.offset + r.bytes);
  }
  return begin < end ? LocalRange{begin, end - begin} : LocalRange();
}
uint32_t frameBegin(uint32_t stack) { return (stack + 15) & ~15u; }

Flow frameAddress(Exec &x, const Instr &i, uint32_t mask) {
  int32_t join = x.fragment().join;
  while (x.warp.joins[join].call == noIndex)
    join = x.warp.joins[join].parent;
  const Join &j = x.warp.joins[join];
  uint32_t begin = frameOf(x.kernel.callees[j.callee]).offset;
  return mapLanes<uint64_t>(x, i.dst[0], mask, [&](unsigned l) {
    return uint64_t(i.imm) - begin + frameBegin(j.saved->stack[l]);
  });
}

/// The function at an address, noIndex when there is none.
uint32_t calleeAt(const Kernel &k, uint64_t address) {
  for (size_t n = 0; n < k.callees.size(); ++n)
    if (k.callees[n].address == address)
      return uint32_t(n);
  return noIndex;
}

bool sameSizes(const std::vector<LocalRange> &a,
               const std::vector<LocalRange> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].bytes != b[k].bytes)
      return false;
  return true;
}

Flow call(Exec &x, const Instr &i, uint32_t mask) {
  Warp &w = x.warp;
  const CallInfo &info = x.kernel.calls[i.extra];
  Fragment &f = x.fragment();
  uint32_t target = info.callee;
  if (target == noIndex) {
    const uint64_t *address = x.lanes<uint64_t>(i.src[0]);
    llvm::SmallVector<std::pair<uint64_t, uint32_t>, 4> groups;
    forLanes(mask, [&](int l) {
      for (auto &g : groups)
        if (g.first == address[l]) {
          g.second |= 1u << l;
          return;
        }
      groups.push_back({address[l], 1u << l});
    });
    if (groups.size() > 1) {
      llvm::SmallVector<std::pair<uint32_t, uint32_t>, 4> parts;
      for (auto &g : groups)
        parts.push_back({f.pc, g.second});
      if (uint32_t rest = f.mask & ~mask)
        parts.push_back({f.pc + 1, rest});
      return splitFragment(x, i, parts);
    }
    target = calleeAt(x.kernel, groups.front().first);
    if (target == noIndex)
      return x.fail(i, int(lowestLane(mask)),
                    hex(groups.front().first) +
                        " is not the address of a device function",
                    "bounds");
    if (!sameSizes(x.kernel.callees[target].params, info.args) ||
        !sameSizes(x.kernel.callees[target].returns, info.results))
      return x.fail(i, int(lowestLane(mask)),
                    "parameters of '" + x.kernel.callees[target].name +
                        "' differ from those of the call");
  }
  if (uint32_t rest = f.mask & ~mask)
    return splitFragment(x, i, {{f.pc, mask}, {f.pc + 1, rest}});
  const CalleeInfo &c = x.kernel.callees[target];
  uint32_t depth = f.join < 0 ? 1 : w.joins[f.join].depth + 1;
  if (depth > maxDepth)
    return x.fail(i, int(lowestLane(mask)),
                  "calls are nested more than " + Twine(maxDepth) + " deep",
                  "bounds");
  Join j;
  j.pc = callJoinPc;
  j.resume = f.pc + 1;
  j.expected = mask;
  j.parent = f.join;
  j.active = true;
  j.call = f.pc;
  j.callee = target;
  j.depth = depth;
  if (c.recursive || x.kernel.usesStack) {
    j.saved = std::make_shared<SavedFrame>();
    saveFrame(x, c, *j.saved);
    std::copy_n(w.stack, warpLanes, j.saved->stack);
  }
  // Nothing of an earlier activation is defined any more.
  for (uint32_t r = c.firstRegister; r < c.firstRegister + c.registerCount;
       ++r) {
    w.ready[2 * r] &= ~mask;
    if (!x.kernel.initialReady[2 * r + 1])
      w.ready[2 * r + 1] &= ~mask;
  }
  for (size_t k = 0; k < info.args.size(); ++k)
    copyLocal(x, mask, c.params[k], info.args[k]);
  for (LocalRange r : c.variables) {
    bool param = false;
    for (LocalRange p : c.params)
      param |= p.offset == r.offset;
    if (!param)
      forLanes(mask, [&](int l) {
        std::memset(w.localDefined.data() + size_t(l) * x.kernel.localBytes +
                        r.offset,
                    0, r.bytes);
      });
  }
  if (c.recursive) {
    uint32_t size = frameOf(c).bytes;
    for (uint32_t m = mask; m; m &= m - 1) {
      int l = __builtin_ctz(m);
      uint32_t at = frameBegin(w.stack[l]);
      if (at + size > x.kernel.localBytes)
        return x.fail(i, l,
                      "frame of " + Twine(size) +
                          " bytes exceeds the stack of " + Twine(stackBytes) +
                          " bytes",
                      "bounds");
      w.stack[l] = at + size;
      std::memset(w.localDefined.data() + size_t(l) * x.kernel.localBytes + at,
                  0, size);
    }
  }
  int32_t slot = freeJoin(w);
  w.joins[slot] = std::move(j);
  f.join = slot;
  f.joinPc = callJoinPc;
  f.pc = c.entry;
  return Flow::Jump;
}

//===----------------------------------------------------------------------===//
// Stack
//===----------------------------------------------------------------------===//

Flow alloca_(Exec &x, const Instr &i, uint32_t mask) {
  bool wide = i.aux;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t size =
        wide ? x.lanes<uint64_t>(i.src[0])[l] : x.lanes<uint32_t>(i.src[0])[l];
    uint64_t align = uint64_t(i.imm);
    uint64_t at = (x.warp.stack[l] + align - 1) & ~(align - 1);
    if (size > stackBytes || at + size > x.kernel.localBytes)
      return x.fail(i, l,
                    "alloca of " + Twine(size) +
                        " bytes exceeds the stack of " + Twine(stackBytes) +
                        " bytes",
                    "bounds");
    x.warp.stack[l] = uint32_t(at + size);
    std::memset(x.warp.localDefined.data() + size_t(l) * x.kernel.localBytes +
                    at,
                0, size);
    if (wide)
      x.lanes<uint64_t>(i.dst[0])[l] = at;
    else
      x.lanes<uint32_t>(i.dst[0])[l] = uint32_t(at);
  }
  return Flow::Next;
}

Flow stackSave(Exec &x, const Instr &i, uint32_t mask) {
  bool wide = i.aux;
  forLanes(mask, [&](int l) {
    if (wide)
      x.lanes<uint64_t>(i.dst[0])[l] = x.warp.stack[l];
    else
      x.lanes<uint32_t>(i.dst[0])[l] = x.warp.stack[l];
  });
  return Flow::Next;
}

Flow stackRestore(Exec &x, const Instr &i, uint32_t mask) {
  bool wide = i.aux;
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t at =
        wide ? x.lanes<uint64_t>(i.src[0])[l] : x.lanes<uint32_t>(i.src[0])[l];
    if (at < x.kernel.stackBegin || at > x.warp.stack[l])
      return x.fail(i, l,
                    "stackrestore of " + Twine(at) +
                        ", which no stacksave of this thread has given",
                    "bounds");
    x.warp.stack[l] = uint32_t(at);
  }
  return Flow::Next;
}

bool decodeStack(Decoder &d) {
  Instr &o = *d.out;
  StringRef base = d.base();
  Type t = d.takeType();
  if (t != Type::U32 && t != Type::U64) {
    d.failForm();
    return true;
  }
  o.aux = t == Type::U64;
  if (base == "alloca") {
    o.fn = alloca_;
    o.imm = 8;
    if (!d.expectOps(2, 3) || !d.dst(d.op(0), bitsOfType(t), o.dst[0]) ||
        !d.src(d.op(1), t, o.src[0]))
      return true;
    if (d.numOps() == 3 && !d.immediate(d.op(2), o.imm, "the alignment"))
      return true;
    if (o.imm <= 0 || o.imm & (o.imm - 1) || o.imm > 1024)
      d.fail("alignment " + Twine(o.imm) + " of '" + d.in->opcode +
             "' is no power of two up to 1024");
  } else if (base == "stacksave") {
    o.fn = stackSave;
    if (d.expectOps(1))
      d.dst(d.op(0), bitsOfType(t), o.dst[0]);
  } else {
    o.fn = stackRestore;
    if (d.expectOps(1))
      d.src(d.op(0), t, o.src[0]);
  }
  return true;
}

} // namespace

Flow returnThread(Exec &x, const Instr &i, uint32_t mask) {
  Warp &w = x.warp;
  Fragment &f = x.fragment();
  // Joins inside the function lie on every way to its end, so the innermost one
  // is the call's.
  if (f.join < 0 || w.joins[f.join].call == noIndex)
    return exitThread(x, i, mask);
  if (uint32_t rest = f.mask & ~mask)
    return splitFragment(x, i, {{f.pc, mask}, {f.pc + 1, rest}});
  Join &j = w.joins[f.join];
  const CalleeInfo &c = x.kernel.callees[j.callee];
  const CallInfo &info = x.kernel.calls[x.kernel.code[j.call].extra];
  // The result may have to go where the frame is restored.
  std::vector<uint8_t> value, defined;
  size_t stride = x.kernel.localBytes;
  if (!info.results.empty())
    forLanes(mask, [&](int l) {
      const uint8_t *v = w.local.data() + l * stride + c.returns[0].offset,
                    *k = w.localDefined.data() + l * stride +
                         c.returns[0].offset;
      value.insert(value.end(), v, v + c.returns[0].bytes);
      defined.insert(defined.end(), k, k + c.returns[0].bytes);
    });
  if (j.saved) {
    restoreFrame(x, c, *j.saved, mask);
    forLanes(mask, [&](int l) { w.stack[l] = j.saved->stack[l]; });
  }
  if (!info.results.empty()) {
    uint32_t n = info.results[0].bytes;
    size_t at = 0;
    forLanes(mask, [&](int l) {
      size_t to = l * stride + info.results[0].offset;
      std::memcpy(w.local.data() + to, value.data() + at, n);
      std::memcpy(w.localDefined.data() + to, defined.data() + at, n);
      at += n;
    });
  }
  f.pc = callJoinPc;
  return Flow::Jump;
}

uint32_t frameVariable(const Decoder &d, StringRef name) {
  for (unsigned s = d.in->scope;; s = d.fn->scopes[s].parent) {
    auto it = d.fn->scopes[s].variables.find(name);
    if (it != d.fn->scopes[s].variables.end()) {
      uint32_t v = it->second;
      bool local = d.fn->variables[v].space == ptx::Space::Local &&
                   !d.fn->variables[v].parameter;
      for (const ptx::Callee &c : d.fn->callees)
        if (local && c.recursive && v - c.firstVariable < c.variableCount)
          return v;
      return noIndex;
    }
    if (s == d.fn->scopes[s].parent)
      return noIndex;
  }
}

bool decodeFrameAddress(Decoder &d, uint32_t variable) {
  uint64_t value;
  ptx::Space space;
  d.nameValue(d.fn->variables[variable].name, d.in->scope, value, space);
  d.out->imm = int64_t(value + uint64_t(d.op(1).offset));
  d.out->fn = frameAddress;
  d.dst(d.op(0), 64, d.out->dst[0]);
  return true;
}

bool decodeCall(Decoder &d) {
  StringRef base = d.base();
  Instr &o = *d.out;
  if (base == "alloca" || base == "stacksave" || base == "stackrestore")
    return decodeStack(d);
  if (base != "call")
    return false;
  o.unit = Unit::Control;
  d.take("uni");
  o.fn = call;
  o.extra = uint32_t(d.kernel->calls.size());
  d.kernel->calls.emplace_back();
  CallInfo info;
  size_t k = 0;
  auto list = [&](std::vector<LocalRange> &ranges) {
    if (k >= d.numOps() || d.op(k).kind != ptx::Operand::List)
      return true;
    for (const ptx::Operand &e : d.op(k).elems) {
      LocalRange r;
      if (!d.callVariable(e, r))
        return false;
      ranges.push_back(r);
    }
    ++k;
    return true;
  };
  if (!list(info.results))
    return true;
  if (k >= d.numOps()) {
    d.fail("expected a function in '" + d.in->opcode + "'");
    return true;
  }
  const ptx::Operand &target = d.op(k++);
  if (!list(info.args))
    return true;
  if (target.isReg()) {
    if (!d.src(target, Type::B64, o.src[0]))
      return true;
  } else {
    info.callee = d.calleeByName(target.name);
    if (target.kind != ptx::Operand::Name || info.callee == noIndex) {
      d.fail("unknown function '" + target.name + "' in '" + d.in->opcode +
             "'");
      return true;
    }
    const CalleeInfo &c = d.kernel->callees[info.callee];
    if (!sameSizes(c.params, info.args) ||
        !sameSizes(c.returns, info.results)) {
      d.fail("parameters of '" + target.name + "' differ from those of '" +
             d.in->opcode + "'");
      return true;
    }
  }
  // The prototype or list of targets says nothing that is not known here.
  if (k < d.numOps() && d.op(k).kind == ptx::Operand::Name)
    ++k;
  if (k != d.numOps()) {
    d.fail("unexpected operand of '" + d.in->opcode + "'");
    return true;
  }
  o.reconverge = uint32_t(d.out - d.kernel->code.data()) + 1;
  d.kernel->calls.back() = std::move(info);
  return true;
}

} // namespace sim
} // namespace flamia
