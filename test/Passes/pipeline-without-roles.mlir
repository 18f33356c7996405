// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-pipeline))" --split-input-file --verify-diagnostics

flamia.kernel @no_roles(%a: memref<?x128xbf16>, %o: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected a role on every tile operation: run flamia-assign-roles first}}
  %t = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  flamia.store %t, %o[%c0, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  flamia.return
}

// -----

flamia.kernel @twice(%n: index) parameters {} grid(1) {
  // expected-error@-1 {{expected a tile program, but the kernel has roles already}}
  tcgen.role "vector" warps 4 {
  }
  flamia.return
}
