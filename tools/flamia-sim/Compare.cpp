//===- Compare.cpp - Outputs and expectations -----------------------------===//

#include "LaunchFile.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using namespace flamia;
using namespace flamia::simtool;

std::vector<OutputFile> LaunchFile::outputFiles() const {
  std::vector<OutputFile> files;
  for (const Buffer &b : buffers)
    if (!b.output.empty())
      files.push_back(
          {pathOf(b.output), sim::encodeNpy(b.array.kind, b.array.elementBytes,
                                            b.array.shape, b.array.data)});
  return files;
}

/// The values of a buffer; 16-bit patterns may stand for BF16.
static std::vector<double> valuesOf(const Buffer &b) {
  if (!b.bf16)
    return b.array.asDoubles();
  std::vector<double> values(b.array.data.size() / 2);
  for (size_t k = 0; k < values.size(); ++k) {
    uint16_t half;
    std::memcpy(&half, b.array.data.data() + 2 * k, 2);
    uint32_t bits = uint32_t(half) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    values[k] = f;
  }
  return values;
}

static std::string shapeText(ArrayRef<uint64_t> shape) {
  std::string text = "[";
  for (size_t k = 0; k < shape.size(); ++k)
    text += (k ? ", " : "") + std::to_string(shape[k]);
  return text + "]";
}

static void compareBits(const Buffer &have, const sim::NpyArray &want,
                        Comparison &c) {
  c.rule = "bitwise";
  if (have.array.elementBytes != want.elementBytes) {
    c.message = "holds " + have.array.typeName() + ", but " + want.typeName() +
                " is expected";
    return;
  }
  size_t width = want.elementBytes, differ = 0, first = 0;
  for (size_t k = 0; k < want.elements(); ++k)
    if (std::memcmp(have.array.data.data() + k * width,
                    want.data.data() + k * width, width) != 0) {
      first = differ++ ? first : k;
    }
  c.value = double(differ);
  c.ok = differ == 0;
  if (differ) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, have.array.data.data() + first * width, width);
    std::memcpy(&b, want.data.data() + first * width, width);
    c.message = formatv("{0} of {1} elements differ, first element {2}: got "
                        "{3:x}, expected {4:x}",
                        differ, want.elements(), first, a, b)
                    .str();
  }
}

static void compareValues(const Buffer &have, const sim::NpyArray &want,
                          bool frobenius, Comparison &c) {
  c.rule = frobenius ? "relative_frobenius" : "max_abs";
  std::vector<double> a = valuesOf(have), b = want.asDoubles();
  double difference = 0, norm = 0, worst = 0;
  size_t broken = 0, firstBroken = 0, worstAt = 0;
  for (size_t k = 0; k < b.size(); ++k) {
    if (a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]))) {
      if (std::isfinite(b[k]))
        norm += b[k] * b[k];
      continue;
    }
    double d = std::fabs(a[k] - b[k]);
    if (!std::isfinite(d)) {
      firstBroken = broken++ ? firstBroken : k;
      continue;
    }
    difference += d * d;
    norm += b[k] * b[k];
    if (d > worst) {
      worst = d;
      worstAt = k;
    }
  }
  c.value = frobenius ? (norm > 0 ? std::sqrt(difference / norm)
                                  : std::sqrt(difference))
                      : worst;
  c.ok = broken == 0 && c.value <= c.limit;
  if (broken)
    c.message =
        formatv("{0} of {1} elements are NaN or infinite where they "
                "should not be, first element {2}: got {3}, expected {4}",
                broken, b.size(), firstBroken, a[firstBroken], b[firstBroken])
            .str();
  else if (!c.ok)
    c.message =
        formatv("{0} is {1:e3}, the limit is {2:e3}; largest "
                "difference at element {3}: got {4}, expected {5}",
                c.rule, c.value, c.limit, worstAt, a[worstAt], b[worstAt])
            .str();
}

Expected<std::vector<Comparison>> LaunchFile::compare() const {
  std::vector<Comparison> results;
  for (const Expectation &e : expectations) {
    const Buffer &have = *findOutput(e.output);
    Expected<sim::NpyArray> want = sim::readNpy(pathOf(e.expected));
    if (!want)
      return want.takeError();
    Comparison c;
    c.output = e.output;
    c.limit = e.limit;
    if (have.array.shape != want->shape)
      c.message = "has shape " + shapeText(have.array.shape) + ", but " +
                  shapeText(want->shape) + " is expected";
    else if (e.rule == Rule::Bitwise)
      compareBits(have, *want, c);
    else
      compareValues(have, *want, e.rule == Rule::RelativeFrobenius, c);
    results.push_back(std::move(c));
  }
  return results;
}
