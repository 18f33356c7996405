//===- flamia-run.cpp - flamia's main job ---------------------------------===//
//
// Makes or reads tensors, compiles the kernels, quantizes and runs attention
// forward and backward on a device, compares with the references, and probes.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"
#include "Execute.h"
#include "Inputs.h"
#include "ModelTimes.h"
#include "Options.h"
#include "Probes.h"
#include "Report.h"
#include "Stopwatch.h"

#include "flamia/Sim/Simulator.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace flamia;
using namespace flamia::run;
using flamia::reference::AttentionInputs;
using flamia::reference::BackwardInputs;
using flamia::reference::ForwardOutputs;

namespace {

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
  if (options.format == runtime::Format::Nvfp4)
    result.format = reference::Format::Nvfp4;
  result.queryGlobalScale =
      options.qGlobalScale.value_or(result.queryGlobalScale);
  result.keyGlobalScale = options.kGlobalScale.value_or(result.keyGlobalScale);
  return result;
}

/// Device, kernels and everything that must outlive them.
struct Runner {
  TemporaryFolder folder;
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::AttentionForward> forward;
  std::unique_ptr<runtime::AttentionBackward> backward; ///< If asked for.
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
    KernelChoice choice;
    choice.arch = options.arch;
    choice.headDim = shape.headDim;
    choice.causal = options.causal;
    choice.format = options.format;
    choice.slots = shape.heads / shape.kvHeads % 2 == 0 ? 2 : 1;
    choice.backward = options.hasBackward();
    choice.dLse = !options.dLse.empty();
    if (Error error =
            compileKernels(findInstallation(program), choice, kernels))
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
  config.format = options.format;
  config.qGlobalScale = options.qGlobalScale.value_or(config.qGlobalScale);
  config.kGlobalScale = options.kGlobalScale.value_or(config.kGlobalScale);
  Expected<std::unique_ptr<runtime::AttentionForward>> forward =
      runtime::AttentionForward::create(*runner.device, *library, config);
  if (!forward)
    return forward.takeError();
  runner.forward = std::move(*forward);
  if (!options.hasBackward())
    return Error::success();
  Expected<std::unique_ptr<runtime::AttentionBackward>> backward =
      runtime::AttentionBackward::create(*runner.device, *library, config,
                                         !options.dLse.empty());
  if (!backward)
    return backward.takeError();
  runner.backward = std::move(*backward);
  return Error::success();
}

/// One run of the kernels.
struct DeviceRun {
  DeviceResult forward;
  DeviceGradients backward; ///< Empty without a backward.
};

Expected<DeviceRun> runKernels(Runner &runner, const BackwardInputs &inputs,
                               const ExecuteOptions &options = {}) {
  DeviceRun run;
  if (!runner.backward) {
    Expected<DeviceResult> result =
        runForward(*runner.forward, inputs.forward, options);
    if (!result)
      return result.takeError();
    run.forward = std::move(*result);
    return run;
  }
  Expected<std::pair<DeviceResult, DeviceGradients>> result =
      runBackward(*runner.forward, *runner.backward, inputs, options);
  if (!result)
    return result.takeError();
  run.forward = std::move(result->first);
  run.backward = std::move(result->second);
  return run;
}

/// The device, or its specification, as the probes take it.
reference::ForwardFunction
forwardFunction(Runner &runner, const reference::ForwardOptions &options) {
  if (!runner.forward)
    return reference::modelFunction(options);
  return [&](const AttentionInputs &inputs, ForwardOutputs &outputs,
             std::string &message) {
    Expected<DeviceResult> result = runForward(*runner.forward, inputs);
    if (!result) {
      message = toString(result.takeError());
      return false;
    }
    outputs = std::move(result->outputs);
    return true;
  };
}

reference::BackwardFunction
backwardFunction(Runner &runner, const reference::BackwardOptions &options) {
  if (!runner.forward)
    return reference::modelBackwardFunction(options);
  return [&](const BackwardInputs &inputs, ForwardOutputs &outputs,
             reference::Gradients &gradients, std::string &message) {
    Expected<DeviceRun> result = runKernels(runner, inputs);
    if (!result) {
      message = toString(result.takeError());
      return false;
    }
    outputs = std::move(result->forward.outputs);
    gradients = std::move(result->backward.gradients);
    return true;
  };
}

void describe(const Options &options, const reference::AttentionShape &shape) {
  outs() << formatv(
      "{0} attention forward{1}, {2}: {3} documents, {4} tokens, {5} heads, "
      "{6} kv heads, head_dim {7}\n",
      runtime::nameOf(options.format),
      options.hasBackward() ? " and backward" : "",
      options.causal ? "causal" : "not causal", shape.documents(),
      shape.tokens(), shape.heads, shape.kvHeads, shape.headDim);
  outs() << "data "
         << (options.hasFiles() ? options.q : options.data.value_or("normal"));
  if (options.hasBackward() && options.hasFiles())
    outs() << ", dO " << (options.dO.empty() ? "normal" : options.dO);
  if (!options.dLse.empty())
    outs() << ", dLSE " << options.dLse;
  if (!options.hasFiles() || (options.hasBackward() && options.dO.empty()))
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
  // Probes run some 30 passes; a forward takes about a second for 1e7 pairs, a
  // backward three times as long.
  double cost = options.hasBackward() ? 4 : 1;
  if (pairs * cost * (probes ? 30 : 2) < 2e8)
    return;
  errs() << formatv("flamia-run: note: {0:e2} pairs of query and key in the "
                    "model and again in fp64",
                    pairs);
  if (probes)
    errs() << ", and in every run of the probes (--probe=none leaves them out)";
  errs() << "; this takes long\n";
}

/// The references on the same inputs. The backward's model works on the
/// forward's results of the device: where one weight dominates a row, a last
/// bit of O decides about D', and that is no difference of the backward.
struct References {
  reference::QuantizedInputs quantized;
  ForwardOutputs model;
  reference::ForwardOutputsFp64 fp64;
  reference::Gradients modelGradients;
  reference::GradientsFp64 fp64Gradients;
  reference::BackwardDiagnostics diagnostics;
};

References runReferences(const Options &options, const BackwardInputs &inputs,
                         const reference::BackwardOptions &specification,
                         const ForwardOutputs *device, Report &report) {
  References result;
  Stopwatch modelWatch;
  result.quantized =
      reference::quantizeInputs(inputs.forward, specification.forward);
  result.model =
      reference::attentionForwardModel(result.quantized, specification.forward);
  if (options.hasBackward())
    result.modelGradients = reference::attentionBackwardModel(
        result.quantized, device ? *device : result.model, inputs.dO,
        inputs.dLse, specification, &result.diagnostics);
  report.seconds.push_back({"model", modelWatch.seconds()});
  Stopwatch fp64Watch;
  result.fp64 = reference::attentionFp64(inputs.forward, specification.forward);
  if (options.hasBackward())
    result.fp64Gradients =
        reference::attentionBackwardFp64(inputs, specification.forward);
  report.seconds.push_back({"fp64", fp64Watch.seconds()});
  return result;
}

/// Everything that is compared with a reference.
void compare(const Options &options, const BackwardInputs &inputs,
             const reference::BackwardOptions &specification,
             const References &references, const DeviceRun &run,
             Report &report) {
  bool generated = !options.hasFiles();
  const ForwardOutputs &outputs = run.forward.outputs;
  bool kernels = options.device != DeviceKind::Model;
  bool equal = true;
  if (kernels)
    equal = compareQuantized(run.forward, references.quantized, report);
  if (options.format == runtime::Format::Nvfp4)
    addBlockCounts(references.quantized, equal, report);
  const reference::ForwardOptions &forward = specification.forward;
  reference::MeaningfulRows rows =
      reference::meaningfulRows(references.quantized, forward);
  if (kernels)
    compareWithModel(outputs, references.model, rows.outputs, report);
  compareWithFp64(outputs, references.model, references.fp64, rows.outputs,
                  generated, report);
  if (!options.hasBackward())
    return;
  if (kernels)
    addPrepared(comparePrepared(run.backward,
                                reference::prepareBackward(
                                    references.quantized, outputs, inputs.dO,
                                    inputs.dLse, specification),
                                inputs.forward.shape),
                report);
  reference::addMeaningfulGradients(references.quantized, outputs, inputs.dO,
                                    inputs.dLse, forward, rows);
  compareGradients(inputs, forward, run.backward.gradients,
                   references.modelGradients, references.fp64Gradients, rows,
                   generated, kernels, report);
  // A dLSE is what the rows then sum to.
  if (inputs.dLse.empty())
    addRowSums(references.diagnostics, report);
}

/// Where weights lose their meaning, nothing is said about the kernels.
void warnOfLargeLogits(const std::vector<float> &references) {
  float largest = 0;
  for (float m : references)
    if (std::isfinite(m))
      largest = std::max(largest, std::abs(m));
  if (largest > 0x1p22f)
    errs() << "flamia-run: warning: scores reach 2^" << std::ilogb(largest)
           << " in units of log2, beyond 2^22 weights lose their meaning and "
              "comparisons leave such rows out (docs/numerics.md, \"Known "
              "limits\")\n";
}

Expected<bool> runAll(const Options &options, const std::string &program) {
  Stopwatch total;
  Report report;
  Expected<BackwardInputs> inputs = makeInputs(options);
  if (!inputs)
    return inputs.takeError();
  const reference::AttentionShape &shape = inputs->forward.shape;
  Runner runner;
  if (options.device != DeviceKind::Model)
    if (Error error = prepareRunner(options, program, shape, runner, report))
      return std::move(error);
  describe(options, shape);
  announceWork(options, shape);

  // Everything is written at the end, or nothing is.
  OutputSet written;
  DeviceRun run;
  reference::BackwardOptions specification;
  specification.forward = modelOptions(options);
  specification.forward.exp2 = runner.forward
                                   ? runner.forward->exp2Share()
                                   : numerics::exp2ShareOf(options.arch);
  if (runner.backward) {
    specification.keyGradientExp2 = runner.backward->keyGradientExp2();
    specification.queryGradientExp2 = runner.backward->queryGradientExp2();
  }
  if (runner.forward) {
    ExecuteOptions saving;
    saving.saveFolder = options.saveLaunch;
    saving.saved = options.saveLaunch.empty() ? nullptr : &written;
    Expected<DeviceRun> ran = runKernels(runner, *inputs, saving);
    if (!ran)
      return ran.takeError();
    run = std::move(*ran);
    report.seconds.push_back({"quantize", run.forward.quantizeSeconds});
    report.seconds.push_back({"attention", run.forward.attentionSeconds});
    if (options.hasBackward()) {
      report.seconds.push_back({"prepare", run.backward.prepareSeconds});
      report.seconds.push_back({"gradients", run.backward.gradientSeconds});
    }
  }
  References references =
      runReferences(options, *inputs, specification,
                    runner.forward ? &run.forward.outputs : nullptr, report);
  if (!runner.forward) {
    run.forward.outputs = references.model;
    run.backward.gradients = references.modelGradients;
  }
  if (!options.out.empty())
    addOutputs(shape, run.forward.outputs,
               options.hasBackward() ? &run.backward.gradients : nullptr,
               options.out, written);
  compare(options, *inputs, specification, references, run, report);
  runProbes(options, *inputs, forwardFunction(runner, specification.forward),
            options.hasBackward() ? backwardFunction(runner, specification)
                                  : reference::BackwardFunction(),
            report);
  report.seconds.push_back({"total", total.seconds()});
  printTable(report, outs());
  outs().flush();
  warnOfLargeLogits(run.forward.outputs.m);
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
  if (options->model) {
    if (Error error = modelTimes(*options, program))
      return fail(std::move(error));
    return 0;
  }
  Expected<bool> pass = runAll(*options, program);
  if (!pass)
    return fail(pass.takeError());
  outs() << (*pass ? "PASS\n" : "FAIL\n");
  return *pass ? 0 : 1;
}
