//===- Shape.cpp - Shapes and options of attention ------------------------===//
//
// Checks and small helpers shared by the references.
//
//===----------------------------------------------------------------------===//

#include "flamia/Reference/Attention.h"
#include "lib/Reference/TileWalk.h"

#include <cmath>
#include <tuple>

using namespace flamia;
using namespace flamia::reference;

std::string reference::checkShape(const AttentionShape &shape) {
  std::string error = numerics::checkShape(shape.queryShape());
  if (error.empty() && shape.kvHeads <= 0)
    error = "expected a positive number of kv heads, but found " +
            std::to_string(shape.kvHeads);
  if (error.empty() && shape.heads % shape.kvHeads != 0)
    error = "expected the number of heads to be a multiple of the " +
            std::to_string(shape.kvHeads) + " kv heads, but found " +
            std::to_string(shape.heads);
  return error;
}

std::string reference::checkProblem(const AttentionShape &shape,
                                    const ForwardOptions &options) {
  std::string error = checkShape(shape);
  if (options.format == Format::Nvfp4)
    for (float scale : {options.queryGlobalScale, options.keyGlobalScale})
      if (error.empty())
        error = numerics::checkGlobalScale(scale);
  return error;
}

const char *reference::nameOf(Format format) {
  return format == Format::Nvfp4 ? "nvfp4" : "mxfp8";
}

float reference::softmaxScaleOf(const ForwardOptions &options,
                                int64_t headDim) {
  if (options.softmaxScale >= 0)
    return options.softmaxScale;
  return float(1.0 / std::sqrt(double(headDim)));
}

float reference::scoreFactorOf(const QuantizedInputs &inputs,
                               const ForwardOptions &options) {
  constexpr float log2e = 1.4426950408889634f;
  float factor = softmaxScaleOf(options, inputs.shape.headDim) * log2e;
  if (inputs.format == Format::Nvfp4)
    factor = factor * inputs.qScores.globalScale * inputs.kScores.globalScale;
  return factor;
}

std::vector<WorkItem> reference::workItems(const AttentionShape &shape) {
  std::vector<int64_t> bases = numerics::scaleTileBases(shape.cuSeqlens);
  std::vector<WorkItem> items;
  for (int64_t d = 0; d < shape.documents(); ++d)
    for (int64_t tile = 0; tile < bases[d + 1] - bases[d]; ++tile)
      for (int64_t head = 0; head < shape.heads; ++head)
        items.push_back(
            {shape.cuSeqlens[d], shape.length(d), tile, bases[d], head});
  std::sort(items.begin(), items.end(),
            [](const WorkItem &a, const WorkItem &b) {
              return std::make_tuple(-a.tile, a.begin, a.head) <
                     std::make_tuple(-b.tile, b.begin, b.head);
            });
  return items;
}

std::vector<WorkItem> reference::keyItems(const AttentionShape &shape) {
  int64_t group = shape.heads / shape.kvHeads;
  std::vector<WorkItem> items;
  for (const WorkItem &item : workItems(shape))
    if (item.head % group == 0)
      items.push_back(item);
  std::sort(items.begin(), items.end(),
            [](const WorkItem &a, const WorkItem &b) {
              return std::make_tuple(a.firstRow() - a.length, a.begin, a.head) <
                     std::make_tuple(b.firstRow() - b.length, b.begin, b.head);
            });
  return items;
}
