//===- SmemDescriptor.cpp - Matrix descriptors and operand addresses ------===//
//
// facts/tcgen05.md section 3.
//
//===----------------------------------------------------------------------===//

#include "Message.h"
#include "flamia/Sim/Units/Descriptor.h"
#include <algorithm>
#include <cstring>

namespace flamia::sim {

const char *toString(Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::None:
    return "none";
  case Swizzle::B32:
    return "32B";
  case Swizzle::B64:
    return "64B";
  case Swizzle::B128:
    return "128B";
  case Swizzle::B128Atom32:
    return "128B with 32B atoms";
  }
  return "?";
}

namespace {

/// Bytes of one row of a swizzle atom; 16 without swizzle.
uint32_t spanOf(Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::None:
    return 16;
  case Swizzle::B32:
    return 32;
  case Swizzle::B64:
    return 64;
  case Swizzle::B128:
  case Swizzle::B128Atom32:
    return 128;
  }
  return 16;
}

unsigned containerBytes(OperandType type) {
  switch (type) {
  case OperandType::F16:
  case OperandType::BF16:
    return 2;
  case OperandType::TF32:
    return 4;
  default:
    return 1;
  }
}

} // namespace

bool decodeSmemDescriptor(uint64_t bits, const char *what, SmemDescriptor &desc,
                          IssueList &issues) {
  auto field = [&](unsigned first, unsigned last) {
    return uint32_t((bits >> first) &
                    ((uint64_t(1) << (last - first + 1)) - 1));
  };
  auto bad = [&](const char *name, uint32_t value, const char *expected) {
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s 0x%016llx: expected %s to be %s, but got %u", what,
                    static_cast<unsigned long long>(bits), name, expected,
                    value);
  };
  desc = SmemDescriptor();
  if (field(14, 15))
    return bad("reserved bits 14-15", field(14, 15), "0");
  if (field(30, 31))
    return bad("reserved bits 30-31", field(30, 31), "0");
  if (field(46, 48) != 1)
    return bad("the constant in bits 46-48", field(46, 48), "1");
  // Without swizzle there is no pattern; Triton leaves bits set here.
  if (field(49, 51) && field(61, 63) != 0)
    return bad("the base offset (bits 49-51)", field(49, 51),
               "0 (others are not modelled)");
  if (field(52, 52))
    return bad("the LBO mode (bit 52)", 1,
               "0 (absolute addresses are not modelled)");
  if (field(53, 60))
    return bad("reserved bits 53-60", field(53, 60), "0");
  switch (field(61, 63)) {
  case 0:
    desc.swizzle = Swizzle::None;
    break;
  case 1:
    desc.swizzle = Swizzle::B128Atom32;
    break;
  case 2:
    desc.swizzle = Swizzle::B128;
    break;
  case 4:
    desc.swizzle = Swizzle::B64;
    break;
  case 6:
    desc.swizzle = Swizzle::B32;
    break;
  default:
    return bad("the swizzle code (bits 61-63)", field(61, 63),
               "0, 1, 2, 4 or 6");
  }
  desc.start = field(0, 13) << 4;
  desc.lbo = field(16, 29) << 4;
  desc.sbo = field(32, 45) << 4;
  return true;
}

bool checkSwizzleStart(const SmemDescriptor &desc, uint32_t rowBytes,
                       const char *what, IssueList &issues) {
  if (desc.swizzle == Swizzle::None)
    return true;
  // The hardware XORs absolute address bits, while a base offset of 0 claims
  // that a pattern of 8 rows begins at the start address, up to the offset
  // inside one row by which K (or M/N) was advanced.
  uint32_t span = spanOf(desc.swizzle);
  uint32_t pattern = 8 * span;
  if (desc.start % pattern >= span)
    return complain(issues, IssueKind::Misaligned,
                    "%s: start address 0x%x is %u bytes behind a %u-byte "
                    "boundary, but swizzle %s with base offset 0 allows only "
                    "an offset inside the first %u-byte row",
                    what, desc.start, desc.start % pattern, pattern,
                    toString(desc.swizzle), span);
  if (desc.start % span + rowBytes > span)
    return complain(issues, IssueKind::Misaligned,
                    "%s: %u bytes from start address 0x%x on leave their "
                    "%u-byte swizzle row",
                    what, rowBytes, desc.start, span);
  return true;
}

uint32_t kMajorAddress(const SmemDescriptor &desc, unsigned row,
                       unsigned kByte) {
  if (desc.swizzle == Swizzle::None)
    return desc.start + (row % 8) * 16 + (row / 8) * desc.sbo + kByte % 16 +
           (kByte / 16) * desc.lbo;
  uint32_t span = spanOf(desc.swizzle);
  return swizzleAddress(desc.start + (row % 8) * span + (row / 8) * desc.sbo +
                            kByte,
                        desc.swizzle);
}

void mergeRanges(std::vector<ByteRange> &ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ByteRange &x, const ByteRange &y) { return x.begin < y.begin; });
  size_t kept = 0;
  for (const ByteRange &range : ranges) {
    if (kept > 0) {
      ByteRange &last = ranges[kept - 1];
      if (range.begin <= last.begin + last.size) {
        last.size = std::max(last.size, range.begin + range.size - last.begin);
        continue;
      }
    }
    ranges[kept++] = range;
  }
  ranges.resize(kept);
}

bool SmemOperand::make(const SmemDescriptor &desc, const InstrDescriptor &idesc,
                       MmaOperand operand, unsigned rows, SmemOperand &out,
                       IssueList &issues) {
  bool isA = operand == MmaOperand::A;
  char name = isA ? 'a' : 'b';
  OperandType type = isA ? idesc.aType : idesc.bType;
  out = SmemOperand();
  out.desc = desc;
  out.mnMajor = isA ? idesc.aMnMajor : idesc.bMnMajor;
  out.numRows = rows;
  out.numK = idesc.k;
  out.elemBytes = containerBytes(type);
  if (idesc.k == 32 && type == OperandType::E2M1)
    out.unitBytes = 8;
  if (type == OperandType::E2M3 || type == OperandType::E3M2)
    out.unitBytes = 12;

  if (out.mnMajor) {
    bool padded = type == OperandType::E2M1 || type == OperandType::E2M3 ||
                  type == OperandType::E3M2;
    if (padded)
      return complain(issues, IssueKind::IllegalInstruction,
                      "%c descriptor: %s operands may not be MN-major", name,
                      toString(type));
    bool isTf32 = type == OperandType::TF32;
    if (isTf32 != (desc.swizzle == Swizzle::B128Atom32))
      return complain(issues, IssueKind::IllegalInstruction,
                      "%c descriptor: MN-major %s may not use swizzle %s", name,
                      toString(type), toString(desc.swizzle));
  }
  uint32_t span = spanOf(desc.swizzle);
  uint32_t pattern = 8 * span;
  const char *what = isA ? "a descriptor" : "b descriptor";
  if (!checkSwizzleStart(
          desc, out.mnMajor ? std::min(rows * out.elemBytes, span) : 32, what,
          issues))
    return false;
  if (desc.swizzle == Swizzle::None)
    return true;
  bool usesSbo = out.mnMajor ? idesc.k > 8 : rows > 8;
  bool usesLbo = out.mnMajor && rows * out.elemBytes > span;
  if (usesSbo && desc.sbo % pattern != 0)
    return complain(issues, IssueKind::Misaligned,
                    "%c descriptor: expected SBO to be a multiple of %u for "
                    "swizzle %s, but got %u",
                    name, pattern, toString(desc.swizzle), desc.sbo);
  if (usesLbo && desc.lbo % pattern != 0)
    return complain(issues, IssueKind::Misaligned,
                    "%c descriptor: expected LBO to be a multiple of %u for "
                    "swizzle %s, but got %u",
                    name, pattern, toString(desc.swizzle), desc.lbo);
  return true;
}

uint32_t SmemOperand::kMajorAddress(unsigned row, unsigned kByte) const {
  return sim::kMajorAddress(desc, row, kByte);
}

uint32_t SmemOperand::mnMajorAddress(unsigned mnByte, unsigned k) const {
  if (desc.swizzle == Swizzle::None)
    return desc.start + mnByte % 16 + (mnByte / 16) * desc.sbo + (k % 8) * 16 +
           (k / 8) * desc.lbo;
  uint32_t span = spanOf(desc.swizzle);
  return swizzleAddress(desc.start + mnByte % span +
                            (mnByte / span) * desc.lbo + (k % 8) * span +
                            (k / 8) * desc.sbo,
                        desc.swizzle);
}

template <typename Visit>
bool SmemOperand::forEachChunk(Visit visit) const {
  // Every swizzle leaves address bits 0-3 alone.
  if (!mnMajor) {
    for (unsigned row = 0; row < numRows; ++row)
      for (unsigned byte = 0; byte < 32; byte += 16)
        if (!visit(kMajorAddress(row, byte), 16u, row, byte))
          return false;
    return true;
  }
  unsigned bytes = numRows * elemBytes;
  for (unsigned k = 0; k < numK; ++k)
    for (unsigned byte = 0; byte < bytes; byte += 16)
      if (!visit(mnMajorAddress(byte, k), std::min(16u, bytes - byte), k, byte))
        return false;
  return true;
}

bool SmemOperand::gather(const SharedView &smem, uint8_t *rowBytes,
                         const char *what, IssueList &issues) const {
  return forEachChunk([&](uint32_t address, unsigned size, unsigned row,
                          unsigned byte) {
    const uint8_t *source = smem.at(address, size);
    if (!source)
      return complain(issues, IssueKind::OutOfBounds,
                      "%s reads %u bytes at shared address 0x%x, outside "
                      "0x%x-0x%x",
                      what, size, address, smem.base, smem.base + smem.size);
    if (!mnMajor) {
      std::memcpy(rowBytes + row * 32 + byte, source, 16);
      return true;
    }
    uint8_t *target = rowBytes + (byte / elemBytes) * 32 + row * elemBytes;
    if (elemBytes == 1) {
      for (unsigned i = 0; i < size; ++i)
        target[i * 32] = source[i];
    } else {
      for (unsigned i = 0; i < size; i += elemBytes, target += 32)
        std::memcpy(target, source + i, elemBytes);
    }
    return true;
  });
}

void SmemOperand::appendFootprint(std::vector<ByteRange> &ranges) const {
  std::vector<ByteRange> pieces;
  forEachChunk([&](uint32_t address, unsigned size, unsigned, unsigned) {
    size = std::min(size, unitBytes);
    // Chunks mostly come in ascending neighbours, so merge as they come.
    if (!pieces.empty() && pieces.back().begin + pieces.back().size == address)
      pieces.back().size += size;
    else
      pieces.push_back({address, size});
    return true;
  });
  ranges.insert(ranges.end(), pieces.begin(), pieces.end());
  mergeRanges(ranges);
}

} // namespace flamia::sim
