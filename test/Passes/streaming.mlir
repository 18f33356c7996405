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
