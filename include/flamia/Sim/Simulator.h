//===- Simulator.h - Executes PTX on the CPU --------------------*- C++ -*-===//
//
// The public interface of flamia's functional PTX simulator: parse a module,
// map host buffers into the simulated device's address space, launch a kernel,
// read errors and statistics. The execution model, the rules that are checked
// and their sources are described in docs/simulator.md.
//
// Typical use:
//
//   auto module = sim::Module::load("kernel.ptx");           // Expected<...>
//   sim::DeviceMemory memory;
//   uint64_t q = memory.map("q", host, bytes, sim::BufferAccess::Read);
//   sim::LaunchConfig config;
//   config.entry = "kernel"; config.block = {192, 1, 1};
//   config.params.push_back(sim::scalarParam(q));
//   sim::LaunchResult result = sim::launch(**module, memory, config, {});
//   for (const sim::Diagnostic &d : result.errors) errs() << d.render();
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_SIM_SIMULATOR_H
#define FLAMIA_SIM_SIMULATOR_H

#include "flamia/Sim/Profile.h"
#include "flamia/Sim/Trace.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace flamia {
namespace sim {

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

/// One `.param` of an entry, in declaration order.
struct KernelParamInfo {
  std::string name;
  uint32_t offset = 0; ///< Byte offset in the parameter space.
  uint32_t size = 0;   ///< Bytes.
  uint32_t align = 0;  ///< Bytes.
};

/// What a launch needs to know about an entry.
struct KernelInfo {
  std::string name;
  std::vector<KernelParamInfo> params;
  std::array<uint32_t, 3> requiredBlock = {0, 0, 0}; ///< .reqntid, 0 = absent.
  std::array<uint32_t, 3> maxBlock = {0, 0, 0};      ///< .maxntid, 0 = absent.
  std::array<uint32_t, 3> requiredCluster = {0, 0, 0}; ///< .reqnctapercluster.
  uint32_t minCtasPerSm = 0;                           ///< .minnctapersm.
  uint32_t maxRegisters = 0;                           ///< .maxnreg.
  uint32_t staticSharedBytes = 0;
};

struct Program; // Decoded code, private to lib/Sim.

/// A parsed and decoded PTX module. Immutable; may be launched from several
/// threads at the same time, each with its own DeviceMemory.
class Module {
public:
  /// Parses PTX text. `fileName` is used in messages only. Errors carry one
  /// message of the form "file.ptx:LINE: error: ..." and name unknown
  /// instructions and qualifiers; nothing is skipped silently.
  static llvm::Expected<std::unique_ptr<Module>>
  parse(llvm::StringRef text, llvm::StringRef fileName);
  /// Reads `path` and parses it.
  static llvm::Expected<std::unique_ptr<Module>> load(llvm::StringRef path);
  ~Module();

  llvm::ArrayRef<KernelInfo> kernels() const { return kernelInfos; }
  /// Null when there is no such entry.
  const KernelInfo *findKernel(llvm::StringRef name) const;
  const Program &program() const { return *decoded; }
  /// As given to parse(), for messages.
  llvm::StringRef fileName() const;

private:
  Module();
  std::vector<KernelInfo> kernelInfos;
  std::unique_ptr<Program> decoded;
};

//===----------------------------------------------------------------------===//
// Device memory and parameters
//===----------------------------------------------------------------------===//

/// What a kernel may do with a mapped buffer. A `Write` buffer holds no defined
/// bytes before the kernel writes them: reading such a byte is an error.
enum class BufferAccess { Read, Write, ReadWrite };

/// Arguments of cuTensorMapEncodeTiled (facts/tcgen05.md section 9.2): extents
/// and box innermost first, strides of dimensions 1.. in bytes.
struct TensorMapSpec {
  /// One of u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32_ftz tf32 tf32_ftz
  /// 16u4_align8b 16u4_align16b 16u6_align16b.
  std::string type = "u8";
  uint64_t address = 0;                 ///< Simulated device address.
  std::vector<uint64_t> dims;           ///< rank entries, 1..2^32.
  std::vector<uint64_t> strides;        ///< rank - 1 entries, bytes.
  std::vector<uint32_t> box;            ///< rank entries, 1..256.
  std::vector<uint32_t> elementStrides; ///< rank entries, or empty for all 1.
  std::string swizzle = "none";         ///< none 32B 64B 128B 128B_ATOM_32B ...
  std::string interleave = "none";      ///< none 16B 32B.
  std::string oobFill = "zero";         ///< zero, nan.
};

/// The simulated global address space: host buffers at 64-bit addresses (all
/// above 2^32, 512-byte aligned, at least 1 MiB of unmapped guard between
/// them). Buffers stay the caller's; they must outlive the launches.
class DeviceMemory {
public:
  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  struct Region {
    std::string name;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint8_t *host = nullptr;
    BufferAccess access = BufferAccess::ReadWrite;
    /// One byte per byte of a Write buffer, nonzero once written; else null.
    std::unique_ptr<uint8_t[]> written;
  };

  /// Maps `bytes` bytes at `host`, returns the device address. A buffer of zero
  /// bytes gets an address too; no byte of it may be touched.
  uint64_t map(llvm::StringRef name, void *host, uint64_t bytes,
               BufferAccess access);
  /// Removes a mapping made by map(); the address is not used again.
  void unmap(uint64_t address);

  /// Checks the rules of cuTensorMapEncodeTiled and returns the 128 opaque
  /// bytes to pass as a `.param .align 64 .b8 x[128]` (TensorMap::toBytes of
  /// flamia/Sim/Units/TensorMap.h).
  llvm::Expected<std::vector<uint8_t>>
  encodeTensorMap(const TensorMapSpec &spec);

  /// The region that contains `address`, or null.
  Region *find(uint64_t address);
  /// The region with the largest address <= `address`, or null (for messages).
  Region *nearestBelow(uint64_t address);
  /// Says where an unmapped address lies, for messages.
  std::string describe(uint64_t address);
  /// Maps at a fixed address (module variables of a launch).
  void mapAt(llvm::StringRef name, uint64_t address, void *host, uint64_t bytes,
             BufferAccess access);

private:
  std::map<uint64_t, Region> regions;
  uint64_t nextAddress;
};

/// The little-endian bytes of a scalar or pointer parameter.
template <typename T>
std::vector<uint8_t> scalarParam(T value) {
  std::vector<uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

struct LaunchConfig {
  std::string entry;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t dynamicShared = 0; ///< Bytes.
  /// One byte string per PTX parameter, in order; sizes must match.
  std::vector<std::vector<uint8_t>> params;
};

/// When asynchronous operations (TMA, bulk and cp.async copies, tcgen05.mma,
/// cp, commit, ld, st) are executed: at issue, as late as legal, or at random.
enum class AsyncMode { Eager, Late, Random };

/// Rules that can be switched on and off; names for --checks in
/// docs/simulator.md.
enum class Check : unsigned {
  Bounds,      ///< Out-of-bounds access of any space.
  Alignment,   ///< Misaligned access.
  Uninit,      ///< Read of undefined register, memory or TMEM contents.
  TmemWait,    ///< Use of a tcgen05.ld destination before tcgen05.wait::ld.
  TmemAlloc,   ///< Columns not allocated, misuse of alloc/dealloc, leaks.
  TmemLanes,   ///< tcgen05.ld/st of lanes outside the warp's quarter.
  Converge,    ///< .aligned instructions executed by part of a warp.
  Barrier,     ///< mbarrier misuse: not initialised, too many arrivals, ...
  Descriptor,  ///< Illegal MMA descriptors and tensor-map use.
  Readonly,    ///< Write to a buffer that the kernel may only read.
  SetMaxNReg,  ///< Misuse of setmaxnreg; more registers than it leaves.
  Race,        ///< Conflicting accesses that nothing orders.
  ProxyFence,  ///< Generic writes seen by the async proxy without a fence.
  TensorFence, ///< Missing tcgen05.fence around thread synchronisation.
  PtxOrder,    ///< Only the tensor-pipe order that PTX promises (not in `all`).
};

class CheckSet {
public:
  /// Everything except PtxOrder.
  static CheckSet all();
  static CheckSet none() { return CheckSet(); }
  /// All names for --checks, in the order of the enumeration.
  static std::vector<llvm::StringRef> names();
  /// Parses "all", "none" or a comma-separated list of names, each of which may
  /// be preceded by '-' to take it out ("all,-uninit").
  static llvm::Expected<CheckSet> parse(llvm::StringRef list);
  bool has(Check c) const { return bits >> unsigned(c) & 1; }
  void set(Check c, bool on = true) {
    bits = on ? bits | 1u << unsigned(c) : bits & ~(1u << unsigned(c));
  }

private:
  uint32_t bits = 0;
};

/// A range of linear CTA numbers (x fastest), both ends included.
struct CtaRange {
  uint64_t first = 0, last = 0;
};
/// Parses "7", "0-15" or a comma-separated list of those.
llvm::Expected<std::vector<CtaRange>> parseCtaRanges(llvm::StringRef text);

struct SimOptions {
  AsyncMode async = AsyncMode::Eager;
  uint64_t seed = 0; ///< For AsyncMode::Random.
  CheckSet checks = CheckSet::all();
  std::vector<CtaRange> ctas; ///< Empty: all CTAs.
  unsigned threads = 0;       ///< Host threads; 0: hardware concurrency.
  bool stats = false;         ///< Collect SimStats.
  /// Collect LaunchResult::trace; the launch then runs on one host thread.
  bool trace = false;
  /// Collect LaunchResult::profile; needs AsyncMode::Eager and runs on one host
  /// thread.
  bool profile = false;
  /// Sum MMA products as plain fp32 instead of the bit-accurate model.
  bool plainAccumulation = false;
  /// Collect LaunchResult::orderDigest (docs/simulator-races.md).
  bool orderDigest = false;
  /// Warp instructions without any visible effect after which a CTA (cluster)
  /// is declared stuck.
  uint64_t progressLimit = 50000000;
  /// Warp instructions of a cluster after which it is stopped with an error,
  /// for code that nobody vouches for; 0: no limit.
  uint64_t instructionLimit = 0;
};

/// One violated rule (or a deadlock report).
struct Diagnostic {
  std::string file;
  unsigned line = 0;   ///< PTX line, 0 when there is none.
  std::string message; ///< Lower case, no full stop.
  std::string source;  ///< "file:line" from .loc, may be empty.
  std::string check;   ///< Name of the violated check, may be empty.
  std::array<uint32_t, 3> cta = {0, 0, 0};
  bool hasCta = false;
  int warp = -1, lane = -1; ///< -1: not known.
  std::vector<std::string> notes;

  /// "file.ptx:12: error: message [cta (0,0,0), warp 1, lane 3]" and one line
  /// per note, each ended by a newline.
  std::string render() const;
};

/// One tcgen05.mma as issued.
struct MmaRecord {
  unsigned line = 0;
  std::string kind; ///< f16, mxf8f6f4, ...
  unsigned m = 0, n = 0, k = 0;
  unsigned dColumn = 0;
  bool aFromTmem = false, accumulate = false;
};

struct SimStats {
  uint64_t ctas = 0;
  uint64_t instructions = 0; ///< Warp instructions.
  std::map<std::string, uint64_t> byOpcode;
  std::map<std::string, uint64_t> byUnit; ///< alu fma xu lsu ...
  /// By warp of the CTA and unit, summed over CTAs: what each role does.
  std::vector<std::map<std::string, uint64_t>> byWarp;
  std::map<std::string, uint64_t> bytes; ///< global.load, tma.load, ...
  std::map<std::string, uint64_t> mma;   ///< "mxf8f6f4 128x128x32" -> count.
  uint64_t macs = 0;                     ///< Multiply-adds of tcgen05.mma.
  /// MMAs of the first simulated CTA in issue order, at most 4096.
  std::vector<MmaRecord> mmaOrder;
  /// Operations issued whose completion no thread has yet observed on an
  /// mbarrier; maxima over all CTAs.
  uint64_t maxMmaInFlight = 0, maxTmaLoadsInFlight = 0;
  /// mbarrier phases with unobserved TMA loads ("stages").
  uint64_t maxTmaStagesInFlight = 0;
  double seconds = 0;

  void add(const SimStats &other);
};

struct LaunchResult {
  /// Errors in CTA order; empty when the launch ran to its end.
  std::vector<Diagnostic> errors;
  SimStats stats;
  Trace trace;
  Profile profile;
  /// By PTX line: a digest of what orders its accesses after earlier ones of
  /// the same bytes, and of the barrier phases that it signals or waits for. It
  /// does not depend on the schedule.
  std::map<unsigned, uint64_t> orderDigest;
  bool ok() const { return errors.empty(); }
};

/// Runs the kernel to its end or to the first error of the lowest failing CTA.
/// Never exits or throws; a bad configuration is an error of the result.
LaunchResult launch(const Module &module, DeviceMemory &memory,
                    const LaunchConfig &config, const SimOptions &options);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_SIM_SIMULATOR_H
