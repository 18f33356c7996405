//===- Decoder.h - From parsed PTX to the executor's form -------*- C++ -*-===//
//
// The core of the decoder (registers, constants, names, control flow) and the
// interface that the instruction families use. A family's decode function
// returns true when the opcode is not its own; errors are recorded with fail().
//
//===----------------------------------------------------------------------===//
#ifndef FLAMIA_LIB_SIM_DECODER_H
#define FLAMIA_LIB_SIM_DECODER_H

#include "Program.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

namespace flamia {
namespace sim {

class Decoder {
public:
  Decoder(const ptx::ModuleAst &ast, Program &program)
      : ast(ast), program(program) {}
  llvm::Error run();

  // ---- For the families: the instruction being decoded.
  const ptx::Instruction *in = nullptr;
  Instr *out = nullptr;
  Kernel *kernel = nullptr;
  const ptx::Function *fn = nullptr;
  Program &prog() { return program; }

  /// First part of the opcode ("add").
  llvm::StringRef base() const { return in->parts.front(); }
  /// Removes a qualifier; false when it is not there.
  bool take(llvm::StringRef qualifier);
  /// Removes and returns the first of `names` that is there, else "".
  llvm::StringRef takeAny(llvm::ArrayRef<llvm::StringRef> names);
  /// Removes the first qualifier that begins with `prefix`, else "".
  llvm::StringRef takePrefix(llvm::StringRef prefix);
  /// Removes the last qualifier when it names a type; None otherwise.
  Type takeType();
  /// As takeType, but records an error when there is none.
  bool needType(Type &type);
  /// Removes and returns the last qualifier, "" when none is left.
  llvm::StringRef takeLast() {
    return quals.empty() ? llvm::StringRef() : quals.pop_back_val();
  }
  bool qualifierLeft() const { return !quals.empty(); }
  llvm::StringRef lastQualifier() const {
    return quals.empty() ? llvm::StringRef() : quals.back();
  }

  /// Records the first error; always returns false, so that decode functions
  /// can end with it.
  bool fail(const llvm::Twine &message);
  bool failed() const { return !errorText.empty(); }
  /// "unknown form of 'x'": the qualifiers do not make an instruction.
  bool failForm();

  size_t numOps() const { return in->operands.size(); }
  const ptx::Operand &op(size_t i) const { return in->operands[i]; }
  /// Checks the number of operands.
  bool expectOps(size_t low, size_t high);
  bool expectOps(size_t n) { return expectOps(n, n); }

  /// A register to write. Sinks get a scratch place. With `wider` the register
  /// may be larger than the type (ld, cvt).
  bool dst(const ptx::Operand &o, unsigned bits, Src &s, bool wider = false);
  /// A register to read, an immediate of this type, or a variable's address.
  bool src(const ptx::Operand &o, Type type, Src &s, bool wider = false);
  bool predDst(const ptx::Operand &o, Src &s);
  /// A predicate to read: register, or an immediate 0/1. `!p` sets `negated`,
  /// which must not be null then.
  bool predSrc(const ptx::Operand &o, Src &s, bool *negated = nullptr);
  /// An immediate integer.
  bool immediate(const ptx::Operand &o, int64_t &value, const char *what);
  /// An address: base place (32 or 64 bits, as told by `bits64`) and offset in
  /// out->imm. Coordinates stay in the operand.
  bool address(const ptx::Operand &o, Src &s, bool &bits64);
  bool address(const ptx::Operand &o, AddressOperand &a) {
    bool ok = address(o, a.base, a.wide);
    a.offset = out->imm;
    out->imm = 0;
    return ok;
  }
  /// Appends the elements of a vector operand (or a single one) to Kernel::vec,
  /// as `one` decodes them.
  bool vectorOf(const ptx::Operand &o,
                llvm::function_ref<bool(const ptx::Operand &, Src &)> one);
  bool vectorDst(const ptx::Operand &o, unsigned bits, bool wider = false);
  bool vectorSrc(const ptx::Operand &o, Type type, bool wider = false);
  /// The bits of a register operand; 0 for anything else.
  unsigned regBits(const ptx::Operand &o) const;
  /// Branch target by label, resolved through the scopes.
  bool label(llvm::StringRef name, uint32_t &target);
  /// A place holding the same value in all lanes.
  Src constant(uint64_t value, unsigned bits, bool sharedAddress = false);
  Src predConstant(bool value) { return constant(value ? allLanes : 0, 1); }
  /// Scratch place for results nobody reads.
  Src scratch(unsigned bits);
  /// Records that register `reg` is read or written.
  void use(uint32_t reg) { uses.push_back(reg); }
  void def(uint32_t reg) { defs.push_back(reg); }
  /// Space of a variable named by an operand's base, if it names one.
  bool nameValue(llvm::StringRef name, unsigned scope, uint64_t &value,
                 ptx::Space &space);
  /// True when the last address() named local memory or a parameter of a call.
  bool localAddress = false;
  /// The bytes of a call's parameter variable.
  bool callVariable(const ptx::Operand &o, LocalRange &range);
  /// Index into Kernel::callees, noIndex when `name` is none of them.
  uint32_t calleeByName(llvm::StringRef name) const;

private:
  bool decodeKernel();
  bool layoutModule();
  bool layoutRegisters();
  bool layoutShared();
  void layoutCallees();
  bool decodeInstruction();
  /// Availability.cpp: reads .target and .version; whether the instruction
  /// being decoded exists for them.
  bool readVersion();
  bool checkAvailable();
  bool specialRegister(llvm::StringRef name, unsigned bits, Src &s);
  void buildControlFlow();
  Src regPlace(uint32_t reg) const { return {0, regOffsets[reg]}; }
  uint32_t allocRegister(unsigned bits);
  uint32_t opcodeIndex(llvm::StringRef name);
  uint64_t immediateBits(const ptx::Operand &o, Type type, bool &ok);

  const ptx::ModuleAst &ast;
  Program &program;
  llvm::SmallVector<llvm::StringRef, 8> quals;
  std::vector<uint32_t> uses, defs;
  std::vector<uint32_t> regOffsets;
  std::map<std::pair<uint64_t, unsigned>, Src> constantPool;
  llvm::StringMap<Src> specialPlaces;
  llvm::StringMap<uint32_t> opcodeIds;
  llvm::StringMap<uint64_t> moduleAddresses; ///< .global and .const
  llvm::StringMap<uint32_t> sharedOffsets;   ///< Module-level .shared
  std::vector<uint64_t> bodyOffsets;         ///< Per Function::variables.
  std::map<unsigned, uint32_t> scratchPlaces;
  std::string errorText;
  unsigned errorLine = 0;
};

// The families. Each returns false when the opcode is not its own; otherwise it
// has filled in `out` or recorded an error.
bool decodeInteger(Decoder &d);
bool decodeLogic(Decoder &d);
bool decodeFloat(Decoder &d);
bool decodeHalf(Decoder &d);
bool decodeMath(Decoder &d);
bool decodeCompare(Decoder &d);
bool decodeConvert(Decoder &d);
/// cvt.rs and cvt.pack, for decodeConvert.
bool decodeConvertRandom(Decoder &d);
bool decodeMove(Decoder &d);
bool decodeControl(Decoder &d);
bool decodeRegisters(Decoder &d);
bool decodeCall(Decoder &d);
bool decodeAsyncStore(Decoder &d);
bool decodeMemory(Decoder &d);
bool decodeAtomic(Decoder &d);
bool decodeMatrix(Decoder &d);
bool decodeMmaSync(Decoder &d);
bool decodeTensorMap(Decoder &d);
bool decodeLaunchControl(Decoder &d);
bool decodeWarp(Decoder &d);
bool decodeBarrier(Decoder &d);
bool decodeMbarrier(Decoder &d);
bool decodeCopy(Decoder &d);
bool decodeTensor(Decoder &d);

} // namespace sim
} // namespace flamia

#endif // FLAMIA_LIB_SIM_DECODER_H
