// Quantizers of BF16 operands: one read, payload and every scale layout out. One work
// item is a tile of 128 tokens of one document and head, so scales never cross a
// document's edge. Formats and layouts: README.md.

!tile = tensor<128x?xf32>
!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
!block = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x32>

// Q and K: rotated, then one scale per token.
flamia.kernel @quantize_token_local(
    %x: memref<?x?x?xbf16> {flamia.dims = ["tokens", "heads", "head_dim"]}, %work: memref<?x4xi32>,
    %data: memref<?x?x?xf8E4M3FN> {flamia.workspace, flamia.dims = ["tokens", "heads", "head_dim"], flamia.depends = {x = "<="}},
    %scale: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "heads", "atom"]})
    parameters {head_dim = [128, 64], rotate = ["hadamard", "none"]}
    grid(work[0], x[1]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %rotate = flamia.param "rotate" is "hadamard" : i1
  %head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %rows = arith.subi %end, %row : index
  %scale_tile = arith.addi %scale_base, %tile : index
  %bf16 = flamia.load %x[%row, %head, %c0] limit %end : memref<?x?x?xbf16> -> tensor<128x?xbf16>
  %plain = arith.extf %bf16 : tensor<128x?xbf16> to !tile
  %rotated = flamia.hadamard %plain : !tile
  %value = arith.select %rotate, %rotated, %plain : !tile
  %q = flamia.quantize %value rows %rows : !tile -> !local
  flamia.store_payload %q, %data[%row, %head, %c0] limit %end : !local, memref<?x?x?xf8E4M3FN>
  flamia.store_scales %q, %scale[%scale_tile, %head] rows %rows along cols : !local, memref<?x?x512xf8E8M0FNU>
  flamia.return
}

// V: one scale per 32 tokens and 32 channels, for products along either.
flamia.kernel @quantize_token_block(
    %x: memref<?x?x?xbf16> {flamia.dims = ["tokens", "heads", "head_dim"]}, %work: memref<?x4xi32>,
    %data: memref<?x?x?xf8E4M3FN> {flamia.workspace, flamia.dims = ["tokens", "heads", "head_dim"]},
    %scale_rows: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "heads", "atom"]},
    %scale_cols: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "heads", "atom"]})
    parameters {head_dim = [128, 64]}
    grid(work[0], x[1]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %rows = arith.subi %end, %row : index
  %scale_tile = arith.addi %scale_base, %tile : index
  %bf16 = flamia.load %x[%row, %head, %c0] limit %end : memref<?x?x?xbf16> -> tensor<128x?xbf16>
  %value = arith.extf %bf16 : tensor<128x?xbf16> to !tile
  %v = flamia.quantize %value rows %rows : !tile -> !block
  flamia.store_payload %v, %data[%row, %head, %c0] limit %end : !block, memref<?x?x?xf8E4M3FN>
  flamia.store_scales %v, %scale_rows[%scale_tile, %head] rows %rows along rows : !block, memref<?x?x512xf8E8M0FNU>
  flamia.store_scales %v, %scale_cols[%scale_tile, %head] rows %rows along cols : !block, memref<?x?x512xf8E8M0FNU>
  flamia.return
}
