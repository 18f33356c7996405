//===- JamItems.cpp - Several work items side by side in one CTA ----------===//
//
// Rule R5: unroll-and-jam of the work item along one axis of the grid. What
// does not depend on the item is done once; everything else is written once for
// each item, operation by operation, with the item's number in `flamia.slot`.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/IndexAnalysis.h"
#include "passes/Passes.h"
#include "passes/Roles/TileUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace flamia {
#define GEN_PASS_DEF_JAMITEMSPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;

namespace {

/// The kernel's axis of slots, and the parameter that says how many.
constexpr StringLiteral kAxisAttr = "flamia.slots";
constexpr StringLiteral kParameter = "slots";
/// On an exact division of extents: the parameter of which it is a multiple.
constexpr StringLiteral kMultipleAttr = "flamia.multiple_of";
/// What a launch must check: [argument, dimension, factor, argument,
/// dimension], the first extent being a multiple of factor times the second.
constexpr StringLiteral kRequiresAttr = "flamia.requires";

class Jam {
public:
  Jam(KernelOp kernel, GridAxis axis, int64_t slots)
      : kernel(kernel), axis(axis), slots(slots), maps(slots) {}

  void run() {
    if (!check())
      return;
    Block &body = kernel.getBody().front();
    SmallVector<Operation *> original;
    for (Operation &op : body.without_terminator())
      original.push_back(&op);
    OpBuilder builder(body.getTerminator());
    for (Operation *op : original)
      emit(builder, op);
    for (Operation *op : llvm::reverse(original))
      op->erase();
    writeContract();
  }

private:
  bool refuse(Operation *op, const Twine &why) {
    op->emitRemark("work items stay apart: ") << why;
    return false;
  }

  //===--------------------------------------------------------------------===//
  // Whether it is possible
  //===--------------------------------------------------------------------===//

  bool check() {
    findDivisions();
    if (!checkGrid())
      return false;
    findItemValues();
    llvm::SetVector<Value> loaded, stored;
    bool possible = true;
    kernel.walk([&](Operation *op) {
      if (!possible || op == kernel.getOperation())
        return;
      if (auto id = dyn_cast<ProgramIdOp>(op);
          id && id.getAxis() == axis && op->getParentOp() != kernel) {
        possible = refuse(op, "expected the item's index at the top level");
      } else if (isa<LoadOp, LoadScaledOp, LoadPayloadOp, LoadExponentsOp>(
                     op)) {
        for (Value operand : op->getOperands())
          if (isa<MemRefType>(operand.getType()))
            loaded.insert(operand);
      } else if (auto store = dyn_cast<StoreOp>(op)) {
        stored.insert(store.getTarget());
        possible = checkStore(store);
      } else if (unitOf(op) == Unit::Vector && !isMemoryEffectFree(op)) {
        possible = refuse(op, "expected no effect but that of flamia.store");
      } else if (isa<ReduceRowsOp>(op)) {
        possible = refuse(op, "this reduction is one of all threads");
      } else if (isa<WorkItemOp>(op) && axis == GridAxis::X) {
        possible = refuse(op, "it depends on the index along x");
      }
    });
    for (Value value : stored)
      if (possible && loaded.contains(value))
        possible = refuse(kernel, "one may load what another one stores");
    return possible;
  }

  /// Divisions that do not tell the items of a CTA apart.
  void findDivisions() {
    Builder builder(kernel.getContext());
    auto nameOf = [&](DimOp dim) {
      auto arg = cast<BlockArgument>(dim.getSource());
      return builder.getStringAttr(kernel.getArgName(arg.getArgNumber()));
    };
    kernel.walk([&](arith::DivUIOp division) {
      auto parameter = division->getAttrOfType<StringAttr>(kMultipleAttr);
      auto a = division.getLhs().getDefiningOp<DimOp>();
      auto b = division.getRhs().getDefiningOp<DimOp>();
      if (!parameter || parameter.getValue() != kParameter || !a || !b)
        return;
      multiples.push_back(division);
      contract.push_back(builder.getArrayAttr(
          {nameOf(a), a.getDimensionAttr(), builder.getI64IntegerAttr(slots),
           nameOf(b), b.getDimensionAttr()}));
    });
  }

  StringAttr dimName(BlockArgument arg, int64_t dim) {
    auto names = dyn_cast_or_null<ArrayAttr>(
        kernel.getArgAttr(arg.getArgNumber(), "flamia.dims"));
    return names ? dyn_cast<StringAttr>(names[dim]) : StringAttr();
  }

  /// Every item of the last CTA must exist.
  bool checkGrid() {
    auto index = static_cast<unsigned>(axis);
    if (index >= kernel.getGrid().size())
      return refuse(kernel, "the grid has no axis " + stringifyGridAxis(axis));
    Attribute term = kernel.getGrid()[index];
    if (auto extent = dyn_cast<IntegerAttr>(term))
      return extent.getInt() % slots == 0 ||
             refuse(kernel, "the grid's extent " + Twine(extent.getInt()) +
                                " is no multiple of " + Twine(slots));
    auto parts = cast<ArrayAttr>(term);
    BlockArgument arg =
        kernel.getArgNamed(cast<StringAttr>(parts[0]).getValue());
    StringAttr name = dimName(arg, cast<IntegerAttr>(parts[1]).getInt());
    bool known = cast<IntegerAttr>(parts[2]).getInt() == 1 && name &&
                 llvm::any_of(multiples, [&](arith::DivUIOp division) {
                   auto dim = division.getLhs().getDefiningOp<DimOp>();
                   return dimName(cast<BlockArgument>(dim.getSource()),
                                  dim.getDimension()) == name;
                 });
    return known || refuse(kernel, "no division with flamia.multiple_of says "
                                   "that the grid's extent is a multiple of " +
                                       Twine(slots));
  }

  bool isShared(arith::DivUIOp division) {
    auto group = division.getRhs().getDefiningOp<arith::DivUIOp>();
    auto id = division.getLhs().getDefiningOp<ProgramIdOp>();
    return id && id.getAxis() == axis && llvm::is_contained(multiples, group);
  }

  /// Values that differ between the items of a CTA.
  void findItemValues() {
    for (bool changed = true; changed;) {
      changed = false;
      auto add = [&](Value value) {
        changed |= itemValues.insert(value).second;
      };
      kernel.walk([&](Operation *op) {
        if (op == kernel.getOperation())
          return;
        auto id = dyn_cast<ProgramIdOp>(op);
        auto division = dyn_cast<arith::DivUIOp>(op);
        bool differs = (id && id.getAxis() == axis) ||
                       llvm::any_of(op->getOperands(), [&](Value operand) {
                         return itemValues.contains(operand);
                       });
        if (!differs || (division && isShared(division)))
          return;
        for (Value result : op->getResults())
          add(result);
        for (Region &region : op->getRegions())
          for (BlockArgument arg : region.getArguments())
            add(arg);
        if (op->hasTrait<OpTrait::IsTerminator>())
          for (Value result : op->getParentOp()->getResults())
            add(result);
      });
    }
  }

  /// Two items must not store to one place: some index moves by at least the
  /// tile's extent from one to the next.
  bool checkStore(StoreOp store) {
    ProgramIdOp id;
    for (ProgramIdOp each : kernel.getOps<ProgramIdOp>())
      if (each.getAxis() == axis)
        id = each;
    auto [rows, cols] = getTileShape(store.getValue().getType());
    unsigned rank = store.getIndices().size();
    for (auto [dim, index] : llvm::enumerate(store.getIndices())) {
      if (!id)
        break;
      IndexExpr expr = indices.get(index), item = indices.get(id);
      if (item.terms.size() != 1)
        break;
      int64_t distance = 0;
      for (auto [symbol, coefficient] : expr.terms)
        if (symbol == item.terms[0].first)
          distance = std::abs(coefficient);
      bool isSimple = !indices.anySymbol(expr, [&](Value value) {
        return value != id.getResult() && itemValues.contains(value);
      });
      int64_t extent = dim == 0 ? rows : dim + 1 == rank ? cols : 1;
      if (isSimple && distance >= extent)
        return true;
    }
    return refuse(store, "two of them may store to one place");
  }

  //===--------------------------------------------------------------------===//
  // Writing
  //===--------------------------------------------------------------------===//

  bool isSame(Value value) {
    return llvm::all_of(maps, [&](IRMapping &map) {
      return map.lookupOrDefault(value) == maps[0].lookupOrDefault(value);
    });
  }

  void mapAll(ValueRange from, ValueRange to) {
    for (IRMapping &map : maps)
      map.map(from, to);
  }

  void emit(OpBuilder &builder, Operation *op) {
    if (auto id = dyn_cast<ProgramIdOp>(op); id && id.getAxis() == axis)
      return emitIndex(builder, id);
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (isSame(loop.getLowerBound()) && isSame(loop.getUpperBound()) &&
          isSame(loop.getStep()))
        return emitLoop(builder, loop);
      loop.emitRemark("loops of work items stay apart: their bounds differ");
    }
    auto division = dyn_cast<arith::DivUIOp>(op);
    Unit unit = unitOf(op);
    // Products and vector code are each item's own, with its role.
    bool isShareable =
        op->hasTrait<OpTrait::ConstantLike>() ||
        ((unit == Unit::None || unit == Unit::Tma) && op->getNumRegions() == 0);
    if (division && isShared(division)) {
      mapAll(op->getResults(), builder.clone(*op, maps[0])->getResults());
    } else if (isShareable && llvm::all_of(op->getOperands(), [&](Value value) {
                 return isSame(value);
               })) {
      mapAll(op->getResults(), builder.clone(*op, maps[0])->getResults());
    } else {
      for (auto [slot, map] : llvm::enumerate(maps))
        builder.clone(*op, map)->walk([&, slot = slot](Operation *copy) {
          if (unitOf(copy) != Unit::None)
            copy->setAttr(kSlotAttr, builder.getI64IntegerAttr(slot));
        });
    }
  }

  void emitIndex(OpBuilder &builder, ProgramIdOp id) {
    Location loc = id.getLoc();
    Value program = builder.clone(*id)->getResult(0);
    Value factor = arith::ConstantIndexOp::create(builder, loc, slots);
    Value first = arith::MulIOp::create(builder, loc, program, factor);
    for (auto [slot, map] : llvm::enumerate(maps)) {
      Value offset = arith::ConstantIndexOp::create(builder, loc, slot);
      map.map(id.getResult(),
              arith::AddIOp::create(builder, loc, first, offset));
    }
  }

  void emitLoop(OpBuilder &builder, scf::ForOp loop) {
    SmallVector<Value> inits;
    for (IRMapping &map : maps)
      for (Value init : loop.getInitArgs())
        inits.push_back(map.lookupOrDefault(init));
    auto take = [&](IRMapping &map, ValueRange from, ValueRange &to) {
      map.map(from, to.take_front(from.size()));
      to = to.drop_front(from.size());
    };
    IRMapping &first = maps[0];
    auto copy = scf::ForOp::create(
        builder, loop.getLoc(), first.lookupOrDefault(loop.getLowerBound()),
        first.lookupOrDefault(loop.getUpperBound()),
        first.lookupOrDefault(loop.getStep()), inits,
        [&](OpBuilder &inner, Location loc, Value iv, ValueRange args) {
          mapAll(loop.getInductionVar(), iv);
          for (IRMapping &map : maps)
            take(map, loop.getRegionIterArgs(), args);
          for (Operation &op : loop.getBody()->without_terminator())
            emit(inner, &op);
          SmallVector<Value> yields;
          for (IRMapping &map : maps)
            for (Value value : loop.getYieldedValues())
              yields.push_back(map.lookupOrDefault(value));
          scf::YieldOp::create(inner, loc, yields);
        });
    copy.setUnsignedCmp(loop.getUnsignedCmp());
    ValueRange results = copy.getResults();
    for (IRMapping &map : maps)
      take(map, loop.getResults(), results);
  }

  void writeContract() {
    Builder builder(kernel.getContext());
    auto index = static_cast<unsigned>(axis);
    SmallVector<Attribute> terms(kernel.getGrid().getValue());
    if (auto extent = dyn_cast<IntegerAttr>(terms[index])) {
      terms[index] = builder.getI64IntegerAttr(extent.getInt() / slots);
    } else {
      SmallVector<Attribute> parts(cast<ArrayAttr>(terms[index]).getValue());
      parts[2] = builder.getI64IntegerAttr(
          cast<IntegerAttr>(parts[2]).getInt() * slots);
      terms[index] = builder.getArrayAttr(parts);
    }
    kernel.setGridAttr(builder.getArrayAttr(terms));
    kernel->setAttr(kRequiresAttr, builder.getArrayAttr(contract));
  }

  KernelOp kernel;
  GridAxis axis;
  int64_t slots;
  IndexAnalysis indices;
  /// What each item has in place of the kernel's values.
  SmallVector<IRMapping> maps;
  SmallVector<arith::DivUIOp> multiples;
  llvm::DenseSet<Value> itemValues;
  SmallVector<Attribute> contract;
};

struct JamItemsPass : public flamia::impl::JamItemsPassBase<JamItemsPass> {
  using JamItemsPassBase::JamItemsPassBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    Attribute name = kernel->getAttr(kAxisAttr);
    if (!name)
      return;
    std::optional<GridAxis> axis;
    if (auto text = dyn_cast<StringAttr>(name))
      axis = symbolizeGridAxis(text.getValue());
    auto slots =
        dyn_cast_or_null<IntegerAttr>(kernel.getParameters().get(kParameter));
    if (!axis || !slots || slots.getInt() < 1) {
      kernel.emitError("expected flamia.slots to name a grid axis, and an "
                       "integer parameter 'slots' that is bound, but got ")
          << name << " and " << kernel.getParameters().get(kParameter);
      return signalPassFailure();
    }
    if (slots.getInt() > 1)
      Jam(kernel, *axis, slots.getInt()).run();
  }
};

} // namespace
