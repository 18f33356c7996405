// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles))" --split-input-file --verify-diagnostics

flamia.kernel @wrong_role(%a: memref<?x128xbf16>, %o: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected role 'load' or 'vector', but got 'mma'}}
  %t = flamia.load %a[%c0, %c0] {flamia.role = "mma"} : memref<?x128xbf16> -> tensor<128x128xbf16>
  flamia.store %t, %o[%c0, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  flamia.return
}

// -----

flamia.kernel @scalar_role(%o: memref<?x128xbf16>) parameters {} grid(1) {
  // expected-error@+1 {{operations on scalars, control flow and transposes have no role, but got 'load'}}
  %i = flamia.program_id x {flamia.role = "load"}
  flamia.return
}

// -----

flamia.kernel @transposed_value(%a: memref<?x128xf32>, %o: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %a[%c0, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  // expected-error@+1 {{a transpose is supported only as an operand of flamia.dot, or of a row vector that is stored}}
  %tT = flamia.transpose %t : tensor<128x128xf32> -> tensor<128x128xf32>
  // expected-note@+1 {{used here}}
  flamia.store %tT, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}

// -----

flamia.kernel @while(%n: index) parameters {} grid(1) {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{expected scf.for or scf.if, but got control flow of another kind ('scf.while')}}
  %r = scf.while (%i = %n) : (index) -> index {
    %c = arith.cmpi ne, %i, %c1 : index
    scf.condition(%c) %i : index
  } do {
  ^bb0(%i: index):
    %next = arith.subi %i, %c1 : index
    scf.yield %next : index
  }
  flamia.return
}
