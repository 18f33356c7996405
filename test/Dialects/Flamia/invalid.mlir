// RUN: flamia-opt %s --split-input-file --verify-diagnostics

// One input for every message of the verifiers, in the order of FlamiaTypes.td and
// FlamiaOps.td.

// expected-error @+1 {{expected 2 extents, but got 1}}
flamia.kernel @scaled_one_extent(%x: !flamia.scaled<128, f8E4M3FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 2 extents, but got 3}}
flamia.kernel @scaled_three_extents(%x: !flamia.scaled<1x128x128, f8E4M3FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 2 extents, but got 4}}
flamia.kernel @scaled_four_block_extents(%x: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x1x1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 2 extents, but got 0}}
flamia.kernel @scaled_no_extents(%x: !flamia.scaled<, f8E4M3FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 2 extents, but got 0}}
flamia.kernel @scaled_negative_extent(%x: !flamia.scaled<-128x128, f8E4M3FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected at most 256 rows (512 columns of tensor memory, 227 KB of shared memory), but got 1099511627776}}
flamia.kernel @scaled_absurd_extent(%x: !flamia.scaled<1099511627776x128, f8E4M3FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected at most 256 columns (512 columns of tensor memory, 227 KB of shared memory), but got 65536}}
flamia.kernel @scaled_wide(%x: !flamia.scaled<4x65536, f8E4M3FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected element type f8E4M3FN, f8E5M2 or f4E2M1FN, but got 'f32'}}
flamia.kernel @scaled_element(%x: !flamia.scaled<128x128, f32 by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected scale type f8E8M0FNU or f8E4M3FN, but got 'f32'}}
flamia.kernel @scaled_scale(%x: !flamia.scaled<128x128, f8E4M3FN by f32 per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected columns to be a positive multiple of the block's, but got 128 and a block of 48}}
flamia.kernel @scaled_block(%x: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x48>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected positive rows}}
flamia.kernel @scaled_zero_block(%x: !flamia.scaled<?x128, f8E4M3FN by f8E8M0FNU per 0x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected at most 3 grid terms, but got 4}}
flamia.kernel @grid_terms() parameters {} grid(1, 1, 1, 1) { flamia.return }

// -----

// expected-error @+1 {{expected a positive grid extent, but got -3}}
flamia.kernel @grid_negative() parameters {} grid(1, -3) { flamia.return }

// -----

flamia.kernel @grid_largest() parameters {} grid(2147483647, 65535, 65535) { flamia.return }

// -----

// expected-error @+1 {{expected at most 2147483647 along grid axis 0, but got 2147483648}}
flamia.kernel @grid_x() parameters {} grid(2147483648) { flamia.return }

// -----

// expected-error @+1 {{expected at most 65535 along grid axis 1, but got 65536}}
flamia.kernel @grid_y() parameters {} grid(1, 65536) { flamia.return }

// -----

// expected-error @+1 {{expected at most 65535 along grid axis 2, but got 99999999999}}
flamia.kernel @grid_z() parameters {} grid(1, 1, 99999999999) { flamia.return }

// -----

// expected-error @+1 {{expected an extent along grid axis 1, but got any: only that of axis 2 can be left to the launch}}
flamia.kernel @grid_any_y() parameters {} grid(1, any) { flamia.return }

// -----

flamia.kernel @num_programs_of_known() parameters {} grid(1, 1, 4) {
  // expected-error @+1 {{expected the kernel's grid to say any along axis z}}
  %n = flamia.num_programs z
  flamia.return
}

// -----

flamia.kernel @num_programs_of_missing() parameters {} grid(1, 1) {
  // expected-error @+1 {{expected the kernel's grid to say any along axis z}}
  %n = flamia.num_programs z
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.original' of argument 'x' to be the name of a bf16 or f16 tensor of the same shape, but got "y"}}
flamia.kernel @original_shape(%x: memref<?x64xf8E4M3FN> {flamia.original = "y"}, %y: memref<?x128xbf16>) parameters {} grid(1) { flamia.return }

// -----

// An output is no original: a safeguard would read what other work items write.
// expected-error @+1 {{expected 'flamia.original' of argument 'x' to be the name of a tensor that is only read, but got "y"}}
flamia.kernel @original_depends(%x: memref<?x?xf8E4M3FN> {flamia.original = "y"}, %y: memref<?x?xbf16> {flamia.depends = {x = "<="}}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.original' of argument 'x' to be the name of a tensor that is only read, but got "y"}}
flamia.kernel @original_written(%x: memref<?x64xf8E4M3FN> {flamia.original = "y"}, %y: memref<?x64xbf16>, %z: memref<?x64xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %z[%c0, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
  flamia.store %t, %y[%c0, %c0] : tensor<128x64xbf16>, memref<?x64xbf16>
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.original' of argument 'x' to be the name of a tensor of the same 'flamia.dims', but got "y"}}
flamia.kernel @original_dims(%x: memref<?x?xf8E4M3FN> {flamia.original = "y", flamia.dims = ["tokens", "n"]}, %y: memref<?x?xbf16> {flamia.dims = ["n", "tokens"]}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected a positive grid extent, but got 0}}
flamia.kernel @grid_extent() parameters {} grid(0) { flamia.return }

// -----

// expected-error @+1 {{grid names argument 'y', which does not exist}}
flamia.kernel @grid_argument(%x: memref<?xf32>) parameters {} grid(y[0]) { flamia.return }

// -----

// expected-error @+1 {{grid names dimension 1 of 'x', which is 'memref<?xf32>'}}
flamia.kernel @grid_dimension(%x: memref<?xf32>) parameters {} grid(x[1]) { flamia.return }

// -----

// expected-error @+1 {{expected a positive grid tile, but got 0}}
flamia.kernel @grid_tile(%x: memref<?xf32>) parameters {} grid(x[0] ceildiv 0) { flamia.return }

// -----

// expected-error @+1 {{expected grid term to be an integer, [argument, dimension, tile] or any, but got "x"}}
"flamia.kernel"() <{arg_names = [], function_type = () -> (), grid = ["x"], parameters = {}, sym_name = "grid_kind"}> ({
  flamia.return
}) : () -> ()

// -----

// expected-error @+1 {{expected no results, but got 1}}
"flamia.kernel"() <{arg_names = [], function_type = () -> (i32), grid = [], parameters = {}, sym_name = "results"}> ({
  flamia.return
}) : () -> ()

// -----

// expected-error @+1 {{expected one name per argument, but got 0 names for 1 arguments}}
"flamia.kernel"() <{arg_names = [], function_type = (f32) -> (), grid = [], parameters = {}, sym_name = "names"}> ({
^bb0(%x: f32):
  flamia.return
}) : () -> ()

// -----

// expected-error @+1 {{expected argument names that are not empty and differ, but got "x"}}
"flamia.kernel"() <{arg_names = ["x", "x"], function_type = (f32, f32) -> (), grid = [], parameters = {}, sym_name = "same_names"}> ({
^bb0(%x: f32, %y: f32):
  flamia.return
}) : () -> ()

// -----

// expected-error @+1 {{expected the body to end with flamia.return}}
"flamia.kernel"() <{arg_names = [], function_type = () -> (), grid = [], parameters = {}, sym_name = "no_return"}> ({
  "flamia.program_id"() <{axis = 0 : i32}> : () -> index
}) : () -> ()

// -----

// expected-error @+1 {{expected argument 'x' to have rank 1 or more, but got 'memref<f8E4M3FN>'}}
flamia.kernel @rank_0(%x: memref<f8E4M3FN>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected argument 'x' to have rank 1 or more, but got 'memref<i32, 3>'}}
flamia.kernel @rank_0_shared(%x: memref<i32, 3>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected argument 'x' to be a memref, f32, i32 or index, but got 'tensor<bf16>'}}
flamia.kernel @argument_tensor(%x: tensor<bf16>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected at least one value for parameter 'n'}}
flamia.kernel @parameter_empty() parameters {n = []} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected values of parameter 'n' to be booleans, integers or strings, but got 1.000000e+00 : f64}}
flamia.kernel @parameter_kind() parameters {n = [1.0]} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.dims' of argument 'x' to be one name for each dimension, but got ["a"]}}
flamia.kernel @dims(%x: memref<?x?xf32> {flamia.dims = ["a"]}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.original' of argument 'x' to be the name of a bf16 or f16 tensor of the same shape, but got "y"}}
flamia.kernel @original(%x: memref<?x?xf8E4M3FN> {flamia.original = "y"}, %y: memref<?xbf16>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.workspace' of argument 'x' to be without a value and on a tensor with 'flamia.dims', but got unit}}
flamia.kernel @workspace_size(%x: memref<?x64xf32> {flamia.workspace}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.workspace' of argument 'x' to be without a value and on a tensor with 'flamia.dims', but got 7 : i64}}
flamia.kernel @workspace_value(%x: memref<4x64xf32> {flamia.workspace = 7}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.derived_from' of argument 's' to be the name of an argument, but got "q"}}
flamia.kernel @derived(%s: f32 {flamia.derived_from = "q"}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.depends' of argument 'o' to be arguments with "<=", ">=" or "any", but got {x = "<"}}}
flamia.kernel @depends(%x: memref<?x?xf32>, %o: memref<?x?xf32> {flamia.depends = {x = "<"}}) parameters {} grid(1) { flamia.return }

// -----

flamia.kernel @param_type() parameters {} grid(1) {
  // expected-error @+1 {{'flamia.param' op result #0 must be 1-bit signless integer or 32-bit signless integer or index, but got 'f32'}}
  %p = flamia.param "n" : f32
  flamia.return
}

// -----

flamia.kernel @dim_range(%x: memref<?x?xf32>) parameters {} grid(1) {
  // expected-error @+1 {{expected a dimension of 'memref<?x?xf32>', but got 2}}
  %d = flamia.dim %x[2] : memref<?x?xf32>
  flamia.return
}

// -----

flamia.kernel @dim_negative(%x: memref<?x?xf32>) parameters {} grid(1) {
  // expected-error @+1 {{expected a dimension of 'memref<?x?xf32>', but got -1}}
  %d = flamia.dim %x[-1] : memref<?x?xf32>
  flamia.return
}

// -----

flamia.kernel @work_list(%x: memref<?x3xi32>) parameters {} grid(1) {
  // expected-error @+1 {{expected a work list [items, 4], but got 'memref<?x3xi32>'}}
  %a, %b, %c, %d = flamia.work_item %x : memref<?x3xi32>
  flamia.return
}

// -----

flamia.kernel @work_list_type(%x: memref<?x4xf32>) parameters {} grid(1) {
  // expected-error @+1 {{operand #0 must be 2D memref of 32-bit signless integer values, but got 'memref<?x4xf32>'}}
  %a, %b, %c, %d = flamia.work_item %x : memref<?x4xf32>
  flamia.return
}

// -----

flamia.kernel @load_indices(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 2 indices for 'source', but got 1}}
  %t = flamia.load %x[%c0] : memref<?x?xf32> -> tensor<128x64xf32>
  flamia.return
}

// -----

// expected-error @+1 {{expected argument 'x' to be row-major or strided<[..., 1]> of rank 2 or more, but got 'memref<?x?xf32, strided<[1, ?]>>'}}
flamia.kernel @argument_layout(%x: memref<?x?xf32, strided<[1, ?]>>) parameters {} grid(1) {
  flamia.return
}

// -----

// expected-error @+1 {{expected argument 'x' to be row-major or strided<[..., 1]> of rank 2 or more, but got 'memref<?x?xf32, strided<[?, 1], offset: ?>>'}}
flamia.kernel @argument_offset(%x: memref<?x?xf32, strided<[?, 1], offset: ?>>) parameters {} grid(1) {
  flamia.return
}

// -----

flamia.kernel @load_rank_1_rows(%x: memref<?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 1 row for 'source' of rank 1, but got 128}}
  %t = flamia.load %x[%c0] : memref<?xf32> -> tensor<128x64xf32>
  flamia.return
}

// -----

flamia.kernel @load_rank_1_limit(%x: memref<?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected no limit of rows for 'source' of rank 1}}
  %t = flamia.load %x[%c0] limit %c0 : memref<?xf32> -> tensor<1x64xf32>
  flamia.return
}

// -----

flamia.kernel @load_element(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected elements of 'source' and 'result' to be alike, but got 'f32' and 'bf16'}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x64xbf16>
  flamia.return
}

// -----

flamia.kernel @load_payload(%x: memref<?x?xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected elements of 'result' to be f32, bf16 or f16, but got 'f8E4M3FN'}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf8E4M3FN> -> tensor<128x64xf8E4M3FN>
  flamia.return
}

// -----

flamia.kernel @load_result_rank(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{result #0 must be two-dimensional tensor, but got 'tensor<128xf32>'}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128xf32>
  flamia.return
}

// -----

flamia.kernel @load_wide(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected extents of 'result' to be 1 to 256, but got 'tensor<4x65536xf32>'; a tile must fit 512 columns of tensor memory and 227 KB of shared memory}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<4x65536xf32>
  flamia.return
}

// -----

flamia.kernel @load_tall(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected extents of 'result' to be 1 to 256, but got 'tensor<65536x4xf32>'; a tile must fit 512 columns of tensor memory and 227 KB of shared memory}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<65536x4xf32>
  flamia.return
}

// -----

flamia.kernel @load_big(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected extents of 'result' to be 1 to 256, but got 'tensor<1024x1024xf32>'; a tile must fit 512 columns of tensor memory and 227 KB of shared memory}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<1024x1024xf32>
  flamia.return
}

// -----

flamia.kernel @load_scaled_element(%x: memref<?x?xf8E5M2>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected elements of 'source' and 'result' to be alike, but got 'f8E5M2' and 'f8E4M3FN'}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E5M2>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @load_scaled_indices(%x: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 2 indices for 'source', but got 1}}
  %t = flamia.load_scaled %x[%c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @load_scaled_atom(%x: memref<?x?xf8E4M3FN>, %s: memref<?x?x256xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 'scales' to be [tiles, heads, 512], but got 'memref<?x?x256xf8E8M0FNU>'}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x256xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @load_scaled_scale_type(%x: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected elements of 'scales' to be 'f8E8M0FNU', but got 'f8E4M3FN'}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E4M3FN> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @load_scaled_scale_indices(%x: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 2 indices for 'scales', but got 1}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @load_scaled_block(%x: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected scale block of 'the tile' to be a multiple of 32 elements along cols, but got 16}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x16>
  flamia.return
}

// -----

flamia.kernel @load_scaled_block_rows(%x: memref<?x?xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected scale block of 'the tile' to be a multiple of 32 elements along rows, but got 1}}
  %t = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along rows : memref<?x?xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @store_element(%x: memref<?x?xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x32xf32>
  // expected-error @+1 {{expected elements of 'value' and 'target' to be alike, but got 'f32' and 'bf16'}}
  flamia.store %t, %x[%c0, %c0] : tensor<128x32xf32>, memref<?x?xbf16>
  flamia.return
}

// -----

flamia.kernel @store_i1(%x: memref<?x?xi1>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %b = arith.constant true
  %t = flamia.full %b : tensor<128x32xi1>
  // expected-error @+1 {{expected elements of 'value' to be f32, bf16 or f16, but got 'i1'}}
  flamia.store %t, %x[%c0, %c0] : tensor<128x32xi1>, memref<?x?xi1>
  flamia.return
}

// -----

flamia.kernel @store_indices(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x32xf32>
  // expected-error @+1 {{expected 2 indices for 'target', but got 1}}
  flamia.store %t, %x[%c0] : tensor<128x32xf32>, memref<?x?xf32>
  flamia.return
}

// -----

flamia.kernel @store_extents(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = arith.constant dense<0.0> : tensor<512x32xf32>
  // expected-error @+1 {{expected extents of 'value' to be 1 to 256, but got 'tensor<512x32xf32>'; a tile must fit 512 columns of tensor memory and 227 KB of shared memory}}
  flamia.store %t, %x[%c0, %c0] : tensor<512x32xf32>, memref<?x?xf32>
  flamia.return
}

// -----

flamia.kernel @store_payload_element(%x: memref<?x?xf8E5M2>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  // expected-error @+1 {{expected elements of 'value' and 'target' to be alike, but got 'f8E4M3FN' and 'f8E5M2'}}
  flamia.store_payload %q, %x[%c0, %c0] : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, memref<?x?xf8E5M2>
  flamia.return
}

// -----

flamia.kernel @store_scales_atom(%x: memref<?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  // expected-error @+1 {{expected 'target' to be [tiles, heads, 512], but got 'memref<?x512xf8E8M0FNU>'}}
  flamia.store_scales %q, %x[%c0, %c0] rows %c0 along cols : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, memref<?x512xf8E8M0FNU>
  flamia.return
}

// -----

flamia.kernel @store_scales_along(%x: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  // expected-error @+1 {{expected scale block of 'the tile' to be a multiple of 32 elements along rows, but got 1}}
  flamia.store_scales %q, %x[%c0, %c0] rows %c0 along rows : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, memref<?x?x512xf8E8M0FNU>
  flamia.return
}

// -----

flamia.kernel @transpose_shape() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x64xf32>
  // expected-error @+1 {{expected the result to be the transpose of 'tensor<128x64xf32>', but got 'tensor<128x64xf32>'}}
  %u = flamia.transpose %t : tensor<128x64xf32> -> tensor<128x64xf32>
  flamia.return
}

// -----

flamia.kernel @transpose_block() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  // expected-error @+1 {{expected the result to be the transpose of '!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>', but got '!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>'}}
  %u = flamia.transpose %q : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @dot_k() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %b0 = arith.constant 0.0 : bf16
  %a = flamia.full %b0 : tensor<128x64xbf16>
  %b = flamia.full %b0 : tensor<32x128xbf16>
  // expected-error @+1 {{expected columns of 'a' to equal rows of 'b', but got 'tensor<128x64xbf16>' and 'tensor<32x128xbf16>'}}
  %d = flamia.dot %a, %b, %z : tensor<128x64xbf16>, tensor<32x128xbf16> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_acc() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %b0 = arith.constant 0.0 : bf16
  %a = flamia.full %b0 : tensor<128x64xbf16>
  %b = flamia.full %b0 : tensor<64x32xbf16>
  // expected-error @+1 {{expected 'acc' to have the rows of 'a' and the columns of 'b', but got 'tensor<128x128xf32>' for 'tensor<128x64xbf16>' and 'tensor<64x32xbf16>'}}
  %d = flamia.dot %a, %b, %z : tensor<128x64xbf16>, tensor<64x32xbf16> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_mixed() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %z = flamia.full %f0 : tensor<128x128xf32>
  %b0 = arith.constant 0.0 : bf16
  %b = flamia.full %b0 : tensor<128x128xbf16>
  // expected-error @+1 {{expected both operands or none to be scaled, but got '!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>' and 'tensor<128x128xbf16>'}}
  %d = flamia.dot %q, %b, %z : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, tensor<128x128xbf16> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_block_a() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %z = flamia.full %f0 : tensor<128x128xf32>
  %p = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x16>
  // expected-error @+1 {{expected scale block of 'a' to be a multiple of 32 elements along cols, but got 16}}
  %d = flamia.dot %p, %p, %z : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x16>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x16> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_block_b() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %p = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 16x32>
  %z = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected scale block of 'b' to be a multiple of 32 elements along rows, but got 16}}
  %d = flamia.dot %q, %p, %z : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 16x32> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_f32() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected tensors of one 16-bit type, but got 'f32' and 'f32'}}
  %d = flamia.dot %z, %z, %z : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_16_bit() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %b0 = arith.constant 0.0 : bf16
  %h0 = arith.constant 0.0 : f16
  %a = flamia.full %b0 : tensor<128x128xbf16>
  %b = flamia.full %h0 : tensor<128x128xf16>
  // expected-error @+1 {{expected tensors of one 16-bit type, but got 'bf16' and 'f16'}}
  %d = flamia.dot %a, %b, %z : tensor<128x128xbf16>, tensor<128x128xf16> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_k_16() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %b0 = arith.constant 0.0 : bf16
  %a = flamia.full %b0 : tensor<128x8xbf16>
  %b = flamia.full %b0 : tensor<8x128xbf16>
  // expected-error @+1 {{expected a multiple of 16 columns in 'a', but got 8}}
  %d = flamia.dot %a, %b, %z : tensor<128x8xbf16>, tensor<8x128xbf16> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_scale_types(%x: memref<?x?xf4E2M1FN>, %s: memref<?x?x?x512xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %z = flamia.full %f0 : tensor<128x128xf32>
  %a = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf4E2M1FN>, memref<?x?x?x512xf8E4M3FN> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  %p = flamia.transpose %q : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
  // expected-error @+1 {{expected one scale type, but got 'f8E4M3FN' and 'f8E8M0FNU'}}
  %d = flamia.dot %a, %p, %z : !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1> -> tensor<128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot_acc_extents() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %z = arith.constant dense<0.0> : tensor<512x128xf32>
  %b0 = arith.constant 0.0 : bf16
  %a = arith.constant dense<0.0> : tensor<512x128xbf16>
  %b = flamia.full %b0 : tensor<128x128xbf16>
  // expected-error @+1 {{expected extents of 'a' to be 1 to 256}}
  %d = flamia.dot %a, %b, %z : tensor<512x128xbf16>, tensor<128x128xbf16> -> tensor<512x128xf32>
  flamia.return
}

// -----

flamia.kernel @quantize_shape() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x64xf32>
  // expected-error @+1 {{expected the result to have the extents of 'tensor<128x64xf32>', but got '!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>'}}
  %q = flamia.quantize %t : tensor<128x64xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @quantize_exponent() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected an exponent from -127 to 127, but got 128}}
  %q = flamia.quantize %t exponent 128 : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @quantize_scale() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected a 'global_scale' for scale type 'f8E4M3FN'}}
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  flamia.return
}

// -----

flamia.kernel @quantize_global_scale(%g: f32) parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected no 'global_scale' for scale type 'f8E8M0FNU'}}
  %q = flamia.quantize %t global_scale %g : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @quantize_nvfp4_shift(%g: f32) parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected no 'including', 'exponent', 'shift' or 'shift_by' for scale type 'f8E4M3FN'}}
  %q = flamia.quantize %t shift_by 1 global_scale %g : tensor<128x128xf32> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  flamia.return
}

// -----

flamia.kernel @quantize_bf16() parameters {} grid(1) {
  %b0 = arith.constant 0.0 : bf16
  %t = flamia.full %b0 : tensor<128x128xbf16>
  // expected-error @+1 {{operand #0 must be two-dimensional tensor of f32, but got 'tensor<128x128xbf16>'}}
  %q = flamia.quantize %t : tensor<128x128xbf16> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @quantize_extents() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<512x128xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %q = flamia.quantize %t : tensor<512x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @round_like_f32() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x1xf32>
  // expected-error @+1 {{expected 'like' to be a scaled tile or a tensor of a 16-bit type, but got 'tensor<128x1xf32>'}}
  %r = flamia.round_like %t, %t : tensor<128x1xf32>, tensor<128x1xf32>
  flamia.return
}

// -----

flamia.kernel @round_like_extents() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %w = arith.constant dense<0.0> : tensor<512x1xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %r = flamia.round_like %w, %q : tensor<512x1xf32>, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @hadamard_96() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x96xf32>
  // expected-error @+1 {{expected a power of two columns, but got 96}}
  %r = flamia.hadamard %t : tensor<128x96xf32>
  flamia.return
}

// -----

flamia.kernel @hadamard_extents() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x512xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %r = flamia.hadamard %t : tensor<128x512xf32>
  flamia.return
}

// -----

flamia.kernel @full_extents() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  // expected-error @+1 {{expected extents of 'result' to be 1 to 256, but got 'tensor<128x0xf32>'}}
  %t = flamia.full %f0 : tensor<128x0xf32>
  flamia.return
}

// -----

flamia.kernel @full_type() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  // expected-error @+1 {{value type equals the element type of the result}}
  %t = "flamia.full"(%f0) : (f32) -> tensor<128x32xbf16>
  flamia.return
}

// -----

flamia.kernel @broadcast_rows() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<64x1xf32>
  // expected-error @+1 {{expected extents of 1 where 'tensor<64x1xf32>' and 'tensor<128x32xf32>' differ, and equal element types}}
  %u = flamia.broadcast %t : tensor<64x1xf32> -> tensor<128x32xf32>
  flamia.return
}

// -----

flamia.kernel @broadcast_element() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x1xf32>
  // expected-error @+1 {{expected extents of 1 where 'tensor<128x1xf32>' and 'tensor<128x32xbf16>' differ, and equal element types}}
  %u = flamia.broadcast %t : tensor<128x1xf32> -> tensor<128x32xbf16>
  flamia.return
}

// -----

flamia.kernel @broadcast_extents() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x1xf32>
  // expected-error @+1 {{expected extents of 'result' to be 1 to 256}}
  %u = flamia.broadcast %t : tensor<128x1xf32> -> tensor<128x512xf32>
  flamia.return
}

// -----

flamia.kernel @reduce_shape() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x64xf32>
  // expected-error @+1 {{expected one value for each row of 'tensor<128x64xf32>', but got 'tensor<1x64xf32>'}}
  %u = flamia.reduce sum %t : tensor<128x64xf32> -> tensor<1x64xf32>
  flamia.return
}

// -----

flamia.kernel @reduce_extents() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x512xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %u = flamia.reduce sum %t : tensor<128x512xf32> -> tensor<128x1xf32>
  flamia.return
}

// -----

flamia.kernel @mask_extents() parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = arith.constant dense<0.0> : tensor<128x512xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %u = flamia.mask %t rows %c0 cols %c0 causal : tensor<128x512xf32>
  flamia.return
}

// -----

flamia.kernel @exp2_extents() parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = arith.constant dense<0.0> : tensor<128x512xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %u = flamia.exp2 %t rows %c0 cols %c0 polynomial 1 of 4 : tensor<128x512xf32>
  flamia.return
}

// -----

flamia.kernel @exp2_blocks() parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = arith.constant dense<0.0> : tensor<128x48xf32>
  // expected-error @+1 {{expected rows and columns in multiples of 32, but got 'tensor<128x48xf32>'}}
  %u = flamia.exp2 %t rows %c0 cols %c0 polynomial 1 of 4 : tensor<128x48xf32>
  flamia.return
}

// -----

flamia.kernel @exp2_share() parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = arith.constant dense<0.0> : tensor<128x64xf32>
  // expected-error @+1 {{expected 'polynomial N of M' with M a power of two up to 32 and N from 0 to M, but got 3 of 6}}
  %u = flamia.exp2 %t rows %c0 cols %c0 polynomial 3 of 6 : tensor<128x64xf32>
  flamia.return
}

// -----

flamia.kernel @transpose_extents() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x512xf32>
  // expected-error @+1 {{expected extents of 'source' to be 1 to 256}}
  %u = flamia.transpose %t : tensor<128x512xf32> -> tensor<512x128xf32>
  flamia.return
}

// -----

// expected-error @+2 {{'flamia.return' op expects parent op 'flamia.kernel'}}
func.func @return_outside() {
  flamia.return
}

// -----

// Layouts that kernels refuse as arguments.
func.func @load_layout(%x: memref<?x?xf32, strided<[1, ?]>>, %c0: index) {
  // expected-error @+1 {{expected 'source' to be row-major or strided with last stride 1, but got 'memref<?x?xf32, strided<[1, ?]>>'}}
  %r = flamia.load %x[%c0, %c0] : memref<?x?xf32, strided<[1, ?]>> -> tensor<128x64xf32>
  return
}

// -----

// Buffers of rank 0 (kernels refuse them as arguments; other functions may have them).
func.func @load_rank_0(%x: memref<f32>, %t: tensor<128x32xf32>, %q: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, %c0: index) {
  // expected-error @+1 {{expected 'source' to have rank 1 or more, but got 'memref<f32>'}}
  %r = flamia.load %x[] : memref<f32> -> tensor<128x32xf32>
  return
}

// -----

func.func @load_scaled_rank_0(%x: memref<f8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %t: tensor<128x32xf32>, %q: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, %c0: index) {
  // expected-error @+1 {{expected 'source' to have rank 1 or more, but got 'memref<f8E4M3FN>'}}
  %r = flamia.load_scaled %x[], %s[%c0, %c0] along cols : memref<f8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  return
}

// -----

func.func @load_scales_rank_0(%x: memref<?x?xf8E4M3FN>, %s: memref<f8E8M0FNU>, %t: tensor<128x32xf32>, %q: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, %c0: index) {
  // expected-error @+1 {{expected 'scales' to be [tiles, heads, 512], but got 'memref<f8E8M0FNU>'}}
  %r = flamia.load_scaled %x[%c0, %c0], %s[] along cols : memref<?x?xf8E4M3FN>, memref<f8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  return
}

// -----

func.func @store_rank_0(%x: memref<f32>, %t: tensor<128x32xf32>, %q: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, %c0: index) {
  // expected-error @+1 {{expected 'target' to have rank 1 or more, but got 'memref<f32>'}}
  flamia.store %t, %x[] : tensor<128x32xf32>, memref<f32>
  return
}

// -----

func.func @store_payload_rank_0(%x: memref<f8E4M3FN>, %t: tensor<128x32xf32>, %q: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, %c0: index) {
  // expected-error @+1 {{expected 'target' to have rank 1 or more, but got 'memref<f8E4M3FN>'}}
  flamia.store_payload %q, %x[] : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, memref<f8E4M3FN>
  return
}

// -----

func.func @store_scales_rank_0(%x: memref<f8E8M0FNU>, %t: tensor<128x32xf32>, %q: !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, %c0: index) {
  // expected-error @+1 {{expected 'target' to be [tiles, heads, 512], but got 'memref<f8E8M0FNU>'}}
  flamia.store_scales %q, %x[] rows %c0 along cols : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, memref<f8E8M0FNU>
  return
}

// -----

func.func @dim_rank_0(%x: memref<i32, 3>) {
  // expected-error @+1 {{expected a dimension of 'memref<i32, 3>', but got 0}}
  %d = flamia.dim %x[0] : memref<i32, 3>
  return
}

// -----

func.func @work_item_rank_0(%x: memref<i32>) {
  // expected-error @+1 {{operand #0 must be 2D memref}}
  %a, %b, %c, %d = flamia.work_item %x : memref<i32>
  return
}

// -----

flamia.kernel @quantize_shift_by_range() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  // expected-error @+1 {{expected a shift from -255 to 255, but got 256}}
  %q = flamia.quantize %t shift_by 256 : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @quantize_shift_shape() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %e = flamia.full %f0 : tensor<1x128xf32>
  // expected-error @+1 {{expected one shift, or one for each row of '!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>', but got 'tensor<1x128xf32>'}}
  %q = flamia.quantize %t shift(%e : tensor<1x128xf32>) : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  flamia.return
}

// -----

flamia.kernel @quantize_shift_block() parameters {} grid(1) {
  %f0 = arith.constant 0.0 : f32
  %t = flamia.full %f0 : tensor<128x128xf32>
  %e = flamia.full %f0 : tensor<128x1xf32>
  // expected-error @+1 {{expected blocks of one row for a shift for each row, but got '!flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>'}}
  %q = flamia.quantize %t shift(%e : tensor<128x1xf32>) : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
  flamia.return
}

// -----

flamia.kernel @load_payload_scale(%x: memref<?x64xf4E2M1FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected scale type f8E8M0FNU, but got 'f8E4M3FN'}}
  %q = flamia.load_payload %x[%c0, %c0] : memref<?x64xf4E2M1FN> -> !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 128x64>
  flamia.return
}

// -----

flamia.kernel @load_payload_block(%x: memref<?x64xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected one scale block for the whole tile, but got '!flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>'}}
  %q = flamia.load_payload %x[%c0, %c0] : memref<?x64xf8E4M3FN> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to be a dictionary with the string 'exponent', but got "e(q)"}}
flamia.kernel @folded_dictionary(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = "e(q)"}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to have no entries but 'exponent', 'along', 'of', 'negate' and 'plus', but got {exponent = "e(q)", minus = 1 : i64}}}
flamia.kernel @folded_entries(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(q)", minus = 1}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected a number, e(ARG), max32(e(ARG)) or max128(e(ARG)), but got 'max64(e(q))' in 'e(q) - max64(e(q))'}}
flamia.kernel @folded_symbol(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(q) - max64(e(q))"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected the name of a payload argument, but got 'k)' in 'e(k)'}}
flamia.kernel @folded_unknown(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(k)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected the name of a payload argument, but got 'x)' in 'e(x)'}}
flamia.kernel @folded_no_payload(%x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(x)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected ')', but got '' in 'max32(e(q)'}}
flamia.kernel @folded_parenthesis(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "max32(e(q)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected '(', but got 'e(q)' in 'max32 e(q)'}}
flamia.kernel @folded_open(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "max32 e(q)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected '+', '-' or the end, but got 'e(q)' in '8 e(q)'}}
flamia.kernel @folded_end(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "8 e(q)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{exponent of argument 'x': expected a number up to 4096, but got '99999999999999999999' in 'e(q) + 99999999999999999999'}}
flamia.kernel @folded_number(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(q) + 99999999999999999999"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' only on an argument that is read, but got {exponent = "8"}}}
flamia.kernel @folded_written(%x: memref<?x?x128xf32> {flamia.folded = {exponent = "8"}}) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0, %c0] : memref<?x?x128xf32> -> tensor<1x128xf32>
  flamia.store %t, %x[%c0, %c0, %c0] : tensor<1x128xf32>, memref<?x?x128xf32>
  flamia.return
}

// -----

// expected-error @+1 {{expected argument 'x' with 'flamia.folded' to be scales [tiles, heads, 512], f32 [tiles, heads] or f32 [tiles, heads, 128], but got 'memref<?x?x64xf32>'}}
flamia.kernel @folded_type(%x: memref<?x?x64xf32> {flamia.folded = {exponent = "8"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to have 'along', "rows" or "cols", but got {exponent = "0"}}}
flamia.kernel @folded_along(%x: memref<?x?x512xf8E8M0FNU> {flamia.folded = {exponent = "0"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to have 'along' only for scales, but got {along = "rows", exponent = "0"}}}
flamia.kernel @folded_along_vector(%x: memref<?x?x128xf32> {flamia.folded = {exponent = "0", along = "rows"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' along rows to name no single tokens: one scale spans 32, but got {along = "rows", exponent = "e(q)"}}}
flamia.kernel @folded_along_rows(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x512xf8E8M0FNU> {flamia.folded = {exponent = "e(q)", along = "rows"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' of one number for a tile to name only max128, but got {exponent = "max32(e(q))"}}}
flamia.kernel @folded_scalar(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?xf32> {flamia.folded = {exponent = "max32(e(q))"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to have 'of', an f32 argument [tokens, heads], only for f32 [tiles, heads, 128], but got {exponent = "e(q)", of = "q"}}}
flamia.kernel @folded_of(%q: memref<?x?x64xf8E4M3FN>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(q)", of = "q"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to have 'plus', a number, only with 'of', but got {exponent = "8", plus = 8 : i64}}}
flamia.kernel @folded_plus(%x: memref<?x?x128xf32> {flamia.folded = {exponent = "8", plus = 8}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.folded' of argument 'x' to have 'negate', without a value, only with 'plus', but got {exponent = "8", negate, of = "m"}}}
flamia.kernel @folded_negate(%m: memref<?x?xf32>, %x: memref<?x?x128xf32> {flamia.folded = {exponent = "8", of = "m", negate}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected the arguments named in 'flamia.folded' of argument 'x' to have the same tokens and heads, but got ["tokens", "heads", "d"] and ["tokens", "kv_heads", "d"]}}
flamia.kernel @folded_heads(%q: memref<?x?x64xf8E4M3FN> {flamia.dims = ["tokens", "heads", "d"]}, %k: memref<?x?x64xf8E4M3FN> {flamia.dims = ["tokens", "kv_heads", "d"]},
    %x: memref<?x?x128xf32> {flamia.folded = {exponent = "e(q) + e(k)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected argument 'x' to have the heads of 'k', which 'flamia.folded' names, but got ["tiles", "heads", "rows"] and ["tokens", "kv_heads", "d"]}}
flamia.kernel @folded_own_heads(%k: memref<?x?x64xf8E4M3FN> {flamia.dims = ["tokens", "kv_heads", "d"]},
    %x: memref<?x?x128xf32> {flamia.dims = ["tiles", "heads", "rows"], flamia.folded = {exponent = "e(k)"}}) {
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.original' of argument 'x' to be the name of a tensor of the same type, but got "y"}}
flamia.kernel @original_vector(%x: memref<?xf32> {flamia.original = "y", flamia.original_with = "z"}, %y: memref<?xbf16>, %z: memref<?x?xbf16>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.original_with' of argument 'x' to be the name of an argument with 'flamia.original', but got "z"}}
flamia.kernel @original_with(%x: memref<?xf32> {flamia.original = "y", flamia.original_with = "z"}, %y: memref<?xf32>, %z: memref<?x?xbf16>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.original_with' of argument 'x' to be together with 'flamia.original', but got "x"}}
flamia.kernel @original_with_alone(%x: memref<?xf32> {flamia.original_with = "x"}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.original_factor' of argument 'x' to be the name of an f32 tensor of rank 2 or more and the same shape but for the last dimension, but got "r"}}
flamia.kernel @factor_shape(%x: memref<?x8x64xf8E4M3FN> {flamia.original = "y", flamia.original_factor = "r"}, %y: memref<?x8x64xbf16>, %r: memref<?x4xf32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.original_factor' of argument 'x' to be the name of a tensor that is only read and has the same 'flamia.dims' but for the last, but got "r"}}
flamia.kernel @factor_dims(%x: memref<?x8x64xf8E4M3FN> {flamia.dims = ["t", "h", "d"], flamia.original = "y", flamia.original_factor = "r"}, %y: memref<?x8x64xbf16>, %r: memref<?x8xf32> {flamia.dims = ["u", "h"]}) parameters {} grid(1) { flamia.return }

// -----

func.func @including(%x: tensor<128x128xf32>, %v: tensor<1x128xf32>) {
  // expected-error @+1 {{expected 'including' to have one value for each row of 'source', but got 'tensor<1x128xf32>' for 'tensor<128x128xf32>'}}
  %r = flamia.quantize %x including(%v : tensor<1x128xf32>) : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
  return
}

// -----

func.func @including_exponent(%x: tensor<128x128xf32>, %v: tensor<128x1xf32>) {
  // expected-error @+1 {{expected no 'including' with a given exponent}}
  %r = flamia.quantize %x including(%v : tensor<128x1xf32>) exponent 0 : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x128>
  return
}

// -----

func.func @load_exponents_extents(%s: memref<?x?x512xf8E8M0FNU>, %c0: index) {
  // expected-error @+1 {{expected 'result' to be 128x1 or 128x4, but got 'tensor<128x2xf32>'}}
  %r = flamia.load_exponents %s[%c0, %c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x2xf32>
  return
}

// -----

func.func @load_exponents_array(%s: memref<?x512xf8E8M0FNU>, %c0: index) {
  // expected-error @+1 {{expected 'scales' to be [tiles, heads, 512], but got 'memref<?x512xf8E8M0FNU>'}}
  %r = flamia.load_exponents %s[%c0, %c0] : memref<?x512xf8E8M0FNU> -> tensor<128x1xf32>
  return
}

// -----

func.func @load_exponents_indices(%s: memref<?x?x512xf8E8M0FNU>, %c0: index) {
  // expected-error @+1 {{expected 2 indices for 'scales', but got 1}}
  %r = flamia.load_exponents %s[%c0] : memref<?x?x512xf8E8M0FNU> -> tensor<128x1xf32>
  return
}

// -----

func.func @store_exponents_columns(%s: memref<?x?x512xf8E8M0FNU>, %e: tensor<128x4xf32>, %c0: index) {
  // expected-error @+1 {{expected one column along rows, but got 'tensor<128x4xf32>'}}
  flamia.store_exponents %e, %s[%c0, %c0] rows %c0 cols %c0 along rows : tensor<128x4xf32>, memref<?x?x512xf8E8M0FNU>
  return
}

// -----

func.func @store_exponents_element(%s: memref<?x?x512xf8E4M3FN>, %e: tensor<128x4xf32>, %c0: index) {
  // expected-error @+1 {{expected elements of 'target' to be 'f8E8M0FNU', but got 'f8E4M3FN'}}
  flamia.store_exponents %e, %s[%c0, %c0] rows %c0 cols %c0 along cols : tensor<128x4xf32>, memref<?x?x512xf8E4M3FN>
  return
}

// -----

func.func @exponents_block(%q: !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>) {
  // expected-error @+1 {{expected one scale for each row, but got '!flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>'}}
  %e = flamia.exponents %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32> -> tensor<128x1xf32>
  return
}

// -----

func.func @exponents_scale(%q: !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 1x64>) {
  // expected-error @+1 {{expected scale type f8E8M0FNU, but got 'f8E4M3FN'}}
  %e = flamia.exponents %q : !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 1x64> -> tensor<128x1xf32>
  return
}

// -----

func.func @exponents_rows(%q: !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>) {
  // expected-error @+1 {{expected 'result' to have one value for each row of 'source', but got 'tensor<64x1xf32>'}}
  %e = flamia.exponents %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64> -> tensor<64x1xf32>
  return
}

// -----

func.func @payload_extents(%q: !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>) {
  // expected-error @+1 {{expected the result to have the extents of '!flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>', but got 'tensor<64x128xf32>'}}
  %e = flamia.payload %q : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64> -> tensor<64x128xf32>
  return
}

// -----

func.func @reduce_rows_kind(%x: tensor<128x1xf32>) {
  // expected-error @+1 {{expected kind max, but got sum}}
  %r = flamia.reduce_rows sum %x by 32 : tensor<128x1xf32>
  return
}

// -----

func.func @reduce_rows_by(%x: tensor<128x1xf32>) {
  // expected-error @+1 {{expected blocks that divide the rows of 'tensor<128x1xf32>', but got 48}}
  %r = flamia.reduce_rows max %x by 48 : tensor<128x1xf32>
  return
}

// -----

// expected-error @+1 {{expected 'flamia.token_block' of argument 'x' to be a number of tokens of a tensor, but got 0 : i64}}
flamia.kernel @token_block(%x: memref<?x64xf8E4M3FN> {flamia.token_block = 0}) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected f8E4M3FN or f8E5M2 by f8E8M0FNU, or f4E2M1FN by f8E4M3FN, but got 'f4E2M1FN' by 'f8E8M0FNU'}}
flamia.kernel @mxfp4(%x: !flamia.scaled<128x128, f4E2M1FN by f8E8M0FNU per 1x32>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected f8E4M3FN or f8E5M2 by f8E8M0FNU, or f4E2M1FN by f8E4M3FN, but got 'f8E4M3FN' by 'f8E4M3FN'}}
flamia.kernel @fp8_by_fp8(%x: !flamia.scaled<128x128, f8E4M3FN by f8E4M3FN per 1x16>) parameters {} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected scale blocks of f4E2M1FN of a multiple of 16 elements along one axis, but got 1x8}}
flamia.kernel @nvfp4_block(%x: !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x8>) parameters {} grid(1) { flamia.return }

// -----

flamia.kernel @nvfp4_scales_rank(%x: memref<?x128xf4E2M1FN>, %s: memref<?x?x512xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 'scales' to be [tiles, heads, 2, 512], but got 'memref<?x?x512xf8E4M3FN>'}}
  %q = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x512xf8E4M3FN> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
  flamia.return
}

// -----

flamia.kernel @nvfp4_scales_atoms(%x: memref<?x64xf4E2M1FN>, %s: memref<?x?x2x512xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 'scales' to be [tiles, heads, 1, 512], but got 'memref<?x?x2x512xf8E4M3FN>'}}
  %q = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x64xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !flamia.scaled<128x64, f4E2M1FN by f8E4M3FN per 1x16>
  flamia.return
}

// -----

flamia.kernel @nvfp4_scales_unbound(%x: memref<?x?xf4E2M1FN>, %s: memref<?x?x?x256xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected 'scales' to be [tiles, heads, atoms, 512], but got 'memref<?x?x?x256xf8E4M3FN>'}}
  %q = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x?xf4E2M1FN>, memref<?x?x?x256xf8E4M3FN> -> !flamia.scaled<128x?, f4E2M1FN by f8E4M3FN per 1x16>
  flamia.return
}

// -----

flamia.kernel @nvfp4_scales_of_tokens(%x: memref<?x128xf4E2M1FN>, %s: memref<?x?x2x512xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected scale block of 'the tile' to be a multiple of 16 elements along cols, but got 1}}
  %q = flamia.load_scaled %x[%c0, %c0], %s[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x1>
  flamia.return
}

// -----

// expected-error @+1 {{expected 'flamia.only' of argument 'x' to be parameters with one of their values, but got {format = "bf16"}}}
flamia.kernel @only_value(%x: memref<?x64xf32> {flamia.only = {format = "bf16"}}) parameters {format = ["mxfp8", "nvfp4"]} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.only' of argument 'x' to be parameters with one of their values, but got {mode = "nvfp4"}}}
flamia.kernel @only_parameter(%x: memref<?x64xf32> {flamia.only = {mode = "nvfp4"}}) parameters {format = ["mxfp8", "nvfp4"]} grid(1) { flamia.return }

// -----

// expected-error @+1 {{expected 'flamia.only' of argument 'x' to be parameters with one of their values, but got {}}}
flamia.kernel @only_nothing(%x: memref<?x64xf32> {flamia.only = {}}) parameters {format = ["mxfp8", "nvfp4"]} grid(1) { flamia.return }
