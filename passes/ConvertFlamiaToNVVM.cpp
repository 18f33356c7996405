//===- ConvertFlamiaToNVVM.cpp - convert-flamia-to-nvvm -------------------===//
//
// The pass, and the frame of a lowered kernel: parameters, prologue (tensor
// memory, barriers), epilogue, launch record. Which op is lowered where:
// ConvertFlamiaToNVVMDispatch.cpp.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"
#include "dialects/Flamia/Strides.h"
#include "passes/Columns/Segments.h"
#include "passes/Passes.h"
#include "passes/Staging.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

namespace flamia {
#define GEN_PASS_DEF_CONVERTFLAMIATONVVMPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

static constexpr StringLiteral kSmemSymbol = "flamia_smem";

KernelLowering::KernelLowering(KernelOp kernel, StringRef arch)
    : kernel(kernel), arch(arch), e(kernel.getContext(), kernel.getLoc()),
      params(kernel.getBody().getNumArguments()) {}

InFlightDiagnostic KernelLowering::unsupported(Operation *op,
                                               const Twine &why) {
  return op->emitOpError("cannot be lowered: ") << why;
}

//===----------------------------------------------------------------------===//
// What the kernel holds
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::collect() {
  int64_t firstWarp = 0;
  for (Operation &op : kernel.getBody().front()) {
    if (auto alloc = dyn_cast<tcgen::AllocOp>(op)) {
      auto type = cast<tcgen::BufferType>(alloc.getType());
      if (!alloc.getOffset())
        return alloc.emitOpError("has no offset: run flamia-allocate-memory "
                                 "before convert-flamia-to-nvvm");
      int64_t end = *alloc.getOffset() + type.getSlots() * type.getSlotSize();
      int64_t &total =
          type.getSpace() == tcgen::Space::Smem ? bufferBytes : tmemColumns;
      total = std::max(total, end);
    } else if (auto channel = dyn_cast<tcgen::ChannelOp>(op)) {
      int64_t slots = channel.getSlots();
      channels[channel.getResult()] = {slots,
                                       int64_t(channel.getFull()),
                                       int64_t(channel.getEmpty()),
                                       barrierBytes,
                                       barrierBytes + 8 * slots,
                                       tcgen::isOfIssuers(channel)};
      barrierBytes += 16 * slots;
    } else if (auto fill = dyn_cast<tcgen::FillScalesOp>(op)) {
      fills.push_back(fill);
    } else if (auto roleOp = dyn_cast<tcgen::RoleOp>(op)) {
      Role entry{roleOp, firstWarp, int64_t(roleOp.getWarps())};
      firstWarp += entry.warps;
      roleOp.walk([&](Operation *inner) {
        entry.writesSmem |= writesTo(inner, tcgen::Space::Smem);
        entry.writesTmem |= writesTo(inner, tcgen::Space::Tmem);
      });
      roles.push_back(entry);
    }
  }
  kernel.walk([&](tcgen::DrainOp) { usesDrain = true; });
  if (!roles.empty())
    threads = 32 * firstWarp;
  planRegisters();
  for (auto [name, value] :
       {std::pair<StringRef, int64_t *>{"tcgen.smem_bytes", &smemBytes},
        {"tcgen.tmem_columns", &tmemColumns}})
    if (auto attr = kernel->getAttrOfType<IntegerAttr>(name))
      *value = std::max(*value, attr.getInt());
  if (tmemColumns > 0)
    tmemColumns = std::max<int64_t>(32, llvm::PowerOf2Ceil(tmemColumns));
  kernel.walk([&](WorkItemOp op) { workItems[op.getWork()]; });
  // With a work list the launch has the y axis in groups, which does the same.
  swapsGrid = tmemColumns == 0 && !roles.empty() && workItems.empty() &&
              kernel.getGrid().size() == 2 &&
              llvm::all_of(kernel.getGrid(), llvm::IsaPred<ArrayAttr>);
  if (auto attr = kernel->getAttrOfType<IntegerAttr>(kStagingOffset))
    stagingOffset = attr.getInt();
  stagingSpan = widestSpan(kernel);
  // Barriers follow the buffers, in the room that flamia-allocate-memory left.
  if (auto attr = kernel->getAttrOfType<IntegerAttr>("tcgen.barrier_offset"))
    bufferBytes = attr.getInt();
  bufferBytes = llvm::alignTo(bufferBytes, 16);
  return success();
}

/// Arguments that a launch can pass (docs/launch-record.md).
LogicalResult KernelLowering::checkArguments() {
  // The name becomes that of the PTX entry and of files.
  StringRef name = kernel.getSymName();
  if (name.empty() || llvm::isDigit(name.front()) ||
      !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    return kernel.emitOpError("expected a name of letters, digits and _, but "
                              "got '")
           << name << "'";
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    Type element = type;
    if (auto memref = dyn_cast<MemRefType>(type)) {
      element = memref.getElementType();
      if (memref.getRank() < 1 || !hasAdjacentColumns(memref) ||
          memref.getMemorySpace())
        return kernel.emitOpError("expected argument '")
               << kernel.getArgName(index)
               << "' to be a row-major or strided tensor of rank 1 or more in "
                  "global memory, but got "
               << type;
      if (isa<BFloat16Type, Float16Type, Float8E4M3FNType, Float8E8M0FNUType,
              Float4E2M1FNType>(element) ||
          element.isInteger(8))
        continue;
    } else if (type.isIndex()) {
      continue;
    }
    if (!element.isF32() && !element.isInteger(32) && !element.isInteger(64))
      return kernel.emitOpError("expected argument '")
             << kernel.getArgName(index)
             << "' to be f32, i32, i64, index or a memref of f32, bf16, f16, "
                "f8E4M3FN, f8E8M0FNU, f4E2M1FN, i8, i32 or i64, but got "
             << type;
  }
  return success();
}

LogicalResult KernelLowering::checkLimits() {
  if (tmemColumns > 0 && arch != "sm_100a" && arch != "sm_103a")
    return kernel.emitOpError("tensor memory not available on ")
           << arch << " (available on sm_100a, sm_103a)";
  if (tmemColumns > kMaxTmemColumns)
    return kernel.emitOpError("needs ")
           << tmemColumns << " tensor memory columns, but an SM has "
           << kMaxTmemColumns;
  if (threads > 1024)
    return kernel.emitOpError("needs ")
           << threads << " threads, but a CTA has at most 1024";
  if (!fills.empty() && threads < 128)
    return kernel.emitOpError("fills scales, which takes 4 warps, but has ")
           << threads / 32;
  kernel.walk([&](ReduceRowsOp reduce) { reducesRows |= reduce.getBy() > 32; });
  bool usesTcgen = kernel
                       .walk([](Operation *op) {
                         return isa<tcgen::TcgenDialect>(op->getDialect())
                                    ? WalkResult::interrupt()
                                    : WalkResult::advance();
                       })
                       .wasInterrupted();
  if (usesTcgen || reducesRows) {
    // Drain barrier, the word that receives the tensor memory address, and a
    // word for each warp that takes part in maxima over rows.
    smemBytes =
        kSmemAlignment + std::max(smemBytes, bufferBytes + barrierBytes + 16 +
                                                 (reducesRows ? 16 : 0));
    if (smemBytes > kMaxSmemBytes)
      return kernel.emitOpError("needs ")
             << smemBytes << " bytes of shared memory (" << bufferBytes
             << " of buffers), but a CTA has at most " << kMaxSmemBytes;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

Value KernelLowering::placeholder(Type type) {
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(entryMark);
  return UnrealizedConversionCastOp::create(e.b, kernel.getLoc(), type,
                                            ValueRange{})
      .getResult(0);
}

Value KernelLowering::pointerParam(Value memref) {
  ArgParams &arg = params[cast<BlockArgument>(memref).getArgNumber()];
  if (!arg.pointer)
    arg.pointer = placeholder(e.ptr(Global)).getDefiningOp();
  return arg.pointer->getResult(0);
}

Value KernelLowering::dimParam(Value memref, int64_t dim) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.isDynamicDim(dim))
    return e.c64(type.getDimSize(dim));
  Operation *&slot =
      params[cast<BlockArgument>(memref).getArgNumber()].dims[dim];
  if (!slot)
    slot = placeholder(e.i64()).getDefiningOp();
  return slot->getResult(0);
}

Value KernelLowering::strideParam(Value memref, int64_t dim) {
  int64_t fixed =
      cast<MemRefType>(memref.getType()).getStridesAndOffset().first[dim];
  if (!ShapedType::isDynamic(fixed))
    return e.c64(fixed);
  Operation *&slot =
      params[cast<BlockArgument>(memref).getArgNumber()].strides[dim];
  if (!slot)
    slot = placeholder(e.i64()).getDefiningOp();
  return slot->getResult(0);
}

Value KernelLowering::tensorMapParam(Value memref, TensorMapKey key) {
  Operation *&slot =
      params[cast<BlockArgument>(memref).getArgNumber()].tensorMaps[key];
  if (!slot)
    slot = placeholder(e.ptr(Generic)).getDefiningOp();
  return slot->getResult(0);
}

/// Puts parameters in the order of the arguments: pointer, extents, tensor
/// maps.
void KernelLowering::finishParameters() {
  MLIRContext *context = kernel.getContext();
  SmallVector<Type> types;
  SmallVector<std::pair<unsigned, SmallVector<NamedAttribute>>> attrs;
  auto add = [&](Operation *op) {
    Value old = op->getResult(0);
    types.push_back(old.getType());
    old.replaceAllUsesWith(entry->addArgument(old.getType(), kernel.getLoc()));
    op->erase();
  };
  NamedAttribute byval(
      StringAttr::get(context, LLVM::LLVMDialect::getByValAttrName()),
      TypeAttr::get(LLVM::LLVMArrayType::get(e.b.getI8Type(), 128)));
  NamedAttribute align(
      StringAttr::get(context, LLVM::LLVMDialect::getAlignAttrName()),
      e.b.getI64IntegerAttr(64));
  NamedAttribute grid(
      StringAttr::get(context, NVVM::NVVMDialect::getGridConstantAttrName()),
      e.b.getUnitAttr());
  for (ArgParams &arg : params) {
    if (arg.pointer)
      add(arg.pointer);
    for (auto &[dim, op] : arg.dims)
      add(op);
    for (auto &[dim, op] : arg.strides)
      add(op);
    for (auto &[key, op] : arg.tensorMaps) {
      attrs.push_back({unsigned(types.size()), {byval, align, grid}});
      add(op);
    }
    if (arg.scalar)
      add(arg.scalar);
  }
  func.setFunctionType(LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(context), types, /*isVarArg=*/false));
  for (auto &[index, list] : attrs)
    for (NamedAttribute attr : list)
      func.setArgAttr(index, attr.getName(), attr.getValue());
}

/// What the driver needs for the launch record (docs/artifact-format.md).
DictionaryAttr KernelLowering::launchRecord() {
  Builder &b = e.b;
  auto str = [&](const Twine &text) { return b.getStringAttr(text); };
  auto num = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  auto named = [&](StringRef name, Attribute value) {
    return b.getNamedAttr(name, value);
  };
  SmallVector<Attribute> args, list, grid(kernel.getGrid().getValue());
  if (swapsGrid)
    std::swap(grid[0], grid[1]);
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    ArgParams &arg = params[index];
    StringAttr name = str(kernel.getArgName(index));
    SmallVector<NamedAttribute> entry{named("name", name)};
    std::string element;
    llvm::raw_string_ostream stream(element);
    if (auto memref = dyn_cast<MemRefType>(type)) {
      stream << memref.getElementType();
      SmallVector<int64_t> dims;
      for (int64_t dim : memref.getShape())
        dims.push_back(ShapedType::isDynamic(dim) ? -1 : dim);
      entry.push_back(named("dims", b.getI64ArrayAttr(dims)));
      entry.push_back(named(
          "access",
          str(arg.written ? (arg.read ? "read_write" : "write") : "read")));
      if (isStrided(memref)) {
        SmallVector<int64_t> strides = memref.getStridesAndOffset().first;
        for (int64_t &stride : strides)
          stride = ShapedType::isDynamic(stride) ? -1 : stride;
        entry.push_back(named("strides", b.getI64ArrayAttr(strides)));
      }
      if (Attribute names = kernel.getArgAttr(index, "flamia.dims"))
        entry.push_back(named("dim_names", names));
      if (kernel.getArgAttr(index, "flamia.workspace"))
        entry.push_back(named("workspace", b.getUnitAttr()));
    } else if (type.isIndex()) {
      stream << "i64";
    } else {
      stream << type;
    }
    entry.push_back(named("element", str(element)));
    args.push_back(b.getDictionaryAttr(entry));
    if (arg.pointer)
      list.push_back(b.getDictionaryAttr(named("pointer", name)));
    for (auto &[dim, op] : arg.dims)
      list.push_back(
          b.getDictionaryAttr({named("dim", num(dim)), named("of", name)}));
    for (auto &[dim, op] : arg.strides)
      list.push_back(
          b.getDictionaryAttr({named("stride", num(dim)), named("of", name)}));
    for (auto &[key, op] : arg.tensorMaps)
      list.push_back(b.getDictionaryAttr(
          {named("tensormap", name), named("box_rows", num(key.boxRows)),
           named("span_bytes", num(key.spanBytes))}));
    if (arg.scalar)
      list.push_back(b.getDictionaryAttr(named("scalar", name)));
  }
  auto conditions = kernel->getAttrOfType<ArrayAttr>("flamia.requires");
  SmallVector<NamedAttribute> record = {
      named("args", b.getArrayAttr(args)),
      named("requires", conditions ? conditions : b.getArrayAttr({})),
      named("params", b.getArrayAttr(list)),
      named("grid", b.getArrayAttr(grid)),
      named("parameters", kernel.getParameters()),
      named("threads", num(threads)),
      named("dynamic_smem", num(smemBytes)),
      named("tmem_columns", num(tmemColumns))};
  if (groupsY)
    record.push_back(named("groups_y", b.getUnitAttr()));
  kernel.walk([&](Exp2Op op) {
    record.push_back(named(
        "exp2_emulation",
        b.getI64ArrayAttr({int64_t(op.getBlocks()), int64_t(op.getOf())})));
    return WalkResult::interrupt();
  });
  return b.getDictionaryAttr(record);
}

//===----------------------------------------------------------------------===//
// Entry, prologue, epilogue
//===----------------------------------------------------------------------===//

/// CTAs that ptxas shall leave registers for. Kernels without products wait for
/// memory, so several should share an SM: as many as its memory holds, while
/// threads keep the registers that tiles take and some for what goes with them.
int64_t KernelLowering::ctasPerSM() {
  constexpr int64_t kSmemOfSM = 228 * 1024, kSmemOfSystem = 1024;
  constexpr int64_t kPartitions = 4, kLanesOfPartition = 65536 / 4 / 32;
  constexpr int64_t kBesideTiles = 36;
  if (tmemColumns > 0 || roles.empty())
    return 1;
  int64_t needed = kBesideTiles;
  kernel.walk([&](tcgen::RoleOp role) {
    needed = std::max(needed, mostTileRegisters(role) + kBesideTiles);
  });
  int64_t ctas = kSmemOfSM / (smemBytes + kSmemOfSystem);
  // Each of the SM's partitions has registers of its own, given to its warps in
  // steps of 8 a thread.
  auto registers = [&] {
    int64_t warps = llvm::divideCeil(ctas * threads / 32, kPartitions);
    return kLanesOfPartition / warps / 8 * 8;
  };
  while (ctas > 1 && registers() < needed)
    --ctas;
  return std::max<int64_t>(1, ctas);
}

void KernelLowering::emitEntry() {
  e.b.setInsertionPoint(kernel);
  func = LLVM::LLVMFuncOp::create(
      e.b, kernel.getLoc(), kernel.getSymName(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(kernel.getContext()),
                                  {}));
  func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), e.b.getUnitAttr());
  func->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                e.b.getDenseI32ArrayAttr({int32_t(threads)}));
  // Without a minimum of CTAs ptxas ignores register bounds (C7508).
  func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                e.b.getI32IntegerAttr(int32_t(ctasPerSM())));
  entry = func.addEntryBlock(e.b);
  e.b.setInsertionPointToStart(entry);

  Value tid = e.op<NVVM::ThreadIdXOp>(e.i32());
  entryMark = tid.getDefiningOp();
  warp = e.shr(tid, 5);
  if (!roles.empty()) // one value per warp, for the branches to be uniform
    warp = e.op<NVVM::ShflOp>(e.i32(), e.c32(-1), warp, e.c32(0), e.c32(31),
                              NVVM::ShflKind::idx, UnitAttr());
  lane = e.andi(tid, e.c32(31));
  row = e.add(e.shl(e.andi(warp, e.c32(3)), 5), lane);
  emitProgram();

  if (smemBytes > 0) {
    auto module = kernel->getParentOfType<ModuleOp>();
    auto global = module.lookupSymbol<LLVM::GlobalOp>(kSmemSymbol);
    if (!global) {
      OpBuilder::InsertionGuard guard(e.b);
      e.b.setInsertionPointToStart(module.getBody());
      global = LLVM::GlobalOp::create(
          e.b, kernel.getLoc(), LLVM::LLVMArrayType::get(e.b.getI8Type(), 0),
          /*isConstant=*/false, LLVM::Linkage::External, kSmemSymbol,
          Attribute(), /*alignment=*/16, /*addrSpace=*/Shared);
    }
    Value base = e.op<LLVM::PtrToIntOp>(
        e.i32(), e.op<LLVM::AddressOfOp>(e.ptr(Shared), kSmemSymbol));
    smemBase = e.andi(e.addC(base, kSmemAlignment - 1), e.c32(-kSmemAlignment));
  }
  for (auto [index, arg] : llvm::enumerate(kernel.getBody().getArguments())) {
    if (isa<MemRefType>(arg.getType()))
      continue;
    bool isIndex = arg.getType().isIndex();
    Value value = placeholder(isIndex ? e.i64() : arg.getType());
    params[index].scalar = value.getDefiningOp();
    set(arg, isIndex ? e.toIndex(value) : value);
  }
}

/// Address of the word that holds the tensor memory address.
static int64_t tmemWordOffset(int64_t bufferBytes, int64_t barrierBytes) {
  return bufferBytes + barrierBytes + 8;
}

void KernelLowering::emitPrologue() {
  if (smemBytes == 0)
    return;
  auto isWarp = [&](int64_t index) {
    return e.cmp(arith::CmpIPredicate::eq, warp, e.c32(index));
  };
  Value tmemWord = e.intToPtr(
      e.addC(smemBase, tmemWordOffset(bufferBytes, barrierBytes)), Shared);
  if (tmemColumns > 0)
    e.ifThen(isWarp(0), [&] {
      NVVM::Tcgen05AllocOp::create(e.b, e.loc, tmemWord, e.c32(tmemColumns),
                                   NVVM::CTAGroupKind::CTA_1);
      NVVM::Tcgen05RelinquishAllocPermitOp::create(e.b, e.loc,
                                                   NVVM::CTAGroupKind::CTA_1);
    });
  e.ifThen(isWarp(threads > 32 ? 1 : 0), [&] {
    e.ifThen(e.op<NVVM::ElectSyncOp>(e.i1(), Value()), [&] {
      auto init = [&](int64_t offset, int64_t count) {
        NVVM::MBarrierInitOp::create(
            e.b, e.loc,
            e.intToPtr(e.addC(smemBase, bufferBytes + offset), Shared),
            e.c32(count), Value());
      };
      for (auto &[value, channel] : channels)
        for (int64_t slot = 0; slot < channel.slots; ++slot) {
          init(channel.fullOffset + 8 * slot, channel.full);
          init(channel.emptyOffset + 8 * slot, channel.empty);
        }
      if (usesDrain)
        init(barrierBytes, 1);
      NVVM::FenceMbarrierInitOp::create(e.b, e.loc);
      kernel.walk([&](tcgen::TmaLoadOp load) {
        auto type = cast<tcgen::BufferType>(load.getBuffer().getType());
        ArgParams &arg =
            params[cast<BlockArgument>(load.getSource()).getArgNumber()];
        TensorMapKey key{type.getRows(), type.getSpanBytes()};
        if (arg.tensorMaps.count(key))
          return;
        NVVM::PrefetchOp::create(e.b, e.loc, NVVM::PrefetchCacheLevelAttr(),
                                 NVVM::CacheEvictionPriorityAttr(),
                                 tensorMapParam(load.getSource(), key), Value(),
                                 e.b.getUnitAttr(), UnitAttr(), UnitAttr());
      });
    });
  });
  auto barrierAll = [&] {
    if (tmemColumns > 0)
      NVVM::Tcgen05FenceOp::create(e.b, e.loc,
                                   NVVM::Tcgen05FenceKind::BEFORE_THREAD_SYNC);
    NVVM::BarrierOp::create(e.b, e.loc);
    if (tmemColumns > 0)
      NVVM::Tcgen05FenceOp::create(e.b, e.loc,
                                   NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
  };
  barrierAll();
  if (tmemColumns > 0)
    tmemBase = e.op<LLVM::LoadOp>(e.i32(), tmemWord, 4);
  if (!fills.empty()) {
    e.ifThen(e.cmp(arith::CmpIPredicate::ult, warp, e.c32(4)), [&] {
      for (tcgen::FillScalesOp fill : fills)
        emitFillScales(fill);
      NVVM::Tcgen05WaitOp::create(e.b, e.loc, NVVM::Tcgen05WaitKind::STORE);
    });
    barrierAll();
  }
}

void KernelLowering::emitEpilogue() {
  if (tmemColumns > 0) {
    NVVM::Tcgen05FenceOp::create(e.b, e.loc,
                                 NVVM::Tcgen05FenceKind::BEFORE_THREAD_SYNC);
    NVVM::BarrierOp::create(e.b, e.loc);
    NVVM::Tcgen05FenceOp::create(e.b, e.loc,
                                 NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
    // Compared here: ptxas would keep a predicate from the prologue on.
    Value again = e.inPlace(warp).front();
    e.ifThen(e.cmp(arith::CmpIPredicate::eq, again, e.c32(0)), [&] {
      NVVM::Tcgen05DeallocOp::create(e.b, e.loc, e.intToPtr(tmemBase, Tensor),
                                     e.c32(tmemColumns),
                                     NVVM::CTAGroupKind::CTA_1);
    });
  }
  LLVM::ReturnOp::create(e.b, e.loc, ValueRange{});
}

LogicalResult KernelLowering::run() {
  if (failed(checkArguments()) || failed(collect()) || failed(checkLimits()))
    return failure();
  emitEntry();
  emitPrologue();
  if (failed(emitBody())) {
    func.erase();
    return failure();
  }
  e.loc = kernel.getLoc();
  emitEpilogue();
  func->setAttr("flamia.launch", launchRecord());
  finishParameters();
  return success();
}

namespace {
struct ConvertFlamiaToNVVMPass
    : public flamia::impl::ConvertFlamiaToNVVMPassBase<
          ConvertFlamiaToNVVMPass> {
  using ConvertFlamiaToNVVMPassBase::ConvertFlamiaToNVVMPassBase;

  void runOnOperation() override {
    for (KernelOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      if (failed(KernelLowering(kernel, arch).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
