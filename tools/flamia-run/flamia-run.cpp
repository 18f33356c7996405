//===- flamia-run.cpp - flamia's main job ---------------------------------===//
//
// Makes or reads tensors, compiles the kernels, quantizes and runs attention on
// a device, compares with the references, and probes for leaks.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"
#include "Execute.h"
#include "Inputs.h"
#include "Options.h"
#include "Report.h"

#include "flamia/Sim/Simulator.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using flamia::reference::AttentionInputs;
using flamia::reference::ForwardOutputs;

namespace {

class Stopwatch {
public:
  double seconds() const {
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    return time.count();
  }

private:
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
};

sim::SimOptions simOptions(const Options &options) {
  sim::SimOptions result;
  result.checks = options.checks;
  StringRef mode = options.async;
  if (mode == "late")
    result.async = sim::AsyncMode::Late;
  if (mode.consume_front("random:")) {
    result.async = sim::AsyncMode::Random;
    mode.getAsInteger(10, result.seed);
  }
  return result;
}

reference::ForwardOptions modelOptions(const Options &options) {
  reference::ForwardOptions result;
  result.mask.causal = options.causal;
  result.softmaxScale = options.softmaxScale.value_or(-1.0f);
  return result;
}

/// Device, kernels and everything that must outlive them.
struct Runner {
  TemporaryFolder folder;
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::AttentionForward> forward;
};

Error prepareRunner(const Options &options, const std::string &program,
                    const reference::AttentionShape &shape, Runner &runner,
                    Report &report) {
  if (options.device == DeviceKind::Cuda) {
    Expected<std::unique_ptr<runtime::Device>> device =
        runtime::createCudaDevice();
    if (!device)
      return createStringError("--device=cuda: " +
                               toString(device.takeError()));
    runner.device = std::move(*device);
  } else {
    runner.device = runtime::createSimDevice(simOptions(options));
  }

  Stopwatch watch;
  std::string kernels = options.kernels;
  if (kernels.empty()) {
    if (Error error = runner.folder.create())
      return error;
    kernels = runner.folder.path();
    if (Error error = compileKernels(findInstallation(program), options.arch,
                                     shape.headDim, options.causal, kernels))
      return error;
    report.seconds.push_back({"compile", watch.seconds()});
  }
  Expected<runtime::KernelLibrary> library =
      runtime::KernelLibrary::open(kernels);
  if (!library)
    return library.takeError();
  runtime::AttentionConfig config;
  config.heads = shape.heads;
  config.kvHeads = shape.kvHeads;
  config.headDim = shape.headDim;
  config.causal = options.causal;
  config.softmaxScale = options.softmaxScale;
  config.arch = options.arch;
  Expected<std::unique_ptr<runtime::AttentionForward>> forward =
      runtime::AttentionForward::create(*runner.device, *library, config);
  if (!forward)
    return forward.takeError();
  runner.forward = std::move(*forward);
  return Error::success();
}

/// Re-runs the forward on changed inputs; results must keep every bit.
void runProbes(const Options &options, const AttentionInputs &inputs,
               const reference::ForwardFunction &forward, Report &report) {
  Stopwatch watch;
  // Without causality there is nothing for the causal probe to promise.
  if (options.probeCausal && options.causal) {
    std::vector<int64_t> cuts = reference::causalCuts(inputs.shape);
    if (cuts.empty())
      report.lines.push_back(
          {"probe causal", "skipped: no document has a token to change"});
    else
      addProbe("causal", probeCausal(inputs, forward, cuts), report);
  }
  if (options.probeDocuments) {
    if (inputs.shape.tokens() == 0)
      report.lines.push_back({"probe documents", "skipped: there are no rows"});
    else
      addProbe("documents", probeDocuments(inputs, forward, 4), report);
  }
  if (options.probeCausal || options.probeDocuments)
    report.seconds.push_back({"probes", watch.seconds()});
}

void describe(const Options &options, const AttentionInputs &inputs) {
  const reference::AttentionShape &shape = inputs.shape;
  outs() << formatv(
      "mxfp8 attention forward, {0}: {1} documents, {2} tokens, {3} heads, "
      "{4} kv heads, head_dim {5}\n",
      options.causal ? "causal" : "not causal", shape.documents(),
      shape.tokens(), shape.heads, shape.kvHeads, shape.headDim);
  outs() << "data "
         << (options.hasFiles() ? options.q : options.data.value_or("normal"));
  if (!options.hasFiles())
    outs() << ", seed " << options.seed;
  outs() << "; device " << nameOf(options.device);
  if (options.device != DeviceKind::Model)
    outs() << ", " << options.arch;
  outs() << "\n";
  outs().flush();
}

/// References and probes go through every visible pair of query and key; a
/// large pack takes minutes, and the user should know before.
void announceWork(const Options &options,
                  const reference::AttentionShape &shape) {
  double pairs = 0;
  for (size_t d = 0; d + 1 < shape.cuSeqlens.size(); ++d) {
    double length = double(shape.cuSeqlens[d + 1] - shape.cuSeqlens[d]);
    pairs += options.causal ? length * (length + 1) / 2 : length * length;
  }
  pairs *= double(shape.heads);
  bool probes = options.probeCausal || options.probeDocuments;
  // Probes run some 30 passes; a pass takes about a second for 1e7 pairs.
  if (pairs * (probes ? 30 : 2) < 2e8)
    return;
  errs() << formatv("flamia-run: note: {0:e2} pairs of query and key in the "
                    "model and again in fp64",
                    pairs);
  if (probes)
    errs() << ", and in every run of the probes (--probe=none leaves them out)";
  errs() << "; this takes long\n";
}

Expected<bool> runAll(const Options &options, const std::string &program) {
  Stopwatch total;
  Report report;
  Expected<AttentionInputs> inputs = makeInputs(options);
  if (!inputs)
    return inputs.takeError();
  Runner runner;
  if (options.device != DeviceKind::Model)
    if (Error error =
            prepareRunner(options, program, inputs->shape, runner, report))
      return std::move(error);
  describe(options, *inputs);
  announceWork(options, inputs->shape);

  // Everything is written at the end, or nothing is.
  OutputSet written;
  DeviceResult result;
  reference::ForwardFunction forward;
  reference::ForwardOptions specification = modelOptions(options);
  if (runner.forward) {
    Expected<DeviceResult> ran =
        runForward(*runner.forward, *inputs, options.saveLaunch,
                   options.saveLaunch.empty() ? nullptr : &written);
    if (!ran)
      return ran.takeError();
    result = std::move(*ran);
    report.seconds.push_back({"quantize", result.quantizeSeconds});
    report.seconds.push_back({"attention", result.attentionSeconds});
    forward = [&](const AttentionInputs &changed, ForwardOutputs &outputs,
                  std::string &message) {
      Expected<DeviceResult> again = runForward(*runner.forward, changed);
      if (!again) {
        message = toString(again.takeError());
        return false;
      }
      outputs = std::move(again->outputs);
      return true;
    };
  }

  Stopwatch modelWatch;
  reference::QuantizedInputs quantized =
      reference::quantizeInputs(*inputs, specification);
  ForwardOutputs model =
      reference::attentionForwardModel(quantized, specification);
  report.seconds.push_back({"model", modelWatch.seconds()});
  Stopwatch fp64Watch;
  reference::ForwardOutputsFp64 fp64 =
      reference::attentionFp64(*inputs, specification);
  report.seconds.push_back({"fp64", fp64Watch.seconds()});

  if (runner.forward) {
    compareQuantized(result, quantized, report);
    compareWithModel(result.outputs, model, report);
  } else {
    result.outputs = model;
    forward = reference::modelFunction(specification);
  }
  if (!options.out.empty())
    addOutputs(inputs->shape, result.outputs, options.out, written);
  compareWithFp64(result.outputs, model, fp64, !options.hasFiles(), report);
  runProbes(options, *inputs, forward, report);
  report.seconds.push_back({"total", total.seconds()});
  printTable(report, outs());
  if (!options.json.empty())
    written.files.push_back(jsonFile(options, report, options.json));
  if (Error error = writeOutputSet(written))
    return std::move(error);
  return report.pass();
}

} // namespace

int main(int argc, char **argv) {
  SmallVector<StringRef> arguments(argv + std::min(argc, 1), argv + argc);
  auto fail = [](Error error) {
    outs().flush();
    errs() << "flamia-run: error: " << toString(std::move(error)) << "\n";
    return 1;
  };
  Expected<Options> options = parseOptions(arguments);
  if (!options)
    return fail(options.takeError());
  if (options->help) {
    outs() << helpText();
    return 0;
  }
  std::string program = argc ? argv[0] : "";
  if (options->version) {
    outs() << "flamia " FLAMIA_VERSION ", LLVM " LLVM_VERSION_STRING ", "
           << ptxasVersion() << "\n";
    return 0;
  }
  Expected<bool> pass = runAll(*options, program);
  if (!pass)
    return fail(pass.takeError());
  outs() << (*pass ? "PASS\n" : "FAIL\n");
  return *pass ? 0 : 1;
}
