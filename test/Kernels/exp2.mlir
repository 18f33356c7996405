// Exponentials by polynomial. All of a tile: the evaluator, -O0 and -O2 agree bit for bit,
// from results that vanish to infinity. A share of the blocks, placed at run time: bit for bit
// between the levels, to rounding with the evaluator.
//
// RUN: split-file %s %t
// RUN: %python %S/Inputs/compare_kernels.py %t/all.mlir --tolerance=0 | FileCheck %s
// RUN: %python %S/Inputs/compare_kernels.py %t/all.mlir --tolerance=0 --arch=sm_103a | FileCheck %s
// RUN: %python %S/Inputs/compare_kernels.py %t/share.mlir n=4 --tolerance=1e-6
// CHECK: wide: ok, 0{{$}}
// CHECK: weights: ok, 0{{$}}
// CHECK: nan: ok, 0{{$}}

// Warps choose by themselves, in one branch for 32 columns of each tile; a loop and a tile that
// is peeled off have their own. Arithmetic comes in pairs.
// RUN: flamiac %t/share.mlir --kernel=fixed --emit=ptx -o - | FileCheck %s --check-prefix=PTX
// PTX-NOT: ex2.approx
// PTX: @%p{{[0-9]+}} bra
// PTX-COUNT-32: max.NaN.f32
// PTX-NOT: max.NaN.f32
// PTX-COUNT-32: ex2.approx.ftz.f32
// PTX-NOT: ex2.approx.ftz.f32
// PTX: ret;
// RUN: flamiac %t/all.mlir --kernel=weights --emit=ptx -o - | FileCheck %s --check-prefix=PAIRS
// PAIRS-NOT: ex2.approx
// PAIRS-NOT: fma.rn.f32 %
// PAIRS: fma.rn.f32x2
// PAIRS-NOT: ex2.approx
// PAIRS-NOT: fma.rn.f32 %

//--- all.mlir
!t = tensor<128x128xf32>
!x = memref<?x128xf32>
flamia.kernel @wide(%x: !x, %o: !x) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %scale = arith.constant dense<300.0> : !t
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : !x -> !t
  %s = arith.mulf %t, %scale : !t
  %m = flamia.mask %s rows %c0 cols %c0 causal : !t
  %e = flamia.exp2 %m rows %c0 cols %c0 polynomial 1 of 1 : !t
  flamia.store %e, %o[%row, %c0] : !t, !x
  flamia.return
}

flamia.kernel @weights(%x: !x, %o: !x) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %scale = arith.constant dense<10.0> : !t
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : !x -> !t
  %s = arith.mulf %t, %scale : !t
  %e = flamia.exp2 %s rows %c0 cols %c0 polynomial 1 of 1 : !t
  flamia.store %e, %o[%row, %c0] : !t, !x
  flamia.return
}

flamia.kernel @nan(%x: !x, %o: !x) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : !x -> !t
  %m = flamia.mask %t rows %c0 cols %c0 causal : !t
  %d = arith.subf %m, %m : !t
  %s = arith.addf %d, %t : !t
  %e = flamia.exp2 %s rows %c0 cols %c0 polynomial 1 of 1 : !t
  flamia.store %e, %o[%row, %c0] : !t, !x
  flamia.return
}

//--- share.mlir
!t = tensor<128x128xf32>
!n = tensor<128x32xf32>
!x = memref<?x128xf32>
!y = memref<?x32xf32>
flamia.kernel @moving(%x: !x, %n: index, %o: !x) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c128 = arith.constant 128 : index
  %scale = arith.constant dense<10.0> : !t
  %zero = arith.constant dense<0.0> : !t
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : !x -> !t
  %s = arith.mulf %t, %scale : !t
  %r = scf.for %j = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!t) {
    %col = arith.muli %j, %c32 : index
    %e = flamia.exp2 %s rows %row cols %col polynomial 5 of 16 : !t
    %next = arith.addf %sum, %e : !t
    scf.yield %next : !t
  }
  flamia.store %r, %o[%row, %c0] : !t, !x
  flamia.return
}

flamia.kernel @fixed(%x: !y, %o: !y) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : !y -> !n
  %e = flamia.exp2 %t rows %c0 cols %c32 polynomial 1 of 4 : !n
  flamia.store %e, %o[%row, %c0] : !n, !y
  flamia.return
}
