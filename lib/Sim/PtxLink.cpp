//===- PtxLink.cpp - Device functions behind their entry ------------------===//
//
// Decoding and control flow work on one function. So the device functions that
// an entry reaches are copied behind its code, each with registers, variables,
// scopes and line numbers of its own; `ret` ends each part.
//
//===----------------------------------------------------------------------===//

#include "PtxAst.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {
namespace ptx {

using llvm::Twine;

namespace {

/// Calls f(name) for every name that an operand mentions.
template <typename F>
void forNames(const Operand &o, F f) {
  if (o.kind == Operand::Name)
    f(o.name);
  for (const Operand &e : o.elems)
    forNames(e, f);
}

class Linker {
public:
  Linker(const ModuleAst &module, Function &out, unsigned &line,
         std::string &error)
      : module(module), out(out), line(line), error(error) {}

  const Function *run(const Function &entry) {
    if (!collect(entry))
      return nullptr;
    if (order.empty())
      return &entry;
    out = entry;
    appendReturn(entry);
    for (uint32_t index : order)
      append(module.functions[index]);
    markRecursion();
    return &out;
  }

private:
  const Function *fail(unsigned at, const Twine &message) {
    line = at;
    error = message.str();
    return nullptr;
  }

  /// Functions named by the code of `fn`, in order of appearance.
  bool namedBy(const Function &fn, std::vector<uint32_t> &list) {
    for (const Instruction &i : fn.instructions) {
      bool call = i.parts.front() == "call", ok = true;
      for (const Operand &o : i.operands)
        forNames(o, [&](StringRef name) {
          auto it = module.deviceFunctions.find(name);
          if (it == module.deviceFunctions.end())
            return;
          if (it->second == ModuleAst::noBody) {
            if (call && ok)
              fail(i.line, "call of '" + name +
                               "', which has no body in this module" +
                               (name == "vprintf" || name == "__assertfail"
                                    ? ", is not simulated"
                                    : ""));
            ok = false;
            return;
          }
          list.push_back(it->second);
        });
      if (call && !ok)
        return false;
    }
    return true;
  }

  bool collect(const Function &entry) {
    std::vector<uint32_t> list;
    if (!namedBy(entry, list))
      return false;
    bool any = !list.empty();
    for (const Instruction &i : entry.instructions)
      any |= i.parts.front() == "call";
    if (!any)
      return true;
    // Tables of functions in initialised variables.
    for (const Variable &v : module.variables)
      for (const Relocation &r : v.relocations) {
        auto it = module.deviceFunctions.find(r.symbol);
        if (it != module.deviceFunctions.end() &&
            it->second != ModuleAst::noBody)
          list.push_back(it->second);
      }
    for (size_t k = 0; k < list.size(); ++k) {
      bool seen = false;
      for (uint32_t known : order)
        seen |= known == list[k];
      if (seen)
        continue;
      order.push_back(list[k]);
      if (!namedBy(module.functions[list[k]], list))
        return false;
    }
    return true;
  }

  /// Falling off the end of a part returns.
  void appendReturn(const Function &fn) {
    Instruction ret;
    ret.opcode = "ret";
    ret.parts.push_back("ret");
    ret.line = fn.instructions.empty() ? fn.line : fn.instructions.back().line;
    ret.scope = unsigned(out.scopes.size() - fn.scopes.size());
    out.instructions.push_back(std::move(ret));
  }

  void shift(Operand &o, uint32_t registers) {
    if (o.kind == Operand::Reg)
      o.reg += registers;
    for (Operand &e : o.elems)
      shift(e, registers);
  }

  void append(const Function &fn) {
    Callee c;
    c.name = fn.name;
    c.entry = uint32_t(out.instructions.size());
    c.firstRegister = uint32_t(out.registers.size());
    c.registerCount = uint32_t(fn.registers.size());
    c.firstVariable = uint32_t(out.variables.size());
    unsigned scopes = unsigned(out.scopes.size());
    unsigned locs = unsigned(out.locs.size());
    out.registers.insert(out.registers.end(), fn.registers.begin(),
                         fn.registers.end());
    out.variables.insert(out.variables.end(), fn.variables.begin(),
                         fn.variables.end());
    out.locs.insert(out.locs.end(), fn.locs.begin(), fn.locs.end());
    for (Scope s : fn.scopes) {
      s.parent += scopes;
      for (auto &l : s.labels)
        l.second += c.entry;
      for (auto &v : s.variables)
        v.second += c.firstVariable;
      out.scopes.push_back(std::move(s));
    }
    auto parameter = [&](const Param &p, std::vector<uint32_t> &list) {
      Variable v;
      v.name = p.name;
      v.space = Space::Local;
      v.parameter = true;
      v.align = p.align;
      v.bytes = p.size;
      v.line = fn.line;
      list.push_back(uint32_t(out.variables.size()));
      out.scopes[scopes].variables.try_emplace(p.name, list.back());
      out.variables.push_back(std::move(v));
    };
    for (const Param &p : fn.params)
      parameter(p, c.params);
    for (const Param &p : fn.returns)
      parameter(p, c.returns);
    c.variableCount = uint32_t(out.variables.size()) - c.firstVariable;
    for (Instruction i : fn.instructions) {
      i.scope += scopes;
      i.loc += locs;
      i.guard += c.firstRegister;
      for (Operand &o : i.operands)
        shift(o, c.firstRegister);
      out.instructions.push_back(std::move(i));
    }
    appendReturn(fn);
    out.callees.push_back(std::move(c));
  }

  /// Marks functions that may be entered while they run: those on a cycle of
  /// mentions, which include calls.
  void markRecursion() {
    size_t n = order.size();
    std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));
    for (size_t k = 0; k < n; ++k) {
      std::vector<uint32_t> list;
      namedBy(module.functions[order[k]], list);
      for (uint32_t f : list)
        for (size_t j = 0; j < n; ++j)
          if (order[j] == f)
            reaches[k][j] = true;
    }
    for (size_t mid = 0; mid < n; ++mid)
      for (size_t a = 0; a < n; ++a)
        for (size_t b = 0; reaches[a][mid] && b < n; ++b)
          if (reaches[mid][b])
            reaches[a][b] = true;
    for (size_t k = 0; k < n; ++k)
      out.callees[k].recursive = reaches[k][k];
  }

  const ModuleAst &module;
  Function &out;
  unsigned &line;
  std::string &error;
  std::vector<uint32_t> order;
};

} // namespace

const Function *linkCallees(const ModuleAst &module, const Function &entry,
                            Function &storage, unsigned &line,
                            std::string &error) {
  return Linker(module, storage, line, error).run(entry);
}

} // namespace ptx
} // namespace sim
} // namespace flamia
