//===- Count.h - What a kernel does per score tile and role -----*- C++ -*-===//
//
// Joins a launch that the simulator profiled with the machine code that ptxas
// made of the same PTX. Two launches of different length tell what a 128 x 128
// score tile costs from what a row of tiles costs beside its tiles: every count
// is tiles * C + rows * R.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_MODEL_COUNT_H
#define FLAMIA_MODEL_COUNT_H

#include "flamia/Model/Sass.h"
#include "flamia/Sim/Simulator.h"

#include <map>
#include <string>
#include <vector>

namespace flamia {
namespace model {

/// A launch with its profile.
struct ProfiledLaunch {
  sim::Profile profile;
  sim::SimStats stats;
  double tiles = 0; ///< Score tiles that it computes.
  double rows = 0;  ///< Rows of tiles.
  /// Bytes of all its tensors: what reading and writing each once takes.
  double argumentBytes = 0;
};

/// What some warps do; executions are fractional where they are averages.
struct RoleCounts {
  std::string name; ///< mma, load, vector, ...: by what the warps issue
  std::vector<unsigned> warps;
  double instructions = 0;               ///< SASS warp instructions
  std::map<std::string, double> classes; ///< by classOf
  UnitCycles units;
};

struct Counts {
  std::vector<RoleCounts> roles;
  std::map<std::string, double> mma;   ///< "mxf8f6f4 128x128x32 TS" -> count
  std::map<std::string, double> bytes; ///< tma.load, tmem.load, ... (SimStats)
  UnitCycles units() const;
};

struct KernelCounts {
  std::string kernel, arch;
  Counts tile; ///< A tile in the middle of a row; empty without score tiles.
  /// A row's rest: start, end, and what its diagonal tile costs more.
  Counts row;
  double argumentBytesPerRow = 0;
  /// Both sides' counts of what must agree, in the larger launch.
  struct Agreement {
    std::string what;
    double ptx = 0, sass = 0;
  };
  std::vector<Agreement> agreement;
};

/// How often each basic block of the machine code ran, by warp.
class BlockCounts {
public:
  BlockCounts(const SassFunction &code, const sim::Profile &profile);
  /// Executions of the instruction's block by a warp of the CTA.
  double of(const SassInstruction &i, unsigned warp) const;
  unsigned warps() const { return numWarps; }

  /// Cycles of each PTX instruction for one execution by one warp (costOf): the
  /// machine instructions of its line, and its passes of shared and bytes of
  /// tensor memory. Indices are the profile's.
  std::vector<UnitCycles> instructionCosts(const SassFunction &code,
                                           const sim::Profile &profile,
                                           const Machine &machine) const;

private:
  unsigned numWarps;
  /// PTX line that stands for each block, 0: never runs.
  std::vector<unsigned> lineOfBlock;
  /// Share of the line's executions: 1, or less where ptxas copied the block.
  std::vector<double> shareOfBlock;
  std::map<unsigned, std::vector<uint64_t>> lines;
};

/// Bytes that one tcgen05.ld or st of this opcode moves, 0 for others.
double tmemBytes(llvm::StringRef opcode);

/// `small` and `large` are launches of one kernel; rows and tiles must not be
/// in proportion (unless there are no tiles).
llvm::Expected<KernelCounts> count(const SassFunction &code,
                                   const ProfiledLaunch &small,
                                   const ProfiledLaunch &large,
                                   const Machine &machine);

} // namespace model
} // namespace flamia

#endif // FLAMIA_MODEL_COUNT_H
