// Causal attention over a sliding window of past tokens, MXFP8 operands, packed documents:
// query q sees keys q - window .. q of its own document. Key tiles go down from the diagonal,
// so that the first one gives every row a finite maximum.

!scores = tensor<128x128xf32>
!row = tensor<128x1xf32>
!out = tensor<128x?xf32>
!data = memref<?x?x?xf8E4M3FN>
!scale = memref<?x?x512xf8E8M0FNU>
!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
!localT = !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per ?x1>
!block = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x32>
!weights = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

flamia.kernel @attention_window(
    %q_data: !data {flamia.dims = ["tokens", "heads", "head_dim"]}, %q_scale: !scale,
    %k_data: !data {flamia.dims = ["tokens", "heads", "head_dim"]}, %k_scale: !scale,
    %v_data: !data {flamia.dims = ["tokens", "heads", "head_dim"], flamia.original = "v_bf16"}, %v_scale: !scale,
    %v_bf16: memref<?x?x?xbf16> {flamia.dims = ["tokens", "heads", "head_dim"]}, %work: memref<?x4xi32>, %softmax_scale: f32,
    %o: memref<?x?x?xf32> {flamia.dims = ["tokens", "heads", "head_dim"], flamia.depends = {q_data = "<=", k_data = "<=", v_data = "<="}})
    parameters {head_dim = [64, 128], window = [200, 128, 1]} grid(work[0], o[1]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %minus_inf = arith.constant 0xFF800000 : f32
  %log2e = arith.constant 1.44269504 : f32
  %eight = arith.constant dense<8.0> : !row
  %no_scores = flamia.full %zero : !scores
  %no_out = flamia.full %zero : !out
  %no_sum = flamia.full %zero : !row
  %no_max = flamia.full %minus_inf : !row
  %c = arith.mulf %softmax_scale, %log2e : f32
  %cs = flamia.full %c : !scores
  %c_row = flamia.full %c : !row

  %window = flamia.param "window" : index
  %head = flamia.program_id y
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %q_offset = arith.muli %tile, %c128 : index
  %q_row = arith.addi %begin, %q_offset : index
  %q_tile = arith.addi %scale_base, %tile : index
  %q = flamia.load_scaled %q_data[%q_row, %head, %c0], %q_scale[%q_tile, %head] limit %end along cols : !data, !scale -> !local

  // Tiles down to the one that holds the first query's oldest key.
  %reach = arith.ceildivui %window, %c128 : index
  %most = arith.addi %reach, %c1 : index
  %past_tiles = arith.addi %tile, %c1 : index
  %tiles = arith.minui %past_tiles, %most : index
  %mR, %lR, %accR = scf.for %n = %c0 to %tiles step %c1
      iter_args(%m0 = %no_max, %l0 = %no_sum, %acc0 = %no_out) -> (!row, !row, !out) {
    %j = arith.subi %tile, %n : index
    %k_offset = arith.muli %j, %c128 : index
    %k_row = arith.addi %begin, %k_offset : index
    %k_tile = arith.addi %scale_base, %j : index
    %k = flamia.load_scaled %k_data[%k_row, %head, %c0], %k_scale[%k_tile, %head] limit %end along cols : !data, !scale -> !local
    %kT = flamia.transpose %k : !local -> !localT
    %s = flamia.dot %q, %kT, %no_scores : !local, !localT -> !scores
    %seen = flamia.mask %s rows %q_row cols %k_row causal limit %end window %window : !scores
    %max = flamia.reduce max %seen : !scores -> !row
    %top = arith.mulf %max, %c_row : !row
    %m1 = arith.maxnumf %m0, %top : !row
    %shift = arith.subf %m0, %m1 : !row
    %alpha = math.exp2 %shift : !row
    %bias = arith.subf %eight, %m1 : !row
    %biases = flamia.broadcast %bias : !row -> !scores
    %x = math.fma %s, %cs, %biases : !scores
    %x_seen = flamia.mask %x rows %q_row cols %k_row causal limit %end window %window : !scores
    %p = math.exp2 %x_seen : !scores
    %sum = flamia.reduce sum %p : !scores -> !row
    %l1 = math.fma %l0, %alpha, %sum : !row
    %p8 = flamia.quantize %p exponent 0 : !scores -> !weights
    %v = flamia.load_scaled %v_data[%k_row, %head, %c0], %v_scale[%k_tile, %head] limit %end along rows : !data, !scale -> !block
    %alphas = flamia.broadcast %alpha : !row -> !out
    %rescaled = arith.mulf %acc0, %alphas : !out
    %acc1 = flamia.dot %p8, %v, %rescaled : !weights, !block -> !out
    scf.yield %m1, %l1, %acc1 : !row, !row, !out
  }

  %sums = flamia.broadcast %lR : !row -> !out
  %result = arith.divf %accR, %sums : !out
  flamia.store %result, %o[%q_row, %head, %c0] limit %end : !out, memref<?x?x?xf32>
  flamia.return
}
