//===- Kernel.cpp - The model of one compiled kernel ----------------------===//

#include "flamia/Model/Kernel.h"

#include "flamia/Model/Published.h"
#include "flamia/Schedule/WorkList.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <random>

namespace flamia {
namespace model {

using namespace llvm;
using runtime::Element;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

static bool isWorkList(const runtime::RecordArgument &a) {
  return a.isTensor && a.element == Element::I32 && a.dims.size() == 2 &&
         a.dims[1] == 4u && a.access == runtime::Access::Read;
}

static bool isCausal(const runtime::LaunchRecord &record) {
  auto it = record.parameters.find("causal");
  return it != record.parameters.end() && it->second == "true";
}

/// An extent by its name; those that have none grow with the launch when they
/// are the outermost.
static uint64_t extentOf(const runtime::RecordArgument &a, unsigned dim,
                         unsigned tiles, unsigned heads) {
  if (a.dims[dim])
    return *a.dims[dim];
  StringRef name;
  if (dim < a.dimNames.size())
    name = a.dimNames[dim];
  if (name.contains("heads"))
    return name == "heads" ? heads : 1;
  if (name.contains("tiles"))
    return tiles;
  if (name == "tokens")
    return uint64_t(tiles) * schedule::tileRows;
  return dim == 0 ? uint64_t(tiles) * schedule::tileRows : schedule::tileRows;
}

/// Small finite values of any element: what is computed does not matter, only
/// that rare ways (NaN, zeros) are not taken.
static void fill(std::vector<uint8_t> &bytes, Element element) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same in every run
  std::mt19937 random(1);
  for (size_t k = 0; k < bytes.size(); ++k) {
    uint8_t r = uint8_t(random() >> 13);
    switch (element) {
    case Element::F32:
      bytes[k] = k % 4 == 3 ? 0x3E | (r & 0x80) : k % 4 == 2 ? r : 0;
      break;
    case Element::BF16:
      bytes[k] = k % 2 ? 0x3F | (r & 0x80) : r;
      break;
    case Element::F16:
      bytes[k] = k % 2 ? 0x34 | (r & 0x80) : r;
      break;
    case Element::F8E8M0FNU:
      bytes[k] = 124 + (r & 3);
      break;
    case Element::F8E4M3FN:
      bytes[k] = r & 0xBF;
      break;
    default:
      bytes[k] = runtime::bitsOf(element) <= 8 ? r : 0;
    }
  }
}

namespace {
struct Buffer {
  std::vector<uint8_t> bytes;
};
} // namespace

bool isOverKvHeads(const runtime::LaunchRecord &record) {
  const runtime::GridExtent &y = record.grid[1];
  if (!y.fromArgument)
    return false;
  const std::vector<std::string> &names = record.arguments[y.argument].dimNames;
  return y.dim < names.size() && names[y.dim] == "kv_heads";
}

bool hasRowsOfKeys(const runtime::LaunchRecord &record) {
  return isOverKvHeads(record) &&
         none_of(record.arguments, [](const runtime::RecordArgument &a) {
           return a.isTensor && a.access != runtime::Access::Read &&
                  is_contained(a.dimNames, "heads");
         });
}

Expected<ProfiledLaunch> profileRecord(const runtime::LaunchRecord &record,
                                       unsigned tiles, unsigned heads) {
  Expected<std::unique_ptr<sim::Module>> module =
      sim::Module::load(record.ptxPath());
  if (!module)
    return module.takeError();
  std::vector<int64_t> offsets = {0, int64_t(tiles) * schedule::tileRows};
  schedule::WorkList work = schedule::buildWorkList(offsets, isCausal(record));
  sim::DeviceMemory memory;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<runtime::Argument> arguments;
  ProfiledLaunch result;
  for (const runtime::RecordArgument &a : record.arguments) {
    if (!a.isTensor && a.element != runtime::Element::F32)
      return createStringError(
          "kernel '" + record.kernel + "' takes " + a.name + ", a scalar of " +
          runtime::nameOf(a.element) +
          " for which no value is known: give launches (--launch) instead of "
          "its record");
    if (!a.isTensor) {
      arguments.push_back(runtime::Argument::number(a.name, 0.125));
      continue;
    }
    auto buffer = std::make_unique<Buffer>();
    std::vector<uint64_t> extents;
    if (isWorkList(a)) {
      extents = {work.items.size(), 4};
      const auto *first = reinterpret_cast<const uint8_t *>(work.items.data());
      buffer->bytes.assign(first, first + 16 * work.items.size());
    } else {
      for (unsigned d = 0; d < a.dims.size(); ++d)
        extents.push_back(extentOf(a, d, tiles, heads));
      buffer->bytes.resize(runtime::bytesOf(a.element, extents));
      result.argumentBytes += double(buffer->bytes.size()) *
                              (a.access == runtime::Access::ReadWrite ? 2 : 1);
      fill(buffer->bytes, a.element);
    }
    uint64_t address =
        memory.map(a.name, buffer->bytes.data(), buffer->bytes.size(),
                   sim::BufferAccess::ReadWrite);
    arguments.push_back(runtime::Argument::tensor(
        a.name, address, a.element, extents, buffer->bytes.size()));
    buffers.push_back(std::move(buffer));
  }
  Expected<runtime::BoundLaunch> bound =
      runtime::bindArguments(record, arguments);
  if (!bound)
    return bound.takeError();
  sim::LaunchConfig config;
  config.entry = record.entry;
  config.grid = bound->grid;
  config.block = record.block;
  config.cluster = record.cluster;
  config.dynamicShared = record.dynamicShared;
  for (runtime::BoundParameter &param : bound->params) {
    if (param.tensorMap) {
      const runtime::TensorMapRecipe &recipe = *param.tensorMap;
      sim::TensorMapSpec spec;
      spec.type = recipe.element == Element::F32    ? "f32"
                  : recipe.element == Element::BF16 ? "bf16"
                  : recipe.element == Element::F16  ? "f16"
                  : recipe.element == Element::I32  ? "s32"
                                                    : "u8";
      spec.address = recipe.address;
      spec.dims = recipe.dims;
      spec.strides = recipe.strides;
      spec.box = recipe.box;
      spec.swizzle = recipe.swizzle;
      Expected<std::vector<uint8_t>> bytes = memory.encodeTensorMap(spec);
      if (!bytes)
        return bytes.takeError();
      param.bytes = std::move(*bytes);
    }
    config.params.push_back(std::move(param.bytes));
  }
  sim::SimOptions options;
  options.checks = sim::CheckSet::none();
  options.stats = options.profile = true;
  sim::LaunchResult launched = sim::launch(**module, memory, config, options);
  if (!launched.ok())
    return createStringError(
        StringRef(launched.errors.front().render()).trim());
  result.profile = std::move(launched.profile);
  result.stats = std::move(launched.stats);
  result.rows = double(tiles) * (hasRowsOfKeys(record) ? 1 : heads);
  if (result.stats.macs)
    result.tiles = heads * (isCausal(record) ? tiles * (tiles + 1) / 2.0
                                             : double(tiles) * tiles);
  return result;
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

Expected<const Machine *> machineOf(StringRef arch) {
  if (arch == "sm_100a")
    return &Machine::b200();
  if (arch == "sm_103a")
    return &Machine::b300();
  return createStringError("no model for " + arch +
                           ": expected sm_100a (B200) or sm_103a (B300)");
}

std::string KernelModel::bottleneck() const {
  UnitCycles units = counts.tile.units();
  if (!hasTiles() || units.bound() <= 0)
    return nameOf(counts.row.units().bottleneck()).str();
  std::string unit = nameOf(units.bottleneck()).str();
  return chain > overlapped ? "serial chain" : unit;
}

static double macsOf(const sim::Profile &profile,
                     const sim::Profile::Cta &cta) {
  double macs = 0;
  for (const auto &events : cta.warps)
    for (const sim::Profile::Event &e : events)
      if (e.kind == sim::Profile::Event::Mma) {
        const sim::Profile::MmaShape &s = profile.shapes[e.a];
        macs += double(s.m) * s.n * s.k;
      }
  return macs;
}

/// The CTA with the most products (the most events where there are none), and
/// its share of the launch's products.
static const sim::Profile::Cta *longest(const sim::Profile &profile,
                                        double &share) {
  const sim::Profile::Cta *best = nullptr;
  double bestMacs = 0, all = 0;
  size_t bestEvents = 0;
  for (const sim::Profile::Cta &cta : profile.ctas) {
    double macs = macsOf(profile, cta);
    size_t events = 0;
    for (const auto &w : cta.warps)
      events += w.size();
    all += macs;
    if (!best || macs > bestMacs || (macs == bestMacs && events > bestEvents)) {
      best = &cta;
      bestMacs = macs;
      bestEvents = events;
    }
  }
  share = all > 0 ? bestMacs / all : 0;
  return best;
}

/// "mbarrier 0x12345, signalled by mma (commit)".
static std::string describe(const Timeline::Wait &wait,
                            const KernelCounts &counts) {
  using Event = sim::Profile::Event;
  if (wait.kind == Event::TmemWait)
    return "its own loads or stores of tensor memory";
  std::string who = "warp " + std::to_string(wait.signalWarp);
  for (const RoleCounts &role : counts.tile.roles)
    if (is_contained(role.warps, wait.signalWarp))
      who = role.name;
  const char *how = wait.signal == Event::Commit ? "products complete"
                    : wait.signal == Event::Load ? "bytes loaded"
                                                 : "arrival";
  const char *what = wait.kind == Event::NamedWait ? "barrier" : "mbarrier";
  return formatv("{0} {1:x}: {2} ({3})", what, wait.barrier & 0xFFFFFF, how,
                 who)
      .str();
}

/// Where a warp waits, as a combination of both launches.
static std::vector<KernelModel::RoleTime::Wait>
waitsOf(const Timeline::WarpTime &small, const Timeline::WarpTime &large,
        const KernelCounts &counts, const sim::Profile &profile, double ofSmall,
        double ofLarge) {
  std::vector<KernelModel::RoleTime::Wait> result;
  for (const auto &[place, wait] : large.waits) {
    auto before = small.waits.find(place);
    double cycles = wait.cycles * ofLarge;
    if (before != small.waits.end())
      cycles += before->second.cycles * ofSmall;
    unsigned line = place < profile.code.size() ? profile.code[place].line : 0;
    if (cycles >= 0.5)
      result.push_back({cycles, line, describe(wait, counts)});
  }
  llvm::sort(result, [](const auto &a, const auto &b) {
    return a.cycles != b.cycles ? a.cycles > b.cycles : a.line < b.line;
  });
  return result;
}

Expected<KernelModel> modelLaunches(const SassFunction &code,
                                    const ProfiledLaunch &small,
                                    const ProfiledLaunch &large,
                                    const Machine &machine) {
  Expected<KernelCounts> counts = count(code, small, large, machine);
  if (!counts)
    return counts.takeError();
  KernelModel result;
  result.counts = std::move(*counts);
  double tiles[2] = {}, cycles[2] = {};
  Timeline timelines[2];
  const ProfiledLaunch *launches[2] = {&small, &large};
  for (unsigned k = 0; k < 2; ++k) {
    const sim::Profile &profile = launches[k]->profile;
    double share = 0;
    const sim::Profile::Cta *cta = longest(profile, share);
    if (!cta)
      return createStringError("the launch has no CTA");
    BlockCounts blocks(code, profile);
    Expected<Timeline> timeline =
        replay({cta}, profile, blocks.instructionCosts(code, profile, machine),
               machine);
    if (!timeline)
      return timeline.takeError();
    tiles[k] = share * launches[k]->tiles;
    cycles[k] = timeline->cycles;
    timelines[k] = std::move(*timeline);
  }
  if (!large.profile.ctas.empty())
    result.rowsPerCta = large.rows / double(large.profile.ctas.size());
  const Law &law = calibratedLaw();
  result.rowUnits = law.steady(result.counts.row.units(), false);
  if (!result.hasTiles() || tiles[1] - tiles[0] < 0.5) {
    result.rowChain = cycles[1] / result.rowsPerCta;
    return result;
  }
  bool scaled = false;
  for (const auto &[name, n] : result.counts.tile.mma)
    scaled |= StringRef(name).starts_with("mx");
  result.overlapped = law.steady(result.counts.tile.units(), scaled);
  double perTile = 1 / (tiles[1] - tiles[0]);
  result.chain = (cycles[1] - cycles[0]) * perTile;
  result.tensorBusy =
      (timelines[1].tensorBusy - timelines[0].tensorBusy) * perTile;
  // What is beside the tiles: the larger launch less its tiles.
  double ofSmall = perTile * tiles[1] / result.rowsPerCta;
  double ofLarge = (1 - perTile * tiles[1]) / result.rowsPerCta;
  for (const RoleCounts &role : result.counts.tile.roles) {
    unsigned w = role.warps.front();
    const Timeline::WarpTime &a = timelines[0].warps[w],
                             &b = timelines[1].warps[w];
    auto add = [&](std::vector<KernelModel::RoleTime> &times, double forSmall,
                   double forLarge) {
      times.push_back(
          {role.name, a.busy * forSmall + b.busy * forLarge,
           a.waiting * forSmall + b.waiting * forLarge,
           waitsOf(a, b, result.counts, large.profile, forSmall, forLarge)});
    };
    add(result.roleTimes, -perTile, perTile);
    add(result.rowRoleTimes, ofSmall, ofLarge);
  }
  result.rowChain =
      std::max(0.0, cycles[1] - result.chain * tiles[1]) / result.rowsPerCta;
  return result;
}

Expected<KernelModel> modelRecord(const runtime::LaunchRecord &record,
                                  const Tools &tools, const Machine &machine,
                                  unsigned group) {
  // Even numbers, so that kernels of two tiles a CTA have no half empty one.
  unsigned tiles = group > 1 ? 4 : 6;
  // What the kernel takes for granted: multiples of the kv heads, of which
  // there is one here.
  for (const runtime::RecordCondition &condition : record.conditions)
    group = std::max(group, unsigned(condition.times));
  Expected<ProfiledLaunch> small = profileRecord(record, tiles, group);
  if (!small)
    return small.takeError();
  Expected<ProfiledLaunch> large = profileRecord(record, 2 * tiles, group);
  if (!large)
    return large.takeError();
  Expected<SassFunction> code = loadSass(
      tools, record.ptxPath(), record.cubinPath(), record.entry, record.arch);
  if (!code)
    return code.takeError();
  Expected<KernelModel> model = modelLaunches(*code, *small, *large, machine);
  if (model)
    model->counts.kernel = record.kernel;
  return model;
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

/// A row's tiles are counted as past tiles; what its diagonal tile has in other
/// numbers is left over, and can be less than nothing.
static bool hasNegative(const Counts &counts) {
  auto isNegative = [](const auto &named) { return named.second <= -0.5; };
  auto hasUnit = [](const UnitCycles &units) {
    return any_of(units.cycles, [](double cycles) { return cycles <= -0.5; });
  };
  return any_of(counts.mma, isNegative) || hasUnit(counts.units()) ||
         any_of(counts.roles, [&](const RoleCounts &role) {
           return role.instructions <= -0.5 ||
                  any_of(role.classes, isNegative) || hasUnit(role.units);
         });
}

static void printCounts(raw_ostream &os, const Counts &counts) {
  os << formatv("    {0,-10} {1,6} {2,8}", "role", "warps", "instr");
  static const char *const classes[] = {"mufu",    "fma",  "alu", "convert",
                                        "memory",  "tmem", "mma", "sync",
                                        "uniform", "other"};
  for (const char *name : classes)
    os << formatv(" {0,7}", name);
  os << "\n";
  for (const RoleCounts &role : counts.roles) {
    os << formatv("    {0,-10} {1,6} {2,8:f0}", role.name, role.warps.size(),
                  role.instructions);
    for (const char *name : classes) {
      auto it = role.classes.find(name);
      os << formatv(" {0,7:f0}", it == role.classes.end() ? 0 : it->second);
    }
    os << "\n";
  }
  os << "    cycles by unit:";
  UnitCycles units = counts.units();
  for (unsigned u = 0; u < numUnits; ++u)
    if (units.cycles[u] >= 0.5)
      os << formatv(" {0} {1:f0}", nameOf(Unit(u)), units.cycles[u]);
  os << "\n";
  for (const RoleCounts &role : counts.roles) {
    os << formatv("      {0,-10}", role.name);
    for (unsigned u = 0; u < numUnits; ++u)
      if (role.units.cycles[u] >= 0.5)
        os << formatv(" {0} {1:f0}", nameOf(Unit(u)), role.units.cycles[u]);
    os << "\n";
  }
  if (counts.mma.empty())
    return;
  os << "    products:";
  const char *separator = " ";
  for (const auto &[name, n] : counts.mma) {
    os << formatv("{0}{1:f1} x {2}", separator, n, name);
    separator = ", ";
  }
  os << "\n";
}

static void printTimes(raw_ostream &os, ArrayRef<KernelModel::RoleTime> times,
                       const char *separator) {
  for (const KernelModel::RoleTime &t : times)
    if (t.busy + t.waiting > 1) {
      os << formatv("{0}{1} busy {2:f0}, waiting {3:f0}", separator, t.role,
                    t.busy, t.waiting);
      separator = "; ";
    }
  os << "\n";
}

static void printWaits(raw_ostream &os, ArrayRef<KernelModel::RoleTime> times,
                       unsigned most, const char *unit) {
  if (all_of(times,
             [](const KernelModel::RoleTime &t) { return t.waits.empty(); }))
    os << "    no role waits half a cycle a " << unit << "\n";
  for (const KernelModel::RoleTime &t : times)
    for (const auto &wait : ArrayRef(t.waits).take_front(most))
      os << formatv("      {0,-10} waits {1,5:f0} cycles after PTX line "
                    "{2}: {3}\n",
                    t.role, wait.cycles, wait.line, wait.what);
}

std::string report(const KernelModel &model, const Machine &machine,
                   unsigned waits) {
  std::string text;
  raw_string_ostream os(text);
  const KernelCounts &c = model.counts;
  os << formatv("{0} on {1} ({2}), modelled\n", c.kernel, machine.name,
                machine.arch);
  if (model.hasTiles()) {
    UnitCycles units = c.tile.units();
    os << "  per 128 x 128 score tile (executed machine instructions):\n";
    printCounts(os, c.tile);
    os << formatv(
        "    bound {0:f0} cycles ({1}); as well overlapped as published "
        "kernels {2:f0}; in the order that the channels enforce "
        "{3:f0}\n",
        units.bound(), nameOf(units.bottleneck()), model.overlapped,
        model.chain);
    os << formatv("    replayed: tensor pipe busy {0:f0}", model.tensorBusy);
    printTimes(os, model.roleTimes, "; ");
    if (waits)
      printWaits(os, model.roleTimes, waits, "tile");
    os << formatv("    modelled {0:f0} cycles, limited by {1}\n",
                  model.tileCycles(), model.bottleneck());
  } else if (waits)
    os << "  no waits by tile: the kernel has no products\n";
  os << "  per row of 128 tokens, beside its tiles";
  if (hasNegative(c.row))
    os << " (below 0: the diagonal tile has fewer than a past tile)";
  os << ":\n";
  printCounts(os, c.row);
  os << formatv("    units {0:f0} cycles, replayed {1:f0} cycles\n",
                model.rowUnits, model.rowChain);
  if (waits && model.hasTiles()) {
    os << "    replayed:";
    printTimes(os, model.rowRoleTimes, " ");
    printWaits(os, model.rowRoleTimes, waits, "row");
  }
  os << "  PTX and machine code agree on:";
  for (const KernelCounts::Agreement &a : c.agreement)
    os << formatv(" {0} {1:f0}/{2:f0}", a.what, a.ptx, a.sass);
  os << "\n";
  return text;
}

} // namespace model
} // namespace flamia
