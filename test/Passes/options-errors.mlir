// Numbers that options of passes do not take: an error that names option, limit and value.

// RUN: not flamia-opt %s --flamia-merge-loops="min-operations=-5" 2>&1 | FileCheck %s --check-prefix=MERGE -DGIVEN=-5
// RUN: not flamia-opt %s --flamia-merge-loops="min-operations=0" 2>&1 | FileCheck %s --check-prefix=MERGE -DGIVEN=0
// MERGE: error: flamia-merge-loops: expected min-operations >= 1, but got [[GIVEN]]
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-split-columns{max-registers=0}))" 2>&1 | FileCheck %s --check-prefix=SPLIT -DGIVEN=0
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-split-columns{max-registers=-192}))" 2>&1 | FileCheck %s --check-prefix=SPLIT -DGIVEN=-192
// SPLIT: error: flamia-split-columns: expected max-registers >= 1, but got [[GIVEN]]
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-pipeline{max-stages=0}))" 2>&1 | FileCheck %s --check-prefix=STAGES -DGIVEN=0
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-pipeline{max-stages=65}))" 2>&1 | FileCheck %s --check-prefix=STAGES -DGIVEN=65
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-pipeline{max-stages=1000000000000}))" 2>&1 | FileCheck %s --check-prefix=STAGES -DGIVEN=1000000000000
// STAGES: error: flamia-pipeline: expected max-stages from 1 to 64, but got [[GIVEN]]
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles{opt-level=4}))" 2>&1 | FileCheck %s --check-prefix=LEVEL -DGIVEN=4
// LEVEL: error: {{.*}}opt-level{{.*}}[[GIVEN]]
// RUN: not flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles{opt-level=-1}))" 2>&1 | FileCheck %s --check-prefix=SIGN
// SIGN: opt-level option: '-1' value invalid
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline{max-stages=64},flamia-split-columns{max-registers=1}))" | FileCheck %s
// CHECK: tcgen.role "vector" warps 4

flamia.kernel @k(%a: memref<?x128xbf16>, %o: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  flamia.store %t, %o[%c0, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  flamia.return
}

llvm.func @f() {
  llvm.return
}
