//===- TensorMap.cpp - Tensor map rules and encoding ----------------------===//
//
// facts/tcgen05.md section 9.2.
//
//===----------------------------------------------------------------------===//

#include "flamia/Sim/Units/TensorMap.h"
#include "Message.h"
#include "TmaLayout.h"
#include <cstring>

namespace flamia::sim {

GlobalSpace::~GlobalSpace() = default;

TmaElement tmaElement(TmaType type) {
  switch (type) {
  case TmaType::U8:
    return {8, 8};
  case TmaType::U16:
  case TmaType::F16:
  case TmaType::BF16:
    return {16, 16};
  case TmaType::U32:
  case TmaType::S32:
  case TmaType::F32:
  case TmaType::F32Ftz:
  case TmaType::TF32:
  case TmaType::TF32Ftz:
    return {32, 32};
  case TmaType::U64:
  case TmaType::S64:
  case TmaType::F64:
    return {64, 64};
  case TmaType::U4x16Align8B:
    return {4, 4};
  case TmaType::U4x16Align16B:
    return {4, 8};
  case TmaType::U6x16Align16B:
    return {6, 8};
  }
  return {8, 8};
}

unsigned tmaElementBytes(TmaType type) {
  return tmaElement(type).sharedBits / 8;
}

unsigned swizzleSpan(TmaSwizzle swizzle) {
  switch (swizzle) {
  case TmaSwizzle::None:
    return 0;
  case TmaSwizzle::B32:
    return 32;
  case TmaSwizzle::B64:
    return 64;
  default:
    return 128;
  }
}

namespace {

bool isFloat(TmaType type) {
  switch (type) {
  case TmaType::F16:
  case TmaType::F32:
  case TmaType::F64:
  case TmaType::BF16:
  case TmaType::F32Ftz:
  case TmaType::TF32:
  case TmaType::TF32Ftz:
    return true;
  default:
    return false;
  }
}

/// 4- and 6-bit elements that take 16-byte units in shared memory.
bool isPadded(TmaType type) {
  return type == TmaType::U4x16Align16B || type == TmaType::U6x16Align16B;
}

#define REQUIRE(condition, ...)                                                \
  do {                                                                         \
    if (!(condition)) {                                                        \
      error = formatText("tensor map: " __VA_ARGS__);                          \
      return false;                                                            \
    }                                                                          \
  } while (false)

bool validateGlobal(const TensorMap &map, std::string &error) {
  bool wide = isPadded(map.type) || map.interleave == TmaInterleave::B32;
  unsigned alignment = wide ? 32 : 16;
  REQUIRE(map.address % alignment == 0,
          "expected globalAddress to be a multiple of %u, but got 0x%llx",
          alignment, static_cast<unsigned long long>(map.address));
  for (unsigned d = 0; d < map.rank; ++d)
    REQUIRE(map.dims[d] >= 1 && map.dims[d] <= (uint64_t(1) << 32),
            "expected globalDim[%u] to be 1 to 2^32, but got %llu", d,
            static_cast<unsigned long long>(map.dims[d]));
  if (isPadded(map.type))
    REQUIRE(map.dims[0] % 128 == 0,
            "expected globalDim[0] to be a multiple of 128 for a padded type, "
            "but got %llu",
            static_cast<unsigned long long>(map.dims[0]));
  if (map.type == TmaType::U4x16Align8B)
    REQUIRE(map.dims[0] % 2 == 0,
            "expected globalDim[0] to be a multiple of 2 for a 4-bit type, but "
            "got %llu",
            static_cast<unsigned long long>(map.dims[0]));
  for (unsigned d = 0; d + 1 < map.rank; ++d) {
    REQUIRE(map.strides[d] % alignment == 0,
            "expected globalStrides[%u] to be a multiple of %u, but got %llu",
            d, alignment, static_cast<unsigned long long>(map.strides[d]));
    REQUIRE(map.strides[d] < (uint64_t(1) << 40),
            "expected globalStrides[%u] to be less than 2^40, but got %llu", d,
            static_cast<unsigned long long>(map.strides[d]));
  }
  return true;
}

bool validateBox(const TensorMap &map, std::string &error) {
  for (unsigned d = 0; d < map.rank; ++d) {
    REQUIRE(map.box[d] >= 1 && map.box[d] <= 256,
            "expected boxDim[%u] to be 1 to 256, but got %u", d, map.box[d]);
    REQUIRE(map.elementStrides[d] >= 1 && map.elementStrides[d] <= 8,
            "expected elementStrides[%u] to be 1 to 8, but got %u", d,
            map.elementStrides[d]);
  }
  if (isPadded(map.type))
    REQUIRE(map.box[0] == 128,
            "expected boxDim[0] to be 128 for a padded type, but got %u",
            map.box[0]);
  unsigned bits = map.box[0] * tmaElement(map.type).sharedBits;
  REQUIRE(map.interleave != TmaInterleave::None || bits % 128 == 0,
          "expected boxDim[0] * element size to be a multiple of 16 bytes, but "
          "got %u elements of %u bits",
          map.box[0], tmaElement(map.type).sharedBits);
  // The driver divides, dimension 0 included, and rounds down (found by trying;
  // an H200's driver says nothing about the number).
  uint64_t bytes = tmaElement(map.type).sharedBits;
  for (unsigned d = 0; d < map.rank; ++d)
    bytes *= map.box[d] / map.elementStrides[d];
  bytes /= 8;
  REQUIRE(bytes <= 233472,
          "expected a box of at most 233472 bytes, but got %llu",
          static_cast<unsigned long long>(bytes));
  unsigned span = swizzleSpan(map.swizzle);
  REQUIRE(span == 0 || map.interleave != TmaInterleave::None ||
              bits / 8 <= span,
          "expected the inner box to be at most %u bytes for its swizzle, but "
          "got %u",
          span, bits / 8);
  return true;
}

} // namespace

bool TensorMap::validate(std::string &error) const {
  REQUIRE(uint8_t(type) <= uint8_t(TmaType::U6x16Align16B),
          "data type %u does not exist", unsigned(type));
  REQUIRE(rank >= 1 && rank <= 5, "expected a rank of 1 to 5, but got %u",
          rank);
  REQUIRE(uint8_t(interleave) <= 2, "interleave %u does not exist",
          unsigned(interleave));
  REQUIRE(uint8_t(swizzle) <= 6, "swizzle %u does not exist",
          unsigned(swizzle));
  REQUIRE(l2Promotion <= 3, "L2 promotion %u does not exist",
          unsigned(l2Promotion));
  REQUIRE(uint8_t(fill) <= 1, "fill mode %u does not exist", unsigned(fill));
  REQUIRE(interleave == TmaInterleave::None || rank >= 3,
          "expected a rank of at least 3 with interleave, but got %u", rank);
  REQUIRE(interleave != TmaInterleave::B32 || swizzle == TmaSwizzle::B32,
          "interleave 32B needs swizzle 32B, but got swizzle %u",
          unsigned(swizzle));
  REQUIRE(fill == TmaFill::Zero || isFloat(type),
          "NaN fill needs a float type, but got type %u", unsigned(type));
  if (isPadded(type))
    REQUIRE(swizzle == TmaSwizzle::None || swizzle == TmaSwizzle::B128 ||
                swizzle == TmaSwizzle::B128Atom32B,
            "a padded type needs swizzle none, 128B or 128B_ATOM_32B, but got "
            "%u",
            unsigned(swizzle));
  return validateGlobal(*this, error) && validateBox(*this, error);
}

#undef REQUIRE

unsigned boxCount(const TensorMap &map, unsigned d) {
  // The stride of dimension 0 is ignored.
  unsigned stride = d == 0 ? 1 : map.elementStrides[d];
  return (map.box[d] + stride - 1) / stride;
}

uint32_t TensorMap::transactionBytes() const {
  uint32_t bits = tmaElement(type).globalBits;
  for (unsigned d = 0; d < rank; ++d)
    bits *= boxCount(*this, d);
  return bits / 8;
}

uint32_t TensorMap::imageBytes() const {
  uint32_t bytes = rowPitch(*this);
  for (unsigned d = 1; d < rank; ++d)
    bytes *= boxCount(*this, d);
  return bytes;
}

//===----------------------------------------------------------------------===//
// The opaque 128 bytes
//===----------------------------------------------------------------------===//

namespace {

constexpr uint64_t magic = 0x70616d2d616d6174; // "tama-map"

/// FNV-1a of the bytes before the check word.
uint64_t checkWord(const uint8_t *bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned i = 0; i < 120; ++i)
    hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

/// Walks the fields in one order for both directions.
template <typename Field>
void forEachField(TensorMap &map, Field field) {
  field(map.address);
  for (uint64_t &stride : map.strides)
    field(stride);
  for (unsigned d = 0; d < 5; ++d) {
    // 2^32 does not fit 32 bits, but extents minus one do.
    uint32_t last = uint32_t(map.dims[d] - 1);
    field(last);
    map.dims[d] = uint64_t(last) + 1;
    uint16_t box = uint16_t(map.box[d]);
    field(box);
    map.box[d] = box;
    uint8_t stride = uint8_t(map.elementStrides[d]);
    field(stride);
    map.elementStrides[d] = stride;
  }
  uint8_t rank = uint8_t(map.rank);
  field(rank);
  map.rank = rank;
  field(map.type);
  field(map.interleave);
  field(map.swizzle);
  field(map.l2Promotion);
  field(map.fill);
}

} // namespace

std::array<uint8_t, 128> TensorMap::toBytes() const {
  std::array<uint8_t, 128> bytes{};
  std::memcpy(bytes.data(), &magic, 8);
  unsigned offset = 8;
  TensorMap copy = *this;
  forEachField(copy, [&](auto &value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    offset += sizeof(value);
  });
  uint64_t check = checkWord(bytes.data());
  std::memcpy(bytes.data() + 120, &check, 8);
  return bytes;
}

namespace {

/// The fields without their rules; false when the bytes are no map.
bool readFields(const uint8_t *bytes, TensorMap &map) {
  uint64_t word, check;
  std::memcpy(&word, bytes, 8);
  std::memcpy(&check, bytes + 120, 8);
  if (word != magic || check != checkWord(bytes))
    return false;
  map = TensorMap();
  unsigned offset = 8;
  forEachField(map, [&](auto &value) {
    std::memcpy(&value, bytes + offset, sizeof(value));
    offset += sizeof(value);
  });
  return true;
}

} // namespace

bool TensorMap::fromBytes(const uint8_t *bytes, TensorMap &map,
                          std::string &error) {
  if (readFields(bytes, map))
    return map.validate(error);
  error = "the 128 bytes at this address are not a tensor map";
  return false;
}

//===----------------------------------------------------------------------===//
// tensormap.replace
//===----------------------------------------------------------------------===//

namespace {

bool replaceEnum(TensorMap &map, TensorMapField field, uint64_t value,
                 IssueList &issues) {
  auto refused = [&](const char *name) {
    return complain(issues, IssueKind::IllegalInstruction,
                    "tensormap.replace: %s has no value %llu", name,
                    static_cast<unsigned long long>(value));
  };
  switch (field) {
  case TensorMapField::ElemType: {
    // PTX numbers some types in another order than the driver does.
    const TmaType types[] = {
        TmaType::U8,           TmaType::U16,          TmaType::U32,
        TmaType::S32,          TmaType::U64,          TmaType::S64,
        TmaType::F16,          TmaType::F32,          TmaType::F32Ftz,
        TmaType::F64,          TmaType::BF16,         TmaType::TF32,
        TmaType::TF32Ftz,      TmaType::U4x16Align8B, TmaType::U4x16Align16B,
        TmaType::U6x16Align16B};
    if (value >= sizeof(types) / sizeof(types[0]))
      return refused("elemtype");
    map.type = types[value];
    return true;
  }
  case TensorMapField::InterleaveLayout:
    if (value > 2)
      return refused("interleave_layout");
    map.interleave = TmaInterleave(value);
    return true;
  case TensorMapField::SwizzleMode:
    if (value > 3)
      return refused("swizzle_mode");
    // A 128-byte mode keeps an atomicity that was set before.
    if (value < 3 || map.swizzle < TmaSwizzle::B128)
      map.swizzle = TmaSwizzle(value);
    return true;
  case TensorMapField::SwizzleAtomicity:
    if (value > 3)
      return refused("swizzle_atomicity");
    if (map.swizzle >= TmaSwizzle::B128)
      map.swizzle = TmaSwizzle(uint8_t(TmaSwizzle::B128) + value);
    else if (value != 0)
      return complain(issues, IssueKind::IllegalInstruction,
                      "tensormap.replace: swizzle_atomicity %llu needs "
                      "swizzle_mode 3 to be set before it",
                      static_cast<unsigned long long>(value));
    return true;
  case TensorMapField::FillMode:
    if (value > 1)
      return refused("fill_mode");
    map.fill = TmaFill(value);
    return true;
  default:
    return false;
  }
}

} // namespace

bool replaceTensorMapField(uint8_t *bytes, TensorMapField field,
                           unsigned ordinal, uint64_t value,
                           IssueList &issues) {
  TensorMap map;
  if (!readFields(bytes, map)) {
    for (unsigned i = 0; i < 128; ++i)
      if (bytes[i] != 0)
        return complain(issues, IssueKind::IllegalInstruction,
                        "tensormap.replace: the 128 bytes at this address are "
                        "not a tensor map");
  }
  unsigned limit = field == TensorMapField::GlobalStride ? 4 : 5;
  if (ordinal >= limit)
    return complain(issues, IssueKind::IllegalInstruction,
                    "tensormap.replace: expected an ordinal below %u, but got "
                    "%u",
                    limit, ordinal);
  switch (field) {
  case TensorMapField::GlobalAddress:
    map.address = value;
    break;
  case TensorMapField::Rank:
    // Larger ranks are kept and refused at use.
    map.rank = unsigned(value < 255 ? value + 1 : 255);
    break;
  case TensorMapField::BoxDim:
    map.box[ordinal] = uint16_t(value < 0xffff ? value : 0xffff);
    break;
  case TensorMapField::GlobalDim:
    map.dims[ordinal] = uint32_t(value);
    break;
  case TensorMapField::GlobalStride:
    map.strides[ordinal] = value;
    break;
  case TensorMapField::ElementStride:
    map.elementStrides[ordinal] = uint8_t(value < 0xff ? value : 0xff);
    break;
  default:
    if (!replaceEnum(map, field, value, issues))
      return false;
  }
  std::array<uint8_t, 128> replaced = map.toBytes();
  std::memcpy(bytes, replaced.data(), replaced.size());
  return true;
}

} // namespace flamia::sim
