// RUN: flamia-opt %s --split-input-file --verify-diagnostics --convert-flamia-to-nvvm=arch=sm_100a | FileCheck %s
// RUN: flamia-opt %s --split-input-file --verify-diagnostics --convert-flamia-to-nvvm=arch=sm_90 | FileCheck %s --check-prefix=SM90

!t = tensor<128x32xf32>
!q = !flamia.scaled<128x32, f4E2M1FN by f8E4M3FN per 1x16>

// Two scales in one conversion, packed words of scales; each block's quotients where they
// are stored, by the instruction where there is one, else rounded by two additions and
// packed by way of E4M3. Only a warp with an extreme scale takes the version with selects.
// Padding rows have scale byte 0.
// CHECK-LABEL: llvm.func @nvfp4
// CHECK: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
// CHECK-COUNT-2: llvm.intr.maximum
// CHECK: nvvm.convert.f32x2.to.f8x2
// CHECK: %[[ANY:.*]] = nvvm.vote.sync any
// CHECK: %[[RARE:.*]] = llvm.intr.expect %[[ANY]], %{{.*}} : i1
// CHECK: scf.if %[[RARE]] {
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f4x2
// CHECK: arith.select
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: } else {
// CHECK-NOT: arith.select
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f4x2
// CHECK-NOT: arith.select
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: arith.cmpi slt
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: %[[WORD:.*]] = arith.select %{{.*}}, %{{.*}}, %[[ZERO]] : i32
// CHECK: llvm.store %[[WORD]], %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>

// SM90-LABEL: llvm.func @nvfp4
// SM90-NOT: f4x2
// SM90: %[[UNIT:.*]] = arith.constant 1.562500e-02 : f32
// SM90: math.fma
// SM90-COUNT-16: nvvm.convert.f32x2.to.f8x2
// SM90-NOT: f4x2
flamia.kernel @nvfp4(%x: memref<?x32xf32>, %g: f32, %p: memref<?x32xf4E2M1FN>, %s: memref<?x?x1x512xf8E4M3FN>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %n = flamia.dim %x[0] : memref<?x32xf32>
  %t = flamia.load %x[%c0, %c0] : memref<?x32xf32> -> !t
  %q = flamia.quantize %t global_scale %g : !t -> !q
  flamia.store_payload %q, %p[%c0, %c0] : !q, memref<?x32xf4E2M1FN>
  flamia.store_scales %q, %s[%c0, %c0] rows %n along cols : !q, memref<?x?x1x512xf8E4M3FN>
  flamia.return
}

// -----

!t = tensor<128x32xf32>
!q = !flamia.scaled<128x32, f4E2M1FN by f8E4M3FN per 16x16>
flamia.kernel @negative_block_rows(%x: memref<?x32xf32>, %g: f32, %p: memref<?x32xf4E2M1FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x32xf32> -> !t
  // expected-error @+1 {{expected scale blocks of one row, but got 16 rows}}
  %q = flamia.quantize %t global_scale %g : !t -> !q
  flamia.store_payload %q, %p[%c0, %c0] : !q, memref<?x32xf4E2M1FN>
  flamia.return
}

// -----

!t = tensor<128x32xf32>
!q = !flamia.scaled<128x32, f4E2M1FN by f8E4M3FN per 1x16>
flamia.kernel @negative_columns(%x: memref<?x32xf32>, %g: f32, %p: memref<?x?xf4E2M1FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x32xf32> -> !t
  %q = flamia.quantize %t global_scale %g : !t -> !q
  // expected-error @+1 {{expected rows of packed elements that lie inside the tensor and are a multiple of 4 bytes, but got 32 columns}}
  flamia.store_payload %q, %p[%c0, %c0] : !q, memref<?x?xf4E2M1FN>
  flamia.return
}

// -----

!t = tensor<128x32xf32>
!q = !flamia.scaled<128x32, f4E2M1FN by f8E4M3FN per 1x16>
flamia.kernel @negative_payload(%x: memref<?x32xf32>, %g: f32, %y: memref<?x32xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x32xf32> -> !t
  %q = flamia.quantize %t global_scale %g : !t -> !q
  // expected-error @+1 {{expected payloads of 8-bit elements, but got}}
  %v = flamia.payload %q : !q -> !t
  flamia.store %v, %y[%c0, %c0] : !t, memref<?x32xf32>
  flamia.return
}
