//===- ConvertFlamiaToNVVMEmitter.cpp - Building operations -------------===//
//
// Short ways to the operations that the lowering makes most.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

Value Emitter::c32(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, i32(), int64_t(int32_t(value)));
}
Value Emitter::c64(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, i64(), value);
}
Value Emitter::cIndex(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}
Value Emitter::cF32(float value) {
  return op<arith::ConstantOp>(b.getF32FloatAttr(value));
}
Value Emitter::splat(Type type, Attribute element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return op<arith::ConstantOp>(
        cast<TypedAttr>(DenseElementsAttr::get(vector, element)));
  return op<arith::ConstantOp>(cast<TypedAttr>(element));
}
Value Emitter::shl(Value x, int64_t bits) {
  Value amount = x.getType().isInteger(64) ? c64(bits) : c32(bits);
  return op<arith::ShLIOp>(x, amount);
}
Value Emitter::shr(Value x, int64_t bits) {
  Value amount = x.getType().isInteger(64) ? c64(bits) : c32(bits);
  return op<arith::ShRUIOp>(x, amount);
}
Value Emitter::addC(Value x, int64_t y) {
  if (y == 0)
    return x;
  return add(x, x.getType().isInteger(64) ? c64(y) : c32(y));
}
Value Emitter::mulC(Value x, int64_t y) {
  if (y == 1)
    return x;
  return mul(x, x.getType().isInteger(64) ? c64(y) : c32(y));
}
Value Emitter::toI64(Value x) {
  if (x.getType().isIndex())
    return op<arith::IndexCastOp>(i64(), x);
  return x.getType().isInteger(64) ? x : op<arith::ExtUIOp>(i64(), x);
}
Value Emitter::toIndex(Value x) {
  return op<arith::IndexCastOp>(b.getIndexType(), x);
}
SmallVector<Value> Emitter::elements(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return {value};
  SmallVector<Value> result;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    result.push_back(extract(value, i));
  return result;
}
Value Emitter::fromElements(ArrayRef<Value> elements) {
  return elements.size() == 1 ? elements.front() : vectorOf(elements);
}
Value Emitter::vectorOf(ArrayRef<Value> elements) {
  return op<vector::FromElementsOp>(
      vec(elements.size(), elements.front().getType()), elements);
}
Value Emitter::callIntrinsic(StringRef name, Type result,
                             ArrayRef<Value> args) {
  return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name),
                                       args)
      .getResult(0);
}
void Emitter::callVoidIntrinsic(StringRef name, ArrayRef<Value> args) {
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(name), args);
}
SmallVector<Value> Emitter::inPlace(ArrayRef<Value> values) {
  std::string constraints;
  for (Value value : values)
    constraints += value.getType().isF32() ? "=f," : "=r,";
  for (size_t i = 0; i < values.size(); ++i)
    constraints += std::to_string(i) + ",";
  constraints.pop_back();
  SmallVector<Type> types(ValueRange(values).getTypes());
  Type result = types.size() == 1
                    ? types.front()
                    : LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  Value tie = op<LLVM::InlineAsmOp>(
      result, values, /*asm_string=*/"", constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  if (types.size() == 1)
    return {tie};
  SmallVector<Value> results;
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back(
        op<LLVM::ExtractValueOp>(tie, ArrayRef<int64_t>{int64_t(i)}));
  return results;
}
void Emitter::ifThen(Value condition, function_ref<void()> body) {
  auto op = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  body();
}
Values Emitter::ifElse(Value condition, function_ref<Values()> thenBody,
                       function_ref<Values()> elseBody) {
  auto emit = [&](function_ref<Values()> body) {
    return [&, body](OpBuilder &builder, Location location) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(builder.getInsertionBlock(),
                          builder.getInsertionPoint());
      scf::YieldOp::create(b, location, body());
    };
  };
  auto op =
      scf::IfOp::create(b, loc, condition, emit(thenBody), emit(elseBody));
  return Values(op.getResults());
}
