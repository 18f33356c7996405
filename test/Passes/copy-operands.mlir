// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-copy-operands))" | FileCheck %s

!image = !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
!ring = !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>
!halves = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
!acc = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!scales = !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>

// The product behind the wait reads shared memory; those of the branch and of the loop the copy.
// CHECK-LABEL: flamia.kernel @row
// CHECK: %[[Q:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
// CHECK-NEXT: %[[ROWS:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
flamia.kernel @row(%n: index) parameters {} grid(1) {
  %q = tcgen.alloc : !image
  %k = tcgen.alloc : !ring
  %s = tcgen.alloc : !acc
  %sq = tcgen.alloc : !scales
  %loaded = tcgen.channel slots 1 full 1 empty 1
  %keys = tcgen.channel slots 2 full 1 empty 1
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %q_free = tcgen.acquire %loaded
    tcgen.publish %loaded[%q_free] by threads
    %first = tcgen.acquire %keys
    tcgen.publish %keys[%first] by threads
    %more = arith.cmpi sgt, %n, %c1 : index
    scf.if %more {
      %free = tcgen.acquire %keys
      tcgen.publish %keys[%free] by threads
    }
    scf.for %i = %c1 to %n step %c1 {
      %free = tcgen.acquire %keys
      tcgen.publish %keys[%free] by threads
    }
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %false = arith.constant false
    // CHECK: %[[SLOT:.*]] = tcgen.wait
    %slot = tcgen.wait %loaded
    %first = tcgen.wait %keys
    // CHECK: tcgen.mma %{{.*}}, %[[Q]][%[[SLOT]]],
    tcgen.mma %s[%c0], %q[%slot], %k[%first] scales %sq[%c0], %sq[%c0] major k accumulate %false : !acc, !image, !ring, !scales, !scales
    tcgen.release %keys[%first] by mma
    %more = arith.cmpi sgt, %n, %c1 : index
    // CHECK: tcgen.copy_operand %[[Q]][%[[SLOT]]], %[[ROWS]][%[[ZERO:.*]]] :
    // CHECK-NEXT: scf.if
    scf.if %more {
      %next = tcgen.wait %keys
      // CHECK: tcgen.mma %{{.*}}, %[[ROWS]][%[[ZERO]]], %{{.*}} : {{.*}}, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>,
      tcgen.mma %s[%c0], %q[%slot], %k[%next] scales %sq[%c0], %sq[%c0] major k accumulate %false : !acc, !image, !ring, !scales, !scales
      tcgen.release %keys[%next] by mma
    }
    // CHECK-NOT: copy_operand
    // CHECK: scf.for
    scf.for %i = %c1 to %n step %c1 {
      // A tile of each iteration's own stays where it is.
      // CHECK: %[[KEY:.*]] = tcgen.wait
      %key = tcgen.wait %keys
      // CHECK: tcgen.mma %{{.*}}, %[[ROWS]][%[[ZERO]]], %[[K:.*]][%[[KEY]]]
      tcgen.mma %s[%c0], %q[%slot], %k[%key] scales %sq[%c0], %sq[%c0] major k accumulate %false : !acc, !image, !ring, !scales, !scales
      // CHECK: tcgen.mma %{{.*}}, %[[K]][%[[KEY]]], %[[Q]][%[[SLOT]]]
      tcgen.mma %s[%c0], %k[%key], %q[%slot] scales %sq[%c0], %sq[%c0] major k accumulate %false : !acc, !ring, !image, !scales, !scales
      tcgen.release %keys[%key] by mma
    }
  }
  flamia.return
}

// Contracted along its rows, of 16 bits, or used outside of loops only: nothing to copy.
// CHECK-LABEL: flamia.kernel @others
// CHECK-NOT: copy_operand
flamia.kernel @others(%n: index) parameters {} grid(1) {
  %q = tcgen.alloc : !image
  %h = tcgen.alloc : !halves
  %k = tcgen.alloc : !ring
  %s = tcgen.alloc : !acc
  %sq = tcgen.alloc : !scales
  %loaded = tcgen.channel slots 1 full 1 empty 1
  %half = tcgen.channel slots 1 full 1 empty 1
  %keys = tcgen.channel slots 2 full 1 empty 1
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %q_free = tcgen.acquire %loaded
    tcgen.publish %loaded[%q_free] by threads
    %h_free = tcgen.acquire %half
    tcgen.publish %half[%h_free] by threads
    scf.for %i = %c0 to %n step %c1 {
      %free = tcgen.acquire %keys
      tcgen.publish %keys[%free] by threads
    }
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %false = arith.constant false
    %slot = tcgen.wait %loaded
    %hslot = tcgen.wait %half
    scf.for %i = %c0 to %n step %c1 {
      %key = tcgen.wait %keys
      tcgen.mma %s[%c0], %q[%slot], %k[%key] scales %sq[%c0], %sq[%c0] major k a_major mn accumulate %false : !acc, !image, !ring, !scales, !scales
      tcgen.mma %s[%c0], %h[%hslot], %h[%hslot] major k accumulate %false : !acc, !halves, !halves
      tcgen.release %keys[%key] by mma
    }
    %more = arith.cmpi sgt, %n, %c1 : index
    scf.if %more {
      tcgen.mma %s[%c0], %q[%slot], %q[%slot] scales %sq[%c0], %sq[%c0] major k accumulate %false : !acc, !image, !image, !scales, !scales
    }
  }
  flamia.return
}

// Results take 496 of 512 columns, each its own.
// CHECK-LABEL: flamia.kernel @full
// CHECK-NOT: copy_operand
flamia.kernel @full(%n: index) parameters {} grid(1) {
  %q = tcgen.alloc : !image
  %k = tcgen.alloc : !ring
  %s = tcgen.alloc : !tcgen.buffer<tmem, lanes, 3 x 128x128xf32>
  %t = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x112xf32>
  %h = tcgen.alloc : !halves
  %g = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 112x128xbf16>
  %sq = tcgen.alloc : !scales
  %loaded = tcgen.channel slots 1 full 1 empty 1
  %keys = tcgen.channel slots 2 full 1 empty 1
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %q_free = tcgen.acquire %loaded
    tcgen.publish %loaded[%q_free] by threads
    scf.for %i = %c0 to %n step %c1 {
      %free = tcgen.acquire %keys
      tcgen.publish %keys[%free] by threads
    }
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %false = arith.constant false
    %slot = tcgen.wait %loaded
    scf.for %i = %c0 to %n step %c1 {
      %key = tcgen.wait %keys
      tcgen.mma %s[%c0], %q[%slot], %k[%key] scales %sq[%c0], %sq[%c0] major k accumulate %false : !tcgen.buffer<tmem, lanes, 3 x 128x128xf32>, !image, !ring, !scales, !scales
      tcgen.mma %t[%c0], %h[%c0], %g[%c0] major k accumulate %false : !tcgen.buffer<tmem, lanes, 1 x 128x112xf32>, !halves, !tcgen.buffer<smem, operand, 1 x 112x128xbf16>
      tcgen.release %keys[%key] by mma
    }
  }
  flamia.return
}
