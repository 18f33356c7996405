//===- SaveLaunch.cpp - launch.json folders -------------------------------===//
//
// Keeps launches in the record form of launch.json (docs/launch-record.md).
//
//===----------------------------------------------------------------------===//

#include "Execute.h"

#include "flamia/Sim/Npy.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using namespace flamia::runtime;

namespace {

std::string inFolder(StringRef folder, const Twine &name) {
  SmallString<128> path(folder);
  sys::path::append(path, name);
  return path.str().str();
}

Access accessOf(const LaunchPlan::Step &step, const Argument &argument) {
  const LaunchRecord &record = step.kernel->record();
  return record.arguments[record.findArgument(argument.name)].access;
}

} // namespace

Error LaunchSaver::saveTensor(const Argument &argument, StringRef path) {
  uint64_t bytes = bytesOf(argument.element, argument.extents);
  std::vector<uint8_t> data(bytes);
  if (Error error = device.download(data.data(), argument.address, bytes))
    return error;
  auto [kind, elementBytes] = numpyTypeOf(argument.element);
  set.files.push_back(
      {path.str(),
       sim::encodeNpy(kind, elementBytes,
                      numpyShapeOf(argument.element, argument.extents), data)});
  return Error::success();
}

Error LaunchSaver::saveFile(StringRef from, StringRef target) {
  auto buffer = MemoryBuffer::getFile(from);
  if (!buffer)
    return createStringError("cannot read '" + from +
                             "': " + buffer.getError().message());
  set.files.push_back({inFolder(target, sys::path::filename(from)),
                       (*buffer)->getBuffer().str()});
  return Error::success();
}

Error LaunchSaver::before(const LaunchPlan::Step &step) {
  std::string target = inFolder(folder, step.name);
  set.folders.push_back(target);
  const LaunchRecord &record = step.kernel->record();
  if (Error error = saveFile(record.path, target))
    return error;
  if (Error error = saveFile(record.ptxPath(), target))
    return error;
  for (const Argument &argument : step.arguments)
    if (argument.isTensor)
      if (Error error =
              saveTensor(argument, inFolder(target, argument.name + ".npy")))
        return error;
  return Error::success();
}

Error LaunchSaver::after(const LaunchPlan::Step &step) {
  std::string target = inFolder(folder, step.name);
  json::Object arguments;
  json::Array expect;
  for (const Argument &argument : step.arguments) {
    if (!argument.isTensor) {
      arguments[argument.name] = argument.scalar;
      continue;
    }
    json::Object value{{"buffer", argument.name + ".npy"}};
    if (accessOf(step, argument) != Access::Read) {
      std::string output = argument.name + "_out.npy";
      std::string expected = argument.name + "_expected.npy";
      if (Error error = saveTensor(argument, inFolder(target, expected)))
        return error;
      value["output"] = output;
      expect.push_back(json::Object{
          {"output", output}, {"expected", expected}, {"bitwise", true}});
    }
    arguments[argument.name] = std::move(value);
  }
  json::Object launch{
      {"record", sys::path::filename(step.kernel->record().path)},
      {"args", std::move(arguments)},
      {"expect", std::move(expect)}};
  set.files.push_back(
      {inFolder(target, "launch.json"),
       formatv("{0:2}\n", json::Value(std::move(launch))).str()});
  return Error::success();
}
