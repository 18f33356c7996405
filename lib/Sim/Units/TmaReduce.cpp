//===- TmaReduce.cpp - Reductions of bulk copies --------------------------===//
//
// facts/tcgen05.md section 9.1: f32 sums keep subnormals, as measured.
//
//===----------------------------------------------------------------------===//

#include "Bits.h"
#include "Message.h"
#include "flamia/Sim/Units/Convert.h"
#include "flamia/Sim/Units/TensorMap.h"
#include <algorithm>
#include <cstring>
#include <type_traits>

namespace flamia::sim {

namespace {

const char *toString(TmaReduce op) {
  static const char *const names[] = {"add", "min", "max", "inc",
                                      "dec", "and", "or",  "xor"};
  return names[unsigned(op)];
}

template <typename T, typename Combine>
void combineAll(uint8_t *dst, const uint8_t *src, uint64_t size,
                Combine combine) {
  for (uint64_t i = 0; i < size; i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, dst + i, sizeof(T));
    std::memcpy(&y, src + i, sizeof(T));
    x = combine(x, y);
    std::memcpy(dst + i, &x, sizeof(T));
  }
}

/// Integers; inc and dec exist for u32 only.
template <typename T>
bool reduceIntegers(TmaReduce op, uint8_t *dst, const uint8_t *src,
                    uint64_t size) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
  case TmaReduce::Add:
    combineAll<U>(dst, src, size, [](U x, U y) { return U(x + y); });
    return true;
  case TmaReduce::Min:
    combineAll<T>(dst, src, size, [](T x, T y) { return std::min(x, y); });
    return true;
  case TmaReduce::Max:
    combineAll<T>(dst, src, size, [](T x, T y) { return std::max(x, y); });
    return true;
  case TmaReduce::And:
    combineAll<U>(dst, src, size, [](U x, U y) { return U(x & y); });
    return true;
  case TmaReduce::Or:
    combineAll<U>(dst, src, size, [](U x, U y) { return U(x | y); });
    return true;
  case TmaReduce::Xor:
    combineAll<U>(dst, src, size, [](U x, U y) { return U(x ^ y); });
    return true;
  case TmaReduce::Inc:
    if (std::is_same_v<T, uint32_t>)
      combineAll<U>(dst, src, size,
                    [](U x, U y) { return U(x >= y ? 0 : x + 1); });
    return std::is_same_v<T, uint32_t>;
  case TmaReduce::Dec:
    if (std::is_same_v<T, uint32_t>)
      combineAll<U>(dst, src, size,
                    [](U x, U y) { return U(x == 0 || x > y ? y : x - 1); });
    return std::is_same_v<T, uint32_t>;
  }
  return false;
}

/// f16 and bf16: sums of two are rounded once, because f32 has more than twice
/// their bits.
template <typename ToFloat, typename FromFloat>
bool reduceHalves(TmaReduce op, uint8_t *dst, const uint8_t *src, uint64_t size,
                  ToFloat toFloat, FromFloat fromFloat) {
  auto value = [&](uint16_t bits) { return asFloat(toFloat(bits)); };
  switch (op) {
  case TmaReduce::Add:
    combineAll<uint16_t>(dst, src, size, [&](uint16_t x, uint16_t y) {
      return uint16_t(fromFloat(asBits(value(x) + value(y))));
    });
    return true;
  case TmaReduce::Min:
    combineAll<uint16_t>(dst, src, size, [&](uint16_t x, uint16_t y) {
      return value(y) < value(x) || value(x) != value(x) ? y : x;
    });
    return true;
  case TmaReduce::Max:
    combineAll<uint16_t>(dst, src, size, [&](uint16_t x, uint16_t y) {
      return value(y) > value(x) || value(x) != value(x) ? y : x;
    });
    return true;
  default:
    return false;
  }
}

} // namespace

bool reduceElements(TmaType type, TmaReduce op, uint8_t *dst,
                    const uint8_t *src, uint64_t size, IssueList &issues) {
  bool done = false;
  switch (type) {
  case TmaType::U32:
    done = reduceIntegers<uint32_t>(op, dst, src, size);
    break;
  case TmaType::S32:
    done = reduceIntegers<int32_t>(op, dst, src, size);
    break;
  case TmaType::U64:
    done = reduceIntegers<uint64_t>(op, dst, src, size);
    break;
  case TmaType::S64:
    done = reduceIntegers<int64_t>(op, dst, src, size);
    break;
  case TmaType::F16:
    done = reduceHalves(op, dst, src, size, f16ToF32,
                        [](uint32_t bits) { return f32ToF16(bits); });
    break;
  case TmaType::BF16:
    done = reduceHalves(op, dst, src, size, bf16ToF32,
                        [](uint32_t bits) { return f32ToBf16(bits); });
    break;
  case TmaType::F32:
    done = op == TmaReduce::Add;
    if (done)
      combineAll<float>(dst, src, size, [](float x, float y) { return x + y; });
    break;
  case TmaType::F64:
    done = op == TmaReduce::Add;
    if (done)
      combineAll<double>(dst, src, size,
                         [](double x, double y) { return x + y; });
    break;
  default:
    break;
  }
  if (!done)
    return complain(issues, IssueKind::IllegalInstruction,
                    "reduction .%s does not exist for tensor map type %u",
                    toString(op), unsigned(type));
  return true;
}

} // namespace flamia::sim
