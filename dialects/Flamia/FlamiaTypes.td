//===- FlamiaTypes.td - Types of the Flamia dialect -----------*- tablegen -*-===//

#ifndef FLAMIA_TYPES
#define FLAMIA_TYPES

include "dialects/Flamia/FlamiaDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/EnumAttr.td"

def Flamia_ScaledType : TypeDef<Flamia_Dialect, "Scaled"> {
  let mnemonic = "scaled";
  let summary = "a quantized tile: payload elements and one scale per block";
  let description = [{
    The logical value of element (r, c) is
    `payload(r, c) * scale(r / blockRows, c / blockCols)`.

    Syntax: `!flamia.scaled<ROWSxCOLS, ELEMENT by SCALE per BLOCKROWSxBLOCKCOLS>`.
    Any extent may be `?` until `flamia-specialize` has bound the parameters; a block
    extent `?` means the whole tile extent.

    - `f8E4M3FN` or `f8E5M2` by `f8E8M0FNU` (a power of two): MXFP8
    - `f4E2M1FN` by `f8E4M3FN` (read as UE4M3; the sign is ignored): NVFP4, with blocks of a
      multiple of 16 elements along the contraction. A second-level scale of the tensor
      is no part of the value.

    Examples: `!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>`,
    `!flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>`
  }];
  let parameters = (ins
    "int64_t":$rows, "int64_t":$cols,
    "::mlir::Type":$elementType, "::mlir::Type":$scaleType,
    "int64_t":$blockRows, "int64_t":$blockCols);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kDynamic = ::mlir::ShapedType::kDynamic;
    bool hasStaticShape() const {
      return getRows() != kDynamic && getCols() != kDynamic &&
             getBlockRows() != kDynamic && getBlockCols() != kDynamic;
    }
    /// The same value with rows and columns (and block extents) exchanged.
    ScaledType transposed() const {
      return get(getContext(), getCols(), getRows(), getElementType(),
                 getScaleType(), getBlockCols(), getBlockRows());
    }
  }];
}

def Flamia_Tile : Type<
    And<[CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">,
         CPred<"::llvm::cast<::mlir::RankedTensorType>($_self).getRank() == 2">]>,
    "two-dimensional tensor", "::mlir::RankedTensorType">;

def Flamia_FloatTile : Type<
    And<[Flamia_Tile.predicate,
         CPred<"::llvm::isa<::mlir::FloatType>(::llvm::cast<::mlir::RankedTensorType>($_self).getElementType())">]>,
    "two-dimensional tensor of floating-point values", "::mlir::RankedTensorType">;

def Flamia_F32Tile : Type<
    And<[Flamia_Tile.predicate,
         CPred<"::llvm::cast<::mlir::RankedTensorType>($_self).getElementType().isF32()">]>,
    "two-dimensional tensor of f32", "::mlir::RankedTensorType">;

def Flamia_Scaled : Type<CPred<"::llvm::isa<::flamia::ScaledType>($_self)">,
    "scaled tile", "::flamia::ScaledType">;

def Flamia_Operand : AnyTypeOf<[Flamia_FloatTile, Flamia_Scaled],
    "two-dimensional floating-point tensor or scaled tile">;

def Flamia_Axis : I32EnumAttr<"Axis", "tile axis", [
    I32EnumAttrCase<"Rows", 0, "rows">, I32EnumAttrCase<"Cols", 1, "cols">]> {
  let cppNamespace = "::flamia";
}

#endif // FLAMIA_TYPES
