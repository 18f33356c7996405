//===- TcgenTypes.cpp - Types of the Tcgen dialect ------------------------===//

#include "dialects/Tcgen/Tcgen.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flamia::tcgen;

#include "dialects/Tcgen/TcgenEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Tcgen/TcgenTypes.cpp.inc"

void TcgenDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Tcgen/TcgenTypes.cpp.inc"
      >();
}

int64_t BufferType::getNumAtoms() const {
  return llvm::divideCeil(getRows(), 128) * llvm::divideCeil(getCols(), 4);
}

int64_t BufferType::getSlotSize() const {
  if (getLayout() == Layout::Scales)
    return getNumAtoms() * (getSpace() == Space::Smem ? 512 : 4);
  int64_t rowBits = getCols() * getElementType().getIntOrFloatBitWidth();
  return getSpace() == Space::Smem ? getRows() * rowBits / 8 : rowBits / 32;
}

int64_t BufferType::getSpanBytes() const {
  int64_t rowBytes = getCols() * getElementType().getIntOrFloatBitWidth() / 8;
  return std::min<int64_t>(128, rowBytes);
}

int64_t BufferType::getNumSlabs() const {
  int64_t rowBytes = getCols() * getElementType().getIntOrFloatBitWidth() / 8;
  return rowBytes / getSpanBytes();
}

Type BufferType::parse(AsmParser &parser) {
  StringRef space, layout;
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t, 3> shape;
  int64_t slots = 0;
  Type element;
  if (parser.parseLess() || parser.parseKeyword(&space) ||
      parser.parseComma() || parser.parseKeyword(&layout) ||
      parser.parseComma() || parser.parseInteger(slots) ||
      parser.parseKeyword("x") ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  auto spaceKind = symbolizeSpace(space);
  auto layoutKind = symbolizeLayout(layout);
  if (!spaceKind || !layoutKind || shape.size() != 2) {
    parser.emitError(loc,
                     "expected <smem|tmem, operand|scales|lanes|line, SLOTS x "
                     "ROWSxCOLSxELEMENT>");
    return {};
  }
  return parser.getChecked<BufferType>(loc, parser.getContext(), *spaceKind,
                                       *layoutKind, slots, shape[0], shape[1],
                                       element);
}

void BufferType::print(AsmPrinter &printer) const {
  printer << "<" << stringifySpace(getSpace()) << ", "
          << stringifyLayout(getLayout()) << ", " << getSlots() << " x "
          << getRows() << "x" << getCols() << "x" << getElementType() << ">";
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Space space, Layout layout, int64_t slots,
                                 int64_t rows, int64_t cols, Type elementType) {
  if (slots < 1 || rows < 1 || cols < 1)
    return emitError() << "expected positive slots and extents, but got "
                       << slots << " x " << rows << "x" << cols;
  if (!elementType.isIntOrFloat())
    return emitError() << "expected an integer or floating-point element, but "
                          "got "
                       << elementType;
  if (((layout == Layout::Operand || layout == Layout::Line) &&
       space != Space::Smem) ||
      (layout == Layout::Lanes && space != Space::Tmem))
    return emitError() << "layout " << stringifyLayout(layout)
                       << " does not exist in " << stringifySpace(space);
  int64_t bits = elementType.getIntOrFloatBitWidth();
  if (layout == Layout::Scales && bits != 8)
    return emitError() << "expected scales of 8 bits, but got " << elementType;
  if (layout == Layout::Line && (rows != 1 || cols * bits % 128 != 0))
    return emitError() << "expected one row of whole 16 bytes, but got " << rows
                       << "x" << cols << "x" << elementType;
  if (layout == Layout::Lanes && (rows > 128 || cols * bits % 32 != 0))
    return emitError()
           << "expected at most 128 rows of whole 32-bit columns in "
              "tensor memory, but got "
           << rows << "x" << cols << "x" << elementType;
  if (layout == Layout::Operand) {
    // TMA boxes have at most 256 rows; the swizzle repeats every eight.
    if (rows > 256 || rows % 8 != 0)
      return emitError() << "expected a multiple of 8, at most 256, rows, but "
                            "got "
                         << rows;
    int64_t rowBits = cols * bits;
    if (rowBits != 256 && rowBits != 512 && rowBits % 1024 != 0)
      return emitError() << "expected rows of 32, 64 or a multiple of 128 "
                            "bytes, but got "
                         << cols << " elements of " << elementType;
  }
  return success();
}
