// What the dialect's types and operations refuse.

// RUN: flamia-opt %s --split-input-file --verify-diagnostics

// Buffer types.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected positive slots and extents, but got 0 x 128x128}}
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 0 x 128x128xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected rows of 32, 64 or a multiple of 128 bytes, but got 24 elements of 'bf16'}}
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x24xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected a multiple of 8, at most 256, rows, but got 264}}
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 264x64xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected a multiple of 8, at most 256, rows, but got 20}}
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 20x64xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{layout operand does not exist in tmem}}
  %a = tcgen.alloc : !tcgen.buffer<tmem, operand, 1 x 128x64xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{layout lanes does not exist in smem}}
  %a = tcgen.alloc : !tcgen.buffer<smem, lanes, 1 x 128x64xf32>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected at most 128 rows of whole 32-bit columns in tensor memory, but got 256x64x'f32'}}
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 256x64xf32>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected at most 128 rows of whole 32-bit columns in tensor memory, but got 128x3x'bf16'}}
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x3xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected scales of 8 bits, but got 'f32'}}
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf32>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected an integer or floating-point element, but got 'index'}}
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xindex>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected <smem|tmem, operand|scales|lanes|line, SLOTS x ROWSxCOLSxELEMENT>}}
  %a = tcgen.alloc : !tcgen.buffer<gmem, operand, 1 x 128x128xbf16>
  flamia.return
}

// -----

// Memory and channels.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected an offset of at least 0, but got -1}}
  %a = tcgen.alloc offset -1 : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    // expected-error@+1 {{expects parent op 'flamia.kernel'}}
    %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  // expected-error@+1 {{expected a byte from 0 to 255, but got 256}}
  tcgen.fill_scales %a byte 256 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<128x32xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %t = flamia.load %x[%c0, %c0] : memref<128x32xf32> -> tensor<128x32xf32>
  // expected-error@+1 {{expected a row vector tensor<128x1xf32>, but got 'tensor<128x32xf32>'}}
  %b = tcgen.any_differs %t from 1.0 : tensor<128x32xf32>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "mma" warps 1 {
    // expected-error@+1 {{works on tile rows and is expected in a role of 4 warps or a multiple, but 'mma' has 1}}
    tcgen.fill_scales %a byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  // expected-error@+1 {{expected buffer to be a <tmem, scales> buffer, but got '!tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>'}}
  tcgen.fill_scales %a byte 127 : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected 'slots' of at least 1, but got 0}}
  %c = tcgen.channel slots 0 full 1 empty 1
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected 'full' of at least 1, but got 0}}
  %c = tcgen.channel slots 1 full 0 empty 1
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected 'empty' of at least 1, but got 0}}
  %c = tcgen.channel slots 1 full 1 empty 0
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  // expected-error@+1 {{expected 1 to 32 warps, but got 0}}
  tcgen.role "r" warps 0 {
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected 1 to 1048575 bytes, but got 1048576}}
    tcgen.expect %c[%c0] bytes 1048576
  }
  flamia.return
}

// -----

// Copies.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to be a <smem, operand> buffer, but got '!tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>'}}
    tcgen.tma_load %x[%c0, %c0, %c0], %b[%c0] signals %c : memref<?x?x128xf8E4M3FN>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected 3 indices, but got 2}}
    tcgen.tma_load %x[%c0, %c0], %b[%c0] signals %c : memref<?x?x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a buffer of 'f32', but got '!tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>'}}
    tcgen.tma_load %w[%c0, %c0], %b[%c0] signals %c : memref<?x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a source of atoms, ?x?x512, but got 'memref<?x?x128xf8E4M3FN>'}}
    tcgen.bulk_load %x[%c0, %c0], %b[%c0] signals %c : memref<?x?x128xf8E4M3FN>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected 2 indices, but got 1}}
    tcgen.bulk_load %s[%c0], %b[%c0] signals %c : memref<?x?x512xf8E8M0FNU>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to be a <smem, scales> or <smem, line> buffer}}
    tcgen.bulk_load %s[%c0, %c0], %b[%c0] signals %c : memref<?x?x512xf8E8M0FNU>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %b = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected target to be a <tmem, scales> buffer}}
    tcgen.copy_scales %a[%c0], %b[%c0] : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %b = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected source to be a <smem, operand> buffer}}
    tcgen.copy_operand %a[%c0], %b[%c0] : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected target to be a <tmem, lanes> buffer}}
    tcgen.copy_operand %a[%c0], %b[%c0] : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 64x128xf8E4M3FN>
  %b = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected source to have 128 rows, but got}}
    tcgen.copy_operand %a[%c0], %b[%c0] : !tcgen.buffer<smem, operand, 1 x 64x128xf8E4M3FN>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %b = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x64xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected target to hold 128x128x'f8E4M3FN', but got}}
    tcgen.copy_operand %a[%c0], %b[%c0] : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, lanes, 1 x 128x64xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %b = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected target to hold 128x4x'f8E8M0FNU', but got '!tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>'}}
    tcgen.copy_scales %a[%c0], %b[%c0] : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

// Products.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected d to be a <tmem, lanes> buffer}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<smem, operand, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a to be a <smem, operand> or <tmem, lanes> buffer}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected b to be a <smem, operand> buffer}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 64x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected d to have 128 rows, but got}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 64x128xf32>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x24xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 24x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected d to have a multiple of 16, at most 256, columns}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x24xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 24x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected d to hold f32}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a to hold 128x128x'bf16', but got '!tcgen.buffer<smem, operand, 1 x 64x128xbf16>'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

// The image of b is NxK for major k.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected b to hold 128x128x'bf16', but got '!tcgen.buffer<smem, operand, 1 x 128x64xbf16>'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  }
  flamia.return
}

// -----

// It is KxN for major mn.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected b to hold 128x64x'bf16', but got '!tcgen.buffer<smem, operand, 1 x 64x128xbf16>'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major mn accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x24xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 24x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a contraction over a multiple of 32 bytes, but got 24 of 'bf16'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major mn accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x24xbf16>, !tcgen.buffer<smem, operand, 1 x 24x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{without scales, expected operands of one 16-bit type, but got 'f16' and 'bf16'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{without scales, expected operands of one 16-bit type, but got 'f8E4M3FN' and 'f8E4M3FN'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %sa = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %sb = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{with scales, expected operands of 8 bits or of f4E2M1FN, but got 'bf16' and 'bf16'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %sa[%c0], %sb[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %sa = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %sb = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a_scales to be a <tmem, scales> buffer}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %sa[%c0], %sb[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %sa = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %sb = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected b_scales to hold 128x4x'f8E8M0FNU', but got '!tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %sa[%c0], %sb[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 64x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

// Vector side.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to hold 128x128x'bf16', but got '!tcgen.buffer<tmem, lanes, 1 x 128x128xf32>'}}
    %t = tcgen.read %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected columns 96 to 159 of '!tcgen.buffer<tmem, lanes, 1 x 128x128xf32>', but got 'tensor<128x64xf32>'}}
    %t = tcgen.read %a[%c0] col 96 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x64xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  %t = arith.constant dense<0.0> : tensor<128x8xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected whole groups of 16 bytes, but got columns 4 to 11 of '!tcgen.buffer<smem, operand, 1 x 128x64xbf16>'}}
    tcgen.write %t, %a[%c0] col 4 : tensor<128x8xbf16>, !tcgen.buffer<smem, operand, 1 x 128x64xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x128xf32>
  tcgen.role "r" warps 4 {
    // expected-error@+1 {{expected the result to be columns 112 to 143 of 'tensor<128x128xf32>', but got 'tensor<128x32xf32>'}}
    %u = tcgen.slice %t col 112 : tensor<128x128xf32> -> tensor<128x32xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x128xf32>
  tcgen.role "r" warps 4 {
    %q = flamia.quantize %t : tensor<128x128xf32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
    // expected-error@+1 {{expected parts of whole 32-bit words and scale blocks, but got column 16}}
    %u = tcgen.slice %q col 16 : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32> -> !flamia.scaled<128x32, f8E4M3FN by f8E8M0FNU per 1x32>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x32xf32>
  tcgen.role "r" warps 4 {
    // expected-error@+1 {{expected the sources' columns to add up to those of 'tensor<128x128xf32>', but got 64}}
    %u = tcgen.join %t, %t : tensor<128x32xf32>, tensor<128x32xf32> -> tensor<128x128xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x32xf32>
  %b = arith.constant dense<0.0> : tensor<128x32xbf16>
  tcgen.role "r" warps 4 {
    // expected-error@+1 {{expected sources with the rows and elements of 'tensor<128x64xf32>', but got 'tensor<128x32xbf16>'}}
    %u = tcgen.join %t, %b : tensor<128x32xf32>, tensor<128x32xbf16> -> tensor<128x64xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to be a <tmem, lanes> or <smem, operand> or <smem, line> buffer}}
    %t = tcgen.read %a[%c0] : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU> -> tensor<128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %t = arith.constant dense<0.0> : tensor<128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to hold 128x128x'bf16'}}
    tcgen.write %t, %a[%c0] : tensor<128x128xbf16>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %t = arith.constant dense<0.0> : tensor<128x4xf32>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to be a <tmem, lanes> or <smem, operand> buffer}}
    tcgen.write %t, %a[%c0] : tensor<128x4xf32>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

// 64 columns have two scales a row.
flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %t = arith.constant dense<0.0> : tensor<128x64xf32>
  %q = flamia.quantize %t : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to hold 128x2x'f8E8M0FNU', but got '!tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>'}}
    tcgen.write_scales %q, %a[%c0] along cols : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x?x128xf8E4M3FN>, %s: memref<?x?x512xf8E8M0FNU>, %w: memref<?x128xf32>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  %t = arith.constant dense<0.0> : tensor<128x64xf32>
  %q = flamia.quantize %t : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected buffer to be a <smem, scales> buffer}}
    tcgen.write_scales %q, %a[%c0] along rows : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 1x32>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a in shared memory for 'a_major mn', but got}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] major mn a_major mn accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  %s = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{with scales, expected operands of 8 bits or of f4E2M1FN, but got 'f4E2M1FN' and 'f8E4M3FN'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %s[%c0], %s[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %s = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected operands of f4E2M1FN in shared memory and 'major k', but got '!tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>' with major k and mn}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %s[%c0], %s[%c0] major mn accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %s = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected operands of f4E2M1FN in shared memory and 'major k', but got '!tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>' with major mn and k}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %s[%c0], %s[%c0] major k a_major mn accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf4E2M1FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %s = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected operands of f4E2M1FN in shared memory and 'major k', but got '!tcgen.buffer<tmem, lanes, 1 x 128x128xf4E2M1FN>' with major k and k}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %s[%c0], %s[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<tmem, lanes, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>, !tcgen.buffer<tmem, scales, 1 x 128x8xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %d = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>
  %s = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    // expected-error@+1 {{expected a_scales to hold 128x8x'f8E4M3FN', but got '!tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>'}}
    tcgen.mma %d[%c0], %a[%c0], %b[%c0] scales %s[%c0], %s[%c0] major k accumulate %false
      : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<smem, operand, 1 x 128x128xf4E2M1FN>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%s: memref<?x?x1x512xf8E4M3FN>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x8xf8E4M3FN>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected a source of atoms, ?x?x2x512, but got 'memref<?x?x1x512xf8E4M3FN>'}}
    tcgen.bulk_load %s[%c0, %c0], %b[%c0] signals %c : memref<?x?x1x512xf8E4M3FN>, !tcgen.buffer<smem, scales, 1 x 128x8xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected one row of whole 16 bytes, but got 2x128x'f32'}}
  %a = tcgen.alloc : !tcgen.buffer<smem, line, 1 x 2x128xf32>
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected one row of whole 16 bytes, but got 1x6x'f32'}}
  %a = tcgen.alloc : !tcgen.buffer<smem, line, 1 x 1x6xf32>
  flamia.return
}

// -----

flamia.kernel @k(%v: memref<?x?x64xf32>) parameters {} grid(1) {
  %c = tcgen.channel slots 1 full 1 empty 1
  %b = tcgen.alloc : !tcgen.buffer<smem, line, 1 x 1x128xf32>
  tcgen.role "r" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{expected a source of rows of 128 elements, but got 'memref<?x?x64xf32>'}}
    tcgen.bulk_load %v[%c0, %c0], %b[%c0] signals %c : memref<?x?x64xf32>, !tcgen.buffer<smem, line, 1 x 1x128xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16>
  // expected-error@+1 {{expected a buffer of f32 with a multiple of 32 columns, but got}}
  %t, %m = tcgen.read_max %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xbf16> -> tensor<128x128xbf16>, tensor<128x1xbf16>
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  // expected-error@+1 {{expected the buffer's tile and a row vector, but got 'tensor<128x64xf32>' and 'tensor<128x1xf32>'}}
  %t, %m = tcgen.read_max %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x64xf32>, tensor<128x1xf32>
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected whole warpgroups of 4, but got 6 warps}}
  tcgen.role "r" warps 6 {
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %ch = tcgen.channel slots 1 full 1 empty 8
  tcgen.role "r" warps 8 {
    %slot = tcgen.acquire %ch
    // expected-error@+1 {{expected in a role of one warpgroup, but 'r' has 8 warps}}
    tcgen.expect %ch[%slot] bytes 512
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected in a tcgen.role}}
  %group = tcgen.group
  flamia.return
}

// -----

flamia.kernel @k(%n: index) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected an equal share of the columns of '!tcgen.buffer<tmem, lanes, 1 x 128x128xf32>', but got '!tcgen.buffer<tmem, lanes, 1 x 128x96xf32>'}}
    %p = tcgen.part %a from %n : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x96xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%n: index) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected the buffer to be a <tmem, lanes> or <smem, line> or <smem, scales> buffer}}
    %p = tcgen.part %a from %n : !tcgen.buffer<smem, operand, 1 x 128x128xf8E4M3FN> -> !tcgen.buffer<smem, operand, 1 x 128x64xf8E4M3FN>
  }
  flamia.return
}

// -----

flamia.kernel @k(%n: index) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x8xf8E8M0FNU>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected one or two of the four blocks of an atom, but got}}
    %p = tcgen.part %a from %n : !tcgen.buffer<smem, scales, 1 x 128x8xf8E8M0FNU> -> !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k(%n: index) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 8 {
    %p = tcgen.part %a from %n : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    // expected-error@+1 {{expected a part of a tcgen.alloc}}
    %q = tcgen.part %p from %n : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x32xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%n: index) parameters {} grid(1) {
  %t = arith.constant dense<0.0> : tensor<128x64xf32>
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 64x4xf8E8M0FNU>
  tcgen.role "r" warps 8 {
    %q = flamia.quantize %t : tensor<128x64xf32> -> !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>
    %p = tcgen.part %a from %n : !tcgen.buffer<smem, scales, 1 x 64x4xf8E8M0FNU> -> !tcgen.buffer<smem, scales, 1 x 64x2xf8E8M0FNU>
    // expected-error@+1 {{expected a part to be written along cols, but got along rows}}
    tcgen.write_scales %q, %p[%n] along rows : !flamia.scaled<128x64, f8E4M3FN by f8E8M0FNU per 32x32>, !tcgen.buffer<smem, scales, 1 x 64x2xf8E8M0FNU>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %c17 = arith.constant 17 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected the first column to be a multiple of 64 below 128, but got 17}}
    %p = tcgen.part %a from %c17 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %negative = arith.constant -64 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected the first column to be a multiple of 64 below 128, but got -64}}
    %p = tcgen.part %a from %negative : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %c128 = arith.constant 128 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected the first column to be a multiple of 64 below 128, but got 128}}
    %p = tcgen.part %a from %c128 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  }
  flamia.return
}

// -----

// Parts are for reads and writes of threads.
flamia.kernel @k(%n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %false = arith.constant false
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  %k = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %j = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
  tcgen.role "all" warps 4 {
    %p = tcgen.part %a from %n : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
    // expected-error@+1 {{expected a buffer, but got a tcgen.part}}
    tcgen.mma %p[%c0], %k[%c0], %j[%c0] major k accumulate %false : !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>, !tcgen.buffer<smem, operand, 1 x 64x128xbf16>
    tcgen.drain
  }
  flamia.return
}

// -----

flamia.kernel @k(%n: index, %s: memref<?x512xf8E8M0FNU>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU>
  %t = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x2xf8E8M0FNU>
  tcgen.role "all" warps 4 {
    %p = tcgen.part %a from %n : !tcgen.buffer<smem, scales, 1 x 128x4xf8E8M0FNU> -> !tcgen.buffer<smem, scales, 1 x 128x2xf8E8M0FNU>
    // expected-error@+1 {{expected a buffer, but got a tcgen.part}}
    tcgen.copy_scales %p[%c0], %t[%c0] : !tcgen.buffer<smem, scales, 1 x 128x2xf8E8M0FNU>, !tcgen.buffer<tmem, scales, 1 x 128x2xf8E8M0FNU>
    tcgen.drain
  }
  flamia.return
}

// -----

// Slots, their barriers and who can arrive.
flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected 'slots' of at most 8192, but got 1000000000000}}
  %c = tcgen.channel slots 1000000000000 full 1 empty 1
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected 'full' of at most 64, but got 65}}
  %c = tcgen.channel slots 1 full 65 empty 1
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  // expected-error@+1 {{expected 'empty' of at most 64, but got 1048576}}
  %c = tcgen.channel slots 1 full 1 empty 1048576
  flamia.return
}

// -----

flamia.kernel @k() parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  tcgen.role "r" warps 8 {
    // expected-error@+1 {{expected a role of 4 warps, but got 8}}
    tcgen.fill_scales %a byte 127 : !tcgen.buffer<tmem, scales, 1 x 128x4xf8E8M0FNU>
  }
  flamia.return
}

// -----

// A thread is a row: 4 warps, from a multiple of 4 on.
flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "few" warps 1 {
    // expected-error@+1 {{'tcgen.read' op works on tile rows and is expected in a role of 4 warps or a multiple, but 'few' has 1}}
    %t = tcgen.read %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "few" warps 2 {
    // expected-error@+1 {{'tcgen.read_max' op works on tile rows and is expected in a role of 4 warps or a multiple, but 'few' has 2}}
    %t, %m = tcgen.read_max %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "few" warps 3 {
    // expected-error@+1 {{'tcgen.part' op works on tile rows and is expected in a role of 4 warps or a multiple, but 'few' has 3}}
    %p = tcgen.part %a from %c0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "few" warps 1 {
    // expected-error@+1 {{'tcgen.group' op works on tile rows and is expected in a role of 4 warps or a multiple, but 'few' has 1}}
    %g = tcgen.group
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "few" warps 2 {
    // expected-error@+1 {{'flamia.load' op works on tile rows and is expected in a role of 4 warps or a multiple, but 'few' has 2}}
    %t = flamia.load %x[%c0, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "load" warps 1 {
  }
  tcgen.role "late" warps 4 {
    // expected-error@+1 {{'tcgen.read' op works on tile rows, but warps of the role 'late' are numbered from 1 on, which is no multiple of 4}}
    %t = tcgen.read %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "load" warps 1 {
  }
  tcgen.role "late" warps 4 {
    // expected-error@+1 {{'tcgen.read_max' op works on tile rows, but warps of the role 'late' are numbered from 1 on, which is no multiple of 4}}
    %t, %m = tcgen.read_max %a[%c0] : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> tensor<128x128xf32>, tensor<128x1xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "load" warps 1 {
  }
  tcgen.role "late" warps 4 {
    // expected-error@+1 {{'tcgen.part' op works on tile rows, but warps of the role 'late' are numbered from 1 on, which is no multiple of 4}}
    %p = tcgen.part %a from %c0 : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32> -> !tcgen.buffer<tmem, lanes, 1 x 128x64xf32>
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "load" warps 1 {
  }
  tcgen.role "late" warps 4 {
    // expected-error@+1 {{'tcgen.group' op works on tile rows, but warps of the role 'late' are numbered from 1 on, which is no multiple of 4}}
    %g = tcgen.group
  }
  flamia.return
}

// -----

flamia.kernel @k(%x: memref<?x128xf32>) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
  tcgen.role "load" warps 1 {
  }
  tcgen.role "late" warps 4 {
    // expected-error@+1 {{'flamia.load' op works on tile rows, but warps of the role 'late' are numbered from 1 on, which is no multiple of 4}}
    %t = flamia.load %x[%c0, %c0] : memref<?x128xf32> -> tensor<128x128xf32>
  }
  flamia.return
}
