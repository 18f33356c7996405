//===- TcgenOps.td - Operations of the Tcgen dialect ----------*- tablegen -*-===//

#ifndef TCGEN_OPS
#define TCGEN_OPS

include "TcgenEnums.td"
include "TcgenTypes.td"
include "dialects/Flamia/FlamiaTypes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

class Tcgen_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tcgen_Dialect, mnemonic, traits>;

/// Stands directly in a kernel's body.
def TopLevel : HasParent<"::flamia::KernelOp">;

//===----------------------------------------------------------------------===//
// Memory and channels
//===----------------------------------------------------------------------===//

def AllocOp : Tcgen_Op<"alloc", [TopLevel]> {
  let summary = "reserves a ring of tiles in shared or tensor memory";
  let description = [{
    Top level of a kernel only. `offset` (bytes of dynamic shared memory, or tensor memory
    columns) is set by `flamia-allocate-memory`, or given and then verified. Slot i starts at
    `offset + i * slot size`.

    Example: `%k = tcgen.alloc : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>`
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Res<Tcgen_BufferType, "", [MemAlloc]>:$result);
  let assemblyFormat = "(`offset` $offset^)? attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def FillScalesOp : Tcgen_Op<"fill_scales", [MemoryEffects<[MemWrite]>]> {
  let summary = "sets constant scale factors";
  let description = [{
    Writes the byte to all scales of all slots of a tensor memory scales buffer
    (`tcgen05.st`): at the top level of a kernel in its prologue, by the first four warps; in
    a role of 4 warps where it stands, each warp its lanes, for others to see after
    `tcgen.publish`.

    Example: `tcgen.fill_scales %ones byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>`
  }];
  let arguments = (ins Tcgen_BufferType:$buffer, I64Attr:$byte);
  let assemblyFormat = "$buffer `byte` $byte attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def ChannelOp : Tcgen_Op<"channel", [TopLevel]> {
  let summary = "a ring of mbarrier pairs";
  let description = [{
    Top level of a kernel only. `full` and `empty` are the arrivals that complete a phase of the
    full and the empty barriers (a thread agent arrives once a warp, an `mma` or TMA agent once):
    1 to 64 of each, 1 to 8192 slots. `flamia-allocate-memory` checks that they are what the roles do.

    Example: `%ch = tcgen.channel slots 2 full 1 empty 4`
  }];
  let arguments = (ins I64Attr:$slots, I64Attr:$full, I64Attr:$empty);
  let results = (outs Res<Tcgen_ChannelType, "", [MemAlloc]>:$result);
  let assemblyFormat = "`slots` $slots `full` $full `empty` $empty attr-dict";
  let hasVerifier = 1;
}

def RoleOp : Tcgen_Op<"role", [TopLevel, SingleBlock, NoTerminator]> {
  let summary = "what one group of warps does";
  let description = [{
    Roles run concurrently from the kernel's start to its end. Warps are numbered in the
    order of the roles; a role with vector code (anything on tiles) has 4 warps, numbered from a
    multiple of 4 on, so that warp w
    owns tensor memory lanes 32w .. 32w+31 and its thread t is tile row 32w + t. With 4n
    warps it is n warpgroups that do the same, each with its columns of the tiles
    (`tcgen.group`, `tcgen.part`); such a role issues no products or copies. A channel's
    arrivals are those of all its warps.

    Example:

    ```mlir
    tcgen.role "load" warps 1 {
      %slot = tcgen.acquire %ch
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$warps);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `warps` $warps attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def GroupOp : Tcgen_Op<"group", [Pure]> {
  let summary = "the number of the thread's warpgroup in its role";
  let description = [{
    0 in a role of 4 warps; 0 or 1 in one of 8.

    Example: `%g = tcgen.group`
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def PartOp : Tcgen_Op<"part", [Pure]> {
  let summary = "some columns of a buffer, as a buffer";
  let description = [{
    The columns of each slot from `first` on, a multiple of the part's columns. Rows in
    tensor memory, lines and scales in shared memory have parts; of scales, whose columns are
    blocks, one or two of the four of an atom. Only vector code works on parts.

    Example:

    ```mlir
    %mine = tcgen.part %s from %col
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    ```
  }];
  let arguments = (ins Tcgen_BufferType:$buffer, Index:$first);
  let results = (outs Tcgen_BufferType:$result);
  let assemblyFormat = [{
    $buffer `from` $first attr-dict `:` qualified(type($buffer)) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def AcquireOp : Tcgen_Op<"acquire", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the producer may fill the channel's next slot";
  let description = [{
    Returns the slot's index and advances the producer's end. The first pass over the ring
    does not wait.

    Example: `%slot = tcgen.acquire %ch`
  }];
  let arguments = (ins Tcgen_ChannelType:$channel);
  let results = (outs Index:$slot);
  let assemblyFormat = "$channel attr-dict";
}

def DrainedOp : Tcgen_Op<"drained", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the channel's next slot is free, without taking it";
  let description = [{
    For the channel's producer, which may put something else where the slot's content was
    until it acquires the slot: the scales of one product, for instance, into another one's
    result. What was never filled is free.

    Example: `tcgen.drained %ch`
  }];
  let arguments = (ins Tcgen_ChannelType:$channel);
  let assemblyFormat = "$channel attr-dict";
}

def ExpectOp : Tcgen_Op<"expect", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrives on a slot's full barrier and announces the bytes that TMA will write";
  let description = [{
    `mbarrier.arrive.expect_tx`, by one thread of the role, before the loads are issued.

    Example: `tcgen.expect %ch[%slot] bytes 16896`
  }];
  let arguments = (ins Tcgen_ChannelType:$channel, Index:$slot, I64Attr:$bytes);
  let assemblyFormat = "$channel `[` $slot `]` `bytes` $bytes attr-dict";
  let hasVerifier = 1;
}

def PublishOp : Tcgen_Op<"publish", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "signals that a slot is full";
  let description = [{
    `threads`: one arrival a warp, after the fences that make the role's earlier writes visible
    (`tcgen05.wait::st` and `tcgen05.fence::before_thread_sync`; `fence.proxy.async` for shared
    memory). `mma`: `tcgen05.commit`, so the signal follows all products issued so far; with
    none in flight it comes at once. A producer whose turn another channel makes sure of
    publishes without `tcgen.acquire`.

    Example: `tcgen.publish %ch[%slot] by mma`
  }];
  let arguments = (ins Tcgen_ChannelType:$channel, Index:$slot, Tcgen_Agent:$agent);
  let assemblyFormat = "$channel `[` $slot `]` `by` $agent attr-dict";
}

def WaitOp : Tcgen_Op<"wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the channel's next slot is full";
  let description = [{
    Returns the slot's index and advances the consumer's end. `tcgen05.fence::after_thread_sync`
    is implied. Each role that waits for a channel has an end of its own.

    Example: `%slot = tcgen.wait %ch`
  }];
  let arguments = (ins Tcgen_ChannelType:$channel);
  let results = (outs Index:$slot);
  let assemblyFormat = "$channel attr-dict";
}

def ReleaseOp : Tcgen_Op<"release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "signals that a slot may be filled again";
  let description = [{
    Agents as for `tcgen.publish` (`threads`: after `tcgen05.wait::ld`).

    Example: `tcgen.release %ch[%slot] by threads`
  }];
  let arguments = (ins Tcgen_ChannelType:$channel, Index:$slot, Tcgen_Agent:$agent);
  let assemblyFormat = "$channel `[` $slot `]` `by` $agent attr-dict";
}

def DrainOp : Tcgen_Op<"drain", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until all products and copies this role issued are complete";
  let description = [{
    At the end of a role that issues products: no commit may arrive on a barrier of a CTA that
    has exited.

    Example: `tcgen.drain`
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

def TmaLoadOp : Tcgen_Op<"tma_load", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "loads a tile into a slot by tensor map";
  let description = [{
    `cp.async.bulk.tensor` through a ragged tensor map that clips at `limit` rows (default: the
    extent), one box a slab, signalled on slot `slot` of the channel. Indices as `flamia.load`.

    Example:

    ```mlir
    tcgen.tma_load %q[%row, %head, %c0] limit %end, %buf[%slot] signals %ch
      : memref<?x?x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices, Optional<Index>:$limit,
    Tcgen_BufferType:$buffer, Index:$slot, Tcgen_ChannelType:$channel);
  let assemblyFormat = [{
    $source `[` $indices `]` (`limit` $limit^)? `,` $buffer `[` $slot `]` `signals` $channel attr-dict
    `:` type($source) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def BulkLoadOp : Tcgen_Op<"bulk_load", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "loads scale atoms or a row into a slot";
  let description = [{
    `cp.async.bulk` of all atoms of the slot from `source[indices]` on (`[tiles, heads, 512]`;
    f8E4M3FN: `[tiles, heads, atoms, 512]`), or of the row `source[indices]` into a line. What is
    loaded must lie inside the tensor.

    Example:

    ```mlir
    tcgen.bulk_load %q_scale[%tile, %head], %buf[%slot] signals %ch
      : memref<?x?x512xf8E8M0FNU>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
    tcgen.bulk_load %bias[%tile, %head], %line[%slot] signals %ch
      : memref<?x?x128xf32>, !tcgen.buffer<smem, line, 1 x 1x128xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices,
    Tcgen_BufferType:$buffer, Index:$slot, Tcgen_ChannelType:$channel);
  let assemblyFormat = [{
    $source `[` $indices `]` `,` $buffer `[` $slot `]` `signals` $channel attr-dict
    `:` type($source) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def CopyScalesOp : Tcgen_Op<"copy_scales", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies scale atoms from shared to tensor memory";
  let description = [{
    `tcgen05.cp.32x128b.warpx4`, one an atom; asynchronous, in order before later products of
    the same role.

    Example:

    ```mlir
    tcgen.copy_scales %smem[%slot], %tmem[%c0]
      : !tcgen.buffer<smem, scales, 2 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    ```
  }];
  let arguments = (ins Tcgen_BufferType:$source, Index:$source_slot,
    Tcgen_BufferType:$target, Index:$target_slot);
  let assemblyFormat = [{
    $source `[` $source_slot `]` `,` $target `[` $target_slot `]` attr-dict
    `:` qualified(type($source)) `,` qualified(type($target))
  }];
  let hasVerifier = 1;
}

def CopyOperandOp : Tcgen_Op<"copy_operand", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies an operand image from shared memory to rows of tensor memory";
  let description = [{
    `tcgen05.cp.128x256b`, one for 32 bytes of all 128 rows; asynchronous, in order before later
    products of the same role. The rows are packed, as the `a` of a product has them there.

    Example:

    ```mlir
    tcgen.copy_operand %q[%slot], %qt[%c0]
      : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
    ```
  }];
  let arguments = (ins Tcgen_BufferType:$source, Index:$source_slot,
    Tcgen_BufferType:$target, Index:$target_slot);
  let assemblyFormat = [{
    $source `[` $source_slot `]` `,` $target `[` $target_slot `]` attr-dict
    `:` qualified(type($source)) `,` qualified(type($target))
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def MmaOp : Tcgen_Op<"mma", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "issues a tile product";
  let description = [{
    `d = (accumulate ? d : 0) + a * b`, one `tcgen05.mma` a K step of 32 bytes, issued by one
    thread, asynchronous. `a` is an operand image in shared memory, contracted along its columns
    (MxK) or, with `a_major mn`, its rows (KxM), or packed rows in tensor memory; `b` an operand
    image, contracted along its columns (`major k`: NxK) or rows (`mn`: KxN). With scales: `kind::mxf8f6f4.block_scale` on 8-bit elements,
    `kind::mxf4nvf4.block_scale.block16` on f4E2M1FN (both in shared memory, contracted along
    columns, scales f8E4M3FN); without: `kind::f16`.

    Example:

    ```mlir
    tcgen.mma %s4[%c0], %q4[%i], %k4[%j] scales %sq4[%c0], %sk4[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>,
        !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>,
        !tcgen.buffer<smem, operand, 2 x 128x128xf4E2M1FN>,
        !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>,
        !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
    tcgen.mma %s[%c0], %q[%i], %k[%j] scales %sq[%c0], %sk[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>,
        !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>,
        !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>,
        !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>,
        !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    ```
  }];
  let arguments = (ins Tcgen_BufferType:$d, Index:$d_slot, Tcgen_BufferType:$a, Index:$a_slot,
    Tcgen_BufferType:$b, Index:$b_slot,
    Optional<Tcgen_BufferType>:$a_scales, Optional<Index>:$a_scales_slot,
    Optional<Tcgen_BufferType>:$b_scales, Optional<Index>:$b_scales_slot,
    I1:$accumulate, Tcgen_Major:$major,
    DefaultValuedAttr<Tcgen_Major, "::flamia::tcgen::Major::K">:$a_major);
  let assemblyFormat = [{
    $d `[` $d_slot `]` `,` $a `[` $a_slot `]` `,` $b `[` $b_slot `]`
    (`scales` $a_scales^ `[` $a_scales_slot `]` `,` $b_scales `[` $b_scales_slot `]`)?
    `major` $major (`a_major` $a_major^)? `accumulate` $accumulate attr-dict
    `:` qualified(type($d)) `,` qualified(type($a)) `,` qualified(type($b))
    (`,` qualified(type($a_scales))^ `,` qualified(type($b_scales)))?
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Vector side: one row a thread, in roles of whole warpgroups
//===----------------------------------------------------------------------===//

def ReadOp : Tcgen_Op<"read", [MemoryEffects<[MemRead]>]> {
  let summary = "reads a tile from a slot into registers";
  let description = [{
    `tcgen05.ld.32x32b` and `wait::ld` (tmem), or `ld.shared` of the swizzled row or of the line
    that all threads read (smem). With `col` the tile is that of the columns from there on.

    Examples:

    ```mlir
    %t = tcgen.read %s[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    %u = tcgen.read %s[%c0] col 32 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x32xf32>
    %b = tcgen.read %line[%c0] : !tcgen.buffer<smem, line, 1 x 1x128xf32> -> tensor<1x128xf32>
    ```
  }];
  let arguments = (ins Tcgen_BufferType:$buffer, Index:$slot, DefaultValuedAttr<I64Attr, "0">:$col);
  let results = (outs Flamia_Tile:$result);
  let assemblyFormat = [{
    $buffer `[` $slot `]` (`col` $col^)? attr-dict `:` qualified(type($buffer)) `->` type($result)
  }];
  let hasVerifier = 1;
}

def ReadMaxOp : Tcgen_Op<"read_max", [MemoryEffects<[MemRead]>]> {
  let summary = "reads a tile from tensor memory and the maximum of each row";
  let description = [{
    `tcgen05.ld.red.32x32b.max`, which sm_103a has. As `tcgen.read` and `flamia.reduce max`.
    Whole tiles of f32, of a multiple of 32 columns.

    Example:

    ```mlir
    %t, %m = tcgen.read_max %s[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
    ```
  }];
  let arguments = (ins Tcgen_BufferType:$buffer, Index:$slot);
  let results = (outs Flamia_Tile:$result, Flamia_Tile:$max);
  let assemblyFormat = [{
    $buffer `[` $slot `]` attr-dict `:` qualified(type($buffer)) `->` type($result) `,` type($max)
  }];
  let hasVerifier = 1;
}

def Tcgen_Value : AnyTypeOf<[Flamia_Tile, Flamia_Scaled], "tile">;

def SliceOp : Tcgen_Op<"slice", [Pure]> {
  let summary = "some columns of a tile in registers";
  let description = [{
    The columns from `col` on. Costs nothing: each thread holds its whole row. A scaled tile is
    cut between scale blocks.

    Example: `%u = tcgen.slice %t col 32 : tensor<128x128xf32> -> tensor<128x32xf32>`
  }];
  let arguments = (ins Tcgen_Value:$source, I64Attr:$col);
  let results = (outs Tcgen_Value:$result);
  let assemblyFormat = "$source `col` $col attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def JoinOp : Tcgen_Op<"join", [Pure]> {
  let summary = "tiles in registers side by side";
  let description = [{
    One tile of the sources' columns in order. Costs nothing.

    Example:

    ```mlir
    %t = tcgen.join %a, %b : tensor<128x32xf32>, tensor<128x32xf32> -> tensor<128x64xf32>
    ```
  }];
  let arguments = (ins Variadic<Tcgen_Value>:$sources);
  let results = (outs Tcgen_Value:$result);
  let assemblyFormat = "$sources attr-dict `:` type($sources) `->` type($result)";
  let hasVerifier = 1;
}

def AnyDiffersOp : Tcgen_Op<"any_differs", [Pure]> {
  let summary = "whether a row vector differs from a constant in any row of the warp";
  let description = [{
    `vote.sync.any`: the same for all threads of a warp, but not for all warps of the role. So
    only what each warp does for its own rows may depend on it. NaN differs from everything.

    Example: `%b = tcgen.any_differs %alpha from 1.000000e+00 : tensor<128x1xf32>`
  }];
  let arguments = (ins Flamia_Tile:$row, F32Attr:$value);
  let results = (outs I1:$result);
  let assemblyFormat = "$row `from` $value attr-dict `:` type($row)";
  let hasVerifier = 1;
}

def WriteOp : Tcgen_Op<"write", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a tile, or a scaled tile's payload, from registers into a slot";
  let description = [{
    `tcgen05.st.32x32b` (tmem) or `st.shared` into the swizzled row (smem). Visible to later
    reads of the same role at once, to others after `tcgen.publish`. With `col` only the
    columns from there on are written.

    Example:

    ```mlir
    tcgen.write %p8, %p[%c0] : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>,
      !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
    ```
  }];
  let arguments = (ins Flamia_Operand:$value, Tcgen_BufferType:$buffer, Index:$slot,
    DefaultValuedAttr<I64Attr, "0">:$col);
  let assemblyFormat = [{
    $value `,` $buffer `[` $slot `]` (`col` $col^)? attr-dict `:` type($value) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def WriteScalesOp : Tcgen_Op<"write_scales", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a scaled tile's scales as atoms into shared memory";
  let description = [{
    `along` as in `flamia.load_scaled`: `cols` for an operand contracted along its columns (each
    thread writes its own row's bytes), `rows` along its rows.

    Example:

    ```mlir
    tcgen.write_scales %h8, %sf[%slot] along cols
      : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>,
        !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
    ```
  }];
  let arguments = (ins Flamia_Scaled:$value, Tcgen_BufferType:$buffer, Index:$slot, Flamia_Axis:$along);
  let assemblyFormat = [{
    $value `,` $buffer `[` $slot `]` `along` $along attr-dict `:` qualified(type($value)) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

#endif // TCGEN_OPS
