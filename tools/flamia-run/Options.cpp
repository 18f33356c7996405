//===- Options.cpp - Command line of flamia-run ---------------------------===//
//
// Parsing and the checks that need no file. LLVM's CommandLine is not used:
// every refusal here names the option, the value and the limit.
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>
#include <functional>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;

namespace {

const char *const help =
    R"(usage: flamia-run [options]

Compiles flamia's attention kernels, quantizes, runs forward and backward on
packed documents, compares with the references and probes for leaks. Without
options: a small mix of documents on the simulator.

Problem
  --docs=LEN,...|none    document lengths (default 517,1,0,300,33,200)
  --cu-seqlens=F.npy     document offsets instead, int32 or int64
  --causal, --no-causal  causal mask (default) or whole documents
  --heads=H --kv-heads=G query heads (2) and kv heads (1); G divides H
  --head-dim=D           64 or 128 (default)
  --softmax-scale=X      default 1/sqrt(D)
  --format=mxfp8|nvfp4   number format; mxfp8 is the default
  --q-global-scale=X --k-global-scale=X  second-level scales of Q and K in
                         nvfp4 (0.125); never from the data of the same step
  --pass=fwd|fwd-bwd     forward alone, or the backward too (default)
Tensors
  --data=KIND --seed=N   generated: normal (default), outliers, llm, offset; 1
  --q=F --k=F --v=F      .npy [tokens, heads, head_dim], float32, float16, or
                         uint16 holding BF16 bits
  --do=F                 dO like Q (default: generated); beside --q
  --dlse=F|normal        gradient of LSE, .npy [tokens, heads], or generated
                         (default: none)
Device
  --device=sim|model|cuda  simulator (default), specification model, GPU
  -arch=sm_100a|sm_103a    target architecture
  --async=eager|late|random:SEED  when the simulator completes asynchronous work
  --checks=all|none|LIST   rules that the simulator checks (see flamia-sim)
  --kernels=DIR            kernels made by flamiac instead of compiling them
Model
  --model                instead of running: the modelled time by kernel on B200 and
                         B300 (docs/model.md; default 16 documents of 8192, 64
                         and 8 heads)
Results
  --probe=causal,documents,consistency|none   probes (default: all)
  --out=DIR              O, LSE, m, l, kappa, dQ, dK, dV as float32 .npy
  --json=F               results for machines
  --save-launch=DIR      launch.json folders that flamia-sim replays
  --help, --version
)";

Error bad(const Twine &message) { return createStringError(message); }

Error integerIn(StringRef name, StringRef text, int64_t low, int64_t high,
                int64_t &value) {
  if (text.getAsInteger(10, value) || value < low || value > high)
    return bad("--" + name + " is '" + text + "', expected an integer from " +
               Twine(low) + " to " + Twine(high));
  return Error::success();
}

Error parseDocs(StringRef text, Options &options) {
  std::vector<int64_t> lengths;
  SmallVector<StringRef> parts;
  if (text != "none")
    text.split(parts, ',');
  int64_t total = 0;
  for (StringRef part : parts) {
    int64_t length = 0;
    if (Error error = integerIn("docs", part, 0, INT32_MAX, length))
      return error;
    total += length;
    if (total > INT32_MAX)
      return bad("--docs has more than " + Twine(INT32_MAX) +
                 " tokens, the limit of a pack");
    lengths.push_back(length);
  }
  options.docs = std::move(lengths);
  return Error::success();
}

Error parseProbes(StringRef text, Options &options) {
  options.probeCausal = options.probeDocuments = false;
  options.probeConsistency = false;
  if (text == "none")
    return Error::success();
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    if (part == "causal")
      options.probeCausal = true;
    else if (part == "documents")
      options.probeDocuments = true;
    else if (part == "consistency")
      options.probeConsistency = true;
    else
      return bad("--probe is '" + text +
                 "', expected 'none' or a list of 'causal', 'documents' and "
                 "'consistency'");
  }
  return Error::success();
}

Error parseAsync(StringRef text, Options &options) {
  StringRef seed = text;
  uint64_t number = 0;
  bool random = seed.consume_front("random:") && !seed.getAsInteger(10, number);
  if (text != "eager" && text != "late" && !random)
    return bad("--async is '" + text +
               "', expected 'eager', 'late' or 'random:SEED'");
  options.async = text.str();
  return Error::success();
}

Error parseScale(StringRef text, Options &options) {
  double value = 0;
  bool failed = text.empty() || text.getAsDouble(value);
  if (failed || !std::isfinite(float(value)) || value < 0)
    return bad("--softmax-scale is '" + text +
               "', expected a finite number >= 0");
  options.softmaxScale = float(value);
  return Error::success();
}

Error parseDevice(StringRef text, Options &options) {
  if (text == "sim")
    options.device = DeviceKind::Sim;
  else if (text == "model")
    options.device = DeviceKind::Model;
  else if (text == "cuda")
    options.device = DeviceKind::Cuda;
  else
    return bad("--device is '" + text + "', expected 'sim', 'model' or 'cuda'");
  return Error::success();
}

Error parseHeadDim(StringRef text, Options &options) {
  int64_t value = 0;
  if (text.getAsInteger(10, value) || (value != 64 && value != 128))
    return bad("head_dim " + text + " is not supported, expected 64 or 128");
  options.headDim = value;
  return Error::success();
}

Error parseFormat(StringRef text, Options &options) {
  std::optional<runtime::Format> format = runtime::parseFormat(text);
  if (!format)
    return bad("--format is '" + text + "', expected 'mxfp8' or 'nvfp4'");
  options.format = *format;
  return Error::success();
}

Error parseGlobalScale(StringRef name, StringRef text,
                       std::optional<float> &scale) {
  double value = 0;
  bool failed = text.getAsDouble(value);
  scale = float(value);
  if (failed || !(*scale >= 0x1p-32f && *scale <= 0x1p32f))
    return bad("--" + name + " is '" + text +
               "', expected a number from 2^-32 to 2^32");
  return Error::success();
}

Error parsePass(StringRef text, Options &options) {
  if (text != "fwd" && text != "fwd-bwd")
    return bad("--pass is '" + text + "', expected 'fwd' or 'fwd-bwd'");
  options.pass = text == "fwd" ? Pass::Forward : Pass::ForwardBackward;
  return Error::success();
}

Error parseArch(StringRef text, Options &options) {
  if (text != "sm_100a" && text != "sm_103a")
    return bad("-arch is '" + text + "', expected 'sm_100a' or 'sm_103a'");
  options.arch = text.str();
  return Error::success();
}

Error parseData(StringRef text, Options &options) {
  if (!is_contained({"normal", "outliers", "llm", "offset"}, text))
    return bad("--data is '" + text +
               "', expected 'normal', 'outliers', 'llm' or 'offset'");
  options.data = text.str();
  return Error::success();
}

/// Results must have a place before any work is done.
Error checkTargets(const Options &options) {
  for (auto [name, folder] :
       {std::pair<StringRef, StringRef>{"out", options.out},
        {"save-launch", options.saveLaunch}})
    if (!folder.empty() && sys::fs::exists(folder) &&
        !sys::fs::is_directory(folder))
      return bad("--" + name + ": '" + folder + "' is not a folder");
  if (options.json.empty())
    return Error::success();
  if (sys::fs::is_directory(options.json))
    return bad("--json: '" + options.json + "' is a folder");
  StringRef parent = sys::path::parent_path(options.json);
  if (!parent.empty() && !sys::fs::is_directory(parent))
    return bad("--json: there is no folder '" + parent + "'");
  return Error::success();
}

/// Combinations that contradict each other.
Error checkTogether(const Options &options) {
  if (options.docs && !options.cuSeqlens.empty())
    return bad("--docs and --cu-seqlens both say where documents end, give "
               "one of them");
  int files = int(!options.q.empty()) + int(!options.k.empty()) +
              int(!options.v.empty());
  if (files != 0 && files != 3)
    return bad("--q, --k and --v must be given together, found " +
               Twine(files) + " of 3");
  if (files && options.data)
    return bad("--data makes the tensors, it cannot be used beside --q");
  if (!options.hasBackward()) {
    for (auto [name, value] :
         {std::pair<StringRef, StringRef>{"do", options.dO},
          {"dlse", options.dLse}})
      if (!value.empty())
        return bad("--" + name + " is for the backward, and --pass is 'fwd'");
    if (options.probeConsistency.value_or(false))
      return bad("--probe=consistency compares the backward with the forward, "
                 "and --pass is 'fwd'");
  }
  if (!files && !options.dO.empty())
    return bad("--do goes with --q, --k and --v");
  if (!files && !options.dLse.empty() && options.dLse != "normal")
    return bad("--dlse=F goes with --q, --k and --v");
  for (auto [name, scale] :
       {std::pair<StringRef, std::optional<float>>{"q", options.qGlobalScale},
        {"k", options.kGlobalScale}})
    if (scale && options.format == runtime::Format::Mxfp8)
      return bad("--" + name +
                 "-global-scale is for --format=nvfp4, and the "
                 "format is mxfp8");
  int64_t heads = options.heads.value_or(2);
  int64_t kvHeads = options.kvHeads.value_or(1);
  if (!files && heads % kvHeads)
    return bad("--heads is " + Twine(heads) +
               ", expected a multiple of --kv-heads, which is " +
               Twine(kvHeads));
  if (Error error = checkTargets(options))
    return error;
  if (options.model)
    for (auto [name, given] :
         {std::pair<StringRef, bool>{"q", options.hasFiles()},
          {"device", options.device != DeviceKind::Sim},
          {"out", !options.out.empty()},
          {"save-launch", !options.saveLaunch.empty()}})
      if (given)
        return bad("--" + name +
                   " is of no use with --model, which runs nothing");
  if (options.device == DeviceKind::Model) {
    if (!options.saveLaunch.empty())
      return bad("--save-launch saves kernel launches, and --device=model "
                 "has none");
    if (!options.kernels.empty())
      return bad("--kernels is of no use with --device=model");
  }
  return Error::success();
}

} // namespace

StringRef run::helpText() { return help; }

StringRef run::nameOf(DeviceKind device) {
  switch (device) {
  case DeviceKind::Sim:
    return "sim";
  case DeviceKind::Model:
    return "model";
  case DeviceKind::Cuda:
    return "cuda";
  }
  return "";
}

Expected<Options> run::parseOptions(ArrayRef<StringRef> arguments) {
  Options options;
  using Handler = std::function<Error(StringRef)>;
  auto path = [](std::string &target) -> Handler {
    return [&target](StringRef text) {
      target = text.str();
      return Error::success();
    };
  };
  auto integer = [](StringRef name, int64_t low, int64_t high,
                    std::optional<int64_t> &target) -> Handler {
    return [=, &target](StringRef text) {
      target = 0;
      return integerIn(name, text, low, high, *target);
    };
  };
  const std::pair<StringRef, Handler> valued[] = {
      {"docs", [&](StringRef text) { return parseDocs(text, options); }},
      {"cu-seqlens", path(options.cuSeqlens)},
      {"heads", integer("heads", 1, 65535, options.heads)},
      {"kv-heads", integer("kv-heads", 1, 65535, options.kvHeads)},
      {"head-dim", [&](StringRef text) { return parseHeadDim(text, options); }},
      {"softmax-scale",
       [&](StringRef text) { return parseScale(text, options); }},
      {"format", [&](StringRef text) { return parseFormat(text, options); }},
      {"q-global-scale",
       [&](StringRef text) {
         return parseGlobalScale("q-global-scale", text, options.qGlobalScale);
       }},
      {"k-global-scale",
       [&](StringRef text) {
         return parseGlobalScale("k-global-scale", text, options.kGlobalScale);
       }},
      {"pass", [&](StringRef text) { return parsePass(text, options); }},
      {"device", [&](StringRef text) { return parseDevice(text, options); }},
      {"arch", [&](StringRef text) { return parseArch(text, options); }},
      {"seed",
       [&](StringRef text) -> Error {
         if (text.getAsInteger(10, options.seed))
           return bad("--seed is '" + text +
                      "', expected an integer from 0 to 2^64-1");
         return Error::success();
       }},
      {"data", [&](StringRef text) { return parseData(text, options); }},
      {"q", path(options.q)},
      {"k", path(options.k)},
      {"v", path(options.v)},
      {"do", path(options.dO)},
      {"dlse", path(options.dLse)},
      {"out", path(options.out)},
      {"json", path(options.json)},
      {"kernels", path(options.kernels)},
      {"save-launch", path(options.saveLaunch)},
      {"probe", [&](StringRef text) { return parseProbes(text, options); }},
      {"async", [&](StringRef text) { return parseAsync(text, options); }},
      {"checks",
       [&](StringRef text) -> Error {
         Expected<sim::CheckSet> checks = sim::CheckSet::parse(text);
         if (!checks)
           return bad("--checks: " + toString(checks.takeError()));
         options.checks = *checks;
         return Error::success();
       }},
  };
  const std::pair<StringRef, std::function<void()>> flags[] = {
      {"causal", [&] { options.causal = true; }},
      {"no-causal", [&] { options.causal = false; }},
      {"model", [&] { options.model = true; }},
      {"help", [&] { options.help = true; }},
      {"h", [&] { options.help = true; }},
      {"version", [&] { options.version = true; }},
  };

  StringSet<> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i], name = argument;
    if (!name.consume_front("--") && !name.consume_front("-"))
      return bad("unexpected argument '" + argument +
                 "', options start with '--'");
    bool hasValue = name.contains('=');
    StringRef value;
    std::tie(name, value) = name.split('=');
    auto byName = [&](const auto &entry) { return entry.first == name; };
    // The last of two values would win silently.
    if (!seen.insert(name).second)
      return bad("--" + name + " is given twice");
    if (const auto *flag = find_if(flags, byName); flag != std::end(flags)) {
      if (hasValue)
        return bad("--" + name + " takes no value, found '" + value + "'");
      flag->second();
      continue;
    }
    const auto *option = find_if(valued, byName);
    if (option == std::end(valued))
      return bad("unknown option '" + argument + "', see --help");
    if (!hasValue) {
      if (++i == arguments.size())
        return bad("--" + name + " needs a value");
      value = arguments[i];
    }
    if (value.empty())
      return bad(
          "--" + name + " needs a value" +
          (name == "docs" ? " ('none' is a pack without documents)" : ""));
    if (Error error = option->second(value))
      return std::move(error);
  }
  if (options.help || options.version)
    return options;
  if (seen.contains("causal") && seen.contains("no-causal"))
    return bad("--causal and --no-causal contradict each other");
  if (Error error = checkTogether(options))
    return std::move(error);
  return options;
}
