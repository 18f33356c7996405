// RUN: flamia-opt %s "--flamia-tcgen-pipeline" | FileCheck %s --check-prefix=TCGEN
// RUN: flamia-opt %s "--flamia-tcgen-pipeline" --convert-flamia-to-nvvm=arch=sm_90 | FileCheck %s --check-prefix=NVVM

// A kernel without products: two loops that follow each other load through one ring,
// shortened so that two CTAs share an SM, and stores pass through shared memory.

!in = memref<?x?x128xbf16, strided<[?, ?, 1]>>
!out = memref<?x?x128xbf16>
!t = tensor<128x128xbf16>

// TCGEN-LABEL: flamia.kernel @streams
// TCGEN-SAME: tcgen.barrier_offset = 81920 : i64, tcgen.smem_bytes = 82944 : i64, tcgen.staging_offset = 65536 : i64
// TCGEN: tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 2 x 128x128xbf16>
// TCGEN-NOT: tcgen.alloc
// TCGEN: %[[RING:.*]] = tcgen.channel slots 2 full 1 empty 4
// TCGEN-NOT: tcgen.channel
// TCGEN: tcgen.role "vector"
// TCGEN: tcgen.wait %[[RING]]
// TCGEN: tcgen.wait %[[RING]]
// TCGEN: tcgen.role "load"
// TCGEN: tcgen.acquire %[[RING]]
// TCGEN: tcgen.acquire %[[RING]]

// The program's y is the grid's x. Registers are bounded for two CTAs. Each warp writes
// rows, waits, and reads lines: 8 of each for 128 bytes.
// NVVM-LABEL: llvm.func @streams
// NVVM-SAME: strides = [-1, -1, 1]
// NVVM-SAME: grid = {{\[\[}}"a", 1, 1], ["a", 0, 128]]
// NVVM-SAME: nvvm.minctasm = 2 : i32
// NVVM: nvvm.read.ptx.sreg.ctaid.y
// NVVM: nvvm.read.ptx.sreg.ctaid.x
// NVVM: nvvm.bar.warp.sync
// NVVM-COUNT-8: llvm.store %{{.*}} : vector<4xi32>, !llvm.ptr<3>
// NVVM: nvvm.bar.warp.sync
// NVVM: llvm.load %{{.*}} : !llvm.ptr<3> -> vector<4xi32>
// NVVM: scf.if
// NVVM-NEXT: llvm.store %{{.*}} : vector<4xi32>, !llvm.ptr<1>
flamia.kernel @streams(%a: !in, %b: !in, %x: !out, %y: !out) parameters {} grid(a[0] ceildiv 128, a[1]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %head = flamia.program_id y
  scf.for %k = %c0 to %c3 step %c1 {
    %h = arith.addi %head, %k : index
    %t = flamia.load %a[%row, %h, %c0] : !in -> !t
    flamia.store %t, %x[%row, %h, %c0] : !t, !out
  }
  scf.for %k = %c0 to %c3 step %c1 {
    %h = arith.addi %head, %k : index
    %t = flamia.load %b[%row, %h, %c0] : !in -> !t
    flamia.store %t, %y[%row, %h, %c0] : !t, !out
  }
  flamia.return
}

// A column vector is loaded by threads: strides are parameters, and the launch has to
// hold them to multiples of 16 bytes.
// NVVM-LABEL: llvm.func @strided_row
// NVVM-SAME: params = [{pointer = "a"}, {dim = 0 : i64, of = "a"}, {of = "a", stride = 0 : i64}, {of = "a", stride = 1 : i64}
flamia.kernel @strided_row(%a: memref<?x?x128xf32, strided<[?, ?, 1]>>, %x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = flamia.load %a[%c0, %c1, %c0] : memref<?x?x128xf32, strided<[?, ?, 1]>> -> tensor<1x128xf32>
  flamia.store %t, %x[%c0, %c0] : tensor<1x128xf32>, memref<?x128xf32>
  flamia.return
}

// Rows times a vector with one scale each: the scale comes from the 16-bit values, and
// columns are multiplied where they are rounded. A payload is unpacked in steps of columns. So
// a thread never holds a row of f32, and CTAs share an SM.
// NVVM-LABEL: llvm.func @scaled_rows
// NVVM-SAME: nvvm.minctasm = 2 : i32
// NVVM: math.absf %{{.*}} : vector<2xbf16>
// NVVM-COUNT-63: llvm.intr.maximum(%{{.*}}, %{{.*}}) : (vector<2xbf16>, vector<2xbf16>) -> vector<2xbf16>
// NVVM: llvm.intr.maximum(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
// NVVM: arith.mulf
// NVVM: nvvm.convert.f32x2.to.f8x2
!row = tensor<128x1xf32>
!f = tensor<128x128xf32>
!q = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
flamia.kernel @scaled_rows(%x: memref<?x?x128xbf16>, %r: memref<?x?xf32>, %y: memref<?x?x128xf8E4M3FN>, %z: memref<?x?xf32>) parameters {} grid(x[0] ceildiv 128, x[1]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %head = flamia.program_id y
  %factor = flamia.load %r[%row, %head] : memref<?x?xf32> -> !row
  %t = flamia.load %x[%row, %head, %c0] : memref<?x?x128xbf16> -> tensor<128x128xbf16>
  %wide = arith.extf %t : tensor<128x128xbf16> to !f
  %factors = flamia.broadcast %factor : !row -> !f
  %scaled = arith.mulf %wide, %factors : !f
  %q = flamia.quantize %scaled : !f -> !q
  flamia.store_payload %q, %y[%row, %head, %c0] : !q, memref<?x?x128xf8E4M3FN>
  %payload = flamia.payload %q : !q -> !f
  %products = arith.mulf %payload, %wide : !f
  %sum = flamia.reduce sum %products : !f -> !row
  flamia.store %sum, %z[%row, %head] : !row, memref<?x?xf32>
  flamia.return
}
