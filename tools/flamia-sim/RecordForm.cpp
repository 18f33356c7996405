//===- RecordForm.cpp - launch.json, the form that names a record ---------===//
//
// {"record": "NAME.json", "args": {...}}: grid, tensor maps and parameters
// follow from the launch record (docs/launch-record.md).
//
//===----------------------------------------------------------------------===//

#include "LaunchFile.h"

#include "flamia/Runtime/LaunchRecord.h"

#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::simtool;
using flamia::sim::BufferAccess;

static BufferAccess toSim(runtime::Access access) {
  switch (access) {
  case runtime::Access::Read:
    return BufferAccess::Read;
  case runtime::Access::Write:
    return BufferAccess::Write;
  case runtime::Access::ReadWrite:
    return BufferAccess::ReadWrite;
  }
  return BufferAccess::ReadWrite;
}

static StringRef tensorMapType(runtime::Element element) {
  switch (element) {
  case runtime::Element::F32:
    return "f32";
  case runtime::Element::BF16:
    return "bf16";
  case runtime::Element::F16:
    return "f16";
  case runtime::Element::F8E4M3FN:
  case runtime::Element::F8E8M0FNU:
  case runtime::Element::F4E2M1FN:
  case runtime::Element::I8:
    return "u8";
  case runtime::Element::I32:
    return "s32";
  case runtime::Element::I64:
    return "s64";
  }
  return "u8";
}

Error LaunchFile::loadRecordForm(const json::Object &root) {
  for (const auto &member : root) {
    StringRef key = member.first;
    if (key != "record" && key != "args" && key != "expect")
      return fail("unknown member '" + key + "'");
  }
  std::optional<StringRef> file = root.getString("record");
  const json::Object *args = root.getObject("args");
  if (!file || !args)
    return fail("expected a string 'record' and an object 'args'");
  Expected<runtime::LaunchRecord> record =
      runtime::LaunchRecord::load(pathOf(*file));
  if (!record)
    return record.takeError();
  Expected<std::unique_ptr<sim::Module>> module =
      sim::Module::load(record->ptxPath());
  if (!module)
    return module.takeError();
  ptx = std::move(*module);

  std::vector<runtime::Argument> arguments;
  for (const auto &member : *args) {
    StringRef name = member.first;
    int index = record->findArgument(name);
    if (index < 0)
      return fail("kernel '" + record->kernel + "' has no argument '" + name +
                  "'");
    const runtime::RecordArgument &argument = record->arguments[index];
    if (!argument.isTensor) {
      std::optional<double> number = member.second.getAsNumber();
      if (!number)
        return fail("argument '" + name + "': expected a number");
      arguments.push_back(runtime::Argument::number(name, *number));
      continue;
    }
    const json::Object *spec = member.second.getAsObject();
    std::optional<StringRef> source =
        spec ? spec->getString("buffer") : std::nullopt;
    if (!source)
      return fail("argument '" + name + "': expected {\"buffer\": FILE}");
    for (const auto &m : *spec)
      if (StringRef(m.first) != "buffer" && StringRef(m.first) != "output")
        return fail("argument '" + name + "': unknown member '" +
                    StringRef(m.first) + "'");
    Expected<Buffer *> b = buffer(*source, *spec, "argument '" + name + "'");
    if (!b)
      return b.takeError();
    auto [kind, bytes] = runtime::numpyTypeOf(argument.element);
    const sim::NpyArray &array = (*b)->array;
    if (array.kind != kind || array.elementBytes != bytes)
      return fail("argument '" + name + "': element " +
                  runtime::nameOf(argument.element) + " needs " +
                  (kind == 'f'   ? "float"
                   : kind == 'i' ? "int"
                                 : "uint") +
                  Twine(8 * bytes) + ", but '" + *source + "' holds " +
                  array.typeName());
    (*b)->bf16 = argument.element == runtime::Element::BF16;
    (*b)->access = toSim(argument.access);
    if (!(*b)->address)
      mapBuffer(**b);
    arguments.push_back(runtime::Argument::tensor(
        name, (*b)->address, argument.element,
        runtime::extentsOfNumpy(argument.element, array.shape),
        array.data.size()));
  }
  Expected<runtime::BoundLaunch> bound =
      runtime::bindArguments(*record, arguments);
  if (!bound)
    return fail(toString(bound.takeError()));
  launch.entry = record->entry;
  launch.grid = bound->grid;
  launch.block = record->block;
  launch.cluster = record->cluster;
  launch.dynamicShared = record->dynamicShared;
  nothingToRun = bound->empty();
  for (runtime::BoundParameter &param : bound->params) {
    if (param.tensorMap && !nothingToRun) {
      const runtime::TensorMapRecipe &recipe = *param.tensorMap;
      sim::TensorMapSpec spec;
      spec.type = tensorMapType(recipe.element).str();
      spec.address = recipe.address;
      spec.dims = recipe.dims;
      spec.strides = recipe.strides;
      spec.box = recipe.box;
      spec.swizzle = recipe.swizzle;
      Expected<std::vector<uint8_t>> bytes = device.encodeTensorMap(spec);
      if (!bytes)
        return fail(toString(bytes.takeError()));
      param.bytes = std::move(*bytes);
    }
    launch.params.push_back(std::move(param.bytes));
  }
  return Error::success();
}
