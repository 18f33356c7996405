// After flamia-fold-scales: what arguments with `flamia.folded` hold counts as data of the
// payloads that they name.
//
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-specialize --flamia-insert-safeguards --flamia-fold-scales -o %t.dq.mlir
// RUN: flamia-opt %t.dq.mlir --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize --flamia-insert-safeguards --flamia-fold-scales -o %t.dkdv.mlir
// RUN: flamia-opt %t.dkdv.mlir --flamia-check-causality -o /dev/null
//
// V is no longer loaded with its own scales, whose type said how many tokens share one.
// RUN: FileCheck %s --check-prefix=BLOCK --input-file=%t.dq.mlir
// BLOCK: %v_data: memref<?x?x128xf8E4M3FN> {{{.*}}flamia.token_block = 32
// BLOCK-NOT: flamia.load_scaled %v_data{{.*}}%v_scale[
//
// On the diagonal only absolute exponents will do: those relative to the tile's largest, or
// to that of 32 tokens, depend on tokens that the output must not see.
// RUN: sed 's/%%k_factor_diagonal\[/%%k_factor[/' %t.dq.mlir > %t.factor.mlir
// RUN: not cmp %t.dq.mlir %t.factor.mlir
// RUN: not flamia-opt %t.factor.mlir --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=FACTOR
// FACTOR: error: output 'dq' may depend on tokens of 'k_data' after their own: operand 'a' of this product shares a scale over 128 tokens and its tile is not proven strictly past
// FACTOR: note: 'k_factor', which holds exponents of 'k_data', is loaded here: tokens begin + 128 * tile to begin + 128 * tile + 127
// RUN: sed 's/%%bias\[/%%bias_hat[/' %t.dkdv.mlir > %t.bias.mlir
// RUN: not cmp %t.dkdv.mlir %t.bias.mlir
// RUN: not flamia-opt %t.bias.mlir --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=BIAS
// BIAS: error: {{.*}} may depend on tokens of 'do_data' before their own: operand 'a' of this product shares a scale over 32 tokens and its tile is not proven strictly later
// BIAS: note: 'bias_hat', which holds exponents of 'do_data', is loaded here
// RUN: sed 's/exponent = "e(q_data)", of = "r"/exponent = "e(q_data) - max128(e(q_data))", of = "r"/' %t.dkdv.mlir > %t.r.mlir
// RUN: not cmp %t.dkdv.mlir %t.r.mlir
// RUN: not flamia-opt %t.r.mlir --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=R
// R: error: output 'dk' may depend on tokens of 'q_data' before their own: operand 'a' of this product shares a scale over 128 tokens and its tile is not proven strictly later
// R: note: 'r_hat', which holds exponents of 'q_data', is loaded here
//
// The same vector of another tile, and one for the tile before the diagonal's:
// RUN: sed 's/flamia.load %%d_past_hat\[%%[0-9]*,/flamia.load %%d_past_hat[%%c0,/' %t.dkdv.mlir > %t.tile.mlir
// RUN: not cmp %t.dkdv.mlir %t.tile.mlir
// RUN: not flamia-opt %t.tile.mlir --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: output 'dk' may depend on tokens of 'd_past' before their own
// PLACE: note: 'd_past_hat', which holds exponents of 'd_past', is loaded here: tokens begin - 128 * scale_base to
//
// RUN: flamia-opt %s --flamia-check-causality --split-input-file --verify-diagnostics

!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 128x64>

// A payload alone: rounded together with later tokens.
flamia.kernel @payload(%v: memref<?x64xf8E4M3FN> {flamia.token_block = 32},
    %o: memref<?x64xf8E4M3FN> {flamia.depends = {v = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+2 {{output 'o' may depend on tokens of 'v' after their own: it shares a scale over 32 tokens along the output's own rows}}
  // expected-note @+1 {{'v' is loaded here}}
  %t = flamia.load_payload %v[%c0, %c0] : memref<?x64xf8E4M3FN> -> !v
  // expected-note @+1 {{'o' is stored here}}
  flamia.store_payload %t, %o[%c0, %c0] : !v, memref<?x64xf8E4M3FN>
  flamia.return
}

// -----

!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x64>

// The exponent of a tile, and scales relative to it.
flamia.kernel @tile_exponent(%v: memref<?x2x64xf8E4M3FN>, %vs: memref<?x?x512xf8E8M0FNU>,
    %top: memref<?x?xf32> {flamia.folded = {exponent = "max128(e(v))"}},
    %hat: memref<?x?x512xf8E8M0FNU> {flamia.folded = {exponent = "e(v) - max128(e(v))", along = "cols"}},
    %o: memref<?x64xf8E4M3FN> {flamia.depends = {v = "<="}}, %x: memref<?x1xf32> {flamia.depends = {v = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+2 {{output 'o' may depend on tokens of 'v' after their own: it shares a scale over 128 tokens along the output's own rows}}
  // expected-note @+1 {{'v' is loaded here}}
  %t = flamia.load_scaled %v[%c0, %c0, %c0], %hat[%c0, %c0] along cols : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !v
  // expected-note @+1 {{'o' is stored here}}
  flamia.store_payload %t, %o[%c0, %c0] : !v, memref<?x64xf8E4M3FN>
  // expected-error @+2 {{output 'x' may depend on tokens of 'v' after their own: it shares a scale over 128 tokens and its tile is not proven strictly past}}
  // expected-note @+1 {{'top', which holds exponents of 'v', is loaded here: tokens 0 to 127}}
  %e = flamia.load %top[%c0, %c0] : memref<?x?xf32> -> tensor<1x1xf32>
  %es = flamia.broadcast %e : tensor<1x1xf32> -> tensor<128x1xf32>
  // expected-note @+1 {{'x' is stored here}}
  flamia.store %es, %x[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// -----

// Declared along columns, read along rows.
flamia.kernel @along(%v: memref<?x2x64xf8E4M3FN>, %hat: memref<?x?x512xf8E8M0FNU> {flamia.folded = {exponent = "e(v)", along = "cols"}},
    %o: memref<?x64xf8E4M3FN> {flamia.depends = {v = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{scales 'hat' are declared along cols, but read along rows}}
  %t = flamia.load_scaled %v[%c0, %c0, %c0], %hat[%c0, %c0] along rows : memref<?x2x64xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x64>
  flamia.return
}

// -----

!v = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 128x64>

// Blocks of 32 tokens begin with a tile. A tile that does not may hold one half of a block.
flamia.kernel @unaligned_payload(%v: memref<?x64xf8E4M3FN> {flamia.token_block = 32},
    %o: memref<?x64xf8E4M3FN> {flamia.depends = {v = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c144 = arith.constant 144 : index
  // expected-error @+2 {{output 'o' may depend on tokens of 'v' after their own: it shares a scale over all tokens of the pack}}
  // expected-note @+1 {{'v' is loaded here: tokens 16 to 143}}
  %t = flamia.load_payload %v[%c16, %c0] : memref<?x64xf8E4M3FN> -> !v
  // expected-note @+1 {{'o' is stored here}}
  flamia.store_payload %t, %o[%c144, %c0] : !v, memref<?x64xf8E4M3FN>
  flamia.return
}

// -----

// Part of a tile's vector: its 128 tokens share the exponent.
flamia.kernel @part_of_vector(%v: memref<?x2x64xf8E4M3FN>, %f: memref<?x?x128xf32> {flamia.folded = {exponent = "max128(e(v))"}},
    %o: memref<?x1xf32> {flamia.depends = {v = "<="}}) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-error @+2 {{output 'o' may depend on tokens of 'v' after their own: it shares a scale over all tokens of the pack}}
  // expected-note @+1 {{'f', which holds exponents of 'v', is loaded here}}
  %e = flamia.load %f[%c0, %c0, %c64] : memref<?x?x128xf32> -> tensor<1x64xf32>
  %es = flamia.broadcast %e : tensor<1x64xf32> -> tensor<128x64xf32>
  %sum = flamia.reduce sum %es : tensor<128x64xf32> -> tensor<128x1xf32>
  // expected-note @+1 {{'o' is stored here}}
  flamia.store %sum, %o[%c128, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}
