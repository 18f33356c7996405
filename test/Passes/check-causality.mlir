// What flamia-check-causality can prove. The library's kernels first: attention with its
// safeguards, without a mask between tokens, the quantizer of Q and K.
//
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize --flamia-insert-safeguards --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize=params=head_dim=64 --flamia-insert-safeguards --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize=params=causal=false --flamia-insert-safeguards --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/quantize.mlir --flamia-specialize --flamia-check-causality -o /dev/null
//
// Nothing is changed:
// RUN: flamia-opt %s --flamia-check-causality -o %t.out
// RUN: flamia-opt %s -o %t.in
// RUN: cmp %t.in %t.out

!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>

// Token blocks in tiles that the loop bounds show to be strictly past; ascending order.
flamia.kernel @past_tiles(%v: memref<?x64xf8E4M3FN>, %vs: memref<?x?x512xf8E8M0FNU>,
    %o: memref<?x64xf32> {flamia.depends = {v = "<="}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %z = flamia.full %f0 : tensor<128x64xf32>
  %one = arith.constant 1.0 : f32
  %w = flamia.full %one : tensor<128x128xf32>
  %p = flamia.quantize %w exponent 0 : tensor<128x128xf32> -> !p
  %r = scf.for %j = %c0 to %tile step %c1 iter_args(%acc = %z) -> (tensor<128x64xf32>) {
    %key = arith.muli %j, %c128 : index
    %t = flamia.load_scaled %v[%key, %c0], %vs[%j, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
    %d = flamia.dot %p, %t, %acc : !p, !v -> tensor<128x64xf32>
    scf.yield %d : tensor<128x64xf32>
  }
  flamia.store %r, %o[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// The other direction: gradients of keys may see later queries only. Strictly later tiles.
flamia.kernel @later_tiles(%q: memref<?x64xf8E4M3FN>, %qs: memref<?x?x512xf8E8M0FNU>,
    %o: memref<?x64xf32> {flamia.depends = {q = ">="}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %first = arith.addi %tile, %c1 : index
  %tokens = flamia.dim %q[0] : memref<?x64xf8E4M3FN>
  %end = arith.ceildivui %tokens, %c128 : index
  %z = flamia.full %f0 : tensor<128x64xf32>
  %one = arith.constant 1.0 : f32
  %w = flamia.full %one : tensor<128x128xf32>
  %p = flamia.quantize %w exponent 0 : tensor<128x128xf32> -> !p
  %r = scf.for %j = %first to %end step %c1 iter_args(%acc = %z) -> (tensor<128x64xf32>) {
    %at = arith.muli %j, %c128 : index
    %t = flamia.load_scaled %q[%at, %c0], %qs[%j, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
    %d = flamia.dot %p, %t, %acc : !p, !v -> tensor<128x64xf32>
    scf.yield %d : tensor<128x64xf32>
  }
  flamia.store %r, %o[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// A causal mask before a reduction over tokens, with token-local values.
flamia.kernel @masked_reduction(%x: memref<?x?xbf16>, %o: memref<?x1xf32> {flamia.depends = {x = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %t = flamia.load %x[%c0, %c0] : memref<?x?xbf16> -> tensor<128x64xbf16>
  %u = flamia.transpose %t : tensor<128x64xbf16> -> tensor<64x128xbf16>
  %s = flamia.dot %t, %u, %z : tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32>
  %m = flamia.mask %s rows %c0 cols %c0 causal : tensor<128x128xf32>
  %r = flamia.reduce max %m : tensor<128x128xf32> -> tensor<128x1xf32>
  flamia.store %r, %o[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// Without `flamia.depends` there is nothing to prove, and "any" allows everything.
flamia.kernel @any(%x: memref<?x64xf32>, %s: f32 {flamia.derived_from = "x"}, %y: memref<?x64xf32>,
    %z: memref<?x64xf32> {flamia.depends = {x = "any"}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %t = flamia.load %x[%c128, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  %f = flamia.full %s : tensor<128x64xf32>
  %u = arith.mulf %t, %f : tensor<128x64xf32>
  flamia.store %u, %y[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.store %u, %z[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}
