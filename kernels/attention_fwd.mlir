// Microscaled attention, forward. One work item is a tile of 128 queries of one
// document and head; key tiles go from the diagonal downwards. Scores come from E4M3
// operands (mxfp8) or E2M1 ones (nvfp4), whose second-level scales enter the softmax scale.
// Shapes, formats and the saved tensors: README.md. Numerics: docs/numerics.md.
//
// The row reference m is an integer, so rescaling by 2^(old - new) is exact. Weights are
// kept as 256 P, the E4M3 payload itself (scale 1); l and kappa's sum carry that 256 too.

!scores = tensor<128x128xf32>
!row = tensor<128x1xf32>
!out = tensor<128x?xf32>
!data = memref<?x?x?xf8E4M3FN>
!scale = memref<?x?x512xf8E8M0FNU>
!data4 = memref<?x?x?xf4E2M1FN>
!scale4 = memref<?x?x?x512xf8E4M3FN>
!bf16 = memref<?x?x?xbf16>
!bf16_strided = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
!localT = !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per ?x1>
!local4 = !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>
!local4T = !flamia.scaled<?x128, f4E2M1FN by f8E4M3FN per 16x1>
!block = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x32>
!weights = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

flamia.kernel @attention_fwd(
    %q_data: !data {flamia.dims = ["tokens", "heads", "head_dim"], flamia.only = {format = "mxfp8"}},
    %q_scale: !scale {flamia.dims = ["tiles", "heads", "atom"], flamia.only = {format = "mxfp8"}},
    %k_data: !data {flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.only = {format = "mxfp8"}},
    %k_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"], flamia.only = {format = "mxfp8"}},
    %q_fp4: !data4 {flamia.dims = ["tokens", "heads", "head_dim"], flamia.only = {format = "nvfp4"}},
    %q_fp4_scale: !scale4 {flamia.dims = ["tiles", "heads", "atoms", "atom"], flamia.only = {format = "nvfp4"}},
    %k_fp4: !data4 {flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.only = {format = "nvfp4"}},
    %k_fp4_scale: !scale4 {flamia.dims = ["tiles", "kv_heads", "atoms", "atom"], flamia.only = {format = "nvfp4"}},
    %v_data: !data {flamia.dims = ["tokens", "kv_heads", "head_dim"], flamia.original = "v_bf16"},
    %v_scale: !scale {flamia.dims = ["tiles", "kv_heads", "atom"]}, %v_bf16: !bf16_strided {flamia.dims = ["tokens", "kv_heads", "head_dim"]},
    %work: memref<?x4xi32>, %softmax_scale: f32,
    %q_global_scale: f32 {flamia.only = {format = "nvfp4"}}, %k_global_scale: f32 {flamia.only = {format = "nvfp4"}},
    %o: !bf16 {flamia.dims = ["tokens", "heads", "head_dim"], flamia.depends = {q_data = "<=", q_fp4 = "<=", k_data = "<= if causal", k_fp4 = "<= if causal", v_data = "<= if causal"}},
    %lse: memref<?x?xf32> {flamia.dims = ["tokens", "heads"], flamia.depends = {q_data = "<=", q_fp4 = "<=", k_data = "<= if causal", k_fp4 = "<= if causal"}},
    %m: memref<?x?xf32> {flamia.workspace, flamia.dims = ["tokens", "heads"], flamia.depends = {q_data = "<=", q_fp4 = "<=", k_data = "<= if causal", k_fp4 = "<= if causal"}},
    %l: memref<?x?xf32> {flamia.workspace, flamia.dims = ["tokens", "heads"], flamia.depends = {q_data = "<=", q_fp4 = "<=", k_data = "<= if causal", k_fp4 = "<= if causal"}},
    %kappa: memref<?x?xf32> {flamia.workspace, flamia.dims = ["tokens", "heads"], flamia.depends = {q_data = "<=", q_fp4 = "<=", k_data = "<= if causal", k_fp4 = "<= if causal"}})
    parameters {head_dim = [128, 64], causal = [true, false], format = ["mxfp8", "nvfp4"], slots = [1, 2]}
    grid(work[0], o[1]) attributes {flamia.slots = "y", flamia.exp2_emulation = {sm_100a = "1/4"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %minus_inf = arith.constant 0xFF800000 : f32
  %log2e = arith.constant 1.44269504 : f32
  %one = arith.constant dense<1.0> : !row
  %eight = arith.constant dense<8.0> : !row
  %payload_unit = arith.constant dense<0.00390625> : !row
  %tiny = arith.constant dense<0x00800000> : !row
  %ln2 = arith.constant dense<0.693147181> : !row
  %zeros = flamia.full %zero : !row
  %no_scores = flamia.full %zero : !scores
  %no_out = flamia.full %zero : !out
  %no_max = flamia.full %minus_inf : !row
  %c8 = arith.mulf %softmax_scale, %log2e : f32
  %cq = arith.mulf %c8, %q_global_scale : f32
  %c4 = arith.mulf %cq, %k_global_scale : f32
  %nvfp4 = flamia.param "format" is "nvfp4" : i1
  %c = arith.select %nvfp4, %c4, %c8 : f32
  %cs = flamia.full %c : !scores

  %causal = flamia.param "causal" : i1
  %head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %heads = flamia.dim %o[1] : !bf16
  %kv_heads = flamia.dim %v_data[1] : !data
  %group = arith.divui %heads, %kv_heads {flamia.multiple_of = "slots"} : index
  %kv_head = arith.divui %head, %group : index

  %q_offset = arith.muli %tile, %c128 : index
  %q_row = arith.addi %begin, %q_offset : index
  %q_tile = arith.addi %scale_base, %tile : index
  %q = flamia.load_scaled %q_data[%q_row, %head, %c0], %q_scale[%q_tile, %head] limit %end along cols : !data, !scale -> !local
  %q4 = flamia.load_scaled %q_fp4[%q_row, %head, %c0], %q_fp4_scale[%q_tile, %head] limit %end along cols : !data4, !scale4 -> !local4

  // Causal: the tiles up to the query's own. Otherwise all of the document, and the mask
  // lets every row see as far as the document goes.
  %length = arith.subi %end, %begin : index
  %document_tiles = arith.ceildivui %length, %c128 : index
  %past_tiles = arith.addi %tile, %c1 : index
  %tiles = arith.select %causal, %past_tiles, %document_tiles : index
  %last_tile = arith.subi %tiles, %c1 : index
  %last_key = arith.select %causal, %q_row, %end : index

  %mR, %lR, %dR, %accR = scf.for %n = %c0 to %tiles step %c1
      iter_args(%m0 = %no_max, %l0 = %zeros, %d0 = %zeros, %acc0 = %no_out) -> (!row, !row, !row, !out) {
    %j = arith.subi %last_tile, %n : index
    %k_offset = arith.muli %j, %c128 : index
    %k_row = arith.addi %begin, %k_offset : index
    %k_tile = arith.addi %scale_base, %j : index
    %k = flamia.load_scaled %k_data[%k_row, %kv_head, %c0], %k_scale[%k_tile, %kv_head] limit %end along cols : !data, !scale -> !local
    %kT = flamia.transpose %k : !local -> !localT
    %s8 = flamia.dot %q, %kT, %no_scores : !local, !localT -> !scores
    %k4 = flamia.load_scaled %k_fp4[%k_row, %kv_head, %c0], %k_fp4_scale[%k_tile, %kv_head] limit %end along cols : !data4, !scale4 -> !local4
    %k4T = flamia.transpose %k4 : !local4 -> !local4T
    %s4 = flamia.dot %q4, %k4T, %no_scores : !local4, !local4T -> !scores
    %s = arith.select %nvfp4, %s4, %s8 : !scores

    // The new reference, and what it does to the sums so far.
    %seen = flamia.mask %s rows %last_key cols %k_row causal limit %end : !scores
    %max = flamia.reduce max %seen : !scores -> !row
    %c_row = flamia.full %c : !row
    %top = arith.mulf %max, %c_row : !row
    %top_int = math.ceil %top : !row
    %m1 = arith.maxnumf %m0, %top_int : !row
    %shift = arith.subf %m0, %m1 : !row
    %alpha = math.exp2 %shift : !row

    // 256 P. The mask comes after the fma, so that a softmax scale of 0 works.
    %bias = arith.subf %eight, %m1 : !row
    %biases = flamia.broadcast %bias : !row -> !scores
    %x = math.fma %s, %cs, %biases : !scores
    %x_seen = flamia.mask %x rows %last_key cols %k_row causal limit %end : !scores
    %p = math.exp2 %x_seen : !scores
    %p8 = flamia.quantize %p exponent 0 : !scores -> !weights

    // l adds the unrounded weights; d adds what rounding did to the largest one, which is
    // that of the largest score (the scale is not negative).
    %sum = flamia.reduce sum %p : !scores -> !row
    %l1 = math.fma %l0, %alpha, %sum : !row
    %x_max = math.fma %max, %c_row, %bias : !row
    %p_max = math.exp2 %x_max : !row
    %p_max_rounded = flamia.round_like %p_max, %p8 : !row, !weights
    %rounding = arith.subf %p_max_rounded, %p_max : !row
    %d1 = math.fma %d0, %alpha, %rounding : !row

    %v = flamia.load_scaled %v_data[%k_row, %kv_head, %c0], %v_scale[%k_tile, %kv_head] limit %end along rows : !data, !scale -> !block
    %alphas = flamia.broadcast %alpha : !row -> !out
    %rescaled = arith.mulf %acc0, %alphas : !out
    %acc1 = flamia.dot %p8, %v, %rescaled : !weights, !block -> !out
    scf.yield %m1, %l1, %d1, %acc1 : !row, !row, !row, !out
  }

  // A row without a visible key, or whose weights all vanish: O = 0, LSE = -inf, kappa = 1.
  %l_positive = arith.maxnumf %lR, %tiny : !row
  %factor = arith.divf %one, %l_positive : !row
  %factors = flamia.broadcast %factor : !row -> !out
  %o_f32 = arith.mulf %accR, %factors : !out
  %o_bf16 = arith.truncf %o_f32 : !out to tensor<128x?xbf16>
  flamia.store %o_bf16, %o[%q_row, %head, %c0] limit %end : tensor<128x?xbf16>, !bf16

  %l_out = arith.mulf %lR, %payload_unit : !row
  %log2l = math.log2 %l_out : !row
  %lse2 = arith.addf %mR, %log2l : !row
  %lse_out = arith.mulf %lse2, %ln2 : !row
  %total = arith.addf %lR, %dR : !row
  %kappa_seen = arith.divf %lR, %total : !row
  %no_weight = arith.cmpf oeq, %lR, %zeros : !row
  %kappa_out = arith.select %no_weight, %one, %kappa_seen : tensor<128x1xi1>, !row
  flamia.store %lse_out, %lse[%q_row, %head] limit %end : !row, memref<?x?xf32>
  flamia.store %mR, %m[%q_row, %head] limit %end : !row, memref<?x?xf32>
  flamia.store %l_out, %l[%q_row, %head] limit %end : !row, memref<?x?xf32>
  flamia.store %kappa_out, %kappa[%q_row, %head] limit %end : !row, memref<?x?xf32>
  flamia.return
}
