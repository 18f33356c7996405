//===- TcgenTypes.td - Types of the Tcgen dialect -------------*- tablegen -*-===//

#ifndef TCGEN_TYPES
#define TCGEN_TYPES

include "TcgenDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Tcgen_BufferType : TypeDef<Tcgen_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a ring of equal tiles in shared or tensor memory";
  let description = [{
    `!tcgen.buffer<SPACE, LAYOUT, SLOTS x ROWSxCOLSxELEMENT>`. One slot holds:

    | space, layout | contents of a slot | size of a slot |
    |---|---|---|
    | smem, operand | the tile as TMA writes it: slabs of `span` = min(128, row bytes) bytes a row, swizzled by span, slab k at k * rows * span | rows * row bytes |
    | smem, scales | 128x4 scale atoms of 512 bytes; ROWS x COLS counts scales: ROWS operand rows (padded to 128), COLS blocks of 32 elements (NVFP4: 16; padded to 4); atom (i, j) of row group i and block group j at 512 * (j * ceil(ROWS/128) + i) | 512 * ceil(ROWS/128) * ceil(COLS/4) bytes |
    | smem, line | one row of whole 16 bytes as it lies in global memory; every thread of a role may read it | row bytes |
    | tmem, lanes | row = lane, 32-bit accumulators or packed operand A elements | COLS * element bits / 32 columns |
    | tmem, scales | each atom as `tcgen05.cp.32x128b.warpx4` leaves it | 4 columns an atom, same order |
  }];
  let parameters = (ins "::flamia::tcgen::Space":$space, "::flamia::tcgen::Layout":$layout,
    "int64_t":$slots, "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes (smem) or 32-bit columns (tmem) of one slot.
    int64_t getSlotSize() const;
    /// Bytes of one row inside a slab of a swizzled operand image: 32, 64 or 128.
    int64_t getSpanBytes() const;
    /// Slabs of an operand image.
    int64_t getNumSlabs() const;
    /// 512-byte atoms of a scales buffer's slot.
    int64_t getNumAtoms() const;
  }];
}

def Tcgen_ChannelType : TypeDef<Tcgen_Dialect, "Channel"> {
  let mnemonic = "channel";
  let summary = "a ring of full and empty mbarriers";
}

#endif // TCGEN_TYPES
