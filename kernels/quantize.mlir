// Quantizers of BF16 operands: one read, payload and every scale layout out. One work
// item is a tile of 128 tokens of one document and head, so scales never cross a
// document's edge. Inputs may have strides: [T, H, D] is read out of
// [T, 3, H, D] or of padded rows as it lies. Formats and layouts: README.md.

!input = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!tile = tensor<128x?xf32>
!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
!block = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x32>
!fp4 = !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>
!codes = memref<?x?x?xf4E2M1FN>
!atoms = memref<?x?x?x512xf8E4M3FN>

// Q and K: rotated, then one scale per token.
flamia.kernel @quantize_token_local(
    %x: !input {flamia.dims = ["tokens", "heads", "head_dim"]}, %work: memref<?x4xi32>,
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
  %bf16 = flamia.load %x[%row, %head, %c0] limit %end : !input -> tensor<128x?xbf16>
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
    %x: !input {flamia.dims = ["tokens", "heads", "head_dim"]}, %work: memref<?x4xi32>,
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
  %bf16 = flamia.load %x[%row, %head, %c0] limit %end : !input -> tensor<128x?xbf16>
  %value = arith.extf %bf16 : tensor<128x?xbf16> to !tile
  %v = flamia.quantize %value rows %rows : !tile -> !block
  flamia.store_payload %v, %data[%row, %head, %c0] limit %end : !block, memref<?x?x?xf8E4M3FN>
  flamia.store_scales %v, %scale_rows[%scale_tile, %head] rows %rows along rows : !block, memref<?x?x512xf8E8M0FNU>
  flamia.store_scales %v, %scale_cols[%scale_tile, %head] rows %rows along cols : !block, memref<?x?x512xf8E8M0FNU>
  flamia.return
}

// Q, K and V in one launch, each read once. Along y the grid deals out heads: a
// CTA has two query heads and its share of the key and value heads, so that with
// fewer of these some CTAs have none. One loop after the other keeps loads in
// flight (bench/h200/README.md compares shares of 1, 2 and 4). Format nvfp4 adds
// E2M1 copies of Q and K, for scores, from the same rotation.
flamia.kernel @quantize_qkv(
    %q: !input {flamia.dims = ["tokens", "heads", "head_dim"]},
    %k: !input {flamia.dims = ["tokens", "kv_heads", "head_dim"]},
    %v: !input {flamia.dims = ["tokens", "kv_heads", "head_dim"]}, %work: memref<?x4xi32>,
    %q_global_scale: f32 {flamia.only = {format = "nvfp4"}}, %k_global_scale: f32 {flamia.only = {format = "nvfp4"}},
    %q_data: memref<?x?x?xf8E4M3FN> {flamia.workspace, flamia.dims = ["tokens", "heads", "head_dim"], flamia.depends = {q = "<="}},
    %q_scale: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "heads", "atom"]},
    %q_fp4: !codes {flamia.only = {format = "nvfp4"}, flamia.workspace, flamia.dims = ["tokens", "heads", "head_dim"], flamia.depends = {q = "<="}},
    %q_fp4_scale: !atoms {flamia.only = {format = "nvfp4"}, flamia.workspace, flamia.dims = ["scale_tiles", "heads", "fp4_atoms", "atom"]},
    %k_data: memref<?x?x?xf8E4M3FN> {flamia.workspace, flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.depends = {k = "<="}},
    %k_scale: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "kv_heads", "atom"]},
    %k_fp4: !codes {flamia.only = {format = "nvfp4"}, flamia.workspace, flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.depends = {k = "<="}},
    %k_fp4_scale: !atoms {flamia.only = {format = "nvfp4"}, flamia.workspace, flamia.dims = ["scale_tiles", "kv_heads", "fp4_atoms", "atom"]},
    %v_data: memref<?x?x?xf8E4M3FN> {flamia.workspace, flamia.dims = ["tokens", "kv_heads", "head_dim"]},
    %v_scale_rows: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "kv_heads", "atom"]},
    %v_scale_cols: memref<?x?x512xf8E8M0FNU> {flamia.workspace, flamia.dims = ["scale_tiles", "kv_heads", "atom"]})
    parameters {head_dim = [128, 64], format = ["mxfp8", "nvfp4"]}
    grid(work[0], q[1] ceildiv 2) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %nvfp4 = flamia.param "format" is "nvfp4" : i1
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %rows = arith.subi %end, %row : index
  %scale_tile = arith.addi %scale_base, %tile : index

  %share = flamia.program_id y
  %next_share = arith.addi %share, %c1 : index
  %heads_a_share = arith.constant 2 : index
  %heads = flamia.dim %q[1] : !input
  %kv_heads = flamia.dim %k[1] : !input
  %shares = arith.ceildivui %heads, %heads_a_share : index
  %first_head = arith.muli %share, %heads_a_share : index
  %past_head = arith.muli %next_share, %heads_a_share : index
  %end_head = arith.minui %past_head, %heads : index
  %kv_before = arith.muli %share, %kv_heads : index
  %kv_through = arith.muli %next_share, %kv_heads : index
  %first_kv_head = arith.divui %kv_before, %shares : index
  %end_kv_head = arith.divui %kv_through, %shares : index

  scf.for %head = %first_head to %end_head step %c1 {
    %bf16 = flamia.load %q[%row, %head, %c0] limit %end : !input -> tensor<128x?xbf16>
    %plain = arith.extf %bf16 : tensor<128x?xbf16> to !tile
    %rotated = flamia.hadamard %plain : !tile
    %quantized = flamia.quantize %rotated : !tile -> !local
    scf.if %nvfp4 {
      %codes = flamia.quantize %rotated global_scale %q_global_scale : !tile -> !fp4
      flamia.store_payload %codes, %q_fp4[%row, %head, %c0] limit %end : !fp4, !codes
      flamia.store_scales %codes, %q_fp4_scale[%scale_tile, %head] rows %rows along cols : !fp4, !atoms
    }
    flamia.store_payload %quantized, %q_data[%row, %head, %c0] limit %end : !local, memref<?x?x?xf8E4M3FN>
    flamia.store_scales %quantized, %q_scale[%scale_tile, %head] rows %rows along cols : !local, memref<?x?x512xf8E8M0FNU>
  }
  scf.for %head = %first_kv_head to %end_kv_head step %c1 {
    %bf16 = flamia.load %k[%row, %head, %c0] limit %end : !input -> tensor<128x?xbf16>
    %plain = arith.extf %bf16 : tensor<128x?xbf16> to !tile
    %rotated = flamia.hadamard %plain : !tile
    %quantized = flamia.quantize %rotated : !tile -> !local
    scf.if %nvfp4 {
      %codes = flamia.quantize %rotated global_scale %k_global_scale : !tile -> !fp4
      flamia.store_payload %codes, %k_fp4[%row, %head, %c0] limit %end : !fp4, !codes
      flamia.store_scales %codes, %k_fp4_scale[%scale_tile, %head] rows %rows along cols : !fp4, !atoms
    }
    flamia.store_payload %quantized, %k_data[%row, %head, %c0] limit %end : !local, memref<?x?x?xf8E4M3FN>
    flamia.store_scales %quantized, %k_scale[%scale_tile, %head] rows %rows along cols : !local, memref<?x?x512xf8E8M0FNU>
  }
  scf.for %head = %first_kv_head to %end_kv_head step %c1 {
    %bf16 = flamia.load %v[%row, %head, %c0] limit %end : !input -> tensor<128x?xbf16>
    %value = arith.extf %bf16 : tensor<128x?xbf16> to !tile
    %quantized = flamia.quantize %value : !tile -> !block
    flamia.store_payload %quantized, %v_data[%row, %head, %c0] limit %end : !block, memref<?x?x?xf8E4M3FN>
    flamia.store_scales %quantized, %v_scale_rows[%scale_tile, %head] rows %rows along rows : !block, memref<?x?x512xf8E8M0FNU>
    flamia.store_scales %quantized, %v_scale_cols[%scale_tile, %head] rows %rows along cols : !block, memref<?x?x512xf8E8M0FNU>
  }
  flamia.return
}
