//===- ConvertFlamiaToNVVM.h - Lowering of one kernel -----------*- C++ -*-===//
//
// Private to the pass convert-flamia-to-nvvm. KernelLowering turns a
// flamia.kernel whose memories have offsets into an llvm.func. Its methods are
// spread over ConvertFlamiaToNVVM*.cpp by family of ops.
//
// Values: one thread owns one row of a tile, row 32 * (warp % 4) + lane.
//
//   tensor<RxCxf32|i32|i1>     vector<CxT>
//   tensor<RxCx16 or 8 bits>   vector<(C * bits / 32)xi32>, packed words
//   tensor<Rx1xT>              T
//   tensor<1xCxT>              as RxC, the same in all threads
//   !flamia.scaled<RxC, ...>   two values: packed payload words, and
//                              vector<(blocks of a row)xi32> of scale bytes
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_CONVERTFLAMIATONVVM_H
#define FLAMIA_PASSES_CONVERTFLAMIATONVVM_H

#include "dialects/Flamia/Flamia.h"
#include "dialects/Tcgen/Tcgen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace flamia::lowering {

/// Whether threads write to `space` by this operation of a role.
bool writesTo(mlir::Operation *op, tcgen::Space space);

using mlir::Location;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Type;
using mlir::Value;
using Values = llvm::SmallVector<Value, 2>;

/// Largest dynamic shared memory of a CTA on sm_90, sm_100 and sm_103.
constexpr int64_t kMaxSmemBytes = 232448;
/// Tensor memory columns of an SM.
constexpr int64_t kMaxTmemColumns = 512;
/// Swizzle atoms must start at multiples of this many bytes.
constexpr int64_t kSmemAlignment = 1024;
/// Largest extent of a TMA box.
constexpr int64_t kMaxBoxRows = 256;

/// Address spaces of the NVPTX target.
enum AddressSpace : unsigned {
  Generic = 0,
  Global = 1,
  Shared = 3,
  Tensor = 6
};

/// Short spellings for the ops that the lowering emits at every turn.
class Emitter {
public:
  Emitter(mlir::MLIRContext *context, Location loc) : b(context), loc(loc) {}

  mlir::OpBuilder b;
  Location loc;

  Type i1() { return b.getI1Type(); }
  Type i16() { return b.getI16Type(); }
  Type i32() { return b.getI32Type(); }
  Type i64() { return b.getI64Type(); }
  Type f32() { return b.getF32Type(); }
  Type ptr(unsigned space) {
    return mlir::LLVM::LLVMPointerType::get(b.getContext(), space);
  }
  mlir::VectorType vec(int64_t size, Type element) {
    return mlir::VectorType::get({size}, element);
  }

  Value c32(int64_t value);
  Value c64(int64_t value);
  Value cIndex(int64_t value);
  Value cF32(float value);
  /// A constant of scalar or vector type with all elements equal.
  Value splat(Type type, mlir::Attribute element);

  template <typename OpTy, typename... Args>
  Value op(Args &&...args) {
    return OpTy::create(b, loc, std::forward<Args>(args)...)->getResult(0);
  }
  Value add(Value x, Value y) { return op<mlir::arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) { return op<mlir::arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) { return op<mlir::arith::MulIOp>(x, y); }
  Value andi(Value x, Value y) { return op<mlir::arith::AndIOp>(x, y); }
  Value ori(Value x, Value y) { return op<mlir::arith::OrIOp>(x, y); }
  Value xori(Value x, Value y) { return op<mlir::arith::XOrIOp>(x, y); }
  Value shl(Value x, int64_t bits);
  Value shr(Value x, int64_t bits);
  /// x + constant and x * constant for i32 and i64 values.
  Value addC(Value x, int64_t y);
  Value mulC(Value x, int64_t y);
  Value cmp(mlir::arith::CmpIPredicate predicate, Value x, Value y) {
    return op<mlir::arith::CmpIOp>(predicate, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return op<mlir::arith::SelectOp>(c, x, y);
  }
  Value bitcast(Value x, Type type) {
    return x.getType() == type ? x : op<mlir::arith::BitcastOp>(type, x);
  }
  /// index or i32 (zero-extended) to i64; i64 to index.
  Value toI64(Value x);
  Value toIndex(Value x);
  Value trunc32(Value x) { return op<mlir::arith::TruncIOp>(i32(), x); }

  Value extract(Value vector, int64_t i) {
    return op<mlir::vector::ExtractOp>(vector, llvm::ArrayRef<int64_t>{i});
  }
  /// Elements of a vector, or the scalar itself.
  llvm::SmallVector<Value> elements(Value value);
  /// A vector of the elements; a scalar for one element.
  Value fromElements(llvm::ArrayRef<Value> elements);
  /// A vector of the elements, also for one element.
  Value vectorOf(llvm::ArrayRef<Value> elements);
  /// A vector of equal elements.
  Value splatOf(Value element, int64_t size) {
    return op<mlir::vector::BroadcastOp>(vec(size, element.getType()), element);
  }

  Value intToPtr(Value address, unsigned space) {
    return op<mlir::LLVM::IntToPtrOp>(ptr(space), address);
  }
  /// Pointer `offset` bytes (i64) past a global pointer.
  Value gep(Value pointer, Value offset) {
    return mlir::LLVM::GEPOp::create(
        b, loc, pointer.getType(), b.getI8Type(), pointer,
        llvm::ArrayRef<mlir::LLVM::GEPArg>{offset});
  }
  Value gep(Value pointer, int64_t offset) {
    return offset == 0 ? pointer : gep(pointer, c64(offset));
  }
  Value callIntrinsic(llvm::StringRef name, Type result,
                      llvm::ArrayRef<Value> args);
  void callVoidIntrinsic(llvm::StringRef name, llvm::ArrayRef<Value> args);

  /// The values behind an empty assembly that takes them as inputs and hands
  /// them on: they are computed before what follows it, and what is computed
  /// from them behind it.
  llvm::SmallVector<Value> inPlace(llvm::ArrayRef<Value> values);

  /// scf.if without results around what `body` emits.
  void ifThen(Value condition, llvm::function_ref<void()> body);
  /// scf.if with results.
  Values ifElse(Value condition, llvm::function_ref<Values()> thenBody,
                llvm::function_ref<Values()> elseBody);
};

/// A tensor map parameter: whole rows of `boxRows` rows and `spanBytes` bytes.
struct TensorMapKey {
  int64_t boxRows, spanBytes;
  bool operator<(const TensorMapKey &other) const {
    return std::tie(boxRows, spanBytes) <
           std::tie(other.boxRows, other.spanBytes);
  }
};

class KernelLowering {
public:
  KernelLowering(KernelOp kernel, llvm::StringRef arch);
  /// Emits the llvm.func in front of the kernel. The kernel stays.
  LogicalResult run();

private:
  //===--- Frame: ConvertFlamiaToNVVM.cpp ---------------------------------===//
  struct Role {
    tcgen::RoleOp op;
    int64_t firstWarp = 0, warps = 4;
    bool writesTmem = false, writesSmem = false;
  };
  struct Channel {
    int64_t slots, full, empty;      ///< arrivals of full and empty barriers
    int64_t fullOffset, emptyOffset; ///< bytes from the barriers' start
    /// One thread signals both ends, so that nothing keeps a phase from ending
    /// before another warp of its role has waited for the one before.
    bool ofIssuers = false;
  };
  /// Counter of one end of a channel, in memory until mem2reg: the slot, where
  /// there are several, and the parity, one bit of a variable.
  struct End {
    Value slot, parities;
    unsigned bit = 0;
  };
  struct Parities {
    Value variable;
    unsigned count = 0;
    mlir::arith::ConstantOp initial = {};
  };

  LogicalResult collect();
  LogicalResult checkArguments();
  LogicalResult checkLimits();
  LogicalResult checkOperands(Operation *op);
  int64_t ctasPerSM();
  void emitEntry();
  void emitPrologue();
  void emitEpilogue();
  void planRegisters();
  LogicalResult emitRole(tcgen::RoleOp op);
  void lowerGroup(tcgen::GroupOp op);
  LogicalResult emitBody();
  void finishParameters();
  mlir::DictionaryAttr launchRecord();
  LogicalResult lowerBlock(mlir::Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult dispatch(Operation *op);
  mlir::InFlightDiagnostic unsupported(Operation *op, const llvm::Twine &why);

  //===--- Parameters -----------------------------------------------------===//
  Value pointerParam(Value memref);
  Value dimParam(Value memref, int64_t dim);    ///< i64
  Value strideParam(Value memref, int64_t dim); ///< i64, elements
  Value tensorMapParam(Value memref, TensorMapKey key);
  Value placeholder(Type type);

  //===--- Values: ConvertFlamiaToNVVMValues.cpp --------------------------===//
  /// Types that a tile value is lowered to; failure names the reason.
  LogicalResult lowerTypes(Operation *op, Type type,
                           llvm::SmallVectorImpl<Type> &types);
  LogicalResult checkTiles(Operation *op);
  Value get(Value value) { return values.lookup(value).front(); }
  void set(Value value, Value lowered) { values[value] = {lowered}; }
  Value i64(Value index) { return e.toI64(get(index)); }
  LogicalResult lowerConstant(mlir::arith::ConstantOp op);
  LogicalResult lowerElementwise(Operation *op);
  LogicalResult lowerCast(Operation *op);
  LogicalResult lowerFor(mlir::scf::ForOp op);
  LogicalResult lowerIf(mlir::scf::IfOp op);
  LogicalResult lowerMath(Operation *op);
  void lowerFull(FullOp op);
  LogicalResult lowerBroadcast(BroadcastOp op);
  void addToSums(llvm::SmallVectorImpl<Value> &pairs, llvm::ArrayRef<Value> x);
  Value finishSum(llvm::ArrayRef<Value> pairs);
  void lowerReduce(ReduceOp op);
  std::pair<Value, Value> maskBounds(MaskOp op, Value first);
  void lowerMask(MaskOp op);
  LogicalResult lowerHadamard(HadamardOp op);
  Value payloadOfRotatedRow(HadamardOp op);
  void setScaledRow(HadamardOp op, Value payload, llvm::ArrayRef<Value> x,
                    Value factor);
  void lowerSlice(tcgen::SliceOp op);
  void lowerJoin(tcgen::JoinOp op);
  void lowerDim(DimOp op);
  /// The CTA's place in the program's grid and its entries of work lists, at
  /// the kernel's start: the loads pass while barriers are set up.
  void emitProgram();
  Value lastTile(llvm::ArrayRef<Value> workItem);
  void lowerProgramId(ProgramIdOp op);
  void lowerNumPrograms(NumProgramsOp op);
  Value programId(GridAxis axis); ///< i32
  void lowerWorkItem(WorkItemOp op);

  //===--- Formats: ConvertFlamiaToNVVMQuantize.cpp -----------------------===//
  Value packScaleBytes(llvm::ArrayRef<Value> units);
  /// How much is known of elements that are rounded (`Deferred`).
  enum class Version { Rare, Ordinary, Short };
  /// A scale's exponent and what follows from it, from the bits (i32) of the
  /// largest magnitude.
  struct RowScale {
    Value exponent, least; ///< biased; at least that of the largest element
    Value factor;          ///< f32, 1 / scale
    Value isFinite;
  };
  RowScale rowScale(Value amax, Type element);
  /// A rotated row that only quantizers use: one takes a scale for the whole
  /// row, others (NVFP4) scales for 16 elements. The row is kept times
  /// `scale`: 1 / its scale, where that loses nothing (`isRare`, the same in
  /// the whole warp, does not hold), else 1. So elements are multiplied once,
  /// by both the rotation's factor and this.
  struct Rotated {
    Value amax;                      ///< bits of the largest magnitude, i32
    llvm::SmallVector<Value> maxima; ///< of 16 elements each, times `scale`
    Value scale, isRare;
    Value payload; ///< with the scale for the whole row
  };
  /// f32 values to packed words of a 16- or 8-bit type, and back.
  Value pack(llvm::ArrayRef<Value> elements, Type element);
  llvm::SmallVector<Value> unpack(Value words, Type element);
  Value scaleOfByte(Value byte);
  Value inverseScaleOfByte(Value byte);
  Value largestMagnitude(llvm::ArrayRef<Value> x, Value including = {});
  LogicalResult lowerQuantize(QuantizeOp op);
  Value largestOfProducts(Value tile);
  LogicalResult lowerRoundLike(RoundLikeOp op);

  //===--- NVFP4: ConvertFlamiaToNVVMNvfp4.cpp ----------------------------===//
  LogicalResult lowerQuantizeNvfp4(QuantizeOp op, llvm::ArrayRef<Value> x);
  llvm::SmallVector<Value> nvfp4Scales(QuantizeOp op, llvm::ArrayRef<Value> x);
  Value nvfp4Extremes(llvm::ArrayRef<Value> scaleWords, int64_t blocks);
  Value globalScale(QuantizeOp op);
  llvm::SmallVector<Value> nvfp4Words(QuantizeOp op, llvm::ArrayRef<Value> x,
                                      Value scaleWord, int64_t block,
                                      Version version,
                                      llvm::ArrayRef<Value> wordsBeside = {});
  llvm::SmallVector<Value>
  nvfp4WordsByAdding(llvm::ArrayRef<Value> x, Value divisor, Version version,
                     llvm::ArrayRef<Value> wordsBeside);

  //===--- Exponentials by polynomial: ConvertFlamiaToNVVMExp2.cpp --------===//
  LogicalResult lowerExp2(Exp2Op op);

  //===--- Scale bytes as numbers: ConvertFlamiaToNVVMExponents.cpp -------===//
  Value exponentOfByte(Value byte);
  /// `shift` (f32) may be null.
  Value shiftByte(Value start, int64_t offset, Value isNumber, Value shift,
                  int64_t shiftBy);
  void lowerExponents(ExponentsOp op);
  LogicalResult lowerPayload(PayloadOp op);
  void lowerPow2(Pow2Op op);
  LogicalResult lowerLoadExponents(LoadExponentsOp op);
  LogicalResult lowerStoreExponents(StoreExponentsOp op);
  LogicalResult lowerReduceRows(ReduceRowsOp op);

  //===--- Global memory: ConvertFlamiaToNVVMMemory.cpp -------------------===//
  /// Bytes from a tensor's start to an element, from lowered i64 indices, and a
  /// pointer to it.
  Value globalOffset(Value memref, llvm::ArrayRef<Value> indices);
  Value globalPointer(Value memref, llvm::ArrayRef<Value> indices);
  /// The same for the thread's row of a tile at `indices`.
  Value rowPointer(Value memref, mlir::OperandRange indices, int64_t rows);
  /// The largest access, in bytes, that rows starting at `column` allow, and
  /// whether columns need a check against the extent.
  std::pair<int64_t, bool> accessWidth(Value memref, mlir::OperandRange indices,
                                       int64_t cols);
  /// Whether the thread's row exists (i1); null when it needs no check.
  Value rowInRange(Value memref, mlir::OperandRange indices, int64_t rows,
                   Value limit);
  Value columnInRange(Value memref, mlir::OperandRange indices, int64_t col);
  LogicalResult checkAccess(Operation *op, Value memref, Type element,
                            mlir::OperandRange indices);
  LogicalResult lowerLoad(LoadOp op);
  LogicalResult lowerStore(Operation *op, Value value, Type element,
                           int64_t rows, int64_t cols, Value target,
                           mlir::OperandRange indices, Value limit);
  /// i32 words of the thread's row, from the first on, made where they are
  /// asked for.
  using RowWords = llvm::function_ref<llvm::SmallVector<Value>(int64_t first,
                                                               int64_t count)>;
  void storeStaged(Value target, mlir::OperandRange indices, RowWords words,
                   int64_t rowBytes, int64_t span, Value limit);
  LogicalResult lowerStoreScales(StoreScalesOp op);
  /// Stores a row vector along columns.
  LogicalResult lowerStoreLine(StoreOp op, TransposeOp line);
  /// Scale byte (i32) of 32-column block `block` of the thread's row.
  Value scaleByte(ScaledType type, Value scales, int64_t block);
  void forEachAtomPart(
      ScaledType type, Value scales, Axis along, Value rowLimit,
      llvm::function_ref<void(int64_t, int64_t, Value, Value)> store);
  LogicalResult checkAtomBlocks(Operation *op, ScaledType type, Axis along);

  //===--- Channels and copies: ConvertFlamiaToNVVMChannels.cpp -----------===//
  End &end(Value channel, bool producer);
  Value barrier(int64_t offset, Value slot); ///< ptr<3>
  bool waitsAgain(Operation *wait);
  /// `wait` (may be null) is the operation that is lowered.
  void waitBarrier(Value barrier, Value parity, Operation *wait = nullptr);
  Value advance(Operation *op, Value channel, bool producer);
  void lowerDrained(tcgen::DrainedOp op);
  void arrive(mlir::Operation *op, Value barrier, tcgen::Agent agent);
  Value isFirstWarp();
  void issue(llvm::function_ref<void()> body);
  Value base(Value memory);
  Value slotAddress(Value base, Value buffer, Value slot, int64_t unitBits);
  Value smemAddress(Value buffer, Value slot); ///< i32
  Value tmemAddress(Value buffer, Value slot); ///< i32
  void lowerExpect(tcgen::ExpectOp op);
  LogicalResult lowerTmaLoad(tcgen::TmaLoadOp op);
  LogicalResult lowerBulkLoad(tcgen::BulkLoadOp op);
  LogicalResult lowerLineLoad(tcgen::BulkLoadOp op);
  LogicalResult lowerReadLine(tcgen::ReadOp op);
  void lowerDrain();

  //===--- Products and tensor memory: ConvertFlamiaToNVVMProducts.cpp ----===//
  LogicalResult lowerMma(tcgen::MmaOp op);
  void lowerCopyScales(tcgen::CopyScalesOp op);
  void lowerCopyOperand(tcgen::CopyOperandOp op);
  LogicalResult lowerRead(tcgen::ReadOp op);
  LogicalResult lowerReadMax(tcgen::ReadMaxOp op);
  void waitForOwnWrites(Value buffer);
  llvm::SmallVector<Value> loadShared(Value address);
  void setRow(Value tile, llvm::MutableArrayRef<Value> words);
  void lowerAnyDiffers(tcgen::AnyDiffersOp op);
  Value anyOfWarp(Value condition);
  LogicalResult lowerWrite(tcgen::WriteOp op);
  LogicalResult lowerWriteScales(tcgen::WriteScalesOp op);
  void emitFillScales(tcgen::FillScalesOp op);
  /// The thread's row of a swizzled image: address of its first byte, and the
  /// XOR of a 16-byte chunk's offset.
  std::pair<Value, Value> swizzledRow(tcgen::BufferType type, Value base);
  Value laneAddress(Value taddr); ///< plus this warp's lane field
  void storeTmem(Value taddr, llvm::ArrayRef<Value> words);
  llvm::SmallVector<Value> loadTmem(Value taddr, int64_t columns);

  KernelOp kernel;
  llvm::StringRef arch;
  Emitter e;
  mlir::LLVM::LLVMFuncOp func;
  llvm::DenseMap<Value, Values> values;

  llvm::SmallVector<Role> roles;
  Role *role = nullptr;
  llvm::MapVector<Value, Channel> channels;
  llvm::DenseMap<std::pair<Value, unsigned>, End> ends;
  llvm::DenseMap<unsigned, Parities> roleParities;
  llvm::SmallVector<tcgen::FillScalesOp> fills;
  mlir::Block *entry = nullptr;
  Operation *entryMark = nullptr; ///< allocas go in front of it

  /// The bounds of the last mask.
  struct {
    MaskOp op;
    mlir::Block *block = nullptr;
    Value first, low, high;
  } bounds;
  int32_t differentBound = 0; ///< What the last mask added to its numbers.
  bool usesDrain = false, reducesRows = false;
  Value drainParity;         ///< alloca
  mlir::scf::IfOp lastIssue; ///< of this role; what its elected lane issues
  /// Payloads that are rounded where they are stored: makes a block's words.
  /// Where `isRare` (the same in the whole warp) does not hold, elements are
  /// ordinary and take fewer instructions; where `isShort` (null: nowhere, the
  /// same in all threads) holds, still fewer.
  struct Deferred {
    std::function<llvm::SmallVector<Value>(int64_t block, Version version)>
        round;
    int64_t wordsOfBlock = 1;
    Value isRare;
    Value isShort = {};
    /// Another payload of the same elements, not null where its words are made
    /// with this one's: elements then free their registers block by block.
    Value beside = {};
    std::shared_ptr<llvm::SmallVector<Value>> wordsBeside = {};
  };
  llvm::DenseMap<Value, Deferred> deferred;
  /// Of quantized tiles whose scale bytes are only written for products: the
  /// largest magnitude of each block in units of its largest payload, f32. Two
  /// bytes at a time come from them (`packScaleBytes`).
  llvm::DenseMap<Value, llvm::SmallVector<Value>> magnitudes;
  llvm::DenseMap<Value, Rotated> rotatedRows;
  /// Payloads that are converted already, where their values are computed.
  llvm::DenseMap<Value, Value> converted;
  /// The same of row sums.
  llvm::DenseMap<Value, Value> summed;
  int64_t bufferBytes = 0, barrierBytes = 0, smemBytes = 0, tmemColumns = 0;
  /// CTAs count along the program's y first. Tensors are row-major, so CTAs
  /// that run at the same time then read and write whole pages of memory.
  bool swapsGrid = false;
  int64_t stagingOffset = -1; ///< passes/Staging.h; -1 without it
  int64_t stagingSpan = 0;
  int64_t threads = 128;
  /// Registers of a thread with vector code and of others, where the warpgroups
  /// share them unequally; else 0.
  int64_t vectorRegisters = 0, otherRegisters = 0;
  Value warp, lane, row, smemBase, tmemBase;
  /// The launch may have the y axis in groups (docs/launch-record.md).
  bool groupsY = false;
  Value programX, programY; ///< i32, with groupsY
  llvm::MapVector<Value, llvm::SmallVector<Value>> workItems; ///< i32 fields
  Value hasTokens; ///< i1; null: no work lists

  struct ArgParams {
    Operation *pointer = nullptr;
    std::map<int64_t, Operation *> dims, strides;
    std::map<TensorMapKey, Operation *> tensorMaps;
    Operation *scalar = nullptr;
    bool read = false, written = false;
  };
  llvm::SmallVector<ArgParams> params;
};

/// Rows and columns of a tile type, and its element type.
struct TileInfo {
  int64_t rows, cols;
  Type element;
  bool isScaled;
  /// 16-, 8- or 4-bit elements in more than one column are packed in words.
  bool isPacked() const {
    return cols > 1 && element.getIntOrFloatBitWidth() <= 16 &&
           element.getIntOrFloatBitWidth() >= 4;
  }
};
bool isTile(Type type);
/// Whether a wait stands between what computes columns of a tile in registers
/// and their last use.
bool livesOverWait(Operation *op);
TileInfo tileInfo(Type type);
/// Rx1: one value a thread.
inline bool isRowVector(Type type) {
  return isTile(type) && tileInfo(type).cols == 1 && tileInfo(type).rows > 1;
}

} // namespace flamia::lowering

#endif // FLAMIA_PASSES_CONVERTFLAMIATONVVM_H
