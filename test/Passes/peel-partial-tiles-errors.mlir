// RUN: flamia-opt %s --flamia-peel-partial-tiles --split-input-file --verify-diagnostics

flamia.kernel @not_specialized(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{extents of 'tensor<128x?xf32>' are not bound: run flamia-specialize first}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  flamia.return
}

// -----

flamia.kernel @parameter_left() parameters {n = [128]} grid(1) {
  // expected-error @+1 {{parameter 'n' is not bound: run flamia-specialize first}}
  %n = flamia.param "n" : index
  flamia.return
}
