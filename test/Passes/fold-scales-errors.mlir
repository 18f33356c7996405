// RUN: flamia-opt %s --flamia-fold-scales --split-input-file --verify-diagnostics -o /dev/null

!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
flamia.kernel @unbound(%d: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{extents of '!flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>' are not bound: run flamia-specialize first}}
  %t = flamia.load_scaled %d[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !local
  flamia.return
}
