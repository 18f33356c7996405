//===- Inputs.cpp - The problem flamia-run works on -----------------------===//
//
// Tensors from .npy files or from the seeded generator, rounded to BF16.
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include "flamia/Reference/Data.h"
#include "flamia/Schedule/WorkList.h"
#include "flamia/Sim/Npy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>
#include <unistd.h>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using flamia::reference::AttentionShape;
using flamia::reference::BackwardInputs;

namespace {

/// A tensor file, not yet compared with the others.
struct TensorFile {
  std::string option; ///< "--q"
  std::vector<uint64_t> shape;
  std::vector<uint16_t> bf16;
};

std::string shapeText(ArrayRef<uint64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + utostr(shape[i]);
  return text + "]";
}

Expected<TensorFile> readTensor(StringRef option, StringRef path) {
  Expected<sim::NpyArray> array = sim::readNpy(path);
  if (!array)
    return createStringError(option + ": " + toString(array.takeError()));
  TensorFile file;
  file.option = option.str();
  file.shape = array->shape;
  if (file.shape.size() != 3)
    return createStringError(option + ": '" + path + "' has shape " +
                             shapeText(file.shape) +
                             ", expected [tokens, heads, head_dim]");
  size_t count = array->elements();
  file.bf16.resize(count);
  std::string type = array->typeName();
  if (type == "uint16") {
    if (count)
      std::memcpy(file.bf16.data(), array->data.data(), count * 2);
  } else if (type == "float32") {
    numerics::floatToBF16(reinterpret_cast<const float *>(array->data.data()),
                          file.bf16.data(), count);
  } else if (type == "float16") {
    std::vector<float> wide(count);
    numerics::f16ToFloat(reinterpret_cast<const uint16_t *>(array->data.data()),
                         wide.data(), count);
    numerics::floatToBF16(wide.data(), file.bf16.data(), count);
  } else {
    return createStringError(option + ": '" + path + "' holds " + type +
                             ", expected float32, float16, or uint16 with BF16 "
                             "bits");
  }
  return file;
}

/// An option given beside files must agree with them.
Error checkAgrees(StringRef option, std::optional<int64_t> given,
                  StringRef file, uint64_t found) {
  if (!given || uint64_t(*given) == found)
    return Error::success();
  return createStringError(option + " is " + Twine(*given) + ", but " + file +
                           " has " + Twine(found));
}

Error checkFiles(const Options &options, const TensorFile &q,
                 const TensorFile &k, const TensorFile &v) {
  if (q.shape[0] != k.shape[0])
    return createStringError(
        "query and key lengths must be equal in this version, --q has " +
        Twine(q.shape[0]) + " tokens and --k has " + Twine(k.shape[0]));
  if (k.shape != v.shape)
    return createStringError("--k has shape " + shapeText(k.shape) +
                             " and --v has shape " + shapeText(v.shape) +
                             ", expected equal shapes");
  if (q.shape[2] != k.shape[2])
    return createStringError("--q has head_dim " + Twine(q.shape[2]) +
                             " and --k has " + Twine(k.shape[2]) +
                             ", expected equal ones");
  if (q.shape[2] != 64 && q.shape[2] != 128)
    return createStringError("head_dim " + Twine(q.shape[2]) +
                             " is not supported, expected 64 or 128");
  for (const TensorFile *file : {&q, &k})
    if (file->shape[1] < 1 || file->shape[1] > 65535)
      return createStringError(file->option + " has " + Twine(file->shape[1]) +
                               " heads, expected 1 to 65535");
  if (q.shape[1] % k.shape[1])
    return createStringError("--q has " + Twine(q.shape[1]) +
                             " heads, expected a multiple of the " +
                             Twine(k.shape[1]) + " heads of --k");
  if (q.shape[0] > uint64_t(schedule::maxTokens))
    return createStringError("--q has " + Twine(q.shape[0]) +
                             " tokens, the limit is " +
                             Twine(schedule::maxTokens));
  if (Error error = checkAgrees("--heads", options.heads, "--q", q.shape[1]))
    return error;
  if (Error error =
          checkAgrees("--kv-heads", options.kvHeads, "--k", k.shape[1]))
    return error;
  return checkAgrees("--head-dim", options.headDim, "--q", q.shape[2]);
}

/// Reads cu_seqlens; `tokens` is what the tensors have, if there are any.
Expected<std::vector<int64_t>> readOffsets(StringRef path,
                                           std::optional<int64_t> tokens) {
  Expected<sim::NpyArray> array = sim::readNpy(path);
  if (!array)
    return createStringError("--cu-seqlens: " + toString(array.takeError()));
  std::string type = array->typeName();
  if (type != "int32" && type != "int64")
    return createStringError("--cu-seqlens: '" + path + "' holds " + type +
                             ", expected int32 or int64");
  if (array->shape.size() != 1)
    return createStringError("--cu-seqlens: '" + path + "' has shape " +
                             shapeText(array->shape) +
                             ", expected one dimension");
  std::vector<int64_t> offsets(array->elements());
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (type == "int64") {
      std::memcpy(&offsets[i], array->data.data() + 8 * i, 8);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, array->data.data() + 4 * i, 4);
      offsets[i] = narrow;
    }
  }
  int64_t expected = tokens ? *tokens : offsets.empty() ? 0 : offsets.back();
  if (Error error = schedule::validateOffsets(offsets, expected))
    return createStringError("--cu-seqlens: " + toString(std::move(error)));
  return offsets;
}

/// Refuses what cannot fit: tensors, workspace, references and their doubles.
Error checkMemory(const Options &options, const AttentionShape &shape) {
  bool backward = options.hasBackward();
  double perToken =
      double(shape.headDim) * (double(shape.heads) * (backward ? 75 : 40) +
                               double(shape.kvHeads) * (backward ? 70 : 30));
  double needed = double(shape.tokens()) * perToken;
  double available = double(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (needed <= available)
    return Error::success();
  return createStringError(
      Twine(shape.tokens()) + " tokens with " + Twine(shape.heads) +
      " heads need about " +
      formatv("{0:F1} GB of memory, this machine has {1:F1} GB", needed / 1e9,
              available / 1e9)
          .str());
}

reference::DataKind dataKind(const Options &options) {
  return StringSwitch<reference::DataKind>(options.data.value_or("normal"))
      .Case("outliers", reference::DataKind::OutlierChannels)
      .Case("llm", reference::DataKind::LlmLike)
      .Case("offset", reference::DataKind::ConstantOffset)
      .Default(reference::DataKind::Normal);
}

/// dO and dLSE, from files or made from the seed.
Error addGradients(const Options &options, BackwardInputs &inputs) {
  const AttentionShape &shape = inputs.forward.shape;
  std::vector<uint64_t> rows = {uint64_t(shape.tokens()),
                                uint64_t(shape.heads)};
  std::vector<uint64_t> full = {rows[0], rows[1], uint64_t(shape.headDim)};
  auto wrongShape = [](StringRef option, StringRef path,
                       ArrayRef<uint64_t> found, ArrayRef<uint64_t> expected) {
    return createStringError(option + ": '" + path + "' has shape " +
                             shapeText(found) + ", expected " +
                             shapeText(expected));
  };
  if (options.dO.empty()) {
    inputs.dO = reference::makeGradient(shape, options.seed);
  } else {
    Expected<TensorFile> file = readTensor("--do", options.dO);
    if (!file)
      return file.takeError();
    if (file->shape != full)
      return wrongShape("--do", options.dO, file->shape, full);
    inputs.dO = std::move(file->bf16);
  }
  if (options.dLse == "normal") {
    inputs.dLse = reference::makeGradientOfLse(shape, options.seed);
  } else if (!options.dLse.empty()) {
    Expected<sim::NpyArray> array = sim::readNpy(options.dLse);
    if (!array)
      return createStringError("--dlse: " + toString(array.takeError()));
    if (array->typeName() != "float32")
      return createStringError("--dlse: '" + options.dLse + "' holds " +
                               array->typeName() + ", expected float32");
    if (array->shape != rows)
      return wrongShape("--dlse", options.dLse, array->shape, rows);
    inputs.dLse.resize(array->elements());
    if (!inputs.dLse.empty())
      std::memcpy(inputs.dLse.data(), array->data.data(),
                  inputs.dLse.size() * sizeof(float));
  }
  return Error::success();
}

Expected<BackwardInputs> fromFiles(const Options &options) {
  Expected<TensorFile> q = readTensor("--q", options.q);
  if (!q)
    return q.takeError();
  Expected<TensorFile> k = readTensor("--k", options.k);
  if (!k)
    return k.takeError();
  Expected<TensorFile> v = readTensor("--v", options.v);
  if (!v)
    return v.takeError();
  if (Error error = checkFiles(options, *q, *k, *v))
    return std::move(error);
  BackwardInputs inputs;
  AttentionShape &shape = inputs.forward.shape;
  shape.heads = int64_t(q->shape[1]);
  shape.kvHeads = int64_t(k->shape[1]);
  shape.headDim = int64_t(q->shape[2]);
  int64_t tokens = int64_t(q->shape[0]);
  if (options.docs) {
    shape.cuSeqlens = numerics::cuSeqlensOf(*options.docs);
    if (shape.tokens() != tokens)
      return createStringError("--docs has " + Twine(shape.tokens()) +
                               " tokens, but --q has " + Twine(tokens));
  } else if (!options.cuSeqlens.empty()) {
    Expected<std::vector<int64_t>> offsets =
        readOffsets(options.cuSeqlens, tokens);
    if (!offsets)
      return offsets.takeError();
    shape.cuSeqlens = std::move(*offsets);
  } else {
    shape.cuSeqlens = {0, tokens};
  }
  if (Error error = checkMemory(options, shape))
    return std::move(error);
  inputs.forward.q = std::move(q->bf16);
  inputs.forward.k = std::move(k->bf16);
  inputs.forward.v = std::move(v->bf16);
  return inputs;
}

Expected<BackwardInputs> generated(const Options &options) {
  AttentionShape shape;
  shape.heads = options.heads.value_or(2);
  shape.kvHeads = options.kvHeads.value_or(1);
  shape.headDim = options.headDim.value_or(128);
  if (!options.cuSeqlens.empty()) {
    Expected<std::vector<int64_t>> offsets =
        readOffsets(options.cuSeqlens, std::nullopt);
    if (!offsets)
      return offsets.takeError();
    shape.cuSeqlens = std::move(*offsets);
  } else {
    shape.cuSeqlens = numerics::cuSeqlensOf(
        options.docs.value_or(std::vector<int64_t>{517, 1, 0, 300, 33, 200}));
  }
  if (Error error = checkMemory(options, shape))
    return std::move(error);
  BackwardInputs inputs;
  inputs.forward =
      reference::makeInputs(shape, dataKind(options), options.seed);
  return inputs;
}

} // namespace

Expected<BackwardInputs> run::makeInputs(const Options &options) {
  Expected<BackwardInputs> inputs =
      options.hasFiles() ? fromFiles(options) : generated(options);
  if (inputs && options.hasBackward())
    if (Error error = addGradients(options, *inputs))
      return std::move(error);
  return inputs;
}

Expected<std::vector<int64_t>>
run::readDocumentOffsets(const Options &options) {
  return readOffsets(options.cuSeqlens, std::nullopt);
}
