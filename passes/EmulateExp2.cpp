//===- EmulateExp2.cpp - A share of exponentials by polynomial ------------===//
//
// Finds where tiles of scores lie in their document's score matrix, and says
// so in a flamia.exp2; the lowering picks the blocks.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/IndexAnalysis.h"
#include "passes/Analysis/Kernels.h"
#include "passes/Passes.h"

#include "flamia/Numerics/Exp2.h"
#include "flamia/Numerics/Layout.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

namespace flamia {
#define GEN_PASS_DEF_EMULATEEXP2PASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using numerics::Exp2Share;

/// What kernels may name, and be compiled for.
static constexpr StringLiteral architectures[] = {"sm_100a", "sm_103a",
                                                  "sm_90"};

static std::string architectureList() {
  return llvm::join(ArrayRef(architectures), ", ");
}

/// "N/M" or "0".
static std::optional<Exp2Share> parseShare(StringRef text) {
  Exp2Share share;
  auto [blocks, of] = text.split('/');
  if (blocks.getAsInteger(10, share.blocks))
    return std::nullopt;
  if (text.contains('/') ? of.getAsInteger(10, share.of) : share.blocks != 0)
    return std::nullopt;
  return share.isValid() ? std::optional(share) : std::nullopt;
}

namespace {

/// First row and column of a tile in its document's score matrix.
struct Place {
  Value rows, cols;
};

class KernelEmulation {
public:
  KernelEmulation(KernelOp kernel, Exp2Share share)
      : kernel(kernel), share(share) {}

  void run() {
    SmallVector<WorkItemOp> items(kernel.getOps<WorkItemOp>());
    if (items.size() == 1)
      item = items.front();
    SmallVector<math::Exp2Op> ops;
    kernel.walk([&](math::Exp2Op op) {
      auto type = dyn_cast<RankedTensorType>(op.getType());
      if (type && type.getElementType().isF32() && type.getRank() == 2 &&
          type.getDimSize(0) > 1 && type.getDimSize(1) > 1)
        ops.push_back(op);
    });
    for (math::Exp2Op op : ops)
      emulate(op);
  }

private:
  void emulate(math::Exp2Op op) {
    auto leave = [&](StringRef why) {
      emitRemark(op.getLoc(), "no part of this exp2 is moved off the special "
                              "function unit: ")
          << why;
    };
    auto [rows, cols] = getTileShape(op.getType());
    if (rows % numerics::blockSize != 0 || cols % numerics::blockSize != 0)
      return leave("the tile is not made of blocks of 32 x 32");
    std::optional<Place> place;
    for (DotOp dot : productsOf(op.getOperand())) {
      std::optional<Place> next = placeOf(dot);
      if (!next)
        return leave("it depends on a product that is none of a tile of rows "
                     "with a transposed tile of rows");
      if (place && (indices.get(place->rows) != indices.get(next->rows) ||
                    indices.get(place->cols) != indices.get(next->cols)))
        return leave("it depends on products of different rows or columns");
      place = next;
    }
    if (!place)
      return leave("it does not depend on a product elementwise");
    OpBuilder builder(op);
    Value first = positionOf(builder, place->rows);
    Value second = first ? positionOf(builder, place->cols) : Value();
    if (!second)
      return leave("where the tile lies in its document is not known in steps "
                   "of 32 tokens");
    Value result =
        Exp2Op::create(builder, op.getLoc(), op.getType(), op.getOperand(),
                       first, second, builder.getI64IntegerAttr(share.blocks),
                       builder.getI64IntegerAttr(share.of));
    op.replaceAllUsesWith(result);
    op.erase();
  }

  /// Products that elements of the tile depend on at their own place.
  static SmallVector<DotOp> productsOf(Value tile) {
    SmallVector<DotOp> products;
    llvm::SetVector<Operation *> open;
    auto visit = [&](Value value) {
      if (Operation *op = value.getDefiningOp())
        open.insert(op);
    };
    visit(tile);
    for (unsigned i = 0; i < open.size(); ++i) {
      Operation *op = open[i];
      if (auto dot = dyn_cast<DotOp>(op))
        products.push_back(dot);
      else if (isa<MaskOp>(op) || OpTrait::hasElementwiseMappableTraits(op))
        llvm::for_each(op->getOperands(), visit);
    }
    return products;
  }

  /// The first index of the load that the tile is.
  static Value firstRowOf(Value tile) {
    Operation *load = tile.getDefiningOp();
    if (!load)
      return Value();
    return llvm::TypeSwitch<Operation *, Value>(load)
        .Case<LoadOp, LoadScaledOp, LoadPayloadOp>(
            [](auto op) { return op.getIndices().front(); })
        .Default(Value());
  }

  static std::optional<Place> placeOf(DotOp dot) {
    auto transpose = dot.getB().getDefiningOp<TransposeOp>();
    if (!transpose)
      return std::nullopt;
    Place place = {firstRowOf(dot.getA()), firstRowOf(transpose.getSource())};
    if (!place.rows || !place.cols)
      return std::nullopt;
    return place;
  }

  /// Tokens from the document's first to `token`, as far as the choice of
  /// blocks needs them; null if it is not known that they are whole blocks.
  Value positionOf(OpBuilder &builder, Value token) {
    IndexExpr position = indices.get(token);
    Location loc = token.getLoc();
    if (item) {
      // Anything else would depend on where the document lies in the pack.
      Value begin = item.getBegin();
      position = position - indices.get(begin);
      if (indices.anySymbol(position,
                            [&](Value symbol) { return symbol == begin; }))
        return Value();
    }
    auto isMultipleOf = [&](int64_t number) {
      return llvm::all_of(position.terms,
                          [&](auto term) { return term.second % number == 0; });
    };
    if (!isMultipleOf(numerics::blockSize) ||
        position.constant % numerics::blockSize != 0)
      return Value();
    int64_t period = numerics::blockSize * share.of;
    if (isMultipleOf(period))
      return arith::ConstantIndexOp::create(
          builder, loc, llvm::mod(position.constant, period));
    return item ? arith::SubIOp::create(builder, loc, token, item.getBegin())
                : token;
  }

  KernelOp kernel;
  Exp2Share share;
  WorkItemOp item;
  IndexAnalysis indices;
};

class EmulateExp2Pass
    : public flamia::impl::EmulateExp2PassBase<EmulateExp2Pass> {
public:
  using EmulateExp2PassBase::EmulateExp2PassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<Exp2Share> given;
    if (!llvm::is_contained(architectures, arch)) {
      module->emitError("flamia-emulate-exp2: expected an architecture among ")
          << architectureList() << ", but got '" << arch << "'";
      return signalPassFailure();
    }
    if (share != "kernel" && failed(readShare(module, share, given)))
      return signalPassFailure();
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      std::optional<Exp2Share> own;
      if (failed(requireSpecialized(kernel)) || failed(shareOf(kernel, own)))
        return signalPassFailure();
      Exp2Share chosen = given ? *given : own.value_or(Exp2Share());
      if (chosen.blocks > 0)
        KernelEmulation(kernel, chosen).run();
    }
  }

private:
  static LogicalResult readShare(Operation *op, StringRef text,
                                 std::optional<Exp2Share> &to) {
    to = parseShare(text);
    if (to)
      return success();
    return op->emitError(
               "flamia-emulate-exp2: expected a share N/M with M a power of "
               "two up to 32 and N at most M, or 0, but got '")
           << text << "'";
  }

  /// What a kernel says for the architecture, if anything.
  LogicalResult shareOf(KernelOp kernel, std::optional<Exp2Share> &to) {
    StringRef name = "flamia.exp2_emulation";
    Attribute all = kernel->getAttr(name);
    auto shares = dyn_cast_or_null<DictionaryAttr>(all);
    if (all && !shares)
      return kernel.emitOpError("expected attribute '")
             << name << "' to be a dictionary of shares by architecture";
    if (!shares)
      return success();
    // All of them: a name or a share that is wrong would be none in silence.
    for (NamedAttribute entry : shares) {
      StringRef target = entry.getName();
      if (!llvm::is_contained(architectures, target))
        return kernel.emitOpError("expected '")
               << name << "' to name architectures among " << architectureList()
               << ", but got '" << target << "'";
      auto text = dyn_cast<StringAttr>(entry.getValue());
      if (!text)
        return kernel.emitOpError("expected '")
               << name << "' to give a string for " << target << ", but got "
               << entry.getValue();
      std::optional<Exp2Share> read;
      if (failed(readShare(kernel, text, read)))
        return failure();
      if (target == arch)
        to = read;
    }
    return success();
  }
};

} // namespace
