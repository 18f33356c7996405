// RUN: not flamia-opt %s --convert-flamia-to-nvvm=arch=sm_100a 2>&1 | FileCheck %s
// RUN: flamia-opt %s --convert-flamia-to-nvvm=arch=sm_103a | FileCheck %s --check-prefix=LOWERED

// CHECK: error: 'tcgen.read_max' op cannot be lowered: tcgen05.ld.red is not available on sm_100a (available on sm_103a)
// LOWERED-COUNT-4: llvm.inline_asm has_side_effects "tcgen05.ld.red.sync.aligned.32x32b.x32.max.f32
// LOWERED: nvvm.tcgen05.wait <load>
flamia.kernel @max(%y: memref<128x1xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "vector" warps 4 {
    %t, %m = tcgen.read_max %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
    flamia.store %m, %y[%c0, %c0] : tensor<128x1xf32>, memref<128x1xf32>
  }
  flamia.return
}
