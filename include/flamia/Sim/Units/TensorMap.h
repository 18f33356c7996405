//===- TensorMap.h - TMA tensor maps and box copies -------------*- C++ -*-===//
//
// A model of cuTensorMapEncodeTiled and of the tile mode of
// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor (facts/tcgen05.md
// sections 9.2-9.4). Address arithmetic is modulo 2^64.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SIM_UNITS_TENSORMAP_H
#define FLAMIA_SIM_UNITS_TENSORMAP_H

#include "flamia/Sim/Units/Issue.h"
#include <array>
#include <cstdint>
#include <string>

namespace flamia::sim {

/// Values are those of CUtensorMapDataType.
enum class TmaType : uint8_t {
  U8,
  U16,
  U32,
  S32,
  U64,
  S64,
  F16,
  F32,
  F64,
  BF16,
  F32Ftz,
  TF32,
  TF32Ftz,
  U4x16Align8B,
  U4x16Align16B,
  U6x16Align16B
};
/// Values are those of CUtensorMapSwizzle.
enum class TmaSwizzle : uint8_t {
  None,
  B32,
  B64,
  B128,
  B128Atom32B,
  B128Atom32BFlip8B,
  B128Atom64B
};
enum class TmaInterleave : uint8_t { None, B16, B32 };
enum class TmaFill : uint8_t { Zero, NaN };

/// Arguments of cuTensorMapEncodeTiled, innermost dimension first.
struct TensorMap {
  TmaType type = TmaType::U8;
  unsigned rank = 1;
  uint64_t address = 0;
  std::array<uint64_t, 5> dims{1, 1, 1, 1, 1}; ///< elements, 1..2^32
  std::array<uint64_t, 4> strides{};           ///< bytes, of dimension 1..
  std::array<uint32_t, 5> box{1, 1, 1, 1, 1};  ///< elements
  std::array<uint32_t, 5> elementStrides{1, 1, 1, 1, 1};
  TmaInterleave interleave = TmaInterleave::None;
  TmaSwizzle swizzle = TmaSwizzle::None;
  uint8_t l2Promotion = 0;
  TmaFill fill = TmaFill::Zero;

  /// The encoder's rules; false with a message that names the argument.
  bool validate(std::string &error) const;

  /// Bytes that a load signals to its mbarrier: the whole box, out-of-bounds
  /// elements included. The padded 4- and 6-bit types count without their
  /// padding (CUTLASS and Triton both expect 8192 bytes of a 128 x 128 box of
  /// 16U4_ALIGN16B, which takes 16384 of shared memory).
  uint32_t transactionBytes() const;

  /// Bytes of shared memory from the destination address on that the image
  /// takes (rows are padded to the swizzle span).
  uint32_t imageBytes() const;

  /// The opaque 128 bytes that a kernel gets. Not NVIDIA's encoding: a private
  /// one with a check word, so that garbage is recognised.
  std::array<uint8_t, 128> toBytes() const;
  static bool fromBytes(const uint8_t *bytes, TensorMap &map,
                        std::string &error);
};

/// `tensormap.replace.tile.FIELD`.
enum class TensorMapField {
  GlobalAddress,
  Rank,
  BoxDim,
  GlobalDim,
  GlobalStride,
  ElementStride,
  ElemType,
  InterleaveLayout,
  SwizzleMode,
  SwizzleAtomicity,
  FillMode
};

/// Replaces one field of the opaque \p bytes; \p value as in PTX (rank minus
/// one, PTX's own element type codes). 128 zero bytes are a map to be filled
/// in; its rules are checked when it is used. \p ordinal is the dimension of
/// the fields that have several (global_stride: 0 is dimension 1).
bool replaceTensorMapField(uint8_t *bytes, TensorMapField field,
                           unsigned ordinal, uint64_t value, IssueList &issues);

/// Global memory as a tensor copy sees it.
class GlobalSpace {
public:
  virtual ~GlobalSpace();
  /// Host pointer to `size` bytes at a device address for reading or writing,
  /// null when any of them belongs to no allocation.
  virtual const uint8_t *read(uint64_t address, uint64_t size) = 0;
  virtual uint8_t *write(uint64_t address, uint64_t size) = 0;
};

/// Reduction of cp.reduce.async.bulk(.tensor).
enum class TmaReduce { Add, Min, Max, Inc, Dec, And, Or, Xor };

/// Loads the box at \p coords (rank signed 32-bit element coordinates) to
/// shared address \p dst. Elements outside the map are filled.
bool tmaLoad(const TensorMap &map, const int32_t *coords, uint32_t dst,
             const SharedView &smem, GlobalSpace &global, IssueList &issues);

/// Stores the box from shared address \p src; elements beyond the upper end are
/// dropped, except that a 16-byte unit of a row is written whole when it begins
/// inside the map. A negative coordinate is an error.
bool tmaStore(const TensorMap &map, const int32_t *coords, uint32_t src,
              const SharedView &smem, GlobalSpace &global, IssueList &issues);

/// Reduces the box into global memory element by element.
bool tmaReduce(const TensorMap &map, const int32_t *coords, uint32_t src,
               TmaReduce op, const SharedView &smem, GlobalSpace &global,
               IssueList &issues);

/// tile::gather4: rank 2 map with box {c, 1}; coordinates {x, y0, y1, y2, y3}.
bool tmaGather4(const TensorMap &map, const int32_t *coords, uint32_t dst,
                const SharedView &smem, GlobalSpace &global, IssueList &issues);

/// tile::scatter4, the store of what gather4 loads.
bool tmaScatter4(const TensorMap &map, const int32_t *coords, uint32_t src,
                 const SharedView &smem, GlobalSpace &global,
                 IssueList &issues);

/// Reduces \p size bytes of elements of \p type from \p src into \p dst (both
/// host pointers): cp.reduce.async.bulk without a tensor map. False when the
/// type has no such reduction.
bool reduceElements(TmaType type, TmaReduce op, uint8_t *dst,
                    const uint8_t *src, uint64_t size, IssueList &issues);

/// Bytes of one element in shared memory (1 for the padded 4- and 6-bit types);
/// 0 for U4x16Align8B, whose elements are half a byte.
unsigned tmaElementBytes(TmaType type);

} // namespace flamia::sim

#endif // FLAMIA_SIM_UNITS_TENSORMAP_H
