//===- FlamiaOps.td - Operations of the Flamia dialect --------*- tablegen -*-===//

#ifndef FLAMIA_OPS
#define FLAMIA_OPS

include "FlamiaTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Flamia_Op<string mnemonic, list<Trait> traits = []>
    : Op<Flamia_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

def Flamia_ReduceKind : I32EnumAttr<"ReduceKind", "row reduction", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Sum", 1, "sum">,
    I32EnumAttrCase<"AbsMax", 2, "absmax">]> {
  let cppNamespace = "::flamia";
}

def Flamia_GridAxis : I32EnumAttr<"GridAxis", "grid axis", [
    I32EnumAttrCase<"X", 0, "x">, I32EnumAttrCase<"Y", 1, "y">,
    I32EnumAttrCase<"Z", 2, "z">]> {
  let cppNamespace = "::flamia";
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

def KernelOp : Flamia_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface,
    OpAsmOpInterface, AutomaticAllocationScope]> {
  let summary = "a tile program that every work item of the grid runs";
  let description = [{
    Arguments are global tensors (`memref`s, outermost dimension first, row-major, or `strided<[?, ..., 1]>`
    with strides that the launch gives, which are multiples of 16 bytes)
    and scalars (f32, i32, index). Their SSA names are kept: they name the launch
    arguments.

    - `parameters {name = [default, other...]}` declares compile-time parameters and
      all values that `flamia-specialize` (`flamiac -D name=value`) may bind.
    - `grid(TERM, TERM, TERM)`: a TERM is an integer, `ARG[DIM]` or
      `ARG[DIM] ceildiv TILE`, evaluated at launch. One CTA runs one work item. A kernel with a
      work list, whose second term is of an argument, may be launched with its y axis in
      groups (docs/launch-record.md): the order of CTAs changes, `program_id` does not. The third
      term may be `any`: the launch chooses how many CTAs share what is left of the work,
      and the kernel divides it by `flamia.num_programs z`.
    - argument attribute `flamia.dims = ["tokens", "heads", "head_dim"]` names the
      dimensions; a name equal to a parameter binds the extent, equal names must have
      equal extents at launch.
    - argument attribute `flamia.workspace` says that the tensor is neither an input nor an
      output of a user: the launch record then states its size (docs/launch-record.md).
    - argument attribute `flamia.original = "v_bf16"` names the argument that holds the
      unquantized tensor (see `flamia-insert-safeguards`). With
      `flamia.original_factor = "r"` the unquantized value is the original's times `r`,
      which has one value for each row (all dimensions but the last). A vector with
      `flamia.original_with = "do_data"` is exchanged for its original wherever products
      use that argument's original.
    - argument attribute `flamia.depends = {q = "<=", ...}` on an output says which
      tokens of each source its token t may depend on: "<=", ">=" or "any"; "<= if causal"
      is "any" when the parameter `causal` is bound to false. A scale array goes with its
      payload, an original with what was quantized from it. Without the attribute
      `flamia-check-causality` has nothing to prove for that output.
    - argument attribute `flamia.derived_from = "k"` names the argument whose data a scalar
      or a tensor was computed from beforehand (a per-tensor scale, for instance). A tensor
      with the same first dimension is taken to be computed token by token.
    - argument attribute `flamia.folded = {exponent = "e(q) - max128(e(q))", ...}` says which
      power of two an argument holds, so that `flamia-fold-scales` may use it
      (docs/fold-scales.md gives the forms and the grammar).
    - argument attribute `flamia.only = {format = "nvfp4"}` says that the argument exists
      only where all these parameters have these values: `flamia-specialize` removes it
      otherwise, and what the attribute `flamia.depends` of others says of it.
    - attribute `flamia.exp2_emulation = {sm_100a = "1/4"}` of the kernel says for architectures
      what share of its exponentials `flamia-emulate-exp2` computes by polynomial.
    - argument attribute `flamia.token_block = 32` says how many tokens of a payload were
      quantized together, where no `flamia.load_scaled` says so in its type.

    Example:

    ```mlir
    flamia.kernel @double(%x: memref<?x128xbf16>, %y: memref<?x128xf32>)
        parameters {} grid(x[0] ceildiv 128) {
      %c0 = arith.constant 0 : index
      %c128 = arith.constant 128 : index
      %i = flamia.program_id x
      %row = arith.muli %i, %c128 : index
      %t = flamia.load %x[%row, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
      %f = arith.extf %t : tensor<128x128xbf16> to tensor<128x128xf32>
      %d = arith.addf %f, %f : tensor<128x128xf32>
      flamia.store %d, %y[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
      flamia.return
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
    StrArrayAttr:$arg_names, DictionaryAttr:$parameters, ArrayAttr:$grid,
    OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The launch argument's name, without '%'.
    ::llvm::StringRef getArgName(unsigned index) {
      return ::llvm::cast<::mlir::StringAttr>(getArgNames()[index]).getValue();
    }
    /// The argument of that name, or null.
    ::mlir::BlockArgument getArgNamed(::llvm::StringRef name);
    void getAsmBlockArgumentNames(::mlir::Region &region, ::mlir::OpAsmSetValueNameFn setNameFn);
    static ::llvm::StringRef getDefaultDialect() { return ""; }
  }];
}

def ReturnOp : Flamia_Op<"return", [Terminator, Pure, HasParent<"KernelOp">]> {
  let summary = "ends a kernel";
  let description = [{ A kernel returns nothing: results are stored. }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Launch geometry and parameters
//===----------------------------------------------------------------------===//

def ParamOp : Flamia_Op<"param", [Pure]> {
  let summary = "value of a compile-time parameter";
  let description = [{
    Replaced by a constant by `flamia-specialize`. With `is` the result is whether the
    parameter has that value, for parameters whose values are strings.

    Examples:

    ```mlir
    %causal = flamia.param "causal" : i1
    %rotate = flamia.param "rotate" is "hadamard" : i1
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<StrAttr>:$is);
  let results = (outs AnyTypeOf<[I1, I32, Index]>:$result);
  let assemblyFormat = "$name (`is` $is^)? attr-dict `:` type($result)";
}

def ProgramIdOp : Flamia_Op<"program_id", [Pure]> {
  let summary = "index of this work item along a grid axis";
  let description = [{ Example: `%head = flamia.program_id y` }];
  let arguments = (ins Flamia_GridAxis:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
}

def NumProgramsOp : Flamia_Op<"num_programs", [Pure]> {
  let summary = "how many work items share the work along a grid axis that is left to the launch";
  let description = [{
    Results must not depend on it. Example, in a kernel with `grid(work[0], k[1], any)`:

    ```mlir
    %part = flamia.program_id z
    %parts = flamia.num_programs z
    %size = arith.ceildivui %heads, %parts : index
    %first = arith.muli %part, %size : index
    ```
  }];
  let arguments = (ins Flamia_GridAxis:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
  let hasVerifier = 1;
}

def DimOp : Flamia_Op<"dim", [Pure]> {
  let summary = "run-time extent of a global tensor";
  let description = [{ Example: `%heads = flamia.dim %q[1] : memref<?x?x128xbf16>` }];
  let arguments = (ins AnyMemRef:$source, I64Attr:$dimension);
  let results = (outs Index:$result);
  let assemblyFormat = "$source `[` $dimension `]` attr-dict `:` type($source)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def WorkItemOp : Flamia_Op<"work_item", [Pure]> {
  let summary = "document and tile of this work item";
  let description = [{
    Reads entry `program_id x` of a work list `[items, 4]`:

    - `begin`, `end`: the document's first token and one past its last, in the pack
    - `tile`: index of the 128-row tile inside the document
    - `scale_base`: the document's first tile in the scale arrays

    All are >= 0, and a work item's tile holds at least one token of its document:
    `begin + 128 * tile < end`. Passes rely on it. An entry whose tile holds none is surplus:
    its CTA does nothing (lists that are made on the device may end in such entries).

    With `from_end` the list counts tiles from the document's last one: `tile` is
    `ceildiv(end - begin, 128) - 1 - entry`. One list then has both the tiles that read most
    tiles before them first and the tiles that are read by most tiles behind them.

    Example:
    `%begin, %end, %tile, %scale = flamia.work_item %work from_end : memref<?x4xi32>`
  }];
  let arguments = (ins MemRefRankOf<[I32], [2]>:$work, UnitAttr:$from_end);
  let results = (outs Index:$begin, Index:$end, Index:$tile, Index:$scale_base);
  let assemblyFormat = "$work (`from_end` $from_end^)? attr-dict `:` type($work)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

def LoadOp : Flamia_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "reads a tile of a global tensor";
  let description = [{
    The tile starts at `indices` (one for each dimension) and spans the outermost
    dimension (rows) and the innermost one (columns); dimensions between are taken at
    one index. A rank-1 source gives a column vector `1xC`. Rows at or past `limit`
    (default: the source's extent) and columns past the extent read as zero.

    Examples:

    ```mlir
    %v = flamia.load %v_bf16[%row, %head, %c0] limit %end
       : memref<?x?x128xbf16> -> tensor<128x128xbf16>
    %m = flamia.load %m_saved[%row, %head] limit %end : memref<?x?xf32> -> tensor<128x1xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices, Optional<Index>:$limit);
  let results = (outs Flamia_Tile:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` (`limit` $limit^)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def LoadScaledOp : Flamia_Op<"load_scaled", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "reads a quantized tile and its scales";
  let description = [{
    The payload tile is read as by `flamia.load`. Scales come from one or more atoms of
    512 bytes in the 128x4 layout (`scales` is `[tiles, heads, 512]`), at
    `scale_indices` = [tile, head]. `along` says along which axis of this tile the
    scales of one atom row run (the axis a `flamia.dot` contracts):

    - `cols`: atom row = tile row, K block = column / 32
    - `rows`: atom row = tile column, K block = row / 32

    An atom covers 128 operand rows and 4 K blocks. Of a larger tile, K blocks 4i... are in
    the atom `[tile, head + i]` and operand rows 128i... in `[tile + i, head]`.

    NVFP4 (f4E2M1FN by f8E4M3FN) has K blocks of 16 elements, and an array of scales
    `[tiles, heads, atoms, 512]` whose `atoms` are those of one tile: K blocks 4i... are in
    the atom `[tile, head, i]`. A payload `memref<...xDxf4E2M1FN>` lies packed in memory, two
    elements a byte, the one of even column in the low four bits.

    Rows past `limit` read as zero whatever their scale is.

    Examples:

    ```mlir
    %k = flamia.load_scaled %k_data[%row, %head, %c0], %k_scale[%tile, %head] limit %end along cols
       : memref<?x?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU>
      -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
    %k4 = flamia.load_scaled %k_fp4[%row, %head, %c0], %k_fp4_scale[%tile, %head] limit %end along cols
       : memref<?x?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN>
      -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices,
    AnyMemRef:$scales, Variadic<Index>:$scale_indices, Optional<Index>:$limit,
    Flamia_Axis:$along);
  let results = (outs Flamia_Scaled:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` `,` $scales `[` $scale_indices `]` (`limit` $limit^)? `along` $along
    attr-dict `:` type($source) `,` type($scales) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def LoadPayloadOp : Flamia_Op<"load_payload", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "reads a quantized tile with all scales 1";
  let description = [{
    The payload as by `flamia.load_scaled`; there is no array of scales, every one is 2^0.
    The result's scale block is the whole tile. `flamia-fold-scales` makes it where the
    scales of a tile have moved elsewhere.

    Example:

    ```mlir
    %k = flamia.load_payload %k_data[%row, %head, %c0] limit %end
       : memref<?x?x128xf8E4M3FN> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x128>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices, Optional<Index>:$limit);
  let results = (outs Flamia_Scaled:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` (`limit` $limit^)? attr-dict `:` type($source) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def StoreOp : Flamia_Op<"store", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "writes a tile to a global tensor";
  let description = [{
    The tile's place is given as for `flamia.load`. Rows at or past `limit` (default:
    the extent) and columns past the extent are not written.

    Example:

    ```mlir
    flamia.store %o, %out[%row, %head, %c0] limit %end
      : tensor<128x128xbf16>, memref<?x?x128xbf16>
    ```
  }];
  let arguments = (ins Flamia_Tile:$value, AnyMemRef:$target, Variadic<Index>:$indices,
    Optional<Index>:$limit);
  let assemblyFormat = [{
    $value `,` $target `[` $indices `]` (`limit` $limit^)? attr-dict `:` type($value) `,` type($target)
  }];
  let hasVerifier = 1;
}

def StorePayloadOp : Flamia_Op<"store_payload", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "writes the payload of a scaled tile";
  let description = [{
    As `flamia.store`, for the payload elements.

    Example:

    ```mlir
    flamia.store_payload %q, %q_data[%row, %head, %c0] limit %end
      : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>, memref<?x?x128xf8E4M3FN>
    ```
  }];
  let arguments = (ins Flamia_Scaled:$value, AnyMemRef:$target, Variadic<Index>:$indices,
    Optional<Index>:$limit);
  let assemblyFormat = [{
    $value `,` $target `[` $indices `]` (`limit` $limit^)? attr-dict `:` qualified(type($value)) `,` type($target)
  }];
  let hasVerifier = 1;
}

def StoreScalesOp : Flamia_Op<"store_scales", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes the scales of a scaled tile as 128x4 atoms";
  let description = [{
    Layout and `along` as in `flamia.load_scaled`. The whole atom is written: entries that
    stand for no element of the tile, and with `rows n` those of rows at or past `n`
    (relative to the tile), hold the byte 127.

    Example:

    ```mlir
    flamia.store_scales %v, %v_scale[%tile, %head] rows %n along rows
      : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>, memref<?x?x512xf8E8M0FNU>
    ```
  }];
  let arguments = (ins Flamia_Scaled:$value, AnyMemRef:$target, Variadic<Index>:$indices,
    Index:$rows, Flamia_Axis:$along);
  let assemblyFormat = [{
    $value `,` $target `[` $indices `]` `rows` $rows `along` $along attr-dict
    `:` qualified(type($value)) `,` type($target)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def TransposeOp : Flamia_Op<"transpose", [Pure]> {
  let summary = "exchanges rows and columns of a tile";
  let description = [{
    For an operand of `flamia.dot` this is a matter of descriptors and costs nothing;
    other uses are refused by the lowering.

    Example:

    ```mlir
    %kt = flamia.transpose %k : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
       -> !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 64x1>
    ```
  }];
  let arguments = (ins Flamia_Operand:$source);
  let results = (outs Flamia_Operand:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def DotOp : Flamia_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product on logical values, fp32 accumulation";
  let description = [{
    `result[m, n] = acc[m, n] + sum_k a[m, k] * b[k, n]`.

    `a` is MxK, `b` is KxN, both scaled tiles (`kind::mxf8f6f4.block_scale`) or both
    tensors of the same 16-bit type (`kind::f16`). A scaled operand's block must be
    constant over 32 elements along k, or cover them; or be a single element along k
    (token-local scales contracted over tokens), which hardware cannot multiply:
    `flamia-fold-scales` moves such scales elsewhere.

    Example:

    ```mlir
    %s = flamia.dot %q, %kt, %zero
       : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>,
         !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 64x1> -> tensor<128x128xf32>
    ```
  }];
  let arguments = (ins Flamia_Operand:$a, Flamia_Operand:$b, Flamia_F32Tile:$acc);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `->` type($result)";
  let hasVerifier = 1;
}

include "FlamiaScaleOps.td"

//===----------------------------------------------------------------------===//
// Elementwise helpers, masks, reductions
//===----------------------------------------------------------------------===//

def FullOp : Flamia_Op<"full", [Pure,
    TypesMatchWith<"value type equals the element type of the result", "result", "value",
                   "::llvm::cast<::mlir::RankedTensorType>($_self).getElementType()">]> {
  let summary = "a tile with every element equal to a scalar";
  let description = [{
    Unlike a constant it may have extents that `flamia-specialize` binds later.

    Example: `%zero = flamia.full %c0 : tensor<128x?xf32>`
  }];
  let arguments = (ins AnyTypeOf<[F32, BF16, F16, I1]>:$value);
  let results = (outs Flamia_Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def BroadcastOp : Flamia_Op<"broadcast", [Pure]> {
  let summary = "repeats a row vector over columns, or a column vector over rows";
  let description = [{
    Examples:

    ```mlir
    %a = flamia.broadcast %alpha : tensor<128x1xf32> -> tensor<128x64xf32>
    %b = flamia.broadcast %bias : tensor<1x64xf32> -> tensor<128x64xf32>
    ```
  }];
  let arguments = (ins Flamia_Tile:$source);
  let results = (outs Flamia_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def ReduceOp : Flamia_Op<"reduce", [Pure]> {
  let summary = "reduces each row of a tile to one value";
  let description = [{
    `max` and `absmax` ignore NaN (a row of NaNs gives NaN). `sum` adds in a fixed order:
    eight partial sums over columns c, c + 8, c + 16, ..., then
    `((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7))`; tiles of fewer than 8 columns are
    added from left to right.

    Example: `%m = flamia.reduce max %s : tensor<128x128xf32> -> tensor<128x1xf32>`
  }];
  let arguments = (ins Flamia_ReduceKind:$kind, Flamia_F32Tile:$source);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = "$kind $source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def MaskOp : Flamia_Op<"mask", [AttrSizedOperandSegments, Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "sets scores that a query may not see to -inf or 0";
  let description = [{
    Row r of the tile is query `q = rows + r`, column c is key `k = cols + c` (token
    indices on one axis); with `transposed` row r is key `k = rows + r` and column c is
    query `q = cols + c`. An element is kept where every given condition holds:

    - `causal`: k <= q
    - `limit n`: the column's token is less than n
    - `window w`: q - k <= w

    All other elements become -inf, or 0 with `zero`, whatever they hold.

    Examples:

    ```mlir
    %x = flamia.mask %s rows %q0 cols %k0 causal limit %end : tensor<128x128xf32>
    %ds = flamia.mask %t rows %k0 cols %q0 transposed causal limit %end zero : tensor<128x128xf32>
    ```
  }];
  let arguments = (ins Flamia_F32Tile:$source, Index:$rows, Index:$cols,
    UnitAttr:$transposed, UnitAttr:$causal, Optional<Index>:$limit,
    Optional<Index>:$window, UnitAttr:$zero);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = [{
    $source `rows` $rows `cols` $cols (`transposed` $transposed^)? (`causal` $causal^)?
    (`limit` $limit^)? (`window` $window^)? (`zero` $zero^)? attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Exp2Op : Flamia_Op<"exp2", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "2^x, in some blocks of 32 x 32 elements by a polynomial";
  let description = [{
    Element (r, c) of the tile is element (rows + r, cols + c) of a matrix of scores; both
    counts begin with a document's first token and are multiples of 32. Block (i, j) of 32 x
    32 elements of that matrix is computed by the polynomial of docs/numerics.md, bit for bit,
    if `(i + j) * blocks mod of < blocks`; all others by the hardware's 2^x, as `math.exp2`
    is. `of` is a power of two up to 32. It does not matter which axis holds the queries.

    `flamia-emulate-exp2` makes it of `math.exp2`.

    Example:

    ```mlir
    %p = flamia.exp2 %x rows %i cols %j polynomial 1 of 4 : tensor<128x128xf32>
    ```
  }];
  let arguments = (ins Flamia_F32Tile:$source, Index:$rows, Index:$cols,
    I64Attr:$blocks, I64Attr:$of);
  let results = (outs Flamia_F32Tile:$result);
  let assemblyFormat = [{
    $source `rows` $rows `cols` $cols `polynomial` $blocks `of` $of attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

#endif // FLAMIA_OPS
