// A loop that compares unsigned runs through the sign bit of its type, in the evaluator and
// at both levels; nothing is written where it does not run.
//
// RUN: %python %S/Inputs/compare_kernels.py %s n=3 --tolerance=0 | FileCheck %s
// RUN: not %python %S/Inputs/compare_kernels.py %s n=0 --tolerance=0 2>&1 | FileCheck %s --check-prefix=EMPTY
// CHECK: unsigned: ok, 0{{$}}
// EMPTY: no element is finite
flamia.kernel @unsigned(%x: memref<128x64xf32>, %y: memref<128x64xf32>, %n: i32) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %first = arith.constant 2147483646 : i32
  %one = arith.constant 1 : i32
  %end = arith.addi %first, %n : i32
  scf.for unsigned %i = %first to %end step %one : i32 {
    %t = flamia.load %x[%c0, %c0] : memref<128x64xf32> -> tensor<128x64xf32>
    flamia.store %t, %y[%c0, %c0] : tensor<128x64xf32>, memref<128x64xf32>
  }
  flamia.return
}
