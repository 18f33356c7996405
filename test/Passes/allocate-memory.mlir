// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-allocate-memory))" --split-input-file --verify-diagnostics | FileCheck %s

// Images at multiples of 1024 bytes, scales of 128, then the barriers; accumulators
// first, scales behind them.
// CHECK-LABEL: flamia.kernel @places
// CHECK-SAME: tcgen.barrier_offset = 33280 : i64
// CHECK-SAME: tcgen.smem_bytes = 34304 : i64
// CHECK-SAME: tcgen.threads = 192 : i64
// CHECK-SAME: tcgen.tmem_columns = 256 : i64
flamia.kernel @places(%x: memref<?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>) parameters {} grid(1) {
  // CHECK: tcgen.alloc offset 32768 : !tcgen.buffer<smem, scales
  // CHECK: tcgen.alloc offset 0 : !tcgen.buffer<smem, operand
  // CHECK: tcgen.alloc offset 128 : !tcgen.buffer<tmem, scales
  // CHECK: tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes
  %scales = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %image = tcgen.alloc : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>
  %tmem = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "vector" warps 4 {
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %c0 = arith.constant 0 : index
    tcgen.write %zero, %d[%c0] : tensor<128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  }
  tcgen.role "load" warps 1 {
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    tcgen.copy_scales %scales[%c0], %tmem[%c0] : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

// Given offsets stay; the rest goes between and behind them.
// CHECK-LABEL: flamia.kernel @given
// CHECK-SAME: tcgen.tmem_columns = 512 : i64
flamia.kernel @given() parameters {} grid(1) {
  // CHECK: tcgen.alloc offset 256
  // CHECK: tcgen.alloc offset 0
  // CHECK: tcgen.alloc offset 128
  // CHECK: tcgen.alloc offset 288
  %a = tcgen.alloc offset 256 : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  %b = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %c = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  flamia.return
}

// -----

// A full memory shortens the rings of loads, the largest first.
// CHECK-LABEL: flamia.kernel @rings
// CHECK: tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 3 x 128x256xbf16>
// CHECK: tcgen.channel slots 3
// CHECK: tcgen.alloc offset 196608 : !tcgen.buffer<smem, operand, 4 x 64x64xbf16>
// CHECK: tcgen.channel slots 4
flamia.kernel @rings(%x: memref<?x256xbf16>, %y: memref<?x64xbf16>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 4 x 128x256xbf16>
  // expected-remark@+1 {{ring shortened to 3 slots: shared memory is full}}
  %ac = tcgen.channel slots 4 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 4 x 64x64xbf16>
  %bc = tcgen.channel slots 4 full 1 empty 1
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %i = tcgen.acquire %ac
    tcgen.expect %ac[%i] bytes 65536
    tcgen.tma_load %x[%c0, %c0], %a[%i] signals %ac : memref<?x256xbf16>, !tcgen.buffer<smem, operand, 4 x 128x256xbf16>
    %j = tcgen.acquire %bc
    tcgen.expect %bc[%j] bytes 8192
    tcgen.tma_load %y[%c0, %c0], %b[%j] signals %bc : memref<?x64xbf16>, !tcgen.buffer<smem, operand, 4 x 64x64xbf16>
  }
  flamia.return
}

// -----

// 576 columns: the fourth product waits for vector code that has drained the first, so
// the two may share columns.
// CHECK-LABEL: flamia.kernel @shared_columns
// CHECK-SAME: tcgen.tmem_columns = 512 : i64
!d = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!p = !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
!b = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
flamia.kernel @shared_columns() parameters {} grid(1) {
  %b = tcgen.alloc : !b
  // CHECK: tcgen.alloc offset 0 : !tcgen.buffer<tmem
  // CHECK: tcgen.alloc offset 128 : !tcgen.buffer<tmem
  // CHECK: tcgen.alloc offset 256 : !tcgen.buffer<tmem
  // CHECK: tcgen.alloc offset 0 : !tcgen.buffer<tmem
  // CHECK: tcgen.alloc offset 384 : !tcgen.buffer<tmem
  %d0 = tcgen.alloc : !d
  %d1 = tcgen.alloc : !d
  %d2 = tcgen.alloc : !d
  %d3 = tcgen.alloc : !d
  %p = tcgen.alloc : !p
  %full = tcgen.channel slots 1 full 1 empty 4
  %next = tcgen.channel slots 1 full 4 empty 1
  %last = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    %i = tcgen.wait %full
    %t0 = tcgen.read %d0[%c0] : !d -> tensor<128x128xf32>
    %t = arith.truncf %t0 : tensor<128x128xf32> to tensor<128x128xbf16>
    tcgen.write %t, %p[%c0] : tensor<128x128xbf16>, !p
    tcgen.publish %next[%c0] by threads
    %j = tcgen.wait %last
    %t1 = tcgen.read %d1[%c0] : !d -> tensor<128x128xf32>
    %t2 = tcgen.read %d2[%c0] : !d -> tensor<128x128xf32>
    %t3 = tcgen.read %d3[%c0] : !d -> tensor<128x128xf32>
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    tcgen.mma %d0[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    tcgen.mma %d1[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    tcgen.publish %full[%c0] by mma
    tcgen.mma %d2[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    %i = tcgen.wait %next
    tcgen.mma %d3[%c0], %p[%c0], %b[%c0] major k accumulate %false : !d, !p, !b
    tcgen.publish %last[%c0] by mma
    tcgen.drain
  }
  flamia.return
}
