// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize --flamia-insert-safeguards | FileCheck %s --check-prefix=FWD
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize=params=causal=false --flamia-insert-safeguards | FileCheck %s --check-prefix=FULL
// RUN: flamia-opt %s --flamia-insert-safeguards | FileCheck %s
// RUN: flamia-opt %s --flamia-insert-safeguards --flamia-check-causality -o /dev/null
// Doing it again changes nothing.
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-specialize --flamia-insert-safeguards -o %t.once
// RUN: flamia-opt %t.once --flamia-insert-safeguards -o %t.twice
// RUN: cmp %t.once %t.twice

// The diagonal tile is straight-line code ahead of the loop, with BF16 weights that l and
// kappa see too; past tiles keep the scaled operands and need no mask.
//
// FWD-LABEL: flamia.kernel @attention_fwd
// FWD: %[[P:.*]] = math.exp2 {{.*}} : tensor<128x128xf32>
// FWD: %[[PB:.*]] = arith.truncf %[[P]] : tensor<128x128xf32> to tensor<128x128xbf16>
// FWD: %[[PF:.*]] = arith.extf %[[PB]]
// FWD: flamia.reduce sum %[[PF]]
// The largest weight, which comes from the largest score, is rounded too: nothing is left of
// its rounding.
// FWD: %[[TOP:.*]] = math.exp2 {{.*}} : tensor<128x1xf32>
// FWD: %[[TOPB:.*]] = arith.truncf %[[TOP]] : tensor<128x1xf32> to tensor<128x1xbf16>
// FWD: %[[TOPF:.*]] = arith.extf %[[TOPB]]
// FWD: %[[LIKE:.*]] = flamia.round_like %[[TOPF]], %[[PB]] : tensor<128x1xf32>, tensor<128x128xbf16>
// FWD: arith.subf %[[LIKE]], %[[TOPF]]
// FWD: %[[V:.*]] = flamia.load %v_bf16[
// FWD: %[[ACC:.*]] = flamia.dot %[[PB]], %[[V]], {{.*}} : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xf32>
// FWD: scf.for {{.*}} iter_args({{.*}} = %[[ACC]])
// FWD-NOT: flamia.mask
// FWD-NOT: bf16
// FWD: flamia.quantize {{.*}} exponent 0
// FWD: flamia.load_scaled %v_data[
// FWD: scf.yield

// Nothing leaks where every query may see every key: no BF16, one loop, and the limit
// implies the causal condition with which the kernel speaks of the document's end.
//
// FULL-LABEL: flamia.kernel @attention_fwd
// FULL: scf.for
// FULL-NOT: causal
// FULL: flamia.mask {{.*}} limit %
// FULL-NOT: flamia.load %v_bf16
// FULL: scf.yield

!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>

// Ascending order: the last iteration is split off.
// CHECK-LABEL: flamia.kernel @ascending
flamia.kernel @ascending(%w: memref<?x128xf32>, %v: memref<?x64xf8E4M3FN> {flamia.original = "v_bf16"}, %vs: memref<?x?x512xf8E8M0FNU>,
    %v_bf16: memref<?x64xbf16>, %o: memref<?x64xf32> {flamia.depends = {v = "<=", w = "any"}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %end = arith.addi %tile, %c1 : index
  %z = flamia.full %f0 : tensor<128x64xf32>
  %t = flamia.load %w[%row, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  // CHECK: %[[PAST:.*]] = scf.for %{{.*}} = %c0 to %[[TILE:.*]] step
  // CHECK-NOT: flamia.mask
  // CHECK: flamia.load_scaled %v[
  // CHECK: scf.yield
  // CHECK: flamia.mask
  // CHECK: %[[PB:.*]] = arith.truncf
  // CHECK: %[[V:.*]] = flamia.load %v_bf16[
  // CHECK: %[[ALL:.*]] = flamia.dot %[[PB]], %[[V]], %[[PAST]]
  // CHECK: flamia.store %[[ALL]]
  %r = scf.for %j = %c0 to %end step %c1 iter_args(%acc = %z) -> (tensor<128x64xf32>) {
    %key = arith.muli %j, %c128 : index
    %x = flamia.mask %t rows %row cols %key causal : tensor<128x128xf32>
    %e = math.exp2 %x : tensor<128x128xf32>
    %p = flamia.quantize %e exponent 0 : tensor<128x128xf32> -> !p
    %u = flamia.load_scaled %v[%key, %c0], %vs[%j, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
    %d = flamia.dot %p, %u, %acc : !p, !v -> tensor<128x64xf32>
    scf.yield %d : tensor<128x64xf32>
  }
  flamia.store %r, %o[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// Nothing says that there is an iteration: a loop of at most one stays ahead of the others.
// CHECK-LABEL: flamia.kernel @maybe_empty
flamia.kernel @maybe_empty(%w: memref<?x128xf32>, %v: memref<?x64xf8E4M3FN> {flamia.original = "v_bf16"}, %vs: memref<?x?x512xf8E8M0FNU>,
    %v_bf16: memref<?x64xbf16>, %count: index, %o: memref<?x64xf32> {flamia.depends = {v = "<=", w = "any"}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %z = flamia.full %f0 : tensor<128x64xf32>
  %t = flamia.load %w[%row, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  // CHECK: %[[END:.*]] = arith.minsi %count, %c1
  // CHECK: %[[FIRST:.*]] = scf.for %{{.*}} = %c0 to %[[END]]
  // CHECK: flamia.load %v_bf16[
  // CHECK: scf.for %{{.*}} = %c1 to %count step %c1 iter_args(%{{.*}} = %[[FIRST]])
  // CHECK: flamia.load_scaled %v[
  %r = scf.for %n = %c0 to %count step %c1 iter_args(%acc = %z) -> (tensor<128x64xf32>) {
    %j = arith.subi %tile, %n : index
    %key = arith.muli %j, %c128 : index
    %x = flamia.mask %t rows %row cols %key causal : tensor<128x128xf32>
    %e = math.exp2 %x : tensor<128x128xf32>
    %p = flamia.quantize %e exponent 0 : tensor<128x128xf32> -> !p
    %u = flamia.load_scaled %v[%key, %c0], %vs[%j, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
    %d = flamia.dot %p, %u, %acc : !p, !v -> tensor<128x64xf32>
    scf.yield %d : tensor<128x64xf32>
  }
  flamia.store %r, %o[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

!do = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x64>
!vT = !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 32x32>

// Both operands are loads with originals (as in a backward pass), the leaking one transposed.
// CHECK-LABEL: flamia.kernel @two_loads
flamia.kernel @two_loads(%do: memref<?x64xf8E4M3FN> {flamia.original = "do_bf16"}, %ds: memref<?x?x512xf8E8M0FNU>, %do_bf16: memref<?x64xbf16>,
    %v: memref<?x64xf8E4M3FN> {flamia.original = "v_bf16"}, %vs: memref<?x?x512xf8E8M0FNU>, %v_bf16: memref<?x64xbf16>,
    %o: memref<?x1xf32> {flamia.depends = {v = "<=", do = "any"}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %z = flamia.full %f0 : tensor<128x128xf32>
  %a = flamia.load_scaled %do[%row, %c0], %ds[%tile, %c0] along cols : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !do
  %b = flamia.load_scaled %v[%row, %c0], %vs[%tile, %c0] along cols : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  %bT = flamia.transpose %b : !v -> !vT
  // CHECK-DAG: %[[A:.*]] = flamia.load %do_bf16[
  // CHECK-DAG: %[[B:.*]] = flamia.load %v_bf16[
  // CHECK: %[[BT:.*]] = flamia.transpose %[[B]] : tensor<128x64xbf16> -> tensor<64x128xbf16>
  // CHECK: flamia.dot %[[A]], %[[BT]], {{.*}} : tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32>
  %d = flamia.dot %a, %bT, %z : !do, !vT -> tensor<128x128xf32>
  %m = flamia.mask %d rows %row cols %row causal : tensor<128x128xf32>
  %r = flamia.reduce max %m : tensor<128x128xf32> -> tensor<128x1xf32>
  flamia.store %r, %o[%row, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// Masks that are proven to keep everything go; others keep the conditions that matter.
// CHECK-LABEL: flamia.kernel @masks
flamia.kernel @masks(%work: memref<?x4xi32>, %x: memref<?x128xf32>) parameters {} grid(work[0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %c255 = arith.constant 255 : index
  %begin, %end, %tile, %base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %t = flamia.load %x[%row, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  // On the diagonal all conditions stay but a window that nothing exceeds.
  // CHECK: flamia.mask %{{.*}} rows %{{.*}} cols %{{.*}} causal limit %{{[a-z]+}} :
  %d = flamia.mask %t rows %row cols %row causal limit %end window %c255 : tensor<128x128xf32>
  flamia.store %d, %x[%row, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  scf.for %n = %c1 to %tile step %c1 {
    %back = arith.muli %n, %c128 : index
    %key = arith.subi %row, %back : index
    // CHECK: scf.for
    // CHECK-NOT: flamia.mask
    // CHECK: flamia.store
    %p = flamia.mask %t rows %row cols %key causal limit %end : tensor<128x128xf32>
    flamia.store %p, %x[%key, %c0] : tensor<128x128xf32>, memref<?x128xf32>
    // CHECK: flamia.mask %{{.*}} rows %{{.*}} cols %{{.*}} window %{{.*}} :
    // CHECK: flamia.store
    %w = flamia.mask %t rows %row cols %key causal limit %end window %c255 : tensor<128x128xf32>
    flamia.store %w, %x[%key, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  }
  // CHECK: flamia.return
  flamia.return
}
