// The tile bodies of attention's backward after flamia-fold-scales, with scale bytes and
// vectors as they come: four products a tile, operands quantized between them, a diagonal
// tile in BF16 ahead of the loop, accumulators carried through two loops. DIM is the head
// dimension.
//
// RUN: sed s/DIM/64/g %s > %t.64.mlir && sed s/DIM/128/g %s > %t.128.mlir
// RUN: %python %S/Inputs/compare_kernels.py %t.64.mlir n=2 h=2 --sim-option=--async=late
// RUN: %python %S/Inputs/compare_kernels.py %t.64.mlir n=0 h=1
// RUN: %python %S/Inputs/compare_kernels.py %t.128.mlir n=3 h=2 --sim-option=--async=random:1
// RUN: %python %S/Inputs/compare_kernels.py %t.128.mlir n=2 h=0

// No spills, on both architectures and at both levels.
// RUN: flamiac %t.64.mlir -arch=sm_100a -v -o %t.a/ 2>&1 | FileCheck %s
// RUN: flamiac %t.64.mlir -arch=sm_103a -O0 -v -o %t.b/ 2>&1 | FileCheck %s
// RUN: flamiac %t.128.mlir -arch=sm_100a -O0 -v -o %t.c/ 2>&1 | FileCheck %s
// RUN: flamiac %t.128.mlir -arch=sm_103a -v -o %t.d/ 2>&1 | FileCheck %s
// CHECK-NOT: C7508
// CHECK: dq {{.*}} registers, 0 bytes spill stores, 0 bytes spill loads, 0 bytes stack
// CHECK-NOT: C7508
// CHECK: dkdv {{.*}} registers, 0 bytes spill stores, 0 bytes spill loads, 0 bytes stack
// CHECK-NOT: C7508

// The rotation takes sums and differences of two neighbours at a time: 32 pairs for each
// distance from 2 to 64, and 64 single ones at distance 1.
// RUN: FileCheck %s --check-prefix=PAIRS --input-file=%t.c/dq.ptx
// PAIRS-COUNT-64: sub.rn.f32 
// PAIRS-COUNT-192: sub.rn.f32x2

!scores = tensor<128x128xf32>
!probs = tensor<128x128xbf16>
!row = tensor<128x1xf32>
!col = tensor<1x128xf32>
!out = tensor<128xDIMxf32>
!half = tensor<128xDIMxbf16>
!half_t = tensor<DIMx128xbf16>
!data = memref<?xDIMxf8E4M3FN>
!b16 = memref<?xDIMxbf16>
!f32 = memref<?xDIMxf32>
!scale = memref<?x?x512xf8E8M0FNU>
!rows = memref<?x1xf32>
!vec = memref<4x4x128xf32>
!local = !flamia.scaled<128xDIM, f8E4M3FN by f8E8M0FNU per 1x32>
!local_t = !flamia.scaled<DIMx128, f8E4M3FN by f8E8M0FNU per 32x1>
!blocks = !flamia.scaled<128xDIM, f8E4M3FN by f8E8M0FNU per 32x1>
!made = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

flamia.kernel @dq(%q: !data, %qs: !scale, %k: !data, %ks: !scale, %ku: !scale, %v: !data, %vs: !scale, %vb: !b16, %do: !data, %dos: !scale,
    %dob: !b16, %bias: !rows, %r: !rows, %dd: !rows, %dp: !rows, %kf: !vec, %kd: !vec, %o: !f32, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !scores
  %none = arith.constant dense<0.0> : !out
  %c = arith.constant dense<0.25> : !scores
  %row = arith.muli %n, %c128 : index
  %tq = flamia.load_scaled %q[%row, %c0], %qs[%n, %c0] along cols : !data, !scale -> !local
  %tdo = flamia.load_scaled %do[%row, %c0], %dos[%n, %c0] along cols : !data, !scale -> !local
  %b0 = flamia.load %bias[%row, %c0] : !rows -> !row
  %b = flamia.broadcast %b0 : !row -> !scores
  %r0 = flamia.load %r[%row, %c0] : !rows -> !row
  %dd0 = flamia.load %dd[%row, %c0] : !rows -> !row
  %dp0 = flamia.load %dp[%row, %c0] : !rows -> !row

  // the diagonal tile
  %tk0 = flamia.load_scaled %k[%row, %c0], %ks[%n, %c0] along cols : !data, !scale -> !local
  %tk0T = flamia.transpose %tk0 : !local -> !local_t
  %s0 = flamia.dot %tq, %tk0T, %zero : !local, !local_t -> !scores
  %x0 = math.fma %s0, %c, %b : !scores
  %m0 = flamia.mask %x0 rows %row cols %row causal : !scores
  %p0 = math.exp2 %m0 : !scores
  %tdob = flamia.load %dob[%row, %c0] : !b16 -> !half
  %tvb = flamia.load %vb[%row, %c0] : !b16 -> !half
  %tvbT = flamia.transpose %tvb : !half -> !half_t
  %dp1 = flamia.dot %tdob, %tvbT, %zero : !half, !half_t -> !scores
  %rs = flamia.broadcast %r0 : !row -> !scores
  %dds = flamia.broadcast %dd0 : !row -> !scores
  %t0 = math.fma %dp1, %rs, %dds : !scores
  %pt0 = arith.mulf %p0, %t0 : !scores
  %kd0 = flamia.load %kd[%n, %c0, %c0] : !vec -> !col
  %kds = flamia.broadcast %kd0 : !col -> !scores
  %ds0 = arith.mulf %pt0, %kds : !scores
  %q0 = flamia.quantize %ds0 : !scores -> !made
  %tku0 = flamia.load_scaled %k[%row, %c0], %ku[%c0, %c0] along rows : !data, !scale -> !blocks
  %first = flamia.dot %q0, %tku0, %none : !made, !blocks -> !out

  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%acc0 = %first) -> (!out) {
    %i1 = arith.addi %i, %c1 : index
    %j = arith.subi %n, %i1 : index
    %at = arith.muli %j, %c128 : index
    %tk = flamia.load_scaled %k[%at, %c0], %ks[%j, %c0] along cols : !data, !scale -> !local
    %tkT = flamia.transpose %tk : !local -> !local_t
    %s = flamia.dot %tq, %tkT, %zero : !local, !local_t -> !scores
    %x = math.fma %s, %c, %b : !scores
    %p = math.exp2 %x : !scores
    %tv = flamia.load_scaled %v[%at, %c0], %vs[%j, %c0] along cols : !data, !scale -> !local
    %tvT = flamia.transpose %tv : !local -> !local_t
    %dpp = flamia.dot %tdo, %tvT, %zero : !local, !local_t -> !scores
    %kf0 = flamia.load %kf[%j, %c0, %c0] : !vec -> !col
    %kfs = flamia.broadcast %kf0 : !col -> !scores
    %dps = flamia.broadcast %dp0 : !row -> !scores
    %t = math.fma %dps, %kfs, %dpp : !scores
    %ds = arith.mulf %p, %t : !scores
    %ds8 = flamia.quantize %ds : !scores -> !made
    %tku = flamia.load_scaled %k[%at, %c0], %ku[%c0, %c0] along rows : !data, !scale -> !blocks
    %next = flamia.dot %ds8, %tku, %acc0 : !made, !blocks -> !out
    scf.yield %next : !out
  }
  %rotated = flamia.hadamard %acc inverse : !out
  flamia.store %rotated, %o[%row, %c0] : !out, !f32
  flamia.return
}

flamia.kernel @dkdv(%q: !data, %qs: !scale, %k: !data, %ks: !scale, %v: !data, %vs: !scale, %vb: !b16, %do: !data, %dos: !scale,
    %dob: !b16, %bs: !scale, %ku: !scale, %bias: !vec, %bias_hat: !vec, %dp: !vec, %dd: !vec, %r: !vec, %ru: !vec,
    %ok: !f32, %ov: !f32, %n: index, %h: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !scores
  %none = arith.constant dense<0.0> : !out
  %c = arith.constant dense<0.25> : !scores
  %tk = flamia.load_scaled %k[%c0, %c0], %ks[%c0, %c0] along cols : !data, !scale -> !local
  %tv = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along cols : !data, !scale -> !local
  %tvb = flamia.load %vb[%c0, %c0] : !b16 -> !half
  %dkR, %dvR = scf.for %head = %c0 to %h step %c1 iter_args(%dkH = %none, %dvH = %none) -> (!out, !out) {
    %base = arith.muli %head, %c128 : index

    // the diagonal tile
    %tq0 = flamia.load_scaled %q[%base, %c0], %qs[%c0, %head] along cols : !data, !scale -> !local
    %tq0T = flamia.transpose %tq0 : !local -> !local_t
    %s0 = flamia.dot %tk, %tq0T, %zero : !local, !local_t -> !scores
    %b0 = flamia.load %bias[%c0, %head, %c0] : !vec -> !col
    %b0s = flamia.broadcast %b0 : !col -> !scores
    %x0 = math.fma %s0, %c, %b0s : !scores
    %p0 = math.exp2 %x0 : !scores
    %pb0 = arith.truncf %p0 : !scores to !probs
    %pr0 = arith.extf %pb0 : !probs to !scores
    %ru0 = flamia.load %ru[%c0, %head, %c0] : !vec -> !col
    %ru0s = flamia.broadcast %ru0 : !col -> !scores
    %w0 = arith.mulf %pr0, %ru0s : !scores
    %wb0 = arith.truncf %w0 : !scores to !probs
    %tdob0 = flamia.load %dob[%base, %c0] : !b16 -> !half
    %dv0 = flamia.dot %wb0, %tdob0, %dvH : !probs, !half -> !out
    %tdob0T = flamia.transpose %tdob0 : !half -> !half_t
    %dp0 = flamia.dot %tvb, %tdob0T, %zero : !half, !half_t -> !scores
    %r0 = flamia.load %r[%c0, %head, %c0] : !vec -> !col
    %r0s = flamia.broadcast %r0 : !col -> !scores
    %dd0 = flamia.load %dd[%c0, %head, %c0] : !vec -> !col
    %dd0s = flamia.broadcast %dd0 : !col -> !scores
    %t0 = math.fma %dp0, %r0s, %dd0s : !scores
    %ds0 = arith.mulf %p0, %t0 : !scores
    %ds80 = flamia.quantize %ds0 : !scores -> !made
    %tqu0 = flamia.load_scaled %q[%base, %c0], %ku[%c0, %head] along rows : !data, !scale -> !blocks
    %dk0 = flamia.dot %ds80, %tqu0, %dkH : !made, !blocks -> !out

    %dk2, %dv2 = scf.for %i = %c1 to %n step %c1 iter_args(%dk1 = %dk0, %dv1 = %dv0) -> (!out, !out) {
      %offset = arith.muli %i, %c128 : index
      %at = arith.addi %base, %offset : index
      %tq = flamia.load_scaled %q[%at, %c0], %qs[%i, %head] along cols : !data, !scale -> !local
      %tqT = flamia.transpose %tq : !local -> !local_t
      %s = flamia.dot %tk, %tqT, %zero : !local, !local_t -> !scores
      %b = flamia.load %bias_hat[%i, %head, %c0] : !vec -> !col
      %bs0 = flamia.broadcast %b : !col -> !scores
      %x = math.fma %s, %c, %bs0 : !scores
      %p = math.exp2 %x : !scores
      %p8 = flamia.quantize %p : !scores -> !made
      %tdov = flamia.load_scaled %do[%at, %c0], %bs[%i, %head] along rows : !data, !scale -> !blocks
      %dv = flamia.dot %p8, %tdov, %dv1 : !made, !blocks -> !out
      %tdo = flamia.load_scaled %do[%at, %c0], %dos[%i, %head] along cols : !data, !scale -> !local
      %tdoT = flamia.transpose %tdo : !local -> !local_t
      %dpt = flamia.dot %tv, %tdoT, %zero : !local, !local_t -> !scores
      %d = flamia.load %dp[%i, %head, %c0] : !vec -> !col
      %dss = flamia.broadcast %d : !col -> !scores
      %t = arith.subf %dpt, %dss : !scores
      %ds = arith.mulf %p, %t : !scores
      %ds8 = flamia.quantize %ds : !scores -> !made
      %tqk = flamia.load_scaled %q[%at, %c0], %bs[%i, %head] along rows : !data, !scale -> !blocks
      %dk = flamia.dot %ds8, %tqk, %dk1 : !made, !blocks -> !out
      scf.yield %dk, %dv : !out, !out
    }
    scf.yield %dk2, %dv2 : !out, !out
  }
  %rotated = flamia.hadamard %dkR inverse : !out
  flamia.store %rotated, %ok[%c0, %c0] : !out, !f32
  flamia.store %dvR, %ov[%c0, %c0] : !out, !f32
  flamia.return
}
