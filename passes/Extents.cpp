//===- Extents.cpp - Extents of a kernel's values by unification ----------===//

#include "passes/Extents.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia;

namespace {
/// Which extent of a value: rows, columns, the scale block's rows and columns;
/// for a memref simply the dimension.
enum Extent : unsigned { Rows = 0, Cols = 1, BlockRows = 2, BlockCols = 3 };

/// Unification over the extents of all values of a kernel.
class ExtentSolver {
public:
  /// Adds what the kernel's ops and named dimensions say.
  LogicalResult collect(KernelOp kernel);
  /// Writes the solution into the types.
  LogicalResult apply(KernelOp kernel);

private:
  struct Class {
    unsigned parent;
    int64_t value = ShapedType::kDynamic;
  };

  unsigned find(unsigned node) {
    while (classes[node].parent != node)
      node = classes[node].parent = classes[classes[node].parent].parent;
    return node;
  }
  unsigned makeNode(int64_t value) {
    classes.push_back({unsigned(classes.size()), value});
    return classes.size() - 1;
  }
  int64_t valueOf(unsigned node) { return classes[find(node)].value; }

  static SmallVector<int64_t, 4> extentsOf(Type type) {
    if (auto scaled = dyn_cast<ScaledType>(type))
      return {scaled.getRows(), scaled.getCols(), scaled.getBlockRows(),
              scaled.getBlockCols()};
    if (auto shaped = dyn_cast<ShapedType>(type); shaped && shaped.hasRank())
      return SmallVector<int64_t, 4>(shaped.getShape());
    return {};
  }

  ArrayRef<unsigned> nodesOf(Value value);
  LogicalResult equate(Operation *op, unsigned a, unsigned b,
                       const Twine &nameA, const Twine &nameB);
  LogicalResult equate(Operation *op, Value a, unsigned extentA, Value b,
                       unsigned extentB, const Twine &nameA,
                       const Twine &nameB);
  LogicalResult equateShapes(Operation *op, Value a, Value b,
                             const Twine &nameA, const Twine &nameB);
  LogicalResult bind(Operation *op, Value value, unsigned extent, int64_t to,
                     const Twine &name);
  LogicalResult collectArguments(KernelOp kernel);
  LogicalResult collectOp(Operation *op);
  LogicalResult collectRegions(Operation *op);
  void followGlobal(Operation *op);
  LogicalResult countAtoms(Operation *op);

  std::vector<Class> classes;
  DenseMap<Value, SmallVector<unsigned, 4>> nodes;
};
} // namespace

ArrayRef<unsigned> ExtentSolver::nodesOf(Value value) {
  auto [place, isNew] = nodes.try_emplace(value);
  if (!isNew)
    return place->second;
  SmallVector<unsigned, 4> made;
  for (int64_t extent : extentsOf(value.getType()))
    made.push_back(makeNode(extent));
  // A block extent `?` is the whole tile's.
  if (auto scaled = dyn_cast<ScaledType>(value.getType())) {
    if (scaled.getBlockRows() == ScaledType::kDynamic)
      made[BlockRows] = made[Rows];
    if (scaled.getBlockCols() == ScaledType::kDynamic)
      made[BlockCols] = made[Cols];
  }
  return place->second = made;
}

LogicalResult ExtentSolver::equate(Operation *op, unsigned a, unsigned b,
                                   const Twine &nameA, const Twine &nameB) {
  a = find(a);
  b = find(b);
  if (a == b)
    return success();
  int64_t &valueA = classes[a].value, valueB = classes[b].value;
  if (!ShapedType::isDynamic(valueA) && !ShapedType::isDynamic(valueB) &&
      valueA != valueB)
    return op->emitError("expected ")
           << nameA << " to equal " << nameB << ", but got " << valueA
           << " and " << valueB;
  classes[b].parent = a;
  if (ShapedType::isDynamic(valueA))
    valueA = valueB;
  return success();
}

LogicalResult ExtentSolver::equate(Operation *op, Value a, unsigned extentA,
                                   Value b, unsigned extentB,
                                   const Twine &nameA, const Twine &nameB) {
  unsigned nodeA = nodesOf(a)[extentA], nodeB = nodesOf(b)[extentB];
  return equate(op, nodeA, nodeB, nameA, nameB);
}

LogicalResult ExtentSolver::equateShapes(Operation *op, Value a, Value b,
                                         const Twine &nameA,
                                         const Twine &nameB) {
  SmallVector<unsigned, 4> nodesA(nodesOf(a)), nodesB(nodesOf(b));
  static constexpr StringRef names[] = {"rows of ", "columns of ",
                                        "block rows of ", "block columns of "};
  for (unsigned i = 0, e = std::min<size_t>({nodesA.size(), nodesB.size(), 4});
       i < e; ++i)
    if (failed(equate(op, nodesA[i], nodesB[i], names[i] + nameA,
                      names[i] + nameB)))
      return failure();
  return success();
}

LogicalResult ExtentSolver::bind(Operation *op, Value value, unsigned extent,
                                 int64_t to, const Twine &name) {
  return equate(op, nodesOf(value)[extent], makeNode(to), name,
                "its known extent");
}

LogicalResult ExtentSolver::collectArguments(KernelOp kernel) {
  llvm::StringMap<unsigned> named;
  for (NamedAttribute parameter : kernel.getParameters())
    if (auto integer = dyn_cast<IntegerAttr>(parameter.getValue());
        integer && !isa<BoolAttr>(parameter.getValue()))
      named[parameter.getName()] = makeNode(integer.getInt());
  if (!kernel.getArgAttrsAttr())
    return success();
  for (BlockArgument arg : kernel.getBody().getArguments()) {
    auto attrs =
        cast<DictionaryAttr>(kernel.getArgAttrsAttr()[arg.getArgNumber()]);
    auto dims = attrs.getAs<ArrayAttr>("flamia.dims");
    if (!dims)
      continue;
    SmallVector<unsigned, 4> argNodes(nodesOf(arg));
    if (argNodes.size() != dims.size())
      return emitError(kernel.getLoc(), "expected ")
             << argNodes.size() << " names in 'flamia.dims' of argument '"
             << kernel.getArgName(arg.getArgNumber()) << "', but got "
             << dims.size();
    for (auto [node, name] : llvm::zip(argNodes, dims)) {
      StringRef text = cast<StringAttr>(name).getValue();
      auto [place, isNew] = named.try_emplace(text, node);
      if (!isNew &&
          failed(equate(kernel, node, place->second,
                        "dimension '" + text + "' of argument '" +
                            kernel.getArgName(arg.getArgNumber()) + "'",
                        "'" + text + "' elsewhere")))
        return failure();
    }
  }
  return success();
}

/// Regions: a loop's initial value, its argument, what it yields and its result
/// have the same type; so have both sides of an if.
LogicalResult ExtentSolver::collectRegions(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    Operation *yield = loop.getBody()->getTerminator();
    for (auto [init, arg, yielded, result] :
         llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(),
                   yield->getOperands(), loop.getResults()))
      if (failed(equateShapes(op, init, arg, "the initial value",
                              "the iteration argument")) ||
          failed(equateShapes(yield, yielded, arg, "the value yielded",
                              "the iteration argument")) ||
          failed(equateShapes(op, result, arg, "the result",
                              "the iteration argument")))
        return failure();
  }
  if (auto branch = dyn_cast<scf::IfOp>(op))
    for (Region &region : branch->getRegions())
      if (!region.empty())
        for (auto [yielded, result] :
             llvm::zip(region.front().getTerminator()->getOperands(),
                       branch.getResults()))
          if (failed(equateShapes(op, yielded, result, "the value yielded",
                                  "the result")))
            return failure();
  return success();
}

LogicalResult ExtentSolver::collectOp(Operation *op) {
  for (Value result : op->getResults())
    (void)nodesOf(result);
  if (auto dot = dyn_cast<DotOp>(op)) {
    Value a = dot.getA(), b = dot.getB(), c = dot.getAcc();
    return failure(
        failed(equate(op, a, Rows, c, Rows, "rows of 'a'", "rows of 'acc'")) ||
        failed(equate(op, a, Cols, b, Rows, "columns of 'a'", "rows of 'b'")) ||
        failed(equate(op, b, Cols, c, Cols, "columns of 'b'",
                      "columns of 'acc'")) ||
        failed(equateShapes(op, c, dot.getResult(), "'acc'", "'result'")));
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Value from = transpose.getSource(), to = transpose.getResult();
    if (failed(equate(op, from, Rows, to, Cols, "rows of 'source'",
                      "columns of 'result'")) ||
        failed(equate(op, from, Cols, to, Rows, "columns of 'source'",
                      "rows of 'result'")))
      return failure();
    if (isa<ScaledType>(from.getType()) && isa<ScaledType>(to.getType()))
      return failure(failed(equate(op, from, BlockRows, to, BlockCols,
                                   "block rows of 'source'",
                                   "block columns of 'result'")) ||
                     failed(equate(op, from, BlockCols, to, BlockRows,
                                   "block columns of 'source'",
                                   "block rows of 'result'")));
    return success();
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Value from = broadcast.getSource(), to = broadcast.getResult();
    for (Extent extent : {Rows, Cols})
      if (extentsOf(from.getType())[extent] != 1 &&
          failed(equate(
              op, from, extent, to, extent,
              extent == Rows ? "rows of 'source'" : "columns of 'source'",
              extent == Rows ? "rows of 'result'" : "columns of 'result'")))
        return failure();
    return success();
  }
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return failure(
        failed(equate(op, reduce.getSource(), Rows, reduce.getResult(), Rows,
                      "rows of 'source'", "rows of 'result'")) ||
        failed(bind(op, reduce.getResult(), Cols, 1, "columns of 'result'")));
  if (isa<QuantizeOp, PayloadOp>(op)) {
    Value from = op->getOperand(0), to = op->getResult(0);
    if (failed(equate(op, from, Rows, to, Rows, "rows of 'source'",
                      "rows of 'result'")) ||
        failed(equate(op, from, Cols, to, Cols, "columns of 'source'",
                      "columns of 'result'")))
      return failure();
    auto quantize = dyn_cast<QuantizeOp>(op);
    if (quantize && quantize.getIncluding())
      return equate(op, quantize.getIncluding(), Rows, from, Rows,
                    "rows of 'including'", "rows of 'source'");
    return success();
  }
  if (auto exponents = dyn_cast<ExponentsOp>(op))
    return failure(
        failed(equate(op, exponents.getSource(), Rows, exponents.getResult(),
                      Rows, "rows of 'source'", "rows of 'result'")) ||
        failed(bind(op, exponents.getSource(), BlockRows, 1,
                    "block rows of 'source'")));
  if (isa<RoundLikeOp, HadamardOp, MaskOp, Pow2Op, ReduceRowsOp>(op))
    return equateShapes(op, op->getOperand(0), op->getResult(0), "'source'",
                        "'result'");
  if (OpTrait::hasElementwiseMappableTraits(op)) {
    Value first;
    for (Value value : llvm::concat<Value>(
             llvm::map_to_vector(op->getOperands(), [](Value v) { return v; }),
             llvm::map_to_vector(op->getResults(),
                                 [](Value v) -> Value { return v; }))) {
      if (!isa<RankedTensorType>(value.getType()))
        continue;
      if (first &&
          failed(equateShapes(op, first, value, "one value", "another")))
        return failure();
      first = first ? first : value;
    }
    return success();
  }
  return collectRegions(op);
}

/// Columns that nothing else determines are those of the global tensor.
void ExtentSolver::followGlobal(Operation *op) {
  Value tile, global;
  if (auto load = dyn_cast<LoadOp>(op))
    tile = load.getResult(), global = load.getSource();
  else if (auto load = dyn_cast<LoadScaledOp>(op))
    tile = load.getResult(), global = load.getSource();
  else if (auto load = dyn_cast<LoadPayloadOp>(op))
    tile = load.getResult(), global = load.getSource();
  else if (isa<StoreOp, StorePayloadOp>(op))
    tile = op->getOperand(0), global = op->getOperand(1);
  if (!tile || nodesOf(global).empty())
    return;
  unsigned columns = find(nodesOf(tile)[Cols]);
  if (ShapedType::isDynamic(classes[columns].value))
    classes[columns].value = valueOf(nodesOf(global).back());
}

/// An array of scales [tiles, heads, atoms, 512] has the atoms of one tile.
LogicalResult ExtentSolver::countAtoms(Operation *op) {
  Value tile, scales;
  Axis along = Axis::Cols;
  if (auto load = dyn_cast<LoadScaledOp>(op))
    tile = load.getResult(), scales = load.getScales(), along = load.getAlong();
  else if (auto store = dyn_cast<StoreScalesOp>(op))
    tile = store.getValue(), scales = store.getTarget(),
    along = store.getAlong();
  if (!tile || nodesOf(scales).size() != 4)
    return success();
  int64_t extent = valueOf(nodesOf(tile)[along == Axis::Cols ? Cols : Rows]);
  if (ShapedType::isDynamic(extent))
    return success();
  Type scale = cast<ScaledType>(tile.getType()).getScaleType();
  return bind(op, scales, 2, llvm::divideCeil(extent, 4 * getScaleUnit(scale)),
              "the number of atoms of a tile's scales");
}

LogicalResult ExtentSolver::collect(KernelOp kernel) {
  if (failed(collectArguments(kernel)))
    return failure();
  WalkResult result = kernel.getBody().walk([&](Operation *op) {
    return failed(collectOp(op)) ? WalkResult::interrupt()
                                 : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  kernel.getBody().walk([&](Operation *op) { followGlobal(op); });
  result = kernel.getBody().walk([&](Operation *op) {
    return failed(countAtoms(op)) ? WalkResult::interrupt()
                                  : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult ExtentSolver::apply(KernelOp kernel) {
  auto bound = [&](Value value) -> FailureOr<Type> {
    Type type = value.getType();
    SmallVector<int64_t, 4> extents;
    for (unsigned node : nodesOf(value))
      extents.push_back(valueOf(node));
    if (auto memref = dyn_cast<MemRefType>(type))
      return Type(MemRefType::Builder(memref).setShape(extents));
    bool isTile = isa<RankedTensorType, ScaledType>(type);
    if (isTile)
      for (auto [index, extent] : llvm::enumerate(extents))
        if (ShapedType::isDynamic(extent))
          return emitError(value.getLoc(), "cannot determine the ")
                 << (index == 0 ? "rows" : "columns") << " of " << type
                 << ": no parameter, argument or static type gives them";
    if (auto scaled = dyn_cast<ScaledType>(type)) {
      auto checked = ScaledType::getChecked(
          [&] { return emitError(value.getLoc()); }, type.getContext(),
          extents[0], extents[1], scaled.getElementType(),
          scaled.getScaleType(), extents[2], extents[3]);
      if (!checked)
        return failure();
      return Type(checked);
    }
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      return Type(tensor.clone(extents));
    return type;
  };

  bool ok = true;
  auto update = [&](Value value) {
    FailureOr<Type> type = bound(value);
    if (failed(type))
      ok = false;
    else
      value.setType(*type);
  };
  for (BlockArgument arg : kernel.getBody().getArguments())
    update(arg);
  kernel.getBody().walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (ok)
        update(result);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument arg : block.getArguments())
          if (ok)
            update(arg);
  });
  kernel.setFunctionType(FunctionType::get(
      kernel.getContext(), kernel.getBody().getArgumentTypes(), {}));
  return success(ok);
}

LogicalResult flamia::bindExtents(KernelOp kernel) {
  ExtentSolver solver;
  return failure(failed(solver.collect(kernel)) ||
                 failed(solver.apply(kernel)));
}
