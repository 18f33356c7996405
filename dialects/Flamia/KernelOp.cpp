//===- KernelOp.cpp - Syntax of flamia.kernel -----------------------------===//
//
//   flamia.kernel @name(%arg: type {attrs}, ...)
//       parameters {name = [default, ...], ...}
//       grid(arg[dim] ceildiv tile, ...) { body }
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Flamia.h"
#include "dialects/Flamia/Folded.h"
#include "dialects/Flamia/Strides.h"
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

/// One grid term: an integer, the array [name, dim, tile], or a unit for `any`.
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
  if (parser.parseKeywordOrString(&name))
    return failure();
  bool hasDim = succeeded(parser.parseOptionalLSquare());
  if (!hasDim && name == "any") {
    terms.push_back(builder.getUnitAttr());
    return success();
  }
  if ((!hasDim && parser.parseLSquare()) || parser.parseInteger(dim) ||
      parser.parseRSquare())
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
    if (isa<UnitAttr>(term)) {
      printer << "any";
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

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// A compile-time parameter is a bool, an integer or a string, or a list of the
/// values it may take.
static LogicalResult verifyParameters(KernelOp kernel) {
  for (NamedAttribute parameter : kernel.getParameters()) {
    auto list = dyn_cast<ArrayAttr>(parameter.getValue());
    if (list && list.empty())
      return kernel.emitOpError("expected at least one value for parameter '")
             << parameter.getName().getValue() << "'";
    Attribute single = parameter.getValue();
    for (Attribute value : list ? list.getValue() : ArrayRef(single))
      if (!isa<IntegerAttr, StringAttr>(value))
        return kernel.emitOpError("expected values of parameter '")
               << parameter.getName().getValue()
               << "' to be booleans, integers or strings, but got " << value;
  }
  return success();
}

static LogicalResult verifyGrid(KernelOp kernel) {
  if (kernel.getGrid().size() > 3)
    return kernel.emitOpError("expected at most 3 grid terms, but got ")
           << kernel.getGrid().size();
  // What a launch can have (CUDA C++ programming guide, compute capabilities).
  const int64_t most[] = {(int64_t(1) << 31) - 1, 65535, 65535};
  for (auto [axis, term] : llvm::enumerate(kernel.getGrid())) {
    if (auto value = dyn_cast<IntegerAttr>(term)) {
      if (value.getInt() < 1)
        return kernel.emitOpError("expected a positive grid extent, but got ")
               << value.getInt();
      if (value.getInt() > most[axis])
        return kernel.emitOpError("expected at most ")
               << most[axis] << " along grid axis " << axis << ", but got "
               << value.getInt();
      continue;
    }
    if (isa<UnitAttr>(term)) {
      if (axis != 2)
        return kernel.emitOpError("expected an extent along grid axis ")
               << axis << ", but got any: only that of axis 2 can be left to "
               << "the launch";
      continue;
    }
    auto parts = dyn_cast<ArrayAttr>(term);
    if (!parts || parts.size() != 3 || !isa<StringAttr>(parts[0]) ||
        !isa<IntegerAttr>(parts[1]) || !isa<IntegerAttr>(parts[2]))
      return kernel.emitOpError("expected grid term to be an integer, "
                                "[argument, dimension, tile] or any, but got ")
             << term;
    StringRef name = cast<StringAttr>(parts[0]).getValue();
    int64_t dim = cast<IntegerAttr>(parts[1]).getInt();
    int64_t tile = cast<IntegerAttr>(parts[2]).getInt();
    BlockArgument arg = kernel.getArgNamed(name);
    if (!arg)
      return kernel.emitOpError("grid names argument '")
             << name << "', which does not exist";
    auto memref = dyn_cast<MemRefType>(arg.getType());
    if (!memref || dim < 0 || dim >= memref.getRank())
      return kernel.emitOpError("grid names dimension ")
             << dim << " of '" << name << "', which is " << arg.getType();
    if (tile < 1)
      return kernel.emitOpError("expected a positive grid tile, but got ")
             << tile;
  }
  return success();
}

static LogicalResult verifyArgumentType(KernelOp kernel, StringRef name,
                                        Type type) {
  if (auto memref = dyn_cast<MemRefType>(type)) {
    if (memref.getRank() == 0)
      return kernel.emitOpError("expected argument '")
             << name << "' to have rank 1 or more, but got " << type;
    if (!hasAdjacentColumns(memref))
      return kernel.emitOpError("expected argument '")
             << name
             << "' to be row-major or strided<[..., 1]> of rank 2 or more, but "
                "got "
             << type;
    return success();
  }
  if (!type.isF32() && !type.isInteger(32) && !type.isIndex())
    return kernel.emitOpError("expected argument '")
           << name << "' to be a memref, f32, i32 or index, but got " << type;
  return success();
}

/// What a safeguard reads in place of an argument: `flamia.original`,
/// `flamia.original_factor` and `flamia.original_with`.
static LogicalResult
verifyOriginal(KernelOp kernel, Type type, DictionaryAttr attributes,
               function_ref<InFlightDiagnostic(StringRef, StringRef)> refuse) {
  auto memref = dyn_cast<MemRefType>(type);
  auto tensorNamed = [&](StringRef attribute) {
    auto name = attributes.getAs<StringAttr>(attribute);
    return name ? kernel.getArgNamed(name.getValue()) : BlockArgument();
  };
  auto typeOf = [](BlockArgument arg) {
    return arg ? dyn_cast<MemRefType>(arg.getType()) : MemRefType();
  };
  auto isOnlyRead = [&](BlockArgument arg) {
    return llvm::none_of(arg.getUsers(),
                         llvm::IsaPred<StoreOp, StorePayloadOp, StoreScalesOp,
                                       StoreExponentsOp>) &&
           !kernel.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                    "flamia.depends");
  };
  auto dims = attributes.getAs<ArrayAttr>("flamia.dims");
  auto dimsOf = [&](BlockArgument arg) {
    return kernel.getArgAttrOfType<ArrayAttr>(arg.getArgNumber(),
                                              "flamia.dims");
  };

  // A vector goes with a payload and has its own element type.
  bool isVector = attributes.contains("flamia.original_with");
  BlockArgument arg = tensorNamed("flamia.original");
  MemRefType other = typeOf(arg);
  bool fits = memref && other && other.getRank() == memref.getRank() &&
              succeeded(verifyCompatibleShape(memref, other));
  if (isVector && (!fits || other.getElementType() != memref.getElementType()))
    return refuse("flamia.original", "the name of a tensor of the same type");
  if (!isVector &&
      (!fits || !isa<BFloat16Type, Float16Type>(other.getElementType())))
    return refuse("flamia.original",
                  "the name of a bf16 or f16 tensor of the same shape");
  if (!isOnlyRead(arg))
    return refuse("flamia.original", "the name of a tensor that is only read");
  if (ArrayAttr otherDims = dimsOf(arg); dims && otherDims && dims != otherDims)
    return refuse("flamia.original",
                  "the name of a tensor of the same 'flamia.dims'");

  if (isVector) {
    BlockArgument payload = tensorNamed("flamia.original_with");
    if (!payload ||
        !kernel.getArgAttr(payload.getArgNumber(), "flamia.original"))
      return refuse("flamia.original_with",
                    "the name of an argument with 'flamia.original'");
  }
  if (attributes.contains("flamia.original_factor")) {
    BlockArgument factor = tensorNamed("flamia.original_factor");
    MemRefType vector = typeOf(factor);
    // A tensor of rank 1 lies along columns and has no rows.
    if (!vector || !vector.getElementType().isF32() || vector.getRank() < 2 ||
        vector.getRank() + 1 != memref.getRank() ||
        failed(verifyCompatibleShape(vector.getShape(),
                                     memref.getShape().drop_back())))
      return refuse("flamia.original_factor",
                    "the name of an f32 tensor of rank 2 or more and the same "
                    "shape but for the last dimension");
    ArrayAttr factorDims = dimsOf(factor);
    if (!isOnlyRead(factor) ||
        (dims && factorDims &&
         dims.getValue().drop_back() != factorDims.getValue()))
      return refuse("flamia.original_factor",
                    "the name of a tensor that is only read and has the same "
                    "'flamia.dims' but for the last");
  }
  return success();
}

/// The `flamia.*` attributes of one argument.
static LogicalResult verifyArgumentAttributes(KernelOp kernel, StringRef name,
                                              Type type,
                                              DictionaryAttr attributes) {
  auto refuse = [&](StringRef attribute, StringRef what) -> InFlightDiagnostic {
    return kernel.emitOpError("expected '")
           << attribute << "' of argument '" << name << "' to be " << what
           << ", but got " << attributes.get(attribute);
  };
  auto memref = dyn_cast<MemRefType>(type);
  if (Attribute dims = attributes.get("flamia.dims")) {
    auto list = dyn_cast<ArrayAttr>(dims);
    if (!memref || !list || int64_t(list.size()) != memref.getRank() ||
        !llvm::all_of(list, llvm::IsaPred<StringAttr>))
      return refuse("flamia.dims", "one name for each dimension");
  }
  if (Attribute workspace = attributes.get("flamia.workspace")) {
    bool sized = memref && (memref.hasStaticShape() ||
                            attributes.contains("flamia.dims"));
    if (!isa<UnitAttr>(workspace) || !sized)
      return refuse("flamia.workspace",
                    "without a value and on a tensor with 'flamia.dims'");
  }
  if (attributes.contains("flamia.original") &&
      failed(verifyOriginal(kernel, type, attributes, refuse)))
    return failure();
  for (StringRef name : {"flamia.original_factor", "flamia.original_with"})
    if (attributes.contains(name) && !attributes.contains("flamia.original"))
      return refuse(name, "together with 'flamia.original'");
  if (Attribute only = attributes.get("flamia.only")) {
    auto entries = dyn_cast<DictionaryAttr>(only);
    bool ok = entries && !entries.empty();
    for (NamedAttribute entry :
         ok ? entries.getValue() : ArrayRef<NamedAttribute>()) {
      Attribute values = kernel.getParameters().get(entry.getName());
      auto list = dyn_cast_or_null<ArrayAttr>(values);
      // A parameter that is bound may have another value.
      ok &=
          values && (list ? llvm::is_contained(list, entry.getValue())
                          : values.getTypeID() == entry.getValue().getTypeID());
    }
    if (!ok)
      return refuse("flamia.only", "parameters with one of their values");
  }
  if (Attribute block = attributes.get("flamia.token_block")) {
    auto number = dyn_cast<IntegerAttr>(block);
    if (!memref || !number || number.getInt() < 1)
      return refuse("flamia.token_block", "a number of tokens of a tensor");
  }
  if (Attribute from = attributes.get("flamia.derived_from")) {
    auto other = dyn_cast<StringAttr>(from);
    if (!other || !kernel.getArgNamed(other.getValue()))
      return refuse("flamia.derived_from", "the name of an argument");
  }
  if (Attribute depends = attributes.get("flamia.depends")) {
    auto entries = dyn_cast<DictionaryAttr>(depends);
    bool ok = memref && entries;
    for (NamedAttribute entry :
         ok ? entries.getValue() : ArrayRef<NamedAttribute>()) {
      auto direction = dyn_cast<StringAttr>(entry.getValue());
      ok &= direction && kernel.getArgNamed(entry.getName().getValue()) &&
            llvm::is_contained({"<=", ">=", "any"},
                               direction.getValue().split(" if ").first);
    }
    if (!ok)
      return refuse("flamia.depends",
                    "arguments with \"<=\", \">=\" or \"any\"");
  }
  return success();
}

LogicalResult KernelOp::verify() {
  if (getFunctionType().getNumResults() != 0)
    return emitOpError("expected no results, but got ")
           << getFunctionType().getNumResults();
  size_t count = getFunctionType().getNumInputs();
  if (getArgNames().size() != count)
    return emitOpError("expected one name per argument, but got ")
           << getArgNames().size() << " names for " << count << " arguments";
  llvm::StringMap<unsigned> seen;
  for (Attribute name : getArgNames())
    if (StringRef text = cast<StringAttr>(name).getValue();
        text.empty() || !seen.try_emplace(text, 0).second)
      return emitOpError(
                 "expected argument names that are not empty and differ, "
                 "but got ")
             << name;
  for (auto [index, type] : llvm::enumerate(getFunctionType().getInputs())) {
    if (failed(verifyArgumentType(*this, getArgName(index), type)))
      return failure();
    if (getArgAttrsAttr() &&
        failed(verifyArgumentAttributes(
            *this, getArgName(index), type,
            cast<DictionaryAttr>(getArgAttrsAttr()[index]))))
      return failure();
    if (failed(verifyFolded(*this, index)))
      return failure();
  }
  if (getBody().front().empty() || !isa<ReturnOp>(getBody().front().back()))
    return emitOpError("expected the body to end with flamia.return");
  return failure(failed(verifyParameters(*this)) || failed(verifyGrid(*this)));
}
