// NVFP4 products of all shapes: one to four scale atoms a row, rows of 32, 64 and 128 bytes, 256
// rows on the right, clipped rows and columns, one load as both operands, beside MXFP8 products.
// -O0 and -O2 agree bit for bit, and with the evaluator, whatever the order of asynchronous
// operations.

// RUN: %python %S/Inputs/compare_kernels.py %s --sim-option=--async=late --tolerance=1e-6
// RUN: %python %S/Inputs/compare_kernels.py %s --arch=sm_103a --sim-option=--async=random:1 --tolerance=1e-6

!f = tensor<128x128xf32>
!o = memref<?x128xf32>
!o256 = memref<?x256xf32>
!w64 = memref<?x64xf4E2M1FN>
!w128 = memref<?x128xf4E2M1FN>
!w256 = memref<?x2x256xf4E2M1FN>
!s64 = memref<?x?x1x512xf8E4M3FN>
!s128 = memref<?x?x2x512xf8E4M3FN>
!s256 = memref<?x?x4x512xf8E4M3FN>
!w8 = memref<?x128xf8E4M3FN>
!s8 = memref<?x?x512xf8E8M0FNU>
!t64 = !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 1x16>
!t64r = !flamia.scaled<64x128, f4E2M1FN by f8E4M3FN per 16x1>
!t128 = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
!t128r = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
!t256 = !flamia.scaled<128x256, f4E2M1FN by f8E4M3FN per 1x16>
!t256r = !flamia.scaled<256x128, f4E2M1FN by f8E4M3FN per 16x1>
!tall = !flamia.scaled<256x128, f4E2M1FN by f8E4M3FN per 1x16>
!tallr = !flamia.scaled<128x256, f4E2M1FN by f8E4M3FN per 16x1>
!q8 = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!q8r = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>

// Rows of 32 bytes, one atom.
flamia.kernel @narrow(%a: !w64, %as: !s64, %b: !w64, %bs: !s64, %o: !o, %n: index) parameters {} grid(a[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %ta = flamia.load_scaled %a[%row, %c0], %as[%i, %c1] along cols : !w64, !s64 -> !t64
  %sum = scf.for %j = %c0 to %n step %c1 iter_args(%acc = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %tb = flamia.load_scaled %b[%at, %c0], %bs[%j, %i] along cols : !w64, !s64 -> !t64
    %tbT = flamia.transpose %tb : !t64 -> !t64r
    %next = flamia.dot %ta, %tbT, %acc : !t64, !t64r -> !f
    scf.yield %next : !f
  }
  flamia.store %sum, %o[%row, %c0] : !f, !o
  flamia.return
}

// Rows of 128 bytes, four atoms; three dimensions, rows past the limit are zero.
flamia.kernel @wide(%a: !w256, %as: !s256, %b: !w256, %bs: !s256, %o: !o, %n: index) parameters {} grid(2, 2) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c128 = arith.constant 128 : index
  %c200 = arith.constant 200 : index
  %c256 = arith.constant 256 : index
  %z = arith.constant dense<0.0> : !f
  %head = flamia.program_id x
  %j = flamia.program_id y
  %at = arith.muli %j, %c128 : index
  %ta = flamia.load_scaled %a[%at, %head, %c0], %as[%j, %head] limit %c200 along cols : !w256, !s256 -> !t256
  %tb = flamia.load_scaled %b[%at, %c1, %c0], %bs[%j, %c2] limit %c200 along cols : !w256, !s256 -> !t256
  %tbT = flamia.transpose %tb : !t256 -> !t256r
  %d = flamia.dot %ta, %tbT, %z : !t256, !t256r -> !f
  %y = arith.muli %head, %c256 : index
  %to = arith.addi %y, %at : index
  flamia.store %d, %o[%to, %c0] : !f, !o
  flamia.return
}

// 256 rows on the right: two row groups of atoms, of two tiles of scales.
flamia.kernel @tall(%a: !w128, %as: !s128, %b: !w128, %bs: !s128, %o: !o256, %n: index) parameters {} grid(2) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c256 = arith.constant 256 : index
  %z = arith.constant dense<0.0> : tensor<128x256xf32>
  %i = flamia.program_id x
  %at = arith.muli %i, %c256 : index
  %tile = arith.muli %i, %c2 : index
  %ta = flamia.load_scaled %a[%at, %c0], %as[%tile, %i] along cols : !w128, !s128 -> !t128
  %tb = flamia.load_scaled %b[%at, %c0], %bs[%tile, %c2] along cols : !w128, !s128 -> !tall
  %tbT = flamia.transpose %tb : !tall -> !tallr
  %d = flamia.dot %ta, %tbT, %z : !t128, !tallr -> tensor<128x256xf32>
  flamia.store %d, %o[%at, %c0] : tensor<128x256xf32>, !o256
  flamia.return
}

// Columns from the middle of a row on, past its end; one load on both sides.
flamia.kernel @middle(%a: memref<?x2x192xf4E2M1FN>, %as: !s128, %o: !o, %n: index) parameters {} grid(3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %shift = arith.muli %i, %c32 : index
  %col = arith.addi %shift, %c32 : index
  %t = flamia.load_scaled %a[%row, %c1, %col], %as[%i, %c0] along cols : memref<?x2x192xf4E2M1FN>, !s128 -> !t128
  %tT = flamia.transpose %t : !t128 -> !t128r
  %d = flamia.dot %t, %tT, %z : !t128, !t128r -> !f
  flamia.store %d, %o[%row, %c0] : !f, !o
  flamia.return
}

// Both kinds of scaled products into one accumulator.
flamia.kernel @mixed(%a: !w128, %as: !s128, %b: !w8, %bs: !s8, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %sum = scf.for %j = %c0 to %n step %c1 iter_args(%acc = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %t4 = flamia.load_scaled %a[%at, %c0], %as[%j, %c0] along cols : !w128, !s128 -> !t128
    %t4T = flamia.transpose %t4 : !t128 -> !t128r
    %one = flamia.dot %t4, %t4T, %acc : !t128, !t128r -> !f
    %t8 = flamia.load_scaled %b[%at, %c0], %bs[%c0, %j] along cols : !w8, !s8 -> !q8
    %t8T = flamia.transpose %t8 : !q8 -> !q8r
    %two = flamia.dot %t8, %t8T, %one : !q8, !q8r -> !f
    scf.yield %two : !f
  }
  flamia.store %sum, %o[%c0, %c0] : !f, !o
  flamia.return
}
