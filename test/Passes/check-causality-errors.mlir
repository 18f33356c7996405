// The library's attention with one thing broken at a time; each must be found, and the
// message must name the operand, the scale block and the product.
//
// Without safeguards:
// RUN: not flamia-opt %kernels/attention_fwd.mlir --flamia-specialize --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=UNSAFE
// UNSAFE: attention_fwd.mlir:[[#]]:{{.*}}: error: output 'o' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over 32 tokens (scale block 32x32) and its tile is not proven strictly past
// UNSAFE-NEXT: %acc1 = flamia.dot %p8, %v
// UNSAFE: note: 'v_data' is loaded here: tokens begin + 128 * tile - 128 * iteration to begin + 128 * tile - 128 * iteration + 127
// UNSAFE: note: 'o' is stored here: tokens begin + 128 * tile to begin + 128 * tile + 127
// UNSAFE: note: 'v_bf16' holds the unquantized values: flamia-insert-safeguards can use it on the diagonal
//
// No mask before the row maximum, none before exp2, none at all in the causal sense:
// RUN: sed 's/%%seen = flamia.mask %%s rows %%last_key cols %%k_row causal/%%seen = flamia.mask %%s rows %%last_key cols %%k_row/' %kernels/attention_fwd.mlir > %t.max.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.max.mlir
// RUN: not flamia-opt %t.max.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=MAX
// MAX: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'k_data' after their own: operand 'b' of this product is not masked before tokens are summed, and its tile is not proven strictly past
// MAX-NEXT: %s8 = flamia.dot
// RUN: sed 's/flamia.mask %%x rows %%last_key cols %%k_row causal/flamia.mask %%x rows %%last_key cols %%k_row/' %kernels/attention_fwd.mlir > %t.exp.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.exp.mlir
// RUN: not flamia-opt %t.exp.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=EXP
// EXP: error: output{{.*}} 'o'{{.*}} may depend on tokens of 'k_data' after their own: {{.*}} is not masked
// EXP: error: output 'o' may depend on tokens of 'v_bf16' after their own: operand 'b' of this product is not masked before tokens are summed
//
// A mask of the wrong tile:
// RUN: sed 's/cols %%k_row causal/cols %%begin causal/' %kernels/attention_fwd.mlir > %t.wrong.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.wrong.mlir
// RUN: not flamia-opt %t.wrong.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'k_data' after their own: operand 'b' of this product is not masked
//
// Q and K with one scale per 32 tokens:
// RUN: sed 's/!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>/!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x?>/; s/per ?x1>/per ?x32>/' %kernels/attention_fwd.mlir > %t.shared.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.shared.mlir
// RUN: not flamia-opt %t.shared.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED-DAG: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'q_data' after their own: operand 'a' of this product shares a scale over 32 tokens (scale block 32x128) along the output's own rows
// SHARED-DAG: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'k_data' after their own: operand 'b' of this product shares a scale over 32 tokens (scale block 32x128) and its tile is not proven strictly past
//
// One scale tile for the whole document, and for the pack:
// RUN: sed 's/%%v_scale\[%%k_tile,/%%v_scale[%%scale_base,/' %kernels/attention_fwd.mlir > %t.document.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.document.mlir
// RUN: not flamia-opt %t.document.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=DOCUMENT
// DOCUMENT: error: output 'o' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over all tokens of the document (scale block 32x32){{$}}
// RUN: sed 's/%%k_scale\[%%k_tile,/%%k_scale[%%c0,/' %kernels/attention_fwd.mlir > %t.pack.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.pack.mlir
// RUN: not flamia-opt %t.pack.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=PACK
// PACK: error: outputs {{.*}} may depend on tokens of 'k_data' after their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x128){{$}}
//
// The scale tile before or after the rows' own, and one without the document's base: whose
// scales these are, the type no longer says.
// RUN: sed 's/%%k_scale\[%%k_tile,/%%k_scale[%%next_tile,/; s/^    %%k_tile = .*/&\n    %%next_tile = arith.addi %%k_tile, %%c1 : index/' %kernels/attention_fwd.mlir > %t.next.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.next.mlir
// RUN: not flamia-opt %t.next.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=NEXT
// NEXT: error: outputs {{.*}} may depend on tokens of 'k_data' after their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x128){{$}}
// RUN: sed 's/%%q_scale\[%%q_tile,/%%q_scale[%%next_tile,/; s/^  %%q_tile = .*/&\n  %%next_tile = arith.addi %%q_tile, %%c1 : index/' %kernels/attention_fwd.mlir > %t.qnext.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.qnext.mlir
// RUN: not flamia-opt %t.qnext.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=QNEXT
// QNEXT: error: outputs {{.*}} may depend on tokens of 'q_data' after their own: operand 'a' of this product shares a scale over all tokens of the pack (scale block 1x128){{$}}
// RUN: sed 's/%%v_scale\[%%k_tile,/%%v_scale[%%last,/; s/^    %%k_tile = .*/&\n    %%last = arith.subi %%k_tile, %%c1 : index/' %kernels/attention_fwd.mlir > %t.vlast.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.vlast.mlir
// RUN: not flamia-opt %t.vlast.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=VLAST
// VLAST: error: output 'o' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 32x32){{$}}
// RUN: sed 's/%%k_scale\[%%k_tile,/%%k_scale[%%j,/' %kernels/attention_fwd.mlir > %t.nobase.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.nobase.mlir
// RUN: not flamia-opt %t.nobase.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=NEXT
//
// Another payload's scales:
// RUN: sed 's/%%k_scale\[%%k_tile,/%%v_scale[%%k_tile,/' %kernels/attention_fwd.mlir > %t.other.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.other.mlir
// RUN: not flamia-opt %t.other.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: scales 'v_scale' are read for 'v_data' here and for 'k_data' elsewhere: expected one payload for each array of scales
// OTHER: note: the other load is here
// RUN: sed 's/%%k_scale\[%%k_tile,/%%q_scale[%%k_tile,/' %kernels/attention_fwd.mlir > %t.query.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.query.mlir
// RUN: not flamia-opt %t.query.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=QUERY
// QUERY: error: scales 'q_scale' are read for 'k_data' here and for 'q_data' elsewhere: expected one payload for each array of scales
// QUERY: note: the other load is here
//
// RUN: flamia-opt %s --flamia-check-causality --split-input-file --verify-diagnostics

// A scale derived from the whole tensor.
flamia.kernel @per_tensor_scale(%x: memref<?x64xf32>, %scale: f32 {flamia.derived_from = "x"},
    %y: memref<?x64xf32> {flamia.depends = {x = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  %s = flamia.full %scale : tensor<128x64xf32>
  %u = arith.divf %t, %s : tensor<128x64xf32>
  // expected-error @+2 {{output 'y' may depend on tokens of 'x' after their own: it shares a scale over all tokens of the pack}}
  // expected-note @+1 {{'y' is stored here: tokens 0 to 127}}
  flamia.store %u, %y[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

// The kernel's own quantization shares a scale over 32 tokens.
flamia.kernel @quantized_blocks(%x: memref<?x64xf32>, %y: memref<?x64xf8E4M3FN> {flamia.depends = {x = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+2 {{output 'y' may depend on tokens of 'x' after their own: it shares a scale over 32 tokens along the output's own rows}}
  // expected-note @+1 {{'x' is loaded here: tokens 0 to 127}}
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  %q = flamia.quantize %t : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
  // expected-note @+1 {{'y' is stored here}}
  flamia.store_payload %q, %y[%c0, %c0] : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>, memref<?x64xf8E4M3FN>
  flamia.return
}

// -----

flamia.kernel @other_rows(%x: memref<?x64xf32>, %y: memref<?x64xf32> {flamia.depends = {x = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @+2 {{output 'y' may depend on tokens of 'x' after their own: it holds other tokens in its rows than the output}}
  // expected-note @+1 {{'x' is loaded here: tokens 1 to 128}}
  %t = flamia.load %x[%c1, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  // expected-note @+1 {{'y' is stored here: tokens 0 to 127}}
  flamia.store %t, %y[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

flamia.kernel @no_direction(%x: memref<?x64xf32>, %w: memref<?x64xf32>, %y: memref<?x64xf32> {flamia.depends = {x = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  // expected-error @+2 {{output 'y' may depend on tokens of 'w' after their own: it has no direction in 'flamia.depends'}}
  // expected-note @+1 {{'w' is loaded here}}
  %u = flamia.load %w[%c0, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  %v = arith.addf %t, %u : tensor<128x64xf32>
  // expected-note @+1 {{'y' is stored here}}
  flamia.store %v, %y[%c0, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

// The mask comes too late: the sum over keys has seen all of them.
flamia.kernel @reduced_before_mask(%x: memref<?x64xbf16>, %y: memref<?x1xf32> {flamia.depends = {x = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  // expected-note @+1 {{'x' is loaded here}}
  %t = flamia.load %x[%c0, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
  %u = flamia.transpose %t : tensor<128x64xbf16> -> tensor<64x128xbf16>
  // expected-error @+1 {{operand 'b' of this product is not masked before tokens are summed}}
  %s = flamia.dot %t, %u, %z : tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32>
  %a = flamia.reduce sum %s : tensor<128x128xf32> -> tensor<128x1xf32>
  %m = flamia.mask %s rows %c0 cols %c0 causal : tensor<128x128xf32>
  %b = flamia.reduce max %m : tensor<128x128xf32> -> tensor<128x1xf32>
  %c = arith.addf %a, %b : tensor<128x1xf32>
  // expected-note @+1 {{'y' is stored here}}
  flamia.store %c, %y[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// -----

// A tile carried to the next iteration is not the one that the mask there speaks of.
flamia.kernel @carried_tile(%x: memref<?x64xbf16>, %y: memref<?x1xf32> {flamia.depends = {x = "<="}}) parameters {} grid(y[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %z = flamia.full %f0 : tensor<128x128xf32>
  %no_max = flamia.full %f0 : tensor<128x1xf32>
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %tokens = flamia.dim %x[0] : memref<?x64xbf16>
  %end = arith.ceildivui %tokens, %c128 : index
  %q = flamia.load %x[%row, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
  %first = flamia.full %f0 : tensor<64x128xf32>
  %first16 = arith.truncf %first : tensor<64x128xf32> to tensor<64x128xbf16>
  %r:2 = scf.for %j = %c0 to %end step %c1 iter_args(%m = %no_max, %k = %first16) -> (tensor<128x1xf32>, tensor<64x128xbf16>) {
    %key = arith.muli %j, %c128 : index
    // expected-note @+1 {{'x' is loaded here}}
    %t = flamia.load %x[%key, %c0] : memref<?x64xbf16> -> tensor<128x64xbf16>
    %u = flamia.transpose %t : tensor<128x64xbf16> -> tensor<64x128xbf16>
    // expected-error @+1 {{operand 'b' of this product is not masked before tokens are summed}}
    %s = flamia.dot %q, %k, %z : tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32>
    %masked = flamia.mask %s rows %row cols %key causal : tensor<128x128xf32>
    %top = flamia.reduce max %masked : tensor<128x128xf32> -> tensor<128x1xf32>
    %next = arith.maxnumf %m, %top : tensor<128x1xf32>
    scf.yield %next, %u : tensor<128x1xf32>, tensor<64x128xbf16>
  }
  // expected-note @+1 {{'y' is stored here}}
  flamia.store %r#0, %y[%row, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// -----

flamia.kernel @not_specialized(%x: memref<?x?xf32>, %y: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{extents of 'tensor<128x?xf32>' are not bound: run flamia-specialize first}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  flamia.return
}

// -----

flamia.kernel @parameter_left() parameters {n = [128]} grid(1) {
  // expected-error @+1 {{parameter 'n' is not bound: run flamia-specialize first}}
  %n = flamia.param "n" : index
  flamia.return
}

// -----

!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>

// Without a work item: tile t of the scales holds rows from 128 t on, no others.
flamia.kernel @next_scale_tile(%v: memref<?x64xf8E4M3FN>, %vs: memref<?x?x512xf8E8M0FNU>,
    %p: memref<?x128xf8E4M3FN>, %ps: memref<?x?x512xf8E8M0FNU>,
    %o: memref<?x64xf32> {flamia.depends = {v = "<=", p = "any"}}) parameters {} grid(o[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f0 = arith.constant 0.0 : f32
  %tile = flamia.program_id x
  %row = arith.muli %tile, %c128 : index
  %z = flamia.full %f0 : tensor<128x64xf32>
  %w = flamia.load_scaled %p[%c0, %c0], %ps[%c0, %c0] along cols : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
  %r = scf.for %j = %c0 to %tile step %c1 iter_args(%acc = %z) -> (tensor<128x64xf32>) {
    %key = arith.muli %j, %c128 : index
    %next = arith.addi %j, %c1 : index
    // expected-note @+1 {{'v' is loaded here}}
    %t = flamia.load_scaled %v[%key, %c0], %vs[%next, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
    // expected-error @+1 {{operand 'b' of this product shares a scale over all tokens of the pack (scale block 32x32)}}
    %d = flamia.dot %w, %t, %acc : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !v -> tensor<128x64xf32>
    scf.yield %d : tensor<128x64xf32>
  }
  // expected-note @+1 {{'o' is stored here}}
  flamia.store %r, %o[%row, %c0] : tensor<128x64xf32>, memref<?x64xf32>
  flamia.return
}

// -----

// One array of scales cannot be both 32 rows a scale and one.
flamia.kernel @two_readings(%v: memref<?x64xf8E4M3FN>, %vs: memref<?x?x512xf8E8M0FNU>,
    %o: memref<?x64xf32> {flamia.depends = {v = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-note @below {{the other load is here}}
  %a = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along cols : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
  // expected-error @+1 {{scales 'vs' of 'v' are read as 1 rows a scale along cols here and as 32 rows a scale along cols elsewhere}}
  %b = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along cols : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>
  // expected-error @+1 {{scales 'vs' of 'v' are read as 32 rows a scale along rows here and as 32 rows a scale along cols elsewhere}}
  %c = flamia.load_scaled %v[%c0, %c0], %vs[%c0, %c0] along rows : memref<?x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
  flamia.return
}
