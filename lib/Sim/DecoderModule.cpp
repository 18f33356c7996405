//===- DecoderModule.cpp - Modules, layout, control flow ------------------===//

#include "Decoder.h"
#include "Liveness.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cstring>

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;

static uint64_t alignUp(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

bool Decoder::layoutModule() {
  uint64_t next = moduleBase;
  for (const ptx::Variable &var : ast.variables) {
    if (var.space == ptx::Space::Shared)
      continue;
    if (var.external && var.init.empty()) {
      in = nullptr;
      errorLine = var.line;
      errorText = ("external variable '" + var.name +
                   "' has no definition in this module")
                      .str();
      return false;
    }
    next = alignUp(next, std::max<uint64_t>(var.align, 256));
    moduleAddresses[var.name] = next;
    program.variables.push_back({var.name.str(), next, var.bytes,
                                 var.space == ptx::Space::Const, var.init});
    next += var.bytes + 65536;
  }
  size_t index = 0;
  for (const ptx::Variable &var : ast.variables) {
    if (var.space == ptx::Space::Shared)
      continue;
    ModuleVariable &placed = program.variables[index++];
    for (const ptx::Relocation &reloc : var.relocations) {
      auto it = moduleAddresses.find(reloc.symbol);
      auto code = ast.deviceFunctions.find(reloc.symbol);
      if (it == moduleAddresses.end() && code != ast.deviceFunctions.end()) {
        uint64_t value = codeBase + code->second * codeStep;
        std::memcpy(placed.init.data() + reloc.at, &value, 8);
        continue;
      }
      if (it == moduleAddresses.end()) {
        errorLine = var.line;
        errorText = ("unknown name '" + reloc.symbol +
                     "' in the initialiser of '" + var.name + "'")
                        .str();
        return false;
      }
      uint64_t value = it->second + uint64_t(reloc.addend);
      std::memcpy(placed.init.data() + reloc.at, &value, 8);
    }
  }
  return true;
}

bool Decoder::layoutRegisters() {
  regOffsets.clear();
  kernel->regNames.clear();
  // Predicates first: they share cache lines.
  regOffsets.resize(fn->registers.size());
  for (size_t i = 0; i < fn->registers.size(); ++i)
    if (fn->registers[i].cls == ptx::RegClass::Pred)
      regOffsets[i] = allocRegister(1);
  for (size_t i = 0; i < fn->registers.size(); ++i) {
    if (fn->registers[i].cls != ptx::RegClass::Pred)
      regOffsets[i] = allocRegister(ptx::bitsOf(fn->registers[i].cls));
    kernel->regNames.push_back(fn->registers[i].spelling());
    kernel->initialReady.push_back(0);
    kernel->initialReady.push_back(
        fn->registers[i].cls == ptx::RegClass::B64 ? 0 : allLanes);
    if (kernel->registerBytes > (1u << 30))
      return fail("registers of '" + fn->name +
                  "' take more than 1 GiB a warp");
  }
  return true;
}

bool Decoder::layoutShared() {
  // Module-level variables count for the kernels that name them.
  llvm::StringSet<> named;
  for (const ptx::Instruction &instr : fn->instructions)
    for (const ptx::Operand &o : instr.operands) {
      if (o.kind == ptx::Operand::Name)
        named.insert(o.name);
      for (const ptx::Operand &e : o.elems)
        if (e.kind == ptx::Operand::Name)
          named.insert(e.name);
    }
  uint64_t shared = sharedBase, local = 0;
  uint32_t dynamicAlign = 16;
  sharedOffsets.clear();
  bodyOffsets.assign(fn->variables.size(), 0);
  for (const ptx::Variable &var : ast.variables)
    if (var.space == ptx::Space::Shared && !var.dynamic &&
        named.contains(var.name)) {
      shared = alignUp(shared, var.align);
      sharedOffsets[var.name] = uint32_t(shared);
      shared += var.bytes;
    }
  for (size_t i = 0; i < fn->variables.size(); ++i) {
    const ptx::Variable &var = fn->variables[i];
    if (var.dynamic)
      continue;
    uint64_t &at = var.space == ptx::Space::Local ? local : shared;
    at = alignUp(at, var.align);
    bodyOffsets[i] = at;
    at += var.bytes;
  }
  if (shared > (1u << 24))
    return fail("shared variables of '" + fn->name + "' exceed 16 MiB");
  if (local > (512u << 10))
    return fail("local variables of '" + fn->name + "' take " + Twine(local) +
                " bytes, the limit is 512 KiB a thread");
  for (const ptx::Variable &var : ast.variables)
    if (var.space == ptx::Space::Shared && var.dynamic &&
        named.contains(var.name))
      dynamicAlign = std::max(dynamicAlign, var.align);
  for (const ptx::Variable &var : fn->variables)
    if (var.dynamic)
      dynamicAlign = std::max(dynamicAlign, var.align);
  kernel->sharedBytes = uint32_t(shared - sharedBase);
  kernel->dynamicAlign = dynamicAlign;
  kernel->localBytes = kernel->stackBegin = uint32_t(alignUp(local, 16));
  for (const ptx::Instruction &instr : fn->instructions)
    kernel->usesStack |= instr.parts.front() == "alloca";
  for (const ptx::Callee &c : fn->callees)
    kernel->usesStack |= c.recursive;
  if (kernel->usesStack)
    kernel->localBytes += stackBytes;
  // Every dynamic array starts at the same place, behind the static ones.
  uint32_t dynamic = uint32_t(alignUp(shared, dynamicAlign));
  for (const ptx::Variable &var : ast.variables)
    if (var.space == ptx::Space::Shared && var.dynamic)
      sharedOffsets[var.name] = dynamic;
  for (size_t i = 0; i < fn->variables.size(); ++i)
    if (fn->variables[i].dynamic)
      bodyOffsets[i] = dynamic;
  return true;
}

void Decoder::layoutCallees() {
  for (const ptx::Callee &c : fn->callees) {
    CalleeInfo info;
    info.name = c.name.str();
    info.address = codeBase + ast.deviceFunctions.lookup(c.name) * codeStep;
    info.entry = c.entry;
    info.firstRegister = c.firstRegister;
    info.registerCount = c.registerCount;
    info.recursive = c.recursive;
    auto range = [&](uint32_t v) {
      return LocalRange{uint32_t(bodyOffsets[v]),
                        uint32_t(fn->variables[v].bytes)};
    };
    for (uint32_t v : c.params)
      info.params.push_back(range(v));
    for (uint32_t v : c.returns)
      info.returns.push_back(range(v));
    for (uint32_t k = 0; k < c.variableCount; ++k)
      if (fn->variables[c.firstVariable + k].space == ptx::Space::Local)
        info.variables.push_back(range(c.firstVariable + k));
    for (uint32_t r = c.firstRegister; r < c.firstRegister + c.registerCount;
         ++r) {
      unsigned bits = ptx::bitsOf(fn->registers[r].cls);
      info.registers.emplace_back(regOffsets[r], bits == 1 ? 4
                                                 : bits <= 16
                                                     ? 64
                                                     : bits / 8 * warpLanes);
    }
    kernel->callees.push_back(std::move(info));
  }
}

uint32_t Decoder::calleeByName(StringRef name) const {
  for (size_t k = 0; k < fn->callees.size(); ++k)
    if (fn->callees[k].name == name)
      return uint32_t(k);
  return noIndex;
}

namespace {
/// Immediate post-dominators by iteration over the reversed control-flow graph.
class PostDominators {
public:
  explicit PostDominators(std::vector<std::vector<uint32_t>> successors)
      : succ(std::move(successors)), exit(uint32_t(succ.size())) {
    succ.emplace_back();
    pred.resize(succ.size());
    for (uint32_t b = 0; b < succ.size(); ++b)
      for (uint32_t s : succ[b])
        pred[s].push_back(b);
    computeOrder();
    solve();
  }
  /// Block, the virtual exit (one past the last block) or noIndex.
  uint32_t of(uint32_t block) const { return ipdom[block]; }
  uint32_t exitBlock() const { return exit; }

private:
  void computeOrder() {
    // Post-order of the reversed graph from the exit, without recursion.
    number.assign(succ.size(), noIndex);
    std::vector<bool> seen(succ.size());
    std::vector<std::pair<uint32_t, size_t>> stack{{exit, 0}};
    seen[exit] = true;
    while (!stack.empty()) {
      auto &[block, next] = stack.back();
      if (next < pred[block].size()) {
        uint32_t p = pred[block][next++];
        if (!seen[p]) {
          seen[p] = true;
          stack.push_back({p, 0});
        }
        continue;
      }
      number[block] = uint32_t(order.size());
      order.push_back(block);
      stack.pop_back();
    }
  }
  void solve() {
    ipdom.assign(succ.size(), noIndex);
    ipdom[exit] = exit;
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t i = order.size(); i-- > 0;) {
        uint32_t b = order[i];
        if (b == exit)
          continue;
        uint32_t best = noIndex;
        for (uint32_t s : succ[b]) {
          if (ipdom[s] == noIndex)
            continue;
          best = best == noIndex ? s : intersect(best, s);
        }
        if (best != ipdom[b]) {
          ipdom[b] = best;
          changed = true;
        }
      }
    }
  }
  uint32_t intersect(uint32_t a, uint32_t b) const {
    while (a != b) {
      while (number[a] < number[b])
        a = ipdom[a];
      while (number[b] < number[a])
        b = ipdom[b];
    }
    return a;
  }

  std::vector<std::vector<uint32_t>> succ, pred;
  uint32_t exit;
  std::vector<uint32_t> number, order, ipdom;
};
} // namespace

/// Finds where the two ways of each branch meet again: the first instruction of
/// the branch's immediate post-dominator.
void Decoder::buildControlFlow() {
  std::vector<Instr> &code = kernel->code;
  size_t n = code.size();
  auto targetsOf = [&](const Instr &i) {
    std::vector<uint32_t> t;
    if (i.flags & flagBranch) {
      if (i.extra != noIndex)
        t = kernel->branchTables[i.extra];
      else
        t.push_back(i.target);
    }
    return t;
  };
  auto isExit = [](const Instr &i) {
    return i.unit == Unit::Control && i.aux == 1;
  };
  std::vector<bool> leader(n + 1);
  leader[0] = true;
  for (size_t i = 0; i < n; ++i) {
    for (uint32_t t : targetsOf(code[i]))
      leader[t] = true;
    if (code[i].flags & flagBranch || isExit(code[i]))
      leader[i + 1] = true;
  }
  std::vector<uint32_t> blockOf(n + 1), first;
  for (size_t i = 0; i < n; ++i) {
    if (leader[i])
      first.push_back(uint32_t(i));
    blockOf[i] = uint32_t(first.size() - 1);
  }
  uint32_t exit = uint32_t(first.size());
  std::vector<std::vector<uint32_t>> succ(first.size());
  for (uint32_t b = 0; b < exit; ++b) {
    uint32_t last = (b + 1 < exit ? first[b + 1] : uint32_t(n)) - 1;
    const Instr &i = code[last];
    for (uint32_t t : targetsOf(i))
      succ[b].push_back(blockOf[t]);
    bool conditional = i.guardReg != noIndex;
    if (isExit(i))
      succ[b].push_back(exit);
    if (!((i.flags & flagBranch || isExit(i)) && !conditional))
      succ[b].push_back(last + 1 < n ? blockOf[last + 1] : exit);
  }
  if (kernel->setsRegisters) {
    std::vector<uint8_t> widths;
    for (const ptx::Register &r : fn->registers)
      widths.push_back(uint8_t(ptx::bitsOf(r.cls)));
    computePressure(program, *kernel, {first, succ}, widths);
  }
  PostDominators pdom(std::move(succ));
  for (size_t i = 0; i < n; ++i)
    if (code[i].flags & flagBranch) {
      uint32_t p = pdom.of(blockOf[i]);
      code[i].reconverge = p == noIndex || p == exit ? noIndex : first[p];
    }
}

bool Decoder::decodeKernel() {
  program.kernels.emplace_back();
  kernel = &program.kernels.back();
  constantPool.clear();
  specialPlaces.clear();
  scratchPlaces.clear();
  in = nullptr;
  kernel->name = fn->name.str();
  ptx::Function linked;
  fn = ptx::linkCallees(ast, *fn, linked, errorLine, errorText);
  if (!fn || !layoutRegisters() || !layoutShared())
    return false;
  layoutCallees();
  kernel->locs = fn->locs;
  size_t n = fn->instructions.size();
  kernel->code.resize(n + 1);
  for (size_t i = 0; i < n; ++i) {
    in = &fn->instructions[i];
    out = &kernel->code[i];
    if (!decodeInstruction())
      return false;
  }
  // Falling off the end leaves the kernel.
  static const ptx::Instruction implicitRet = [] {
    ptx::Instruction r;
    r.opcode = "ret";
    r.parts.push_back("ret");
    return r;
  }();
  in = &implicitRet;
  out = &kernel->code[n];
  if (!decodeInstruction())
    return false;
  out->line = n ? kernel->code[n - 1].line : fn->line;
  buildControlFlow();

  KernelInfo &info = kernel->info;
  info.name = kernel->name;
  for (const ptx::Param &p : fn->params) {
    info.params.push_back({p.name.str(), p.offset, p.size, p.align});
    kernel->paramBytes = p.offset + p.size;
  }
  info.requiredBlock = fn->reqntid;
  info.maxBlock = fn->maxntid;
  info.requiredCluster = fn->reqncluster;
  info.minCtasPerSm = fn->minnctapersm;
  info.maxRegisters = fn->maxnreg;
  info.staticSharedBytes = kernel->sharedBytes;
  return true;
}

llvm::Error Decoder::run() {
  program.fileName = ast.fileName;
  program.files = ast.files;
  if (!readVersion())
    return ptx::ptxError(ast.fileName, 1, errorText);
  program.arch = program.smVersion == 103 ? MmaArch::SM103a : MmaArch::SM100a;
  bool ok = layoutModule();
  for (const ptx::Function &f : ast.functions) {
    if (!ok)
      break;
    if (!f.isEntry)
      continue;
    fn = &f;
    ok = decodeKernel();
  }
  if (!errorText.empty())
    return ptx::ptxError(ast.fileName, errorLine, errorText);
  return llvm::Error::success();
}

llvm::Error decodeModule(const ptx::ModuleAst &ast, Program &program) {
  return Decoder(ast, program).run();
}

} // namespace sim
} // namespace flamia
