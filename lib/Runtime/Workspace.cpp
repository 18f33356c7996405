//===- Workspace.cpp - Configurations and workspaces of attention ---------===//
//
// Which tensors the forward and the backward keep in the caller's memory.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/AttentionBackward.h"
#include "lib/Runtime/PlanBuilder.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

namespace {

constexpr uint64_t pieceAlignment = 256;
constexpr uint64_t scaleAtomBytes = 512;
/// Four blocks of 16 channels.
constexpr uint64_t channelsPerAtom = 64;

/// The extents that workspaces are made of, and the layout as it grows.
struct LayoutBuilder {
  uint64_t tokens, tiles, heads, kvHeads, dim;
  WorkspaceLayout layout;

  static Expected<LayoutBuilder> create(const AttentionConfig &config,
                                        ArrayRef<int64_t> offsets) {
    if (Error error = checkConfig(config))
      return std::move(error);
    if (Error error = schedule::validateOffsets(
            offsets, offsets.empty() ? 0 : offsets.back()))
      return invalidArgument(toString(std::move(error)));
    return LayoutBuilder{
        uint64_t(offsets.back()), uint64_t(schedule::countItems(offsets)),
        uint64_t(config.heads),   uint64_t(config.kvHeads),
        uint64_t(config.headDim), {}};
  }

  static Expected<LayoutBuilder> create(const AttentionConfig &config,
                                        const DeviceOffsets &offsets) {
    if (Error error = checkConfig(config))
      return std::move(error);
    // Entries of cu_seqlens and of the work list are int32.
    if (offsets.documents < 0 || offsets.documents >= INT32_MAX)
      return invalidArgument("documents is " + Twine(offsets.documents) +
                             ", expected 0 to 2147483646");
    if (offsets.tokens < 0 || offsets.tokens > schedule::maxTokens)
      return invalidArgument("tokens is " + Twine(offsets.tokens) +
                             ", expected 0 to 2147483647");
    return LayoutBuilder{
        uint64_t(offsets.tokens),
        uint64_t(schedule::mostItems(offsets.documents, offsets.tokens)),
        uint64_t(config.heads),
        uint64_t(config.kvHeads),
        uint64_t(config.headDim),
        {}};
  }

  void add(StringRef name, Element element, std::vector<uint64_t> extents,
           bool saved = false) {
    WorkspaceTensor tensor;
    tensor.name = name.str();
    tensor.element = element;
    tensor.bytes = bytesOf(element, extents);
    tensor.extents = std::move(extents);
    tensor.saved = saved;
    tensor.offset = layout.bytes;
    // 2^31 tokens x 2^16 heads x 128 x 4 bytes stays below 2^56.
    layout.bytes = alignTo(tensor.offset + tensor.bytes, pieceAlignment);
    layout.tensors.push_back(std::move(tensor));
  }
  void addPayload(StringRef name, uint64_t heads, bool saved = false) {
    add(name, Element::F8E4M3FN, {tokens, heads, dim}, saved);
  }
  void addScales(StringRef name, uint64_t heads, bool saved = false) {
    add(name, Element::F8E8M0FNU, {tiles, heads, scaleAtomBytes}, saved);
  }
  /// An operand of the scores in format nvfp4: NAME and NAME_scale.
  void addNvfp4(StringRef name, uint64_t count) {
    add(name, Element::F4E2M1FN, {tokens, count, dim}, true);
    add((name + "_scale").str(), Element::F8E4M3FN,
        {tiles, count, dim / channelsPerAtom, scaleAtomBytes}, true);
  }
  /// One number for each token and head, by token and by tile.
  void addVector(StringRef name, bool saved = false) {
    add(name, Element::F32, {tokens, heads}, saved);
  }
  void addTileVector(StringRef name, uint64_t heads) {
    add(name, Element::F32, {tiles, heads, uint64_t(schedule::tileRows)});
  }
};

} // namespace

float AttentionConfig::scale() const {
  return softmaxScale ? *softmaxScale : float(1.0 / std::sqrt(double(headDim)));
}

StringRef runtime::nameOf(Format format) {
  return format == Format::Mxfp8 ? "mxfp8" : "nvfp4";
}

std::optional<Format> runtime::parseFormat(StringRef name) {
  for (Format format : {Format::Mxfp8, Format::Nvfp4})
    if (name == nameOf(format))
      return format;
  return std::nullopt;
}

/// Beyond these, block scales or the softmax scale leave float's range.
static Error checkGlobalScale(StringRef name, float scale) {
  if (scale >= 0x1p-32f && scale <= 0x1p32f)
    return Error::success();
  std::string text;
  raw_string_ostream(text) << format("%.9g", scale);
  return invalidArgument(name + " is " + text +
                         ", expected a number from 2^-32 to 2^32");
}

Error runtime::checkConfig(const AttentionConfig &config) {
  if (config.headDim != 64 && config.headDim != 128)
    return makeError(ErrorCode::NotSupported,
                     "head_dim " + Twine(config.headDim) +
                         " is not supported, expected 64 or 128");
  if (config.heads < 1 || config.heads > 65535)
    return invalidArgument("heads is " + Twine(config.heads) +
                           ", expected 1 to 65535");
  if (config.kvHeads < 1 || config.heads % config.kvHeads)
    return invalidArgument("heads is " + Twine(config.heads) +
                           ", expected a multiple of kv_heads, which is " +
                           Twine(config.kvHeads));
  if (config.softmaxScale &&
      !(std::isfinite(*config.softmaxScale) && *config.softmaxScale >= 0))
    return invalidArgument(
        formatv("softmax_scale is {0}, expected a finite number "
                ">= 0",
                *config.softmaxScale)
            .str());
  if (config.format == Format::Mxfp8)
    return Error::success();
  if (Error error = checkGlobalScale("q_global_scale", config.qGlobalScale))
    return error;
  return checkGlobalScale("k_global_scale", config.kGlobalScale);
}

Error runtime::changeGlobalScales(AttentionConfig &config, float q, float k) {
  AttentionConfig changed = config;
  changed.qGlobalScale = q;
  changed.kGlobalScale = k;
  if (config.format == Format::Mxfp8)
    return invalidArgument("format mxfp8 has no second-level scales");
  if (Error error = checkConfig(changed))
    return error;
  config = std::move(changed);
  return Error::success();
}

const WorkspaceTensor *WorkspaceLayout::find(StringRef name) const {
  for (const WorkspaceTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

/// What a forward keeps, whoever makes the work list.
static void addForward(LayoutBuilder &builder, Format format) {
  builder.add("work", Element::I32, {builder.tiles, 4}, true);
  builder.addPayload("q_data", builder.heads, true);
  builder.addScales("q_scale", builder.heads, true);
  builder.addPayload("k_data", builder.kvHeads, true);
  builder.addScales("k_scale", builder.kvHeads, true);
  builder.addPayload("v_data", builder.kvHeads, true);
  // The forward multiplies along tokens, the backward along channels.
  builder.addScales("v_scale_rows", builder.kvHeads);
  builder.addScales("v_scale_cols", builder.kvHeads, true);
  for (StringRef name : {"m", "l", "kappa"})
    builder.addVector(name, true);
  if (format == Format::Nvfp4) {
    builder.addNvfp4("q_fp4", builder.heads);
    builder.addNvfp4("k_fp4", builder.kvHeads);
  }
}

static void addBackward(LayoutBuilder &builder) {
  uint64_t heads = builder.heads, kvHeads = builder.kvHeads;
  builder.addPayload("do_data", heads);
  for (StringRef name :
       {"do_scale", "do_scale_hat", "do_block_scale", "q_block_scale"})
    builder.addScales(name, heads);
  for (StringRef name : {"r", "d_past", "d_diagonal"})
    builder.addVector(name);
  for (StringRef name :
       {"bias", "bias_hat", "d_past_hat", "d_diagonal_hat", "r_hat", "r_unit"})
    builder.addTileVector(name, heads);
  for (StringRef name : {"v_scale_hat", "k_block_scale"})
    builder.addScales(name, kvHeads);
  for (StringRef name : {"k_factor", "k_factor_diagonal"})
    builder.addTileVector(name, kvHeads);
}

Expected<WorkspaceLayout> runtime::queryWorkspace(const AttentionConfig &config,
                                                  ArrayRef<int64_t> offsets) {
  Expected<LayoutBuilder> builder = LayoutBuilder::create(config, offsets);
  if (!builder)
    return builder.takeError();
  addForward(*builder, config.format);
  return std::move(builder->layout);
}

Expected<WorkspaceLayout>
runtime::queryDeviceWorkspace(const AttentionConfig &config,
                              const DeviceOffsets &offsets) {
  Expected<LayoutBuilder> builder = LayoutBuilder::create(config, offsets);
  if (!builder)
    return builder.takeError();
  addForward(*builder, config.format);
  auto documents = uint64_t(offsets.documents);
  builder->add("document_order", Element::I32, {2, documents});
  builder->add("document_scale_base", Element::I32, {documents});
  builder->add("document_steps", Element::I32, {documents});
  builder->add("list_state", Element::I32, {8});
  return std::move(builder->layout);
}

Expected<WorkspaceLayout>
runtime::queryBackwardWorkspace(const AttentionConfig &config,
                                ArrayRef<int64_t> offsets) {
  Expected<LayoutBuilder> builder = LayoutBuilder::create(config, offsets);
  if (!builder)
    return builder.takeError();
  addBackward(*builder);
  return std::move(builder->layout);
}

Expected<WorkspaceLayout>
runtime::queryDeviceBackwardWorkspace(const AttentionConfig &config,
                                      const DeviceOffsets &offsets) {
  Expected<LayoutBuilder> builder = LayoutBuilder::create(config, offsets);
  if (!builder)
    return builder.takeError();
  addBackward(*builder);
  return std::move(builder->layout);
}

std::vector<std::string> runtime::savedForBackward(Format format) {
  std::vector<std::string> names = {"v", "o"};
  AttentionConfig config;
  config.format = format;
  WorkspaceLayout layout = cantFail(queryWorkspace(config, {0}));
  for (const WorkspaceTensor &tensor : layout.tensors)
    if (tensor.saved)
      names.push_back(tensor.name);
  return names;
}
