flamia.kernel @double(%x: memref<?x128xbf16> {flamia.dims = ["rows", "cols"]}, %y: memref<?x128xf32>)
    parameters {head_dim = [128, 64]} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  %f = arith.extf %t : tensor<128x128xbf16> to tensor<128x128xf32>
  %d = arith.addf %f, %f : tensor<128x128xf32>
  %q = flamia.quantize %d exponent 0 : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x?>
  flamia.store %d, %y[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}
