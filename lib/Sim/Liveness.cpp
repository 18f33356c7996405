//===- Liveness.cpp - Registers that live values need ---------------------===//
//
// PTX has any number of virtual registers, so "more registers than setmaxnreg
// leaves" can only be judged from what must be kept: a bound from below for the
// order of instructions as written. What the assembler could save is not
// counted:
// - values computed from nothing but literals, parameters and special registers
//   (it can compute them again, or keep them in uniform registers);
// - copies: a value and its copy, a pair and its halves are one value;
// - predicates and 8-bit registers; 16-bit registers count half;
// - what a guarded instruction overwrites.
// It may still do better by moving instructions, or spill.
//
//===----------------------------------------------------------------------===//

#include "Liveness.h"
#include "Machine.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <numeric>

namespace flamia {
namespace sim {

namespace {

/// Words of all bit sets together that are still analysed (256 MiB).
constexpr uint64_t maxWords = 1u << 25;

using Bits = std::vector<uint64_t>;

class PressureBuilder {
public:
  PressureBuilder(const Program &program, Kernel &kernel,
                  const BlockGraph &graph, const std::vector<uint8_t> &widths)
      : program(program), kernel(kernel), graph(graph), widths(widths) {}
  void run();

private:
  llvm::ArrayRef<uint32_t> usesOf(const Instr &i) const {
    return {kernel.regLists.data() + i.useBegin, i.useCount};
  }
  llvm::ArrayRef<uint32_t> defsOf(const Instr &i) const {
    return {kernel.regLists.data() + i.defBegin, i.defCount};
  }
  bool isMove(const Instr &i) const {
    return llvm::StringRef(program.opcodes[i.opcode]).starts_with("mov.");
  }
  uint32_t end(uint32_t block) const {
    return block + 1 < graph.first.size() ? graph.first[block + 1]
                                          : uint32_t(kernel.code.size());
  }
  void findCheap();
  void numberHalves();
  void joinCopies();
  uint32_t root(uint32_t half);
  void solve();
  void scan(uint32_t block);

  /// Adds or takes away a register's halves to those counted.
  void count(uint32_t reg, int change);
  bool counted(uint32_t reg) const { return halves[reg] && !cheap[reg]; }

  const Program &program;
  Kernel &kernel;
  const BlockGraph &graph;
  const std::vector<uint8_t> &widths;
  std::vector<bool> cheap;
  std::vector<uint32_t> firstHalf, halves; ///< 16-bit units of a register.
  std::vector<uint32_t> parent;            ///< Union-find over halves.
  std::vector<uint32_t> uses; ///< Live registers of a half's class.
  uint32_t live = 0;          ///< Classes with live registers.
  std::vector<Bits> liveOut;
  size_t words = 0;
};

void PressureBuilder::findCheap() {
  // Optimistic: everything is cheap until a definition says otherwise.
  cheap.assign(widths.size(), true);
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Instr &i : kernel.code) {
      bool pure = i.unit == Unit::Alu || i.unit == Unit::Fma ||
                  i.unit == Unit::Xu || i.unit == Unit::Convert ||
                  (i.unit == Unit::Memory && i.space == spaceParam);
      for (uint32_t u : usesOf(i))
        pure = pure && cheap[u];
      if (pure)
        continue;
      for (uint32_t d : defsOf(i)) {
        changed |= cheap[d];
        cheap[d] = false;
      }
    }
  }
}

void PressureBuilder::numberHalves() {
  uint32_t next = 0;
  for (uint8_t bits : widths) {
    firstHalf.push_back(next);
    halves.push_back(bits / 16);
    next += bits / 16;
  }
  parent.resize(next);
  std::iota(parent.begin(), parent.end(), 0);
  uses.assign(next, 0);
}

uint32_t PressureBuilder::root(uint32_t half) {
  while (parent[half] != half) {
    parent[half] = parent[parent[half]];
    half = parent[half];
  }
  return half;
}

void PressureBuilder::joinCopies() {
  for (const Instr &i : kernel.code) {
    if (!isMove(i))
      continue;
    // Registers on either side, in the order of their bits. A literal among
    // the elements leaves a side too short; then only known pairs are joined.
    llvm::SmallVector<uint32_t, 8> from, to;
    for (uint32_t u : usesOf(i))
      for (uint32_t k = 0; k < halves[u]; ++k)
        from.push_back(firstHalf[u] + k);
    for (uint32_t d : defsOf(i))
      for (uint32_t k = 0; k < halves[d]; ++k)
        to.push_back(firstHalf[d] + k);
    if (from.size() == to.size()) {
      for (size_t k = 0; k < from.size(); ++k)
        parent[root(from[k])] = root(to[k]);
      continue;
    }
    bool packs = i.copies == Copies::PackPair;
    if (!packs && i.copies != Copies::UnpackPair)
      continue;
    llvm::ArrayRef<uint32_t> wide = packs ? to : from;
    uint32_t parts[2] = {i.target, i.reconverge};
    for (unsigned p = 0; p < 2; ++p)
      for (unsigned k = 0; parts[p] != noIndex && k < 2 && wide.size() == 4;
           ++k)
        parent[root(firstHalf[parts[p]] + k)] = root(wide[2 * p + k]);
  }
}

void PressureBuilder::solve() {
  size_t blocks = graph.first.size();
  liveOut.assign(blocks, Bits(words));
  std::vector<Bits> gen(blocks, Bits(words)), kill(blocks, Bits(words));
  std::vector<std::vector<uint32_t>> predecessors(blocks);
  auto bit = [](uint32_t r) { return uint64_t(1) << (r % 64); };
  for (uint32_t b = 0; b < blocks; ++b) {
    for (uint32_t s : graph.successors[b])
      if (s < blocks)
        predecessors[s].push_back(b);
    for (uint32_t k = end(b); k-- > graph.first[b];) {
      const Instr &i = kernel.code[k];
      for (uint32_t d : defsOf(i)) {
        gen[b][d / 64] &= ~bit(d);
        kill[b][d / 64] |= bit(d);
      }
      for (uint32_t u : usesOf(i))
        gen[b][u / 64] |= bit(u);
    }
  }
  std::vector<uint32_t> work(blocks);
  std::iota(work.begin(), work.end(), 0);
  std::vector<bool> queued(blocks, true);
  Bits in(words);
  while (!work.empty()) {
    uint32_t b = work.back();
    work.pop_back();
    queued[b] = false;
    for (size_t w = 0; w < words; ++w)
      in[w] = gen[b][w] | (liveOut[b][w] & ~kill[b][w]);
    for (uint32_t p : predecessors[b]) {
      bool grew = false;
      for (size_t w = 0; w < words; ++w) {
        uint64_t more = in[w] & ~liveOut[p][w];
        grew |= more != 0;
        liveOut[p][w] |= more;
      }
      if (grew && !queued[p]) {
        queued[p] = true;
        work.push_back(p);
      }
    }
  }
}

void PressureBuilder::count(uint32_t reg, int change) {
  for (uint32_t k = 0; k < halves[reg]; ++k) {
    uint32_t &n = uses[root(firstHalf[reg] + k)];
    if (change > 0 ? n++ == 0 : --n == 0)
      live += uint32_t(change);
  }
}

void PressureBuilder::scan(uint32_t block) {
  Bits alive = liveOut[block];
  auto has = [&](uint32_t r) { return alive[r / 64] >> (r % 64) & 1; };
  auto set = [&](uint32_t r, bool on) {
    if (!counted(r) || bool(has(r)) == on)
      return;
    alive[r / 64] ^= uint64_t(1) << (r % 64);
    count(r, on ? 1 : -1);
  };
  std::fill(uses.begin(), uses.end(), 0);
  live = 0;
  for (uint32_t r = 0; r < widths.size(); ++r)
    if (has(r) && counted(r))
      count(r, 1);
  for (uint32_t k = end(block); k-- > graph.first[block];) {
    const Instr &i = kernel.code[k];
    // Results need their registers even when nobody reads them.
    for (uint32_t d : defsOf(i))
      set(d, true);
    uint32_t after = live;
    for (uint32_t d : defsOf(i))
      set(d, false);
    for (uint32_t u : usesOf(i))
      set(u, true);
    uint32_t most = (std::max(after, live) + 1) / 2;
    kernel.pressure[k] = uint16_t(std::min(most, 0xFFFFu));
  }
}

void PressureBuilder::run() {
  words = (widths.size() + 63) / 64;
  if (uint64_t(words) * graph.first.size() * 3 > maxWords)
    return;
  kernel.pressure.assign(kernel.code.size(), 0);
  findCheap();
  numberHalves();
  joinCopies();
  solve();
  for (uint32_t b = 0; b < graph.first.size(); ++b)
    scan(b);
}

} // namespace

void computePressure(const Program &program, Kernel &kernel,
                     const BlockGraph &graph,
                     const std::vector<uint8_t> &widths) {
  PressureBuilder(program, kernel, graph, widths).run();
}

} // namespace sim
} // namespace flamia
