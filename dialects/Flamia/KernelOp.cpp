//===- KernelOp.cpp - Syntax of flamia.kernel -----------------------------===//
//
//   flamia.kernel @name(%arg: type {attrs}, ...)
//       parameters {name = [default, ...], ...}
//       grid(arg[dim] ceildiv tile, ...) { body }
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace flamia;

BlockArgument KernelOp::getArgNamed(StringRef name) {
  for (auto [index, attr] : llvm::enumerate(getArgNames()))
    if (cast<StringAttr>(attr).getValue() == name)
      return getBody().getArgument(index);
  return {};
}

void KernelOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setNameFn) {
  for (auto [arg, name] : llvm::zip(region.getArguments(), getArgNames()))
    setNameFn(arg, cast<StringAttr>(name).getValue());
}

/// One grid term: an integer, or the array [name, dim, tile].
static ParseResult parseGridTerm(OpAsmParser &parser,
                                 SmallVectorImpl<Attribute> &terms) {
  Builder &builder = parser.getBuilder();
  int64_t value = 0;
  OptionalParseResult number = parser.parseOptionalInteger(value);
  if (number.has_value()) {
    terms.push_back(builder.getI64IntegerAttr(value));
    return *number;
  }
  std::string name;
  int64_t dim = 0, tile = 1;
  if (parser.parseKeywordOrString(&name) || parser.parseLSquare() ||
      parser.parseInteger(dim) || parser.parseRSquare())
    return failure();
  if (succeeded(parser.parseOptionalKeyword("ceildiv")) &&
      parser.parseInteger(tile))
    return failure();
  terms.push_back(builder.getArrayAttr({builder.getStringAttr(name),
                                        builder.getI64IntegerAttr(dim),
                                        builder.getI64IntegerAttr(tile)}));
  return success();
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name),
                             result.attributes) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren,
                               /*allowType=*/true, /*allowAttrs=*/true))
    return failure();

  SmallVector<Type> types;
  SmallVector<Attribute> names, attrs;
  for (OpAsmParser::Argument &argument : arguments) {
    types.push_back(argument.type);
    names.push_back(builder.getStringAttr(argument.ssaName.name.drop_front()));
    attrs.push_back(argument.attrs ? argument.attrs
                                   : builder.getDictionaryAttr({}));
  }
  result.addAttribute(getFunctionTypeAttrName(result.name),
                      TypeAttr::get(builder.getFunctionType(types, {})));
  result.addAttribute(getArgNamesAttrName(result.name),
                      builder.getArrayAttr(names));
  result.addAttribute(getArgAttrsAttrName(result.name),
                      builder.getArrayAttr(attrs));

  DictionaryAttr parameters = builder.getDictionaryAttr({});
  if (succeeded(parser.parseOptionalKeyword("parameters")) &&
      parser.parseAttribute(parameters))
    return failure();
  result.addAttribute(getParametersAttrName(result.name), parameters);

  SmallVector<Attribute> terms;
  if (succeeded(parser.parseOptionalKeyword("grid")) &&
      parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&] {
        return parseGridTerm(parser, terms);
      }))
    return failure();
  result.addAttribute(getGridAttrName(result.name),
                      builder.getArrayAttr(terms));

  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region *body = result.addRegion();
  return parser.parseRegion(*body, arguments);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  llvm::interleaveComma(
      getBody().getArguments(), printer, [&](BlockArgument arg) {
        DictionaryAttr attrs;
        if (getArgAttrsAttr())
          attrs = cast<DictionaryAttr>(getArgAttrsAttr()[arg.getArgNumber()]);
        printer.printRegionArgument(arg, attrs ? attrs.getValue()
                                               : ArrayRef<NamedAttribute>());
      });
  printer << ") parameters " << getParameters() << " grid(";
  llvm::interleaveComma(getGrid(), printer, [&](Attribute term) {
    if (auto value = dyn_cast<IntegerAttr>(term)) {
      printer << value.getInt();
      return;
    }
    auto parts = cast<ArrayAttr>(term);
    printer << cast<StringAttr>(parts[0]).getValue() << '['
            << cast<IntegerAttr>(parts[1]).getInt() << ']';
    if (int64_t tile = cast<IntegerAttr>(parts[2]).getInt(); tile != 1)
      printer << " ceildiv " << tile;
  });
  printer << ')';
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getFunctionTypeAttrName(), getArgNamesAttrName(),
       getArgAttrsAttrName(), getParametersAttrName(), getGridAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult KernelOp::verify() {
  if (getFunctionType().getNumResults() != 0)
    return emitOpError("expected no results, but got ")
           << getFunctionType().getNumResults();
  if (getArgNames().size() != getFunctionType().getNumInputs())
    return emitOpError("expected one name per argument, but got ")
           << getArgNames().size() << " names for "
           << getFunctionType().getNumInputs() << " arguments";
  if (getGrid().size() > 3)
    return emitOpError("expected at most 3 grid terms, but got ")
           << getGrid().size();
  for (Attribute term : getGrid()) {
    if (auto value = dyn_cast<IntegerAttr>(term)) {
      if (value.getInt() < 1)
        return emitOpError("expected a positive grid extent, but got ")
               << value.getInt();
      continue;
    }
    auto parts = dyn_cast<ArrayAttr>(term);
    if (!parts || parts.size() != 3 || !isa<StringAttr>(parts[0]) ||
        !isa<IntegerAttr>(parts[1]) || !isa<IntegerAttr>(parts[2]))
      return emitOpError("expected grid term to be an integer or [argument, "
                         "dimension, tile], but got ")
             << term;
    StringRef name = cast<StringAttr>(parts[0]).getValue();
    int64_t dim = cast<IntegerAttr>(parts[1]).getInt();
    int64_t tile = cast<IntegerAttr>(parts[2]).getInt();
    BlockArgument arg = getArgNamed(name);
    if (!arg)
      return emitOpError("grid names argument '")
             << name << "', which does not exist";
    auto memref = dyn_cast<MemRefType>(arg.getType());
    if (!memref || dim < 0 || dim >= memref.getRank())
      return emitOpError("grid names dimension ")
             << dim << " of '" << name << "', which is " << arg.getType();
    if (tile < 1)
      return emitOpError("expected a positive grid tile, but got ") << tile;
  }
  return success();
}
