"""What the forms that sm_90a does not have must give, in exact rational arithmetic from the text of the PTX ISA.

run(form, inputs, cell) takes the operands of 32 lanes as 64-bit patterns and returns the results and the memory
afterwards, both in the order in which values.py stores them. Where PTX leaves bits open, the conventions are those
that the H200 shows for the other forms: one NaN, and .ftz after rounding with an unbounded exponent.
"""
import re
from fractions import Fraction

import numpy as np

NAN32 = 0x7FFFFFFF
LANES = 32


class Format:
    """A floating-point format: stored mantissa bits, bias, greatest finite code; `inf`: the next code is infinity."""

    def __init__(self, mantissa, bias, top, sign, nan, inf):
        self.mantissa, self.bias, self.top, self.sign, self.nan, self.inf = mantissa, bias, top, sign, nan, inf


F32 = Format(23, 127, 0x7F7FFFFF, 1 << 31, NAN32, True)
F16 = Format(10, 15, 0x7BFF, 1 << 15, 0x7FFF, True)
BF16 = Format(7, 127, 0x7F7F, 1 << 15, 0x7FFF, True)
NARROW = {"e4m3": Format(3, 7, 0x7E, 0x80, 0x7F, False), "e5m2": Format(2, 15, 0x7B, 0x80, 0x7F, False),
          "e2m3": Format(3, 1, 0x1F, 0x20, 0x1F, False), "e3m2": Format(2, 3, 0x1F, 0x20, 0x1F, False),
          "e2m1": Format(1, 1, 0x07, 0x08, 0x07, False)}


def value(code, f):
    """(sign, magnitude): a fraction, "inf" or "nan"."""
    sign, code = bool(code & f.sign), code & (f.sign - 1)
    if code > f.top:
        return sign, "inf" if f.inf and code == f.top + 1 else "nan"
    exponent, mantissa = code >> f.mantissa, code & ((1 << f.mantissa) - 1)
    if exponent:
        mantissa |= 1 << f.mantissa
    return sign, Fraction(mantissa) * Fraction(2) ** (max(exponent, 1) - f.bias - f.mantissa)


def exponent_of(x):
    """floor(log2 x) of a positive fraction."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def to_code(sign, x, f, mode, random=None, bits=0, unbounded=False):
    """Code of a positive fraction without its sign; may be top + 1, which stands for all beyond. `unbounded`: returns the
    rounded fraction, as if there were no smallest exponent."""
    if x == 0:
        return 0
    least = 1 - f.bias
    e = exponent_of(x) if unbounded else max(exponent_of(x), least)
    q = x / Fraction(2) ** (e - f.mantissa)
    whole, rest = divmod(q, 1)
    up = {"rz": False, "rp": rest > 0 and not sign, "rm": rest > 0 and sign, "rna": rest >= Fraction(1, 2),
          "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
          "rs": random is not None and rest + Fraction(random or 0, 1 << bits) >= 1}[mode]
    whole += up
    if unbounded:
        return whole * Fraction(2) ** (e - f.mantissa)
    code = int(whole) + ((e - least) << f.mantissa)
    if code <= f.top:
        return code
    # Directed rounding toward zero stops at the greatest number.
    return f.top if mode == "rz" or (mode == "rp" and sign) or (mode == "rm" and not sign) else f.top + 1


def convert(code, source, target, mode="rn", relu=False, finite=False, random=None, bits=0):
    sign, x = value(code, source)
    if x == "nan":
        return target.nan
    if relu and sign:
        return 0
    c = target.top + 1 if x == "inf" else to_code(sign, x, target, mode, random, bits)
    if c > target.top and (finite or not target.inf):
        c = target.top
    return c | (target.sign if sign else 0)


# ---- fp32 arithmetic on codes


def flush(code):
    return code & 0x80000000 if code & 0x7F800000 == 0 else code


def total(terms, mode, ftz):
    """Sum of signed exact terms [(sign, x)] as an fp32 code."""
    if any(x == "nan" for _, x in terms):
        return NAN32
    signs = {s for s, x in terms if x == "inf"}
    if len(signs) == 2:
        return NAN32
    if signs:
        return 0x7F800000 | (0x80000000 if signs.pop() else 0)
    s = sum((-x if n else x) for n, x in terms)
    if s == 0:
        if all(x == 0 for _, x in terms) and len({n for n, _ in terms}) == 1:
            return 0x80000000 if terms[0][0] else 0
        return 0x80000000 if mode == "rm" else 0
    sign, x = s < 0, abs(s)
    top = 0x80000000 if sign else 0
    if ftz and to_code(sign, x, F32, mode, unbounded=True) < Fraction(2) ** -126:
        return top
    return top | to_code(sign, x, F32, mode)


def product(a, b):
    (s, x), (t, y) = a, b
    sign = s != t
    if "nan" in (x, y) or (x == "inf" and y == 0) or (y == "inf" and x == 0):
        return sign, "nan"
    return sign, "inf" if "inf" in (x, y) else x * y


def saturate(code):
    if code & 0x7FFFFFFF > 0x7F800000 or code >> 31:
        return 0
    return min(code, 0x3F800000)


def arithmetic(base, a, b, c, mode, ftz):
    """a, b, c are (sign, magnitude)."""
    if base == "add":
        return total([a, b], mode, ftz)
    if base == "sub":
        return total([a, (not b[0], b[1])], mode, ftz)
    p = product(a, b)
    if base == "mul":
        # A lone product keeps its sign when it is zero.
        return total([p], mode, ftz)
    return total([p, c], mode, ftz)


def least(codes, is_max, nan, absolute, ftz):
    codes = [flush(c) if ftz else c for c in codes]
    codes = [c & 0x7FFFFFFF if absolute else c for c in codes]
    known = [c for c in codes if c & 0x7FFFFFFF <= 0x7F800000]
    if not known or (nan and len(known) < len(codes)):
        return NAN32
    order = lambda c: -(c & 0x7FFFFFFF) - 0.5 if c >> 31 else c
    return (max if is_max else min)(known, key=order)


def ue8m0(code, source, mode, finite):
    sign, x = value(code, source)
    if x == "nan":
        return 0xFF
    if x == "inf":
        return 0xFE if finite else 0xFF
    if x == 0:
        return 0
    e = exponent_of(x)
    if mode == "rp" and x > Fraction(2) ** e:
        e += 1
    e = max(e, -127)
    return 0xFE if e > 127 and finite else min(e + 127, 0xFF)


def halves(code):
    return code >> 16 & 0xFFFF, code & 0xFFFF


def run(form, inputs, cell):
    op, parts = form.opcode, form.opcode.split(".")
    named = dict(zip(form.src, (list(map(int, c)) for c in inputs)))
    lanes = [[named[s][l] for s in form.src] for l in range(LANES)]
    mode = next((m for m in ("rn", "rz", "rm", "rp", "rs") if m in parts), "rn")
    ftz, relu, finite = "ftz" in parts, "relu" in parts, "satfinite" in parts
    one = lambda f: [[f(*x) for x in lanes]]
    last = parts[-1]
    if last == "f32x2":
        def both(*args):
            out = 0
            for shift in (0, 32):
                v = [(x >> shift) & 0xFFFFFFFF for x in args]
                v = [value(flush(x) if ftz else x, F32) for x in v] + [None]
                out |= arithmetic(parts[0], v[0], v[1], v[2], mode, ftz) << shift
            return out
        return one(both), cell
    if parts[0] in ("min", "max"):
        return one(lambda *x: least(x, parts[0] == "max", "NaN" in parts, "abs" in parts, ftz)), cell
    if parts[0] == "redux":
        r = least([x[0] for x in lanes], "max" in parts, "NaN" in parts, "abs" in parts, False)
        return one(lambda *x: r), cell
    if parts[0] in ("add", "sub", "fma"):
        small = F16 if last == "f16" else BF16
        def mixed(a, b, c=None):
            v = [value(a, small), value(b, F32 if c is None else small), None if c is None else value(c, F32)]
            r = arithmetic(parts[0], *v, mode, False)
            return saturate(r) if "sat" in parts else r
        return one(mixed), cell
    if parts[0] == "cvt":
        return one(conversion(parts, mode, relu, finite)), cell
    words = cell.astype(np.uint64)
    if parts[0] == "ld":
        bits = 64 if last.endswith("64") else 32
        return [[int(words[l][k * bits // 64]) >> (k * bits % 64) & ((1 << bits) - 1) for l in range(LANES)]
                for k in range(256 // bits)], cell
    if parts[0] == "st":
        after, bits = cell.copy(), 64 if last.endswith("64") else 32
        for l in range(LANES):
            for k, v in enumerate(lanes[l]):
                at, shift = k * bits // 64, k * bits % 64
                mask = ((1 << bits) - 1) << shift
                after[l][at] = np.uint64((int(after[l][at]) & ~mask) | v << shift)
        return [], after
    raise KeyError(op)


def conversion(parts, mode, relu, finite):
    to, last = parts[-2], parts[-1]
    if mode == "rs" and to in ("f16x2", "bf16x2"):
        f, n = (F16, 13) if to == "f16x2" else (BF16, 16)
        def pair(a, b, r):
            hi, lo = (convert(x, F32, f, "rs", relu, finite, h & ((1 << n) - 1), n) for x, h in zip((a, b), halves(r)))
            return hi << 16 | lo
        return pair
    if mode == "rs":
        f, width = NARROW[to[:4]], 4 if to.startswith("e2m1") else 8
        def four(a, b, c, d, r):
            hi, lo = halves(r)
            if width == 4:
                hi, lo = (hi >> 8) << 8 | lo >> 8, (hi & 0xFF) << 8 | lo & 0xFF
            out = 0
            for x, bits in ((a, hi), (b, hi), (c, lo), (d, lo)):
                out = out << width | convert(x, F32, f, "rs", relu, True, bits, 16)
            return out
        return four
    if to == "tf32":
        tf32 = Format(10, 127, 0x7F7FE000 >> 13, 1 << 18, NAN32 >> 13, True)
        return lambda a: convert(a, F32, tf32, mode, relu, finite) << 13
    if to == "ue8m0x2":
        if last == "f32":
            return lambda a, b: ue8m0(a, F32, mode, finite) << 8 | ue8m0(b, F32, mode, finite)
        return lambda a: ue8m0(halves(a)[0], BF16, mode, finite) << 8 | ue8m0(halves(a)[1], BF16, mode, finite)
    if last == "ue8m0x2":
        def widen(c):
            return 0x7FFF if c == 0xFF else to_code(False, Fraction(2) ** (c - 127), BF16, "rn")
        return lambda a: widen(a >> 8) << 16 | widen(a & 0xFF)
    name = re.sub("x2$", "", to if to.startswith("e") else last)
    f, width = NARROW[name], 4 if name == "e2m1" else 8
    if to == "f16x2":
        def up(code):
            return convert(code & (2 * f.sign - 1), f, F16, "rn", relu)
        return lambda a: up(a >> width) << 16 | up(a & ((1 << width) - 1))
    if last == "f32":
        return lambda a, b: convert(a, F32, f, "rn", relu, True) << width | convert(b, F32, f, "rn", relu, True)
    return lambda a: convert(halves(a)[0], F16, f, "rn", relu, True) << width | convert(halves(a)[1], F16, f, "rn", relu, True)
