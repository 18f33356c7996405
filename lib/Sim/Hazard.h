//===- Hazard.h - Happens-before tracking -----------------------*- C++ -*-===//
//
// Who knows what to have completed. Agents are warps, their tcgen05.ld, st and
// cp.async streams, the tensor pipe of each issuing thread, and copies under
// way; each has a vector clock in three layers (docs/simulator-races.md):
// v  what happened before,
// a  what generic accesses the async proxy sees (fence.proxy.async),
// t  what tensor-memory accesses are ordered (tcgen05.fence).
// Every byte of shared memory and every column of tensor memory (by lane
// quarter) remembers its last accesses; a conflicting access that is not
// ordered after them is an error, whatever the schedule at hand did.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_HAZARD_H
#define FLAMIA_LIB_SIM_HAZARD_H

#include "Machine.h"
#include "OrderRecorder.h"

#include "llvm/ADT/DenseMap.h"

#include <set>

namespace flamia {
namespace sim {

using Clock = std::vector<uint32_t>;

inline uint32_t clockAt(const Clock &c, uint32_t agent) {
  return agent < c.size() ? c[agent] : 0;
}
inline void raiseClock(Clock &c, uint32_t agent, uint32_t value) {
  if (agent >= c.size())
    c.resize(agent + 1, 0);
  c[agent] = std::max(c[agent], value);
}
inline void joinClock(Clock &c, const Clock &other) {
  if (c.size() < other.size())
    c.resize(other.size(), 0);
  for (size_t k = 0; k < other.size(); ++k)
    c[k] = std::max(c[k], other[k]);
}

/// What is known of agents of other clusters: (cluster << 32 | agent, epoch),
/// sorted. Empty unless the kernel synchronises through global memory.
struct Foreign {
  std::vector<std::pair<uint64_t, uint32_t>> known;
  void join(const Foreign &o);
  uint32_t at(uint64_t key) const;
};

struct Clocks {
  Clock v, a, t;
  Foreign g;
  void join(const Clocks &o) {
    joinClock(v, o.v);
    joinClock(a, o.a);
    joinClock(t, o.t);
    g.join(o.g);
  }
};

enum class AgentKind : uint8_t {
  Generic,
  Atomic,
  LaneCopy,
  Load,
  Store,
  Pipe,
  Copy,
  Reduction ///< Of global memory, by a copy.
};

/// An access as shared and tensor memory remember it.
struct AccessRecord {
  uint32_t instr; ///< Index into the kernel's code.
  uint32_t epoch; ///< Of the agent.
  uint32_t issue; ///< Epoch of the warp that issued it.
  uint16_t agent, warp;
  uint16_t mask; ///< Bytes of a 16-byte granule, or 16-lane halves.
  AgentKind kind;
  bool write;
  uint32_t value; ///< tcgen05.st: hash of what it stores.
};
using AccessCell = llvm::SmallVector<AccessRecord, 2>;

class Hazards {
public:
  explicit Hazards(Cluster &cluster);

  // Accesses; false after an error.
  bool shared(Exec &x, const Instr &i, Cta &cta, uint32_t address,
              uint32_t size, bool write, int lane);
  bool tmemAccess(Exec &x, const Instr &i, const TmemAccess &access, bool load,
                  llvm::ArrayRef<uint32_t> data);
  /// alloc and dealloc (`release`) own the columns they name.
  bool tmemColumns(Exec &x, const Instr &i, uint32_t address, uint32_t columns,
                   bool release);
  /// cp.async: to shared memory, from `sourceBytes` at a global address.
  bool laneCopy(Exec &x, const Instr &i, uint32_t address, uint32_t size,
                uint64_t source, uint32_t sourceBytes, int lane);
  /// Global memory that the kernel may write.
  bool global(Exec &x, const Instr &i, const DeviceMemory::Region &region,
              uint64_t address, uint32_t size, bool write, int lane);
  /// After a load or an atomic operation: acquires what was released before it.
  void finishStrong(Exec &x, const Instr &i) {
    if (!acquires.empty())
      acquireGlobal(x, i);
  }
  /// As global(), by a copy, which has been issued; `reduce`: a reduction.
  bool globalCopy(Exec &x, const AsyncOp &op,
                  const DeviceMemory::Region &region, uint64_t address,
                  uint64_t size, bool write, bool reduce);
  /// Called when an operation is issued.
  bool issue(Exec &x, AsyncOp &op);

  // Synchronisation.
  void fence(Exec &x, const Instr &i);
  void tmemWait(Exec &x, bool loads);
  void laneCopyWait(Exec &x, uint32_t keep, bool all);
  void laneCopyCommit(Exec &x);
  /// Groups before number `below`; `read`: only their sources are read.
  void bulkWait(Exec &x, int lane, uint64_t below, bool read);
  void barrierInit(Exec &x, const Instr &i, Cta &cta, uint32_t address);
  /// Called before an arrival or a change of the transaction count.
  bool barrierArrive(Exec &x, const Instr &i, Cta &cta, Mbarrier &b, int lane);
  bool barrierWait(Exec &x, const Instr &i, Mbarrier &b, int lane);
  /// Called before an asynchronous operation signals a barrier.
  bool complete(Exec &x, const AsyncOp &op, Cta &cta, uint32_t address);
  /// Called after a barrier was signalled.
  bool signalled(Exec &x, const Instr &i, Cta &cta, const Mbarrier &b,
                 int lane);
  void namedArrive(Exec &x, const Instr &i, const NamedBarrier &b, uint32_t id);
  void namedLeave(Exec &x, uint32_t id, uint64_t generation);
  void clusterArrive(Exec &x, const Instr &i, uint64_t generation);
  void clusterWait(Exec &x, uint64_t generation);
  void exitWarp(Warp &warp);
  bool exitCta(Cta &cta);
  /// Hands over what --checks=ptx-order found.
  void flush();
  /// With SimOptions::orderDigest; else null.
  const OrderRecorder *recorder() const { return order.get(); }

private:
  struct WarpState {
    Clocks now;
    Clock before, after; ///< t as of the last fence::before; t acquired.
    Clock entered;       ///< v as of the last fence::after.
    /// What relaxed arrivals pass on, what relaxed waits saw: for fences.
    Clocks relaxedOut, relaxedIn;
    uint32_t loads = 0, stores = 0, copies = 0;
    uint64_t accesses = 0; ///< Numbers its accesses for the recorder.
    /// Lane copies issued when each commit group was closed.
    std::vector<uint32_t> copyGroups;
  };
  struct PipeOp {
    AsyncOp::Kind kind;
    uint32_t d, shape;
  };
  struct Pipe {
    uint32_t agent = 0, count = 0; ///< Operations and commits issued.
    Clocks now;
    Clock entered;           ///< WarpState::entered of its issuer.
    std::vector<PipeOp> ops; ///< Only with ptx-order.
  };
  struct Slot {
    uint32_t agent = 0, epoch = 0, instr = 0, ctas = 0;
    uint16_t warp = 0;
  };
  struct BulkStore {
    uint64_t thread;
    uint32_t agent, epoch, group; ///< What reads shared memory.
    uint32_t writer, written;     ///< What writes global memory, its epoch.
  };
  /// Writes of a thread's bulk stores.
  struct Writer {
    uint32_t agent = 0, count = 0;
  };
  /// What contributed to a phase of an mbarrier, or waited for one.
  struct Signal {
    uint32_t agent, epoch, instr;
    uint16_t warp;
  };
  using Signals = llvm::SmallVector<Signal, 4>;
  struct BarrierState {
    Clocks current, done;
    /// Arrivals of the phase under way, of the one before it, and of the one
    /// before that.
    Signals arrivals, last, secondLast;
    Signals waits; ///< Waits that saw the phase before the current one end.
    uint32_t phase = 0;
    uint32_t warp = 0, epoch = 0, instr = 0; ///< Its initialisation.
    bool fenced = false;
  };
  struct Group {
    Clocks generation[2];
  };
  /// An access being made.
  struct Access {
    Exec &x;
    const Instr &i;
    int lane;
    AccessRecord record;
    const Clocks &known;
    const Pipe *pipe = nullptr;
    bool columns = false; ///< alloc, dealloc.
    bool release = false; ///< dealloc.
    uint64_t id = 0;      ///< For the recorder.
  };
  struct CtaState {
    std::vector<AccessCell> shared, tmem;
    Clock exit;
    Group named[16];
  };

  unsigned number(const Warp &w) const {
    return w.cta->rank * warpsPerCta + w.index;
  }
  WarpState &state(const Warp &w) { return warps[number(w)]; }
  uint32_t loadAgent(unsigned w) const { return warpCount + w; }
  uint32_t storeAgent(unsigned w) const { return 2 * warpCount + w; }
  uint32_t copyAgent(unsigned w) const { return 3 * warpCount + w; }
  uint32_t index(const Instr &i) const;
  bool relaxed(const Instr &i) const { return opcodes[i.opcode] & opRelaxed; }

  Clocks release(const Warp &w);
  void acquire(WarpState &s, const Clocks &c);
  Clocks arrival(const Warp &w, const Instr &i);
  void arrived(const Warp &w, const Instr &i, const Clocks &c);
  BarrierState &barrier(const Cta &cta, const Mbarrier &b);
  static void addSignal(Signals &list, const Signal &s);
  const Signal *unknownSignal(const Signals &list, const Clock &known) const;
  bool checkArrival(Exec &x, const Instr &i, int lane, const BarrierState &b,
                    const Clock &known, uint32_t address);
  bool checkInit(Exec &x, const Instr &i, int lane, const BarrierState &b,
                 uint32_t address, bool remote);
  bool issueInPipe(Exec &x, AsyncOp &op);
  bool issueCopy(Exec &x, AsyncOp &op);
  uint64_t accessId(const Exec &x, const Instr &i);
  void recordAccess(const Access &a, uint64_t place, uint16_t mask,
                    bool inTmem);
  bool footprint(Access &a, Cta &cta, const Footprint &f);
  bool range(Access &a, Cta &cta, uint32_t address, uint32_t size, bool write);
  bool cells(Access &a, Cta &cta, const TmemRange &r, bool write);
  bool touch(Access &a, AccessCell &cell, uint16_t mask, Cta &cta,
             uint32_t place, bool inTmem);
  bool ordered(Access &a, const AccessRecord &r, Cta &cta, uint32_t place,
               bool inTmem);
  bool promised(const Access &a, const AccessRecord &r) const;
  bool fail(Access &a, const AccessRecord &r, const char *check,
            const llvm::Twine &message);
  Clocks import(const Clocks &c, uint32_t from) const;
  void acquireGlobal(Exec &x, const Instr &i);
  void releaseGlobal(Exec &x, const Instr &i, uint64_t address);
  bool globalTouch(Access &a, const DeviceMemory::Region &region,
                   uint64_t address, uint64_t size);
  bool globalOrdered(const Access &a, const AccessRecord &r,
                     uint32_t from) const;
  void globalFail(Access &a, const AccessRecord &r, uint32_t from,
                  const DeviceMemory::Region &region, uint64_t address);
  std::string nameCta(uint32_t number, unsigned warp) const;
  std::string name(uint32_t instr) const;

  enum OpcodeFlags : uint16_t {
    opProxyFence = 1,
    opInitFence = 2,
    opBefore = 4,
    opAfter = 8,
    opAtomic = 16,
    opRelaxed = 32,
    opFence = 64,   ///< Orders relaxed operations around it.
    opReduce = 128, ///< Asynchronous reductions: their order does not matter.
    opParity = 256  ///< Waits by parity.
  };
  /// What strong accesses of global memory do; relaxed ones need a fence.
  enum GlobalFlags : uint8_t {
    globalReads = 1,
    globalWrites = 2,
    globalAcquire = 4,
    globalRelease = 8
  };
  /// Among the recorder's places.
  static constexpr uint64_t globalPlace = 1ull << 63;

  Cluster &cluster;
  unsigned warpsPerCta, warpCount;
  uint32_t agents; ///< Next free number.
  bool races, proxies, fences, waits, ptxOrder;
  uint32_t clusterNumber; ///< Linear number of the first CTA.
  std::vector<uint16_t> opcodes;
  std::vector<uint8_t> globalFlags;
  std::vector<uint64_t> acquires; ///< Words that the instruction reads.
  std::vector<WarpState> warps;
  std::vector<CtaState> ctas;
  llvm::DenseMap<uint64_t, Pipe> pipes;
  std::vector<Slot> slots;
  std::vector<BulkStore> bulkStores;
  llvm::DenseMap<uint64_t, Writer> writers; ///< By thread.
  llvm::DenseMap<uint64_t, BarrierState> barriers;
  llvm::DenseMap<uint64_t, Clocks> atomics;
  Group clusterGroup;
  std::set<std::pair<uint32_t, uint32_t>> orderPairs;
  std::vector<Diagnostic> orderErrors;
  std::unique_ptr<OrderRecorder> order;
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_HAZARD_H
