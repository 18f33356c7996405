// Kernels in which one warpgroup goes on doing all vector code, and why.
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-share-columns))" -split-input-file -verify-diagnostics | FileCheck %s

!f = tensor<128x128xf32>
!scores = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!left = !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
!image = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>

// A softmax: its maxima are those of whole rows.
// CHECK-LABEL: flamia.kernel @softmax
// CHECK: tcgen.role "vector" warps 4
flamia.kernel @softmax(%n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %false = arith.constant false
  %s = tcgen.alloc : !scores
  %o = tcgen.alloc : !scores
  %p = tcgen.alloc : !left
  %k = tcgen.alloc : !image
  %sch = tcgen.channel slots 1 full 1 empty 4
  %pch = tcgen.channel slots 1 full 4 empty 1
  tcgen.role "vector" warps 4 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.wait %sch
      %t = tcgen.read %s[%slot] : !scores -> !f
      tcgen.release %sch[%slot] by threads
      // expected-remark @+1 {{one warpgroup does all vector code: 'flamia.reduce' needs whole rows in a loop}}
      %m = flamia.reduce max %t : !f -> tensor<128x1xf32>
      %ms = flamia.broadcast %m : tensor<128x1xf32> -> !f
      %x = arith.subf %t, %ms : !f
      %e = math.exp2 %x : !f
      %q = arith.truncf %e : !f to tensor<128x128xbf16>
      %pslot = tcgen.acquire %pch
      tcgen.write %q, %p[%pslot] : tensor<128x128xbf16>, !left
      tcgen.publish %pch[%pslot] by threads
    }
  }
  tcgen.role "mma" warps 1 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.acquire %sch
      tcgen.mma %s[%slot], %k[%c0], %k[%c0] major k accumulate %false : !scores, !image, !image
      tcgen.publish %sch[%slot] by mma
      %pslot = tcgen.wait %pch
      tcgen.mma %o[%c0], %p[%pslot], %k[%c0] major mn accumulate %false : !scores, !left, !image
      tcgen.release %pch[%pslot] by mma
    }
    tcgen.drain
  }
  flamia.return
}

// -----

// The result of a rotation is needed in another step.
!f = tensor<128x128xf32>
!scores = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!image = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
// CHECK-LABEL: flamia.kernel @apart
// CHECK: tcgen.role "vector" warps 4
flamia.kernel @apart(%n: index, %x: memref<128x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %false = arith.constant false
  %s = tcgen.alloc : !scores
  %r = tcgen.alloc : !scores
  %k = tcgen.alloc : !image
  %sch = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.wait %sch
      %t = tcgen.read %s[%slot] : !scores -> !f
      tcgen.release %sch[%slot] by threads
      %e = math.exp2 %t : !f
      tcgen.write %e, %r[%c0] : !f, !scores
    }
    %t = tcgen.read %r[%c0] : !scores -> !f
    // expected-remark @+1 {{one warpgroup does all vector code: 'flamia.hadamard' has other steps in between}}
    %h = flamia.hadamard %t inverse : !f
    %slot = tcgen.wait %sch
    flamia.store %h, %x[%c0, %c0] : !f, memref<128x128xf32>
  }
  tcgen.role "mma" warps 1 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.acquire %sch
      tcgen.mma %s[%slot], %k[%c0], %k[%c0] major k accumulate %false : !scores, !image, !image
      tcgen.publish %sch[%slot] by mma
    }
    %slot = tcgen.acquire %sch
    tcgen.publish %sch[%slot] by mma
    tcgen.drain
  }
  flamia.return
}

// -----

// Weights lie over the scores that they were computed from. One warpgroup has then read all
// of these; the second half of 32 columns lies over the other warpgroup's scores.
!f = tensor<128x128xf32>
!scores = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!narrow = !tcgen.buffer<tmem, lanes, 1 x 128x96xf32>
!left = !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
!image = !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
!strip = !tcgen.buffer<smem, operand, 1 x 96x128xf8E4M3FN>
!unit = !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
!units = !tcgen.buffer<tmem, scales, 1 x 96x4xf8E8M0FNU>
// CHECK-LABEL: flamia.kernel @full
// CHECK: tcgen.role "vector" warps 4
// expected-remark @+1 {{one warpgroup does all vector code: with two, the kernel needs 520 columns of tensor memory; the limit is 512}}
flamia.kernel @full(%n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %false = arith.constant false
  %true = arith.constant true
  %s = tcgen.alloc : !scores
  %o0 = tcgen.alloc : !scores
  %o1 = tcgen.alloc : !scores
  %o2 = tcgen.alloc : !narrow
  %p = tcgen.alloc : !left
  %k = tcgen.alloc : !image
  %v = tcgen.alloc : !strip
  %ones = tcgen.alloc : !unit
  tcgen.fill_scales %ones byte 127 : !unit
  %strip_ones = tcgen.alloc : !units
  tcgen.fill_scales %strip_ones byte 127 : !units
  %sch = tcgen.channel slots 1 full 1 empty 4
  %pch = tcgen.channel slots 1 full 4 empty 1
  tcgen.role "vector" warps 4 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.wait %sch
      %t = tcgen.read %s[%slot] : !scores -> !f
      tcgen.release %sch[%slot] by threads
      %e = math.exp2 %t : !f
      %q = flamia.quantize %e exponent 0 : !f -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
      %pslot = tcgen.acquire %pch
      tcgen.write %q, %p[%pslot] : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !left
      tcgen.publish %pch[%pslot] by threads
    }
  }
  tcgen.role "mma" warps 1 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.acquire %sch
      tcgen.mma %s[%slot], %k[%c0], %k[%c0] scales %ones[%c0], %ones[%c0] major k accumulate %false : !scores, !image, !image, !unit, !unit
      tcgen.publish %sch[%slot] by mma
      %pslot = tcgen.wait %pch
      tcgen.mma %o0[%c0], %p[%pslot], %k[%c0] scales %ones[%c0], %ones[%c0] major mn accumulate %true : !scores, !left, !image, !unit, !unit
      tcgen.mma %o1[%c0], %p[%pslot], %k[%c0] scales %ones[%c0], %ones[%c0] major k accumulate %true : !scores, !left, !image, !unit, !unit
      tcgen.mma %o2[%c0], %p[%pslot], %v[%c0] scales %ones[%c0], %strip_ones[%c0] major k accumulate %true : !narrow, !left, !strip, !unit, !units
      tcgen.release %pch[%pslot] by mma
    }
    tcgen.drain
  }
  flamia.return
}
