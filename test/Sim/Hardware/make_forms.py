#!/usr/bin/env python3
"""Writes forms.txt (docs: Forms.h): every form of these instructions that ptxas accepts for sm_90a.

usage: make_forms.py [--ptxas=PATH] > forms.txt
"""
import itertools
import re
import subprocess
import sys
import tempfile

forms = []


def add(domain, result, statement):
    forms.append((domain, result, statement))


def opt(*words):
    return ("",) + words


ROUND = (".rn", ".rz", ".rm", ".rp")
# --- Narrow formats: all 2^32 f32 patterns (b runs through all of them too), all pairs of f16, all pairs of bytes.
# What matters most comes first: a run may be short of time.
for relu in opt(".relu"):
    for t in ("e4m3x2", "e5m2x2"):
        add(32, "h", f"cvt.rn.satfinite{relu}.{t}.f32 h, b, a;")
        add(32, "h", f"cvt.rn.satfinite{relu}.{t}.f16x2 h, a;")
        add(16, "d", f"cvt.rn{relu}.f16x2.{t} d, ha;")
for r in ROUND:
    add(32, "h", f"cvt{r}.f16.f32 h, a;")
    add(32, "h", f"cvt{r}.bf16.f32 h, a;")
for r in (".rna", ".rn", ".rz"):
    add(32, "d", f"cvt{r}.tf32.f32 d, a;")
for r in (".rn", ".rz"):
    add(32, "d", f"cvt{r}.f16x2.f32 d, b, a;")
    add(32, "d", f"cvt{r}.bf16x2.f32 d, b, a;")
for ftz, sat in itertools.product(opt(".ftz"), opt(".sat")):
    add(16, "d", f"cvt{ftz}{sat}.f32.f16 d, ha;")
add(16, "d", "cvt.f32.bf16 d, ha;")
add(16, "D", "cvt.f64.f16 D, ha;")
# --- f32 to integers and integral values.
INT = (".rni", ".rzi", ".rmi", ".rpi")
TYPES = ("s32", "u32", "s8", "u8", "s16", "u16", "s64", "u64")
for t, r in itertools.product(TYPES, INT):
    out = "D, a" if t.endswith("64") else "h, a" if t.endswith("16") else "d, a"
    add(32, out[0], f"cvt{r}.{t}.f32 {out};")
    add(16, out[0], f"cvt{r}.{t}.f16 {out.replace('a', 'ha')};")
    add(16, out[0], f"cvt{r}.{t}.bf16 {out.replace('a', 'ha')};")
for r in INT:
    add(32, "d", f"cvt{r}.f32.f32 d, a;")
    add(16, "h", f"cvt{r}.f16.f16 h, ha;")
# --- Saturating, clamping and flushing variants.
for r, relu, sat in itertools.product((".rn", ".rz"), opt(".relu"), opt(".satfinite")):
    add(32, "d", f"cvt{r}{relu}{sat}.f16x2.f32 d, b, a;")
    add(32, "d", f"cvt{r}{relu}{sat}.bf16x2.f32 d, b, a;")
    add(32, "h", f"cvt{r}{relu}{sat}.f16.f32 h, a;")
    add(32, "h", f"cvt{r}{relu}{sat}.bf16.f32 h, a;")
    add(32, "d", f"cvt{r}{relu}{sat}.tf32.f32 d, a;")
add(32, "d", "cvt.rna.satfinite.tf32.f32 d, a;")
for r, ftz, sat in itertools.product(ROUND, opt(".ftz"), opt(".sat")):
    add(32, "h", f"cvt{r}{ftz}{sat}.f16.f32 h, a;")
for r, t in itertools.product((".rpi", ".rmi"), ("s32", "u32")):
    add(32, "d", f"cvt{r}.ftz.{t}.f32 d, a;")
for r in INT:
    add(32, "d", f"cvt{r}.sat.f32.f32 d, a;")
    add(16, "h", f"cvt{r}.sat.f16.f16 h, ha;")
add(32, "d", "cvt.rmi.ftz.f32.f32 d, a;")
add(32, "d", "cvt.sat.f32.f32 d, a;")
# --- Integers to floats, floats to doubles and back.
for r in ROUND:
    for t in ("s32", "u32"):
        add(32, "d", f"cvt{r}.f32.{t} d, a;")
    for t in ("s16", "u16"):
        add(16, "d", f"cvt{r}.f32.{t} d, ha;")
        add(16, "h", f"cvt{r}.f16.{t} h, ha;")
    for t in ("s64", "u64"):
        add(32, "d", f"cvt{r}.f32.{t} d, A;")
        add(32, "D", f"cvt{r}.f64.{t} D, A;")
    add(32, "h", f"cvt{r}.f16.u32 h, a;")
    add(32, "d", f"cvt{r}.f32.f64 d, A;")
    add(32, "h", f"cvt{r}.f16.f64 h, A;")
add(32, "D", "cvt.f64.f32 D, a;")
for r, t in itertools.product(INT, ("s32", "u32", "s64", "u64")):
    add(32, "D" if t.endswith("64") else "d", f"cvt{r}.{t}.f64 {'D' if t.endswith('64') else 'd'}, A;")
# --- Exact functions of one f32.
for f, r, ftz in itertools.product(("sqrt", "rcp"), ROUND, opt(".ftz")):
    add(32, "d", f"{f}{r}{ftz}.f32 d, a;")
for f in ("popc.b32", "clz.b32", "brev.b32", "bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "abs.s32", "neg.s32"):
    add(32, "d", f"{f} d, a;")
# --- Two and three operands: random values with many special ones.
for r, ftz, sat in itertools.product(ROUND, opt(".ftz"), opt(".sat")):
    for f in ("add", "sub", "mul"):
        add(0, "d", f"{f}{r}{ftz}{sat}.f32 d, a, b;")
    add(0, "d", f"fma{r}{ftz}{sat}.f32 d, a, b, c;")
for r, ftz in itertools.product(ROUND, opt(".ftz")):
    add(0, "d", f"div{r}{ftz}.f32 d, a, b;")
for r in ROUND:
    for f in ("add", "mul", "div"):
        add(0, "D", f"{f}{r}.f64 D, A, B;")
    add(0, "D", f"fma{r}.f64 D, A, B, C;")
    add(0, "D", f"sqrt{r}.f64 D, A;")
    add(0, "D", f"rcp{r}.f64 D, A;")
for f, ftz, nan, xor in itertools.product(("min", "max"), opt(".ftz"), opt(".NaN"), opt(".xorsign.abs")):
    add(0, "d", f"{f}{ftz}{nan}{xor}.f32 d, a, b;")
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        add(0, "h" if t in ("f16", "bf16") else "d", f"{f}{ftz}{nan}{xor}.{t} " + ("h, ha, hb;" if t in ("f16", "bf16") else "d, a, b;"))
for f in ("min", "max"):
    add(0, "D", f"{f}.f64 D, A, B;")
for t, ftz, sat in itertools.product(("f16", "f16x2"), opt(".ftz"), opt(".sat")):
    regs = ("h", "ha", "hb", "hc") if t == "f16" else ("d", "a", "b", "c")
    for f in ("add", "sub", "mul"):
        add(0, regs[0], f"{f}.rn{ftz}{sat}.{t} {regs[0]}, {regs[1]}, {regs[2]};")
    add(0, regs[0], f"fma.rn{ftz}{sat}.{t} {', '.join(regs)};")
    add(0, regs[0], f"fma.rn{ftz}.relu.{t} {', '.join(regs)};")
for t in ("bf16", "bf16x2"):
    regs = ("h", "ha", "hb", "hc") if t == "bf16" else ("d", "a", "b", "c")
    for f in ("add", "sub", "mul"):
        add(0, regs[0], f"{f}.rn.{t} {regs[0]}, {regs[1]}, {regs[2]};")
    for relu in opt(".relu"):
        add(0, regs[0], f"fma.rn{relu}.{t} {', '.join(regs)};")
for f, t in itertools.product(("neg", "abs"), ("f16x2", "bf16x2", "f32", "f64")):
    for ftz in opt(".ftz"):
        wide = t == "f64"
        add(0, "D" if wide else "d", f"{f}{ftz}.{t} {'D, A' if wide else 'd, a'};")
add(0, "d", "copysign.f32 d, a, b;")
for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
    add(0, "p", f"testp.{what}.f32 p, a;")
for cmp, ftz in itertools.product(("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"), opt(".ftz")):
    add(0, "p", f"setp.{cmp}{ftz}.f32 p, a, b;")
    add(0, "d", f"set.{cmp}{ftz}.u32.f32 d, a, b;")
    add(0, "d", f"set.{cmp}{ftz}.f16x2.f16x2 d, a, b;")
    if not ftz:
        add(0, "p", f"setp.{cmp}.f64 p, A, B;")
        add(0, "p", f"setp.{cmp}.bf16 p, ha, hb;")
for cmp, t in itertools.product(("eq", "ne", "lt", "le", "gt", "ge"), ("s32", "u32", "s16", "u16", "s64", "u64")):
    regs = {"32": "a, b", "16": "ha, hb", "64": "A, B"}[t[1:]]
    add(0, "p", f"setp.{cmp}.{t} p, {regs};")
# --- Integers.
for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
    d, a, b, c = {"16": ("h", "ha", "hb", "hc"), "32": ("d", "a", "b", "c"), "64": ("D", "A", "B", "C")}[t[1:]]
    for f in ("add", "sub", "min", "max"):
        add(0, d, f"{f}.{t} {d}, {a}, {b};")
    for f in ("mul.lo", "mul.hi"):
        add(0, d, f"{f}.{t} {d}, {a}, {b};")
    for f in ("mad.lo", "mad.hi"):
        add(0, d, f"{f}.{t} {d}, {a}, {b}, {c};")
    for f in ("div", "rem"):
        zero = {"16": "setp.eq.s16 q, hb, 0; @q mov.b16 hb, 3;", "32": "setp.eq.s32 q, b, 0; @q mov.b32 b, 3;",
                "64": "setp.eq.s64 q, B, 0; @q mov.b64 B, 3;"}[t[1:]]
        add(0, d, f"{zero} {f}.{t} {d}, {a}, {b};")
    add(0, d, f"sad.{t} {d}, {a}, {b}, {c};")
    amount = "b" if t[1:] != "16" else "b"
    add(0, d, f"shr.{t} {d}, {a}, {amount};")
    add(0, d, f"and.b32 {'d0'}, b, 63; shr.{t} {d}, {a}, d0;")
    if t[1:] != "16":
        # Positions and lengths are limited to 0..255; beyond, 64-bit forms differ from their definition.
        add(0, d, f"and.b32 d0, b, 255; and.b32 d1, c, 255; bfe.{t} {d}, {a}, d0, d1;")
        add(0, d, f"and.b32 d0, b, 31; and.b32 d1, c, 31; bfe.{t} {d}, {a}, d0, d1;")
        add(0, "d", f"bfind.{t} d, {a};")
        add(0, "d", f"bfind.shiftamt.{t} d, {a};")
    if t[1:] == "32":
        add(0, "D", f"mul.wide.{t} D, a, b;")
        add(0, "D", f"mad.wide.{t} D, a, b, C;")
        for f in ("mul24.lo", "mul24.hi"):
            add(0, "d", f"{f}.{t} d, a, b;")
        for f in ("mad24.lo", "mad24.hi"):
            add(0, "d", f"{f}.{t} d, a, b, c;")
    if t[1:] == "16":
        add(0, "d", f"mul.wide.{t} d, ha, hb;")
        add(0, "d", f"mad.wide.{t} d, ha, hb, c;")
add(0, "d", "add.sat.s32 d, a, b;")
add(0, "d", "sub.sat.s32 d, a, b;")
add(0, "d", "mad.hi.sat.s32 d, a, b, c;")
for t in ("u16x2", "s16x2"):
    for f in ("add", "min", "max"):
        add(0, "d", f"{f}.{t} d, a, b;")
for relu in (".relu",):
    add(0, "d", f"min{relu}.s32 d, a, b;")
    add(0, "d", f"max{relu}.s16x2 d, a, b;")
for f in ("add", "sub"):
    add(0, "D", f"{f}.cc.u32 d0, a, b; {f}c.u32 d1, c, a; mov.b64 D, {{d0, d1}};")
    add(0, "D", f"{f}.cc.u64 D0, A, B; {f}c.u64 D, C, A;")
add(0, "D", "mad.lo.cc.u32 d0, a, b, c; madc.hi.u32 d1, a, b, c; mov.b64 D, {d0, d1};")
for t in ("b32", "b64"):
    d, a, b = ("d", "a", "b") if t == "b32" else ("D", "A", "B")
    for f in ("and", "or", "xor"):
        add(0, d, f"{f}.{t} {d}, {a}, {b};")
    for f in ("not", "cnot"):
        add(0, d, f"{f}.{t} {d}, {a};")
    add(0, d, f"shl.{t} {d}, {a}, b;")
    add(0, d, f"and.b32 d0, b, 63; shl.{t} {d}, {a}, d0;")
    add(0, d, f"and.b32 d0, b, 255; and.b32 d1, c, 255; bfi.{t} {d}, {a}, {b}, d0, d1;")
    add(0, d, f"and.b32 d0, b, 31; and.b32 d1, c, 31; bfi.{t} {d}, {a}, {b}, d0, d1;")
    add(0, "d", f"popc.{t} d, {a};")
    add(0, "d", f"clz.{t} d, {a};")
    add(0, d, f"brev.{t} {d}, {a};")
for m in opt(".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
    add(0, "d", f"prmt.b32{m} d, a, b, c;")
for d_, m in itertools.product(("l", "r"), (".clamp", ".wrap")):
    add(0, "d", f"shf.{d_}{m}.b32 d, a, b, c;")
for lut in (0x00, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF):
    add(0, "d", f"lop3.b32 d, a, b, c, {lut};")
for ta, tb in itertools.product(("u32", "s32"), repeat=2):
    add(0, "d", f"dp4a.{ta}.{tb} d, a, b, c;")
    for half in (".lo", ".hi"):
        add(0, "d", f"dp2a{half}.{ta}.{tb} d, a, b, c;")
for m in (".clamp", ".wrap"):
    for t in ("u32", "s32"):
        add(0, "d", f"szext{m}.{t} d, a, b;")
    add(0, "d", f"bmsk{m}.b32 d, a, b;")
add(0, "d", "and.b32 d0, b, 31; and.b32 d1, c, 63; sub.s32 d1, d1, 32; fns.b32 d, a, d0, d1;")
add(0, "d", "slct.s32.f32 d, a, b, c;")
add(0, "d", "slct.u32.s32 d, a, b, c;")
for a, b in itertools.product(("s8", "u8", "s16", "u16", "s32", "u32"), repeat=2):
    for sat in opt(".sat"):
        add(0, "d", f"cvt{sat}.{a}.{b} d, a;")


# --- Products and quotients a little below the smallest normal number: is a result that rounds up to it flushed?
for r in ROUND:
    add(0, "d", f"mov.b32 d0, 0x3f7ff800; mov.b32 d1, 0x00800400; mul{r}.ftz.f32 d, d0, d1;")
    add(0, "d", f"mov.b32 d0, 0x3f7ff800; mov.b32 d1, 0x80800400; mul{r}.ftz.f32 d, d0, d1;")
    add(0, "d", f"mov.b32 d0, 0x3f7fffff; mov.b32 d1, 0x00800001; sub.f32 d2, d1, d1; fma{r}.ftz.f32 d, d0, d1, d2;")
    add(0, "d", f"mov.b32 d0, 0xa7000000; mov.b32 d1, 0x00800000; fma{r}.ftz.f32 d, d0, d1, d1;")
    add(0, "d", f"mov.b32 d0, 0x7e7fffff; rcp{r}.ftz.f32 d, d0;")
    add(0, "d", f"mov.b32 d0, 0x7e800001; rcp{r}.ftz.f32 d, d0;")
    add(0, "d", f"mov.b32 d0, 0x00800000; mov.b32 d1, 0x3f800001; div{r}.ftz.f32 d, d0, d1;")
add(0, "h", "mov.b16 h0, 0x3bbf; mov.b16 h1, 0x0421; mul.rn.ftz.f16 h, h0, h1;")
add(0, "h", "mov.b16 h0, 0x9000; mov.b16 h1, 0x0400; fma.rn.ftz.f16 h, h0, h1, h1;")
add(0, "h", "mov.b16 h0, 0x8c00; mov.b16 h1, 0x0400; fma.rn.ftz.f16 h, h0, h1, h1;")
add(0, "d", "ex2.approx.ftz.f32 d, 0fC2FBFFFF;")


def check(ptxas, chosen):
    """Names of entries that ptxas refuses, by compiling all in one module."""
    text = [".version 8.6", ".target sm_90a", ".address_size 64"]
    regs = (".reg .pred p, q, p0; .reg .b16 ha, hb, hc, h, h0, h1; .reg .b32 a, b, c, d, e, t, n, i, hash, d0, d1, d2, d3;"
            " .reg .b64 A, B, C, D, x, y, D0, D1;")
    lines = {}
    for k, (_, _, s) in enumerate(chosen):
        text += [f".visible .entry k{k}()", "{", regs]
        text.append(s)
        lines[len(text)] = k
        text += ["ret;", "}"]
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as f, tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        f.write("\n".join(text) + "\n")
        f.flush()
        done = subprocess.run([ptxas, "-arch=sm_90a", "-o", out.name, f.name], capture_output=True, text=True)
    bad = {lines[int(n)] for n in re.findall(r"line (\d+); error", done.stdout + done.stderr) if int(n) in lines}
    if done.returncode and not bad:
        sys.exit(done.stdout + done.stderr)
    return bad


def main():
    ptxas = "ptxas"
    for arg in sys.argv[1:]:
        if arg.startswith("--ptxas="):
            ptxas = arg[8:]
    chosen = list(dict.fromkeys(forms))
    while True:
        bad = check(ptxas, chosen)
        if not bad:
            break
        chosen = [f for k, f in enumerate(chosen) if k not in bad]
    print("# Made by make_forms.py: DOMAIN RESULT STATEMENT (Forms.h).")
    for domain, result, statement in chosen:
        print(domain, result, statement)
    print("%d of %d forms" % (len(chosen), len(forms)), file=sys.stderr)


if __name__ == "__main__":
    main()
