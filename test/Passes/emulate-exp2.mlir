// RUN: flamia-opt %s --flamia-emulate-exp2="share=1/4" --split-input-file | FileCheck %s
// RUN: flamia-opt %s --flamia-emulate-exp2="share=3/8" --split-input-file | FileCheck %s --check-prefix=EIGHT
// RUN: flamia-opt %s --flamia-emulate-exp2="share=1/1" --split-input-file | FileCheck %s --check-prefix=ALL
// RUN: flamia-opt %s --flamia-emulate-exp2="share=0" --split-input-file | FileCheck %s --check-prefix=NONE
// NONE-NOT: flamia.exp2 %

// What kernels say: the first nothing, the second something for sm_100a.
// RUN: flamia-opt %s --flamia-emulate-exp2 --split-input-file | FileCheck %s --check-prefix=OWN
// RUN: flamia-opt %s --flamia-emulate-exp2="arch=sm_103a" --split-input-file | FileCheck %s --check-prefix=NONE

// The kernels on sm_100a: all exponentials of scores in the forward and in dQ, none in dK,dV;
// none on sm_103a. Tiles of 128 start at block 0 of 4.
// RUN: flamiac %kernels/attention_fwd.mlir -arch=sm_100a --emit=flamia -o - | FileCheck %s --check-prefix=KERNEL
// RUN: flamiac %kernels/attention_fwd.mlir -arch=sm_100a -D causal=false --emit=flamia -o - | FileCheck %s --check-prefix=KERNEL
// RUN: flamiac %kernels/attention_bwd_dq.mlir -arch=sm_100a -D head_dim=64 --emit=flamia -o - | FileCheck %s --check-prefix=KERNEL
// RUN: flamiac %kernels/attention_bwd_dkdv.mlir -arch=sm_100a --exp2-emulation=1/4 --emit=flamia -o - | FileCheck %s --check-prefix=KERNEL
// RUN: flamiac %kernels/attention_bwd_dkdv.mlir -arch=sm_100a -D causal=false --exp2-emulation=1/4 --emit=flamia -o - | FileCheck %s --check-prefix=KERNEL
// KERNEL-DAG: %[[ZERO:c0[_0-9]*]] = arith.constant 0 : index
// KERNEL-NOT: math.exp2 {{.*}}x128xf32>
// KERNEL: flamia.exp2 %{{.*}} rows %c0{{[_0-9]*}} cols %c0{{[_0-9]*}} polynomial 1 of 4 : tensor<128x128xf32>
// KERNEL-NOT: math.exp2 {{.*}}x128xf32>
// RUN: flamiac %kernels/attention_fwd.mlir -arch=sm_103a --emit=flamia -o - | FileCheck %s --check-prefix=UNIT
// RUN: flamiac %kernels/attention_fwd.mlir -arch=sm_100a --exp2-emulation=0 --emit=flamia -o - | FileCheck %s --check-prefix=UNIT
// RUN: flamiac %kernels/attention_bwd_dkdv.mlir -arch=sm_100a --emit=flamia -o - | FileCheck %s --check-prefix=UNIT
// UNIT-NOT: flamia.exp2 %
// UNIT: math.exp2 {{.*}}tensor<128x128xf32>
// UNIT-NOT: flamia.exp2 %

!tile = tensor<128x128xf32>
!half = tensor<128x128xbf16>
!row = tensor<128x1xf32>
!rows = memref<?x128xbf16>

// Queries of one work item against all keys, masked, with a row's maximum, as the forward
// has it. The row vector stays.
// CHECK-LABEL: flamia.kernel @queries
// EIGHT-LABEL: flamia.kernel @queries
// ALL-LABEL: flamia.kernel @queries
// OWN-LABEL: flamia.kernel @queries
// OWN-NOT: flamia.exp2 %
flamia.kernel @queries(%q: !rows, %k: !rows, %m: memref<?xf32>, %work: memref<?x4xi32>, %p: memref<?x128xf32>) grid(work[0]) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !tile
  %begin, %end, %tile, %scale_base = flamia.work_item %work : memref<?x4xi32>
  %offset = arith.muli %tile, %c128 : index
  // EIGHT: %[[Q:.*]] = arith.addi %[[BEGIN:[^,]*]], %
  %row = arith.addi %begin, %offset : index
  %last = arith.addi %tile, %c1 : index
  %a = flamia.load %q[%row, %c0] limit %end : !rows -> !half
  scf.for %j = %c0 to %last step %c1 {
    %key_offset = arith.muli %j, %c128 : index
    // EIGHT: %[[K:.*]] = arith.addi %[[BEGIN]], %
    %key = arith.addi %begin, %key_offset : index
    %b = flamia.load %k[%key, %c0] limit %end : !rows -> !half
    %t = flamia.transpose %b : !half -> !half
    %s = flamia.dot %a, %t, %zero : !half, !half -> !tile
    %max = flamia.reduce max %s : !tile -> !row
    // CHECK: math.exp2 %{{.*}} : tensor<128x1xf32>
    // ALL: math.exp2 %{{.*}} : tensor<128x1xf32>
    %alpha = math.exp2 %max : !row
    %alphas = flamia.broadcast %alpha : !row -> !tile
    %x = arith.subf %s, %alphas : !tile
    %seen = flamia.mask %x rows %row cols %key causal limit %end : !tile
    // CHECK: flamia.exp2 %{{.*}} rows %c0{{[_0-9]*}} cols %c0{{[_0-9]*}} polynomial 1 of 4 : tensor<128x128xf32>
    // EIGHT: %[[ROWS:.*]] = arith.subi %[[Q]], %[[BEGIN]] : index
    // EIGHT: %[[COLS:.*]] = arith.subi %[[K]], %[[BEGIN]] : index
    // EIGHT: flamia.exp2 %{{.*}} rows %[[ROWS]] cols %[[COLS]] polynomial 3 of 8 : tensor<128x128xf32>
    // ALL: flamia.exp2 %{{.*}} rows %c0{{[_0-9]*}} cols %c0{{[_0-9]*}} polynomial 1 of 1 : tensor<128x128xf32>
    %e = math.exp2 %seen : !tile
    flamia.store %e, %p[%row, %c0] limit %end : !tile, memref<?x128xf32>
  }
  flamia.return
}

// -----

!tile = tensor<128x64xf32>
!half = tensor<128x128xbf16>
!narrow = tensor<64x128xbf16>
!narrowT = tensor<128x64xbf16>
!rows = memref<?x128xbf16>

// Without work items a position is what the load says. Tiles of 64 rows start at block 0 or
// 2 of 4, which is known only at run time; an offset of 32 is block 1.
// CHECK-LABEL: flamia.kernel @no_documents
// ALL-LABEL: flamia.kernel @no_documents
// OWN-LABEL: flamia.kernel @no_documents
// OWN: flamia.exp2 {{.*}} polynomial 3 of 8
flamia.kernel @no_documents(%q: !rows, %k: !rows, %p: memref<?x64xf32>)
    grid(q[0] ceildiv 128) attributes {flamia.exp2_emulation = {sm_100a = "3/8"}} {
  %c0 = arith.constant 0 : index
  // CHECK: %[[C32:.*]] = arith.constant 32 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : !tile
  // CHECK: %[[I:.*]] = flamia.program_id x
  %i = flamia.program_id x
  // CHECK: %[[KEY:.*]] = arith.muli %[[I]], %c64
  %key = arith.muli %i, %c64 : index
  %offset = arith.muli %i, %c128 : index
  %row = arith.addi %offset, %c32 : index
  %a = flamia.load %q[%row, %c0] : !rows -> !half
  %b = flamia.load %k[%key, %c0] : !rows -> !narrow
  %t = flamia.transpose %b : !narrow -> !narrowT
  %s = flamia.dot %a, %t, %zero : !half, !narrowT -> !tile
  // CHECK: %[[ROW:c32[_0-9]*]] = arith.constant 32 : index
  // CHECK: flamia.exp2 %{{.*}} rows %[[ROW]] cols %[[KEY]] polynomial 1 of 4 : tensor<128x64xf32>
  // ALL: flamia.exp2 %{{.*}} rows %c0{{[_0-9]*}} cols %c0{{[_0-9]*}} polynomial 1 of 1
  %e = math.exp2 %s : !tile
  flamia.store %e, %p[%row, %c0] : !tile, memref<?x64xf32>
  flamia.return
}
