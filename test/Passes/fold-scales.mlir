// RUN: flamia-opt %s --flamia-fold-scales 2>/dev/null | FileCheck %s --enable-var-scope
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-specialize=params=causal=false --flamia-fold-scales | FileCheck %s --check-prefix=DQ
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize=params=causal=false,head_dim=64 --flamia-fold-scales | FileCheck %s --check-prefix=DKDV
// RUN: flamiac %kernels/attention_bwd_dq.mlir --emit=flamia -D head_dim=64 -o %t.dq 2>/dev/null
// RUN: FileCheck %s --check-prefix=DQD < %t.dq
// RUN: flamiac %kernels/attention_bwd_dkdv.mlir --emit=flamia -o %t.dkdv
// RUN: FileCheck %s --check-prefix=DKDVD < %t.dkdv
// Doing it again changes nothing; the forward has nothing to fold.
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize=params=causal=false --flamia-fold-scales -o %t.once
// RUN: flamia-opt %t.once --flamia-fold-scales -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize --flamia-insert-safeguards -o %t.fwd
// RUN: flamia-opt %t.fwd --flamia-fold-scales -o %t.fwd-folded
// RUN: cmp %t.fwd %t.fwd-folded

// The whole of dQ: V carries eV + eK - EK, D' joins by an fma, K has EK and the 2^-8 of the
// weights. No operation is added.
//
// DQ-LABEL: flamia.kernel @attention_bwd_dq
// DQ-SAME: %v_data: {{[^%]*}}flamia.token_block = 32 : i64}
// DQ: %[[ND:.*]] = arith.negf %{{.*}} : tensor<128x1xf32>
// DQ: scf.for
// DQ-DAG: %[[KF:.*]] = flamia.load %k_factor[%[[TILE:.*]], %[[HEAD:.*]], %c0]
// DQ-DAG: %[[K:.*]] = flamia.load_scaled %k_data[{{.*}}], %k_block_scale[%[[TILE]], %[[HEAD]]] limit {{.*}} along rows {{.*}} per 32x128>
// DQ-DAG: %[[V:.*]] = flamia.load_scaled %v_data[{{.*}}], %v_scale_hat[%[[TILE]], %[[HEAD]]] limit {{.*}} along cols {{.*}} per 1x32>
// DQ: %[[VT:.*]] = flamia.transpose %[[V]]
// DQ: %[[P:.*]] = math.exp2
// DQ-NEXT: %[[DP:.*]] = flamia.dot %{{.*}}, %[[VT]]
// DQ: %[[KFS:.*]] = flamia.broadcast %[[KF]]
// DQ-NEXT: %[[NDS:.*]] = flamia.broadcast %[[ND]]
// DQ-NEXT: %[[T:.*]] = math.fma %[[NDS]], %[[KFS]], %[[DP]]
// DQ-NEXT: %[[DS:.*]] = arith.mulf %[[P]], %[[T]]
// DQ-NEXT: %[[SEEN:.*]] = flamia.mask %[[DS]]
// DQ-NEXT: %[[DS8:.*]] = flamia.quantize %[[SEEN]] :
// DQ-NEXT: flamia.dot %[[DS8]], %[[K]],

// The whole of dK, dV: the weights are relative to E_b, which both products over queries take
// back by their scale bytes, dK's with EQ and the 2^-8 of the weights; what dS misses of it
// joins dO' and D'.
//
// DKDV-LABEL: flamia.kernel @attention_bwd_dkdv
// DKDV-DAG: %[[D:.*]] = flamia.load %d_past_hat[
// DKDV-DAG: %[[Q:.*]] = flamia.load_scaled %q_data[{{.*}}], %q_block_scale[{{.*}} along rows {{.*}}<128x64, {{.*}} per 32x64>
// DKDV-DAG: %[[BIAS:.*]] = flamia.load %bias_hat[
// DKDV-DAG: %[[DO:.*]] = flamia.load_scaled %do_data[{{.*}}], %do_scale_hat[{{.*}} along cols {{.*}} per 1x64>
// DKDV-DAG: %[[DOT:.*]] = flamia.transpose %[[DO]]
// DKDV-DAG: %[[DOB:.*]] = flamia.load_scaled %do_data[{{.*}}], %do_block_scale[{{.*}} along rows
// DKDV: %[[BIASES:.*]] = flamia.broadcast %[[BIAS]] : tensor<1x128xf32>
// DKDV: math.fma %{{.*}}, %{{.*}}, %[[BIASES]]
// DKDV: %[[P:.*]] = math.exp2
// DKDV-NEXT: %[[P8:.*]] = flamia.quantize %[[P]] shift_by -8 :
// DKDV-NEXT: flamia.dot %[[P8]], %[[DOB]],
// DKDV-NEXT: %[[DP:.*]] = flamia.dot %{{.*}}, %[[DOT]],
// DKDV-NEXT: %[[DS:.*]] = flamia.broadcast %[[D]]
// DKDV-NEXT: %[[T:.*]] = arith.subf %[[DP]], %[[DS]]
// DKDV-NEXT: %[[G:.*]] = arith.mulf %[[P]], %[[T]]
// DKDV-NEXT: %[[SEEN:.*]] = flamia.mask %[[G]]
// DKDV-NEXT: %[[G8:.*]] = flamia.quantize %[[SEEN]] :
// DKDV-NEXT: flamia.dot %[[G8]], %[[Q]],

// The tile on the diagonal is ahead of the loop. dQ: BF16 operands take no factor, so 2^eK, absolute, is
// multiplied, below the mask; one fma for r dP - D'.
//
// DQD: %[[P:.*]] = flamia.exp2
// DQD: %[[DP:.*]] = flamia.dot {{.*}} tensor<128x64xbf16>, tensor<64x128xbf16>
// DQD: %[[T:.*]] = math.fma %[[DP]],
// DQD: %[[DS:.*]] = arith.mulf %[[P]], %[[T]]
// DQD: %[[F:.*]] = flamia.broadcast %{{.*}} : tensor<1x128xf32>
// DQD: %[[DSF:.*]] = arith.mulf %[[DS]], %[[F]]
// DQD: %[[SEEN:.*]] = flamia.mask %[[DSF]]
// DQD: flamia.quantize %[[SEEN]] shift_by -8
// DQD: scf.for
// DQD: flamia.quantize %{{[0-9]+}} :
//
// dK, dV: r and D' hold 2^eQ; r in dV holds the 2^-8.
//
// DKDVD-DAG: %[[D:.*]] = flamia.load %d_diagonal_hat[
// DKDVD-DAG: %[[ND:.*]] = arith.negf %[[D]]
// DKDVD-DAG: %[[R:.*]] = flamia.load %r_hat[
// DKDVD-DAG: %[[Q:.*]] = flamia.load_payload %q_data[
// DKDVD-DAG: %[[B:.*]] = flamia.load %bias[
// DKDVD-DAG: %[[U:.*]] = flamia.load %r_unit[
// DKDVD: %[[P:.*]] = math.exp2
// DKDVD: %[[PB:.*]] = arith.truncf %[[P]]
// DKDVD: %[[PF:.*]] = arith.extf %[[PB]]
// DKDVD: %[[US:.*]] = flamia.broadcast %[[U]]
// DKDVD: %[[W:.*]] = arith.mulf %[[PF]], %[[US]]
// DKDVD: %[[WM:.*]] = flamia.mask %[[W]] {{.*}} zero
// DKDVD: %[[WB:.*]] = arith.truncf %[[WM]]
// DKDVD: flamia.dot %[[WB]],
// DKDVD: %[[DP:.*]] = flamia.dot {{.*}}bf16
// DKDVD: %[[RS:.*]] = flamia.broadcast %[[R]]
// DKDVD: %[[NDS:.*]] = flamia.broadcast %[[ND]]
// DKDVD: %[[T:.*]] = math.fma %[[DP]], %[[RS]], %[[NDS]]
// DKDVD: %[[G:.*]] = arith.mulf %[[P]], %[[T]]
// DKDVD: %[[SEEN:.*]] = flamia.mask %[[G]]
// DKDVD: %[[G8:.*]] = flamia.quantize %[[SEEN]] shift_by -8 :
// DKDVD: flamia.dot %[[G8]], %[[Q]],
// DKDVD: scf.for
// DKDVD: flamia.quantize %{{[0-9]+}} shift_by -8 :
// DKDVD: flamia.quantize %{{[0-9]+}} :

!tile = tensor<128x128xf32>
!half = tensor<128x128xbf16>
!data = memref<?x?x128xf8E4M3FN>
!bytes = memref<?x?x512xf8E8M0FNU>
!lines = memref<?x?x128xf32>
!numbers = memref<?x?xf32>
!global = memref<?x128xf32>
!local = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
!localT = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 128x1>
!block = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
!w = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

// A power of two before a dynamic quantization becomes a shift of its scales; one that is
// there already is counted.
// CHECK-LABEL: flamia.kernel @constant_to_shift
flamia.kernel @constant_to_shift(%x: !global, %d: memref<?x128xf8E4M3FN>, %s: !bytes) grid(1) {
  %c0 = arith.constant 0 : index
  %unit = arith.constant dense<0.125> : !tile
  %t = flamia.load %x[%c0, %c0] : !global -> !tile
  // CHECK: %[[T:.*]] = flamia.load %x
  // CHECK-NEXT: flamia.quantize %[[T]] shift_by -5 :
  %p = arith.mulf %unit, %t : !tile
  %q = flamia.quantize %p shift_by -2 : !tile -> !w
  flamia.store_payload %q, %d[%c0, %c0] : !w, memref<?x128xf8E4M3FN>
  // Other users see the value itself: the multiplication stays.
  %v = flamia.load %x[%c0, %c0] : !global -> !tile
  // CHECK: %[[V:.*]] = arith.mulf
  %m = arith.mulf %v, %unit : !tile
  // CHECK: flamia.quantize %[[V]] :
  %r = flamia.quantize %m : !tile -> !w
  flamia.store_payload %r, %d[%c0, %c0] : !w, memref<?x128xf8E4M3FN>
  flamia.store %m, %x[%c0, %c0] : !tile, !global
  flamia.return
}

// With a static scale the payload would change.
// CHECK-LABEL: flamia.kernel @negative_static_scale
flamia.kernel @negative_static_scale(%x: !global, %d: memref<?x128xf8E4M3FN>) grid(1) {
  %c0 = arith.constant 0 : index
  %unit = arith.constant dense<0.125> : !tile
  %t = flamia.load %x[%c0, %c0] : !global -> !tile
  // CHECK: %[[P:.*]] = arith.mulf
  // CHECK: flamia.quantize %[[P]] exponent 0 : tensor
  %p = arith.mulf %t, %unit : !tile
  %q = flamia.quantize %p exponent 0 : !tile -> !w
  flamia.store_payload %q, %d[%c0, %c0] : !w, memref<?x128xf8E4M3FN>
  flamia.return
}

// A power of three quarters is none.
// CHECK-LABEL: flamia.kernel @negative_no_power
flamia.kernel @negative_no_power(%x: !global, %d: memref<?x128xf8E4M3FN>) grid(1) {
  %c0 = arith.constant 0 : index
  %unit = arith.constant dense<0.75> : !tile
  %t = flamia.load %x[%c0, %c0] : !global -> !tile
  // CHECK: arith.mulf
  // CHECK-NOT: shift_by
  %p = arith.mulf %t, %unit : !tile
  %q = flamia.quantize %p : !tile -> !w
  flamia.store_payload %q, %d[%c0, %c0] : !w, memref<?x128xf8E4M3FN>
  flamia.return
}

// The factor of K's tokens costs a multiplication, below the mask that hides elements.
// CHECK-LABEL: flamia.kernel @factor
flamia.kernel @factor(%x: !global, %k_data: !data, %k_scale: !bytes, %f: !lines {flamia.folded = {exponent = "e(k_data)"}}, %y: !global) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %t = flamia.load %x[%c0, %c0] : !global -> !tile
  %k = flamia.load_scaled %k_data[%c0, %c0, %c0], %k_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %e = math.exp2 %t : !tile
  %seen = flamia.mask %e rows %c0 cols %c0 causal zero : !tile
  %w = flamia.quantize %seen : !tile -> !w
  // CHECK-DAG: %[[F:.*]] = flamia.load %f[%c0, %c0, %c0] : memref<?x?x128xf32> -> tensor<1x128xf32>
  // CHECK-DAG: %[[K:.*]] = flamia.load_payload %k_data[%c0, %c0, %c0]
  // CHECK: %[[E:.*]] = math.exp2
  // CHECK: %[[FS:.*]] = flamia.broadcast %[[F]]
  // CHECK: %[[P:.*]] = arith.mulf %[[E]], %[[FS]]
  // CHECK: %[[SEEN:.*]] = flamia.mask %[[P]]
  // CHECK: %[[W:.*]] = flamia.quantize %[[SEEN]] :
  // CHECK: flamia.dot %[[W]], %[[K]]
  %r = flamia.dot %w, %k, %zero : !w, !local -> !tile
  flamia.store %r, %y[%c0, %c0] : !tile, !global
  flamia.return
}

// Into the scales of the operand that has the same tokens, through a difference with a
// vector of the other axis (an fma with the factor) and through a product.
// CHECK-LABEL: flamia.kernel @through_dot
flamia.kernel @through_dot(%x: !global, %d: memref<?x?xf32>, %do: !data, %do_scale: !bytes, %k_data: !data, %k_scale: !bytes, %v_data: !data, %v_scale: !bytes,
    %f: !lines {flamia.folded = {exponent = "e(k_data)"}}, %v_hat: !bytes {flamia.folded = {exponent = "e(v_data) + e(k_data)", along = "cols"}}, %y: !global) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %p = flamia.load %x[%c0, %c0] : !global -> !tile
  %dvec = flamia.load %d[%c0, %c0] : memref<?x?xf32> -> tensor<128x1xf32>
  %a = flamia.load_scaled %do[%c0, %c0, %c0], %do_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %k = flamia.load_scaled %k_data[%c0, %c0, %c0], %k_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %v = flamia.load_scaled %v_data[%c0, %c0, %c0], %v_scale[%c0, %c0] along cols : !data, !bytes -> !block
  %vT = flamia.transpose %v : !block -> !block
  %dp = flamia.dot %a, %vT, %zero : !local, !block -> !tile
  %ds = flamia.broadcast %dvec : tensor<128x1xf32> -> !tile
  %t = arith.subf %dp, %ds : !tile
  %g = arith.mulf %p, %t : !tile
  %w = flamia.quantize %g : !tile -> !w
  %r = flamia.dot %w, %k, %zero : !w, !local -> !tile
  flamia.store %r, %y[%c0, %c0] : !tile, !global
  // CHECK-DAG: %[[N:.*]] = arith.negf %{{.*}} : tensor<128x1xf32>
  // CHECK-DAG: %[[F:.*]] = flamia.load %f[
  // CHECK-DAG: %[[K:.*]] = flamia.load_payload %k_data[
  // CHECK-DAG: %[[V:.*]] = flamia.load_scaled %v_data[{{.*}}], %v_hat[{{.*}} along cols
  // CHECK-DAG: %[[VT:.*]] = flamia.transpose %[[V]]
  // CHECK: %[[DP:.*]] = flamia.dot %{{.*}}, %[[VT]]
  // CHECK: %[[FS:.*]] = flamia.broadcast %[[F]]
  // CHECK: %[[NS:.*]] = flamia.broadcast %[[N]]
  // CHECK: %[[T:.*]] = math.fma %[[NS]], %[[FS]], %[[DP]]
  // CHECK: %[[G:.*]] = arith.mulf %{{.*}}, %[[T]]
  // CHECK: %[[W:.*]] = flamia.quantize %[[G]] :
  // CHECK: flamia.dot %[[W]], %[[K]]
  flamia.return
}

// Into the summand of exp2's argument; a vector that was turned is read as the argument that
// holds it. The rest is a number for the tile, which joins the scale bytes.
// CHECK-LABEL: flamia.kernel @into_bias
flamia.kernel @into_bias(%x: !global, %m: !numbers, %q_data: !data, %q_scale: !bytes,
    %bias: !lines {flamia.folded = {of = "m", negate, plus = 4.0, exponent = "e(q_data) - max128(e(q_data))"}},
    %top: !numbers {flamia.folded = {exponent = "max128(e(q_data))"}}, %y: !global) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %four = arith.constant dense<4.0> : tensor<128x1xf32>
  %s = flamia.load %x[%c0, %c0] : !global -> !tile
  %mvec = flamia.load %m[%c0, %c0] : !numbers -> tensor<128x1xf32>
  %q = flamia.load_scaled %q_data[%c0, %c0, %c0], %q_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %b = arith.subf %four, %mvec : tensor<128x1xf32>
  %line = flamia.transpose %b : tensor<128x1xf32> -> tensor<1x128xf32>
  %bs = flamia.broadcast %line : tensor<1x128xf32> -> !tile
  %e = math.fma %s, %s, %bs : !tile
  %seen = flamia.mask %e rows %c0 cols %c0 transposed causal : !tile
  %p = math.exp2 %seen : !tile
  %w = flamia.quantize %p : !tile -> !w
  %r = flamia.dot %w, %q, %zero : !w, !local -> !tile
  flamia.store %r, %y[%c0, %c0] : !tile, !global
  // CHECK-NOT: flamia.load %m
  // CHECK-DAG: %[[TOP:.*]] = flamia.load %top[%c0, %c0]
  // CHECK-DAG: %[[BIAS:.*]] = flamia.load %bias[%c0, %c0, %c0]
  // CHECK-DAG: %[[Q:.*]] = flamia.load_payload %q_data
  // CHECK: %[[BS:.*]] = flamia.broadcast %[[BIAS]]
  // CHECK: %[[E:.*]] = math.fma %{{.*}}, %{{.*}}, %[[BS]]
  // CHECK: %[[W:.*]] = flamia.quantize %{{.*}} shift(%[[TOP]] : tensor<1x1xf32>) : tensor
  // CHECK: flamia.dot %[[W]], %[[Q]]
  flamia.return
}

// A value with two users: both see it folded, the second takes the inverse by the scales of
// its own operand.
// CHECK-LABEL: flamia.kernel @several_users
flamia.kernel @several_users(%x: !global, %m: !numbers, %q_data: !data, %q_scale: !bytes, %d_data: !data, %d_scale: !bytes,
    %plain: !lines {flamia.folded = {of = "m", plus = 0}}, %hat: !lines {flamia.folded = {of = "m", plus = 0, exponent = "e(d_data) - max32(e(d_data))"}},
    %blocks: !bytes {flamia.folded = {exponent = "max32(e(d_data))", along = "rows"}},
    %cols: !bytes {flamia.folded = {exponent = "e(q_data)", along = "cols"}}, %y: !global) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %q = flamia.load_scaled %q_data[%c0, %c0, %c0], %q_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %d = flamia.load_scaled %d_data[%c0, %c0, %c0], %d_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %s = flamia.load %x[%c0, %c0] : !global -> !tile
  %mvec = flamia.load %m[%c0, %c0] : !numbers -> tensor<128x1xf32>
  %zeros = arith.constant dense<0.0> : tensor<128x1xf32>
  %b = arith.addf %mvec, %zeros : tensor<128x1xf32>
  %line = flamia.transpose %b : tensor<128x1xf32> -> tensor<1x128xf32>
  %bs = flamia.broadcast %line : tensor<1x128xf32> -> !tile
  %e = arith.addf %s, %bs : !tile
  %p = math.exp2 %e : !tile
  %dT = flamia.transpose %d : !local -> !localT
  %w = flamia.quantize %p : !tile -> !w
  %dv = flamia.dot %w, %d, %zero : !w, !local -> !tile
  flamia.store %dv, %y[%c0, %c0] : !tile, !global
  %dp = flamia.dot %q, %dT, %zero : !local, !localT -> !tile
  %g = arith.mulf %p, %dp : !tile
  %g8 = flamia.quantize %g : !tile -> !w
  %dk = flamia.dot %g8, %q, %zero : !w, !local -> !tile
  flamia.store %dk, %y[%c0, %c0] : !tile, !global
  // CHECK-DAG: %[[HAT:.*]] = flamia.load %hat[
  // CHECK-DAG: %[[Q:.*]] = flamia.load_scaled %q_data[{{.*}}], %blocks[
  // CHECK-DAG: %[[D:.*]] = flamia.load_scaled %d_data[{{.*}}], %blocks[
  // CHECK-DAG: %[[DC:.*]] = flamia.load_scaled %d_data[{{.*}}], %cols[
  // CHECK-DAG: %[[DT:.*]] = flamia.transpose %[[DC]]
  // CHECK: %[[P:.*]] = math.exp2
  // CHECK: %[[W:.*]] = flamia.quantize %[[P]]
  // CHECK: flamia.dot %[[W]], %[[D]],
  // CHECK: %[[DP:.*]] = flamia.dot %{{.*}}, %[[DT]]
  // CHECK: %[[G:.*]] = arith.mulf %[[P]], %[[DP]]
  // CHECK: %[[G8:.*]] = flamia.quantize %[[G]]
  // CHECK: flamia.dot %[[G8]], %[[Q]]
  flamia.return
}

// Through rounding to BF16 into a vector that is multiplied anyway. The turned vector keeps
// its sign.
// CHECK-LABEL: flamia.kernel @through_rounding
flamia.kernel @through_rounding(%x: !global, %r: !numbers, %q_data: !data, %q_scale: !bytes,
    %unit: !lines {flamia.folded = {of = "r", exponent = "-3"}}, %b: memref<?x128xbf16>, %y: !global) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %eighth = arith.constant dense<0.125> : !tile
  %s = flamia.load %x[%c0, %c0] : !global -> !tile
  %rvec = flamia.load %r[%c0, %c0] : !numbers -> tensor<128x1xf32>
  %q = flamia.load_scaled %q_data[%c0, %c0, %c0], %q_scale[%c0, %c0] along cols : !data, !bytes -> !local
  %e = math.exp2 %s : !tile
  %p = arith.mulf %e, %eighth : !tile
  %h = arith.truncf %p : !tile to !half
  %f = arith.extf %h : !half to !tile
  %line = flamia.transpose %rvec : tensor<128x1xf32> -> tensor<1x128xf32>
  %minus = arith.negf %line : tensor<1x128xf32>
  %rs = flamia.broadcast %minus : tensor<1x128xf32> -> !tile
  %w = arith.mulf %f, %rs : !tile
  %wh = arith.truncf %w : !tile to !half
  %v = flamia.load %b[%c0, %c0] : memref<?x128xbf16> -> !half
  %o = flamia.dot %wh, %v, %zero : !half, !half -> !tile
  flamia.store %o, %y[%c0, %c0] : !tile, !global
  // So that the place of r has a scale tile.
  %qT = flamia.transpose %q : !local -> !localT
  %o2 = flamia.dot %q, %qT, %zero : !local, !localT -> !tile
  flamia.store %o2, %y[%c0, %c0] : !tile, !global
  // CHECK: %[[U:.*]] = flamia.load %unit[%c0, %c0, %c0]
  // CHECK: %[[N:.*]] = arith.negf %[[U]]
  // CHECK: %[[E:.*]] = math.exp2
  // CHECK-NEXT: %[[H:.*]] = arith.truncf %[[E]]
  // CHECK-NEXT: %[[F:.*]] = arith.extf %[[H]]
  // CHECK-NEXT: %[[RS:.*]] = flamia.broadcast %[[N]]
  // CHECK-NEXT: arith.mulf %[[F]], %[[RS]]
  flamia.return
}

// A product scaled by a vector, minus a vector: one fma. Other differences stay.
// CHECK-LABEL: flamia.kernel @fma
flamia.kernel @fma(%d: !numbers, %r: !numbers, %b: memref<?x128xbf16>, %y: !global) grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %v = flamia.load %b[%c0, %c0] : memref<?x128xbf16> -> !half
  %dvec = flamia.load %d[%c0, %c0] : !numbers -> tensor<128x1xf32>
  %rvec = flamia.load %r[%c0, %c0] : !numbers -> tensor<128x1xf32>
  // CHECK: %[[N:.*]] = arith.negf %{{.*}} : tensor<128x1xf32>
  // CHECK: %[[O:.*]] = flamia.dot
  %o = flamia.dot %v, %v, %zero : !half, !half -> !tile
  // CHECK-DAG: %[[R:.*]] = flamia.broadcast %{{.*}}
  // CHECK-DAG: %[[NS:.*]] = flamia.broadcast %[[N]]
  // CHECK: math.fma %[[O]], %[[R]], %[[NS]]
  %rs = flamia.broadcast %rvec : tensor<128x1xf32> -> !tile
  %or = arith.mulf %o, %rs : !tile
  %ds = flamia.broadcast %dvec : tensor<128x1xf32> -> !tile
  %t = arith.subf %or, %ds : !tile
  flamia.store %t, %y[%c0, %c0] : !tile, !global
  // CHECK: %[[RR:.*]] = arith.mulf %{{.*}} : tensor<128x1xf32>
  // CHECK: arith.subf %[[RR]], %{{.*}} : tensor<128x1xf32>
  %rr = arith.mulf %rvec, %rvec : tensor<128x1xf32>
  %dr = arith.subf %rr, %dvec : tensor<128x1xf32>
  flamia.store %dr, %r[%c0, %c0] : tensor<128x1xf32>, !numbers
  flamia.return
}

// Maxima over tokens may be used where all of the tokens are past: keys 0 to 127 are for the
// second tile of queries, keys 128 to 255 are not.
// CHECK-LABEL: flamia.kernel @relative_where_past
flamia.kernel @relative_where_past(%x: !global, %k_data: !data, %k_scale: !bytes,
    %relative: !lines {flamia.folded = {exponent = "e(k_data) - max128(e(k_data)) + 3"}},
    %top: !numbers {flamia.folded = {exponent = "max128(e(k_data)) - 1"}}, %y: !global {flamia.depends = {k_data = "<=", x = "any"}}) grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !tile
  %t = flamia.load %x[%c0, %c0] : !global -> !tile
  %e = math.exp2 %t : !tile
  // CHECK: %[[K:.*]] = flamia.load_scaled %k_data[%c128, %c0, %c0], %k_scale[
  // CHECK: flamia.dot %{{.*}}, %[[K]]
  %k = flamia.load_scaled %k_data[%c128, %c0, %c0], %k_scale[%c1, %c0] along cols : !data, !bytes -> !local
  %w = flamia.quantize %e : !tile -> !w
  %r = flamia.dot %w, %k, %zero : !w, !local -> !tile
  %k0 = flamia.load_scaled %k_data[%c0, %c0, %c0], %k_scale[%c0, %c0] along cols : !data, !bytes -> !local
  // CHECK: flamia.load %relative[%c0, %c0, %c0]
  // CHECK: flamia.load %top[%c0, %c0]
  // CHECK: flamia.quantize %{{[0-9]+}} shift(%{{[0-9]+}} : tensor<1x1xf32>) shift_by -2 : tensor
  %e0 = arith.mulf %e, %t : !tile
  %w0 = flamia.quantize %e0 : !tile -> !w
  %r0 = flamia.dot %w0, %k0, %r : !w, !local -> !tile
  flamia.store %r0, %y[%c128, %c0] : !tile, !global
  flamia.return
}
