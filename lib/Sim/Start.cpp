//===- Start.cpp - State of a CTA before its first instruction ------------===//

#include "Hazard.h"
#include "Machine.h"

#include <algorithm>
#include <cstring>

namespace flamia {
namespace sim {

namespace {
/// Fills the lanes of one special register.
class SpecialFiller {
public:
  SpecialFiller(const LaunchState &launch, const Cta &cta, const Warp &warp)
      : launch(launch), cta(cta), warp(warp) {}

  uint64_t value(Special s, unsigned lane) const {
    const LaunchConfig &c = *launch.config;
    uint32_t thread = warp.index * warpLanes + lane;
    uint32_t bx = c.block[0], by = c.block[1];
    std::array<uint32_t, 3> inCluster;
    for (unsigned k = 0; k < 3; ++k)
      inCluster[k] = cta.id[k] % c.cluster[k];
    switch (s) {
    case Special::TidX:
      return thread % bx;
    case Special::TidY:
      return thread / bx % by;
    case Special::TidZ:
      return thread / bx / by;
    case Special::NtidX:
    case Special::NtidY:
    case Special::NtidZ:
      return c.block[unsigned(s) - unsigned(Special::NtidX)];
    case Special::CtaidX:
    case Special::CtaidY:
    case Special::CtaidZ:
      return cta.id[unsigned(s) - unsigned(Special::CtaidX)];
    case Special::NctaidX:
    case Special::NctaidY:
    case Special::NctaidZ:
      return c.grid[unsigned(s) - unsigned(Special::NctaidX)];
    case Special::LaneId:
      return lane;
    case Special::WarpId:
      return warp.index;
    case Special::NwarpId:
      return launch.warpsPerCta;
    case Special::SmId:
      return (cta.id[0] +
              c.grid[0] * (cta.id[1] + uint64_t(c.grid[1]) * cta.id[2])) %
             148;
    case Special::NsmId:
      return 148;
    case Special::ClusterIdX:
    case Special::ClusterIdY:
    case Special::ClusterIdZ: {
      unsigned k = unsigned(s) - unsigned(Special::ClusterIdX);
      return cta.id[k] / c.cluster[k];
    }
    case Special::NclusterIdX:
    case Special::NclusterIdY:
    case Special::NclusterIdZ: {
      unsigned k = unsigned(s) - unsigned(Special::NclusterIdX);
      return c.grid[k] / c.cluster[k];
    }
    case Special::ClusterCtaIdX:
    case Special::ClusterCtaIdY:
    case Special::ClusterCtaIdZ:
      return inCluster[unsigned(s) - unsigned(Special::ClusterCtaIdX)];
    case Special::ClusterNctaIdX:
    case Special::ClusterNctaIdY:
    case Special::ClusterNctaIdZ:
      return c.cluster[unsigned(s) - unsigned(Special::ClusterNctaIdX)];
    case Special::ClusterCtaRank:
      return cta.rank;
    case Special::ClusterNctaRank:
      return uint64_t(c.cluster[0]) * c.cluster[1] * c.cluster[2];
    case Special::LanemaskEq:
      return 1u << lane;
    case Special::LanemaskLe:
      return (2ull << lane) - 1;
    case Special::LanemaskLt:
      return (1u << lane) - 1;
    case Special::LanemaskGe:
      return ~((1u << lane) - 1);
    case Special::LanemaskGt:
      return uint32_t(~((2ull << lane) - 1));
    case Special::DynamicSmemSize:
      return c.dynamicShared;
    case Special::TotalSmemSize:
    case Special::AggrSmemSize:
      return cta.shared.size();
    case Special::ReservedEnd:
      return sharedBase;
    default:
      return 0;
    }
  }

private:
  const LaunchState &launch;
  const Cta &cta;
  const Warp &warp;
};
} // namespace

static void startWarp(const LaunchState &launch, Cta &cta, Warp &warp) {
  const Kernel &kernel = *launch.kernel;
  unsigned first = warp.index * warpLanes;
  unsigned lanes = std::min(launch.threadsPerCta - first, warpLanes);
  warp.present = lanes == 32 ? allLanes : (1u << lanes) - 1;
  warp.live = warp.present;
  warp.registers = allocateAligned(kernel.registerBytes);
  warp.ready = kernel.initialReady;
  warp.pending.assign(kernel.regNames.size(), 0);
  warp.local.assign(size_t(kernel.localBytes) * warpLanes, 0);
  warp.localDefined.assign(warp.local.size(), 0);
  std::fill_n(warp.stack, warpLanes, kernel.stackBegin);
  SpecialFiller filler(launch, cta, warp);
  for (const SpecialInit &s : kernel.specials)
    for (unsigned l = 0; l < warpLanes; ++l) {
      uint64_t v = filler.value(s.what, l);
      std::memcpy(warp.registers.get() + s.off + l * s.bytes, &v, s.bytes);
    }
  Fragment f;
  f.mask = warp.live;
  warp.fragments.push_back(f);
}

void Cluster::start(uint64_t clusterIndex, uint64_t seed) {
  const Kernel &kernel = *launch.kernel;
  const LaunchConfig &c = *launch.config;
  random.seed(seed * 0x9E3779B97F4A7C15ull + clusterIndex);
  executed.assign(kernel.code.size(), 0);
  unsigned perCluster = c.cluster[0] * c.cluster[1] * c.cluster[2];
  std::array<uint64_t, 3> clusters;
  for (unsigned k = 0; k < 3; ++k)
    clusters[k] = c.grid[k] / c.cluster[k];
  std::array<uint64_t, 3> at = {clusterIndex % clusters[0],
                                clusterIndex / clusters[0] % clusters[1],
                                clusterIndex / clusters[0] / clusters[1]};
  uint32_t dynamicStart =
      (sharedBase + kernel.sharedBytes + kernel.dynamicAlign - 1) /
      kernel.dynamicAlign * kernel.dynamicAlign;
  uint32_t sharedSize = c.dynamicShared
                            ? dynamicStart + c.dynamicShared - sharedBase
                            : kernel.sharedBytes;
  for (unsigned r = 0; r < perCluster; ++r) {
    auto cta = std::make_unique<Cta>();
    cta->cluster = this;
    cta->rank = r;
    std::array<uint32_t, 3> in = {r % c.cluster[0],
                                  r / c.cluster[0] % c.cluster[1],
                                  r / c.cluster[0] / c.cluster[1]};
    for (unsigned k = 0; k < 3; ++k)
      cta->id[k] = uint32_t(at[k] * c.cluster[k] + in[k]);
    cta->shared.assign(sharedSize, 0);
    cta->shadow.assign(sharedSize, 0);
    cta->mbarrierAt.assign(sharedSize / 8 + 1, -1);
    cta->constants = kernel.constants;
    for (auto [off, bytes] : kernel.sharedConstants)
      for (unsigned l = 0; l < warpLanes && r; ++l) {
        uint64_t v = 0;
        std::memcpy(&v, cta->constants.data() + off + l * bytes, bytes);
        v |= uint64_t(r) << 24;
        std::memcpy(cta->constants.data() + off + l * bytes, &v, bytes);
      }
    for (unsigned w = 0; w < launch.warpsPerCta; ++w) {
      cta->warps.push_back(std::make_unique<Warp>());
      cta->warps.back()->cta = cta.get();
      cta->warps.back()->index = w;
      startWarp(launch, *cta, *cta->warps.back());
    }
    for (NamedBarrier &b : cta->barriers)
      b.lanes.assign(launch.warpsPerCta, 0);
    cta->liveWarps = launch.warpsPerCta;
    ctas.push_back(std::move(cta));
  }
  const CheckSet &checks = launch.options->checks;
  for (Check check :
       {Check::Race, Check::ProxyFence, Check::TensorFence, Check::PtxOrder})
    if (checks.has(check) && !hazards)
      hazards = std::make_unique<Hazards>(*this);
}

} // namespace sim
} // namespace flamia
