// Operands of products: loaded and made, straight and transposed, carried by loops, shared
// by several products. -O0 and -O2 agree bit for bit, and with the evaluator, when
// asynchronous operations are as late as the rules allow.

// RUN: %python %S/Inputs/compare_kernels.py %s h=2 --sim-option=--async=late

!t = tensor<128x128xbf16>
!t64 = tensor<64x128xbf16>
!f = tensor<128x128xf32>
!r = tensor<128x1xf32>
!m = memref<?x128xbf16>
!o = memref<?x128xf32>
!w8 = memref<?x128xf8E4M3FN>
!ws = memref<?x?x512xf8E8M0FNU>
!q = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>
!w = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
!b = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x1>
!bt = !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 1x32>

flamia.kernel @branch(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(a[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %c = arith.cmpi ult, %i, %c2 : index
  %ta = flamia.load %a[%row, %c0] : !m -> !t
  %d = scf.if %c -> (!f) {
    %tb = flamia.load %b[%c0, %c0] : !m -> !t
    %d1 = flamia.dot %ta, %tb, %z : !t, !t -> !f
    scf.yield %d1 : !f
  } else {
    %e = arith.extf %ta : !t to !f
    scf.yield %e : !f
  }
  flamia.store %d, %o[%row, %c0] : !f, !o
  flamia.return
}

// vector value as right operand, both ways
flamia.kernel @right(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %tb = flamia.load %b[%i, %c0] : !m -> !t
    %e = arith.extf %tb : !t to !f
    %e2 = math.exp2 %e : !f
    %p = arith.truncf %e2 : !f to !t
    %pT = flamia.transpose %p : !t -> !t
    %d1 = flamia.dot %ta, %pT, %z : !t, !t -> !f
    %d2 = flamia.dot %ta, %p, %x : !t, !t -> !f
    %d3 = flamia.dot %p, %tb, %d2 : !t, !t -> !f
    %e3 = math.exp2 %d1 : !f
    %at = arith.muli %i, %c128 : index
    flamia.store %e3, %o[%at, %c0] : !f, !o
    scf.yield %d3 : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// attention inside an outer loop over row tiles: everything starts anew
flamia.kernel @outer_attention(%q: !m, %k: !m, %v: !m, %o: !o, %n: index, %h: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %zr = arith.constant dense<0.0> : !r
  %mi = arith.constant dense<-100.0> : !r
  scf.for %t = %c0 to %h step %c1 {
    %row = arith.muli %t, %c128 : index
    %tq = flamia.load %q[%row, %c0] : !m -> !t
    %mx, %l, %acc = scf.for %j = %c0 to %n step %c1 iter_args(%m0 = %mi, %l0 = %zr, %acc0 = %z) -> (!r, !r, !f) {
      %at = arith.muli %j, %c128 : index
      %tk = flamia.load %k[%at, %c0] : !m -> !t
      %tv = flamia.load %v[%at, %c0] : !m -> !t
      %tkT = flamia.transpose %tk : !t -> !t
      %s = flamia.dot %tq, %tkT, %z : !t, !t -> !f
      %top = flamia.reduce max %s : !f -> !r
      %m1 = arith.maximumf %m0, %top : !r
      %sh = arith.subf %m0, %m1 : !r
      %al = math.exp2 %sh : !r
      %ms = flamia.broadcast %m1 : !r -> !f
      %x = arith.subf %s, %ms : !f
      %p = math.exp2 %x : !f
      %sum = flamia.reduce sum %p : !f -> !r
      %l1 = math.fma %l0, %al, %sum : !r
      %als = flamia.broadcast %al : !r -> !f
      %re = arith.mulf %acc0, %als : !f
      %pb = arith.truncf %p : !f to !t
      %acc1 = flamia.dot %pb, %tv, %re : !t, !t -> !f
      scf.yield %m1, %l1, %acc1 : !r, !r, !f
    }
    %ls = flamia.broadcast %l : !r -> !f
    %one = arith.constant dense<1.0> : !f
    %den = arith.addf %ls, %one : !f
    %res = arith.divf %acc, %den : !f
    flamia.store %res, %o[%row, %c0] : !f, !o
  }
  flamia.return
}

// dQ-like: K is used twice, S and dP, dS in vector code
flamia.kernel @dq(%q: !m, %do: !m, %k: !m, %v: !m, %o: !o, %n: index) parameters {} grid(q[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %tq = flamia.load %q[%row, %c0] : !m -> !t
  %tdo = flamia.load %do[%row, %c0] : !m -> !t
  %dq = scf.for %j = %c0 to %n step %c1 iter_args(%acc = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %tk = flamia.load %k[%at, %c0] : !m -> !t
    %tv = flamia.load %v[%at, %c0] : !m -> !t
    %tkT = flamia.transpose %tk : !t -> !t
    %tvT = flamia.transpose %tv : !t -> !t
    %s = flamia.dot %tq, %tkT, %z : !t, !t -> !f
    %dp = flamia.dot %tdo, %tvT, %z : !t, !t -> !f
    %p = math.exp2 %s : !f
    %ds = arith.mulf %p, %dp : !f
    %dsb = arith.truncf %ds : !f to !t
    %next = flamia.dot %dsb, %tk, %acc : !t, !t -> !f
    scf.yield %next : !f
  }
  flamia.store %dq, %o[%row, %c0] : !f, !o
  flamia.return
}

// dKdV-like: four products, two accumulators
flamia.kernel @dkdv(%q: !m, %do: !m, %k: !m, %v: !m, %ok: !o, %ov: !o, %n: index) parameters {} grid(k[0] ceildiv 128) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %i = flamia.program_id x
  %row = arith.muli %i, %c128 : index
  %tk = flamia.load %k[%row, %c0] : !m -> !t
  %tv = flamia.load %v[%row, %c0] : !m -> !t
  %dk, %dv = scf.for %j = %c0 to %n step %c1 iter_args(%dk0 = %z, %dv0 = %z) -> (!f, !f) {
    %at = arith.muli %j, %c128 : index
    %tq = flamia.load %q[%at, %c0] : !m -> !t
    %tdo = flamia.load %do[%at, %c0] : !m -> !t
    %tqT = flamia.transpose %tq : !t -> !t
    %tdoT = flamia.transpose %tdo : !t -> !t
    %s = flamia.dot %tk, %tqT, %z : !t, !t -> !f
    %dp = flamia.dot %tv, %tdoT, %z : !t, !t -> !f
    %p = math.exp2 %s : !f
    %pb = arith.truncf %p : !f to !t
    %dv1 = flamia.dot %pb, %tdo, %dv0 : !t, !t -> !f
    %ds = arith.mulf %p, %dp : !f
    %dsb = arith.truncf %ds : !f to !t
    %dk1 = flamia.dot %dsb, %tq, %dk0 : !t, !t -> !f
    scf.yield %dk1, %dv1 : !f, !f
  }
  flamia.store %dk, %ok[%row, %c0] : !f, !o
  flamia.store %dv, %ov[%row, %c0] : !f, !o
  flamia.return
}

// a loaded tile carried to the next iteration
flamia.kernel @prefetch(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %first = flamia.load %b[%c0, %c0] : !m -> !t
  %acc, %last = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z, %cur = %first) -> (!f, !t) {
    %at = arith.muli %j, %c128 : index
    %nextb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %ta, %cur, %x : !t, !t -> !f
    scf.yield %d, %nextb : !f, !t
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// the product's operand is made before the loop by vector code, and used in it
flamia.kernel @invariant(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %fa = arith.extf %ta : !t to !f
  %ea = math.exp2 %fa : !f
  %pa = arith.truncf %ea : !f to !t
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %pa, %tb, %z : !t, !t -> !f
    %e = math.exp2 %d : !f
    %eb = arith.truncf %e : !f to !t
    %d2 = flamia.dot %eb, %tb, %x : !t, !t -> !f
    scf.yield %d2 : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// a quantized tile carried to the next iteration
flamia.kernel @carried_scaled(%a: !o, %b: !w8, %bs: !ws, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %fa = flamia.load %a[%c0, %c0] : !o -> !f
  %first = flamia.quantize %fa : !f -> !q
  %acc, %last = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z, %cur = %first) -> (!f, !q) {
    %at = arith.muli %j, %c128 : index
    %w = flamia.load_scaled %b[%at, %c0], %bs[%j, %c0] along rows : !w8, !ws -> !w
    %d = flamia.dot %cur, %w, %x : !q, !w -> !f
    %e = flamia.quantize %d : !f -> !q
    scf.yield %d, %e : !f, !q
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// vector-made right operand with dynamic scales, both orientations
flamia.kernel @right_scaled(%a: !o, %b: !o, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %fa = flamia.load %a[%c0, %c0] : !o -> !f
  %qa = flamia.quantize %fa : !f -> !q
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %fb = flamia.load %b[%at, %c0] : !o -> !f
    %qb = flamia.quantize %fb : !f -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
    %qbT = flamia.transpose %qb : !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32> -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
    %d = flamia.dot %qa, %qb, %x : !q, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32> -> !f
    %d2 = flamia.dot %qa, %qbT, %d : !q, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32> -> !f
    scf.yield %d2 : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// static right operand
flamia.kernel @right_static(%a: !o, %b: !o, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %z = arith.constant dense<0.0> : !f
  %fa = flamia.load %a[%c0, %c0] : !o -> !f
  %qa = flamia.quantize %fa : !f -> !q
  %fb = flamia.load %b[%c0, %c0] : !o -> !f
  %qb = flamia.quantize %fb exponent -7 : !f -> !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32>
  %d = flamia.dot %qa, %qb, %z : !q, !flamia.scaled<128x128, f8E4M3FN by f8E8M0FNU per 32x32> -> !f
  flamia.store %d, %o[%c0, %c0] : !f, !o
  flamia.return
}

// a branch that chooses a tile, and a select of tiles
flamia.kernel @choose(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %odd = arith.remui %j, %c1 : index
    %c = arith.cmpi eq, %odd, %c0 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %w = scf.if %c -> (!t) {
      scf.yield %tb : !t
    } else {
      scf.yield %ta : !t
    }
    %w2 = arith.select %c, %ta, %tb : !t
    %d = flamia.dot %w, %w2, %x : !t, !t -> !f
    scf.yield %d : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// three iterations known, a step of two, a lower bound
flamia.kernel @bounds(%a: !m, %b: !m, %o: !o) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c6 = arith.constant 6 : index
  %c64 = arith.constant 64 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc = scf.for %j = %c1 to %c6 step %c2 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c64 : index
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %ta, %tb, %z : !t, !t -> !f
    %e = math.exp2 %d : !f
    %h = arith.truncf %e : !f to !t
    %d2 = flamia.dot %h, %tb, %x : !t, !t -> !f
    scf.yield %d2 : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// index carried by the loop steers the loads
flamia.kernel @carried_index(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %acc, %end = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z, %at = %c0) -> (!f, index) {
    %tb = flamia.load %b[%at, %c0] : !m -> !t
    %d = flamia.dot %ta, %tb, %x : !t, !t -> !f
    %next = arith.addi %at, %c128 : index
    scf.yield %d, %next : !f, index
  }
  %tl = flamia.load %a[%end, %c0] : !m -> !t
  %fl = arith.extf %tl : !t to !f
  %s = arith.addf %acc, %fl : !f
  flamia.store %s, %o[%c0, %c0] : !f, !o
  flamia.return
}

// X^T Y over a loop of 64 rows each
flamia.kernel @outer_product(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %z = arith.constant dense<0.0> : !f
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c64 : index
    %ta = flamia.load %a[%at, %c0] : !m -> !t64
    %tb = flamia.load %b[%at, %c0] : !m -> !t64
    %taT = flamia.transpose %ta : !t64 -> tensor<128x64xbf16>
    %d = flamia.dot %taT, %tb, %x : tensor<128x64xbf16>, !t64 -> !f
    scf.yield %d : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}

// the left operand is transposed and made by vector code, and used straight too
flamia.kernel @left_made(%a: !m, %b: !m, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %z = arith.constant dense<0.0> : !f
  %ta = flamia.load %a[%c0, %c0] : !m -> !t
  %tb = flamia.load %b[%c0, %c0] : !m -> !t
  %fa = arith.extf %ta : !t to !f
  %ea = math.exp2 %fa : !f
  %pa = arith.truncf %ea : !f to !t
  %paT = flamia.transpose %pa : !t -> !t
  %tbT = flamia.transpose %tb : !t -> !t
  %d = flamia.dot %paT, %tb, %z : !t, !t -> !f
  %e = flamia.dot %pa, %tbT, %d : !t, !t -> !f
  flamia.store %e, %o[%c0, %c0] : !f, !o
  flamia.return
}

flamia.kernel @scaled_left(%a: !w8, %as: !ws, %b: !w8, %bs: !ws, %o: !o, %n: index) parameters {} grid(1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %z = arith.constant dense<0.0> : !f
  %acc = scf.for %j = %c0 to %n step %c1 iter_args(%x = %z) -> (!f) {
    %at = arith.muli %j, %c128 : index
    %ta = flamia.load_scaled %a[%at, %c0], %as[%j, %c0] along rows : !w8, !ws -> !b
    %tb = flamia.load_scaled %b[%at, %c0], %bs[%j, %c0] along rows : !w8, !ws -> !b
    %taT = flamia.transpose %ta : !b -> !bt
    %d = flamia.dot %taT, %tb, %x : !bt, !b -> !f
    scf.yield %d : !f
  }
  flamia.store %acc, %o[%c0, %c0] : !f, !o
  flamia.return
}
