//===- LaunchRecord.cpp - Reads NAME.json ---------------------------------===//
//
// Parsing and validation of launch records (docs/launch-record.md). Every rule
// that a launch relies on is checked here, so that a damaged record is refused
// with the member's name and never reaches a device.
//
//===----------------------------------------------------------------------===//

#include "flamia/Runtime/LaunchRecord.h"

#include "flamia/Support/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::runtime;

namespace {

struct ElementInfo {
  Element element;
  const char *name;
  unsigned bits;
  char numpyKind;
};

constexpr ElementInfo elementInfos[] = {
    {Element::F32, "f32", 32, 'f'},
    {Element::BF16, "bf16", 16, 'u'},
    {Element::F16, "f16", 16, 'f'},
    {Element::F8E4M3FN, "f8E4M3FN", 8, 'u'},
    {Element::F8E8M0FNU, "f8E8M0FNU", 8, 'u'},
    {Element::F4E2M1FN, "f4E2M1FN", 4, 'u'},
    {Element::I8, "i8", 8, 'u'},
    {Element::I32, "i32", 32, 'i'},
    {Element::I64, "i64", 64, 'i'},
};

const ElementInfo &infoOf(Element element) {
  return elementInfos[unsigned(element)];
}

/// Reads members of one JSON object and remembers the first fault. Later reads
/// return default values, so the reader needs no check after each member.
class ObjectReader {
public:
  ObjectReader(const json::Object *object, std::string where,
               std::string &fault)
      : object(object), where(std::move(where)), fault(fault) {}

  const json::Value *get(StringRef key, bool required = true) {
    const json::Value *value = object ? object->get(key) : nullptr;
    if (!value && required)
      fail("missing member '" + key + "'" + at());
    return value;
  }
  std::string string(StringRef key, bool required = true) {
    const json::Value *value = get(key, required);
    if (!value)
      return "";
    std::optional<StringRef> text = value->getAsString();
    if (!text || text->empty())
      fail("expected '" + key + "'" + at() +
           " to be a string that is not empty");
    return text ? text->str() : "";
  }
  int64_t integer(StringRef key, int64_t low, int64_t high,
                  std::optional<int64_t> missing = std::nullopt) {
    const json::Value *value = get(key, !missing);
    return value ? integerOf(*value, "'" + key + "'" + at(), low, high)
                 : missing.value_or(low);
  }
  int64_t integerOf(const json::Value &value, const Twine &what, int64_t low,
                    int64_t high) {
    std::optional<int64_t> number = value.getAsInteger();
    if (number && *number >= low && *number <= high)
      return *number;
    fail("expected " + what + " to be an integer from " + Twine(low) + " to " +
         Twine(high) +
         (number ? ", found " + Twine(*number) : Twine(", found no integer")));
    return low;
  }
  const json::Array *array(StringRef key, bool required = true) {
    const json::Value *value = get(key, required);
    if (!value)
      return nullptr;
    const json::Array *list = value->getAsArray();
    if (!list)
      fail("expected '" + key + "'" + at() + " to be an array");
    return list;
  }
  std::array<uint32_t, 3> triple(StringRef key) {
    std::array<uint32_t, 3> result = {1, 1, 1};
    const json::Array *list = array(key);
    if (list && list->size() != 3)
      fail("expected '" + key + "' to hold 3 integers, found " +
           Twine(list->size()));
    else if (list)
      for (unsigned i = 0; i < 3; ++i)
        result[i] = uint32_t(
            integerOf((*list)[i], "'" + key + "'[" + Twine(i) + "]", 1, 65535));
    return result;
  }
  void fail(const Twine &message) {
    if (fault.empty())
      fault = message.str();
  }
  std::string at() const { return where.empty() ? "" : " of " + where; }

private:
  const json::Object *object;
  std::string where;
  std::string &fault;
};

/// Builds a LaunchRecord from parsed JSON.
class RecordReader {
public:
  explicit RecordReader(LaunchRecord &record) : record(record) {}

  std::string read(const json::Object &object) {
    ObjectReader top(&object, "", fault);
    int64_t version =
        top.integer("flamia_launch_record", 0, INT64_MAX, int64_t(0));
    if (version != launchRecordVersion) {
      if (!object.get("flamia_launch_record"))
        return "not a launch record: missing member 'flamia_launch_record'";
      return ("launch record version " + Twine(version) +
              " is not supported, expected " + Twine(launchRecordVersion))
          .str();
    }
    record.kernel = top.string("kernel");
    record.entry = top.string("entry");
    record.arch = top.string("arch");
    record.numerics = top.integer("numerics", 0, INT64_MAX);
    record.optLevel = top.integer("opt_level", 0, 3, int64_t(0));
    record.ptx = top.string("ptx");
    record.cubin = top.string("cubin", /*required=*/false);
    readExp2(top);
    record.block = top.triple("block");
    record.cluster = top.triple("cluster");
    // 227 KB is what one CTA can have on sm_90 and sm_100.
    record.dynamicShared =
        uint32_t(top.integer("dynamic_smem", 0, 232448, int64_t(0)));
    record.tmemColumns =
        uint32_t(top.integer("tmem_columns", 0, 512, int64_t(0)));
    uint64_t threads =
        uint64_t(record.block[0]) * record.block[1] * record.block[2];
    if (threads > 1024)
      top.fail("'block' has " + Twine(threads) + " threads, the limit is 1024");
    readParameters(top);
    readArguments(top);
    readGrid(top);
    if (const json::Value *groups = top.get("groups_y", /*required=*/false)) {
      std::optional<bool> value = groups->getAsBoolean();
      if (!value)
        top.fail("expected 'groups_y' to be true or false");
      record.groupsY = value.value_or(false);
    }
    readParams(top);
    readConditions(top);
    return fault;
  }

private:
  void readExp2(ObjectReader &top) {
    const json::Array *list = top.array("exp2_emulation", /*required=*/false);
    if (!list)
      return;
    if (list->size() != 2)
      return top.fail("expected 'exp2_emulation' to hold 2 integers, found " +
                      Twine(list->size()));
    numerics::Exp2Share share;
    share.blocks = top.integerOf((*list)[0], "'exp2_emulation'[0]", 0, 32);
    share.of = top.integerOf((*list)[1], "'exp2_emulation'[1]", 1, 32);
    if (!share.isValid())
      top.fail("expected 'exp2_emulation' to be [N, M] with M a power of two "
               "and N at most M, found [" +
               Twine(share.blocks) + ", " + Twine(share.of) + "]");
    record.exp2 = share;
  }

  void readParameters(ObjectReader &top) {
    const json::Value *value = top.get("parameters", /*required=*/false);
    if (!value)
      return;
    const json::Object *object = value->getAsObject();
    if (!object)
      return top.fail("expected 'parameters' to be an object");
    for (const auto &entry : *object) {
      std::optional<StringRef> text = entry.second.getAsString();
      std::string printed;
      raw_string_ostream(printed) << entry.second;
      record.parameters[entry.first.str()] = text ? text->str() : printed;
    }
  }

  void readArguments(ObjectReader &top) {
    const json::Array *list = top.array("args");
    for (size_t i = 0; list && i < list->size(); ++i) {
      RecordArgument argument;
      ObjectReader reader((*list)[i].getAsObject(),
                          ("args[" + Twine(i) + "]").str(), fault);
      argument.name = reader.string("name");
      if (record.findArgument(argument.name) >= 0)
        reader.fail("argument '" + argument.name + "' is listed twice");
      std::string kind = reader.string("kind");
      if (kind != "tensor" && kind != "scalar")
        reader.fail("expected 'kind'" + reader.at() +
                    " to be 'tensor' or 'scalar', found '" + kind + "'");
      argument.isTensor = kind == "tensor";
      std::string element = reader.string("element");
      if (std::optional<Element> parsed = parseElement(element))
        argument.element = *parsed;
      else
        reader.fail("unknown element type '" + element + "'" + reader.at());
      if (argument.isTensor)
        readTensor(reader, argument);
      record.arguments.push_back(std::move(argument));
    }
  }

  void readTensor(ObjectReader &reader, RecordArgument &argument) {
    const json::Array *dims = reader.array("dims");
    for (size_t d = 0; dims && d < dims->size(); ++d) {
      if ((*dims)[d].getAsNull())
        argument.dims.push_back(std::nullopt);
      else
        argument.dims.push_back(uint64_t(reader.integerOf(
            (*dims)[d], "'dims'[" + Twine(d) + "]" + reader.at(), 1,
            INT64_MAX)));
    }
    const json::Array *strides = reader.array("strides", /*required=*/false);
    for (size_t d = 0; strides && d < strides->size(); ++d) {
      if ((*strides)[d].getAsNull())
        argument.strides.push_back(std::nullopt);
      else
        argument.strides.push_back(uint64_t(reader.integerOf(
            (*strides)[d], "'strides'[" + Twine(d) + "]" + reader.at(), 0,
            INT64_MAX)));
    }
    if (strides && (argument.strides.size() != argument.dims.size() ||
                    argument.strides.empty() || argument.strides.back() != 1))
      reader.fail("expected 'strides'" + reader.at() + " to hold " +
                  Twine(argument.dims.size()) + " strides, the last 1");
    const json::Array *names = reader.array("dim_names", /*required=*/false);
    for (size_t d = 0; names && d < names->size(); ++d)
      argument.dimNames.push_back((*names)[d].getAsString().value_or("").str());
    if (names && argument.dimNames.size() != argument.dims.size())
      reader.fail("expected 'dim_names'" + reader.at() + " to hold " +
                  Twine(argument.dims.size()) + " names, found " +
                  Twine(argument.dimNames.size()));
    if (argument.element == Element::F4E2M1FN &&
        (argument.dims.empty() || argument.dims.back().value_or(0) % 2))
      reader.fail("expected an even last extent of f4E2M1FN" + reader.at());
    std::string access = reader.string("access");
    if (access == "read")
      argument.access = Access::Read;
    else if (access == "write")
      argument.access = Access::Write;
    else if (access == "read_write")
      argument.access = Access::ReadWrite;
    else
      reader.fail("expected 'access'" + reader.at() +
                  " to be 'read', 'write' or 'read_write', found '" + access +
                  "'");
    readWorkspace(reader, argument);
  }

  /// The stated size must be that of the dimensions.
  void readWorkspace(ObjectReader &reader, RecordArgument &argument) {
    const json::Value *value = reader.get("workspace", /*required=*/false);
    if (!value)
      return;
    argument.inWorkspace = true;
    ObjectReader inner(value->getAsObject(),
                       "the workspace of '" + argument.name + "'", fault);
    uint64_t stated = uint64_t(inner.integer("bytes", 1, INT64_MAX));
    const json::Array *per = inner.array("per");
    std::vector<std::string> statedNames;
    for (size_t i = 0; per && i < per->size(); ++i)
      statedNames.push_back((*per)[i].getAsString().value_or("").str());
    std::vector<uint64_t> known;
    std::vector<std::string> names;
    for (size_t d = 0; d < argument.dims.size(); ++d) {
      if (argument.dims[d])
        known.push_back(*argument.dims[d]);
      else
        names.push_back(d < argument.dimNames.size() ? argument.dimNames[d]
                                                     : "");
    }
    if (bytesOf(argument.element, known) != stated || names != statedNames)
      inner.fail("argument '" + argument.name +
                 "' has another size in 'workspace' than in 'dims'");
  }

  void readGrid(ObjectReader &top) {
    const json::Array *list = top.array("grid");
    if (list && list->size() != 3)
      return top.fail("expected 'grid' to hold 3 extents, found " +
                      Twine(list->size()));
    for (unsigned i = 0; list && i < 3; ++i) {
      GridExtent &extent = record.grid[i];
      std::string where = ("grid[" + Twine(i) + "]").str();
      const json::Object *object = (*list)[i].getAsObject();
      if (i == 2 && (*list)[i].getAsString() == "any") {
        extent.isAny = true;
        continue;
      }
      if (!object) {
        extent.value = uint64_t(
            top.integerOf((*list)[i], "'" + where + "'", 0, INT32_MAX));
        continue;
      }
      ObjectReader reader(object, where, fault);
      extent.fromArgument = true;
      extent.argument = tensorIndex(reader, reader.string("arg"));
      extent.dim = dimIndex(reader, extent.argument,
                            reader.integer("dim", 0, INT32_MAX));
      extent.tile = uint64_t(reader.integer("tile", 1, INT64_MAX, int64_t(1)));
    }
  }

  void readParams(ObjectReader &top) {
    const json::Array *list = top.array("params");
    for (size_t i = 0; list && i < list->size(); ++i) {
      RecordParameter param;
      const json::Object *object = (*list)[i].getAsObject();
      ObjectReader reader(object, ("params[" + Twine(i) + "]").str(), fault);
      if (!object) {
        reader.fail("expected params[" + Twine(i) + "] to be an object");
        return;
      }
      if (object->get("pointer")) {
        param.argument = tensorIndex(reader, reader.string("pointer"));
      } else if (object->get("dim")) {
        readDim(reader, param, "dim", RecordParameter::Kind::Dim);
      } else if (object->get("stride")) {
        readDim(reader, param, "stride", RecordParameter::Kind::Stride);
        if (record.arguments.empty() ||
            record.arguments[param.argument].strides.empty())
          reader.fail("'stride'" + reader.at() +
                      " names an argument without strides");
      } else if (object->get("tensormap")) {
        readTensorMap(reader, param);
      } else if (object->get("scalar")) {
        param.kind = RecordParameter::Kind::Scalar;
        std::string name = reader.string("scalar");
        int index = record.findArgument(name);
        if (index < 0 || record.arguments[index].isTensor)
          reader.fail("'" + name + "'" + reader.at() +
                      " is not a scalar argument");
        param.argument = unsigned(std::max(index, 0));
      } else {
        reader.fail("expected params[" + Twine(i) +
                    "] to have a member 'pointer', 'dim', 'stride', "
                    "'tensormap' or 'scalar'");
      }
      record.params.push_back(std::move(param));
    }
  }

  void readDim(ObjectReader &reader, RecordParameter &param, const char *member,
               RecordParameter::Kind kind) {
    param.kind = kind;
    readExtent(reader, member, param.argument, param.dim);
  }

  /// A member [argument, dimension].
  void readExtent(ObjectReader &reader, StringRef key, unsigned &argument,
                  unsigned &dim) {
    const json::Array *pair = reader.array(key);
    if (!pair)
      return;
    std::string member = ("'" + key + "'").str();
    if (pair->size() != 2)
      return reader.fail("expected " + member + reader.at() +
                         " to hold an argument and a dimension");
    argument = tensorIndex(reader, (*pair)[0].getAsString().value_or(""));
    dim = dimIndex(reader, argument,
                   reader.integerOf((*pair)[1], member + "[1]" + reader.at(), 0,
                                    INT32_MAX));
  }

  void readConditions(ObjectReader &top) {
    const json::Array *list = top.array("requires", /*required=*/false);
    for (size_t i = 0; list && i < list->size(); ++i) {
      RecordCondition condition;
      ObjectReader reader((*list)[i].getAsObject(),
                          ("requires[" + Twine(i) + "]").str(), fault);
      readExtent(reader, "dim", condition.argument, condition.dim);
      condition.times = uint64_t(reader.integer("times", 1, INT32_MAX));
      readExtent(reader, "multiple_of", condition.ofArgument, condition.ofDim);
      record.conditions.push_back(condition);
    }
  }

  void readTensorMap(ObjectReader &reader, RecordParameter &param) {
    param.kind = RecordParameter::Kind::TensorMap;
    param.argument = tensorIndex(reader, reader.string("tensormap"));
    param.boxRows = uint32_t(reader.integer("box_rows", 1, 256));
    param.spanBytes = uint32_t(reader.integer("span_bytes", 16, 1024));
    param.swizzle = reader.string("swizzle");
    unsigned span = StringSwitch<unsigned>(param.swizzle)
                        .Case("none", 1024)
                        .Case("32B", 32)
                        .Case("64B", 64)
                        .Case("128B", 128)
                        .Default(0);
    if (!span)
      reader.fail("unknown swizzle '" + param.swizzle + "'" + reader.at());
    else if (param.spanBytes > span)
      reader.fail("'span_bytes'" + reader.at() + " is " +
                  Twine(param.spanBytes) + ", swizzle " + param.swizzle +
                  " allows at most " + Twine(span));
  }

  unsigned tensorIndex(ObjectReader &reader, StringRef name) {
    int index = record.findArgument(name);
    if (index >= 0 && record.arguments[index].isTensor)
      return unsigned(index);
    reader.fail("'" + name + "'" + reader.at() + " is not a tensor argument");
    return 0;
  }

  unsigned dimIndex(ObjectReader &reader, unsigned argument, int64_t dim) {
    if (argument < record.arguments.size() &&
        dim < int64_t(record.arguments[argument].dims.size()))
      return unsigned(dim);
    reader.fail("dimension " + Twine(dim) + reader.at() +
                " does not exist in its tensor");
    return 0;
  }

  LaunchRecord &record;
  std::string fault;
};

} // namespace

StringRef runtime::nameOf(Element element) { return infoOf(element).name; }

unsigned runtime::bitsOf(Element element) { return infoOf(element).bits; }

uint64_t runtime::bytesOf(Element element, ArrayRef<uint64_t> extents) {
  // The last extent first: a row is whole bytes.
  uint64_t bytes = bitsOf(element);
  for (size_t d = extents.size(); d-- > 0;) {
    bytes = SaturatingMultiply(bytes, extents[d]);
    if (d + 1 == extents.size())
      bytes = divideCeil(bytes, 8);
  }
  return extents.empty() ? divideCeil(bytes, 8) : bytes;
}

std::pair<char, unsigned> runtime::numpyTypeOf(Element element) {
  return {infoOf(element).numpyKind, std::max(1u, infoOf(element).bits / 8)};
}

std::vector<uint64_t> runtime::numpyShapeOf(Element element,
                                            ArrayRef<uint64_t> extents) {
  std::vector<uint64_t> shape = extents.vec();
  if (element == Element::F4E2M1FN && !shape.empty())
    shape.back() /= 2;
  return shape;
}

std::vector<uint64_t> runtime::extentsOfNumpy(Element element,
                                              ArrayRef<uint64_t> shape) {
  std::vector<uint64_t> extents = shape.vec();
  if (element == Element::F4E2M1FN && !extents.empty())
    extents.back() *= 2;
  return extents;
}

std::optional<Element> runtime::parseElement(StringRef name) {
  for (const ElementInfo &info : elementInfos)
    if (name == info.name)
      return info.element;
  return std::nullopt;
}

Expected<LaunchRecord> LaunchRecord::parse(StringRef text, StringRef name) {
  Expected<json::Value> value = parseJson(text);
  if (!value)
    return createStringError(name + ": " + toString(value.takeError()));
  LaunchRecord record;
  record.path = name.str();
  const json::Object *object = value->getAsObject();
  std::string fault = object ? RecordReader(record).read(*object)
                             : "not a launch record: expected a JSON object";
  if (!fault.empty())
    return createStringError(name + ": " + fault);
  return record;
}

Expected<LaunchRecord> LaunchRecord::load(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError("cannot read launch record '" + path +
                             "': " + buffer.getError().message());
  return parse((*buffer)->getBuffer(), path);
}

static std::string besideRecord(StringRef record, StringRef file) {
  if (file.empty() || sys::path::is_absolute(file))
    return file.str();
  SmallString<128> path = sys::path::parent_path(record);
  sys::path::append(path, file);
  return path.str().str();
}

std::string LaunchRecord::ptxPath() const { return besideRecord(path, ptx); }

std::string LaunchRecord::cubinPath() const {
  return besideRecord(path, cubin);
}

int LaunchRecord::findArgument(StringRef name) const {
  auto it = find_if(arguments,
                    [&](const RecordArgument &a) { return a.name == name; });
  return it == arguments.end() ? -1 : int(it - arguments.begin());
}
