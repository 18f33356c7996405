//===- FlamiaDialect.td - The Flamia dialect ------------------*- tablegen -*-===//
//
// A tile program for one work item of a microscaled kernel, in SSA with value
// semantics. Rationale: docs/dialect-flamia.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_DIALECT
#define FLAMIA_DIALECT

include "mlir/IR/DialectBase.td"

def Flamia_Dialect : Dialect {
  let name = "flamia";
  let cppNamespace = "::flamia";
  let summary = "tile programs over microscaled operands, without hardware";
  let description = [{
    A `flamia.kernel` describes what one work item computes: it loads tiles of
    global tensors, combines them by `flamia.dot`, `arith` and `math` on plain
    `tensor`s, quantizes, and stores. Nothing here names warps, barriers,
    descriptors or memory spaces: passes add those.

    Tiles are two-dimensional: rows x columns. A *row vector* is `tensor<Rx1xT>`
    (one value a row), a *column vector* is `tensor<1xCxT>`.
  }];
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
  }];
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // FLAMIA_DIALECT
