// Microscaled attention, backward: dQ. One work item is a tile of 128 queries of one
// document, for the query heads of a kv head one after the other (or for a part of them, as
// the launch chooses); key tiles go from the diagonal downwards, as in the forward. All
// values are logical: exponents that a token's scale holds are folded by the compiler, into
// the arguments that say `flamia.folded`. With nvfp4 the scores come from E2M1 operands as
// in the forward, dQ from K's E4M3 copy. Shapes: README.md. Numerics: docs/numerics.md.
//
//   P = 2^(s - m)   dS = P (dO' V^T - D')   dQ = scale * dS K      dO' = dO / l

!scores = tensor<128x128xf32>
!row = tensor<128x1xf32>
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
!blockT = !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per 32x32>
!gradients = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

flamia.kernel @attention_bwd_dq(
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
    %v_scale_hat: !scale {flamia.dims = ["tiles", "kv_heads", "atom"], flamia.folded = {exponent = "e(v_data) + e(k_data) - max128(e(k_data))", along = "cols"}},
    %k_factor: !lines {flamia.dims = ["tiles", "kv_heads", "tile_rows"], flamia.folded = {exponent = "e(k_data) - max128(e(k_data))"}},
    %k_factor_diagonal: !lines {flamia.dims = ["tiles", "kv_heads", "tile_rows"], flamia.folded = {exponent = "e(k_data)"}},
    %k_block_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"], flamia.folded = {exponent = "max128(e(k_data)) - 8", along = "rows"}},
    %work: memref<?x4xi32>, %softmax_scale: f32,
    %q_global_scale: f32 {flamia.only = {format = "nvfp4"}}, %k_global_scale: f32 {flamia.only = {format = "nvfp4"}},
    %dq: !bf16 {flamia.dims = ["tokens", "heads", "head_dim"],
                flamia.depends = {q_data = "<=", q_fp4 = "<=", do_data = "<=", k_data = "<= if causal", k_fp4 = "<= if causal", v_data = "<= if causal"}})
    parameters {head_dim = [128, 64], causal = [true, false], format = ["mxfp8", "nvfp4"]}
    grid(work[0], k_data[1], any) attributes {flamia.exp2_emulation = {sm_100a = "1/4"}} {
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
  %softmax_scales = flamia.full %softmax_scale : !out

  %causal = flamia.param "causal" : i1
  %kv_head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %heads = flamia.dim %q_data[1] : !data
  %kv_heads = flamia.dim %k_data[1] : !data
  %group = arith.divui %heads, %kv_heads : index
  %first_head = arith.muli %kv_head, %group : index

  %q_offset = arith.muli %tile, %c128 : index
  %q_row = arith.addi %begin, %q_offset : index
  %q_tile = arith.addi %scale_base, %tile : index

  // The forward's tiles, masks and order.
  %length = arith.subi %end, %begin : index
  %document_tiles = arith.ceildivui %length, %c128 : index
  %past_tiles = arith.addi %tile, %c1 : index
  %tiles = arith.select %causal, %past_tiles, %document_tiles : index
  %last_tile = arith.subi %tiles, %c1 : index
  %last_key = arith.select %causal, %q_row, %end : index

  // The query heads of the group, or this CTA's part of them: a head's operands come, and
  // its scores are made, while the last one's dQ is stored.
  %part = flamia.program_id z
  %parts = flamia.num_programs z
  %part_heads = arith.ceildivui %group, %parts : index
  %part_first = arith.muli %part, %part_heads : index
  %part_end = arith.addi %part_first, %part_heads : index
  %part_last = arith.minui %part_end, %group : index
  scf.for %g = %part_first to %part_last step %c1 {
    %head = arith.addi %first_head, %g : index
    %q = flamia.load_scaled %q_data[%q_row, %head, %c0], %q_scale[%q_tile, %head] limit %end along cols : !data, !scale -> !local
    %q4 = flamia.load_scaled %q_fp4[%q_row, %head, %c0], %q_fp4_scale[%q_tile, %head] limit %end along cols : !data4, !scale4 -> !local4
    %do8 = flamia.load_scaled %do_data[%q_row, %head, %c0], %do_scale[%q_tile, %head] limit %end along cols : !data, !scale -> !local
    %m_row = flamia.load %m[%q_row, %head] limit %end : !vector -> !row
    %d_row = flamia.load %d_past[%q_row, %head] limit %end : !vector -> !row
    %bias = arith.subf %eight, %m_row : !row

    %sum = scf.for %n = %c0 to %tiles step %c1 iter_args(%acc0 = %no_out) -> (!out) {
      %j = arith.subi %last_tile, %n : index
      %k_offset = arith.muli %j, %c128 : index
      %k_row = arith.addi %begin, %k_offset : index
      %k_tile = arith.addi %scale_base, %j : index
      %k = flamia.load_scaled %k_data[%k_row, %kv_head, %c0], %k_scale[%k_tile, %kv_head] limit %end along cols : !data, !scale -> !local
      %v = flamia.load_scaled %v_data[%k_row, %kv_head, %c0], %v_scale[%k_tile, %kv_head] limit %end along cols : !data, !scale -> !block
      %kT = flamia.transpose %k : !local -> !localT
      %vT = flamia.transpose %v : !block -> !blockT

      %s8 = flamia.dot %q, %kT, %no_scores : !local, !localT -> !scores
      %k4 = flamia.load_scaled %k_fp4[%k_row, %kv_head, %c0], %k_fp4_scale[%k_tile, %kv_head] limit %end along cols : !data4, !scale4 -> !local4
      %k4T = flamia.transpose %k4 : !local4 -> !local4T
      %s4 = flamia.dot %q4, %k4T, %no_scores : !local4, !local4T -> !scores
      %s = arith.select %nvfp4, %s4, %s8 : !scores
      %biases = flamia.broadcast %bias : !row -> !scores
      %x = math.fma %s, %cs, %biases : !scores
      %x_seen = flamia.mask %x rows %last_key cols %k_row causal limit %end : !scores
      %p256 = math.exp2 %x_seen : !scores
      %p = arith.mulf %p256, %units : !scores

      %dp = flamia.dot %do8, %vT, %no_scores : !local, !blockT -> !scores
      %ds = flamia.broadcast %d_row : !row -> !scores
      %t = arith.subf %dp, %ds : !scores
      %gradient = arith.mulf %p, %t : !scores
      %gradient_seen = flamia.mask %gradient rows %last_key cols %k_row causal limit %end zero : !scores
      %g8 = flamia.quantize %gradient_seen : !scores -> !gradients
      %acc1 = flamia.dot %g8, %k, %acc0 : !gradients, !local -> !out
      scf.yield %acc1 : !out
    }

    %plain = flamia.hadamard %sum inverse : !out
    %scaled = arith.mulf %plain, %softmax_scales : !out
    %dq_bf16 = arith.truncf %scaled : !out to tensor<128x?xbf16>
    flamia.store %dq_bf16, %dq[%q_row, %head, %c0] limit %end : tensor<128x?xbf16>, !bf16
  }
  flamia.return
}
