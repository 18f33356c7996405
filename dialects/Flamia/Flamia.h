//===- Flamia.h - The Flamia dialect ----------------------------*- C++ -*-===//
//
// Tile programs over microscaled operands; see docs/dialect-flamia.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_DIALECTS_FLAMIA_FLAMIA_H
#define FLAMIA_DIALECTS_FLAMIA_FLAMIA_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Flamia/FlamiaDialect.h.inc"
#include "dialects/Flamia/FlamiaEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Flamia/FlamiaTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Flamia/FlamiaOps.h.inc"

namespace flamia {
/// Largest extent of a tile: what 512 columns of tensor memory and the shared
/// memory of one CTA can hold beside others.
inline constexpr int64_t maxTileExtent = 256;

/// Rows and columns of a tile value's type (tensor or scaled).
std::pair<int64_t, int64_t> getTileShape(mlir::Type type);

/// Elements along a contraction for which an array of scales of \p scaleType
/// holds one byte: 32 (f8E8M0FNU) or 16 (f8E4M3FN). An atom of 512 bytes has
/// four such blocks for each of 128 operand rows.
int64_t getScaleUnit(mlir::Type scaleType);
} // namespace flamia

#endif // FLAMIA_DIALECTS_FLAMIA_FLAMIA_H
