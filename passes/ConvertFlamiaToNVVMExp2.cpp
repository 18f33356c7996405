//===- ConvertFlamiaToNVVMExp2.cpp - Exponentials by polynomial -----------===//
//
// flamia.exp2 in 32 columns at a time. Their rows are those of one warp, so
// every warp goes one way or the other as a whole.
//
//===----------------------------------------------------------------------===//

#include "passes/ConvertFlamiaToNVVM.h"

#include "flamia/Numerics/Exp2.h"
#include "flamia/Numerics/Layout.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace flamia;
using namespace flamia::lowering;

/// Columns that go through the polynomial at a time: enough that its steps need
/// not wait for one another, and few registers.
static constexpr size_t kColumns = 8;

/// numerics::exp2Polynomial of some values, in pairs where the hardware has
/// instructions for them.
static void emitPolynomial(Emitter &e, ArrayRef<Value> from,
                           SmallVectorImpl<Value> &to) {
  VectorType type = e.vec(from.size(), e.f32());
  auto splat = [&](float value) {
    return e.splat(type, e.b.getF32FloatAttr(value));
  };
  SmallVector<Value> clamped;
  for (Value value : from) // NaN stays NaN
    clamped.push_back(e.callIntrinsic("llvm.nvvm.fmax.nan.f", e.f32(),
                                      {value, e.cF32(numerics::exp2Smallest)}));
  Value x = e.vectorOf(clamped);
  Value shifted = e.op<arith::AddFOp>(x, splat(numerics::exp2Magic));
  Value nearest = e.op<arith::AddFOp>(shifted, splat(-numerics::exp2Magic));
  Value f = e.op<arith::SubFOp>(x, nearest);
  ArrayRef<float> coefficients(numerics::exp2Coefficients);
  Value sum = splat(coefficients.back());
  for (float coefficient : llvm::reverse(coefficients.drop_back()))
    sum = e.op<math::FmaOp>(sum, f, splat(coefficient));
  VectorType integers = e.vec(from.size(), e.i32());
  Value bits =
      e.op<arith::ShLIOp>(e.bitcast(shifted, integers),
                          e.splat(integers, e.b.getI32IntegerAttr(23)));
  Value power = e.bitcast(bits, type);
  llvm::append_range(to, e.elements(e.op<arith::MulFOp>(sum, power)));
}

/// A conversion of the exponentials that needs nothing else.
static QuantizeOp conversionOf(Exp2Op op) {
  for (Operation *user : op->getUsers())
    if (auto quantize = dyn_cast<QuantizeOp>(user);
        quantize && quantize->getBlock() == op->getBlock() &&
        quantize.getExponent() == 0u && !quantize.getShift() &&
        !quantize.getRows())
      return quantize;
  return {};
}

static ReduceOp rowSumOf(Exp2Op op) {
  for (Operation *user : op->getUsers())
    if (auto reduce = dyn_cast<ReduceOp>(user);
        reduce && reduce->getBlock() == op->getBlock() &&
        reduce.getKind() == ReduceKind::Sum)
      return reduce;
  return {};
}

LogicalResult KernelLowering::lowerExp2(Exp2Op op) {
  numerics::Exp2Share share{int64_t(op.getBlocks()), int64_t(op.getOf())};
  SmallVector<Value> from = e.elements(get(op.getSource())), to;
  // Block (i, j) of the score matrix counts by i + j: the thread's is i, the
  // columns' j.
  Value first =
      e.trunc32(e.shr(e.add(i64(op.getRows()), i64(op.getCols())), 5));
  first = e.add(first, e.andi(warp, e.c32(3)));
  // Where a warp goes one of two ways, the results are converted and summed on
  // the way: no registers need to have the same place in both, and ptxas joins
  // the halves of a word for nothing only where it sees what makes the values.
  QuantizeOp conversion = conversionOf(op);
  ReduceOp sum = rowSumOf(op);
  SmallVector<Value> words, sums;
  auto complete = [&](Values results) {
    Values block = results;
    if (conversion)
      llvm::append_range(
          results,
          e.elements(pack(block, conversion.getType().getElementType())));
    if (sum) {
      SmallVector<Value> partial = sums;
      addToSums(partial, block);
      llvm::append_range(results, partial);
    }
    return results;
  };
  for (size_t col = 0; col < from.size(); col += numerics::blockSize) {
    ArrayRef<Value> block =
        ArrayRef(from).slice(col, size_t(numerics::blockSize));
    auto polynomial = [&] {
      Values results;
      for (size_t i = 0; i < block.size(); i += kColumns)
        emitPolynomial(e, block.slice(i, kColumns), results);
      return results;
    };
    auto unit = [&] {
      Values results;
      for (Value x : block)
        results.push_back(
            e.callIntrinsic("llvm.nvvm.ex2.approx.ftz.f32", e.f32(), x));
      return results;
    };
    Values results;
    if (share.blocks == 0 || share.blocks == share.of) {
      results = share.blocks ? polynomial() : unit();
    } else {
      Value number = e.addC(first, int64_t(col) / numerics::blockSize);
      Value rest = e.andi(e.mulC(number, share.blocks), e.c32(share.of - 1));
      Value chosen =
          e.cmp(arith::CmpIPredicate::ult, rest, e.c32(share.blocks));
      results = e.ifElse(
          chosen, [&] { return complete(polynomial()); },
          [&] { return complete(unit()); });
      ArrayRef<Value> more = ArrayRef(results).drop_front(block.size());
      if (sum) {
        sums.assign(more.end() - 4, more.end());
        more = more.drop_back(4);
      }
      llvm::append_range(words, more);
      results.truncate(block.size());
    }
    llvm::append_range(to, results);
  }
  set(op.getResult(), e.fromElements(to));
  if (!words.empty())
    converted[conversion.getResult()] = e.vectorOf(words);
  if (!sums.empty())
    summed[sum.getResult()] = finishSum(sums);
  return success();
}
