// RUN: flamia-opt %s --convert-flamia-to-nvvm --split-input-file | FileCheck %s

// Two waits in a row share the fence behind the second; two arrivals with nothing but vector
// code between them share the one in front of the first.
// CHECK-LABEL: llvm.func @shared
// CHECK: nvvm.mbarrier.try_wait
// CHECK-NOT: nvvm.tcgen05.fence
// CHECK: nvvm.mbarrier.try_wait
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: nvvm.tcgen05.ld
// CHECK: nvvm.tcgen05.fence <before>
// CHECK: nvvm.mbarrier.arrive
// CHECK-NOT: nvvm.tcgen05.fence
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.tcgen05.fence <before>
// CHECK-NEXT: nvvm.barrier
flamia.kernel @shared(%o: memref<?x32xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %d = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  %l = tcgen.alloc offset 0 : !tcgen.buffer<smem, line, 1 x 1x128xf32>
  %lines = tcgen.channel slots 1 full 1 empty 4
  %out = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %j = tcgen.wait %lines
    %i = tcgen.wait %out
    %t = tcgen.read %d[%i] : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32> -> tensor<128x32xf32>
    tcgen.release %out[%i] by threads
    tcgen.release %lines[%j] by threads
    flamia.store %t, %o[%c0, %c0] : tensor<128x32xf32>, memref<?x32xf32>
  }
  flamia.return
}

// -----

// Not so where tensor memory is read between: every wait and every arrival has its own. Nor
// where a loop, which may not run, stands between two waits.
// CHECK-LABEL: llvm.func @separate
// CHECK: nvvm.mbarrier.try_wait
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: nvvm.tcgen05.ld
// CHECK: nvvm.tcgen05.fence <before>
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.mbarrier.try_wait
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: nvvm.tcgen05.ld
// CHECK: nvvm.tcgen05.fence <before>
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.mbarrier.try_wait
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: nvvm.tcgen05.ld
flamia.kernel @separate(%o: memref<?x32xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  %f = tcgen.alloc offset 32 : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  %a = tcgen.channel slots 1 full 1 empty 4
  %b = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %i = tcgen.wait %a
    %s = tcgen.read %d[%i] : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32> -> tensor<128x32xf32>
    tcgen.release %a[%i] by threads
    %j = tcgen.wait %b
    %t = tcgen.read %f[%j] : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32> -> tensor<128x32xf32>
    tcgen.release %b[%j] by threads
    %k = tcgen.wait %a
    scf.for %x = %c0 to %n step %c1 {
      %m = tcgen.wait %b
      %u = tcgen.read %f[%m] : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32> -> tensor<128x32xf32>
      tcgen.release %b[%m] by threads
      flamia.store %u, %o[%c0, %c0] : tensor<128x32xf32>, memref<?x32xf32>
    }
    tcgen.release %a[%k] by threads
    flamia.store %s, %o[%c0, %c0] : tensor<128x32xf32>, memref<?x32xf32>
    flamia.store %t, %o[%c0, %c0] : tensor<128x32xf32>, memref<?x32xf32>
  }
  flamia.return
}
