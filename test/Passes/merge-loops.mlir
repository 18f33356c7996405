// RUN: flamia-opt %s "--pass-pipeline=builtin.module(llvm.func(flamia-merge-loops{min-operations=1}))" | FileCheck %s
// RUN: flamia-opt %s --flamia-merge-loops | FileCheck %s --check-prefix=SMALL
// RUN: flamia-opt %kernels/quantize.mlir "--flamia-value-pipeline=params=format=nvfp4" --flamia-tcgen-pipeline --convert-flamia-to-nvvm -o %t.mlir
// RUN: flamia-opt %t.mlir --flamia-merge-loops -o %t.merged.mlir
// RUN: grep -c scf.for %t.mlir | FileCheck %s --check-prefix=BEFORE
// RUN: grep -c scf.for %t.merged.mlir | FileCheck %s --check-prefix=AFTER

// The rotations of Q and K, in one loop. The loads by tensor map stay apart.
// BEFORE: 6
// AFTER: 5

// Two loops of one body become one: values from outside are selected, equal ones are not;
// the order of iterations stays. A third is left alone.
// CHECK-LABEL: llvm.func @three
// CHECK-SAME: (%[[X:.*]]: !llvm.ptr<1>, %[[Y:.*]]: !llvm.ptr<1>, %[[Z:.*]]: !llvm.ptr<1>, %[[VALUE:.*]]: i32,
// CHECK: %[[RUNS:.*]] = arith.cmpi slt
// CHECK: arith.select %[[RUNS]]
// CHECK: scf.for %[[I:.*]] = %{{.*}} to
// CHECK: %[[FIRST:.*]] = arith.cmpi slt, %[[I]], %[[COUNT:.*]] : index
// CHECK: %[[START:.*]] = arith.select %[[FIRST]]
// CHECK: %[[AT:.*]] = arith.addi %[[START]], %[[I]]
// CHECK: %[[P:.*]] = arith.select %[[FIRST]], %[[X]], %[[Y]] : !llvm.ptr<1>
// CHECK: llvm.getelementptr %[[P]][
// CHECK: llvm.store %[[VALUE]]
// CHECK: scf.for
// CHECK: llvm.getelementptr %[[Z]][
// CHECK-NOT: scf.for
// CHECK: llvm.return
// SMALL-LABEL: llvm.func @three
// SMALL-COUNT-3: scf.for
llvm.func @three(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %z: !llvm.ptr<1>, %value: i32, %m: i64, %n: i64) {
  %a = arith.index_cast %m : i64 to index
  %b = arith.index_cast %n : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %a step %c1 {
    %at = arith.index_cast %i : index to i64
    %p = llvm.getelementptr %x[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    llvm.store %value, %p : i32, !llvm.ptr<1>
  }
  scf.for %i = %a to %b step %c1 {
    %at = arith.index_cast %i : index to i64
    %p = llvm.getelementptr %y[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    llvm.store %value, %p : i32, !llvm.ptr<1>
  }
  %two = arith.addi %a, %b : index
  scf.for %i = %c0 to %two step %c1 {
    %at = arith.index_cast %i : index to i64
    %p = llvm.getelementptr %z[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    llvm.store %value, %p : i32, !llvm.ptr<1>
  }
  llvm.return
}

// Other code, an attribute, an effect between them, a step, carried values: left alone.
// CHECK-LABEL: llvm.func @apart
// CHECK-COUNT-6: scf.for
llvm.func @apart(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %value: i32, %m: i64) {
  %a = arith.index_cast %m : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %i = %c0 to %a step %c1 {
    llvm.store %value, %x : i32, !llvm.ptr<1>
  }
  scf.for %i = %c0 to %a step %c1 {
    llvm.store volatile %value, %y : i32, !llvm.ptr<1>
  }
  scf.for %i = %c0 to %a step %c1 {
    llvm.store %value, %x : i32, !llvm.ptr<1>
  }
  llvm.store %value, %y : i32, !llvm.ptr<1>
  scf.for %i = %c0 to %a step %c1 {
    llvm.store %value, %y : i32, !llvm.ptr<1>
  }
  scf.for %i = %c0 to %a step %c2 {
    llvm.store %value, %y : i32, !llvm.ptr<1>
  }
  %sum = scf.for %i = %c0 to %a step %c1 iter_args(%s = %value) -> (i32) {
    llvm.store %value, %y : i32, !llvm.ptr<1>
    scf.yield %s : i32
  }
  llvm.return
}

// A tensor map's address is that of a parameter: no select.
// CHECK-LABEL: llvm.func @maps
// CHECK-COUNT-2: scf.for
llvm.func @maps(%x: !llvm.ptr {llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}, %y: !llvm.ptr {llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}, %m: i64) attributes {nvvm.kernel} {
  %a = arith.index_cast %m : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %a step %c1 {
    nvvm.prefetch tensormap, %x : !llvm.ptr
  }
  scf.for %i = %c0 to %a step %c1 {
    nvvm.prefetch tensormap, %y : !llvm.ptr
  }
  llvm.return
}

// Trip counts are those of signed loops, and attributes belong to one loop.
// CHECK-LABEL: llvm.func @other_loops
// CHECK-COUNT-2: scf.for unsigned
// CHECK-COUNT-4: scf.for %
llvm.func @other_loops(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %value: i32, %m: i64, %k: i32) {
  %a = arith.index_cast %m : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for unsigned %i = %c0 to %a step %c1 {
    llvm.store %value, %x : i32, !llvm.ptr<1>
  }
  scf.for unsigned %i = %c0 to %a step %c1 {
    llvm.store %value, %y : i32, !llvm.ptr<1>
  }
  llvm.store %value, %x : i32, !llvm.ptr<1>
  scf.for %i = %c0 to %a step %c1 {
    llvm.store %value, %x : i32, !llvm.ptr<1>
  } {note = 1 : i32}
  scf.for %i = %c0 to %a step %c1 {
    llvm.store %value, %y : i32, !llvm.ptr<1>
  } {note = 2 : i32}
  llvm.store %value, %x : i32, !llvm.ptr<1>
  // Both counts together may not fit 32 bits.
  scf.for %i = %zero to %k step %one : i32 {
    llvm.store %value, %x : i32, !llvm.ptr<1>
  }
  scf.for %i = %zero to %k step %one : i32 {
    llvm.store %value, %y : i32, !llvm.ptr<1>
  }
  llvm.return
}

// An immediate of inline assembly cannot be selected.
// CHECK-LABEL: llvm.func @immediates
// CHECK-COUNT-2: scf.for
llvm.func @immediates(%m: i64) {
  %a = arith.index_cast %m : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  scf.for %i = %c0 to %a step %c1 {
    llvm.inline_asm has_side_effects "nanosleep.u32 $0;", "n" %one : (i32) -> ()
  }
  scf.for %i = %c0 to %a step %c1 {
    llvm.inline_asm has_side_effects "nanosleep.u32 $0;", "n" %two : (i32) -> ()
  }
  llvm.return
}
