// RUN: flamia-opt %s --convert-flamia-to-nvvm --split-input-file | FileCheck %s

// Heads in groups: the entry and the head follow from the CTA's place in a grid of
// (entries * heads / groups, groups). Without tokens the CTA does nothing.
// CHECK-LABEL: llvm.func @heads_in_groups
// CHECK-SAME: (%[[WORK:.*]]: !llvm.ptr<1>, %[[Y:[a-z0-9]+]]: !llvm.ptr<1>, %[[ROWS:[a-z0-9]+]]: i64, %[[HEADS64:[a-z0-9]+]]: i64
// CHECK-SAME: grid = {{\[\[}}"work", 0, 1], ["y", 1, 1]], groups_y
// CHECK: %[[X:.*]] = nvvm.read.ptx.sreg.ctaid.x : i32
// CHECK: %[[HEADS:.*]] = arith.trunci %[[HEADS64]] : i64 to i32
// CHECK: %[[GROUPS:.*]] = nvvm.read.ptx.sreg.nctaid.y : i32
// CHECK: %[[SIZE:.*]] = arith.divui %[[HEADS]], %[[GROUPS]] : i32
// CHECK: %[[ENTRY:.*]] = arith.divui %[[X]], %[[SIZE]] : i32
// CHECK: %[[GROUP:.*]] = nvvm.read.ptx.sreg.ctaid.y : i32
// CHECK: %[[FIRST:.*]] = arith.muli %[[GROUP]], %[[SIZE]] : i32
// CHECK: %[[BEFORE:.*]] = arith.muli %[[ENTRY]], %[[SIZE]] : i32
// CHECK: %[[HEAD:.*]] = arith.subi %[[X]], %[[BEFORE]] : i32
// CHECK: arith.addi %[[FIRST]], %[[HEAD]] : i32
// CHECK: llvm.load {{.*}} -> vector<4xi32>
// CHECK: %[[LENGTH:.*]] = arith.subi
// CHECK: %[[LENGTH_1:.*]] = arith.addi %[[LENGTH]], %c-1
// CHECK: %[[LAST:.*]] = arith.shrsi %[[LENGTH_1]], %{{.*}} : i32
// CHECK: %[[SOME:.*]] = arith.cmpi sle, %{{.*}}, %[[LAST]] : i32
// CHECK: scf.if %[[SOME]] {
// CHECK: llvm.store
flamia.kernel @heads_in_groups(%work: memref<?x4xi32>, %y: memref<?x?xf32>) parameters {} grid(work[0], y[1]) {
  %zero = arith.constant 0.0 : f32
  %c128 = arith.constant 128 : index
  %head = flamia.program_id y
  %begin, %end, %tile, %base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %t = flamia.full %zero : tensor<128x1xf32>
  flamia.store %t, %y[%row, %head] limit %end : tensor<128x1xf32>, memref<?x?xf32>
  flamia.return
}

// -----

// Tiles from the document's end; one axis has no groups.
// CHECK-LABEL: llvm.func @from_end
// CHECK-NOT: groups_y
// CHECK: %[[FIELDS:.*]] = llvm.load {{.*}} -> vector<4xi32>
// CHECK: %[[TILE:.*]] = vector.extract %[[FIELDS]][2]
// CHECK: scf.if
// CHECK: %[[LAST:.*]] = arith.shrsi
// CHECK: arith.subi %[[LAST]], %[[TILE]] : i32
flamia.kernel @from_end(%work: memref<?x4xi32>, %y: memref<?x1xf32>) parameters {} grid(work[0]) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %begin, %end, %tile, %base = flamia.work_item %work from_end : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  %row = arith.addi %begin, %offset : index
  %t = flamia.full %zero : tensor<128x1xf32>
  flamia.store %t, %y[%row, %c0] limit %end : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}
