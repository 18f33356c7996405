//===- DecoderNames.cpp - Labels, variables, special registers ------------===//
//
// What a name in an instruction stands for.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;
using llvm::Twine;
using ptx::Operand;

bool Decoder::label(StringRef name, uint32_t &target) {
  for (unsigned s = in->scope;; s = fn->scopes[s].parent) {
    auto it = fn->scopes[s].labels.find(name);
    if (it != fn->scopes[s].labels.end()) {
      target = it->second;
      return true;
    }
    if (s == fn->scopes[s].parent)
      return fail("unknown label '" + name + "'");
  }
}

bool Decoder::nameValue(StringRef name, unsigned scope, uint64_t &value,
                        ptx::Space &space) {
  for (unsigned s = scope;; s = fn->scopes[s].parent) {
    auto it = fn->scopes[s].variables.find(name);
    if (it != fn->scopes[s].variables.end()) {
      value = bodyOffsets[it->second];
      space = fn->variables[it->second].space;
      return true;
    }
    if (s == fn->scopes[s].parent)
      break;
  }
  for (const ptx::Param &p : fn->params)
    if (p.name == name) {
      value = p.offset;
      space = ptx::Space::Param;
      return true;
    }
  auto shared = sharedOffsets.find(name);
  if (shared != sharedOffsets.end()) {
    value = shared->second;
    space = ptx::Space::Shared;
    return true;
  }
  auto global = moduleAddresses.find(name);
  if (global != moduleAddresses.end()) {
    value = global->second;
    space = ptx::Space::Global;
    return true;
  }
  auto code = ast.deviceFunctions.find(name);
  if (code != ast.deviceFunctions.end() &&
      code->second != ptx::ModuleAst::noBody) {
    value = codeBase + code->second * codeStep;
    space = ptx::Space::Global;
    return true;
  }
  return false;
}

bool Decoder::callVariable(const Operand &o, LocalRange &range) {
  for (unsigned s = in->scope; o.kind == Operand::Name;
       s = fn->scopes[s].parent) {
    auto it = fn->scopes[s].variables.find(o.name);
    if (it != fn->scopes[s].variables.end() &&
        fn->variables[it->second].parameter) {
      range = {uint32_t(bodyOffsets[it->second]),
               uint32_t(fn->variables[it->second].bytes)};
      return true;
    }
    if (s == fn->scopes[s].parent)
      break;
  }
  return fail("expected a '.param' variable in '" + in->opcode + "'");
}

bool Decoder::specialRegister(StringRef name, unsigned bits, Src &s) {
  if (!name.starts_with("%"))
    return false;
  auto what = llvm::StringSwitch<int>(name)
                  .Case("%tid.x", int(Special::TidX))
                  .Case("%tid.y", int(Special::TidY))
                  .Case("%tid.z", int(Special::TidZ))
                  .Case("%ntid.x", int(Special::NtidX))
                  .Case("%ntid.y", int(Special::NtidY))
                  .Case("%ntid.z", int(Special::NtidZ))
                  .Case("%ctaid.x", int(Special::CtaidX))
                  .Case("%ctaid.y", int(Special::CtaidY))
                  .Case("%ctaid.z", int(Special::CtaidZ))
                  .Case("%nctaid.x", int(Special::NctaidX))
                  .Case("%nctaid.y", int(Special::NctaidY))
                  .Case("%nctaid.z", int(Special::NctaidZ))
                  .Case("%laneid", int(Special::LaneId))
                  .Case("%warpid", int(Special::WarpId))
                  .Case("%nwarpid", int(Special::NwarpId))
                  .Case("%smid", int(Special::SmId))
                  .Case("%nsmid", int(Special::NsmId))
                  .Case("%gridid", int(Special::GridId))
                  .Case("%clusterid.x", int(Special::ClusterIdX))
                  .Case("%clusterid.y", int(Special::ClusterIdY))
                  .Case("%clusterid.z", int(Special::ClusterIdZ))
                  .Case("%nclusterid.x", int(Special::NclusterIdX))
                  .Case("%nclusterid.y", int(Special::NclusterIdY))
                  .Case("%nclusterid.z", int(Special::NclusterIdZ))
                  .Case("%cluster_ctaid.x", int(Special::ClusterCtaIdX))
                  .Case("%cluster_ctaid.y", int(Special::ClusterCtaIdY))
                  .Case("%cluster_ctaid.z", int(Special::ClusterCtaIdZ))
                  .Case("%cluster_nctaid.x", int(Special::ClusterNctaIdX))
                  .Case("%cluster_nctaid.y", int(Special::ClusterNctaIdY))
                  .Case("%cluster_nctaid.z", int(Special::ClusterNctaIdZ))
                  .Case("%cluster_ctarank", int(Special::ClusterCtaRank))
                  .Case("%cluster_nctarank", int(Special::ClusterNctaRank))
                  .Case("%lanemask_eq", int(Special::LanemaskEq))
                  .Case("%lanemask_le", int(Special::LanemaskLe))
                  .Case("%lanemask_lt", int(Special::LanemaskLt))
                  .Case("%lanemask_ge", int(Special::LanemaskGe))
                  .Case("%lanemask_gt", int(Special::LanemaskGt))
                  .Case("%dynamic_smem_size", int(Special::DynamicSmemSize))
                  .Case("%total_smem_size", int(Special::TotalSmemSize))
                  .Case("%aggr_smem_size", int(Special::AggrSmemSize))
                  .Case("%reserved_smem_offset_begin", int(Special::Zero))
                  .Case("%reserved_smem_offset_end", int(Special::ReservedEnd))
                  .Case("%reserved_smem_offset_cap", int(Special::ReservedEnd))
                  .Case("%current_graph_exec", int(Special::Zero))
                  .Default(-1);
  if (what < 0)
    return false;
  bool wide = what == int(Special::GridId) || name == "%current_graph_exec";
  // %tid.x and the like may also be read as 16 bits.
  if (bits != 32 && bits != 16 && !(wide && bits == 64)) {
    fail("special register '" + name + "' cannot be read as " + Twine(bits) +
         " bits");
    return false;
  }
  std::string key = (name + Twine('/') + Twine(bits)).str();
  auto it = specialPlaces.find(key);
  if (it == specialPlaces.end()) {
    uint32_t off = allocRegister(bits);
    kernel->specials.push_back({Special(what), off, uint8_t(bits / 8)});
    it = specialPlaces.try_emplace(key, Src{0, off}).first;
  }
  s = it->second;
  return true;
}

} // namespace sim
} // namespace flamia
