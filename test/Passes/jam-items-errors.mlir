// RUN: flamia-opt %s --split-input-file --verify-diagnostics "--pass-pipeline=builtin.module(flamia.kernel(flamia-jam-items))"

!tile = tensor<128x128xbf16>
!tensor = memref<128x16x128xbf16>

// expected-error @below {{expected flamia.slots to name a grid axis, and an integer parameter 'slots' that is bound, but got "y" and}}
flamia.kernel @unbound(%x: !tensor) parameters {} grid(1, 16) attributes {flamia.slots = "y"} {
  flamia.return
}

// -----

// expected-error @below {{expected flamia.slots to name a grid axis, and an integer parameter 'slots' that is bound, but got 3 : i64 and 2 : i64}}
flamia.kernel @not_a_name(%x: memref<128x16x128xbf16>) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = 3 : i64} {
  flamia.return
}

// -----

!tensor = memref<?x?x128xbf16>
// Nothing says that the number of heads is even.
// expected-remark @below {{work items stay apart: no division with flamia.multiple_of says that the grid's extent is a multiple of 2}}
flamia.kernel @odd(%x: !tensor {flamia.dims = ["tokens", "heads", "d"]}) parameters {slots = 2 : i64} grid(1, x[1]) attributes {flamia.slots = "y"} {
  flamia.return
}

// -----

// expected-remark @below {{work items stay apart: the grid's extent 15 is no multiple of 2}}
flamia.kernel @constant(%x: memref<8xf32>) parameters {slots = 2 : i64} grid(1, 15) attributes {flamia.slots = "y"} {
  flamia.return
}

// -----

!tile = tensor<128x128xbf16>
!tensor = memref<128x16x128xbf16>
flamia.kernel @same_place(%x: !tensor, %y: memref<128x128xbf16>) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %head = flamia.program_id y
  %t = flamia.load %x[%c0, %head, %c0] : !tensor -> !tile
  // expected-remark @below {{work items stay apart: two of them may store to one place}}
  flamia.store %t, %y[%c0, %c0] : !tile, memref<128x128xbf16>
  flamia.return
}

// -----

!tile = tensor<128x128xbf16>
// Tiles of 128 rows, one row apart.
flamia.kernel @overlap(%x: memref<?x128xbf16>, %y: memref<?x128xbf16>) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %row = flamia.program_id y
  %t = flamia.load %x[%row, %c0] : memref<?x128xbf16> -> !tile
  // expected-remark @below {{work items stay apart: two of them may store to one place}}
  flamia.store %t, %y[%row, %c0] : !tile, memref<?x128xbf16>
  flamia.return
}

// -----

!tile = tensor<128x128xbf16>
!tensor = memref<128x16x128xbf16>
// expected-remark @below {{work items stay apart: one may load what another one stores}}
flamia.kernel @in_place(%x: !tensor) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %head = flamia.program_id y
  %t = flamia.load %x[%c0, %head, %c0] : !tensor -> !tile
  flamia.store %t, %x[%c0, %head, %c0] : !tile, !tensor
  flamia.return
}

// -----

flamia.kernel @work(%w: memref<?x4xi32>) parameters {slots = 2 : i64} grid(16) attributes {flamia.slots = "x"} {
  // expected-remark @below {{work items stay apart: it depends on the index along x}}
  %begin, %end, %tile, %base = flamia.work_item %w : memref<?x4xi32>
  flamia.return
}

// -----

!tile = tensor<128x128xf32>
!tensor = memref<128x16x128xf32>
// The trip count differs.
flamia.kernel @triangle(%x: !tensor, %y: !tensor) parameters {slots = 2 : i64} grid(1, 16) attributes {flamia.slots = "y"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !tile
  %head = flamia.program_id y
  // expected-remark @below {{loops of work items stay apart: their bounds differ}}
  %sum = scf.for %i = %c0 to %head step %c1 iter_args(%s = %zero) -> (!tile) {
    %t = flamia.load %x[%c0, %i, %c0] : !tensor -> !tile
    %next = arith.addf %s, %t : !tile
    scf.yield %next : !tile
  }
  flamia.store %sum, %y[%c0, %head, %c0] : !tile, !tensor
  flamia.return
}
