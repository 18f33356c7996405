//===- ProbeSupport.cpp - What the leak probes share ----------------------===//
//
// See ProbeSupport.h.
//
//===----------------------------------------------------------------------===//

#include "lib/Reference/ProbeSupport.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

using namespace flamia;
using namespace flamia::numerics;
using namespace flamia::reference;

void Comparer::compare(const char *name, const std::vector<float> &a,
                       int64_t tokenA, const std::vector<float> &b,
                       int64_t tokenB, int64_t count, int64_t rowSize,
                       const std::string &what) {
  if (a.empty() && b.empty())
    return; // an output the implementation does not have
  if (int64_t(a.size()) < (tokenA + count) * rowSize ||
      int64_t(b.size()) < (tokenB + count) * rowSize) {
    ++result.mismatches;
    note(name, std::string(name) + " is too short, " + what);
    return;
  }
  for (int64_t i = 0; i < count * rowSize; ++i) {
    float x = a[tokenA * rowSize + i], y = b[tokenB * rowSize + i];
    ++result.valuesCompared;
    if (bitsOf(x) == bitsOf(y))
      continue;
    ++result.mismatches;
    double difference = std::abs(double(x) - double(y));
    if (std::isnan(difference))
      difference = std::numeric_limits<double>::infinity();
    result.maxAbs = std::max(result.maxAbs, difference);
    note(name, std::string(name) + " of token " +
                   std::to_string(tokenA + i / rowSize) + ", element " +
                   std::to_string(i % rowSize) + ": " + std::to_string(x) +
                   " became " + std::to_string(y) + ", " + what);
  }
}

void Comparer::note(const char *name, const std::string &text) {
  if (result.detail.empty())
    result.detail = text;
  auto &failed = result.failedOutputs;
  if (std::find(failed.begin(), failed.end(), name) == failed.end())
    failed.push_back(name);
}

void reference::finish(ProbeResult &result) {
  result.ok = result.mismatches == 0 && result.valuesCompared > 0;
  if (result.valuesCompared == 0 && result.detail.empty())
    result.detail = "nothing to compare";
}

AttentionInputs reference::packOf(const AttentionInputs &inputs,
                                  const std::vector<int64_t> &order) {
  const AttentionShape &shape = inputs.shape;
  AttentionInputs pack;
  pack.shape = shape;
  std::vector<int64_t> lengths;
  for (int64_t d : order) {
    lengths.push_back(shape.length(d));
    int64_t begin = shape.cuSeqlens[d], end = shape.cuSeqlens[d + 1];
    appendTokens(inputs.q, begin, end, span(shape, 1, shape.heads), pack.q);
    appendTokens(inputs.k, begin, end, span(shape, 1, shape.kvHeads), pack.k);
    appendTokens(inputs.v, begin, end, span(shape, 1, shape.kvHeads), pack.v);
  }
  pack.shape.cuSeqlens = cuSeqlensOf(lengths);
  return pack;
}

void reference::poison(AttentionInputs &inputs, int64_t document) {
  const AttentionShape &shape = inputs.shape;
  int64_t begin = shape.cuSeqlens[document];
  int64_t end = shape.cuSeqlens[document + 1];
  auto fill = [&](std::vector<uint16_t> &tensor, int64_t heads) {
    std::fill(tensor.begin() + span(shape, begin, heads),
              tensor.begin() + span(shape, end, heads), uint16_t(0x7FC1));
  };
  fill(inputs.q, shape.heads);
  fill(inputs.k, shape.kvHeads);
  fill(inputs.v, shape.kvHeads);
}

std::vector<int64_t> reference::longestFirst(const AttentionShape &shape) {
  std::vector<int64_t> order(shape.documents());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::make_pair(-shape.length(a), a) <
           std::make_pair(-shape.length(b), b);
  });
  return order;
}

std::vector<int64_t> reference::reversedDocuments(const AttentionShape &shape) {
  std::vector<int64_t> order(shape.documents());
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

int64_t reference::longestDocument(const AttentionShape &shape) {
  int64_t longest = 0;
  for (int64_t d = 0; d < shape.documents(); ++d)
    longest = std::max(longest, shape.length(d));
  return longest;
}

void reference::enlarge(const AttentionShape &shape,
                        std::vector<uint16_t> &tensor, int64_t heads,
                        int64_t tokenBegin, int64_t tokenEnd) {
  int64_t row = span(shape, 1, heads);
  for (int64_t token = tokenBegin; token < tokenEnd; ++token)
    for (int64_t i = token * row; i < (token + 1) * row; ++i)
      tensor[i] = token % 4 == 3
                      ? uint16_t((tensor[i] & 0x8000) | 0x7F00) // 2^127
                      : floatToBF16Sat(bf16ToFloat(tensor[i]) * 0x1p20f);
}
