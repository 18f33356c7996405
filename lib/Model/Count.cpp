//===- Count.cpp - From a profile and machine code to counts --------------===//

#include "flamia/Model/Count.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <set>

namespace flamia {
namespace model {

using llvm::StringRef;
using sim::Profile;

UnitCycles Counts::units() const {
  UnitCycles sum;
  for (const RoleCounts &role : roles)
    sum += role.units;
  return sum;
}

double tmemBytes(StringRef opcode) {
  if (!opcode.starts_with("tcgen05.ld.") && !opcode.starts_with("tcgen05.st."))
    return 0;
  // Registers of a thread by shape and repetition (PTX ISA 9.7.16.8).
  unsigned perRepetition = opcode.contains(".16x256b")   ? 4
                           : opcode.contains(".16x128b") ? 2
                                                         : 1;
  llvm::SmallVector<StringRef, 12> parts;
  opcode.split(parts, '.');
  unsigned repetition = 1;
  for (StringRef part : parts)
    if (part.consume_front("x"))
      part.getAsInteger(10, repetition);
  return 128.0 * perRepetition * repetition;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Instructions that the compiler neither copies nor moves to another block.
static bool isAnchor(StringRef opcode) {
  StringRef base = opcode.split('.').first;
  return base.starts_with("UTC") || base.starts_with("UTM") ||
         llvm::is_contained({"LDTM", "STTM", "SYNCS", "LDS", "STS", "LDG",
                             "STG", "BAR", "FENCE", "MUFU", "F2FP", "SHFL"},
                            base);
}

BlockCounts::BlockCounts(const SassFunction &code, const Profile &profile)
    : numWarps(unsigned(profile.executed.size())) {
  for (size_t pc = 0; pc < profile.code.size(); ++pc) {
    std::vector<uint64_t> &counts = lines[profile.code[pc].line];
    counts.resize(numWarps);
    // Several instructions of a line run equally often.
    for (unsigned w = 0; w < numWarps; ++w)
      counts[w] = std::max(counts[w], profile.executed[w][pc]);
  }
  // Machine code keeps the PTX line of each instruction, but some instructions
  // have been moved to other blocks: a block runs as often as most of its
  // instructions say, those that cannot be moved first.
  std::vector<std::map<std::vector<uint64_t>, std::pair<unsigned, unsigned>>>
      votes(code.blocks);
  for (const SassInstruction &i : code.code) {
    auto it = lines.find(i.line);
    if (it == lines.end())
      continue;
    auto &vote = votes[i.block][it->second];
    vote.first += isAnchor(i.opcode) ? 16 : 1;
    vote.second = i.line;
  }
  lineOfBlock.assign(code.blocks, 0);
  for (unsigned b = 0; b < code.blocks; ++b) {
    unsigned best = 0;
    for (const auto &[counts, vote] : votes[b])
      if (vote.first > best) {
        best = vote.first;
        lineOfBlock[b] = vote.second;
      }
  }
  // ptxas may copy a block into several ways. How the executions are spread
  // over the copies is not known: evenly. Only what issues asynchronous work
  // for one thread is looked at, where copies have been seen.
  std::map<unsigned, std::set<unsigned>> copies;
  for (const SassInstruction &i : code.code)
    if (StringRef(i.opcode).starts_with("UTC") ||
        StringRef(i.opcode).starts_with("UTM"))
      copies[i.line].insert(i.block);
  shareOfBlock.assign(code.blocks, 1);
  for (const auto &[line, in] : copies)
    for (unsigned b : in)
      if (lines.count(line) && lines[line] == lines[lineOfBlock[b]])
        shareOfBlock[b] = std::min(shareOfBlock[b], 1.0 / double(in.size()));
  // Blocks that end in a trap (misuse of tensor memory) do not run.
  for (const SassInstruction &i : code.code)
    if (StringRef(i.opcode).starts_with("BPT") ||
        (StringRef(i.opcode).starts_with("CALL") &&
         StringRef(i.operands).contains("guardrail")))
      lineOfBlock[i.block] = 0;
}

double BlockCounts::of(const SassInstruction &i, unsigned warp) const {
  unsigned line = lineOfBlock[i.block];
  auto it = line ? lines.find(line) : lines.end();
  return it == lines.end() ? 0
                           : double(it->second[warp]) * shareOfBlock[i.block];
}

std::vector<UnitCycles>
BlockCounts::instructionCosts(const SassFunction &code, const Profile &profile,
                              const Machine &machine) const {
  std::map<unsigned, UnitCycles> ofLine;
  for (const SassInstruction &i : code.code) {
    double times = 0;
    for (unsigned w = 0; w < numWarps; ++w)
      times += of(i, w);
    if (times > 0)
      ofLine[i.line] += costOf(i, machine) * times;
  }
  std::map<unsigned, unsigned> instructions;
  for (const Profile::Instruction &i : profile.code)
    ++instructions[i.line];
  std::vector<UnitCycles> costs(profile.code.size());
  for (size_t pc = 0; pc < profile.code.size(); ++pc) {
    const Profile::Instruction &i = profile.code[pc];
    double times = 0;
    for (unsigned w = 0; w < numWarps; ++w)
      times += double(profile.executed[w][pc]);
    if (times == 0)
      continue;
    costs[pc] = ofLine[i.line] * (1 / times / instructions[i.line]);
    costs[pc][Unit::Shared] += double(i.sharedPasses) / times;
    // Tensor memory's share is the replay's business: it is asynchronous.
  }
  return costs;
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

namespace {
struct Role {
  std::string name;
  std::vector<unsigned> warps;
};
} // namespace

/// Groups warps that run the same instructions (four of five).
static std::vector<Role> findRoles(const Profile &profile) {
  unsigned warps = unsigned(profile.executed.size());
  std::vector<Role> roles;
  std::vector<std::set<size_t>> runs(warps);
  for (unsigned w = 0; w < warps; ++w)
    for (size_t pc = 0; pc < profile.code.size(); ++pc)
      if (profile.executed[w][pc])
        runs[w].insert(pc);
  auto uses = [&](unsigned w, StringRef opcode) {
    for (size_t pc : runs[w])
      if (StringRef(profile.code[pc].opcode).starts_with(opcode))
        return true;
    return false;
  };
  for (unsigned w = 0; w < warps; ++w) {
    bool found = false;
    for (Role &role : roles) {
      const std::set<size_t> &first = runs[role.warps.front()];
      size_t both = 0;
      for (size_t pc : runs[w])
        both += first.count(pc);
      if (both * 5 >= 4 * (first.size() + runs[w].size() - both)) {
        role.warps.push_back(w);
        found = true;
        break;
      }
    }
    if (found)
      continue;
    Role role;
    role.warps = {w};
    bool mma = uses(w, "tcgen05.mma"), vector = uses(w, "tcgen05.ld.");
    role.name = mma && vector              ? "all"
                : mma                      ? "mma"
                : uses(w, "cp.async.bulk") ? vector ? "vector" : "load"
                : vector || uses(w, "ex2") ? "vector"
                : uses(w, "st.global")     ? "vector"
                                           : "other";
    roles.push_back(std::move(role));
  }
  std::map<std::string, unsigned> names;
  for (Role &role : roles)
    ++names[role.name];
  std::map<std::string, unsigned> number;
  for (Role &role : roles)
    if (names[role.name] > 1)
      role.name += " " + std::to_string(++number[role.name]);
  return roles;
}

/// Everything a launch did, by role.
static Counts total(const SassFunction &code, const ProfiledLaunch &launch,
                    const std::vector<Role> &roles, const BlockCounts &blocks,
                    const Machine &machine) {
  const Profile &profile = launch.profile;
  Counts result;
  std::vector<unsigned> roleOf(blocks.warps(), 0);
  for (const Role &role : roles) {
    for (unsigned w : role.warps)
      roleOf[w] = unsigned(result.roles.size());
    RoleCounts counts;
    counts.name = role.name;
    counts.warps = role.warps;
    result.roles.push_back(std::move(counts));
  }
  for (const SassInstruction &i : code.code) {
    UnitCycles cost = costOf(i, machine);
    std::string kind = classOf(i).str();
    for (unsigned w = 0; w < blocks.warps(); ++w) {
      double times = blocks.of(i, w);
      if (times == 0)
        continue;
      RoleCounts &role = result.roles[roleOf[w]];
      role.instructions += times;
      role.classes[kind] += times;
      role.units += cost * times;
    }
  }
  for (size_t pc = 0; pc < profile.code.size(); ++pc) {
    const Profile::Instruction &i = profile.code[pc];
    double bytes = tmemBytes(i.opcode), all = 0;
    bool load = StringRef(i.opcode).starts_with("tcgen05.ld");
    for (unsigned w = 0; w < blocks.warps(); ++w)
      all += double(profile.executed[w][pc]);
    for (unsigned w = 0; all > 0 && w < blocks.warps(); ++w) {
      double times = double(profile.executed[w][pc]);
      UnitCycles &units = result.roles[roleOf[w]].units;
      units[Unit::Shared] += double(i.sharedPasses) * times / all;
      units[load ? Unit::TmemLoad : Unit::TmemStore] +=
          times * bytes /
          (load ? Machine::tmemLoadBytes : Machine::tmemStoreBytes);
    }
  }
  std::vector<double> mmas(profile.shapes.size(), 0);
  for (const Profile::Cta &cta : profile.ctas)
    for (unsigned w = 0; w < cta.warps.size(); ++w) {
      UnitCycles &units = result.roles[roleOf[w]].units;
      for (const Profile::Event &e : cta.warps[w]) {
        if (e.kind == Profile::Event::Mma) {
          const Profile::MmaShape &s = profile.shapes[e.a];
          ++mmas[e.a];
          double perSm = s.ctaGroup == 2 ? 0.5 : 1; // The other SM works too.
          units[Unit::Tensor] +=
              mmaCycles(s.m, s.n, s.aInTmem, s.ctaGroup, machine);
          // 32 bytes of K a row of A and of B.
          units[Unit::Shared] +=
              32 * (s.n + (s.aInTmem ? 0 : s.m)) * perSm / Machine::sharedBytes;
        } else if (e.kind == Profile::Event::Load) {
          units[Unit::L2Read] += e.bytes / Machine::l2ReadBytes;
        }
      }
    }
  for (size_t k = 0; k < mmas.size(); ++k) {
    const Profile::MmaShape &s = profile.shapes[k];
    result.mma[s.kind + " " + std::to_string(s.m) + "x" + std::to_string(s.n) +
               "x" + std::to_string(s.k) + (s.aInTmem ? " TS" : " SS") +
               (s.ctaGroup == 2 ? " pair" : "")] += mmas[k];
  }
  for (const auto &[name, bytes] : launch.stats.bytes)
    result.bytes[name] += double(bytes);
  return result;
}

/// a * x + b * y, clearing what rounding leaves of nothing.
static double mix(double x, double a, double y, double b) {
  double v = x * a + y * b;
  return std::abs(v) < 1e-9 * (std::abs(x * a) + std::abs(y * b)) ? 0 : v;
}

static Counts mix(const Counts &x, double a, const Counts &y, double b) {
  Counts result = x;
  for (size_t r = 0; r < x.roles.size(); ++r) {
    RoleCounts &role = result.roles[r];
    const RoleCounts &p = x.roles[r], &q = y.roles[r];
    role.instructions = mix(p.instructions, a, q.instructions, b);
    for (unsigned u = 0; u < numUnits; ++u)
      role.units.cycles[u] = mix(p.units.cycles[u], a, q.units.cycles[u], b);
    std::map<std::string, double> classes = q.classes;
    for (const auto &[name, n] : p.classes)
      classes[name] += 0;
    for (auto &[name, n] : classes) {
      auto it = p.classes.find(name);
      n = mix(it == p.classes.end() ? 0 : it->second, a, n, b);
    }
    role.classes = std::move(classes);
  }
  auto mixMaps = [&](const std::map<std::string, double> &p,
                     const std::map<std::string, double> &q) {
    std::map<std::string, double> merged;
    for (const auto &[name, n] : p)
      merged[name] += n * a;
    for (const auto &[name, n] : q)
      merged[name] = mix(merged[name], 1, n, b);
    for (auto it = merged.begin(); it != merged.end();)
      it = it->second == 0 ? merged.erase(it) : std::next(it);
    return merged;
  };
  result.mma = mixMaps(x.mma, y.mma);
  result.bytes = mixMaps(x.bytes, y.bytes);
  return result;
}

llvm::Expected<KernelCounts> count(const SassFunction &code,
                                   const ProfiledLaunch &small,
                                   const ProfiledLaunch &large,
                                   const Machine &machine) {
  if (small.profile.truncated || large.profile.truncated)
    return llvm::createStringError(
        "the launch is too large to be counted: use fewer CTAs");
  if (small.profile.executed.size() != large.profile.executed.size())
    return llvm::createStringError("the two launches differ in their block");
  std::vector<Role> roles = findRoles(large.profile);
  BlockCounts blocks(code, large.profile), smallBlocks(code, small.profile);
  Counts t1 = total(code, small, roles, smallBlocks, machine);
  Counts t2 = total(code, large, roles, blocks, machine);
  KernelCounts result;
  result.kernel = code.name;
  result.arch = machine.arch;
  double n1 = small.tiles, n2 = large.tiles, r1 = small.rows, r2 = large.rows;
  if (n1 == 0 && n2 == 0) {
    if (r2 <= 0)
      return llvm::createStringError("the launch does nothing to be counted");
    result.row = mix(t2, 1 / r2, t2, 0);
  } else {
    double det = n2 * r1 - n1 * r2;
    if (std::abs(det) < 1e-9 * n2 * r1 || r1 <= 0)
      return llvm::createStringError(
          llvm::formatv("launches of {0:f0} tiles in {1:f0} rows and {2:f0} "
                        "tiles in {3:f0} "
                        "rows do not tell tiles from rows",
                        n1, r1, n2, r2)
              .str());
    result.tile = mix(t2, r1 / det, t1, -r2 / det);
    result.row = mix(t1, n2 / det, t2, -n1 / det);
  }
  result.argumentBytesPerRow = r2 > 0 ? large.argumentBytes / r2 : 0;

  auto agree = [&](const char *what, auto inPtx, auto inSass) {
    KernelCounts::Agreement a;
    a.what = what;
    const Profile &p = large.profile;
    for (size_t pc = 0; pc < p.code.size(); ++pc)
      if (inPtx(StringRef(p.code[pc].opcode)))
        for (unsigned w = 0; w < blocks.warps(); ++w)
          a.ptx += double(p.executed[w][pc]);
    for (const SassInstruction &i : code.code)
      if (inSass(StringRef(i.opcode)))
        for (unsigned w = 0; w < blocks.warps(); ++w)
          a.sass += blocks.of(i, w);
    if (a.ptx > 0 || a.sass > 0)
      result.agreement.push_back(std::move(a));
  };
  auto starts = [](const char *text) {
    return [=](StringRef opcode) { return opcode.starts_with(text); };
  };
  agree("tcgen05.mma", starts("tcgen05.mma."),
        [](StringRef o) { return o.starts_with("UTC") && o.contains("MMA"); });
  agree("tcgen05.ld", starts("tcgen05.ld."), starts("LDTM"));
  agree("tcgen05.st", starts("tcgen05.st."), starts("STTM"));
  agree("tcgen05.cp", starts("tcgen05.cp."), starts("UTCCP"));
  agree("ex2", starts("ex2."), starts("MUFU.EX2"));
  agree(
      "cvt to 8 bits",
      [](StringRef o) {
        return o.starts_with("cvt.") && o.contains("e4m3x2.f32");
      },
      [](StringRef o) {
        return o.starts_with("F2FP") && o.contains(".E4M3.F32");
      });
  return result;
}

} // namespace model
} // namespace flamia
