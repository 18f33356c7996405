//===- FilesTarget.cpp - launch.json, launch records, .npy ----------------===//

#include "Targets.h"

#include "flamia/Runtime/LaunchRecord.h"
#include "tools/flamia-sim/LaunchFile.h"
#include "tools/flamia-sim/StatsReport.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstdlib>

using namespace llvm;
using namespace flamia;

static const char kernelText[] = R"(.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.b64 %d0, [y];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d1, %r0, 4;
  add.u64 %d0, %d0, %d1;
  st.global.b32 [%d0], %r0;
  ret;
}
.visible .entry m(.param .align 64 .b8 x[128])
{
  ret;
}
)";

static const char recordText[] = R"({"flamia_launch_record": 1, "kernel": "k",
 "entry": "k", "arch": "sm_100a", "numerics": 1, "ptx": "k.ptx",
 "block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 0,
 "grid": [1, {"arg": "x", "dim": 0, "tile": 32}, 1],
 "args": [{"name": "x", "kind": "tensor", "element": "f32", "dims": [null],
           "access": "read"},
          {"name": "y", "kind": "tensor", "element": "f32", "dims": [64],
           "access": "write"},
          {"name": "n", "kind": "scalar", "element": "i32"}],
 "params": [{"pointer": "x"}, {"pointer": "y"}, {"scalar": "n"}]}
)";

namespace {
/// A folder with the files that a launch may name; made once.
class Folder {
public:
  Folder() {
    SmallString<128> made;
    // Memory, where there is such a file system: an input is a few files.
    const char *base = sys::fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    if (sys::fs::createUniqueDirectory(std::string(base) + "/flamia-fuzz",
                                       made))
      std::abort();
    path = made.str().str();
    write("k.ptx", kernelText);
    write("r.json", recordText);
    std::vector<uint8_t> floats(256, 1);
    write("x.npy", sim::encodeNpy('f', 4, {64}, floats));
    write("e.npy", sim::encodeNpy('f', 4, {64}, floats));
    write("b.npy", sim::encodeNpy('u', 1, {16, 16}, floats));
    write("h.npy", sim::encodeNpy('u', 2, {128}, floats));
  }
  ~Folder() { (void)sys::fs::remove_directories(path); }
  std::string at(const char *name) const { return path + "/" + name; }
  void write(const char *name, StringRef bytes) const {
    std::error_code failure;
    raw_fd_ostream stream(at(name), failure);
    if (failure)
      std::abort();
    stream << bytes;
  }

private:
  std::string path;
};
} // namespace

/// The whole way of flamia-sim, up to writing files.
static void runLaunch(const std::string &path) {
  simtool::LaunchFile file;
  if (Error e = file.load(path)) {
    consumeError(std::move(e));
    return;
  }
  const sim::LaunchConfig &c = file.config();
  // Large launches are legal and slow.
  if (uint64_t(c.grid[0]) * c.grid[1] * c.grid[2] > 16)
    return;
  sim::SimOptions options;
  options.threads = 1;
  options.stats = true;
  options.instructionLimit = 3000;
  sim::LaunchResult result;
  if (!file.empty())
    result = sim::launch(file.module(), file.memory(), c, options);
  (void)file.outputFiles();
  Expected<std::vector<simtool::Comparison>> compared = file.compare();
  if (!compared) {
    consumeError(compared.takeError());
    return;
  }
  std::string text;
  raw_string_ostream os(text);
  os << json::Value(simtool::resultJson(result, *compared, result.ok()));
  simtool::printStats(os, result.stats);
}

void fuzz::runFiles(StringRef bytes) {
  static Folder folder;
  if (bytes.empty())
    return;
  char kind = bytes.front();
  bytes = bytes.drop_front();
  if (kind == 'l') {
    folder.write("launch.json", bytes);
    runLaunch(folder.at("launch.json"));
  } else if (kind == 'r') {
    Expected<runtime::LaunchRecord> record =
        runtime::LaunchRecord::parse(bytes, "record.json");
    if (!record) {
      consumeError(record.takeError());
      return;
    }
    // What follows from a record for tensors of its own ranks.
    std::vector<runtime::Argument> arguments;
    for (const runtime::RecordArgument &a : record->arguments) {
      if (!a.isTensor) {
        arguments.push_back(runtime::Argument::number(a.name, 1));
        continue;
      }
      std::vector<uint64_t> shape;
      for (std::optional<uint64_t> extent : a.dims)
        shape.push_back(extent.value_or(160));
      arguments.push_back(
          runtime::Argument::tensor(a.name, 1ull << 41, a.element, shape));
    }
    Expected<runtime::BoundLaunch> bound =
        runtime::bindArguments(*record, arguments);
    if (!bound)
      consumeError(bound.takeError());
  } else if (kind == 'n') {
    Expected<sim::NpyArray> array = sim::parseNpy(bytes, "input.npy");
    if (!array) {
      consumeError(array.takeError());
      return;
    }
    if (array->elements() < (1u << 20)) {
      (void)array->asDoubles();
      (void)array->typeName();
    }
    // What was read can be written and read again.
    std::string again = sim::encodeNpy(array->kind, array->elementBytes,
                                       array->shape, array->data);
    Expected<sim::NpyArray> second = sim::parseNpy(again, "again.npy");
    if (!second || second->shape != array->shape ||
        second->data != array->data || second->kind != array->kind)
      std::abort();
  } else if (kind == 'o') {
    auto [checks, ctas] = bytes.split('\n');
    Expected<sim::CheckSet> set = sim::CheckSet::parse(checks);
    if (!set)
      consumeError(set.takeError());
    Expected<std::vector<sim::CtaRange>> ranges = sim::parseCtaRanges(ctas);
    if (!ranges)
      consumeError(ranges.takeError());
  }
}
