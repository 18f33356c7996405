// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-skip-rescaling))" | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-skip-rescaling))" | flamia-opt --flamia-to-llvm | FileCheck %s --check-prefix=LLVM

!t = tensor<128x128xf32>
!row = tensor<128x1xf32>
!acc = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>

// Each warp decides for its own rows.
// CHECK-LABEL: flamia.kernel @rescale
// LLVM-LABEL: llvm.func @rescale
flamia.kernel @rescale(%x: memref<128x1xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tcgen.alloc offset 0 : !acc
  tcgen.role "vector" warps 4 {
    %alpha = flamia.load %x[%c0, %c0] : memref<128x1xf32> -> !row
    scf.for %i = %c0 to %n step %c1 {
      // CHECK: scf.for
      // CHECK-NEXT: %[[DIFFERS:.*]] = tcgen.any_differs %{{.*}} from 1.000000e+00 : tensor<128x1xf32>
      // CHECK-NEXT: scf.if %[[DIFFERS]] {
      // CHECK-NEXT: flamia.broadcast
      // CHECK-NEXT: tcgen.read
      // CHECK-NEXT: arith.mulf
      // CHECK-NEXT: tcgen.write
      // CHECK-NEXT: }
      // LLVM: %[[NE:.*]] = llvm.fcmp "une"
      // LLVM: %[[ANY:.*]] = nvvm.vote.sync any %{{.*}}, %[[NE]] -> i1
      // LLVM: llvm.cond_br %[[ANY]]
      // LLVM: nvvm.tcgen05.ld
      %alphas = flamia.broadcast %alpha : !row -> !t
      %o = tcgen.read %a[%c0] : !acc -> !t
      %r = arith.mulf %o, %alphas : !t
      tcgen.write %r, %a[%c0] : !t, !acc
    }
  }
  flamia.return
}

// What stays: another reader of the product, a factor for each column, a signal in between.
// CHECK-LABEL: flamia.kernel @other
// CHECK-NOT: tcgen.any_differs
flamia.kernel @other(%x: memref<128x1xf32>, %y: memref<1x128xf32>, %z: memref<128x128xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tcgen.alloc offset 0 : !acc
  %ch = tcgen.channel slots 1 full 4 empty 4
  tcgen.role "vector" warps 4 {
    %alpha = flamia.load %x[%c0, %c0] : memref<128x1xf32> -> !row
    %line = flamia.load %y[%c0, %c0] : memref<1x128xf32> -> tensor<1x128xf32>
    %alphas = flamia.broadcast %alpha : !row -> !t
    %lines = flamia.broadcast %line : tensor<1x128xf32> -> !t
    scf.for %i = %c0 to %n step %c1 {
      %o = tcgen.read %a[%c0] : !acc -> !t
      %r = arith.mulf %o, %alphas : !t
      tcgen.write %r, %a[%c0] : !t, !acc
      flamia.store %r, %z[%c0, %c0] : !t, memref<128x128xf32>
      %o1 = tcgen.read %a[%c0] : !acc -> !t
      %r1 = arith.mulf %o1, %lines : !t
      tcgen.write %r1, %a[%c0] : !t, !acc
      %o2 = tcgen.read %a[%c0] : !acc -> !t
      tcgen.publish %ch[%c0] by threads
      %r2 = arith.mulf %o2, %alphas : !t
      tcgen.write %r2, %a[%c0] : !t, !acc
    }
  }
  flamia.return
}
