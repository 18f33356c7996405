// RUN: split-file %s %t
// RUN: not flamia-opt %t/kernels.mlir --flamia-specialize=params=m=64 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: no kernel has a parameter 'm'; there are: n, causal
// RUN: not flamia-opt %t/kernels.mlir --flamia-specialize=params=n=96 2>&1 | FileCheck %s --check-prefix=RANGE
// RANGE: kernels.mlir:1:1: error: parameter 'n' of @a cannot be 96; it may be 128 or 64
// RUN: not flamia-opt %t/kernels.mlir --flamia-specialize=params=causal=maybe 2>&1 | FileCheck %s --check-prefix=BOOL
// BOOL: error: parameter 'causal' of @b cannot be maybe; it may be true or false
// RUN: not flamia-opt %t/kernels.mlir --flamia-specialize=params=n 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: error: expected name=value, but got 'n'
// RUN: not flamia-opt %t/kernels.mlir --flamia-specialize=params=n=64,n=128 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: parameter 'n' is bound to both 64 and 128
// RUN: flamia-opt %t/errors.mlir --flamia-specialize --split-input-file --verify-diagnostics
// An empty module has no parameters to name.
// RUN: flamia-opt %t/empty.mlir --flamia-specialize
// RUN: not flamia-opt %t/empty.mlir --flamia-specialize=params=n=1 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: no kernel has a parameter 'n'{{$}}

//--- empty.mlir
module {}

//--- kernels.mlir
flamia.kernel @a() parameters {n = [128, 64]} grid(1) {
  flamia.return
}
flamia.kernel @b() parameters {causal = [true, false], n = [128, 64]} grid(1) {
  flamia.return
}

//--- errors.mlir
flamia.kernel @undeclared() parameters {n = [128]} grid(1) {
  // expected-error @+1 {{kernel declares no parameter 'm'; there are: n}}
  %m = flamia.param "m" : index
  flamia.return
}

// -----

flamia.kernel @wrong_type() parameters {n = [128]} grid(1) {
  // expected-error @+1 {{parameter 'n' is 128 : i64, which is no 'i1'}}
  %n = flamia.param "n" : i1
  flamia.return
}

// -----

flamia.kernel @is_of_integer() parameters {n = [128]} grid(1) {
  // expected-error @+1 {{expected a parameter whose values are strings for 'is', but 'n' is 128 : i64}}
  %n = flamia.param "n" is "128" : i1
  flamia.return
}

// -----

// expected-error @+1 {{'flamia.depends' names 'windowed', which is no boolean parameter}}
flamia.kernel @depends(%x: memref<?x?xf32>, %y: memref<?x?xf32> {flamia.depends = {x = "<= if windowed"}}) parameters {} grid(1) {
  flamia.return
}

// -----

flamia.kernel @nothing_determines(%x: memref<?x?xf32>) parameters {n = [128]} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{cannot determine the columns of 'tensor<128x?xf32>': no parameter, argument or static type gives them}}
  %t = flamia.full %f0 : tensor<128x?xf32>
  flamia.store %t, %x[%c0, %c0] : tensor<128x?xf32>, memref<?x?xf32>
  flamia.return
}

// -----

flamia.kernel @nothing_determines_rows(%x: memref<?x64xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{cannot determine the rows of 'tensor<?x64xf32>': no parameter, argument or static type gives them}}
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<?x64xf32>
  flamia.return
}

// -----

// expected-error @+1 {{expected dimension 'n' of argument 'x' to equal 'n' elsewhere, but got 32 and 64}}
flamia.kernel @dimension_contradicts(%x: memref<?x32xf32> {flamia.dims = ["rows", "n"]}) parameters {n = [64]} grid(1) {
  flamia.return
}

// -----

flamia.kernel @dot_contradicts(%x: memref<?x?xbf16> {flamia.dims = ["rows", "n"]}, %y: memref<?x32xbf16>) parameters {n = [64]} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %a = flamia.load %x[%c0, %c0] : memref<?x?xbf16> -> tensor<128x64xbf16>
  %n = flamia.load %y[%c0, %c0] : memref<?x32xbf16> -> tensor<128x32xbf16>
  %nT = flamia.transpose %n : tensor<128x32xbf16> -> tensor<?x128xbf16>
  %b = arith.addf %a, %a : tensor<128x64xbf16>
  // expected-error @+1 {{expected columns of 'a' to equal rows of 'b', but got 64 and 32}}
  %d = flamia.dot %b, %nT, %z : tensor<128x64xbf16>, tensor<?x128xbf16> -> tensor<128x128xf32>
  flamia.store %b, %x[%c0, %c0] : tensor<128x64xbf16>, memref<?x?xbf16>
  flamia.return
}

// -----

flamia.kernel @loop_contradicts(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x?xf32>
  %r = scf.for %i = %c0 to %c1 step %c1 iter_args(%acc = %z) -> (tensor<128x?xf32>) {
    %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x64xf32>
    %u = arith.addf %t, %t : tensor<128x64xf32>
    %b = flamia.broadcast %u : tensor<128x64xf32> -> tensor<128x?xf32>
    scf.yield %b : tensor<128x?xf32>
  }
  // expected-error @+1 {{expected columns of 'source' to equal columns of 'result', but got 64 and 32}}
  %w = flamia.quantize %r : tensor<128x?xf32> -> !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @block_does_not_divide(%x: memref<?x?xf8E4M3FN> {flamia.dims = ["rows", "n"]}, %s: memref<?x?x512xf8E8M0FNU>)
    parameters {n = [48]} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected columns to be a positive multiple of the block's, but got 48 and a block of 32}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU>
    -> !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @uses_other_format(%x: memref<?x64xf32> {flamia.only = {format = "nvfp4"}}, %y: memref<?x64xf32>)
    parameters {format = ["mxfp8", "nvfp4"]} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{uses argument 'x', which exists only with format=nvfp4, but it is mxfp8}}
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  flamia.store %t, %y[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

// expected-error @+1 {{the grid names argument 'x', which exists only with causal=false, but it is true}}
flamia.kernel @grid_of_other(%x: memref<?x64xf32> {flamia.only = {causal = false}}) parameters {causal = [true, false]} grid(x[0]) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.derived_from' of argument 'm' to be the name of an argument, but got "x"}}
flamia.kernel @derived_from_other(%x: memref<?x64xf32> {flamia.only = {causal = false}}, %m: memref<?xf32> {flamia.derived_from = "x"})
    parameters {causal = [true, false]} grid(1) {
  flamia.return
}

// -----

flamia.kernel @atoms(%x: memref<?x?xf4E2M1FN> {flamia.dims = ["rows", "n"]}, %s: memref<?x?x2x512xf8E4M3FN>) parameters {n = [64]} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected the number of atoms of a tile's scales to equal its known extent, but got 2 and 1}}
  %q = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN>
    -> !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>
  flamia.return
}
