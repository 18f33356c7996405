// out = (a_global b_global) a b^T with NVFP4 operands: a [m, k] and b [n, k] hold packed
// E2M1 payloads with one UE4M3 scale per 16 elements of k, and one second-level scale each.
// Scales are 128x4 atoms [rows / 128, k / 128, 2, 512]: atom j of a tile covers 64 elements.
// Scale bytes of padding must not be 127.

!tile = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
!tileT = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
!data = memref<?x?xf4E2M1FN>
!scale = memref<?x?x2x512xf8E4M3FN>
!out = tensor<128x128xf32>

flamia.kernel @nvfp4_matmul(
    %a: !data {flamia.dims = ["m", "k"]}, %a_scale: !scale, %a_global: f32,
    %b: !data {flamia.dims = ["n", "k"]}, %b_scale: !scale, %b_global: f32,
    %out: memref<?x?xf32> {flamia.dims = ["m", "n"]})
    grid(a[0] ceildiv 128, b[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %no_out = flamia.full %zero : !out
  %i = flamia.program_id x
  %j = flamia.program_id y
  %row = arith.muli %i, %c128 : index
  %col = arith.muli %j, %c128 : index
  %k = flamia.dim %a[1] : !data
  %steps = arith.ceildivui %k, %c128 : index
  %acc = scf.for %s = %c0 to %steps step %c1 iter_args(%sum = %no_out) -> (!out) {
    %at = arith.muli %s, %c128 : index
    %ta = flamia.load_scaled %a[%row, %at], %a_scale[%i, %s] along cols : !data, !scale -> !tile
    %tb = flamia.load_scaled %b[%col, %at], %b_scale[%j, %s] along cols : !data, !scale -> !tile
    %tbT = flamia.transpose %tb : !tile -> !tileT
    %next = flamia.dot %ta, %tbT, %sum : !tile, !tileT -> !out
    scf.yield %next : !out
  }
  %global = arith.mulf %a_global, %b_global : f32
  %globals = flamia.full %global : !out
  %scaled = arith.mulf %acc, %globals : !out
  flamia.store %scaled, %out[%row, %col] : !out, memref<?x?xf32>
  flamia.return
}
