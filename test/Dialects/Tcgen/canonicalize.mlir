// RUN: flamia-opt %s --canonicalize --cse | FileCheck %s

// What nothing uses disappears; what others may see stays.
// CHECK-LABEL: flamia.kernel @unused
flamia.kernel @unused(%o: memref<?x128xf32>) parameters {} grid(1) {
  // CHECK-NOT: smem
  // CHECK: tcgen.alloc : !tcgen.buffer<tmem
  // CHECK-NEXT: tcgen.channel slots 1 full 4 empty 1
  // CHECK-NEXT: tcgen.role
  %unused = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %unused_channel = tcgen.channel slots 1 full 1 empty 1
  %buffer = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %channel = tcgen.channel slots 1 full 4 empty 1
  %zeros = arith.constant dense<0.0> : tensor<128x128xf32>
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    // CHECK-NEXT: tcgen.wait
    %slot = tcgen.wait %channel
    // CHECK-NOT: tcgen.read
    %dead = tcgen.read %buffer[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    // CHECK: tcgen.write
    tcgen.write %zeros, %buffer[%slot] : tensor<128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
    // CHECK: tcgen.publish
    tcgen.publish %channel[%slot] by threads
  }
  flamia.return
}

// A signal or a wait between two reads keeps them apart.
// CHECK-LABEL: flamia.kernel @reads
flamia.kernel @reads(%o: memref<?x128xf32>) parameters {} grid(1) {
  %buffer = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %channel = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    // CHECK: %[[FIRST:.*]] = tcgen.read
    %a = tcgen.read %buffer[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    // CHECK-NOT: tcgen.read
    // CHECK: tcgen.wait
    %b = tcgen.read %buffer[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    %slot = tcgen.wait %channel
    // CHECK: %[[SECOND:.*]] = tcgen.read
    %c = tcgen.read %buffer[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    // CHECK: arith.addf %[[FIRST]], %[[FIRST]]
    %ab = arith.addf %a, %b : tensor<128x128xf32>
    // CHECK: arith.addf %{{.*}}, %[[SECOND]]
    %abc = arith.addf %ab, %c : tensor<128x128xf32>
    flamia.store %abc, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  }
  flamia.return
}
