// RUN: flamia-opt %s --flamia-insert-safeguards --split-input-file --verify-diagnostics -o - | FileCheck %s

!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>

// Without an original the leak stays, for flamia-check-causality to report.
// CHECK-LABEL: flamia.kernel @negative_no_original
// CHECK: flamia.load_scaled %v
// CHECK: flamia.dot {{.*}} : !flamia.scaled
flamia.kernel @negative_no_original(%x: memref<?x128xf32>, %v: memref<?x64xf8E4M3FN>, %vs: memref<?x?x512xf8E8M0FNU>,
    %o: memref<?x64xf32> {flamia.depends = {v = "<=", x = "any"}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x64xf32>
  %t = flamia.load %x[%c0, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  %m = flamia.mask %t rows %c0 cols %c0 causal : tensor<128x128xf32>
  %e = math.exp2 %m : tensor<128x128xf32>
  %p = flamia.quantize %e exponent 0 : tensor<128x128xf32> -> !p
  %u = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  %d = flamia.dot %p, %u, %z : !p, !v -> tensor<128x64xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>

// The other operand is loaded and has no original: its 16-bit values do not exist.
// CHECK-LABEL: flamia.kernel @negative_other_operand
// CHECK: flamia.dot {{.*}} : !flamia.scaled
flamia.kernel @negative_other_operand(%w: memref<?x128xf8E4M3FN>, %ws: memref<?x?x512xf8E8M0FNU>, %v: memref<?x64xf8E4M3FN> {flamia.original = "v_bf16"},
    %vs: memref<?x?x512xf8E8M0FNU>, %v_bf16: memref<?x64xbf16>, %o: memref<?x64xf32> {flamia.depends = {v = "<=", w = "any"}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x64xf32>
  %p = flamia.load_scaled %w[%c0, %c0], %ws[%c0, %c0] along cols : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !p
  %u = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  %d = flamia.dot %p, %u, %z : !p, !v -> tensor<128x64xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

flamia.kernel @not_specialized(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{extents of 'tensor<128x?xf32>' are not bound: run flamia-specialize first}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  flamia.return
}

// -----

!x = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
!w = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
!wT = !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 32x32>

// Both originals are too small by a factor for each token: one would have to be multiplied
// before it is rounded, and there are no values of it that are not.
// CHECK-LABEL: flamia.kernel @negative_two_factors
// CHECK: flamia.dot {{.*}} : !flamia.scaled
flamia.kernel @negative_two_factors(%x: memref<?x2x64xf8E4M3FN> {flamia.original = "x_bf16", flamia.original_factor = "f"}, %xs: memref<?x?x512xf8E8M0FNU>, %x_bf16: memref<?x2x64xbf16>,
    %f: memref<?x2xf32>, %w: memref<?x2x64xf8E4M3FN> {flamia.original = "w_bf16", flamia.original_factor = "f"}, %ws: memref<?x?x512xf8E8M0FNU>, %w_bf16: memref<?x2x64xbf16>,
    %o: memref<?x1xf32> {flamia.depends = {w = "<=", x = "any"}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %a = flamia.load_scaled %x[%c0, %c0, %c0], %xs[%c0, %c0] along cols : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !x
  %b = flamia.load_scaled %w[%c0, %c0, %c0], %ws[%c0, %c0] along cols : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !w
  %bT = flamia.transpose %b : !w -> !wT
  %d = flamia.dot %a, %bT, %z : !x, !wT -> tensor<128x128xf32>
  %m = flamia.mask %d rows %c0 cols %c0 causal : tensor<128x128xf32>
  %r = flamia.reduce max %m : tensor<128x128xf32> -> tensor<128x1xf32>
  flamia.store %r, %o[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// -----

!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>

// The factor of tokens that are summed belongs to the other operand, which is loaded.
// CHECK-LABEL: flamia.kernel @negative_summed_factor
// CHECK: flamia.dot {{.*}} : !flamia.scaled
flamia.kernel @negative_summed_factor(%w: memref<?x128xf8E4M3FN> {flamia.original = "w_bf16"}, %ws: memref<?x?x512xf8E8M0FNU>, %w_bf16: memref<?x128xbf16>,
    %v: memref<?x2x64xf8E4M3FN> {flamia.original = "v_bf16", flamia.original_factor = "f"}, %vs: memref<?x?x512xf8E8M0FNU>, %v_bf16: memref<?x2x64xbf16>,
    %f: memref<?x2xf32>, %o: memref<?x64xf32> {flamia.depends = {v = "<=", w = "any"}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x64xf32>
  %p = flamia.load_scaled %w[%c0, %c0], %ws[%c0, %c0] along cols : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !p
  %u = flamia.load_scaled %v[%c0, %c0, %c0], %vs[%c0, %c0] along rows : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  %d = flamia.dot %p, %u, %z : !p, !v -> tensor<128x64xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}
