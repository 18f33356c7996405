//===- Workloads.cpp - Tables of many workloads ---------------------------===//

#include "Workloads.h"

#include "flamia/Model/Workload.h"
#include "flamia/Runtime/KernelLibrary.h"
#include "flamia/Support/Json.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <tuple>

using namespace llvm;

namespace flamia {
namespace model {

namespace {

struct NamedWorkload {
  std::string name;
  Workload workload;
};

/// Kernels that have been modelled, by what their model depends on.
class ModelledKernels {
public:
  ModelledKernels(StringRef folder, const Tools &tools)
      : folder(folder), tools(tools) {}

  Expected<ArrayRef<WorkloadKernel>> of(const Workload &w,
                                        const Machine &machine) {
    Key key{machine.arch, w.headDim, w.causal, w.heads / w.kvHeads};
    auto it = kernels.find(key);
    if (it != kernels.end())
      return ArrayRef<WorkloadKernel>(it->second);
    SmallString<128> path(folder);
    sys::path::append(path, machine.arch);
    Expected<runtime::KernelLibrary> library = runtime::KernelLibrary::open(
        sys::fs::is_directory(path) ? path.str() : folder);
    if (!library)
      return library.takeError();
    std::vector<runtime::LaunchRecord> records;
    for (const runtime::LaunchRecord &record : library->records()) {
      auto is = [&](const char *name, StringRef value) {
        auto parameter = record.parameters.find(name);
        return parameter == record.parameters.end() ||
               parameter->second == value;
      };
      if (is("head_dim", std::to_string(w.headDim)) &&
          is("causal", w.causal ? "true" : "false") && is("format", "mxfp8"))
        records.push_back(record);
    }
    Expected<std::vector<WorkloadKernel>> loaded = loadKernels(
        records, /*backward=*/true, w.heads / w.kvHeads, tools, machine);
    if (!loaded)
      return loaded.takeError();
    return ArrayRef<WorkloadKernel>(kernels[key] = std::move(*loaded));
  }

private:
  using Key = std::tuple<std::string, int64_t, bool, int64_t>;
  StringRef folder;
  const Tools &tools;
  std::map<Key, std::vector<WorkloadKernel>> kernels;
};

} // namespace

static Expected<std::vector<NamedWorkload>> readWorkloads(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError("cannot read '" + path +
                             "': " + buffer.getError().message());
  auto bad = [&](const Twine &message) {
    return createStringError("'" + path + "': " + message);
  };
  Expected<json::Value> root = parseJson((*buffer)->getBuffer());
  if (!root)
    return bad(toString(root.takeError()));
  const json::Array *list = root->getAsArray();
  if (!list)
    return bad("expected a list of workloads");
  std::vector<NamedWorkload> result;
  for (const json::Value &value : *list) {
    const json::Object *object = value.getAsObject();
    const json::Array *docs = object ? object->getArray("docs") : nullptr;
    std::optional<StringRef> name =
        object ? object->getString("name") : std::nullopt;
    if (!docs || !name)
      return bad("expected objects with 'name' and 'docs'");
    NamedWorkload w;
    w.name = name->str();
    for (const json::Value &length : *docs) {
      std::optional<int64_t> n = length.getAsInteger();
      if (!n || *n < 0 || *n > INT32_MAX)
        return bad("'docs' of '" + *name + "': expected lengths");
      w.workload.lengths.push_back(*n);
    }
    w.workload.heads = object->getInteger("heads").value_or(64);
    w.workload.kvHeads = object->getInteger("kv_heads").value_or(8);
    w.workload.headDim = object->getInteger("head_dim").value_or(128);
    w.workload.causal = object->getBoolean("causal").value_or(true);
    if (w.workload.kvHeads < 1 || w.workload.heads < 1 ||
        w.workload.heads % w.workload.kvHeads || w.workload.tokens() == 0 ||
        w.workload.tokens() > INT32_MAX)
      return bad("'" + *name +
                 "': expected tokens, and heads that are a "
                 "multiple of kv_heads");
    result.push_back(std::move(w));
  }
  return result;
}

Expected<std::string> workloadTable(StringRef file, StringRef kernels,
                                    const Tools &tools) {
  Expected<std::vector<NamedWorkload>> workloads = readWorkloads(file);
  if (!workloads)
    return workloads.takeError();
  ModelledKernels modelled(kernels, tools);
  std::string text;
  raw_string_ostream os(text);
  os << "| workload | tokens | GPU | best BF16, ms | flamia, ms | speed-up | "
        "if "
        "overlapped | by kernel, ms (limit) |\n"
        "|---|---|---|---|---|---|---|---|\n";
  for (const NamedWorkload &w : *workloads)
    for (const Machine *machine : {&Machine::b200(), &Machine::b300()}) {
      Expected<ArrayRef<WorkloadKernel>> list =
          modelled.of(w.workload, *machine);
      if (!list)
        return list.takeError();
      WorkloadTime t = predict(w.workload, *list, *machine);
      os << formatv("| {0} | {1} | {2} | {3:f2} | {4:f2} | {5:f2} | {6:f2} |",
                    w.name, w.workload.tokens(), machine->name,
                    1e3 * t.bf16Seconds, 1e3 * t.seconds,
                    t.bf16Seconds / t.seconds,
                    t.bf16Seconds / t.secondsOverlapped);
      const char *separator = " ";
      for (const KernelTime &k : t.kernels) {
        StringRef name = k.kernel;
        name.consume_front("attention_");
        os << formatv("{0}{1} {2:f2} ({3})", separator, name, 1e3 * k.seconds,
                      k.limit);
        separator = ", ";
      }
      os << " |\n";
    }
  return text;
}

} // namespace model
} // namespace flamia
