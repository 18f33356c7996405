// The backward's kernels: what proves them safe, and each broken in one place at a time.
//
// Safe with safeguards, in the pipeline with its peeled tiles too, and with any parameters:
// RUN: flamia-opt %kernels/attention_bwd_prep.mlir --flamia-specialize --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_prep.mlir --flamia-value-pipeline=params=dlse=true,head_dim=64 -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-specialize --flamia-insert-safeguards --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-value-pipeline=params=head_dim=64 -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-specialize=params=causal=false --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize --flamia-insert-safeguards --flamia-check-causality -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-value-pipeline=params=head_dim=64 -o /dev/null
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize=params=causal=false --flamia-check-causality -o /dev/null
//
// Without safeguards: V's token blocks in dQ, dO' summed over tokens in dV.
// RUN: not flamia-opt %kernels/attention_bwd_dq.mlir --flamia-specialize --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=DQ
// DQ: error: output 'dq' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over 32 tokens (scale block 32x32) and its tile is not proven strictly past
// DQ-NEXT: %dp = flamia.dot %do8, %vT
// DQ: note: 'v_data' is loaded here: tokens begin + 128 * tile - 128 * iteration to
// DQ: note: 'dq' is stored here: tokens begin + 128 * tile to begin + 128 * tile + 127
// DQ: note: 'v_bf16' holds the unquantized values: flamia-insert-safeguards can use it on the diagonal
// DQ-NOT: error
// RUN: not flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-specialize --flamia-check-causality 2>&1 | FileCheck %s --check-prefix=DKDV
// DKDV: error: output 'dv' may depend on tokens of 'do_data' before their own: operand 'b' of this product is summed over its tokens, 32 of which share a scale then and its tile is not proven strictly later
// DKDV-NEXT: %dv1 = flamia.dot %p8, %do8
// DKDV: note: 'do_data' is loaded here: tokens begin + 128 * iteration to begin + 128 * iteration + 127
// DKDV: note: 'dv' is stored here: tokens begin + 128 * tile to begin + 128 * tile + 127
// DKDV: note: 'do' holds the unquantized values: flamia-insert-safeguards can use it on the diagonal
// DKDV-NOT: error
//
// dQ. Either mask will do, P = 0 or dS = 0, but one it must be, and of the right tile:
// RUN: sed 's/flamia.mask %%x rows %%last_key cols %%k_row causal/flamia.mask %%x rows %%last_key cols %%k_row/' %kernels/attention_bwd_dq.mlir > %t.q.exp.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.exp.mlir
// RUN: flamia-opt %t.q.exp.mlir --flamia-value-pipeline -o /dev/null
// RUN: sed 's/flamia.mask %%gradient rows %%last_key cols %%k_row causal/flamia.mask %%gradient rows %%last_key cols %%k_row/' %kernels/attention_bwd_dq.mlir > %t.q.ds.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.ds.mlir
// RUN: flamia-opt %t.q.ds.mlir --flamia-value-pipeline -o /dev/null
// RUN: sed 's/cols %%k_row causal/cols %%k_row/' %kernels/attention_bwd_dq.mlir > %t.q.none.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.none.mlir
// RUN: not flamia-opt %t.q.none.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=NONE
// NONE-DAG: error: output 'dq' may depend on tokens of 'k_data' after their own: operand 'b' of this product shares a scale over 32 tokens and its tile
// NONE-DAG: error: output 'dq' may depend on tokens of 'k_data' after their own: operand 'b' of this product is not masked before tokens are summed
// NONE-DAG: error: output 'dq' may depend on tokens of 'v_bf16' after their own: operand 'b' of this product shares a scale over 32 tokens
// RUN: sed 's/cols %%k_row causal/cols %%begin causal/' %kernels/attention_bwd_dq.mlir > %t.q.tile.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.tile.mlir
// RUN: not flamia-opt %t.q.tile.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=TILE
// TILE: error: output 'dq' may depend on tokens of 'k_data' after their own: operand 'b' of this product is not masked
//
// Neither will do after the scale of dS was chosen:
// RUN: sed 's/flamia.quantize %%gradient_seen/flamia.quantize %%gradient/; s/flamia.mask %%x rows %%last_key cols %%k_row causal/flamia.mask %%x rows %%last_key cols %%k_row/' %kernels/attention_bwd_dq.mlir > %t.q.late.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.late.mlir
// RUN: not flamia-opt %t.q.late.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=NONE
//
// Scales of another tile, of the document, and m, D' of unknown origin:
// RUN: sed 's/%%k_scale\[%%k_tile,/%%k_scale[%%next,/; s/^ *%%k_tile = .*/&\n    %%next = arith.addi %%k_tile, %%c1 : index/' %kernels/attention_bwd_dq.mlir > %t.q.next.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.next.mlir
// RUN: not flamia-opt %t.q.next.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=NEXT
// NEXT: error: output 'dq' may depend on tokens of 'k_data' after their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x128){{$}}
// RUN: sed 's/%%v_scale\[%%k_tile,/%%v_scale[%%scale_base,/' %kernels/attention_bwd_dq.mlir > %t.q.document.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.document.mlir
// RUN: not flamia-opt %t.q.document.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=DOCUMENT
// DOCUMENT: error: output 'dq' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over all tokens of the document (scale block 32x32){{$}}
// RUN: sed 's/%%m: !vector {flamia.dims = \["tokens", "heads"\], flamia.derived_from = "q_data"}/%%m: !vector {flamia.dims = ["tokens", "heads"]}/' %kernels/attention_bwd_dq.mlir > %t.q.m.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.m.mlir
// RUN: not flamia-opt %t.q.m.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=M
// M: error: output 'dq' may depend on tokens of 'm' after their own: {{.*}}has no direction in 'flamia.depends'
//
// D' of the next tile's queries:
// RUN: sed 's/flamia.load %%d_past\[%%q_row,/flamia.load %%d_past[%%next,/; s/^  %%q_tile = .*/&\n  %%next = arith.addi %%q_row, %%c128 : index/' %kernels/attention_bwd_dq.mlir > %t.q.d.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.d.mlir
// RUN: not flamia-opt %t.q.d.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=D
// D: error: output 'dq' may depend on tokens of 'd_{{past|diagonal}}' after their own: operand 'a' of this product holds other tokens in its rows than the output
//
// dK, dV. The masks of P^T and of dS^T; dV needs the first.
// RUN: sed 's/flamia.mask %%gradient rows %%first_key cols %%q_row transposed causal/flamia.mask %%gradient rows %%first_key cols %%q_row transposed/' %kernels/attention_bwd_dkdv.mlir > %t.k.ds.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.ds.mlir
// RUN: flamia-opt %t.k.ds.mlir --flamia-value-pipeline -o /dev/null
// RUN: sed 's/flamia.mask %%x rows %%first_key cols %%q_row transposed causal/flamia.mask %%x rows %%first_key cols %%q_row transposed/' %kernels/attention_bwd_dkdv.mlir > %t.k.p.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.p.mlir
// RUN: not flamia-opt %t.k.p.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=KP
// KP-DAG: error: output 'dv' may depend on tokens of 'q_data' before their own: operand 'b' of this product is not masked before tokens are summed, and its tile is not proven strictly later
// KP-DAG: error: output 'dv' may depend on tokens of 'do' before their own: operand 'b' of this product is not masked before tokens are summed
// KP-NOT: output{{.*}}'dk'
//
// Masks that take the rows for queries, and masks of the wrong tile:
// RUN: sed 's/cols %%q_row transposed causal/cols %%q_row causal/' %kernels/attention_bwd_dkdv.mlir > %t.k.turned.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.turned.mlir
// RUN: not flamia-opt %t.k.turned.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=TURNED
// TURNED: error: {{.*}} may depend on tokens of 'q_data' before their own
// RUN: sed 's/rows %%first_key cols %%q_row/rows %%before cols %%q_row/' %kernels/attention_bwd_dkdv.mlir > %t.k.tile.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.tile.mlir
// RUN: not flamia-opt %t.k.tile.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=TURNED
//
// A loop over all query tiles: no end of it holds those that straddle, so none keeps dO'.
// RUN: sed 's/%%first_tile = arith.select %%causal, %%tile, %%c0/%%first_tile = arith.select %%causal, %%c0, %%c0/' %kernels/attention_bwd_dkdv.mlir > %t.k.all.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.all.mlir
// RUN: flamia-opt %t.k.all.mlir --flamia-value-pipeline | FileCheck %s --check-prefix=ALL
// ALL: scf.for
// ALL-NOT: flamia.load_scaled %do_data
// ALL: flamia.return
//
// Without an original of dO':
// RUN: sed 's/flamia.original = "do", flamia.original_factor = "r"/flamia.note/; s/, flamia.original = "d_diagonal", flamia.original_with = "do_data"//; s/%%do: !bf16 {/%%do: !bf16 {flamia.derived_from = "do_data", /' %kernels/attention_bwd_dq.mlir > %t.q.original.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.original.mlir
// RUN: not flamia-opt %t.q.original.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=ORIGINAL
// ORIGINAL: error: output 'dq' may depend on tokens of 'v_data' after their own: operand 'b' of this product shares a scale over 32 tokens (scale block 32x32)
//
// Scales of another query tile, and Q with one scale for 32 tokens:
// RUN: sed 's/%%q_scale\[%%q_tile,/%%q_scale[%%next,/; s/^      %%q_tile = .*/&\n      %%next = arith.addi %%q_tile, %%c1 : index/' %kernels/attention_bwd_dkdv.mlir > %t.k.next.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.next.mlir
// RUN: not flamia-opt %t.k.next.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=KNEXT
// KNEXT: error: {{.*}} may depend on tokens of 'q_data' before their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x128){{$}}
// RUN: sed 's/!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 1x?>/!local = !flamia.scaled<128x?, f8E4M3FN by f8E8M0FNU per 32x?>/; s/per ?x1>/per ?x32>/' %kernels/attention_bwd_dkdv.mlir > %t.k.shared.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.shared.mlir
// RUN: not flamia-opt %t.k.shared.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: outputs 'dk', 'dv' may depend on tokens of 'q_data' before their own: operand 'b' of this product shares a scale over 32 tokens (scale block 32x128) and its tile is not proven strictly later
//
// The preparation, with one scale for 32 gradients:
// RUN: sed 's/per 1x?>/per 32x?>/; s/flamia.exponents %%do8 : !local -> !row/flamia.load_exponents %%q_scale[%%st, %%head] : !scale -> !row/' %kernels/attention_bwd_prep.mlir > %t.p.mlir
// RUN: not cmp %kernels/attention_bwd_prep.mlir %t.p.mlir
// RUN: not flamia-opt %t.p.mlir --flamia-value-pipeline 2>&1 | FileCheck %s --check-prefix=PREP
// PREP: error: outputs 'do_data', 'd_past' may depend on tokens of 'do' after their own: it shares a scale over 32 tokens along the output's own rows
// PREP: error: output 'd_past' may depend on tokens of 'q_scale' after their own: it has no direction in 'flamia.depends'
