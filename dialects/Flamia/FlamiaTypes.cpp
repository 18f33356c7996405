//===- FlamiaTypes.cpp - Types of the Flamia dialect ----------------------===//

#include "dialects/Flamia/Flamia.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flamia;

#define GET_TYPEDEF_CLASSES
#include "dialects/Flamia/FlamiaTypes.cpp.inc"

void FlamiaDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Flamia/FlamiaTypes.cpp.inc"
      >();
}

std::pair<int64_t, int64_t> flamia::getTileShape(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return {scaled.getRows(), scaled.getCols()};
  auto tensor = cast<RankedTensorType>(type);
  return {tensor.getDimSize(0), tensor.getDimSize(1)};
}

int64_t flamia::getScaleUnit(Type scaleType) {
  return isa<Float8E4M3FNType>(scaleType) ? 16 : 32;
}

/// Parses `A x B` into exactly two extents.
static ParseResult parseTwoExtents(AsmParser &parser,
                                   SmallVectorImpl<int64_t> &extents,
                                   bool trailingX) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(extents, /*allowDynamic=*/true,
                                /*withTrailingX=*/trailingX))
    return failure();
  if (extents.size() != 2)
    return parser.emitError(loc, "expected 2 extents, but got ")
           << extents.size();
  return success();
}

Type ScaledType::parse(AsmParser &parser) {
  SmallVector<int64_t, 2> shape, block;
  Type element, scale;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parseTwoExtents(parser, shape, /*trailingX=*/false) ||
      parser.parseComma() || parser.parseType(element) ||
      parser.parseKeyword("by") || parser.parseType(scale) ||
      parser.parseKeyword("per") ||
      parseTwoExtents(parser, block, /*trailingX=*/false) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<ScaledType>(loc, parser.getContext(), shape[0],
                                       shape[1], element, scale, block[0],
                                       block[1]);
}

static void printExtents(AsmPrinter &printer, int64_t first, int64_t second) {
  printer.printDimensionList({first, second});
}

void ScaledType::print(AsmPrinter &printer) const {
  printer << "<";
  printExtents(printer, getRows(), getCols());
  printer << ", " << getElementType() << " by " << getScaleType() << " per ";
  printExtents(printer, getBlockRows(), getBlockCols());
  printer << ">";
}

LogicalResult ScaledType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t rows, int64_t cols, Type elementType,
                                 Type scaleType, int64_t blockRows,
                                 int64_t blockCols) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type, Float4E2M1FNType>(elementType))
    return emitError() << "expected element type f8E4M3FN, f8E5M2 or "
                          "f4E2M1FN, but got "
                       << elementType;
  if (!isa<Float8E8M0FNUType, Float8E4M3FNType>(scaleType))
    return emitError() << "expected scale type f8E8M0FNU or f8E4M3FN, but got "
                       << scaleType;
  bool isNvfp4 = isa<Float4E2M1FNType>(elementType);
  if (isNvfp4 != isa<Float8E4M3FNType>(scaleType))
    return emitError() << "expected f8E4M3FN or f8E5M2 by f8E8M0FNU, or "
                          "f4E2M1FN by f8E4M3FN, but got "
                       << elementType << " by " << scaleType;
  auto check = [&](StringRef axis, int64_t extent,
                   int64_t block) -> LogicalResult {
    if (extent != kDynamic && extent > maxTileExtent)
      return emitError() << "expected at most " << maxTileExtent << " " << axis
                         << " (512 columns of tensor memory, 227 KB of shared "
                            "memory), but got "
                         << extent;
    if (extent == kDynamic || block == kDynamic) {
      if (extent == 0 || block == 0)
        return emitError() << "expected positive " << axis;
      return success();
    }
    if (extent <= 0 || block <= 0 || extent % block != 0)
      return emitError() << "expected " << axis
                         << " to be a positive multiple of the block's, but "
                            "got "
                         << extent << " and a block of " << block;
    return success();
  };
  if (failed(check("rows", rows, blockRows)) ||
      failed(check("columns", cols, blockCols)))
    return failure();
  // What hardware takes: one scale for each 16 elements of the contraction.
  if (isNvfp4 && blockRows != kDynamic && blockCols != kDynamic &&
      blockRows % 16 != 0 && blockCols % 16 != 0)
    return emitError() << "expected scale blocks of f4E2M1FN of a multiple of "
                          "16 elements along one axis, but got "
                       << blockRows << "x" << blockCols;
  return success();
}
