// RUN: flamia-opt %s --flamia-tcgen-pipeline --convert-flamia-to-nvvm=arch=sm_100a | FileCheck %s
// RUN: flamia-opt %s --flamia-tcgen-pipeline --convert-flamia-to-nvvm=arch=sm_90 | FileCheck %s --check-prefixes=CHECK,SM90

// A rotated row for two formats.

!t = tensor<128x64xf32>
!q = !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 1x16>
!local = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>

// Products with the rotation's factor and 1 / scale in one number: of 4 largest magnitudes
// and 64 elements, each once. A warp with a row of unusual size takes 1 for 1 / scale.
// CHECK-LABEL: llvm.func @both
// CHECK: %[[ROTATION:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: arith.mulf %{{.*}}, %[[ROTATION]] : f32
// CHECK: %[[ODD:.*]] = nvvm.vote.sync any
// CHECK: %[[SCALE:.*]] = arith.select %[[ODD]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[BOTH:.*]] = arith.mulf %[[SCALE]], %[[ROTATION]] : f32
// CHECK-COUNT-68: arith.mulf %{{.*}}, %[[BOTH]] : f32
// CHECK-NOT: arith.mulf %{{.*}}, %[[BOTH]] : f32

// Words of the payload that is stored later are made with those of the first. On sm_90,
// with a global scale that is a power of two, these give the signs, and quotients
// are products rounded up.
// CHECK: %[[WORDS:.*]]:16 = scf.if
// SM90-NOT: "llvm.nvvm.prmt"
// SM90: } else {
// SM90: %[[OTHERS:.*]]:16 = scf.if
// SM90-COUNT-16: "llvm.nvvm.mul.rp.f"
// SM90: "llvm.nvvm.prmt"
// SM90: scf.yield
// SM90: } else {
// SM90-NOT: "llvm.nvvm.mul.rp.f"
// SM90: scf.yield
// SM90: scf.yield %[[OTHERS]]#0
// CHECK: llvm.store %{{.*}} : vector<4xi32>, !llvm.ptr<3>
flamia.kernel @both(%x: memref<?x64xbf16>, %g: f32, %p: memref<?x64xf4E2M1FN>, %d: memref<?x64xf8E4M3FN>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %narrow = flamia.load %x[%row, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
  %t = arith.extf %narrow : tensor<128x64xbf16> to !t
  %r = flamia.hadamard %t : !t
  %l = flamia.quantize %r : !t -> !local
  %q = flamia.quantize %r global_scale %g : !t -> !q
  flamia.store_payload %q, %p[%row, %c0] : !q, memref<?x64xf4E2M1FN>
  flamia.store_payload %l, %d[%row, %c0] : !local, memref<?x64xf8E4M3FN>
  flamia.return
}

// Stored the other way round, the first is not made with the second; a third user of the
// row needs it as it is.
// CHECK-LABEL: llvm.func @other_order
// CHECK-COUNT-68: arith.mulf
// CHECK-NOT: :16 = scf.if
// CHECK-LABEL: llvm.func @negative_third
// CHECK: %[[PLAIN:.*]] = arith.constant 1.250000e-01 : f32
// CHECK-COUNT-64: arith.mulf %{{.*}}, %[[PLAIN]] : f32
// CHECK-NOT: :16 = scf.if
flamia.kernel @other_order(%x: memref<?x64xbf16>, %g: f32, %p: memref<?x64xf4E2M1FN>, %d: memref<?x64xf8E4M3FN>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %narrow = flamia.load %x[%row, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
  %t = arith.extf %narrow : tensor<128x64xbf16> to !t
  %r = flamia.hadamard %t : !t
  %l = flamia.quantize %r : !t -> !local
  %q = flamia.quantize %r global_scale %g : !t -> !q
  flamia.store_payload %l, %d[%row, %c0] : !local, memref<?x64xf8E4M3FN>
  flamia.store_payload %q, %p[%row, %c0] : !q, memref<?x64xf4E2M1FN>
  flamia.return
}

flamia.kernel @negative_third(%x: memref<?x64xbf16>, %g: f32, %p: memref<?x64xf4E2M1FN>, %d: memref<?x64xf8E4M3FN>, %y: memref<?x64xf32>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %narrow = flamia.load %x[%row, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
  %t = arith.extf %narrow : tensor<128x64xbf16> to !t
  %r = flamia.hadamard %t : !t
  %l = flamia.quantize %r : !t -> !local
  %q = flamia.quantize %r global_scale %g : !t -> !q
  flamia.store_payload %q, %p[%row, %c0] : !q, memref<?x64xf4E2M1FN>
  flamia.store_payload %l, %d[%row, %c0] : !local, memref<?x64xf8E4M3FN>
  flamia.store %r, %y[%row, %c0] : !t, memref<?x64xf32>
  flamia.return
}
