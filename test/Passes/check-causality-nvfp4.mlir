// The attention kernels with E2M1 scores: proved safe, and with one thing broken at a time each
// message names the operand, the scale block and the product.
//
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-value-pipeline=params=format=nvfp4 -o %t.fwd
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-value-pipeline=params=format=nvfp4,head_dim=64 -o %t.fwd64
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-value-pipeline=params=format=nvfp4,slots=2 -o %t.pair
// RUN: flamia-opt %kernels/attention_fwd.mlir --flamia-value-pipeline=params=format=nvfp4,causal=false -o %t.any
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-value-pipeline=params=format=nvfp4 -o %t.dq
// RUN: flamia-opt %kernels/attention_bwd_dq.mlir --flamia-value-pipeline=params=format=nvfp4,head_dim=64 -o %t.dq64
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-value-pipeline=params=format=nvfp4 -o %t.dkdv
// RUN: flamia-opt %kernels/attention_bwd_dkdv.mlir --flamia-value-pipeline=params=format=nvfp4,head_dim=64 -o %t.dkdv64
// What is proved is not the other format, nor without a promise.
// RUN: FileCheck %s --check-prefix=FWD --input-file=%t.fwd
// FWD: flamia.kernel @attention_fwd(%q_fp4: {{.*}} %o: memref<?x?x128xbf16> {flamia.depends = {k_fp4 = "<=", q_fp4 = "<=", v_data = "<="}
// FWD-NOT: q_data
// FWD: flamia.dot %{{.*}}, %{{.*}}, %{{.*}} : !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
//
// The forward. Q and K with one scale per 16 tokens and 16 channels:
// RUN: sed 's/f4E2M1FN by f8E4M3FN per [0-9]*x[0-9]*/f4E2M1FN by f8E4M3FN per 16x16/' %kernels/attention_fwd.mlir > %t.block.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.block.mlir
// RUN: not flamia-opt %t.block.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=BLOCK
// BLOCK: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'q_fp4' after their own: operand 'a' of this product shares a scale over 16 tokens (scale block 16x16) along the output's own rows
// BLOCK-NEXT: %s4 = flamia.dot %q4, %k4T
// BLOCK: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'k_fp4' after their own: operand 'b' of this product shares a scale over 16 tokens (scale block 16x16) and its tile is not proven strictly past
// BLOCK-NEXT: %s4 = flamia.dot %q4, %k4T
// The other format does not see it.
// RUN: flamia-opt %t.block.mlir --flamia-value-pipeline -o %t.block.mxfp8
//
// No mask before the row maximum, none before exp2, one of the wrong tile:
// RUN: sed 's/%%seen = flamia.mask %%s rows %%last_key cols %%k_row causal/%%seen = flamia.mask %%s rows %%last_key cols %%k_row/' %kernels/attention_fwd.mlir > %t.max.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.max.mlir
// RUN: not flamia-opt %t.max.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=MASK
// MASK: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'k_fp4' after their own: operand 'b' of this product is not masked before tokens are summed, and its tile is not proven strictly past
// MASK-NEXT: %s4 = flamia.dot %q4, %k4T
// MASK: note: 'k_fp4' is loaded here
// RUN: sed 's/flamia.mask %%x rows %%last_key cols %%k_row causal/flamia.mask %%x rows %%last_key cols %%k_row/' %kernels/attention_fwd.mlir > %t.exp.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.exp.mlir
// RUN: not flamia-opt %t.exp.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=EXP
// EXP: error: output{{.*}} 'o'{{.*}} may depend on tokens of 'k_fp4' after their own: {{.*}} is not masked
// RUN: sed 's/cols %%k_row causal/cols %%begin causal/' %kernels/attention_fwd.mlir > %t.wrong.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.wrong.mlir
// RUN: not flamia-opt %t.wrong.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=MASK
//
// Scales of the next tile, of the pack, of another payload:
// RUN: sed 's/%%k_fp4_scale\[%%k_tile,/%%k_fp4_scale[%%next_tile,/; s/^ *%%k_tile = .*/&\n    %%next_tile = arith.addi %%k_tile, %%c1 : index/' %kernels/attention_fwd.mlir > %t.next.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.next.mlir
// RUN: not flamia-opt %t.next.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=PACK
// RUN: sed 's/%%k_fp4_scale\[%%k_tile,/%%k_fp4_scale[%%c0,/' %kernels/attention_fwd.mlir > %t.pack.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.pack.mlir
// RUN: not flamia-opt %t.pack.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=PACK
// PACK: error: outputs {{.*}} may depend on tokens of 'k_fp4' after their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x16){{$}}
// PACK-NEXT: %s4 = flamia.dot %q4, %k4T
// RUN: sed 's/%%q_fp4_scale\[%%q_tile,/%%q_fp4_scale[%%next_tile,/; s/^  %%q_tile = .*/&\n  %%next_tile = arith.addi %%q_tile, %%c1 : index/' %kernels/attention_fwd.mlir > %t.qnext.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.qnext.mlir
// RUN: not flamia-opt %t.qnext.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=QNEXT
// QNEXT: error: outputs {{.*}} may depend on tokens of 'q_fp4' after their own: operand 'a' of this product shares a scale over all tokens of the pack (scale block 1x16){{$}}
// RUN: sed 's/%%k_fp4_scale\[%%k_tile,/%%q_fp4_scale[%%k_tile,/' %kernels/attention_fwd.mlir > %t.other.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.other.mlir
// RUN: not flamia-opt %t.other.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: scales 'q_fp4_scale' are read for 'k_fp4' here and for 'q_fp4' elsewhere: expected one payload for each array of scales
//
// A second-level scale from the data of the same step, of Q or of K; nothing promised for K:
// RUN: sed 's/%%q_global_scale: f32 {/&flamia.derived_from = "q_fp4", /' %kernels/attention_fwd.mlir > %t.gq.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.gq.mlir
// RUN: not flamia-opt %t.gq.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=GQ
// GQ: error: outputs 'o', 'lse', 'm', 'l', 'kappa' may depend on tokens of 'q_fp4' after their own: it shares a scale over all tokens of the pack
// RUN: sed 's/%%k_global_scale: f32 {/&flamia.derived_from = "k_fp4", /' %kernels/attention_fwd.mlir > %t.gk.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.gk.mlir
// RUN: not flamia-opt %t.gk.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=GK
// GK: error: outputs {{.*}} may depend on tokens of 'k_fp4' after their own: it shares a scale over all tokens of the pack
// RUN: sed 's/k_fp4 = "<= if causal", //' %kernels/attention_fwd.mlir > %t.open.mlir
// RUN: not cmp %kernels/attention_fwd.mlir %t.open.mlir
// RUN: not flamia-opt %t.open.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=OPEN
// OPEN: error: output 'o' may depend on tokens of 'k_fp4' after their own: operand 'b' of this product has no direction in 'flamia.depends'
//
// dQ:
// RUN: sed 's/f4E2M1FN by f8E4M3FN per [0-9]*x[0-9]*/f4E2M1FN by f8E4M3FN per 16x16/' %kernels/attention_bwd_dq.mlir > %t.q.block.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.block.mlir
// RUN: not flamia-opt %t.q.block.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=QBLOCK
// QBLOCK-DAG: error: output 'dq' may depend on tokens of 'q_fp4' after their own: operand 'a' of this product shares a scale over 16 tokens (scale block 16x16) along the output's own rows
// QBLOCK-DAG: error: output 'dq' may depend on tokens of 'k_fp4' after their own: operand 'b' of this product shares a scale over 16 tokens (scale block 16x16) and its tile is not proven strictly past
// RUN: sed 's/cols %%k_row causal/cols %%k_row/' %kernels/attention_bwd_dq.mlir > %t.q.mask.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.mask.mlir
// RUN: not flamia-opt %t.q.mask.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=QMASK
// QMASK: error: output 'dq' may depend on tokens of 'k_fp4' after their own: operand 'b' of this product {{.*}} and its tile is not proven strictly past
// QMASK-NEXT: %s4 = flamia.dot %q4, %k4T
// RUN: sed 's/%%k_fp4_scale\[%%k_tile,/%%k_fp4_scale[%%next,/; s/^ *%%k_tile = .*/&\n    %%next = arith.addi %%k_tile, %%c1 : index/' %kernels/attention_bwd_dq.mlir > %t.q.next.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.next.mlir
// RUN: not flamia-opt %t.q.next.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=QDATA
// QDATA: error: output 'dq' may depend on tokens of 'k_fp4' after their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x16){{$}}
// RUN: sed 's/%%k_global_scale: f32 {/&flamia.derived_from = "k_fp4", /' %kernels/attention_bwd_dq.mlir > %t.q.gk.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.gk.mlir
// RUN: not flamia-opt %t.q.gk.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=QGK
// QGK: error: output 'dq' may depend on tokens of 'k_fp4' after their own: {{.*}} shares a scale over all tokens of the pack
//
// dK and dV, where keys are rows and later is safe:
// RUN: sed 's/f4E2M1FN by f8E4M3FN per [0-9]*x[0-9]*/f4E2M1FN by f8E4M3FN per 16x16/' %kernels/attention_bwd_dkdv.mlir > %t.k.block.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.block.mlir
// RUN: not flamia-opt %t.k.block.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=KBLOCK
// KBLOCK: error: outputs 'dk', 'dv' may depend on tokens of 'q_fp4' before their own: operand 'b' of this product shares a scale over 16 tokens (scale block 16x16) and its tile is not proven strictly later
// KBLOCK-NEXT: %s4 = flamia.dot %k4, %q4T
// RUN: sed 's/flamia.mask %%x rows %%first_key cols %%q_row transposed causal/flamia.mask %%x rows %%first_key cols %%q_row transposed/' %kernels/attention_bwd_dkdv.mlir > %t.k.mask.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.mask.mlir
// RUN: not flamia-opt %t.k.mask.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=KMASK
// KMASK: error: output 'dv' may depend on tokens of 'q_fp4' before their own: operand 'b' of this product {{.*}} and its tile is not proven strictly later
// RUN: sed 's/%%q_fp4_scale\[%%q_tile,/%%q_fp4_scale[%%next,/; s/^      %%q_tile = .*/&\n      %%next = arith.addi %%q_tile, %%c1 : index/' %kernels/attention_bwd_dkdv.mlir > %t.k.next.mlir
// RUN: not cmp %kernels/attention_bwd_dkdv.mlir %t.k.next.mlir
// RUN: not flamia-opt %t.k.next.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=KNEXT
// KNEXT: error: outputs 'dk', 'dv' may depend on tokens of 'q_fp4' before their own: operand 'b' of this product shares a scale over all tokens of the pack (scale block 1x16){{$}}
//
// E2M1 in a product over tokens: dQ from K's, dK from Q's E2M1 copy.
// RUN: sed 's/flamia.dot %%g8, %%k, %%acc0 : !gradients, !local/flamia.dot %%g8, %%k4, %%acc0 : !gradients, !local4/' %kernels/attention_bwd_dq.mlir > %t.q.copy.mlir
// RUN: not cmp %kernels/attention_bwd_dq.mlir %t.q.copy.mlir
// RUN: not flamia-opt %t.q.copy.mlir --flamia-value-pipeline=params=format=nvfp4 2>&1 | FileCheck %s --check-prefix=COPY
// COPY: error: 'flamia.dot' op expected one scale type, but got 'f8E8M0FNU' and 'f8E4M3FN'
