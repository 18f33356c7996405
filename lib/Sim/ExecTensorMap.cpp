//===- ExecTensorMap.cpp - Tensor maps made on the device -----------------===//
//
// PTX ISA 9.7.9.27.1 (tensormap.replace) and 9.7.13.16
// (tensormap.cp_fenceproxy). The bytes of a map are the simulator's own
// encoding (lib/Sim/Units/TensorMap.cpp); 128 zero bytes are an empty map.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "MemoryDecode.h"

#include "llvm/ADT/Twine.h"

namespace flamia {
namespace sim {

using llvm::StringRef;

namespace {

constexpr unsigned mapBytes = 128;

enum ReplaceFlags : uint32_t {
  trFieldMask = 0xff,
  trOrdinal = 8, ///< Dimension, 8 bits
  trWide = 1 << 16,
  trValue64 = 1 << 17
};

Flow replaceField(Exec &x, const Instr &i, uint32_t mask) {
  auto field = TensorMapField(i.aux & trFieldMask);
  for (uint32_t m = mask; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint64_t address = x.addressOf(i, i.src[0], i.aux & trWide, l);
    uint8_t *map = x.resolve(i, i.space, address, mapBytes, Exec::Update, l);
    if (!map || !x.requireDefined(i, i.space, address, mapBytes, l))
      return Flow::Fail;
    uint64_t value = i.aux & trValue64 ? x.lanes<uint64_t>(i.src[1])[l]
                                       : x.lanes<uint32_t>(i.src[1])[l];
    IssueList issues;
    bool done = replaceTensorMapField(map, field, i.aux >> trOrdinal & 0xff,
                                      value, issues);
    if (x.report(i, l, issues, done))
      return Flow::Fail;
  }
  return Flow::Next;
}

/// The whole warp copies one map from shared to global memory.
Flow copyMap(Exec &x, const Instr &i, uint32_t mask) {
  const CopyInfo &c = x.kernel.copies[i.extra];
  int l = int(lowestLane(mask));
  uint64_t to = x.addressOf(c.to, l), from = x.addressOf(c.from, l);
  const uint8_t *source =
      x.resolve(i, spaceShared, from, mapBytes, Exec::Load, l);
  if (!source || !x.requireDefined(i, spaceShared, from, mapBytes, l))
    return Flow::Fail;
  uint8_t *target = x.resolve(i, spaceGlobal, to, mapBytes, Exec::Store, l);
  if (!target || !x.markDefined(i, spaceGlobal, to, mapBytes, l))
    return Flow::Fail;
  std::memcpy(target, source, mapBytes);
  return Flow::Next;
}

struct FieldName {
  const char *name;
  TensorMapField field;
  bool ordinal;
};
const FieldName fieldNames[] = {
    {"global_address", TensorMapField::GlobalAddress, false},
    {"rank", TensorMapField::Rank, false},
    {"box_dim", TensorMapField::BoxDim, true},
    {"global_dim", TensorMapField::GlobalDim, true},
    {"global_stride", TensorMapField::GlobalStride, true},
    {"element_stride", TensorMapField::ElementStride, true},
    {"elemtype", TensorMapField::ElemType, false},
    {"interleave_layout", TensorMapField::InterleaveLayout, false},
    {"swizzle_mode", TensorMapField::SwizzleMode, false},
    {"swizzle_atomicity", TensorMapField::SwizzleAtomicity, false},
    {"fill_mode", TensorMapField::FillMode, false}};

bool decodeReplace(Decoder &d) {
  Instr &o = *d.out;
  const FieldName *field = nullptr;
  if (d.take("tile"))
    for (const FieldName &f : fieldNames)
      if (!field && d.take(f.name))
        field = &f;
  if (!takeSpace(d, o.space))
    o.space = spaceGeneric;
  bool whole = d.take("b1024");
  Type type = d.takeType();
  bool wide = field && (field->field == TensorMapField::GlobalAddress ||
                        field->field == TensorMapField::GlobalStride);
  if (!field || !whole || type != (wide ? Type::B64 : Type::B32))
    return d.failForm();
  o.fn = replaceField;
  o.flags |= flagEffect;
  o.aux = uint32_t(field->field) | (wide ? trValue64 : 0u);
  bool address64 = false;
  if (!d.expectOps(2 + field->ordinal) ||
      !d.address(d.op(0), o.src[0], address64))
    return false;
  if (address64)
    o.aux |= trWide;
  if (field->ordinal) {
    int64_t ordinal;
    if (!d.immediate(d.op(1), ordinal, "the dimension"))
      return false;
    if (ordinal < 0 || ordinal > 4)
      return d.fail("expected a dimension in 0..4 in '" + d.in->opcode +
                    "', but got " + llvm::Twine(ordinal));
    o.aux |= uint32_t(ordinal) << trOrdinal;
  }
  return d.src(d.op(1 + field->ordinal), type, o.src[1]);
}

bool decodeCopyMap(Decoder &d) {
  Instr &o = *d.out;
  for (const char *q : {"global", "shared::cta", "tensormap::generic",
                        "release", "sync", "aligned"})
    if (!d.take(q))
      return d.failForm();
  if (d.takeAny({"cta", "cluster", "gpu", "sys"}).empty())
    return d.failForm();
  o.fn = copyMap;
  o.flags |= flagEffect | flagAligned;
  o.extra = uint32_t(d.kernel->copies.size());
  d.kernel->copies.emplace_back();
  CopyInfo &c = d.kernel->copies.back();
  int64_t size;
  if (!d.expectOps(3) || !d.address(d.op(0), c.to) ||
      !d.address(d.op(1), c.from) || !d.immediate(d.op(2), size, "the size"))
    return false;
  if (size != mapBytes)
    return d.fail("expected a size of 128 bytes in '" + d.in->opcode +
                  "', but got " + llvm::Twine(size));
  return true;
}

} // namespace

bool decodeTensorMap(Decoder &d) {
  if (d.base() != "tensormap")
    return false;
  d.out->unit = Unit::Copy;
  StringRef what = d.takeAny({"replace", "cp_fenceproxy"});
  if (what == "replace")
    decodeReplace(d);
  else if (what == "cp_fenceproxy")
    decodeCopyMap(d);
  else
    d.failForm();
  return true;
}

} // namespace sim
} // namespace flamia
