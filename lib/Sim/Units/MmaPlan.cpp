//===- MmaPlan.cpp - Validation and footprint of tcgen05.mma --------------===//
//
// facts/tcgen05.md sections 1, 3, 4.3, 4.4 and 5.
//
//===----------------------------------------------------------------------===//

#include "Message.h"
#include "MmaBlocks.h"

namespace flamia::sim {

unsigned scalesPerRow(const InstrDescriptor &idesc) {
  switch (idesc.scaleVec) {
  case ScaleVec::None:
    return 0;
  case ScaleVec::X1:
    return 1;
  case ScaleVec::X2:
    return 2;
  case ScaleVec::X4:
    return 4;
  }
  return 0;
}

unsigned dColumns(const InstrDescriptor &idesc) {
  return idesc.ctaGroup == 2 && idesc.m == 128 ? idesc.n / 2 : idesc.n;
}

std::vector<MmaBlock> mmaBlocks(const InstrDescriptor &idesc, uint32_t d) {
  if (idesc.ctaGroup == 1 && idesc.m == 64)
    return {{64, tmemLane(d), true, 0, idesc.n}};
  if (idesc.ctaGroup == 2 && idesc.m == 128)
    return {{64, 0, false, 0, idesc.n / 2},
            {64, 64, false, idesc.n / 2, idesc.n / 2}};
  return {{128, 0, false, 0, idesc.n}};
}

namespace {

bool illegal(IssueList &issues, const char *format, const char *kind) {
  return complain(issues, IssueKind::IllegalInstruction,
                  "tcgen05.mma.kind::%s: %s", kind, format);
}

bool checkQualifiers(const MmaInstruction &instr, const InstrDescriptor &idesc,
                     IssueList &issues) {
  const char *kind = toString(instr.kind);
  bool scaled = isBlockScaled(instr.kind);
  if (scaled && instr.hasLaneMask)
    return illegal(issues, "block-scaled kinds take no disable-output-lane",
                   kind);
  if (instr.scaleInputD != 0 && instr.kind != MmaKind::F16 &&
      instr.kind != MmaKind::TF32)
    return illegal(issues, "only f16 and tf32 take scale-input-d", kind);
  if (instr.scaleInputD > 15)
    return complain(issues, IssueKind::IllegalInstruction,
                    "tcgen05.mma: expected scale-input-d to be 0 to 15, but "
                    "got %u",
                    instr.scaleInputD);
  if (instr.aShift && !instr.aInTmem)
    return illegal(issues, ".ashift needs A in tensor memory", kind);
  if (instr.aShift && idesc.m != 128 * instr.ctaGroup)
    return illegal(issues, ".ashift needs M = 128 (256 with cta_group::2)",
                   kind);
  if (instr.aInTmem && idesc.aMnMajor)
    return illegal(issues, "A in tensor memory may not be MN-major", kind);
  return true;
}

/// Checks lane field and column range of a tensor memory operand.
bool checkTmem(const char *name, uint32_t address, unsigned columns,
               unsigned laneStep, unsigned maxLane, IssueList &issues) {
  unsigned lane = tmemLane(address);
  unsigned column = tmemColumn(address);
  if (lane > maxLane || lane % laneStep != 0)
    return complain(issues, IssueKind::LaneAccess,
                    "tcgen05.mma: expected lane 0%s in the %s address 0x%08x, "
                    "but got %u",
                    maxLane ? " or 16" : "", name, address, lane);
  if (column + columns > Tmem::numColumns)
    return complain(issues, IssueKind::OutOfBounds,
                    "tcgen05.mma: columns %u to %u of %s exceed the 512 of "
                    "tensor memory",
                    column, column + columns - 1, name);
  return true;
}

void addLanes(const MmaBlock &block, unsigned column, unsigned columns,
              std::vector<TmemRange> &ranges) {
  if (!block.scattered) {
    ranges.push_back({uint16_t(block.firstLane), uint16_t(block.rows),
                      uint16_t(column), uint16_t(columns)});
    return;
  }
  for (unsigned group = 0; group < 4; ++group)
    ranges.push_back({uint16_t(block.firstLane + 32 * group), 16,
                      uint16_t(column), uint16_t(columns)});
}

void addScales(uint32_t address, unsigned rows,
               std::vector<TmemRange> &ranges) {
  ranges.push_back({0, uint16_t(Tmem::numLanes), uint16_t(tmemColumn(address)),
                    uint16_t((rows + 31) / 32)});
}

} // namespace

bool planMma(const MmaInstruction &given, MmaPlan &plan, IssueList &issues) {
  plan = MmaPlan();
  plan.instr = given;
  // CUTLASS keeps a byte index in these bits; the hardware ignores it.
  plan.instr.sfa &= 0x3fffffff;
  plan.instr.sfb &= 0x3fffffff;
  const MmaInstruction &instr = plan.instr;
  InstrDescriptor &idesc = plan.idesc;
  if (!decodeInstrDescriptor(instr.idesc, instr.kind, instr.scaleVec,
                             instr.ctaGroup, idesc, issues, instr.arch) ||
      !checkQualifiers(instr, idesc, issues))
    return false;

  bool halfLanes = instr.ctaGroup == 1 && idesc.m == 64;
  unsigned laneStep = halfLanes ? 16 : 1;
  unsigned maxLane = halfLanes ? 16 : 0;
  if (!checkTmem("D", instr.d, dColumns(idesc), laneStep, maxLane, issues))
    return false;

  unsigned aRows = idesc.m / instr.ctaGroup;
  unsigned bRows = idesc.n / instr.ctaGroup;
  SmemDescriptor desc;
  if (instr.aInTmem) {
    if (!checkTmem("A", uint32_t(instr.a), 8, laneStep, maxLane, issues))
      return false;
    if (tmemLane(uint32_t(instr.a)) != tmemLane(instr.d))
      return complain(issues, IssueKind::LaneAccess,
                      "tcgen05.mma: A at lane %u and D at lane %u must use the "
                      "same lanes",
                      tmemLane(uint32_t(instr.a)), tmemLane(instr.d));
  } else if (!decodeSmemDescriptor(instr.a, "a descriptor", desc, issues) ||
             !SmemOperand::make(desc, idesc, MmaOperand::A, aRows, plan.a,
                                issues)) {
    return false;
  }
  if (!decodeSmemDescriptor(instr.b, "b descriptor", desc, issues) ||
      !SmemOperand::make(desc, idesc, MmaOperand::B, bRows, plan.b, issues))
    return false;

  bool scaled = isBlockScaled(instr.kind);
  unsigned sfbRows = dColumns(idesc);
  if (scaled) {
    if (!checkTmem("scale A", instr.sfa, (aRows + 31) / 32, 1, 0, issues) ||
        !checkTmem("scale B", instr.sfb, (sfbRows + 31) / 32, 1, 0, issues))
      return false;
    if (instr.sfa % 2 != 0 || instr.sfb % 2 != 0)
      return complain(issues, IssueKind::Misaligned,
                      "tcgen05.mma: expected even scale factor columns, but "
                      "got %u for A and %u for B",
                      tmemColumn(instr.sfa), tmemColumn(instr.sfb));
  }

  for (unsigned cta = 0; cta < instr.ctaGroup; ++cta) {
    Footprint &footprint = plan.footprint[cta];
    for (const MmaBlock &block : mmaBlocks(idesc, instr.d)) {
      unsigned column = tmemColumn(instr.d);
      addLanes(block, column, block.columns, footprint.tmemWrite);
      if (instr.enableInputD)
        addLanes(block, column, block.columns, footprint.tmemRead);
      if (instr.aInTmem)
        addLanes(block, tmemColumn(uint32_t(instr.a)), 8, footprint.tmemRead);
    }
    if (!instr.aInTmem)
      plan.a.appendFootprint(footprint.smemRead);
    plan.b.appendFootprint(footprint.smemRead);
    if (scaled) {
      addScales(instr.sfa, aRows, footprint.tmemRead);
      addScales(instr.sfb, sfbRows, footprint.tmemRead);
    }
  }
  return true;
}

} // namespace flamia::sim
