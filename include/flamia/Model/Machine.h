//===- Machine.h - Units and rates of the GPUs that are modelled -*- C++
//-*-===//
//
// What an SM of a B200 or B300 can do in a cycle. Nothing here was measured by
// us on such a GPU; every number is cited from public measurements in
// facts/blackwell-throughput.md ("facts" below), whose text docs/model.md
// repeats where it matters.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_MACHINE_H
#define FLAMIA_MODEL_MACHINE_H

#include "llvm/ADT/StringRef.h"

#include <array>
#include <string>
#include <vector>

namespace flamia {
namespace model {

/// A part of an SM that works beside the others. Cycles of a unit are those it
/// is busy when it runs at its rate.
enum class Unit : unsigned {
  Tensor,    ///< tcgen05.mma
  Mufu,      ///< ex2, lg2, rcp, rsqrt; scalar F2F, F2I, I2F (the XU)
  Fma,       ///< FFMA, FADD, FMUL, their packed forms, IMAD, half precision
  Alu,       ///< comparisons, logic, moves, conversions to 8 and 16 bits
  Issue,     ///< issue slots, four warp instructions a cycle
  Shared,    ///< shared memory, 128 bytes a cycle, and shuffles
  TmemLoad,  ///< tcgen05.ld
  TmemStore, ///< tcgen05.st
  L2Reduce,  ///< fp32 reductions into L2
  L2Read     ///< TMA and global loads
};
inline constexpr unsigned numUnits = unsigned(Unit::L2Read) + 1;
/// "tensor", "mufu", ...
llvm::StringRef nameOf(Unit unit);

/// Cycles by unit.
struct UnitCycles {
  std::array<double, numUnits> cycles = {};
  double &operator[](Unit u) { return cycles[unsigned(u)]; }
  double operator[](Unit u) const { return cycles[unsigned(u)]; }
  UnitCycles &operator+=(const UnitCycles &other);
  UnitCycles operator*(double factor) const;
  /// The largest entry: no schedule is faster.
  double bound() const;
  /// Its unit; the first of equal ones.
  Unit bottleneck() const;
  /// Units within `share` of the bound, the largest first.
  std::vector<Unit> bottlenecks(double share = 0.9) const;
};

/// Threads (or bytes, where it says so) a cycle and SM, facts sections 1 to 4.
struct Machine {
  std::string name; ///< B200, GB300, ...
  std::string arch; ///< sm_100a, sm_103a
  unsigned sms = 148;
  double clockGHz = 1.85;  ///< Sustained under tensor load, section 1.
  double ex2 = 16;         ///< ex2.f32, section 3.
  bool loadReduce = false; ///< tcgen05.ld.red, section 4.

  // The same on all, section 3.
  static constexpr double mufu = 16;          ///< other MUFU operations
  static constexpr double scalarConvert = 16; ///< F2F, F2I: 11 to 16
  static constexpr double fma = 128;
  static constexpr double fmaPacked = 64; ///< FFMA2, FADD2, FMUL2
  static constexpr double integerMad = 64;
  static constexpr double alu = 64;
  static constexpr double convert8 = 32;  ///< F2FP to 8 and 4 bits
  static constexpr double convert16 = 64; ///< F2FP to BF16; 32 to 64 reported
  static constexpr double redux = 32; ///< REDUX, MATCH: the rate of shuffles
  static constexpr double issue = 128;
  // Bytes, section 4. The two sources for tcgen05.ld differ by ten times (228
  // and 2400 bytes); 512 is the middle that facts recommends.
  static constexpr double sharedBytes = 128;
  /// Threads; a shuffle keeps operands of products from passing, as measured on
  /// an H200 (bench/h200/README.md).
  static constexpr double shuffle = 32;
  static constexpr double tmemLoadBytes = 512;
  static constexpr double tmemStoreBytes = 512; ///< 345 to 683
  static constexpr double l2ReduceBytes = 14;
  static constexpr double l2ReadBytes = 72; ///< all SMs together, a share

  /// Bytes a second that a tuned quantizer reached on a B200 ("Chasing 6+
  /// TB/s", facts/attention-kernels.md section 3.0).
  static constexpr double streamingBytesPerSecond = 6.0e12;
  /// The most that copies reach of the memory, section 1: 7.1 to 7.4.
  static constexpr double memoryBytesPerSecond = 7.1e12;

  /// HGX B200 and B300 (148 SMs), GB200 and GB300 (152).
  static const Machine &b200();
  static const Machine &b300();
  static const Machine &gb200();
  static const Machine &gb300();
  /// By name, or null.
  static const Machine *find(llvm::StringRef name);
};

/// Cycles that one tcgen05.mma holds the tensor core of its CTA's SM, section
/// 2: N/2 at M = 128 and 32 bytes of K for every kind, when A comes from tensor
/// memory; more for narrow N with A in shared memory. `ctaGroup` 2: M is that
/// of the pair, and M = 128 takes half the time of M = 256.
double mmaCycles(unsigned m, unsigned n, bool aInTmem, unsigned ctaGroup,
                 const Machine &machine);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_MACHINE_H
