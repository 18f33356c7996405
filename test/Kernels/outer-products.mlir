// A product of loads in the outer loop, behind one that waits for vector code, and products in an
// inner loop that may not run: results of different channels lie in the same columns only
// where a signal orders them, whatever the trip counts, and for every warp of a role that also
// issues (-O0). Both once raced.
//
// RUN: %python %S/Inputs/compare_kernels.py %s n=0 h=2 --sim-option=--async=late
// RUN: %python %S/Inputs/compare_kernels.py %s n=2 h=1 --sim-option=--async=late
// RUN: %python %S/Inputs/compare_kernels.py %s n=1 h=3 --sim-option=--async=random:1
// RUN: %python %S/Inputs/compare_kernels.py %s n=3 h=0

!f = tensor<128x128xf32>
!t = tensor<128x128xbf16>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>

flamia.kernel @outer(%k: !m, %v: !m, %q: !m, %d: !m, %w: !m, %ok: !o, %ov: !o, %n: index, %h: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : !f
  %tk = flamia.load %k[%c0, %c0] : !m -> !t
  %sums:2 = scf.for %i = %c0 to %h step %c1 iter_args(%dk = %zero, %dv = %zero) -> (!f, !f) {
    %at = arith.muli %i, %c8 : index
    %tq = flamia.load %q[%at, %c0] : !m -> !t
    %td = flamia.load %d[%at, %c0] : !m -> !t
    %tqT = flamia.transpose %tq : !t -> !t
    %s = flamia.dot %tk, %tqT, %zero : !t, !t -> !f
    %p = math.exp2 %s : !f
    %pb = arith.truncf %p : !f to !t
    %dv1 = flamia.dot %pb, %td, %dv : !t, !t -> !f
    %tw = flamia.load %w[%at, %c0] : !m -> !t
    %twT = flamia.transpose %tw : !t -> !t
    %x = flamia.dot %tk, %twT, %zero : !t, !t -> !f
    %inner = scf.for %j = %c0 to %n step %c1 iter_args(%a = %dk) -> (!f) {
      %aj = arith.addi %at, %j : index
      %tv = flamia.load %v[%aj, %c0] : !m -> !t
      %tvT = flamia.transpose %tv : !t -> !t
      %s2 = flamia.dot %tq, %tvT, %zero : !t, !t -> !f
      %y = arith.mulf %s2, %x : !f
      %yb = arith.truncf %y : !f to !t
      %a1 = flamia.dot %yb, %tv, %a : !t, !t -> !f
      scf.yield %a1 : !f
    }
    scf.yield %inner, %dv1 : !f, !f
  }
  flamia.store %sums#0, %ok[%c0, %c0] : !f, !o
  flamia.store %sums#1, %ov[%c0, %c0] : !f, !o
  flamia.return
}
