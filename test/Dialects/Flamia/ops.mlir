// RUN: flamia-opt %s | flamia-opt | FileCheck %s
// RUN: flamia-opt %s --mlir-print-op-generic | flamia-opt | FileCheck %s
// RUN: flamia-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

!q = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
!qT = !flamia.scaled<64x128, f8E4M3FN by f8E8M0FNU per 64x1>
!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
!p = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

// CHECK-LABEL: flamia.kernel @header(
// CHECK-SAME: %x: memref<?x?xf32> {flamia.dims = ["rows", "n"]}, %scale: f32, %count: i32, %start: index)
// CHECK-SAME: parameters {causal = [true, false], n = [128, 64], rotate = ["hadamard", "none"]}
// CHECK-SAME: grid(x[0] ceildiv 128, x[1], 3) attributes {note = "kept"}
// GENERIC: "flamia.kernel"() <{arg_attrs = [{flamia.dims = ["rows", "n"]}, {}, {}, {}], arg_names = ["x", "scale", "count", "start"]
// GENERIC-SAME: grid = {{\[\[}}"x", 0, 128], ["x", 1, 1], 3]
flamia.kernel @header(%x: memref<?x?xf32> {flamia.dims = ["rows", "n"]}, %scale: f32, %count: i32, %start: index)
    parameters {n = [128, 64], causal = [true, false], rotate = ["hadamard", "none"]}
    grid(x[0] ceildiv 128, x[1], 3) attributes {note = "kept"} {
  // CHECK: flamia.param "n" : index
  %n = flamia.param "n" : index
  // CHECK: flamia.param "causal" : i1
  %causal = flamia.param "causal" : i1
  // CHECK: flamia.param "rotate" is "hadamard" : i1
  %rotate = flamia.param "rotate" is "hadamard" : i1
  // CHECK: flamia.program_id y
  %y = flamia.program_id y
  // CHECK: flamia.dim %x[1] : memref<?x?xf32>
  %d = flamia.dim %x[1] : memref<?x?xf32>
  // CHECK: flamia.return
  flamia.return
}

// CHECK-LABEL: flamia.kernel @no_parameters() parameters {} grid()
flamia.kernel @no_parameters() {
  flamia.return
}

// An extent that is left to the launch, and an argument of the same name.
// CHECK-LABEL: flamia.kernel @any_extent(
// CHECK-SAME: grid(any[0], 1, any) {
// GENERIC: grid = {{\[\[}}"any", 0, 1], 1, unit]
flamia.kernel @any_extent(%any: memref<?x8xf32>) parameters {} grid(any[0], 1, any) {
  // CHECK: flamia.num_programs z
  %parts = flamia.num_programs z
  flamia.return
}

// CHECK-LABEL: flamia.kernel @memory(
flamia.kernel @memory(%work: memref<?x4xi32>, %x: memref<?x?x64xbf16>, %bias: memref<?xf32>,
                      %data: memref<?x?x64xf8E4M3FN>, %scale: memref<?x?x512xf8E8M0FNU>, %y: memref<?x?xf32>)
    parameters {} grid(work[0]) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[BEGIN:.*]], %[[END:.*]], %{{.*}}, %{{.*}} = flamia.work_item %work : memref<?x4xi32>
  %begin, %end, %tile, %base = flamia.work_item %work : memref<?x4xi32>
  // CHECK: flamia.work_item %work from_end : memref<?x4xi32>
  %begin_2, %end_2, %tile_2, %base_2 = flamia.work_item %work from_end : memref<?x4xi32>
  // CHECK: flamia.load %x[%[[BEGIN]], %c0, %c0] limit %[[END]] : memref<?x?x64xbf16> -> tensor<128x64xbf16>
  %t = flamia.load %x[%begin, %c0, %c0] limit %end : memref<?x?x64xbf16> -> tensor<128x64xbf16>
  // CHECK: flamia.load %bias[%c0] : memref<?xf32> -> tensor<1x64xf32>
  %b = flamia.load %bias[%c0] : memref<?xf32> -> tensor<1x64xf32>
  // CHECK: flamia.load_scaled %data[%[[BEGIN]], %c0, %c0], %scale[%{{.*}}, %c0] limit %[[END]] along cols
  // CHECK-SAME: : memref<?x?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
  %q = flamia.load_scaled %data[%begin, %c0, %c0], %scale[%base, %c0] limit %end along cols
     : memref<?x?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !q
  // CHECK: flamia.load_scaled {{.*}} along rows
  %v = flamia.load_scaled %data[%begin, %c0, %c0], %scale[%base, %c0] along rows
     : memref<?x?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  // CHECK: flamia.store %{{.*}}, %x[%[[BEGIN]], %c0, %c0] limit %[[END]] : tensor<128x64xbf16>, memref<?x?x64xbf16>
  flamia.store %t, %x[%begin, %c0, %c0] limit %end : tensor<128x64xbf16>, memref<?x?x64xbf16>
  // CHECK: flamia.store %{{.*}}, %bias[%c0] : tensor<1x64xf32>, memref<?xf32>
  flamia.store %b, %bias[%c0] : tensor<1x64xf32>, memref<?xf32>
  // CHECK: flamia.store_payload %{{.*}}, %data[%[[BEGIN]], %c0, %c0] limit %[[END]] : !flamia.scaled<{{.*}}>, memref<?x?x64xf8E4M3FN>
  flamia.store_payload %q, %data[%begin, %c0, %c0] limit %end : !q, memref<?x?x64xf8E4M3FN>
  // CHECK: flamia.store_scales %{{.*}}, %scale[%{{.*}}, %c0] rows %[[END]] along rows : !flamia.scaled<{{.*}}>, memref<?x?x512xf8E8M0FNU>
  flamia.store_scales %v, %scale[%base, %c0] rows %end along rows : !v, memref<?x?x512xf8E8M0FNU>
  flamia.return
}

// CHECK-LABEL: flamia.kernel @values(
flamia.kernel @values(%data: memref<?x64xf8E4M3FN>, %scale: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %q = flamia.load_scaled %data[%c0, %c0], %scale[%c0, %c0] along cols
     : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !q
  %v = flamia.load_scaled %data[%c0, %c0], %scale[%c0, %c0] along rows
     : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  // CHECK: flamia.full %{{.*}} : tensor<128x128xf32>
  %zero = flamia.full %f0 : tensor<128x128xf32>
  %zero_o = flamia.full %f0 : tensor<128x64xf32>
  // CHECK: flamia.transpose %{{.*}} : !flamia.scaled<128x64, {{.*}} per 1x64> -> !flamia.scaled<64x128, {{.*}} per 64x1>
  %qT = flamia.transpose %q : !q -> !qT
  // CHECK: flamia.dot %{{.*}}, %{{.*}}, %{{.*}} : !flamia.scaled<128x64, {{.*}}>, !flamia.scaled<64x128, {{.*}}> -> tensor<128x128xf32>
  %s = flamia.dot %q, %qT, %zero : !q, !qT -> tensor<128x128xf32>
  // CHECK: flamia.mask %{{.*}} rows %c0 cols %c0 causal limit %c0 window %c0 : tensor<128x128xf32>
  %m = flamia.mask %s rows %c0 cols %c0 causal limit %c0 window %c0 : tensor<128x128xf32>
  // CHECK: flamia.exp2 %{{.*}} rows %c0 cols %c0 polynomial 1 of 4 : tensor<128x128xf32>
  %weights = flamia.exp2 %m rows %c0 cols %c0 polynomial 1 of 4 : tensor<128x128xf32>
  // CHECK: flamia.mask %{{.*}} rows %c0 cols %c0 limit %c0 : tensor<128x128xf32>
  %m2 = flamia.mask %m rows %c0 cols %c0 limit %c0 : tensor<128x128xf32>
  // CHECK: flamia.reduce max %{{.*}} : tensor<128x128xf32> -> tensor<128x1xf32>
  %max = flamia.reduce max %m2 : tensor<128x128xf32> -> tensor<128x1xf32>
  // CHECK: flamia.broadcast %{{.*}} : tensor<128x1xf32> -> tensor<128x128xf32>
  %maxs = flamia.broadcast %max : tensor<128x1xf32> -> tensor<128x128xf32>
  // CHECK: flamia.quantize %{{.*}} exponent -3 : tensor<128x128xf32> -> !flamia.scaled<128x128, {{.*}} per 1x32>
  %p = flamia.quantize %maxs exponent -3 : tensor<128x128xf32> -> !p
  // CHECK: flamia.quantize %{{.*}} rows %c0 : tensor<128x128xf32> -> !flamia.scaled<128x128, {{.*}} per 1x32>
  %p2 = flamia.quantize %maxs rows %c0 : tensor<128x128xf32> -> !p
  // CHECK: flamia.quantize %{{.*}} shift(%{{.*}} : tensor<128x1xf32>) shift_by -8 : tensor<128x128xf32>
  %p3 = flamia.quantize %maxs shift(%max : tensor<128x1xf32>) shift_by -8 : tensor<128x128xf32> -> !p
  // CHECK: flamia.quantize %{{.*}} rows %c0 exponent 1 shift(%{{.*}} : tensor<1x1xf32>) : tensor<128x128xf32>
  %one = flamia.full %f0 : tensor<1x1xf32>
  %p4 = flamia.quantize %maxs rows %c0 exponent 1 shift(%one : tensor<1x1xf32>) : tensor<128x128xf32> -> !p
  // CHECK: flamia.load_payload %data[%c0, %c0] limit %c0 : memref<?x64xf8E4M3FN> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 128x64>
  %unit = flamia.load_payload %data[%c0, %c0] limit %c0 : memref<?x64xf8E4M3FN> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 128x64>
  // CHECK: flamia.round_like %{{.*}}, %{{.*}} : tensor<128x1xf32>, !flamia.scaled<128x128, {{.*}}>
  %r = flamia.round_like %max, %p : tensor<128x1xf32>, !p
  // CHECK: flamia.dot {{.*}} -> tensor<128x64xf32>
  %o = flamia.dot %p, %v, %zero_o : !p, !v -> tensor<128x64xf32>
  // CHECK: flamia.hadamard %{{.*}} : tensor<128x64xf32>
  %h = flamia.hadamard %o : tensor<128x64xf32>
  // CHECK: flamia.hadamard %{{.*}} inverse : tensor<128x64xf32>
  %u = flamia.hadamard %h inverse : tensor<128x64xf32>
  // CHECK: arith.truncf
  %b = arith.truncf %maxs : tensor<128x128xf32> to tensor<128x128xbf16>
  // CHECK: flamia.mask %{{.*}} rows %c0 cols %c0 transposed causal limit %c0 zero : tensor<128x128xf32>
  %m3 = flamia.mask %m rows %c0 cols %c0 transposed causal limit %c0 zero : tensor<128x128xf32>
  // CHECK: flamia.quantize %{{.*}} rows %c0 including(%{{.*}} : tensor<128x1xf32>) : tensor<128x128xf32> -> !flamia.scaled<128x128, {{.*}} per 1x32>
  %p5 = flamia.quantize %maxs rows %c0 including(%max : tensor<128x1xf32>) : tensor<128x128xf32> -> !p
  // CHECK: flamia.quantize %{{.*}} rows %c0 global_scale %{{.*}} : tensor<128x128xf32> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  %p6 = flamia.quantize %maxs rows %c0 global_scale %f0 : tensor<128x128xf32> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  // A token-local operand contracted over its tokens.
  // CHECK: flamia.dot %{{.*}}, %{{.*}}, %{{.*}} : !flamia.scaled<128x128, {{.*}} per 1x32>, !flamia.scaled<128x64, {{.*}} per 1x64> -> tensor<128x64xf32>
  %local = flamia.dot %p, %q, %zero_o : !p, !q -> tensor<128x64xf32>
  // CHECK: flamia.exponents %{{.*}} : !flamia.scaled<128x64, {{.*}} per 1x64> -> tensor<128x1xf32>
  %e = flamia.exponents %q : !q -> tensor<128x1xf32>
  // CHECK: flamia.payload %{{.*}} : !flamia.scaled<128x64, {{.*}} per 1x64> -> tensor<128x64xf32>
  %payload = flamia.payload %q : !q -> tensor<128x64xf32>
  // CHECK: flamia.load_exponents %scale[%c0, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x1xf32>
  %e1 = flamia.load_exponents %scale[%c0, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x1xf32>
  // CHECK: flamia.load_exponents %scale[%c0, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x4xf32>
  %e4 = flamia.load_exponents %scale[%c0, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x4xf32>
  // CHECK: flamia.reduce_rows max %{{.*}} by 32 rows %c0 : tensor<128x1xf32>
  %blocks = flamia.reduce_rows max %e1 by 32 rows %c0 : tensor<128x1xf32>
  // CHECK: flamia.reduce_rows max %{{.*}} by 128 : tensor<128x1xf32>
  %all = flamia.reduce_rows max %e1 by 128 : tensor<128x1xf32>
  // CHECK: flamia.pow2 %{{.*}} : tensor<128x1xf32>
  %factor = flamia.pow2 %e : tensor<128x1xf32>
  // CHECK: flamia.store_exponents %{{.*}}, %scale[%c0, %c0] rows %c0 cols %c0 along rows : tensor<128x1xf32>, memref<?x?x512xf8E8M0FNU>
  flamia.store_exponents %blocks, %scale[%c0, %c0] rows %c0 cols %c0 along rows : tensor<128x1xf32>, memref<?x?x512xf8E8M0FNU>
  // CHECK: flamia.store_exponents %{{.*}}, %scale[%c0, %c0] rows %c0 cols %c0 along cols : tensor<128x4xf32>, memref<?x?x512xf8E8M0FNU>
  flamia.store_exponents %e4, %scale[%c0, %c0] rows %c0 cols %c0 along cols : tensor<128x4xf32>, memref<?x?x512xf8E8M0FNU>
  // CHECK: flamia.round_like %{{.*}}, %{{.*}} : tensor<128x1xf32>, tensor<128x128xbf16>
  %r2 = flamia.round_like %max, %b : tensor<128x1xf32>, tensor<128x128xbf16>
  flamia.return
}

// What a safeguard may read instead of an argument.
// CHECK-LABEL: flamia.kernel @originals(
// CHECK-SAME: %x: memref<?x8x64xf8E4M3FN> {flamia.original = "y", flamia.original_factor = "r"}
// CHECK-SAME: %d: memref<?xf32> {flamia.original = "e", flamia.original_with = "x"}
flamia.kernel @originals(%x: memref<?x8x64xf8E4M3FN> {flamia.original = "y", flamia.original_factor = "r"}, %y: memref<?x8x64xbf16>,
    %r: memref<?x8xf32>, %d: memref<?xf32> {flamia.original = "e", flamia.original_with = "x"}, %e: memref<?xf32>) parameters {} grid(1) {
  flamia.return
}

// Extents that flamia-specialize binds later.
// CHECK-LABEL: flamia.kernel @unbound(
flamia.kernel @unbound(%data: memref<?x?xf8E4M3FN> {flamia.dims = ["rows", "n"]}, %scale: memref<?x?x512xf8E8M0FNU>)
    parameters {n = [64]} grid(1) {
  %c0 = arith.constant 0 : index
  // CHECK: !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
  %q = flamia.load_scaled %data[%c0, %c0], %scale[%c0, %c0] along cols
     : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>
  flamia.return
}

// What `flamia.folded` may say.
// CHECK-LABEL: flamia.kernel @folded(
// CHECK-SAME: %bytes: memref<?x?x512xf8E8M0FNU> {flamia.dims = ["tiles", "heads", "atom"], flamia.folded = {along = "cols", exponent = "e(q) + 2 * e(q) - max128(e(q)) - 8"}}
flamia.kernel @folded(%q: memref<?x?x64xf8E4M3FN> {flamia.dims = ["tokens", "heads", "d"]}, %m: memref<?x?xf32> {flamia.dims = ["tokens", "heads"]},
    %bytes: memref<?x?x512xf8E8M0FNU> {flamia.dims = ["tiles", "heads", "atom"], flamia.folded = {exponent = "e(q) + 2 * e(q) - max128(e(q)) - 8", along = "cols"}},
    %blocks: memref<?x?x512xf8E8M0FNU> {flamia.folded = {exponent = "max32( e( q ) )", along = "rows"}},
    %tile: memref<?x?xf32> {flamia.folded = {exponent = "max128(e(q))"}},
    %factor: memref<?x?x128xf32> {flamia.folded = {exponent = "-e(q)"}},
    %vector: memref<?x?x128xf32> {flamia.dims = ["tiles", "heads", "rows"], flamia.folded = {of = "m"}},
    %bias: memref<?x?x128xf32> {flamia.folded = {of = "m", negate, plus = 8.0, exponent = "e(q) - max32(e(q))"}})
    parameters {} grid(1) {
  flamia.return
}

// NVFP4: packed payloads, scales with the atoms of a tile, arguments of one format only.
// CHECK-LABEL: flamia.kernel @nvfp4(
// CHECK-SAME: %data: memref<?x?x128xf4E2M1FN> {flamia.only = {format = "nvfp4"}}
flamia.kernel @nvfp4(%data: memref<?x?x128xf4E2M1FN> {flamia.only = {format = "nvfp4"}}, %scale: memref<?x?x2x512xf8E4M3FN> {flamia.only = {format = "nvfp4"}})
    parameters {format = ["mxfp8", "nvfp4"]} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  // CHECK: !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  %q = flamia.load_scaled %data[%c0, %c0, %c0], %scale[%c0, %c0] along cols
     : memref<?x?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  %qT = flamia.transpose %q : !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
  // CHECK: flamia.dot {{.*}}, !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1> -> tensor<128x128xf32>
  %s = flamia.dot %q, %qT, %zero : !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>, !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1> -> tensor<128x128xf32>
  flamia.return
}
