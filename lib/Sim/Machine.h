//===- Machine.h - State of a running CTA -----------------------*- C++ -*-===//
//
// Warps made of fragments (lanes that share a program counter), CTAs with their
// memories and barriers, clusters with the queue of asynchronous operations,
// and the context that instruction functions work on.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_MACHINE_H
#define FLAMIA_LIB_SIM_MACHINE_H

#include "AsyncQueue.h"
#include "Mbarrier.h"
#include "Program.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <random>

namespace flamia {
namespace sim {

class GlobalOrder;
class Hazards;
class Profiler;
class Tracer;
struct Cluster;
struct Cta;
struct Warp;

/// What a fragment waits for. Instructions that block are executed again with
/// their wait still set, so that they can tell arrival from return.
struct Wait {
  enum Kind : uint8_t {
    None,
    NamedBarrier,   ///< id, generation
    TryWait,        ///< mbarrier; returns false when nothing else can run
    WarpSync,       ///< other lanes of the member mask
    ClusterBarrier, ///< generation
    TmemAlloc,      ///< free columns
    Registers,      ///< id registers a thread more from the CTA's pool
    PairAlloc       ///< the peer's alloc; generation
  } kind = None;
  bool timedOut = false; ///< TryWait: give up and return false.
  bool released = false; ///< WarpSync: all members are here.
  uint32_t id = 0;       ///< Barrier number or shared address.
  uint32_t parity = 0;   ///< TryWait: what it waits for, for the report.
  uint32_t members = 0;  ///< WarpSync.
  uint64_t generation = 0;
};

/// Lanes of a warp with the same program counter.
struct Fragment {
  uint32_t pc = 0;
  uint32_t mask = 0;
  int32_t join = -1;         ///< Innermost Join that its lanes will meet at.
  uint32_t joinPc = noIndex; ///< That join's pc.
  Wait wait;
};

/// Joins of calls are reached by `ret`, never by a pc.
constexpr uint32_t callJoinPc = noIndex - 1;

/// What a recursive function's frame held before it was entered again.
struct SavedFrame {
  std::vector<uint8_t> registers, local, localDefined;
  std::vector<uint32_t> ready;
  uint32_t stack[warpLanes];
};

/// A reconvergence point: lanes park here until all expected ones arrived or
/// exited. A call has one too: it is the frame that `ret` returns from.
struct Join {
  uint32_t pc = 0;     ///< Where lanes park.
  uint32_t resume = 0; ///< Where they go on.
  uint32_t expected = 0, arrived = 0;
  int32_t parent = -1;
  bool active = false;
  uint32_t call = noIndex; ///< The call instruction of a frame.
  uint32_t callee = 0, depth = 0;
  std::shared_ptr<SavedFrame> saved;
};

struct AlignedFree {
  void operator()(uint8_t *p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<uint8_t[], AlignedFree>;
/// Zeroed memory on a cache line.
AlignedBytes allocateAligned(size_t bytes);

/// A non-bulk cp.async of one lane that has not been carried out.
struct LaneCopy {
  uint32_t pc;
  uint64_t source;
  uint32_t dest; ///< Shared offset.
  uint8_t bytes, sourceBytes;
  uint8_t lane;
  uint32_t group; ///< Group number of the lane.
};

struct Warp {
  Cta *cta = nullptr;
  unsigned index = 0;   ///< In the CTA.
  uint32_t present = 0; ///< Lanes that exist.
  uint32_t live = 0;    ///< Lanes that have not exited.
  AlignedBytes registers;
  std::vector<uint32_t> ready;   ///< Two a register (halves): defined lanes.
  std::vector<uint32_t> pending; ///< Lanes with a tcgen05.ld under way.
  std::vector<uint32_t> pendingList; ///< Registers with pending lanes.
  /// Registers computed from undefined ones: where that began (for messages).
  std::map<uint32_t, uint32_t> undefinedFrom;
  bool anyPending = false;
  std::vector<Fragment> fragments;
  std::vector<Join> joins;
  uint32_t carry = 0;             ///< CC.CF per lane.
  uint32_t stack[warpLanes] = {}; ///< Top of alloca's stack.
  std::vector<uint8_t> local;     ///< 32 lanes after one another.
  std::vector<uint8_t> localDefined;
  std::vector<LaneCopy> laneCopies;
  uint32_t laneGroup[warpLanes] = {}; ///< Number of the open cp.async group.
  std::vector<TmemOp> tmemOps;        ///< tcgen05.ld/st not yet carried out.
  uint64_t byUnit[unsigned(Unit::Tmem) + 1] = {}; ///< Instructions executed.
  unsigned ownedRegisters = 0; ///< A thread, 0: not known (setmaxnreg).
  std::vector<const Instr *> registerChanges; ///< setmaxnreg, as executed.
  uint64_t clusterWait = 0; ///< Cluster-barrier generation arrived at.
};

/// Lanes in which all of a register is defined.
inline uint32_t readyLanes(const Warp &w, uint32_t reg) {
  return w.ready[2 * reg] & w.ready[2 * reg + 1];
}

struct NamedBarrier {
  uint32_t expected = 0, arrived = 0; ///< Threads.
  uint64_t generation = 0;
  uint32_t result[2] = {0, 0}; ///< bar.red of even and odd generations.
  std::vector<uint32_t> lanes; ///< Per warp: lanes arrived in this generation.
};

/// States of a shared-memory byte.
enum ShadowBits : uint8_t { shadowDefined = 1, shadowMbarrier = 2 };

struct Cta {
  Cluster *cluster = nullptr;
  unsigned rank = 0; ///< In the cluster.
  std::array<uint32_t, 3> id = {0, 0, 0};
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<uint8_t> shared, shadow; ///< Byte i is address sharedBase + i.
  std::vector<uint8_t> constants;
  NamedBarrier barriers[16];
  std::unique_ptr<Tmem> tmem;
  bool tmemRelinquished = false;
  uint32_t pairAllocs = 0; ///< tcgen05.alloc.cta_group::2 begun.
  /// Registers a thread of one warp that setmaxnreg.dec has given back.
  uint32_t registerPool = 0;
  std::vector<Mbarrier> mbarriers;
  std::vector<int32_t> mbarrierAt; ///< Per 8 bytes of shared memory, -1 none.
  unsigned liveWarps = 0;

  SharedView view() {
    return {shared.data(), sharedBase, uint32_t(shared.size())};
  }
  Tmem &tensorMemory();
  /// The barrier at a shared offset address, or null.
  Mbarrier *findMbarrier(uint32_t address);
};

/// Byte counters; names in Stats.cpp.
enum class Bytes : uint8_t {
  GlobalLoad,
  GlobalStore,
  SharedLoad,
  SharedStore,
  LocalLoad,
  LocalStore,
  ParamLoad,
  AtomicGlobal,
  AtomicShared,
  CpAsync,
  BulkLoad,
  BulkStore,
  TmaLoad,
  TmaStore,
  TmemLoad,
  TmemStore,
  TmemCopy,
  Count
};

/// Everything a launch shares between its clusters.
struct LaunchState {
  const Program *program = nullptr;
  const Kernel *kernel = nullptr;
  DeviceMemory *memory = nullptr;
  const LaunchConfig *config = nullptr;
  const SimOptions *options = nullptr;
  std::vector<uint8_t> params;
  GlobalOrder *global = nullptr; ///< Who accessed global memory last.
  unsigned warpsPerCta = 0, threadsPerCta = 0;
  /// Takes a cluster off the list of those not begun: its first CTA, or false
  /// when all have begun. Empty when only some CTAs are run.
  std::function<bool(std::array<uint32_t, 3> &)> takeCluster;
  /// The place in the order of the earliest cluster that failed so far.
  static constexpr uint64_t noFailure = ~0ull;
  std::atomic<uint64_t> firstFailure{noFailure};
};

/// One cluster (usually one CTA) being simulated.
struct Cluster {
  explicit Cluster(const LaunchState &launch);
  ~Cluster();
  const LaunchState &launch;
  std::vector<std::unique_ptr<Cta>> ctas;
  AsyncQueue async;
  std::unique_ptr<Hazards> hazards;   ///< Null: not checked.
  std::unique_ptr<Tracer> tracer;     ///< Null: not traced.
  std::unique_ptr<Profiler> profiler; ///< Null: not profiled.
  bool storeChanges = true;           ///< The st being executed changes memory.
  DeviceMemory::Region *lastRegion = nullptr; ///< Of the last global access.
  std::mt19937_64 random;
  uint64_t effects = 0;    ///< Counts visible changes, for progress detection.
  uint64_t clock = 0;      ///< Warp instructions executed (Trace.h).
  uint64_t quietSince = 0; ///< The clock at the last visible change.
  uint64_t lastTick = ~0ull; ///< The clock at instructionLimit.
  uint64_t clusterGeneration = 0;
  uint32_t clusterArrived = 0; ///< Threads.
  std::vector<Diagnostic> errors;
  bool failed() const { return !errors.empty(); }
  uint64_t place = 0; ///< In the order in which clusters begin.
  /// Given up because another one failed: nothing that it found counts.
  bool abandoned = false;

  // Statistics.
  std::vector<uint64_t> executed; ///< Per instruction of the kernel.
  uint64_t bytes[unsigned(Bytes::Count)] = {};
  std::map<std::string, uint64_t> mmaCounts;
  std::vector<MmaRecord> mmaOrder;
  bool recordOrder = false;
  uint64_t macs = 0;
  uint64_t mmaInFlight = 0, tmaInFlight = 0, stagesInFlight = 0;
  uint64_t maxMma = 0, maxTma = 0, maxStages = 0;

  void start(uint64_t clusterIndex, uint64_t seed);
  void run();
  void addStats(SimStats &stats) const;

  /// Tries to let `warp` execute; true when at least one instruction ran.
  bool runWarp(Warp &warp);
  bool runFragment(Warp &warp, size_t index, unsigned quantum);
  bool waitOver(Warp &warp, const Fragment &f);
  bool releaseWarpSync(Warp &warp);
  void exitLanes(Warp &warp, uint32_t lanes, int32_t join);
  /// Puts the fragment's lanes into its join when its pc is there. True when
  /// the fragment is gone.
  bool park(Warp &warp, size_t index);
  void finishWarp(Warp &warp);
  void finishCta(Cta &cta);
  bool giveUpWaits();
  bool shouldAbandon() const;
  void reportDeadlock(const char *why);
  void reportLimit();
};

/// The context of one instruction.
struct Exec {
  Cluster &cluster;
  Cta &cta;
  Warp &warp;
  size_t fragmentIndex;
  uint8_t *bank[2];
  const Kernel &kernel;
  const LaunchState &launch;

  Exec(Cluster &cluster, Warp &warp, size_t fragment);

  Fragment &fragment() { return warp.fragments[fragmentIndex]; }
  uint8_t *at(Src s) const { return bank[s.bank] + s.off; }
  template <typename T>
  T *lanes(Src s) const {
    return reinterpret_cast<T *>(at(s));
  }
  uint32_t mask(Src s) const { return *reinterpret_cast<uint32_t *>(at(s)); }
  /// Writes a predicate's lanes.
  void setMask(Src s, uint32_t value, uint32_t lanes) {
    uint32_t &m = *reinterpret_cast<uint32_t *>(at(s));
    m = (m & ~lanes) | (value & lanes);
  }
  const Src &vec(const Instr &i, uint32_t k) const {
    return kernel.vec[i.vecBegin + k];
  }
  bool check(Check c) const { return launch.options->checks.has(c); }
  /// Records an error of `i`; lane -1 when it is not one lane's.
  Flow fail(const Instr &i, int lane, const llvm::Twine &message,
            llvm::StringRef check = "");
  /// Turns a unit's complaints into errors; true when one stops the machine.
  bool report(const Instr &i, int lane, const IssueList &issues, bool done);

  // Memory (Memory.cpp). All return null or false after reporting.
  enum Access { Load, Store, Update };
  uint8_t *resolve(const Instr &i, uint8_t space, uint64_t address,
                   unsigned size, Access access, int lane);
  /// True when the bytes are defined; reports otherwise.
  bool requireDefined(const Instr &i, uint8_t space, uint64_t address,
                      unsigned size, int lane);
  /// Marks written bytes; false (reported) when one belongs to an mbarrier.
  bool markDefined(const Instr &i, uint8_t space, uint64_t address,
                   unsigned size, int lane);
  /// Address of the instruction's address operand for a lane.
  uint64_t addressOf(const Instr &i, Src s, bool bits64, int lane) const {
    return (bits64 ? lanes<uint64_t>(s)[lane]
                   : uint64_t(lanes<uint32_t>(s)[lane])) +
           uint64_t(i.imm);
  }
  uint64_t addressOf(const AddressOperand &a, int lane) const {
    return (a.wide ? lanes<uint64_t>(a.base)[lane]
                   : uint64_t(lanes<uint32_t>(a.base)[lane])) +
           uint64_t(a.offset);
  }
  /// Splits a shared::cta, shared::cluster or generic shared address into CTA
  /// and offset address. Null when there is no such CTA (reported).
  Cta *sharedTarget(const Instr &i, uint64_t address, uint32_t &offset,
                    int lane);
};

/// Address spaces of memory instructions.
enum AddrSpace : uint8_t {
  spaceGeneric,
  spaceGlobal,
  spaceConst,
  spaceShared,
  spaceSharedCluster,
  spaceLocal,
  spaceParam
};

inline unsigned lowestLane(uint32_t mask) { return __builtin_ctz(mask); }

/// Runs `body(lane)` for every lane in the mask.
template <typename F>
inline void forLanes(uint32_t mask, F body) {
  for (; mask; mask &= mask - 1)
    body(int(__builtin_ctz(mask)));
}

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_MACHINE_H
