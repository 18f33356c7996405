// Products that need no vector code are issued before those of their iteration that do, and
// one iteration ahead; the slot of a payload that later products of the iteration share is
// carried into it.

// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline),canonicalize,cse)" -split-input-file | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline{max-stages=1}),canonicalize,cse)" -split-input-file | FileCheck %s --check-prefix=ONE

!f = tensor<128x128xf32>
!t = tensor<128x128xbf16>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>

// Two results that vector code needs one after the other, two accumulators: tensor memory has
// room for one result, so they take turns. dp(n) follows the reading of s(n) and does not wait
// for p(n); s(n + 1) follows that of dp(n) and does not wait for ds(n).
// CHECK-LABEL: flamia.kernel @gradients
// CHECK: %[[QCH:.*]] = tcgen.channel slots 4 full 1 empty 1 {tcgen.min_slots = 2 : i64}
// CHECK: tcgen.role "mma" warps 1 {
// CHECK: %[[FIRST:.*]] = scf.if %{{.*}} -> (index) {
// CHECK:   %[[Q0:.*]] = tcgen.wait %[[QCH]]
// CHECK:   tcgen.mma %[[X:[0-9]+]][%{{.*}}], %{{.*}}, %[[Q:.*]][%[[Q0]]] major k accumulate %false
// CHECK:   scf.yield %[[Q0]]
// CHECK: scf.for {{.*}} iter_args(%[[HELD:.*]] = %[[FIRST]]) -> (index)
// dp(n), dv(n)
// CHECK:   tcgen.acquire
// CHECK-NEXT: tcgen.mma %[[X]]{{.*}} major k accumulate %false
// CHECK:   tcgen.mma %[[DV:[0-9]+]][{{.*}} major mn
// s(n + 1)
// CHECK:   %[[NEXT:.*]] = scf.if %{{.*}} -> (index) {
// CHECK:     %[[Q1:.*]] = tcgen.wait %[[QCH]]
// CHECK:     tcgen.mma %[[X]]{{.*}}, %[[Q]][%[[Q1]]] major k accumulate %false
// CHECK:     scf.yield %[[Q1]]
// dk(n)
// CHECK:   tcgen.mma %[[DK:[0-9]+]][{{.*}}, %[[Q]][%[[HELD]]] major mn
// CHECK:   tcgen.release %[[QCH]][%[[HELD]]] by mma
// CHECK:   scf.yield %[[NEXT]]
// CHECK: tcgen.drain

// A ring of one slot cannot hold the tile of the next iteration besides: s(n + 1) waits.
// ONE-LABEL: flamia.kernel @gradients
// ONE-NOT: tcgen.min_slots
// ONE: tcgen.role "mma" warps 1 {
// ONE-NOT: tcgen.mma
// ONE: scf.for
// ONE-COUNT-2: tcgen.mma %[[X:[0-9]+]][{{.*}} major k
// ONE-NOT: major k
// ONE: tcgen.mma {{.*}} major mn
// ONE: tcgen.mma {{.*}} major mn
// ONE: tcgen.drain
flamia.kernel @gradients(%k: !m, %v: !m, %q: !m, %do: !m, %ok: !o, %ov: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !f
  %tk = flamia.load %k[%c0, %c0] : !m -> !t
  %tv = flamia.load %v[%c0, %c0] : !m -> !t
  %sums:2 = scf.for %i = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero) -> (!f, !f) {
    %tq = flamia.load %q[%i, %c0] : !m -> !t
    %tdo = flamia.load %do[%i, %c0] : !m -> !t
    %tqT = flamia.transpose %tq : !t -> !t
    %s = flamia.dot %tk, %tqT, %zero : !t, !t -> !f
    %p = math.exp2 %s : !f
    %pb = arith.truncf %p : !f to !t
    %dv1 = flamia.dot %pb, %tdo, %dv : !t, !t -> !f
    %tdoT = flamia.transpose %tdo : !t -> !t
    %dp = flamia.dot %tv, %tdoT, %zero : !t, !t -> !f
    %ds = arith.mulf %p, %dp : !f
    %dsb = arith.truncf %ds : !f to !t
    %dk1 = flamia.dot %dsb, %tq, %dk : !t, !t -> !f
    scf.yield %dk1, %dv1 : !f, !f
  }
  flamia.store %sums#0, %ok[%c0, %c0] : !f, !o
  flamia.store %sums#1, %ov[%c0, %c0] : !f, !o
  flamia.return
}

// -----

!f = tensor<128x128xf32>
!t = tensor<128x128xbf16>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>

// With room for both results: s(n + 1) comes before dq(n), which waits for vector code;
// dp(n + 1), which is not needed as soon, behind it.
// CHECK-LABEL: flamia.kernel @query
// CHECK: tcgen.role "mma" warps 1 {
// CHECK: scf.if
// CHECK:   tcgen.mma %[[S:[0-9]+]][%{{.*}}], {{.*}} major k
// CHECK:   tcgen.mma %[[DP:[0-9]+]][%{{.*}}], {{.*}} major k
// CHECK: scf.for {{.*}} iter_args(%[[HELD:.*]] =
// CHECK:   scf.if
// CHECK:     tcgen.mma %[[S]][
// CHECK:   tcgen.mma %{{.*}}, %{{.*}}, %{{.*}}[%[[HELD]]] major mn
// CHECK:   scf.if
// CHECK:     tcgen.mma %[[DP]][
// CHECK: tcgen.drain
flamia.kernel @query(%k: !m, %v: !m, %q: !m, %do: !m, %oq: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !f
  %tq = flamia.load %q[%c0, %c0] : !m -> !t
  %tdo = flamia.load %do[%c0, %c0] : !m -> !t
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%dq = %zero) -> (!f) {
    %tk = flamia.load %k[%i, %c0] : !m -> !t
    %tv = flamia.load %v[%i, %c0] : !m -> !t
    %tkT = flamia.transpose %tk : !t -> !t
    %tvT = flamia.transpose %tv : !t -> !t
    %s = flamia.dot %tq, %tkT, %zero : !t, !t -> !f
    %p = math.exp2 %s : !f
    %dp = flamia.dot %tdo, %tvT, %zero : !t, !t -> !f
    %ds = arith.mulf %p, %dp : !f
    %dsb = arith.truncf %ds : !f to !t
    %dq1 = flamia.dot %dsb, %tk, %dq : !t, !t -> !f
    scf.yield %dq1 : !f
  }
  flamia.store %sum, %oq[%c0, %c0] : !f, !o
  flamia.return
}

// -----

!f = tensor<128x128xf32>
!t = tensor<128x128xbf16>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>
// A tile before the loop: the loop's first product is issued before dv0, which waits for vector
// code (one slot a ring). With rings of more slots, which do not all fit, the loop's q follows do0
// in one ring, so it comes behind dv0, which waits for do0.
// ONE-LABEL: flamia.kernel @first
// ONE: tcgen.role "mma" warps 1 {
// ONE: tcgen.mma %{{.*}} major k accumulate %false
// ONE: scf.if
// ONE: tcgen.mma %{{.*}} major k accumulate %false
// ONE: }
// ONE: tcgen.mma %{{.*}} major mn accumulate %false
// ONE: scf.for
// CHECK-LABEL: flamia.kernel @first
// CHECK: tcgen.role "mma" warps 1 {
// CHECK: tcgen.mma %{{.*}} major k accumulate %false
// CHECK: %[[SLOT:.*]] = tcgen.wait %[[RING:.*]]
// CHECK: tcgen.mma %{{.*}}[%[[SLOT]]] major mn accumulate %false
// CHECK: scf.if
// CHECK: tcgen.wait %[[RING]]
// CHECK: tcgen.mma %{{.*}} major k accumulate %false
// CHECK: scf.for
flamia.kernel @first(%k: !m, %q: !m, %do: !m, %ok: !o, %ov: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !f
  %tk = flamia.load %k[%c0, %c0] : !m -> !t
  %q0 = flamia.load %q[%c0, %c0] : !m -> !t
  %do0 = flamia.load %do[%c0, %c0] : !m -> !t
  %q0T = flamia.transpose %q0 : !t -> !t
  %s0 = flamia.dot %tk, %q0T, %zero : !t, !t -> !f
  %p0 = math.exp2 %s0 : !f
  %pb0 = arith.truncf %p0 : !f to !t
  %dv0 = flamia.dot %pb0, %do0, %zero : !t, !t -> !f
  %end = arith.ceildivui %n, %c128 : index
  %sum = scf.for %i = %c1 to %end step %c1 iter_args(%dv = %dv0) -> (!f) {
    %at = arith.muli %i, %c128 : index
    %tq = flamia.load %q[%at, %c0] : !m -> !t
    %tdo = flamia.load %do[%at, %c0] : !m -> !t
    %tqT = flamia.transpose %tq : !t -> !t
    %s = flamia.dot %tk, %tqT, %zero : !t, !t -> !f
    %p = math.exp2 %s : !f
    %pb = arith.truncf %p : !f to !t
    %dv1 = flamia.dot %pb, %tdo, %dv : !t, !t -> !f
    scf.yield %dv1 : !f
  }
  flamia.store %sum, %ov[%c0, %c0] : !f, !o
  flamia.return
}
