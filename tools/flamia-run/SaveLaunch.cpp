//===- SaveLaunch.cpp - launch.json folders -------------------------------===//
//
// Writes launches in the record form of launch.json (docs/launch-record.md).
//
//===----------------------------------------------------------------------===//

#include "Execute.h"

#include "flamia/Sim/Npy.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

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

/// Copies a device tensor into a .npy file.
Error saveTensor(Device &device, const Argument &argument, StringRef path) {
  uint64_t bytes = bytesOf(argument.element);
  for (uint64_t extent : argument.extents)
    bytes *= extent;
  std::vector<uint8_t> data(bytes);
  if (Error error = device.download(data.data(), argument.address, bytes))
    return error;
  auto [kind, elementBytes] = numpyTypeOf(argument.element);
  return sim::writeNpy(path, kind, elementBytes, argument.extents, data);
}

Access accessOf(const ForwardPlan::Step &step, const Argument &argument) {
  const LaunchRecord &record = step.kernel->record();
  return record.arguments[record.findArgument(argument.name)].access;
}

Error copyFile(StringRef from, StringRef to) {
  if (std::error_code failure = sys::fs::copy_file(from, to))
    return createStringError("cannot copy '" + from + "' to '" + to +
                             "': " + failure.message());
  return Error::success();
}

} // namespace

Error LaunchSaver::before(const ForwardPlan::Step &step) {
  std::string target = inFolder(folder, step.name);
  if (std::error_code failure = sys::fs::create_directories(target))
    return createStringError("cannot create folder '" + target +
                             "': " + failure.message());
  const LaunchRecord &record = step.kernel->record();
  if (Error error = copyFile(
          record.path, inFolder(target, sys::path::filename(record.path))))
    return error;
  if (Error error =
          copyFile(record.ptxPath(),
                   inFolder(target, sys::path::filename(record.ptxPath()))))
    return error;
  for (const Argument &argument : step.arguments)
    if (argument.isTensor)
      if (Error error = saveTensor(device, argument,
                                   inFolder(target, argument.name + ".npy")))
        return error;
  return Error::success();
}

Error LaunchSaver::after(const ForwardPlan::Step &step) {
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
      if (Error error =
              saveTensor(device, argument, inFolder(target, expected)))
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
  std::string path = inFolder(target, "launch.json");
  std::error_code failure;
  raw_fd_ostream stream(path, failure);
  if (failure)
    return createStringError("cannot write '" + path +
                             "': " + failure.message());
  stream << formatv("{0:2}", json::Value(std::move(launch))) << "\n";
  return Error::success();
}
