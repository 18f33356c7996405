// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-split-columns))" -split-input-file | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-split-columns{max-registers=512}))" -split-input-file | FileCheck %s --check-prefix=WHOLE

!f = tensor<128x128xf32>
!made = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!acc = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!left = !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
!scales = !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>

// Two results of products that are needed at once. The first is read at once, as long as
// registers hold it; a quarter of what is made of it waits in tensor memory. The second is
// read chunk by chunk, and released behind the last chunk.
// WHOLE-LABEL: flamia.kernel @gradient
// WHOLE-NOT: col {{[0-9]}}
// WHOLE: flamia.return
// CHECK-LABEL: flamia.kernel @gradient
// CHECK: %[[KEPT:.*]] = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
flamia.kernel @gradient(%v: memref<4x128xf32>, %n: index) parameters {} grid(1) {
  %s = tcgen.alloc : !acc
  %dp = tcgen.alloc : !acc
  %ds = tcgen.alloc : !left
  %sf = tcgen.alloc : !scales
  %sch = tcgen.channel slots 1 full 1 empty 4
  %dpch = tcgen.channel slots 1 full 1 empty 4
  %dsch = tcgen.channel slots 1 full 4 empty 1
  // CHECK: tcgen.role "vector" warps 4 {
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    // CHECK: %[[S:.*]] = tcgen.wait
    // CHECK: %[[TILE:.*]] = tcgen.read %{{.*}}[%[[S]]] : {{.*}} -> tensor<128x128xf32>
    // CHECK-NEXT: tcgen.release %{{.*}}[%[[S]]] by threads
    %slot = tcgen.wait %sch
    %t = tcgen.read %s[%slot] : !acc -> !f
    tcgen.release %sch[%slot] by threads
    // CHECK: %[[FIRST:.*]] = tcgen.slice %[[TILE]] col 0 : tensor<128x128xf32> -> tensor<128x16xf32>
    // CHECK-NEXT: %[[P0:.*]] = math.exp2 %[[FIRST]] : tensor<128x16xf32>
    // CHECK: tcgen.slice %[[TILE]] col 112
    // CHECK-NEXT: %[[P7:.*]] = math.exp2
    // CHECK-NEXT: tcgen.write %[[P7]], %[[KEPT]][%{{.*}}] col 16
    // CHECK-NOT: tcgen.join
    %p = math.exp2 %t : !f
    // CHECK: %[[DP:.*]] = tcgen.wait
    %slot2 = tcgen.wait %dpch
    %d = tcgen.read %dp[%slot2] : !acc -> !f
    tcgen.release %dpch[%slot2] by threads
    // The load of the column vector is taken along, and split.
    %col = flamia.load %v[%n, %c0] : memref<4x128xf32> -> tensor<1x128xf32>
    %cols = flamia.broadcast %col : tensor<1x128xf32> -> !f
    %x = arith.subf %d, %cols : !f
    %y = arith.mulf %p, %x : !f
    // CHECK: %[[FREE:.*]] = tcgen.acquire
    // CHECK-NEXT: %[[D0:.*]] = tcgen.read %{{.*}}[%[[DP]]] : {{.*}} -> tensor<128x32xf32>
    // CHECK: %[[V0:.*]] = flamia.load %v[%n, %{{.*}}] : memref<4x128xf32> -> tensor<1x16xf32>
    // CHECK: %[[HALF:.*]] = tcgen.slice %[[D0]] col 0 : tensor<128x32xf32> -> tensor<128x16xf32>
    // CHECK: %[[B0:.*]] = flamia.broadcast %[[V0]]
    // CHECK: %[[X0:.*]] = arith.subf %[[HALF]], %[[B0]] : tensor<128x16xf32>
    // CHECK: %[[Y0:.*]] = arith.mulf %[[P0]], %[[X0]]
    // CHECK: %[[Y1:.*]] = arith.mulf
    // CHECK: %[[JOINED:.*]] = tcgen.join %[[Y0]], %[[Y1]]
    // CHECK: %[[Q0:.*]] = flamia.quantize %[[JOINED]] : tensor<128x32xf32>
    // CHECK-NEXT: tcgen.write %[[Q0]], %{{.*}}[%[[FREE]]] :
    // CHECK: tcgen.read %{{.*}}[%[[DP]]] col 96
    // CHECK-NEXT: tcgen.release %{{.*}}[%[[DP]]] by threads
    // CHECK: %[[BACK:.*]] = tcgen.read %[[KEPT]][%{{.*}}] col 16
    // CHECK: arith.mulf %[[BACK]]
    // CHECK: %[[ALL:.*]] = tcgen.join {{.*}} -> !flamia.scaled<128x128
    // CHECK: tcgen.write_scales %[[ALL]]
    %q = flamia.quantize %y : !f -> !made
    %free = tcgen.acquire %dsch
    tcgen.write %q, %ds[%free] : !made, !left
    tcgen.write_scales %q, %sf[%free] along cols : !made, !scales
    tcgen.publish %dsch[%free] by threads
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %a = tcgen.acquire %sch
    tcgen.publish %sch[%a] by mma
    %b = tcgen.acquire %dpch
    tcgen.publish %dpch[%b] by mma
    %w = tcgen.wait %dsch
    tcgen.release %dsch[%w] by mma
    tcgen.drain
  }
  flamia.return
}

// -----

!f = tensor<128x128xf32>
!row = tensor<128x1xf32>
!acc = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>

// Sums go on in eight columns, chunk after chunk, as flamia.reduce adds them; what needs
// the sum follows the last chunk. A slot that only a later read makes free is acquired
// where it was.
// CHECK-LABEL: flamia.kernel @sums
flamia.kernel @sums(%o: memref<?x1xf32>) parameters {} grid(1) {
  %s = tcgen.alloc : !acc
  %sch = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    // CHECK: %[[A:.*]] = tcgen.wait
    // CHECK: %[[T:.*]] = tcgen.read %{{.*}}[%[[A]]] :
    %slot = tcgen.wait %sch
    %t = tcgen.read %s[%slot] : !acc -> !f
    tcgen.release %sch[%slot] by threads
    // CHECK: %[[B:.*]] = tcgen.wait
    // CHECK: %[[U0:.*]] = tcgen.read %{{.*}}[%[[B]]] : {{.*}} -> tensor<128x32xf32>
    %slot2 = tcgen.wait %sch
    %u = tcgen.read %s[%slot2] : !acc -> !f
    tcgen.release %sch[%slot2] by threads
    // CHECK: %[[P0:.*]] = arith.mulf {{.*}} : tensor<128x16xf32>
    // CHECK: %[[LOW:.*]] = tcgen.slice %[[P0]] col 0 : tensor<128x16xf32> -> tensor<128x8xf32>
    // CHECK: %[[HIGH:.*]] = tcgen.slice %[[P0]] col 8
    // CHECK: %[[SUM1:.*]] = arith.addf %[[LOW]], %[[HIGH]] : tensor<128x8xf32>
    // CHECK: %[[MAX0:.*]] = flamia.reduce max %[[P0]] : tensor<128x16xf32>
    // CHECK: arith.addf %[[SUM1]]
    // CHECK: arith.maxnumf %[[MAX0]]
    // CHECK: %[[SUM:.*]] = flamia.reduce sum %{{.*}} : tensor<128x8xf32> -> tensor<128x1xf32>
    // CHECK: arith.addf %[[SUM]], %{{.*}} : tensor<128x1xf32>
    %p = arith.mulf %t, %u : !f
    %sum = flamia.reduce sum %p : !f -> !row
    %max = flamia.reduce max %p : !f -> !row
    %both = arith.addf %sum, %max : !row
    // CHECK: flamia.store
    flamia.store %both, %o[%c0, %c0] : !row, memref<?x1xf32>
  }
  tcgen.role "mma" warps 1 {
    %a = tcgen.acquire %sch
    tcgen.publish %sch[%a] by mma
    %b = tcgen.acquire %sch
    tcgen.publish %sch[%b] by mma
    tcgen.drain
  }
  flamia.return
}
