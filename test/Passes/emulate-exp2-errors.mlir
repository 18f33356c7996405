// RUN: flamia-opt %s --flamia-emulate-exp2="share=1/4" --split-input-file --verify-diagnostics
// RUN: echo "" > %t.empty.mlir
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="share=3/7" 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=3/7
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="share=5/4" 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=5/4
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="share=1/64" 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=1/64
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="share=-1/4" 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=-1/4
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="share=1" 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=1
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="share=1/4/2" 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=1/4/2
// RUN: not flamiac %kernels/attention_fwd.mlir --exp2-emulation=0.25 --emit=flamia -o %t.none.mlir 2>&1 | FileCheck %s --check-prefix=SHARE -DGIVEN=0.25
// RUN: not ls %t.none.mlir
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="arch=sm_100" 2>&1 | FileCheck %s --check-prefix=ARCH -DGIVEN=sm_100
// RUN: not flamia-opt %t.empty.mlir --flamia-emulate-exp2="arch=" 2>&1 | FileCheck %s --check-prefix=ARCH -DGIVEN=
// ARCH: error: flamia-emulate-exp2: expected an architecture among sm_100a, sm_103a, sm_90, but got '[[GIVEN]]'
// RUN: flamia-opt %t.empty.mlir --flamia-emulate-exp2="arch=sm_90" && flamia-opt %t.empty.mlir --flamia-emulate-exp2="arch=sm_103a"
// SHARE: error: flamia-emulate-exp2: expected a share N/M with M a power of two up to 32 and N at most M, or 0, but got '[[GIVEN]]'

flamia.kernel @not_specialized(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{extents of 'tensor<128x?xf32>' are not bound: run flamia-specialize first}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  flamia.return
}

// -----

!tile = tensor<128x128xf32>
flamia.kernel @no_product(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x128xf32> -> !tile
  // expected-remark @+1 {{no part of this exp2 is moved off the special function unit: it does not depend on a product elementwise}}
  %e = math.exp2 %t : !tile
  flamia.store %e, %x[%c0, %c0] : !tile, memref<?x128xf32>
  flamia.return
}

// -----

!tile = tensor<128x128xf32>
!half = tensor<128x128xbf16>
!rows = memref<?x128xbf16>
// Columns of an activation are channels.
flamia.kernel @activation(%x: !rows, %w: !rows, %y: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %a = flamia.load %x[%c0, %c0] : !rows -> !half
  %b = flamia.load %w[%c0, %c0] : !rows -> !half
  %s = flamia.dot %a, %b, %zero : !half, !half -> !tile
  // expected-remark @+1 {{no part of this exp2 is moved off the special function unit: it depends on a product that is none of a tile of rows with a transposed tile of rows}}
  %e = math.exp2 %s : !tile
  flamia.store %e, %y[%c0, %c0] : !tile, memref<?x128xf32>
  flamia.return
}

// -----

!tile = tensor<128x128xf32>
!half = tensor<128x128xbf16>
!rows = memref<?x128xbf16>
flamia.kernel @two_places(%x: !rows, %y: memref<?x128xf32>, %other: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %a = flamia.load %x[%c0, %c0] : !rows -> !half
  %b = flamia.load %x[%other, %c0] : !rows -> !half
  %t = flamia.transpose %a : !half -> !half
  %u = flamia.transpose %b : !half -> !half
  %s = flamia.dot %a, %t, %zero : !half, !half -> !tile
  %s2 = flamia.dot %a, %u, %zero : !half, !half -> !tile
  %sum = arith.addf %s, %s2 : !tile
  // expected-remark @+1 {{no part of this exp2 is moved off the special function unit: it depends on products of different rows or columns}}
  %e = math.exp2 %sum : !tile
  flamia.store %e, %y[%c0, %c0] : !tile, memref<?x128xf32>
  flamia.return
}

// -----

!tile = tensor<128x128xf32>
!half = tensor<128x128xbf16>
!rows = memref<?x128xbf16>
// Rows counted from the start of the pack: the choice would depend on other documents. Then
// a tile that starts anywhere.
flamia.kernel @in_the_pack(%x: !rows, %y: memref<?x128xf32>, %work: memref<?x4xi32>) parameters {} grid(work[0]) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !tile
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %a = flamia.load %x[%begin, %c0] limit %end : !rows -> !half
  %row = arith.muli %tile, %c128 : index
  %b = flamia.load %x[%row, %c0] limit %end : !rows -> !half
  %t = flamia.transpose %b : !half -> !half
  %s = flamia.dot %a, %t, %zero : !half, !half -> !tile
  // expected-remark @+1 {{no part of this exp2 is moved off the special function unit: where the tile lies in its document is not known in steps of 32 tokens}}
  %e = math.exp2 %s : !tile
  flamia.store %e, %y[%c0, %c0] : !tile, memref<?x128xf32>
  %shifted = arith.addi %begin, %tile : index
  %d = flamia.load %x[%shifted, %c0] limit %end : !rows -> !half
  %dT = flamia.transpose %d : !half -> !half
  %s2 = flamia.dot %a, %dT, %zero : !half, !half -> !tile
  // expected-remark @+1 {{no part of this exp2 is moved off the special function unit: where the tile lies in its document is not known in steps of 32 tokens}}
  %e2 = math.exp2 %s2 : !tile
  flamia.store %e2, %y[%c0, %c0] : !tile, memref<?x128xf32>
  flamia.return
}

// -----

!tile = tensor<128x16xf32>
!half = tensor<128x128xbf16>
!narrow = tensor<16x128xbf16>
!narrowT = tensor<128x16xbf16>
!rows = memref<?x128xbf16>
flamia.kernel @narrow(%x: !rows, %y: memref<?x16xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !tile
  %a = flamia.load %x[%c0, %c0] : !rows -> !half
  %b = flamia.load %x[%c0, %c0] : !rows -> !narrow
  %t = flamia.transpose %b : !narrow -> !narrowT
  %s = flamia.dot %a, %t, %zero : !half, !narrowT -> !tile
  // expected-remark @+1 {{no part of this exp2 is moved off the special function unit: the tile is not made of blocks of 32 x 32}}
  %e = math.exp2 %s : !tile
  flamia.store %e, %y[%c0, %c0] : !tile, memref<?x16xf32>
  flamia.return
}

// -----

// expected-error @+1 {{flamia-emulate-exp2: expected a share N/M with M a power of two up to 32 and N at most M, or 0, but got '1/3'}}
flamia.kernel @third() parameters {} grid(1) attributes {flamia.exp2_emulation = {sm_100a = "1/3", sm_103a = "1/5"}} {
  flamia.return
}

// -----

// expected-error @+1 {{'flamia.kernel' op expected attribute 'flamia.exp2_emulation' to be a dictionary of shares by architecture}}
flamia.kernel @no_architecture() parameters {} grid(1) attributes {flamia.exp2_emulation = "1/4"} {
  flamia.return
}

// -----

// expected-error @+1 {{'flamia.kernel' op expected 'flamia.exp2_emulation' to give a string for sm_100a, but got 2.500000e-01}}
flamia.kernel @number() parameters {} grid(1) attributes {flamia.exp2_emulation = {sm_100a = 0.25 : f32}} {
  flamia.return
}

// -----

// expected-error @+1 {{'flamia.kernel' op expected 'flamia.exp2_emulation' to name architectures among sm_100a, sm_103a, sm_90, but got 'sm_100'}}
flamia.kernel @unknown_architecture() parameters {} grid(1) attributes {flamia.exp2_emulation = {sm_100 = "1/4"}} {
  flamia.return
}

// -----

// Wrong for another architecture than the one compiled for.
// expected-error @+1 {{flamia-emulate-exp2: expected a share N/M with M a power of two up to 32 and N at most M, or 0, but got '1/5'}}
flamia.kernel @wrong_elsewhere() parameters {} grid(1) attributes {flamia.exp2_emulation = {sm_100a = "1/4", sm_103a = "1/5"}} {
  flamia.return
}
