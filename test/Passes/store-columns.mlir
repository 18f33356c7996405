// RUN: flamia-opt %s --convert-flamia-to-nvvm=arch=sm_100a | FileCheck %s

// Where columns are stored with a check each, the parts of a tile are computed one after
// the other: an empty assembly keeps LLVM from moving them behind the checks. Elsewhere
// nothing keeps them.

!t = tensor<128x64xf32>
!p = tensor<128x32xf32>

// CHECK-LABEL: llvm.func @by_columns
// CHECK: arith.addf
// CHECK: llvm.inline_asm has_side_effects "", "=f,=f,
// CHECK: arith.mulf
// CHECK: llvm.inline_asm has_side_effects "", "=f,=f,
// CHECK: llvm.store
flamia.kernel @by_columns(%x: memref<?x64xf32>, %o: memref<?x?xf32>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  tcgen.role "vector" warps 4 {
    %i = flamia.program_id x
    %row = arith.muli %i, %c128 : index
    %t = flamia.load %x[%row, %c0] : memref<?x64xf32> -> !t
    %a = tcgen.slice %t col 0 : !t -> !p
    %b = arith.addf %a, %a : !p
    %c = tcgen.slice %t col 32 : !t -> !p
    %d = arith.mulf %c, %c : !p
    %j = tcgen.join %b, %d : !p, !p -> !t
    flamia.store %j, %o[%row, %c0] : !t, memref<?x?xf32>
  }
  flamia.return
}

// CHECK-LABEL: llvm.func @whole
// CHECK: arith.addf
// CHECK-NOT: llvm.inline_asm has_side_effects "", "=f,=f,
// CHECK: arith.mulf
// CHECK-NOT: llvm.inline_asm has_side_effects "", "=f,=f,
// CHECK: llvm.store
flamia.kernel @whole(%x: memref<?x64xf32>, %o: memref<?x64xf32>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  tcgen.role "vector" warps 4 {
    %i = flamia.program_id x
    %row = arith.muli %i, %c128 : index
    %t = flamia.load %x[%row, %c0] : memref<?x64xf32> -> !t
    %a = tcgen.slice %t col 0 : !t -> !p
    %b = arith.addf %a, %a : !p
    %c = tcgen.slice %t col 32 : !t -> !p
    %d = arith.mulf %c, %c : !p
    %j = tcgen.join %b, %d : !p, !p -> !t
    flamia.store %j, %o[%row, %c0] : !t, memref<?x64xf32>
  }
  flamia.return
}
