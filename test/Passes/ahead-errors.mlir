// Where memory cannot hold what early products need, they stay in program order, with a remark.

// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline),canonicalize,cse)" -verify-diagnostics | FileCheck %s

!f = tensor<128x128xf32>
!t = tensor<128x128xbf16>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>
// Three accumulators leave room for one result at a time, and none for operands beside it: p and
// ds lie where a result lay, so s(n + 1) cannot be issued before they have been used.
// CHECK-LABEL: flamia.kernel @full
// CHECK: tcgen.role "mma" warps 1 {
// CHECK-NOT: tcgen.mma
// CHECK: scf.for
// CHECK-COUNT-5: tcgen.mma
// CHECK-NOT: tcgen.mma
// CHECK: tcgen.drain
// expected-remark@+1 {{products are issued in program order, not as early as possible: that needs 576 columns of tensor memory; the limit is 512}}
flamia.kernel @full(%k: !m, %v: !m, %q: !m, %do: !m, %ok: !o, %ov: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !f
  %tk = flamia.load %k[%c0, %c0] : !m -> !t
  %tv = flamia.load %v[%c0, %c0] : !m -> !t
  %sums:3 = scf.for %i = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero, %du = %zero) -> (!f, !f, !f) {
    %tq = flamia.load %q[%i, %c0] : !m -> !t
    %tdo = flamia.load %do[%i, %c0] : !m -> !t
    %tqT = flamia.transpose %tq : !t -> !t
    %s = flamia.dot %tk, %tqT, %zero : !t, !t -> !f
    %p = math.exp2 %s : !f
    %pb = arith.truncf %p : !f to !t
    %dv1 = flamia.dot %pb, %tdo, %dv : !t, !t -> !f
    %tdoT = flamia.transpose %tdo : !t -> !t
    %dp = flamia.dot %tv, %tdoT, %zero : !t, !t -> !f
    %dsb = arith.truncf %dp : !f to !t
    %dk1 = flamia.dot %dsb, %tq, %dk : !t, !t -> !f
    %du1 = flamia.dot %dsb, %tk, %du : !t, !t -> !f
    scf.yield %dk1, %dv1, %du1 : !f, !f, !f
  }
  flamia.store %sums#0, %ok[%c0, %c0] : !f, !o
  flamia.store %sums#1, %ov[%c0, %c0] : !f, !o
  flamia.store %sums#2, %ov[%n, %c0] : !f, !o
  flamia.return
}
