//===- Prepared.cpp - The backward's preparation, checked -----------------===//
//
// Names of the workspace's tensors beside the specification model's.
//
//===----------------------------------------------------------------------===//

#include "Prepared.h"

#include <cstring>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::reference;

namespace {

/// The preparation's tensors beside what they must be.
class PreparedComparison {
public:
  PreparedComparison(const DeviceGradients &device, const AttentionShape &shape)
      : device(device), shape(shape) {}

  void bytes(StringRef name, const std::vector<uint8_t> &expected) {
    result.bytes.add(name, found(name), expected);
  }

  /// [tokens, heads].
  void vector(StringRef name, const std::vector<float> &expected) {
    compare(name, expected, [](size_t) { return true; });
  }

  /// A tile vector [tiles, heads, 128] that holds `value(row)` of every token
  /// and head, row = token * heads + head. Rows past a document are not looked
  /// at.
  template <typename Value>
  void tileVector(StringRef name, int64_t heads, Value value) {
    std::vector<int64_t> bases = numerics::scaleTileBases(shape.cuSeqlens);
    size_t elements = size_t(bases.back() * heads * numerics::tileRows);
    std::vector<float> expected(elements, 0.0f);
    std::vector<bool> counts(elements, false);
    for (int64_t d = 0; d < shape.documents(); ++d)
      for (int64_t i = 0; i < shape.length(d); ++i)
        for (int64_t head = 0; head < heads; ++head) {
          int64_t tile = bases[size_t(d)] + i / numerics::tileRows;
          size_t at = size_t((tile * heads + head) * numerics::tileRows +
                             i % numerics::tileRows);
          counts[at] = true;
          expected[at] =
              value(size_t((shape.cuSeqlens[size_t(d)] + i) * heads + head));
        }
    compare(name, expected, [&](size_t i) { return counts[i]; });
  }

  PreparedDifference take() { return std::move(result); }

private:
  ArrayRef<uint8_t> found(StringRef name) const {
    auto it = device.prepared.find(name.str());
    if (it == device.prepared.end())
      return {};
    return it->second;
  }

  template <typename Counts>
  void compare(StringRef name, std::vector<float> expected, Counts counts) {
    ArrayRef<uint8_t> raw = found(name);
    std::vector<float> values(raw.size() / sizeof(float));
    if (!values.empty())
      std::memcpy(values.data(), raw.data(), raw.size());
    // One NaN is as good as another, and so are the zeros.
    for (std::vector<float> *array : {&values, &expected})
      for (float &value : *array)
        value = std::isnan(value) ? NAN : value == 0 ? 0.0f : value;
    result.numbers.addWhere<float>(name, values, expected, counts);
  }

  const DeviceGradients &device;
  const AttentionShape &shape;
  PreparedDifference result;
};

} // namespace

std::string PreparedDifference::text() const {
  std::string text = formatv("{0} bytes and {1} numbers, {2} differ",
                             bytes.compared, numbers.compared, different())
                         .str();
  for (const std::string *first : {&bytes.first, &numbers.first})
    if (!first->empty())
      text += " (" + *first + ")";
  return text;
}

PreparedDifference run::comparePrepared(const DeviceGradients &device,
                                        const PreparedGradient &expected,
                                        const AttentionShape &shape) {
  PreparedComparison comparison(device, shape);
  comparison.bytes("do_data", expected.dO.payload);
  comparison.bytes("do_scale", expected.dO.scales);
  comparison.bytes("do_scale_hat", expected.foldedScales);
  comparison.bytes("do_block_scale", expected.blockScales);
  comparison.bytes("q_block_scale", expected.queryBlockScales);
  comparison.bytes("v_scale_hat", expected.foldedValueScales);
  comparison.bytes("k_block_scale", expected.keyBlockScales);
  comparison.vector("r", expected.r);
  comparison.vector("d_past", expected.dPast);
  comparison.vector("d_diagonal", expected.dDiagonal);
  auto queries = [&](StringRef name, auto value) {
    comparison.tileVector(name, shape.heads, value);
  };
  queries("bias", [&](size_t row) { return expected.bias[row]; });
  queries("bias_hat", [&](size_t row) { return expected.biasHat[row]; });
  queries("d_past_hat", [&](size_t row) { return expected.dPastHat[row]; });
  queries("d_diagonal_hat",
          [&](size_t row) { return expected.dDiagonalHat[row]; });
  queries("r_hat", [&](size_t row) { return expected.rHat[row]; });
  queries("r_unit", [&](size_t row) { return expected.r[row] * 0x1p-8f; });
  comparison.tileVector("k_factor", shape.kvHeads,
                        [&](size_t row) { return expected.keyFactors[row]; });
  comparison.tileVector("k_factor_diagonal", shape.kvHeads, [&](size_t row) {
    return expected.diagonalKeyFactors[row];
  });
  return comparison.take();
}
