//===- Descriptor.h - tcgen05 descriptors and operand addresses -*- C++ -*-===//
//
// Decoding and validation of the 64-bit shared memory matrix descriptor and of
// the 32-bit instruction descriptor (facts/tcgen05.md sections 1.3, 2, 3), and
// the function from operand element to shared memory address (3.2).
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SIM_UNITS_DESCRIPTOR_H
#define FLAMIA_SIM_UNITS_DESCRIPTOR_H

#include "flamia/Sim/Units/Issue.h"
#include <cstdint>
#include <string>

namespace flamia::sim {

/// `.kind::` of tcgen05.mma.
enum class MmaKind { F16, TF32, F8F6F4, I8, MXF8F6F4, MXF4, MXF4NVF4 };

/// Scale vector size of a block-scaled kind. Spellings: `.scale_vec::1X/2X/4X`,
/// or `.block32` (X1 for mxf8f6f4, X2 for the 4-bit kinds), `.block16` (X4).
enum class ScaleVec { None, X1, X2, X4 };

/// Element type of A or B.
enum class OperandType {
  F16,
  BF16,
  TF32,
  E4M3,
  E5M2,
  E2M3,
  E3M2,
  E2M1,
  U8,
  S8
};

enum class AccumType { F16, F32, S32 };

enum class ScaleType { UE8M0, UE4M3 };

/// Swizzle modes of a matrix descriptor.
enum class Swizzle { None, B32, B64, B128, B128Atom32 };

/// The part of the ISA that differs between sm_100a and sm_103a.
enum class MmaArch { SM100a, SM103a };

const char *toString(MmaKind kind);
const char *toString(OperandType type);
const char *toString(Swizzle swizzle);
inline bool isBlockScaled(MmaKind kind) {
  return kind == MmaKind::MXF8F6F4 || kind == MmaKind::MXF4 ||
         kind == MmaKind::MXF4NVF4;
}

/// A decoded shared memory matrix descriptor; addresses and offsets in bytes.
struct SmemDescriptor {
  uint32_t start = 0;
  uint32_t lbo = 0;
  uint32_t sbo = 0;
  bool absoluteLbo = false;
  Swizzle swizzle = Swizzle::None;
};

/// Decodes \p bits. Refuses set reserved bits, a wrong constant field, an
/// invalid swizzle code, a non-zero base offset of a swizzle and the absolute
/// LBO mode (neither is modelled); \p what ("a descriptor") begins the
/// messages.
bool decodeSmemDescriptor(uint64_t bits, const char *what, SmemDescriptor &desc,
                          IssueList &issues);

/// A decoded instruction descriptor.
struct InstrDescriptor {
  MmaKind kind = MmaKind::F16;
  ScaleVec scaleVec = ScaleVec::None;
  unsigned ctaGroup = 1;
  OperandType aType = OperandType::F16;
  OperandType bType = OperandType::F16;
  AccumType accum = AccumType::F32;
  ScaleType scaleType = ScaleType::UE8M0;
  bool negateA = false;
  bool negateB = false;
  bool aMnMajor = false;
  bool bMnMajor = false;
  bool saturate = false; ///< kind::i8 only
  unsigned m = 0;        ///< of the whole pair when ctaGroup is 2
  unsigned n = 0;
  unsigned k = 0; ///< elements per instruction, fixed by the kind
  unsigned sfaId = 0;
  unsigned sfbId = 0;
};

/// Decodes and validates \p bits for `.kind`, scale vector and cta_group of the
/// instruction: reserved bits, types, shapes (1.3), scale format, SF ids,
/// transposes. \p scaleVec is None for the plain kinds; for mxf8f6f4 and mxf4
/// None means their only legal size.
bool decodeInstrDescriptor(uint32_t bits, MmaKind kind, ScaleVec scaleVec,
                           unsigned ctaGroup, InstrDescriptor &desc,
                           IssueList &issues, MmaArch arch = MmaArch::SM100a);

/// The shape rules alone (1.3, Table 39): \p m and \p n of the whole pair when
/// \p ctaGroup is 2.
bool checkMmaShape(MmaKind kind, unsigned ctaGroup, unsigned m, unsigned n,
                   IssueList &issues);

/// Physical shared address of byte \p kByte of row \p row of a K-major operand.
uint32_t kMajorAddress(const SmemDescriptor &desc, unsigned row,
                       unsigned kByte);

/// Checks that the swizzle pattern begins where a base offset of 0 says, and
/// that \p rowBytes bytes from the start address stay in one swizzle row.
bool checkSwizzleStart(const SmemDescriptor &desc, uint32_t rowBytes,
                       const char *what, IssueList &issues);

/// Sorts and merges overlapping or adjacent ranges.
void mergeRanges(std::vector<ByteRange> &ranges);

/// Which operand an address function is for.
enum class MmaOperand { A, B };

/// Byte address function of an operand in shared memory. Rows are m or n of
/// the CTA's own part; one row has 32 bytes of K per instruction, in the
/// containers of 3.5 (packed nibbles for mxf4, one byte an element else).
class SmemOperand {
public:
  /// Checks layout against type: major-ness allowed (3.4), and that the swizzle
  /// pattern begins where a base offset of 0 says it does. \p rows is the
  /// number of rows of this CTA's part.
  static bool make(const SmemDescriptor &desc, const InstrDescriptor &idesc,
                   MmaOperand operand, unsigned rows, SmemOperand &out,
                   IssueList &issues);

  /// Physical shared address of byte \p kByte (0..31) of row \p row; K-major.
  uint32_t kMajorAddress(unsigned row, unsigned kByte) const;

  /// Physical shared address of the byte at offset \p mnByte along M/N of K
  /// row \p k; MN-major.
  uint32_t mnMajorAddress(unsigned mnByte, unsigned k) const;

  bool isMnMajor() const { return mnMajor; }
  unsigned rows() const { return numRows; }
  unsigned kRows() const { return numK; }
  unsigned elementBytes() const { return elemBytes; }

  /// Copies the operand into rows of 32 bytes each, K order, whatever the
  /// major-ness. Returns false (OutOfBounds) when it leaves \p smem.
  bool gather(const SharedView &smem, uint8_t *rowBytes, const char *what,
              IssueList &issues) const;

  /// The byte ranges that matter to gather, ascending and merged: without the
  /// padding of 4- and 6-bit elements.
  void appendFootprint(std::vector<ByteRange> &ranges) const;

private:
  SmemDescriptor desc;
  bool mnMajor = false;
  unsigned numRows = 0;
  unsigned numK = 0;
  unsigned elemBytes = 1;  ///< bytes of one element's container when MN-major
  unsigned unitBytes = 16; ///< bytes that count of a 16-byte unit of K

  /// Calls visit(address, size, row, byte) for every contiguous piece of at
  /// most 16 bytes: its first byte is byte `byte` of K-major row `row`, or of
  /// MN-major K row `row`. Stops when visit returns false.
  template <typename Visit>
  bool forEachChunk(Visit visit) const;
};

/// Applies a swizzle to an absolute shared address.
inline uint32_t swizzleAddress(uint32_t address, Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::None:
    return address;
  case Swizzle::B32:
    return address ^ ((address >> 3) & 0x10);
  case Swizzle::B64:
    return address ^ ((address >> 3) & 0x30);
  case Swizzle::B128:
    return address ^ ((address >> 3) & 0x70);
  case Swizzle::B128Atom32:
    return address ^ ((address >> 2) & 0x60);
  }
  return address;
}

} // namespace flamia::sim

#endif // FLAMIA_SIM_UNITS_DESCRIPTOR_H
