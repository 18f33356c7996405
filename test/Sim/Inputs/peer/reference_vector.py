"""Expected results of kernels_vector.py: exact integers and bits where the operation defines them."""
import math

import numpy as np

import formats as F
from reference_matmul import cdiv, rng

CASES = {}


def case(*names):
    def add(fn):
        for name in names:
            CASES[name] = lambda new, name=name: fn(new, name)
        return fn
    return add


def spread(g, n, low=-12, high=12):
    """Values over many binades, both signs, ties and zeros among them."""
    x = np.ldexp(g.uniform(1, 2, n), g.integers(low, high, n)) * g.choice([-1, 1], n)
    x[::7] = np.ldexp(np.round(np.ldexp(x[::7], 5)), -5)
    x[:4] = [0.0, -0.0, 1.0, -1.0]
    return x


@case("convert_f32")
def convert_f32(new, name):
    n = 1000
    g = rng(name)
    x = spread(g, n, -20, 18).astype(np.float32)
    x[4:12] = [448, 464, 465, -1e30, 57344, 61440, np.inf, 2.0 ** -10]
    e4, e5 = F.encode(x, F.E4M3), F.encode(x, F.E5M2)
    v4, v5 = F.decode(e4, F.E4M3), F.decode(e5, F.E5M2)
    c = new((cdiv(n, 512),))
    c.inp("x", x)
    with np.errstate(over="ignore"):
        c.out("h", x.astype(np.float16))
    c.out("b", F.bf16(x))
    c.out("e4", e4)
    c.out("e5", e5)
    c.out("fromh", (v4 + v5).astype(np.float16))
    c.out("fromb", F.bf16(v4 - v5))
    c.i32(n)
    c.close()


@case("convert_half")
def convert_half(new, name):
    """Every fp16 and every bf16 number."""
    n = 65536
    h, b = np.arange(n).astype(np.uint16), np.arange(n).astype(np.uint16)
    hv = h.view(np.float16).astype(np.float64)
    bv = F.up(b)
    clip = lambda v: np.where(np.isinf(v), np.copysign(1e30, v), v)
    with np.errstate(invalid="ignore"):
        top = (hv.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    c = new((n // 256,))
    c.inp("h", h)
    c.inp("b", b)
    for out, v, fmt in (("e4h", hv, F.E4M3), ("e5h", hv, F.E5M2), ("e4b", bv, F.E4M3), ("e5b", bv, F.E5M2)):
        c.out(out, np.where(np.isnan(v), 0x7F, F.encode(clip(v), fmt)).astype(np.uint8))
    c.out("e5z", np.where(np.isnan(hv), 0x7FFF, top).astype(np.uint16))
    c.i32(n)
    c.close()


@case("convert_int")
def convert_int(new, name):
    n = 500
    g = rng(name)
    x = g.uniform(-100, 100, n).astype(np.float32)
    x[:6] = [0.99999994, -0.99999994, 0.5, -0.5, 99.5, -99.5]
    k = g.integers(-2 ** 31, 2 ** 31, n).astype(np.int32)
    k[:4] = [0, -1, 2 ** 31 - 1, -2 ** 31]
    f = lambda factor, v=x: (v * np.float32(factor)).astype(np.float64)
    rem = lambda d: np.fmod(k.astype(np.int64), d)  # sign of the dividend, as in C
    c = new((2,))
    c.inp("x", x)
    c.inp("n", k)
    c.out("s8", np.trunc(x).astype(np.int8))
    c.out("u8", np.trunc(np.abs(x)).astype(np.uint8))
    c.out("s16", np.trunc(f(100)).astype(np.int16))
    c.out("s32", np.trunc(f(1e6)).astype(np.int32))
    c.out("u32", np.trunc(f(1e7, np.abs(x))).astype(np.uint32))
    c.out("s64", np.trunc(f(1e12)).astype(np.int64))
    c.out("fs", k.astype(np.float32))
    c.out("fu", k.view(np.uint32).astype(np.float32))
    c.out("fl", (k.astype(np.int64) * 1000003).astype(np.float64))
    c.out("fh", (rem(2048).astype(np.float16) + rem(128).astype(np.float16)).astype(np.float16))
    c.i32(n)
    c.close()


@case("integers")
def integers(new, name):
    n = 700
    g = rng(name)
    a = g.integers(-2 ** 31, 2 ** 31, n)
    b = np.where(g.random(n) < 0.5, g.integers(-2 ** 31, 2 ** 31, n), g.integers(-20, 20, n))
    b = np.where((b == 0) | (b == -1), 3, b)
    ua, ub = a % 2 ** 32, b % 2 ** 32
    trunc = lambda x, y: np.array([int(abs(p) // abs(q)) * (1 if (p < 0) == (q < 0) else -1)
                                   for p, q in zip(x.tolist(), np.broadcast_to(y, x.shape).tolist())], dtype=object)
    wrap = lambda v: np.array([(int(t) + 2 ** 31) % 2 ** 32 - 2 ** 31 for t in v], np.int32)
    u32 = lambda v: np.array([int(t) % 2 ** 32 for t in v], np.uint32)
    q = trunc(a, b)
    s = b & 31
    wide = [p * r + (p << 33) for p, r in zip(a.tolist(), b.tolist())]
    wide = [(w + 2 ** 63) % 2 ** 64 - 2 ** 63 for w in wide]
    wide = [(-(-w // 7) if w < 0 else w % 1000000007) - (w >> 5) for w in wide]
    count = [bin(x).count("1") + 64 * (32 - x.bit_length()) + 4096 * ((y & -y).bit_length())
             ^ int(f"{x:032b}"[::-1], 2) for x, y in zip(ua.tolist(), ub.tolist())]
    shifts = ((ua << s) & 0xFFFFFFFF) ^ ((a >> s) & 0xFFFFFFFF) ^ (ua >> s)
    c = new((3,))
    c.inp("a", a.astype(np.int32))
    c.inp("b", b.astype(np.int32))
    c.out("quotient", wrap(q))
    c.out("remainder", wrap(a.astype(object) - q * b.astype(object)))
    c.out("uq", u32(ua // ub))
    c.out("ur", u32(ua % ub))
    c.out("high", u32([x * y >> 32 for x, y in zip(ua.tolist(), ub.tolist())]))
    c.out("bits", wrap(((a & b) ^ (a | ~b)) + wrap(ua ^ (ub << 3)).astype(np.int64)))
    c.out("shifts", wrap(shifts))
    c.out("wide", np.array(wide, np.int64))
    c.out("count", wrap(count))
    c.i32(n)
    c.close()


@case("mathematics")
def mathematics(new, name):
    n = 300
    x = rng(name).uniform(0.02, 4, n).astype(np.float32)
    v = x.astype(np.float64)
    big = (x * x * x * x * np.float32(1000)).astype(np.float64)
    erf = np.array([math.erf(t) for t in v])
    rows = [np.exp(v), np.exp2(v), np.log(v), np.log2(v), np.sqrt(v), 1 / np.sqrt(v), np.sin(big), np.cos(v), erf,
            np.tanh(v), np.floor(v) + 10 * np.ceil(v), (v * v - 1.5) / v, 1 / v + np.sqrt(v),
            np.rint((x * np.float32(3.7)).astype(np.float64)) + np.trunc(v), v ** 1.7,
            np.clip(v, 0.5, 2.5) + np.minimum(v, 1) + np.maximum(v, 3) + np.abs(v - 2)]
    c = new((cdiv(n, 128),))
    c.inp("x", x)
    c.out("out", np.array(rows), start=np.full((16, n), np.nan, np.float32), rel=1e-6, max_abs=4e-5)
    c.i32(n)
    c.close()


@case("half_math")
def half_math(new, name):
    n = 600
    g = rng(name)
    a = g.standard_normal(n).astype(np.float16)
    b = F.bf16(g.standard_normal(n))
    av, bv = a.astype(np.float64), F.up(b)
    to_half = lambda v: v.astype(np.float16).astype(np.float64)
    fused = to_half(av * av + np.abs(av))  # one rounding: fused multiply-add
    c = new((3,))
    c.inp("x", a)
    c.inp("y", b)
    c.out("oh", (fused - np.minimum(av, 0.25)).astype(np.float16))
    c.out("ob", F.encode(bv * bv - np.maximum(bv, 0.5), F.BF16))
    c.i32(n)
    c.close()


@case("double_math")
def double_math(new, name):
    n = 200
    v = rng(name).uniform(-1, 5, n)
    w = (v * v + 3) / (np.sqrt(v + 2) - 0.5)
    w = np.where(w > 4, w - v, w + v.astype(np.float32))
    c = new((2,))
    c.inp("x", v)
    c.out("out", w, max_abs=1e-14)
    c.i32(n)
    c.close()


@case("row_softmax")
def row_softmax(new, name):
    rows, n = 6, 777
    x = (rng(name).standard_normal((rows, n)) * 3).astype(np.float32)
    v = x.astype(np.float64)
    m = v.max(1, keepdims=True)
    s = np.exp(v - m).sum(1, keepdims=True)
    c = new((rows,))
    c.inp("x", x)
    c.out("y", np.exp(v - m) / s, bf16=True, rel=3e-3)
    c.out("lse", (m + np.log(s))[:, 0].astype(np.float32), max_abs=4e-6)
    c.i32(n)
    c.close()


@case("layer_norm")
def layer_norm(new, name):
    M, N = 10, 200
    g = rng(name)
    x = (g.standard_normal((M, N)) * 2 + 3).astype(np.float16)
    gain, bias = (g.standard_normal(N).astype(np.float32) for _ in range(2))
    v = x.astype(np.float64)
    mean = v.mean(1)
    rstd = 1 / np.sqrt(v.var(1) + 1e-5)
    c = new((cdiv(M, 4),))
    c.inp("x", x)
    c.inp("gain", gain)
    c.inp("bias", bias)
    c.out("y", ((v - mean[:, None]) * rstd[:, None] * gain + bias).astype(np.float16), rel=5e-4)
    c.out("mean", mean.astype(np.float32), rel=1e-6)
    c.out("rstd", rstd.astype(np.float32), rel=1e-6)
    c.i32(M, N)
    c.close()


@case("scans")
def scans(new, name):
    g = rng(name)
    x = g.standard_normal((16, 64)).astype(np.float32)
    k = np.where(g.random((16, 64)) < 0.6, 0, g.integers(-1000, 1000, (16, 64))).astype(np.int32)
    v = x.astype(np.float64)
    filled, affine = k.copy(), v.copy()
    for j in range(1, 64):
        filled[:, j] = np.where(k[:, j] != 0, k[:, j], filled[:, j - 1])
        affine[:, j] = affine[:, j - 1] * (v[:, j] * 0.25) + v[:, j]
    c = new((1,))
    c.inp("x", x)
    c.inp("n", k)
    c.out("csum", v.cumsum(1).astype(np.float32), rel=1e-6)
    c.out("csum0", k.cumsum(0).astype(np.int32))
    c.out("cmax", np.maximum.accumulate(x, 1))
    c.out("rsum", k[:, ::-1].cumsum(1)[:, ::-1].astype(np.int32))
    c.out("filled", filled)
    c.out("affine", affine.astype(np.float32), rel=1e-6)
    c.close()


@case("reductions")
def reductions(new, name):
    g = rng(name)
    x = g.standard_normal((16, 64)).astype(np.float32)
    k = g.integers(-2 ** 31, 2 ** 31, (16, 64)).astype(np.int32)
    v = x.astype(np.float64)
    c = new((1,))
    c.inp("x", x)
    c.inp("n", k)
    c.out("total", v.sum(1).astype(np.float32), max_abs=1e-5)
    c.out("top", x.max(0))
    c.out("where_top", x.argmax(1).astype(np.int32))
    c.out("where_low", x.argmin(0).astype(np.int32))
    c.out("parity", np.bitwise_xor.reduce(k, 1))
    c.out("product", k.min(keepdims=True).reshape(1))
    c.out("mean", v.mean(1).astype(np.float32), max_abs=1e-6)
    c.out("spread", v.var(1).astype(np.float32), max_abs=1e-6)
    c.out("bins", np.bincount((k & 63).ravel(), minlength=64).astype(np.int32))
    c.close()


@case("sorting")
def sorting(new, name):
    x = rng(name).standard_normal((4, 64)).astype(np.float32)
    c = new((1,))
    c.inp("x", x)
    c.out("y", np.sort(x, 1))
    c.out("top", np.sort(x, 1)[:, :-9:-1])
    c.close()


@case("atomics")
def atomics(new, name):
    """Values are multiples of 1/8, so that sums are exact in any order."""
    n, blocks = 900, 4
    g = rng(name)
    x = (g.integers(-16, 17, n) / 8).astype(np.float32)
    k = g.integers(-2 ** 31, 2 ** 31, n).astype(np.int32)
    sets = [np.arange(n) % 16 == b for b in range(16)]
    by = lambda op: np.array([op(k[s]) for s in sets])
    wrap = lambda v, bits: ((v + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1))
    halves = np.array([x[np.arange(n) % 32 == b].sum() for b in range(32)]).astype(np.float16)
    c = new((blocks,))
    c.inp("x", x)
    c.inp("n", k)
    c.out("fsum", np.array([x[s].sum() for s in sets], np.float32), start=np.zeros(16, np.float32))
    c.out("hsum", halves + np.float16(0), start=np.zeros(32, np.float16))
    c.out("isum", wrap(by(lambda t: t.astype(np.int64).sum()), 32).astype(np.int32), start=np.zeros(16, np.int32))
    c.out("low", by(np.min), start=np.full(16, 2 ** 31 - 1, np.int32))
    c.out("high", np.array([x[s].max() for s in sets], np.float32), start=np.full(16, -np.inf, np.float32))
    c.out("bit_and", by(np.bitwise_and.reduce), start=np.full(16, -1, np.int32))
    c.out("bit_or", by(np.bitwise_or.reduce), start=np.zeros(16, np.int32))
    c.out("bit_xor", by(np.bitwise_xor.reduce), start=np.zeros(16, np.int32))
    c.out("ticket", np.array([blocks], np.int32), start=np.zeros(1, np.int32))
    c.out("slots", np.arange(1, blocks + 1).astype(np.int32))
    c.out("wide", by(lambda t: t.astype(np.int64).sum() * 65536), start=np.zeros(16, np.int64))
    c.i32(n)
    c.close()


@case("spinlock")
def spinlock(new, name):
    n, blocks = 100, 6
    x = rng(name).integers(-1000, 1000, (blocks, n)).astype(np.int32)
    c = new((blocks,))
    c.inp("x", x)
    c.out("lock", np.zeros(1, np.int32), start=np.zeros(1, np.int32))
    c.out("total", x.sum(0).astype(np.int32), start=np.zeros(n, np.int32))
    c.i32(n)
    c.close()


@case("shuffles")
def shuffles(new, name):
    R, C = 8, 64
    g = rng(name)
    x = g.integers(-1000, 1000, (R, C)).astype(np.int32)
    k = g.integers(0, C, (R, C)).astype(np.int32)
    taken = np.take_along_axis(x, k, 1)
    c = new((1,))
    c.inp("x", x)
    c.inp("index", k)
    c.out("gathered", taken)
    c.out("flipped", x[:, ::-1].copy())
    c.out("woven", np.stack([x, x + 1], -1).reshape(R, 2 * C))
    c.out("pairs", x[:, 0::2] * 3 - x[:, 1::2])
    c.out("turned", np.ascontiguousarray(x.reshape(R, 4, C // 4).transpose(2, 0, 1)))
    c.out("picked", np.where(k % 3 == 0, -1, np.where(k % 2 == 0, taken, 7)).astype(np.int32))
    c.close()


@case("transpose_f16", "transpose_u8")
def transpose(new, name):
    g = rng(name)
    if name.endswith("u8"):
        x, tile = g.integers(0, 256, (50, 75)).astype(np.uint8), (32, 64)
    else:
        x, tile = g.standard_normal((80, 96)).astype(np.float16), (64, 64)
    c = new((cdiv(x.shape[0], tile[0]), cdiv(x.shape[1], tile[1])))
    c.inp("x", x)
    c.out("y", np.ascontiguousarray(x.T))
    c.i32(*x.shape)
    c.close()


@case("random_bits")
def random_bits(new, name):
    """Philox 4x32 with ten rounds: counter in the first word, the seed in the key."""
    n, seed = 700, 0x12345
    word = [np.arange(n, dtype=np.uint64)] + [np.zeros(n, np.uint64) for _ in range(3)]
    key = [seed, 0]
    for _ in range(10):
        p, q = word[0] * np.uint64(0xD2511F53), word[2] * np.uint64(0xCD9E8D57)
        mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        word = [(q >> half) ^ word[1] ^ np.uint64(key[0]), q & mask,
                (p >> half) ^ word[3] ^ np.uint64(key[1]), p & mask]
        key = [(key[0] + 0x9E3779B9) % 2 ** 32, (key[1] + 0xBB67AE85) % 2 ** 32]
    bits = np.stack(word, 1).astype(np.uint32).view(np.int32)
    first = bits[:, 0].astype(np.int64)
    c = new((cdiv(n, 256),))
    c.out("y", bits)
    c.out("f", (np.where(first < 0, -first - 1, first) * 4.6566127342e-10).astype(np.float32), rel=1e-6)
    c.i32(seed, n)
    c.close()


@case("control")
def control(new, name):
    """The last two programs have no elements and leave at once."""
    n, blocks = 300, 5
    x = rng(name).integers(1, 700, n).astype(np.int32)
    steps = []
    for v in x.tolist():
        count = 0
        while v > 1:
            v = 3 * v + 1 if v % 2 else v // 2
            count += 1
        steps.append(count)
    loops = np.full(blocks, -5)
    for pid in range(cdiv(n, 128)):
        a, b = pid + 1, 0
        while a < 1000:
            a, b = (a * 2 + 1 if a % 3 == 0 else a + 7), b + 1
        loops[pid] = b
    c = new((blocks,))
    c.inp("x", x)
    c.out("y", np.array(steps, np.int32))
    c.out("steps", loops.astype(np.int32), start=np.full(blocks, -5, np.int32))
    c.i32(n)
    c.close()


@case("tma_copy")
def tma_copy(new, name):
    """Loads start above the first row (zeros) and end below the last; stores are clipped at 50 x 24."""
    x = rng(name).integers(-99, 100, (70, 40)).astype(np.float32)
    tiles = np.zeros((2, 32, 32), np.float32)
    for t in range(2):
        for i in range(32):
            if 0 <= t * 32 - 8 + i < 70:
                tiles[t, i, :24] = x[t * 32 - 8 + i, 16:40]
    z = np.ones((20, 28), np.float32)
    c = new((2,))
    c.tensor("x", x)
    c.tensor("y", np.full((50, 24), np.nan, np.float32), 2 * tiles.reshape(64, 32)[:50, :24])
    c.tensor("z", z, z + tiles.sum(0)[:20, :28])
    c.close()


@case("tma_device_map")
def tma_device_map(new, name):
    x = rng(name).standard_normal((80, 96)).astype(np.float16)
    c = new((3, 2))
    c.inp("x", x)
    c.out("y", x + np.float16(1))
    c.i32(*x.shape)
    c.close()


@case("tma_rows")
def tma_rows(new, name):
    g = rng(name)
    x = g.integers(-500, 500, (48, 64)).astype(np.float16)
    index = g.integers(0, 48, 32).astype(np.int32)
    c = new((1,))
    c.tensor("x", x)
    c.inp("index", index)
    c.tensor("y", np.full((32, 64), np.nan, np.float16), x[index][::-1] + np.float16(1))
    c.close()


@case("dependent")
def dependent(new, name):
    x = rng(name).standard_normal(500).astype(np.float32)
    c = new((2,))
    c.inp("x", x)
    c.out("y", x + x)
    c.i32(500)
    c.close()
