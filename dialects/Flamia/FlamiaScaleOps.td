//===- FlamiaScaleOps.td - Quantization and scales ------------*- tablegen -*-===//
//
// Operations that make scaled tiles, and that see scales as numbers. Part of
// FlamiaOps.td, which includes this behind what it uses.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_SCALE_OPS
#define FLAMIA_SCALE_OPS

//===----------------------------------------------------------------------===//
// Quantization and rounding
//===----------------------------------------------------------------------===//

def QuantizeOp : Flamia_Op<"quantize", [AttrSizedOperandSegments, Pure]> {
  let summary = "rounds a tile to a scaled type";
  let description = [{
    Without `exponent` each block's scale is the smallest power of two with
    `amax / scale <= max(element)` (round-up; 448 for E4M3), byte clamped to [0, 254].
    A block of zeros gets payload 0 and byte 0 if it spans one row, 127 otherwise. A NaN
    or Inf gives byte 255 and payload 0. With `exponent e` every scale is 2^e and the
    payload saturates. Payload: nearest even, saturating, of `x * 2^-e`.

    With `rows n` only the first n rows count (the others have payload 0). With
    `including v` the value v of each row counts in the maximum of the row's blocks too, as
    one more element that is not stored.

    `shift` and `shift_by` multiply the logical values by a power of two after rounding:
    payloads stay, each scale byte b becomes `b + shift + shift_by`, clamped to [0, 254]
    once, after both. `shift` holds integers, one for all rows or one for each (then a block
    has one row); a NaN there gives byte 255, and byte 255 stays 255.

    NVFP4 (f4E2M1FN by f8E4M3FN) takes a second-level scale `global_scale g`, from 2^-32 to
    2^32, and none of the other options but `rows`. In f32 steps, each rounded:
    s = `amax / 6 / g` to nearest even UE4M3, saturating at 448; payload
    `x / (s * g)` to nearest even, saturating at 6. s = 0 gives payload 0, a NaN or Inf in
    the block s = 0x7F (NaN) and payload 0. g is a scalar and so cannot come from a tile.

    Examples:

    ```mlir
    %p8 = flamia.quantize %p exponent 0 : tensor<128x128xf32>
       -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %v8 = flamia.quantize %v rows %n : tensor<128x128xf32>
       -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
    %do8 = flamia.quantize %do including(%u : tensor<128x1xf32>) : tensor<128x128xf32>
       -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
    %ds8 = flamia.quantize %ds shift(%e : tensor<1x1xf32>) shift_by -8 : tensor<128x128xf32>
       -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %q4 = flamia.quantize %q global_scale %g : tensor<128x128xf32>
       -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
    ```
  }];
  let arguments = (ins Flamia_F32Tile:$source, Optional<Index>:$rows,
    Optional<Flamia_F32Tile>:$including, OptionalAttr<I32Attr>:$exponent,
    Optional<Flamia_F32Tile>:$shift, OptionalAttr<I32Attr>:$shift_by,
    Optional<F32>:$global_scale);
  let results = (outs Flamia_Scaled:$result);
  let assemblyFormat = [{
    $source (`rows` $rows^)? (`including` `(` $including^ `:` type($including) `)`)?
    (`exponent` $exponent^)? (`shift` `(` $shift^ `:` type($shift) `)`)?
    (`shift_by` $shift_by^)? (`global_scale` $global_scale^)? attr-dict
    `:` type($source) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def RoundLikeOp : Flamia_Op<"round_like", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "rounds values as another operand was rounded";
  let description = [{
    Rounds each value of `source` to the grid on which `like` holds its elements: the
    payload grid of a scaled tile quantized with a static exponent, or the 16-bit type of
    a tensor. `flamia-insert-safeguards` may exchange `like`; the rounding follows.

    Example:

    ```mlir
    %r = flamia.round_like %pmax, %p8 : tensor<128x1xf32>,
         !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    ```
  }];
  let arguments = (ins Flamia_F32Tile:$source, Flamia_Operand:$like);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$source `,` $like attr-dict `:` type($source) `,` type($like)";
  let hasVerifier = 1;
}

def HadamardOp : Flamia_Op<"hadamard", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "rotates each row by a signed Walsh-Hadamard matrix";
  let description = [{
    `y = H diag(signs) x / sqrt(C)` for each row x of C = 2^n channels, with
    `sign(c) = (-1)^(c0 c1 + c2 c3 + c4 c5)` of the bits of c; fp32 butterflies at
    distance 1, 2, 4, ..., then one multiplication. With `inverse`, `x = diag(signs) H y / sqrt(C)`.

    Example: `%r = flamia.hadamard %x : tensor<128x128xf32>`
  }];
  let arguments = (ins Flamia_F32Tile:$source, UnitAttr:$inverse);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$source (`inverse` $inverse^)? attr-dict `:` type($source)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Scales as numbers
//===----------------------------------------------------------------------===//

def LoadExponentsOp : Flamia_Op<"load_exponents", [MemoryEffects<[MemRead]>]> {
  let summary = "reads scale bytes as exponents";
  let description = [{
    The exponents (byte - 127) of one atom of E8M0 scales, at `[tile, head]` of an array
    as in `flamia.load_scaled`. Element (r, j) of the result is that of operand row r and
    K block j; the result has 128 rows and 4 columns, or 1 for block 0 only. The byte 255
    gives NaN.

    Example:

    ```mlir
    %e = flamia.load_exponents %k_scale[%tile, %head]
       : memref<?x?x512xf8E8M0FNU> -> tensor<128x1xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$scales, Variadic<Index>:$indices);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = [{
    $scales `[` $indices `]` attr-dict `:` type($scales) `->` type($result)
  }];
  let hasVerifier = 1;
}

def StoreExponentsOp : Flamia_Op<"store_exponents", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes exponents as scale bytes";
  let description = [{
    Writes one atom of E8M0 scales, of a tile with `rows` rows and `cols` columns, at most
    128 of both. Element (r, j) of the value is for row r and column block j of the tile,
    or for all column blocks if there is one column:

    - `along cols`: the byte of operand row r and K block j is that of element (r, j)
    - `along rows`: the byte of operand row c (a column of the tile) and K block j is that
      of element (32 j, 0)

    The byte is exponent + 127, clamped to 0 to 254, and 255 for NaN. The rest of the atom
    holds the byte 127.

    Example:

    ```mlir
    flamia.store_exponents %e, %do_block_scale[%tile, %head] rows %n cols %d along rows
      : tensor<128x1xf32>, memref<?x?x512xf8E8M0FNU>
    ```
  }];
  let arguments = (ins Flamia_F32Tile:$value, AnyMemRef:$target, Variadic<Index>:$indices,
    Index:$rows, Index:$cols, Flamia_Axis:$along);
  let assemblyFormat = [{
    $value `,` $target `[` $indices `]` `rows` $rows `cols` $cols `along` $along attr-dict
    `:` type($value) `,` type($target)
  }];
  let hasVerifier = 1;
}

def ExponentsOp : Flamia_Op<"exponents", [Pure]> {
  let summary = "exponents of a token-local quantized tile";
  let description = [{
    The exponent of each row's E8M0 scale, of a tile whose blocks are one row each. NaN for
    the byte 255.

    Example:

    ```mlir
    %e = flamia.exponents %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64> -> tensor<128x1xf32>
    ```
  }];
  let arguments = (ins Flamia_Scaled:$source);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` type($result)";
  let hasVerifier = 1;
}

def PayloadOp : Flamia_Op<"payload", [Pure]> {
  let summary = "payload of a quantized tile, as numbers";
  let description = [{
    The payload without its scales: the logical values in units of each block's scale.

    Example:

    ```mlir
    %x = flamia.payload %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64> -> tensor<128x64xf32>
    ```
  }];
  let arguments = (ins Flamia_Scaled:$source);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` type($result)";
  let hasVerifier = 1;
}

def Pow2Op : Flamia_Op<"pow2", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "exact powers of two of integers";
  let description = [{
    2^e for integer-valued e; NaN for NaN. Below 2^-126 the result is subnormal, below
    2^-149 it is 0, and above 2^127 it is infinity. Unlike `math.exp2` it is exact and
    flushes nothing.

    Example: `%f = flamia.pow2 %e : tensor<128x1xf32>`
  }];
  let arguments = (ins Flamia_F32Tile:$source);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def ReduceRowsOp : Flamia_Op<"reduce_rows", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "largest value of each block of rows, in each of its rows";
  let description = [{
    Every row of a block of `by` rows gets the largest value in its column among the
    block's rows before `rows` (default: all). NaN goes through: a block with a NaN has the
    result NaN. A block without such a row has the result 0.

    Example: `%eb = flamia.reduce_rows max %e by 32 rows %n : tensor<128x1xf32>`
  }];
  let arguments = (ins Flamia_ReduceKind:$kind, Flamia_F32Tile:$source, I64Attr:$by,
    Optional<Index>:$rows);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = [{
    $kind $source `by` $by (`rows` $rows^)? attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

#endif // FLAMIA_SCALE_OPS
