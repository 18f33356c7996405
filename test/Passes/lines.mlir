// Column vectors of whole rows that lie where scales loaded beside them lie are bulk copies of
// the load role; threads read them from shared memory.

// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline),canonicalize,cse)" | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline,canonicalize,cse,flamia-split-columns))" | FileCheck %s --check-prefix=SPLIT

!f = tensor<128x128xf32>
!line = tensor<1x128xf32>
!data = memref<?x128xf8E4M3FN>
!scale = memref<?x?x512xf8E8M0FNU>
!tile = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!tileT = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>

// CHECK-LABEL: flamia.kernel @bias
// CHECK: %[[LINE:.*]] = tcgen.alloc : !tcgen.buffer<smem, line, 2 x 1x128xf32>
// CHECK-NEXT: %[[CH:.*]] = tcgen.channel slots 2 full 1 empty 4
// CHECK: tcgen.role "vector" warps 4 {
// CHECK-NOT: flamia.load
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = tcgen.wait %[[CH]]
// CHECK-NEXT: tcgen.read %[[LINE]][%[[SLOT]]] : !tcgen.buffer<smem, line, 2 x 1x128xf32> -> tensor<1x128xf32>
// CHECK-NEXT: tcgen.release %[[CH]][%[[SLOT]]] by threads
// CHECK: tcgen.role "load" warps 1 {
// CHECK: scf.for
// CHECK: %[[FREE:.*]] = tcgen.acquire %[[CH]]
// CHECK-NEXT: tcgen.expect %[[CH]][%[[FREE]]] bytes 512
// CHECK-NEXT: tcgen.bulk_load %v[%{{.*}}, %{{.*}}], %[[LINE]][%[[FREE]]] signals %[[CH]]

// Chunks are read where they are needed; the slot is released behind the last.
// SPLIT-LABEL: flamia.kernel @bias
// SPLIT: tcgen.role "vector" warps 4 {
// SPLIT: scf.for
// SPLIT: %[[SLOT:.*]] = tcgen.wait
// SPLIT: tcgen.wait
// SPLIT: tcgen.read %[[LINE:.*]][%[[SLOT]]] : !tcgen.buffer<smem, line, 2 x 1x128xf32> -> tensor<1x16xf32>
// SPLIT-NOT: tcgen.release %{{.*}}[%[[SLOT]]]
// SPLIT: tcgen.read %[[LINE]][%[[SLOT]]] col 112
// SPLIT: tcgen.release %{{.*}}[%[[SLOT]]] by threads
// SPLIT: tcgen.role "load"
flamia.kernel @bias(%a: !data {flamia.dims = ["rows", "cols"]}, %s: !scale {flamia.dims = ["tiles", "heads", "atom"]},
    %v: memref<?x?x128xf32> {flamia.dims = ["tiles", "heads", "lanes"]}, %o: memref<?x128xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !f
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!f) {
    %at = arith.muli %i, %c128 : index
    %t = flamia.load_scaled %a[%at, %c0], %s[%i, %c0] along cols : !data, !scale -> !tile
    %l = flamia.load %v[%i, %c0, %c0] : memref<?x?x128xf32> -> !line
    %tT = flamia.transpose %t : !tile -> !tileT
    %d = flamia.dot %t, %tT, %zero : !tile, !tileT -> !f
    %b = flamia.broadcast %l : !line -> !f
    %x = arith.addf %d, %b : !f
    %next = arith.addf %x, %sum : !f
    scf.yield %next : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, memref<?x128xf32>
  flamia.return
}

// Threads load what is not known to lie inside its tensor as the scales do: in another place,
// in a tensor of other dimensions, part of a row, rows with a limit.
// CHECK-LABEL: flamia.kernel @elsewhere
// CHECK-NOT: smem, line
// CHECK: tcgen.role "vector" warps 4 {
// CHECK: flamia.load %v[
// CHECK: flamia.load %w[
// CHECK: flamia.load %v[
// CHECK: flamia.load %v[{{.*}} limit
// CHECK: tcgen.role "load" warps 1 {
// CHECK-NOT: tcgen.bulk_load %v
// CHECK-NOT: tcgen.bulk_load %w
// CHECK: flamia.return
flamia.kernel @elsewhere(%a: !data {flamia.dims = ["rows", "cols"]}, %s: !scale {flamia.dims = ["tiles", "heads", "atom"]},
    %v: memref<?x?x128xf32> {flamia.dims = ["tiles", "heads", "lanes"]},
    %w: memref<?x?x128xf32> {flamia.dims = ["tiles", "kv_heads", "lanes"]}, %o: memref<?x128xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !f
  %at = arith.muli %n, %c128 : index
  %after = arith.addi %n, %c1 : index
  %t = flamia.load_scaled %a[%at, %c0], %s[%n, %c0] along cols : !data, !scale -> !tile
  %l0 = flamia.load %v[%after, %c0, %c0] : memref<?x?x128xf32> -> !line
  %l1 = flamia.load %w[%n, %c0, %c0] : memref<?x?x128xf32> -> !line
  %half = flamia.load %v[%n, %c0, %c64] : memref<?x?x128xf32> -> tensor<1x64xf32>
  %l2 = flamia.load %v[%n, %c0, %c0] limit %c1 : memref<?x?x128xf32> -> !line
  %tT = flamia.transpose %t : !tile -> !tileT
  %d = flamia.dot %t, %tT, %zero : !tile, !tileT -> !f
  %sum = arith.addf %l0, %l1 : !line
  %all = arith.addf %sum, %l2 : !line
  %b = flamia.broadcast %all : !line -> !f
  %x = arith.addf %d, %b : !f
  flamia.store %x, %o[%c0, %c0] : !f, memref<?x128xf32>
  %halves = flamia.broadcast %half : tensor<1x64xf32> -> tensor<128x64xf32>
  flamia.store %halves, %o[%c128, %c0] : tensor<128x64xf32>, memref<?x128xf32>
  flamia.return
}
