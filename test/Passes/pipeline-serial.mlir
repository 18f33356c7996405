// At opt-level 0 one role of four warps does everything in program order and waits for
// each step.

// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles{opt-level=0},flamia-pipeline),canonicalize,cse)" | FileCheck %s

// CHECK-LABEL: flamia.kernel @serial
flamia.kernel @serial(%a: memref<?x128xbf16>, %o: memref<?x128xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  // CHECK: %[[A:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  // CHECK: %[[ACH:.*]] = tcgen.channel slots 1 full 1 empty 1
  // CHECK: %[[D1:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK: %[[D1CH:.*]] = tcgen.channel slots 1 full 1 empty 4
  // CHECK: %[[P:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  // CHECK: %[[PCH:.*]] = tcgen.channel slots 1 full 4 empty 1
  // CHECK: tcgen.role "vector" warps 4 {
  // CHECK: scf.for
  // CHECK-NEXT: tcgen.acquire %[[ACH]]
  // CHECK-NEXT: tcgen.expect %[[ACH]]
  // CHECK-NEXT: tcgen.tma_load
  // CHECK-NEXT: tcgen.wait %[[ACH]]
  // CHECK-NEXT: tcgen.acquire %[[D1CH]]
  // CHECK-NEXT: tcgen.mma %[[D1]]
  // CHECK-NEXT: tcgen.publish %[[D1CH]][%{{.*}}] by mma
  // CHECK-NEXT: tcgen.wait %[[D1CH]]
  // CHECK-NEXT: tcgen.read %[[D1]]
  // CHECK-NEXT: tcgen.release %[[D1CH]][%{{.*}}] by threads
  // CHECK-NEXT: math.exp2
  // CHECK-NEXT: arith.truncf
  // CHECK-NEXT: tcgen.acquire %[[PCH]]
  // CHECK-NEXT: tcgen.write %{{.*}}, %[[P]]
  // CHECK-NEXT: tcgen.publish %[[PCH]][%{{.*}}] by threads
  // CHECK-NEXT: tcgen.wait %[[PCH]]
  // CHECK-NOT: tcgen.role
  // CHECK: tcgen.drain
  scf.for %i = %c0 to %n step %c1 {
    %t = flamia.load %a[%i, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
    %d1 = flamia.dot %t, %t, %zero : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xf32>
    %e = math.exp2 %d1 : tensor<128x128xf32>
    %p = arith.truncf %e : tensor<128x128xf32> to tensor<128x128xbf16>
    %d2 = flamia.dot %p, %t, %zero : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xf32>
    flamia.store %d2, %o[%i, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  }
  flamia.return
}
