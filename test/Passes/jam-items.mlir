// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-jam-items),canonicalize,cse)" | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-jam-items),canonicalize,cse,flamia.kernel(flamia-assign-roles,flamia-pipeline),canonicalize,cse)" | FileCheck %s --check-prefix=ROLES

!tile = tensor<128x128xbf16>
!tensor = memref<?x?x128xbf16>
!scores = tensor<128x128xf32>

// Two query heads of one kv head: the loop is one, and so are the loads of %k and %v. Each head has
// its own products and vector code.
// CHECK-LABEL: flamia.kernel @scores
// CHECK-SAME: grid(q[0] ceildiv 128, o[1] ceildiv 2)
// CHECK-SAME: flamia.requires = {{\[\[}}"q", 1, 2, "k", 1]]
flamia.kernel @scores(%q: !tensor {flamia.dims = ["tokens", "heads", "d"]}, %k: !tensor {flamia.dims = ["tokens", "kv_heads", "d"]},
    %v: !tensor {flamia.dims = ["tokens", "kv_heads", "d"]}, %o: !tensor {flamia.dims = ["tokens", "heads", "d"]}, %n: index) parameters {slots = 2 : i64}
    grid(q[0] ceildiv 128, o[1]) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !scores
  %heads = flamia.dim %q[1] : !tensor
  %kv_heads = flamia.dim %k[1] : !tensor
  %group = arith.divui %heads, %kv_heads {flamia.multiple_of = "slots"} : index
  // CHECK: %[[PAIR:.*]] = flamia.program_id y
  // CHECK: %[[HEAD0:.*]] = arith.muli %[[PAIR]], %c2
  // CHECK: %[[HEAD1:.*]] = arith.addi %[[HEAD0]], %c1
  %head = flamia.program_id y
  // CHECK: %[[KV:.*]] = arith.divui %[[HEAD0]], %{{.*}} : index
  // CHECK-NOT: arith.divui
  %kv_head = arith.divui %head, %group : index
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  // CHECK: %[[Q0:.*]] = flamia.load %q[%{{.*}}, %[[HEAD0]], %c0] {flamia.slot = 0 : i64}
  // CHECK: %[[Q1:.*]] = flamia.load %q[%{{.*}}, %[[HEAD1]], %c0] {flamia.slot = 1 : i64}
  %tq = flamia.load %q[%row, %head, %c0] : !tensor -> !tile
  // CHECK: %[[SUM:.*]]:2 = scf.for {{.*}} iter_args(%[[A0:.*]] = %{{.*}}, %[[A1:.*]] = %{{.*}})
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!scores) {
    %at = arith.muli %i, %c128 : index
    // CHECK: %[[K:.*]] = flamia.load %k[%{{.*}}, %[[KV]], %c0] :
    %tk = flamia.load %k[%at, %kv_head, %c0] : !tensor -> !tile
    %kT = flamia.transpose %tk : !tile -> !tile
    // CHECK: %[[S0:.*]] = flamia.dot %[[Q0]], %{{.*}} {flamia.slot = 0 : i64}
    // CHECK: %[[S1:.*]] = flamia.dot %[[Q1]], %{{.*}} {flamia.slot = 1 : i64}
    %s = flamia.dot %tq, %kT, %zero : !tile, !tile -> !scores
    // CHECK: %[[E0:.*]] = math.exp2 %[[S0]] {flamia.slot = 0 : i64}
    // CHECK: %[[E1:.*]] = math.exp2 %[[S1]] {flamia.slot = 1 : i64}
    %e = math.exp2 %s : !scores
    %p = arith.truncf %e : !scores to !tile
    // CHECK: flamia.load %v
    // CHECK-NOT: flamia.load
    %tv = flamia.load %v[%at, %kv_head, %c0] : !tensor -> !tile
    %next = flamia.dot %p, %tv, %acc : !tile, !tile -> !scores
    scf.yield %next : !scores
  }
  // CHECK: flamia.store %{{.*}}, %o[%{{.*}}, %[[HEAD0]], %c0] {flamia.slot = 0 : i64}
  // CHECK: flamia.store %{{.*}}, %o[%{{.*}}, %[[HEAD1]], %c0] {flamia.slot = 1 : i64}
  %result = arith.truncf %sum : !scores to !tile
  flamia.store %result, %o[%row, %head, %c0] : !tile, !tensor
  flamia.return
}

// A vector role for each head. The next scores of a head come before its weights are used.
// Scores and outputs fill tensor memory, so weights lie in the other head's scores: the mma
// role says when these were read.
// ROLES-LABEL: flamia.kernel @scores
// ROLES: tcgen.role "vector0" warps 4
// ROLES: scf.for
// ROLES: tcgen.release %{{.*}} by threads
// ROLES: math.exp2
// ROLES: tcgen.wait %[[GRANT0:[0-9]+]]
// ROLES-NEXT: tcgen.acquire %[[WEIGHTS0:[0-9]+]]
// ROLES: tcgen.publish %[[WEIGHTS0]]
// ROLES: tcgen.role "vector1" warps 4
// ROLES: scf.for
// ROLES: tcgen.release %{{.*}} by threads
// ROLES: tcgen.wait %[[GRANT1:[0-9]+]]
// ROLES-NEXT: tcgen.acquire
// ROLES: tcgen.role "load" warps 1
// ROLES: tcgen.role "mma" warps 1
// ROLES: tcgen.acquire %[[READ0:[0-9]+]]
// ROLES: tcgen.mma %[[S0:[0-9]+]]{{.*}} major k
// ROLES: tcgen.acquire %[[READ1:[0-9]+]]
// ROLES: tcgen.mma %[[S1:[0-9]+]]{{.*}} major k
// ROLES: scf.for
// ROLES: scf.if %[[MORE:.*]] -> (index)
// ROLES: %[[SLOT:.*]] = tcgen.wait
// ROLES: tcgen.mma %[[S0]]{{.*}} major k
// ROLES: scf.yield %[[SLOT]]
// ROLES: tcgen.drained %[[READ1]]
// ROLES-NEXT: tcgen.publish %[[GRANT0]][%{{.*}}] by threads
// ROLES: tcgen.wait %[[WEIGHTS0]]
// ROLES: tcgen.mma %[[O0:[0-9]+]]{{.*}} major mn
// ROLES: scf.if %[[MORE]] {
// ROLES: tcgen.mma %[[S1]]{{.*}} major k
// ROLES: tcgen.drained %[[READ0]]
// ROLES-NEXT: tcgen.publish %[[GRANT1]][%{{.*}}] by threads
// ROLES: tcgen.mma %[[O1:[0-9]+]]{{.*}} major mn

// One item a CTA: nothing to do.
// CHECK-LABEL: flamia.kernel @single
// CHECK-SAME: grid(1, 16)
// CHECK-NOT: flamia.slot =
flamia.kernel @single(%x: memref<128x16x128xbf16>, %y: memref<128x16x128xbf16>) parameters {slots = 1 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %head = flamia.program_id y
  %t = flamia.load %x[%c0, %head, %c0] : memref<128x16x128xbf16> -> !tile
  flamia.store %t, %y[%c0, %head, %c0] : !tile, memref<128x16x128xbf16>
  flamia.return
}

// A constant grid.
// CHECK-LABEL: flamia.kernel @copy
// CHECK-SAME: grid(1, 8)
// CHECK: flamia.store {{.*}}flamia.slot = 0
// CHECK: flamia.store {{.*}}flamia.slot = 1
flamia.kernel @copy(%x: memref<128x16x128xbf16>, %y: memref<128x16x128xbf16>) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %head = flamia.program_id y
  %t = flamia.load %x[%c0, %head, %c0] : memref<128x16x128xbf16> -> !tile
  flamia.store %t, %y[%c0, %head, %c0] : !tile, memref<128x16x128xbf16>
  flamia.return
}
