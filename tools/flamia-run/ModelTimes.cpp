//===- ModelTimes.cpp - flamia-run --model --------------------------------===//
//
// Compiles the kernels of a configuration for both architectures, counts them
// and prints what the throughput model says of the documents.
//
//===----------------------------------------------------------------------===//

#include "ModelTimes.h"

#include "Compile.h"
#include "Inputs.h"

#include "flamia/Model/Workload.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "flamia/Support/Files.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::run;

static json::Object timeJson(const model::WorkloadTime &time,
                             const model::Machine &machine) {
  json::Array kernels;
  for (const model::KernelTime &k : time.kernels)
    kernels.push_back(json::Object{{"kernel", k.kernel},
                                   {"seconds", k.seconds},
                                   {"seconds_overlapped", k.secondsOverlapped},
                                   {"tiles", k.tiles},
                                   {"tile_cycles", k.tileCycles},
                                   {"imbalance", k.imbalance},
                                   {"limit", k.limit}});
  return json::Object{{"machine", machine.name},
                      {"arch", machine.arch},
                      {"modelled", true},
                      {"kernels", std::move(kernels)},
                      {"seconds", time.seconds},
                      {"seconds_overlapped", time.secondsOverlapped},
                      {"bf16_seconds", time.bf16Seconds}};
}

/// The records of this configuration among those of a folder.
static Expected<std::vector<runtime::LaunchRecord>>
matching(StringRef folder, const Options &options, int64_t headDim) {
  Expected<runtime::KernelLibrary> library =
      runtime::KernelLibrary::open(folder);
  if (!library)
    return library.takeError();
  const std::pair<StringRef, std::string> wanted[] = {
      {"head_dim", std::to_string(headDim)},
      {"causal", options.causal ? "true" : "false"},
      {"format", runtime::nameOf(options.format).str()}};
  std::vector<runtime::LaunchRecord> records;
  for (const runtime::LaunchRecord &record : library->records()) {
    bool all = true;
    for (const auto &[name, value] : wanted) {
      auto it = record.parameters.find(name.str());
      all &= it == record.parameters.end() || it->second == value;
    }
    if (all)
      records.push_back(record);
  }
  return records;
}

Error run::modelTimes(const Options &options, const std::string &program) {
  model::Workload workload;
  if (options.cuSeqlens.empty()) {
    workload.lengths = options.docs.value_or(std::vector<int64_t>(16, 8192));
  } else {
    Expected<std::vector<int64_t>> offsets = readDocumentOffsets(options);
    if (!offsets)
      return offsets.takeError();
    for (size_t d = 1; d < offsets->size(); ++d)
      workload.lengths.push_back((*offsets)[d] - (*offsets)[d - 1]);
  }
  workload.heads = options.heads.value_or(64);
  workload.kvHeads = options.kvHeads.value_or(options.heads ? 1 : 8);
  workload.headDim = options.headDim.value_or(128);
  workload.causal = options.causal;
  workload.backward = options.hasBackward();
  if (workload.heads % workload.kvHeads)
    return createStringError("--heads is " + Twine(workload.heads) +
                             ", expected a multiple of --kv-heads, which is " +
                             Twine(workload.kvHeads));
  if (workload.tokens() == 0)
    return createStringError("there is no token to model");

  Expected<model::Tools> tools = model::findTools();
  if (!tools)
    return tools.takeError();
  outs() << formatv(
      "{0} tokens in {1} documents, {2} heads, {3} kv heads, head "
      "dim {4}, {5}, {6}, {7}\n",
      workload.tokens(), workload.lengths.size(), workload.heads,
      workload.kvHeads, workload.headDim,
      workload.causal ? "causal" : "not causal",
      runtime::nameOf(options.format),
      workload.backward ? "forward and backward" : "forward");
  outs().flush();
  json::Array list;
  for (const model::Machine *machine :
       {&model::Machine::b200(), &model::Machine::b300()}) {
    TemporaryFolder folder;
    std::string kernels = options.kernels;
    if (kernels.empty()) {
      if (Error error = folder.create())
        return error;
      KernelChoice choice;
      choice.arch = machine->arch;
      choice.headDim = workload.headDim;
      choice.causal = workload.causal;
      choice.format = options.format;
      choice.backward = workload.backward;
      choice.slots = workload.heads / workload.kvHeads % 2 == 0 ? 2 : 1;
      if (Error error =
              compileKernels(findInstallation(program), choice, folder.path()))
        return error;
      kernels = folder.path();
    }
    Expected<std::vector<runtime::LaunchRecord>> records =
        matching(kernels, options, workload.headDim);
    if (!records)
      return records.takeError();
    // A folder of kernels may hold one architecture only.
    bool present = false;
    for (const runtime::LaunchRecord &record : *records)
      present |= record.arch == machine->arch;
    if (!present && !options.kernels.empty()) {
      outs() << machine->name << ": no kernels for " << machine->arch << " in '"
             << kernels << "'\n";
      continue;
    }
    Expected<std::vector<model::WorkloadKernel>> loaded =
        model::loadKernels(*records, workload.backward,
                           workload.heads / workload.kvHeads, *tools, *machine);
    if (!loaded)
      return loaded.takeError();
    model::WorkloadTime time = model::predict(workload, *loaded, *machine);
    outs() << model::table(workload, time, *machine);
    outs().flush();
    list.push_back(timeJson(time, *machine));
  }
  if (list.empty())
    return createStringError("'" + options.kernels +
                             "' has no kernels of this configuration");
  if (options.json.empty())
    return Error::success();
  return writeFiles(
      {{options.json, formatv("{0:2}\n", json::Value(std::move(list))).str()}});
}
