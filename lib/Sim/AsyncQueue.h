//===- AsyncQueue.h - Asynchronous operations under way ---------*- C++ -*-===//
//
// Copies (TMA, bulk) complete in any order; tcgen05.mma, cp, shift and commit
// of one thread form one in-order pipe. When they are carried out is decided by
// the launch's AsyncMode: at issue, when nothing else can run, or at random.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_ASYNCQUEUE_H
#define FLAMIA_LIB_SIM_ASYNCQUEUE_H

#include "Program.h"

#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace flamia {
namespace sim {

/// A tcgen05.ld or st that its warp has not waited for.
struct TmemOp {
  const Instr *instr = nullptr;
  bool load = false;
  TmemAccess access;
  std::vector<uint32_t> data; ///< st: registers x 32 lanes.
};

/// A shared-memory place: CTA rank in the cluster and offset address.
struct SharedPlace {
  uint32_t cta = 0, address = 0;
};

struct Clocks;

struct AsyncOp {
  enum Kind : uint8_t {
    TensorLoad,
    TensorStore, ///< Also reductions and scatter.
    BulkLoad,    ///< Global to shared.
    BulkStore,   ///< Shared to global, also reductions.
    BulkShared,  ///< Shared to (remote) shared.
    RemoteStore, ///< st.async and red.async.
    Mma,
    TmemCopy,
    TmemShift,
    Commit,
    LaneArrive, ///< cp.async.mbarrier.arrive
    Cancel      ///< clusterlaunchcontrol.try_cancel
  } kind = Mma;
  const Instr *instr = nullptr;
  uint32_t cta = 0, warp = 0;
  int lane = 0;
  uint32_t group = 0; ///< Bulk group of its thread (stores).
  SharedPlace shared, barrier, source;
  uint64_t global = 0;
  uint32_t bytes = 0;
  uint32_t byteMask = 0xFFFF; ///< cp_mask
  uint32_t multicast = 0;     ///< CTA mask, 0: just `shared.cta`.
  int32_t coords[5] = {};
  bool captured = false; ///< Stores: shared memory has been read.
  bool noIncrement = false;
  uint32_t address = 0; ///< shift: tensor memory address.
  TensorMap map;
  std::unique_ptr<MmaPlan> mma;
  std::unique_ptr<CpPlan> cp;
  std::vector<uint8_t> data; ///< Captured bytes.
  /// What a thread that sees its completion knows (Hazard.h).
  std::shared_ptr<Clocks> clocks;
  uint32_t agent = 0, epoch = 0; ///< Its own, in Hazard.h's numbers.
  uint32_t issue = 0;            ///< Its warp's epoch.
  uint64_t event = 0;            ///< Its name for the order recorder.

  size_t traceId = 0; ///< Tracer's number of it, 0: none.

  bool isStore() const { return kind == TensorStore || kind == BulkStore; }
};

struct AsyncQueue {
  std::deque<AsyncOp> copies;
  /// In-order tensor pipes by issuing thread.
  std::map<uint64_t, std::deque<AsyncOp>> pipes;
  /// Committed bulk groups by thread.
  std::map<uint64_t, uint32_t> committed;
  /// MMAs since the last commit, by thread (statistics).
  std::map<uint64_t, uint32_t> uncommittedMma;

  static uint64_t thread(uint32_t cta, uint32_t warp, int lane) {
    return uint64_t(cta) << 32 | warp << 8 | uint32_t(lane);
  }
  bool empty() const {
    if (!copies.empty())
      return false;
    for (const auto &p : pipes)
      if (!p.second.empty())
        return false;
    return true;
  }
};

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_ASYNCQUEUE_H
