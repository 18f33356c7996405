//===- LaunchFile.cpp - launch.json, the form that names PTX --------------===//

#include "LaunchFile.h"

#include "flamia/Support/Json.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::simtool;
using flamia::sim::BufferAccess;

Error LaunchFile::fail(const Twine &message) const {
  return createStringError(path + ": " + message);
}

std::string LaunchFile::pathOf(StringRef file) const {
  if (sys::path::is_absolute(file))
    return file.str();
  SmallString<128> full(folder);
  sys::path::append(full, file);
  return full.str().str();
}

/// Refuses members that mean nothing here: a misspelt one would be ignored.
static std::string unknownMember(const json::Object &object,
                                 ArrayRef<StringRef> known) {
  for (const auto &member : object)
    if (!is_contained(known, StringRef(member.first)))
      return StringRef(member.first).str();
  return "";
}

static bool dims(const json::Object &root, StringRef key,
                 std::array<uint32_t, 3> &out, std::string &error) {
  const json::Value *value = root.get(key);
  if (!value)
    return true;
  const json::Array *list = value->getAsArray();
  if (!list || list->empty() || list->size() > 3) {
    error = ("expected 1 to 3 integers in '" + key + "'").str();
    return false;
  }
  for (size_t k = 0; k < list->size(); ++k) {
    std::optional<int64_t> n = (*list)[k].getAsInteger();
    if (!n || *n < 0 || *n > UINT32_MAX) {
      error = ("expected a positive integer in '" + key + "'").str();
      return false;
    }
    out[k] = uint32_t(*n);
  }
  return true;
}

template <typename T>
static bool integers(const json::Object &map, StringRef key,
                     std::vector<T> &out, bool optional, std::string &error) {
  const json::Value *value = map.get(key);
  if (!value && optional)
    return true;
  const json::Array *list = value ? value->getAsArray() : nullptr;
  if (!list) {
    error = ("expected an array '" + key + "'").str();
    return false;
  }
  for (const json::Value &v : *list) {
    std::optional<uint64_t> n = v.getAsUINT64();
    if (!n || *n > std::numeric_limits<T>::max()) {
      error = ("expected integers in range in '" + key + "'").str();
      return false;
    }
    out.push_back(T(*n));
  }
  return true;
}

void LaunchFile::mapBuffer(Buffer &b) {
  b.address =
      device.map(b.file, b.array.data.data(), b.array.data.size(), b.access);
}

Expected<Buffer *> LaunchFile::buffer(StringRef file, const json::Object &spec,
                                      const Twine &where) {
  StringRef output = spec.getString("output").value_or("");
  StringRef dtype = spec.getString("dtype").value_or("");
  StringRef access = spec.getString("access").value_or("");
  if (!dtype.empty() && dtype != "bf16")
    return fail(where + ": unknown dtype '" + dtype + "', expected bf16");
  if (!access.empty() && access != "read" && access != "write" &&
      access != "read_write")
    return fail(where + ": unknown access '" + access +
                "', expected read, write or read_write");
  Buffer *found = nullptr;
  for (Buffer &b : buffers)
    if (b.file == file)
      found = &b;
  if (!found) {
    Expected<sim::NpyArray> array = sim::readNpy(pathOf(file));
    if (!array)
      return array.takeError();
    buffers.emplace_back();
    found = &buffers.back();
    found->file = file.str();
    found->array = std::move(*array);
  }
  found->bf16 |= dtype == "bf16";
  if (found->bf16 && found->array.elementBytes != 2)
    return fail(where + ": dtype bf16 needs 2-byte elements, but '" + file +
                "' holds " + found->array.typeName());
  if (!output.empty()) {
    // One file cannot hold two buffers, and a buffer has one output.
    for (Buffer &b : buffers)
      if (&b != found && b.output == output)
        return fail(where + ": '" + b.file + "' and '" + file +
                    "' have the same output '" + output + "'");
    if (!found->output.empty() && found->output != output)
      return fail(where + ": '" + file + "' has two outputs, '" +
                  found->output + "' and '" + output + "'");
    found->output = output.str();
  }
  if (access == "write")
    found->access = BufferAccess::Write;
  else if (access == "read_write" || (access.empty() && !output.empty()))
    found->access = BufferAccess::ReadWrite;
  return found;
}

Error LaunchFile::parseTensorMap(const json::Object &map, const Twine &where) {
  std::string bad =
      unknownMember(map, {"buffer", "output", "dtype", "access", "type", "dims",
                          "strides", "box", "element_strides", "swizzle",
                          "interleave", "oob_fill", "offset"});
  if (!bad.empty())
    return fail(where + ": unknown member '" + bad + "'");
  std::optional<StringRef> file = map.getString("buffer");
  if (!file)
    return fail(where + ": expected a string 'buffer'");
  Expected<Buffer *> b = buffer(*file, map, where);
  if (!b)
    return b.takeError();
  if (!(*b)->address)
    mapBuffer(**b);
  sim::TensorMapSpec spec;
  spec.type = map.getString("type").value_or("u8").str();
  spec.swizzle = map.getString("swizzle").value_or("none").str();
  spec.interleave = map.getString("interleave").value_or("none").str();
  spec.oobFill = map.getString("oob_fill").value_or("zero").str();
  spec.address = (*b)->address + uint64_t(map.getInteger("offset").value_or(0));
  std::string error;
  if (!integers(map, "dims", spec.dims, false, error) ||
      !integers(map, "strides", spec.strides, false, error) ||
      !integers(map, "box", spec.box, false, error) ||
      !integers(map, "element_strides", spec.elementStrides, true, error))
    return fail(where + ": " + error);
  Expected<std::vector<uint8_t>> bytes = device.encodeTensorMap(spec);
  if (!bytes)
    return fail(where + ": " + toString(bytes.takeError()));
  launch.params.push_back(std::move(*bytes));
  return Error::success();
}

/// An integer of a JSON number or of a string ("0x..."), which also holds what
/// a double cannot.
static std::optional<uint64_t> integerBits(const json::Value &v) {
  if (std::optional<int64_t> i = v.getAsInteger())
    return uint64_t(*i);
  if (std::optional<uint64_t> u = v.getAsUINT64())
    return u;
  if (std::optional<StringRef> s = v.getAsString()) {
    uint64_t u;
    if (!s->getAsInteger(0, u))
      return u;
  }
  return std::nullopt;
}

Error LaunchFile::parseParam(const json::Object &param, size_t index) {
  std::string where = "params[" + std::to_string(index) + "]";
  if (const json::Value *map = param.get("tensormap")) {
    const json::Object *object = map->getAsObject();
    if (!object || param.size() != 1)
      return fail(where + ": expected an object 'tensormap' alone");
    return parseTensorMap(*object, where);
  }
  if (const json::Value *name = param.get("buffer")) {
    std::string bad =
        unknownMember(param, {"buffer", "output", "dtype", "access", "offset"});
    if (!bad.empty())
      return fail(where + ": unknown member '" + bad + "'");
    std::optional<StringRef> file = name->getAsString();
    if (!file)
      return fail(where + ": expected a string 'buffer'");
    Expected<Buffer *> b = buffer(*file, param, where);
    if (!b)
      return b.takeError();
    if (!(*b)->address)
      mapBuffer(**b);
    launch.params.push_back(sim::scalarParam<uint64_t>(
        (*b)->address + uint64_t(param.getInteger("offset").value_or(0))));
    return Error::success();
  }
  if (param.size() != 1)
    return fail(where + ": expected one of buffer, tensormap, i32, u32, i64, "
                        "u64, f32, f64");
  StringRef kind = param.begin()->first;
  const json::Value &value = param.begin()->second;
  if (kind == "f32" || kind == "f64") {
    std::optional<double> d = value.getAsNumber();
    if (!d)
      return fail(where + ": expected a number");
    launch.params.push_back(kind == "f32" ? sim::scalarParam(float(*d))
                                          : sim::scalarParam(*d));
    return Error::success();
  }
  std::optional<uint64_t> bits = integerBits(value);
  if (!bits)
    return fail(where + ": expected an integer");
  int64_t s = int64_t(*bits);
  if (kind == "i32" || kind == "u32") {
    if (s < INT32_MIN || s > int64_t(UINT32_MAX))
      return fail(where + ": " + Twine(s) + " does not fit 32 bits");
    launch.params.push_back(sim::scalarParam(uint32_t(*bits)));
  } else if (kind == "i64" || kind == "u64") {
    launch.params.push_back(sim::scalarParam(*bits));
  } else if (kind == "u16" || kind == "i16") {
    launch.params.push_back(sim::scalarParam(uint16_t(*bits)));
  } else if (kind == "u8" || kind == "i8") {
    launch.params.push_back(sim::scalarParam(uint8_t(*bits)));
  } else {
    return fail(where + ": unknown parameter kind '" + kind + "'");
  }
  return Error::success();
}

Error LaunchFile::loadPtxForm(const json::Object &root) {
  std::string bad =
      unknownMember(root, {"ptx", "entry", "grid", "block", "cluster",
                           "dynamic_smem", "params", "expect"});
  if (!bad.empty())
    return fail("unknown member '" + bad + "'");
  std::optional<StringRef> file = root.getString("ptx"),
                           entry = root.getString("entry");
  const json::Array *params = root.getArray("params");
  if (!file || !entry || !params)
    return fail("expected 'ptx', 'entry' and 'params', or 'record' and 'args'");
  launch.entry = entry->str();
  std::string error;
  if (!dims(root, "grid", launch.grid, error) ||
      !dims(root, "block", launch.block, error) ||
      !dims(root, "cluster", launch.cluster, error))
    return fail(error);
  int64_t dynamic = root.getInteger("dynamic_smem").value_or(0);
  if (dynamic < 0 || dynamic > (1 << 24))
    return fail("dynamic_smem " + Twine(dynamic) + " is out of range");
  launch.dynamicShared = uint32_t(dynamic);
  nothingToRun = !launch.grid[0] || !launch.grid[1] || !launch.grid[2];
  Expected<std::unique_ptr<sim::Module>> module =
      sim::Module::load(pathOf(*file));
  if (!module)
    return module.takeError();
  ptx = std::move(*module);
  // Accesses must be known before mapping, and a file may be named twice.
  for (size_t k = 0; k < params->size(); ++k) {
    const json::Object *param = (*params)[k].getAsObject();
    if (!param)
      return fail("params[" + Twine(k) + "]: expected an object");
    const json::Object *spec = param->getObject("tensormap");
    spec = spec ? spec : param;
    if (std::optional<StringRef> name = spec->getString("buffer")) {
      Expected<Buffer *> b = buffer(*name, *spec, "params[" + Twine(k) + "]");
      if (!b)
        return b.takeError();
    }
  }
  for (size_t k = 0; k < params->size(); ++k)
    if (Error e = parseParam(*(*params)[k].getAsObject(), k))
      return e;
  return Error::success();
}

Error LaunchFile::loadExpectations(const json::Object &root) {
  const json::Value *value = root.get("expect");
  if (!value)
    return Error::success();
  const json::Array *list = value->getAsArray();
  if (!list)
    return fail("expected an array 'expect'");
  for (size_t k = 0; k < list->size(); ++k) {
    std::string where = "expect[" + std::to_string(k) + "]";
    const json::Object *object = (*list)[k].getAsObject();
    if (!object)
      return fail(where + ": expected an object");
    std::string bad =
        unknownMember(*object, {"output", "expected", "relative_frobenius",
                                "max_abs", "bitwise"});
    if (!bad.empty())
      return fail(Twine(where) + ": unknown member '" + bad + "'");
    Expectation e;
    std::optional<StringRef> output = object->getString("output"),
                             expected = object->getString("expected");
    if (!output || !expected)
      return fail(where + ": expected strings 'output' and 'expected'");
    e.output = output->str();
    e.expected = expected->str();
    unsigned rules = 0;
    if (std::optional<double> d = object->getNumber("relative_frobenius")) {
      e.rule = Rule::RelativeFrobenius;
      e.limit = *d;
      ++rules;
    }
    if (std::optional<double> d = object->getNumber("max_abs")) {
      e.rule = Rule::MaxAbs;
      e.limit = *d;
      ++rules;
    }
    if (object->getBoolean("bitwise").value_or(false))
      ++rules;
    if (rules != 1)
      return fail(where + ": expected one of relative_frobenius, max_abs and "
                          "bitwise");
    if (!findOutput(e.output))
      return fail(where + ": no parameter has the output '" + e.output + "'");
    expectations.push_back(std::move(e));
  }
  return Error::success();
}

Error LaunchFile::load(StringRef file) {
  path = file.str();
  folder = sys::path::parent_path(file).str();
  auto text = MemoryBuffer::getFile(file);
  if (!text)
    return createStringError(text.getError(), "cannot read '" + file + "': " +
                                                  text.getError().message());
  Expected<json::Value> value = parseJson((*text)->getBuffer());
  if (!value)
    return fail(toString(value.takeError()));
  const json::Object *root = value->getAsObject();
  if (!root)
    return fail("expected a JSON object");
  if (Error e =
          root->get("record") ? loadRecordForm(*root) : loadPtxForm(*root))
    return e;
  return loadExpectations(*root);
}

const Buffer *LaunchFile::findOutput(StringRef name) const {
  for (const Buffer &b : buffers)
    if (!b.output.empty() && b.output == name)
      return &b;
  return nullptr;
}
