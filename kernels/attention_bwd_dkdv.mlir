// Microscaled attention, backward: dK and dV. One work item is a tile of 128 keys of one
// document and kv head; it runs over the query heads of its group and in each over the
// query tiles from the diagonal upwards. Keys are the rows of every tile. All values are
// logical, as in attention_bwd_dq.mlir. With nvfp4 the scores come from E2M1 operands, dK
// from Q's E4M3 copy. Shapes: README.md. Numerics: docs/numerics.md.
//
//   P^T = 2^(s - m)^T   dV = P^T dO'   dS^T = P^T (V dO'^T - D'^T)   dK = scale * dS^T Q

!scores = tensor<128x128xf32>
!row = tensor<128x1xf32>
!line = tensor<1x128xf32>
!out = tensor<128x?xf32>
!data = memref<?x?x?xf8E4M3FN>
!scale = memref<?x?x512xf8E8M0FNU>
!data4 = memref<?x?x?xf4E2M1FN>
!scale4 = memref<?x?x?x512xf8E4M3FN>
!bf16 = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!vector = memref<?x?xf32>
!lines = memref<?x?x128xf32>
!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
!localT = !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per ?x1>
!local4 = !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>
!local4T = !flamia.scaled<?x128, f4E2M1FN by f8E4M3FN per 16x1>
!block = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x32>
!weights = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

flamia.kernel @attention_bwd_dkdv(
    %q_data: !data {flamia.dims = ["tokens", "heads", "head_dim"]}, %q_scale: !scale {flamia.dims = ["tiles", "heads", "atom"]},
    %k_data: !data {flamia.dims = ["tokens", "kv_heads", "head_dim"]}, %k_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"]},
    %q_fp4: !data4 {flamia.dims = ["tokens", "heads", "head_dim"], flamia.only = {format = "nvfp4"}},
    %q_fp4_scale: !scale4 {flamia.dims = ["tiles", "heads", "atoms", "atom"], flamia.only = {format = "nvfp4"}},
    %k_fp4: !data4 {flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.only = {format = "nvfp4"}},
    %k_fp4_scale: !scale4 {flamia.dims = ["tiles", "kv_heads", "atoms", "atom"], flamia.only = {format = "nvfp4"}},
    %v_data: !data {flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.original = "v_bf16"},
    %v_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"]}, %v_bf16: !bf16 {flamia.dims = ["tokens", "kv_heads", "head_dim"]},
    %do_data: !data {flamia.dims = ["tokens", "heads", "head_dim"], flamia.original = "do", flamia.original_factor = "r"},
    %do_scale: !scale {flamia.dims = ["tiles", "heads", "atom"]}, %do: !bf16 {flamia.dims = ["tokens", "heads", "head_dim"]},
    %r: !vector {flamia.dims = ["tokens", "heads"], flamia.derived_from = "q_data"},
    %m: !vector {flamia.dims = ["tokens", "heads"], flamia.derived_from = "q_data"},
    %d_past: !vector {flamia.dims = ["tokens", "heads"], flamia.derived_from = "do_data", flamia.original = "d_diagonal", flamia.original_with = "do_data"},
    %d_diagonal: !vector {flamia.dims = ["tokens", "heads"], flamia.derived_from = "do_data"},
    %do_scale_hat: !scale {flamia.dims = ["tiles", "heads", "atom"], flamia.folded = {exponent = "e(q_data) - max128(e(q_data))", along = "cols"}},
    %do_block_scale: !scale {flamia.dims = ["tiles", "heads", "atom"], flamia.folded = {exponent = "max32(e(do_data))", along = "rows"}},
    %q_block_scale: !scale {flamia.dims = ["tiles", "heads", "atom"], flamia.folded = {exponent = "max32(e(do_data)) + max128(e(q_data)) - 8", along = "rows"}},
    %bias: !lines {flamia.dims = ["tiles", "heads", "tile_rows"], flamia.folded = {of = "m", negate, plus = 8, exponent = "0"}},
    %bias_hat: !lines {flamia.dims = ["tiles", "heads", "tile_rows"], flamia.folded = {of = "m", negate, plus = 8, exponent = "e(do_data) - max32(e(do_data))"}},
    %d_past_hat: !lines {flamia.dims = ["tiles", "heads", "tile_rows"], flamia.folded = {of = "d_past", exponent = "e(q_data) - max128(e(q_data)) - e(do_data)"}},
    %d_diagonal_hat: !lines {flamia.dims = ["tiles", "heads", "tile_rows"], flamia.folded = {of = "d_diagonal", exponent = "e(q_data)"}},
    %r_hat: !lines {flamia.dims = ["tiles", "heads", "tile_rows"], flamia.folded = {of = "r", exponent = "e(q_data)"}},
    %r_unit: !lines {flamia.dims = ["tiles", "heads", "tile_rows"], flamia.folded = {of = "r", exponent = "-8"}},
    %work: memref<?x4xi32>, %softmax_scale: f32,
    %q_global_scale: f32 {flamia.only = {format = "nvfp4"}}, %k_global_scale: f32 {flamia.only = {format = "nvfp4"}},
    %dk: !bf16 {flamia.dims = ["tokens", "kv_heads", "head_dim"],
                flamia.depends = {q_data = ">= if causal", q_fp4 = ">= if causal", do_data = ">= if causal", k_data = "any", k_fp4 = "any", v_data = "any"}},
    %dv: !bf16 {flamia.dims = ["tokens", "kv_heads", "head_dim"],
                flamia.depends = {q_data = ">= if causal", q_fp4 = ">= if causal", do_data = ">= if causal", k_data = "any", k_fp4 = "any", v_data = "any"}})
    parameters {head_dim = [128, 64], causal = [true, false], format = ["mxfp8", "nvfp4"]}
    grid(work[0], k_data[1]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %log2e = arith.constant 1.44269504 : f32
  %payload_unit = arith.constant 0.00390625 : f32
  %eight = arith.constant dense<8.0> : !row
  %no_scores = flamia.full %zero : !scores
  %no_out = flamia.full %zero : !out
  %units = flamia.full %payload_unit : !scores
  %c8 = arith.mulf %softmax_scale, %log2e : f32
  %cq = arith.mulf %c8, %q_global_scale : f32
  %c4 = arith.mulf %cq, %k_global_scale : f32
  %nvfp4 = flamia.param "format" is "nvfp4" : i1
  %c = arith.select %nvfp4, %c4, %c8 : f32
  %cs = flamia.full %c : !scores

  %causal = flamia.param "causal" : i1
  %kv_head = flamia.program_id y
  // The list starts with what is long in the forward; here the first keys of a document are.
  %begin, %end, %tile, %scale_base = flamia.work_item %work from_end : memref<?x4xi32>
  %heads = flamia.dim %q_data[1] : !data
  %kv_heads = flamia.dim %k_data[1] : !data
  %group = arith.divui %heads, %kv_heads : index
  %first_head = arith.muli %kv_head, %group : index

  %k_offset = arith.muli %tile, %c128 : index
  %k_row = arith.addi %begin, %k_offset : index
  %k_tile = arith.addi %scale_base, %tile : index
  %k = flamia.load_scaled %k_data[%k_row, %kv_head, %c0], %k_scale[%k_tile, %kv_head] limit %end along cols : !data, !scale -> !local
  %k4 = flamia.load_scaled %k_fp4[%k_row, %kv_head, %c0], %k_fp4_scale[%k_tile, %kv_head] limit %end along cols : !data4, !scale4 -> !local4
  %v = flamia.load_scaled %v_data[%k_row, %kv_head, %c0], %v_scale[%k_tile, %kv_head] limit %end along cols : !data, !scale -> !block

  // Causal: the tiles from the keys' own on. Otherwise all of the document, and the mask
  // takes the keys for tokens before it.
  %length = arith.subi %end, %begin : index
  %tiles = arith.ceildivui %length, %c128 : index
  %first_tile = arith.select %causal, %tile, %c0 : index
  %before = arith.subi %begin, %c128 : index
  %first_key = arith.select %causal, %k_row, %before : index

  %dkR, %dvR = scf.for %g = %c0 to %group step %c1 iter_args(%dkG = %no_out, %dvG = %no_out) -> (!out, !out) {
    %head = arith.addi %first_head, %g : index
    %dkT, %dvT = scf.for %i = %first_tile to %tiles step %c1 iter_args(%dk0 = %dkG, %dv0 = %dvG) -> (!out, !out) {
      %q_offset = arith.muli %i, %c128 : index
      %q_row = arith.addi %begin, %q_offset : index
      %q_tile = arith.addi %scale_base, %i : index
      %q = flamia.load_scaled %q_data[%q_row, %head, %c0], %q_scale[%q_tile, %head] limit %end along cols : !data, !scale -> !local
      %do8 = flamia.load_scaled %do_data[%q_row, %head, %c0], %do_scale[%q_tile, %head] limit %end along cols : !data, !scale -> !local
      %m_row = flamia.load %m[%q_row, %head] limit %end : !vector -> !row
      %d_row = flamia.load %d_past[%q_row, %head] limit %end : !vector -> !row
      %qT = flamia.transpose %q : !local -> !localT
      %doT = flamia.transpose %do8 : !local -> !localT

      %s8 = flamia.dot %k, %qT, %no_scores : !local, !localT -> !scores
      %q4 = flamia.load_scaled %q_fp4[%q_row, %head, %c0], %q_fp4_scale[%q_tile, %head] limit %end along cols : !data4, !scale4 -> !local4
      %q4T = flamia.transpose %q4 : !local4 -> !local4T
      %s4 = flamia.dot %k4, %q4T, %no_scores : !local4, !local4T -> !scores
      %s = arith.select %nvfp4, %s4, %s8 : !scores
      %bias_row = arith.subf %eight, %m_row : !row
      %bias_line = flamia.transpose %bias_row : !row -> !line
      %biases = flamia.broadcast %bias_line : !line -> !scores
      %x = math.fma %s, %cs, %biases : !scores
      %x_seen = flamia.mask %x rows %first_key cols %q_row transposed causal limit %end : !scores
      %p256 = math.exp2 %x_seen : !scores
      %p = arith.mulf %p256, %units : !scores
      %p8 = flamia.quantize %p : !scores -> !weights
      %dv1 = flamia.dot %p8, %do8, %dv0 : !weights, !local -> !out

      %dp = flamia.dot %v, %doT, %no_scores : !block, !localT -> !scores
      %d_line = flamia.transpose %d_row : !row -> !line
      %ds = flamia.broadcast %d_line : !line -> !scores
      %t = arith.subf %dp, %ds : !scores
      %gradient = arith.mulf %p, %t : !scores
      %gradient_seen = flamia.mask %gradient rows %first_key cols %q_row transposed causal limit %end zero : !scores
      %g8 = flamia.quantize %gradient_seen : !scores -> !weights
      %dk1 = flamia.dot %g8, %q, %dk0 : !weights, !local -> !out
      scf.yield %dk1, %dv1 : !out, !out
    }
    scf.yield %dkT, %dvT : !out, !out
  }

  %softmax_scales = flamia.full %softmax_scale : !out
  %plain = flamia.hadamard %dkR inverse : !out
  %scaled = arith.mulf %plain, %softmax_scales : !out
  %dk_bf16 = arith.truncf %scaled : !out to tensor<128x?xbf16>
  flamia.store %dk_bf16, %dk[%k_row, %kv_head, %c0] limit %end : tensor<128x?xbf16>, !bf16
  %dv_bf16 = arith.truncf %dvR : !out to tensor<128x?xbf16>
  flamia.store %dv_bf16, %dv[%k_row, %kv_head, %c0] limit %end : tensor<128x?xbf16>, !bf16
  flamia.return
}
