// RUN: flamia-opt %s --convert-flamia-to-nvvm --split-input-file | FileCheck %s

// A kernel without roles: a row a thread, one predicate a row, 16-byte accesses.
// CHECK-LABEL: llvm.func @convert_rows
// CHECK-SAME: (%[[X:.*]]: !llvm.ptr<1>, %[[ROWS:.*]]: i64, %[[Y:.*]]: !llvm.ptr<1>, %{{.*}}: i64)
// CHECK-SAME: flamia.launch = {args = [{access = "read", dims = [-1, 64], element = "f32", name = "x"}, {access = "write", dims = [-1, 64], element = "bf16", name = "y"}]
// CHECK-SAME: params = [{pointer = "x"}, {dim = 0 : i64, of = "x"}, {pointer = "y"}, {dim = 0 : i64, of = "y"}]
// CHECK-SAME: threads = 128 : i64
// CHECK-SAME: nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 128>
// CHECK: arith.cmpi slt, %{{.*}}, %[[ROWS]]
// CHECK-NEXT: scf.if
// CHECK-COUNT-16: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK: arith.constant dense<0.000000e+00> : vector<64xf32>
// CHECK-COUNT-32: nvvm.convert.f32x2.to.bf16x2 %{{.*}}, %{{.*}} {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xbf16>
// CHECK-COUNT-8: llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: flamia.kernel
flamia.kernel @convert_rows(%x: memref<?x64xf32>, %y: memref<?x64xbf16>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t = flamia.load %x[%row, %c0] : memref<?x64xf32> -> tensor<128x64xf32>
  %b = arith.truncf %t : tensor<128x64xf32> to tensor<128x64xbf16>
  flamia.store %b, %y[%row, %c0] : tensor<128x64xbf16>, memref<?x64xbf16>
  flamia.return
}

// -----

// Columns that may pass the extent are checked one by one.
// CHECK-LABEL: llvm.func @convert_ragged_columns
// CHECK-SAME: (%{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %[[COLS:[a-z0-9]+]]: i64, %{{.*}}: !llvm.ptr<1>
// CHECK: %[[C:.*]] = arith.cmpi slt, %{{.*}}, %[[COLS]] : i64
// CHECK-NEXT: scf.if %[[C]] -> (i32) {
// CHECK-NEXT: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
flamia.kernel @convert_ragged_columns(%x: memref<?x?xf32>, %y: memref<?x4xf32>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x4xf32>
  flamia.store %t, %y[%c0, %c0] : tensor<128x4xf32>, memref<?x4xf32>
  flamia.return
}

// -----

// A sum has one order everywhere: eight partial sums (here four pairs), then a tree.
// CHECK-LABEL: llvm.func @convert_reduce_sum
// CHECK-DAG: %[[X0:.*]] = vector.extract %[[V:.*]][0] : f32
// CHECK-DAG: %[[X1:.*]] = vector.extract %[[V]][1] : f32
// CHECK-DAG: %[[X8:.*]] = vector.extract %[[V]][8] : f32
// CHECK-DAG: %[[X9:.*]] = vector.extract %[[V]][9] : f32
// CHECK-DAG: %[[A:.*]] = vector.from_elements %[[X0]], %[[X1]] : vector<2xf32>
// CHECK-DAG: %[[B:.*]] = vector.from_elements %[[X8]], %[[X9]] : vector<2xf32>
// CHECK: %[[P01:.*]] = arith.addf %[[A]], %[[B]] : vector<2xf32>
// CHECK-COUNT-3: arith.addf %{{.*}}, %{{.*}} : vector<2xf32>
// CHECK: %[[P0:.*]] = vector.extract %[[P01]][0] : f32
// CHECK: arith.addf %[[P0]], %{{.*}} : f32
// CHECK-COUNT-6: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK-NOT: arith.addf
flamia.kernel @convert_reduce_sum(%x: memref<?x16xf32>, %y: memref<?x1xf32>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x16xf32> -> tensor<128x16xf32>
  %s = flamia.reduce sum %t : tensor<128x16xf32> -> tensor<128x1xf32>
  flamia.store %s, %y[%c0, %c0] : tensor<128x1xf32>, memref<?x1xf32>
  flamia.return
}

// -----

// A 32x32 block is one warp's: integer maximum of magnitudes over the warp, round up by
// carrying into the exponent, payload 0 and byte 255 for NaN and Inf.
// CHECK-LABEL: llvm.func @convert_quantize_block
// CHECK: llvm.intr.maximum
// CHECK: %[[A:.*]] = nvvm.redux.sync umax %{{.*}}, %{{.*}} : i32 -> i32
// CHECK: %[[C:.*]] = arith.constant 2097151 : i32
// CHECK: arith.addi %[[A]], %[[C]] : i32
// CHECK: arith.constant 2139095040 : i32
// CHECK: %[[FINITE:.*]] = arith.cmpi ult, %[[A]]
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2 %{{.*}}, %{{.*}} {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>} : i16(f8E4M3FN)
// CHECK: arith.select %[[FINITE]], %{{.*}}, %{{.*}} : i32
flamia.kernel @convert_quantize_block(%x: memref<?x32xf32>, %p: memref<?x32xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %n = flamia.dim %x[0] : memref<?x32xf32>
  %t = flamia.load %x[%c0, %c0] : memref<?x32xf32> -> tensor<128x32xf32>
  %q = flamia.quantize %t rows %n : tensor<128x32xf32> -> !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 32x32>
  flamia.store_payload %q, %p[%c0, %c0] : !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 32x32>, memref<?x32xf8E4M3FN>
  flamia.store_scales %q, %s[%c0, %c0] rows %n along rows : !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 32x32>, memref<?x?x512xf8E8M0FNU>
  flamia.return
}

// -----

// exp2 flushes subnormal results, and only it: the attribute for whole functions would also
// flush what quantizers must keep.
// CHECK-LABEL: llvm.func @convert_math
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%{{.*}}) : (f32) -> f32
// CHECK: llvm.call_intrinsic "llvm.nvvm.lg2.approx.f"(%{{.*}}) : (f32) -> f32
// CHECK: math.ceil %{{.*}} : vector<2xf32>
flamia.kernel @convert_math(%x: memref<?x2xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x2xf32> -> tensor<128x2xf32>
  %a = math.exp2 %t : tensor<128x2xf32>
  %b = math.log2 %a : tensor<128x2xf32>
  %c = math.ceil %b : tensor<128x2xf32>
  flamia.store %c, %x[%c0, %c0] : tensor<128x2xf32>, memref<?x2xf32>
  flamia.return
}

// -----

// CHECK-LABEL: llvm.func @convert_mma
// CHECK-SAME: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}
// CHECK-SAME: params = [{dim = 0 : i64, of = "a"}, {box_rows = 128 : i64, span_bytes = 128 : i64, tensormap = "a"}, {pointer = "s"}
// CHECK-SAME: tmem_columns = 256 : i64
// CHECK-SAME: nvvm.reqntid = array<i32: 192>
// Prologue: tensor memory by the first warp, barriers by one thread, then everybody.
// CHECK: nvvm.tcgen05.alloc
// CHECK-NEXT: nvvm.tcgen05.relinquish_alloc_permit
// CHECK-COUNT-5: nvvm.mbarrier.init
// CHECK-NEXT: nvvm.fence.mbarrier.init
// CHECK: nvvm.tcgen05.fence <before>
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: nvvm.tcgen05.fence <after>
// Constant scales: 4 columns by the first four warps.
// CHECK: nvvm.tcgen05.st %{{.*}}, %{{.*}} {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<4xi32>
// CHECK: nvvm.tcgen05.wait <store>
// The accumulator: a CFG loop for the wait, wait::ld, then the registers tied behind it.
// CHECK: scf.while
// CHECK: nvvm.mbarrier.try_wait %{{.*}}, %{{.*}} : !llvm.ptr<3>, i32 -> i1
// CHECK: nvvm.tcgen05.fence <after>
// CHECK-COUNT-4: nvvm.tcgen05.ld %{{.*}} {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>
// CHECK: nvvm.tcgen05.wait <load>
// CHECK-NOT: bitcast
// CHECK: llvm.inline_asm has_side_effects "", "=r,
// Release by threads: one arrival a warp, by its first lane.
// CHECK: nvvm.tcgen05.fence <before>
// CHECK-NEXT: %[[MASK:.*]] = arith.constant -1 : i32
// CHECK-NEXT: nvvm.bar.warp.sync %[[MASK]] : i32
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-NEXT: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %[[ZERO]] : i32
// CHECK-NEXT: scf.if %[[FIRST]]
// CHECK-NEXT: nvvm.mbarrier.arrive
// Loads, by the lane that is elected once: the ragged map's five coordinates for a rank 3 tensor.
// CHECK: nvvm.elect.sync
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-NOT: nvvm.elect.sync
// CHECK: %[[A30:.*]] = arith.constant 1073741824 : i32
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %{{.*}}, %{{.*}}, box[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[A30]]] {isCTAOnly = true}
// CHECK-NOT: nvvm.elect.sync
// CHECK: nvvm.cp.async.bulk.shared.cluster.global
// Product: 4 steps of 32 bytes; scale ids in the instruction word, accumulating after step 0.
// CHECK: %[[FALSE:.*]] = arith.constant false
// CHECK: nvvm.tcgen05.cp %{{.*}}, %{{.*}} {multicast = #nvvm.tcgen05_cp_multicast<warpx4>, shape = #nvvm.tcgen05_cp_shape<shape_32x128b>}
// CHECK: arith.constant 4611756662049472512 : i64
// CHECK: %[[W0:.*]] = arith.constant 144703488 : i32
// CHECK: nvvm.tcgen05.mma.block_scale %{{.*}}, %{{.*}}, %{{.*}}, %[[W0]], %[[FALSE]]
// CHECK: %[[W1:.*]] = arith.constant 681574416 : i32
// CHECK: nvvm.tcgen05.mma.block_scale %{{.*}}, %{{.*}}, %{{.*}}, %[[W1]], %[[TRUE:.*]], %
// CHECK-SAME: blockScale = #nvvm.tcgen05_mma_block_scale<block32>
// CHECK-SAME: kind = #nvvm.block_scale_kind<mxf8f6f4>
// CHECK-COUNT-2: nvvm.tcgen05.mma.block_scale
// CHECK-NOT: nvvm.tcgen05.mma
// CHECK-NOT: nvvm.elect.sync
// CHECK-COUNT-3: nvvm.tcgen05.commit
// CHECK: nvvm.tcgen05.dealloc
flamia.kernel @convert_mma(%a: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %o: memref<?x?x128xf32>)
    parameters {} grid(a[0] ceildiv 128, a[1]) {
  %c0 = arith.constant 0 : index
  %sa = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %ss = tcgen.alloc offset 16384 : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %d = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %ts = tcgen.alloc offset 128 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %ones = tcgen.alloc offset 132 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.fill_scales %ones byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %in = tcgen.channel slots 1 full 1 empty 1
  %out = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %i = tcgen.wait %out
    %t = tcgen.read %d[%i] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    tcgen.release %out[%i] by threads
    flamia.store %t, %o[%c0, %c0, %c0] : tensor<128x128xf32>, memref<?x?x128xf32>
  }
  tcgen.role "load" warps 1 {
    %i = tcgen.acquire %in
    tcgen.expect %in[%i] bytes 16896
    tcgen.tma_load %a[%c0, %c0, %c0], %sa[%i] signals %in : memref<?x?x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
    tcgen.bulk_load %s[%c0, %c0], %ss[%i] signals %in : memref<?x?x512xf8E8M0FNU>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  tcgen.role "mma" warps 1 {
    %false = arith.constant false
    %i = tcgen.wait %in
    tcgen.copy_scales %ss[%i], %ts[%c0] : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    %j = tcgen.acquire %out
    tcgen.mma %d[%j], %sa[%i], %sa[%i] scales %ones[%c0], %ts[%c0] major k accumulate %false : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    tcgen.publish %out[%j] by mma
    tcgen.release %in[%i] by mma
    tcgen.drain
  }
  flamia.return
}

// -----

// BF16, A in tensor memory, B contracted along its rows: two slabs of 64 columns, leading
// offset 64 rows * 128 bytes, stride 8 rows; a step of 16 rows is 2048 bytes and 8 columns.
// CHECK-LABEL: llvm.func @convert_mma_bf16_mn
// CHECK: arith.constant 33554432 : i32
// CHECK: %[[DESC:.*]] = arith.constant 4611756662049472512 : i64
// CHECK: nvvm.tcgen05.mma %{{.*}}, %{{.*}}, %{{.*}}, %[[W:.*]], %{{.*}} {ctaGroup = #nvvm.cta_group<cta_1>, kind = #nvvm.tcgen05_mma_kind<f16>}
// CHECK: arith.constant 8 : i32
// CHECK: arith.constant 33554560 : i32
// CHECK-COUNT-3: nvvm.tcgen05.mma
// CHECK-NOT: nvvm.tcgen05.mma
flamia.kernel @convert_mma_bf16_mn(%a: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %true = arith.constant true
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  %d = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %p = tcgen.alloc offset 128 : !tcgen.buffer<tmem, lanes, 1 x 128x64xbf16>
  tcgen.role "mma" warps 1 {
    tcgen.mma %d[%c0], %p[%c0], %b[%c0] major mn accumulate %true : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x64xbf16>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  }
  flamia.return
}

// -----

// Written rows are swizzled like TMA's, and reach the asynchronous proxy before the arrival.
// CHECK-LABEL: llvm.func @convert_write_smem
// CHECK: nvvm.mbarrier.try_wait
// CHECK: %[[S:.*]] = arith.shrui %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: %[[M:.*]] = arith.constant 48 : i32
// CHECK: %[[F:.*]] = arith.andi %[[S]], %[[M]] : i32
// CHECK: arith.xori %{{.*}}, %[[F]] : i32
// CHECK-COUNT-4: llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK: nvvm.mbarrier.arrive
flamia.kernel @convert_write_smem(%x: memref<?x32xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 128x32xbf16>
  %ch = tcgen.channel slots 1 full 4 empty 1
  tcgen.role "vector" warps 4 {
    %t = flamia.load %x[%c0, %c0] : memref<?x32xbf16> -> tensor<128x32xbf16>
    %i = tcgen.acquire %ch
    tcgen.write %t, %b[%i] : tensor<128x32xbf16>, !tcgen.buffer<smem, operand, 1 x 128x32xbf16>
    tcgen.publish %ch[%i] by threads
  }
  flamia.return
}

// -----

// A limit past the extent does not reach past the tensor, rows by threads or by TMA.
// CHECK-LABEL: llvm.func @convert_limits
// CHECK-SAME: (%{{.*}}: !llvm.ptr<1>, %[[X:.*]]: i64, %{{.*}}: !llvm.ptr<1>, %[[Y:.*]]: i64, %[[N:.*]]: i64)
// CHECK: %[[READ:.*]] = arith.minsi %{{.*}}, %[[X]] : i64
// CHECK: arith.cmpi slt, %{{.*}}, %[[READ]]
// CHECK: %[[WRITTEN:.*]] = arith.minsi %{{.*}}, %[[Y]] : i64
// CHECK: arith.cmpi slt, %{{.*}}, %[[WRITTEN]]
flamia.kernel @convert_limits(%x: memref<?x4xf32>, %y: memref<?x4xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] limit %n : memref<?x4xf32> -> tensor<128x4xf32>
  flamia.store %t, %y[%c0, %c0] limit %n : tensor<128x4xf32>, memref<?x4xf32>
  flamia.return
}

// -----

// CHECK-LABEL: llvm.func @convert_tma_limit
// CHECK: %[[LIMIT:.*]] = arith.minsi
// CHECK: arith.subi %[[LIMIT]],
// CHECK: nvvm.cp.async.bulk.tensor
flamia.kernel @convert_tma_limit(%x: memref<?x64xbf16>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  %ch = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "load" warps 1 {
    %i = tcgen.acquire %ch
    tcgen.expect %ch[%i] bytes 16384
    tcgen.tma_load %x[%c0, %c0] limit %n, %b[%i] signals %ch : memref<?x64xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  }
  flamia.return
}

// -----

// NVFP4, 256 rows of B: the map has bytes for columns, scale atoms are [tile, head, atom], a
// step of 64 elements takes the word of one atom of A's and of two of B's scales. The word:
// E2M1 twice, UE4M3 scales, N = 256, M = 128. Swizzle by 64 bytes, 512 for eight rows.
// CHECK-LABEL: llvm.func @convert_mma_nvfp4
// CHECK: %[[HALF:.*]] = arith.shrui %{{.*}}, %c1_i32
// CHECK: nvvm.cp.async.bulk.tensor{{.*}}, box[%[[HALF]],
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK-COUNT-4: nvvm.cp.async.bulk.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk.shared.cluster.global
// CHECK-COUNT-4: nvvm.tcgen05.cp
// CHECK-NOT: nvvm.tcgen05.cp
// CHECK: arith.constant -9223301530671644672 : i64
// CHECK: %[[WORD:.*]] = arith.constant 138413184 : i32
// CHECK: nvvm.tcgen05.mma.block_scale %{{.*}}, %{{.*}}, %{{.*}}, %[[WORD]], %{{.*}}, %{{.*}}, %{{.*}} {
// CHECK-SAME: blockScale = #nvvm.tcgen05_mma_block_scale<block16>
// CHECK-SAME: kind = #nvvm.block_scale_kind<mxf4nvf4>
// CHECK: %[[A1:.*]] = arith.constant 4 : i32
// CHECK: arith.addi %{{.*}}, %[[A1]]
// CHECK: %[[B1:.*]] = arith.constant 8 : i32
// CHECK: arith.addi %{{.*}}, %[[B1]]
// CHECK: nvvm.tcgen05.mma.block_scale
// CHECK-NOT: nvvm.tcgen05.mma
flamia.kernel @convert_mma_nvfp4(%x: memref<?x?x128xf4E2M1FN>, %s: memref<?x?x2x512xf8E4M3FN>, %at: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 256x128xf4E2M1FN>
  %a = tcgen.alloc offset 16384 : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %ss = tcgen.alloc offset 24576 : !tcgen.buffer<smem, scales, 1 x 256x8xf8E4M3FN>
  %d = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x256xf32>
  %sa = tcgen.alloc offset 256 : !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  %sb = tcgen.alloc offset 264 : !tcgen.buffer<tmem, scales, 1 x 256x8xf8E4M3FN>
  %ch = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "load" warps 1 {
    %i = tcgen.acquire %ch
    tcgen.expect %ch[%i] bytes 18432
    tcgen.tma_load %x[%c0, %c0, %at], %b[%i] signals %ch : memref<?x?x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 256x128xf4E2M1FN>
    tcgen.bulk_load %s[%c0, %c0], %ss[%i] signals %ch : memref<?x?x2x512xf8E4M3FN>, !tcgen.buffer<smem, scales, 1 x 256x8xf8E4M3FN>
  }
  tcgen.role "mma" warps 1 {
    %true = arith.constant true
    %i = tcgen.wait %ch
    tcgen.copy_scales %ss[%i], %sb[%c0] : !tcgen.buffer<smem, scales, 1 x 256x8xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 256x8xf8E4M3FN>
    tcgen.mma %d[%c0], %a[%c0], %b[%i] scales %sa[%c0], %sb[%c0] major k accumulate %true : !tcgen.buffer<tmem, lanes, 1 x 128x256xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 256x128xf4E2M1FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 256x8xf8E4M3FN>
    tcgen.release %ch[%i] by mma
    tcgen.drain
  }
  flamia.return
}

// -----

// Nothing but a product sees the payload: that of a NaN block is not replaced. Bytes are
// converted in pairs where they are written, from the largest magnitude / (1.75 * 2^(8 + 8)),
// a static shift included. 1 / scale is what is left of the exponent's complement. Only the
// first arrival after a write waits for it and makes it visible.
// CHECK-LABEL: llvm.func @convert_quantize_operand
// CHECK: %[[CARRY:.*]] = arith.constant -56623105 : i32
// CHECK: %[[SUM:.*]] = arith.addi %{{.*}}, %[[CARRY]] : i32
// CHECK: %[[LEAST:.*]] = arith.constant 8388608 : i32
// CHECK: %[[FIELD:.*]] = arith.maxsi %[[SUM]], %[[LEAST]] : i32
// CHECK: arith.xori %[[FIELD]], %{{.*}} : i32
// CHECK: arith.constant 2139095040 : i32
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: arith.select
// CHECK: arith.constant 8.71930842E-6 : f32
// CHECK: %[[UNITS:.*]] = arith.mulf
// CHECK-NOT: arith.select
// CHECK: nvvm.tcgen05.st
// CHECK: llvm.call_intrinsic "llvm.nvvm.ff.to.ue8m0x2.rp"
// CHECK: nvvm.tcgen05.wait <store>
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.mbarrier.arrive
// CHECK-NOT: nvvm.tcgen05.wait <store>
// CHECK-NOT: nvvm.fence.proxy
// CHECK: nvvm.mbarrier.arrive
flamia.kernel @convert_quantize_operand() parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %d = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  %a = tcgen.alloc offset 32 : !tcgen.buffer<tmem, lanes, 1 x 128x32xf8E4M3FN>
  %s = tcgen.alloc offset 0 : !tcgen.buffer<smem, scales, 1 x 128x1xf8E8M0FNU>
  %in = tcgen.channel slots 1 full 1 empty 4
  %out = tcgen.channel slots 1 full 4 empty 1
  tcgen.role "vector" warps 4 {
    %i = tcgen.wait %in
    %t = tcgen.read %d[%i] : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32> -> tensor<128x32xf32>
    %q = flamia.quantize %t shift_by -8 : tensor<128x32xf32> -> !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 1x32>
    %j = tcgen.acquire %out
    tcgen.write %q, %a[%j] : !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<tmem, lanes, 1 x 128x32xf8E4M3FN>
    tcgen.write_scales %q, %s[%j] along cols : !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<smem, scales, 1 x 128x1xf8E8M0FNU>
    tcgen.publish %out[%j] by threads
    tcgen.release %in[%i] by threads
  }
  flamia.return
}

// -----

// Exponentials by polynomial: rows and columns in blocks of 32, plus the warp's, choose for
// 32 columns at a time.
// CHECK-LABEL: llvm.func @convert_exp2
// CHECK: %[[TIMES:.*]] = arith.muli %{{[^ ]*}}, %{{[^ ]*}} : i32
// CHECK: %[[REST:.*]] = arith.andi %[[TIMES]], %{{.*}} : i32
// CHECK: %[[FIRST:.*]] = arith.cmpi ult, %[[REST]], %{{.*}} : i32
// CHECK: scf.if %[[FIRST]]
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.nvvm.fmax.nan.f"
// CHECK-COUNT-5: math.fma %{{.*}} : vector<8xf32>
// CHECK: arith.shli %{{.*}} : vector<8xi32>
// CHECK: else
// CHECK-COUNT-32: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK: scf.if
// CHECK-COUNT-32: llvm.call_intrinsic "llvm.nvvm.fmax.nan.f"
// CHECK: else
// CHECK-COUNT-32: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
flamia.kernel @convert_exp2(%x: memref<128x64xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %t = flamia.load %x[%c0, %c0] : memref<128x64xf32> -> tensor<128x64xf32>
  %e = flamia.exp2 %t rows %c64 cols %c0 polynomial 3 of 8 : tensor<128x64xf32>
  flamia.store %e, %x[%c0, %c0] : tensor<128x64xf32>, memref<128x64xf32>
  flamia.return
}

// -----

// What is converted and summed is converted and summed on either way, in the order of
// flamia.reduce: four pairs of partial sums leave the branch, and the words.
// CHECK-LABEL: llvm.func @convert_exp2_weights
// CHECK: %[[FIRST:.*]]:44 = scf.if
// CHECK-COUNT-32: llvm.call_intrinsic "llvm.nvvm.fmax.nan.f"
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2
// CHECK-COUNT-12: arith.addf %{{.*}} : vector<2xf32>
// CHECK-NOT: arith.addf
// CHECK: scf.yield
// CHECK: else
// CHECK-COUNT-32: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2
// CHECK-COUNT-12: arith.addf %{{.*}} : vector<2xf32>
// CHECK-NOT: arith.addf
// CHECK: scf.yield
// CHECK: scf.if
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2
// CHECK: arith.addf %[[FIRST]]#40, %{{.*}} : vector<2xf32>
// CHECK: arith.addf %[[FIRST]]#43, %{{.*}} : vector<2xf32>
// CHECK: else
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: nvvm.convert.f32x2.to.f8x2
// CHECK: llvm.store
!weights = !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>
flamia.kernel @convert_exp2_weights(%x: memref<128x64xf32>, %w: memref<128x64xf8E4M3FN>, %s: memref<128x1xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<128x64xf32> -> tensor<128x64xf32>
  %e = flamia.exp2 %t rows %c0 cols %c0 polynomial 1 of 4 : tensor<128x64xf32>
  %q = flamia.quantize %e exponent 0 : tensor<128x64xf32> -> !weights
  %sum = flamia.reduce sum %e : tensor<128x64xf32> -> tensor<128x1xf32>
  flamia.store_payload %q, %w[%c0, %c0] : !weights, memref<128x64xf8E4M3FN>
  flamia.store %sum, %s[%c0, %c0] : tensor<128x1xf32>, memref<128x1xf32>
  flamia.return
}
