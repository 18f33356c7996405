// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize=params=causal=false --flamia-insert-safeguards --flamia-peel-partial-tiles | FileCheck %s --check-prefix=FULL
// RUN: flamia-opt %s --flamia-peel-partial-tiles | FileCheck %s

// Descending from the document's last tile, which alone may be cut: straight-line code, then
// a loop without masks. A document has at least one tile.
//
// FULL-LABEL: flamia.kernel @attention_fwd
// FULL: flamia.mask {{.*}} limit %
// FULL: flamia.mask {{.*}} limit %
// FULL: scf.for %{{.*}} = %c1 to
// FULL-NOT: flamia.mask
// FULL: scf.yield

// Ascending, and there may be no tile at all: the last iteration stays a loop.
// CHECK-LABEL: flamia.kernel @ascending
flamia.kernel @ascending(%x: memref<?x128xf32>, %y: memref<128x1xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %none = flamia.full %f0 : tensor<128x1xf32>
  %keys = flamia.dim %x[0] : memref<?x128xf32>
  // CHECK: %[[TILES:.*]] = arith.ceildivui
  // CHECK: %[[BEFORE:.*]] = arith.subi %[[TILES]], %c1
  // CHECK: %[[PART:.*]] = scf.for %{{.*}} = %c0 to %[[BEFORE]]
  // CHECK-NOT: flamia.mask
  // CHECK: scf.yield
  // CHECK: %[[FROM:.*]] = arith.maxsi %[[BEFORE]], %c0
  // CHECK: %[[ALL:.*]] = scf.for %{{.*}} = %[[FROM]] to %[[TILES]] step %c1 iter_args(%{{.*}} = %[[PART]])
  // CHECK: flamia.mask {{.*}} limit
  // CHECK: scf.yield
  // CHECK: flamia.store %[[ALL]]
  %tiles = arith.ceildivui %keys, %c128 : index
  %max = scf.for %j = %c0 to %tiles step %c1 iter_args(%m = %none) -> (tensor<128x1xf32>) {
    %key = arith.muli %j, %c128 : index
    %t = flamia.load %x[%key, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
    %seen = flamia.mask %t rows %c0 cols %key limit %keys : tensor<128x128xf32>
    %top = flamia.reduce max %seen : tensor<128x128xf32> -> tensor<128x1xf32>
    %next = arith.maxnumf %m, %top : tensor<128x1xf32>
    scf.yield %next : tensor<128x1xf32>
  }
  flamia.store %max, %y[%c0, %c0] : tensor<128x1xf32>, memref<128x1xf32>
  flamia.return
}

// A window cuts tiles at both ends, a mask outside the loop is nobody's business, and a loop
// without masks has nothing to peel.
// CHECK-LABEL: flamia.kernel @negative_both_ends
flamia.kernel @negative_both_ends(%x: memref<?x128xf32>, %n: index, %y: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %c500 = arith.constant 500 : index
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  // CHECK: scf.for %{{.*}} = %c0 to %n
  // CHECK: flamia.mask {{.*}} causal window
  // CHECK: scf.for %{{.*}} = %c0 to %n
  // CHECK-NOT: scf.for
  // CHECK: flamia.return
  scf.for %j = %c0 to %n step %c1 {
    %key = arith.muli %j, %c128 : index
    %t = flamia.load %x[%key, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
    %seen = flamia.mask %t rows %row cols %key causal window %c500 : tensor<128x128xf32>
    flamia.store %seen, %y[%key, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  }
  scf.for %j = %c0 to %n step %c1 {
    %key = arith.muli %j, %c128 : index
    %t = flamia.load %x[%key, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
    flamia.store %t, %y[%key, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  }
  flamia.return
}
