// A loop that compares unsigned runs through the sign bit of its type, in the evaluator and
// at both levels. Where it does not run, NaN stays, which the comparison refuses.
//
// RUN: %python %S/Inputs/compare_kernels.py %s n=3 --tolerance=0 | FileCheck %s
// RUN: not %python %S/Inputs/compare_kernels.py %s n=0 --tolerance=0 2>&1 | FileCheck %s --check-prefix=EMPTY
// CHECK: unsigned: ok, 0{{$}}
// EMPTY: no element is finite
flamia.kernel @unsigned(%x: memref<?x64xf32>, %y: memref<?x64xf32>, %n: index) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %first = arith.constant 2147483646 : i32
  %one = arith.constant 1 : i32
  %count = arith.index_cast %n : index to i32
  %end = arith.addi %first, %count : i32
  %c128 = arith.constant 128 : index
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %f_nan = arith.constant 0x7FC00000 : f32
  %nan = flamia.full %f_nan : tensor<128x64xf32>
  flamia.store %nan, %y[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  scf.for unsigned %i = %first to %end step %one : i32 {
    %t = flamia.load %x[%row, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
    flamia.store %t, %y[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  }
  flamia.return
}
