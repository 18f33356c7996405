// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-share-columns))" -split-input-file | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-share-columns,flamia-split-columns,flamia-allocate-memory))" -split-input-file | flamia-opt --flamia-to-llvm -split-input-file | FileCheck %s --check-prefix=LLVM
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-share-columns,flamia-allocate-memory))" -split-input-file | FileCheck %s --check-prefix=WHERE

!f = tensor<128x128xf32>
!scores = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!left = !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
!image = !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
!factors = !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
!unit = !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
!line = !tcgen.buffer<smem, line, 1 x 1x128xf32>
!made = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

// Weights of scores, their product with an image, and two results: one that needs whole
// rows, one that is stored.
// CHECK-LABEL: flamia.kernel @weights
// CHECK: %[[SCORES:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
// What both warpgroups signal takes eight arrivals, what the other roles signal one.
// CHECK: tcgen.channel slots 1 full 1 empty 8
// CHECK-NEXT: tcgen.channel slots 1 full 1 empty 8
// CHECK-NEXT: tcgen.channel slots 1 full 8 empty 1
// CHECK-NEXT: tcgen.channel slots 1 full 1 empty 1
// LLVM-LABEL: llvm.func @weights
// LLVM-SAME: nvvm.reqntid = array<i32: 384>
// LLVM: nvvm.setmaxregister increase 224
flamia.kernel @weights(%m: memref<128x1xf32>, %bias: memref<?x128xf32>, %end: index, %n: index,
                       %x: memref<128x128xf32>, %y: memref<128x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %false = arith.constant false
  %true = arith.constant true
  %s = tcgen.alloc : !scores
  %o = tcgen.alloc : !scores
  %o2 = tcgen.alloc : !scores
  %p = tcgen.alloc : !left
  %pf = tcgen.alloc : !factors
  %pt = tcgen.alloc : !unit
  %k = tcgen.alloc : !image
  %b = tcgen.alloc : !line
  %ones = tcgen.alloc : !unit
  tcgen.fill_scales %ones byte 127 : !unit
  %sch = tcgen.channel slots 1 full 1 empty 4
  %bch = tcgen.channel slots 1 full 1 empty 4
  %pch = tcgen.channel slots 1 full 4 empty 1
  %done = tcgen.channel slots 1 full 1 empty 1
  // CHECK: tcgen.role "vector" warps 8 {
  tcgen.role "vector" warps 4 {
    // CHECK-DAG: %[[GROUP:.*]] = tcgen.group
    // CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[GROUP]], %c64
    // CHECK-DAG: %[[S:.*]] = tcgen.part %[[SCORES]] from %[[FIRST]] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    // CHECK-DAG: %[[P:.*]] = tcgen.part %{{.*}} from %[[FIRST]] : {{.*}} -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf8E4M3FN>
    // Two of an atom's four blocks.
    // CHECK-DAG: %[[BLOCK:.*]] = arith.muli %[[GROUP]], %c2
    // CHECK-DAG: %[[F:.*]] = tcgen.part %{{.*}} from %[[BLOCK]] : {{.*}} -> !tcgen.buffer<smem, scales, 1 x 128x2xf8E8M0FNU>
    // CHECK-DAG: %[[LINE:.*]] = tcgen.part %{{.*}} from %[[FIRST]] : {{.*}} -> !tcgen.buffer<smem, line, 1 x 1x64xf32>
    // Row vectors are loaded by both.
    // CHECK: %[[ROW:.*]] = flamia.load %{{.*}} : memref<128x1xf32> -> tensor<128x1xf32>
    %row = flamia.load %m[%c0, %c0] : memref<128x1xf32> -> tensor<128x1xf32>
    %rows = flamia.broadcast %row : tensor<128x1xf32> -> !f
    // CHECK: scf.for
    scf.for %i = %c0 to %n step %c1 {
      // CHECK: tcgen.read %[[LINE]][%{{.*}}] : {{.*}} -> tensor<1x64xf32>
      %bslot = tcgen.wait %bch
      %factor = tcgen.read %b[%bslot] : !line -> tensor<1x128xf32>
      tcgen.release %bch[%bslot] by threads
      // CHECK: tcgen.read %[[S]][%{{.*}}] : {{.*}} -> tensor<128x64xf32>
      %slot = tcgen.wait %sch
      %t = tcgen.read %s[%slot] : !scores -> !f
      tcgen.release %sch[%slot] by threads
      // CHECK: flamia.broadcast %[[ROW]] : tensor<128x1xf32> -> tensor<128x64xf32>
      // CHECK-NEXT: arith.addf
      %u = arith.addf %t, %rows : !f
      %factors = flamia.broadcast %factor : tensor<1x128xf32> -> !f
      %v = arith.mulf %u, %factors : !f
      // Columns count from the warpgroup's first on.
      // CHECK: %[[COL:.*]] = arith.addi %n, %[[FIRST]] : index
      // CHECK: flamia.mask %{{.*}} rows %c0 cols %[[COL]] limit %{{.*}} : tensor<128x64xf32>
      // LLVM: nvvm.tcgen05.ld
      %w = flamia.mask %v rows %c0 cols %n limit %end : !f
      %e = math.exp2 %w : !f
      %q = flamia.quantize %e : !f -> !made
      // CHECK: tcgen.write %{{.*}}, %[[P]][%{{.*}}] : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>
      // CHECK: tcgen.write_scales %{{.*}}, %[[F]][%{{.*}}] along cols
      // LLVM: llvm.trunc %{{.*}} : i32 to i16
      // LLVM: llvm.store %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<3>
      %pslot = tcgen.acquire %pch
      tcgen.write %q, %p[%pslot] : !made, !left
      tcgen.write_scales %q, %pf[%pslot] along cols : !made, !factors
      tcgen.publish %pch[%pslot] by threads
    }
    %end1 = tcgen.wait %done
    // One warpgroup has the rotation, the other one the result that is stored as it is.
    // CHECK: tcgen.wait
    // CHECK: %[[MINE:.*]] = arith.cmpi eq, %[[GROUP]], %{{c0.*}} : index
    // CHECK-NEXT: scf.if %[[MINE]] {
    // CHECK-NEXT: tcgen.read %{{.*}} -> tensor<128x128xf32>
    // CHECK-NEXT: flamia.hadamard
    // CHECK-NEXT: flamia.store
    // CHECK-NEXT: }
    // CHECK: %[[YOURS:.*]] = arith.cmpi eq, %[[GROUP]], %{{c1.*}} : index
    // CHECK-NEXT: scf.if %[[YOURS]] {
    // CHECK-NEXT: tcgen.read %{{.*}} -> tensor<128x128xf32>
    // CHECK-NEXT: flamia.store
    // CHECK-NEXT: }
    // CHECK-NEXT: }
    %r = tcgen.read %o[%c0] : !scores -> !f
    %h = flamia.hadamard %r inverse : !f
    flamia.store %h, %x[%c0, %c0] : !f, memref<128x128xf32>
    %r2 = tcgen.read %o2[%c0] : !scores -> !f
    flamia.store %r2, %y[%c0, %c0] : !f, memref<128x128xf32>
  }
  // CHECK-NEXT: tcgen.role "load" warps 1 {
  // LLVM: nvvm.setmaxregister decrease 56
  tcgen.role "load" warps 1 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.acquire %bch
      tcgen.expect %bch[%slot] bytes 512
      tcgen.bulk_load %bias[%i], %b[%slot] signals %bch : memref<?x128xf32>, !line
    }
  }
  tcgen.role "mma" warps 1 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.acquire %sch
      tcgen.mma %s[%slot], %k[%c0], %k[%c0] scales %ones[%c0], %ones[%c0] major k accumulate %false : !scores, !image, !image, !unit, !unit
      tcgen.publish %sch[%slot] by mma
      %pslot = tcgen.wait %pch
      tcgen.copy_scales %pf[%pslot], %pt[%c0] : !factors, !unit
      tcgen.mma %o[%c0], %p[%pslot], %k[%c0] scales %pt[%c0], %ones[%c0] major mn accumulate %true : !scores, !left, !image, !unit, !unit
      tcgen.release %pch[%pslot] by mma
    }
    tcgen.publish %done[%c0] by mma
    tcgen.drain
  }
  flamia.return
}

// -----

// Nothing to share: no loop of vector code. Not even a remark.
// CHECK-LABEL: flamia.kernel @plain
// CHECK: tcgen.role "vector" warps 4
// CHECK-NOT: tcgen.group
// LLVM-LABEL: llvm.func @plain
!f = tensor<128x128xf32>
!scores = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!image = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
flamia.kernel @plain(%x: memref<128x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %false = arith.constant false
  %s = tcgen.alloc : !scores
  %k = tcgen.alloc : !image
  %ch = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %slot = tcgen.wait %ch
    %t = tcgen.read %s[%slot] : !scores -> !f
    flamia.store %t, %x[%c0, %c0] : !f, memref<128x128xf32>
  }
  tcgen.role "mma" warps 1 {
    tcgen.mma %s[%c0], %k[%c0], %k[%c0] major k accumulate %false : !scores, !image, !image
    tcgen.publish %ch[%c0] by mma
    tcgen.drain
  }
  flamia.return
}

// -----

// Weights that lie over the scores they were computed from, where nothing else is free: half
// of their 64 columns over each warpgroup's scores, since one does not know what the other has
// read. WHERE checks what flamia-allocate-memory makes of it.
// CHECK-LABEL: flamia.kernel @over
// CHECK: tcgen.role "vector" warps 8
// LLVM-LABEL: llvm.func @over
// WHERE-LABEL: flamia.kernel @over
// WHERE: tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
// WHERE: tcgen.alloc offset 128
// WHERE: tcgen.alloc offset 256
// WHERE: tcgen.alloc offset 384
// WHERE: tcgen.alloc offset 32 : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
!f = tensor<128x128xf32>
!scores = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!left = !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
!image = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
flamia.kernel @over(%n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %false = arith.constant false
  %true = arith.constant true
  %s = tcgen.alloc : !scores
  %o0 = tcgen.alloc : !scores
  %o1 = tcgen.alloc : !scores
  %o2 = tcgen.alloc : !scores
  %p = tcgen.alloc : !left
  %k = tcgen.alloc : !image
  %sch = tcgen.channel slots 1 full 1 empty 4
  %pch = tcgen.channel slots 1 full 4 empty 1
  tcgen.role "vector" warps 4 {
    scf.for %i = %c0 to %n step %c1 {
      %slot = tcgen.wait %sch
      %t = tcgen.read %s[%slot] : !scores -> !f
      tcgen.release %sch[%slot] by threads
      %e = math.exp2 %t : !f
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
      tcgen.mma %o0[%c0], %p[%pslot], %k[%c0] major mn accumulate %true : !scores, !left, !image
      tcgen.mma %o1[%c0], %p[%pslot], %k[%c0] major k accumulate %true : !scores, !left, !image
      tcgen.mma %o2[%c0], %p[%pslot], %k[%c0] major k accumulate %true : !scores, !left, !image
      tcgen.release %pch[%pslot] by mma
    }
    tcgen.drain
  }
  flamia.return
}
