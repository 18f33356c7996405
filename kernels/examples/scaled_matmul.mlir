// out = gelu(a b^T + bias), with microscaled operands: a [m, k] and b [n, k] hold E4M3
// payloads with one scale per 32 elements of k; scales are 128x4 atoms [rows / 128, k / 128].
// Scale bytes of padding must not be 255. gelu(x) is x sigmoid(1.702 x).

!tile = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!tileT = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
!out = tensor<128x128xf32>

flamia.kernel @scaled_matmul(
    %a: memref<?x?xf8E4M3FN> {flamia.dims = ["m", "k"]}, %a_scale: memref<?x?x512xf8E8M0FNU>,
    %b: memref<?x?xf8E4M3FN> {flamia.dims = ["n", "k"]}, %b_scale: memref<?x?x512xf8E8M0FNU>,
    %bias: memref<?xf32> {flamia.dims = ["n"]}, %out: memref<?x?xbf16> {flamia.dims = ["m", "n"]})
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
  %k = flamia.dim %a[1] : memref<?x?xf8E4M3FN>
  %steps = arith.ceildivui %k, %c128 : index
  %acc = scf.for %s = %c0 to %steps step %c1 iter_args(%sum = %no_out) -> (!out) {
    %at = arith.muli %s, %c128 : index
    %ta = flamia.load_scaled %a[%row, %at], %a_scale[%i, %s] along cols
      : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !tile
    %tb = flamia.load_scaled %b[%col, %at], %b_scale[%j, %s] along cols
      : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !tile
    %tbT = flamia.transpose %tb : !tile -> !tileT
    %next = flamia.dot %ta, %tbT, %sum : !tile, !tileT -> !out
    scf.yield %next : !out
  }

  %bias_row = flamia.load %bias[%col] : memref<?xf32> -> tensor<1x128xf32>
  %biases = flamia.broadcast %bias_row : tensor<1x128xf32> -> !out
  %x = arith.addf %acc, %biases : !out
  // sigmoid(1.702 x) = 1 / (1 + 2^(-1.702 log2(e) x))
  %slope = arith.constant -2.45546698 : f32
  %one = arith.constant 1.0 : f32
  %slopes = flamia.full %slope : !out
  %ones = flamia.full %one : !out
  %power = arith.mulf %x, %slopes : !out
  %e = math.exp2 %power : !out
  %denominator = arith.addf %e, %ones : !out
  %gelu = arith.divf %x, %denominator : !out
  %bf16 = arith.truncf %gelu : !out to tensor<128x128xbf16>
  flamia.store %bf16, %out[%row, %col] : tensor<128x128xbf16>, memref<?x?xbf16>
  flamia.return
}
