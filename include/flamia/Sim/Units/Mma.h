//===- Mma.h - Arithmetic of tcgen05.mma ------------------------*- C++ -*-===//
//
// One tcgen05.mma instruction: plan (decode, validate, footprint) when it is
// issued, run when it takes effect. Numerics after facts/tcgen05.md section 11.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SIM_UNITS_MMA_H
#define FLAMIA_SIM_UNITS_MMA_H

#include "flamia/Sim/Units/Descriptor.h"
#include "flamia/Sim/Units/Issue.h"
#include "flamia/Sim/Units/Tmem.h"
#include <array>
#include <cstdint>

namespace flamia::sim {

/// The operands of a tcgen05.mma as the instruction gives them. Collector
/// qualifiers have no functional effect and are left out.
struct MmaInstruction {
  MmaKind kind = MmaKind::F16;
  ScaleVec scaleVec = ScaleVec::None;
  unsigned ctaGroup = 1;
  MmaArch arch = MmaArch::SM100a;
  uint32_t d = 0;       ///< tensor memory address of D
  bool aInTmem = false; ///< A given as [a]
  uint64_t a = 0;       ///< descriptor, or tensor memory address
  uint64_t b = 0;       ///< descriptor
  uint32_t idesc = 0;
  uint32_t sfa = 0; ///< tensor memory addresses of the scale factors; bits
  uint32_t sfb = 0; ///< 30-31 (software's byte index) are ignored
  bool enableInputD = false;
  unsigned scaleInputD = 0; ///< 0..15; kinds f16 and tf32
  bool hasLaneMask = false;
  std::array<uint32_t, 8> disableLanes{}; ///< bit set: lane of D not written
  bool aShift = false;                    ///< .ashift
};

/// How products are summed.
enum class MmaNumerics {
  BitAccurate, ///< section 11: aligned to the largest exponent, truncated
  Fp32,        ///< products of a scale block summed in fp32, scaled, added to D
  Fp64         ///< the same in fp64, D last, rounded once to nearest
};

/// A validated instruction.
struct MmaPlan {
  MmaInstruction instr;
  InstrDescriptor idesc;
  SmemOperand a; ///< unused when instr.aInTmem
  SmemOperand b;
  /// One per CTA of the group. Scale factors are listed under tmemRead with all
  /// four lane groups.
  std::array<Footprint, 2> footprint;
};

/// Validates \p instr: descriptors, shapes, majorness, tensor memory columns in
/// range, qualifiers allowed for the kind.
bool planMma(const MmaInstruction &instr, MmaPlan &plan, IssueList &issues);

/// What the instruction works on in one CTA.
struct MmaCta {
  Tmem *tmem = nullptr;
  SharedView smem;
};

/// Executes \p plan; \p ctas has ctaGroup entries, even rank first. Returns
/// false when an operand leaves shared memory or a column is not allocated.
/// Appends Uninitialised (A, D or scales in tensor memory never written) and
/// ReplicaMismatch (the four copies of a scale differ) issues.
bool runMma(const MmaPlan &plan, const MmaCta *ctas, MmaNumerics numerics,
            IssueList &issues);

} // namespace flamia::sim

#endif // FLAMIA_SIM_UNITS_MMA_H
