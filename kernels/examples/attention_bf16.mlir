// Attention without a mask between tokens, BF16 operands: one sequence, every query sees
// every key. The usual online softmax; no quantization, no work list.

!scores = tensor<128x128xf32>
!row = tensor<128x1xf32>
!out = tensor<128x?xf32>
!in = memref<?x?x?xbf16>
!tile = tensor<128x?xbf16>
!tileT = tensor<?x128xbf16>

flamia.kernel @attention_bf16(
    %q: !in {flamia.dims = ["queries", "heads", "head_dim"]}, %k: !in {flamia.dims = ["keys", "heads", "head_dim"]},
    %v: !in {flamia.dims = ["keys", "heads", "head_dim"]}, %softmax_scale: f32,
    %o: memref<?x?x?xf32> {flamia.dims = ["queries", "heads", "head_dim"]})
    parameters {head_dim = [64, 128]} grid(q[0] ceildiv 128, q[1]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %minus_inf = arith.constant 0xFF800000 : f32
  %log2e = arith.constant 1.44269504 : f32
  %no_scores = flamia.full %zero : !scores
  %no_out = flamia.full %zero : !out
  %no_sum = flamia.full %zero : !row
  %no_max = flamia.full %minus_inf : !row
  %c = arith.mulf %softmax_scale, %log2e : f32
  %cs = flamia.full %c : !scores
  %i = flamia.program_id x
  %head = flamia.program_id y
  %q_row = arith.muli %i, %c128 : index
  %keys = flamia.dim %k[0] : !in
  %tiles = arith.ceildivui %keys, %c128 : index
  %tq = flamia.load %q[%q_row, %head, %c0] : !in -> !tile

  %max, %sum, %acc = scf.for %j = %c0 to %tiles step %c1
      iter_args(%m0 = %no_max, %l0 = %no_sum, %acc0 = %no_out) -> (!row, !row, !out) {
    %k_row = arith.muli %j, %c128 : index
    %tk = flamia.load %k[%k_row, %head, %c0] : !in -> !tile
    %tv = flamia.load %v[%k_row, %head, %c0] : !in -> !tile
    %tkT = flamia.transpose %tk : !tile -> !tileT
    %s = flamia.dot %tq, %tkT, %no_scores : !tile, !tileT -> !scores
    %scaled = arith.mulf %s, %cs : !scores
    %seen = flamia.mask %scaled rows %q_row cols %k_row limit %keys : !scores
    %top = flamia.reduce max %seen : !scores -> !row
    %m1 = arith.maxnumf %m0, %top : !row
    %shift = arith.subf %m0, %m1 : !row
    %alpha = math.exp2 %shift : !row
    %m1s = flamia.broadcast %m1 : !row -> !scores
    %x = arith.subf %seen, %m1s : !scores
    %p = math.exp2 %x : !scores
    %part = flamia.reduce sum %p : !scores -> !row
    %l1 = math.fma %l0, %alpha, %part : !row
    %alphas = flamia.broadcast %alpha : !row -> !out
    %rescaled = arith.mulf %acc0, %alphas : !out
    %pb = arith.truncf %p : !scores to tensor<128x128xbf16>
    %acc1 = flamia.dot %pb, %tv, %rescaled : tensor<128x128xbf16>, !tile -> !out
    scf.yield %m1, %l1, %acc1 : !row, !row, !out
  }

  %sums = flamia.broadcast %sum : !row -> !out
  %result = arith.divf %acc, %sums : !out
  flamia.store %result, %o[%q_row, %head, %c0] : !out, memref<?x?x?xf32>
  flamia.return
}
