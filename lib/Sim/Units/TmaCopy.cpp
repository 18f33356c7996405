//===- TmaCopy.cpp - Box copies between global and shared memory ----------===//
//
// facts/tcgen05.md sections 9.3 and 9.4.
//
//===----------------------------------------------------------------------===//

#include "Message.h"
#include "TmaLayout.h"
#include "flamia/Sim/Units/TensorMap.h"
#include <algorithm>
#include <cstring>

namespace flamia::sim {

namespace {

/// Physical shared address of linear address \p a.
uint32_t swizzled(uint32_t a, TmaSwizzle swizzle) {
  switch (swizzle) {
  case TmaSwizzle::None:
    return a;
  case TmaSwizzle::B32:
    return a ^ ((a >> 3) & 0x10);
  case TmaSwizzle::B64:
    return a ^ ((a >> 3) & 0x30);
  case TmaSwizzle::B128:
    return a ^ ((a >> 3) & 0x70);
  case TmaSwizzle::B128Atom32B:
  case TmaSwizzle::B128Atom32BFlip8B:
    return a ^ ((a >> 2) & 0x60);
  case TmaSwizzle::B128Atom64B:
    return a ^ ((a >> 1) & 0x40);
  }
  return a;
}

enum class Direction { Load, Store };

bool checkCopy(const TensorMap &map, const int32_t *coords, unsigned count,
               uint32_t address, Direction direction, IssueList &issues) {
  const char *what =
      direction == Direction::Load ? "tensor load" : "tensor store";
  if (map.interleave != TmaInterleave::None)
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s: interleaved tensor maps are not modelled", what);
  if (map.swizzle == TmaSwizzle::B128Atom32BFlip8B)
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s: swizzle 128B_ATOM_32B_FLIP_8B is not modelled", what);
  if (map.type == TmaType::F32Ftz || map.type == TmaType::TF32 ||
      map.type == TmaType::TF32Ftz)
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s: converting tensor map type %u is not modelled", what,
                    unsigned(map.type));
  TmaElement element = tmaElement(map.type);
  bool padded = element.globalBits != element.sharedBits;
  if (padded && direction == Direction::Store)
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s: padded tensor map type %u can only be loaded", what,
                    unsigned(map.type));

  int64_t bits = int64_t(coords[0]) * element.sharedBits;
  unsigned step = padded ? 1024 : 128;
  if (bits % step != 0)
    return complain(issues, IssueKind::IllegalInstruction,
                    "%s: expected the innermost coordinate to be a multiple of "
                    "%u bytes, but got %d elements of %u bits",
                    what, padded ? 128 : 16, coords[0], element.sharedBits);
  if (direction == Direction::Store)
    for (unsigned d = 0; d < count; ++d)
      if (coords[d] < 0)
        return complain(issues, IssueKind::IllegalInstruction,
                        "%s: coordinate %u is negative (%d)", what, d,
                        coords[d]);
  if (address % 128 != 0)
    return complain(issues, IssueKind::Misaligned,
                    "%s: expected the shared address to be a multiple of 128, "
                    "but got 0x%x",
                    what, address);
  return true;
}

bool checkImage(uint32_t address, uint32_t bytes, const char *what,
                const SharedView &smem, IssueList &issues) {
  if (smem.at(address, bytes))
    return true;
  return complain(issues, IssueKind::OutOfBounds,
                  "%s: %u bytes at shared address 0x%x leave 0x%x-0x%x", what,
                  bytes, address, smem.base, smem.base + smem.size);
}

/// One row of a box: where it begins in shared memory and which of its bytes
/// exist in global memory.
struct BoxRow {
  uint32_t shared;    ///< linear shared address
  uint64_t global;    ///< device address of byte `first`
  unsigned first = 0; ///< global bytes [first, last) of the row are in bounds
  unsigned last = 0;
};

/// The part of dimension 0 that is inside the map.
void clipInner(const TensorMap &map, int64_t x, BoxRow &row) {
  unsigned bits = tmaElement(map.type).globalBits;
  int64_t begin = std::max<int64_t>(x, 0);
  int64_t end = std::min<int64_t>(x + map.box[0], int64_t(map.dims[0]));
  row.first = row.last = 0;
  if (begin >= end)
    return;
  row.first = unsigned((begin - x) * bits / 8);
  row.last = unsigned((end - x) * bits / 8);
  row.global += uint64_t(begin) * bits / 8;
}

/// Calls visit(BoxRow) for every row; stops at false.
template <typename Visit>
bool forEachRow(const TensorMap &map, const int32_t *coords, uint32_t address,
                Visit visit) {
  unsigned pitch = rowPitch(map);
  unsigned counts[5] = {1, 1, 1, 1, 1};
  for (unsigned d = 1; d < map.rank; ++d)
    counts[d] = boxCount(map, d);
  unsigned index[5] = {};
  for (unsigned number = 0;; ++number) {
    BoxRow row;
    row.shared = address + number * pitch;
    row.global = map.address;
    bool inside = true;
    for (unsigned d = 1; d < map.rank; ++d) {
      int64_t coordinate =
          int64_t(coords[d]) + int64_t(index[d]) * map.elementStrides[d];
      inside &= coordinate >= 0 && uint64_t(coordinate) < map.dims[d];
      // Modulo 2^64: maps may rely on the wrap.
      row.global += uint64_t(coordinate) * map.strides[d - 1];
    }
    if (inside)
      clipInner(map, coords[0], row);
    if (!visit(row))
      return false;
    unsigned d = 1;
    while (d < map.rank && ++index[d] == counts[d])
      index[d++] = 0;
    if (d >= map.rank)
      return true;
  }
}

/// Between a contiguous row and its swizzled place, in 16-byte chunks.
void writeRow(const TensorMap &map, const BoxRow &row, const uint8_t *bytes,
              const SharedView &smem) {
  unsigned size = rowBytes(map);
  if (map.swizzle == TmaSwizzle::None) {
    std::memcpy(smem.data + (row.shared - smem.base), bytes, size);
    return;
  }
  for (unsigned i = 0; i < size; i += 16)
    std::memcpy(smem.data + (swizzled(row.shared + i, map.swizzle) - smem.base),
                bytes + i, 16);
}
void readRow(const TensorMap &map, const BoxRow &row, uint8_t *bytes,
             const SharedView &smem) {
  for (unsigned i = 0; i < rowBytes(map); i += 16)
    std::memcpy(bytes + i,
                smem.data + (swizzled(row.shared + i, map.swizzle) - smem.base),
                16);
}

constexpr unsigned maxRowBytes = 256 * 8;

bool loadRow(const TensorMap &map, const BoxRow &row, const SharedView &smem,
             GlobalSpace &global, IssueList &issues) {
  uint8_t bytes[maxRowBytes];
  unsigned size = rowBytes(map);
  const uint8_t *source = nullptr;
  unsigned inside = row.last - row.first;
  if (inside) {
    source = global.read(row.global, inside);
    if (!source)
      return complain(issues, IssueKind::OutOfBounds,
                      "tensor load: %u bytes at global address 0x%llx belong "
                      "to no allocation",
                      inside, static_cast<unsigned long long>(row.global));
  }
  TmaElement element = tmaElement(map.type);
  if (element.globalBits != element.sharedBits) {
    // Units of 16 elements. PTX leaves their padding undefined: make it
    // something that a reader would notice.
    unsigned unit = element.globalBits * 2;
    for (unsigned i = 0; i < size; i += 16) {
      std::memset(bytes + i, 0, unit);
      std::memset(bytes + i + unit, 0xff, 16 - unit);
    }
    for (unsigned i = 0; i < inside; i += unit)
      std::memcpy(bytes + (row.first + i) / unit * 16, source + i, unit);
    writeRow(map, row, bytes, smem);
    return true;
  }
  if (inside != size) {
    std::memset(bytes, 0, size);
    // The pattern that an H200 writes for 16- and 32-bit types.
    if (map.fill == TmaFill::NaN)
      for (unsigned i = 0; i < size; i += 2) {
        bytes[i] = 0xf7;
        bytes[i + 1] = 0x7f;
      }
    if (inside)
      std::memcpy(bytes + row.first, source, inside);
    source = bytes;
  }
  writeRow(map, row, source, smem);
  return true;
}

} // namespace

bool tmaLoad(const TensorMap &map, const int32_t *coords, uint32_t dst,
             const SharedView &smem, GlobalSpace &global, IssueList &issues) {
  if (!checkCopy(map, coords, map.rank, dst, Direction::Load, issues) ||
      !checkImage(dst, map.imageBytes(), "tensor load", smem, issues))
    return false;
  return forEachRow(map, coords, dst, [&](const BoxRow &row) {
    return loadRow(map, row, smem, global, issues);
  });
}

namespace {

bool checkFourRows(const TensorMap &map, const char *what, IssueList &issues) {
  if (map.rank == 2 && map.box[1] == 1)
    return true;
  return complain(issues, IssueKind::IllegalInstruction,
                  "%s: expected a tensor map of rank 2 with boxDim[1] = 1, but "
                  "got rank %u and %u",
                  what, map.rank, map.box[1]);
}

} // namespace

bool tmaGather4(const TensorMap &map, const int32_t *coords, uint32_t dst,
                const SharedView &smem, GlobalSpace &global,
                IssueList &issues) {
  if (!checkFourRows(map, "tile::gather4", issues) ||
      !checkCopy(map, coords, 1, dst, Direction::Load, issues) ||
      !checkImage(dst, 4 * rowPitch(map), "tile::gather4", smem, issues))
    return false;
  for (unsigned i = 0; i < 4; ++i) {
    int32_t rowCoords[2] = {coords[0], coords[1 + i]};
    bool loaded = forEachRow(map, rowCoords, dst + i * rowPitch(map),
                             [&](const BoxRow &row) {
                               return loadRow(map, row, smem, global, issues);
                             });
    if (!loaded)
      return false;
  }
  return true;
}

namespace {

/// Calls apply(destination, row bytes, count) for the part of every row that is
/// inside the map.
template <typename Apply>
bool storeRows(const TensorMap &map, const int32_t *coords, uint32_t src,
               const SharedView &smem, GlobalSpace &global, IssueList &issues,
               Apply apply) {
  return forEachRow(map, coords, src, [&](const BoxRow &row) {
    if (row.last == row.first)
      return true;
    // Stores work on 16-byte units: one that begins inside the map is written
    // whole, also beyond the end of dimension 0 (seen on an H200).
    unsigned inside = (row.last + 15) / 16 * 16 - row.first;
    uint8_t *target = global.write(row.global, inside);
    if (!target)
      return complain(issues, IssueKind::OutOfBounds,
                      "tensor store: %u bytes at global address 0x%llx belong "
                      "to no allocation",
                      inside, static_cast<unsigned long long>(row.global));
    uint8_t bytes[maxRowBytes];
    readRow(map, row, bytes, smem);
    return apply(target, bytes + row.first, inside);
  });
}

bool copyBytes(uint8_t *target, const uint8_t *bytes, unsigned size) {
  std::memcpy(target, bytes, size);
  return true;
}

bool checkStore(const TensorMap &map, const int32_t *coords, uint32_t src,
                const SharedView &smem, IssueList &issues) {
  return checkCopy(map, coords, map.rank, src, Direction::Store, issues) &&
         checkImage(src, map.imageBytes(), "tensor store", smem, issues);
}

} // namespace

bool tmaStore(const TensorMap &map, const int32_t *coords, uint32_t src,
              const SharedView &smem, GlobalSpace &global, IssueList &issues) {
  return checkStore(map, coords, src, smem, issues) &&
         storeRows(map, coords, src, smem, global, issues, copyBytes);
}

bool tmaReduce(const TensorMap &map, const int32_t *coords, uint32_t src,
               TmaReduce op, const SharedView &smem, GlobalSpace &global,
               IssueList &issues) {
  return checkStore(map, coords, src, smem, issues) &&
         storeRows(map, coords, src, smem, global, issues,
                   [&](uint8_t *target, const uint8_t *bytes, unsigned size) {
                     return reduceElements(map.type, op, target, bytes, size,
                                           issues);
                   });
}

bool tmaScatter4(const TensorMap &map, const int32_t *coords, uint32_t src,
                 const SharedView &smem, GlobalSpace &global,
                 IssueList &issues) {
  if (!checkFourRows(map, "tile::scatter4", issues) ||
      !checkCopy(map, coords, 5, src, Direction::Store, issues) ||
      !checkImage(src, 4 * rowPitch(map), "tile::scatter4", smem, issues))
    return false;
  for (unsigned i = 0; i < 4; ++i) {
    int32_t rowCoords[2] = {coords[0], coords[1 + i]};
    if (!storeRows(map, rowCoords, src + i * rowPitch(map), smem, global,
                   issues, copyBytes))
      return false;
  }
  return true;
}

} // namespace flamia::sim
