// RUN: flamia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: flamia.kernel @dim_static
flamia.kernel @dim_static(%x: memref<?x64xf32>, %y: memref<?x?xf32>) parameters {} grid(1) {
  // CHECK: %[[C64:.*]] = arith.constant 64 : index
  // CHECK: %[[ROWS:.*]] = flamia.dim %x[0]
  // CHECK: flamia.load %y[%[[ROWS]], %[[C64]]]
  %rows = flamia.dim %x[0] : memref<?x64xf32>
  %cols = flamia.dim %x[1] : memref<?x64xf32>
  %t = flamia.load %y[%rows, %cols] : memref<?x?xf32> -> tensor<128x32xf32>
  flamia.store %t, %y[%rows, %cols] : tensor<128x32xf32>, memref<?x?xf32>
  flamia.return
}

// CHECK-LABEL: flamia.kernel @transpose_twice
flamia.kernel @transpose_twice(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[T:.*]] = flamia.load
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x32xf32>
  %u = flamia.transpose %t : tensor<128x32xf32> -> tensor<32x128xf32>
  %v = flamia.transpose %u : tensor<32x128xf32> -> tensor<128x32xf32>
  // CHECK-NEXT: flamia.store %[[T]]
  flamia.store %v, %x[%c0, %c0] : tensor<128x32xf32>, memref<?x?xf32>
  flamia.return
}

// CHECK-LABEL: flamia.kernel @broadcast_same
flamia.kernel @broadcast_same(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[T:.*]] = flamia.load
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x32xf32>
  %u = flamia.broadcast %t : tensor<128x32xf32> -> tensor<128x32xf32>
  // CHECK-NEXT: flamia.store %[[T]]
  flamia.store %u, %x[%c0, %c0] : tensor<128x32xf32>, memref<?x?xf32>
  flamia.return
}

// CHECK-LABEL: flamia.kernel @broadcast_of_full
flamia.kernel @broadcast_of_full(%x: memref<?x?xf32>, %value: f32) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.full %value : tensor<128x1xf32>
  %u = flamia.broadcast %t : tensor<128x1xf32> -> tensor<128x32xf32>
  // CHECK: %[[T:.*]] = flamia.full %value : tensor<128x32xf32>
  // CHECK-NEXT: flamia.store %[[T]]
  flamia.store %u, %x[%c0, %c0] : tensor<128x32xf32>, memref<?x?xf32>
  flamia.return
}

// A mask without a condition keeps everything; one with a condition stays.
// CHECK-LABEL: flamia.kernel @mask_nothing
flamia.kernel @mask_nothing(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[T:.*]] = flamia.load
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x32xf32>
  %u = flamia.mask %t rows %c0 cols %c0 : tensor<128x32xf32>
  // CHECK-NEXT: %[[M:.*]] = flamia.mask %[[T]] rows %{{.*}} cols %{{.*}} causal
  %m = flamia.mask %u rows %c0 cols %c0 causal : tensor<128x32xf32>
  // CHECK-NEXT: flamia.store %[[M]]
  flamia.store %m, %x[%c0, %c0] : tensor<128x32xf32>, memref<?x?xf32>
  flamia.return
}

// A load whose result nobody uses goes away, a store does not.
// CHECK-LABEL: flamia.kernel @dead_load
flamia.kernel @dead_load(%x: memref<?x?xf32>) parameters {} grid(1) {
  // CHECK-NOT: flamia.load
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x32xf32>
  // CHECK: flamia.return
  flamia.return
}
