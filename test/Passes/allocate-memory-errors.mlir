// RUN: flamia-opt %s "--pass-pipeline=builtin.module(flamia.kernel(flamia-allocate-memory))" --split-input-file --verify-diagnostics

// expected-error@+1 {{needs 301056 bytes of shared memory, of which 2048 are for barriers and alignment; the limit is 232448}}
flamia.kernel @shared_memory(%x: memref<?x128xf32>) parameters {} grid(1) {
  // expected-note@+1 {{131072 bytes of shared memory for '!tcgen.buffer<smem, operand, 1 x 256x128xf32>'}}
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 256x128xf32>
  // expected-note@+1 {{131072 bytes of shared memory}}
  %b = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 256x128xf32>
  // expected-note@+1 {{36864 bytes of shared memory}}
  %c = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 144x64xf32>
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    %t = tcgen.read %a[%c0] : !tcgen.buffer<smem, operand, 1 x 256x128xf32> -> tensor<256x128xf32>
    %u = tcgen.read %b[%c0] : !tcgen.buffer<smem, operand, 1 x 256x128xf32> -> tensor<256x128xf32>
    %v = tcgen.read %c[%c0] : !tcgen.buffer<smem, operand, 1 x 144x64xf32> -> tensor<144x64xf32>
    %w = tcgen.read %a[%c0] : !tcgen.buffer<smem, operand, 1 x 256x128xf32> -> tensor<256x128xf32>
    %x2 = tcgen.read %b[%c0] : !tcgen.buffer<smem, operand, 1 x 256x128xf32> -> tensor<256x128xf32>
  }
  flamia.return
}

// -----

// expected-error@+1 {{needs 544 columns of tensor memory; the limit is 512}}
flamia.kernel @tensor_memory() parameters {} grid(1) {
  // expected-note@+1 {{544 tensor memory columns for '!tcgen.buffer<tmem, lanes, 1 x 128x544xf32>'}}
  %a = tcgen.alloc : !tcgen.buffer<tmem, lanes, 1 x 128x544xf32>
  flamia.return
}

// -----

flamia.kernel @misplaced() parameters {} grid(1) {
  // expected-error@+1 {{expected an offset that is a multiple of 1024, but got 128}}
  %a = tcgen.alloc offset 128 : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  flamia.return
}

// -----

// Both accumulators are read at the end: nothing orders their uses.
!d = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!b = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
flamia.kernel @unordered() parameters {} grid(1) {
  %b = tcgen.alloc : !b
  // expected-note@+1 {{the other buffer, at 0..127}}
  %d0 = tcgen.alloc offset 0 : !d
  // expected-error@+1 {{buffer at 64..191 shares space with another one, but their uses are not ordered}}
  %d1 = tcgen.alloc offset 64 : !d
  %full = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    %i = tcgen.wait %full
    %t0 = tcgen.read %d0[%c0] : !d -> tensor<128x128xf32>
    %t1 = tcgen.read %d1[%c0] : !d -> tensor<128x128xf32>
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    tcgen.mma %d0[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    tcgen.mma %d1[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    tcgen.publish %full[%c0] by mma
  }
  flamia.return
}

// -----

// The "drained" wait is missing: the second product overwrites the first one's columns
// while the vector role may still read them.
!d = !tcgen.buffer<tmem, lanes, 1 x 128x128xf32>
!b = !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
flamia.kernel @not_drained() parameters {} grid(1) {
  %b = tcgen.alloc : !b
  // expected-note@+1 {{the other buffer, at 0..127}}
  %d0 = tcgen.alloc offset 0 : !d
  // expected-error@+1 {{shares space with another one, but their uses are not ordered}}
  %d1 = tcgen.alloc offset 0 : !d
  %first = tcgen.channel slots 1 full 1 empty 4
  %second = tcgen.channel slots 1 full 1 empty 4
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    %i = tcgen.wait %first
    %t0 = tcgen.read %d0[%c0] : !d -> tensor<128x128xf32>
    tcgen.release %first[%i] by threads
    %j = tcgen.wait %second
    %t1 = tcgen.read %d1[%c0] : !d -> tensor<128x128xf32>
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %false = arith.constant false
    tcgen.mma %d0[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    tcgen.publish %first[%c0] by mma
    tcgen.mma %d1[%c0], %b[%c0], %b[%c0] major k accumulate %false : !d, !b, !b
    tcgen.publish %second[%c0] by mma
  }
  flamia.return
}

// -----

// Each role waits for the other's first signal.
// expected-error@+1 {{roles wait for each other for ever}}
flamia.kernel @cycle() parameters {} grid(1) {
  // expected-note@+1 {{channel 0}}
  %a = tcgen.channel slots 1 full 4 empty 1
  // expected-note@+1 {{channel 1}}
  %b = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-note@+1 {{role 'vector' waits for a full slot of channel 1}}
    %i = tcgen.wait %b
    tcgen.publish %a[%c0] by threads
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    // expected-note@+1 {{role 'mma' waits for a full slot of channel 0}}
    %i = tcgen.wait %a
    tcgen.publish %b[%c0] by mma
  }
  flamia.return
}

// -----

// Three iterations, two slots, no release: the third acquire never succeeds.
// expected-error@+1 {{roles wait for each other for ever}}
flamia.kernel @no_release(%n: index) parameters {} grid(1) {
  // expected-note@+1 {{channel 0}}
  %a = tcgen.channel slots 2 full 4 empty 1
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      // expected-note@+1 {{role 'vector' waits for a free slot of channel 0}}
      %slot = tcgen.acquire %a
      tcgen.publish %a[%slot] by threads
    }
  }
  tcgen.role "mma" warps 1 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      // expected-note@+1 {{role 'mma' waits for a full slot of channel 0}}
      %slot = tcgen.wait %a
    }
  }
  flamia.return
}

// -----

// Without an acquire the second signal may come before the first was waited for.
flamia.kernel @lost_signal(%n: index) parameters {} grid(1) {
  %a = tcgen.channel slots 1 full 4 empty 1
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    tcgen.publish %a[%c0] by threads
    // expected-error@+1 {{channel is signalled again before role 'mma' has waited for the last signal}}
    tcgen.publish %a[%c0] by threads
  }
  tcgen.role "mma" warps 1 {
    %i = tcgen.wait %a
    %j = tcgen.wait %a
  }
  flamia.return
}

// -----

flamia.kernel @arrivals() parameters {} grid(1) {
  %a = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{channel receives more arrivals than the 1 it was declared for}}
    tcgen.publish %a[%c0] by threads
  }
  flamia.return
}

// -----

flamia.kernel @bytes(%x: memref<?x128xbf16>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  %ac = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %i = tcgen.acquire %ac
    tcgen.expect %ac[%i] bytes 16384
    // expected-error@+1 {{expected 16384 bytes for the slot, but its loads bring 32768}}
    tcgen.tma_load %x[%c0, %c0], %a[%i] signals %ac : memref<?x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}

// -----

// Nothing ever waits for these slots again: what is wrong with them shows at the end only.
flamia.kernel @few_arrivals() parameters {} grid(1) {
  // expected-error@+1 {{a slot is left with 4 of its 8 'full' arrivals}}
  %a = tcgen.channel slots 1 full 8 empty 1
  tcgen.role "vector" warps 4 {
    %c0 = arith.constant 0 : index
    tcgen.publish %a[%c0] by threads
  }
  flamia.return
}

// -----

flamia.kernel @few_releases() parameters {} grid(1) {
  // expected-error@+1 {{a slot is left with 1 of its 2 'empty' arrivals}}
  %a = tcgen.channel slots 1 full 4 empty 2
  tcgen.role "vector" warps 4 {
    %i = tcgen.acquire %a
    tcgen.publish %a[%i] by threads
  }
  tcgen.role "mma" warps 1 {
    %i = tcgen.wait %a
    tcgen.release %a[%i] by mma
  }
  flamia.return
}

// -----

flamia.kernel @few_bytes(%x: memref<?x128xbf16>) parameters {} grid(1) {
  %a = tcgen.alloc : !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  // expected-error@+1 {{expected 32769 bytes for a slot, but its loads bring 32768}}
  %ac = tcgen.channel slots 1 full 1 empty 1
  tcgen.role "load" warps 1 {
    %c0 = arith.constant 0 : index
    %i = tcgen.acquire %ac
    tcgen.expect %ac[%i] bytes 32769
    tcgen.tma_load %x[%c0, %c0], %a[%i] signals %ac : memref<?x128xbf16>, !tcgen.buffer<smem, operand, 1 x 128x128xbf16>
  }
  flamia.return
}
