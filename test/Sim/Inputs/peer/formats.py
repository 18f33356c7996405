"""Number formats for make_cases.py, by tables and definitions; shares nothing with flamia's C++."""
import numpy as np


def table(exponent, mantissa, bias, top):
    """The values of codes 0..top of a format with a sign bit above."""
    code = np.arange(top + 1)
    e, m = code >> mantissa, code & ((1 << mantissa) - 1)
    return np.where(e == 0, m * 2.0 ** (1 - bias - mantissa), (1 + m / 2.0 ** mantissa) * 2.0 ** (e.astype(float) - bias))


# name: finite non-negative values, sign bit, code of NaN
E4M3 = (table(4, 3, 7, 126), 0x80, 0x7F)
E5M2 = (table(5, 2, 15, 123), 0x80, 0x7F)
E2M1 = (table(2, 1, 1, 7), 0x8, None)
BF16 = (table(8, 7, 127, 0x7F7F), 0x8000, 0x7FFF)
F16 = (table(5, 10, 15, 0x7BFF), 0x8000, 0x7FFF)


def nearest(x, values):
    """Index of the nearest value, ties to even codes, saturating."""
    a = np.abs(np.asarray(x, np.float64))
    hi = np.clip(np.searchsorted(values, a), 1, len(values) - 1)
    lo = hi - 1
    dl, dh = a - values[lo], values[hi] - a
    return np.where((dl < dh) | ((dl == dh) & (lo % 2 == 0)), lo, hi)


def encode(x, fmt):
    """Round to nearest even, saturating to the largest finite value; NaN to the format's NaN."""
    values, sign, nan = fmt
    x = np.asarray(x, np.float64)
    code = nearest(np.where(np.isnan(x), 0, x), values)
    code = np.where(np.signbit(x), code | sign, code)
    code = np.where(np.isnan(x), nan or 0, code)
    return code.astype(np.uint16 if sign > 0x80 else np.uint8)


def decode(code, fmt):
    values, sign, _ = fmt
    code = np.asarray(code)
    v = values[code & (sign - 1)]
    return np.where(code & sign, -v, v)


def bf16(x):
    """Values rounded to bf16, as their 16 bits (overflow to infinity, as without saturation)."""
    u = np.asarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def up(bits):
    """bf16 bits to float64."""
    with np.errstate(invalid="ignore"):  # signaling NaNs among all bit patterns
        return (np.asarray(bits, np.uint32) << 16).view(np.float32).astype(np.float64)


def tf32(x):
    """fp32 numbers with 10 fraction bits, so that the tensor core's truncation is exact."""
    return (np.asarray(x, np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)


def pack4(code):
    """Two e2m1 codes a byte along the last axis, first one in the low nibble."""
    return (code[..., 0::2] | (code[..., 1::2] << 4)).astype(np.uint8)


def scale_atoms(s):
    """Row-major scales [rows, n] in the 128x4 atom order: [1, rows/128, n/4, 2, 256]."""
    r, n = s.shape
    t = s.reshape(r // 128, 4, 32, n // 4, 4)  # [tile, row / 32, row % 32, atom, j]
    return np.ascontiguousarray(t.transpose(0, 3, 2, 1, 4)).reshape(1, r // 128, n // 4, 2, 256)
