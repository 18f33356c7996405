//===- ReadMax.cpp - Row maxima while reading tensor memory ---------------===//
//
// sm_103a reduces what it loads from tensor memory: a tile that is read whole
// and whose row maxima are taken needs no maxima of its own.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

namespace flamia {
#define GEN_PASS_DEF_READMAXPASS
#include "passes/Passes.h.inc"
} // namespace flamia

using namespace mlir;
using namespace flamia;
using namespace flamia::tcgen;

namespace {

struct ReadMaxPass : public flamia::impl::ReadMaxPassBase<ReadMaxPass> {
  using ReadMaxPassBase::ReadMaxPassBase;

  void runOnOperation() override {
    SmallVector<ReduceOp> reductions;
    getOperation().walk([&](ReduceOp op) {
      if (op.getKind() == ReduceKind::Max)
        reductions.push_back(op);
    });
    for (ReduceOp reduce : reductions)
      fuse(reduce);
  }

  void fuse(ReduceOp reduce) {
    auto read = reduce.getSource().getDefiningOp<ReadOp>();
    if (!read || read->getBlock() != reduce->getBlock() || read.getCol() != 0)
      return;
    auto buffer = cast<BufferType>(read.getBuffer().getType());
    auto type = cast<RankedTensorType>(read.getType());
    if (buffer.getSpace() != Space::Tmem || !type.getElementType().isF32() ||
        type.getDimSize(1) != buffer.getCols() || type.getDimSize(1) % 32 != 0)
      return;
    OpBuilder builder(read);
    auto both =
        ReadMaxOp::create(builder, read.getLoc(), type, reduce.getType(),
                          read.getBuffer(), read.getSlot());
    read.getResult().replaceAllUsesWith(both.getResult());
    reduce.getResult().replaceAllUsesWith(both.getMax());
    reduce.erase();
    read.erase();
  }
};

} // namespace
