//===- flamia-model.cpp - Modelled cycles of compiled kernels -------------===//
//
// flamia-model NAME.json... reports what flamia's kernels do per score tile and
// role, and how many cycles that takes by the model (docs/model.md). With
// --launch twice it does the same for PTX of any compiler. flamiac --report
// starts it on what it has compiled.
//
//===----------------------------------------------------------------------===//

#include "LaunchFile.h"
#include "Workloads.h"

#include "flamia/Model/Kernel.h"
#include "flamia/Model/Picture.h"
#include "flamia/Model/Published.h"
#include "flamia/Support/Files.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace flamia;
using namespace flamia::model;

static const char usage[] =
    R"(usage: flamia-model [options] RECORD.json...
       flamia-model [options] --ptx=F [--cubin=F] --arch=A
                    --launch=FILE:TILES:ROWS --launch=FILE:TILES:ROWS
       flamia-model --workloads=F.json --kernels=DIR

Counts what compiled kernels do per 128 x 128 score tile and role (simulator and
machine code) and models their cycles (docs/model.md). Nothing is measured.

  RECORD.json       launch records made by flamiac, PTX and cubin beside them
  --launch=FILE:TILES:ROWS
                    a launch.json of another compiler's kernel (docs/simulator.md)
                    that computes TILES score tiles in ROWS rows of tiles; give
                    two that differ in TILES / ROWS
  --ptx=F, --cubin=F, --arch=A
                    that kernel's code; without --cubin ptxas assembles the PTX
  --machine=NAME    B200, B300, GB200 or GB300 instead of what the architecture
                    says
  --waits=N         name the N longest waits of every role in the replay
  --group=N         query heads of a kv head (1 where it is not given), for
                    records of kernels whose CTAs work for a kv head
  --json=F          write the figures as JSON
  --svg=F           draw the units of a tile by role
  --workloads=F, --kernels=DIR
                    a table of many workloads (bench/end_to_end) with the kernels
                    in DIR, or in DIR/sm_100a and DIR/sm_103a
  --calibration     print the law and its published points
  --help, --version
)";

namespace {
struct Launch {
  std::string path;
  double tiles = 0, rows = 0;
};
struct Options {
  std::vector<std::string> records;
  std::vector<Launch> launches;
  std::string ptx, cubin, arch, machine, json, svg, workloads, kernels;
  unsigned waits = 0, group = 1;
  bool calibration = false, help = false, version = false;
};
} // namespace

static int fail(const Twine &message) {
  errs() << "flamia-model: error: " << message << "\n";
  return 1;
}

static Error parse(ArrayRef<const char *> arguments, Options &o) {
  for (StringRef word : arguments) {
    if (!word.starts_with("-")) {
      o.records.push_back(word.str());
      continue;
    }
    auto [name, value] = word.ltrim('-').split('=');
    bool hasValue = word.contains('=');
    bool *flag = name == "calibration"           ? &o.calibration
                 : name == "help" || name == "h" ? &o.help
                 : name == "version"             ? &o.version
                                                 : nullptr;
    if (flag) {
      if (hasValue)
        return createStringError("option '--" + name + "' takes no value");
      *flag = true;
      continue;
    }
    std::string *text = name == "ptx"         ? &o.ptx
                        : name == "cubin"     ? &o.cubin
                        : name == "arch"      ? &o.arch
                        : name == "machine"   ? &o.machine
                        : name == "json"      ? &o.json
                        : name == "svg"       ? &o.svg
                        : name == "workloads" ? &o.workloads
                        : name == "kernels"   ? &o.kernels
                                              : nullptr;
    unsigned *number = name == "waits"   ? &o.waits
                       : name == "group" ? &o.group
                                         : nullptr;
    if (!text && !number && name != "launch")
      return createStringError("unknown option '" + word + "'");
    if (value.empty())
      return createStringError("option '--" + name + "' needs a value");
    if (number) {
      unsigned most = name == "waits" ? 1000 : 64;
      if (value.getAsInteger(10, *number) || *number < 1 || *number > most)
        return createStringError("--" + name + " is '" + value +
                                 "', expected an integer from 1 to " +
                                 Twine(most));
      continue;
    }
    if (text) {
      *text = value.str();
      continue;
    }
    Launch launch;
    auto [front, rows] = value.rsplit(':');
    auto [path, tiles] = front.rsplit(':');
    launch.path = path.str();
    if (tiles.getAsDouble(launch.tiles) || rows.getAsDouble(launch.rows) ||
        !(launch.tiles >= 0) || !(launch.rows > 0))
      return createStringError("--launch is '" + value +
                               "', expected FILE:TILES:ROWS");
    o.launches.push_back(std::move(launch));
  }
  return Error::success();
}

static json::Object unitsJson(const UnitCycles &units) {
  json::Object object;
  for (unsigned u = 0; u < numUnits; ++u)
    if (units.cycles[u] > 0)
      object[nameOf(Unit(u))] = units.cycles[u];
  return object;
}

static json::Object countsJson(const Counts &counts) {
  json::Array roles;
  for (const RoleCounts &role : counts.roles) {
    json::Object classes;
    for (const auto &[name, n] : role.classes)
      classes[name] = n;
    roles.push_back(json::Object{{"role", role.name},
                                 {"warps", int64_t(role.warps.size())},
                                 {"instructions", role.instructions},
                                 {"classes", std::move(classes)},
                                 {"units", unitsJson(role.units)}});
  }
  json::Object mma;
  for (const auto &[name, n] : counts.mma)
    mma[name] = n;
  return json::Object{{"roles", std::move(roles)},
                      {"units", unitsJson(counts.units())},
                      {"mma", std::move(mma)}};
}

static json::Object modelJson(const KernelModel &m, const Machine &machine) {
  json::Object object{{"kernel", m.counts.kernel},
                      {"machine", machine.name},
                      {"arch", machine.arch},
                      {"modelled", true},
                      {"row", countsJson(m.counts.row)},
                      {"row_cycles", m.rowCycles()},
                      {"bottleneck", m.bottleneck()}};
  json::Array agreement;
  for (const KernelCounts::Agreement &a : m.counts.agreement)
    agreement.push_back(
        json::Object{{"what", a.what}, {"ptx", a.ptx}, {"sass", a.sass}});
  object["agreement"] = std::move(agreement);
  if (m.hasTiles()) {
    object["tile"] = countsJson(m.counts.tile);
    json::Object times;
    for (const KernelModel::RoleTime &t : m.roleTimes)
      times[t.role] = json::Object{{"busy", t.busy}, {"waiting", t.waiting}};
    object["replay"] = json::Object{{"tensor_busy", m.tensorBusy},
                                    {"roles", std::move(times)}};
    object["tile_bound"] = m.counts.tile.units().bound();
    object["tile_overlapped"] = m.overlapped;
    object["tile_chain"] = m.chain;
    object["tile_cycles"] = m.tileCycles();
  }
  return object;
}

/// Runs one launch of another compiler's kernel with a profile.
static Expected<ProfiledLaunch> profileLaunch(const Launch &launch,
                                              std::string &entry) {
  simtool::LaunchFile file;
  if (Error error = file.load(launch.path))
    return std::move(error);
  sim::SimOptions options;
  options.checks = sim::CheckSet::none();
  options.stats = options.profile = true;
  sim::LaunchResult result =
      sim::launch(file.module(), file.memory(), file.config(), options);
  if (!result.ok())
    return createStringError(StringRef(result.errors.front().render()).trim());
  entry = file.config().entry;
  ProfiledLaunch profiled;
  profiled.profile = std::move(result.profile);
  profiled.stats = std::move(result.stats);
  profiled.tiles = launch.tiles;
  profiled.rows = launch.rows;
  return profiled;
}

static Expected<KernelModel> modelForeign(const Options &o, const Tools &tools,
                                          const Machine &machine) {
  std::string entry;
  Expected<ProfiledLaunch> first = profileLaunch(o.launches[0], entry);
  if (!first)
    return first.takeError();
  Expected<ProfiledLaunch> second = profileLaunch(o.launches[1], entry);
  if (!second)
    return second.takeError();
  Expected<SassFunction> code = loadSass(tools, o.ptx, o.cubin, entry, o.arch);
  if (!code)
    return code.takeError();
  bool swapped = first->tiles > second->tiles;
  return modelLaunches(*code, swapped ? *second : *first,
                       swapped ? *first : *second, machine);
}

static Expected<const Machine *> chooseMachine(const Options &o,
                                               StringRef arch) {
  if (o.machine.empty())
    return machineOf(arch);
  const Machine *machine = Machine::find(o.machine);
  if (!machine)
    return createStringError("unknown machine '" + o.machine +
                             "', expected B200, B300, GB200 or GB300");
  if (machine->arch != arch)
    return createStringError("the code is for " + arch + ", a " + o.machine +
                             " is " + machine->arch);
  return machine;
}

int main(int argc, char **argv) {
  Options o;
  if (Error error = parse(ArrayRef(argv + 1, argc - 1), o))
    return fail(toString(std::move(error)));
  if (o.help) {
    outs() << usage;
    return 0;
  }
  if (o.version) {
    outs() << "flamia-model " FLAMIA_VERSION " (LLVM " LLVM_VERSION_STRING
              ")\n";
    return 0;
  }
  if (o.calibration) {
    outs() << calibrationTable();
    return 0;
  }
  if (!o.workloads.empty()) {
    if (o.kernels.empty() || !o.records.empty() || !o.launches.empty())
      return fail("--workloads goes with --kernels=DIR alone");
    Expected<Tools> tools = findTools();
    if (!tools)
      return fail(toString(tools.takeError()));
    Expected<std::string> text = workloadTable(o.workloads, o.kernels, *tools);
    if (!text)
      return fail(toString(text.takeError()));
    outs() << *text;
    return 0;
  }
  if (o.records.empty() == o.launches.empty())
    return fail("expected launch records or --launch twice");
  if (!o.launches.empty() &&
      (o.launches.size() != 2 || o.ptx.empty() || o.arch.empty()))
    return fail("expected --launch twice, --ptx and --arch");
  Expected<Tools> tools = findTools();
  if (!tools)
    return fail(toString(tools.takeError()));
  json::Array list;
  std::vector<KernelModel> models;
  auto add = [&](Expected<KernelModel> model, const Machine &machine) -> Error {
    if (!model)
      return model.takeError();
    outs() << report(*model, machine, o.waits);
    list.push_back(modelJson(*model, machine));
    models.push_back(std::move(*model));
    return Error::success();
  };
  if (!o.launches.empty()) {
    Expected<const Machine *> machine = chooseMachine(o, o.arch);
    if (!machine)
      return fail(toString(machine.takeError()));
    if (Error error = add(modelForeign(o, *tools, **machine), **machine))
      return fail(toString(std::move(error)));
  }
  for (const std::string &path : o.records) {
    Expected<runtime::LaunchRecord> record = runtime::LaunchRecord::load(path);
    if (!record)
      return fail(toString(record.takeError()));
    Expected<const Machine *> machine = chooseMachine(o, record->arch);
    if (!machine)
      return fail(toString(machine.takeError()));
    unsigned group = isOverKvHeads(*record) ? o.group : 1;
    if (Error error =
            add(modelRecord(*record, *tools, **machine, group), **machine))
      return fail(path + ": " + toString(std::move(error)));
  }
  std::vector<OutputFile> files;
  if (!o.json.empty())
    files.push_back(
        {o.json, formatv("{0:2}\n", json::Value(std::move(list))).str()});
  if (!o.svg.empty())
    files.push_back({o.svg, picture(models)});
  if (Error error = writeFiles(files))
    return fail(toString(std::move(error)));
  return 0;
}
