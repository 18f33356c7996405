//===- CausalityAccess.cpp - Loads and stores of the causality analysis ---===//
//
// Which tokens a load brings in and how many of them share a scale; whether an
// output may depend on what is stored to it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Folded.h"
#include "passes/Analysis/Causality.h"

using namespace mlir;
using namespace flamia;

using Kind = Dependence::Kind;

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

/// Tokens that share a scale, from the scaled type and from whether the place
/// of the scales is that of the rows: tile t of a document's scales holds those
/// of its rows from 128 t on. The tile before or after would be other tokens'.
int64_t CausalityAnalysis::sharingOf(LoadScaledOp op) {
  int64_t sharing = op.getResult().getType().getBlockRows();
  if (op.getScaleIndices().empty() || op.getIndices().empty())
    return sharedByPack;
  IndexExpr row = indices.get(op.getIndices().front());
  IndexExpr tile = indices.get(op.getScaleIndices().front());
  // What may differ between tiles of one document.
  auto moves = [](Value value) {
    if (isa<BlockArgument>(value))
      return !isa<KernelOp>(
          cast<BlockArgument>(value).getOwner()->getParentOp());
    auto item = value.getDefiningOp<WorkItemOp>();
    return !item || value == item.getTile();
  };
  IndexExpr apart = row - tile * 128;
  bool hasWorkItems = false, follows = false;
  kernel.walk([&](WorkItemOp item) {
    hasWorkItems = true;
    follows |= apart == indices.get(item.getBegin()) -
                            indices.get(item.getScaleBase()) * 128;
  });
  if (hasWorkItems ? follows : apart == IndexExpr(0))
    return sharing;
  if (tile.isConstant() || !indices.anySymbol(apart, moves))
    return sharedByPack;
  return indices.anySymbol(tile, moves) ? sharedByPack : sharedByDocument;
}

/// The first token of \p tile of the scale arrays; nothing if there is more
/// than one list of work items.
std::optional<IndexExpr> CausalityAnalysis::tokensOfTile(Value tile) {
  IndexExpr start = indices.get(tile) * 128;
  unsigned items = 0;
  kernel.walk([&](WorkItemOp item) {
    ++items;
    start = start + indices.get(item.getBegin()) -
            indices.get(item.getScaleBase()) * 128;
  });
  if (items > 1)
    return std::nullopt;
  return start;
}

/// True if \p row is proven to be the first of a tile of its document, and so
/// of a block of 32 tokens.
bool CausalityAnalysis::startsTile(const IndexExpr &row) {
  auto isWhole = [](const IndexExpr &expr) {
    return expr.constant % 128 == 0 && llvm::all_of(expr.terms, [](auto term) {
             return term.second % 128 == 0;
           });
  };
  bool hasWorkItems = false, starts = false;
  kernel.walk([&](WorkItemOp item) {
    hasWorkItems = true;
    starts |= isWhole(row - indices.get(item.getBegin()));
  });
  return hasWorkItems ? starts : isWhole(row);
}

/// Tokens that share a scale of the payload \p arg. Loads with its own scales
/// say so in their types; where there are none any more, flamia-fold-scales has
/// left an attribute.
int64_t CausalityAnalysis::payloadSharing(BlockArgument arg) {
  if (auto block = attributesOf(arg).getAs<IntegerAttr>("flamia.token_block"))
    return block.getInt();
  int64_t sharing = 1;
  for (Operation *user : arg.getUsers())
    if (auto load = dyn_cast<LoadScaledOp>(user);
        load && load.getSource() == arg && !foldedOf(load.getScales()))
      sharing = std::max(sharing, load.getResult().getType().getBlockRows());
  return sharing;
}

std::optional<FoldedArgument> CausalityAnalysis::foldedOf(Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  if (!arg || arg.getOwner() != &kernel.getBody().front())
    return std::nullopt;
  return getFoldedArgument(kernel, arg.getArgNumber());
}

/// Adds what the values of a folded argument depend on, like \p place.
void CausalityAnalysis::addFolded(State &state, const FoldedArgument &folded,
                                  Dependence place) {
  auto add = [&](BlockArgument source, int64_t sharing) {
    Dependence dependence = place;
    dependence.source = source;
    dependence.sharing = std::max(place.sharing, sharing);
    state.add(dependence);
  };
  if (folded.of)
    add(folded.of, 1);
  for (const auto &[symbol, coefficient] : folded.exponent.terms) {
    BlockArgument payload = kernel.getBody().getArgument(symbol.argument);
    add(payload, std::max<int64_t>(symbol.span, payloadSharing(payload)));
  }
}

void CausalityAnalysis::visitLoad(Operation *op) {
  auto scaled = dyn_cast<LoadScaledOp>(op);
  auto payload = dyn_cast<LoadPayloadOp>(op);
  auto load = dyn_cast<LoadOp>(op);
  // All three read a global tensor at one index for each dimension.
  Value source = op->getOperand(0);
  OperandRange position = scaled    ? scaled.getIndices()
                          : payload ? payload.getIndices()
                                    : load.getIndices();
  State &state = stateOf(op->getResult(0));
  state = State();
  auto arg = dyn_cast<BlockArgument>(source);
  if (!arg || position.empty())
    return;
  auto [rows, cols] = getTileShape(op->getResult(0).getType());
  Dependence dependence;
  dependence.source = arg;
  dependence.load = op;

  if (std::optional<FoldedArgument> folded =
          load ? foldedOf(source) : std::nullopt) {
    // One number for a tile, or a row of 128 numbers from its first token on.
    bool isLine = folded->form != FoldedArgument::Form::Scalar;
    std::optional<IndexExpr> start = tokensOfTile(position.front());
    if (rows != 1 || !start ||
        (isLine && indices.get(position.back()) != IndexExpr(0))) {
      dependence.sharing = sharedByPack;
    } else {
      dependence.kind = isLine ? Kind::Col : Kind::Range;
      dependence.origin = *start;
      dependence.extent = isLine ? cols : 128;
    }
    return addFolded(state, *folded, dependence);
  }

  dependence.origin = indices.get(position.front());
  // A rank-1 tensor lies along the columns.
  bool alongCols = cast<MemRefType>(arg.getType()).getRank() == 1;
  dependence.kind = alongCols ? Kind::Col : Kind::Row;
  dependence.extent = alongCols ? cols : rows;
  if (payload && payloadSharing(arg) > 1)
    dependence.sharing =
        startsTile(dependence.origin) ? payloadSharing(arg) : sharedByPack;
  if (scaled) {
    dependence.sharing = sharingOf(scaled);
    if (std::optional<FoldedArgument> folded = foldedOf(scaled.getScales())) {
      // The type tells how many tokens share a byte of these scales; the
      // payload was rounded with others.
      int64_t shared = payloadSharing(arg);
      addFolded(state, *folded, dependence);
      dependence.sharing = std::max(dependence.sharing, shared);
    }
  }
  if (BlockArgument origin = argumentNamedBy(arg, "flamia.derived_from")) {
    // Only a tensor with a token axis can be per token.
    auto dims = attributesOf(arg).getAs<ArrayAttr>("flamia.dims");
    auto originDims = attributesOf(origin).getAs<ArrayAttr>("flamia.dims");
    if (!dims || !originDims || dims.empty() || originDims.empty() ||
        dims[0] != originDims[0])
      dependence.sharing = sharedByPack;
  }
  state.add(dependence);
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

static bool comesBefore(IndexAnalysis &indices, const Dependence &dependence,
                        const IndexExpr &origin, int64_t rows, bool later) {
  if (dependence.kind == Kind::All || dependence.sharing > dependence.extent)
    return false;
  if (later)
    return indices.isAtMost(origin + rows, dependence.origin);
  return indices.isLess(dependence.origin + (dependence.extent - 1), origin);
}

bool CausalityAnalysis::isStrictlyPast(const Leak &leak) {
  return comesBefore(indices, leak.dependence, leak.outputOrigin,
                     leak.outputRows, leak.later);
}

void CausalityAnalysis::checkDependence(Operation *store, BlockArgument output,
                                        const Dependence &dependence,
                                        const IndexExpr &origin, int64_t rows,
                                        StringRef direction) {
  if (direction == "any")
    return;
  bool later = direction == ">=";
  Leak leak;
  leak.dependence = dependence;
  leak.later = later;
  if (direction.empty()) {
    leak.reason = Leak::Reason::NoDirection;
  } else {
    if (comesBefore(indices, dependence, origin, rows, later))
      return;
    const std::optional<IndexExpr> &bound =
        later ? dependence.below : dependence.above;
    auto inOrder = [&](const IndexExpr &token) {
      return later ? indices.isAtMost(origin, token)
                   : indices.isAtMost(token, origin);
    };
    bool limited = bound && inOrder(*bound);
    bool aligned = dependence.kind == Kind::Row && inOrder(dependence.origin);
    if ((limited || aligned) && dependence.sharing == 1)
      return;
    leak.reason = dependence.sharing > 1         ? Leak::Reason::SharedScale
                  : dependence.kind == Kind::Row ? Leak::Reason::OtherRow
                                                 : Leak::Reason::NoMask;
  }
  for (Leak &known : leaks)
    if (known.reason == leak.reason &&
        known.dependence.load == dependence.load &&
        known.dependence.product == dependence.product &&
        known.dependence.source == dependence.source && known.later == later) {
      if (!llvm::is_contained(known.outputs, output))
        known.outputs.push_back(output);
      return;
    }
  leak.outputs.push_back(output);
  leak.store = store;
  leak.outputOrigin = origin;
  leak.outputRows = rows;
  leaks.push_back(std::move(leak));
}

void CausalityAnalysis::checkStore(Operation *op) {
  auto output = dyn_cast<BlockArgument>(op->getOperand(1));
  if (!output)
    return;
  auto depends = attributesOf(output).getAs<DictionaryAttr>("flamia.depends");
  if (!depends)
    return;
  Value value = op->getOperand(0);
  bool inAtoms = isa<StoreScalesOp, StoreExponentsOp>(op);
  IndexExpr origin = indices.get(op->getOperand(2));
  std::optional<IndexExpr> tokens =
      inAtoms ? tokensOfTile(op->getOperand(2)) : origin;
  int64_t rows = getTileShape(value.getType()).first;
  for (Dependence dependence : State(stateOf(value)).dependences) {
    if (tokens)
      origin = *tokens;
    else
      dependence.kind = Kind::All;
    BlockArgument source = representative(dependence.source);
    auto direction =
        depends.getAs<StringAttr>(kernel.getArgName(source.getArgNumber()));
    checkDependence(op, output, dependence, origin, rows,
                    direction ? direction.getValue() : StringRef());
  }
}
