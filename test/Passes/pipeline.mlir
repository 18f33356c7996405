// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline),canonicalize,cse)" | FileCheck %s

!t = tensor<128x128xbf16>
!f = tensor<128x128xf32>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>

// A loop of products: loads in a ring, one accumulator that the first product
// overwrites. Without an iteration the result is zero, not what the buffer holds.
// CHECK-LABEL: flamia.kernel @matmul
flamia.kernel @matmul(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %o: memref<?x?xf32>, %n: index) parameters {} grid(a[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  // CHECK: %[[A:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 4 x 128x64xbf16>
  // CHECK: %[[ACH:.*]] = tcgen.channel slots 4 full 1 empty 1
  // CHECK: %[[B:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 4 x 128x64xbf16>
  // CHECK: %[[BCH:.*]] = tcgen.channel slots 4 full 1 empty 1
  // CHECK: %[[D:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK: %[[DONE:.*]] = tcgen.channel slots 1 full 1 empty 1

  // CHECK: tcgen.role "vector" warps 4 {
  // CHECK-NOT: scf.for
  // CHECK: tcgen.wait %[[DONE]]
  // CHECK: %[[RUNS:.*]] = arith.cmpi sgt, %n, %{{.*}}
  // CHECK: %[[SUM:.*]] = scf.if %[[RUNS]] -> (tensor<128x128xf32>) {
  // CHECK:   %[[READ:.*]] = tcgen.read %[[D]]
  // CHECK:   scf.yield %[[READ]]
  // CHECK: } else {
  // CHECK:   scf.yield %{{.*}}
  // CHECK: flamia.store %[[SUM]]

  // CHECK: tcgen.role "load" warps 1 {
  // CHECK: scf.for %[[I:.*]] = %{{.*}} to %n
  // CHECK:   %[[AT:.*]] = arith.muli %[[I]]
  // CHECK:   %[[SLOT:.*]] = tcgen.acquire %[[ACH]]
  // CHECK:   tcgen.expect %[[ACH]][%[[SLOT]]] bytes 16384
  // CHECK:   tcgen.tma_load %a[%{{.*}}, %[[AT]]], %[[A]][%[[SLOT]]] signals %[[ACH]]
  // CHECK:   tcgen.acquire %[[BCH]]
  // CHECK:   tcgen.tma_load %b

  // CHECK: tcgen.role "mma" warps 1 {
  // CHECK: scf.for %[[I:.*]] = %[[LB:.*]] to %n
  // CHECK-NOT: arith.muli
  // CHECK:   %[[AS:.*]] = tcgen.wait %[[ACH]]
  // CHECK:   %[[BS:.*]] = tcgen.wait %[[BCH]]
  // CHECK:   %[[LATER:.*]] = arith.cmpi ne, %[[I]], %[[LB]]
  // CHECK:   tcgen.mma %[[D]][%{{.*}}], %[[A]][%[[AS]]], %[[B]][%[[BS]]] major k accumulate %[[LATER]]
  // CHECK:   tcgen.release %[[ACH]][%[[AS]]] by mma
  // CHECK:   tcgen.release %[[BCH]][%[[BS]]] by mma
  // CHECK: }
  // CHECK: tcgen.publish %[[DONE]]
  // CHECK: tcgen.drain
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (tensor<128x128xf32>) {
    %at = arith.muli %i, %c64 : index
    %ta = flamia.load %a[%c0, %at] : memref<?x?xbf16> -> tensor<128x64xbf16>
    %tb = flamia.load %b[%c0, %at] : memref<?x?xbf16> -> tensor<128x64xbf16>
    %tbT = flamia.transpose %tb : tensor<128x64xbf16> -> tensor<64x128xbf16>
    %next = flamia.dot %ta, %tbT, %sum : tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  flamia.store %acc, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x?xf32>
  flamia.return
}

// Rules R3 and R4: the scores of the next iteration are issued right behind the last
// product of this one; the accumulator that vector code scales stays in tensor memory.
// CHECK-LABEL: flamia.kernel @rescaled
flamia.kernel @rescaled(%q: !m, %k: !m, %v: !m, %o: !o, %n: index) parameters {} grid(q[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: %[[S:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK-NEXT: %[[SCH:.*]] = tcgen.channel slots 1 full 1 empty 4
  // CHECK-NEXT: %[[O:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK-NEXT: %[[P:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  // CHECK-NEXT: %[[PCH:.*]] = tcgen.channel slots 1 full 4 empty 1
  // CHECK-NEXT: %[[TOVECTOR:.*]] = tcgen.channel slots 1 full 1 empty 1
  // CHECK-NEXT: %[[TOMMA:.*]] = tcgen.channel slots 1 full 4 empty 1

  // CHECK: tcgen.role "vector"
  // CHECK: tcgen.write %{{.*}}, %[[O]]
  // CHECK: scf.for
  // CHECK-NOT: iter_args
  // CHECK:   tcgen.wait %[[SCH]]
  // CHECK:   tcgen.read %[[S]]
  // CHECK:   tcgen.release %[[SCH]]
  // CHECK:   tcgen.acquire %[[PCH]]
  // CHECK:   tcgen.write %{{.*}}, %[[P]]
  // CHECK:   tcgen.publish %[[PCH]]
  // CHECK:   tcgen.wait %[[TOVECTOR]]
  // CHECK:   tcgen.read %[[O]]
  // CHECK:   tcgen.write %{{.*}}, %[[O]]
  // CHECK:   tcgen.publish %[[TOMMA]]
  // CHECK: }
  // CHECK: tcgen.wait %[[TOVECTOR]]
  // CHECK: %[[RESULT:.*]] = tcgen.read %[[O]]
  // CHECK: flamia.store %[[RESULT]]

  // CHECK: tcgen.role "mma"
  // Q is waited for once; the accumulator starts in the hands of the vector role.
  // CHECK: %[[QS:.*]] = tcgen.wait
  // CHECK: tcgen.publish %[[TOVECTOR]]
  // CHECK: %[[RUNS:.*]] = arith.cmpi sgt, %n
  // CHECK: scf.if %[[RUNS]] {
  // CHECK:   tcgen.mma %[[S]][{{.*}}], %{{.*}}[%[[QS]]]{{.*}} major k
  // CHECK:   tcgen.publish %[[SCH]]
  // CHECK: }
  // CHECK: scf.for
  // CHECK-NOT: tcgen.mma %[[S]]
  // CHECK:   tcgen.wait %[[PCH]]
  // CHECK:   tcgen.wait %[[TOMMA]]
  // CHECK:   tcgen.mma %[[O]][{{.*}}], %[[P]]{{.*}} major mn
  // CHECK:   tcgen.publish %[[TOVECTOR]]
  // CHECK:   arith.addi
  // CHECK:   %[[MORE:.*]] = arith.cmpi slt
  // CHECK:   scf.if %[[MORE]] {
  // CHECK:     tcgen.acquire %[[SCH]]
  // CHECK:     tcgen.mma %[[S]]
  // CHECK:     tcgen.publish %[[SCH]]
  // CHECK:   }
  // CHECK: }
  // CHECK: tcgen.release %{{.*}}[%[[QS]]] by mma
  // CHECK: tcgen.drain
  %tq = flamia.load %q[%c0, %c0] : !m -> !t
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!f) {
    %tk = flamia.load %k[%i, %c0] : !m -> !t
    %tkT = flamia.transpose %tk : !t -> !t
    %s = flamia.dot %tq, %tkT, %zero : !t, !t -> !f
    %p = math.exp2 %s : !f
    %pb = arith.truncf %p : !f to !t
    %half = arith.mulf %sum, %sum : !f
    %tv = flamia.load %v[%i, %c0] : !m -> !t
    %next = flamia.dot %pb, %tv, %half : !t, !t -> !f
    scf.yield %next : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// Scales: loaded ones and dynamic ones go through shared memory, static ones are set once.
// CHECK-LABEL: flamia.kernel @scales
flamia.kernel @scales(%x: memref<?x128xf8E4M3FN>, %xs: memref<?x?x512xf8E8M0FNU>, %w: memref<?x64xf8E4M3FN>, %ws: memref<?x?x512xf8E8M0FNU>, %f: !o, %o: memref<?x64xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  // CHECK: %[[W:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x64xf8E4M3FN>
  // CHECK: %[[WSCALES:.*]] = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 64x4xf8E8M0FNU>
  // CHECK: %[[WTMEM:.*]] = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>
  // CHECK: %[[STATIC:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  // CHECK: %[[CONSTANT:.*]] = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  // CHECK: tcgen.fill_scales %[[CONSTANT]] byte 119
  // CHECK: %[[DYNAMIC:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  // CHECK: %[[DSMEM:.*]] = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  // CHECK: %[[DTMEM:.*]] = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  // CHECK: tcgen.role "vector"
  // CHECK: tcgen.write %{{.*}}, %[[STATIC]]
  // CHECK-NEXT: tcgen.publish
  // CHECK: tcgen.write %[[D8:.*]], %[[DYNAMIC]]
  // CHECK-NEXT: tcgen.write_scales %[[D8]], %[[DSMEM]][%{{.*}}] along cols
  // CHECK-NEXT: tcgen.publish
  // CHECK: tcgen.role "load"
  // CHECK: tcgen.expect %{{.*}} bytes 8704
  // CHECK-NEXT: tcgen.tma_load %w[{{.*}}], %[[W]]
  // CHECK-NEXT: tcgen.bulk_load %ws[{{.*}}], %[[WSCALES]]
  // CHECK: tcgen.role "mma"
  // CHECK: tcgen.copy_scales %[[WSCALES]][%{{.*}}], %[[WTMEM]]
  // CHECK: tcgen.mma %[[ACC:.*]][{{.*}}], %[[STATIC]]{{.*}} scales %[[CONSTANT]][%{{.*}}], %[[WTMEM]][%{{.*}}] major mn accumulate %false
  // CHECK: tcgen.copy_scales %[[DSMEM]][%{{.*}}], %[[DTMEM]]
  // CHECK: tcgen.mma %[[ACC]][{{.*}}], %[[DYNAMIC]]{{.*}} scales %[[DTMEM]][%{{.*}}], %[[WTMEM]][%{{.*}}] major mn accumulate %true
  %tf = flamia.load %f[%c0, %c0] : !o -> !f
  %static = flamia.quantize %tf exponent -8 : !f -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %dynamic = flamia.quantize %tf : !f -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %tw = flamia.load_scaled %w[%c0, %c0], %ws[%c0, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x1>
  %d1 = flamia.dot %static, %tw, %zero : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x1> -> tensor<128x64xf32>
  %d2 = flamia.dot %dynamic, %tw, %d1 : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x1> -> tensor<128x64xf32>
  flamia.store %d2, %o[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// One load for products and vector code: both release it.
// CHECK-LABEL: flamia.kernel @shared_load
flamia.kernel @shared_load(%a: !m, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: %[[CH:.*]] = tcgen.channel slots 1 full 1 empty 5
  // CHECK: tcgen.role "vector"
  // CHECK: tcgen.wait %[[CH]]
  // CHECK: tcgen.read %{{.*}} : !tcgen.buffer<smem, operand, 1 x 128x128xbf16> -> tensor<128x128xbf16>
  // CHECK: tcgen.release %[[CH]][%{{.*}}] by threads
  // A vector value as right operand goes to shared memory.
  // CHECK: tcgen.write %{{.*}} : tensor<128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  // CHECK: tcgen.role "mma"
  // CHECK: tcgen.wait %[[CH]]
  // CHECK: tcgen.release %[[CH]][%{{.*}}] by mma
  %t = flamia.load %a[%c0, %c0] : !m -> !t
  %f = arith.extf %t : !t to !f
  %e = math.exp2 %f : !f
  %p = arith.truncf %e : !f to !t
  %d = flamia.dot %t, %p, %zero : !t, !t -> !f
  flamia.store %d, %o[%c0, %c0] : !f, !o
  flamia.return
}

// The accumulator changes hands between two products.
// CHECK-LABEL: flamia.kernel @between
flamia.kernel @between(%a: !m, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: %[[D:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK-NOT: tmem
  // CHECK: tcgen.role "vector"
  // CHECK: tcgen.wait
  // CHECK: tcgen.read %[[D]]
  // CHECK: tcgen.publish
  // CHECK: tcgen.wait
  // CHECK: tcgen.read %[[D]]
  // CHECK: tcgen.role "mma"
  // CHECK: tcgen.mma %[[D]]{{.*}} accumulate %false
  // CHECK: tcgen.publish
  // CHECK: tcgen.wait
  // CHECK: tcgen.mma %[[D]]{{.*}} accumulate %true
  // CHECK: tcgen.publish
  %t = flamia.load %a[%c0, %c0] : !m -> !t
  %d1 = flamia.dot %t, %t, %zero : !t, !t -> !f
  flamia.store %d1, %o[%c0, %c0] : !f, !o
  %d2 = flamia.dot %t, %t, %d1 : !t, !t -> !f
  flamia.store %d2, %o[%c128, %c0] : !f, !o
  flamia.return
}

// Signals and waits inside a branch match: it leaves the accumulator as it was.
// CHECK-LABEL: flamia.kernel @branch
flamia.kernel @branch(%a: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: tcgen.role "vector"
  // CHECK: scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<128x128xf32>) {
  // CHECK:   scf.if %{{.*}} -> (tensor<128x128xf32>) {
  // CHECK:     tcgen.write %[[SUM]]
  // CHECK:     tcgen.read
  // CHECK:   } else {
  // CHECK:     scf.yield %[[SUM]]
  // CHECK: tcgen.role "load"
  // CHECK: scf.for
  // CHECK:   scf.if %{{.*}} {
  // CHECK:     tcgen.tma_load
  // CHECK: tcgen.role "mma"
  // CHECK: scf.for
  // CHECK:   scf.if %{{.*}} {
  // CHECK:     tcgen.mma {{.*}} accumulate %true
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%x = %zero) -> (!f) {
    %c = arith.cmpi ult, %i, %c2 : index
    %d = scf.if %c -> (!f) {
      %t = flamia.load %a[%i, %c0] : !m -> !t
      %d1 = flamia.dot %t, %t, %x : !t, !t -> !f
      scf.yield %d1 : !f
    } else {
      scf.yield %x : !f
    }
    scf.yield %d : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// A transposed left operand is a matter of descriptors too; only in shared memory, where
// vector code then puts it.
// CHECK-LABEL: flamia.kernel @transposed_left
flamia.kernel @transposed_left(%a: !m, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: %[[T:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  // CHECK: %[[P:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  // CHECK: tcgen.mma %{{.*}}, %[[T]][%{{.*}}], %[[T]][%{{.*}}] major mn a_major mn
  // CHECK: tcgen.mma %{{.*}}, %[[P]][%{{.*}}], %[[T]][%{{.*}}] major mn a_major mn
  %t = flamia.load %a[%c0, %c0] : !m -> !t
  %tT = flamia.transpose %t : !t -> !t
  %d = flamia.dot %tT, %t, %zero : !t, !t -> !f
  %f = arith.extf %t : !t to !f
  %e = math.exp2 %f : !f
  %p = arith.truncf %e : !f to !t
  %pT = flamia.transpose %p : !t -> !t
  %d2 = flamia.dot %pT, %t, %d : !t, !t -> !f
  flamia.store %d2, %o[%c0, %c0] : !f, !o
  flamia.return
}

// 320 KB of loads: those of one shape that only vector code reads take turns in a ring.
// CHECK-LABEL: flamia.kernel @shared_ring
flamia.kernel @shared_ring(%a: memref<?x256xf32>, %b: memref<?x256xf32>, %c: memref<?x256xbf16>, %o: memref<?x256xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[RING:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x256xf32>
  // CHECK: %[[CH:.*]] = tcgen.channel slots 1 full 1 empty 4
  // CHECK: tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x256xbf16>
  // CHECK-NOT: tcgen.alloc
  // CHECK: tcgen.role "vector"
  // CHECK: tcgen.wait %[[CH]]
  // CHECK-NEXT: tcgen.read %[[RING]]
  // CHECK-NEXT: tcgen.release %[[CH]]
  // CHECK: tcgen.wait %[[CH]]
  // CHECK-NEXT: tcgen.read %[[RING]]
  // CHECK-NEXT: tcgen.release %[[CH]]
  // CHECK: tcgen.role "load"
  // CHECK: tcgen.acquire %[[CH]]
  // CHECK: tcgen.tma_load %a[{{.*}}], %[[RING]]
  // CHECK: tcgen.acquire %[[CH]]
  // CHECK: tcgen.tma_load %b[{{.*}}], %[[RING]]
  %ta = flamia.load %a[%c0, %c0] : memref<?x256xf32> -> tensor<128x256xf32>
  %tb = flamia.load %b[%c0, %c0] : memref<?x256xf32> -> tensor<128x256xf32>
  %tc = flamia.load %c[%c0, %c0] : memref<?x256xbf16> -> tensor<128x256xbf16>
  %s = arith.addf %ta, %tb : tensor<128x256xf32>
  %f = arith.extf %tc : tensor<128x256xbf16> to tensor<128x256xf32>
  %r = arith.addf %s, %f : tensor<128x256xf32>
  flamia.store %r, %o[%c0, %c0] : tensor<128x256xf32>, memref<?x256xf32>
  flamia.return
}

// 704 columns when each result and operand has its own: results that are read before the
// next product take turns, and so do operands that were used before the next is made.
// CHECK-LABEL: flamia.kernel @turns
flamia.kernel @turns(%a: !m, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: %[[D:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK-NEXT: %[[DCH:.*]] = tcgen.channel slots 1 full 1 empty 4
  // CHECK-NEXT: %[[P:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  // CHECK-NEXT: %[[PCH:.*]] = tcgen.channel slots 1 full 4 empty 1
  // CHECK-NOT: tcgen.alloc
  // CHECK: tcgen.role "mma"
  // CHECK: tcgen.acquire %[[DCH]]
  // CHECK: tcgen.mma %[[D]]
  // CHECK: tcgen.wait %[[PCH]]
  // CHECK: tcgen.acquire %[[DCH]]
  // CHECK: tcgen.mma %[[D]]{{.*}}, %[[P]]
  // CHECK: tcgen.release %[[PCH]]
  // CHECK: tcgen.wait %[[PCH]]
  // CHECK: tcgen.acquire %[[DCH]]
  // CHECK: tcgen.mma %[[D]]{{.*}}, %[[P]]
  // CHECK: tcgen.release %[[PCH]]
  %t0 = flamia.load %a[%c0, %c0] : !m -> !t
  %d0 = flamia.dot %t0, %t0, %zero : !t, !t -> !f
  %t1 = arith.truncf %d0 : !f to !t
  %d1 = flamia.dot %t1, %t0, %zero : !t, !t -> !f
  %t2 = arith.truncf %d1 : !f to !t
  %d2 = flamia.dot %t2, %t0, %zero : !t, !t -> !f
  %t3 = arith.truncf %d2 : !f to !t
  %d3 = flamia.dot %t3, %t0, %zero : !t, !t -> !f
  flamia.store %d3, %o[%c0, %c0] : !f, !o
  flamia.return
}

// Loads of one payload with different scales share a ring; the scales of each are copied
// right before the product that needs them. Scales that are all 1 are not loaded.
// CHECK-LABEL: flamia.kernel @views
flamia.kernel @views(%a: memref<?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %u: memref<?x?x512xf8E8M0FNU>, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: tcgen.fill_scales %[[ONES:.*]] byte 127
  // CHECK: tcgen.role "load" warps 1 {
  // CHECK: scf.for
  // CHECK: tcgen.expect %[[CH:.*]][%[[SLOT:.*]]] bytes 17408
  // CHECK-NEXT: tcgen.tma_load %a[%{{.*}}, %{{.*}}], %[[DATA:.*]][%[[SLOT]]]
  // CHECK-NEXT: tcgen.bulk_load %s
  // CHECK-NEXT: tcgen.bulk_load %u
  // CHECK-NOT: tcgen.tma_load
  // The first product is issued one iteration ahead; the others use the slot it waited for.
  // CHECK: tcgen.role "mma" warps 1 {
  // CHECK: %[[FIRST:.*]] = scf.if
  // CHECK: %[[AHEAD:.*]] = tcgen.wait %[[CH]]
  // CHECK: tcgen.copy_scales
  // CHECK: tcgen.mma %{{.*}}, %{{.*}}[%[[AHEAD]]], %{{.*}}[%[[AHEAD]]] {{.*}} major k
  // CHECK: scf.for {{.*}} iter_args(%[[TILE:.*]] = %[[FIRST]])
  // CHECK: tcgen.copy_scales
  // CHECK: tcgen.mma %{{.*}}, %{{.*}}, %{{.*}}[%[[TILE]]] {{.*}} major mn
  // CHECK: tcgen.mma %{{.*}}, %{{.*}}, %{{.*}}[%[[TILE]]] scales %{{.*}}, %[[ONES]][{{.*}}] major mn
  // CHECK: tcgen.release %[[CH]][%[[TILE]]] by mma
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!f) {
    %at = arith.muli %i, %c128 : index
    %t = flamia.load_scaled %a[%at, %c0], %s[%i, %c0] along cols : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %v = flamia.load_scaled %a[%at, %c0], %u[%i, %c0] along rows : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
    %p = flamia.load_payload %a[%at, %c0] : memref<?x128xf8E4M3FN> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x128>
    %tT = flamia.transpose %t : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
    %d = flamia.dot %t, %tT, %zero : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1> -> !f
    %q = flamia.quantize %d : !f -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %e = flamia.dot %q, %v, %sum : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1> -> !f
    %next = flamia.dot %q, %p, %e : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x128> -> !f
    scf.yield %next : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// NVFP4: packed images of 64 bytes a row, scales of 16 elements, two atoms for 128 of them.
// CHECK-LABEL: flamia.kernel @nvfp4
!x4 = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
!x4T = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
flamia.kernel @nvfp4(%a: memref<?x128xf4E2M1FN>, %s: memref<?x?x2x512xf8E4M3FN>, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !f
  // CHECK: %[[A:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  // CHECK: %[[CH:.*]] = tcgen.channel
  // CHECK: %[[S:.*]] = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x8xf8E4M3FN>
  // CHECK: %[[T:.*]] = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  // CHECK: tcgen.role "load" warps 1 {
  // CHECK: tcgen.expect %[[CH]][%{{.*}}] bytes 9216
  // CHECK: tcgen.tma_load %a[%{{.*}}, %{{.*}}], %[[A]]
  // CHECK: tcgen.bulk_load %s[%{{.*}}, %{{.*}}], %[[S]]
  // CHECK: tcgen.role "mma" warps 1 {
  // CHECK: tcgen.copy_scales %[[S]][%{{.*}}], %[[T]]
  // CHECK: tcgen.mma %{{.*}}, %[[A]][%{{.*}}], %[[A]][%{{.*}}] scales %[[T]][%{{.*}}], %[[T]][%{{.*}}] major k
  %t = flamia.load_scaled %a[%c0, %c0], %s[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !x4
  %tT = flamia.transpose %t : !x4 -> !x4T
  %d = flamia.dot %t, %tT, %zero : !x4, !x4T -> !f
  flamia.store %d, %o[%c0, %c0] : !f, !o
  flamia.return
}
