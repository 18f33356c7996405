//===- Elementwise.cpp - arith and math in the evaluator ------------------===//
//
// Scalars and tiles share one table of functions: an op that works on floats is
// a function of up to three floats, whose result is rounded to the element
// type.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "flamia/Numerics/Formats.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace flamia;
using namespace flamia::evaluator;

using FloatFunction = float (*)(float, float, float);

float evaluator::roundToElement(float value, Type element) {
  if (element.isBF16())
    return numerics::roundToBF16(value);
  if (element.isF16())
    return numerics::f16ToFloat(numerics::floatToF16(value));
  return value;
}

/// maximumf and minimumf: NaN if either is, and -0 < +0.
static float maximum(float a, float b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<float>::quiet_NaN();
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

/// The function of an op, or null.
static FloatFunction functionOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, FloatFunction>(op)
      .Case([](arith::AddFOp) -> FloatFunction {
        return [](float a, float b, float) { return a + b; };
      })
      .Case([](arith::SubFOp) -> FloatFunction {
        return [](float a, float b, float) { return a - b; };
      })
      .Case([](arith::MulFOp) -> FloatFunction {
        return [](float a, float b, float) { return a * b; };
      })
      .Case([](arith::DivFOp) -> FloatFunction {
        return [](float a, float b, float) { return a / b; };
      })
      .Case([](arith::NegFOp) -> FloatFunction {
        return [](float a, float, float) { return -a; };
      })
      .Case([](arith::MaxNumFOp) -> FloatFunction {
        return [](float a, float b, float) { return std::fmax(a, b); };
      })
      .Case([](arith::MinNumFOp) -> FloatFunction {
        return [](float a, float b, float) { return std::fmin(a, b); };
      })
      .Case([](arith::MaximumFOp) -> FloatFunction {
        return [](float a, float b, float) { return maximum(a, b); };
      })
      .Case([](arith::MinimumFOp) -> FloatFunction {
        return [](float a, float b, float) { return -maximum(-a, -b); };
      })
      .Case<arith::ExtFOp, arith::TruncFOp>([](auto) -> FloatFunction {
        return [](float a, float, float) { return a; };
      })
      .Case([](math::FmaOp) -> FloatFunction {
        return [](float a, float b, float c) { return std::fma(a, b, c); };
      })
      .Case([](math::Exp2Op) -> FloatFunction {
        return [](float a, float, float) { return std::exp2(a); };
      })
      .Case([](math::ExpOp) -> FloatFunction {
        return [](float a, float, float) { return std::exp(a); };
      })
      .Case([](math::Log2Op) -> FloatFunction {
        return [](float a, float, float) { return std::log2(a); };
      })
      .Case([](math::LogOp) -> FloatFunction {
        return [](float a, float, float) { return std::log(a); };
      })
      .Case([](math::SqrtOp) -> FloatFunction {
        return [](float a, float, float) { return std::sqrt(a); };
      })
      .Case([](math::RsqrtOp) -> FloatFunction {
        return [](float a, float, float) {
          return float(1.0 / std::sqrt(double(a)));
        };
      })
      .Case([](math::TanhOp) -> FloatFunction {
        return [](float a, float, float) { return std::tanh(a); };
      })
      .Case([](math::CeilOp) -> FloatFunction {
        return [](float a, float, float) { return std::ceil(a); };
      })
      .Case([](math::FloorOp) -> FloatFunction {
        return [](float a, float, float) { return std::floor(a); };
      })
      .Case([](math::RoundEvenOp) -> FloatFunction {
        return [](float a, float, float) { return std::nearbyint(a); };
      })
      .Case([](math::AbsFOp) -> FloatFunction {
        return [](float a, float, float) { return std::fabs(a); };
      })
      .Default([](Operation *) -> FloatFunction { return nullptr; });
}

static bool compare(arith::CmpFPredicate predicate, float a, float b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  case arith::CmpFPredicate::UNE:
    return unordered || a != b;
  }
  return false;
}

LogicalResult Machine::runConstant(arith::ConstantOp op) {
  Attribute value = op.getValue();
  Slot slot;
  if (auto number = dyn_cast<FloatAttr>(value)) {
    slot.number = number.getValue().convertToFloat();
  } else if (auto whole = dyn_cast<IntegerAttr>(value)) {
    slot.integer = isa<BoolAttr>(value) ? cast<BoolAttr>(value).getValue()
                                        : whole.getValue().getSExtValue();
  } else if (auto dense = dyn_cast<DenseElementsAttr>(value);
             dense && isa<RankedTensorType>(op.getType()) &&
             dense.getType().getRank() == 2) {
    auto [rows, cols] = getTileShape(op.getType());
    Tile tile(rows, cols);
    if (isa<FloatType>(dense.getElementType()))
      for (auto [index, element] :
           llvm::enumerate(dense.getValues<APFloat>())) {
        bool lost;
        APFloat wide = element;
        wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                     &lost);
        tile.data[index] = wide.convertToFloat();
      }
    else
      for (auto [index, element] : llvm::enumerate(dense.getValues<APInt>()))
        tile.data[index] = float(element.getZExtValue());
    setTile(op, std::move(tile));
    return success();
  } else {
    return emitError(op.getLoc(), "cannot evaluate a constant of type ")
           << op.getType();
  }
  set(op, slot);
  return success();
}

LogicalResult Machine::runFull(FullOp op) {
  auto [rows, cols] = getTileShape(op.getType());
  Tile tile(rows, cols);
  const Slot &value = slot(op.getValue());
  float number =
      op.getValue().getType().isInteger() ? float(value.integer) : value.number;
  std::fill(tile.data.begin(), tile.data.end(), number);
  setTile(op, std::move(tile));
  return success();
}

LogicalResult Machine::runElementwise(Operation *op) {
  auto refuse = [&] {
    return emitError(op->getLoc(), "the evaluator has no meaning for '")
           << op->getName() << "'";
  };
  if (op->getNumResults() != 1)
    return refuse();
  Type type = op->getResult(0).getType();
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : type;

  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (!isa<RankedTensorType>(select.getCondition().getType())) {
      set(op->getResult(0),
          slot(integer(select.getCondition()) ? select.getTrueValue()
                                              : select.getFalseValue()));
      return success();
    }
    const Tile &condition = tile(select.getCondition());
    const Tile &a = tile(select.getTrueValue());
    const Tile &b = tile(select.getFalseValue());
    Tile result(condition.rows, condition.cols);
    for (size_t i = 0; i < result.data.size(); ++i)
      result.data[i] = condition.data[i] != 0 ? a.data[i] : b.data[i];
    setTile(op->getResult(0), std::move(result));
    return success();
  }
  if (auto cmp = dyn_cast<arith::CmpFOp>(op)) {
    if (!tensor) {
      setInteger(cmp, compare(cmp.getPredicate(), slot(cmp.getLhs()).number,
                              slot(cmp.getRhs()).number));
      return success();
    }
    const Tile &a = tile(cmp.getLhs()), &b = tile(cmp.getRhs());
    Tile result(a.rows, a.cols);
    for (size_t i = 0; i < result.data.size(); ++i)
      result.data[i] = compare(cmp.getPredicate(), a.data[i], b.data[i]);
    setTile(cmp, std::move(result));
    return success();
  }
  if (tensor && element.isInteger(1) &&
      isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op)) {
    const Tile &a = tile(op->getOperand(0)), &b = tile(op->getOperand(1));
    Tile result(a.rows, a.cols);
    for (size_t i = 0; i < result.data.size(); ++i) {
      bool x = a.data[i] != 0, y = b.data[i] != 0;
      result.data[i] = isa<arith::AndIOp>(op)  ? x && y
                       : isa<arith::OrIOp>(op) ? x || y
                                               : x != y;
    }
    setTile(op->getResult(0), std::move(result));
    return success();
  }

  FloatFunction function = functionOf(op);
  if (!function)
    return tensor ? LogicalResult(refuse()) : runInteger(op);
  unsigned count = op->getNumOperands();
  if (!tensor) {
    float in[3] = {};
    for (unsigned i = 0; i < count; ++i)
      in[i] = slot(op->getOperand(i)).number;
    Slot result;
    result.number = roundToElement(function(in[0], in[1], in[2]), element);
    set(op->getResult(0), result);
    return success();
  }
  const Tile *in[3];
  for (unsigned i = 0; i < 3; ++i)
    in[i] = &tile(op->getOperand(i < count ? i : 0));
  Tile result(in[0]->rows, in[0]->cols);
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] = roundToElement(
        function(in[0]->data[i], in[1]->data[i], in[2]->data[i]), element);
  setTile(op->getResult(0), std::move(result));
  return success();
}

/// Scalar integer ops; index values are 64-bit.
LogicalResult Machine::runInteger(Operation *op) {
  Value result = op->getResult(0);
  if (auto convert = dyn_cast<arith::SIToFPOp>(op)) {
    Slot value;
    value.number = float(integer(convert.getIn()));
    set(result, value);
    return success();
  }
  if (auto convert = dyn_cast<arith::FPToSIOp>(op)) {
    setInteger(result, int64_t(slot(convert.getIn()).number));
    return success();
  }
  // Narrow integers are kept sign-extended, i1 as 0 or 1.
  auto setNarrow = [&](int64_t value) {
    unsigned width = result.getType().isIndex()
                         ? 64
                         : result.getType().getIntOrFloatBitWidth();
    setInteger(result, width == 1   ? value & 1
                       : width < 64 ? llvm::SignExtend64(value, width)
                                    : value);
    return success();
  };
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>(op))
    return setNarrow(integer(op->getOperand(0)));
  if (isa<arith::IndexCastUIOp, arith::ExtUIOp>(op)) {
    Type from = op->getOperand(0).getType();
    unsigned width = from.isIndex() ? 64 : from.getIntOrFloatBitWidth();
    return setNarrow(integer(op->getOperand(0)) &
                     llvm::maskTrailingOnes<uint64_t>(width));
  }
  if (op->getNumOperands() != 2 || !result.getType().isIntOrIndex() ||
      !op->getOperand(0).getType().isIntOrIndex())
    return emitError(op->getLoc(), "the evaluator has no meaning for '")
           << op->getName() << "'";
  int64_t a = integer(op->getOperand(0)), b = integer(op->getOperand(1));
  if (isa<arith::DivUIOp, arith::DivSIOp, arith::CeilDivUIOp,
          arith::CeilDivSIOp, arith::FloorDivSIOp, arith::RemUIOp,
          arith::RemSIOp>(op) &&
      b == 0)
    return emitError(op->getLoc(), "division by zero");
  auto floorDiv = [](int64_t a, int64_t b) {
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  };
  std::optional<int64_t> value =
      llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
          .Case([&](arith::AddIOp) { return a + b; })
          .Case([&](arith::SubIOp) { return a - b; })
          .Case([&](arith::MulIOp) { return a * b; })
          .Case([&](arith::DivUIOp) { return int64_t(uint64_t(a) / b); })
          .Case([&](arith::RemUIOp) { return int64_t(uint64_t(a) % b); })
          .Case([&](arith::DivSIOp) { return a / b; })
          .Case([&](arith::RemSIOp) { return a % b; })
          .Case([&](arith::FloorDivSIOp) { return floorDiv(a, b); })
          .Case([&](arith::CeilDivSIOp) { return -floorDiv(-a, b); })
          .Case([&](arith::CeilDivUIOp) {
            uint64_t x = a, y = b;
            return int64_t(x / y + (x % y != 0));
          })
          .Case([&](arith::MinSIOp) { return std::min(a, b); })
          .Case([&](arith::MaxSIOp) { return std::max(a, b); })
          .Case([&](arith::MinUIOp) {
            return int64_t(std::min(uint64_t(a), uint64_t(b)));
          })
          .Case([&](arith::MaxUIOp) {
            return int64_t(std::max(uint64_t(a), uint64_t(b)));
          })
          .Case([&](arith::AndIOp) { return a & b; })
          .Case([&](arith::OrIOp) { return a | b; })
          .Case([&](arith::XOrIOp) { return a ^ b; })
          .Case([&](arith::CmpIOp cmp) {
            unsigned width =
                cmp.getLhs().getType().isIndex()
                    ? 64
                    : cmp.getLhs().getType().getIntOrFloatBitWidth();
            return int64_t(arith::applyCmpPredicate(
                cmp.getPredicate(), APInt(width, a, true, true),
                APInt(width, b, true, true)));
          })
          .Default([](Operation *) { return std::nullopt; });
  if (!value)
    return emitError(op->getLoc(), "the evaluator has no meaning for '")
           << op->getName() << "'";
  return setNarrow(*value);
}
