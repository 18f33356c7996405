// RUN: flamia-opt %s --convert-flamia-to-nvvm=arch=sm_90 --split-input-file --verify-diagnostics
// RUN: not flamia-opt %s --convert-flamia-to-nvvm=arch=sm_120a --split-input-file 2>&1 | FileCheck %s
// RUN: flamia-opt %s --convert-flamia-to-nvvm=arch=sm_103a --split-input-file -o %t

// CHECK: error: 'flamia.kernel' op tensor memory not available on sm_120a (available on sm_100a, sm_103a)
// expected-error @below {{tensor memory not available on sm_90 (available on sm_100a, sm_103a)}}
flamia.kernel @tensor_memory(%x: memref<?x4xf32>) parameters {} grid(1) {
  %b = tcgen.alloc offset 0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  flamia.return
}

// -----

// Roles, barriers and TMA exist on sm_90 as well.
flamia.kernel @loads_only(%x: memref<?x64xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  %ch = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "load" warps 1 {
    %i = tcgen.acquire %ch
    tcgen.expect %ch[%i] bytes 16384
    tcgen.tma_load %x[%c0, %c0], %b[%i] signals %ch : memref<?x64xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  }
  flamia.return
}
