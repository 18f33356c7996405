// out = quantize(relu(x w1^T)^2) w2^T: a dot, an activation, a dynamic quantization and a
// second dot whose accumulator the loop over hidden channels carries. x is [tokens, 128];
// w1 is [hidden, 128]; w2 is [hidden, width] and is read along its rows.

!scores = tensor<128x128xf32>
!out = tensor<128x?xf32>
!data = memref<?x?xf8E4M3FN>
!scale = memref<?x?x512xf8E8M0FNU>
!tile = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!tileT = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
!second = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x1>

flamia.kernel @mlp(
    %x: !data, %x_scale: !scale, %w1: !data {flamia.dims = ["hidden", "inner"]}, %w1_scale: !scale,
    %w2: !data {flamia.dims = ["hidden", "width"]}, %w2_scale: !scale, %out: memref<?x?xf32> {flamia.dims = ["tokens", "width"]})
    parameters {width = [64, 128]} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %zeros = flamia.full %zero : !scores
  %no_out = flamia.full %zero : !out
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %hidden = flamia.dim %w1[0] : !data
  %tiles = arith.ceildivui %hidden, %c128 : index
  %tx = flamia.load_scaled %x[%row, %c0], %x_scale[%i, %c0] along cols : !data, !scale -> !tile
  %acc = scf.for %j = %c0 to %tiles step %c1 iter_args(%sum = %no_out) -> (!out) {
    %at = arith.muli %j, %c128 : index
    %t1 = flamia.load_scaled %w1[%at, %c0], %w1_scale[%j, %c0] along cols : !data, !scale -> !tile
    %t1T = flamia.transpose %t1 : !tile -> !tileT
    %h = flamia.dot %tx, %t1T, %zeros : !tile, !tileT -> !scores
    %relu = arith.maximumf %h, %zeros : !scores
    %squared = arith.mulf %relu, %relu : !scores
    %h8 = flamia.quantize %squared : !scores -> !tile
    %t2 = flamia.load_scaled %w2[%at, %c0], %w2_scale[%j, %c0] along rows : !data, !scale -> !second
    %next = flamia.dot %h8, %t2, %sum : !tile, !second -> !out
    scf.yield %next : !out
  }
  flamia.store %acc, %out[%row, %c0] : !out, memref<?x?xf32>
  flamia.return
}
