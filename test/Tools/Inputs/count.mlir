flamia.kernel @count(%x: memref<?x64xf32>, %y: memref<?x64xf32>, %n: index) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
    flamia.store %t, %y[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  }
  flamia.return
}
