//===- flamia-sim.cpp - Runs PTX on the simulator -------------------------===//
//
// flamia-sim --launch DIR/launch.json: executes a kernel, writes its outputs,
// compares them where the file says so. Exit code 1 on a mismatch, a violated
// rule, a deadlock or bad input.
//
//===----------------------------------------------------------------------===//

#include "LaunchFile.h"
#include "StatsReport.h"
#include "TraceReport.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::simtool;

static const char usage[] = R"(usage: flamia-sim --launch=FILE [options]

Executes PTX on a functional simulator of Blackwell GPUs.

  --launch=FILE         launch.json (docs/simulator.md)
  --async=MODE          when asynchronous operations are carried out: eager
                        (default), late or random:SEED
  --checks=LIST         rules to check: all (default), none, or a list like
                        all,-uninit of the names below
                        (docs/simulator-rules.md)
  --ctas=RANGE          run only these CTAs, for instance 3 or 0-7,9; outputs
                        are written but not compared
  --stats               print statistics
  --json=FILE           write errors, comparisons and statistics as JSON
  --trace=FILE          write a timeline for Perfetto (Chrome trace JSON; the
                        unit of time is a warp instruction)
  --threads=N           host threads (default: one per processor)
  --order-digest=FILE   write what orders the accesses of each PTX line, for
                        comparisons (docs/simulator-races.md)
  --plain-accumulation  sum MMA products in fp32 instead of bit for bit
  --help, --version
)";

namespace {
// LLVM's own command line has a --stats, so this one is read by hand.
struct Options {
  std::string launchPath, asyncMode = "eager", checkList = "all", ctaList,
                          jsonPath, tracePath, digestPath;
  unsigned threads = 0;
  bool stats = false, plainSums = false, help = false, version = false;
};
} // namespace

static Error parseArguments(ArrayRef<const char *> arguments, Options &o) {
  const std::pair<StringRef, std::string *> strings[] = {
      {"launch", &o.launchPath},      {"async", &o.asyncMode},
      {"checks", &o.checkList},       {"ctas", &o.ctaList},
      {"json", &o.jsonPath},          {"trace", &o.tracePath},
      {"order-digest", &o.digestPath}};
  const std::pair<StringRef, bool *> flags[] = {
      {"stats", &o.stats},
      {"plain-accumulation", &o.plainSums},
      {"help", &o.help},
      {"h", &o.help},
      {"version", &o.version}};
  StringSet<> seen;
  for (size_t k = 0; k < arguments.size(); ++k) {
    StringRef word = arguments[k], name = word;
    if (!name.consume_front("--") && !name.consume_front("-"))
      return createStringError("unexpected argument '" + word + "'");
    bool hasValue = name.contains('=');
    StringRef value;
    std::tie(name, value) = name.split('=');
    if (!seen.insert(name).second)
      return createStringError("option '--" + name + "' is given twice");
    bool *flag = nullptr;
    for (auto [n, f] : flags)
      if (name == n)
        flag = f;
    if (flag) {
      if (hasValue)
        return createStringError("option '--" + name + "' takes no value");
      *flag = true;
      continue;
    }
    std::string *text = nullptr;
    for (auto [n, t] : strings)
      if (name == n)
        text = t;
    if (!text && name != "threads")
      return createStringError("unknown option '" + word + "'");
    if (!hasValue) {
      if (++k == arguments.size())
        return createStringError("option '--" + name + "' needs a value");
      value = arguments[k];
    }
    if (text)
      *text = value.str();
    else if (value.getAsInteger(10, o.threads) || o.threads > 1024)
      return createStringError("--threads is '" + value +
                               "', expected 0 to 1024");
  }
  return Error::success();
}

static int fail(const Twine &message) {
  errs() << "flamia-sim: error: " << message << "\n";
  return 1;
}

static Error simOptions(const Options &o, sim::SimOptions &options) {
  StringRef mode = o.asyncMode;
  if (mode == "late") {
    options.async = sim::AsyncMode::Late;
  } else if (mode.consume_front("random:")) {
    options.async = sim::AsyncMode::Random;
    if (mode.getAsInteger(10, options.seed))
      return createStringError("malformed seed '" + mode +
                               "' of --async=random:SEED");
  } else if (mode != "eager") {
    return createStringError("unknown --async mode '" + mode +
                             "', expected eager, late or random:SEED");
  }
  Expected<sim::CheckSet> checks = sim::CheckSet::parse(o.checkList);
  if (!checks)
    return checks.takeError();
  options.checks = *checks;
  if (!o.ctaList.empty()) {
    Expected<std::vector<sim::CtaRange>> ranges =
        sim::parseCtaRanges(o.ctaList);
    if (!ranges)
      return ranges.takeError();
    options.ctas = std::move(*ranges);
  }
  options.threads = o.threads;
  options.trace = !o.tracePath.empty();
  options.stats = o.stats || !o.jsonPath.empty();
  options.plainAccumulation = o.plainSums;
  options.orderDigest = !o.digestPath.empty();
  return Error::success();
}

int main(int argc, char **argv) {
  Options o;
  if (Error e = parseArguments(ArrayRef(argv + 1, argc - 1), o))
    return fail(toString(std::move(e)));
  if (o.help) {
    outs() << usage << "\nNames of checks:";
    for (StringRef name : sim::CheckSet::names())
      outs() << ' ' << name;
    outs() << '\n';
    return 0;
  }
  if (o.version) {
    outs() << "flamia-sim " FLAMIA_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
    return 0;
  }
  if (o.launchPath.empty())
    return fail("expected --launch=FILE");
  sim::SimOptions options;
  if (Error e = simOptions(o, options))
    return fail(toString(std::move(e)));
  LaunchFile file;
  if (Error e = file.load(o.launchPath))
    return fail(toString(std::move(e)));

  sim::LaunchResult result;
  const sim::LaunchConfig &config = file.config();
  uint64_t ctas = uint64_t(config.grid[0]) * config.grid[1] * config.grid[2];
  for (sim::CtaRange range : options.ctas)
    if (range.last >= ctas)
      return fail("--ctas names CTA " + Twine(range.last) +
                  ", but the grid has " + Twine(ctas) + " CTAs (" +
                  Twine(config.grid[0]) + " x " + Twine(config.grid[1]) +
                  " x " + Twine(config.grid[2]) + ")");
  if (!file.empty())
    result = sim::launch(file.module(), file.memory(), file.config(), options);
  std::vector<Comparison> comparisons;
  std::vector<OutputFile> files;
  bool pass = result.ok();
  for (const sim::Diagnostic &d : result.errors)
    errs() << d.render();
  if (pass) {
    files = file.outputFiles();
    // A part of the grid leaves a part of the outputs unwritten.
    if (options.ctas.empty()) {
      Expected<std::vector<Comparison>> compared = file.compare();
      if (!compared)
        return fail(toString(compared.takeError()));
      comparisons = std::move(*compared);
    }
    for (const Comparison &c : comparisons) {
      if (c.ok) {
        outs() << formatv("{0}: {1} {2:e2} ok\n", c.output, c.rule, c.value);
        continue;
      }
      pass = false;
      errs() << "flamia-sim: error: output '" << c.output << "': " << c.message
             << "\n";
    }
  }
  if (o.stats)
    printStats(outs(), result.stats);
  if (!o.jsonPath.empty())
    files.push_back(
        {o.jsonPath,
         formatv("{0:2}\n", json::Value(resultJson(result, comparisons, pass)))
             .str()});
  if (options.trace)
    files.push_back(
        {o.tracePath, chromeTrace(result.trace, file.module().fileName())});
  if (result.trace.truncated)
    errs() << "flamia-sim: warning: the trace stops after " << sim::Trace::limit
           << " events; choose fewer CTAs with --ctas\n";
  if (!o.digestPath.empty()) {
    std::string text;
    for (auto [line, digest] : result.orderDigest)
      text += formatv("{0} {1:x16}\n", line, digest).str();
    files.push_back({o.digestPath, std::move(text)});
  }
  if (Error e = writeFiles(files))
    return fail(toString(std::move(e)));
  return pass ? 0 : 1;
}
