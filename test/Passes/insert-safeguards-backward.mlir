// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-specialize --flamia-insert-safeguards | FileCheck %s --check-prefix=DQ
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize --flamia-insert-safeguards | FileCheck %s --check-prefix=DKDV
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize=params=causal=false --flamia-insert-safeguards | FileCheck %s --check-prefix=FULL
// RUN: flamia-opt %s --flamia-insert-safeguards | FileCheck %s
// Doing it again changes nothing.
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize --flamia-insert-safeguards -o %t.once
// RUN: flamia-opt %t.once --flamia-insert-safeguards -o %t.twice
// RUN: cmp %t.once %t.twice

// The diagonal tile: dP from dO and V in BF16, times r and minus D' of BF16 tiles in one fma.
// P is not rounded: only dS sees it. Past tiles keep the scaled operands and need no mask.
//
// DQ-LABEL: flamia.kernel @attention_bwd_dq
// DQ-DAG: %[[R:.*]] = flamia.load %r[
// DQ-DAG: %[[DO:.*]] = flamia.load %do[
// DQ-DAG: %[[D:.*]] = flamia.load %d_diagonal[
// DQ-DAG: %[[V:.*]] = flamia.load %v_bf16[
// DQ-DAG: %[[P:.*]] = arith.mulf {{.*}} : tensor<128x128xf32>
// DQ: %[[DP:.*]] = flamia.dot %[[DO]], %{{.*}} : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xf32>
// DQ-DAG: %[[RS:.*]] = flamia.broadcast %[[R]]
// DQ-DAG: %[[ND:.*]] = arith.negf %[[D]] : tensor<128x1xf32>
// DQ-DAG: %[[NDS:.*]] = flamia.broadcast %[[ND]]
// DQ: %[[T:.*]] = math.fma %[[DP]], %[[RS]], %[[NDS]]
// DQ: %[[G:.*]] = arith.mulf %[[P]], %[[T]]
// DQ: flamia.mask %[[G]] {{.*}} causal limit %end zero
// DQ-NOT: arith.truncf
// DQ: scf.for
// DQ-NOT: flamia.mask
// DQ-NOT: bf16
// DQ: flamia.load_scaled %v_data[
// DQ: arith.subf
// DQ: scf.yield

// Inside the loop over heads the first query tile is apart. dO is an operand of two products
// there: P of dV takes r before its last rounding, and dS sees P as it was. What is masked is
// masked again behind r, which is NaN where a score overflows: dV of later keys must not see it.
//
// DKDV-LABEL: flamia.kernel @attention_bwd_dkdv
// DKDV: scf.for
// DKDV-DAG: %[[DO:.*]] = flamia.load %do[
// DKDV-DAG: %[[R:.*]] = flamia.load %r[
// DKDV-DAG: %[[D:.*]] = flamia.load %d_diagonal[
// DKDV: %[[P:.*]] = arith.mulf {{.*}} : tensor<128x128xf32>
// DKDV: %[[PB:.*]] = arith.truncf %[[P]]
// DKDV: %[[PF:.*]] = arith.extf %[[PB]]
// DKDV: %[[RL:.*]] = flamia.transpose %[[R]] : tensor<128x1xf32> -> tensor<1x128xf32>
// DKDV: %[[RS:.*]] = flamia.broadcast %[[RL]]
// DKDV: %[[PR:.*]] = arith.mulf %[[PF]], %[[RS]]
// DKDV: %[[PM:.*]] = flamia.mask %[[PR]] {{.*}} transposed causal limit %end zero
// DKDV: %[[W:.*]] = arith.truncf %[[PM]]
// DKDV: %[[DV:.*]] = flamia.dot %[[W]], %[[DO]], %{{.*}} : tensor<128x128xbf16>, tensor<128x128xbf16>
// DKDV: %[[DP:.*]] = flamia.dot %{{.*}} : tensor<128x128xbf16>, tensor<128x128xbf16>
// DKDV: %[[T:.*]] = math.fma %[[DP]], %[[RS]], %{{.*}}
// DKDV: %[[G:.*]] = arith.mulf %[[P]], %[[T]]
// DKDV: flamia.mask %[[G]] {{.*}} transposed causal limit %end zero
// DKDV: scf.for {{.*}} iter_args({{.*}} = %[[DV]])
// DKDV-NOT: causal
// DKDV-NOT: bf16
// DKDV: flamia.load_scaled %do_data[
// DKDV: flamia.load %d_past[
// DKDV: scf.yield

// FULL-LABEL: flamia.kernel @attention_bwd_dkdv
// FULL-NOT: transposed causal
// FULL-NOT: flamia.load %do[
// FULL: flamia.mask {{.*}} transposed limit %end :
// FULL-NOT: flamia.load %do[
// FULL: flamia.return

!x = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
!w = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
!wT = !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 32x32>

// A product that adds to something, of rows that have a factor and nothing subtracted.
// CHECK-LABEL: flamia.kernel @accumulates
flamia.kernel @accumulates(%x: memref<?x2x64xf8E4M3FN> {flamia.original = "x_bf16", flamia.original_factor = "f"}, %xs: memref<?x?x512xf8E8M0FNU>, %x_bf16: memref<?x2x64xbf16>,
    %f: memref<?x2xf32>, %w: memref<?x2x64xf8E4M3FN> {flamia.original = "w_bf16"}, %ws: memref<?x?x512xf8E8M0FNU>, %w_bf16: memref<?x2x64xbf16>,
    %o: memref<?x1xf32> {flamia.depends = {w = "<=", x = "any"}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f1 = arith.constant 1.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %ones = flamia.full %f1 : tensor<128x128xf32>
  %a = flamia.load_scaled %x[%row, %c1, %c0], %xs[%tile, %c1] along cols : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !x
  %b = flamia.load_scaled %w[%row, %c1, %c0], %ws[%tile, %c1] along cols : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !w
  %bT = flamia.transpose %b : !w -> !wT
  // CHECK-DAG: %[[ONES:.*]] = flamia.full %{{.*}} : tensor<128x128xf32>
  // CHECK-DAG: %[[F:.*]] = flamia.load %f[%{{.*}}, %c1] : memref<?x2xf32> -> tensor<128x1xf32>
  // CHECK: %[[DOT:.*]] = flamia.dot %{{.*}} : tensor<128x64xbf16>, tensor<64x128xbf16>
  // CHECK: %[[FS:.*]] = flamia.broadcast %[[F]]
  // CHECK: %[[R:.*]] = math.fma %[[DOT]], %[[FS]], %[[ONES]]
  // CHECK: flamia.mask %[[R]]
  %d = flamia.dot %a, %bT, %ones : !x, !wT -> tensor<128x128xf32>
  %m = flamia.mask %d rows %row cols %row causal : tensor<128x128xf32>
  %r = flamia.reduce max %m : tensor<128x128xf32> -> tensor<128x1xf32>
  flamia.store %r, %o[%row, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// Masks of tiles whose rows are keys: `causal` goes where the queries come later, the limit of
// the queries stays, and that of the keys is nobody's.
// CHECK-LABEL: flamia.kernel @transposed_masks
flamia.kernel @transposed_masks(%work: memref<?x4xi32>, %x: memref<?x128xf32>) parameters {} grid(work[0]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %begin, %end, %tile, %base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %t = flamia.load %x[%row, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  // CHECK: flamia.mask %{{.*}} transposed causal limit %end zero :
  %a = flamia.mask %t rows %row cols %row transposed causal limit %end zero : tensor<128x128xf32>
  flamia.store %a, %x[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  %later = arith.addi %row, %c128 : index
  // CHECK: flamia.mask %{{.*}} transposed limit %end :
  %b = flamia.mask %t rows %row cols %later transposed causal limit %end : tensor<128x128xf32>
  flamia.store %b, %x[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  // Not so for rows that are queries.
  // CHECK: flamia.mask %{{.*}} causal limit %end :
  %c = flamia.mask %t rows %row cols %later causal limit %end : tensor<128x128xf32>
  flamia.store %c, %x[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  // Query minus key is at most 255 here.
  // CHECK-NEXT: flamia.store
  // CHECK-NEXT: flamia.store
  // CHECK-NEXT: flamia.return
  %d = flamia.mask %t rows %row cols %later transposed window %c256 : tensor<128x128xf32>
  flamia.store %d, %x[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}
