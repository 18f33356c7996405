// Accumulators that products and vector code change in turn, in loops, branches and nests:
// -O0 and -O2 agree bit for bit, and with the evaluator, when asynchronous operations are as
// late as the rules allow, and without an iteration.

// RUN: %python %S/Inputs/compare_kernels.py %s n=0 h=0 k=0
// RUN: %python %S/Inputs/compare_kernels.py %s h=2 --sim-option=--async=late

!t = tensor<128x128xbf16>
!f = tensor<128x128xf32>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>

// two products from one load, chain of accumulators, epilogue adds a loaded tile
flamia.kernel @chain(%a: !m, %b: !m, %c: !o, %o: !o) parameters {} grid(a[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %i = flamia.program_id x
  %r = arith.muli %i, %c128 : index
  %ta = flamia.load %a[%r, %c0] : !m -> !t
  %tb = flamia.load %b[%c0, %c0] : !m -> !t
  %tb2 = flamia.load %b[%c128, %c0] : !m -> !t
  %tc = flamia.load %c[%r, %c0] : !o -> !f
  %tbT = flamia.transpose %tb : !t -> !t
  %d1 = flamia.dot %ta, %tb, %z : !t, !t -> !f
  %d2 = flamia.dot %ta, %tb2, %d1 : !t, !t -> !f
  %d3 = flamia.dot %ta, %tbT, %tc : !t, !t -> !f
  %s = arith.addf %d2, %d3 : !f
  flamia.store %s, %o[%r, %c0] : !f, !o
  flamia.return
}

// accumulator used between products
flamia.kernel @between(%a: !m, %b: !m, %o: !o, %o2: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %tb = flamia.load %b[%c0, %c0] : !m -> !t
  %d1 = flamia.dot %ta, %tb, %z : !t, !t -> !f
  flamia.store %d1, %o[%c0, %c0] : !f, !o
  %d2 = flamia.dot %ta, %tb, %d1 : !t, !t -> !f
  flamia.store %d2, %o2[%c0, %c0] : !f, !o
  flamia.return
}

// accumulator needed after it was overwritten
flamia.kernel @lost(%a: !m, %b: !m, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %tb = flamia.load %b[%c0, %c0] : !m -> !t
  %d1 = flamia.dot %ta, %tb, %z : !t, !t -> !f
  %d2 = flamia.dot %ta, %tb, %d1 : !t, !t -> !f
  %s = arith.mulf %d1, %d2 : !f
  flamia.store %s, %o[%c0, %c0] : !f, !o
  flamia.return
}

// nested loops with a carried accumulator
flamia.kernel @nested(%a: !m, %b: !m, %o: !o, %n: index, %k: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %y = scf.for %j = %c0 to %k step %c1 iter_args(%w = %x) -> (!f) {
      %p = arith.muli %i, %k : index
      %q = arith.addi %p, %j : index
      %r = arith.muli %q, %c128 : index
      %tb = flamia.load %b[%r, %c0] : !m -> !t
      %d = flamia.dot %ta, %tb, %w : !t, !t -> !f
      scf.yield %d : !f
    }
    scf.yield %y : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// inner loop from zero, outer loop adds in registers
flamia.kernel @outer_sum(%a: !m, %b: !m, %o: !o, %n: index, %k: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %y = scf.for %j = %c0 to %k step %c1 iter_args(%w = %z) -> (!f) {
      %r = arith.muli %j, %c128 : index
      %tb = flamia.load %b[%r, %c0] : !m -> !t
      %d = flamia.dot %ta, %tb, %w : !t, !t -> !f
      scf.yield %d : !f
    }
    %e = math.exp2 %y : !f
    %s = arith.addf %x, %e : !f
    scf.yield %s : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// branch in a loop updates the accumulator
flamia.kernel @branch_acc(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %c = arith.cmpi ult, %i, %c2 : index
    %d = scf.if %c -> (!f) {
      %tb = flamia.load %b[%c0, %c0] : !m -> !t
      %d1 = flamia.dot %ta, %tb, %x : !t, !t -> !f
      scf.yield %d1 : !f
    } else {
      scf.yield %x : !f
    }
    scf.yield %d : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// accumulator read in every iteration after the product, and carried
flamia.kernel @running(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %tb = flamia.load %b[%i, %c0] : !m -> !t
    %d1 = flamia.dot %ta, %tb, %x : !t, !t -> !f
    %e3 = math.exp2 %d1 : !f
    flamia.store %e3, %o[%i, %c0] : !f, !o
    scf.yield %d1 : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// two loops over one accumulator, products of different kinds
flamia.kernel @two_loops(%a: !m, %b: !m, %o: !o, %n: index, %h: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %two = arith.constant dense<0.5> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %ta, %tb, %x : !t, !t -> !f
    scf.yield %d : !f
  }
  %acc2 = scf.for %j = %c0 to %h step %c1 iter_args(%x = %acc) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %half = arith.mulf %x, %two : !f
    %d = flamia.dot %ta, %tb, %half : !t, !t -> !f
    scf.yield %d : !f
  }
  %e = arith.addf %acc2, %two : !f
  flamia.store %e, %o[%c0, %c0] : !f, !o
  flamia.return
}

// the previous iteration's scores
flamia.kernel @previous(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc, %last = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z, %prev = %z) -> (!f, !f) {
    %at = arith.muli %j, %c128 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %ta, %tb, %z : !t, !t -> !f
    %p = arith.mulf %d, %prev : !f
    %s = arith.addf %x, %p : !f
    scf.yield %s, %d : !f, !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// constant operand, accumulator swapped in the yield
flamia.kernel @swap(%a: !m, %b: !m, %o: !o, %o2: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ones = arith.constant dense<0.125> : !t
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %p, %q = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z, %y = %z) -> (!f, !f) {
    %at = arith.muli %j, %c128 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %ones, %tb, %x : !t, !t -> !f
    %e = flamia.dot %ta, %tb, %y : !t, !t -> !f
    scf.yield %e, %d : !f, !f
  }
  flamia.store %p, %o[%c0, %c0] : !f, !o
  flamia.store %q, %o2[%c0, %c0] : !f, !o
  flamia.return
}

// more products in a row than tensor memory has columns: results and operands take turns
flamia.kernel @layers(%x: !m, %w: !m, %o: !o, %n: index) parameters {} grid(x[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %s = arith.constant dense<0.0625> : !f
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %t0 = flamia.load %x[%row, %c0] : !m -> !t
  %tw = flamia.load %w[%c0, %c0] : !m -> !t
  %d0 = flamia.dot %t0, %tw, %z : !t, !t -> !f
  %e0 = math.absf %d0 : !f
  %t1 = arith.truncf %e0 : !f to !t
  %d1 = flamia.dot %t1, %tw, %z : !t, !t -> !f
  %e1 = arith.maximumf %d1, %s : !f
  %t2 = arith.truncf %e1 : !f to !t
  %d2 = flamia.dot %t2, %tw, %z : !t, !t -> !f
  %e2 = arith.mulf %d2, %s : !f
  %t3 = arith.truncf %e2 : !f to !t
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%a = %z) -> (!f) {
    %d3 = flamia.dot %t3, %tw, %z : !t, !t -> !f
    %e3 = arith.mulf %d3, %s : !f
    %t4 = arith.truncf %e3 : !f to !t
    %d4 = flamia.dot %t4, %tw, %z : !t, !t -> !f
    %e4 = arith.mulf %d4, %s : !f
    %t5 = arith.truncf %e4 : !f to !t
    %d5 = flamia.dot %t5, %tw, %a : !t, !t -> !f
    scf.yield %d5 : !f
  }
  flamia.store %acc, %o[%row, %c0] : !f, !o
  flamia.return
}
