//===- Folded.cpp - Arguments that hold powers of two ---------------------===//
//
//   exponent := ["-"] term (("+" | "-") term)*
//   term     := [integer "*"] symbol | integer
//   symbol   := "e(" ARG ")" | "max32(e(" ARG "))" | "max128(e(" ARG "))"
//
//===----------------------------------------------------------------------===//

#include "dialects/Flamia/Folded.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flamia;

//===----------------------------------------------------------------------===//
// Exponents
//===----------------------------------------------------------------------===//

FoldedExponent FoldedExponent::operator+(const FoldedExponent &other) const {
  FoldedExponent result;
  result.constant = constant + other.constant;
  const auto *a = terms.begin(), *b = other.terms.begin();
  while (a != terms.end() || b != other.terms.end()) {
    if (b == other.terms.end() || (a != terms.end() && a->first < b->first)) {
      result.terms.push_back(*a++);
    } else if (a == terms.end() || b->first < a->first) {
      result.terms.push_back(*b++);
    } else {
      if (int64_t sum = a->second + b->second)
        result.terms.push_back({a->first, sum});
      ++a, ++b;
    }
  }
  return result;
}

FoldedExponent FoldedExponent::operator-() const {
  FoldedExponent result(*this);
  result.constant = -constant;
  for (auto &term : result.terms)
    term.second = -term.second;
  return result;
}

FoldedExponent FoldedExponent::filter(
    llvm::function_ref<bool(const ExponentSymbol &)> predicate) const {
  FoldedExponent result;
  for (const auto &term : terms)
    if (predicate(term.first))
      result.terms.push_back(term);
  return result;
}

FoldedExponent FoldedExponent::at(unsigned place) const {
  FoldedExponent result(*this);
  for (auto &term : result.terms)
    term.first.place = place;
  return result;
}

std::string FoldedExponent::str(KernelOp kernel) const {
  std::string text;
  auto add = [&](bool negative, const std::string &term) {
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    text += term;
  };
  for (const auto &[symbol, coefficient] : terms) {
    std::string term = "e(" + kernel.getArgName(symbol.argument).str() + ")";
    if (symbol.span != 1)
      term = "max" + std::to_string(symbol.span) + "(" + term + ")";
    int64_t magnitude = std::abs(coefficient);
    if (magnitude != 1)
      term = std::to_string(magnitude) + " * " + term;
    add(coefficient < 0, term);
  }
  if (constant != 0 || terms.empty())
    add(constant < 0, std::to_string(std::abs(constant)));
  return text;
}

namespace {
/// Recursive descent over one exponent.
class ExponentParser {
public:
  ExponentParser(StringRef text, KernelOp kernel, std::string &error)
      : text(text), rest(text), kernel(kernel), error(error) {}

  FailureOr<FoldedExponent> parse() {
    FoldedExponent sum;
    bool negative = consume("-");
    do {
      FailureOr<FoldedExponent> term = parseTerm();
      if (failed(term))
        return failure();
      sum = negative ? sum - *term : sum + *term;
      if (consume("+"))
        negative = false;
      else if (consume("-"))
        negative = true;
      else
        break;
    } while (true);
    if (!rest.trim().empty())
      return expected("'+', '-' or the end");
    return sum;
  }

private:
  LogicalResult expected(const Twine &what) {
    error = ("expected " + what + ", but got '" + rest.trim() + "' in '" +
             text + "'")
                .str();
    return failure();
  }

  bool consume(StringRef token) {
    StringRef next = rest.ltrim();
    if (!next.consume_front(token))
      return false;
    rest = next;
    return true;
  }

  FailureOr<FoldedExponent> parseTerm() {
    rest = rest.ltrim();
    if (rest.empty() || !llvm::isDigit(rest.front()))
      return parseSymbol();
    int64_t number = 0;
    // More than the exponents of any format, so that sums cannot overflow.
    constexpr int64_t most = 4096;
    StringRef before = rest;
    if (rest.consumeInteger(10, number) || number > most) {
      rest = before;
      return expected("a number up to " + Twine(most));
    }
    if (!consume("*"))
      return FoldedExponent(number);
    FailureOr<FoldedExponent> symbol = parseSymbol();
    if (failed(symbol))
      return failure();
    FoldedExponent product;
    if (number != 0)
      product.terms.push_back({symbol->terms.front().first, number});
    return product;
  }

  FailureOr<FoldedExponent> parseSymbol() {
    ExponentSymbol symbol;
    for (unsigned span : {32u, 128u})
      if (consume("max" + std::to_string(span))) {
        symbol.span = span;
        if (!consume("("))
          return expected("'('");
        break;
      }
    if (!consume("e") || !consume("("))
      return expected("a number, e(ARG), max32(e(ARG)) or max128(e(ARG))");
    rest = rest.ltrim();
    StringRef name = rest.take_while([](char c) {
      return llvm::isAlnum(c) || StringRef("_.$-").contains(c);
    });
    BlockArgument arg = kernel.getArgNamed(name);
    auto memref = arg ? dyn_cast<MemRefType>(arg.getType()) : MemRefType();
    if (!memref || isa<Float8E8M0FNUType>(memref.getElementType()) ||
        memref.getElementType().getIntOrFloatBitWidth() > 8)
      return expected("the name of a payload argument");
    symbol.argument = arg.getArgNumber();
    rest = rest.drop_front(name.size());
    if (!consume(")") || (symbol.span != 1 && !consume(")")))
      return expected("')'");
    return FoldedExponent(symbol);
  }

  StringRef text, rest;
  KernelOp kernel;
  std::string &error;
};
} // namespace

FailureOr<FoldedExponent> FoldedExponent::parse(StringRef text, KernelOp kernel,
                                                std::string &error) {
  return ExponentParser(text, kernel, error).parse();
}

//===----------------------------------------------------------------------===//
// The attribute
//===----------------------------------------------------------------------===//

static constexpr StringLiteral attributeName = "flamia.folded";

static DictionaryAttr attributesOf(KernelOp kernel, unsigned index) {
  if (!kernel.getArgAttrsAttr())
    return DictionaryAttr::get(kernel.getContext());
  return cast<DictionaryAttr>(kernel.getArgAttrsAttr()[index]);
}

static std::optional<double> numberOf(Attribute attribute) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attribute))
    return double(integer.getInt());
  if (auto number = dyn_cast_or_null<FloatAttr>(attribute))
    return number.getValueAsDouble();
  return std::nullopt;
}

/// Nothing is folded into `of` where no exponent is given.
static StringRef exponentOf(DictionaryAttr folded) {
  auto exponent = folded.getAs<StringAttr>("exponent");
  return exponent ? exponent.getValue() : "0";
}

std::optional<FoldedArgument> flamia::getFoldedArgument(KernelOp kernel,
                                                        unsigned index) {
  auto folded =
      attributesOf(kernel, index).getAs<DictionaryAttr>(attributeName);
  if (!folded)
    return std::nullopt;
  FoldedArgument result;
  std::string error;
  result.exponent = *FoldedExponent::parse(exponentOf(folded), kernel, error);
  auto type = cast<MemRefType>(kernel.getBody().getArgument(index).getType());
  if (isa<Float8E8M0FNUType>(type.getElementType())) {
    result.form = FoldedArgument::Form::ScaleBytes;
    result.along = *symbolizeAxis(folded.getAs<StringAttr>("along").getValue());
    return result;
  }
  if (type.getRank() == 2) {
    result.form = FoldedArgument::Form::Scalar;
    return result;
  }
  result.form = FoldedArgument::Form::Factor;
  if (auto of = folded.getAs<StringAttr>("of")) {
    result.of = kernel.getArgNamed(of.getValue());
    std::optional<double> plus = numberOf(folded.get("plus"));
    result.form =
        plus ? FoldedArgument::Form::Bias : FoldedArgument::Form::Vector;
    result.plus = plus.value_or(0);
    result.negate = folded.contains("negate");
  }
  return result;
}

/// All payloads of an exponent have the same tokens and heads, and the folded
/// argument has those heads.
static LogicalResult verifyDims(KernelOp kernel, StringRef name, ArrayAttr dims,
                                BlockArgument first, BlockArgument other) {
  auto dimsOf = [&](BlockArgument arg) {
    return attributesOf(kernel, arg.getArgNumber())
        .getAs<ArrayAttr>("flamia.dims");
  };
  ArrayAttr firstDims = dimsOf(first), otherDims = dimsOf(other);
  if (firstDims && otherDims && firstDims.size() > 1 && otherDims.size() > 1 &&
      (firstDims[0] != otherDims[0] || firstDims[1] != otherDims[1]))
    return kernel.emitOpError("expected the arguments named in 'flamia.folded' "
                              "of argument '")
           << name << "' to have the same tokens and heads, but got "
           << firstDims << " and " << otherDims;
  if (dims && otherDims && dims.size() > 1 && otherDims.size() > 1 &&
      dims[1] != otherDims[1])
    return kernel.emitOpError("expected argument '")
           << name << "' to have the heads of '"
           << kernel.getArgName(other.getArgNumber())
           << "', which 'flamia.folded' names, but got " << dims << " and "
           << otherDims;
  return success();
}

LogicalResult flamia::verifyFolded(KernelOp kernel, unsigned index) {
  DictionaryAttr attributes = attributesOf(kernel, index);
  Attribute attribute = attributes.get(attributeName);
  if (!attribute)
    return success();
  StringRef name = kernel.getArgName(index);
  BlockArgument arg = kernel.getBody().getArgument(index);
  auto refuse = [&](const Twine &what) {
    return kernel.emitOpError("expected 'flamia.folded' of argument '")
           << name << "' " << what << ", but got " << attribute;
  };
  auto folded = dyn_cast<DictionaryAttr>(attribute);
  auto exponent = folded ? folded.getAs<StringAttr>("exponent") : StringAttr();
  if (!folded ||
      (!exponent && (folded.contains("exponent") || !folded.contains("of"))))
    return refuse("to be a dictionary with the string 'exponent'");
  for (NamedAttribute entry : folded)
    if (!llvm::is_contained({"exponent", "along", "of", "negate", "plus"},
                            entry.getName().getValue()))
      return refuse("to have no entries but 'exponent', 'along', 'of', "
                    "'negate' and 'plus'");
  std::string error;
  FailureOr<FoldedExponent> parsed =
      FoldedExponent::parse(exponentOf(folded), kernel, error);
  if (failed(parsed))
    return kernel.emitOpError("exponent of argument '")
           << name << "': " << error;
  if (llvm::any_of(arg.getUsers(),
                   llvm::IsaPred<StoreOp, StorePayloadOp, StoreScalesOp>) ||
      attributes.contains("flamia.depends"))
    return refuse("only on an argument that is read");

  // The form follows from the type.
  auto type = dyn_cast<MemRefType>(arg.getType());
  bool isScales = type && type.getRank() == 3 && type.getDimSize(2) == 512 &&
                  isa<Float8E8M0FNUType>(type.getElementType());
  bool isScalar = type && type.getRank() == 2 && type.getElementType().isF32();
  bool isVector = type && type.getRank() == 3 && type.getDimSize(2) == 128 &&
                  type.getElementType().isF32();
  if (!isScales && !isScalar && !isVector)
    return kernel.emitOpError("expected argument '")
           << name
           << "' with 'flamia.folded' to be scales [tiles, heads, 512], f32 "
              "[tiles, heads] or f32 [tiles, heads, 128], but got "
           << arg.getType();
  auto along = folded.getAs<StringAttr>("along");
  if (isScales != bool(along) || (along && !symbolizeAxis(along.getValue())) ||
      (folded.contains("along") && !along))
    return refuse(isScales ? "to have 'along', \"rows\" or \"cols\""
                           : "to have 'along' only for scales");
  auto wholeBlocks = [&](unsigned least) {
    return llvm::all_of(parsed->terms, [&](const auto &term) {
      return term.first.span >= least;
    });
  };
  if (along && along.getValue() == "rows" && !wholeBlocks(32))
    return refuse("along rows to name no single tokens: one scale spans 32");
  if (isScalar && !wholeBlocks(128))
    return refuse("of one number for a tile to name only max128");
  auto of = folded.getAs<StringAttr>("of");
  if (folded.contains("of")) {
    BlockArgument held =
        of ? kernel.getArgNamed(of.getValue()) : BlockArgument();
    auto heldType = held ? dyn_cast<MemRefType>(held.getType()) : MemRefType();
    if (!isVector || !heldType || heldType.getRank() != 2 ||
        !heldType.getElementType().isF32())
      return refuse("to have 'of', an f32 argument [tokens, heads], only for "
                    "f32 [tiles, heads, 128]");
  }
  if (folded.contains("plus") && (!of || !numberOf(folded.get("plus"))))
    return refuse("to have 'plus', a number, only with 'of'");
  if (folded.contains("negate") &&
      (!folded.contains("plus") || !isa<UnitAttr>(folded.get("negate"))))
    return refuse("to have 'negate', without a value, only with 'plus'");

  auto dims = attributes.getAs<ArrayAttr>("flamia.dims");
  BlockArgument first;
  for (const auto &term : parsed->terms) {
    BlockArgument other = kernel.getBody().getArgument(term.first.argument);
    if (!first)
      first = other;
    if (failed(verifyDims(kernel, name, dims, first, other)))
      return failure();
  }
  if (of)
    return verifyDims(kernel, name, dims,
                      first ? first : kernel.getArgNamed(of.getValue()),
                      kernel.getArgNamed(of.getValue()));
  return success();
}
