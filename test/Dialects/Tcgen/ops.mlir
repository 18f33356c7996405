// Every operation and type of the dialect, printed as it was read.

// RUN: flamia-opt %s | flamia-opt | FileCheck %s
// RUN: flamia-opt %s --mlir-print-op-generic | flamia-opt | FileCheck %s

// CHECK-LABEL: flamia.kernel @products
flamia.kernel @products(%q: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %o: memref<?x128xf32>) parameters {} grid(q[0] ceildiv 128, q[1]) {
  // CHECK: %[[IMAGE:.*]] = tcgen.alloc : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>
  %image = tcgen.alloc : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>
  %rows = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  // CHECK: %[[SMEM:.*]] = tcgen.alloc offset 32768 : !tcgen.buffer<smem, scales, 2 x 128x4xf8E8M0FNU>
  %smem = tcgen.alloc offset 32768 : !tcgen.buffer<smem, scales, 2 x 128x4xf8E8M0FNU>
  // CHECK: %[[TMEM:.*]] = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %tmem = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  // CHECK: %[[ONES:.*]] = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %ones = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  // CHECK: tcgen.fill_scales %[[ONES]] byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.fill_scales %ones byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  // CHECK: %[[ACC:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %acc = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // CHECK: %[[LEFT:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  %left = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  // CHECK: %[[LOADS:.*]] = tcgen.channel slots 2 full 1 empty 1
  %loads = tcgen.channel slots 2 full 1 empty 1
  %results = tcgen.channel slots 1 full 1 empty 4
  %lefts = tcgen.channel slots 1 full 4 empty 1

  // CHECK: tcgen.role "vector" warps 4 {
  tcgen.role "vector" warps 4 {
    // CHECK: %[[W:.*]] = tcgen.wait
    %slot = tcgen.wait %results
    // CHECK: tcgen.read %[[ACC]][%[[W]]] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    %t = tcgen.read %acc[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
    // CHECK: %{{.*}}, %{{.*}} = tcgen.read_max %[[ACC]][%[[W]]] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
    %whole, %top = tcgen.read_max %acc[%slot] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
    // CHECK: %[[PART:.*]] = tcgen.read %[[ACC]][%[[W]]] col 32 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x32xf32>
    %part = tcgen.read %acc[%slot] col 32 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x32xf32>
    // CHECK: %[[CUT:.*]] = tcgen.slice %{{.*}} col 64 : tensor<128x128xf32> -> tensor<128x32xf32>
    %cut = tcgen.slice %t col 64 : tensor<128x128xf32> -> tensor<128x32xf32>
    // CHECK: tcgen.join %[[PART]], %[[CUT]] : tensor<128x32xf32>, tensor<128x32xf32> -> tensor<128x64xf32>
    %both = tcgen.join %part, %cut : tensor<128x32xf32>, tensor<128x32xf32> -> tensor<128x64xf32>
    // CHECK: tcgen.write %{{.*}}, %[[ACC]][%[[W]]] col 64 : tensor<128x64xf32>
    tcgen.write %both, %acc[%slot] col 64 : tensor<128x64xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
    // CHECK: tcgen.release %{{.*}}[%[[W]]] by threads
    tcgen.release %results[%slot] by threads
    %t8 = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    %free = tcgen.acquire %lefts
    // CHECK: tcgen.write %[[T8:.*]], %[[LEFT]][%{{.*}}] : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
    tcgen.write %t8, %left[%free] : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
    // CHECK: tcgen.write_scales %[[T8]], %[[SMEM]][%{{.*}}] along cols
    tcgen.write_scales %t8, %smem[%free] along cols : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<smem, scales, 2 x 128x4xf8E8M0FNU>
    %c0_1 = arith.constant 0 : index
    %row = flamia.load %o[%c0_1, %c0_1] : memref<?x128xf32> -> tensor<128x1xf32>
    // CHECK: tcgen.any_differs %{{.*}} from 1.000000e+00 : tensor<128x1xf32>
    %differs = tcgen.any_differs %row from 1.0 : tensor<128x1xf32>
    // CHECK: tcgen.fill_scales %[[TMEM]] byte 127
    // CHECK: tcgen.publish %{{.*}}[%{{.*}}] by threads
    tcgen.fill_scales %tmem byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    tcgen.publish %lefts[%free] by threads
  }

  // CHECK: tcgen.role "load" warps 1 {
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    // CHECK: tcgen.drained %[[LOADS]]
    tcgen.drained %loads
    // CHECK: %[[FREE:.*]] = tcgen.acquire %[[LOADS]]
    %slot = tcgen.acquire %loads
    // CHECK: tcgen.expect %[[LOADS]][%[[FREE]]] bytes 16896
    tcgen.expect %loads[%slot] bytes 16896
    // CHECK: tcgen.tma_load %q[%[[C0:.*]], %[[C0]], %[[C0]]] limit %[[C0]], %[[IMAGE]][%[[FREE]]] signals %[[LOADS]]
    tcgen.tma_load %q[%c0, %c0, %c0] limit %c0, %image[%slot] signals %loads
      : memref<?x?x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>
    // CHECK: tcgen.bulk_load %s[%[[C0]], %[[C0]]], %[[SMEM]][%[[FREE]]] signals %[[LOADS]]
    tcgen.bulk_load %s[%c0, %c0], %smem[%slot] signals %loads
      : memref<?x?x512xf8E8M0FNU>, !tcgen.buffer<smem, scales, 2 x 128x4xf8E8M0FNU>
  }

  // CHECK: tcgen.role "mma" warps 1 {
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // CHECK: %[[FULL:.*]] = tcgen.wait %[[LOADS]]
    %slot = tcgen.wait %loads
    // CHECK: tcgen.copy_scales %[[SMEM]][%[[FULL]]], %[[TMEM]][%{{.*}}]
    tcgen.copy_scales %smem[%slot], %tmem[%c0] : !tcgen.buffer<smem, scales, 2 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    // CHECK: tcgen.copy_operand %[[IMAGE]][%[[FULL]]], %[[ROWS:.*]][%{{.*}}] : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
    tcgen.copy_operand %image[%slot], %rows[%c0] : !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
    // CHECK: tcgen.mma %[[ACC]][%{{.*}}], %[[IMAGE]][%[[FULL]]], %[[IMAGE]][%[[FULL]]] scales %[[TMEM]][%{{.*}}], %[[ONES]][%{{.*}}] major k accumulate %{{.*}}
    tcgen.mma %acc[%c0], %image[%slot], %image[%slot] scales %tmem[%c0], %ones[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 2 x 128x128xf8E4M3FN>,
        !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
    // CHECK: tcgen.publish %{{.*}}[%{{.*}}] by mma
    tcgen.publish %results[%c0] by mma
    // CHECK: tcgen.release %[[LOADS]][%[[FULL]]] by mma
    tcgen.release %loads[%slot] by mma
    // CHECK: tcgen.drain
    tcgen.drain
  }
  flamia.return
}

// A transposed left operand: the image of a is KxM.
// CHECK-LABEL: flamia.kernel @transposed_left
flamia.kernel @transposed_left() parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %true = arith.constant true
    // CHECK: tcgen.mma %{{.*}} major mn a_major mn accumulate
    tcgen.mma %d[%c0], %a[%c0], %a[%c0] major mn a_major mn accumulate %true
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
    tcgen.drain
  }
  flamia.return
}

// Two 16-bit operands have no scales; an image of 64 columns has one slab of 128 bytes.
// CHECK-LABEL: flamia.kernel @bf16
flamia.kernel @bf16() parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %true = arith.constant true
    // CHECK: tcgen.mma %{{.*}} major mn accumulate
    // CHECK-NOT: scales
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major mn accumulate %true
      : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
    tcgen.drain
  }
  flamia.return
}

// A row in shared memory that every thread reads.
// CHECK-LABEL: flamia.kernel @line
flamia.kernel @line(%v: memref<?x?x128xf32>) parameters {} grid(1) {
  // CHECK: %[[LINE:.*]] = tcgen.alloc : !tcgen.buffer<smem, line, 2 x 1x128xf32>
  %line = tcgen.alloc : !tcgen.buffer<smem, line, 2 x 1x128xf32>
  %loads = tcgen.channel slots 2 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %slot = tcgen.wait %loads
    // CHECK: tcgen.read %[[LINE]][%{{.*}}] col 64 : !tcgen.buffer<smem, line, 2 x 1x128xf32> -> tensor<1x64xf32>
    %t = tcgen.read %line[%slot] col 64 : !tcgen.buffer<smem, line, 2 x 1x128xf32> -> tensor<1x64xf32>
    tcgen.release %loads[%slot] by threads
  }
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %slot = tcgen.acquire %loads
    tcgen.expect %loads[%slot] bytes 512
    // CHECK: tcgen.bulk_load %v[%[[C0:.*]], %[[C0]]], %[[LINE]][%{{.*}}] signals
    tcgen.bulk_load %v[%c0, %c0], %line[%slot] signals %loads : memref<?x?x128xf32>, !tcgen.buffer<smem, line, 2 x 1x128xf32>
  }
  flamia.return
}

// Two warpgroups, each with its columns of what the buffers hold.
// CHECK-LABEL: flamia.kernel @groups
flamia.kernel @groups() parameters {} grid(1) {
  %acc = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %sf = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %line = tcgen.alloc : !tcgen.buffer<smem, line, 2 x 1x128xf32>
  // CHECK: tcgen.role "vector" warps 8 {
  tcgen.role "vector" warps 8 {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    // CHECK: %[[GROUP:.*]] = tcgen.group
    %group = tcgen.group
    %first = arith.muli %group, %c64 : index
    %block = arith.muli %group, %c2 : index
    // CHECK: tcgen.part %{{.*}} from %{{.*}} : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    %mine = tcgen.part %acc from %first : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    // CHECK: tcgen.part %{{.*}} from %{{.*}} : !tcgen.buffer<smem, line, 2 x 1x128xf32> -> !tcgen.buffer<smem, line, 2 x 1x64xf32>
    %part = tcgen.part %line from %first : !tcgen.buffer<smem, line, 2 x 1x128xf32> -> !tcgen.buffer<smem, line, 2 x 1x64xf32>
    // CHECK: tcgen.part %{{.*}} from %{{.*}} : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU> -> !tcgen.buffer<smem, scales, 1 x 128x2xf8E8M0FNU>
    %bytes = tcgen.part %sf from %block : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU> -> !tcgen.buffer<smem, scales, 1 x 128x2xf8E8M0FNU>
    %t = tcgen.read %mine[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32> -> tensor<128x64xf32>
    %b = tcgen.read %part[%c0] : !tcgen.buffer<smem, line, 2 x 1x64xf32> -> tensor<1x64xf32>
    %q = flamia.quantize %t : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>
    tcgen.write_scales %q, %bytes[%c0] along cols : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<smem, scales, 1 x 128x2xf8E8M0FNU>
  }
  flamia.return
}
