// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles))" | FileCheck %s
// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles{opt-level=0}))" | FileCheck %s --check-prefix=ONE

// Tile loads, products and the rest; row and column vectors are loaded by the threads
// that hold them; scalars, control flow and transposes have no role.
// CHECK-LABEL: flamia.kernel @roles
// ONE-LABEL: flamia.kernel @roles
flamia.kernel @roles(%a: memref<?x128xbf16>, %bias: memref<?xf32>, %m: memref<?xf32>, %o: memref<?x128xf32>) parameters {} grid(a[0] ceildiv 128) {
  // CHECK: arith.constant 0 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: arith.constant {flamia.role = "vector"} dense<0.0
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  // CHECK: flamia.program_id x
  // CHECK-NOT: flamia.role
  %i = flamia.program_id x
  // CHECK: flamia.load %a{{.*}} {flamia.role = "load"}
  // ONE: flamia.load %a{{.*}} {flamia.role = "vector"}
  %t = flamia.load %a[%i, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  // CHECK: flamia.load %bias{{.*}} {flamia.role = "vector"}
  %column = flamia.load %bias[%i] : memref<?xf32> -> tensor<1x128xf32>
  // CHECK: scf.for
  scf.for %j = %c0 to %i step %c1 {
    // CHECK: flamia.transpose %{{[0-9a-z]*}} :
    %tT = flamia.transpose %t : tensor<128x128xbf16> -> tensor<128x128xbf16>
    // CHECK: flamia.dot {{.*}} {flamia.role = "mma"}
    // ONE: flamia.dot {{.*}} {flamia.role = "vector"}
    %d = flamia.dot %t, %tT, %zero : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xf32>
    // CHECK: flamia.broadcast {{.*}} {flamia.role = "vector"}
    %b = flamia.broadcast %column : tensor<1x128xf32> -> tensor<128x128xf32>
    // CHECK: arith.addf {{.*}} {flamia.role = "vector"}
    %s = arith.addf %d, %b : tensor<128x128xf32>
    // CHECK: flamia.store {{.*}} {flamia.role = "vector"}
    flamia.store %s, %o[%i, %c0] : tensor<128x128xf32>, memref<?x128xf32>
    // CHECK-NOT: flamia.role
  }
  flamia.return
}

// What a tensor map cannot load, the threads load: a column offset or a row stride that is
// not a multiple of 16 bytes, rows of another length than swizzles have, four dimensions.
// CHECK-LABEL: flamia.kernel @no_tensor_map
flamia.kernel @no_tensor_map(%a: memref<?x256xbf16>, %b: memref<?x57xbf16>, %c: memref<?x2x2x64xbf16>, %o: memref<?x64xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %i = flamia.program_id x
  %i8 = arith.muli %i, %c8 : index
  // CHECK: flamia.load %a[%{{.*}}, %c1] {flamia.role = "vector"}
  %t1 = flamia.load %a[%c0, %c1] : memref<?x256xbf16> -> tensor<128x64xbf16>
  // CHECK: flamia.load %a[%{{.*}}, %c8] {flamia.role = "load"}
  %t2 = flamia.load %a[%c0, %c8] : memref<?x256xbf16> -> tensor<128x64xbf16>
  // CHECK: flamia.load %a{{.*}} {flamia.role = "vector"}
  %t3 = flamia.load %a[%c0, %i] : memref<?x256xbf16> -> tensor<128x64xbf16>
  // CHECK: flamia.load %a{{.*}} {flamia.role = "load"}
  %t4 = flamia.load %a[%c0, %i8] : memref<?x256xbf16> -> tensor<128x64xbf16>
  // CHECK: flamia.load %a{{.*}} {flamia.role = "vector"} : {{.*}} -> tensor<128x48xbf16>
  %t5 = flamia.load %a[%c0, %c0] : memref<?x256xbf16> -> tensor<128x48xbf16>
  // CHECK: flamia.load %b{{.*}} {flamia.role = "vector"}
  %t6 = flamia.load %b[%c0, %c0] : memref<?x57xbf16> -> tensor<128x64xbf16>
  // CHECK: flamia.load %c{{.*}} {flamia.role = "vector"}
  %t7 = flamia.load %c[%c0, %c0, %c0, %c0] : memref<?x2x2x64xbf16> -> tensor<128x64xbf16>
  flamia.return
}

// A role that is given stays.
// CHECK-LABEL: flamia.kernel @given
flamia.kernel @given(%a: memref<?x128xbf16>, %o: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // CHECK: flamia.load {{.*}} {flamia.role = "vector"}
  %t = flamia.load %a[%c0, %c0] {flamia.role = "vector"} : memref<?x128xbf16> -> tensor<128x128xbf16>
  flamia.store %t, %o[%c0, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  flamia.return
}
