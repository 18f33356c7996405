//===- ExecRegisters.cpp - setmaxnreg -------------------------------------===//
//
// PTX ISA 9.7.19.5. Warps own registers in units of 8 a thread; what .dec gives
// back goes to a pool of the CTA that .inc takes from, and waits for. What the
// values of a program need at least is estimated in Liveness.cpp.
//
//===----------------------------------------------------------------------===//

#include "ExecRegisters.h"
#include "Decoder.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

/// 32-bit registers of an SM (sm_90, sm_100, sm_103).
static constexpr uint64_t registersPerSm = 65536;
static constexpr unsigned warpsPerGroup = 4;

unsigned entryRegisters(const KernelInfo &info) {
  auto product = [](const std::array<uint32_t, 3> &a) {
    return uint64_t(a[0]) * a[1] * a[2];
  };
  uint64_t threads = product(info.requiredBlock);
  if (!threads)
    threads = product(info.maxBlock);
  uint64_t count = info.maxRegisters;
  if (threads && info.minCtasPerSm) {
    // Warps are given out to the four parts of an SM in turn.
    uint64_t whole = (threads + 127) / 128 * 128;
    uint64_t most = registersPerSm / (whole * info.minCtasPerSm) / 8 * 8;
    count = count ? std::min(count, most) : most;
  }
  // Threads address 255 registers, but own them in units of 8.
  return unsigned(std::min<uint64_t>((count + 7) / 8 * 8, 256));
}

namespace {

// Not 1, by which the control-flow analysis knows an exit.
constexpr uint32_t auxDec = 2;

bool isDec(const Instr &i) { return i.aux == auxDec; }

/// Warps of the executing warp's warpgroup but itself.
template <typename F>
void forGroup(const Warp &warp, F body) {
  unsigned first = warp.index / warpsPerGroup * warpsPerGroup;
  for (unsigned w = first; w < first + warpsPerGroup; ++w)
    if (w < warp.cta->warps.size() && w != warp.index)
      body(*warp.cta->warps[w]);
}

/// All warps of the warpgroup execute the same setmaxnreg, one after another.
bool agrees(Exec &x, const Instr &i, int lane) {
  size_t index = x.warp.registerChanges.size();
  bool ok = true;
  forGroup(x.warp, [&](const Warp &other) {
    const std::vector<const Instr *> &done = other.registerChanges;
    if (!ok)
      return;
    std::string name = "warp " + std::to_string(other.index);
    if (done.size() > index) {
      const Instr &o = *done[index];
      if (o.imm == i.imm && isDec(o) == isDec(i))
        return;
      ok = false;
      x.fail(i, lane,
             "setmaxnreg" + Twine(isDec(i) ? ".dec " : ".inc ") + Twine(i.imm) +
                 ", but " + name + " of the same warpgroup executed " +
                 (isDec(o) ? ".dec " : ".inc ") + Twine(o.imm) + " in line " +
                 Twine(o.line),
             "setmaxnreg");
    } else if (done.size() < index) {
      ok = false;
      x.fail(i, lane,
             name +
                 " of the same warpgroup has not executed the setmaxnreg in "
                 "line " +
                 Twine(x.warp.registerChanges[done.size()]->line) +
                 " before: the warpgroup must synchronise between two",
             "setmaxnreg");
    } else if (!other.live) {
      ok = false;
      x.fail(i, lane,
             name + " of the same warpgroup has exited without this setmaxnreg",
             "setmaxnreg");
    }
  });
  return ok;
}

Flow setMaxRegisters(Exec &x, const Instr &i, uint32_t mask) {
  Warp &w = x.warp;
  Cta &cta = x.cta;
  int lane = int(lowestLane(mask));
  unsigned count = unsigned(i.imm);
  bool checked = x.check(Check::SetMaxNReg);
  Fragment &f = x.fragment();
  if (f.wait.kind != Wait::Registers) {
    if (!w.ownedRegisters)
      w.ownedRegisters = entryRegisters(x.kernel.info);
    if (!w.ownedRegisters) {
      if (!checked)
        return Flow::Next;
      return x.fail(
          i, lane,
          "ptxas ignores setmaxnreg here: '" + x.kernel.name +
              "' has neither .maxnreg nor .minnctapersm with .maxntid "
              "or .reqntid",
          "setmaxnreg");
    }
    bool wrong = isDec(i) ? count > w.ownedRegisters : count < w.ownedRegisters;
    if (wrong && checked)
      return x.fail(i, lane,
                    "setmaxnreg" + Twine(isDec(i) ? ".dec" : ".inc") + " to " +
                        Twine(count) + ", but the warp owns " +
                        Twine(w.ownedRegisters) + " registers a thread",
                    "setmaxnreg");
    // Triton repeats a count without synchronising; that changes nothing.
    if (wrong || count == w.ownedRegisters)
      return Flow::Next;
    if (checked && !agrees(x, i, lane))
      return Flow::Fail;
    w.registerChanges.push_back(&i);
    ++x.cluster.effects;
    if (isDec(i)) {
      cta.registerPool += w.ownedRegisters - count;
      w.ownedRegisters = count;
      return Flow::Next;
    }
  }
  uint32_t more = count - w.ownedRegisters;
  if (more > cta.registerPool) {
    f.wait = Wait();
    f.wait.kind = Wait::Registers;
    f.wait.id = more;
    return Flow::Block;
  }
  cta.registerPool -= more;
  w.ownedRegisters = count;
  ++x.cluster.effects;
  return Flow::Next;
}

} // namespace

void reportPressure(Exec &x, const Instr &i) {
  size_t at = size_t(&i - x.kernel.code.data());
  const Instr &last = *x.warp.registerChanges.back();
  x.fail(i, -1,
         "the values alive here need at least " + Twine(x.kernel.pressure[at]) +
             " registers, but setmaxnreg in line " + Twine(last.line) +
             " leaves the warp " + Twine(x.warp.ownedRegisters),
         "setmaxnreg");
}

void exitRegisters(Cluster &cluster, Warp &warp) {
  if (!cluster.launch.options->checks.has(Check::SetMaxNReg) ||
      !cluster.launch.kernel->setsRegisters)
    return;
  size_t done = warp.registerChanges.size();
  const Warp *ahead = nullptr;
  forGroup(warp, [&](const Warp &other) {
    if (other.registerChanges.size() > done)
      ahead = &other;
  });
  if (!ahead || cluster.failed())
    return;
  const Instr &missed = *ahead->registerChanges[done];
  Diagnostic d;
  d.file = cluster.launch.program->fileName;
  d.line = missed.line;
  d.message = "warp " + std::to_string(warp.index) +
              " exits without the setmaxnreg that warp " +
              std::to_string(ahead->index) + " of its warpgroup executed";
  d.check = "setmaxnreg";
  d.cta = warp.cta->id;
  d.hasCta = true;
  d.warp = int(warp.index);
  cluster.errors.push_back(std::move(d));
}

bool decodeRegisters(Decoder &d) {
  if (d.base() != "setmaxnreg")
    return false;
  Instr &o = *d.out;
  o.unit = Unit::Control;
  StringRef action = d.takeAny({"inc", "dec"});
  bool sync = d.take("sync"), aligned = d.take("aligned");
  Type t = d.takeType();
  if (action.empty() || !sync || !aligned || t != Type::U32)
    return d.failForm() || true;
  int64_t n;
  if (!d.expectOps(1) || !d.immediate(d.op(0), n, "the register count"))
    return true;
  if (n < 24 || n > 256 || n % 8)
    return d.fail("setmaxnreg count " + Twine(n) +
                  " is no multiple of 8 in 24..256") ||
           true;
  o.imm = n;
  o.aux = action == "dec" ? auxDec : 0;
  o.fn = setMaxRegisters;
  o.flags |= flagAligned;
  d.kernel->setsRegisters = true;
  return true;
}

} // namespace sim
} // namespace flamia
