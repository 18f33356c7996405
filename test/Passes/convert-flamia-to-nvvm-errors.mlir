// RUN: flamia-opt %s --convert-flamia-to-nvvm --split-input-file --verify-diagnostics

flamia.kernel @rows_64(%x: memref<?x64xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{cannot be lowered: expected tiles of 128 rows (one a thread) or column vectors, but got 'tensor<64x64xf32>'}}
  %t = flamia.load %x[%c0, %c0] : memref<?x64xf32> -> tensor<64x64xf32>
  flamia.return
}

// -----

flamia.kernel @dynamic(%x: memref<?x?xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected a two-dimensional tile of static extents, but got 'tensor<128x?xf32>'}}
  %t = flamia.load %x[%c0, %c0] : memref<?x?xf32> -> tensor<128x?xf32>
  flamia.return
}

// -----

flamia.kernel @odd_bf16(%x: memref<?x3xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected rows of whole 32-bit words, but got 'tensor<128x3xbf16>'}}
  %t = flamia.load %x[%c0, %c0] : memref<?x3xbf16> -> tensor<128x3xbf16>
  flamia.return
}

// -----

flamia.kernel @f64(%x: memref<?x4xf32>) parameters {} grid(1) {
  // expected-error @below {{expected elements of type f32, bf16, f16, f8E4M3FN, f8E5M2, f4E2M1FN, i1 or i32, but got 'tensor<128x4xf64>'}}
  %t = arith.constant dense<0.0> : tensor<128x4xf64>
  flamia.return
}

// -----

flamia.kernel @no_offset(%x: memref<?x4xf32>) parameters {} grid(1) {
  // expected-error @below {{has no offset: run flamia-allocate-memory before convert-flamia-to-nvvm}}
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x32xbf16>
  flamia.return
}

// -----

// expected-error @below {{needs 301072 bytes of shared memory (300032 of buffers), but a CTA has at most 232448}}
flamia.kernel @smem_300k(%x: memref<?x4xf32>) parameters {} grid(1) {
  %b = tcgen.alloc offset 267264 : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "load" warps 1 {
  }
  flamia.return
}

// -----

// expected-error @below {{needs 1024 tensor memory columns, but an SM has 512}}
flamia.kernel @tmem_544(%x: memref<?x4xf32>) parameters {} grid(1) {
  %b = tcgen.alloc offset 416 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  flamia.return
}

// -----

flamia.kernel @dot(%x: memref<?x128xbf16>, %acc: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x128xbf16> -> tensor<128x128xbf16>
  // expected-error @below {{cannot be lowered: flamia-pipeline has to turn it into tcgen operations first}}
  %u = flamia.transpose %t : tensor<128x128xbf16> -> tensor<128x128xbf16>
  flamia.return
}

// -----

flamia.kernel @unbound(%x: memref<?x4xf32>) parameters {n = [1, 2]} grid(1) {
  // expected-error @below {{is not bound: run flamia-specialize first}}
  %n = flamia.param "n" : i32
  flamia.return
}

// -----

flamia.kernel @tall_blocks(%x: memref<?x32xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x32xf32> -> tensor<128x32xf32>
  // expected-error @below {{expected scale blocks that one warp's 32 rows hold, but got 64 rows}}
  %q = flamia.quantize %t : tensor<128x32xf32> -> !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 64x32>
  flamia.return
}

// -----

flamia.kernel @hadamard_96(%x: memref<?x96xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x96xf32> -> tensor<128x96xf32>
  // expected-error @below {{power of two}}
  %h = flamia.hadamard %t : tensor<128x96xf32>
  flamia.return
}

// -----

flamia.kernel @sine(%x: memref<?x4xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x4xf32> -> tensor<128x4xf32>
  // expected-error @below {{expected math.exp2, log2, ceil, floor, fma, absf, sqrt or rsqrt}}
  %h = math.sin %t : tensor<128x4xf32>
  flamia.return
}

// -----

flamia.kernel @uneven_constant(%x: memref<?x2xf32>) parameters {} grid(1) {
  // expected-error @below {{expected a tile constant with equal elements, or a column vector of f32}}
  %h = arith.constant sparse<[[0, 0]], [1.0]> : tensor<128x2xf32>
  flamia.return
}

// -----

flamia.kernel @other_tensor(%s: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %true = arith.constant true
  %t = arith.select %true, %s, %s : memref<?x128xbf16>
  // expected-error @below {{expected a tensor that is a kernel argument}}
  %d = flamia.dim %t[0] : memref<?x128xbf16>
  flamia.return
}

// -----

// expected-error @below {{expected a name of letters, digits and _, but got '../kernel'}}
flamia.kernel @"../kernel"(%s: memref<?x128xbf16>) parameters {} grid(1) {
  flamia.return
}

// -----

flamia.kernel @negative_row(%x: memref<?x4xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %row = arith.constant -128 : index
  // expected-error @below {{expected indices that are not negative, but got -128}}
  %t = flamia.load %x[%row, %c0] : memref<?x4xf32> -> tensor<128x4xf32>
  flamia.return
}

// -----

flamia.kernel @negative_column(%x: memref<?x4xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %col = arith.constant -4 : index
  %t = flamia.load %x[%c0, %c0] : memref<?x4xf32> -> tensor<128x4xf32>
  // expected-error @below {{expected indices that are not negative, but got -4}}
  flamia.store %t, %x[%c0, %col] : tensor<128x4xf32>, memref<?x4xf32>
  flamia.return
}

// -----

flamia.kernel @tma_column(%x: memref<?x128xbf16>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c12 = arith.constant 12 : index
  %b = tcgen.alloc offset 0 : !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  %ch = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "load" warps 1 {
    %i = tcgen.acquire %ch
    tcgen.expect %ch[%i] bytes 32768
    tcgen.tma_load %x[%c0, %c8], %b[%i] signals %ch : memref<?x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
    // expected-error @below {{expected tiles for TMA to start at a multiple of 16 bytes in the row, but got column 12 of 'memref<?x128xbf16>'}}
    tcgen.tma_load %x[%c0, %c12], %b[%i] signals %ch : memref<?x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  }
  flamia.return
}
