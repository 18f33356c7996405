// RUN: flamia-opt %s --flamia-fold-scales --split-input-file --verify-diagnostics -o /dev/null

!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
flamia.kernel @unbound(%d: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{extents of '!flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>' are not bound: run flamia-specialize first}}
  %t = flamia.load_scaled %d[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !local
  flamia.return
}

// -----

// Scales of NVFP4 are no powers of two: a product over tokens that would need them folded has no cure.
!local = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
!turned = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
flamia.kernel @nvfp4_over_tokens(%w: memref<?x?x128xf4E2M1FN>, %ws: memref<?x?x2x512xf8E4M3FN>, %k: memref<?x?x128xf4E2M1FN>, %s: memref<?x?x2x512xf8E4M3FN>, %o: memref<?x128xf32>) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %p = flamia.load_scaled %w[%c0, %c0, %c0], %ws[%c0, %c0] along cols : memref<?x?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !local
  %t = flamia.load_scaled %k[%c0, %c0, %c0], %s[%c0, %c0] along cols : memref<?x?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !local
  // expected-error @+1 {{operand 'b' is summed over tokens with scales of their own, which cannot be folded: f8E4M3FN scales are no powers of two; got '!flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>'}}
  %d = flamia.dot %p, %t, %zero : !local, !local -> tensor<128x128xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  %tT = flamia.transpose %t : !local -> !turned
  // expected-error @+1 {{operand 'a' is summed over tokens with scales of their own, which cannot be folded}}
  %e = flamia.dot %tT, %tT, %zero : !turned, !turned -> tensor<128x128xf32>
  flamia.store %e, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}
