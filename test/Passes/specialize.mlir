// RUN: flamia-opt %s --flamia-specialize | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: flamia-opt %s --flamia-specialize="params=n=64,causal=false,rotate=none" | FileCheck %s --check-prefixes=CHECK,BOUND
// A second run with the same values changes nothing; the output is specialized.
// RUN: flamia-opt %s --flamia-specialize="params=n=64,causal=false,rotate=none" | flamia-opt --flamia-specialize=params=n=64 | FileCheck %s --check-prefixes=CHECK,BOUND

// A named dimension binds the extents of arguments, and through them those of tiles.
// CHECK-LABEL: flamia.kernel @named_dimension(
// DEFAULT-SAME: %x: memref<?x128xf32>
// DEFAULT-SAME: parameters {n = 128 : i64}
// BOUND-SAME: %x: memref<?x64xf32>
// BOUND-SAME: parameters {n = 64 : i64}
flamia.kernel @named_dimension(%x: memref<?x?xf32> {flamia.dims = ["rows", "n"]}) parameters {n = [128, 64]} grid(1) {
  %c0 = arith.constant 0 : index
  // DEFAULT: flamia.load {{.*}} -> tensor<128x128xf32>
  // BOUND: flamia.load {{.*}} -> tensor<128x64xf32>
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  // DEFAULT: arith.addf {{.*}} : tensor<128x128xf32>
  // BOUND: arith.addf {{.*}} : tensor<128x64xf32>
  %d = arith.addf %t, %t : tensor<128x?xf32>
  flamia.store %d, %x[%c0, %c0] : tensor<128x?xf32>, memref<?x?xf32>
  flamia.return
}

// Parameters fold what they decide; a string parameter is compared.
// CHECK-LABEL: flamia.kernel @folds
flamia.kernel @folds(%x: memref<?x?xf32> {flamia.dims = ["rows", "n"]}, %y: memref<?xindex>)
    parameters {n = [128, 64], causal = [true, false], rotate = ["hadamard", "none"]} grid(1) {
  %c0 = arith.constant 0 : index
  %causal = flamia.param "causal" : i1
  %rotate = flamia.param "rotate" is "hadamard" : i1
  %n = flamia.param "n" : index
  // DEFAULT: %[[T:.*]] = flamia.load %x[%c0
  // BOUND: %[[T:.*]] = flamia.load %x[%c64
  %row = arith.select %causal, %c0, %n : index
  %t = flamia.load %x[%row, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  // DEFAULT: flamia.hadamard %[[T]]
  // BOUND-NOT: flamia.hadamard
  %h = flamia.hadamard %t : tensor<128x?xf32>
  %r = arith.select %rotate, %h, %t : tensor<128x?xf32>
  flamia.store %r, %x[%c0, %c0] : tensor<128x?xf32>, memref<?x?xf32>
  // CHECK: flamia.return
  flamia.return
}

// Every relation between extents, with only one extent known from a parameter.
// CHECK-LABEL: flamia.kernel @unifies
flamia.kernel @unifies(%q: memref<?x?xf8E4M3FN> {flamia.dims = ["rows", "n"]}, %s: memref<?x?x512xf8E8M0FNU>, %o: memref<?x?xbf16>)
    parameters {n = [128, 64]} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = flamia.dim %o[0] : memref<?x?xbf16>
  %f0 = arith.constant 0.0 : f32
  // BOUND: %[[Q:.*]] = flamia.load_scaled {{.*}} -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
  %a = flamia.load_scaled %q[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU>
    -> !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
  // BOUND: flamia.transpose {{.*}} -> !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 64x1>
  %b = flamia.transpose %a : !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?> -> !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per ?x1>
  // The square of a product with itself: rows of `a` twice.
  %zero = flamia.full %f0 : tensor<?x?xf32>
  // BOUND: scf.for {{.*}} -> (tensor<128x128xf32>)
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %zero) -> (tensor<?x?xf32>) {
    // BOUND: flamia.dot {{.*}} -> tensor<128x128xf32>
    %d = flamia.dot %a, %b, %acc : !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>, !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per ?x1> -> tensor<?x?xf32>
    // BOUND: flamia.reduce max {{.*}} : tensor<128x128xf32> -> tensor<128x1xf32>
    %m = flamia.reduce max %d : tensor<?x?xf32> -> tensor<?x1xf32>
    %ms = flamia.broadcast %m : tensor<?x1xf32> -> tensor<?x?xf32>
    // BOUND: math.fma {{.*}} : tensor<128x128xf32>
    %f = math.fma %ms, %d, %acc : tensor<?x?xf32>
    // BOUND: flamia.quantize {{.*}} -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %p = flamia.quantize %f : tensor<?x?xf32> -> !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per 1x32>
    // BOUND: flamia.round_like {{.*}} : tensor<128x128xf32>, !flamia.scaled<128x128
    %g = flamia.round_like %f, %p : tensor<?x?xf32>, !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per 1x32>
    scf.yield %g : tensor<?x?xf32>
  }
  // BOUND: arith.truncf {{.*}} : tensor<128x128xf32> to tensor<128x128xbf16>
  %t = arith.truncf %r : tensor<?x?xf32> to tensor<?x?xbf16>
  flamia.store %t, %o[%c0, %c0] : tensor<?x?xbf16>, memref<?x?xbf16>
  flamia.return
}

// CHECK-LABEL: flamia.kernel @depends
// DEFAULT-SAME: flamia.depends = {x = "<="}
// BOUND-SAME: flamia.depends = {x = "any"}
flamia.kernel @depends(%x: memref<?x?xf32>, %y: memref<?x?xf32> {flamia.depends = {x = "<= if causal"}})
    parameters {causal = [true, false]} grid(1) {
  flamia.return
}

// The same for exponents and payloads: everything follows from one extent.
// CHECK-LABEL: flamia.kernel @unifies_exponents
flamia.kernel @unifies_exponents(%x: memref<?x?xf32> {flamia.dims = ["rows", "n"]}, %y: memref<?x?xf32>) parameters {n = [128, 64]} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  %u = flamia.load %y[%c0, %c0] : memref<?x?xf32> -> tensor<?x1xf32>
  // BOUND: flamia.quantize %{{.*}} including(%{{.*}} : tensor<128x1xf32>) : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
  %q = flamia.quantize %t including(%u : tensor<?x1xf32>) : tensor<128x?xf32> -> !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per 1x?>
  // BOUND: flamia.exponents {{.*}} -> tensor<128x1xf32>
  %e = flamia.exponents %q : !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per 1x?> -> tensor<?x1xf32>
  // BOUND: flamia.payload {{.*}} -> tensor<128x64xf32>
  %p = flamia.payload %q : !flamia.scaled<?x?, f8E4M3FN by f8E8M0FNU per 1x?> -> tensor<?x?xf32>
  // BOUND: flamia.reduce_rows max {{.*}} by 32 : tensor<128x1xf32>
  %m = flamia.reduce_rows max %e by 32 : tensor<?x1xf32>
  // BOUND: flamia.pow2 {{.*}} : tensor<128x1xf32>
  %f = flamia.pow2 %m : tensor<?x1xf32>
  // BOUND: flamia.broadcast {{.*}} : tensor<128x1xf32> -> tensor<128x64xf32>
  %fs = flamia.broadcast %f : tensor<?x1xf32> -> tensor<?x?xf32>
  %z = arith.mulf %p, %fs : tensor<?x?xf32>
  flamia.store %z, %x[%c0, %c0] : tensor<?x?xf32>, memref<?x?xf32>
  flamia.return
}

// Arguments of other formats go, and what is said of them; conditions go from those that stay.
// RUN: flamia-opt %s --flamia-specialize=params=format=nvfp4 | FileCheck %s --check-prefix=NVFP4
// CHECK-LABEL: flamia.kernel @selects(
// CHECK-SAME: %x: memref<?x{{128|64}}xf8E4M3FN> {flamia.dims = ["rows", "n"]}, %xs: memref<?x?x512xf8E8M0FNU>, %o: memref<?x?xf32> {flamia.depends = {x = "<="}})
// CHECK-NOT: f4E2M1FN
// NVFP4-LABEL: flamia.kernel @selects(
// NVFP4-SAME: %y: memref<?x128xf4E2M1FN> {flamia.dims = ["rows", "n"]}, %ys: memref<?x?x2x512xf8E4M3FN>, %g: f32, %o: memref<?x?xf32> {flamia.depends = {y = "<="}})
// NVFP4-SAME: parameters {causal = true, format = "nvfp4", n = 128 : i64}
flamia.kernel @selects(%x: memref<?x?xf8E4M3FN> {flamia.dims = ["rows", "n"], flamia.only = {format = "mxfp8"}},
    %xs: memref<?x?x512xf8E8M0FNU> {flamia.only = {format = "mxfp8"}},
    %y: memref<?x?xf4E2M1FN> {flamia.dims = ["rows", "n"], flamia.only = {format = "nvfp4"}},
    %ys: memref<?x?x?x512xf8E4M3FN> {flamia.only = {format = "nvfp4"}}, %g: f32 {flamia.only = {format = "nvfp4", causal = true}},
    %o: memref<?x?xf32> {flamia.depends = {x = "<=", y = "<="}})
    parameters {n = [128, 64], format = ["mxfp8", "nvfp4"], causal = [true, false]} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %nvfp4 = flamia.param "format" is "nvfp4" : i1
  %a8 = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU>
    -> !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
  %b8 = flamia.transpose %a8 : !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?> -> !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per ?x1>
  %s8 = flamia.dot %a8, %b8, %zero : !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>, !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per ?x1> -> tensor<128x128xf32>
  // NVFP4-NOT: f8E8M0FNU
  // NVFP4: flamia.load_scaled %y{{.*}} -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  %a4 = flamia.load_scaled %y[%c0, %c0], %ys[%c0, %c0] along cols : memref<?x?xf4E2M1FN>, memref<?x?x?x512xf8E4M3FN>
    -> !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>
  // NVFP4: flamia.transpose %{{.*}} -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
  %b4 = flamia.transpose %a4 : !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16> -> !flamia.scaled<?x128, f4E2M1FN by f8E4M3FN per 16x1>
  %s4 = flamia.dot %a4, %b4, %zero : !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>, !flamia.scaled<?x128, f4E2M1FN by f8E4M3FN per 16x1> -> tensor<128x128xf32>
  %causal = flamia.param "causal" : i1
  %gs = flamia.full %g : tensor<128x128xf32>
  %g4 = arith.mulf %s4, %gs : tensor<128x128xf32>
  %t4 = arith.select %causal, %g4, %s4 : tensor<128x128xf32>
  %s = arith.select %nvfp4, %t4, %s8 : tensor<128x128xf32>
  flamia.store %s, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x?xf32>
  flamia.return
}
