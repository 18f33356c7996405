//===- BindArguments.cpp - Arguments by name to PTX parameters ------------===//
//
// Checks the arguments of a launch against the record and computes the grid and
// the parameters. All arithmetic on sizes is 64-bit and checked.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/LaunchRecord.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

namespace {

/// What global vector accesses, bulk copies and tensor maps need.
constexpr uint64_t addressAlignment = 16;
/// Of strides, in bytes: the same accesses, and what a ragged tensor map can
/// hold.
constexpr uint64_t strideAlignment = 16;
constexpr uint64_t strideLimit = (uint64_t(1) << 34) - 16;
/// CUDA's limits of a grid.
constexpr uint64_t gridLimits[3] = {INT32_MAX, 65535, 65535};

template <typename T>
std::vector<uint8_t> bytesOfValue(T value) {
  std::vector<uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string shapeText(const RecordArgument &argument) {
  std::string text = "[";
  for (size_t d = 0; d < argument.dims.size(); ++d) {
    text += d ? ", " : "";
    text += argument.dims[d] ? utostr(*argument.dims[d]) : "?";
  }
  return text + "]";
}

/// Checks strides and counts the bytes from the first element to the last.
Error checkStrides(const RecordArgument &declared, const Argument &given,
                   const std::string &name, uint64_t &bytes) {
  size_t rank = given.extents.size();
  if (given.strides.size() != rank)
    return createStringError(name + " has " + Twine(given.strides.size()) +
                             " strides, expected " + Twine(rank));
  if (declared.strides.empty()) {
    uint64_t expected = 1;
    for (size_t d = rank; d-- > 0; expected *= given.extents[d])
      if (given.extents[d] != 1 && given.strides[d] != expected)
        return createStringError(name + " has stride " +
                                 Twine(given.strides[d]) + " in dimension " +
                                 Twine(d) + ", expected " + Twine(expected) +
                                 ": the kernel takes it contiguous");
    return Error::success();
  }
  uint64_t bits = bitsOf(given.element), inner = 0;
  bool isEmpty = false;
  for (size_t d = rank; d-- > 0;) {
    uint64_t stride = given.strides[d], extent = given.extents[d];
    auto fault = [&](const Twine &text) {
      return createStringError(name + " has stride " + Twine(stride) +
                               " in dimension " + Twine(d) + text);
    };
    isEmpty |= extent == 0;
    if (declared.strides[d] && *declared.strides[d] != stride)
      return fault(", expected " + Twine(*declared.strides[d]));
    if (d + 1 < rank) {
      uint64_t limit = strideLimit / bits * 8;
      if (stride > limit)
        return fault(", the limit is " + Twine(limit) +
                     " elements (2^34 - 16 bytes)");
      if (stride * bits % (8 * strideAlignment))
        return fault(", which is " + Twine(divideCeil(stride * bits, 8)) +
                     " bytes and not a multiple of " + Twine(strideAlignment));
      if (extent > 1 && declared.access != Access::Read && stride < inner)
        return fault(", expected at least " + Twine(inner) +
                     " because the kernel writes it");
    }
    bool overflow = false;
    inner += isEmpty ? 0
                     : SaturatingMultiply(extent - 1, stride, &overflow) +
                           (d + 1 == rank ? 1 : 0);
    if (overflow || inner > (uint64_t(1) << 62) / bits)
      return createStringError(name + " is larger than 2^62 bytes");
  }
  bytes = isEmpty ? 0 : divideCeil(inner * bits, 8);
  return Error::success();
}

/// As the caller knows it.
const std::string &labelOf(const Argument &given) {
  return given.callersName.empty() ? given.name : given.callersName;
}

/// Checks one tensor against its declaration.
Error checkTensor(const RecordArgument &declared, const Argument &given) {
  std::string name = "argument '" + labelOf(given) + "'";
  if (given.element != declared.element)
    return createStringError(name + " holds " + nameOf(given.element) +
                             ", expected " + nameOf(declared.element));
  if (given.extents.size() != declared.dims.size())
    return createStringError(name + " has rank " + Twine(given.extents.size()) +
                             ", expected " + Twine(declared.dims.size()) +
                             " for " + shapeText(declared));
  for (size_t d = 0; d < declared.dims.size(); ++d)
    if (uint64_t extent = given.extents[d];
        declared.dims[d] && *declared.dims[d] != extent)
      return createStringError(name + " has extent " + Twine(extent) +
                               " in dimension " + Twine(d) + ", expected " +
                               Twine(*declared.dims[d]));
  if (given.element == Element::F4E2M1FN && given.extents.back() % 2)
    return createStringError(name + " has rows of " +
                             Twine(given.extents.back()) +
                             " f4E2M1FN, expected an even number");
  uint64_t bytes = bytesOf(given.element, given.extents);
  if (bytes > uint64_t(1) << 62)
    return createStringError(name + " is larger than 2^62 bytes");
  if (!given.strides.empty())
    if (Error error = checkStrides(declared, given, name, bytes))
      return error;
  if (bytes > given.bytes)
    return createStringError(name + " needs " + Twine(bytes) +
                             " bytes, its buffer has " + Twine(given.bytes));
  if (bytes && !given.address)
    return createStringError(name + " is a null pointer");
  if (given.address % addressAlignment)
    return createStringError(
        name + formatv(" is at address {0:x}, which is not a multiple of {1}",
                       given.address, addressAlignment)
                   .str());
  return Error::success();
}

/// Equal dimension names stand for equal extents.
Error checkNamedDims(const LaunchRecord &record,
                     ArrayRef<const Argument *> bound) {
  for (size_t a = 0; a < bound.size(); ++a) {
    const RecordArgument &first = record.arguments[a];
    for (size_t b = 0; b < a; ++b) {
      const RecordArgument &second = record.arguments[b];
      for (size_t i = 0; i < first.dimNames.size(); ++i)
        for (size_t j = 0; j < second.dimNames.size(); ++j)
          if (!first.dimNames[i].empty() &&
              first.dimNames[i] == second.dimNames[j] &&
              bound[a]->extents[i] != bound[b]->extents[j])
            return createStringError("argument '" + labelOf(*bound[a]) +
                                     "' has " + Twine(bound[a]->extents[i]) +
                                     " " + first.dimNames[i] +
                                     ", but argument '" + labelOf(*bound[b]) +
                                     "' has " + Twine(bound[b]->extents[j]));
    }
  }
  return Error::success();
}

Expected<std::vector<uint8_t>> scalarBytes(const RecordArgument &declared,
                                           double value) {
  auto integer = [&](double low, double high) -> Error {
    if (std::nearbyint(value) == value && value >= low && value <= high)
      return Error::success();
    return createStringError(
        "argument '" + declared.name + "' is " + formatv("{0}", value).str() +
        ", expected an integer that fits " + nameOf(declared.element));
  };
  switch (declared.element) {
  case Element::F32:
    return bytesOfValue(float(value));
  case Element::I32:
    if (Error error = integer(INT32_MIN, INT32_MAX))
      return std::move(error);
    return bytesOfValue(int32_t(value));
  case Element::I64:
    if (Error error = integer(-9007199254740992.0, 9007199254740992.0))
      return std::move(error);
    return bytesOfValue(int64_t(value));
  default:
    return createStringError("scalar argument '" + declared.name +
                             "' has element type " + nameOf(declared.element) +
                             ", expected f32, i32 or i64");
  }
}

Expected<std::vector<const Argument *>>
matchArguments(const LaunchRecord &record, ArrayRef<Argument> arguments) {
  std::vector<const Argument *> bound(record.arguments.size(), nullptr);
  for (const Argument &argument : arguments) {
    int index = record.findArgument(argument.name);
    if (index < 0) {
      std::string names;
      for (const RecordArgument &known : record.arguments)
        names += (names.empty() ? "" : ", ") + known.name;
      return createStringError("kernel '" + record.kernel +
                               "' has no argument '" + argument.name +
                               "', its arguments are " + names);
    }
    if (bound[index])
      return createStringError("argument '" + argument.name +
                               "' is given twice");
    bound[index] = &argument;
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    const RecordArgument &declared = record.arguments[i];
    if (!bound[i])
      return createStringError("kernel '" + record.kernel +
                               "' needs argument '" + declared.name + "'");
    if (bound[i]->isTensor != declared.isTensor)
      return createStringError("argument '" + declared.name + "' is a " +
                               (bound[i]->isTensor ? "tensor" : "scalar") +
                               ", expected a " +
                               (declared.isTensor ? "tensor" : "scalar"));
    if (declared.isTensor)
      if (Error error = checkTensor(declared, *bound[i]))
        return std::move(error);
  }
  if (Error error = checkNamedDims(record, bound))
    return std::move(error);
  return bound;
}

uint64_t strideOf(const Argument &argument, size_t dim) {
  if (!argument.strides.empty())
    return argument.strides[dim];
  uint64_t stride = 1;
  for (size_t d = dim + 1; d < argument.extents.size(); ++d)
    stride *= argument.extents[d];
  return stride;
}

/// What the kernel was compiled to take for granted.
Error checkConditions(const LaunchRecord &record,
                      ArrayRef<const Argument *> bound) {
  for (const RecordCondition &condition : record.conditions) {
    const Argument &argument = *bound[condition.argument];
    const Argument &other = *bound[condition.ofArgument];
    uint64_t extent = argument.extents[condition.dim];
    uint64_t unit = condition.times * other.extents[condition.ofDim];
    if (unit ? extent % unit : extent)
      return createStringError(
          "kernel '" + record.kernel + "' needs dimension " +
          Twine(condition.dim) + " of '" + argument.name +
          "' to be a multiple of " + Twine(condition.times) +
          " times that of " + "dimension " + Twine(condition.ofDim) + " of '" +
          other.name + "', but they are " + Twine(extent) + " and " +
          Twine(other.extents[condition.ofDim]));
  }
  return Error::success();
}

Error computeGrid(const LaunchRecord &record, ArrayRef<const Argument *> bound,
                  const GridChoice &choice, BoundLaunch &launch) {
  uint64_t extents[3];
  for (unsigned i = 0; i < 3; ++i) {
    const GridExtent &rule = record.grid[i];
    extents[i] = rule.value;
    if (rule.fromArgument)
      extents[i] =
          divideCeil(bound[rule.argument]->extents[rule.dim], rule.tile);
  }
  if (choice.z != 1) {
    if (!record.grid[2].isAny || !choice.z)
      return createStringError("kernel '" + record.kernel +
                               "' cannot have grid dimension z of " +
                               Twine(choice.z));
    extents[2] = choice.z;
  }
  uint32_t yGroups = choice.yGroups;
  if (record.groupsY && !yGroups)
    yGroups = 1;
  if (yGroups) {
    if (!record.groupsY)
      return createStringError("kernel '" + record.kernel +
                               "' does not take its y axis in groups");
    if (extents[1] % yGroups)
      return createStringError("grid dimension y is " + Twine(extents[1]) +
                               ", which " + Twine(yGroups) +
                               " groups do not divide");
    extents[0] = SaturatingMultiply(extents[0], extents[1] / yGroups);
    extents[1] = extents[1] ? yGroups : 0;
  }
  for (unsigned i = 0; i < 3; ++i) {
    uint64_t extent = extents[i];
    if (extent > gridLimits[i])
      return createStringError("grid dimension " + Twine("xyz"[i]) + " is " +
                               Twine(extent) + ", the limit is " +
                               Twine(gridLimits[i]));
    if (extent % record.cluster[i])
      return createStringError(
          "grid dimension " + Twine("xyz"[i]) + " is " + Twine(extent) +
          ", not a multiple of the cluster's " + Twine(record.cluster[i]));
    launch.grid[i] = uint32_t(extent);
  }
  return Error::success();
}

} // namespace

Argument Argument::tensor(StringRef name, uint64_t address, Element element,
                          ArrayRef<uint64_t> extents, uint64_t bytes) {
  Argument argument;
  argument.name = name.str();
  argument.address = address;
  argument.element = element;
  argument.extents = extents.vec();
  argument.bytes = bytes;
  return argument;
}

Argument Argument::number(StringRef name, double value) {
  Argument argument;
  argument.name = name.str();
  argument.isTensor = false;
  argument.scalar = value;
  return argument;
}

Expected<TensorMapRecipe> runtime::raggedTensorMap(const Argument &tensor,
                                                   uint32_t boxRows,
                                                   uint32_t spanBytes,
                                                   StringRef swizzle) {
  size_t rank = tensor.extents.size();
  std::string name = "tensor map of '" + labelOf(tensor) + "': ";
  if (rank != 2 && rank != 3)
    return createStringError(name + "expected rank 2 or 3, found " +
                             Twine(rank));
  // Two elements of f4E2M1FN are a byte of the map.
  bool isPacked = tensor.element == Element::F4E2M1FN;
  uint64_t elementBytes = isPacked ? 1 : bitsOf(tensor.element) / 8;
  uint64_t columns = tensor.extents[rank - 1] / (isPacked ? 2 : 1);
  uint64_t columnBytes = columns * elementBytes;
  uint64_t headBytes = columnBytes;
  uint64_t rowBytes = rank == 3 ? tensor.extents[1] * columnBytes : columnBytes;
  if (!tensor.strides.empty()) {
    headBytes = tensor.strides[rank - 2] * elementBytes / (isPacked ? 2 : 1);
    rowBytes = tensor.strides[0] * elementBytes / (isPacked ? 2 : 1);
  }
  if (columnBytes && !rowBytes && !tensor.strides.empty())
    return createStringError(name + "expected rows that lie apart, but their "
                                    "stride is 0");
  if (!rowBytes || columnBytes % 16)
    return createStringError(name +
                             "expected rows of a multiple of 16 bytes, "
                             "found " +
                             Twine(columnBytes));
  // The last stride, 2^34 - rowBytes, must be positive.
  if (rowBytes >= uint64_t(1) << 34)
    return createStringError(name + "a token's row has " + Twine(rowBytes) +
                             " bytes, the limit is 2^34 - 16");
  TensorMapRecipe recipe;
  recipe.element = isPacked ? Element::I8 : tensor.element;
  recipe.address = tensor.address;
  recipe.swizzle = swizzle.str();
  recipe.dims = {columns};
  recipe.box = {uint32_t(spanBytes / elementBytes)};
  if (rank == 3) {
    recipe.dims.push_back(tensor.extents[1]);
    recipe.strides.push_back(headBytes);
    recipe.box.push_back(1);
  }
  for (uint64_t extent :
       {uint64_t(1) << 30, uint64_t(1) << 31, uint64_t(1) << 31})
    recipe.dims.push_back(extent);
  for (uint64_t stride : {rowBytes, rowBytes, (uint64_t(1) << 34) - rowBytes})
    recipe.strides.push_back(stride);
  for (uint32_t extent : {boxRows, 1u, 1u})
    recipe.box.push_back(extent);
  return recipe;
}

Expected<BoundLaunch> runtime::bindArguments(const LaunchRecord &record,
                                             ArrayRef<Argument> arguments,
                                             const GridChoice &choice) {
  Expected<std::vector<const Argument *>> bound =
      matchArguments(record, arguments);
  if (!bound)
    return bound.takeError();
  if (Error error = checkConditions(record, *bound))
    return std::move(error);
  BoundLaunch launch;
  if (Error error = computeGrid(record, *bound, choice, launch))
    return std::move(error);
  for (const RecordParameter &param : record.params) {
    const Argument &argument = *(*bound)[param.argument];
    BoundParameter value;
    switch (param.kind) {
    case RecordParameter::Kind::Pointer:
      value.bytes = bytesOfValue(argument.address);
      break;
    case RecordParameter::Kind::Dim:
      value.bytes = bytesOfValue(argument.extents[param.dim]);
      break;
    case RecordParameter::Kind::Stride:
      value.bytes = bytesOfValue(strideOf(argument, param.dim));
      break;
    case RecordParameter::Kind::TensorMap: {
      Expected<TensorMapRecipe> recipe = raggedTensorMap(
          argument, param.boxRows, param.spanBytes, param.swizzle);
      if (!recipe)
        return recipe.takeError();
      value.tensorMap = std::move(*recipe);
      break;
    }
    case RecordParameter::Kind::Scalar: {
      Expected<std::vector<uint8_t>> bytes =
          scalarBytes(record.arguments[param.argument], argument.scalar);
      if (!bytes)
        return bytes.takeError();
      value.bytes = std::move(*bytes);
      break;
    }
    }
    launch.params.push_back(std::move(value));
  }
  return launch;
}
