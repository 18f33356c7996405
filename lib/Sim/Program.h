//===- Program.h - Decoded PTX ----------------------------------*- C++ -*-===//
//
// What the executor runs: one compact Instr per PTX instruction with a function
// pointer and operand offsets into the warp's structure-of-arrays register file
// (32 lanes of a register lie side by side) or into the constant bank.
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_PROGRAM_H
#define FLAMIA_LIB_SIM_PROGRAM_H

#include "PtxAst.h"
#include "flamia/Sim/Simulator.h"
#include "flamia/Sim/Units/Mma.h"
#include "flamia/Sim/Units/TensorMap.h"
#include "flamia/Sim/Units/Tmem.h"

#include <deque>

namespace flamia {
namespace sim {

constexpr uint32_t noIndex = ~0u;
constexpr unsigned warpLanes = 32;
constexpr uint32_t allLanes = ~0u;

// Windows of the generic address space. Everything global lies above 2^40.
constexpr uint64_t sharedWindow = 0x0000000100000000ull; // + rank << 24
constexpr uint64_t localWindow = 0x0000000200000000ull;
constexpr uint64_t paramWindow = 0x0000000300000000ull;
constexpr uint64_t windowSize = 0x0000000100000000ull;
constexpr uint64_t codeBase = 0x0000000400000000ull; // device functions
constexpr uint64_t codeStep = 16;
/// What alloca may take of a thread's local memory.
constexpr uint32_t stackBytes = 16384;
constexpr uint64_t moduleBase = 0x0000010000000000ull; // .global and .const
constexpr uint64_t bufferBase = 0x0000020000000000ull; // mapped buffers
/// As on hardware since sm_90, the first KiB of shared memory is reserved, so
/// that a null pointer is no valid address.
constexpr uint32_t sharedBase = 1024;

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  U16x2,
  S16x2,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F32x2,
  F64
};
unsigned bitsOfType(Type t);
bool isSignedType(Type t);
bool isFloatType(Type t);
/// The type named by a qualifier ("s32"), None when it is not one.
Type typeByName(llvm::StringRef name);

/// A place with 32 lanes: offset into the register file (bank 0) or into the
/// constant bank (bank 1). Predicates are one 32-bit mask.
struct Src {
  uint32_t bank : 1;
  uint32_t off : 31;
};

struct Exec;
struct Instr;

enum class Flow : uint8_t {
  Next,  ///< Go on with the next instruction.
  Jump,  ///< The fragment's pc was set.
  Block, ///< Stay here; the fragment's wait says what for.
  Yield, ///< Go on, but let others run first.
  Split, ///< Fragments were changed; choose again.
  Fail   ///< An error was reported.
};
using ExecFn = Flow (*)(Exec &, const Instr &, uint32_t mask);

enum class Unit : uint8_t {
  Alu,
  Fma,
  Xu,
  Convert,
  Memory,
  Shared,
  Control,
  Sync,
  Warp,
  Copy,
  Tensor,
  Tmem
};
const char *nameOfUnit(Unit u);

enum InstrFlags : uint16_t {
  /// `.aligned`: all live lanes of the warp must execute it together.
  flagAligned = 1,
  /// Passes on definedness instead of requiring defined sources
  /// (Instr::copies):
  /// LLVM computes with undefined values whose results nobody uses.
  flagCopiesUndef = 2,
  /// Changes something that another thread can see.
  flagEffect = 4,
  /// Runs even when the guard is false for all lanes.
  flagAlways = 8,
  /// Writes its ready masks itself (tcgen05.ld).
  flagOwnDefs = 16,
  /// A guarded instruction whose guard differs in the warp (bra).
  flagBranch = 32,
};

/// How an instruction that moves bits passes on which of them are defined. A
/// 64-bit register keeps two states, one a half.
enum class Copies : uint8_t {
  All,      ///< Defined when all sources are (arithmetic)
  Any,      ///< Defined when any source is: bytes nobody reads may be undefined
  Halves,   ///< Half by half (mov.b64, f32x2 arithmetic)
  PackPair, ///< {target, reconverge} -> the halves of a 64-bit register
  UnpackPair ///< the halves of a 64-bit register -> {target, reconverge}
};

struct Instr {
  ExecFn fn = nullptr;
  Src dst[2] = {};
  Src src[4] = {};
  uint32_t vecBegin = 0, vecCount = 0; ///< Into Kernel::vec.
  uint32_t useBegin = 0, useCount = 0; ///< Registers read; Kernel::regLists.
  uint32_t defBegin = 0, defCount = 0; ///< Registers written.
  int64_t imm = 0;
  uint32_t aux = 0;         ///< Family-specific flags.
  uint32_t extra = noIndex; ///< Index into a family's side table.
  /// Branches: where to, and where the ways meet. Copies of pairs: registers.
  uint32_t target = noIndex, reconverge = noIndex;
  uint32_t line = 0, loc = 0;
  uint32_t opcode = 0; ///< Index into Program::opcodes.
  Src guard = {};
  uint32_t guardReg = noIndex;
  uint16_t flags = 0;
  bool guardNegated = false;
  Type type = Type::None, type2 = Type::None;
  Unit unit = Unit::Alu;
  Copies copies = Copies::All;
  uint8_t space = 0; ///< AddrSpace of memory instructions.
  uint8_t bytes = 0; ///< Bytes of one element of a memory instruction.
};

/// Side table of cvt with narrow formats, tcgen05 and TMA instructions.
struct TensorInfo {
  MmaInstruction mma;
  Src a = {}, sfa = {}, sfb = {};
  int64_t offD = 0, offA = 0, offSfa = 0, offSfb = 0;
  bool enableNegated = false, aWide = true;
  TmemAccess access;
  /// tcgen05.ld.red: how the loaded registers of a thread are combined.
  enum Reduce : uint8_t { NoReduce, Min, Max } reduce = NoReduce;
  Type reduceType = Type::F32;
  bool reduceAbs = false, reduceNaN = false;
  CpShape cpShape = CpShape::S128x256b;
  CpFormat cpFormat = CpFormat::None;
};
/// An address operand with its own offset.
struct AddressOperand {
  Src base = {};
  bool wide = false;
  int64_t offset = 0;
};
struct CopyInfo {
  AddressOperand to, from, barrier;
  Src multicastMask = {}, bytes = {};
  bool reduce = false, gather = false, multicast = false, masked = false;
  bool pair = false; ///< .cta_group::2: the barrier may be the peer's.
  TmaReduce op = TmaReduce::Add;
  TmaType type = TmaType::U8;
};

/// An initial value of a special register.
enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtaIdX,
  ClusterCtaIdY,
  ClusterCtaIdZ,
  ClusterNctaIdX,
  ClusterNctaIdY,
  ClusterNctaIdZ,
  ClusterCtaRank,
  ClusterNctaRank,
  IsExplicitCluster,
  LanemaskEq,
  LanemaskLe,
  LanemaskLt,
  LanemaskGe,
  LanemaskGt,
  DynamicSmemSize,
  TotalSmemSize,
  AggrSmemSize,
  ReservedEnd, ///< Of the part of shared memory that programs may not use.
  Zero
};
/// Bytes of a thread's local memory.
struct LocalRange {
  uint32_t offset = 0, bytes = 0;
};
/// A device function of a kernel.
struct CalleeInfo {
  std::string name;
  uint64_t address = 0; ///< Of the function, for indirect calls.
  uint32_t entry = 0, firstRegister = 0, registerCount = 0;
  std::vector<LocalRange> params, returns;
  std::vector<LocalRange> variables; ///< All of its local memory.
  /// Register file places (offset, bytes) of a recursive function.
  std::vector<std::pair<uint32_t, uint32_t>> registers;
  bool recursive = false;
};
struct CallInfo {
  uint32_t callee = noIndex; ///< noIndex: indirect, by src[0].
  std::vector<LocalRange> args, results;
};

struct SpecialInit {
  Special what;
  uint32_t off;
  uint8_t bytes;
};

struct Kernel {
  std::string name;
  KernelInfo info;
  std::vector<Instr> code;
  std::vector<Src> vec;
  std::vector<uint32_t> regLists;
  std::vector<TensorInfo> tensor;
  std::vector<CopyInfo> copies;
  std::vector<std::vector<uint32_t>> branchTables;
  std::vector<CalleeInfo> callees;
  std::vector<CallInfo> calls;
  std::vector<std::string> regNames;
  /// Initial ready masks, two a register: a register of at most 32 bits (and
  /// one of 128) has only the first, the second is always set.
  std::vector<uint32_t> initialReady;
  std::vector<SpecialInit> specials;
  std::vector<uint8_t> constants; ///< Bank 1 of a CTA of rank 0.
  /// Offsets of 32-bit and 64-bit constants that hold shared addresses.
  std::vector<std::pair<uint32_t, uint8_t>> sharedConstants;
  uint32_t registerBytes = 0;
  uint32_t localBytes = 0;
  uint32_t stackBegin = 0; ///< Of alloca, behind the variables.
  bool usesStack = false;
  uint32_t sharedBytes = 0; ///< Static, without the reserved first KiB.
  uint32_t dynamicAlign = 16;
  uint32_t paramBytes = 0;
  std::vector<ptx::SourceLoc> locs;
  bool usesTensor = false;
  unsigned ctaGroup = 0; ///< Of all its tcgen05 instructions, 0: none has one.
  /// With setmaxnreg: registers that the values alive at each instruction need
  /// at least (Liveness.cpp). Empty without.
  std::vector<uint16_t> pressure;
  bool setsRegisters = false; ///< Has a setmaxnreg.
};

/// A .global or .const variable at its simulated address.
struct ModuleVariable {
  std::string name;
  uint64_t address = 0, bytes = 0;
  bool constant = false;
  std::vector<uint8_t> init;
};

struct Program {
  std::string fileName;
  std::vector<std::string> opcodes;
  std::vector<std::pair<unsigned, std::string>> files;
  std::deque<Kernel> kernels;
  std::vector<ModuleVariable> variables;
  MmaArch arch = MmaArch::SM100a;
  unsigned smVersion = 100; ///< 90, 100, 103
  char targetSuffix = 0;    ///< a or f
  unsigned ptxVersion = 0;  ///< Ten times the .version.
};

/// Decodes a parsed module. Errors as Module::parse.
llvm::Error decodeModule(const ptx::ModuleAst &ast, Program &program);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_PROGRAM_H
