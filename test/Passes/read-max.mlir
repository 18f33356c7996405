// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-read-max))" | FileCheck %s

!t = tensor<128x128xf32>
!row = tensor<128x1xf32>
!acc = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>

// CHECK-LABEL: flamia.kernel @max
flamia.kernel @max(%y: memref<128x1xf32>, %z: memref<128x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc offset 0 : !acc
  tcgen.role "vector" warps 4 {
    // CHECK: %[[T:.*]], %[[M:.*]] = tcgen.read_max %{{.*}}[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
    // CHECK-NEXT: flamia.store %[[T]]
    // CHECK-NEXT: flamia.store %[[M]]
    %t = tcgen.read %a[%c0] : !acc -> !t
    flamia.store %t, %z[%c0, %c0] : !t, memref<128x128xf32>
    %m = flamia.reduce max %t : !t -> !row
    flamia.store %m, %y[%c0, %c0] : !row, memref<128x1xf32>
  }
  flamia.return
}

// A mask in between, a sum, shared memory.
// CHECK-LABEL: flamia.kernel @other
// CHECK-NOT: tcgen.read_max
flamia.kernel @other(%y: memref<128x1xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc offset 0 : !acc
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 128x128xf32>
  tcgen.role "vector" warps 4 {
    %t = tcgen.read %a[%c0] : !acc -> !t
    %seen = flamia.mask %t rows %c0 cols %c0 limit %n : !t
    %m = flamia.reduce max %seen : !t -> !row
    %s = flamia.reduce sum %t : !t -> !row
    %u = tcgen.read %b[%c0] : !tcgen.buffer<smem, operand, 1 x 128x128xf32> -> !t
    %v = flamia.reduce max %u : !t -> !row
    %ms = arith.addf %m, %s : !row
    %all = arith.addf %ms, %v : !row
    flamia.store %all, %y[%c0, %c0] : !row, memref<128x1xf32>
  }
  flamia.return
}
