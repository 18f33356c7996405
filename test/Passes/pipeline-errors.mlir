// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-assign-roles,flamia-pipeline))" --split-input-file --verify-diagnostics

// The scales of x run along its columns; as a KxN right operand its rows are contracted.
!x = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
flamia.kernel @along(%x: memref<?x128xf8E4M3FN>, %xs: memref<?x?x512xf8E8M0FNU>, %o: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  // expected-error@+1 {{expected scales along rows, the axis that a product contracts, but got cols}}
  %t = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !x
  // expected-note@+1 {{the product}}
  %d = flamia.dot %t, %t, %zero : !x, !x -> tensor<128x128xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}

// -----

!x = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
flamia.kernel @scaled_in_vector(%x: memref<?x128xf8E4M3FN>, %xs: memref<?x?x512xf8E8M0FNU>, %o: memref<?x128xf8E4M3FN>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{a scaled tile is loaded only for products, but this one is used by vector code}}
  %t = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x128xf8E4M3FN>, memref<?x?x512xf8E8M0FNU> -> !x
  flamia.store_payload %t, %o[%c0, %c0] : !x, memref<?x128xf8E4M3FN>
  flamia.return
}

// -----

flamia.kernel @rows(%a: memref<?x128xbf16>, %o: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %a64 = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<64x128xbf16>
  %b = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  // expected-error@+1 {{expected a left operand of 128 rows, but got 64}}
  %d = flamia.dot %a64, %b, %zero : tensor<64x128xbf16>, tensor<128x128xbf16> -> tensor<64x128xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<64x128xf32>, memref<?x128xf32>
  flamia.return
}

// -----

flamia.kernel @columns(%a: memref<?x128xbf16>, %b: memref<?x24xbf16>, %o: memref<?x24xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x24xf32>
  %ta = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  %tb = flamia.load %b[%c0, %c0] : memref<?x24xbf16> -> tensor<128x24xbf16>
  // expected-error@+1 {{expected the right operand to have a multiple of 16 columns, but got 24}}
  %d = flamia.dot %ta, %tb, %zero : tensor<128x128xbf16>, tensor<128x24xbf16> -> tensor<128x24xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x24xf32>, memref<?x24xf32>
  flamia.return
}

// -----

!x4 = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 1x16>
!x4B = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x16>
flamia.kernel @f4(%x: memref<?x128xf4E2M1FN>, %xs: memref<?x?x2x512xf8E4M3FN>, %o: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %t = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !x4
  %u = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !x4B
  // expected-error@+1 {{expected operand 'b' of f4E2M1FN to be contracted along the columns of its tile in memory (K-major), but it is contracted along the rows of '!flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x16>'}}
  %d = flamia.dot %t, %u, %zero : !x4, !x4B -> tensor<128x128xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}

// -----

!x4 = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x16>
flamia.kernel @f4_left(%x: memref<?x128xf4E2M1FN>, %xs: memref<?x?x2x512xf8E4M3FN>, %o: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %t = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !x4
  %tT = flamia.transpose %t : !x4 -> !x4
  // expected-error@+1 {{expected operand 'a' of f4E2M1FN to be contracted along the columns of its tile in memory (K-major)}}
  %d = flamia.dot %tT, %tT, %zero : !x4, !x4 -> tensor<128x128xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
  flamia.return
}

// -----

!x4 = !flamia.scaled<128x128, f4E2M1FN by f8E4M3FN per 16x16>
flamia.kernel @f4_carried(%x: memref<?x128xf4E2M1FN>, %xs: memref<?x?x2x512xf8E4M3FN>, %o: memref<?x128xf32>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %t = flamia.load_scaled %x[%c0, %c0], %xs[%c0, %c0] along cols : memref<?x128xf4E2M1FN>, memref<?x?x2x512xf8E4M3FN> -> !x4
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%u = %t) -> (!x4) {
    %uT = flamia.transpose %u : !x4 -> !x4
    // expected-error@+1 {{expected operand 'a' of f4E2M1FN to be loaded by flamia.load_scaled: no other value becomes packed in shared memory}}
    %d = flamia.dot %u, %uT, %zero : !x4, !x4 -> tensor<128x128xf32>
    flamia.store %d, %o[%c0, %c0] : tensor<128x128xf32>, memref<?x128xf32>
    scf.yield %t : !x4
  }
  flamia.return
}

// -----

flamia.kernel @narrow(%a: memref<?x128xbf16>, %b: memref<?x48xbf16>, %o: memref<?x48xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<128x48xf32>
  %t = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  %u = flamia.load %b[%c0, %c0] : memref<?x48xbf16> -> tensor<128x48xbf16>
  // expected-error@+1 {{a tile in shared memory needs rows of 32, 64 or a multiple of 128 bytes, but 'tensor<128x48xbf16>' has 96}}
  %d = flamia.dot %t, %u, %zero : tensor<128x128xbf16>, tensor<128x48xbf16> -> tensor<128x48xf32>
  flamia.store %d, %o[%c0, %c0] : tensor<128x48xf32>, memref<?x48xf32>
  flamia.return
}

// -----

flamia.kernel @after_store(%a: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %t = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  // expected-note@+1 {{the store}}
  flamia.store %t, %a[%c128, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  // expected-error@+1 {{loads run ahead of stores: this one reads a tensor that the kernel may have written before}}
  %u = flamia.load %a[%c128, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  flamia.store %u, %a[%c0, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  flamia.return
}

// -----

// In a loop the store of one iteration comes before the load of the next.
flamia.kernel @after_store_in_loop(%a: memref<?x128xbf16>, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    // expected-error@+1 {{loads run ahead of stores}}
    %t = flamia.load %a[%i, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
    // expected-note@+1 {{the store}}
    flamia.store %t, %a[%i, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  }
  flamia.return
}

// -----

// A scalar that vector code computes cannot steer the loads.
flamia.kernel @data_dependent(%a: memref<?x128xbf16>, %o: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  // expected-error@+1 {{role 'load' needs this value, which role 'vector' makes, in a place where flamia-pipeline cannot hand it over}}
  %x = tensor.extract %t[%c0, %c0] : tensor<128x128xbf16>
  %i = arith.fptoui %x : bf16 to i32
  %n = arith.index_cast %i : i32 to index
  %u = flamia.load %a[%n, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  flamia.store %u, %o[%c0, %c0] : tensor<128x128xbf16>, memref<?x128xbf16>
  flamia.return
}

// -----

// The content is used after the next product overwrites it.
!t = tensor<128x128xbf16>
!f = tensor<128x128xf32>
flamia.kernel @lost(%a: memref<?x128xbf16>, %o: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : !f
  %t = flamia.load %a[%c0, %c0] : memref<?x128xbf16> -> !t
  // expected-remark@+1 {{accumulator passes through registers: its content is used after the next product overwrites it}}
  %d1 = flamia.dot %t, %t, %zero : !t, !t -> !f
  // expected-remark@+1 {{accumulator passes through registers}}
  %d2 = flamia.dot %t, %t, %d1 : !t, !t -> !f
  %s = arith.mulf %d1, %d2 : !f
  flamia.store %s, %o[%c0, %c0] : !f, memref<?x128xf32>
  flamia.return
}
