//===- TmemCopy.cpp - tcgen05.cp and tcgen05.shift ------------------------===//
//
// facts/tcgen05.md sections 7.1 and 7.2.
//
//===----------------------------------------------------------------------===//

#include "Message.h"
#include "Padded.h"
#include "flamia/Sim/Units/Tmem.h"
#include <cstring>

namespace flamia::sim {

namespace {

/// What a shape reads and where a row goes.
struct CpLayout {
  unsigned rows;
  unsigned rowBytes;
  unsigned copies; ///< lanes that one row is written to
};

CpLayout layoutOf(CpShape shape) {
  switch (shape) {
  case CpShape::S128x256b:
    return {128, 32, 1};
  case CpShape::S128x128b:
    return {128, 16, 1};
  case CpShape::S64x128b_02_13:
  case CpShape::S64x128b_01_23:
    return {64, 16, 2};
  case CpShape::S32x128b_warpx4:
    return {32, 16, 4};
  case CpShape::S4x256b:
    return {4, 32, 1};
  }
  return {0, 0, 0};
}

/// Lane of copy `copy` of row `row`.
unsigned laneOf(CpShape shape, unsigned baseLane, unsigned row, unsigned copy) {
  switch (shape) {
  case CpShape::S128x256b:
  case CpShape::S128x128b:
    return row;
  case CpShape::S64x128b_02_13:
    return row + 64 * copy;
  case CpShape::S64x128b_01_23:
    return row % 32 + 64 * (row / 32) + 32 * copy;
  case CpShape::S32x128b_warpx4:
    return row + 32 * copy;
  case CpShape::S4x256b:
    return baseLane + 32 * row;
  }
  return 0;
}

} // namespace

bool planCp(CpShape shape, CpFormat format, uint32_t tmemAddr,
            uint64_t descriptor, CpPlan &plan, IssueList &issues) {
  const char *what = "tcgen05.cp descriptor";
  plan = CpPlan();
  plan.shape = shape;
  plan.format = format;
  plan.address = tmemAddr;
  CpLayout layout = layoutOf(shape);
  if (!decodeSmemDescriptor(descriptor, what, plan.source, issues) ||
      !checkSwizzleStart(plan.source, layout.rowBytes, what, issues))
    return false;

  unsigned lane = tmemLane(tmemAddr);
  unsigned column = tmemColumn(tmemAddr);
  unsigned columns = layout.rowBytes / 4;
  unsigned laneLimit = shape == CpShape::S4x256b ? 32 : 1;
  if (lane >= laneLimit)
    return complain(issues, IssueKind::LaneAccess,
                    "tcgen05.cp: expected a lane below %u in the address "
                    "0x%08x, but got %u",
                    laneLimit, tmemAddr, lane);
  if (column + columns > Tmem::numColumns)
    return complain(issues, IssueKind::OutOfBounds,
                    "tcgen05.cp: columns %u to %u exceed the 512 of tensor "
                    "memory",
                    column, column + columns - 1);

  // Without the padding of the expanding forms.
  uint32_t unitBytes = format == CpFormat::B4x16P64   ? 8
                       : format == CpFormat::B6x16P32 ? 12
                                                      : 16;
  for (unsigned row = 0; row < layout.rows; ++row)
    for (unsigned byte = 0; byte < layout.rowBytes; byte += 16)
      plan.footprint.smemRead.push_back(
          {kMajorAddress(plan.source, row, byte), unitBytes});
  mergeRanges(plan.footprint.smemRead);
  if (shape == CpShape::S4x256b)
    for (unsigned row = 0; row < 4; ++row)
      plan.footprint.tmemWrite.push_back(
          {uint16_t(lane + 32 * row), 1, uint16_t(column), uint16_t(columns)});
  else
    plan.footprint.tmemWrite.push_back(
        {0, 128, uint16_t(column), uint16_t(columns)});
  return true;
}

bool runCp(const CpPlan &plan, Tmem &tmem, const SharedView &smem,
           IssueList &issues) {
  CpLayout layout = layoutOf(plan.shape);
  unsigned column = tmemColumn(plan.address);
  if (!tmem.checkColumns(column, layout.rowBytes / 4, "tcgen05.cp", issues))
    return false;
  // A unit's padding lies in the same 16 aligned bytes as its data.
  for (const ByteRange &range : plan.footprint.smemRead)
    if (!smem.at(range.begin, (range.size + 15) / 16 * 16))
      return complain(issues, IssueKind::OutOfBounds,
                      "tcgen05.cp reads %u bytes at shared address 0x%x, "
                      "outside 0x%x-0x%x",
                      range.size, range.begin, smem.base,
                      smem.base + smem.size);

  for (unsigned row = 0; row < layout.rows; ++row)
    for (unsigned byte = 0; byte < layout.rowBytes; byte += 16) {
      const uint8_t *source =
          smem.at(kMajorAddress(plan.source, row, byte), 16);
      uint8_t expanded[16];
      if (plan.format == CpFormat::B4x16P64)
        expandPadded4(source, expanded);
      else if (plan.format == CpFormat::B6x16P32)
        expandPadded6(source, expanded);
      else
        std::memcpy(expanded, source, 16);
      for (unsigned cell = 0; cell < 4; ++cell) {
        uint32_t value;
        std::memcpy(&value, expanded + 4 * cell, 4);
        for (unsigned copy = 0; copy < layout.copies; ++copy)
          tmem.write(laneOf(plan.shape, tmemLane(plan.address), row, copy),
                     column + byte / 4 + cell, value);
      }
    }
  return true;
}

bool shiftDown(uint32_t tmemAddr, Tmem &tmem, IssueList &issues) {
  unsigned lane = tmemLane(tmemAddr);
  unsigned column = tmemColumn(tmemAddr);
  if (lane % 32 != 0 || lane >= Tmem::numLanes)
    return complain(issues, IssueKind::LaneAccess,
                    "tcgen05.shift: expected lane 0, 32, 64 or 96 in the "
                    "address 0x%08x, but got %u",
                    tmemAddr, lane);
  if (!tmem.checkColumns(column, 8, "tcgen05.shift", issues))
    return false;
  for (unsigned c = column; c < column + 8; ++c) {
    uint32_t *cells = tmem.column(c);
    std::memmove(cells + lane, cells + lane + 1, 31 * sizeof(uint32_t));
    // The initialised bits move with the cells.
    uint64_t *word = tmem.initialised(c) + lane / 64;
    unsigned shift = lane % 64;
    uint32_t bits = uint32_t(*word >> shift);
    uint32_t moved = (bits >> 1) | (bits & 0x80000000);
    *word =
        (*word & ~(uint64_t(0xffffffff) << shift)) | (uint64_t(moved) << shift);
  }
  return true;
}

} // namespace flamia::sim
