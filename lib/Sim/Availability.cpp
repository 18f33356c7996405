//===- Availability.cpp - Which target and version have an instruction ----===//
//
// "PTX ISA Notes" and "Target ISA Notes" of the PTX ISA 9.1 for what differs
// between the targets that matter here (sm_80 and up). Architecture-specific
// features need a target with suffix a, or f for its family (9.7.16.10.9.1 and
// others; 11.1.2 for the suffixes). Where the manual and ptxas 13.0 differ
// (.scale_vec on sm_103a), what ptxas assembles is taken.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

enum class Targets : uint8_t {
  Sm80,
  Sm89,
  Sm90,
  Sm100,
  Specific, ///< sm_90a and every family below
  Families, ///< sm_100, sm_110, sm_120 families
  Tensor,   ///< sm_100, sm_110 families: tensor memory
  Family100,
  Reduce, ///< tcgen05.ld.red
  Int8,   ///< kind::i8
  Exact,  ///< sm_100a, sm_103a
  TensorA ///< Tensor, suffix a only
};

const char *describe(Targets t) {
  switch (t) {
  case Targets::Sm80:
    return "sm_80 or higher";
  case Targets::Sm89:
    return "sm_89 or higher";
  case Targets::Sm90:
    return "sm_90 or higher";
  case Targets::Sm100:
    return "sm_100 or higher";
  case Targets::Specific:
    return "sm_90a, or an a or f target of sm_100 or higher";
  case Targets::Families:
    return "an a or f target of sm_100 or higher";
  case Targets::Tensor:
    return "an a or f target of the sm_100 or sm_110 family";
  case Targets::Family100:
    return "an a or f target of the sm_100 family";
  case Targets::Reduce:
    return "an a or f target of sm_103 or sm_110";
  case Targets::Int8:
    return "sm_100a or sm_110a";
  case Targets::Exact:
    return "sm_100a or sm_103a";
  case Targets::TensorA:
    return "sm_100a, sm_103a or sm_110a";
  }
  return "";
}

/// Family of a target: sm_103 belongs to sm_100, sm_101 is called sm_110 now.
unsigned familyOf(unsigned sm) {
  switch (sm) {
  case 103:
    return 100;
  case 101:
    return 110;
  case 121:
    return 120;
  default:
    return sm;
  }
}

bool hasTarget(Targets t, unsigned sm, char suffix) {
  unsigned family = familyOf(sm);
  bool specific = suffix != 0;
  switch (t) {
  case Targets::Sm80:
    return sm >= 80;
  case Targets::Sm89:
    return sm >= 89;
  case Targets::Sm90:
    return sm >= 90;
  case Targets::Sm100:
    return sm >= 100;
  case Targets::Specific:
    return specific && sm >= 90;
  case Targets::Families:
    return specific && sm >= 100;
  case Targets::Tensor:
    return specific && (family == 100 || family == 110);
  case Targets::Family100:
    return specific && family == 100;
  case Targets::Reduce:
    return specific && (sm == 103 || family == 110);
  case Targets::Int8:
    return suffix == 'a' && (sm == 100 || family == 110);
  case Targets::Exact:
    return suffix == 'a' && family == 100;
  case Targets::TensorA:
    return suffix == 'a' && (family == 100 || family == 110);
  }
  return false;
}

/// Instructions with this base and these qualifiers.
struct Pattern {
  const char *base;
  std::array<const char *, 3> qualifiers;
};
/// What such an instruction needs. Versions are ten times the PTX ISA's.
struct Need {
  const char *base;
  std::array<const char *, 3> qualifiers;
  unsigned version;
  Targets targets;
};

constexpr Need needs[] = {
    {"tcgen05", {}, 86, Targets::Tensor},
    {"tcgen05", {"ld", "red"}, 88, Targets::Reduce},
    {"tcgen05", {"kind::mxf4nvf4"}, 87, Targets::Tensor},
    {"tcgen05", {"kind::i8"}, 86, Targets::Int8},
    {"tcgen05", {"shift"}, 86, Targets::TensorA},
    {"tcgen05", {"scale_vec::1X"}, 86, Targets::TensorA},
    {"tcgen05", {"scale_vec::2X"}, 86, Targets::TensorA},
    {"tcgen05", {"scale_vec::4X"}, 86, Targets::TensorA},
    {"tcgen05", {"block16"}, 88, Targets::Tensor},
    {"tcgen05", {"block32"}, 88, Targets::Tensor},
    {"setmaxnreg", {}, 80, Targets::Specific},
    {"elect", {"sync"}, 80, Targets::Sm90},
    {"griddepcontrol", {}, 78, Targets::Sm90},
    {"clusterlaunchcontrol", {}, 86, Targets::Sm100},
    {"clusterlaunchcontrol",
     {"multicast::cluster::all"},
     86,
     Targets::Families},
    {"mapa", {}, 78, Targets::Sm90},
    {"getctarank", {}, 78, Targets::Sm90},
    {"barrier", {"cluster"}, 78, Targets::Sm90},
    {"stmatrix", {}, 78, Targets::Sm90},
    {"stmatrix", {"b8"}, 86, Targets::Families},
    {"ldmatrix", {"m16n16"}, 86, Targets::Families},
    {"ldmatrix", {"m8n16"}, 86, Targets::Families},
    {"redux", {"f32"}, 86, Targets::Family100},
    {"st", {"async"}, 81, Targets::Sm90},
    {"st", {"bulk"}, 86, Targets::Sm100},
    {"red", {"async"}, 81, Targets::Sm90},
    {"ld", {"v8"}, 88, Targets::Sm100},
    {"st", {"v8"}, 88, Targets::Sm100},
    {"ld", {"v4", "b64"}, 88, Targets::Sm100},
    {"ld", {"v4", "u64"}, 88, Targets::Sm100},
    {"ld", {"v4", "s64"}, 88, Targets::Sm100},
    {"ld", {"v4", "f64"}, 88, Targets::Sm100},
    {"st", {"v4", "b64"}, 88, Targets::Sm100},
    {"st", {"v4", "u64"}, 88, Targets::Sm100},
    {"st", {"v4", "s64"}, 88, Targets::Sm100},
    {"st", {"v4", "f64"}, 88, Targets::Sm100},
    {"add", {"f32x2"}, 86, Targets::Sm100},
    {"sub", {"f32x2"}, 86, Targets::Sm100},
    {"mul", {"f32x2"}, 86, Targets::Sm100},
    {"fma", {"f32x2"}, 86, Targets::Sm100},
    {"add", {"f32", "f16"}, 86, Targets::Sm100},
    {"add", {"f32", "bf16"}, 86, Targets::Sm100},
    {"sub", {"f32", "f16"}, 86, Targets::Sm100},
    {"sub", {"f32", "bf16"}, 86, Targets::Sm100},
    {"fma", {"f32", "f16"}, 86, Targets::Sm100},
    {"fma", {"f32", "bf16"}, 86, Targets::Sm100},
    {"tensormap", {"replace"}, 83, Targets::Specific},
    {"tensormap", {"swizzle_atomicity"}, 86, Targets::Families},
    {"tensormap", {"cp_fenceproxy"}, 83, Targets::Sm90},
    {"fence", {"cluster"}, 78, Targets::Sm90},
    {"fence", {"mbarrier_init"}, 80, Targets::Sm90},
    {"fence", {"async"}, 80, Targets::Sm90},
    {"fence", {"async::generic"}, 86, Targets::Sm90},
    {"fence", {"tensormap::generic"}, 83, Targets::Sm90},
    {"fence", {"sync_restrict::shared::cta"}, 86, Targets::Sm90},
    {"fence", {"sync_restrict::shared::cluster"}, 86, Targets::Sm90},
    {"cp", {"async", "bulk"}, 80, Targets::Sm90},
    {"cp", {"bulk", "cp_mask"}, 86, Targets::Sm100},
    {"cp", {"bulk", "cta_group::1"}, 86, Targets::Tensor},
    {"cp", {"bulk", "cta_group::2"}, 86, Targets::Tensor},
    {"cp", {"bulk", "tile::scatter4"}, 86, Targets::Tensor},
    {"cp", {"bulk", "tile::gather4"}, 86, Targets::Sm100},
    {"cp", {"shared::cluster", "tile::gather4"}, 86, Targets::Tensor},
    {"cp", {"prefetch", "tile::gather4"}, 86, Targets::Tensor},
    {"mbarrier", {}, 70, Targets::Sm80},
    {"mbarrier", {"try_wait"}, 78, Targets::Sm90},
    {"mbarrier", {"expect_tx"}, 80, Targets::Sm90},
    {"mbarrier", {"complete_tx"}, 80, Targets::Sm90},
    {"mbarrier", {"cluster"}, 80, Targets::Sm90},
    {"mbarrier", {"shared::cluster"}, 80, Targets::Sm90},
    {"mbarrier", {"relaxed"}, 80, Targets::Sm90},
    {"cvt", {"e4m3x2"}, 78, Targets::Sm89},
    {"cvt", {"e5m2x2"}, 78, Targets::Sm89},
    {"cvt", {"e2m1x2"}, 86, Targets::Families},
    {"cvt", {"e2m3x2"}, 86, Targets::Families},
    {"cvt", {"e3m2x2"}, 86, Targets::Families},
    {"cvt", {"ue8m0x2"}, 86, Targets::Families},
    {"cvt", {"tf32", "satfinite", "rn"}, 86, Targets::Sm100},
    {"cvt", {"tf32", "satfinite", "rz"}, 86, Targets::Sm100},
    {"cvt", {"rs"}, 87, Targets::Exact},
    {"mma", {"e4m3"}, 84, Targets::Sm89},
    {"mma", {"e5m2"}, 84, Targets::Sm89},
};

/// Forms that exist for no target, although their parts do.
constexpr Pattern forms[] = {
    {"selp", {"f16"}},
    {"selp", {"bf16"}},
    {"mov", {"f16"}},
    {"mov", {"bf16"}},
    {"ld", {"f16"}},
    {"ld", {"bf16"}},
    {"st", {"f16"}},
    {"st", {"bf16"}},
    {"ld", {"v8", "shared"}},
    {"st", {"v8", "shared"}},
    {"ld", {"v8", "b16"}},
    {"st", {"v8", "b16"}},
    {"atom", {"add", "s64"}},
    {"cp", {"add", "s64"}},
    {"cp", {"min", "f32"}},
    {"cp", {"max", "f32"}},
    {"ex2", {"ftz", "f16"}},
    {"membar", {"proxy", "async"}},
    {"mbarrier", {"try_wait", "shared::cluster"}},
    {"mbarrier", {"test_wait", "shared::cluster"}},
};

/// min and max of three numbers.
constexpr Need threeInputs = {"max", {}, 88, Targets::Sm100};
/// Loads of a bulk copy into the CTA's own shared memory.
constexpr Need bulkToCta = {"cp", {}, 86, Targets::Sm90};

std::string versionText(unsigned version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

/// Lowest PTX version that knows a target.
unsigned targetVersion(unsigned sm, char suffix) {
  if (suffix == 'f')
    return sm == 110 ? 90 : 88;
  switch (sm) {
  case 90:
    return suffix ? 80 : 78;
  case 89:
    return 78;
  case 100:
  case 101:
    return 86;
  case 103:
  case 121:
    return 88;
  case 110:
    return 90;
  case 120:
    return 87;
  default:
    return sm > 80 ? 71 : 70;
  }
}

} // namespace

bool Decoder::readVersion() {
  StringRef target = ast.target;
  target.consume_front("sm_");
  StringRef digits = target.take_while(llvm::isDigit);
  StringRef suffix = target.drop_front(digits.size());
  if (digits.getAsInteger(10, program.smVersion) || suffix.size() > 1 ||
      (!suffix.empty() && suffix != "a" && suffix != "f"))
    return fail("unknown target '" + ast.target + "'");
  program.targetSuffix = suffix.empty() ? 0 : suffix[0];
  auto [major, minor] = StringRef(ast.version).split('.');
  unsigned high, low;
  if (major.getAsInteger(10, high) || minor.getAsInteger(10, low) ||
      high > 99 || low > 9)
    return fail("unknown PTX version '" + ast.version + "'");
  program.ptxVersion = high * 10 + low;
  unsigned least = targetVersion(program.smVersion, program.targetSuffix);
  if (program.ptxVersion < least)
    return fail(".target " + ast.target + " needs .version " +
                versionText(least) + ", but the module has " + ast.version);
  return true;
}

bool Decoder::checkAvailable() {
  auto has = [&](StringRef q) {
    return llvm::is_contained(llvm::drop_begin(in->parts), q);
  };
  auto check = [&](const Need &need) {
    if (program.ptxVersion < need.version)
      return fail("'" + in->opcode + "' needs .version " +
                  versionText(need.version) + ", but the module has " +
                  ast.version);
    if (hasTarget(need.targets, program.smVersion, program.targetSuffix))
      return true;
    return fail("'" + in->opcode + "' needs .target " + describe(need.targets) +
                ", but the module has " + ast.target);
  };
  auto matches = [&](const auto &pattern) {
    bool all = base() == pattern.base;
    for (const char *q : pattern.qualifiers)
      all = all && (!q || has(q));
    return all;
  };
  for (const Need &need : needs)
    if (matches(need) && !check(need))
      return false;
  bool minMax = base() == "max" || base() == "min";
  if (minMax && has("f32") && numOps() == 4 && !check(threeInputs))
    return false;
  bool rounds = has("rn") || has("rz") || has("rm") || has("rp");
  bool last16 = in->parts.back() == "f16x2";
  bool missing =
      llvm::any_of(forms, matches) ||
      (minMax && !has("f32") && numOps() == 4) ||
      (base() == "mad" && has("f32") && !rounds) ||
      (base() == "add" && has("ftz") && in->parts.back() == "bf16" &&
       !has("f32")) ||
      (base() == "cvt" && last16 && (has("e2m3x2") || has("e3m2x2"))) ||
      (base() == "cvt" && has("sat") && has("f32") &&
       in->parts.back() == "bf16") ||
      (has("L2::cache_hint") && numOps() < 3) ||
      (base() == "mbarrier" && has("arrive") && numOps() &&
       (op(0).kind == ptx::Operand::Address ||
        (has("shared::cluster") && op(0).isReg())));
  if (missing)
    return fail("there is no '" + in->opcode + "' with these operands");
  if (base() == "cp" && has("bulk") && in->parts.size() > 3) {
    // The destination's space comes before the source's.
    auto cta = llvm::find(in->parts, "shared::cta");
    auto global = llvm::find(in->parts, "global");
    if (cta < global && global != in->parts.end() && !check(bulkToCta))
      return false;
  }
  return true;
}

} // namespace sim
} // namespace flamia
