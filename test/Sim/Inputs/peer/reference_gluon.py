"""Expected results of kernels_gluon.py."""
from fractions import Fraction

import numpy as np

import formats as F
from reference_matmul import cdiv, normal, result, rng, scaled_operand

CASES = {}


def case(*names):
    def add(fn):
        for name in names:
            CASES[name] = lambda new, name=name: fn(new, name)
        return fn
    return add


# name: tile, shape, kind
TMEM = {
    "gl_mma_tmem_16x64b": ((128, 64), (256, 64, 144), "f16"),
    "gl_mma_tmem_16x256b": ((128, 64), (128, 128, 192), "bf16"),
    "gl_mma_tmem_m64": ((64, 64), (128, 64, 192), "f16"),
}


@case(*TMEM)
def mma_tmem(new, name):
    (bm, bn), (M, N, K), kind = TMEM[name]
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), kind), normal(g, (N, K), kind)
    c = new((M // bm, N // bn))
    c.tensor("a", a)
    c.tensor("b", b)
    c.out("c", (av @ bv.T).astype(np.float32), rel=1e-5)
    c.i32(K, N)
    c.close()


@case("gl_store_shapes", "gl_store_packed", "gl_copy_shapes")
def identity(new, name):
    x = rng(name).standard_normal((128, 32)).astype(np.float16 if "packed" in name else np.float32)
    c = new((1,))
    c.inp("x", x)
    c.out("y", x)
    c.close()


@case("gl_pair")
def pair(new, name):
    M, N, K = 512, 128, 208
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), "f16"), normal(g, (N, K), "f16")
    c = new((2,))
    c.tensor("a", a)
    c.tensor("b", b)
    result(c, av @ bv.T, "f16")
    c.i32(K)
    c.close()


@case("gl_pair_m128")
def pair_m128(new, name):
    """64 rows a CTA: the columns' halves lie in different lanes of tensor memory."""
    M, N, K = 256, 64, 208
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), "bf16"), normal(g, (N, K), "bf16")
    c = new((2,))
    c.tensor("a", a)
    c.tensor("b", b)
    result(c, av @ bv.T, "bf16")
    c.i32(K)
    c.close()


@case("gl_pair_scaled")
def pair_scaled(new, name):
    M, N, K = 512, 128, 384
    g = rng(name)
    a, av, sa = scaled_operand(g, M, K, "e4m3", 32)
    b, bv, sb = scaled_operand(g, N, K, "e4m3", 32)
    c = new((2,))
    c.tensor("a", a)
    c.tensor("sa", F.scale_atoms(sa))
    c.tensor("b", b)
    c.tensor("sb", F.scale_atoms(sb))
    c.out("c", (av @ bv.T).astype(np.float32), rel=1e-5)
    c.i32(K, N)
    c.close()


@case("gl_roles")
def roles(new, name):
    """Five row tiles over two programs: ring and accumulators wrap around."""
    M, N, K = 600, 64, 208
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), "bf16"), normal(g, (N, K), "bf16")
    c = new((2,))
    c.tensor("a", a)
    c.tensor("b", b)
    result(c, av @ bv.T, "bf16")
    c.i32(M, K)
    c.close()


@case("gl_mxfp8_fp4_padded")
def padded(new, name):
    M, N, K = 128, 128, 384
    g = rng(name)
    a, av, sa = scaled_operand(g, M, K, "e4m3", 32)
    b, bv, sb = scaled_operand(g, N, K, "e2m1", 32)
    c = new((1, 1))
    c.tensor("a", a)
    c.tensor("sa", F.scale_atoms(sa))
    c.tensor("b", b)
    c.tensor("sb", F.scale_atoms(sb))
    c.out("c", (av @ bv.T).astype(np.float32), rel=1e-5)
    c.i32(K, N)
    c.close()


@case("gl_steal")
def steal(new, name):
    """Whoever does a tile, each is done once."""
    n, blocks = 1500, 6
    x = rng(name).integers(-1000, 1000, n).astype(np.int32)
    c = new((blocks,))
    c.inp("x", x)
    c.out("y", x * 3 + 1)
    c.out("owner", np.ones(blocks, np.int32), start=np.zeros(blocks, np.int32))
    c.i32(n)
    c.close()


def fused(a, b, c):
    """a b + c with one rounding to fp32, decided exactly."""
    out = np.empty(len(a), np.float32)
    for i, (p, q, r) in enumerate(zip(a.tolist(), b.tolist(), c.tolist())):
        exact = Fraction(p) * Fraction(q) + Fraction(r)
        near = np.float32(float(exact))
        around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
        out[i] = min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1))
    return out


@case("gl_packed")
def packed(new, name):
    n = 1000
    g = rng(name)
    x, y, z = (g.standard_normal(n).astype(np.float32) for _ in range(3))
    h, k = (v.astype(np.float16).astype(np.float64) for v in (x, y))
    p, q = (F.up(F.bf16(v)) for v in (x, y))
    half = lambda v: v.astype(np.float16).astype(np.float64)
    bf = lambda v: F.decode(F.encode(v, F.BF16), F.BF16)
    c = new((cdiv(n, 512),))
    for n_, v in (("x", x), ("y", y), ("z", z)):
        c.inp(n_, v)
    c.out("oadd", (x + y) - z)
    c.out("omul", x * y)
    c.out("ofma", fused(x, y, z))
    c.out("oh", np.maximum(half(h * k + h), np.minimum(h, k)).astype(np.float16))
    c.out("ob", F.encode(bf(p * q) + np.minimum(p, q), F.BF16))
    c.i32(n)
    c.close()


@case("gl_ld_reduce_sm103")
def ld_reduce(new, name):
    x = rng(name).standard_normal((128, 64)).astype(np.float32)
    c = new((1,))
    c.inp("x", x)
    c.out("y", x)
    c.out("top", x.max(1))
    c.out("low", np.abs(x).min(1))
    c.close()


@case("gl_async_copy")
def async_copy(new, name):
    """The last stage is partly beyond N: a source size of zero fills with zeros and reads nothing."""
    n = 1200
    x = rng(name).integers(-99, 100, n).astype(np.float32)
    v = np.concatenate([x, np.zeros(1536 - n, np.float32)]).reshape(3, 512)
    c = new((1,))
    c.inp("x", x)
    c.out("y", v.sum(0) - 2 * v[0])
    c.i32(n)
    c.close()


@case("gl_tma_reduce")
def tma_reduce(new, name):
    g = rng(name)
    any32 = lambda *s: g.integers(-2 ** 31, 2 ** 31, s).astype(np.int32)
    x = any32(5, 16, 32)
    c = new((5,))
    c.tensor("x", x)
    for n, op in (("low", np.minimum), ("high", np.maximum), ("bits", np.bitwise_and), ("either", np.bitwise_or),
                  ("odd", np.bitwise_xor)):
        start = any32(1, 16, 32)
        c.tensor(n, start, op(op.reduce(x, 0), start))
    c.close()


@case("gl_multicast")
def multicast(new, name):
    x = rng(name).standard_normal((128, 32)).astype(np.float32)
    c = new((2,))
    c.tensor("x", x)
    c.out("y", x + x)
    c.i32(32)
    c.close()


@case("gl_cluster_reduce")
def cluster_reduce(new, name):
    x = rng(name).integers(-99, 100, (2, 1024)).astype(np.float32)
    c = new((2,))
    c.inp("x", x)
    c.out("y", np.ascontiguousarray(x.reshape(2, 16, 64).transpose(0, 2, 1)).reshape(2, 1024))
    c.out("total", x.sum(1))
    c.i32(0)
    c.close()


@case("gl_shared_atomics")
def shared_atomics(new, name):
    g = rng(name)
    x = g.integers(-9999, 10000, 512).astype(np.int32)
    k = g.integers(0, 128, 512).astype(np.int32)
    total, high, bits = np.zeros(128, np.int32), np.full(128, -1000000, np.int32), np.zeros(128, np.int32)
    for v, b in zip(x, k):
        total[b] += v
        bits[b] ^= v
        if v > 0:
            high[b] = max(high[b], v)
    c = new((1,))
    c.inp("x", x)
    c.inp("index", k)
    c.out("total", total)
    c.out("high", high)
    c.out("bits", bits)
    c.i32(0)
    c.close()


@case("gl_mma_sync_e4m3", "gl_mma_sync_tf32", "gl_mma_sync_acc16")
def mma_sync(new, name):
    g = rng(name)
    K = 64 if "e4m3" in name else 32
    kinds = ("e4m3", "e5m2") if "e4m3" in name else ("tf32", "tf32") if "tf32" in name else ("f16", "f16")
    (a, av), (b, bv) = normal(g, (32, K), kinds[0]), normal(g, (16, K), kinds[1])
    c = new((1,))
    c.inp("a", a)
    c.inp("b", b)
    if "acc16" in name:
        c.out("c", (av @ bv.T).astype(np.float16), rel=1e-3)
    else:
        c.out("c", (av @ bv.T).astype(np.float32), rel=1e-5)
    c.close()


@case("gl_swizzles")
def swizzles(new, name):
    x = rng(name).integers(-99, 100, (128, 16)).astype(np.float32)
    t = x.reshape(4, 32, 16)
    c = new((1,))
    for n in ("x32", "x64", "x0", "xt"):
        c.tensor(n, x)
    c.out("y", t[0] + 2 * t[1] + 4 * t[2] + 8 * t[3])
    c.close()
