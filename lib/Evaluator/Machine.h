//===- Machine.h - State of the evaluator -----------------------*- C++ -*-===//
//
// Private to lib/Evaluator. A Machine runs one work item at a time.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_LIB_EVALUATOR_MACHINE_H
#define FLAMIA_LIB_EVALUATOR_MACHINE_H

#include "flamia/Evaluator/Evaluator.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <memory>

namespace flamia::evaluator {

/// A tensor value. 16-bit elements are held exactly as floats; i1 as 0 and 1.
struct Tile {
  int64_t rows = 0, cols = 0;
  std::vector<float> data;

  Tile() = default;
  Tile(int64_t rows, int64_t cols)
      : rows(rows), cols(cols), data(size_t(rows * cols)) {}
  float &at(int64_t r, int64_t c) { return data[size_t(r * cols + c)]; }
  float at(int64_t r, int64_t c) const { return data[size_t(r * cols + c)]; }
};

/// A scaled tile: payload bytes as stored (f4E2M1FN: one code a byte), and one
/// scale byte per block.
struct ScaledTile {
  ScaledType type;
  std::vector<uint8_t> payload;
  std::vector<uint8_t> scales;

  explicit ScaledTile(ScaledType type)
      : type(type), payload(size_t(type.getRows() * type.getCols())),
        scales(size_t(type.getRows() / type.getBlockRows() *
                      (type.getCols() / type.getBlockCols()))) {}
  size_t scaleIndex(int64_t row, int64_t col) const {
    return size_t(row / type.getBlockRows() *
                      (type.getCols() / type.getBlockCols()) +
                  col / type.getBlockCols());
  }
  /// payload * scale, exact.
  double at(int64_t row, int64_t col) const;
};

/// One SSA value: an integer, a float, a tile, a scaled tile or a global
/// tensor.
struct Slot {
  int64_t integer = 0;
  float number = 0;
  std::shared_ptr<const Tile> tile;
  std::shared_ptr<const ScaledTile> scaled;
  Buffer *buffer = nullptr;
};

class Machine {
public:
  Machine(KernelOp kernel, Arguments &arguments);

  mlir::LogicalResult runWorkItem(std::array<int64_t, 3> program);

private:
  mlir::LogicalResult runBlock(mlir::Block &block);
  mlir::LogicalResult run(mlir::Operation *op);
  mlir::LogicalResult runFor(mlir::scf::ForOp op);
  mlir::LogicalResult runIf(mlir::scf::IfOp op);
  mlir::LogicalResult runWorkItemOp(WorkItemOp op);

  // Memory.cpp
  mlir::LogicalResult runLoad(LoadOp op);
  mlir::LogicalResult runLoadScaled(LoadScaledOp op);
  mlir::LogicalResult runLoadPayload(LoadPayloadOp op);
  /// The payload that a load of a scaled tile reads; scales are the caller's.
  template <typename LoadLike>
  mlir::FailureOr<ScaledTile> loadPayload(LoadLike op);
  mlir::LogicalResult runStore(StoreOp op);
  mlir::LogicalResult runStorePayload(StorePayloadOp op);
  mlir::LogicalResult runStoreScales(StoreScalesOp op);
  mlir::LogicalResult runLoadExponents(LoadExponentsOp op);
  mlir::LogicalResult runStoreExponents(StoreExponentsOp op);

  // Tiles.cpp
  mlir::LogicalResult runTranspose(TransposeOp op);
  mlir::LogicalResult runDot(DotOp op);
  mlir::LogicalResult runQuantize(QuantizeOp op);
  mlir::LogicalResult runQuantizeNvfp4(QuantizeOp op);
  mlir::LogicalResult runRoundLike(RoundLikeOp op);
  mlir::LogicalResult runHadamard(HadamardOp op);
  mlir::LogicalResult runBroadcast(BroadcastOp op);
  mlir::LogicalResult runReduce(ReduceOp op);
  mlir::LogicalResult runMask(MaskOp op);
  mlir::LogicalResult runExp2(Exp2Op op);
  mlir::LogicalResult runExponents(ExponentsOp op);
  mlir::LogicalResult runPayload(PayloadOp op);
  mlir::LogicalResult runPow2(Pow2Op op);
  mlir::LogicalResult runReduceRows(ReduceRowsOp op);

  // Scalar and elementwise ops, Elementwise.cpp
  mlir::LogicalResult runConstant(mlir::arith::ConstantOp op);
  mlir::LogicalResult runFull(FullOp op);
  mlir::LogicalResult runElementwise(mlir::Operation *op);
  mlir::LogicalResult runInteger(mlir::Operation *op);

  const Slot &slot(mlir::Value value) const {
    return slots.find(value)->second;
  }
  int64_t integer(mlir::Value value) const { return slot(value).integer; }
  const Tile &tile(mlir::Value value) const { return *slot(value).tile; }
  void set(mlir::Value value, Slot slot) { slots[value] = std::move(slot); }
  void setInteger(mlir::Value value, int64_t integer) {
    slots[value].integer = integer;
  }
  void setTile(mlir::Value value, Tile tile) {
    slots[value].tile = std::make_shared<const Tile>(std::move(tile));
  }
  void setScaled(mlir::Value value, ScaledTile scaled) {
    slots[value].scaled = std::make_shared<const ScaledTile>(std::move(scaled));
  }

  KernelOp kernel;
  std::array<int64_t, 3> program = {0, 0, 0};
  bool isSurplus = false; ///< The work list's entry holds no token.
  llvm::DenseMap<mlir::Value, Slot> slots;
};

/// Rounds \p value to a tensor's element type (f32: as it is; i1: 0 or 1).
float roundToElement(float value, mlir::Type element);

/// byte - 127, NaN for the byte 255.
float exponentOf(uint8_t byte);

/// Payload conversions of a scaled type's element.
uint8_t encodePayload(float value, mlir::Type element);
float decodePayload(uint8_t byte, mlir::Type element);

} // namespace flamia::evaluator

#endif // FLAMIA_LIB_EVALUATOR_MACHINE_H
